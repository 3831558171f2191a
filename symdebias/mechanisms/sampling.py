"""The only place that draws noise.

**Hardened** noise comes from secret bits and is private as it is realised: labels by coins that hold exactly, points of
a sphere by `symdebias.mechanisms.cap_points` and `symdebias.mechanisms.cap_cosines`, and what is added to values by
`symdebias.mechanisms.rounded`. It is what mechanisms with a guarantee draw unless a seed is given. Bits are those of
OpenSSL's generator (AES-256 in counter mode, NIST SP 800-90A), which the operating system seeds, which seeds itself
anew in a forked process, and which forgets what it gave. Each bit is used once.

**Plain** noise is NumPy's, for simulations and for noise without a guarantee. The set of numbers that ``x + normal()``
can take depends on x, and one released value can tell two records apart (Mironov 2012; Haney et al. 2022). Nor is its
generator a cryptographic one: PCG64 is seeded by the operating system, but its state can be worked out from enough of
its output, which somebody has who can guess the data (Bouillaguet, Martinez & Sauvage 2020).
"""

import ctypes
import functools
import importlib
import math
import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from symdebias import _randomness
from symdebias._arrays import BooleanArray, FloatArray, IntegerArray
from symdebias._domains import check_choice
from symdebias.codegen import draws
from symdebias.codegen.parallel import over_chunks
from symdebias.mechanisms import scratch, streams

# How noise is drawn: as its law is realised exactly, or in floating point.
NOISES = ("hardened", "plain")
_REQUEST = 2**24
# Requests that are worth a call which lets other threads go on.
_LONG = 2**12
# Coins that are thrown together: they fit a cache.
COINS = 2**16
_FEW_OUTPUTS = 16
# Points of a sphere that are computed together.
_POINTS = 2**13


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
    many : bool
        Whether so many numbers are drawn in all that kernels are worth compiling; they draw the same ones.

    Examples
    --------
    >>> fresh, repeatable = source(None), source(0)
    >>> (fresh.seeded, fresh.hardened), (repeatable.seeded, repeatable.hardened)
    ((False, True), (True, False))
    """

    generator: np.random.Generator
    seeded: bool
    hardened: bool
    many: bool = False

    def words(self, count: int) -> IntegerArray:
        """Return uniform integers of 64 bits: secret ones, or of the seeded stream."""
        if self.seeded:
            return self.generator.integers(-(2**63), 2**63 - 1, size=count, dtype=np.int64, endpoint=True)
        return _secret_octets(np.empty(8 * count, dtype=np.uint8)).view(np.int64)

    def written(self, out: IntegerArray) -> IntegerArray:
        """Write what `words` returns to an array, and return that."""
        if self.seeded:
            out[:] = self.words(len(out))
        else:
            _secret_octets(out.view(np.uint8))
        return out

    def halves(self, count: int) -> np.ndarray[Any, np.dtype[np.int32]]:
        """Return uniform integers of 32 bits, from where `words` come from."""
        if self.seeded:
            return self.generator.integers(-(2**31), 2**31 - 1, size=count, dtype=np.int32, endpoint=True)
        return _secret_octets(np.empty(4 * count, dtype=np.uint8)).view(np.int32)

    def octets(self, count: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """Return uniform integers of 8 bits, from where `words` come from."""
        if self.seeded:
            return self.generator.integers(0, 255, size=count, dtype=np.uint8, endpoint=True)
        return _secret_octets(np.empty(count, dtype=np.uint8))

    def uniform(self, count: int) -> FloatArray:
        """Return uniform multiples of 2^-53 in [0, 1)."""
        if not self.hardened:
            return self.generator.random(count)
        numbers: FloatArray = (self.words(count).view(np.uint64) >> np.uint64(11)).astype(np.float64)
        numbers *= 2.0**-53
        return numbers


@functools.cache
def _openssl() -> Any:
    """Return the module of OpenSSL's generator, imported where noise is drawn: a fit to released records draws none."""
    return importlib.import_module("ssl")


def _secret_octets(out: np.ndarray[Any, np.dtype[np.uint8]]) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Write bytes of OpenSSL's generator, which takes a request of less than 2^31, to an array, and return that."""
    for begin in range(0, len(out), _REQUEST):
        part = out[begin : begin + _REQUEST]
        fill = _filler() if len(part) >= _LONG else None
        if fill is None:
            part[:] = np.frombuffer(_openssl().RAND_bytes(len(part)), dtype=np.uint8)
        elif fill(part.ctypes.data, len(part)) != 1:
            raise OSError("OpenSSL's generator has no bits: it could not be seeded by the operating system.")
    return out


@functools.cache
def _filler() -> Any:
    """Return the function of OpenSSL behind that of Python's module, which holds up other threads; None if not found.

    It is looked up in the library that the module itself uses, and asks the same generator.
    """
    try:
        fill = ctypes.CDLL(importlib.import_module("_ssl").__file__).RAND_bytes
    except (AttributeError, ImportError, OSError, TypeError):
        return None
    fill.argtypes, fill.restype = (ctypes.c_void_p, ctypes.c_int), ctypes.c_int
    return fill


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

    Examples
    --------
    >>> source(None).hardened, source(0).hardened, source(0, noise="hardened").hardened
    (True, False, True)
    """
    if noise is not None:
        check_choice("noise", noise, NOISES)
    hardened = noise == "hardened" or (noise is None and random_state is None)
    if random_state is None:
        # What the operating system has now is mixed in at each call: also where the state of the process was copied,
        # as in a clone of a virtual machine, two streams differ.
        _openssl().RAND_add(os.urandom(32), 32.0)
        seed = np.random.SeedSequence(secrets.randbits(256), pool_size=8)
        return Source(np.random.default_rng(seed), seeded=False, hardened=hardened)
    return Source(_randomness.generator(random_state), seeded=True, hardened=hardened)


def in_parts(
    count: int, draw: Callable[[slice], Any], source: Source, size: int, *, whole_stream: bool = False
) -> None:
    """Draw for each of so many things, part by part; on all cores where the bits are secret.

    Parameters
    ----------
    count : int
        How many things there are.
    draw : callable
        Takes a slice of them, and writes what it draws from the source.
    source : Source
        Where the bits come from. Those of a seed are one stream, which parts take in their order; of secret bits each
        part has its own, and nobody can tell in which order they were drawn.
    size : int
        How many things a part has.
    whole_stream : bool
        Whether a seeded stream is drawn for all things at once: first one kind of number for all, and then another.
    """
    if not source.seeded:
        over_chunks(count, draw, size)
        return
    size = max(1, count) if whole_stream else size
    for start in range(0, count, size):
        draw(slice(start, min(start + size, count)))


def integers(low: int, high: int, count: int, source: Source) -> IntegerArray:
    """Return independent integers, uniform on low to high - 1."""
    if not source.hardened:
        return source.generator.integers(low, high, size=count)
    span = high - low
    if span == 1:
        return np.full(count, low, dtype=np.int64)
    words = evened(source.words(count), span, source).view(np.uint64)
    drawn: IntegerArray = (words % np.uint64(span)).astype(np.int64)
    drawn += low
    return drawn


def evened(given: IntegerArray, span: int, source: Source) -> IntegerArray:
    """Return words, some of them drawn again in their place, of which all remainders by a span are equally likely."""
    # Words beyond the last multiple of the span would make some remainders likelier. Words are unsigned here.
    last, words = np.uint64(2**64 - 1 - 2**64 % span), given.view(np.uint64)
    while len(words) and words.max() > last:
        again = np.flatnonzero(words > last)
        words[again] = source.words(len(again)).view(np.uint64)
    return given


def permutation(count: int, source: Source) -> IntegerArray:
    """Return the whole numbers below a count in random order; all orders alike, but for words that occur twice."""
    if not source.hardened:
        return source.generator.permutation(count)
    # Two of n words are the same with a probability below n^2 2^-65.
    return np.argsort(source.words(count), kind="stable")


def normal_noise(scale: float, shape: tuple[int, ...], source: Source) -> FloatArray:
    """Return independent plain normal noise of mean 0 and a standard deviation."""
    return scale * source.generator.standard_normal(shape)


def with_normal_noise(values: FloatArray, scale: float, source: Source, *, in_place: bool = False) -> FloatArray:
    """Return values with plain noise as of `normal_noise`; those that are given up may be written over, in place."""
    if values.size < streams.LEAST:
        return values + normal_noise(scale, values.shape, source)
    return _with_noise(streams.normal, values, scale, source, in_place)


def with_laplace_noise(values: FloatArray, scale: float, source: Source, *, in_place: bool = False) -> FloatArray:
    """Return values with plain noise as of `laplace_noise`, as `with_normal_noise`."""
    if values.size < streams.LEAST:
        return values + laplace_noise(scale, values.shape, source)
    return _with_noise(streams.laplace, values, scale, source, in_place)


def _with_noise(
    draw: Callable[..., None], values: FloatArray, scale: float, source: Source, in_place: bool
) -> FloatArray:
    noised = values if in_place and values.flags.c_contiguous else np.empty(values.shape)
    given, sums = values.reshape(-1), noised.reshape(-1)

    def add(noise: FloatArray, start: int) -> None:
        part = slice(start, start + len(noise))
        noise *= scale
        np.add(given[part], noise, out=sums[part])

    draw(source.generator, values.size, add)
    return noised


def flips(probability: float | FloatArray, count: int, source: Source) -> BooleanArray:
    """Return independent coins that are True with a probability, one for all or one each; exact for multiples of 2^-53.

    Any other probability is rounded up to such a multiple.

    Notes
    -----
    A hardened coin of probability p = k 2^-53 is True where 53 bits are below k. Its first eight bits say so, but in
    one case of 256, where the other 45 do: the same law, from a sixth of the bits.
    """
    if not source.hardened or not isinstance(probability, float):
        return source.uniform(count) < probability
    threshold = math.ceil(probability * 2.0**53)
    if not 0 < threshold < 2**53:
        return np.full(count, threshold > 0)
    first, rest = np.uint8(threshold >> 45), threshold & (2**45 - 1)
    found = np.empty(count, dtype=bool)
    for begin in range(0, count, COINS):
        octets = source.octets(min(COINS, count - begin))
        coins = found[begin : begin + COINS]
        np.less(octets, first, out=coins)
        ties = np.flatnonzero(octets == first)
        coins[ties] = (source.words(len(ties)).view(np.uint64) >> np.uint64(19)) < np.uint64(rest)
    return found


def swapped(values: FloatArray, pair: tuple[float, float], probability: float, source: Source) -> FloatArray:
    """Return values, each one of two, with each exchanged for the other with a probability as for `flips`."""
    sent = values.copy()
    exchange(sent, pair, probability, source)
    return sent


def exchange(values: FloatArray, pair: tuple[float, float], probability: float, source: Source) -> None:
    """Do what `swapped` does in the place of the values, which are contiguous and may be -0.0.

    Notes
    -----
    Exclusive or with the bits in which the two differ exchanges them, in the same time for both.
    """
    low, high = (np.array(pair) + 0.0).view(np.int64)
    threshold = math.ceil(probability * 2.0**53)
    if source.hardened and 0 < threshold < 2**53 and len(values) >= draws.MANY:
        _exchange_many(values, int(low ^ high), threshold, source)
        return
    if not source.hardened and len(values) >= streams.LEAST:

        def change(drawn: FloatArray, start: int) -> None:
            _exchange_where(values[start : start + len(drawn)], drawn < probability, low ^ high)

        streams.uniform(source.generator, len(values), change)
        return
    for begin in range(0, len(values), COINS):
        part = values[begin : begin + COINS]
        _exchange_where(part, flips(probability, len(part), source), low ^ high)


def _exchange_where(values: FloatArray, coins: BooleanArray, bits: np.int64) -> None:
    """Exchange those of two values, in their place, where a coin says so; the two differ in some bits."""
    # Zero has two signs, and the sum with 0.0 one.
    values += 0.0
    # 0 or -1, of which all bits are set.
    changed = -coins.view(np.int8).astype(np.int64)
    changed &= bits
    places = values.view(np.int64)
    places ^= changed


def _exchange_many(values: FloatArray, bits: int, threshold: int, source: Source) -> None:
    """Do what `exchange` does with coins as those of `flips`, of a probability of so many multiples of 2^-53."""
    kernel, halves = draws.compiled("exchange"), divmod(threshold, 2**45)

    def throw(rows: slice) -> None:
        part = values[rows]
        octets, words, _ = _bits_of_coins(len(part), 0, source)
        if tied := kernel(octets, words, halves, bits, part, part.view(np.int64)):
            kernel(octets, source.words(tied), halves, bits, part, part.view(np.int64))

    in_parts(len(values), throw, source, COINS if source.seeded else scratch.PART)


def exchange_labels(values: FloatArray, known: FloatArray, probability: float, out: FloatArray, source: Source) -> None:
    """Write labels of three or more, exchanged as by `exchanged_places` and by a kernel.

    Parameters
    ----------
    values : array of shape (n,), float64
        The places of labels, contiguous.
    known : array of shape (k,), float64
        What the places stand for.
    probability : float
        As for `flips`, above 0 and below 1.
    out : array of shape (n,), float64
        What is written to, contiguous; the values themselves may be.
    source : Source
        Of secret bits.
    """
    kernel, halves = draws.compiled("other_labels"), divmod(math.ceil(probability * 2.0**53), 2**45)
    octets, words, moves = _bits_of_coins(len(values), len(values), source)
    moves = evened(moves, len(known) - 1, source)
    if tied := kernel(octets, words, halves, moves, known, values, out):
        kernel(octets, source.words(tied), halves, moves, known, values, out)


def _bits_of_coins(
    count: int, others: int, source: Source
) -> tuple[np.ndarray[Any, np.dtype[np.uint8]], IntegerArray, IntegerArray]:
    """Return an octet for each of so many coins, words for those that octets leave open, and other words.

    Secret ones are taken at once, and suffice for all but one part in 10^15. Of a seeded stream, of which the words
    begin behind the octets, there are octets only.
    """
    if source.seeded:
        return source.octets(count), np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    # One coin in 256 is left open; eight standard deviations more are at hand.
    open_ones = count // 256 + 8 * math.isqrt(count // 256) + 64
    wanted = others + open_ones + -(-count // 8)
    words = source.written(scratch.integers(scratch.WORDS, max(count, 2**10), 2)[:wanted])
    return words[others + open_ones :].view(np.uint8)[:count], words[others : others + open_ones], words[:others]


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


def discrete_laplace_noise(scale: float, shape: tuple[int, ...], source: Source) -> IntegerArray:
    """Return independent integers k of probability (1 - q)/(1 + q) q^|k|, q = exp(-1/scale).

    The difference of two geometric numbers has this law. The scale is in steps, positive and at most
    `LARGEST_DISCRETE_SCALE`; below 1/37 the probability of leaving 0 is less than the generator's resolution.

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
    difference: IntegerArray = first - second
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
) -> IntegerArray:
    """Return independent integers k of probability proportional to e^(-epsilon i), i the stair of |k|.

    A stair has `sensitivity` places, from 1 to 2^20; in the last ones, from `high` on, the next stair begins.
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


def categories(matrix: FloatArray, rows: IntegerArray, source: Source) -> IntegerArray:
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
    drawn, places = source.uniform(len(rows)), np.zeros(len(rows), dtype=np.int64)
    # How many edges are not above: of few outputs each is looked at.
    if matrix.shape[1] <= _FEW_OUTPUTS:
        for edge in edges.T[:-1]:
            places += drawn >= edge[rows]
        return places
    for row in range(len(matrix)):
        here = rows == row
        places[here] = np.searchsorted(edges[row], drawn[here], side="right")
    return places


def exchanged_places(places: IntegerArray, count: int, probability: float, source: Source) -> IntegerArray:
    """Return places among so many, 3 or more, each with a probability as for `flips` exchanged for any other one."""
    changed = flips(probability, len(places), source)
    # One to count - 1 places further round the circle: each other value with the same probability.
    moves = integers(1, count, len(places), source)
    return np.where(changed, (places + moves) % count, places)


def simulated_cap_points(
    lifts: FloatArray, rim: float, share: float, chance_inside: float, source: Source
) -> FloatArray:
    """Return a point of the sphere for each record by the inverse of the cosine's law; for seeded simulations.

    The true points, shape (n, D), have norm 1; `rim` is gamma, `share` the share A of the sphere that lies in the cap.
    """
    records, dimension = lifts.shape
    half = (dimension - 1) / 2
    inside = source.generator.random(records) < chance_inside
    tail = np.where(inside, share, 1 - share) * source.generator.random(records)
    across = source.generator.standard_normal((records, dimension))

    def place(block: slice) -> None:
        # (1 - t)/2 inside and (1 + t)/2 outside have the law Beta(half, half) below that of the rim.
        part = special.betaincinv(half, half, tail[block])
        cosine = np.where(inside[block], np.maximum(1 - 2 * part, rim), np.minimum(2 * part - 1, rim))
        centres, beside = lifts[block], across[block]
        beside -= np.einsum("ij,ij->i", beside, centres)[:, None] * centres
        beside *= np.sqrt(4 * part * (1 - part) / np.einsum("ij,ij->i", beside, beside))[:, None]
        beside += cosine[:, None] * centres

    over_chunks(records, place, _POINTS)
    return across
