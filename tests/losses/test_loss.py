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
    ((W * U, {}), ValueError, "undeclared symbols: w. Put numbers"),
    ((sp.Symbol("u") * Y + U, {}), ValueError, "undeclared symbols: u. Another symbol of the name u was declared"),
    ((sp.Function("f")(U), {}), ValueError, "undefined functions: f"),
    ((Y**2, {}), ValueError, "does not depend on u"),
    ((sp.I * U, {}), ValueError, "not a finite real number"),
    ((sp.log(U), {}), ValueError, "not a finite real number at u ="),
    ((sp.sqrt(U), {}), ValueError, "not a finite real number"),
    ((U * sp.log(Y / (1 - Y)), {}), ValueError, "at u = -2.70, y = 2.00.*It is one at y = 0.6.*of a share y"),
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


@pytest.mark.parametrize(("arguments", "error", "message"), BAD, ids=[message for *_, message in BAD])
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


def test_a_recoded_loss_is_the_same_function_of_other_labels():
    for loss, values in (
        (sd.losses.logistic(), (0, 1)),
        (sd.losses.logistic(), (3, 7)),
        (sd.losses.softmax(3), (1, 2, 3)),
    ):
        recoded = loss.recoded(values)
        assert recoded.target_values == tuple(map(float, values))
        at = {score: sp.Rational(place + 1, 3) for place, score in enumerate(loss.scores)}
        for code, value in zip(loss.target_values, values, strict=True):
            same = recoded.expression.subs({**at, loss.target: value}) - loss.expression.subs({**at, loss.target: code})
            assert abs(float(same)) < 1e-14


@pytest.mark.parametrize(
    ("loss", "values"),
    [(sd.losses.logistic(), (0, 1)), (sd.losses.logistic(), (-1, 0, 1)), (sd.losses.softmax(3), (0, 1)),
     (sd.losses.softmax(3), (1, 2, 3))],
)  # fmt: skip
def test_values_of_a_loss_are_not_changed_under_its_expression(loss, values):
    """The log loss log(1 + exp(-u y)) at y = 0 would be log(2) for all scores."""
    with pytest.raises(ValueError, match=r"is declared for the target values .*loss.recoded\(values\)"):
        loss.with_target_values(values)
    assert loss.with_target_values(loss.target_values[::-1]) == loss
    assert loss.with_target_values(list(map(int, loss.target_values))) == loss


@pytest.mark.parametrize(
    ("loss", "values", "message"),
    [
        (sd.losses.least_squares(), (0, 1), "as many numbers as the loss has"),
        (sd.losses.logistic(), (0, 1, 2), "as many numbers as the loss has"),
        (sd.losses.softmax(3), (0, 1, 3), "not at the distances"),
        (sd.losses.logistic(), (1, 1), "two or more values"),
    ],
)
def test_labels_that_cannot_stand_for_others_are_refused(loss, values, message):
    with pytest.raises(ValueError, match=message):
        loss.recoded(values)
