"""Names from strangers stay text, in HTML, MathML and LaTeX."""

import pytest
import sympy as sp
from pages import HOSTILE, LATEX, Reader

import symdebias as sd
from symdebias import _markup


@pytest.mark.parametrize("name", [HOSTILE, LATEX, "&InvisibleTimes;", "region=e", "a_<i>1</i>"])
def test_a_name_is_no_markup(name):
    symbol = sp.Symbol(name, real=True)
    for expression in (symbol, sp.exp(symbol) / 2, sp.Piecewise((symbol, symbol > 0), (0, True))):
        page = Reader(_markup.mathml(expression))
        assert name in page.text
        assert page.tags <= {"math", "mrow", "msup", "mfrac", "mi", "mn", "mo", "mtext", "mtable", "mtr", "mtd"}
    page = Reader(_markup.table(["", name], [[name, name]], caption=name) + _markup.facts([(name, [name])]))
    assert page.text.count(name) == 6
    assert page.tags == {"table", "caption", "thead", "tbody", "tr", "th", "td", "dl", "dt", "dd"}
    written = _markup.latex(symbol)
    if not name.isidentifier():
        assert written.startswith(r"\text{")
        assert written.endswith("}")
        assert not set(written[6:-1]) & set("\\{}$&#^_~%<>")


@pytest.mark.parametrize(
    ("expression", "written"),
    [
        (sp.Symbol("x_1") + 1, "<msub><mi>x</mi><mn>1</mn></msub>|<mi>1</mi>"),
        (sp.Symbol("u") < 0, "<mo>&lt;</mo>"),
        (sp.Max(0, sp.Symbol("u")), "<mo>(</mo><mn>0</mn><mo>,</mo><mi>u</mi><mo>)</mo>"),
        (sp.exp(sp.Symbol("u")), "<msup><mi>e</mi><mi>u</mi></msup>"),
        (sp.Piecewise((1, sp.Symbol("u") > 0), (2, True)), "<mtext>otherwise</mtext>"),
    ],
)
def test_formulas_are_set_as_mathematics(expression, written):
    found = _markup.mathml(expression)
    assert any(one in found for one in written.split("|"))


def test_long_formulas_are_described():
    u = sp.Symbol("u")
    long = sum(sp.cos(k * u) for k in range(1, 60))
    assert _markup.displayed(long) is None
    assert _markup.formula(long) == f"<p>a formula of {sp.count_ops(long)} operations</p>"
    assert _markup.displayed(u**2) == r"$\displaystyle u^{2}$"


def test_losses_and_corrections_show_their_formulas():
    loss = sd.losses.exponential()
    corrected = sd.debias(loss, sd.Release(sd.GaussianMechanism.from_scale(0.5)))
    assert loss._repr_latex_() == r"$\displaystyle e^{- u y}$"
    assert corrected._repr_latex_() == rf"$\displaystyle {corrected.to_latex()}$"
    page = Reader(corrected._repr_html_())
    assert "math" in page.tags
    assert "exact" in page.text
    unresolved = sd.debias(sd.losses.logistic(), sd.Release(sd.GaussianMechanism.from_scale(0.5)))
    assert unresolved._repr_latex_() is None
    assert "not designed yet" in Reader(unresolved._repr_html_()).text


def test_symbols_of_a_declared_loss_are_escaped():
    x, t, y = sp.Symbol(HOSTILE, real=True), sp.Symbol(LATEX, real=True), sp.Symbol("y", real=True)
    loss = sd.Loss.of_features((t * x**2 - y) ** 2, features=[x], parameters=[t], target=y)
    assert "<script" not in loss._repr_latex_()
    assert r"\href" not in loss._repr_latex_()
    page = Reader(sd.debias(loss, sd.Release({HOSTILE: sd.GaussianMechanism.from_scale(0.5)}))._repr_html_())
    assert "script" not in page.tags
    assert HOSTILE in page.text


def test_releases_and_guarantees_are_shown_in_words():
    release = sd.Release(
        {HOSTILE: sd.GaussianMechanism(1.0, 1e-5, radius=1.0)}, sd.RandomizedResponse(1.0), noiseless=("year",)
    )
    page = Reader(release._repr_html_())
    assert "script" not in page.tags
    for words in (HOSTILE, "Gaussian (epsilon 1, delta 1e-05)", "probability 0.7311", "Not protected", "year"):
        assert words in page.text
    assert "no guarantee" in Reader(sd.Release(sd.GaussianMechanism.from_scale(0.5))._repr_html_()).text
