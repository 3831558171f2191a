"""True records as a schema declares them: missing values filled, categories recoded, numbers read from text.

What a value means does not depend on other records. Messages name the column and the row, from 0 on, and the line of a
file; what stands there is private, and never shown.
"""

import contextlib
import datetime
import functools
import math
import os
from collections.abc import Callable, Container, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from symdebias import _arrays, _columns, _files
from symdebias._arrays import FloatArray
from symdebias._columns import Table
from symdebias._domains import seen
from symdebias._names import composed
from symdebias._parquet import ParquetColumns, paths_of
from symdebias.release.categories import spelled

if TYPE_CHECKING:
    from symdebias.release.schema import Column, Schema

Where = Callable[[int], str]
# From here on floats skip whole numbers.
_WHOLE = 2**53
# Units of NumPy's dates without a time of day.
_DAYS = ("Y", "M", "W", "D")
# What other programs write where a value is missing.
_FOR_MISSING = frozenset("na n/a #n/a nan null none nil . ? -".split())
# Types of which equal values are written alike, and so mean the same: 0.0 and -0.0 are not.
_ALIKE = (str, int, bool)
_OTHER = "declare all of them, or name one with other = ... that undeclared values count as"


def collected(schema: "Schema", data: Any) -> tuple[Table, Any]:
    """Return columns and target of true records; see `symdebias.Schema.collect`."""
    target = schema.target
    source, where = _source(data, names_collected(schema))
    found = {column.name: _values(column, source[column.name], schema.missing, where) for column in schema.columns}
    sizes = {len(values) for values in found.values()}
    if target is None:
        _same_length(sizes)
        return Table(found), None
    values = _values(target, source[target.name], schema.missing, where)
    _same_length(sizes | {len(values)})
    if schema.labels is not None:
        values = np.where(values == schema.labels[1], 1.0, -1.0)
    return Table(found), values


def names_collected(schema: "Schema") -> list[str]:
    """Return the names of the columns that a schema collects, the target last where there is one."""
    return [column.name for column in (*schema.columns, *([] if schema.target is None else [schema.target]))]


def columns_read(columns: Sequence["Column"], data: Any, missing: Sequence[str]) -> Table:
    """Return columns of true records as they are declared: what a model is asked to predict for has no target.

    Parameters
    ----------
    columns : sequence of Column
        The columns, each of which the data have to have.
    data : path, or table
        As for `symdebias.Schema.collect`.
    missing : sequence of str
        Words that mean a missing value.

    Raises
    ------
    FileNotFoundError, ValueError, TypeError
        The data do not fit.
    """
    source, where = _source(data, [column.name for column in columns])
    found = {column.name: _values(column, source[column.name], missing, where) for column in columns}
    _same_length({len(values) for values in found.values()})
    return Table(found)


def _same_length(sizes: set[int]) -> None:
    if sizes == {0}:
        raise ValueError("the table has no records. Pass one with a row for each.")
    if len(sizes) > 1:
        least, most = min(sizes), max(sizes)
        raise ValueError(f"the columns have {least} to {most} records. Give each column one value per record.")


def _source(data: Any, wanted: Sequence[str]) -> tuple[Mapping[str, Any], Where]:
    """Return what has the values of each wanted column, and what says where a row is."""
    place = _files.path_of(data) if isinstance(data, (str, os.PathLike)) else None
    if place is not None and (place.is_dir() or _columns.is_parquet(place)):
        data, place = _of_parquet(place, wanted), None
    if place is not None:
        file = _columns.read_text(place, wanted)
        return file.columns, lambda row: f"row {row} (line {file.lines[row]} of {file.name})"
    if not (isinstance(data, Mapping) or _arrays.is_table(data)):
        raise TypeError(
            f"records are a table or the path of a file of CSV or Parquet; got {type(data).__name__}. Pass a table "
            f"with the columns {', '.join(wanted)}."
        )
    names = set(data) if isinstance(data, Mapping) else set(_arrays.column_names(data))
    missing = [name for name in wanted if name not in names]
    if missing:
        raise ValueError(
            f"the table has no column named {', '.join(missing)}. Name them as they are declared: {', '.join(wanted)}."
        )
    return {name: data[name] for name in wanted}, lambda row: f"row {row}"


def _of_parquet(path: Path, wanted: Sequence[str]) -> dict[str, Any]:
    if path.is_dir() and not any(path.glob("*.parquet")):
        raise FileNotFoundError(
            f"{seen(str(path), 200)} is a folder without files that end with .parquet. Name a file of comma-separated "
            "values or of Parquet, or a folder of the latter."
        )
    stored = ParquetColumns(paths_of(path))
    names = [name for name in wanted if name in stored.names]
    blocks = list(stored.blocks(names))
    return {name: np.concatenate([block[name] for block in blocks]) for name in names}


def _values(column: "Column", values: Any, missing: Sequence[str], where: Where) -> np.ndarray[Any, Any]:
    """Return a column: float64 for numbers and for categories that are numbers, texts for others."""
    ready = _ready_numbers(column, values)
    if ready is not None:
        numbers, merged = ready
        if column.public and merged is not None:
            raise _not_told_apart(column, where(merged))
        return numbers
    array = _as_objects(values)
    if array.ndim != 1:
        raise ValueError(f"{column.name} has the shape {array.shape}. Give one value per record.")
    given = array.tolist()
    keys: Sequence[Any] = given
    if set(map(type, given)) != {str}:
        pairs = zip(map(type, given), given, strict=True)
        keys = [(kind, value) if kind in _ALIKE else row for row, (kind, value) in enumerate(pairs)]
    first: dict[Any, int] = {}
    for row, key in enumerate(keys):
        first.setdefault(key, row)
    words = _words_of_missing(column, missing)
    read = {key: _read(column, given[row], words, functools.partial(where, row)) for key, row in first.items()}
    found = [read[key] for key in keys]
    if column.public and column.labels is None:
        exactly: dict[float, Decimal] = {}
        for key, row in first.items():
            whole = _whole(given[row]) if abs(read[key]) >= _WHOLE else None
            if whole is not None and exactly.setdefault(read[key], whole) != whole:
                raise _not_told_apart(column, where(row))
    return np.array(found, dtype=object if any(isinstance(value, str) for value in found[:1]) else float)


def _words_of_missing(column: "Column", missing: Sequence[str]) -> set[str]:
    """Return the words that mean a missing value of a column: a word that is declared as a category is one."""
    return {"", *missing} - (set() if column.labels is None else set(column.labels.values))


def _read(column: "Column", value: Any, words: Container[str], where: Callable[[], str]) -> Any:
    """Return what a value means.

    Raises
    ------
    ValueError
        It means nothing; `where` tells where it stands.
    """
    if _arrays.is_missing(value, words):
        if column.fill is None:
            raise ValueError(_without_value(column, where()))
        return column.fill
    labels = column.labels
    read = str(value).strip() if labels is not None and labels.is_text else _number(value)
    if labels is None:
        if read is None:
            raise ValueError(
                f"{column.name} is no finite number in {where()}, and is declared "
                f"{'without categories' if column.public or column.is_released else 'by bounds'}. "
                f"{_as_number(column, value)}"
            )
        return read
    if read in labels.values:
        return read
    # Letters with accents are written in two ways that are one text.
    if labels.is_text and (same := labels.by_letters.get(composed(str(read)))) is not None:
        return same
    if column.other is None:
        remedy = "declare all of them" if column.is_released else _OTHER
        listed = ", ".join(map(spelled, labels.values[:8]))
        raise ValueError(
            f"{column.name} has a value in {where()} that was not declared. Its categories are {listed}"
            f"{', ...' if len(labels.values) > 8 else ''}: {_other_category(value, labels.values)}{remedy}."
        )
    return column.other


def _as_objects(values: Any) -> np.ndarray[Any, Any]:
    """Return a column as an array of objects, with dates and durations of any table as those of Python."""
    values = _arrays.without_view(values)
    array = np.asarray(values) if hasattr(values, "__array__") else np.asarray(values, dtype=object)
    kind = array.dtype.kind
    # Whole numbers beside missing values come as floats, of which two may be one; columns of pyarrow, polars and pandas
    # list them as they are.
    listed = getattr(values, "to_pylist", None) or getattr(values, "to_list", None)
    if kind == "f" and listed is not None:
        array = np.empty(len(array), dtype=object)
        array[:] = listed()
    if kind == "m" or (kind == "M" and np.datetime_data(array.dtype)[0] not in _DAYS):
        # Of those counted in nanoseconds NumPy would make whole numbers.
        array = array.astype(f"{kind}8[us]")
    return array.astype(object)


def _ready_numbers(column: "Column", values: Any) -> tuple[FloatArray, int | None] | None:
    """Return numbers that need no look at each, and the row of one that floats do not tell from another; or None."""
    if column.labels is not None or isinstance(values, list):
        return None
    with contextlib.suppress(TypeError, ValueError):
        array = np.asarray(_arrays.without_view(values))
        if array.ndim == 1 and array.dtype.kind in "iuf":
            numbers = array.astype(np.float64)
            if np.isfinite(numbers).all():
                return numbers, None if array.dtype.kind == "f" else _merged(array)
    return None


def _without_value(column: "Column", where: str) -> str:
    if column.is_released:
        return (
            f"{column.name} is missing in {where}. Each record needs a value, and none is filled where noise is to be "
            "undone: complete the table; or leave out the records without one, where that hangs on nothing in them."
        )
    fill = "the middle of its bounds" if column.labels is None else "one of its categories"
    return (
        f"{column.name} is missing in {where}. Each record needs a value: complete the table; or say in the schema "
        f"what a missing one of a column counts as (fill = ..., a public value such as {fill}; a target has none)."
    )


def _as_number(column: "Column", value: Any) -> str:
    """Return what to do about a value that is no number, by its kind and without showing it."""
    if isinstance(value, (bool, np.bool_)):
        return 'It is true or false: declare categories = ["False", "True"], or convert the column to 0 and 1.'
    if isinstance(value, (datetime.date, np.datetime64)):
        return "It is a date: convert the column to a number, such as days since a public day."
    if _is_word_for_missing(value):
        if column.is_released:
            return (
                "It is a word for a missing value, and none is filled where noise is to be undone: complete the table; "
                "or leave out the records without one, where that hangs on nothing in them."
            )
        return "It is a word for a missing value: declare it, as missing = [...], and what it counts as, as fill = ...."
    words = "" if column.is_released else "declare the word for missing values as missing = [...], "
    ids = (
        " What tells records apart, as the clusters of a fit do, is numbered."
        if column.public and column.is_released
        else ""
    )
    return f"Correct the value (numbers are written as 1234.5, and dates are none), {words}or declare categories.{ids}"


def _other_category(value: Any, declared: Sequence[Any]) -> str:
    """Return why a value is none of the declared categories where it nearly is; what is told of it was declared."""
    if isinstance(value, (bool, np.bool_)):
        return 'true and false are texts here, categories = ["False", "True"]; '
    near = str(value).strip().casefold()
    if any(isinstance(one, str) and one.casefold() == near for one in declared):
        return "the value differs from one of them in its capitals; "
    return "the value is a word for a missing one; " if _is_word_for_missing(value) else ""


def _is_word_for_missing(value: Any) -> bool:
    return isinstance(value, str) and value.strip().casefold() in _FOR_MISSING


def _merged(array: np.ndarray[Any, Any]) -> int | None:
    """Return the row of a whole number that is another one as a float of its own in the array, or None."""
    if not len(array) or -_WHOLE <= array.min() <= array.max() <= _WHOLE:
        return None
    ordered = np.sort(array)
    floats = ordered.astype(np.float64)
    places = np.flatnonzero((ordered[1:] != ordered[:-1]) & (floats[1:] == floats[:-1]))
    return int(np.flatnonzero(array == ordered[places[0] + 1])[0]) if len(places) else None


def _whole(value: Any) -> Decimal | None:
    """Return a number as it was given, digit by digit, or None for a float."""
    if isinstance(value, (float, np.floating)):
        return None
    try:
        return Decimal(str(value).strip())
    except ArithmeticError:
        return None


def _not_told_apart(column: "Column", where: str) -> ValueError:
    return ValueError(
        f"{column.name} has two whole numbers beyond 2^53 that floats do not tell apart, one of them in {where}. "
        "Number anew what stands for persons or the like, or leave it out."
    )


def _number(value: Any) -> float | None:
    """Return a finite number, or None; the error of `float` would show the value."""
    if isinstance(value, (bool, np.bool_)):
        return None
    # Underscores between digits are Python's, and no table's.
    if isinstance(value, str) and "_" in value:
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
