"""Which true scores released ones come from: their distribution, with that of the noise unfolded.

Released scores that are drawn in to the debiased variance have the noise in their shape, however it is scaled: gaps
between true scores are filled, and scores that many records share are smeared over what lies beside them.
"""

import math

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft

from symdebias._arrays import FloatArray
from symdebias.evaluation.scores import ReleasedScores

# Cells per standard deviation of the noise, and the most of them: noise so small beside the range hides nothing.
_PER_DEVIATION, _MOST_CELLS = 3, 4096
# Steps; more of them would follow the sample. The share of the start that is spread evenly, as steps are multiples.
_STEPS, _EVEN = 200, 0.01
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
    edges = low + width * (np.arange(cells + 1) - 0.5)
    shares = np.histogram(scores, edges, weights=weights / weights.sum())[0]
    likely = np.histogram(np.clip(start, edges[0], edges[-1]), edges)[0] + 0.0
    likely = (1 - _EVEN) * likely / likely.sum() + _EVEN / cells

    length = next_fast_len(2 * cells + len(chances), real=True)
    noise = rfft(chances, length)

    def noised(numbers: FloatArray) -> FloatArray:
        """Return A times numbers; the noise is symmetric, so that it is A' times them as well."""
        return np.asarray(irfft(noise * rfft(numbers, length), length)[cells - 1 : 2 * cells - 1])

    kept = np.maximum(noised(np.ones(cells)), _TINY)
    for _ in range(_STEPS):
        likely = likely * np.maximum(noised(shares / np.maximum(noised(likely), _TINY)), 0.0) / kept
        likely /= likely.sum()
    below = np.concatenate([[0.0], np.cumsum(likely)])
    return np.asarray(np.interp((np.arange(count) + 0.5) / count, below, edges))
