import dataclasses
import json
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sampling_statistics import LEVEL, RECORDS, coordinates_p_value, correlation_p_value, two_sided
from scipy import stats

from symdebias._domains import EPSILON, NOT_NUMBERS, RADIUS, SCALE
from symdebias.mechanisms.laplace import LaplaceMechanism
from symdebias.privacy import Guarantee

finite = st.floats(allow_nan=False, allow_infinity=False)
radii = st.floats(-100, 100).map(lambda x: 10**x)
epsilons = st.floats(1e-6, 700.0)
BOUNDS = [(-0.3, 0.4), (0.0, 1.0), (5.0, 7.5), (-1e-3, 1e3), (0.1, 0.3), (-1e100, 1e100)]


def exact_norm(row):
    return sum(abs(Fraction(float(value))) for value in row)


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


@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_no_two_numbers_within_bounds_spend_more_than_the_budget(epsilon, bounds):
    """Every pair of 60 clipped numbers, the bounds and their float64 neighbours among them, in exact arithmetic."""
    mechanism = LaplaceMechanism(epsilon, bounds=bounds)
    rng = np.random.default_rng(0)
    ends = [end for bound in bounds for end in (bound, np.nextafter(bound, -np.inf), np.nextafter(bound, np.inf))]
    numbers = np.r_[
        ends, rng.normal(size=27) * 10.0 ** rng.uniform(-5, 300, 27), rng.uniform(*np.divide(bounds, 2), 27)
    ]
    clipped = [Fraction(value) for value in mechanism.clip(numbers).values.tolist()]
    largest = max(abs(one - other) for one in clipped for other in clipped)
    assert largest == Fraction(bounds[1]) - Fraction(bounds[0])
    assert largest / Fraction(mechanism.scale) <= Fraction(epsilon)


@pytest.mark.parametrize("radius", [1e-100, 1e-3, 0.7, 40.0, 1e100])
@pytest.mark.parametrize("width", [1, 2, 7, 100])
def test_no_two_rows_in_the_ball_spend_more_than_the_budget(width, radius):
    rng = np.random.default_rng(width)
    mechanism = LaplaceMechanism(1.0, radius=radius)
    rows, others = rng.standard_normal((2, 100, width)) * 10.0 ** rng.uniform(-3, 307, size=(2, 100, 1))
    others[::3] = -rows[::3]
    first, second = mechanism.clip(rows).values.tolist(), mechanism.clip(others).values.tolist()
    gaps = [
        sum(abs(Fraction(one) - Fraction(other)) for one, other in zip(*pair, strict=True))
        for pair in zip(first, second, strict=True)
    ]
    assert max(gaps) / Fraction(mechanism.scale) <= Fraction(mechanism.epsilon)
    assert max(gaps) >= 2 * Fraction(radius) * Fraction(999, 1000)


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
    with pytest.raises(ValueError, match="both of bounds and radius"):
        LaplaceMechanism.from_scale(0.5, bounds=(0, 1), radius=1.0)


# ---- clipping --------------------------------------------------------------------------------------------


@settings(max_examples=200)
@given(hnp.arrays(np.float64, st.tuples(st.integers(1, 4), st.integers(1, 6)), elements=finite), radii)
def test_clipped_rows_lie_in_the_ball_exactly(X, radius):
    mechanism = LaplaceMechanism.from_scale(1.0, radius=radius)
    before = X.copy()
    clipped = mechanism.clip(X)
    np.testing.assert_array_equal(X, before)
    for given_row, row, outside in zip(X, clipped.values, clipped.outside, strict=True):
        norm, bound = exact_norm(given_row), Fraction(radius)
        assert exact_norm(row) <= bound
        if norm > bound * (1 + Fraction(1, 10**12)):
            assert outside
            assert exact_norm(row) >= bound * (1 - Fraction(1, 10**12))
        if norm <= bound:
            assert not outside
        if norm < bound * (1 - Fraction(1, 10**12)):
            np.testing.assert_array_equal(row, given_row)
    again = mechanism.clip(clipped.values)
    np.testing.assert_array_equal(again.values, clipped.values)
    assert not again.outside.any()


@settings(max_examples=200)
@given(hnp.arrays(np.float64, (2, 3), elements=st.floats(-1e3, 1e3)))
def test_clipping_keeps_directions(X):
    for row, clipped in zip(X, LaplaceMechanism.from_scale(1.0, radius=1.0).clip(X).values, strict=True):
        np.testing.assert_allclose(clipped, row / max(np.abs(row).sum(), 1.0), rtol=1e-13, atol=1e-300)


@given(hnp.arrays(np.float64, 5, elements=finite), radii)
def test_numbers_are_clipped_to_the_interval(y, radius):
    for mechanism in (
        LaplaceMechanism.from_scale(1.0, radius=radius),
        LaplaceMechanism.from_scale(1.0, bounds=(-radius, radius)),
    ):
        clipped = mechanism.clip(y)
        np.testing.assert_array_equal(clipped.values, np.clip(y, -radius, radius))
        np.testing.assert_array_equal(clipped.outside, np.abs(y) > radius)


def test_extreme_and_tiny_rows_are_clipped_without_a_warning():
    X = np.array([[1.7e308, 1.7e308], [5e-324, -0.0], [0.0, 0.0], [1e-200, 1e200], [-1.7e308, 5e-324]])
    for radius in (1e-100, 1e-3, 1.0, 1e100):
        clipped = LaplaceMechanism.from_scale(1.0, radius=radius).clip(X)
        assert clipped.outside.tolist() == [True, False, False, True, True]
        np.testing.assert_allclose(clipped.values[0], [radius / 2] * 2, rtol=1e-13)
        np.testing.assert_array_equal(clipped.values[1:3], X[1:3])


def test_one_number_per_record_with_bounds():
    with pytest.raises(ValueError, match=r"shape \(3, 2\).*radius=.*mechanism of its own"):
        LaplaceMechanism(1.0, bounds=(0, 1)).privatize(np.zeros((3, 2)))
    clipped = LaplaceMechanism(1.0, bounds=(0, 1)).clip([[-1.0], [0.5], [2.0]])
    assert clipped.values.tolist() == [[0.0], [0.5], [1.0]]
    assert clipped.outside.tolist() == [True, False, True]


@pytest.mark.parametrize("mechanism", [LaplaceMechanism(1.0, bounds=(-1, 1)), LaplaceMechanism(1.0, radius=1.0)])
def test_kinds_of_arrays(mechanism):
    for array in (
        np.full(6, 1.5), np.full(6, 0.5, dtype=np.float32), np.arange(6), np.full((6, 1), 0.5, order="F"),
        np.asfortranarray(np.full((6, 3), 2.0))[:, :1], np.full(12, 0.5)[::2], [0.5] * 6,
    ):  # fmt: skip
        given = np.array(array)
        if isinstance(array, np.ndarray):
            array.flags.writeable = False
        sent = mechanism.privatize(array, random_state=0)
        assert sent.dtype == np.float64
        assert sent.shape == given.shape
        np.testing.assert_array_equal(array, given)


@pytest.mark.parametrize("values", [[math.nan, 0.0], [math.inf], np.zeros((1, 1, 1)), 1.0, ["a"], [], [True], [1j]])
@pytest.mark.parametrize("mechanism", [LaplaceMechanism(1.0, bounds=(-1, 1)), LaplaceMechanism(1.0, radius=1.0)])
def test_values_that_cannot_be_clipped_are_refused(mechanism, values):
    with pytest.raises((TypeError, ValueError), match="values"):
        mechanism.privatize(values, random_state=0)


# ---- values, cards, bad input ----------------------------------------------------------------------------

MECHANISMS = [
    LaplaceMechanism(0.3, bounds=(-1.0, 2.0)), LaplaceMechanism(0.3, radius=2.0), LaplaceMechanism.from_scale(0.1),
    LaplaceMechanism.from_scale(0.1, bounds=(0, 1)), LaplaceMechanism.from_scale(0.1, radius=0.1),
]  # fmt: skip


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_repr_and_card_make_an_equal_mechanism(mechanism):
    assert eval(repr(mechanism)) == mechanism
    again = LaplaceMechanism.from_card(json.loads(json.dumps(mechanism.to_card())))
    assert again == mechanism
    assert hash(again) == hash(mechanism)
    assert again.guarantee == mechanism.guarantee
    assert pickle.loads(pickle.dumps(mechanism)) == mechanism
    with pytest.raises(dataclasses.FrozenInstanceError):
        mechanism.radius = 2.0


def test_a_budget_is_not_a_known_scale():
    mechanism = LaplaceMechanism(1.0, radius=1.0)
    assert mechanism != LaplaceMechanism.from_scale(mechanism.scale, radius=1.0)
    assert LaplaceMechanism(1, bounds=np.array([0, 1])) == LaplaceMechanism(1.0, bounds=[0.0, 1.0])


CARD = LaplaceMechanism(1.0, bounds=(0, 1)).to_card()
BAD_CARDS = [
    ({}, "entries"),
    ({"scale": 1.0}, "entries"),
    ({**CARD, "seed": 1}, "entries"),
    ({**CARD, "scale": 0.5}, "noise and guarantee disagree"),
    ({**CARD, "scale": math.nextafter(CARD["scale"], 0.0)}, "noise and guarantee disagree"),
    ({**CARD, "epsilon": 0.5}, "noise and guarantee disagree"),
    ({**CARD, "bounds": [0.0, 2.0]}, "noise and guarantee disagree"),
    ({**CARD, "epsilon": None}, "epsilon"),
    ({**CARD, "scale": math.nan}, "scale"),
    ({**CARD, "bounds": None}, "neither of bounds and radius"),
    ({**CARD, "radius": 1.0}, "both of bounds and radius"),
]


@pytest.mark.parametrize(("card", "message"), BAD_CARDS)
def test_cards_that_are_refused(card, message):
    with pytest.raises((TypeError, ValueError), match=message):
        LaplaceMechanism.from_card(card)


BAD_BOUNDS = (
    (1, 0), (1, 1), (0, math.nan), (math.nan, 0), (0, math.inf), (-math.inf, 0), (0, 1, 2), (0,), (), "01", b"01", 3,
    True, (0, "1"), (False, True), (0, 1j), (0, None), {0, 1}, (0, 1e101), (0, 10**400),
)  # fmt: skip
BAD = [
    *[({"epsilon": value, "radius": 1.0}, "epsilon") for value in EPSILON.outside()],
    *[({"radius": value}, "radius") for value in (*RADIUS.outside(), 0.0, -1.0, 1e-320)],
    *[({"bounds": value}, "bounds") for value in BAD_BOUNDS],
    ({}, "neither of bounds and radius"),
    ({"bounds": (0, 1), "radius": 1.0}, "both of bounds and radius"),
]


@pytest.mark.parametrize(("change", "message"), BAD, ids=str)
def test_arguments_that_are_refused(change, message):
    with pytest.raises((TypeError, ValueError), match=message):
        LaplaceMechanism(**{"epsilon": 1.0, **change})


@pytest.mark.parametrize("scale", [*SCALE.outside(), 0.0, -1.0], ids=str)
def test_scales_that_are_refused(scale):
    with pytest.raises((TypeError, ValueError), match="scale"):
        LaplaceMechanism.from_scale(scale)


@pytest.mark.parametrize("value", [value for value in NOT_NUMBERS if value is not None], ids=str)
def test_a_known_scale_refuses_bad_bounds_too(value):
    with pytest.raises((TypeError, ValueError), match="radius"):
        LaplaceMechanism.from_scale(1.0, radius=value)
    with pytest.raises((TypeError, ValueError), match="bounds"):
        LaplaceMechanism.from_scale(1.0, bounds=(0, value))


# ---- sampler ---------------------------------------------------------------------------------------------


def laplace_faults(noise, scale):
    """Return the tests that fail of noise of shape (n, k) against independent Laplace numbers, each at 1e-7.

    |e|/b is exponential, so that twice its sum is chi-square, exactly; the variance has kurtosis 6. With 200,000
    numbers a scale wrong by 1.7%, a shift of .05 scales and a coordinate out of four without noise are seen with
    probability above 1 - 1e-6.
    """
    noise = np.asarray(noise, dtype=float).reshape(len(noise), -1)
    if not np.isfinite(noise).all():
        return ["finite"]
    standard = noise / scale
    flat = standard.ravel()
    sizes = np.abs(flat)
    exponential = stats.chi2(2 * flat.size)
    # The normal number of the same rank, so that the sum of squares of a coordinate has a law.
    normal = stats.norm.ppf(np.clip(stats.laplace.cdf(standard), 1e-300, 1 - 1e-16))
    p_values = {
        "mean": two_sided(np.sqrt(flat.size / 2) * flat.mean()),
        "size": 2 * min(exponential.cdf(2 * sizes.sum()), exponential.sf(2 * sizes.sum())),
        "variance": two_sided((np.mean(flat**2) / 2 - 1) * math.sqrt(flat.size / 5)),
        "distribution": stats.kstest(flat, "laplace", method="asymp").pvalue,
        "coordinates": coordinates_p_value(normal),
        "next record": correlation_p_value(standard[1:].ravel(), standard[:-1].ravel()),
        "next record's size": correlation_p_value(np.abs(standard[1:]).ravel(), np.abs(standard[:-1]).ravel()),
    }
    if standard.shape[1] > 1:
        left, right = standard[:, 1:].ravel(), standard[:, :-1].ravel()
        p_values["next coordinate"] = correlation_p_value(left, right)
        p_values["next coordinate's size"] = correlation_p_value(np.abs(left), np.abs(right))
    return [name for name, p_value in p_values.items() if not p_value > LEVEL]


@pytest.mark.parametrize("scale", [1e-9, 0.05, 0.7, 1.0, 7.5, 1e9])
def test_noise_has_its_law(scale):
    mechanism = LaplaceMechanism.from_scale(scale)
    assert laplace_faults(mechanism.privatize(np.zeros((RECORDS // 4, 4)), random_state=1), scale) == []
    assert mechanism.noise.variance == pytest.approx(2 * scale**2, rel=1e-14)


@pytest.mark.parametrize("mechanism", [LaplaceMechanism(0.5, bounds=(-1, 2)), LaplaceMechanism(0.5, radius=1.5)])
def test_noise_of_a_budget_without_a_seed_has_its_law(mechanism):
    assert mechanism.scale == 6.0
    noise = mechanism.privatize(np.full(RECORDS, 5.0)) - mechanism.bound
    assert laplace_faults(noise, 6.0) == []


@pytest.mark.parametrize("width", [1, 2, 7, 70])
def test_every_coordinate_is_noised(width):
    noise = LaplaceMechanism.from_scale(1.0).privatize(np.zeros((200, width)), random_state=width)
    assert np.all(noise != 0)
    assert len(np.unique(noise)) == noise.size


SOUND = np.random.default_rng(3).laplace(size=(RECORDS // 4, 4))
DEFECTS = {
    "scale x1.05": 1.05 * SOUND,
    "scale /1.05": SOUND / 1.05,
    "sensitivity halved": SOUND / 2,
    "standard deviation taken for the scale": SOUND / np.sqrt(2),
    "shift .05": SOUND + 0.05,
    "last coordinate without noise": SOUND * [1, 1, 1, 0],
    "first coordinate at half the noise": SOUND * [0.5, 1, 1, 1],
    "one number for two coordinates": SOUND[:, [0, 1, 2, 2]],
    "opposite numbers for two coordinates": SOUND[:, [0, 1, 2, 2]] * [1, 1, 1, -1],
    "each record's noise used twice": np.repeat(SOUND[::2], 2, axis=0),
    "same seed for every record": np.tile(SOUND[:1], (len(SOUND), 1)),
    "normal of the same variance": np.random.default_rng(4).normal(scale=2**0.5, size=SOUND.shape),
    "no tails": np.clip(SOUND, -4, 4),
    "one sign": np.abs(SOUND),
    "rounded to a tenth": np.round(SOUND, 1),
    "NaN": np.full_like(SOUND, np.nan),
    "no noise": np.zeros_like(SOUND),
}


def test_the_planted_defects_start_from_a_sound_sample():
    assert laplace_faults(SOUND, 1.0) == []


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_defect_of_the_sampler_is_seen(defect):
    assert laplace_faults(DEFECTS[defect], 1.0)
