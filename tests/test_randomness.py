import numpy as np
import pytest

import symdebias as sd
from symdebias._randomness import generator, spawn


def test_equal_seeds_give_equal_streams():
    assert np.array_equal(generator(7).random(5), generator(np.int64(7)).random(5))
    assert not np.array_equal(generator(7).random(5), generator(8).random(5))


def test_no_seed_gives_fresh_entropy():
    assert not np.array_equal(generator(None).random(5), generator(None).random(5))


def test_a_generator_is_used_as_it_is():
    rng = np.random.default_rng(0)
    assert generator(rng) is rng


def test_spawned_streams_are_independent_and_repeatable():
    first = [child.random() for child in spawn(generator(0), 4)]
    assert first == [child.random() for child in spawn(generator(0), 4)]
    assert len(set(first)) == 4
    parent, untouched = generator(0), generator(0)
    spawn(parent, 4)
    assert parent.random() == untouched.random()


@pytest.mark.parametrize(
    ("random_state", "error"),
    [
        ("1", TypeError), (1.0, TypeError), (True, TypeError), (np.bool_(True), TypeError), ([1, 2], TypeError),
        (np.array(1), TypeError), (np.random, TypeError), (-1, ValueError),
    ],
)  # fmt: skip
def test_what_is_no_random_state_is_refused(random_state, error):
    with pytest.raises(error, match="random_state"):
        generator(random_state)


def test_noise_of_a_seed_is_independent_of_records_drawn_with_it():
    """The noise of the stream of default_rng(seed) would be X itself, scaled: a correlation of 1, and 6 / 100 is seen.

    A correlation of independent numbers has a standard deviation of .01: false alarms below 1e-6 in all.
    """
    for seed in range(5):
        X = np.random.default_rng(seed).normal(size=(10_000, 1))
        release = sd.Release(sd.GaussianMechanism.from_scale(1.0))
        noise = release.privatize(X, np.zeros(len(X)), random_state=seed).X - X
        assert abs(np.corrcoef(X[:, 0], noise[:, 0])[0, 1]) < 0.06
        assert abs(np.corrcoef(np.abs(X[:, 0]), np.abs(noise[:, 0]))[0, 1]) < 0.06
