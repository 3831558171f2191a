import math

import numpy as np
import pytest
import sympy as sp

import symdebias as sd
from symdebias.losses.tracing import _FUNCTIONS, traced

U, Y = sp.symbols("u y", real=True)


@pytest.mark.parametrize("function", sorted(_FUNCTIONS, key=lambda f: f.__name__), ids=lambda f: f.__name__)
def test_every_function_computes_what_numpy_computes(function):
    at = (0.7, 1.3)
    arguments = at[: function.nin]
    expression = traced(lambda u, y: function(*((u, y)[: function.nin])) + u**2, (U, Y))
    found = float(expression.subs({U: at[0], Y: at[1]}))
    assert found == pytest.approx(float(function(*map(float, arguments))) + at[0] ** 2, rel=1e-12)


def test_operators_and_plain_numbers():
    def loss(score, target):
        return 0.5 * (score - target) ** 2 + 2 / (1 + score**2) - np.float64(0.25) * -score

    found = sd.Loss.from_function(loss)
    assert found.name == "loss"
    wanted = (U - Y) ** 2 / 2 + 2 / (1 + U**2) + U / 4
    assert sp.simplify(found.expression - wanted) == 0


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (lambda u, y: u if u > 0 else -u, TypeError, "compares, or branches on.*numpy.maximum"),
        (lambda u, y: max(0, 1 - y * u), TypeError, "compares, or branches on.*numpy.maximum"),
        (lambda u, y: (u - y) ^ 2, TypeError, r"Write \*\* for a power"),
        (lambda u, y: np.where(u > 0, u, 0), TypeError, "compares, or branches on"),
        (lambda u, y: u if u else y, TypeError, "branches on, the values"),
        (lambda u, y: math.exp(u), TypeError, "needs plain numbers"),
        (lambda u, y: np.cbrt(u), TypeError, "numpy.cbrt has no symbolic counterpart"),
        (lambda u, y: np.add.reduce(u), TypeError, "no symbolic counterpart|needs"),
        (lambda u, y: "u", TypeError, "type str"),
        (lambda u, y: None, TypeError, "type NoneType"),
        (lambda u, y: u * "y", TypeError, "."),
        (lambda u, y: 3.0, ValueError, "does not depend on u"),
        (lambda u, y: np.log(u), ValueError, "not a finite real number"),
        ("exp(-u*y)", TypeError, "must be callable"),
        (lambda u: u**2, TypeError, r"arguments \(u\): too many positional arguments. Give values"),
        (lambda u, y, scale: u * y, TypeError, "missing a required argument: 'scale'"),
        (lambda u, y, *, scale: u * y, TypeError, "missing a required.*argument: 'scale'"),
        (
            lambda y_true, y_pred: (y_true - y_pred) ** 2,
            TypeError,
            "first argument of this one is called y_true. Exchange",
        ),
        (lambda y, u: np.exp(u) - y * u, TypeError, "first argument of this one is called y. Exchange"),
    ],
)
def test_what_cannot_be_traced(function, error, message):
    with pytest.raises(error, match=message):
        sd.Loss.from_function(function)
