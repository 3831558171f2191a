"""Noise that is estimated: from repeated measurements, from validation records, from a reliability ratio."""

import math

import numpy as np
import pandas as pd
import pytest

import symdebias as sd
from symdebias.mechanisms import GaussianMechanism
from symdebias.mechanisms.measurements import beside_true, within_records

NAN = math.nan


def measured_twice(n=40, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=n)[:, None] + 0.5 * rng.normal(size=(n, 2))


def test_two_measurements_of_each_record_leave_half_their_squared_difference():
    W = measured_twice()
    error = GaussianMechanism.from_replicates(W)
    assert error.scale == pytest.approx(np.sqrt(np.mean((W[:, 0] - W[:, 1]) ** 2) / 2), rel=1e-14)
    assert (error.degrees_of_freedom, error.guarantee, error.covariance) == (40.0, None, None)


def test_numbers_of_measurements_may_differ_and_missing_ones_may_stand_anywhere():
    """By hand: sums of squares of groups about their means."""
    W = np.array([[1.0, 2.0, 6.0], [NAN, 4.0, 5.0], [7.0, NAN, NAN], [NAN, NAN, NAN]])
    covariance, freedom = within_records(W)
    assert freedom == 3
    assert covariance == pytest.approx(np.array([[(4 + 1 + 9 + 0.25 + 0.25) / 3]]))


def test_several_columns_have_a_covariance():
    rng = np.random.default_rng(1)
    truth, root = rng.normal(size=(4_000, 1, 2)), np.linalg.cholesky([[0.5, 0.2], [0.2, 0.3]])
    W = truth + rng.normal(size=(4_000, 3, 2)) @ root.T
    W[:1_000, 2] = NAN
    error = GaussianMechanism.from_replicates(W)
    assert error.degrees_of_freedom == 7_000
    # Six standard errors of the largest entry.
    np.testing.assert_allclose(error.covariance, root @ root.T, atol=6 * 0.5 * np.sqrt(2 / 7_000))
    by_hand = sum(np.cov(group[np.isfinite(group[:, 0])].T) * (np.isfinite(group[:, 0]).sum() - 1) for group in W)
    np.testing.assert_allclose(error.covariance, by_hand / 7_000, rtol=1e-12)
    np.testing.assert_allclose(error.of_mean(3).covariance, np.array(error.covariance) / 3)


@pytest.mark.parametrize(
    "given",
    [
        lambda W: W.astype("f4").astype(float),
        np.asfortranarray,
        lambda W: W.tolist(),
        lambda W: pd.DataFrame(W, columns=["first", "second"]),
        lambda W: pd.DataFrame(W, columns=["first", "second"]).convert_dtypes(),
    ],
)
def test_kinds_of_arrays(given):
    W = measured_twice().astype("f4").astype(float)
    W[3, 1] = NAN
    W.flags.writeable = False
    assert GaussianMechanism.from_replicates(given(W)) == GaussianMechanism.from_replicates(W)


def shifted(by):
    W = measured_twice(200)
    return W + np.array([0.0, by])


REFUSED = {
    "a shift of the second ones": (shifted(0.5), "measurement 1 of column 0 is 0.5.* above measurement 0 in the mean"),
    "two columns": (shifted(-40.0), "column 0 is -39.* shifted against each other, or are of different columns"),
    "a shift of the third ones": (
        np.column_stack([measured_twice(200), shifted(0.5)[:, 1]]),
        "measurement 2 of column 0 is 0.5.* above measurement 1 in the mean",
    ),
    "an exact shift": (
        np.arange(20.0)[:, None] + [0.0, 1.0],
        "measurement 1 of column 0 is 1 above measurement 0 in the mean",
    ),
    "a shift beyond most errors": (shifted(4.0), "is 4.05 above measurement 0 in the mean"),
    "one measurement of each": ([[1.0], [2.0]], "leave 0 degrees of freedom.* Measure more records twice"),
    "copies": ([[1.0, 1.0], [2.0, 2.0]], "column 0 has no error: replicates of each record are equal"),
    "copies but for rounding": ([[0.3, 0.1 + 0.2], [2.0, 2.0]], "column 0 has no error"),
    "a part of a measurement": (
        [[[1.0, NAN], [2.0, 3.0]]] * 3,
        "row 0 of replicates has a measurement of some columns",
    ),
    "infinity": ([[1.0, 2.0], [1.0, math.inf]], "replicates have infinity in row 1. Give NaN"),
    "one column": ([1.0, 2.0], r"shape \(2,\); it must be \(n, k\)"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_are_no_replicates(name):
    values, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        GaussianMechanism.from_replicates(values)


@pytest.mark.parametrize("k", [2, 3, 6])
def test_measurements_may_be_sorted_and_shifts_are_rarely_seen_where_there_are_none(k):
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(500):
        W = rng.normal(size=30)[:, None] + 0.5 * rng.normal(size=(30, k))
        within_records(np.sort(W, axis=1))
        try:
            within_records(W)
        except ValueError:
            refused += 1
    # One of a thousand: at most 5 of 500, but for 2 of 10,000.
    assert refused <= 5


@pytest.mark.parametrize("n", [8, 12])
def test_few_sorted_measurements_are_taken(n):
    rng = np.random.default_rng(0)
    for _ in range(300):
        within_records(np.sort(rng.normal(size=(n, 1)) + rng.normal(size=(n, 2)), axis=1))


def test_estimates_go_through_the_card_and_show_themselves():
    error = GaussianMechanism.from_replicates(measured_twice())
    release = sd.Release({"x": error}, noiseless=("z",))
    assert sd.Release.from_json(release.to_json()) == release
    assert eval(repr(error), {"GaussianMechanism": GaussianMechanism}) == error
    assert error != GaussianMechanism.from_scale(error.scale)
    assert error.of_mean(1) == error
    assert "estimated with 40 degrees of freedom" in release._repr_html_()
    assert release.guarantee is None


def test_a_mean_of_releases_has_no_budget():
    with pytest.raises(ValueError, match="has a guarantee for one release"):
        GaussianMechanism(epsilon=1.0, delta=1e-5, radius=1.0).of_mean(2)


# ---- validation ------------------------------------------------------------------------------------------


def validated(n=300, seed=0, *, shift=0.0, slope=0.0):
    rng = np.random.default_rng(seed)
    true = rng.normal(size=(n, 2))
    return true + rng.normal(size=(n, 2)) * [0.5, 1.0] + shift + slope * true, true


def test_validation_records_tell_the_covariance_of_the_error():
    noised, true = validated()
    error = GaussianMechanism.from_validation(noised, true)
    np.testing.assert_allclose(error.covariance, np.cov((noised - true).T), rtol=1e-13)
    assert error.degrees_of_freedom == 299
    one = GaussianMechanism.from_validation(pd.Series(noised[:, 0]), true[:, 0])
    assert one.scale == pytest.approx(np.std(noised[:, 0] - true[:, 0], ddof=1))
    tables = [pd.DataFrame(values, columns=["a", "b"]) for values in (noised, true)]
    assert GaussianMechanism.from_validation(*tables) == error


def test_shifted_and_rescaled_measurements_are_refused():
    with pytest.raises(ValueError, match=r"mean of noised - true in column 0 .*Subtract that mean"):
        beside_true(*validated(shift=0.3))
    with pytest.raises(ValueError, match=r"goes with the true value, by -0\.\d+ a unit.*Calibrate"):
        beside_true(*validated(slope=-0.3))
    # Berkson's error: true values scatter about what was measured.
    true, noised = validated()
    with pytest.raises(ValueError, match="Berkson"):
        beside_true(noised, true)
    # The remedy for the shift is one.
    noised, true = validated(shift=0.3)
    assert beside_true(noised - (noised - true).mean(axis=0), true)[1] == 299


def test_good_samples_are_hardly_ever_refused():
    """Both tests at 1 in 1000, for one column as for two: of 1,000 samples more than 9 have the chance 5e-5."""
    refused = 0
    for seed in range(1_000):
        try:
            beside_true(*validated(12, seed))
        except ValueError:
            refused += 1
    assert refused <= 9


# ---- reliability -----------------------------------------------------------------------------------------


def test_a_reliability_ratio():
    error = GaussianMechanism.from_reliability(0.8, variance=5.0)
    assert (error.scale, error.degrees_of_freedom) == (pytest.approx(1.0), None)
    told = GaussianMechanism.from_reliability(0.8, variance=5.0, standard_error=0.02)
    assert told.scale == pytest.approx(1.0)
    # The variance of a variance of f degrees of freedom is 2 sigma^4/f; here it is (5 * 0.02)^2.
    assert 2 / told.degrees_of_freedom == pytest.approx(0.01)
    with pytest.raises(ValueError, match=r"standard_error=0.3 is much .*below 0.283"):
        GaussianMechanism.from_reliability(0.8, variance=5.0, standard_error=0.3)


def test_measurements_that_are_turned_over_are_refused():
    """A list of two columns read as two records, whose error was all that records differ by: 1.25 for 0.25 here.

    The test sees a correlation of .15 over 1,000 records; independent errors of one sample in a thousand are refused.
    """
    first, second = measured_twice(n=1_000).T
    for replicates in ([first, second], np.array([first, second]), [pd.Series(first), pd.Series(second)]):
        with pytest.raises(
            ValueError, match=r"look like 2 measurements of 1,000 records.*numpy\.stack\(replicates, axis=1\)"
        ):
            within_records(replicates)
    tables = [pd.DataFrame({"a": one, "b": one[::-1]}) for one in (first, second)]
    with pytest.raises(ValueError, match="2 measurements of 1,000 records"):
        within_records(tables)
    stacked, _ = within_records(np.stack(tables, axis=1))
    assert stacked[0, 0] == pytest.approx(0.25, rel=0.2)
    specimens = np.random.default_rng(0).normal(size=(3, 40)) + np.array([[0.0], [5.0], [9.0]])
    assert within_records(specimens)[1] == 3 * 39


def test_validation_tables_are_matched_by_name():
    """By place, the true values of one column stood beside the measurements of another."""
    rng = np.random.default_rng(0)
    true = pd.DataFrame(rng.normal(size=(500, 2)), columns=["a", "b"])
    noised = true + rng.normal(size=(500, 2)) * [0.2, 0.8]
    expected, _ = beside_true(noised, true)
    np.testing.assert_array_equal(beside_true(noised, true[["b", "a"]])[0], expected)
    np.testing.assert_allclose(beside_true(noised[["b", "a"]], true)[0], expected[::-1, ::-1], rtol=1e-12)
    with pytest.raises(ValueError, match="where the two were exchanged, the measurements come first"):
        beside_true(true, noised)
