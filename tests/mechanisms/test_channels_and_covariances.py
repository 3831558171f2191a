"""Channels, correlated noise, and what holds for every kind of mechanism: cards, values, kinds of arrays."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sampling_statistics import LEVEL, RECORDS, normal_faults
from scipy import stats

import symdebias as sd
from symdebias.mechanisms import (
    KINDS,
    ClippedMechanism,
    DiscreteLaplaceMechanism,
    DiscreteStaircaseMechanism,
    FiniteChannel,
    GaussianMechanism,
    InputPerturbation,
    LaplaceMechanism,
    RandomizedResponse,
    StaircaseMechanism,
    UniformMechanism,
)


@given(st.floats(1e-6, 1e6))
def test_known_uniform_noise_of_any_width(half_width):
    assert UniformMechanism(half_width).noise.variance == pytest.approx(half_width**2 / 3)


@given(st.floats(0.01, 30.0), st.floats(1e-3, 1e3), st.floats(0.01, 0.99))
def test_staircases_of_any_shape(epsilon, width, gamma):
    assert StaircaseMechanism(epsilon, bounds=(0.0, width), gamma=gamma).noise.variance > 0


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_k_ary_randomized_response_has_its_matrix(epsilon):
    """Chi-square of each row of the matrix at 1e-7; and the largest ratio of a column stays within the budget."""
    mechanism = RandomizedResponse(epsilon, ("n", "e", "s", "w"))
    matrix = np.array(mechanism.noise.matrix)
    assert np.log(matrix.max() / matrix.min()) <= epsilon + 4e-16
    assert matrix[0, 0] == pytest.approx(math.exp(epsilon) / (math.exp(epsilon) + 3), rel=1e-12)
    for code in range(4):
        sent = mechanism.privatize(np.full(RECORDS // 4, code), random_state=code)
        counts = np.bincount(sent.astype(int), minlength=4)
        assert stats.chisquare(counts, matrix[code] * len(sent)).pvalue > LEVEL
    middle = (np.arange(4.0) - 1.5) * mechanism.gain
    np.testing.assert_allclose(matrix @ middle, np.arange(4.0) - 1.5, atol=1e-12)


def test_a_channel_of_ones_own_has_its_matrix():
    matrix = [[0.7, 0.2, 0.1], [0.0, 0.3, 0.7]]
    mechanism = FiniteChannel(matrix, (0, 1), ("low", "middle", "high"))
    assert mechanism.guarantee is None
    for code in (0, 1):
        sent = mechanism.privatize(np.full(RECORDS // 2, float(code)), random_state=code).astype(int)
        counts = np.bincount(sent, minlength=3)
        kept = np.array(matrix[code]) > 0
        assert counts[~kept].sum() == 0
        assert stats.chisquare(counts[kept], np.array(matrix[code])[kept] * len(sent)).pvalue > LEVEL


def test_correlated_noise_has_its_covariance():
    """Whitened by the inverse root, the noise is tested coordinate by coordinate, at 1e-7."""
    covariance = np.array([[0.3, 0.1, 0.0], [0.1, 0.2, -0.05], [0.0, -0.05, 0.1]])
    mechanism = GaussianMechanism.from_covariance(covariance)
    noise = mechanism.privatize(np.zeros((RECORDS // 3, 3)), random_state=0)
    white = noise @ np.linalg.inv(np.linalg.cholesky(covariance)).T
    assert normal_faults(white, 1.0) == []
    uneven = GaussianMechanism.from_scale([0.5, 0.0]).privatize(np.zeros((100, 2)), random_state=0)
    assert np.all(uneven[:, 1] == 0)


MECHANISMS = [
    LaplaceMechanism(0.3, bounds=(-1.0, 2.0)), LaplaceMechanism(0.3, radius=2.0), LaplaceMechanism.from_scale(0.1),
    LaplaceMechanism.from_scale(0.1, bounds=(0, 1)), DiscreteLaplaceMechanism(1.0, bounds=(0, 9)),
    DiscreteLaplaceMechanism(1.0, bounds=(0, 1), step=0.25), DiscreteLaplaceMechanism.from_scale(2.0, step=0.5),
    DiscreteStaircaseMechanism(1.0, bounds=(0, 9)), DiscreteStaircaseMechanism(2.0, bounds=(0, 1), step=0.25, r=3),
    ClippedMechanism(LaplaceMechanism(1.0, bounds=(0, 1)), 0, 1),
    StaircaseMechanism(1.0, bounds=(0, 1), gamma="squared"),
    StaircaseMechanism(1.0, bounds=(0, 1)), StaircaseMechanism(1.0, bounds=(0, 1), gamma=0.5),
    UniformMechanism(0.5), UniformMechanism(0.5, bounds=(0, 1)), RandomizedResponse(1.0, ("a", "b", "c")),
    RandomizedResponse(1.0, (3, 1, 2)), FiniteChannel([[0.8, 0.2], [0.4, 0.6]], (-1, 1)),
    FiniteChannel([[0.8, 0.1, 0.1], [0.4, 0.3, 0.3]], ("a", "b"), (1, 2, 3)), GaussianMechanism.from_scale([0.5, 0.0]),
    GaussianMechanism.from_covariance([[1.0, 0.2], [0.2, 1.0]], radius=3.0),
    InputPerturbation(2, 4.0, 8.0, 1.0, 3.0, 1e-5),
]  # fmt: skip


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_mechanisms_are_values_with_cards(mechanism):
    names = {kind.__name__: kind for kind in KINDS.values()}
    assert eval(repr(mechanism), names) == mechanism
    card = json.loads(json.dumps(mechanism.to_card()))
    assert type(mechanism).from_card(card) == mechanism
    assert hash(type(mechanism).from_card(card)) == hash(mechanism)
    with pytest.raises((TypeError, ValueError)):
        type(mechanism).from_card({**card, "more": 1})
    if "epsilon" in card and "scale" in card:
        with pytest.raises(ValueError, match="noise and guarantee disagree"):
            type(mechanism).from_card({**card, "scale": card["scale"] / 2})


@pytest.mark.parametrize("mechanism", [m for m in MECHANISMS if m.bound is not None and m.width == 1], ids=repr)
def test_kinds_of_arrays(mechanism):
    value = mechanism.noise.inputs[0] if hasattr(mechanism.noise, "matrix") else mechanism.bound
    for array in (
        np.full(6, value), np.full(6, value, dtype=np.float32), np.full((6, 1), value, order="F"),
        np.full(12, value)[::2], [value] * 6,
    ):  # fmt: skip
        given = np.array(array)
        if isinstance(array, np.ndarray):
            array.flags.writeable = False
        sent = mechanism.privatize(array, random_state=0)
        assert sent.dtype == np.float64
        assert len(sent) == 6
        np.testing.assert_array_equal(array, given)
    with pytest.raises(ValueError, match="NaN in row 1"):
        mechanism.privatize([value, math.nan])
    with pytest.raises(ValueError, match="infinity in row 0"):
        mechanism.privatize([math.inf, value])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"matrix": [[0.5, 0.4], [0.5, 0.5]], "inputs": (0, 1)}, r"sums to 0\.9"),
        ({"matrix": [[0.5, 0.5]], "inputs": (0, 1)}, "one row per input"),
        ({"matrix": [[1.0], [1.0]], "inputs": (0, 1)}, "one column per output"),
        ({"matrix": np.eye(2), "inputs": (0, 0)}, "repeats"),
        ({"matrix": np.eye(2), "inputs": ("a", 1)}, "not a number"),
    ],
    ids=["sum", "rows", "columns", "repeated", "mixed"],
)
def test_channels_that_are_refused(arguments, message):
    with pytest.raises((TypeError, ValueError), match=message):
        FiniteChannel(**arguments)


@pytest.mark.parametrize(
    "covariance", [[[1.0, 2.0], [2.0, 1.0]], [[1.0, 0.5], [0.4, 1.0]], [[0.0]], [1.0], [[1.0, 0.0]], [[math.nan]], "x"],
    ids=str,
)  # fmt: skip
def test_covariances_that_are_refused(covariance):
    with pytest.raises((TypeError, ValueError)):
        GaussianMechanism.from_covariance(covariance)


@pytest.mark.parametrize("loss", [sd.losses.logistic(), sd.losses.exponential()], ids=str)
def test_what_is_shown_has_the_width_of_the_covariance(loss):
    release = sd.Release(GaussianMechanism.from_scale([5.0, 15000.0, 0.7]), fit_intercept=True)
    assert release.number_of_columns == 3
    corrected = sd.debias(loss, release)
    assert corrected.at(3).number_of_parameters == 4
    with pytest.raises(ValueError, match="X has 2 columns, but the release has 3"):
        _ = corrected.at(2).derivation
