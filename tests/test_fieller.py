"""Intervals and p values where the curvature along a parameter is uncertain."""

import math

import numpy as np
import pytest

import symdebias as sd
from symdebias._fieller import fieller_reach, fieller_variance
from symdebias.exceptions import InferenceError
from symdebias.inference import Inference

CURVING = np.array([[0.2, 0.05], [0.0, 0.0], [-0.3, 0.09]])
KNOWN = Inference(np.diag([0.04, 0.09, 1.0]), "sandwich", bias=np.array([0.0, 0.1, 0.2]), curving=CURVING)


def inverse_curvature(records=400, scatter=7.0, draws=4000, seed=0):
    """Return roots g/h of means, their variances, curvings, and the truth, 1."""
    rng = np.random.default_rng(seed)
    h = 1 + scatter * rng.normal(size=(draws, records))
    g = 1 + 2 * rng.normal(size=(draws, records))
    mean = h.mean(axis=1)
    keep = mean > 2.5 * h.std(axis=1) / math.sqrt(records)
    h, g, mean = h[keep], g[keep], mean[keep, None]
    theta = g.mean(axis=1, keepdims=True) / mean
    score = h * theta - g
    variance = (score / mean).var(axis=1) / records
    change = h / mean * np.sqrt(variance)[:, None]
    centred = score / mean - (score / mean).mean(axis=1, keepdims=True)
    scale = (score / mean).var(axis=1)
    curving = np.stack([2 * (centred * change).mean(axis=1) / scale, change.var(axis=1) / scale], axis=1)
    return theta[:, 0], variance, curving, 1.0


@pytest.mark.in_turn
def test_intervals_cover_where_the_curvature_is_three_standard_errors():
    theta, variance, curving, truth = inverse_curvature()
    plain, covered = 0, 0
    for value, spread, bends in zip(theta, variance, curving, strict=True):
        low, high = value - 1.96 * math.sqrt(spread), value + 1.96 * math.sqrt(spread)
        plain += low <= truth <= high
        inference = Inference(np.array([[spread]]), "sandwich", curving=bends[None])
        low, high = inference.interval(np.array([value]), 0.95)[0]
        covered += low <= truth <= high
    # Of 2,500 draws: an error of .005. A constant variance is what this test is to tell from it.
    assert len(theta) > 2000
    assert plain / len(theta) < 0.93
    assert covered / len(theta) > 0.935


def test_ends_are_the_values_that_pass_at_their_level():
    for place, (slope, bend) in ((0, CURVING[0]), (2, CURVING[2])):
        known = Inference(KNOWN.covariance, "sandwich", curving=CURVING)
        error = known.standard_errors()[place]
        low, high = known.interval(np.zeros(3), 0.9)[place] / error
        for end, root in zip((low, high), (-1, 1), strict=True):
            assert root * end >= 1.6448
            variance = 1 + slope * end + bend * end**2
            assert abs(end) == pytest.approx(1.6448536 * math.sqrt(max(variance, 1.0)), rel=1e-6)


def test_a_curvature_that_may_be_zero_leaves_an_interval_without_ends():
    inference = Inference(np.eye(1), "sandwich", curving=np.array([[0.0, 0.3]]))
    assert inference.interval(np.array([5.0]), 0.95).tolist() == [[-math.inf, math.inf]]
    assert inference.pvalues(np.array([1e9]))[0] > 0.05
    assert np.isfinite(inference.interval(np.array([5.0]), 0.9)).all()


@pytest.mark.parametrize("theta", [[0.5, 1.0, -4.0], [-0.7, -1.0, 3.0], [0.1, 0.2, 0.1]])
def test_p_values_and_tests_of_one_parameter_agree_with_intervals(theta):
    theta = np.array(theta)
    for place, pvalue in enumerate(KNOWN.pvalues(theta)):
        row = np.eye(3)[place]
        for level, leaves_out in ((1 - pvalue - 1e-6, True), (min(1 - pvalue + 1e-6, 1 - 1e-9), False)):
            if not 0 < level < 1:
                continue
            low, high = KNOWN.interval(theta, level)[place]
            assert (not low <= 0 <= high) == leaves_out
        assert KNOWN.test(theta, row, 0.0).pvalue == pytest.approx(pvalue, rel=1e-6)


def test_intervals_are_never_shorter_and_parameters_without_a_bend_keep_their_bits():
    plain = Inference(KNOWN.covariance, "sandwich", bias=KNOWN.bias)
    theta = np.array([1.0, 2.0, 3.0])
    before, after = plain.interval(theta, 0.95), KNOWN.interval(theta, 0.95)
    assert np.all(after[:, 0] <= before[:, 0])
    assert np.all(after[:, 1] >= before[:, 1])
    assert after[1].tolist() == before[1].tolist()
    assert KNOWN.pvalues(theta)[1] == plain.pvalues(theta)[1]
    both = np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    assert KNOWN.test(theta, both, 0.0).pvalue > plain.test(theta, both, 0.0).pvalue
    assert fieller_variance(0.0, 0.3, 0.1) == 1.0


def test_other_units_change_ends_alone():
    theta, matrix = np.array([1.0, 2.0, 3.0]), np.diag([-2.0, 3.0, 0.5])
    expected = KNOWN.interval(theta, 0.95) * np.diag(matrix)[:, None]
    expected[0] = expected[0, ::-1]
    np.testing.assert_allclose(KNOWN.mapped(matrix).interval(matrix @ theta, 0.95), expected, rtol=1e-12)
    mixed = KNOWN.mapped(np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 0.0]]))
    assert mixed.curving.tolist() == [[0.0, 0.05], [0.0, 0.0]]


def test_a_refusal_stays_one():
    refused = Inference(np.eye(1), "sandwich", "no.", curving=np.array([[0.0, 0.3]]))
    with pytest.raises(InferenceError, match="no"):
        refused.interval(np.zeros(1), 0.95)


def rare_column(n=2000, noise=0.4, seed=3):
    """Records of a column that is 0 but for 2%, whose curvature is hardly more than its noise."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=n), 1.2 * (rng.random(n) < 0.02)])
    y = X @ [1.0, 1.5] + rng.normal(size=n)
    release = sd.Release({"a": sd.GaussianMechanism.from_scale(0.3), "rare": sd.GaussianMechanism.from_scale(noise)})
    return release, release.privatize(X, y, random_state=seed)


def test_a_fit_says_what_its_intervals_allow_for(tmp_path):
    release, noised = rare_column()
    fit = sd.m_estimate(sd.debias(sd.losses.least_squares(), release), noised.X, noised.y)
    curving = fit.inference.curving
    assert curving[0].tolist() == [0.0, 0.0]
    # By hand: D = diag(.3^2, .4^2), g = (x'theta - y) x - D theta, H = x x' - D.
    D, Q = np.diag([0.09, 0.16]), np.linalg.inv(noised.X.T @ noised.X / 2000 - np.diag([0.09, 0.16]))
    gradients = (noised.X @ fit.theta - noised.y)[:, None] * noised.X - D @ fit.theta
    move = fit.covariance[:, 1] / fit.standard_errors[1]
    changes = ((noised.X @ move)[:, None] * noised.X - D @ move) @ Q[1]
    plain = gradients @ Q[1]
    expected = [2 * np.cov(plain, changes)[0, 1] / plain.var(), changes.var() / plain.var()]
    np.testing.assert_allclose(curving[1], expected, rtol=0.02)
    assert any("Fieller" in note for note in fit.inference.notes)
    assert "Fieller" in fit.summary()
    low, high = fit.confidence_interval()[1]
    assert high - low > 1.03 * 2 * 1.96 * fit.standard_errors[1]
    fit.save(tmp_path / "fit")
    again = sd.Fit.load(tmp_path / "fit")
    assert np.array_equal(again.confidence_interval(), fit.confidence_interval())


def test_a_known_term_of_the_score_keeps_what_belongs_to_the_others():
    release, noised = rare_column()
    corrected = sd.debias(sd.losses.least_squares(), release)
    plain = sd.m_estimate(corrected, noised.X, noised.y)
    offset = np.full(len(noised.y), 0.25)
    shifted = sd.m_estimate(corrected, noised.X, noised.y + offset, offset=offset)
    np.testing.assert_allclose(shifted.confidence_interval(), plain.confidence_interval(), rtol=1e-6)


def test_records_without_noise_have_the_intervals_of_the_sandwich():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = X @ [1.0, -1.0] + rng.normal(size=60)
    fit = sd.m_estimate(sd.debias(sd.losses.least_squares(), sd.Release(noiseless=("a", "b"))), X, y)
    assert fit.inference.curving is None


@pytest.mark.parametrize("slope", [-0.3, 0.0, 0.2])
@pytest.mark.parametrize("bend", [0.0, 0.03, 0.15])
def test_one_end_is_where_the_test_of_its_variance_ends(slope, bend):
    found = fieller_reach(1.96, slope, bend)
    assert found >= 1.96
    if found > 1.96:
        assert found / math.sqrt(fieller_variance(found, slope, bend)) == pytest.approx(1.96)
    assert fieller_reach(3.0, slope, bend) == math.inf or bend < 1 / 9
