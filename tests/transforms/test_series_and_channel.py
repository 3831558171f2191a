import itertools

import numpy as np
import pytest
import sympy as sp
from instances import U, Y
from quadrature import function, gaussian_mean

from symdebias.codegen import stable
from symdebias.exceptions import NoExactCorrectionError
from symdebias.transforms import affine_in_target, exact_series, inverse_heat, truncated_series

S = sp.Symbol("s", positive=True)


def test_series_of_a_polynomial_is_its_closed_form():
    f = U**6 - 3 * U**3 + U
    assert sp.expand(exact_series(f, {U: S}) - inverse_heat(f, U, S).expression) == 0


def test_series_in_two_variables():
    v, d = sp.symbols("v d", positive=True)
    f = U**2 * v**2
    assert sp.expand(exact_series(f, {U: S, v: d}) - (U**2 - S) * (v**2 - d)) == 0


def test_truncated_series_converges_to_the_closed_form():
    f, exact = sp.exp(-U), function(sp.exp(-U - S / 2), U, S)(0.3, 0.5)
    errors = [abs(function(truncated_series(f, {U: S}, order=k), U, S)(0.3, 0.5) - exact) for k in range(6)]
    assert all(later < 0.3 * earlier for earlier, later in itertools.pairwise(errors))


@pytest.mark.in_turn
@pytest.mark.parametrize("order", [1, 2, 3])
def test_bias_of_the_truncated_log_loss(order):
    """Sup bias on |u| <= 5 at s = 1: .0096, .0018 and .00046 (theory of the truncated series)."""
    f = stable.rewrite(sp.log(1 + sp.exp(-U)))
    corrected = function(truncated_series(f, {U: S}, order=order), U, S)
    u = np.linspace(-5, 5, 201)[:, None]
    bias = gaussian_mean(lambda noise: corrected(u + noise, 1.0), 1.0) - function(f, U)(u[:, 0])
    assert np.abs(bias).max() == pytest.approx([9.6e-3, 1.8e-3, 4.6e-4][order - 1], rel=0.03)


@pytest.mark.parametrize("kink", [sp.Abs(U), sp.Max(0, 1 - U), sp.Piecewise((U, U > 0), (0, True))])
def test_kinks_have_no_series(kink):
    with pytest.raises(NoExactCorrectionError, match="kink or a jump"):
        truncated_series(kink, {U: S}, order=2)


def test_no_series_ends_but_that_of_a_polynomial():
    with pytest.raises(NoExactCorrectionError, match="not a polynomial"):
        exact_series(sp.exp(U), {U: S})


@pytest.mark.parametrize("f", [sp.exp(-Y * U), sp.log(1 + sp.exp(-Y * U)), (U * Y - 1) ** 2, Y * U**3 + Y**2])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_inverse_bernoulli_by_enumeration(f, epsilon):
    keep = 1 / (1 + np.exp(-epsilon))
    gain = 1 / np.tanh(epsilon / 2)
    corrected = function(affine_in_target(f, Y, (-1, 1), gain * Y), U, Y)
    u = np.linspace(-2, 2, 9)
    for y in (-1.0, 1.0):
        mean = keep * corrected(u, y) + (1 - keep) * corrected(u, -y)
        np.testing.assert_allclose(mean, function(f, U, Y)(u, y), atol=1e-12)


def test_inverse_bernoulli_is_the_papers_formula():
    """B^-1[g](y) = S g(y) + (1 - S) g(-y), S = 1/(1 - exp(-epsilon))."""
    epsilon = 0.8
    weight = 1 / (1 - np.exp(-epsilon))
    ours = function(affine_in_target(sp.exp(-Y * U), Y, (-1, 1), Y / np.tanh(epsilon / 2)), U, Y)
    assert ours(0.7, 1.0) == pytest.approx(weight * np.exp(-0.7) + (1 - weight) * np.exp(0.7), rel=1e-13)


def test_label_noise_meets_a_linear_term_of_the_log_loss_only():
    c = sp.Symbol("c")
    f = stable.rewrite(sp.log(1 + sp.exp(-Y * U)))
    assert sp.diff(affine_in_target(f, Y, (-1, 1), c * Y), c) == -U * Y / 2


def test_other_values_than_signs():
    f = (U - Y) ** 2
    corrected = affine_in_target(f, Y, (0, 1), Y)
    assert sp.simplify(corrected.subs(Y, 0) - U**2) == 0
    assert sp.simplify(corrected.subs(Y, 1) - (U - 1) ** 2) == 0
