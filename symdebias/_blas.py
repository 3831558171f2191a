"""The library of linear algebra below NumPy and SciPy: one thread while matrices are small.

OpenBLAS shares out a product of a few thousand rows, which takes microseconds, and its threads then wait for the next
one in a loop. That takes a fit twice its time on two free processors and several times where they are busy, and the
last bits of what comes out depend on how many there are. Passes over all records are on all cores by kernels.
"""

import contextlib
import ctypes
import functools
import importlib.util
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy

from symdebias._forks import LockOfThreads

# How builds of OpenBLAS name what is asked for: with a prefix in the wheels of NumPy and SciPy, and a suffix where
# integers have 64 bits.
_NAMES = [(prefix, suffix) for prefix in ("scipy_openblas", "openblas") for suffix in ("", "64_", "_64")]


class _Threads:
    """The threads of all copies of OpenBLAS in this process, which are few while anybody asks for it."""

    def __init__(self) -> None:
        self._threads = LockOfThreads()
        self._asking = 0
        self._before: list[tuple[Callable[[int], None], int]] = []

    def begin(self) -> None:
        with self._threads.lock:
            self._asking += 1
            if self._asking == 1:
                self._before = [(put, many) for get, put in _copies() if (many := get()) > 1]
                for put, _ in self._before:
                    put(1)

    def end(self) -> None:
        with self._threads.lock:
            self._asking -= 1
            if self._asking == 0:
                for put, many in self._before:
                    put(many)


_threads = _Threads()


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Let linear algebra be done on the thread that asks for it; afterwards it is as it was before.

    Several threads may be within at once. Libraries other than OpenBLAS are left as they are.

    Examples
    --------
    >>> with one_thread():
    ...     np.linalg.inv(np.eye(2)).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    _threads.begin()
    try:
        yield
    finally:
        _threads.end()


@functools.cache
def _copies() -> Sequence[tuple[Callable[[], int], Callable[[int], None]]]:
    """Return what reads and what sets the number of threads of each copy of OpenBLAS."""
    found = {}
    for path in _paths():
        try:
            library: Any = ctypes.CDLL(path)
        except OSError:
            continue
        for prefix, suffix in _NAMES:
            get, put = (getattr(library, f"{prefix}_{what}_num_threads{suffix}", None) for what in ("get", "set"))
            if get is not None and put is not None:
                put.argtypes, put.restype = [ctypes.c_int], None
                # The same copy is found by more than one path.
                found[ctypes.cast(put, ctypes.c_void_p).value] = get, put
    return list(found.values())


def _paths() -> Iterator[str]:
    """Yield files through which copies may be found: modules that are linked to them, and what lies in wheels."""
    for module in ("numpy.linalg._umath_linalg", "scipy.linalg.cython_blas"):
        spec = importlib.util.find_spec(module)
        if spec is not None and spec.origin is not None:
            yield spec.origin
    for package in (np, scipy):
        folder = Path(str(package.__file__)).parent
        yield from map(str, folder.with_name(f"{folder.name}.libs").glob("*openblas*"))
