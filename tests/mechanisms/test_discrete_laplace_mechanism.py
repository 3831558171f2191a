import dataclasses
import json
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
import sympy as sp
from hypothesis import given
from hypothesis import strategies as st
from sampling_statistics import LEVEL, RECORDS, correlation_p_value, rate_p_value, two_sided
from scipy import stats

from symdebias._domains import EPSILON, SCALE
from symdebias.mechanisms import sampling
from symdebias.mechanisms.discrete_laplace import DiscreteLaplaceMechanism
from symdebias.noise import VALUE
from symdebias.privacy import Guarantee

COUNTS = DiscreteLaplaceMechanism(1.0, bounds=(0, 9))
LARGEST = sampling.LARGEST_DISCRETE_SCALE
GRIDS = [((0, 9), 1.0), ((-2, 3), 0.25), ((0.0, 0.3), 0.1), ((-0.7, 1.1), 0.1), ((3, 4), 1.0), ((-6, 300), 3.0)]


def places_of(bounds, step):
    return tuple(round(Fraction(end) / Fraction(step)) for end in bounds)


# ---- scale and guarantee ---------------------------------------------------------------------------------


@given(
    st.floats(1e-3, 700), st.integers(-1000, 1000), st.integers(1, 1000), st.sampled_from([1.0, 0.25, 0.1, 3.0, 1e-9])
)
def test_the_scale_is_rounded_to_the_safe_side(epsilon, low, width, step):
    mechanism = DiscreteLaplaceMechanism(epsilon, bounds=(low * step, (low + width) * step), step=step)
    spent = width * Fraction(step) / Fraction(mechanism.scale)
    assert Fraction(epsilon) * (1 - Fraction(1, 2**51)) <= spent <= Fraction(epsilon)
    assert mechanism.guarantee == Guarantee(epsilon, 0.0)


@pytest.mark.parametrize(("bounds", "step"), GRIDS)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_probabilities_of_neighbours_keep_the_budget_and_reach_it(epsilon, bounds, step):
    """The log ratio is (|o - x'| - |o - x|)/scale in steps: integers over the scale that is drawn with, exactly."""
    mechanism = DiscreteLaplaceMechanism(epsilon, bounds=bounds, step=step)
    drawn = []
    original = sampling.discrete_laplace_noise
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            sampling, "discrete_laplace_noise", lambda scale, *rest: drawn.append(scale) or original(scale, *rest)
        )
        mechanism.privatize([bounds[0]], random_state=0)
    low, high = places_of(bounds, step)
    inputs = range(low, high + 1)
    largest = max(
        abs(abs(output - one) - abs(output - other))
        for output in range(low - 3, high + 4)
        for one in (low, high)
        for other in inputs
    )
    assert largest == high - low
    spent = largest / Fraction(drawn[0])
    assert Fraction(epsilon) * (1 - Fraction(1, 2**50)) <= spent <= Fraction(epsilon)


@pytest.mark.parametrize(("bounds", "step"), GRIDS)
def test_the_scale_in_steps_is_rounded_to_the_safe_side_as_well(bounds, step, monkeypatch):
    """200 budgets: the quotient of the scale and the step, which is drawn with, is a second rounding."""
    drawn = []
    monkeypatch.setattr(
        sampling, "discrete_laplace_noise", lambda scale, shape, _: drawn.append(scale) or np.zeros(shape)
    )
    low, high = places_of(bounds, step)
    budgets = np.random.default_rng(0).uniform(0.05, 5.0, 200).tolist()
    for epsilon in budgets:
        DiscreteLaplaceMechanism(epsilon, bounds=bounds, step=step).privatize([bounds[0]], random_state=0)
    spent = [(high - low) / Fraction(scale) for scale in drawn]
    assert all(one <= Fraction(epsilon) for one, epsilon in zip(spent, budgets, strict=True))


def test_the_probabilities_of_the_noise_are_those_of_the_law():
    probability = sp.lambdify(VALUE, COUNTS.noise.density, "numpy")
    steps = np.arange(-400, 401)
    q = math.exp(-1 / COUNTS.scale)
    np.testing.assert_allclose(probability(steps), (1 - q) / (1 + q) * q ** np.abs(steps), rtol=1e-12)
    assert probability(steps).sum() == pytest.approx(1, rel=1e-12)
    assert COUNTS.noise.variance == pytest.approx(np.sum(steps**2 * probability(steps)), rel=1e-12)
    assert COUNTS.noise.step == 1.0


@pytest.mark.parametrize(("bounds", "step"), GRIDS)
def test_neighbours_are_no_farther_apart_than_the_places_of_the_bounds(bounds, step):
    mechanism = DiscreteLaplaceMechanism(1.0, bounds=bounds, step=step)
    low, high = places_of(bounds, step)
    values = np.arange(low - 20, high + 21) * step
    clipped = mechanism.clip(values)
    places = np.rint(clipped.values / step).astype(int)
    assert places.tolist() == np.clip(np.arange(low - 20, high + 21), low, high).tolist()
    assert clipped.outside.tolist() == [True] * 20 + [False] * (high - low + 1) + [True] * 20
    assert (places.max() - places.min()) * Fraction(step) / Fraction(mechanism.scale) <= 1


def test_a_known_scale_makes_no_claim():
    mechanism = DiscreteLaplaceMechanism.from_scale(0.5, step=0.25)
    assert (mechanism.scale, mechanism.step, mechanism.guarantee) == (0.5, 0.25, None)
    assert (mechanism.bound, mechanism.width) == (None, None)
    values = np.array([[1e9, -1e9]])
    np.testing.assert_array_equal(mechanism.clip(values).values, values)
    bounded = DiscreteLaplaceMechanism.from_scale(0.5, bounds=(-3, 2))
    assert (bounded.bound, bounded.width) == (3.0, 1)
    assert bounded.clip([-9.0, 9.0]).values.tolist() == [-3.0, 2.0]


# ---- the grid --------------------------------------------------------------------------------------------


def test_values_off_the_grid_are_refused():
    mechanism = DiscreteLaplaceMechanism(1.0, bounds=(-1.0, 2.0), step=0.25)
    with pytest.raises(ValueError, match=r"row 1 is no multiple of step=0\.25.*Round the values first"):
        mechanism.privatize([0.25, 0.3])
    with pytest.raises(ValueError, match="row 0 is no multiple"):
        COUNTS.clip([1 + 1e-9])
    # Beyond 1e12 steps one part in 1e12 is more than a step: half a step off is refused all the same.
    with pytest.raises(ValueError, match="row 2 is no multiple"):
        DiscreteLaplaceMechanism.from_scale(1.0).clip([0.0, 2.0**45, 2.0**45 + 0.5])


def test_rounding_of_the_values_is_no_matter():
    tenths = DiscreteLaplaceMechanism(1.0, bounds=(0.0, 0.3), step=0.1)
    clipped = tenths.clip([0.1, 0.2, 0.1 + 0.2, 0.3, 1 - 0.9])
    assert not clipped.outside.any()
    assert clipped.values.max() <= 0.3
    sent = tenths.privatize([0.1, 0.2, 0.1 + 0.2, 0.3, 1 - 0.9] * 200, random_state=0)
    assert set(sent.tolist()) <= {0.1 * place for place in range(-100, 100)}
    assert not COUNTS.clip([2.9999999999999996]).outside.any()


@pytest.mark.parametrize(("bounds", "step"), GRIDS)
def test_what_can_come_out_does_not_depend_on_what_went_in(bounds, step):
    """Multiples of the step, odd and even ones from either bound as often as stated (false alarms 1e-7 each).

    With 20,000 numbers a share of odd ones wrong by .027 is seen.
    """
    for scale in (2.0, 2.0**30):
        mechanism = DiscreteLaplaceMechanism.from_scale(scale * step, step=step)
        for end in bounds:
            sent = mechanism.privatize(np.full(20_000, float(end)), random_state=1)
            places = np.rint(sent / step)
            np.testing.assert_array_equal(sent, step * places)
            q = math.exp(-1 / scale)
            odd = (places - np.rint(end / step)) % 2 == 1
            assert rate_p_value(odd, 2 * q / (1 + q) ** 2) > LEVEL


def test_far_values_are_clipped_and_far_places_without_bounds_refused():
    clipped = DiscreteLaplaceMechanism(1.0, bounds=(0, 1), step=2.0**-20).clip([1e300, -1.7e308, 2.0**60, 0.5])
    assert clipped.values.tolist() == [1.0, 0.0, 1.0, 0.5]
    assert clipped.outside.tolist() == [True, True, True, False]
    free = DiscreteLaplaceMechanism.from_scale(1.0, step=1e-3)
    for value in (1.7e308, 2.0**60):
        with pytest.raises(ValueError, match=r"row 1 is more than 2\^52 steps.*Declare bounds"):
            free.clip([0.0, value])


def test_one_number_per_record_with_bounds():
    with pytest.raises(ValueError, match=r"shape \(3, 2\).*mechanism of its own"):
        COUNTS.privatize(np.zeros((3, 2)))
    assert DiscreteLaplaceMechanism.from_scale(1.0).privatize(np.zeros((3, 2))).shape == (3, 2)
    clipped = COUNTS.clip([[-1.0], [5.0], [20.0]])
    assert clipped.values.tolist() == [[0.0], [5.0], [9.0]]
    assert clipped.outside.tolist() == [True, False, True]


def test_kinds_of_arrays():
    for array in (
        np.full(6, 20.0), np.full(6, 3, dtype=np.float32), np.arange(6), np.arange(6, dtype=np.uint8),
        np.full((6, 1), 5.0, order="F"), np.full(12, 5.0)[::2], [5] * 6,
    ):  # fmt: skip
        given = np.array(array)
        if isinstance(array, np.ndarray):
            array.flags.writeable = False
        sent = COUNTS.privatize(array, random_state=0)
        assert sent.dtype == np.float64
        assert sent.shape == given.shape
        np.testing.assert_array_equal(array, given)


@pytest.mark.parametrize("values", [[math.nan, 0.0], [math.inf], np.zeros((1, 1, 1)), 1.0, ["a"], [], [True], [1j]])
def test_values_that_cannot_be_clipped_are_refused(values):
    with pytest.raises((TypeError, ValueError), match="values"):
        COUNTS.privatize(values, random_state=0)


# ---- values, cards, bad input ----------------------------------------------------------------------------

MECHANISMS = [
    COUNTS, DiscreteLaplaceMechanism(0.3, bounds=(-1, 2), step=0.1), DiscreteLaplaceMechanism.from_scale(2.0),
    DiscreteLaplaceMechanism.from_scale(2.0, step=0.5), DiscreteLaplaceMechanism.from_scale(0.1, bounds=(0, 1)),
]  # fmt: skip


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_repr_and_card_make_an_equal_mechanism(mechanism):
    assert eval(repr(mechanism)) == mechanism
    again = DiscreteLaplaceMechanism.from_card(json.loads(json.dumps(mechanism.to_card())))
    assert again == mechanism
    assert hash(again) == hash(mechanism)
    assert again.guarantee == mechanism.guarantee
    assert pickle.loads(pickle.dumps(mechanism)) == mechanism
    with pytest.raises(dataclasses.FrozenInstanceError):
        mechanism.step = 2.0


CARD = COUNTS.to_card()
BAD_CARDS = [
    ({}, "entries"),
    ({"scale": 1.0}, "entries"),
    ({**CARD, "seed": 1}, "entries"),
    ({**CARD, "scale": 8.0}, "noise and guarantee disagree"),
    ({**CARD, "scale": math.nextafter(CARD["scale"], 0.0)}, "noise and guarantee disagree"),
    ({**CARD, "epsilon": 0.5}, "noise and guarantee disagree"),
    ({**CARD, "bounds": [0.0, 10.0]}, "noise and guarantee disagree"),
    ({**CARD, "step": 2.0}, "no multiple"),
    ({**CARD, "epsilon": None}, "epsilon"),
    ({**CARD, "scale": math.nan}, "scale"),
    ({**CARD, "bounds": None}, "bounds"),
]


@pytest.mark.parametrize(("card", "message"), BAD_CARDS)
def test_cards_that_are_refused(card, message):
    with pytest.raises((TypeError, ValueError), match=message):
        DiscreteLaplaceMechanism.from_card(card)


BAD = [
    *[({"epsilon": value}, "epsilon") for value in EPSILON.outside()],
    *[({"step": value}, "step") for value in (0, -1, math.nan, math.inf, 1e101, 1e-101, "1", True, None, [1])],
    *[
        ({"bounds": value}, "bounds")
        for value in (
            (1, 0), (1, 1), (0, math.nan), (0, math.inf), (0, 1, 2), (0,), "01", 3, None, (0, "1"), (False, True),
            (0, 1e101),
        )
    ],
    ({"bounds": (0, 0.5)}, r"bounds\[1\]=0\.5 is no multiple"),
    ({"bounds": (0.3, 1), "step": 0.25}, r"bounds\[0\]=0\.3 is no multiple"),
    ({"bounds": (0, 2.0**53)}, r"bounds\[1\].*more than 2\^52 steps"),
    ({"bounds": (0, 1e100), "step": 1e-100}, r"bounds\[1\].*more than 2\^52 steps"),
    ({"bounds": (0, 1e-13)}, "one point of the grid"),
    ({"bounds": (0, 2.0**33)}, r"at most 2\^32 steps.*larger step"),
    ({"epsilon": 1e-6, "bounds": (0, 2.0**50)}, r"at most 2\^32 steps.*larger step"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "message"), BAD, ids=str)
def test_arguments_that_are_refused(change, message):
    with pytest.raises((TypeError, ValueError), match=message):
        DiscreteLaplaceMechanism(**{"epsilon": 1.0, "bounds": (0, 1), **change})


@pytest.mark.parametrize("scale", [*SCALE.outside(), 0.0, -1.0, 2 * LARGEST, 1e20, 1e120], ids=str)
def test_scales_that_are_refused(scale):
    with pytest.raises((TypeError, ValueError), match="scale"):
        DiscreteLaplaceMechanism.from_scale(scale)


@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, math.inf, 2 * LARGEST, 2.0**63])
def test_scales_that_cannot_be_drawn_are_refused(scale):
    with pytest.raises(ValueError, match="cannot be drawn"):
        sampling.discrete_laplace_noise(scale, (3,), sampling.source(0))


# ---- sampler ---------------------------------------------------------------------------------------------


def grid_faults(noise, scale):
    """Return the tests that fail of integers of shape (n, k) against independent discrete Laplace ones, each at 1e-7.

    Chi-square is over cells of a sixth of a scale or of one integer, those that expect fewer than 20 together. With
    200,000 numbers a scale wrong by 3%, and one coordinate out of four that is not noised, are seen almost surely.
    """
    noise = np.asarray(noise, dtype=float).reshape(len(noise), -1)
    if not np.array_equal(noise, np.rint(noise)):
        return ["integers"]
    missing = -math.expm1(-1 / scale)
    q = math.exp(-1 / scale)
    variance = 2 * q / missing**2
    fourth = 2 * q * (1 + 4 * q + q**2) / missing**4 + 3 * variance**2
    flat = noise.ravel()
    p_values = {
        "mean": two_sided(flat.mean() * math.sqrt(flat.size / variance)),
        "variance": two_sided((np.mean(flat**2) - variance) * math.sqrt(flat.size / (fourth - variance**2))),
        "cells": cells_p_value(flat, scale),
        "coordinates": min(1.0, noise.shape[1] * min(cells_p_value(column, scale) for column in noise.T)),
        "next record": correlation_p_value(noise[1:].ravel(), noise[:-1].ravel()),
        "next record's size": correlation_p_value(np.abs(noise[1:]).ravel(), np.abs(noise[:-1]).ravel()),
    }
    if noise.shape[1] > 1:
        left, right = noise[:, 1:].ravel(), noise[:, :-1].ravel()
        p_values["next coordinate"] = correlation_p_value(left, right)
        p_values["next coordinate's size"] = correlation_p_value(np.abs(left), np.abs(right))
    # An integer is odd with probability 2 q/(1 + q)^2: the last bit, which coarse draws leave out.
    odd = int(np.count_nonzero(flat % 2))
    p_values["last bit"] = stats.binomtest(odd, flat.size, 2 * q / (1 + q) ** 2).pvalue
    return [name for name, p_value in p_values.items() if not p_value > LEVEL]


def cells_p_value(numbers, scale):
    edges = np.unique(np.floor(max(scale, 1.0) * np.linspace(-6, 6, 73)))
    tail = np.exp(-(np.abs(edges + 0.5) + 0.5) / scale) / (1 + math.exp(-1 / scale))
    below = np.where(edges < 0, tail, 1 - tail)
    expected = np.diff(np.r_[0.0, below, 1.0]) * numbers.size
    counts = np.bincount(np.searchsorted(edges, numbers), minlength=len(edges) + 1)
    rare = expected < 20
    if rare.any():
        expected, counts = np.r_[expected[~rare], expected[rare].sum()], np.r_[counts[~rare], counts[rare].sum()]
    if expected[-1] < 1:
        # Chi-square has no say over a cell that hardly expects one; Poisson's law has.
        rest = stats.poisson.sf(counts[-1] - 1, expected[-1])
        expected, counts = expected[:-1], counts[:-1]
        return min(1.0, 2 * min(rest, stats.chisquare(counts, expected * counts.sum() / expected.sum()).pvalue))
    return stats.chisquare(counts, expected).pvalue


@pytest.mark.parametrize("scale", [0.25, 0.5, 1.0, 3.0, 400.0, 1e6, LARGEST])
def test_noise_has_its_law(scale):
    mechanism = DiscreteLaplaceMechanism.from_scale(scale)
    assert grid_faults(mechanism.privatize(np.zeros((RECORDS // 4, 4)), random_state=1), scale) == []


@pytest.mark.parametrize("step", [0.1, 0.25, 3.0, 1e-50])
def test_noise_of_a_budget_without_a_seed_has_its_law(step):
    mechanism = DiscreteLaplaceMechanism(2.0, bounds=(-3 * step, 5 * step), step=step)
    sent = mechanism.privatize(np.full(RECORDS, 99 * step))
    places = np.rint(sent / step)
    np.testing.assert_array_equal(sent, step * places)
    assert grid_faults(places - 5, 4.0) == []


def test_noise_is_made_of_integers():
    drawn = sampling.discrete_laplace_noise(2.0, (3, 2), sampling.source(0))
    assert drawn.dtype == np.int64
    assert drawn.shape == (3, 2)


def geometric_pair(scale, shape=(RECORDS // 4, 4), seed=3):
    rng = np.random.default_rng(seed)
    return rng.geometric(-math.expm1(-1 / scale), (2, *shape)) - 1


SOUND = np.subtract(*geometric_pair(3.0))
DEFECTS = {
    "scale x1.05": np.subtract(*geometric_pair(3.15)),
    "scale /1.05": np.subtract(*geometric_pair(3 / 1.05)),
    "sensitivity halved": np.subtract(*geometric_pair(1.5)),
    "one step up": SOUND + 1,
    "rounded Laplace": np.rint(np.random.default_rng(4).laplace(scale=3.0, size=SOUND.shape)),
    "one geometric number with a sign": geometric_pair(3.0)[0] * np.random.default_rng(5).choice([-1, 1], SOUND.shape),
    "one-sided": geometric_pair(3.0)[0],
    "even numbers only": 2 * np.subtract(*geometric_pair(1.5)),
    "last coordinate without noise": SOUND * [1, 1, 1, 0],
    "one number for two coordinates": SOUND[:, [0, 1, 2, 2]],
    "opposite numbers for two coordinates": SOUND[:, [0, 1, 2, 2]] * [1, 1, 1, -1],
    "each record's noise used twice": np.repeat(SOUND[::2], 2, axis=0),
    "no tails": np.clip(SOUND, -12, 12),
    "half a step": SOUND + 0.5,
    "NaN": np.full(SOUND.shape, np.nan),
    "no noise": np.zeros_like(SOUND),
}


def test_the_planted_defects_start_from_a_sound_sample():
    assert grid_faults(SOUND, 3.0) == []


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_defect_of_the_sampler_is_seen(defect):
    assert grid_faults(DEFECTS[defect], 3.0)


def test_cut_off_and_coarse_draws_of_a_large_scale_are_seen():
    sound = np.subtract(*geometric_pair(1e6))
    assert grid_faults(sound, 1e6) == []
    assert grid_faults(2 * (sound // 2), 1e6)
    assert grid_faults(np.clip(sound, -(2**22), 2**22), 1e6)


# ---- channels: the draw ----------------------------------------------------------------------------------

MATRIX = np.array([[0.7, 0.2, 0.1], [0.0, 0.3, 0.7], [1.0, 0.0, 0.0]])


def category_faults(places, rows, matrix):
    """Return the rows of a matrix whose draws differ from it, by chi-square at 1e-7, or include an impossible one."""
    faults = []
    for row, probabilities in enumerate(matrix):
        counts = np.bincount(places[rows == row], minlength=len(probabilities))
        possible = probabilities > 0
        p_value = 1.0
        if possible.sum() > 1:
            p_value = stats.chisquare(counts[possible], probabilities[possible] * counts[possible].sum()).pvalue
        if counts[~possible].any() or not p_value > LEVEL:
            faults.append(row)
    return faults


def test_categories_have_the_probabilities_of_their_rows():
    rows = np.random.default_rng(0).integers(0, 3, RECORDS)
    places = sampling.categories(MATRIX, rows, sampling.source(1))
    assert category_faults(places, rows, MATRIX) == []
    assert (
        correlation_p_value(places[1:][rows[1:] == 0].astype(float), places[:-1][rows[1:] == 0].astype(float)) > LEVEL
    )
    assert category_faults(places, rows, MATRIX[[0, 1, 0]]) == [2]
    assert category_faults(places, rows, MATRIX + np.array([[0.012, -0.012, 0], [0, 0, 0], [0, 0, 0]])) == [0]


def test_no_draw_falls_off_the_end_or_on_an_output_without_probability():
    class Largest:
        def random(self, count):
            return np.full(count, 1 - 2.0**-53)

    source = sampling.Source(Largest(), seeded=True)
    tenths = np.array([[0.1] * 10 + [0.0], [0.5, 0.5] + [0.0] * 9])
    assert tenths[0].cumsum()[-1] < 1
    assert sampling.categories(tenths, np.array([0, 1, 0]), source).tolist() == [9, 1, 9]


def test_a_draw_of_zero_falls_on_the_first_output_with_a_probability():
    class Least:
        def random(self, count):
            return np.zeros(count)

    places = sampling.categories(MATRIX, np.arange(3), sampling.Source(Least(), seeded=True))
    assert places.tolist() == [0, 1, 0]


def test_no_records_and_one_row():
    source = sampling.source(0)
    assert sampling.categories(MATRIX, np.array([], dtype=np.int64), source).shape == (0,)
    assert sampling.categories(np.ones((1, 1)), np.zeros(5, dtype=np.int64), source).tolist() == [0] * 5
