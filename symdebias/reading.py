"""Released records that are read block by block: checked once, and made of their source anew in every pass."""

from collections.abc import Callable
from typing import Any

import numpy as np

from symdebias._arrays import FloatArray, real_array, sums_and_minima, take_rows
from symdebias._rows import (
    TOGETHER,
    Rows,
    at_once,
    counted_from,
    has_any_row,
    paired,
    require_as_many,
    require_vector,
)
from symdebias._table_rows import first_row, rows_of_table
from symdebias.codegen.parallel import CHUNK
from symdebias.correction import Correction
from symdebias.release.groups import labels_of


def has_rows(values: Any) -> bool:
    """Whether it is a plain array or read by blocks."""
    return isinstance(values, Rows) or type(values) in (np.ndarray, np.memmap)


def is_long(values: Any) -> bool:
    """Whether it is read by blocks, or an array that is long and of another type or layout than kernels take."""
    if isinstance(values, Rows):
        return True
    if not has_numbers(values) or len(values) <= CHUNK:
        return False
    return not (values.dtype == np.float64 and values.flags.carray)


def has_numbers(values: Any) -> bool:
    """Whether it is a plain array of one or two dimensions, of real numbers of up to 64 bits."""
    if isinstance(values, Rows) or not has_rows(values) or values.ndim not in (1, 2):
        return False
    return values.dtype.kind in "iuf" and values.dtype.itemsize <= 8


def of_memory_map(values: Any) -> Any:
    """Return the rows of a memory map, for what would make an array as long of it; anything else as it is."""
    return Rows.of_array(values) if isinstance(values, np.memmap) and has_numbers(values) else values


def some_of(X: Any, rows: Any) -> Any:
    """Return some records of an array, a table, or rows that are read by blocks."""
    return X[rows] if isinstance(X, Rows) else take_rows(X, rows)


def of_table(
    correction: Correction, X: Any, y: Any, *, check_finite: bool
) -> tuple[FloatArray | Rows, FloatArray | Rows]:
    """Return the records of a long table: read by blocks where its columns are numbers, which then are not copied.

    Raises
    ------
    ValueError, TypeError
        As for `Records.of`.
    """
    # Names that are not those of the release are refused by the first row.
    if correction.collected is None:
        release = correction.release
        correction.checked_matrix(first_row(X), check_finite=False)
    else:
        # Of one vector the target is no column of the table.
        release = correction.collected
        release.design_matrix(first_row(X), check_finite=False)
    declared = {name: one.values for name, one in labels_of(release.groups, "sent").items()}
    try:
        columns = rows_of_table(X, release.columns, declared)
        if isinstance(columns, Rows):
            return in_blocks(correction, columns, y)
    except (TypeError, ValueError):
        # The same as a whole, which names the column.
        correction.checked_records(X, y)
        raise
    if columns is None:
        return correction.checked_records(X, y, check_finite=check_finite)
    return correction.checked_records(columns, y, check_finite=check_finite)


def _as_they_are(part: FloatArray) -> FloatArray:
    return part


def in_blocks(
    correction: Correction, X: Any, y: Any, look: Callable[[int, FloatArray, FloatArray], object] | None = None
) -> tuple[Rows, FloatArray | Rows]:
    """Return columns and targets that are checked once, block by block, and read in every pass.

    Parameters
    ----------
    correction, X, y
        As for `Records.of`.
    look : callable, optional
        Is called with the first row, the columns and the targets of each block that was checked, in order.

    Raises
    ------
    ValueError, TypeError
        As for `Records.of`.
    """
    count = len(X)
    require_vector(y)
    if has_rows(y) and y.ndim != 1:
        # Of a block the message would name the shape.
        correction.checked_target(y, count)
    require_as_many(X, y)
    columns = X if isinstance(X, Rows) else Rows.of_array(np.asarray(X))
    columns.require_places((correction.collected or correction.release).columns)
    target = y
    if y is not None and not isinstance(y, Rows):
        # Labels of text, and true and false, become numbers once.
        is_ready = has_rows(y) and y.dtype.kind in "iuf"
        target = y if is_ready else correction.target_of_table(y, count)
        target = Rows.of_array(np.asarray(target)) if is_long(target) else real_array(target, "y", check_finite=False)
    step = at_once(columns) if y is None else at_once(columns, target)
    # Room for what is kept on the way.
    step = step if look is None else min(step, TOGETHER)
    sums, lows = np.zeros(correction.columns), np.full(correction.columns, np.inf)
    for start in range(0, count, step):
        rows = slice(start, min(start + step, count))
        with counted_from(start):
            block, own_target = correction.checked_records(columns[rows], None if y is None else target[rows])
        if look is not None:
            look(start, block, own_target)
        own, least = sums_and_minima(block)
        sums += own
        np.minimum(lows, least, out=lows)
    if correction.collected is None and y is not None:

        def checked_columns(part: FloatArray) -> FloatArray:
            return correction.checked_matrix(part, check_finite=False)

        def checked_targets(part: FloatArray) -> FloatArray:
            return correction.checked_target(part, len(part))

        # Rows of an array come in the layout of kernels; others as whoever reads them has them.
        first = columns[:1]
        is_ready = columns.array is not None and not correction.design.categorical and checked_columns(first) is first
        matrix = Rows.made_of(columns, _as_they_are if is_ready else checked_columns)
        matrix.array = columns.array if is_ready else None
        matrix.ends = sums / count, lows
        return matrix, Rows.made_of(target, checked_targets) if isinstance(target, Rows) else checked_targets(target)

    def checked(rows: Any) -> tuple[FloatArray, FloatArray]:
        return correction.checked_records(columns[rows], None if y is None else target[rows], check_finite=False)

    matrix, targets = paired(count, checked, has_any_row=columns.has_any_row and has_any_row(target))
    matrix.ends = sums / count, lows
    return matrix, targets
