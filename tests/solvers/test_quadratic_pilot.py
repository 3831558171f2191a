"""The self-consistent quadratic surrogate, and moments of true records."""

import numpy as np
import pytest
from instances import logistic_records, mixed_release

import symdebias as sd
from symdebias.solvers.moments import moments_of

pytestmark = pytest.mark.newest

MEASURED = sd.GaussianMechanism.from_scale(0.8)


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
    release_of = release.privatize(X, y, random_state=1)
    design = release_of.release.design(6)
    corrected = sd.debias(sd.losses.logistic(), release_of.release)
    covariance = corrected.at(6).noise_covariance()
    # Released records have their own reading of categories; the codes of the table are those of the outputs.
    matrix = release_of.release.design_matrix(release_of.X)
    found = moments_of(design, matrix, y, np.zeros(0), covariance)
    rows = np.zeros((n, 9))
    true = release_of.release.true_matrix(X)
    for part in design.linear:
        rows[:, part.parameter] = true[:, part.column]
    for column in design.categorical:
        rows += column.rows(9)[true[:, column.column].astype(int)]
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
    data = sd.Release(MEASURED).privatize(X, y, random_state=1)
    corrected = sd.debias(sd.losses.huber(1e4), data.release, method="surrogate")
    found = sd.quadratic.quadratic_pilot(corrected, data.X, data.y)
    gram = data.X.T @ data.X / n - 0.64 * np.eye(2)
    np.testing.assert_allclose(found.theta, np.linalg.solve(gram, data.X.T @ data.y / n), rtol=1e-8)
    assert found.score_variance == pytest.approx(0.64 * found.theta @ found.theta)
    assert found.signal_variance == pytest.approx(0.09, abs=0.03)
    assert found.records == n
    assert not found.clipped


def test_pilot_is_the_fixed_point_of_the_published_formula():
    """theta = S^-1 m/(4 c2(v)), c2(v) = E[u tanh(u/2)]/(4 v), v = theta'S theta."""
    X, y = logistic_records(50_000, [1.0, -0.5])
    data = sd.Release(MEASURED, sd.RandomizedResponse(epsilon=2.0)).privatize(X, y, random_state=1)
    corrected = sd.debias(sd.losses.logistic(), data.release)
    found = sd.quadratic.quadratic_pilot(corrected, data.X, data.y)
    gram = data.X.T @ data.X / len(y) - 0.64 * np.eye(2)
    mean = data.X.T @ data.y / len(y) / np.tanh(1.0)
    u = np.linspace(-40, 40, 20_001)
    weights = np.exp(-(u**2) / (2 * found.signal_variance))
    c2 = (u * np.tanh(u / 2)) @ weights / weights.sum() / (4 * found.signal_variance)
    np.testing.assert_allclose(found.theta, np.linalg.solve(gram, mean) / (4 * c2), rtol=1e-6)


def test_weights_and_own_noise_scales():
    X, y = logistic_records(4_000, [1.0, -0.5])
    data = sd.Release(MEASURED).privatize(X, y, random_state=1)
    corrected = sd.debias(sd.losses.logistic(), data.release)
    whole = sd.quadratic.quadratic_pilot(corrected, data.X, data.y)
    weights = np.where(np.arange(4_000) < 2_000, 1.0, 0.0)
    half = sd.quadratic.quadratic_pilot(corrected, data.X, data.y, sample_weight=weights)
    alone = sd.quadratic.quadratic_pilot(corrected, data.X[:2_000], data.y[:2_000])
    np.testing.assert_allclose(half.theta, alone.theta, rtol=1e-9)
    assert half.records == pytest.approx(2_000)
    own = sd.quadratic.quadratic_pilot(corrected, data.X, data.y, noise_scale=np.full(4_000, 0.8))
    np.testing.assert_allclose(own.theta, whole.theta, rtol=1e-9)


def test_noise_that_hides_everything_is_clipped_or_refused():
    X, y = logistic_records(300, [1.0, -0.5])
    data = sd.Release(sd.GaussianMechanism.from_scale(6.0)).privatize(X, y, random_state=3)
    corrected = sd.debias(sd.losses.logistic(), data.release)
    outcomes = set()
    for seed in range(12):
        data = sd.Release(sd.GaussianMechanism.from_scale(6.0)).privatize(X, y, random_state=seed)
        least, largest = np.linalg.eigvalsh(data.X.T @ data.X / 300 - 36.0 * np.eye(2))
        if least > 0:
            continue
        if largest > 0:
            assert sd.quadratic.quadratic_pilot(corrected, data.X, data.y, l2=1.0).clipped
            outcomes.add("clipped")
            continue
        with pytest.raises(sd.exceptions.NoExactCorrectionError, match="hides all variation"):
            sd.quadratic.quadratic_pilot(corrected, data.X, data.y)
        outcomes.add("refused")
    assert outcomes == {"clipped", "refused"}


def test_nothing_holds_separated_labels_back():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    corrected = sd.debias(sd.losses.logistic(), sd.Release({("a", "b"): sd.GaussianMechanism.from_scale(0.8)}))
    labels = np.sign(X[:, 0])
    with pytest.raises(sd.exceptions.DivergenceError, match="runs away"):
        sd.quadratic.quadratic_pilot(corrected, X, labels)
    assert sd.quadratic.quadratic_pilot(corrected, X, labels, l2=0.1).theta[0] > 0
    with pytest.raises(TypeError, match=r"what symdebias\.debias returned"):
        sd.quadratic.quadratic_pilot(sd.losses.logistic(), X, labels)


def test_squares_that_overflow_are_named():
    X, y = np.random.default_rng(0).normal(size=(50, 2)), np.arange(50.0)
    corrected = sd.debias(sd.losses.least_squares(), sd.Release(MEASURED))
    far, target = X.copy(), y.copy()
    far[7, 1] = target[9] = 1e200
    for records, named in (((far, y), "X has a value in row 7"), ((X, target), "y has a value in row 9")):
        with pytest.raises(ValueError, match=named):
            sd.quadratic.quadratic_pilot(corrected, *records)
