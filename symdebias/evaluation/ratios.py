"""Metrics that are ratios of means: precision, recall and F1, and R2; both means have the noise taken out.

A ratio is consistent and not unbiased: it is off by a multiple of 1/n. A record stands in a mean by its pseudo-value,
the ratio plus the record's influence on it, so that pseudo-values have the ratio as their mean and the standard error
of the delta method as theirs.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from symdebias._arrays import FloatArray
from symdebias.evaluation.mean_loss import MeanLoss
from symdebias.evaluation.metric import Judged, Metric
from symdebias.evaluation.records import Records, extremes_of, extremes_with_weight
from symdebias.evaluation.signs import Signs, signs_of
from symdebias.evaluation.sums import Sums
from symdebias.exceptions import InferenceError, NoExactCorrectionError

# A denominator that may be negative by its noise must lie so many standard errors above 0.
_TOLD = 3.0
# Targets that are equal but for rounding, relative to the largest.
_ROUNDING = 1e-13
_VARIANCE = "the variance of the target"
# The numerator's coefficient of true positives, and the denominator's of predicted positives and of positives.
RATES = {"precision": (1.0, 1.0, 0.0), "recall": (1.0, 0.0, 1.0), "f1": (2.0, 1.0, 1.0)}


def pseudo_values(
    numerator: FloatArray, denominator: FloatArray, weights: FloatArray, what: str, noise: FloatArray | None = None
) -> FloatArray:
    """Return numbers per record whose weighted mean is the ratio of two weighted means.

    Parameters
    ----------
    numerator, denominator : array of shape (n,), float64
        Estimates by record.
    weights : array of shape (n,), float64
        Weights.
    what : str
        What the denominator is, for the message.
    noise : array of shape (n,), float64, optional
        As for `require_positive`.

    Raises
    ------
    InferenceError
        The mean of the denominator is not told apart from 0.
    """
    share = weights / weights.sum()
    below = require_positive(denominator, share, what, noise)
    ratio = float(share @ numerator) / below
    return np.asarray(ratio + (numerator - ratio * denominator) / below)


def bias_of_ratio(numerator: FloatArray, denominator: FloatArray, records: Records, rows: Any) -> float:
    """Return what a ratio a/b of weighted means of some records is off in the mean, -Cov(a - r b, b)/b^2.

    That is the term of the order 1/n of its expansion; over clusters where the records have some.
    """
    weights = records.weights[rows]
    share = weights / weights.sum()
    below = float(share @ denominator)
    ratio = float(share @ numerator) / below
    of, relative = share * (numerator - ratio * denominator) / below, share * (denominator / below - 1)
    if records.clusters is not None:
        of, relative = (np.bincount(records.clusters[rows], one) for one in (of, relative))
    return -float(of @ relative)


def positive_mean(sums: Sums, place: int, what: str) -> float:
    """Return the mean of numbers whose true values are none below 0, from their sums; as `require_positive`."""
    of = sums.only(place)
    return told_positive(sums.mean(of), sums.squared_error(of) if sums.low[place] < 0 else 0.0, what)


def ratio_of(sums: Sums, numerator: int, denominator: int, below: float) -> Judged:
    """Return the ratio of a mean to another one, whose value is given, and its standard error by the delta method."""
    ratio = sums.mean(sums.only(numerator)) / below
    of = (sums.only(numerator) - ratio * sums.only(denominator)) / below
    bending = bent_by(sums, of, sums.only(denominator) / below) if sums.low[denominator] < 0 else (0.0, 0.0)
    return Judged(ratio, sums.error(of), sums, of, sums.carriers(denominator), bending, below * sums.independent)


def bent_by(sums: Sums, of: FloatArray, below: FloatArray) -> tuple[float, float]:
    """Return a and b: were a ratio t standard errors larger, its error would have 1 + a t + b t^2 times the variance.

    Parameters
    ----------
    sums : Sums
        Those of the numbers that both means are made of.
    of, below : array of shape (k,), float64
        What the ratio and its denominator, relative to itself, grow with. Numbers below 0 in the denominator are so by
        their noise; without noise it is the number of records that a share is one of, and has no part in its error.
    """
    error = sums.error(of)
    if not error > 0:
        return 0.0, 0.0
    shared = (sums.error(of + below) ** 2 - sums.error(of - below) ** 2) / 4
    return -2 * shared / error, sums.error(below) ** 2


def require_positive(values: FloatArray, share: FloatArray, what: str, noise: FloatArray | None = None) -> float:
    """Return the mean of numbers under weights that sum to 1, whose true values are none below 0.

    Parameters
    ----------
    values : array of shape (n,), float64
        The numbers. Those below 0 are so by their noise.
    share : array of shape (n,), float64
        The weights.
    what : str
        What the mean is, for the message.
    noise : array of shape (n,), float64, optional
        The variance of each by the noise. By default the variance over records stands for it, which is as large where
        true values differ little; far ones would hide that the mean is above 0.

    Raises
    ------
    InferenceError
        It is not told apart from 0: below some standard errors of what the noise adds.
    """
    mean = float(share @ values)
    squared_error = 0.0
    if values.min() < 0:
        squared_error = float(share**2 @ ((values - mean) ** 2 if noise is None else noise))
    return told_positive(mean, squared_error, what)


def told_positive(mean: float, squared_error: float, what: str) -> float:
    """Return a mean that is told apart from 0, given its squared standard error; as `require_positive`."""
    error = math.sqrt(squared_error)
    if not mean > _TOLD * error:
        told = f"{mean:.3g}, with a standard error of {error:.2g}" if error > 0 else f"{mean:.3g}"
        raise InferenceError(
            f"{what} is {told}: it is not told apart from 0, and this metric is a share of it. Evaluate on more "
            "records, or another metric."
        )
    return mean


@dataclass(frozen=True)
class Rate(Metric):
    """Precision, recall or F1 of the label that counts as positive, the larger one.

    Attributes
    ----------
    positives : array of shape (n,), float64
        Unbiased estimates of 1 for the larger label and 0 for the other.
    signs : Signs
        Of the scores.
    threshold : float
        t, above which a score stands for the larger label.
    label_model : {"any", "logistic"}
        What the bound on the bias assumes of labels.
    """

    positives: FloatArray
    signs: Signs
    threshold: float
    label_model: str
    higher_is_better: ClassVar[bool] = True

    def on(self, part: Records) -> Self:
        """Return the metric of some other records."""
        return replace(self, records=part, positives=part.positives(), signs=self.signs.on(part))

    def values(self, theta: FloatArray, rows: Any) -> FloatArray:
        """Return the pseudo-values of some records."""
        return pseudo_values(*self._parts(theta, rows), self.records.weights[rows], self._share)

    def carriers(self, theta: FloatArray, rows: Any) -> float:
        """Return how many of some records the ratio of these is a share of."""
        return self._carried(self._parts(theta, rows)[1], rows)

    def members(self, theta: FloatArray, rows: Any) -> float:
        """Return how many of some records the ratio of these is a share of, by the estimate of its denominator."""
        sums = self._summed(self._parts(theta, rows)[1], rows)
        return float(sums.means[0]) * sums.independent

    def bias_of_few(self, theta: FloatArray, rows: Any) -> float:
        """Return what the ratio of some records is off in the mean because they are few."""
        return bias_of_ratio(*self._parts(theta, rows), self.records, rows)

    def columns(self, theta: FloatArray, rows: Any) -> FloatArray:
        """Return numerator, denominator and positives of some records."""
        return np.stack([*self._parts(theta, rows), self.positives[rows]], axis=1)

    def judged(self, theta: FloatArray) -> Judged:
        """Return the ratio of all records and its standard error."""
        sums = self.sums(theta)
        return ratio_of(sums, 0, 1, positive_mean(sums, 1, self._share))

    def _parts(self, theta: FloatArray, rows: Any) -> tuple[FloatArray, FloatArray]:
        hits, predicted, positive = RATES[self.name]
        above = 0.5 + 0.5 * self.signs.at(theta, rows, [self.threshold])[:, 0]
        positives = self.positives[rows]
        return hits * positives * above, predicted * above + positive * positives

    @property
    def _share(self) -> str:
        _, predicted, positive = RATES[self.name]
        parts = ["predicted to have"] * bool(predicted) + ["that have"] * bool(positive)
        return f"the share of records {' plus that of those '.join(parts)} the larger label"

    def bias(self, theta: FloatArray, sums: Sums | None = None) -> tuple[float, bool]:
        """Return a bound on the bias by what signs are off over likely scores, and the labels that are possible."""
        if self.signs.method == "exact":
            return 0.0, True
        sums = self.sums(theta) if sums is None else sums
        above, below, positives = sums.means.tolist()
        ratio, error = above / below, math.sqrt(sums.squared_error(sums.only(1))) if sums.low[1] < 0 else 0.0
        hits, predicted, _ = RATES[self.name]
        share, found = float(np.clip(positives, 0.0, 1.0)), []
        gathered = self.signs.gathered(theta, self.threshold)
        for likely in (*self.signs.cases(theta, self.label_model), *gathered):
            errors = self.signs.errors(theta, likely.scores, self.threshold) / 2
            for labels in likely.labels:
                known = share if labels is None else labels
                found.append(ratio_bound(errors, known, ratio, below, hits, predicted, error))
        return float(np.max(found)), False


def means_of_errors(errors: FloatArray, labels: FloatArray | float) -> tuple[float, float]:
    """Return the least and the largest mean of y times errors, y in [0, 1].

    Parameters
    ----------
    errors : array of shape (k,), float64
        What a sign is off at equally likely scores.
    labels : array of shape (k,), float64, or float
        The means of labels -1 and +1 at these scores; or the mean of y alone, whose records are then those with the
        least or with the largest errors.
    """
    if not isinstance(labels, float):
        mean = float(np.mean((1 + labels) / 2 * errors))
        return mean, mean
    order, kept = np.sort(errors), labels * len(errors)
    counted = np.clip(kept - np.arange(len(order)), 0.0, 1.0)
    return float(counted @ order) / len(order), float(counted @ order[::-1]) / len(order)


def error_bound(errors: FloatArray, below: float, labels: FloatArray | float) -> float:
    """Return a bound on the mean of y times errors over a number; other arguments as for `means_of_errors`."""
    return max(map(abs, means_of_errors(errors, labels))) / below


def ratio_bound(
    errors: FloatArray,
    labels: FloatArray | float,
    ratio: float,
    below: float,
    hits: float,
    predicted: float,
    error: float = 0.0,
) -> float:
    """Return how far a ratio of means is at most from that without errors in either, as a share.

    Parameters
    ----------
    errors, labels : array of shape (k,), float64
        As for `means_of_errors`.
    ratio, below : float
        The ratio, and its denominator.
    hits, predicted : float
        The numerator is off by the first times the mean of y times errors, the denominator by the second times the mean
        error.
    error : float
        The standard error of the denominator. Where the denominator without errors is not told apart from 0, the share
        may be any.
    """
    if not np.all(np.isfinite(errors)):
        return math.nan
    any_share = max(abs(ratio), abs(1 - ratio))
    true_below = below - predicted * float(np.mean(errors))
    if not true_below > max(_ROUNDING * below, _TOLD * error):
        return any_share
    shares = [(ratio * below - hits * mean) / true_below for mean in means_of_errors(errors, labels)]
    return min(any_share, max(abs(ratio - share) for share in shares))


def rate(
    name: str,
    records: Records,
    thetas: Sequence[FloatArray],
    *,
    radius: float | None,
    label_model: str,
    threshold: float,
) -> Rate:
    """Return precision, recall or F1, corrected for all thetas; other arguments as for `evaluate`."""
    require_labels_apart(name, records)
    signs = signs_of(name, records, thetas, radius=radius, thresholds=[threshold])
    positives = records.positives()
    return Rate(name, signs.method, records, positives, signs, threshold, label_model)


def require_labels_apart(what: str, records: Records) -> None:
    """Raise NoExactCorrectionError where scores are released times the label alone."""
    if records.of_margins:
        raise NoExactCorrectionError(
            f"{what} counts the labels by themselves, and a margin release tells the score times the label alone, "
            "which is the same for both. Evaluate accuracy, log_loss or brier, or release the label apart."
        )


@dataclass(frozen=True)
class RSquared(Metric):
    """1 - mean (y - u)^2 / var(y), the noise of scores and targets taken out of both.

    Attributes
    ----------
    errors : MeanLoss
        The corrected squared errors.
    target : array of shape (n,), float64
        Unbiased estimates of the targets.
    excess : array of shape (n,), float64
        Their squares less unbiased estimates of the squared targets.
    middle : float
        The mean of the targets of all records.
    """

    errors: MeanLoss
    target: FloatArray
    excess: FloatArray
    middle: float
    higher_is_better: ClassVar[bool] = True
    has_long_tails: ClassVar[bool] = True

    def on(self, part: Records) -> Self:
        """Return the metric of some other records."""
        target, excess = part.unbiased_target(), part.excess_of_squares()
        return replace(self, records=part, errors=self.errors.on(part), target=target, excess=excess)

    def columns(self, theta: FloatArray, rows: Any) -> FloatArray:
        """Return squared errors, squared distances of targets from their mean, and what these exceed true ones by."""
        excess = self.excess[rows]
        squares = (self.target[rows] - self.middle) ** 2 - excess
        return np.stack([self.errors.values(theta, rows), squares, excess, _noise_of(squares, excess)], axis=1)

    def judged(self, theta: FloatArray) -> Judged:
        """Return R2 of all records and its standard error."""
        sums = self.sums(theta)
        # Sums of w^2 v: the noise of the mean is in its square.
        squares = (sums.first + sums.square * sums.means) / sums.weight**2
        of_mean = float(squares[2])
        below = sums.mean(sums.only(1)) + of_mean
        told_positive(below, float(squares[3]) if sums.low[1] + of_mean < 0 else 0.0, _VARIANCE)
        found = ratio_of(sums, 0, 1, below)
        slope, bend = found.bending
        return replace(found, value=1 - found.value, of=-found.of, bending=(-slope, bend))

    def carriers(self, theta: FloatArray, rows: Any) -> float:
        """Return how many of some records R2 of these is a share of."""
        weights, target, excess = self.records.weights[rows], self.target[rows], self.excess[rows]
        return self._carried((target - weights @ target / weights.sum()) ** 2 - excess, rows)

    def bias_of_few(self, theta: FloatArray, rows: Any) -> float:
        """Return what R2 of some records is off in the mean because they are few, whose mean is in their variance."""
        weights, target = self.records.weights[rows], self.target[rows]
        share = weights / weights.sum()
        away = target - share @ target
        squares = away**2 - self.excess[rows] + float(share**2 @ self.excess[rows])
        errors = self.errors.values(theta, rows)
        moved = share * away
        if self.records.clusters is not None:
            moved = np.bincount(self.records.clusters[rows], moved)
        # The variance about the mean of these records is too small by the variance of that mean, but for its noise,
        # which has been taken out.
        less = max(float(moved @ moved) - float(share**2 @ self.excess[rows]), 0.0) / float(share @ squares)
        ratio = float(share @ errors) / float(share @ squares)
        return -(bias_of_ratio(errors, squares, self.records, rows) + ratio * less)

    def values(self, theta: FloatArray, rows: Any) -> FloatArray:
        """Return the pseudo-values of some records."""
        weights = self.records.weights[rows]
        share, target, excess = weights / weights.sum(), self.target[rows], self.excess[rows]
        squares = (target - share @ target) ** 2 - excess
        noise = _noise_of(squares, excess)
        # The noise of the mean is in its square.
        squares = squares + float(share**2 @ excess)
        errors = self.errors.values(theta, rows)
        return 1 - pseudo_values(errors, squares, weights, _VARIANCE, noise)


def _noise_of(squares: FloatArray, excess: FloatArray) -> FloatArray:
    """Return the variance that squared distances of targets have by their noise, whose variance is the excess."""
    spread = np.maximum(excess, 0.0)
    # (y + e - m)^2 moves with the noise e by 2 (y - m) e and, as normal noise has it, by e^2.
    return np.asarray(4 * spread * np.maximum(squares, 0.0) + 2 * spread**2)


def r_squared(records: Records, errors: MeanLoss) -> RSquared:
    """Return R2; `errors` is the mean of the squared error."""
    if records.of_margins:
        raise NoExactCorrectionError(
            "r2 is a share of the variance of the target, and a margin release tells no target by itself. Evaluate "
            "squared_error, or release the target apart."
        )
    target, excess = records.unbiased_target(), records.excess_of_squares()
    (low, high), total = records.reduced(_targets, _together)
    if high - low <= _ROUNDING * max(abs(low), abs(high)):
        raise InferenceError(
            "the variance of the target is 0 but for rounding, and r2 is a share of it. Evaluate squared_error."
        )
    return RSquared("r2", errors.method, records, errors, target, excess, total / records.total)


def _targets(part: Records) -> tuple[tuple[float, float], float]:
    """Return the extremes of the targets of records with weight, and the weighted sum of all."""
    target = part.unbiased_target()
    return extremes_with_weight(target, part.weights), float(part.weights @ target)


def _together(*parts: tuple[tuple[float, float], float]) -> tuple[tuple[float, float], float]:
    """Return what `_targets` says of several parts."""
    return extremes_of(*(ends for ends, _ in parts)), math.fsum(total for _, total in parts)
