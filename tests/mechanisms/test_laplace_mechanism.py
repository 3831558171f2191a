import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

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
