"""The only place that draws noise.

The sampler is NumPy's. It is not yet hardened against attacks on floating-point arithmetic: the set of
numbers that ``x + normal()`` can take depends on x, and one released value can tell two records apart
(Mironov 2012; Haney et al. 2022). A guarantee is that of the mechanism on real numbers. Nor is the generator a
cryptographic one: PCG64 is seeded by the operating system, but its state can be worked out from enough of its output,
which somebody has who can guess the data (Bouillaguet, Martinez & Sauvage 2020). The time that a draw takes and what is
left in memory are not covered either.
"""

import math
import secrets
from dataclasses import dataclass
from typing import Any

import numpy as np

from symdebias import _randomness
from symdebias._arrays import FloatArray


@dataclass(frozen=True)
class Source:
    """Where random numbers come from.

    Attributes
    ----------
    generator : numpy.random.Generator
        The generator.
    seeded : bool
        Whether somebody else can know the stream: then what is drawn protects nothing.
    """

    generator: np.random.Generator
    seeded: bool


def source(random_state: int | np.random.Generator | None) -> Source:
    """Return fresh entropy of the operating system, or a seeded stream for tests and simulations.

    Parameters
    ----------
    random_state : int, numpy.random.Generator or None
        None for data that are to be private. A fresh stream is made at each call, so that processes forked
        from one another never share one.

    Raises
    ------
    TypeError, ValueError
        It is something else, or a negative seed.
    """
    if random_state is None:
        seed = np.random.SeedSequence(secrets.randbits(256), pool_size=8)
        return Source(np.random.default_rng(seed), seeded=False)
    return Source(_randomness.generator(random_state), seeded=True)


def integers(low: int, high: int, count: int, source: Source) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return independent integers, uniform on low to high - 1."""
    return source.generator.integers(low, high, size=count)


def normal_noise(scale: float, shape: tuple[int, ...], source: Source) -> FloatArray:
    """Return independent normal noise of mean 0 and a standard deviation.

    The noise is not hardened against floating-point attacks (Mironov 2012): a guarantee holds for the
    mechanism on real numbers.
    """
    return scale * source.generator.standard_normal(shape)


def flips(probability: float | FloatArray, count: int, source: Source) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return independent coins that are True with a probability, one for all or one each; exact for multiples of 2^-53.

    Any other probability is rounded up to such a multiple.
    """
    return source.generator.random(count) < probability


def laplace_noise(scale: float, shape: tuple[int, ...], source: Source) -> FloatArray:
    """Return independent Laplace noise of mean 0 and a scale b; not hardened, as `normal_noise`."""
    return scale * source.generator.laplace(size=shape)


def radial_noise(scale: float, dimension: int, source: Source) -> FloatArray:
    """Return one vector of a density proportional to exp(-||b||/scale); not hardened, as `normal_noise`.

    Its direction is uniform on the sphere, and its norm has the gamma distribution of the shape `dimension`.
    """
    direction = source.generator.standard_normal(dimension)
    length = scale * source.generator.gamma(dimension)
    noise: FloatArray = direction * (length / np.linalg.norm(direction))
    return noise


def radial_noise_rows(scale: float, count: int, dimension: int, source: Source) -> FloatArray:
    """Return independent vectors of the law of `radial_noise`, shape (count, dimension); not hardened either."""
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
    """Return independent staircase noise (Geng & Viswanath 2014, Algorithm 1); not hardened, as `normal_noise`."""
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
    drawn = source.generator.random(len(rows))
    places = np.empty(len(rows), dtype=np.int64)
    for row in range(len(matrix)):
        here = rows == row
        places[here] = np.searchsorted(edges[row], drawn[here], side="right")
    return places


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
