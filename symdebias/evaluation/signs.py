"""Signs of true scores: on which side of a threshold they lie, the noise of the score taken out.

The sign of a score has an exact inverse under channels and noise on a grid. Under other noise it is the slope of a
surrogate of abs(u), and what this slope is off is averaged over scores and labels for a bound on the bias.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from symdebias._arrays import FloatArray
from symdebias.evaluation.records import Records
from symdebias.evaluation.scores import NODES, ReleasedScores, Spread
from symdebias.exceptions import NoExactCorrectionError
from symdebias.noise import CoordinateNoise
from symdebias.transforms import surrogate, waves
from symdebias.transforms.surrogate import Surrogate

# What the squared error of the sign counts beside the variance in its design. Most of it oscillates about zero and
# averages out over scores.
SQUARED_ERROR = 0.03
# Waves of a surrogate of the sign, each of which is a pass over the records.
_MOST_WAVES = 400
# |u|, whose slope is the sign.
_ABSOLUTE = surrogate.Part(np.abs, np.sign, odd=False)


@dataclass(frozen=True)
class Signs:
    """Unbiased estimates of the signs of true scores less a threshold.

    Attributes
    ----------
    records : Records
        The records.
    scores : mapping from bytes to ReleasedScores
        Those of all parameters that are to be compared, by the bytes of theta.
    smooth : Surrogate or None
        What stands for abs(u); None where signs are undone exactly.
    spreads : mapping from bytes to Spread
        Where true scores lie, by the bytes of theta; empty where signs are undone exactly.
    unit : float
        A score of usual size.
    """

    records: Records
    scores: Mapping[bytes, ReleasedScores]
    smooth: Surrogate | None
    spreads: Mapping[bytes, Spread]
    unit: float

    @classmethod
    def of(
        cls,
        what: str,
        records: Records,
        thetas: Sequence[FloatArray],
        *,
        radius: float | None,
        thresholds: Sequence[float] = (0.0,),
    ) -> "Signs":
        """Return signs for all thetas that are to be compared; `what` is the metric that asks for them.

        Raises
        ------
        NoExactCorrectionError
            The noise lets no sign be told.
        """
        scores = scores_of(what, records, thetas)
        if all(one.has_exact_signs for one in scores.values()):
            return cls(records, scores, None, {}, 1.0)
        spreads = {theta: Spread.of(one, records.share) for theta, one in scores.items()}
        unit = usual_size(np.concatenate([np.abs(one.estimates) for one in scores.values()]))
        smooth = sign_surrogate(
            (max(spread.radius for spread in spreads.values()) if radius is None else radius)
            + max(map(abs, thresholds)),
            max(spread.noise for spread in spreads.values()),
            SQUARED_ERROR * records.effective,
            unit,
        )
        return cls(records, scores, smooth, spreads, unit)

    @property
    def method(self) -> str:
        """How signs are undone."""
        return "exact" if self.smooth is None else "surrogate"

    def at(self, theta: FloatArray, rows: slice | np.ndarray, thresholds: Sequence[float] = (0.0,)) -> FloatArray:  # type: ignore[type-arg]
        """Return estimates of the signs of some records at each threshold, shape (m, k)."""
        scores = self.scores[theta.tobytes()].taken(rows)
        if self.smooth is None:
            return np.stack([scores.less(threshold).signs() for threshold in thresholds], axis=1)
        return scores.slopes(self.smooth, thresholds)

    def errors(self, theta: FloatArray, threshold: float = 0.0) -> FloatArray:
        """Return what signs are off at equally likely scores, shape (NODES,); zeros where they are exact."""
        if self.smooth is None:
            return np.zeros(NODES)
        nodes = self.likely_scores(theta) - threshold
        return self.smooth.slope(nodes) - np.sign(nodes)

    def likely_scores(self, theta: FloatArray) -> FloatArray:
        """Return scores that stand for true ones, equally likely: released ones, drawn in to the debiased variance."""
        scores = self.scores[theta.tobytes()]
        spread = self.spreads.get(theta.tobytes()) or Spread.of(scores, self.records.share)
        return likely_scores(scores, spread, self.records.share)

    def likely_labels(self, theta: FloatArray, labels: FloatArray) -> FloatArray:
        """Return the means of labels as -1 and +1 at likely scores, logistic in the score.

        They have the debiased means of y and of y times a smoothed sign of u.
        """
        assert self.smooth is not None
        scores, share = self.scores[theta.tobytes()], self.records.share
        nodes = self.likely_scores(theta)
        step = _damped(self.smooth, self.spreads[theta.tobytes()].noise)
        moments = np.array([share @ labels, share @ (labels * scores.slope(step))])
        return _logistic_labels(nodes / self.unit, step.slope(nodes), moments)


def scores_of(what: str, records: Records, thetas: Sequence[FloatArray]) -> dict[bytes, ReleasedScores]:
    """Return the scores at each theta, of which signs can be told.

    Raises
    ------
    NoExactCorrectionError
        The noise lets no sign be told.
    """
    if isinstance(records.release.target_noise, CoordinateNoise):
        raise NoExactCorrectionError(
            f"{what} is the mean of the sign of a score times a label, and this release gives both one noise that is "
            "undone in residuals alone. Evaluate the squared error, or release labels apart or in margins."
        )
    scores = {theta.tobytes(): ReleasedScores.of(records, theta) for theta in thetas}
    if not all(one.has_exact_signs for one in scores.values()):
        for one in scores.values():
            one.require_waves(what)
    return scores


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


def usual_size(sizes: FloatArray) -> float:
    """Return half the scale of released scores, by their median: resolution about 0 must not hang on the tails."""
    return float(np.median(sizes)) / 1.35 or float(np.mean(sizes)) or 1.0


def likely_scores(scores: ReleasedScores, spread: Spread, share: FloatArray, count: int = NODES) -> FloatArray:
    """Return scores that stand for true ones, equally likely: released ones, drawn in to the debiased variance."""
    released = scores.estimates
    order = np.argsort(released)
    shares = np.cumsum(share[order]) - share[order] / 2
    nodes = np.interp((np.arange(count) + 0.5) / count, shares, released[order])
    likely: FloatArray = spread.mean + (nodes - spread.mean) * spread.shrinkage
    return likely


def _damped(smooth: Surrogate, variance: float) -> Surrogate:
    """Return a surrogate averaged over normal shifts of the score, but for a constant."""
    frequencies = smooth.frequency * np.arange(1, len(smooth.cosines) + 1)
    damped = np.exp(-variance * frequencies**2 / 2)
    return Surrogate(smooth.frequency, smooth.polynomial, tuple(damped * smooth.cosines), tuple(damped * smooth.sines))


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
