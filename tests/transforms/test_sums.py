import math

import mpmath
import numpy as np
import pytest
from scipy import special, stats

from symdebias import mechanisms
from symdebias.transforms import quadrature, sums

pytestmark = pytest.mark.newest

COEFFICIENTS = np.array([1.0, -0.5, 0.5, 0.3, 0.7, 0.2])
SCALES = np.array([0.9, 0.9, 0.4, 0.4, 0.0, 0.0])
COVARIANCE = np.zeros((6, 6))
COVARIANCE[4:, 4:] = [[2.0, 0.5], [0.5, 1.0]]


def law_of_a_gamma_difference(k, scale, half):
    """Return points and weights of a sum of k equal Laplace variables, a difference of gamma ones, by its density."""
    t, w = np.polynomial.legendre.leggauss(400)
    size = half / 2 * (t + 1)
    x = size / scale
    # The density of Gamma(k) - Gamma(k) by a Bessel function.
    density = (x / 2) ** (k - 0.5) * special.kv(k - 0.5, x) / (math.sqrt(math.pi) * special.gamma(k)) / scale
    return np.concatenate([-size, size]), np.concatenate([w * density, w * density]) * half / 2


@pytest.mark.parametrize(("nodes", "tolerance"), [(64, 1e-12), (24, 1e-5)])
def test_moments_of_a_sum_of_mixed_noise(nodes, tolerance):
    whole = sums.of_sum(COEFFICIENTS, COVARIANCE, SCALES, nodes)
    e = whole.points @ COEFFICIENTS
    pull = (COVARIANCE + np.diag(2 * SCALES**2)) @ COEFFICIENTS
    assert whole.weights.min() > 0
    assert whole.weights.sum() == pytest.approx(1, abs=1e-14)
    assert np.all(np.diff(e) > 0)
    # E[e w_j] is the covariance, and exp(c e) has a mean in closed form.
    np.testing.assert_allclose(whole.points.T @ (whole.weights * e), pull, atol=tolerance)
    for c in (0.3, 0.6):
        tails = (c * SCALES * COEFFICIENTS) ** 2
        wanted = math.exp(c**2 * (COEFFICIENTS @ COVARIANCE @ COEFFICIENTS) / 2) / np.prod(1 - tails)
        assert whole.weights @ np.exp(c * e) == pytest.approx(wanted, rel=tolerance)
        # E[w_j exp(c e)] of a Laplace part is 2 b^2 a c/(1 - c^2 a^2 b^2) times that.
        slope = 2 * SCALES[0] ** 2 * COEFFICIENTS[0] * c / (1 - tails[0])
        assert whole.weights @ (whole.points[:, 0] * np.exp(c * e)) == pytest.approx(slope * wanted, rel=10 * tolerance)


def test_a_kinked_mean_and_the_parts_given_the_sum_agree_with_draws():
    rng = np.random.default_rng(0)
    w = np.concatenate(
        [
            rng.laplace(size=(400_000, 4)) * SCALES[:4],
            rng.multivariate_normal(np.zeros(2), COVARIANCE[4:, 4:], 400_000),
        ],
        axis=1,
    )
    e = w @ COEFFICIENTS
    whole = sums.of_sum(COEFFICIENTS, COVARIANCE, SCALES, 64)
    there = whole.points @ COEFFICIENTS
    for function in (lambda v: np.abs(v - 0.1), lambda v: np.sign(v - 0.4), np.arctan):
        drawn = function(e)[:, None] * np.column_stack([np.ones(len(e)), w])
        found = (whole.weights * function(there)) @ np.column_stack([np.ones(len(there)), whole.points])
        assert np.all(np.abs(drawn.mean(axis=0) - found) < 5 * drawn.std(axis=0) / math.sqrt(len(e)) + 1e-3)


def test_a_sum_of_equal_laplace_noise_is_a_difference_of_gammas():
    points, weights = law_of_a_gamma_difference(6, 0.4, 30.0)
    whole = sums.of_sum(np.full(6, 0.4), np.zeros((6, 6)), np.ones(6), 64)
    e = whole.points.sum(axis=1) * 0.4
    for function in (np.abs, np.arctan, lambda v: np.logaddexp(0, v - 0.7)):
        assert whole.weights @ function(e) == pytest.approx(weights @ function(points), rel=1e-5, abs=1e-12)


def test_one_laplace_part_holds_what_grows_nearly_as_fast_as_it_falls():
    whole = sums.of_sum(np.array([0.0, 2.0]), np.zeros((2, 2)), np.array([1.0, 0.5]), 64)
    assert np.all(whole.points[:, 0] == 0)
    assert whole.weights @ np.exp(0.95 * 2 * whole.points[:, 1]) == pytest.approx(1 / (1 - 0.95**2), rel=1e-9)


def test_far_normal_noise_keeps_its_digits():
    whole = sums.of_sum(np.array([5.0]), np.eye(1), np.zeros(1), 64)
    assert whole.weights @ np.exp(5 * whole.points[:, 0]) == pytest.approx(math.exp(12.5), rel=1e-10)
    assert whole.weights[whole.points[:, 0] > 6].sum() == pytest.approx(stats.norm.sf(6), rel=0.2)


def test_nothing_to_add():
    for coefficients in (np.zeros(2), np.zeros(0)):
        whole = sums.of_sum(coefficients, np.eye(len(coefficients)), np.zeros(len(coefficients)), 20)
        assert whole.points.shape == (1, len(coefficients))
        assert whole.weights.tolist() == [1.0]


def test_what_is_summed():
    assert sums.is_summable(mechanisms.GaussianMechanism.from_scale(2.0).noise)
    laplace = mechanisms.LaplaceMechanism.from_scale(2.0).noise
    assert sums.is_summable(laplace)
    assert sums.laplace_scale(laplace) == 2.0
    for other in (
        None,
        mechanisms.DiscreteLaplaceMechanism.from_scale(2.0).noise,
        mechanisms.RandomizedResponse(1.0).noise,
    ):
        assert not sums.is_summable(other)


def test_rules_of_gauss_are_made_once(monkeypatch):
    """A search for the largest bias takes the same one thousands of times, and making it is most of its time."""
    one = (np.ones(1), np.zeros((1, 1)), np.ones(1), 37)
    noise = mechanisms.UniformMechanism(0.5).noise
    first, column = sums.of_sum(*one), quadrature.one_dimensional(noise, 37)
    normal = quadrature.rule(mechanisms.GaussianMechanism.from_scale(0.5).noise, 1, 37)
    for family in ("laguerre.laggauss", "legendre.leggauss", "hermite_e.hermegauss"):
        monkeypatch.setattr(f"numpy.polynomial.{family}", lambda *_: pytest.fail("made again"))
    np.testing.assert_array_equal(sums.of_sum(*one).points, first.points)
    assert quadrature.one_dimensional(noise, 37) is column
    again = quadrature.rule(mechanisms.GaussianMechanism.from_scale(0.5).noise, 1, 37)
    np.testing.assert_array_equal(again.points, normal.points)
    assert not any(part.flags.writeable for part in column)


def test_one_wide_laplace_part_has_points_where_a_function_bends():
    """By mpmath, the integral cut at the bend and the kink of the density: Laguerre rules are off by .1."""
    noise = (np.array([1.0]), np.zeros((1, 1)), np.array([50.0]))
    whole = sums.of_sum(*noise, 64)
    with mpmath.workdps(30):
        density = lambda e: mpmath.exp(-abs(e) / 50) / 100  # noqa: E731
        places = [-4000, -1000, -100, 0, 20, 25, 27, 30, 35, 100, 1000, 4000]
        slope = mpmath.quad(lambda e: density(e) / (1 + mpmath.exp(27 - e)), places)
        bend = mpmath.quad(lambda e: density(e) * mpmath.sech((e - 27) / 2) ** 2, places)
    e = whole.points[:, 0]
    assert whole.weights @ special.expit(e - 27) == pytest.approx(float(slope), rel=1e-12)
    assert whole.weights @ (1 / np.cosh(np.clip((e - 27) / 2, -300, 300)) ** 2) == pytest.approx(float(bend), rel=1e-10)


@pytest.mark.parametrize("nodes", [16, 32, 64])
def test_a_tilted_rule_has_the_error_that_is_stated(nodes):
    """The relative error of the integral of exp(-d t) by a rule for exp(-r t) is (abs(r - d)/(r + d))^(2 n), about."""
    t, weights = quadrature.tilted_laguerre(nodes)
    plain, _ = quadrature.laguerre(nodes)
    rate = plain[-1] / t[-1]
    assert t[-1] <= 690
    for falls in (rate / 4, rate / 2, 1.0, 1.5, 2.0):
        found = float(weights @ np.exp((1 - falls) * t)) * falls - 1
        stated = (abs(rate - falls) / (rate + falls)) ** (2 * nodes)
        assert abs(found) < 20 * stated + 1e-12
        assert abs(found) > 0.02 * stated or stated < 1e-11


@pytest.mark.parametrize("growth", [0.9, 0.97, 0.98, 0.985, 0.99])
def test_two_rules_of_one_laplace_part_differ_by_what_lies_beyond(growth):
    """Both would miss the same, and say that it is settled, if they ended at the same place."""
    noise = (np.array([1.0]), np.zeros((1, 1)), np.ones(1))
    coarse, fine = (
        float(one.weights @ np.exp(growth * one.points[:, 0])) for one in (sums.of_sum(*noise, n) for n in (58, 64))
    )
    assert abs(fine - 1 / (1 - growth**2)) < max(abs(fine - coarse), 1e-9)
