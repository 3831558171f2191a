"""The boundary: arrays and tables in, checked float64 out; once, and with messages that keep values private.

Tables are recognised by their named columns (`symdebias._tables`, whose functions stand here as well). Messages name
the argument, the row and the column, never the value. Real numbers of at most 64 bits are taken, whatever their layout;
booleans, text, objects and complex numbers are not, because a guess about them would go unseen. Of a target whose
labels are 0 and 1, true and false are these.
"""

import contextlib
import datetime
import itertools
import math
import numbers
import os
import re
from collections.abc import Container, Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from symdebias._domains import SCALE, LabelSet, shown, spell
from symdebias._names import advice_on_spelling, composed
from symdebias._tables import by_itself as by_itself
from symdebias._tables import check_same_index as check_same_index
from symdebias._tables import column_like as column_like
from symdebias._tables import column_names as column_names
from symdebias._tables import factorized as factorized
from symdebias._tables import frame as frame
from symdebias._tables import is_column as is_column
from symdebias._tables import is_number_as_text as is_number_as_text
from symdebias._tables import is_table as is_table
from symdebias._tables import reordered as reordered
from symdebias._tables import shown_names as shown_names
from symdebias._tables import table_like as table_like
from symdebias._tables import table_of as table_of
from symdebias._tables import take_rows as take_rows
from symdebias._tables import with_dtype_of as with_dtype_of
from symdebias._tables import without_decimals as without_decimals
from symdebias._tables import without_view as without_view

# Labels that are compared at a time.
_LABELS = 1 << 15
# Weights whose squares, summed over records, are numbers.
_LARGEST_WEIGHT = 1e100
# Rows whose squares are added at a time.
_SQUARED = 1 << 13
# Values of categories that are looked up at a time: each is an object.
_LOOKED_UP = 1 << 16
# Rows that are laid side by side where columns are compared.
_SIDE_BY_SIDE = 64

FloatArray = np.ndarray[Any, np.dtype[np.float64]]
IntegerArray = np.ndarray[Any, np.dtype[np.int64]]
BooleanArray = np.ndarray[Any, np.dtype[np.bool_]]


def features_array(
    X: Any,
    columns: Sequence[str] | None = None,
    *,
    check_finite: bool = True,
    codes: Mapping[str, Sequence[Any]] | None = None,
) -> FloatArray:
    """Return features as an array of shape (n, p), float64, C order.

    Parameters
    ----------
    X : array of shape (n, p) or table
        Real numbers; float32 and integers are converted (integers beyond 2^53 are rounded). A table is
        matched by name.
    columns : sequence of str, optional
        The columns and their order; those of a table must be the same set, those of an array as many.
    check_finite : bool
        False leaves NaN and infinity to a caller that finds them in its own pass over the data.
    codes : mapping from str to sequence, optional
        The declared values of categorical columns of a table, which come back as codes 0 to k - 1.

    Returns
    -------
    array of shape (n, p), float64
        X itself where it is already of this form; it is not to be written to.

    Raises
    ------
    TypeError
        The entries are not real numbers, or X is sparse.
    ValueError
        Wrong shape, no rows or columns, wrong columns, or an entry that is missing, NaN or infinite.
    """
    names: Sequence[str] | None = None
    if is_table(X):
        found = column_names(X)
        if columns is not None and set(found) != set(columns):
            missing = [name for name in columns if name not in found]
            extra = [name for name in found if name not in columns]
            told = (
                "the columns of X are not those of the release"
                + (f"; missing: {', '.join(missing)}" if missing else "")
                + (f"; not in the release: {shown_names(extra)}" if extra else "")
            )
            advice = advice_on_spelling(missing, map(str, extra))
            if advice:
                raise ValueError(f"{told}. {advice}")
            spread = [name for name in extra if any(one.startswith(f"{name}=") for one in missing)]
            if spread and {one.partition("=")[0] for one in missing} <= set(spread):
                raise ValueError(
                    f"{told}. A column of categories has an indicator for each but the first here, and privatize makes "
                    f"them of {', '.join(spread)}; of true records, that of Release(noiseless=..., categories=...)."
                )
            raise ValueError(f"{told}. Select and name the columns as declared{_selection(() if missing else columns)}")
        names, table = found if columns is None else columns, frame(X)
        parts = [
            codes_array(table[name], codes[name], f"column {name} of X")
            if codes and name in codes
            else _numbers(table[name], f"column {name} of X")
            for name in names
        ]
        if not parts:
            raise ValueError("X has no columns. Pass at least one.")
        matrix = np.ascontiguousarray(np.stack(parts, axis=1))
    elif hasattr(X, "to_frame"):
        raise ValueError(
            f"X must have two dimensions, records and columns; got a {type(X).__name__}. Pass table[[name]] for one "
            "column, or table.iloc[[row]] for one record."
        )
    else:
        matrix = _numbers(X, "X")
    if matrix.ndim != 2:
        advice = (
            "Pass X.reshape(-1, 1) for one column, or X.reshape(1, -1) for one record."
            if matrix.ndim == 1
            else "Pass one row per record and one column per feature."
        )
        raise ValueError(f"X must have two dimensions, records and columns; got {matrix.ndim}. {advice}")
    if not matrix.shape[1]:
        # Some callers look at one row alone, whose number is not that of the records.
        raise ValueError("X has no columns. Pass at least one.")
    if not len(matrix):
        raise ValueError(f"X is empty: its shape is {matrix.shape}. Pass at least one record and one column.")
    if columns is not None and matrix.shape[1] != len(columns):
        raise ValueError(
            f"X has {matrix.shape[1]} columns, but the release has {len(columns)}: {', '.join(columns)}. "
            "Pass the columns in this order, or a table with these names."
        )
    if check_finite:
        _check_finite(matrix, "X", names)
    return matrix


def _selection(names: Sequence[str]) -> str:
    """Return the end of a message: the code that selects these columns where it is short."""
    listed = shown(list(names))
    return f": pass X[{listed}]." if names and len(listed) <= 200 else "."


def _of_other_dimension(name: str, shape: tuple[int, ...], what: str) -> ValueError:
    """Return the error of an array that should have one dimension: a value, or a number, for each record."""
    advice = f"Pass numpy.ravel({name})." if len(shape) == 2 and 1 in shape else f"Pass one {what} per record."
    return ValueError(f"{name} must have one dimension; its shape is {shape}. {advice}")


def codes_array(values: Any, categories: Sequence[Any], name: str) -> FloatArray:
    """Return categorical values as codes 0 to k - 1, float64: places among the declared ones, all text or all numbers.

    Raises
    ------
    ValueError
        A value was not declared, or is missing; the message has its row and not the value.
    """
    places = {value: float(place) for place, value in enumerate(categories)}
    given = without_view(values)
    kind = getattr(getattr(given, "dtype", None), "kind", "O")
    # Text of numbers would be made of those in a list that stand beside text.
    as_they_are = kind in "iufb" and not any(isinstance(value, str) for value in places)
    told = None if as_they_are or _has_truth(places) else factorized(given)
    found: FloatArray
    if told is not None:
        found = np.append(_looked_up(told[1], places), -1.0)[told[0]]
    else:
        array = np.asarray(given, dtype=None if as_they_are or kind == "U" else object)
        if array.ndim != 1:
            raise _of_other_dimension(name, array.shape, "value")
        found = _places_of_numbers(array, places) if array.dtype.kind in "iufb" else _places_of_objects(array, places)
    if (found < 0).any():
        row = int(np.argmax(found < 0))
        if is_missing(np.asarray(given, dtype=object)[row]):
            raise ValueError(
                f"{name} has no value in row {row}: it is missing. Complete it, or declare a category for missing "
                "values and recode them."
            )
        shown = ", ".join(map(str, categories[:8])) + (", ..." if len(categories) > 8 else "")
        value = np.asarray(given, dtype=object)[row]
        differs = isinstance(value, str) and composed(value) in {composed(str(one)) for one in categories}
        advice = (
            'write letters with accents as there, unicodedata.normalize("NFC", text)'
            if differs
            else ("declare all of them, or recode the column")
        )
        raise ValueError(
            f"{name} has a value in row {row} that was not declared. The categories are {shown}: {advice}."
        )
    return found


def _places_of_numbers(array: np.ndarray[Any, Any], places: Mapping[Any, float]) -> FloatArray:
    """Return the places of numbers among known ones, -1 where they are none of these."""
    kind = np.dtype(np.int8) if array.dtype.kind == "b" else array.dtype
    converted = []
    for value in places:
        with np.errstate(all="ignore"), contextlib.suppress(OverflowError):
            converted.append((np.array(value).astype(kind).item(), value))
    # What is another number in this type is none of the array's.
    known = sorted((own, places[value]) for own, value in converted if own == value)
    if not known:
        return np.full(len(array), -1.0)
    numbers, place_of = np.array([own for own, _ in known], dtype=kind), np.array([place for _, place in known])
    at = np.minimum(np.searchsorted(numbers, array), len(known) - 1)
    found: FloatArray = np.where(numbers[at] == array, place_of[at], -1.0)
    return found


def _places_of_objects(array: np.ndarray[Any, Any], places: Mapping[Any, float]) -> FloatArray:
    """Return the places of values among known ones, -1 where they are none of these."""
    found = np.empty(len(array))
    for start in range(0, len(array), _LOOKED_UP):
        rows = slice(start, start + _LOOKED_UP)
        values = array[rows].astype(object).tolist()
        if _has_truth(places):
            values = [str(value) if isinstance(value, (bool, np.bool_)) else value for value in values]
        found[rows] = _looked_up(values, places)
    return found


def _has_truth(places: Mapping[Any, float]) -> bool:
    """Whether true and false are categories by their names, as a schema reads them."""
    return "True" in places or "False" in places


def _looked_up(values: list[Any], places: Mapping[Any, float]) -> FloatArray:
    # An error from looking up a value would hold it, and hang on the one that is raised.
    with contextlib.suppress(TypeError):
        return np.fromiter(map(places.get, values, itertools.repeat(-1.0)), dtype=np.float64, count=len(values))
    found = np.full(len(values), -1.0)
    for row, value in enumerate(values):
        with contextlib.suppress(TypeError):
            found[row] = places.get(value, -1.0)
    return found


def is_missing(value: Any, words: Container[str] = ("",)) -> bool:
    """Whether a value stands for none: None, NaN, NA of a table package, or one of some words."""
    if isinstance(value, str):
        return value.strip() in words
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, (float, np.floating)) and bool(np.isnan(value))


def value_array(values: Any, *, check_finite: bool = True) -> FloatArray:
    """Return numbers or row vectors as an array of shape (n,) or (n, k), float64.

    ``check_finite=False`` leaves NaN and infinity to a caller that finds them in its own pass over the data.

    Raises
    ------
    TypeError, ValueError
        As for `features_array`, with 1-D arrays allowed.
    """
    array = _numbers(values, "values")
    if array.ndim not in (1, 2) or 0 in array.shape:
        raise ValueError(
            f"values have the shape {array.shape}. Pass an array of shape (n,) or (n, k) with at least one entry."
        )
    if check_finite:
        check_finite_values(array)
    return array


def check_finite_values(array: FloatArray) -> None:
    """Raise ValueError where an entry of `values` is NaN or infinite."""
    _check_finite(array, "values")


def real_array(values: Any, name: str, *, check_finite: bool = True) -> FloatArray:
    """Return numbers as an array of their own shape, float64, C order: themselves where they are of this form already.

    What is returned is not to be written to. ``check_finite=False`` leaves NaN and infinity to a caller that finds them
    in its own pass over the data.

    Raises
    ------
    TypeError, ValueError
        Not real numbers, sparse, a single number, none at all, or an entry that is NaN or infinite.
    """
    # What is of the right form already is most of what comes, often small and many times.
    ready = type(values) is np.ndarray and values.dtype == np.float64 and values.flags.carray
    array = values if ready else _numbers(values, name)
    if array.size == 0 or array.ndim == 0:
        raise ValueError(f"{name} has the shape {array.shape}. Pass an array with at least one entry.")
    if check_finite:
        _check_finite(array, name)
    return array


def column_ends(rows: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the least and the largest values of the columns of an array.

    Parameters
    ----------
    rows : array of shape (n, p), float64, C order
        One row at least.
    """
    # Rows side by side: few columns alone are short loops.
    whole = len(rows) - len(rows) % _SIDE_BY_SIDE
    wide, rest = rows[:whole].reshape(-1, _SIDE_BY_SIDE * rows.shape[1]), rows[whole:]
    lows, highs = (
        np.concatenate([*([end(wide, axis=0).reshape(_SIDE_BY_SIDE, -1)] if whole else []), rest])
        for end in (np.min, np.max)
    )
    return lows.min(axis=0), highs.max(axis=0)


def sums_and_minima(rows: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the sums and the least values of the columns of an array, as for `column_ends`."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.ones(len(rows)) @ rows, column_ends(rows)[0]


def require_squares(rows: Any, name: str) -> None:
    """Raise ValueError where the sum of squares of finite entries is beyond what a number holds.

    Parameters
    ----------
    rows : array of shape (n,) or (n, p), or rows that are read where they are
        The entries; some rows are read at a time.
    name : str
        What they are.
    """
    total, largest, worst = 0.0, 0.0, 0
    for start in range(0, len(rows), _SQUARED):
        block = np.asarray(rows[start : start + _SQUARED])
        flat = block.ravel(order="K")
        with np.errstate(over="ignore", invalid="ignore"):
            square = float(flat @ flat)
            total += square
        if square > largest:
            largest, worst = square, start
        if not math.isfinite(total):
            break
    else:
        return
    block = np.abs(rows[worst : worst + _SQUARED])
    row = worst + int(np.argmax(block)) // block[:1].size
    raise ValueError(
        f"{name} has a value in row {row} that is too large: the sum of squares is beyond what a number holds. Declare "
        "center= and scale= on the release, so that values are near 1, or leave the record out."
    )


def target_array(y: Any, *, rows: int, check_finite: bool = True) -> FloatArray:
    """Return targets, an array or a column of a table, as an array of shape (n,), float64.

    Without `check_finite`, NaN and infinity are left to the caller.

    Raises
    ------
    TypeError, ValueError
        As for `features_array`; also where the length is not n.
    """
    target = _vector(y, "y", rows)
    if check_finite:
        _check_finite(target, "y")
    return target


def truth_as_labels(y: Any, labels: Sequence[Any] | None) -> Any:
    """Return true and false as 1 and 0 where these are the labels; everything else as it is.

    Parameters
    ----------
    y : array of shape (n,) or a column of a table
        Labels, which may be truth values of any table.
    labels : sequence of float or of str, or None
        The declared labels.
    """
    if labels is None or set(labels) != {0, 1}:
        return y
    if getattr(getattr(y, "dtype", None), "kind", "") in ("i", "u", "f") or isinstance(y, np.ma.MaskedArray):
        return y
    if is_table(y) or not (is_column(y) or isinstance(y, (np.ndarray, list, tuple))):
        return y
    try:
        array = np.asarray(without_view(y))
    except ValueError:
        return y
    if array.dtype.kind == "b":
        return array.astype(np.float64)
    # Nullable columns of a table come as objects; those with missing values are refused as such.
    are_true_or_false = array.dtype == object and all(isinstance(one, (bool, np.bool_)) for one in array.flat)
    return array.astype(np.float64) if are_true_or_false else y


def label_array(y: Any, values: Sequence[float], *, rows: int) -> FloatArray:
    """Return labels as an array of shape (n,), float64, each one of the values that a loss declares.

    Raises
    ------
    ValueError
        A label is not one of the values; the message lists what kinds of labels were found, at most three.
    """
    labels = target_array(truth_as_labels(y, values), rows=rows, check_finite=False)
    if not all_among(labels, values):
        _check_finite(labels, "y")
        check_labels(labels, values, "labels", remedy="take loss.recoded({}), the same loss in these numbers")
    return labels


def check_labels(labels: FloatArray, values: Sequence[float], name: str, *, remedy: str) -> None:
    """Raise ValueError where a label is not one of the declared values.

    `remedy` says what to do for labels that are coded otherwise, with ``{}`` in the place of their values.
    """
    if all_among(labels, values):
        return
    allowed = _among(labels, values)
    wanted = LabelSet(tuple(sorted(float(value) for value in values)))
    found = [float(value) for value in np.unique(labels)]
    other = [value for value in found if value not in wanted.values]
    # Labels may be private: a message names a coding that everybody uses, and no other value.
    if set(found) <= {-1.0, 0.0, 1.0}:
        shown = " and ".join(map(spell, found))
    else:
        shown = f"{len(other)} other value{'s' * (len(other) > 1)}"
    if set(found) <= {0.0, 1.0} and wanted.values == (-1.0, 1.0):
        advice = f"Pass 2*y - 1, or {remedy.format('(0, 1)')}."
    elif set(found) <= {-1.0, 1.0} and wanted.values == (0.0, 1.0):
        advice = f"Pass (y + 1)/2, or {remedy.format('(-1, 1)')}."
    else:
        advice = f"The first other one is in row {int(np.argmin(allowed))}; recode the labels."
    raise ValueError(f"{name} must be {wanted}; got {shown}. {advice}")


def all_among(labels: FloatArray, values: Sequence[float]) -> bool:
    """Whether all labels are among some values."""
    # Block by block, so that what is compared stays in a cache.
    flat = labels.ravel()
    if flat.dtype == np.float64 and len(values) == 2 and values[0] == -values[1]:
        return _are_opposite(flat, values[0])
    return all(_among(flat[begin : begin + _LABELS], values).all() for begin in range(0, len(flat), _LABELS))


def _are_opposite(labels: FloatArray, value: float) -> bool:
    """Whether all labels are a value or its opposite, by the bits that some have and those that all have."""
    size, sign = np.float64(abs(value)).view(np.int64), np.int64(-(2**63))
    bits = labels.view(np.int64)
    blocks = (bits[begin : begin + 2 * _LABELS] for begin in range(0, len(bits), 2 * _LABELS))
    return all(np.bitwise_or.reduce(block) & ~sign == size == np.bitwise_and.reduce(block) & ~sign for block in blocks)


def _among(labels: FloatArray, values: Sequence[float]) -> BooleanArray:
    """Return which labels are among some values."""
    if _are_codes(values):
        return np.asarray((labels >= 0) & (labels < len(values)) & (labels == np.floor(labels)))
    allowed: BooleanArray = labels == values[0]
    for value in values[1:]:
        allowed |= labels == value
    return allowed


def _are_codes(values: Sequence[Any]) -> bool:
    """Whether values are 0, 1, ..., k - 1, so that none has to be looked for."""
    return tuple(values) == tuple(range(len(values)))


def places_among(known: Sequence[float], values: FloatArray) -> IntegerArray:
    """Return the places of values among known ones, each of which is one of them.

    Parameters
    ----------
    known : sequence of k floats
        Distinct numbers, in any order.
    values : array, float64
        Some of them.
    """
    if _are_codes(known):
        return values.astype(np.int64)
    numbers = np.array(known)
    order = np.argsort(numbers)
    places: IntegerArray = order[np.searchsorted(numbers, values, sorter=order)]
    return places


def weights_array(sample_weight: Any, *, rows: int, is_part: bool = False) -> FloatArray:
    """Return weights as an array of shape (n,), float64.

    Those of a part of the records may all be zero.

    Raises
    ------
    ValueError
        A weight is negative, or none is positive, or the largest is beyond 1e100 or below 1e-100.
    TypeError
        They are not numbers.
    """
    weights = _vector(sample_weight, "sample_weight", rows)
    _check_finite(weights, "sample_weight")
    if not weights.min() >= 0:
        row = int(np.argmin(weights))
        raise ValueError(f"sample_weight is negative in row {row}. Weights must be zero or more.")
    if not weights.max() > 0:
        if is_part:
            return weights
        raise ValueError("every sample_weight is zero. At least one record must count.")
    if not 1 / _LARGEST_WEIGHT <= weights.max() <= _LARGEST_WEIGHT:
        raise ValueError(
            f"the largest sample_weight is {weights.max():.3g}, and squares of such are beyond what a number holds. "
            "Weights count relative to one another: divide them by the largest."
        )
    return weights


def length_of(values: Any) -> int:
    """Return the length of something that is to be an array, and 0 of what has none."""
    try:
        return len(values)
    except TypeError:
        return 0


def per_record_scales(
    noise_scale: Any, allowed: BooleanArray, columns: Sequence[str] | None, *, rows: int
) -> FloatArray:
    """Return noise scales of the records' own as an array of shape (n, p), float64.

    They are standard deviations, zero or more, of shape (n,) or (n, p); one per record stands for all columns that are
    `allowed` one, shape (p,). The others must have 0. `columns` are the names of the columns, where there are some.

    Raises
    ------
    TypeError, ValueError
        Not numbers, another shape, negative, NaN or infinite, or not 0 where no scale is allowed.
    """
    scales = _numbers(noise_scale, "noise_scale")
    if scales.ndim == 1 and len(scales) == rows:
        # A view where it will do.
        each = scales[:, None]
        scales = np.broadcast_to(each, (rows, len(allowed))) if allowed.all() else each * allowed
    if scales.shape != (rows, len(allowed)):
        count = "n" if scales.ndim == 0 and rows == 0 else rows
        raise ValueError(
            f"noise_scale has the shape {scales.shape}; it must be ({count},) or ({count}, {len(allowed)}): one "
            "standard deviation per record, or one per record and column."
        )
    _check_finite(scales, "noise_scale")
    if not scales.min() >= 0:
        row = int(np.argmin(scales.min(axis=1)))
        raise ValueError(f"noise_scale is negative in row {row}. Standard deviations are zero or more.")
    if not scales.max() <= SCALE.high:
        row = int(np.argmax(scales.max(axis=1)))
        raise ValueError(
            f"noise_scale is above {SCALE.high:g} in row {row}, whose square overflows. Give the column and its noise "
            "in a larger unit."
        )
    if scales[:, ~allowed].any():
        column = int(np.flatnonzero(~allowed & scales.any(axis=0))[0])
        raise ValueError(
            f"noise_scale has a scale for column {column if columns is None else columns[column]}, which has no normal "
            "noise of a known scale. Give 0 there."
        )
    return scales


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
            f"theta has the shape {vector.shape}; it must be ({length},): one parameter per column, the "
            "intercept last where the release has one."
        )
    _check_finite(vector, "theta")
    return vector


def parameter_array(theta: Any, length: int, scores: int | None = 1, names: Sequence[str] | None = None) -> FloatArray:
    """Return parameters as an array of shape (length,), or (scores, length) for several scores, float64.

    With ``scores=None`` either shape is taken. Labelled ones, as a column of `Fit.summary_frame`, are put in the order
    of the names, where these are known.

    Raises
    ------
    TypeError, ValueError
        Not numbers, another shape, NaN or infinity, or labels of others.
    """
    if names is not None:
        theta = _by_names(theta, names)
    array = _numbers(theta, "theta")
    if scores == 1 or (scores is None and array.ndim == 1):
        return parameter_vector(array, length)
    if array.ndim != 2 or array.shape[1] != length or scores not in (None, array.shape[0]):
        raise ValueError(
            f"theta has the shape {array.shape}; it must be ({scores}, {length}): one row per score and one parameter "
            "per column, the intercept last where the release has one."
        )
    _check_finite(array, "theta")
    return array


def _by_names(theta: Any, names: Sequence[str]) -> Any:
    """Return labelled parameters in the order of the names, and others as they are."""
    is_labelled = hasattr(theta, "index") and hasattr(theta.index, "tolist") and hasattr(theta, "loc")
    labels = theta.index.tolist() if is_labelled and getattr(theta, "ndim", 0) == 1 else []
    if not labels or not all(isinstance(label, str) for label in labels) or labels == list(names):
        return theta
    if sorted(labels) != sorted(names):
        raise ValueError(
            f"theta is labelled {', '.join(map(shown, labels)):.200}, and the parameters are {', '.join(names):.200}. "
            "Label them so, or pass theta.to_numpy() in this order."
        )
    return theta.loc[list(names)]


def parameter_bounds(bounds: Any, length: int) -> tuple[FloatArray, FloatArray]:
    """Return lower and upper bounds on parameters, each of shape (length,), float64.

    Raises
    ------
    TypeError, ValueError
        Not a pair, another shape, NaN, or a lower bound that is not below its upper one.
    """
    if not isinstance(bounds, (tuple, list)) or len(bounds) != 2:
        raise TypeError(
            f"bounds={shown(bounds, 60)} is not a pair. Give (lower, upper), each a number or one number per parameter."
        )
    found = []
    for name, values in zip(("lower", "upper"), bounds, strict=True):
        array = _numbers(values, f"{name} bounds")
        if array.shape not in ((), (length,)) or np.isnan(array).any():
            raise ValueError(
                f"the {name} bounds have the shape {array.shape}; give a number or {length} numbers, infinite where "
                "there is no bound."
            )
        found.append(np.broadcast_to(array, (length,)).copy())
    lower, upper = found
    if not np.all(lower < upper):
        place = int(np.argmax(~(lower < upper)))
        raise ValueError(
            f"the lower bound {lower[place]:g} of parameter {place} is not below its upper bound {upper[place]:g}. "
            "Exchange them, or leave out a column whose parameter is known."
        )
    return lower, upper


def cluster_codes(clusters: Any, *, rows: int) -> IntegerArray:
    """Return labels of clusters as codes 0 to G - 1, shape (n,), int64.

    Raises
    ------
    ValueError, TypeError
        Another length, missing labels, labels that are not hashable, or a single cluster.
    """
    labels = cluster_labels(clusters, rows=rows)
    if labels.dtype == object:
        # By what is equal: sets, say, have an order in which those that are equal do not stand together.
        found: Any = {}
        try:
            codes = np.array([found.setdefault(label, len(found)) for label in labels])
        except TypeError:
            kinds = ", ".join(sorted({type(label).__name__ for label in labels})[:5])
            raise TypeError(
                f"clusters has labels of the types {kinds}, not all of which can be told from others. Give texts or "
                "numbers, as [str(label) for label in clusters]."
            ) from None
    else:
        # In pieces: an order of all labels, and its inverse, take three times the room of the codes.
        pieces = [slice(start, start + _LABELS) for start in range(0, len(labels), _LABELS)]
        found = _distinct(np.concatenate([_distinct(labels[piece]) for piece in pieces])) if pieces else labels
        codes = np.empty(len(labels), dtype=np.int64)
        for piece in pieces:
            # Labels in order are looked up in the time that it takes to go through them.
            own, places = np.unique(labels[piece], return_inverse=True)
            codes[piece] = np.searchsorted(found, own)[places.reshape(-1)]
    require_clusters(len(found))
    return np.asarray(codes, dtype=np.int64)


def _distinct(labels: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the labels that there are, in order: NumPy's own, by a hash, takes ten times as long where all differ."""
    labels = np.sort(labels)
    return np.asarray(labels[np.append(True, labels[1:] != labels[:-1])[: len(labels)]])


def cluster_labels(clusters: Any, *, rows: int) -> np.ndarray[Any, Any]:
    """Return labels of clusters as an array of shape (n,).

    Raises
    ------
    ValueError
        Another length, or missing labels.
    """
    try:
        labels = np.asarray(without_view(clusters))
    except ValueError:
        raise ValueError("clusters has entries of different lengths. Pass one label per record.") from None
    if labels.shape != (rows,):
        raise ValueError(f"clusters has the shape {labels.shape}; it must be ({rows},): one label per record.")
    if labels.dtype == object:
        is_missing = any(map(_is_missing, labels))
    else:
        is_missing = bool(np.any(labels != labels))
    if is_missing or np.ma.is_masked(clusters):
        raise ValueError("clusters has missing labels. Give each record a label, its own where it stands alone.")
    return labels


def _is_missing(label: Any) -> bool:
    """Whether a label is None, NaN, or a missing value of pandas, of which no comparison is true or false."""
    same = label == label
    return label is None or not isinstance(same, (bool, np.bool_)) or not same


def require_clusters(count: int) -> None:
    """Raise ValueError where there is one cluster only."""
    if count < 2:
        raise ValueError("clusters has a single label. Standard errors need at least two clusters.")


def _vector(values: Any, name: str, rows: int) -> FloatArray:
    if is_table(values):
        raise ValueError(f"{name} must have one dimension; got a table. Pass one of its columns.")
    vector = _numbers(values, name)
    if vector.ndim != 1:
        raise _of_other_dimension(name, vector.shape, "number")
    if len(vector) != rows:
        raise ValueError(
            f"{name} has {len(vector)} entries, but X has {rows} rows. Pass one per record; records are the rows of X."
        )
    return vector


_UNREAD = (
    "Of a file, pass the records in it, as pandas.read_csv(path) reads them; symdebias.load(folder) reads a release."
)


def _numbers(values: Any, name: str) -> FloatArray:
    if hasattr(values, "tocsr") and hasattr(values, "nnz"):
        size = f"{values.shape} with {values.nnz} stored values"
        dense = 8 * values.shape[0] * values.shape[-1] / 2**20
        raise TypeError(
            f"{name} is a sparse matrix of shape {size}. Noise fills every entry, so that the records are "
            f"dense: pass {name}.toarray(), which takes {dense:.3g} MiB."
        )
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise ValueError(f"{name} is a masked array with masked entries. Fill or drop these records first.")
    # Missing values of nullable and Arrow columns become NaN, which the finite check names by its row.
    if hasattr(values, "to_numpy") and getattr(getattr(values, "dtype", None), "na_value", None) is not None:
        kind = getattr(values.dtype, "kind", "O")
        if kind in "iuf":
            values = values.to_numpy(dtype=np.float64, na_value=np.nan)
    try:
        array = np.asarray(without_view(values))
    except ValueError:
        raise ValueError(f"{name} has rows of different lengths. Pass one number per record and column.") from None
    if array.dtype.kind == "O" and array.ndim:
        array = without_decimals(array)
    if array.dtype.kind not in "iuf" or array.dtype.itemsize > 8:
        # An array of no dimension is one thing that is no array: None, a set, a generator, an object.
        found, advice = str(array.dtype), f"Convert it first.{_how_to_convert(array, name)}"
        if not array.ndim and array.dtype.kind == "O":
            found, advice = type(values).__name__, "Pass an array of them."
            if isinstance(values, Mapping) and name == "X":
                advice = f"A dict names columns, and is no table: pass pandas.DataFrame({name}) or another data frame."
            elif isinstance(values, os.PathLike):
                advice = _UNREAD
            elif hasattr(values, "release") and hasattr(values, "X"):
                advice = "Pass its columns and its target, noised.X and noised.y."
        elif not array.ndim and array.dtype.kind == "U":
            found, advice = "one text", _UNREAD
        raise TypeError(f"{name} must hold real numbers (floats of up to 64 bits or integers); got {found}. {advice}")
    return np.require(array, np.float64, ["C", "ALIGNED", "ENSUREARRAY"])


_DECIMAL_COMMA = re.compile(r"\s*[-+]?[\d.\s']*\d,\d+\s*")
_OF_DATES = " A date becomes a number as the days since another."


def _how_to_convert(array: np.ndarray[Any, Any], name: str) -> str:
    """Return what to do with an argument of another type, as a sentence; empty where its type says it."""
    kind = array.dtype.kind
    if kind == "b":
        return " For 0 and 1, pass array.astype(float)." + " For -1 and +1, numpy.where(y, 1, -1)." * (name == "y")
    if kind == "M":
        return _OF_DATES
    if kind == "m":
        return ' A duration becomes a number as a multiple of another, X / numpy.timedelta64(1, "D").'
    if kind == "V" and array.dtype.names:
        return f" A structured array names its columns: pass pandas.DataFrame({name})."
    if kind not in "OUT" or not array.ndim:
        return ""
    found = ""
    if kind == "O":
        others = (
            (place, one) for place, one in np.ndenumerate(array)
            if not isinstance(one, (numbers.Real, Decimal)) or isinstance(one, (bool, np.bool_))
        )  # fmt: skip
        place, other = next(others, ((), 0.0))
        if not place:
            return " Its entries are numbers already: pass array.astype(float)."
        where = ", ".join(f"{axis} {index}" for axis, index in zip(("row", "column"), place, strict=False))
        found = f" The first entry that is no number is in {where}: its type is {type(other).__name__}."
        if other is None:
            return f" The first entry that is no number is in {where}: it is missing. Remove or impute what is missing."
        if isinstance(other, datetime.date):
            return f"{found}{_OF_DATES}"
        if not isinstance(other, str):
            return found
        if _DECIMAL_COMMA.fullmatch(other):
            return (
                f'{found} It is written with a decimal comma: of a file, pandas.read_csv(..., sep=";", decimal=",") '
                "reads such numbers."
            )
    if name.startswith("column "):
        return f"{found} For text, declare its categories: categories={{...}} on the release, or on a mechanism."
    if name == "y":
        return (
            f'{found} For labels of text, pass numbers, as numpy.where(y == "yes", 1, -1), or declare them on the '
            'mechanism of the target, as RandomizedResponse(epsilon, categories=("no", "yes")).'
        )
    if name == "values":
        return f"{found} A mechanism takes categories of text as their codes 0, 1, ...; a Release recodes them itself."
    return found


def _check_finite(array: FloatArray, name: str, columns: Sequence[str] | None = None) -> None:
    # One pass: a finite sum has finite terms. Only where it is not, look at each.
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(array.sum()):
            return
    bad = ~np.isfinite(array)
    if not bad.any():
        return
    position = tuple(int(index) for index in np.argwhere(bad)[0])
    kind = "NaN" if np.isnan(array[position]) else "infinity"
    entry = name == "theta" or (name == "v" and array.ndim == 1)
    where = f"{'entry' if entry else 'row'} {position[0]}"
    if array.ndim == 2:
        where += f", column {position[1]}" + ("" if columns is None else f" ({columns[position[1]]})")
    raise ValueError(f"{name} has {kind} in {where}. Remove or impute what is not a finite number.")
