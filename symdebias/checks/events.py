"""Lower bounds on epsilon by events: chosen on one half of the draws, and certified on the other half."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import betaincinv, ndtri

from symdebias._arrays import BooleanArray, FloatArray

# Thresholds that are tried on one half of the sample.
_THRESHOLDS = 200
Event = Callable[[FloatArray], BooleanArray]


@dataclass(frozen=True)
class Bound:
    """A lower bound on epsilon, and the event that it comes from."""

    epsilon: float  # The bound, 0 or more.
    # The shares of the draws of the two inputs in the event.
    likely: float
    unlikely: float
    trials: int  # Draws of each input that tested the event.

    def sees(self, claimed: float, delta: float, level: float) -> float:
        """Return about which epsilon this event would refute a claim with, in 95 of 100 checks.

        A larger epsilon is taken to come from a smaller probability of the other input.
        """
        if not self.likely > delta or not self.unlikely > 0:
            return math.inf
        n, z = self.trials, -float(ndtri(level)) - float(ndtri(0.05))
        found = math.inf
        for epsilon in claimed + np.geomspace(1e-3, 50.0, 400):
            other = (self.likely - delta) * math.exp(-epsilon)
            slack = z * (
                math.sqrt(self.likely * (1 - self.likely) / n) / (self.likely - delta) + 1 / math.sqrt(n * other)
            )
            if epsilon - slack > claimed:
                found = float(epsilon)
                break
        return found


def sampled_epsilon(first: FloatArray, second: FloatArray, delta: float, confidence: float) -> float:
    """Return a lower bound on epsilon: the best event of one half of two samples, bounded by the other half.

    Parameters
    ----------
    first, second : array of shape (n,), float64
        What came out for either input; the first halves choose the event.
    delta : float
        At which epsilon is bounded, in [0, 1).
    confidence : float
        The probability that the bound is right.
    """
    return certified_bound([(first, second)], delta, 1 - confidence).epsilon


def certified_bound(statistics: Sequence[tuple[FloatArray, FloatArray]], delta: float, false_alarm: float) -> Bound:
    """Return a lower bound on epsilon from the best event of any of several statistics of the same draws.

    Parameters
    ----------
    statistics : sequence of pairs of arrays of shape (n,), float64
        Each a number for every draw of the first and of the second input; row i of all belongs to the same draw.
    delta : float
        At which epsilon is bounded, in [0, 1).
    false_alarm : float
        The probability that the bound is wrong.

    Notes
    -----
    The first halves choose a statistic and a threshold for either order of the inputs; the second halves bound their
    probabilities p and q by Clopper and Pearson, and the bound is log((p - delta)/q). Four bounds share the error.
    """
    half = min(len(line) for line in statistics[0]) // 2
    level = false_alarm / 4
    errors = -float(ndtri(level))
    best = Bound(0.0, 0.0, 1.0, half)
    top = -math.inf
    for one, other in ((0, 1), (1, 0)):
        chosen = [
            (*_best_event(pair[one][:half], pair[other][:half], delta, errors), index)
            for index, pair in enumerate(statistics)
        ]
        _, event, index = max(chosen, key=lambda found: found[0])
        tested = [statistics[index][place][half:] for place in (one, other)]
        hits = [int(np.count_nonzero(event(values))) for values in tested]
        trials = [len(values) for values in tested]
        lower = betaincinv(hits[0], trials[0] - hits[0] + 1, level) if hits[0] > 0 else 0.0
        upper = betaincinv(hits[1] + 1, trials[1] - hits[1], 1 - level) if hits[1] < trials[1] else 1.0
        found = math.log((lower - delta) / upper) if lower > delta else -math.inf
        if found > top:
            top = found
            best = Bound(max(found, 0.0), hits[0] / trials[0], hits[1] / trials[1], trials[0])
    return best


def _best_event(first: FloatArray, second: FloatArray, delta: float, errors: float) -> tuple[float, Event]:
    """Return the event {value <= t}, {value >= t} or {value = t} that promises the largest bound, and that bound.

    An event is judged as many standard errors down as its bounds will be.
    """
    pooled = np.concatenate([first, second])
    values = np.unique(pooled)
    finite = len(values) <= _THRESHOLDS
    if finite:
        thresholds = values
    else:
        tail = np.geomspace(1e-5, 1e-3, 20, endpoint=False)
        quantiles = np.r_[tail, np.linspace(0.001, 0.999, _THRESHOLDS), 1 - tail]
        # Log ratios that saturate take many values that differ by rounding.
        thresholds = np.unique(np.quantile(pooled, quantiles))
    below = [np.searchsorted(np.sort(line), thresholds, side="right") for line in (first, second)]
    under = [np.searchsorted(np.sort(line), thresholds, side="left") for line in (first, second)]
    above = [len(line) - counts for line, counts in zip((first, second), under, strict=True)]
    kinds: list[tuple[list[Any], Callable[[float], Event]]] = [
        (below, lambda t: lambda x: np.asarray(x <= t)),
        (above, lambda t: lambda x: np.asarray(x >= t)),
    ]
    if finite:
        equal = [more - less for more, less in zip(below, under, strict=True)]
        kinds.append((equal, lambda t: lambda x: np.asarray(x == t)))
    total = len(first)
    top, event = -math.inf, kinds[0][1](float(thresholds[-1]))
    for (p, q), make in kinds:
        low = p - errors * np.sqrt(p * (1 - p / total) + 1) - delta * total
        high = q + errors * np.sqrt(q * np.maximum(1 - q / total, 0.0) + 1)
        apparent = np.where(low > 0, np.log(np.maximum(low, 1e-300) / high), -np.inf)
        place = int(np.argmax(apparent))
        if apparent[place] > top:
            top, event = float(apparent[place]), make(float(thresholds[place]))
    return top, event
