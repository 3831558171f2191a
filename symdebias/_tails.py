"""How far intervals of a mean of numbers with a long tail reach, by a law of the numbers beyond those that were drawn.

A sample without any of the far numbers that make most of a mean does not show them: the mean is too small then, and so
are its standard error and its skewness. What can be told from the sample is how fast its tail falls. The farthest
numbers on each side are followed by a generalized Pareto distribution, samples are drawn anew with such tails, and an
interval reaches as far as in these.

References: Zhang & Stephens 2009 (Technometrics 51), the fit; Pickands 1975 (Annals of Statistics 3), the law of tails;
Vehtari, Simpson, Gelman, Yao & Gabry 2024 (Journal of Machine Learning Research 25), its use for means.
"""

import math
from dataclasses import dataclass

import numpy as np

from symdebias._arrays import FloatArray, IntegerArray

# From so few numbers in a tail nothing is told of it: samples of fewer than a hundred have none.
_FEWEST = 20
# The shape that is expected, a light tail, and how many numbers it counts for.
_EXPECTED, _COUNTS_FOR = 0.1, 10.0
# In its standard errors, how much heavier a tail is taken to be than the sample says. Most that miss are of samples
# whose tail looks lighter than it is.
_CAUTION = 1.5
# A tail of the shape 1 has no mean.
_HEAVIEST = 0.9
# Samples that are drawn anew: the fewest and the most, and how many numbers all of them have.
_DRAWS, _NUMBERS = (400, 4_000), 4e5
# Of intervals by samples drawn anew, and how many of these are to have an interval.
LEVEL, _LEAST_DRAWS = 0.95, 50


def tail_count(count: int) -> int:
    """Return how many of so many numbers are looked at on each side, the one where the tail begins among them.

    It is the lesser of a fifth of them and of three times their root, as Vehtari et al. take it, and 0 where these are
    too few to tell anything.
    """
    most = min(count // 5, int(3 * math.sqrt(count)))
    return most + 1 if most >= _FEWEST else 0


def farthest(moves: FloatArray, most: int) -> FloatArray:
    """Return the farthest numbers to both sides, the lower ones with their sign turned, in falling order.

    Parameters
    ----------
    moves : array of shape (n, r), float64
        Numbers.
    most : int
        How many are wanted on each side, and at most n.

    Returns
    -------
    array of shape (2, min(n, most), r), float64
        Those above 0, and those below.
    """
    kept = min(most, len(moves))
    if kept == 0:
        return np.empty((2, 0, moves.shape[1]))
    both = (np.partition(signed, kept - 1, axis=0)[:kept] for signed in (-moves, moves))
    return np.stack([-np.sort(one, axis=0) for one in both])


@dataclass(frozen=True)
class LongTails:
    """Numbers whose sum is an error, as far as it takes to draw the like of them anew.

    Attributes
    ----------
    count : int
        n, how many they are.
    squares, fourths : float
        The sums of their squares and fourth powers; their sum is 0.
    above, below : array of shape (m,), float64
        The largest, in falling order, and the smallest with their sign turned: `tail_count` of them.
    """

    count: int
    squares: float
    fourths: float
    above: FloatArray
    below: FloatArray

    def reaches(self, fewest: float) -> tuple[float, float]:
        """Return how many standard errors intervals of 95% are to reach below and above; 0 where nothing is told.

        Parameters
        ----------
        fewest : float
            Samples of which fewer numbers decide the standard error, as (sum d^2)^2/(sum d^4) counts them, have no
            interval, and do not count.
        """
        tails = [(sign, tail) for sign, far in ((1.0, self.above), (-1.0, self.below)) if (tail := _Tail.of(far))]
        if not tails:
            return 0.0, 0.0
        # The longer one first: numbers of the other sign are to have the same intervals, turned.
        tails.sort(key=lambda one: -float(one[1].beyond[0]))
        # The others make a normal sum, and sums of squares and of fourth powers that are as good as known.
        rest = self.count - sum(len(tail.beyond) for _, tail in tails)
        total = -sum(sign * float(tail.beyond.sum()) for sign, tail in tails)
        squares = self.squares - sum(float(tail.beyond @ tail.beyond) for _, tail in tails)
        fourths = self.fourths - sum(float(np.sum(tail.beyond**4)) for _, tail in tails)
        spread = math.sqrt(max(squares - total**2 / rest, 0.0))
        mean = total + sum(sign * len(tail.beyond) * tail.mean for sign, tail in tails)
        most = max(len(tail.beyond) for _, tail in tails)
        draws = int(np.clip(_NUMBERS / most, *_DRAWS))
        # Always the same ones, so that an interval is the same each time, and hardly another one of a record more.
        normal, *own = (np.random.default_rng([0, place]) for place in range(1 + 2 * len(tails)))
        sums = np.zeros((3, draws)) + np.array([total, max(squares, 0.0), max(fourths, 0.0)])[:, None]
        sums[0] += tails[0][0] * spread * normal.normal(size=draws)
        for (sign, tail), counting, rng in zip(tails, own[::2], own[1::2], strict=True):
            drawn = tail.drawn(counting.binomial(self.count, len(tail.beyond) / self.count, size=draws), rng)
            sums += np.array([sign, 1.0, 1.0])[:, None] * drawn
        about = sums[1] - sums[0] ** 2 / self.count
        told = (about > 0) & (about**2 >= fewest * sums[2])
        return reaches_of((mean - sums[0][told]) / np.sqrt(about[told]))


def reaches_of(errors: FloatArray) -> tuple[float, float]:
    """Return how many standard errors intervals of 95% are to reach below and above; 0 where nothing is told.

    Parameters
    ----------
    errors : array of shape (m,), float64
        By how many of its standard errors the mean of each sample with an interval is too small. Where hardly a sample
        has one they tell nothing.
    """
    if len(errors) < _LEAST_DRAWS:
        return 0.0, 0.0
    low, high = np.quantile(errors, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return -float(low), float(high)


@dataclass(frozen=True)
class _Tail:
    """A generalized Pareto distribution of the numbers beyond the one where a tail begins.

    Attributes
    ----------
    beyond : array of shape (m,), float64
        The numbers of the sample that are there.
    start : float
        Where it begins.
    shape, scale : float
        k and s of the chance (1 + k x/s)^(-1/k) of a number more than x beyond the start.
    """

    beyond: FloatArray
    start: float
    shape: float
    scale: float

    @classmethod
    def of(cls, far: FloatArray) -> "_Tail | None":
        """Return that of the farthest numbers, in falling order; None where they tell of none.

        Numbers that occur again and again, as those that a rate counts, have no tail.
        """
        if len(far) <= _FEWEST:
            return None
        start = float(far[-1])
        beyond = far[far > start]
        excess = beyond[::-1] - start
        # A quarter of them is what the fit goes by.
        if len(beyond) < _FEWEST or not excess[len(excess) // 4] > 1e-9 * excess[-1]:
            return None
        found, scale = _pareto(excess)
        sure = len(beyond) + _COUNTS_FOR
        shape = (len(beyond) * found + _COUNTS_FOR * _EXPECTED) / sure
        shape = min(shape + _CAUTION * (1 + max(shape, 0.0)) / math.sqrt(sure), _HEAVIEST)
        return cls(beyond, start, shape, scale)

    @property
    def mean(self) -> float:
        """The mean of a number of the tail."""
        return self.start + self.scale / (1 - self.shape)

    def drawn(self, counts: IntegerArray, rng: np.random.Generator) -> FloatArray:
        """Return the sums of so many numbers of the tail, of their squares and of their fourth powers, shape (3, k)."""
        sums, most, rows = np.zeros((3, len(counts))), int(counts.max()), max(1, int(_NUMBERS) // len(counts))
        for first in range(0, most, rows):
            # Of more numbers the first are the same.
            waits = rng.exponential(size=(min(rows, most - first), len(counts)))
            excess = waits if abs(self.shape) < 1e-9 else np.expm1(self.shape * waits) / self.shape
            there = np.arange(first, first + len(waits))[:, None] < counts
            numbers = np.where(there, self.start + self.scale * excess, 0.0)
            squares = np.square(numbers)
            sums += [numbers.sum(axis=0), squares.sum(axis=0), np.square(squares).sum(axis=0)]
        return sums


def _pareto(excess: FloatArray) -> tuple[float, float]:
    """Return shape and scale of the generalized Pareto distribution of positive numbers in rising order, shape (m,).

    By Zhang and Stephens (2009), equations (6) and (7), whose k is less the shape, and whose theta is less the shape
    over the scale: the mean of theta under a weak prior by the profile of the likelihood.
    """
    count = len(excess)
    grid = np.arange(1, 31 + int(math.sqrt(count)))
    quarter = float(excess[int(count / 4 + 0.5) - 1])
    thetas = 1 / excess[-1] + (1 - np.sqrt(len(grid) / (grid - 0.5))) / (3 * quarter)
    shapes = -np.array([np.mean(np.log1p(-theta * excess)) for theta in thetas])
    heights = count * (np.log(thetas / shapes) + shapes - 1)
    weights = np.exp(heights - heights.max())
    theta = float(weights @ thetas / weights.sum())
    shape = float(np.mean(np.log1p(-theta * excess)))
    return shape, -shape / theta
