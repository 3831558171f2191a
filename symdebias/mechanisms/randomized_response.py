"""Randomized response: a value of two is kept with probability 1/(1 + e^-epsilon), else the other is sent."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from symdebias._arrays import FloatArray, check_labels
from symdebias._domains import EPSILON, LabelSet
from symdebias.mechanisms import sampling
from symdebias.mechanisms.base import Mechanism
from symdebias.noise import FiniteChannel
from symdebias.privacy import Guarantee, keep_probability


@dataclass(frozen=True)
class RandomizedResponse(Mechanism):
    """Randomized response on a value out of two.

    Parameters
    ----------
    epsilon : float
        Privacy budget, in [1e-6, 700]; pure local differential privacy, replace-one.
    categories : sequence of two floats
        The two values, distinct and finite; -1 and +1 by default. They are declared, never read off the
        data, and kept in ascending order.

    Raises
    ------
    ValueError, TypeError
        An argument is outside its range.

    Notes
    -----
    The probability of keeping is 1/(1 + e^-epsilon) rounded down to a multiple of 2^-53, and this is what
    the coin realises and what `noise` and `gain` state: the inverse of the noise is that of the noise drawn.
    The coin takes no account of attacks on the time or the memory of the machine.

    References
    ----------
    Warner 1965; Dufraiche et al. 2026, Section 3.

    Examples
    --------
    >>> round(RandomizedResponse(epsilon=1.0).gain, 6)
    2.163953
    """

    epsilon: float
    categories: tuple[float, ...] = (-1.0, 1.0)
    kind: ClassVar[str] = "randomized_response"

    def __post_init__(self) -> None:
        categories = LabelSet.declare("categories", self.categories, count=2).values
        object.__setattr__(self, "epsilon", EPSILON.check("epsilon", self.epsilon))
        object.__setattr__(self, "categories", categories)

    @cached_property
    def keep_probability(self) -> float:
        """The probability that the value is sent as it is, a multiple of 2^-53."""
        return keep_probability(self.epsilon)

    @property
    def gain(self) -> float:
        """coth(epsilon/2): gain times the sent sign is unbiased for the true one."""
        return 1.0 / (2.0 * self.keep_probability - 1.0)

    @property
    def noise(self) -> FiniteChannel:
        """The channel, with the probabilities that the coin realises."""
        keep = self.keep_probability
        return FiniteChannel(self.categories, self.categories, ((keep, 1 - keep), (1 - keep, keep)))

    @property
    def guarantee(self) -> Guarantee:
        """(epsilon, 0) in the local model."""
        return Guarantee(self.epsilon, 0.0)

    @property
    def bound(self) -> float:
        """The larger of the two absolute values."""
        return max(abs(value) for value in self.categories)

    def _bring_inside(self, values: FloatArray) -> tuple[FloatArray, np.ndarray[Any, np.dtype[np.bool_]]]:
        if values.ndim != 1:
            raise ValueError(
                f"randomized response takes one label per record; got the shape {values.shape}. Pass an "
                "array of shape (n,)."
            )
        # There is nothing that a label outside the set could be clipped to.
        check_labels(values, self.categories, "labels", declare="categories={} on the mechanism")
        return values.copy(), np.zeros(len(values), dtype=bool)

    def _add_noise(self, values: FloatArray, source: sampling.Source) -> FloatArray:
        first, second = self.categories
        flipped = sampling.flips(1 - self.keep_probability, len(values), source)
        return np.where(flipped, np.where(values == first, second, first), values)

    def to_card(self) -> dict[str, Any]:
        """Return what makes an equal mechanism."""
        return {"epsilon": self.epsilon, "categories": list(self.categories)}

    @classmethod
    def from_card(cls, card: dict[str, Any]) -> "RandomizedResponse":
        """Make the mechanism that `to_card` described."""
        if set(card) != {"epsilon", "categories"}:
            raise ValueError("randomized response has exactly the entries epsilon and categories")
        return cls(**card)
