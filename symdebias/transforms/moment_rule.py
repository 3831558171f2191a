"""Gauss rules of a noise by its moments, which its characteristic function states where no density is.

A rule of m points is exact for polynomials of degrees up to 2 m - 1, and of noise that takes m values it is the noise.
"""

import functools
import math
from typing import Any

import numpy as np
from mpmath.ctx_mp import MPContext

from symdebias._arrays import FloatArray
from symdebias._gauss import gauss_rule
from symdebias.noise import NOT_ANALYTIC, AdditiveNoise
from symdebias.transforms.moments import even_coefficients, moment_function, moment_radius

# Moments tell of points in their last digits: how many are taken, and points of the circle, for each node.
_DIGITS, _CIRCLE = 8, 12
# Next to nothing of a polynomial of this norm is left where the noise takes no more values than it has zeros.
_NOTHING = 1e-60


@functools.lru_cache(maxsize=256)
def moment_rule(noise: AdditiveNoise, nodes: int) -> tuple[FloatArray, FloatArray] | None:
    """Return points and weights of up to so many nodes, or None where no moments of all orders are known.

    Notes
    -----
    By the algorithm of Chebyshev, on moments of so many digits that its loss of them does not matter, and Golub and
    Welsch for the points.

    References
    ----------
    Gautschi 2004 (Orthogonal Polynomials: Computation and Approximation), Sections 2.1.7 and 3.1.1.

    Examples
    --------
    >>> import sympy as sp
    >>> from symdebias.noise import FREQUENCY as w
    >>> points, weights = moment_rule(AdditiveNoise(1.0, sp.cos(w)), 20)
    >>> points.round(6).tolist(), weights.round(6).tolist()
    ([-1.0, 1.0], [0.5, 0.5])
    """
    if noise.characteristic_function.has(*NOT_ANALYTIC):
        return None
    mp = MPContext()
    mp.dps = 60 + _DIGITS * nodes
    moments = moment_function(noise, mp)
    radius = moment_radius(noise, moments, mp)
    if not radius > 0:
        return None
    found = even_coefficients(moments, radius, nodes, 4 * (16 + _CIRCLE * nodes // 4), mp)
    # E (e radius)^k, of odd k nothing.
    even = [mp.mpf(1), *(coefficient * mp.factorial(2 * k) for k, coefficient in enumerate(found, start=1))]
    beside = _beside(even, nodes, mp)
    if beside is None:
        return None
    values, weights = gauss_rule(np.zeros(len(beside) + 1), beside)
    return np.asarray(values / float(radius), dtype=np.float64), weights


def _beside(even: list[Any], nodes: int, mp: Any) -> FloatArray | None:
    """Return what stands beside the diagonal of zeros of the Jacobi matrix; None where these are no moments."""
    before: list[Any] = [mp.mpf(0)] * (2 * nodes)
    now = [even[k // 2] if k % 2 == 0 else mp.mpf(0) for k in range(2 * nodes)]
    squares: list[Any] = []
    last = now[0]
    for order in range(1, nodes):
        # <p, x^k> of the polynomial of this order, from those of the two orders before.
        after = [mp.mpf(0)] * (2 * nodes)
        ratio = squares[-1] if squares else mp.mpf(0)
        for k in range(order, 2 * nodes - order):
            after[k] = now[k + 1] - ratio * before[k]
        square = after[order] / last
        if abs(after[order]) <= _NOTHING * even[order]:
            break
        if not square > 0:
            return None
        squares.append(square)
        before, now, last = now, after, after[order]
    return np.array([math.sqrt(float(square)) for square in squares])
