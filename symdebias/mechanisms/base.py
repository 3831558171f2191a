"""What every mechanism has: a noise, a guarantee, and `privatize`, which clips and then noises."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from symdebias._arrays import FloatArray, value_array
from symdebias.mechanisms import sampling
from symdebias.noise import AdditiveNoise, ChannelNoise, ClippedNoise, declared_state
from symdebias.privacy import Guarantee

_MAKER = object()


class Clipped:
    """Values within the bounds of one mechanism. `Mechanism.clip` makes them, and nothing else can.

    The noise step takes this type, so that values which were not clipped cannot reach it by mistake. The
    values are a read-only copy.

    Attributes
    ----------
    values : array of shape (n,) or (n, k), float64
        The values.
    outside : array of shape (n,), bool
        Which records lay outside the bounds: a statistic of the data, for the collector only.
    mechanism : Mechanism
        Whose bounds they keep.

    Raises
    ------
    TypeError
        It was not made by `Mechanism.clip`.
    """

    __slots__ = ("mechanism", "outside", "values")

    def __init__(
        self,
        values: FloatArray,
        outside: np.ndarray[Any, np.dtype[np.bool_]],
        mechanism: "Mechanism",
        *,
        maker: object = None,
    ) -> None:
        if maker is not _MAKER:
            raise TypeError(
                "clipped values are made by Mechanism.clip, so that nothing is noised unclipped. Call clip."
            )
        values.flags.writeable = False
        self.values = values
        self.outside = outside
        self.mechanism = mechanism


class Mechanism(ABC):
    """A way of noising, immutable and comparable.

    A new mechanism states its noise, its guarantee, its bounds (`_bring_inside`), its draw (`_add_noise`)
    and its card, and enters the table `symdebias.mechanisms.KINDS`.
    """

    kind: ClassVar[str]

    __getstate__ = declared_state

    @property
    @abstractmethod
    def noise(self) -> AdditiveNoise | ChannelNoise | ClippedNoise:
        """The noise, which a correction undoes."""

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee | None:
        """The local guarantee for one record, or None for known noise without a privacy claim."""

    @property
    @abstractmethod
    def bound(self) -> float | None:
        """The largest L2 norm of a value within the declared bounds, or None where none is declared."""

    @property
    def width(self) -> int | None:
        """The number of columns that it noises together, or None where it takes any number."""
        return None

    def clip(self, values: ArrayLike) -> Clipped:
        """Return values within the declared bounds.

        Parameters
        ----------
        values : array of shape (n,) or (n, k)
            Finite numbers or row vectors; they are not changed.

        Returns
        -------
        Clipped
            A copy within the bounds, which `add_noise` takes.

        Raises
        ------
        TypeError, ValueError
            Values are not finite numbers, or cannot be brought within the bounds (a label that was not
            declared).
        """
        inside, outside = self._bring_inside(value_array(values))
        return Clipped(inside, outside, self, maker=_MAKER)

    def add_noise(self, clipped: Clipped, source: sampling.Source) -> FloatArray:
        """Return noised values.

        Parameters
        ----------
        clipped : Clipped
            What `clip` of this mechanism or of an equal one returned.
        source : sampling.Source
            Where the random numbers come from.

        Raises
        ------
        TypeError
            The values were not clipped.
        ValueError
            They were clipped to the bounds of another mechanism.
        """
        if not isinstance(clipped, Clipped):
            raise TypeError(f"only clipped values are noised; got {type(clipped).__name__}. Call clip first.")
        if clipped.mechanism != self:
            raise ValueError(
                f"these values were clipped for {clipped.mechanism}, not for {self}. Clip them with this mechanism."
            )
        return self._add_noise(clipped.values, source)

    def privatize(self, values: ArrayLike, *, random_state: int | np.random.Generator | None = None) -> FloatArray:
        """Clip values and noise them.

        Parameters
        ----------
        values : array of shape (n,) or (n, k)
            Finite numbers or row vectors.
        random_state : int, numpy.random.Generator or None
            None draws on the operating system. A seed is for tests and simulations: whoever knows it can
            subtract the noise, and nothing in the returned array says so. `Release.privatize` records it.

        Returns
        -------
        array of the shape of `values`, float64
            The noised values.
        """
        clipped = self.clip(values)
        return self.add_noise(clipped, sampling.source(random_state))

    @abstractmethod
    def _bring_inside(self, values: FloatArray) -> tuple[FloatArray, np.ndarray[Any, np.dtype[np.bool_]]]:
        """Return a copy within the bounds, and which records lay outside."""

    @abstractmethod
    def _add_noise(self, values: FloatArray, source: sampling.Source) -> FloatArray:
        """Return noised values of values within the bounds."""

    @abstractmethod
    def to_card(self) -> dict[str, Any]:
        """Return the arguments that make an equal mechanism, as JSON values."""

    @classmethod
    @abstractmethod
    def from_card(cls, card: dict[str, Any]) -> "Mechanism":
        """Make the mechanism that `to_card` described."""
