"""Features and target in one vector with spherical noise: means over its density, golden values, limits, fits."""

import itertools
import math

import numpy as np
import pytest
import sympy as sp

import symdebias as sd
from symdebias.exceptions import InfiniteVarianceError, NoExactCorrectionError

U, Y = sp.symbols("u y", real=True)
B, C = 0.2, 0.7
SPHERICAL = sd.SphericalLaplaceMechanism.from_scale(B)
MARGIN = sd.Release(SPHERICAL, target="margin", fit_intercept=True, target_scale=C)
JOINT = sd.Release(SPHERICAL, target="joint", target_bounds=(-5, 5), target_scale=C, fit_intercept=True)


def of_residual(expression):
    return sd.Loss(expression.subs(U, U - Y), score=U, target=Y)


LOG_COSH, LINEX, WAVE = (of_residual(one) for one in (sp.log(sp.cosh(U)), sp.exp(U) - U, 1 - sp.cos(U) + U**2 / 8))
FOURTH = of_residual(U**4 / 4)


def noise_along(axis, scale):
    """Points and weights of noise of density proportional to exp(-||v||/b) in two or three dimensions.

    Composite Gauss rules of the norm, whose law is Gamma(D, b), and a rule of the direction about an axis: a function
    of the projection on it, times polynomials of degree 3, is integrated to rounding.
    """
    dimension = len(axis)
    t, w = np.polynomial.legendre.leggauss(16)
    edges = np.concatenate([[0.0], np.geomspace(0.01, 1, 6), np.linspace(3, 61, 30)])
    r = np.concatenate([(a + b) / 2 + (b - a) / 2 * t for a, b in itertools.pairwise(edges)])
    lengths = np.concatenate([(b - a) / 2 * w for a, b in itertools.pairwise(edges)])
    lengths *= r ** (dimension - 1) * np.exp(-r) / math.factorial(dimension - 1)
    if dimension == 2:
        angle = 2 * math.pi * np.arange(512) / 512
        local, shares = np.column_stack([np.cos(angle), np.sin(angle)]), np.full(512, 1 / 512)
    else:
        cosine, w = np.polynomial.legendre.leggauss(160)
        turn = 2 * math.pi * np.arange(4) / 4
        sine = np.sqrt(1 - cosine**2)
        local = np.stack([np.repeat(cosine, 4), *(np.outer(sine, wave(turn)).ravel() for wave in (np.cos, np.sin))], 1)
        shares = np.repeat(w / 2, 4) / 4
    basis, _ = np.linalg.qr(np.column_stack([axis, np.eye(dimension)]))
    points = scale * np.multiply.outer(r, local @ basis[:, :dimension].T).reshape(-1, dimension)
    return points, np.multiply.outer(lengths, shares).ravel()


def value_and_slope(loss, u, y):
    at = {loss.scores[0]: sp.Float(u, 30), loss.target: sp.Float(y, 30)}
    parts = (loss.expression, sp.diff(loss.expression, loss.scores[0]))
    return tuple(float(part.xreplace(at)) for part in parts)


# ---- unbiased --------------------------------------------------------------------------------------------

IN_THREE = {
    "square": sd.losses.least_squares(), "fourth power": FOURTH, "log cosh": LOG_COSH, "linex": LINEX, "wave": WAVE,
}  # fmt: skip


@pytest.mark.in_turn
@pytest.mark.parametrize("name", IN_THREE)
def test_losses_of_a_residual_are_unbiased(name):
    """Over the density of (x~, c y~), two features and the target; without the 1/c the mean is off."""
    loss, x, y, theta = IN_THREE[name], np.array([0.8, -0.2]), -0.9, np.array([0.6, -0.4, 0.3])
    corrected = sd.debias(loss, JOINT, method="exact")
    points, weights = noise_along(np.array([*theta[:2], -1 / C]), B)
    X, sent = x + points[:, :2], y + points[:, 2] / C
    row = np.array([*x, 1.0])
    value, slope = value_and_slope(loss, theta @ row, y)
    assert weights @ corrected.loss(theta, X, sent) == pytest.approx(value, abs=1e-10)
    np.testing.assert_allclose(weights @ corrected.gradient(theta, X, sent), slope * row, atol=1e-10)
    unweighed = sd.Release(SPHERICAL, target="joint", target_bounds=(-5, 5), fit_intercept=True)
    off = sd.debias(loss, unweighed, method="exact")
    assert abs(weights @ off.loss(theta, X, sent) - value) > 0.001


@pytest.mark.in_turn
@pytest.mark.parametrize("name", ["square", "linex", "wave"])
def test_losses_of_a_residual_of_one_feature_are_unbiased(name):
    """Two coordinates, whose operator has the order 3/2: a series for the square, factors for the others."""
    loss, x, y, theta = IN_THREE[name], 0.8, -0.9, np.array([0.6])
    plain = sd.Release({"x": SPHERICAL}, target="joint", target_bounds=(-5, 5), target_scale=C)
    corrected = sd.debias(loss, plain, method="exact")
    points, weights = noise_along(np.array([0.6, -1 / C]), B)
    X, sent = x + points[:, :1], y + points[:, 1] / C
    value, slope = value_and_slope(loss, 0.6 * x, y)
    assert weights @ corrected.loss(theta, X, sent) == pytest.approx(value, abs=1e-10)
    np.testing.assert_allclose(weights @ corrected.gradient(theta, X, sent), [slope * x], atol=1e-10)


@pytest.mark.in_turn
@pytest.mark.parametrize("loss", [sd.losses.logistic(), sd.losses.exponential()], ids=lambda loss: loss.name)
@pytest.mark.parametrize("label", [-1.0, 1.0])
def test_margin_losses_with_a_weighed_intercept_are_unbiased(loss, label):
    """Over the density of (y x, c y), whose last coordinate over c stands for the intercept."""
    x, theta = np.array([0.8, -0.2]), np.array([0.6, -0.4, 0.5])
    corrected = sd.debias(loss, MARGIN, method="exact")
    points, weights = noise_along(np.array([*theta[:2], theta[2] / C]), B)
    X, sent = label * x + points[:, :2], label + points[:, 2] / C
    row = np.array([*x, 1.0])
    value, slope = value_and_slope(loss, theta @ row, label)
    assert weights @ corrected.loss(theta, X, sent) == pytest.approx(value, abs=1e-10)
    np.testing.assert_allclose(weights @ corrected.gradient(theta, X, sent), slope * row, atol=1e-10)
    off = sd.debias(loss, sd.Release(SPHERICAL, target="margin", fit_intercept=True), method="exact")
    assert abs(weights @ off.loss(theta, X, sent) - value) > 1e-4


@pytest.mark.in_turn
def test_a_surrogate_of_a_residual_has_itself_as_mean():
    """What is undone of its waves and its quadratic is the noise of the residual, the target's with it."""
    x, y, theta = np.array([0.5, -0.2]), -0.4, np.array([0.6, -0.4, 0.3])
    corrected = sd.debias(sd.losses.huber(), JOINT, method="surrogate", radius=3.0, score_variance=0.1, n=1e4)
    points, weights = noise_along(np.array([*theta[:2], -1 / C]), B)
    X, sent = x + points[:, :2], y + points[:, 2] / C
    row = np.array([*x, 1.0])
    residual = np.array([theta @ row - y])
    (surrogate,) = corrected.design.surrogates
    assert weights @ corrected.loss(theta, X, sent) == pytest.approx(surrogate.value(residual)[0], abs=1e-10)
    slope = surrogate.slope(residual)[0]
    np.testing.assert_allclose(weights @ corrected.gradient(theta, X, sent), slope * row, atol=1e-10)
    # The noise of the target counts in its design: 0.1 + 4 b^2/c^2.
    assert corrected.design.score_variance == pytest.approx(0.1 + 4 * B**2 / C**2, rel=1e-12)
    certificate = corrected.certificate
    assert certificate.proved
    assert certificate.loss_bias < 0.05
    assert certificate.score_bound == 3.0


@pytest.mark.parametrize(
    ("features", "s", "residual", "golden"),
    [(2, 1.0, 0.7, 0.287752942501), (2, 4.0, -1.2, 1.09550943461), (10, 4.0, -1.2, 1.37166231628)],
)
def test_golden_values(features, s, residual, golden):
    """Of log(1 + exp(-r)) at the form s = (D + 1) b^2 (||theta||^2 + 1/c^2) of D coordinates, the target's included."""
    theta = np.zeros(features)
    theta[0] = 0.6
    b = math.sqrt(s / ((features + 2) * (0.36 + 1 / C**2)))
    release = sd.Release(
        sd.SphericalLaplaceMechanism.from_scale(b), target="joint", target_bounds=(-5, 5), target_scale=C
    )
    corrected = sd.debias(of_residual(sp.log(1 + sp.exp(-U))), release, method="exact")
    X = np.zeros((1, features))
    assert corrected.loss(theta, X, [-residual])[0] == pytest.approx(golden, rel=2e-10)


def test_a_series_ends_where_the_operator_does():
    """Three coordinates have an operator of order 4."""
    series = sd.debias(LOG_COSH, JOINT, method="series", order=2)
    exact = sd.debias(LOG_COSH, JOINT, method="exact")
    X, y, theta = np.array([[0.3, 0.1], [-2.0, 0.7]]), [0.2, 3.0], [0.6, -0.4, 0.3]
    np.testing.assert_allclose(series.loss(theta, X, y), exact.loss(theta, X, y), rtol=1e-12)


# ---- limits, variances -----------------------------------------------------------------------------------


def test_limits_are_on_the_norm_of_the_parameters_with_that_of_the_target():
    """b sqrt(||theta||^2 + 1/c^2) below 1 for the correction to exist, below a half for a finite variance."""
    limits = sd.debias(LINEX, JOINT).at(2).limits
    theta = np.array([0.6, -0.8, 0.3])
    assert limits.score_reach(theta) == pytest.approx(B * math.sqrt(1.0 + 1 / C**2), rel=1e-14)
    limits.require(theta, finite_variance=True)
    wide = np.array([1.5, -1.5, 0.3])
    assert 0.5 < B * math.sqrt(4.5 + 1 / C**2) < 1
    limits.require(wide, finite_variance=False)
    with pytest.raises(InfiniteVarianceError, match=r"from 0\.5 on"):
        limits.require(wide, finite_variance=True)
    # The noise of the target alone may be too much, at whatever parameters.
    heavy = sd.Release(SPHERICAL, target="joint", target_bounds=(-5, 5), target_scale=B / 2)
    with pytest.raises(NoExactCorrectionError, match="exists below 1 only"):
        sd.debias(LINEX, heavy).loss([0.0, 0.0], [[0.1, 0.2]], [0.0])


def test_the_variance_of_least_squares():
    """Of (r~^2 - s)/2: the fourth moment of the noise of the residual is 3 (1 + 1/nu) s^2, nu = 2."""
    theta, x, y = np.array([0.8, -0.3, 0.5]), np.array([0.2, 0.4]), 0.9
    corrected = sd.debias(sd.losses.least_squares(), JOINT)
    own, of_target = 4 * B**2 * theta[:2] @ theta[:2], 4 * B**2 / C**2
    assert corrected.score_variance(theta) == pytest.approx(own, rel=1e-12)
    s, residual = own + of_target, theta @ [*x, 1.0] - y
    wanted = s * residual**2 + (3 * (1 + 1 / 2) - 1) * s**2 / 4
    assert corrected.variance(theta, x[None, :], [y], of="loss")[0] == pytest.approx(wanted, rel=1e-8)
    ignored = sd.debias(sd.losses.least_squares(), JOINT, method="none")
    assert ignored.bias(theta, x[None, :], [y])[0] == pytest.approx(s / 2, rel=1e-9)


def test_the_price_of_an_exact_correction_is_looked_at_with_the_noise_of_the_target_within():
    """At 16 in all, whatever the share of the target; where that is more by itself, at its own."""
    prices = []
    for scale in (C, 10.0, B / 10):
        release = sd.Release(SPHERICAL, target="joint", target_bounds=(-5, 5), target_scale=scale).bind(["a", "b"])
        correction = sd.debias(LOG_COSH, release, method="exact").at(2)
        prices.append(sd.assessment.gradient_inflation(correction, None, None))
    assert prices[0] == pytest.approx(prices[1], rel=1e-9)
    assert prices[2] > 10 * prices[0]


# ---- fits and evaluation ---------------------------------------------------------------------------------

THETA = np.array([1.0, -0.5, 0.3])


def simulated(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 2)) / math.sqrt(2)
    return X, np.clip(np.column_stack([X, np.ones(n)]) @ THETA + rng.uniform(-1, 1, n), -3, 3)


@pytest.mark.in_turn
@pytest.mark.parametrize("name", ["least squares", pytest.param("huber", marks=pytest.mark.exhaustive)])
def test_a_fit_is_near_that_of_the_true_records(name):
    """Within 4 standard errors, about 1 false alarm in 5,000, once and for all; the uncorrected fit is 6 away."""
    loss = sd.losses.least_squares() if name == "least squares" else sd.losses.huber()
    X, y = simulated(40_000, 1)
    release = sd.Release(
        sd.SphericalLaplaceMechanism(20.0, radius=1.0), target="joint", target_bounds=(-3, 3), target_scale=0.4,
        fit_intercept=True,
    )  # fmt: skip
    noised = release.privatize(X, y, random_state=2)
    corrected = sd.debias(loss, noised.release)
    assert corrected.method == ("exact" if name == "least squares" else "surrogate")
    fit = sd.m_estimate(corrected, noised.X, noised.y)
    truth = sd.m_estimate(sd.debias(loss, sd.Release(fit_intercept=True)), X, y).theta
    assert np.all(np.abs(fit.theta - truth) < 4 * fit.standard_errors)
    naive = sd.m_estimate(sd.debias(loss, noised.release, method="none"), noised.X, noised.y).theta
    assert np.max(np.abs(naive - truth) / fit.standard_errors) > 6
    steps = sd.sgd(corrected, noised.X, noised.y, l2=0.1, random_state=0, average=True)
    wanted = sd.m_estimate(corrected, noised.X, noised.y, l2=0.1)
    assert np.linalg.norm(steps.theta - wanted.theta) < 0.15
    # The loss that was trained on, and the squared error, are told of the same records.
    residuals = sp.Symbol("r", real=True)
    at = np.column_stack([X, np.ones(len(X))]) @ fit.theta - y
    of_true = sp.lambdify(residuals, loss.expression.subs({loss.scores[0]: residuals, loss.target: 0}), "numpy")(at)
    found = sd.evaluation.evaluate(fit, noised.X, noised.y, metric=loss)
    assert abs(found.value - of_true.mean()) < 4.5 * found.standard_error + found.bias
    squared = sd.evaluation.evaluate(fit, noised.X, noised.y, metric="squared_error")
    assert abs(squared.value - np.mean(at**2)) < 4.5 * squared.standard_error


# ---- refusals --------------------------------------------------------------------------------------------


def released():
    X, y = simulated(200, 3)
    return JOINT.privatize(X, y, random_state=0)


@pytest.mark.parametrize("method", ["regression_calibration", "simex", "monte_carlo_score"])
def test_methods_that_take_independent_noise_are_refused(method):
    noised = released()
    with pytest.raises(NoExactCorrectionError, match="features and target share one"):
        getattr(sd.literature, method)(sd.losses.least_squares(), noised.release, noised.X, noised.y)


def test_accuracy_is_refused():
    noised = released()
    with pytest.raises(NoExactCorrectionError, match="undone in residuals alone"):
        sd.evaluation.evaluate(THETA, noised.X, noised.y, metric="accuracy", release=noised.release)


def test_columns_of_a_vector_are_for_residuals_alone():
    columns = JOINT.in_columns(2)
    assert columns.guarantee is None
    for method in ("exact", "surrogate", "series"):
        options = {"order": 1} if method == "series" else {}
        with pytest.raises(NoExactCorrectionError, match="no function of the residual"):
            sd.debias(sd.losses.poisson(), columns, method=method, **options)
    # Half of the variance of each part, and nothing from both: they are uncorrelated.
    label, feature, both = sd.bias(sd.losses.least_squares(), columns)(THETA, [[0.2, 0.1]], [0.5])
    assert label[0] == pytest.approx(2 * B**2 / C**2, rel=1e-9)
    assert feature[0] == pytest.approx(2 * B**2 * THETA[:2] @ THETA[:2], rel=1e-9)
    assert abs(both[0]) < 1e-12


def test_a_declared_dimension_is_refused():
    own = sd.SphericalLaplaceMechanism(4.0, 1.0, delta=1e-5, dimension=2)
    for options in ({"target": "margin", "fit_intercept": True}, {"target": "joint", "target_bounds": (-1.0, 1.0)}):
        with pytest.raises(ValueError, match="one coordinate more"):
            sd.Release({("a", "b"): own}, **options)
