"""Which true scores released ones come from: their distribution, with that of the noise unfolded.

Released scores that are drawn in to the debiased variance have the noise in their shape, however it is scaled: gaps
between true scores are filled, and scores that many records share are smeared over what lies beside them.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft

from symdebias._arrays import FloatArray
from symdebias.evaluation.scores import ReleasedScores

# Cells per standard deviation of the noise, and the most of them: noise so small beside the range hides nothing.
_PER_DEVIATION, _MOST_CELLS = 3, 4096
# Steps; more of them would follow the sample. The share of the start that is spread evenly, as steps are multiples.
_STEPS, _EVEN = 200, 0.01
# The same next to a threshold, and how many deviations beyond what is looked at there.
_FINE, _BEYOND = 8, 10.0
# What is left to begin with of scores beside those that gather.
_LEFT = 0.1
# Where scores that gather next to a threshold may be, in the distance within which they do.
_PLACES = (-0.75, -0.5, -0.25, -0.1, 0.1, 0.25, 0.5, 0.75)
# How narrow scores may be that count as spread, beside all of them.
_SPREAD = 0.6
# The logarithms of likelihoods that places may be apart from the best, and that gathered scores must be likelier by
# than spread ones. Of smooth scores 1 sample in 100 has that under normal noise, 10 under Laplace noise; more than half
# of the records on one place have it in 95 of 100 samples of 2,000.
_APART, _TOLD = 2.0, 2.0
# A noise that has this much of its finest wave on the cells is one of steps, whose shape cells do not tell.
_FINEST = 0.1
_TINY = 1e-300


def unfolded_scores(released: ReleasedScores, weights: FloatArray, start: FloatArray, count: int) -> FloatArray | None:
    """Return equally likely scores that give released ones with their noise, or None where the noise has no such law.

    The chances p of cells are multiplied by A'(c/Ap), with c the shares of released scores in cells and A the chances
    that noise takes a score from one cell to another: each step of this makes the released scores likelier. Few steps
    stay near to where they begin where this explains the released scores already.

    Parameters
    ----------
    released : ReleasedScores
        Released scores whose noise is undone in waves.
    weights : array of shape (n,), float64
        Their weights.
    start : array of shape (k,), float64
        Equally likely scores to begin with.
    count : int
        How many scores are returned.

    References
    ----------
    Richardson 1972 and Lucy 1974, whose iteration this is: expectation and maximisation for binned numbers.
    """
    if released.categories or not released.noise > 0:
        return None
    scores, weights = released.estimates[weights > 0], weights[weights > 0]
    width = math.sqrt(released.noise) / _PER_DEVIATION
    low, high = float(scores.min()), float(scores.max())
    cells = int((high - low) / width) + 2
    if cells > _MOST_CELLS:
        return None
    chances = released.noise_chances(width, cells - 1, most=_FINEST)
    if chances is None:
        return None
    # About the middle: scores with the other sign are to have the mirrored cells.
    edges = (low + high) / 2 + width * (np.arange(cells + 1) - cells / 2)
    shares = np.histogram(scores, edges, weights=weights / weights.sum())[0]
    likely = np.histogram(np.clip(start, edges[0], edges[-1]), edges)[0] + 0.0
    likely = (1 - _EVEN) * likely / likely.sum() + _EVEN / cells

    length = next_fast_len(2 * cells + len(chances), real=True)
    noise = rfft(chances, length)

    def noised(numbers: FloatArray) -> FloatArray:
        """Return A times numbers; the noise is symmetric, so that it is A' times them as well."""
        return np.asarray(irfft(noise * rfft(numbers, length), length)[cells - 1 : 2 * cells - 1])

    likely = _likelier(likely, shares, noised, noised)
    below = np.concatenate([[0.0], np.cumsum(likely)])
    return np.asarray(np.interp((np.arange(count) + 0.5) / count, below, edges))


def _likelier(
    likely: FloatArray,
    shares: FloatArray,
    noised: Callable[[FloatArray], FloatArray],
    back: Callable[[FloatArray], FloatArray],
) -> FloatArray:
    """Return chances of cells after some steps of the iteration, of one distribution or of several in rows."""
    kept = np.maximum(back(np.ones_like(likely)), _TINY)
    for _ in range(_STEPS):
        likely = likely * np.maximum(back(shares / np.maximum(noised(likely), _TINY)), 0.0) / kept
        likely /= likely.sum(axis=-1, keepdims=True)
    return likely


def gathered_scores(
    released: ReleasedScores, weights: FloatArray, start: FloatArray, threshold: float, within: float, count: int
) -> list[FloatArray]:
    """Return equally likely scores with one place for all that are next to a threshold, where released ones say so.

    Distributions are unfolded as in `unfolded_scores` which differ next to the threshold: those of a single score
    there, and one that is a mean of normal ones there, with the standard deviation `within`, or less where that is most
    of the spread of all scores. Where one of the former is likelier, all of them that released scores do not refute are
    returned; none elsewhere, nor where the noise has no such law.

    Parameters
    ----------
    released, weights, start, count
        As for `unfolded_scores`.
    threshold : float
        The threshold.
    within : float
        The distance from it, positive.
    """
    if released.categories or not released.noise > 0:
        return []
    deviation = math.sqrt(released.noise)
    width, reach = deviation / _FINE, within + _BEYOND * deviation
    side = math.ceil(reach / width)
    chances = released.noise_chances(width, 2 * side, most=_FINEST) if 2 * side < _MOST_CELLS else None
    if chances is None:
        return []
    cells, effective = 2 * side + 1, float(weights.sum() ** 2 / (weights @ weights))
    offsets = width * np.arange(-side, side + 1)
    edges = threshold + width * (np.arange(cells + 1) - side - 0.5)
    shares = np.histogram(released.estimates, edges, weights=weights / weights.sum())[0]
    seen = float(shares.sum())
    if not seen > 0:
        return []
    likely = np.histogram(start, edges)[0] + 0.0
    likely = (1 - _EVEN) * likely / max(float(likely.sum()), 1.0) + _EVEN / cells
    near = np.abs(offsets) <= within
    places = side + np.rint(np.array(_PLACES) * within / width).astype(int)

    length = next_fast_len(2 * cells + len(chances), real=True)
    noise = rfft(chances, length)
    size = min(within, _SPREAD * float(np.std(start)))
    if not size > 0:
        return []
    spread = np.exp(-((np.arange(-2 * side, 2 * side + 1) * width / size) ** 2) / 2)
    smooth = rfft(spread / spread.sum(), length)

    def through(kernel: Any, numbers: FloatArray) -> FloatArray:
        return np.asarray(irfft(kernel * rfft(numbers, length), length)[..., 2 * side : 2 * side + cells])

    def noised(rows: FloatArray) -> FloatArray:
        """Return A times rows, of which the last is spread next to the threshold."""
        last = np.where(near, 0.0, rows[-1]) + through(smooth, np.where(near, rows[-1], 0.0))
        return through(noise, np.concatenate([rows[:-1], last[None]]))

    def back(rows: FloatArray) -> FloatArray:
        """Return A' times rows."""
        found = through(noise, rows)
        found[-1] = np.where(near, through(smooth, found[-1]), found[-1])
        return found

    rows = np.tile(likely, (len(places) + 1, 1))
    # Steps are slow to move what start has beside the threshold, which may be there for its noise alone.
    beside = np.abs(offsets) <= within + 2 * deviation
    for row, place in zip(rows[:-1], places, strict=True):
        row[beside] *= _LEFT
        row[near] = 0.0
        row[place] += 1 - row.sum()
    rows = _likelier(rows, shares, noised, back)
    told = effective * np.log(np.maximum(noised(rows), _TINY)) @ shares
    best = float(told[:-1].max())

    if not best - float(told[-1]) > _TOLD:
        return []
    sides = [start[start < edges[0]], start[start > edges[-1]]]
    every = max(1.0, sum(map(len, sides)) / max((1 - seen) * count, 1.0))
    far = np.concatenate([_equally_likely(np.sort(side), round(len(side) / every)) for side in sides])
    quantiles = (np.arange(count - len(far)) + 0.5) / (count - len(far))
    return [
        np.sort(np.concatenate([np.interp(quantiles, np.concatenate([[0.0], np.cumsum(row)]), edges), far]))
        for row, likelihood in zip(rows[:-1], told[:-1], strict=True)
        if likelihood >= best - _APART
    ]


def _equally_likely(scores: FloatArray, count: int) -> FloatArray:
    """Return so many scores that stand for sorted ones, at the middles of equal shares: the same from either end."""
    if not count:
        return scores[:0]
    return np.asarray(np.interp((np.arange(count) + 0.5) * len(scores) / count - 0.5, np.arange(len(scores)), scores))
