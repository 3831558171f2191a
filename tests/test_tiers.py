"""Kernels that tests run as plain Python work on copies that share memory as their arguments do."""

import numpy as np
import pytest
import tiers


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


def test_one_form_answers_a_whole_file(monkeypatch):
    """They differ in the last bit: a fit that is made twice in one file would not be the same twice."""
    monkeypatch.setattr(tiers, "MOST", 2)
    tiered = tiers.Tiered(None, lambda: lambda theta, X: "compiled")
    tiered._plain = lambda theta, X: "Python"
    monkeypatch.setattr(tiers, "_kernels", {"key": tiered})
    assert [tiered(np.zeros(1), np.zeros((2, 1))) for _ in range(3)] == ["Python"] * 3
    tiers.begin_file()
    assert tiered(np.zeros(1), np.zeros((2, 1))) == "compiled"
