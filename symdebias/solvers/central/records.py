"""True records as central solvers take them: a trusted collector holds them, and noises what leaves the solver.

Records are brought within public bounds before anything is computed from them, as sensitivities refer to these.
"""

import functools
import math
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from symdebias import _arrays
from symdebias._arrays import FloatArray
from symdebias._domains import RADIUS
from symdebias.codegen.program import LOST
from symdebias.corrected import CorrectedLoss
from symdebias.driver import debias
from symdebias.exceptions import ClippingWarning
from symdebias.losses import Loss
from symdebias.losses.loss import require_loss
from symdebias.mechanisms.clipping import in_ball
from symdebias.mechanisms.ranges import checked_bounds
from symdebias.records import Records
from symdebias.release import Release

# Norms beyond this would overflow when they are multiplied by a slope of the same size.
LARGEST_NORM = 1e150


@dataclass(frozen=True)
class PublicBounds:
    """What is declared of records before they are seen, checked."""

    record_radius: float | None  # Of the L2 norm of a row of X, a constant left out.
    target: tuple[float, float] | None  # Of a target without declared values.
    constant: bool  # Whether a constant enters the scores.
    box: FloatArray | None = None  # Of shape (p, 2): of each feature.

    @classmethod
    def checked(cls, record_radius: Any, target_bounds: Any, *, fit_intercept: bool) -> "PublicBounds":
        """Return bounds from what a user gave."""
        radius = None if record_radius is None else RADIUS.check("record_radius", record_radius)
        target = None if target_bounds is None else checked_bounds(target_bounds, "target_bounds")
        return cls(radius, target, fit_intercept)

    @property
    def norm(self) -> float:
        """An upper bound on the norms of rows, a 1 counted in where there is a constant."""
        assert self.record_radius is not None
        if not self.constant:
            return self.record_radius
        return math.nextafter(math.hypot(self.record_radius, 1.0), math.inf)


def true_records(loss: Loss, X: Any, y: Any, bounds: PublicBounds) -> Records:
    """Return true records under the uncorrected loss, brought within public bounds.

    Longer rows are shortened, and entries and targets outside moved to the nearer bound, with a warning.

    Raises
    ------
    TypeError, ValueError
        The loss is no loss, the records do not fit it, or bounds leave out a declared value of the target.
    """
    require_loss(loss)
    names = _arrays.column_names(X) if _arrays.is_table(X) else None
    records = plain(loss, fit_intercept=bounds.constant, columns=names and tuple(names)).records(X, y)
    matrix, target = records.arrays
    if bounds.record_radius is not None:
        # Refuses what is too long for any radius.
        row_norms(matrix, constant=False)
        matrix, outside = in_ball(matrix, bounds.record_radius)
        if outside.any():
            _warn(f"some records are longer than record_radius={bounds.record_radius:g} and were shortened to it")
    if bounds.box is not None:
        inside = np.clip(matrix, bounds.box[:, 0], bounds.box[:, 1])
        if (inside != matrix).any():
            _warn("some entries of X are outside feature_bounds and were moved to the nearer bound")
        matrix = inside
    if bounds.target is not None:
        low, high = bounds.target
        out = [value for value in loss.target_values or () if not low <= value <= high]
        if out:
            raise ValueError(
                f"target_bounds={bounds.target} leave out {out[0]:g}, one of the declared target_values. Leave "
                "target_bounds out: the declared values are the bounds."
            )
        if loss.target_values is None:
            if ((target < low) | (target > high)).any():
                _warn(f"some targets are outside target_bounds={bounds.target} and were moved to the nearer bound")
            target = np.clip(target, low, high)
    return replace(records, matrix=matrix, target=target)


def _warn(what: str) -> None:
    """Warn the caller of a solver of clipped records."""
    message = f"{what}. Their number is a statistic of the data. Declare wider bounds if that is not meant."
    warnings.warn(message, ClippingWarning, stacklevel=4)


@functools.lru_cache(maxsize=64)
def plain(loss: Loss, *, fit_intercept: bool, columns: tuple[str, ...] | None = None) -> CorrectedLoss:
    """Return a loss on records without noise; one for all calls, so that what was derived of it is there.

    Columns of a table have their names, by which predictions match those of others.
    """
    return debias(loss, Release(noiseless=columns or (), fit_intercept=fit_intercept), method="none")


def corrected_of(records: Records) -> CorrectedLoss:
    """Return the loss of true records, as fits have it."""
    correction = records.correction
    release = correction.release
    return plain(correction.loss, fit_intercept=release.fit_intercept, columns=release.columns)


def row_norms(matrix: FloatArray, *, constant: bool) -> FloatArray:
    """Return upper bounds on the L2 norms of rows, next to them: no rounding error makes one too small.

    With `constant` a 1 is counted in.

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
