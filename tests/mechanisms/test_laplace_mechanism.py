import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from symdebias.mechanisms.laplace import LaplaceMechanism
from symdebias.privacy import Guarantee

epsilons = st.floats(1e-6, 700.0)


# ---- scale and guarantee ---------------------------------------------------------------------------------


@given(epsilons, st.floats(-1e6, 1e6), st.floats(-1e6, 1e6))
def test_the_scale_of_bounds_is_rounded_to_the_safe_side(epsilon, one, other):
    low, high = sorted((one, other))
    if not high - low > 1e-90:
        return
    mechanism = LaplaceMechanism(epsilon, bounds=(low, high))
    sensitivity = Fraction(high) - Fraction(low)
    assert sensitivity / Fraction(mechanism.scale) <= Fraction(epsilon)
    below = Fraction(math.nextafter(mechanism.scale, 0.0))
    assert sensitivity / below >= Fraction(epsilon) * (1 - Fraction(1, 2**52))
    assert mechanism.guarantee == Guarantee(epsilon, 0.0)


@given(epsilons, st.floats(-90, 90).map(lambda x: 10**x))
def test_the_scale_of_a_radius_is_rounded_to_the_safe_side(epsilon, radius):
    scale = Fraction(LaplaceMechanism(epsilon, radius=radius).scale)
    assert Fraction(epsilon) * (1 - Fraction(1, 2**51)) <= 2 * Fraction(radius) / scale <= Fraction(epsilon)


@pytest.mark.parametrize("bounds", [(0.0, 1.0), (-0.3, 0.4)])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_densities_of_neighbours_differ_by_the_budget_at_most_and_reach_it(epsilon, bounds):
    mechanism = LaplaceMechanism(epsilon, bounds=bounds)
    outputs = np.linspace(-9, 9, 4001)
    inputs = np.linspace(*bounds, 9)
    logs = np.array([stats.laplace.logpdf(outputs, value, mechanism.scale) for value in inputs])
    gaps = np.ptp(logs, axis=0)
    assert gaps.max() <= epsilon * (1 + 1e-12)
    assert gaps.max() == pytest.approx(epsilon, rel=1e-12)


def test_a_known_scale_makes_no_claim():
    mechanism = LaplaceMechanism.from_scale(0.5)
    assert (mechanism.scale, mechanism.guarantee, mechanism.bound, mechanism.width) == (0.5, None, None, None)
    assert mechanism.noise.variance == 0.5
    values = np.array([[1e300, -1e300]])
    np.testing.assert_array_equal(mechanism.clip(values).values, values)
    assert LaplaceMechanism.from_scale(0.5, radius=2.0).bound == 2.0
    assert LaplaceMechanism.from_scale(0.5, bounds=(-3, 2)).bound == 3.0
    assert LaplaceMechanism.from_scale(0.5, bounds=(-3, 2)).width == 1


def test_bounds_and_radius_exclude_each_other():
    both = {"bounds": (0, 1), "radius": 1.0}
    with pytest.raises(ValueError, match="both of bounds and radius"):
        LaplaceMechanism.from_scale(0.5, **both)
    with pytest.raises(ValueError, match="both of bounds and radius"):
        LaplaceMechanism(1.0, **both)
    with pytest.raises(ValueError, match="neither of bounds and radius"):
        LaplaceMechanism(1.0)
    card = LaplaceMechanism(1.0, bounds=(0, 1)).to_card()
    with pytest.raises(ValueError, match="both of bounds and radius"):
        LaplaceMechanism.from_card({**card, "radius": 1.0})
    with pytest.raises(ValueError, match=r"shape \(3, 2\).*radius=.*mechanism of its own"):
        LaplaceMechanism(1.0, bounds=(0, 1)).privatize(np.zeros((3, 2)))


def test_bounds_are_kept_as_floats():
    assert LaplaceMechanism(1, bounds=np.array([0, 1])) == LaplaceMechanism(1.0, bounds=[0.0, 1.0])
