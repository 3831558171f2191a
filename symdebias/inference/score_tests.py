"""Intervals and statistics of estimates whose curvature is uncertain, or whose score levels off."""

import math

import numpy as np

from symdebias._arrays import FloatArray, IntegerArray
from symdebias._fieller import fieller_ends, fieller_variance
from symdebias.inference.critical import critical_value, critical_values, skewed_values, two_sided_pvalues

# The level of the intervals that end where score tests do.
_OF_SCORE_TESTS = 0.95


def ends_by_score_tests(
    level: float,
    bias_ratio: FloatArray,
    degrees_of_freedom: FloatArray,
    slope: FloatArray,
    bend: FloatArray,
    levels: FloatArray,
    skewness: FloatArray,
) -> FloatArray:
    """Return how many standard errors intervals reach to one side, shape (k,)."""
    begin = skewed_values(level, bias_ratio, degrees_of_freedom, skewness)
    # What is left of the bias where an end is nowhere, and what is to be told beyond it.
    left = np.where(bend > 0, 0.0, bias_ratio)
    least = skewed_values(level, left, degrees_of_freedom, skewness) - left
    with np.errstate(divide="ignore"):
        steepest = (1 - 1e-12) * least**-2.0  # None bounds it at a level next to 0.
    # Of a bend that was found for an end that is nowhere rounding says neither.
    flat = bend + _levels_beyond(levels, left)
    found = np.where(np.isfinite(begin) & (flat < steepest), begin, math.inf)
    (some,) = np.nonzero(np.isfinite(found))

    def excess(t: FloatArray, places: IntegerArray) -> FloatArray:
        of = some[places]
        size = statistic_of_score_test(t, slope[of], bend[of], levels[of], bias_ratio[of])
        bias = bias_ratio[of] / deviation(t, slope[of], bend[of])
        return two_sided_pvalues(size, bias, degrees_of_freedom[of], skewness[of]) - (1 - level)

    found[some] = fieller_ends(excess, begin[some])
    return found


def deviation(t: FloatArray | float, slope: FloatArray | float, bend: FloatArray | float) -> FloatArray:
    """Return the root of the variance of a score test t standard errors away, relative to that at the estimate."""
    return np.sqrt(fieller_variance(t, slope, bend))


def statistic_of_score_test(
    t: FloatArray | float,
    slope: FloatArray | float,
    bend: FloatArray | float,
    levels: FloatArray | float,
    bias_ratio: FloatArray | float,
) -> FloatArray:
    """Return the statistic of a score test t standard errors away, which levels off beyond the bias.

    What the bias may be of t is not what a score tells: were it part of what levels off, a large bias of one parameter
    would hide that.
    """
    within = np.minimum(t, bias_ratio)
    beyond = t - within
    variance = fieller_variance(t, slope, bend)
    root = np.sqrt(variance)
    if np.any(levels):
        levels = _levels_beyond(levels, bias_ratio / root)
    return np.asarray(within / root + beyond / np.sqrt(variance + levels * beyond**2))


def _levels_beyond(levels: FloatArray | float, bias_ratio: FloatArray | float) -> FloatArray:
    """Return c of scores that level off, beyond a bias, from what it is where there is none.

    The larger a bias, the less is to be told beyond it, from 1.96 standard errors to 1.64. As much less of a score is
    then left, so that one that tells too little without a bias tells too little with every bias.
    """
    ratio = np.asarray(bias_ratio, dtype=np.float64)
    known = np.where(np.isfinite(ratio), ratio, 0.0)
    reaches = critical_values(_OF_SCORE_TESTS, np.ravel(known), np.full(known.size, math.inf))
    return np.asarray(levels * (critical_value(_OF_SCORE_TESTS) / (reaches.reshape(known.shape) - known)) ** 2)
