"""Collections of Dask as partitions, and tasks on them: what each says, and sums that are made where they lie."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from symdebias import _optional

# Partial sums that one task adds up: sums reach the caller from a few tasks, however many partitions there are.
_TOGETHER = 32


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

    Raises
    ------
    TypeError, ValueError
        One is no collection of Dask, or they have not as many partitions.
    MissingDependencyError
        Dask is not installed.
    """

    def __init__(self, **collections: Any) -> None:
        given = {name: values for name, values in collections.items() if values is not None}
        for name, values in given.items():
            _require_collection(name, values)
        cuts = next((values.chunks[0] for values in given.values() if _is_array(values)), None)
        parts = {name: _delayed(values, cuts) for name, values in given.items()}
        counts = {name: len(own) for name, own in parts.items()}
        if len(set(counts.values())) > 1:
            said = ", ".join(f"{name} {count}" for name, count in counts.items())
            raise ValueError(
                f"these collections do not have as many partitions: {said}. Take them from one data frame, or cut "
                "them alike with repartition or rechunk."
            )
        (count,) = set(counts.values())
        self._parts = [tuple(parts[name][k] if name in parts else None for name in collections) for k in range(count)]

    def __len__(self) -> int:
        return len(self._parts)

    def only(self, places: Sequence[int]) -> "Partitions":
        """Return some of the partitions."""
        found = Partitions.__new__(Partitions)
        found._parts = [self._parts[place] for place in places]
        return found

    def each(self, work: Callable[..., Any], more: Sequence[tuple[Any, ...]] | None = None) -> list[Any]:
        """Return what a function says of each partition, in order.

        Parameters
        ----------
        work : callable
            Takes a part of each collection, and what `more` has for the partition; can be pickled.
        more : sequence of tuple, optional
            Further arguments for each partition.
        """
        return list(dask().compute(*self._tasks(work, more)))

    def summed(self, work: Callable[..., tuple[Any, ...]]) -> tuple[Any, ...]:
        """Return the sums over partitions of what a function says of each: a tuple of numbers and arrays.

        Sums are made in a fixed order, wherever and however often a task is run.
        """
        delayed = dask().delayed
        tasks = self._tasks(work, None)
        while len(tasks) > 1:
            groups = [tasks[begin : begin + _TOGETHER] for begin in range(0, len(tasks), _TOGETHER)]
            tasks = [delayed(_added, pure=False)(*group) for group in groups]
        (found,) = dask().compute(*tasks)
        return tuple(found)

    def _tasks(self, work: Callable[..., Any], more: Sequence[tuple[Any, ...]] | None) -> list[Any]:
        delayed = dask().delayed
        extra = itertools.repeat(()) if more is None else more
        return [
            delayed(_Task(work, place, arguments), pure=False, traverse=False)(*parts)
            for place, (parts, arguments) in enumerate(zip(self._parts, extra, strict=False))
        ]


class _Task:
    """Work on a partition, with arguments that Dask does not look into; its errors name the partition."""

    def __init__(self, work: Callable[..., Any], place: int, arguments: tuple[Any, ...]) -> None:
        self.__name__ = getattr(getattr(work, "func", work), "__name__", "work").strip("_")
        self._work, self._place, self._arguments = work, place, arguments

    def __call__(self, *parts: Any) -> Any:
        """Do the work."""
        try:
            return self._work(*parts, *self._arguments)
        except (TypeError, ValueError) as error:
            raise type(error)(f"in partition {self._place}, with rows counted from its first: {error}") from None


def _added(*parts: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the sums of tuples, entry by entry."""
    return tuple(sum(entries[1:], entries[0]) for entries in zip(*parts, strict=True))


def _require_collection(name: str, values: Any) -> None:
    if not (dask().is_dask_collection(values) and hasattr(values, "to_delayed")):
        raise TypeError(
            f"{name} is a {type(values).__name__}, and here a data frame, a series or an array of Dask is wanted. Make "
            "one by dask.dataframe.read_parquet or dask.array.from_array, or call the function of the same name of "
            "symdebias for records in memory or in blocks."
        )
    dimensions = 2 if name == "X" else 1
    if getattr(values, "ndim", dimensions) != dimensions:
        raise ValueError(
            f"{name} has {values.ndim} dimensions, and {dimensions} are wanted. Pass one row per record and one "
            "column per feature in X, and one number per record elsewhere."
        )


def _is_array(values: Any) -> bool:
    return hasattr(values, "chunks")


def _delayed(values: Any, cuts: tuple[int, ...] | None) -> list[Any]:
    """Return the partitions of a collection; an array of known lengths is cut as the first one is."""
    if not _is_array(values):
        return list(values.to_delayed())
    if cuts is not None and values.chunks[0] != cuts and np.isfinite([*values.chunks[0], *cuts]).all():
        if sum(values.chunks[0]) != sum(cuts):
            raise ValueError(
                f"arrays of {sum(cuts):,} and of {sum(values.chunks[0]):,} rows were given. Pass one per record."
            )
        values = values.rechunk({0: cuts})
    if values.ndim == 2 and len(values.chunks[1]) > 1:
        values = values.rechunk({1: -1})
    return list(values.to_delayed().ravel())
