import numpy as np
import pytest

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
