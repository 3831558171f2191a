"""Predictions for true records that are read by blocks are those in memory, and X is never there as a whole."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest
from sources import in_order

import symdebias as sd
from symdebias._rows import Rows
from symdebias.solvers import History

COUNT = 40_000
RELEASE = sd.Release(
    {"a": sd.GaussianMechanism.from_scale(0.3), "b": sd.GaussianMechanism.from_scale(0.2)},
    fit_intercept=True,
    center={"a": 1.0},
    scale={"a": 2.0},
)


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(COUNT, 2))
    return X, np.where(rng.random(COUNT) < 1 / (1 + np.exp(-X @ [1.0, -1.0])), 1.0, -1.0)


@pytest.fixture(scope="module")
def fits(people):
    X, y = people
    noised = RELEASE.privatize(pd.DataFrame(X, columns=["a", "b"]), y, random_state=1)
    exposure = np.full(COUNT, 0.3)
    counts = np.exp(0.2 * X[:, 0] + exposure)
    return {
        "labels": sd.m_estimate(sd.debias(sd.losses.logistic(), noised.release), noised.X, noised.y),
        "numbers": sd.m_estimate(sd.debias(sd.losses.poisson(), noised.release), noised.X, counts, offset=exposure),
    }


@pytest.mark.in_turn
@pytest.mark.parametrize("what", ["decision_function", "predict", "predict_proba", "predict_interval", "score"])
@pytest.mark.parametrize("kind", ["labels", "numbers"])
def test_what_is_predicted_of_blocks_is_what_is_predicted_in_memory(kind, what, fits, people):
    (X, y), fit = people, fits[kind]
    if (kind, what) == ("numbers", "predict_proba"):
        return
    offset = np.linspace(0, 0.5, COUNT) if kind == "numbers" else None
    pairs = [(X, y), (in_order(X), in_order(y))]
    expected, found = (getattr(fit, what)(*pair[: 2 if what == "score" else 1], offset=offset) for pair in pairs)
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("model", [sd.DebiasedClassifier, sd.DebiasedRegressor])
def test_estimators_predict_for_blocks(model, people):
    X, y = people
    noised = RELEASE.privatize(pd.DataFrame(X, columns=["a", "b"]), y, random_state=1)
    read = model(release=noised.release).fit(in_order(np.asarray(noised.X)), in_order(np.asarray(noised.y)))
    for what in ("predict", "decision_function", "predict_proba", "predict_log_proba"):
        if hasattr(read, what):
            np.testing.assert_allclose(getattr(read, what)(in_order(X)), getattr(read, what)(X), rtol=1e-13)
    assert read.score(in_order(X), in_order(y)) == pytest.approx(read.score(X, y), rel=1e-13)


def test_true_records_in_files_are_matched_and_named_by_their_row(fits, people, tmp_path):
    X = people[0]
    table = pd.DataFrame(X, columns=["a", "b"])
    table.to_parquet(tmp_path / "true.parquet")
    read, _ = sd.blocks.from_parquet(tmp_path / "true.parquet", columns=["a", "b"])
    np.testing.assert_allclose(fits["labels"].decision_function(read), fits["labels"].decision_function(X), rtol=1e-13)
    exchanged, _ = sd.blocks.from_parquet(tmp_path / "true.parquet", columns=["b", "a"])
    with pytest.raises(ValueError, match="X was read as the columns b, a"):
        fits["labels"].predict(exchanged)
    spoilt = X.copy()
    spoilt[35_000, 1] = np.nan
    with pytest.raises(ValueError, match="row 35000"):
        fits["labels"].predict(in_order(spoilt))
    with pytest.raises(ValueError, match="X has 3 columns"):
        fits["labels"].predict(in_order(np.zeros((5, 3))))


def test_memory_of_predictions_is_that_of_what_is_returned():
    """X would take 64 MB; scores take 3, twice where blocks of them are put together, and a block 5."""
    theta = np.linspace(-1, 1, 20)
    corrected = sd.debias(sd.losses.logistic(), sd.Release(sd.GaussianMechanism.from_scale(0.3)), method="none")
    fit = sd.Fit(theta=theta, corrected=corrected, solver="by hand", history=History.empty(theta))
    X = Rows((400_000, 20), lambda rows: np.ones((rows.stop - rows.start, 20)))
    tracemalloc.start()
    try:
        fit.predict_proba(X)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 40e6
