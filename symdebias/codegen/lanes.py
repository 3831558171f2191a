"""Rows of tables and records side by side: products of rows, and eight records' rows turned into columns and back.

A row has *lanes*: the coefficients of a power series that begins with 1, from the second one on; from the beginning of
the next line of the cache on the real parts of complex numbers, then their imaginary parts. A row fills whole lines:
what is between and behind these is not looked at.

Lanes are too few for a loop over them to be vectorised by itself, and too many to be written out. The text of these
functions is copied into the modules of kernels, as that of `vectors`; there ``multiply_rows``, ``add_row``,
``dot_rows``, ``rows_to_lanes`` and ``lanes_to_rows`` are made of them (`text`). What is made has a plain twin, for
kernels that are not compiled. Places in arrays are counted in their memory.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from symdebias.codegen import vectors
from symdebias.codegen.along_rows import multiplied_and_added, spread_out
from symdebias.codegen.vectors import data_of, exchanged, loaded, parted, shuffled, stored, turned


def first_wave(powers: int) -> int:
    """Return the lane of the first complex number behind so many powers."""
    return -(-powers // 8) * 8


def row_length(powers: int, waves: int) -> int:
    """Return how many numbers a row has, with those between and behind its lanes."""
    return -(-(first_wave(powers) + 2 * waves) // 8) * 8


def parts_of_row(powers: int, waves: int) -> list[tuple[int, int]]:
    """Return where vectors begin that a row consists of, and their widths: no vector has two kinds of lanes."""
    first = first_wave(powers)
    kinds = ((0, powers), (first, waves), (first + waves, waves))
    return [(begin + at, width) for begin, count in kinds for at, width in parted(count, 8)]


def lanes_of_row(powers: int, waves: int) -> Any:
    """Return the lanes of a row, in order."""
    return np.array([begin + n for begin, width in parts_of_row(powers, waves) for n in range(width)], dtype=int)


def turned_back(builder: Any, lines: list[Any], width: int) -> list[Any]:
    """Return the eight rows of 8, 4, 2 or 1 columns of eight numbers each: what `turned` has made them of."""
    for group in (4, 2, 1):
        if group >= width:
            continue
        lines = exchanged(builder, lines, group)
    size = 8
    while size > width:
        size //= 2
        lines = [shuffled(builder, one, one, range(at, at + size)) for at in (0, size) for one in lines]
    orders = {2: (0, 1, 4, 5, 2, 3, 6, 7), 1: (0, 4, 2, 6, 1, 5, 3, 7)}
    return [lines[n] for n in orders.get(width, range(8))]


def multiplying(powers: int, waves: int) -> Callable[..., Any]:
    """Return what writes the product of two rows.

    It takes the array that is written to and the place there, and both rows' arrays and places.
    """

    def multiply(typing: Any, into: Any, to: Any, one: Any, first: Any, other: Any, second: Any) -> Any:
        def written(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            target, left, right = (data_of(context, builder, signature, arguments, at) for at in (0, 2, 4))
            _, to, _, first, _, second = arguments
            index, wave = to.type, first_wave(powers)

            def read(data: Any, place: Any, lane: int, width: int) -> Any:
                return loaded(builder, data, builder.add(place, index(lane)), width)

            def plus(product: Any, total: Any) -> Any:
                return builder.fadd(total, product, flags=("contract",))

            def write(numbers: Any, lane: int) -> None:
                stored(builder, numbers, target, builder.add(to, index(lane)))

            series = [
                [read(data, place, k, 1) for k in range(powers)] for data, place in ((left, first), (right, second))
            ]
            for k in range(powers):
                total = builder.fadd(series[0][k], series[1][k])
                for m in range(k):
                    total = multiplied_and_added(builder, series[0][m], series[1][k - 1 - m], total)
                write(total, k)
            for at, width in parted(waves, 8):
                x, z, s, t = (
                    read(data, place, wave + kind * waves + at, width)
                    for data, place in ((left, first), (right, second))
                    for kind in range(2)
                )
                product = builder.fmul(x, s, flags=("contract",))
                write(builder.fsub(product, builder.fmul(z, t, flags=("contract",)), flags=("contract",)), wave + at)
                crossed = builder.fmul(x, t, flags=("contract",))
                write(plus(builder.fmul(z, s, flags=("contract",)), crossed), wave + waves + at)
            return context.get_dummy_value()

        return types.void(into, to, one, first, other, second), written

    return multiply


def adding(powers: int, waves: int) -> Callable[..., Any]:
    """Return what adds a row times a factor to another one.

    It takes the array that is written to and the place there, the array and the place of the row, and the factor.
    """

    def add(typing: Any, into: Any, to: Any, array: Any, place: Any, factor: Any) -> Any:
        def written(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            target, source = (data_of(context, builder, signature, arguments, at) for at in (0, 2))
            _, to, _, place, factor = arguments
            for lane, width in parts_of_row(powers, waves):
                at = builder.add(to, to.type(lane))
                row = loaded(builder, source, builder.add(place, place.type(lane)), width)
                before = loaded(builder, target, at, width)
                more = multiplied_and_added(builder, spread_out(builder, factor, width), row, before)
                stored(builder, more, target, at)
            return context.get_dummy_value()

        return types.void(into, to, array, place, factor), written

    return add


def dotting(powers: int, waves: int) -> Callable[..., Any]:
    """Return what returns the sum of the products of the numbers of two rows, by their arrays and places."""

    def dot(typing: Any, one: Any, first: Any, other: Any, second: Any) -> Any:
        def written(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            left, right = (data_of(context, builder, signature, arguments, at) for at in (0, 2))
            _, first, _, second = arguments
            sums: dict[int, Any] = {}
            for lane, width in parts_of_row(powers, waves):
                row = loaded(builder, left, builder.add(first, first.type(lane)), width)
                more = loaded(builder, right, builder.add(second, second.type(lane)), width)
                sums[width] = multiplied_and_added(builder, row, more, sums.get(width))
            for width in (8, 4, 2):
                if width not in sums:
                    continue
                whole, half = sums.pop(width), width // 2
                low, high = (shuffled(builder, whole, whole, range(at, at + half)) for at in (0, half))
                found = builder.fadd(low, high)
                sums[half] = builder.fadd(found, sums[half]) if half in sums else found
            return builder.extract_element(sums[1], ir.IntType(32)(0))

        return types.float64(one, first, other, second), written

    return dot


def to_lanes(powers: int, waves: int, apart: int) -> Callable[..., Any]:
    """Return what writes eight rows lane by lane, so far apart from one another.

    It takes the array that is written to and the place of the first lane there, and the array and the places of the
    rows.
    """

    def turn(typing: Any, into: Any, to: Any, array: Any, places: Any) -> Any:
        def written(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            target, source, numbers = (data_of(context, builder, signature, arguments, at) for at in (0, 2, 3))
            to = arguments[1]
            index = to.type
            begins = [builder.load(builder.gep(numbers, [index(n)])) for n in range(8)]
            for lane, width in parts_of_row(powers, waves):
                lines = [loaded(builder, source, builder.add(begin, index(lane)), width) for begin in begins]
                for n, vector in enumerate(turned(builder, lines, width)):
                    stored(builder, vector, target, builder.add(to, index((lane + n) * apart)))
            return context.get_dummy_value()

        return types.void(into, to, array, places), written

    return turn


def to_rows(powers: int, waves: int, apart: int) -> Callable[..., Any]:
    """Return what writes eight rows, one after another, whose lanes stand so far apart from one another.

    It takes the array that is written to and the place of the first row there, and the array and the place of the first
    lane.
    """

    def turn(typing: Any, into: Any, to: Any, array: Any, place: Any) -> Any:
        def written(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            target, source = (data_of(context, builder, signature, arguments, at) for at in (0, 2))
            _, to, _, place = arguments
            index, length = to.type, row_length(powers, waves)
            for lane, width in parts_of_row(powers, waves):
                lines = [
                    loaded(builder, source, builder.add(place, index((lane + n) * apart)), 8) for n in range(width)
                ]
                for n, vector in enumerate(turned_back(builder, lines, width)):
                    stored(builder, vector, target, builder.add(to, index(n * length + lane)))
            return context.get_dummy_value()

        return types.void(into, to, array, place), written

    return turn


def plainly_multiplying(powers: int, waves: int) -> Callable[..., Any]:
    """Return the twin of what `multiplying` comes to."""
    length, wave = row_length(powers, waves), first_wave(powers)
    middle, end = wave + waves, wave + 2 * waves

    def multiply(into: Any, to: Any, one: Any, first: Any, other: Any, second: Any) -> None:
        left, right = (a.reshape(-1)[at : at + length].copy() for a, at in ((one, first), (other, second)))
        series = np.convolve(np.append(1.0, left[:powers]), np.append(1.0, right[:powers]))[1 : powers + 1]
        waved = (left[wave:middle] + 1j * left[middle:end]) * (right[wave:middle] + 1j * right[middle:end])
        row = into.reshape(-1)[to : to + length]
        row[:powers], row[wave:middle], row[middle:end] = series, waved.real, waved.imag

    return multiply


def plainly_adding(powers: int, waves: int) -> Callable[..., Any]:
    """Return the twin of what `adding` comes to."""
    own = lanes_of_row(powers, waves)

    def add(into: Any, to: Any, array: Any, place: Any, factor: Any) -> None:
        into.reshape(-1)[to + own] += factor * array.reshape(-1)[place + own]

    return add


def plainly_dotting(powers: int, waves: int) -> Callable[..., Any]:
    """Return the twin of what `dotting` comes to."""
    own = lanes_of_row(powers, waves)

    def dot(one: Any, first: Any, other: Any, second: Any) -> Any:
        return one.reshape(-1)[first + own] @ other.reshape(-1)[second + own]

    return dot


def plainly_to_lanes(powers: int, waves: int, apart: int) -> Callable[..., Any]:
    """Return the twin of what `to_lanes` comes to."""
    own = lanes_of_row(powers, waves)

    def turn(into: Any, to: Any, array: Any, places: Any) -> None:
        for n, place in enumerate(places):
            into[to + n + own * apart] = array.reshape(-1)[place + own]

    return turn


def plainly_to_rows(powers: int, waves: int, apart: int) -> Callable[..., Any]:
    """Return the twin of what `to_rows` comes to."""
    own, length = lanes_of_row(powers, waves), row_length(powers, waves)

    def turn(into: Any, to: Any, array: Any, place: Any) -> None:
        for n in range(8):
            into[to + n * length + own] = array[place + n + own * apart]

    return turn


def text(powers: int, waves: int, apart: int) -> str:
    """Return the definitions of what is made for rows of so many lanes."""
    made = {
        "multiply_rows": ("multiplying", f"{powers}, {waves}"),
        "add_row": ("adding", f"{powers}, {waves}"),
        "dot_rows": ("dotting", f"{powers}, {waves}"),
        "rows_to_lanes": ("to_lanes", f"{powers}, {waves}, {apart}"),
        "lanes_to_rows": ("to_rows", f"{powers}, {waves}, {apart}"),
    }
    lines = "\n".join(
        f"{name} = plainly_{what}({how}) if config.DISABLE_JIT else intrinsic({what}({how}))"
        for name, (what, how) in made.items()
    )
    plain = plainly_multiplying, plainly_adding, plainly_dotting, plainly_to_lanes, plainly_to_rows
    own = first_wave, row_length, parts_of_row, lanes_of_row, exchanged, turned, turned_back
    copied = vectors.copied(
        *vectors.SHARED, *own, spread_out, multiplied_and_added, multiplying, adding, dotting, to_lanes, to_rows, *plain
    )
    return f"{copied}\n\n{lines}\n"
