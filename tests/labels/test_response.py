"""Debiased randomized response and the mesh of outputs, against exact arithmetic."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import symdebias as sd
from symdebias._domains import EPSILON
from symdebias.labels.response import response_units
from symdebias.mechanisms.realised import UNITS
from symdebias.privacy import largest_ratio

EPSILONS = [1e-6, 1e-3, 0.5, 1.0, 8.0, 30.0, 37.0, 700.0]


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("labels", [(0, 1), (-1.5, 0.2, 7), tuple(range(52)), (1e-80, 2e-80), (-3e90, 0, 1e89)])
def test_means_are_the_labels_in_exact_arithmetic(labels, epsilon):
    randomizer = sd.labels.debiased_randomized_response(labels, epsilon)
    assert randomizer.unbiased
    outputs = [Fraction(output) for output in randomizer.outputs]
    rounding = Fraction(max(map(abs, outputs)), 2**52)
    for label, row in zip(randomizer.labels, randomizer.matrix, strict=True):
        assert abs(sum(Fraction(m) * t for m, t in zip(row, outputs, strict=True)) - Fraction(label)) <= rounding
    column = [row[0] for row in randomizer.matrix]
    assert Fraction(max(column)) <= largest_ratio(epsilon) * Fraction(min(column))


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_the_outputs_are_those_of_the_closed_form(epsilon):
    labels = np.array([-2.0, 0.5, 1.0, 9.0])
    gain = math.expm1(epsilon)
    outputs = ((gain + 4) * labels - labels.sum()) / gain
    np.testing.assert_allclose(sd.labels.debiased_randomized_response(labels, epsilon).outputs, outputs, rtol=1e-12)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("outputs", [2, 3, 52, 2000])
def test_the_units_are_the_least_that_keep_the_budget(outputs, epsilon):
    """One unit less for each other output would break it, so that no privacy is given away."""
    other, ratio = response_units(epsilon, outputs), largest_ratio(epsilon)
    assert 1 <= other < UNITS // outputs
    assert UNITS - (outputs - 1) * other <= ratio * other
    assert other == 1 or UNITS - (outputs - 1) * (other - 1) > ratio * (other - 1)


def test_many_labels_of_a_small_budget():
    randomizer = sd.labels.debiased_randomized_response(range(400), 1e-6)
    assert randomizer.unbiased
    assert len(randomizer.outputs) == 400


@given(
    st.lists(st.integers(-1000, 1000), min_size=2, max_size=12, unique=True),
    st.floats(1e-6, 700, allow_nan=False),
)
@settings(max_examples=60, deadline=None)
def test_any_labels_and_budget(labels, epsilon):
    randomizer = sd.labels.debiased_randomized_response(sorted(labels), epsilon)
    assert randomizer.unbiased
    assert list(randomizer.outputs) == sorted(set(randomizer.outputs))


def test_the_loss_is_a_mean_under_the_prior_and_the_card_keeps_it():
    randomizer = sd.labels.debiased_randomized_response((0, 1, 2), 1.0, prior=(0.5, 0.5, 0.0))
    matrix, outputs = np.array(randomizer.matrix), np.array(randomizer.outputs)
    squares = (matrix * (outputs[None, :] - np.arange(3.0)[:, None]) ** 2).sum(axis=1)
    assert randomizer.noisy_label_loss == pytest.approx((squares[0] + squares[1]) / 2, rel=1e-12)
    assert sd.LabelRandomizer.from_card(json.loads(json.dumps(randomizer.to_card()))) == randomizer


def test_the_mesh_has_the_ends_of_the_response_and_nests():
    mesh = sd.labels.feasible_outputs(range(1, 53), 1.0)
    assert mesh.shape == (52,)
    assert mesh[[0, -1]] == pytest.approx([-770.7011133, 823.7011133], abs=1e-6)
    for count in (2, 7, 52):
        coarse = sd.labels.feasible_outputs(range(1, 53), 1.0, mesh=count)
        fine = sd.labels.feasible_outputs(range(1, 53), 1.0, mesh=2 * count - 1)
        np.testing.assert_array_equal(fine[::2], coarse)


BAD = [
    *[({"epsilon": value}, "epsilon") for value in EPSILON.outside()],
    *[({"labels": value}, "labels") for value in ((0,), (1, 0), (0, 0), (0, math.nan), "01", 3, (0, "1"), (0, True))],
]


@pytest.mark.parametrize("design", [sd.labels.debiased_randomized_response, sd.labels.feasible_outputs])
@pytest.mark.parametrize(("change", "message"), BAD, ids=str)
def test_arguments_that_are_refused(design, change, message):
    with pytest.raises((TypeError, ValueError), match=message):
        design(**{"labels": (0, 1), "epsilon": 1.0, **change})


@pytest.mark.parametrize("mesh", [1, 0, -3, 2.5, "3", True, math.nan])
def test_meshes_that_are_refused(mesh):
    with pytest.raises((TypeError, ValueError), match="mesh"):
        sd.labels.feasible_outputs((0, 1), 1.0, mesh=mesh)


def test_priors_and_labels_that_are_refused():
    with pytest.raises(ValueError, match="prior"):
        sd.labels.debiased_randomized_response((0, 1), 1.0, prior=(0.5, 0.6))
    with pytest.raises(ValueError, match=r"tell apart.*merge them"):
        sd.labels.debiased_randomized_response((0, 1e-20, 1), 1.0)
