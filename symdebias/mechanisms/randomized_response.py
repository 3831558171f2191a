"""Randomized response: a value out of k is sent as it is, or another one in its place."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from symdebias._arrays import FloatArray, check_labels
from symdebias._domains import EPSILON, LabelSet, shown
from symdebias.mechanisms import sampling
from symdebias.mechanisms.base import Mechanism
from symdebias.noise import ChannelNoise
from symdebias.privacy import Guarantee, keep_probability


@dataclass(frozen=True)
class RandomizedResponse(Mechanism):
    """Randomized response on a value out of k: kept with probability 1/(1 + (k - 1) e^-epsilon).

    Otherwise one of the other k - 1 values is sent, each with the same probability.

    Parameters
    ----------
    epsilon : float
        Privacy budget, in [1e-6, 700]; pure local differential privacy, replace-one.
    categories : sequence of float or of str
        The k >= 2 values, distinct; -1 and +1 by default. They are declared, never read off the data. Two numbers
        are kept in ascending order, everything else in the order given. Text stands for the codes 0 to k - 1.

    Raises
    ------
    ValueError, TypeError
        An argument is outside its range.

    Notes
    -----
    The probability of keeping is rounded down to a multiple of 2^-53, and this is what the coin realises and
    what `noise` and `gain` state: the inverse of the noise is that of the noise drawn. The coin takes no account
    of attacks on the time or the memory of the machine.

    References
    ----------
    Warner 1965; Kairouz, Oh & Viswanath 2014, Section 3.1; Dufraiche et al. 2026, Section 3.

    Examples
    --------
    >>> round(RandomizedResponse(epsilon=1.0).gain, 6)
    2.163953
    >>> RandomizedResponse(epsilon=1.0, categories=("n", "e", "s", "w")).noise.inputs
    (0.0, 1.0, 2.0, 3.0)
    """

    epsilon: float
    categories: tuple[Any, ...] = (-1.0, 1.0)
    kind: ClassVar[str] = "randomized_response"

    def __post_init__(self) -> None:
        object.__setattr__(self, "categories", declared_categories(self.categories))
        object.__setattr__(self, "epsilon", EPSILON.check("epsilon", self.epsilon))

    @cached_property
    def keep_probability(self) -> float:
        """The probability that the value is sent as it is, a multiple of 2^-53."""
        return keep_probability(self.epsilon, len(self.categories))

    @property
    def gain(self) -> float:
        """(k - 1)/(k keep - 1): what the distance from the mean of the values is multiplied by to be unbiased.

        coth(epsilon/2) for two values.
        """
        k = len(self.categories)
        return (k - 1) / (k * self.keep_probability - 1.0)

    @cached_property
    def noise(self) -> ChannelNoise:
        """The channel, with the probabilities that the coin realises."""
        k = len(self.categories)
        keep, other = self.keep_probability, (1 - self.keep_probability) / (k - 1)
        rows = tuple(tuple(keep if i == j else other for j in range(k)) for i in range(k))
        return ChannelNoise(self._values, self._values, rows)

    @property
    def _values(self) -> tuple[float, ...]:
        return coded(self.categories)

    @property
    def guarantee(self) -> Guarantee:
        """(epsilon, 0) in the local model."""
        return Guarantee(self.epsilon, 0.0)

    @property
    def bound(self) -> float:
        """The largest absolute value; of the codes where the categories are text."""
        return max(abs(value) for value in self._values)

    @property
    def width(self) -> int:
        """One column."""
        return 1

    def _bring_inside(self, values: FloatArray) -> tuple[FloatArray, np.ndarray[Any, np.dtype[np.bool_]]]:
        return one_label_each(values, self._values, "randomized response")

    def _add_noise(self, values: FloatArray, source: sampling.Source) -> FloatArray:
        known = np.array(self._values)
        order = np.argsort(known)
        places = order[np.searchsorted(known, values, sorter=order)]
        changed = sampling.flips(1 - self.keep_probability, len(values), source)
        # One to k - 1 places further round the circle: each other value with the same probability.
        moves = sampling.integers(1, len(known), len(values), source)
        sent: FloatArray = known[np.where(changed, (places + moves) % len(known), places)]
        return sent

    def to_card(self) -> dict[str, Any]:
        """Return what makes an equal mechanism."""
        return {"epsilon": self.epsilon, "categories": list(self.categories)}

    @classmethod
    def from_card(cls, card: dict[str, Any]) -> "RandomizedResponse":
        """Make the mechanism that `to_card` described."""
        if set(card) != {"epsilon", "categories"}:
            raise ValueError("randomized response has exactly the entries epsilon and categories")
        return cls(**card)


def declared_categories(categories: Any, name: str = "categories") -> tuple[Any, ...]:
    """Return declared categories, checked: all numbers or all text, distinct.

    Parameters
    ----------
    categories : sequence of float or of str
        At least two; two numbers come back in ascending order.
    name : str
        The name of the argument.

    Raises
    ------
    TypeError, ValueError
        They are no sequence, mixed, repeated or not finite.
    """
    if hasattr(categories, "tolist"):
        categories = categories.tolist()
    if isinstance(categories, Sequence) and not isinstance(categories, (str, bytes)):
        text = [isinstance(value, str) for value in categories]
        if any(text) and all(text) and all(categories):
            if len(categories) < 2 or len(set(categories)) < len(categories):
                raise ValueError(
                    f"{name}={shown(tuple(categories), 100)} does not list two or more different values. Name each "
                    "category once."
                )
            return tuple(categories)
    checked = LabelSet.declare(name, categories)
    if len(checked.values) == 2:
        return checked.values
    return tuple(float(value) for value in categories)


def coded(categories: tuple[Any, ...]) -> tuple[float, ...]:
    """Return the numbers that stand for categories: themselves, or the codes 0 to k - 1 of text."""
    if isinstance(categories[0], str):
        return tuple(float(code) for code in range(len(categories)))
    return categories


def one_label_each(
    values: FloatArray, allowed: tuple[float, ...], of: str
) -> tuple[FloatArray, np.ndarray[Any, np.dtype[np.bool_]]]:
    """Return labels as they are, after refusing others than the declared ones.

    Parameters
    ----------
    values : array of shape (n,) or (n, 1), float64
        Labels.
    allowed : tuple of float
        The declared ones.
    of : str
        What takes the labels, for messages.
    """
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise ValueError(f"{of} takes one label per record; got the shape {values.shape}. Pass an array of shape (n,).")
    # There is nothing that a label outside the set could be clipped to.
    check_labels(values, allowed, "labels", declare="categories={} on the mechanism")
    return values.copy(), np.zeros(len(values), dtype=bool)
