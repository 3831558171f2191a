"""Weights that are made of noised labels and categories are refused, and other weights are taken."""

import numpy as np
import pytest
import sympy as sp

import symdebias as sd

RNG = np.random.default_rng(0)
N = 3_000
TRUE_X = np.column_stack([RNG.integers(0, 3, N), RNG.normal(size=N)])
TRUE_Y = np.where(RNG.random(N) < 1 / (1 + np.exp(1.0 - 1.5 * TRUE_X[:, 1])), 1.0, -1.0)
RELEASE = sd.Release(
    {"place": sd.RandomizedResponse(2.0, ("n", "e", "s"))},
    sd.RandomizedResponse(1.0),
    noiseless=("age",),
    fit_intercept=True,
)
SENT = RELEASE.privatize(TRUE_X, TRUE_Y, random_state=1)
CORRECTED = sd.debias(sd.losses.logistic(), RELEASE)
MADE_OF_NOISE = {
    "labels": (np.where(SENT.y > 0, 5.0, 1.0), "each released label. .* Write the weight into the loss"),
    "a choice by labels": (np.where(SENT.y > 0, 1.0, 0.0), "each released label"),
    "categories": (SENT.X[:, 0] + 1, "each released category of column place"),
    "some categories": (np.where(SENT.X[:, 0] == 2, 3.0, 1.0), "each released category of column place"),
}
OTHERS = {
    "drawn": RNG.integers(1, 3, N).astype(float),
    "of true labels": np.where(TRUE_Y > 0, 1.5, 1.0),
    "of a column without noise": np.where(TRUE_X[:, 1] > 0, 2.0, 1.0),
    "all the same": np.full(N, 3.0),
}


@pytest.mark.parametrize(("weights", "told"), MADE_OF_NOISE.values(), ids=MADE_OF_NOISE)
@pytest.mark.parametrize("solver", [sd.m_estimate, sd.sgd])
def test_weights_of_released_labels_and_categories_are_refused(solver, weights, told):
    with pytest.raises(ValueError, match=f"sample_weight is one number for {told}"):
        solver(CORRECTED, SENT.X, SENT.y, sample_weight=weights)
    with pytest.raises(ValueError, match=f"sample_weight is one number for {told}"):
        sd.evaluation.evaluate(
            [0.1, 0.1, 1.0, -1.0], SENT.X, SENT.y, metric="log_loss", release=RELEASE, sample_weight=weights
        )


@pytest.mark.parametrize("weights", OTHERS.values(), ids=OTHERS)
def test_other_weights_are_taken(weights):
    assert np.isfinite(sd.m_estimate(CORRECTED, SENT.X, SENT.y, sample_weight=weights, l2=0.1).theta).all()


def test_labels_and_categories_without_noise_may_have_weights():
    known = sd.Release(None, noiseless=("place", "age"), fit_intercept=True)
    corrected = sd.debias(sd.losses.logistic(), known)
    sd.m_estimate(corrected, TRUE_X, TRUE_Y, sample_weight=np.where(TRUE_Y > 0, 5.0, 1.0))
    plain = sd.debias(sd.losses.logistic(), RELEASE, method="none")
    sd.m_estimate(plain, SENT.X, SENT.y, sample_weight=np.where(SENT.y > 0, 5.0, 1.0))


def test_few_records_that_go_together_by_chance_are_taken():
    """Of twelve labels at an epsilon of 1, weights by a covariate may go with all."""
    few = sd.Release(None, sd.RandomizedResponse(1.0), noiseless=("age",))
    y = np.tile([1.0, -1.0], 6)
    corrected = sd.debias(sd.losses.squared_margin(), few)
    sd.m_estimate(corrected, np.linspace(1, 2, 12)[:, None] * y[:, None], y, sample_weight=np.where(y > 0, 2.0, 1.0))


def test_a_weight_within_the_loss_is_that_of_the_true_label():
    """The remedy that the message names: the fit of true labels with these weights, within five standard errors.

    A false alarm has a probability below 1e-5. The intercept of the fit without weights is 1.6 lower, which is ten.
    """
    u, y = sp.symbols("u y", real=True)
    loss = sd.Loss((3 + 2 * y) * sp.log(1 + sp.exp(-u * y)), score=u, target=y, target_values=(-1, 1))
    only = sd.Release(None, sd.RandomizedResponse(1.0), noiseless=("age",), fit_intercept=True)
    rng = np.random.default_rng(2)
    x = rng.normal(size=(40_000, 1))
    labels = np.where(rng.random(40_000) < 1 / (1 + np.exp(1.5 - 1.5 * x[:, 0])), 1.0, -1.0)
    sent = only.privatize(x, labels, random_state=3)
    fit = sd.m_estimate(sd.debias(loss, only), sent.X, sent.y)
    known = sd.Release(None, noiseless=("age",), fit_intercept=True)
    truth = sd.m_estimate(
        sd.debias(sd.losses.logistic(), known), x, labels, sample_weight=np.where(labels > 0, 5.0, 1.0)
    )
    assert np.all(np.abs(fit.theta - truth.theta) < 5 * fit.standard_errors)
    assert fit.theta[1] + 1.0 > 5 * fit.standard_errors[1]
