"""Losses of a noised label: what is read as one, and what is refused."""

import math

import numpy as np
import pytest
import sympy as sp

import symdebias as sd
from symdebias.mechanisms.label_loss import label_loss

T, Y = np.linspace(-3, 5, 17)[:, None], np.array([0.0, 0.5, 2.0])
t, y, r = sp.symbols("outcome label residual")


def named(given):
    """A name that is the same in all processes."""
    return given.__name__ if callable(given) and not isinstance(given, sd.Loss) else str(given)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("squared", "squared"),
        ((t - y) ** 2, "squared"),
        (sp.Abs(t - y), "absolute"),
        (sd.losses.least_squares(), "1/2*residual**2"),
        (sd.losses.expectile(0.75), "1/2*residual**2 - 1/4*residual*Abs(residual)"),
        (lambda r: np.logaddexp(0, r), "log(1 + exp(residual))"),
        ("residual*outcome", "outcome*(outcome - label)"),
        ("(outcome - label)**2*label + 1/2", "1/2 + label*(outcome - label)**2"),
        ("((residual + label)**12 + 1)**12", "(1 + outcome**12)**12"),
    ],
    ids=named,
)
def test_one_text_for_one_loss(given, text):
    found = label_loss(given)
    assert found == label_loss(text) == label_loss(found.text)
    if " - label" not in text:
        assert found.text == text


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("squared", lambda t, y: (t - y) ** 2),
        (sd.losses.huber(1), lambda t, y: np.where(abs(t - y) < 1, (t - y) ** 2 / 2, abs(t - y) - 0.5)),
        ("Max(residual, 0)*3 + Max(-residual, 0)", lambda t, y: np.where(t > y, 3 * (t - y), y - t)),
        (sp.exp(t / 9) - t * y, lambda t, y: np.exp(t / 9) - t * y),
        (np.abs, lambda t, y: abs(t - y)),
    ],
    ids=named,
)
def test_values(given, wanted):
    loss = label_loss(given)
    np.testing.assert_allclose(loss(T, Y), wanted(T, Y), rtol=1e-14, atol=1e-15)
    loss.require_convex(T[:, 0], Y)


def test_curvatures_of_quadratics():
    assert label_loss("3*residual**2 - residual").curvatures(Y).tolist() == [3.0, 3.0, 3.0]
    assert label_loss("label*outcome**2 + outcome").curvatures(Y).tolist() == Y.tolist()
    assert label_loss("2*outcome - label").curvatures(Y).tolist() == [0.0] * 3
    for other in ("residual**4", "Abs(residual)", "((outcome + 1)**12 + label)**12"):
        assert label_loss(other).curvatures(Y) is None


@pytest.mark.parametrize(
    "loss", ["residual**2 - Abs(residual)/100", "cos(residual)", "outcome**2*(label - 1)", "-residual**2"]
)
def test_what_is_not_convex_is_seen(loss):
    with pytest.raises(ValueError, match="is not convex in the outcome: for the label"):
        label_loss(loss).require_convex(T[:, 0], Y)


def test_far_outputs_do_not_hide_what_is_concave_among_the_labels():
    # log(Gamma(1 + t^2)) is -0.58 t^2 at 0 and convex farther out.
    with pytest.raises(ValueError, match="is not convex in the outcome: for the label 0 its slope falls"):
        label_loss("loggamma(1 + outcome**2)").require_convex(np.linspace(-1000, 1000, 50), Y)


@pytest.mark.parametrize(
    "loss", ["residual**2*1e9 + 1e12", "log(cosh(residual))", "sqrt(1 + residual**2/10**8)", "outcome"]
)
def test_rounding_does_not_look_like_a_concave_loss(loss):
    label_loss(loss).require_convex(np.union1d(T, [1e-13, 1 / 3, 1 / 3 + 1e-12]), Y)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ("cubic", ValueError, "Choose one of squared, absolute, or give"),
        ("", ValueError, "is no expression"),
        ("x**2", ValueError, "has the name x, which was not declared"),
        ("exec(residual)", ValueError, "calls exec"),
        ("label**2", ValueError, "does not depend on the outcome"),
        (sp.Symbol("u") ** 2, ValueError, "has the symbols u. Name them residual"),
        (sp.Integral(r, r), ValueError, "of the type Integral"),
        (sp.gamma(r), ValueError, "cannot be put onto a card"),
        (sd.losses.huber, TypeError, r"Call it: losses\.huber"),
        (sd.Loss, TypeError, "got type"),
        (sd.losses.logistic(), ValueError, "is not one of the residual"),
        (sd.losses.poisson(), ValueError, "is not one of the residual"),
        (sd.losses.softmax(3), ValueError, "has 3 scores"),
        (lambda: 1, TypeError, "a function of 0 arguments"),
        (lambda a, b, c: a, TypeError, "a function of 3 arguments"),
        (lambda r: r if r > 0 else -r, TypeError, "numpy.absolute, or declare the loss with sympy"),
        (lambda r: math.exp(r), TypeError, "needs plain numbers"),
        (lambda r: None, TypeError, "NoneType"),
        (None, TypeError, "got NoneType"),
        (2.0, TypeError, "got float"),
        (np.array([1.0]), TypeError, "got ndarray"),
    ],
)
def test_what_is_refused(given, error, message):
    with pytest.raises(error, match=message):
        label_loss(given)
