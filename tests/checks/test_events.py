"""Bounds on epsilon by events: right as often as stated, near the exact curve, and about what they see."""

import numpy as np
import pytest
from scipy import stats

from symdebias.checks.events import Bound, certified_bound, sampled_epsilon

pytestmark = pytest.mark.newest


def test_the_best_of_several_statistics_is_chosen():
    """One says nothing; the other is randomized response at epsilon 1."""
    rng = np.random.default_rng(0)
    keep = np.e / (1 + np.e)
    useless = rng.normal(size=(2, 50_000))
    coins = (rng.random(50_000) < keep).astype(float), (rng.random(50_000) >= keep).astype(float)
    bound = certified_bound([(useless[0], useless[1]), coins], 0.0, 1e-6)
    assert 0.9 < bound.epsilon < 1.0
    assert (bound.likely > 0.7, bound.unlikely < 0.3) == (True, True)


@pytest.mark.parametrize("false_alarm", [0.2, 0.02])
def test_bounds_are_wrong_at_most_as_often_as_stated(false_alarm):
    """Two hundred bounds on equal samples, whose epsilon is 0: a binomial test at 1e-9."""
    rng = np.random.default_rng(1)
    wrong = sum(
        sampled_epsilon(rng.normal(size=1000), rng.normal(size=1000), 0.0, 1 - false_alarm) > 0 for _ in range(200)
    )
    assert stats.binom.sf(wrong - 1, 200, false_alarm) > 1e-9


def test_events_of_far_tails_are_tried():
    """At delta 0 the best event of two normals lies far out: more than what thresholds at 1 in 1,000 give."""
    rng = np.random.default_rng(2)
    found = sampled_epsilon(rng.normal(size=400_000), 1 + rng.normal(size=400_000), 0.0, 1 - 1e-6)
    assert 2.2 < found


def test_what_an_event_sees_is_refuted_in_95_of_100():
    """Coins of the epsilon that is seen at a claim of 1: at least 88 of 100 refute it, at a rate of 1e-3."""
    keep = np.e / (1 + np.e)
    sees = Bound(1.0, keep, 1 - keep, 5_000).sees(1.0, 0.0, 1e-6 / 4)
    assert 1.0 < sees < 2.0
    rng = np.random.default_rng(3)
    other = keep * np.exp(-sees)
    caught = 0
    for _ in range(100):
        pair = (rng.random(10_000) < keep).astype(float), (rng.random(10_000) < other).astype(float)
        caught += certified_bound([pair], 0.0, 1e-6).epsilon > 1.0
    assert caught >= 88


def test_nothing_is_seen_below_delta():
    assert Bound(0.0, 1e-6, 0.5, 1000).sees(1.0, 1e-5, 1e-6) == np.inf
