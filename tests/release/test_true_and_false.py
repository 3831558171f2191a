"""True and false as a target: they are the labels 1 and 0 where a release or a loss has these, and nothing else."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import symdebias as sd

TRUTH = np.array([True, False, True, True, False, False])
COLUMNS_OF_TRUTH = {
    "array": TRUTH,
    "list": TRUTH.tolist(),
    "objects": TRUTH.astype(object),
    "pandas": pd.Series(TRUTH),
    "pandas, nullable": pd.Series(TRUTH, dtype="boolean"),
    "pandas, of Arrow": pd.Series(TRUTH, dtype="bool[pyarrow]"),
    "polars": pl.Series(TRUTH),
    "pyarrow": pa.chunked_array([TRUTH]),
}
ZERO_OR_ONE = {
    "response": sd.Release(None, sd.RandomizedResponse(1.0, (0, 1)), noiseless=("a",)),
    "the other order": sd.Release(None, sd.RandomizedResponse(1.0, (1, 0)), noiseless=("a",)),
    "one vector": sd.Release(sd.GaussianMechanism.from_scale(0.1), "margin", target_values=(0, 1)),
}


@pytest.mark.parametrize("y", COLUMNS_OF_TRUTH.values(), ids=COLUMNS_OF_TRUTH)
@pytest.mark.parametrize("release", ZERO_OR_ONE.values(), ids=ZERO_OR_ONE)
def test_true_and_false_are_labels_of_1_and_0(release, y):
    X = np.arange(6.0)[:, None] + 1
    found, expected = (release.privatize(X, one, random_state=0) for one in (y, TRUTH.astype(float)))
    np.testing.assert_array_equal(found.X, expected.X)
    np.testing.assert_array_equal(np.asarray(found.y, dtype=float), np.asarray(expected.y, dtype=float))
    assert found.y is None or np.asarray(found.y).dtype == np.float64
    np.testing.assert_array_equal(release.true_target(y, rows=6), release.true_target(TRUTH.astype(float), rows=6))


@pytest.mark.parametrize("y", COLUMNS_OF_TRUTH.values(), ids=COLUMNS_OF_TRUTH)
def test_true_and_false_are_labels_of_a_fit_and_of_a_score(y):
    X, numbers = np.array([[1.0], [-2.0], [0.5], [-0.3], [0.1], [-1.0]]), TRUTH.astype(float)
    loss, release = sd.losses.logistic().recoded((0, 1)), sd.Release(None, noiseless=("a",))
    corrected = sd.debias(loss, release)
    fits = [sd.m_estimate(corrected, X, one, l2=0.1) for one in (y, numbers)]
    np.testing.assert_array_equal(fits[0].theta, fits[1].theta)
    assert fits[0].score(X, y) == fits[0].score(X, numbers)
    assert corrected.mean_loss([0.5], X, y) == corrected.mean_loss([0.5], X, numbers)
    coin = sd.RandomizedResponse(1.0, (0, 1))
    np.testing.assert_array_equal(coin.privatize(y, random_state=0), coin.privatize(numbers, random_state=0))


@pytest.mark.parametrize(
    ("target", "y", "message"),
    [
        (sd.RandomizedResponse(1.0), TRUTH, r"got bool. Convert it first. .* For -1 and \+1, numpy.where\(y, 1, -1\)"),
        (sd.RandomizedResponse(1.0, (0, 1, 2)), TRUTH, "got bool. Convert it first"),
        (sd.LaplaceMechanism(1.0, bounds=(0, 1)), TRUTH, "got bool. Convert it first"),
        (None, TRUTH, "got bool. Convert it first"),
        # Text stands for places in an array, and 0 and 1 would be these: yes would be false.
        (sd.RandomizedResponse(1.0, ("yes", "no")), TRUTH, "y holds true and false, and the labels are yes, no. Pass"),
        (sd.RandomizedResponse(1.0, (0, 1)), [True, None] * 3, "must hold real numbers|missing"),
        (sd.RandomizedResponse(1.0, (0, 1)), pd.Series([True, None] * 3, dtype="boolean"), "y must|missing"),
        (sd.RandomizedResponse(1.0, (0, 1)), np.ma.array(TRUTH, mask=~TRUTH), "masked"),
        (sd.RandomizedResponse(1.0, (0, 1)), [[True], [False, True]] * 3, "different lengths"),
        (sd.RandomizedResponse(1.0, (0, 1)), pd.DataFrame({"y": TRUTH}), "Pass one of its columns"),
    ],
)
def test_true_and_false_that_are_no_labels(target, y, message):
    with pytest.raises((TypeError, ValueError), match=message):
        sd.Release(None, target, noiseless=("a",)).privatize(np.ones((6, 1)), y)


@pytest.mark.parametrize("column", COLUMNS_OF_TRUTH.values(), ids=COLUMNS_OF_TRUTH)
def test_true_and_false_are_categories_of_these_names(column):
    """As a schema reads them; a table by whose release it was recoded is then taken by `privatize` and `predict`."""
    coin = sd.RandomizedResponse(1.0, ("False", "True"))
    release, texts = sd.Release({"smokes": coin}, coin), TRUTH.astype(str).astype(object)
    table, recoded = pl.DataFrame({"smokes": TRUTH}), pl.DataFrame({"smokes": texts.tolist()})
    found, expected = (
        release.privatize(X, y, random_state=0) for X, y in ((table, column), (recoded, pl.Series(texts.tolist())))
    )
    assert found.X["smokes"].to_list() == expected.X["smokes"].to_list()
    np.testing.assert_array_equal(release.true_target(column, rows=6), TRUTH)
    schema = sd.Schema({"epsilon": 1.0, "columns": {"smokes": {"categories": ["False", "True"]}}})
    assert schema.collect(table)[0]["smokes"].tolist() == texts.tolist()
    with pytest.raises(ValueError, match=r"in row 1 that was not declared. The categories are True, other"):
        sd.Release({"smokes": sd.RandomizedResponse(1.0, ("True", "other"))}).privatize(table)
