"""Kernels in tests: plain Python for calls of few records, compiled for others.

Most tests ask a kernel for a few records, and a kernel takes a second or more to compile. Both forms are one text, and
`tests/codegen` holds one against the other for every part that a kernel is made of. They differ in the last bit, so the
number of records of a call decides which one answers, and a kernel that Python has read enough for is compiled from the
next file of tests on: what is called twice in a file is the same twice.
"""

from collections import Counter

import numpy as np

from symdebias.codegen import cache

# Records of a call, and of all calls in the files before: what Python reads in the time of a compilation.
RECORDS, MOST = 100, 20_000
# Kernels that take theta, X and y first. Passes of descent compile: many records, and steps that add up last bits.
NAMES = ("loss", "mean_loss", "mean_gradient", "mean_derivatives")


# That of the library.
COMPILE = cache._compile


class Tiered:
    """A kernel that is compiled when a call has work enough.

    Attributes
    ----------
    read : int
        The number of records that Python has read so far.
    is_read_enough : bool
        Whether it has read so many in the files before that every call is compiled.
    """

    def __init__(self, source, compile_it):
        self.read = 0
        self.is_read_enough = False
        self._source, self._compile_it = source, compile_it
        self._plain = self._compiled = None

    def __call__(self, *arguments):
        count = len(arguments[1])
        if count <= RECORDS and not self.is_read_enough:
            self.read += count
            try:
                return self._in_python(arguments)
            except (ArithmeticError, ValueError):
                # Where compiled code goes on with infinity or NaN, Python's functions raise.
                pass
        return self.compiled(*arguments)

    @property
    def compiled(self):
        """The kernel of the library."""
        # No other thread makes a plain kernel meanwhile, for which nothing is compiled.
        with cache._THREADS.lock:
            if self._compiled is None:
                self._compiled = self._compile_it()
        return self._compiled

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

    def __getattr__(self, name):
        return getattr(self.compiled, name)


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
    if source.name not in NAMES:
        return COMPILE(key, source)
    if key not in _kernels:
        _kernels[key] = Tiered(source, lambda: COMPILE(key, source))
    return _kernels[key]


def begin_file():
    """Compile from here on what Python has read enough for."""
    for one in _kernels.values():
        one.is_read_enough = one.read >= MOST


def install():
    cache._compile = kernel
