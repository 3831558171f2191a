import json
import math
from fractions import Fraction

import numpy as np
import pytest
import sympy as sp
from hypothesis import given
from hypothesis import strategies as st

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


@pytest.mark.in_turn
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


@pytest.mark.in_turn
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


# ---- values, cards, bad input ----------------------------------------------------------------------------


def test_the_default_gamma_is_a_value_like_another():
    assert StaircaseMechanism(1, bounds=[0, 1], gamma=UNIT.gamma) == UNIT
    assert StaircaseMechanism(1.0, bounds=(0, 1), gamma=0.5) != UNIT


@pytest.mark.exhaustive
@given(st.floats(0.01, 30.0), st.floats(1e-3, 1e3), st.floats(0.01, 0.99))
def test_staircases_of_any_shape(epsilon, width, gamma):
    assert StaircaseMechanism(epsilon, bounds=(0.0, width), gamma=gamma).noise.variance > 0
