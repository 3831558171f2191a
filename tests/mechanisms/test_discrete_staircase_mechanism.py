import math
from fractions import Fraction

import numpy as np
import pytest
import sympy as sp

import symdebias as sd
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


@pytest.mark.in_turn
@pytest.mark.parametrize("step", [1.0, 0.1])
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize(("sensitivity", "high"), SHAPES)
def test_the_noise_is_that_of_the_law(sensitivity, high, epsilon, step):
    noise = sd.DiscreteStaircaseMechanism(epsilon, bounds=(0, sensitivity * step), step=step, r=high).noise
    k, p = probabilities(epsilon, sensitivity, high)
    density = sp.lambdify(VALUE, noise.density, "numpy")
    np.testing.assert_allclose(density(step * k), p, rtol=1e-9, atol=1e-300)
    assert noise.variance == pytest.approx(step**2 * float(p @ k**2.0), rel=1e-10)
    assert noise.step == step
    phi = sp.lambdify(FREQUENCY, noise.characteristic_function, "numpy")
    for w in (0.3, 1.7, 4.1):
        assert phi(w / step) == pytest.approx(float(p @ np.cos(w * k)), rel=1e-9, abs=1e-12)


def test_one_step_of_sensitivity_is_discrete_laplace_noise():
    assert (
        sd.DiscreteStaircaseMechanism(0.7, bounds=(0, 1)).noise == sd.DiscreteLaplaceMechanism.from_scale(1 / 0.7).noise
    )
    assert sd.DiscreteStaircaseMechanism(2.0, bounds=(0, 0.5), step=0.5).noise.inverse_differences is not None
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


# ---- sampler ---------------------------------------------------------------------------------------------


def test_extreme_budgets_draw():
    low = sd.DiscreteStaircaseMechanism(1e-6, bounds=(0, 2**20)).privatize(np.zeros(1000), random_state=0)
    assert (low == np.rint(low)).all()
    assert 1e11 < np.abs(low).max() < 2**52
    high = sd.DiscreteStaircaseMechanism(700.0, bounds=(0, 5)).privatize(np.full(1000, 3.0), random_state=0)
    assert (high == 3).all()


def test_places_are_exact_where_steps_are_not():
    """0.1 has no exact float64; the sum is one of places."""
    mechanism = sd.DiscreteStaircaseMechanism(1.0, bounds=(0.0, 1.0), step=0.1)
    sent = mechanism.privatize(np.full(1000, 0.3), random_state=0)
    noise = np.rint(sent / 0.1) - 3
    assert set(np.abs(noise[:10]).astype(int)) <= set(range(200))
    assert all(Fraction(value) == Fraction(0.1 * k) for value, k in zip(sent, np.rint(sent / 0.1), strict=True))


REFUSED = {
    "a bound off the grid": ({"bounds": (0, 0.5)}, "no multiple"),
    "a bound too far out": ({"bounds": (0, 2**60)}, "bounds"),
    "too many steps": ({"bounds": (0, 2**20 + 1)}, r"2\^20 steps at most"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_arguments_that_are_refused(case):
    change, message = REFUSED[case]
    with pytest.raises((TypeError, ValueError), match=message):
        sd.DiscreteStaircaseMechanism(**{"epsilon": 1.0, "bounds": (0, 5), **change})


def test_cards_with_another_r_are_refused():
    assert isinstance(TEN.r, int)
    with pytest.raises(ValueError, match="r=11"):
        sd.DiscreteStaircaseMechanism.from_card({**TEN.to_card(), "r": 11})
    with pytest.raises(TypeError, match="r must be"):
        sd.DiscreteStaircaseMechanism.from_card({**TEN.to_card(), "r": 2.0})
