"""Sums along rows against NumPy, compiled and as plain twins."""

import dataclasses

import numpy as np
import pytest
import sympy as sp
from instances import U, Y
from numba import njit

from symdebias.codegen import along_rows, cache, vectors
from symdebias.codegen.cache import plain_kernel
from symdebias.codegen.kernels import Kernels
from symdebias.codegen.score.columns import ScoreColumns
from symdebias.codegen.score.constants import Constants, Tails
from symdebias.codegen.score.normal import NormalNoise
from symdebias.codegen.score.program import ScoreProgram

S, T, C = sp.symbols("s t c", positive=True)

COLUMNS = [(2, 2), (3, 3), (4, 4), (5, 7), (7, 7), (10, 10), (16, 16), (23, 25), (33, 33), (40, 40)]


def written(columns, stride, plain):
    """Return what is made for kernels, as functions that are called from Python."""
    text = "\n".join(
        [
            along_rows.text(columns, stride),
            vectors.text(stride, 8),
            "def score(into, place, parameters, array, start, count, first):",
            "    score_rows(into, place, parameters, array, start, count, first)",
            "def measure(longest, units, array, start, count):",
            "    measure_rows(longest, units, array, start, count)",
            "def total(into, slopes, place, array, start, count):",
            "    sum_rows(into, slopes, place, array, start, count)",
            "def copy(into, to, array, row, count):",
            "    copy_rows(into, to, array, row, count)",
        ]
    ).replace("config.DISABLE_JIT", str(plain))
    names = {"np": np}
    exec(text, names)
    wrap = (lambda function: function) if plain else njit
    return tuple(wrap(names[name]) for name in ("score", "measure", "total", "copy"))


@pytest.mark.in_turn
@pytest.mark.parametrize("plain", [True, False])
@pytest.mark.parametrize(("columns", "stride"), COLUMNS)
def test_sums_along_rows(columns, stride, plain):
    """Of every number of rows up to nine: four at a time, and those that are left; nothing else is written."""
    score, measure, total, copy = written(columns, stride, plain)
    rng = np.random.default_rng(columns)
    array, units = rng.normal(size=(30, stride)), rng.uniform(0.5, 2, columns)
    own, slopes = rng.normal(size=columns), rng.normal(size=9)
    for start, count in [(0, 9), (3, 8), (21, 9), *((5, count) for count in range(8))]:
        rows = array[start : start + count, :columns]
        kept = np.full(20 + columns, 7.0)
        kept[20:] = own
        score(kept, 5, 20, array, start, count, 0.25)
        np.testing.assert_allclose(kept[5 : 5 + count], rows @ own + 0.25, rtol=1e-13, atol=1e-13)
        assert np.all(kept[:5] == 7.0)
        assert np.all(kept[5 + count : 20] == 7.0)

        longest = np.full(12, 1.5)
        measure(longest, units, array, start, count)
        expected = np.maximum((rows**2 * units).sum(axis=1), 1.5)
        np.testing.assert_allclose(longest[:count], expected, rtol=1e-13)
        assert np.all(longest[count:] == 1.5)

        kept = np.full(12 + columns + 3, 7.0)
        kept[2:11] = slopes
        total(kept, 2, 12, array, start, count)
        np.testing.assert_allclose(kept[12 : 12 + columns], slopes[:count] @ rows, rtol=1e-13, atol=1e-13)
        assert np.all(kept[12 + columns :] == 7.0)

        tile = np.full((15, stride), 7.0)
        copy(tile, 4, array, start, count)
        np.testing.assert_array_equal(tile[4 : 4 + count], array[start : start + count])
        assert np.all(np.delete(tile, range(4, 4 + count), axis=0) == 7.0)


@pytest.mark.parametrize("plain", [True, False])
def test_nan_is_longer_than_nothing(plain):
    """A record with NaN is refused for its gradient; a length that is NaN would hide all that come after it."""
    _, measure, _, _ = written(3, 3, plain)
    array = np.ones((6, 3))
    array[[1, 5], 2] = np.nan
    longest = np.zeros(8)
    measure(longest, np.ones(3), array, 0, 6)
    np.testing.assert_array_equal(longest, [3, 0, 3, 3, 3, 0, 0, 0])


def test_a_row_has_the_same_sum_wherever_it_stands():
    """Four at a time or by itself: so a batch has the same gradient in a tile and in the data."""
    score, *_ = written(10, 10, False)
    rng = np.random.default_rng(0)
    array, own = rng.normal(size=(16, 10)), rng.normal(size=10)
    whole, single = (np.concatenate([np.zeros(16), own]) for _ in range(2))
    score(whole, 0, 16, array, 0, 16, 0.1)
    for row in range(16):
        score(single, row, 16, array, row, 1, 0.1)
    np.testing.assert_array_equal(whole, single)


@pytest.mark.in_turn
@pytest.mark.parametrize("columns", [6, 60])
def test_helpers_that_are_left_to_numba_call_them(columns, monkeypatch, tmp_path):
    """Those of a loss that cannot be written directly; also by columns of which single rows are asked for ahead.

    The kernel is read from disk by another process, or by this one as if it were another.
    """
    monkeypatch.setenv("SYMDEBIAS_CACHE", str(tmp_path))
    shape = ScoreColumns((U,), tuple(range(columns)), columns + 1, columns)
    statistics = NormalNoise((S,)), Tails(), Constants("target", (T, C))
    kernels = Kernels(ScoreProgram(C * sp.exp(-U * Y - S / 2) + U**2 / 2, Y, shape, statistics))
    source = kernels.source("mean_gradient")
    left = dataclasses.replace(source, is_direct=False)
    rng, n = np.random.default_rng(columns), 301
    X, y, theta = rng.normal(size=(n, columns)), rng.choice([-1.0, 1.0], n), 0.1 * rng.normal(size=columns + 1)
    noise = np.full(kernels.program.layout.length, 0.05)

    def gradient(kernel):
        out = np.empty((1, columns + 1))
        work = *kernels._sums(), *kernels._tile(weighted=False)
        kernel(theta, X, y, np.empty(0), float(n), noise, n, *work, out, np.empty((0, 0)))
        return out

    wanted = gradient(plain_kernel(source))
    for _ in range(2):
        for name in ("_compiled", "_helpers", "_hashes"):
            monkeypatch.setattr(cache, name, {})
        np.testing.assert_allclose(gradient(cache.compile_kernel(left)), wanted, rtol=1e-12, atol=1e-14)
