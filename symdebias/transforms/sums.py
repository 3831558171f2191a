"""A rule for a weighed sum of noise: what the noise of many columns does to one score.

A function of e = sum_j a_j w_j that is linear in the w_j besides has the same mean over all w as over e alone, with
E[w_j | e] in the place of w_j. So one dimension does for any number of columns.
"""

import functools
import math

import numpy as np

from symdebias._arrays import FloatArray
from symdebias.noise import AdditiveNoise
from symdebias.transforms.quadrature import Rule

# How far out a rule goes: in standard deviations, and in tail scales of the widest Laplace noise.
_DEVIATIONS, _TAILS = 13.0, 64.0
# Probabilities are computed times exp(k e), so that those of far sums, which what grows asks for, keep their digits: k
# over the standard deviation, and over the inverse tail scale of the widest Laplace noise, where it must be below 1.
_TILT, _TILT_OF_TAILS = 4.0, 0.5
_FEWEST = 192
# The highest waves are damped, so that where their sum breaks off leaves no ripple in the tails.
_DAMPING, _DAMPING_POWER = 36.0, 16
# The rule of one Laplace noise: nodes per panel, and how far panels of one width go, in tail scales. From there on each
# is about twice as wide as the one before, up to an end where exponentials and their weights are numbers; with fewer
# nodes it comes earlier, so that two rules differ where what lies beyond counts.
_PANEL, _EVEN, _END, _MOST = 12, 40.0, 640.0, 64


def is_summable(noise: object) -> bool:
    """Whether noise is normal or Laplace noise of each coordinate: what `of_sum` takes."""
    if not isinstance(noise, AdditiveNoise) or noise.step is not None:
        return False
    return noise.is_gaussian or (noise.inverse_polynomial is not None and len(noise.inverse_polynomial) == 2)


def laplace_scale(noise: AdditiveNoise) -> float:
    """Return b of Laplace noise, 0 of normal noise."""
    if noise.is_gaussian:
        return 0.0
    assert noise.inverse_polynomial is not None
    return float(np.sqrt(noise.inverse_polynomial[1]))


def size_of_sum(nodes: int) -> int:
    """Return how many points the rule of a sum has at most."""
    return max(4 * nodes**2, _FEWEST)


def of_sum(coefficients: FloatArray, covariance: FloatArray, scales: FloatArray, nodes: int) -> Rule:
    """Return a rule for the means of functions of a sum of noise that are linear in its parts besides.

    Points hold E[w | e] for values e of the sum a'w on an even grid: a'E[w | e] = e. Weights are e's probabilities, by
    the inverse transform of its characteristic function. Laplace noise of one part alone has a composite rule of
    Gauss-Legendre panels, for its density is smooth but for 0.

    Parameters
    ----------
    coefficients : array of shape (k,), float64
        a.
    covariance : array of shape (k, k), float64
        That of the normal noise in w; 0 for parts with Laplace noise.
    scales : array of shape (k,), float64
        b of the Laplace noise of each part; 0 for parts with normal noise.
    nodes : int
        The grid has four times its square of points, or 192: jumps of a slope are met to a step of it. Tails end where
        they are rounding; of fewer nodes a little before.

    Examples
    --------
    >>> import numpy as np
    >>> whole = of_sum(np.array([1.0, 2.0]), np.diag([1.0, 0.0]), np.array([0.0, 0.5]), 40)
    >>> e = whole.points @ [1.0, 2.0]
    >>> round(float(whole.weights @ e**2), 9), round(float(whole.weights @ (e * whole.points[:, 1])), 9)
    (3.0, 1.0)
    """
    pull = covariance @ coefficients
    normal, tails = float(coefficients @ pull), scales * np.abs(coefficients)
    widest = float(tails.max(initial=0.0))
    if not max(normal, widest) > 0:
        return Rule(np.zeros((1, len(coefficients))), np.ones(1))
    if not normal > 0 and np.count_nonzero(tails) == 1:
        return _of_one(coefficients, scales, tails, nodes)
    deviation = float(np.sqrt(normal + 2 * np.sum(tails**2)))
    half = _DEVIATIONS * deviation + _TAILS * widest
    count = size_of_sum(nodes) // 2 * 2
    waves = np.arange(count // 2 + 1)
    tilt = _TILT / deviation if widest == 0 else min(_TILT / deviation, _TILT_OF_TAILS / widest)
    z = tilt + 1j * np.pi * waves / half
    falls = 1 / (1 - np.multiply.outer(tails, z) ** 2)
    damped = np.exp(normal * z**2 / 2 - _DAMPING * (waves / waves[-1]) ** _DAMPING_POWER)
    together = damped * falls.prod(axis=0)
    # E[w_j exp(z e)] = z q_j E exp(z e).
    slopes = pull[:, None] + (2 * scales**2 * coefficients)[:, None] * falls
    # The law is symmetric: sums from 0 on tell it.
    right = slice(0, count // 2)
    masses = np.fft.irfft(together.conj(), count)[right]
    moments = np.fft.irfft((z * slopes * together).conj(), count, axis=1)[:, right]
    kept = masses > 2.0 ** -(nodes // 2 + 14) * masses.max()
    e = np.flatnonzero(kept) * (2 * half / count)
    points = (moments[:, kept] / masses[kept]).T
    points += np.multiply.outer(e - points @ coefficients, coefficients / float(coefficients @ coefficients))
    weights = masses[kept] * np.exp(-tilt * e)
    points, weights = np.concatenate([-points[:0:-1], points]), np.concatenate([weights[:0:-1], weights])
    return Rule(points, weights / weights.sum())


def _of_one(coefficients: FloatArray, scales: FloatArray, tails: FloatArray, nodes: int) -> Rule:
    """Return the rule of the Laplace noise of one part.

    It holds for what grows nearly as fast as it falls, and for what bends within a small part of the noise's scale.
    """
    t, weights = _exponential_law(nodes)
    place = int(np.argmax(tails))
    points = np.zeros((2 * len(t), len(coefficients)))
    points[:, place] = scales[place] * np.concatenate([-t[::-1], t])
    both = np.concatenate([weights[::-1], weights])
    return Rule(points, both / both.sum())


@functools.lru_cache(maxsize=16)
def _exponential_law(nodes: int) -> tuple[FloatArray, FloatArray]:
    """Return points and weights of the law exp(-t) of t >= 0, up to half as many points as `size_of_sum` says."""
    end = max(_EVEN, _END * min(1.0, nodes / _MOST) ** 2)
    wider = math.ceil(math.log2(end / _EVEN))
    panels = size_of_sum(nodes) // (2 * _PANEL) - wider
    edges = np.append(np.linspace(0.0, _EVEN, panels + 1), np.geomspace(_EVEN, end, wider + 1)[1:])
    x, weights = np.polynomial.legendre.leggauss(_PANEL)
    half = np.diff(edges)[:, None] / 2
    t = ((edges[:-1] + edges[1:])[:, None] / 2 + half * x).ravel()
    return t, (half * weights).ravel() * np.exp(-t)
