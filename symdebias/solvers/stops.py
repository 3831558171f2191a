"""Where a descent stops before its end, and what is said then: which record it is, and what would do."""

import math
from typing import Any, NoReturn

import numpy as np

from symdebias._arrays import IntegerArray, require_squares
from symdebias._rows import Rows, blocks_of
from symdebias.exceptions import DivergenceError, SymdebiasError
from symdebias.records import Records
from symdebias.solvers.descent import Descent
from symdebias.solvers.held import frame_of

# Without a ball to project on, these say that training diverges: a step to more than ten times 1 + ||theta||, or
# a norm of a hundred million. A corrected risk can fall to a plain of zero gradient out there, and stay silent.
_GROWTH = 10.0
_RUNAWAY = 1e8


def growth_limits(bound: float, *, scaled: bool) -> tuple[float, float]:
    """Return the growth in a step and the norm that say that training diverges.

    Parameters
    ----------
    bound : float
        Bound on the norm of theta; infinite for none.
    scaled : bool
        Whether steps are learned at every scale: they do not depend on units, and these limits do.
    """
    return (_GROWTH, _RUNAWAY) if bound == math.inf and not scaled else (math.inf, math.inf)


def remedy_of(radius: float | None) -> str:
    """Return what would do where a descent is lost."""
    bound_it = "bound theta with radius=" if radius is None else f"use a radius below {radius:g}"
    return f"Use a smaller step_size, {bound_it}, raise l2, use more records, or release with less noise."


def explain_overflow(run: Records, X: Any) -> NoReturn:
    """Raise the error that says which record has no finite square."""
    require_finite(run, X)
    first = 0
    for block in blocks_of(run.matrix):
        with np.errstate(all="ignore"):
            bad = np.argwhere(~np.isfinite(block**2))
        if len(bad):
            raise DivergenceError(
                f"record {first + bad[0, 0]} has a value in column {bad[0, 1]} whose square is not finite. Leave the "
                "record out, or scale the column down in the release."
            )
        first += len(block)
    # Or that of all together.
    require_squares(run.matrix, "X")
    raise AssertionError("all squares are finite")


def require_finite(run: Records, X: Any) -> None:
    """Raise the error about NaN and infinity in the data, where they were left to be found in the pass."""
    if not isinstance(run.matrix, Rows) and frame_of(run).place is None:
        run.correction.checked_matrix(X)


def explain_stop(run: Records, X: Any, descent: Descent, batch: IntegerArray, size: float) -> NoReturn:
    """Raise the error that says why the kernel stopped before its next step, which takes a batch."""
    if descent.stopped != 2:
        require_finite(run, X)
    raise stopped(run, descent, batch, size)


def stopped(run: Records, descent: Descent, batch: IntegerArray, size: float) -> SymdebiasError:
    """Return the error that says why a descent over finite records stopped before its next step.

    Parameters
    ----------
    run : Records
        All records.
    descent : Descent
        The descent.
    batch : array of int
        The rows of the batch that the step takes.
    size : float
        The size of the step.
    """
    theta = frame_of(run).lifted(descent.theta)
    if descent.stopped == 2:
        where = f"at step {descent.done + 1} (||theta|| = {np.linalg.norm(descent.theta):.4g})"
        try:
            run.limits.require(theta, finite_variance=True, at=where)
        except SymdebiasError as error:
            return error
    with np.errstate(all="ignore"):
        largest = np.abs(run.gradients(theta, batch)).max(axis=1)
    bad = np.flatnonzero(~np.isfinite(largest))
    culprit = int(batch[bad[0]]) if len(bad) else int(batch[int(np.argmax(largest))])
    what = "has a gradient that is not finite" if len(bad) else "has the largest gradient of its batch"
    return descent.diverged(
        size, f": record {culprit} {what}. Use a smaller step_size, bound theta with radius=, or raise l2."
    )
