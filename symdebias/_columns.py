"""Named columns of equal length, and files of comma-separated values, without a package for tables.

Files are read as text, column by column: what a column means is for whoever knows its schema. Messages name lines and
declared columns; what stands in a file is never shown, as its first line may be a record.
"""

import csv
import io
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from symdebias._domains import seen

# Of one field, in characters; the limit of the standard library is that of the whole process.
_LONGEST_FIELD = 100_000


class Table:
    """Named columns of equal length: what a CSV file holds.

    Parameters
    ----------
    columns : mapping from str to array of shape (n,)
        The columns in their order.

    Raises
    ------
    ValueError
        The columns differ in length, or one has more than one dimension.

    Examples
    --------
    >>> table = Table({"age": [39.0, 50.0], "place": ["n", "e"]})
    >>> table.columns, table.shape, table["age"].tolist()
    (('age', 'place'), (2, 2), [39.0, 50.0])
    """

    def __init__(self, columns: Mapping[str, Any]) -> None:
        self._values: dict[str, np.ndarray[Any, Any]] = {}
        for name, values in columns.items():
            array = np.asarray(values)
            if array.dtype.kind in "US":
                # As they were given: text beside NaN is no text.
                array = np.asarray(values, dtype=object)
            if array.ndim != 1:
                raise ValueError(f"the column {name} has the shape {array.shape}. Give one value per record.")
            self._values[name] = array
        lengths = sorted({len(array) for array in self._values.values()})
        if len(lengths) > 1:
            raise ValueError(f"the columns have {lengths[0]} to {lengths[-1]} rows. Give each one value per record.")

    @property
    def columns(self) -> tuple[str, ...]:
        """The names, in order."""
        return tuple(self._values)

    @property
    def shape(self) -> tuple[int, int]:
        """How many records and columns there are."""
        return len(self), len(self._values)

    def __len__(self) -> int:
        return len(next(iter(self._values.values()), ()))

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            return self._values[key]
        if np.ndim(key) == 0 and not isinstance(key, slice):
            raise TypeError(
                "a table has columns, by their names, and records, by a slice or an array of places. For a matrix take "
                "numpy.column_stack([table[name] for name in table.columns])."
            )
        return Table({name: values[key] for name, values in self._values.items()})

    def __repr__(self) -> str:
        # Records may be private: a table is shown by its shape.
        return f"Table({len(self):,} records of {', '.join(self.columns)})"

    def to_dict(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return the columns by name, as data frames of any package take them."""
        return dict(self._values)


@dataclass(frozen=True)
class TextFile:
    """What a file of comma-separated values holds, as text."""

    name: str  # What to call the file.
    columns: Mapping[str, list[str]]  # The values by column, blanks around them left out.
    lines: list[int]  # The line of the file that each record ends on.


def read_text(path: Path, wanted: Sequence[str]) -> TextFile:
    """Read columns of a UTF-8 file of comma-separated values, whose first line names them; others are left out.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    ValueError
        It is not of this form, or a column is not there.
    """
    name = seen(path.name, 80)
    if not path.is_file():
        kind = "is no file" if path.exists() else "is not there"
        raise FileNotFoundError(f"{seen(str(path), 200)} {kind}. Name a file of comma-separated values.")
    return parse(path.read_bytes(), name, wanted, exact=False)


def parse(content: bytes, name: str, wanted: Sequence[str], *, exact: bool) -> TextFile:
    """Read columns of comma-separated values; see `read_text`.

    Parameters
    ----------
    content : bytes
        What the file holds.
    name : str
        What to call it.
    wanted, exact
        As for `read_text`.
    """
    try:
        return _columns(io.StringIO(content.decode("utf-8-sig"), newline=""), name, wanted, exact)
    except UnicodeDecodeError:
        # The error holds the bytes.
        problem = (
            f"{name} is not text in UTF-8. Save it as CSV in UTF-8; in Python, tables of Parquet or Excel are read "
            "into a data frame first."
        )
    except csv.Error:
        problem = f"{name} is no file of comma-separated values: quotes or line ends do not fit. Save it anew as CSV."
    raise ValueError(problem)


def _columns(stream: TextIO, name: str, wanted: Sequence[str], exact: bool) -> TextFile:
    reader = csv.reader(stream, skipinitialspace=not exact, strict=exact)
    try:
        header = [field if exact else field.strip() for field in next(reader)]
    except StopIteration:
        raise ValueError(
            f"{name} is empty. Its first line names the columns, and each other line is a record."
        ) from None
    # Names that were not asked for stay unsaid: the first line may be a record.
    twice = [field for field, count in Counter(header).items() if count > 1 and field in wanted]
    if twice:
        raise ValueError(f"{name} has two columns named {twice[0]}. Give each a name of its own.")
    missing = [one for one in wanted if one not in header]
    if missing:
        several = any(mark in field for field in header for mark in ";\t") and len(header) < len(wanted)
        advice = (
            "Its values are not divided by commas: save it as CSV with commas."
            if several
            else ("The first line of the file names the columns: add it, or name the columns in the schema as there.")
        )
        # What is declared is known; capitals apart from it tell nothing of a record.
        small = {field.casefold() for field in header}
        capitals = [one for one in missing if one.casefold() in small]
        if capitals:
            advice = (
                f"Names are matched with their capitals, and {', '.join(capitals)} differs in them: correct either."
            )
        count = f"{len(header)} column{'' if len(header) == 1 else 's'}"
        raise ValueError(f"{name} has no column named {', '.join(missing)}; it has {count}. {advice}")
    places = [header.index(one) for one in wanted]
    columns: list[list[str]] = [[] for _ in wanted]
    lines = []
    for fields in reader:
        if not fields:
            continue
        if len(fields) != len(header):
            raise ValueError(
                f"line {reader.line_num} of {name} has {len(fields)} values, and the first line names {len(header)} "
                'columns. Write each record with one value per column, and texts with commas between quotes ("a, b").'
            )
        for column, place in zip(columns, places, strict=True):
            field = fields[place]
            if len(field) > _LONGEST_FIELD:
                raise ValueError(
                    f"line {reader.line_num} of {name} has a value of more than {_LONGEST_FIELD:,} characters. "
                    "Look for a quote that is not closed."
                )
            column.append(field if exact else field.strip())
        lines.append(reader.line_num)
    if not lines:
        raise ValueError(f"{name} has names of columns and no record. Add a line for each record.")
    return TextFile(name, dict(zip(wanted, columns, strict=True)), lines)


def write_text(stream: TextIO, names: Sequence[str], columns: Iterable[Iterable[str]]) -> None:
    """Write named columns of text as comma-separated values.

    Parameters
    ----------
    stream : text stream
        Opened without translation of line ends.
    names : sequence of str
        The names of the columns.
    columns : iterable of iterables of str
        Their values, equally many.
    """
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(zip(*columns, strict=True))
