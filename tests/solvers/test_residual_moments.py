"""What residuals tell of the columns, and the bound on the bias that it gives."""

import runpy
from pathlib import Path

import numpy as np
import pytest

import symdebias as sd
from symdebias.solvers.residual_moments import moments_told
from symdebias.solvers.scores import ReleasedRecords

pytestmark = pytest.mark.newest

THETA = np.array([1.0, -0.5, 0.0])
RELEASE = sd.Release(sd.GaussianMechanism.from_scale(0.4), sd.GaussianMechanism.from_scale(0.3), fit_intercept=True)


def told(error, n=20_000, release=RELEASE, columns=2, unit=1.0):
    """Return what residuals of y = x'theta + error(rng, X) tell, and the second moments of true rows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, columns))
    y = unit * (X @ THETA[:columns] + error(rng, X))
    release = release if unit == 1.0 else sd.Release(
        sd.GaussianMechanism.from_scale(0.4), sd.GaussianMechanism.from_scale(0.3 * unit), fit_intercept=True
    )  # fmt: skip
    noised = release.privatize(X, y, random_state=1)
    corrected = sd.debias(sd.losses.huber(0.2 * unit), noised.release, method="surrogate")
    records = corrected.records(noised.X, noised.y)
    known = ReleasedRecords.of(corrected, records)
    found = moments_told(known, records.correction.design, unit * THETA)
    return found, np.diag(np.append(np.ones(columns), 1.0))


def test_residuals_apart_from_the_columns_tell_next_to_nothing():
    """All that is left is the fiftieth for finer functions and the sampling error: of 20,000 records less than 3%."""
    found, _ = told(lambda rng, X: 0.5 * rng.normal(size=len(X)))
    assert np.all(np.diag(found)[:2] > 0.02)
    assert np.all(np.diag(found)[:2] < 0.05)
    assert found[2, 2] == pytest.approx(1.02, abs=0.02)
    assert np.linalg.eigvalsh(found).min() > 0


def test_columns_that_residuals_follow_are_told_by_them():
    """The residual is a x + e with e of variance s: E[x | r] has the second moment a^2/(a^2 + s).

    Without the covariance of a row's noise with that of the residual it would be 0.98 here, not 0.61.
    """
    found, _ = told(lambda rng, X: -0.6 * X[:, 0] + 0.5 * rng.normal(size=len(X)))
    assert found[0, 0] == pytest.approx(0.36 / (0.36 + 0.25) + 0.02, abs=0.05)
    assert found[1, 1] < 0.06
    # Where the spread follows a column and not its mean, even functions tell of it.
    spread, _ = told(lambda rng, X: 0.4 * np.exp(0.6 * X[:, 0]) * rng.normal(size=len(X)))
    assert 0.1 < spread[0, 0] < 0.7
    assert spread[1, 1] < 0.06


def test_the_unit_of_the_target_does_not_matter():
    plain, large = (
        told(lambda rng, X: 0.5 * rng.lognormal(0, 0.8, len(X)), n=3_000, unit=unit)[0] for unit in (1.0, 1e4)
    )
    np.testing.assert_allclose(large, plain, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    "release",
    [
        sd.Release(sd.LaplaceMechanism.from_scale(0.3), fit_intercept=True),
        sd.Release(sd.GaussianMechanism.from_scale(0.4), sd.LaplaceMechanism.from_scale(0.2), fit_intercept=True),
        sd.Release(sd.GaussianMechanism.from_scale(0.4), sd.GaussianMechanism.from_scale(30.0), fit_intercept=True),
    ],
)
def test_noise_that_is_not_normal_or_hides_all_waves_tells_nothing(release):
    """The bound is then that of Cauchy and Schwarz."""
    assert told(lambda rng, X: 0.5 * rng.normal(size=len(X)), n=2_000, release=release)[0] is None


def test_the_bound_of_a_fit_is_the_smaller_one():
    """Slopes have a third of the bound, the intercept all of it: its bias may be as large (half of the errors 0)."""
    script = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "surrogates.py"))
    truth = np.array([1.0, -0.5, 0.4])
    ((_, reach, wide),) = script["narrow_fits"]("huber(0.2)", "lognormal", 0.4, 0.5, 20_000, 1, truth)
    assert np.all(reach[:2] < 0.5 * wide[:2])
    np.testing.assert_allclose(reach[2], wide[2], rtol=1e-4)
    assert np.all(reach > 1.96)


def test_the_table_of_intervals_runs(capsys):
    script = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "surrogates.py"))
    script["print_intervals"](1, [("quantile(0.5, 0.4)", "rounded target", 0.3, 0.4, 500)], 2_000)
    assert "quantile(0.5, 0.4)" in capsys.readouterr().out
    for errors in ("lognormal columns", "heteroscedastic", "half of them 0", "binary target"):
        X, y = script["with_errors"](np.random.default_rng(0), 50, errors)
        assert (X.shape, y.shape) == ((50, 2), (50,))
