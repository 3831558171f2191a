"""Collections of Dask as partitions, and tasks on them: what each says, and sums that are made where they lie."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from symdebias import _optional
from symdebias.exceptions import SymdebiasError
from symdebias.interfaces.distributed.seals import Seal

# Partial sums that one task adds up: sums reach the caller from a few tasks, however many partitions there are.
_TOGETHER = 32
# What the parts of a partition held, one of each collection; None before the first pass.
_Seals = tuple[Seal | None, ...] | None


def dask() -> Any:
    """Return Dask.

    Raises
    ------
    MissingDependencyError
        It is not installed.
    """
    return _optional.require("dask", extra="dask")


class Partitions:
    """Collections of Dask with the same partitions, such as X, y and weights.

    Parameters
    ----------
    **collections
        Data frames, series or arrays of Dask by the names that messages call them; None where there is none. Arrays are
        cut along their rows as the first of them is.

    Attributes
    ----------
    collections : dict from str to collection
        Those that there are, cut alike.

    Raises
    ------
    TypeError, ValueError
        One is no collection of Dask, or they have not as many partitions.
    MissingDependencyError
        Dask is not installed.
    """

    def __init__(self, **collections: Any) -> None:
        self.collections = _aligned(
            {name: values for name, values in collections.items() if values is not None or name == "X"}
        )
        parts = {name: _parts_of(values) for name, values in self.collections.items()}
        if any(len(own) != _count(self.collections[name]) for name, own in parts.items()):
            # Dask reads small columns of several files together, of X and y as it likes.
            parts = {name: _parts_of(values, optimize_graph=False) for name, values in self.collections.items()}
        counts = {name: len(own) for name, own in parts.items()}
        if len(set(counts.values())) > 1:
            said = ", ".join(f"{name} {count}" for name, count in counts.items())
            raise ValueError(
                f"these collections do not have as many partitions: {said}. Take them from one data frame, or cut "
                "them alike with repartition or rechunk."
            )
        (count,) = set(counts.values())
        self._parts = [tuple(parts[name][k] if name in parts else None for name in collections) for k in range(count)]
        # What errors call them.
        self._places: Sequence[int] = range(count)
        self._names = tuple(collections)
        # What they held in the first pass, once there was one.
        self._seals: Sequence[_Seals] = [None] * count

    def __len__(self) -> int:
        return len(self._parts)

    def only(self, places: Sequence[int]) -> "Partitions":
        """Return some of the partitions."""
        found = Partitions.__new__(Partitions)
        found.collections = {name: some(values, places) for name, values in self.collections.items()}
        found._parts = [self._parts[place] for place in places]
        found._places = [self._places[place] for place in places]
        found._names = self._names
        found._seals = [self._seals[place] for place in places]
        return found

    def first(self, work: Callable[..., Any]) -> list[Any]:
        """Return what a function says of each partition; every later pass over them is held to the same records.

        Raises
        ------
        ValueError
            A later pass finds other records: partitions are computed anew in each.
        """
        said = self.each(_Sealing(work))
        self._seals = [seals for seals, _ in said]
        return [answer for _, answer in said]

    def each(self, work: Callable[..., Any], more: Sequence[tuple[Any, ...]] | None = None) -> list[Any]:
        """Return what a function says of each partition, in order.

        Parameters
        ----------
        work : callable
            Takes a part of each collection, and what `more` has for the partition; can be pickled.
        more : sequence of tuple, optional
            Further arguments for each partition.
        """
        found = list(dask().compute(*self._tasks(work, more, keep_errors=True)))
        # Of several errors that of the first partition, whichever came first.
        for one in found:
            if isinstance(one, _Refused):
                raise one.error
        return found

    def summed(self, work: Callable[..., tuple[Any, ...]]) -> tuple[Any, ...]:
        """Return the sums over partitions of what a function says of each: a tuple of numbers and arrays.

        Sums are made in a fixed order, wherever and however often a task is run.
        """
        return tuple(self.reduced(work, _added))

    def reduced(self, work: Callable[..., Any], combine: Callable[..., Any]) -> Any:
        """Return what a function says of each partition, put together by another one, some at a time, in order."""
        delayed = dask().delayed
        tasks = self._tasks(work)
        while len(tasks) > 1:
            groups = [tasks[begin : begin + _TOGETHER] for begin in range(0, len(tasks), _TOGETHER)]
            tasks = [delayed(_Combined(combine), pure=False, traverse=False)(*group) for group in groups]
        (found,) = dask().compute(*tasks)
        return found

    def _tasks(
        self, work: Callable[..., Any], more: Sequence[tuple[Any, ...]] | None = None, *, keep_errors: bool = False
    ) -> list[Any]:
        delayed = dask().delayed
        extra = itertools.repeat(()) if more is None else more
        return [
            delayed(_Task(work, place, arguments, keep_errors, self._names, seals), pure=False, traverse=False)(*parts)
            for place, parts, arguments, seals in zip(self._places, self._parts, extra, self._seals, strict=False)
        ]


class _Task:
    """Work on a partition, with arguments that Dask does not look into; its errors name the partition."""

    def __init__(
        self, work: Callable[..., Any], place: int, arguments: tuple[Any, ...], keep_errors: bool,
        names: tuple[str, ...], seals: _Seals,
    ) -> None:  # fmt: skip
        self.__name__ = getattr(getattr(work, "func", work), "__name__", "work").strip("_")
        self._work, self._place, self._arguments, self._keep_errors = work, place, arguments, keep_errors
        self._names, self._seals = names, seals

    def __call__(self, *parts: Any) -> Any:
        """Do the work, and raise what it refuses, or return it."""
        try:
            if self._seals is not None:
                _require_same(self._names, parts, self._seals)
            return self._work(*parts, *self._arguments)
        except (SymdebiasError, TypeError, ValueError) as error:
            if len(error.args) == 1:
                error.args = (f"in partition {self._place}, with rows counted from its first: {error}",)
            if not self._keep_errors:
                raise
            return _Refused(error)


class _Sealing:
    """Work whose answer comes with what the parts of the partition hold."""

    def __init__(self, work: Callable[..., Any]) -> None:
        # Tasks are called as it is.
        self.func, self._work = getattr(work, "func", work), work

    def __call__(self, *parts: Any) -> tuple[_Seals, Any]:
        """Return both."""
        return tuple(None if part is None else Seal.of(part) for part in parts), self._work(*parts)


def _require_same(names: tuple[str, ...], parts: tuple[Any, ...], seals: tuple[Seal | None, ...]) -> None:
    for name, part, seal in zip(names, parts, seals, strict=True):
        if seal is not None and not seal.is_of(part):
            raise ValueError(
                f"{name} is not what it was in the pass before. A partition is computed anew in each pass: call "
                f"{name}.persist(), or store what is drawn at random or read from a source that changes first."
            )


class _Combined:
    """What puts answers together, with arguments that Dask does not look into."""

    __name__ = "added"

    def __init__(self, combine: Callable[..., Any]) -> None:
        self._combine = combine

    def __call__(self, *parts: Any) -> Any:
        """Return the answers together."""
        return self._combine(*parts)


class _Refused:
    """An error that a task returns."""

    def __init__(self, error: Exception) -> None:
        self.error = error


def _added(*parts: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the sums of tuples, entry by entry."""
    return tuple(sum(entries[1:], entries[0]) for entries in zip(*parts, strict=True))


def some(values: Any, places: Sequence[int]) -> Any:
    """Return some partitions of a collection as a collection."""
    return values.blocks[list(places)] if _is_array(values) else values.partitions[list(places)]


def _aligned(given: dict[str, Any]) -> dict[str, Any]:
    """Return collections whose arrays are cut alike, and along their rows alone."""
    for name, values in given.items():
        _require_collection(name, values)
    arrays = {name: values for name, values in given.items() if _is_array(values)}
    cuts = next((values.chunks[0] for values in arrays.values()), ())
    aligned = dict(given)
    for name, values in arrays.items():
        own = values.chunks[0]
        if own != cuts and np.isfinite([*own, *cuts]).all():
            if sum(own) != sum(cuts):
                raise ValueError(f"{name} has {sum(own):,} rows, and others {sum(cuts):,}. Pass one per record.")
            aligned[name] = values.rechunk({0: cuts})
        if values.ndim == 2 and len(values.chunks[1]) > 1:
            aligned[name] = aligned[name].rechunk({1: -1})
    return aligned


def _require_collection(name: str, values: Any) -> None:
    if not (dask().is_dask_collection(values) and hasattr(values, "to_delayed") and hasattr(values, "ndim")):
        raise TypeError(
            f"{name} is a {type(values).__name__}, and here a data frame, a series or an array of Dask is wanted. Make "
            "one by dask.dataframe.read_parquet or dask.array.from_array, or call the function of the same name of "
            "symdebias for records in memory or in blocks."
        )
    allowed = {"X": (2,), "noise_scale": (1, 2)}.get(name, (1,))
    if values.ndim not in allowed:
        raise ValueError(
            f"{name} has {values.ndim} dimensions, and {' or '.join(map(str, allowed))} are wanted. Pass one row per "
            "record and one column per feature in X, and one number per record elsewhere."
        )


def _parts_of(values: Any, **how: Any) -> list[Any]:
    return list(np.ravel(values.to_delayed(**how)))


def _count(values: Any) -> int:
    return len(values.chunks[0]) if _is_array(values) else int(values.npartitions)


def _is_array(values: Any) -> bool:
    return hasattr(values, "chunks")
