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
@pytest.mark.parametrize("gamma", [None, 0.5])
def test_the_inverse_on_powers_is_undone_by_the_channel(epsilon, dimension, gamma):
    """E sum_i e_ji s^((j - i)/2) u^i = u^j at a theta, of the estimated score u, to 1e-11 of the largest term."""
    law, radius, size, degree = CapLaw(epsilon, gamma), 1.7, 0.6, 4
    noise = ZonalNoise(radius, law, dimension - 1)
    table, s = noise.table(degree), noise.variance * size**2
    assert noise.reach(s) == pytest.approx(radius * size, rel=1e-14)
    np.testing.assert_array_equal(table[:2, :2], np.eye(2))
    powers = np.arange(degree + 1)
    for cosine in (-1.0, -0.4, 0.0, 0.3, 1.0):
        for j in noise.usable(degree):
            row = table[j] * s ** (np.maximum(j - powers, 0) / 2)
            mean = channel_mean(
                lambda t, row=row: np.polynomial.polynomial.polyval(radius * size * t / noise.gain, row),
                epsilon=epsilon, rim=law.rim(dimension), dimension=dimension, cosine=cosine,
            )  # fmt: skip
            largest = np.abs(row * (radius * size / noise.gain) ** powers).max()
            assert mean == pytest.approx((radius * size * cosine) ** j, abs=1e-11 * max(1.0, largest))


@pytest.mark.parametrize(("epsilon", "dimension"), SETTINGS)
def test_with_the_best_rim_moments_are_those_of_additive_noise(epsilon, dimension):
    """lambda_2 = lambda_1 gamma: with gamma = lambda_1 the square of the estimated score has the mean u^2 + s."""
    noise = ZonalNoise(1.3, CapLaw(epsilon), dimension - 1)
    assert noise.square_gain == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(noise.table(2)[2], [-1.0, 0.0, 1.0], atol=1e-12)
    other = ZonalNoise(1.3, CapLaw(epsilon, 0.5), dimension - 1)
    assert other.square_gain == pytest.approx(0.5 / other.gain, rel=1e-12)


def test_second_moments_at_the_centre():
    """The variance per column at the centre, at epsilon 2 and R^2 = 2, and at epsilon 5 and R^2 = 10."""
    assert ZonalNoise(math.sqrt(2), CapLaw(2.0), 2).variance == pytest.approx(2.46, abs=5e-3)
    assert ZonalNoise(math.sqrt(10), CapLaw(5.0), 10).variance == pytest.approx(2.37, abs=5e-3)


@pytest.mark.parametrize("dimension", [2, 3, 11])
def test_the_transition_is_the_law_of_the_released_cosine(dimension):
    """Its columns sum to 1, and its means are lambda_1 times the true cosine up to the width of the cells."""
    law = CapLaw(3.0)
    noise = ZonalNoise(1.0, law, dimension - 1)
    cells, cosines = 400, np.array([-1.0, -0.35, 0.0, 0.8, 1.0])
    found = noise.transition(cells, cosines)
    np.testing.assert_allclose(found.sum(axis=0), 1.0, atol=1e-12)
    assert found.min() >= -1e-15
    middles = (np.arange(cells) + 0.5) * 2 / cells - 1
    np.testing.assert_allclose(middles @ found, noise.gain * cosines, atol=3e-3)


def test_the_table_of_the_square():
    table = inverse_on_monomials(CapLaw(2.0).factors(3, 2), 3)
    np.testing.assert_allclose(table[2], [-1.2275647923, 0.0, 4.6826943769], atol=5e-11)
    one, two = CapLaw(2.0).factors(3, 2)[1:]
    np.testing.assert_allclose(table[1:, 1:], [[1 / one, 0], [0, 1 / two]], rtol=1e-14)
    assert table[2, 0] == pytest.approx((1 - 1 / two) / 3, rel=1e-13)


def test_a_hidden_degree_has_no_inverse():
    """At gamma = 0 the cap is half of the sphere, and even degrees are hidden; near it they nearly are."""
    noise = ZonalNoise(1.0, CapLaw(2.0, 1e-7), 2)
    assert noise.usable(3) == [0, 1, 3]
    table = noise.table(3)
    assert np.isnan(table[2]).all()
    assert np.isfinite(table[[0, 1, 3]]).all()


def test_noises_are_values():
    assert ZonalNoise(1.0, CapLaw(2.0), 3) == ZonalNoise(1, CapLaw(2), 3)
    assert hash(ZonalNoise(1.0, CapLaw(2.0), 3)) == hash(ZonalNoise(1, CapLaw(2), 3))
    assert ZonalNoise(1.0, CapLaw(2.0), 3) != ZonalNoise(1.0, CapLaw(2.0, 0.5), 3)
    assert ZonalNoise(1.0, CapLaw(2.0), 3) != ZonalNoise(1.0, CapLaw(2.0), 4)
    for arguments in ((math.inf, CapLaw(2.0), 3), (1.0, CapLaw(2.0), 0)):
        with pytest.raises(ValueError, match=r"radius|dimension"):
            ZonalNoise(*arguments)
