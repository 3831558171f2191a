"""The inverse of spherical noise on functions of scores, by means over the law of the noise of a score."""

import itertools
import math

import numpy as np
import pytest
import sympy as sp
from scipy import special

import symdebias as sd
from symdebias.codegen.numeric import numeric
from symdebias.exceptions import NoExactCorrectionError
from symdebias.transforms import inverse_spherical, quadrature
from symdebias.transforms.surrogate import Scores, Surrogate
from symdebias.transforms.waves import Scene

U, S = sp.Symbol("u", real=True), sp.Symbol("s", positive=True)
LOGISTIC = sp.log(1 + sp.exp(-U))


def noise_on(columns, padded=False):
    return sd.SphericalLaplaceMechanism.from_scale(1.0, padded=padded).noise_on(columns)


def rule_of_score(order, s):
    """Points and weights of the noise of a score, from its Bessel density: composite Gauss rules in floating point.

    phi = (1 + s w^2/(2 nu))^-nu is that of the density proportional to |e/c|^(nu - 1/2) K_(nu - 1/2)(|e|/c),
    c^2 = s/(2 nu).
    """
    c, index = math.sqrt(s / (2 * order)), order - 0.5
    t, weights = np.polynomial.legendre.leggauss(40)
    edges = np.concatenate([[0], np.geomspace(1e-4, 1, 12), np.linspace(2, 90, 45)])
    points = np.concatenate([(a + b) / 2 + (b - a) / 2 * t for a, b in itertools.pairwise(edges)])
    shares = np.concatenate([(b - a) / 2 * weights for a, b in itertools.pairwise(edges)])
    law = points**index * special.kve(index, points) * np.exp(-points) * shares
    law /= 2 * law.sum()
    return c * np.concatenate([-points, points]), np.concatenate([law, law])


@pytest.mark.parametrize(
    ("columns", "s", "u", "golden"),
    [
        (3, 1, 0.7, 0.287752942501),
        (11, 1, 0.7, 0.284286390574),
        (3, 4, -1.2, 1.09550943461),
        (11, 4, -1.2, 1.37166231628),
    ],
)
def test_golden_values_of_the_logistic_loss(columns, s, u, golden):
    corrected = inverse_spherical(LOGISTIC, (U,), sp.Matrix([[S]]), noise_on(columns))
    assert numeric(corrected, (U, S))(np.array([u]), float(s))[0] == pytest.approx(golden, rel=2e-10)


def test_golden_value_of_the_exponential_loss():
    corrected = inverse_spherical(sp.exp(-U), (U,), sp.Matrix([[S]]), noise_on(2))
    assert float(corrected.subs({U: 0.5, S: 0.3})) == pytest.approx(0.51786495596, rel=1e-10)


CASES = {
    "logistic": (LOGISTIC, True),
    "square": ((U - 1) ** 2 / 2, False),
    "sixth power": (U**6 / 10 - U**3, False),
    "exponential": (sp.exp(-U / 2), False),
    "exponential times a power": (U**2 * sp.exp(U / 3), False),
    "waves": (sp.cos(2 * U) + U * sp.sin(U / 2), False),
    "softplus times wave": (LOGISTIC * sp.cos(U), True),
    "Gaussian": (sp.exp(-((U - 1) ** 2) / 4), True),
}


@pytest.mark.in_turn
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(("columns", "padded"), [(2, False), (3, False), (2, True), (5, False), (6, False)])
@pytest.mark.parametrize("s", [0.4, 1.5])
def test_the_mean_over_the_noise_is_the_function(name, columns, padded, s):
    expression, needs_operator = CASES[name]
    noise = noise_on(columns, padded)
    if needs_operator and noise.operator is None:
        with pytest.raises(NoExactCorrectionError, match="no finite operator"):
            inverse_spherical(expression, (U,), sp.Matrix([[S]]), noise)
        return
    corrected = numeric(inverse_spherical(expression, (U,), sp.Matrix([[S]]), noise), (U, S))
    points, weights = rule_of_score(float(noise.order), s)
    for u in (-1.3, 0.0, 0.8):
        wanted = float(expression.subs(U, u))
        assert abs(weights @ corrected(u + points, s) - wanted) < 1e-10 * max(1, abs(wanted))


@pytest.mark.in_turn
@pytest.mark.parametrize("columns", [2, 3, 5])
def test_several_scores(columns):
    """By a rule over the norm and the direction of the noise in the plane of two scores."""
    V = sp.Symbol("v", real=True)
    s, t, st = 0.7, 0.5, 0.2
    covariance = sp.Matrix([[s, st], [st, t]])
    for expression in (U**2 * V**2 - U * V**3, sp.log(1 + sp.exp(U) + sp.exp(V)), sp.exp(U / 3) * sp.cos(V)):
        noise = noise_on(columns)
        if noise.operator is None and not expression.is_polynomial():
            with pytest.raises(NoExactCorrectionError, match="no finite operator"):
                inverse_spherical(expression, (U, V), covariance, noise)
            continue
        corrected = numeric(inverse_spherical(expression, (U, V), covariance, noise), (U, V))
        root = np.linalg.cholesky(np.array(covariance, dtype=float)) / math.sqrt(noise.variance)
        rule = quadrature.rule(noise, 2, 80)
        at = np.array([0.4, -0.6]) + rule.points @ root.T
        wanted = float(expression.subs({U: 0.4, V: -0.6}))
        assert abs(rule.weights @ corrected(*at.T) - wanted) < 1e-9


@pytest.mark.parametrize(("columns", "padded"), [(2, False), (2, True), (3, False), (7, False)])
@pytest.mark.parametrize("width", [1, 2])
def test_the_rule_of_the_noise_has_its_moments(columns, padded, width):
    """Means of exp(a'e), which are known in closed form, and mixed moments that vanish."""
    noise = noise_on(columns, padded)
    rule = quadrature.rule(noise, width, 40)
    assert len(rule.weights) == quadrature.size(noise, width, 40)
    assert rule.weights.sum() == pytest.approx(1, rel=1e-13)
    a = np.array([0.3, -0.2])[:width]
    nu = (noise.ambient + 1) / 2
    assert rule.weights @ np.exp(rule.points @ a) == pytest.approx((1 - a @ a) ** -nu, rel=1e-12)
    assert rule.weights @ rule.points[:, 0] ** 2 == pytest.approx(noise.variance, rel=1e-12)
    if width == 2:
        assert abs(rule.weights @ (rule.points[:, 0] * rule.points[:, 1])) < 1e-12
        squares = rule.points**2
        # Not independent: the norm is common.
        assert rule.weights @ (squares[:, 0] * squares[:, 1]) > 1.1 * noise.variance**2


def test_powers_are_taken_to_hermite_polynomials_as_the_columns_grow_many():
    """Many columns come near normal noise, whose inverse takes u^4 to u^4 - 6 s u^2 + 3 s^2."""
    many = noise_on(10_001).monomial(4)
    assert [float(e) for e in many] == pytest.approx([3, 0, -6, 0, 1], rel=1e-3)


def test_functions_with_kinks_and_operators_of_high_order_are_refused():
    with pytest.raises(NoExactCorrectionError, match="derivatives"):
        inverse_spherical(sp.Abs(U), (U,), sp.Matrix([[S]]), noise_on(3))
    with pytest.raises(NoExactCorrectionError, match="operator of order 52"):
        inverse_spherical(LOGISTIC, (U,), sp.Matrix([[S]]), noise_on(51))


def test_waves_of_surrogates_are_priced_by_the_law_of_the_noise():
    """The design's price of a surrogate is the mean variance of its inverted slope, by a rule over the noise."""
    noise, s, frequency = noise_on(3), 0.8, 0.7
    scores = Scores.within(2.0, 20)
    scene = Scene(scores, scores.chances, frequency, 4, np.array([s]), 0.0, shape=noise.shape)
    rng = np.random.default_rng(0)
    one = Surrogate(frequency, (0.0, 0.3, 0.4), tuple(0.1 * rng.normal(size=4)), tuple(0.1 * rng.normal(size=4)))
    w = frequency * np.arange(1, 5)
    grown = (1 + s * w**2 / (2 * noise.shape)) ** noise.shape
    e, weights = rule_of_score(noise.shape, s)

    def slope(u):
        angle = np.multiply.outer(u, w)
        return 0.3 + 0.8 * u + np.cos(angle) @ (w * grown * one.sines) - np.sin(angle) @ (w * grown * one.cosines)

    variance = 0.0
    for u, chance in zip(scores.values, scores.chances, strict=True):
        values = slope(u + e)
        variance += chance * weights @ (values - weights @ values) ** 2
    assert scene.price(one) == pytest.approx(variance, rel=1e-9)
    normal = Scene(scores, scores.chances, frequency, 4, np.array([s]), 0.0)
    assert normal.price(one) > 1.2 * variance
