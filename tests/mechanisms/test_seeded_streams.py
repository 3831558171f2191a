"""Seeded streams that are drawn from several places at once: NumPy's numbers, bit for bit."""

import numpy as np
import pytest

from symdebias.mechanisms import streams

KINDS = {"normal": "standard_normal", "laplace": "laplace", "uniform": "random"}


def drawn(kind, generator, count):
    found, starts = np.empty(count), []

    def take(piece, start):
        found[start : start + len(piece)] = piece
        starts.append(start)
        # Who takes a piece may write to it.
        piece[:] = 0.0

    getattr(streams, kind)(generator, count, take)
    return found, starts


@pytest.fixture
def short_parts(monkeypatch):
    monkeypatch.setattr(streams, "_PART", 2**12)
    monkeypatch.setattr(streams, "LEAST", 2**13)
    monkeypatch.setattr(streams, "_WAVE", 3)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bits", [np.random.PCG64, np.random.PCG64DXSM, np.random.MT19937])
@pytest.mark.parametrize("count", [1, 8_191, 8_192, 60_001])
def test_numbers_and_what_follows_are_those_of_numpy(kind, bits, count, short_parts):
    for seed in range(3):
        ours, theirs = np.random.Generator(bits(seed)), np.random.Generator(bits(seed))
        # Half a word is left over.
        ours.integers(0, 9, size=1, dtype=np.int32), theirs.integers(0, 9, size=1, dtype=np.int32)
        assert np.array_equal(drawn(kind, ours, count)[0], getattr(theirs, KINDS[kind])(size=count))
        assert np.array_equal(ours.integers(0, 9, 3, dtype=np.int32), theirs.integers(0, 9, 3, dtype=np.int32))
        assert ours.random() == theirs.random()


@pytest.mark.parametrize("kind", KINDS)
def test_parts_join(kind, short_parts):
    # Where one did not, all behind it would be drawn in order, in parts of the full size.
    starts = sorted(drawn(kind, np.random.default_rng(5), 100_000)[1])
    assert len(starts) == (26 if kind == "normal" else 25)
    assert starts[-1] > 98_000 or kind != "normal"


@pytest.mark.parametrize("broken", [0, 1, 4])
def test_from_parts_that_do_not_join_all_is_drawn_in_order(broken, short_parts, monkeypatch):
    true, calls = streams._joint, []

    def joint(tail, piece):
        calls.append(1)
        return None if len(calls) > broken else true(tail, piece)

    monkeypatch.setattr(streams, "_joint", joint)
    generator = np.random.default_rng(2)
    found, starts = drawn("normal", generator, 60_001)
    expected = np.random.default_rng(2)
    assert np.array_equal(found, expected.standard_normal(60_001))
    assert len(set(starts)) == len(starts)
    assert generator.random() == expected.random()
