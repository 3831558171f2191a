"""The law of an estimate in its standard errors, and how many of these an interval reaches to either side.

It is the normal one, but for three things: few records or clusters make it Student's t, and skewed; and where an
estimate is a ratio whose denominator is noisy, its variance changes with the value that it is an estimate of.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np

from symdebias._arrays import FloatArray
from symdebias._fieller import fieller_reach
from symdebias._tails import LEVEL, LongTails
from symdebias.inference import (
    FEWEST_DECIDE,
    MANY_DECIDE,
    critical_value,
    freedom_of_few,
    skewed_reaches,
    skewness_reaching,
)

# A share of fewer than five records has no standard error to be relied on, and of one it has none; between four and
# five, for rounding.
_FEWEST_CARRIERS = 4.5


@dataclass(frozen=True)
class ErrorLaw:
    """How an estimate is spread about what it estimates, in its standard errors.

    Attributes
    ----------
    freedom : float or None
        The degrees of freedom of the standard error; None where it is as good as known.
    skewness : float
        (sum d^3)/(sum d^2)^1.5 of what records or clusters do to the estimate; 0 where many decide.
    bending : tuple of two floats
        a and b: t standard errors above the estimate its variance is 1 + a t + b t^2 times as large.
    """

    freedom: float | None = None
    skewness: float = 0.0
    bending: tuple[float, float] = (0.0, 0.0)

    @classmethod
    def by_records(cls, squares: float, thirds: float, fourths: float, tails: Callable[[], LongTails]) -> "ErrorLaw":
        """Return what sums of powers of what each record does to a mean say, and where few decide the farthest of them.

        Twice the number of records that decide a standard error, (sum d^2)^2/(sum d^4), is Satterthwaite's.
        """
        if not fourths > 0 or squares**2 >= MANY_DECIDE * fourths:
            return cls()
        law = cls(2 * squares**2 / fourths, thirds / squares**1.5)
        return law.reaching(tails().reaches(FEWEST_DECIDE))

    def reaching(self, sides: tuple[float, float]) -> "ErrorLaw":
        """Return the law by which intervals of 95% reach so many standard errors below and above, or farther."""
        return replace(self, skewness=skewness_reaching(self.skewness, self.reach(LEVEL), sides))

    @classmethod
    def by_clusters(cls, moves: FloatArray) -> "ErrorLaw":
        """Return what leaving out each of G clusters says, shape (G,): at most G - 1 degrees of freedom."""
        squares = moves**2
        second, fourths = float(squares.sum()), float(squares @ squares)
        if not fourths > 0:
            return cls(float(len(moves) - 1))
        deciding = second**2 / fourths
        few = freedom_of_few(deciding, len(moves))
        skewness = float(squares @ moves) / second**1.5 if deciding < MANY_DECIDE else 0.0
        return cls(float(len(moves) - 1 if few is None else few), skewness)

    def carried_by(self, count: float) -> "ErrorLaw":
        """Return that of a share of so many records or clusters: where these are few it has their degrees of freedom.

        Of one record, or cluster, there are next to none: the share moves with it, so that it adds nothing to the
        standard error.
        """
        if count > _FEWEST_CARRIERS:
            return self
        return replace(self, freedom=min(math.inf if self.freedom is None else self.freedom, max(count - 1, 0.5)))

    def bent(self, bending: tuple[float, float]) -> "ErrorLaw":
        """Return that of a ratio with such a and b."""
        return replace(self, bending=bending)

    def diluted(self, share: float, freedom: float) -> "ErrorLaw":
        """Return that of an estimate with an independent, normal error added.

        Parameters
        ----------
        share : float
            What the standard error without it is of that with it.
        freedom : float
            The degrees of freedom of the latter.
        """
        slope, bend = self.bending
        return ErrorLaw(float(added_freedom(self.freedom, freedom)), self.skewness * share**3, (slope * share, bend))

    def reach(self, level: float) -> float:
        """Return how many standard errors an interval reaches by the error of the standard error alone."""
        return critical_value(level, 0.0, self.freedom)

    def reaches(self, level: float) -> tuple[float, float]:
        """Return how many it reaches below and above; infinite where nothing ends it."""
        below, above = skewed_reaches(self.reach(level), self.skewness)
        slope, bend = self.bending
        return fieller_reach(below, -slope, bend), fieller_reach(above, slope, bend)


def added_freedom(before: FloatArray | float | None, after: FloatArray | float) -> FloatArray:
    """Return the degrees of freedom of sums of independent variances, given those before and by what was added.

    A share of one record has a standard error of 0 by itself, and no other error makes up for what that hides.
    """
    known = np.inf if before is None else before
    return np.where(np.less(known, 1.0), known, after)


def with_added_variances(
    errors: FloatArray, freedom: FloatArray, added: Iterable[tuple[FloatArray, float]]
) -> tuple[FloatArray, FloatArray]:
    """Return standard errors with independent errors added, and Satterthwaite's degrees of freedom of these.

    Parameters
    ----------
    errors, freedom : arrays of the same shape, float64
        The standard errors, and their degrees of freedom; infinite where they are as good as known.
    added : iterable of tuples
        Variances of that shape, and the degrees of freedom of each.
    """
    variance, fourths = errors**2, errors**4 / freedom
    for more, own in added:
        variance, fourths = variance + more, fourths + more**2 / own
    known = ~(fourths > 0)
    total = np.where(known, freedom, variance**2 / np.where(known, 1.0, fourths))
    return np.sqrt(variance), added_freedom(freedom, total)
