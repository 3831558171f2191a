"""Calibration curves of true records from released ones: exact by enumeration and quadrature."""

import functools
import math

import numpy as np
import pytest
from released_records import COIN, NORMAL, THETA, TRUE, X4, Y4, every_outcome, records, release_of
from scipy.special import expit

import symdebias as sd
from symdebias.evaluation import calibration_curve
from symdebias.exceptions import DivergenceError, InferenceError, NoExactCorrectionError

pytestmark = pytest.mark.newest


@pytest.mark.parametrize("link", ["logistic", "identity", "exponential"])
def test_calibration_has_the_true_means_over_the_noise(link):
    release = release_of(NORMAL, COIN)
    X, y = records(n=120)
    released = every_outcome(release, X, y)
    u = X @ THETA[:2] + THETA[2]
    curve = calibration_curve(
        THETA, *released[:2], release=release, link=link, sample_weight=released[2], points=[-1.5, 0.0, 1.0]
    )
    s = 0.25 * THETA[0] ** 2
    assert curve.score_variance == pytest.approx(s)
    window = np.exp(-((u - curve.scores[:, None]) ** 2) / (2 * curve.bandwidth**2))
    window /= window.sum(axis=1, keepdims=True)
    model = {"logistic": expit(u), "identity": u, "exponential": np.exp(u)}[link]
    targets = (y + 1) / 2 if link == "logistic" else y
    np.testing.assert_allclose(curve.observed, window @ targets, atol=1e-9)
    allowed = curve.bias if link == "logistic" else 1e-9
    assert np.all(np.abs(curve.predicted - window @ model) <= allowed)
    assert np.all(curve.bias < 0.01)
    if link == "logistic":
        naive = calibration_curve(
            THETA, released[0], released[1], release=TRUE, sample_weight=released[2], points=[-1.5, 0.0, 1.0],
            bandwidth=curve.bandwidth,
        )  # fmt: skip
        assert np.abs(naive.observed - window @ targets).max() > 0.05


# Noise that is not normal, on the first of two columns, with the largest bias that calibration under it may state.
OTHERS = {
    "Laplace": (sd.LaplaceMechanism.from_scale(0.4), 1e-4),
    "a grid": (sd.DiscreteLaplaceMechanism.from_scale(0.5, step=0.5), 1e-4),
    "categories": (sd.RandomizedResponse(epsilon=1.0), 1e-4),
}


@pytest.mark.parametrize("link", ["logistic", "identity", "exponential"])
@pytest.mark.parametrize("name", OTHERS)
def test_calibration_under_other_noise_has_the_true_means(name, link):
    """Means over all outcomes, to 1e-6 and the stated bias; without its correction a window is off by .003 and more."""
    mechanism, largest = OTHERS[name]
    release = release_of(mechanism, COIN)
    X, y = records(n=60)
    if name == "categories":
        X[:, 0] = np.where(X[:, 0] > 0, 1, -1)
    released = every_outcome(release, X, y)
    points = [-1.0, 0.5]
    curve = calibration_curve(
        THETA, *released[:2], release=release, link=link, sample_weight=released[2], points=points, bandwidth=0.8
    )
    u = X @ THETA[:2] + THETA[2]
    window = np.exp(-((u - curve.scores[:, None]) ** 2) / (2 * curve.bandwidth**2))
    window /= window.sum(axis=1, keepdims=True)
    model = {"logistic": expit(u), "identity": u, "exponential": np.exp(u)}[link]
    targets = (y + 1) / 2 if link == "logistic" else y
    np.testing.assert_allclose(curve.observed, window @ targets, atol=1e-6)
    assert np.all(np.abs(curve.predicted - window @ model) <= curve.bias + 1e-6)
    assert np.all(curve.bias < largest)
    ignored = calibration_curve(
        THETA, *released[:2], release=release_of(None, COIN), link=link, sample_weight=released[2], points=points,
        bandwidth=0.8,
    )  # fmt: skip
    assert np.abs(ignored.predicted - window @ model).max() > 0.003


def test_calibration_under_a_mix_of_noises_is_within_its_stated_bias():
    """One normal and one Laplace column, 20 draws: an error of the mean of a third of a standard error is seen."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(2_000, 2))
    y = np.where(rng.random(2_000) < expit(X @ [1.0, -1.0]), 1.0, -1.0)
    release = sd.Release({"a": sd.GaussianMechanism.from_scale(0.4), "b": sd.LaplaceMechanism.from_scale(0.3)}, COIN)
    curves = []
    for draw in range(20):
        noised = release.privatize(X, y, random_state=draw)
        curves.append(calibration_curve([1.0, -1.0], noised.X, noised.y, release=release, points=[-1.0, 0.5],
                                        bandwidth=1.0))  # fmt: skip
    window = np.exp(-((X @ [1.0, -1.0] - curves[0].scores[:, None]) ** 2) / 2)
    window /= window.sum(axis=1, keepdims=True)
    for wanted, values, errors, bias in (
        (window @ expit(X @ [1.0, -1.0]), "predicted", "predicted_standard_errors", curves[0].bias),
        (window @ ((y + 1) / 2), "observed", "observed_standard_errors", 0.0),
    ):
        off = np.mean([getattr(curve, values) for curve in curves], axis=0) - wanted
        error = np.mean([getattr(curve, errors) for curve in curves], axis=0) / math.sqrt(20)
        assert np.all(np.abs(off) < 5 * error + bias)
    assert np.all(curves[0].bias < 0.01)


def test_calibration_tells_a_calibrated_model_from_an_overconfident_one():
    X, y = records(n=20_000)
    noised = sd.Release(NORMAL, COIN, fit_intercept=True).privatize(X, y, random_state=9)
    good = calibration_curve(THETA, noised.X, noised.y, release=noised.release)
    gap = np.abs(good.observed - good.predicted) / good.difference_standard_errors
    assert gap.max() < 5.5  # ten windows: a false alarm below 4e-7
    assert np.all(np.diff(good.predicted) > 0)
    assert str(good).count("\n") == 11
    bad = calibration_curve(2 * THETA, noised.X, noised.y, release=noised.release)
    assert (np.abs(bad.observed - bad.predicted) / bad.difference_standard_errors).max() > 6
    # Without noise the curve is a kernel smoother of the true records.
    plain = calibration_curve(THETA, X, y, release=TRUE, points=3)
    assert plain.score_variance == 0
    assert np.all(plain.bias == 0)


@pytest.mark.parametrize("target", [None, sd.RandomizedResponse(epsilon=8.0)])
def test_a_share_that_no_record_or_two_decide_has_no_standard_error(target):
    """Without the test for it 0 of 400 has a standard error of 0, and one of 400 one that is mostly too small."""
    X = np.linspace(-2.0, 2.0, 400)[:, None]
    curve = functools.partial(calibration_curve, [1.0], release=sd.Release(None, target, noiseless=("a",)), points=3)
    for count, is_told in ((0, False), (2, False), (40, True)):
        for label in (1.0, -1.0):
            y = np.full(400, -label)
            y[: 10 * count : 10] = label
            found = curve(X, y)
            for kind, ends in zip(("observed", "difference"), found.confidence_intervals()[1:], strict=True):
                told = np.isfinite(getattr(found, f"{kind}_standard_errors"))
                assert np.all(told == is_told)
                assert np.all(np.isfinite(ends) == told[:, None])
            assert np.all(found.predicted_standard_errors > 0)
            assert np.all(found.observed_freedom >= 5) == is_told
    # Of numbers that are all the same no record shows how others would be.
    counts = functools.partial(curve, release=sd.Release(None, noiseless=("a",)), link="exponential")
    found = counts(X, np.zeros(400))
    assert np.all(np.isnan(found.observed_standard_errors))
    assert np.all(found.difference_freedom == 0)


def test_no_window_has_a_surer_share_than_its_records_tell():
    """Records far off alone have the other label: by the little that they weigh it had an interval of 1e-9."""
    X = np.linspace(-2.0, 2.0, 800)[:, None]
    y = np.where(X[:, 0] < 0, -1.0, 1.0)
    curve = functools.partial(calibration_curve, [1.0], X, points=[-1.0, 1.0], bandwidth=0.2)
    found = curve(y, release=sd.Release(None, noiseless=("a",)))
    windows = np.exp(-((X[:, 0] - found.scores[:, None]) ** 2) / 0.08)
    records = windows.sum(axis=1) ** 2 / (windows**2).sum(axis=1)
    _, observed, difference = found.confidence_intervals()
    # That of a share of which so many records have none, which is missed in 2.5% of draws.
    least = 1 - 0.025 ** (1 / records)
    np.testing.assert_allclose([observed[0, 1], 1 - observed[1, 0]], least, rtol=0.01)
    assert np.all(found.observed_standard_errors < 1e-5)
    assert difference[0, 1] - (found.observed - found.predicted)[0] >= 0.99 * least[0]
    np.testing.assert_allclose(np.abs(found.unseen), least, rtol=0.01)
    # Where both labels are in the window its standard error reaches farther.
    y[::7] *= -1
    mixed = curve(y, release=sd.Release(None, noiseless=("a",)))
    assert np.all(np.abs(mixed.unseen) < 1.9 * mixed.observed_standard_errors)
    assert not curve(X[:, 0], release=sd.Release(None, noiseless=("a",)), link="identity").unseen.any()


def test_intervals_of_one_wide_window_are_those_of_a_share():
    X, y = np.linspace(-1.0, 1.0, 200)[:, None], np.where(np.arange(200) % 25 == 0, 1.0, -1.0)
    release = sd.Release(None, noiseless=("a",), fit_intercept=True)
    curve = calibration_curve([0.1, 0.0], X, y, release=release, points=[0.0], bandwidth=1e5)
    # All scores are above 0, so that accuracy is the share of the larger label.
    share = sd.evaluation.evaluate([1.0, 2.0], X, y, metric="accuracy", release=release)
    assert curve.observed_freedom[0] == pytest.approx(share.degrees_of_freedom, rel=1e-6)
    assert curve.confidence_intervals(0.9)[1][0] == pytest.approx(share.confidence_interval(0.9), rel=1e-6)
    predicted, _, difference = curve.confidence_intervals()
    assert predicted.shape == difference.shape == (1, 2)
    # Few records are in the long tail above: the difference is skewed as the share is.
    assert curve.difference_skewness[0] == pytest.approx(share.skewness, rel=0.1)
    middle = curve.observed[0] - curve.predicted[0]
    assert difference[0, 1] - middle > 1.1 * (middle - difference[0, 0])


CURVE = functools.partial(calibration_curve, THETA)
BAD = {
    "link": (CURVE, {"link": "probit"}, ValueError, "link='probit' is not known"),
    "bandwidth": (
        CURVE, {"release": release_of(NORMAL), "bandwidth": 0.6}, ValueError, "bandwidth=0.6 is not above the standard",
    ),
    "no points": (CURVE, {"points": 0}, ValueError, "points=0 is too small"),
    "points": (CURVE, {"points": "ten"}, TypeError, "points='ten' is neither"),
    "points in no list": (CURVE, {"points": np.array(1.0)}, ValueError, r"points has the shape \(\)\. Give a number"),
    "very many points": (CURVE, {"points": 1001}, ValueError, r"points=1001 is too large\. It may be 1,000"),
    "a long list of points": (CURVE, {"points": np.zeros(1001)}, ValueError, "points has 1,001 scores"),
    "a point at no distance": (CURVE, {"points": [0.0, 1e308]}, ValueError, r"points has 1e\+308, which is more than"),
    "one window": (CURVE, {"bandwidth": 1e308}, ValueError, r"bandwidth=1e\+308 is more than 1e\+08 times"),
    "far point": (CURVE, {"points": [1e3]}, ValueError, "no record has a released score near 1000"),
    "flat": (functools.partial(calibration_curve, np.zeros(3)), {}, ValueError, "all records have the same score"),
    "overflowing prediction": (
        functools.partial(calibration_curve, 500 * THETA), {"link": "exponential"}, DivergenceError, "or not finite",
    ),
    "noise without waves": (
        CURVE, {"release": release_of(sd.UniformMechanism(0.3))}, NoExactCorrectionError, "waves are not undone",
    ),
    "a cap": (
        functools.partial(calibration_curve, [1.0, -1.0]),
        {"release": sd.Release(sd.SphericalCapMechanism(epsilon=4.0, radius=2.0)), "X": X4 / 4}, NoExactCorrectionError,
        "a point is no sum of a record and noise",
    ),
    "too few records": (
        CURVE, {"release": release_of(sd.LaplaceMechanism.from_scale(0.3))}, InferenceError, "not told apart from 0",
    ),
    "a narrow window": (
        CURVE, {"release": release_of(sd.LaplaceMechanism.from_scale(0.3)), "bandwidth": 1e-3}, NoExactCorrectionError,
        "Use a larger bandwidth",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_curves_are_refused(name):
    function, options, error, message = BAD[name]
    arguments = {"X": X4, "y": Y4, "release": TRUE, **options}
    with pytest.raises(error, match=message):
        function(arguments.pop("X"), arguments.pop("y"), **arguments)


@pytest.mark.parametrize("noise", [sd.GaussianMechanism.from_scale(0.5), sd.LaplaceMechanism.from_scale(0.3)])
def test_targets_far_from_0_change_nothing_but_the_curve(noise):
    """Standard errors were those of rounding, or none."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(2_000, 2))
    release = sd.Release({"a": noise}, noiseless=("b",), fit_intercept=True)
    noised = release.privatize(X, X @ [1.0, -0.5] + rng.normal(size=2_000), random_state=1)
    near, far = (
        calibration_curve([1.0, -0.5, shift], noised.X, noised.y + shift, release=release, link="identity", points=3)
        for shift in (0.0, 1e7)
    )
    np.testing.assert_allclose(far.scores - 1e7, near.scores, atol=1e-6)
    for name in ("predicted", "observed"):
        np.testing.assert_allclose(getattr(far, name) - 1e7, getattr(near, name), atol=1e-6)
        error = f"{name}_standard_errors"
        np.testing.assert_allclose(getattr(far, error), getattr(near, error), rtol=1e-5)
    np.testing.assert_allclose(far.difference_standard_errors, near.difference_standard_errors, rtol=1e-5)
