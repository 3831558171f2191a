"""Which losses have their target in the second derivatives."""

import pytest
import sympy as sp

import symdebias as sd
from symdebias.losses.constants import without_features
from symdebias.losses.curvature import has_target_in_curvature

a, b, c, u, v, x, y = sp.symbols("a b c u v x y", real=True)


def of_features(expression, parameters, values=None):
    return sd.Loss.of_features(expression, features=x, parameters=parameters, target=y, target_values=values)


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("loss", "told"),
    [
        (sd.losses.logistic(), False),
        (sd.losses.poisson(), False),
        (sd.losses.least_squares(), False),
        (sd.losses.softmax(3), False),
        (sd.losses.probit(), True),
        (sd.losses.exponential(), True),
        (sd.losses.hinge(), True),
        (sd.losses.huber(), True),
        (sd.Loss(sp.exp(u) + sp.exp(v) - y * (u - v), score=(u, v), target=y), False),
        (sd.Loss(sp.exp(u) + sp.exp(v) - y * u * v, score=(u, v), target=y), True),
        (of_features(sp.log(1 + sp.exp(-y * (a * x + b))), (a, b), (-1, 1)), False),
        (of_features(sp.exp(-y * (a * x + b)), (a, b), (-1, 1)), True),
        (of_features((a * x**2 + b - y) ** 2, (a, b)), False),
        (of_features((sp.exp(a) * x + b - y) ** 2, (a, b)), True),
        # What bends at scores of a size of its own.
        (sd.Loss(sp.Max(0, 4 - u * y) ** 2, score=u, target=y, target_values=(-1, 1)), True),
        (sd.Loss(sp.Max(0, 5 - u * y / 10**13) ** 2, score=u, target=y, target_values=(-1, 1)), True),
        (sd.Loss(-sp.log(sp.erfc(-y * u / 10**13)), score=u, target=y, target_values=(-1, 1)), True),
        (sd.losses.huber(50.0), True),
        (sd.losses.cauchy(1e13), True),
        (sd.Loss(sp.log(1 + sp.exp(-y * u / 10**13)), score=u, target=y, target_values=(-1, 1)), False),
        (sd.Loss(10**20 * sp.log(1 + sp.exp(-y * u)), score=u, target=y, target_values=(-1, 1)), False),
    ],
    ids=str,
)
def test_which_losses_have_the_target_in_their_curvature(loss, told):
    assert has_target_in_curvature(loss) is told


@pytest.mark.parametrize(
    ("expression", "parameters", "places"),
    [
        ((a * x + b - y) ** 2, (a, b), [1]),
        ((a * x + b - y) ** 2, (b, a), [0]),
        ((a * x + b * x**2 - y) ** 2, (a, b), []),
        (c + sp.exp(-2 * c) * (a * x + b - y) ** 2, (a, b, c), [1, 2]),
    ],
    ids=str,
)
def test_which_parameters_a_loss_has_without_features(expression, parameters, places):
    assert without_features(of_features(expression, parameters)).tolist() == places
