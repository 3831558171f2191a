"""The pilot estimate of surrogates, and training in two stages."""

import sys

import numpy as np
import pytest
import sympy as sp
from instances import U, Y, mixed_release

import symdebias as sd
from symdebias.derivation.configurations import entry_rows
from symdebias.solvers import pilot as pilot_module

pytestmark = pytest.mark.newest

MEASURED = sd.GaussianMechanism.from_scale(0.8)


def logistic_records(n, theta, seed=0, *, columns=2):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, columns))
    y = np.where(rng.random(n) < 1 / (1 + np.exp(-X @ theta)), 1.0, -1.0)
    return X, y


def noised(release, X, y, seed=1):
    return release.privatize(X, y, random_state=seed)


def test_moments_are_those_of_the_true_records():
    """Ten standard errors would show a debiasing that is off by 3% in any entry."""
    release = mixed_release(target=sd.RandomizedResponse(epsilon=1.0))
    n = 200_000
    rng = np.random.default_rng(0)
    X = np.column_stack(
        [
            rng.uniform(-0.5, 0.5, (n, 2)), rng.uniform(0, 1, n), rng.choice([-1.0, 1.0], n),
            rng.integers(0, 4, n), rng.uniform(-1, 1, n),
        ]
    )  # fmt: skip
    y = np.where(rng.random(n) < 0.5, -1.0, 1.0)
    release_of = noised(release, X, y)
    design = release_of.release.design(6)
    corrected = sd.debias(sd.losses.logistic(), release_of.release)
    covariance = corrected.noise_covariance(6)
    # Released records have their own reading of categories; the codes of the table are those of the outputs.
    matrix = release_of.release.design_matrix(release_of.X)
    found = pilot_module._moments(design, matrix, y, np.zeros(0), covariance, [], [])
    rows = np.zeros((n, 9))
    true = release_of.release.true_matrix(X)
    for part in design.linear:
        rows[:, part.parameter] = true[:, part.column]
    for column in design.categorical:
        rows += entry_rows(column, 9)[true[:, column.column].astype(int)]
    rows[:, -1] = 1.0
    spread = np.sqrt(np.diag(found.gram[0]) + 5)
    error = np.abs(found.gram[0] - rows.T @ rows / n)
    assert np.all(error < 10 * np.multiply.outer(spread, spread) * 4 / np.sqrt(n))
    np.testing.assert_allclose(found.mean[0], rows.mean(axis=0), atol=10 * 4 / np.sqrt(n))


def test_pilot_of_a_quadratic_problem_is_its_solution():
    """Least squares through the Huber loss with a threshold far out: the debiased normal equations."""
    rng = np.random.default_rng(0)
    n, theta = 20_000, np.array([1.0, -0.5])
    X = rng.normal(size=(n, 2))
    y = X @ theta + 0.3 * rng.normal(size=n)
    data = noised(sd.Release(MEASURED), X, y)
    corrected = sd.debias(sd.losses.huber(1e4), data.release, method="surrogate")
    found = sd.quadratic_pilot(corrected, data.X, data.y)
    gram = data.X.T @ data.X / n - 0.64 * np.eye(2)
    np.testing.assert_allclose(found.theta, np.linalg.solve(gram, data.X.T @ data.y / n), rtol=1e-8)
    assert found.score_variance == pytest.approx(0.64 * found.theta @ found.theta)
    assert found.signal_variance == pytest.approx(0.09, abs=0.03)
    assert found.records == n
    assert not found.clipped


def test_pilot_is_the_fixed_point_of_the_published_formula():
    """theta = S^-1 m/(4 c2(v)), c2(v) = E[u tanh(u/2)]/(4 v), v = theta'S theta."""
    X, y = logistic_records(50_000, [1.0, -0.5])
    data = noised(sd.Release(MEASURED, sd.RandomizedResponse(epsilon=2.0)), X, y)
    corrected = sd.debias(sd.losses.logistic(), data.release)
    found = sd.quadratic_pilot(corrected, data.X, data.y)
    gram = data.X.T @ data.X / len(y) - 0.64 * np.eye(2)
    mean = data.X.T @ data.y / len(y) / np.tanh(1.0)
    u = np.linspace(-40, 40, 20_001)
    weights = np.exp(-(u**2) / (2 * found.signal_variance))
    c2 = (u * np.tanh(u / 2)) @ weights / weights.sum() / (4 * found.signal_variance)
    np.testing.assert_allclose(found.theta, np.linalg.solve(gram, mean) / (4 * c2), rtol=1e-6)
    assert found.radius == pytest.approx(2 * np.sqrt(found.signal_variance))


def test_weights_and_own_noise_scales():
    X, y = logistic_records(4_000, [1.0, -0.5])
    data = noised(sd.Release(MEASURED), X, y)
    corrected = sd.debias(sd.losses.logistic(), data.release)
    whole = sd.quadratic_pilot(corrected, data.X, data.y)
    weights = np.where(np.arange(4_000) < 2_000, 1.0, 0.0)
    half = sd.quadratic_pilot(corrected, data.X, data.y, sample_weight=weights)
    alone = sd.quadratic_pilot(corrected, data.X[:2_000], data.y[:2_000])
    np.testing.assert_allclose(half.theta, alone.theta, rtol=1e-9)
    assert half.records == pytest.approx(2_000)
    own = sd.quadratic_pilot(corrected, data.X, data.y, noise_scale=np.full(4_000, 0.8))
    np.testing.assert_allclose(own.theta, whole.theta, rtol=1e-9)


def test_noise_that_hides_everything_is_clipped_or_refused():
    X, y = logistic_records(300, [1.0, -0.5])
    data = noised(sd.Release(sd.GaussianMechanism.from_scale(6.0)), X, y, seed=3)
    corrected = sd.debias(sd.losses.logistic(), data.release)
    outcomes = set()
    for seed in range(12):
        data = noised(sd.Release(sd.GaussianMechanism.from_scale(6.0)), X, y, seed=seed)
        largest = np.linalg.eigvalsh(data.X.T @ data.X / 300 - 36.0 * np.eye(2)).max()
        if largest > 0:
            assert sd.quadratic_pilot(corrected, data.X, data.y, l2=1.0).clipped
            outcomes.add("clipped")
            continue
        with pytest.raises(sd.exceptions.NoExactCorrectionError, match="hides all variation"):
            sd.quadratic_pilot(corrected, data.X, data.y)
        outcomes.add("refused")
    assert outcomes == {"clipped", "refused"}


def test_a_pilot_that_runs_away_is_refused():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    corrected = sd.debias(sd.losses.logistic(), sd.Release({("a", "b"): sd.GaussianMechanism.from_scale(0.8)}))
    labels = np.sign(X[:, 0])
    with pytest.raises(sd.exceptions.DivergenceError, match="the pilot estimate runs away"):
        sd.sgd(corrected, X, labels, random_state=0)
    assert sd.quadratic_pilot(corrected, X, labels, l2=0.1).theta[0] > 0
    with pytest.raises(TypeError, match=r"what symdebias\.debias returned"):
        sd.quadratic_pilot(sd.losses.logistic(), X, labels)


def test_a_free_form_loss_has_no_pilot():
    x1, a = sp.symbols("x1 a", real=True)
    loss = sd.Loss.of_features(
        sp.log(1 + sp.exp(-Y * a * x1)), features=[x1], parameters=[a], target=Y, target_values=(-1, 1)
    )
    corrected = sd.debias(loss, sd.Release({"x1": MEASURED}))
    with pytest.raises(sd.exceptions.NoExactCorrectionError, match="no pilot estimate"):
        sd.sgd(corrected, np.zeros((5, 1)), np.ones(5))


# ---- two stages --------------------------------------------------------------------------------------------


@pytest.mark.exhaustive
@pytest.mark.parametrize("loss", ["logistic", pytest.param("squared_hinge", marks=pytest.mark.exhaustive)])
def test_training_resolves_the_surrogate(loss):
    """Logistic regression under feature and label noise: within 5 standard errors, the naive fit far off."""
    theta = np.array([2.0, -1.0])
    X, y = logistic_records(200_000, theta)
    data = noised(sd.Release(MEASURED, sd.RandomizedResponse(epsilon=2.0)), X, y)
    corrected = sd.debias(getattr(sd.losses, loss)(), data.release)
    options = {"step_size": 0.5, "batch_size": 10_000, "epochs": 30, "average": 0.5, "random_state": 0}
    fit = sd.sgd(corrected, data.X, data.y, **options)
    assert fit.corrected.is_resolved
    assert not corrected.is_resolved
    assert fit.diagnostics["stages"] >= 1
    assert fit.diagnostics["pilot"]["theta"].shape == (2,)
    reference = theta
    if loss == "squared_hinge":
        clean = sd.debias(sd.losses.squared_hinge(), sd.Release(noiseless=("a", "b")), method="none")
        reference = sd.sgd(clean, X, y, **options).theta
    assert np.linalg.norm(fit.theta - reference) < 0.12 * np.linalg.norm(reference)
    plain = sd.debias(getattr(sd.losses, loss)(), data.release, method="none")
    naive = sd.sgd(plain, data.X, data.y, **options)
    assert np.linalg.norm(naive.theta - reference) > 0.4 * np.linalg.norm(reference)
    assert fit.certificate.loss_bias < 0.1
    assert "surrogate (biased)" in fit.summary()
    assert "surrogate    for |score| <= " in fit.summary()


def test_a_resolved_surrogate_is_trained_as_it_is():
    X, y = logistic_records(2_000, [1.0, 0.5])
    data = noised(sd.Release(MEASURED, sd.RandomizedResponse(epsilon=2.0)), X, y)
    resolved = sd.debias(sd.losses.logistic(), data.release, radius=2.0, score_variance=0.8, n=2_000)
    fit = sd.sgd(resolved, data.X, data.y, step_size=0.1, epochs=5, random_state=0)
    assert fit.corrected is resolved
    assert "pilot" not in fit.diagnostics


def test_start_and_radius_are_the_users():
    X, y = logistic_records(2_000, [1.0, 0.5])
    data = noised(sd.Release(MEASURED, sd.RandomizedResponse(epsilon=2.0)), X, y)
    corrected = sd.debias(sd.losses.logistic(), data.release)
    fit = sd.sgd(corrected, data.X, data.y, step_size=0.1, radius=0.3, start=[0.1, 0.1], record=1, random_state=0)
    np.testing.assert_allclose(fit.history.theta[0], [0.1, 0.1])
    assert np.linalg.norm(fit.theta) <= 0.3 + 1e-9
    assert fit.diagnostics["stages"] == 1
    again = sd.sgd(corrected, data.X, data.y, step_size=0.1, radius=0.3, start=[0.1, 0.1], record=1, random_state=0)
    np.testing.assert_array_equal(fit.theta, again.theta)


@pytest.mark.exhaustive
def test_a_fit_with_an_intercept_and_mixed_columns():
    rng = np.random.default_rng(5)
    n = 100_000
    theta = np.array([1.0, -1.0, 0.8, 0.4])
    X = np.column_stack([rng.uniform(-1, 1, (n, 2)), rng.choice([-1.0, 1.0], n)])
    y = np.where(rng.random(n) < 1 / (1 + np.exp(-X @ theta[:3] - theta[3])), 1.0, -1.0)
    release = sd.Release(
        {"a": sd.GaussianMechanism.from_scale(0.5), "b": sd.LaplaceMechanism.from_scale(0.4),
         "c": sd.RandomizedResponse(epsilon=2.0)},
        sd.RandomizedResponse(epsilon=2.0), fit_intercept=True,
    )  # fmt: skip
    data = noised(release, X, y)
    corrected = sd.debias(sd.losses.logistic(), data.release, method="surrogate")
    fit = sd.sgd(corrected, data.X, data.y, step_size=0.5, batch_size=5_000, epochs=20, average=0.5, random_state=0)
    # One standard error is about .03.
    np.testing.assert_allclose(fit.theta, theta, atol=0.15)


def test_a_warning_points_at_the_caller(monkeypatch):
    monkeypatch.setattr(sys.modules["symdebias.solvers.records"], "_MUCH_INFLATION", 1.5)
    X, y = logistic_records(20_000, [1.0, 0.5])
    data = noised(sd.Release(sd.GaussianMechanism.from_scale(2.0), sd.RandomizedResponse(epsilon=2.0)), X, y)
    corrected = sd.debias(sd.losses.logistic(), data.release)
    with pytest.warns(sd.exceptions.VarianceWarning) as caught:
        sd.sgd(corrected, data.X, data.y, step_size=1e-3, random_state=0)
    assert caught[0].filename == __file__
    assert len(caught) == 1


@pytest.mark.exhaustive
def test_residual_losses_train_in_two_stages():
    rng = np.random.default_rng(0)
    n, theta = 50_000, np.array([1.0, -0.5])
    X = rng.uniform(-1, 1, (n, 2))
    y = X @ theta + 0.3 * rng.standard_t(3, size=n)
    data = noised(sd.Release(sd.GaussianMechanism.from_scale(0.5), sd.GaussianMechanism.from_scale(0.3)), X, y)
    corrected = sd.debias(sd.losses.huber(0.5), data.release)
    fit = sd.sgd(corrected, data.X, data.y, step_size=0.3, batch_size=5_000, epochs=30, average=0.5, random_state=0)
    np.testing.assert_allclose(fit.theta, theta, atol=0.06)
    assert fit.corrected.surrogate_parts.variable != U
