"""Plans tried out: what becomes of the fits to releases of a population."""

import json
import math
import warnings

import numpy as np
import pytest

import symdebias as sd
from symdebias.planning import Population, rehearse

PEOPLE = Population.guess([1.0, -0.5], size=5_000)
NOISY = sd.Release(sd.GaussianMechanism.from_scale(0.5))
LOSS = sd.losses.squared_margin()


def test_fits_scatter_about_the_parameters_of_the_population_as_expected():
    """Of 40 fits the mean is within 4 of its standard errors, and the spread within a factor of 1.5 (4 deviations)."""
    tried = rehearse(LOSS, NOISY, PEOPLE, n=4_000, fits=40)
    expected = sd.planning.expected_fit(LOSS, NOISY, PEOPLE, n=4_000)
    np.testing.assert_allclose(tried.theta, expected.theta)
    away = (tried.thetas.mean(axis=0) - tried.theta) / expected.standard_errors * math.sqrt(40)
    assert np.abs(away).max() < 4
    ratio = tried.thetas.std(axis=0, ddof=1) / expected.standard_errors
    assert 1 / 1.5 < ratio.min() <= ratio.max() < 1.5
    # 30 of 40 intervals of 95% or fewer: a false alarm in 2e-5.
    assert tried.coverage.min() > 0.75
    assert (tried.refused, tried.clipped, tried.names) == (0, 0.0, ("x0", "x1"))
    assert "40 releases of 4,000 records, each fitted: 0 refused" in str(tried)


def test_refusals_are_kept_and_told_by_their_kind():
    release = sd.Release(sd.GaussianMechanism.from_scale(1.5))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tried = rehearse(sd.losses.exponential(), release, PEOPLE, n=1_000, fits=4)
    assert sorted(tried.refusals) == [0, 1, 2, 3]
    assert np.isnan(tried.thetas).all()
    assert np.isnan(tried.coverage).all()
    assert "4 refused" in str(tried)
    assert "refused, " in str(tried)
    said = json.loads(json.dumps(tried.as_json()["refusals"]))
    assert len(said) == 4
    assert all(isinstance(error, sd.SymdebiasError) for error in tried.refusals.values())


def test_what_fits_warn_of_is_counted_and_not_said():
    """Labels at an epsilon of .15 are undone by a factor of 13: gradients are as much longer."""
    release = sd.Release(sd.LaplaceMechanism.from_scale(0.1), sd.RandomizedResponse(epsilon=0.15))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tried = rehearse(sd.losses.logistic(), release, Population.guess([2.0, -1.0]), n=50_000, fits=2)
    assert sorted(tried.warned) == [0, 1]
    assert "warned, 2 of 2, such as: undoing the noise makes the gradients' mean square 1" in str(tried)


def test_fits_without_intervals_are_counted():
    """Bounds decide: there are standard errors and no intervals where the noise is not corrected."""
    tried = rehearse(LOSS, NOISY, PEOPLE, n=2_000, fits=3, method="none")
    assert tried.refused == 0
    assert not np.isnan(tried.standard_errors).any()
    assert np.isnan(tried.intervals).all()
    assert "3 without intervals" in str(tried)
    assert "none" in str(tried)
    # The noise halves the parameters, and is not taken out.
    assert np.all(np.abs(tried.thetas) < 0.75 * np.abs(tried.theta))


def test_records_outside_the_bounds_are_counted():
    release = sd.Release(sd.GaussianMechanism(epsilon=1.0, delta=1e-5, radius=1.0))
    long = np.linalg.norm(PEOPLE.X, axis=1) > 1
    tried = rehearse(LOSS, release, PEOPLE, n=4_000, fits=3)
    # 12,000 draws: four standard deviations of a share of a fifth.
    assert tried.clipped == pytest.approx(long.mean(), abs=0.015)
    assert "lay outside the bounds" in str(tried)


@pytest.mark.in_turn
def test_columns_in_their_own_units_and_scores_have_names():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(20, 60, 3_000), rng.uniform(0, 10, 3_000)])
    y = 0.02 * X[:, 0] + 0.1 * X[:, 1] + 0.1 * rng.normal(size=3_000)
    release = sd.Release(
        {("age", "hours"): sd.GaussianMechanism.from_scale(0.2)}, center={"age": 40, "hours": 5},
        scale={"age": 20, "hours": 5}, fit_intercept=True,
    )  # fmt: skip
    tried = rehearse(sd.losses.least_squares(), release, Population(X, y), n=3_000, fits=3)
    assert tried.names == ("age", "hours", "intercept")
    assert tried.release == release
    np.testing.assert_allclose(tried.theta, [0.4, 0.5, 1.3], atol=0.02)
    classes = rng.integers(3, size=3_000)
    many = rehearse(
        sd.losses.softmax(3), sd.Release(sd.LaplaceMechanism.from_scale(0.1)), Population(X / 60, classes), n=2_000,
        fits=1, l2=0.1,
    )  # fmt: skip
    assert many.names == ("x0[0]", "x1[0]", "x0[1]", "x1[1]", "x0[2]", "x1[2]")
    assert many.thetas.shape == (1, 6)


def test_the_guess_of_a_schema_lies_within_its_norm():
    """Numbers uniform in a square leave its circle in a fifth of the records, and clipping would bias the fits."""
    schema = {
        "epsilon": 8.0, "loss": "squared_margin", "norm": 1.0,
        "columns": {"age": {"bounds": [17, 75]}, "hours": {"bounds": [10, 80]}},
        "target": {"name": "income", "categories": ["low", "high"]},
    }  # fmt: skip
    found = sd.planning.feasibility(schema, n=20_000)
    assert np.linalg.norm(found.population.X[:, :2], axis=1).max() <= 1 + 1e-12
    assert found.rehearse(fits=2).clipped == 0


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"n": 1}, "Give at least 2 records"),
        ({"n": 10**9}, "at most 125,000,000 numbers"),
        ({"n": "many"}, "n has the type str"),
        ({"fits": 0}, "fits=0"),
        ({"level": 1.0}, "level=1.0"),
        ({"method": "guess"}, "method='guess'"),
        ({"random_state": "0"}, "random_state"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(wrong, said):
    with pytest.raises((ValueError, TypeError), match=said):
        rehearse(LOSS, NOISY, PEOPLE, **{"n": 100, "fits": 1, **wrong})


def test_it_repeats():
    first, again, other = (rehearse(LOSS, NOISY, PEOPLE, n=500, fits=2, random_state=seed) for seed in (0, 0, 1))
    assert np.array_equal(first.thetas, again.thetas)
    assert not np.array_equal(first.thetas, other.thetas)


@pytest.mark.parametrize(
    "estimate", [0.5, [[0.25, 0.0], [0.0, 0.2]], [[0.25, 0.1], [0.1, 0.2]]], ids=["scale", "diagonal", "covariance"]
)
def test_estimates_of_noise_are_others_in_each_fit(estimate):
    """The error of the estimate is four times the rest: fits by one estimate would scatter a quarter as far.

    The spread of 40 fits is within a factor of 1.6 of what is expected (4 deviations, and what is skew of the law).
    """
    people = Population.guess([1.0, -0.5], family="normal", residual=0.7, size=5_000)
    own = sd.Release(sd.GaussianMechanism.from_estimate(estimate, 40))
    loss = sd.losses.least_squares()
    tried = rehearse(loss, own, people, n=10_000, fits=40)
    expected = sd.planning.expected_fit(loss, own, people, n=10_000)
    ratio = tried.thetas.std(axis=0, ddof=1) / expected.standard_errors
    assert 1 / 1.6 < ratio.min() <= ratio.max() < 1.6
    # 30 of 40 intervals of 95% or fewer: a false alarm in 2e-5.
    assert tried.coverage.min() > 0.75


def test_a_covariance_of_fewer_degrees_than_columns_is_not_estimated_anew():
    own = sd.Release(sd.GaussianMechanism.from_estimate([[0.25, 0.1], [0.1, 0.2]], 1))
    with pytest.raises(sd.exceptions.InferenceError, match="more than 5 are needed"):
        rehearse(LOSS, own, PEOPLE, n=1_000, fits=2)
