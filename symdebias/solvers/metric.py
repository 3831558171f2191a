"""The metric that fits are made in: the second moments of released design rows.

Lengths of theta are root mean squares of the released score, curvatures are relative to it, so that a change of units
changes nothing.
"""

import math

import numpy as np
from scipy.linalg import eigh

from symdebias._arrays import FloatArray

# Curvatures that noise may have made are at least this share of the largest.
LEAST_SHARE = 1e-3
# Directions of less than this share of the largest are rounding.
_ROUNDING = 1e-12
# A combination of columns of less than this share of the largest mean square is 0 in every record, but for the rounding
# of sums; a column takes part in it by a share of this size.
_REPEATED, _TAKES_PART = 1e-13, 1e-3


def definite(metric: FloatArray) -> FloatArray:
    """Return a positive semidefinite matrix made definite by a trillionth of its diagonal, of 1 where that is 0."""
    diagonal = np.diag(metric)
    return np.asarray(metric + _ROUNDING * np.diag(np.where(diagonal > 0, diagonal, 1.0)))


def units_of(metric: FloatArray) -> FloatArray:
    """Return by how much each parameter changes the score by about 1; 1 where nothing moves the parameter."""
    squares = np.diag(metric)
    return np.asarray(1 / np.sqrt(np.where(squares > 0, squares, 1.0)))


def inverse_root(metric: FloatArray) -> FloatArray:
    """Return R with R R' the inverse of a positive semidefinite matrix, on the directions that it has."""
    units = np.sqrt(np.where(np.diag(metric) > 0, np.diag(metric), 1.0))
    sizes, vectors = np.linalg.eigh(metric / np.multiply.outer(units, units))
    kept = sizes > _ROUNDING * sizes.max(initial=0.0)
    scaled = np.zeros(len(sizes))
    scaled[kept] = 1 / np.sqrt(sizes[kept])
    return np.asarray(vectors * scaled / units[:, None])


def of_curvatures(hessian: FloatArray) -> FloatArray:
    """Return the diagonal matrix that a free-form loss is measured by: its own curvatures, in whatever units.

    An entry is the size of the curvature, or of what the curvature must be at least for the mixed derivatives to be
    those of a positive semidefinite matrix; 1 where all of them are 0.
    """
    sizes = np.abs(np.diag(hessian))
    # Squares that overflow are found by whoever asks.
    with np.errstate(over="ignore"):
        mixed = np.divide(hessian**2, sizes[:, None], out=np.zeros_like(hessian), where=sizes[:, None] > 0)
    found = np.maximum(sizes, mixed.max(axis=0, initial=0.0))
    return np.diag(np.where(found > 0, found, 1.0))


def of_several_scores(hessian: FloatArray, metric: FloatArray, scores: int) -> FloatArray:
    """Return the metric that a loss of several scores is measured by: that of each score times its own curvature.

    Scores may have units of their own, as a mean and the logarithm of a scale have: side by side, a long curvature of
    the one would hide that of the other.

    Parameters
    ----------
    hessian, metric : array of shape (K q, K q), float64
        The mean Hessian, and what scores are measured by, a block for each of them.
    scores : int
        The number K of scores.
    """
    size = len(metric) // scores
    blocks = [slice(k * size, (k + 1) * size) for k in range(scores)]
    turns = [inverse_root(metric[block, block]) for block in blocks]
    # The root mean square curvature of each score, and of each two, over the directions of the metric. What overflows
    # is found by whoever asks.
    with np.errstate(over="ignore", invalid="ignore"):
        sizes = [
            [np.linalg.norm(left.T @ hessian[row, column] @ right) for column, right in zip(blocks, turns, strict=True)]
            for row, left in zip(blocks, turns, strict=True)
        ]
    own = np.diag(of_curvatures(np.array(sizes) / math.sqrt(size)))
    return np.asarray(metric * np.kron(np.diag(own), np.ones((size, size))))


def undecided(metric: FloatArray) -> list[int]:
    """Return the places of the parameters of a combination of columns that is 0 in every record, if there is one.

    Columns that are 0 by themselves are left alone: nothing moves their parameters.

    Parameters
    ----------
    metric : array of shape (Q, Q), float64
        Positive semidefinite.
    """
    present = np.flatnonzero(np.diag(metric) > 0)
    if len(present) == 0:
        return []
    units = np.sqrt(np.diag(metric)[present])
    scaled = metric[np.ix_(present, present)] / np.multiply.outer(units, units)
    sizes = np.linalg.eigvalsh(scaled)
    if sizes[0] > _REPEATED * sizes[-1]:
        return []
    _, vectors = np.linalg.eigh(scaled)
    shares = np.abs(vectors[:, 0])
    return [int(place) for place in present[shares > _TAKES_PART * shares.max()]]


def positive(
    hessian: FloatArray, metric: FloatArray, floor: float = 0.0, share: float = LEAST_SHARE
) -> tuple[FloatArray, float]:
    """Return a matrix with the curvatures of a Hessian made positive, and the least curvature as it was.

    Parameters
    ----------
    hessian : array of shape (Q, Q), float64
        Symmetric.
    metric : array of shape (Q, Q), float64
        What curvatures are relative to, positive semidefinite: the result is the same in all units.
    floor, share : float
        No curvature of the result is smaller than the one, or than the other as a share of the largest.
    """
    weighing = definite(metric)
    # Eigenvectors take twice as long again, and are seldom wanted.
    sizes = eigh(hessian, weighing, eigvals_only=True)
    largest = float(np.abs(sizes).max())
    if largest == 0 or not math.isfinite(largest):
        return (floor or 1.0) * weighing, 0.0
    least = float(sizes.min())
    floor = max(floor, share * largest)
    if least > floor:
        return definite(hessian), least
    sizes, vectors = eigh(hessian, weighing)
    kept = np.maximum(np.abs(sizes), floor)
    left = np.linalg.inv(vectors).T
    return np.asarray((left * kept) @ left.T), least
