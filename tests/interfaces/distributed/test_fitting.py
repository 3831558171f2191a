"""Fits to partitions: those of all records in one place, whatever happens to the machines."""

import functools
import os
import pickle
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import sympy as sp

import symdebias as sd
from symdebias._randomness import generator
from symdebias._rows import spread
from symdebias.exceptions import DivergenceError, InferenceError, InfiniteVarianceError
from symdebias.interfaces.distributed.records import PartedRecords, Places

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
pd = pytest.importorskip("pandas")

COUNT = 41_000
LABELS = sd.RandomizedResponse(3.0)
RELEASE = sd.Release({("age", "hours"): sd.GaussianMechanism.from_scale(0.4)}, LABELS, fit_intercept=True)
PLACES = sd.Release(
    {"age": sd.GaussianMechanism.from_scale(0.4), "place": sd.RandomizedResponse(3.0, categories=("n", "e", "s"))},
    LABELS,
)


@functools.cache
def released(release):
    """Return released records as a table with target and weights."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.6, 0.6, (COUNT, 2))
    y = np.where(rng.random(COUNT) < 1 / (1 + np.exp(-2 * X[:, 0] + X[:, 1] - 0.3)), 1.0, -1.0)
    table = pd.DataFrame(X, columns=["age", "hours"])
    if release is PLACES:
        table = pd.DataFrame({"age": X[:, 0], "place": np.array(["n", "e", "s"])[np.digitize(X[:, 1], [-0.2, 0.2])]})
    noised = release.privatize(table, y, random_state=1)
    return noised.X, pd.Series(noised.y), pd.Series(rng.random(COUNT))


def as_arrays(X, *columns, chunks=7_001):
    """Return arrays that are not cut alike."""
    first = da.from_array(X.to_numpy(), chunks=(chunks, 1))
    return first, *(da.from_array(one.to_numpy(), chunks=chunks + 100 * k) for k, one in enumerate(columns, 1))


def as_frames(X, y, weights):
    """Return columns of a data frame, whose last partition is empty."""
    parts = dd.from_pandas(X.assign(y=y, w=weights), npartitions=5)
    parts = dd.concat([parts, parts[parts["w"] > 1]])
    return parts[list(X.columns)], parts["y"], parts["w"]


def compared(found, expected):
    np.testing.assert_allclose(found.theta, expected.theta, rtol=1e-10)
    np.testing.assert_allclose(found.standard_errors, expected.standard_errors, rtol=1e-10)
    np.testing.assert_allclose(
        found.covariance, expected.covariance, rtol=1e-10, atol=1e-10 * np.abs(expected.covariance).max()
    )
    assert found.diagnostics.keys() == expected.diagnostics.keys()
    for name in ("records", "steps", "stages", "start", "safeguards", "hessian"):
        assert found.diagnostics[name] == expected.diagnostics[name], name
    for name in ("carrying_share", "noise_inflation", "curvature", "score_variance"):
        assert found.diagnostics[name] == pytest.approx(expected.diagnostics[name], rel=1e-8), name


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("loss", "weighted"),
    [
        ("exponential", True),
        ("logistic", False),
        pytest.param("exponential", False, marks=pytest.mark.exhaustive),
        pytest.param("logistic", True, marks=pytest.mark.exhaustive),
    ],
)
def test_the_fit_is_that_of_one_machine(loss, weighted):
    X, y, weights = released(RELEASE)
    corrected = sd.debias(getattr(sd.losses, loss)(), RELEASE)
    options = {"l2": 0.01} if weighted else {}
    expected = sd.m_estimate(corrected, X, y, sample_weight=weights if weighted else None, **options)
    parts = as_arrays(X, y, weights) if loss == "logistic" else as_frames(X, y, weights)
    found = sd.distributed.m_estimate(
        corrected, parts[0], parts[1], sample_weight=parts[2] if weighted else None, **options
    )
    compared(found, expected)
    if loss == "logistic":
        assert found.corrected.design.radius == pytest.approx(expected.corrected.design.radius, rel=1e-10)
        told, wanted = (one.combinations(np.ones(one.theta.size)).bias_bound for one in (found, expected))
        np.testing.assert_allclose(told, wanted, rtol=1e-6)
        assert told < 0.99 * found.bias_bound.sum()


@pytest.mark.in_turn
def test_targets_far_from_0_are_those_of_one_machine():
    """Residuals are counted from the middle of the targets in every partition, descents take targets as they are."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(4_000, 2))
    release = sd.Release({"a": sd.GaussianMechanism.from_scale(0.4)}, noiseless=("b",), fit_intercept=True)
    noised = release.privatize(X, X @ [1.0, -0.5] + rng.normal(size=4_000) + 1e5, random_state=1)
    X, y = da.from_array(noised.X, chunks=(1_500, 2)), da.from_array(np.asarray(noised.y), chunks=1_100)
    corrected = sd.debias(sd.losses.huber(), release)
    compared(sd.distributed.m_estimate(corrected, X, y), sd.m_estimate(corrected, noised.X, noised.y))
    descent = sd.distributed.sgd(corrected, X, y, average=0.5, random_state=0)
    np.testing.assert_allclose(descent.theta, [1.0, -0.5, 1e5], atol=0.3)
    assert descent.diagnostics["pilot"]["theta"][-1] == pytest.approx(1e5, abs=1)


@pytest.mark.in_turn
def test_records_of_weight_0_are_counted_nowhere():
    """One in five has weight: samples are taken among these, wherever they are."""
    X, y, _ = released(RELEASE)
    weights = pd.Series(np.where(np.random.default_rng(5).random(COUNT) < 0.2, 1.0, 0.0))
    corrected, have = sd.debias(sd.losses.logistic(), RELEASE), weights.to_numpy() > 0
    alone = sd.m_estimate(corrected, X[have], y[have])
    parts = as_arrays(X, y, weights)
    records = PartedRecords.checked(corrected, *parts)
    assert records.present == have.sum()
    expected = corrected.records(X[have], y[have])
    for name in ("tested", "looked_at"):
        assert np.array_equal(getattr(records, name).matrix, getattr(expected, name).matrix)
    found = sd.distributed.m_estimate(corrected, parts[0], parts[1], sample_weight=parts[2])
    np.testing.assert_allclose(found.theta, alone.theta, rtol=1e-7)
    np.testing.assert_allclose(found.standard_errors, alone.standard_errors, rtol=1e-7)
    for name in ("curvature", "carrying_share", "noise_inflation"):
        assert found.diagnostics[name] == pytest.approx(alone.diagnostics[name], rel=1e-6)


@pytest.mark.in_turn
def test_weights_may_choose_among_partitions():
    """A partition without weight adds nothing, and is checked all the same."""
    X, y, _ = released(RELEASE)
    weights = pd.Series(np.where(np.arange(COUNT) < COUNT // 5, 0.0, 1.0))
    corrected, have = sd.debias(sd.losses.exponential(), RELEASE), weights.to_numpy() > 0
    features, target, weighing = as_frames(X, y, weights)
    found = sd.distributed.m_estimate(corrected, features, target, sample_weight=weighing)
    compared(found, sd.m_estimate(corrected, X[have], y[have]))
    spoiled = as_frames(X, y.where(have, np.nan), weights)[1]
    with pytest.raises(ValueError, match=r"in partition 0, .*y has NaN in row 0"):
        sd.distributed.m_estimate(corrected, features, spoiled, sample_weight=weighing)
    with pytest.raises(ValueError, match="every sample_weight is zero"):
        sd.distributed.m_estimate(corrected, features, target, sample_weight=0 * weighing)


@pytest.mark.in_turn
def test_clusters_are_those_of_one_machine():
    """One of them has a tenth of the records, and is left out; labels are text, and clusters reach over partitions."""
    X, y, weights = released(RELEASE)
    rng = np.random.default_rng(4)
    clusters = pd.Series(np.where(rng.random(COUNT) < 0.1, 0, rng.integers(1, 3_000, COUNT)).astype(str))
    corrected = sd.debias(sd.losses.exponential(), RELEASE)
    parts = dd.from_pandas(X.assign(y=y, w=weights, c=clusters), npartitions=4)
    for weighted in (False, True):
        expected = sd.m_estimate(corrected, X, y, clusters=clusters, sample_weight=weights if weighted else None)
        found = sd.distributed.m_estimate(
            corrected, parts[list(X.columns)], parts["y"], clusters=parts["c"],
            sample_weight=parts["w"] if weighted else None,
        )  # fmt: skip
        compared(found, expected)
        np.testing.assert_allclose(
            found.inference.freedom(len(found.theta)), expected.inference.freedom(len(found.theta))
        )
    plain = sd.m_estimate(corrected, X, y, sample_weight=weights)
    assert np.abs(plain.standard_errors / found.standard_errors - 1).max() > 1e-3
    with pytest.raises(ValueError, match="clusters has a single label"):
        sd.distributed.m_estimate(corrected, parts[list(X.columns)], parts["y"], clusters=parts["w"] > 2)


def test_a_cluster_may_have_no_weight_in_a_partition():
    """Its weight is in another one; it has a fifth of the records, and is left out."""
    X, y, _ = released(RELEASE)
    clusters = pd.Series(np.where(np.arange(COUNT) % 5 == 0, 0, np.arange(COUNT) // 10 + 1))
    weights = pd.Series(np.where((clusters == 0) & (np.arange(COUNT) < COUNT // 2), 0.0, 1.0))
    corrected = sd.debias(sd.losses.exponential(), RELEASE)
    parts = dd.from_pandas(X.assign(y=y, w=weights, c=clusters), npartitions=4)
    found = sd.distributed.m_estimate(
        corrected, parts[list(X.columns)], parts["y"], clusters=parts["c"], sample_weight=parts["w"]
    )
    compared(found, sd.m_estimate(corrected, X, y, clusters=clusters, sample_weight=weights))


@pytest.mark.in_turn
@pytest.mark.parametrize("options", [{}, {"start": np.full((3, 3), 0.1)}, {"clusters": np.arange(4_000) % 30}])
def test_many_classes_without_a_penalty_are_those_of_one_machine(options):
    """All scores of them may move together: Hessians are completed."""
    rng = np.random.default_rng(6)
    X = rng.normal(size=(4_000, 2))
    y = np.argmax(X @ rng.normal(size=(2, 3)) + rng.gumbel(size=(4_000, 3)), axis=1)
    corrected = sd.debias(sd.losses.softmax(3), sd.Release(noiseless=("a", "b"), fit_intercept=True))
    parts = {name: da.from_array(one, chunks=1_500) if name == "clusters" else one for name, one in options.items()}
    columns = da.from_array(X, chunks=(1_500, 2)), da.from_array(y, chunks=1_500)
    found = sd.distributed.m_estimate(corrected, *columns, **parts)
    expected = sd.m_estimate(corrected, X, y, **options)
    np.testing.assert_allclose(found.theta, expected.theta, rtol=1e-10)
    np.testing.assert_allclose(found.standard_errors, expected.standard_errors, rtol=1e-10)


@pytest.mark.in_turn
def test_descent_of_many_classes_without_a_penalty_is_not_lost():
    rng = np.random.default_rng(7)
    X = rng.normal(size=(4_000, 2))
    y = np.argmax(X @ rng.normal(size=(2, 3)) + rng.gumbel(size=(4_000, 3)), axis=1)
    corrected = sd.debias(sd.losses.softmax(3), sd.Release(noiseless=("a", "b"), fit_intercept=True))
    columns = da.from_array(X, chunks=(2_000, 2)), da.from_array(y, chunks=2_000)
    trained = sd.distributed.sgd(corrected, *columns, epochs=4, average=0.5, random_state=0)
    root = sd.m_estimate(corrected, X, y).theta
    apart = trained.theta - trained.theta.mean(axis=0) - root
    assert np.abs(apart).max() < 0.15


@pytest.mark.in_turn
@pytest.mark.parametrize("loss", ["least_squares", "logistic"])
def test_noise_of_the_records_own_is_that_of_one_machine(loss):
    rng = np.random.default_rng(2)
    n = 30_000
    X, scales = rng.uniform(-1, 1, (n, 2)), rng.uniform(0.1, 0.5, (n, 2))
    y = X @ [1.0, -0.5] + 0.1 * rng.normal(size=n)
    if loss == "logistic":
        y = np.where(rng.random(n) < 1 / (1 + np.exp(-2 * y)), 1.0, -1.0)
    noised = X + scales * rng.normal(size=X.shape)
    corrected = sd.debias(getattr(sd.losses, loss)(), sd.Release(sd.GaussianMechanism.from_scale(0.3)))
    parts = [da.from_array(one, chunks=(7_001, *one.shape[1:])) for one in (noised, y, scales)]
    compared(
        sd.distributed.m_estimate(corrected, parts[0], parts[1], noise_scale=parts[2]),
        sd.m_estimate(corrected, noised, y, noise_scale=scales),
    )


@pytest.mark.in_turn
@pytest.mark.parametrize("has_offset", [False, True])
def test_an_estimate_of_noise_that_records_have_multiples_of_is_that_of_one_machine(has_offset):
    """It ended in an AttributeError: noise scales that lie elsewhere were to be copied."""
    rng = np.random.default_rng(4)
    n = 6_000
    X, scales, years = rng.uniform(-1, 1, (n, 2)), rng.uniform(0.1, 0.5, (n, 2)), rng.uniform(0, 1, n)
    y = X @ [1.0, -0.5] + has_offset * years + 0.1 * rng.normal(size=n)
    noised = X + scales * rng.normal(size=X.shape)
    noise = sd.GaussianMechanism.from_estimate(0.3, 20)
    corrected = sd.debias(sd.losses.least_squares(), sd.Release({"a": noise, "b": noise}))
    parts = [da.from_array(one, chunks=(1_001, *one.shape[1:])) for one in (noised, y, scales, years)]
    found = sd.m_estimate(corrected, noised, y, noise_scale=scales, **({"offset": years} if has_offset else {}))
    compared(
        sd.distributed.m_estimate(
            corrected, *parts[:2], noise_scale=parts[2], **({"offset": parts[3]} if has_offset else {})
        ),
        found,
    )
    known = sd.Release({name: sd.GaussianMechanism.from_scale(0.3) for name in "ab"})
    apart = sd.m_estimate(sd.debias(sd.losses.least_squares(), known), noised, y, noise_scale=scales)
    assert has_offset or found.standard_errors[0] > 1.5 * apart.standard_errors[0]


@pytest.mark.in_turn
def test_limits_are_those_of_the_noisiest_record_of_all_partitions():
    """One record of 4,000 has eight times the noise of the others; without weight it counts no more."""
    u, y = sp.symbols("u y", real=True)
    grows = sd.Loss(sp.exp(u**2 / 8 - y * u), score=u, target=y, target_values=(-1, 1))
    corrected = sd.debias(grows, sd.Release({"x": sd.GaussianMechanism.from_scale(0.4)}))
    rng = np.random.default_rng(3)
    x, scales = rng.normal(size=4_000), np.where(np.arange(4_000) == 2_007, 3.2, 0.4)
    labels = np.where(rng.random(4_000) < 1 / (1 + np.exp(-2 * x)), 1.0, -1.0)
    noised = (x + np.where(scales < 1, scales, 0.0) * rng.normal(size=4_000))[:, None]
    parts = [da.from_array(one, chunks=(1_000, *one.shape[1:])) for one in (noised, labels, scales)]
    with pytest.raises((DivergenceError, InfiniteVarianceError), match="has infinite variance"):
        sd.distributed.m_estimate(corrected, *parts[:2], noise_scale=parts[2])
    weights = (np.arange(4_000) % 3 > 0).astype(float)  # of record 2,007 as well
    compared(
        sd.distributed.m_estimate(
            corrected, *parts[:2], noise_scale=parts[2], sample_weight=da.from_array(weights, chunks=1_000)
        ),
        sd.m_estimate(corrected, noised, labels, noise_scale=scales, sample_weight=weights),
    )


@pytest.mark.exhaustive
@pytest.mark.parametrize("options", [{"radius": 0.5}, {"bounds": (-1, 1)}, {"start": [1.0, -1.0, 0.0]}])
def test_bounds_and_starts_are_those_of_one_machine(options):
    X, y, _ = released(RELEASE)
    corrected = sd.debias(sd.losses.exponential(), RELEASE)
    expected = sd.m_estimate(corrected, X, y, **options)
    found = sd.distributed.m_estimate(corrected, *as_arrays(X, y), **options)
    np.testing.assert_allclose(found.theta, expected.theta, rtol=1e-10)
    assert found.diagnostics["safeguards"] == expected.diagnostics["safeguards"]


@pytest.mark.exhaustive
def test_categories_and_empty_partitions():
    X, y, weights = released(PLACES)
    corrected = sd.debias(sd.losses.squared_margin(), PLACES)
    parts = as_frames(X, y, weights)[:2]
    compared(sd.distributed.m_estimate(corrected, *parts), sd.m_estimate(corrected, X, y))


def test_records_stay_where_they_are(monkeypatch):
    """What is fetched are samples: none of them is a fifth of the records."""
    n, sizes, together = 120_000, [], []
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 1))
    X, y = x + 0.5 * rng.normal(size=(n, 1)), 2 * x[:, 0] + rng.normal(size=n)
    fetched, read_together = Places.fetched, Places.read_together

    def counted(self, rows):
        found = fetched(self, rows)
        sizes.append(len(found[0]))
        return found

    def counted_together(self, wanted):
        found = read_together(self, wanted)
        together.append(len(wanted))
        sizes.extend(len(one[0]) for one in found)
        return found

    monkeypatch.setattr(Places, "fetched", counted)
    monkeypatch.setattr(Places, "read_together", counted_together)
    corrected = sd.debias(sd.losses.least_squares(), sd.Release(sd.GaussianMechanism.from_scale(0.5)))
    monkeypatch.setattr(sys.modules["symdebias.solvers.covariance"], "_LOOKED_AT", 10_000)
    found = sd.distributed.m_estimate(corrected, *(da.from_array(one, chunks=10_000) for one in (X, y)))
    compared(found, sd.m_estimate(corrected, X, y))
    assert 0 < max(sizes) < n / 5
    # By one pass, beside the first targets.
    assert (len(together), len(sizes)) == (1, together[0] + 1)


def test_rows_are_fetched_in_the_order_that_they_are_asked_for():
    X = np.arange(40.0).reshape(20, 2)
    corrected = sd.debias(sd.losses.least_squares(), sd.Release(sd.GaussianMechanism.from_scale(0.5)))
    records = PartedRecords.checked(corrected, *(da.from_array(one, chunks=(7,) * one.ndim) for one in (X, X[:, 0])))
    for rows in (slice(3, 17, 4), slice(None), slice(5, 5), slice(8, 9), np.array([19, 0, 7, 7, 13]), np.array([6])):
        found = records.taken(rows)
        np.testing.assert_array_equal(found.matrix, X[rows])
        np.testing.assert_array_equal(found.target, X[rows, 0])
    np.testing.assert_array_equal(records.matrix[::6], X[::6])


@pytest.mark.in_turn
def test_descent_in_partitions_is_the_mean_of_descents():
    X, y, weights = released(RELEASE)
    corrected = sd.debias(sd.losses.exponential(), RELEASE)
    parts = [da.from_array(one.to_numpy(), chunks=(20_000, 2)[: one.ndim]) for one in (X, y, weights)]
    options = {"average": 0.5, "l2": 0.1}
    found = sd.distributed.sgd(corrected, *parts[:2], sample_weight=parts[2], random_state=3, **options)
    cuts, streams = [slice(0, 20_000), slice(20_000, 40_000), slice(40_000, None)], generator(3).spawn(3)
    each = [
        sd.sgd(corrected, X.to_numpy()[cut], y[cut], sample_weight=weights[cut], random_state=stream, **options)
        for cut, stream in zip(cuts, streams, strict=True)
    ]
    shares = np.array([weights[cut].sum() for cut in cuts]) / weights.sum()
    thetas = np.array([one.theta for one in each])
    np.testing.assert_allclose(found.theta, shares @ thetas, rtol=1e-12)
    np.testing.assert_allclose(found.diagnostics["spread"], np.sqrt(shares @ (thetas - found.theta) ** 2), rtol=1e-9)
    assert (found.diagnostics["partitions"], found.diagnostics["records"], found.solver) == (3, COUNT, "sgd")
    assert found.diagnostics["steps"] == sum(one.diagnostics["steps"] for one in each)
    with pytest.raises(InferenceError, match=r"has no covariance\. Use symdebias\.distributed\.m_estimate"):
        _ = found.standard_errors


@pytest.mark.in_turn
def test_descent_designs_one_surrogate_for_all_partitions():
    """Within six standard errors of the root: the average of 20,000 and 21,000 records hardly loses by being one."""
    X, y, _ = released(RELEASE)
    corrected = sd.debias(sd.losses.logistic(), RELEASE)
    root = sd.m_estimate(corrected, X, y)
    found = sd.distributed.sgd(corrected, *as_arrays(X, y, chunks=20_500), average=0.5, random_state=0)
    assert np.all(np.abs(found.theta - root.theta) < 6 * root.standard_errors)
    assert found.corrected.is_resolved
    assert found.diagnostics["pilot"]["records"] > 10_000


@pytest.mark.in_turn
@pytest.mark.filterwarnings("ignore:training has hardly left")
def test_descent_that_has_not_arrived_is_told():
    """The loss is quadratic, so that one step of Newton's method is exact."""
    X, y, _ = released(RELEASE)
    corrected = sd.debias(sd.losses.squared_margin(), RELEASE)
    with pytest.warns(sd.ConvergenceWarning, match="descent has not arrived"):
        found = sd.distributed.sgd(corrected, *as_arrays(X, y), step_size=1e-3, random_state=0)
    root = sd.m_estimate(corrected, X, y)
    # Scores of the records that a fit is tested on.
    rows = np.column_stack([X, np.ones(COUNT)])[spread(COUNT, COUNT // 10_000)]
    lengths = [float(np.mean((rows @ one) ** 2)) for one in (root.theta - found.theta, found.theta)]
    assert found.diagnostics["away"] == pytest.approx(np.sqrt(lengths[0] / lengths[1]), rel=1e-6)


@pytest.mark.in_turn
def test_a_partition_where_training_is_lost_is_named():
    X, y, _ = released(RELEASE)
    corrected = sd.debias(sd.losses.exponential(), RELEASE)
    with pytest.raises(sd.DivergenceError, match=r"in partition \d, .*diverged"), dask.config.set(scheduler="sync"):
        sd.distributed.sgd(corrected, *as_arrays(X, y), step_size=1e6, random_state=0)


@pytest.mark.in_turn
def test_partitions_are_named_by_their_place_among_all():
    """Also where the first ones have no records, and are left out of later passes."""
    X, y, _ = released(RELEASE)
    corrected = sd.debias(sd.losses.exponential(), RELEASE)
    table = X.assign(y=y)[:3_000]
    parts = dd.from_pandas(table, npartitions=3)
    parts = dd.concat([parts[parts["age"] > 1e6], parts])
    message = r"in partition 3, .*diverged"
    with pytest.raises(sd.DivergenceError, match=message), dask.config.set(scheduler="sync"):
        sd.distributed.sgd(corrected, parts[list(X.columns)], parts["y"], step_size=1e6, random_state=0)


CORRECTED = sd.debias(sd.losses.exponential(), RELEASE)
WRONG = {
    "an array of NumPy": (lambda X, y: (X.compute(), y), TypeError, "X is a ndarray, and here"),
    "one dimension": (lambda X, y: (X[:, 0], y), ValueError, "X has 1 dimensions, and 2 are wanted"),
    "targets in columns": (lambda X, y: (X, X), ValueError, "y has 2 dimensions, and 1 are wanted"),
    "other lengths": (lambda X, y: (X, y[:-1]), ValueError, "y has 199 rows, and others 200"),
    "a column too many": (lambda X, y: (da.concatenate([X, X], axis=1), y), ValueError, "in partition 0, .*4 columns"),
    "NaN": (lambda X, y: (da.concatenate([X[:150], X[150:] * np.nan]), y), ValueError, "in partition 3, .*NaN"),
    "labels": (lambda X, y: (X, y * 2), ValueError, r"in partition 0, .*labels must be -1 or \+1"),
    "no labels": (lambda X, y: (X, None), (TypeError, ValueError), "in partition 0"),
    "no records": (lambda X, y: (X[:0], y[:0]), ValueError, "no records in any partition"),
    "other partitions": (
        lambda X, y: (dd.from_dask_array(X, ["age", "hours"]), dd.from_dask_array(y).repartition(npartitions=2)),
        ValueError, "as many partitions: X 4, y 2",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
@pytest.mark.parametrize("solver", ["m_estimate", "sgd"])
def test_what_does_not_fit_is_refused(what, solver):
    change, kind, message = WRONG[what]
    X, y, _ = released(RELEASE)
    parts = da.from_array(X.to_numpy()[:200], chunks=(50, 2)), da.from_array(y.to_numpy()[:200], chunks=50)
    with pytest.raises(kind, match=message), dask.config.set(scheduler="sync"):
        getattr(sd.distributed, solver)(CORRECTED, *change(*parts))


@pytest.mark.parametrize("solver", ["m_estimate", "sgd"])
def test_arguments_that_do_not_fit_are_refused(solver):
    solve = getattr(sd.distributed, solver)
    X, y = da.zeros((20, 2), chunks=10), da.ones(20, chunks=10)
    with pytest.raises(TypeError, match=r"what symdebias\.debias returned"):
        solve(RELEASE, X, y)
    with pytest.raises(ValueError, match="l2"):
        solve(CORRECTED, X, y, l2=-1)
    with pytest.raises(ValueError, match="radius"):
        solve(CORRECTED, X, y, radius=0)
    with pytest.raises(ValueError, match="every sample_weight is zero"):
        solve(CORRECTED, X, y, sample_weight=da.zeros(20, chunks=10))


def test_without_dask_its_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "dask", None)
    for call in (
        lambda: sd.distributed.m_estimate(CORRECTED, X=None, y=None),
        lambda: sd.distributed.sgd(CORRECTED, np.zeros((5, 2)), np.ones(5)),
        lambda: sd.distributed.evaluate([1.0], np.zeros((5, 2)), np.ones(5), metric="log_loss", release=RELEASE),
    ):
        with pytest.raises(sd.MissingDependencyError, match=r'pip install "symdebias\[dask\]"'):
            call()


def counted_or_killed(block, folder, after):
    """Return a block of records; the process that is asked for one after so many others dies, once."""
    calls = folder / "calls"
    with calls.open("a") as stream:
        stream.write(".")
    if calls.stat().st_size > after:
        try:
            (folder / "killed").touch(exist_ok=False)
        except FileExistsError:
            return block
        os._exit(1)
    return block


@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_worker_that_dies_in_the_middle_of_a_fit_changes_nothing(tmp_path):
    """Two worker processes, one of which dies in about the tenth pass; its partitions are read again by another."""
    distributed = pytest.importorskip("distributed")
    X, y, _ = released(RELEASE)
    corrected = sd.debias(sd.losses.logistic(), RELEASE)
    expected = sd.m_estimate(corrected, X, y)
    first, second = as_arrays(X, y, chunks=11_000)
    kill = functools.partial(counted_or_killed, folder=Path(tmp_path), after=10 * len(first.chunks[0]))
    dying = first.map_blocks(kill, dtype=float, meta=np.zeros((0, 0)))
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 10}),
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster),
    ):
        found = sd.distributed.m_estimate(corrected, dying, second)
    assert (tmp_path / "killed").exists()
    compared(found, expected)


@pytest.mark.parametrize("are_together", [False, True])
def test_the_farthest_records_are_found_wherever_they_are(are_together, monkeypatch):
    """No more than so many of them, and the same ones where a partition has nearly all."""
    module = sys.modules["symdebias.solvers.score_sample"]
    monkeypatch.setattr(module, "_MOST_FAR", 40)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(44_000, 1))
    if are_together:
        x = x[np.argsort(np.abs(x[:, 0]))]
    y = 2 * x[:, 0] + rng.normal(size=len(x))
    corrected = sd.debias(sd.losses.least_squares(), sd.Release(sd.GaussianMechanism.from_scale(0.5)))
    parts = (da.from_array(one, chunks=(4_000,) * one.ndim) for one in (x, y))
    here, there = corrected.records(x, y), PartedRecords.checked(corrected, *parts)
    search = module._Search(np.eye(1), 0.0, 4.0, 4 * 40 / len(x))
    wanted = np.sort(np.argsort(-np.abs(x[:, 0]))[:40])
    for records in (here, there):
        np.testing.assert_array_equal(module._farthest(records, search).places, wanted)
        np.testing.assert_array_equal(module._farthest(records, replace(search, within=100.0)).places, [])


def test_a_correction_travels_by_what_determines_it():
    """A few thousand bytes, whatever was derived and compiled; and all copies in a process are one."""
    corrected = sd.debias(sd.losses.logistic(), RELEASE).resolve(radius=3.0, score_variance=0.3, n=1e5)
    correction = corrected.at(2)
    X, y, _ = released(RELEASE)
    theta = np.array([1.0, -1.0, 0.0])
    expected = corrected.records(X[:50], y[:50]).mean_loss(theta)
    sent = pickle.dumps(correction)
    assert len(sent) < 4_000
    first, second = pickle.loads(sent), pickle.loads(sent)
    assert first is second
    assert corrected.records(X[:50], y[:50]).under(first).mean_loss(theta) == pytest.approx(expected, rel=1e-12)


@pytest.mark.in_turn
@pytest.mark.parametrize("module", ["here", "there"])
def test_a_warning_of_inflation_points_at_the_call(module, monkeypatch):
    """The line that called the solver, not one within it."""
    X, y = released(RELEASE)[0].to_numpy()[:2_000], released(RELEASE)[1].to_numpy()[:2_000]
    solve = sd.m_estimate if module == "here" else sd.distributed.m_estimate
    parts = (X, y) if module == "here" else [da.from_array(one, chunks=(500, 2)[: one.ndim]) for one in (X, y)]
    monkeypatch.setattr(sys.modules["symdebias.solvers.health"], "MUCH_INFLATION", 0.0)
    monkeypatch.setattr(sys.modules["symdebias.solvers.health"], "_NEEDED", 1e-9)
    with pytest.warns(sd.VarianceWarning) as told:
        solve(sd.debias(sd.losses.squared_margin(), RELEASE), *parts)
    assert {one.filename for one in told} == {__file__}
