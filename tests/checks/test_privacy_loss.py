"""Log ratios and exact losses against densities that are worked out here."""

import math

import numpy as np
import pytest
from scipy import stats

import symdebias as sd
from symdebias.checks import privacy_loss
from symdebias.privacy import Guarantee

pytestmark = pytest.mark.newest

PAIR = np.array([-0.6, 0.3, 0.1]), np.array([0.4, -0.2, 0.1])
SENT = np.random.default_rng(0).normal(size=(200, 3))
PURE = Guarantee(1.0, 0.0)


def test_the_log_ratio_of_normal_noise():
    noise = sd.GaussianMechanism.from_scale(0.7).noise
    wanted = sum(stats.norm.logpdf(SENT, PAIR[0], 0.7).T) - sum(stats.norm.logpdf(SENT, PAIR[1], 0.7).T)
    np.testing.assert_allclose(privacy_loss.log_ratio(noise, PAIR, SENT), wanted, atol=1e-11)


def test_the_log_ratio_of_noise_with_a_covariance():
    covariance = [[0.3, 0.1, 0.0], [0.1, 0.2, -0.05], [0.0, -0.05, 0.1]]
    noise = sd.GaussianMechanism.from_covariance(covariance).noise
    wanted = stats.multivariate_normal(PAIR[0], covariance).logpdf(SENT)
    wanted -= stats.multivariate_normal(PAIR[1], covariance).logpdf(SENT)
    np.testing.assert_allclose(privacy_loss.log_ratio(noise, PAIR, SENT), wanted, atol=1e-10)


def test_the_log_ratio_of_laplace_noise():
    noise = sd.LaplaceMechanism.from_scale(0.7).noise
    wanted = (np.abs(SENT - PAIR[1]) - np.abs(SENT - PAIR[0])).sum(axis=1) / 0.7
    np.testing.assert_allclose(privacy_loss.log_ratio(noise, PAIR, SENT), wanted, atol=1e-8)


def test_the_log_ratio_of_spherical_noise():
    noise = sd.SphericalLaplaceMechanism.from_scale(0.7).noise_on(3)
    wanted = (np.linalg.norm(SENT - PAIR[1], axis=1) - np.linalg.norm(SENT - PAIR[0], axis=1)) / 0.7
    np.testing.assert_allclose(privacy_loss.log_ratio(noise, PAIR, SENT), wanted, atol=1e-12)


def test_the_log_ratio_of_a_cap_is_that_of_its_rims():
    mechanism = sd.SphericalCapMechanism(2.0, 1.0)
    pair = np.array([1.0, 0.0]), np.array([-1.0, 0.0])
    sent = mechanism.privatize(np.tile(pair[0], (500, 1)), random_state=0)
    rim = mechanism.rim(2)
    wanted = 2.0 * ((sent[:, 0] >= rim).astype(float) - (-sent[:, 0] >= rim))
    np.testing.assert_allclose(privacy_loss.log_ratio(mechanism.noise_on(2), pair, sent), wanted, atol=1e-12)


def test_the_log_ratio_of_labels():
    noise = sd.FiniteChannel([[0.7, 0.3], [0.2, 0.8]], ("a", "b")).noise
    found = privacy_loss.log_ratio(noise, (np.array([0.0]), np.array([1.0])), np.array([[0.0], [1.0]]))
    np.testing.assert_allclose(found, [math.log(3.5), math.log(3 / 8)], rtol=1e-12)


@pytest.mark.parametrize("count", [5, 300])
def test_the_exact_loss_of_many_labels(count):
    """The worst pair of labels is found among all, and among many by their extreme columns."""
    matrix = np.full((count, count), 1.0)
    matrix[count - 2, 3] += 0.25
    matrix[1, 3] -= 0.5
    matrix /= matrix.sum(axis=1, keepdims=True)
    noise = sd.FiniteChannel(matrix.tolist(), tuple(range(count))).noise
    wanted = math.log(matrix[count - 2, 3] / matrix[1, 3])
    assert privacy_loss.worst_inputs(noise) == (count - 2, 1)
    assert privacy_loss.exact_loss(noise, PAIR, PURE)[0] == pytest.approx(wanted, rel=1e-9)
    assert privacy_loss.exact_loss(noise, PAIR, sd.Guarantee(0.1, 0.0))[1] > 0


def test_the_exact_loss_of_pure_noise_on_vectors_is_its_norm_over_the_scale():
    laplace = sd.LaplaceMechanism.from_scale(0.7).noise
    spherical = sd.SphericalLaplaceMechanism.from_scale(0.7).noise_on(3)
    difference = PAIR[1] - PAIR[0]
    assert privacy_loss.exact_loss(laplace, PAIR, PURE)[0] == pytest.approx(np.abs(difference).sum() / 0.7, rel=1e-9)
    assert privacy_loss.exact_loss(spherical, PAIR, PURE)[0] == pytest.approx(np.linalg.norm(difference) / 0.7)


def test_the_exact_loss_of_a_coordinate_without_noise_is_infinite():
    noise = sd.GaussianMechanism.from_scale([0.5, 0.5, 0.0]).noise
    apart = np.zeros(3), np.array([0.0, 0.0, 1.0])
    assert privacy_loss.exact_loss(noise, apart, Guarantee(1.0, 1e-5))[1] == 1.0
    assert privacy_loss.exact_loss(noise, (PAIR[0], PAIR[0]), Guarantee(1.0, 1e-5))[1] == 0.0


def test_losses_of_parts_add_or_compose():
    coin, laplace = sd.RandomizedResponse(1.0), sd.LaplaceMechanism(0.5, bounds=(0, 1))
    ends = np.array([0.0]), np.array([1.0])
    labels = np.array([-1.0]), np.array([1.0])
    parts = [(coin.noise, labels, coin.guarantee), (laplace.noise, ends, laplace.guarantee)]
    assert privacy_loss.composed_loss(parts, Guarantee(1.5, 0.0))[0] == pytest.approx(1.5, rel=1e-9)
    normal = sd.GaussianMechanism(1.0, 1e-5, 0.5)
    together = sd.Release({"x": normal}, coin).guarantee
    parts = [(coin.noise, labels, coin.guarantee), (normal.noise, (ends[0] - 0.5, ends[1] - 0.5), normal.guarantee)]
    found = privacy_loss.composed_loss(parts, together)
    assert found[1] == pytest.approx(1e-5, rel=1e-5)
