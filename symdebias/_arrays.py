"""The boundary: arrays and tables in, checked float64 out; once, and with messages that keep values private.

Tables are recognised by their ``columns``; no table package is imported. Messages name the argument, the row
and the column, never the value.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

FloatArray = np.ndarray[Any, np.dtype[np.float64]]


def is_table(X: Any) -> bool:
    """Whether X has named columns, as the data frames of pandas and polars have."""
    return hasattr(X, "columns") and hasattr(X, "__getitem__") and not isinstance(X, np.ndarray)


def column_names(table: Any) -> tuple[str, ...]:
    """Return the names of a table's columns.

    Raises
    ------
    ValueError
        A name stands twice.
    TypeError
        A name is not text.
    """
    names = tuple(table.columns)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(
                f"the column {name!r} of X has a name that is not text. Rename the columns, or pass an array."
            )
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"X has more than one column named {', '.join(twice)}. Give each a name of its own.")
    return names


def features_array(X: Any, columns: Sequence[str] | None = None) -> FloatArray:
    """Return features as an array of shape (n, p), float64, C order.

    Parameters
    ----------
    X : array of shape (n, p) or table
        Numbers; float32 and integers are converted. A table is matched by name.
    columns : sequence of str, optional
        The columns and their order; those of a table must be the same set, those of an array as many.

    Returns
    -------
    array of shape (n, p), float64
        X itself where it is already of this form; it is not to be written to.

    Raises
    ------
    TypeError
        The entries are not real numbers, or X is sparse.
    ValueError
        Wrong shape, no rows or columns, wrong columns, or an entry that is NaN or infinite.
    """
    if is_table(X):
        names = column_names(X)
        if columns is not None and set(names) != set(columns):
            missing = sorted(set(columns) - set(names))
            extra = sorted(set(names) - set(columns))
            raise ValueError(
                "the columns of X are not those of the release"
                + (f"; missing: {', '.join(missing)}" if missing else "")
                + (f"; not in the release: {', '.join(extra)}" if extra else "")
                + ". Select and name the columns as declared."
            )
        parts = [_numbers(X[name], f"column {name} of X") for name in (columns or names)]
        if not parts:
            raise ValueError("X has no columns. Pass at least one.")
        matrix = np.column_stack(parts)
    else:
        matrix = _numbers(X, "X")
    if matrix.ndim != 2:
        advice = "Pass X.reshape(-1, 1) for one column." if matrix.ndim == 1 else "Pass one row per record."
        raise ValueError(f"X must have two dimensions, records and columns; got {matrix.ndim}. {advice}")
    if 0 in matrix.shape:
        raise ValueError(f"X is empty: its shape is {matrix.shape}. Pass at least one record and one column.")
    if columns is not None and matrix.shape[1] != len(columns):
        raise ValueError(
            f"X has {matrix.shape[1]} columns, but the release has {len(columns)}: {', '.join(columns)}. "
            "Pass the columns in this order, or a table with these names."
        )
    _check_finite(matrix, "X")
    return matrix


def target_array(y: Any, *, rows: int) -> FloatArray:
    """Return targets as an array of shape (n,), float64.

    Parameters
    ----------
    y : array of shape (n,) or a column of a table
        Numbers.
    rows : int
        The number n of records.

    Raises
    ------
    TypeError, ValueError
        As for `features_array`; also where the length is not n.
    """
    return _vector(y, "y", rows)


def label_array(y: Any, values: Sequence[float], *, rows: int) -> FloatArray:
    """Return labels as an array of shape (n,), float64, each one of the declared values.

    Parameters
    ----------
    y : array of shape (n,)
        Labels.
    values : sequence of float
        The declared values.
    rows : int
        The number n of records.

    Raises
    ------
    ValueError
        A label is not one of the values; the message lists what kinds of labels were found, at most three.
    """
    labels = target_array(y, rows=rows)
    check_labels(labels, values, "labels")
    return labels


def check_labels(labels: FloatArray, values: Sequence[float], name: str) -> None:
    """Raise ValueError where a label is not one of the declared values."""
    allowed = np.zeros(labels.shape, dtype=bool)
    for value in values:
        allowed |= labels == value
    if allowed.all():
        return
    found = np.unique(labels)
    shown = " and ".join(f"{value:.10g}" for value in found[:3]) + (" and others" if len(found) > 3 else "")
    wanted = " or ".join(f"{value:+g}" if min(values) < 0 else f"{value:g}" for value in values)
    if set(found) <= {0.0, 1.0} and set(values) == {-1.0, 1.0}:
        advice = "Pass 2*y - 1, or declare target_values=(0, 1) on the loss."
    else:
        advice = f"The first other one is in row {int(np.argmin(allowed))}; recode the labels."
    raise ValueError(f"{name} must be {wanted}; got {shown}. {advice}")


def weights_array(sample_weight: Any, *, rows: int) -> FloatArray:
    """Return weights as an array of shape (n,), float64.

    Raises
    ------
    ValueError
        A weight is negative, or none is positive.
    TypeError
        They are not numbers.
    """
    weights = _vector(sample_weight, "sample_weight", rows)
    if not weights.min() >= 0:
        row = int(np.argmin(weights))
        raise ValueError(f"sample_weight is negative in row {row}. Weights must be zero or more.")
    if not weights.max() > 0:
        raise ValueError("sample_weight has no positive entry. At least one record must count.")
    return weights


def parameter_vector(theta: Any, length: int) -> FloatArray:
    """Return parameters as an array of shape (length,), float64.

    Raises
    ------
    TypeError, ValueError
        Not numbers, another length, NaN or infinity.
    """
    vector = _numbers(theta, "theta")
    if vector.shape != (length,):
        raise ValueError(
            f"theta has the shape {vector.shape}; it must be ({length},): one parameter per column, the intercept "
            "last where the release has one."
        )
    _check_finite(vector, "theta")
    return vector


def table_like(template: Any, names: Sequence[str], matrix: FloatArray) -> Any:
    """Return a table of the same kind as another, with the same index where it has one."""
    columns = {name: matrix[:, position] for position, name in enumerate(names)}
    if hasattr(template, "index"):
        return type(template)(columns, index=template.index)
    return type(template)(columns)


def check_same_index(X: Any, y: Any) -> None:
    """Raise ValueError where X and y have row labels that differ: rows are matched by position."""
    first, second = getattr(X, "index", None), getattr(y, "index", None)
    labelled = hasattr(first, "equals") and hasattr(second, "equals")
    if labelled and not first.equals(second):  # type: ignore[union-attr]
        raise ValueError(
            "X and y have different row labels. Records are matched by position: align them first, or pass "
            "y.to_numpy()."
        )


def _vector(values: Any, name: str, rows: int) -> FloatArray:
    vector = _numbers(values, name)
    if vector.ndim != 1:
        advice = f"Pass {name}.ravel()." if vector.ndim == 2 and 1 in vector.shape else "Pass one number per record."
        raise ValueError(f"{name} must have one dimension; its shape is {vector.shape}. {advice}")
    if len(vector) != rows:
        raise ValueError(f"{name} has {len(vector)} entries, but X has {rows} rows. Pass one per record.")
    _check_finite(vector, name)
    return vector


def _numbers(values: Any, name: str) -> FloatArray:
    if hasattr(values, "tocsr") and hasattr(values, "nnz"):
        raise TypeError(
            f"{name} is a sparse matrix of shape {values.shape}. Noise fills every entry: pass {name}.toarray()."
        )
    # Missing values of nullable and Arrow columns become NaN, which the finite check names by its row.
    if hasattr(values, "to_numpy") and getattr(getattr(values, "dtype", None), "na_value", None) is not None:
        kind = getattr(values.dtype, "kind", "O")
        if kind in "iuf":
            values = values.to_numpy(dtype=np.float64, na_value=np.nan)
    try:
        array = np.asarray(values)
    except ValueError:
        raise ValueError(f"{name} has rows of different lengths. Pass one number per record and column.") from None
    if array.dtype.kind not in "iuf" or array.dtype.itemsize > 8:
        hint = " Pass 0 and 1 as numbers: array.astype(float)." if array.dtype.kind == "b" else ""
        raise TypeError(
            f"{name} must hold real numbers (floats of up to 64 bits or integers); got {array.dtype}. "
            f"Convert it first.{hint}"
        )
    return np.ascontiguousarray(array, dtype=np.float64) if array.ndim else array.astype(np.float64)


def _check_finite(array: FloatArray, name: str) -> None:
    # One pass: a finite sum has finite terms. Only where it is not, look at each.
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(array.sum()):
            return
    bad = ~np.isfinite(array)
    if not bad.any():
        return
    position = np.unravel_index(int(np.argmax(bad)), array.shape)
    kind = "NaN" if np.isnan(array[position]) else "infinity"
    where = f"row {position[0]}" + (f", column {position[1]}" if array.ndim == 2 else "")
    raise ValueError(f"{name} has {kind} in {where}. Remove or impute such records before they are used.")
