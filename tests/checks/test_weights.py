"""Weights that are made of noised labels and categories are refused, and other weights are taken."""

import numpy as np
import pytest
import sympy as sp

import symdebias as sd

RNG = np.random.default_rng(0)
N = 6_000
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
    "labels and categories": (
        np.where((SENT.X[:, 0] == 2) & (SENT.y > 0), 3.0, 1.0),
        "each released label and category of column place",
    ),
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


@pytest.mark.in_turn
@pytest.mark.parametrize("weights", OTHERS.values(), ids=OTHERS)
def test_other_weights_are_taken(weights):
    assert np.isfinite(sd.m_estimate(CORRECTED, SENT.X, SENT.y, sample_weight=weights, l2=0.1).theta).all()


@pytest.mark.in_turn
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


NOISED = sd.Release(
    {"size": sd.GaussianMechanism.from_scale(0.3), "age": sd.LaplaceMechanism.from_scale(0.5)},
    sd.GaussianMechanism.from_scale(0.4),
)
TRUE_SIZES = np.column_stack([RNG.normal(size=N), RNG.exponential(size=N)])
TRUE_TARGET = TRUE_SIZES @ [1.0, -0.5] + RNG.normal(size=N)
MEASURED = NOISED.privatize(TRUE_SIZES, TRUE_TARGET, random_state=2)
OF_NUMBERS = {
    "a slope": (np.exp(MEASURED.X[:, 0] / 2), "column size"),
    "a bend": (1 / (0.1 + MEASURED.X[:, 1] ** 2), "column age"),
    "a wave": (2 + np.cos(3 * MEASURED.X[:, 0]), "column size"),
    "a choice": ((MEASURED.X[:, 1] > 0.5).astype(float), "column age"),
    "a step": (np.where(MEASURED.X[:, 0] > 0, 2.0, 1.0), "column size"),
    "target": (1 + np.abs(MEASURED.y), "target"),
}
NOT_OF_NUMBERS = {
    "true numbers": np.exp(TRUE_SIZES[:, 0] / 2),
    "a step of true numbers": np.where(TRUE_SIZES[:, 1] > 0.5, 2.0, 1.0),
    "a true target": 1 + np.abs(TRUE_TARGET),
    "drawn": RNG.random(N),
    "the place": np.linspace(1, 2, N),
    "one record": np.where(np.arange(N) == 7, 100.0, 1.0),
}


@pytest.mark.parametrize(("weights", "told"), OF_NUMBERS.values(), ids=OF_NUMBERS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_weights_of_released_numbers_are_refused(weights, told, dtype):
    corrected = sd.debias(sd.losses.least_squares(), NOISED)
    with pytest.raises(ValueError, match=f"sample_weight is a function of the released .*{told}"):
        sd.m_estimate(corrected, MEASURED.X.astype(dtype), MEASURED.y, sample_weight=weights)


@pytest.mark.parametrize("weights", NOT_OF_NUMBERS.values(), ids=NOT_OF_NUMBERS)
def test_weights_of_true_numbers_are_taken(weights):
    sd.m_estimate(sd.debias(sd.losses.least_squares(), NOISED), MEASURED.X, MEASURED.y, sample_weight=weights)


def test_weights_by_noised_numbers_make_another_fit():
    """What the refusal is for: with weights z^2 the mean of y = x is off by tens of its standard errors."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(20_000, 1))
    release = sd.Release(sd.GaussianMechanism.from_scale(1.0))
    sent = release.privatize(x, x[:, 0] + 0.1 * rng.normal(size=20_000), random_state=4)
    z, y = sent.X[:, 0], sent.y
    weights = z**2
    # The corrected score of least squares, sum w (z y - (z^2 - 1) theta), in its closed form.
    theta = (weights * z * y).sum() / (weights * (z**2 - 1)).sum()
    assert abs(theta - 1) > 0.2
    with pytest.raises(ValueError, match="function of the released numbers of column 0"):
        sd.m_estimate(sd.debias(sd.losses.least_squares(), release), sent.X, y, sample_weight=weights)


@pytest.mark.parametrize("count", [30, 300, 3_000])
def test_two_groups_that_no_noise_mixes_may_have_weights(count):
    """A false alarm has a probability below 1e-9: numbers next to one another are of one group."""
    rng = np.random.default_rng(5)
    group = rng.integers(0, 2, count)
    release = sd.Release(sd.GaussianMechanism.from_scale(0.1), fit_intercept=True)
    sent = release.privatize(group[:, None] * 10.0, group + rng.normal(size=count), random_state=6)
    corrected = sd.debias(sd.losses.least_squares(), release)
    sd.m_estimate(corrected, sent.X, sent.y, sample_weight=np.where(group, 3.0, 1.0))


def test_an_offset_may_go_with_noised_targets():
    """Counts over their exposure, with the exposure as weights, are what stands for an offset."""
    rng = np.random.default_rng(7)
    exposure, x = rng.uniform(1.0, 1.5, N), rng.normal(size=(N, 1))
    release = sd.Release(sd.GaussianMechanism.from_scale(0.2), sd.GaussianMechanism.from_scale(0.05))
    sent = release.privatize(x, rng.poisson(0.1 * exposure * np.exp(0.3 * x[:, 0])).astype(float), random_state=8)
    corrected = sd.debias(sd.losses.poisson(), sent.release)
    sd.m_estimate(corrected, sent.X, sent.y, offset=np.log(exposure))


@pytest.mark.parametrize("solver", [sd.m_estimate, sd.sgd])
def test_one_record_with_weight_is_no_sample_of_its_noise(solver):
    """The variance of one number was asked for, of which NumPy warned."""
    release = sd.Release(sd.GaussianMechanism(epsilon=1.0, delta=1e-5, radius=1.0))
    X = np.random.default_rng(0).normal(size=(40, 2))
    weights = np.r_[1.0, np.zeros(39)]
    try:
        fit = solver(sd.debias(sd.losses.least_squares(), release), X, X[:, 0], sample_weight=weights)
    except (sd.DivergenceError, sd.ConvergenceWarning):
        return
    assert np.all(np.isfinite(fit.theta))
