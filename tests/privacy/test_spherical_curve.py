"""The privacy curve of spherical Laplace noise against golden values, closed forms, and integrals of another kind."""

import math

import numpy as np
import pytest
from scipy import integrate, special

from symdebias.privacy import spherical_laplace_delta, spherical_laplace_scale


def test_golden_values():
    assert spherical_laplace_delta(1.0, 1.0, 1.05, 2) == pytest.approx(0.0044445360, rel=2e-6)
    assert spherical_laplace_scale(5.0, 1e-5, 2 * math.sqrt(10.0), 10) == pytest.approx(1.17533916, rel=1e-7)


def curve(epsilon, shift, dimension):
    """delta = P(L > epsilon) - e^epsilon Q(L > epsilon), each probability by an adaptive integral over the angle."""
    area = (shift**2 - epsilon**2) / 2
    edge = math.acos(epsilon / shift)

    def law(angle):
        return math.sin(angle) ** (dimension - 2)

    def seen(angle):
        return law(angle) * special.gammainc(dimension, area / (epsilon - shift * math.cos(angle)))

    def from_the_other(angle):
        return law(angle) * special.gammaincc(dimension, area / (shift * math.cos(angle) - epsilon))

    settings = {"epsabs": 1e-14, "epsrel": 1e-12, "limit": 400}
    whole = integrate.quad(law, 0, math.pi, **settings)[0]
    first = integrate.quad(seen, edge + 1e-12, math.pi, **settings)[0] + integrate.quad(law, 0, edge, **settings)[0]
    second = integrate.quad(from_the_other, 0, edge - 1e-12, **settings)[0]
    return (first - math.exp(epsilon) * second) / whole


@pytest.mark.parametrize(
    ("epsilon", "shift", "dimension"), [(1.0, 1.05, 2), (1.0, 1.5, 3), (5.0, 5.4, 10), (0.1, 0.4, 7), (2.0, 2.6, 40)]
)
def test_delta_is_the_difference_of_two_probabilities(epsilon, shift, dimension):
    found, wanted = spherical_laplace_delta(epsilon, 1.0, shift, dimension), curve(epsilon, shift, dimension)
    assert wanted < found < wanted * (1 + 1e-5) + 1e-11


@pytest.mark.parametrize("shift", [1.0001, 1.3, 9.0])
def test_one_dimension_is_laplace_noise(shift):
    assert spherical_laplace_delta(1.0, 1.0, shift, 1) == pytest.approx(-math.expm1((1.0 - shift) / 2), rel=2e-6)


@pytest.mark.in_turn
@pytest.mark.parametrize(("epsilon", "delta", "dimension"), [(1.0, 1e-5, 3), (0.2, 1e-3, 10), (8.0, 1e-6, 2)])
def test_the_scale_keeps_delta_and_is_no_larger_than_it_need_be(epsilon, delta, dimension):
    scale = spherical_laplace_scale(epsilon, delta, 2.0, dimension)
    assert spherical_laplace_delta(epsilon, scale, 2.0, dimension) <= delta * (1 + 1e-12)
    assert spherical_laplace_delta(epsilon, scale * (1 - 1e-5), 2.0, dimension) > delta
    assert scale < 2.0 / epsilon
    assert curve(epsilon, 2.0 / scale, dimension) <= delta


def test_a_pure_budget_has_no_delta_and_less_noise_has_more():
    assert spherical_laplace_delta(1.0, 2.0, 2.0, 5) == 0.0
    deltas = [spherical_laplace_delta(1.0, scale, 2.0, 5) for scale in (1.9, 1.5, 1.0, 0.5, 0.1)]
    assert np.all(np.diff(deltas) > 0)
    assert 0 < deltas[0] < deltas[-1] <= 1
