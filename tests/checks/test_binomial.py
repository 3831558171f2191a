"""Tails of binomial counts, beside sums of fractions and beside SciPy's distribution."""

from fractions import Fraction
from math import comb

import numpy as np
import pytest
import scipy.stats

from symdebias.checks.binomial import at_least, at_most


@pytest.mark.parametrize("chance", [0.0, 1e-9, 0.25, 0.999, 1.0])
@pytest.mark.parametrize("trials", [1, 2, 37])
def test_tails_are_sums_of_chances(trials, chance):
    share = Fraction(chance)
    chances = [comb(trials, k) * share**k * (1 - share) ** (trials - k) for k in range(trials + 1)]
    counts = np.arange(-1, trials + 2)
    below = [float(sum(chances[: max(k + 1, 0)])) for k in counts]
    above = [float(sum(chances[max(k, 0) :])) for k in counts]
    np.testing.assert_allclose(at_most(counts, trials, chance), below, rtol=1e-13, atol=1e-300)
    np.testing.assert_allclose(at_least(counts, trials, chance), above, rtol=1e-13, atol=1e-300)
    assert at_most(0, trials, chance) == pytest.approx(below[1], rel=1e-13)


def test_tails_of_many_are_those_of_the_distribution():
    rng = np.random.default_rng(0)
    trials, chances = 10**6, 10 ** rng.uniform(-7, 0, 500)
    counts = rng.binomial(trials, chances) + rng.integers(-3, 4, 500)
    np.testing.assert_allclose(at_most(counts, trials, chances), scipy.stats.binom.cdf(counts, trials, chances), 1e-7)
    np.testing.assert_allclose(
        at_least(counts, trials, chances), scipy.stats.binom.sf(counts - 1, trials, chances), 1e-7
    )
