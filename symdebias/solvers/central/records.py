"""True records as central solvers take them: a trusted collector holds them, and noises what leaves the solver.

Records are brought within public bounds before anything is computed from them, as sensitivities refer to these.
"""

import functools
import math
import warnings
from typing import Any

import numpy as np

from symdebias._domains import RADIUS
from symdebias.codegen.program import LOST
from symdebias.corrected import CorrectedLoss
from symdebias.driver import debias
from symdebias.exceptions import ClippingWarning
from symdebias.losses import Loss
from symdebias.mechanisms.bounds import checked_bounds, in_ball
from symdebias.release import Release
from symdebias.solvers.records import Records

FloatArray = np.ndarray[Any, np.dtype[np.float64]]

# Norms beyond this would overflow when they are multiplied by a slope of the same size.
LARGEST_NORM = 1e150


def true_records(
    loss: Loss,
    X: Any,
    y: Any,
    *,
    fit_intercept: bool = False,
    record_radius: float | None = None,
    target_bounds: tuple[float, float] | None = None,
) -> Records:
    """Return true records, within public bounds.

    Parameters
    ----------
    loss : Loss
        The declared loss.
    X : array of shape (n, p) or table
        The records.
    y : array of shape (n,)
        The targets.
    fit_intercept : bool
        Whether a constant enters the scores; the bound on records leaves it out.
    record_radius : float, optional
        A public bound on the L2 norm of a row of X, positive. Longer rows are shortened to it.
    target_bounds : pair of float, optional
        Public bounds of the target; targets outside are moved to the nearer one. Not for losses whose target has
        declared values.

    Returns
    -------
    Records
        Of the uncorrected loss on a release without noise.

    Raises
    ------
    TypeError, ValueError
        The loss is no loss, the records do not fit it, or a bound is out of range.
    """
    if not isinstance(loss, Loss):
        remedy = f" Call it: {loss.__name__}()." if callable(loss) and hasattr(loss, "__name__") else ""
        raise TypeError(
            f"loss must be a symdebias.Loss: these solvers take true records; got {type(loss).__name__}.{remedy}"
        )
    corrected = plain(loss, fit_intercept=fit_intercept)
    records = Records.checked(corrected, X, y, sample_weight=None, noise_scale=None)
    matrix, target = records.matrix, records.target
    if record_radius is not None:
        matrix = _shortened(matrix, RADIUS.check("record_radius", record_radius))
    if target_bounds is not None:
        target = _moved_inside(loss, target, checked_bounds(target_bounds, "target_bounds"))
    return Records(corrected, records.columns, matrix, target, records.weights, False)


@functools.lru_cache(maxsize=64)
def plain(loss: Loss, *, fit_intercept: bool) -> CorrectedLoss:
    """Return a loss on records without noise; one for all calls, so that what was derived of it is there."""
    return debias(loss, Release(fit_intercept=fit_intercept), method="none")


def row_norms(matrix: FloatArray, *, constant: bool) -> FloatArray:
    """Return upper bounds on the L2 norms of rows, next to them: no rounding error makes one too small.

    Parameters
    ----------
    matrix : array of shape (n, p), float64
        The rows.
    constant : bool
        Whether a 1 is to be counted in.

    Raises
    ------
    ValueError
        A norm is above 1e150.
    """
    with np.errstate(over="ignore"):
        squares = np.einsum("ij,ij->i", matrix, matrix)
    norms: FloatArray = np.sqrt(squares + constant)
    if not (norms <= LARGEST_NORM).all():
        row = int(np.argmin(norms <= LARGEST_NORM))
        raise ValueError(f"row {row} of X has a norm above {LARGEST_NORM:g}. Scale the columns by public numbers.")
    # Squares below the least float are missing from the sum.
    return np.asarray((norms + math.sqrt(matrix.shape[1]) * LOST) * (1.0 + (matrix.shape[1] + 8) * 2.0**-52))


def _shortened(matrix: FloatArray, radius: float) -> FloatArray:
    # Refuses what is too long for any radius.
    row_norms(matrix, constant=False)
    inside, outside = in_ball(matrix, radius)
    if outside.any():
        warnings.warn(
            f"some records are longer than record_radius={radius:g} and were shortened to it. Their number is a "
            "statistic of the data. Scale the columns by public numbers, or declare a larger radius.",
            ClippingWarning,
            stacklevel=4,
        )
    return inside


def _moved_inside(loss: Loss, target: FloatArray, bounds: tuple[float, float]) -> FloatArray:
    low, high = bounds
    if loss.target_values is not None:
        out = [value for value in loss.target_values if not low <= value <= high]
        if out:
            raise ValueError(
                f"target_bounds={bounds} leave out {out[0]:g}, one of the declared target_values. Leave target_bounds "
                "out: the declared values are the bounds."
            )
        return target
    if ((target < low) | (target > high)).any():
        warnings.warn(
            f"some targets are outside target_bounds={bounds} and were moved to the nearer bound. Their number is a "
            "statistic of the data. Declare wider bounds if that is not meant.",
            ClippingWarning,
            stacklevel=4,
        )
    return np.clip(target, low, high)


def largest_norm(record_radius: float, *, constant: bool) -> float:
    """Return an upper bound on the norms of rows within a radius, a 1 counted in where there is a constant."""
    return math.nextafter(math.hypot(record_radius, 1.0), math.inf) if constant else record_radius
