"""From a budget to a noise scale, rounded to the safe side."""

import functools
import math

import mpmath

from symdebias._domains import DELTA, EPSILON, RADIUS

_DIGITS = 60


def analytic_gaussian_delta(epsilon: float, scale: float, sensitivity: float) -> mpmath.mpf:
    """Return the exact delta of the Gaussian mechanism at a given epsilon.

    delta = Phi(Delta/(2 sigma) - eps sigma/Delta) - e^eps Phi(-Delta/(2 sigma) - eps sigma/Delta)

    Parameters
    ----------
    epsilon : float
        The privacy budget, in [1e-6, 700].
    scale : float
        The noise's standard deviation sigma.
    sensitivity : float
        The L2 sensitivity Delta.

    Returns
    -------
    mpmath.mpf
        To about 60 digits.

    References
    ----------
    Balle & Wang 2018, Theorem 8.
    """
    with mpmath.workdps(_DIGITS):
        ratio = mpmath.mpf(sensitivity) / mpmath.mpf(scale)
        return _delta(mpmath.mpf(epsilon), 1 / ratio)


def _delta(epsilon: mpmath.mpf, multiplier: mpmath.mpf) -> mpmath.mpf:
    """Return delta for sigma/Delta = multiplier."""
    half, shift = 1 / (2 * multiplier), epsilon * multiplier
    return mpmath.ncdf(half - shift) - mpmath.exp(epsilon) * mpmath.ncdf(-half - shift)


@functools.lru_cache(maxsize=1024)
def _multiplier(epsilon: float, delta: float) -> mpmath.mpf:
    """Return the sigma/Delta at which the exact delta equals the wanted one."""
    with mpmath.workdps(_DIGITS):
        target, budget = mpmath.mpf(delta), mpmath.mpf(epsilon)
        low = high = mpmath.mpf(1)
        while _delta(budget, high) > target:
            high *= 2
        while _delta(budget, low) <= target:
            low /= 2

        def excess(multiplier: mpmath.mpf) -> mpmath.mpf:
            return mpmath.log(_delta(budget, multiplier) / target)

        root = mpmath.findroot(excess, (low, high), solver="anderson", tol=mpmath.mpf(10) ** -70, maxsteps=200)
        return mpmath.mpf(root)


def analytic_gaussian_scale(epsilon: float, delta: float, sensitivity: float) -> float:
    """Return the least noise scale that gives (epsilon, delta)-differential privacy, rounded up.

    Parameters
    ----------
    epsilon : float
        The privacy budget, in [1e-6, 700].
    delta : float
        In (0, 1).
    sensitivity : float
        The L2 sensitivity, positive; replace-one in a ball of radius R: 2 R.

    Returns
    -------
    float
        sigma, at most two units in the last place above the exact value, and never below it.

    Raises
    ------
    ValueError, TypeError
        An argument is outside its range.

    References
    ----------
    Balle & Wang 2018, Algorithm 1 (solved here in 60 digits).

    Examples
    --------
    >>> analytic_gaussian_scale(1.0, 1e-5, 1.0)
    3.730631634815942
    """
    epsilon, delta = EPSILON.check("epsilon", epsilon), DELTA.check("delta", delta)
    sensitivity = RADIUS.check("sensitivity", sensitivity)
    with mpmath.workdps(_DIGITS):
        exact = _multiplier(epsilon, delta) * mpmath.mpf(sensitivity)
        scale = float(exact)
        while mpmath.mpf(scale) < exact or analytic_gaussian_delta(epsilon, scale, sensitivity) > delta:
            scale = math.nextafter(scale, math.inf)
    return scale


def classical_gaussian_scale(epsilon: float, delta: float, sensitivity: float) -> float:
    """Return the classical noise scale Delta sqrt(2 log(1.25/delta))/epsilon, for epsilon up to 1.

    Parameters
    ----------
    epsilon : float
        The privacy budget, in [1e-6, 1].
    delta, sensitivity : float
        As for `analytic_gaussian_scale`.

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
    sensitivity = RADIUS.check("sensitivity", sensitivity)
    with mpmath.workdps(_DIGITS):
        exact = mpmath.mpf(sensitivity) * mpmath.sqrt(2 * mpmath.log(mpmath.mpf(1.25) / mpmath.mpf(delta))) / epsilon
        scale = float(exact)
        while mpmath.mpf(scale) < exact:
            scale = math.nextafter(scale, math.inf)
    return scale


def keep_probability(epsilon: float) -> float:
    """Return the probability 1/(1 + e^-epsilon) with which randomized response keeps a value of two.

    References
    ----------
    Warner 1965; Kairouz, Oh & Viswanath 2014, Section 3.1.

    Examples
    --------
    >>> keep_probability(1.0)
    0.7310585786300049
    """
    return 1.0 / (1.0 + math.exp(-EPSILON.check("epsilon", epsilon)))
