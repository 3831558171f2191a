import dataclasses
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from symdebias._domains import DELTA, EPSILON, RADIUS, SCALE
from symdebias.mechanisms import KINDS, GaussianMechanism, RandomizedResponse, sampling
from symdebias.mechanisms.base import Clipped
from symdebias.privacy import Guarantee, analytic_gaussian_scale, classical_gaussian_scale

UNIT = GaussianMechanism(epsilon=1.0, delta=1e-5, radius=1.0)
finite = st.floats(allow_nan=False, allow_infinity=False)
radii = st.floats(-100, 100).map(lambda x: 10**x)


def exact_square(row):
    return sum(Fraction(float(value)) ** 2 for value in row)


def test_the_scale_is_calibrated_to_twice_the_radius():
    assert UNIT.scale == analytic_gaussian_scale(1.0, 1e-5, 2.0)
    classical = GaussianMechanism(epsilon=1.0, delta=1e-5, radius=1.0, calibration="classical")
    assert classical.scale == classical_gaussian_scale(1.0, 1e-5, 2.0)
    assert UNIT.noise.is_gaussian
    assert UNIT.noise.variance == UNIT.scale**2
    assert UNIT.guarantee == Guarantee(1.0, 1e-5)


def test_a_known_scale_makes_no_claim():
    mechanism = GaussianMechanism.from_scale(0.5)
    assert (mechanism.scale, mechanism.guarantee, mechanism.bound) == (0.5, None, None)
    values = np.array([[1e300, -1e300]])
    np.testing.assert_array_equal(mechanism.clip(values).values, values)
    assert GaussianMechanism.from_scale(0.5, radius=2.0).bound == 2.0


@settings(max_examples=200)
@given(hnp.arrays(np.float64, st.tuples(st.integers(1, 4), st.integers(1, 6)), elements=finite), radii)
def test_clipped_rows_lie_in_the_ball_exactly(X, radius):
    mechanism = GaussianMechanism.from_scale(1.0, radius=radius)
    before = X.copy()
    clipped = mechanism.clip(X)
    np.testing.assert_array_equal(X, before)
    for given_row, row, outside in zip(X, clipped.values, clipped.outside, strict=True):
        assert exact_square(row) <= Fraction(radius) ** 2
        square, bound = exact_square(given_row), Fraction(radius) ** 2
        if square > bound * (1 + Fraction(1, 10**12)):
            assert outside
        if square <= bound:
            assert not outside
        if square < bound * (1 - Fraction(1, 10**12)):
            np.testing.assert_array_equal(row, given_row)
    again = mechanism.clip(clipped.values)
    np.testing.assert_array_equal(again.values, clipped.values)
    assert not again.outside.any()


@settings(max_examples=200)
@given(hnp.arrays(np.float64, (2, 3), elements=st.floats(-1e3, 1e3)))
def test_clipping_keeps_directions(X):
    for row, clipped in zip(X, GaussianMechanism.from_scale(1.0, radius=1.0).clip(X).values, strict=True):
        length = np.linalg.norm(row)
        np.testing.assert_allclose(clipped, row / max(length, 1.0), rtol=1e-13, atol=1e-300)


@given(hnp.arrays(np.float64, 5, elements=finite), radii)
def test_numbers_are_clipped_to_the_interval(y, radius):
    clipped = GaussianMechanism.from_scale(1.0, radius=radius).clip(y)
    np.testing.assert_array_equal(clipped.values, np.clip(y, -radius, radius))
    np.testing.assert_array_equal(clipped.outside, np.abs(y) > radius)


@pytest.mark.parametrize("width", [1, 2, 7, 100])
def test_neighbours_differ_by_at_most_the_declared_sensitivity(width):
    rng = np.random.default_rng(width)
    mechanism = GaussianMechanism(epsilon=1.0, delta=1e-5, radius=1.5)
    sizes = 10.0 ** rng.uniform(-3, 300, size=(2, 300, 1))
    records, neighbours = rng.standard_normal((2, 300, width)) * sizes
    neighbours[::3] = -records[::3]
    first, second = mechanism.clip(records).values, mechanism.clip(neighbours).values
    sensitivity = Fraction(2 * mechanism.radius)
    gaps = [
        sum((Fraction(float(a)) - Fraction(float(b))) ** 2 for a, b in zip(*rows, strict=True))
        for rows in zip(first, second, strict=True)
    ]
    assert max(gaps) <= sensitivity**2
    assert max(gaps) >= sensitivity**2 * Fraction(999, 1000)
    assert mechanism.scale >= analytic_gaussian_scale(1.0, 1e-5, math.sqrt(max(gaps)))


def test_rows_on_the_sphere_up_to_rounding_are_not_reported():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 20))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    clipped = UNIT.clip(X)
    assert not clipped.outside.any()
    np.testing.assert_allclose(clipped.values, X, rtol=1e-13)
    assert max(map(exact_square, clipped.values[:200])) <= 1


def test_extreme_and_tiny_rows_are_clipped_without_a_warning():
    X = np.array([[1.7e308, 1.7e308], [5e-324, -0.0], [0.0, 0.0], [1e-200, 1e200], [-1.7e308, 5e-324]])
    clipped = UNIT.clip(X)
    assert clipped.outside.tolist() == [True, False, False, True, True]
    np.testing.assert_allclose(clipped.values[0], [0.5**0.5] * 2)
    np.testing.assert_array_equal(clipped.values[1:3], X[1:3])


def test_only_clipped_values_are_noised():
    source = sampling.source(0)
    with pytest.raises(TypeError, match="only clipped values are noised; got ndarray"):
        UNIT.add_noise(np.zeros((2, 2)), source)
    with pytest.raises(TypeError, match=r"made by Mechanism\.clip"):
        Clipped(np.full((1, 1), 9.0), np.zeros(1, dtype=bool), UNIT)
    wide = GaussianMechanism(epsilon=1.0, delta=1e-5, radius=2.0)
    with pytest.raises(ValueError, match=r"clipped for .*radius=2\.0"):
        UNIT.add_noise(wide.clip(np.ones((1, 2))), source)
    twin = GaussianMechanism(epsilon=1.0, delta=1e-5, radius=1.0)
    assert UNIT.add_noise(twin.clip(np.ones((1, 2))), source).shape == (1, 2)


def test_clipped_values_are_a_frozen_copy():
    X = np.zeros((2, 2))
    clipped = UNIT.clip(X)
    X[:] = 9.0
    assert not clipped.values.any()
    with pytest.raises(ValueError, match="read-only"):
        clipped.values[0, 0] = 9.0


@pytest.mark.parametrize("values", [[[math.nan, 0.0]], [[math.inf]], np.zeros((1, 1, 1)), 1.0, [["a"]], [], [[True]]])
def test_values_that_cannot_be_clipped_are_refused(values):
    with pytest.raises((TypeError, ValueError), match="values"):
        UNIT.privatize(values, random_state=0)


def test_mechanisms_are_values():
    twin = GaussianMechanism(1, 1e-5, 1)
    assert twin == UNIT
    assert hash(twin) == hash(UNIT)
    assert pickle.loads(pickle.dumps(UNIT)) == UNIT
    assert UNIT != GaussianMechanism.from_scale(UNIT.scale, radius=1.0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        UNIT.radius = 2.0


@pytest.mark.parametrize(
    "mechanism",
    [UNIT, GaussianMechanism.from_scale(0.5), GaussianMechanism.from_scale(0.5, radius=2.0),
     GaussianMechanism(epsilon=0.5, delta=1e-7, radius=3.0, calibration="classical"),
     RandomizedResponse(epsilon=0.3), RandomizedResponse(epsilon=2.0, categories=(0, 1))],
    ids=repr,
)  # fmt: skip
def test_repr_and_card_make_an_equal_mechanism(mechanism):
    assert eval(repr(mechanism)) == mechanism
    assert KINDS[mechanism.kind].from_card(mechanism.to_card()) == mechanism


BAD_CARDS = [
    ({}, "entries"),
    ({"scale": 1.0}, "entries"),
    ({"scale": 1.0, "radius": 1.0, "seed": 1}, "entries"),
    ({**UNIT.to_card(), "scale": 1.0}, "noise and guarantee disagree"),
    ({**UNIT.to_card(), "epsilon": 0.5}, "noise and guarantee disagree"),
    ({**UNIT.to_card(), "epsilon": None}, "epsilon"),
    ({**UNIT.to_card(), "calibration": ["analytic"]}, "calibration"),
]


@pytest.mark.parametrize(("card", "message"), BAD_CARDS)
def test_cards_that_are_refused(card, message):
    with pytest.raises((TypeError, ValueError), match=message):
        GaussianMechanism.from_card(card)


BAD = [
    *[({"epsilon": value}, "epsilon") for value in EPSILON.outside()],
    *[({"delta": value}, "delta") for value in (*DELTA.outside(), np.array(0.1))],
    *[({"radius": value}, "radius") for value in (*RADIUS.outside(), 0.0, -1.0, 1e-320)],
    *[({"calibration": value}, "calibration") for value in ("exact", None, 1, [])],
    ({"epsilon": 1.1, "calibration": "classical"}, 'Use calibration="analytic"'),
]


@pytest.mark.parametrize(("change", "message"), BAD, ids=str)
def test_arguments_that_are_refused(change, message):
    with pytest.raises((TypeError, ValueError), match=message):
        GaussianMechanism(**{"epsilon": 1.0, "delta": 1e-5, "radius": 1.0, **change})


@pytest.mark.parametrize(
    "scale", [value for value in SCALE.outside() if np.ndim(value) == 0] + [0.0, -1.0, [0.0], [1.0, -1.0]], ids=str
)
def test_scales_that_are_refused(scale):
    with pytest.raises((TypeError, ValueError), match=r"scale|covariance is not positive"):
        GaussianMechanism.from_scale(scale)


def test_the_radius_has_no_default():
    with pytest.raises(TypeError, match="radius"):
        GaussianMechanism(epsilon=1.0, delta=1e-5)


def test_docstrings_say_that_the_sampler_is_not_hardened():
    for text in (sampling.__doc__, sampling.normal_noise.__doc__, GaussianMechanism.__doc__):
        assert "not" in text
        assert "hardened" in text
