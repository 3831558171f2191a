"""Rounding of continuous labels, and the private histogram."""

import math

import numpy as np
import pytest
from sampling_statistics import LEVEL, RECORDS, rate_p_value
from scipy import stats

import symdebias as sd
from symdebias._domains import EPSILON
from symdebias.exceptions import ClippingWarning
from symdebias.mechanisms import rounded, sampling

LABELS = (-1.0, 0.5, 4.0)


# ---- rounding --------------------------------------------------------------------------------------------


def test_declared_labels_stay():
    y = np.tile(LABELS, 1000)
    np.testing.assert_array_equal(sd.labels.round_labels(y, LABELS), y)


@pytest.mark.parametrize(
    ("value", "low", "high"), [(-0.9, -1.0, 0.5), (0.0, -1.0, 0.5), (0.6, 0.5, 4.0), (3.5, 0.5, 4.0)]
)
def test_the_neighbours_are_drawn_with_the_label_as_mean(value, low, high):
    """Each count at a false-alarm rate of 1e-7; a probability wrong by .006 is seen almost surely."""
    rounded = sd.labels.round_labels(np.full(RECORDS, value), LABELS, random_state=1)
    assert set(rounded) == {low, high}
    assert rate_p_value(rounded == high, (value - low) / (high - low)) > LEVEL


def test_without_a_seed_every_record_has_its_own_coin():
    y = np.random.default_rng(0).uniform(-1, 4, RECORDS)
    rounded = sd.labels.round_labels(y[:, None], LABELS)
    errors = rounded - y
    low = np.where(y < 0.5, -1.0, 0.5)
    spread = (y - low) * (np.where(y < 0.5, 0.5, 4.0) - y)
    assert 2 * stats.norm.sf(abs(errors.sum()) / math.sqrt(spread.sum())) > LEVEL
    products = errors[1:] * errors[:-1]
    assert 2 * stats.norm.sf(abs(products.sum()) / math.sqrt((spread[1:] * spread[:-1]).sum())) > LEVEL


def test_probabilities_are_right_to_the_bit(monkeypatch):
    """The probability that is compared with the coin, against the true one."""
    seen = []

    def record(probability, count, source):
        seen.append(probability)
        return np.zeros(count, dtype=bool)

    monkeypatch.setattr(sampling, "flips", record)
    y = np.random.default_rng(0).uniform(-1, 4, 500)
    sd.labels.round_labels(y, LABELS)
    wanted = [(v + 1) / 1.5 if v < 0.5 else (v - 0.5) / 3.5 for v in y.tolist()]
    np.testing.assert_allclose(seen[0], wanted, rtol=1e-15)


def test_labels_outside_are_refused_or_clipped():
    y = [0.0, -3.0, 4.5, 4.0]
    with pytest.raises(ValueError, match=r"2 of 4 labels lie outside \[-1, 4\], the first in row 1"):
        sd.labels.round_labels(y, LABELS)
    with pytest.warns(ClippingWarning, match=r"2 of 4 labels.*not the labels"):
        rounded = sd.labels.round_labels(y, LABELS, outside="clip")
    assert rounded[1:].tolist() == [-1.0, 4.0, 4.0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([math.nan], LABELS), "values"),
        (([math.inf], LABELS), "values"),
        ((["a"], LABELS), "values"),
        (([], LABELS), "values"),
        ((np.zeros((2, 2)), LABELS), r"shape \(2, 2\)"),
        (([0.0], (1, 0)), "labels"),
        (([0.0], (0,)), "labels"),
        (([0.0], "01"), "labels"),
    ],
)
def test_rounding_that_is_refused(arguments, message):
    with pytest.raises((TypeError, ValueError), match=message):
        sd.labels.round_labels(*arguments)


def test_options_of_rounding_that_are_refused():
    with pytest.raises(ValueError, match="outside"):
        sd.labels.round_labels([0.0], LABELS, outside="ignore")
    with pytest.raises(TypeError, match="random_state"):
        sd.labels.round_labels([0.0], LABELS, random_state="1")


# ---- prior -----------------------------------------------------------------------------------------------


def noises_of(monkeypatch, epsilon, random_state):
    """What the prior asks the sampler for: a hardened one without a seed."""
    asked = []

    def record(scale, shape, source):
        asked.append((scale, shape))
        return np.zeros(shape, dtype=np.int64)

    if random_state is None:
        monkeypatch.setattr(rounded, "discrete_laplace", record)
    else:
        monkeypatch.setattr(sampling, "discrete_laplace_noise", record)
    prior = sd.labels.private_prior([0, 2, 2, 2], (0, 1, 2), epsilon, random_state=random_state)
    return prior, asked


@pytest.mark.parametrize("random_state", [None, 0])
@pytest.mark.parametrize("epsilon", [1e-6, 0.3, 1.0, 700.0])
def test_each_count_gets_the_noise_of_two_changes(monkeypatch, epsilon, random_state):
    """exp(-2/scale) per count is e^-epsilon for the two counts that one label changes, on the safe side."""
    prior, asked = noises_of(monkeypatch, epsilon, random_state)
    assert prior.tolist() == [0.25, 0.0, 0.75]
    ((scale, shape),) = asked
    assert shape == (3,)
    assert scale == pytest.approx(2 / epsilon, rel=1e-15)
    assert 2 / scale <= epsilon


def test_the_counts_have_the_law_of_the_noise():
    """Two labels and n records: the share of the first is (a + X)/(n + X + Y), X and Y of the noise's law."""
    epsilon, draws = 0.5, 4000
    y = np.repeat([0.0, 1.0], [3000, 1000])
    rng = np.random.default_rng(0)
    shares = np.array([sd.labels.private_prior(y, (0, 1), epsilon, random_state=rng)[0] for _ in range(draws)])
    # d share = (X - 3 Y)/(4 n) to first order, n = 1000; the second order is 1e-5 of the first.
    q = math.exp(-epsilon / 2)
    variance = 2 * q / (1 - q) ** 2
    spread = math.sqrt(variance * (1 + 9)) / 16_000
    z = (shares - 0.75) / spread
    assert 2 * stats.norm.sf(abs(z.sum()) / math.sqrt(draws)) > LEVEL
    fourth = 3 + 3 / (1 + 9) ** 2 * (1 + 81) * 1.1
    assert 2 * stats.norm.sf(abs((z**2 - 1).sum()) / math.sqrt(draws * (fourth - 1))) > LEVEL


def test_a_small_budget_still_gives_probabilities():
    zeros = uniform = 0
    for seed in range(300):
        prior = sd.labels.private_prior([0, 1], (0, 1, 2), 1e-3, random_state=seed)
        assert prior.shape == (3,)
        assert (prior >= 0).all()
        assert prior.sum() == pytest.approx(1, abs=1e-12)
        zeros += (prior == 0).any()
        uniform += (prior == 1 / 3).all()
    assert zeros > 100
    # All three counts are negative for one draw in eight.
    assert 10 < uniform < 80


def test_a_prior_designs_a_randomizer():
    y = np.random.default_rng(0).integers(0, 5, 2000)
    spent = sd.labels.prior_budget(5, len(y), 1.0)
    prior = sd.labels.private_prior(y, range(5), spent, random_state=0)
    assert sd.labels.randomized_response_on_bins(range(5), prior, 1.0 - spent).prior == pytest.approx(prior.tolist())


BAD = [
    *[({"epsilon": value}, "epsilon") for value in EPSILON.outside()],
    *[({"labels": value}, "labels") for value in ((0,), (1, 0), "01", 3)],
    *[({"y": value}, "label|values") for value in ([2], [0.5], [math.nan], [], ["0"], [[0, 1]])],
]


@pytest.mark.parametrize(("change", "message"), BAD, ids=str)
def test_priors_that_are_refused(change, message):
    with pytest.raises((TypeError, ValueError), match=message):
        sd.labels.private_prior(**{"y": [0, 1], "labels": (0, 1), "epsilon": 1.0, **change})


def test_the_budget_of_the_prior():
    assert sd.labels.prior_budget(25, 10_000, 1.0) == 0.05
    assert sd.labels.prior_budget(25, 10_000, 0.08) == 0.04
    assert sd.labels.prior_budget(50, 10, 700.0) == pytest.approx(math.sqrt(5))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((1, 10, 1.0), "labels_count"), ((2, 0, 1.0), "records"), ((2.5, 10, 1.0), "labels_count"),
     ((2, math.nan, 1.0), "records"), ((2, 10, 0.0), "epsilon"), ((2, 10, math.nan), "epsilon"),
     ((True, 10, 1.0), "labels_count")],
)  # fmt: skip
def test_budgets_that_are_refused(arguments, message):
    with pytest.raises((TypeError, ValueError), match=message):
        sd.labels.prior_budget(*arguments)
