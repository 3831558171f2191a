"""Kernels in tests: plain Python for calls of few records, compiled for others.

Most tests ask a kernel for a few records, and a kernel takes a second or more to compile. Both forms are one text, and
`tests/codegen` holds one against the other for every part that a kernel is made of. They differ in the last bit, so the
number of records of a call decides which one answers, and a kernel that Python has read enough for is compiled from the
next file of tests on: what is called twice in a file is the same twice.

Half of a compilation is LLVM's optimisation, which pays where millions of records are read. So one in four files, those
whose turn it is by the commit, has kernels as the library compiles them, as have the documents, docstrings, tests of
the compilation and all processes that tests start; in the others the same code is translated as it is written, unless
the first call of a file has many records.
"""

import contextlib
import dataclasses
import warnings
from collections import Counter

import numba
import numpy as np
from numba.core.errors import NumbaWarning

from symdebias.codegen import cache

# Records of a call, and of all calls in the files before: what Python reads in the time of a compilation.
RECORDS, MOST = 100, 20_000
# Kernels that take theta, X and y first. Passes of descent compile: many records, and steps that add up last bits.
NAMES = ("loss", "mean_loss", "mean_gradient", "mean_derivatives")
# Those that LLVM need not optimise. What noise is added to stays as it is.
PASSES = ("sgd_pass",)
# Whether it optimises all of them; else those that are called with more records than this first.
OPTIMIZED, LONG = True, 10_000

# That of the library.
COMPILE = cache._compile


class Compiled:
    """A kernel that is compiled in the form of the file that calls it.

    Attributes
    ----------
    is_long : bool or None
        Whether the first call of the file had so many records that LLVM optimises; None before it.
    """

    def __init__(self, source, compile_it):
        self.is_long = None
        self._source, self._compile_it = source, compile_it
        self._forms = {}

    def __call__(self, *arguments):
        if self.is_long is None and not OPTIMIZED:
            self.is_long = len(arguments[1]) > LONG
        return self.compiled(*arguments)

    @property
    def compiled(self):
        """The compiled kernel."""
        is_optimized = OPTIMIZED or bool(self.is_long)
        # No other thread makes a plain kernel meanwhile, for which nothing is compiled.
        with cache._THREADS.lock:
            if is_optimized not in self._forms:
                self._forms[is_optimized] = self._compile_it(is_optimized)
            return self._forms[is_optimized]

    def __getattr__(self, name):
        return getattr(self.compiled, name)


class Tiered(Compiled):
    """A kernel that is compiled when a call has work enough.

    Attributes
    ----------
    read : int
        The number of records that Python has read so far.
    is_read_enough : bool
        Whether it has read so many in the files before that every call is compiled.
    """

    def __init__(self, source, compile_it):
        super().__init__(source, compile_it)
        self.read = 0
        self.is_read_enough = False
        self._plain = None

    def __call__(self, *arguments):
        count = len(arguments[1])
        if count <= RECORDS and not self.is_read_enough:
            self.read += count
            try:
                return self._in_python(arguments)
            except (ArithmeticError, ValueError):
                # Where compiled code goes on with infinity or NaN, Python's functions raise.
                pass
        return super().__call__(*arguments)

    def _in_python(self, arguments):
        """Call the plain kernel on copies of what it writes into, so that a call that raises leaves nothing behind.

        Arrays that share memory share it as copies: what is written to a tile is read from the same tile turned, whose
        base is the tile, or the array that both are parts of.
        """
        if self._plain is None:
            self._plain = cache.plain_kernel(self._source)
        copies = copied([one for one in arguments if isinstance(one, np.ndarray) and one.flags.writeable])
        with np.errstate(all="ignore"):
            found = self._plain(*(copies.get(id(one), one) for one in arguments))
        for one in arguments:
            if id(one) in copies:
                one[...] = copies[id(one)]
        return found


def copied(arrays):
    """Return copies of arrays by their identities; those that share an owner of their memory share one of a copy."""
    owners = {id(one): owner(one) for one in arrays}
    shared = Counter(id(of) for of in owners.values())
    rooms = {id(of): of.ravel(order="K").copy() for of in owners.values() if shared[id(of)] > 1}
    copies = {}
    for one in arrays:
        of = owners[id(one)]
        if id(of) in rooms:
            offset = one.ctypes.data - of.ctypes.data
            copies[id(one)] = np.ndarray(one.shape, one.dtype, rooms[id(of)], offset, one.strides)
        else:
            copies[id(one)] = one.copy()
    return copies


def owner(array):
    """Return the array that another is a part of, or a turn of."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


_kernels = {}


def kernel(key, source):
    """Stand in for the library's compilation."""
    if source.name not in NAMES + PASSES:
        return COMPILE(key, source)
    if key not in _kernels:
        kind = Tiered if source.name in NAMES else Compiled
        _kernels[key] = kind(source, lambda is_optimized: compiled(source, is_optimized))
    return _kernels[key]


def compiled(source, is_optimized):
    """Compile a kernel in one of two forms; each has a key of its own, and so have the helpers in it."""
    if not is_optimized:
        # Flags that are named twice are the same flags.
        other = dataclasses.replace(source, fastmath=source.fastmath * 2)
        with contextlib.suppress(NumbaWarning), warnings.catch_warnings(), unoptimized():
            # Nothing is kept of a kernel with large tables, whose addresses stay in the code that is not optimised.
            warnings.simplefilter("error", NumbaWarning)
            return COMPILE(other.key, other)
    return COMPILE(source.key, source)


@contextlib.contextmanager
def unoptimized():
    """Have LLVM translate what is written."""
    before, numba.config.OPT = numba.config.OPT, type(numba.config.OPT)(0)
    try:
        yield
    finally:
        numba.config.OPT = before


def begin_file(is_optimized):
    """Compile from here on what Python has read enough for, in the form of this file."""
    global OPTIMIZED
    OPTIMIZED = is_optimized
    for one in _kernels.values():
        one.is_long = None
        if isinstance(one, Tiered):
            one.is_read_enough = one.read >= MOST


def end_file():
    """Compile what is no test as the library does."""
    global OPTIMIZED
    OPTIMIZED = True


def install():
    cache._compile = kernel
