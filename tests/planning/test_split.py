"""The best split of a budget: that of a grid."""

import math

import numpy as np
import pytest

import symdebias as sd
from symdebias.planning import Population, best_split, expected_fit

pytestmark = pytest.mark.newest

EXPONENTIAL = sd.losses.exponential()
POPULATION = Population.guess([2.0, -1.0])


def build(budgets):
    features = sd.GaussianMechanism(epsilon=budgets[0], delta=1e-5, radius=math.sqrt(2))
    return sd.Release({("x0", "x1"): features}, sd.RandomizedResponse(epsilon=budgets[1]))


@pytest.mark.exhaustive
def test_the_best_split_is_that_of_a_grid():
    options = {"n": 1e6, "l2": 1.0}
    found = best_split(EXPONENTIAL, build, POPULATION, epsilon=12.0, **options)
    prices = [
        expected_fit(EXPONENTIAL, build([12 * (1 - share), 12 * share]), POPULATION, **options).criterion("worst")
        for share in np.linspace(0.05, 0.6, 23)
    ]
    assert found.expected.criterion("worst") <= 1.02 * min(prices)
    assert found.equal is not None
    assert found.expected.criterion("worst") < found.equal.criterion("worst")
    assert sum(found.budgets) <= 12.0
    assert found.expected.release.guarantee.epsilon <= 12.0


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: best_split(EXPONENTIAL, build, POPULATION, epsilon=1.0, n=10, parts=1), ValueError, "no split"),
    ],
)  # fmt: skip
def test_bad_splits_are_named(call, error, message):
    with pytest.raises(error, match=message):
        call()
