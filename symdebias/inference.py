"""Standard errors, intervals and tests from arrays: sandwich covariance, bias-aware intervals, batch means.

Nothing here knows a loss or a release: what goes in are Hessians, outer products of gradients and iterates.
"""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import chdtrc, fdtrc, ndtr, ndtri, stdtr, stdtrit

from symdebias._arrays import FloatArray, IntegerArray, real_array
from symdebias._domains import OPEN_UNIT
from symdebias._fieller import fieller_ends, fieller_variance
from symdebias.exceptions import InferenceError

# Variances of restrictions that are this share of what their terms would make are rounding alone.
_NO_SPREAD = 1e-13
# Bounds on biases whose signs are tried one by one; with more of them the largest is bounded from above.
_MOST_SIGNS = 12
# A bias of so few standard errors is none; with one of so many the other tail is 0 to the last bit.
_NO_BIAS = 1e-9
_ONE_SIDED = 40.0
# A Hessian whose condition number is beyond this does not say where its root is.
_LARGEST_CONDITION = 1e12
# Clusters that are alike leave a variance to about a third of them by fourth moments, and Student's t with one degree
# of freedom less than there are holds; where fewer than this share decide, and fewer than `MANY_DECIDE`, the others do
# not count.
_FEW_OF_ALL = 0.125
# From so many records, as the fourth moments of what each does to an estimate count them, a variance is as good as
# known; of fewer than the second figure nobody knows how far they scatter.
MANY_DECIDE, FEWEST_DECIDE = 50.0, 2.5
# The largest skewness that is looked for.
_MOST_SKEWED = 1.0
# The level of the intervals that end where score tests do.
_OF_SCORE_TESTS = 0.95
# An eigenvalue of so little of the largest may have either sign by rounding.
_ROUNDING = 1e-14


def sandwich(hessian: ArrayLike, meat: ArrayLike, total: float) -> FloatArray:
    """Return the covariance H^-1 J H^-1 / n of a root of a mean estimating equation.

    Parameters
    ----------
    hessian : array of shape (q, q)
        H, the mean derivative of the equation; positive definite.
    meat : array of shape (q, q)
        J, the mean outer product of the records' centred equations; with weights sum w^2 g g' / sum w.
    total : float
        n, or the sum of the weights.

    Returns
    -------
    array of shape (q, q), float64
        The covariance.

    Raises
    ------
    InferenceError
        H is not finite, not positive definite, or so near to singular that its inverse says nothing.

    References
    ----------
    Huber 1967; Stefanski & Boos 2002, equation (10).

    Examples
    --------
    >>> sandwich([[2.0]], [[4.0]], 100)
    array([[0.01]])
    """
    bread = np.asarray(hessian, dtype=np.float64)
    if not np.all(np.isfinite(bread)):
        raise InferenceError(
            "the mean corrected Hessian is not finite at theta. Start elsewhere, bound theta with radius=, or release "
            "with less noise."
        )
    diagonal = np.diag(bread)
    # Signs of eigenvalues are looked at in units of the columns, in which rounding is that of each.
    scale = 1 / np.sqrt(np.where(diagonal != 0, np.abs(diagonal), 1.0))
    sizes = np.linalg.eigvalsh(bread * np.multiply.outer(scale, scale))
    if not sizes[0] >= -_ROUNDING * abs(sizes[-1]):
        raise InferenceError(
            "the mean corrected Hessian is not positive definite, so that theta is no minimum and has no standard "
            "errors. Use more records, raise l2, or release with less noise."
        )
    if not bread.any():
        raise InferenceError(
            "the mean corrected Hessian is 0: the loss is curved at none of these records, which leaves theta no "
            "standard errors. Check the unit of the target beside that of the loss (its threshold, scale or width), or "
            "give l2."
        )
    # A column of zeros may have eigenvalues above 0 by rounding.
    if not (diagonal.min() > 0 and 0 < sizes[-1] <= _LARGEST_CONDITION * sizes[0]):
        raise _singular()
    # By a root of the inverse, in units of the columns: of columns far from 0 products of the inverse itself cancel.
    whole = np.multiply.outer(scale, scale)
    root = np.linalg.inv(np.linalg.cholesky(bread * whole))
    middle = root @ (np.asarray(meat, dtype=np.float64) * whole) @ root.T
    found: FloatArray = root.T @ middle @ root * whole / total
    return (found + found.T) / 2


def require_variances(covariance: FloatArray) -> None:
    """Raise InferenceError where a variance is negative or not finite, which a Hessian next to singular leaves."""
    variances = np.diag(covariance)
    if not (np.all(variances >= 0) and np.all(np.isfinite(variances))):
        raise _singular()


def _of_combinations(matrix: FloatArray, covariance: FloatArray) -> FloatArray:
    """Return A V A', with 0 for variances that rounding alone makes, as of parameters that sum to 0."""
    with np.errstate(over="ignore"):
        found = matrix @ covariance @ matrix.T
    sizes = np.abs(matrix) @ np.sqrt(np.maximum(np.diag(covariance), 0.0))
    sizes[sizes == 0] = 1.0
    # Divided one after the other, so that variances beyond float64 are none of these.
    places = np.flatnonzero(np.diag(found) / sizes / sizes <= _NO_SPREAD)
    found[places, places] = 0.0
    return found


def _singular() -> InferenceError:
    return InferenceError(
        "the mean corrected Hessian is singular to rounding: the records do not tell the parameters apart. Leave "
        "out columns that repeat others, take one that is far from 0 less its mean, or give l2."
    )


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


def deciding_each(squares: FloatArray, fourths: FloatArray) -> FloatArray:
    """Return the number that decides the variance of each parameter, (sum d^2)^2/(sum d^4), shape (q,).

    A parameter that nothing moves is known, and nothing decides it: its number is infinite.

    Parameters
    ----------
    squares, fourths : array of shape (q,), float64
        Sums of d^2 and of d^4, for what leaving out each record (cluster) does to each parameter.

    Examples
    --------
    >>> deciding_each(np.array([4.0, 3.0, 0.0]), np.array([4.0, 4.5, 0.0]))
    array([ 4.,  2., inf])
    """
    return np.asarray(np.where(fourths > 0, squares**2 / np.where(fourths > 0, fourths, 1.0), math.inf))


def freedom_of_records(deciding: FloatArray) -> FloatArray:
    """Return the degrees of freedom of variances that so many records decide: twice as many, infinite from 50 on.

    Parameters
    ----------
    deciding : array of shape (q,), float64
        As of `deciding_each`.

    References
    ----------
    Satterthwaite 1946 (Biometrics Bulletin 2).

    Examples
    --------
    >>> freedom_of_records(np.array([2.7, 60.0]))
    array([ 5., inf])
    """
    return np.asarray(np.where(deciding < MANY_DECIDE, np.floor(2 * np.minimum(deciding, MANY_DECIDE)), math.inf))


def skewness_of_records(deciding: FloatArray, squares: FloatArray, thirds: FloatArray) -> FloatArray:
    """Return the skewness of parameters that few records decide, (sum d^3)/(sum d^2)^1.5; 0 where 50 or more do.

    Parameters
    ----------
    deciding : array of shape (q,), float64
        As of `deciding_each`.
    squares, thirds : array of shape (q,), float64
        Sums of d^2 and d^3, for what each record does to each parameter.

    Examples
    --------
    >>> skewness_of_records(np.array([4.0, 60.0]), np.array([4.0, 9.0]), np.array([2.0, 9.0]))
    array([0.25, 0.  ])
    """
    few = (deciding < MANY_DECIDE) & (squares > 0)
    # Divided one after the other: a power of small squares is no number.
    sizes = np.where(squares > 0, squares, 1.0)
    return np.asarray(np.where(few, thirds / sizes / np.sqrt(sizes), 0.0))


def two_sides(skewness: FloatArray) -> FloatArray:
    """Return by how much estimates are skewed downwards and upwards, shape (q, 2), as `Inference` has it.

    An estimate with a long tail above is mostly too small, so that it is above it that an interval reaches farther.

    Examples
    --------
    >>> two_sides(np.array([0.25, -0.5]))
    array([[0.  , 0.25],
           [0.5 , 0.  ]])
    """
    return np.stack([np.maximum(-skewness, 0.0), np.maximum(skewness, 0.0)], axis=1)


def freedom_of_few(deciding: float, clusters: float) -> int | None:
    """Return the degrees of freedom of a variance over clusters where few of them decide it, and None otherwise.

    Parameters
    ----------
    deciding : float
        m, the number of clusters that decide it: (sum d^2)^2/(sum d^4) for what leaving out each does to the estimate.
    clusters : float
        How many there are, or as many equal ones as they are worth.

    Returns
    -------
    int or None
        Twice m (Satterthwaite 1946) and at most k - 1 with m = k (k + 1)/(3 (k - 1)), the ratio of the means of
        (sum d^2)^2 and sum d^4 for k equal normal numbers less their mean; at least 2.

    Examples
    --------
    >>> freedom_of_few(2.0, 200), freedom_of_few(4.0, 200), freedom_of_few(4.0, 12)
    (2, 8, None)
    """
    if not deciding < min(MANY_DECIDE, _FEW_OF_ALL * (clusters - 1)):
        return None
    linear = 3 * deciding - 1
    alike = (linear + math.sqrt(max(linear**2 - 12 * deciding, 0.0))) / 2
    return max(2, int(min(2 * deciding, alike - 1)))


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
    return float(_two_sided_pvalues(*(np.array([one]) for one in (z, bias_ratio, freedom)))[0])


def _two_sided_pvalues(
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
        beyond = _without_skewness(beyond, skewness[few])
    found[few] = 2 * stdtr(degrees_of_freedom[few], -beyond)
    found[normal] = ndtr(bias_ratio[normal] - size[normal]) + ndtr(-size[normal] - bias_ratio[normal])
    return found


def _without_skewness(size: FloatArray, skewness: FloatArray) -> FloatArray:
    """Return what errors on the side of the long tail are in standard errors of an estimate without skewness.

    It is the inverse of what `skewed_reaches` has on that side.
    """
    skewness = np.minimum(skewness, _most_skewness(size))
    straight = size - skewness * size**2 / 3 + skewness**2 * size**3 / 27 - skewness / 6
    return np.maximum(np.minimum(size, straight), 0.0)


def _skewed_values(
    level: float, bias_ratio: FloatArray, degrees_of_freedom: FloatArray, skewness: FloatArray
) -> FloatArray:
    """Return `critical_values` on a side to which estimates are skewed."""
    found = critical_values(level, bias_ratio, degrees_of_freedom)
    for place in np.flatnonzero((skewness > 0) & np.isfinite(found)):
        bias = float(bias_ratio[place])
        found[place] = bias + skewed_reaches(float(found[place]) - bias, float(skewness[place]))[1]
    return found


def _fieller_ends(
    level: float,
    bias_ratio: FloatArray,
    degrees_of_freedom: FloatArray,
    slope: FloatArray,
    bend: FloatArray,
    levels: FloatArray,
    skewness: FloatArray,
) -> FloatArray:
    """Return how many standard errors intervals reach to one side, shape (k,)."""
    begin = _skewed_values(level, bias_ratio, degrees_of_freedom, skewness)
    # What is left of the bias where an end is nowhere, and what is to be told beyond it.
    left = np.where(bend > 0, 0.0, bias_ratio)
    least = _skewed_values(level, left, degrees_of_freedom, skewness) - left
    # Of a bend that was found for an end that is nowhere rounding says neither.
    flat = bend + _levels_beyond(levels, left)
    found = np.where(np.isfinite(begin) & (flat < (1 - 1e-12) * least**-2.0), begin, math.inf)
    (some,) = np.nonzero(np.isfinite(found))

    def excess(t: FloatArray, places: IntegerArray) -> FloatArray:
        of = some[places]
        size = _statistic(t, slope[of], bend[of], levels[of], bias_ratio[of])
        bias = bias_ratio[of] / _root(t, slope[of], bend[of])
        return _two_sided_pvalues(size, bias, degrees_of_freedom[of], skewness[of]) - (1 - level)

    found[some] = fieller_ends(excess, begin[some])
    return found


def _root(t: FloatArray | float, slope: FloatArray | float, bend: FloatArray | float) -> FloatArray:
    return np.sqrt(fieller_variance(t, slope, bend))


def _statistic(
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


@dataclass(frozen=True)
class WaldTest:
    """A Wald test of R theta = r.

    Attributes
    ----------
    statistic : float
        (R theta - r)' (R V R')^-1 (R theta - r).
    degrees_of_freedom : int
        The rank of R.
    pvalue : float
        The largest probability of so large a statistic under the hypothesis, whatever the bias is within its bounds:
        from the chi-squared distribution of that noncentrality, or from Hotelling's where the covariance rests on few
        values.
    of_covariance : float or None
        The degrees of freedom of the estimate of the covariance, where they are few.
    noncentrality : float
        The largest (R b)' (R V R')^-1 (R b) of biases b within their bounds, those of all combinations included, or a
        bound on it; 0 without bias.

    Examples
    --------
    >>> import numpy as np
    >>> test = wald_test(np.array([1.0, 2.0]), np.diag([0.01, 0.04]), [[1.0, 0.0]], [0.8])
    >>> round(test.statistic, 4), test.degrees_of_freedom, round(test.pvalue, 4)
    (4.0, 1, 0.0455)
    """

    statistic: float
    degrees_of_freedom: int
    pvalue: float
    of_covariance: float | None = None
    noncentrality: float = 0.0

    def __str__(self) -> str:
        bias = f", bias up to a noncentrality of {self.noncentrality:.3g}" if self.noncentrality > 0 else ""
        if self.of_covariance is not None:
            name = f"T2({self.degrees_of_freedom}, {self.of_covariance:.4g})"
        else:
            name = f"chi2({self.degrees_of_freedom})"
        return f"{name} = {self.statistic:.4g}, p = {self.pvalue:.3g}{bias}"


def wald_test(
    theta: FloatArray,
    covariance: FloatArray,
    restrictions: ArrayLike,
    values: ArrayLike = 0.0,
    *,
    bias: FloatArray | None = None,
    bias_factors: FloatArray | None = None,
    degrees_of_freedom: float | None = None,
) -> WaldTest:
    """Test R theta = r.

    Parameters
    ----------
    theta : array of shape (q,), float64
        The estimate.
    covariance : array of shape (q, q), float64
        Its covariance.
    restrictions : array of shape (q,) or (k, q)
        R, of full row rank.
    values : float or array of shape (k,)
        r.
    bias : array of shape (q,), float64, optional
        Bounds on the absolute bias of each entry of theta, non-negative; none by default.
    bias_factors : array of shape (m, q, r), float64, optional
        As for `Inference`: bounds on the bias of all combinations, beside those of each entry.
    degrees_of_freedom : float, optional
        Of the estimate of the covariance, at least k; the test is then Hotelling's.

    Raises
    ------
    ValueError
        The shapes do not fit, or the rows of R are linearly dependent.
    InferenceError
        More restrictions than the covariance has degrees of freedom, or a combination of them has no variance.

    Notes
    -----
    With a bias b the statistic has the noncentrality (R b)'(R V R')^-1 (R b), which is convex in b and largest where
    every entry is at a bound. All signs are tried for up to 12 entries; beyond them it is bounded from above. With b
    such that abs(a'b) <= ||F'a|| for all a it is at most the largest eigenvalue of (R V R')^-1 R F F'R', and the least
    of all bounds is taken. With one restriction the test rejects at level 1 - c where the interval of level c leaves r
    out. Where the covariance has few degrees of freedom the root of the noncentrality is taken off that of the
    statistic.

    Examples
    --------
    >>> print(wald_test(np.array([2.0, 0.0]), np.eye(2), [1.0, 0.0]))
    chi2(1) = 4, p = 0.0455
    >>> print(wald_test(np.array([2.0, 0.0]), np.eye(2), [1.0, 0.0], bias=np.array([0.5, 0.5])))
    chi2(1) = 4, p = 0.073, bias up to a noncentrality of 0.25
    """
    rows = np.atleast_2d(real_array(restrictions, "restrictions"))
    if rows.ndim != 2 or rows.shape[1] != len(theta):
        raise ValueError(
            f"restrictions has the shape {np.shape(restrictions)}; it must be ({len(theta)},) or (k, {len(theta)}): "
            "one row for each restriction."
        )
    # What they are in the unit of their largest entry, whose squares are finite and not 0.
    units = np.abs(rows).max(axis=1)
    units[units == 0] = 1.0
    rows = rows / units[:, None]
    if np.linalg.matrix_rank(rows) < len(rows):
        raise ValueError("the rows of restrictions are linearly dependent. Leave out those that follow from others.")
    wanted = real_array(np.atleast_1d(np.asarray(values)), "values")
    if wanted.shape not in ((1,), (len(rows),)):
        raise ValueError(
            f"values has the shape {np.shape(values)}; it must be a number, or ({len(rows)},): one for each "
            "restriction."
        )
    rows, wanted = _apart(rows, np.broadcast_to(wanted, (len(rows),)) / units)
    count = len(rows)
    if degrees_of_freedom is not None and degrees_of_freedom < count:
        raise InferenceError(
            f"{count} restrictions cannot be tested together by a covariance of {degrees_of_freedom:.3g} degrees of "
            "freedom. Test fewer at a time, or have more clusters or batches."
        )
    distance = rows @ theta - wanted
    spread = rows @ covariance @ rows.T
    sizes = np.abs(rows) @ np.sqrt(np.diag(covariance))
    sizes[sizes == 0] = 1.0
    if np.linalg.eigvalsh(spread / np.multiply.outer(sizes, sizes))[0] <= _NO_SPREAD:
        raise InferenceError(
            "a combination of the restrictions has no variance, and cannot be tested: a parameter is held, or all "
            "classes of softmax take part, whose parameters sum to 0. Leave it out."
        )
    with np.errstate(all="ignore"):
        statistic = float(distance @ np.linalg.solve(spread, distance))
    if not math.isfinite(statistic):
        raise ValueError(
            "values lie so many standard errors from the estimate that the statistic is above every float. Correct "
            "them, or the unit that they are in."
        )
    most = 0.0
    if bias is not None and np.any(bias > 0):
        if not np.all(np.isfinite(bias)):
            raise InferenceError("the bias of the estimate has no finite bound, and no test keeps its level.")
        # Columns whitened by the covariance: the noncentrality is the square of a sum of them with signs.
        root = np.linalg.cholesky(spread)
        most = _longest_sum(np.linalg.solve(root, rows * bias)) ** 2
        if bias_factors is not None:
            longest = np.linalg.norm(np.linalg.solve(root, rows @ bias_factors), 2, axis=(1, 2))
            most = min(most, float(longest.min()) ** 2)
    if degrees_of_freedom is None:
        return WaldTest(statistic, count, _chi2_tail(statistic, count, most), noncentrality=most)
    left = degrees_of_freedom - count + 1
    beyond = max(math.sqrt(statistic) - math.sqrt(most), 0.0) ** 2
    chance = float(fdtrc(count, left, beyond * left / (degrees_of_freedom * count)))
    return WaldTest(statistic, count, chance, degrees_of_freedom, most)


def _apart(rows: FloatArray, values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the same restrictions, of which each has an entry that no other one has.

    Restrictions that have a parameter of large variance in common would hide one of small variance, by which they
    differ, below its rounding.
    """
    both = np.column_stack((rows, values))
    for row in range(len(both)):
        place, column = divmod(int(np.argmax(np.abs(both[row:, :-1]))), both.shape[1] - 1)
        both[[row, row + place]] = both[[row + place, row]]
        both[row] /= both[row, column]
        others = np.arange(len(both)) != row
        both[others] -= np.multiply.outer(both[others, column], both[row])
    return both[:, :-1], both[:, -1]


def _chi2_tail(statistic: float, degrees_of_freedom: int, noncentrality: float) -> float:
    """Return the probability beyond a statistic of the noncentral chi-squared distribution."""
    if noncentrality == 0:
        return float(chdtrc(degrees_of_freedom, statistic))
    # scipy.special has only the distribution function, and 1 less it has no small tails. SciPy imports the package
    # when it is first named, which takes as long as SymPy does.
    return float(scipy.stats.ncx2.sf(statistic, degrees_of_freedom, noncentrality))


def _longest_sum(columns: FloatArray) -> float:
    """Return the largest norm of the sum of columns with signs of one's choice, or an upper bound on it for many."""
    columns = columns[:, np.any(columns != 0, axis=0)]
    count = columns.shape[1]
    if len(columns) == 1 or count <= 1:
        return float(np.abs(columns).sum(axis=1).max()) if len(columns) == 1 else float(np.linalg.norm(columns))
    if count <= _MOST_SIGNS:
        # The sign of all together does not matter.
        signs = np.ones((2 ** (count - 1), count))
        signs[:, 1:] -= 2 * (np.arange(len(signs))[:, None] >> np.arange(count - 1) & 1)
        return float(np.linalg.norm(signs @ columns.T, axis=1).max())
    products = columns.T @ columns
    return math.sqrt(min(float(np.abs(products).sum()), count * float(np.linalg.eigvalsh(products).max())))


@dataclass(frozen=True)
class Inference:
    """What a solver knows of the accuracy of its parameters.

    Attributes
    ----------
    covariance : array of shape (q, q), float64, or None
        Of all parameters, scores after one another; None where there is none. It has no bias in it.
    kind : str
        How it was found.
    refusal : str
        Why there are no intervals; empty where there are.
    bias : array of shape (q,), float64
        A bound on the bias of each parameter that the correction's own bias makes; 0 where it is exact.
    notes : tuple of str
        What to know of it.
    degrees_of_freedom : array of shape (q,), float64, or float, or None
        Of the variance of each parameter, or one number for all, where it rests on few values: intervals and tests then
        allow for its own error. Infinite where a variance is as good as known, None where all are. Tests, and
        combinations of parameters, have the least of those that take part.
    joint_degrees_of_freedom : float or None
        A bound on those for tests of several restrictions.
    curving : array of shape (q, 2), float64, or None
        a and b of each parameter, where its curvature is uncertain: t standard errors away from it the variance of a
        score test is 1 + a t + b t^2 of that at the estimate. Intervals then reach at least as far as Fieller's, whose
        ends may be infinite, and p values agree with them.
    levelling : array of shape (q, 2), float64, or None
        c below and above each parameter, where its score levels off: without bias c t^2 is added to that variance, and
        with it as much in proportion beyond the bias. Intervals of 95% then end where the score test does, the bias
        added, which may be nowhere.
    skewness : array of shape (q, 2), float64, or None
        That of each parameter downwards and upwards, non-negative, where few records decide its variance: intervals
        reach farther to that side, see `skewed_reaches`, and p values agree with them.
    bias_factors : array of shape (m, q, r), float64, or None
        Of each of m bounds on the bias of all combinations a factor F: the bias of a'theta is at most ||F'a||, for
        every a. Biases of parameters mostly cancel in a prediction, and so does F'a; their bounds add up. None where
        nothing but the bound of each parameter is known.

    Examples
    --------
    >>> import numpy as np
    >>> known = Inference(np.diag([0.01, 0.04]), "sandwich")
    >>> known.standard_errors()
    array([0.1, 0.2])
    >>> known.interval(np.array([1.0, 2.0]), 0.95).round(2)
    array([[0.8 , 1.2 ],
           [1.61, 2.39]])
    """

    covariance: FloatArray | None
    kind: str
    refusal: str = ""
    bias: FloatArray | None = None
    notes: tuple[str, ...] = ()
    degrees_of_freedom: FloatArray | float | None = None
    joint_degrees_of_freedom: float | None = None
    curving: FloatArray | None = None
    levelling: FloatArray | None = None
    skewness: FloatArray | None = None
    bias_factors: FloatArray | None = None

    def required_covariance(self) -> FloatArray:
        """Return the covariance.

        Raises
        ------
        InferenceError
            There is none.
        """
        if self.covariance is None:
            raise InferenceError(self.refusal)
        return self.covariance

    def standard_errors(self) -> FloatArray:
        """Return the roots of the covariance's diagonal, without the bias."""
        found: FloatArray = np.sqrt(np.diag(self.required_covariance()))
        return found

    def interval(self, theta: FloatArray, level: float) -> FloatArray:
        """Return intervals of shape (q, 2) that reach further where there is bias.

        Raises
        ------
        InferenceError
            There are none; the message says why.
        """
        level = OPEN_UNIT.check("level", level)
        errors = self.standard_errors()
        if self.refusal:
            raise InferenceError(self.refusal)
        bias, freedom, known = self.bias_of(len(theta)), self.freedom(len(theta)), errors > 0
        ratio = np.divide(bias, errors, where=known, out=np.zeros(len(theta)))
        reach = np.where(known, critical_values(level, ratio, freedom) * errors, bias)
        ends = np.stack([theta - reach, theta + reach], axis=1)
        for side, sign in enumerate((-1, 1)):
            changes = self._changes(len(theta), sign)
            (places,) = np.nonzero(known & (changes[1] + changes[2] + changes[3] > 0))
            told = (one[places] for one in (ratio, freedom, *changes))
            ends[places, side] = theta[places] + sign * errors[places] * _fieller_ends(level, *told)
        return ends

    def pvalues(self, theta: FloatArray) -> FloatArray:
        """Return two-sided p values of parameters of 0, shape (q,): 1 less the level of the interval that reaches it.

        Raises
        ------
        InferenceError
            There are none; the message says why.
        """
        errors = self.standard_errors()
        if self.refusal:
            raise InferenceError(self.refusal)
        bias, freedom, known = self.bias_of(len(theta)), self.freedom(len(theta)), errors > 0
        found = (np.abs(theta) <= bias).astype(np.float64)
        away, ratio = -theta[known] / errors[known], bias[known] / errors[known]
        below, above = (np.array(self._changes(len(theta), sign))[:, known] for sign in (-1, 1))
        slope, bend, levels, skewness = np.where(away > 0, above, below)
        size = np.abs(away)
        statistic = _statistic(size, slope, bend, levels, ratio)
        found[known] = _two_sided_pvalues(statistic, ratio / _root(size, slope, bend), freedom[known], skewness)
        return found

    def test(self, theta: FloatArray, restrictions: ArrayLike, values: ArrayLike) -> WaldTest:
        """Return the Wald test of R theta = r, the bias within its bounds; see `wald_test`.

        Raises
        ------
        InferenceError
            There is none; the message says why.
        """
        covariance = self.required_covariance()
        if self.refusal:
            raise InferenceError(self.refusal)
        rows = np.atleast_2d(real_array(restrictions, "restrictions"))
        taking = np.ones(len(theta), dtype=bool)
        if rows.ndim == 2 and rows.shape[1] == len(theta):
            taking = np.any(rows != 0, axis=0)
        freedom = float(np.min(self.freedom(len(theta)), initial=math.inf, where=taking))
        if self.joint_degrees_of_freedom is not None and len(rows) > 1:
            freedom = min(freedom, self.joint_degrees_of_freedom)
        known = float(freedom) if math.isfinite(freedom) else None
        bias, factors = self.bias_of(len(theta)), self.bias_factors
        tested = functools.partial(wald_test, theta, restrictions=restrictions, values=values, degrees_of_freedom=known)
        test = tested(covariance, bias=bias, bias_factors=factors)
        larger, of_curvature = self._variances_there(theta, rows, values, test)
        larger = self._with_skewness(larger, of_curvature, theta, rows, values)
        if larger > 1:
            # A score that levels off is no larger variance: the bias stays what it is beside its errors.
            kept = math.sqrt(larger / of_curvature)
            factors = None if factors is None else kept * factors
            test = tested(larger * covariance, bias=kept * bias, bias_factors=factors)
        return test

    def _variances_there(
        self, theta: FloatArray, rows: FloatArray, values: ArrayLike, test: WaldTest
    ) -> tuple[float, float]:
        """Return the variance of a score test where restrictions hold over that at the estimate, and the curvature's.

        Of a single parameter it is Fieller's, as intervals have it. Of combinations it is that of the parameter whose
        curvature is the least certain, without its slope.
        """
        places = np.flatnonzero(np.any(rows != 0, axis=0))
        if len(places) == 1 and self.standard_errors()[places[0]] > 0:
            place = int(places[0])
            wanted = float(np.ravel(np.asarray(values))[0]) / float(rows[0, place])
            away = float((wanted - theta[place]) / self.standard_errors()[place])
            slope, bend, levels, _ = self._changing(place, 1 if away > 0 else -1)
        else:
            away, slope = math.sqrt(test.statistic), 0.0
            changing = [self._changing(int(place), sign) for place in places for sign in (-1, 1)]
            bend, levels = (max((one[index] for one in changing), default=0.0) for index in (1, 2))
        of_curvature = float(fieller_variance(abs(away), slope, bend))
        ratio = math.sqrt(test.noncentrality)
        size = float(_statistic(abs(away), slope, bend, levels, ratio))
        return (away / size) ** 2 if size > 0 else of_curvature, of_curvature

    def _with_skewness(
        self, larger: float, of_curvature: float, theta: FloatArray, rows: FloatArray, values: ArrayLike
    ) -> float:
        """Return by how much more the variance counts as larger, as an error on the side of a long tail is smaller.

        It is as much more as it would be for the parameter that this makes most of where the hypothesis is nearest: of
        a single parameter the p value is then that of `pvalues`.
        """
        if self.skewness is None:
            return larger
        covariance = self.required_covariance()
        off = rows @ theta - np.asarray(values, dtype=np.float64)
        away = -covariance @ rows.T @ np.linalg.solve(rows @ covariance @ rows.T, off)
        errors = np.sqrt(np.maximum(np.diag(covariance), 0.0))
        most = 1.0
        for place in np.flatnonzero((errors > 0) & np.any(rows != 0, axis=0)):
            skewness = float(self.skewness[place, int(away[place] > 0)])
            size = abs(float(away[place])) / (float(errors[place]) * math.sqrt(larger))
            bias = float(self.bias_of(len(theta))[place]) / (float(errors[place]) * math.sqrt(of_curvature))
            if skewness > 0 and size > bias:
                left = bias + float(_without_skewness(np.array([size - bias]), np.array([skewness]))[0])
                # Without any error left the p value is 1.
                most = max(most, size / max(left, 1e-9 * size))
        return larger * most**2

    def mapped(self, matrix: FloatArray) -> "Inference":
        """Return that of A theta: the covariance A V A', and bounds on the bias that hold whatever its signs are.

        Those are sums of the bounds of parameters, or what `bias_factors` say where that is less.

        Parameters
        ----------
        matrix : array of shape (r, q), float64
            A.
        """
        covariance = None if self.covariance is None else _of_combinations(matrix, self.covariance)
        bias = self.bias
        if bias is not None:
            # A bound may be infinite, and is none of a parameter that does not take part.
            known = np.where(matrix != 0, bias, 0.0)
            bias = np.sum(np.abs(matrix) * known, axis=1)
        factors = self.bias_factors
        if factors is not None:
            with np.errstate(over="ignore", invalid="ignore"):
                factors = matrix @ factors
                together = np.linalg.norm(factors, axis=2).min(axis=0)
            if bias is not None:
                # What cancels is known but for its rounding.
                bias = np.fmin(bias, together + _ROUNDING * bias)
        freedom = self.degrees_of_freedom
        if isinstance(freedom, np.ndarray):
            freedom = np.min(np.where(matrix != 0, freedom, math.inf), axis=1)
        curving = self.curving
        if curving is not None:
            takes_part = matrix != 0
            # One parameter by itself may change its sign; combinations are as uncertain as the worst that takes part.
            slopes = np.where(takes_part.sum(axis=1) == 1, np.sign(matrix) @ curving[:, 0], 0.0)
            bends = np.max(np.where(takes_part, curving[:, 1], 0.0), axis=1, initial=0.0)
            curving = np.stack([slopes, bends], axis=1)
        return replace(
            self, covariance=covariance, bias=bias, bias_factors=factors, degrees_of_freedom=freedom, curving=curving,
            levelling=_worst_sides(self.levelling, matrix), skewness=_worst_sides(self.skewness, matrix),
        )  # fmt: skip

    @property
    def has_bias(self) -> bool:
        """Whether a parameter may have bias."""
        return self.bias is not None and bool(np.any(self.bias > 0))

    def freedom(self, size: int) -> FloatArray:
        """Return the degrees of freedom of so many parameters, shape (size,): infinite for the normal distribution."""
        known = math.inf if self.degrees_of_freedom is None else self.degrees_of_freedom
        return np.array(np.broadcast_to(known, (size,)), dtype=np.float64)

    def _changes(self, size: int, sign: int) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return a and b of the variance 1 + a t + b t^2 of a score test t errors to one side, c, and the skewness.

        By c t^2 more it is as if the score did not level off. Each is of so many parameters, shape (size,).
        """
        curving = np.zeros((size, 2)) if self.curving is None else self.curving
        levels = np.zeros(size) if self.levelling is None else self.levelling[:, int(sign > 0)]
        skewness = np.zeros(size) if self.skewness is None else self.skewness[:, int(sign > 0)]
        return sign * curving[:, 0], curving[:, 1], levels, skewness

    def _changing(self, place: int, sign: int) -> tuple[float, float, float, float]:
        """Return the same of one parameter."""
        slope, bend, levels, skewness = (float(one[place]) for one in self._changes(place + 1, sign))
        return slope, bend, levels, skewness

    def bias_of(self, size: int) -> FloatArray:
        """Return the bounds on the bias of so many parameters, shape (size,)."""
        return np.zeros(size) if self.bias is None else self.bias


def _worst_sides(sides: FloatArray | None, matrix: FloatArray) -> FloatArray | None:
    """Return numbers below and above combinations of parameters, shape (r, 2), from those of each.

    One parameter by itself may change its sign; to both sides combinations have the largest of those that take part.
    """
    if sides is None:
        return None
    takes_part = matrix != 0
    worst = np.max(np.where(takes_part, sides.max(axis=1), 0.0), axis=1, initial=0.0)
    found = np.stack([worst, worst], axis=1)
    for place in np.flatnonzero(takes_part.sum(axis=1) == 1):
        (only,) = np.flatnonzero(takes_part[place])
        found[place] = sides[only, :: int(np.sign(matrix[place, only]))]
    return found


def batch_means(means: Sequence[FloatArray], lengths: Sequence[int]) -> FloatArray:
    """Return the covariance of the average of all steps but the first batch, by batch means.

    Parameters
    ----------
    means : sequence of arrays of shape (q,)
        The means of the iterates of each batch.
    lengths : sequence of int
        The numbers of steps of each.

    Returns
    -------
    array of shape (q, q), float64
        sum_k n_k (mean_k - mean)(mean_k - mean)' / (M - 1) / n.

    Raises
    ------
    InferenceError
        There are no more batches than parameters.

    References
    ----------
    Chen, Lee, Tong & Zhang 2020 (Annals of Statistics 48), the batch-means estimator.

    Examples
    --------
    >>> import numpy as np
    >>> means = [np.array([1.0]), np.array([1.2]), np.array([0.9]), np.array([1.1])]
    >>> batch_means(means, [10, 20, 30, 40]).round(4)
    array([[0.0042]])
    """
    count, size = len(means), len(means[0]) if len(means) else 1
    rows, weights = np.array(means), np.array(lengths, dtype=float)
    if count <= size:
        raise InferenceError(
            f"{count} batches of steps do not estimate the covariance of the parameters. Take more steps (a smaller "
            'batch_size or more records), or ask for covariance="plug-in".'
        )
    total = float(weights.sum())
    centre = weights @ rows / total
    moved = rows - centre
    found: FloatArray = (moved * weights[:, None]).T @ moved / (count - 1) / total
    return found
