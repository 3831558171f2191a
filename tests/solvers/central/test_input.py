"""Input perturbation as a solver: its scales, its guarantees, what it reveals, and what it refuses."""

import importlib
import math
import warnings

import gradient_moments
import numpy as np
import pytest
import sympy as sp
from scipy import stats

import symdebias as sd
from symdebias._domains import RADIUS
from symdebias.exceptions import ClippingWarning, DivergenceError, InferenceError, NoExactCorrectionError
from symdebias.privacy import Guarantee, analytic_gaussian_epsilon, input_perturbation_scales

TRUE = np.array([0.6, -0.3])
OPTIONS = {
    "epsilon": 1.0, "delta": 0.01, "adjacency": "replace-one", "radius": 1.0, "record_radius": 1.0,
    "target_bounds": (-1, 1), "random_state": 0,
}  # fmt: skip
LEAST_SQUARES = sd.losses.least_squares()


def problem(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, 2)) / math.sqrt(2)
    return X, np.clip(X @ TRUE + 0.1 * rng.normal(size=n), -1, 1)


X, Y = problem(20_000)
LABELS = np.where(Y > 0, 1.0, -1.0)
FIT = sd.input_perturbation(LEAST_SQUARES, X, Y, **OPTIONS)


def test_the_scales_and_the_guarantees():
    """By hand: lambda 1, zeta 2, P 1 at eta = R = 1 and targets in [-1, 1]."""
    found = FIT.diagnostics
    bounds = [found[name] for name in ("curvature_bound", "lipschitz_bound", "p_bound")]
    np.testing.assert_allclose(bounds, [1.0, 2.0, 1.0], rtol=1e-14)
    sigma_u, sigma_b = input_perturbation_scales(20_000, 2, epsilon=1.0, delta=0.01, lipschitz=2.0, curvature=1.0)
    np.testing.assert_allclose([found["sigma_u"], found["sigma_b"]], [sigma_u, sigma_b], rtol=1e-14)
    mechanism = found["mechanism"]
    assert mechanism.q_scale**2 * 20_000 == pytest.approx(sigma_u**2, rel=1e-12)
    assert mechanism.p_scale**2 * 20_000 == pytest.approx(sigma_b**2, rel=1e-12)
    assert (mechanism.q_bound, mechanism.p_bound, mechanism.dimension) == (1.0, 1.0, 2)
    sensitivity = math.sqrt(20_000 * ((2 / sigma_u) ** 2 + (2 / sigma_b) ** 2))
    assert FIT.own_guarantee.epsilon == pytest.approx(analytic_gaussian_epsilon(0.01, 1.0, sensitivity), rel=1e-9)
    assert FIT.own_guarantee == mechanism.guarantee
    assert (FIT.own_guarantee.model, FIT.own_guarantee.adjacency) == ("local", "replace-one")
    assert FIT.claim == Guarantee(1.0, 0.01, "central", "replace-one")
    assert "does not hold" in FIT.claim.basis
    c = math.sqrt(2 * math.log(1.25 / 0.01))
    epsilon, delta = found["claimed_local"]
    assert epsilon == pytest.approx(2 * c * math.sqrt(20_000) * (1 / sigma_u + 2 / sigma_b), rel=1e-12)
    assert delta == 0.02
    # The classical formula beyond epsilon 1 is far below the exact epsilon: two records refute it.
    assert FIT.own_guarantee.epsilon > 10 * epsilon
    exact = stats.norm.cdf(sensitivity / 2 - epsilon / sensitivity) - math.exp(
        epsilon + stats.norm.logcdf(-sensitivity / 2 - epsilon / sensitivity)
    )
    assert exact > 0.999


def test_what_a_fit_says():
    found = FIT.diagnostics
    assert (found["records"], found["steps"], found["seeded"], found["server"]) == (20_000, 1, True, "ridge")
    assert (found["regularisation"], found["expansion"], found["alpha"]) == (2.02, "none", 1.0)
    assert found["regularisation_sent"] == pytest.approx(0.02)
    assert found["seconds"] > 0
    text = FIT.summary()
    for words in ("input_perturbation: least_squares", "(local, replace-one)", "claimed", "not proved", "seed"):
        assert words in text
    assert FIT.theta.flags.writeable is False
    with pytest.raises(InferenceError, match='server="corrected"'):
        FIT.confidence_interval()
    np.testing.assert_array_equal(FIT.theta, sd.input_perturbation(LEAST_SQUARES, X, Y, **OPTIONS).theta)
    fresh = sd.input_perturbation(LEAST_SQUARES, X, Y, **{**OPTIONS, "random_state": None})
    assert not fresh.diagnostics["seeded"]
    assert (fresh.theta != FIT.theta).all()


def test_only_noised_numbers_depend_on_the_records():
    """Two data sets of one size: everything but theta and what the server found is equal."""
    other = sd.input_perturbation(LEAST_SQUARES, -X / 3, np.zeros(len(X)), **OPTIONS)
    private = {"seconds", "on_ball", "multiplier", "shrinkage"}
    for name, value in FIT.diagnostics.items():
        if name not in private:
            assert other.diagnostics[name] == value, name
    assert other.own_guarantee == FIT.own_guarantee
    assert other.claim == FIT.claim


def test_what_contributors_send_is_what_the_guarantee_covers():
    """Every record and its worst neighbour: the change in units of the noise is at most that of the guarantee."""
    mechanism, quadratic = FIT.diagnostics["mechanism"], sd.quadratic.as_quadratic(LEAST_SQUARES)
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(300, 2))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    targets = rng.choice([-1.0, 1.0, 0.3], size=300)
    scales = np.repeat([mechanism.q_scale, mechanism.p_scale], 2)
    vectors = [np.concatenate(quadratic.vectors(sign * rows, targets), axis=1) for sign in (1, -1)]
    first, second = (mechanism.clip(part).values / scales for part in vectors)
    changes = np.linalg.norm(first[:, None] - second[None], axis=2)
    declared = math.hypot(2 / mechanism.q_scale, 2 / mechanism.p_scale)
    assert changes.max() <= declared * (1 + 1e-12)
    assert changes.max() >= declared * (1 - 1e-12)
    assert analytic_gaussian_epsilon(0.01, 1.0, declared) <= FIT.own_guarantee.epsilon * (1 + 1e-9)


def test_clipping_is_the_mechanisms_own(monkeypatch):
    """Bounds that a wrong derivation would give too small still bind what is sent."""
    seen = []
    add_noise = sd.InputPerturbation.add_noise
    monkeypatch.setattr(
        sd.InputPerturbation, "add_noise", lambda self, clipped, source: seen.append(clipped.values)
        or add_noise(self, clipped, source),
    )  # fmt: skip
    monkeypatch.setattr(sd.quadratic.QuadraticLoss, "vectors", lambda self, X, y: (9 * X, 9 * X))
    sd.input_perturbation(LEAST_SQUARES, X[:500], Y[:500], **OPTIONS)
    (values,) = seen
    assert np.linalg.norm(values[:, :2], axis=1).max() <= 1
    assert np.linalg.norm(values[:, 2:], axis=1).max() <= 1


def test_blocks_do_not_matter_to_the_law(monkeypatch):
    # Its function has the name of the module.
    monkeypatch.setattr(importlib.import_module("symdebias.solvers.central.input"), "_BLOCK", 333)
    blocks = sd.input_perturbation(LEAST_SQUARES, X, Y, **OPTIONS)
    # One stream of numbers, cut elsewhere.
    np.testing.assert_allclose(blocks.theta, FIT.theta, rtol=1e-9)


def test_it_finds_the_parameters_with_many_records():
    """Noise of sigma_b/n per component of mean p over a curvature of 1/6: .0043 at n 20,000; six of these."""
    fit = sd.input_perturbation(LEAST_SQUARES, X, Y, **{**OPTIONS, "random_state": None})
    shrunk = np.linalg.solve(X.T @ X / 20_000 + 2 * np.eye(2) / 20_000, X.T @ Y / 20_000)
    assert np.all(np.abs(fit.theta - shrunk) < 6 * (14.4 / 20_000) / (1 / 6) + 6e-4)


def test_the_ball_and_the_regularisation():
    short = sd.input_perturbation(LEAST_SQUARES, X, Y, **{**OPTIONS, "radius": 0.2})
    assert np.linalg.norm(short.theta) == pytest.approx(0.2, rel=1e-12)
    assert short.diagnostics["on_ball"]
    assert short.diagnostics["lipschitz_bound"] == pytest.approx(1.2)
    assert short.diagnostics["multiplier"] > 0
    strong = sd.input_perturbation(LEAST_SQUARES, X, Y, **OPTIONS, regularisation=20_000.0)
    assert strong.diagnostics["regularisation_sent"] == 20_000.0 - 2.0
    # The curvature 1/6 + 1 in place of 1/6.
    np.testing.assert_allclose(strong.theta, TRUE / 7, atol=0.01)


def test_a_fit_that_is_shrunk_says_by_how_much():
    """True q have the curvatures 1/6 and 1/600, and both stand beside the noise and the ridge that is sent."""
    columns = X * [1.0, 0.1]
    fit = sd.input_perturbation(LEAST_SQUARES, columns, Y, **{**OPTIONS, "radius": 10.0}, regularisation=200.0)
    ridge = (fit.diagnostics["sigma_u"] ** 2 + 198.0) / 20_000
    curvatures = np.diag(columns.T @ columns) / 20_000
    np.testing.assert_allclose(fit.diagnostics["shrinkage"], ridge / (curvatures + ridge), rtol=0.1)
    assert f"act as l2={ridge:.3g} would" in fit.summary()
    shares = fit.theta / np.linalg.lstsq(columns, Y)[0]
    assert shares[0] > 0.85 > 0.5 > shares[1]
    # In units in which the published scales are large beside the records nothing is left.
    large = sd.input_perturbation(LEAST_SQUARES, X * 1e5, Y, **{**OPTIONS, "radius": 1e-4, "record_radius": 1e5})
    assert large.diagnostics["shrinkage"][0] > 0.95
    assert np.linalg.norm(large.theta) < 0.1 * np.linalg.norm(TRUE) / 1e5
    assert "short of the minimum" in large.summary()
    # A little is not worth a word.
    assert FIT.diagnostics["shrinkage"][1] < 0.01
    assert not FIT.notes


def test_alpha_scales_the_budget_of_the_scales():
    half = sd.input_perturbation(LEAST_SQUARES, X, Y, **OPTIONS, alpha=0.5)
    same = sd.input_perturbation(LEAST_SQUARES, X, Y, **{**OPTIONS, "epsilon": 0.5})
    assert half.diagnostics["alpha"] == 0.5
    assert half.diagnostics["sigma_u"] == same.diagnostics["sigma_u"] > FIT.diagnostics["sigma_u"]
    assert half.claim.epsilon == 0.5
    assert half.own_guarantee.epsilon < FIT.own_guarantee.epsilon
    np.testing.assert_array_equal(half.theta, same.theta)


def test_an_intercept_counts_in_the_bounds():
    fit = sd.input_perturbation(LEAST_SQUARES, X, np.clip(Y + 0.2, -1, 1), **OPTIONS, fit_intercept=True)
    assert fit.theta.shape == (3,)
    found = fit.diagnostics
    # ||(x, 1)|| <= sqrt(2), rounded up.
    assert (found["curvature_bound"], found["p_bound"]) == pytest.approx((2.0, math.sqrt(2)), rel=1e-15)
    assert found["curvature_bound"] >= 2.0
    assert fit.theta[2] == pytest.approx(0.2, abs=0.05)
    assert fit.corrected.release.fit_intercept


def test_the_log_loss_by_its_named_expansion():
    with pytest.raises(NoExactCorrectionError, match='expansion="taylor"'):
        sd.input_perturbation(sd.losses.logistic(), X, LABELS, **{**OPTIONS, "target_bounds": None})
    options = {**OPTIONS, "target_bounds": None, "expansion": "taylor", "radius": 5.0}
    fit = sd.input_perturbation(sd.losses.logistic(), X, LABELS, **options)
    assert fit.diagnostics["expansion"] == "second order at 0"
    assert "logistic, expanded to second order at 0" in fit.summary()
    assert (fit.diagnostics["curvature_bound"], fit.diagnostics["lipschitz_bound"]) == (0.25, 1.75)
    # The minimum of mean (u^2/8 - y u/2), the noise of p some .02 away.
    wanted = np.linalg.solve(X.T @ X / 4, X.T @ LABELS / 2)
    np.testing.assert_allclose(fit.theta, wanted, atol=0.15)
    mean = fit.corrected.mean_loss(fit.theta, X, LABELS)
    assert mean == pytest.approx(np.mean(math.log(2) - LABELS * (X @ fit.theta) / 2 + (X @ fit.theta) ** 2 / 8))


def test_a_free_form_loss_with_bounds_of_features():
    x1, x2, t1, t2, y = sp.symbols("x1 x2 t1 t2 y", real=True)
    loss = sd.Loss.of_features(
        (t1 * x1**2 + t2 * x2 - y) ** 2, features=[x1, x2], parameters=[t1, t2], target=y, name="parabola"
    )
    options = {**OPTIONS, "record_radius": None, "feature_bounds": [(-1, 1), (0, 1)], "radius": 3.0}
    rng = np.random.default_rng(0)
    rows = np.stack([rng.uniform(-1, 1, 50_000), rng.uniform(0, 1, 50_000)], axis=1)
    target = np.clip(0.5 * rows[:, 0] ** 2 - 0.4 * rows[:, 1], -1, 1)
    fit = sd.input_perturbation(loss, rows, target, **options)
    # ||q||^2 = 2 (x1^4 + x2^2) <= 4 and ||p|| = 2 |y| (x1^4 + x2^2)^.5 <= 2 sqrt(2).
    assert fit.diagnostics["curvature_bound"] == pytest.approx(4.0)
    assert fit.diagnostics["p_bound"] == pytest.approx(2 * math.sqrt(2))
    assert fit.diagnostics["lipschitz_bound"] == pytest.approx(12 + 2 * math.sqrt(2))
    # Curvatures of 2 E x1^4 - ... about .2, noise of 106/50,000 on mean p.
    np.testing.assert_allclose(fit.theta, [0.5, -0.4], atol=0.08)
    with pytest.warns(ClippingWarning, match="outside feature_bounds"):
        sd.input_perturbation(loss, 2 * rows, target, **options)
    cube = sd.input_perturbation(loss, rows / 2, target, **{**OPTIONS, "radius": 3.0})
    assert cube.diagnostics["curvature_bound"] == pytest.approx(4.0)
    with pytest.raises(ValueError, match="one of"):
        sd.input_perturbation(loss, rows, target, **{**options, "record_radius": 1.0})
    with pytest.raises(ValueError, match="intercept"):
        sd.input_perturbation(loss, rows, target, **options, fit_intercept=True)


def test_records_outside_the_bounds_are_brought_inside():
    with pytest.warns(ClippingWarning, match="record_radius"):
        sd.input_perturbation(LEAST_SQUARES, 5 * X, Y, **OPTIONS)
    with pytest.warns(ClippingWarning, match="target_bounds"):
        sd.input_perturbation(LEAST_SQUARES, X, 5 * Y, **OPTIONS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ClippingWarning)
        far = sd.input_perturbation(LEAST_SQUARES, np.r_[X, [[1e9, 1e9]]], np.r_[Y, 1e9], **OPTIONS)
    assert np.linalg.norm(far.theta) <= 1 + 1e-12


# ---- the corrected server --------------------------------------------------------------------------------


def test_the_corrected_server_has_standard_errors_and_no_claim():
    """Standard errors against the closed form, from fresh noise: 3% off is seen.

    From draw to draw of the noise they vary by .45%, so that 2.5% are 5.5 standard deviations (false alarms 1e-7).
    """
    fit = sd.input_perturbation(LEAST_SQUARES, X, Y, **{**OPTIONS, "random_state": None}, server="corrected")
    assert fit.claim is None
    assert fit.own_guarantee == FIT.own_guarantee
    assert "regularisation" not in fit.diagnostics
    assert np.all(np.abs(fit.theta - TRUE) < 6 * fit.standard_errors)
    ends = fit.confidence_interval(0.99)
    assert ends.shape == (2, 2)
    assert "sandwich" in fit.summary()
    np.testing.assert_allclose(fit.standard_errors, exact_errors(X, Y, fit.diagnostics["mechanism"]), rtol=0.025)


def exact_errors(rows, target, mechanism):
    best, share = np.linalg.lstsq(rows, target, rcond=None)[0], np.full(len(target), 1 / len(target))
    moments = gradient_moments.quadratic(
        rows, rows * target[:, None], share, best, mechanism.q_scale**2, mechanism.p_scale**2
    )
    return np.sqrt(np.diag(gradient_moments.covariance(moments, best)) / len(target))


@pytest.mark.in_turn
def test_at_the_noise_of_a_local_budget_only_the_corrected_server_is_near():
    """(q, p) at epsilon 4 of their own, 400,000 records: the ridge of the noise halves the plain fit and more."""
    rows, target = problem(400_000, seed=2)
    mechanism = sd.InputPerturbation.from_budget(2, epsilon=4.0, delta=1e-5, q_bound=1.0, p_bound=1.0)
    vectors = sd.quadratic.as_quadratic(LEAST_SQUARES).vectors(rows, target)
    sent = mechanism.privatize(np.concatenate(vectors, axis=1), random_state=0)
    statistics = sd.quadratic.QuadraticStatistics(2, products=True)
    statistics.add(sent[:, :2], sent[:, 2:])
    plain, corrected = statistics.solve(radius=1.0).w, statistics.corrected(mechanism.q_scale**2)
    share = (1 / 6) / (1 / 6 + mechanism.q_scale**2)
    assert share < 0.06
    # Five of its own standard errors.
    np.testing.assert_allclose(plain, share * TRUE, atol=5 * 5e-4)
    assert np.all(np.abs(corrected.theta - TRUE) < 5 * corrected.standard_errors)
    # The matrix is known to 12% only, and the standard errors are those of the matrix that was found: to .3% then.
    _, second = gradient_moments.quadratic(
        *vectors, np.full(len(rows), 1 / len(rows)), corrected.theta, mechanism.q_scale**2, mechanism.p_scale**2
    )
    found = statistics.gram / len(rows) - mechanism.q_scale**2 * np.eye(2)
    exact = np.diag(gradient_moments.covariance((found, second), corrected.theta)) / len(rows)
    np.testing.assert_allclose(corrected.standard_errors, np.sqrt(exact), rtol=0.02)


def test_the_corrected_server_refuses_what_has_no_minimum():
    """All records alike: without noise the matrix has rank one, and the noise leaves it no sign."""
    flat = np.tile([[0.5, 0.5]], (200, 1))
    with pytest.raises(DivergenceError, match="positive definite"):
        sd.input_perturbation(LEAST_SQUARES, flat, np.zeros(200), **{**OPTIONS, "epsilon": 0.01}, server="corrected")


# ---- bad input -------------------------------------------------------------------------------------------

BAD = [
    *[({"radius": value}, "radius") for value in RADIUS.outside()],
    ({"record_radius": None}, "record_radius"),
    *[({"alpha": value}, "alpha") for value in (0.0, -1.0, math.nan, math.inf, "1", None, True, 1e4)],
    *[({"adjacency": value}, "adjacency") for value in ("add-remove",)],
    *[({"server": value}, "server") for value in ("plain", None, 1)],
    *[({"expansion": value}, "expansion") for value in ("none", None, 2)],
    *[({"regularisation": value}, "regularisation") for value in (2.0, 0.0, -1.0, math.nan, math.inf, "9")],
    ({"regularisation": 5.0, "server": "corrected"}, "regularisation belongs to"),
    *[({"target_bounds": value}, "bounds") for value in (None, (1, -1))],
    ({"feature_bounds": [(-1, 1), (-1, 1)]}, "feature_bounds"),
]


@pytest.mark.parametrize(("change", "message"), BAD, ids=str)
def test_arguments_that_are_refused(change, message):
    with pytest.raises((TypeError, ValueError), match=message):
        sd.input_perturbation(LEAST_SQUARES, X[:200], Y[:200], **{**OPTIONS, **change})


def test_the_least_number_of_records_is_enough():
    assert sd.input_perturbation(LEAST_SQUARES, X[:27], Y[:27], **OPTIONS).diagnostics["records"] == 27
    with pytest.raises(ValueError, match=r"n=26 is too small.*from 27 records on"):
        sd.input_perturbation(LEAST_SQUARES, X[:26], Y[:26], **OPTIONS)


def test_a_loss_that_it_is_not_for():
    with pytest.raises(NoExactCorrectionError, match="several scores"):
        sd.input_perturbation(sd.losses.softmax(3), X, Y, **OPTIONS)
    with pytest.raises(ValueError, match="target_values"):
        sd.input_perturbation(sd.losses.squared_margin(), X, LABELS, **{**OPTIONS, "target_bounds": (0, 1)})
    with pytest.raises(ValueError, match="labels"):
        sd.input_perturbation(sd.losses.squared_margin(), X, Y, **{**OPTIONS, "target_bounds": None})
