"""Random numbers that are used twice are found, wherever they come again."""

import numpy as np
import pytest

from symdebias.checks import streams

pytestmark = pytest.mark.newest

RNG = np.random.default_rng(0)


def test_places_that_draw_apart_agree_nowhere_and_copies_everywhere():
    found = streams.collect(lambda: np.random.default_rng().normal(size=(500, 2)))
    assert found.forked
    assert len(found.sent) == 6
    lines = [sent[:, 0] for sent in found.sent.values()]
    assert streams.repeated_windows(lines, 2) == 0
    copied = np.random.default_rng(5)
    shared = streams.collect(lambda: copied.normal(size=(500, 2)))
    child, parent = shared.sent["a forked process"], shared.sent["this process after the fork"]
    assert np.array_equal(child, parent)
    assert not np.array_equal(shared.sent["a call"], shared.sent["the next call"])


def test_a_failure_in_a_thread_is_raised():
    calls = iter([True, True, False, False, True])

    def draw():
        if not next(calls):
            raise RuntimeError("no entropy")
        return np.zeros((3, 1))

    with pytest.raises(RuntimeError, match="no entropy"):
        streams.collect(draw)


def test_windows_that_come_twice_are_counted_at_any_place():
    line, other = RNG.normal(size=5000), RNG.normal(size=5000)
    assert streams.repeated_windows([line, other], 3) == 0
    other[1234:1240] = line[70:76]
    assert streams.repeated_windows([line, other], 3) == 4
    assert streams.repeated_windows([line, other], 7) == 0
    line[3000:3010] = line[10:20]
    assert streams.repeated_windows([line], 10) == 1


def test_zeros_of_either_sign_are_one():
    assert streams.repeated_windows([np.array([0.0, 1.0, 2.0, -0.0, 1.0])], 2) == 1


@pytest.mark.parametrize(("likeliest", "length"), [(2.0**-16, 4), (0.5, 47), (0.73, 102)])
def test_windows_are_as_long_as_chance_asks(likeliest, length):
    """Of 12,288 numbers, at a rate of 1e-6: n^2 p^m/2 is at most the rate."""
    found = streams.window_length(12_288, likeliest, 1e-6)
    assert 12_288**2 / 2 * likeliest**found <= 1e-6
    assert found <= length


def test_coins_do_not_come_twice_by_chance():
    """Two hundred sound sets of coins at a rate of .01: no more alarms than chance allows, at 1e-6."""
    length = streams.window_length(2000, 0.7, 0.01)
    alarms = sum(streams.repeated_windows([(RNG.random(2000) < 0.7).astype(float)], length) > 0 for _ in range(200))
    assert alarms <= 14


def test_what_always_is_the_same_has_no_window():
    assert streams.window_length(12_288, 1.0, 1e-6) is None
    assert streams.window_length(12_288, 0.999, 1e-6) is None


def test_coincidences_have_their_chance():
    coins = (RNG.random((2, 4000)) < 0.5).astype(float)
    assert streams.coincidence_p_value(*coins, 0.5) > 1e-6
    coins[1, :400] = coins[0, :400]
    assert streams.coincidence_p_value(*coins, 0.5) < 1e-6
    twice = np.repeat(RNG.normal(size=100), 2)
    assert streams.successive_p_value(twice, 2.0**-16) < 1e-6
    assert streams.successive_p_value(RNG.normal(size=100), 2.0**-16) == 1.0
