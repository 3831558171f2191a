"""Kernels that tests run as plain Python work on copies that share memory as their arguments do."""

import numba
import numpy as np
import pytest
import tiers

import symdebias as sd


def in_python(kernel, *arguments):
    """Call a function as `tiers.Tiered` calls a plain kernel."""
    tiered = tiers.Tiered(None, None)
    tiered._plain = kernel
    return tiered._in_python(arguments)


def room(shape):
    return np.full(shape, np.nan)


def aligned(shape):
    """Return a part of a longer array, as memory that begins where a line of the cache does is."""
    return np.full(np.prod(shape) + 7, np.nan)[3:-4].reshape(shape)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("make", [room, aligned])
def test_a_tile_that_is_written_is_read_turned(make, order):
    def kernel(tile, turned, same, out):
        tile[1, 2] = 5.0
        out[:] = turned[2, 1], same[1, 2]

    tile, out = make((2, 3)), np.zeros(2)
    if order == "F":
        tile = np.asfortranarray(tile)
    in_python(kernel, tile, tile.T, tile, out)
    assert out.tolist() == [5.0, 5.0]
    assert tile[1, 2] == 5.0
    assert np.isnan(tile).sum() == 5


def test_a_whole_and_a_part_of_it_stay_one():
    def kernel(part, whole, bits):
        part[0] = 7.0
        assert whole[1] == 7.0
        assert bits[1] == np.array(7.0).view(np.int64)
        return "done"

    whole = np.zeros(4)
    assert in_python(kernel, whole[1:3], whole, whole.view(np.int64)) == "done"
    assert whole.tolist() == [0.0, 7.0, 0.0, 0.0]


def test_a_kernel_that_raises_leaves_nothing_behind():
    def kernel(part, whole):
        part[0] = 7.0
        raise ValueError("stopped")

    whole = np.zeros(4)
    with pytest.raises(ValueError, match="stopped"):
        in_python(kernel, whole[1:3], whole)
    assert not whole.any()


@pytest.fixture
def kernels(monkeypatch):
    """A kernel that says how it is compiled, among those of a session of its own."""
    tiered = tiers.Tiered(None, lambda is_optimized: lambda theta, X: "optimized" if is_optimized else "compiled")
    tiered._plain = lambda theta, X: "Python"
    monkeypatch.setattr(tiers, "_kernels", {"key": tiered})
    monkeypatch.setattr(tiers, "OPTIMIZED", tiers.OPTIMIZED)
    return lambda count: tiered(np.zeros(1), np.zeros((count, 1)))


def test_one_form_answers_a_whole_file(kernels, monkeypatch):
    """They differ in the last bit: a fit that is made twice in one file would not be the same twice."""
    monkeypatch.setattr(tiers, "MOST", 2)
    assert [kernels(2) for _ in range(3)] == ["Python"] * 3
    tiers.begin_file(is_optimized=False)
    assert [kernels(count) for count in (2, tiers.LONG + 1)] == ["compiled"] * 2
    tiers.begin_file(is_optimized=False)
    assert [kernels(count) for count in (tiers.LONG + 1, 2)] == ["optimized"] * 2
    tiers.begin_file(is_optimized=True)
    assert kernels(2) == "optimized"
    tiers.begin_file(is_optimized=False)
    tiers.end_file()
    assert kernels(2) == "optimized"


def test_forms_of_a_kernel_and_their_helpers_have_keys_of_their_own():
    """And one text: what LLVM is asked for is no part of the library's key."""
    source = sd.debias(sd.losses.least_squares(), sd.Release(None, noiseless=("a",))).at(1).kernels.source("loss")
    level, forms = numba.config.OPT, [tiers.compiled(source, is_optimized) for is_optimized in (False, True)]
    assert numba.config.OPT == level
    names = [form.py_func.__name__ for form in forms]
    assert names[0] != names[1] == f"loss_{source.key}"
    X, y, values = np.linspace(-1, 1, 9)[:, None], np.linspace(0, 1, 9), np.empty((2, 9))
    noise = sd.debias(sd.losses.least_squares(), sd.Release(None, noiseless=("a",))).at(1).noise
    for form, out in zip(forms, values, strict=True):
        form(np.array([0.7]), X, y, noise, out)
    np.testing.assert_allclose(values, [(0.7 * X[:, 0] - y) ** 2 / 2] * 2, rtol=1e-14)
