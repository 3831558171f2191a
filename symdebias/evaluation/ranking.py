"""The area under the ROC curve: how often a record of the larger label has the larger score.

It is a mean over pairs of records, whose noises are independent: the sign of a difference of two scores is undone for
the noise of both. In waves, sin(w (u - v)) is the imaginary part of a product of one wave of each score, and over atoms
of signed weight signs are counted along the sorted scores, so that no sum goes over all pairs.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from symdebias._arrays import FloatArray
from symdebias.evaluation.metric import Metric
from symdebias.evaluation.ratios import error_bound, require_labels_apart, require_positive
from symdebias.evaluation.records import Records
from symdebias.evaluation.scores import ReleasedScores, Spread
from symdebias.evaluation.signs import (
    SQUARED_ERROR,
    Signs,
    likely_scores,
    scores_of,
    sign_surrogate,
    usual_size,
)
from symdebias.transforms.surrogate import Surrogate

# Likely scores of which all pairs are taken for the bound on the bias.
_NODES = 400


@dataclass(frozen=True)
class AreaUnderCurve(Metric):
    """P(u > v) + P(u = v)/2 for the scores u of a record with the larger label and v of one with the smaller.

    Attributes
    ----------
    positives : array of shape (n,), float64
        Unbiased estimates of 1 for the larger label and 0 for the other.
    scores : mapping from bytes to ReleasedScores
        Those of all parameters that are to be compared, by the bytes of theta.
    smooth : Surrogate or None
        What stands for the size of a difference of scores; None where signs of differences are undone exactly.
    signs : Signs or None
        Of which the labels of the model are told; None where no surrogate is in question.
    label_model : {"any", "logistic"}
        What the bound on the bias assumes of labels.
    """

    positives: FloatArray
    scores: Mapping[bytes, ReleasedScores]
    smooth: Surrogate | None
    signs: Signs | None
    label_model: str
    higher_is_better: ClassVar[bool] = True

    def values(self, theta: FloatArray, rows: Any) -> FloatArray:
        """Return the pseudo-values of some records, of all pairs among them."""
        scores, weights, positives = self.scores[theta.tobytes()].taken(rows), self.records.weights[rows], None
        positives = self.positives[rows]
        share = weights / weights.sum()
        negatives = 1 - positives
        mass, opposite = (
            require_positive(one, share, f"the share of records that have the {which} label")
            for one, which in ((positives, "larger"), (negatives, "smaller"))
        )
        if self.smooth is None:
            below_positives, below_negatives = _signs_against_all(scores, share, positives)
        else:
            below_positives, below_negatives = _waves_against_all(scores, share, positives, self.smooth)
        # The derivatives of sum_ij s_i s_j a_i b_j sign(u_i - u_j), and of sum_(i != j) s_i s_j a_i b_j, in s_i.
        wins = positives * below_negatives - negatives * below_positives
        pairs = positives * opposite + negatives * mass - 2 * share * positives * negatives
        total, count = float(share @ wins) / 2, mass * opposite - float(share**2 @ (positives * negatives))
        ratio = total / count
        return np.asarray(0.5 + ratio / 2 + (wins - ratio * pairs) / (2 * count))

    def bias(self, theta: FloatArray) -> tuple[float, bool]:
        """Return a bound on the mean error of signs over pairs of likely scores, by the labels that are possible."""
        if self.smooth is None:
            return 0.0, True
        assert self.signs is not None
        share = self.records.share
        scores = self.scores[theta.tobytes()]
        nodes = likely_scores(scores, self.signs.spreads[theta.tobytes()], share, _NODES)
        apart = nodes[:, None] - nodes
        errors = self.smooth.slope(apart) - np.sign(apart)
        if self.label_model == "logistic":
            labels = self.signs.likely_labels(theta, 2 * self.positives - 1)
            means = (1 + np.interp(nodes, self.signs.likely_scores(theta), labels)) / 2
            mass = float(np.mean(means))
            return abs(float(means @ errors @ (1 - means))) / len(nodes) ** 2 / (2 * mass * (1 - mass)), False
        # A pair of a positive and a negative is one of 2 p (1 - p) of all pairs.
        mass = float(np.clip(share @ self.positives, 0.0, 1.0))
        mixed = 2 * mass * (1 - mass)
        if mixed == 0:
            return 1.0, False
        return min(1.0, error_bound(np.abs(errors).ravel() / 2, 1 / mixed, 0.0, mixed)), False


def area_under_curve(
    records: Records, thetas: Sequence[FloatArray], *, radius: float | None, label_model: str
) -> AreaUnderCurve:
    """Return the area under the ROC curve, corrected for all thetas; other arguments as for `evaluate`."""
    name = "roc_auc"
    require_labels_apart(name, records)
    positives = (1 + records.signs_of_labels()) / 2
    scores = scores_of(name, records, thetas)
    if all(one.has_exact_signs for one in scores.values()):
        return AreaUnderCurve(name, "exact", records, positives, scores, None, None, label_model)
    signs = Signs.of(name, records, thetas, radius=radius)
    between = [_of_differences(signs.spreads[theta], scores[theta]) for theta in scores]
    smooth = sign_surrogate(
        max(spread.radius for spread in between) if radius is None else 2 * radius,
        max(spread.noise for spread in between),
        SQUARED_ERROR * records.effective,
        math.sqrt(2) * usual_size(np.concatenate([np.abs(one.estimates - np.median(one.estimates)) for one in scores.values()])),
    )
    return AreaUnderCurve(name, "surrogate", records, positives, scores, smooth, signs, label_model)


def _of_differences(spread: Spread, scores: ReleasedScores) -> Spread:
    """Return the spread of differences of two true scores."""
    return replace(
        spread,
        mean=0.0,
        variance=2 * spread.variance,
        noise=2 * spread.noise,
        farthest=float(np.ptp(scores.estimates)),
        bound=2 * spread.bound,
    )


def _waves_against_all(
    scores: ReleasedScores, share: FloatArray, positives: FloatArray, smooth: Surrogate
) -> tuple[FloatArray, FloatArray]:
    """Return the mean signs of each score less those of all positives, and less those of all negatives.

    A score less itself has the sign 0 in each of them, also by its estimate: no pair of a record with itself counts.
    """
    estimates = scores.estimates
    masses = np.stack([share * positives, share * (1 - positives)])
    _, _, square = smooth.polynomial
    found = 2 * square * (np.multiply.outer(masses.sum(axis=1), estimates) - (masses @ estimates)[:, None])
    waves = scores.waves(smooth.frequency, len(smooth.cosines))
    for k, (wave, cosine) in enumerate(zip(waves, smooth.cosines, strict=True), start=1):
        # sin(k h (u_i - u_j)) = Im(e_i conj(e_j)), summed over j.
        sums = np.conj(masses @ wave)
        found -= k * smooth.frequency * cosine * (sums[:, None] * wave).imag
    return found[0], found[1]


def _signs_against_all(
    scores: ReleasedScores, share: FloatArray, positives: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the same of signs that are undone exactly: each record is atoms of signed weight."""
    places, weights = (np.stack(columns) for columns in zip(*scores.atoms(), strict=True))
    shape, flat = places.shape, places.ravel()
    order = np.argsort(flat, kind="stable")
    at = flat[order]
    # Scores that are equal in exact arithmetic are not to be told apart by rounding.
    steps = np.diff(at) > 1e-13 * np.maximum(np.abs(at[1:]), np.abs(at[:-1]))
    group = np.concatenate([[0], np.cumsum(steps)])
    found = []
    for mass in (share * positives, share * (1 - positives)):
        inside = np.bincount(group, (weights * mass).ravel()[order])
        upto = np.cumsum(inside)
        signs = np.empty(len(flat))
        signs[order] = (2 * upto - inside - upto[-1])[group]
        found.append(np.sum(weights * signs.reshape(shape), axis=0))
    return found[0], found[1]
