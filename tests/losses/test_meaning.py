"""What a loss says of its target, against likelihoods and means that were written by hand."""

from types import SimpleNamespace

import numpy as np
import pytest
import sympy as sp
from instances import ARGUMENTS, U, Y, margin_loss
from scipy import optimize

import symdebias as sd
from symdebias.losses.meaning import is_residual_loss, meaning_of

# Name -> (what is predicted, the number, whether exp(-loss) sums to a constant).
CATALOGUE = {
    "exponential": ("label", None, False),
    "hinge": ("label", None, False),
    "cauchy": ("number", U, False),
    "expectile": ("number", U, False),
    "gamma": ("number", sp.exp(U), False),
    "tweedie": ("number", sp.exp(U), False),
    "huber": ("number", U, False),
    "least_squares": ("number", U, False),
    "logistic": ("label", None, True),
    "negative_binomial": ("number", sp.exp(U), False),
    "poisson": ("number", sp.exp(U), False),
    "probit": ("label", None, True),
    "quantile": ("number", U, False),
    "softmax": ("label", None, True),
    "squared_hinge": ("label", None, False),
    "squared_margin": ("label", None, False),
}


def test_the_table_has_the_whole_catalogue():
    assert set(CATALOGUE) == set(sd.losses.__all__)


@pytest.mark.parametrize("name", CATALOGUE)
def test_losses_of_the_catalogue_say_what_they_predict(name):
    make = getattr(sd.losses, name)
    meaning = meaning_of(make(*ARGUMENTS.get(name, ())))
    assert (meaning.predicts, meaning.number, meaning.is_likelihood) == CATALOGUE[name]
    assert meaning.sign == (1 if meaning.predicts == "label" and name != "softmax" else 0)


@pytest.mark.parametrize(
    ("loss", "predicts", "number", "is_likelihood"),
    [
        (margin_loss(7 + sp.log(1 + sp.exp(-Y * U))), "label", None, True),
        (margin_loss(2 * sp.log(1 + sp.exp(-Y * U))), "label", None, False),
        (sd.Loss(sp.log(1 + sp.exp(U)) - Y * U, score=U, target=Y, target_values=(0, 1)), "label", None, True),
        (sd.Loss((sp.exp(U) - Y) ** 2, score=U, target=Y), "number", sp.exp(U), False),
        (sd.Loss((3 * U - Y) ** 2, score=U, target=Y), "number", 3 * U, False),
        (sd.Loss(U**2 - 2 * U * Y + Y**2, score=U, target=Y), "number", U, False),
        (sd.Loss((Y - U) ** 4, score=U, target=Y), "number", U, False),
        (sd.losses.poisson().with_target_values(range(5)), "number", sp.exp(U), False),
        (sd.Loss(sp.cosh(U) * Y**2 - U, score=U, target=Y), None, None, False),
        # The slope vanishes at the largest mean loss, not at the least.
        (sd.Loss(Y * U - U**2 / 2 + sp.cos(Y), score=U, target=Y), None, None, False),
    ],
)
def test_a_loss_of_ones_own_is_read_off_its_expression(loss, predicts, number, is_likelihood):
    meaning = meaning_of(loss)
    assert (meaning.predicts, meaning.is_likelihood) == (predicts, is_likelihood)
    if predicts == "number":
        assert sp.simplify(meaning.number - number) == 0


@pytest.mark.parametrize("name", ["least_squares", "poisson", "negative_binomial"])
def test_the_mean_is_where_the_mean_loss_is_least(name):
    loss = getattr(sd.losses, name)()
    y = np.array([0.0, 3.0, 1.0, 7.0])
    total = sp.lambdify(U, sum(loss.expression.subs(Y, sp.Rational(int(value))) for value in y), "numpy")
    found = optimize.minimize_scalar(total, bounds=(-3, 6), method="bounded", options={"xatol": 1e-10}).x
    assert float(meaning_of(loss).number.subs(U, found)) == pytest.approx(y.mean(), rel=1e-6)


def test_the_sign_is_that_of_the_coding():
    swapped = sd.Loss(sp.log(1 + sp.exp(Y * U)), score=U, target=Y, target_values=(-1, 1))
    folded = margin_loss(sp.sin(2 * Y * U) + sp.exp(-Y * U / 2))
    assert (meaning_of(swapped).sign, meaning_of(folded).sign) == (-1, 0)


@pytest.mark.parametrize(
    ("condition", "is_so"),
    [(Y > U, True), (U < Y, True), (sp.Abs(U - Y) <= 1, True), (Y > 0, False), (U < 2 * Y, False)],
)
def test_conditions_of_a_residual_are_read_as_such(condition, is_so):
    loss = sd.Loss(sp.Piecewise((0.9 * (Y - U), condition), (0.1 * (U - Y), True)), score=U, target=Y)
    assert is_residual_loss(loss) is is_so


@pytest.mark.parametrize(
    ("expression", "is_so"),
    [
        (sp.log(sp.exp(U) + sp.exp(Y)) - (U + Y) / 2, True),
        ((sp.exp(U) - sp.exp(Y)) / (sp.exp(U) + sp.exp(Y)), True),
        (sp.cos(U) * sp.cos(Y) + sp.sin(U) * sp.sin(Y), True),
        ((Y - U) ** 2 + U**2 / 1_000_000, False),
        # Both agree at all scores that are looked at, and jump elsewhere.
        ((Y - U) ** 2 + sp.Piecewise((1, U > 50), (0, True)), False),
        ((Y - U) ** 2 + sp.floor(U / 50) - sp.floor((U + 3) / 50), False),
        ((Y - U) ** 2 + sp.atan(U - 100) + sp.acot(U - 100), False),
        ((Y - U) ** 2 + sp.atan(sp.tan(U / 10)) - U / 10, False),
    ],
)
def test_residuals_are_told_in_every_form(expression, is_so):
    found = SimpleNamespace(expression=expression, scores=(U,), target=Y)
    assert is_residual_loss.__wrapped__(found) is is_so
