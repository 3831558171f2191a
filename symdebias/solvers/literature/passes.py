"""Passes over the records of a method, window by window: a window has the same records wherever these are read.

Windows are some thousand rows. So what is made of records is never there as a whole, sums over all of them are added in
one order, and random numbers of a record do not depend on what it is read with.
"""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from symdebias._arrays import FloatArray
from symdebias._rows import Rows
from symdebias.codegen.parallel import over_chunks

# Numbers of a window, a megabyte, its fewest and its most rows: powers of two, so that blocks of records are windows.
_NUMBERS, _FEWEST, _MOST = 2**17, 2**8, 2**13
# Windows whose results are there at a time.
_TOGETHER = 64


def window_of(columns: int) -> int:
    """Return how many rows a window of so many columns has.

    Examples
    --------
    >>> window_of(1), window_of(20), window_of(1000)
    (8192, 4096, 256)
    """
    fitting = 1 << (max(1, _NUMBERS // max(1, columns)).bit_length() - 1)
    return min(max(fitting, _FEWEST), _MOST)


def folded(count: int, columns: int, work: Callable[[slice], Any], combine: Callable[[Any, Any], Any]) -> Any:
    """Return what a function says of each window, combined from the first one on.

    Parameters
    ----------
    count, columns : int
        How many records there are, one at least, and how many columns they have.
    work : callable
        Takes a slice of the records; runs on several threads at once.
    combine : callable
        From what was found so far and what a further window says to both.
    """
    window = window_of(columns)
    found: Any = None
    for begin in range(0, count, _TOGETHER * window):

        def shifted(rows: slice, begin: int = begin) -> Any:
            return work(slice(begin + rows.start, begin + rows.stop))

        for place, part in enumerate(over_chunks(min(count - begin, _TOGETHER * window), shifted, window)):
            found = part if not begin and not place else combine(found, part)
    return found


def summed(count: int, columns: int, work: Callable[[slice], tuple[Any, ...]]) -> tuple[Any, ...]:
    """Return the sums over windows of what a function says of each: a tuple of numbers and arrays."""

    def added(one: tuple[Any, ...], other: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(map(operator.add, one, other))

    total: tuple[Any, ...] = folded(count, columns, work, added)
    return total


def made_of(source: FloatArray | Rows, make: Callable[[FloatArray], FloatArray]) -> FloatArray | Rows:
    """Return what a function makes of rows, one of each: anew in each pass where they are read in each pass."""
    return Rows.made_of(source, make) if isinstance(source, Rows) else make(source)


def normal_numbers(seed: int, count: int, columns: int, rows: slice) -> FloatArray:
    """Return standard normal numbers of some of so many records, shape (m, columns): the same ones for each record.

    Parameters
    ----------
    seed : int
        Of the draw.
    count, columns : int
        How many records there are, and how many numbers each of them has.
    rows : slice
        Of a step of 1.
    """
    start, stop, _ = rows.indices(count)
    window = window_of(columns)
    found = np.empty((max(0, stop - start), columns))
    for number in range(start // window, -(-stop // window)):
        first = number * window
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(number,)))
        begin, end = max(start, first), min(stop, first + window)
        # What stands behind the last that is asked for is not drawn.
        drawn = rng.standard_normal((end - first, columns))
        found[begin - start : end - start] = drawn[begin - first :]
    return found
