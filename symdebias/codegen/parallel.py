"""Run a kernel that sums over records on all cores: chunks of rows, whose results are added in order.

Chunks have a fixed size, so that a result does not depend on the number of threads. Kernels release Python's lock.
"""

import functools
import itertools
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numba
import numpy as np

from symdebias._arrays import FloatArray

# Rows of a chunk: some hundred microseconds of work, against some ten for starting a thread.
CHUNK = 2**15


def over_chunks(rows: int, work: Callable[[slice], Any]) -> list[Any]:
    """Return what `work` says of each chunk of rows, in order.

    Parameters
    ----------
    rows : int
        How many rows there are.
    work : callable
        Takes a slice of the rows; runs on several threads at once.
    """
    chunks = [slice(start, min(start + CHUNK, rows)) for start in range(0, rows, CHUNK)]
    threads = min(len(chunks), numba.get_num_threads()) if len(chunks) > 1 else 1
    if threads <= 1:
        return [work(chunk) for chunk in chunks]
    return list(_pool(threads, os.getpid()).map(work, chunks))


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
    parts = max(1, min(count // fewest, numba.get_num_threads()))
    cuts = [count * part // parts for part in range(parts + 1)]
    slices = [slice(*pair) for pair in itertools.pairwise(cuts)]
    if parts == 1:
        work(slices[0])
    else:
        list(_pool(parts, os.getpid()).map(work, slices))


@functools.cache
def _pool(threads: int, process: int) -> ThreadPoolExecutor:
    """Return threads that wait for work: starting them takes longer than a pass. A forked process has its own."""
    return ThreadPoolExecutor(threads, thread_name_prefix="symdebias")


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

    parts = over_chunks(len(matrix), work)
    value = float(sum(part for part, _ in parts)) if parts[0][0] is not None else 0.0
    arrays = [sum((filled[i] for _, filled in parts[1:]), parts[0][1][i]) for i in range(len(shapes))]
    return value, arrays
