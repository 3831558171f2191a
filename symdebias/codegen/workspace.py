"""Room for what kernels keep: arrays that begin with a line of the cache, so that no vector of numbers lies across two.

NumPy's own begin at any sixteenth byte: loops over a tile then take up to half as long again.
"""

import functools
import math
from collections.abc import Callable

import numpy as np

from symdebias._arrays import FloatArray

# Bytes of a line of the cache, and of a number.
_LINE, _NUMBER = 64, 8


def empty(*shapes: tuple[int, ...]) -> list[FloatArray]:
    """Return arrays of these shapes, float64, C order, with anything in them."""
    return _parted(np.empty, shapes)


def zeros(*shapes: tuple[int, ...]) -> list[FloatArray]:
    """Return arrays of these shapes, float64, C order, full of zeros."""
    return _parted(np.zeros, shapes)


def _parted(make: Callable[[int], FloatArray], shapes: tuple[tuple[int, ...], ...]) -> list[FloatArray]:
    count, places = _layout(shapes)
    whole = make(count)
    begin = -whole.__array_interface__["data"][0] % _LINE // _NUMBER
    return [whole[begin + first : begin + last].reshape(shape) for first, last, shape in places]


@functools.lru_cache(maxsize=512)
def _layout(shapes: tuple[tuple[int, ...], ...]) -> tuple[int, list[tuple[int, int, tuple[int, ...]]]]:
    """Return how many numbers arrays need, and where each begins and ends after the first beginning of a line."""
    in_line, first = _LINE // _NUMBER, 0
    places = []
    for shape in shapes:
        count = math.prod(shape)
        places.append((first, first + count, shape))
        first += -(-count // in_line) * in_line
    return first + in_line, places
