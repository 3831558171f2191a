"""Noise in whole steps on values of a grid: integers are added to integers, and the sum is exact."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from symdebias._arrays import FloatArray, IntegerArray
from symdebias.codegen import draws
from symdebias.mechanisms import rounded, sampling, scratch
from symdebias.mechanisms.ranges import Grid
from symdebias.mechanisms.sampling import Source

# Takes a shape and a source, and returns noise in steps; of many numbers also where to write it.
Noise = Callable[..., IntegerArray]


def noised_places(
    values: FloatArray, grid: Grid, noise: Noise, source: Source, *, by_kernel: bool, in_place: bool = False
) -> FloatArray:
    """Return values of a grid with noise.

    Parameters
    ----------
    values : array of shape (n,) or (n, k), float64
        Values of the grid.
    grid : Grid
        The grid.
    noise : callable
        Takes a shape, a source and what to write to (optional), and returns integers.
    source : Source
        Where the random numbers come from.
    by_kernel : bool
        Whether the noise is one that kernels draw where numbers are many.
    in_place : bool
        Whether values are given up, and what is returned may stand in their place.
    """
    sent = values if in_place else np.empty(values.shape)
    many = by_kernel and values.size == len(values) >= draws.MANY and values.flags.c_contiguous
    if many:
        kernel, drawn = draws.compiled("release_whole"), replace(source, many=True)
        given, released = values.reshape(-1), sent.reshape(-1)

        def draw(part: slice) -> None:
            count = part.stop - part.start
            kernel(given[part], noise((count,), drawn, rounded.errors(count)), grid.step, released[part])
    else:

        def draw(part: slice) -> None:
            places = grid.places(values[part]).astype(np.int64)
            # Integers, whose sum is exact: a float64 sum would round odd places away where the noise is large.
            sent[part] = grid.step * (places + noise(places.shape, source))

    sampling.in_parts(len(values), draw, source, scratch.PART if many else sampling.COINS, whole_stream=True)
    return sent
