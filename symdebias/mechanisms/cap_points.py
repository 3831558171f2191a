"""Points of a sphere that are likelier in a cap around a true one: trials from secret bits, until one is kept.

Most trials are lost by the upper halves of their words, which are all that is drawn of them. Those of many records are
looked at by a kernel (`symdebias.codegen.draws`), which may find others open than NumPy does, and loses none that would
be kept: what is kept has the same law.
"""

import math
from typing import Any

import numpy as np

from symdebias._arrays import BooleanArray, FloatArray, IntegerArray
from symdebias.codegen import draws
from symdebias.mechanisms import directions
from symdebias.mechanisms.sampling import Source, in_parts

# Records that are noised together, and points that are drawn for them at a time: they fit a cache.
BLOCK, _AT_A_TIME = 8192, 32768
# Searches of fewer than so many times `draws.MANY` coordinates end sooner than a kernel is compiled.
_LONG_SEARCH = 8


def length_numbers(words: directions.Words, source: Source) -> FloatArray:
    """Return signed numbers whose sizes are uniform on (0, 1/2), of full relative precision, from a word each.

    A word is an integer k or -k - 1, of size u = (k + a fraction)/2^64. Below 2^-12, where few of its 64 bits are left,
    another word is the fraction;
    elsewhere the size is within 2^-50 of itself of a number with the exact law, whatever the fraction. So are the
    others, unless k = 0 and the second word is below 2^51, which has the probability 2^-76.
    """
    numbers = np.multiply(words, 2.0**-64, dtype=np.float64)
    coarse = np.nonzero(np.abs(numbers) < directions.COARSE)
    few = words[coarse]
    places = np.where(few < 0, -(few + 1), few).astype(np.float64) * 2.0**-64
    fractions = (source.words(len(few)).view(np.uint64).astype(np.float64) + 0.5) * 2.0**-128
    numbers[coarse] = np.where(few < 0, -1.0, 1.0) * (places + fractions)
    return numbers


def cap_points(lifts: FloatArray, rim: float, chance: int, trials: float, source: Source) -> FloatArray:
    """Return a point of the sphere for each record, shape (n, D): uniform ones are drawn until one is kept.

    One inside the cap is kept, and one outside with the probability q = chance/2^64, exactly. Bits are drawn without
    regard to the record, every point can come from every record, and no number of trials is too many.

    The true points `lifts`, shape (n, D), have norm 1 up to (D + 6) 2^-53; `rim` is gamma, `chance` from 1 to 2^64 - 1,
    and about `trials` are drawn for one that is kept.

    Notes
    -----
    With N(a) = p(a) + (1 - p(a)) q, p(a) the probability that the test of a record a says inside, the bits b of what is
    kept have the probability P(b) w/N(a), w = 1 or q. Two records differ by the factor N(a')/(q N(a)) at most. Where p
    varies with the round of a trial by rounding, its bounds over all trials stand in the ratio. The point is computed
    from the bits again at the end, at the record's own place, so that it is a function of bits and place only.

    Most trials are lost by their upper halves alone, whatever the lower ones would be (`directions.rough_deviation`):
    their lower halves are never drawn. The first trial of a round that may be kept is completed and tested; those after
    it are left, which it does not depend on. So the law is that of complete bits, tested one trial after the other.
    """
    found, dimension = np.empty_like(lifts), lifts.shape[1]
    many = len(lifts) * trials * dimension >= _LONG_SEARCH * draws.MANY and not source.seeded

    def search(block: slice) -> None:
        # A word is below this in 2^64 q of 2^64 cases.
        below = np.int64(chance - 2**63)
        lengths, angles = _kept(lifts[block], rim, below, trials, source, by_kernel=many)
        vectors = directions.normal_vectors(lengths, angles, dimension)
        size = directions.norms(vectors)
        for index, coordinate in enumerate(vectors):
            found[block, index] = coordinate / size

    in_parts(len(lifts), search, source, BLOCK)
    return found


def _kept(
    lifts: FloatArray, rim: float, below: np.int64, trials: float, source: Source, *, by_kernel: bool
) -> tuple[FloatArray, directions.Words]:
    """Return lengths and angles of the points that are kept, of shape (pairs, n) each."""
    records, dimension = lifts.shape
    pairs = (dimension + 1) // 2
    kept_lengths, kept_angles = np.empty((pairs, records)), np.empty((pairs, records), dtype=np.int64)
    rough_lifts = lifts.astype(np.float32)
    pending = np.arange(records)
    while len(pending):
        if by_kernel:
            hit, upper = np.arange(len(pending)), _first_open(rough_lifts[pending], rim, below, trials, source)
        else:
            hit, upper = _first_open_of_few(rough_lifts[pending].T, rim, below, trials, source)
        words = upper.astype(np.int64) << 32
        words |= source.halves(words.size).view(np.uint32).reshape(words.shape)
        lengths, angles = length_numbers(words[:pairs], source), words[pairs : 2 * pairs]
        vectors = directions.normal_vectors(lengths, angles, dimension)
        cosine = np.zeros(len(hit))
        for coordinate, vector in zip(lifts[pending[hit]].T, vectors, strict=True):
            cosine += coordinate * vector
        good = (cosine >= rim * directions.norms(vectors)) | (words[-1] < below)
        done = pending[hit[good]]
        kept_lengths[:, done] = lengths[:, good]
        kept_angles[:, done] = angles[:, good]
        pending = np.delete(pending, hit[good])
    return kept_lengths, kept_angles


def _first_open(
    lifts: np.ndarray[Any, np.dtype[np.float32]], rim: float, below: np.int64, trials: float, source: Source
) -> directions.Halves:
    """Return for each record the upper halves of a trial that it may keep, shape (2 pairs + 1, n), by a kernel.

    Each trial is handed to one record, in their order, and those that a record loses are lost.
    """
    records, dimension = lifts.shape
    kernel, numbers, done = draws.compiled("cap"), 2 * ((dimension + 1) // 2) + 1, 0
    found, places = np.empty((numbers, records), dtype=np.int32), np.empty(records, dtype=np.int64)
    slack, coarse = np.float32(directions.rough_deviation(dimension)), int(directions.COARSE * 2.0**32)
    while done < records:
        wanted = min(4 * _AT_A_TIME / numbers, 1.1 * trials * (records - done) + 1)
        upper = source.halves(numbers * draws.TRIALS * math.ceil(wanted / draws.TRIALS)).reshape(numbers, -1)
        count = kernel(lifts[done:], upper, np.float32(rim), slack, np.int32(below >> 32), coarse, places)
        found[:, done : done + count] = upper[:, places[:count]]
        done += count
    return found


def _first_open_of_few(
    lifts: np.ndarray[Any, np.dtype[np.float32]], rim: float, below: np.int64, trials: float, source: Source
) -> tuple[IntegerArray, directions.Halves]:
    """Return which records, given coordinate by coordinate, may keep one of some trials each, and its upper halves."""
    dimension, records = lifts.shape
    numbers = 2 * ((dimension + 1) // 2) + 1
    # Few at a time for each record: what follows the first that may be kept is drawn in vain.
    each = max(1, min(_AT_A_TIME // records, math.ceil(trials / 4)))
    upper = source.halves(numbers * records * each).reshape(numbers, records, each)
    open_ones = _may_be_kept(lifts, upper, rim, np.int32(below >> 32))
    place = open_ones.argmax(axis=1)
    hit = np.flatnonzero(open_ones[np.arange(records), place])
    return hit, upper[:, hit, place[hit]]


def _may_be_kept(
    lifts: np.ndarray[Any, np.dtype[np.float32]], upper: directions.Halves, rim: float, below: np.int32
) -> BooleanArray:
    """Return which trials are not yet lost by the upper halves of their words, shape (n, each).

    The true points are given coordinate by coordinate, shape (D, n); the upper halves of lengths, angles and coins have
    the shape (2 pairs + 1, n, each); `rim` is gamma, and a coin has to be below a number of which `below` is the upper
    half.
    """
    dimension, pairs = len(lifts), len(upper) // 2
    lengths = upper[:pairs]
    vectors = directions.rough_vectors(lengths, upper[pairs : 2 * pairs])
    size = directions.norms(vectors[:dimension])
    whole = directions.norms(vectors) if dimension % 2 else size
    cosine = lifts[0][:, None] * vectors[0]
    for coordinate, vector in zip(lifts[1:], vectors[1:dimension], strict=True):
        cosine += coordinate[:, None] * vector
    cosine += np.float32(directions.rough_deviation(dimension)) * whole
    coarse = np.abs(lengths).min(axis=0) <= directions.COARSE * 2.0**32
    kept: BooleanArray = (cosine >= np.float32(rim) * size) | (upper[-1] <= below) | coarse
    return kept
