"""Intervals of means of long tails reach as far as what was drawn says of the tail."""

import tracemalloc

import numpy as np
import pytest
from scipy import stats

import symdebias as sd
from symdebias import _tails
from symdebias._tails import LongTails, _pareto, _Tail, farthest, tail_count
from symdebias.evaluation.sums import Powers


def tails_of(numbers):
    moves = numbers - numbers.mean()
    above, below = farthest(moves[:, None], tail_count(len(moves)))[:, :, 0]
    return LongTails(len(moves), float(moves @ moves), float(np.sum(moves**4)), above, below)


def quantiles(shape, count):
    return stats.genpareto.ppf((np.arange(count) + 0.5) / count, shape)


@pytest.mark.parametrize("shape", [-0.3, 0.1, 0.5, 0.9])
def test_the_fit_finds_the_law_of_its_own_quantiles(shape):
    found, scale = _pareto(3.0 * quantiles(shape, 400))
    assert found == pytest.approx(shape, abs=0.05)
    assert scale == pytest.approx(3.0, rel=0.05)


def test_of_a_few_nothing_is_told():
    assert tail_count(99) == 0
    assert tail_count(100) == 21
    assert tail_count(10_000) == 301
    assert tails_of(quantiles(0.9, 99)).reaches(2.5) == (0.0, 0.0)


def test_numbers_that_occur_again_and_again_have_no_tail():
    assert tails_of(np.repeat([0.0, 1.0], [290, 10])).reaches(2.5) == (0.0, 0.0)
    # Of more of the same the tail ends there.
    assert max(tails_of(np.repeat([0.0, 1.0], [270, 30])).reaches(2.5)) < 2.2


def test_units_change_nothing_and_signs_change_sides():
    numbers = quantiles(0.6, 300)
    below, above = tails_of(numbers).reaches(2.5)
    assert above > below > 0
    assert tails_of(1e-9 * numbers).reaches(2.5) == pytest.approx((below, above), rel=1e-6)
    assert tails_of(-numbers).reaches(2.5) == pytest.approx((above, below), rel=1e-9)


def test_long_tails_are_drawn_part_by_part(monkeypatch):
    """The same numbers, with memory for a part: the tails of 10^8 records took 500 MB."""
    tail = _Tail(np.ones(1), 1.0, 0.4, 2.0)
    counts, draws = np.random.default_rng(1).integers(2_900, 3_100, size=400), np.random.default_rng(2)
    whole = 1.0 + 2.0 * np.expm1(0.4 * draws.exponential(size=(counts.max(), 400))) / 0.4
    whole[np.arange(len(whole))[:, None] >= counts] = 0.0
    tracemalloc.start()
    found = tail.drawn(counts, np.random.default_rng(2))
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_allclose(found, [np.sum(whole**power, axis=0) for power in (1, 2, 4)], rtol=1e-12)
    assert most < 25e6 < 3 * whole.nbytes
    monkeypatch.setattr(_tails, "_NUMBERS", 4_000)
    np.testing.assert_allclose(tail.drawn(counts, np.random.default_rng(2)), found, rtol=1e-12)


@pytest.mark.parametrize("metric", [sd.losses.least_squares(), "r2"], ids=["squared error", "R2"])
def test_records_without_weight_change_nothing(metric):
    """Their deviations of exactly 0 stood among those that are below the mean."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(1_000, 1))
    far = np.where(rng.random(1_000) < 0.03, np.sqrt(rng.pareto(2.0, 1_000) + 1), 0.0)
    y = X[:, 0] + far + 0.01 * rng.random(1_000)
    release = sd.Release(None, noiseless=("a",))
    told = sd.evaluation.evaluate([1.0], X, y, metric=metric, release=release)
    others, weights = rng.normal(size=(100, 1)), np.repeat([1.0, 0.0], [1_000, 100])
    more = sd.evaluation.evaluate(
        [1.0], np.vstack([X, others]), np.append(y, others[:, 0] ** 2), metric=metric, release=release,
        sample_weight=weights,
    )  # fmt: skip
    assert told.skewness != 0
    np.testing.assert_allclose(more.confidence_interval(), told.confidence_interval(), rtol=1e-12)


def test_heavier_tails_reach_farther():
    reaches = [tails_of(quantiles(shape, 300)).reaches(2.5)[1] for shape in (0.0, 0.3, 0.6, 0.9)]
    assert np.all(np.diff(reaches) > 0.2)


def test_what_is_far_does_not_depend_on_parts():
    rng = np.random.default_rng(0)
    values, weights = rng.standard_t(3, size=(500, 2)), rng.uniform(0, 2, 500)
    how = {"of": np.array([[1.0, 1.0], [0.0, -1.0]]), "mean": np.array([0.1, 0.2]), "most": tail_count(500)}
    whole = Powers.of(values, weights, **how)
    cuts = [slice(0, 7), slice(7, 300), slice(300, 500)]
    parts = Powers.together((Powers.of(values[cut], weights[cut], **how) for cut in cuts), how["most"])
    np.testing.assert_array_equal(parts.far, whole.far)
    away = np.sort(weights * (values[:, 0] - 0.1))
    np.testing.assert_array_equal(whole.far[0, :, 0], away[::-1][: how["most"]])
    np.testing.assert_array_equal(whole.far[1, :, 0], -away[: how["most"]])
    np.testing.assert_allclose(parts.thirds, whole.thirds)


def evaluated(y, **how):
    release = sd.Release(noiseless=("x",))
    return sd.evaluation.evaluate([0.0], np.zeros((len(y), 1)), y, metric="squared_error", release=release, **how)


def test_a_mean_of_squares_reaches_as_far_as_its_tail():
    # The four farthest are missing.
    y = np.sqrt(quantiles(0.8, 304)[:300])
    found, moves = evaluated(y), y**2 - np.mean(y**2)
    own = np.sum(moves**3) / np.sum(moves**2) ** 1.5
    assert found.skewness > 1.1 * own
    low, high = found.confidence_interval()
    assert high - found.value == pytest.approx(tails_of(y**2).reaches(2.5)[1] * found.standard_error, rel=1e-6)
    assert found.value - low < high - found.value
    # Zeros of weight 0 are in no tail, and candidates are told the same.
    weights = np.repeat([1.0, 0.0], [300, 50])
    beside = evaluated(np.append(y, np.zeros(50)), sample_weight=weights)
    assert beside.skewness == pytest.approx(found.skewness)
    table = sd.evaluation.cross_validate(
        {"zero": lambda X, y: [0.0]}, np.zeros((300, 1)), y, metric="squared_error",
        release=sd.Release(noiseless=("x",)), random_state=0,
    )  # fmt: skip
    assert table.estimates["zero"].skewness == pytest.approx(found.skewness)


@pytest.mark.exhaustive
@pytest.mark.parametrize("metric", ["squared_error", "r2"])
def test_intervals_of_long_tails_cover(metric):
    """Columns of 10% of lognormal numbers, a model of half the true slopes for the squared error, 300 records.

    Of 400 draws some 340 and 260 have an interval. By the skewness of the sample 92% of those of the squared error
    cover, and 82% of those of R2; 93 and 97% do. The bounds are four standard errors below these.
    """
    rng, covered = np.random.default_rng(5), []
    release = sd.Release(sd.GaussianMechanism.from_scale(0.4), sd.GaussianMechanism.from_scale(0.4))

    def drawn(count):
        X = (rng.random((count, 2)) < 0.1) * np.exp(rng.normal(size=(count, 2)))
        return X, X @ [1.0, -0.5] + rng.normal(size=count)

    theta = np.array([1.0, -0.5]) * (0.5 if metric == "squared_error" else 1.0)
    # The second moment of a column is .1 e^2, and its mean .1 e^.5.
    second, mean = 0.1 * np.exp(2), 0.1 * np.exp(0.5)
    squares = 1 + 0.25 * (1.25 * second - mean**2) if metric == "squared_error" else 1.0
    true = squares if metric == "squared_error" else 1 - 1 / (1 + 1.25 * (second - mean**2))
    for _ in range(400):
        noised = release.privatize(*drawn(300), random_state=int(rng.integers(2**31)))
        found = sd.evaluation.evaluate(theta, noised.X, noised.y, metric=metric, release=release)
        if (ends := found.interval_or_none()) is not None:
            covered.append(ends[0] <= true <= ends[1])
    assert len(covered) > 200
    assert np.mean(covered) > (0.87 if metric == "squared_error" else 0.92)
