import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from symdebias._domains import EPSILON
from symdebias.mechanisms import RandomizedResponse
from symdebias.privacy import Guarantee

epsilons = st.floats(math.log(1e-6), math.log(700)).map(lambda x: min(max(math.exp(x), 1e-6), 700.0))


@given(epsilons, st.sampled_from([(-1, 1), (0, 1), (-2.5, 7.25)]))
def test_the_gain_undoes_the_channel(epsilon, categories):
    mechanism = RandomizedResponse(epsilon=epsilon, categories=categories)
    channel = mechanism.noise
    middle = sum(mechanism.categories) / 2
    for value, row in zip(channel.inputs, channel.matrix, strict=True):
        assert sum(row) == 1.0
        mean = sum(p * (output - middle) for p, output in zip(row, channel.outputs, strict=True))
        assert middle + mechanism.gain * mean == pytest.approx(value, rel=1e-9, abs=1e-9)


@given(epsilons)
def test_the_realised_channel_is_within_the_budget(epsilon):
    mechanism = RandomizedResponse(epsilon=epsilon)
    (keep, flip), (other_flip, other_keep) = mechanism.noise.matrix
    assert (keep, flip) == (other_keep, other_flip)
    assert math.log(keep) - math.log(flip) <= epsilon + 4e-16
    assert mechanism.guarantee == Guarantee(epsilon, 0.0)


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 4.0, 20.0])
def test_the_gain_is_the_hyperbolic_cotangent_of_half_the_budget(epsilon):
    assert RandomizedResponse(epsilon=epsilon).gain == pytest.approx(1 / math.tanh(epsilon / 2), rel=1e-12)


def test_only_categories_come_out():
    mechanism = RandomizedResponse(epsilon=1.0, categories=(3, 0.5))
    sent = mechanism.privatize([3, 0.5] * 100, random_state=0)
    assert sent.dtype == np.float64
    assert set(sent) == {0.5, 3.0}


def test_a_large_budget_keeps_every_label():
    labels = np.where(np.arange(1000) % 3 == 0, -1, 1)
    np.testing.assert_array_equal(RandomizedResponse(epsilon=700.0).privatize(labels, random_state=0), labels)


def test_mechanisms_are_values():
    assert RandomizedResponse(epsilon=1) == RandomizedResponse(1.0, (1, -1))
    assert hash(RandomizedResponse(epsilon=1)) == hash(RandomizedResponse(1.0, [-1.0, 1.0]))
    mechanism = RandomizedResponse(epsilon=1.0)
    assert mechanism.gain > 1
    assert pickle.loads(pickle.dumps(mechanism)) == mechanism
    assert mechanism == RandomizedResponse(epsilon=1.0)
    assert (mechanism.bound, RandomizedResponse(epsilon=1.0, categories=(-3, 1)).bound) == (1.0, 3.0)


BAD_LABELS = [
    ([0, 1], r"labels must be -1 or \+1; got 0 and 1. Pass 2\*y - 1, or declare categories=\(0, 1\) on the mechanism"),
    ([1, 0.9999999], "got 0.9999999 and 1. The first other one is in row 1"),
    ([1, -1, 2], r"labels must be -1 or \+1; got -1 and 1 and 2"),
    ([1, math.nan], "NaN in row 1"),
    ([[1, 1], [-1, 1]], "one label per record"),
    ([], "at least one entry"),
]


@pytest.mark.parametrize(("labels", "message"), BAD_LABELS)
def test_labels_that_were_not_declared_are_refused(labels, message):
    with pytest.raises(ValueError, match=message):
        RandomizedResponse(epsilon=1.0).privatize(labels, random_state=0)


@pytest.mark.parametrize("labels", [["a", "b"], [True, False], [1j, 1], [None, 1]])
def test_labels_that_are_no_numbers_are_refused(labels):
    with pytest.raises(TypeError, match="must hold real numbers"):
        RandomizedResponse(epsilon=1.0).privatize(labels, random_state=0)


BAD = [
    *[({"epsilon": value}, "epsilon") for value in (*EPSILON.outside(), 0.0, -1.0, 1e-320, np.array(1.0))],
    ({"categories": (1,)}, "has 1 values; two or more are needed"),
    ({"categories": ("a",)}, "two or more different values"),
    ({"categories": ("a", "a")}, "two or more different values"),
    ({"categories": ("a", "")}, "not a number"),
    ({"categories": (1, 1)}, "repeats"),
    ({"categories": (0, math.nan)}, "finite"),
    ({"categories": (0, math.inf)}, "finite"),
    ({"categories": ("a", 1)}, "not a number"),
    ({"categories": (False, True)}, "not a number"),
    ({"categories": "ab"}, "sequence of numbers"),
    ({"categories": None}, "sequence of numbers"),
]


@pytest.mark.parametrize(("change", "message"), BAD, ids=lambda value: str(value)[:40])
def test_arguments_that_are_refused(change, message):
    with pytest.raises((TypeError, ValueError), match=message):
        RandomizedResponse(**{"epsilon": 1.0, **change})


@pytest.mark.parametrize(
    "card",
    [{}, {"epsilon": 1.0}, {"epsilon": 1.0, "categories": [-1, 1], "k": 2}, {"epsilon": "1", "categories": [0, 1]}],
)
def test_cards_that_are_refused(card):
    with pytest.raises((TypeError, ValueError), match="epsilon"):
        RandomizedResponse.from_card(card)
