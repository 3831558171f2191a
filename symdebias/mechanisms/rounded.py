"""Noise rounded exactly to a fine grid: what is released is no longer a matter of floating-point arithmetic.

The float64 ``x + noise`` takes values that depend on x: a single one may be possible for one input and not for another,
whatever the noise (Mironov 2012; Haney et al. 2022). Here the values z g are multiples of a step g = 2^k, and what is
released is (z + N) g, N the integer nearest to noise/g for noise of exactly the stated law. That is z g + noise after
rounding, a function of what the mechanism on real numbers releases, so that its guarantee holds as it stands. All
three, z, N and their sum, are integers below 2^53, and multiplying by g is exact. Where bounds lie further out, z is
counted from the lower one, a public number.

Notes
-----
**Exactly.** Noise is a function F of independent uniform numbers u, each of them a word of random bits and as many more
bits as are asked for. A value of F/g in float64, from the words alone, is off by less than a tolerance whatever follows
in u. Where two integers are within that, F/g is computed again from 192 more bits of each u: normal and Laplace noise
in float64 first, and with 70 digits where two integers are still within the tolerance, as of all others. What is drawn
has the stated law up to 2^-120 of each probability.

The tolerances hold if the elementary functions of NumPy, of Python and of the kernels that draw for many records
(`symdebias.codegen.draws`) are right to 32 units in the last place (the best libraries claim 1 to 4): tests hold them
against many digits. So kernels draw the same integers from the same words.

**The step.** 2^20 to 2^21 steps are as long as the noise's scale, or more where the values would otherwise have fewer
than 2^12 steps between them: rounding moves a value by half a step at most, and adds g^2/12, 2^-43 of itself, to the
variance of the noise. The step follows from the mechanism and never from data.

Every record draws the same number of words, and which of them are in doubt depends on the noise only.

References
----------
Mironov 2012 (On significance of the least significant bits for differential privacy); Haney, Desfontaines, Hartman,
Shrestha & Hay 2022 (arXiv 2207.13793); Karney 2016 (arXiv 1303.6257, exact sampling of the normal law).
"""

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from mpmath import fp as _FLOATS

from symdebias._arrays import BooleanArray, FloatArray, IntegerArray
from symdebias.codegen import draws
from symdebias.codegen.parallel import over_chunks
from symdebias.mechanisms import scratch
from symdebias.mechanisms.ranges import Ball, Numbers
from symdebias.mechanisms.sampling import Source, evened, in_parts, integers
from symdebias.mechanisms.word_bits import LARGEST, MORE, minus_log, more_bits, number, signed, tail, uniform
from symdebias.privacy import precise

# Takes a scale in steps, a shape, a source and what to write to, and returns noise in steps.
Noise = Callable[[float, tuple[int, ...], Source, IntegerArray], IntegerArray]

# Steps per scale of the noise, and between the farthest values.
_FINE, _BETWEEN = 2.0**20, 2.0**12
# A word with fewer leading bits than this says too little of its number. A draw has one such word in 2^17.
_FEW = 2**46
# Noise that is computed at a time: it fits a cache.
_BLOCK = 1 << 15
# The largest scale in steps of noise that kernels round.
_LARGEST_SCALE = 2.0**40
# Numbers in doubt of a part, for which there is room: two or so are.
_DOUBTS = 64
# What float64 may be off by, relative to the largest that noise can be: 32 units in the last place and some products.
_ROUNDING = 2.0**-46
# -log u for the least u of a word.
_LONGEST = 44.0


def step_for(scale: float, sensitivity: Fraction) -> float:
    """Return the step of the grid: a power of two, at most 2^-20 of the scale and 2^-12 of the sensitivity.

    Parameters
    ----------
    scale : float
        Of the noise: its standard deviation, or b.
    sensitivity : fractions.Fraction
        How far two values lie apart.

    Examples
    --------
    >>> step_for(1.0, Fraction(2)) == 2.0**-20
    True
    """
    least = min(scale / _FINE, float(sensitivity) / _BETWEEN)
    return math.ldexp(1.0, math.frexp(least)[1] - 1)


def noised(
    values: FloatArray, inside: Numbers | Ball, scale: float, noise: Noise, source: Source, *, in_place: bool = False
) -> FloatArray:
    """Return values within a range, which has bounds, with noise that is rounded exactly to a grid.

    The noise is a function such as `laplace`, of a scale in steps, a shape, a source and what to write to. Values that
    are given up, contiguous ones, are replaced by what is returned `in_place`.
    """
    step = step_for(scale, inside.sensitivity)
    origin = inside.origin(step)
    columns = values.size // len(values)
    if values.size < draws.MANY or not values.flags.c_contiguous:
        sums, drawn = np.empty(values.shape), replace(source, many=source.many or values.size >= draws.MANY)

        def add(rows: slice) -> None:
            places = inside.multiples(values[rows], step)
            places += noise(scale / step, places.shape, drawn, np.empty(places.size, dtype=np.int64))
            sums[rows] = _released(places, step, origin)

        in_parts(len(values), add, source, max(1, _BLOCK // columns), whole_stream=True)
        return sums
    drawn, kernel, first = replace(source, many=True), draws.compiled("release"), float(origin * Fraction(step))
    released = values if in_place else np.empty(values.shape)

    def place(rows: slice) -> None:
        # Integers stand where the numbers will.
        inside.multiples(values[rows], step, out=released[rows].view(np.int64))

    def draw(part: slice) -> None:
        there = released.reshape(-1)[part]
        kernel(there.view(np.int64), noise(scale / step, there.shape, drawn, errors(len(there))), step, first, there)

    def both(rows: slice) -> None:
        place(rows)
        draw(slice(rows.start * columns, rows.stop * columns))

    rows = max(1, scratch.PART // columns)
    if columns > scratch.PART or source.seeded:
        # A seeded stream goes through the numbers by blocks of one size, whatever rows they are of.
        over_chunks(len(values), place, rows)
        in_parts(values.size, draw, drawn, scratch.PART)
    else:
        over_chunks(len(values), both, rows)
    return released


def with_radial_noise(
    values: FloatArray,
    inside: Numbers | Ball,
    scale: float,
    dimension: int,
    source: Source,
    *,
    in_place: bool = False,
) -> FloatArray:
    """Return rows with the first coordinates of vectors of density exp(-|b|/scale), rounded exactly to a grid.

    The rows, shape (n, k), lie within the range, which has bounds; the noise has k coordinates or more. Rows that are
    given up are replaced by what is returned `in_place`.
    """
    # As many steps for the standard deviation of a coordinate as other noise has for its scale.
    step = step_for(scale * math.sqrt(dimension + 1), inside.sensitivity)
    released, origin = values if in_place else np.empty(values.shape), inside.origin(step)

    def draw(rows: slice) -> None:
        places = inside.multiples(values[rows], step)
        places += radial(scale / step, len(places), dimension, values.shape[1], source)
        released[rows] = _released(places, step, origin)

    # In whole blocks of `radial`.
    in_parts(len(values), draw, source, 2 * max(1, _BLOCK // dimension))
    return released


def laplace(scale: float, shape: tuple[int, ...], source: Source, out: IntegerArray | None = None) -> IntegerArray:
    """Return independent Laplace numbers of a scale, rounded to integers.

    Parameters
    ----------
    scale : float
        In steps, at least 1.
    shape : tuple of int
        The shape of what is returned.
    source : Source
        Where the bits come from.
    out : array of as many entries, int64, optional
        What is written to, and returned.
    """
    if (kernel := _kernel("laplace", scale, shape, source)) is None:
        return _in_blocks(functools.partial(_laplace, scale), shape, source, out)
    return _by_kernel(functools.partial(_compiled_laplace, kernel, scale), shape, source, out)


def normal(scale: float, shape: tuple[int, ...], source: Source, out: IntegerArray | None = None) -> IntegerArray:
    """Return independent normal numbers of a standard deviation, rounded to integers; as `laplace`."""
    if (kernel := _kernel("normal", scale, shape, source)) is None:
        return _in_blocks(functools.partial(_normal, scale), shape, source, out)
    return _by_kernel(functools.partial(_compiled_normal, kernel, scale), shape, source, out)


def discrete_laplace(
    scale: float, shape: tuple[int, ...], source: Source, out: IntegerArray | None = None
) -> IntegerArray:
    """Return independent integers k of probability (1 - q)/(1 + q) q^|k|, q = exp(-1/scale), for any positive scale.

    The difference of two geometric numbers, each the whole part of an exponential one.
    """
    found, drawn = _room(shape, out), _of_many(source, math.prod(shape))
    if drawn.many and not source.seeded:
        in_parts(len(found), lambda part: _difference(scale, found[part], drawn), source, scratch.PART)
        return found.reshape(shape)

    def subtract(part: slice) -> None:
        found[part] -= _geometric(scale, 1.0, scratch.integers(scratch.DRAWN, part.stop - part.start), drawn)

    in_parts(len(found), lambda part: _geometric(scale, 1.0, found[part], drawn), source, _BLOCK)
    in_parts(len(found), subtract, source, _BLOCK)
    return found.reshape(shape)


def geometric(rate: float, count: int, source: Source) -> IntegerArray:
    """Return independent integers k >= 0 of probability (1 - q) q^k, q = exp(-rate), for a positive rate."""
    found, drawn = np.empty(count, dtype=np.int64), _of_many(source, count)
    in_parts(count, lambda part: _geometric(1.0, rate, found[part], drawn), source, _size(drawn))
    return found


def staircase(
    epsilon: float,
    gamma: float,
    scale: float,
    shape: tuple[int, ...],
    source: Source,
    out: IntegerArray | None = None,
) -> IntegerArray:
    """Return independent staircase noise (Geng & Viswanath 2014, Algorithm 1), rounded to integers.

    gamma is the width of the upper step, in sensitivities; the scale is the sensitivity in steps, at least 1.
    """
    found, drawn = _room(shape, out), _of_many(source, math.prod(shape))
    in_parts(len(found), lambda part: _staircase(epsilon, gamma, scale, found[part], drawn), source, _size(drawn))
    return found.reshape(shape)


def discrete_staircase(
    epsilon: float,
    sensitivity: int,
    high: int,
    shape: tuple[int, ...],
    source: Source,
    out: IntegerArray | None = None,
) -> IntegerArray:
    """Return independent integers k of probability proportional to e^(-epsilon i), i the stair of |k|.

    Parameters
    ----------
    epsilon, sensitivity, high, shape, source
        As for `symdebias.mechanisms.sampling.discrete_staircase_noise`.
    out
        As for `laplace`.
    """
    drawn, many = _room(shape, out), _of_many(source, math.prod(shape))
    if many.many:

        def draw(part: slice) -> None:
            _whole_stairs(epsilon, sensitivity, high, drawn[part], many)

        in_parts(len(drawn), draw, source, scratch.PART, whole_stream=True)
        return drawn.reshape(shape)
    pending = np.arange(len(drawn))
    while len(pending):
        count = len(pending)
        stairs = _geometric(1.0, epsilon, np.empty(count, dtype=np.int64), source)
        on_lower = _coins(lambda of: _lower(of, epsilon, sensitivity - high, high), source.words(count), source)
        place = np.where(
            on_lower,
            integers(min(high, sensitivity - 1), sensitivity, count, source),
            integers(0, high, count, source),
        )
        sizes = stairs * sensitivity + place
        negative = source.words(count) < 0
        drawn[pending] = np.where(negative, -sizes, sizes)
        # Zero has no sign: it comes with one of them only, and is drawn again with the other.
        pending = pending[negative & (sizes == 0)]
    return drawn.reshape(shape)


def radial(scale: float, count: int, dimension: int, width: int, source: Source) -> IntegerArray:
    """Return the first `width` coordinates of so many vectors of density exp(-|b|/scale), rounded to integers."""
    found = np.empty((count, width), dtype=np.int64)
    block = max(1, _BLOCK // dimension)
    for start in range(0, count, block):
        part = found[start : start + block]
        part[:] = _radial(scale, len(part), dimension, source)[:, :width]
    return found


def _released(places: IntegerArray, step: float, origin: int) -> FloatArray:
    """Return what places, counted from a public origin, stand for: a function of the places alone."""
    released = places * step
    if origin:
        released += float(origin * Fraction(step))
    return np.asarray(released, dtype=np.float64)


# ---- from words to integers ----------------------------------------------------------------------------------------


def _in_blocks(
    draw: Callable[[int, Source], IntegerArray],
    shape: tuple[int, ...],
    source: Source,
    out: IntegerArray | None = None,
) -> IntegerArray:
    found = _room(shape, out)

    def fill(part: slice) -> None:
        found[part] = draw(part.stop - part.start, source)

    in_parts(len(found), fill, source, _BLOCK)
    return found.reshape(shape)


def _by_kernel(
    draw: Callable[[IntegerArray, Source], None], shape: tuple[int, ...], source: Source, out: IntegerArray | None
) -> IntegerArray:
    found = _room(shape, out)
    in_parts(len(found), lambda part: draw(found[part], source), source, scratch.PART)
    return found.reshape(shape)


def _room(shape: tuple[int, ...], out: IntegerArray | None) -> IntegerArray:
    """Return what is written to, one after the other."""
    return np.empty(math.prod(shape), dtype=np.int64) if out is None else out


def _of_many(source: Source, count: int) -> Source:
    """Return a source that says whether kernels draw so many numbers."""
    return replace(source, many=True) if count >= draws.MANY and not source.many else source


def _size(source: Source) -> int:
    """Return how many numbers are drawn together: of a seeded stream the same whatever draws from it."""
    return scratch.PART if source.many and not source.seeded else _BLOCK


def _words(kinds: int, count: int, source: Source) -> Iterator[IntegerArray]:
    """Yield so many words of each kind: secret ones are drawn at once, those of a seeded stream when it is their turn.

    What is in doubt takes further words of the stream before the next kind.
    """
    if not source.many:
        for _ in range(kinds):
            yield source.words(count)
        return
    rows = scratch.integers(scratch.WORDS, count, kinds).reshape(kinds, count)
    if not source.seeded:
        source.written(rows.reshape(-1))
    for row in rows:
        yield source.written(row) if source.seeded else row


def errors(count: int) -> IntegerArray:
    """Return integers of this thread's own, to which noise may be written that is used up before other noise is."""
    return scratch.integers(scratch.NOISE, count)


def _kernel(name: str, scale: float, shape: tuple[int, ...], source: Source) -> Callable[..., int] | None:
    """Return the kernel that draws, or None for few numbers or a scale whose integers it does not hold."""
    many = source.many or math.prod(shape) >= draws.MANY
    return draws.compiled(name) if many and scale <= _LARGEST_SCALE else None


def _exponential(words: IntegerArray) -> FloatArray:
    """Return -log u of the numbers u = (k + 1/2) 2^-63 in (0, 1), k the lower 63 bits of a word."""
    numbers = (words & LARGEST).astype(np.float64)
    numbers += 0.5
    numbers *= 2.0**-63
    np.log(numbers, out=numbers)
    return np.negative(numbers, out=numbers)


def _settled(rounded: FloatArray, doubtful: BooleanArray, again: Callable[[Any, int], int]) -> IntegerArray:
    """Return integers, those in doubt computed again by a function of the arithmetic and the place."""
    found = rounded.astype(np.int64)
    _settle(found, np.flatnonzero(doubtful).tolist(), again)
    return found


def _settle(found: IntegerArray, places: Sequence[int], again: Callable[[Any, int], int]) -> None:
    """Compute integers at some places again."""
    if len(places):
        mp = precise.context()
        for place in places:
            found[place] = again(mp, place)


def _laplace(scale: float, count: int, source: Source) -> IntegerArray:
    words = source.words(count)
    nearest, doubtful = _laplace_sizes(scale, words)
    # The sign bit of a word chooses the sign of its noise.
    return _settled(np.where(words < 0, -nearest, nearest), doubtful, _exact_laplace(scale, words, source))


def _laplace_sizes(scale: float, words: IntegerArray) -> tuple[FloatArray, BooleanArray]:
    """Return whole numbers next to the sizes of noise, and which of them are in doubt."""
    sizes = _exponential(words)
    sizes *= scale
    nearest = np.rint(sizes)
    sizes -= nearest
    np.abs(sizes, out=sizes)
    doubtful = sizes > 0.5 - scale * _LONGEST * _ROUNDING
    doubtful |= (words & LARGEST) < _FEW
    return nearest, doubtful


def _compiled_laplace(kernel: Callable[..., int], scale: float, found: IntegerArray, source: Source) -> None:
    """Write what `_laplace` returns."""
    for out in _blocks_of(found, source):
        words = source.written(scratch.integers(scratch.WORDS, len(out)))
        places = _doubts(kernel, words, scale, _least(scale * _LONGEST, source), _FEW, out)
        if len(places):
            if source.seeded:
                places = places[_laplace_sizes(scale, words[places])[1]]
            _settle(out, places.tolist(), _exact_laplace(scale, words, source))


def _least(longest: float, source: Source) -> float:
    """Return how far from a whole number a kernel has a result in doubt.

    What is in doubt takes further words of a seeded stream, so that all that follows rests on it. Of those a kernel
    returns more, among which NumPy's functions decide.
    """
    return 0.5 - longest * _ROUNDING * (1.5 if source.seeded else 1.0)


def _exact_laplace(scale: float, words: IntegerArray, source: Source) -> Callable[[Any, int], int]:
    """Return what computes a number in doubt again, from more bits."""

    def again(mp: Any, place: int) -> int:
        bits, length = more_bits(words[place], source)
        size = minus_log(bits, length) * scale
        if abs(size - round(size)) > 0.5 - scale * _LONGEST * _ROUNDING:
            size = mp.nint(-scale * mp.log(number(mp, bits, length)))
        return -round(size) if words[place] < 0 else round(size)

    return again


def _blocks_of(found: IntegerArray, source: Source) -> Iterator[IntegerArray]:
    """Yield what is written to together: of a seeded stream the same whatever draws from it, of secret bits all."""
    size = _BLOCK if source.seeded else scratch.PART
    return (found[start : start + size] for start in range(0, len(found), size))


def _difference(scale: float, out: IntegerArray, source: Source) -> None:
    """Write differences of geometric numbers."""
    count = len(out)
    words = source.written(scratch.integers(scratch.WORDS, count, 2))
    both = _geometric(scale, 1.0, scratch.integers(scratch.DRAWN, count, 2), source, words)
    np.subtract(both[:count], both[count:], out=out)


def _geometric(
    scale: float, rate: float, out: IntegerArray, source: Source, given: IntegerArray | None = None
) -> IntegerArray:
    """Write integers k >= 0 of probability (1 - q) q^k, q = exp(-rate/scale): whole parts of exponential numbers.

    Each comes from a word, given or drawn now.
    """
    words = next(_words(1, len(out), source)) if given is None else given
    if not source.many or scale / rate > _LARGEST_SCALE:
        out[:], doubtful = _geometric_sizes(scale / rate, words)
        doubts = np.flatnonzero(doubtful)
    else:
        # As of `_least`.
        slack = _geometric_slack(scale / rate) * (1.5 if source.seeded else 1.0)
        doubts = _doubts(draws.compiled("geometric"), words, scale / rate, slack, _FEW, out)
        if source.seeded and len(doubts):
            doubts = doubts[_geometric_sizes(scale / rate, words[doubts])[1]]

    def again(mp: Any, place: int) -> int:
        return int(mp.floor(-scale * mp.log(uniform(mp, words[place], source)) / rate))

    _settle(out, doubts.tolist(), again)
    return out


def _geometric_slack(factor: float) -> float:
    """Return how near a whole number an exponential number, multiplied by a factor, is in doubt."""
    return max(factor, 1.0) * _LONGEST * _ROUNDING


def _geometric_sizes(factor: float, words: IntegerArray) -> tuple[FloatArray, BooleanArray]:
    """Return the whole parts of exponential numbers, and which of them are in doubt."""
    sizes = _exponential(words)
    sizes *= factor
    whole, slack = np.floor(sizes), _geometric_slack(factor)
    sizes -= whole
    doubtful = ((sizes < slack) & (whole > 0)) | (sizes > 1 - slack)
    doubtful |= (words & LARGEST) < _FEW
    return whole, doubtful


def _doubts(kernel: Callable[..., int], *arguments: Any) -> IntegerArray:
    """Call a kernel that writes numbers, and return the places of those in doubt."""
    places = np.empty(_DOUBTS, dtype=np.int64)
    if (count := kernel(*arguments, places)) > _DOUBTS:
        places = np.empty(count, dtype=np.int64)
        kernel(*arguments, places)
    return places[:count]


def _coins(chance: Callable[[Any], Any], words: IntegerArray, source: Source) -> BooleanArray:
    """Return coins that are True with a probability, which is given as a function of the arithmetic."""
    if source.many:
        heads = np.empty(len(words), dtype=np.uint8)
        if not draws.compiled("coins")(words, chance(_FLOATS), heads):
            return heads.view(np.bool_)
    gap = (words & LARGEST).astype(np.float64) * 2.0**-63 - chance(_FLOATS)
    found: BooleanArray = gap < 0
    for place in np.flatnonzero(np.abs(gap) < 2.0**-40):
        mp = precise.context()
        found[place] = uniform(mp, words[place], source) < chance(mp)
    return found


def _lower(of: Any, epsilon: float, lower: float, upper: float) -> Any:
    """Return the probability of the lower part of a stair, e^-epsilon as likely as the upper one."""
    part = of.exp(-of.mpf(epsilon)) * of.mpf(lower)
    return part / (of.mpf(upper) + part)


def _staircase(epsilon: float, gamma: float, scale: float, out: IntegerArray, source: Source) -> None:
    kinds = _words(3, len(out), source)
    stairs = _geometric(1.0, epsilon, scratch.integers(scratch.DRAWN, len(out)), source, next(kinds))
    on_lower = _coins(lambda of: _lower(of, epsilon, 1 - of.mpf(gamma), gamma), next(kinds), source)
    words = next(kinds)
    if source.many:
        given = on_lower.view(np.uint8)
        doubts = _doubts(draws.compiled("stairs"), words, stairs, given, gamma, scale, _ROUNDING, out)
    else:
        inside = ((words & LARGEST).astype(np.float64) + 0.5) * 2.0**-63
        place = np.where(on_lower, gamma + (1 - gamma) * inside, gamma * inside)
        sizes = scale * (stairs + place)
        nearest = np.rint(sizes)
        doubts = np.flatnonzero(np.abs(sizes - nearest) > 0.5 - scale * (stairs + 1) * _ROUNDING)
        out[:] = np.where(words < 0, -nearest, nearest)

    def again(mp: Any, index: int) -> int:
        width = mp.mpf(gamma)
        inside = uniform(mp, words[index], source)
        part = width + (1 - width) * inside if on_lower[index] else width * inside
        size = int(mp.floor(scale * (int(stairs[index]) + part) + 0.5))
        return -size if words[index] < 0 else size

    _settle(out, doubts.tolist(), again)


def _whole_stairs(epsilon: float, sensitivity: int, high: int, out: IntegerArray, source: Source) -> None:
    """Write what `discrete_staircase` returns, by kernels."""
    kernel, count = draws.compiled("whole_stairs"), len(out)
    begin, pending = min(high, sensitivity - 1), scratch.integers(scratch.PENDING, count)
    spans = sensitivity - begin, high
    pending[:] = np.arange(count)
    while count:
        # A span of 1 takes no words of a seeded stream.
        kinds = _words(5 - (spans[0] == 1) - (spans[1] == 1), count, source)
        stairs = _geometric(1.0, epsilon, scratch.integers(scratch.DRAWN, count), source, next(kinds))
        on_lower = _coins(lambda of: _lower(of, epsilon, sensitivity - high, high), next(kinds), source)
        below, above = (stairs if span == 1 else evened(next(kinds), span, source) for span in spans)
        given = stairs, on_lower.view(np.uint8), below, above, next(kinds)
        count = kernel(*given, spans, begin, sensitivity, pending[:count], out)


def _normal(scale: float, count: int, source: Source) -> IntegerArray:
    pairs = (count + 1) // 2
    lengths, angles = source.words(pairs), source.words(pairs)
    nearest, doubtful = _normal_sizes(scale, lengths, angles)
    return _settled(nearest, doubtful, _exact_normal(scale, lengths, angles, source))[:count]


def _normal_sizes(scale: float, lengths: IntegerArray, angles: IntegerArray) -> tuple[FloatArray, BooleanArray]:
    """Return whole numbers next to noise, the first coordinates before the second ones, and which are in doubt."""
    exponential = _exponential(lengths)
    # The square root is steep at 0, where its argument is known to 2^-53 only.
    unclear = ((lengths & LARGEST) < _FEW) | (exponential < 2.0**-17)
    radius = np.sqrt(2 * exponential) * scale
    turn = np.multiply(angles, math.pi * 2.0**-63, dtype=np.float64)
    sizes = np.concatenate((radius * np.cos(turn), radius * np.sin(turn)))
    nearest = np.rint(sizes)
    sizes -= nearest
    np.abs(sizes, out=sizes)
    doubtful = sizes > 0.5 - scale * math.sqrt(2 * _LONGEST) * _ROUNDING
    doubtful |= np.concatenate((unclear, unclear))
    return nearest, doubtful


def _compiled_normal(kernel: Callable[..., int], scale: float, found: IntegerArray, source: Source) -> None:
    """Write what `_normal` returns."""
    for out in _blocks_of(found, source):
        pairs = (len(out) + 1) // 2
        whole = out if 2 * pairs == len(out) else np.empty(2 * pairs, dtype=np.int64)
        words = scratch.integers(scratch.WORDS, 2 * pairs)
        if source.seeded:
            lengths, angles = source.written(words[:pairs]), source.written(words[pairs:])
        else:
            source.written(words)
            lengths, angles = words[:pairs], words[pairs:]
        least = _least(scale * math.sqrt(2 * _LONGEST), source)
        places = _doubts(kernel, lengths, angles, scale, least, _FEW, whole)
        if len(places):
            # 1 stands for the first coordinate of a pair and 2 for the second one, and 3 for both.
            doubted = places.tolist()
            some = [one // 4 for one in doubted if one % 2] + [one // 4 + pairs for one in doubted if one & 2]
            if source.seeded:
                pair = places // 4
                unsure = _normal_sizes(scale, lengths[pair], angles[pair])[1]
                some = np.concatenate((pair, pair + pairs))[unsure].tolist()
            _settle(whole, some, _exact_normal(scale, lengths, angles, source))
        if whole is not out:
            out[:] = whole[: len(out)]


def _exact_normal(
    scale: float, lengths: IntegerArray, angles: IntegerArray, source: Source
) -> Callable[[Any, int], int]:
    """Return what computes a number in doubt again, from more bits."""
    pairs, least = len(lengths), 0.5 - scale * math.sqrt(2 * _LONGEST) * _ROUNDING
    # Both coordinates of a pair come from the same bits.
    known: dict[int, tuple[int, int]] = {}

    def again(mp: Any, place: int) -> int:
        pair, second = place % pairs, place >= pairs
        if pair not in known:
            bits, length = more_bits(lengths[pair], source)
            turn = (int(angles[pair]) << (64 * MORE)) + tail(source)
            long = scale * math.sqrt(2 * minus_log(bits, length))
            angle = math.pi * math.ldexp(turn, -64 * MORE - 63)
            found = long * math.cos(angle), long * math.sin(angle)
            if any(abs(size - round(size)) > least for size in found):
                long = scale * mp.sqrt(-2 * mp.log(number(mp, bits, length)))
                angle = mp.pi * mp.ldexp(mp.mpf(2 * turn + 1), -64 * MORE - 64)
                found = mp.nint(long * mp.cos(angle)), mp.nint(long * mp.sin(angle))
            known[pair] = round(found[0]), round(found[1])
        return known[pair][second]

    return again


def _radial(scale: float, count: int, dimension: int, source: Source) -> IntegerArray:
    """Return vectors of a uniform direction, of normal numbers, and of a length that is a sum of exponential ones."""
    pairs = (dimension + 1) // 2
    words = source.words((dimension + 2 * pairs) * count).reshape(dimension + 2 * pairs, count)
    sums, lengths, angles = words[:dimension], words[dimension : dimension + pairs], words[dimension + pairs :]
    size = _exponential(sums).sum(axis=0)
    pieces, radius, unclear = normal_vectors(lengths, angles)
    vectors = pieces[:dimension]
    unclear |= few_bits(sums).any(axis=0)
    norm = np.sqrt(np.einsum("ij,ij->j", vectors, vectors))
    shortest = np.minimum(radius.min(axis=0), 1.0)
    # A pair is off by 2^-53 over its length besides its rounding, sums by a rounding for each term, and each number of
    # the sum of exponential ones by what its word leaves.
    off = size * (2.0**-45 + dimension * 2.0**-52 + 2.0**-51 / (shortest * norm)) + dimension * 2.0**-46
    vectors *= scale * size / norm
    nearest = np.rint(vectors)
    vectors -= nearest
    np.abs(vectors, out=vectors)
    doubtful = (vectors > 0.5 - scale * off).any(axis=0) | unclear
    found = nearest.astype(np.int64)
    for place in np.flatnonzero(doubtful):
        mp = precise.context()
        total = -sum(mp.log(uniform(mp, word, source)) for word in sums[:, place])
        exact = exact_normal_vector(mp, lengths[:, place], angles[:, place], source)[:dimension]
        factor = scale * total / mp.sqrt(sum(piece * piece for piece in exact))
        found[:, place] = [int(mp.nint(factor * piece)) for piece in exact]
    return np.asarray(found.T)


def few_bits(words: IntegerArray) -> BooleanArray:
    """Return which words have so few leading bits that what they stand for is not known from them alone."""
    few: BooleanArray = (words & LARGEST) < _FEW
    return few


def normal_vectors(lengths: IntegerArray, angles: IntegerArray) -> tuple[FloatArray, FloatArray, BooleanArray]:
    """Return vectors of normal numbers, coordinate by coordinate, from words.

    Parameters
    ----------
    lengths, angles : array of shape (k, n), int64
        The polar form of k pairs for each vector.

    Returns
    -------
    vectors : array of shape (2 k, n), float64
        The first coordinates of all pairs, and then the second ones. A pair is off by 2^-53 over its length, and by
        2^-46 of its length, whatever bits follow the words.
    radius : array of shape (k, n), float64
        The lengths of the pairs.
    unclear : array of shape (n,), bool
        For which of them that is not so.
    """
    exponential = _exponential(lengths)
    unclear = np.asarray((few_bits(lengths) | (exponential < 2.0**-17)).any(axis=0))
    radius = np.sqrt(2 * exponential)
    turn = np.multiply(angles, math.pi * 2.0**-63, dtype=np.float64)
    return np.concatenate((radius * np.cos(turn), radius * np.sin(turn))), radius, unclear


def exact_normal_vector(mp: Any, lengths: IntegerArray, angles: IntegerArray, source: Source) -> list[Any]:
    """Return one vector of `normal_vectors` with 70 digits, from its words and the bits that follow them."""
    longs = [mp.sqrt(-2 * mp.log(uniform(mp, word, source))) for word in lengths]
    turns = [mp.pi * signed(mp, word, source) for word in angles]
    pairs = list(zip(longs, turns, strict=True))
    return [long * mp.cos(angle) for long, angle in pairs] + [long * mp.sin(angle) for long, angle in pairs]
