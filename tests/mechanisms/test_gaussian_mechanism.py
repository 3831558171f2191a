import numpy as np
import pytest

import symdebias as sd
from symdebias.mechanisms import GaussianMechanism
from symdebias.privacy import Guarantee, analytic_gaussian_scale, classical_gaussian_scale

UNIT = GaussianMechanism(epsilon=1.0, delta=1e-5, radius=1.0)


def test_the_scale_is_calibrated_to_twice_the_radius():
    assert UNIT.scale == analytic_gaussian_scale(1.0, 1e-5, 2.0)
    classical = GaussianMechanism(epsilon=1.0, delta=1e-5, radius=1.0, calibration="classical")
    assert classical.scale == classical_gaussian_scale(1.0, 1e-5, 2.0)
    assert UNIT.noise.is_gaussian
    assert UNIT.noise.variance == UNIT.scale**2
    assert UNIT.guarantee == Guarantee(1.0, 1e-5)


@pytest.mark.parametrize("units", [[1e8, 1e-8, 1.0], [1e-7, 1.0, 1e7]])
def test_correlated_noise_has_its_covariance_in_all_units(units):
    """4,000 draws tell a covariance to .02; that of 1e-8 had 3.6 times its variance beside one of 1e8."""
    covariance = np.array([[0.3, 0.25, 0.1], [0.25, 0.3, 0.05], [0.1, 0.05, 0.4]])
    given = GaussianMechanism.from_covariance(covariance * np.multiply.outer(units, units))
    noise = given.privatize(np.zeros((4_000, 3)), random_state=0) / units
    np.testing.assert_allclose(np.cov(noise.T), covariance, atol=0.05)


@pytest.mark.parametrize(
    "matrix",
    [
        [[1e12, 0.0, 0.0], [0.0, 1e-12, 2e-12], [0.0, 2e-12, 1e-12]],
        [[1e-10, 5e-11], [-5e-11, 1e-10]],
        [[0.0, 0.5], [0.5, 1.0]],
    ],
    ids=["indefinite", "not symmetric", "correlated with nothing"],
)
def test_what_is_no_covariance_in_some_units_is_refused(matrix):
    with pytest.raises(ValueError, match="Give a symmetric positive semidefinite matrix"):
        GaussianMechanism.from_covariance(matrix)


def test_the_radius_has_no_default():
    with pytest.raises(TypeError, match="radius"):
        GaussianMechanism(epsilon=1.0, delta=1e-5)


@pytest.mark.parametrize("loss", [sd.losses.logistic(), sd.losses.exponential()], ids=str)
def test_what_is_shown_has_the_width_of_the_covariance(loss):
    release = sd.Release(GaussianMechanism.from_scale([5.0, 15000.0, 0.7]), fit_intercept=True)
    assert release.number_of_columns == 3
    corrected = sd.debias(loss, release)
    assert corrected.at(3).number_of_parameters == 4
    with pytest.raises(ValueError, match="X has 2 columns, but the release has 3"):
        _ = corrected.at(2).derivation
