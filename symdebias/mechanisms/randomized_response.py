"""Randomized response: a value out of k is sent as it is, or another one in its place."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from symdebias._arrays import FloatArray
from symdebias._domains import EPSILON, Interval
from symdebias.codegen import draws
from symdebias.mechanisms import sampling, scratch
from symdebias.mechanisms.base import ChannelMechanism, Clipped
from symdebias.mechanisms.ranges import Labels
from symdebias.noise import ChannelNoise, SymmetricChannel
from symdebias.privacy import Guarantee, keep_probability

_KEPT = (
    "Give the probability that a value is sent as it is: each of the {count} is sent as often whatever the true one is "
    "at the lower end, and nothing is noised at the upper one. Where another value is sent more often, as in some "
    "surveys, that is a FiniteChannel (finite_channel in a noise description), by its matrix."
)


@dataclass(frozen=True)
class RandomizedResponse(ChannelMechanism):
    """Randomized response on a value out of k: kept with probability 1/(1 + (k - 1) e^-epsilon).

    Otherwise one of the other k - 1 values is sent, each with the same probability.

    Parameters
    ----------
    epsilon : float
        Privacy budget, in [1e-6, 700]; pure local differential privacy, replace-one.
    categories : sequence of float or of str
        The k >= 2 values, distinct and at most 10,000; -1 and +1 by default. They are declared, never read off the
        data. Two numbers are kept in ascending order, everything else in the order given. Text stands for the codes 0
        to k - 1.

    Raises
    ------
    ValueError, TypeError
        An argument is outside its range.

    Notes
    -----
    The probability of keeping is rounded down to a multiple of 2^-53, and this is what the coin realises and
    what `noise` and `gain` state: the inverse of the noise is that of the noise drawn. A coin takes eight bits, and
    53 where these leave it open. It takes no account of attacks on the memory of the machine.

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
        labels = Labels.declared(self.categories, "categories")
        values = tuple(sorted(labels.values)) if labels.is_number_pair else labels.values
        self._declare(categories=values, epsilon=EPSILON.check("epsilon", self.epsilon))

    @classmethod
    def from_keep_probability(cls, keep: float, categories: Sequence[Any] = (-1.0, 1.0)) -> "RandomizedResponse":
        """Return the randomized response that sends a value as it is with this probability, as others describe it.

        Parameters
        ----------
        keep : float
            In (1/k, 1). Answers that are exchanged with probability 0.2 are kept with 0.8; where a value is redrawn
            among all k with probability f, itself among them, it is kept with 1 - f + f/k.
        categories : sequence of float or of str
            As for the constructor.

        Raises
        ------
        ValueError, TypeError
            An argument is outside its range: values that are kept no more often than others are sent tell nothing.

        Notes
        -----
        The budget is log(keep (k - 1)/(1 - keep)).

        Examples
        --------
        >>> told = RandomizedResponse.from_keep_probability(0.8, ("no", "yes"))
        >>> round(told.epsilon, 3), round(told.keep_probability, 3)
        (1.386, 0.8)
        """
        count = len(Labels.declared(categories, "categories").values)
        chance = Interval(1 / count, 1.0, "neither", _KEPT.format(count=count)).check("keep", keep)
        return cls(math.log(chance) + math.log(count - 1) - math.log1p(-chance), tuple(categories))

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
        return SymmetricChannel(self.range.numbers, keep=self.keep_probability)

    @cached_property
    def range(self) -> Labels:
        """The categories."""
        return Labels(self.categories)

    @property
    def sent(self) -> Labels:
        """The categories."""
        return self.range

    @property
    def guarantee(self) -> Guarantee:
        """(epsilon, 0) in the local model."""
        return Guarantee(self.epsilon, 0.0)

    def _add_noise(self, values: FloatArray, source: sampling.Source) -> FloatArray:
        known = np.array(self.range.numbers)
        if len(known) == 2:
            return sampling.swapped(values, (known[0], known[1]), 1 - self.keep_probability, source)
        sent, change = values if values.flags.writeable else np.empty(len(values)), 1 - self.keep_probability
        if source.hardened and not source.seeded and len(values) >= draws.MANY and values.flags.c_contiguous:

            def exchange(part: slice) -> None:
                sampling.exchange_labels(self.range.places(values[part]), known, change, sent[part], source)

            sampling.in_parts(len(values), exchange, source, scratch.PART)
            return sent

        def draw(part: slice) -> None:
            places = self.range.codes(values[part])
            sent[part] = known[sampling.exchanged_places(places, len(known), change, source)]

        sampling.in_parts(len(values), draw, source, sampling.COINS, whole_stream=True)
        return sent

    def _noise_in_place(self, clipped: Clipped, source: sampling.Source) -> FloatArray:
        known = self.range.numbers
        # The copy of `clip`: another one would take half of the time.
        values = self._given_up(clipped, RandomizedResponse)
        if len(known) != 2 or not values.flags.writeable:
            return self._add_noise(values, source)
        sampling.exchange(values, (known[0], known[1]), 1 - self.keep_probability, source)
        return values
