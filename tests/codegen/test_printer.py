import re

import numpy as np
import pytest
import sympy as sp
from instances import U, Y

from symdebias.codegen import elementary
from symdebias.codegen.printer import _Printer, print_statements

S = sp.Symbol("s", positive=True)


def evaluate(expressions, **values):
    """Run the printed lines as plain Python."""
    printed = print_statements(expressions, fixed={S: "s"}, varying={U: "u", Y: "y"})
    scope = {"math": __import__("math"), **vars(elementary), **values}
    exec("\n".join((*printed.setup, *printed.record)), scope)
    return [eval(result, scope) for result in printed.results]


@pytest.mark.parametrize(
    "expression",
    [
        sp.exp(-U - S / 2) * Y + sp.exp(2 * U),
        (U - S) ** 3 / (1 + S) ** sp.Rational(3, 2),
        sp.sin(3 * U) * sp.cos(U) - sp.tan(U / 5),
        sp.cosh(U) ** 2 - sp.sinh(U * Y) + sp.tanh(U),
        sp.erf(U / sp.sqrt(2 - S)) + sp.erfc(U),
        sp.Abs(U) + sp.Max(0, 1 - U * Y) + sp.Min(U, Y, S) + sp.sign(U) + sp.Heaviside(U - Y),
        sp.Piecewise((U**2, U < 1), (2 * U - 1, True)),
        sp.log(2 + U**2) + sp.sqrt(1 + U**2) + 2**U + sp.pi * U / sp.E,
        sp.loggamma(3 + U) + sp.atan(U),
        sp.Rational(1, 3) * U**7 - U**-2,
        sp.Integer(0),
    ],
)
@pytest.mark.parametrize("u", [-0.7, 0.4, 1.9])
def test_printed_lines_compute_the_expression(expression, u):
    values = {"u": u, "y": -1.0, "s": 0.3}
    expected = float(expression.subs({U: u, Y: -1.0, S: 0.3}).evalf())
    assert evaluate([expression], **values)[0] == pytest.approx(expected, rel=1e-12, abs=1e-14)


@pytest.mark.parametrize("u", [-1000.0, 1.0, 400.0, 1000.0])
def test_exponentials_of_exponentials_underflow_to_zero(u):
    tower = sp.exp(-sp.exp(U * Y))
    expression = sp.diff(tower, U, 2) + (sp.exp(U) - 1) * tower
    expected = float(expression.subs({U: u, Y: 1}).evalf()) if u < 100 else 0.0
    with np.errstate(all="ignore"):
        assert evaluate([expression], u=u, y=1.0, s=0.3)[0] == pytest.approx(expected, rel=1e-12)


def test_what_does_not_depend_on_the_record_is_computed_before_it():
    printed = print_statements([sp.exp(-U - S / 2)], fixed={S: "s"}, varying={U: "u"})
    assert any("s" in line for line in printed.setup)
    assert not any("s" in line.replace("exp", "") for line in printed.record)


def test_exponentials_of_both_signs_share_one_evaluation():
    printed = print_statements([sp.exp(-U) + sp.exp(U) + sp.exp(3 * U)], fixed={}, varying={U: "u"})
    assert "\n".join((*printed.record, *printed.results)).count("exp(") == 1


def test_names_of_symbols_are_never_code():
    hostile = sp.Symbol("__import__('os').system('echo pwned')", real=True)
    printed = print_statements([hostile**2 + sp.exp(hostile)], fixed={}, varying={hostile: "u"})
    assert "import" not in "".join((*printed.setup, *printed.record, *printed.results))


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (sp.Symbol("w") * U, "symbol w has no value"),
        (sp.Function("f")(U), "cannot evaluate"),
        (sp.Integral(U, (U, 0, 1)) + U, "cannot evaluate Integral"),
        (sp.gamma(U), "cannot evaluate gamma"),
        (sp.I * U, "cannot evaluate ImaginaryUnit"),
        (U + sp.oo, "cannot evaluate|Infinity"),
    ],
)
def test_what_a_kernel_cannot_hold_is_refused(expression, message):
    with pytest.raises(TypeError, match=message):
        print_statements([expression], fixed={}, varying={U: "u"})


def test_printing_is_the_same_every_time():
    def once():
        return print_statements(
            [sp.cosh(U) ** 2 * sp.exp(-(U**2) / (6 - S)) * Y], fixed={S: "s"}, varying={U: "u", Y: "y"}
        )

    assert once() == once()


@pytest.mark.parametrize("value", [np.pi, 1e-300, 1e300, 0.1, 2**53 + 1])
def test_numbers_are_printed_to_the_last_bit(value):
    (result,) = evaluate([sp.Float(value, 17) + 0 * U + U * 0 + sp.Integer(0) * S], u=0.0, y=0.0, s=0.0)
    assert result == float(value)


@pytest.mark.in_turn
@pytest.mark.parametrize("waves", [3, 4, 5, 12, 16, 17, 32])
@pytest.mark.parametrize("kinds", [(sp.cos,), (sp.sin,), (sp.cos, sp.sin)])
def test_sums_of_waves_in_strides(waves, kinds):
    """A recurrence loses as many last places as the square of the order of a wave; most is left of them."""
    rng = np.random.default_rng(waves)
    drawn = [(kind, k, float(c)) for kind in kinds for k, c in enumerate(rng.normal(size=waves), 1)]
    # One order is missing, one term stands in a product, and one sum has a factor that does not vary.
    total = sp.Add(*(c * kind(k * U / 3) for kind, k, c in drawn if k != 2)) + sp.exp(S) * sp.cos(waves * U / 3)
    for u in (-40.0, -0.3, 0.0, 2.9, 3 * np.pi):
        plain = {sp.cos: np.cos, sp.sin: np.sin}
        expected = sum(c * plain[kind](k * u / 3) for kind, k, c in drawn if k != 2)
        expected += np.exp(0.3) * np.cos(waves * u / 3)
        product = np.cos(waves * u / 3) * np.sin(2 * u / 3) * u
        found = evaluate([total, U * sp.cos(waves * U / 3) * sp.sin(2 * U / 3)], u=u, s=0.3)
        scale = sum(abs(c) for *_, c in drawn) + 2 + abs(u)
        np.testing.assert_allclose(found, [expected, product], rtol=0, atol=waves**2 * 4e-16 * scale)


def test_what_a_wave_costs_in_a_sum():
    """Twelve cosines and twelve sines one by one take 26 lines."""
    total = sp.Add(
        *(kind(k * U) * sp.Symbol("s", positive=True) ** k for kind in (sp.cos, sp.sin) for k in range(1, 13))
    )
    printed = print_statements([total], fixed={S: "s"}, varying={U: "u"})
    assert len(printed.record) <= 11
    assert sum("wave(" in line for line in printed.record) == 2


def test_exponentials_that_records_share_have_lines_of_their_own_where_they_are_many():
    for count, apart in ((3, 0), (4, 4)):
        total = sp.Add(*(U**k * sp.exp(k * S) for k in range(1, count + 1)))
        printed = print_statements([total], fixed={S: "s"}, varying={U: "u"})
        assert sum(bool(re.fullmatch(r"h\d+ = exp\(.*\)", line)) for line in printed.setup) >= apart
        assert evaluate([total], u=0.5, s=0.2)[0] == pytest.approx(float(total.subs({U: 0.5, S: 0.2})), rel=1e-14)


def test_long_sums_are_sums_of_sums():
    """Python nests a + b + c to the left: its compiler gave up on a series of second order in two noises."""
    symbols = sp.symbols("a:20000", real=True)
    names = {symbol.name: f"v{place}" for place, symbol in enumerate(symbols)}
    text = _Printer(names).doprint(sp.Add(*symbols))
    values = {name: float(place) for place, name in enumerate(names.values())}
    assert eval(compile(text, "sum", "eval"), values) == sum(range(20_000))
    with pytest.raises((RecursionError, MemoryError)):
        compile(" + ".join(names.values()), "sum", "eval")
