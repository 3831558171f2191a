"""Additive noise whose outcome is clipped to an interval: as private as without, and biased, for comparison."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from symdebias._arrays import FloatArray
from symdebias.mechanisms import sampling
from symdebias.mechanisms.base import Clipped, Mechanism
from symdebias.mechanisms.ranges import Range
from symdebias.noise import AdditiveNoise, ClippedNoise
from symdebias.privacy import Guarantee


@dataclass(frozen=True)
class ClippedMechanism(Mechanism):
    """An additive mechanism for a target, with what comes out of it clipped to [low, high].

    Parameters
    ----------
    mechanism : Mechanism
        The additive mechanism of one number per record: Laplace, discrete Laplace, staircase or normal noise.
    low, high : float
        What comes out lies between them; finite, low < high.

    Raises
    ------
    ValueError, TypeError
        The mechanism is not additive, or an end is not a number.

    Notes
    -----
    Clipping afterwards costs no privacy and lowers the error of the single label, but its mean is no longer the label,
    so that a model which is trained on such labels is biased whatever the number of records. This noise has no
    correction: `debias` takes it with ``method="none"`` alone. Release without clipping for anything but comparison.

    References
    ----------
    Dwork & Roth 2014, Proposition 2.1 (post-processing).

    Examples
    --------
    >>> import symdebias as sd
    >>> mechanism = ClippedMechanism(sd.LaplaceMechanism(epsilon=1.0, bounds=(0, 1)), 0, 1)
    >>> sent = mechanism.privatize(np.ones(1000), random_state=0)
    >>> float(sent.min()), float(sent.max()), print(mechanism.guarantee)
    (1, 0)-differential privacy (local, replace-one)
    (0.0, 1.0, None)
    """

    mechanism: Mechanism
    low: float
    high: float
    kind: ClassVar[str] = "clipped"

    def __post_init__(self) -> None:
        mechanism: Any = self.mechanism
        if not isinstance(mechanism, Mechanism):
            raise TypeError(
                f"mechanism has the type {type(mechanism).__name__}. It must be a Mechanism with additive noise: give "
                "one, such as LaplaceMechanism(epsilon=1.0, bounds=(0, 1))."
            )
        if mechanism.width not in (None, 1) or not isinstance(mechanism.noise, AdditiveNoise):
            raise TypeError(
                f"{mechanism!r:.100} of the kind {mechanism.kind!r} does not add noise to one number. Only additive "
                "noise on a target is clipped: give a LaplaceMechanism or another additive one."
            )
        noise = ClippedNoise(mechanism.noise, self.low, self.high)
        self._declare(low=noise.low, high=noise.high)

    @property
    def noise(self) -> ClippedNoise:
        """The noise and the interval."""
        noise = self.mechanism.noise
        assert isinstance(noise, AdditiveNoise)
        return ClippedNoise(noise, self.low, self.high)

    @property
    def guarantee(self) -> Guarantee | None:
        """That of the mechanism: what is done to its output afterwards costs nothing."""
        return self.mechanism.guarantee

    @property
    def range(self) -> Range:
        """That of the mechanism."""
        return self.mechanism.range

    @property
    def width(self) -> int:
        """One column."""
        return 1

    def clip(self, values: ArrayLike) -> Clipped:
        """Return values within the bounds of the mechanism; one number per record.

        Parameters
        ----------
        values : array of shape (n,) or (n, 1)
            Finite numbers; they are not changed.

        Raises
        ------
        TypeError, ValueError
            Values are not finite numbers, or vectors.
        """
        clipped = super().clip(values)
        if clipped.values.ndim > 1 and clipped.values.shape[1] != 1:
            raise ValueError(
                f"the values have the shape {clipped.values.shape}, and what is clipped to "
                f"[{self.low:g}, {self.high:g}] is one number per record. Pass one column, or noise vectors without "
                "clipping what comes out."
            )
        return clipped

    def _add_noise(self, values: FloatArray, source: sampling.Source) -> FloatArray:
        return np.clip(self.mechanism._add_noise(values, source), self.low, self.high)
