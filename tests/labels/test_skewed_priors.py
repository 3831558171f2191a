"""Priors with most of their mass on one label: the conic solution has more columns than a vertex, and is reduced."""

import numpy as np
import pytest

import symdebias as sd

pytestmark = pytest.mark.newest


@pytest.mark.in_turn
@pytest.mark.parametrize("epsilon", [0.5, 2.0, 4.0])
@pytest.mark.parametrize("seed", [3, 5, 7, 8])
def test_designs_for_skewed_priors_exist_and_are_optimal(seed, epsilon):
    """At epsilon 4 the outputs of the conic solver have no masses for the equations beyond 1e-7 of them."""
    prior = np.append(np.random.default_rng(seed).dirichlet(np.full(51, 0.5)) * 0.33, 0.67)
    found = sd.optimal_unbiased_randomizer(range(1, 53), prior / prior.sum(), epsilon)
    assert found.unbiased
    assert len(found.outputs) <= 104
    assert found.optimality_gap <= 1e-8 * found.noisy_label_loss


@pytest.mark.parametrize(("labels", "epsilon"), [(3, 20.0), (6, 16.0), (6, 20.0)])
def test_labels_without_probability_have_a_design_at_large_budgets(labels, epsilon):
    """The cone programme does not settle here: the noise of the first label costs nothing, and others have little."""
    prior = np.arange(labels) / sum(range(labels))
    found = sd.optimal_unbiased_randomizer(range(labels), prior, epsilon)
    assert found.unbiased
    assert found.guarantee.epsilon <= epsilon
    assert 0 <= found.lower_bound <= found.noisy_label_loss <= 1e-3
