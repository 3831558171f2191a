import numpy as np
import pytest
import sympy as sp
from instances import U, Y
from quadrature import function

from symdebias.codegen.functions import erf_imag, erf_real, expit, softplus
from symdebias.codegen.numeric import numeric
from symdebias.codegen.stable import plain, rewrite

WRITTEN = {
    "softplus": sp.log(1 + sp.exp(U)),
    "softplus of minus": sp.log(1 + sp.exp(-U)),
    "scaled": sp.log(2 + 3 * sp.exp(-2 * U)),
    "two exponentials": sp.log(sp.exp(U) + sp.exp(-U)),
    "log cosh": sp.log(sp.cosh(U / 3 - 1)) * 3,
    "scaled log cosh": sp.log(7 * sp.cosh(2 * U)) - U,
    "logistic function": 1 / (1 + sp.exp(-U)),
    "turned round": sp.exp(U) / (1 + sp.exp(U)),
    "logistic density": sp.exp(U) / (1 + sp.exp(U)) ** 2,
    "product of both": sp.log(1 + sp.exp(U)) / (1 + sp.exp(3 * U)),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_rewriting_keeps_the_value(name):
    u = np.linspace(-6, 6, 25)
    np.testing.assert_allclose(
        function(rewrite(WRITTEN[name]), U)(u), function(WRITTEN[name], U)(u), rtol=1e-12, atol=1e-14
    )


@pytest.mark.parametrize("name", WRITTEN)
def test_rewritten_forms_do_not_overflow(name):
    assert not rewrite(WRITTEN[name]).has(sp.exp, sp.cosh)


@pytest.mark.parametrize("name", WRITTEN)
def test_plain_undoes_the_rewriting(name):
    assert not plain(rewrite(WRITTEN[name])).has(expit, softplus)


def test_derivatives_are_polynomials_in_expit():
    third = sp.diff(rewrite(sp.log(1 + sp.exp(-U))), U, 3)
    assert third.subs(expit(U), sp.Symbol("q")).free_symbols == {sp.Symbol("q")}


def test_log_cosh_is_finite_far_out():
    u = np.array([-1e6, -800.0, 0.0, 800.0, 1e6])
    written = rewrite(sp.log(sp.cosh(U)))
    np.testing.assert_allclose(numeric(written, (U,))(u), np.abs(u) - np.log(2) * (u != 0), rtol=1e-15, atol=1e-15)
    np.testing.assert_allclose(numeric(sp.diff(written, U), (U,))(u), np.sign(u), rtol=1e-15)
    product = sp.log(U * sp.cosh(U))
    assert rewrite(product) == product


def test_a_margin_of_either_sign_shares_one_evaluation():
    assert expit(-U) == 1 - expit(U)
    assert softplus(-U) == softplus(U) - U


@pytest.mark.parametrize("argindex", [1, 2])
@pytest.mark.parametrize("cls", [erf_real, erf_imag])
def test_derivatives_of_the_complex_error_function(cls, argindex):
    x, y = sp.symbols("x y", real=True)
    derivative = sp.diff(cls(x, y), (x, y)[argindex - 1])
    point, step = [0.7, -0.4], 1e-6
    above, below = list(point), list(point)
    above[argindex - 1] += step
    below[argindex - 1] -= step
    f = function(cls(x, y), x, y)
    numeric = (f(*above) - f(*below)) / (2 * step)
    assert function(derivative, x, y)(*point) == pytest.approx(float(numeric), rel=1e-6)


def test_slopes_of_written_forms_keep_their_digits():
    """e^(a - b)/(e^(a - b) + 1) is the logistic function, and no product of a large and a small number."""
    slope = sp.exp(2 * U - 2 * Y) / (sp.exp(2 * U - 2 * Y) + 1)
    assert rewrite(slope) == expit(2 * U - 2 * Y)
    assert rewrite(sp.exp(U - Y) * slope / (sp.exp(Y - U) + 1)) == sp.exp(U - Y) * expit(2 * U - 2 * Y) * expit(U - Y)
