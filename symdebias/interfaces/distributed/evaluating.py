"""Metrics of models on records in the partitions of a Dask collection: sums over partitions, whole partitions held out.

What is summed is centred in each partition, so that nothing is lost to rounding where sums are put together.
"""

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from symdebias._arrays import FloatArray, IntegerArray
from symdebias._domains import Integer
from symdebias._randomness import generator
from symdebias.evaluation.cross_validation import (
    Candidate,
    CrossValidation,
    check_candidates,
    compared,
    dealt,
    require_any,
)
from symdebias.evaluation.estimate import Estimate, check_options
from symdebias.evaluation.mean_loss import MeanLoss, mean_loss_of, named_loss, of_residuals, surrogate_is_residual
from symdebias.evaluation.records import Records
from symdebias.evaluation.scores import ReleasedScores, Spread, estimated_moments
from symdebias.exceptions import SymdebiasError
from symdebias.interfaces.distributed.partitions import Partitions, some
from symdebias.losses import Loss
from symdebias.release import Release
from symdebias.solvers.fit import Fit

# Those that are means of a number per record and a loss of the parameters.
_MEANS = ("log_loss", "brier", "squared_error", "poisson")


def evaluate(
    theta_or_fit: Fit | ArrayLike,
    X: Any,
    y: Any,
    *,
    metric: str | Loss,
    release: Release | None = None,
    sample_weight: Any = None,
    target_values: Sequence[float] | None = None,
    radius: float | None = None,
) -> Estimate:
    """Estimate the mean of a loss on true records from released ones in partitions.

    Parameters
    ----------
    theta_or_fit, release, target_values, radius
        As for `symdebias.evaluation.evaluate`.
    X : data frame or array of Dask, of shape (n, p)
        The released records, at least two in a partition that has any.
    y : series or array of Dask, of shape (n,)
        The released targets, in the same partitions.
    metric : str or Loss
        A loss, or the name of a metric that is the mean of one: ``"log_loss"``, ``"brier"``,
        ``"squared_error"``, ``"poisson"``.
    sample_weight : series or array of Dask, of shape (n,), optional
        Non-negative weights, not all 0 in any partition.

    Returns
    -------
    Estimate
        That of all records on one machine, to rounding.

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
    Two passes where the correction is exact; two more tell where scores lie, for the range of a surrogate. Metrics that
    are no means of a loss, such as accuracy and r2, are estimated from a part of the records on one machine:
    ``symdebias.evaluation.evaluate(fit, X[:100_000].compute(), ...)``.

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
    check_options(metric, radius, "any")
    test = _Test.of(Partitions(X=X, y=y, sample_weight=sample_weight), theta_or_fit, metric, release, target_values)
    theta = test.sample.parameters(theta_or_fit, metric)
    judge = test.judge([theta], radius)
    sums = test.summed(judge, [[theta]] * len(test.partitions))
    return _estimate(judge, sums, np.ones(1), *test.bias(judge, theta))


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
) -> CrossValidation:
    """Compare ways to fit a model by a corrected metric on held-out partitions.

    Parameters
    ----------
    candidates : mapping from str to callable
        As for `symdebias.evaluation.cross_validate`; each takes collections of Dask, as a partial of `m_estimate` does:
        ``functools.partial(sd.distributed.m_estimate, corrected, l2=0.1)``.
    X, y, metric, sample_weight, target_values, radius
        As for `evaluate`.
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
    check_options(metric, radius, "any")
    folds = Integer(2).check("folds", folds)
    test = _Test.of(Partitions(X=X, y=y, sample_weight=sample_weight), None, metric, release, target_values)
    count = len(test.partitions)
    if count < folds:
        raise ValueError(f"folds={folds} is more than the {count} partitions with records. Use fewer, or repartition.")
    fold_of = dealt(count, folds, generator(random_state))
    thetas: dict[str, list[FloatArray]] = {}
    refused: dict[str, str] = {}
    for name, fit in candidates.items():
        try:
            models = [_fitted(fit, test.partitions, np.flatnonzero(fold_of != fold)) for fold in range(folds)]
            thetas[name] = [test.sample.parameters(model, metric) for model in models]
        except SymdebiasError as error:
            refused[name] = f"{error}"
    require_any(thetas, refused)
    judge = test.judge([theta for fitted in thetas.values() for theta in fitted], radius)
    each = _judged_together(test, judge, thetas, fold_of, refused)
    sums, units = _Sums.together(each), dict(zip(thetas, np.eye(len(thetas)), strict=True))

    def estimated(name: str, other: str | None, bias: float, certified: bool) -> Estimate:
        return _estimate(judge, sums, units[name] - (0.0 if other is None else units[other]), bias, certified)

    by_part = [
        _Sums.together([one for one, own in zip(each, fold_of, strict=True) if own == fold]) for fold in range(folds)
    ]
    by_fold = {name: np.array([float(one.means[place]) for one in by_part]) for place, name in enumerate(thetas)}
    biases = {name: [test.bias(judge, theta) for theta in fitted] for name, fitted in thetas.items()}
    return compared(judge, estimated, biases, by_fold, refused)


def _judged_together(
    test: "_Test", judge: MeanLoss, thetas: dict[str, list[FloatArray]], fold_of: IntegerArray, refused: dict[str, str]
) -> "list[_Sums]":
    """Return the sums of each partition, a number for each candidate; those that are refused are moved.

    Raises
    ------
    SymdebiasError
        All of them are.
    """
    try:
        return test.sums(judge, [[fitted[fold] for fitted in thetas.values()] for fold in fold_of])
    except SymdebiasError:
        # Which of them it is, only passes for each tell.
        for name, fitted in list(thetas.items()):
            try:
                test.sums(judge, [[fitted[fold]] for fold in fold_of])
            except SymdebiasError as error:
                refused[name] = f"{error}"
                del thetas[name]
    require_any(thetas, refused)
    return test.sums(judge, [[fitted[fold] for fitted in thetas.values()] for fold in fold_of])


def _fitted(fit: Candidate, partitions: Partitions, places: Any) -> Any:
    """Return what a candidate makes of some partitions."""
    own = {name: some(values, places.tolist()) for name, values in partitions.collections.items()}
    return fit(own.pop("X"), own.pop("y", None), **own)


@dataclass(frozen=True)
class _Sums:
    """Numbers per record, several for each: their weighted means, and sums about these.

    Attributes
    ----------
    records : int
        How many records.
    weight, square : float
        The sums of their weights w, and of w^2.
    means : array of shape (k,), float64
        The weighted means m.
    first : array of shape (k,), float64
        The sums of w^2 (v - m).
    second : array of shape (k, k), float64
        The sums of w^2 (v - m)(v - m)'.
    """

    records: int
    weight: float
    square: float
    means: FloatArray
    first: FloatArray
    second: FloatArray

    @classmethod
    def of(cls, values: FloatArray, weights: FloatArray) -> "_Sums":
        """Return those of values of shape (n, k)."""
        means = weights @ values / weights.sum()
        centred, squares = values - means, weights**2
        return cls(
            len(values), float(weights.sum()), float(squares.sum()), means, squares @ centred,
            (centred * squares[:, None]).T @ centred,
        )  # fmt: skip

    @classmethod
    def together(cls, parts: Sequence["_Sums"]) -> "_Sums":
        """Return those of all records of some parts."""
        weight = sum(part.weight for part in parts)
        means = sum((part.weight * part.means for part in parts), np.zeros(())) / weight
        first, second = np.zeros(()), np.zeros(())
        for part in parts:
            move = part.means - means
            crossed = np.multiply.outer(part.first, move)
            first = first + part.first + part.square * move
            second = second + part.second + crossed + crossed.T + part.square * np.multiply.outer(move, move)
        return cls(
            sum(part.records for part in parts), weight, sum(part.square for part in parts), means, first, second
        )

    def mean_and_error(self, of: FloatArray) -> tuple[float, float]:
        """Return the mean of a combination of the numbers, and its standard error over records."""
        square = max(float(of @ self.second @ of), 0.0) / self.weight**2
        return float(of @ self.means), math.sqrt(self.records / (self.records - 1) * square)


@dataclass(frozen=True)
class _Test:
    """Checked records in partitions that a metric is estimated on.

    Attributes
    ----------
    partitions : Partitions
        Those that have records, of X, y and weights.
    sample : Records
        Two of them.
    metric : str or Loss
        The metric.
    model, release, target_values
        As for `evaluate`.
    weight, square, target_square : float
        Sums of the weights, of their squares, and of weighted squared targets.
    """

    partitions: Partitions
    sample: Records
    metric: str | Loss
    model: Any
    release: Release | None
    target_values: Any
    weight: float
    square: float
    target_square: float

    @classmethod
    def of(cls, partitions: Partitions, model: Any, metric: str | Loss, release: Any, target_values: Any) -> "_Test":
        """Return records that a user gave, checked in one pass."""
        if not isinstance(metric, Loss) and metric not in _MEANS:
            raise ValueError(
                f"metric={metric!r} is no mean over records, and here sums over partitions are all there is. "
                f"Choose {', '.join(_MEANS[:-1])} or {_MEANS[-1]}, pass a Loss, or evaluate a part of the records: "
                "symdebias.evaluation.evaluate(fit, X[:100_000].compute(), ...)."
            )
        if release is None and not isinstance(model, Fit):
            raise ValueError(
                "parameters alone do not say how the records were noised. Pass release=, a Fit, or "
                "release=symdebias.Release() for records that are true."
            )
        # The fit's release and labels are what records are checked by; its history stays here.
        model = replace(model, history=type(model.history).empty(model.theta)) if isinstance(model, Fit) else None
        how = {"model": model, "release": release, "target_values": target_values}
        said = partitions.each(functools.partial(_checked, **how))
        full = [place for place, one in enumerate(said) if one is not None]
        if not full:
            raise ValueError("X has no records in any partition. Pass a collection with two at least.")
        partitions = partitions.only(full)
        (sample,) = partitions.only([0]).each(functools.partial(_first_two, **how))
        sums = (float(sum(one)) for one in zip(*(said[place] for place in full), strict=True))
        return cls(partitions, sample, metric, model, release, target_values, *sums)

    def judge(self, thetas: Sequence[FloatArray], radius: float | None) -> MeanLoss:
        """Return the metric, corrected for all thetas that are to be compared."""
        metric = self.metric
        loss = metric if isinstance(metric, Loss) else named_loss(metric, self.sample)
        name = metric if isinstance(metric, str) else metric.name or str(metric.expression)
        spreads: dict[bytes, Spread] = {}
        is_residual = surrogate_is_residual(loss, self.sample.collected)
        if is_residual is not None:
            spreads = {
                theta.tobytes(): spread
                for theta, spread in zip(thetas, self._spreads(thetas, is_residual), strict=True)
            }
        return mean_loss_of(
            name, loss, self.sample, spreads, effective=self.weight**2 / self.square,
            size=math.sqrt(self.target_square / self.weight), radius=radius,
        )  # fmt: skip

    def _spreads(self, thetas: Sequence[FloatArray], is_residual: bool) -> list[Spread]:
        """Return where true scores, or residuals, lie at each theta."""
        look = functools.partial(self._each, thetas=thetas, is_residual=is_residual)
        said = look(_moments)
        found = []
        for place in range(len(thetas)):
            own = [part[place] for part in said]
            first, second = (sum(part[k] for part in own) / self.weight for k in (0, 1))
            low, high = min(part[2] for part in own), max(part[3] for part in own)
            bound, noise = max(part[4] for part in own), own[0][5]
            found.append((first, second, max(high - first, first - low), bound, noise))
        middles = [(first, second) for first, second, *_ in found]
        errors = np.sum(look(functools.partial(_influences, middles=middles)), axis=0) / self.weight**2
        return [
            Spread.known(first, second - first**2, float(error), noise, farthest, bound)
            for (first, second, farthest, bound, noise), error in zip(found, errors, strict=True)
        ]

    def _each(self, work: Any, *, thetas: Sequence[FloatArray], is_residual: bool) -> list[Any]:
        return self._over(functools.partial(_of_scores, work=work, thetas=thetas, is_residual=is_residual))

    def _over(self, work: Any, more: Sequence[tuple[Any, ...]] | None = None) -> list[Any]:
        """Return what a function says of the records of each partition."""
        how = {"model": self.model, "release": self.release, "target_values": self.target_values}
        return self.partitions.each(functools.partial(_of_records, work=work, **how), more)

    def sums(self, judge: MeanLoss, thetas: Sequence[Sequence[FloatArray]]) -> list[_Sums]:
        """Return the sums of the metric of each partition, at thetas of its own."""
        return self._over(functools.partial(_judged, judge=judge), [(list(own),) for own in thetas])

    def summed(self, judge: MeanLoss, thetas: Sequence[Sequence[FloatArray]]) -> _Sums:
        """Return the sums of the metric of all records."""
        return _Sums.together(self.sums(judge, thetas))

    def bias(self, judge: MeanLoss, theta: FloatArray) -> tuple[float, bool]:
        """Return a bound on the bias of the metric at theta, and whether it is certified."""
        if judge.corrected.label_mixing is None:
            return judge.bias(theta)
        # The worst label at each score is looked for record by record.
        said = self._over(functools.partial(_bias, judge=judge, theta=theta))
        return sum(weight * bias for weight, bias, _ in said) / self.weight, all(known for *_, known in said)


def _estimate(judge: MeanLoss, sums: _Sums, of: FloatArray, bias: float, certified: bool) -> Estimate:
    mean, error = sums.mean_and_error(of)
    return Estimate(mean, error, bias, certified, sums.records, judge.name, judge.method, None)


def _records(X: Any, y: Any, weights: Any, model: Any, release: Any, target_values: Any) -> Records:
    return Records.checked(model, X, y, release, sample_weight=weights, target_values=target_values)


def _checked(
    X: Any, y: Any, weights: Any, *, model: Any, release: Any, target_values: Any
) -> tuple[float, float, float] | None:
    """Return sums of weights, of their squares and of weighted squared targets; None where there are no records."""
    if not len(X):
        return None
    records = _records(X, y, weights, model, release, target_values)
    own = records.weights
    return float(own.sum()), float(own @ own), float(own @ records.target**2)


def _first_two(X: Any, y: Any, weights: Any, *, model: Any, release: Any, target_values: Any) -> Records:
    """Return two records of a partition, without what they are parts of."""
    return _records(X[:2].copy(), None if y is None else y[:2].copy(), None, model, release, target_values)


def _of_records(
    X: Any, y: Any, weights: Any, *more: Any, work: Any, model: Any, release: Any, target_values: Any
) -> Any:
    return work(_records(X, y, weights, model, release, target_values), *more)


def _judged(records: Records, thetas: Sequence[FloatArray], *, judge: MeanLoss) -> _Sums:
    own = _own(judge, records)
    values = np.column_stack([own.checked_values([theta], [slice(None)]) for theta in thetas])
    return _Sums.of(values, records.weights)


def _bias(records: Records, *, judge: MeanLoss, theta: FloatArray) -> tuple[float, float, bool]:
    return float(records.weights.sum()), *_own(judge, records).bias(theta)


def _own(judge: MeanLoss, records: Records) -> MeanLoss:
    """Return a metric of the records of a partition."""
    return replace(judge, records=records, kernel_records=judge.corrected.records(records.X, records.y))


def _of_scores(records: Records, *, work: Any, thetas: Sequence[FloatArray], is_residual: bool) -> list[Any]:
    """Return what a function says of estimates of scores and their squares, at each theta."""
    options = of_residuals(records) if is_residual else {}
    reach = options.pop("reach", 0.0)
    said = []
    for place, theta in enumerate(thetas):
        scores = ReleasedScores.of(records, theta)
        first, second = estimated_moments(scores, options.get("residual"), options.get("extra", 0.0))
        said.append(work(place, records.weights, first, second, scores.bound + reach, scores.noise))
    return said


def _moments(
    place: int, weights: FloatArray, first: FloatArray, second: FloatArray, bound: float, noise: float
) -> tuple[float, ...]:
    return float(weights @ first), float(weights @ second), float(first.min()), float(first.max()), bound, noise


def _influences(
    place: int, weights: FloatArray, first: FloatArray, second: FloatArray, bound: float, noise: float, *,
    middles: Sequence[tuple[float, float]],
) -> float:  # fmt: skip
    """Return the weighted sum of squares of the influences of records on second moment - mean^2."""
    mean, square = middles[place]
    influence = second - 2 * mean * first
    return float(weights**2 @ (influence - (square - 2 * mean**2)) ** 2)
