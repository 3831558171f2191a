"""Laws of noise exist at every scale and budget: their curvature at 0 is that of their variance."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from symdebias.mechanisms.discrete_laplace import discrete_laplace_noise
from symdebias.mechanisms.gaussian import gaussian_noise
from symdebias.mechanisms.laplace import laplace_noise
from symdebias.mechanisms.staircase import staircase_noise
from symdebias.mechanisms.uniform import uniform_noise
from symdebias.noise import AdditiveNoise


@given(st.floats(1e-100, 1e120))
def test_normal_noise_is_gaussian_at_every_scale(scale):
    noise = gaussian_noise(scale)
    assert noise.is_gaussian
    assert noise.variance == scale * scale
    assert noise == gaussian_noise(scale)


@pytest.mark.in_turn
@pytest.mark.parametrize("scale", [1e-100, 1e-3, 0.03, 0.1, 0.7, 1.0, 37.0, 1e6, 1e9, 1e100])
def test_noise_of_every_scale_exists(scale):
    assert laplace_noise(scale).inverse_polynomial == pytest.approx((1.0, scale**2))
    assert uniform_noise(scale).variance == pytest.approx(scale**2 / 3)
    if 0.03 <= scale <= 2**32:
        weights = dict(discrete_laplace_noise(scale, 1.0).inverse_differences)
        q = math.exp(-1 / scale)
        assert weights[1.0] == pytest.approx(-q / math.expm1(-1 / scale) ** 2, rel=1e-12)
        assert discrete_laplace_noise(0.1 * scale, 0.1).variance == pytest.approx(-0.02 * weights[1.0], rel=1e-9)


@pytest.mark.parametrize("scale", [1e-100, 1e-3, 0.1, 1.0, 37.0, 1e9, 1e100])
@pytest.mark.parametrize("make", [laplace_noise, gaussian_noise])
def test_families_that_are_not_looked_at_are_what_noise_of_ones_own_must_be(make, scale):
    noise = make(scale)
    found = AdditiveNoise(
        noise.variance, noise.characteristic_function, noise.density, tail_rate=noise.tail_rate
    )  # fmt: skip
    assert found == noise
    assert hash(found) == hash(noise)
    for other in (1e-160, 1e160):
        with pytest.raises(ValueError, match=r"variance=.* is too"):
            make(other)


@pytest.mark.in_turn
@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1.0, 10.0, 60.0, 300.0, 700.0])
def test_staircases_of_every_budget_exist(epsilon):
    gamma = 1 / (1 + math.exp(epsilon / 2))
    assert staircase_noise(epsilon, 2.0, gamma).variance > 0
    assert staircase_noise(epsilon, 1e-3, 0.5).variance > 0
