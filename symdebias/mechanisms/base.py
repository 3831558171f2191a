"""What every mechanism has: a noise, a guarantee, and `privatize`, which clips and then noises."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from symdebias.mechanisms.sampling import Source
from symdebias.noise import AdditiveNoise, FiniteChannel
from symdebias.privacy import Guarantee

FloatArray = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class Clipped:
    """Values that lie within a mechanism's bounds. Made by `Mechanism.clip` and by nothing else.

    The noise step takes this type, so that unclipped values cannot reach it by mistake.

    Attributes
    ----------
    values : array of shape (n,) or (n, k), float64
        The values.
    moved : int
        How many records lay outside: a statistic of the data, for the collector only.
    """

    values: FloatArray
    moved: int


class Mechanism(ABC):
    """A way of noising, immutable and comparable."""

    kind: str

    @property
    @abstractmethod
    def noise(self) -> AdditiveNoise | FiniteChannel:
        """The noise, which a correction undoes."""

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee | None:
        """The local guarantee for one record, or None for known noise without a privacy claim."""

    @abstractmethod
    def clip(self, values: FloatArray) -> Clipped:
        """Return values within the declared bounds."""

    @abstractmethod
    def add_noise(self, clipped: Clipped, source: Source) -> FloatArray:
        """Return noised values."""

    @abstractmethod
    def to_card(self) -> dict[str, Any]:
        """Return the arguments that make an equal mechanism, as JSON values."""

    @classmethod
    @abstractmethod
    def from_card(cls, card: dict[str, Any]) -> "Mechanism":
        """Make the mechanism that `to_card` described."""
