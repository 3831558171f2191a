"""Calibration: what a model predicts against what happens, over normal windows of true scores."""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from symdebias._arrays import FloatArray, target_array
from symdebias._blas import one_thread
from symdebias._domains import POSITIVE, Integer, check_choice, is_integer, kind_or_value
from symdebias.evaluation.error_law import with_added_variances
from symdebias.evaluation.estimate import LEAST_FREEDOM, LEAST_OVER_CLUSTERS, LEVEL, Estimate
from symdebias.evaluation.metric import LARGEST, Metric, unseen_of_share
from symdebias.evaluation.models import Model, as_fitted
from symdebias.evaluation.parts import checked_records
from symdebias.evaluation.ratios import positive_mean, ratio_of
from symdebias.evaluation.records import Records
from symdebias.evaluation.scores import ReleasedScores, Spread
from symdebias.evaluation.windows import NormalWindows, WaveWindows, Windows
from symdebias.exceptions import DivergenceError, NoExactCorrectionError
from symdebias.release import Release
from symdebias.solvers.fit import Fit
from symdebias.solvers.noise_estimates import added_variances

_LINKS = ("logistic", "identity", "exponential")
# The covariance of all of them is known at once.
_MOST_POINTS = 1_000
# In standard deviations of released scores, how wide windows are and how far out they may lie.
_FAR = 1e8


@dataclass(frozen=True)
class CalibrationCurve:
    """What a model predicts against what happens, smoothed over scores; made by `calibration_curve`.

    Attributes
    ----------
    scores : array of shape (k,), float64
        The middles of the windows, as scores.
    predicted, observed : array of shape (k,), float64
        The mean prediction and the mean target of true records in each window.
    predicted_standard_errors, observed_standard_errors : array of shape (k,), float64
        Their standard errors. NaN where the records in a window do not tell them: where nearly all of them have the
        same target, or too few carry the window or decide the standard error. Then `evaluate` has no interval either.
    difference_standard_errors : array of shape (k,), float64
        Those of observed - predicted, which come from the same records; NaN where those of `observed` are.
    bias : array of shape (k,), float64
        Estimated bounds on the bias of `predicted`: 0 where its correction is exact. `observed` has none.
    predicted_freedom, observed_freedom, difference_freedom : array of shape (k,), float64
        The degrees of freedom of the standard errors; infinite where these are as good as known, and 0 where all
        targets in a window are the same.
    predicted_skewness, observed_skewness, difference_skewness : array of shape (k,), float64
        Those of the estimates where few records or clusters decide them, and 0 otherwise; as `Estimate` has it.
    unseen : array of shape (k,), float64
        What a target may change `observed` by that no record in the window has, towards 1/2, at the level 0.95: 0 where
        targets are numbers.
    bandwidth : float
        c, the standard deviation of the normal window.
    score_variance : float
        s, the variance of all noise of the score.
    records : int
        The number of records with weight.
    of_labels : bool
        Whether targets are labels, counted as 0 and 1, and `observed` a share.
    clusters : int or None
        The number of clusters G that standard errors are over.

    Examples
    --------
    >>> import numpy as np
    >>> import symdebias as sd
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2_000, 1))
    >>> y = np.where(rng.random(2_000) < 1 / (1 + np.exp(-X[:, 0])), 1, -1)
    >>> noised = sd.Release(sd.GaussianMechanism.from_scale(0.5)).privatize(X, y, random_state=1)
    >>> curve = sd.evaluation.calibration_curve([1.0], noised.X, noised.y, release=noised.release, points=3)
    >>> curve.scores.shape, bool(np.all(np.diff(curve.predicted) > 0))
    ((3,), True)
    """

    scores: FloatArray
    predicted: FloatArray
    observed: FloatArray
    predicted_standard_errors: FloatArray
    observed_standard_errors: FloatArray
    difference_standard_errors: FloatArray
    bias: FloatArray
    predicted_freedom: FloatArray
    observed_freedom: FloatArray
    difference_freedom: FloatArray
    predicted_skewness: FloatArray
    observed_skewness: FloatArray
    difference_skewness: FloatArray
    unseen: FloatArray
    bandwidth: float
    score_variance: float
    records: int
    of_labels: bool
    clusters: int | None = None

    def confidence_intervals(self, level: float = 0.95) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return intervals of `predicted`, of `observed` and of observed - predicted, each by itself.

        They are as `Estimate.confidence_interval` has them: normal, or farther out where few records or clusters decide
        a standard error, and those with `predicted` are wider by the bound on the bias at both ends. No end of
        `observed` is nearer to 0 or 1 than a share of the records in the window may be that none of them shows: the
        other label may be that of records far off alone, which hardly weigh. Both ends are nan where the standard error
        is, and where an interval of a share would be refused.

        Parameters
        ----------
        level : float
            The level of each, in (0, 1).

        Returns
        -------
        three arrays of shape (k, 2), float64
            Lower and upper ends.
        """
        LEVEL.check("level", level)
        nothing = np.zeros(len(self.bias))
        predicted = self._intervals("predicted", self.predicted, self.bias, level, nothing)
        observed = self._intervals(
            "observed_share" if self.of_labels else "observed", self.observed, nothing, level, self.unseen
        )
        between = self._intervals("difference", self.observed - self.predicted, self.bias, level, self.unseen)
        return predicted, observed, between

    def _intervals(
        self, metric: str, values: FloatArray, bias: FloatArray, level: float, unseen: FloatArray
    ) -> FloatArray:
        of = metric.partition("_")[0]
        errors, freedoms = getattr(self, f"{of}_standard_errors"), getattr(self, f"{of}_freedom")
        skewness = getattr(self, f"{of}_skewness")
        found = np.full((len(values), 2), math.nan)
        for place in np.flatnonzero(np.isfinite(errors)).tolist():
            freedom = float(freedoms[place])
            one = Estimate(
                float(values[place]), float(errors[place]), float(bias[place]), False, self.records, metric, "",
                self.clusters, None if math.isinf(freedom) else freedom, float(skewness[place]),
                with_other_labels=float(unseen[place]),
            )  # fmt: skip
            found[place] = one.interval_or_none(level) or (math.nan, math.nan)
        return found

    def __str__(self) -> str:
        lines = [
            f"calibration over normal windows of width {self.bandwidth:.3g}, noise variance {self.score_variance:.3g} "
            f"of the score, {self.records:,} records",
            f"{'score':>10}{'predicted':>12}{'(se)':>10}{'observed':>12}{'(se)':>10}{'difference':>12}{'(se)':>10}",
        ]
        lines += [
            f"{score:>10.3f}{predicted:>12.4f}{first:>10.4f}{observed:>12.4f}{second:>10.4f}"
            f"{observed - predicted:>12.4f}{third:>10.4f}"
            for score, predicted, first, observed, second, third in zip(
                self.scores,
                self.predicted,
                self.predicted_standard_errors,
                self.observed,
                self.observed_standard_errors,
                self.difference_standard_errors,
                strict=True,
            )
        ]
        return "\n".join(lines)


def calibration_curve(
    theta_or_fit: Model,
    X: Any,
    y: Any,
    *,
    release: Release | None = None,
    points: int | Sequence[float] = 10,
    bandwidth: float | None = None,
    link: str = "logistic",
    sample_weight: Any = None,
    clusters: Any = None,
    target_values: Sequence[float] | None = None,
    offset: Any = None,
) -> CalibrationCurve:
    """Estimate what a model predicts against what happens, over windows of true scores, from released records.

    With phi_c the normal density of standard deviation c, at each score u0

        observed = E[y phi_c(u - u0)] / E[phi_c(u - u0)],   predicted = E[m(u) phi_c(u - u0)] / E[phi_c(u - u0)].

    Parameters
    ----------
    theta_or_fit, X, y, release, sample_weight, clusters, offset
        As for `evaluate`.
    points : int or sequence of float
        How many windows, at the quantiles (k - 1/2)/points of normal scores with the debiased mean and variance; or
        their scores u0. At most 1,000.
    bandwidth : float, optional
        c, with c^2 above the variance s0 of the normal noise of the score. By default c^2 = s0 + max(s, h^2), s the
        variance of all its noise and h the normal reference rule 1.06 sd n^(-1/5) for released scores: under normal
        noise c^2 - s is the window on these, and below s the variance of `predicted` grows fast.
    link : {"logistic", "identity", "exponential"}
        m(u), what the model predicts: a probability of the larger label, u, or exp(u).
    target_values : pair of float, optional
        The labels of the logistic link, counted as 0 and 1; as for `evaluate`.

    Returns
    -------
    CalibrationCurve
        Both curves with standard errors (delta method).

    Raises
    ------
    NoExactCorrectionError
        The noise of a column lets no wave of the score be undone, as that of a spherical cap does, or features and
        label were released in one vector.
    InferenceError
        The density of scores at a window is not told apart from 0.
    DivergenceError
        A prediction is not finite.
    TypeError, ValueError
        An argument or the data do not fit; the bandwidth is not above the noise.

    Notes
    -----
    W_s^-1 phi_c = phi_c', c'^2 = c^2 - s, and W_s^-1[e^{iwu} phi_c(u - u0)] is, with t = u - u0,
    e^{iw u0} phi_c'(t) exp(i w t c^2/c'^2 + w^2 c^2 s/(2 c'^2)). So numerators and denominator are exactly unbiased,
    but for the logistic function, which enters as the slope of a surrogate. Its bias is estimated in each window with
    normal scores.

    Under other noise a window is a sum of waves of one period, which holds all scores, and each wave is undone column
    by column: numerators and denominator are exactly unbiased, with the logistic function too, whose waves beyond those
    of the window fall like e^(-pi w). Where a part of the noise is normal these are cut where squared error and
    variance are least, and the bias says what is missing.

    Both curves are smoothed alike: where the model is calibrated they agree whatever c is. A window is no narrower than
    the noise of the score, so that miscalibration within it averages out.

    References
    ----------
    Stefanski & Carroll 1990 (deconvolution); Dufraiche et al. 2026 (arXiv 2602.16436), Section 4.

    Examples
    --------
    >>> import numpy as np, symdebias as sd
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(20_000, 2))
    >>> y = np.where(rng.random(20_000) < 1 / (1 + np.exp(-X @ [1.0, -1.0])), 1, -1)
    >>> release = sd.Release(sd.GaussianMechanism.from_scale(0.5))
    >>> noised = release.privatize(X, y, random_state=1)
    >>> curve = sd.evaluation.calibration_curve([1.0, -1.0], noised.X, noised.y, release=release, points=5)
    >>> error = (curve.observed - curve.predicted) / curve.difference_standard_errors
    >>> bool(np.abs(error).max() < 4)
    True
    """
    model, y = as_fitted(theta_or_fit, X, y)
    records = checked_records(
        model, X, y, release,
        sample_weight=sample_weight, clusters=clusters, target_values=target_values, offset=offset,
    )  # fmt: skip
    return calibration_curve_of(records, model, points=points, bandwidth=bandwidth, link=link)


@one_thread()
def calibration_curve_of(
    records: Records,
    theta_or_fit: Fit | ArrayLike,
    *,
    points: int | Sequence[float],
    bandwidth: float | None,
    link: str,
) -> CalibrationCurve:
    """Return the curve on checked records; arguments as for `calibration_curve`."""
    check_choice("link", link, _LINKS)
    if records.of_margins:
        raise NoExactCorrectionError(
            "calibration holds predictions against labels, and a margin release tells the score of y x and not that of "
            "x: no prediction is known. Evaluate a margin loss or accuracy, or release the label apart."
        )
    theta = records.parameters(theta_or_fit)
    found = _curve(records, theta, points, bandwidth, link)

    def curves(release: Release) -> FloatArray:
        other = _curve(records.under(release), theta, found.scores, found.bandwidth, link)
        return np.stack([other.predicted, other.observed, other.observed - other.predicted])

    kinds = ("predicted", "observed", "difference")
    before, freedom, skewness = (
        np.stack([getattr(found, f"{kind}_{of}") for kind in kinds])
        for of in ("standard_errors", "freedom", "skewness")
    )
    errors, freedom = with_added_variances(before, freedom, added_variances(records.collected, curves))
    skewness *= np.divide(before, errors, where=errors > 0, out=np.ones(errors.shape)) ** 3
    columns = {"standard_errors": errors, "freedom": freedom, "skewness": skewness}
    return replace(
        found, **{f"{kind}_{of}": own for of, rows in columns.items() for kind, own in zip(kinds, rows, strict=True)}
    )


def _curve(records: Records, theta: FloatArray, points: Any, bandwidth: float | None, link: str) -> CalibrationCurve:
    """Return the curve, with arguments as for `calibration_curve` and the noise taken as known."""
    scores = ReleasedScores.of(records, theta)
    if scores.zonal is not None:
        raise NoExactCorrectionError(
            "windows of scores are sums of waves, and under a spherical cap a point is no sum of a record and noise: "
            "polynomials of few degrees are all that is undone, and no window is close to one. Evaluate "
            'metric="brier" or "log_loss", or release with a GaussianMechanism.'
        )
    s, spread = scores.noise, Spread.of(records, theta)
    of_labels = link == "logistic"
    looked = functools.partial(_moments, theta=theta, middle=spread.mean, of_labels=of_labels)
    mean, second, *targets = records.means(looked).tolist()
    deviation = math.sqrt(max(second - mean**2, 0.0))
    if not deviation > 0:
        raise ValueError("all records have the same score. Calibration is over scores: use a model that has several.")
    if bandwidth is None:
        reference = 1.06 * deviation * records.effective ** (-1 / 5)
        bandwidth = math.sqrt(scores.normal + max(s, reference**2))
    bandwidth = POSITIVE.check("bandwidth", bandwidth)
    if not bandwidth <= _FAR * deviation:
        raise ValueError(
            f"bandwidth={bandwidth:g} is more than {_FAR:g} times the standard deviation {deviation:.3g} of released "
            "scores, and all windows of that width are one. Use a smaller one, or leave it out."
        )
    width = bandwidth**2
    if not width > scores.normal:
        raise ValueError(
            f"bandwidth={bandwidth:g} is not above the standard deviation {math.sqrt(scores.normal):.4g} of the "
            "score's normal noise, and no narrower window can be undone. Use a larger one, or leave it out."
        )
    middles = _middles(points, spread)
    if not np.abs(middles).max() <= abs(mean) + _FAR * deviation:
        raise ValueError(
            f"points has {middles[np.argmax(np.abs(middles))]:g}, which is more than {_FAR:g} standard deviations of "
            "released scores away from them. Give scores that records have."
        )
    windows: Windows
    if scores.others or scores.spherical or scores.categories:
        windows = WaveWindows.of(scores, spread, link, width, middles=middles, records=records.effective)
    else:
        windows = NormalWindows.of(
            scores, spread, link, width, middles=middles, records=records.effective, deviation=deviation
        )
    origin = 0.0 if of_labels else targets[0]
    judge = _Calibration(
        "calibration", "windows", records, theta, windows, middles, of_labels, origin, _target(records, of_labels)
    )
    sums, judged, unseen = judge.sums(theta), [], np.zeros(len(middles))
    count = sums.count_of_clusters or sums.records
    for place, middle in enumerate(middles):
        if not sums.high[3 * place] > 0:
            raise ValueError(
                f"no record has a released score near {middle:g}. Choose points where records lie, or a larger "
                "bandwidth."
            )
        density = positive_mean(sums, 3 * place, f"the density of scores near {middle:.4g}")
        predicted, observed = (ratio_of(sums, 3 * place + part, 3 * place, density) for part in (1, 2))
        if of_labels:
            # In a window are as many records as the square of their mean weight over the mean square is of all.
            of_density = np.zeros(len(sums.means))
            of_density[3 * place] = 1.0
            inside = 1 / ((sums.error(of_density) / density) ** 2 + 1 / count)
            unseen[place] = unseen_of_share(observed.value, inside)
        of = observed.of - predicted.of
        judged += [predicted, observed, replace(observed, error=sums.error(of), of=of)]
    laws = judge.error_laws(theta, sums, [one.of for one in judged])
    laws = [law.carried_by(one.carriers) for law, one in zip(laws, judged, strict=True)]
    errors = np.reshape([one.error for one in judged], (-1, 3)).T
    freedom = np.reshape([math.inf if law.freedom is None else law.freedom for law in laws], (-1, 3)).T
    skewness = np.reshape([law.skewness for law in laws], (-1, 3)).T
    # A model may well predict the same for all; targets that are all the same do not show how others would be.
    same = np.reshape([sums.is_rounding(one.of) for one in judged], (-1, 3)).T
    freedom[1:][same[1:]] = 0.0
    least = LEAST_FREEDOM if records.clusters is None else LEAST_OVER_CLUSTERS
    # A difference is as little told as its parts.
    untold = freedom < least
    freedom[2][untold.any(axis=0)] = freedom.min(axis=0)[untold.any(axis=0)]
    errors[freedom < least] = math.nan
    values = np.reshape([one.value for one in judged], (-1, 3)).T
    values[:2] += origin
    return CalibrationCurve(
        scores=middles,
        predicted=values[0],
        observed=values[1],
        predicted_standard_errors=errors[0],
        observed_standard_errors=errors[1],
        difference_standard_errors=errors[2],
        bias=np.array([windows.bias(middle) for middle in middles]),
        predicted_freedom=freedom[0],
        observed_freedom=freedom[1],
        difference_freedom=freedom[2],
        predicted_skewness=skewness[0],
        observed_skewness=skewness[1],
        difference_skewness=skewness[2],
        unseen=unseen,
        bandwidth=float(bandwidth),
        score_variance=s,
        records=sums.records,
        of_labels=of_labels,
        clusters=sums.count_of_clusters,
    )


@dataclass(frozen=True)
class _Calibration(Metric):
    """What both curves are made of.

    Attributes
    ----------
    theta : array of shape (q,), float64
        The parameters.
    windows : Windows
        The windows, on the scores of the records.
    middles : array of shape (k,), float64
        Their middles.
    of_labels : bool
        Whether targets are labels, counted as 0 and 1.
    origin : float
        What targets and predictions count from: squares of numbers far from 0 leave nothing of how these vary.
    target : array of shape (n,), float64
        Unbiased estimates of the targets.
    """

    theta: FloatArray
    windows: Windows
    middles: FloatArray
    of_labels: bool
    origin: float
    target: FloatArray

    def on(self, part: Records) -> Self:
        """Return the same of some other records."""
        windows = self.windows.on(ReleasedScores.of(part, self.theta))
        return replace(self, records=part, windows=windows, target=_target(part, self.of_labels))

    def values(self, theta: FloatArray, rows: Any) -> FloatArray:
        """Return unbiased estimates of the targets of some records."""
        return np.asarray(self.target[rows])

    def columns(self, theta: FloatArray, rows: Any) -> FloatArray:
        """Return for each middle the window, what is predicted in it, and the target in it, shape (m, 3 k).

        The last two are less the origin.
        """
        windows, found = self.windows.on(self.windows.scores.taken(rows)), []
        for middle in self.middles:
            window, prediction = windows.at(middle)
            if not np.all(np.abs(prediction) < LARGEST):
                raise DivergenceError(
                    f"what the model predicts near the score {middle:g} is beyond {LARGEST:g} or not finite with its "
                    "noise taken out. Use a larger bandwidth, or smaller parameters."
                )
            found += [window, prediction - self.origin * window, (self.target[rows] - self.origin) * window]
        return np.stack(found, axis=1)


def _target(records: Records, of_labels: bool) -> FloatArray:
    return np.asarray(records.positives() if of_labels else records.unbiased_target())


def _moments(part: Records, *, theta: FloatArray, middle: float, of_labels: bool) -> FloatArray:
    """Return distances of released scores from a number, their squares, and targets that are no labels."""
    away = ReleasedScores.of(part, theta).estimates - middle
    return np.stack([away, away**2] if of_labels else [away, away**2, _target(part, of_labels)], axis=1)


def _middles(points: Any, spread: Spread) -> FloatArray:
    """Return the middles of windows: at the quantiles of normal scores, or as given."""
    if is_integer(points):
        count = Integer(1, _MOST_POINTS).check("points", points)
        quantiles = ndtri((np.arange(count) + 0.5) / count)
        return np.asarray(spread.mean + math.sqrt(spread.variance) * quantiles, dtype=float)
    if isinstance(points, (str, bytes)) or not isinstance(points, (Sequence, np.ndarray)) or np.size(points) == 0:
        raise TypeError(
            f"points={kind_or_value(points)} is neither a number of windows nor a list of scores. Give one of them."
        )
    if np.ndim(points) == 0 or len(points) > _MOST_POINTS:
        size = f"the shape {np.shape(points)}" if np.ndim(points) == 0 else f"{len(points):,} scores"
        raise ValueError(f"points has {size}. Give a number of windows, or a list of up to {_MOST_POINTS:,} scores.")
    return target_array(np.asarray(points), rows=len(points)).copy()
