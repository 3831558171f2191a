"""Zonal channels: Legendre polynomials of spheres, and the inverse on powers of the score against the channel."""

import math

import numpy as np
import pytest
from cap_quadrature import channel_mean, cosines
from scipy import special

from symdebias.mechanisms.cap_law import CapLaw
from symdebias.zonal import ZonalNoise, inverse_on_monomials, legendre, monomial_table

DIMENSIONS = (2, 3, 4, 11, 40, 200)
# Epsilon and D at which quadrature and float64 leave all digits.
SETTINGS = [(0.5, 2), (2.0, 3), (4.0, 6), (5.0, 11), (8.0, 40), (20.0, 3)]


@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_the_polynomials_are_gegenbauers(dimension):
    t = np.linspace(-1, 1, 41)
    found = legendre(8, dimension, t)
    for k in range(9):
        if dimension == 2:
            wanted = np.cos(k * np.arccos(t))
        else:
            index = dimension / 2 - 1
            wanted = special.eval_gegenbauer(k, index, t) / special.eval_gegenbauer(k, index, 1.0)
        np.testing.assert_allclose(found[k], wanted, atol=1e-12)
    np.testing.assert_allclose(found[:, -1], 1.0, rtol=1e-14)


@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_they_are_orthogonal_and_the_table_writes_powers_in_them(dimension):
    t, mass = cosines(dimension, [0.1])
    assert mass.sum() == pytest.approx(1, abs=1e-12)
    found = legendre(8, dimension, t)
    gram = (found * mass) @ found.T
    assert np.max(np.abs(gram - np.diag(np.diag(gram)))) < 1e-13
    table = monomial_table(8, dimension)
    assert table.min() >= 0
    np.testing.assert_allclose(table.sum(axis=1), 1.0, rtol=1e-14)
    np.testing.assert_allclose(table @ found, t ** np.arange(9)[:, None], atol=1e-13)


def test_without_noise_the_inverse_is_the_identity():
    for dimension in DIMENSIONS:
        np.testing.assert_array_equal(inverse_on_monomials(np.ones(9), dimension), np.eye(9))


@pytest.mark.parametrize(("epsilon", "dimension"), SETTINGS)
def test_the_inverse_on_powers_is_undone_by_the_channel(epsilon, dimension):
    """E sum_i e_ji s^((j - i)/2) u~^i = u^j to 1e-12 of the largest term, by quadrature over the density."""
    law = CapLaw(epsilon)
    degree = 4
    noise = ZonalNoise(1.7, law)
    table = noise.inverse(dimension - 1, degree)
    for cosine in (-1.0, -0.4, 0.0, 0.3, 1.0):
        for j in range(degree + 1):
            row = table[j]
            mean = channel_mean(
                lambda t, row=row: np.polynomial.polynomial.polyval(t, row),
                epsilon=epsilon, rim=law.rim(dimension), dimension=dimension, cosine=cosine,
            )  # fmt: skip
            assert mean == pytest.approx(cosine**j, abs=1e-12 * max(1.0, np.abs(row).max()))


def test_a_polynomial_of_the_score_is_unbiased():
    """At a size of theta and a radius that are not 1: the mean of the released polynomial is the true one."""
    epsilon, width, radius, size = 3.0, 4, 1.7, 0.6
    law = CapLaw(epsilon, 0.5)
    coefficients = np.array([0.3, -1.0, 2.0, 0.5, -0.25])
    released = ZonalNoise(radius, law).unbiased(coefficients, width, size)
    for cosine in (-0.9, 0.2, 0.7):
        mean = channel_mean(
            lambda t: np.polynomial.polynomial.polyval(radius * size * t, released),
            epsilon=epsilon, rim=0.5, dimension=width + 1, cosine=cosine,
        )  # fmt: skip
        wanted = np.polynomial.polynomial.polyval(radius * size * cosine, coefficients)
        assert mean == pytest.approx(wanted, abs=1e-12)
    constant = ZonalNoise(radius, law).unbiased(coefficients, width, 0.0)
    np.testing.assert_array_equal(constant[0], 0.3)


def test_the_table_of_the_square():
    table = inverse_on_monomials(CapLaw(2.0).factors(3, 2), 3)
    np.testing.assert_allclose(table[2], [-1.2275647923, 0.0, 4.6826943769], atol=5e-11)
    one, two = CapLaw(2.0).factors(3, 2)[1:]
    np.testing.assert_allclose(table[1:, 1:], [[1 / one, 0], [0, 1 / two]], rtol=1e-14)
    assert table[2, 0] == pytest.approx((1 - 1 / two) / 3, rel=1e-13)


def test_a_hidden_degree_is_refused():
    """At gamma = 0 the cap is half of the sphere, and even degrees are hidden; near it they nearly are."""
    noise = ZonalNoise(1.0, CapLaw(2.0, 1e-7))
    assert noise.inverse(2, 1)[1, 1] == pytest.approx(1 / noise.factors(2, 1)[1])
    with pytest.raises(ValueError, match="hides polynomials of degree 2"):
        noise.inverse(2, 2)


def test_noises_are_values():
    assert ZonalNoise(1.0, CapLaw(2.0)) == ZonalNoise(1, CapLaw(2))
    assert hash(ZonalNoise(1.0, CapLaw(2.0))) == hash(ZonalNoise(1, CapLaw(2)))
    assert ZonalNoise(1.0, CapLaw(2.0)) != ZonalNoise(1.0, CapLaw(2.0, 0.5))
    with pytest.raises(ValueError, match="radius"):
        ZonalNoise(math.inf, CapLaw(2.0))
