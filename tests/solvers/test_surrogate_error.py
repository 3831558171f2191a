"""The error of a surrogate's mean gradient, told from released records."""

import numpy as np
import pytest

import symdebias as sd
from symdebias.solvers.scores import known_scores
from symdebias.solvers.surrogate_error import MeanError

pytestmark = pytest.mark.newest


@pytest.mark.in_turn
@pytest.mark.parametrize("loss", ["logistic", "probit"])
@pytest.mark.parametrize("noised", [True, False])
def test_it_is_that_of_true_records(loss, noised):
    """For the group and the intercept; seeds are fixed, and found and expected are of the same records."""
    rng = np.random.default_rng(3)
    X = np.column_stack([rng.normal(size=20_000), rng.random(20_000) < 0.03]).astype(float)
    y = np.where(rng.random(20_000) < 1 / (1 + np.exp(-X @ [0.8, -2.0] - 0.3)), 1.0, -1.0)
    label = sd.RandomizedResponse(2.0) if noised else None
    release = sd.Release(sd.GaussianMechanism.from_covariance(np.diag([0.25, 0.01])), target=label, fit_intercept=True)
    released = release.privatize(X, y, random_state=4)
    fit = sd.m_estimate(sd.debias(getattr(sd.losses, loss)(), release), released.X, released.y)
    records = fit.corrected.records(released.X, released.y)
    known, rows = known_scores(fit.corrected, records), np.column_stack([X, np.ones(len(X))])
    # The group's scores are beyond those that the surrogate was designed for.
    theta = fit.theta - np.array([0.0, 8.0, 0.0])
    errors = np.zeros(len(X))
    for part, surrogate in zip(known.parts.replaced, records.correction.surrogates.surrogates, strict=True):
        slopes = surrogate.slope(rows @ theta) - part.numbers.slope(rows @ theta)
        errors += slopes * (1.0 if part.multiplier.is_number else y)
    found, expected = MeanError(known, records.correction).at(theta), errors @ rows / len(rows)
    assert np.all(np.abs(expected[1:]) > 5e-3)
    np.testing.assert_allclose(found[1:], expected[1:], rtol=0.1)
