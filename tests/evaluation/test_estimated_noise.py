"""Metrics under noise that was estimated: their standard errors have the error of the estimate in them."""

import numpy as np
import pytest

import symdebias as sd
from symdebias.exceptions import InferenceError
from symdebias.solvers.noise_estimates import moved_releases

FREEDOM, SCALE = 30.0, 0.8
ESTIMATED = sd.Release({"a": sd.GaussianMechanism.from_estimate(SCALE, FREEDOM)}, noiseless=("b",), fit_intercept=True)
KNOWN = sd.Release({"a": sd.GaussianMechanism.from_scale(SCALE)}, noiseless=("b",), fit_intercept=True)
THETA = np.array([1.5, -0.5, 0.2])
# The variance of what the variance is off, as a share of it: that of an inverse Wishart law.
SHARE = 2 * FREEDOM**2 / ((FREEDOM - 2) ** 2 * (FREEDOM - 4))


def records(n=500, *, labels=False):
    rng = np.random.default_rng(0)
    true = rng.normal(size=(n, 2))
    scores = true @ THETA[:2] + THETA[2]
    y = np.where(rng.random(n) < 1 / (1 + np.exp(-scores)), 1, -1) if labels else scores + rng.normal(size=n)
    return true + SCALE * rng.normal(size=(n, 1)) * [1, 0], y


def both(metric, count=500, **options):
    X, y = records(count, labels=options.pop("labels", False))
    given = {"metric": metric, **options}
    return [sd.evaluation.evaluate(THETA, X, y, release=release, **given) for release in (ESTIMATED, KNOWN)]


def test_the_squared_error_by_hand():
    found, known = both("squared_error")
    assert found.value == known.value
    added = (THETA[0] ** 2 * SCALE**2) ** 2 * SHARE
    assert found.standard_error == pytest.approx(np.sqrt(known.standard_error**2 + added))
    freedom = found.standard_error**4 / (added**2 / FREEDOM)
    assert found.degrees_of_freedom == pytest.approx(freedom)
    assert found.skewness == 0
    # Where few records decide the rest, what is added has no part in their skewness.
    few, plain = both("squared_error", count=60)
    assert plain.skewness > 0
    assert few.skewness == pytest.approx(plain.skewness * (plain.standard_error / few.standard_error) ** 3)
    low, high = found.confidence_interval()
    assert high - low > 2 * 1.96 * found.standard_error


def test_r2_by_hand():
    found, known = both("r2")
    _, y = records()
    slope = THETA[0] ** 2 * SCALE**2 / np.var(y)
    assert found.standard_error**2 - known.standard_error**2 == pytest.approx(slope**2 * SHARE, rel=1e-3)


@pytest.mark.parametrize("metric", ["log_loss", "roc_auc"])
def test_other_metrics_by_differences(metric):
    """Against the slope in the scale, by a step of a twentieth; a tenth of the standard error would be seen."""
    found, known = both(metric, labels=True)
    X, y = records(labels=True)

    def at(variance):
        release = sd.Release(
            {"a": sd.GaussianMechanism.from_scale(np.sqrt(variance))}, noiseless=("b",), fit_intercept=True
        )
        return sd.evaluation.evaluate(THETA, X, y, metric=metric, release=release).value

    slope = (at(1.05 * SCALE**2) - at(0.95 * SCALE**2)) / 0.1
    expected = np.sqrt(known.standard_error**2 + slope**2 * SHARE)
    assert found.standard_error == pytest.approx(expected, rel=0.1)
    assert found.standard_error > 1.05 * known.standard_error


def test_curves_and_comparisons_have_it_too():
    X, y = records(labels=True)
    for name, fields in (
        ("roc_curve", ("true_positive_errors", "false_positive_errors")),
        ("calibration_curve", ("predicted_standard_errors", "observed_standard_errors")),
    ):
        options = {"thresholds": [0.0, 1.0]} if name == "roc_curve" else {"points": [-1.0, 1.5]}
        found, known = (
            getattr(sd.evaluation, name)(THETA, X, y, release=release, **options) for release in (ESTIMATED, KNOWN)
        )
        for field in fields:
            assert np.all(getattr(found, field) >= getattr(known, field))
            assert np.any(getattr(found, field) > 1.01 * getattr(known, field))
    assert sd.evaluation.roc_curve(THETA, X, y, release=ESTIMATED, thresholds=[0.0]).area.degrees_of_freedom
    candidates = {"right": lambda X, y: THETA, "half": lambda X, y: THETA / 2}
    found, known = (
        sd.evaluation.cross_validate(candidates, X, y, release=release, metric="squared_error", random_state=0)
        for release in (ESTIMATED, KNOWN)
    )
    added = found.estimates["right"].standard_error ** 2 - known.estimates["right"].standard_error ** 2
    assert added == pytest.approx((THETA[0] ** 2 * SCALE**2) ** 2 * SHARE)


def test_each_direction_of_a_covariance_is_moved():
    pair = sd.GaussianMechanism.from_replicates(np.random.default_rng(0).normal(size=(40, 2, 2)))
    moved = list(moved_releases(sd.Release({("a", "b"): pair})))
    assert len(moved) == 3
    for one in moved:
        (_, more), *_ = one.more.groups
        (_, less), *_ = one.less.groups
        np.testing.assert_allclose((np.array(more.covariance) + less.covariance) / 2, pair.covariance)
    assert not list(moved_releases(KNOWN))


def test_too_few_degrees_of_freedom_are_refused():
    X, y = records()
    few = sd.Release({"a": sd.GaussianMechanism.from_estimate(SCALE, 3.0)}, noiseless=("b",), fit_intercept=True)
    with pytest.raises(InferenceError, match="3 degrees of freedom, and more than 4 are needed"):
        sd.evaluation.evaluate(THETA, X, y, metric="squared_error", release=few)


def test_an_estimated_noise_does_not_make_up_for_a_share_of_one_record():
    """Its standard error is 0 to rounding, and with that of the noise in it an interval would be of the noise alone."""
    X, _ = records(300, labels=True)
    y = np.where(np.arange(300) < 1, 1.0, -1.0)
    found = sd.evaluation.evaluate(THETA, X, y, metric="recall", release=ESTIMATED)
    assert found.standard_error > 0
    with pytest.raises(sd.exceptions.InferenceError, match="carry what the metric is a share of"):
        found.confidence_interval()
    curve = sd.evaluation.roc_curve(THETA, X, y, release=ESTIMATED, thresholds=[0.5])
    assert np.isnan(curve.confidence_intervals()[0]).all()
