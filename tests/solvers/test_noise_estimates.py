"""Standard errors of fits under noise that was estimated."""

import runpy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import symdebias as sd
from symdebias.exceptions import InferenceError
from symdebias.mechanisms import GaussianMechanism

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "estimated_noise.py"
PAIR = np.array([[0.3, 0.1], [0.1, 0.2]])


def records(n=100, seed=0):
    """Two columns and a target that is linear in them; few records, which run uncompiled."""
    rng = np.random.default_rng(seed)
    X = 2 * rng.normal(size=(n, 2))
    return X, X @ [0.5, -0.3] + 0.2 + 0.5 * rng.normal(size=n)


def fitted(features, X, y, *, loss=None, target=None, **options):
    release = sd.Release(features, target, fit_intercept=True)
    return sd.m_estimate(sd.debias(loss or sd.losses.least_squares(), release), X, y, **options)


def both(estimate, freedom, X, y, **options):
    """Return the fits under known noise and under estimated noise."""
    known = GaussianMechanism.from_scale(estimate) if np.ndim(estimate) == 0 else None
    known = known or GaussianMechanism.from_covariance(estimate)
    error = GaussianMechanism.from_estimate(estimate, freedom)
    plain, found = (fitted({("a", "b"): one}, X, y, **options) for one in (known, error))
    np.testing.assert_array_equal(plain.theta, found.theta)
    return plain, found


def hessian_of(X, noise):
    rows = np.column_stack([X, np.ones(len(X))])
    inner = rows.T @ rows / len(X)
    inner[:2, :2] -= noise
    return inner


def test_the_variance_of_a_common_scale_by_hand():
    """Least squares: d theta/d sigma^2 = H^-1 (theta_1, theta_2, 0), and sigma^2 has an inverse gamma law."""
    X, y = records()
    plain, found = both(0.6, 30, X, y)
    move = np.linalg.solve(hessian_of(X, 0.36 * np.eye(2)), [*found.theta[:2], 0.0])
    added = 0.36**2 * 2 * 30**2 / (28**2 * 26) * np.multiply.outer(move, move)
    np.testing.assert_allclose(found.covariance - plain.covariance, added, rtol=1e-6, atol=1e-12)
    assert "the noise was estimated: up to" in found.summary()
    assert "the noise was estimated" not in plain.summary()


def test_the_variance_of_a_covariance_is_that_of_the_inverse_wishart_law():
    """By simulation of the covariance: 20,000 draws know a standard error to half a per cent."""
    X, y = records()
    freedom = 60
    plain, found = both(PAIR, freedom, X, y)
    # Moves of theta that are linear in the covariance, as the method takes them.
    drawn = stats.invwishart(freedom, freedom * PAIR).rvs(20_000, random_state=0) - PAIR
    moves = np.linalg.solve(hessian_of(X, PAIR)[:2, :2], np.einsum("ijk,k->ij", drawn, found.theta[:2]).T).T
    added = np.sqrt(np.diag(found.covariance - plain.covariance)[:2])
    np.testing.assert_allclose(added, moves.std(axis=0), rtol=0.04)
    # Columns of a diagonal covariance are estimated by themselves.
    plain, found = both(np.diag([0.3, 0.2]), freedom, X, y)
    moves = np.linalg.solve(hessian_of(X, np.diag([0.3, 0.2])), np.diag([*found.theta[:2] * [0.3, 0.2], 0.0])).T
    variance = 2 * freedom**2 / ((freedom - 2) ** 2 * (freedom - 4))
    np.testing.assert_allclose(found.covariance - plain.covariance, variance * moves.T @ moves, rtol=1e-6, atol=1e-12)


@pytest.mark.in_turn
@pytest.mark.parametrize("loss", ["poisson", "exponential"])
@pytest.mark.parametrize("of_each", [False, True])
def test_the_derivative_is_that_of_fits_under_other_noise(loss, of_each):
    X, _ = records()
    rng = np.random.default_rng(1)
    score = X @ [0.3, -0.2]
    y = (
        rng.poisson(np.exp(score))
        if loss == "poisson"
        else np.where(rng.random(len(X)) < 1 / (1 + np.exp(-score)), 1, -1)
    )
    scales = np.linspace(0.2, 0.4, len(X))
    how = {"loss": getattr(sd.losses, loss)(), "l2": 0.01}
    share = 0.02
    moved = []
    for by in (1 + share, 1 - share):
        if of_each:
            own = {"noise_scale": scales * np.sqrt(by)}
            moved.append(fitted(GaussianMechanism.from_scale(0.3), X, y, **own, **how).theta)
        else:
            moved.append(fitted(GaussianMechanism.from_scale(0.3 * np.sqrt(by)), X, y, **how).theta)
    slope = (moved[0] - moved[1]) / (2 * share)
    plain, found = both(0.3, 50, X, y, **({"noise_scale": scales} if of_each else {}), **how)
    added = 2 * 50**2 / (48**2 * 46) * np.multiply.outer(slope, slope)
    np.testing.assert_allclose(found.covariance - plain.covariance, added, rtol=2e-2, atol=1e-7)


def test_the_noise_of_a_target_may_be_estimated_too():
    """Theta of (u - y)^4 depends on the noise of y; that of least squares does not."""
    u, y = sd.losses.least_squares().scores[0], sd.losses.least_squares().target
    X, target = records()
    known, error = GaussianMechanism.from_scale(0.2), GaussianMechanism.from_estimate(0.2, 20)
    names = {"features": {("a", "b"): GaussianMechanism.from_scale(0.1)}}
    quartic = sd.Loss((u - y) ** 4 / 4, score=u, target=y)
    plain, found = (fitted(**names, target=one, X=X, y=target, loss=quartic) for one in (known, error))
    moved = [
        fitted(**names, target=GaussianMechanism.from_scale(0.2 * np.sqrt(by)), X=X, y=target, loss=quartic).theta
        for by in (1.02, 0.98)
    ]
    slope = (moved[0] - moved[1]) / 0.04
    added = 2 * 20**2 / (18**2 * 16) * np.multiply.outer(slope, slope)
    np.testing.assert_allclose(found.covariance - plain.covariance, added, rtol=3e-2, atol=1e-9)
    plain, found = (fitted(**names, target=one, X=X, y=target) for one in (known, error))
    np.testing.assert_allclose(found.covariance, plain.covariance, rtol=1e-9)


def test_where_the_estimate_rests_on_little_intervals_are_by_t_or_refused():
    X, y = records()
    plain, found = both(0.6, 12, X, y)
    total, own = np.diag(found.covariance), np.diag(plain.covariance)
    freedom = np.floor(total**2 / (own**2 / plain.inference.freedom(len(total)) + (total - own) ** 2 / 12))
    assert 10 < freedom.min() < freedom.max() < 100
    assert f"Student's t with {freedom.min():.3g} to {freedom.max():.3g} degrees of freedom" in found.summary()
    share = np.sqrt(own / total)[:, None]
    np.testing.assert_allclose(found.inference.skewness, plain.inference.skewness * share**3, rtol=1e-9)
    without = replace(found.inference, curving=None, skewness=None).interval(found.theta, 0.9)
    width = np.diff(without)[:, 0] / found.standard_errors / 2
    np.testing.assert_allclose(width, stats.t.ppf(0.95, freedom), rtol=1e-9)
    refused = fitted({("a", "b"): GaussianMechanism.from_estimate(0.6, 4)}, X, y)
    with pytest.raises(InferenceError, match="estimated with 4 degrees of freedom, and more than 4 are needed"):
        refused.confidence_interval()


@pytest.mark.in_turn
def test_clusters_sgd_and_uncorrected_losses():
    X, y = records()
    codes = np.arange(len(y)) // 2
    plain, found = both(0.6, 30, X, y, clusters=codes)
    apart, together = both(0.6, 30, X, y)
    np.testing.assert_allclose(found.covariance - plain.covariance, together.covariance - apart.covariance, rtol=1e-9)
    release = sd.Release({("a", "b"): GaussianMechanism.from_estimate(0.6, 30)}, fit_intercept=True)
    naive = sd.debias(sd.losses.least_squares(), release, method="none")
    assert "the noise was estimated" not in sd.m_estimate(naive, X, y).summary()
    corrected = sd.debias(sd.losses.least_squares(), release)
    trained = sd.sgd(corrected, X, y, average=0.5, epochs=40, covariance="plug-in", random_state=0)
    np.testing.assert_allclose(trained.standard_errors, together.standard_errors, rtol=0.1)


def test_scales_of_records_have_no_correlation():
    X, y = records()
    release = sd.Release({("a", "b"): GaussianMechanism.from_estimate(PAIR, 30)})
    with pytest.raises(ValueError, match=r"scales of independent noise, and that of .* is correlated"):
        sd.m_estimate(sd.debias(sd.losses.least_squares(), release), X, y, noise_scale=np.ones(len(X)))
    with pytest.raises(ValueError, match="was estimated from measurements of columns"):
        sd.Release(GaussianMechanism.from_estimate(0.5, 30, radius=1.0), target="margin").in_columns(2)


def test_a_fit_is_kept_with_its_estimate(tmp_path):
    X, y = records()
    _, found = both(0.6, 30, X, y)
    found.save(tmp_path / "fit.npz")
    again = sd.Fit.load(tmp_path / "fit.npz")
    assert again.corrected.release == found.corrected.release
    np.testing.assert_array_equal(again.covariance, found.covariance)


@pytest.mark.exhaustive
def test_intervals_cover_where_200_of_2000_records_were_measured_twice():
    """80 draws know a coverage near 95% to 2.4 points; without the estimate's error it is 65 and 78%."""
    known, stated, share, refused = runpy.run_path(str(BENCHMARK))["coverage"](
        "least_squares", "replicates", 2_000, 200, 80
    )
    assert refused == 0
    assert stated.min() > 0.95 - 3 * 0.025
    assert known[0] < 0.85
    assert 0.7 < share < 0.85


def test_regression_calibration_has_the_same_standard_errors_for_least_squares():
    """Both have the same root; steps of the one are as long as what the estimate is off, 1e-4 in the other."""
    X, y = records()
    release = sd.Release({("a", "b"): GaussianMechanism.from_estimate(0.6, 200)}, fit_intercept=True)
    found = sd.literature.regression_calibration(sd.losses.least_squares(), release, X, y)
    known = sd.literature.regression_calibration(
        sd.losses.least_squares(), sd.Release({("a", "b"): GaussianMechanism.from_scale(0.6)}, fit_intercept=True), X, y
    )
    plain, corrected = both(0.6, 200, X, y)
    np.testing.assert_allclose(found.theta, corrected.theta, rtol=1e-6)
    np.testing.assert_array_equal(found.theta, known.theta)
    added = np.diag(found.covariance - known.covariance)
    np.testing.assert_allclose(added, np.diag(corrected.covariance - plain.covariance), rtol=0.05)
    assert "of the variance of a parameter comes from that" in found.summary()
    # That of the estimate is a small part, and adds to what few records leave.
    freedom, least = (one.inference.freedom(3).min() for one in (found, known))
    assert 200 > freedom >= least
    assert freedom == pytest.approx(corrected.inference.freedom(3).min(), rel=0.1)


def test_methods_that_draw_noise_repeat_it():
    """With other draws the differences would be those of the draws, ten times as large as what the estimate does."""
    X, y = records()
    releases = [
        sd.Release({("a", "b"): mechanism}, fit_intercept=True)
        for mechanism in (GaussianMechanism.from_estimate(0.6, 1e6), GaussianMechanism.from_scale(0.6))
    ]
    for state in (3, np.random.default_rng(3)):
        found, known = (
            sd.literature.simex(sd.losses.least_squares(), release, X, y, repeats=2, random_state=own)
            for release, own in zip(releases, (state, 3 if state == 3 else np.random.default_rng(3)), strict=True)
        )
        np.testing.assert_allclose(found.theta, known.theta, rtol=1e-12)
        np.testing.assert_allclose(found.standard_errors, known.standard_errors, rtol=1e-2)


def test_estimates_of_too_few_degrees_leave_methods_without_errors():
    X, y = records()
    release = sd.Release({("a", "b"): GaussianMechanism.from_estimate(0.6, 4)}, fit_intercept=True)
    found = sd.literature.regression_calibration(sd.losses.least_squares(), release, X, y)
    with pytest.raises(InferenceError, match="4 degrees of freedom, and more than 4 are needed"):
        found.confidence_interval()
    most = np.sqrt(0.9 * np.linalg.eigvalsh(np.cov(X.T)).min())
    wide = sd.Release({("a", "b"): GaussianMechanism.from_estimate(most, 9)}, fit_intercept=True)
    found = sd.literature.regression_calibration(sd.losses.least_squares(), wide, X, y)
    with pytest.raises(InferenceError, match="no fit where the noise is off by what its estimate may be"):
        found.confidence_interval()


@pytest.mark.in_turn
@pytest.mark.parametrize("units", [(1.0, 1e3), (50.0, 2e-3)])
def test_the_error_of_an_estimated_covariance_is_the_same_in_all_units(units):
    """Directions of a covariance that went by its eigenvectors gave standard errors half a hundredth apart."""
    rng = np.random.default_rng(0)
    covariance = np.array([[0.3, 0.12], [0.12, 0.2]])
    X = rng.normal(size=(3_000, 2)) @ [[1.0, 0.3], [0.0, 1.0]]
    y = np.where(rng.random(3_000) < 1 / (1 + np.exp(-X @ [1.0, -0.5])), 1.0, -1.0)
    X += rng.multivariate_normal([0.0, 0.0], covariance, size=3_000)
    errors = []
    for unit in (np.ones(2), np.array(units)):
        noise = sd.GaussianMechanism.from_estimate(covariance * np.outer(unit, unit), degrees_of_freedom=40)
        corrected = sd.debias(sd.losses.logistic(), sd.Release({("x0", "x1"): noise}))
        errors.append(sd.m_estimate(corrected, X * unit, y).standard_errors * unit)
    np.testing.assert_allclose(errors[1], errors[0], rtol=1e-6)
