"""Targets in a unit that is not the loss's: refused with the unit that does, and fits in it are there."""

import re

import numpy as np
import pytest
import sympy as sp
from instances import U, Y

import symdebias as sd
from symdebias.solvers.residual_unit import scarcely_curved

THETA = np.array([1.0, -2.0, 3.0])
PLAIN = sd.Release(None, noiseless=("a", "b", "c"))
LOSSES = {"huber": sd.losses.huber, "quantile": sd.losses.quantile, "cauchy": sd.losses.cauchy}


def drawn(n=2_000, *, unit=1.0, outliers=0.0, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = X @ THETA + rng.normal(size=n)
    y[rng.random(n) < outliers] *= 1e4
    return X, unit * y


def said(loss, X, y):
    return scarcely_curved(sd.debias(loss, PLAIN).records(X, y), loss)


@pytest.mark.in_turn
@pytest.mark.parametrize("loss", LOSSES)
def test_the_unit_that_a_refusal_names_does(loss):
    X, y = drawn(unit=1e3)
    corrected = sd.debias(LOSSES[loss](), PLAIN)
    with pytest.raises(sd.DivergenceError, match=r"the loss is curved at about 0\.\d+% of them") as caught:
        sd.m_estimate(corrected, X, y)
    assert "l2=" not in str(caught.value)
    unit = float(re.search(r"the target in units of about ([0-9.e+]+),", str(caught.value))[1])
    fit = sd.m_estimate(corrected, X, y / unit)
    np.testing.assert_allclose(fit.theta * unit / 1e3, THETA, atol=5 * 0.025)


def test_noised_records_are_told_as_well():
    X, y = drawn(unit=1e3)
    release = sd.Release(sd.GaussianMechanism.from_scale(0.3))
    noised = release.privatize(X, y, random_state=0)
    with pytest.raises(sd.DivergenceError, match="its unit is not theirs"):
        sd.m_estimate(sd.debias(sd.losses.cauchy(), release), noised.X, noised.y)


@pytest.mark.in_turn
@pytest.mark.parametrize("intercept", [False, True])
def test_a_minimum_that_few_residuals_make_is_no_fit(intercept):
    """Of residuals like 1e6 each makes a minimum of the Cauchy loss by itself, next to zero as elsewhere."""
    X, y = drawn(unit=1e6)
    release = sd.Release(None, noiseless=("a", "b", "c"), fit_intercept=intercept)
    with pytest.raises(sd.DivergenceError, match="its unit is not theirs"):
        sd.m_estimate(sd.debias(sd.losses.cauchy(), release), X, y)


def test_without_any_curvature_the_unit_is_named():
    X, y = drawn(unit=1e6)
    fit = sd.m_estimate(sd.debias(sd.losses.huber(), PLAIN), X, y)
    np.testing.assert_allclose(fit.theta / 1e6, THETA, atol=5 * 0.03)
    with pytest.raises(sd.InferenceError, match="the unit of the target"):
        _ = fit.standard_errors


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(("n", "outliers"), [(2_000, 0.0), (60, 0.0), (2_000, 0.1), (30, 0.1)])
def test_residuals_in_the_unit_of_the_loss_are_left_alone(loss, n, outliers):
    X, y = drawn(n, outliers=outliers)
    assert said(LOSSES[loss](), X, y) == ""


@pytest.mark.parametrize("unit", [1.0, 1e6])
def test_a_loss_without_curvature_has_no_unit(unit):
    X, y = drawn(unit=unit)
    assert said(sd.Loss(sp.Abs(Y - U), score=U, target=Y), X, y) == ""
    assert said(sd.losses.least_squares(), X, y) == ""
    assert said(sd.losses.expectile(0.3), X, y) == ""
    assert said(sd.losses.poisson(), X, np.abs(np.round(y))) == ""


def test_records_without_weight_are_not_asked():
    X, y = drawn()
    weights = (np.arange(len(y)) % 2).astype(float)
    y[weights == 0] *= 1e8
    loss = sd.losses.huber()
    assert scarcely_curved(sd.debias(loss, PLAIN).records(X, y, sample_weight=weights), loss) == ""


def test_records_of_little_weight_count_little():
    """A local fit rests on the records about its middle: those far away, where the line is another, are not its own."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, 5_000)
    y = 3 * x + 1_000 * x**2 + rng.normal(size=len(x))
    weights = np.exp(-((x / 0.02) ** 2) / 2)
    release = sd.Release(None, noiseless=("x",), fit_intercept=True)
    fit = sd.m_estimate(sd.debias(sd.losses.cauchy(), release), x[:, None], y, sample_weight=weights)
    assert abs(fit.theta[0] - 3) < 5 * fit.standard_errors[0] < 50


@pytest.mark.parametrize("seed", range(5))
def test_a_loss_that_bends_up_far_out_is_fitted_under_heavy_tails(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(500, 3))
    y = X @ THETA + rng.standard_t(2, size=500)
    loss = sd.Loss((Y - U) ** 4 / 12 + 2 * sp.cos(Y - U), score=U, target=Y)
    assert np.isfinite(sd.m_estimate(sd.debias(loss, PLAIN), X, y).theta).all()
