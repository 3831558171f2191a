"""What is said of fits whose records rule out no longer parameters."""

import contextlib
import math
import re
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import sympy as sp
from scipy.optimize import brentq
from scipy.special import expit, ndtr

import symdebias as sd
from symdebias.solvers.moments import released_moments
from symdebias.solvers.outward import longer_parameters

SAID = "times as long"
A, B, C, U, V, X1, X2, Y = sp.symbols("a b c u v x1 x2 y", real=True)


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


@pytest.mark.in_turn
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


@pytest.mark.in_turn
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


def of_margin(margin):
    return -sp.log(sp.erfc(-margin / sp.sqrt(2)) / 2)


def free_form(score, parameters, noised):
    """A probit in features and parameters, for records whose labels alone are noised."""
    loss = sd.Loss.of_features(
        of_margin(Y * score), features=(X1, X2), parameters=parameters, target=Y, target_values=(-1, 1)
    )
    return sd.debias(loss, sd.Release(None, target=noised.release.target, noiseless=("x1", "x2")))


def test_a_free_form_loss_is_looked_at_in_its_own_units():
    fit, noised = fitted_with_a_word()
    units = np.array([1e3, 1e-2])
    for scale in (np.ones(2), units):
        with pytest.warns(sd.exceptions.VarianceWarning, match=SAID):
            found = sd.m_estimate(free_form(A * X1 + B * X2, (A, B), noised), np.asarray(noised.X) * scale, noised.y)
        np.testing.assert_allclose(found.theta * scale, fit.theta, rtol=1e-6)
        # Of the same records at nearly the same places.
        assert found.inference.outward == pytest.approx(fit.inference.outward, rel=0.05)
        ends = found.confidence_interval() * scale[:, None]
        np.testing.assert_array_equal(np.isinf(ends), np.isinf(fit.confidence_interval()))
    with pytest.warns(sd.exceptions.VarianceWarning, match=SAID):
        descent = sd.sgd(
            found.corrected, np.asarray(noised.X) * units, noised.y, covariance="plug-in", start=found.theta,
            step_size=1e-9, batch_size=64, average=True, random_state=0,
        )  # fmt: skip
    assert descent.inference.outward == pytest.approx(found.inference.outward, rel=0.02)
    # Beside its own curvatures the least one is several times as certain as beside second moments.
    records = found.corrected.records(np.asarray(noised.X) * units, noised.y)
    rest = np.zeros(2), np.eye(2), found.covariance
    assert looked_at(records, found.theta, *rest, 119.0) is not None
    assert looked_at(records, found.theta, *rest, 121.0) is None


@pytest.mark.in_turn
def test_what_a_free_form_loss_has_without_features_is_an_intercept():
    corrected, noised = in_rare_columns(np.array([0.0, -3.0, -1.5]), seed=39, records=20_000, fit_intercept=True)
    with pytest.warns(sd.exceptions.VarianceWarning, match=SAID):
        fit = sd.m_estimate(corrected, noised.X, noised.y)
    said = "with other parameters up to .* times as long and c to suit .* no end at all where c takes part"
    # It stands wherever it was declared.
    with pytest.warns(sd.exceptions.VarianceWarning, match=said):
        found = sd.m_estimate(free_form(A * X1 + B * X2 + C, (C, A, B), noised), noised.X, noised.y)
    np.testing.assert_allclose(found.theta, fit.theta[[2, 0, 1]], rtol=1e-6)
    np.testing.assert_array_equal(found.inference.intercepts, [True, False, False])
    assert found.inference.outward == pytest.approx(fit.inference.outward, rel=0.1)
    np.testing.assert_array_equal(found.confidence_interval()[0], [-np.inf, np.inf])


def test_a_free_form_loss_without_a_linear_score_is_looked_at():
    truth, rng = np.array([2.5, -1.5, 0.8]), np.random.default_rng([13, 14])
    binary = (rng.random((3_000, 3)) < 0.1) / 0.3
    X = math.sqrt(1 - 0.95**2) * binary[:, :2] + 0.95 * binary[:, 2:]
    chance = ndtr(np.column_stack([X, X[:, 0] * X[:, 1]]) @ truth)
    y = np.where(rng.random(len(X)) < chance, 1.0, -1.0)
    release = sd.Release(None, target=sd.RandomizedResponse(1.5), noiseless=("x1", "x2"))
    noised = release.privatize(X, y, random_state=13)
    corrected = free_form(A * X1 + B * X2 + C * X1 * X2, (A, B, C), noised)
    with pytest.warns(sd.exceptions.VarianceWarning, match=SAID):
        fit = sd.m_estimate(corrected, noised.X, noised.y)
    low, high = fit.confidence_interval().T
    assert np.all((low <= truth) & (truth <= high))
    assert fit.inference.intercepts is None
    # By hand: s theta, in steps of half of it, is within so many standard errors of a root of its own score.
    scores = []
    for times in (1.5, 2.0, 3.0, 5.0):
        along = corrected.gradient(times * fit.theta, noised.X, noised.y) @ fit.theta
        scores.append(along.mean() / math.sqrt((along**2).mean() / len(X)))
    assert fit.inference.outward == pytest.approx(max(scores), abs=0.1)


def two_probits(seed, *, fit_intercept=False):
    """Two probits of four labels, which are noised, in rare columns that go together."""
    parts = [of_margin(first * U) + of_margin(second * V) for first in (-1, 1) for second in (-1, 1)]
    expression = sp.Piecewise(*((part, sp.Eq(Y, label)) for label, part in enumerate(parts[:3])), (parts[3], True))
    loss = sd.Loss(expression, score=(U, V), target=Y, target_values=(0, 1, 2, 3))
    truth = np.array([[2.6, -1.5, -0.7], [1.2, 0.8, 0.3]])[:, : 2 + fit_intercept]
    rng = np.random.default_rng([seed, 16])
    binary = (rng.random((2_000, 3)) < 0.1) / 0.3
    X = math.sqrt(1 - 0.95**2) * binary[:, :2] + 0.95 * binary[:, 2:]
    rows = np.column_stack([X, np.ones(len(X))])[:, : 2 + fit_intercept]
    y = (rng.random((len(X), 2)) < ndtr(rows @ truth.T)) @ np.array([2, 1])
    target = sd.RandomizedResponse(2.0, categories=(0, 1, 2, 3))
    release = sd.Release(None, target=target, noiseless=("x1", "x2"), fit_intercept=fit_intercept)
    return sd.debias(loss, release), release.privatize(X, y, random_state=seed)


def with_a_word(corrected, noised):
    with pytest.warns(sd.exceptions.VarianceWarning, match=SAID):
        return sd.m_estimate(corrected, noised.X, noised.y), noised


def farthest_score(fit, X, y, directions):
    """The largest score statistic by hand: slopes longer, intercepts at their minimum in some directions."""
    theta = fit.theta.ravel()
    count, width = fit.theta.shape
    intercepts = np.arange(count) * width + width - 1
    slopes = theta.copy()
    slopes[intercepts] = 0.0
    metric = released_moments(fit.corrected.records(X, y))
    beside = np.eye(len(theta))[:, intercepts] @ directions
    outwards = slopes - beside @ np.linalg.solve(beside.T @ metric @ beside, beside.T @ metric @ slopes)
    length = math.sqrt(outwards @ metric @ outwards)
    projected = metric @ outwards - metric @ beside @ np.linalg.solve(
        beside.T @ metric @ beside, beside.T @ metric @ outwards
    )
    step = max(0.5, 2 * math.sqrt(projected @ fit.covariance @ projected) / length**2)
    found = []
    for times in (1.0, 2.0, 4.0, 8.0):
        at = theta + times * step * outwards
        for _ in range(50):
            hessian = fit.corrected.mean_hessian(at.reshape(count, width), X, y).reshape(len(theta), len(theta))
            gradient = fit.corrected.mean_gradient(at.reshape(count, width), X, y).ravel()
            at = at - beside @ np.linalg.solve(beside.T @ hessian @ beside, beside.T @ gradient)
        assert np.all(np.linalg.eigvalsh(beside.T @ hessian @ beside) > 0)
        direction = outwards - beside @ np.linalg.solve(beside.T @ hessian @ beside, beside.T @ hessian @ outwards)
        along = fit.corrected.gradient(at.reshape(count, width), X, y).reshape(len(X), -1) @ direction
        found.append(along.mean() / math.sqrt((along**2).mean() / len(X)))
    return max(found)


@pytest.mark.in_turn
def test_several_scores_are_longer_together():
    fit, _ = with_a_word(*two_probits(7))
    low, high = fit.confidence_interval()[..., 0], fit.confidence_interval()[..., 1]
    assert np.all((low == -np.inf) | (high == np.inf))
    assert fit.inference.intercepts is None
    fit, noised = with_a_word(*two_probits(7, fit_intercept=True))
    assert "and intercepts to suit" in fit.summary()
    np.testing.assert_array_equal(fit.inference.intercepts, [False, False, True] * 2)
    assert np.isinf(fit.confidence_interval()[:, 2]).all()
    X, y = np.asarray(noised.X), np.asarray(noised.y)
    assert fit.inference.outward == pytest.approx(max(0.0, farthest_score(fit, X, y, np.eye(2))), abs=0.05)


def in_a_noised_column(loss, labels, seed=2):
    """Records of strong signals in a column that is noised and one that is not, with an intercept."""
    rng = np.random.default_rng([seed, 21])
    X = np.column_stack([np.where(rng.random(600) < 0.5, 1.0, -1.0), rng.normal(size=600)])
    is_second = rng.random(len(X)) < expit(X @ [3.0, 1.5] + 1.0)
    target = sd.RandomizedResponse(1.0, categories=labels)
    release = sd.Release({"x1": sd.RandomizedResponse(1.0)}, target=target, noiseless=("x2",), fit_intercept=True)
    noised = release.privatize(X, np.array(labels)[is_second.astype(int)], random_state=seed)
    return sd.debias(loss, release).records(noised.X, noised.y)


@pytest.mark.in_turn
def test_softmax_of_two_labels_is_told_what_the_log_loss_is():
    """Its intercepts keep their sum: along that of both their scores have neither a curvature nor a spread."""
    theta, covariance = np.array([2.0, 1.0, 0.7]), np.diag([0.3, 0.05, 0.1])
    one = in_a_noised_column(sd.losses.logistic(), (-1, 1))
    rest = np.zeros(3), released_moments(one), covariance, 5.0
    largest, note = looked_at(one, theta, *rest)
    assert 0.2 < largest < 1.96
    two = in_a_noised_column(sd.losses.softmax(2), (0, 1)).completing(np.zeros(6))
    turned = np.kron([[1.0, -1.0], [-1.0, 1.0]], covariance / 4)
    both = np.concatenate([-theta, theta]) / 2
    found, said = looked_at(two, both, np.zeros(6), released_moments(two), turned, 5.0)
    assert found == pytest.approx(largest, rel=1e-8)
    assert said == note.replace("an intercept takes part", "intercepts take part").replace("an intercept", "intercepts")


def test_labels_that_are_noised_beside_a_curvature_without_them_are_not_looked_at():
    """What is convex stays so, and each parameter has its score test: as of the log loss, so of softmax."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(2_000, 2))
    scores = X @ np.array([[3.0, -1.0], [-1.0, 2.0], [-2.0, -1.0]]).T
    y = np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)
    release = sd.Release(None, target=sd.RandomizedResponse(1.5, categories=(0, 1, 2)), noiseless=("x1", "x2"))
    noised = release.privatize(X, y, random_state=3)
    records = sd.debias(sd.losses.softmax(3), release).records(noised.X, noised.y)
    assert not records.has_noisy_curvature
    assert two_probits(0)[0].records(noised.X, noised.y).has_noisy_curvature
    assert in_a_noised_column(sd.losses.softmax(2), (0, 1)).has_noisy_curvature


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
