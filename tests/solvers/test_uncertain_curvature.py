"""Intervals under an uncertain curvature are those of the records, in whatever order they stand."""

import numpy as np
import pytest

import symdebias as sd


def counts(seed, n=6_000):
    """Counts beside three columns under Laplace noise: few records have most of the variance of the curvature."""
    rng = np.random.default_rng([seed, 77])
    X = np.column_stack([rng.normal(1, 1, n), rng.uniform(-1, 1, n), rng.exponential(1, n)])
    y = rng.poisson(np.exp(np.minimum(X @ [0.4, -0.5, 0.25] - 0.25, 3.0))).astype(float)
    scales = np.array([0.4, 0.5, 0.3])
    release = sd.Release({f"x{place}": sd.LaplaceMechanism.from_scale(one) for place, one in enumerate(scales)})
    return sd.debias(sd.losses.poisson(), release), X + scales * rng.laplace(size=X.shape), y


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_the_order_of_records_changes_nothing(seed):
    corrected, X, y = counts(seed)
    order = np.random.default_rng(seed).permutation(len(X))
    here, there = sd.m_estimate(corrected, X, y), sd.m_estimate(corrected, X[order], y[order])
    assert here.inference.curving is not None
    # Ends are searched for to a hundredth of a standard error.
    assert np.all(
        np.abs(here.confidence_interval() - there.confidence_interval()) <= 0.02 * here.standard_errors[:, None]
    )
    assert here.diagnostics["curvature"] == pytest.approx(there.diagnostics["curvature"], rel=1e-6)
