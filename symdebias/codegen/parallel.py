"""Run what is done with records on all cores: chunks of rows, whose results are added or kept in order.

Chunks have a fixed size, so that a result does not depend on the number of threads. Kernels and the array functions of
NumPy release Python's lock. Who asks for work takes part in it: with two cores one other thread is woken, not two, and
where the other core is busy nobody waits for it.
"""

import functools
import itertools
import math
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numba
import numpy as np

from symdebias._arrays import FloatArray
from symdebias._rows import Rows

# Rows of a chunk: some hundred microseconds of work, against some ten for starting a thread. Numbers of a chunk where
# little is done with each.
CHUNK, NUMBERS = 2**15, 2**17
# Numbers of a chunk that is made for one pass, half a megabyte, and what its rows are a multiple of.
_MADE, _MULTIPLE = 2**16, 256
_NAME = "symdebias"
# So many parts for each thread may be begun beyond the first that is not done: what is read in order keeps as many
# behind itself for one that is late.
_LEAD = 2
_own = threading.local()


def over_chunks(rows: int, work: Callable[[slice], Any], size: int = CHUNK) -> list[Any]:
    """Return what `work` says of each chunk of rows, in order.

    Parameters
    ----------
    rows : int
        How many rows there are.
    work : callable
        Takes a slice of the rows; runs on several threads at once.
    size : int
        How many rows a chunk has.
    """
    chunks = [slice(start, min(start + size, rows)) for start in range(0, rows, size)]
    threads = _threads(len(chunks))
    if threads <= 1:
        return [work(chunk) for chunk in chunks]
    return _shared_out(work, chunks, threads)


def over_items(items: Iterable[Any], work: Callable[[Any], Any]) -> Iterator[Any]:
    """Yield what `work` says of each item, in order: of as many at a time as there are threads, taken by this one.

    An error of the items comes after those of `work` on what came before, whatever the number of threads.

    Parameters
    ----------
    items : iterable
        What is worked on.
    work : callable
        Takes an item; runs on several threads at once.
    """
    source, threads = iter(items), _threads(numba.get_num_threads())
    while True:
        batch: list[Any] = []
        failed = None
        try:
            batch.extend(itertools.islice(source, threads))
        except Exception as error:
            failed = error
        yield from over_chunks(len(batch), functools.partial(_of_item, batch, work), 1)
        if failed is not None:
            try:
                raise failed
            finally:
                # The error refers to this function, and so to the items.
                del failed
        if len(batch) < threads:
            return


def _of_item(batch: Sequence[Any], work: Callable[[Any], Any], place: slice) -> Any:
    return work(batch[place.start])


def chunk_of(source: Any, made: int = 0) -> int:
    """Return how many rows a chunk of an array has, or of rows: fewer where they are made for each pass.

    What is read from a beginning to an end has longer blocks of its own.

    Parameters
    ----------
    source : array of shape (n, ...) or Rows
        What is passed over.
    made : int
        How many numbers the pass makes of each row.
    """
    if isinstance(source, Rows):
        if not source.has_any_row:
            return CHUNK
        made = max(1, made, math.prod(source.shape[1:]))
    return min(CHUNK, max(1, _MADE // made // _MULTIPLE) * _MULTIPLE) if made else CHUNK


def all_finite(array: FloatArray) -> bool:
    """Whether an array of finite sum, or else of finite entries, is one: False where entries are to be looked at.

    Parameters
    ----------
    array : array, float64
        Of any shape.
    """
    flat = array.reshape(-1)
    with np.errstate(over="ignore", invalid="ignore"):
        sums = over_chunks(len(flat), lambda part: flat[part].sum(), NUMBERS)
    return bool(np.isfinite(sums).all())


def _threads(parts: int) -> int:
    """Return how many threads work on so many parts: none but this one where it is itself one of those that work."""
    if parts <= 1 or getattr(_own, "works", False) or threading.current_thread().name.startswith(_NAME):
        return 1
    threads: int = min(parts, numba.get_num_threads())
    return threads


def over_parts(count: int, fewest: int, work: Callable[[slice], Any]) -> None:
    """Run what is done for each of so many things apart, in as many parts as there are threads.

    Parameters
    ----------
    count : int
        How many things there are.
    fewest : int
        How many of them a thread is started for.
    work : callable
        Takes a slice of the things; runs on several threads at once.
    """
    parts = _threads(count // fewest)
    cuts = [count * part // parts for part in range(parts + 1)]
    slices = [slice(*pair) for pair in itertools.pairwise(cuts)]
    if parts == 1:
        work(slices[0])
    else:
        _shared_out(work, slices, parts)


def _shared_out(work: Callable[[slice], Any], parts: Sequence[slice], threads: int) -> list[Any]:
    """Return what `work` says of each part, in order: this thread and others take one after the other.

    Of several errors the one of the first part is raised, which does not depend on the number of threads. An
    interruption comes before them, once nobody works any more; a second one is not held up.
    """
    found: list[Any] = [None] * len(parts)
    failed: dict[int, BaseException] = {}
    others: list[Future[Any]] = []
    places = iter(range(len(parts)))
    done, undone, changed = [False] * len(parts), 0, threading.Condition()

    def is_next(place: int) -> bool:
        return bool(failed) or place < undone + _LEAD * threads

    def end(place: int) -> None:
        nonlocal undone
        with changed:
            if place >= 0:
                done[place] = True
            while undone < len(parts) and done[undone]:
                undone += 1
            changed.notify_all()

    def run(_: Any = None) -> None:
        _own.works, place = True, -1
        try:
            # A part that was taken is done, whatever failed since: all those before the first that fails are. What
            # failed while one waits for its turn comes before it.
            while not failed and (place := next(places, -1)) >= 0:
                with changed:
                    changed.wait_for(functools.partial(is_next, place))
                    if not place < undone + _LEAD * threads:
                        break
                found[place] = work(parts[place])
                end(place)
        except BaseException as error:
            failed[place if isinstance(error, Exception) else -1] = error
        finally:
            _own.works = False
            end(-1)

    def wait() -> None:
        for other in others:
            # One that has not begun yet is not waited for.
            if not other.cancel():
                other.result()

    try:
        # One after the other: those that were submitted before an interruption are known.
        others.extend(_pool(threads - 1, os.getpid()).submit(_as_here(run), slice(0)) for _ in range(threads - 1))
        run()
        wait()
    except BaseException as error:  # this thread was interrupted between its parts, or while it waited
        failed[-1] = error
        wait()
    if failed:
        # Nothing that is left refers to the error, which refers to the records.
        first = failed.pop(min(failed))
        failed.clear()
        try:
            raise first
        finally:
            del first
    return found


def _as_here(work: Callable[[slice], Any]) -> Callable[[slice], Any]:
    """Return what does the same on another thread, where overflow and the like are met as they are on this one."""
    call: Any = np.geterrcall()
    met = np.geterr()

    def run(part: slice) -> Any:
        with np.errstate(call=call, **met):
            return work(part)

    return run


@functools.cache
def _pool(threads: int, process: int) -> ThreadPoolExecutor:
    """Return other threads that wait for work: starting them takes longer than a pass. A forked process has its own."""
    return ThreadPoolExecutor(threads, thread_name_prefix=_NAME)


def summed(
    kernel: Callable[..., Any], arguments: Sequence[Any], shapes: Sequence[tuple[int, ...]]
) -> tuple[float, list[FloatArray]]:
    """Return the sum over chunks of what a mean kernel returns, and of the arrays that it fills.

    Parameters
    ----------
    kernel : callable
        Takes theta, X, y, weights (empty, or one per row), total, noise, and arrays to fill.
    arguments : sequence
        The first six of them.
    shapes : sequence of tuple of int
        The shapes of the arrays.
    """
    theta, matrix, target, weights, total, noise = arguments

    def work(rows: slice) -> tuple[Any, list[FloatArray]]:
        filled = [np.zeros(shape) for shape in shapes]
        own = weights[rows] if len(weights) else weights
        value = kernel(theta, matrix[rows], target[rows], own, total, noise, *filled)
        return value, filled

    parts = over_chunks(len(matrix), work, chunk_of(matrix))
    value = float(sum(part for part, _ in parts)) if parts[0][0] is not None else 0.0
    arrays = [sum((filled[i] for _, filled in parts[1:]), parts[0][1][i]) for i in range(len(shapes))]
    return value, arrays
