"""The best split of a budget: that of a grid."""

import math

import numpy as np
import pytest

import symdebias as sd
from symdebias.planning import Population, best_split, expected_fit
from symdebias.planning.split import spent

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
    # What is handed out adds up to more than what it composes to.
    assert 12.0 < sum(found.budgets)
    assert 12.0 * (1 - 1e-4) <= found.expected.release.guarantee.epsilon <= 12.0


def test_a_split_spends_the_budget_that_its_release_composes_to():
    for share in (0.02, 0.3, 0.5, 0.9):
        parts = spent(build, 2.0, (share, 1 - share))
        assert parts[0] / parts[1] == pytest.approx(share / (1 - share))
        assert 2.0 < sum(parts)
        assert 2.0 * (1 - 1e-4) <= build(parts).guarantee.epsilon <= 2.0


def test_a_split_is_not_stretched_where_budgets_add_or_are_spent_elsewhere():
    def pure(budgets):
        features = sd.LaplaceMechanism(epsilon=budgets[0], bounds=(-1.0, 1.0))
        return sd.Release({"x0": features}, sd.RandomizedResponse(epsilon=budgets[1]))

    def two_of_three(budgets):
        return build(budgets[:2])

    def unclaimed(budgets):
        return sd.Release({"x0": sd.GaussianMechanism.from_scale(budgets[0])})

    assert sum(spent(pure, 2.0, (0.5, 0.5))) <= 2.0
    assert sum(spent(two_of_three, 3.0, (0.4, 0.4, 0.2))) <= 3.0
    assert sum(spent(unclaimed, 3.0, (0.5, 0.5))) <= 3.0


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: best_split(EXPONENTIAL, build, POPULATION, epsilon=1.0, n=10, parts=1), ValueError, "no split"),
        (lambda: best_split(EXPONENTIAL, None, POPULATION, epsilon=1.0, n=10), TypeError, "build must be a function"),
    ],
)  # fmt: skip
def test_bad_splits_are_named(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.in_turn
def test_columns_in_their_own_units_are_split_as_they_are_released():
    rng = np.random.default_rng(0)
    age = rng.uniform(18, 90, (500, 1))
    y = np.clip(0.1 * age[:, 0] + rng.normal(size=500), 0, 12)

    def collected(budgets, **units):
        features = {"age": sd.LaplaceMechanism(budgets[0], bounds=(-1, 1))}
        target = sd.LaplaceMechanism(budgets[1], bounds=(0, 12))
        return sd.Release(features, target, fit_intercept=True, **units)

    def in_years(budgets):
        return collected(budgets, center={"age": 54.0}, scale={"age": 36.0})

    options = {"epsilon": 8.0, "n": 1e5}
    found = best_split(sd.losses.least_squares(), in_years, Population(age, y), **options)
    same = best_split(sd.losses.least_squares(), collected, Population((age - 54) / 36, y), **options)
    assert found.budgets == same.budgets
    assert found.expected.release == in_years(found.budgets)
    assert dict(found.equal.release.scale) == {"age": 36.0}
    np.testing.assert_allclose(found.expected.covariance, same.expected.covariance, rtol=1e-9)
