"""What is said of fits whose records rule out no longer parameters."""

import contextlib
import math
import re
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import expit, ndtr

import symdebias as sd
from symdebias.solvers.outward import longer_parameters

SAID = "times as long"


def looked_at(records, theta, *rest):
    """What is said of parameters longer than theta, with the derivatives there."""
    return longer_parameters(records, theta, records.derivatives()(theta, True), *rest)


def fitted(name, truth, noise, *, seed, records=3_000):
    rng = np.random.default_rng([seed, 11])
    X = rng.normal(size=(records, len(truth)))
    y = np.where(rng.random(records) < expit(2 * X @ truth), 1.0, -1.0)
    if name == "least_squares":
        y = X @ truth + rng.normal(size=records)
    target = sd.RandomizedResponse(1.5) if name == "exponential" else None
    release = sd.Release(sd.GaussianMechanism.from_scale(noise), target=target)
    noised = release.privatize(X, y, random_state=seed)
    return sd.m_estimate(sd.debias(getattr(sd.losses, name)(), release), noised.X, noised.y), noised


def in_rare_columns(truth, *, seed, records=2_000, fit_intercept=False):
    """A probit of strong signals in rare binary columns that go together, labels noised."""
    rng = np.random.default_rng([seed, 13 if fit_intercept else 19])
    binary = (rng.random((records, 3)) < 0.1) / 0.3
    X = math.sqrt(1 - 0.95**2) * binary[:, :2] + 0.95 * binary[:, 2:]
    score = X @ truth[:2] + (truth[2] if fit_intercept else 0.0)
    y = np.where(rng.random(records) < ndtr(score), 1.0, -1.0)
    release = sd.Release(None, target=sd.RandomizedResponse(1.5), noiseless=("a", "b"), fit_intercept=fit_intercept)
    return sd.debias(sd.losses.probit(), release), release.privatize(X, y, random_state=seed)


def fitted_with_a_word():
    """A fit that is two thirds as long as its truth (2.6, -1.5): records of the truth that have one look like this."""
    corrected, noised = in_rare_columns(np.array([2.6, -1.5]), seed=5)
    with pytest.warns(sd.exceptions.VarianceWarning, match=SAID) as said:
        found = sd.m_estimate(corrected, noised.X, noised.y)
    assert [Path(one.filename).name for one in said] == [Path(__file__).name]
    return found, noised


def test_a_fit_that_does_not_rule_out_longer_parameters_says_so():
    fit, _ = fitted_with_a_word()
    assert re.search(rf"up to [4-9][.\d]* {SAID}", fit.summary())
    assert 1.5 < fit.theta[0] < 2


@pytest.mark.parametrize(("truth", "noise", "seed"), [([0.6, -0.3], 1.0, 24), ([0.8, -0.4], 0.7, 7)])
def test_noise_of_columns_does_not_make_long_parameters_look_short(truth, noise, seed):
    """Scores grow faster than the parameters there: those of longer ones tell nothing, and the one of theta does."""
    fit, noised = fitted("exponential", truth, noise, seed=seed)
    records = fit.corrected.records(noised.X, noised.y)
    derivatives, length = records.derivatives(), np.linalg.norm(fit.theta)
    assert fit.diagnostics["curvature"] < 20
    scores = []
    for times in (2.0, 3.0, 5.0):
        found, along = derivatives(times * fit.theta, True), fit.theta / length
        scores.append(found.gradient @ along / math.sqrt(along @ found.meat @ along / len(noised.X)))
    assert max(scores) < 1.96
    assert SAID not in fit.summary()
    low, high = fit.confidence_interval()[0]
    assert low < truth[0] < high < np.inf


@pytest.mark.parametrize(
    ("loss", "truth", "noise"),
    [("exponential", [0.5, -0.3], 0.3), ("exponential", [0.0, 0.0], 0.5), ("least_squares", [0.0, 0.0], 0.7),
     ("least_squares", [2.0, -1.0], 0.7)],
)  # fmt: skip
def test_a_fit_that_rules_them_out_says_nothing(loss, truth, noise):
    fit, _ = fitted(loss, truth, noise, seed=3)
    assert SAID not in fit.summary()


def test_intervals_have_no_end_away_from_0_where_longer_parameters_are_not_ruled_out():
    fit, _ = fitted_with_a_word()
    (low, high), (_, other) = fit.confidence_interval()
    assert 0 < low < fit.theta[0]
    assert high == np.inf
    assert other == np.inf or fit.theta[1] < other < 0
    assert fit.confidence_interval()[1, 0] == -np.inf
    ((least, most),) = fit.predict_interval([[2.0, 0.0]], of="score")
    assert least == pytest.approx(2 * low)
    assert most == np.inf


def test_descent_on_the_same_records_says_so_as_well():
    fit, noised = fitted_with_a_word()
    with pytest.warns(sd.exceptions.VarianceWarning, match=SAID) as said:
        descent = sd.sgd(
            fit.corrected, noised.X, noised.y, covariance="plug-in", start=fit.theta, step_size=1e-6, batch_size=64,
            average=True, random_state=0,
        )  # fmt: skip
    assert [Path(one.filename).name for one in said] == [Path(__file__).name]
    assert re.search(rf"up to [4-9][.\d]* {SAID}", descent.summary())


def test_the_statistic_is_the_score_in_the_direction_of_theta():
    """Its largest value, by the gradients of single records at the four places, is what the note says."""
    fit, noised = fitted_with_a_word()
    X, y = np.asarray(noised.X), np.asarray(noised.y)
    metric = X.T @ X / len(X)
    length = np.sqrt(fit.theta @ metric @ fit.theta)
    outwards = fit.theta / length
    step = max(length / 2, 2 * np.sqrt(outwards @ metric @ fit.covariance @ metric @ outwards))
    scores = [
        gradients.mean() / np.sqrt((gradients**2).mean() / len(X))
        for gradients in (fit.corrected.gradient(fit.theta + times * step * outwards, X, y) @ outwards
                          for times in (1.0, 2.0, 4.0, 8.0))
    ]  # fmt: skip
    assert f"at most {max(scores):.2g} standard errors" in fit.summary()
    assert f"up to {1 + 8 * step / length:.2g} times" in fit.summary()


def test_scores_that_underflow_tell_nothing():
    """Far out e^(-s/2) of undoing the noise is 0 in float64, and with it all gradients."""
    fit, noised = fitted("exponential", [0.6, -0.3], 1.0, seed=9)
    records, far = fit.corrected.records(noised.X, noised.y), np.array([40.0, -20.0])
    assert not records.mean_gradient(3 * far).any()
    largest, _ = looked_at(records, far, np.zeros(2), np.eye(2), fit.covariance, 5.0)
    assert largest == 0


def under_laplace_noise(scale, *, seed, records):
    rng = np.random.default_rng([seed, 17])
    X = rng.normal(size=(records, 1))
    y = np.where(rng.random(records) < expit(2 * X[:, 0]), 1.0, -1.0)
    release = sd.Release(sd.LaplaceMechanism.from_scale(scale))
    noised = release.privatize(X, y, random_state=seed)
    return sd.debias(sd.losses.exponential(), release), noised


def test_parameters_are_as_long_as_the_correction_has_finite_variance():
    """Under Laplace noise of the scale b it has some up to 1/(2 b): no test is made of longer ones."""
    corrected, noised = under_laplace_noise(0.35, seed=1, records=20_000)
    fit = sd.m_estimate(corrected, noised.X, noised.y)
    records = corrected.records(noised.X, noised.y)
    metric = noised.X.T @ noised.X / len(noised.X)
    # One and a half times as long is farther than that, and shorter ones are told from it.
    assert 1.5 * fit.theta[0] > 1 / 0.7 > fit.theta[0]
    assert fit.diagnostics["curvature"] < 20
    assert looked_at(records, fit.theta, np.zeros(1), metric, fit.covariance, 5.0) is None
    assert np.isfinite(fit.confidence_interval()).all()
    # Of few records those on the way are told as little as the estimate: the largest statistic is of the farthest one.
    corrected, noised = under_laplace_noise(0.45, seed=2, records=2_000)
    records, theta = corrected.records(noised.X, noised.y), np.array([1.0])
    metric = noised.X.T @ noised.X / len(noised.X)
    largest, note = looked_at(records, theta, np.zeros(1), metric, np.array([[0.01]]), 5.0)
    gradients = corrected.gradient(np.array([1 / 0.9]), noised.X, noised.y)
    assert largest == pytest.approx(max(gradients.mean() / gradients.std() * math.sqrt(2_000), 0.0), abs=0.01)
    assert f"up to 1.1 {SAID}" in note


def test_an_intercept_goes_along_with_longer_slopes():
    """At three times its own value it is rejected by itself; at its minimum beside such slopes nothing is."""
    truth = np.array([0.0, -3.0, -1.5])
    corrected, noised = in_rare_columns(truth, seed=39, records=20_000, fit_intercept=True)
    with pytest.warns(sd.exceptions.VarianceWarning, match="with slopes up to .* times as long and an intercept"):
        fit = sd.m_estimate(corrected, noised.X, noised.y)
    low, high = fit.confidence_interval().T
    plain = replace(fit.inference, outward=None).interval(fit.theta, 0.95)
    assert np.isfinite(plain[2]).all()
    assert fit.theta[2] == pytest.approx(truth[2], abs=0.2)
    assert (low[2], high[2]) == (-np.inf, np.inf)
    assert np.all((low[:2] == -np.inf) | (low[:2] == plain[:2, 0]))
    assert np.all((high[:2] == np.inf) | (high[:2] == plain[:2, 1]))
    np.testing.assert_array_equal(fit.predict_interval([[0.0, 0.0], [3.0, 1.0]]), [[0.0, 1.0], [0.0, 1.0]])
    assert fit.inference.pvalues(fit.theta)[2] >= 2 * ndtr(-fit.inference.outward)
    # With a known term of 0, which is a column more, nothing is otherwise.
    with pytest.warns(sd.exceptions.VarianceWarning, match="and an intercept"):
        held = sd.m_estimate(corrected, noised.X, noised.y, offset=np.zeros(len(noised.y)))
    np.testing.assert_array_equal(held.inference.intercepts, [False, False, True])
    assert held.inference.outward == pytest.approx(fit.inference.outward, rel=1e-3)
    # By hand: the minimum in the intercept, and the score less what is explained by the intercept's.
    X, y = np.asarray(noised.X), np.asarray(noised.y)
    centred = np.cov(X.T, bias=True)
    slopes = fit.theta[:2] / math.sqrt(fit.theta[:2] @ centred @ fit.theta[:2])
    length, error = fit.theta[0] / slopes[0], math.sqrt((centred @ slopes) @ fit.covariance[:2, :2] @ centred @ slopes)
    scores = []
    for times in (1.0, 2.0, 4.0, 8.0):
        own = (length + times * max(length / 2, 2 * error)) * slopes
        at = brentq(lambda b, own=own: fit.corrected.mean_gradient(np.append(own, b), X, y)[2], -2.0, 3.0)
        there = np.append(own, at)
        hessian = fit.corrected.mean_hessian(there, X, y)
        assert hessian[2, 2] > 0
        along = fit.corrected.gradient(there, X, y) @ np.append(slopes, -hessian[2, :2] @ slopes / hessian[2, 2])
        scores.append(along.mean() / math.sqrt((along**2).mean() / len(X)))
    assert fit.inference.outward == pytest.approx(max(scores), rel=0.02)


def test_the_middle_of_columns_changes_nothing_beside_an_intercept():
    corrected, noised = in_rare_columns(np.array([0.0, -3.0, -1.5]), seed=39, records=20_000, fit_intercept=True)
    theta, middle = np.array([-0.2, -1.6, -1.3]), np.array([4.0, -3.0])
    X = np.asarray(noised.X)
    turn = np.eye(3)
    turn[2, :2] = middle
    covariance, found = np.array([[0.02, 0.01, 0.0], [0.01, 0.03, 0.0], [0.0, 0.0, 0.01]]), []
    for matrix, moved in ((X, np.eye(3)), (X - middle, turn)):
        records, rows = corrected.records(matrix, noised.y), np.column_stack([matrix, np.ones(len(X))])
        metric = rows.T @ rows / len(X)
        rest = np.zeros(3), metric, moved @ covariance @ moved.T, 5.0
        own = moved @ theta
        found.append(looked_at(records, own, *rest))
        np.testing.assert_array_equal(own, moved @ theta)
        # An intercept alone has no slopes to be longer.
        assert looked_at(records, np.array([0.0, 0.0, 0.7]), *rest) is None
    (largest, note), (largest_of_centred, note_on_centred) = found
    assert 0 < largest == pytest.approx(largest_of_centred, rel=1e-9)
    assert note == note_on_centred


@pytest.mark.exhaustive
def test_intervals_cover_where_most_draws_are_refused():
    """A probit of strong signals in columns that go together: 15 of 100 draws are fitted, to a tenth of the truth.

    Intervals by the score tests of each parameter alone cover 15 and 23% of the parameters of fits with the note. That
    ten of them all cover by chance where 70% do has a probability of .03.
    """
    truth, covered = np.array([2.8, 1.1]), []
    for seed in range(120):
        rng = np.random.default_rng([seed, 12])
        binary = (rng.random((2_000, 3)) < 0.1) / 0.3
        X = math.sqrt(1 - 0.95**2) * binary[:, :2] + 0.95 * binary[:, 2:]
        y = np.where(rng.random(2_000) < ndtr(X @ truth), 1.0, -1.0)
        columns = {f"x{place}": sd.LaplaceMechanism.from_scale(0.106) for place in range(2)}
        release = sd.Release(columns, target=sd.RandomizedResponse(1.5))
        noised = release.privatize(X, y, random_state=seed)
        with warnings.catch_warnings(), contextlib.suppress(sd.exceptions.SymdebiasError):
            warnings.simplefilter("ignore", sd.exceptions.VarianceWarning)
            fit = sd.m_estimate(sd.debias(sd.losses.probit(), release), noised.X, noised.y)
            low, high = fit.confidence_interval().T
            if SAID in fit.summary():
                covered.append((low <= truth) & (truth <= high))
    assert len(covered) >= 5
    assert np.mean(covered) > 0.9


def test_nothing_is_looked_at_where_the_curvature_is_certain_or_theta_is_zero():
    fit, noised = fitted_with_a_word()
    records = fit.corrected.records(noised.X, noised.y)
    rest = np.zeros(2), np.eye(2), fit.covariance
    assert SAID in looked_at(records, fit.theta, *rest, 5.0)[1]
    for theta, curvature in ((fit.theta, 21.0), (fit.theta, None), (np.zeros(2), 5.0)):
        assert looked_at(records, theta, *rest, curvature) is None
