"""Laplace, discrete Laplace, staircase and uniform noise: scales, bounds, samplers, cards."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest
import sympy as sp
from hypothesis import given
from hypothesis import strategies as st
from sampling_statistics import LEVEL, RECORDS, both_tails, correlation_p_value, two_sided
from scipy import stats

from symdebias._domains import EPSILON, RADIUS, SCALE
from symdebias.mechanisms import (
    KINDS,
    DiscreteLaplaceMechanism,
    FiniteChannel,
    GaussianMechanism,
    LaplaceMechanism,
    RandomizedResponse,
    StaircaseMechanism,
    UniformMechanism,
)
from symdebias.noise import VALUE
from symdebias.privacy import Guarantee

epsilons = st.floats(1e-6, 700.0)
ends = st.floats(-1e6, 1e6)

# ---- scales and guarantees -------------------------------------------------------------------------------


@given(epsilons, ends, ends)
def test_the_laplace_scale_spends_no_more_than_the_budget(epsilon, one, other):
    low, high = sorted((one, other))
    if not high - low > 1e-90:
        return
    mechanism = LaplaceMechanism(epsilon, bounds=(low, high))
    spent = (Fraction(high) - Fraction(low)) / Fraction(mechanism.scale)
    assert spent <= Fraction(epsilon)
    assert spent >= Fraction(epsilon) * (1 - Fraction(1, 2**50))
    assert mechanism.guarantee == Guarantee(epsilon, 0.0)


@given(epsilons, st.floats(1e-3, 1e3))
def test_a_radius_has_twice_the_sensitivity(epsilon, radius):
    scale = LaplaceMechanism(epsilon, radius=radius).scale
    assert 2 * Fraction(radius) / Fraction(scale) <= Fraction(epsilon)
    assert scale == pytest.approx(2 * radius / epsilon, rel=1e-15)


@pytest.mark.parametrize("width", [1, 2, 7])
@pytest.mark.parametrize("size", [1e-3, 1.0, 40.0, 1e300])
def test_neighbours_differ_by_at_most_the_sensitivity(width, size):
    """The L1 distance after clipping, in exact arithmetic, over random pairs in and far out of the ball."""
    rng = np.random.default_rng(0)
    mechanism = LaplaceMechanism(1.0, radius=0.7)
    rows = mechanism.clip(size * rng.normal(size=(200, width))).values
    for row in rows:
        assert sum(Fraction(abs(entry)) for entry in row.tolist()) <= Fraction(0.7)
    bounded = LaplaceMechanism(1.0, bounds=(-0.3, 0.4)).clip(size * rng.normal(size=200))
    assert bounded.values.min() >= -0.3
    assert bounded.values.max() <= 0.4
    inside = 0.99 * rows / np.maximum(1.0, np.abs(rows).sum(axis=1, keepdims=True) / 0.7)
    again = mechanism.clip(inside)
    np.testing.assert_array_equal(again.values, inside)
    assert not again.outside.any()


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("gamma", [None, 0.2, 0.5])
def test_staircase_densities_keep_the_budget_and_reach_it(epsilon, gamma):
    noise = StaircaseMechanism(epsilon, bounds=(1.0, 3.0), gamma=gamma).noise
    density = sp.lambdify(VALUE, noise.density, "numpy")
    x = np.linspace(-9, 9, 4001)
    for shift in (0.3, 1.1, 2.0):
        assert np.max(np.abs(np.log(density(x)) - np.log(density(x - shift)))) <= epsilon * (1 + 1e-12)
    assert np.max(np.log(density(x)) - np.log(density(x - 2.0))) == pytest.approx(epsilon)


@given(st.floats(1e-6, 1e6))
def test_known_uniform_noise_of_any_width(half_width):
    assert UniformMechanism(half_width).noise.variance == pytest.approx(half_width**2 / 3)


@given(st.floats(0.01, 30.0), st.floats(1e-3, 1e3), st.floats(0.01, 0.99))
def test_staircases_of_any_shape(epsilon, width, gamma):
    assert StaircaseMechanism(epsilon, bounds=(0.0, width), gamma=gamma).noise.variance > 0


def test_the_default_staircase_is_the_best_and_better_than_laplace():
    """Geng & Viswanath 2014: the least expected size, Delta e^(eps/2)/(e^eps - 1)."""
    rng = np.random.default_rng(0)
    mechanism = StaircaseMechanism(2.0, bounds=(0.0, 1.0))
    size = np.abs(mechanism.privatize(np.zeros(RECORDS), random_state=rng)).mean()
    best = math.exp(1.0) / (math.exp(2.0) - 1)
    assert size == pytest.approx(best, rel=0.01)  # 0.01 is five standard errors
    assert best < 1 / 2.0


def test_values_stay_on_the_grid():
    mechanism = DiscreteLaplaceMechanism(1.0, bounds=(-1.0, 2.0), step=0.25)
    values = np.array([-1.0, 0.25, 2.0, 5.0, -7.0])
    sent = mechanism.privatize(np.tile(values, 500), random_state=0)
    np.testing.assert_array_equal(sent / 0.25, np.round(sent / 0.25))
    assert mechanism.clip(values).values.tolist() == [-1.0, 0.25, 2.0, 2.0, -1.0]
    tenths = DiscreteLaplaceMechanism(1.0, bounds=(0.0, 1.0), step=0.1)
    assert tenths.privatize([0.3, 0.7], random_state=0).shape == (2,)
    with pytest.raises(ValueError, match=r"row 1 is no multiple of step=0\.25.*Round the values first"):
        mechanism.privatize([0.25, 0.3])
    with pytest.raises(ValueError, match=r"bounds\[1\]=0\.3 is no multiple"):
        DiscreteLaplaceMechanism(1.0, bounds=(0.0, 0.3), step=0.25)


# ---- samplers --------------------------------------------------------------------------------------------


def faults(noise, cdf, variance):
    """Tests that fail, of numbers of shape (n, k) against a continuous law; each at the level 1e-7.

    With 200,000 numbers a scale wrong by 3% and a shift of .024 standard deviations are seen almost surely.
    """
    flat = np.asarray(noise).ravel()
    fourth = stats.kurtosis(flat, fisher=False)
    p_values = {
        "mean": two_sided(np.sqrt(flat.size) * flat.mean() / math.sqrt(variance)),
        "variance": two_sided((np.mean(flat**2) / variance - 1) / math.sqrt((fourth - 1) / flat.size)),
        "distribution": stats.kstest(flat, cdf, method="asymp").pvalue,
        "next record": correlation_p_value(flat[1:], flat[:-1]),
        "next size": correlation_p_value(np.abs(flat[1:]), np.abs(flat[:-1])),
    }
    return [name for name, p_value in p_values.items() if not p_value > LEVEL]


def staircase_cdf(epsilon, sensitivity, gamma):
    b = math.exp(-epsilon)
    height = (1 - b) / (2 * sensitivity * (gamma + b * (1 - gamma)))
    per_step = sensitivity * height * (gamma + b * (1 - gamma))

    def cdf(x):
        size = np.abs(np.asarray(x)) / sensitivity
        k, rest = np.floor(size), size - np.floor(size)
        inside = height * sensitivity * b**k * (np.minimum(rest, gamma) + b * np.maximum(rest - gamma, 0.0))
        below = per_step * (1 - b**k) / (1 - b) + inside
        return 0.5 + np.sign(x) * below

    return cdf


CONTINUOUS = {
    "Laplace": (LaplaceMechanism.from_scale(0.7), stats.laplace(scale=0.7).cdf, 2 * 0.7**2),
    "small Laplace": (LaplaceMechanism.from_scale(1e-9), stats.laplace(scale=1e-9).cdf, 2e-18),
    "large Laplace": (LaplaceMechanism.from_scale(1e9), stats.laplace(scale=1e9).cdf, 2e18),
    "uniform": (UniformMechanism(0.4), stats.uniform(-0.4, 0.8).cdf, 0.16 / 3),
    **{
        f"staircase at {epsilon:g}": (
            StaircaseMechanism(epsilon, bounds=(-1.0, 1.0)),
            staircase_cdf(epsilon, 2.0, 1 / (1 + math.exp(epsilon / 2))),
            StaircaseMechanism(epsilon, bounds=(-1.0, 1.0)).noise.variance,
        )
        for epsilon in (0.5, 2.0, 8.0)
    },
}


@pytest.mark.parametrize("seed", [0, None])
@pytest.mark.parametrize("name", CONTINUOUS)
def test_noise_has_its_law(name, seed):
    mechanism, cdf, variance = CONTINUOUS[name]
    noise = mechanism.privatize(np.zeros(RECORDS), random_state=seed)
    assert faults(noise, cdf, variance) == []
    assert mechanism.noise.variance == pytest.approx(variance, rel=1e-12)


@pytest.mark.parametrize("scale", [0.05, 0.5, 3.0, 400.0])
def test_noise_on_the_grid_has_its_law(scale):
    """Chi-square over the most probable steps, level 1e-7; a scale wrong by 3% is seen almost surely."""
    noise = DiscreteLaplaceMechanism.from_scale(scale).privatize(np.zeros(RECORDS), random_state=1)
    assert grid_p_value(noise, scale) > LEVEL
    assert two_sided(math.sqrt(RECORDS) * noise.mean() / max(noise.std(), 1e-300)) > LEVEL


def grid_p_value(noise, scale):
    q = math.exp(-1 / scale)
    reach = max(1, round(3 * scale))
    inner = (1 - q) / (1 + q) * q ** np.abs(np.arange(-reach, reach + 1))
    counts = np.array([np.count_nonzero(noise == k) for k in range(-reach, reach + 1)])
    expected = np.append(inner, 1 - inner.sum()) * len(noise)
    found = np.append(counts, len(noise) - counts.sum())
    kept = expected > 20
    # What is too rare for its own cell goes together.
    expected, found = (np.append(part[kept], part[~kept].sum() + 1e-9) for part in (expected, found))
    return stats.chisquare(found, expected * found.sum() / expected.sum()).pvalue if len(expected) > 2 else 1.0


DEFECTS = {
    "scale x1.05": lambda noise: 1.05 * noise,
    "scale /1.05": lambda noise: noise / 1.05,
    "shifted": lambda noise: noise + 0.05 * noise.std(),
    "one sign": np.abs,
    "used twice": lambda noise: np.repeat(noise[::2], 2),
    "normal instead": lambda noise: noise.std() * np.random.default_rng(1).normal(size=noise.shape),
    "no tails": lambda noise: np.clip(noise, -2 * noise.std(), 2 * noise.std()),
}


@pytest.mark.parametrize("defect", DEFECTS)
@pytest.mark.parametrize("name", ["Laplace", "staircase at 2"])
def test_a_defect_of_a_sampler_is_seen(name, defect):
    mechanism, cdf, variance = CONTINUOUS[name]
    noise = mechanism.privatize(np.zeros(RECORDS), random_state=2)
    assert faults(DEFECTS[defect](noise), cdf, variance)


def test_a_wrong_scale_on_the_grid_is_seen():
    noise = DiscreteLaplaceMechanism.from_scale(3.0).privatize(np.zeros(RECORDS), random_state=1)
    assert not grid_p_value(noise, 3.1) > LEVEL


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_k_ary_randomized_response_has_its_matrix(epsilon):
    """Chi-square of each row of the matrix at 1e-7; and the largest ratio of a column stays within the budget."""
    mechanism = RandomizedResponse(epsilon, ("n", "e", "s", "w"))
    matrix = np.array(mechanism.noise.matrix)
    assert np.log(matrix.max() / matrix.min()) <= epsilon + 4e-16
    assert matrix[0, 0] == pytest.approx(math.exp(epsilon) / (math.exp(epsilon) + 3), rel=1e-12)
    for code in range(4):
        sent = mechanism.privatize(np.full(RECORDS // 4, code), random_state=code)
        counts = np.bincount(sent.astype(int), minlength=4)
        assert stats.chisquare(counts, matrix[code] * len(sent)).pvalue > LEVEL
    middle = (np.arange(4.0) - 1.5) * mechanism.gain
    np.testing.assert_allclose(matrix @ middle, np.arange(4.0) - 1.5, atol=1e-12)


def test_a_channel_of_ones_own_has_its_matrix():
    matrix = [[0.7, 0.2, 0.1], [0.0, 0.3, 0.7]]
    mechanism = FiniteChannel(matrix, (0, 1), ("low", "middle", "high"))
    assert mechanism.guarantee is None
    for code in (0, 1):
        sent = mechanism.privatize(np.full(RECORDS // 2, float(code)), random_state=code).astype(int)
        counts = np.bincount(sent, minlength=3)
        kept = np.array(matrix[code]) > 0
        assert counts[~kept].sum() == 0
        assert stats.chisquare(counts[kept], np.array(matrix[code])[kept] * len(sent)).pvalue > LEVEL


def test_correlated_noise_has_its_covariance():
    """Whitened by the inverse root, the noise is tested coordinate by coordinate, at 1e-7."""
    covariance = np.array([[0.3, 0.1, 0.0], [0.1, 0.2, -0.05], [0.0, -0.05, 0.1]])
    mechanism = GaussianMechanism.from_covariance(covariance)
    noise = mechanism.privatize(np.zeros((RECORDS // 3, 3)), random_state=0)
    white = noise @ np.linalg.inv(np.linalg.cholesky(covariance)).T
    assert faults(white, stats.norm.cdf, 1.0) == []
    assert both_tails(stats.chi2(white.size), np.sum(white**2)) > LEVEL
    uneven = GaussianMechanism.from_scale([0.5, 0.0]).privatize(np.zeros((100, 2)), random_state=0)
    assert np.all(uneven[:, 1] == 0)


# ---- cards, values, bad input ----------------------------------------------------------------------------

MECHANISMS = [
    LaplaceMechanism(0.3, bounds=(-1.0, 2.0)), LaplaceMechanism(0.3, radius=2.0), LaplaceMechanism.from_scale(0.1),
    LaplaceMechanism.from_scale(0.1, bounds=(0, 1)), DiscreteLaplaceMechanism(1.0, bounds=(0, 9)),
    DiscreteLaplaceMechanism(1.0, bounds=(0, 1), step=0.25), DiscreteLaplaceMechanism.from_scale(2.0, step=0.5),
    StaircaseMechanism(1.0, bounds=(0, 1)), StaircaseMechanism(1.0, bounds=(0, 1), gamma=0.5),
    UniformMechanism(0.5), UniformMechanism(0.5, bounds=(0, 1)), RandomizedResponse(1.0, ("a", "b", "c")),
    RandomizedResponse(1.0, (3, 1, 2)), FiniteChannel([[0.8, 0.2], [0.4, 0.6]], (-1, 1)),
    FiniteChannel([[0.8, 0.1, 0.1], [0.4, 0.3, 0.3]], ("a", "b"), (1, 2, 3)), GaussianMechanism.from_scale([0.5, 0.0]),
    GaussianMechanism.from_covariance([[1.0, 0.2], [0.2, 1.0]], radius=3.0),
]  # fmt: skip


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_mechanisms_are_values_with_cards(mechanism):
    names = {kind.__name__: kind for kind in KINDS.values()}
    assert eval(repr(mechanism), names) == mechanism
    card = json.loads(json.dumps(mechanism.to_card()))
    assert type(mechanism).from_card(card) == mechanism
    assert hash(type(mechanism).from_card(card)) == hash(mechanism)
    with pytest.raises((TypeError, ValueError)):
        type(mechanism).from_card({**card, "more": 1})
    if "epsilon" in card and "scale" in card:
        with pytest.raises(ValueError, match="noise and guarantee disagree"):
            type(mechanism).from_card({**card, "scale": card["scale"] / 2})


@pytest.mark.parametrize("mechanism", [m for m in MECHANISMS if m.bound is not None and m.width == 1], ids=repr)
def test_kinds_of_arrays(mechanism):
    value = mechanism.noise.inputs[0] if hasattr(mechanism.noise, "matrix") else mechanism.bound
    for array in (
        np.full(6, value), np.full(6, value, dtype=np.float32), np.full((6, 1), value, order="F"),
        np.full(12, value)[::2], [value] * 6,
    ):  # fmt: skip
        given = np.array(array)
        if isinstance(array, np.ndarray):
            array.flags.writeable = False
        sent = mechanism.privatize(array, random_state=0)
        assert sent.dtype == np.float64
        assert len(sent) == 6
        np.testing.assert_array_equal(array, given)
    with pytest.raises(ValueError, match="NaN in row 1"):
        mechanism.privatize([value, math.nan])
    with pytest.raises(ValueError, match="infinity in row 0"):
        mechanism.privatize([math.inf, value])


BAD = [
    *[(LaplaceMechanism, {"epsilon": value, "bounds": (0, 1)}, "epsilon") for value in EPSILON.outside()],
    *[
        (LaplaceMechanism, {"epsilon": 1.0, "radius": value}, "radius")
        for value in RADIUS.outside()
        if value is not None
    ],
    (LaplaceMechanism, {"epsilon": 1.0}, "neither of bounds and radius"),
    (LaplaceMechanism, {"epsilon": 1.0, "bounds": (0, 1), "radius": 1.0}, "both of bounds and radius"),
    *[
        (kind, {"epsilon": 1.0, "bounds": bounds}, "bounds")
        for kind in (LaplaceMechanism, DiscreteLaplaceMechanism, StaircaseMechanism)
        for bounds in ((1, 0), (1, 1), (0, math.nan), (0, math.inf), (0, 1, 2), "01", 3, (0, "1"), (False, True))
    ],
    *[
        (DiscreteLaplaceMechanism, {"epsilon": 1.0, "bounds": (0, 1), "step": step}, "step")
        for step in (0, -1, math.nan, math.inf, "1", True)
    ],
    *[
        (StaircaseMechanism, {"epsilon": 1.0, "bounds": (0, 1), "gamma": gamma}, "gamma")
        for gamma in (0, 1, -0.1, math.nan, "1", True)
    ],
    *[(UniformMechanism, {"half_width": value}, "half_width") for value in SCALE.outside()],
    (FiniteChannel, {"matrix": [[0.5, 0.4], [0.5, 0.5]], "inputs": (0, 1)}, "sums to 0.9"),
    (FiniteChannel, {"matrix": [[0.5, 0.5]], "inputs": (0, 1)}, "one row per input"),
    (FiniteChannel, {"matrix": [[1.0], [1.0]], "inputs": (0, 1)}, "one column per output"),
    (FiniteChannel, {"matrix": np.eye(2), "inputs": (0, 0)}, "repeats"),
    (FiniteChannel, {"matrix": np.eye(2), "inputs": ("a", 1)}, "not a number"),
]


@pytest.mark.parametrize(("kind", "arguments", "message"), BAD, ids=lambda value: str(value)[:50])
def test_arguments_that_are_refused(kind, arguments, message):
    with pytest.raises((TypeError, ValueError), match=message):
        kind(**arguments)


@pytest.mark.parametrize("scale", SCALE.outside(), ids=str)
def test_scales_that_are_refused(scale):
    for kind in (LaplaceMechanism, DiscreteLaplaceMechanism):
        with pytest.raises((TypeError, ValueError), match="scale"):
            kind.from_scale(scale)


@pytest.mark.parametrize(
    "covariance", [[[1.0, 2.0], [2.0, 1.0]], [[1.0, 0.5], [0.4, 1.0]], [[0.0]], [1.0], [[1.0, 0.0]], [[math.nan]], "x"],
    ids=str,
)  # fmt: skip
def test_covariances_that_are_refused(covariance):
    with pytest.raises((TypeError, ValueError)):
        GaussianMechanism.from_covariance(covariance)


def test_one_number_per_record_with_bounds():
    for mechanism in (LaplaceMechanism(1.0, bounds=(0, 1)), DiscreteLaplaceMechanism(1.0, bounds=(0, 1))):
        with pytest.raises(ValueError, match="one number per record"):
            mechanism.privatize(np.zeros((3, 2)))
