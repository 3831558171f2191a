"""A kernel on design rows, the same for every loss: their moments and largest entries, and how far out each is.

Blocks of rows are turned into tiles of columns, as in `symdebias.codegen.score.hessian`: all that is asked of a block
is then computed while it is near, and one reading of the rows does.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numba
import numpy as np

from symdebias._arrays import FloatArray, IntegerArray
from symdebias.codegen import vectors
from symdebias.codegen.cache import KernelSource, compile_kernel
from symdebias.codegen.kernels import FASTMATH, prelude
from symdebias.codegen.program import BLOCK, STRIDE, indented
from symdebias.codegen.score.hessian import MOMENTS, whole
from symdebias.codegen.workspace import zeros

# Of up to so many columns leverages are computed by NumPy: so many numbers at a time, which stay in the cache and are
# enough work for a call.
FEW_COLUMNS, _NUMBERS = 4, 2**14

_vector = numba.types.Array(numba.float64, 1, "C")
_given_vector = numba.types.Array(numba.float64, 1, "C", readonly=True)
_given_matrix = numba.types.Array(numba.float64, 2, "C", readonly=True)
_whole = numba.types.Array(numba.int64, 1, "C")
_matrix = numba.types.Array(numba.float64, 2, "C")


# Two rows of the triangle at a time share what they read.
_LEVERAGES = f"""@helper()
def add_leverages(tile, count, rows, root, found, turned):
    upper, lower = turned[:count], turned[{BLOCK}:{BLOCK} + count]
    for j in range(0, rows, 2):
        # Of an odd number of rows the last has no other beside it.
        k = j + 1 if j + 1 < rows else j
        a, b = root[j*rows + j], root[j*rows + k] if k > j else 0.0
        f = root[k*rows + k] if k > j else 0.0
        first, second = tile[j*{STRIDE}:j*{STRIDE} + count], tile[k*{STRIDE}:k*{STRIDE} + count]
        for i in range(count):
            upper[i] = a*first[i] + b*second[i]
            lower[i] = f*second[i]
        l = j + 2
        while l + 2 <= rows:
            m, n, place = j*rows + l, k*rows + l, l*{STRIDE}
            a, b = root[m], root[m + 1]
            e, f = root[n], root[n + 1]
            first, second = tile[place:place + count], tile[place + {STRIDE}:place + {STRIDE} + count]
            if l + 4 <= rows:
                c, d = root[m + 2], root[m + 3]
                g, h = root[n + 2], root[n + 3]
                third, fourth = tile[place + 2*{STRIDE}:place + 2*{STRIDE} + count], tile[place + 3*{STRIDE}:]
                for i in range(count):
                    one = upper[i] + (a*first[i] + b*second[i] + c*third[i] + d*fourth[i])
                    other = lower[i] + (e*first[i] + f*second[i] + g*third[i] + h*fourth[i])
                    upper[i], lower[i] = one, other
                l += 4
            else:
                for i in range(count):
                    one, other = upper[i] + (a*first[i] + b*second[i]), lower[i] + (e*first[i] + f*second[i])
                    upper[i], lower[i] = one, other
                l += 2
        if l < rows:
            a, e = root[j*rows + l], root[k*rows + l]
            first = tile[l*{STRIDE}:l*{STRIDE} + count]
            for i in range(count):
                upper[i] += a*first[i]
                lower[i] += e*first[i]
        for i in range(count):
            found[i] += upper[i]*upper[i] + lower[i]*lower[i]
"""


_CALLED = """
        if out.shape[0] > 0:
            add_leverages(tile, count, rows, root, out[start:start + count], scaled)
        if square.shape[0] == 0:
            continue"""


def _text(*, with_leverages: bool) -> str:
    return f"""{MOMENTS}

{vectors.fill_text(STRIDE)}

{_LEVERAGES if with_leverages else ""}

def kernel(records, y, weights, square, line, largest, root, out, tile, bits, kept, scaled):
    rows = records.shape[1]
    for start in range(0, records.shape[0], {BLOCK}):
        count = min({BLOCK}, records.shape[0] - start)
        X = records[start:start + count]
{indented(chr(10).join(vectors.fill_lines(STRIDE)), 8)}{_CALLED if with_leverages else ""}
        for i in range(count):
            weight = weights[start + i] if weights.shape[0] > 0 else 1.0
            kept[i] = weight
            kept[{BLOCK} + i] = weight
            kept[{2 * BLOCK} + i] = weight*y[start + i]
        add_moments(tile, kept, count, square, line, scaled)
        for j in range(rows):
            # Numbers without their signs are in the order of their bits, NaN and infinity last.
            most = largest[j]
            for i in range(count):
                size = bits[j*{STRIDE} + i] & 0x7FFFFFFFFFFFFFFF
                most = size if size > most else most
            largest[j] = most
"""


@functools.cache
def source(*, with_leverages: bool) -> KernelSource:
    """Return the generated source of the kernel, with leverages or without: they are a third of what it compiles."""
    signature = numba.void(
        _given_matrix, _given_vector, _given_vector, _vector, _matrix, _whole, _given_vector, _vector, _vector, _whole,
        _vector, _vector,
    )  # fmt: skip
    name = "row_moments_and_leverages" if with_leverages else "row_moments"
    body = f"{prelude(frozenset())}\n\n{_text(with_leverages=with_leverages)}"
    text = f'"""Generated: {name} for any number of columns."""\n{body}\n'
    return KernelSource(name, text, signature, FASTMATH, functools.partial(_probe, with_leverages=with_leverages))


def compiled(*, with_leverages: bool) -> Callable[..., Any]:
    """Return the compiled kernel."""
    return compile_kernel(source(with_leverages=with_leverages))


def moments_of_rows(
    X: FloatArray, y: FloatArray, weights: FloatArray, root: FloatArray | None = None
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return sums over rows x with weights w: of w x x', of w x, and of w x y; the largest sizes of entries; leverages.

    Of up to `FEW_COLUMNS` columns leverages are computed by NumPy, which takes hardly longer and compiles nothing.

    Parameters
    ----------
    X : array of shape (n, q), float64
        The rows.
    y : array of shape (n,), float64
        What they are multiplied with in the third sum.
    weights : array of shape (n,) or (0,), float64
        Their weights; empty where all weigh the same.
    root : array of shape (q, q), float64, optional
        Where given, the squared lengths of x'root are returned as well.

    Returns
    -------
    products : array of shape (q, q), float64
        The first sum.
    sums, cross : arrays of shape (q,), float64
        The second and the third.
    largest : array of shape (q,), float64
        The largest absolute entries; infinite or NaN where there are entries that are not finite.
    leverages : array of shape (n,) or (0,), float64
        The squared lengths.
    """
    if X.shape[1] > FEW_COLUMNS:
        return _moments(compiled(with_leverages=True), X, y, weights, root)
    found = _moments(compiled(with_leverages=False), X, y, weights, None)
    return found if root is None else (*found[:-1], leverages_of_rows(X, root))


def _moments(
    kernel: Callable[..., Any], X: FloatArray, y: FloatArray, weights: FloatArray, root: FloatArray | None
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
    q = X.shape[1]
    square, line, largest = np.zeros(q * q), np.zeros((2, q)), np.zeros(q, np.int64)
    found = np.zeros(0 if root is None else len(X))
    _called(kernel, X, y, weights, square, line, largest, root, found)
    return whole(square.reshape(q, q)), line[0], line[1], largest.view(np.float64), found


def leverages_of_rows(X: FloatArray, root: FloatArray) -> FloatArray:
    """Return the squared lengths of x'R for rows x, shape (n,).

    Parameters
    ----------
    X : array of shape (n, q), float64
        The rows.
    root : array of shape (q, q), float64
        R.
    """
    if X.shape[1] > FEW_COLUMNS:
        none, found = np.empty(0), np.zeros(len(X))
        kernel = compiled(with_leverages=True)
        _called(kernel, X, none, none, none, np.empty((2, 0)), np.empty(0, np.int64), root, found)
        return found
    return plain_leverages(X, root)


def _called(
    kernel: Callable[..., Any], X: FloatArray, y: FloatArray, weights: FloatArray, square: FloatArray,
    line: FloatArray, largest: IntegerArray, root: FloatArray | None, found: FloatArray,
) -> None:  # fmt: skip
    """Call the kernel with its workspace."""
    triangle = np.empty(0) if root is None else _triangle(root.tobytes())
    tile, kept, scaled = zeros((X.shape[1] * STRIDE,), (3 * BLOCK,), (2 * BLOCK,))
    kernel(
        np.ascontiguousarray(X), y, weights, square, line, largest, triangle, found, tile, tile.view(np.int64), kept,
        scaled,
    )  # fmt: skip


@functools.lru_cache(maxsize=4)
def _triangle(root: bytes) -> FloatArray:
    """Return a triangle by which rows are as long as by a root, row by row: half of its entries are zeros."""
    square = np.frombuffer(root)
    size = math.isqrt(len(square))
    found = np.ascontiguousarray(np.linalg.qr(square.reshape(size, size).T, mode="r")).reshape(-1)
    found.setflags(write=False)
    return found


def plain_leverages(X: FloatArray, root: FloatArray) -> FloatArray:
    """Return the same by NumPy.

    Parameters
    ----------
    X, root
        As for `leverages_of_rows`.
    """
    found = np.empty(len(X))
    step, ones = max(1, _NUMBERS // len(root)), np.ones(len(root))
    # What overflows is told by who asks.
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, len(X), step):
            turned = X[start : start + step] @ root
            np.square(turned, out=turned)
            np.matmul(turned, ones, out=found[start : start + step])
    return found


def _probe(kernel: Callable[..., Any], *, with_leverages: bool) -> Sequence[float]:
    """Return a call on fixed inputs whose answer a kernel read from disk must repeat."""
    rows, root = np.sin(1.0 + np.arange(21.0)).reshape(3, 7), np.cos(np.arange(49.0)).reshape(7, 7)
    asked = root if with_leverages else None
    found = _moments(kernel, rows, np.array([-1.0, 1.0, 0.5]), np.array([1.0, 2.0, 0.5]), asked)
    return [float(value) for part in found for value in part.ravel()]
