"""The ROC curve: true and false positive rates over thresholds, the noise of scores and labels taken out."""

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from symdebias._arrays import FloatArray, real_array
from symdebias._blas import one_thread
from symdebias._domains import Integer, is_integer, kind_or_value
from symdebias.evaluation.error_law import with_added_variances
from symdebias.evaluation.estimate import (
    LEVEL,
    Estimate,
    check_options,
    estimate_at,
    with_noise_estimated,
)
from symdebias.evaluation.metric import Metric, unseen_of_share
from symdebias.evaluation.models import Model, as_fitted
from symdebias.evaluation.parts import checked_records
from symdebias.evaluation.ranking import LARGER, SMALLER, AreaUnderCurve, pair_signs
from symdebias.evaluation.ratios import error_bound, positive_mean, ratio_of, require_labels_apart
from symdebias.evaluation.records import Records
from symdebias.evaluation.signs import Signs, scores_of, signs_of
from symdebias.release import Release
from symdebias.solvers.fit import Fit
from symdebias.solvers.noise_estimates import added_variances

# What is known of each rate.
_PARTS = ("rates", "errors", "bias", "freedom", "unseen")


@dataclass(frozen=True)
class RocCurve:
    """Rates of a model on true records over thresholds, and the area under the curve; made by `roc_curve`.

    The rates are estimates at each threshold by itself: they may lie outside [0, 1] and need not be monotone.

    Attributes
    ----------
    thresholds : array of shape (k,), float64
        Scores above which a record counts as positive, falling; a score at the threshold itself counts half.
    true_positive_rates, false_positive_rates : array of shape (k,), float64
        The shares of records with the larger and with the smaller label whose score lies above.
    true_positive_errors, false_positive_errors : array of shape (k,), float64
        Their standard errors.
    true_positive_bias, false_positive_bias : array of shape (k,), float64
        Estimated bounds on their absolute bias; 0 where signs of scores are undone exactly.
    true_positive_freedom, false_positive_freedom : array of shape (k,), float64
        The degrees of freedom of their standard errors; infinite where these are as good as known.
    true_positive_unseen, false_positive_unseen : array of shape (k,), float64
        What a record may change a rate by that none shows, towards 1/2, at the level 0.95.
    area : Estimate
        The area under the curve, from pairs of records and not from these rates.
    records : int
        The number of records with weight.
    clusters : int or None
        The number of clusters G that standard errors are over.

    Examples
    --------
    >>> import numpy as np
    >>> import symdebias as sd
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2_000, 1))
    >>> y = np.where(rng.random(2_000) < 1 / (1 + np.exp(-X[:, 0])), 1, -1)
    >>> noised = sd.Release(target=sd.RandomizedResponse(epsilon=2.0)).privatize(X, y, random_state=1)
    >>> curve = sd.evaluation.roc_curve([1.0], noised.X, noised.y, release=noised.release, thresholds=[1.0, 0.0, -1.0])
    >>> bool(np.all(np.diff(curve.true_positive_rates) > 0)), curve.area.metric
    (True, 'roc_auc')
    """

    thresholds: FloatArray
    true_positive_rates: FloatArray
    false_positive_rates: FloatArray
    true_positive_errors: FloatArray
    false_positive_errors: FloatArray
    true_positive_bias: FloatArray
    false_positive_bias: FloatArray
    true_positive_freedom: FloatArray
    false_positive_freedom: FloatArray
    true_positive_unseen: FloatArray
    false_positive_unseen: FloatArray
    area: Estimate
    records: int
    clusters: int | None = None

    def confidence_intervals(self, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
        """Return intervals of the true and of the false positive rates, each by itself.

        They are normal, or by Student's t where few records or clusters decide a standard error, and wider by the bound
        on the bias at both ends; none is nearer to 0 or 1 than a rate may be that no record of its label shows. Both
        ends are nan where `Estimate.confidence_interval` refuses one: where too few records of a label lie on one side
        of a threshold.

        Parameters
        ----------
        level : float
            The level of each, in (0, 1).

        Returns
        -------
        two arrays of shape (k, 2), float64
            Lower and upper ends.
        """
        LEVEL.check("level", level)
        true, false = (self._intervals(side, level) for side in ("true", "false"))
        return true, false

    def _intervals(self, side: str, level: float) -> FloatArray:
        columns = (getattr(self, f"{side}_positive_{of}").tolist() for of in _PARTS)
        found = []
        for value, error, bias, freedom, unseen in zip(*columns, strict=True):
            of_error = None if math.isinf(freedom) else freedom
            name, method = f"{side}_positive_rate", self.area.method
            rate = Estimate(value, error, bias, False, self.records, name, method, self.clusters, of_error)
            rate = replace(rate, with_other_labels=unseen)
            found.append(rate.interval_or_none(level) or (math.nan, math.nan))
        return np.array(found)

    def __str__(self) -> str:
        lines = [
            f"{self.area}",
            f"{'threshold':>10}{'true pos.':>12}{'(se)':>10}{'bias':>10}{'false pos.':>12}{'(se)':>10}{'bias':>10}",
        ]
        columns = (
            self.thresholds, self.true_positive_rates, self.true_positive_errors, self.true_positive_bias,
            self.false_positive_rates, self.false_positive_errors, self.false_positive_bias,
        )  # fmt: skip
        lines += [
            f"{at:>10.3f}{true:>12.4f}{true_error:>10.4f}{true_bias:>10.1e}{false:>12.4f}{false_error:>10.4f}"
            f"{false_bias:>10.1e}"
            for at, true, true_error, true_bias, false, false_error, false_bias in zip(*columns, strict=True)
        ]
        return "\n".join(lines)


def roc_curve(
    theta_or_fit: Model,
    X: Any,
    y: Any,
    *,
    release: Release | None = None,
    thresholds: int | Sequence[float] = 10,
    sample_weight: Any = None,
    clusters: Any = None,
    target_values: Sequence[float] | None = None,
    radius: float | None = None,
    label_model: str = "any",
    offset: Any = None,
) -> RocCurve:
    """Estimate the ROC curve of a model on true records from released ones.

    Parameters
    ----------
    theta_or_fit, X, y, release, sample_weight, clusters, target_values, radius, label_model, offset
        As for `evaluate`.
    thresholds : int or sequence of float
        How many scores, at quantiles of what true scores are likely to be: released ones, drawn in to the debiased
        variance. Or the scores.

    Returns
    -------
    RocCurve
        Rates with standard errors (delta method) and bounds on their bias, and the area under the curve.

    Raises
    ------
    NoExactCorrectionError
        The noise lets no sign of a score be told, or features and label were released in one vector.
    InferenceError
        The share of a label is not told apart from 0.
    TypeError, ValueError
        An argument or the data do not fit.

    Notes
    -----
    With unbiased estimates a of 1 for the larger label and of the sign of u - t, the true positive rate at t is
    mean(a (1 + sign)/2)/mean(a), and the false positive rate the same with 1 - a. A score at the threshold counts half.

    References
    ----------
    Hanley & McNeil 1982 (the area as a probability over pairs).

    Examples
    --------
    >>> import numpy as np, symdebias as sd
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(20_000, 2))
    >>> y = np.where(rng.random(20_000) < 1 / (1 + np.exp(-X @ [2.0, -1.0])), 1, -1)
    >>> release = sd.Release(sd.GaussianMechanism.from_scale(0.5), sd.RandomizedResponse(epsilon=2.0))
    >>> noised = release.privatize(X, y, random_state=1)
    >>> curve = sd.evaluation.roc_curve([2.0, -1.0], noised.X, noised.y, release=release, thresholds=[0.0])
    >>> truth = np.mean(X[y > 0] @ [2.0, -1.0] > 0)
    >>> bool(abs(curve.true_positive_rates[0] - truth) < 4 * curve.true_positive_errors[0])
    True
    """
    model, y = as_fitted(theta_or_fit, X, y)
    records = checked_records(
        model, X, y, release,
        sample_weight=sample_weight, clusters=clusters, target_values=target_values, offset=offset,
    )  # fmt: skip
    return roc_curve_of(records, model, thresholds=thresholds, radius=radius, label_model=label_model)


@one_thread()
def roc_curve_of(
    records: Records,
    theta_or_fit: Fit | ArrayLike,
    *,
    thresholds: int | Sequence[float],
    radius: float | None,
    label_model: str,
) -> RocCurve:
    """Return the curve on checked records; arguments as for `roc_curve`."""
    check_options("roc_auc", radius, label_model)
    theta = records.parameters(theta_or_fit)
    require_labels_apart("the ROC curve", records)
    if is_integer(thresholds):
        count = Integer(1, 1_000_000).check("thresholds", thresholds)
        given = Signs(records, scores_of("the ROC curve", records, [theta])).likely_scores(theta, count)
    else:
        given = _given(thresholds)
    levels: list[float] = np.sort(given)[::-1].tolist()
    found = _curve(records, theta, levels, radius, label_model)

    @functools.cache
    def under(release: Release) -> RocCurve:
        return _curve(records.under(release), theta, levels, radius, label_model)

    def rates(release: Release) -> FloatArray:
        return np.stack([under(release).true_positive_rates, under(release).false_positive_rates])

    errors = np.stack([found.true_positive_errors, found.false_positive_errors])
    freedom = np.stack([found.true_positive_freedom, found.false_positive_freedom])
    (true, false), freedom = with_added_variances(errors, freedom, added_variances(records.collected, rates))
    area = with_noise_estimated(found.area, records.collected, lambda release: under(release).area.value)
    return replace(
        found,
        true_positive_errors=true,
        false_positive_errors=false,
        true_positive_freedom=freedom[0],
        false_positive_freedom=freedom[1],
        area=area,
    )


def _curve(
    records: Records, theta: FloatArray, levels: list[float], radius: float | None, label_model: str
) -> RocCurve:
    """Return the curve at some thresholds, falling, with the noise taken as known."""
    positives = records.positives()
    signs = signs_of("the ROC curve", records, [theta], thresholds=levels, radius=radius)
    area = AreaUnderCurve("roc_auc", signs.method, records, positives, pair_signs(signs, radius=radius), label_model)
    estimate = estimate_at(area, theta)

    judge = _Rates("the ROC curve", signs.method, records, positives, signs, levels)
    sums, judged = judge.sums(theta), []
    common = signs.cases(theta, "any" if signs.method == "exact" else label_model)
    count = len(levels)
    rows: list[list[float]] = []
    gathered = signs.gathered_near(theta, levels)
    for place, threshold in enumerate(levels):
        row = [threshold]
        cases = [*common, *gathered[place]]
        errors = [signs.errors(theta, likely.scores, threshold) / 2 for likely in cases]
        for side, (what, turned) in enumerate(((LARGER, 1.0), (SMALLER, -1.0))):
            below = positive_mean(sums, 2 * count + side, what)
            rate = ratio_of(sums, side * count + place, 2 * count + side, below)
            judged.append(rate)
            row += [rate.value, rate.error]
            biases = [0.0]
            share = min(below, 1.0)
            for off, likely in zip(errors, cases, strict=True):
                for labels in likely.labels:
                    known = share if labels is None else turned * labels
                    biases.append(error_bound(off, share, known) if off.any() else 0.0)
            row.append(float(np.max(biases)))
        rows.append(row)
    at, true, true_error, true_bias, false, false_error, false_bias = np.array(rows).T
    laws = judge.error_laws(theta, sums, [rate.of for rate in judged])
    laws = [law.carried_by(rate.carriers) for law, rate in zip(laws, judged, strict=True)]
    unseen = np.array([unseen_of_share(rate.value, rate.members) for rate in judged])
    told = [math.inf if law.freedom is None else law.freedom for law in laws]
    return RocCurve(
        at, true, false, true_error, false_error, true_bias, false_bias, np.array(told[::2]), np.array(told[1::2]),
        unseen[::2], unseen[1::2], estimate, estimate.records, estimate.clusters,
    )  # fmt: skip


@dataclass(frozen=True)
class _Rates(Metric):
    """What true and false positive rates are made of.

    Attributes
    ----------
    positives : array of shape (n,), float64
        Unbiased estimates of 1 for the larger label and 0 for the other.
    signs : Signs
        Of the scores.
    thresholds : list of float
        Scores, k of them.
    """

    positives: FloatArray
    signs: Signs
    thresholds: list[float]

    def on(self, part: Records) -> Self:
        """Return the same of some other records."""
        positives = part.positives()
        return replace(self, records=part, positives=positives, signs=self.signs.on(part))

    def values(self, theta: FloatArray, rows: Any) -> FloatArray:
        """Return whether some records have the larger label."""
        return np.asarray(self.positives[rows])

    def columns(self, theta: FloatArray, rows: Any) -> FloatArray:
        """Return shares of true and of false positives at each threshold, then both labels, shape (m, 2 k + 2)."""
        members = np.stack([self.positives[rows], 1 - self.positives[rows]])
        above = (1 + self.signs.at(theta, rows, self.thresholds)) / 2
        return np.concatenate([*(own[:, None] * above for own in members), members.T], axis=1)


def _given(thresholds: Any) -> FloatArray:
    """Return thresholds that were given as numbers."""
    if isinstance(thresholds, (str, bytes, Mapping)) or np.ndim(thresholds) != 1 or len(thresholds) == 0:
        raise TypeError(
            f"thresholds={kind_or_value(thresholds)} is neither an integer, how many scores to take, nor a list of "
            "scores, at least one. Give one of them, such as thresholds=[0.0]."
        )
    return np.array(real_array(np.asarray(thresholds), "thresholds"))
