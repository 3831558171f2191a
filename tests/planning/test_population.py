"""Populations: drawn from guesses, and with the moments of a pilot study."""

import math

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import stats

import symdebias as sd
from symdebias._columns import Table
from symdebias.planning import Population, expected_fit

pytestmark = pytest.mark.newest

EXPONENTIAL = sd.losses.exponential()


def test_a_population_with_the_moments_of_a_pilot_study():
    """Four deviations of the pilot and of the population (false alarms 4e-4): a noise variance 8% off is seen."""
    rng = np.random.default_rng(1)
    spread = np.array([[0.08, 0.03], [0.03, 0.06]])
    X = rng.multivariate_normal([0.2, -0.1], spread, size=100_000)
    noised = sd.Release({("x0", "x1"): sd.GaussianMechanism.from_scale(0.2)})
    released = noised.privatize(X, np.ones(len(X)), random_state=2)
    corrected = sd.debias(EXPONENTIAL, noised)
    population = Population.from_pilot(corrected, released.X, released.y, theta=[1.0, 0.5], size=100_000)
    np.testing.assert_allclose(population.X.mean(axis=0), X.mean(axis=0), atol=4 * 1.1e-3)
    np.testing.assert_allclose(np.cov(population.X.T), np.cov(X.T), atol=4 * 4.7e-4)
    assert np.abs(population.X).max() <= 1


def test_wide_columns_of_a_pilot_stay_as_wide():
    """Uniform ones, of -1 and +1, and skewed ones: within six deviations, where [-1, 1] cuts normal ones by .1."""
    rng, n = np.random.default_rng(2), 400_000
    shared = rng.normal(size=n)
    uniform = 2 * stats.norm.cdf((shared + rng.normal(size=n)) / math.sqrt(2)) - 1
    signs = np.where(shared + rng.normal(size=n) > 0.5, 1.0, -1.0)
    X = np.column_stack([uniform, signs, 1 - 2 * rng.beta(1, 4, size=n)])
    noised = sd.Release({("x0", "x1", "x2"): sd.GaussianMechanism.from_scale(0.1)})
    released = noised.privatize(X, np.ones(n), random_state=3)
    population = Population.from_pilot(
        sd.debias(EXPONENTIAL, noised), released.X, released.y, theta=[1.0, 0.5, 0.0], size=200_000
    )
    np.testing.assert_allclose(population.X.mean(axis=0), X.mean(axis=0), atol=0.015)
    np.testing.assert_allclose(np.cov(population.X.T), np.cov(X.T), atol=0.015)
    # What is uniform comes back as that: of its fourths .8 are the deviation of a normal column that is cut.
    np.testing.assert_allclose(
        np.quantile(population.X[:, 0], [0.1, 0.25, 0.75, 0.9]), [-0.8, -0.5, 0.5, 0.8], atol=0.02
    )
    assert np.mean(np.abs(population.X[:, 1]) > 0.99) > 0.9


@pytest.mark.parametrize("spread", [0.1, 0.3, 0.5, 0.577, 0.8, 0.95])
def test_guessed_features_have_the_guessed_moments(spread):
    """Six deviations of a share of the variance; of normal ones that are cut .577 would be .47, and .8 be .52."""
    population = Population.guess([1.0, 1.0], mean=[0.0, 0.1], covariance=[spread**2] * 2)
    np.testing.assert_allclose(population.X.std(axis=0), spread, rtol=0.03)
    np.testing.assert_allclose(population.X.mean(axis=0), [0.0, 0.1], atol=6 * spread / math.sqrt(20_000))
    assert abs(np.corrcoef(population.X.T)[0, 1]) < 0.01
    joined = Population.guess([1.0, 1.0], covariance=spread**2 * np.array([[1.0, -0.6], [-0.6, 1.0]]))
    assert np.corrcoef(joined.X.T)[0, 1] == pytest.approx(-0.6, abs=0.02)


@pytest.mark.parametrize("correlation", [0.9, 0.97, -0.9])
@pytest.mark.parametrize("variance", [0.1, 1 / 3, 0.9])
def test_correlations_of_spread_out_columns_are_reached(variance, correlation):
    X = Population.guess(
        [1.0, 1.0], covariance=variance * np.array([[1, correlation], [correlation, 1]]), random_state=0
    ).X
    assert np.corrcoef(X.T)[0, 1] == pytest.approx(correlation, abs=0.015)
    np.testing.assert_allclose(X.var(axis=0), variance, rtol=0.03)


def test_correlations_that_columns_of_such_means_do_not_have_are_refused():
    with pytest.raises(ValueError, match=r"one is 0\.\d+ off where they come nearest"):
        Population.guess([1.0, 1.0], mean=[0.8, -0.8], covariance=[[0.3, 0.15], [0.15, 0.3]], random_state=0)
    with pytest.raises(ValueError, match="does not vary within"):
        Population.guess([1.0, 1.0], mean=[1.0, 0.0], covariance=[0.0, 0.1], random_state=0)


def test_pilots_that_no_population_stands_for():
    rng = np.random.default_rng(0)
    noised = sd.Release({("x0",): sd.GaussianMechanism.from_scale(0.1)})
    corrected = sd.debias(EXPONENTIAL, noised)
    for X in (rng.uniform(-30, 30, size=(1_000, 1)), rng.uniform(2, 3, size=(1_000, 1))):
        released = noised.privatize(X, np.ones(1_000), random_state=1)
        with pytest.raises(ValueError, match=r"in \[-1, 1\].*[Ss]cale (?:it|them) to the bounds"):
            Population.from_pilot(corrected, released.X, released.y, theta=[1.0])
    released = noised.privatize(X / 4, np.ones(1_000), random_state=1)
    with pytest.raises(ValueError, match=r"theta has the shape \(2,\)"):
        Population.from_pilot(corrected, released.X, released.y, theta=[1.0, 2.0])
    # Nearly all of a column of -1 and +1 may be +1.
    ones = noised.privatize(np.where(np.arange(1_000)[:, None] < 5, -1.0, 1.0), np.ones(1_000), random_state=1)
    assert Population.from_pilot(corrected, ones.X, ones.y, theta=[1.0], size=50).X.mean() > 0.9


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: Population.guess([]), ValueError, "no parameter|shape"),
        (lambda: Population.guess([1.0, math.nan]), ValueError, "NaN|finite"),
        (lambda: Population.guess([1.0], family="gamma"), ValueError, "not known"),
        (lambda: Population.guess([1.0], intercept=True), ValueError, "no parameter of a feature"),
        (lambda: Population.guess([1.0], mean=[0.5]), ValueError, "without covariance"),
        (lambda: Population.guess([1.0], mean=[30.0], covariance=[0.1]), ValueError, "does not vary within"),
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


UNITS = {"center": {"age": 40.0, "hours": 30.0}, "scale": {"age": 30.0, "hours": 25.0}}


@pytest.mark.parametrize("drawn", ["guess", "from_pilot"])
def test_populations_that_are_drawn_are_in_released_units(drawn):
    """Ages that lie in [-1, 1] would be centred and scaled once more, to columns that next to nothing varies in."""
    noise = {("age", "hours"): sd.GaussianMechanism.from_scale(0.3)}
    plain, scaled = sd.Release(noise, fit_intercept=True), sd.Release(noise, **UNITS, fit_intercept=True)
    theta = [1.0, -0.5, 0.2]
    if drawn == "guess":
        population = Population.guess(theta, intercept=True)
    else:
        rng = np.random.default_rng(4)
        X = np.array([40.0, 30.0]) + rng.uniform(-1, 1, (50_000, 2)) * [30.0, 25.0]
        noised = scaled.privatize(X, np.ones(len(X)), random_state=5)
        corrected = sd.debias(sd.losses.squared_margin(), noised.release)
        population = Population.from_pilot(corrected, noised.X, noised.y, theta=theta)
    assert population.is_drawn
    loss = sd.losses.squared_margin()
    expected, wanted = (expected_fit(loss, one, population, n=10_000) for one in (scaled, plain))
    np.testing.assert_allclose(expected.theta, wanted.theta)
    np.testing.assert_allclose(expected.standard_errors, wanted.standard_errors)
    assert expected.release == scaled
    given = Population(population.X * [30.0, 25.0] + [40.0, 30.0], population.y)
    assert not given.is_drawn
    np.testing.assert_allclose(expected_fit(loss, scaled, given, n=10_000).theta, wanted.theta)
    plans = [
        sd.plan(
            loss, one, epsilon=8.0, n=100_000, mechanisms=["laplace"], target="public", columns=("age", "hours"),
            **UNITS, fit_intercept=True,
        )
        for one in (population, given)
    ]  # fmt: skip
    np.testing.assert_allclose(*(plan.best.expected.standard_errors for plan in plans))
