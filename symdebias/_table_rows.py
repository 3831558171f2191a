"""Tables as rows of numbers: their columns are looked at where they are, and turned into rows when these are read.

A column of numbers of pandas, polars or pyarrow is an array, or a few that follow one another, and is never copied as a
whole. One with missing values, or of a kind that has no array behind it, is converted piece by piece. Text is looked up
once, and kept as codes of a byte or two.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from symdebias import _tables
from symdebias._arrays import FloatArray, codes_array
from symdebias._rows import Rows

# Numbers of rows that columns are written into together: they fit a cache.
_NUMBERS = 2**15

# Takes a slice or row numbers, and returns as many numbers.
Reader = Callable[[Any], np.ndarray[Any, Any]]


def rows_of_table(
    X: Any, columns: Sequence[str] | None, codes: Mapping[str, Sequence[Any]]
) -> Rows | np.ndarray[Any, Any] | None:
    """Return a table as rows, as an array where its numbers lie as one does, or None where a column is no numbers.

    Parameters
    ----------
    X : table
        Of one row or more.
    columns : sequence of str, optional
        Names of its columns, in the order that is wanted; by default its own.
    codes : mapping from str to sequence
        The declared values of columns of categories. Two numbers stand for themselves, and of others the rows have the
        codes 0 to k - 1, as arrays of released records have.

    Raises
    ------
    ValueError
        A value of a column of categories was not declared.
    """
    names, table = _tables.column_names(X), _tables.frame(X)
    if columns is not None:
        if set(names) != set(columns):
            return None
        names = tuple(columns)
    arrays = [None if name in codes else _array(table[name]) for name in names]
    whole = _as_one(arrays)
    if whole is not None:
        return whole
    readers = [
        _of_array(array) if array is not None else _reader(table[name], codes.get(name), name)
        for name, array in zip(names, arrays, strict=True)
    ]
    if any(reader is None for reader in readers):
        return None

    known = [reader for reader in readers if reader is not None]
    size = max(1, _NUMBERS // len(known))

    def read(rows: slice) -> FloatArray:
        parts = [reader(rows) for reader in known]
        found = np.empty((len(parts[0]), len(parts)))
        for start in range(0, len(found), size):
            block = found[start : start + size]
            for place, part in enumerate(parts):
                block[:, place] = part[start : start + size]
        return found

    def pick(rows: Any) -> FloatArray:
        if isinstance(rows, slice):
            return read(rows)
        found = np.empty((len(rows), len(known)))
        for start in range(0, len(found), size):
            some = rows[start : start + size]
            for place, reader in enumerate(known):
                found[start : start + size, place] = reader(some)
        return found

    return Rows((_tables.number_of_rows(X), len(names)), read, pick)


def first_row(X: Any) -> Any:
    """Return what has the columns of X, without its other rows where these would be copied: an array, table or rows."""
    if isinstance(X, (np.ndarray, Rows)):
        return X[:1] if X.ndim == 2 or isinstance(X, Rows) else X
    return _tables.take_rows(X, np.arange(1)) if _tables.is_table(X) and _tables.number_of_rows(X) else X


def _of_array(array: np.ndarray[Any, Any]) -> Reader:
    # Of an array with gaps `take` would make a copy first.
    if not array.flags.c_contiguous:
        return array.__getitem__
    return lambda rows: array[rows] if isinstance(rows, slice) else array.take(rows)


def _reader(column: Any, categories: Sequence[Any] | None, name: str) -> Reader | None:
    """Return what reads a column that is no array of numbers, or None where it has none."""
    if categories is not None:
        codes = codes_array(column, categories, f"column {name} of X")
        small = codes.astype(np.min_scalar_type(len(categories) - 1))
        if len(categories) > 2 or isinstance(categories[0], str):
            return small.__getitem__
        pair = np.array(categories, dtype=np.float64)
        return lambda rows: pair[small[rows]]
    pieces = _pieces(column)
    if pieces is None:
        return _converted(column)
    return pieces[0].__getitem__ if len(pieces) == 1 else _joined(pieces)


def _array(column: Any) -> np.ndarray[Any, Any] | None:
    """Return a column that is an array of numbers, as that."""
    pieces = _pieces(column)
    return pieces[0] if pieces is not None and len(pieces) == 1 else None


def _pieces(column: Any) -> list[np.ndarray[Any, Any]] | None:
    """Return the arrays of numbers that a column consists of, or None where they are not at hand without a copy."""
    native = column.to_native() if hasattr(column, "to_native") else column
    found: list[np.ndarray[Any, Any]]
    if isinstance(native, np.ndarray):
        # Of the library's own table.
        found = [native]
    elif isinstance(getattr(native, "dtype", None), np.dtype) and hasattr(native, "to_numpy"):
        found = [native.to_numpy()]
    elif hasattr(native, "get_chunks") and hasattr(native, "to_numpy"):
        try:
            found = [chunk.to_numpy(allow_copy=False) for chunk in native.get_chunks()]
        except (RuntimeError, TypeError, ValueError):
            return None
    elif hasattr(native, "iterchunks"):
        try:
            found = [chunk.to_numpy(zero_copy_only=True) for chunk in native.iterchunks()]
        except (TypeError, ValueError):
            return None
    else:
        return None
    good = all(isinstance(one, np.ndarray) and one.dtype.kind in "iuf" and one.dtype.itemsize <= 8 for one in found)
    return [one for one in found if len(one)] if good and found else None


def _joined(pieces: list[np.ndarray[Any, Any]]) -> Reader:
    """Return what reads a column that is several arrays one after another."""
    ends = np.cumsum([len(piece) for piece in pieces])
    starts = ends - [len(piece) for piece in pieces]

    def read(rows: Any) -> np.ndarray[Any, Any]:
        if isinstance(rows, slice):
            rows = np.arange(*rows.indices(int(ends[-1]))) if rows.step not in (None, 1) else rows
        if isinstance(rows, slice):
            begin, stop, _ = rows.indices(int(ends[-1]))
            first, last = np.searchsorted(ends, [begin, stop - 1], side="right")
            return np.concatenate([
                pieces[k][max(begin - starts[k], 0) : stop - starts[k]] for k in range(int(first), int(last) + 1)
            ])  # fmt: skip
        where = np.searchsorted(ends, rows, side="right")
        found = np.empty(len(rows))
        for k in np.unique(where):
            here = where == k
            found[here] = pieces[k][rows[here] - starts[k]]
        return found

    return read


def _converted(column: Any) -> Reader | None:
    """Return what converts pieces of a column that has missing values, or a kind of its own; None of what is no number.

    Missing values become NaN, which checks find.
    """
    kind = str(getattr(column, "dtype", "")).lower()
    if not kind.startswith(("int", "uint", "float", "double")):
        return None

    def read(rows: Any) -> np.ndarray[Any, Any]:
        if hasattr(column, "iloc"):
            return np.asarray(column.iloc[rows].to_numpy(dtype=np.float64, na_value=np.nan))
        if isinstance(rows, slice) and rows.step in (None, 1):
            return np.asarray(column[rows].to_numpy(), dtype=np.float64)
        places = np.arange(*rows.indices(len(column))) if isinstance(rows, slice) else rows
        return np.asarray(column[places.tolist()].to_numpy(), dtype=np.float64)

    return read


def _as_one(arrays: Sequence[np.ndarray[Any, Any] | None]) -> np.ndarray[Any, Any] | None:
    """Return columns as the array whose rows hold them side by side, where they are the columns of one."""
    first = arrays[0]
    if first is None or first.dtype != np.float64 or len(first) < 2:
        return None
    width = 8 * len(arrays)
    addresses = [None if one is None else (one.dtype, one.strides, len(one), one.ctypes.data) for one in arrays]
    expected = [(first.dtype, (width,), len(first), first.ctypes.data + 8 * place) for place in range(len(arrays))]
    if addresses != expected:
        return None
    return np.lib.stride_tricks.as_strided(first, (len(first), len(arrays)), (width, 8), writeable=False)
