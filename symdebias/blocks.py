"""Records that are larger than memory: read by blocks, block after block in each pass, and never there as a whole.

What is made here takes the place of X and y in `symdebias.m_estimate`, `symdebias.sgd` and the means of a corrected
loss. Numbers are those of records in memory, to rounding. A memory map of NumPy needs nothing of this: it is an array.
"""

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from symdebias import _files
from symdebias._arrays import FloatArray, features_array, is_table
from symdebias._domains import check_name
from symdebias._parquet import ParquetColumns, numbers, paths_of
from symdebias._randomness import generator
from symdebias._rows import WINDOW, Rows, blocks_of
from symdebias.release import Noised, Release
from symdebias.release.stored import one_column, released_rows, save_blocks

__all__ = ["Rows", "from_iterator", "from_parquet", "privatize", "to_memory_map"]

# Rows that a source which is read in order keeps behind itself, for threads that are a little late.
_BEHIND = WINDOW


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
    A row group is decoded as a whole, and three are kept for each of X and y: one of a million rows and ten columns
    takes 80 MB. The next group is read while the last is worked on. Single records are not at hand: give
    ``order="given"`` to `symdebias.sgd`, or copy the records by `to_memory_map`.

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
        names = [columns] if isinstance(columns, str) else list(columns)
        X = stored.rows(names, numbers)
        return X, None if target is None else stored.rows([target], one_column)
    return released_rows(stored, release, target)


def from_iterator(blocks: Callable[[], Iterable[Any]]) -> tuple[Rows, Rows | None]:
    """Return features and targets that a function yields block by block, anew for each pass.

    Parameters
    ----------
    blocks : callable
        Without arguments; returns an iterator of pairs (X, y) of arrays of shapes (m, p) and (m,), m as it comes, or of
        X alone. It is called once for each pass over the records (ten or so for a fit), and yields the same each time.

    Returns
    -------
    X : Rows
        Shape (n, p).
    y : Rows or None
        Shape (n,).

    Raises
    ------
    TypeError, ValueError
        There are no blocks, or they do not fit one another.

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
    stream = _Stream(blocks)
    count, width, has_target = stream.measured()
    X = Rows((count, width), lambda rows: stream.read(rows)[0])
    return X, Rows((count,), lambda rows: stream.read(rows)[1]) if has_target else None


class _Stream:
    """Blocks of (X, y) that are yielded in order: what comes before is asked for from the beginning again."""

    def __init__(self, blocks: Callable[[], Iterable[Any]]) -> None:
        self._blocks = blocks
        self._lock = threading.Lock()
        self._kept: deque[tuple[int, FloatArray, FloatArray]] = deque()
        self._open: Iterator[Any] = iter(())
        self._position, self._count = 0, 0

    def measured(self) -> tuple[int, int, bool]:
        """Return how many records and columns there are, and whether there are targets, by a pass over all."""
        width, has_target = None, False
        for block in self._blocks():
            X, y = _pair(block)
            if width is None:
                width, has_target = X.shape[1], y is not None
            if X.shape[1] != width or (y is not None) != has_target:
                raise ValueError(
                    f"the block from record {self._count:,} on has {X.shape[1]} columns and "
                    f"{'a' if y is not None else 'no'} target, unlike the first. Yield blocks of one form."
                )
            self._count += len(X)
        if width is None:
            raise ValueError("blocks yielded nothing. Yield at least one block of records.")
        return self._count, width, has_target

    def read(self, rows: slice) -> tuple[FloatArray, FloatArray]:
        """Return consecutive records."""
        with self._lock:
            if not self._kept or rows.start < self._kept[0][0]:
                self._kept.clear()
                self._open, self._position = iter(self._blocks()), 0
            while self._position < rows.stop:
                try:
                    X, y = _pair(next(self._open))
                except StopIteration:
                    raise ValueError(
                        f"blocks yielded {self._position:,} records, and {self._count:,} before. Yield the same "
                        "records in every pass."
                    ) from None
                self._kept.append((self._position, X, np.zeros(0) if y is None else y))
                self._position += len(X)
                while len(self._kept) > 1 and self._kept[1][0] < rows.start - _BEHIND:
                    self._kept.popleft()
            parts = []
            for begin, X, y in self._kept:
                if begin < rows.stop and begin + len(X) > rows.start:
                    part = slice(max(0, rows.start - begin), rows.stop - begin)
                    parts.append((X[part], y[part]))
        if len(parts) == 1:
            return parts[0]
        return np.concatenate([X for X, _ in parts]), np.concatenate([y for _, y in parts])


def _pair(block: Any) -> tuple[FloatArray, FloatArray | None]:
    X, y = block if isinstance(block, tuple) and len(block) == 2 else (block, None)
    if is_table(X):
        raise TypeError("a block of records is a table. Yield arrays, columns in the order of the release.")
    matrix = features_array(X, check_finite=False)
    if y is None:
        return matrix, None
    target = np.ascontiguousarray(y, dtype=np.float64)
    if target.shape != (len(matrix),):
        raise ValueError(
            f"a block has {len(matrix)} records and targets of shape {target.shape}. Yield one per record."
        )
    return matrix, target


def to_memory_map(rows: Rows, path: str | os.PathLike[str]) -> Any:
    """Copy rows to a file, and return it as a memory map: an array whose single rows are at hand.

    Parameters
    ----------
    rows : Rows
        Of shape (n, p) or (n,).
    path : path
        The file, in NumPy's format; it takes 8 n p bytes. One that is there is replaced once the copy is whole.

    Returns
    -------
    numpy.memmap of the same shape, float64
        Read-only.

    Raises
    ------
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
        for block in blocks_of(rows):
            stream.write(np.ascontiguousarray(block, dtype="<f8").data)

    _files.write_whole(path, write)
    return np.load(Path(path), mmap_mode="r")


def privatize(
    release: Release,
    blocks: Iterable[Any],
    folder: str | os.PathLike[str],
    *,
    target_name: str | None = None,
    labels: Sequence[Any] | None = None,
    outside: str = "clip",
    random_state: int | np.random.Generator | None = None,
) -> int:
    """Noise true records block by block into a folder that `symdebias.load` reads, in Parquet.

    Parameters
    ----------
    release : Release
        With the names of its columns.
    blocks : iterable
        Pairs (X, y) of true records as for `symdebias.Release.privatize`, or X alone for a release without a target;
        read once. Each record stands in one block: one that stands in two is released twice.
    folder : path
        As for `symdebias.release.Noised.save`: it appears whole or not at all.
    target_name, labels
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
        A block does not fit the release, or there is none.
    FileExistsError
        Something is at that place.
    MissingDependencyError
        pyarrow is not installed.

    Notes
    -----
    No ledger is charged: a record's budget is that of ``release.guarantee``, and is spent once all blocks are read.

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
    if release.columns is None:
        raise ValueError("the release does not name its columns yet. Use release.bind(names).")
    source = None if random_state is None else generator(random_state)

    def noised() -> Iterator[Noised]:
        for block in blocks:
            X, y = block if isinstance(block, tuple) and len(block) == 2 else (block, None)
            yield release.privatize(X, y, outside=outside, random_state=source)

    return save_blocks(noised(), folder, target_name=target_name, labels=labels)
