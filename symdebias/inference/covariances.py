"""Covariances of parameters: the sandwich, of combinations, by batch means."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from symdebias._arrays import FloatArray
from symdebias.exceptions import InferenceError

# Variances of restrictions that are this share of what their terms would make are rounding alone.
NO_SPREAD = 1e-13
# A Hessian whose condition number is beyond this does not say where its root is.
_LARGEST_CONDITION = 1e12
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


def of_combinations(matrix: FloatArray, covariance: FloatArray) -> FloatArray:
    """Return A V A', with 0 for variances that rounding alone makes, as of parameters that sum to 0."""
    with np.errstate(over="ignore"):
        found = matrix @ covariance @ matrix.T
    sizes = np.abs(matrix) @ np.sqrt(np.maximum(np.diag(covariance), 0.0))
    sizes[sizes == 0] = 1.0
    # Divided one after the other, so that variances beyond float64 are none of these.
    places = np.flatnonzero(np.diag(found) / sizes / sizes <= NO_SPREAD)
    found[places, places] = 0.0
    return found


def _singular() -> InferenceError:
    return InferenceError(
        "the mean corrected Hessian is singular to rounding: the records do not tell the parameters apart. Leave "
        "out columns that repeat others, take one that is far from 0 less its mean, or give l2."
    )


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
