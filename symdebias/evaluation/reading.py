"""Released columns of many records as they are read where they lie: by pieces, and never copied as a whole."""

from typing import Any

import numpy as np

from symdebias import reading, records
from symdebias._arrays import FloatArray, column_names, is_table, target_array
from symdebias._rows import Rows, at_once, counted_from
from symdebias._table_rows import rows_of_table
from symdebias._tables import number_of_rows
from symdebias.release import Release
from symdebias.release.groups import labels_of
from symdebias.release.matrices import named_by


def released_columns(release: Release, X: Any) -> FloatArray | Rows:
    """Return released X as `Release.design_matrix` does; where that is a copy of much, as rows that are read.

    Parameters
    ----------
    release : Release
        How it was noised, not in one vector with the target.
    X : array of shape (n, p), table or Rows
        The records.

    Raises
    ------
    TypeError, ValueError
        X does not fit.
    """
    columns: Any = None
    if is_table(X):
        if number_of_rows(X) * len(column_names(X)) > records.SMALL_TABLE:
            columns = _of_table(release, X)
    elif reading.is_long(X):
        columns = X if isinstance(X, Rows) else Rows.of_array(np.asarray(X))
        columns.require_places(release.columns)
    if not isinstance(columns, Rows):
        return release.design_matrix(X if columns is None else columns)
    step = at_once(columns)
    try:
        for start in range(0, len(columns), step):
            with counted_from(start):
                release.design_matrix(columns[start : start + step])
    except (TypeError, ValueError):
        if not isinstance(X, Rows):
            # The same as a whole, which names the column.
            release.design_matrix(X)
        raise

    def checked(part: FloatArray) -> FloatArray:
        return release.design_matrix(part, check_finite=False)

    return Rows.made_of(columns, checked)


def released_vectors(release: Release, X: Any, y: Any) -> tuple[FloatArray | Rows, FloatArray]:
    """Return released records of one vector as `Release.columns_of` does, columns of `Rows` as rows that are read.

    Parameters
    ----------
    release : Release
        How they were noised, in one vector.
    X : array of shape (n, p), table or Rows
        The records.
    y : array of shape (n,), or None
        What was released as their targets.

    Raises
    ------
    TypeError, ValueError
        They do not fit.
    """
    if not isinstance(X, Rows):
        return release.columns_of(X, y)
    X.require_places(release.columns)
    own = None if y is None else target_array(y, rows=len(X))
    target, step = np.empty(len(X)), at_once(X)

    def columns_of(rows: Any, *, check_finite: bool) -> tuple[FloatArray, FloatArray]:
        return release.columns_of(X[rows], None if own is None else own[rows], check_finite=check_finite)

    for start in range(0, len(X), step):
        rows = slice(start, min(start + step, len(X)))
        with counted_from(start):
            target[rows] = columns_of(rows, check_finite=True)[1]

    def columns(rows: Any) -> FloatArray:
        return columns_of(rows, check_finite=False)[0]

    shape = len(X), columns(slice(0, 1)).shape[1]
    return Rows(shape, columns, columns if X.has_any_row else None), target


def with_column(matrix: FloatArray | Rows, column: FloatArray) -> FloatArray | Rows:
    """Return columns with one more, which is an array of shape (n,), the last; those of `Rows` as rows."""
    if not isinstance(matrix, Rows):
        return np.column_stack([matrix, column])

    def joined(rows: Any) -> FloatArray:
        return np.column_stack([matrix[rows], column[rows]])

    return Rows((len(matrix), matrix.shape[1] + 1), joined, joined if matrix.has_any_row else None)


def _of_table(release: Release, X: Any) -> FloatArray | Rows | None:
    declared = {name: one.values for name, one in labels_of(release.groups, "sent").items()}
    try:
        return rows_of_table(X, named_by(release, X).columns, declared)
    except (TypeError, ValueError):
        return None
