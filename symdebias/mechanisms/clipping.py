"""Numbers and rows drawn in to bounds, and put on the grid of a noise; many of them by kernels, on all cores."""

import functools
import itertools
from collections.abc import Callable, Iterator

import numpy as np

from symdebias._arrays import BooleanArray, FloatArray, IntegerArray, check_finite_values
from symdebias._rows import parts_of
from symdebias.codegen import draws
from symdebias.codegen.parallel import NUMBERS, all_finite, over_chunks

UNCLIPPED = "values outside of the bounds cannot be noised on the grid: their sensitivity is not known. Clip first."
# Numbers of rows that are looked at together: they fit a cache. Sums of squares beyond which they may overflow, radii
# whose squares keep their digits, and factors that do.
_NUMBERS, _FAR_SUM, _NEAR_RADIUS, _LEAST_FACTOR = 2**14, 2.0**900, 2.0**-400, 2.0**-1000


def any_column(outside: BooleanArray) -> BooleanArray:
    """Return which records have a True in some column."""
    return np.asarray(outside.reshape(len(outside), -1).any(axis=1))


def in_ball(values: FloatArray, radius: float, *, order: int = 2) -> tuple[FloatArray, BooleanArray]:
    """Return rows whose exact norm is at most the radius, and which of the given ones lay outside it.

    A norm of k squares is computed to a relative error below (k/2 + 2) 2^-53, a sum of k absolute values to one below
    k 2^-53, and the product of a row with a factor to 2^-53. Rows whose norm is within such rounding of the radius are
    drawn in by a few units in the last place; they do not count as outside.

    Parameters
    ----------
    values : array of shape (n, k), float64
        The rows.
    radius : float
        Positive.
    order : {1, 2}
        Of the norm.

    Raises
    ------
    ValueError
        An entry is NaN or infinite.
    """
    if values.size >= draws.MANY and values.flags.c_contiguous and radius >= _NEAR_RADIUS:
        return _many_in_ball(values, radius, order)
    require_finite(values)
    clipped, outside = np.empty(values.shape), np.empty(len(values), dtype=bool)
    for rows in row_blocks(*values.shape):
        clipped[rows], outside[rows] = _in_ball(values[rows], radius, order)
    return clipped, outside


def clipped_in_place(values: FloatArray, clip: Callable[[FloatArray], tuple[FloatArray, BooleanArray]]) -> BooleanArray:
    """Write clipped values over those given, some rows at a time, and return which lay outside.

    Parameters
    ----------
    values : array of shape (n,) or (n, k), float64
        What is written to.
    clip : callable
        Takes some rows, as many as kernels are called for, and returns them clipped and which lay outside.
    """
    outside, rows = np.empty(len(values), dtype=bool), _rows_in_place(values[:1].size)
    # The last rows are not fewer than that.
    starts = [*range(0, max(1, len(values) - rows + 1), rows), len(values)]
    for start, end in itertools.pairwise(starts):
        try:
            values[start:end], outside[start:end] = clip(values[start:end])
        except ValueError:
            # The row that a message names is one of all; those before it are finite.
            require_finite(values)
            raise
    return outside


def _rows_in_place(columns: int) -> int:
    """Return a number of rows for which a kernel is called, in whole blocks: `in_ball` takes those of a block alike."""
    block = _rows_at_once(columns)
    return block * -(-2 * draws.MANY // (block * columns))


def require_finite(values: FloatArray) -> None:
    """Raise ValueError where an entry is NaN or infinite."""
    if not all_finite(values):
        check_finite_values(values)


def _many_in_ball(values: FloatArray, radius: float, order: int) -> tuple[FloatArray, BooleanArray]:
    """Return the same by a kernel, which reads each row once, on all cores."""
    clipped, outside = np.empty(values.shape), np.empty(len(values), dtype=bool)
    kernel, columns = draws.compiled("clip_rows"), values.shape[1]
    lengths = (radius, _FAR_SUM, _LEAST_FACTOR, *_thresholds(radius, columns))
    given, size = order == 1 or not _adds_as_numpy(columns), _rows_at_once(columns)

    def clip(rows: slice) -> list[slice]:
        part = values[rows]
        sums, left = np.empty(len(part)), np.empty(-(-len(part) // size), dtype=np.uint8)
        if given:
            for block in row_blocks(*part.shape):
                sums[block] = _sums(part[block], order)
        kernel(part, sums, given, order == 2, size, lengths, clipped[rows], outside[rows].view(np.uint8), left)
        starts = rows.start + size * np.flatnonzero(left)
        return [slice(start, min(start + size, rows.stop)) for start in starts.tolist()]

    found = over_chunks(len(values), clip, size * max(1, 2 * NUMBERS // (size * columns)))
    if left := list(itertools.chain.from_iterable(found)):
        require_finite(values)
        for rows in left:
            clipped[rows], outside[rows] = _in_ball(values[rows], radius, order)
    return clipped, outside


@functools.lru_cache(maxsize=1024)
def _adds_as_numpy(columns: int) -> bool:
    """Whether the kernel adds the squares of so many columns in NumPy's order, which follows from the processor's kind.

    Otherwise NumPy adds them, so that the last bits are those of few rows.
    """
    # Of a single row it adds those of some thousand columns at a time, and blocks of long rows, or the last, have one.
    count = min(32, _rows_at_once(columns))
    rows, sums = np.sin(np.arange(1.0, count * columns + 1)).reshape(count, columns), np.empty(count)
    lengths, octets = (1.0, _FAR_SUM, _LEAST_FACTOR, *_thresholds(1.0, columns)), np.empty(count, dtype=np.uint8)
    draws.compiled("clip_rows")(rows, sums, False, False, count, lengths, np.empty(rows.shape), octets, octets.copy())
    return all(np.array_equal(sums[: len(block)], _sums(block, 2)) for block in (rows, rows[:1]))


def row_blocks(rows: int, columns: int) -> Iterator[slice]:
    """Return slices of so many rows: their numbers stay in a cache."""
    return parts_of(rows, columns, _NUMBERS)


def _rows_at_once(columns: int) -> int:
    return max(1, _NUMBERS // max(1, columns))


def between(values: FloatArray, low: float, high: float) -> tuple[FloatArray, BooleanArray]:
    """Return numbers, one per record, drawn in to an interval, and which of the records lay outside.

    Raises
    ------
    ValueError
        A number is NaN or infinite.
    """
    if values.size < draws.MANY or not values.flags.c_contiguous:
        require_finite(values)
        return np.clip(values, low, high), any_column((values < low) | (values > high))
    clipped, outside = np.empty(values.shape), np.empty(len(values), dtype=bool)
    kernel, given, flat, marks = draws.compiled("clip_numbers"), values.ravel(), clipped.ravel(), outside.view(np.uint8)
    if any(over_chunks(len(values), lambda part: kernel(given[part], low, high, flat[part], marks[part]), NUMBERS)):
        check_finite_values(values)
    return clipped, outside


def nearest_places(
    values: FloatArray, start: float, step: float, low: int, high: int, out: IntegerArray | None
) -> IntegerArray:
    """Return the nearest whole numbers of steps from a start, drawn in to bounds that one is beyond by a step at most.

    Parameters
    ----------
    values : array of shape (n,) or (n, 1), float64
        Numbers.
    start, step : float
        What they are counted from, and in.
    low, high : int
        The bounds.
    out : array of the same shape, int64, or None
        As for `Numbers.multiples`.
    """
    if out is not None:
        if draws.compiled("place_numbers")(values.reshape(-1), start, 1 / step, low, high, out.reshape(-1)):
            raise ValueError(UNCLIPPED)
        return out
    nearest = np.rint((values - start) / step if start else values / step)
    inside = np.clip(nearest, low, high)
    if not np.all(np.abs(inside - nearest) <= 1):
        raise ValueError(UNCLIPPED)
    return inside.astype(np.int64)


def _thresholds(radius: float, columns: int) -> tuple[float, float, float]:
    """Return the length from which rows are drawn in, the one that they then have, and that of rows outside."""
    slack = (columns + 8) * 2.0**-52
    return radius * (1 - slack), radius * (1 - 3 * slack), radius * (1 + slack)


def _sums(values: FloatArray, order: int) -> FloatArray:
    """Return the sums of the absolute values or of the squares of each row."""
    with np.errstate(over="ignore"):
        return np.asarray(np.abs(values).sum(axis=1) if order == 1 else np.einsum("ij,ij->i", values, values))


def _ones_but_where(chosen: BooleanArray, numbers: FloatArray) -> FloatArray:
    """Return some of the numbers and ones elsewhere, by their bits: `numpy.where` has a branch, which takes time."""
    one = np.float64(1.0).view(np.int64)
    bits = numbers.view(np.int64) ^ one
    bits &= -chosen.astype(np.int64)
    return np.asarray((bits ^ one).view(np.float64))


def _in_ball(values: FloatArray, radius: float, order: int) -> tuple[FloatArray, BooleanArray]:
    """Return the same of a block of rows."""
    least, wanted, most = _thresholds(radius, values.shape[1])
    sums = _sums(values, order)
    lengths = sums if order == 1 else np.sqrt(sums)
    if sums.max() < _FAR_SUM and radius >= max(_NEAR_RADIUS, _LEAST_FACTOR * lengths.max()):
        # No sum overflows, and no factor loses digits. A sum that lost them is that of a row far inside. All factors
        # are computed, so that the time says little of how many rows are drawn in.
        with np.errstate(divide="ignore", over="ignore"):
            factors = _ones_but_where(lengths > least, wanted / lengths)
        return values * factors[:, None], lengths > most
    # Divided by a power of two each, which is exact, so that no sum overflows and no factor is too small.
    sizes = np.abs(values)
    exponents = np.maximum(np.frexp(sizes.max(axis=1))[1], -1000)
    sizes *= np.ldexp(1.0, -exponents)[:, None]
    norms = sizes.sum(axis=1) if order == 1 else np.sqrt(np.einsum("ij,ij->i", sizes, sizes))
    # What overflows is the factor of a row too short for it, which is not used.
    with np.errstate(over="ignore"):
        lengths = np.ldexp(norms, exponents)
        near = lengths > least
        factors = np.ldexp(wanted / np.where(near, norms, 1.0), -exponents)
    clipped = values * np.where(near, factors, 1.0)[:, None]
    # A factor below the normal numbers has lost digits: such rows are divided by their power of two first.
    coarse = near & (factors < 2.0**-1000)
    if coarse.any():
        scaled = np.ldexp(values[coarse], -exponents[coarse][:, None])
        clipped[coarse] = scaled * (wanted / norms[coarse])[:, None]
    return clipped, lengths > most
