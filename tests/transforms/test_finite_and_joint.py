"""Finite inverses, the joint Gaussian rule and the universal rule: laws, against forward means by quadrature."""

import math

import mpmath
import numpy as np
import pytest
import sympy as sp
from hypothesis import given
from hypothesis import strategies as st

from symdebias.codegen import stable
from symdebias.codegen.functions import expit, logistic_density, logsumexp, softplus
from symdebias.codegen.numeric import numeric
from symdebias.exceptions import NoExactCorrectionError
from symdebias.mechanisms.discrete_laplace import discrete_laplace_noise
from symdebias.mechanisms.discrete_staircase import discrete_staircase_noise
from symdebias.mechanisms.laplace import laplace_noise
from symdebias.mechanisms.staircase import staircase_noise
from symdebias.mechanisms.uniform import uniform_noise
from symdebias.noise import (
    FREQUENCY,
    VALUE,
)
from symdebias.transforms import (
    difference_operator,
    differential_operator,
    exponential_sum,
    heat,
    inverse_heat,
    joint_inverse_heat,
    polynomial_inverse,
    quadrature,
)

U, V, W = sp.symbols("u v w", real=True)
SMOOTH = [sp.exp(U / 2), sp.cos(2 * U), U**4 - U, sp.log(1 + sp.exp(U)), sp.tanh(U), sp.exp(-(U**2))]
numbers = st.floats(-2, 2).map(lambda x: sp.Float(round(x, 3)))


def mean(expression, noise, at, *, nodes=120):
    points, weights = quadrature.one_dimensional(noise, nodes)
    value = numeric(expression, (U,))
    return float(weights @ (value(at + points) + 0 * points))


@pytest.mark.parametrize("expression", SMOOTH, ids=str)
@pytest.mark.parametrize("scale", [0.1, 0.5])
def test_the_operator_of_laplace_noise_undoes_it(expression, scale):
    inverse = differential_operator(expression, U, (1, scale**2))
    for at in (-1.3, 0.0, 0.7):
        assert mean(inverse, laplace_noise(scale), at) == pytest.approx(float(expression.subs(U, at)), abs=1e-9)


@pytest.mark.parametrize("expression", [*SMOOTH, sp.Abs(U), sp.Max(0, 1 - U), sp.sign(U)], ids=str)
@pytest.mark.parametrize("step", [0.25, 1.0])
def test_the_difference_of_grid_noise_undoes_it_kinks_included(expression, step):
    noise = discrete_laplace_noise(0.4, step)
    inverse = difference_operator(expression, U, noise.inverse_differences)
    for at in (-1.25, 0.0, 0.75):
        assert mean(inverse, noise, at) == pytest.approx(float(expression.subs(U, at)), abs=1e-10)


def test_the_three_point_difference_of_the_theory():
    """f - q/(1-q)^2 (f(.+1) - 2 f + f(.-1)), q = e^(-1/b)."""
    q = math.exp(-1 / 0.8)
    weights = dict(discrete_laplace_noise(0.8, 1.0).inverse_differences)
    c = q / (1 - q) ** 2
    assert weights == pytest.approx({-1.0: -c, 0.0: 1 + 2 * c, 1.0: -c})


@pytest.mark.in_turn
@pytest.mark.parametrize("noise", [
    laplace_noise(0.7), discrete_laplace_noise(0.7, 0.5), uniform_noise(0.9), staircase_noise(1.5, 1.0, 0.3),
    discrete_staircase_noise(1.5, 4, 2, 0.25),
], ids=["laplace", "grid", "uniform", "staircase", "discrete staircase"])  # fmt: skip
@pytest.mark.in_turn
@pytest.mark.parametrize("power", [0, 1, 2, 3, *(pytest.param(n, marks=pytest.mark.exhaustive) for n in (4, 5, 6))])
def test_moments_undo_any_noise_for_polynomials(noise, power):
    inverse = polynomial_inverse(U**power, U, noise.inverse_taylor(power))
    for at in (-0.9, 0.4):
        assert mean(inverse, noise, at) == pytest.approx(at**power, abs=1e-9)


@pytest.mark.parametrize("noise", [
    laplace_noise(0.7), discrete_laplace_noise(0.7, 0.5), uniform_noise(0.9), staircase_noise(1.5, 1.0, 0.3),
    staircase_noise(3.0, 2.0, 0.5), discrete_staircase_noise(1.5, 4, 2, 0.25),
], ids=["laplace", "grid", "uniform", "staircase", "half staircase", "discrete staircase"])  # fmt: skip
def test_densities_and_characteristic_functions_agree(noise):
    points, weights = quadrature.one_dimensional(noise, 96)
    assert weights @ points**2 == pytest.approx(noise.variance, rel=1e-10)
    for frequency in (0.3, 1.1, 2.7):
        phi = float(noise.characteristic_function.subs(FREQUENCY, frequency))
        assert weights @ np.cos(frequency * points) == pytest.approx(phi, abs=1e-9)
    assert noise.density.free_symbols <= {VALUE}


@pytest.mark.in_turn
@given(numbers, numbers)
def test_inverses_are_linear_and_commute_with_the_derivative(a, b):
    f, g = sp.exp(U / 3), sp.cos(U) * U
    whole = differential_operator(a * f + b * g, U, (1, 0.3))
    parts = a * differential_operator(f, U, (1, 0.3)) + b * differential_operator(g, U, (1, 0.3))
    assert abs(float((whole - parts).subs(U, 0.6))) < 1e-12
    slope = differential_operator(sp.diff(g, U), U, (1, 0.3)) - sp.diff(differential_operator(g, U, (1, 0.3)), U)
    assert abs(float(slope.subs(U, 0.6))) < 1e-12


def test_kinks_have_no_differential_operator():
    with pytest.raises(NoExactCorrectionError, match="has a kink or a jump"):
        differential_operator(sp.Abs(U), U, (1, 0.3))


# ---- the joint rule --------------------------------------------------------------------------------------

COVARIANCE = np.array([[0.3, 0.1], [0.1, 0.2]])
JOINT = {
    "polynomial": U**2 * V + U * V**3 - V,
    "exponential": sp.exp(U - V / 2) * U,
    "waves": sp.cos(U + 2 * V) * V + sp.sin(U),
    "Gaussian": sp.exp(-((U - V) ** 2) / 4 + U / 3) * (1 + U * V),
}


@pytest.mark.parametrize("name", JOINT)
def test_the_joint_rule_undoes_correlated_noise(name):
    inverse = joint_inverse_heat(JOINT[name], (U, V), sp.Matrix(COVARIANCE)).expression
    value = sp.lambdify((U, V), inverse, "numpy")
    t, w = np.polynomial.hermite_e.hermegauss(60)
    grid = np.stack(np.meshgrid(t, t, indexing="ij"), axis=-1).reshape(-1, 2) @ np.linalg.cholesky(COVARIANCE).T
    weights = np.outer(w, w).ravel() / w.sum() ** 2
    for u, v in ((0.3, -0.7), (1.1, 0.4)):
        found = weights @ value(u + grid[:, 0], v + grid[:, 1])
        assert found == pytest.approx(float(JOINT[name].subs({U: u, V: v})), abs=1e-10)


def test_the_joint_rule_is_the_single_one_for_independent_noise():
    s, t = sp.symbols("s t", positive=True)
    f = sp.exp(U * V / 4 - U**2) + U**3 * V
    joint = joint_inverse_heat(f, (U, V), sp.diag(s, t))
    one = inverse_heat(inverse_heat(f, U, s).expression, V, t)
    values = {U: 0.3, V: -0.6, s: 0.2, t: 0.35}
    assert float(joint.expression.subs(values)) == pytest.approx(float(one.expression.subs(values)), rel=1e-12)


@pytest.mark.exhaustive
@pytest.mark.newest
def test_the_conditions_of_the_joint_rule_are_those_of_its_eigenvalues():
    """I + 2 S^1/2 B S^1/2 > 0 and, for a finite variance, I - 2 S^1/2 B S^1/2 > 0."""
    rng = np.random.default_rng(0)
    outcomes = set()
    for _ in range(16):
        B, root = rng.normal(size=(2, 2)), rng.normal(size=(2, 2))
        B, S = (B + B.T) / 2, root @ root.T
        expression = sp.exp(sp.Float(B[0, 0]) * U**2 + 2 * sp.Float(B[0, 1]) * U * V + sp.Float(B[1, 1]) * V**2)
        names = sp.Matrix([[sp.Symbol("s11"), sp.Symbol("s12")], [sp.Symbol("s12"), sp.Symbol("s22")]])
        found = joint_inverse_heat(expression, (U, V), names)
        values = {names[0, 0]: S[0, 0], names[0, 1]: S[0, 1], names[1, 1]: S[1, 1]}
        eigenvalues = np.linalg.eigvals(2 * S @ B).real
        exists = all(bool(condition.subs(values)) for condition in found.conditions)
        finite = all(bool(condition.subs(values)) for condition in found.variance_conditions)
        assert exists == bool(np.all(1 + eigenvalues > 0))
        assert finite == bool(np.all(1 - eigenvalues > 0))
        outcomes.add((exists, finite))
    assert len(outcomes) >= 3


# ---- the universal rule ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "expression", [U**3, sp.exp(-U) * U**2, sp.cos(2 * U) * U - sp.sin(U), sp.cosh(U) + sp.sin(3 * U)], ids=str
)
def test_factors_of_normal_noise_are_the_heat_flow(expression):
    """exp(lambda u) times exp(-s lambda^2/2) is W^-1, powers of u included."""
    terms = exponential_sum(expression, U)
    s = sp.Rational(3, 10)
    d = sp.Symbol("d")

    def factor(index, k):
        mode = terms.modes[index]
        power = sp.exp(s * (mode.value + d) ** 2 / 2) if mode.imaginary else sp.exp(-s * (mode.value + d) ** 2 / 2)
        return sp.diff(power, d, k).subs(d, 0) / math.factorial(k)

    found = terms.times([factor])
    expected = inverse_heat(expression, U, s).expression
    for at in (-0.8, 0.5):
        assert float(found.subs(U, at)) == pytest.approx(float(expected.subs(U, at)), rel=1e-12)


@pytest.mark.parametrize(
    "expression", [sp.log(1 + sp.exp(U)), sp.exp(-(U**2)), sp.erf(U), sp.exp(U) * sp.cos(U)], ids=str
)
def test_what_is_no_sum_of_exponentials_says_so(expression):
    with pytest.raises(NoExactCorrectionError):
        exponential_sum(expression, U)


# ---- stable forms ----------------------------------------------------------------------------------------


@pytest.mark.in_turn
@pytest.mark.parametrize("order", range(1, 13))
def test_high_derivatives_of_softplus_keep_their_digits(order):
    """Against 50-digit arithmetic, relative to the largest value of the derivative."""
    derivative = softplus(U)
    for _ in range(order):
        derivative = sp.expand(sp.diff(derivative, U))  # in one go it takes seconds
    derivative = stable.in_logistic_density(derivative)
    value = sp.lambdify(U, stable.plain(derivative).subs(sp.Symbol("none"), 0), "numpy")
    grid = np.linspace(-12, 12, 41)
    exact = sp.lambdify(U, sp.diff(sp.log(1 + sp.exp(U)), U, order), "mpmath")
    with mpmath.workdps(50):
        expected = np.array([float(exact(mpmath.mpf(float(at)))) for at in grid])
    np.testing.assert_allclose(value(grid), expected, atol=3e-13 * np.abs(expected).max())


def test_polynomials_in_expit_become_polynomials_in_the_density():
    fourth = stable.in_logistic_density(sp.expand(sp.diff(softplus(U), U, 4)))
    w = logistic_density(U)
    assert sp.expand(fourth - w * (1 - 6 * w)) == 0
    untouched = expit(U) * expit(V)
    assert stable.in_logistic_density(untouched) == untouched
    # Other terms stand beside it: as coefficients of the polynomial they would take minutes.
    other = sp.sin(sp.sqrt(1 + U**2))
    assert stable.in_logistic_density(sp.expand(sp.diff(softplus(U), U, 4)) + other) == fourth + other


def test_logarithms_of_many_exponentials():
    expression = sp.log(sp.exp(U) + 2 * sp.exp(V) + sp.exp(W))
    assert stable.rewrite(expression) == logsumexp(U, V + sp.log(2), W) or stable.rewrite(expression).has(logsumexp)
    back = stable.plain(stable.rewrite(expression))
    values = {U: 0.3, V: -0.2, W: 1.1}
    assert float(back.subs(values)) == pytest.approx(float(expression.subs(values)), rel=1e-14)
    slope = stable.plain(sp.diff(stable.rewrite(expression), U, 2, V))
    assert float(slope.subs(values)) == pytest.approx(float(sp.diff(expression, U, 2, V).subs(values)), rel=1e-12)


def test_the_forward_transform_is_the_inverse_backwards():
    s = sp.Symbol("s", positive=True)
    f = sp.exp(-U) * U**2 + sp.cos(U)
    there = heat(inverse_heat(f, U, s).expression, U, s).expression
    assert abs(float((there - f).subs({U: 0.4, s: 0.7}))) < 1e-12
