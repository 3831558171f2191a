"""How many records carry the mean of a corrected loss once normal noise in the score is undone.

The factor that undoes it has the mean 1, and where it grows with the score, as for exponentials, nearly all draws of it
are next to 0 and few are large: its mean square is many times the median. A sample that has none of these few does not
show that they exist: its mean is too small, and so is its standard error. The law of the noise says how many records
have them.
"""

import math

import numpy as np

from symdebias._arrays import FloatArray
from symdebias.assessment.variance import evaluated
from symdebias.codegen.score.normal import NormalNoise
from symdebias.correction import Correction
from symdebias.evaluation.records import Records
from symdebias.evaluation.scores import ReleasedScores

# Where fewer carry a mean its intervals cover 85% and less. An inflation below the second figure is that of losses that
# hardly grow faster than a square, whose records tell it themselves.
FEWEST_CARRIERS, _LEAST_INFLATION = 30, 10.0
# Records that stand for all, and points of the rule over the noise, of which one is in the middle.
_LOOKED_AT, _NODES = 512, 65


def refusal_of_few(name: str, correction: Correction, records: Records, theta: FloatArray) -> str:
    """Return why an exactly corrected mean loss is not told by so many records; empty where it is.

    Parameters
    ----------
    name : str
        What the loss is called.
    correction : Correction
        The correction, for the number of columns of the records.
    records : Records
        All records: released scores stand for true ones, of which the inflation hardly depends.
    theta : array of shape (Q,), float64
        The parameters.
    """
    loss = correction.loss
    if not (correction.is_exact and correction.is_simple and correction.program.having(NormalNoise)):
        return ""
    if loss.expression.is_polynomial(*loss.scores):
        return ""
    # Those at hand, where records lie elsewhere.
    few = slice(None, None, max(1, len(records.target) // _LOOKED_AT))
    limits = correction.limits
    noise = np.full((1, 1), limits.normal_score_variance(theta))
    if records.scales is not None:
        noise = np.array([[correction.score_variance(theta, own[None])] for own in records.scales[few]])
    most = float(noise.max())
    # Beyond them the loss has no correction, or none of a finite variance, which is another refusal.
    if not 0 < most < min(limits.variance, limits.finite_variance):
        return ""
    scores = ReleasedScores.of(records, theta).taken(few).estimates[:, None]
    targets = [records.target[few][:, None]]
    if loss.target_values is not None:
        targets = [np.full((1, 1), value) for value in loss.target_values]
    points, shares = np.polynomial.hermite_e.hermegauss(_NODES)
    draws = np.sqrt(noise) * points[None, :]
    shares = shares / shares.sum()
    mean = median = 0.0
    with np.errstate(all="ignore"):
        for target in targets:
            squares = _at(correction, scores + draws, target, noise) ** 2
            mean += float(np.sum(squares @ shares))
            median += float(np.sum(_medians(squares, shares)))
    # e^s for the factor of an exponential, whose square has the mean e^s and the median e^-s.
    inflation = math.sqrt(mean / median) if median > 0 else math.inf
    carriers = records.effective / inflation
    if not math.isfinite(inflation) or (inflation > _LEAST_INFLATION and carriers < FEWEST_CARRIERS):
        return (
            f"undoing noise of the variance {most:.3g} in the score makes {name} vary as if mean squares were "
            f"{inflation:.3g} times as large, so that {carriers:.2g} of {records.effective:,.0f} records carry the "
            f"mean, and at least {FEWEST_CARRIERS} must: in most draws of the noise it would be too small, and its "
            "standard error would not show that. Evaluate shorter parameters, take a metric that grows less, or give "
            "more records."
        )
    return ""


def _medians(values: FloatArray, shares: FloatArray) -> FloatArray:
    """Return the medians of rows of numbers, shape (n, k), that have probabilities of shape (k,)."""
    order = np.argsort(values, axis=1)
    below = np.cumsum(shares[order], axis=1) - shares[order] / 2
    first = np.argmax(below >= 0.5 - 1e-9, axis=1)[:, None]
    return np.asarray(np.take_along_axis(np.take_along_axis(values, order, axis=1), first, axis=1))


def _at(correction: Correction, scores: FloatArray, target: FloatArray, noise: FloatArray) -> FloatArray:
    """Return the corrected loss at released scores, for noise variances of them."""
    symbols, constants = correction.derivation.symbols, correction.derivation.constants
    found = evaluated(
        correction.program.expression,
        {
            correction.program.scores[0]: scores,
            correction.loss.target: target,
            symbols.score_variance: noise,
            symbols.target_variance: constants["target"][0],
            symbols.gain: constants["target"][1],
        },
    )
    return np.broadcast_to(found, np.broadcast_shapes(scores.shape, target.shape))
