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

import symdebias as sd
from symdebias._domains import EPSILON
from symdebias.mechanisms.discrete_laplace import discrete_laplace_noise
from symdebias.mechanisms.discrete_staircase import discrete_staircase_noise
from symdebias.noise import FREQUENCY, VALUE
from symdebias.privacy import Guarantee

TEN = sd.DiscreteStaircaseMechanism(2.0, bounds=(0, 10))
SHAPES = [(1, 1), (2, 1), (2, 2), (5, 2), (10, 7), (30, 30)]
EPSILONS = [0.05, 0.5, 2.0, 8.0]


# ---- the law, written down a second time -----------------------------------------------------------------


def stair_of(k, sensitivity, high):
    """How many factors of e^-epsilon the probability of k is below the largest."""
    whole, rest = divmod(abs(k), sensitivity)
    return whole + (rest >= high)


def probabilities(epsilon, sensitivity, high):
    """Integers and their probabilities, normalised by their sum, up to where they are below 1e-30."""
    reach = sensitivity * math.ceil(70 / epsilon + 2)
    k = np.arange(-reach, reach + 1)
    whole, rest = np.divmod(np.abs(k), sensitivity)
    weights = np.exp(-epsilon * (whole + (rest >= high)))
    return k, weights / weights.sum()


@pytest.mark.parametrize("step", [1.0, 0.1])
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize(("sensitivity", "high"), SHAPES)
def test_the_noise_is_that_of_the_law(sensitivity, high, epsilon, step):
    noise = discrete_staircase_noise(epsilon, sensitivity, high, step)
    k, p = probabilities(epsilon, sensitivity, high)
    density = sp.lambdify(VALUE, noise.density, "numpy")
    np.testing.assert_allclose(density(step * k), p, rtol=1e-9, atol=1e-300)
    assert noise.variance == pytest.approx(step**2 * float(p @ k**2.0), rel=1e-10)
    assert noise.step == step
    phi = sp.lambdify(FREQUENCY, noise.characteristic_function, "numpy")
    for w in (0.3, 1.7, 4.1):
        assert phi(w / step) == pytest.approx(float(p @ np.cos(w * k)), rel=1e-9, abs=1e-12)


def test_one_step_of_sensitivity_is_discrete_laplace_noise():
    assert sd.DiscreteStaircaseMechanism(0.7, bounds=(0, 1)).noise == discrete_laplace_noise(1 / 0.7, 1.0)
    assert discrete_staircase_noise(2.0, 1, 1, 0.5).inverse_differences is not None
    k, p = probabilities(0.7, 1, 1)
    q = math.exp(-0.7)
    np.testing.assert_allclose(p, (1 - q) / (1 + q) * q ** np.abs(k), rtol=1e-12)


@pytest.mark.parametrize("loss", ["squared", "absolute"])
@pytest.mark.parametrize("epsilon", [1e-3, *EPSILONS, 30.0])
@pytest.mark.parametrize("sensitivity", [1, 2, 3, 12, 40])
def test_r_is_the_best_of_all(sensitivity, epsilon, loss):
    best = sd.DiscreteStaircaseMechanism(epsilon, bounds=(0, sensitivity), r=loss).r
    if epsilon >= 0.05:
        power = {"squared": 2, "absolute": 1}[loss]
        sizes = {}
        for high in range(1, sensitivity + 1):
            k, p = probabilities(epsilon, sensitivity, high)
            sizes[high] = float(p @ np.abs(k) ** power)
        assert sizes[best] <= min(sizes.values()) * (1 + 1e-12)
    assert 1 <= best <= sensitivity
    assert sd.DiscreteStaircaseMechanism(epsilon, bounds=(0, sensitivity)).r in range(1, sensitivity + 1)


def test_less_noise_than_discrete_laplace():
    for epsilon in (1.0, 4.0, 8.0):
        plain = sd.DiscreteLaplaceMechanism(epsilon, bounds=(0, 10)).noise.variance
        assert sd.DiscreteStaircaseMechanism(epsilon, bounds=(0, 10)).noise.variance < plain


@pytest.mark.parametrize("loss", ["squared", "absolute"])
def test_many_steps_come_close_to_the_continuous_staircase(loss):
    """gamma = r/D up to a step, and the same variance up to the step."""
    discrete = sd.DiscreteStaircaseMechanism(2.0, bounds=(0.0, 1.0), step=2.0**-18, r=loss)
    continuous = sd.StaircaseMechanism(2.0, bounds=(0.0, 1.0), gamma=loss)
    assert discrete.r / 2**18 == pytest.approx(continuous.gamma, abs=1e-4)
    assert discrete.noise.variance == pytest.approx(continuous.noise.variance, rel=1e-4)


# ---- guarantee -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("sensitivity", "high"), SHAPES)
def test_log_probabilities_of_neighbours_differ_by_one_epsilon_at_most(sensitivity, high):
    """Log probabilities are whole multiples of epsilon, so that integers prove the guarantee."""
    gaps = {
        abs(stair_of(output - first, sensitivity, high) - stair_of(output - second, sensitivity, high))
        for output in range(-3 * sensitivity, 4 * sensitivity + 1)
        for first in range(sensitivity + 1)
        for second in (0, sensitivity)
    }
    assert max(gaps) == 1
    assert sd.DiscreteStaircaseMechanism(0.7, bounds=(0, sensitivity), r=high).guarantee == Guarantee(0.7, 0.0)


def test_the_check_of_guarantees_finds_the_budget():
    check = sd.checks.check_guarantee(TEN, samples=20_000, random_state=0)
    assert check.holds
    assert check.exact_epsilon == pytest.approx(2.0, rel=1e-12)
    assert 1.5 < check.sampled_epsilon <= 2.0


@pytest.mark.parametrize(
    ("bounds", "step", "sensitivity"),
    [((-3, 4), 1.0, 7), ((-0.3, 0.4), 0.1, 7), ((5, 7.5), 0.5, 5), ((0, 0.3), 0.1, 3)],
)
def test_the_sensitivity_is_the_distance_of_the_bounds_in_steps(bounds, step, sensitivity):
    mechanism = sd.DiscreteStaircaseMechanism(1.0, bounds=bounds, step=step)
    assert mechanism.sensitivity == sensitivity
    values = step * np.rint(np.linspace(bounds[0] - 1, bounds[1] + 1, 30) / step)
    clipped = mechanism.clip(values)
    assert (clipped.values.min(), clipped.values.max()) == pytest.approx(bounds)
    assert clipped.outside.any()
    assert mechanism.bound == max(map(abs, bounds))
    assert mechanism.width == 1


# ---- what is on a target and on features -----------------------------------------------------------------


def test_polynomials_are_corrected_and_others_refused():
    release = sd.Release({"a": TEN}, noiseless=("b",))
    corrected = sd.debias(sd.losses.squared_margin(), release, method="exact")
    assert corrected.certify(theta_radius=0.5).loss_bias < 1e-10
    with pytest.raises(sd.exceptions.NoExactCorrectionError):
        sd.debias(sd.losses.logistic(), release, method="exact")
    target = sd.Release(target=TEN, noiseless=("a", "b"))
    assert sd.debias(sd.losses.least_squares(), target).is_exact
    assert sd.Release.from_json(target.to_json()) == target


# ---- arrays, cards, bad input ----------------------------------------------------------------------------


def test_values_stay_on_the_grid():
    mechanism = sd.DiscreteStaircaseMechanism(1.0, bounds=(0.0, 2.0), step=0.1)
    sent = mechanism.privatize(np.array([[0.0], [0.3], [2.0], [9.0]]), random_state=0)
    assert sent.shape == (4, 1)
    np.testing.assert_array_equal(sent, 0.1 * np.rint(sent / 0.1))
    with pytest.raises(ValueError, match="no multiple of step"):
        mechanism.privatize([0.05])
    with pytest.raises(ValueError, match=r"shape \(3, 2\).*mechanism of its own"):
        mechanism.privatize(np.zeros((3, 2)))


@pytest.mark.parametrize(
    "mechanism",
    [TEN, sd.DiscreteStaircaseMechanism(0.3, bounds=(-1, 2), step=0.5, r="absolute"),
     sd.DiscreteStaircaseMechanism(2.0, bounds=(0, 5), r=5)],
    ids=repr,
)  # fmt: skip
def test_repr_and_card_make_an_equal_mechanism(mechanism):
    assert eval(repr(mechanism), {"DiscreteStaircaseMechanism": sd.DiscreteStaircaseMechanism}) == mechanism
    again = sd.DiscreteStaircaseMechanism.from_card(json.loads(json.dumps(mechanism.to_card())))
    assert again == mechanism
    assert hash(again) == hash(mechanism)
    assert pickle.loads(pickle.dumps(mechanism)) == mechanism
    assert isinstance(mechanism.r, int)
    with pytest.raises(dataclasses.FrozenInstanceError):
        mechanism.r = 1


CARD = TEN.to_card()
BAD_CARDS = [
    ({}, "entries"),
    ({key: value for key, value in CARD.items() if key != "r"}, "entries"),
    ({**CARD, "seed": 1}, "entries"),
    ({**CARD, "epsilon": None}, "epsilon"),
    ({**CARD, "bounds": None}, "bounds"),
    ({**CARD, "bounds": [0.0, 0.0]}, "bounds"),
    ({**CARD, "step": 0.0}, "step"),
    ({**CARD, "r": 11}, "r=11"),
    ({**CARD, "r": 2.0}, "r must be"),
]


@pytest.mark.parametrize(("card", "message"), BAD_CARDS)
def test_cards_that_are_refused(card, message):
    with pytest.raises((TypeError, ValueError), match=message):
        sd.DiscreteStaircaseMechanism.from_card(card)


BAD = [
    *[({"epsilon": value}, "epsilon") for value in EPSILON.outside()],
    *[({"r": value}, "r") for value in (0, -1, 6, 2.5, math.nan, math.inf, "cubic", True, None, [1])],
    *[({"step": value}, "step") for value in (0, -1, math.nan, math.inf, "1", None, True)],
    *[
        ({"bounds": value}, "bounds")
        for value in ((1, 0), (1, 1), (0, math.nan), (0, math.inf), (0, 1, 2), "01", 3, None, (0, 0.5), (0, 2**60))
    ],
    ({"bounds": (0, 2**20 + 1)}, r"2\^20 steps at most"),
]


@pytest.mark.parametrize(("change", "message"), BAD, ids=str)
def test_arguments_that_are_refused(change, message):
    with pytest.raises((TypeError, ValueError), match=message):
        sd.DiscreteStaircaseMechanism(**{"epsilon": 1.0, "bounds": (0, 5), **change})


# ---- sampler ---------------------------------------------------------------------------------------------


def staircase_faults(noise, epsilon, sensitivity, high):
    """Return the tests that fail of whole numbers of shape (n,) against independent ones of the law, each at 1e-7.

    With 200,000 numbers a scale wrong by 3% and a probability wrong by .012 are seen almost surely.
    """
    k, p = probabilities(epsilon, sensitivity, high)
    second, fourth = float(p @ k**2.0), float(p @ k**4.0)
    if not (noise == np.rint(noise)).all():
        return ["whole"]
    few = p * len(noise) < 20
    counts = np.bincount(np.clip(noise - k[0], 0, len(k) - 1).astype(int), minlength=len(k))
    rest = few.any()
    observed = np.r_[counts[~few], counts[few].sum()] if rest else counts
    expected = np.r_[p[~few], p[few].sum()] * len(noise) if rest else p * len(noise)
    if rest and expected[-1] < 5:
        observed, expected = observed[:-1], expected[:-1] * observed[:-1].sum() / expected[:-1].sum()
    p_values = {
        "mean": two_sided(noise.mean() * math.sqrt(len(noise) / second)),
        "variance": two_sided((np.mean(noise**2) - second) * math.sqrt(len(noise) / (fourth - second**2))),
        "counts": stats.chisquare(observed, expected).pvalue,
        "zero": stats.binomtest(int(np.count_nonzero(noise == 0)), len(noise), float(p[k == 0][0])).pvalue,
        "next record": correlation_p_value(noise[1:], noise[:-1]),
        "next record's size": correlation_p_value(np.abs(noise[1:]), np.abs(noise[:-1])),
    }
    return [name for name, p_value in p_values.items() if not p_value > LEVEL]


@pytest.mark.parametrize(
    ("epsilon", "sensitivity", "high"), [(0.5, 1, 1), (0.5, 4, 2), (2.0, 10, 4), (2.0, 5, 5), (5.0, 3, 1)]
)
def test_noise_has_its_law(epsilon, sensitivity, high):
    mechanism = sd.DiscreteStaircaseMechanism(epsilon, bounds=(0, sensitivity), r=high)
    noise = mechanism.privatize(np.zeros(RECORDS), random_state=1)
    assert staircase_faults(noise, epsilon, sensitivity, high) == []


def test_noise_without_a_seed_and_on_another_grid_has_its_law():
    mechanism = sd.DiscreteStaircaseMechanism(1.0, bounds=(-1, 2), step=0.25)
    sent = mechanism.privatize(np.full((RECORDS, 1), 2.0)).ravel()
    assert staircase_faults((sent - 2.0) / 0.25, 1.0, 12, mechanism.r) == []


def test_extreme_budgets_draw():
    low = sd.DiscreteStaircaseMechanism(1e-6, bounds=(0, 2**20)).privatize(np.zeros(1000), random_state=0)
    assert (low == np.rint(low)).all()
    assert 1e11 < np.abs(low).max() < 2**52
    high = sd.DiscreteStaircaseMechanism(700.0, bounds=(0, 5)).privatize(np.full(1000, 3.0), random_state=0)
    assert (high == 3).all()


def drawn(epsilon=2.0, sensitivity=10, high=4, seed=3):
    """Draw it another way: by the table of probabilities."""
    k, p = probabilities(epsilon, sensitivity, high)
    return np.random.default_rng(seed).choice(k, RECORDS, p=p).astype(float)


SOUND = drawn()
DEFECTS = {
    "epsilon x1.05": drawn(epsilon=2.1),
    "sensitivity one less": drawn(sensitivity=9),
    "r one more": drawn(high=5),
    "r one less": drawn(high=3),
    "zero twice as likely": np.where(np.random.default_rng(4).random(RECORDS) < float(np.mean(SOUND == 0)), 0, SOUND),
    "shifted": SOUND + 1,
    "one sign": np.abs(SOUND),
    "between the places": SOUND + 0.5,
    "each number used twice": np.repeat(SOUND[::2], 2),
    "no noise": np.zeros(RECORDS),
}


def test_the_planted_defects_start_from_a_sound_sample():
    assert staircase_faults(SOUND, 2.0, 10, 4) == []


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_defect_of_the_sampler_is_seen(defect):
    assert staircase_faults(DEFECTS[defect], 2.0, 10, 4)


def test_places_are_exact_where_steps_are_not():
    """0.1 has no exact float64; the sum is one of places."""
    mechanism = sd.DiscreteStaircaseMechanism(1.0, bounds=(0.0, 1.0), step=0.1)
    sent = mechanism.privatize(np.full(1000, 0.3), random_state=0)
    noise = np.rint(sent / 0.1) - 3
    assert set(np.abs(noise[:10]).astype(int)) <= set(range(200))
    assert all(Fraction(value) == Fraction(0.1 * k) for value, k in zip(sent, np.rint(sent / 0.1), strict=True))
