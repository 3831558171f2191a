"""Which records each step of a training draws: every one by a coin of its own, or subsets of one size.

A guarantee of sampled steps rests on these draws as on the noise: they are secret, and have exactly the stated law.
Hardened ones come from the operating system's bits. The distances between drawn records are geometric numbers as exact
as `symdebias.mechanisms.rounded` draws them, of a probability that is never above the stated one (with a smaller one
the guarantee is stronger: of the drawn records some are left out); subsets are uniform without any rounding.
"""

import math

import numpy as np

from symdebias._arrays import IntegerArray
from symdebias.mechanisms import rounded
from symdebias.mechanisms.sampling import Source, integers
from symdebias.privacy import precise


def poisson_samples(records: int, probability: float, steps: int, source: Source) -> tuple[IntegerArray, IntegerArray]:
    """Draw each record in each step with a probability in (0, 1], independently of all else.

    The distances between drawn ones, all steps after one another, are geometric. Returned are the drawn records of all
    steps, in order within each, and where the rows of each step end, shape (steps,).
    """
    total = records * steps
    expected = total * probability
    parts, last = [], -1
    while last < total:
        count = int(expected + 6 * math.sqrt(expected) + 20)
        # A distance beyond the end is the end, which keeps the sums within int64.
        distances = np.minimum(_distances(probability, count, source), total + 1)
        parts.append(last + np.cumsum(distances))
        last = int(parts[-1][-1])
    places = np.concatenate(parts)
    places = places[places < total]
    ends = np.searchsorted(places, records * np.arange(1, steps + 1))
    return places % records, ends.astype(np.int64)


def _distances(probability: float, count: int, source: Source) -> IntegerArray:
    """Return independent integers k >= 1 of probability (1 - p)^(k - 1) p."""
    if not source.hardened:
        return source.generator.geometric(probability, size=count)
    if probability == 1.0:
        return np.ones(count, dtype=np.int64)
    mp = precise.context()
    # 1 - exp(-rate) is at most p, as the rate is rounded down.
    rate = precise.rounded_down(mp, -mp.log1p(-mp.mpf(probability)))
    return 1 + rounded.geometric(rate, count, source)


def subsets(records: int, size: int, steps: int, source: Source) -> tuple[IntegerArray, IntegerArray]:
    """Draw in each step as many different records, all subsets alike; as `poisson_samples`."""
    if source.hardened:
        drawn = [_subset(records, size, source) for _ in range(steps)]
    else:
        drawn = [np.sort(source.generator.choice(records, size, replace=False, shuffle=False)) for _ in range(steps)]
    return np.concatenate(drawn).astype(np.int64), size * np.arange(1, steps + 1, dtype=np.int64)


def _subset(records: int, size: int, source: Source) -> IntegerArray:
    """Return the first so many different numbers of a uniform sequence, in order: a uniform subset, by symmetry."""
    few = min(size, records - size)
    found = np.zeros(records, dtype=bool)
    missing = few
    while missing:
        drawn = integers(0, records, missing, source)
        found[drawn] = True
        # As many as are missing are drawn, so that there are never too many.
        missing = few - int(found.sum())
    return np.flatnonzero(found if few == size else ~found)
