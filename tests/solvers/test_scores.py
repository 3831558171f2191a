"""The distribution of true scores that released ones tell: its moments, its units, and its shape."""

import numpy as np
import pytest

from symdebias.solvers.scores import deconvolved

NOISE = 0.49
SCORES = {
    "normal": lambda rng, count: rng.normal(0.3, 1.4, count),
    "two points": lambda rng, count: rng.choice([-1.0, 2.0], count, p=[0.7, 0.3]),
    "skewed": lambda rng, count: rng.exponential(1.5, count),
    "heavy tails": lambda rng, count: rng.standard_t(5, count),
}


def released(name, count=20_000, seed=0):
    """Return released scores, their equal chances, and the variance of the true ones."""
    rng = np.random.default_rng(seed)
    true = SCORES[name](rng, count)
    return true + np.sqrt(NOISE) * rng.normal(size=count), np.full(count, 1 / count), float(true.var())


def moments(scores):
    middle = float(scores.chances @ scores.values)
    return middle, float(scores.chances @ (scores.values - middle) ** 2)


@pytest.mark.parametrize("fineness", [1.0, 0.5])
@pytest.mark.parametrize("name", SCORES)
def test_mean_and_variance_are_those_of_true_scores(name, fineness):
    """The range of design rests on them: without taking the noise out the variance would be 20 to 30% too large."""
    scores, chances, signal = released(name)
    found = deconvolved(scores, chances, noise=NOISE, signal=signal, fineness=fineness)
    assert np.all(found.chances >= 0)
    assert found.chances.sum() == pytest.approx(1)
    middle, variance = moments(found)
    assert middle == pytest.approx(scores.mean(), abs=0.02 * np.sqrt(signal))
    assert variance == pytest.approx(signal, rel=0.06)


def test_units_and_origins_change_nothing():
    scores, chances, signal = released("skewed")
    plain = deconvolved(scores, chances, noise=NOISE, signal=signal)
    moved = deconvolved(40 * scores - 7, chances, noise=1600 * NOISE, signal=1600 * signal)
    np.testing.assert_allclose(moved.values, 40 * plain.values - 7, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(moved.chances, plain.chances, rtol=1e-6, atol=1e-12)


def test_the_shape_comes_back():
    """Of two points three apart the noise leaves one hill, with a fifth of the released scores about the middle."""
    scores, chances, signal = released("two points")
    found = deconvolved(scores, chances, noise=NOISE, signal=signal)
    assert found.chances[np.abs(found.values - 0.5) < 0.5].sum() < 0.5 * np.mean(np.abs(scores - 0.5) < 0.5)


def test_one_score_and_scores_without_noise_stand_for_themselves():
    chances = np.full(50, 0.02)
    alone = deconvolved(np.full(50, 3.0), chances, noise=0.0, signal=0.0)
    assert (alone.values.tolist(), alone.chances.tolist()) == ([3.0], [1.0])
    scores = np.linspace(-1, 1, 50)
    np.testing.assert_allclose(np.sort(deconvolved(scores, chances, noise=0.0, signal=1.0).values), scores)
