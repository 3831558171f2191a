"""How uncertain the curvature is along each parameter, for intervals that allow for it."""

import functools
import math

import numpy as np

from symdebias._arrays import FloatArray
from symdebias._rows import parts_of
from symdebias.records import TESTED_RECORDS, Records, stride_to

# Along a parameter whose curvature is more standard errors than this, intervals would be longer by some 2%.
CERTAIN_CURVATURE = 10.0
# Where the curvature is uncertain a part of the records has another one, and few of them may have most of its variance:
# so many are looked at, or as many fewer as there are parameters, but no fewer than are tested.
_MOST, _MOST_NUMBERS = 100_000, 500_000
# Numbers of gradients that are there at a time.
_NUMBERS = 2**16


def telling(records: Records, parameters: int) -> Records:
    """Return the records on which it is looked at how uncertain the curvature along so many parameters is."""
    count = max(TESTED_RECORDS, min(_MOST, _MOST_NUMBERS // parameters))
    return records.thinned(stride_to(count, records.present))


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
    h'H_i k) se/var(h'g_i) and b = var(h'H_i k) se^2/var(h'g_i). Many records tell these two numbers.
    """
    part = telling(records, len(theta))
    places = [place for place, variance in enumerate(np.diag(covariance)) if variance > 0]
    scores = np.linalg.inv(hessian)[:, places]
    halves = covariance[:, places] / (2 * np.sqrt(np.diag(covariance)[places]))
    sums, products = np.zeros((len(places), 2)), np.zeros((len(places), 2, 2))
    found = np.zeros((len(theta), 2))
    with np.errstate(all="ignore"):
        for rows in parts_of(len(part), len(theta), _NUMBERS):
            # The pass of second derivatives is compiled where there are standard errors.
            gradients = functools.partial(part.taken(rows).gradients, rows=slice(None), by_derivatives=True)
            weights = part.weights[rows] if len(part.weights) else 1.0
            plain = gradients(theta) @ scores
            for place, (half, score) in enumerate(zip(halves.T, scores.T, strict=True)):
                change = (gradients(theta + half) - gradients(theta - half)) @ score
                both = weights * np.stack([plain[:, place], change])
                sums[place] += both.sum(axis=1)
                products[place] += both @ both.T
        means = sums / part.total
        of_weights = part.total**2 / len(part)
        for place, mean, product in zip(places, means, products, strict=True):
            spread = product / of_weights - np.multiply.outer(mean, mean)
            found[place] = curving_by(spread[0, 0], spread[0, 1], spread[1, 1])
    return found


def curving_by(variance: float, together: float, of_changes: float) -> tuple[float, float]:
    """Return a and b of `variance_of_curvature` for one parameter, both 0 where the curvature is certain enough.

    Parameters
    ----------
    variance, of_changes : float
        The variances over records of h'g_i, and of se h'H_i k: of how h'g_i changes by a standard error.
    together : float
        The covariance of both.

    Examples
    --------
    >>> curving_by(1.0, 0.5, 0.25)
    (1.0, 0.25)
    """
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
