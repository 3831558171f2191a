"""Learned steps: descent arrives, however few steps it has, and does not run away where it cannot."""

import math
import warnings

import numpy as np
import pytest
from scipy.special import expit

import symdebias as sd
from symdebias.solvers.curvature import score_error

NOISE = sd.Release(sd.GaussianMechanism.from_scale(0.4))
THETA = np.array([1.0, -0.5, 0.5, 0.0])
DESIGNS = {
    "plain": lambda rng, n: rng.normal(size=(n, 4)),
    "correlated": lambda rng, n: 0.9 * rng.normal(size=(n, 1)) + 0.4 * rng.normal(size=(n, 4)),
    "lognormal": lambda rng, n: np.exp(rng.normal(size=(n, 4))) - 1,
    "t4": lambda rng, n: rng.standard_t(4, size=(n, 4)),
    "shifted": lambda rng, n: rng.normal(size=(n, 4)) + 5,
}
# The root mean square distance of a parameter from the root, in standard errors, about twice what was found. Steps that
# keep noise within a twentieth of the way, whatever time there is, leave 4.5 to 32.
CASES = {
    ("least_squares", "plain", 1_000): 1.6,
    ("least_squares", "correlated", 5_000): 3.0,
    ("least_squares", "t4", 5_000): 3.0,
    ("least_squares", "lognormal", 1_000): 10.0,
    ("least_squares", "shifted", 1_000): 2.0,
    ("exponential", "plain", 5_000): 4.0,
    ("exponential", "plain", 50_000): 1.6,
    ("exponential", "t4", 50_000): 3.2,
    ("poisson", "plain", 1_000): 1.6,
    ("poisson", "plain", 5_000): 2.0,
}


def problem(loss, design, n, seed=0):
    rng = np.random.default_rng(seed)
    X = DESIGNS[design](rng, n)
    u = X @ THETA
    y = {
        "least_squares": lambda: u + rng.normal(size=n),
        "exponential": lambda: np.where(rng.random(n) < expit(2 * u), 1.0, -1.0),
        "poisson": lambda: rng.poisson(np.exp(np.minimum(u / 2, 4))).astype(float),
    }[loss]()
    noised = NOISE.privatize(X, y, random_state=seed)
    return sd.debias(getattr(sd.losses, loss)(), noised.release), noised.X, noised.y


def distance(fit, root):
    return math.sqrt(np.mean(((fit.theta - root.theta) / root.standard_errors) ** 2))


@pytest.mark.in_turn
@pytest.mark.parametrize(("loss", "design", "n"), CASES)
def test_one_pass_arrives(loss, design, n):
    found = []
    for seed in range(4):
        corrected, X, y = problem(loss, design, n, seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", sd.ConvergenceWarning)
            found.append(distance(sd.sgd(corrected, X, y, random_state=seed), sd.m_estimate(corrected, X, y)))
    assert math.sqrt(np.mean(np.square(found))) < CASES[loss, design, n]


@pytest.mark.in_turn
@pytest.mark.parametrize(("radius", "l2"), [(3.0, 0.0), (0.6, 0.0), (3.0, 0.1), (None, 0.5)])
@pytest.mark.parametrize("loss", ["least_squares", "exponential"])
def test_one_pass_arrives_within_a_ball_and_under_a_penalty(loss, radius, l2):
    """A ball that holds the minimum counts as curvature; steps for a free minimum leave two to four times as much."""
    corrected, X, y = problem(loss, "plain", 1_000)
    how = {"radius": radius, "l2": l2}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sd.ConvergenceWarning)
        fit, root = sd.sgd(corrected, X, y, random_state=0, **how), sd.m_estimate(corrected, X, y, **how)
    assert np.linalg.norm(fit.theta - root.theta) < 0.25 * np.linalg.norm(root.theta)


def test_more_passes_come_nearer():
    """The first gradients are those of a constant of 100, of which nothing is left at the minimum."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2_000, 2))
    release = sd.Release(sd.GaussianMechanism.from_scale(0.5), fit_intercept=True)
    noised = release.privatize(X, X @ [1.0, -0.5] + 100 + 0.5 * rng.normal(size=2_000), random_state=0)
    corrected = sd.debias(sd.losses.least_squares(), noised.release)
    root = sd.m_estimate(corrected, noised.X, noised.y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sd.ConvergenceWarning)
        found = [
            distance(sd.sgd(corrected, noised.X, noised.y, epochs=epochs, random_state=0), root)
            for epochs in (1, 3, 10, 30)
        ]
    assert found == sorted(found, reverse=True)
    assert found[2] < 1


@pytest.mark.in_turn
@pytest.mark.parametrize("seed", range(3))
def test_where_curvature_grows_by_far_steps_stay_short(seed):
    """The mean of counts is e^u: steps that the curvature at the start allows run away next to the minimum."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(5_000, 4)) + 5
    y = rng.poisson(np.exp(np.minimum(X @ THETA / 2, 4))).astype(float)
    noised = NOISE.privatize(X, y, random_state=seed)
    corrected = sd.debias(sd.losses.poisson(), noised.release)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sd.ConvergenceWarning)
        fit = sd.sgd(corrected, noised.X, noised.y, random_state=0)
    root = sd.m_estimate(corrected, noised.X, noised.y)
    assert np.linalg.norm(fit.theta - root.theta) < 0.5 * np.linalg.norm(root.theta)


@pytest.mark.in_turn
def test_a_start_is_a_start():
    """From the root on steps are as short as noise asks for."""
    corrected, X, y = problem("least_squares", "plain", 5_000)
    root = sd.m_estimate(corrected, X, y)
    near = sd.sgd(corrected, X, y, start=root.theta, random_state=0)
    assert distance(near, root) < 1
    assert (
        near.diagnostics["step_size"].offset > sd.sgd(corrected, X, y, random_state=0).diagnostics["step_size"].offset
    )


def test_a_hessian_that_is_not_finite_has_no_covariance():
    lost = np.full((2, 2), math.nan)
    with pytest.raises(sd.exceptions.InferenceError, match="Hessian is not finite"):
        sd.inference.sandwich(lost, np.eye(2), 10)
    assert score_error(lost, np.eye(2), 10.0, np.eye(2)) == math.inf
