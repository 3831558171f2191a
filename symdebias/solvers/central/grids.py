"""The grids on which central solvers put what they computed, before they noise it.

What a solver computes from true records lies anywhere in float64, and float64 sums with noise tell more of it than
real numbers would. On a grid of a power of two both are whole numbers of steps, and their sum is exact
(`symdebias.mechanisms.rounded`). Rounding moves a vector, and with that it moves neighbours apart: what it may add to
their distance is counted into the sensitivity, to which the noise is calibrated.
"""

import math

import numpy as np

from symdebias._arrays import FloatArray
from symdebias.mechanisms import rounded, sampling
from symdebias.privacy import Guarantee
from symdebias.privacy.guarantee import PLAIN

# Steps within a sensitivity, over the root of the number of coordinates.
_FINE = 2.0**20
# Whole numbers are exact in float64 up to 2^53.
_EXACT = 2.0**52
_UP = 1 + 2.0**-50


def step_for(sensitivity: float, width: int, reach: float) -> float:
    """Return the step of a grid for vectors: a power of two that follows from public numbers.

    It is at most 2^-20 of the sensitivity, how far neighbours' vectors may lie apart in the L2 norm, over the root of
    the width, so that rounding adds no more than 2^-20 of itself to it; a longer one only where `reach`, how large a
    coordinate may be with its noise, would otherwise be 2^52 steps or more.

    Examples
    --------
    >>> step_for(1.0, 4, reach=100.0) == 2.0**-21
    True
    """
    wanted = math.ldexp(1.0, math.frexp(sensitivity / (_FINE * math.sqrt(width)))[1] - 1)
    needed = math.ldexp(1.0, math.frexp(reach / _EXACT)[1])
    return max(wanted, needed)


def widened(sensitivity: float, step: float, width: int) -> float:
    """Return how far neighbours' vectors may lie apart after rounding, rounded up.

    Each coordinate moves by half a step at most, a vector by step sqrt(width)/2, and two of them by twice that.
    """
    return (sensitivity + step * math.sqrt(width) * _UP) * _UP


def promised(guarantee: Guarantee, source: sampling.Source, noise: str | None) -> Guarantee:
    """Return what a call promises without a seed: of plain noise what it is worth.

    Parameters
    ----------
    guarantee : Guarantee
        On real numbers.
    source : Source
        What the call drew from.
    noise : str or None
        The kind of noise that was asked for. A seeded stream is plain unless it says otherwise, and the same call
        without the seed is not.
    """
    return guarantee if source.hardened or (source.seeded and noise is None) else guarantee.with_basis(PLAIN)


def noised(vector: FloatArray, step: float, scale: float, source: sampling.Source, *, radial: bool) -> FloatArray:
    """Return a vector, rounded to a grid, with noise: rounded to the same grid exactly where it is hardened.

    The vector lies within the reach that the step was made for, by `step_for`. The scale is the standard deviation of
    normal noise, or that of radial noise, of a density proportional to exp(-||b||/scale).

    Raises
    ------
    ArithmeticError
        A place lies beyond the whole numbers of float64.
    """
    places = np.rint(vector / step)
    if source.hardened:
        if radial:
            noise = rounded.radial(scale / step, 1, len(vector), len(vector), source)[0]
        else:
            noise = rounded.normal(scale / step, vector.shape, source)
    elif radial:
        noise = sampling.radial_noise(scale / step, len(vector), source)
    else:
        noise = sampling.normal_noise(scale / step, vector.shape, source)
    released: FloatArray = places + noise
    if not float(np.abs(released).max()) < 2 * _EXACT:
        raise ArithmeticError("what is noised lies beyond 2^53 steps of the grid. Bound theta with radius=.")
    return released * step
