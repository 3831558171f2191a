"""How many standard errors intervals reach, and p values, where there is bias, skewness or a variance of few values."""

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from symdebias._arrays import FloatArray
from symdebias._domains import OPEN_UNIT

# A bias of so few standard errors is none; with one of so many the other tail is 0 to the last bit.
_NO_BIAS = 1e-9
_ONE_SIDED = 40.0
# The largest skewness that is looked for.
_MOST_SKEWED = 1.0


def critical_value(level: float, bias_ratio: float = 0.0, degrees_of_freedom: float | None = None) -> float:
    """Return c with P(|N(r, 1)| <= c) = level: how many standard errors an interval reaches.

    Where standard errors are themselves estimated from few values, it is the quantile of Student's t plus r, with which
    an interval covers at least that often.

    Parameters
    ----------
    level : float
        In (0, 1).
    bias_ratio : float
        r, a bound on the absolute bias over the standard error; non-negative.
    degrees_of_freedom : float, optional
        Of the estimate of the standard error; None, or infinite, where it is as good as known.

    References
    ----------
    Armstrong & Kolesar 2018 (Econometrica 86), equation (4).

    Examples
    --------
    >>> round(critical_value(0.95), 4), round(critical_value(0.95, 1.0), 4)
    (1.96, 2.6461)
    >>> round(critical_value(0.95, degrees_of_freedom=4), 4)
    2.7764
    """
    level = OPEN_UNIT.check("level", level)
    if degrees_of_freedom is not None and math.isfinite(degrees_of_freedom):
        return float(_unbiased(level, functools.partial(stdtrit, degrees_of_freedom))) + bias_ratio
    plain = float(_unbiased(level, ndtri))
    if bias_ratio < _NO_BIAS:
        return plain
    if not math.isfinite(bias_ratio):
        return math.inf
    if bias_ratio > _ONE_SIDED:
        return bias_ratio + float(ndtri(level))

    def missing(c: float) -> float:
        return float(ndtr(bias_ratio - c) + ndtr(-c - bias_ratio)) - (1 - level)

    return float(brentq(missing, 0.0, bias_ratio + plain + 1e-9, xtol=1e-12))


def skewed_reaches(reach: float, skewness: float) -> tuple[float, float]:
    """Return how many standard errors an interval of a skewed estimate reaches below and above it.

    Parameters
    ----------
    reach : float
        How many it reaches where there is no skewness, as `critical_value` says; non-negative.
    skewness : float
        g, that of the estimate: the sum of d^3 over the sum of d^2 to the power 1.5, with d what each record does to
        it. An estimate of positive skewness that is too small has too small a standard error besides.

    Notes
    -----
    T + g T^2/3 + g^2 T^3/27 + g/6 is increasing in T, the error in standard errors, and has next to no skewness. The
    end on the side of the long tail is that with -reach for it. No end comes nearer, as estimated skewness tells less
    than there is; nor does one by more skewness: at an end of T the cubic has g up to 9/(2 T) + 9/(4 T^3), from where
    on it would rise again.

    References
    ----------
    Hall 1992 (Journal of the Royal Statistical Society B 54), on the removal of skewness by transformation.

    Examples
    --------
    >>> below, above = skewed_reaches(1.96, 0.3)
    >>> round(below, 3), round(above, 3)
    (1.96, 2.65)
    >>> skewed_reaches(1.96, -0.3) == (above, below)
    True
    """
    if skewness < 0:
        return skewed_reaches(reach, -skewness)[::-1]
    # So little is rounded away, where it is not lost altogether.
    if skewness < 1e-14:
        return reach, reach
    share = skewness * (reach + skewness / 6)
    # Next to 1 the cube root of what is left is rounded away.
    cubed = -math.expm1(math.log1p(-share) / 3) if share < 0.5 else 1 - math.cbrt(1 - share)
    far = max(reach, 3 * cubed / skewness)
    if skewness > _most_skewness(far):
        far = float(brentq(lambda size: size / 4 - 0.75 / size - 0.1875 / size**3 - reach, 1.0, 4 * reach + 4))
    return reach, far


def skewness_reaching(skewness: float, reach: float, sides: tuple[float, float]) -> float:
    """Return the skewness by which an interval reaches as far as it is to, on the side where that is farther.

    Parameters
    ----------
    skewness : float
        What the sample tells: it stays where by it an interval reaches as far, to either side.
    reach : float
        As for `skewed_reaches`.
    sides : tuple of two floats
        How many standard errors the interval is to reach below and above.

    Examples
    --------
    >>> skewness_reaching(0.0, 1.96, (2.0, 2.65)).__round__(2), skewness_reaching(0.3, 1.96, (2.0, 2.0))
    (0.3, 0.3)
    """
    sign, far = (1.0 if sides[1] > sides[0] else -1.0), max(sides)

    def beyond(skewness: float) -> float:
        return skewed_reaches(reach, skewness)[1] - far

    if far <= max(skewed_reaches(reach, skewness)):
        return skewness
    least = max(sign * skewness, 0.0)
    most = max(_MOST_SKEWED, least)
    return sign * (float(brentq(beyond, least, most)) if beyond(most) > 0 else most)


def _most_skewness(size: Any) -> Any:
    """Return the g from which on more of it would bring an end nearer; see `skewed_reaches`.

    Parameters
    ----------
    size : float or array of float64
        How many standard errors the end is away, non-negative.
    """
    # Of less it is far beyond any skewness.
    size = np.maximum(size, 0.1)
    return 4.5 / size + 2.25 / size**3


def critical_values(level: float, bias_ratio: FloatArray, degrees_of_freedom: FloatArray) -> FloatArray:
    """Return `critical_value` of many biases, shape (k,), in a tenth of the time that they take one by one.

    Degrees of freedom are infinite where there are none.

    Parameters
    ----------
    level : float
        In (0, 1).
    bias_ratio, degrees_of_freedom : array of shape (k,), float64
        As for `critical_value`.
    """
    # A bias that is no number has no bound.
    found = np.where(np.isnan(bias_ratio), math.inf, float(_unbiased(level, ndtri)))
    is_few = np.isfinite(degrees_of_freedom)
    found[is_few] = _unbiased(level, functools.partial(stdtrit, degrees_of_freedom[is_few])) + bias_ratio[is_few]
    is_one_sided = ~is_few & (bias_ratio > _ONE_SIDED)
    found[is_one_sided] = bias_ratio[is_one_sided] + ndtri(level)
    is_between = ~(is_few | is_one_sided) & (bias_ratio >= _NO_BIAS)
    found[is_between] = _normal_critical(level, bias_ratio[is_between])
    return found


def _unbiased(level: float, quantile: Callable[[float], Any]) -> Any:
    """Return c with P(|Z| <= c) = level for a symmetric Z, by its quantiles."""
    upper = (1 + level) / 2
    # Next to 1 the upper tail is rounded away, and the lower one is not.
    return quantile(upper) if upper < 1 else -quantile((1 - level) / 2)


def _normal_critical(level: float, bias_ratio: FloatArray) -> FloatArray:
    """Return c with P(|N(r, 1)| <= c) = level by Newton's method, and by halves where that leaves what c is in."""
    plain = float(_unbiased(level, ndtri))
    low, high = np.maximum(plain, bias_ratio + float(ndtri(level))), bias_ratio + plain
    found, is_open = low.copy(), np.ones(len(low), dtype=bool)
    while is_open.any():
        missing = ndtr(bias_ratio - found) + ndtr(-found - bias_ratio) - (1 - level)
        low, high = np.where(missing > 0, found, low), np.where(missing > 0, high, found)
        heights = np.exp(-np.square(found - bias_ratio) / 2) + np.exp(-np.square(found + bias_ratio) / 2)
        new = found + missing * math.sqrt(2 * math.pi) / heights
        # Strictly within, so that what c is in shrinks also where rounding is left.
        new = np.where((low < new) & (new < high), new, (low + high) / 2)
        # Each stays where it has arrived, whatever the others do.
        moved = is_open & (np.abs(new - found) > 1e-14 * found)
        found, is_open = np.where(is_open, new, found), moved
    return found


def two_sided_pvalue(z: float, bias_ratio: float = 0.0, degrees_of_freedom: float | None = None) -> float:
    """Return 1 less the level of the interval, as of `critical_value`, that just reaches 0.

    Parameters
    ----------
    z : float
        The estimate in standard errors.
    bias_ratio : float
        As for `critical_value`.
    degrees_of_freedom : float, optional
        As for `critical_value`.

    Returns
    -------
    float
        P(|N(r, 1)| >= |z|): the largest probability of so large an estimate of a parameter that is 0, whatever the bias
        is within its bound.

    Examples
    --------
    >>> round(two_sided_pvalue(critical_value(0.95, 1.0), 1.0), 10)
    0.05
    """
    freedom = math.inf if degrees_of_freedom is None else float(degrees_of_freedom)
    return float(two_sided_pvalues(*(np.array([one]) for one in (z, bias_ratio, freedom)))[0])


def two_sided_pvalues(
    z: FloatArray, bias_ratio: FloatArray, degrees_of_freedom: FloatArray, skewness: FloatArray | None = None
) -> FloatArray:
    """Return `two_sided_pvalue` of many estimates; degrees of freedom are infinite where there are none.

    `skewness` is that to the side where the hypothesis is, where few records decide: by it the error is smaller than it
    looks.
    """
    size = np.abs(z)
    found = np.ones(len(size))
    is_few, is_bounded = np.isfinite(degrees_of_freedom), np.isfinite(bias_ratio)
    few, normal = is_bounded & is_few, is_bounded & ~is_few
    beyond = np.maximum(size[few] - bias_ratio[few], 0.0)
    if skewness is not None:
        beyond = without_skewness(beyond, skewness[few])
    found[few] = 2 * stdtr(degrees_of_freedom[few], -beyond)
    found[normal] = ndtr(bias_ratio[normal] - size[normal]) + ndtr(-size[normal] - bias_ratio[normal])
    return found


def without_skewness(size: FloatArray, skewness: FloatArray) -> FloatArray:
    """Return what errors on the side of the long tail are in standard errors of an estimate without skewness.

    It is the inverse of what `skewed_reaches` has on that side.
    """
    skewness = np.minimum(skewness, _most_skewness(size))
    straight = size - skewness * size**2 / 3 + skewness**2 * size**3 / 27 - skewness / 6
    return np.maximum(np.minimum(size, straight), 0.0)


def skewed_values(
    level: float, bias_ratio: FloatArray, degrees_of_freedom: FloatArray, skewness: FloatArray
) -> FloatArray:
    """Return `critical_values` on a side to which estimates are skewed."""
    found = critical_values(level, bias_ratio, degrees_of_freedom)
    for place in np.flatnonzero((skewness > 0) & np.isfinite(found)):
        bias = float(bias_ratio[place])
        found[place] = bias + skewed_reaches(float(found[place]) - bias, float(skewness[place]))[1]
    return found
