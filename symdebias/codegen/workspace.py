"""Room for what kernels keep: arrays that begin with a line of the cache, so that no vector of numbers lies across two.

NumPy's own begin at any sixteenth byte: loops over a tile then take up to half as long again.
"""

import math
from collections.abc import Callable, Sequence

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


def _parted(make: Callable[[int], FloatArray], shapes: Sequence[tuple[int, ...]]) -> list[FloatArray]:
    in_line = _LINE // _NUMBER
    counts = [math.prod(shape) for shape in shapes]
    rooms = [-(-count // in_line) * in_line for count in counts]
    whole = make(sum(rooms) + in_line)
    begin = -whole.__array_interface__["data"][0] % _LINE // _NUMBER
    found = []
    for shape, count, room in zip(shapes, counts, rooms, strict=True):
        found.append(whole[begin : begin + count].reshape(shape))
        begin += room
    return found
