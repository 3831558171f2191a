"""How uncertain the curvature is along each parameter, for intervals that allow for it."""

import math

import numpy as np

from symdebias._arrays import FloatArray
from symdebias.records import Records

# Along a parameter whose curvature is more standard errors than this, intervals would be longer by some 2%.
CERTAIN_CURVATURE = 10.0


def variance_of_curvature(
    records: Records, theta: FloatArray, hessian: FloatArray, covariance: FloatArray
) -> FloatArray:
    """Return by how much the variance of a score test changes away from an estimate, parameter by parameter.

    Along theta_j + t standard errors, the others following as the covariance says, it is 1 + a t + b t^2 of that at the
    estimate, to first order in the changes of records' gradients.

    Parameters
    ----------
    records : Records
        What was fitted.
    theta : array of shape (Q,), float64
        The root of the mean corrected score.
    hessian : array of shape (Q, Q), float64
        The mean corrected Hessian, with the penalty.
    covariance : array of shape (Q, Q), float64
        That of theta.

    Returns
    -------
    array of shape (Q, 2), float64
        a and b, both 0 where the curvature is certain enough.

    Notes
    -----
    With h = H^-1 e_j, k = V e_j/V_jj, records' gradients g_i and Hessians H_i, the score h'g of records is tested at
    theta + s k: its mean is s to first order, and its variance that of h'(g_i + s H_i k). So a = 2 cov(h'g_i,
    h'H_i k) se/var(h'g_i) and b = var(h'H_i k) se^2/var(h'g_i). Some thousand records tell these two numbers.
    """
    part = records.looked_at
    weights = part.relative_weights
    found = np.zeros((len(theta), 2))

    def moved(move: FloatArray) -> FloatArray:
        # The pass of second derivatives is compiled where there are standard errors.
        return np.asarray(weights * part.gradients(theta + move, slice(None), by_derivatives=True))

    with np.errstate(all="ignore"):
        gradients = moved(np.zeros(len(theta)))
        for place, variance in enumerate(np.diag(covariance)):
            if not variance > 0:
                continue
            error = math.sqrt(variance)
            score = np.linalg.solve(hessian, np.eye(len(theta))[place])
            move = covariance[:, place] / error
            changes = (moved(move / 2) - moved(-move / 2)) @ score
            found[place] = curving_of(gradients @ score, changes)
    return found


def curving_of(plain: FloatArray, changes: FloatArray) -> tuple[float, float]:
    """Return a and b of `variance_of_curvature` for one parameter, both 0 where the curvature is certain enough.

    Parameters
    ----------
    plain, changes : array of shape (n,), float64
        h'g_i, and se h'H_i k: how h'g_i changes by a standard error.

    Examples
    --------
    >>> curving_of(np.array([1.0, -1.0]), np.array([0.5, -0.5]))
    (1.0, 0.25)
    """
    together = float(np.mean((plain - plain.mean()) * (changes - changes.mean())))
    return curving_by(float(np.var(plain)), together, float(np.var(changes)))


def curving_by(variance: float, together: float, of_changes: float) -> tuple[float, float]:
    """Return what `curving_of` does, by the variances of its numbers and by their covariance, `together`."""
    bend = of_changes / variance if variance > 0 else math.nan
    if not bend > CERTAIN_CURVATURE**-2:
        return 0.0, 0.0
    return 2 * together / variance, bend


def note_on_curvature(curving: FloatArray) -> str:
    """Return what there is to say of intervals under such numbers, some of which are not 0."""
    least = 1 / math.sqrt(float(curving[:, 1].max()))
    return (
        f"the curvature along a parameter is {least:.2g} of its own standard errors: intervals and p values allow for "
        "that (Fieller's method), which standard errors do not"
    )
