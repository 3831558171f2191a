"""Write the arithmetic of kernels into LLVM's language, so that Numba need not look at it.

Most of what Numba takes to compile a kernel it takes to analyse and to type one operation after another: each variable,
each number that is read from an array, each product. Kernels are made of few things: assignments of numbers, reads and
writes of arrays, loops over ranges, choices, and calls of functions of the same kind. `scope` says what these are.
`parts` takes the longest rows of them out of a function before Numba sees it; each is a call of an intrinsic function
then, which `writer` writes, with the types that `kinds` has found. What an operation on numbers is, and of what type,
Numba is asked once for all of its uses.

Indices count from the beginning: nothing asks whether one is negative. Slices, and arrays that are made, are views
within one part. Numba gives the freedoms of a kernel with floating-point arithmetic to all that is written in it.
"""

import functools
import hashlib
import inspect

from symdebias.codegen.direct import kinds, parts, scope, widths, writer
from symdebias.codegen.direct.parts import execute, key_of

__all__ = ["digest", "execute", "key_of"]


@functools.cache
def digest() -> str:
    """Return a hash of how parts are found and written: what another version has compiled is another kernel."""
    texts = (inspect.getsource(module) for module in (kinds, parts, scope, widths, writer))
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:32]
