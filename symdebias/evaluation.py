"""Evaluation of a fitted model on released records: losses, accuracy, calibration and cross-validation.

The mean of a loss on noised records is not that of the true ones, and a model that is chosen by it is the wrong one.
Here every metric is a mean over released records of numbers whose mean over the noise is that of the true record: exact
where the metric allows it, and otherwise through a surrogate whose bias is stated and widens the intervals.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp
from numpy.typing import ArrayLike
from scipy.special import expit
from scipy.stats import norm

from symdebias._arrays import (
    check_same_index,
    cluster_codes,
    label_array,
    parameter_array,
    take_rows,
    target_array,
    weights_array,
)
from symdebias._domains import COUNT, POSITIVE, Integer, Interval, LabelSet
from symdebias._randomness import generator
from symdebias.codegen.numeric import numeric
from symdebias.corrected import CorrectedLoss
from symdebias.derivation.configurations import released_covariance, weights_of
from symdebias.driver import debias
from symdebias.exceptions import DivergenceError, NoExactCorrectionError, SymdebiasError
from symdebias.inference import critical_value
from symdebias.losses import Loss, catalogue
from symdebias.noise import FREQUENCY, AdditiveNoise, ChannelNoise
from symdebias.release import Release
from symdebias.solvers import Fit
from symdebias.transforms import surrogate, unbiased_weights

FloatArray = np.ndarray[Any, np.dtype[np.float64]]
IntegerArray = np.ndarray[Any, np.dtype[np.int64]]

_METRICS = ("log_loss", "squared_error", "poisson", "accuracy")
_LINKS = ("logistic", "identity", "exponential")
_LABEL_MODELS = ("any", "logistic")
_LEVEL = Interval(0.0, 1.0, "neither", "Give the level of the interval, such as 0.95.")
# The range of scores that a surrogate is designed for: at least so many standard deviations of the true score, and so
# many times the farthest released score, shrunk by the ratio of the standard deviations of true and released ones.
# Beyond its range a surrogate is wild where there is little noise, and one such record would carry the whole mean.
_RANGE, _FARTHEST = 2.5, 1.1
# A declared bound that is at most so many times as wide is taken as the range, because the bias is then certified for
# every record.
_WORTH = 1.5
# What the squared error of the sign counts beside the variance in its design. Most of it oscillates about zero and
# averages out over scores.
_SQUARED_ERROR = 0.03
# Waves of a surrogate of the sign, each of which is a pass over the records.
_MOST_WAVES = 400
# Combinations of categories and steps of a grid that a sign is summed over exactly.
_MOST_COMBINATIONS = 512
# Squares of larger numbers, summed over records, are on the way to overflow.
_LARGEST = 1e100
# Records that are looked at for all labels at a time.
_BLOCK = 4096
# Nodes of the mean over normal scores, and how many standard deviations they reach.
_NODES, _REACH = 4001, 8.0


# ---- results -----------------------------------------------------------------------------------------------


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
        taken as normal, or for accuracy as spread like the released ones.
    records : int
        The number of records.
    metric : str
        What was estimated.
    method : str
        How it was corrected.
    clusters : int or None
        The number of clusters G that the standard error is one over.
    """

    value: float
    standard_error: float
    bias: float
    bias_is_certified: bool
    records: int
    metric: str
    method: str
    clusters: int | None = None

    def confidence_interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return a confidence interval: normal, and wider by the bound on the bias at both ends.

        Over clusters it is by Student's t with G - 1 degrees of freedom.

        Parameters
        ----------
        level : float
            The level, in (0, 1).

        Returns
        -------
        tuple of two floats
            Its ends.
        """
        level = _LEVEL.check("level", level)
        half = critical_value(level, 0.0, None if self.clusters is None else self.clusters - 1)
        half = half * self.standard_error + self.bias
        return self.value - half, self.value + half

    def __str__(self) -> str:
        bias = "no bias"
        if self.bias > 0:
            bias = f"bias at most {self.bias:.2g} ({'certified' if self.bias_is_certified else 'estimated'})"
        return (
            f"{self.metric} {self.value:.6g}, standard error {self.standard_error:.2g}, {bias}; {self.method}, "
            f"{self.records:,} records"
        )


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
        Their standard errors.
    difference_standard_errors : array of shape (k,), float64
        Those of observed - predicted, which come from the same records.
    bias : array of shape (k,), float64
        Estimated bounds on the bias of `predicted`: 0 where its correction is exact. `observed` has none.
    bandwidth : float
        c, the standard deviation of the normal window.
    score_variance : float
        s, the noise variance of the score.
    records : int
        The number of records.
    """

    scores: FloatArray
    predicted: FloatArray
    observed: FloatArray
    predicted_standard_errors: FloatArray
    observed_standard_errors: FloatArray
    difference_standard_errors: FloatArray
    bias: FloatArray
    bandwidth: float
    score_variance: float
    records: int

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


@dataclass(frozen=True)
class CrossValidation:
    """Candidates compared on held-out released records; made by `cross_validate`.

    Attributes
    ----------
    estimates : mapping from str to Estimate
        The metric of each candidate over all held-out records, in the order given.
    differences : mapping from str to Estimate
        That of each candidate less that of the best, record by record: their noise is largely the same and cancels.
    fold_values : mapping from str to array of shape (folds,), float64
        The metric in each fold.
    refused : mapping from str to str
        Candidates without a result, each with its reason.
    metric : str
        What was estimated.
    higher_is_better : bool
        Whether the best has the largest value.
    """

    estimates: Mapping[str, Estimate]
    differences: Mapping[str, Estimate]
    fold_values: Mapping[str, FloatArray]
    refused: Mapping[str, str]
    metric: str
    higher_is_better: bool

    @property
    def best(self) -> str:
        """The candidate with the best estimate; the first one of equals."""
        sign = -1 if self.higher_is_better else 1
        return min(self.estimates, key=lambda name: sign * self.estimates[name].value)

    @property
    def one_standard_error(self) -> str:
        """The first candidate that differs from the best by at most one standard error of that difference.

        Give candidates from the simplest to the most complex. The standard error is that of the paired difference: that
        of a single value has the noise of the release in it, which all candidates share.
        """
        return next(
            name
            for name, difference in self.differences.items()
            if abs(difference.value) <= difference.standard_error or name == self.best
        )

    def __str__(self) -> str:
        width = max(9, *(len(name) for name in (*self.estimates, *self.refused)))
        lines = [f"{'':<{width}}{self.metric:>16}{'(se)':>11}{'to the best':>14}{'(se)':>11}"]
        for name, estimate in self.estimates.items():
            difference = self.differences[name]
            mark = "  <- best" if name == self.best else ""
            mark += "  <- within one standard error" if name == self.one_standard_error != self.best else ""
            lines.append(
                f"{name:<{width}}{estimate.value:>16.6g}{estimate.standard_error:>11.2g}{difference.value:>14.4g}"
                f"{difference.standard_error:>11.2g}{mark}"
            )
        lines += [f"{name:<{width}}  refused: {reason}" for name, reason in self.refused.items()]
        return "\n".join(lines)


# ---- scores of released records ----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Category:
    """A column of categories in the score: codes of records, the score's part by category, what undoes the channel."""

    codes: IntegerArray
    values: FloatArray
    weights: FloatArray


@dataclass(frozen=True)
class _Scores:
    """Released scores at theta, with what undoes the noise of functions of them.

    Attributes
    ----------
    linear : array of shape (n,), float64
        The score of all columns but those of categories.
    normal : float
        s, the variance of the normal noise in it.
    others : tuple of (AdditiveNoise, float)
        The other additive noises in it, each with the parameter of its column.
    categories : tuple of _Category
        The columns of categories.
    noise : float
        The noise variance of `estimates` over the noise of all columns.
    additive : float
        That over the additive noises alone.
    bound : float
        The largest absolute true score within the declared bounds, infinite where a column in the score has none.
    """

    linear: FloatArray
    normal: float
    others: tuple[tuple[AdditiveNoise, float], ...]
    categories: tuple[_Category, ...]
    noise: float
    additive: float
    bound: float

    @property
    def estimates(self) -> FloatArray:
        """Unbiased estimates of the true scores."""
        total = self.linear.copy()
        for column in self.categories:
            total += (column.weights @ column.values)[column.codes]
        return total

    @property
    def squares(self) -> FloatArray:
        """Unbiased estimates of the squares of the true scores."""
        total: FloatArray = self.estimates**2 - self.additive
        for column in self.categories:
            # The square of an estimate is no estimate of the square.
            estimates = column.weights @ column.values
            total += (column.weights @ column.values**2 - estimates**2)[column.codes]
        return total

    def waves(self, frequency: float, count: int) -> Iterator[np.ndarray[Any, np.dtype[np.complex128]]]:
        """Yield unbiased estimates of exp(i k h u), k = 1 to count, at true scores u, each of shape (n,).

        Each column's noise is undone by itself: a normal or other additive one by its characteristic function, a
        channel by its inverse.
        """
        step = np.exp(1j * frequency * self.linear)
        w = frequency * np.arange(1, count + 1)
        factors = np.exp(self.normal * w**2 / 2)
        for noise, parameter in self.others:
            factors = factors * numeric(1 / noise.characteristic_function, (FREQUENCY,))(w * parameter)
        power = np.ones_like(step)
        for place in range(count):
            power = power * step
            wave = power * factors[place]
            for column in self.categories:
                wave = wave * (column.weights @ np.exp(1j * w[place] * column.values))[column.codes]
            yield wave

    def slope(self, found: surrogate.Surrogate) -> FloatArray:
        """Return unbiased estimates of the slope of a surrogate at true scores."""
        _, c1, c2 = found.polynomial
        total: FloatArray = c1 + 2 * c2 * self.estimates
        waves = self.waves(found.frequency, len(found.cosines))
        for k, (wave, a, b) in enumerate(zip(waves, found.cosines, found.sines, strict=True), start=1):
            total += k * found.frequency * (b * wave.real - a * wave.imag)
        return total

    @property
    def has_exact_signs(self) -> bool:
        """Whether `signs` exists: all noise in the score is that of channels or on a grid, in few combinations."""
        steps = [len(noise.inverse_differences or ()) for noise, _ in self.others]
        sizes = [len(column.values) for column in self.categories]
        return self.normal == 0 and 0 < math.prod(steps) * math.prod(sizes) <= _MOST_COMBINATIONS

    def signs(self) -> FloatArray:
        """Return exactly unbiased estimates of the signs of true scores.

        Channels and noise on a grid are undone by signed sums over finitely many shifts, which need no smoothness.
        """
        shifts = [
            [(offset * parameter, weight) for offset, weight in noise.inverse_differences or ()]
            for noise, parameter in self.others
        ]
        sizes = [len(column.values) for column in self.categories]
        total = np.zeros(len(self.linear))
        for choice in itertools.product(*map(range, sizes)):
            for moved in itertools.product(*shifts):
                at = self.linear + sum(offset for offset, _ in moved)
                weight = np.full(len(at), float(math.prod(factor for _, factor in moved)))
                size = np.abs(self.linear) + sum(abs(offset) for offset, _ in moved)
                for column, category in zip(self.categories, choice, strict=True):
                    at = at + column.values[category]
                    size = size + abs(column.values[category])
                    weight *= column.weights[column.codes, category]
                # A score of 0 in exact arithmetic is not to be decided by rounding.
                total += weight * np.where(np.abs(at) <= 1e-13 * size, 0.0, np.sign(at))
        return total

    def require_waves(self, what: str) -> None:
        """Raise where a wave in the score has no inverse under the noise of a column."""
        for noise, _ in self.others:
            if noise.inverse_polynomial is None and noise.inverse_differences is None:
                raise NoExactCorrectionError(
                    f"{what} needs waves of the score, and the characteristic function {noise.characteristic_function} "
                    "of a column's noise has zeros, at which no wave can be undone. Release the column with a "
                    "GaussianMechanism, a LaplaceMechanism or a DiscreteLaplaceMechanism."
                )


def _scores(release: Release, theta: FloatArray, X: Any) -> _Scores:
    matrix = release.design_matrix(X)
    columns = matrix.shape[1]
    design = release.design(columns)
    covariance = design.covariance.copy()
    np.fill_diagonal(covariance, release.feature_variances(columns))
    linear = np.full(len(matrix), theta[-1] if design.intercept else 0.0)
    known = linear.copy()
    places = [part.column for part in design.linear]
    at = theta[[part.parameter for part in design.linear]]
    linear += matrix[:, places] @ at
    bound = 0.0
    others: list[tuple[AdditiveNoise, float]] = []
    for part, parameter in zip(design.linear, at, strict=True):
        if part.noise is None:
            known += matrix[:, part.column] * parameter
        elif not part.noise.is_gaussian and parameter != 0:
            others.append((part.noise, float(parameter)))
    for group, (_, mechanism) in enumerate(release.groups):
        own = at[[part.group == group for part in design.linear]]
        if own.any():
            bound += math.inf if mechanism.bound is None else float(np.linalg.norm(own)) * mechanism.bound
    categories = []
    for column in design.categorical:
        values = np.array([sum(theta[place] * value for place, value in entries) for entries in column.entries])
        if values.any():
            categories.append(_Category(matrix[:, column.column].astype(np.int64), values, weights_of(column)))
            bound += float(np.abs(values).max())
    return _Scores(
        linear=linear,
        normal=float(at @ design.covariance[np.ix_(places, places)] @ at),
        others=tuple(others),
        categories=tuple(categories),
        noise=max(0.0, float(theta @ released_covariance(design, covariance) @ theta)),
        additive=float(at @ covariance[np.ix_(places, places)] @ at),
        bound=float(np.abs(known).max()) + bound,
    )


@dataclass(frozen=True)
class _Spread:
    """Where true scores (true residuals) lie, as far as released records tell.

    Attributes
    ----------
    mean, variance : float
        Of the true scores; the variance plus two standard errors, since a range too small costs bias and one too large
        only variance.
    noise : float
        The noise variance of the score.
    farthest : float
        The largest distance of a released one from the mean.
    bound : float
        The declared bound on its absolute value.
    """

    mean: float
    variance: float
    noise: float
    farthest: float
    bound: float

    @property
    def radius(self) -> float:
        """The range for a surrogate."""
        shrunk = math.sqrt(self.variance / (self.variance + self.noise)) if self.noise > 0 else 1.0
        usual = abs(self.mean) + max(_RANGE * math.sqrt(self.variance), _FARTHEST * shrunk * self.farthest, 1e-3)
        return self.bound if 0 < self.bound <= _WORTH * usual else usual

    def mean_outside(self, radius: float, function: Callable[[FloatArray], FloatArray]) -> float:
        """Return the mean of a function over normal scores beyond a radius, and 0 within it."""
        scores, chances = self.normal_scores()
        outside = np.abs(scores) > radius
        return float(chances[outside] @ function(scores[outside])) if outside.any() else 0.0

    def normal_scores(self) -> tuple[FloatArray, FloatArray]:
        """Return nodes and weights of the mean over normal scores of this mean and variance."""
        nodes = np.linspace(-_REACH, _REACH, _NODES)
        chances = np.exp(-(nodes**2) / 2)
        scores: FloatArray = self.mean + math.sqrt(self.variance) * nodes
        return scores, chances / chances.sum()


def _spread(
    scores: _Scores, weights: FloatArray, *, residual: FloatArray | None = None, extra: float = 0.0, reach: float = 0.0
) -> _Spread:
    """Return the spread of the true scores, or of the true residuals of released targets with noise variance `extra`.

    `reach` is the bound on the absolute value of the true target.
    """
    share = weights / weights.sum()
    first, second = scores.estimates, scores.squares
    if residual is not None:
        second = second - 2 * first * residual + residual**2 - extra
        first = first - residual
    mean = float(share @ first)
    # The influence of a record on second moment - mean^2.
    influence = second - 2 * mean * first
    variance = float(share @ second) - mean**2
    error = math.sqrt(float(share**2 @ (influence - share @ influence) ** 2))
    farthest = float(np.abs(first - mean).max())
    return _Spread(mean, max(variance, 0.0) + 2 * error, scores.noise, farthest, scores.bound + reach)


# ---- what a metric is ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Records:
    """Released records and how they are to be looked at."""

    release: Release
    X: Any
    y: Any
    weights: FloatArray
    clusters: IntegerArray | None

    @property
    def effective(self) -> float:
        """(sum w)^2/(sum w^2), the sample size."""
        return float(self.weights.sum()) ** 2 / float(self.weights @ self.weights)

    def estimate(
        self, values: FloatArray, *, metric: str, method: str, bias: float = 0.0, certified: bool = True
    ) -> Estimate:
        """Return the mean of numbers per record with its standard error over records, or over clusters."""
        mean, error = _mean_and_error(values, self.weights, self.clusters)
        count = None if self.clusters is None else int(self.clusters.max()) + 1
        return Estimate(mean, error, bias, certified, len(values), metric, method, count)


def _mean_and_error(values: FloatArray, weights: FloatArray, clusters: IntegerArray | None) -> tuple[float, float]:
    total = float(weights.sum())
    mean = float(weights @ values) / total
    parts: FloatArray = weights * (values - mean)
    if clusters is not None:
        parts = np.bincount(clusters, parts).astype(np.float64)
    count = len(parts)
    return mean, math.sqrt(count / (count - 1) * float(parts @ parts)) / total


@dataclass(frozen=True)
class _Metric:
    """A metric, corrected for all parameters that are to be compared.

    Attributes
    ----------
    name, method : str
        What it is, and how it is corrected.
    higher_is_better : bool
        Whether large values are good.
    values : callable
        Of parameters, X and y: numbers per record, whose mean over the noise is the metric's of the true record.
    bias : callable
        Of parameters: a bound on the bias, and whether it is certified.
    common_bias : float
        How much of that bound is for a bias that is the same for all parameters, and cancels in differences.
    """

    name: str
    method: str
    higher_is_better: bool
    values: Callable[[FloatArray, Any, Any], FloatArray]
    bias: Callable[[FloatArray], tuple[float, bool]]
    common_bias: float = 0.0


def _finite(values: FloatArray, metric: str) -> FloatArray:
    bad = ~(np.abs(values) < _LARGEST)
    if bad.any():
        raise DivergenceError(
            f"the corrected {metric} of record {int(np.argmax(bad))} is beyond {_LARGEST:g} or not finite at these "
            "parameters: its score is too large. Use smaller parameters, or a metric that grows less."
        )
    return values


def _no_bias(_: FloatArray) -> tuple[float, bool]:
    return 0.0, True


def _metric(
    metric: str | Loss,
    records: _Records,
    candidates: Sequence[FloatArray],
    *,
    target_values: tuple[float, float] | None,
    radius: float | None,
    label_model: str,
) -> _Metric:
    if isinstance(metric, Loss):
        name = metric.name or str(metric.expression)
        return _loss_metric(name, metric, records, candidates, radius=radius)
    if metric == "accuracy":
        labels = _labels(records.release, target_values)
        return _accuracy(records, candidates, labels, radius=radius, label_model=label_model)
    return _loss_metric(metric, _named_loss(metric, records.release, target_values), records, candidates, radius=radius)


def _named_loss(metric: str, release: Release, target_values: tuple[float, float] | None) -> Loss:
    u, y = sp.symbols("u y", real=True)
    noise = release.target_noise
    values = noise.inputs if isinstance(noise, ChannelNoise) else None
    if metric == "log_loss":
        low, high = _labels(release, target_values)
        if (low, high) == (-1.0, 1.0):
            return catalogue.logistic()
        first, second = (sp.nsimplify(value, rational=True) for value in (low, high))
        share = (y - first) / (second - first)
        return Loss(sp.log(1 + sp.exp(u)) - share * u, score=u, target=y, target_values=(low, high), name="logistic")
    expression = (u - y) ** 2 if metric == "squared_error" else sp.exp(u) - y * u
    return Loss(expression, score=u, target=y, target_values=values, name=metric)


def _labels(release: Release, declared: tuple[float, float] | None) -> tuple[float, float]:
    """Return the two values of the target: what the release says, then what was declared, then -1 and +1."""
    noise = release.target_noise
    if not isinstance(noise, ChannelNoise):
        return (-1.0, 1.0) if declared is None else declared
    values = tuple(sorted(noise.inputs))
    if len(values) != 2:
        raise ValueError(
            f"the target has {len(values)} values, and accuracy, log loss and calibration are those of two labels. "
            "Evaluate a Loss of the scores of the classes."
        )
    if declared is not None and declared != values:
        raise ValueError(
            f"target_values={declared} are not the labels {values} of the release. Leave target_values out."
        )
    return values[0], values[1]


def _signed_labels(release: Release, y: Any, rows: int, labels: tuple[float, float]) -> FloatArray:
    """Return unbiased estimates of the true labels as -1 and +1."""
    low, high = labels
    noise = release.target_noise
    target = release.released_target(y, rows=rows)
    if isinstance(noise, ChannelNoise):
        label_array(target, noise.outputs, rows=rows)
        weights, obstacles = unbiased_weights(noise)
        if len(obstacles):
            raise NoExactCorrectionError(
                "the channel of the target does not tell its two labels apart, and no function of the released label "
                "is unbiased. Release labels with a channel of full rank."
            )
        signs = weights @ np.where(np.array(noise.inputs) == high, 1.0, -1.0)
        known = np.array(noise.outputs)
        order = np.argsort(known)
        found: FloatArray = signs[order[np.searchsorted(known, target, sorter=order)]]
        return found
    if noise is None:
        label_array(target, labels, rows=rows)
    # Additive noise of mean 0 leaves the estimate unbiased.
    scaled: FloatArray = (2 * target - low - high) / (high - low)
    return scaled


def _loss_metric(
    name: str, loss: Loss, records: _Records, candidates: Sequence[FloatArray], *, radius: float | None
) -> _Metric:
    release = records.release
    try:
        parts = debias(loss, release, method="surrogate").surrogate_parts
    except NoExactCorrectionError:
        parts = None  # it is exact, or the driver says why it cannot be corrected
    settings: dict[str, float] = {}
    spreads: dict[bytes, _Spread] = {}
    if parts is not None and loss.scores:
        extra = reach = 0.0
        residual = None
        if parts.is_residual:
            residual = release.released_target(records.y, rows=len(records.weights))
            extra = 0.0 if release.target_noise is None else release.target_noise.variance  # type: ignore[union-attr]
            declared = release.target_radius
            reach = float(np.abs(residual).max()) if extra == 0 else math.inf if declared is None else declared
        for theta in candidates:
            scores = _scores(release, theta, records.X)
            spreads[theta.tobytes()] = _spread(scores, records.weights, residual=residual, extra=extra, reach=reach)
        settings = {
            "radius": max(spread.radius for spread in spreads.values()) if radius is None else radius,
            "score_variance": max(spread.noise for spread in spreads.values()),
            "n": max(1.0, records.effective),
        }
    corrected = _corrected(loss, release, settings)
    if not corrected.is_resolved:
        raise NoExactCorrectionError(
            f"{loss.expression} is corrected by a surrogate, whose range of scores cannot be told for a free-form "
            "loss. Declare it in its score."
        )

    def values(theta: FloatArray, X: Any, y: Any) -> FloatArray:
        checked = corrected.records(X, y)
        checked.correction.require_within_limits(theta.ravel(), finite_variance=True)
        return checked.losses(checked.correction.flat(theta))

    def bias(theta: FloatArray) -> tuple[float, bool]:
        return _surrogate_bias(corrected, records, spreads[theta.tobytes()], promised=radius is not None)

    if corrected.is_exact:
        offset = corrected.loss_offset
        return _Metric(name, corrected.method, False, values, lambda _: (offset, True), common_bias=offset)
    if corrected.label_mixing is not None:
        return _Metric(name, corrected.method, False, values, lambda theta: _hidden_bias(corrected, records, theta))
    return _Metric(name, corrected.method, False, values, bias)


def _hidden_bias(corrected: CorrectedLoss, records: _Records, theta: FloatArray) -> tuple[float, bool]:
    """Return a bound on the bias of the nearest loss in the range of a channel: the worst label at each score.

    It is certified where scores are released as they are. Elsewhere released scores, which lie further out, stand for
    true ones.
    """
    loss, mixing = corrected.declared, corrected.label_mixing
    assert mixing is not None
    assert loss.target_values is not None
    if len(loss.scores) != 1:
        raise NoExactCorrectionError(
            f"a channel hides {loss.expression}, and how far the nearest loss in its range is off is bounded for "
            "losses of one score. Evaluate one that is affine in the target."
        )
    scores = _scores(records.release, theta, records.X)
    labels = np.array(loss.target_values)
    function = numeric(loss.expression, (loss.scores[0], loss.target))
    worst = np.empty(len(records.weights))
    for start in range(0, len(worst), _BLOCK):
        rows = slice(start, start + _BLOCK)
        at = function(scores.estimates[rows, None], labels[None, :])
        worst[rows] = np.abs(at @ mixing.T - at).max(axis=1)
    return float(records.weights @ worst / records.weights.sum()), scores.noise == 0


def _corrected(loss: Loss, release: Release, settings: dict[str, float]) -> CorrectedLoss:
    if settings.get("score_variance") == 0:
        # Without noise in the score there is no variance to weigh against exactness.
        try:
            return debias(loss, release, method="exact")
        except NoExactCorrectionError:
            pass
    return debias(loss, release, **settings)  # type: ignore[arg-type]


def _surrogate_bias(
    corrected: CorrectedLoss, records: _Records, spread: _Spread, *, promised: bool
) -> tuple[float, bool]:
    """Return the bound on the bias of a mean loss, and whether it is certified.

    Within the range it is the largest error; beyond it, where scores are not bounded, the mean error over normal scores
    is added.
    """
    design, parts = corrected.design, corrected.surrogate_parts
    assert design is not None
    certified = promised or spread.bound <= design.radius
    if parts.is_residual:
        targets = [0.0]
    elif corrected.declared.target_values is not None:
        targets = list(corrected.declared.target_values)
    else:
        # The error is affine in the target, whose size is known as far as released targets tell.
        target = corrected.records(records.X, records.y).target
        size = math.sqrt(float(records.weights @ target**2) / float(records.weights.sum()))
        targets = [-size, size]
        certified = certified and all(part.multiplier.is_number for part in parts.replaced)
    worst, _ = parts.worst_errors(design, design.radius, targets)
    if certified:
        return worst, True

    def error(scores: FloatArray) -> FloatArray:
        found = [np.abs(parts.errors(design, scores, np.full(len(scores), target))[0]) for target in targets]
        largest: FloatArray = np.max(found, axis=0)
        return largest

    return worst + spread.mean_outside(design.radius, error), False


# |u|, whose slope is the sign.
_ABSOLUTE = surrogate.Part(np.abs, np.sign, odd=False)


def _accuracy(
    records: _Records,
    candidates: Sequence[FloatArray],
    labels: tuple[float, float],
    *,
    radius: float | None,
    label_model: str,
) -> _Metric:
    release = records.release
    every = [_scores(release, theta, records.X) for theta in candidates]
    if all(scores.has_exact_signs for scores in every):

        def exactly(theta: FloatArray, X: Any, y: Any) -> FloatArray:
            signs = _scores(release, theta, X).signs()
            found: FloatArray = 0.5 + 0.5 * _signed_labels(release, y, len(signs), labels) * signs
            return found

        return _Metric("accuracy", "exact", True, exactly, _no_bias)
    for scores in every:
        scores.require_waves("accuracy")
    spreads = [_spread(scores, records.weights) for scores in every]
    unit = _unit(every)
    found = _sign_surrogate(
        max(spread.radius for spread in spreads) if radius is None else radius,
        max(spread.noise for spread in spreads),
        _SQUARED_ERROR * records.effective,
        unit,
    )

    def values(theta: FloatArray, X: Any, y: Any) -> FloatArray:
        slopes = _scores(release, theta, X).slope(found)
        products: FloatArray = 0.5 + 0.5 * _signed_labels(release, y, len(slopes), labels) * slopes
        return products

    by_theta = {theta.tobytes(): place for place, theta in enumerate(candidates)}

    def bias(theta: FloatArray) -> tuple[float, bool]:
        place = by_theta[theta.tobytes()]
        nodes = _likely_scores(every[place], spreads[place], records.weights)
        errors = (found.slope(nodes) - np.sign(nodes)) / 2
        if label_model == "any":
            return float(np.mean(np.abs(errors))), False
        signs = _signed_labels(release, records.y, len(records.weights), labels)
        share = records.weights / records.weights.sum()
        smooth = _smoothed(found, spreads[place].noise)
        wanted = np.array([share @ signs, share @ (signs * every[place].slope(smooth))])
        expected = _logistic_labels(nodes / unit, smooth.slope(nodes), wanted)
        return abs(float(np.mean(errors * expected))), False

    return _Metric("accuracy", "surrogate", True, values, bias)


def _unit(every: Sequence[_Scores]) -> float:
    """Return half the scale of released scores, by their median: resolution about 0 must not hang on the tails."""
    sizes = np.concatenate([np.abs(scores.estimates) for scores in every])
    scale = float(np.median(sizes)) / 1.35
    if scale == 0:
        scale = float(np.mean(sizes))
    return scale if scale > 0 else 1.0


def _sign_surrogate(radius: float, noise: float, records: float, unit: float) -> surrogate.Surrogate:
    """Return a surrogate of abs(u) for a range, with as many waves as the finest detail that the noise allows needs.

    A fixed number of waves over the range of far scores is coarse where most scores are. It would be off by what the
    farthest record of a sample happens to be, an error that no standard error over records holds.
    """
    records = max(1.0, records)
    count = surrogate.waves_needed(radius / unit, noise / unit**2, records)
    if count > _MOST_WAVES:
        raise NoExactCorrectionError(
            f"scores reach {radius / unit / 2:,.0f} times their usual size, and a sign over that range takes {count:,} "
            f"waves; at most {_MOST_WAVES} are summed. Clip the features at the release, give radius= where scores "
            "are bounded, or evaluate another metric."
        )
    (found,) = surrogate.design(
        [_ABSOLUTE], radius=radius / unit, score_variance=noise / unit**2, records=records, waves=count
    ).surrogates
    constant, linear, square = found.polynomial
    return surrogate.Surrogate(
        found.frequency / unit,
        (constant * unit, linear, square / unit),
        tuple(unit * value for value in found.cosines),
        tuple(unit * value for value in found.sines),
    )


def _smoothed(found: surrogate.Surrogate, variance: float) -> surrogate.Surrogate:
    """Return a surrogate averaged over normal shifts of the score, but for a constant."""
    frequencies = found.frequency * np.arange(1, len(found.cosines) + 1)
    damped = np.exp(-variance * frequencies**2 / 2)
    cosines, sines = damped * np.array(found.cosines), damped * np.array(found.sines)
    return surrogate.Surrogate(found.frequency, found.polynomial, tuple(cosines), tuple(sines))


def _likely_scores(scores: _Scores, spread: _Spread, weights: FloatArray) -> FloatArray:
    """Return scores that stand for true ones, equally likely: released ones, drawn in to the debiased variance."""
    released = scores.estimates
    order = np.argsort(released)
    shares = (np.cumsum(weights[order]) - weights[order] / 2) / weights.sum()
    nodes = np.interp((np.arange(_NODES) + 0.5) / _NODES, shares, released[order])
    shrunk = math.sqrt(spread.variance / (spread.variance + spread.noise)) if spread.noise > 0 else 1.0
    found: FloatArray = spread.mean + (nodes - spread.mean) * shrunk
    return found


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
    found: FloatArray = np.tanh(parameters @ basis / 2)
    return found


# ---- arguments -----------------------------------------------------------------------------------------------


def _release_of(theta_or_fit: Any, release: Release | None) -> Release:
    if release is None and isinstance(theta_or_fit, Fit):
        return theta_or_fit.corrected.release
    if release is None:
        raise ValueError(
            "parameters alone do not say how the records were noised. Pass release=, a Fit, or release=sd.Release() "
            "for records that are true."
        )
    if not isinstance(release, Release):
        raise TypeError(f"release must be a symdebias.Release; got {type(release).__name__}.")
    return release


def _records(release: Release, X: Any, y: Any, sample_weight: Any, clusters: Any) -> _Records:
    check_same_index(X, y, sample_weight=sample_weight, clusters=clusters)
    rows = len(release.design_matrix(X))
    if rows < 2:
        raise ValueError("one record has no standard error. Evaluate on two records or more.")
    weights = np.ones(rows) if sample_weight is None else weights_array(sample_weight, rows=rows)
    release.released_target(y, rows=rows)
    codes = None if clusters is None else cluster_codes(clusters, rows=rows)
    return _Records(release, X, y, weights, codes)


def _parameters(theta_or_fit: Any, release: Release, X: Any, loss: Loss | None) -> FloatArray:
    theta = theta_or_fit.theta if isinstance(theta_or_fit, Fit) else theta_or_fit
    if loss is not None and not loss.scores:
        return np.array(parameter_array(theta, len(loss.parameters)))
    columns = release.design_matrix(X).shape[1]
    scores = 1 if loss is None else len(loss.scores)
    return np.array(parameter_array(theta, len(release.design(columns).parameters), scores))


def _checked_metric(metric: Any) -> str | Loss:
    if isinstance(metric, Loss) or metric in _METRICS:
        return metric  # type: ignore[no-any-return]
    raise ValueError(f"metric={metric!r:.60} is not known. Choose one of {', '.join(_METRICS)}, or pass a Loss.")


def _checked_values(target_values: Any, theta_or_fit: Any) -> tuple[float, float] | None:
    if target_values is not None:
        low, high = LabelSet.declare("target_values", target_values, count=2).values
        return low, high
    declared = theta_or_fit.corrected.declared.target_values if isinstance(theta_or_fit, Fit) else None
    return (declared[0], declared[1]) if declared is not None and len(declared) == 2 else None


def _checked_options(radius: float | None, label_model: str) -> None:
    if radius is not None:
        POSITIVE.check("radius", radius)
    if label_model not in _LABEL_MODELS:
        raise ValueError(f'label_model={label_model!r:.60} is not known. Choose "any" or "logistic".')


# ---- evaluate ------------------------------------------------------------------------------------------------


def evaluate(
    theta_or_fit: Fit | ArrayLike,
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
) -> Estimate:
    """Estimate a metric of a model on true records from released ones.

    Parameters
    ----------
    theta_or_fit : Fit or array of shape (q,) or (K, q)
        The model: what a solver returned, or parameters with the intercept last.
    X : array of shape (n, p) or table
        Released records, n >= 2: others than the model was fitted to, or the value flatters it.
    y : array of shape (n,)
        Released targets.
    metric : {"log_loss", "squared_error", "poisson", "accuracy"} or Loss
        ``"log_loss"`` is the mean of log(1 + exp(-y u)), ``"squared_error"`` of (y - u)^2, ``"poisson"`` of
        exp(u) - y u, and ``"accuracy"`` the share of y u > 0, a score of 0 counting half. A `Loss` is taken as it is.
    release : Release, optional
        How the records were noised; that of a Fit by default. ``Release()`` says that they are true.
    sample_weight : array of shape (n,), optional
        Non-negative weights of the records.
    clusters : array of shape (n,), optional
        Which records belong to the same person: the standard error is that over clusters.
    target_values : pair of float, optional
        The labels, for ``"log_loss"`` and ``"accuracy"``. By default those of the release, of the loss that was fitted,
        or -1 and +1.
    radius : float, optional
        A public bound on the absolute true score (residual, for a residual loss), positive: the surrogate is designed
        for it, and its bias is certified for scores within it. By default it holds the true scores as far as the
        released ones tell, or it is the bound that the release declares where that is at most half as wide again.
    label_model : {"any", "logistic"}
        What the bound on the bias of ``"accuracy"`` assumes of labels given the score: nothing, or a logistic
        probability with the debiased means of y and of y times a smoothed sign of u. The second is much smaller.

    Returns
    -------
    Estimate
        The value with its standard error and its bias.

    Raises
    ------
    NoExactCorrectionError, InfiniteVarianceError
        The metric has no correction under this noise, or none of finite variance at these parameters.
    DivergenceError
        A record's corrected metric is not finite.
    TypeError, ValueError
        An argument or the data do not fit.

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

    The value may lie outside the range of the metric, as unbiased estimates do.

    References
    ----------
    Dufraiche et al. 2026 (arXiv 2602.16436), Theorem 4.3; Nakamura 1990.

    Examples
    --------
    >>> import numpy as np, symdebias as sd
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(20_000, 2))
    >>> y = np.where(rng.random(20_000) < 1 / (1 + np.exp(-X @ [2.0, -1.0])), 1, -1)
    >>> release = sd.Release(sd.GaussianMechanism.from_scale(0.5), sd.RandomizedResponse(epsilon=2.0))
    >>> noised = release.privatize(X, y, random_state=1)
    >>> found = sd.evaluate([2.0, -1.0], noised.X, noised.y, metric="accuracy", release=release)
    >>> truth = np.mean(y * (X @ [2.0, -1.0]) > 0)
    >>> bool(abs(found.value - truth) < 4 * found.standard_error), found.method, found.bias_is_certified
    (True, 'surrogate', False)
    """
    release = _release_of(theta_or_fit, release)
    metric = _checked_metric(metric)
    _checked_options(radius, label_model)
    labels = _checked_values(target_values, theta_or_fit)
    theta = _parameters(theta_or_fit, release, X, metric if isinstance(metric, Loss) else None)
    records = _records(release, X, y, sample_weight, clusters)
    found = _metric(metric, records, [theta], target_values=labels, radius=radius, label_model=label_model)
    values = _finite(found.values(theta, X, y), found.name)
    bias, certified = found.bias(theta)
    return records.estimate(values, metric=found.name, method=found.method, bias=bias, certified=certified)


# ---- calibration ---------------------------------------------------------------------------------------------

# log(2 cosh(u/2)), whose slope is the logistic function less 1/2.
_LOGISTIC = surrogate.Part(
    lambda u: np.logaddexp(u / 2, -u / 2), lambda u: np.asarray(np.tanh(u / 2) / 2, dtype=float), odd=False
)


def calibration_curve(
    theta_or_fit: Fit | ArrayLike,
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
) -> CalibrationCurve:
    """Estimate what a model predicts against what happens, over windows of true scores, from released records.

    With phi_c the normal density of standard deviation c, at each score u0

        observed = E[y phi_c(u - u0)] / E[phi_c(u - u0)],   predicted = E[m(u) phi_c(u - u0)] / E[phi_c(u - u0)].

    Parameters
    ----------
    theta_or_fit, X, y, release, sample_weight, clusters
        As for `evaluate`. Features with normal noise, or without.
    points : int or sequence of float
        How many windows, at the quantiles (k - 1/2)/points of normal scores with the debiased mean and variance; or
        their scores u0.
    bandwidth : float, optional
        c, with c^2 above the noise variance s of the score. By default c^2 = s + max(s, h^2), h the normal reference
        rule 1.06 sd n^(-1/5) for released scores: c^2 - s is the window on these, and below s the variance of
        `predicted` grows fast.
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
        A column with noise that is not normal has a part in the score.
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
    >>> curve = sd.calibration_curve([1.0, -1.0], noised.X, noised.y, release=release, points=5)
    >>> error = (curve.observed - curve.predicted) / curve.difference_standard_errors
    >>> bool(np.abs(error).max() < 4)
    True
    """
    release = _release_of(theta_or_fit, release)
    if link not in _LINKS:
        raise ValueError(f"link={link!r:.60} is not known. Choose one of {', '.join(_LINKS)}.")
    labels = _checked_values(target_values, theta_or_fit)
    theta = _parameters(theta_or_fit, release, X, None)
    records = _records(release, X, y, sample_weight, clusters)
    scores = _scores(release, theta, X)
    if scores.others or scores.categories:
        raise NoExactCorrectionError(
            "windows of scores are undone under normal noise of the features only, and another noise has a part in the "
            'score. Release these columns with a GaussianMechanism, or compare by evaluate(metric="log_loss").'
        )
    rows, released, s = len(scores.linear), scores.linear, scores.normal
    target = (
        (_signed_labels(release, y, rows, _labels(release, labels)) + 1) / 2
        if link == "logistic"
        else _numbers_of_targets(release, y, rows)
    )
    spread = _spread(scores, records.weights)
    share = records.weights / records.weights.sum()
    sd_released = math.sqrt(float(share @ (released - share @ released) ** 2))
    if not sd_released > 0:
        raise ValueError("all records have the same score. Calibration is over scores: use a model that has several.")
    if bandwidth is None:
        reference = 1.06 * sd_released * records.effective ** (-1 / 5)
        bandwidth = math.sqrt(s + max(s, reference**2))
    width = POSITIVE.check("bandwidth", bandwidth) ** 2
    if not width > s:
        raise ValueError(
            f"bandwidth={bandwidth:g} is not above the standard deviation {math.sqrt(s):.4g} of the score's noise, and "
            "no narrower window can be undone. Use a larger one, or leave it out."
        )
    middles = _window_middles(points, spread)
    inner = width - s
    window = _Window(width, inner, s)
    found = None
    if link == "logistic" and s > 0:
        effective = max(1.0, records.effective * min(1.0, math.sqrt(inner) / sd_released))
        (found,) = surrogate.design(
            [_LOGISTIC],
            radius=max(spread.radius, float(np.abs(middles).max())),
            score_variance=s * width / inner,
            records=effective,
        ).surrogates
    table = []
    for middle in middles:
        away = released - middle
        kernel = np.exp(-(away**2) / (2 * inner)) / math.sqrt(2 * math.pi * inner)
        density = float(share @ kernel)
        if not density > 0:
            raise ValueError(
                f"no record has a released score near {middle:g}. Choose points where records lie, or a larger "
                "bandwidth."
            )
        with np.errstate(over="ignore", invalid="ignore"):
            prediction = window.prediction(released, middle, link, found) * kernel
        if not np.all(np.abs(prediction) < _LARGEST):
            raise DivergenceError(
                f"what the model predicts near the score {middle:g} is beyond {_LARGEST:g} or not finite with its "
                "noise taken out. Use a larger bandwidth, or smaller parameters."
            )
        seen = target * kernel
        predicted, observed = float(share @ prediction) / density, float(share @ seen) / density
        parts = (prediction - predicted * kernel, seen - observed * kernel)
        errors = [
            _mean_and_error(part / density, records.weights, records.clusters)[1]
            for part in (*parts, parts[1] - parts[0])
        ]
        table.append((predicted, observed, *errors, window.bias(middle, spread, found)))
    predicted_means, observed_means, *found_errors, biases = np.array(table).T
    return CalibrationCurve(
        scores=middles,
        predicted=predicted_means,
        observed=observed_means,
        predicted_standard_errors=found_errors[0],
        observed_standard_errors=found_errors[1],
        difference_standard_errors=found_errors[2],
        bias=biases,
        bandwidth=float(bandwidth),
        score_variance=s,
        records=rows,
    )


def _numbers_of_targets(release: Release, y: Any, rows: int) -> FloatArray:
    """Return unbiased estimates of the true targets as numbers."""
    noise = release.target_noise
    target = release.released_target(y, rows=rows)
    if not isinstance(noise, ChannelNoise):
        return target
    label_array(target, noise.outputs, rows=rows)
    weights, obstacles = unbiased_weights(noise)
    values = np.array(noise.inputs)
    if np.abs(obstacles @ values).max(initial=0.0) > 1e-9 * np.abs(values).max():
        raise NoExactCorrectionError(
            "the channel of the target hides its mean, and no function of the released target is unbiased. Release it "
            "with a channel of full rank."
        )
    known = np.array(noise.outputs)
    order = np.argsort(known)
    found: FloatArray = (weights @ values)[order[np.searchsorted(known, target, sorter=order)]]
    return found


def _window_middles(points: Any, spread: _Spread) -> FloatArray:
    if isinstance(points, (int, np.integer)) and not isinstance(points, bool):
        count = COUNT.check("points", points)
        return np.asarray(
            spread.mean + math.sqrt(spread.variance) * norm.ppf((np.arange(count) + 0.5) / count), dtype=float
        )
    if isinstance(points, (str, bytes)) or not isinstance(points, (Sequence, np.ndarray)) or len(points) == 0:
        raise TypeError(f"points={points!r:.60} is neither a number of windows nor a list of scores. Give one of them.")
    return target_array(np.asarray(points), rows=len(points)).copy()


@dataclass(frozen=True)
class _Window:
    """A normal window of variance c^2 on true scores, which is one of c^2 - s on released ones."""

    width: float
    inner: float
    noise: float

    def prediction(
        self, released: FloatArray, middle: float, link: str, found: surrogate.Surrogate | None
    ) -> FloatArray:
        """Return W_s^-1[m(u) phi_c(u - u0)] at released scores, over phi_c'(u~ - u0)."""
        away = released - middle
        stretch = self.width / self.inner
        score = released + self.noise * away / self.inner
        if link == "identity":
            return score
        if link == "exponential":
            grown: FloatArray = np.exp(middle + away * stretch - self.noise * stretch / 2)
            return grown
        if found is None:
            exact: FloatArray = expit(released)
            return exact
        _, c1, c2 = found.polynomial
        total: FloatArray = 0.5 + c1 + 2 * c2 * score
        for k, a in enumerate(found.cosines, start=1):
            w = k * found.frequency
            total -= a * w * math.exp(w**2 * stretch * self.noise / 2) * np.sin(w * (middle + away * stretch))
        return total

    def bias(self, middle: float, spread: _Spread, found: surrogate.Surrogate | None) -> float:
        """Return the mean error of the surrogate over normal scores within the window."""
        if found is None:
            return 0.0
        nodes, chances = spread.normal_scores()
        inside = chances * np.exp(-((nodes - middle) ** 2) / (2 * self.width))
        errors = np.abs(found.slope(nodes) - _LOGISTIC.slope(nodes))
        return float(inside @ errors) / float(inside.sum())


# ---- cross-validation ----------------------------------------------------------------------------------------

Candidate = Callable[..., Fit | ArrayLike]


def cross_validate(
    candidates: Mapping[str, Candidate],
    X: Any,
    y: Any,
    *,
    release: Release,
    metric: str | Loss,
    folds: int = 5,
    random_state: int | np.random.Generator | None = None,
    clusters: Any = None,
    sample_weight: Any = None,
    target_values: Sequence[float] | None = None,
    radius: float | None = None,
    label_model: str = "any",
) -> CrossValidation:
    """Compare ways to fit a model by a corrected metric on held-out released records.

    Parameters
    ----------
    candidates : mapping from str to callable
        Each takes X and y, and returns a Fit or parameters; with `sample_weight` it is given the keyword
        ``sample_weight`` as well. A partial of a solver does: ``functools.partial(sd.m_estimate, corrected, l2=0.1)``.
        Give them from the simplest to the most complex for `CrossValidation.one_standard_error`.
    X, y, metric, target_values, radius, label_model
        As for `evaluate`.
    release : Release
        How the records were noised.
    folds : int
        How many parts each record is held out in one of, at least 2.
    random_state : int, numpy.random.Generator or None
        For the parts; None takes fresh entropy.
    clusters : array of shape (n,), optional
        Which records belong to the same person, for instance one that was released twice: a cluster stays in one part,
        and standard errors are those over clusters.
    sample_weight : array of shape (n,), optional
        Non-negative weights, in the fits and in the metric.

    Returns
    -------
    CrossValidation
        The table: each candidate's estimate, its paired difference from the best, and the refused candidates.

    Raises
    ------
    SymdebiasError
        Every candidate was refused.
    TypeError, ValueError
        An argument or the data do not fit. Such errors of a candidate are not caught.

    Notes
    -----
    Only released records are used, so that it costs no privacy. All candidates are judged by one corrected metric: a
    surrogate is designed once, for the widest range and the largest noise among them, so that their differences are
    paired. A candidate that raises a SymdebiasError in any part is refused.

    Standard errors are over records, with the fits taken as given. Fits share records across parts, which no standard
    error of cross-validation accounts for without bias (Bengio & Grandvalet 2004).

    References
    ----------
    Stone 1974; Breiman et al. 1984, Section 3.4.3 (the rule of one standard error).

    Examples
    --------
    >>> import numpy as np, symdebias as sd
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 1))
    >>> y = X[:, 0] + rng.normal(size=2000)
    >>> release = sd.Release(sd.GaussianMechanism.from_scale(1.0))
    >>> noised = release.privatize(X, y, random_state=1)
    >>> found = sd.cross_validate(
    ...     {"half": lambda X, y: [0.5], "one": lambda X, y: [1.0]},
    ...     noised.X, noised.y, release=release, metric="squared_error", random_state=0,
    ... )
    >>> found.best  # the naive squared error is least at one half
    'one'
    """
    if not isinstance(candidates, Mapping) or not candidates or not all(callable(fit) for fit in candidates.values()):
        raise TypeError(
            "candidates must map names, at least one, to callables of X and y that return a Fit; got "
            f"{candidates!r:.60}. "
            "Pass {'l2 = 0.1': functools.partial(sd.m_estimate, corrected, l2=0.1)}, for instance."
        )
    release = _release_of(None, release)
    metric = _checked_metric(metric)
    _checked_options(radius, label_model)
    labels = _checked_values(target_values, None)
    loss = metric if isinstance(metric, Loss) else None
    records = _records(release, X, y, sample_weight, clusters)
    parts = _parts(records, Integer(2).check("folds", folds), generator(random_state))
    weighted = sample_weight is not None
    thetas: dict[str, list[FloatArray]] = {}
    refused: dict[str, str] = {}
    for name, fit in candidates.items():
        try:
            thetas[name] = [
                _parameters(_fitted(fit, records, np.flatnonzero(parts != part), weighted), release, X, loss)
                for part in range(folds)
            ]
        except SymdebiasError as error:
            refused[name] = f"{error}"
    values: dict[str, FloatArray] = {}
    judge = None
    if thetas:
        every = [theta for found in thetas.values() for theta in found]
        judge = _metric(metric, records, every, target_values=labels, radius=radius, label_model=label_model)
        for name, found in thetas.items():
            try:
                values[name] = _held_out(judge, found, records, parts)
            except SymdebiasError as error:
                refused[name] = f"{error}"
    if judge is None or not values:
        reasons = "\n".join(f"  {name}: {reason}" for name, reason in refused.items())
        raise SymdebiasError(f"every candidate was refused:\n{reasons}\nGive one that can be fitted to these records.")
    estimates = {}
    for name, found_values in values.items():
        biases = [judge.bias(theta) for theta in thetas[name]]
        estimates[name] = records.estimate(
            found_values,
            metric=judge.name,
            method=judge.method,
            bias=max(bias for bias, _ in biases),
            certified=all(certified for _, certified in biases),
        )
    sign = -1 if judge.higher_is_better else 1
    best = min(estimates, key=lambda name: sign * estimates[name].value)
    differences = {
        name: records.estimate(
            found_values - values[best],
            metric=judge.name,
            method=judge.method,
            bias=0.0 if name == best else estimates[name].bias + estimates[best].bias - 2 * judge.common_bias,
            certified=estimates[name].bias_is_certified and estimates[best].bias_is_certified,
        )
        for name, found_values in values.items()
    }
    by_fold = {
        name: np.array(
            [np.average(found_values[parts == part], weights=records.weights[parts == part]) for part in range(folds)]
        )
        for name, found_values in values.items()
    }
    return CrossValidation(estimates, differences, by_fold, refused, judge.name, judge.higher_is_better)


def _parts(records: _Records, folds: int, rng: np.random.Generator) -> IntegerArray:
    """Return which part each record is held out in; clusters stay together."""
    rows = len(records.weights)
    codes = np.arange(rows) if records.clusters is None else records.clusters
    count = int(codes.max()) + 1
    if count < folds:
        what = "records" if records.clusters is None else "clusters"
        raise ValueError(f"folds={folds} is more than the {count} {what}. Use fewer folds.")
    part_of = np.empty(count, dtype=np.int64)
    part_of[rng.permutation(count)] = np.arange(count) % folds
    parts: IntegerArray = part_of[codes]
    if not np.all(np.bincount(parts, records.weights, minlength=folds) > 0):
        raise ValueError("sample_weight is 0 for every record of a part. Use fewer folds, or leave such records out.")
    return parts


def _fitted(fit: Candidate, records: _Records, rows: IntegerArray, weighted: bool) -> Any:
    options = {"sample_weight": records.weights[rows]} if weighted else {}
    return fit(take_rows(records.X, rows), take_rows(records.y, rows), **options)


def _held_out(judge: _Metric, thetas: list[FloatArray], records: _Records, parts: IntegerArray) -> FloatArray:
    values = np.empty(len(parts))
    for part, theta in enumerate(thetas):
        rows = np.flatnonzero(parts == part)
        values[rows] = judge.values(theta, take_rows(records.X, rows), take_rows(records.y, rows))
    return _finite(values, judge.name)
