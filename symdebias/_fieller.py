"""Intervals and tests of parameters whose curvature is itself uncertain, by Fieller's method.

Where noise is undone, the curvature of the mean corrected loss varies with the records as its gradient does. A score
test of theta_j + t has a variance that depends on t, 1 + a t + b t^2 of that at the estimate, with t in standard errors
(1/sqrt(b) is the curvature along the parameter in its own). Intervals of a constant variance are too short on one side.

References: Fieller 1954 (Journal of the Royal Statistical Society B 16); Anderson & Rubin 1949 (Annals of Mathematical
Statistics 20).
"""

import math
from collections.abc import Callable

import numpy as np

from symdebias._arrays import FloatArray, IntegerArray

# In standard errors: an end beyond is none.
_FARTHEST = 1e9
# How far an end is known, as a share of itself.
_PRECISE = 1e-13


def fieller_variance(t: FloatArray | float, slope: FloatArray | float, bend: FloatArray | float) -> FloatArray:
    """Return the variance that a score test of theta_j + t standard errors has, over that at the estimate.

    It is 1 + a t + b t^2, at least 1, so that intervals are never shorter than those of a constant variance. It is at
    least b t^2, too: t over its root then never falls as t grows, and values that pass are an interval.

    Parameters
    ----------
    t : array or float
        How far away, in standard errors of the estimate.
    slope, bend : array or float
        a and b, with a^2 <= 4 b as for a variance.

    Examples
    --------
    >>> fieller_variance(np.array([2.0, 2.0]), np.array([0.5, -0.25]), np.array([0.25, 0.0625]))
    array([3., 1.])
    """
    bent = bend * t * t
    return np.asarray(np.maximum(np.maximum(1.0, 1 + slope * t + bent), bent))


def fieller_reach(reach: float, slope: float, bend: float) -> float:
    """Return how many standard errors an interval reaches to one side; infinite where nothing ends it.

    Parameters
    ----------
    reach : float
        How many it reaches where the variance is constant.
    slope, bend : float
        As for `fieller_variance`, to this side.

    Examples
    --------
    >>> round(fieller_reach(2.0, 0.3, 0.04), 4), fieller_reach(2.0, 0.0, 0.3)
    (3.0104, inf)
    """
    left = 1 - bend * reach**2
    if not left > 0:
        return math.inf
    middle = slope * reach**2 / 2
    return max(reach, (middle + math.sqrt(middle**2 + left * reach**2)) / left)


def fieller_ends(excess: Callable[[FloatArray, IntegerArray], FloatArray], begin: FloatArray) -> FloatArray:
    """Return how many standard errors intervals reach to one side, shape (k,); infinite where nothing ends them.

    Parameters
    ----------
    excess : callable
        Takes t of shape (m,), to this side, and the places among the intervals that they belong to; returns numbers
        that fall as t grows and are positive for values that pass their test.
    begin : array of shape (k,), float64
        How far they reach where the variance is constant.

    Examples
    --------
    >>> slope, bend = np.array([0.3, 0.0]), np.array([0.04, 0.3])
    >>> def passes(t, places):
    ...     return 2.0 - t / np.sqrt(fieller_variance(t, slope[places], bend[places]))
    >>> fieller_ends(passes, np.array([2.0, 2.0])).round(3)
    array([3.01,  inf])
    """
    low, high = begin.copy(), begin.copy()
    places = np.arange(len(begin))
    passing = going = places[(begin > 0) & (excess(begin, places) > 0)]
    while len(going):
        low[going], high[going] = high[going], 2 * high[going]
        high[going[~(high[going] < _FARTHEST)]] = np.inf
        going = going[np.isfinite(high[going])]
        going = going[excess(high[going], going) > 0]
    between = passing[np.isfinite(high[passing])]
    high[between] = _roots(lambda t, of: excess(t, between[of]), low[between], high[between])
    return high


def _roots(function: Callable[[FloatArray, IntegerArray], FloatArray], low: FloatArray, high: FloatArray) -> FloatArray:
    """Return where functions that fall from above 0 to below it have the value 0, each as if it were by itself.

    Inverse quadratic interpolation where it is safe, and halves elsewhere: Chandrupatla 1997 (Advances in Engineering
    Software 28).
    """
    open_ones = np.arange(len(low))
    found = high.copy()
    # The last two points, of which the second is on the other side of the root, and what the first took the place of.
    a, b, c = low, high, high
    of_a, of_b = function(low, open_ones), function(high, open_ones)
    of_c, share = of_b, np.full(len(low), 0.5)
    while len(open_ones):
        new = a + share * (b - a)
        value = function(new, open_ones)
        is_same = (value > 0) == (of_a > 0)
        c, of_c = np.where(is_same, a, b), np.where(is_same, of_a, of_b)
        b, of_b = np.where(is_same, b, a), np.where(is_same, of_b, of_a)
        a, of_a = new, value
        is_nearer = np.abs(of_a) < np.abs(of_b)
        nearest, value = np.where(is_nearer, a, b), np.where(is_nearer, of_a, of_b)
        least = _PRECISE * np.abs(nearest) / np.abs(b - a)
        is_done = (least > 0.5) | (value == 0)
        found[open_ones[is_done]] = nearest[is_done]
        kept = ~is_done
        open_ones, least = open_ones[kept], least[kept]
        a, b, c, of_a, of_b, of_c = (one[kept] for one in (a, b, c, of_a, of_b, of_c))
        with np.errstate(all="ignore"):
            place, height = (a - b) / (c - b), (of_a - of_b) / (of_c - of_b)
            quadratic = of_a / (of_b - of_a) * of_c / (of_b - of_c)
            quadratic += (c - a) / (b - a) * of_a / (of_c - of_a) * of_b / (of_c - of_b)
            is_safe = (height**2 < place) & ((1 - height) ** 2 < 1 - place)
        share = np.clip(np.where(is_safe, quadratic, 0.5), least, 1 - least)
    return found
