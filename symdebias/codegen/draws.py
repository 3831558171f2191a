"""Kernels of the noise of many records: rounded noise from random words, and values clipped and placed on its grid.

Each is a loop over records that takes no part of Python with it, so that several of them run at once. All that they
return is integers, or floats that stand for integers, and which of them are in doubt: where they are not, they are
those of any other way of computing them.
"""

import functools
import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any

import numba
import numpy as np

from symdebias.codegen import discrete_draws
from symdebias.codegen.cache import KernelSource, compile_kernel
from symdebias.codegen.kernels import IMPORTS

# Fewer numbers than these are drawn and clipped sooner than a kernel is compiled.
MANY = 2**19
_TILE = discrete_draws.TILE
# Numbers of rows that are clipped at a time, and of which the same holds.
_CLIPPED = 640
# Trials of points of a sphere that are looked at together.
TRIALS = 64
# A sum with 3 2^51 has units of 1, and its bits are those of 3 2^51 plus the whole number.
_WHOLE = 6755399441055744.0
_WHOLE_BITS = int(np.float64(_WHOLE).view(np.int64))

_numbers = numba.types.Array(numba.float64, 1, "C")
_given_numbers = numba.types.Array(numba.float64, 1, "C", readonly=True)
_given_rows = numba.types.Array(numba.float64, 2, "C", readonly=True)
_rows = numba.types.Array(numba.float64, 2, "C")
_integers = numba.types.Array(numba.int64, 1, "C")
_integer_rows = numba.types.Array(numba.int64, 2, "C")
_given_integers = numba.types.Array(numba.int64, 1, "C", readonly=True)
_given_float_rows = numba.types.Array(numba.float32, 2, "C", readonly=True)
_given_halves = numba.types.Array(numba.int32, 2, "C", readonly=True)
_octets = numba.types.Array(numba.uint8, 1, "C")
_given_octets = numba.types.Array(numba.uint8, 1, "C", readonly=True)


def exponential(word):  # type: ignore[no-untyped-def]
    """Return -log u of the number u = (k + 1/2) 2^-63 in (0, 1), k the lower 63 bits of a word, to 2 ulp or so.

    u = 2^e m with m within sqrt(1/2) and sqrt(2), and log m = 2 artanh((m - 1)/(m + 1)), whose series has ten terms.
    """
    number = np.float64(np.float64(word & 0x7FFFFFFFFFFFFFFF) + 0.5)
    bits = np.int64(np.float64(number).view(np.int64))
    # Exponents count from sqrt(1/2) on.
    shifted = np.int64(bits - 0x3FE6A09E667F3BCD)
    exponent = np.int64(shifted >> 52)
    m = np.int64(bits - (exponent << 52)).view(np.float64)
    e = np.float64(exponent - 63)
    f = m - 1.0
    s = f / (m + 1.0)
    z = s * s
    p = 1.0 / 21.0
    p = p * z + 1.0 / 19.0
    p = p * z + 1.0 / 17.0
    p = p * z + 1.0 / 15.0
    p = p * z + 1.0 / 13.0
    p = p * z + 1.0 / 11.0
    p = p * z + 1.0 / 9.0
    p = p * z + 1.0 / 7.0
    p = p * z + 1.0 / 5.0
    p = p * z + 1.0 / 3.0
    # 2 s (1 + z p) = f - s (f - 2 z p), of which the first term is exact.
    log = e * 0.693147180369123816490 + (f - (s * (f - 2.0 * z * p) - e * 1.90821492927058770002e-10))
    return -log


def nearest(x):  # type: ignore[no-untyped-def]
    """Return the whole number that is nearest to x, of size below 2^51; of two the even one."""
    return (x + 6755399441055744.0) - 6755399441055744.0


def rough_pair(length, angle):  # type: ignore[no-untyped-def]
    """Return two normal numbers up to a common factor, in float32, from the upper halves of two words.

    As `symdebias.mechanisms.directions.rough_vectors`, which says what is wanted: with U = 2^e m, m within sqrt(1/2)
    and sqrt(2), -log U is within 2^-20 of itself, and the point of the circle within 2^-19.

    Four terms of 2 artanh((m - 1)/(m + 1)) leave out 2^-28 of it, m - 1 is exact, and of e log 2 + log m at most half
    cancels. The series of sine and cosine leave out 2^-24 and 2^-27 at pi/2.
    """
    # Exact in float64, and rounded once.
    flipped = np.float64(-1.0 - length)
    number = np.float32((flipped + 4294967296.0 if flipped < 0.0 else flipped) * 2.0**-32)
    number = max(number, np.float32(2.0**-12))
    bits = np.int32(np.float32(number).view(np.int32))
    exponent = np.int32(np.int32(bits - 0x3F3504F3) >> 23)
    m = np.int32(bits - np.int32(exponent << 23)).view(np.float32)
    f = m - np.float32(1.0)
    s = f / (m + np.float32(1.0))
    z = s * s
    p = z * np.float32(1.0 / 9.0) + np.float32(1.0 / 7.0)
    p = p * z + np.float32(1.0 / 5.0)
    p = p * z + np.float32(1.0 / 3.0)
    log = np.float32(exponent) * np.float32(0.6931471805599453) + np.float32(2.0) * s * (np.float32(1.0) + z * p)
    radius = np.sqrt(max(-log, np.float32(0.0)))
    # The first bit of an angle turns the pair round, and the others are phi in [-pi/2, pi/2).
    radius = -radius if angle < 0 else radius
    phi = np.float32(np.int32(angle << 1)) * np.float32(math.pi / 2 * 2.0**-31)
    z = phi * phi
    p = z * np.float32(-1.0 / 39916800.0) + np.float32(1.0 / 362880.0)
    p = p * z + np.float32(-1.0 / 5040.0)
    p = p * z + np.float32(1.0 / 120.0)
    p = p * z + np.float32(-1.0 / 6.0)
    q = z * np.float32(1.0 / 479001600.0) + np.float32(-1.0 / 3628800.0)
    q = q * z + np.float32(1.0 / 40320.0)
    q = q * z + np.float32(-1.0 / 720.0)
    q = q * z + np.float32(1.0 / 24.0)
    q = q * z + np.float32(-0.5)
    return radius * (np.float32(1.0) + z * q), radius * (phi + phi * z * p)


_LAPLACE = f"""
def kernel(words, scale, least, few, found, places):
    doubts = np.empty({_TILE}, np.int64)
    count = 0
    for start in range(0, len(words), {_TILE}):
        size = min({_TILE}, len(words) - start)
        given, out = words[start:start + size], found[start:start + size]
        any_doubt = 0
        for i in range(size):
            word = given[i]
            length = exponential(word)*scale
            whole = nearest(length)
            doubt = np.int64(abs(length - whole) > least) | np.int64((word & 0x7FFFFFFFFFFFFFFF) < few)
            doubts[i] = doubt
            any_doubt |= doubt
            sign = word >> 63
            out[i] = (np.int64(whole) ^ sign) - sign
{discrete_draws.LISTED}"""

_NORMAL = f"""
def kernel(lengths, angles, scale, least, few, found, places):
    # The pairs of a tile, and of the whole the second coordinates begin after all of the first.
    pairs = len(lengths)
    doubts = np.empty({_TILE}, np.int64)
    count = 0
    for start in range(0, pairs, {_TILE}):
        size = min({_TILE}, pairs - start)
        first, second = lengths[start:start + size], angles[start:start + size]
        one, two = found[start:start + size], found[pairs + start:pairs + start + size]
        any_doubt = 0
        for i in range(size):
            half = exponential(first[i])
            radius = np.sqrt(2.0*half)*scale
            # Half turns, of which quarters are taken out exactly.
            turn = np.float64(second[i])*{2.0**-63!r}
            quarter = nearest(2.0*turn)
            r = (turn - 0.5*quarter)*{math.pi!r}
            z = r*r
            p = -1.0/1307674368000.0
            p = p*z + 1.0/6227020800.0
            p = p*z - 1.0/39916800.0
            p = p*z + 1.0/362880.0
            p = p*z - 1.0/5040.0
            p = p*z + 1.0/120.0
            p = p*z - 1.0/6.0
            odd = r + r*z*p
            q = 1.0/20922789888000.0
            q = q*z - 1.0/87178291200.0
            q = q*z + 1.0/479001600.0
            q = q*z - 1.0/3628800.0
            q = q*z + 1.0/40320.0
            q = q*z - 1.0/720.0
            q = q*z + 1.0/24.0
            q = q*z - 0.5
            even = 1.0 + z*q
            k = np.int64(quarter)
            swapped = (k & 1) == 1
            cosine = odd if swapped else even
            sine = even if swapped else odd
            cosine = -cosine if ((k + 1) & 2) == 2 else cosine
            sine = -sine if (k & 2) == 2 else sine
            a, b = radius*cosine, radius*sine
            whole_a, whole_b = nearest(a), nearest(b)
            unclear = np.int64(half < {2.0**-17!r}) | np.int64((first[i] & 0x7FFFFFFFFFFFFFFF) < few)
            doubt = 3*unclear | np.int64(abs(a - whole_a) > least) | (np.int64(abs(b - whole_b) > least) << 1)
            doubts[i] = doubt
            any_doubt |= doubt
            one[i], two[i] = np.int64(whole_a), np.int64(whole_b)
        if any_doubt:
            for i in range(size):
                if doubts[i]:
                    # 1 for the first coordinate and 2 for the second one.
                    if count < len(places):
                        places[count] = 4*(start + i) + doubts[i]
                    count += 1
    return count
"""

_PLACE_NUMBERS = """
def kernel(values, start, per_unit, low, high, places):
    bad = np.int64(0)
    for i in range(len(values)):
        whole = np.rint((values[i] - start)*per_unit)
        inside = whole if whole > low else low
        inside = inside if inside < high else high
        # NaN is not within a step either.
        bad |= np.int64(not abs(inside - whole) <= 1.0)
        places[i] = np.int64(inside)
    return bad
"""

_PLACE_ROWS = f"""
def kernel(values, per_unit, limit, farthest, squared, places):
    bad = np.int64(0)
    columns = values.shape[1]
    together = max(1, {_TILE}//columns)
    # Of the numbers of some rows: what is nearest, and how much farther from 0 it is than what is next towards 0; and
    # of their sizes the powers, and how much these shrink towards 0.
    shape = (together, columns)
    nearest_ones, apart = np.empty(shape, np.int64), np.empty(shape, np.int64)
    powers, less, far = np.empty(shape, np.int64), np.empty(shape, np.int64), np.empty(together, np.int64)
    given, all_nearest, all_apart = values.reshape(values.size), nearest_ones.reshape(-1), apart.reshape(-1)
    all_powers, all_less = powers.reshape(-1), less.reshape(-1)
    by_square = -np.int64(squared)
    for start in range(0, len(values), together):
        rows = min(together, len(values) - start)
        part, out = given[start*columns:(start + rows)*columns], places[start:start + rows]
        # Apart from the sums of rows, so that it goes by vectors.
        for i in range(rows*columns):
            number = part[i]*per_unit
            # The last bits of this sum are the whole number that is nearest.
            shifted = number + {_WHOLE!r}
            whole = shifted - {_WHOLE!r}
            bad |= np.int64(not abs(whole) <= farthest)
            k = np.int64(np.float64(shifted).view(np.int64) - {_WHOLE_BITS})
            sign = k >> 63
            size = ((k ^ sign) - sign) & 0xFFFFFFFF
            up = -np.int64(abs(whole) > abs(number))
            all_nearest[i] = k
            all_apart[i] = up & (sign | 1)
            # size^2 - (size - 1)^2 = 2 size - 1
            all_powers[i] = size*(((size & by_square) | (1 + by_square)) & 0xFFFFFFFF)
            all_less[i] = up & (((2*size - 2) & by_square) + 1)
        # All rows are computed in both ways, and which is used stands in memory: a branch there would make the time
        # depend on how many rows are near the bound.
        for i in range(rows):
            total, shrunk = np.int64(0), np.int64(0)
            for j in range(columns):
                total += powers[i, j]
                shrunk += less[i, j]
            far[i] = -np.int64(total > limit)
            bad |= -far[i] & np.int64(total - shrunk > limit)
        for i in range(rows):
            for j in range(columns):
                out[i, j] = nearest_ones[i, j] - (far[i] & apart[i, j])
    return bad
"""

_CLIP_ROWS = f"""
def kernel(values, sums, given, squared, together, lengths, clipped, outside, left):
    radius, far_sum, least_factor, least, wanted, most = lengths
    columns = values.shape[1]
    # What is told of so many rows together is found for fewer at a time: their numbers stay in the nearest cache.
    few = max(16, {_CLIPPED}//columns)
    eights, factors = columns//8, np.empty(few)
    for begin in range(0, len(values), together):
        fine, end = True, min(begin + together, len(values))
        for start in range(begin, end, few):
            rows = min(few, end - start)
            block, mine, sizes, marks = (
                values[start:start + rows], clipped[start:start + rows], sums[start:start + rows],
                outside[start:start + rows],
            )
            if not given:
                # Two sums of every other square, four pairs at a time in their reverse order: as NumPy's einsum adds.
                for i in range(rows):
                    even, odd = 0.0, 0.0
                    for b in range(eights):
                        even += block[i, 8*b + 6]*block[i, 8*b + 6]
                        odd += block[i, 8*b + 7]*block[i, 8*b + 7]
                        even += block[i, 8*b + 4]*block[i, 8*b + 4]
                        odd += block[i, 8*b + 5]*block[i, 8*b + 5]
                        even += block[i, 8*b + 2]*block[i, 8*b + 2]
                        odd += block[i, 8*b + 3]*block[i, 8*b + 3]
                        even += block[i, 8*b]*block[i, 8*b]
                        odd += block[i, 8*b + 1]*block[i, 8*b + 1]
                    for j in range(8*eights, columns - 1, 2):
                        even += block[i, j]*block[i, j]
                        odd += block[i, j + 1]*block[i, j + 1]
                    if columns % 2:
                        even += block[i, columns - 1]*block[i, columns - 1]
                    sizes[i] = even + odd
            for i in range(rows):
                fine &= sizes[i] < far_sum
            if squared:
                for i in range(rows):
                    sizes[i] = np.sqrt(sizes[i])
            for i in range(rows):
                fine &= least_factor*sizes[i] <= radius
            # The factors of all rows are computed, and which one is used is chosen from what is stored: a branch there
            # would make the time depend on how many rows are drawn in.
            for i in range(rows):
                factors[i] = wanted/sizes[i]
            for i in range(rows):
                factor = factors[i]
                factors[i] = factor if sizes[i] > least else 1.0
                marks[i] = np.uint8(sizes[i] > most)
            for i in range(rows):
                for j in range(columns):
                    mine[i, j] = block[i, j]*factors[i]
        # NaN and infinity are never fine.
        left[begin//together] = np.uint8(not fine)
    return 0
"""

_CLIP_NUMBERS = """
def kernel(values, low, high, clipped, outside):
    bad = np.int64(0)
    for i in range(len(values)):
        number = values[i]
        inside = number if number > low else low
        clipped[i] = inside if inside < high else high
        outside[i] = np.uint8(number < low) | np.uint8(number > high)
        # NaN and infinity.
        bad |= np.int64(not abs(number) <= 1.7976931348623157e308)
    return bad
"""

_LABELS = """
def kernel(values, low, high, copied):
    others = np.int64(0)
    for i in range(len(values)):
        others += np.int64((values[i] != low) & (values[i] != high))
        copied[i] = values[i]
    return others
"""

_RELEASE = """
def kernel(places, noise, step, origin, released):
    for i in range(len(places)):
        released[i] = np.float64(places[i] + noise[i])*step + origin
    return 0
"""

_CAP = f"""
def kernel(lifts, upper, rim, slack, below, coarse, places):
    # Trials, of which each has a column of upper halves, are handed out in their order: a record takes the first of
    # those left that it may keep, and the next record goes on behind it.
    pairs, dimension, trials = upper.shape[0]//2, lifts.shape[1], upper.shape[1]
    vectors, bounds = np.empty((2*pairs, {TRIALS}), np.float32), np.empty({TRIALS}, np.float32)
    squares, wholes = np.empty({TRIALS}, np.float32), np.empty({TRIALS}, np.float32)
    cosines, shortest = np.empty({TRIALS}, np.float32), np.empty({TRIALS}, np.int64)
    count, block, begin = 0, -{TRIALS}, {TRIALS}
    for i in range(len(lifts)):
        may = 0
        while may == 0:
            if begin == {TRIALS}:
                begin, block = 0, block + {TRIALS}
                if block + {TRIALS} > trials:
                    return count
                for t in range({TRIALS}):
                    squares[t], wholes[t], shortest[t] = np.float32(0.0), np.float32(0.0), np.int64(2**31)
                for k in range(pairs):
                    lengths, angles = upper[k, block:block + {TRIALS}], upper[pairs + k, block:block + {TRIALS}]
                    firsts, seconds = vectors[2*k], vectors[2*k + 1]
                    counted = np.float32(2*k + 1 < dimension)
                    for t in range({TRIALS}):
                        first, second = rough_pair(lengths[t], angles[t])
                        firsts[t], seconds[t] = first, second
                        squares[t] += first*first + counted*(second*second)
                        wholes[t] += first*first + second*second
                        shortest[t] = min(shortest[t], abs(np.int64(lengths[t])))
                coins = upper[2*pairs, block:block + {TRIALS}]
                for t in range({TRIALS}):
                    # Short lengths, and coins by which it may be kept outside: any record may keep such a trial.
                    always = (coins[t] <= below) | (shortest[t] <= coarse)
                    bound = rim*np.sqrt(squares[t]) - slack*np.sqrt(wholes[t])
                    bounds[t] = np.float32(-np.inf) if always else bound
            for t in range({TRIALS}):
                cosines[t] = np.float32(0.0)
            for j in range(dimension):
                coordinate = lifts[i, j]
                for t in range({TRIALS}):
                    cosines[t] += coordinate*vectors[j, t]
            for t in range({TRIALS}):
                may += np.int64((cosines[t] >= bounds[t]) & (t >= begin))
            if may:
                while not cosines[begin] >= bounds[begin]:
                    begin += 1
                places[count] = block + begin
                count += 1
                begin += 1
            else:
                begin = {TRIALS}
    return count
"""

_integer, _number, _truth = numba.int64, numba.float64, numba.boolean
_pair_of_integers = numba.types.UniTuple(_integer, 2)
_lengths, _pair = numba.types.UniTuple(_number, 6), numba.types.UniTuple(_number, 2)
_KERNELS: dict[str, tuple[str, Any]] = {
    "laplace": (_LAPLACE, _integer(_given_integers, _number, _number, _integer, _integers, _integers)),
    "normal": (_NORMAL, _integer(_given_integers, _given_integers, _number, _number, _integer, _integers, _integers)),
    "place_numbers": (_PLACE_NUMBERS, _integer(_given_numbers, _number, _number, _number, _number, _integers)),
    "place_rows": (_PLACE_ROWS, _integer(_given_rows, _number, _integer, _number, _truth, _integer_rows)),
    "clip_rows": (
        _CLIP_ROWS,
        _integer(_given_rows, _numbers, _truth, _truth, _integer, _lengths, _rows, _octets, _octets),
    ),
    "clip_numbers": (_CLIP_NUMBERS, _integer(_given_numbers, _number, _number, _numbers, _octets)),
    "labels": (_LABELS, _integer(_given_numbers, _number, _number, _numbers)),
    "release": (_RELEASE, _integer(_integers, _given_integers, _number, _number, _numbers)),
    "cap": (
        _CAP,
        _integer(_given_float_rows, _given_halves, numba.float32, numba.float32, numba.int32, _integer, _integers),
    ),
    "geometric": (
        discrete_draws.GEOMETRIC,
        _integer(_given_integers, _number, _number, _integer, _integers, _integers),
    ),
    "coins": (discrete_draws.COINS, _integer(_given_integers, _number, _octets)),
    "stairs": (
        discrete_draws.STAIRS,
        _integer(_given_integers, _given_integers, _given_octets, _number, _number, _number, _integers, _integers),
    ),
    "whole_stairs": (
        discrete_draws.WHOLE_STAIRS,
        _integer(
            _given_integers,
            _given_octets,
            _given_integers,
            _given_integers,
            _given_integers,
            _pair_of_integers,
            _integer,
            _integer,
            _integers,
            _integers,
        ),
    ),
    "other_labels": (
        discrete_draws.OTHER_LABELS,
        _integer(
            _given_octets, _given_integers, _pair_of_integers, _given_integers, _given_numbers, _numbers, _numbers
        ),
    ),
    "clip_grid": (
        discrete_draws.CLIP_GRID,
        _integer(_given_numbers, _number, _pair, _pair_of_integers, _numbers, _octets),
    ),
    "codes": (discrete_draws.CODES, _integer(_given_numbers, _number, _numbers)),
    "release_whole": (discrete_draws.RELEASE_WHOLE, _integer(_given_numbers, _given_integers, _number, _numbers)),
    "exchange": (
        discrete_draws.EXCHANGE,
        _integer(_given_octets, _given_integers, _pair_of_integers, _integer, _numbers, _integers),
    ),
}


@functools.cache
def source(name: str) -> KernelSource:
    """Return the source of a kernel: "laplace", "normal", or one of those that place, clip, release and so on."""
    body, signature = _KERNELS[name]
    helpers = "".join(
        f"@helper(forceinline=True)\n{inspect.getsource(one).rstrip()}\n\n"
        for one in (exponential, nearest, discrete_draws.remainder, rough_pair)
        if f"{one.__name__}(" in body
    )
    text = f'"""Generated: {name}."""\n{IMPORTS}\n\n\n{helpers}{body}'
    # Nothing is left to the compiler: which results are in doubt rests on the arithmetic as it stands here.
    # It is drawn by what Numba makes of each operation: it has types of all sizes.
    return KernelSource(f"draw_{name}", text, signature, (), functools.partial(_probe, name), is_direct=False)


def compiled(name: str) -> Callable[..., Any]:
    """Return the compiled kernel of a name."""
    return compile_kernel(source(name))


def _probe(name: str, kernel: Callable[..., Any]) -> Sequence[float]:
    """Return a call on fixed inputs whose answer a kernel read from disk must repeat."""
    count, scale = 64, 1e6
    words = np.arange(1, count + 1) * np.int64(0x1E3779B97F4A7C15)
    numbers = np.sin(np.arange(1.0, count + 1))
    found, more, places = np.zeros(count, np.int64), np.zeros(2 * count, np.int64), np.zeros(count, np.int64)
    rows, floats, octets = numbers.reshape(-1, 4), np.zeros(count), (words & 255).astype(np.uint8)
    calls: dict[str, tuple[Any, ...]] = {
        "laplace": (words, scale, 0.4, 2**46, found, places),
        "normal": (words, words[::-1].copy(), scale, 0.4, 2**46, more, places),
        "place_numbers": (numbers, 0.0, 2.0**20, -(2.0**19), 2.0**19, found),
        "place_rows": (rows, 2.0**20, 2**41, 2.0**21, True, found.reshape(-1, 4)),
        "clip_rows": (
            rows,
            np.zeros(len(rows)),
            False,
            True,
            5,
            (1.5, 3.0, 1e-3, 1.4, 1.3, 1.6),
            floats.reshape(-1, 4),
            octets,
            octets[::-1].copy(),
        ),
        "clip_numbers": (numbers, -0.5, 0.5, floats, octets),
        "labels": (np.sign(numbers), -1.0, 0.0, floats),
        "release": (found, words >> 40, 2.0**-20, 1.0, floats),
        "cap": (
            rows.astype(np.float32),
            np.resize(words.view(np.int32), (7, 2 * TRIALS)),
            np.float32(0.5),
            np.float32(0.1),
            np.int32(-(2**30)),
            2**20,
            places,
        ),
        "geometric": (words, 3.5, 2.0**-40, 2**46, found, places),
        "coins": (words, 0.5, octets),
        "stairs": (words, found, octets & 1, 0.3, scale, 2.0**-46, more[:count], places),
        "whole_stairs": (found, octets & 1, words, words[::-1].copy(), -words, (3, 7), 7, 10, places, more[:count]),
        "other_labels": (octets, words[:1], (100, 2**44), words, numbers[:5].copy(), np.arange(count) % 5.0, floats),
        "clip_grid": (np.round(9 * numbers), 1.0, (-5.0, 5.0), (-5, 5), floats, octets),
        "codes": (np.round(4 * numbers), 3.0, floats),
        "release_whole": (np.round(9 * numbers), words >> 40, 0.5, floats),
        "exchange": (octets, words[:1], (100, 2**44), 7, floats, floats.view(np.int64)),
    }
    returned = kernel(*calls[name])
    ends = (found, more[:count], more[count:], places, octets)
    return [float(returned), *floats.tolist(), *(float(one @ np.arange(1, count + 1) % 2**50) for one in ends)]
