import dataclasses
import json
import math
import pickle

import numpy as np
import pytest
import sympy as sp
from sampling_statistics import LEVEL, RECORDS, correlation_p_value, two_sided
from scipy import stats

from symdebias._domains import SCALE
from symdebias.mechanisms.uniform import UniformMechanism
from symdebias.noise import VALUE

HALF = UniformMechanism(0.5)


def test_it_makes_no_claim():
    assert HALF.guarantee is None
    assert UniformMechanism(0.5, bounds=(0, 1)).guarantee is None
    assert (HALF.bound, HALF.width) == (None, None)
    bounded = UniformMechanism(0.5, bounds=(-3, 2))
    assert (bounded.bound, bounded.width, bounded.bounds) == (3.0, 1, (-3.0, 2.0))


@pytest.mark.parametrize("half_width", [0.25, 0.5, 1.0, 4.0])
def test_the_noise_is_that_of_the_law(half_width):
    noise = UniformMechanism(half_width).noise
    assert noise.variance == pytest.approx(half_width**2 / 3, rel=1e-15)
    density = sp.lambdify(VALUE, noise.density, "numpy")
    points = half_width * np.array([-1.01, -0.99, 0.0, 0.3, 0.99, 1.01])
    np.testing.assert_allclose(density(points), np.array([0, 1, 1, 1, 1, 0]) / (2 * half_width), rtol=1e-14)


def test_rounding_is_uniform_noise():
    """Sheppard: what is lost by rounding a smooth number to integers is uniform on [-1/2, 1/2] up to rounding."""
    numbers = np.random.default_rng(0).normal(scale=40.0, size=RECORDS)
    assert uniform_faults(np.rint(numbers) - numbers, 0.5) == []


# ---- clipping and arrays ---------------------------------------------------------------------------------


def test_nothing_is_clipped_without_bounds():
    values = np.array([[1e300, -1e300], [0.0, 5e-324]])
    clipped = HALF.clip(values)
    np.testing.assert_array_equal(clipped.values, values)
    assert not clipped.outside.any()


def test_numbers_are_clipped_to_the_bounds():
    mechanism = UniformMechanism(0.5, bounds=(-0.3, 0.4))
    clipped = mechanism.clip([-1e308, -0.3, 0.0, 0.4, math.nextafter(0.4, 1.0), 1e308])
    assert clipped.values.tolist() == [-0.3, -0.3, 0.0, 0.4, 0.4, 0.4]
    assert clipped.outside.tolist() == [True, False, False, False, True, True]
    assert mechanism.clip([[2.0]]).values.tolist() == [[0.4]]
    with pytest.raises(ValueError, match=r"shape \(3, 2\).*mechanism of its own"):
        mechanism.privatize(np.zeros((3, 2)))


@pytest.mark.parametrize("mechanism", [HALF, UniformMechanism(0.5, bounds=(0, 1))])
def test_kinds_of_arrays(mechanism):
    for array in (
        np.full(6, 1.5), np.full(6, 0.5, dtype=np.float32), np.arange(6), np.full((6, 1), 0.5, order="F"),
        np.full(12, 0.5)[::2], [0.5] * 6,
    ):  # fmt: skip
        given = np.array(array)
        if isinstance(array, np.ndarray):
            array.flags.writeable = False
        sent = mechanism.privatize(array, random_state=0)
        assert sent.dtype == np.float64
        assert sent.shape == given.shape
        np.testing.assert_array_equal(array, given)


@pytest.mark.parametrize("values", [[math.nan, 0.0], [math.inf], np.zeros((1, 1, 1)), 1.0, ["a"], [], [True], [1j]])
def test_values_that_cannot_be_clipped_are_refused(values):
    with pytest.raises((TypeError, ValueError), match="values"):
        HALF.privatize(values, random_state=0)


# ---- values, cards, bad input ----------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", [HALF, UniformMechanism(0.3, bounds=(-1, 2)), UniformMechanism(1)], ids=repr)
def test_repr_and_card_make_an_equal_mechanism(mechanism):
    assert eval(repr(mechanism)) == mechanism
    again = UniformMechanism.from_card(json.loads(json.dumps(mechanism.to_card())))
    assert again == mechanism
    assert hash(again) == hash(mechanism)
    assert pickle.loads(pickle.dumps(mechanism)) == mechanism
    with pytest.raises(dataclasses.FrozenInstanceError):
        mechanism.half_width = 2.0


BAD_CARDS = [
    ({}, "entries"),
    ({"half_width": 1.0}, "entries"),
    ({**HALF.to_card(), "epsilon": 1.0}, "entries"),
    ({**HALF.to_card(), "half_width": math.nan}, "half_width"),
    ({**HALF.to_card(), "half_width": "0.5"}, "half_width"),
    ({**HALF.to_card(), "bounds": [1.0, 0.0]}, "bounds"),
]


@pytest.mark.parametrize(("card", "message"), BAD_CARDS)
def test_cards_that_are_refused(card, message):
    with pytest.raises((TypeError, ValueError), match=message):
        UniformMechanism.from_card(card)


BAD = [
    *[({"half_width": value}, "half_width") for value in (*SCALE.outside(), 0.0, -1.0)],
    *[
        ({"bounds": value}, "bounds")
        for value in (
            (1, 0), (1, 1), (0, math.nan), (math.nan, 0), (0, math.inf), (0, 1, 2), (0,), "01", 3, (0, "1"),
            (False, True), (0, 1e101),
        )
    ],
]  # fmt: skip


@pytest.mark.parametrize(("change", "message"), BAD, ids=str)
def test_arguments_that_are_refused(change, message):
    with pytest.raises((TypeError, ValueError), match=message):
        UniformMechanism(**{"half_width": 1.0, **change})


# ---- sampler ---------------------------------------------------------------------------------------------


def uniform_faults(noise, half_width):
    """Return the tests that fail of noise of shape (n, k) against independent uniform numbers, each at 1e-7.

    With 200,000 numbers a width wrong by 1.2%, a shift of .014 half widths, and one coordinate out of four without
    noise are seen with probability above 1 - 1e-6.
    """
    noise = np.asarray(noise, dtype=float).reshape(len(noise), -1)
    if not np.isfinite(noise).all():
        return ["finite"]
    standard = noise / half_width
    flat = standard.ravel()
    coordinates = [two_sided((np.mean(column**2) - 1 / 3) * math.sqrt(len(column) * 45 / 4)) for column in standard.T]
    p_values = {
        "range": float(np.abs(flat).max() <= 1 + 1e-9),
        "mean": two_sided(flat.mean() * math.sqrt(3 * flat.size)),
        # The square of a uniform number on [-1, 1] has the variance 1/5 - 1/9.
        "variance": two_sided((np.mean(flat**2) - 1 / 3) * math.sqrt(flat.size * 45 / 4)),
        "distribution": stats.kstest(flat, stats.uniform(-1, 2).cdf, method="asymp").pvalue,
        "bins": stats.chisquare(np.histogram(flat, bins=64, range=(-1, 1))[0]).pvalue,
        "coordinates": min(1.0, len(coordinates) * min(coordinates)),
        "next record": correlation_p_value(standard[1:].ravel(), standard[:-1].ravel()),
        "next record's size": correlation_p_value(np.abs(standard[1:]).ravel(), np.abs(standard[:-1]).ravel()),
    }
    if standard.shape[1] > 1:
        left, right = standard[:, 1:].ravel(), standard[:, :-1].ravel()
        p_values["next coordinate"] = correlation_p_value(left, right)
        p_values["next coordinate's size"] = correlation_p_value(np.abs(left), np.abs(right))
    return [name for name, p_value in p_values.items() if not p_value > LEVEL]


@pytest.mark.parametrize("half_width", [1e-9, 0.3, 0.5, 1.0, 1e9])
def test_noise_has_its_law(half_width):
    noise = UniformMechanism(half_width).privatize(np.zeros((RECORDS // 4, 4)), random_state=1)
    assert uniform_faults(noise, half_width) == []
    assert np.abs(noise).max() <= half_width


def test_noise_without_a_seed_has_its_law():
    assert uniform_faults(UniformMechanism(0.25, bounds=(0, 1)).privatize(np.full(RECORDS, 9.0)) - 1, 0.25) == []


SOUND = np.random.default_rng(3).uniform(-1, 1, (RECORDS // 4, 4))
DEFECTS = {
    "width x1.05": 1.05 * SOUND,
    "width /1.05": SOUND / 1.05,
    "width taken for half of it": SOUND / 2,
    "shift .05": SOUND + 0.05,
    "from 0 on": (SOUND + 1) / 2,
    "last coordinate without noise": SOUND * [1, 1, 1, 0],
    "first coordinate at half the noise": SOUND * [0.5, 1, 1, 1],
    "one number for two coordinates": SOUND[:, [0, 1, 2, 2]],
    "opposite numbers for two coordinates": SOUND[:, [0, 1, 2, 2]] * [1, 1, 1, -1],
    "each record's noise used twice": np.repeat(SOUND[::2], 2, axis=0),
    "normal of the same variance": np.random.default_rng(4).normal(scale=3**-0.5, size=SOUND.shape),
    "triangular": np.random.default_rng(5).triangular(-1, 0, 1, SOUND.shape),
    "one sign": np.abs(SOUND),
    "rounded to a tenth": np.round(SOUND, 1),
    "NaN": np.full_like(SOUND, np.nan),
    "no noise": np.zeros_like(SOUND),
}


def test_the_planted_defects_start_from_a_sound_sample():
    assert uniform_faults(SOUND, 1.0) == []


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_defect_of_the_sampler_is_seen(defect):
    assert uniform_faults(DEFECTS[defect], 1.0)
