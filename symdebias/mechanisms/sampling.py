"""The only place that draws noise.

**Hardened** noise comes from the operating system's bits and is private as it is realised: labels by coins that hold
exactly, points of a sphere by `cap_points`, and what is added to values by `symdebias.mechanisms.rounded`. It is what
mechanisms with a guarantee draw unless a seed is given.

**Plain** noise is NumPy's, for simulations and for noise without a guarantee. The set of numbers that ``x + normal()``
can take depends on x, and one released value can tell two records apart (Mironov 2012; Haney et al. 2022). Nor is its
generator a cryptographic one: PCG64 is seeded by the operating system, but its state can be worked out from enough of
its output, which somebody has who can guess the data (Bouillaguet, Martinez & Sauvage 2020).
"""

import math
import os
import secrets
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from symdebias import _randomness
from symdebias._arrays import FloatArray
from symdebias.mechanisms import directions

# How noise is drawn: as its law is realised exactly, or in floating point.
NOISES = ("hardened", "plain")


@dataclass(frozen=True)
class Source:
    """Where random numbers come from.

    Attributes
    ----------
    generator : numpy.random.Generator
        The generator of plain noise, and of seeded streams.
    seeded : bool
        Whether somebody else can know the stream: then what is drawn protects nothing.
    hardened : bool
        Whether noise is to be private as it is realised in floating point.
    """

    generator: np.random.Generator
    seeded: bool
    hardened: bool

    def words(self, count: int) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Return uniform integers of 64 bits: those of the operating system, or of the seeded stream."""
        if self.seeded:
            return self.generator.integers(-(2**63), 2**63 - 1, size=count, dtype=np.int64, endpoint=True)
        return np.frombuffer(os.urandom(8 * count), dtype=np.int64)

    def uniform(self, count: int) -> FloatArray:
        """Return uniform multiples of 2^-53 in [0, 1)."""
        if not self.hardened:
            return self.generator.random(count)
        numbers: FloatArray = (self.words(count).view(np.uint64) >> np.uint64(11)).astype(np.float64)
        numbers *= 2.0**-53
        return numbers


def source(random_state: int | np.random.Generator | None, noise: str | None = None) -> Source:
    """Return fresh entropy of the operating system, or a seeded stream for tests and simulations.

    Parameters
    ----------
    random_state : int, numpy.random.Generator or None
        None for data that are to be private. A fresh stream is made at each call, so that processes forked
        from one another never share one.
    noise : {"hardened", "plain"}, optional
        By default "hardened", and "plain" for a seeded stream.

    Raises
    ------
    TypeError, ValueError
        It is something else, or a negative seed.
    """
    if noise is not None and not (isinstance(noise, str) and noise in NOISES):
        raise ValueError(f'noise={noise!r:.60} is not known. Choose "hardened" or "plain".')
    hardened = noise == "hardened" or (noise is None and random_state is None)
    if random_state is None:
        seed = np.random.SeedSequence(secrets.randbits(256), pool_size=8)
        return Source(np.random.default_rng(seed), seeded=False, hardened=hardened)
    return Source(_randomness.generator(random_state), seeded=True, hardened=hardened)


def integers(low: int, high: int, count: int, source: Source) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return independent integers, uniform on low to high - 1."""
    if not source.hardened:
        return source.generator.integers(low, high, size=count)
    span = high - low
    if span == 1:
        return np.full(count, low, dtype=np.int64)
    # Words beyond the last multiple of the span would make some integers likelier, and are drawn again.
    last = np.uint64(2**64 - 1 - 2**64 % span)
    words = source.words(count).view(np.uint64)
    while (again := np.flatnonzero(words > last)).size:
        words = words.copy()
        words[again] = source.words(len(again)).view(np.uint64)
    drawn: np.ndarray[Any, np.dtype[np.int64]] = (words % np.uint64(span)).astype(np.int64)
    drawn += low
    return drawn


def normal_noise(scale: float, shape: tuple[int, ...], source: Source) -> FloatArray:
    """Return independent plain normal noise of mean 0 and a standard deviation."""
    return scale * source.generator.standard_normal(shape)


def flips(probability: float | FloatArray, count: int, source: Source) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return independent coins that are True with a probability, one for all or one each; exact for multiples of 2^-53.

    Any other probability is rounded up to such a multiple.
    """
    return source.uniform(count) < probability


def laplace_noise(scale: float, shape: tuple[int, ...], source: Source) -> FloatArray:
    """Return independent plain Laplace noise of mean 0 and a scale b."""
    return scale * source.generator.laplace(size=shape)


def radial_noise(scale: float, dimension: int, source: Source) -> FloatArray:
    """Return one vector of a density proportional to exp(-||b||/scale), plain.

    Its direction is uniform on the sphere, and its norm has the gamma distribution of the shape `dimension`.
    """
    return np.asarray(radial_noise_rows(scale, 1, dimension, source)[0])


def radial_noise_rows(scale: float, count: int, dimension: int, source: Source) -> FloatArray:
    """Return independent vectors of the law of `radial_noise`, shape (count, dimension)."""
    directions = source.generator.standard_normal((count, dimension))
    lengths = scale * source.generator.standard_gamma(dimension, count)
    noise: FloatArray = directions * (lengths / np.linalg.norm(directions, axis=1))[:, None]
    return noise


# A geometric number comes from a float64 of about 50 bits: at this scale a probability is right to some 2^-18 of
# itself, beyond 2^50 some integers never come, and from 2^63 on all draws are cut off at one integer: no noise.
LARGEST_DISCRETE_SCALE = 2.0**32


def discrete_laplace_noise(scale: float, shape: tuple[int, ...], source: Source) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return independent integers k of probability (1 - q)/(1 + q) q^|k|, q = exp(-1/scale).

    The difference of two geometric numbers has this law.

    Parameters
    ----------
    scale : float
        In steps, positive and at most `LARGEST_DISCRETE_SCALE`. Below 1/37 the probability of leaving 0 is less than
        the generator's resolution.
    shape : tuple of int
        The shape of what is returned.
    source : Source
        Where the random numbers come from.

    Raises
    ------
    ValueError
        The scale is too large, so that the noise would be cut off or coarse.
    """
    if not 0 < scale <= LARGEST_DISCRETE_SCALE:
        raise ValueError(
            f"noise of the scale {scale:g} in steps cannot be drawn. It must be positive and at most "
            f"{LARGEST_DISCRETE_SCALE:g} steps. Give a larger step."
        )
    chance = -np.expm1(-1.0 / scale)
    first, second = (source.generator.geometric(chance, size=shape) for _ in range(2))
    difference: np.ndarray[Any, np.dtype[np.int64]] = first - second
    return difference


def staircase_noise(
    epsilon: float, sensitivity: float, gamma: float, shape: tuple[int, ...], source: Source
) -> FloatArray:
    """Return independent plain staircase noise (Geng & Viswanath 2014, Algorithm 1)."""
    generator = source.generator
    stairs = generator.geometric(-np.expm1(-epsilon), size=shape) - 1.0
    lower = np.exp(-epsilon) * (1 - gamma)
    on_lower = generator.random(shape) < lower / (gamma + lower)
    inside = generator.random(shape)
    place = np.where(on_lower, gamma + (1 - gamma) * inside, gamma * inside)
    signs = np.where(generator.random(shape) < 0.5, -1.0, 1.0)
    noise: FloatArray = signs * sensitivity * (stairs + place)
    return noise


def discrete_staircase_noise(
    epsilon: float, sensitivity: int, high: int, shape: tuple[int, ...], source: Source
) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return independent integers k of probability proportional to e^(-epsilon i), i the stair of |k|.

    A stair has `sensitivity` places; in the last ones, from `high` on, the next stair begins.

    Parameters
    ----------
    epsilon : float
        The budget.
    sensitivity : int
        D, from 1 to 2^20.
    high : int
        r, from 1 to D.
    shape : tuple of int
        The shape of what is returned.
    source : Source
        Where the random numbers come from.
    """
    generator = source.generator
    drawn = np.empty(math.prod(shape), dtype=np.int64)
    lower = np.exp(-epsilon) * (sensitivity - high)
    pending = np.arange(len(drawn))
    while len(pending):
        count = len(pending)
        stairs = generator.geometric(-np.expm1(-epsilon), size=count) - 1
        on_lower = generator.random(count) < lower / (high + lower)
        place = np.where(
            on_lower,
            generator.integers(min(high, sensitivity - 1), sensitivity, size=count),
            generator.integers(0, high, size=count),
        )
        sizes = stairs * sensitivity + place
        negative = generator.random(count) < 0.5
        drawn[pending] = np.where(negative, -sizes, sizes)
        # Zero has no sign: it comes with one of them only, and is drawn again with the other.
        pending = pending[negative & (sizes == 0)]
    return drawn.reshape(shape)


def uniform_noise(half_width: float, shape: tuple[int, ...], source: Source) -> FloatArray:
    """Return independent uniform noise on [-half_width, half_width]."""
    return source.generator.uniform(-half_width, half_width, size=shape)


def categories(
    matrix: FloatArray, rows: np.ndarray[Any, np.dtype[np.int64]], source: Source
) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return independent places of outputs, drawn from the rows of a matrix of probabilities.

    Parameters
    ----------
    matrix : array of shape (k, m), float64
        Row-stochastic.
    rows : array of shape (n,), int64
        The row of each draw.
    source : Source
        Where the random numbers come from.
    """
    edges = np.cumsum(matrix, axis=1)
    # Rounding must not leave a gap at the end, nor give a probability to outputs that have none.
    for row, probabilities in zip(edges, matrix, strict=True):
        row[int(np.flatnonzero(probabilities > 0)[-1]) :] = 1.0
    drawn = source.uniform(len(rows))
    places = np.empty(len(rows), dtype=np.int64)
    for row in range(len(matrix)):
        here = rows == row
        places[here] = np.searchsorted(edges[row], drawn[here], side="right")
    return places


# ---- caps of spheres -----------------------------------------------------------------------------------------------

# Records that are noised together, and points that are drawn for them at a time: they fit a cache.
_BLOCK, _AT_A_TIME = 2048, 8192
# A number below has few digits of its 64 bits left.
_COARSE = 2.0**-12


def length_numbers(words: directions.Words, source: Source) -> FloatArray:
    """Return signed numbers whose sizes are uniform on (0, 1/2), of full relative precision, from a word each.

    A word is an integer k or -k - 1, of size u = (k + a fraction)/2^64. Below 2^-12 another word is the fraction;
    elsewhere the size is within 2^-50 of itself of a number with the exact law, whatever the fraction. So are the
    others, unless k = 0 and the second word is below 2^51, which has the probability 2^-76.
    """
    numbers = np.multiply(words, 2.0**-64, dtype=np.float64)
    coarse = np.nonzero(np.abs(numbers) < _COARSE)
    few = words[coarse]
    places = np.where(few < 0, -(few + 1), few).astype(np.float64) * 2.0**-64
    fractions = (source.words(len(few)).view(np.uint64).astype(np.float64) + 0.5) * 2.0**-128
    numbers[coarse] = np.where(few < 0, -1.0, 1.0) * (places + fractions)
    return numbers


def cap_points(lifts: FloatArray, rim: float, chance: int, trials: float, source: Source) -> FloatArray:
    """Return a point of the sphere for each record: uniform ones are drawn until one is kept.

    One inside the cap is kept, and one outside with the probability q = chance/2^64, exactly. Bits are drawn without
    regard to the record, every point can come from every record, and no number of trials is too many.

    Parameters
    ----------
    lifts : array of shape (n, D), float64
        The true points, of norm 1 up to (D + 6) 2^-53.
    rim : float
        gamma.
    chance : int
        From 1 to 2^64 - 1.
    trials : float
        About how many are drawn for one that is kept.
    source : Source
        Where the bits come from.

    Returns
    -------
    array of shape (n, D), float64

    Notes
    -----
    With N(a) = p(a) + (1 - p(a)) q, p(a) the probability that the test of a record a says inside, the bits b of what is
    kept have the probability P(b) w/N(a), w = 1 or q. Two records differ by the factor N(a')/(q N(a)) at most. Where p
    varies with the round of a trial by rounding, its bounds over all trials stand in the ratio. The point is computed
    from the bits again at the end, at the record's own place, so that it is a function of bits and place only.
    """
    found = np.empty_like(lifts)
    for start in range(0, len(lifts), _BLOCK):
        block = slice(start, start + _BLOCK)
        # A word is below this in 2^64 q of 2^64 cases.
        lengths, angles = _kept(lifts[block], rim, np.int64(chance - 2**63), trials, source)
        vectors = directions.normal_vectors(lengths, angles, lifts.shape[1])
        size = directions.norms(vectors)
        for index, coordinate in enumerate(vectors):
            found[block, index] = coordinate / size
    return found


def _kept(
    lifts: FloatArray, rim: float, below: np.int64, trials: float, source: Source
) -> tuple[FloatArray, directions.Words]:
    """Return lengths and angles of the points that are kept, of shape (pairs, n) each."""
    records, dimension = lifts.shape
    pairs = (dimension + 1) // 2
    kept_lengths, kept_angles = np.empty((pairs, records)), np.empty((pairs, records), dtype=np.int64)
    pending = np.arange(records)
    while len(pending):
        # Few at a time for each record: what follows the first that is kept is drawn in vain.
        each = max(1, min(_AT_A_TIME // len(pending), math.ceil(trials / 4)))
        count = len(pending) * each
        words = source.words((2 * pairs + 1) * count).reshape(2 * pairs + 1, count)
        lengths, angles = length_numbers(words[:pairs], source), words[pairs : 2 * pairs]
        vectors = directions.normal_vectors(lengths, angles, dimension)
        cosine = np.zeros((len(pending), each))
        for coordinate, vector in zip(lifts[pending].T, vectors, strict=True):
            cosine += coordinate[:, None] * vector.reshape(len(pending), each)
        good = (cosine.ravel() >= rim * directions.norms(vectors)) | (words[-1] < below)
        good = good.reshape(len(pending), each)
        hit = good.any(axis=1)
        place = (np.arange(len(pending)) * each + good.argmax(axis=1))[hit]
        kept_lengths[:, pending[hit]] = lengths[:, place]
        kept_angles[:, pending[hit]] = angles[:, place]
        pending = pending[~hit]
    return kept_lengths, kept_angles


def simulated_cap_points(
    lifts: FloatArray, rim: float, share: float, chance_inside: float, source: Source
) -> FloatArray:
    """Return a point of the sphere for each record by the inverse of the cosine's law; for seeded simulations.

    Parameters
    ----------
    lifts : array of shape (n, D), float64
        The true points, of norm 1.
    rim : float
        gamma.
    share : float
        The share A of the sphere that lies in the cap.
    chance_inside : float
        The probability of the cap.
    source : Source
        Where the random numbers come from.
    """
    records, dimension = lifts.shape
    half = (dimension - 1) / 2
    inside = source.generator.random(records) < chance_inside
    tail = np.where(inside, share, 1 - share) * source.generator.random(records)
    # (1 - t)/2 inside and (1 + t)/2 outside have the law Beta(half, half) below that of the rim.
    part = special.betaincinv(half, half, tail)
    cosine = np.where(inside, np.maximum(1 - 2 * part, rim), np.minimum(2 * part - 1, rim))
    across = source.generator.standard_normal((records, dimension))
    across -= np.einsum("ij,ij->i", across, lifts)[:, None] * lifts
    across *= np.sqrt(4 * part * (1 - part) / np.einsum("ij,ij->i", across, across))[:, None]
    found: FloatArray = cosine[:, None] * lifts + across
    return found


# ---- samples of records --------------------------------------------------------------------------------------------


def poisson_samples(
    records: int, probability: float, steps: int, source: Source
) -> tuple[np.ndarray[Any, np.dtype[np.int64]], np.ndarray[Any, np.dtype[np.int64]]]:
    """Draw each record in each step with a probability, independently of all else.

    The distances between drawn ones, all steps after one another, are geometric.

    Parameters
    ----------
    records : int
        n.
    probability : float
        In (0, 1].
    steps : int
        T.
    source : Source
        Where the random numbers come from.

    Returns
    -------
    rows : array of shape (m,), int64
        The drawn records of all steps, in order within each.
    ends : array of shape (T,), int64
        Where the rows of each step end.
    """
    total = records * steps
    expected = total * probability
    parts, last = [], -1
    while last < total:
        count = int(expected + 6 * math.sqrt(expected) + 20)
        # A distance beyond the end is the end, which keeps the sums within int64.
        distances = np.minimum(source.generator.geometric(probability, size=count), total + 1)
        parts.append(last + np.cumsum(distances))
        last = int(parts[-1][-1])
    places = np.concatenate(parts)
    places = places[places < total]
    ends = np.searchsorted(places, records * np.arange(1, steps + 1))
    return places % records, ends.astype(np.int64)


def subsets(
    records: int, size: int, steps: int, source: Source
) -> tuple[np.ndarray[Any, np.dtype[np.int64]], np.ndarray[Any, np.dtype[np.int64]]]:
    """Draw in each step as many different records, all subsets alike; as `poisson_samples`."""
    drawn = [np.sort(source.generator.choice(records, size, replace=False, shuffle=False)) for _ in range(steps)]
    return np.concatenate(drawn).astype(np.int64), size * np.arange(1, steps + 1, dtype=np.int64)
