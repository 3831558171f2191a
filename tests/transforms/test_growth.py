"""How fast expressions grow: upper bounds along axes, and along any line where several variables grow together."""

import math

import mpmath
import numpy as np
import pytest
import sympy as sp

from symdebias.codegen.functions import softplus
from symdebias.transforms import growth_rate, growth_terms, rate_of

U, V, Y = sp.symbols("u v y", real=True)

RATES = {
    sp.exp(-2 * U) * U**3: 2, sp.log(1 + sp.exp(3 * U)): 0, sp.cosh(U) * sp.exp(U): 2, sp.exp(-(U**2) + 5 * U): 0,
    sp.exp(U**2): sp.oo, sp.sin(9 * U): 0, U**7: 0, sp.exp(sp.exp(U)): sp.oo, sp.exp(U) ** 3: 3, sp.Max(0, U): 0,
    sp.exp(sp.sin(U)): 0, 1 / (1 + sp.exp(U)): 0, sp.exp(-(U**2)) * sp.exp(U): 0,
    sp.exp(3 * U) * sp.exp(-U) * U: 2, sp.exp(-(U**2)) * sp.exp(U * V) * (U - V): 0,
    1 - sp.expand(sp.exp(-((U - V) ** 4))): 0,
}  # fmt: skip


@pytest.mark.parametrize("expression", RATES, ids=str)
def test_growth_rates_are_upper_bounds(expression):
    rate = growth_rate(expression, (U,))
    assert rate >= RATES[expression]
    if RATES[expression] != sp.oo and rate != RATES[expression]:
        assert expression == sp.exp(sp.sin(U))  # safe, if not sharp


def test_a_form_that_falls_in_some_directions_and_rises_in_none_is_bounded_by_its_linear_part():
    assert growth_rate(sp.exp(-((U - V) ** 2) / 8 + 2 * U - V), (U, V)) == 2
    assert growth_rate(sp.exp(-(U**2) + 3 * U * V - V**2), (U, V)) == sp.oo


@pytest.mark.parametrize("expression", [
    sp.exp(U * V) * sp.exp(-sp.Abs(U)), sp.exp(sp.Abs(U * V)), sp.exp(sp.Max(0, U * V)),
    sp.exp(U * V) * sp.exp(-sp.exp(U)), sp.exp(sp.log(1 + sp.exp(U)) * (1 + V**2)),
], ids=str)  # fmt: skip
def test_a_rate_along_one_variable_that_another_one_changes_is_no_bound(expression):
    """Under Laplace noise of both exp(u v) has no mean."""
    assert growth_rate(expression, (U, V)) == sp.oo


def test_a_leading_power_that_a_parameter_takes_away_does_not_decide():
    t = sp.Symbol("t", real=True)
    assert growth_rate(sp.exp(-(t**2) * U**2 + 5 * U), (U,)) == 5
    assert growth_rate(sp.exp(-(t**2) * V**2 * U**4 + U**2), (U,)) == sp.oo
    assert growth_rate(sp.exp(-(t**2 + V**2) * U**2 + 3 * U), (U,)) == 3
    assert growth_rate(sp.exp(-((V - t * U) ** 2)), (U,)) == 0
    assert growth_rate(sp.exp(-(t**2 + 1) * U**2 + 3 * U), (U,)) == 0


@pytest.mark.parametrize(("inside", "rate"), [
    (2 * sp.exp(-sp.exp(U)), 1), ((1 + U**2) * sp.exp(-sp.exp(3 * U)), 3),
    (sp.exp(-sp.exp(U)) + sp.exp(-sp.exp(2 * U)), 1), (1 + sp.exp(-sp.exp(U)), 0), (2 * (1 + sp.exp(U)), 0),
], ids=str)  # fmt: skip
def test_logarithms_of_what_falls_faster_than_an_exponential_grow(inside, rate):
    assert growth_rate(sp.log(inside), (U,)) == rate


# ---- several variables -----------------------------------------------------------------------------------


def weights_and_widths(expression):
    return {
        (*map(float, term.weights), *map(float, term.widths)) for term in growth_terms(sp.expand(expression), (U, V))
    }


def test_an_exponential_has_the_weights_of_the_scores_within_it():
    assert weights_and_widths(V + (Y - U) ** 2 * sp.exp(-2 * V) / 2) == {(0, 0, 0, 0), (0, -2, 0, 0)}
    assert weights_and_widths(sp.exp(U - 2 * V) * sp.exp(V) * U) == {(1, -1, 0, 0)}
    assert weights_and_widths(sp.cosh(U) * sp.exp(V)) == {(1, 1, 0, 0), (-1, 1, 0, 0)}
    assert weights_and_widths(sp.exp(-((U - V) ** 2) + 3 * V)) == {(0, 3, 0, 0)}
    assert weights_and_widths(sp.sqrt(1 + sp.exp(3 * V))) == {(0, 0, 0, 0), (0, 1.5, 0, 0)}
    assert weights_and_widths(U**2 * sp.exp(sp.sqrt(1 + V**2))) == {(0, 0, 0, math.inf)}
    assert weights_and_widths(U**2 * sp.exp(2 * softplus(V))) == {(0, 0, 0, 2)}


def test_many_exponentials_are_bounded_by_the_sizes_of_the_variables():
    many = sp.Add(*(sp.exp(k * U - (k % 7) * V) for k in range(-40, 41)))
    assert weights_and_widths(many) == {(0, 0, 40, 6)}


TOGETHER = [
    1 / (sp.exp(U) + sp.exp(V)), (sp.exp(U) + sp.exp(V)) ** sp.Rational(-3, 2) * sp.exp(V), sp.exp(-sp.Max(U, V)),
    sp.exp(-sp.Min(U, V)), sp.exp(V - 2 * sp.Max(U, V, 0)), sp.exp(sp.Abs(U - V)), sp.exp(softplus(U - 2 * V) - U),
    sp.exp(-softplus(U - V) - V), sp.exp(U) / (1 + sp.exp(U - V)) ** 2, sp.exp(U - V) + sp.exp(V) * sp.cosh(2 * U),
    sp.exp(-((U - V) ** 2) + U), sp.exp(2 * softplus(V) - U), sp.exp(sp.Abs(U) / 2 - V), U**3 * sp.exp(U - V / 3),
    1 / ((1 + sp.exp(U)) * (sp.exp(-V) + sp.exp(U))), sp.sqrt(sp.exp(U) + sp.exp(-V)),
]  # fmt: skip


@pytest.mark.parametrize("expression", TOGETHER, ids=str)
def test_terms_bound_the_growth_along_every_line(expression):
    """The rate between two far points of a line, at 60 digits, is at most that of a term: powers add the last part."""
    terms = growth_terms(sp.expand(expression), (U, V))
    assert rate_of(terms) < sp.oo
    with mpmath.workdps(60):
        value = sp.lambdify((U, V), expression.replace(softplus, lambda x: sp.log(1 + sp.exp(x))), "mpmath")
        for angle in np.linspace(0, 2 * np.pi, 33):
            u, v = math.cos(angle), math.sin(angle)
            near, far = (mpmath.log(abs(value(mpmath.mpf(t * u), mpmath.mpf(t * v)))) for t in (1000, 2000))
            bound = max(
                float(w @ [u, v] + r @ np.abs([u, v]))
                for w, r in ((np.array(t.weights, dtype=float), np.array(t.widths, dtype=float)) for t in terms)
            )
            assert float(far - near) / 1000 <= bound + 0.01


@pytest.mark.parametrize("expression", [
    sp.exp(-1 / (1 + U**2) * V), sp.exp(-sp.log(1 + U**2) * sp.exp(V)), 1 / (sp.exp(U) - sp.exp(V)),
    (1 + sp.exp(U) + sp.exp(V)) ** sp.Symbol("a", real=True), sp.exp(softplus(U) * softplus(V)),
], ids=str)  # fmt: skip
def test_what_is_not_known_to_be_bounded_has_no_rate(expression):
    assert growth_rate(expression, (U, V)) == sp.oo
