"""Uniform directions from bits: a normal vector from float64 numbers that stand for bits, with the error it may have.

The same numbers always give the same vector, up to a rounding that `ERROR` covers.

Notes
-----
Coordinates come in pairs, as the polar form of two normal numbers: r (cos phi, sin phi), r^2/2 exponential and phi
uniform. A length is a signed number: its size u is uniform on (0, 1/2), and its sign chooses which half of the
exponential law is meant, -log u or -log(1 - u), so that either has u's relative precision. An angle is an integer of
64 bits: the first turns the pair round, and the other 63 are phi in [-pi/2, pi/2), whose cosine and sine are rational
in tan(phi/2).

**What is proved.** u is within 2^-50 of itself of a number with the exactly uniform law (`cap_points.length_numbers`),
except with probability 2^-74, and phi within 2^-50. With logarithms and tangents within 2^-46 of themselves, and IEEE
arithmetic else: r^2 is within 2^-46 + 2^-48 of itself, r within 2^-46; the point of the circle, whose derivative in the
tangent is at most 2, is within 2^-45 + 2^-49. Each pair, and with it the vector of all pairs, is within `ERROR` = 2^-43
of its own norm of an exactly normal vector. That NumPy's logarithms and tangents are this good, 128 units in the last
place, is assumed; tests look at it.

**From the upper halves.** The upper 32 bits of lengths and angles say where a vector is up to `ROUGH_ERROR` = 2^-12 of
its norm, in float32, if no u is below `COARSE` = 2^-12. The lower halves and the rounding of U = u or 1 - u to 24 bits
move log U by 2^-20 + 2^-24 where U <= 1/2, and by 2^-31 + 2^-24 where U > 1/2 and -log U >= 2^-12; with logarithms
within 2^-18 of themselves r^2 is within 2^-11.9 of itself and r within 2^-12.8. With tangents within 2^-18 of
themselves the point of the circle is within 2^-16: 2^-17 and 2^-20 for the roundings of the angle and of the division.
That NumPy's logarithms and tangents of float32 are this good, 64 units in the last place, is assumed and tested as
well. A kernel (`symdebias.codegen.draws.rough_pair`) has series of its own for the logarithm, the cosine and the sine,
each term by IEEE arithmetic: -log U is within 2^-20 of itself, and the point of the circle within 2^-19.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from symdebias._arrays import FloatArray, IntegerArray

Words = IntegerArray
# Of words.
Halves = np.ndarray[Any, np.dtype[np.int32]]

# |g - g*| / |g*|, over all pairs of coordinates.
ERROR = 2.0**-43
# The probability that a pair is none of the pairs that this holds for.
FAILURE = 2.0**-74
# |g - g*| / |g*| of what the upper halves say, where no size is below COARSE.
ROUGH_ERROR = 2.0**-12
COARSE = 2.0**-12


def normal_vectors(lengths: FloatArray, angles: Words, dimension: int) -> list[FloatArray]:
    """Return normal vectors, coordinate by coordinate, up to a common factor: D arrays of shape (...), float64.

    Every operation is on single numbers, so that a vector does not depend on its neighbours but through the rounding of
    elementary functions. Lengths, shape (k, ...), are sizes in (0, 1/2] with signs, angles any integers of that shape;
    D is 2 k or 2 k - 1.
    """
    size = np.abs(lengths)
    # The other branch of each is finite as well.
    scale = np.where(lengths < 0, np.log(size), np.log1p(-size))
    np.sqrt(np.negative(scale, out=scale), out=scale)
    # Without the first bit, which stands where a float64 has its sign.
    half_angle = np.multiply(np.left_shift(angles, 1), np.pi / 4 * 2.0**-63, dtype=np.float64)
    np.copysign(scale, angles.view(np.float64), out=scale)
    return _pairs(scale, half_angle)[:dimension]


def rough_vectors(lengths: Halves, angles: Halves) -> list[FloatArray]:
    """Return about what `normal_vectors` makes of words with these upper halves, all 2 k coordinates, in float32.

    Parameters
    ----------
    lengths, angles : array of shape (k, ...), int32
        The upper halves. Sizes below `COARSE` give something finite.

    Returns
    -------
    list of 2 k arrays of shape (...), float32
    """
    # The number of which the logarithm is meant: u for negative lengths, 1 - u for others.
    scale = np.multiply(np.invert(lengths).view(np.uint32), np.float32(2.0**-32), dtype=np.float32)
    np.maximum(scale, np.float32(COARSE), out=scale)
    np.log(scale, out=scale)
    np.sqrt(np.negative(scale, out=scale), out=scale)
    half_angle = np.multiply(np.left_shift(angles, 1), np.float32(np.pi / 4 * 2.0**-31), dtype=np.float32)
    np.copysign(scale, angles.view(np.float32), out=scale)
    return _pairs(scale, half_angle)


def _pairs(scale: FloatArray, half_angle: FloatArray) -> list[FloatArray]:
    """Return scale (cos phi, sin phi), coordinate by coordinate, from phi/2, which is written over."""
    tangent = np.tan(half_angle, out=half_angle)
    square = tangent * tangent
    scale /= 1 + square
    second = tangent
    second *= scale
    second += second
    first = np.subtract(1.0, square, out=square)
    first *= scale
    return [coordinate for pair in zip(first, second, strict=True) for coordinate in pair]


def norms(vectors: list[FloatArray]) -> FloatArray:
    """Return the norms of vectors that are given coordinate by coordinate."""
    total = vectors[0] * vectors[0]
    for coordinate in vectors[1:]:
        total += coordinate * coordinate
    root: FloatArray = np.sqrt(total, out=total)
    return root


def rough_deviation(dimension: int) -> float:
    """Return what a rough cosine may fall short of, in norms of all coordinates of the rough vector.

    If the sum of products of a point with the rough vector is less than gamma times its norm by more than that, the
    test of the direction says "outside", whatever the lower halves are.

    Parameters
    ----------
    dimension : int
        D.

    Notes
    -----
    The sum and the norm of the rough vector are each within `ROUGH_ERROR` of those of the exact one, in its norm, and
    gamma is at most 1: twice `ROUGH_ERROR`, and as much again for the norm in which it is said, for what separates the
    exact vector from the one that is tested, and for gamma. Float32 adds the roundings of D products and their sum, of
    the point, of the norm and of the comparison.
    """
    return 4 * ROUGH_ERROR + (4 * dimension + 32) * 2.0**-24


@dataclass(frozen=True)
class Deviation:
    """How far a realised direction and its test may be from the exact ones."""

    # The test "the cosine with a point is gamma or more" is that of an exactly uniform direction with a gamma that is
    # off by at most this.
    cosine: float
    failure: float  # The probability that it is not.


def deviation(dimension: int) -> Deviation:
    """Return the deviation of the test of a direction in R^D.

    Notes
    -----
    In even D the direction is off by 2 `ERROR` at most. In odd D one coordinate is left out, and the rest may be short:
    its share x of the squared norm has the law Beta(D/2, 1/2), so that P(x <= 2^-2j) <= 2^-jD for D >= 3 (its density
    is x^(D/2 - 1) (1 - x)^(-1/2) over B(D/2, 1/2), and B(D/2, 1/2) D/2 > 2); outside of it the direction is off by
    2^(j + 1) `ERROR`. The test compares a sum of D products with gamma times a norm: D, D/2 + 2 and 1 roundings, and
    the point's norm is 1 up to D + 6 of them.
    """
    pairs = (dimension + 1) // 2
    rounding = (4 * dimension + 32) * 2.0**-53
    if dimension % 2 == 0:
        return Deviation(2 * ERROR + rounding, pairs * FAILURE)
    shortness = -(-43 // (dimension + 1))
    return Deviation(2.0 ** (shortness + 1) * ERROR + rounding, 2.0 ** (-shortness * dimension) + pairs * FAILURE)
