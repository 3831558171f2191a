"""What SymPy has several spellings of is one loss: it has the same correction, and the same values."""

import numpy as np
import pytest
import sympy as sp
from instances import U, Y
from sympy.codegen.cfunctions import Sqrt, exp2, expm1, fma, hypot, log1p, log2, log10
from sympy.codegen.numpy_nodes import logaddexp

import symdebias as sd
from symdebias.losses.loss import Loss

GAUSSIAN = sd.Release(sd.GaussianMechanism.from_scale(0.3))
R = U - Y
SAME = {
    "a whole exponent": (R**2.0, R**2),
    "a half exponent": ((1 + R**2) ** 0.5, sp.sqrt(1 + R**2)),
    "an exponent within": (1 - sp.exp(-(R**2.0) / 2), 1 - sp.exp(-(R**2) / 2)),
    "log1p": (log1p(sp.exp(U)) - U * Y, sp.log(1 + sp.exp(U)) - U * Y),
    "expm1": (expm1(U) - U * Y, sp.exp(U) - 1 - U * Y),
    "exp2": (exp2(U) - U * Y, 2**U - U * Y),
    "log2": (log2(1 + R**2), sp.log(1 + R**2) / sp.log(2)),
    "log10": (log10(1 + R**2), sp.log(1 + R**2) / sp.log(10)),
    "Sqrt": (Sqrt(1 + R**2), sp.sqrt(1 + R**2)),
    "hypot": (hypot(1, R), sp.sqrt(1 + R**2)),
    "fma": (fma(U, U, -U * Y), U**2 - U * Y),
    "logaddexp": (logaddexp(0, U) - U * Y, sp.log(1 + sp.exp(U)) - U * Y),
    "sech": (1 - sp.sech(R), 1 - 1 / sp.cosh(R)),
    "a factorial": (sp.exp(U) - U * Y + sp.log(sp.factorial(Y)), sp.exp(U) - U * Y + sp.loggamma(Y + 1)),
    "a gamma function": (sp.exp(U) - U * Y + sp.log(sp.gamma(Y + 1)), sp.exp(U) - U * Y + sp.loggamma(Y + 1)),
}


@pytest.mark.parametrize("name", SAME)
def test_two_spellings_are_one_loss(name):
    written, meant = (Loss(expression, score=U, target=Y) for expression in SAME[name])
    assert written == meant
    assert Loss(written.expression, score=U, target=Y) == written


def test_a_square_by_a_decimal_exponent_has_the_exact_correction():
    """A surrogate stood for it."""
    corrected = sd.debias(sd.Loss(0.5 * R**2.0, score=U, target=Y), GAUSSIAN)
    assert corrected.method == "exact"
    assert corrected.certify(theta_radius=0.5).loss_bias < 1e-9


STEPS = {
    "an absolute value": (R * sp.sign(R), np.abs, None),
    "a check function": ((Y - U) * (sp.Rational(9, 10) - sp.Heaviside(R)), lambda r: -r * (0.9 - (r > 0)), None),
    "a hinge": ((1 - Y * U) * sp.Heaviside(1 - Y * U), None, (-1, 1)),
    "a squared hinge": ((1 - Y * U) ** 2 * sp.Heaviside(1 - Y * U) / 2, None, (-1, 1)),
    "two steps": (
        (R - 1) * sp.Heaviside(R - 1) - (R + 1) * sp.Heaviside(-R - 1), lambda r: np.maximum(0, abs(r) - 1), None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", STEPS)
def test_a_step_times_what_vanishes_there_is_a_kink_and_no_jump(name):
    expression, of_residual, labels = STEPS[name]
    loss = sd.Loss(expression, score=U, target=Y, target_values=labels)
    assert not loss.expression.has(sp.sign, sp.Heaviside)
    assert sd.Loss(loss.expression, score=U, target=Y, target_values=labels) == loss
    scores = np.linspace(-3, 3, 13) + 0.01
    plain = sd.debias(loss, sd.Release(), method="none")
    for target in labels or (0.5,):
        found = plain.loss([1.0], scores[:, None], np.full(13, target))
        margin = np.maximum(0, 1 - target * scores)
        wanted = of_residual(scores - target) if of_residual else margin**2 / 2 if "squared" in name else margin
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-14)
    assert sd.debias(loss, GAUSSIAN).method == "surrogate"


@pytest.mark.parametrize(
    "expression",
    [
        sp.Heaviside(R) + R**2,
        (R + sp.Rational(1, 1000)) * sp.sign(R),
        (Y - U) * (sp.Rational(9, 10) - sp.Heaviside(U)),
        R * sp.sign(R) + sp.Heaviside(U) * U**2 + sp.Heaviside(U - 2) / 1000,
    ],
)
def test_a_loss_that_jumps_stays_as_it_is_and_is_refused(expression):
    loss = sd.Loss(expression, score=U, target=Y)
    assert loss.expression.has(sp.Heaviside, sp.sign)
    with pytest.raises(sd.NoExactCorrectionError, match="jumps"):
        sd.debias(loss, GAUSSIAN)


def test_one_feature_or_parameter_may_stand_by_itself():
    x, t = sp.symbols("x t", real=True)
    alone = sd.Loss.of_features((t * x - Y) ** 2, features=x, parameters=t, target=Y)
    assert alone == sd.Loss.of_features((t * x - Y) ** 2, features=[x], parameters=[t], target=Y)
    with pytest.raises(TypeError, match="must be SymPy symbols; got None"):
        sd.Loss.of_features((t * x - Y) ** 2, features=None, parameters=t, target=Y)
    with pytest.raises(TypeError, match="must be SymPy symbols"):
        sd.Loss(x * t - Y, score={x, t}, target=Y)


WEIGHTS = sp.Piecewise((2, Y > 0), (1, True))
PIECES = {
    "values": (sp.Piecewise((2 * R**2, Y > 0), (R**2, True)), WEIGHTS * R**2),
    "three": (sp.Piecewise((2 * R**2, Y > 1), (U**2, Y < -1), (R**2, True)), None),
    "two conditions": (sp.Piecewise((2 * R**2, (Y > 0) & (Y < 1)), (R**2, True)), None),
}


@pytest.mark.parametrize("name", PIECES)
def test_pieces_that_the_target_decides_are_factors_with_an_exact_correction(name):
    """They were refused for a kink in u, which there is none of."""
    written, meant = PIECES[name]
    corrected = sd.debias(sd.Loss(written, score=U, target=Y), GAUSSIAN)
    assert corrected.method == "exact"
    assert corrected.certify(theta_radius=0.5).loss_bias < 1e-9
    theta, X, y = [0.7], np.array([[-1.0], [0.4], [2.0]]), np.array([-1.5, 0.5, 2.0])
    if meant is not None:
        other = sd.debias(sd.Loss(meant, score=U, target=Y), GAUSSIAN)
        np.testing.assert_allclose(corrected.loss(theta, X, y), other.loss(theta, X, y), rtol=1e-12)
    plain = sd.debias(sd.Loss(written, score=U, target=Y), sd.Release(), method="none").loss(theta, X, y)
    wanted = [float(written.xreplace({U: sp.Float(0.7 * x), Y: sp.Float(t)})) for (x,), t in zip(X, y, strict=True)]
    np.testing.assert_allclose(plain, wanted, rtol=1e-12)


CONDITIONS = {
    "and": sp.Piecewise((0, (R < 1) & (R > -1)), (sp.Abs(R) - 1, True)),
    "or": sp.Piecewise((sp.Abs(R) - 1, (R > 1) | (R < -1)), (0, True)),
    "not": sp.Piecewise((0, sp.Not((R > 1) | (R < -1))), (sp.Abs(R) - 1, True)),
    "equal": sp.Piecewise((0, sp.Eq(U, Y)), (sp.Abs(R), True)),
    "unequal": sp.Piecewise((sp.Abs(R), sp.Ne(U, Y)), (0, True)),
    "a number last": sp.Piecewise((R - 1, R > 1), (0, True)),
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_kernels_evaluate_conditions_and_pieces_that_are_numbers(name):
    """The naive fit beside a corrected one, and that of true records, need the loss as it stands."""
    expression = CONDITIONS[name]
    plain = sd.debias(sd.Loss(expression, score=U, target=Y), sd.Release(), method="none")
    scores = np.linspace(-3, 3, 13)
    found = plain.loss([1.0], scores[:, None], np.full(13, 0.5))
    wanted = [float(expression.xreplace({U: sp.Float(one), Y: sp.Float(0.5)})) for one in scores]
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-14)


def test_a_loss_that_jumps_in_a_parameter_is_refused():
    x, t = sp.symbols("x t", real=True)
    release = sd.Release({"x": sd.GaussianMechanism.from_scale(0.1)})
    weight = sp.Piecewise((2, t > 1), (1, True))
    jumping = sd.Loss.of_features((t * x - Y) ** 2 * weight, features=x, parameters=t, target=Y)
    with pytest.raises(sd.NoExactCorrectionError, match="jumps at t = 1:"):
        sd.debias(jumping, release)
    kink = sp.Piecewise((0, t < 1), (t - 1, True))
    turning = sd.Loss.of_features((t * x - Y) ** 2 + kink, features=x, parameters=t, target=Y)
    assert sd.debias(turning, release).method == "exact"
