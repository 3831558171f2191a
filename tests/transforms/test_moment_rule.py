"""Gauss rules by moments: against exponential moments in closed form, and the known rules of known laws."""

import numpy as np
import pytest
import sympy as sp

from symdebias.exceptions import NoExactCorrectionError
from symdebias.noise import FREQUENCY as W
from symdebias.noise import AdditiveNoise
from symdebias.transforms import quadrature
from symdebias.transforms.moment_rule import moment_rule

# Noise, E exp(z e), and the largest z that a rule of 24 nodes has to 1e-13.
LAWS = {
    "uniform": (AdditiveNoise(1 / 3, sp.sin(W) / W), lambda z: np.sinh(z) / z, 30.0),
    "normal": (AdditiveNoise(2.25, sp.exp(-9 * W**2 / 8)), lambda z: np.exp(9 * z**2 / 8), 2.0),
    "two normal laws": (
        AdditiveNoise(1.8, (9 * sp.exp(-(W**2) / 2) + sp.exp(-9 * W**2 / 2)) / 10),
        lambda z: (9 * np.exp(z**2 / 2) + np.exp(9 * z**2 / 2)) / 10,
        0.9,
    ),
    "rare and far": (
        AdditiveNoise(0.99999 + 0.1, (99_999 * sp.exp(-(W**2) / 2) + sp.exp(-5_000 * W**2)) / 100_000),
        lambda z: (99_999 * np.exp(z**2 / 2) + np.exp(5_000 * z**2)) / 100_000,
        0.025,
    ),
    "Laplace": (AdditiveNoise(2.0, 1 / (1 + W**2), tail_rate=1.0), lambda z: 1 / (1 - z**2), 0.5),
    "of two values": (AdditiveNoise(1.0, sp.cos(W)), np.cosh, 30.0),
    "a value and a Laplace number": (
        AdditiveNoise(3.0, sp.cos(W) / (1 + W**2), tail_rate=1.0), lambda z: np.cosh(z) / (1 - z**2), 0.5,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LAWS)
def test_exponential_moments(name):
    noise, wanted, far = LAWS[name]
    points, weights = moment_rule(noise, 24)
    np.testing.assert_allclose(points, -points[::-1], atol=1e-12 * points.max())
    for z in (far / 4, far / 2, far):
        assert weights @ np.exp(z * points) == pytest.approx(wanted(z), rel=1e-13)
    assert weights @ points**2 == pytest.approx(noise.variance, rel=1e-14)


def test_rules_of_known_laws():
    """Hermite's and Legendre's, and all values of a law that has few, whatever was asked for."""
    for name, (nodes, masses), scale in (
        ("normal", np.polynomial.hermite_e.hermegauss(20), 1.5), ("uniform", np.polynomial.legendre.leggauss(20), 1.0)
    ):  # fmt: skip
        points, weights = moment_rule(LAWS[name][0], 20)
        np.testing.assert_allclose(points, scale * nodes, rtol=1e-12)
        np.testing.assert_allclose(weights, masses / masses.sum(), rtol=1e-10)
    thrice = AdditiveNoise(0.5, (1 + sp.cos(W)) / 2)
    points, weights = moment_rule(thrice, 40)
    np.testing.assert_allclose(points, [-1, 0, 1], atol=1e-14)
    np.testing.assert_allclose(weights, [0.25, 0.5, 0.25], atol=1e-14)


def test_noise_without_moments_of_all_orders_has_no_rule():
    """Student's law of 5 degrees of freedom."""
    size = sp.sqrt(5) * sp.Abs(W)
    student = AdditiveNoise(5 / 3, (1 + size + size**2 / 3) * sp.exp(-size))
    with pytest.raises(NoExactCorrectionError, match=r"states no density, and .* no moments of all orders"):
        quadrature.one_dimensional(student, 24)
