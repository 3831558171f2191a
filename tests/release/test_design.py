"""Columns as rows of a score, against enumeration of what every column may be released as."""

import itertools

import numpy as np
import pytest

import symdebias as sd
from symdebias.exceptions import NoExactCorrectionError

RELEASES = {
    "all kinds, intercept": sd.Release(
        {
            "region": sd.RandomizedResponse(1.0, ("n", "e", "s")),
            "dose": sd.LaplaceMechanism.from_scale(0.5),
            "grade": sd.FiniteChannel([[0.8, 0.1, 0.1], [0.4, 0.3, 0.3]], ("low", "high"), (1, 2, 3)),
            "sex": sd.RandomizedResponse(2.0, (0, 3)),
        },
        noiseless=("year",),
        fit_intercept=True,
    ),
    "three categories, no intercept": sd.Release({"region": sd.RandomizedResponse(1.0, ("n", "e", "s"))}),
}
NAMES = {
    "all kinds, intercept": ("region=e", "region=s", "dose", "grade=high", "sex", "year", "intercept"),
    "three categories, no intercept": ("region=n", "region=e", "region=s"),
}
RECORDS = {
    "all kinds, intercept": np.array([[2, 0.3, 1, 1, -1.5], [0, -0.4, 0, 0, 2.0]]),
    "three categories, no intercept": np.array([[0.0], [2.0]]),
}
ROWS = {
    "all kinds, intercept": [[0, 1, 0.3, 1, 3, -1.5, 1], [0, 0, -0.4, 0, 0, 2.0, 1]],
    "three categories, no intercept": [[1, 0, 0], [0, 0, 1]],
}


def outcomes(design, record):
    """Return what a record is released as by its channels, and how likely each is."""
    choices = [range(len(column.noise.outputs)) for column in design.categorical]
    for codes in itertools.product(*choices):
        released, chance = record.copy(), 1.0
        for column, code in zip(design.categorical, codes, strict=True):
            released[column.column] = code
            chance *= column.noise.matrix[int(record[column.column])][code]
        yield released, chance


@pytest.mark.parametrize("name", RELEASES)
def test_rows_of_true_records_and_the_mean_of_their_estimates(name):
    release, records = RELEASES[name], RECORDS[name]
    design = release.design(records.shape[1])
    assert design.parameters == NAMES[name]
    np.testing.assert_array_equal(design.rows(records), ROWS[name])
    for record, row in zip(records, ROWS[name], strict=True):
        released, chances = zip(*outcomes(design, record), strict=True)
        np.testing.assert_allclose(np.array(chances) @ design.estimated_rows(np.array(released)), row, atol=1e-12)


@pytest.mark.parametrize("name", RELEASES)
def test_the_variance_of_an_estimated_score(name):
    """The mean over the true categories of the covariance by enumeration, and the additive noise where it stands."""
    release, records = RELEASES[name], RECORDS[name]
    columns = records.shape[1]
    design = release.design(columns)
    additive = np.diag(np.arange(1.0, columns + 1))
    wanted = design.additive_covariance(additive)
    counts = [len(column.noise.inputs) for column in design.categorical]
    for codes in itertools.product(*map(range, counts)):
        record = records[0].copy()
        record[[column.column for column in design.categorical]] = codes
        released, chances = zip(*outcomes(design, record), strict=True)
        rows, shares = design.estimated_rows(np.array(released)), np.array(chances)
        wanted = wanted + (rows.T @ (shares[:, None] * rows) - np.outer(shares @ rows, shares @ rows)) / np.prod(counts)
    np.testing.assert_allclose(design.released_covariance(additive), wanted, atol=1e-12)
    linear = [additive[part.column, part.column] for part in design.linear]
    np.testing.assert_array_equal(np.diag(design.additive_covariance(additive))[design.linear_parameters], linear)


def test_released_categories_as_they_are():
    """One-hot rows of what a coin sends, in place of estimates: variance p (1 - p) of each."""
    coin = sd.RandomizedResponse(1.0, ("a", "b"))
    design = sd.Release({"x": coin}, fit_intercept=True).design(1)
    keep = coin.keep_probability
    found = design.released_covariance(np.zeros((1, 1)), as_released=True)
    np.testing.assert_allclose(found, [[keep * (1 - keep), 0], [0, 0]], atol=1e-15)


def test_columns_without_categories_are_their_own_rows():
    matrix = np.ones((3, 2))
    assert sd.Release().design(2).rows(matrix) is matrix
    assert sd.Release().design(2).estimated_rows(matrix) is matrix


def test_categories_that_cannot_be_told_apart():
    merged = sd.FiniteChannel([[0.8, 0.2], [0.5, 0.5], [0.2, 0.8]], ("a", "b", "c"), ("x", "y"))
    design = sd.Release({"a": merged}, noiseless=("b",)).design(2)
    with pytest.raises(NoExactCorrectionError, match="column 0 has the rank 2 for 3 categories"):
        design.estimated_rows(np.zeros((1, 2)))
    np.testing.assert_array_equal(design.rows(np.array([[2.0, 7.0]])), [[0, 0, 1, 7]])


def test_categories_of_many_digits_have_names_of_their_own():
    """Numbers of regions or occupations: six digits of them would give several parameters one name."""
    codes = (1000001, 1000002, 1000003)
    names = ("place=1000002", "place=1000003", "intercept")
    apart = sd.Release({"place": sd.RandomizedResponse(3.0, codes)}, fit_intercept=True)
    together = sd.Release(
        {"place": sd.LaplaceMechanism(3.0, radius=1)}, categories={"place": codes}, fit_intercept=True
    )
    for release in (apart, together):
        assert sd.debias(sd.losses.least_squares(), release).parameter_names == names
    close = sd.Release({"dose": sd.RandomizedResponse(3.0, (0.1234567, 0.1234568, 3.0))}, fit_intercept=True)
    found = sd.debias(sd.losses.least_squares(), close).parameter_names
    assert found == ("dose=0.1234568", "dose=3", "intercept")
