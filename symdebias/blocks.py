"""Records that are larger than memory: read by blocks, block after block in each pass, and never there as a whole.

What is made here takes the place of X and y in `symdebias.m_estimate`, `symdebias.sgd` and the means of a corrected
loss. Numbers are those of records in memory, to rounding. A memory map of NumPy needs nothing of this: it is an array.
"""

import bisect
import io
import itertools
import os
import threading
import zlib
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from typing import Any, BinaryIO

import numba
import numpy as np

from symdebias import _files
from symdebias._arrays import FloatArray, check_same_index, features_array, is_table, real_array
from symdebias._columns import Table
from symdebias._copies import write_rows
from symdebias._domains import check_name, is_list, shown
from symdebias._parquet import ParquetColumns, numbers, paths_of
from symdebias._randomness import generator
from symdebias._rows import WINDOW, Rows, counted_from
from symdebias._tables import batches, number_of_rows, split, take_rows
from symdebias.release import Noised, Release, Schema
from symdebias.release.collecting import names_collected
from symdebias.release.matrices import released_array
from symdebias.release.required import required_columns
from symdebias.release.stored import one_column, released_rows, save_blocks

__all__ = ["Rows", "from_iterator", "from_parquet", "privatize", "to_memory_map"]

# Rows that a source which is read in order keeps behind itself for each thread, for those that are a little late: no
# more than so many numbers (128 MB), and a window in any case.
_BEHIND, _MOST_BEHIND = WINDOW // 2, 2**24
# Numbers of a source of which nothing is dropped: 32 MB. It is asked for once more, and then never again.
_SMALL = 2**22
# One in so many records is told again in each pass, by 4 bytes; and where blocks end, no closer than so many records,
# the sum of all before, by 16.
_TOLD_EVERY = 2**10
# Records that are summed at a time, which stay in a cache, and what sums are remainders of.
_SUMMED, _MODULUS = 2**13, 2**64


def from_parquet(
    path: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    release: Release | None = None,
    columns: Iterable[str] | None = None,
    target: str | None = None,
) -> tuple[Rows, Rows | None]:
    """Return released features and targets in files of Parquet, read by blocks.

    Parameters
    ----------
    path : path or sequence of paths
        A file, a folder of files that end with ``.parquet``, or files in the order of their records.
    release : Release, optional
        The release with the names of its columns: its columns are read in its order, and its categories and labels may
        be text.
    columns : iterable of str, optional
        The features, columns of numbers, where no release is given.
    target : str, optional
        The column of the target; None for a release without one.

    Returns
    -------
    X : Rows
        Shape (n, p).
    y : Rows or None
        Shape (n,).

    Raises
    ------
    FileNotFoundError, ValueError, TypeError
        There is no such file, or it has other columns.
    MissingDependencyError
        pyarrow is not installed.

    Notes
    -----
    Files are decoded in pieces of up to 131,072 rows, however large their row groups are, the next one while the last
    is worked on. Five pieces are kept, for X and for y, or all where they take no more than 256 MB: of ten columns a
    piece takes 10 MB. Single records are not at hand: what shuffles records, as `symdebias.sgd` does unless it is given
    ``order="given"``, copies them to files without a name.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np, pyarrow as pa, pyarrow.parquet as pq, symdebias as sd
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=50_000)
    >>> table = pa.table({"x": x + 0.5 * rng.normal(size=50_000), "income": 2 * x})
    >>> place = pathlib.Path(tempfile.mkdtemp()) / "released.parquet"
    >>> pq.write_table(table, place, row_group_size=10_000)
    >>> X, y = sd.blocks.from_parquet(place, columns=["x"], target="income")
    >>> release = sd.Release({"x": sd.GaussianMechanism.from_scale(0.5)})
    >>> fit = sd.m_estimate(sd.debias(sd.losses.least_squares(), release), X, y)
    >>> bool(abs(fit.theta[0] - 2) < 4 * fit.standard_errors[0])
    True
    """
    if (release is None) == (columns is None):
        raise ValueError("release and columns are two ways to name the features. Give one of them.")
    if target is not None:
        check_name("target", target)
    stored = ParquetColumns(paths_of(path))
    if release is None:
        assert columns is not None
        names = _named(columns)
        X = stored.rows(names, numbers)
        X.names = names
        return X, None if target is None else stored.rows([target], one_column)
    return released_rows(stored, release, target)


def from_iterator(
    blocks: Callable[[], Iterable[Any]],
    *,
    release: Release | None = None,
    columns: Iterable[str] | None = None,
    target: str | None = None,
) -> tuple[Rows, Rows | None]:
    """Return features and targets that a function yields block by block, anew for each pass.

    Parameters
    ----------
    blocks : callable
        Without arguments; returns an iterator of blocks, each of as many records as it likes: pairs (X, y) of arrays
        of shapes (m, p) and (m,), or X alone; or tables of pandas, polars or pyarrow (record batches too), or pairs of
        a table and a target. It is called once for each pass over the records (six or so for a fit of few steps), and
        yields the same records in the same order each time, to the last bit: a pass in which a number is another is
        refused. One block may be written over the last one.
    release : Release, optional
        For tables: the release with the names of its columns. Its columns are taken in its order, and its categories
        and labels may be text.
    columns : iterable of str, optional
        For tables: the features, columns of numbers, where no release is given.
    target : str, optional
        For tables: the column of the target.

    Returns
    -------
    X : Rows
        Shape (n, p).
    y : Rows or None
        Shape (n,).

    Raises
    ------
    TypeError, ValueError
        There are no blocks, or they do not fit one another; or a table comes, and nothing names its features.

    Examples
    --------
    >>> import numpy as np, symdebias as sd
    >>> def blocks():
    ...     rng = np.random.default_rng(0)
    ...     for _ in range(20):
    ...         x = rng.normal(size=(5_000, 1))
    ...         yield x + 0.5 * rng.normal(size=x.shape), 2 * x[:, 0]
    >>> X, y = sd.blocks.from_iterator(blocks)
    >>> X.shape, y.shape
    ((100000, 1), (100000,))
    >>> corrected = sd.debias(sd.losses.least_squares(), sd.Release(sd.GaussianMechanism.from_scale(0.5)))
    >>> fit = sd.m_estimate(corrected, X, y)
    >>> bool(abs(fit.theta[0] - 2) < 4 * fit.standard_errors[0])
    True
    """
    if not callable(blocks):
        raise TypeError(
            f"blocks is a {type(blocks).__name__}. Pass a function without arguments that returns an iterator of "
            "(X, y): the records are read several times."
        )
    if release is not None and columns is not None:
        raise ValueError("release and columns are two ways to name the features. Give one of them.")
    if release is not None:
        required_columns(release)
    if target is not None:
        check_name("target", target)
    names = None if columns is None else _named(columns)
    stream = _Stream(blocks, _Form(release, names, target))
    count, width, has_target = stream.measured()
    X = Rows((count, width), lambda rows: stream.read(rows)[0])
    X.names, X.end = names, stream.require_end
    if not has_target:
        return X, None
    y = Rows((count,), lambda rows: stream.read(rows)[1])
    y.end = stream.require_end
    return X, y


def _named(columns: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the features, each once.

    Raises
    ------
    ValueError
        There are none, or one comes twice.
    """
    names: tuple[Any, ...] = tuple(columns) if is_list(columns) else (columns,)
    if not names:
        raise ValueError("columns names nothing. Name one column of the features at least.")
    twice = [name for place, name in enumerate(names) if name in names[:place]]
    if twice:
        raise ValueError(f"columns names {shown(twice[0], 80)} twice. Name each column once.")
    return names


@dataclass(frozen=True)
class _Form:
    """How a block is read: see `from_iterator`."""

    release: Release | None
    columns: tuple[str, ...] | None
    target: str | None

    def pair(self, block: Any) -> tuple[FloatArray, FloatArray | None]:
        """Return a block as arrays of shapes (m, p) and (m,)."""
        X, y = split(block, self.columns if self.release is None else self.release.columns, self.target)
        check_same_index(X, y)
        if not is_table(X):
            matrix = features_array(X, check_finite=False)
        elif self.release is not None:
            matrix = released_array(self.release, X, check_finite=False)
        elif self.columns is not None:
            matrix = features_array(X, self.columns, check_finite=False)
        else:
            raise TypeError(
                "a block of records is a table, and nothing names its features. Give release=, or columns=; or yield "
                "arrays, columns in the order of the release."
            )
        if y is None:
            return matrix, None
        if self.release is not None and self.release.coupling is None and is_table(X):
            return matrix, self.release.released_target(y, rows=len(matrix))
        target = np.asarray(y)
        if target.shape != (len(matrix),):
            raise ValueError(
                f"a block has {len(matrix)} records and targets of shape {target.shape}. Yield one per record."
            )
        return matrix, np.ascontiguousarray(real_array(target, "y"))


class _Stream:
    """Blocks of (X, y) that are yielded in order: what comes before is asked for from the beginning again."""

    def __init__(self, blocks: Callable[[], Iterable[Any]], form: _Form) -> None:
        self._blocks, self._form = blocks, form
        self._lock = threading.Lock()
        self._kept: deque[tuple[int, FloatArray, FloatArray]] = deque()
        self._open: Iterator[Any] = iter(())
        self._position, self._count, self._width, self._is_reused = 0, 0, 0, False
        self._has_target = False
        self._told = array("I")
        # Of all records up to some places, and of those that this pass has read.
        self._ends, self._sums, self._sum, self._same_until = array("Q"), array("Q"), 0, 0

    def measured(self) -> tuple[int, int, bool]:
        """Return how many records and columns there are, and whether there are targets, by a pass over all."""
        last: deque[FloatArray] = deque(maxlen=4)
        for place, block in enumerate(self._yielded()):
            with counted_from(self._count, f"block {place}"):
                X, y = self._form.pair(block)
            # Two buffers may take turns.
            arrays = [X] if y is None else [X, y]
            self._is_reused |= any(np.may_share_memory(one, other) for one in arrays for other in last)
            last.extend(arrays)
            if not self._count:
                self._width, self._has_target = X.shape[1], y is not None
            self._require_form(self._count, X, y)
            self._told.extend(_told(self._count, X, y))
            self._sum = (self._sum + _sum_of(self._count, X, y)) % _MODULUS
            self._count += len(X)
            if self._count - self._same_until >= _TOLD_EVERY:
                self._keep_sum()
        if not self._count:
            raise ValueError("blocks yielded nothing. Yield at least one block of records.")
        self._keep_sum()
        return self._count, self._width, self._has_target

    def _keep_sum(self) -> None:
        self._ends.append(self._count)
        self._sums.append(self._sum)
        self._same_until = self._count

    def _require_form(self, begin: int, X: FloatArray, y: FloatArray | None) -> None:
        if X.shape[1] != self._width or (y is not None) != self._has_target:
            own, first = (
                f"{width} column{'' if width == 1 else 's'} and {'a' if has_target else 'no'} target"
                for width, has_target in ((X.shape[1], y is not None), (self._width, self._has_target))
            )
            raise ValueError(
                f"the block from record {begin:,} on has {own}, and the first {first}. Yield blocks of one form."
            )

    def _require_same(self, begin: int, X: FloatArray, y: FloatArray | None) -> None:
        """Raise ValueError where a block is not what was there in the first pass."""
        self._require_form(begin, X, y)
        if begin == 0:
            self._sum = self._same_until = 0
        end = begin + len(X)
        self._sum = (self._sum + _sum_of(begin, X, y)) % _MODULUS
        if -begin % _TOLD_EVERY < len(X):
            for row, told in enumerate(_told(begin, X, y), -(-begin // _TOLD_EVERY)):
                if row < len(self._told) and told != self._told[row]:
                    raise _other(f"another record in row {row * _TOLD_EVERY}")
        # Where blocks of this pass end elsewhere, the whole is compared at its end.
        place = bisect.bisect_left(self._ends, end)
        if place < len(self._ends) and self._ends[place] == end:
            if self._sums[place] != self._sum:
                raise _other(f"other records in rows {self._same_until} to {end - 1}")
            self._sum, self._same_until = self._sums[place], end

    def _yielded(self) -> Iterator[Any]:
        """Return the blocks of one pass."""
        found = self._blocks()
        if is_table(found) or isinstance(found, (np.ndarray, Mapping, tuple)) or not isinstance(found, Iterable):
            raise TypeError(
                f"blocks returned a {type(found).__name__}, and not an iterator of blocks. Write yield in place of "
                "return, or return a list of blocks."
            )
        return self._full(found)

    @staticmethod
    def _full(found: Iterable[Any]) -> Iterator[Any]:
        """Yield blocks that have records; what a function raises says after which of them."""
        blocks = iter(found)
        for place in itertools.count():
            try:
                block = next(blocks)
            except StopIteration:
                return
            except Exception as error:
                error.add_note(f"It was raised by what yields blocks of records, where block {place} was asked for.")
                raise
            if not _is_empty_pair(block):
                yield block

    def read(self, rows: slice) -> tuple[FloatArray, FloatArray]:
        """Return consecutive records."""
        room = _MOST_BEHIND // max(1, self._width)
        behind = max(WINDOW, min(_BEHIND * numba.get_num_threads(), room))
        is_small = self._count * (self._width + 1) <= _SMALL
        with self._lock, counted_from(0, by_source=True):
            if not self._kept or rows.start < self._kept[0][0]:
                self._kept.clear()
                self._require_end()
                self._open, self._position = self._yielded(), 0
            try:
                while self._position < rows.stop:
                    self._keep_next()
                    while not is_small and len(self._kept) > 1 and self._kept[1][0] < rows.start - behind:
                        self._kept.popleft()
            except BaseException:
                # A block may be lost, as where a user interrupts: what is read next is read from the beginning.
                self._kept.clear()
                raise
            parts = []
            for begin, X, y in self._kept:
                if begin < rows.stop and begin + len(X) > rows.start:
                    part = slice(max(0, rows.start - begin), rows.stop - begin)
                    parts.append((X[part], y[part]))
        if len(parts) == 1:
            return parts[0]
        return np.concatenate([X for X, _ in parts]), np.concatenate([y for _, y in parts])

    def _keep_next(self) -> None:
        block = next(self._open, None)
        if block is None:
            raise _unequal(f"{self._position:,}", self._count)
        with counted_from(self._position):
            X, y = self._form.pair(block)
        self._require_same(self._position, X, y)
        target = np.zeros(0) if y is None else y
        if self._is_reused:
            # The next block is written over this one.
            X, target = X.copy(), target.copy()
        self._kept.append((self._position, X, target))
        self._position += len(X)
        if self._position > self._count:
            raise _unequal(f"more than {self._count:,}", self._count)

    def require_end(self) -> None:
        """Raise ValueError where a pass that has come to the last record, which nobody uses any more, has more."""
        with self._lock, counted_from(0, by_source=True):
            self._kept.clear()
            self._require_end()

    def _require_end(self) -> None:
        """Raise ValueError where a pass that has come to the last record has more of them.

        What is asked for the next block closes what it has opened, and the last one with it: nobody reads it any more.
        """
        was_whole, self._position = self._position == self._count, 0
        if was_whole and next(self._open, None) is not None:
            raise _unequal(f"more than {self._count:,}", self._count)


def _told(begin: int, X: FloatArray, y: FloatArray | None) -> Iterator[int]:
    """Yield what tells those of some records from others that are told: checksums of their numbers.

    Parameters
    ----------
    begin : int
        The place of the first of them among all.
    X, y : arrays of shapes (m, p) and (m,)
        The records.
    """
    for row in range(-begin % _TOLD_EVERY, len(X), _TOLD_EVERY):
        # Zero has two signs.
        yield zlib.crc32((X[row] + 0.0).tobytes(), 0 if y is None else zlib.crc32((y[row] + 0.0).tobytes()))


def _sum_of(begin: int, X: FloatArray, y: FloatArray | None) -> int:
    """Return a sum of the bits of all numbers of some records, modulo 2^64: it is another where one number is.

    Numbers weigh by their places: it is another where rows or columns change places, too.
    """
    total, of_columns = 0, np.arange(1, 2 * X.shape[1] + 1, 2, dtype=np.uint64)
    for start in range(0, len(X), _SUMMED):
        part = slice(start, start + _SUMMED)
        # Zero has two signs.
        sums = [(X[part] + 0.0).view(np.uint64) @ of_columns]
        if y is not None:
            sums.append((y[part] + 0.0).view(np.uint64))
        first = 2 * (begin + start) + 1
        of_rows = np.arange(first, first + 2 * len(sums[0]), 2, dtype=np.uint64)
        for bits in sums:
            # Weights carry bits upwards alone: signs, and whole numbers, have none below.
            bits ^= bits >> np.uint64(32)
            total += int((bits * of_rows).sum())
    return total % _MODULUS


def _other(what: str) -> ValueError:
    """Return the error of a pass with other records."""
    return ValueError(
        f"blocks yielded {what} than before. Yield the same records in every pass, in the same order and to the last "
        "bit; what draws at random, reads a changing source or is computed by blocks of other lengths is stored first."
    )


def _unequal(yielded: str, before: int) -> ValueError:
    """Return the error of a pass with another number of records."""
    return ValueError(f"blocks yielded {yielded} records, and {before:,} before. Yield the same records in every pass.")


def to_memory_map(rows: Rows, path: str | os.PathLike[str]) -> Any:
    """Copy rows to a file, and return it as a memory map: an array whose single rows are at hand.

    Parameters
    ----------
    rows : Rows
        Of shape (n, p) or (n,).
    path : path
        The file, in NumPy's format; it takes 8 n p bytes. Such a file that is there is replaced once the
        copy is whole, and nothing else is.

    Returns
    -------
    numpy.memmap of the same shape, float64
        Read-only.

    Raises
    ------
    TypeError
        They are no such rows.
    OSError
        It could not be written. What was there is unchanged.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np, symdebias as sd
    >>> X, _ = sd.blocks.from_iterator(lambda: (np.full((3, 2), float(k)) for k in range(4)))
    >>> copied = sd.blocks.to_memory_map(X, pathlib.Path(tempfile.mkdtemp()) / "X.npy")
    >>> type(copied).__name__, copied.shape, copied[:, 0].sum()
    ('memmap', (12, 2), np.float64(18.0))
    """
    if not isinstance(rows, Rows):
        raise TypeError(f"rows is a {type(rows).__name__}. Pass what from_parquet or from_iterator returned.")

    def write(stream: BinaryIO) -> None:
        header = {"descr": "<f8", "fortran_order": False, "shape": rows.shape}
        np.lib.format.write_array_header_1_0(stream, header)
        write_rows([rows], [stream])

    _files.write_whole(path, write, _files.ARRAY)
    return np.load(_files.path_of(path), mmap_mode="r")


def privatize(
    release: Release | Schema,
    blocks: Any,
    folder: str | os.PathLike[str],
    *,
    target: str | None = None,
    target_name: str | None = None,
    labels: Sequence[Any] | None = None,
    outside: str = "clip",
    random_state: int | np.random.Generator | None = None,
) -> int:
    """Noise true records block by block into a folder that `symdebias.load` reads, in Parquet.

    Parameters
    ----------
    release : Release or Schema
        With the names of its columns. Of a schema records are collected block by block, as `symdebias.Schema.collect`
        does (missing values filled, texts recoded, other columns left out), and released by
        ``Release.from_schema(schema)``; it names the target and its labels.
    blocks : iterable, table or path
        True records, read once: blocks of them, each a pair (X, y) as for `symdebias.Release.privatize`, or X alone for
        a release without a target, or a table with the column of the target; or one table, which is taken part by part;
        or a data set or reader of record batches of pyarrow; or a file of Parquet, a folder of such files, or several
        paths, taken row group by row group. Each record stands in one block: one that stands in two is released twice.
    folder : path
        As for `symdebias.release.Noised.save`: it appears whole or not at all.
    target : str, optional
        The column of the target in tables and files; other columns that the release does not name are left out.
    target_name : str, optional
        As for `symdebias.release.Noised.save`; by default the name of the column of the target.
    labels
        As for `symdebias.release.Noised.save`.
    outside, random_state
        As for `symdebias.Release.privatize`. The noise of blocks is independent.

    Returns
    -------
    int
        How many records were released.

    Raises
    ------
    ValueError, TypeError
        A block does not fit the release, or there is none. The message names the block, and the row among all records.
    FileExistsError, FileNotFoundError
        Something is at the place of the folder, or nothing at that of the records.
    MissingDependencyError
        pyarrow is not installed.

    Notes
    -----
    No ledger is charged: a record's budget is that of ``release.guarantee``, and is spent once all blocks are read.
    Memory is that of a block of true records and of the same one released.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np, symdebias as sd
    >>> release = sd.Release({"age": sd.LaplaceMechanism(1.0, bounds=(0, 90))}, sd.RandomizedResponse(1.0))
    >>> ages = np.random.default_rng(0).uniform(20, 80, (3, 1_000))
    >>> place = pathlib.Path(tempfile.mkdtemp()) / "released"
    >>> sd.blocks.privatize(release, ((part[:, None], np.sign(part - 50)) for part in ages), place)
    3000
    >>> noised = sd.load(place, in_memory=False)
    >>> noised.X.shape, noised.y.shape, print(noised.guarantee)
    (2, 0)-differential privacy (local, replace-one)
    ((3000, 1), (3000,), None)
    """
    if isinstance(release, Schema):
        return _of_schema(release, blocks, folder, target, labels, target_name=target_name, outside=outside,
                          random_state=random_state)  # fmt: skip
    columns = required_columns(release)
    if target is not None:
        check_name("target", target)
        if target in columns:
            raise ValueError(f"target={shown(target, 80)} is a feature of the release. Name the column of the target.")
    source = None if random_state is None else generator(random_state)
    names = release.categories.collected(columns) if release.categories else columns
    parts = _parts(blocks, names if target is None else (*names, target))

    def noised() -> Iterator[Noised]:
        first = 0
        for place, block in enumerate(parts):
            with counted_from(first, f"block {place}"):
                X, y = split(block, names if target is not None else None, target)
                if _is_empty_pair((X, y)):
                    continue
                one = release.privatize(X, y, outside=outside, random_state=source)
            first += len(one.X)
            yield one

    return save_blocks(noised(), folder, target_name=target if target_name is None else target_name, labels=labels)


def _of_schema(
    schema: Schema, records: Any, folder: str | os.PathLike[str], target: Any, labels: Any, **others: Any
) -> int:
    """Collect records block by block as a schema says, and release them as it says."""
    if target is not None or labels is not None:
        raise TypeError(
            "target= and labels= stand in the schema, as [target] with a name and categories. Leave them out."
        )
    names = names_collected(schema)

    def collected() -> Iterator[tuple[Any, Any]]:
        first = 0
        for place, block in enumerate(_parts(records, names)):
            is_batch = type(block).__name__ == "RecordBatch"
            table, y = split(block, None, None) if is_batch else (block, None)
            if isinstance(table, tuple) or not (is_table(table) or isinstance(table, Mapping)) or y is not None:
                raise TypeError(
                    f"block {place} is a {type(block).__name__}, and a schema collects tables. Yield tables with the "
                    f"columns {', '.join(names)}, or pass Release.from_schema(schema) and blocks (X, y)."
                )
            if is_table(table) and not number_of_rows(table):
                continue
            with counted_from(first, f"block {place}"):
                X, y = schema.collect(table)
            first += len(X)
            yield X, y

    if others["target_name"] is None and schema.target is not None:
        others["target_name"] = schema.target.name
    return privatize(Release.from_schema(schema), collected(), folder, labels=schema.labels, **others)


def _is_empty(X: Any) -> bool:
    """Whether a block has no records, as a filter leaves some of a source."""
    if not isinstance(X, Sized):
        return False
    if is_table(X):
        return number_of_rows(X) == 0
    # Sparse matrices and arrays of no dimension, which are refused where they are read, have no length.
    return X.shape[:1] == (0,) if hasattr(X, "shape") else len(X) == 0


def _is_empty_pair(block: Any) -> bool:
    """Whether a block, with its target where it has one, has no records."""
    if not isinstance(block, tuple) or not block:
        return _is_empty(block)
    return _is_empty(block[0]) and all(one is None or _is_empty(one) for one in block[1:])


def _parts(records: Any, names: Sequence[str]) -> Iterable[Any]:
    """Return true records as blocks: those of an iterable, parts of a table, or the row groups of files."""
    if isinstance(records, (str, os.PathLike)):
        return map(Table, ParquetColumns(paths_of(records)).blocks(names))
    found: Iterable[Any] | None = batches(records)
    if found is not None:
        return found
    if is_table(records):
        return (take_rows(records, slice(start, start + WINDOW)) for start in range(0, number_of_rows(records), WINDOW))
    if isinstance(records, (np.ndarray, Mapping, io.IOBase)) or not isinstance(records, Iterable):
        raise TypeError(
            f"blocks is a {type(records).__name__}. Pass an iterable of blocks (X, y), one table, or the path of a "
            "file of Parquet; release.privatize(X, y) takes arrays as a whole."
        )
    others = iter(records)
    first = next(others, None)
    if isinstance(first, (str, os.PathLike)):
        return map(Table, ParquetColumns(paths_of([first, *others])).blocks(names))
    return () if first is None else itertools.chain([first], others)
