"""What loops cannot say: to ask for memory ahead, to copy rows, and to turn eight rows into columns.

The text of these functions is copied into the modules of kernels, as that of `elementary`; there ``prefetch``,
``copy_rows``, ``copy_numbers``, ``turn_rows`` and ``turn_numbers`` are made of them (`text`), or ``turn_8`` to
``turn_1`` (`fill_text`). What is made has a plain twin, for kernels that are not compiled.
"""

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

IMPORTS = """
from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic
"""
# Numbers of a row that are turned together.
_WIDTHS = (8, 4, 2, 1)
# How many rows ahead of those that are turned the processor is asked for, and numbers at most (measured at 2 to 400
# columns).
_AHEAD, _NUMBERS_AHEAD = 256, 2**15


def data_of(context: Any, builder: Any, signature: Any, arguments: Any, place: int) -> Any:
    """Return where the numbers of an array begin that is an argument."""
    return context.make_array(signature.args[place])(context, builder, arguments[place]).data


def vector_of(width: int) -> Any:
    """Return the type of vectors of so many numbers."""
    return ir.VectorType(ir.DoubleType(), width)


def loaded(builder: Any, data: Any, place: Any, width: int) -> Any:
    """Return some numbers from a place on as a vector."""
    return builder.load(builder.bitcast(builder.gep(data, [place]), vector_of(width).as_pointer()), align=8)


def stored(builder: Any, numbers: Any, data: Any, place: Any) -> None:
    """Write a vector, or a number, from a place on."""
    builder.store(numbers, builder.bitcast(builder.gep(data, [place]), numbers.type.as_pointer()), align=8)


def shuffled(builder: Any, one: Any, other: Any, places: Sequence[int]) -> Any:
    """Return numbers of two vectors, by their places in one after the other."""
    return builder.shuffle_vector(one, other, ir.VectorType(ir.IntType(32), len(places))(list(places)))


def asked_for(builder: Any, data: Any, place: Any) -> None:
    """Ask the processor for the cache line of the number at a place."""
    byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
    kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
    called = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
    line = builder.bitcast(builder.gep(data, [place]), byte)
    # For reading, of data, into all caches but the first: a batch that is under way would put out the tile there.
    builder.call(called, [line, number(0), number(2), number(1)])


def parted(columns: int, widest: int) -> list[tuple[int, int]]:
    """Return where the parts begin that so many columns are made of, and their widths: a power of 2 and those below."""
    found, begin, width = [], 0, widest
    while begin < columns:
        if width <= columns - begin:
            found.append((begin, width))
            begin += width
        else:
            width //= 2
    return found


# What functions that are made for kernels are written with.
SHARED = (data_of, vector_of, loaded, stored, shuffled, asked_for, parted)


def prefetching(typing: Any, array: Any, place: Any) -> Any:
    """Ask the processor for the cache line of the number at a place of an array, counted in its memory."""

    def written(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        asked_for(builder, data_of(context, builder, signature, arguments, 0), arguments[1])
        return context.get_dummy_value()

    return types.void(array, place), written


def copying(columns: int) -> Callable[..., Any]:
    """Return what copies rows of an array that follow on one another to rows of another one, of as many columns.

    It takes the array that is written to, the first row there, the other array, the first row there, and how many rows.
    """

    def copy(typing: Any, into: Any, to: Any, array: Any, row: Any, count: Any) -> Any:
        def written(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            target, source = (data_of(context, builder, signature, arguments, at) for at in (0, 2))
            index = arguments[4].type
            end, begin, numbers = (builder.mul(arguments[at], index(columns)) for at in (1, 3, 4))

            def some(width: int, first: Any) -> None:
                stored(
                    builder, loaded(builder, source, builder.add(begin, first), width), target, builder.add(end, first)
                )

            with cgutils.for_range(builder, builder.udiv(numbers, index(8))) as loop:
                some(8, builder.mul(loop.index, index(8)))
            for width in (4, 2, 1):
                if columns % (2 * width):
                    left = builder.and_(numbers, index(2 * width - 1))
                    with builder.if_then(builder.icmp_unsigned(">=", left, index(width))):
                        some(width, builder.sub(numbers, left))
            return context.get_dummy_value()

        return types.void(into, to, array, row, count), written

    return copy


def exchanged(builder: Any, lines: list[Any], group: int) -> list[Any]:
    """Return vectors of eight numbers, of which pairs so far apart have exchanged groups of so many numbers."""
    low = [n % group + (n // group % 2) * 8 + n // (2 * group) * 2 * group for n in range(8)]
    after = list(lines)
    for n in range(len(lines)):
        if n // group % 2 == 0:
            after[n] = shuffled(builder, lines[n], lines[n + group], low)
            after[n + group] = shuffled(builder, lines[n], lines[n + group], [m + group for m in low])
    return after


def turned(builder: Any, lines: list[Any], width: int) -> list[Any]:
    """Return the columns of eight rows of 8, 4, 2 or 1 numbers, as vectors of eight."""
    # Rows whose numbers end up next to one another but for those of the stages below stand side by side.
    size = width
    while size < 8:
        half = len(lines) // 2
        if size == width and width == 2:
            lines = [lines[n] for n in (0, 1, 4, 5, 2, 3, 6, 7)]
        elif size == width and width == 1:
            lines = [lines[n] for n in (0, 4, 2, 6, 1, 5, 3, 7)]
        lines = [shuffled(builder, lines[n], lines[n + half], range(2 * size)) for n in range(half)]
        size *= 2
    # Pairs of rows exchange single numbers, then pairs of numbers, then halves.
    for group in (1, 2, 4):
        if group >= width:
            break
        lines = exchanged(builder, lines, group)
    return lines


def turning(columns: int, apart: int) -> Callable[..., Any]:
    """Return what writes eight rows of an array, by their numbers, column by column from a place on.

    Parameters
    ----------
    columns : int
        The number of columns of the array.
    apart : int
        How far columns are from one another in what is written to.
    """

    def turn(typing: Any, into: Any, place: Any, array: Any, rows: Any) -> Any:
        def written(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            to, source, numbers = (data_of(context, builder, signature, arguments, at) for at in (0, 2, 3))
            index = arguments[1].type
            asked = [builder.load(builder.gep(numbers, [index(n)])) for n in range(8)]
            starts = [builder.mul(row, index(columns)) for row in asked]
            for column, width in parted(columns, 8):
                lines = [loaded(builder, source, builder.add(start, index(column)), width) for start in starts]
                for n, vector in enumerate(turned(builder, lines, width)):
                    stored(builder, vector, to, builder.add(arguments[1], index((column + n) * apart)))
            return context.get_dummy_value()

        return types.void(into, place, array, rows), written

    return turn


def turning_some(width: int, apart: int) -> Callable[..., Any]:
    """Return what writes some columns of eight rows of an array that follow on one another, from a place on.

    It takes the place in the array where they begin, counted in its memory, and how many columns the array has.

    Parameters
    ----------
    width : int
        How many columns: 8, 4, 2 or 1.
    apart : int
        As for `turning`.
    """

    def turn(typing: Any, into: Any, place: Any, array: Any, begin: Any, columns: Any) -> Any:
        def written(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            to, source = (data_of(context, builder, signature, arguments, at) for at in (0, 2))
            index, lines = arguments[1].type, []
            for n in range(8):
                number = builder.add(arguments[3], builder.mul(arguments[4], index(n)))
                lines.append(loaded(builder, source, number, width))
            for n, vector in enumerate(turned(builder, lines, width)):
                stored(builder, vector, to, builder.add(arguments[1], index(n * apart)))
            return context.get_dummy_value()

        return types.void(into, place, array, begin, columns), written

    return turn


def plainly_copying(columns: int) -> Callable[..., Any]:
    """Return the twin of what `copying` comes to."""

    def copy(into: Any, to: Any, array: Any, row: Any, count: Any) -> None:
        into[to : to + count] = array[row : row + count]

    return copy


def plainly_turning(columns: int, apart: int) -> Callable[..., Any]:
    """Return the twin of what `turning` comes to."""

    def turn(into: Any, place: Any, array: Any, rows: Any) -> None:
        for n, row in enumerate(rows):
            for column in range(columns):
                into.reshape(-1)[column * apart + place + n] = array.reshape(-1)[row * columns + column]

    return turn


def plainly_turning_some(width: int, apart: int) -> Callable[..., Any]:
    """Return the twin of what `turning_some` comes to."""

    def turn(into: Any, place: Any, array: Any, begin: Any, columns: Any) -> None:
        for row in range(8):
            for column in range(width):
                into.reshape(-1)[column * apart + place + row] = array.reshape(-1)[begin + row * columns + column]

    return turn


def text(columns: int, apart: int) -> str:
    """Return the definitions of what is made for so many columns, and of ``prefetch``."""
    return f"""{copied(*SHARED, prefetching, copying, exchanged, turned, turning, plainly_copying, plainly_turning)}

if config.DISABLE_JIT:
    prefetch = lambda array, place: None
    copy_rows, copy_numbers = plainly_copying({columns}), plainly_copying(1)
    turn_rows, turn_numbers = plainly_turning({columns}, {apart}), plainly_turning(1, {apart})
else:
    prefetch = intrinsic(prefetching)
    copy_rows, copy_numbers = intrinsic(copying({columns})), intrinsic(copying(1))
    turn_rows, turn_numbers = intrinsic(turning({columns}, {apart})), intrinsic(turning(1, {apart}))
"""


def fill_text(apart: int, columns: int | None = None) -> str:
    """Return the definitions of what `fill_lines` call, with arguments as there."""
    made = "\n".join(
        f"turn_{width} = plainly_turning_some({width}, {apart}) if config.DISABLE_JIT else "
        f"intrinsic(turning_some({width}, {apart}))"
        for width in _WIDTHS
        if columns is None or any(width == own for _, own in parted(columns, 8))
    )
    ask = "prefetch = (lambda array, place: None) if config.DISABLE_JIT else intrinsic(prefetching)"
    return f"{copied(*SHARED, prefetching, exchanged, turned, turning_some, plainly_turning_some)}\n\n{ask}\n{made}\n"


def fill_lines(apart: int, columns: int | None = None) -> list[str]:
    """Return lines that write the first ``count`` rows of ``X`` to ``tile``, column by column, and ask for the next.

    Parameters
    ----------
    apart : int
        How far columns are from one another in the tile.
    columns : int, optional
        How many columns are written, the first ones; all by default.
    """
    turn = f"(tile, j*{apart} + i, X, i*stride + j, stride)"
    if columns == 0:
        return []
    if columns is None:
        turns = ["j = 0", "while j + 8 <= stride:", f"    turn_8{turn}", "    j += 8"]
        for width in _WIDTHS[1:]:
            turns += [f"if j + {width} <= stride:", f"    turn_{width}{turn}", f"    j += {width}"]
    else:
        eights = columns - columns % 8
        turns = [f"for j in range(0, {eights}, 8):", f"    turn_8{turn}"] if eights else []
        for begin, width in parted(columns % 8, 4):
            turns += [f"j = {eights + begin}", f"turn_{width}{turn}"]
    return [
        "stride, eights = X.shape[1], count - count % 8",
        f"ahead = min({_AHEAD}*stride, {_NUMBERS_AHEAD})",
        "for i in range(0, eights, 8):",
        *("    " + line for line in turns),
        "    for j in range(stride):",
        "        prefetch(X, i*stride + ahead + 8*j)",
        "for i in range(eights, count):",
        f"    for j in range({'stride' if columns is None else columns}):",
        f"        tile[j*{apart} + i] = X[i, j]",
    ]


@functools.cache
def copied(*functions: Callable[..., Any]) -> str:
    """Return the text of functions, with what they import."""
    definitions = "\n\n".join(inspect.getsource(one).rstrip() for one in functions)
    return f"\nfrom collections.abc import Callable, Sequence\nfrom typing import Any\n{IMPORTS}\n\n{definitions}\n"
