"""Points of a sphere that are likelier in a cap around a true one: the cosine is drawn first, whatever the cap's size.

What is released is a point of exactly the stated law, rounded exactly to a grid that no record has a part in: a
function of the point, so that its privacy is that of the law on real numbers. Caps that trials of the whole sphere meet
often are drawn by `symdebias.mechanisms.cap_points`, with fewer words.

Notes
-----
**The law.** With the probability P a point of the cap is drawn, and else one of the whole sphere, both uniform. The
densities in and outside of the cap have the ratio 1 + P/(A (1 - P)), A the share of the cap, which is e^epsilon where
P/(1 - P) = (e^epsilon - 1) A. P is a whole number over 2^64, below that.

**A point of the cap** has q = 1 - t^2 of the cosine t with a density proportional to q^((D - 3)/2)/t up to 1 -
gamma^2: the power law is drawn by its inverse, and kept with the probability gamma/t. Across the record's point a =
(x, h) its direction is that of a normal vector w of D - 1 coordinates, turned by the reflection that takes the last
axis to -a. Of the point t a + sqrt(q) (w, 0) so turned the first coordinates are t x + sqrt(q) (w - x <x, w>/(1 + h)).

**Exactly.** Records stand on a grid of 2^-30 of the radius, so that h is known to a rounding. As in
`symdebias.mechanisms.rounded`, a coordinate is computed in float64 from the first words of its numbers; where two
points of the grid are within what that may be off by, the record is computed again with 70 digits and 192 more bits of
each number. So what is drawn has the stated law up to 2^-120 of each probability.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from symdebias._arrays import BooleanArray, FloatArray, IntegerArray
from symdebias.mechanisms.ranges import Ball
from symdebias.mechanisms.rounded import exact_normal_vector, few_bits, normal_vectors
from symdebias.mechanisms.sampling import Source, in_parts
from symdebias.mechanisms.word_bits import LARGEST, uniform
from symdebias.privacy import precise

# Places of records, in radii.
_PLACE = 2.0**-30
# Takes back what a division by the radius may add.
_WITHIN = 1 - 2.0**-51
# Steps of the released grid in the standard deviation of a coordinate across the record, in the cap.
_FINE = 2.0**20
# Coordinates that are computed at a time: they fit a cache.
_BLOCK = 1 << 15
# How close to gamma the product of a cosine and a uniform number is in doubt.
_CLOSE = 2.0**-40
# Terms of a sum that are added up one after the other.
_TOGETHER = 32


@dataclass(frozen=True)
class _Cap:
    """The cap of gamma in R^D, of which a point is drawn with a probability, in units of 2^-64."""

    rim: float
    dimension: int
    chance: int

    @property
    def across(self) -> float:
        """1 - gamma^2."""
        return (1 - self.rim) * (1 + self.rim)

    @property
    def step(self) -> float:
        """The step of the grid of what is released, in radii: a power of two."""
        return math.ldexp(1.0, math.frexp(math.sqrt(self.across / self.dimension) / _FINE)[1] - 1)


def draw_rounded_cap_points(unit: FloatArray, rim: float, chance: int, source: Source) -> None:
    """Write the first d coordinates of a point of the sphere in R^(d + 1) over each record, shape (n, d).

    The records lie in the unit ball up to a rounding, `rim` is gamma, and the point is one of the cap with the
    probability chance/2^64, else one of the whole sphere. Norms are at most 1, and coordinates whole steps.
    """
    cap, ball = _Cap(rim, unit.shape[1] + 1, chance), Ball(1.0)

    def draw(rows: slice) -> None:
        unit[rows] = _drawn(ball.multiples(unit[rows] * _WITHIN, _PLACE), cap, source).T * cap.step

    in_parts(len(unit), draw, source, max(1, _BLOCK // cap.dimension))


def _drawn(places: IntegerArray, cap: _Cap, source: Source) -> FloatArray:
    """Return points, in steps and coordinate by coordinate, of records at some places."""
    records, dimension = len(places), cap.dimension
    pairs = (dimension + 1) // 2
    words = source.words((1 + 2 * pairs) * records).reshape(1 + 2 * pairs, records)
    inside, lengths, angles = words[0].view(np.uint64) < np.uint64(cap.chance), words[1 : 1 + pairs], words[1 + pairs :]
    falls, known = _falls(int(np.count_nonzero(inside)), cap, source)
    steps, off, unclear = _points(places, inside, falls, lengths, angles, cap)
    nearest = np.rint(steps)
    np.abs(np.subtract(steps, nearest, out=steps), out=steps)
    rank = np.cumsum(inside) - 1
    for record in np.flatnonzero((steps > 0.5 - off / cap.step).any(axis=0) | unclear):
        mp = precise.context()
        normal = exact_normal_vector(mp, lengths[:, record], angles[:, record], source)
        if inside[record]:
            place = int(rank[record])
            fall = known[place] if place in known else uniform(mp, falls[place], source)
            point = _exact_point(mp, places[record].tolist(), fall, normal, cap)
        else:
            whole = normal[:dimension]
            norm = mp.sqrt(sum(number * number for number in whole))
            point = [number / norm for number in whole[:-1]]
        nearest[:, record] = [float(mp.nint(number / cap.step)) for number in point]
    # A point next to the edge of the ball may be rounded beyond it: then all of its coordinates go a step towards 0,
    # none of which is farther out than it was before.
    beyond = np.einsum("ij,ij->j", nearest, nearest) > cap.step**-2
    nearest -= np.sign(nearest) * beyond
    # The sign of a zero would tell on which side of it the point was, and how it was computed.
    return nearest + 0.0


def _falls(count: int, cap: _Cap, source: Source) -> tuple[IntegerArray, dict[int, Any]]:
    """Return words of the power law of q for so many points of the cap, and numbers of which more bits are known.

    q = (1 - gamma^2) u^(2/(D - 1)) of the number u that a word stands for, of which only those are kept, with the
    probability gamma/t, that no record has a part in.
    """
    found, known = np.empty(count, dtype=np.int64), {}
    pending = np.arange(count)
    while len(pending):
        falls, coins = source.words(len(pending)), source.words(len(pending))
        _, cosine = _cosines(falls, cap)
        gap = ((coins & LARGEST).astype(np.float64) + 0.5) * 2.0**-63 * cosine - cap.rim
        kept: BooleanArray = gap < 0
        for place in np.flatnonzero((np.abs(gap) < _CLOSE) | few_bits(falls)):
            mp = precise.context()
            fall, coin = uniform(mp, falls[place], source), uniform(mp, coins[place], source)
            kept[place] = coin * mp.sqrt(1 - _exact_square(mp, fall, cap)) < cap.rim
            if kept[place]:
                known[int(pending[place])] = fall
        found[pending[kept]] = falls[kept]
        pending = pending[~kept]
    return found, known


def _cosines(falls: IntegerArray, cap: _Cap) -> tuple[FloatArray, FloatArray]:
    """Return sqrt(q) and t."""
    exponent = np.log(((falls & LARGEST).astype(np.float64) + 0.5) * 2.0**-63) * (2 / (cap.dimension - 1))
    across = math.sqrt(cap.across) * np.exp(exponent / 2)
    return across, np.sqrt(cap.rim**2 - cap.across * np.expm1(exponent))


def _points(
    places: IntegerArray,
    inside: BooleanArray,
    falls: IntegerArray,
    lengths: IntegerArray,
    angles: IntegerArray,
    cap: _Cap,
) -> tuple[FloatArray, FloatArray, BooleanArray]:
    """Return points in steps, what coordinates may be off by in radii, and which points are not known so well.

    Notes
    -----
    To first order, for u = 2^-53, k roundings in a sum, and doubled, which is more than all else:

    - A normal number n_i is off by at most e_i, that of its pair, and the norm of them by (sum of squared e_i)^(1/2),
      eps of itself, and by (k/2 + 2) u of itself: w_i = n_i/norm by e_i/norm + (eps + (k/2 + 3) u) abs(w_i).
    - As ||w|| = 1 and ||x|| <= 1, <x, w>/(1 + h) is off by 2 eps + (3k/2 + 7) u. So z_i = w_i - x_i <x, w>/(1 + h) is
      by e_i/norm + (3 eps + (2k + 11) u) (abs(z_i) + abs(x_i)), where abs(w_i) <= abs(z_i) + abs(x_i).
    - With L = -log u within 2^-47 + 2^-46 L, sqrt(q) is off by 2^-45 sqrt(1 - gamma^2), and is no larger than
      sqrt(1 - gamma^2), and t by 2^-52 + 2^-46 (1 - gamma^2)/gamma: t x_i + sqrt(q) z_i adds these to it.
    """
    dimension, roundings = cap.dimension, _TOGETHER + cap.dimension // _TOGETHER
    normal, radius, unclear = normal_vectors(lengths, angles)
    squares = np.square(normal[:dimension])
    # Points of the cap leave the last coordinate out.
    norm = np.sqrt(_sums(squares[:-1]) + np.where(inside, 0.0, squares[-1]))
    pairs = radius * 2.0**-46 + 2.0**-53 / radius
    even = pairs.max(axis=0) / norm
    share = 3 * np.sqrt(_sums(np.square(pairs))) / norm + (2 * roundings + 13) * 2.0**-53
    points = normal[: dimension - 1] / norm
    sizes = np.abs(points)
    # Places are whole numbers whose squares sum to 2^60 at most.
    mine = places[inside]
    height = np.sqrt((2**60 - np.einsum("ij,ij->i", mine, mine)).astype(np.float64)) * _PLACE
    record, across = mine.T * _PLACE, points[:, inside]
    sine, cosine = _cosines(falls, cap)
    across -= record * (_sums(record * across) / (1 + height))
    sizes[:, inside] = np.abs(across) + np.abs(record)
    points[:, inside] = cosine * record + sine * across
    longest = math.sqrt(cap.across)
    even[inside] *= longest
    share[inside] = longest * (share[inside] + 2.0**-45) + 2.0**-51 + 2.0**-46 * cap.across / cap.rim
    unclear[inside] |= few_bits(falls)
    points /= cap.step
    return points, 2 * (even + share * sizes), unclear


def _sums(terms: FloatArray) -> FloatArray:
    """Return the sums of columns, each with as many roundings as are added up at a time, and one for each time."""
    if len(terms) <= _TOGETHER:
        return np.asarray(terms.sum(axis=0))
    return np.asarray(np.add.reduceat(terms, np.arange(0, len(terms), _TOGETHER), axis=0).sum(axis=0))


def _exact_square(mp: Any, fall: Any, cap: _Cap) -> Any:
    """Return q."""
    return (1 - mp.mpf(cap.rim) ** 2) * fall ** (mp.mpf(2) / (cap.dimension - 1))


def _exact_point(mp: Any, places: list[int], fall: Any, normal: list[Any], cap: _Cap) -> list[Any]:
    """Return the first coordinates of a point of the cap."""
    square = _exact_square(mp, fall, cap)
    record = [place * mp.mpf(_PLACE) for place in places]
    height = mp.sqrt(2**60 - sum(place * place for place in places)) * _PLACE
    across = normal[: cap.dimension - 1]
    norm = mp.sqrt(sum(number * number for number in across))
    along = sum(one * number for one, number in zip(record, across, strict=True)) / (1 + height)
    t, s = mp.sqrt(1 - square), mp.sqrt(square) / norm
    return [t * one + s * (number - one * along) for one, number in zip(record, across, strict=True)]
