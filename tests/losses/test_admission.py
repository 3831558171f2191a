"""SymPy objects from anywhere: taken by exact type and within bounds, before anything is computed with them."""

import math
import time

import pytest
import sympy as sp
from sympy.utilities.lambdify import implemented_function

import symdebias as sd
from symdebias.codegen.functions import heat_power
from symdebias.losses.admission import require_admitted

U, Y, T = sp.symbols("u y t", real=True)
RAN = []


class Printed(sp.Function):
    """A function of one's own, whose text is code that the function is not."""

    nargs = 1

    def _code(self, printer):
        RAN.append(printer)
        return "exit()"

    _numpycode = _pythoncode = _lambdacode = _scipycode = _sympystr = _code


class Named(sp.Symbol):
    """A symbol whose text is code."""

    def _sympystr(self, printer):
        RAN.append(printer)
        return "exit()"

    _numpycode = _pythoncode = _lambdacode = _sympystr


def nested(function, times):
    expression = U
    for _ in range(times):
        expression = function(expression)
    return expression


def tower(*parts):
    *rest, expression = parts
    for part in reversed(rest):
        expression = sp.Pow(part, expression, evaluate=False)
    return expression


def beside(part):
    # SymPy computes with a number as soon as it stands beside another part, where it is not told not to.
    return sp.Add(part, U, evaluate=False)


REFUSED = [
    (Printed(U), "part of the type Printed"),
    (1 / (2 + Printed(U)) + U**2, "part of the type Printed"),
    (Named("x", real=True) ** 2 + U, "part of the type Named"),
    (sp.Function("exit()")(U), r"undefined functions: exit\(\)"),
    (implemented_function("g", RAN.append)(U), "undefined functions: g"),
    (sp.Derivative(sp.sin(U), U), "Derivative"),
    (sp.Integral(sp.exp(-(T**2)), (T, 0, U)), "Integral"),
    (sp.Sum(U**T / sp.factorial(T), (T, 0, 10**9)), "Sum"),
    (sp.Product(1 + U**2 / T**2, (T, 1, 10**7)), "Product"),
    (sp.Limit(sp.sin(U * T) / T, T, 0), "Limit"),
    (sp.Subs(sp.sin(T), T, U), "Subs"),
    (sp.CRootOf(T**5 - T + 1, 0) * U, "RootOf"),
    (sp.MatrixSymbol("A", 2, 2)[0, 0] * U, "MatrixElement|MatrixSymbol"),
    (sp.IndexedBase("A")[0] * U, "Indexed"),
    (sp.UnevaluatedExpr(U) ** 2, "UnevaluatedExpr"),
    (U**2 + sp.O(U**3), "Order"),
    (sp.meijerg([[], []], [[0], []], U**2), "meijerg"),
    (beside(tower(10, 10, 10)), "power 10"),
    (beside(tower(9, 9, 9)), "power 9"),
    (beside(tower(10, -(10**10))), "power 1/10|power 10|power"),
    (beside(tower(sp.sqrt(2), 10**10)), "power"),
    (beside(tower(sp.Rational(1, 3), tower(2, 80))), "power"),
    (beside(tower(10, sp.floor(sp.Float(1e10), evaluate=False))), "power"),
    (beside(sp.exp(sp.Mul(10**9, sp.log(3), evaluate=False), evaluate=False)), "power exp"),
    (sp.exp(beside(sp.Mul(500, sp.Mul(500, sp.log(3), evaluate=False), evaluate=False)), evaluate=False), "power exp"),
    (tower(2, sp.Add(U, 10**10, evaluate=False)), "power"),
    (beside(sp.gamma(10**9, evaluate=False)), "constant gamma"),
    (beside(sp.loggamma(10**9, evaluate=False)), "constant loggamma"),
    (sp.Integer(10**5000) * U, "more than 400 digits"),
    (sp.sin(sp.Integer(10**100_000) * U), "more than 400 digits"),
    (sp.Rational(10**500, 3) * U, "more than 400 digits"),
    (sp.Float(2) ** 5_000 * U, "more than 400 digits"),
    (sp.Float(1, 2_000) * U, "decimal places"),
    ((1 + U**2) ** (10**9), "exponent is too large"),
    ((1 + U**2) ** (-(10**5)), "exponent is too large"),
    (nested(sp.sin, 120), "more than 100 deep"),
    (nested(lambda below: sp.Add(sp.sin(below), sp.cos(below), evaluate=False), 40), "20,000 nodes"),
    (sp.Add(*(T + k for k in range(9_000)), evaluate=False), "20,000 nodes"),
    (sp.Piecewise(*((U + k, U < k) for k in range(250)), (0, True)), "Piecewise of 251 parts"),
]


# By place: pytest shows its parameters, and to show one of these takes SymPy for ever.
@pytest.mark.parametrize("place", range(len(REFUSED)))
def test_what_no_loss_has_is_refused_at_once(place):
    expression, message = REFUSED[place]
    RAN.clear()
    began = time.process_time()
    with pytest.raises(ValueError, match=message) as refusal:
        sd.Loss(expression, score=U, target=Y)
    assert time.process_time() - began < 2
    assert RAN == []
    assert isinstance(refusal.value, sd.ExpressionError)
    assert len(str(refusal.value)) < 700


ADMITTED = [
    sp.log(1 + sp.exp(-Y * U)), U**250, (1 + U**2) ** sp.Rational(-7, 3), 2**U, sp.pi**U * sp.sqrt(2), sp.exp(sp.I * U),
    sp.Float(0.1) * U**2.0, sp.Rational(10**30 + 1, 10**30) * U, sp.Max(*(k * U for k in range(1, 17))),
    sp.Piecewise((U, sp.And(U > 0, Y < 1)), (Y, sp.Ne(U, Y)), (0, True)), sp.log(3) * 40 + sp.exp(sp.sqrt(2)) + U,
    nested(sp.sin, 90), sp.loggamma(U**2 + 1) + sp.loggamma(150), sp.oo * U,
]  # fmt: skip


@pytest.mark.parametrize("expression", ADMITTED, ids=[str(index) for index in range(len(ADMITTED))])
def test_what_a_loss_may_have_is_admitted(expression):
    require_admitted(expression)


@pytest.mark.parametrize("name", ["exit()", "u)+exit()+(u", "import os", "lambda", "u\u00a0v", "v0", "exp", "None"])
def test_the_name_of_a_symbol_is_never_code(name):
    score = sp.Symbol(name, real=True)
    loss = sd.Loss(sp.exp(score * Y / 2) + 1 / (1 + score**2), score=score, target=Y, target_values=(-1, 1))
    assert loss.jump is None
    release = sd.Release(features=sd.GaussianMechanism.from_scale(0.5))
    corrected = sd.debias(sd.Loss(score**2 * Y, score=score, target=Y), release)
    # The correction is u^2 y - s y.
    found = corrected.expression.xreplace({score: sp.Integer(2), Y: sp.Integer(3)})
    (variance,) = found.free_symbols
    assert sp.expand(found - (12 - 3 * variance)) == 0


@pytest.mark.parametrize(("name", "error"), [(5, TypeError), ("a\x1bb", ValueError), ("x" * 1_001, ValueError)])
def test_the_name_of_a_loss_is_seen(name, error):
    with pytest.raises(error, match="name"):
        sd.Loss(U**2, score=U, target=Y, name=name)


def test_declaring_runs_under_the_budget_of_derivations():
    wide = sp.Add(*(sp.sin((k + 1) * U) for k in range(400)))
    with sd.derivation_limits(seconds=1e-6), pytest.raises(sd.DerivationLimitError, match="seconds"):
        sd.Loss(wide, score=U, target=Y)


def test_a_condition_on_the_target_is_no_bound_on_the_noise():
    release = sd.Release(features={"a": sd.GaussianMechanism.from_scale(0.5), "b": sd.LaplaceMechanism.from_scale(0.3)})
    corrected = sd.debias(sd.Loss(sp.erf(U * Y / 4), score=U, target=Y), release)
    with pytest.raises(
        sd.NoExactCorrectionError, match=r"not a bound on the noise of the score. Declare target_values"
    ):
        _ = corrected.at(2).limits.variance


def test_constants_beyond_float64_are_refused_with_the_reason():
    huge = sp.exp(sp.Integer(800))
    with pytest.raises(sd.ExpressionError, match="beyond the numbers of float64"):
        require_admitted(huge * U)
    assert math.isfinite(float(sp.exp(700)))


@pytest.mark.parametrize(("name", "message"), [("u\u202e", r"U\+202E"), ("x" * 1_001, "1,001 characters")])
def test_the_name_of_a_symbol_is_seen(name, message):
    score = sp.Symbol(name, real=True)
    with pytest.raises(ValueError, match=message):
        sd.Loss(score**2, score=score, target=Y)
    with pytest.raises(ValueError, match=message):
        sd.Loss(score * U, score=U, target=Y)


def test_functions_of_corrections_are_no_part_of_a_loss():
    # Its power is a number of steps that nothing bounds.
    with pytest.raises(sd.exceptions.ExpressionError, match="a part of the type heat_power, which no loss has"):
        require_admitted(heat_power(10**9, U, Y))
