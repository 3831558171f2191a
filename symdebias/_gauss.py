"""Gauss rules from the three-term recurrence of orthogonal polynomials."""

import itertools

import numpy as np

from symdebias._arrays import FloatArray


def gauss_rule(diagonal: FloatArray, beside: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return points and weights of the rule of a Jacobi matrix, the weights with all of their digits.

    Eigenvectors tell weights up to 1e-32 of the largest. Those of points far out are much smaller, and are what a mean
    of something that grows, such as an exponential, is made of: each is one over the sum of the squares of the
    orthonormal polynomials there.

    Parameters
    ----------
    diagonal : array of shape (m,), float64
        The diagonal of the Jacobi matrix.
    beside : array of shape (m - 1,), float64
        What stands beside it, positive.

    Returns
    -------
    points, weights : array of shape (m,), float64
        In order; the weights sum to 1.

    References
    ----------
    Gautschi 2004 (Orthogonal Polynomials: Computation and Approximation), Section 3.1.1.

    Examples
    --------
    >>> points, weights = gauss_rule(2.0 * np.arange(40) + 1, np.arange(1.0, 40))        # of the law exp(-t)
    >>> bool(weights.min() < 1e-55), round(float(weights @ np.exp(0.5 * points)), 12)
    (True, 2.0)
    """
    points = np.linalg.eigvalsh(np.diag(diagonal) + np.diag(beside, 1) + np.diag(beside, -1))
    before, now, total = np.zeros_like(points), np.ones_like(points), np.ones_like(points)
    # Of a rule of hundreds of points the last weights are less than the least float.
    with np.errstate(over="ignore", invalid="ignore"):
        recurrence = zip(diagonal, itertools.pairwise(np.concatenate([[0.0], beside])), strict=False)
        for middle, (below, above) in recurrence:
            before, now = now, ((points - middle) * now - below * before) / above
            total += now**2
    weights = np.where(np.isfinite(total), 1 / total, 0.0)
    return np.asarray(points, dtype=np.float64), np.asarray(weights / weights.sum(), dtype=np.float64)
