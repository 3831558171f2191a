"""Candidates compared on held-out released records: the choice is that of the true error."""

import functools
import math

import numpy as np
import pandas as pd
import pytest
import sympy as sp
from released_records import COIN, NORMAL, THETA, TRUE, X4, Y4, records

import symdebias as sd
from symdebias._randomness import generator
from symdebias.evaluation import cross_validate, evaluate
from symdebias.evaluation.cross_validation import dealt, of_all
from symdebias.exceptions import DivergenceError, InferenceError, SymdebiasError

pytestmark = pytest.mark.newest

RIDGE_NOISE = 0.64
GRID = (3.0, 1.0, 0.3, 0.1, 0.03, 0.0)


def ridge(X, y, *, l2, sample_weight=None):
    """Least squares on debiased second moments."""
    matrix = np.asarray(X)
    weights = np.ones(len(matrix)) if sample_weight is None else sample_weight
    weights = weights / weights.sum()
    gram = (matrix * weights[:, None]).T @ matrix + (l2 - RIDGE_NOISE) * np.eye(matrix.shape[1])
    return np.linalg.solve(gram, matrix.T @ (weights * np.asarray(y)))


CANDIDATES = {f"l2 = {l2:g}": functools.partial(ridge, l2=l2) for l2 in GRID}


def noised_regression(seed=0, n=1500, p=12):
    rng = np.random.default_rng(seed)
    covariance = 0.5 * np.ones((p, p)) + 0.5 * np.eye(p)
    theta = np.r_[1.0, -1.0, 0.5, np.zeros(p - 3)]
    X = rng.multivariate_normal(np.zeros(p), covariance, size=n)
    y = X @ theta + rng.normal(size=n)
    release = sd.Release(sd.GaussianMechanism.from_scale(math.sqrt(RIDGE_NOISE)))
    return release.privatize(X, y, random_state=5000 + seed), theta, covariance


def test_cross_validation_chooses_by_the_true_error_and_the_naive_one_does_not():
    noised, theta, covariance = noised_regression()
    options = {"metric": "squared_error", "random_state": 0}
    found = cross_validate(CANDIDATES, noised.X, noised.y, release=noised.release, **options)
    naive = cross_validate(CANDIDATES, noised.X, noised.y, release=sd.Release(), **options)

    def excess(name):
        error = CANDIDATES[name](noised.X, noised.y) - theta
        return error @ covariance @ error

    assert found.best in ("l2 = 0.03", "l2 = 0.1")
    assert naive.best == "l2 = 1"
    assert excess(found.best) < 0.15 < 0.4 < excess(naive.best)
    # The squared error of the true model is 1, that of its noised records more.
    best = found.estimates[found.best]
    assert abs(best.value - 1.0 - excess(found.best)) < 4 * best.standard_error < 0.4
    assert found.one_standard_error in ("l2 = 0.1", "l2 = 0.03")
    # Pairing takes the noise that all share out of the comparison.
    difference = found.differences["l2 = 0.1"]
    assert difference.standard_error < found.estimates["l2 = 0.1"].standard_error / 2
    assert found.differences[found.best].value == 0
    table = str(found).splitlines()
    assert len(table) == 1 + len(GRID)
    assert [line.split("  ")[0] for line in table[1:]] == list(CANDIDATES)
    assert sum("<- best" in line for line in table) == 1


@pytest.mark.parametrize("metric", ["accuracy", "f1", "roc_auc"])
def test_differences_of_shares_have_intervals_on_either_side_of_0(metric):
    X, y = records(n=400)
    good, bad = THETA, -THETA
    candidates = {"good": lambda X, y: good, "bad": lambda X, y: bad, "again": lambda X, y: good}
    noised = sd.Release(target=COIN, fit_intercept=True).privatize(X, y, random_state=1)
    found = cross_validate(candidates, noised.X, noised.y, release=noised.release, metric=metric, random_state=0)
    worse = found.differences["bad"]
    low, high = worse.confidence_interval()
    assert low < worse.value < high < 0
    assert worse.metric == f"difference of {metric}"
    assert found.differences["again"].confidence_interval() == (0.0, 0.0)


def test_cross_validation_is_the_mean_over_held_out_records():
    noised, *_ = noised_regression(n=100, p=3)
    seen = []

    def spy(X, y):
        seen.append((X, y))
        return np.zeros(3)

    table = pd.DataFrame(noised.X, columns=["x0", "x1", "x2"], index=np.arange(100)[::-1])
    y = pd.Series(noised.y, index=table.index)
    people = np.repeat([f"person {k}" for k in range(50)], 2)
    weights = np.linspace(0.5, 1.5, 100)
    found = cross_validate(
        {"zero": spy},
        table,
        y,
        release=noised.release,
        metric="squared_error",
        folds=4,
        clusters=people,
        random_state=1,
    )
    assert len(seen) == 4
    held_out = []
    for X, y_part in seen:
        assert isinstance(X, pd.DataFrame)
        assert X.index.equals(y_part.index)
        rows = 99 - X.index.to_numpy()
        assert set(people[rows]).isdisjoint(np.delete(people, rows))
        held_out.append(np.delete(np.arange(100), rows))
    assert sorted(np.concatenate(held_out)) == list(range(100))
    np.testing.assert_allclose(found.fold_values["zero"], [np.mean(noised.y[rows] ** 2) for rows in held_out])
    assert found.estimates["zero"].value == pytest.approx(np.mean(noised.y**2))
    # Weights reach the fits and the metric.
    weighted = cross_validate(
        {"ridge": functools.partial(ridge, l2=1.0), "zero": lambda X, y, sample_weight: np.zeros(3)},
        noised.X, noised.y, release=noised.release, metric="squared_error", sample_weight=weights, random_state=1,
    )  # fmt: skip
    assert weighted.estimates["zero"].value == pytest.approx(np.average(noised.y**2, weights=weights))


@pytest.mark.in_turn
def test_candidates_share_one_surrogate_and_accuracy_is_to_be_large():
    X, y = records(n=3000)
    noised = sd.Release(NORMAL, COIN, fit_intercept=True).privatize(X, y, random_state=2)
    found = cross_validate(
        {"wrong": lambda X, y: -THETA, "right": lambda X, y: THETA, "again": lambda X, y: THETA.copy()},
        noised.X, noised.y, release=noised.release, metric="accuracy", random_state=0,
    )  # fmt: skip
    assert found.best == "right"
    assert found.higher_is_better
    assert found.differences["again"].value == 0
    assert found.estimates["wrong"].value == pytest.approx(1 - found.estimates["right"].value)
    assert found.estimates["right"].bias > 0


@pytest.mark.in_turn
@pytest.mark.parametrize("metric", ["roc_auc", "f1", "brier"])
def test_metrics_of_labels_choose_by_the_parts(metric):
    X, y = records(n=800)
    noised = sd.Release(NORMAL, COIN, fit_intercept=True).privatize(X, y, random_state=2)
    found = cross_validate(
        {"wrong": lambda X, y: THETA * [1, -1, 1], "right": lambda X, y: THETA},
        noised.X, noised.y, release=noised.release, metric=metric, random_state=0, folds=2, threshold=0.0,
    )  # fmt: skip
    assert found.best == "right"
    assert found.higher_is_better == (metric != "brier")
    assert np.mean(found.fold_values["right"]) == pytest.approx(found.estimates["right"].value)
    parts = [evaluate(THETA, noised.X[rows], noised.y[rows], metric=metric, release=noised.release)
             for rows in (slice(0, 400), slice(400, None))]  # fmt: skip
    # Of other parts, whose errors are independent.
    spread = math.hypot(*(one.standard_error for one in parts)) / 2
    assert abs(np.mean([one.value for one in parts]) - found.estimates["right"].value) < 4 * spread


@pytest.mark.exhaustive
def test_solvers_are_candidates():
    noised, *_ = noised_regression(n=600, p=3)
    corrected = sd.debias(sd.losses.least_squares(), noised.release)
    table = pd.DataFrame(noised.X, columns=noised.release.columns)
    found = cross_validate(
        {f"l2 = {l2}": functools.partial(sd.m_estimate, corrected, l2=l2) for l2 in (10.0, 0.0)},
        table, noised.y, release=noised.release, metric="squared_error", random_state=0,
    )  # fmt: skip
    assert found.best == "l2 = 0.0"
    fit = sd.m_estimate(corrected, table, noised.y)
    # On the records that it was fitted to a model looks better than on held-out ones, corrected or not.
    at_once = evaluate(fit, table, noised.y, metric="squared_error")
    assert 0.8 < at_once.value < found.estimates["l2 = 0.0"].value


def test_refused_candidates_are_reported():
    noised, *_ = noised_regression(n=100, p=3)

    def lost(X, y):
        raise DivergenceError("training was lost.")

    options = {"release": noised.release, "metric": "squared_error", "random_state": 0}
    found = cross_validate({"lost": lost, "zero": lambda X, y: np.zeros(3)}, noised.X, noised.y, **options)
    assert found.refused == {"lost": "training was lost."}
    assert list(found.estimates) == ["zero"]
    assert "lost       refused: training was lost." in str(found)
    with pytest.raises(SymdebiasError, match=r"every candidate was refused:\n  lost: training was lost\."):
        cross_validate({"lost": lost}, noised.X, noised.y, **options)
    # A metric without finite variance at a candidate's parameters refuses that candidate alone.
    scores, target = sp.symbols("u0:2", real=True), sp.Symbol("y", real=True)
    loss = sd.Loss(sp.exp(scores[0]) + sp.exp(-scores[1]) + target**2, score=scores, target=target, name="sum")
    with pytest.raises(SymdebiasError, match=r"long: at this theta .* infinite variance"):
        cross_validate(
            {"long": lambda X, y: np.full((2, 1), 0.6)}, noised.X[:, :1], noised.y,
            release=sd.Release(sd.LaplaceMechanism.from_scale(1.0)), metric=loss, random_state=0,
        )  # fmt: skip


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"candidates": {}}, TypeError, "candidates must map names, at least one"),
        ({"candidates": {"zero": np.zeros(2)}}, TypeError, "candidates must map names, at least one"),
        (
            {"candidates": {"model": sd.DebiasedClassifier}},
            TypeError,
            "'model' is the class DebiasedClassifier, and no model. Call it",
        ),
        ({"folds": 1}, ValueError, "folds=1 is too small"),
        ({"folds": 5}, ValueError, "folds=5 is more than the 4 records"),
        ({"folds": 3, "clusters": [1, 1, 2, 2]}, ValueError, "folds=3 is more than the 2 clusters"),
        ({"release": None}, ValueError, "parameters alone"),
        ({"sample_weight": [1.0, 0.0, 0.0, 0.0]}, ValueError, "sample_weight is 0 for every record of a part"),
        ({"random_state": -1}, ValueError, "random_state=-1 is negative"),
    ],
)
def test_bad_cross_validation_is_refused(options, error, message):
    candidates = options.pop("candidates", {"zero": lambda X, y, **_: THETA})
    arguments = {"release": TRUE, "metric": "accuracy", "folds": 2, "random_state": 0, **options}
    with pytest.raises(error, match=message):
        cross_validate(candidates, X4, Y4, **arguments)


def counts_with_exposure(n=100):
    """A table of a released column and a true one, counts, logarithms of exposures, and their release."""
    rng = np.random.default_rng(0)
    X, offset = rng.normal(size=(n, 2)), rng.uniform(-1.0, 2.0, n)
    y = rng.poisson(np.exp(X @ [0.5, -0.3] + 0.2 + offset))
    table = pd.DataFrame({"x": X[:, 0] + 0.3 * rng.normal(size=n), "z": X[:, 1]})
    release = sd.Release({"x": sd.GaussianMechanism.from_scale(0.3)}, noiseless=("z",), fit_intercept=True)
    return table, pd.Series(y), pd.Series(offset), release


def test_candidates_are_fitted_and_judged_with_their_offsets():
    table, y, offset, release = counts_with_exposure()
    corrected, theta = sd.debias(sd.losses.poisson(), release), [0.4, -0.2, 0.1]
    seen = []

    def fitted(X, y, offset):
        assert list(X.columns) == ["x", "z"]
        seen.append(offset)
        return sd.m_estimate(corrected, X, y, offset=offset)

    candidates = {"constant": lambda X, y, offset: theta, "fitted": fitted}
    options = {"release": release, "metric": "poisson", "folds": 4, "random_state": 0}
    found = cross_validate(candidates, table, y, offset=offset, **options)
    expected = evaluate(theta, table, y, metric="poisson", release=release, offset=offset)
    assert found.estimates["constant"].value == pytest.approx(expected.value, rel=1e-12)
    assert found.estimates["constant"].standard_error == pytest.approx(expected.standard_error, rel=1e-12)
    # Each record is held out once, so that each offset is in three of four fits.
    np.testing.assert_allclose(np.sort(np.concatenate(seen)), np.sort(np.tile(offset, 3)))
    whole = sd.m_estimate(corrected, table, y, offset=offset)
    assert (
        np.abs(found.fold_values["fitted"].mean() - evaluate(whole, table, y, metric="poisson", offset=offset).value)
        < 0.3
    )
    without = cross_validate({"constant": lambda X, y: theta}, table, y, **options)
    assert abs(without.estimates["constant"].value - expected.value) > 0.3


WRONG_OFFSETS = {
    "another length": (lambda o: o.to_numpy()[:5], r"offset has the shape \(5,\); it must be \(100,\)"),
    "NaN": (lambda o: o.where(o.index != 3), "offset has NaN in row 3"),
    "infinite": (lambda o: o.where(o.index != 3, np.inf), "offset has infinity in row 3"),
    "no score": (lambda o: o * 1e120, "no score is so large"),
    "other rows": (lambda o: o.set_axis(o.index[::-1]), "offset"),
}


@pytest.mark.parametrize("what", WRONG_OFFSETS)
def test_what_is_no_offset_is_refused(what):
    table, y, offset, release = counts_with_exposure()
    change, message = WRONG_OFFSETS[what]
    with pytest.raises(ValueError, match=message):
        cross_validate(
            {"none": lambda X, y, offset: [0.0] * 3}, table, y, release=release, metric="poisson",
            offset=change(offset),
        )  # fmt: skip


def test_a_candidate_that_forgets_the_offset_says_so():
    table, y, offset, release = counts_with_exposure()
    with pytest.raises(TypeError, match="offset"):
        cross_validate({"none": lambda X, y: [0.0] * 3}, table, y, release=release, metric="poisson", offset=offset)


@pytest.mark.in_turn
@pytest.mark.parametrize("metric", ["accuracy", "f1", "precision", "recall", "roc_auc"])
@pytest.mark.parametrize(
    "mechanism", [sd.GaussianMechanism.from_scale(0.5), sd.LaplaceMechanism.from_scale(0.3)], ids=str
)
def test_metrics_of_signs_and_ranks_do_not_depend_on_the_length_of_the_parameters(metric, mechanism):
    """A surrogate that is designed for the longest finds as much in a model of a tenth of the length."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(3_000, 2))
    y = np.where(rng.random(3_000) < 1 / (1 + np.exp(-X @ [3.0, -1.0])), 1.0, -1.0)
    release = sd.Release({"a": mechanism, "b": mechanism}, sd.RandomizedResponse(2.0), fit_intercept=True)
    noised = release.privatize(X, y, random_state=1)
    theta = np.array([3.0, -1.0, 0.2])
    table = sd.evaluation.cross_validate(
        {"short": lambda X, y: 0.1 * theta, "long": lambda X, y: theta}, noised.X, noised.y,
        release=release, metric=metric, random_state=0, folds=2,
    )  # fmt: skip
    one, two = table.estimates.values()
    assert one.value == pytest.approx(two.value, rel=1e-9)
    assert one.bias == pytest.approx(two.bias, rel=1e-9)
    assert one.bias > 0
    assert "bias up to" in str(table)


def test_a_threshold_is_in_units_of_the_score():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(2_000, 1))
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    release = sd.Release(None, sd.RandomizedResponse(2.0), noiseless=("a",))
    noised = release.privatize(X, y, random_state=1)
    table = sd.evaluation.cross_validate(
        {"short": lambda X, y: [0.5], "long": lambda X, y: [2.0]}, noised.X, noised.y,
        release=release, metric="accuracy", threshold=1.0, random_state=0, folds=2,
    )  # fmt: skip
    assert table.estimates["long"].value > table.estimates["short"].value + 0.1
    assert "bias up to" not in str(table)


@pytest.mark.parametrize("metric", ["accuracy", "log_loss"])
@pytest.mark.parametrize("labels", [None, sd.RandomizedResponse(epsilon=9.0)])
def test_candidates_are_not_told_by_records_of_one_label(metric, labels):
    """As in `evaluate`: the label that no record has may change each of them, and their differences."""
    X, y = np.random.default_rng(8).normal(size=(60, 1)), -np.ones(60)
    models = {"one": [0.3, -3.0], "other": [0.6, 0.5]}
    options = {"release": sd.Release(target=labels, fit_intercept=True), "metric": metric, "target_values": (-1, 1)}
    candidates = {name: lambda X, y, theta=theta: theta for name, theta in models.items()}
    table = cross_validate(candidates, X, y, random_state=0, **options)
    expected = {name: evaluate(theta, X, y, **options).without_both_labels for name, theta in models.items()}
    for name, estimate in table.estimates.items():
        assert estimate.without_both_labels == pytest.approx(expected[name])
        assert estimate.interval_or_none() is None
        difference = table.differences[name].without_both_labels
        assert difference == pytest.approx(expected[name] - expected[table.best], abs=1e-15)
    (worse,) = set(models) - {table.best}
    with pytest.raises(InferenceError, match="the same label, and how rare"):
        table.differences[worse].confidence_interval()
    both = cross_validate(candidates, X, np.where(np.arange(60) < 4, 1.0, -1.0), random_state=0, **options)
    assert both.estimates["one"].without_both_labels == both.differences["one"].without_both_labels == 0


@pytest.mark.parametrize("metric", ["log_loss", "roc_auc"])
def test_candidates_reach_as_far_as_labels_that_no_record_has(metric):
    """As in `evaluate`, and a difference by the difference of what they do to each."""
    rng = np.random.default_rng(8)
    u = rng.choice([-6.0, 6.0], 60)
    X, y = u[:, None] + rng.normal(size=(60, 1)), np.sign(u)
    models = {"one": [1.0], "other": [-0.5]}
    candidates = {name: lambda X, y, theta=theta: theta for name, theta in models.items()}
    table = cross_validate(candidates, X, y, random_state=0, release=sd.Release(), metric=metric)
    for name, estimate in table.estimates.items():
        alone = evaluate(models[name], X, y, release=sd.Release(), metric=metric)
        if metric == "log_loss":
            assert estimate.with_other_labels == pytest.approx(alone.with_other_labels)
        assert estimate.with_other_labels != 0
        expected = estimate.with_other_labels - table.estimates["one"].with_other_labels
        assert table.differences[name].with_other_labels == pytest.approx(expected, abs=1e-15)


def test_a_candidate_that_returns_nothing_says_so():
    X, y = records(n=60)
    with pytest.raises(TypeError, match="has returned nothing"):
        cross_validate({"one": lambda X, y: None}, X, y, release=TRUE, metric="squared_error")


@pytest.mark.parametrize("metric", ["roc_auc", "recall"])
def test_parts_that_one_positive_carries_have_no_interval(metric):
    """A share moves with its one record, which adds nothing to the standard error of a mean over parts."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(150, 1))
    y = np.where(np.arange(150) < 15, 1.0, -1.0)
    fits = {"one": lambda X, y: [1.0], "other": lambda X, y: [-1.0]}
    # Three positives in each of five parts, or as they fall.
    found = cross_validate(fits, X, y, release=sd.Release(), metric=metric, folds=5, random_state=4)
    few = r"few .* decide .*, or carry what the metric is a share of"
    for estimate in found.estimates.values():
        with pytest.raises(InferenceError, match=few):
            estimate.confidence_interval()
    many = cross_validate(
        fits, np.tile(X, (12, 1)), np.tile(y, 12), release=sd.Release(), metric=metric, folds=5, random_state=4
    )
    assert all(estimate.interval_or_none() is not None for estimate in many.estimates.values())


def test_records_and_clusters_with_weight_are_counted():
    noised, _, _ = noised_regression(n=600)
    weights, clusters = (np.arange(600) % 3 > 0) * 1.0, np.arange(600) // 20
    weights[clusters == 4] = 0.0
    found = cross_validate(
        {"ridge": functools.partial(ridge, l2=1.0)}, noised.X, noised.y, release=noised.release,
        metric="squared_error", folds=3, sample_weight=weights, clusters=clusters, random_state=0,
    )  # fmt: skip
    one = found.estimates["ridge"]
    assert (one.records, one.clusters) == (np.count_nonzero(weights), 29)


@pytest.mark.parametrize("metric", ["r2", "f1", "precision", "recall"])
@pytest.mark.parametrize("weighted", [False, True])
def test_what_ratios_of_few_records_are_off_is_stated(metric, weighted):
    """What the jackknife says of each part: averages over parts keep it, however many these are."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(300, 2))
    score = X @ [1.0, -0.5]
    y = score + rng.normal(size=300) if metric == "r2" else np.where(score + rng.normal(size=300) > 0, 1.0, -1.0)
    weights = rng.choice([1.0, 2.0], 300) if weighted else np.ones(300)

    def plain(rows):
        u, t, w = score[rows], y[rows], weights[rows]
        if metric == "r2":
            return 1 - w @ (t - u) ** 2 / (w @ (t - w @ t / w.sum()) ** 2)
        return (
            {"f1": 2, "precision": 1, "recall": 1}[metric]
            * (w @ ((u > 0) & (t > 0)))
            / ((metric != "recall") * (w @ (u > 0)) + (metric != "precision") * (w @ (t > 0)))
        )

    options = {"target_values": None if metric == "r2" else (-1, 1), "folds": 2, "random_state": 0}
    theta = np.array([1.0, -0.5])
    table = sd.evaluation.cross_validate(
        {"true": lambda X, y, **_: theta, "same": lambda X, y, **_: theta}, X, y,
        release=sd.Release(), metric=metric, sample_weight=weights, **options,
    )  # fmt: skip
    part_of = dealt(300, 2, generator(0))
    off = []
    for part in range(2):
        rows = np.flatnonzero(part_of == part)
        without = [plain(np.delete(rows, place)) for place in range(len(rows))]
        share = weights[rows].sum() / weights.sum()
        off.append(share * (len(rows) - 1) * (np.mean(without) - plain(rows)))
    estimate = table.estimates["true"]
    assert estimate.value == pytest.approx(np.mean(table.fold_values["true"]), abs=0.02)
    # Beside a hundredth of a standard error: the bias of precision and recall is nothing in the mean.
    assert estimate.bias == pytest.approx(abs(sum(off)), rel=0.15, abs=0.01 * estimate.standard_error)
    assert not (metric == "r2" and estimate.bias < 0.05 * estimate.standard_error)
    assert table.differences["same"].bias == 0


@pytest.mark.parametrize("metric", ["accuracy", "f1"])
@pytest.mark.parametrize("labels", [None, sd.RandomizedResponse(epsilon=3.0)])
def test_candidates_that_judge_all_records_alike_have_no_interval_of_their_difference(metric, labels):
    """Of two that judge 1 in 100 apart, 60 records are judged alike in every other draw."""
    rng = np.random.default_rng(3)
    X = np.where(rng.random((60, 1)) < 0.5, -1.0, 1.0) * (1 + rng.random((60, 1)))
    y = np.where(rng.random(60) < 0.8, np.sign(X[:, 0]), -np.sign(X[:, 0]))
    release = sd.Release(target=labels, fit_intercept=True)
    models = {"one": [1.0, 0.0], "other": [1.0, 0.5], "longer": [3.0, 0.0]}
    candidates = {name: lambda X, y, theta=theta: np.array(theta) for name, theta in models.items()}
    options = {"release": release, "metric": metric, "random_state": 0, "target_values": (-1, 1)}
    table = cross_validate(candidates, X, y, **options)
    assert table.best == "one"
    assert table.differences["other"].value == table.differences["other"].standard_error == 0
    with pytest.raises(InferenceError, match="few records decide"):
        table.differences["other"].confidence_interval()
    # These judge no record apart whatever it is, nor does a model itself.
    for name in ("one", "longer"):
        low, high = table.differences[name].confidence_interval()
        assert low <= 0 <= high
        assert low == high == 0 or metric == "f1"


@pytest.mark.parametrize("weighted", [False, True])
def test_rates_of_parts_reach_as_far_as_outcomes_that_nobody_shows(weighted):
    """Three of 200 records above the threshold, with the released label -1: the recall was [0, .0009].

    One as large as .007 shows none among 100 positives in 50 of 100 samples. As many positives count as one mean over
    parts is made of.
    """
    rng = np.random.default_rng(3)
    X = np.where(np.arange(200) % 70 == 0, 1.0, -1.0)[:, None]
    y = np.where((np.arange(200) % 2 == 0) & (X[:, 0] < 0), 1.0, -1.0)
    release = sd.Release(target=sd.RandomizedResponse(epsilon=3.0), fit_intercept=True)
    weights = rng.uniform(0.5, 1.5, 200) if weighted else None
    models = {"rare": [1.0, 0.0], "often": [-1.0, 0.0]}
    candidates = {name: lambda X, y, theta=theta, **more: np.array(theta) for name, theta in models.items()}
    options = {"release": release, "metric": "recall", "sample_weight": weights}
    table = cross_validate(candidates, X, y, random_state=0, **options)
    for name, estimate in table.estimates.items():
        alone = evaluate(models[name], X, y, **options)
        assert estimate.value == pytest.approx(alone.value, abs=2e-3)
        assert estimate.with_other_labels == pytest.approx(alone.with_other_labels, rel=0.1)
        low, high = estimate.confidence_interval()
        floor = 1 - 0.025 ** (1 / 100)
        assert (high > 0.95 * floor) if name == "rare" else (low < 1 - 0.95 * floor)


def test_parts_of_unequal_size_are_as_sure_as_the_mean_of_their_shares():
    shares = np.array([0.5, 0.3, 0.2])
    assert of_all([50.0, 30.0, 20.0], shares) == pytest.approx(100.0)
    assert of_all([5.0, 30.0, 20.0], shares) == pytest.approx(1 / (0.25 / 5 + 0.09 / 30 + 0.04 / 20))
    assert of_all([0.0, 30.0, 20.0], shares) == 0
    assert of_all([math.inf] * 3, shares) == math.inf


@pytest.mark.parametrize("metric", ["accuracy", "precision"])
def test_a_difference_of_shares_reaches_on_both_sides_as_far_as_nobody_shows(metric):
    """All 60 labels are those of the scores; noise of these alone varies what records count."""
    rng = np.random.default_rng(3)
    u = rng.choice([-4.0, 4.0], 60)
    release = sd.Release(sd.GaussianMechanism.from_scale(0.3))
    noised = release.privatize(np.c_[u, rng.normal(size=60)], np.sign(u), random_state=1)
    models = {"one": [1.0, 0.0], "other": [1.0, 0.1], "longer": [2.0, 0.0]}
    candidates = {name: lambda X, y, theta=theta: np.array(theta) for name, theta in models.items()}
    table = cross_validate(candidates, noised.X, noised.y, release=release, metric=metric, folds=2, random_state=0)
    assert table.best in ("one", "longer", "other")
    unseen = max(abs(table.estimates[name].with_other_labels) for name in ("one", "other"))
    assert unseen > (0.05 if metric == "accuracy" else 0.1)
    apart = [one for name, one in table.differences.items() if (name == "other") != (table.best == "other")]
    assert apart
    for difference in apart:
        assert difference.with_other_labels == pytest.approx(unseen)
        low, high = difference.confidence_interval()
        assert low <= difference.value - unseen
        assert high >= difference.value + unseen
    assert table.differences[table.best].with_other_labels == 0
