"""The estimate of a metric of one model: its value, its standard error and a bound on its bias."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import ArrayLike

from symdebias._arrays import FloatArray
from symdebias._blas import one_thread
from symdebias._domains import RADIUS, Interval, check_choice, is_choice, kind_or_value
from symdebias._metric_names import METRICS, called_here
from symdebias.evaluation.accuracy import accuracy, accuracy_of_classes
from symdebias.evaluation.error_law import ErrorLaw
from symdebias.evaluation.mean_loss import mean_loss, named_loss, softmax_of
from symdebias.evaluation.metric import MISSED, Metric, unseen_of_share
from symdebias.evaluation.models import Model, as_fitted, in_labels_of
from symdebias.evaluation.parts import checked_records
from symdebias.evaluation.ranking import area_under_curve
from symdebias.evaluation.ratios import RATES, r_squared, rate
from symdebias.evaluation.records import OF_ONE_NOISE, Records
from symdebias.evaluation.scores import ReleasedScores
from symdebias.evaluation.zonal_loss import PARTS, zonal_loss
from symdebias.exceptions import DivergenceError, InferenceError, NoExactCorrectionError
from symdebias.inference import MANY_DECIDE
from symdebias.losses import Loss
from symdebias.release import Release
from symdebias.solvers.fit import Fit
from symdebias.solvers.noise_estimates import moved_releases

HIGHER_IS_BETTER = ("accuracy", *RATES, "roc_auc", "r2")
# Those that compare a score with a threshold.
WITH_THRESHOLD = ("accuracy", *RATES)
_LABEL_MODELS = ("any", "logistic")
_THRESHOLD = Interval(-1e100, 1e100, "both", "Give a score.")
LEVEL = Interval(0.0, 1.0, "neither", "Give the level of the interval, such as 0.95.")
# Those of signs and ranks, which a score tells as well as twice the score.
OF_ORDER = ("accuracy", *RATES, "roc_auc")
# Metrics between 0 and 1; an estimate so many standard errors beyond has too small a one, and so has one as close.
_SHARES = ("accuracy", *RATES, "roc_auc", "true_positive_rate", "false_positive_rate", "observed_share")
_BEYOND, _NOTHING = 2.0, 1e-7
# Of two models either may be the one that is wrong where no record tells.
_DIFFERENCES = tuple(f"difference of {name}" for name in WITH_THRESHOLD)
# Those of a standard error that nobody knows how far to trust, where they are fewer.
LEAST_FREEDOM = 5.0
# Those of a variance over two clusters: the other kind of label may be in one alone, which has none.
LEAST_OVER_CLUSTERS = 1.0
# In standard errors, what a label that no record has may change before there is no interval.
_MUCH_UNSEEN = 0.25


@dataclass(frozen=True)
class Estimate:
    """A metric of a model on true records, estimated from released ones; made by `evaluate`.

    Attributes
    ----------
    value : float
        The estimate.
    standard_error : float
        Its standard error over the draw of records, the noise of the release included.
    bias : float
        A bound on the absolute bias of `value`: 0 where the correction is exact, the distance between metric and
        surrogate otherwise. A part of the metric that a channel hides and no parameter changes counts as well; it
        cancels in differences between models.
    bias_is_certified : bool
        Whether `bias` holds for every record within the declared bounds. Otherwise it is estimated, with true scores
        taken as normal, or for signs of scores as spread like the released ones.
    records : int
        The number of records with weight.
    metric : str
        What was estimated.
    method : str
        How it was corrected.
    clusters : int or None
        The number of clusters G that the standard error is one over.
    degrees_of_freedom : float or None
        Those of the standard error, where it rests on few values: on few records far from the others, on few clusters,
        or on noise that was estimated.
    skewness : float
        That of the estimate where few records or clusters decide it, and 0 otherwise: the sum of d^3 over the sum of
        d^2 to the power 1.5, with d what each does to it. Of a mean loss or R2 of 100 records or more it is as much as
        the tail of d says, where that is more.
    without_both_labels : float
        By how much a label that no record has may change the value of a metric of two labels; 0 where both occur. One
        that is as frequent as this takes it to be is in no record of one sample in 40.
    with_other_labels : float
        By how much labels may change a mean loss of labels, an area under the ROC curve or a share, that so few records
        have as to be in none of one sample in 40, as where scores are so certain that no record has another label than
        its score tells: the end on that side is no nearer at 95%, and of a difference of shares neither end is. It may
        be infinite, and is 0 for other metrics.
    bending : tuple of two floats
        a and b of a ratio whose denominator is noisy, and 0 for others: if the metric is t standard errors larger, the
        variance of the estimate is 1 + a t + b t^2 times that of the standard error.

    Examples
    --------
    >>> import numpy as np
    >>> import symdebias as sd
    >>> X, y = np.array([[0.5], [-0.5], [1.0], [-1.0]] * 10), np.array([1.0, -1.0, -1.0, -1.0] * 10)
    >>> release = sd.Release(target=sd.RandomizedResponse(epsilon=2.0))
    >>> estimate = sd.evaluation.evaluate([1.0], X, y, metric="accuracy", release=release)
    >>> estimate.bias, estimate.method, bool(estimate.standard_error > 0)
    (0.0, 'exact', True)
    """

    value: float
    standard_error: float
    bias: float
    bias_is_certified: bool
    records: int
    metric: str
    method: str
    clusters: int | None = None
    degrees_of_freedom: float | None = None
    skewness: float = 0.0
    without_both_labels: float = 0.0
    with_other_labels: float = 0.0
    bending: tuple[float, float] = (0.0, 0.0)

    def confidence_interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return a confidence interval: normal, and wider by the bound on the bias at both ends.

        It is by Student's t where there are `degrees_of_freedom`. The variance of a share m goes with m (1 - m): where
        few records decide it, the end on the side of 1/2 is that of a test with the variance at that end (Wilson 1927).
        No interval of a share reaches beyond 0 or 1, and none of R2 beyond 1. Where a denominator is noisy, ends are by
        the variance that there is at these ends (Fieller 1954). Of other metrics the end on the side of the long tail
        is farther out by the skewness (Hall 1992), and no end of a mean loss of labels, of an area, or of a share, is
        nearer than what labels may change that no record has (`with_other_labels`, for this level).

        Parameters
        ----------
        level : float
            The level, in (0, 1).

        Returns
        -------
        tuple of two floats
            Its ends.

        Raises
        ------
        InferenceError
            The standard error is one over records, of fewer than 5 degrees of freedom: 2.5 records decide it, or fewer
            than five carry what the metric is a share of. Or one cluster carries that. Or the metric is a share, and
            the estimate 0 or 1 without a standard error, or farther beyond them than two; or R2 is as far beyond 1. Or
            all records have one label, and the other may change the value by more than a quarter of a standard error.
        """
        self._require_telling()
        level = LEVEL.check("level", level)
        law, freedom = self._error_law, self.degrees_of_freedom
        below, above = law.reaches(level)
        unseen = self.with_other_labels * math.log((1 - level) / 2) / math.log(MISSED)
        on_both = abs(unseen) if self.metric in _DIFFERENCES else -math.inf
        low = self.value - max(below * self.standard_error, -unseen, on_both)
        high = self.value + max(above * self.standard_error, unseen, on_both)
        if self._is_share and freedom is not None and freedom < 2 * MANY_DECIDE and 0 < self.value < 1:
            far = _tested_end(self.value, law.reach(level) * self.standard_error)
            low, high = (min(low, far), high) if self.value > 0.5 else (low, max(high, far))
        if math.isnan(unseen):
            # A difference of what has no bound may be anything.
            low, high = -math.inf, math.inf
        low, high = low - self.bias, high + self.bias
        if self._is_share:
            # What no share can be is in no interval of one.
            low, high = min(max(low, 0.0), 1.0), min(max(high, 0.0), 1.0)
        elif self.metric == "r2":
            low, high = min(low, 1.0), min(high, 1.0)
        return low, high

    def _require_telling(self) -> None:
        """Raise InferenceError where the records do not tell how far the estimate is off."""
        freedom = self.degrees_of_freedom
        least = LEAST_FREEDOM if self.clusters is None else LEAST_OVER_CLUSTERS
        if freedom is not None and freedom < least:
            of = "records" if self.clusters is None else "clusters"
            raise InferenceError(
                f"few {of} decide the standard error by themselves, or carry what the metric is a share of: it has "
                f"{freedom:.2g} degrees of freedom where {least:g} are needed, and an interval would not cover. Bound "
                f"the weights, take a bounded metric, or give more {of}."
            )
        if abs(self.without_both_labels) > _MUCH_UNSEEN * self.standard_error:
            raise InferenceError(
                f"all {self.records:,} records have the same label, and how rare the other one is they do not tell: it "
                f"may change {self.metric} by {self.without_both_labels:.2g}, with a standard error of "
                f"{self.standard_error:.2g}. Give records of both labels."
            )
        if self._is_share:
            # How far it is inside of [0, 1]; below 0 where no share can be. Where each record counts half it is a half.
            inside = min(self.value, 1 - self.value) + self.bias
            if inside + _BEYOND * self.standard_error < 0 or max(inside, self.standard_error) < _NOTHING:
                raise InferenceError(
                    f"{self.metric} is estimated as {self.value:.6g} with a standard error of "
                    f"{self.standard_error:.2g}: too few records have another outcome (a miss, a flipped label) to "
                    "tell how rare it is, and an interval would not cover. Give more records."
                )
        elif self.metric == "r2" and 1 - self.value + self.bias + _BEYOND * self.standard_error < 0:
            raise InferenceError(
                f"r2 is estimated as {self.value:.6g} with a standard error of {self.standard_error:.2g}, and 1 is the "
                "largest value it has: the squared errors left by the model are lost in the noise of the release. Is "
                "more noise declared than there is? If not, give more records."
            )

    @property
    def _is_share(self) -> bool:
        return self.metric in _SHARES

    @property
    def _error_law(self) -> ErrorLaw:
        """What intervals go by: the long tail of a share is that of the test with the variance at its end."""
        return ErrorLaw(self.degrees_of_freedom, 0.0 if self._is_share else self.skewness, self.bending)

    def interval_or_none(self, level: float = 0.95) -> tuple[float, float] | None:
        """Return the confidence interval, or None where it is refused: for tables."""
        try:
            return self.confidence_interval(level)
        except InferenceError:
            return None

    def __str__(self) -> str:
        bias = "no bias"
        if self.bias > 0:
            bias = f"bias at most {self.bias:.2g} ({'certified' if self.bias_is_certified else 'estimated'})"
        return (
            f"{self.metric} {self.value:.6g}, standard error {self.standard_error:.2g}, {bias}; {self.method}, "
            f"{self.records:,} records"
        )


def _tested_end(share: float, reach: float) -> float:
    """Return the m on the side of 1/2 with |share - m| = reach sqrt(m (1 - m) / (share (1 - share)))."""
    if share > 0.5:
        return 1 - _tested_end(1 - share, reach)
    growth = reach**2 / (share * (1 - share))
    middle = share + growth / 2
    return (middle + math.sqrt(middle**2 - (1 + growth) * share**2)) / (1 + growth)


def evaluate(
    theta_or_fit: Model,
    X: Any,
    y: Any,
    *,
    metric: str | Loss,
    release: Release | None = None,
    sample_weight: Any = None,
    clusters: Any = None,
    target_values: Sequence[float] | None = None,
    radius: float | None = None,
    label_model: str = "any",
    threshold: float = 0.0,
    offset: Any = None,
    noise_scale: Any = None,
) -> Estimate:
    """Estimate a metric of a model on true records from released ones.

    Parameters
    ----------
    theta_or_fit : Fit, DebiasedClassifier, DebiasedRegressor, or array of shape (q,) or (K, q)
        The model: what a solver returned, a fitted estimator, or parameters with the intercept last.
    X : array of shape (n, p) or table
        Released records, n >= 2: others than the model was fitted to, or the value flatters it.
    y : array of shape (n,)
        Released targets, in the coding that the model was fitted in.
    metric : str or Loss
        Of two labels, of which the larger counts as positive: ``"log_loss"`` is the mean of log(1 + exp(-y u)),
        ``"brier"`` of (1/(1 + exp(-u)) - [y positive])^2, ``"accuracy"`` the share of records whose score is on the
        side of their label, ``"precision"``, ``"recall"`` and ``"f1"`` are the rates of scores above `threshold`,
        and ``"roc_auc"`` is the area under the ROC curve; a score at the threshold counts half. Of numbers:
        ``"squared_error"`` is the mean of (y - u)^2, ``"r2"`` is 1 less its share of the variance of y, and
        ``"poisson"`` the mean of exp(u) - y u. Of a model with a score for each class ``"log_loss"`` is that of their
        softmax, and ``"accuracy"``, where the noise is that of labels alone, the share of records whose class has the
        largest score. A `Loss` is taken as it is. A Fit whose loss predicts by another link
        than a metric takes scores for is refused.
    release : Release, optional
        How the records were noised; that of a Fit by default. ``Release()`` says that they are true.
    sample_weight : array of shape (n,), optional
        Non-negative weights of the records.
    clusters : array of shape (n,), optional
        Which records belong to the same person: the standard error is that over clusters.
    target_values : sequence of float, optional
        The labels, for metrics of labels: two, or one for each score. By default those of the release, of the loss that
        was fitted, or -1 and +1, and 0, 1, ... for several scores.
    offset : array of shape (n,), optional
        A known term of the score of each record, as for `m_estimate`. A Fit with an offset needs one.
    noise_scale : array of shape (n,) or (n, p), or table of p columns, optional
        Standard deviations of the records' own normal noise, as for `m_estimate`, in place of those of the release. It
        is taken by metrics that are means of losses with an exact correction: squared_error, r2, poisson, or such a
        Loss. Of noise that was estimated they are taken as known multiples.
    radius : float, optional
        A public bound on the absolute true score (residual, for a residual loss), positive: the surrogate is designed
        for it, and its bias is certified for scores within it. By default it holds the true scores as far as the
        released ones tell, or it is the bound that the release declares where that is at most half as wide again.
    label_model : {"any", "logistic"}
        What the bound on the bias of metrics by signs of scores (accuracy, precision, recall, f1, roc_auc) assumes of
        labels given the score: nothing, or a logistic probability with the debiased means of y and of y times a
        smoothed sign of u. The second is much smaller. It is too small where many true scores are the same, and lie
        next to the threshold.
    threshold : float
        The score above which accuracy, precision, recall and f1 count a record as positive: by default 0, which is the
        probability 1/2.

    Returns
    -------
    Estimate
        The value with its standard error and its bias.

    Raises
    ------
    NoExactCorrectionError, InfiniteVarianceError
        The metric has no correction under this noise, or none of finite variance at these parameters.
    DivergenceError
        A record's corrected metric is not finite, or its bias is no number.
    InferenceError
        What the metric is a share of (positives, predicted positives, the variance of the target) is not told apart
        from 0. Or a loss grows so fast that under the noise of the score fewer than 30 records carry its mean.
    TypeError, ValueError
        An argument or the data do not fit, as a radius does not beyond which released scores lie by more than their
        noise makes.

    Notes
    -----
    Losses are corrected by ``debias(loss, release)``. Where that is a surrogate, its bias is the largest distance from
    the loss on the range of scores. It is certified where all true scores lie within, by the bounds of the release or
    by `radius`; otherwise the mean distance beyond the range, over normal scores with the debiased mean and variance,
    is added.

    Accuracy is 1/2 + mean(y sign u)/2. The label enters by its unbiased estimate. Under channels and noise on a grid
    the sign has an exact inverse; otherwise it is the slope of a surrogate of abs(u), whose waves are undone column by
    column, as many of them as the noise lets resolve over the range of scores. No such slope is close to a sign at 0.
    Its bias is bounded by the mean distance from the sign over scores spread like the released ones, drawn in to the
    debiased variance: an estimate, and a pessimistic one.

    Under a spherical cap the sign is a polynomial of the score, as far as the noise lets its degrees through; so are
    the parts of log loss and Brier score where an intercept stands beside the noised vector, with an estimated bias.

    The area under the curve is a mean over pairs of records, whose noises are independent: the sign of the difference
    of two scores is undone for the noise of both, without a sum over all pairs. Precision, recall, f1, R2 and it are
    ratios of unbiased estimates: consistent, off by a multiple of 1/n, with standard errors by the delta method. Where
    the denominator is noisy, intervals are by the variance that there is at their ends (Fieller 1954).

    The value may lie outside the range of the metric, as unbiased estimates do.

    Few records may decide the standard error, as (sum v^2)^2/sum v^4 of their deviations v from the mean counts them:
    below 50 of them the interval is by Student's t with twice as many degrees of freedom (Satterthwaite 1946), as those
    of fits are. That of a share then reaches farther on the side of 1/2 (Wilson 1927), and that of another metric on
    the side of the long tail of the deviations (Hall 1992): where the estimate lies far on the other side, too few
    large ones were drawn, and the standard error is too small as well. A sample without the largest shows too little of
    that, so that mean losses and R2 reach as far as the tail of the deviations says, a generalized Pareto one (Zhang &
    Stephens 2009), from 100 records on. Where the noise of the release was estimated, the standard
    error has the error of that estimate in it, with theta as given.

    References
    ----------
    Dufraiche et al. 2026 (arXiv 2602.16436), Theorem 5.2; Nakamura 1990. Brier 1950. Hanley & McNeil 1982 (the area
    under the ROC curve). Efron & Stein 1981 (pseudo-values of means over pairs). Fieller 1954 (Journal of the Royal
    Statistical Society B 16). Hall 1992 (Journal of the Royal Statistical Society B 54).
    Zhang & Stephens 2009 (Technometrics 51).

    Examples
    --------
    >>> import numpy as np, symdebias as sd
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(20_000, 2))
    >>> y = np.where(rng.random(20_000) < 1 / (1 + np.exp(-X @ [2.0, -1.0])), 1, -1)
    >>> release = sd.Release(sd.GaussianMechanism.from_scale(0.5), sd.RandomizedResponse(epsilon=2.0))
    >>> noised = release.privatize(X, y, random_state=1)
    >>> accuracy = sd.evaluation.evaluate([2.0, -1.0], noised.X, noised.y, metric="accuracy", release=release)
    >>> truth = np.mean(y * (X @ [2.0, -1.0]) > 0)
    >>> bool(abs(accuracy.value - truth) < 4 * accuracy.standard_error), accuracy.method, accuracy.bias_is_certified
    (True, 'surrogate', False)
    """
    check_options(metric, radius, label_model, threshold)
    model, y = as_fitted(theta_or_fit, X, y)
    if model is not theta_or_fit:
        metric = in_labels_of(model, metric)
    records = checked_records(
        model, X, y, release,
        sample_weight=sample_weight, clusters=clusters, target_values=target_values, offset=offset,
        noise_scale=noise_scale,
    )  # fmt: skip
    return estimated_on(records, model, metric, radius=radius, label_model=label_model, threshold=threshold)


@one_thread()
def estimated_on(
    records: Records,
    theta_or_fit: Fit | ArrayLike,
    metric: str | Loss,
    *,
    radius: float | None,
    label_model: str,
    threshold: float,
) -> Estimate:
    """Return the estimate of a metric on checked records, with checked options."""
    theta = records.parameters(theta_or_fit, metric)

    def judge_of(records: Records) -> Metric:
        return corrected_metric(
            metric, records, [theta], radius=radius, label_model=label_model, threshold=float(threshold)
        )

    def value(release: Release) -> float:
        return judge_of(records.under(release)).judged(theta).value

    return with_noise_estimated(estimate_at(judge_of(records), theta), records.collected, value)


def check_options(metric: Any, radius: float | None, label_model: str, threshold: float = 0.0) -> None:
    """Raise ValueError where a metric or an option of it is not known."""
    if not isinstance(metric, Loss) and not is_choice(metric, METRICS):
        called = f" {called_here(metric)}".rstrip() if isinstance(metric, str) else ""
        if callable(metric) and hasattr(metric, "__name__"):
            called = f" A loss is called first: {metric.__name__}()."
        raise ValueError(
            f"metric={kind_or_value(metric)} is not known.{called} Choose one of {', '.join(METRICS)}, or pass a Loss."
        )
    if radius is not None:
        RADIUS.check("radius", radius)
    check_choice("label_model", label_model, _LABEL_MODELS)
    if _THRESHOLD.check("threshold", threshold) != 0 and (isinstance(metric, Loss) or metric not in WITH_THRESHOLD):
        raise ValueError(
            f"threshold={threshold!r} is a score that {', '.join(WITH_THRESHOLD)} compare scores with; the "
            f"metric {metric if isinstance(metric, str) else 'of a loss'} has none. Leave it out."
        )


def corrected_metric(
    metric: str | Loss,
    records: Records,
    thetas: Sequence[FloatArray],
    *,
    radius: float | None,
    label_model: str,
    threshold: float,
) -> Metric:
    """Return a metric, corrected for all thetas that are to be compared.

    Raises
    ------
    ValueError
        They have different numbers of scores.
    """
    counts = sorted({len(theta) if theta.ndim > 1 else 1 for theta in thetas})
    if len(counts) > 1:
        raise ValueError(
            f"candidates have models of {' and '.join(map(str, counts))} scores, and are compared by one metric of "
            "either. Compare those of one score, or those with a score for each class, among themselves."
        )
    if records.scales is not None and not isinstance(metric, Loss) and metric in OF_ORDER:
        raise NoExactCorrectionError(
            f"{metric} undoes a noise of the score that is one for all records, and these have noise scales of their "
            f"own. {OF_ONE_NOISE}"
        )
    # Of any kind of number.
    radius = None if radius is None else float(radius)
    if isinstance(metric, Loss):
        return mean_loss(metric.name or str(metric.expression), metric, records, thetas, radius=radius)
    if thetas[0].ndim > 1:
        if metric == "accuracy":
            return accuracy_of_classes(records, thetas, threshold=threshold)
        return mean_loss(metric, softmax_of(records, len(thetas[0])), records, thetas, radius=radius)
    if metric == "accuracy":
        return accuracy(records, thetas, radius=radius, label_model=label_model, threshold=threshold)
    if metric in RATES:
        return rate(metric, records, thetas, radius=radius, label_model=label_model, threshold=threshold)
    if metric == "roc_auc":
        return area_under_curve(records, thetas, radius=radius, label_model=label_model)
    if metric == "r2":
        name = "squared_error"
        return r_squared(records, mean_loss(name, named_loss(name, records), records, thetas, radius=radius))
    found = zonal_loss(metric, records, thetas) if metric in PARTS and records.scales is None else None
    return found or mean_loss(metric, named_loss(metric, records), records, thetas, radius=radius)


def at_one_noise(
    metric: str | Loss,
    records: Records,
    thetas: Mapping[str, Sequence[FloatArray]],
    *,
    radius: float | None,
    threshold: float,
) -> dict[str, list[FloatArray]]:
    """Return models of which a metric of signs or ranks says the same, with the same noise in their scores.

    Such a metric does not depend on the length of theta, and its surrogate does: one that is designed for the longest
    of several makes more errors of a shorter one, which are no property of that model. Other metrics and models of
    several scores are left as they are, and so are scores without noise and those with a declared range.

    Parameters
    ----------
    metric : str or Loss
        What is to be compared.
    records : Records
        Released records.
    thetas : mapping from str to sequence of arrays
        The models of each candidate.
    radius : float or None
        A bound on the scores, in their units.
    threshold : float
        Above which a score stands for the larger label: another one than 0 is in units of the score.
    """
    given = {name: list(fitted) for name, fitted in thetas.items()}
    every = [theta for fitted in given.values() for theta in fitted]
    is_of_order = not isinstance(metric, Loss) and metric in OF_ORDER and all(theta.ndim == 1 for theta in every)
    if not is_of_order or threshold != 0 or radius is not None:
        return given
    noises = {name: [ReleasedScores.of(records.light, theta).noise for theta in own] for name, own in given.items()}
    most = max(map(max, noises.values()))

    def moved(theta: FloatArray, noise: float) -> FloatArray:
        return theta * math.sqrt(most / noise) if noise > 0 else theta

    return {name: list(map(moved, fitted, noises[name])) for name, fitted in given.items()}


def estimate_at(metric: Metric, theta: FloatArray) -> Estimate:
    """Return the estimate of a metric at theta, by passes over all records.

    Raises
    ------
    DivergenceError
        A number of a record is not finite, or the bias is no number.
    """
    found = metric.judged(theta)
    clusters = found.sums.count_of_clusters
    law = metric.error_law(theta, found)
    bias = metric.bias(theta, found.sums)
    if math.isnan(bias[0]):
        raise DivergenceError(
            f"the bias of the corrected {metric.name} is not a number at these parameters: scores are too large. Use "
            "smaller parameters, or a metric that is exact under this noise."
        )
    made = Estimate(
        found.value, found.error, *bias, found.sums.records, metric.name, metric.method, clusters,
        without_both_labels=metric.without_both_labels(theta, found.value),
        with_other_labels=metric.with_other_labels([theta], found.value),
    )  # fmt: skip
    if metric.name in RATES:
        made = replace(made, with_other_labels=unseen_of_share(found.value, found.members))
    return under_law(made, law)


def estimate_of(
    metric: Metric, values: FloatArray, bias: float, certified: bool, *, thetas: Sequence[FloatArray] = (),
    carriers: float = math.inf,
) -> Estimate:  # fmt: skip
    """Return the estimate that numbers per record make, with a bound on its bias and whether it is certified.

    `thetas` are those that records are judged at, where the numbers are the metric and no differences; `carriers` is
    the fewest records, or clusters, that a part of them is a share of.
    """
    records = metric.records
    mean, error = records.mean_and_error(values)
    count, clusters = records.counts
    made = Estimate(mean, error, bias, certified, count, metric.name, metric.method, clusters)
    law = records.error_law(values, has_long_tails=metric.has_long_tails).carried_by(carriers)
    return under_law(made, metric.skewed(law, thetas) if thetas else law)


def under_law(found: Estimate, law: ErrorLaw) -> Estimate:
    """Return an estimate with what its error law says of intervals."""
    return replace(found, degrees_of_freedom=law.freedom, skewness=law.skewness, bending=law.bending)


def with_noise_estimated(found: Estimate, release: Release, value: Callable[[Release], float]) -> Estimate:
    """Return an estimate whose standard error has that of an estimated noise in it.

    Parameters
    ----------
    found : Estimate
        With the noise as estimated.
    release : Release
        The release.
    value : callable
        Returns what is estimated under a release with other noise.
    """
    variance, fourths = found.standard_error**2, 0.0
    if found.degrees_of_freedom is not None:
        fourths = variance**2 / found.degrees_of_freedom
    for one in moved_releases(release):
        added = ((value(one.more) - value(one.less)) / (2 * one.step)) ** 2 * one.variance
        variance, fourths = variance + added, fourths + added**2 / one.degrees_of_freedom
    if not fourths > 0:
        return found
    error = math.sqrt(variance)
    before = ErrorLaw(found.degrees_of_freedom, found.skewness, found.bending)
    # Satterthwaite's degrees of freedom of the sum.
    law = before.diluted(found.standard_error / error, variance**2 / fourths)
    return under_law(replace(found, standard_error=error), law)
