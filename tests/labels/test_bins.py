"""Randomized response on bins, against every division into bins."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import symdebias as sd
from symdebias._domains import EPSILON

LOSSES = {"squared": lambda t, y: (t - y) ** 2, "absolute": lambda t, y: np.abs(t - y)}


def best_of_all_divisions(labels, prior, epsilon, loss):
    """The least noisy-label loss over all contiguous bins, output by output from its definition."""
    labels, prior = np.array(labels, dtype=float), np.array(prior, dtype=float)
    gain = math.expm1(epsilon)
    best = math.inf
    for d in range(1, len(labels) + 1):
        for cuts in itertools.combinations(range(1, len(labels)), d - 1):
            total = 0.0
            for start, end in itertools.pairwise((0, *cuts, len(labels))):
                inside = np.zeros(len(labels))
                inside[start:end] = 1
                weights = prior * (1 + gain * inside)
                candidates = [weights @ labels / weights.sum()] if loss == "squared" else labels
                total += min(weights @ LOSSES[loss](t, labels) for t in candidates)
            best = min(best, total / (gain + d))
    return best


def loss_of(randomizer, prior, loss):
    losses = LOSSES[loss](np.array(randomizer.outputs)[None, :], np.array(randomizer.labels)[:, None])
    return float((np.array(prior)[:, None] * np.array(randomizer.matrix) * losses).sum())


def random_prior(rng, k):
    weights = rng.exponential(size=k) ** rng.integers(1, 4)
    weights[rng.random(k) < 0.3] = 0.0
    if np.count_nonzero(weights) < 2:
        weights[[0, -1]] = 1.0
    return weights / weights.sum()


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("epsilon", [0.05, 0.5, 1.0, 2.0, 5.0])
@pytest.mark.parametrize("seed", range(8))
def test_no_division_is_better(seed, epsilon, loss):
    rng = np.random.default_rng(seed)
    k = int(rng.integers(2, 8))
    labels = np.sort(rng.choice(np.arange(-20, 20) / 4, k, replace=False))
    prior = random_prior(rng, k)
    randomizer = sd.labels.randomized_response_on_bins(labels, prior, epsilon, loss=loss)
    best = best_of_all_divisions(labels, prior, epsilon, loss)
    reached = loss_of(randomizer, prior, loss)
    assert randomizer.noisy_label_loss == pytest.approx(reached, rel=1e-12)
    assert reached >= best - 1e-12
    # A constant output is the best one under the absolute loss where one label outweighs the others.
    constant = min(prior @ LOSSES[loss](t, labels) for t in ([prior @ labels] if loss == "squared" else labels))
    if best < constant - 1e-9:
        assert reached == pytest.approx(best, abs=1e-12)
        # Each bin sends its own output most, and outputs stand in the order of their bins.
        places = np.argmax(randomizer.matrix, axis=1)
        assert (np.diff(places) >= 0).all()
    assert list(randomizer.outputs) == sorted(set(randomizer.outputs))


@pytest.mark.in_turn
@given(st.integers(0, 2**32 - 1), st.floats(1e-3, 50), st.sampled_from(sorted(LOSSES)))
@settings(max_examples=60, deadline=None)
def test_the_design_is_a_randomizer_whose_loss_no_shift_of_an_output_lowers(seed, epsilon, loss):
    rng = np.random.default_rng(seed)
    k = int(rng.integers(2, 12))
    labels = np.sort(rng.choice(100, k, replace=False)).astype(float)
    prior = random_prior(rng, k)
    randomizer = sd.labels.randomized_response_on_bins(labels, prior, epsilon, loss=loss)
    assert 2 <= len(randomizer.outputs) <= k
    assert labels[0] <= randomizer.outputs[0] < randomizer.outputs[-1] <= labels[-1]
    if loss == "squared":
        matrix, outputs = np.array(randomizer.matrix), np.array(randomizer.outputs)
        np.testing.assert_allclose(outputs, (prior * labels) @ matrix / (prior @ matrix), rtol=1e-6, atol=1e-9)


def test_the_example_of_a_biased_predictor():
    """Labels 0, 1, 2 under two features: the Bayes predictor .4 of the first becomes .542."""
    joint = np.array([[0.35, 0.1, 0.05], [0.25, 0.15, 0.1]])
    randomizer = sd.labels.randomized_response_on_bins((0, 1, 2), joint.sum(axis=0), 0.5)
    assert randomizer.outputs == pytest.approx((0.396, 0.720), abs=5e-4)
    assert np.argmax(randomizer.matrix, axis=1).tolist() == [0, 1, 1]
    assert not randomizer.unbiased
    conditional = joint / joint.sum(axis=1, keepdims=True)
    assert (conditional @ np.arange(3)).tolist() == pytest.approx([0.4, 0.7])
    seen = conditional @ np.array(randomizer.matrix) @ np.array(randomizer.outputs)
    assert seen[0] == pytest.approx(0.542, abs=5e-4)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_large_budget_keeps_the_labels(loss):
    labels = (-1.0, 0.0, 2.5, 7.0)
    randomizer = sd.labels.randomized_response_on_bins(labels, (0.1, 0.2, 0.3, 0.4), 60.0, loss=loss)
    assert randomizer.outputs == pytest.approx(labels, abs=1e-12)
    assert loss != "absolute" or randomizer.outputs == labels


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 30.0])
@pytest.mark.parametrize("prior", [(0, 1, 0, 0), (1, 0, 0, 0), (0, 0, 0, 1)])
def test_where_a_constant_is_best_two_labels_are_sent(prior, epsilon, loss):
    labels = (0.0, 1.0, 3.0, 4.0)
    randomizer = sd.labels.randomized_response_on_bins(labels, prior, epsilon, loss=loss)
    assert len(randomizer.outputs) == 2
    assert set(randomizer.outputs) <= set(labels)
    keep = math.exp(epsilon) / (math.exp(epsilon) + 1)
    # The certain label is kept, and the other output is the label next to it.
    assert randomizer.noisy_label_loss == pytest.approx(1 - keep, rel=1e-6, abs=1e-15)


def test_a_median_that_outweighs_the_others_is_a_constant():
    labels, prior = (0.0, 1.0, 5.0), (0.05, 0.9, 0.05)
    randomizer = sd.labels.randomized_response_on_bins(labels, prior, 0.5, loss="absolute")
    gain = math.expm1(0.5)
    best = min(
        sum(
            p * (1 + gain * ((y < cut) == (j == 0))) * abs(t - y)
            for j, t in enumerate(pair)
            for p, y in zip(prior, labels, strict=True)
        )
        / (gain + 2)
        for pair in itertools.combinations(labels, 2)
        for cut in (0.5, 2.0)
    )
    assert randomizer.noisy_label_loss == pytest.approx(best, rel=1e-12)


def test_units_of_the_labels_do_not_matter():
    prior = (0.3, 0.1, 0.2, 0.4)
    plain = sd.labels.randomized_response_on_bins((0, 1, 2, 5), prior, 1.5)
    for unit, origin in ((1e90, 0.0), (1e-90, 0.0), (1.0, 1e6)):
        labels = [origin + unit * y for y in (0, 1, 2, 5)]
        other = sd.labels.randomized_response_on_bins(labels, prior, 1.5)
        assert other.matrix == plain.matrix
        assert [(t - origin) / unit for t in other.outputs] == pytest.approx(plain.outputs, rel=1e-9)


@pytest.mark.parametrize("loss", LOSSES)
def test_two_hundred_labels(loss):
    k = 200
    prior = np.random.default_rng(0).dirichlet(np.ones(k))
    randomizer = sd.labels.randomized_response_on_bins(range(k), prior, 4.0, loss=loss)
    assert 2 < len(randomizer.outputs) < k


BAD = [
    *[({"epsilon": value}, "epsilon") for value in EPSILON.outside()],
    *[({"labels": value}, "labels") for value in ((0,), (1, 0), (0, 0), (0, math.nan), "01", 3)],
    *[({"prior": value}, "prior") for value in ((1,), (0.5, 0.6), (-0.5, 1.5), (math.nan, 1), "ab", None)],
    *[({"loss": value}, "loss") for value in ("huber", None, 1, ["squared"])],
]


@pytest.mark.parametrize(("change", "message"), BAD, ids=str)
def test_arguments_that_are_refused(change, message):
    with pytest.raises((TypeError, ValueError), match=message):
        sd.labels.randomized_response_on_bins(**{"labels": (0, 1), "prior": (0.5, 0.5), "epsilon": 1.0, **change})
