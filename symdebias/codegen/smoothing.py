"""The kernel of periodic Laplacian smoothing: two first-order recursions per line, and no Fourier transform.

A recursion waits for its own last value, some four cycles a step. So a line is cut into eight segments that run side
by side; where a segment starts follows from the end of the one before it, as the recursion forgets geometrically.
"""

import functools
import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any

import numba
import numpy as np

from symdebias.codegen.cache import KernelSource, compile_kernel

# A multiply and an add may become one instruction; the order of operations stays.
_FASTMATH = ("contract",)


def kernel(lines, alpha, beta, decay, out):  # type: ignore[no-untyped-def]
    """Solve x_i - sigma (x_{i-1} - 2 x_i + x_{i+1}) = v_i, indices periodic, for each line v.

    With A = I - sigma L = (I - alpha S)(I - alpha S')/beta^2, S the cyclic shift:

        y_i = alpha y_{i-1} + beta v_i,    x_i = alpha x_{i+1} + beta y_i

    Parameters
    ----------
    lines, out : array of shape (k, d), float64
        The lines v, and where the x go.
    alpha, beta, decay : float
        The decay per step, 1 - alpha and -log(alpha).

    Returns
    -------
    float
        Not finite if an entry of the lines is not; the reverse need not hold near the largest float.
    """
    count, size = lines.shape
    m = size // 8
    # Streams that are a multiple of 4096 bytes apart would fight for the same lines of the cache.
    if m > 2048:
        m -= (m - 8) % 16
    rest = size - 7 * m
    # Beyond so many steps less than 2^-64 is left of a value.
    memory = math.ceil(44.4 / decay)
    reach = min(m, memory)
    last_reach = min(rest, memory)
    over_segment, over_rest = math.exp(-m * decay), math.exp(-rest * decay)
    whole = -math.expm1(-size * decay)
    total = 0.0
    for line in range(count):
        v, x = lines[line], out[line]
        v0, v1, v2, v3 = v[:m], v[m : 2 * m], v[2 * m : 3 * m], v[3 * m : 4 * m]
        v4, v5, v6, v7 = v[4 * m : 5 * m], v[5 * m : 6 * m], v[6 * m : 7 * m], v[7 * m :]
        x0, x1, x2, x3 = x[:m], x[m : 2 * m], x[2 * m : 3 * m], x[3 * m : 4 * m]
        x4, x5, x6, x7 = x[4 * m : 5 * m], x[5 * m : 6 * m], x[6 * m : 7 * m], x[7 * m :]

        # What each segment leaves to the next one of its own.
        s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
        for i in range(m - reach, m):
            s0 = alpha * s0 + beta * v0[i]
            s1 = alpha * s1 + beta * v1[i]
            s2 = alpha * s2 + beta * v2[i]
            s3 = alpha * s3 + beta * v3[i]
            s4 = alpha * s4 + beta * v4[i]
            s5 = alpha * s5 + beta * v5[i]
            s6 = alpha * s6 + beta * v6[i]
        for i in range(rest - last_reach, rest):
            s7 = alpha * s7 + beta * v7[i]
        # With what came from before: round the circle once, and then for ever.
        s1 += over_segment * s0
        s2 += over_segment * s1
        s3 += over_segment * s2
        s4 += over_segment * s3
        s5 += over_segment * s4
        s6 += over_segment * s5
        start = (s7 + over_rest * s6) / whole
        y0 = start
        reaching = over_segment
        y1 = s0 + reaching * start
        reaching *= over_segment
        y2 = s1 + reaching * start
        reaching *= over_segment
        y3 = s2 + reaching * start
        reaching *= over_segment
        y4 = s3 + reaching * start
        reaching *= over_segment
        y5 = s4 + reaching * start
        reaching *= over_segment
        y6 = s5 + reaching * start
        reaching *= over_segment
        y7 = s6 + reaching * start
        for i in range(m):
            y0 = alpha * y0 + beta * v0[i]
            y1 = alpha * y1 + beta * v1[i]
            y2 = alpha * y2 + beta * v2[i]
            y3 = alpha * y3 + beta * v3[i]
            y4 = alpha * y4 + beta * v4[i]
            y5 = alpha * y5 + beta * v5[i]
            y6 = alpha * y6 + beta * v6[i]
            y7 = alpha * y7 + beta * v7[i]
            x0[i] = y0
            x1[i] = y1
            x2[i] = y2
            x3[i] = y3
            x4[i] = y4
            x5[i] = y5
            x6[i] = y6
            x7[i] = y7
        for i in range(m, rest):
            y7 = alpha * y7 + beta * v7[i]
            x7[i] = y7
        total += y0 + y1 + y2 + y3 + y4 + y5 + y6 + y7

        # The same backwards, in place.
        s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
        for i in range(reach - 1, -1, -1):
            s0 = alpha * s0 + beta * x0[i]
            s1 = alpha * s1 + beta * x1[i]
            s2 = alpha * s2 + beta * x2[i]
            s3 = alpha * s3 + beta * x3[i]
            s4 = alpha * s4 + beta * x4[i]
            s5 = alpha * s5 + beta * x5[i]
            s6 = alpha * s6 + beta * x6[i]
        for i in range(last_reach - 1, -1, -1):
            s7 = alpha * s7 + beta * x7[i]
        s6 += over_segment * s7
        s5 += over_segment * s6
        s4 += over_segment * s5
        s3 += over_segment * s4
        s2 += over_segment * s3
        s1 += over_segment * s2
        start = (s0 + over_segment * s1) / whole
        y7 = start
        reaching = over_rest
        y6 = s7 + reaching * start
        reaching *= over_segment
        y5 = s6 + reaching * start
        reaching *= over_segment
        y4 = s5 + reaching * start
        reaching *= over_segment
        y3 = s4 + reaching * start
        reaching *= over_segment
        y2 = s3 + reaching * start
        reaching *= over_segment
        y1 = s2 + reaching * start
        reaching *= over_segment
        y0 = s1 + reaching * start
        for i in range(rest - 1, m - 1, -1):
            y7 = alpha * y7 + beta * x7[i]
            x7[i] = y7
        for i in range(m - 1, -1, -1):
            y0 = alpha * y0 + beta * x0[i]
            y1 = alpha * y1 + beta * x1[i]
            y2 = alpha * y2 + beta * x2[i]
            y3 = alpha * y3 + beta * x3[i]
            y4 = alpha * y4 + beta * x4[i]
            y5 = alpha * y5 + beta * x5[i]
            y6 = alpha * y6 + beta * x6[i]
            y7 = alpha * y7 + beta * x7[i]
            x0[i] = y0
            x1[i] = y1
            x2[i] = y2
            x3[i] = y3
            x4[i] = y4
            x5[i] = y5
            x6[i] = y6
            x7[i] = y7
    return total


@functools.cache
def smoothing_source() -> KernelSource:
    """Return the kernel's source as it is compiled."""
    text = f"import math\n\n\n{inspect.getsource(kernel)}"
    number = numba.float64
    given = numba.types.Array(number, 2, "C", readonly=True)
    signature = number(given, number, number, number, numba.types.Array(number, 2, "C"))
    return KernelSource("smoothing", text, signature, _FASTMATH, _probe)


@functools.cache
def smoothing_kernel() -> Callable[..., Any]:
    """Return the compiled kernel; see `kernel` for its arguments."""
    return compile_kernel(smoothing_source())


def smoothing_function() -> str:
    """Return the kernel as a function ``smooth_lines`` of another generated module."""
    text = inspect.getsource(kernel).replace("def kernel(", "def smooth_lines(", 1)
    return f"\n@helper(fastmath={set(_FASTMATH)!r})\n{text}"


# How a step smooths its gradient: ``smoothing`` has alpha, beta, decay, the length of a line, and 1 where the columns
# are smoothed after the rows. Lines of one entry stay as they are.
STEP_FUNCTION = """
@helper()
def smooth_gradient(gradient, smoothing, smoothed):
    alpha, beta, decay, length = smoothing[0], smoothing[1], smoothing[2], int(smoothing[3])
    count = gradient.shape[0]//length
    rounds = 2 if smoothing[4] > 0.0 else 1
    for turn in range(rounds):
        if length > 1:
            smooth_lines(gradient.reshape(count, length), alpha, beta, decay, smoothed.reshape(count, length))
            for i in range(gradient.shape[0]):
                gradient[i] = smoothed[i]
        if rounds == 2:
            for k in range(count):
                for j in range(length):
                    smoothed[j*count + k] = gradient[k*length + j]
            for i in range(gradient.shape[0]):
                gradient[i] = smoothed[i]
            count, length = length, count

"""


def _probe(compiled: Callable[..., Any]) -> Sequence[float]:
    lines = np.sin(1.0 + np.arange(40.0)).reshape(2, 20)
    out = np.empty_like(lines)
    total = compiled(lines, 0.5, 0.5, math.log(2.0), out)
    return [total, *(float(value) for value in out.ravel())]
