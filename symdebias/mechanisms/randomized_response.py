"""Randomized response: a value of two is kept with probability 1/(1 + e^-epsilon), else the other is sent."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from symdebias._arrays import check_labels
from symdebias._domains import EPSILON
from symdebias.mechanisms import sampling
from symdebias.mechanisms.base import Clipped, FloatArray, Mechanism
from symdebias.noise import FiniteChannel
from symdebias.privacy import Guarantee, keep_probability


@dataclass(frozen=True)
class RandomizedResponse(Mechanism):
    """Randomized response on a value out of two.

    Parameters
    ----------
    epsilon : float
        Privacy budget, in [1e-6, 700]; pure local differential privacy.
    categories : sequence of two floats
        The two values, distinct and finite; -1 and +1 by default.

    Raises
    ------
    ValueError, TypeError
        An argument is outside its range.

    Notes
    -----
    The coin is compared with a 53-bit uniform number, which realises its probability to 1e-16.

    References
    ----------
    Warner 1965; Dufraiche et al. 2026, Section 3.

    Examples
    --------
    >>> round(RandomizedResponse(epsilon=1.0).gain, 6)
    2.163953
    """

    epsilon: float
    categories: tuple[float, float] = (-1.0, 1.0)
    kind: ClassVar[str] = "randomized_response"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", EPSILON.check("epsilon", self.epsilon))
        object.__setattr__(self, "categories", _two_numbers(self.categories))

    @property
    def keep_probability(self) -> float:
        """The probability that the value is sent as it is."""
        return keep_probability(self.epsilon)

    @property
    def gain(self) -> float:
        """coth(epsilon/2), which makes gain times the sent sign unbiased."""
        return 1.0 / math.tanh(self.epsilon / 2)

    @property
    def noise(self) -> FiniteChannel:
        """The channel's matrix."""
        # 1/(1 + e^eps) keeps its digits where 1 - keep would lose them.
        other = math.exp(-self.epsilon) * self.keep_probability
        keep = 1.0 - other
        return FiniteChannel(self.categories, self.categories, ((keep, other), (other, keep)))

    @property
    def guarantee(self) -> Guarantee:
        """(epsilon, 0) in the local model."""
        return Guarantee(self.epsilon, 0.0)

    def clip(self, values: FloatArray) -> Clipped:
        """Return the values if all are categories; there is nothing to clip them to otherwise."""
        check_labels(values, self.categories, "labels")
        return Clipped(values, 0)

    def add_noise(self, clipped: Clipped, source: sampling.Source) -> FloatArray:
        """Return each value or, with probability 1/(1 + e^epsilon), the other one."""
        first, second = self.categories
        flipped = sampling.flips(1.0 / (1.0 + math.exp(self.epsilon)), len(clipped.values), source)
        return np.where(flipped, np.where(clipped.values == first, second, first), clipped.values)

    def to_card(self) -> dict[str, Any]:
        """Return what makes an equal mechanism."""
        return {"epsilon": self.epsilon, "categories": list(self.categories)}

    @classmethod
    def from_card(cls, card: dict[str, Any]) -> "RandomizedResponse":
        """Make the mechanism that `to_card` described."""
        return cls(**card)


def _two_numbers(categories: Sequence[float]) -> tuple[float, float]:
    remedy = "Give two distinct finite numbers, such as categories=(-1, 1)."
    try:
        values = tuple(float(value) for value in categories)
    except (TypeError, ValueError):
        raise TypeError(f"categories={categories!r} are not numbers. {remedy}") from None
    if len(values) != 2 or len(set(values)) < 2 or not all(math.isfinite(value) for value in values):
        raise ValueError(f"categories={tuple(categories)!r} are not two distinct finite numbers. {remedy}")
    first, second = values
    return first, second
