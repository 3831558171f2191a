"""How many records carry the mean of a corrected loss once normal noise in the score is undone.

The factor that undoes it has the mean 1, and where it grows with the score, as for exponentials, nearly all draws of it
are next to 0 and few are large: its mean square is many times the median. A sample that has none of these few does not
show that they exist: its mean is too small, and so is its standard error. The law of the noise says how many records
have them, and how skewed the mean is.
"""

import math
from dataclasses import dataclass

import numpy as np

from symdebias._arrays import FloatArray
from symdebias._rows import places_over
from symdebias._tails import reaches_of
from symdebias.assessment.variance import evaluated
from symdebias.codegen.score.normal import NormalNoise
from symdebias.correction import Correction
from symdebias.evaluation.error_law import ErrorLaw
from symdebias.evaluation.records import Records
from symdebias.evaluation.scores import ReleasedScores
from symdebias.inference import FEWEST_DECIDE
from symdebias.transforms.quadrature import hermite

# Where fewer carry a mean its intervals cover 85% and less. An inflation below the second figure is that of losses that
# hardly grow faster than a square, whose records tell it themselves.
FEWEST_CARRIERS, _LEAST_INFLATION = 30, 10.0
# Where fewer than this carry it, and its inflation is beyond the second figure, a sample shows too little skewness.
_MANY_CARRIERS, _SOME_INFLATION = 100.0, 5.0
# Records that stand for all, and points of the rule over the noise, of which one is in the middle.
_LOOKED_AT, _NODES = 512, 65
# Records that stand for all where noise is drawn anew.
_STAND_INS = 20_000
# Draws of the noise that say how far intervals reach: the fewest and the most, and how many records all of them have.
_DRAWS, _NUMBERS = (100, 400), 4e6
# True scores spread by no less than this share of what released ones do.
_LEAST_SPREAD = 0.02


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
    law = _Law.of(correction, records, theta)
    if law is None:
        return ""
    inflation, carriers = law.inflation, law.carriers
    if not math.isfinite(inflation) or (inflation > _LEAST_INFLATION and carriers < FEWEST_CARRIERS):
        return (
            f"undoing noise of the variance {float(law.noise.max()):.3g} in the score makes {name} vary as if mean "
            f"squares were {inflation:.3g} times as large, so that {carriers:.2g} of {records.effective:,.0f} records "
            f"carry the mean, and at least {FEWEST_CARRIERS} must: in most draws of the noise it would be too small, "
            "and its standard error would not show that. Evaluate shorter parameters, take a metric that grows less, "
            "or give more records."
        )
    return ""


def skewed_by_noise(sample: ErrorLaw, correction: Correction, records: Records, theta: FloatArray) -> ErrorLaw:
    """Return the law of a mean in its standard errors where few records carry it: as skewed as the noise makes it.

    A sample without the records that carry most of a mean has less skewness than the mean. Samples are drawn anew by
    the law of the noise, from released scores that are shrunk to the spread of true ones, and the skewness is the one
    by which an interval of 95% would reach as far as in those of them that have intervals, on the side where that is
    farther. It is never less than that of the sample there.

    Parameters
    ----------
    sample : ErrorLaw
        That which the sample tells.
    correction, records, theta
        As for `refusal_of_few`.
    """
    law = _Law.of(correction, records, theta)
    if law is None or not (law.inflation > _SOME_INFLATION and law.carriers < _MANY_CARRIERS):
        return sample
    return sample.reaching(law.reaches())


@dataclass(frozen=True)
class _Law:
    """What the law of the noise makes of a mean loss.

    Attributes
    ----------
    correction : Correction
        The correction.
    scores, target, noise : array of shape (k, 1), float64
        Those of some records: released scores and targets, and the variance of the noise in the score; of that there
        may be one for all.
    records : float
        How many records there are, or as many of equal weight.
    inflation : float
        The root of the mean of squares over their median, as the noise has them.
    """

    correction: Correction
    scores: FloatArray
    target: FloatArray
    noise: FloatArray
    records: float
    inflation: float

    @property
    def carriers(self) -> float:
        """How many records carry the mean."""
        return self.records / self.inflation

    @classmethod
    def of(cls, correction: Correction, records: Records, theta: FloatArray) -> "_Law | None":
        """Return it for exactly corrected losses under normal noise that are no polynomials; None for others."""
        loss = correction.loss
        if not (correction.is_exact and correction.is_simple and correction.program.having(NormalNoise)):
            return None
        if loss.expression.is_polynomial(*loss.scores):
            return None
        # Those at hand, where records lie elsewhere.
        few = places_over(records.weights, _LOOKED_AT, at_least=True)
        limits = correction.limits
        noise = np.full((1, 1), limits.normal_score_variance(theta))
        if records.scales is not None:
            noise = np.array([[correction.score_variance(theta, own[None])] for own in records.scales[few]])
        # Beyond them the loss has no correction, or none of a finite variance, which is another refusal.
        if not 0 < float(noise.max()) < min(limits.variance, limits.finite_variance):
            return None
        every = ReleasedScores.of(records, theta)
        scores = every.taken(few).estimates[:, None]
        target = records.target[few][:, None]
        targets = [target]
        if loss.target_values is not None:
            targets = [np.full((1, 1), value) for value in loss.target_values]
        points, shares = hermite(_NODES)
        draws = np.sqrt(noise) * points[None, :]
        mean = median = 0.0
        with np.errstate(all="ignore"):
            for one in targets:
                squares = _at(correction, scores + draws, one, noise) ** 2
                mean += float(np.sum(squares @ shares))
                median += float(np.sum(_medians(squares, shares)))
        # e^s for the factor of an exponential, whose square has the mean e^s and the median e^-s.
        inflation = math.sqrt(mean / median) if median > 0 else math.inf
        if records.scales is None:
            # What the tails of true scores are like takes more of them.
            many = places_over(records.weights, _STAND_INS, at_least=True)
            scores, target = every.taken(many).estimates[:, None], records.target[many][:, None]
        return cls(correction, scores, np.asarray(target, dtype=np.float64), noise, records.effective, inflation)

    def reaches(self) -> tuple[float, float]:
        """Return how many standard errors intervals of 95% are to reach below and above a mean."""
        spread, own = float(np.var(self.scores)), float(self.noise.mean())
        share = math.sqrt(max(spread - own, _LEAST_SPREAD * spread) / spread) if spread > 0 else 0.0
        true = self.scores.mean() + share * (self.scores - self.scores.mean())
        noise = np.broadcast_to(self.noise, true.shape)
        count = max(2, round(self.records))
        # Always the same ones, so that an estimate is the same each time.
        rng = np.random.default_rng([count, len(true)])
        found: list[float] = []
        with np.errstate(all="ignore"):
            mean = float(_at(self.correction, true, self.target, 0.0 * noise).mean())
            for _ in range(int(np.clip(_NUMBERS / count, *_DRAWS))):
                places = rng.integers(len(true), size=count)
                noised = true[places] + np.sqrt(noise[places]) * rng.normal(size=(count, 1))
                moves = _at(self.correction, noised, self.target[places], noise[places])[:, 0]
                average = float(moves.mean())
                squares = np.square(moves - average)
                second, fourth = float(squares.sum()), float(squares @ squares)
                if math.isfinite(fourth) and second**2 >= FEWEST_DECIDE * fourth > 0:
                    found.append((mean - average) * count / math.sqrt(second))
        return reaches_of(np.array(found))


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
