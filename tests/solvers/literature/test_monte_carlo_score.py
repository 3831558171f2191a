"""The Monte-Carlo corrected score: the corrected gradient by draws."""

import importlib

import numpy as np
import pytest
from instances import U, Y
from measured import CORRELATED, LABELLED, LOGISTIC, MIXED, POISSON, THETA, noised

import symdebias as sd
from symdebias.exceptions import NoExactCorrectionError
from symdebias.solvers.literature.equations import Measured

pytestmark = pytest.mark.newest

module = importlib.import_module("symdebias.solvers.literature.monte_carlo_score")


def test_complex_scores_average_to_the_corrected_gradient():
    """2,000 draws at 40 records: within 6 standard errors of the draws, an error of 0.1 in the gradient at most."""
    released = noised("poisson", MIXED, 40)
    X, y = np.tile(released.X, (2_000, 1)), np.tile(released.y, 2_000)
    rows = module._complex_score(Measured.of(POISSON, released.release, X, y), [1])(THETA, slice(None))
    draws = rows.reshape(2_000, 40, 4).mean(axis=1)
    error = draws.std(axis=0) / np.sqrt(len(draws))
    exact = sd.debias(POISSON, released.release).mean_gradient(THETA, released.X, released.y)
    assert error.max() < 0.1 / 6
    assert np.all(np.abs(draws.mean(axis=0) - exact) < 6 * error + 1e-12)


@pytest.mark.in_turn
def test_monte_carlo_score_of_noised_labels_and_targets():
    """Within 5.5 standard errors of the truth (false alarms 2e-7); these are a bias of 0.3 or less."""
    noisy = sd.Release(
        {("a", "b"): CORRELATED}, sd.GaussianMechanism.from_scale(0.5), noiseless=("c",), fit_intercept=True
    )
    quartic = sd.Loss((U - Y) ** 4 / 4 + (U - Y) ** 2 / 2, score=U, target=Y)
    released = noised("linear", noisy, 20_000)
    found = sd.literature.monte_carlo_score(quartic, released.release, released.X, released.y, draws=2, random_state=1)
    assert 5.5 * found.standard_errors.max() < 0.3
    assert np.all(np.abs(found.theta - THETA) < 5.5 * found.standard_errors)
    released = noised("logistic", LABELLED, 20_000)
    squared = sd.losses.squared_margin()
    found = sd.literature.monte_carlo_score(squared, released.release, released.X, released.y, draws=2, random_state=1)
    moments = sd.literature.regression_calibration(squared, released.release, released.X, released.y)
    # The loss is quadratic, for which calibration is exact: two estimates of the same parameters.
    assert np.all(np.abs(found.theta - moments.theta) < 3 * found.standard_errors)


def test_monte_carlo_score_passes_poles_by_only_when_told():
    released = noised("logistic", MIXED, 5_000)
    arguments = (LOGISTIC, released.release, released.X, released.y)
    with pytest.raises(NoExactCorrectionError, match="not known to be entire"):
        sd.literature.monte_carlo_score(*arguments)
    found = sd.literature.monte_carlo_score(*arguments, poles="ignore", draws=2, random_state=0)
    assert "singularities" in str(found)
    again = sd.literature.monte_carlo_score(*arguments, poles="ignore", draws=2, random_state=0)
    np.testing.assert_array_equal(found.theta, again.theta)
