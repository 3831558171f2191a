"""Metrics of models on records in the partitions of a Dask collection: sums over partitions, whole partitions held out.

Passes are those of `symdebias.evaluation`, whose records may lie in parts; here a part is a partition.
"""

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from symdebias._arrays import FloatArray, IntegerArray, cluster_labels, require_clusters, take_rows
from symdebias._domains import Integer
from symdebias._randomness import generator
from symdebias._rows import spread_over
from symdebias._tails import tail_count
from symdebias.evaluation.calibration import CalibrationCurve, calibration_curve_of
from symdebias.evaluation.cross_validation import (
    Candidate,
    CrossValidation,
    check_candidates,
    compared,
    dealt,
    require_any,
    told_apart,
)
from symdebias.evaluation.estimate import (
    Estimate,
    at_one_noise,
    check_options,
    corrected_metric,
    estimated_on,
    under_law,
    with_noise_estimated,
)
from symdebias.evaluation.metric import Metric, relabelled
from symdebias.evaluation.models import Model, as_fit, is_estimator
from symdebias.evaluation.overview import Evaluation, overview_of
from symdebias.evaluation.parts import PartedRecords
from symdebias.evaluation.records import FEW, SAMPLED, Records, release_of
from symdebias.evaluation.roc import RocCurve, roc_curve_of
from symdebias.evaluation.sums import Powers, Sums
from symdebias.exceptions import SymdebiasError
from symdebias.interfaces.distributed.partitions import Partitions, some
from symdebias.interfaces.distributed.reading import is_without_weight
from symdebias.losses import Loss
from symdebias.release import Release
from symdebias.release.matrices import released_array
from symdebias.solvers.fit import Fit

# Those that are means of a number per record.
_MEANS = ("log_loss", "brier", "accuracy", "squared_error", "poisson")


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
) -> Estimate:
    """Estimate a metric of a model on true records from released ones in partitions.

    Parameters
    ----------
    theta_or_fit, metric, release, target_values, radius, label_model, threshold
        As for `symdebias.evaluation.evaluate`.
    X : data frame or array of Dask, of shape (n, p)
        The released records.
    y : series or array of Dask, of shape (n,)
        The released targets, in the same partitions.
    sample_weight : series or array of Dask, of shape (n,), optional
        Non-negative weights; a partition in which all are 0 is checked and adds nothing.
    clusters : series or array of Dask, of shape (n,), optional
        Which records belong to the same person; a cluster may reach over partitions.
    offset : series or array of Dask, of shape (n,), optional
        A known term of the score of each record, as for `m_estimate`. A Fit with an offset needs one.

    Returns
    -------
    Estimate
        That of all records on one machine, to rounding. For the area under the ROC curve where signs are exact, scores
        are sorted into cells, and `bias` says what their order within these may add.

    Raises
    ------
    ValueError, TypeError
        An argument or the data do not fit; the message names the partition.
    SymdebiasError
        As for `symdebias.evaluation.evaluate`.
    MissingDependencyError
        Dask is not installed.

    Notes
    -----
    One pass checks the records, and one fetches at most 131,072 of them, which quantiles of scores are told from. One
    or two are sums; where a surrogate is in question, two tell where scores lie, and two whether that is told at all.

    Examples
    --------
    >>> import dask.array as da, numpy as np, symdebias as sd
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(20_000, 1))
    >>> X, y = (da.from_array(one, chunks=5_000) for one in (x + 0.5 * rng.normal(size=x.shape), 2 * x[:, 0]))
    >>> release = sd.Release(sd.GaussianMechanism.from_scale(0.5))
    >>> found = sd.distributed.evaluate([2.0], X, y, metric="squared_error", release=release)
    >>> bool(abs(found.value) < 4 * found.standard_error), found.method
    (True, 'exact')
    """
    check_options(metric, radius, label_model, threshold)
    model = as_fit(theta_or_fit)
    records = _checked_records(model, X, y, release, sample_weight, clusters, target_values, offset)
    return estimated_on(records, model, metric, radius=radius, label_model=label_model, threshold=threshold)


def evaluate_all(
    theta_or_fit: Model,
    X: Any,
    y: Any,
    *,
    release: Release | None = None,
    sample_weight: Any = None,
    clusters: Any = None,
    target_values: Sequence[float] | None = None,
    radius: float | None = None,
    label_model: str = "any",
    threshold: float = 0.0,
    offset: Any = None,
) -> Evaluation:
    """Estimate all metrics of a model that its target has, from released records in partitions.

    Parameters
    ----------
    theta_or_fit, release, target_values, radius, label_model, threshold
        As for `symdebias.evaluation.evaluate_all`.
    X, y, sample_weight, clusters, offset
        As for `evaluate`.

    Returns
    -------
    Evaluation
        As `symdebias.evaluation.evaluate_all` returns.

    Raises
    ------
    SymdebiasError
        None of them can be told.
    TypeError, ValueError
        An argument or the data do not fit; the message names the partition.
    MissingDependencyError
        Dask is not installed.

    Examples
    --------
    >>> import dask.array as da, numpy as np, symdebias as sd
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(20_000, 1))
    >>> y = np.where(rng.random(20_000) < 1 / (1 + np.exp(-2 * x[:, 0])), 1, -1)
    >>> release = sd.Release(target=sd.RandomizedResponse(epsilon=2.0))
    >>> noised = release.privatize(x, y, random_state=1)
    >>> X, y = (da.from_array(one, chunks=5_000) for one in (noised.X, noised.y))
    >>> found = sd.distributed.evaluate_all([2.0], X, y, release=release)
    >>> list(found.estimates)
    ['accuracy', 'precision', 'recall', 'f1', 'roc_auc', 'brier', 'log_loss']
    """
    model = as_fit(theta_or_fit)
    records = _checked_records(model, X, y, release, sample_weight, clusters, target_values, offset)
    return overview_of(records, model, radius=radius, label_model=label_model, threshold=threshold)


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
    """Estimate the ROC curve of a model on true records from released ones in partitions.

    Parameters
    ----------
    theta_or_fit, release, thresholds, target_values, radius, label_model
        As for `symdebias.evaluation.roc_curve`.
    X, y, sample_weight, clusters, offset
        As for `evaluate`.

    Returns
    -------
    RocCurve
        As `symdebias.evaluation.roc_curve` returns.

    Raises
    ------
    SymdebiasError
        As for `symdebias.evaluation.roc_curve`.
    TypeError, ValueError
        An argument or the data do not fit; the message names the partition.
    MissingDependencyError
        Dask is not installed.

    Examples
    --------
    >>> import dask.array as da, numpy as np, symdebias as sd
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(20_000, 1))
    >>> y = np.where(rng.random(20_000) < 1 / (1 + np.exp(-2 * x[:, 0])), 1, -1)
    >>> release = sd.Release(target=sd.RandomizedResponse(epsilon=2.0))
    >>> noised = release.privatize(x, y, random_state=1)
    >>> X, y = (da.from_array(one, chunks=5_000) for one in (noised.X, noised.y))
    >>> curve = sd.distributed.roc_curve([2.0], X, y, release=release, thresholds=[1.0, 0.0, -1.0])
    >>> bool(np.all(np.diff(curve.true_positive_rates) > 0))
    True
    """
    model = as_fit(theta_or_fit)
    records = _checked_records(model, X, y, release, sample_weight, clusters, target_values, offset)
    return roc_curve_of(records, model, thresholds=thresholds, radius=radius, label_model=label_model)


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
    """Estimate what a model predicts against what happens, from released records in partitions.

    Parameters
    ----------
    theta_or_fit, release, points, bandwidth, link, target_values
        As for `symdebias.evaluation.calibration_curve`.
    X, y, sample_weight, clusters, offset
        As for `evaluate`.

    Returns
    -------
    CalibrationCurve
        As `symdebias.evaluation.calibration_curve` returns.

    Raises
    ------
    SymdebiasError
        As for `symdebias.evaluation.calibration_curve`.
    TypeError, ValueError
        An argument or the data do not fit; the message names the partition.
    MissingDependencyError
        Dask is not installed.

    Examples
    --------
    >>> import dask.array as da, numpy as np, symdebias as sd
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(20_000, 1))
    >>> y = np.where(rng.random(20_000) < 1 / (1 + np.exp(-x[:, 0])), 1, -1)
    >>> release = sd.Release(sd.GaussianMechanism.from_scale(0.5))
    >>> noised = release.privatize(x, y, random_state=1)
    >>> X, y = (da.from_array(one, chunks=5_000) for one in (noised.X, noised.y))
    >>> curve = sd.distributed.calibration_curve([1.0], X, y, release=release, points=3)
    >>> bool(np.all(np.diff(curve.predicted) > 0))
    True
    """
    model = as_fit(theta_or_fit)
    records = _checked_records(model, X, y, release, sample_weight, clusters, target_values, offset)
    return calibration_curve_of(records, model, points=points, bandwidth=bandwidth, link=link)


def cross_validate(
    candidates: Mapping[str, Candidate],
    X: Any,
    y: Any,
    *,
    release: Release,
    metric: str | Loss,
    folds: int = 5,
    random_state: int | np.random.Generator | None = None,
    sample_weight: Any = None,
    target_values: Sequence[float] | None = None,
    radius: float | None = None,
    label_model: str = "any",
    threshold: float = 0.0,
    offset: Any = None,
) -> CrossValidation:
    """Compare ways to fit a model by a corrected metric on held-out partitions.

    Parameters
    ----------
    candidates : mapping from str to callable
        As for `symdebias.evaluation.cross_validate`; each takes collections of Dask, as a partial of `m_estimate` does:
        ``functools.partial(sd.distributed.m_estimate, corrected, l2=0.1)``.
    X, y, sample_weight, target_values, radius, label_model, threshold, offset
        As for `evaluate`; weights and offsets go to the candidates too.
    metric : str or Loss
        A loss, or the name of a metric that is a mean over records: ``"log_loss"``, ``"brier"``, ``"accuracy"``,
        ``"squared_error"`` or ``"poisson"``.
    release : Release
        How the records were noised.
    folds : int
        How many parts partitions are held out in, from 2 to their number.
    random_state : int, numpy.random.Generator or None
        For the parts; None takes fresh entropy.

    Returns
    -------
    CrossValidation
        As `symdebias.evaluation.cross_validate` returns.

    Raises
    ------
    SymdebiasError
        Every candidate was refused.
    ValueError, TypeError
        An argument or the data do not fit. Such errors of a candidate are not caught.
    MissingDependencyError
        Dask is not installed.

    Notes
    -----
    A partition is held out as a whole, so that no record moves. Where partitions differ, as those by place or by day
    do, this asks how well a model does where it has not been; shuffle records before, to ask how well it does among
    such as it has seen.

    Examples
    --------
    >>> import dask.array as da, numpy as np, symdebias as sd
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(8_000, 1))
    >>> X, y = (da.from_array(one, chunks=1_000) for one in (x + rng.normal(size=x.shape), x[:, 0]))
    >>> table = sd.distributed.cross_validate(
    ...     {"half": lambda X, y: [0.5], "one": lambda X, y: [1.0]},
    ...     X, y, release=sd.Release(sd.GaussianMechanism.from_scale(1.0)), metric="squared_error", random_state=0,
    ... )
    >>> table.best
    'one'
    """
    check_candidates(candidates, "sd.distributed.m_estimate")
    check_options(metric, radius, label_model, threshold)
    if not isinstance(metric, Loss) and metric not in _MEANS:
        raise ValueError(
            f"metric={metric!r} is no mean over records, and candidates are compared record by record. Choose "
            f"{', '.join(_MEANS[:-1])} or {_MEANS[-1]}, or pass a Loss."
        )
    folds = Integer(2).check("folds", folds)
    records = _checked_records(None, X, y, release, sample_weight, None, target_values, offset)
    places = records.parts
    assert isinstance(places, _Places)
    count = len(places.partitions)
    if count < folds:
        raise ValueError(f"folds={folds} is more than the {count} partitions with records. Use fewer, or repartition.")
    fold_of = dealt(count, folds, generator(random_state))
    thetas: dict[str, list[FloatArray]] = {}
    refused: dict[str, str] = {}
    for name, fit in candidates.items():
        try:
            models = [_fitted(fit, places.partitions, np.flatnonzero(fold_of != fold)) for fold in range(folds)]
            thetas[name] = [records.parameters(as_fit(model), metric) for model in models]
        except SymdebiasError as error:
            refused[name] = f"{error}"
    require_any(thetas, refused)
    thetas = at_one_noise(metric, records, thetas, radius=radius, threshold=threshold)
    every = [theta for fitted in thetas.values() for theta in fitted]

    def judge_of(records: Records) -> Metric:
        return corrected_metric(
            metric, records, every, radius=radius, label_model=label_model, threshold=float(threshold)
        )

    judge = judge_of(records)
    each = _judged_together(places, judge, thetas, fold_of, refused)
    sums, units = Sums.together(each), dict(zip(thetas, np.eye(len(thetas)), strict=True))

    def powers(of: FloatArray) -> Powers:
        most = tail_count(sums.records) if judge.has_long_tails else 0
        work = functools.partial(Powers.of, of=of[:, None], mean=np.array([sums.mean(of)]), most=most)
        return Powers.together(_judged_by_part(places, judge, thetas.values(), fold_of, work), most)

    unseen = judge.unseen_label()

    @functools.cache
    def relabelled_means() -> FloatArray:
        parts = _judged_by_part(places, judge, thetas.values(), fold_of, Sums.of, label=unseen)
        return Sums.together(parts).means

    @functools.cache
    def with_other_labels() -> FloatArray:
        return np.array([judge.with_other_labels(own, sums.mean(units[name])) for name, own in thetas.items()])

    @functools.cache
    def means_under(release: Release) -> FloatArray:
        moved = replace(places, how={**places.how, "release": release})
        other = judge_of(records.under(release))
        return Sums.together(_judged_by_part(moved, other, thetas.values(), fold_of, Sums.of)).means

    def estimated(name: str, other: str | None, bias: float, certified: bool) -> Estimate:
        of = units[name] - (0.0 if other is None else units[other])
        made = Estimate(sums.mean(of), sums.error(of), bias, certified, sums.records, judge.name, judge.method)
        law = sums.error_law(of, lambda: powers(of))
        found = under_law(made, judge.skewed(law, thetas[name]) if other is None else law)
        others = dict(zip(thetas, with_other_labels().tolist(), strict=True))
        if other is None:
            found = replace(found, with_other_labels=others[name])
        else:
            both, alike = (others[name], others[other]), sums.is_rounding(of)
            found = told_apart(found, metric, thetas[name], thetas[other], threshold, both, alike=alike)
        if unseen is not None:
            moved = float(of @ (relabelled_means() - sums.means))
            found = replace(found, without_both_labels=judge.unseen_share * moved)
        return with_noise_estimated(found, records.collected, lambda release: float(of @ means_under(release)))

    by_part = [
        Sums.together([one for one, own in zip(each, fold_of, strict=True) if own == fold]) for fold in range(folds)
    ]
    by_fold = {name: np.array([float(one.means[place]) for one in by_part]) for place, name in enumerate(thetas)}
    biases = {name: [judge.bias(theta) for theta in fitted] for name, fitted in thetas.items()}
    return compared(judge, estimated, biases, by_fold, refused)


def _judged_together(
    places: "_Places",
    judge: Metric,
    thetas: dict[str, list[FloatArray]],
    fold_of: IntegerArray,
    refused: dict[str, str],
) -> list[Sums]:
    """Return the sums of each partition, a number for each candidate; those that are refused are moved.

    Raises
    ------
    SymdebiasError
        All of them are.
    """
    try:
        return _judged_by_part(places, judge, thetas.values(), fold_of, Sums.of)
    except SymdebiasError:
        # Which of them it is, only passes for each tell.
        for name, fitted in list(thetas.items()):
            try:
                _judged_by_part(places, judge, [fitted], fold_of, Sums.of)
            except SymdebiasError as error:
                refused[name] = f"{error}"
                del thetas[name]
    require_any(thetas, refused)
    return _judged_by_part(places, judge, thetas.values(), fold_of, Sums.of)


def _judged_by_part(
    places: "_Places",
    judge: Metric,
    thetas: Iterable[Sequence[FloatArray]],
    fold_of: IntegerArray,
    work: Callable[[FloatArray, FloatArray], Any],
    label: float | None = None,
) -> list[Any]:
    """Return what a function says of the metric of candidates and of weights, partition by partition.

    With `label` it is the metric as if all records had that one.
    """
    own = functools.partial(_judged, judge=judge.light, work=work, label=label)
    fitted = list(zip(*thetas, strict=True))
    return places.said(own, [(fitted[fold],) for fold in fold_of])


def _fitted(fit: Candidate, partitions: Partitions, places: Any) -> Any:
    """Return what a candidate makes of some partitions."""
    own = {name: some(values, places.tolist()) for name, values in partitions.collections.items()}
    if is_estimator(fit):
        raise TypeError(
            "estimators take records in memory. Pass functools.partial(sd.distributed.m_estimate, corrected)."
        )
    return fit(own.pop("X"), own.pop("y", None), **own)


@dataclass(frozen=True)
class _Places:
    """Released records in partitions.

    Attributes
    ----------
    partitions : Partitions
        Those that have records, of X, y, weights, clusters and offsets.
    how : mapping
        The model, the release and the labels, as `Records.checked` takes them.
    """

    partitions: Partitions
    how: Mapping[str, Any]

    def said(self, work: Callable[..., Any], more: Sequence[tuple[Any, ...]] | None = None) -> list[Any]:
        """Return what a function says of the records of each partition, and of what there is more for each."""
        return self.partitions.each(functools.partial(_of_records, work=work, **self.how), more)

    def each(self, work: Callable[[Records], Any]) -> Iterator[Any]:
        """Yield what a function says of the records of each partition, in order."""
        return iter(self.said(work))

    def reduced(self, work: Callable[[Records], Any], combine: Callable[..., Any]) -> Any:
        """Return what a function says of the records of each partition, put together."""
        return self.partitions.reduced(functools.partial(_of_records, work=work, **self.how), combine)

    def require_values(self, values: Sequence[float]) -> None:
        """Ask nothing: partitions without weight are no parts."""


def _checked_records(
    model: Any, X: Any, y: Any, release: Release | None, sample_weight: Any, clusters: Any, target_values: Any,
    offset: Any,
) -> PartedRecords:  # fmt: skip
    """Return records in partitions, checked in one pass, with some of them at hand."""
    release = release_of(model, release)
    partitions = Partitions(X=X, y=y, sample_weight=sample_weight, clusters=clusters, offset=offset)
    # The fit's release and labels are what records are checked by; its history stays here.
    model = replace(model, history=type(model.history).empty(model.theta)) if isinstance(model, Fit) else None
    how = {"model": model, "release": release, "target_values": target_values}
    said = partitions.first(functools.partial(_checked, **how))
    full = [place for place, one in enumerate(said) if one is not None]
    if not full:
        raise ValueError(
            "X has no records in any partition, or every sample_weight is zero. Pass a collection with two at least."
        )
    places = _Places(partitions.only(full), how)
    counts, present, weights, squares, labels = zip(*(said[place] for place in full), strict=True)
    if clusters is not None:
        require_clusters(len(np.unique(np.concatenate(labels))))
    ends = np.cumsum([0, *present])

    def places_over(most: int) -> list[tuple[IntegerArray]]:
        some = spread_over(int(ends[-1]), most)
        some = np.arange(ends[-1]) if isinstance(some, slice) else some
        own = np.split(some, np.searchsorted(some, ends[1:-1]))
        return [(one - start,) for one, start in zip(own, ends[:-1], strict=True)]

    parts = places.said(_some, places_over(SAMPLED))
    columns = [
        None if one[0] is None else np.concatenate(one) for one in zip(*(part[1:] for part in parts), strict=True)
    ]
    count, starts = sum(counts), np.cumsum([0, *counts[:-1]])
    every = np.concatenate([start + part[0] for start, part in zip(starts, parts, strict=True)])
    first = next(place for place, part in enumerate(parts) if len(part[0]))
    (sample,) = _Places(places.partitions.only([first]), how).said(_first)
    sample = replace(
        sample, **dict(zip(("matrix", "target", "weights", "clusters"), columns, strict=True))
    )  # fmt: skip

    def fetch() -> Records:
        columns = zip(*places.said(_few, places_over(FEW)), strict=True)
        fetched = [None if own[0] is None else np.concatenate(own) for own in columns]
        names = ("X", "y", "matrix", "target", "weights")
        few: Records = replace(sample, clusters=None, **dict(zip(names, fetched, strict=True)), memo={})
        return few

    records = PartedRecords.of(
        sample, places, count=count, weight=float(sum(weights)), square=float(sum(squares)), every=every, fetch=fetch
    )
    records.require_several()
    return records


def _records(
    X: Any, y: Any, weights: Any, clusters: Any, offset: Any, model: Any, release: Any, target_values: Any,
    knows_weights: bool,
) -> Records:  # fmt: skip
    found = Records.checked(
        model, X, y, release, sample_weight=weights, target_values=target_values, offset=offset,
        knows_weights=knows_weights,
    )  # fmt: skip
    return found if clusters is None else replace(found, clusters=cluster_labels(clusters, rows=len(found)))


def _checked(
    X: Any, y: Any, weights: Any, clusters: Any, offset: Any, *, model: Any, release: Any, target_values: Any
) -> tuple[int, int, float, float, Any] | None:
    """Return the numbers of records and of those with weight, sums of weights and of their squares, and two clusters.

    None stands for all where no record has weight.
    """
    if not len(X):
        return None
    if is_without_weight(weights, len(X)):
        _records(X, y, None, clusters, offset, model, release, target_values, False)
        return None
    records = _records(X, y, weights, clusters, offset, model, release, target_values, False)
    own = records.weights
    two = None if clusters is None else np.unique(records.clusters)[:2]
    return len(records), int(np.count_nonzero(own)), float(own.sum()), float(own @ own), two


def _of_records(
    X: Any, y: Any, weights: Any, clusters: Any, offset: Any, *more: Any,
    work: Any, model: Any, release: Any, target_values: Any,
) -> Any:  # fmt: skip
    # Records of partitions have been checked once.
    return work(_records(X, y, weights, clusters, offset, model, release, target_values, True), *more)


def _some(records: Records, rows: IntegerArray) -> tuple[Any, ...]:
    """Return the places, columns, targets, weights and clusters of some records with weight, by themselves."""
    places = np.flatnonzero(records.weights)[rows]
    own = (records.matrix, records.target, records.weights, records.clusters)
    return places, *(None if one is None else np.array(one[places]) for one in own)


def _few(records: Records, rows: IntegerArray) -> tuple[Any, ...]:
    """Return X, y, columns, targets and weights of some records with weight."""
    places = np.flatnonzero(records.weights)[rows]
    X = released_array(records.collected, take_rows(records.X, places), check_finite=False)
    y = None if records.y is None else np.asarray(take_rows(records.y, places))
    return X, y, *(np.array(one[places]) for one in (records.matrix, records.target, records.weights))


def _first(records: Records) -> Records:
    """Return the first record, without what it is a part of."""
    found = records.only(slice(0, 1))
    X, y = (None if one is None else take_rows(one, np.zeros(1, dtype=int)) for one in (found.X, found.y))
    return replace(found, X=X, y=y)


def _judged(
    records: Records, thetas: Sequence[FloatArray], *, judge: Metric, work: Callable[..., Any], label: float | None
) -> Any:
    own = judge.on(records if label is None else relabelled(records, label))
    values = np.column_stack([own.checked_values([theta], [slice(None)]) for theta in thetas])
    return work(values, records.weights)
