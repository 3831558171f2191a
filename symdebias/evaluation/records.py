"""Released records, checked once: columns, targets, weights and clusters, and means over them with standard errors.

What is asked of all records is asked part by part, so that they need not be in one place.
"""

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from symdebias._arrays import (
    FloatArray,
    IntegerArray,
    check_same_index,
    cluster_codes,
    label_array,
    parameter_array,
    places_among,
    require_squares,
    weights_array,
)
from symdebias._domains import LabelSet
from symdebias._rows import Rows, places_over, without_far
from symdebias._table_rows import first_row
from symdebias._tails import LongTails, farthest, tail_count
from symdebias.checks.targets import labels_off
from symdebias.checks.weights import refuse_weights_of_noise
from symdebias.codegen.parallel import over_items
from symdebias.corrected import CorrectedLoss
from symdebias.driver import debias
from symdebias.evaluation.error_law import ErrorLaw
from symdebias.evaluation.links import link_of
from symdebias.evaluation.reading import released_columns, released_vectors, with_column
from symdebias.exceptions import InferenceError, NoExactCorrectionError
from symdebias.losses import Loss, least_squares
from symdebias.noise import AdditiveNoise, ChannelNoise
from symdebias.reading import some_of
from symdebias.release import Release
from symdebias.release.known_term import with_known_term
from symdebias.release.matrices import named_by, released_array
from symdebias.release.remaking import remade
from symdebias.release.required import require_release
from symdebias.solvers.fit import Fit
from symdebias.solvers.offsets import as_offset
from symdebias.solvers.predictions import Predictor

# What rounding may leave of a function of the target that a channel lets through, relative to its largest value.
_ROUNDING = 1e-9
# A record with more than this share of the weights is looked at as if it were left out.
_MUCH_WEIGHT = 0.05
# Of a parameter.
_LARGEST = 1e100
# What metrics take scores for, and the links of fits for which they are that; None is that of losses whose scores
# predict neither a mean nor a probability by a link that is known, and may be taken for a number as they are.
_NUMBERS = "scores that are predictions of a number", ("identity", None)
_PREDICTIONS: Mapping[str, tuple[str, tuple[str | None, ...]]] = {
    "brier": ("logistic probabilities", ("logistic",)),
    "log_loss": ("logistic probabilities", ("logistic",)),
    "poisson": ("a mean exp(u)", ("exponential",)),
    "r2": _NUMBERS,
    "squared_error": _NUMBERS,
}
# What to do about noise scales of the records' own, where a metric does not take them.
OF_ONE_NOISE = (
    "Evaluate squared_error, r2, poisson or a Loss with an exact correction; or take records of one noise, and pass "
    "release= with it."
)
# Metrics by name of models with a score for each class.
OF_CLASSES = ("accuracy", "log_loss")
# Records that quantiles of scores are told from, spread over all; those that are judged at a time; and those that tell
# what another label would do.
SAMPLED, ROWS, FEW = 2**17, 2**16, 10_000


@dataclass(frozen=True)
class Records:
    """Released records and how they count.

    Attributes
    ----------
    release : Release
        How their columns were noised.
    collected : Release
        The release that they came by: another one where features and target were released in one vector.
    X, y
        The records as they were given.
    matrix : array of shape (n, p), float64, or Rows
        Columns in the order of the release, codes in columns of categories.
    target : array of shape (n,), float64
        Released targets, codes for text.
    weights : array of shape (n,), float64
        Weights.
    clusters : array of shape (n,), or None
        The clusters: codes, int64, or labels where records lie elsewhere.
    declared : tuple of float or None
        The labels that the caller declares, or the loss of a Fit, in order.
    known_term : int or None
        The place of the parameter of an offset, which is a column without noise; it is 1 for every model.
    scales : array of shape (n, p), float64, or None
        Standard deviations of the records' own noise, where they have them.
    first : int
        The row of the first of them among all records.
    memo : dict
        What passes over these records came to.
    """

    release: Release
    collected: Release
    X: Any
    y: Any
    matrix: FloatArray | Rows
    target: FloatArray
    weights: FloatArray
    clusters: Any
    declared: tuple[float, ...] | None
    known_term: int | None = None
    scales: FloatArray | None = None
    first: int = 0
    memo: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False, kw_only=True)

    @classmethod
    def checked(
        cls,
        model: Any,
        X: Any,
        y: Any,
        release: Release | None,
        *,
        sample_weight: Any = None,
        clusters: Any = None,
        target_values: Any = None,
        offset: Any = None,
        noise_scale: Any = None,
        knows_weights: bool = False,
    ) -> "Records":
        """Return checked records, with arguments as for `evaluate`: a Fit says what is not given.

        `knows_weights` says that it was looked at before whether weights are made of what was noised.
        """
        release = named_by(release_of(model, release, has_scales=noise_scale is not None), X)
        check_same_index(X, y, sample_weight=sample_weight, clusters=clusters, offset=offset, noise_scale=noise_scale)
        if noise_scale is not None and release.coupling is not None:
            raise ValueError(
                "noise_scale gives each record's own scale of normal noise on features, and this release noises them "
                "and the target in one vector. Leave noise_scale out."
            )
        known_term, before = None, release
        if offset is not None:
            release, X, known_term = _with_offset(release, X, offset)
        elif isinstance(model, Fit) and model.diagnostics.get("offset"):
            raise ValueError(
                "this fit has an offset, and its scores are not told without one. Pass offset=, with zeros for an "
                "exposure of 1, where the metric takes one; or evaluate its predictions for true records, with "
                "fit.predict(X, offset=...)."
            )
        coupling = release.coupling
        matrix: FloatArray | Rows
        target: FloatArray | None = None
        if coupling is None:
            in_columns, matrix = release, released_columns(release, X)
        else:
            in_columns = release.in_columns(release.design_matrix(first_row(X), check_finite=False).shape[1])
            matrix, target = released_vectors(release, X, y)
        rows = len(matrix)
        scales = None
        if noise_scale is not None:
            # A known term, in a column more, has no noise.
            scales = _own_scales(noise_scale, before, (rows, matrix.shape[1] - (known_term is not None)))
            scales = scales if known_term is None else np.column_stack([scales, np.zeros(rows)])
        weights = np.ones(rows) if sample_weight is None else weights_array(sample_weight, rows=rows)
        if target is None:
            target = release.released_target(y, rows=rows)
            if isinstance(release.target_noise, ChannelNoise):
                label_array(target, release.target_noise.outputs, rows=rows)
        require_squares(matrix, "X")
        require_squares(target, "y")
        if sample_weight is not None and not knows_weights:
            refuse_weights_of_noise(release, matrix, target, weights)
        if not weights.all():
            matrix, target = without_far((matrix, target), weights)
        codes = None if clusters is None else cluster_codes(clusters, rows=rows)
        declared = model.corrected.declared.target_values if isinstance(model, Fit) else None
        if target_values is not None:
            # A model of several scores has as many labels; those of candidates are not known yet.
            several = model is None or scores_of(model) > 1
            declared = LabelSet.declare("target_values", target_values, count=None if several else 2).values
        if coupling is not None and coupling.values is not None:
            if declared not in (None, coupling.values):
                raise ValueError(
                    f"target_values={declared} are not the labels {coupling.values} of the release. Leave "
                    "target_values out."
                )
            declared = coupling.values
        return cls(in_columns, release, X, y, matrix, target, weights, codes, declared, known_term, scales)

    def __len__(self) -> int:
        return len(self.weights)

    def require_several(self) -> "Records":
        """Return the same records, of which two at least have weight.

        Raises
        ------
        ValueError
            It is one.
        """
        if len(self) < 2 or not self.effective > 1:
            raise ValueError(
                "one record has no standard error, whatever it is beside others of weight 0. Evaluate on two records "
                "or more."
            )
        return self

    @property
    def of_margins(self) -> bool:
        """Whether scores are those of y x, with the label fixed at the larger value."""
        coupling = self.collected.coupling
        return coupling is not None and coupling.kind == "margin"

    @functools.cached_property
    def share(self) -> FloatArray:
        """The weights, scaled to a sum of 1."""
        return np.asarray(self.weights / self.weights.sum())

    @property
    def total(self) -> float:
        """The sum of the weights of all records."""
        return float(self.weights.sum())

    @property
    def counts(self) -> tuple[int, int | None]:
        """The number of records with weight, and of their clusters where there are any."""
        present = self.weights > 0
        clusters = None if self.clusters is None else len(np.unique(self.clusters[present]))
        return int(np.count_nonzero(present)), clusters

    @property
    def effective(self) -> float:
        """(sum w)^2/(sum w^2) of all records, the sample size."""
        return self.total**2 / float(self.weights @ self.weights)

    @property
    def light(self) -> "Records":
        """The same, or few of them where they lie elsewhere: what goes to the parts has them with it."""
        return self

    def over_parts(self, work: Callable[["Records"], Any]) -> Iterator[Any]:
        """Yield what a function says of the records of each part, in order: what is in memory is one part."""
        yield work(self)

    def reduced(self, work: Callable[["Records"], Any], combine: Callable[..., Any]) -> Any:
        """Return what a function says of the records of each part, put together by another one of several of such."""
        return functools.reduce(combine, self.over_parts(work))

    def means(self, work: Callable[["Records"], FloatArray], power: int = 1) -> FloatArray:
        """Return weighted means over all records of numbers per record.

        Parameters
        ----------
        work : callable
            From some records to numbers of shape (m,) or (m, k).
        power : int
            With 2 they are sums of w^2 v over (sum w)^2, as in a squared standard error.
        """
        whole = self.reduced(functools.partial(_weighed, work=work, power=power), added)
        return np.asarray(whole / self.total**power)

    def counted(self) -> AbstractContextManager[None]:
        """Return what has errors name the rows of these records by what they are among all."""
        return nullcontext()

    def over_pieces(self, work: Callable[[slice], Any]) -> Iterator[Any]:
        """Yield what a function says of the rows of each piece of these records, in order, on all cores."""
        return over_items((slice(start, min(start + ROWS, len(self))) for start in range(0, len(self), ROWS)), work)

    def counted_by(self, rows: slice) -> tuple[FloatArray, IntegerArray | None]:
        """Return the weights of some records, and their clusters where there are any."""
        return self.weights[rows], None if self.clusters is None else self.clusters[rows]

    @property
    def some(self) -> slice | IntegerArray:
        """Records from everywhere that quantiles are told from; all those of weight unless they are many."""
        return places_over(self.weights, SAMPLED)

    @property
    def few(self) -> "Records":
        """Some thousand of those with weight, from everywhere, as records by themselves."""
        return self.only(places_over(self.weights, FEW))

    def only(self, rows: Any, *, reads: bool = True) -> "Records":
        """Return some records, by a slice or their numbers; without `reads` tables are read when they are asked for."""
        (X, y), matrix = self.taken(rows), self.matrix
        return replace(
            self,
            X=X,
            y=y,
            matrix=matrix.only(rows) if isinstance(matrix, Rows) and not reads else matrix[rows],
            target=self.target[rows],
            weights=self.weights[rows],
            clusters=None if self.clusters is None else self.clusters[rows],
            scales=None if self.scales is None else self.scales[rows],
            memo={},
        )

    def remembered(self, asked: tuple[Any, ...], compute: Callable[[], Any]) -> Any:
        """Return what is computed, or was when the same was asked."""
        if asked not in self.memo:
            self.memo[asked] = compute()
        return self.memo[asked]

    def taken(self, rows: Any) -> tuple[Any, Any]:
        """Return X and y of some records, as what they were given."""
        return some_of(self.X, rows), None if self.y is None else some_of(self.y, rows)

    def parameters(self, model: Any, loss: Any = None) -> FloatArray:
        """Return the checked parameters of a model: of one score, or of what a Loss that judges it has.

        Raises
        ------
        ValueError, TypeError
            They do not fit, or the model predicts no probabilities for a metric of these.
        """
        found = self._parameters(model, loss)
        if np.abs(found).max(initial=0.0) > _LARGEST:
            raise ValueError(
                f"the parameters of the model reach {np.abs(found).max():.3g}, and scores are squared: they may reach "
                f"{_LARGEST:g}. Check the units of the columns."
            )
        return found

    def _parameters(self, model: Any, loss: Any) -> FloatArray:
        scores = len(loss.scores) if isinstance(loss, Loss) else scores_of(model)
        if scores > 1 and not isinstance(loss, Loss) and loss not in OF_CLASSES:
            raise ValueError(
                f"this model has {scores} scores, one for each class, and {loss or 'a curve'} is that of one score. "
                f"Evaluate {' or '.join(OF_CLASSES)}, or a Loss of all scores, such as the one that was fitted."
            )
        if isinstance(model, Fit) and isinstance(loss, str):
            (_require_link if scores == 1 else _require_softmax)(model, loss)
        theta = model.theta if isinstance(model, Fit) else model
        if scores == 0:
            if self.known_term is not None:
                raise ValueError(
                    f"offset= is a known term of a score, and {loss.expression} is in features by name. Leave it out."
                )
            own = [symbol.name for symbol in loss.parameters]
            return np.array(parameter_array(theta, len(own), names=own))
        parameters = self.release.design(self.matrix.shape[1]).parameters
        count, names = len(parameters), None if self.release.columns is None else parameters
        if isinstance(model, Fit):
            theta = self._in_own_order(theta, model.names)
        if self.known_term is None:
            return np.array(parameter_array(theta, count, scores, names))
        if scores > 1:
            raise ValueError(
                f"offset= is a known term of one score, and there are {scores}. Evaluate one class against another."
            )
        return np.insert(parameter_array(theta, count - 1), self.known_term, 1.0)

    def _in_own_order(self, theta: FloatArray, names: Sequence[str]) -> FloatArray:
        """Return the parameters of a fit in the order of the columns here, which may be of another release.

        Raises
        ------
        ValueError
            Other columns stand among them, so that which parameter is whose would be a guess.
        """
        own = list(self.collected.design(self.matrix.shape[1]).parameters)
        if self.known_term is not None:
            del own[self.known_term]
        if tuple(names) == tuple(own):
            return theta
        if set(names) == set(own) and len(own) == len(names):
            return theta[..., [names.index(name) for name in own]]
        if len(own) == len(names) and any(name in names and names.index(name) != at for at, name in enumerate(own)):
            raise ValueError(
                f"the fit has the parameters {', '.join(names)}, and by release= these records have "
                f"{', '.join(own)}: which is whose would be a guess. Name the columns alike."
            )
        return theta

    def mean_and_error(self, values: FloatArray) -> tuple[float, float]:
        """Return the weighted mean of a number per record, and its standard error over records or clusters.

        Raises
        ------
        InferenceError
            Only one cluster has weight.
        """
        mean = float(self.weights @ values / self.weights.sum())
        parts: FloatArray = self.share * (values - mean)
        if self.clusters is not None:
            parts = self._without_each(parts)
            return mean, math.sqrt((len(parts) - 1) / len(parts) * float(parts @ parts))
        present, _ = self.counts
        error = math.sqrt(present / (present - 1) * float(parts @ parts))
        return mean, error * pull_of(float(self.share.max()))

    def error_law(self, values: FloatArray, *, has_long_tails: bool) -> ErrorLaw:
        """Return the law of the mean of a number per record in its standard errors, as few records or clusters make it.

        Where the numbers have no bound, their tails tell how far intervals reach.

        Raises
        ------
        InferenceError
            Only one cluster has weight.
        """
        parts = self.share * (values - float(self.share @ values))
        if self.clusters is not None:
            return ErrorLaw.by_clusters(self._without_each(parts))
        squares = parts**2
        second, fourths = float(squares.sum()), float(squares @ squares)

        def tails() -> LongTails:
            present, _ = self.counts
            weighed = parts[self.share > 0] if present < len(parts) else parts
            above, below = farthest(weighed[:, None], tail_count(present) if has_long_tails else 0)[:, :, 0]
            return LongTails(present, second, fourths, above, below)

        return ErrorLaw.by_records(second, float(squares @ parts), fourths, tails)

    def _without_each(self, parts: FloatArray) -> FloatArray:
        """Return what leaving out each cluster with weight does to a mean, from the parts of its records in it."""
        sums, shares = (np.bincount(self.clusters, one).astype(np.float64) for one in (parts, self.share))
        return without_each(sums, shares)

    def under(self, release: Release) -> "Records":
        """Return the same records under another release of the same columns, not of one vector."""
        return replace(self, release=release, collected=release, scales=self.scales_under(release), memo={})

    def scales_under(self, release: Release) -> FloatArray | None:
        """Return noise scales of the records' own as those multiples of another release's that they are of this one."""
        if self.scales is None:
            return None
        before, after = (_variances(one, self.scales.shape[1]) for one in (self.release, release))
        return self.scales * np.sqrt(np.divide(after, before, out=np.ones_like(after), where=before > 0))

    @property
    def labels(self) -> tuple[float, float]:
        """The two values of the target: what the release says, then what was declared, then -1 and +1."""
        declared, noise = self.declared, self.release.target_noise
        values = tuple(sorted(noise.inputs)) if isinstance(noise, ChannelNoise) else declared or (-1.0, 1.0)
        if len(values) != 2:
            raise ValueError(
                f"the target has {len(values)} values, and metrics of a single score are those of two labels. Evaluate "
                "a Loss, or a model with a score for each value."
            )
        if declared is not None and declared != values:
            raise ValueError(
                f"target_values={declared} are not the labels {values} of the release. Leave target_values out."
            )
        return values[0], values[1]

    def classes(self, count: int) -> tuple[float, ...]:
        """Return the values of the target for a score each: what the release says, was declared, or 0, 1, ...

        Raises
        ------
        ValueError
            There are not as many.
        """
        noise = self.release.target_noise
        values = tuple(map(float, range(count))) if self.declared is None else self.declared
        if isinstance(noise, ChannelNoise):
            values = tuple(sorted(noise.inputs))
        if len(values) != count or self.declared not in (None, values):
            said = "" if self.declared in (None, values) else f", target_values {self.declared}"
            raise ValueError(
                f"the model has {count} scores, one for each class, the target the values {values}{said}. Give a score "
                "for each value, in their order."
            )
        return values

    def shares_of(self, value: float) -> FloatArray:
        """Return unbiased estimates of 1 for a value of the target and 0 for the others, shape (n,).

        Raises
        ------
        NoExactCorrectionError
            The noise of the target has no such estimates.
        """
        noise = self.release.target_noise

        def is_value(labels: FloatArray) -> FloatArray:
            return np.asarray(labels == value, dtype=np.float64)

        if noise is None:
            return is_value(self.target)
        if isinstance(noise, ChannelNoise):
            return self._channel_undone(noise, is_value, f"share of {value:g}")
        raise NoExactCorrectionError(
            f"the target has additive noise, under which nothing tells how often it is {value:g}. Release labels by "
            "randomized response, or evaluate the loss that was fitted."
        )

    def signs_of_labels(self) -> FloatArray:
        """Return unbiased estimates of the true labels as -1 and +1, shape (n,)."""
        if self.of_margins:
            return self.target
        low, high = self.labels
        self.require_labels()
        return self.unbiased_target(lambda label: (2 * label - low - high) / (high - low))

    def positives(self) -> FloatArray:
        """Return unbiased estimates of 1 for the larger label and 0 for the other, shape (n,)."""
        return (1 + self.signs_of_labels()) / 2

    def require_labels(self) -> None:
        """Raise ValueError where the true targets are not the two labels, as far as the released ones tell."""
        low, high = self.labels
        noise = self.release.target_noise
        if noise is None:
            self.require_values((low, high))
        if isinstance(noise, AdditiveNoise):
            told = labels_off(self.target[self.weights > 0], (low, high), noise.variance)
            if told:
                raise ValueError(f"{told} Give target_values= as they are coded, or a metric of numbers.")

    def require_values(self, values: Sequence[float]) -> None:
        """Raise ValueError where a target that has no noise is none of some values, whatever its weight."""
        given = self.target
        if not self.weights.all() and self.collected.coupling is None:
            # Those of weight 0 may have been replaced.
            given = self.release.released_target(self.y, rows=len(self))
        label_array(given, values, rows=len(given))

    def unbiased_target(self, affine: Callable[[FloatArray], FloatArray] = np.asarray) -> FloatArray:
        """Return unbiased estimates of an affine function of the true target, by default the target itself.

        Additive noise of mean 0 leaves it unbiased; a channel is undone.

        Raises
        ------
        NoExactCorrectionError
            A channel hides it.
        """
        noise = self.release.target_noise
        return self._channel_undone(noise, affine, "mean") if isinstance(noise, ChannelNoise) else affine(self.target)

    def excess_of_squares(self) -> FloatArray:
        """Return by how much squares of `unbiased_target` exceed unbiased estimates of squared targets, shape (n,).

        Raises
        ------
        NoExactCorrectionError
            A channel hides the squares.
        """
        noise = self.release.target_noise
        if isinstance(noise, ChannelNoise):
            return self.unbiased_target() ** 2 - self._channel_undone(noise, np.square, "variance")
        return np.full(len(self.target), 0.0 if noise is None else noise.variance)

    def _channel_undone(
        self, noise: ChannelNoise, function: Callable[[FloatArray], FloatArray], hidden: str
    ) -> FloatArray:
        """Return unbiased estimates of a function of a target that came by a channel."""
        label_array(self.target, noise.outputs, rows=len(self.target))
        wanted = function(np.array(noise.inputs))
        if np.abs(noise.obstacles @ wanted).max(initial=0.0) > _ROUNDING * np.abs(wanted).max():
            raise NoExactCorrectionError(
                f"the channel of the target hides its {hidden}, and no function of the released target is unbiased. "
                "Release it with a channel of full rank."
            )
        return np.asarray((noise.weights @ wanted)[places_among(noise.outputs, self.target)])


def _require_link(fit: Fit, metric: str) -> None:
    """Raise ValueError where a metric by name takes scores for other predictions than the loss of a fit makes."""
    if metric not in _PREDICTIONS:
        return
    said, fitting = _PREDICTIONS[metric]
    link = link_of(fit)
    if link not in fitting:
        raise ValueError(
            f"{metric} is that of {said}, and the loss of this fit predicts "
            f"{'otherwise' if link is None else f'by the link {link}'}. Evaluate the loss that was fitted, as "
            "metric=fit.corrected.declared, or a metric that its target has."
        )


def scores_of(model: Any) -> int:
    """Return how many scores a model has, by the shape of its parameters: one unless they are rows of several."""
    theta = model.theta if isinstance(model, Fit) else model
    return np.shape(theta)[0] if np.ndim(theta) == 2 else 1


def is_softmax(fit: Fit, metric: str) -> bool:
    """Whether what a metric takes scores for is what a fit predicts: the class of the largest, or their softmax."""
    predictor = Predictor.of(fit)
    try:
        return predictor.picks_largest if metric == "accuracy" else predictor.is_softmax
    except ValueError:
        return False


def _require_softmax(fit: Fit, metric: str) -> None:
    """Raise ValueError where the class of the largest score, or the softmax of scores, is not what a fit predicts."""
    if not is_softmax(fit, metric):
        raise ValueError(
            f"{metric} of several classes is that of the softmax of their scores, and the loss of this fit predicts "
            "otherwise. Evaluate the loss that was fitted, as metric=fit.corrected.declared."
        )


def _own_scales(noise_scale: Any, release: Release, shape: tuple[int, ...]) -> FloatArray:
    """Return noise scales of the records' own, shape (n, p), checked as those of a fit are.

    Raises
    ------
    ValueError, TypeError
        They do not fit, or the release has no normal noise of a known scale.
    """
    found = _of_features(release).at(shape[1], per_record=True).checked_scales(noise_scale, shape[0])
    assert found is not None
    return found


# Records that are read block by block are checked block by block.
@functools.lru_cache(maxsize=8)
def _of_features(release: Release) -> CorrectedLoss:
    """Return a correction under the features of a release alone, on which it hangs what may have scales of its own."""
    groups: dict[Any, Any] = dict(release.groups)
    features = groups[None] if None in groups else groups
    return debias(least_squares(), remade(release, features or None, target=None))


def _variances(release: Release, width: int) -> FloatArray:
    """Return the variances of the additive noise of columns, 0 where they have none."""
    found = np.zeros(width)
    for place, noise in release.noises(width):
        if isinstance(noise, AdditiveNoise):
            found[place] = noise.coordinate_variances(place.stop - place.start)
    return found


def release_of(model: Any, release: Any, *, has_scales: bool = False) -> Release:
    """Return how records were noised: a Fit says it where it is not given.

    Raises
    ------
    ValueError, TypeError
        Nothing says it, as where a fit had noise scales of the records' own; or what is given is no release.
    """
    if release is None:
        if not isinstance(model, Fit):
            raise ValueError(
                "parameters alone do not say how the records were noised. Pass release=, a Fit, or "
                "release=symdebias.Release() for records that are true."
            )
        if model.diagnostics.get("noise_scale") and not has_scales:
            raise ValueError(
                "this fit was made with noise scales of the records' own, and these records came without. Pass "
                "noise_scale= to evaluate, which takes them for metrics that are means of losses with an exact "
                "correction (squared_error, r2, poisson, or such a Loss); for other metrics take records of one noise "
                "and pass release= with it, or true ones with release=symdebias.Release()."
            )
        return model.corrected.release
    require_release(release)
    found: Release = release
    return found


def _weighed(part: Records, *, work: Callable[[Records], FloatArray], power: int) -> FloatArray:
    def weighed(rows: slice) -> FloatArray:
        some = part.only(rows, reads=False)
        return np.asarray((some.weights if power == 1 else some.weights**power) @ work(some))

    return np.asarray(added(*part.over_pieces(weighed)))


def added(*parts: Any) -> Any:
    """Return the sum of what several parts of the records come to."""
    return sum(parts[1:], parts[0])


def extremes_with_weight(values: FloatArray, weights: FloatArray) -> tuple[float, float]:
    """Return the least and the largest number of the records with weight, without an array of these numbers."""
    present = weights > 0
    least, most = values.min(initial=math.inf, where=present), values.max(initial=-math.inf, where=present)
    return float(least), float(most)


def extremes_of(*parts: tuple[float, float]) -> tuple[float, float]:
    """Return the least and the largest number of several parts, from those of each."""
    return min(least for least, _ in parts), max(most for _, most in parts)


def _with_offset(release: Release, X: Any, offset: Any) -> tuple[Release, FloatArray | Rows, int]:
    """Return a release and its released columns with an offset as a column more, and the place of its parameter."""
    # Rows are those of an array already.
    matrix = X if isinstance(X, Rows) else released_array(release, X, check_finite=True)
    if isinstance(matrix, Rows):
        matrix.require_places(release.columns)
        released_array(release, first_row(matrix), check_finite=False)
    longer, name = with_known_term(release, matrix.shape[1])
    place = longer.design(matrix.shape[1] + 1).parameters.index(name)
    return longer, with_column(matrix, as_offset(offset, len(matrix))), place


def without_each(parts: FloatArray, shares: FloatArray) -> FloatArray:
    """Return what leaving out each cluster with weight does to a mean, less a sign.

    A cluster pulls the mean to itself, so that its part in it alone, of a cluster with most of the weight, is small.

    Parameters
    ----------
    parts, shares : array of shape (G,), float64
        Sums over clusters of the weighted deviations from the mean, and of the weights, over all weights.

    Raises
    ------
    InferenceError
        Only one cluster has weight.
    """
    present = shares > 0
    if np.count_nonzero(present) < 2:
        raise InferenceError("only one cluster has weight, and no standard errors come from it. Weigh two or more.")
    return np.asarray(parts[present] / np.maximum(1 - shares[present], np.finfo(float).eps))


def pull_of(share: float) -> float:
    """Return what a standard error of a mean is too small by at most, where one record has a share of the weights.

    It pulls the mean to itself, and left out it moves the mean by its part in it over one less its share. 1 for shares
    that are small.
    """
    return 1 / (1 - share) if _MUCH_WEIGHT < share < 1 else 1.0
