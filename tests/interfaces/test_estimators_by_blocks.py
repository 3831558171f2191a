"""Estimators of scikit-learn take records by blocks, with a release and without one: the same as in memory."""

import re
import tracemalloc

import numpy as np
import pytest
from sources import in_order, on_disk

pytest.importorskip("sklearn")

import symdebias as sd
from symdebias._rows import Rows

COUNT = 3_000
RELEASES = {"as they are": None, "noised": sd.Release(sd.GaussianMechanism.from_scale(0.3), fit_intercept=True)}
SOURCES = {
    "in order": lambda X, y, folder: (in_order(X), in_order(y)),
    "any row": lambda X, y, folder: (Rows.of_array(X), Rows.of_array(y)),
    "memory map": lambda X, y, folder: (on_disk(X, folder), y),
    "memory map of float32 in Fortran order": lambda X, y, folder: (
        on_disk(np.asfortranarray(X, dtype=np.float32), folder), y,
    ),
    "features in order": lambda X, y, folder: (in_order(X), y),
    "targets in order": lambda X, y, folder: (X, in_order(y)),
}  # fmt: skip


def made(kind, release, **options):
    if kind == "regressor":
        return sd.DebiasedRegressor(release=release, **options)
    return sd.DebiasedClassifier("softmax" if kind == "several" else "exponential", release=release, **options)


@pytest.fixture(scope="module", params=["regressor", "classifier", "several"])
def records(request):
    """Of numbers that float32 has as well."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(COUNT, 2)).astype(np.float32).astype(float)
    scores = X @ [1.0, -0.5]
    if request.param == "regressor":
        return request.param, X, scores + rng.normal(size=COUNT)
    if request.param == "classifier":
        return request.param, X, np.where(rng.random(COUNT) < 1 / (1 + np.exp(-2 * scores)), 1.0, -1.0)
    return request.param, X, np.digitize(scores + rng.logistic(size=COUNT), [-1, 1]).astype(float)


def told(model, X, y):
    """What a fitted model says of records."""
    found = {"coef": model.coef_, "intercept": model.intercept_, "predicted": model.predict(X)}
    found["score"] = model.score(X, y)
    if hasattr(model, "decision_function"):
        found["scores"] = model.decision_function(X)
    if hasattr(model, "predict_proba") and model.loss == "softmax":
        found["probabilities"] = model.predict_proba(X)
    return found


@pytest.mark.in_turn
@pytest.mark.filterwarnings("ignore::symdebias.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("solver", ["m_estimate", "sgd"])
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("release", RELEASES)
def test_estimators_are_those_of_records_in_memory(release, source, solver, records, tmp_path):
    kind, X, y = records
    options = {"order": "given", "batch_size": 100, "step_size": 0.05} if solver == "sgd" else {}
    options = {"solver": solver, "solver_options": options, "random_state": 0}
    release = RELEASES[release]
    if kind == "several" and release is not None:
        options["method"] = "none"
    given = SOURCES[source](X, y, tmp_path)
    found, expected = (made(kind, release, **options).fit(*pair) for pair in (given, (X, y)))
    assert found.n_features_in_ == 2
    ours, theirs = told(found, *given), told(expected, X, y)
    for name, value in theirs.items():
        np.testing.assert_allclose(ours[name], value, rtol=1e-8, atol=1e-10, err_msg=name)
    if solver == "sgd":
        classes = {} if kind == "regressor" else {"classes": np.unique(y)}
        found, expected = (
            made(kind, release, **options).partial_fit(*pair, **classes).partial_fit(*pair) for pair in (given, (X, y))
        )
        np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-8)


@pytest.mark.in_turn
def test_a_long_memory_map_of_another_type_is_not_copied(tmp_path, monkeypatch):
    """As float64 it would take 48 MB."""
    monkeypatch.setattr("symdebias.codegen.parallel.numba.get_num_threads", lambda: 1)
    X = on_disk(np.random.default_rng(0).normal(size=(300_000, 20)).astype(np.float32), tmp_path)
    y = np.asarray(X[:, 0], dtype=float)
    # What a compilation takes is not counted.
    sd.DebiasedRegressor().fit(X, y).score(X, y)
    tracemalloc.start()
    try:
        sd.DebiasedRegressor().fit(X, y).score(X, y)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 30e6


def test_what_does_not_fit_is_refused_in_words():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    y = X @ [1.0, -0.5] + rng.normal(size=200)
    model = sd.DebiasedRegressor().fit(in_order(X), in_order(y))
    with pytest.raises(ValueError, match="X has 3 features, but DebiasedRegressor is expecting 2 features"):
        model.predict(in_order(np.ones((5, 3))))
    with pytest.raises(ValueError, match="y has 10 entries, but X has 200 rows"):
        sd.DebiasedRegressor().fit(in_order(X), y[:10])
    with pytest.raises(ValueError, match="y has 10 entries, but X has 200 rows"):
        sd.DebiasedClassifier().fit(in_order(X), np.sign(y[:10]))
    spoilt = X.copy()
    spoilt[150, 1] = np.nan
    for work in (lambda rows: sd.DebiasedRegressor().fit(rows, y), model.predict, lambda rows: model.score(rows, y)):
        with pytest.raises(ValueError, match="NaN in row 150"):
            work(in_order(spoilt))
    with pytest.raises(ValueError, match="one class alone"):
        sd.DebiasedClassifier().fit(in_order(X), in_order(np.ones(200)))


def test_columns_that_were_read_by_name_are_those_of_the_fit():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    y = X @ [1.0, -0.5] + rng.normal(size=200)

    def named(*names):
        found = in_order(X)
        found.names = names
        return found

    model = sd.DebiasedRegressor().fit(named("a", "b"), y)
    assert model.feature_names_in_.tolist() == ["a", "b"]
    assert model.predict(named("a", "b")).shape == (200,)
    with pytest.raises(ValueError, match=re.escape("X was read as the columns b, a, and DebiasedRegressor was fitted")):
        model.predict(named("b", "a"))


def test_small_columns_by_blocks_are_warned_of():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2)) * [1.0, 1e-4]
    with pytest.warns(UserWarning, match="shrinks coefficients of such small numbers as those of number 1"):
        sd.DebiasedRegressor().fit(in_order(X), X[:, 0] + rng.normal(size=200))


def test_encoded_labels_come_by_blocks_too():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 2))
    places = (X[:, 0] + rng.logistic(size=500) > 0).astype(float)
    release = sd.Release(sd.GaussianMechanism.from_scale(0.1), sd.RandomizedResponse(5.0))
    found, expected = (
        sd.DebiasedClassifier("exponential", release=release, encoded_labels=[-1, 1]).fit(*pair)
        for pair in ((in_order(X), in_order(places)), (X, places))
    )
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-10)
    assert found.score(in_order(X), in_order(places)) == expected.score(X, places)
