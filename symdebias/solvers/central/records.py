"""True records as central solvers take them: a trusted collector holds them, and noises what leaves the solver.

Records are brought within public bounds before anything is computed from them, as sensitivities refer to these.
"""

import functools
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from symdebias._arrays import FloatArray
from symdebias._copies import at_hand
from symdebias._domains import RADIUS
from symdebias._rows import Rows, at_once, counted_from, names_of
from symdebias.codegen.program import LOST
from symdebias.corrected import CorrectedLoss
from symdebias.driver import debias
from symdebias.exceptions import ClippingWarning
from symdebias.losses import Loss
from symdebias.losses.loss import require_loss
from symdebias.mechanisms.clipping import in_ball
from symdebias.mechanisms.ranges import checked_bounds
from symdebias.reading import of_memory_map
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

    def clipped(self, rows: FloatArray) -> tuple[FloatArray, bool, bool]:
        """Return rows of X within the bounds, and whether one was longer than its radius, or beyond its box."""
        longer, beyond = False, False
        if self.record_radius is not None:
            # Refuses what is too long for any radius.
            row_norms(rows, constant=False)
            rows, outside = in_ball(rows, self.record_radius)
            longer = bool(outside.any())
        if self.box is not None:
            inside = np.clip(rows, self.box[:, 0], self.box[:, 1])
            beyond = bool((inside != rows).any())
            rows = inside
        return rows, longer, beyond

    def clipped_target(self, target: FloatArray, *, is_free: bool) -> tuple[FloatArray, bool, bool]:
        """Return targets within the bounds where they have no declared values, and whether one was outside."""
        if self.target is None or not is_free:
            return target, False, False
        low, high = self.target
        return np.clip(target, low, high), False, bool(((target < low) | (target > high)).any())

    @property
    def norm(self) -> float:
        """An upper bound on the norms of rows, a 1 counted in where there is a constant."""
        assert self.record_radius is not None
        if not self.constant:
            return self.record_radius
        return math.nextafter(math.hypot(self.record_radius, 1.0), math.inf)


def true_records(loss: Loss, X: Any, y: Any, bounds: PublicBounds, *, any_row: bool = False) -> Records:
    """Return true records under the uncorrected loss, brought within public bounds.

    Longer rows are shortened, and entries and targets outside moved to the nearer bound, with a warning. Records that
    are read by blocks are all checked here, before anything is drawn, and brought within the bounds in every pass.
    Arrays in memory that are of another type or layout are copied: solvers take many passes. With `any_row` those that
    are read in order are copied as well, to files without a name.

    Raises
    ------
    TypeError, ValueError
        The loss is no loss, the records do not fit it, or bounds leave out a declared value of the target.
    OSError
        There is no room for a copy.
    """
    require_loss(loss)
    names = names_of(X)
    if any_row:
        X, y = at_hand(X, y)
    X, y = of_memory_map(X), of_memory_map(y)
    by_blocks = isinstance(X, Rows) or isinstance(y, Rows)
    records = plain(loss, fit_intercept=bounds.constant, columns=names).records(X, y, by_blocks=by_blocks)
    if bounds.target is not None:
        out = [value for value in loss.target_values or () if not bounds.target[0] <= value <= bounds.target[1]]
        if out:
            raise ValueError(
                f"target_bounds={bounds.target} leave out {out[0]:g}, one of the declared target_values. Leave "
                "target_bounds out: the declared values are the bounds."
            )
    # Of rows that are read anew in every pass those of every pass are brought within the bounds.
    has_free_target = loss.target_values is None
    rows, longer, beyond = _inside(records.matrix, bounds.clipped)
    target, _, elsewhere = _inside(records.target, functools.partial(bounds.clipped_target, is_free=has_free_target))
    if longer:
        _warn(f"some records are longer than record_radius={bounds.record_radius:g} and were shortened to it")
    if beyond:
        _warn("some entries of X are outside feature_bounds and were moved to the nearer bound")
    if elsewhere:
        _warn(f"some targets are outside target_bounds={bounds.target} and were moved to the nearer bound")
    return replace(records, matrix=rows, target=target)


def _inside(
    source: FloatArray | Rows, clip: Callable[[FloatArray], tuple[FloatArray, bool, bool]]
) -> tuple[FloatArray | Rows, bool, bool]:
    """Return what is clipped, and whether anything of all records was, in two ways; all of them are looked at."""
    if not isinstance(source, Rows):
        return clip(source)
    step, found = at_once(source), np.zeros(2, dtype=bool)
    for start in range(0, len(source), step):
        with counted_from(start):
            found |= clip(source[start : start + step])[1:]
    return Rows.made_of(source, lambda part: clip(part)[0]), bool(found[0]), bool(found[1])


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
