"""Cross-validation: ways to fit a model, compared by a corrected metric on held-out released records."""

import functools
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from symdebias._arrays import FloatArray, IntegerArray, take_rows
from symdebias._blas import one_thread
from symdebias._copies import at_hand
from symdebias._domains import Integer, check_flag, kind_or_value
from symdebias._progress import progress_bar
from symdebias._randomness import generator
from symdebias._rows import Rows, in_memory
from symdebias.evaluation.estimate import (
    OF_ORDER,
    WITH_THRESHOLD,
    Estimate,
    at_one_noise,
    check_options,
    corrected_metric,
    estimate_of,
    with_noise_estimated,
)
from symdebias.evaluation.metric import Metric, relabelled, unseen_of_share
from symdebias.evaluation.models import Model, as_fit, fitting, is_estimator
from symdebias.evaluation.records import ROWS, Records
from symdebias.exceptions import SymdebiasError
from symdebias.losses import Loss
from symdebias.reading import of_memory_map
from symdebias.release import Release
from symdebias.solvers.offsets import as_offset

Candidate = Callable[..., Model]
# The degrees of freedom of a standard error that no record tells: no other error makes up for what it hides.
_NOTHING_TOLD = 0.5


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

    Examples
    --------
    >>> import numpy as np
    >>> import symdebias as sd
    >>> X = np.random.default_rng(0).normal(size=(2_000, 1))
    >>> noised = sd.Release(sd.GaussianMechanism.from_scale(1.0)).privatize(X, X[:, 0], random_state=1)
    >>> table = sd.evaluation.cross_validate(
    ...     {"half": lambda X, y: [0.5], "one": lambda X, y: [1.0]},
    ...     noised.X, noised.y, release=noised.release, metric="squared_error", random_state=0,
    ... )
    >>> table.best, table.one_standard_error, list(table.estimates)
    ('one', 'one', ['half', 'one'])
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
        return _best(self.estimates, self.higher_is_better)

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
        is_biased = any(estimate.bias > 0 for estimate in (*self.estimates.values(), *self.differences.values()))
        bias = f"{'bias up to':>12}" if is_biased else ""
        lines = [f"{'':<{width}}{self.metric:>16}{'(se)':>11}{bias}{'to the best':>14}{'(se)':>11}{bias}"]
        for name, estimate in self.estimates.items():
            difference = self.differences[name]
            mark = "  <- best" if name == self.best else ""
            mark += "  <- within one standard error" if name == self.one_standard_error != self.best else ""
            biases = [f"{one.bias:>12.2g}" if is_biased else "" for one in (estimate, difference)]
            lines.append(
                f"{name:<{width}}{estimate.value:>16.6g}{estimate.standard_error:>11.2g}{biases[0]}"
                f"{difference.value:>14.4g}{difference.standard_error:>11.2g}{biases[1]}{mark}"
            )
        lines += [f"{name:<{width}}  refused: {reason}" for name, reason in self.refused.items()]
        return "\n".join(lines)


@one_thread()
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
    threshold: float = 0.0,
    progress: bool = False,
    offset: Any = None,
) -> CrossValidation:
    """Compare ways to fit a model by a corrected metric on held-out released records.

    Parameters
    ----------
    candidates : mapping from str to callable, DebiasedClassifier or DebiasedRegressor
        Each takes X and y, and returns a Fit, a fitted estimator or parameters; with `sample_weight` or `offset` it is
        given the keyword of that name as well; of a long memory map it is given the rows of the parts, which are read
        where they are. A partial of a solver does:
        ``functools.partial(sd.m_estimate, corrected, l2=0.1)``; of an estimator a copy is fitted. Give them from the
        simplest to the most complex for `CrossValidation.one_standard_error`.
    X, y, metric, target_values, radius, label_model, threshold
        As for `evaluate`. Metrics that are no means over records, which are precision, recall, f1, roc_auc and r2, are
        those of each part, averaged over parts by their weights. What the ratios are off in the mean because parts
        are small, to the order of 1/n, is in `Estimate.bias`.
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
    progress : bool
        Show a progress bar of the fits (needs the extra ``progress``).
    offset : array of shape (n,), optional
        A known term of the score of each record, as for `m_estimate`, in the fits and in the metric.

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
    OSError
        There is no room for a copy of records that are read in order.

    Notes
    -----
    Parts are of records from everywhere. Those of `symdebias.blocks.from_parquet` and `symdebias.blocks.from_iterator`
    are copied once, by one pass, to a file without a name in the folder for temporary ones (`tempfile.gettempdir`,
    which the environment variable TMPDIR names): 8 bytes for each number of X and y. It is gone with the process or
    with the last of what reads it, such as rows that a candidate keeps or an error that is looked at. Where that folder
    is a part of memory, name another.

    Only released records are used, so that it costs no privacy. All candidates are judged by one corrected metric: a
    surrogate is designed once, for the widest range and the largest noise among them, so that their differences are
    paired. For metrics of signs and ranks (accuracy, precision, recall, f1 at a threshold of 0, and roc_auc), which do
    not depend on the length of the parameters, candidates are compared at lengths with the same noise, unless `radius`
    bounds their scores. A candidate that raises a SymdebiasError in any part is refused.

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
    >>> table = sd.evaluation.cross_validate(
    ...     {"half": lambda X, y: [0.5], "one": lambda X, y: [1.0]},
    ...     noised.X, noised.y, release=release, metric="squared_error", random_state=0,
    ... )
    >>> table.best  # the naive squared error is least at one half
    'one'
    """
    progress = check_flag("progress", progress)
    check_candidates(candidates, "sd.m_estimate")
    check_options(metric, radius, label_model, threshold)
    X, y = _at_hand(release, X, y)
    records = Records.checked(
        None, X, y, release,
        sample_weight=sample_weight, clusters=clusters, target_values=target_values, offset=offset,
    )  # fmt: skip
    given = {"X": X, "y": y} | ({} if sample_weight is None else {"sample_weight": records.weights})
    given |= {} if offset is None else {"offset": as_offset(offset, len(records))}
    parts = _parts(records, Integer(2).check("folds", folds), generator(random_state))
    thetas: dict[str, list[FloatArray]] = {}
    values: dict[str, FloatArray] = {}
    refused: dict[str, str] = {}
    with progress_bar(progress, len(candidates) * len(parts), "fit") as advance:
        for name, fit in candidates.items():
            fitted: list[FloatArray] = []
            try:
                for part in parts:
                    found = _fitted(fit, given, np.delete(np.arange(len(records)), part))
                    fitted.append(records.parameters(as_fit(found), metric))
                    advance(1)
                thetas[name] = fitted
            except SymdebiasError as error:
                refused[name] = f"{error}"
                advance(len(parts) - len(fitted))
    if thetas:
        thetas = at_one_noise(metric, records, thetas, radius=radius, threshold=threshold)
        every = [theta for fitted in thetas.values() for theta in fitted]

        def judge_of(records: Records) -> Metric:
            return corrected_metric(
                metric, records, every, radius=radius, label_model=label_model, threshold=float(threshold)
            )

        judge = judge_of(records)
        for name, fitted in thetas.items():
            try:
                values[name] = judge.checked_values(fitted, parts)
            except SymdebiasError as error:
                refused[name] = f"{error}"
    require_any(values, refused)

    weights, unseen = records.weights, judge.unseen_label()
    shares = np.array([weights[part].sum() for part in parts]) / weights.sum()

    @functools.cache
    def relabelled_values(name: str) -> FloatArray:
        assert unseen is not None
        return judge.on(relabelled(records, unseen)).checked_values(thetas[name], parts)

    @functools.cache
    def with_other_labels(name: str) -> float:
        value = records.mean_and_error(values[name])[0]
        members = [judge.members(theta, part) for theta, part in zip(thetas[name], parts, strict=True)]
        return judge.with_other_labels(thetas[name], value) + unseen_of_share(value, of_all(members, shares))

    @functools.cache
    def fewest_carriers(name: str) -> float:
        return min(judge.carriers(theta, part) for theta, part in zip(thetas[name], parts, strict=True))

    @functools.cache
    def judge_under(release: Release) -> Metric:
        return judge_of(records.under(release))

    @functools.cache
    def values_under(release: Release, name: str) -> FloatArray:
        return judge_under(release).checked_values(thetas[name], parts)

    def estimated(name: str, other: str | None, bias: float, certified: bool) -> Estimate:
        def value(release: Release) -> float:
            less = 0.0 if other is None else values_under(release, other)
            return records.mean_and_error(values_under(release, name) - less)[0]

        own = values[name] - (0.0 if other is None else values[other])
        alone = thetas[name] if other is None else ()
        carriers = min(fewest_carriers(one) for one in (name, other) if one is not None)
        found = estimate_of(judge, own, bias, certified, thetas=alone, carriers=carriers)
        if other is None:
            found = replace(found, with_other_labels=with_other_labels(name))
        else:
            others = with_other_labels(name), with_other_labels(other)
            alike = not found.standard_error > 0
            found = told_apart(found, metric, thetas[name], thetas[other], threshold, others, alike=alike)
        if unseen is not None:
            moved = relabelled_values(name) - (0.0 if other is None else relabelled_values(other)) - own
            found = replace(found, without_both_labels=judge.unseen_share * records.mean_and_error(moved)[0])
        return with_noise_estimated(found, records.collected, value)

    by_fold = {
        name: np.array([np.average(own[part], weights=weights[part]) for part in parts]) for name, own in values.items()
    }
    biases = {name: [judge.bias(theta) for theta in thetas[name]] for name in values}
    found = compared(judge, estimated, biases, by_fold, refused)
    off = {
        name: float(shares @ [judge.bias_of_few(theta, part) for theta, part in zip(thetas[name], parts, strict=True)])
        for name in values
    }
    return _with_bias_of_few(found, off)


def _with_bias_of_few(found: CrossValidation, off: Mapping[str, float]) -> CrossValidation:
    """Return a table whose biases have in them what ratios of parts are off, which averages over parts keep."""

    def wider(one: Estimate, by: float) -> Estimate:
        return replace(one, bias=one.bias + abs(by), bias_is_certified=False) if by else one

    best = off[found.best]
    return replace(
        found,
        estimates={name: wider(one, off[name]) for name, one in found.estimates.items()},
        differences={name: wider(one, off[name] - best) for name, one in found.differences.items()},
    )


def of_all(members: Sequence[float], shares: FloatArray) -> float:
    """Return how many members make a mean over parts, of shares of so many of them each, as sure as one share is."""
    least = min(members)
    return 1 / float(np.sum(shares**2 / np.array(members))) if 0 < least < math.inf else least


def told_apart(
    found: Estimate,
    metric: str | Loss,
    first: Sequence[FloatArray],
    second: Sequence[FloatArray],
    threshold: float,
    others: tuple[float, float],
    *,
    alike: bool,
) -> Estimate:
    """Return the difference of candidates with what it may be for records of which there is none.

    How rare records are that two judge apart is not told by records that all are judged alike: there is no interval.
    Noise of scores judges them apart, and hides whether there are any: an interval of a difference of shares reaches
    as far on both sides as that of either. Parameters that are the same judge no record apart, nor do those that are
    longer alone where signs and ranks are all that counts.

    Parameters
    ----------
    found : Estimate
        The difference.
    metric, first, second, threshold
        The metric, and the parameters of both candidates, part by part.
    others : tuple of two floats
        How far labels that no record has may move each of both, `Estimate.with_other_labels`.
    alike : bool
        Whether all records are judged alike.
    """
    # Both may be infinite.
    by_labels = 0.0 if first is second else others[0] - others[1]
    is_share = not isinstance(metric, Loss) and metric in WITH_THRESHOLD
    if not (alike or is_share):
        return replace(found, with_other_labels=by_labels)
    if are_one(metric, first, second, threshold):
        return replace(found, with_other_labels=0.0 if is_share else by_labels)
    if alike:
        found = replace(found, degrees_of_freedom=_NOTHING_TOLD)
    return replace(found, with_other_labels=max(map(abs, others)) if is_share else by_labels)


def are_one(metric: str | Loss, first: Sequence[FloatArray], second: Sequence[FloatArray], threshold: float) -> bool:
    """Whether two candidates judge no record apart, whatever it is."""
    of_order = not isinstance(metric, Loss) and metric in OF_ORDER and not threshold

    def direction(theta: FloatArray) -> FloatArray:
        length = float(np.linalg.norm(theta)) if of_order else 1.0
        return theta / (length if length > 0 else 1.0)

    pairs = [(direction(one), direction(other)) for one, other in zip(first, second, strict=True)]
    return all(np.allclose(one, other, rtol=1e-12, atol=1e-15 if of_order else 0.0) for one, other in pairs)


def check_candidates(candidates: Any, solver: str) -> None:
    """Raise TypeError where candidates are no mapping from names to callables; a solver is named as an example."""
    if (
        not isinstance(candidates, Mapping)
        or not candidates
        or not all(callable(fit) or is_estimator(fit) for fit in candidates.values())
    ):
        raise TypeError(
            "candidates must map names, at least one, to callables of X and y that return a Fit; got "
            f"{kind_or_value(candidates)}. "
            f"Pass {{'l2 = 0.1': functools.partial({solver}, corrected, l2=0.1)}}, for instance."
        )
    for name, fit in candidates.items():
        if isinstance(fit, type):
            raise TypeError(
                f"the candidate {name!r:.60} is the class {fit.__name__}, and no model. Call it: {fit.__name__}(...)."
            )


def require_any(judged: Collection[str], refused: Mapping[str, str]) -> None:
    """Raise SymdebiasError where no candidate is left."""
    if not judged:
        reasons = "\n".join(f"  {name}: {reason}" for name, reason in refused.items())
        raise SymdebiasError(f"every candidate was refused:\n{reasons}\nGive one that can be fitted to these records.")


def compared(
    judge: Metric,
    estimated: Callable[[str, str | None, float, bool], Estimate],
    biases: Mapping[str, Sequence[tuple[float, bool]]],
    by_fold: Mapping[str, FloatArray],
    refused: Mapping[str, str],
) -> CrossValidation:
    """Return the table of candidates, whose differences are of the same records.

    Parameters
    ----------
    judge : Metric
        The metric.
    estimated : callable
        The estimate of a candidate, less that of another one where one is named, with a bound on its bias and whether
        it is certified.
    biases : mapping from str to sequence of (float, bool)
        By candidate: the bias in each part, and whether it is certified.
    by_fold, refused
        As in the table.
    """
    estimates = {
        name: estimated(name, None, max(bias for bias, _ in own), all(known for _, known in own))
        for name, own in biases.items()
    }
    best = _best(estimates, judge.higher_is_better)
    differences = {}
    for name, one in estimates.items():
        bias = 0.0 if name == best else one.bias + estimates[best].bias - 2 * judge.common_bias
        certified = one.bias_is_certified and estimates[best].bias_is_certified
        # It is no share where the metric is one: below 0 it is not out of range.
        difference = estimated(name, best, bias, certified)
        differences[name] = replace(difference, metric=f"difference of {judge.name}")
    return CrossValidation(estimates, differences, by_fold, refused, judge.name, judge.higher_is_better)


def _best(estimates: Mapping[str, Estimate], higher_is_better: bool) -> str:
    sign = -1 if higher_is_better else 1
    return min(estimates, key=lambda name: sign * estimates[name].value)


def dealt(count: int, folds: int, rng: np.random.Generator) -> IntegerArray:
    """Return the part that each of so many things is in: parts of equal size, by chance."""
    part_of = np.empty(count, dtype=np.int64)
    part_of[rng.permutation(count)] = np.arange(count) % folds
    return part_of


def _parts(records: Records, folds: int, rng: np.random.Generator) -> list[IntegerArray]:
    """Return the records of each held-out part; clusters stay together."""
    codes = np.arange(len(records.weights)) if records.clusters is None else records.clusters
    count = int(codes.max()) + 1
    if count < folds:
        what = "records" if records.clusters is None else "clusters"
        raise ValueError(f"folds={folds} is more than the {count} {what}. Use fewer folds.")
    part_of = dealt(count, folds, rng)
    parts = [np.flatnonzero(part_of[codes] == part) for part in range(folds)]
    if not all(records.weights[part].any() for part in parts):
        raise ValueError("sample_weight is 0 for every record of a part. Use fewer folds, or leave such records out.")
    return parts


def _fitted(fit: Candidate, given: Mapping[str, Any], rows: IntegerArray) -> Any:
    """Return what a candidate makes of some records, from what there is of all."""
    own = {name: None if values is None else _some_of(values, rows) for name, values in given.items()}
    fit = fitting(fit)
    return fit(own.pop("X"), own.pop("y"), **own)


def _some_of(values: Any, rows: IntegerArray) -> Any:
    """Return some records, of rows that are read where they are without a copy."""
    return values.only(rows) if isinstance(values, Rows) else take_rows(values, rows)


def _at_hand(release: Release, X: Any, y: Any) -> tuple[Any, Any]:
    """Return records whose parts are read where they are, of a source that is read in order in a copy, and targets."""
    # What is no release is refused where records are checked.
    X, y = at_hand(X, y, release.columns if isinstance(release, Release) else None)
    return of_memory_map(X) if isinstance(X, np.memmap) and len(X) > ROWS else X, in_memory(y)
