"""Expressions as text: equal after reading, and strangers' text is refused before SymPy computes with it."""

import time

import pytest
import sympy as sp
from hypothesis import given
from hypothesis import strategies as st
from instances import CROSSED_LOSSES, EXACT_MARGIN, NO_CLOSED_FORM, free_form_in_three

import symdebias as sd
from symdebias import _loss_names
from symdebias.losses import parsing, words, writing

U, Y = sp.symbols("u y", real=True)
NAMES = {"u": U, "y": Y}

CATALOGUE = [
    sd.losses.softmax(2),
    sd.losses.huber(1e-3),
    sd.losses.quantile(1 / 3, 0.1234567890123456),
    free_form_in_three("sine"),
    *CROSSED_LOSSES.values(),
]
FURTHER = [
    *(expression for expression, _ in EXACT_MARGIN.values()),
    *NO_CLOSED_FORM.values(),
    sp.Float(0.1) * U**2 - U * Y,
    1.5 * sp.exp(0.3) * U + Y,
    U**2.0 - 3.0 * Y * U + sp.Float(1e-5),
    sp.exp(-((U - Y) ** 2) / 2) / sp.sqrt(2 * sp.pi),
    sp.log(2 * sp.pi) / 2 + U**2 / 2,
    (1 + U**2) ** sp.Rational(3, 4),
    sp.E**2 * U + sp.exp(sp.Rational(1, 2)) * Y,
    2**U + sp.loggamma(Y + 2),
    sp.log(sp.cosh(U - Y)) + sp.asinh(U) - Y * sp.atan(U),
    sp.Heaviside(U) * Y * U + sp.sign(U) * sp.tan(sp.sqrt(2) / 4) + sp.Heaviside(Y, 1),
    sp.Min(U, Y, 2) + sp.sinh(U) * sp.tanh(Y),
    sp.Piecewise((U, Y > U), (Y, sp.Ne(Y, 1)), (1, U <= -1), (0, True)),
    sp.EulerGamma * U,
]


@pytest.mark.parametrize("loss", [*CATALOGUE, "softmax(20)"], ids=lambda loss: str(getattr(loss, "name", loss)))
def test_losses_are_equal_after_writing_and_reading(loss):
    # Declaring this one takes longer than collecting all tests of this file.
    loss = sd.losses.softmax(20) if loss == "softmax(20)" else loss
    names = {symbol: symbol.name for symbol in (*loss.scores, *loss.features, *loss.parameters, loss.target)}
    text = writing.write(loss.expression, names)
    assert parsing.read(text, {name: symbol for symbol, name in names.items()}) == loss.expression


@pytest.mark.parametrize("expression", FURTHER, ids=str)
def test_expressions_are_equal_after_writing_and_reading(expression):
    text = writing.write(expression, {U: "u", Y: "y"})
    assert parsing.read(text, NAMES) == expression


def test_decimal_numbers_are_equal_to_the_last_bit():
    for value in (0.1, 1 / 3, 2.0**-40, 1e11 / 7, -0.3):
        (number,) = parsing.read(writing.write(value * U, {U: "u"}), NAMES).atoms(sp.Float)
        assert float(number) == value


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (sp.gamma(U), r"gamma .* has no word"),
        (U**13, "exponent"),
        (sp.Float("0.1", 30) * U, "neither a fraction nor a float64"),
        (1e15 * U, "beyond 1e"),
        (sp.Piecewise((U, sp.And(U > 0, Y > 0)), (Y, True)), "no comparison"),
        (sp.Mul(2, U + 1, evaluate=False), "SymPy makes"),
        (sp.Add(*(sp.sin(k * U) for k in range(1, 400))), "characters"),
        (sp.Symbol("z") * U, "no name"),
    ],
    ids=str,
)
def test_what_has_no_words_is_refused(expression, message):
    with pytest.raises(ValueError, match=message):
        writing.write(expression, {U: "u"} if expression.has(sp.Symbol("z")) else {U: "u", Y: "y"})


HOSTILE = [
    "__import__('os').system('true')", "().__class__", "u.real", "u[0]", "lambda: 1", "[u]", "u if u else y", "u;y",
    "exp(u, y)", "exp()", "exp(*u)", "exp(x=u)", "(u:=1)", "asinh(u)(y)", "Piecewise()", "Piecewise((u, True and y))",
    "Piecewise((u, u < y < 1))", "u < y", "True", "None", "1j", "'u'", "e**u", "", "   ", "u u", "u\u200b", "exp\n(u)",
    "exp(exp(exp(exp(1e9))))", "9**9**9**9", "2**1000000000000", "2**(u-u+1000000)", "exp(u-u+1000)", "1e400",
    "exp(1000000000000*log(2))", "exp(-1000000000000*log(2))", "exp(1000000*log(u)+y)",
    "exp(1000000000000*log(1000000000001/1000000000000))", "exp(u+1000000000000*log(1000000000001/1000000000000))",
    "2**(1000000000000*log(1000000000001/1000000000000)+u)", "((((u+1)**12)**12)**12)**12",
    "((((1000000000000*u)**12)**12)**12)**12", "(((1000000000001/1000000000000)**12)**12)**12",
    "((((sqrt(2)+1)**12)**12)**12)**12", "((((sqrt(2)-1)**12)**12)**12)**12", "loggamma(1000000)", "log(0)",
    "1/0", "1/(u-u)", "0**-1", "sqrt(-1)", "(-8)**(1/3)", "u**13", "u**1e2", "1" * 41, "u" * 2001, "tan(pi/2)",
    "*".join(["u"] * 450), "-" * 1990 + "u", "(" * 900 + "u" + ")" * 900, "exp(" * 45 + "u" + ")" * 45,
    "Max(" + ",".join(f"u*{k}" for k in range(20)) + ")", "Max(Piecewise((u, u < y), (y, True)), u)",
    # What SymPy looks for real and imaginary parts of, to find a sign.
    *(f"{outer}(" + f"{name}(" * 20 + "log(u)" + ")" * 21 for name in ("cosh", "tanh") for outer in ("sign", "sqrt")),
    "Heaviside(" + "sin(" * 15 + "Piecewise((u / y, u < y), (u, True))" + ")" * 16,
    "sign(" + "cosh(" * 16 + "sqrt(Heaviside(y))" + ")" * 17, "exp(" + "cosh(" * 12 + "log(erfc(u))" + ")" * 13,
    "Heaviside(" + "tanh(" * 8 + "loggamma(Max(u, y))" + ")" * 9,
    *("sqrt(" + "tanh(" * count + "asinh(Max(u, y)-u/3)" + ")" * (count + 1) for count in (6, 9, 16)),
    "cosh(" * 11 + "u" + ")" * 11,
    "u*cos(" + "tan(" * 9 + "log(" + "tan(" * 8 + "tanh(" + "asinh(" * 14 + "1/3" + ")" * 34,
    "Abs(" + "tanh(" * 8 + "(u-y)/sqrt(1+(u-y)**2)" + ")" * 9,
    "loggamma(" + "exp(" * 17 + "asinh(log(u)+1)" + ")" * 18,
    "Abs(cosh((sqrt(u)+sqrt(y)+log(u-y))**12))", "Max(sinh((u**(1/3)+y**(1/3)+1)**12), 1)",
    "Heaviside(exp((sqrt(u)+sqrt(y)+log(u-y))**12), 1)", "sqrt(sin((log(u)+log(y)+1)**12)**2)",
    "Piecewise((u, tanh((sqrt(u)+log(y))**12) < 1), (y, True))",
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text[:40]))
def test_hostile_text_is_refused_at_once(text):
    began = time.process_time()
    with pytest.raises(ValueError, match=r"expression|calls|takes|condition|compares"):
        parsing.read(text, NAMES)
    assert time.process_time() - began < 2


@given(st.text(alphabet="uy01.9e()+-*/, <>=expPMaxiscwlog", max_size=60))
def test_any_text_is_an_expression_or_refused(text):
    try:
        found = parsing.read(text, NAMES)
    except ValueError:
        return
    assert isinstance(found, sp.Expr)
    assert found.free_symbols <= {U, Y}


@pytest.mark.parametrize(
    "text",
    ["Abs(log(y)-u)", "Max(0.9*(log(y)-u), -0.1*(log(y)-u))", "sqrt(1+tanh(u*y)**2)*cosh(log(1+u**2))",
     "Abs(sqrt(u)-1)", "Piecewise(((log(y)-u)**2/2, Abs(log(y)-u) < 1), (Abs(log(y)-u)-1/2, True))",
     "cosh(" * 10 + "u" + ")" * 10, "u*cos(tan(tan(log(tan(tan(tanh(asinh(asinh(1/3)))))))))",
     "sign(sqrt(exp(u)+u**2)+Abs(u)**(1/3)+sqrt(pi+Max(u,2))+log(cosh(u))*Min(u, y))"],
)  # fmt: skip
def test_signs_of_what_is_real_or_short_are_read(text):
    began = time.process_time()
    assert isinstance(parsing.read(text, NAMES), sp.Expr)
    assert time.process_time() - began < 2


def test_symbols_with_odd_names_get_others():
    assert words.names_in_text(["u", "y_1"]) == ("u", "y_1")
    for names in (["u 1", "y"], ["exp", "y"], ["θ", "y"], ["pi", "y"], ["lambda", "y"], ["u", "class"]):
        assert words.names_in_text(names) == ("v0", "v1")


def test_only_text_is_read():
    with pytest.raises(TypeError, match="from text"):
        parsing.read(U, NAMES)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("ln(1+exp(-y*u))", "log(1+exp(-y*u))"),
        ("log1p(exp(-y*u))", "log(1+exp(-y*u))"),
        ("softplus(-y*u)", "log(1+exp(-y*u))"),
        ("logaddexp(0, -y*u)", "log(1+exp(-y*u))"),
        ("sigmoid(-y*u)", "1/(1+exp(y*u))"),
        ("expit(u)*y", "y/(1+exp(-u))"),
        ("expm1(u)", "exp(u)-1"),
        ("relu(1-y*u)", "Max(0, 1-y*u)"),
        ("max(0, 1-y*u)", "Max(0, 1-y*u)"),
        ("minimum(u, y)", "Min(u, y)"),
        ("abs(u-y)", "Abs(u-y)"),
        ("square(u-y)/2", "(u-y)**2/2"),
        ("pow(u-y, 2)", "(u-y)**2"),
        ("logcosh(u-y)", "log(cosh(u-y))"),
        ("arctan(u)", "atan(u)"),
        ("(u-y)^2", "(u-y)**2"),
        ("(u \N{MINUS SIGN} y)\N{SUPERSCRIPT TWO}", "(u-y)**2"),
        ("-u^2 + y^-2", "-(u**2) + 1/y**2"),
    ],
)
def test_what_is_typed_as_elsewhere_is_read(text, same):
    assert parsing.read(parsing.as_typed(text), NAMES) == parsing.read(same, NAMES)


@pytest.mark.parametrize(
    "text",
    ["softplus(" * 30 + "u" + ")" * 30, "sigmoid(" * 12 + "u" + ")" * 12, "pow(2, 1000000)", "pow(u)", "square(u, y)",
     "relu(u, u)", "square(" * 12 + "9" + ")" * 12, "relu(Piecewise((u, u < y), (y, True)))", "sigmoid(1000000)"],
)  # fmt: skip
def test_other_spellings_have_the_same_bounds(text):
    began = time.process_time()
    with pytest.raises(ValueError, match=r"expression|calls|takes"):
        parsing.read(text, NAMES)
    assert time.process_time() - began < 2


@pytest.mark.parametrize(
    ("name", "meant"),
    [("MSE", "least_squares"), ("log-loss", "logistic"), ("Squared Hinge", "squared_hinge"), ("possion", "poisson"),
     ("pinball", "quantile"), ("multinomial", "softmax"), ("svm", "hinge"), ("cubic", None), ("u", None)],
)  # fmt: skip
def test_losses_are_known_by_what_others_call_them(name, meant):
    assert _loss_names.called_here(name) == meant
    assert meant is None or meant in _loss_names.CATALOGUE
