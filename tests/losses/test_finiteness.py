"""Where a loss is not finite: zeros that are repeated and lie off every grid are found too."""

import numpy as np
import pytest
import sympy as sp

import symdebias as sd
from symdebias.losses.finiteness import overflows, singular_score

U, Y = sp.symbols("u y", real=True)
THIRD = sp.Rational(1, 3)


@pytest.mark.parametrize(
    "expression",
    [
        sp.log((U - THIRD) ** 2),
        sp.log(sp.expand((U - THIRD) ** 2)),
        sp.log((U - THIRD) ** 4 * (1 + U**2)),
        (U - THIRD) ** -2,
        sp.sin(sp.log((U - THIRD) ** 2)),
        1 / sp.expand((U - THIRD) ** 2),
    ],
    ids=str,
)
def test_repeated_zeros_off_the_grid_are_found(expression):
    place = singular_score(expression, U, {})
    assert place == pytest.approx(1 / 3, abs=1e-9)
    with pytest.raises(ValueError, match=r"no finite value at u = 0\.333333"):
        sd.Loss(expression + U, score=U, target=Y)


@pytest.mark.parametrize(
    "expression",
    [
        sp.log(1 + (U - THIRD) ** 2),
        (U - THIRD) ** 2 * sp.log((U - THIRD) ** 2),
        sp.sin(U - THIRD) / (U - THIRD),
        U**2 / (1 + U**4),
        # Parts that are singular by themselves and cancel, beside large ones.
        1 / (sp.exp(U) - 1) - 1 / U,
        (1 - sp.cos(U)) / U**2 + (U + 2) ** 49,
        U**-2 - sp.cos(U) / U**2,
        (U**2 - 1) / (U - 1),
        (U + 2) ** 49 * (1 / (sp.exp(U) - 1) - 1 / U),
        sp.tan(U) - sp.sin(U) / sp.cos(U),
        sp.exp(U) / (1 + sp.exp(U)),
    ],
    ids=str,
)
def test_what_is_finite_is_left_alone(expression):
    assert singular_score(expression, U, {}) is None


@pytest.mark.parametrize(
    "expression",
    [
        (U + THIRD) ** 52 / (U * Y),
        1e9 + sp.log(U**2),
        1e9 * U**2 + 1e-9 / U,
        (3 * U / 2 + 2) ** 49 + sp.log(U**2),
        ((U + 2) ** 49 + sp.log(U**2)) ** 2,
        (U + 1) * ((U + 2) ** 49 + 1 / U),
        (U + 2) ** 40 + 1 / (1 - sp.exp(U)),
    ],
    ids=str,
)
def test_a_pole_is_seen_however_large_the_rest_is(expression):
    with pytest.raises(ValueError, match="no finite value at u = 0"):
        sd.Loss(expression, score=U, target=Y)


@pytest.mark.parametrize(
    ("expression", "beyond"),
    [
        (sp.log(1 + sp.exp(2000 * U)) / 2000, False),
        (U / 3 + sp.log(3 * sp.exp(5000 * U) + 2 + sp.exp(-U)) / 5000, False),
        (sp.log(3 * sp.exp(5000 * U) + U**2 * sp.exp(-U)), True),
        (sp.log(3 * sp.cosh(2000 * U)) / 2000, False),
        (sp.log(sp.cosh(2000 * U) ** 2), True),
        (sp.log(1 + sp.cosh(2000 * U)), True),
        (sp.log(sp.exp(2000 * U) - sp.exp(U)), True),
        (sp.log(1 + sp.exp(2000 * U)) ** 400, True),
        (sp.exp(2000 * U), True),
        (sp.log(2 + sp.sin(sp.exp(2000 * U))), True),
    ],
    ids=str,
)
def test_logarithms_of_what_overflows_are_finite(expression, beyond):
    """Kernels compute log(1 + e^x) without e^x: a smooth maximum may be as narrow as its target's unit asks for."""
    assert overflows(expression, {U: 1.3}) == beyond


@pytest.mark.parametrize("width", [1e-9, 5e-4])
def test_a_quantile_loss_of_small_targets_is_a_loss(width):
    corrected = sd.debias(sd.losses.quantile(0.9, width), sd.Release())
    for score, target, expected in ((3.0, 1.0, 0.2), (1.0, 3.0, 1.8)):
        found = corrected.loss([score], np.ones((1, 1)), np.array([target]))
        assert found == pytest.approx(expected, abs=2 * width)
