"""Targets that a loss is not of are refused by name."""

import numpy as np
import pytest
import sympy as sp

import symdebias as sd

X = np.random.default_rng(0).normal(size=(300, 2))
SIGNS = np.where(X[:, 0] > 0, 1.0, -1.0)
u, y = sp.symbols("u y", real=True)
OWN = sd.Loss(sp.exp(u) - y * u, score=u, target=y)


@pytest.mark.parametrize("solver", [sd.m_estimate, sd.sgd])
@pytest.mark.parametrize("loss", [sd.losses.poisson(), sd.losses.negative_binomial(), sd.losses.gamma(), OWN], ids=str)
def test_losses_of_positive_means_refuse_negative_targets(loss, solver):
    corrected = sd.debias(loss, sd.Release(sd.LaplaceMechanism.from_scale(0.1)))
    with pytest.raises(ValueError, match=r"is of targets from 0 on, .* y\[\d+\] is negative. Recode labels to 0 and 1"):
        solver(corrected, X, SIGNS)


@pytest.mark.parametrize(
    ("target", "values", "told"),
    [
        (sd.RandomizedResponse(epsilon=2.0), SIGNS, "the label -1 is declared"),
        (sd.LaplaceMechanism.from_scale(0.5), -1 - 0.1 * X[:, 1], "mean is negative by more than the noise explains"),
    ],
    ids=["channel", "noise"],
)
def test_noised_targets_are_judged_by_what_is_known_of_the_true_ones(target, values, told):
    corrected = sd.debias(sd.losses.poisson(), sd.Release(sd.LaplaceMechanism.from_scale(0.1), target))
    with pytest.raises(ValueError, match=told):
        sd.m_estimate(corrected, X, values)


@pytest.mark.in_turn
def test_targets_that_noise_made_negative_and_losses_of_any_number_are_taken():
    counts = np.random.default_rng(1).poisson(np.exp(0.3 * X[:, 0])).astype(float)
    release = sd.Release(sd.LaplaceMechanism.from_scale(0.1), sd.LaplaceMechanism.from_scale(1.0))
    noised = release.privatize(X, counts, random_state=0)
    assert (noised.y < 0).any()
    corrected = sd.debias(sd.losses.poisson(), noised.release)
    assert np.isfinite(sd.m_estimate(corrected, noised.X, noised.y).theta).all()
    plain = sd.debias(sd.losses.least_squares(), sd.Release(sd.LaplaceMechanism.from_scale(0.1)))
    assert np.isfinite(sd.m_estimate(plain, X, SIGNS).theta).all()


def test_least_squares_about_a_positive_mean_takes_what_errors_made_negative():
    numbers = np.exp(0.5 * X[:, 0]) + np.random.default_rng(2).normal(size=len(X))
    assert (numbers < 0).any()
    about = sd.Loss((sp.exp(u) - y) ** 2, score=u, target=y)
    fit = sd.m_estimate(sd.debias(about, sd.Release(noiseless=("a", "b"))), X, numbers)
    assert abs(fit.theta[0] - 0.5) < 0.3


@pytest.mark.parametrize("loss", [sd.losses.tweedie(1.01), sd.losses.tweedie(1.99)], ids=str)
def test_a_loss_without_a_least_value_refuses_negative_targets(loss):
    with pytest.raises(ValueError, match="is negative"):
        sd.m_estimate(sd.debias(loss, sd.Release(noiseless=("a", "b"))), X, SIGNS)


@pytest.mark.in_turn
@pytest.mark.parametrize("solver", [sd.m_estimate, sd.sgd])
def test_targets_without_weight_are_not_looked_at(solver):
    """Missing counts that are coded as -99, and labels of another coding, with weight 0."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2_000, 1))
    release = sd.Release(sd.GaussianMechanism.from_scale(0.3))
    corrected = sd.debias(sd.losses.poisson(), release)
    y, weights = rng.poisson(1.0, 2_000).astype(float), np.ones(2_000)
    y[:500], weights[:500] = -99.0, 0.0
    options = {} if solver is sd.m_estimate else {"step_size": 0.05, "random_state": 0}
    assert np.all(np.isfinite(solver(corrected, X, y, sample_weight=weights, **options).theta))
    weights[499] = 1.0
    with pytest.raises(ValueError, match=r"y\[499\] is negative"):
        solver(corrected, X, y, sample_weight=weights, **options)
    labelled = sd.Release(sd.GaussianMechanism.from_scale(0.3), sd.GaussianMechanism.from_scale(0.5))
    corrected = sd.debias(sd.losses.logistic(), labelled)
    y = np.where(rng.random(2_000) < 0.5, 1.0, -1.0) + 0.5 * rng.normal(size=2_000)
    y[500:], weights = 5 + y[500:], np.where(np.arange(2_000) < 500, 1.0, 0.0)
    assert np.all(np.isfinite(solver(corrected, X, y, sample_weight=weights, **options).theta))
    with pytest.raises(ValueError, match="the true targets are not the labels"):
        solver(corrected, X, y, sample_weight=1 - weights, **options)
