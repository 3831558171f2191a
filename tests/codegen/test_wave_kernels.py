"""The kernels on waves of scores against NumPy, for numbers of waves and records that blocks do and do not divide."""

import numpy as np
import pytest

from symdebias.codegen import waves
from symdebias.codegen.cache import plain_kernel

pytestmark = pytest.mark.newest


def some(records, count, columns):
    """Return angles, tables of so many columns of categories, and the waves that they describe, shape (K, n)."""
    rng = np.random.default_rng((records, count, columns))
    angles, tables = rng.normal(size=records), []
    of_records = np.exp(1j * np.outer(np.arange(1, count + 1), angles))
    for column in range(columns):
        table = rng.normal(size=(3 + column, count)) + 1j * rng.normal(size=(3 + column, count))
        codes = rng.integers(0, 3 + column, records)
        tables.append((table, codes))
        of_records *= table[codes].T
    return angles, tables, of_records


@pytest.mark.parametrize("columns", [0, 1, 3])
@pytest.mark.parametrize("count", [1, 4, 27])
@pytest.mark.parametrize("records", [0, 1, 256, 600])
def test_sums_are_those_of_powers(records, count, columns):
    angles, tables, of_records = some(records, count, columns)
    rng = np.random.default_rng(1)
    coefficients = rng.normal(size=(2, count)) + 1j * rng.normal(size=(2, count))
    found = waves.sums_of_waves(angles, tables, coefficients)
    assert found.shape == (records, 2)
    np.testing.assert_allclose(found, (coefficients @ of_records).real.T, rtol=1e-11, atol=1e-11)
    masses = rng.normal(size=(3, records))
    whole = waves.sums_over_records(angles, tables, masses, count)
    assert whole.shape == (3, count)
    np.testing.assert_allclose(whole, masses @ of_records.T, rtol=1e-11, atol=1e-11)


def test_many_waves_are_right_to_rounding():
    """Each is a product of those before it: 400 times, and the error is 400 roundings."""
    angles = np.linspace(-3.0, 3.0, 1_001)
    found = waves.sums_of_waves(angles, [], np.eye(400, dtype=complex)[-1:])
    np.testing.assert_allclose(found[:, 0], np.cos(400 * angles), atol=400 * 4e-16)


@pytest.mark.parametrize("angle", [np.nan, np.inf])
def test_scores_that_are_no_numbers_have_sums_that_are_none(angle):
    angles = np.array([0.5, angle, 0.25])
    with np.errstate(invalid="ignore"):
        found = waves.sums_of_waves(angles, [], np.ones((1, 5), dtype=complex))
    assert np.isfinite(found[:, 0]).tolist() == [True, False, True]


@pytest.mark.parametrize("over_records", [True, False])
def test_waves_compiled_are_what_their_text_says_in_python(over_records):
    source = waves.source(over_records=over_records)
    compiled, plain = waves._compiled(over_records=over_records), plain_kernel(source)
    np.testing.assert_allclose(source.probe(compiled), source.probe(plain), rtol=1e-13, atol=1e-14)
