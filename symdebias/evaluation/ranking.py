"""The area under the ROC curve: how often a record of the larger label has the larger score.

It is a mean over pairs of records, whose noises are independent: the sign of a difference of two scores is undone for
the noise of both. In waves, sin(w (u - v)) is the imaginary part of a product of one wave of each score, and over atoms
of signed weight signs are counted along the sorted scores, so that no sum goes over all pairs.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from symdebias._arrays import FloatArray
from symdebias.evaluation.metric import Metric
from symdebias.evaluation.ratios import error_bound, require_labels_apart, require_positive
from symdebias.evaluation.records import Records
from symdebias.evaluation.scores import ReleasedScores, Spread
from symdebias.evaluation.signs import (
    Signs,
    SmoothSigns,
    ZonalSigns,
    least_squares,
    sign_surrogate,
    signs_of,
    usual_size,
)
from symdebias.exceptions import NoExactCorrectionError
from symdebias.transforms.surrogate import Surrogate

# What the squared error counts beside the variance: pairs of scores lie smoothly, and most of the error averages out.
_SQUARED_ERROR = 1.0
# Likely scores of which all pairs are taken for the bound on the bias, and those that polynomials are fitted to.
_NODES, _PAIRED = 200, 48
# Scores that are sorted at most, which takes some 60 bytes each.
_MOST_ATOMS = 20_000_000
# Scores that are equal but for rounding.
_TIED = 1e-13


@dataclass(frozen=True)
class PairSigns:
    """Exactly unbiased estimates of the signs of differences of true scores.

    Attributes
    ----------
    signs : Signs
        Of the scores themselves.
    """

    signs: Signs

    def against_all(self, theta: FloatArray, rows: Any, masses: FloatArray) -> FloatArray:
        """Return the sums over some records j of m_j sign(u_i - u_j), shape (2, m).

        A score less itself has the sign 0 in them, also by its estimate: no pair of a record with itself counts.

        Parameters
        ----------
        theta, rows
            The parameters, and the m records.
        masses : array of shape (2, m), float64
            Two sets of weights of these records.
        """
        # Each record is atoms of signed weight.
        scores = self.signs.scores[theta.tobytes()].taken(rows)
        count = len(scores.linear) * scores.combinations
        if count > _MOST_ATOMS:
            raise NoExactCorrectionError(
                f"the area under the ROC curve sorts {scores.combinations} scores for each record under this noise, "
                f"{count:,} in all; at most {_MOST_ATOMS:,} are sorted. Evaluate on fewer records."
            )
        places, weights = (np.stack(columns) for columns in zip(*scores.atoms(), strict=True))
        flat = places.ravel()
        order = np.argsort(flat, kind="stable")
        at = flat[order]
        # Scores that are equal in exact arithmetic are not to be told apart by rounding.
        steps = np.diff(at) > _TIED * np.maximum(np.abs(at[1:]), np.abs(at[:-1]))
        group = np.concatenate([[0], np.cumsum(steps)])
        found = []
        for mass in masses:
            inside = np.bincount(group, (weights * mass).ravel()[order])
            upto = np.cumsum(inside)
            signs = np.empty(len(flat))
            signs[order] = (2 * upto - inside - upto[-1])[group]
            found.append(np.sum(weights * signs.reshape(places.shape), axis=0))
        return np.array(found)

    def errors(self, theta: FloatArray, nodes: FloatArray) -> FloatArray:
        """Return what signs of u - v are off at pairs of scores, shape (k, k)."""
        return np.zeros((len(nodes), len(nodes)))


@dataclass(frozen=True)
class SmoothPairSigns(PairSigns):
    """The same with the slope of a surrogate of the size of a difference for its sign.

    Attributes
    ----------
    smooth : Surrogate
        What stands for the size.
    """

    smooth: Surrogate

    def against_all(self, theta: FloatArray, rows: Any, masses: FloatArray) -> FloatArray:
        """Return the same sums of slopes."""
        scores, (_, _, square) = self.signs.scores[theta.tobytes()].taken(rows), self.smooth.polynomial
        estimates = scores.estimates
        found = 2 * square * (np.multiply.outer(masses.sum(axis=1), estimates) - (masses @ estimates)[:, None])
        waves = scores.waves(self.smooth.frequency, len(self.smooth.cosines))
        for k, (wave, cosine) in enumerate(zip(waves, self.smooth.cosines, strict=True), start=1):
            # sin(k h (u_i - u_j)) = Im(e_i conj(e_j)), summed over j.
            sums = np.conj(masses @ wave)
            found -= k * self.smooth.frequency * cosine * (sums[:, None] * wave).imag
        return np.asarray(found)

    def errors(self, theta: FloatArray, nodes: FloatArray) -> FloatArray:
        """Return slopes less signs."""
        apart = nodes[:, None] - nodes
        return np.asarray(self.smooth.slope(apart) - np.sign(apart))


@dataclass(frozen=True)
class ZonalPairSigns(PairSigns):
    """The same under noise on a sphere: sum_km c_km P_k(s) P_m(t) for sign(s - t), with c_mk = -c_km."""

    signs: ZonalSigns
    _found: dict[bytes, FloatArray] = field(default_factory=dict, repr=False, compare=False)

    def against_all(self, theta: FloatArray, rows: Any, masses: FloatArray) -> FloatArray:
        """Return the same sums of polynomials."""
        scores = self.signs.scores[theta.tobytes()].taken(rows)
        if scores.zonal is None:
            return super().against_all(theta, rows, masses)
        released = self.signs.legendre(theta, scores.estimates, released=True)
        return np.asarray((masses @ released) @ self._coefficients(theta).T @ released.T)

    def errors(self, theta: FloatArray, nodes: FloatArray) -> FloatArray:
        """Return polynomials less signs."""
        if self.signs.scores[theta.tobytes()].zonal is None:
            return super().errors(theta, nodes)
        values = self.signs.legendre(theta, nodes)
        return np.asarray(values @ self._coefficients(theta) @ values.T - np.sign(nodes[:, None] - nodes))

    def _coefficients(self, theta: FloatArray) -> FloatArray:
        """Return c, of least mean squared error over pairs of likely scores, the variance as ridge."""
        if theta.tobytes() not in self._found:
            nodes = self.signs.likely_scores(theta, _PAIRED)
            at, chances = self.signs.released_rule(theta, _PAIRED)
            first, second = np.triu_indices(_PAIRED, 1)
            values, released = self.signs.legendre(theta, nodes), self.signs.legendre(theta, at, released=True)
            k, m = np.triu_indices(values.shape[1], 1)

            def between(polynomials: FloatArray) -> FloatArray:
                one, other = polynomials[first], polynomials[second]
                return np.asarray(one[:, k] * other[:, m] - one[:, m] * other[:, k])

            records = max(1.0, _SQUARED_ERROR * self.signs.records.effective)
            price = np.sqrt(chances[first] * chances[second] / records)
            scale = 1 / _PAIRED
            upper = least_squares(
                between(values) * scale,
                between(released) * price[:, None],
                np.sign(nodes[first] - nodes[second]) * scale,
            )
            found = np.zeros((values.shape[1], values.shape[1]))
            found[k, m], found[m, k] = upper, -upper
            self._found[theta.tobytes()] = found
        return self._found[theta.tobytes()]


@dataclass(frozen=True)
class AreaUnderCurve(Metric):
    """P(u > v) + P(u = v)/2 for the scores u of a record with the larger label and v of one with the smaller.

    Attributes
    ----------
    positives : array of shape (n,), float64
        Unbiased estimates of 1 for the larger label and 0 for the other.
    pairs : PairSigns
        Of differences of scores.
    label_model : {"any", "logistic"}
        What the bound on the bias assumes of labels.
    """

    positives: FloatArray
    pairs: PairSigns
    label_model: str
    higher_is_better: ClassVar[bool] = True

    def values(self, theta: FloatArray, rows: Any) -> FloatArray:
        """Return the pseudo-values of some records, of all pairs among them."""
        weights, positives = self.records.weights[rows], self.positives[rows]
        share, negatives = weights / weights.sum(), 1 - positives
        mass = require_positive(positives, share, "the share of records that have the larger label")
        opposite = require_positive(negatives, share, "the share of records that have the smaller label")
        masses = share * np.stack([positives, negatives])
        against_positives, against_negatives = self.pairs.against_all(theta, rows, masses)
        # The derivatives of sum_ij s_i s_j a_i b_j sign(u_i - u_j), and of sum_(i != j) s_i s_j a_i b_j, in s_i.
        wins = positives * against_negatives - negatives * against_positives
        count = positives * opposite + negatives * mass - 2 * share * positives * negatives
        total = mass * opposite - float(share**2 @ (positives * negatives))
        ratio = float(share @ wins) / (2 * total)
        return np.asarray(0.5 + ratio / 2 + (wins - ratio * count) / (2 * total))

    def bias(self, theta: FloatArray) -> tuple[float, bool]:
        """Return a bound on the mean error of signs over pairs of likely scores, by the labels that are possible."""
        signs = self.pairs.signs
        if signs.method == "exact":
            return 0.0, True
        nodes = signs.likely_scores(theta, _NODES)
        errors = self.pairs.errors(theta, nodes)
        if self.label_model == "logistic":
            labels = signs.likely_labels(theta, 2 * self.positives - 1)
            means = (1 + np.interp(nodes, signs.likely_scores(theta), labels)) / 2
            mass = float(np.mean(means))
            return abs(float(means @ errors @ (1 - means))) / len(nodes) ** 2 / (2 * mass * (1 - mass)), False
        # A pair of a positive and a negative is one of 2 p (1 - p) of all pairs.
        mass = float(np.clip(self.records.share @ self.positives, 0.0, 1.0))
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
    signs = signs_of(name, records, thetas, radius=radius)
    pairs = pair_signs(signs, radius=radius)
    positives = (1 + records.signs_of_labels()) / 2
    return AreaUnderCurve(name, signs.method, records, positives, pairs, label_model)


def pair_signs(signs: Signs, *, radius: float | None) -> PairSigns:
    """Return the signs of differences of scores."""
    if isinstance(signs, ZonalSigns):
        return ZonalPairSigns(signs)
    if not isinstance(signs, SmoothSigns):
        return PairSigns(signs)
    between = [_of_differences(signs.spreads[theta], scores) for theta, scores in signs.scores.items()]
    sizes = [np.abs(scores.estimates - np.median(scores.estimates)) for scores in signs.scores.values()]
    smooth = sign_surrogate(
        max(spread.radius for spread in between) if radius is None else 2 * radius,
        max(spread.noise for spread in between),
        _SQUARED_ERROR * signs.records.effective,
        math.sqrt(2) * usual_size(np.concatenate(sizes)),
    )
    return SmoothPairSigns(signs, smooth)


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
