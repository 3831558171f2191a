"""Intervals and tests of parameters whose curvature is itself uncertain, by Fieller's method.

Where noise is undone, the curvature of the mean corrected loss varies with the records as its gradient does. A score
test of theta_j + t has a variance that depends on t, 1 + a t + b t^2 of that at the estimate, with t in standard errors
(1/sqrt(b) is the curvature along the parameter in its own). Intervals of a constant variance are too short on one side.

References: Fieller 1954 (Journal of the Royal Statistical Society B 16); Anderson & Rubin 1949 (Annals of Mathematical
Statistics 20).
"""

import math
from collections.abc import Callable

from scipy.optimize import brentq

# In standard errors: an end beyond is none.
_FARTHEST = 1e9


def fieller_variance(t: float, slope: float, bend: float) -> float:
    """Return the variance that a score test of theta_j + t standard errors has, over that at the estimate.

    It is 1 + a t + b t^2, at least 1, so that intervals are never shorter than those of a constant variance. It is at
    least b t^2, too: t over its root then never falls as t grows, and values that pass are an interval.

    Parameters
    ----------
    t : float
        How far away, in standard errors of the estimate.
    slope, bend : float
        a and b, with a^2 <= 4 b as for a variance.

    Examples
    --------
    >>> fieller_variance(2.0, 0.5, 0.25), fieller_variance(2.0, -0.25, 0.0625)
    (3.0, 1.0)
    """
    return max(1.0, 1 + slope * t + bend * t * t, bend * t * t)


def fieller_end(excess: Callable[[float], float], begin: float) -> float:
    """Return how many standard errors an interval reaches to one side; infinite where nothing ends it.

    Parameters
    ----------
    excess : callable
        Takes t, to this side; returns a number that falls and is positive for values that pass their test.
    begin : float
        How far it reaches where the variance is constant.

    Examples
    --------
    >>> def passes(t, slope=0.3, bend=0.04):
    ...     return 2.0 - t / math.sqrt(fieller_variance(t, slope, bend))
    >>> round(fieller_end(passes, 2.0), 3), fieller_end(lambda t: passes(t, 0.0, 0.3), 2.0)
    (3.01, inf)
    """
    high = begin
    while excess(high) > 0:
        high *= 2
        if not high < _FARTHEST:
            return math.inf
    return float(brentq(excess, begin, high, xtol=1e-12)) if high > begin and excess(begin) > 0 else begin
