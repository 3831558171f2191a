"""Known terms of a score: offsets and exposure."""

import numpy as np
import pandas as pd
import pytest
import sympy as sp
from scipy import optimize

import symdebias as sd
from symdebias.losses.offsets import offset_of
from symdebias.solvers import health

NOISE = 0.4
RELEASE = sd.Release({"x": sd.GaussianMechanism.from_scale(NOISE)}, noiseless=("z",), fit_intercept=True)
THETA = np.array([0.5, -0.3, 0.2])
# Fits on so few records run uncompiled.
FEW = 100


def counts(n=FEW, seed=0):
    """Released columns, counts and logarithms of exposures between 0.1 and 20."""
    rng = np.random.default_rng(seed)
    true, offset = rng.normal(size=(n, 2)), rng.uniform(np.log(0.1), np.log(20), n)
    y = rng.poisson(np.exp(true @ THETA[:2] + THETA[2] + offset))
    return true + NOISE * rng.normal(size=n)[:, None] * [1, 0], y, offset


def corrected(loss="poisson", *arguments):
    return sd.debias(getattr(sd.losses, loss)(*arguments), RELEASE)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_corrected_equation_of_counts_with_exposure_by_hand(weighted):
    X, y, offset = counts()
    offset = offset / 4
    weights = np.random.default_rng(1).uniform(0.5, 2.0, len(y)) if weighted else np.ones(len(y))
    rows, noise = np.column_stack([X, np.ones(len(y))]), np.diag([NOISE**2, 0.0, 0.0])

    def gradients(theta):
        means = np.exp(rows @ theta + offset - theta @ noise @ theta / 2)
        return weights[:, None] * (means[:, None] * (rows - noise @ theta) - y[:, None] * rows)

    root = optimize.root(lambda theta: gradients(theta).sum(axis=0), THETA, tol=1e-12).x
    fit = sd.m_estimate(corrected(), X, y, offset=offset, sample_weight=weights if weighted else None)
    np.testing.assert_allclose(fit.theta, root, rtol=1e-6)
    slopes = [(gradients(root + step) - gradients(root - step)).sum(axis=0) / 2e-5 for step in 1e-5 * np.eye(3)]
    influence = np.linalg.solve(np.array(slopes), gradients(root).T)
    # Records with much leverage are left out one by one beside it, which makes errors larger.
    ratio = np.diag(fit.covariance) / np.sum(influence**2, axis=1)
    assert np.all((ratio > 1 - 1e-6) & (ratio < 1.4))
    assert fit.diagnostics["offset"]


def test_a_constant_offset_moves_the_intercept_and_nothing_else():
    X, y, _ = counts()
    plain = sd.m_estimate(corrected(), X, y, l2=0.1)
    moved = sd.m_estimate(corrected(), X, y, l2=0.1, offset=np.full(len(y), 0.7))
    np.testing.assert_allclose(moved.theta, plain.theta - [0, 0, 0.7], rtol=1e-8)
    np.testing.assert_allclose(moved.standard_errors, plain.standard_errors, rtol=1e-3)


@pytest.mark.parametrize("name", ["least_squares", "huber", "poisson", "gamma", "tweedie"])
def test_a_fit_with_an_offset_is_the_minimum_of_the_loss_of_the_shifted_score(name):
    X, y, offset = counts()
    if name in ("least_squares", "huber"):
        y = X @ THETA[:2] + THETA[2] + offset + np.random.default_rng(2).normal(size=len(y))
    loss = getattr(sd.losses, name)()
    plain = sd.debias(loss, sd.Release(noiseless=("x", "z"), fit_intercept=True))
    fit = sd.m_estimate(plain, X, y + 0.5, offset=offset)
    value = sp.lambdify((loss.scores[0], loss.target), loss.expression)
    rows = np.column_stack([X, np.ones(len(y))])
    found = optimize.minimize(lambda theta: np.sum(value(rows @ theta + offset, y + 0.5)), fit.theta, tol=1e-12)
    np.testing.assert_allclose(fit.theta, found.x, atol=2e-5)


def test_a_surrogate_and_descent_have_it_too():
    """Four standard errors of many records; without the offset theta is far away."""
    rng = np.random.default_rng(3)
    true, offset = rng.normal(size=(4_000, 2)), rng.uniform(-2, 2, 4_000)
    y = true @ THETA[:2] + THETA[2] + offset + rng.normal(size=4_000)
    X = true + NOISE * rng.normal(size=(4_000, 1)) * [1, 0]
    fit = sd.m_estimate(corrected("huber"), X, y, offset=offset)
    assert fit.corrected.method == "surrogate"
    assert np.all(np.abs(fit.theta - THETA) < 4 * fit.standard_errors + fit.bias_bound)
    trained = sd.sgd(corrected("least_squares"), X, y, offset=offset, average=0.5, epochs=5, random_state=0)
    assert np.linalg.norm(trained.theta - THETA) < 0.1
    assert trained.diagnostics["offset"]


def test_predictions_take_the_offset():
    X, y, offset = counts()
    fit = sd.m_estimate(corrected(), X, y, offset=offset)
    scores = np.column_stack([X, np.ones(len(y))]) @ fit.theta
    np.testing.assert_allclose(fit.decision_function(X, offset=offset), scores + offset)
    np.testing.assert_allclose(fit.predict(X, offset=offset), np.exp(scores + offset))
    assert fit.score(X, y, offset=offset) > fit.score(X, y, offset=0 * offset)
    for call in (fit.predict, fit.decision_function, lambda X: fit.score(X, y)):
        with pytest.raises(ValueError, match=r"has an offset, .* Pass offset=, with zeros"):
            call(X)
    with pytest.raises(ValueError, match=r"offset has the shape \(2,\); it must be \(100,\)"):
        fit.predict(X, offset=[0.0, 1.0])
    with pytest.raises(ValueError, match="this fit has an offset, and scores of released records"):
        sd.evaluation.evaluate(fit, X, y, metric=sd.losses.poisson())


def test_a_saved_fit_remembers_its_offset(tmp_path):
    X, y, offset = counts()
    sd.m_estimate(corrected(), X, y, offset=offset).save(tmp_path / "fit.npz")
    with pytest.raises(ValueError, match="has an offset"):
        sd.Fit.load(tmp_path / "fit.npz").predict(X)


@pytest.mark.parametrize("given", [pd.Series, list, lambda offset: offset.astype("f4").astype(float)])
def test_kinds_of_arrays(given):
    X, y, offset = counts()
    offset = offset.astype("f4").astype(float)
    offset.flags.writeable = False
    plain = sd.m_estimate(corrected(), X, y, offset=offset)
    again = sd.m_estimate(corrected(), X, given(y), offset=given(offset))
    np.testing.assert_array_equal(plain.theta, again.theta)


X, Y, OFFSET = counts()
REFUSED = {
    "another length": ({"offset": OFFSET[:5]}, r"shape \(5,\); it must be \(100,\)"),
    "a matrix": ({"offset": OFFSET[:, None]}, r"shape \(100, 1\)"),
    "NaN": ({"offset": np.where(np.arange(FEW) == 3, np.nan, OFFSET)}, "offset has NaN in row 3"),
    "an exposure of 0": ({"offset": np.where(np.arange(FEW) == 3, -np.inf, OFFSET)}, "offset has infinity in row 3"),
    "in other units": ({"offset": 1000 * OFFSET}, "row [0-9]+ over exp.offset. is not finite.*np.log"),
    "text": ({"offset": ["a"] * FEW}, "offset must hold real numbers"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_offset(name):
    arguments, message = REFUSED[name]
    with pytest.raises((ValueError, TypeError), match=message):
        sd.m_estimate(corrected(), X, Y, **arguments)


def test_row_labels_must_agree():
    table = pd.DataFrame(X, columns=["x", "z"])
    with pytest.raises(ValueError, match="offset"):
        sd.m_estimate(corrected(), table, pd.Series(Y), offset=pd.Series(OFFSET, index=np.arange(FEW)[::-1]))


@pytest.mark.parametrize("name", ["logistic", "negative_binomial", "squared_margin", "softmax"])
def test_losses_without_an_offset_say_what_to_do(name):
    loss = getattr(sd.losses, name)(*((3,) if name == "softmax" else ()))
    with pytest.raises(ValueError, match=r"so that there is none. List the offset as a noiseless column"):
        offset_of(loss)


def test_releases_that_hide_the_target_have_none():
    joint = sd.Release(sd.LaplaceMechanism(epsilon=2.0, radius=1.0), target="joint", target_bounds=(-1, 1))
    with pytest.raises(ValueError, match="features and target in one vector"):
        sd.m_estimate(sd.debias(sd.losses.least_squares(), joint), X, Y, offset=OFFSET)
    coin = sd.Release(target=sd.RandomizedResponse(1.0, categories=(0, 1)), noiseless=("x", "z"))
    with pytest.raises(ValueError, match="leaves no number that it could be taken off"):
        sd.m_estimate(sd.debias(sd.losses.poisson(), coin), X, np.minimum(Y, 1), offset=OFFSET)


def test_short_exposures_do_not_look_like_a_fit_that_is_lost(monkeypatch):
    """Few events in little time are high rates of little weight: without weights one record carries the gradient."""
    monkeypatch.setattr(health, "_FEWEST_CARRIERS", 8)  # of the 100 records that run uncompiled
    rng = np.random.default_rng(4)
    true, offset = rng.normal(size=(FEW, 2)), np.log(rng.uniform(0, 1, FEW) ** 6)
    y = rng.poisson(np.exp(true @ THETA[:2] + 3.0 + offset))
    y[np.argmin(offset)] = 1
    fit = sd.m_estimate(corrected(), true + NOISE * rng.normal(size=(FEW, 1)) * [1, 0], y, offset=offset)
    assert fit.diagnostics["carrying_share"] > 0.1
    assert np.all(np.abs(fit.theta - [*THETA[:2], 3.0]) < 4 * fit.standard_errors)
