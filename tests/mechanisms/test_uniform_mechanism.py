import numpy as np
import pytest
import sympy as sp
from hypothesis import given
from hypothesis import strategies as st
from sampling_statistics import RECORDS, faults, law_of

from symdebias.mechanisms.uniform import UniformMechanism
from symdebias.noise import VALUE

HALF = UniformMechanism(0.5)


def test_it_makes_no_claim():
    assert HALF.guarantee is None
    assert UniformMechanism(0.5, bounds=(0, 1)).guarantee is None
    assert (HALF.bound, HALF.width) == (None, None)
    bounded = UniformMechanism(0.5, bounds=(-3, 2))
    assert (bounded.bound, bounded.width, bounded.bounds) == (3.0, 1, (-3.0, 2.0))


@given(st.floats(1e-6, 1e6))
def test_the_noise_is_that_of_the_law(half_width):
    noise = UniformMechanism(half_width).noise
    assert noise.variance == pytest.approx(half_width**2 / 3, rel=1e-15)
    density = sp.lambdify(VALUE, noise.density, "numpy")
    points = half_width * np.array([-1.01, -0.99, 0.0, 0.3, 0.99, 1.01])
    np.testing.assert_allclose(density(points), np.array([0, 1, 1, 1, 1, 0]) / (2 * half_width), rtol=1e-14)


def test_rounding_is_uniform_noise():
    """Sheppard: what is lost by rounding a smooth number to integers is uniform on [-1/2, 1/2] up to rounding."""
    numbers = np.random.default_rng(0).normal(scale=40.0, size=RECORDS)
    assert faults(np.rint(numbers) - numbers, law_of(HALF.noise)) == []
