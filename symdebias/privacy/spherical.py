"""The privacy curve of noise of density proportional to exp(-||v||/b), from a budget to its scale and back."""

import functools
import math

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammainccinv, gammaln

from symdebias._arrays import FloatArray
from symdebias._domains import COUNT, DELTA, EPSILON, SCALE, Interval
from symdebias.exceptions import PrivacyError

_SENSITIVITY = Interval(
    1e-100, 2e100, "both", "Give the sensitivity in the units of the data; change units where needed."
)
# By this share of itself a delta is raised, which covers the errors of the quadrature; a rule that is not settled to a
# tenth of that is refused. (The integrand is positive, so that rounding is far below.)
_MARGIN = 1e-6
# The part of delta beyond the longest noise that is integrated over.
_BEYOND = 1e-12
# Below this delta buys nothing worth having over pure differential privacy.
_LEAST_DELTA = 1e-100
_PANELS, _NODES = 16, (20, 28)


def spherical_laplace_delta(epsilon: float, scale: float, sensitivity: float, dimension: int) -> float:
    """Return the least delta at which noise of density proportional to exp(-||v||/b) is (epsilon, delta)-private.

    Parameters
    ----------
    epsilon : float
        The privacy budget, in [1e-6, 700].
    scale : float
        b, in [1e-100, 1e120].
    sensitivity : float
        The L2 sensitivity Delta, in [1e-100, 2e100].
    dimension : int
        The number D of coordinates that noise is added to.

    Returns
    -------
    float
        Within 2e-6 of itself of the exact delta, and never below it; 0 from b = Delta/epsilon on. A delta below 1e-100
        is returned as 1e-100.

    Raises
    ------
    PrivacyError
        The quadrature does not settle.
    ValueError, TypeError
        An argument is outside its range.

    Notes
    -----
    In units of b let r be the norm of the noise, of the Gamma law of shape D, and t the cosine of its angle with the
    shift from one vector to another, of length Delta. The privacy loss L = ||v + a|| - ||v|| falls in r from Delta to
    Delta t, and delta = E (1 - e^(epsilon - L))_+ (Balle & Wang 2018, Theorem 5): an integral over r up to
    (Delta^2 - epsilon^2)/(2 (epsilon - Delta t)), or all r where Delta t >= epsilon, and over t of density proportional
    to (1 - t^2)^((D - 3)/2). The density of the noise is log-concave, so that along every line in the direction of the
    shift the loss falls, and delta grows with Delta: the farthest two vectors are the worst.

    References
    ----------
    Balle & Wang 2018; Hardt & Talwar 2010.

    Examples
    --------
    >>> round(spherical_laplace_delta(1.0, 1.0, 1.05, 2), 7)
    0.0044445
    """
    epsilon, scale = EPSILON.check("epsilon", epsilon), SCALE.check("scale", scale)
    sensitivity, dimension = _SENSITIVITY.check("sensitivity", sensitivity), COUNT.check("dimension", dimension)
    # A quotient that is rounded down must not make more noise of it.
    shift = math.nextafter(sensitivity / scale, math.inf)
    if sensitivity <= epsilon * scale:
        return 0.0
    return _delta(epsilon, shift, dimension)


def spherical_laplace_scale(epsilon: float, delta: float, sensitivity: float, dimension: int) -> float:
    """Return a scale b at which noise of density proportional to exp(-||v||/b) is (epsilon, delta)-private.

    Parameters
    ----------
    epsilon : float
        The privacy budget, in [1e-6, 700].
    delta : float
        In (0, 1).
    sensitivity : float
        The L2 sensitivity, in [1e-100, 2e100].
    dimension : int
        The number of coordinates that noise is added to.

    Returns
    -------
    float
        Within 1e-6 of itself of the least, and never below it; at most sensitivity/epsilon rounded up, which is pure
        differential privacy.

    Raises
    ------
    PrivacyError
        The quadrature does not settle.
    ValueError, TypeError
        An argument is outside its range.

    Examples
    --------
    >>> round(spherical_laplace_scale(5.0, 1e-5, 2 * 10**0.5, 10), 5)
    1.17534
    """
    epsilon, delta = EPSILON.check("epsilon", epsilon), DELTA.check("delta", delta)
    sensitivity, dimension = _SENSITIVITY.check("sensitivity", sensitivity), COUNT.check("dimension", dimension)
    shift = _largest_shift(epsilon, delta, dimension)
    return SCALE.check("the scale", math.nextafter(sensitivity / shift, math.inf))


@functools.lru_cache(maxsize=256)
def _largest_shift(epsilon: float, delta: float, dimension: int) -> float:
    """Return nearly the largest Delta/b that keeps delta, and none above it; at least epsilon, where delta is 0."""
    if delta <= 2 * _LEAST_DELTA:
        return epsilon
    high = 2 * epsilon
    while _delta(epsilon, high, dimension, delta) <= delta:
        high *= 2

    def excess(shift: float) -> float:
        return math.log(max(_delta(epsilon, shift, dimension, delta), _LEAST_DELTA) / delta)

    # Brackets are reported to 1e-12; the lower end is looked for below the root.
    shift = float(brentq(excess, epsilon, high, xtol=1e-300, rtol=1e-12))
    while shift > epsilon and not _delta(epsilon, shift, dimension, delta) <= delta:
        shift *= 1 - 1e-11
    return max(shift, epsilon)


def _delta(epsilon: float, shift: float, dimension: int, asked: float = 0.0) -> float:
    """Return delta for a shift in units of the scale, raised by the margin; one that is asked for sets the accuracy."""
    if shift <= epsilon:
        return 0.0
    if dimension == 1:
        return min(1.0, -math.expm1((epsilon - shift) / 2) * (1 + _MARGIN))
    # How far the norms are integrated over depends on delta itself: a rough one first.
    rough = _integral(epsilon, shift, dimension, _NODES[0], _LEAST_DELTA)
    coarse, fine = (_integral(epsilon, shift, dimension, nodes, max(rough, _LEAST_DELTA)) for nodes in _NODES)
    size = max(fine, asked, _LEAST_DELTA)
    if not abs(fine - coarse) <= _MARGIN / 10 * size:
        raise PrivacyError(
            f"the delta of spherical Laplace noise on {dimension} columns at epsilon={epsilon:g} and a sensitivity of "
            f"{shift:g} scales did not settle: {coarse:.10g} and {fine:.10g} by two rules. Leave delta out: pure "
            "differential privacy needs no integral."
        )
    return min(1.0, fine + _MARGIN * size)


def _integral(epsilon: float, shift: float, dimension: int, nodes: int, least: float) -> float:
    """Return the integral over norm and angle by composite Gauss rules."""
    farthest = float(gammainccinv(dimension, least * _BEYOND))
    area = (shift - epsilon) * (shift + epsilon) / 2
    edge = math.acos(epsilon / shift)
    constant = gammaln(dimension / 2) - gammaln((dimension - 1) / 2) - math.log(math.pi) / 2 - gammaln(dimension)
    total = 0.0
    unit, shares = _panels(nodes)
    # Panels that shrink towards the angle from which on all norms count.
    for start, stop in ((edge, math.pi), (edge, 0.0)):
        depth = unit**2
        angle, weights = start + (stop - start) * depth, abs(stop - start) * 2 * unit * shares
        t = np.cos(angle)
        with np.errstate(divide="ignore"):
            last = np.where(shift * t < epsilon, area / np.maximum(epsilon - shift * t, 1e-300), np.inf)
        last = np.minimum(last, farthest)[:, None]
        r = last * depth
        # The loss less epsilon, without the difference of two norms that are nearly the same.
        length = np.sqrt(np.maximum(r**2 + 2 * r * shift * t[:, None] + shift**2, 0.0))
        excess = 2 * (area - r * (epsilon - shift * t)[:, None]) / (length + r + epsilon)
        inside = -np.expm1(-np.maximum(excess, 0.0))
        law = np.exp((dimension - 1) * np.log(r) - r + constant)
        over_r = (inside * law) @ (2 * unit * shares) * last[:, 0]
        total += float(weights @ (over_r * np.sin(angle) ** (dimension - 2)))
    return total


@functools.cache
def _panels(nodes: int) -> tuple[FloatArray, FloatArray]:
    """Return points and weights of a composite rule on [0, 1]."""
    t, weights = np.polynomial.legendre.leggauss(nodes)
    places = (np.arange(_PANELS)[:, None] + (1 + t) / 2) / _PANELS
    return places.ravel(), np.tile(weights / (2 * _PANELS), _PANELS)
