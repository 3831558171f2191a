"""Populations: drawn from guesses, and with the moments of a pilot study."""

import math

import numpy as np
import pandas as pd
import polars as pl
import pytest

import symdebias as sd
from symdebias._columns import Table
from symdebias.planning import Population

pytestmark = pytest.mark.newest

EXPONENTIAL = sd.losses.exponential()


def test_a_population_with_the_moments_of_a_pilot_study():
    """Four standard deviations of the pilot and of the population (false alarms 4e-4): a noise variance 8% off is seen.

    The population leaves out what lies outside [-1, 1], and the records that it is compared with do so too.
    """
    rng = np.random.default_rng(1)
    spread = np.array([[0.08, 0.03], [0.03, 0.06]])
    X = rng.multivariate_normal([0.2, -0.1], spread, size=100_000)
    noised = sd.Release({("x0", "x1"): sd.GaussianMechanism.from_scale(0.2)})
    released = noised.privatize(X, np.ones(len(X)), random_state=2)
    corrected = sd.debias(EXPONENTIAL, noised)
    population = Population.from_pilot(corrected, released.X, released.y, theta=[1.0, 0.5], size=100_000)
    inside = X[np.abs(X).max(axis=1) <= 1]
    np.testing.assert_allclose(population.X.mean(axis=0), inside.mean(axis=0), atol=4 * 1.1e-3)
    np.testing.assert_allclose(np.cov(population.X.T), np.cov(inside.T), atol=4 * 4.7e-4)
    assert np.abs(population.X).max() <= 1


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: Population.guess([]), ValueError, "no parameter|shape"),
        (lambda: Population.guess([1.0, math.nan]), ValueError, "NaN|finite"),
        (lambda: Population.guess([1.0], family="gamma"), ValueError, "not known"),
        (lambda: Population.guess([1.0], intercept=True), ValueError, "no parameter of a feature"),
        (lambda: Population.guess([1.0], mean=[0.5]), ValueError, "without covariance"),
        (lambda: Population.guess([1.0], mean=[30.0], covariance=[0.1]), ValueError, "once in a hundred"),
        (lambda: Population.guess([1.0], covariance=[-1.0]), ValueError, "covariance"),
        (lambda: Population.guess([1.0], size=0), ValueError, "size"),
        (lambda: Population([[1.0]], [1.0]), ValueError, "two records"),
        (lambda: Population([[1.0], [np.nan]], [1.0, 1.0]), ValueError, "NaN"),
    ],
)  # fmt: skip
def test_bad_input_is_named(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, Table], ids=["pandas", "polars", "own"])
def test_a_population_of_a_table(kind):
    columns = {"age": np.array([1, 2, 3]), "hours": np.array([0.5, 0.25, 1.0])}
    found = Population(kind(columns), [1.0, -1.0, 1.0])
    np.testing.assert_array_equal(found.X, np.column_stack(list(columns.values())))
    text = kind(columns | {"place": np.array(["n", "e", "n"], dtype=object)})
    with pytest.raises(TypeError, match=r"column place of X holds text.* Pass the places of its categories"):
        Population(text, [1.0, -1.0, 1.0])
