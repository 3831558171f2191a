"""Cross-validation of records on disk: folds are read where they are, and the table is that of records in memory."""

import functools
import tracemalloc

import numpy as np
import pytest
from sources import in_order, on_disk

import symdebias as sd
from symdebias._rows import Rows
from symdebias.evaluation import cross_validate

COUNT = 6_000
RELEASE = sd.Release(sd.GaussianMechanism.from_scale(0.3), sd.RandomizedResponse(3.0))


def candidates(release):
    corrected = sd.debias(sd.losses.exponential(), release)
    return {
        "some": functools.partial(sd.m_estimate, corrected, l2=0.1),
        "none": functools.partial(sd.m_estimate, corrected),
        "estimator": sd.DebiasedClassifier("exponential", release=release),
    }


@pytest.fixture(scope="module")
def noised():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(COUNT, 2))
    return RELEASE.privatize(X, np.where(rng.random(COUNT) < 1 / (1 + np.exp(-2 * X[:, 0])), 1, -1), random_state=1)


@pytest.mark.in_turn
@pytest.mark.parametrize("metric", ["accuracy", "roc_auc", "f1", "exponential"])
def test_the_table_of_a_memory_map_is_that_of_an_array(metric, noised, tmp_path, monkeypatch):
    monkeypatch.setattr("symdebias.evaluation.cross_validation.ROWS", 1_000)
    X_on_disk = on_disk(noised.X, tmp_path)
    judged = sd.losses.exponential() if metric == "exponential" else metric
    how = {"release": noised.release, "metric": judged, "folds": 3, "random_state": 0}
    expected = cross_validate(candidates(noised.release), noised.X, noised.y, **how)
    given = []

    def seen(X, y):
        given.append(type(X))
        return sd.m_estimate(sd.debias(sd.losses.exponential(), noised.release), X, y)

    numbers, tables = np.asarray(noised.y, dtype=float), []
    for X, y in (
        (X_on_disk, noised.y),
        (Rows.of_array(noised.X), Rows.of_array(numbers)),
        (in_order(noised.X), in_order(numbers)),
        (in_order(noised.X), noised.y),
    ):
        found = cross_validate(candidates(noised.release) | {"seen": seen}, X, y, **how)
        for name in expected.estimates:
            assert found.estimates[name].value == pytest.approx(expected.estimates[name].value, rel=1e-10)
            np.testing.assert_allclose(
                found.estimates[name].standard_error, expected.estimates[name].standard_error, rtol=1e-8
            )
            np.testing.assert_allclose(found.fold_values[name], expected.fold_values[name], rtol=1e-10)
        tables.append(found)
    assert set(given) == {Rows}
    # A stream is copied to a memory map.
    for found in tables[2:]:
        assert (found.estimates, found.differences) == (tables[0].estimates, tables[0].differences)


def labels_in_one_vector(with_intercept):
    rng = np.random.default_rng(2)
    X = rng.uniform(-0.5, 0.5, size=(COUNT, 2))
    release = sd.Release(sd.GaussianMechanism.from_scale(0.3), target="margin", fit_intercept=with_intercept)
    y = np.where(rng.random(COUNT) < 1 / (1 + np.exp(-4 * X[:, 0])), 1, -1)
    return release.privatize(X, y, random_state=3), sd.losses.exponential(), {"metric": "accuracy"}


def numbers_in_one_vector():
    X = np.random.default_rng(2).uniform(-0.5, 0.5, size=(COUNT, 2))
    release = sd.Release(sd.GaussianMechanism(30.0, 1e-5, radius=1.0), target="joint", target_bounds=(-1, 1))
    noised = release.privatize(X, X @ [1.0, -0.5], random_state=3)
    return noised, sd.losses.least_squares(), {"metric": "squared_error"}


def with_offset(loss, metric):
    rng = np.random.default_rng(2)
    X, offset = rng.uniform(-1, 1, size=(COUNT, 2)), rng.normal(size=COUNT)
    release = sd.Release(sd.GaussianMechanism.from_scale(0.3), fit_intercept=True)
    mean = X @ [1.0, -0.5] + offset
    y = rng.poisson(np.exp(mean)) if metric == "poisson" else mean + rng.normal(size=COUNT)
    return release.privatize(X, y, random_state=3), loss, {"metric": metric, "offset": offset}


OTHERS = {
    "margins": lambda: labels_in_one_vector(False),
    "margins with an intercept": lambda: labels_in_one_vector(True),
    "joint": numbers_in_one_vector,
    "offset": lambda: with_offset(sd.losses.least_squares(), "squared_error"),
    "exposure": lambda: with_offset(sd.losses.poisson(), "poisson"),
}


@pytest.mark.in_turn
@pytest.mark.parametrize("what", OTHERS)
def test_one_vector_and_an_offset_are_judged_by_blocks(what, tmp_path, monkeypatch):
    """With weights and clusters, which are arrays."""
    monkeypatch.setattr("symdebias.evaluation.cross_validation.ROWS", 1_000)
    noised, loss, options = OTHERS[what]()
    rng = np.random.default_rng(4)
    how = {
        "release": noised.release, "folds": 3, "random_state": 0,
        "sample_weight": rng.integers(0, 3, COUNT), "clusters": rng.integers(0, 500, COUNT),
    } | options  # fmt: skip
    fits = {"fit": functools.partial(sd.m_estimate, sd.debias(loss, noised.release), radius=5.0)}
    expected = cross_validate(fits, noised.X, noised.y, **how).estimates["fit"]
    y = None if noised.y is None else np.asarray(noised.y, dtype=float)
    any_row = None if y is None else Rows.of_array(y)
    for given in (
        (on_disk(noised.X, tmp_path), y), (Rows.of_array(noised.X), any_row), (in_order(noised.X), in_order(y))
    ):  # fmt: skip
        found = cross_validate(fits, *given, **how).estimates["fit"]
        assert found.value == pytest.approx(expected.value, rel=1e-9)
        assert found.standard_error == pytest.approx(expected.standard_error, rel=1e-7)


def test_records_that_are_read_in_order_are_told_by_their_columns_and_their_number(noised):
    in_place = in_order(noised.X)
    in_place.names = ("x1", "x0")
    release = noised.release
    with pytest.raises(ValueError, match="read as the columns x1, x0, and those of the release are x0, x1"):
        cross_validate(candidates(release), in_place, noised.y, release=release, metric="accuracy")
    with pytest.raises(ValueError, match="y has 10 entries, but X has 6000 rows"):
        cross_validate(candidates(release), in_order(noised.X), np.ones(10), release=release, metric="accuracy")
    with pytest.raises(TypeError, match="release must be a symdebias"):
        cross_validate(candidates(release), in_order(noised.X), noised.y, release=0.3, metric="accuracy")


@pytest.mark.in_turn
@pytest.mark.parametrize("kind", [on_disk, lambda X, folder: in_order(X)], ids=["memory map", "stream"])
def test_folds_are_not_copied(kind, tmp_path, monkeypatch):
    """Records take 64 MB, and those of a fold would take 43; what each of them is judged by takes some columns."""
    # Each thread has blocks of its own.
    monkeypatch.setattr("symdebias.codegen.parallel.numba.get_num_threads", lambda: 1)
    count = 200_000
    rng = np.random.default_rng(0)
    X = on_disk(rng.normal(size=(count, 40)), tmp_path)
    y = np.asarray(X[:, 0] + rng.normal(size=count))
    X = X if kind is on_disk else in_order(X)
    release = sd.Release(sd.GaussianMechanism.from_scale(0.3))
    fit = functools.partial(sd.m_estimate, sd.debias(sd.losses.least_squares(), release))
    how = {"release": release, "metric": "squared_error", "folds": 3, "random_state": 0}
    # What a compilation takes is not counted.
    cross_validate({"fit": fit}, X, y, **how)
    tracemalloc.start()
    try:
        cross_validate({"fit": fit}, X, y, **how)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 35e6
