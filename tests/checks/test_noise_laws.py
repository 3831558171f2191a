"""Declared laws against SciPy's and against draws of plain noise, and what tests of them see."""

import numpy as np
import pytest
from scipy import stats

import symdebias as sd
from symdebias.checks import noise_laws

pytestmark = pytest.mark.newest


@pytest.mark.parametrize(
    ("mechanism", "law"),
    [
        (sd.GaussianMechanism.from_scale(0.7), stats.norm(scale=0.7)),
        (sd.LaplaceMechanism.from_scale(0.7), stats.laplace(scale=0.7)),
        (sd.UniformMechanism(0.7), stats.uniform(-0.7, 1.4)),
    ],
    ids=["normal", "Laplace", "uniform"],
)
def test_chances_are_those_of_scipy(mechanism, law):
    of_value, of_size = noise_laws.statistics(mechanism.noise, np.array([2.0]))
    np.testing.assert_allclose(of_value.chances, law.cdf(of_value.thresholds), atol=2e-5)
    np.testing.assert_allclose(of_size.chances, 2 * law.cdf(of_size.thresholds) - 1, atol=4e-5)


def test_chances_on_a_grid_are_sums():
    of_value, _ = noise_laws.statistics(sd.DiscreteLaplaceMechanism.from_scale(2.0).noise, np.array([3.0]))
    assert np.all(of_value.thresholds % 1 == 0.5)
    law = stats.dlaplace(0.5)
    np.testing.assert_allclose(of_value.chances, law.cdf(np.floor(of_value.thresholds)), rtol=1e-12)


@pytest.mark.parametrize("epsilon", [0.1, 2.0, 12.0, 20.0])
@pytest.mark.parametrize("width", [2, 4, 9])
def test_cosines_of_a_cap_have_the_chances_of_the_declared_law(width, epsilon):
    """Caps of large budgets are a millionth of the sphere and less, and hold nearly all points."""
    mechanism = sd.SphericalCapMechanism(epsilon, 2.0)
    center = np.zeros(width)
    center[0] = 2.0
    found = noise_laws.statistics(mechanism.noise_on(width), center)[0]
    law, half = mechanism.law, width / 2
    share, inside = law.share(width + 1), law.chance_inside(width + 1)
    shares = stats.beta(half, half).cdf((1 + found.thresholds) / 2)
    expected = np.minimum(shares / share, 1) * inside + np.maximum(shares - share, 0) / (1 - share) * (1 - inside)
    np.testing.assert_allclose(found.chances, expected, rtol=1e-7)


SOUND = {
    "staircase": (sd.StaircaseMechanism(2.0, bounds=(0.0, 1.0)), [1.0]),
    "discrete staircase": (sd.DiscreteStaircaseMechanism(2.0, bounds=(0, 10)), [10.0]),
    "spherical Laplace": (sd.SphericalLaplaceMechanism(1.0, 1.0), [1.0, 0.0, 0.0]),
    "spherical Laplace, padded": (sd.SphericalLaplaceMechanism(1.0, 1.0, padded=True), [1.0, 0.0]),
    "cap": (sd.SphericalCapMechanism(2.0, 1.0), [0.6, 0.8, 0.0]),
    "cap of a large budget": (sd.SphericalCapMechanism(12.0, 1.0), [0.6, 0.8, 0.0, 0.0]),
    "clipped Laplace": (sd.ClippedMechanism(sd.LaplaceMechanism(1.0, bounds=(0, 1)), 0, 1), [1.0]),
    "clipped discrete": (sd.ClippedMechanism(sd.DiscreteLaplaceMechanism(1.0, bounds=(0, 5)), 0, 5), [5.0]),
    "letters": (sd.RandomizedResponse(1.0, ("n", "e", "s", "w")), [2.0]),
    "input perturbation": (
        sd.InputPerturbation(1, q_scale=4.0, p_scale=8.0, q_bound=1.0, p_bound=3.0, delta=1e-5), [1.0, -3.0],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SOUND)
def test_plain_noise_has_the_law_and_a_factor_is_seen(name):
    """False-alarm rate 1e-7 each; noise x .9, or 1 label of 20 that is another one, is seen with 40,000 draws."""
    mechanism, center = SOUND[name]
    center, draws = np.array(center), 40_000
    one = mechanism.width == 1 or hasattr(mechanism.noise, "matrix")
    rows = np.full(draws, center[0]) if one else np.tile(center, (draws, 1))
    sent = mechanism.privatize(rows, random_state=0).reshape(draws, -1)
    tests = noise_laws.statistics(mechanism.noise_on(len(center)), center)
    assert noise_laws.combined_p_value([test.p_value(sent) for test in tests]) > 1e-7
    if hasattr(mechanism.noise, "matrix") or "discrete" in name or "cap" in name:
        wrong = sent.copy()
        wrong[::20] = center
    else:
        wrong = center + 0.9 * (sent - center)
    assert noise_laws.combined_p_value([test.p_value(wrong) for test in tests]) < 1e-7


def test_p_values_are_not_too_small():
    """Of 300 sound samples at most as many fall below 1% and 10% as chance allows (binomial, 1e-9)."""
    noise = sd.LaplaceMechanism.from_scale(1.0).noise
    tests = noise_laws.statistics(noise, np.zeros(1))
    rng = np.random.default_rng(0)
    found = np.array([
        noise_laws.combined_p_value([test.p_value(sent[:, None]) for test in tests])
        for sent in rng.laplace(size=(300, 2000))
    ])  # fmt: skip
    for level in (0.01, 0.1):
        assert stats.binom.sf(np.count_nonzero(found < level) - 1, 300, level) > 1e-9


@pytest.mark.parametrize(
    ("mechanism", "draw"),
    [
        (sd.GaussianMechanism.from_scale(1.0), lambda rng, size: rng.normal(size=size)),
        (sd.LaplaceMechanism.from_scale(1.0), lambda rng, size: rng.laplace(size=size)),
    ],
    ids=["normal", "Laplace"],
)
def test_the_factor_that_is_seen_is_seen(mechanism, draw):
    """At the stated factor 95 of 100 samples are told: at least 48 of 60 (a rate of 1e-6 for .95), and 1 none."""
    samples, level = 20_000, 1e-8
    factor = noise_laws.smallest_scale(mechanism.noise, 1, samples, level)
    assert 0.9 < factor < 0.98
    of_size = noise_laws.statistics(mechanism.noise, np.zeros(1))[-1]
    rng = np.random.default_rng(4)
    caught = sum(of_size.p_value(factor * draw(rng, (samples, 1))) <= level for _ in range(60))
    assert caught >= 48
    assert of_size.p_value(draw(rng, (samples, 1))) > level


def test_numbers_that_are_no_label_fail():
    (labels,) = noise_laws.statistics(sd.RandomizedResponse(1.0).noise, np.array([1.0]))
    sent = np.where(np.random.default_rng(0).random(1000) < np.e / (1 + np.e), 1.0, -1.0)[:, None]
    assert labels.p_value(sent) > 1e-6
    sent[5] = 0.5
    assert labels.p_value(sent) == 0.0
