"""The kernel on design rows against ten lines of NumPy, for numbers of columns that blocks do and do not divide."""

import numpy as np
import pytest

from symdebias.codegen import rows
from symdebias.codegen.cache import plain_kernel

pytestmark = pytest.mark.newest


def some(records, columns, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(records, columns)) @ rng.normal(size=(columns, columns))
    return X, rng.normal(size=records), rng.uniform(0.0, 2.0, records)


@pytest.mark.parametrize("columns", [1, 2, 5, 21, 38])
@pytest.mark.parametrize("weighted", [False, True])
def test_moments_are_sums_over_rows(columns, weighted):
    X, y, weights = some(600, columns)
    w = weights if weighted else np.ones(len(X))
    root = np.random.default_rng(1).normal(size=(columns, columns))
    own = weights if weighted else np.zeros(0)
    products, sums, cross, largest, none = rows.moments_of_rows(X, y, own)
    assert len(none) == 0
    np.testing.assert_allclose(products, (X * w[:, None]).T @ X, rtol=1e-11, atol=1e-11)
    np.testing.assert_array_equal(products, products.T)
    np.testing.assert_allclose(sums, w @ X, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(cross, (w * y) @ X, rtol=1e-11, atol=1e-11)
    np.testing.assert_array_equal(largest, np.abs(X).max(axis=0))
    *same, leverages = rows.moments_of_rows(X, y, own, root)
    for one, other in zip((products, sums, cross, largest), same, strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(leverages, rows.leverages_of_rows(X, root))


@pytest.mark.parametrize("columns", [1, 2, 5, 21, 38])
def test_leverages_are_squared_lengths(columns):
    X, _, _ = some(600, columns)
    root = np.random.default_rng(1).normal(size=(columns, columns))
    np.testing.assert_allclose(rows.leverages_of_rows(X, root), ((X @ root) ** 2).sum(axis=1), rtol=1e-10)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_told_by_its_column(bad):
    X, y, _ = some(600, 5)
    X[500, 3] = bad
    *_, largest, _ = rows.moments_of_rows(X, y, np.zeros(0))
    assert np.isfinite(largest).tolist() == [True, True, True, False, True]


@pytest.mark.parametrize("with_leverages", [True, False])
def test_compiled_code_says_what_its_text_says_in_python(with_leverages):
    source = rows.source(with_leverages=with_leverages)
    compiled = rows.compiled(with_leverages=with_leverages)
    plain = plain_kernel(source)
    np.testing.assert_allclose(source.probe(compiled), source.probe(plain), rtol=1e-13)
    # Rows that are turned eight at a time, and columns 8, 4, 2 and 1 at a time.
    X, y, weights = some(19, 15)
    one, other = (
        rows._moments(kernel, X, y, weights, np.eye(15) if with_leverages else None) for kernel in (compiled, plain)
    )
    for mine, theirs in zip(one, other, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-12, atol=1e-12)
