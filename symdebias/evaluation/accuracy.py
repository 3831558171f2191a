"""Accuracy: the share of records whose label has the sign of their score, with the noise of both taken out.

The sign of a score has an exact inverse under channels and noise on a grid. Under other noise it is the slope of a
surrogate of abs(u), and what this slope is off is averaged over scores and labels for a bound on the bias.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from symdebias._arrays import FloatArray
from symdebias.evaluation.metric import Metric
from symdebias.evaluation.records import Records
from symdebias.evaluation.scores import NODES, ReleasedScores, Spread
from symdebias.exceptions import NoExactCorrectionError
from symdebias.noise import CoordinateNoise
from symdebias.transforms import surrogate, waves
from symdebias.transforms.surrogate import Surrogate

# What the squared error of the sign counts beside the variance in its design. Most of it oscillates about zero and
# averages out over scores.
_SQUARED_ERROR = 0.03
# Waves of a surrogate of the sign, each of which is a pass over the records.
_MOST_WAVES = 400
# |u|, whose slope is the sign.
_ABSOLUTE = surrogate.Part(np.abs, np.sign, odd=False)


@dataclass(frozen=True)
class Accuracy(Metric):
    """1/2 + mean(y sign(u))/2, the sign undone exactly.

    Attributes
    ----------
    labels : array of shape (n,), float64
        Unbiased estimates of the labels as -1 and +1.
    scores : mapping from bytes to ReleasedScores
        Those of all parameters that are to be compared, by the bytes of theta.
    """

    labels: FloatArray
    scores: Mapping[bytes, ReleasedScores]
    higher_is_better: ClassVar[bool] = True

    def values(self, theta: FloatArray, rows: Any) -> FloatArray:
        """Return the estimates (1 + y sign(u))/2 of some records."""
        products: FloatArray = 0.5 + 0.5 * self.labels[rows] * self.signs(self.scores[theta.tobytes()].taken(rows))
        return products

    def signs(self, scores: ReleasedScores) -> FloatArray:
        """Return estimates of the signs of true scores."""
        return scores.signs()


@dataclass(frozen=True)
class SmoothAccuracy(Accuracy):
    """The same with the slope of a surrogate for the sign.

    Attributes
    ----------
    smooth : Surrogate
        What stands for abs(u).
    spreads : mapping from bytes to Spread
        Where true scores lie, by the bytes of theta.
    unit : float
        A score of usual size.
    label_model : {"any", "logistic"}
        What the bound on the bias assumes of labels.
    """

    smooth: Surrogate
    spreads: Mapping[bytes, Spread]
    unit: float
    label_model: str

    def signs(self, scores: ReleasedScores) -> FloatArray:
        """Return estimates of the slope of the surrogate at true scores."""
        return scores.slope(self.smooth)

    def bias(self, theta: FloatArray) -> tuple[float, bool]:
        """Return the mean error of the slope over likely scores: of its size, or times the labels of the model."""
        scores, spread = self.scores[theta.tobytes()], self.spreads[theta.tobytes()]
        nodes = _likely_scores(scores, spread, self.records.share)
        errors = (self.smooth.slope(nodes) - np.sign(nodes)) / 2
        if self.label_model == "any":
            return float(np.mean(np.abs(errors))), False
        step = _damped(self.smooth, spread.noise)
        share = self.records.share
        moments = np.array([share @ self.labels, share @ (self.labels * scores.slope(step))])
        expected = _logistic_labels(nodes / self.unit, step.slope(nodes), moments)
        return abs(float(np.mean(errors * expected))), False


def accuracy(records: Records, thetas: Sequence[FloatArray], *, radius: float | None, label_model: str) -> Accuracy:
    """Return the accuracy, corrected for all thetas that are to be compared; other arguments as for `evaluate`."""
    if records.of_margins and label_model != "any":
        raise NoExactCorrectionError(
            f"label_model={label_model!r} is one of labels given scores, and a margin release tells "
            'their product alone. Leave it at "any".'
        )
    if isinstance(records.release.target_noise, CoordinateNoise):
        raise NoExactCorrectionError(
            "accuracy is the mean of the sign of a score times a label, and this release gives both one noise that is "
            "undone in residuals alone. Evaluate the squared error, or release labels apart or in margins."
        )
    scores = {theta.tobytes(): ReleasedScores.of(records, theta) for theta in thetas}
    if all(one.has_exact_signs for one in scores.values()):
        return Accuracy("accuracy", "exact", records, records.signs_of_labels(), scores)
    for one in scores.values():
        one.require_waves("accuracy")
    spreads = {theta: Spread.of(one, records.share) for theta, one in scores.items()}
    unit = _unit(list(scores.values()))
    smooth = sign_surrogate(
        max(spread.radius for spread in spreads.values()) if radius is None else radius,
        max(spread.noise for spread in spreads.values()),
        _SQUARED_ERROR * records.effective,
        unit,
    )
    signs = records.signs_of_labels()
    return SmoothAccuracy("accuracy", "surrogate", records, signs, scores, smooth, spreads, unit, label_model)


def sign_surrogate(radius: float, noise: float, records: float, unit: float) -> Surrogate:
    """Return a surrogate of abs(u) for a range, with as many waves as the finest detail that the noise allows needs.

    A fixed number of waves over the range of far scores is coarse where most scores are. It would be off by what the
    farthest record of a sample happens to be, an error that no standard error over records holds.
    Scores have half the size `unit` as a rule.
    """
    records = max(1.0, records)
    count = surrogate.waves_needed(radius / unit, noise / unit**2, records)
    if count > _MOST_WAVES:
        raise NoExactCorrectionError(
            f"scores reach {radius / unit / 2:,.0f} times their usual size, and a sign over that range takes {count:,} "
            f"waves; at most {_MOST_WAVES} are summed. Clip the features at the release, give radius= where scores "
            "are bounded, or evaluate another metric."
        )
    (one,) = waves.design(
        [_ABSOLUTE], radius=radius / unit, score_variance=noise / unit**2, records=records, waves=count
    ).surrogates
    constant, linear, square = one.polynomial
    return Surrogate(
        one.frequency / unit,
        (constant * unit, linear, square / unit),
        tuple(unit * value for value in one.cosines),
        tuple(unit * value for value in one.sines),
    )


def _unit(every: Sequence[ReleasedScores]) -> float:
    """Return half the scale of released scores, by their median: resolution about 0 must not hang on the tails."""
    sizes = np.concatenate([np.abs(scores.estimates) for scores in every])
    return float(np.median(sizes)) / 1.35 or float(np.mean(sizes)) or 1.0


def _damped(smooth: Surrogate, variance: float) -> Surrogate:
    """Return a surrogate averaged over normal shifts of the score, but for a constant."""
    frequencies = smooth.frequency * np.arange(1, len(smooth.cosines) + 1)
    damped = np.exp(-variance * frequencies**2 / 2)
    return Surrogate(smooth.frequency, smooth.polynomial, tuple(damped * smooth.cosines), tuple(damped * smooth.sines))


def _likely_scores(scores: ReleasedScores, spread: Spread, share: FloatArray) -> FloatArray:
    """Return scores that stand for true ones, equally likely: released ones, drawn in to the debiased variance."""
    released = scores.estimates
    order = np.argsort(released)
    shares = np.cumsum(share[order]) - share[order] / 2
    nodes = np.interp((np.arange(NODES) + 0.5) / NODES, shares, released[order])
    likely: FloatArray = spread.mean + (nodes - spread.mean) * spread.shrinkage
    return likely


def _logistic_labels(scores: FloatArray, steps: FloatArray, moments: FloatArray) -> FloatArray:
    """Return E[y | u] = tanh((a + b u)/2) at equally likely scores, with a and b from the means of y and y step(u)."""
    basis, tests = np.stack([np.ones_like(scores), scores]), np.stack([np.ones_like(scores), steps])
    parameters = np.zeros(2)
    for _ in range(100):
        mean = np.tanh(parameters @ basis / 2)
        slope = (tests * ((1 - mean**2) / 2)) @ basis.T / len(scores)
        step = np.linalg.lstsq(slope, moments - tests @ mean / len(scores), rcond=1e-12)[0]
        # Moments that no such labels have run away: the steepest are those of a step.
        length = float(np.linalg.norm(step))
        parameters = parameters + step * min(1.0, 2.0 / length if length > 0 else 1.0)
        if length <= 1e-9 * (1 + float(np.linalg.norm(parameters))):
            break
    return np.asarray(np.tanh(parameters @ basis / 2))
