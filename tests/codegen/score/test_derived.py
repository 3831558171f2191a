"""Derivatives are taken without what takes SymPy seconds of formulas with cases, and changes nothing."""

import pytest
import sympy as sp

from symdebias.codegen.score.factors import FactorFamily, _derivatives
from symdebias.codegen.score.program import _derivative

THETA, SCORE, WIDTH = sp.symbols("theta u h", real=True)


def test_second_derivatives_of_factors_are_not_simplified(monkeypatch):
    """Where SymPy derives twice at once it factors what it finds."""
    factor = sp.Piecewise((THETA**3 * sp.exp(THETA), THETA < 1), (THETA**2, True))
    wanted = sp.diff(factor, THETA, 2)
    monkeypatch.setattr("sympy.core.exprtools.factor_terms", lambda *_: pytest.fail("factored"))
    ((place, found),) = _derivatives(FactorFamily((0,), (THETA,), (), (factor,)), 2)
    assert place == "0, 0"
    assert sp.expand(found.args[0].expr - wanted.args[0].expr) == 0


class Asked(sp.Function):
    """A function of which SymPy cannot know for nothing whether it is 0."""

    def _eval_is_zero(self):
        pytest.fail("asked whether it is 0")


def test_what_stands_apart_of_a_symbol_is_not_derived():
    wave = 3 * Asked(WIDTH) * sp.cos(2 * SCORE)
    for expression in (wave, wave + SCORE**2):
        rest = sp.Integer(0) if expression is wave else 2 * SCORE
        assert _derivative(expression, SCORE) - rest == -6 * Asked(WIDTH) * sp.sin(2 * SCORE)
