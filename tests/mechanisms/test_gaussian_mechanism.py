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
