"""Rows of numbers that are read when they are asked for, so that no more than some blocks of them are in memory.

What reads them asks for slices, in order where it can. A source behind them may be an array of another kind, or a file.
"""

import contextlib
import functools
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from symdebias._arrays import BooleanArray, FloatArray, IntegerArray, column_ends, column_names, is_table

# Rows that are read at a time, and fewer where a slice has a stride or rows are picked.
WINDOW, TOGETHER = 2**17, 2**15
# Numbers that are read at a time where single rows are at hand, so that windows need not be long: half a megabyte.
_NUMBERS = 2**16
# What was made for one half of a pair and waits for the other: as many blocks as threads may be working on.
_KEPT = 8
# Neighbours that are taken together where many rows are spread over all: processors read ahead within them.
_RUN, _IN_RUNS = 16, 30_000
# What errors have whose rows are those of all records.
_COUNTED = "symdebias_counts_all_rows"
# So many times the largest number of the others is far: before it overflows a score, those of the others are lost.
# So many of the others are looked at.
_FAR_BEYOND, _LOOKED_AT = 4.0, 4096


class Rows:
    """An array of numbers, one row for each record, that is never there as a whole.

    Indexing with a slice or with an array of row numbers reads these rows and returns them as float64, C order.

    Parameters
    ----------
    shape : tuple of int
        (n,) or (n, p).
    read : callable
        From a slice of one row or more to these rows, float64, C order. Called from several threads at once.
    pick : callable, optional
        From an array of row numbers, or a slice with a stride, to these rows: for a source that has any row at hand.

    Attributes
    ----------
    shape : tuple of int
        As given.
    ends : tuple of two arrays of shape (p,), or None
        The means and the least values of the columns, where they have been looked at.
    names : tuple of str, or None
        What the columns are called where they were read by name.
    array : array of shape (n,) or (n, p), or None
        Of any real type and layout: what they are the rows of, where they are those of one and are not made of it.
    end : callable, or None
        Raises where a source whose last row was read, and is not used any more, has more of them.

    Examples
    --------
    >>> squares = Rows((4,), lambda rows: np.arange(4.0)[rows] ** 2)
    >>> squares[1:3]
    array([1., 4.])
    """

    dtype = np.dtype(np.float64)

    def __init__(
        self,
        shape: tuple[int, ...],
        read: Callable[[slice], FloatArray],
        pick: Callable[[Any], FloatArray] | None = None,
    ) -> None:
        self.shape, self._read, self._pick = shape, read, pick
        self.ends: tuple[FloatArray, FloatArray] | None = None
        self.names: tuple[str, ...] | None = None
        self.array: np.ndarray[Any, Any] | None = None
        self.end: Callable[[], None] | None = None

    def require_end(self) -> None:
        """Raise ValueError where a source whose last row was read, and is not used any more, has more of them."""
        if self.end is not None:
            self.end()

    def require_places(self, columns: Sequence[str] | None) -> None:
        """Raise ValueError where a column of the release was read by its name into another place than it has there."""
        if self.names is None or columns is None:
            return
        if any(name in columns and columns.index(name) != place for place, name in enumerate(self.names)):
            raise ValueError(
                f"X was read as the columns {', '.join(self.names):.200}, and those of the release are "
                f"{', '.join(columns):.200}, in this order. Read X by release= in place of columns=, or name the "
                "columns in the order of the release."
            )

    @classmethod
    def of_array(cls, array: np.ndarray[Any, Any]) -> "Rows":
        """Return the rows of an array of any real type and layout, a memory map too."""

        def numbers(rows: Any) -> FloatArray:
            if isinstance(rows, slice):
                return np.ascontiguousarray(array[rows], dtype=np.float64)
            return np.asarray(_picked(array, rows))

        found = cls(array.shape, numbers, numbers)
        found.array = array
        return found

    @classmethod
    def made_of(cls, source: Any, make: Callable[[FloatArray], FloatArray]) -> "Rows":
        """Return the rows that a function makes of rows, one of each.

        Parameters
        ----------
        source : Rows or array
            What they are made of, one row at least.
        make : callable
            From some rows to as many.
        """

        def made(rows: Any) -> FloatArray:
            return make(source[rows])

        shape = len(source), *made(slice(0, 1)).shape[1:]
        return cls(shape, made, made if has_any_row(source) else None)

    def only(self, places: "slice | IntegerArray | Runs") -> "Rows":
        """Return some rows of a source that has any row at hand, read where they are."""
        if isinstance(places, slice):
            chosen: Any = range(*places.indices(len(self)))
        else:
            chosen = places

        def picked(rows: Any) -> FloatArray:
            are_neighbours = isinstance(rows, slice) and rows.step in (None, 1)
            if are_neighbours and isinstance(chosen, Runs) and self.array is not None:
                return chosen.copied(self.array, rows)
            if not isinstance(chosen, range):
                return self[chosen[rows]]
            if not isinstance(rows, slice):
                return self[chosen.start + rows * chosen.step]
            own = chosen[rows]
            return self[slice(own.start, own[-1] + 1, own.step)]

        return Rows((len(chosen), *self.shape[1:]), picked, picked)

    def over_blocks(self, work: Callable[[FloatArray], Any]) -> list[Any]:
        """Return what a function says of consecutive blocks, in order."""
        return [work(self[start : start + WINDOW]) for start in range(0, len(self), WINDOW)]

    def mean_squares(self) -> FloatArray:
        """Return the means of the squares of each column."""
        step, total = at_once(self), np.zeros(self.shape[1:])
        for start in range(0, len(self), step):
            part = self[start : start + step]
            total += np.einsum("i...,i...->...", part, part)
        return np.asarray(total / len(self))

    @property
    def has_any_row(self) -> bool:
        """Whether single rows are read as they are, not with all that stand between them."""
        return self._pick is not None

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"{type(self).__name__}(shape={self.shape})"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        raise TypeError(
            f"these {len(self):,} records are read by blocks, and all of them are wanted at once here. Pass them as an "
            f"array if there is room: X[:], which takes {8 * np.prod(self.shape, dtype=float) / 2**20:,.0f} MiB."
        )

    # Not one row after another, as Python would have it of what has a length and an index.
    __iter__ = None

    def __getitem__(self, rows: Any) -> FloatArray:
        """Return some rows, float64, C order.

        Parameters
        ----------
        rows : slice or array of int
            The rows; a slice goes forward, and numbers are not negative.
        """
        if isinstance(rows, slice):
            start, stop, step = rows.indices(len(self))
            if step < 1:
                raise IndexError(f"rows are read forward; got the step {step}. Reverse what was read.")
            if stop <= start:
                return np.empty((0, *self.shape[1:]))
            if step == 1:
                return self._read(slice(start, stop))
            if self._pick is not None:
                # What leaves an array as it is returns a view of it, whose rows are no neighbours.
                return np.ascontiguousarray(self._pick(slice(start, stop, step)))
            return read_together([self], [slice(start, stop, step)])[0][0]
        places = rows
        if not isinstance(places, np.ndarray) or places.ndim != 1 or places.dtype.kind not in "iu":
            raise IndexError("rows are taken by a slice or by an array of their numbers.")
        if not len(places):
            return np.empty((0, *self.shape[1:]))
        if not (0 <= places.min() and places.max() < len(self)):
            raise IndexError(f"there are {len(self)} rows, numbered from 0; got {places.min()} to {places.max()}.")
        return self._pick(places) if self._pick is not None else read_together([self], [places])[0][0]


def names_of(X: Any) -> tuple[str, ...] | None:
    """Return the names of the columns of a table, or of rows that were read by their names; None for others."""
    if isinstance(X, Rows):
        return X.names
    return tuple(column_names(X)) if is_table(X) else None


def are_in_runs(count: int, stride: int) -> bool:
    """Whether `spread` takes runs of neighbours."""
    return stride > 1 and count >= _IN_RUNS * stride


def spread(count: int, stride: int) -> slice | IntegerArray:
    """Return the places of one in so many of all rows: one of each `stride`, or runs of neighbours of many.

    Which one of a stride is taken changes as by chance from one to the next: tables have periods, as where the same
    months follow on one another, and every twelfth row has one month alone.

    Parameters
    ----------
    count : int
        The number of all rows.
    stride : int
        One in so many is taken; all, as a slice, for 1.

    Examples
    --------
    >>> spread(100, 20)
    array([16, 37, 52, 72, 81])
    >>> spread(1_000_000, 10)[14:18]
    array([110, 111, 272, 273])
    """
    if are_in_runs(count, stride):
        return runs(count, stride)
    return slice(None) if stride <= 1 else _drawn(np.arange(-(-count // stride)), stride, count)


def _drawn(groups: IntegerArray, stride: int, count: int, first: int = 0) -> IntegerArray:
    """Return the place that is taken of each of some groups of so many: one as good as drawn, the same in every call.

    Those of another `first` are others. Of a last group that is not complete it is the first itself.
    """
    # The numbers of groups, mixed (Steele, Lea & Flood 2014, splitmix64): no period of a table is in step with them.
    mixed = groups.astype(np.uint64)
    mixed += np.uint64(1)
    mixed *= np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed ^= mixed >> np.uint64(shift)
        mixed *= np.uint64(factor)
    mixed >>= np.uint64(33)
    mixed += np.uint64(first)
    mixed %= np.uint64(stride)
    mixed[groups >= count // stride] = first
    mixed += (groups * stride).view(np.uint64)
    return mixed.view(np.int64)


def spread_over(count: int, wanted: int, *, at_least: bool = False) -> slice | IntegerArray:
    """Return the places of so many of all rows at most, or at least, as `spread` does."""
    return spread(count, max(1, count // wanted if at_least else -(-count // wanted)))


def places_over(weights: FloatArray, wanted: int, *, at_least: bool = False) -> slice | IntegerArray:
    """Return the places of so many of the rows with weight at most, or at least, spread over all of these."""
    present = int(np.count_nonzero(weights))
    some = spread_over(present, wanted, at_least=at_least)
    return some if present == len(weights) else np.flatnonzero(weights)[some]


def runs(count: int, stride: int, first: int = 0) -> IntegerArray:
    """Return the places of runs of neighbours among rows, one run in so many, as in `spread`.

    Parameters
    ----------
    count, stride, first : int
        As for `Runs`.
    """
    return Runs(count, stride, first)[:]


@dataclass(frozen=True)
class Runs:
    """The places that `runs` returns, computed where they are asked for: of many rows they take room.

    Attributes
    ----------
    count : int
        The number of rows.
    stride : int
        How many runs there are to each that is taken.
    first : int
        Which runs are taken: those of different numbers below the stride are different ones, and all together all.
    """

    count: int
    stride: int
    first: int = 0

    def __len__(self) -> int:
        groups, rest = divmod(self.count, self.stride * _RUN)
        # The last run may be short, or not there.
        return groups * _RUN + min(_RUN, max(0, rest - self.first * _RUN))

    def __getitem__(self, rows: slice | IntegerArray) -> IntegerArray:
        """Return the places in some places of these."""
        if not isinstance(rows, slice):
            return np.asarray(_RUN * self._taken[rows // _RUN] + rows % _RUN)
        start, stop, step = rows.indices(len(self))
        before = start // _RUN
        found = np.add.outer(_RUN * self._taken[before : -(-stop // _RUN)], np.arange(_RUN)).ravel()
        return found[start - before * _RUN : stop - before * _RUN : step]

    @functools.cached_property
    def _taken(self) -> IntegerArray:
        """Which of all runs these are, a number for each."""
        return _drawn(np.arange(-(-len(self) // _RUN)), self.stride, self.count // _RUN, self.first)

    def copied(self, array: np.ndarray[Any, Any], rows: slice) -> FloatArray:
        """Return the rows of an array in consecutive ones of these places, float64, C order, copied run by run.

        Parameters
        ----------
        array : array of shape (count, ...)
            Of any real type and layout.
        rows : slice
            Of a step of 1.
        """
        start, stop, _ = rows.indices(len(self))
        found = np.empty((stop - start, *array.shape[1:]))
        first, last = -(-start // _RUN), stop // _RUN
        if first >= last:
            found[:] = array[self[rows]]
            return found
        shape, strides = (len(array) // _RUN, _RUN, *array.shape[1:]), (_RUN * array.strides[0], *array.strides)
        runs, own = np.lib.stride_tricks.as_strided(array, shape, strides, writeable=False), self._taken[first:last]
        begin, end = first * _RUN - start, last * _RUN - start
        into = found[begin:end].reshape(len(own), *shape[1:])
        if array.dtype == found.dtype and array.flags.c_contiguous:
            # Another mode would copy once more.
            runs.take(own, axis=0, out=into, mode="clip")
        else:
            into[:] = runs[own]
        if begin > 0:
            found[:begin] = array[self[start : first * _RUN]]
        if end < len(found):
            found[end:] = array[self[last * _RUN : stop]]
        return found


def in_memory(values: Any) -> Any:
    """Return what may be read by blocks as an array, and anything else as it is."""
    return values[:] if isinstance(values, Rows) else values


def rows_of(array: Any, rows: Any) -> Any:
    """Return some rows of an array or of rows: by their numbers in about half the time of an index or a stride."""
    # Of another layout it would copy all.
    if not (isinstance(array, np.ndarray) and array.flags.c_contiguous):
        return array[rows]
    if isinstance(rows, slice) and array.ndim > 1 and (rows.step or 1) > 1:
        rows = np.arange(*rows.indices(len(array)))
    return array.take(rows, axis=0) if isinstance(rows, np.ndarray) and rows.dtype.kind == "i" else array[rows]


def parts_of(count: int, width: int, numbers: int) -> Iterator[slice]:
    """Yield slices of consecutive rows, of which what is made takes little room: so many numbers, or one row.

    Parameters
    ----------
    count : int
        How many rows there are.
    width : int
        How many numbers are made of each.
    numbers : int
        How many may be made at a time.
    """
    step = max(1, numbers // max(1, width))
    return (slice(start, start + step) for start in range(0, count, step))


def _picked(array: np.ndarray[Any, Any], rows: IntegerArray) -> FloatArray:
    """Return some rows of an array, float64, in C order, without another copy of them on the way."""
    found = np.empty((len(rows), *array.shape[1:]))
    for part in parts_of(len(rows), found[:1].size, _NUMBERS // 8):
        found[part] = rows_of(array, rows[part])
    return found


def read_together(sources: Sequence[Any], wanted: Sequence[Any]) -> list[tuple[FloatArray, ...]]:
    """Return some rows of sources of equal length, of which one has not any row at hand: all by one reading.

    Parameters
    ----------
    sources : sequence of Rows or array
        What is read, window after window.
    wanted : sequence of slices or arrays of int
        For each item that is returned the rows, of all sources; a slice goes forward.
    """
    count = len(sources[0])
    some = Gathered(wanted, count)
    for begin in range(0, count, TOGETHER):
        end = min(begin + TOGETHER, count)
        if some.has_any_of(begin, end):
            some.take(begin, [source[begin:end] for source in sources])
    if some.found is None:
        some.take(0, [source[:1] for source in sources])
    assert some.found is not None
    return some.found


class Gathered:
    """Some rows of sources, several times, which are taken while all of them are read block by block.

    Parameters
    ----------
    wanted : sequence of slices or arrays of int
        As for `read_together`.
    count : int
        How many rows there are in all.

    Attributes
    ----------
    found : list of tuples of arrays, or None
        What `read_together` returns, once all blocks have been taken; None before the first.
    """

    def __init__(self, wanted: Sequence[Any], count: int) -> None:
        places = (np.arange(*rows.indices(count)) if isinstance(rows, slice) else np.asarray(rows) for rows in wanted)
        # In the order in which they are read, and where each of them was wanted.
        self._orders = [(rows, np.argsort(rows, kind="stable")) for rows in places]
        self._orders = [(rows[order], order) for rows, order in self._orders]
        self.found: list[tuple[FloatArray, ...]] | None = None

    def has_any_of(self, begin: int, end: int) -> bool:
        """Whether any of consecutive rows is wanted."""
        return any(len(self._among(rows, begin, end)) > 0 for rows, _ in self._orders)

    def take(self, begin: int, blocks: Sequence[FloatArray]) -> None:
        """Take what is wanted of a block of each source, whose first row is the row `begin` of all."""
        if self.found is None:
            self.found = [
                tuple(np.empty((len(rows), *block.shape[1:])) for block in blocks) for rows, _ in self._orders
            ]
        for (rows, order), into in zip(self._orders, self.found, strict=True):
            own = self._among(rows, begin, begin + len(blocks[0]))
            for block, array in zip(blocks, into, strict=True):
                array[order[own.start : own.stop]] = block[rows[own.start : own.stop] - begin]

    @staticmethod
    def _among(rows: IntegerArray, begin: int, end: int) -> range:
        """Return where those of consecutive rows stand among some in order."""
        return range(*np.searchsorted(rows, (begin, end)).tolist())


@contextlib.contextmanager
def counted_from(
    first: int, place: str = "", every: int | IntegerArray = 1, *, by_source: bool = False
) -> Iterator[None]:
    """Raise errors of a part of the records with their rows counted from the first record of all.

    Those that a source raised while it was read are counted so already.

    Parameters
    ----------
    first : int
        The row of all records that is row 0 of the part.
    place : str
        What the part is called, for the message.
    every : int or array of int
        How far the rows of the part are from each other among all, or the places of all of them.
    by_source : bool
        Whether errors come from a source, and nobody who reads some of its rows counts them again.
    """

    def counted(found: re.Match[str]) -> str:
        row = int(found[1])
        return f"row {(row * every if isinstance(every, int) else every[row]) + first}"

    try:
        yield
    except (TypeError, ValueError) as error:
        if len(error.args) == 1 and not getattr(error, _COUNTED, False):
            said = re.sub(r"\brow (\d+)\b", counted, f"{error.args[0]}")
            error.args = (f"{place}: {said}" if place else said,)
        if by_source:
            setattr(error, _COUNTED, True)
        raise


def has_any_row(source: Any) -> bool:
    """Whether single rows of rows, or of an array, are at hand."""
    return not isinstance(source, Rows) or source.has_any_row


def require_vector(y: Any) -> None:
    """Raise ValueError where targets that are read by blocks have columns."""
    if isinstance(y, Rows) and y.ndim != 1:
        raise ValueError(
            f"y must have one dimension; its shape is {y.shape}, and it is read by blocks. Name the column as target= "
            "where it is read, or yield targets of shape (m,)."
        )


def require_as_many(X: Any, y: Any) -> None:
    """Raise ValueError where there is not one target for each record."""
    if y is not None and np.ndim(y) == 1 and len(y) != len(X):
        raise ValueError(f"y has {len(y)} entries, but X has {len(X)} rows. Pass one per record.")


def at_once(*sources: Any) -> int:
    """Return how many rows of these to read at a time where nothing but the room that they take depends on it."""
    if not all(map(has_any_row, sources)):
        return WINDOW
    widest = max(int(np.prod(source.shape[1:], dtype=np.int64)) for source in sources)
    return min(WINDOW, max(1, _NUMBERS // max(1, widest)))


def blocks_of(source: Any) -> Iterator[FloatArray]:
    """Yield consecutive blocks of rows, or an array as one block."""
    if not isinstance(source, Rows):
        yield source
        return
    for start in range(0, len(source), WINDOW):
        yield source[start : start + WINDOW]


def without_far(parts: Sequence[Any], weights: FloatArray) -> tuple[Any, ...]:
    """Return columns and targets of records in which those of weight 0 are nowhere far beyond the others.

    No weight of 0 takes back what overflows. Where one is far, they are like the first record that has weight.

    Parameters
    ----------
    parts : sequence of array of shape (n, ...), or Rows
        Of the same records. Arrays without far records are returned as they are; rows that are read somewhere else
        are replaced when they are.
    weights : array of shape (n,), float64
        Weights, of which one at least is positive.
    """
    absent = weights == 0
    like = int(np.argmin(absent))
    return tuple(
        _replaced(part, absent, part[like : like + 1]) if _reaches_out(part, absent) else part for part in parts
    )


def _reaches_out(source: Any, places: BooleanArray) -> bool:
    """Whether an array has some number in the rows that are marked, shape (n,), that is far beyond those of the others.

    Some of the others are looked at. Of rows that are read it is taken to have some.
    """
    if isinstance(source, Rows):
        return True
    columns = source.reshape(len(source), -1)
    others = columns[np.flatnonzero(~places)[:_LOOKED_AT]]
    most = _FAR_BEYOND * np.abs(others).max(axis=0)
    for start in range(0, len(columns), 2 * TOGETHER):
        marked = np.flatnonzero(places[start : start + 2 * TOGETHER])
        if len(marked):
            low, high = column_ends(columns[start + marked])
            if np.any(high > most) or np.any(-low > most):
                return True
    return False


def _replaced(source: Any, places: BooleanArray, row: FloatArray) -> Any:
    """Return rows, or a copy of an array, with one row, shape (1, ...), in the places that are marked, shape (n,)."""

    def read(rows: Any) -> FloatArray:
        marked = places[rows]
        return np.where(marked.reshape(-1, *[1] * (source.ndim - 1)), row, source[rows])

    if not isinstance(source, Rows):
        return read(slice(None))
    return Rows(source.shape, read, read if source.has_any_row else None)


def over_blocks(source: Any, work: Callable[[FloatArray], Any]) -> list[Any]:
    """Return what a function says of consecutive blocks of rows, or of an array as one block."""
    return source.over_blocks(work) if isinstance(source, Rows) else [work(source)]


def paired(count: int, make: Callable[[Any], tuple[FloatArray, FloatArray]], *, has_any_row: bool) -> tuple[Rows, Rows]:
    """Return rows of two kinds that are made together: what was made last is kept until its other half is asked for.

    Parameters
    ----------
    count : int
        The number of rows, one at least.
    make : callable
        From a slice, or from an array of row numbers, to rows of both kinds.
    has_any_row : bool
        Whether single rows are at hand.
    """
    kept: OrderedDict[tuple[int, int], tuple[FloatArray, FloatArray]] = OrderedDict()
    lock = threading.Lock()

    def remembering(rows: slice) -> tuple[FloatArray, FloatArray]:
        key = rows.start, rows.stop
        with lock:
            if key in kept:
                return kept.pop(key)
        made = make(rows)
        with lock:
            kept[key] = made
            while len(kept) > _KEPT:
                kept.popitem(last=False)
        return made

    def half(place: int) -> Rows:
        def picked(rows: Any) -> FloatArray:
            return make(rows)[place]

        shape = count, *make(slice(0, 1))[place].shape[1:]
        return Rows(shape, lambda rows: remembering(rows)[place], picked if has_any_row else None)

    return half(0), half(1)
