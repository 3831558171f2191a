"""Mechanisms in other units: the same law and guarantee, of values that are moved and divided."""

from fractions import Fraction

import numpy as np
import pytest
from instances import MECHANISMS, values_within

import symdebias as sd
from symdebias.mechanisms.rescaled import rescaled

REFUSED = {"input perturbation", "clipped Laplace", "clipped Gaussian"}
LABELS = {name for name, one in MECHANISMS.items() if hasattr(one, "categories")}


@pytest.mark.parametrize("name", [name for name in MECHANISMS if name not in REFUSED | LABELS])
def test_a_law_in_other_units_is_the_same_law(name):
    """A power of two rounds nothing, so that plain draws from one seed are the same numbers in other units."""
    mechanism = MECHANISMS[name]
    center = 0.0 if getattr(mechanism, "radius", None) is not None else 2.0
    other = rescaled(mechanism, center=center, scale=4.0)
    assert type(other) is type(mechanism)
    values = values_within(mechanism, 50)
    draws = mechanism.privatize(values, random_state=3, noise="plain")
    moved = other.privatize((values - center) / 4, random_state=3, noise="plain")
    np.testing.assert_allclose(moved, (draws - center) / 4, rtol=1e-12, atol=1e-12)
    if mechanism.guarantee is not None:
        assert other.guarantee.epsilon == pytest.approx(mechanism.guarantee.epsilon, rel=1e-12)
        assert other.guarantee.delta == mechanism.guarantee.delta
    sensitivity = getattr(mechanism.range, "sensitivity", None) if mechanism.range.farthest is not None else None
    if isinstance(sensitivity, Fraction):
        assert other.range.sensitivity == sensitivity / 4


def test_scales_that_are_no_power_of_two_lose_no_privacy():
    """Scales are rounded up: sensitivity over scale stays at most epsilon, in exact fractions."""
    mechanism = sd.LaplaceMechanism(0.7, bounds=(18, 91))
    other = rescaled(mechanism, center=54.5, scale=36.5)
    assert other.range.sensitivity / Fraction(other.scale) <= Fraction(0.7)
    assert other.scale == pytest.approx(mechanism.scale / 36.5, rel=1e-15)


@pytest.mark.parametrize(
    ("mechanism", "center", "message"),
    [
        (MECHANISMS["randomized response"], 0.0, "releases labels, which have no units"),
        (MECHANISMS["Gaussian"], 1.0, "in a ball about 0"),
        (MECHANISMS["input perturbation"], 0.0, "nothing says how p_bound, p_scale, q_bound, q_scale change"),
    ],
)
def test_what_has_no_units_is_refused(mechanism, center, message):
    with pytest.raises(ValueError, match=message):
        rescaled(mechanism, center=center, scale=2.0)
