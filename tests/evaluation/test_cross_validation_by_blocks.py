"""Cross-validation of records on disk: folds are read where they are, and the table is that of records in memory."""

import functools
import tracemalloc

import numpy as np
import pytest

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
    np.save(tmp_path / "X.npy", noised.X)
    on_disk = np.load(tmp_path / "X.npy", mmap_mode="r")
    judged = sd.losses.exponential() if metric == "exponential" else metric
    how = {"release": noised.release, "metric": judged, "folds": 3, "random_state": 0}
    expected = cross_validate(candidates(noised.release), noised.X, noised.y, **how)
    given = []

    def seen(X, y):
        given.append(type(X))
        return sd.m_estimate(sd.debias(sd.losses.exponential(), noised.release), X, y)

    for X, y in ((on_disk, noised.y), (Rows.of_array(noised.X), Rows.of_array(np.asarray(noised.y, dtype=float)))):
        found = cross_validate(candidates(noised.release) | {"seen": seen}, X, y, **how)
        for name in expected.estimates:
            assert found.estimates[name].value == pytest.approx(expected.estimates[name].value, rel=1e-10)
            np.testing.assert_allclose(
                found.estimates[name].standard_error, expected.estimates[name].standard_error, rtol=1e-8
            )
            np.testing.assert_allclose(found.fold_values[name], expected.fold_values[name], rtol=1e-10)
    assert set(given) == {Rows}


def test_what_is_read_in_order_is_refused_in_words(noised):
    in_order = Rows(noised.X.shape, lambda rows: np.array(noised.X[rows]))
    with pytest.raises(ValueError, match=r"cross_validate holds out records from everywhere.*to_memory_map"):
        cross_validate(candidates(noised.release), in_order, noised.y, release=noised.release, metric="accuracy")


@pytest.mark.in_turn
def test_folds_are_not_copied(tmp_path):
    """Records take 32 MB, and those of a fold would take 21; what each of them is judged by takes some columns."""
    count = 100_000
    rng = np.random.default_rng(0)
    np.save(tmp_path / "X.npy", rng.normal(size=(count, 40)))
    X = np.load(tmp_path / "X.npy", mmap_mode="r")
    y = X[:, 0] + rng.normal(size=count)
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
    assert peak < 20e6
