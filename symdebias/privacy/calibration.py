"""From a budget to a noise scale, rounded to the safe side.

The curves are evaluated with 70 digits, so that what is rounded is the exact value and not an error of it.
"""

import functools
import math
from fractions import Fraction
from typing import Any

from mpmath.ctx_mp import MPContext

from symdebias._domains import DELTA, EPSILON, SCALE, Integer, Interval

_DIGITS = 70
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
    context = _context()
    multiplier = min(max(context.mpf(scale) / sensitivity, _LEAST_MULTIPLIER), _LARGEST_MULTIPLIER)
    return _rounded_up(context, _curve(context, epsilon, context.mpf(multiplier)))


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
    context = _context()
    exact = sensitivity * context.sqrt(2 * context.log(context.mpf(5) / 4 / delta)) / context.mpf(epsilon)
    return _rounded_up(context, exact)


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
    context = _context()
    others = Integer(2).check("categories", categories) - 1
    units = int(context.floor(2**53 / (1 + others * context.exp(-context.mpf(epsilon)))))
    return min(units, 2**53 - 1) / 2**53


@functools.lru_cache(maxsize=1024)
def largest_ratio(epsilon: float) -> Fraction:
    """Return the largest multiple of 2^-120 that is at most e^epsilon, and at most 2^60.

    Parameters
    ----------
    epsilon : float
        The privacy budget, in [1e-6, 700].

    Returns
    -------
    fractions.Fraction
        A bound that the ratio of two probabilities is compared with in exact arithmetic. Ratios above 2^60 do not
        occur among multiples of 2^-53.

    Examples
    --------
    >>> float(largest_ratio(1.0))
    2.718281828459045
    """
    context = _context()
    exact = context.exp(min(context.mpf(EPSILON.check("epsilon", epsilon)), 60 * context.log(2)))
    return Fraction(int(context.floor(exact * 2**120)), 2**120)


@functools.lru_cache(maxsize=1024)
def _analytic_scale(epsilon: float, delta: float, sensitivity: float) -> float:
    context = _context()
    scale = _rounded_up(context, sensitivity * _solve(context, epsilon, delta))
    while _curve(context, epsilon, context.mpf(scale) / sensitivity) > delta:
        scale = math.nextafter(scale, math.inf)
    return scale


def _solve(context: Any, epsilon: float, delta: float) -> Any:
    """Return the sigma/Delta at which the curve equals delta."""
    low = high = context.mpf(1)
    while _curve(context, epsilon, high) > delta:
        low, high = high, 4 * high
    while _curve(context, epsilon, low) <= delta:
        low, high = low / 4, low
    target = context.log(context.mpf(delta))
    # log delta as a function of log multiplier; d delta/d multiplier = -phi(half - shift)/multiplier^2.
    position = (context.log(low) + context.log(high)) / 2
    low, high = context.log(low), context.log(high)
    for _ in range(_MOST_STEPS):
        multiplier = context.exp(position)
        value = _curve(context, epsilon, multiplier)
        excess = context.log(value) - target
        if excess > 0:
            low = position
        else:
            high = position
        density = context.npdf(1 / (2 * multiplier) - epsilon * multiplier)
        step = excess * value * multiplier / density
        if abs(step) < context.mpf(10) ** (10 - _DIGITS):
            return context.exp(position + step)
        position += step
        if not low < position < high:
            position = (low + high) / 2
    raise ArithmeticError(f"the calibration at epsilon={epsilon!r}, delta={delta!r} did not settle.")


def _curve(context: Any, epsilon: float, multiplier: Any) -> Any:
    """Return delta for sigma/Delta = multiplier."""
    half, shift = 1 / (2 * multiplier), epsilon * multiplier
    return _normal_cdf(context, half - shift) - context.exp(context.mpf(epsilon)) * _normal_cdf(context, -half - shift)


def _normal_cdf(context: Any, x: Any) -> Any:
    return context.erfc(-x / context.sqrt(2)) / 2


def _rounded_up(context: Any, exact: Any) -> float:
    number = float(exact)
    return math.nextafter(number, math.inf) if context.mpf(number) < exact else number


def _context() -> Any:
    # A context of its own: mpmath's shared one changes its precision under other threads' feet.
    context = MPContext()
    context.dps = _DIGITS
    return context
