import dataclasses
import json
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
import sympy as sp
from sampling_statistics import LEVEL, RECORDS, correlation_p_value, two_sided
from scipy import stats

from symdebias._domains import EPSILON
from symdebias.mechanisms.staircase import StaircaseMechanism
from symdebias.noise import VALUE
from symdebias.privacy import Guarantee

UNIT = StaircaseMechanism(1.0, bounds=(0.0, 1.0))
EPSILONS = [0.05, 0.5, 2.0, 8.0]
BOUNDS = [(-0.3, 0.4), (0.0, 1.0), (5.0, 7.5), (0.1, 0.3)]


# ---- the law, written down a second time -----------------------------------------------------------------


def height_of(epsilon, sensitivity, gamma):
    b = math.exp(-epsilon)
    return (1 - b) / (2 * sensitivity * (gamma + b * (1 - gamma)))


def cdf_of(epsilon, sensitivity, gamma):
    b, height = math.exp(-epsilon), height_of(epsilon, sensitivity, gamma)

    def cdf(x):
        size = np.abs(np.asarray(x)) / sensitivity
        k = np.floor(size)
        rest = size - k
        here = height * sensitivity * b**k * (np.minimum(rest, gamma) + b * np.maximum(rest - gamma, 0.0))
        return 0.5 + np.sign(x) * (0.5 * (1 - b**k) + here)

    return cdf


def moment_of(epsilon, sensitivity, gamma, power):
    """E |e|^power, stair by stair until they are below 1e-30 of the first."""
    b, k = math.exp(-epsilon), np.arange(math.ceil(70 / epsilon) + 2.0)
    primitive = [edge ** (power + 1) / (power + 1) for edge in (k, k + gamma, k + 1)]
    stairs = b**k * (primitive[1] - primitive[0] + b * (primitive[2] - primitive[1]))
    return 2 * height_of(epsilon, sensitivity, gamma) * sensitivity ** (power + 1) * stairs.sum()


def stairs_down(output, value, sensitivity, gamma):
    """How many factors of e^-epsilon the density at an output is below its largest, exactly."""
    size = abs(output - value) / sensitivity
    whole = size.numerator // size.denominator
    return whole + (size - whole >= gamma)


@pytest.mark.parametrize("gamma", [None, 0.2, 0.5, 0.9])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_noise_is_that_of_the_law(epsilon, gamma):
    mechanism = StaircaseMechanism(epsilon, bounds=(1.0, 3.0), gamma=gamma)
    noise = mechanism.noise
    assert noise.variance == pytest.approx(moment_of(epsilon, 2.0, mechanism.gamma, 2), rel=1e-10)
    assert moment_of(epsilon, 2.0, mechanism.gamma, 0) == pytest.approx(1, rel=1e-12)
    density = sp.lambdify(VALUE, noise.density, "numpy")
    points = np.random.default_rng(0).uniform(-9, 9, 500)
    levels = [stairs_down(Fraction(point), 0, 2, Fraction(mechanism.gamma)) for point in points.tolist()]
    wanted = height_of(epsilon, 2.0, mechanism.gamma) * np.exp(-epsilon * np.array(levels, dtype=float))
    np.testing.assert_allclose(density(points), wanted, rtol=1e-12)


# ---- sensitivity and guarantee ---------------------------------------------------------------------------


@pytest.mark.parametrize("gamma", [None, 0.2, 0.5, 0.9])
@pytest.mark.parametrize("bounds", BOUNDS)
def test_densities_of_neighbours_keep_the_budget_and_reach_it(bounds, gamma):
    """Log densities are whole multiples of epsilon: in exact arithmetic they differ by one at most."""
    mechanism = StaircaseMechanism(1.0, bounds=bounds, gamma=gamma)
    sensitivity, gamma = Fraction(mechanism.sensitivity), Fraction(mechanism.gamma)
    rng = np.random.default_rng(0)
    inputs = [Fraction(value) for value in (*bounds, *rng.uniform(*bounds, 4).tolist())]
    reach = 4 * float(sensitivity)
    edges = [value + sign * (k + part) * sensitivity
             for value in inputs[:2] for sign in (-1, 1) for k in range(3) for part in (0, gamma)]  # fmt: skip
    outputs = [Fraction(value) for value in rng.uniform(bounds[0] - reach, bounds[1] + reach, 500).tolist()] + edges
    gaps = set()
    for output in outputs:
        levels = [stairs_down(output, value, sensitivity, gamma) for value in inputs]
        gaps.add(max(levels) - min(levels))
    assert gaps == {0, 1} or gaps == {1}
    assert mechanism.guarantee == Guarantee(1.0, 0.0)


@pytest.mark.parametrize("bounds", [*BOUNDS, (-1e100, 1e-100), (0.0, 1e-300), (-0.1, 1e16)])
def test_the_sensitivity_is_rounded_to_the_safe_side(bounds):
    mechanism = StaircaseMechanism(1.0, bounds=bounds)
    exact = Fraction(bounds[1]) - Fraction(bounds[0])
    assert exact <= Fraction(mechanism.sensitivity) <= exact * (1 + Fraction(1, 2**51))
    numbers = np.r_[bounds, np.random.default_rng(0).normal(size=40) * 10.0 ** np.linspace(-300, 300, 40)]
    clipped = mechanism.clip(numbers)
    values = [Fraction(value) for value in clipped.values.tolist()]
    assert max(values) - min(values) == exact
    np.testing.assert_array_equal(clipped.outside, (numbers < bounds[0]) | (numbers > bounds[1]))
    assert mechanism.bound == max(map(abs, bounds))


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_default_gamma_makes_the_expected_size_least(epsilon):
    """Geng & Viswanath 2014: at 1/(1 + e^(epsilon/2)) it is Delta e^(epsilon/2)/(e^epsilon - 1), below Laplace's."""
    mechanism = StaircaseMechanism(epsilon, bounds=(0.0, 2.0))
    assert mechanism.gamma == pytest.approx(1 / (1 + math.exp(epsilon / 2)), rel=1e-15)
    best = moment_of(epsilon, 2.0, mechanism.gamma, 1)
    assert best == pytest.approx(2 * math.exp(epsilon / 2) / math.expm1(epsilon), rel=1e-10)
    assert best < 2 / epsilon
    for gamma in np.linspace(0.01, 0.99, 99):
        assert moment_of(epsilon, 2.0, gamma, 1) >= best * (1 - 1e-12)


@pytest.mark.parametrize("epsilon", [1e-6, 1e-3, *EPSILONS, 40.0, 300.0])
def test_the_gamma_of_squared_noise_makes_the_variance_least(epsilon):
    mechanism = StaircaseMechanism(epsilon, bounds=(0.0, 2.0), gamma="squared")
    best = mechanism.noise.variance
    if 0.01 < epsilon < 100:
        assert moment_of(epsilon, 2.0, mechanism.gamma, 2) == pytest.approx(best, rel=1e-10)
    for factor in (0.5, 0.9, 0.99, 1.01, 1.1, 1.5):
        other = StaircaseMechanism(epsilon, bounds=(0.0, 2.0), gamma=factor * mechanism.gamma)
        assert other.noise.variance >= best * (1 - 1e-14)
    assert best <= StaircaseMechanism(epsilon, bounds=(0.0, 2.0)).noise.variance * (1 + 1e-14)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0, 20.0])
def test_the_gamma_of_squared_noise_is_the_published_one(epsilon):
    """-b/(1 - b) + (b - 2 b^2 + 2 b^4 - b^5)^(1/3)/(2^(1/3) (1 - b)^2), where float64 still has its differences."""
    b = math.exp(-epsilon)
    published = -b / (1 - b) + (b - 2 * b**2 + 2 * b**4 - b**5) ** (1 / 3) / (2 ** (1 / 3) * (1 - b) ** 2)
    assert StaircaseMechanism(epsilon, bounds=(0, 1), gamma="squared").gamma == pytest.approx(published, rel=1e-10)


def test_a_word_for_gamma_stands_for_a_number():
    assert StaircaseMechanism(1.0, bounds=(0, 1), gamma="absolute") == UNIT
    squared = StaircaseMechanism(1.0, bounds=(0, 1), gamma="squared")
    assert isinstance(squared.gamma, float)
    assert StaircaseMechanism.from_card(json.loads(json.dumps(squared.to_card()))) == squared
    assert 0 < StaircaseMechanism(700.0, bounds=(0, 1), gamma="squared").gamma < 1e-100


def test_the_largest_budget_has_a_gamma_and_draws():
    mechanism = StaircaseMechanism(700.0, bounds=(0, 1))
    assert 0 < mechanism.gamma < 1e-150
    assert np.isfinite(mechanism.privatize(np.zeros(100), random_state=0)).all()


# ---- arrays ----------------------------------------------------------------------------------------------


def test_one_number_per_record():
    assert UNIT.width == 1
    with pytest.raises(ValueError, match=r"shape \(3, 2\).*mechanism of its own"):
        UNIT.privatize(np.zeros((3, 2)))
    clipped = UNIT.clip([[-1.0], [0.5], [2.0]])
    assert clipped.values.tolist() == [[0.0], [0.5], [1.0]]
    assert clipped.outside.tolist() == [True, False, True]


def test_kinds_of_arrays():
    for array in (
        np.full(6, 1.5), np.full(6, 0.5, dtype=np.float32), np.arange(6), np.full((6, 1), 0.5, order="F"),
        np.full(12, 0.5)[::2], [0.5] * 6,
    ):  # fmt: skip
        given = np.array(array)
        if isinstance(array, np.ndarray):
            array.flags.writeable = False
        sent = UNIT.privatize(array, random_state=0)
        assert sent.dtype == np.float64
        assert sent.shape == given.shape
        np.testing.assert_array_equal(array, given)


@pytest.mark.parametrize("values", [[math.nan, 0.0], [math.inf], np.zeros((1, 1, 1)), 1.0, ["a"], [], [True], [1j]])
def test_values_that_cannot_be_clipped_are_refused(values):
    with pytest.raises((TypeError, ValueError), match="values"):
        UNIT.privatize(values, random_state=0)


# ---- values, cards, bad input ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "mechanism",
    [UNIT, StaircaseMechanism(0.3, bounds=(-1, 2)), StaircaseMechanism(2.0, bounds=(0, 1), gamma=0.5)],
    ids=repr,
)
def test_repr_and_card_make_an_equal_mechanism(mechanism):
    assert eval(repr(mechanism)) == mechanism
    again = StaircaseMechanism.from_card(json.loads(json.dumps(mechanism.to_card())))
    assert again == mechanism
    assert hash(again) == hash(mechanism)
    assert pickle.loads(pickle.dumps(mechanism)) == mechanism
    with pytest.raises(dataclasses.FrozenInstanceError):
        mechanism.gamma = 0.5


def test_the_default_gamma_is_a_value_like_another():
    assert StaircaseMechanism(1, bounds=[0, 1], gamma=UNIT.gamma) == UNIT
    assert StaircaseMechanism(1.0, bounds=(0, 1), gamma=0.5) != UNIT


CARD = UNIT.to_card()
BAD_CARDS = [
    ({}, "entries"),
    ({"epsilon": 1.0, "bounds": [0.0, 1.0]}, "entries"),
    ({**CARD, "seed": 1}, "entries"),
    ({**CARD, "epsilon": None}, "epsilon"),
    ({**CARD, "epsilon": "1"}, "epsilon"),
    ({**CARD, "bounds": None}, "bounds"),
    ({**CARD, "bounds": [1.0, 0.0]}, "bounds"),
    ({**CARD, "gamma": math.nan}, "gamma"),
    ({**CARD, "gamma": 1.0}, "gamma"),
]


@pytest.mark.parametrize(("card", "message"), BAD_CARDS)
def test_cards_that_are_refused(card, message):
    with pytest.raises((TypeError, ValueError), match=message):
        StaircaseMechanism.from_card(card)


BAD = [
    *[({"epsilon": value}, "epsilon") for value in EPSILON.outside()],
    *[({"gamma": value}, "gamma") for value in (0, 1, -0.1, 1.1, math.nan, math.inf, "1", "cubic", True, [0.5], 1j)],
    *[
        ({"bounds": value}, "bounds")
        for value in (
            (1, 0), (1, 1), (0, math.nan), (math.nan, 0), (0, math.inf), (0, 1, 2), (0,), "01", 3, None, (0, "1"),
            (False, True), (0, 1e101),
        )
    ],
]  # fmt: skip


@pytest.mark.parametrize(("change", "message"), BAD, ids=str)
def test_arguments_that_are_refused(change, message):
    with pytest.raises((TypeError, ValueError), match=message):
        StaircaseMechanism(**{"epsilon": 1.0, "bounds": (0, 1), **change})


# ---- sampler ---------------------------------------------------------------------------------------------


def staircase_faults(noise, epsilon, sensitivity, gamma):
    """Return the tests that fail of numbers of shape (n,) against independent staircase ones, each at 1e-7.

    Besides the whole law, its three parts by themselves: the sign, the height within a stair, and the stair. With
    200,000 numbers a scale wrong by 3%, a shift of .03 standard deviations and a share of the higher steps wrong by
    .012 are seen almost surely.
    """
    noise = np.asarray(noise, dtype=float)
    if not np.isfinite(noise).all():
        return ["finite"]
    second, fourth = (moment_of(epsilon, sensitivity, gamma, power) for power in (2, 4))
    b = math.exp(-epsilon)
    sizes = np.abs(noise) / sensitivity
    stairs = np.floor(sizes)
    high = sizes - stairs < gamma
    inside = np.where(high, (sizes - stairs) / gamma, (sizes - stairs - gamma) / (1 - gamma))
    last = max(1, math.floor(math.log(20 / len(noise)) / -epsilon))
    counts = np.bincount(np.minimum(stairs, last).astype(int), minlength=last + 1)
    expected = np.r_[(1 - b) * b ** np.arange(last), b**last] * len(noise)
    p_values = {
        "mean": two_sided(noise.mean() * math.sqrt(len(noise) / second)),
        "variance": two_sided((np.mean(noise**2) - second) * math.sqrt(len(noise) / (fourth - second**2))),
        "distribution": stats.kstest(noise, cdf_of(epsilon, sensitivity, gamma), method="asymp").pvalue,
        "sign": stats.binomtest(int(np.count_nonzero(noise > 0)), len(noise), 0.5).pvalue,
        "high": stats.binomtest(int(high.sum()), len(noise), gamma / (gamma + (1 - gamma) * b)).pvalue,
        "stairs": stats.chisquare(counts, expected).pvalue if expected[-1] > 5 else 1.0,
        "inside high": stats.kstest(inside[high], "uniform", method="asymp").pvalue,
        "inside low": stats.kstest(inside[~high], "uniform", method="asymp").pvalue if not high.all() else 1.0,
        "next record": correlation_p_value(noise[1:], noise[:-1]),
        "next record's size": correlation_p_value(sizes[1:], sizes[:-1]),
    }
    return [name for name, p_value in p_values.items() if not p_value > LEVEL]


@pytest.mark.parametrize("gamma", [None, 0.2, 0.5, 0.9])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_noise_has_its_law(epsilon, gamma):
    mechanism = StaircaseMechanism(epsilon, bounds=(-1.0, 1.0), gamma=gamma)
    noise = mechanism.privatize(np.zeros(RECORDS), random_state=1)
    assert staircase_faults(noise, epsilon, 2.0, mechanism.gamma) == []


@pytest.mark.parametrize("bounds", [(0.0, 1e-9), (0.0, 1e9), (0.0, 0.3)])
def test_noise_of_other_units_without_a_seed_has_its_law(bounds):
    mechanism = StaircaseMechanism(1.0, bounds=bounds)
    noise = mechanism.privatize(np.full((RECORDS, 1), -1.0)).ravel()
    assert staircase_faults(noise, 1.0, mechanism.sensitivity, mechanism.gamma) == []


def staircase(epsilon=2.0, gamma=UNIT.gamma, low=None, count=RECORDS, seed=3):
    """Draw it another way: a uniform number through the inverse of the distribution of the size, stair by stair."""
    rng = np.random.default_rng(seed)
    b = math.exp(-epsilon)
    low = (1 - gamma) * b / (gamma + (1 - gamma) * b) if low is None else low
    stairs = np.floor(np.log(rng.random(count)) / -epsilon)
    on_low = rng.random(count) < low
    inside = rng.random(count)
    place = np.where(on_low, gamma + (1 - gamma) * inside, gamma * inside)
    return rng.choice([-1.0, 1.0], count) * (stairs + place)


SOUND = staircase()
DEFECTS = {
    "scale x1.05": 1.05 * SOUND,
    "scale /1.05": SOUND / 1.05,
    "sensitivity halved": SOUND / 2,
    "epsilon x1.05": staircase(epsilon=2.1),
    "wrong gamma": staircase(gamma=UNIT.gamma + 0.02),
    "gamma of epsilon instead of its half": staircase(gamma=1 / (1 + math.exp(2.0))),
    "gamma and 1 - gamma exchanged": staircase(gamma=1 - UNIT.gamma),
    "low and high exchanged": staircase(low=UNIT.gamma / (UNIT.gamma + (1 - UNIT.gamma) * math.exp(-2.0))),
    "no low steps": staircase(low=0.0),
    "low steps without their factor": staircase(low=1 - UNIT.gamma),
    "stairs counted from one": SOUND + np.sign(SOUND),
    "shifted": SOUND + 0.05,
    "one sign": np.abs(SOUND),
    "more of one sign": np.where(np.random.default_rng(4).random(RECORDS) < 0.03, np.abs(SOUND), SOUND),
    "Laplace of the same budget": np.random.default_rng(5).laplace(scale=0.5, size=RECORDS),
    "no tails": np.clip(SOUND, -2, 2),
    "stairs without what is inside": np.trunc(SOUND),
    "each number used twice": np.repeat(SOUND[::2], 2),
    "NaN": np.full(RECORDS, np.nan),
    "no noise": np.zeros(RECORDS),
}


def test_the_planted_defects_start_from_a_sound_sample():
    assert staircase_faults(SOUND, 2.0, 1.0, UNIT.gamma) == []


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_defect_of_the_sampler_is_seen(defect):
    assert staircase_faults(DEFECTS[defect], 2.0, 1.0, UNIT.gamma)
