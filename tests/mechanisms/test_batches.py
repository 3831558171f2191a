"""The draws of records that a guarantee of sampled steps rests on have their law, plain and hardened."""

import math

import numpy as np
import pytest
from sampling_statistics import coin_faults
from scipy import stats

from symdebias.mechanisms import batches, rounded, sampling

SOURCES = {"plain": sampling.source(7), "hardened": sampling.source(None)}


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("probability", [1e-3, 0.02, 0.3, 0.6, 1.0])
@pytest.mark.parametrize("records", [1, 37])
def test_records_are_drawn_independently_with_their_probability(records, probability, source):
    """About 370,000 coins: at a level of 1e-7 a rate wrong by .005 at .3 is seen, and a correlation of .01."""
    steps = 10_000 if records > 1 else 300_000
    rows, ends = batches.poisson_samples(records, probability, steps, SOURCES[source])
    assert len(ends) == steps
    assert ends[-1] == len(rows)
    drawn = np.zeros((steps, records))
    drawn[np.repeat(np.arange(steps), np.diff(ends, prepend=0)), rows] += 1
    assert drawn.max() == 1.0
    if probability == 1.0:
        assert drawn.min() == 1.0
        return
    # Over records within a step, and from each step to the next.
    assert coin_faults(drawn.ravel() == 1, np.tile(np.arange(records), steps), probability) == []
    assert coin_faults(drawn.T.ravel() == 1, np.repeat(np.arange(records), steps), probability) == []


def test_rows_of_a_step_are_in_order():
    rows, ends = batches.poisson_samples(50, 0.4, 20, sampling.source(0))
    for drawn in np.split(rows, ends[:-1]):
        assert np.all(np.diff(drawn) > 0)


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("size", [2, 3])
def test_every_subset_comes_equally_often(source, size):
    """Ten subsets, 20,000 draws: chi-square at a level of 1e-7 sees one that is too rare by a sixth."""
    rows, ends = batches.subsets(5, size, 20_000, SOURCES[source])
    np.testing.assert_array_equal(ends, size * np.arange(1, 20_001))
    drawn = rows.reshape(-1, size)
    assert np.all(np.diff(drawn) > 0)
    counts = np.bincount((2**drawn).sum(axis=1))
    counts = counts[counts > 0]
    assert len(counts) == 10
    assert stats.chisquare(counts).pvalue > 1e-7


@pytest.mark.parametrize("probability", [1e-9, 0.02, 0.3, 1 - 2.0**-20])
def test_hardened_draws_are_never_likelier_than_stated(probability, monkeypatch):
    """The rate of the geometric distances, in many digits: 1 - exp(-rate) is at most p, and p to 2^-50 of itself."""
    rates = []
    monkeypatch.setattr(rounded, "geometric", lambda rate, count, source: rates.append(rate) or np.full(count, 2**40))
    batches.poisson_samples(10, probability, 1, sampling.source(None))
    mp = batches.precise.context()
    realised = -mp.expm1(-mp.mpf(rates[0]))
    assert realised <= mp.mpf(probability)
    assert realised >= mp.mpf(probability) * (1 - mp.mpf(2) ** -45)
    assert math.isfinite(rates[0])
