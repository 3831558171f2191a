"""From a budget to a noise scale, rounded to the safe side.

The curves are evaluated with 70 digits, so that what is rounded is the exact value and not an error of it.
"""

import functools
import math
from fractions import Fraction
from typing import Any

from symdebias._domains import COUNT, DELTA, EPSILON, SCALE, Integer, Interval
from symdebias.privacy import precise
from symdebias.privacy.precise import normal_cdf, rounded_up

# Newton's method doubles its digits at each step; bisection steps at the start are few.
_MOST_STEPS = 200
# Within the domain of epsilon, the curve is below every float64 above this range and rounds to 1 below it.
_LEAST_MULTIPLIER, _LARGEST_MULTIPLIER = 1e-3, 1e9
# Twice a radius.
_SENSITIVITY = Interval(
    1e-100, 2e100, "both", "Give the sensitivity in the units of the data; change units where needed."
)


def analytic_gaussian_delta(epsilon: float, scale: float, sensitivity: float) -> float:
    """Return the least delta at which Gaussian noise is (epsilon, delta)-private, rounded up.

    delta = Phi(Delta/(2 sigma) - eps sigma/Delta) - e^eps Phi(-Delta/(2 sigma) - eps sigma/Delta)

    Parameters
    ----------
    epsilon : float
        The privacy budget, in [1e-6, 700].
    scale : float
        The noise's standard deviation sigma, in [1e-100, 1e120].
    sensitivity : float
        The L2 sensitivity Delta, in [1e-100, 2e100].

    Returns
    -------
    float
        The exact delta or the next float64 above it; at most 1.

    Raises
    ------
    ValueError, TypeError
        An argument is outside its range.

    References
    ----------
    Balle & Wang 2018, Theorem 8.

    Examples
    --------
    >>> analytic_gaussian_delta(1.0, 3.730631634815942, 1.0) <= 1e-5
    True
    """
    epsilon, scale = EPSILON.check("epsilon", epsilon), SCALE.check("scale", scale)
    sensitivity = _SENSITIVITY.check("sensitivity", sensitivity)
    context = precise.context()
    multiplier = min(max(context.mpf(scale) / sensitivity, _LEAST_MULTIPLIER), _LARGEST_MULTIPLIER)
    return rounded_up(context, gaussian_curve(context, epsilon, context.mpf(multiplier)))


def analytic_gaussian_scale(epsilon: float, delta: float, sensitivity: float) -> float:
    """Return the least noise scale that gives (epsilon, delta)-differential privacy, rounded up.

    Parameters
    ----------
    epsilon : float
        The privacy budget, in [1e-6, 700].
    delta : float
        In (0, 1).
    sensitivity : float
        The L2 sensitivity, in [1e-100, 2e100]; replace-one in a ball of radius R: 2 R.

    Returns
    -------
    float
        sigma: the exact value or the next float64 above it, never below.

    Raises
    ------
    ValueError, TypeError
        An argument is outside its range.

    Notes
    -----
    The scale that is returned is put back into the curve, and its delta is at most the one asked for.

    References
    ----------
    Balle & Wang 2018, Theorem 8 (solved here by Newton's method with 70 digits).

    Examples
    --------
    >>> analytic_gaussian_scale(1.0, 1e-5, 1.0)
    3.730631634815942
    """
    epsilon, delta = EPSILON.check("epsilon", epsilon), DELTA.check("delta", delta)
    return _analytic_scale(epsilon, delta, _SENSITIVITY.check("sensitivity", sensitivity))


def analytic_gaussian_epsilon(delta: float, scale: float, sensitivity: float) -> float:
    """Return the least epsilon at which Gaussian noise is (epsilon, delta)-private, rounded up.

    Parameters
    ----------
    delta : float
        In (0, 1).
    scale : float
        The noise's standard deviation sigma, in [1e-100, 1e120].
    sensitivity : float
        The L2 sensitivity Delta, in [1e-100, 2e100].

    Returns
    -------
    float
        Zero or more. About Delta^2/(2 sigma^2) where the noise is small: far beyond what protects anything.

    Raises
    ------
    ValueError, TypeError
        An argument is outside its range.

    Notes
    -----
    The epsilon that is returned is put back into the curve, and its delta is at most the one given.

    References
    ----------
    Balle & Wang 2018, Theorem 8 (solved here by bisection with 70 digits).

    Examples
    --------
    >>> analytic_gaussian_epsilon(1e-5, 3.730631634815942, 1.0) <= 1.0
    True
    >>> round(analytic_gaussian_epsilon(1e-5, 1.0, 100.0))
    5426
    """
    delta, scale = DELTA.check("delta", delta), SCALE.check("scale", scale)
    sensitivity = _SENSITIVITY.check("sensitivity", sensitivity)
    context = precise.context()
    multiplier = context.mpf(scale) / sensitivity
    # Below, what is private at 0 already; above, what the tail of one normal variable bounds.
    low, high = (
        context.mpf(0),
        1 / (2 * multiplier**2) + context.sqrt(2 * context.log(1 / context.mpf(delta))) / multiplier,
    )
    if gaussian_curve(context, low, multiplier) <= delta:
        return 0.0
    while high - low > high * context.mpf(2) ** -60:
        middle = (low + high) / 2
        if gaussian_curve(context, middle, multiplier) <= delta:
            high = middle
        else:
            low = middle
    found = rounded_up(context, high)
    while gaussian_curve(context, context.mpf(found), multiplier) > delta:
        found = math.nextafter(found, math.inf)
    return found


def input_perturbation_scales(
    n: int, dimension: int, *, epsilon: float, delta: float, lipschitz: float, curvature: float
) -> tuple[float, float]:
    """Return sigma_u and sigma_b of input perturbation as published, rounded up.

    With gamma = delta' = delta/2, a_2 = sqrt(log(2/gamma)/n), a_4 = sqrt(log(4/gamma)/n) and c = 1 - 2 a_4

        sigma_b^2 = zeta^2 (8 log(2/delta') + 4 epsilon)/epsilon^2
        sigma_u = (sqrt(2 d) lambda a_2 + sqrt(2 d lambda^2 a_2^2 + 2 lambda c/epsilon))/c

    Each of n contributors adds noise of variance sigma_u^2/n to q and sigma_b^2/n to p.

    Parameters
    ----------
    n : int
        The number of records, public; so large that a_4 < 1/2, which is n > 4 log(8/delta).
    dimension : int
        The number d of parameters, at least 1.
    epsilon : float
        In [1e-6, 700]; central model, replace-one.
    delta : float
        In (0, 1).
    lipschitz : float
        zeta, a bound on the gradient of one record, positive.
    curvature : float
        lambda, a bound on ||q||^2, positive.

    Returns
    -------
    sigma_u, sigma_b : float
        Of the sums over all records.

    Raises
    ------
    ValueError, TypeError
        An argument is outside its range; too few records.

    Notes
    -----
    The sum of p changes by at most 2 zeta when a record is replaced, which is where sigma_b comes from: it is
    2 zeta sqrt(2 log(2/delta') + epsilon)/epsilon. sigma_u solves c s^2 - 2 sqrt(2 d) lambda a_2 s = 2 lambda/epsilon:
    the left side is meant to bound from below, but for a probability of gamma, the curvature that the noise of q adds
    to the sum of q q'. It does not: the products of q and its noise vary by 2 sigma_u sqrt(w'Q'Q w/n) in the direction
    w, which does not fall with n. **The central guarantee that the scales are made for is therefore unproved.**

    References
    ----------
    Fukuchi, Tran & Sakuma 2017 (arXiv 1710.07425), Lemma 1, Theorem 2 and Corollary 2; Kifer, Smith & Thakurta 2012,
    Theorem 2, for sigma_b.

    Examples
    --------
    >>> sigma_u, sigma_b = input_perturbation_scales(
    ...     100_000, 14, epsilon=1.0, delta=0.01, lipschitz=2.0, curvature=1.0
    ... )
    >>> round(sigma_u, 4), round(sigma_b, 4)
    (1.4682, 14.4127)
    """
    count, width = COUNT.check("n", n), COUNT.check("dimension", dimension)
    epsilon, delta = EPSILON.check("epsilon", epsilon), DELTA.check("delta", delta)
    zeta, bound = _SENSITIVITY.check("lipschitz", lipschitz), _SENSITIVITY.check("curvature", curvature)
    context = precise.context()
    gamma = context.mpf(delta) / 2
    last = int(context.floor(4 * context.log(4 / gamma)))
    if not count > last:
        raise ValueError(
            f"n={count} is too small. At delta={delta:g} these scales exist from {last + 1} records on, where "
            "sqrt(log(8/delta)/n) < 1/2. Use more records, or a larger delta."
        )
    left = 1 - 2 * context.sqrt(context.log(4 / gamma) / count)
    linear = context.sqrt(2 * width * context.log(2 / gamma) / count) * bound
    sigma_u = (linear + context.sqrt(linear**2 + 2 * bound * left / context.mpf(epsilon))) / left
    sigma_b = zeta * context.sqrt(8 * context.log(2 / gamma) + 4 * context.mpf(epsilon)) / context.mpf(epsilon)
    return rounded_up(context, sigma_u), rounded_up(context, sigma_b)


def classical_gaussian_scale(epsilon: float, delta: float, sensitivity: float) -> float:
    """Return the classical noise scale Delta sqrt(2 log(1.25/delta))/epsilon, for epsilon up to 1.

    Parameters
    ----------
    epsilon : float
        The privacy budget, in [1e-6, 1].
    delta, sensitivity : float
        As for `analytic_gaussian_scale`.

    Returns
    -------
    float
        sigma: the exact value or the next float64 above it.

    Raises
    ------
    ValueError
        epsilon exceeds 1, where the calibration has no proof.

    References
    ----------
    Dwork & Roth 2014, Theorem A.1; Dufraiche et al. 2026, Proposition 2.2.

    Examples
    --------
    >>> round(classical_gaussian_scale(1.0, 1e-5, 1.0), 3)
    4.845
    """
    epsilon, delta = EPSILON.check("epsilon", epsilon), DELTA.check("delta", delta)
    if epsilon > 1:
        raise ValueError(
            f"epsilon={epsilon!r} exceeds 1, where the classical Gaussian calibration has no proof. "
            'Use calibration="analytic" (the default).'
        )
    sensitivity = _SENSITIVITY.check("sensitivity", sensitivity)
    context = precise.context()
    exact = sensitivity * context.sqrt(2 * context.log(context.mpf(5) / 4 / delta)) / context.mpf(epsilon)
    return rounded_up(context, exact)


def keep_probability(epsilon: float, categories: int = 2) -> float:
    """Return the probability with which randomized response keeps a value of k: 1/(1 + (k - 1) e^-epsilon).

    Parameters
    ----------
    epsilon : float
        The privacy budget, in [1e-6, 700].
    categories : int
        The number k of values, at least 2.

    Returns
    -------
    float
        The largest multiple of 2^-53 that is at most the exact value and below 1. A comparison with a 53-bit
        uniform number realises it exactly, and the odds of keeping are at most e^epsilon.

    Raises
    ------
    ValueError, TypeError
        epsilon is outside its range.

    References
    ----------
    Warner 1965; Kairouz, Oh & Viswanath 2014, Section 3.1 (k-ary randomized response).

    Examples
    --------
    >>> round(keep_probability(1.0), 6)
    0.731059
    """
    epsilon = EPSILON.check("epsilon", epsilon)
    context = precise.context()
    others = Integer(2).check("categories", categories) - 1
    units = int(context.floor(2**53 / (1 + others * context.exp(-context.mpf(epsilon)))))
    return min(units, 2**53 - 1) / 2**53


@functools.lru_cache(maxsize=1024)
def largest_ratio(epsilon: float) -> Fraction:
    """Return the largest multiple of 2^-120 that is at most e^epsilon, and at most 2^60; epsilon is in [1e-6, 700].

    The ratio of two probabilities is compared with it in exact arithmetic. Ratios above 2^60 do not occur among
    multiples of 2^-53.

    Examples
    --------
    >>> float(largest_ratio(1.0))
    2.718281828459045
    """
    context = precise.context()
    exact = context.exp(min(context.mpf(EPSILON.check("epsilon", epsilon)), 60 * context.log(2)))
    return Fraction(int(context.floor(exact * 2**120)), 2**120)


@functools.lru_cache(maxsize=1024)
def _analytic_scale(epsilon: float, delta: float, sensitivity: float) -> float:
    context = precise.context()
    scale = rounded_up(context, sensitivity * _solve(context, epsilon, delta))
    while gaussian_curve(context, epsilon, context.mpf(scale) / sensitivity) > delta:
        scale = math.nextafter(scale, math.inf)
    return scale


def _solve(context: Any, epsilon: float, delta: float) -> Any:
    """Return the sigma/Delta at which the curve equals delta."""
    low = high = context.mpf(1)
    while gaussian_curve(context, epsilon, high) > delta:
        low, high = high, 4 * high
    while gaussian_curve(context, epsilon, low) <= delta:
        low, high = low / 4, low
    target = context.log(context.mpf(delta))
    # log delta as a function of log multiplier; d delta/d multiplier = -phi(half - shift)/multiplier^2.
    position = (context.log(low) + context.log(high)) / 2
    low, high = context.log(low), context.log(high)
    for _ in range(_MOST_STEPS):
        multiplier = context.exp(position)
        value = gaussian_curve(context, epsilon, multiplier)
        excess = context.log(value) - target
        if excess > 0:
            low = position
        else:
            high = position
        density = context.npdf(1 / (2 * multiplier) - epsilon * multiplier)
        step = excess * value * multiplier / density
        if abs(step) < context.mpf(10) ** (10 - precise.DIGITS):
            return context.exp(position + step)
        position += step
        if not low < position < high:
            position = (low + high) / 2
    raise ArithmeticError(f"the calibration at epsilon={epsilon!r}, delta={delta!r} did not settle.")


def gaussian_curve(context: Any, epsilon: Any, multiplier: Any) -> Any:
    """Return the delta of normal noise for sigma/Delta = multiplier, to all digits; epsilon may be below 0.

    Parameters
    ----------
    context : mpmath context
        As `symdebias.privacy.precise.context` returns it.
    epsilon, multiplier : mpmath number
        Any epsilon, and a multiplier above 0.
    """
    half, shift = 1 / (2 * multiplier), epsilon * multiplier
    return normal_cdf(context, half - shift) - context.exp(context.mpf(epsilon)) * normal_cdf(context, -half - shift)
