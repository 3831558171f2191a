"""Tables and their columns: pandas as it is, polars and pyarrow through narwhals, and whatever has named columns.

No table package is imported here: pandas is met by its own objects, and the others by the library narwhals, which the
extra ``tables`` installs, when the first of their objects comes.
"""

import math
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from symdebias import _optional

# Packages whose tables lie elsewhere, and what brings them here.
_ELSEWHERE = {"dask": "X.compute()", "pyspark": "X.toPandas()", "duckdb": "X.arrow()", "ibis": "X.to_pandas()"}
# Packages whose tables and columns go through narwhals, which knows how to make more of them.
_THROUGH_NARWHALS = {"polars", "pyarrow", "modin", "cudf", "narwhals"}
_LAZY = {"LazyFrame", "Scanner", "RecordBatchReader"}


def _package(values: Any) -> str:
    return type(values).__module__.partition(".")[0]


def _narwhals() -> Any:
    return _optional.require("narwhals", extra="tables")


def _is_lazy(X: Any) -> bool:
    """Whether the rows of a table are not there yet; a data set of pyarrow has its kind in its name."""
    kind = type(X).__name__
    return kind in _LAZY or (_package(X) == "pyarrow" and kind.endswith("Dataset"))


def is_table(X: Any) -> bool:
    """Whether X has named columns, as the data frames of pandas, polars and pyarrow have.

    Raises
    ------
    TypeError
        It is a table whose rows are not there yet.
    """
    if isinstance(X, np.ndarray):
        return False
    if _package(X) in _THROUGH_NARWHALS and _is_lazy(X):
        raise TypeError(
            f"X is a {type(X).__name__} of {_package(X)}, whose rows are not there yet. Pass a table of records: "
            "X.collect() of polars, X.to_table() or X.read_all() of pyarrow."
        )
    return hasattr(X, "columns") and hasattr(X, "__getitem__")


def is_column(values: Any) -> bool:
    """Whether values are a column of a table, which remembers its name or its kind."""
    if isinstance(values, np.ndarray) or is_table(values):
        return False
    if _package(values) == "pandas" and not hasattr(values, "index"):  # An index, and an array of an extension.
        return False
    return _package(values) in _THROUGH_NARWHALS or (hasattr(values, "name") and hasattr(values, "to_numpy"))


def _require_here(X: Any) -> None:
    """Raise TypeError for a table whose rows are not in memory, though its names are."""
    if _package(X) in _ELSEWHERE:
        way = "leave them on disk in Parquet, and read them by symdebias.blocks"
        if _package(X) == "dask":
            way = "use the function of the same name of symdebias.distributed"
        raise TypeError(
            f"X is a {type(X).__name__} of {_package(X)}, whose rows are not in memory. Pass a table of records, "
            f"{_ELSEWHERE[_package(X)]}; or {way}."
        )


def frame(table: Any) -> Any:
    """Return a table by whose names columns are looked up: itself, or narwhals's view of it.

    Raises
    ------
    ValueError, TypeError
        A name stands twice; or it is a batch of records, or its rows are not in memory.
    """
    _require_here(table)
    if _package(table) == "pyarrow":
        if type(table).__name__ == "RecordBatch":
            raise TypeError("X is a RecordBatch of pyarrow. Pass a table of it, pyarrow.Table.from_batches([X]).")
        column_names(table)
    return _narwhals().from_native(table, eager_only=True) if _package(table) in _THROUGH_NARWHALS else table


def without_view(column: Any) -> Any:
    """Return a column of `frame` as an array where that is narwhals's view of it, and others as NumPy reads them right.

    Columns of pyarrow before 16 do not know the argument that the view hands on from NumPy. Where values stand in a
    dictionary, a column of several chunks gives NumPy another one in place of a missing value: there the values
    themselves are taken.
    """
    is_view = _package(column) == "narwhals"
    native = column.to_native() if is_view else column
    if _package(native) == "pyarrow" and hasattr(getattr(native, "type", None), "index_type"):
        return np.asarray(native.cast(native.type.value_type))
    return column.to_numpy() if is_view else column


def factorized(column: Any) -> tuple[np.ndarray[Any, Any], list[Any]] | None:
    """Return the places of a column's values among the distinct ones, -1 where one is missing, and these.

    None where no package finds them faster than Python does.
    """
    if _package(column) != "pandas" or not hasattr(column, "factorize"):
        return None
    try:
        places, distinct = column.factorize()
    except TypeError:
        # Lists, say, which have no hash.
        return None
    return places, list(distinct)


def without_decimals(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return objects as the float64 next to each, where they are numbers with decimal ones or fractions among them.

    Not by pyarrow, which is off by a unit in the last place; a missing value is NaN.
    """
    kinds = set(map(type, array.flat))
    exact = {Decimal, Fraction}
    if not kinds & exact or not kinds <= {*exact, float, int, np.float64, np.int64, type(None)}:
        return array
    flat = [math.nan if value is None else _nearest(value) for value in array.flat]
    return np.array(flat, dtype=np.float64).reshape(array.shape)


def _nearest(value: Any) -> float:
    try:
        return float(value)
    except (OverflowError, ValueError):
        # The error would show the value.
        return math.inf


def _is_one_chunk(column: Any) -> bool:
    """Whether a column is an array of pyarrow, which stands in a table as the one chunk of a column."""
    return _package(column) == "pyarrow" and not hasattr(column, "chunks")


def _series(column: Any) -> Any:
    """Return narwhals's view of a column."""
    narwhals = _narwhals()
    if _is_one_chunk(column):
        pyarrow = _optional.require("pyarrow", extra="tables")
        column = pyarrow.chunked_array([column])
    return narwhals.from_native(column, series_only=True)


def column_names(table: Any) -> tuple[str, ...]:
    """Return the names of a table's columns.

    Raises
    ------
    ValueError
        A name stands twice.
    TypeError
        A name is not text.
    """
    # Not by narwhals, which refuses names that stand twice in words of its own.
    names = tuple(table.column_names if _package(table) == "pyarrow" else table.columns)
    for place, name in enumerate(names):
        if not isinstance(name, str):
            # Names are those of the first record where a file has no line of names: none of them is shown.
            raise TypeError(
                f"the name of column {place} of X is not text, but has the type {type(name).__name__}. Columns are "
                "matched by name. Rename the columns, or pass an array."
            )
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise ValueError(f"X has more than one column named {shown_names(twice)}. Give each a name of its own.")
    return names


def shown_names(names: Sequence[str]) -> str:
    """Return names of columns for a message, or how many they are where one is a number.

    Then they may be the first record of a file that has no line of names.

    Examples
    --------
    >>> shown_names(["age", "income"]), shown_names(["State-gov", "77516"])
    ('age, income', '2 columns, of whose names 1 is a number (of the first record, where a file has no line of names)')
    """
    if count := sum(map(is_number_as_text, names)):
        verb = "is a number" if count == 1 else "are numbers"
        return (
            f"{len(names)} column{'s' if len(names) > 1 else ''}, of whose names {count} {verb} (of the first record, "
            "where a file has no line of names)"
        )
    return ", ".join(names)


def is_number_as_text(name: str) -> bool:
    """Whether a name is spelled as a number."""
    try:
        float(name)
    except ValueError:
        return False
    return True


def take_rows(data: Any, rows: Any) -> Any:
    """Return some rows of an array, a table or a column of a table, as what it is.

    Parameters
    ----------
    data : array or table
        With one row per record.
    rows : array of int
        Which rows.
    """
    if _package(data) in _THROUGH_NARWHALS:
        whole = frame(data) if is_table(data) else _series(data)
        if isinstance(rows, slice):
            first, end, step = rows.indices(len(whole))
            # Consecutive rows are looked at where they are.
            some = slice(first, max(first, end)) if step == 1 else np.arange(first, end, step)
        else:
            some = np.flatnonzero(rows) if np.asarray(rows).dtype == bool else np.asarray(rows)
        return whole[some].to_native()
    if hasattr(data, "iloc"):
        return data.iloc[rows]
    return data[rows] if is_table(data) else np.asarray(data)[rows]


def reordered(data: Any, order: Any) -> Any:
    """Return an array, a table or a column with its rows in another order, which row labels do not tell.

    Parameters
    ----------
    data : array, table or column of a table
        With one row per record.
    order : array of int
        The places of all rows.
    """
    found = take_rows(data, order)
    return found.reset_index(drop=True) if hasattr(found, "reset_index") else found


def number_of_rows(table: Any) -> int:
    """Return how many records a table has, which are in memory."""
    _require_here(table)
    return int(table.num_rows) if _package(table) == "pyarrow" else len(table)


def batches(source: Any) -> Any:
    """Return the record batches of a source of pyarrow whose rows are not there yet, or None of anything else."""
    if _package(source) != "pyarrow" or not _is_lazy(source):
        return None
    return source.to_batches() if hasattr(source, "to_batches") else source


def split(block: Any, names: Sequence[str] | None, target: str | None) -> tuple[Any, Any]:
    """Return the features and the target of a block of records.

    Parameters
    ----------
    block : pair, array or table
        A pair of both, an array of features, or a table. A record batch of pyarrow is given back as a table.
    names : sequence of str or None
        The columns of a table that are features, of which those that it has are given back; None for all.
    target : str or None
        The column of the target in a table.

    Raises
    ------
    ValueError
        There is no such column, or the block is no table that it could be one of.
    TypeError
        The block is a tuple, and no pair.
    """
    if isinstance(block, tuple) and len(block) != 2:
        raise TypeError(f"a block is a tuple of {len(block)}. Yield a pair (X, y), X alone, or a table.")
    X, y = block if isinstance(block, tuple) else (block, None)
    if _package(X) == "pyarrow" and type(X).__name__ == "RecordBatch":
        X = _optional.require("pyarrow", extra="tables").Table.from_batches([X])
    if target is not None and (y is not None or not is_table(X)):
        raise ValueError(
            f"target={target!r:.80} names a column of tables, and a block is "
            f"{'an array' if y is None else 'a pair (X, y)'}. Yield tables, or leave target out."
        )
    if not is_table(X):
        return X, y
    known = column_names(X)
    if target is not None:
        if target not in known:
            raise ValueError(
                f"a block has no column {target!r:.80}; it has {shown_names(known):.200}. Name its column."
            )
        y = X[target]
    found = [name for name in names or () if name in known]
    if found:
        X = table_like(X, found, [X[name] for name in found], keep_index=True)
    return X, y


def table_like(template: Any, names: Sequence[str], values: Sequence[Any], *, keep_index: bool = False) -> Any:
    """Return a table of the same kind as another, with p names and as many columns of shape (n,).

    With `keep_index` its row labels are those of the other, where that has them.
    """
    columns = dict(zip(names, values, strict=True))
    if _package(template) in _THROUGH_NARWHALS:
        kind = frame(template).implementation
        first, *others = (_made_series(name, one, kind) for name, one in columns.items())
        # Not by from_dict, which makes other types of some columns.
        return first.to_frame().with_columns(*others).to_native()
    # Columns of pandas have row labels of their own, by which they would be put in order.
    columns = {name: one.array if hasattr(one, "array") else one for name, one in columns.items()}
    if keep_index and hasattr(template, "index"):
        return type(template)(columns, index=template.index)
    return type(template)(columns)


def table_of(template: Any, names: Sequence[str], matrix: Any, *, keep_index: bool = False) -> Any:
    """Return a table as `table_like` does, with the columns of a matrix, shape (n, p), which is given up.

    A table of pandas has them where they are; others have columns one by one, in memory of their own.
    """
    if _package(template) != "pandas" or type(template).__name__ != "DataFrame":
        return table_like(template, names, list(matrix.T), keep_index=keep_index)
    return type(template)(matrix, columns=list(names), index=template.index if keep_index else None, copy=False)


def _made_series(name: str, values: Any, kind: Any, dtype: Any = None) -> Any:
    """Return values as a column of narwhals."""
    narwhals = _narwhals()
    if isinstance(values, narwhals.Series):
        return values.alias(name)
    if _package(values) in _THROUGH_NARWHALS:
        return _series(values).alias(name)
    # Text in an array of objects would be a column of objects.
    plain = values.tolist() if isinstance(values, np.ndarray) and values.dtype == object else values
    return narwhals.new_series(name, plain, dtype, backend=kind)


def column_like(template: Any, vector: Any, *, keep_index: bool = False) -> Any:
    """Return a column of the same kind and name as another; arrays and lists give the array.

    Parameters
    ----------
    template : column of a table, array or list
        The column whose kind is wanted, of length n.
    vector : array of shape (n,), float64, or a column of that kind
        The values.
    keep_index : bool
        Whether its row labels are those of the other.
    """
    if not is_column(template):
        return vector
    if _package(template) in _THROUGH_NARWHALS:
        given = _series(template)
        made = _made_series(given.name, vector, given.implementation).to_native()
        return made.combine_chunks() if _is_one_chunk(template) else made
    if hasattr(template, "index"):
        index = template.index if keep_index else None
        values = vector.array if hasattr(vector, "array") else vector
        return type(template)(values, index=index, name=template.name)
    return type(template)(template.name, vector)


def with_dtype_of(template: Any, values: Any, *, is_whole: bool = False, categories: Sequence[Any] = ()) -> Any:
    """Return released values in the data type of the column that they come from, where they fit it.

    What is no column of a known kind gives the values as they are. `is_whole` values are whole numbers by declaration:
    a column of integers then stays one, of 64 bits, as a narrower type may have been chosen for the largest true value.
    With `categories`, the declared text that they may be, a column of categories, or of text, stays one; which ones a
    table names are those, and neither depends on those that occur nor on what else the given column could hold.
    """
    if not (is_whole or len(categories)):
        return values
    if _package(template) in _THROUGH_NARWHALS:
        return _narwhals_dtype(_series(template), values, is_whole, categories)
    dtype = getattr(template, "dtype", None)
    if dtype is None or _package(template) != "pandas":
        return values
    if is_whole:
        return values.astype(np.int64) if getattr(dtype, "kind", "O") in "iu" else values
    if type(dtype).__name__ == "CategoricalDtype":
        known = list(dtype.categories) == list(categories)
        return type(template)(values, dtype=dtype if known else type(dtype)(categories=list(categories)))
    return type(template)(values, dtype=dtype) if str(dtype).startswith(("str", "object")) else values


def _narwhals_dtype(template: Any, values: Any, is_whole: bool, categories: Sequence[Any]) -> Any:
    narwhals, kind, dtype = _narwhals(), template.implementation, template.dtype
    if is_whole:
        return values.astype(np.int64) if dtype.is_integer() else values
    if isinstance(dtype, narwhals.Enum):
        return _made_series(template.name, values, kind, narwhals.Enum(list(categories)))
    if isinstance(dtype, narwhals.Categorical):
        # By way of text, of which pyarrow before 16 makes no column of categories at once.
        return _made_series(template.name, values, kind).cast(dtype)
    if dtype in (narwhals.Boolean, narwhals.Unknown):
        # True and false were read as categories of these names, and are released by them. Of pyarrow some kinds of text
        # columns, such as those that are encoded by their runs, are not known.
        return values
    return _made_series(template.name, values, kind, dtype)


def by_itself(column: Any) -> Any:
    """Return a column of `frame` with the values that it has, and nothing of what may come along with them.

    Categories that do not occur are left out, and so are rows beyond a slice, whose memory a column of pyarrow keeps.
    """
    if _package(column) == "narwhals":
        return _made_series(column.name, without_view(column), column.implementation)
    is_categorical = type(getattr(column, "dtype", None)).__name__ == "CategoricalDtype"
    return column.cat.remove_unused_categories() if is_categorical else column


def check_same_index(X: Any, y: Any, **others: Any) -> None:
    """Raise ValueError where X, y and what else comes per record have row labels that differ.

    The others come by the names of their arguments. Rows are matched by position, so that labels must be the same in
    the same order. What has none, such as an array, or is None, fits all.
    """
    labelled = [
        (name, index)
        for name, values in {"X": X, "y": y, **others}.items()
        if (index := getattr(values, "index", None)) is not None and hasattr(index, "equals")
    ]
    for name, index in labelled[1:]:
        if not labelled[0][1].equals(index):
            if len(labelled[0][1]) != len(index):
                raise ValueError(
                    f"{labelled[0][0]} has {len(labelled[0][1]):,} rows and {name} {len(index):,}. Pass both of the "
                    "same records, in the same order."
                )
            raise ValueError(
                f"{labelled[0][0]} and {name} have different row labels. Records are matched by position: align them "
                f"first, or pass {name}.to_numpy()."
            )
