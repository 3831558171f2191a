"""Known terms of a score: offsets and exposure."""

import numpy as np
import pandas as pd
import pytest
import sympy as sp
from scipy import optimize

import symdebias as sd
from symdebias.losses.offsets import offset_of
from symdebias.solvers import health
from symdebias.solvers.held import holding

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


@pytest.mark.parametrize("weighted", [False, True])
def test_errors_of_penalised_counts_have_the_penalty_of_a_record_by_its_own_weight(weighted):
    # No record has much leverage: those that have are left out one by one.
    rng = np.random.default_rng(0)
    X, offset = rng.uniform(-1, 1, (400, 2)), rng.choice([-2.0, 0.0, 1.5], 400)
    y, penalty = rng.poisson(np.exp(X @ [0.7, -0.5] + 0.2 + offset)), np.diag([1.0, 1.0, 0.0])
    X[:, 0] += NOISE * rng.normal(size=400)
    weights = np.random.default_rng(1).uniform(0.5, 2.0, len(y)) if weighted else np.ones(len(y))
    rows, noise = np.column_stack([X, np.ones(len(y))]), np.diag([NOISE**2, 0.0, 0.0])
    options = {"sample_weight": weights if weighted else None, "offset": offset, "l2": 1.0}
    fit = sd.m_estimate(corrected(), X, y, **options)

    def equations(theta):
        means = np.exp(rows @ theta + offset - theta @ noise @ theta / 2)
        own = means[:, None] * (rows - noise @ theta) - y[:, None] * rows
        return weights[:, None] * (own + penalty @ theta)

    np.testing.assert_allclose(equations(fit.theta).mean(axis=0), 0, atol=1e-7)
    steps = 1e-5 * np.eye(3)
    slopes = [(equations(fit.theta + step) - equations(fit.theta - step)).sum(axis=0) / 2e-5 for step in steps]
    influence = np.linalg.solve(np.array(slopes), equations(fit.theta).T)
    np.testing.assert_allclose(fit.covariance, influence @ influence.T, rtol=1e-4, atol=1e-9)


@pytest.mark.parametrize("weighted", [False, True])
def test_plug_in_errors_of_penalised_counts_have_the_penalty_of_a_record_by_its_own_weight(weighted):
    # The penalty by the exposure makes errors of the slopes smaller by 4 to 8%.
    rng = np.random.default_rng(0)
    X, offset = rng.uniform(-1, 1, (400, 2)), rng.choice([-2.0, 0.0, 1.5], 400)
    y = rng.poisson(np.exp(X @ [0.7, -0.5] + 0.2 + offset))
    X[:, 0] += NOISE * rng.normal(size=400)
    weights = np.random.default_rng(1).uniform(0.5, 2.0, len(y)) if weighted else None
    options = {"sample_weight": weights, "offset": offset, "l2": 3.0}
    steps = {"step_size": 1e-5, "average": True, "random_state": 0}
    root = sd.m_estimate(corrected(), X, y, **options)
    fit = sd.sgd(corrected(), X, y, start=root.theta, covariance="plug-in", **steps, **options)
    np.testing.assert_allclose(fit.standard_errors, root.standard_errors, rtol=1e-3)


@pytest.mark.parametrize("step_size", [0.01, "theory", sd.step_sizes.inverse_time(0.05)])
def test_steps_of_a_given_size_are_as_long_for_penalised_counts_whatever_stands_for_the_offset(step_size):
    # Replicates have exposures as weights.
    X, y, offset = counts()
    weights = np.random.default_rng(1).uniform(0.5, 2.0, len(y))
    offset, common = offset + 1.0, {"batch_size": 10, "epochs": 2, "sample_weight": weights, "random_state": 0}
    setting = {"step_size": step_size, "l2": 2.0}
    trained = sd.sgd(corrected(), X, y, offset=offset, **setting, **common)
    (replicate,) = sd.sgd_replicates(corrected(), X, y, [setting], offset=offset, **common)
    np.testing.assert_allclose(trained.theta, replicate.theta, rtol=1e-9)
    assert np.linalg.norm(trained.theta) > 0.01


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
    with pytest.raises(ValueError, match="this fit has an offset, and its scores are not told without one"):
        sd.evaluation.evaluate(fit, X, y, metric=sd.losses.poisson())
    own = sd.evaluation.evaluate(fit, X, y, metric=sd.losses.poisson(), offset=offset)
    by_hand = np.exp(scores + offset - fit.theta[0] ** 2 * NOISE**2 / 2) - y * (scores + offset)
    np.testing.assert_allclose(own.value, by_hand.mean(), rtol=1e-9)


def test_probabilities_take_the_offset():
    X, y, offset = labelled(300)
    fit = sd.m_estimate(sd.debias(sd.losses.logistic(), BOTH, method="none"), X, y, offset=offset)
    found = fit.predict_proba(X, offset=offset)
    scores = np.column_stack([X, np.ones(len(y))]) @ fit.theta + offset
    np.testing.assert_allclose(found[:, 1], 1 / (1 + np.exp(-scores)), rtol=1e-12)
    np.testing.assert_array_equal(np.where(found[:, 1] > 0.5, 1, -1), fit.predict(X, offset=offset))
    with pytest.raises(ValueError, match=r"has an offset, .* Pass offset=, with zeros"):
        fit.predict_proba(X)


def test_a_saved_fit_remembers_its_offset(tmp_path):
    X, y, offset = counts()
    sd.m_estimate(corrected(), X, y, offset=offset).save(tmp_path / "fit.npz")
    with pytest.raises(ValueError, match="has an offset"):
        sd.Fit.load(tmp_path / "fit.npz").predict(X)


@pytest.mark.compiled
@pytest.mark.parametrize("given", [pd.Series, list, lambda offset: offset.astype("f4").astype(float)])
def test_kinds_of_arrays(given):
    """Compiled, so that both fits are by the same form of the kernels, however many tests went before."""
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
    "no score": ({"offset": np.where(np.arange(FEW) == 3, 1e120, 0.0)}, "offset is 1e.120 in row 3, and no score"),
    "text": ({"offset": ["a"] * FEW}, "offset must hold real numbers"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_offset(name):
    arguments, message = REFUSED[name]
    with pytest.raises((ValueError, TypeError), match=message):
        sd.m_estimate(corrected(), X, Y, **arguments)


@pytest.mark.parametrize("targets", [[[1.0, 2.0], *[[1.0]] * (FEW - 1)], 3.0, None], ids=["ragged", "one", "none"])
def test_targets_that_are_none_are_named_beside_an_offset(targets):
    with pytest.raises((ValueError, TypeError), match=r"^y "):
        sd.m_estimate(corrected(), X, targets, offset=OFFSET)


def test_row_labels_must_agree():
    table = pd.DataFrame(X, columns=["x", "z"])
    turned = pd.Series(OFFSET, index=np.arange(FEW)[::-1])
    with pytest.raises(ValueError, match="offset"):
        sd.m_estimate(corrected(), table, pd.Series(Y), offset=turned)
    fit = sd.m_estimate(corrected(), table, pd.Series(Y), offset=pd.Series(OFFSET))
    for call in (fit.predict, fit.decision_function, lambda X, offset: fit.score(X, Y, offset=offset)):
        with pytest.raises(ValueError, match="X and offset have different row labels"):
            call(table, offset=turned)
    np.testing.assert_array_equal(fit.predict(table, offset=pd.Series(OFFSET)), fit.predict(table, offset=OFFSET))


@pytest.mark.parametrize("name", ["logistic", "negative_binomial", "squared_margin"])
def test_no_other_target_stands_for_an_offset(name):
    assert offset_of(getattr(sd.losses, name)()) is None


def test_losses_without_one_score_have_no_offset():
    with pytest.raises(ValueError, match=r"known term of one score, .* has 3. Fit one class against another"):
        offset_of(sd.losses.softmax(3))
    a, b, y = sp.symbols("a b y", real=True)
    with pytest.raises(ValueError, match=r"has none by name. Declare it as one more feature"):
        offset_of(sd.Loss.of_features((a * b - y) ** 2, features=[a], parameters=[b], target=y))


def test_releases_of_one_vector_have_no_place_for_it():
    joint = sd.Release(sd.LaplaceMechanism(epsilon=2.0, radius=1.0), target="joint", target_bounds=(-1, 1))
    with pytest.raises(ValueError, match="features and target in one vector"):
        sd.m_estimate(sd.debias(sd.losses.least_squares(), joint), X, Y, offset=OFFSET)


# ---- labels, whose offset is a column that is held -------------------------------------------------------

BOTH = sd.Release(
    {"x": sd.GaussianMechanism.from_scale(NOISE)}, sd.RandomizedResponse(3.0), noiseless=("z",), fit_intercept=True
)


def labelled(n=FEW, seed=5):
    """Released columns and labels, and offsets of their scores."""
    rng = np.random.default_rng(seed)
    true, offset = rng.normal(size=(n, 2)), rng.normal(0.3, 0.7, n)
    y = np.where(rng.random(n) < 1 / (1 + np.exp(-(true @ THETA[:2] + THETA[2] + offset))), 1, -1)
    noised = BOTH.privatize(true, y, random_state=seed)
    return noised.X, noised.y, offset


def exponential_gradients(theta, X, y, offset):
    """The slopes of W^-1 B^-1 exp(-y (u + o)), record by record, with both inverses by hand."""
    rows, noise = np.column_stack([X, np.ones(len(y))]), np.diag([NOISE**2, 0.0, 0.0])
    found, gain = 0.0, 1 / np.tanh(3.0 / 2)
    for label in (1, -1):
        share = (1 + gain * label * y) / 2
        value = share * np.exp(-label * (rows @ theta + offset) - theta @ noise @ theta / 2)
        found = found - value[:, None] * (label * rows + noise @ theta)
    return found


def test_the_corrected_equation_of_labels_with_an_offset_by_hand():
    X, y, offset = labelled()
    root = optimize.root(lambda t: exponential_gradients(t, X, y, offset).sum(axis=0), 0 * THETA, tol=1e-12).x
    fit = sd.m_estimate(sd.debias(sd.losses.exponential(), BOTH), X, y, offset=offset)
    assert fit.corrected.is_exact
    np.testing.assert_allclose(fit.theta, root, atol=1e-8)
    assert fit.names == ("x", "z", "intercept")
    assert fit.corrected.release == BOTH
    gradients = exponential_gradients(root, X, y, offset)
    steps = 1e-5 * np.eye(3)
    slopes = [
        (exponential_gradients(root + one, X, y, offset) - exponential_gradients(root - one, X, y, offset)).sum(axis=0)
        for one in steps
    ]
    influence = np.linalg.solve(np.array(slopes) / 2e-5, gradients.T)
    ratio = np.diag(fit.covariance) / np.sum(influence**2, axis=1)
    assert np.all((ratio > 1 - 1e-5) & (ratio < 1.6))


def test_the_noise_of_features_and_labels_leaves_the_loss_at_the_shifted_score():
    """The mean over both noises, by quadrature and enumeration, is the loss of the true record at u + o."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    keep = 1 / (1 + np.exp(-3.0))
    x, offset, theta = np.array([0.4, -1.2]), 0.9, THETA
    for label in (1, -1):
        mean = 0.0
        for seen, chance in ((label, keep), (-label, 1 - keep)):
            X = np.column_stack([x[0] + NOISE * nodes, np.full(40, x[1])])
            found = exponential_gradients(theta, X, np.full(40, seen), np.full(40, offset))
            mean = mean + chance * (weights / weights.sum()) @ found
        row = np.append(x, 1.0)
        np.testing.assert_allclose(mean, -label * np.exp(-label * (row @ theta + offset)) * row, rtol=1e-9)


def test_a_constant_offset_of_labels_moves_the_intercept_and_nothing_else():
    X, y, _ = labelled()
    found = sd.debias(sd.losses.exponential(), BOTH)
    plain, moved = sd.m_estimate(found, X, y), sd.m_estimate(found, X, y, offset=np.full(FEW, 0.7))
    np.testing.assert_allclose(moved.theta, plain.theta - [0, 0, 0.7], atol=1e-7)
    np.testing.assert_allclose(moved.standard_errors, plain.standard_errors, rtol=1e-2)


def test_what_holds_the_other_parameters_leaves_the_offset_alone():
    X, y, offset = labelled()
    found = sd.debias(sd.losses.exponential(), BOTH)
    ball = sd.m_estimate(found, X, y, offset=offset, radius=0.1, start=[0.05, 0.0, 0.0])
    assert np.linalg.norm(ball.theta) == pytest.approx(0.1)
    box = sd.m_estimate(found, X, y, offset=offset, bounds=([-0.1, -0.1, -0.1], [0.1, 0.1, 0.1]))
    assert np.abs(box.theta).max() == pytest.approx(0.1)
    assert box.diagnostics["safeguards"] == ("theta lies on the box of bounds=",)

    def penalised(theta):
        return exponential_gradients(theta, X, y, offset).mean(axis=0) + 0.5 * theta * [1, 1, 0]

    root = optimize.root(penalised, 0 * THETA, tol=1e-12).x
    np.testing.assert_allclose(sd.m_estimate(found, X, y, offset=offset, l2=0.5).theta, root, atol=1e-8)


def test_clusters_weights_and_scales_of_records_go_with_a_held_offset():
    X, y, offset = labelled()
    found = sd.debias(sd.losses.exponential(), BOTH)
    once = sd.m_estimate(found, X, y, offset=offset)
    alone = sd.m_estimate(found, X, y, offset=offset, clusters=np.arange(FEW))
    np.testing.assert_allclose(alone.theta, once.theta, atol=1e-8)
    np.testing.assert_allclose(alone.standard_errors, once.standard_errors, rtol=0.2)
    weighted = sd.m_estimate(found, X, y, offset=offset, sample_weight=np.full(FEW, 3.0))
    np.testing.assert_allclose(weighted.theta, once.theta, atol=1e-8)
    scaled = sd.m_estimate(found, X, y, offset=offset, noise_scale=np.full(FEW, NOISE))
    np.testing.assert_allclose(scaled.theta, once.theta, atol=1e-8)


@pytest.mark.parametrize("release", [BOTH, sd.Release(fit_intercept=True)], ids=["noise", "plain"])
def test_gradients_of_records_have_nothing_of_a_held_offset(release):
    X, y, offset = labelled()
    corrected = sd.debias(sd.losses.exponential(), release)
    _, records = holding(corrected, corrected.records(X, y), offset)
    theta = np.insert(THETA, records.frame.place, 1.0)
    expected = records.gradients(theta, slice(None))
    assert not expected[:, records.frame.place].any()
    slopes, bends, jacobian = records.factored_gradients(theta, by_derivatives=True)
    np.testing.assert_allclose(slopes[:, None] * records.design_rows() + bends.T @ jacobian, expected, atol=1e-12)
    np.testing.assert_allclose(records.plain_gradients(theta), expected, atol=1e-12)


@pytest.mark.parametrize("name", ["logistic", "negative_binomial"])
def test_a_held_offset_without_noise_is_the_minimum_of_the_loss_of_the_shifted_score(name):
    X, y, offset = labelled() if name == "logistic" else counts()
    loss = getattr(sd.losses, name)()
    fit = sd.m_estimate(sd.debias(loss, sd.Release(fit_intercept=True)), X, y, offset=offset)
    value = sp.lambdify((loss.scores[0], loss.target), loss.expression)
    rows = np.column_stack([X, np.ones(FEW)])
    found = optimize.minimize(lambda theta: np.sum(value(rows @ theta + offset, y)), fit.theta, tol=1e-12)
    np.testing.assert_allclose(fit.theta, found.x, atol=2e-5)
    assert fit.names == ("x0", "x1", "intercept")


def test_a_surrogate_is_designed_for_scores_with_their_offsets():
    """Four standard errors of many records; without the offset the slope is a third too small."""
    X, y, offset = labelled(4_000)
    fit = sd.m_estimate(sd.debias(sd.losses.logistic(), BOTH), X, y, offset=3 * offset - 0.6)
    assert fit.corrected.design.radius > 3
    assert fit.corrected.release == BOTH
    assert len(fit.diagnostics["pilot"]["theta"]) == 3
    with pytest.raises(ValueError, match="has an offset"):
        fit.predict(X)
    assert fit.predict(X, offset=offset).shape == (4_000,)


def test_the_curvature_along_a_held_offset_is_no_sign_of_a_lost_fit():
    """Records with large offsets have scores where the loss is level, whatever the parameters."""
    rng = np.random.default_rng([10, 77])
    true, offset = rng.normal(size=(4_000, 2)), 1.5 * rng.normal(size=4_000)
    theta = np.array([0.8, -0.5, 0.2])
    y = np.where(rng.random(4_000) < 1 / (1 + np.exp(-true @ theta[:2] - theta[2] - offset)), 1.0, -1.0)
    release = sd.Release(sd.GaussianMechanism.from_scale(0.5), fit_intercept=True)
    noised = release.privatize(true, y, random_state=int(rng.integers(2**31)))
    fit = sd.m_estimate(sd.debias(sd.losses.logistic(), noised.release), noised.X, noised.y, offset=offset)
    assert np.all(np.abs(fit.theta - theta) < 4 * fit.standard_errors)


@pytest.mark.in_turn
def test_metrics_of_released_records_take_the_offset():
    """Against the metric of true records, within four standard errors; without the offset it is 20 of them off."""
    rng = np.random.default_rng(8)
    true, offset = rng.normal(size=(3_000, 2)), rng.normal(0.3, 1.5, 3_000)
    scores = true @ THETA[:2] + THETA[2] + offset
    y = np.where(rng.random(3_000) < 1 / (1 + np.exp(-scores)), 1, -1)
    noised = BOTH.privatize(true, y, random_state=9)
    given = {"release": BOTH, "offset": offset}
    found = sd.evaluation.evaluate(THETA, noised.X, noised.y, metric="log_loss", **given)
    truth = np.mean(np.logaddexp(0, -y * scores))
    assert abs(found.value - truth) < 4 * found.standard_error
    blind = sd.evaluation.evaluate(THETA, noised.X, noised.y, metric="log_loss", release=BOTH)
    assert abs(blind.value - truth) > 5 * blind.standard_error
    clean = sd.evaluation.evaluate_all(
        THETA, true, y, release=sd.Release(fit_intercept=True), target_values=(-1, 1), offset=offset
    )
    np.testing.assert_allclose(clean.estimates["log_loss"].value, truth, rtol=1e-9)
    np.testing.assert_allclose(clean.estimates["accuracy"].value, np.mean(y * scores > 0), rtol=1e-9)


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


@pytest.mark.parametrize("loss", [sd.losses.poisson(), sd.losses.logistic()], ids=["in targets", "held"])
@pytest.mark.parametrize("solver", [sd.m_estimate, sd.sgd])
def test_no_records_are_named_before_what_goes_with_them(loss, solver):
    corrected = sd.debias(loss, sd.Release(sd.LaplaceMechanism.from_scale(0.1)))
    with pytest.raises(ValueError, match="X is empty"):
        solver(corrected, np.zeros((0, 2)), np.zeros(0), offset=np.zeros(0))


@pytest.mark.parametrize("name", ["poisson", "least_squares", "logistic"])
def test_records_that_are_read_by_blocks(name):
    X, y, offset = counts()
    y = np.where(y > 1, 1.0, -1.0) if name == "logistic" else y.astype(float)
    loss = sd.debias(getattr(sd.losses, name)(), RELEASE)
    blocks = [sd.blocks.Rows(one.shape, lambda rows, one=one: one[rows]) for one in (X, y)]
    fits = [sd.m_estimate(loss, *records, l2=0.1, offset=0.1 * offset) for records in ((X, y), blocks)]
    np.testing.assert_array_equal(fits[1].theta, fits[0].theta)
    np.testing.assert_allclose(fits[1].standard_errors, fits[0].standard_errors, rtol=1e-9)
