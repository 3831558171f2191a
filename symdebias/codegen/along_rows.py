"""Sums along rows, several columns at a time: scores, squared lengths, and sums of slopes times rows.

Rows stand as in the data, and need not be turned into columns: four of them are summed side by side, and their four
sums change places at the end. The text of these functions is copied into the modules of kernels, as that of `vectors`;
there ``score_rows``, ``measure_rows`` and ``sum_rows`` are made of them (`text`). What is made has a plain twin, for
kernels that are not compiled.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from symdebias.codegen import vectors
from symdebias.codegen.vectors import asked_for, data_of, loaded, parted, shuffled, stored, vector_of

# Rows of fewer columns a processor fetches in time by itself (measured at 2 to 64 columns).
_FEWEST_ASKED_FOR = 9


def filled(builder: Any, vector: Any, width: int) -> Any:
    """Return a vector of four numbers, with zeros behind those of a shorter one."""
    if width == 4:
        return vector
    return shuffled(builder, vector, vector_of(width)([0.0] * width), [*range(width), *[width] * (4 - width)])


def spread_out(builder: Any, number: Any, width: int) -> Any:
    """Return a vector in which a number stands in all places."""
    unknown = ir.Constant(vector_of(width), ir.Undefined)
    return shuffled(builder, builder.insert_element(unknown, number, ir.IntType(32)(0)), unknown, [0] * width)


def multiplied_and_added(builder: Any, one: Any, other: Any, third: Any) -> Any:
    """Return the product of two vectors, plus a third one where there is one."""
    product = builder.fmul(one, other, flags=("contract",))
    return product if third is None else builder.fadd(product, third, flags=("contract",))


def summed_within(builder: Any, lines: Sequence[Any]) -> Any:
    """Return the sums of four vectors of four numbers, (0 + 1) + (2 + 3) each, as one vector."""

    def paired(first: Any, second: Any, places: Sequence[int], others: Sequence[int]) -> Any:
        return builder.fadd(shuffled(builder, first, second, places), shuffled(builder, first, second, others))

    halves = [paired(lines[n], lines[n + 1], [0, 4, 2, 6], [1, 5, 3, 7]) for n in (0, 2)]
    return paired(halves[0], halves[1], [0, 1, 4, 5], [2, 3, 6, 7])


def by_fours(
    builder: Any, data: Any, start: Any, count: Any, stride: int, each: Callable[..., None], asked: range = range(0)
) -> None:
    """Write loops over rows that follow on one another, four at a time and then one at a time.

    Parameters
    ----------
    builder, data, start, count
        The rows of an array: the first, and how many there are.
    stride : int
        The number of its columns.
    each : callable
        Writes what is done with some rows. It is told which of them the first of these is, and where all of them begin.
    asked : range
        Of the numbers of four rows those for which the processor is asked, as many rows ahead as there are.
    """
    index = count.type

    def some(n: Any, size: int) -> None:
        first = builder.mul(builder.add(start, n), index(stride))
        if size == 4:
            ahead = builder.add(first, builder.mul(count, index(stride))) if asked else first
            for number in asked[::8]:
                asked_for(builder, data, builder.add(ahead, index(number)))
        each(n, [builder.add(first, index(row * stride)) for row in range(size)])

    fours = builder.udiv(count, index(4))
    with cgutils.for_range(builder, fours) as loop:
        some(builder.mul(loop.index, index(4)), 4)
    done = builder.mul(fours, index(4))
    with cgutils.for_range(builder, builder.sub(count, done)) as loop:
        some(builder.add(done, loop.index), 1)


def summed(builder: Any, data: Any, begins: Sequence[Any], columns: int, term: Callable[..., Any]) -> Any:
    """Return the sums of four rows as a vector, or that of one: of what is added for each part of their columns.

    Parameters
    ----------
    builder, data, begins
        Where the rows begin in an array.
    columns : int
        How many columns are summed.
    term : callable
        Returns a sum, None at first, with what belongs to a part: the number of the part, and its entries.
    """
    sums = []
    for begin in begins:
        total = None
        for part, (at, width) in enumerate(parted(columns, 4)):
            entries = loaded(builder, data, builder.add(begin, begin.type(at)), width)
            total = term(total, part, filled(builder, entries, width))
        sums.append(total)
    found = summed_within(builder, (sums * 4)[:4])
    return found if len(begins) == 4 else builder.extract_element(found, ir.IntType(32)(0))


def scoring(columns: int, stride: int, asked: range) -> Callable[..., Any]:
    """Return what writes the scores of rows of an array that follow on one another.

    It takes what they are written to and from which place on, where the parameters begin there, the array, the first
    row, how many rows there are, and what is added to each score.

    Parameters
    ----------
    columns, stride : int
        How many columns have a parameter, the first ones, and how many the array has.
    asked : range
        As for `by_fours`.
    """

    def score(
        typing: Any, into: Any, place: Any, parameters: Any, array: Any, start: Any, count: Any, first: Any
    ) -> Any:
        def written(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            _, place, parameters, _, start, count, first = arguments
            to, source = (data_of(context, builder, signature, arguments, at) for at in (0, 3))
            own = [
                filled(builder, loaded(builder, to, builder.add(parameters, count.type(at)), width), width)
                for at, width in parted(columns, 4)
            ]

            def term(total: Any, part: int, entries: Any) -> Any:
                return multiplied_and_added(builder, own[part], entries, total)

            def each(n: Any, begins: list[Any]) -> None:
                found = summed(builder, source, begins, columns, term)
                more = spread_out(builder, first, 4) if len(begins) == 4 else first
                stored(builder, builder.fadd(found, more), to, builder.add(place, n))

            by_fours(builder, source, start, count, stride, each, asked)
            return context.get_dummy_value()

        return types.void(into, place, parameters, array, start, count, first), written

    return score


def measuring(columns: int, stride: int) -> Callable[..., Any]:
    """Return what keeps the largest squared lengths of rows, in a place for each; NaN is longer than nothing.

    It takes the largest ones, the units of squares, an array, the first row, and how many rows there are.

    Parameters
    ----------
    columns, stride : int
        As for `scoring`.
    """

    def measure(typing: Any, longest: Any, units: Any, array: Any, start: Any, count: Any) -> Any:
        def written(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            to, weights, source = (data_of(context, builder, signature, arguments, at) for at in range(3))
            start, count = arguments[3:]
            own = [
                filled(builder, loaded(builder, weights, count.type(at), width), width)
                for at, width in parted(columns, 4)
            ]

            def term(total: Any, part: int, entries: Any) -> Any:
                return multiplied_and_added(builder, builder.fmul(own[part], entries), entries, total)

            def each(n: Any, begins: list[Any]) -> None:
                found = summed(builder, source, begins, columns, term)
                before = builder.load(builder.bitcast(builder.gep(to, [n]), found.type.as_pointer()), align=8)
                stored(builder, builder.select(builder.fcmp_ordered(">", found, before), found, before), to, n)

            by_fours(builder, source, start, count, stride, each)
            return context.get_dummy_value()

        return types.void(longest, units, array, start, count), written

    return measure


def summing(columns: int, stride: int, asked: range) -> Callable[..., Any]:
    """Return what writes the sum of rows, each times its slope.

    It takes what it is written to, where the slopes begin there and from which place on the sum is written, the array,
    the first row, and how many rows there are. Rows take turns in several sums, so that none waits for the one before.

    Parameters
    ----------
    columns, stride, asked
        As for `scoring`.
    """

    def total(typing: Any, into: Any, slopes: Any, place: Any, array: Any, start: Any, count: Any) -> Any:
        def written(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            _, slopes, place, _, start, count = arguments
            to, source = (data_of(context, builder, signature, arguments, at) for at in (0, 3))
            index, parts = count.type, parted(columns, 4)
            turns = 4 if len(parts) <= 3 else 2 if len(parts) <= 8 else 1
            sums = [
                [cgutils.alloca_once_value(builder, vector_of(width)([0.0] * width)) for _, width in parts]
                for _ in range(turns)
            ]

            def each(n: Any, begins: list[Any]) -> None:
                for row, begin in enumerate(begins):
                    slope = builder.load(builder.gep(to, [builder.add(builder.add(slopes, n), index(row))]))
                    for (at, width), own in zip(parts, sums[row % turns], strict=True):
                        entries = loaded(builder, source, builder.add(begin, index(at)), width)
                        spread = spread_out(builder, slope, width)
                        builder.store(multiplied_and_added(builder, spread, entries, builder.load(own)), own)

            by_fours(builder, source, start, count, stride, each, asked)
            for part, (at, _) in enumerate(parts):
                whole = builder.load(sums[0][part])
                for other in sums[1:]:
                    whole = builder.fadd(whole, builder.load(other[part]))
                stored(builder, whole, to, builder.add(place, index(at)))
            return context.get_dummy_value()

        return types.void(into, slopes, place, array, start, count), written

    return total


def plainly_scoring(columns: int) -> Callable[..., Any]:
    """Return the twin of what `scoring` comes to."""

    def score(into: Any, place: Any, parameters: Any, array: Any, start: Any, count: Any, first: Any) -> None:
        own = into[parameters : parameters + columns]
        into[place : place + count] = array[start : start + count, :columns] @ own + first

    return score


def plainly_measuring(columns: int) -> Callable[..., Any]:
    """Return the twin of what `measuring` comes to."""

    def measure(longest: Any, units: Any, array: Any, start: Any, count: Any) -> None:
        squares = (array[start : start + count, :columns] ** 2 * units).sum(axis=1)
        longest[:count] = np.fmax(longest[:count], squares)

    return measure


def plainly_summing(columns: int) -> Callable[..., Any]:
    """Return the twin of what `summing` comes to."""

    def total(into: Any, slopes: Any, place: Any, array: Any, start: Any, count: Any) -> None:
        into[place : place + columns] = into[slopes : slopes + count] @ array[start : start + count, :columns]

    return total


def text(columns: int, stride: int) -> str:
    """Return the definitions of what is made for so many columns, the first ones, of an array that has as many."""
    size = 4 * stride if stride >= _FEWEST_ASKED_FOR else 0
    # Half of it while scores are computed, which takes as long as the rest.
    half = size // 16 * 8
    made = {
        "score_rows": ("scoring", f"{columns}, {stride}, range({half})", f"{columns}"),
        "measure_rows": ("measuring", f"{columns}, {stride}", f"{columns}"),
        "sum_rows": ("summing", f"{columns}, {stride}, range({half}, {size})", f"{columns}"),
    }
    lines = "\n".join(
        f"{name} = plainly_{what}({plain}) if config.DISABLE_JIT else intrinsic({what}({own}))"
        for name, (what, own, plain) in made.items()
    )
    own = filled, spread_out, multiplied_and_added, summed_within, by_fours, summed, scoring, measuring, summing
    copied = vectors.copied(*vectors.SHARED, *own, plainly_scoring, plainly_measuring, plainly_summing)
    return f"{copied}\n\n{lines}\n"
