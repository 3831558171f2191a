import math
from fractions import Fraction

import numpy as np
import pytest
import sympy as sp
from hypothesis import given
from hypothesis import strategies as st
from sampling_statistics import LEVEL, rate_p_value

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


# ---- values, cards, bad input ----------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, math.inf, 2 * LARGEST, 2.0**63])
def test_scales_that_cannot_be_drawn_are_refused(scale):
    with pytest.raises(ValueError, match="cannot be drawn"):
        sampling.discrete_laplace_noise(scale, (3,), sampling.source(0))


# ---- sampler ---------------------------------------------------------------------------------------------


REFUSED = {
    "a bound off the grid": ({"bounds": (0, 0.5)}, r"bounds\[1\]=0\.5 is no multiple"),
    "a lower bound off the grid": ({"bounds": (0.3, 1), "step": 0.25}, r"bounds\[0\]=0\.3 is no multiple"),
    "a bound too far out": ({"bounds": (0, 2.0**53)}, r"bounds\[1\].*more than 2\^52 steps"),
    "a step too small": ({"bounds": (0, 1e100), "step": 1e-100}, r"bounds\[1\].*more than 2\^52 steps"),
    "one point": ({"bounds": (0, 1e-13)}, "one point of the grid"),
    "more steps than can be drawn": ({"bounds": (0, 2.0**33)}, r"at most 2\^32 steps.*larger step"),
    "a budget too small": ({"epsilon": 1e-6, "bounds": (0, 2.0**50)}, r"at most 2\^32 steps.*larger step"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_arguments_that_are_refused(case):
    change, message = REFUSED[case]
    with pytest.raises((TypeError, ValueError), match=message):
        DiscreteLaplaceMechanism(**{"epsilon": 1.0, "bounds": (0, 1), **change})


@pytest.mark.parametrize("scale", [2 * LARGEST, 1e20])
def test_known_scales_that_cannot_be_drawn_are_refused(scale):
    with pytest.raises(ValueError, match="scale"):
        DiscreteLaplaceMechanism.from_scale(scale)


def test_cards_of_another_grid_are_refused():
    with pytest.raises(ValueError, match="no multiple"):
        DiscreteLaplaceMechanism.from_card({**COUNTS.to_card(), "step": 2.0})
