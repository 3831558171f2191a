import functools
import math
import sys
import warnings

import gradient_moments
import numpy as np
import pandas as pd
import pytest
import sympy as sp
from instances import Y, records
from scipy import optimize, stats
from scipy.linalg import eigh
from scipy.special import expit, ndtr

import symdebias as sd
from symdebias._rows import Rows
from symdebias.exceptions import DivergenceError, InferenceError, NoExactCorrectionError, SymdebiasError
from symdebias.inference import sandwich
from symdebias.records import Records

pytestmark = pytest.mark.newest

COLUMNS = {("x0", "x1"): sd.GaussianMechanism.from_scale(1.0)}
EXPONENTIAL = sd.debias(sd.losses.exponential(), sd.Release(COLUMNS, sd.RandomizedResponse(epsilon=2.0)))


def simulated(n, seed):
    """The setting of the check in the theory: X uniform on the square, a logistic label, both noised."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 2))
    y = np.where(rng.random(n) < expit(2 * X[:, 0] - X[:, 1]), 1.0, -1.0)
    noised = EXPONENTIAL.release.privatize(X, y, random_state=seed)
    return noised.X, noised.y


def regression(n=5_000, p=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    return X, X @ np.linspace(-1, 1, p) + 0.5 * rng.normal(size=n)


# ---- against independent references ----------------------------------------------------------------------


@pytest.mark.parametrize("data", ["simulated", "diabetes"])
def test_errors_in_variables_in_closed_form(data):
    if data == "simulated":
        X, y = regression()
    else:
        datasets = pytest.importorskip("sklearn.datasets")
        X, y = datasets.load_diabetes(return_X_y=True)
        X, y = X[:, [2, 3, 8]] * 20, y / 100
    release = sd.Release(features={("x0", "x1", "x2"): sd.GaussianMechanism.from_scale(0.3)}, fit_intercept=True)
    fit = sd.m_estimate(sd.debias(sd.losses.least_squares(), release), X, y)
    design = np.column_stack([X, np.ones(len(X))])
    noise = np.diag([0.09, 0.09, 0.09, 0.0])
    gram = design.T @ design / len(X) - noise
    theta = np.linalg.solve(gram, design.T @ y / len(X))
    np.testing.assert_allclose(fit.theta, theta, rtol=1e-8)
    scores = design * (design @ theta - y)[:, None] - noise @ theta
    moves = np.linalg.solve(len(X) * gram, scores.T).T
    shares = np.max(moves**2 / np.sum(moves**2, axis=0), axis=1)
    for place in np.flatnonzero(shares > 0.05):
        # A record of much of a variance and much of the curvature is left out by itself.
        left = len(X) * gram - (np.outer(design[place], design[place]) - noise)
        if eigh(left, len(X) * gram, eigvals_only=True)[0] < 0.95:
            moves[place] = np.linalg.solve(left, scores[place])
    np.testing.assert_allclose(fit.covariance, moves.T @ moves, rtol=1e-7)


@pytest.mark.exhaustive
def test_poisson_against_a_direct_solution_of_its_equation():
    rng = np.random.default_rng(1)
    X = 0.5 * rng.normal(size=(4_000, 2))
    y = rng.poisson(np.exp(0.3 + X @ [0.6, -0.4])).astype(float)
    D = np.diag([0.09, 0.09, 0.0])
    released = X + 0.3 * rng.normal(size=X.shape)
    release = sd.Release(features={("x0", "x1"): sd.GaussianMechanism.from_scale(0.3)}, fit_intercept=True)
    fit = sd.m_estimate(sd.debias(sd.losses.poisson(), release), released, y)
    design = np.column_stack([released, np.ones(len(X))])

    def equation(theta):
        rate = np.exp(design @ theta - theta @ D @ theta / 2)
        return (rate[:, None] * (design - D @ theta) - design * y[:, None]).mean(axis=0)

    direct = optimize.root(equation, fit.theta + 0.05, tol=1e-13)
    assert direct.success
    np.testing.assert_allclose(fit.theta, direct.x, atol=1e-8)
    assert fit.diagnostics["safeguards"] == ()


@pytest.mark.newest
@pytest.mark.parametrize("loss", ["least_squares", "logistic", "poisson"])
def test_statsmodels_without_noise(loss):
    api = pytest.importorskip("statsmodels.api")
    rng = np.random.default_rng(2)
    X = rng.normal(size=(800, 2))
    score = 0.2 + X @ [0.7, -0.5]
    release = sd.Release(features=None, noiseless=("a", "b"), fit_intercept=True)
    design = np.column_stack([X, np.ones(len(X))])
    options = {"cov_type": "HC0"}
    if loss == "least_squares":
        y = score + rng.normal(size=len(X))
        other = api.OLS(y, design).fit(**options)
    elif loss == "logistic":
        y = np.where(rng.random(len(X)) < expit(score), 1.0, -1.0)
        other = api.Logit((y + 1) / 2, design).fit(disp=0, tol=1e-12, method="newton", **options)
    else:
        y = rng.poisson(np.exp(score)).astype(float)
        other = api.Poisson(y, design).fit(disp=0, tol=1e-12, method="newton", **options)
    fit = sd.m_estimate(sd.debias(getattr(sd.losses, loss)(), release), X, y)
    np.testing.assert_allclose(fit.theta, other.params, atol=1e-6)
    np.testing.assert_allclose(fit.standard_errors, other.bse, atol=1e-6)
    np.testing.assert_allclose(
        fit.confidence_interval(0.9)[:, 1] - fit.theta, 1.6448536 * fit.standard_errors, rtol=1e-6
    )
    ours = fit.wald_test(np.eye(3)[:2], [0.5, 0.0])
    distance = fit.theta[:2] - [0.5, 0.0]
    wanted = distance @ np.linalg.solve(fit.covariance[:2, :2], distance)
    assert ours.statistic == pytest.approx(wanted, rel=1e-10)
    assert ours.pvalue == pytest.approx(stats.chi2.sf(wanted, 2), rel=1e-10)


# ---- what the sandwich promises --------------------------------------------------------------------------


@pytest.mark.in_turn
def test_mean_squared_error_and_coverage_of_the_check():
    """Standard errors 1% off, a mean squared error 3% off and a bias of .2 standard errors are seen.

    The exact covariance comes from quadrature over the records and closed forms over the noise. Beside each of 100 fits
    stands its linearisation at the optimum, whose mean square and coverage it states, and only what the fit
    adds to it is estimated: the mean squared error to .6%, standard errors to .1%, the bias of the fit to .003 standard
    errors, all of which is below the effect of n = 5,000 itself, .7%. False alarms of the raw errors: 1e-4 in all.
    """
    n, fits = 5_000, 100
    t, w = np.polynomial.legendre.leggauss(40)
    X = np.tile(np.stack(np.meshgrid(t, t), axis=-1).reshape(-1, 2), (2, 1))
    y = np.repeat([1.0, -1.0], len(X) // 2)
    share = np.tile(np.outer(w, w).ravel() / 4, 2) * expit(y * (2 * X[:, 0] - X[:, 1]))
    noise, keep = np.eye(2), EXPONENTIAL.release.target.keep_probability

    def risk(theta):
        return float(share @ np.exp(-y * (X @ theta)) + theta @ theta / 2)

    optimum = optimize.minimize(risk, [0.2, -0.1], tol=1e-10).x
    moments = gradient_moments.exponential(X, y, share, optimum, noise, keep)
    exact = gradient_moments.covariance(moments, optimum, l2=1.0)
    assert np.trace(exact) == pytest.approx(2.584, abs=5e-4)
    stated = np.sqrt(np.diag(exact) / n)
    errors, linear, halves = np.zeros((3, fits, 2))
    for seed in range(fits):
        released = simulated(n, fits + seed)
        fit = sd.m_estimate(EXPONENTIAL, *released, l2=1.0)
        ends = fit.confidence_interval()
        np.testing.assert_allclose(ends.mean(axis=1), fit.theta, rtol=1e-12)
        errors[seed], halves[seed] = fit.theta - optimum, np.diff(ends)[:, 0] / 2
        gradient = gradient_by_hand(optimum, *released, keep).mean(axis=0) + optimum
        linear[seed] = -np.linalg.solve(moments[0] + np.eye(2), gradient)
    np.testing.assert_allclose(halves.mean(axis=0), stats.norm.isf(0.025) * stated, rtol=0.01)
    gained = n * np.sum(errors**2 - linear**2, axis=1)
    assert np.trace(exact) + gained.mean() == pytest.approx(np.trace(exact), rel=0.03)
    assert np.all(np.abs((errors - linear).mean(axis=0)) < 0.02 * stated)
    # Intervals hold the optimum where those of the linearisation do, which are of 95%: at most one of 200 does not.
    held = np.abs(errors) < halves
    assert np.sum(held != (np.abs(linear) < stats.norm.isf(0.025) * stated)) <= 1
    # The linearisations are as stated: their means, normal, and mean squares, chi-squared.
    assert np.all(np.abs(linear.mean(axis=0)) * math.sqrt(fits) < 4.4 * stated)
    scatter = np.einsum("ki,ij,kj->", linear, np.linalg.inv(exact), linear) * n
    assert stats.chi2(2 * fits).ppf(2.5e-5) < scatter < stats.chi2(2 * fits).isf(2.5e-5)


def gradient_by_hand(theta, X, y, keep):
    """Gradients of the corrected exponential loss at noise 1, per record."""
    right, wrong = keep / (2 * keep - 1), (1 - keep) / (2 * keep - 1)

    def one(label):
        return -(label[:, None] * X + theta) * np.exp(-label * (X @ theta) - theta @ theta / 2)[:, None]

    return right * one(y) - wrong * one(-y)


def test_releases_of_the_same_records_are_one_cluster_each():
    first, y = simulated(20_000, 1)
    rng = np.random.default_rng(5)
    twice = np.concatenate([first, first]), np.concatenate([y, y])
    people = np.tile(np.arange(len(y)), 2)
    order = rng.permutation(len(people))
    once = sd.m_estimate(EXPONENTIAL, first, y, l2=1.0)
    together = sd.m_estimate(EXPONENTIAL, twice[0][order], twice[1][order], l2=1.0, clusters=people[order])
    apart = sd.m_estimate(EXPONENTIAL, *twice, l2=1.0)
    factor = (len(y) - 1) / len(y)
    np.testing.assert_allclose(together.covariance, once.covariance * factor, rtol=1e-4)
    np.testing.assert_allclose(apart.covariance, once.covariance / 2, rtol=1e-4)


@pytest.mark.parametrize("label", [lambda n: frozenset([n % 40]), lambda n: n % 40 if n % 2 else str(n % 40), str])
def test_any_labels_tell_clusters_apart(label):
    """Of sets one that is no part of another comes neither before nor after it: sorted, each record stood alone."""
    X, y = simulated(1_200, 1)
    labels = np.empty(len(y), object)
    labels[:] = [label(n % 40) for n in range(len(y))]
    found, expected = (sd.m_estimate(EXPONENTIAL, X, y, l2=1.0, clusters=of) for of in (labels, np.arange(1_200) % 40))
    np.testing.assert_allclose(found.covariance, expected.covariance, rtol=1e-9)


@pytest.mark.exhaustive
def test_weights_are_repetitions_of_clusters():
    X, y = simulated(6_000, 2)
    counts = np.random.default_rng(0).integers(0, 4, len(y))
    weighted = sd.m_estimate(EXPONENTIAL, X, y, l2=0.5, sample_weight=counts)
    people = np.repeat(np.arange(len(y)), counts)
    repeated = sd.m_estimate(EXPONENTIAL, X[people], y[people], l2=0.5, clusters=people)
    np.testing.assert_allclose(weighted.theta, repeated.theta, atol=1e-9)
    groups = len(np.unique(people))
    np.testing.assert_allclose(weighted.covariance * (groups - 1) / groups, repeated.covariance, rtol=1e-6)


@pytest.mark.exhaustive
def test_a_loss_without_a_pilot_starts_at_zero():
    X, y = simulated(20_000, 3)
    corrected = sd.debias(sd.losses.squared_margin(), EXPONENTIAL.release)
    fit = sd.m_estimate(corrected, X, y)
    assert fit.diagnostics["start"] == "zero"
    gram = X.T @ X / len(X) - np.eye(2)
    np.testing.assert_allclose(fit.theta, np.linalg.solve(gram, X.T @ y / len(X)) / math.tanh(1.0), rtol=1e-7)


def test_a_poisson_fit_with_an_intercept_finds_the_root_next_to_the_truth():
    rng = np.random.default_rng(4)
    X = rng.uniform(-1.5, 1.5, (20_000, 2))
    y = rng.poisson(np.exp(X @ [0.8, -0.5] + 0.3)).astype(float)
    release = sd.Release({("x0", "x1"): sd.GaussianMechanism.from_scale(0.6)}, fit_intercept=True)
    noised = release.privatize(X, y, random_state=5)
    fit = sd.m_estimate(sd.debias(sd.losses.poisson(), noised.release), noised.X, noised.y)
    assert fit.diagnostics["safeguards"] == ()
    assert np.all(np.abs(fit.theta - [0.8, -0.5, 0.3]) < 5 * fit.standard_errors)


@pytest.mark.in_turn
def test_noise_that_hides_the_features_leaves_no_fit():
    # Noise of variance 200 on 2,000 records hides the features' variance of 1/3.
    rng = np.random.default_rng(1)
    release = sd.Release({("x0", "x1"): sd.GaussianMechanism.from_scale(14.0)}, sd.RandomizedResponse(epsilon=2.0))
    corrected = sd.debias(sd.losses.exponential(), release)
    for seed in range(3):
        noised = release.privatize(rng.uniform(-1, 1, (2_000, 2)), np.ones(2_000), random_state=seed)
        for given in ({}, {"radius": 10.0}, {"start": [0.1, 0.1]}, {"bounds": (-10.0, 10.0)}):
            try:
                fit = sd.m_estimate(corrected, noised.X, noised.y, **given)
            except SymdebiasError:
                continue
            assert fit.diagnostics["safeguards"]
            with pytest.raises(InferenceError):
                fit.confidence_interval()


@pytest.mark.in_turn
@pytest.mark.parametrize("scale", [1.0, 1e-3])
def test_what_is_convex_whatever_the_labels_needs_no_pilot(scale):
    """Noise of labels alone shifts the gradient of a Poisson loss: its one minimum is found, far away or flat."""
    rng = np.random.default_rng(7)
    # Curvatures differ by 1e8 along the columns, and labels are noise above all.
    X = rng.lognormal(0.0, 1.0, (400, 3)) * [1.0, 1.0, scale]
    release = sd.Release(target=sd.GaussianMechanism.from_scale(300.0))
    y = release.privatize(X, rng.poisson(np.exp(0.2 * X[:, 0])).astype(float), random_state=11).y
    corrected = sd.debias(sd.losses.poisson(), release)
    fit = sd.m_estimate(corrected, X, y, l2=1e-2)
    assert fit.diagnostics["start"] == "zero"
    assert fit.diagnostics["safeguards"] == ()
    gradient = corrected.mean_gradient(fit.theta, X, y) + 1e-2 * fit.theta
    np.testing.assert_allclose(gradient, 0.0, atol=1e-8 * np.abs(X * y[:, None]).mean())


@pytest.mark.in_turn
@pytest.mark.parametrize("seed", range(12))
def test_an_estimate_without_end_is_refused(seed):
    """50 labels at epsilon .3: where corrected labels are separated nothing holds theta, and nothing overflows."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(50, 2))
    y = np.where(rng.random(50) < expit(X @ [1.0, -0.5]), 1, -1)
    release = sd.Release(target=sd.RandomizedResponse(epsilon=0.3))
    y = release.privatize(X, y, random_state=seed).y
    corrected = sd.debias(sd.losses.logistic(), release)
    # A linear programme says whether there is a minimum: no direction in which the loss falls for ever.
    gain = 1 / math.tanh(0.15)
    direction = np.exp(1j * np.linspace(0, 2 * np.pi, 3601))
    falls = np.abs(X @ [direction.real, direction.imag]).mean(axis=0) / 2
    falls -= gain * (y @ X @ [direction.real, direction.imag]) / (2 * len(X))
    if falls.min() > 0:
        fit = sd.m_estimate(corrected, X, y)
        np.testing.assert_allclose(corrected.mean_gradient(fit.theta, X, y), 0.0, atol=1e-9)
    else:
        with pytest.raises(DivergenceError, match=r"runs away: .* falls without end|found no lower"):
            sd.m_estimate(corrected, X, y)
    assert np.isfinite(sd.m_estimate(corrected, X, y, l2=1e-3).theta).all()


def test_a_warm_start_and_a_cold_one_meet():
    X, y = simulated(20_000, 3)
    cold = sd.m_estimate(EXPONENTIAL, X, y, l2=1.0)
    warm = sd.m_estimate(EXPONENTIAL, X, y, l2=1.0, start=[0.5, 0.5])
    np.testing.assert_allclose(warm.theta, cold.theta, atol=1e-9)
    assert warm.diagnostics["start"] == "given"
    assert cold.diagnostics["start"] == "pilot"
    again = sd.m_estimate(EXPONENTIAL, X, y, l2=1.0, start=cold.theta)
    assert again.diagnostics["steps"] <= 2


# ---- constraints and safeguards --------------------------------------------------------------------------


def test_the_ball_and_the_box_hold():
    X, y = simulated(20_000, 4)
    free = sd.m_estimate(EXPONENTIAL, X, y, l2=0.5)
    corrected = EXPONENTIAL

    def risk(theta):
        return corrected.mean_loss(theta, X, y) + 0.25 * theta @ theta

    ball = sd.m_estimate(corrected, X, y, l2=0.5, radius=0.2)
    by_angle = optimize.minimize_scalar(
        lambda a: risk(0.2 * np.array([math.cos(a), math.sin(a)])), bounds=(-math.pi, math.pi), method="bounded",
        options={"xatol": 1e-10},
    )  # fmt: skip
    np.testing.assert_allclose(ball.theta, 0.2 * np.array([math.cos(by_angle.x), math.sin(by_angle.x)]), atol=1e-6)
    box = sd.m_estimate(corrected, X, y, l2=0.5, bounds=([0.0, -0.05], [math.inf, math.inf]))
    assert box.theta[1] == -0.05
    along = optimize.minimize_scalar(lambda t: risk(np.array([t, -0.05])), bounds=(0, 1), method="bounded",
                                     options={"xatol": 1e-10})  # fmt: skip
    assert box.theta[0] == pytest.approx(along.x, abs=1e-6)
    for held in (ball, box):
        assert held.diagnostics["safeguards"]
        with pytest.raises(InferenceError, match="constraint, not the data"):
            held.confidence_interval()
        with pytest.raises(InferenceError, match="constraint"):
            held.wald_test([1.0, 0.0])
        assert "no intervals" in held.summary()
    for wide in (
        sd.m_estimate(corrected, X, y, l2=0.5, radius=5.0),
        sd.m_estimate(corrected, X, y, l2=0.5, bounds=(-5, 5)),
    ):
        np.testing.assert_allclose(wide.theta, free.theta, atol=1e-9)
        np.testing.assert_allclose(wide.covariance, free.covariance, rtol=1e-6)


@pytest.mark.in_turn
@pytest.mark.parametrize("given", [{}, {"radius": 3.0}, {"start": [0.5, 0.0]}], ids=str)
def test_much_noise_and_few_records_are_refused(given):
    # 200 records under noise three times as wide as their features say nothing of them.
    for seed in range(6):
        X, y = simulated(200, seed)
        with pytest.raises(DivergenceError, match="Raise l2, use more records, or release with less noise"):
            sd.m_estimate(EXPONENTIAL, 0.2 * X, y, **given).confidence_interval()


# ---- corrections with bias -------------------------------------------------------------------------------


@pytest.mark.exhaustive
@pytest.mark.newest
def test_intervals_reach_further_where_there_is_bias():
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (20_000, 2))
    y = np.where(rng.random(len(X)) < expit(X @ [1.0, -0.5]), 1.0, -1.0)
    noised = sd.Release({("x0", "x1"): sd.GaussianMechanism.from_scale(0.4)}).privatize(X, y, random_state=0)
    fit = sd.m_estimate(sd.debias(sd.losses.logistic(), noised.release), noised.X, noised.y)
    assert fit.corrected.is_resolved
    assert np.all(np.abs(fit.theta - [1.0, -0.5]) < 5 * fit.standard_errors + fit.bias_bound)
    ends = fit.confidence_interval()
    width = (ends[:, 1] - ends[:, 0]) / 2
    assert np.all(width >= 1.959 * fit.standard_errors)
    assert np.all(width <= 1.96 * fit.standard_errors + fit.bias_bound)
    assert np.all(fit.bias_bound > 0)
    series = sd.m_estimate(
        sd.debias(sd.losses.logistic(), noised.release, method="series", order=3), noised.X, noised.y
    )
    assert np.all(series.bias_bound > 0)
    np.testing.assert_allclose(series.theta, fit.theta, atol=0.02)
    naive = sd.m_estimate(sd.debias(sd.losses.logistic(), noised.release, method="none"), noised.X, noised.y)
    with pytest.raises(InferenceError, match="leaves the bias"):
        naive.confidence_interval()
    with pytest.raises(InferenceError, match="leaves the bias"):
        _ = naive.bias_bound
    assert np.all(naive.standard_errors > 0)


def test_differences_where_the_hessian_is_too_long(monkeypatch):
    X, y = simulated(4_000, 4)
    exact = sd.m_estimate(EXPONENTIAL, X, y, l2=1.0)
    monkeypatch.setattr("symdebias.codegen.score.program._MOST_SECOND_DERIVATIVES", 0)
    found = sd.m_estimate(EXPONENTIAL, X, y, l2=1.0)
    assert (exact.diagnostics["hessian"], found.diagnostics["hessian"]) == ("exact", "central differences")
    np.testing.assert_allclose(found.theta, exact.theta, atol=1e-9)
    np.testing.assert_allclose(found.covariance, exact.covariance, rtol=1e-6)


@pytest.mark.exhaustive
@pytest.mark.newest
def test_several_scores_have_errors_in_their_shape():
    rng = np.random.default_rng(4)
    X = rng.uniform(-1, 1, (4_000, 2))
    target = np.array([rng.choice(3, p=row) for row in softmax(X @ np.array([[1, 0, -1], [0, 1, 0.5]]))]).astype(float)
    corrected = sd.debias(sd.losses.softmax(3), sd.Release(noiseless=("a", "b")))
    fit = sd.m_estimate(corrected, X, target, l2=0.01)
    assert fit.theta.shape == fit.standard_errors.shape == (3, 2)
    assert fit.confidence_interval().shape == (3, 2, 2)
    assert fit.covariance.shape == (6, 6)
    gradient = corrected.gradient(fit.theta, X, target).mean(axis=0) + 0.01 * fit.theta
    assert np.abs(gradient).max() < 1e-9


def softmax(scores):
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


# ---- averaged descent ------------------------------------------------------------------------------------


def test_the_covariance_of_averaged_descent():
    X, y = simulated(40_000, 6)
    newton = sd.m_estimate(EXPONENTIAL, X, y, l2=1.0)
    options = {"step_size": sd.step_sizes.StepSize(0.5, power=0.6), "batch_size": 4, "l2": 1.0, "random_state": 0}
    plug_in = sd.sgd(EXPONENTIAL, X, y, average=True, covariance="plug-in", **options)
    np.testing.assert_allclose(plug_in.standard_errors, newton.standard_errors, rtol=0.02)
    assert np.all(np.abs(plug_in.theta - newton.theta) < newton.standard_errors)
    assert plug_in.confidence_interval().shape == (2, 2)
    online = sd.sgd(EXPONENTIAL, X, y, average=True, covariance="batch means", **options)
    np.testing.assert_array_equal(online.theta, plug_in.theta)
    # By hand: six batches that end at steps 10,000 (k/6)^2.5, the first of which holds the start and is left out.
    iterates = sd.sgd(EXPONENTIAL, X, y, record=range(10_001), **options).history.theta[1:]
    batches = np.split(iterates, np.round(10_000 * (np.arange(1, 6) / 6) ** 2.5).astype(int))[1:]
    lengths = np.array([len(batch) for batch in batches], dtype=float)
    off = np.array([batch.mean(axis=0) for batch in batches]) - np.concatenate(batches).mean(axis=0)
    np.testing.assert_allclose(online.covariance, (off.T * lengths) @ off / 4 / lengths.sum(), rtol=1e-6)
    # A covariance from few batches has intervals and tests that allow for its own error.
    freedom = online.inference.degrees_of_freedom
    assert freedom == 4
    width = np.diff(online.confidence_interval(0.9))[:, 0] / online.standard_errors / 2
    # What is left of the way to the root is added.
    left = online.bias_bound / online.standard_errors
    np.testing.assert_allclose(width, stats.t.ppf(0.95, freedom) + left, rtol=1e-12)
    one, z = online.wald_test([1.0, 0.0]), online.theta[0] / online.standard_errors[0]
    assert one.pvalue == pytest.approx(2 * stats.t.sf(abs(z) - left[0], freedom), rel=1e-9)
    both = online.wald_test(np.eye(2), online.theta + online.standard_errors)
    assert both.pvalue > stats.chi2.sf(both.statistic, 2)
    assert str(both).startswith(f"T2(2, {freedom})")
    with pytest.warns(sd.exceptions.ConvergenceWarning, match="hardly left its start"):
        short = sd.sgd(EXPONENTIAL, X, y, step_size=1e-5, average=True, covariance="plug-in", l2=1.0, random_state=0)
    with pytest.raises(InferenceError, match="has not arrived"):
        short.confidence_interval()
    held = sd.sgd(
        EXPONENTIAL, X, y, step_size=0.1, radius=0.05, average=True, covariance="plug-in", l2=1.0, random_state=0
    )
    with pytest.raises(InferenceError, match="ball"):
        held.confidence_interval()
    with pytest.raises(InferenceError, match="batches of steps"):
        _ = sd.sgd(
            EXPONENTIAL, X[:50], y[:50], step_size=sd.step_sizes.StepSize(0.1, power=0.6), average=True,
            covariance="batch means", l2=1.0,
        ).covariance  # fmt: skip
    with pytest.raises(InferenceError, match="no covariance"):
        _ = sd.sgd(EXPONENTIAL, X, y, l2=1.0).covariance


@pytest.mark.exhaustive
def test_batch_means_know_the_covariance_to_the_noise_of_few_batches():
    """Variances scatter like .9 chi2/4 of four degrees of freedom, and are those of the sandwich at least.

    Batches that are short against the memory of descent make them some 10% too small. The larger of .9 chi2/4 and 1 has
    the mean 1.206; forty passes know it to .07: with 3.3 standard errors (false alarms 1e-3) a standard error that is
    20% too large is seen.
    """
    X, y = simulated(40_000, 6)
    exact = np.diag(sd.m_estimate(EXPONENTIAL, X, y, l2=1.0).covariance)
    options = {"step_size": sd.step_sizes.StepSize(0.5, power=0.6), "batch_size": 4, "l2": 1.0, "average": True}
    ratios = [
        np.diag(sd.sgd(EXPONENTIAL, X, y, covariance="batch means", random_state=seed, **options).covariance) / exact
        for seed in range(40)
    ]
    assert np.min(ratios) > 0.9
    assert np.mean(ratios) == pytest.approx(1.206, abs=3.3 * 0.07)


# ---- what a user sees and mistypes -----------------------------------------------------------------------


def test_the_summary_is_a_table_of_coefficients():
    X, y = simulated(20_000, 8)
    fit = sd.m_estimate(EXPONENTIAL, X, y, l2=1.0)
    text = fit.summary(0.9)
    for part in ("std err", "P>|z|", "[0.05", "0.95]", "sandwich", "penalised optimum"):
        assert part in text
    row = next(line for line in text.splitlines() if line.strip().startswith("x0")).split()
    assert float(row[1]) == pytest.approx(fit.theta[0], rel=1e-4)
    assert float(row[3]) == pytest.approx(fit.theta[0] / fit.standard_errors[0], rel=1e-3)


def test_a_table_is_matched_by_name():
    pandas = pytest.importorskip("pandas")
    X, y = simulated(2_000, 9)
    table = pandas.DataFrame(X, columns=["x0", "x1"])[["x1", "x0"]]
    fits = [sd.m_estimate(EXPONENTIAL, rows, y, l2=1.0) for rows in (X, table)]
    np.testing.assert_array_equal(fits[0].theta, fits[1].theta)


GOOD_X, GOOD_Y = records(60, 2)
BAD = {
    "ball and box": ({"radius": 1.0, "bounds": (-1, 1)}, ValueError, "Choose one"),
    "bounds not a pair": ({"bounds": 3.0}, TypeError, "pair"),
    "bounds of another length": ({"bounds": ([0, 0, 0], 1)}, ValueError, "shape"),
    "bounds with NaN": ({"bounds": (math.nan, 1)}, ValueError, "bounds"),
    "crossed bounds": ({"bounds": (1, -1)}, ValueError, "not below"),
    "clusters of another length": ({"clusters": np.zeros(3)}, ValueError, "one label per record"),
    "one cluster": ({"clusters": np.zeros(60)}, ValueError, "single"),
    "clusters with NaN": ({"clusters": np.where(np.arange(60) == 5, np.nan, 1.0)}, ValueError, "missing"),
    "clusters with NA": ({"clusters": pd.Series([pd.NA, *"ab" * 29, "a"], dtype="string")}, ValueError, "missing"),
    "clusters under a mask": ({"clusters": np.ma.masked_less(np.arange(60), 3)}, ValueError, "missing"),
    "clusters that are no labels": (
        {"clusters": np.array([{}, *"ab" * 29, "a"], object)},
        TypeError,
        "types dict, str",
    ),
    "clusters that are lists": ({"clusters": [[1, 2], *[[1]] * 59]}, ValueError, "one label per record"),
    "squares of scales overflow": ({"noise_scale": np.where(np.arange(60) == 4, 1e200, 1.0)}, ValueError, "in row 4"),
    "a tiny ball": ({"radius": 1e-320}, ValueError, "radius=1e-320 is too small"),
    "a huge ball": ({"radius": 1e308}, ValueError, "radius=1e.308 is too large"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_named(case):
    changed, error, message = BAD[case]
    with pytest.raises(error, match=message):
        sd.m_estimate(EXPONENTIAL, GOOD_X, GOOD_Y, **changed)


def test_levels_and_restrictions_are_checked():
    fit = sd.m_estimate(EXPONENTIAL, *simulated(2_000, 9), l2=1.0)
    for level in (0.0, 1.0, math.nan, 95):
        with pytest.raises(ValueError, match="level"):
            fit.confidence_interval(level)
    with pytest.raises(ValueError, match="shape"):
        fit.wald_test([1.0, 0.0, 0.0])
    with pytest.raises(ValueError, match="linearly dependent"):
        fit.wald_test([[1.0, 0.0], [2.0, 0.0]])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"covariance": "sandwich", "average": True}, "not known"),
        ({"covariance": "plug-in"}, "averaged iterates"),
        ({"covariance": "batch means", "average": True}, "1/2 < a < 1"),
        ({"covariance": "batch means", "average": True, "step_size": sd.step_sizes.inverse_time(1.0)}, "1/2 < a < 1"),
        (
            {
                "covariance": "batch means",
                "average": True,
                "step_size": sd.step_sizes.StepSize(0.5, power=0.6),
                "epochs": 2,
            },
            "far too small",
        ),
    ],
)
def test_a_covariance_that_descent_cannot_give_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        sd.sgd(EXPONENTIAL, GOOD_X, GOOD_Y, **options)


@pytest.mark.parametrize("loss", [sd.losses.least_squares(), sd.losses.logistic()])
@pytest.mark.parametrize(
    ("third", "named"),
    [
        (lambda X: X[:, 0], "a, c is 0"),
        (lambda X: 3 * X[:, 0] - X[:, 1] / 7, "a, b, c is 0"),
        (lambda X: np.full(len(X), 5.0), "c, intercept is 0"),
    ],
    ids=["repeated", "combination", "constant beside an intercept"],
)
def test_columns_that_others_determine_are_named(loss, third, named):
    X, y = regression(500)
    y = np.sign(y) if loss.target_values else y
    X[:, 2] = third(X)
    X *= [1.0, 10.0, 100.0]
    corrected = sd.debias(loss, sd.Release(features=None, noiseless=("a", "b", "c"), fit_intercept=True))
    with pytest.raises(DivergenceError, match=rf"do not decide theta: a combination of {named}.*Leave out"):
        sd.m_estimate(corrected, X, y)
    assert np.isfinite(sd.m_estimate(corrected, X, y, l2=0.1).theta).all()
    # The least spread beside them that decides.
    X[:, 2] *= 1 + 1e-4 * np.cos(np.arange(500.0))
    assert np.isfinite(sd.m_estimate(corrected, X, y).standard_errors).all()


@pytest.mark.parametrize("seed", range(8))
def test_a_column_of_zeros_is_named_where_a_correction_is_exact(seed):
    """Without a penalty rounding would say where its parameter ends, and whether there is a fit at all."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(500, 3)), np.where(rng.random(500) < 0.5, 1.0, -1.0)
    X[:, 2] = 0.0
    release = sd.Release(features=None, noiseless=("a", "b", "c"), fit_intercept=True)
    for loss in (sd.losses.least_squares(), sd.losses.logistic()):
        corrected = sd.debias(loss, release)
        with pytest.raises(DivergenceError, match="theta: c is 0 in each of them, so that no parameter of it is the"):
            sd.m_estimate(corrected, X, y)
        assert sd.m_estimate(corrected, X, y, l2=0.01).theta[2] == pytest.approx(0.0, abs=1e-8)


@pytest.mark.in_turn
def test_noise_of_the_records_own():
    X, y = regression(20_000)
    rng = np.random.default_rng(0)
    scales = rng.uniform(0.1, 0.8, len(X))
    release = sd.Release(features={("x0", "x1", "x2"): sd.GaussianMechanism.from_scale(0.3)})
    released = X + scales[:, None] * rng.normal(size=X.shape)
    fit = sd.m_estimate(sd.debias(sd.losses.least_squares(), release), released, y, noise_scale=scales)
    gram = released.T @ released / len(X) - np.mean(scales**2) * np.eye(3)
    np.testing.assert_allclose(fit.theta, np.linalg.solve(gram, released.T @ y / len(X)), rtol=1e-8)
    assert np.all(np.abs(fit.theta - np.linspace(-1, 1, 3)) < 5 * fit.standard_errors)


def test_a_squared_maximum_has_its_hessian_from_differences():
    """Its second derivative has point masses of weight zero, which no kernel evaluates."""
    rng = np.random.default_rng(8)
    X = rng.normal(size=(500, 2))
    y = np.where(X[:, 0] + rng.normal(size=500) > 0, 1.0, -1.0)
    fit = sd.m_estimate(sd.debias(sd.losses.squared_hinge(), sd.Release(), method="none"), X, y)
    assert fit.diagnostics["hessian"] == "central differences"
    slack = np.maximum(0.0, 1 - y * (X @ fit.theta))
    assert np.abs(X.T @ (y * slack)).max() / len(y) < 1e-6


def test_a_free_form_loss_with_corners_has_its_hessian_from_differences():
    """The Huber loss of a x^2 + b is that of a score in the columns x^2 and 1."""
    x, a, b = sp.symbols("x a b", real=True)
    residual = Y - a * x**2 - b
    huber = sp.Piecewise((residual**2 / 2, sp.Abs(residual) < 1), (sp.Abs(residual) - sp.Rational(1, 2), True))
    rng = np.random.default_rng(9)
    X = rng.normal(size=(400, 1))
    y = X[:, 0] ** 2 + rng.standard_t(2, size=400)
    loss = sd.Loss.of_features(huber, features=[x], parameters=[a, b], target=Y)
    corrected = sd.debias(loss, sd.Release(noiseless=("x",)))
    fit = sd.m_estimate(corrected, X, y)
    score = sd.debias(sd.losses.huber(1.0), sd.Release(noiseless=("x",), fit_intercept=True))
    expected = sd.m_estimate(score, X**2, y)
    assert fit.diagnostics["hessian"] == expected.diagnostics["hessian"] == "central differences"
    np.testing.assert_allclose(fit.theta, expected.theta, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(fit.standard_errors, expected.standard_errors, rtol=0.05)
    for one, rows in ((corrected, X), (score, X**2)):
        for hessian in (one.mean_hessian, one.hessian):
            with pytest.raises(NoExactCorrectionError, match="has a corner or a jump, where second derivatives"):
                hessian([1.0, 0.0], rows, y)


@pytest.mark.parametrize("seed", range(40))
def test_a_hessian_with_a_column_of_zeros_has_no_covariance(seed):
    """Its least eigenvalue is above 0 by rounding in some of these; then too there is an error, and no warning."""
    rows = np.random.default_rng(seed).normal(size=(60, 38))
    rows[:, [3, 17]] = 0.0
    with pytest.raises(InferenceError, match=r"no minimum|do not tell"):
        sandwich(rows.T @ rows / 60, np.eye(38), 60)


def test_where_the_exact_correction_is_lost_it_is_tried_from_a_pilot_by_surrogates(monkeypatch):
    """What is searched, in turn, where each search refuses its fit."""
    tried = []

    def estimate(search, *, by_surrogate=False):
        tried.append((search.corrected.method, by_surrogate))
        raise DivergenceError(f"refusal {len(tried)}")

    module = sys.modules["symdebias.solvers.m_estimation"]
    monkeypatch.setattr(module._Search, "estimate", estimate)
    X, y = simulated(200, 0)
    with pytest.raises(DivergenceError, match="refusal 1"):
        sd.m_estimate(EXPONENTIAL, X, y)
    # What comes after these are penalties that may be advised.
    assert tried[:2] == [("exact", False), ("exact", True)]
    assert set(tried[2:]) == {("exact", False)}


@pytest.mark.in_turn
def test_a_surrogate_does_not_take_the_place_of_an_exact_correction_without_a_minimum():
    """Labels of randomized response alone: half of the draws have fewer of a rare label than noise makes by itself.

    Surrogates level out and have a minimum there all the same, 20 to 50 of its standard errors from the truth.
    """
    corrected = sd.debias(sd.losses.probit(), sd.Release(None, target=sd.RandomizedResponse(1.5), noiseless=("a", "b")))
    rng, refused = np.random.default_rng(19), 0
    for _ in range(12):
        X = (rng.random((3_000, 2)) < 0.2) / 0.4 + 1.5
        y = np.where(rng.random(3_000) < ndtr(X @ [-1.2, 0.4]), 1, -1)
        told = np.where(rng.random(3_000) < 1 / (1 + np.exp(1.5)), -y, y)
        with warnings.catch_warnings():
            # Of fits that came by a minimum by chance.
            warnings.simplefilter("ignore", sd.VarianceWarning)
            try:
                fit = sd.m_estimate(corrected, X, told)
            except DivergenceError:
                refused += 1
            else:
                assert fit.corrected.is_exact
    assert 0 < refused < 12


@pytest.mark.exhaustive
def test_an_exact_correction_that_is_lost_is_refused_and_a_surrogate_can_be_asked_for():
    """With noise of variance 12 of the score the fourth derivative of the log loss is noise."""
    rng = np.random.default_rng(0)
    theta = np.array([2.0, -1.5, 1.0, 0.5, -1.0])
    X = rng.uniform(-1, 1, (30_000, 5)) / np.sqrt(5)
    y = np.where(rng.random(len(X)) < 1 / (1 + np.exp(-X @ theta)), 1.0, -1.0)
    release = sd.Release(sd.SphericalLaplaceMechanism(4.0, 1.0), sd.RandomizedResponse(4.0)).bind(list("abcde"))
    noised = release.privatize(X, y, random_state=0)
    chosen = sd.debias(sd.losses.logistic(), release)
    assert chosen.method == "exact"
    with pytest.raises(sd.DivergenceError):
        sd.m_estimate(chosen, noised.X, noised.y, l2=0.01)
    asked = sd.m_estimate(sd.debias(sd.losses.logistic(), release, method="surrogate"), noised.X, noised.y, l2=0.01)
    assert asked.corrected.method == "surrogate"


def noisy_scores(seed=0, n=100_000):
    """Records of a logistic model whose scores have noise of variance 7, where a surrogate belongs to one theta."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 2))
    y = np.where(rng.random(n) < expit(X @ [2.0, -1.0]), 1.0, -1.0)
    noised = sd.Release(sd.GaussianMechanism.from_scale(1.2)).privatize(X, y, random_state=seed + 1)
    return sd.debias(sd.losses.logistic(), noised.release), noised.X, noised.y


@pytest.mark.in_turn
def test_a_part_of_many_records_tells_where_a_surrogate_belongs(monkeypatch):
    """The answer is the root of all records; steps by `sgd` on the same records end there as well."""
    corrected, X, y = noisy_scores(12)
    whole = sd.m_estimate(corrected, X, y)
    module = sys.modules["symdebias.solvers.m_estimation"]
    for name, value in (("_MANY", 100_000), ("_THINNED", 4), ("_MUCH_MORE", 1)):
        monkeypatch.setattr(module, name, value)
    fit = sd.m_estimate(corrected, X, y)
    errors = whole.standard_errors
    # The pilot is two errors away: the part's minimum is where the surrogate is designed anew, and no full pass was
    # spent on the first.
    assert fit.diagnostics["stages"] == 2
    # The surrogate is another one, and either has a bias of up to some errors.
    assert np.all(np.abs(fit.theta - whole.theta) < 0.25 * errors)
    np.testing.assert_allclose(fit.standard_errors, errors, rtol=0.1)
    steps = np.linalg.solve(fit.corrected.mean_hessian(fit.theta, X, y), fit.corrected.mean_gradient(fit.theta, X, y))
    assert np.all(np.abs(steps) < 1e-3 * errors)
    options = {"step_size": 0.5, "batch_size": 5_000, "epochs": 40, "average": 0.5, "random_state": 0}
    descent = sd.sgd(corrected, X, y, **options)
    assert np.all(np.abs(descent.theta - whole.theta) < 0.25 * errors)
    # From farther out than the pilot it trains twice: with room for larger scores first.
    assert sd.sgd(corrected, X, y, start=[2.6, -1.2], **options).diagnostics["stages"] > 1


def test_a_part_that_the_noise_rules_is_left_soon(monkeypatch):
    """Of 500 records the surrogate for 100,000 has no minimum: sixty steps followed the noise to where none was."""
    corrected, X, y = noisy_scores(16)
    module = sys.modules["symdebias.solvers.m_estimation"]
    for name, value in (("_MANY", 100_000), ("_THINNED", 200), ("_MUCH_MORE", 0)):
        monkeypatch.setattr(module, name, value)
    passed, taken = Records.derivatives, []

    def derivatives(self):
        found = passed(self)
        return lambda *arguments: (taken.append(len(self)), found(*arguments))[1]

    monkeypatch.setattr(Records, "derivatives", derivatives)
    fit = sd.m_estimate(corrected, X, y)
    assert 0 < taken.count(500) < 40
    step = np.linalg.solve(fit.corrected.mean_hessian(fit.theta, X, y), fit.corrected.mean_gradient(fit.theta, X, y))
    assert np.all(np.abs(step) < 1e-3 * fit.standard_errors)


@pytest.mark.parametrize("is_sorted", [False, True])
def test_of_many_records_two_passes_are_taken(monkeypatch, is_sorted):
    """A part tells the rest: one gradient of all records, one pass with all derivatives, and theta is their root."""
    X, y = simulated(200_000, 3)
    if is_sorted:
        order = np.lexsort((X[:, 0], y))
        X, y = X[order], y[order]
    taken = []

    def counted(kind, call):
        def counting(self, *arguments):
            taken.extend([kind] * (len(self) == len(X)))
            return call(self, *arguments)

        return counting

    monkeypatch.setattr(Records, "mean_gradient", counted("gradient", Records.mean_gradient))
    passed = Records.derivatives

    def derivatives(self):
        found = passed(self)
        return lambda *arguments: (taken.extend(["derivatives"] * (len(self) == len(X))), found(*arguments))[1]

    monkeypatch.setattr(Records, "derivatives", derivatives)
    fit = sd.m_estimate(EXPONENTIAL, X, y, l2=1.0)
    assert taken == ["gradient", "derivatives"]
    gradient = EXPONENTIAL.mean_gradient(fit.theta, X, y) + fit.theta
    step = np.linalg.solve(EXPONENTIAL.mean_hessian(fit.theta, X, y) + np.eye(2), gradient)
    assert np.abs(step).max() < 1e-6 * np.abs(fit.theta).max()
    assert np.all(
        np.abs(fit.theta - sd.m_estimate(EXPONENTIAL, X[::2], y[::2], l2=1.0).theta) < 5 * fit.standard_errors
    )


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_in_a_long_array_is_found_by_its_moments(bad):
    X, y = np.zeros((2**19 + 1, 2)), np.ones(2**19 + 1)
    X[::2] = [1.0, -1.0]
    X[400_000, 1] = bad
    with pytest.raises(ValueError, match=r"^X has (NaN|infinity) in row 400000, column 1\. Remove or impute"):
        sd.m_estimate(EXPONENTIAL, X, y)


@pytest.mark.in_turn
def test_a_part_of_the_records_that_leads_astray_is_left():
    """With much noise the minimum of a part, moved by all, may be where the noise of all rules: no fit ends there."""
    rng, n, p = np.random.default_rng(2), 250_000, 10
    X = rng.standard_t(6, size=(n, p))
    truth = rng.normal(size=p) * 1.2 / math.sqrt(p)
    y = np.where(rng.random(n) < 1 / (1 + np.exp(-X @ truth)), 1.0, -1.0)
    release = sd.Release(sd.GaussianMechanism.from_scale(1.5), sd.RandomizedResponse(4.0))
    noised = release.privatize(X, y, random_state=2)
    corrected = sd.debias(sd.losses.logistic(), noised.release)
    # Whether it does so depends on a few records: one of these was refused.
    for first in (0, 2_000):
        fit = sd.m_estimate(corrected, noised.X[first:], noised.y[first:])
        assert np.all(np.abs(fit.theta - truth) < 5 * fit.standard_errors)


@pytest.mark.in_turn
@pytest.mark.parametrize("name", ["log loss", "exponential"])
def test_weights_of_which_every_third_is_zero(name):
    """Parts of the records are taken in strides, of which 3 may be a divisor: then they would have no weight."""
    X, y = simulated(250_000, 5)
    corrected = EXPONENTIAL if name == "exponential" else sd.debias(sd.losses.logistic(), EXPONENTIAL.release)
    weights = np.ones(len(X))
    weights[::3] = 0.0
    fit = sd.m_estimate(corrected, X, y, l2=1.0, sample_weight=weights)
    left = sd.m_estimate(corrected, X[weights > 0], y[weights > 0], l2=1.0)
    assert np.all(np.abs(fit.theta - left.theta) < 0.02 * left.standard_errors)


def with_records_of_weight_0(X, y, count, seed=0):
    """Return records among others that are far out and have no weight, and the weights."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(X) + count)
    others = rng.normal(scale=3.0, size=(count, X.shape[1]))
    weights = np.repeat([1.0, 0.0], [len(X), count])
    return np.vstack([X, others])[order], np.concatenate([y, np.ones(count)])[order], weights[order]


@pytest.mark.in_turn
@pytest.mark.parametrize(("count", "others"), [(600, 5_000), (600, 100_000), (30_000, 100_000)])
@pytest.mark.parametrize("loss", [sd.losses.squared_margin(), sd.losses.logistic(), sd.losses.huber()])
def test_records_of_weight_0_change_nothing(loss, count, others):
    """Neither the fit nor what it is tested by, though they are unlike the rest."""
    X, y = simulated(count, 3)
    X, y, weights = with_records_of_weight_0(X, y, others)
    corrected = sd.debias(loss, sd.Release(sd.GaussianMechanism.from_scale(0.3)))
    # These have the order of the others, by which samples are taken.
    alone = sd.m_estimate(corrected, X[weights > 0], y[weights > 0])
    fit = sd.m_estimate(corrected, X, y, sample_weight=weights)
    np.testing.assert_allclose(fit.theta, alone.theta, rtol=1e-7)
    np.testing.assert_allclose(fit.standard_errors, alone.standard_errors, rtol=1e-7)
    np.testing.assert_allclose(fit.confidence_interval(), alone.confidence_interval(), rtol=1e-6)
    for name in ("curvature", "carrying_share", "noise_inflation"):
        assert fit.diagnostics[name] == pytest.approx(alone.diagnostics[name], rel=1e-6)


@pytest.mark.in_turn
@pytest.mark.parametrize("solve", [sd.m_estimate, functools.partial(sd.sgd, random_state=0, epochs=1)])
@pytest.mark.parametrize("kind", [np.asarray, Rows.of_array])
def test_a_record_of_weight_0_may_overflow(solve, kind):
    X, y = simulated(6_000, 3)
    X, y, weights = with_records_of_weight_0(X, y, 2)
    near = solve(EXPONENTIAL, kind(X), y, l2=1.0, sample_weight=weights)
    X[weights == 0] *= 1e6
    far = solve(EXPONENTIAL, kind(X), y, l2=1.0, sample_weight=weights)
    np.testing.assert_array_equal(far.theta, near.theta)
    assert EXPONENTIAL.mean_loss(near.theta, X, y, sample_weight=weights) < 1.0


@pytest.mark.in_turn
def test_noise_of_records_of_weight_0_is_none_of_the_others():
    """A surrogate is designed for the mean variance of the records' own noise."""
    X, y, weights = with_records_of_weight_0(*simulated(4_000, 3), 20_000)
    have, scales = weights > 0, np.where(weights > 0, 0.3, 0.9)
    corrected = sd.debias(sd.losses.logistic(), sd.Release(sd.GaussianMechanism.from_scale(0.3)))
    alone = sd.m_estimate(corrected, X[have], y[have], noise_scale=scales[have])
    fit = sd.m_estimate(corrected, X, y, sample_weight=weights, noise_scale=scales)
    np.testing.assert_allclose(fit.theta, alone.theta, rtol=1e-7)
    np.testing.assert_allclose(fit.standard_errors, alone.standard_errors, rtol=1e-7)
    assert fit.diagnostics["score_variance"] == pytest.approx(alone.diagnostics["score_variance"], rel=1e-7)


@pytest.mark.in_turn
@pytest.mark.parametrize("seed", range(4))
def test_records_of_weight_0_spare_no_fit_a_refusal(seed):
    """The noise is as large as the features, and 600 records do not tell the curvature."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (600, 2))
    y = np.where(rng.random(600) < expit(3 * X[:, 0] - 2 * X[:, 1]), 1.0, -1.0)
    release = sd.Release(sd.GaussianMechanism.from_scale(1.3))
    noised = release.privatize(X, y, random_state=seed)
    X, y, weights = with_records_of_weight_0(noised.X, noised.y, 100_000)
    corrected, said = sd.debias(sd.losses.squared_margin(), release), []
    for given in ((X[weights > 0], y[weights > 0], None), (X, y, weights)):
        with pytest.raises(DivergenceError) as refusal:
            sd.m_estimate(corrected, given[0], given[1], sample_weight=given[2])
        said.append(str(refusal.value))
    assert said[0] == said[1]


@pytest.mark.parametrize("size", [1e-80, 1e-155, 1e-200])
@pytest.mark.parametrize("loss", ["logistic", "exponential", "least_squares"])
def test_columns_too_small_to_be_squared_are_refused(loss, size):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=1_500), size * rng.normal(size=1_500)])
    y = np.where(rng.random(1_500) < expit(X[:, 0]), 1.0, -1.0)
    release = sd.Release({"a": sd.GaussianMechanism.from_scale(0.5)}, noiseless=("b",), fit_intercept=True)
    with pytest.raises(ValueError, match="numbers of b are too small"):
        sd.m_estimate(sd.debias(getattr(sd.losses, loss)(), release), X, y)


@pytest.mark.parametrize("loss", [sd.losses.logistic(), sd.losses.huber()])
def test_a_column_of_zeros_is_named_where_a_surrogate_is_to_be_designed(loss):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=3_000), np.zeros(3_000)])
    y = np.where(rng.random(3_000) < 1 / (1 + np.exp(-X[:, 0])), 1, -1)
    release = sd.Release({"a": sd.GaussianMechanism.from_scale(0.5)}, noiseless=("empty",), fit_intercept=True)
    noised = release.privatize(X, y, random_state=1)
    corrected = sd.debias(loss, release)
    with pytest.raises(DivergenceError, match="empty is 0 in each of them, so that no parameter of it is the best"):
        sd.m_estimate(corrected, noised.X, noised.y)
    assert sd.m_estimate(corrected, noised.X, noised.y, l2=0.01).theta[1] == pytest.approx(0.0, abs=1e-8)


@pytest.mark.in_turn
@pytest.mark.parametrize("loss", [sd.losses.huber(), sd.losses.expectile(0.75)])
def test_kinks_of_losses_are_where_they_are_for_columns_far_from_0(loss):
    """Steps as long as the intercept made second derivatives those of a loss without kinks."""
    X, y = regression(2_000)
    corrected = sd.debias(loss, sd.Release(features=None, noiseless=("a", "b", "c"), fit_intercept=True))
    near, far = (sd.m_estimate(corrected, X + np.array([0, shift, 0]), y) for shift in (0.0, 1e5))
    np.testing.assert_allclose(far.theta[:3], near.theta[:3], rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(far.standard_errors[:3], near.standard_errors[:3], rtol=1e-4)
    rows = X[:5] + np.array([0, 1e5, 0])
    np.testing.assert_allclose(far.predict_interval(rows), near.predict_interval(X[:5]), rtol=1e-4)


def test_a_column_of_which_rounding_leaves_nothing_is_named():
    X, y = regression(500)
    corrected = sd.debias(sd.losses.huber(), sd.Release(features=None, noiseless=("a", "b", "c"), fit_intercept=True))
    with pytest.raises(
        DivergenceError,
        match=r"^rounding leaves nothing of what b says, so far from 0 beside its spread.*less a number near its",
    ):
        sd.m_estimate(corrected, X + np.array([0, 1e7, 0]), y)


@pytest.mark.in_turn
def test_fits_of_far_targets_are_the_same_wherever_records_lie(tmp_path):
    """In memory, in a map that is read in every pass, and from a checkpoint."""
    X, y = regression(3_000)
    release = sd.Release({"a": sd.GaussianMechanism.from_scale(0.4)}, noiseless=("b", "c"), fit_intercept=True)
    noised = release.privatize(X, y + 1e6, random_state=1)
    corrected = sd.debias(sd.losses.huber(), release)
    here = sd.m_estimate(corrected, noised.X, noised.y, start=[0.1, 0.0, 0.0, 1e6])
    read = sd.blocks.from_iterator(
        lambda: iter([(noised.X[:1_700], noised.y[:1_700]), (noised.X[1_700:], noised.y[1_700:])])
    )
    kept = tmp_path / "kept"
    for X, y, more in ((*read, {}), (*read, {"checkpoint": kept}), (noised.X, noised.y, {"checkpoint": kept})):
        there = sd.m_estimate(corrected, X, y, start=[0.1, 0.0, 0.0, 1e6], **more)
        np.testing.assert_allclose(there.theta, here.theta, rtol=1e-9)
        np.testing.assert_allclose(there.standard_errors, here.standard_errors, rtol=1e-9)
    assert here.theta[3] == pytest.approx(1e6, abs=1)


WITHOUT_NOISE = sd.Release(features=None, noiseless=("a", "b", "c"), fit_intercept=True)


@pytest.mark.parametrize("loss", [sd.losses.huber(), sd.losses.quantile(0.5)])
@pytest.mark.parametrize(("share", "by"), [(0.01, 1e5), (0.3, 50.0)])
def test_outliers_do_not_lead_a_fit_astray_that_bounds_them(loss, share, by):
    """Begun at least squares, among the outliers, the search found no lower loss or did not settle."""
    X, y = regression(2_000)
    far = y + 2 + np.where(np.arange(2_000) < share * 2_000, by, 0.0)
    fit = sd.m_estimate(sd.debias(loss, WITHOUT_NOISE), X, far)
    assert fit.diagnostics["start"] == "zero"
    kept = slice(int(share * 2_000), None)
    alone = sd.m_estimate(sd.debias(loss, WITHOUT_NOISE), X[kept], y[kept] + 2)
    # Outliers on one side move the intercept and the scatter, and slopes by no more than chance.
    np.testing.assert_allclose(fit.theta[:3], alone.theta[:3], atol=5 * float(fit.standard_errors[:3].max()))


def test_targets_far_from_0_are_fitted_without_an_intercept_that_takes_them_up():
    X, y = regression(2_000)
    release = sd.Release(features=None, noiseless=("a", "b", "c", "one"))
    fit = sd.m_estimate(sd.debias(sd.losses.huber(), release), np.column_stack([X, np.ones(2_000)]), y + 40)
    other = sd.m_estimate(sd.debias(sd.losses.huber(), WITHOUT_NOISE), X, y + 40)
    assert (fit.diagnostics["start"], other.diagnostics["start"]) == ("least squares", "zero")
    np.testing.assert_allclose(fit.theta, other.theta, rtol=1e-6)


@pytest.mark.parametrize("loss", [sd.losses.huber(), sd.losses.least_squares(), sd.losses.expectile(0.3)])
def test_many_targets_that_are_all_the_same_are_fitted(loss):
    """A fit that ends at 0, of targets less their middle, has no length that a last step could be a share of."""
    X = np.random.default_rng(0).normal(size=(205_000, 3))
    fit = sd.m_estimate(sd.debias(loss, WITHOUT_NOISE), X, np.full(len(X), 7.0))
    np.testing.assert_allclose(fit.theta, [0, 0, 0, 7], atol=1e-9)


@pytest.mark.in_turn
def test_a_refusal_names_the_parameters_of_the_targets_as_they_are():
    X, y = regression(400)
    release = sd.Release({name: sd.GaussianMechanism.from_scale(3.0) for name in "abc"}, fit_intercept=True)
    noised = release.privatize(X, y + 1e4, random_state=2)
    with pytest.raises(DivergenceError, match=r"\|\|theta\|\| = (1e\+04|9998|1.0\d*e\+04)"):
        sd.m_estimate(sd.debias(sd.losses.huber(), release), noised.X, noised.y)


def test_scores_that_hardly_vary_are_settled_at_once():
    """Moves of parameters were held against scores that are nearly 0, and not against the spread of residuals."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(3_000, 2)), 5 + rng.normal(size=3_000)
    release = sd.Release(sd.GaussianMechanism.from_scale(0.5), fit_intercept=True)
    noised = release.privatize(X, y, random_state=0)
    for shift in (0.0, -5.0):
        fit = sd.m_estimate(sd.debias(sd.losses.huber(), release), noised.X, noised.y + shift)
        assert fit.diagnostics["stages"] == 1
        assert np.all(np.abs(fit.theta - [0, 0, 5 + shift]) < 5 * fit.standard_errors)


@pytest.mark.in_turn
@pytest.mark.parametrize(("share", "by"), [(0.01, 1e3), (0.001, 1e4)])
def test_few_far_targets_do_not_tell_how_far_a_surrogate_reaches(share, by):
    """Held against their root mean square a fit stayed where its surrogate did not belong, or was not settled."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(210_000, 2))
    y = X @ [1.0, -0.5] + 2 + rng.normal(size=len(X)) + np.where(rng.random(len(X)) < share, by, 0.0)
    clean = sd.Release(features=None, noiseless=("a", "b"), fit_intercept=True)
    truth = sd.m_estimate(sd.debias(sd.losses.expectile(0.3), clean), X, y).theta
    release = sd.Release(sd.GaussianMechanism.from_scale(0.4), fit_intercept=True)
    noised = release.privatize(X, y, random_state=0)
    fit = sd.m_estimate(sd.debias(sd.losses.expectile(0.3), release), noised.X, noised.y)
    assert np.all(np.abs(fit.theta - truth) < 4 * fit.standard_errors)
    assert np.all(fit.bias_bound < fit.standard_errors)


def test_curvatures_whose_squares_overflow_are_refused():
    """A loss of the sixth degree in its parameter, from 1e40: the curvature is 1e161."""
    x, t, y = sp.symbols("x t y", real=True)
    loss = sd.Loss.of_features((t**3 * x - y) ** 2, features=[x], parameters=[t], target=y)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 1))
    noised = X + 0.3 * rng.normal(size=X.shape)
    corrected = sd.debias(loss, sd.Release({"x": sd.GaussianMechanism.from_scale(0.3)}))
    assert sd.m_estimate(corrected, noised, 8 * X[:, 0], start=[1.0]).theta == pytest.approx([2.0], abs=0.05)
    with pytest.raises(sd.exceptions.DivergenceError, match=r"lost to rounding at theta of norm 1e\+40"):
        sd.m_estimate(corrected, noised, 8 * X[:, 0], start=[1e40])
