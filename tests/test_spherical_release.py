"""Losses corrected under spherical noise: kernels against means over the noise and differences, limits, fits."""

import math

import numpy as np
import pytest
import sympy as sp
from instances import U, Y, logistic_records, records
from kernel_means import assert_kernels_agree

import symdebias as sd
from symdebias.exceptions import InfiniteVarianceError, NoExactCorrectionError

SPHERICAL = sd.SphericalLaplaceMechanism.from_scale(0.15)
PADDED = sd.SphericalLaplaceMechanism.from_scale(0.15, padded=True)
GAUSSIAN, COIN = sd.GaussianMechanism.from_scale(0.3), sd.RandomizedResponse(epsilon=1.0)
ZERO_OR_ONE = sd.RandomizedResponse(epsilon=2.0, categories=(0, 1))

# Nodes of product rules over all columns at once.
NODES = {"two groups": 12, "beside normal and Laplace noise, and a category": 10}
RELEASES = {
    "three columns": sd.Release({("a", "b", "c"): SPHERICAL}, COIN),
    "two padded columns and an intercept": sd.Release({("a", "b"): PADDED}, COIN, fit_intercept=True),
    "two groups": sd.Release({("a", "b"): SPHERICAL, ("c", "d"): sd.SphericalLaplaceMechanism.from_scale(0.1)}, COIN),
    "beside normal and Laplace noise, and a category": sd.Release(
        {
            "n": GAUSSIAN,
            ("a", "b"): SPHERICAL,
            "l": sd.LaplaceMechanism.from_scale(0.1),
            "k": sd.RandomizedResponse(epsilon=2.0),
        },
        COIN,
    ),
    "several scores": sd.Release({("a", "b"): PADDED}, ZERO_OR_ONE),
    "three scores": sd.Release({("a", "b"): PADDED}, sd.RandomizedResponse(epsilon=2.0, categories=(0, 1, 2))),
    "margins with a weighed intercept": sd.Release(
        {("a", "b"): SPHERICAL}, target="margin", fit_intercept=True, target_scale=0.7
    ),
    "joint with the target": sd.Release(
        {("a", "b"): SPHERICAL}, target="joint", target_bounds=(-1, 1), fit_intercept=True, target_scale=0.7
    ),
}
LOSSES = {
    "three columns": sd.losses.logistic(),
    "two padded columns and an intercept": sd.losses.logistic(),
    "two groups": sd.losses.exponential(),
    "beside normal and Laplace noise, and a category": sd.losses.exponential(),
    "several scores": sd.losses.softmax(2),
    "three scores": sd.losses.softmax(3),
    "margins with a weighed intercept": sd.losses.logistic(),
    "joint with the target": sd.Loss((U - Y) ** 4 / 4 - sp.cos(U - Y), score=U, target=Y),
}


# Much compilation.
LONG = ("three scores", "beside normal and Laplace noise, and a category")


@pytest.mark.in_turn
@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.exhaustive] * (n in LONG)) for n in RELEASES])
def test_kernels_have_the_declared_loss_as_mean_and_agree_with_differences(name):
    release = RELEASES[name]
    correction = sd.debias(LOSSES[name], release, method="exact").at(release.number_of_columns).enumerated
    rng = np.random.default_rng(1)
    theta = rng.uniform(-0.8, 0.8, correction.number_of_parameters)
    record = rng.uniform(-0.7, 0.7, correction.columns)
    if "category" in name:
        record[-1] = 1.0
    assert_kernels_agree(
        correction, record, 1.0, theta, rng, nodes=NODES.get(name, 24), within=(1e-9, 1e-9, 1e-8, 1e-7, 1e-7)
    )


# ---- limits ----------------------------------------------------------------------------------------------


@pytest.mark.in_turn
def test_the_exponential_loss_has_limits_on_the_norm_of_the_parameters():
    """b ||theta|| < 1 for it to exist, and below a half of finite variance: over the columns of the group together."""
    release = sd.Release({("a", "b", "c"): sd.SphericalLaplaceMechanism.from_scale(0.5)})
    corrected = sd.debias(sd.losses.exponential(), release)
    limits = corrected.at(3).limits
    assert limits.reach == 1.0
    assert limits.score_reach([0.6, 0.0, 0.8]) == pytest.approx(0.5, rel=1e-14)
    # No parameter by itself is at the limit.
    X, y = records(5, 3)
    with pytest.raises(InfiniteVarianceError, match=r"is 0\.5196, and from 0\.5 on"):
        limits.require(np.array([0.6, 0.6, 0.6]), finite_variance=True)
    with pytest.raises(NoExactCorrectionError, match=r"is 1\.039, and the correction of .* exists below 1 only"):
        corrected.loss([1.2, 1.2, 1.2], X, y)
    assert np.all(np.isfinite(corrected.loss([1.0, 1.0, 1.0], X, y)))
    certificate = corrected.certify(theta_radius=1.1)
    assert (certificate.reach, certificate.reach_limit) == (pytest.approx(0.55), 1.0)
    assert certificate.exists
    assert not certificate.finite_variance
    assert certificate.loss_bias < 1e-9
    assert not corrected.certify(theta_radius=2.1).exists


def test_bounded_slopes_have_no_limits():
    release = sd.Release({("a", "b", "c"): sd.SphericalLaplaceMechanism.from_scale(5.0)})
    assert sd.debias(sd.losses.logistic(), release, method="exact").at(3).limits.reach == np.inf


# ---- methods ---------------------------------------------------------------------------------------------


def of_columns(count, *, padded=False):
    names = tuple(f"x{place}" for place in range(count))
    return sd.Release({names: sd.SphericalLaplaceMechanism.from_scale(0.3, padded=padded)}, COIN)


@pytest.mark.in_turn
def test_the_method_is_exact_where_it_exists_and_is_not_too_dear():
    log_loss = sd.losses.logistic()
    assert sd.debias(log_loss, of_columns(3)).method == "exact"
    assert sd.debias(log_loss, of_columns(2)).method == "surrogate"
    assert sd.debias(log_loss, of_columns(4, padded=True)).method == "exact"
    dear = sd.debias(log_loss, of_columns(9))
    assert dear.method == "surrogate"
    assert "times that of the uncorrected ones" in dear.reason
    assert sd.debias(sd.losses.exponential(), of_columns(2)).method == "exact"
    assert sd.debias(sd.losses.squared_margin(), of_columns(30)).method == "exact"
    assert sd.debias(sd.losses.hinge(), of_columns(3)).method == "surrogate"


def test_a_free_form_loss_is_refused():
    x, z, a, b, y = sp.symbols("x z a b y", real=True)
    loss = sd.Loss.of_features((a * x**2 + b * z - y) ** 2, features=[x, z], parameters=[a, b], target=y)
    with pytest.raises(NoExactCorrectionError, match="share in all directions"):
        sd.debias(loss, sd.Release({("x", "z"): SPHERICAL}))


@pytest.mark.parametrize("order", [1, 2])
def test_a_series_ends_where_the_operator_does(order):
    """Two columns of noise that is padded have an operator of order 4: the second term of the series is its last."""
    release = sd.Release({("a", "b"): PADDED}, COIN)
    series = sd.debias(sd.losses.squared_margin(), release, method="series", order=order)
    assert series.is_exact
    cut = sd.debias(sd.losses.logistic(), release, method="series", order=order).expression
    whole = sd.debias(sd.losses.logistic(), release, method="exact").expression
    values = {"u": 0.3, "y": 1.0, "s1": 0.8, "c": 2.0}
    found, wanted = (
        float(one.subs({symbol: values[symbol.name] for symbol in one.free_symbols})) for one in (cut, whole)
    )
    assert (abs(found - wanted) < 1e-12) == (order == 2)


def test_the_bias_of_ignoring_the_noise_by_two_rules():
    """Of the square it is half the noise variance of the score; of the exponential loss it has a closed form."""
    theta, b = np.array([1.0, -0.5, 0.3]), 0.15
    release = sd.Release({("a", "b", "c"): SPHERICAL})
    X = [[0.2, 0.1, -0.4]]
    s = 4 * b**2 * theta @ theta
    assert sd.bias(sd.losses.squared_margin(), release)(theta, X, [1.0])[1][0] == pytest.approx(s / 2, rel=1e-10)
    found = sd.bias(sd.losses.exponential(), release)(theta, X, [1.0])[1][0]
    value = np.exp(-theta @ X[0])
    assert found == pytest.approx(value * ((1 - b**2 * theta @ theta) ** -2 - 1), rel=1e-10)


def test_the_variance_of_a_quadratic_loss():
    """Of u~^2/2 - s/2 - u~ y: the fourth moment of the noise of the score, 3 (1 + 1/nu) s^2, and its square."""
    theta, x = np.array([0.8, -0.3, 0.5]), np.array([0.2, 0.4, -0.1])
    corrected = sd.debias(sd.losses.squared_margin(), sd.Release({("a", "b", "c"): SPHERICAL}))
    s, u = corrected.score_variance(theta), x @ theta
    assert s == pytest.approx(4 * 0.15**2 * theta @ theta, rel=1e-12)
    wanted = s * (u - 1) ** 2 + (3 * (1 + 1 / 2) - 1) * s**2 / 4
    assert corrected.variance(theta, x[None, :], [1.0], of="loss")[0] == pytest.approx(wanted, rel=1e-9)


# ---- fits ------------------------------------------------------------------------------------------------


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("columns", "method"), [(3, "exact"), pytest.param(2, "surrogate", marks=pytest.mark.exhaustive)]
)
def test_a_fit_is_near_that_of_the_true_records(columns, method):
    """Within four standard errors of each parameter: a false alarm in about 1 of 5,000 for these seeds, once and for
    all; the uncorrected fit is 6 of them away."""
    X, y = logistic_records(40_000, 2 * np.resize([1.0, -0.5, 0.25], columns), 1, in_ball=True)
    release = sd.Release(sd.SphericalLaplaceMechanism(epsilon=6.0, radius=1.0), sd.RandomizedResponse(epsilon=3.0))
    noised = release.privatize(X, y, random_state=2)
    loss = sd.losses.logistic()
    corrected = sd.debias(loss, noised.release)
    assert corrected.method == method
    fit = sd.m_estimate(corrected, noised.X, noised.y)
    truth = sd.m_estimate(sd.debias(loss, sd.Release()), X, y).theta
    errors = np.sqrt(np.diag(fit.covariance))
    assert np.all(np.abs(fit.theta - truth) < 4 * errors)
    naive = sd.m_estimate(sd.debias(loss, noised.release, method="none"), noised.X, noised.y).theta
    assert np.max(np.abs(naive - truth) / errors) > 6


# ---- margin releases -------------------------------------------------------------------------------------


@pytest.mark.in_turn
@pytest.mark.parametrize("intercept", [pytest.param(False, marks=pytest.mark.exhaustive), True])
def test_a_margin_release_with_spherical_noise_is_that_of_its_vector(intercept):
    """The scale is that of the whole vector, its coordinates share the noise, and fits know the truth."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (40_000, 2))
    theta = np.array([1.0, -0.5, 0.4][: 2 + intercept])
    score = np.column_stack([X, np.ones(len(X))])[:, : len(theta)] @ theta
    y = np.where(rng.random(len(X)) < 1 / (1 + np.exp(-score)), 1.0, -1.0)
    columns = {("a", "b"): sd.SphericalLaplaceMechanism(4.0, radius=math.sqrt(2))}
    release = sd.Release(columns, target="margin", fit_intercept=intercept)
    radius = math.sqrt(2 + intercept)
    assert release.guarantee.epsilon == 4.0
    assert release.guarantee.delta == 0.0
    assert sd.Release.from_json(release.to_json()) == release
    noised = release.privatize(X, y, random_state=1)
    assert (noised.y is None) == (not intercept)
    by_hand = np.column_stack([X * y[:, None], y])[:, : len(theta)]
    sent = noised.X if noised.y is None else np.column_stack([noised.X, noised.y])
    # b = 2 R'/epsilon, and a coordinate of d has the variance (d + 1) b^2.
    variance = (len(theta) + 1) * (2 * radius / 4.0) ** 2
    np.testing.assert_allclose((sent - by_hand).var(axis=0), variance, rtol=5 * math.sqrt(5 / len(X)))
    corrected = sd.debias(sd.losses.squared_margin(), release)
    fit = sd.m_estimate(corrected, noised.X, noised.y)
    known = sd.Release(sd.SphericalLaplaceMechanism.from_scale(2 * radius / 4.0))
    same = sd.m_estimate(sd.debias(sd.losses.squared_margin(), known), sent, np.ones(len(X)))
    np.testing.assert_allclose(fit.theta, same.theta, rtol=1e-9)
    np.testing.assert_allclose(fit.standard_errors, same.standard_errors, rtol=1e-9)
    logistic = sd.m_estimate(sd.debias(sd.losses.logistic(), release), noised.X, noised.y)
    ends = logistic.confidence_interval(0.9999)
    assert np.all((ends[:, 0] < theta) & (theta < ends[:, 1]))
    assert np.all(logistic.standard_errors < 0.2)
