"""Files of Parquet, read piece by piece, the next one ahead of its use.

A row group is what such a file is written by. Its columns are decoded from their beginning, some rows at a time, and no
more than a few pieces are kept, however large the groups are.
"""

import bisect
import contextlib
import functools
import itertools
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from symdebias import _files, _optional
from symdebias._arrays import FloatArray, without_decimals, without_view
from symdebias._domains import is_list, seen, shown
from symdebias._rows import WINDOW, Rows, counted_from
from symdebias.exceptions import FormatError

# Pieces that are kept: those that threads work on, the next, and some for a thread that is late. All of them are, where
# all rows take no more than so many bytes.
_KEPT, _SMALL = 5, 2**28
# Rows that columns are turned into at a time: they stay in a cache.
_TURNED = 2**14
# Bytes of a column that are read from the disk at a time.
_BUFFER = 2**18


def paths_of(source: Any) -> list[Path]:
    """Return the files of a data set, in the order of their names.

    Parameters
    ----------
    source : path or sequence of paths
        A file, a folder of files that end with ``.parquet``, or files in the order of their records.

    Raises
    ------
    FileNotFoundError
        There is none.
    """
    if is_list(source):
        paths = [_files.path_of(one) for one in source]
    else:
        place = _files.path_of(source)
        paths = sorted(place.glob("*.parquet")) if place.is_dir() else [place]
    missing = [path for path in paths if not path.is_file()]
    if missing or not paths:
        name = seen(str(missing[0] if missing else source), 200)
        raise FileNotFoundError(f"{name} is no file of Parquet, and no folder with files that end with .parquet.")
    return paths


class ParquetColumns:
    """Some columns of files of Parquet, which are one table together.

    Parameters
    ----------
    paths : sequence of Path
        The files, in the order of their records.

    Raises
    ------
    ValueError
        A file is no Parquet, or there are no records.
    MissingDependencyError
        pyarrow is not installed.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        arrow = _optional.require("pyarrow", extra="parquet")
        parquet = _optional.require("pyarrow.parquet", extra="parquet")
        self._files: list[Any] = []
        self._paths, self._unreadable = paths, (arrow.ArrowException, OSError)
        # A file that was replaced or removed stays as it was for who has it open; one that was written to does not.
        self._as_opened = [_files.state_of(path) for path in paths]
        for path in paths:
            try:
                # Without a buffer a whole row group is read before the first of its rows is decoded. Checksums of
                # pages are looked at where a file has them.
                file = parquet.ParquetFile(path, buffer_size=_BUFFER, page_checksum_verification=True)
            except arrow.ArrowException as error:
                raise ValueError(
                    f"{seen(path.name, 80)} is no file of Parquet, or is damaged: {str(error).rstrip('.')}. Copy it "
                    "anew, or name one that is whole."
                ) from None
            self._files.append(file)
        self._groups = [
            (place, group) for place, file in enumerate(self._files) for group in range(file.metadata.num_row_groups)
        ]
        counts = [self._files[place].metadata.row_group(group).num_rows for place, group in self._groups]
        self._starts = list(itertools.accumulate(counts, initial=0))
        if not self._starts[-1]:
            raise ValueError(f"{seen(paths[0].name, 80)} has no records. Pass a file with at least one.")
        self._reading = threading.Lock()

    def __len__(self) -> int:
        return int(self._starts[-1])

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns of the first file."""
        return tuple(self._files[0].schema_arrow.names)

    def require(self, names: Sequence[str]) -> None:
        """Raise ValueError where a file lacks a column, or has it twice."""
        for path, file in zip(self._paths, self._files, strict=True):
            where = "the file" if len(self._files) == 1 else seen(path.name, 80)
            twice = [name for name in names if file.schema_arrow.names.count(name) > 1]
            if twice:
                raise ValueError(
                    f"{where} has more than one column named {shown(twice[0], 80)}. Give each a name of its own."
                )
            missing = [name for name in names if name not in file.schema_arrow.names]
            if missing:
                raise ValueError(
                    f"{where} has no column {shown(missing[0], 80)}; it has "
                    f"{', '.join(file.schema_arrow.names):.200}. Name columns that every file has."
                )

    def rows(self, names: Sequence[str], make: Callable[[dict[str, Any]], FloatArray]) -> Rows:
        """Return the rows that a function makes of columns, read group by group.

        Parameters
        ----------
        names : sequence of str
            The columns.
        make : callable
            From columns by name, arrays of shape (m,), to m rows.
        """
        self.require(names)
        starts = [start for start, _ in self._cuts]
        pieces = _Pieces(self._piece_reader(names, make), len(starts))
        first = pieces[0]
        # By a row: the last piece of a group may be a short one.
        if first[:1].nbytes * len(self) <= _SMALL:
            pieces.keep_all()

        def read(rows: slice) -> FloatArray:
            parts = []
            for place in range(bisect.bisect_right(starts, rows.start) - 1, bisect.bisect_left(starts, rows.stop)):
                begin = starts[place]
                parts.append(pieces[place][max(0, rows.start - begin) : rows.stop - begin])
            return parts[0] if len(parts) == 1 else np.concatenate(parts)

        return Rows((len(self), *first.shape[1:]), read)

    def blocks(self, names: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Yield columns by name, row group after row group."""
        self.require(names)
        for place in range(len(self._groups)):
            file, group = self._groups[place]
            with self._reading, self._same(place):
                table = self._files[file].read_row_group(group, columns=list(names), use_threads=False)
            yield {name: np.asarray(without_view(table.column(name))) for name in names}

    @contextlib.contextmanager
    def _same(self, group: int) -> Iterator[None]:
        """Raise ValueError where a row group cannot be read, or its file was written to since it was opened."""
        place, number = self._groups[group]
        name = seen(self._paths[place].name, 80)
        try:
            yield
        except self._unreadable as error:
            self._require_unchanged(place)
            raise FormatError(
                f"the row group {number} of {name}, with the rows {self._starts[group]} to "
                f"{self._starts[group + 1] - 1} of all, cannot be read: {seen(str(error), 200)}. The file is damaged; "
                "write it again from where its records come from."
            ) from None
        self._require_unchanged(place)

    def _require_unchanged(self, place: int) -> None:
        was, now = self._as_opened[place], _files.state_of(self._paths[place])
        if was is not None and now is not None and was != now and was[0] == now[0]:
            raise ValueError(
                f"{seen(self._paths[place].name, 80)} was written to while it was read. Open it again, and leave files "
                "as they are until what reads them is done; a new one that is moved to their place does no harm."
            )

    @functools.cached_property
    def _cuts(self) -> list[tuple[int, int]]:
        """The first row of each piece, and its row group: pieces do not reach over the end of a group."""
        return [
            (start, group)
            for group, (begin, end) in enumerate(itertools.pairwise(self._starts))
            for start in range(begin, end, WINDOW)
        ]

    def _piece_reader(
        self, names: Sequence[str], make: Callable[[dict[str, Any]], FloatArray]
    ) -> Callable[[int], FloatArray]:
        """Return a function that makes the rows of a piece, without a search where pieces are asked for in order."""
        batches: Iterator[Any] = iter(())
        position, group = -1, -1

        def part_of(wanted: int) -> Any:
            """Return the next rows of the open group, that many at most."""
            nonlocal batches
            # A file is read by one thread at a time.
            with self._reading, self._same(group):
                batch = next(batches)
            if len(batch) > wanted:
                batches = itertools.chain([batch[wanted:]], batches)
            return batch[:wanted]

        def piece(place: int) -> FloatArray:
            nonlocal batches, position, group
            start, own = self._cuts[place]
            end = min(start + WINDOW, self._starts[own + 1])
            if own != group or position > start:
                file, number = self._groups[own]
                position, group = self._starts[own], own
                with self._same(own):
                    batches = self._files[file].iter_batches(
                        WINDOW, row_groups=[number], columns=list(names), use_threads=False
                    )
            while position < start:
                position += len(part_of(start - position))
            found = None
            while position < end:
                batch = part_of(end - position)
                # What is read is behind, whatever comes of it.
                begin, position = position, position + len(batch)
                columns = {name: _as_array(batch.column(name)) for name in names}
                with counted_from(begin, by_source=True):
                    rows = make(columns)
                if len(rows) == end - start:
                    return rows
                if found is None:
                    found = np.empty((end - start, *rows.shape[1:]))
                found[begin - start : position - start] = rows
            assert found is not None
            return found

        return piece


class _Pieces:
    """What is made of pieces: the last ones are kept, or all, and the next is made ahead."""

    def __init__(self, make: Callable[[int], FloatArray], count: int) -> None:
        self._make, self._count, self._most = make, count, _KEPT
        self._kept: OrderedDict[int, Future[FloatArray]] = OrderedDict()
        self._lock = threading.Lock()
        self._reader: tuple[int, ThreadPoolExecutor] | None = None

    def keep_all(self) -> None:
        """Keep all pieces from now on."""
        self._most = self._count

    def __getitem__(self, place: int) -> FloatArray:
        with self._lock:
            wanted = self._asked(place)
            if place + 1 < self._count:
                self._asked(place + 1)
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return wanted.result()

    def _asked(self, place: int) -> "Future[FloatArray]":
        if self._reader is None or self._reader[0] != os.getpid():
            # Threads and what they were doing stay behind in a fork.
            self._reader = os.getpid(), ThreadPoolExecutor(1, thread_name_prefix="symdebias-read")
            self._kept.clear()
        if place not in self._kept:
            self._kept[place] = self._reader[1].submit(self._make, place)
        self._kept.move_to_end(place)
        return self._kept[place]


def _as_array(column: Any) -> Any:
    """Return a column as an array, decimal numbers as those of float64 next to them."""
    values = column.to_numpy(zero_copy_only=False)
    return without_decimals(values) if str(column.type).startswith("decimal") else values


def numbers(columns: dict[str, Any]) -> FloatArray:
    """Return columns of numbers as the columns of one array, shape (m, p), float64.

    Raises
    ------
    TypeError
        A column has something else.
    """
    for name, values in columns.items():
        if values.dtype.kind not in "iuf":
            raise TypeError(
                f"the column {shown(name, 80)} has no numbers, but {values.dtype}. Name columns of numbers, or give "
                "the release that declares their categories."
            )
    found = np.empty((len(next(iter(columns.values()))), len(columns)))
    for start in range(0, len(found), _TURNED):
        rows = slice(start, start + _TURNED)
        for place, values in enumerate(columns.values()):
            found[rows, place] = values[rows]
    return found
