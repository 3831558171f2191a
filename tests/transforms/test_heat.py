import numpy as np
import pytest
import sympy as sp
from hypothesis import given
from hypothesis import strategies as st
from instances import EXACT_MARGIN, NO_CLOSED_FORM, U, Y, normal_cdf
from quadrature import function, gaussian_mean

from symdebias.codegen.functions import heat_power
from symdebias.codegen.numeric import numeric
from symdebias.codegen.stable import multiplied_out
from symdebias.exceptions import NoExactCorrectionError
from symdebias.transforms import heat, inverse_heat, joint_inverse_heat

S = sp.Symbol("s", positive=True)
POINTS = np.array([-1.7, -0.4, 0.0, 0.3, 1.0, 2.2])[:, None]

# Every rule and every pair of rules: polynomial, exponential, trigonometric, Gaussian, erf, and their products.
CALCULUS = {
    **{name: expression.subs(Y, 1) for name, (expression, _) in EXACT_MARGIN.items()},
    "constant": sp.Integer(3),
    "power of two": 2**U * U,
    "growing Gaussian": U * sp.exp(U**2 / 20),
    "shifted Gaussian": U**3 * sp.exp(-((U - 1) ** 2) / 9),
    "modulated Gaussian": U**2 * sp.cos(2 * U + 1) * sp.exp(-(U**2) / 10 + U),
    "smoothed hinge": U * normal_cdf(U) + sp.exp(-(U**2) / 2) / sp.sqrt(2 * sp.pi),
    "complementary erf": sp.erfc(U / 2),
    "erf, Gaussian and polynomial": U**2 * sp.erf(U / 3 + 1) * sp.exp(-(U**2) / 9 + U),
    "erf and sine": sp.erf(U / 3) * sp.sin(U),
    "erf, sine, Gaussian and polynomial": U**2 * sp.sin(U) * sp.erf(U / 3 + sp.Rational(1, 5))
    * sp.exp(-(U**2) / 30),
    "cosine of a square": sp.cos(U**2 / 5 + U),
    "cosine of a square, Gaussian and polynomial": U**3 * sp.sin(U**2 / 7 - 2 * U) * sp.exp(U / 2 - U**2 / 20),
    "sinh times cosine": sp.sinh(U) * sp.cos(2 * U),
}  # fmt: skip


@pytest.mark.in_turn
@pytest.mark.parametrize("name", CALCULUS)
@pytest.mark.parametrize("variance", [0.05, 0.7])
def test_mean_of_inverse_transform_is_the_function(name, variance):
    inverse = function(inverse_heat(CALCULUS[name], U, S).expression, U, S)
    mean = gaussian_mean(lambda noise: inverse(POINTS + noise, variance), variance)
    np.testing.assert_allclose(mean, function(CALCULUS[name], U)(POINTS[:, 0]), atol=1e-9, rtol=0)


@pytest.mark.in_turn
@pytest.mark.parametrize("name", CALCULUS)
@pytest.mark.parametrize("variance", [0.05, 0.7])
def test_forward_transform_is_the_mean(name, variance):
    forward = function(heat(CALCULUS[name], U, S).expression, U, S)
    mean = gaussian_mean(lambda noise: function(CALCULUS[name], U)(POINTS + noise), variance)
    np.testing.assert_allclose(forward(POINTS[:, 0], variance), mean, atol=1e-9, rtol=0)


@pytest.mark.parametrize(("name", "limit"), [(name, limit) for name, (_, limit) in EXACT_MARGIN.items()])
def test_conditions_are_the_limits(name, limit):
    conditions = inverse_heat(CALCULUS[name], U, S).conditions
    assert conditions == (() if limit is None else (S < sp.Integer(int(limit)),))


def test_a_growing_gaussian_has_finite_variance_below_the_limit_only():
    transformed = inverse_heat(sp.exp(U**2 / 20), U, S)
    assert transformed.conditions == ()
    assert transformed.variance_conditions == (S < 10,)


def test_a_forward_transform_of_a_growing_gaussian_is_limited():
    assert heat(sp.exp(U**2 / 20), U, S).conditions == (S < 10,)


@pytest.mark.parametrize("name", NO_CLOSED_FORM)
def test_what_has_no_closed_form_is_refused(name):
    with pytest.raises(NoExactCorrectionError, match="no closed form was found"):
        inverse_heat(NO_CLOSED_FORM[name].subs(Y, 1), U, S)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (sp.erf(U) ** 2, "only error function"),
        (sp.erf(U) * sp.erf(2 * U), "only error function"),
        (sp.erf(U**2), "not a polynomial of degree 1"),
        (sp.exp(U**3), "not a polynomial of degree 2"),
        (sp.erf(U) * sp.cos(U**2), "oscillates with the square"),
        (sp.tanh(U), "no closed form"),
        (sp.sqrt(U**2 + 1), "no closed form"),
        ((1 + U + sp.exp(U)) ** 300, "more than 600 terms"),
    ],
)
def test_refusals_name_their_reason(expression, message):
    with pytest.raises(NoExactCorrectionError, match=message):
        inverse_heat(expression, U, S)


TERMS = st.sampled_from(
    [sp.Integer(1), U, U**2, U**3, sp.exp(-U), sp.exp(U / 2), U * sp.exp(-U), sp.cos(U), sp.sin(2 * U),
     sp.exp(-(U**2) / 20), U * sp.exp(-(U**2) / 16), normal_cdf(U / 3)]
)  # fmt: skip
SUMS = st.lists(st.tuples(st.integers(-3, 3), TERMS), min_size=1, max_size=3).map(
    lambda terms: sum((coefficient * term for coefficient, term in terms), sp.Integer(0))
)
VARIANCES = st.floats(0.01, 2.0)


@pytest.mark.in_turn
@given(SUMS, SUMS, VARIANCES)
def test_linearity(f, g, variance):
    apart = inverse_heat(f, U, S).expression - 2 * inverse_heat(g, U, S).expression
    together = inverse_heat(f - 2 * g, U, S).expression
    points = POINTS[:, 0]
    np.testing.assert_allclose(
        function(together + 0 * U, U, S)(points, variance) + 0 * points,
        function(apart + 0 * U, U, S)(points, variance) + 0 * points,
        atol=1e-10,
    )


@pytest.mark.in_turn
@given(SUMS, VARIANCES)
def test_forward_after_inverse_is_the_identity(f, variance):
    back = heat(inverse_heat(f, U, S).expression, U, S).expression
    points = POINTS[:, 0]
    np.testing.assert_allclose(
        function(back, U, S)(points, variance) + 0 * points, function(f, U)(points) + 0 * points, atol=1e-9
    )


@pytest.mark.in_turn
@given(SUMS, VARIANCES)
def test_commutes_with_the_derivative(f, variance):
    derived = inverse_heat(sp.diff(f, U), U, S).expression
    after = sp.diff(inverse_heat(f, U, S).expression, U)
    points = POINTS[:, 0]
    np.testing.assert_allclose(
        function(derived, U, S)(points, variance) + 0 * points,
        function(after, U, S)(points, variance) + 0 * points,
        atol=1e-9,
    )


@pytest.mark.in_turn
@given(SUMS, st.floats(0.01, 0.9), st.floats(0.01, 0.9))
def test_noise_variances_add(f, first, second):
    twice = inverse_heat(inverse_heat(f, U, sp.Float(first)).expression, U, sp.Float(second)).expression
    once = inverse_heat(f, U, sp.Float(first + second)).expression
    points = POINTS[:, 0]
    np.testing.assert_allclose(
        function(twice, U)(points) + 0 * points, function(once, U)(points) + 0 * points, atol=1e-8
    )


def test_hermite_polynomials():
    for degree in range(8):
        expected = sp.expand(S ** sp.Rational(degree, 2) * sp.hermite_prob(degree, U / sp.sqrt(S)))
        assert sp.expand(inverse_heat(U**degree, U, S).expression - expected) == 0


def test_high_powers_are_evaluated_by_recurrence():
    """E h(w + e) = w^n, in two variables whose variances add up, beside an exponential, and by derivatives."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    weights = weights / weights.sum()
    for expression in ((U - Y + 1) ** 30, U**40 * sp.exp(U / 2), (U**2 + 1) ** 12):
        once = inverse_heat(expression, U, S).expression
        assert once.has(heat_power)
        inverse = numeric(once.xreplace({S: sp.Rational(1, 4)}), (U, Y))
        for u in (-1.5, 0.3, 2.0):
            terms = weights * inverse(u + 0.5 * nodes, np.full(40, 0.4))
            true = float(expression.xreplace({U: sp.Float(u), Y: sp.Float(0.4)}))
            assert abs(terms.sum() - true) < 1e-12 * np.abs(terms).sum()
    (residual,) = inverse_heat(inverse_heat((U - Y + 1) ** 30, U, S).expression, Y, S).expression.atoms(heat_power)
    assert residual.args == (30, U - Y + 1, 2 * S)
    ninth = heat_power(9, U, S)
    for variable in (U, S):
        assert sp.expand(multiplied_out(ninth.diff(variable)) - multiplied_out(ninth).diff(variable)) == 0


def test_high_powers_beside_waves_are_refused():
    with pytest.raises(NoExactCorrectionError, match=r"the power 33 of u beside a wave .* above the power 32"):
        inverse_heat(U**33 * sp.sin(U), U, S)
    with pytest.raises(NoExactCorrectionError, match="the power 33 of u and y is too high"):
        joint_inverse_heat(U**20 * Y**13, (U, Y), sp.Matrix([[S, S / 2], [S / 2, S]]))


def test_stefanskis_complex_formula():
    """W^-1 f(u) = E Re f(u + i sqrt(s) Z): another route to the same values, for entire f."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(64)
    weights = weights / weights.sum()
    for expression in (sp.exp(-U), U**4 - 2 * U, sp.sin(3 * U), U**2 * sp.exp(-U / 2)):
        inverse = function(inverse_heat(expression, U, S).expression, U, S)
        complex_function = sp.lambdify(U, expression, "numpy")
        for variance in (0.5, 2.0):
            oracle = np.real(complex_function(POINTS + 1j * np.sqrt(variance) * nodes)) @ weights
            np.testing.assert_allclose(inverse(POINTS[:, 0], variance), oracle, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        (sp.log(1 + sp.exp(-U)), r"branch points at u = -?I\*pi and -?I\*pi"),
        (sp.log(2 + 3 * sp.exp(2 * U)), r"branch points at u = .*I\*pi/2"),
        (1 / (1 + U**2), "poles at u = -?I and -?I"),
        (sp.tanh(2 * U), r"poles at u = -?I\*pi/4 and -?I\*pi/4"),
        (sp.sqrt(1 + U**2), "branch points at u = -?I and -?I"),
        (sp.Max(0, 1 - U), "kink or a jump in u"),
    ],
)
def test_refusals_say_where_a_function_is_not_entire(expression, reason):
    with pytest.raises(NoExactCorrectionError, match=reason):
        inverse_heat(expression, U, S)
