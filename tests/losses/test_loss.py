import math

import pytest
import sympy as sp
from instances import U, Y

import symdebias as sd


def test_symbols_become_real():
    u, y = sp.symbols("u y")
    loss = sd.Loss(sp.exp(-y * u), score=u, target=y, target_values=[1, -1])
    assert loss == sd.Loss(sp.exp(-Y * U), score=U, target=Y, target_values=(-1, 1))
    assert loss.target_values == (-1.0, 1.0)


def test_a_loss_is_immutable():
    with pytest.raises(AttributeError):
        sd.losses.exponential().name = "other"


W = sp.Symbol("w", real=True)
POSITIVE = sp.Symbol("u", positive=True)
BAD = [
    (("exp(-u)", {}), TypeError, "text is never evaluated"),
    ((lambda u: u, {}), TypeError, "must be a SymPy expression"),
    ((3.0, {}), TypeError, "must be a SymPy expression"),
    ((W * U, {}), ValueError, "undeclared symbols: w"),
    ((sp.Function("f")(U), {}), ValueError, "undefined functions: f"),
    ((Y**2, {}), ValueError, "does not depend on u"),
    ((sp.I * U, {}), ValueError, "not a finite real number"),
    ((sp.log(U), {}), ValueError, "not a finite real number at u ="),
    ((sp.sqrt(U), {}), ValueError, "not a finite real number"),
    ((U * sp.oo, {}), ValueError, "not a finite real number"),
    ((U, {"score": "u"}), TypeError, "must be SymPy symbols"),
    ((U, {"target": U}), ValueError, "share a name"),
    ((U, {"target": sp.Symbol("u")}), ValueError, "share a name"),
    ((POSITIVE, {"score": POSITIVE}), ValueError, "declared with a sign"),
    ((U, {"target_values": (1,)}), ValueError, "two or more values"),
    ((U, {"target_values": (1, 1)}), ValueError, "two or more values"),
    ((U, {"target_values": (1, math.nan)}), ValueError, "not a finite number"),
    ((U, {"target_values": (True, False)}), ValueError, "not a finite number"),
    ((U, {"target_values": "ab"}), TypeError, "sequence of numbers"),
    ((U, {"target_values": 3}), TypeError, "sequence of numbers"),
]


@pytest.mark.parametrize(("arguments", "error", "message"), BAD, ids=lambda value: str(value).split(" at ")[0][:40])
def test_bad_declarations_are_refused(arguments, error, message):
    expression, change = arguments
    with pytest.raises(error, match=message):
        sd.Loss(expression, **{"score": U, "target": Y, **change})


def test_free_form_declarations():
    x, t = sp.symbols("x t", real=True)
    loss = sd.Loss.of_features(t * x**2, features=[x], parameters=[t], target=Y)
    assert (loss.scores, loss.features, loss.parameters) == ((), (x,), (t,))
    with pytest.raises(ValueError, match="does not depend on w"):
        sd.Loss.of_features(t * x, features=[x], parameters=[t, W], target=Y)
    with pytest.raises(ValueError, match="undeclared symbols: u"):
        sd.Loss.of_features(t * x + U, features=[x], parameters=[t], target=Y)
