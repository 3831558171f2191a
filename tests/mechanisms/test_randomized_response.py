import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from symdebias.mechanisms import FiniteChannel, RandomizedResponse
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


def test_a_large_budget_keeps_every_label():
    labels = np.where(np.arange(1000) % 3 == 0, -1, 1)
    np.testing.assert_array_equal(RandomizedResponse(epsilon=700.0).privatize(labels, random_state=0), labels)


def test_the_order_of_categories_is_no_matter():
    assert RandomizedResponse(epsilon=1) == RandomizedResponse(1.0, (1, -1))
    assert hash(RandomizedResponse(epsilon=1)) == hash(RandomizedResponse(1.0, [-1.0, 1.0]))
    assert (RandomizedResponse(1.0).bound, RandomizedResponse(1.0, categories=(-3, 1)).bound) == (1.0, 3.0)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_k_ary_randomized_response_has_its_matrix(epsilon):
    mechanism = RandomizedResponse(epsilon, ("n", "e", "s", "w"))
    matrix = np.array(mechanism.noise.matrix)
    assert np.log(matrix.max() / matrix.min()) <= epsilon + 4e-16
    assert matrix[0, 0] == pytest.approx(math.exp(epsilon) / (math.exp(epsilon) + 3), rel=1e-12)
    middle = (np.arange(4.0) - 1.5) * mechanism.gain
    np.testing.assert_allclose(matrix @ middle, np.arange(4.0) - 1.5, atol=1e-12)


BAD_LABELS = {
    "the other coding": (
        [0, 1], r"be -1 or \+1; got 0 and 1. Pass 2\*y - 1, or declare categories=\(0, 1\) on the mechanism",
    ),
    "nearly a label": ([1, 0.9999999], "got 1 other value. The first other one is in row 1"),
    "one label more": ([1, -1, 2], r"labels must be -1 or \+1; got 1 other value. The first other one is in row 2"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_LABELS)
def test_labels_that_were_not_declared_are_refused(case):
    labels, message = BAD_LABELS[case]
    with pytest.raises(ValueError, match=message):
        RandomizedResponse(epsilon=1.0).privatize(labels, random_state=0)


def test_the_matrix_of_a_table_is_asked_for_in_the_declared_order():
    """Rows and columns of a table have names, which may stand in another order than the categories."""
    table = pd.DataFrame([[0.9, 0.1], [0.2, 0.8]], index=["a", "b"], columns=["a", "b"])
    with pytest.raises(TypeError, match=r"type DataFrame.* Pass those of a table in the declared order, by to_numpy"):
        FiniteChannel(table, ("a", "b"))
    assert FiniteChannel(table.to_numpy(), ("a", "b")).inputs == ("a", "b")


def test_what_a_channel_draws_is_what_it_claims():
    """A probability that a cumulative sum would swallow is drawn, and the claim is that of the drawn matrix."""
    channel = FiniteChannel([[1, 1e-13], [0.5, 0.5]], (0, 1))
    matrix = np.array(channel.noise.matrix)
    assert np.all(matrix.sum(axis=1) == 1)
    assert np.all(matrix * 2.0**53 == np.rint(matrix * 2.0**53))
    assert matrix[0, 1] == pytest.approx(1e-13, rel=1e-3)
    assert channel.guarantee.epsilon == pytest.approx(math.log(0.5 / matrix[0, 1]), rel=1e-12)
    edges = np.cumsum(matrix[0])
    assert edges[0] == 1 - matrix[0, 1]
    assert FiniteChannel([[1 - 1e-17, 1e-17], [0.5, 0.5]], (0, 1)).noise.matrix[0][1] == 2.0**-53


@pytest.mark.parametrize("categories", [(-1, 1), (0, 1), ("n", "e", "s", "w")])
@pytest.mark.parametrize("share", [1e-4, 0.3, 0.999])
def test_a_chance_of_being_kept_is_realised(share, categories):
    least = 1 / len(categories)
    keep = least + share * (1 - least)
    mechanism = RandomizedResponse.from_keep_probability(keep, categories)
    assert mechanism.keep_probability == pytest.approx(keep, rel=1e-14)
    assert mechanism == RandomizedResponse(mechanism.epsilon, categories)


@pytest.mark.parametrize(
    ("keep", "categories", "message"),
    [
        (0.5, (-1, 1), r"keep=0.5 is too small. It must be a number in \(0.5, 1\). Give the probability that"),
        (0.25, ("n", "e", "s", "w"), r"in \(0.25, 1\).*each of the 4"),
        (1.0, (-1, 1), "keep=1.0 is too large"),
        (0.8, (1,), "categories"),
    ],
)
def test_a_chance_that_tells_nothing_is_refused(keep, categories, message):
    with pytest.raises(ValueError, match=message):
        RandomizedResponse.from_keep_probability(keep, categories)
