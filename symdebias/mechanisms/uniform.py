"""Known uniform noise: rounding errors and jitter, which protect nothing but can be undone for polynomials."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from symdebias._arrays import FloatArray
from symdebias._domains import SCALE
from symdebias.mechanisms import sampling
from symdebias.mechanisms.base import Mechanism
from symdebias.mechanisms.bounds import checked_bounds, clipped_to
from symdebias.noise import AdditiveNoise, uniform_noise


@dataclass(frozen=True)
class UniformMechanism(Mechanism):
    """Uniform noise on [-half_width, half_width], without a privacy claim.

    Parameters
    ----------
    half_width : float
        Half the width of the noise, positive; the variance is half_width^2/3.
    bounds : pair of float, optional
        Public bounds of the numbers; without them nothing is clipped.

    Raises
    ------
    ValueError, TypeError
        An argument is outside its range.

    Notes
    -----
    No epsilon protects: a value outside the reach of another rules it out. Its inverse is an infinite telescoping
    sum, so that only polynomials have an exact correction.

    References
    ----------
    Sheppard 1898 (corrections of moments for grouping, which this undoes).

    Examples
    --------
    >>> round(UniformMechanism(0.5).noise.variance, 4)
    0.0833
    """

    half_width: float
    bounds: tuple[float, float] | None = None
    kind: ClassVar[str] = "uniform"

    def __post_init__(self) -> None:
        object.__setattr__(self, "half_width", SCALE.check("half_width", self.half_width))
        object.__setattr__(self, "bounds", None if self.bounds is None else checked_bounds(self.bounds))

    @property
    def noise(self) -> AdditiveNoise:
        """The uniform noise."""
        return uniform_noise(self.half_width)

    @property
    def guarantee(self) -> None:
        """None: bounded noise rules values out."""
        return None

    @property
    def bound(self) -> float | None:
        """The largest absolute value within the bounds."""
        return None if self.bounds is None else max(map(abs, self.bounds))

    @property
    def width(self) -> int | None:
        """One column with bounds."""
        return None if self.bounds is None else 1

    def _bring_inside(self, values: FloatArray) -> tuple[FloatArray, np.ndarray[Any, np.dtype[np.bool_]]]:
        return clipped_to(values, self.bounds, "uniform noise")

    def _add_noise(self, values: FloatArray, source: sampling.Source) -> FloatArray:
        return values + sampling.uniform_noise(self.half_width, values.shape, source)

    def to_card(self) -> dict[str, Any]:
        """Return what makes an equal mechanism."""
        return {"half_width": self.half_width, "bounds": None if self.bounds is None else list(self.bounds)}

    @classmethod
    def from_card(cls, card: dict[str, Any]) -> "UniformMechanism":
        """Make the mechanism that `to_card` described."""
        if set(card) != {"half_width", "bounds"}:
            raise ValueError("uniform noise has exactly the entries half_width and bounds")
        return cls(**card)
