"""Named columns of equal length, and files of comma-separated values, without a package for tables.

Files are read as text, column by column: what a column means is for whoever knows its schema. Messages name lines and
declared columns; what stands in a file is never shown, as its first line may be a record.
"""

import bz2
import csv
import gzip
import io
import lzma
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

import numpy as np

from symdebias._domains import seen
from symdebias._names import advice_on_spelling

# Of one field, in characters; the limit of the standard library is that of the whole process.
_LONGEST_FIELD = 100_000
# Records whose columns are put together at a time.
_AT_ONCE = 10_000
# What files begin with: those that are compressed text, and those that are no text.
_COMPRESSED: Mapping[bytes, Callable[[bytes], bytes]] = {
    b"\x1f\x8b": gzip.decompress,
    b"BZh": bz2.decompress,
    b"\xfd7zXZ\x00": lzma.decompress,
}
_ZIP, _PARQUET = b"PK\x03\x04", b"PAR1"
_NO_TEXT = {
    b"\x28\xb5\x2f\xfd": "is compressed by zstd. Unpack it first: zstd -d",
    _PARQUET: "is a file of Parquet. Read it into a data frame first: pandas.read_parquet",
    b"\xd0\xcf\x11\xe0": "is a workbook of Excel. Save its sheet as CSV UTF-8",
}
_NO_ARRAY = (
    "a table has columns, by a name or a list of names, and records, by a slice or an array of places. "
    "pandas.DataFrame(table.to_dict()) is a data frame of it, and "
    "numpy.column_stack([table[name] for name in table.columns]) a matrix."
)
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


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
    >>> table[["place"]].columns, len(table[1:])                            # some columns; some records
    (('place',), 1)
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
            self._require([key])
            return self._values[key]
        if isinstance(key, tuple) and len(key) == 2 and key[1] is Ellipsis:
            # As scikit-learn takes records of what has a shape: table[rows, ...].
            key = key[0]
        if np.ndim(key) == 0 and not isinstance(key, slice):
            raise TypeError(_NO_ARRAY)
        if np.ndim(key) == 1 and len(key) and all(isinstance(one, str) for one in key):
            self._require(key)
            return Table({name: self._values[name] for name in key})
        return Table({name: values[key] for name, values in self._values.items()})

    def _require(self, names: Iterable[str]) -> None:
        unknown = [name for name in names if name not in self._values]
        if unknown:
            listed = ", ".join(seen(name, 80) for name in unknown)
            advice = advice_on_spelling(unknown, self._values)
            raise KeyError(
                f"the table has no column {listed}; its columns are {', '.join(self._values)}. {advice}".strip()
            )

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def __iter__(self) -> NoReturn:
        """Say what to iterate over: a data frame has its names here, a matrix its rows."""
        raise TypeError(_NO_ARRAY)

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        """Say what it is, which NumPy would not after it has tried to iterate."""
        raise TypeError(_NO_ARRAY)

    if not TYPE_CHECKING:  # for which every name would exist

        def __getattr__(self, name: str) -> Any:
            """Say how a data frame is made, whose attribute this may be."""
            if name.startswith("_"):
                raise AttributeError(f"a table has no attribute {name!r}", name=name, obj=self)
            own = f"table[{name!r}] is its column, and " if name in self.__dict__.get("_values", ()) else ""
            raise AttributeError(
                f"a table has no attribute {name!r}: {own}pandas.DataFrame(table.to_dict()) is a data frame of it",
                name=name,
                obj=self,
            )

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
    """Read columns of a file of comma-separated values, whose first line names them; others are left out.

    It is text in UTF-8, or in UTF-16 that says so by its first bytes. It may be compressed by gzip, bzip2 or xz, or be
    the one file of a zip archive, whatever its name ends with.

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
    return parse(_unpacked(path.read_bytes(), name), name, wanted, exact=False)


def is_parquet(path: Path) -> bool:
    """Whether a file begins as one of Parquet does."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(_PARQUET)) == _PARQUET


def _unpacked(content: bytes, name: str) -> bytes:
    """Return what a file holds, unpacked where it is compressed, in UTF-8 where it says that it is in UTF-16."""
    try:
        for beginning, unpack in _COMPRESSED.items():
            if content.startswith(beginning):
                content = unpack(content)
        if content.startswith(_ZIP):
            content = _only_file(content, name)
        if content.startswith(_UTF16):
            content = content.decode("utf-16").encode()
    except (OSError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error, lzma.LZMAError):
        problem = f"{name} is compressed, and could not be unpacked: it is cut short, damaged or locked. Copy it anew."
    except UnicodeDecodeError:
        problem = f"{name} is cut short: it is text in UTF-16, and ends within a character. Copy it anew."
    else:
        return content
    raise ValueError(problem)


def _only_file(content: bytes, name: str) -> bytes:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        files = [one for one in archive.namelist() if not one.endswith("/")]
        if "[Content_Types].xml" in files:
            raise ValueError(f"{name} is a workbook of Excel. Save its sheet as CSV UTF-8, and name that file.")
        if len(files) != 1:
            raise ValueError(f"{name} is a zip archive of {len(files)} files. Unpack it, and name the one to read.")
        return archive.read(files[0])


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
        found = next((what for beginning, what in _NO_TEXT.items() if content.startswith(beginning)), None)
        problem = (
            f"{name} {found}."
            if found
            else f"{name} is not text in UTF-8. Save it as CSV in UTF-8; in Python, read it into a data frame first: "
            'pandas.read_csv(..., encoding="cp1252") reads text of Windows.'
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
        advice = "The first line of the file names the columns: add it, or declare columns as they are called there."
        other = next((mark for mark in ";\t" if any(mark in field for field in header)), None)
        if any("\0" in field for field in header):
            advice = "It is text in UTF-16 that does not say so: save it as CSV in UTF-8."
        elif other is not None and len(header) < len(wanted):
            sign, written = ("tabs", r"\t") if other == "\t" else ("semicolons", ";")
            advice = (
                f"Its values are not divided by commas but by {sign}: save it as CSV with commas, and with decimal "
                f'points. In Python, pandas.read_csv(..., sep="{written}", decimal=",").to_csv("commas.csv", '
                "index=False) does it where decimals have commas."
            )
        # What is declared is known; what the same name has in another spelling tells nothing of a record.
        advice = advice_on_spelling(missing, header) or advice
        count = f"{len(header)} column{'' if len(header) == 1 else 's'}"
        raise ValueError(f"{name} has no column named {', '.join(missing)}; it has {count}. {advice}")
    places = [header.index(one) for one in wanted]
    columns: list[list[str]] = [[] for _ in wanted]
    lines: list[int] = []
    # Some records at a time: their columns are put together without a step for each value.
    while records := _records(reader, len(header), places, name, lines):
        for column, place in zip(columns, places, strict=True):
            fields = [record[place] for record in records]
            column += fields if exact else map(str.strip, fields)
    if not lines:
        raise ValueError(f"{name} has names of columns and no record. Add a line for each record.")
    return TextFile(name, dict(zip(wanted, columns, strict=True)), lines)


def _records(reader: Any, width: int, places: Sequence[int], name: str, lines: list[int]) -> list[list[str]]:
    """Return the next records, none at the end, and add the lines that they end in to those of others."""
    records: list[list[str]] = []
    last = reader.line_num
    for fields in reader:
        first, last = last + 1, reader.line_num
        if not fields:
            continue
        if len(fields) != width:
            where, advice = f"line {last} of {name}", ""
            if first < last:
                where = f"the record in lines {first} to {last} of {name}"
                advice = f" Look for a quote in line {first} that is not closed there."
            values = "1 value" if len(fields) == 1 else f"{len(fields)} values"
            raise ValueError(
                f"{where} has {values}, and the first line names {width} columns. Write each record with one "
                f'value per column, and texts with commas between quotes ("a, b").{advice}'
            )
        if sum(map(len, fields)) > _LONGEST_FIELD and any(len(fields[place]) > _LONGEST_FIELD for place in places):
            raise ValueError(
                f"lines {first} to {last} of {name} have a value of more than {_LONGEST_FIELD:,} characters. Look "
                f"for a quote in line {first} that is not closed."
            )
        records.append(fields)
        lines.append(last)
        if len(records) == _AT_ONCE:
            break
    return records


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
