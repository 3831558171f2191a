"""Tests of restrictions on arrays, and of how far intervals reach, apart from any fit."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.stats import norm

import symdebias as sd
from symdebias.exceptions import InferenceError
from symdebias.inference import Inference, critical_values, sandwich, skewed_reaches, wald_test


def test_what_has_no_variance_is_not_tested():
    """Parameters of softmax sum to 0 over the classes, and a parameter that is held does not vary."""
    apart = np.eye(3) - 1 / 3
    for rows in (np.eye(3), np.ones(3)):
        with pytest.raises(InferenceError, match="has no variance, and cannot be tested"):
            wald_test(np.array([1.0, 2.0, -3.0]), 0.01 * apart, rows)
    assert wald_test(np.array([1.0, 2.0, -3.0]), 0.01 * apart, np.eye(3)[:2]).degrees_of_freedom == 2
    with pytest.raises(InferenceError, match="a parameter is held"):
        wald_test(np.array([1.0, 2.0]), np.diag([0.0, 1.0]), [1.0, 0.0])
    with pytest.raises(ValueError, match=r"statistic is above every float\. Correct them"):
        wald_test(np.array([1.0, 2.0]), np.eye(2), [1.0, 2.0], 1e308)
    # Other units are no reason.
    units = np.array([1e-9, 1.0, 1e9])
    assert wald_test(units, np.diag(units**2), np.eye(3)).statistic == pytest.approx(3)


def test_restrictions_that_differ_by_a_parameter_of_small_variance_are_tested_as_apart():
    """theta_1 = 0 and theta_1 + theta_2 = 0 are theta_1 = 0 and theta_2 = 0, whatever the unit of theta_2."""
    theta, covariance = np.array([1.0, 3e-9, 2.0]), np.diag([1.0, 1e-20, 4.0])
    wanted = wald_test(theta, covariance, np.eye(3), [0.5, 1e-9, 0.0])
    assert wanted.statistic == pytest.approx(0.25 + 400 + 1)
    together = [[1.0, 1.0, 0.0], [1.0, 0.0, 0.0], [7.0, 1.0, 7.0]]
    found = wald_test(theta, covariance, together, np.array(together) @ [0.5, 1e-9, 0.0])
    assert found.statistic == pytest.approx(wanted.statistic, rel=1e-6)
    # Biases are in the same units.
    bias = np.array([0.1, 1e-10, 0.2])
    noncentrality = [wald_test(theta, covariance, rows, bias=bias).noncentrality for rows in (np.eye(3), together)]
    assert noncentrality[1] == pytest.approx(noncentrality[0], rel=1e-9)
    rng = np.random.default_rng(0)
    root, rows = rng.normal(size=(5, 5)), rng.normal(size=(3, 5))
    distance = rows @ np.ones(5) - 0.3
    plain = distance @ np.linalg.solve(rows @ root @ root.T @ rows.T, distance)
    assert wald_test(np.ones(5), root @ root.T, rows, 0.3).statistic == pytest.approx(plain, rel=1e-9)


@given(st.floats(0.0, 60.0), st.floats(-0.7, 0.7))
def test_the_far_end_of_a_skewed_estimate_is_that_of_the_transformed_error(reach, skewness):
    """g as of 2 records that decide is at most .71. The polynomial is solved to rounding, next to 0 as well."""
    below, above = skewed_reaches(reach, skewness)
    near, far = (below, above) if skewness >= 0 else (above, below)
    assert near == reach
    assert far >= reach
    # More skewness than that would bring the end nearer.
    g = min(abs(skewness), 4.5 / far + 2.25 / far**3) if far > 0.1 else abs(skewness)
    moved = -far + g * far**2 / 3 - g**2 * far**3 / 27 + g / 6
    assert moved == pytest.approx(-reach, rel=1e-8, abs=1e-8)


@pytest.mark.parametrize("reach", [0.5, 1.64, 1.96, 2.57, 4.0, 12.0])
def test_more_skewness_never_brings_an_end_nearer(reach):
    ends = [skewed_reaches(reach, g)[1] for g in np.linspace(0, 3, 301)]
    assert np.all(np.diff(ends) >= -1e-9)
    assert ends[100] > reach


def test_biases_of_all_combinations_are_bounded_at_once():
    """Each factor has a bound, and the least of these and of the sums of parameters' is taken; to their rounding."""
    rng = np.random.default_rng(0)
    factors = rng.normal(size=(2, 3, 3)) * [[[1.0]], [[1.3]]]
    bias = np.linalg.norm(factors, axis=2).min(axis=0)
    known = Inference(np.eye(3), "sandwich", bias=bias, bias_factors=factors)
    rows = rng.normal(size=(200, 3))
    both = np.linalg.norm(rows @ factors, axis=2)
    assert 0 < np.mean(both[0] < both[1]) < 1
    found = known.mapped(rows)
    expected = np.minimum(both.min(axis=0), np.abs(rows) @ bias)
    np.testing.assert_allclose(found.bias, expected, rtol=1e-9)
    # What is mapped once more has the same factors.
    again = rng.normal(size=(4, 200))
    np.testing.assert_allclose(found.mapped(again).bias_factors, again @ rows @ factors, rtol=1e-9)
    plain = replace(known, bias_factors=None).mapped(rows).bias
    np.testing.assert_allclose(plain, np.abs(rows) @ bias)
    # Biases that cancel leave what rounding does.
    far = replace(known, bias=np.array([1e8, 1.0, 0.0]), bias_factors=np.array([[[1e8], [-1.0], [0.0]]]))
    assert 0 < far.mapped(np.array([[1.0, 1e8, 0.0]])).bias[0] < 1e-4
    huge = np.array([[1e200, -1e200, 1e200]])
    np.testing.assert_allclose(known.mapped(huge).bias, np.abs(huge) @ bias)


def test_the_noncentrality_is_the_largest_that_factors_allow():
    rng = np.random.default_rng(1)
    root, factor, rows = rng.normal(size=(4, 4)), rng.normal(size=(4, 4)), rng.normal(size=(2, 4))
    covariance, bias = root @ root.T, np.linalg.norm(factor, axis=1)
    directions = rng.normal(size=(20_000, 4))
    moved = rows @ factor @ (directions / np.linalg.norm(directions, axis=1)[:, None]).T
    sizes = np.einsum("ij,ik,kj->j", moved, np.linalg.inv(rows @ covariance @ rows.T), moved)
    box = wald_test(np.ones(4), covariance, rows, bias=bias).noncentrality
    found = wald_test(np.ones(4), covariance, rows, bias=bias, bias_factors=factor[None])
    assert 0.98 * found.noncentrality < sizes.max() <= found.noncentrality < box
    known = Inference(covariance, "sandwich", bias=bias, bias_factors=factor[None])
    assert known.test(np.ones(4), rows, 0.0) == found
    # One restriction is rejected where the interval of the combination ends.
    one = known.mapped(rows[:1])
    for end in one.interval(rows[:1] @ np.ones(4), 0.9)[0]:
        assert known.test(np.ones(4), rows[0], end).pvalue == pytest.approx(0.1, rel=1e-9)


SKEWED = Inference(
    np.diag([0.04, 0.09, 1.0]), "sandwich", degrees_of_freedom=np.array([11.0, 23.0, np.inf]),
    bias=np.array([0.0, 0.15, 0.0]), skewness=np.array([[0.0, 0.3], [0.2, 0.0], [0.0, 0.0]]),
)  # fmt: skip
AT = np.array([1.0, -0.5, 2.0])


def test_intervals_of_skewed_parameters_reach_farther_on_the_side_of_the_long_tail():
    found = (SKEWED.interval(AT, 0.95) - AT[:, None]) / SKEWED.standard_errors()[:, None] * [-1, 1]
    plain = critical_values(0.95, np.zeros(3), SKEWED.freedom(3))
    expected = [skewed_reaches(plain[0], 0.3), skewed_reaches(plain[1], -0.2), (plain[2], plain[2])]
    # As far as quantiles of Student's t are told by all supported versions of SciPy.
    np.testing.assert_allclose(found, np.add(expected, [[0.0], [0.5], [0.0]]), rtol=1e-9)


@pytest.mark.parametrize("uncertain", [False, True], ids=["plain", "curvature and level uncertain"])
def test_p_values_and_tests_of_skewed_parameters_agree_with_intervals(uncertain):
    """The end of an interval is what a test rejects at just its level; on both sides, with bias and without."""
    inference = SKEWED
    if uncertain:
        curving = np.array([[0.1, 0.02], [-0.1, 0.03], [0.0, 0.01]])
        inference = replace(SKEWED, curving=curving, levelling=np.array([[0.01, 0.02], [0.0, 0.03], [0.0, 0.0]]))
    for level in (0.5, 0.8, 0.9):
        for place, ends in enumerate(inference.interval(AT, level)):
            for end in ends:
                chance = inference.pvalues(AT - end)[place]
                assert chance == pytest.approx(1 - level, rel=1e-7)
                assert inference.test(AT, np.eye(3)[place], end).pvalue == pytest.approx(chance, rel=1e-9)
                assert inference.test(AT, -2 * np.eye(3)[place], -2 * end).pvalue == pytest.approx(chance, rel=1e-9)
        # So are those of a combination, which is as skewed as the worst that takes part, on either side.
        for row in ([1.0, -1.0, 0.0], [0.5, 2.0, 0.3]):
            for end in inference.mapped(np.array([row])).interval(np.array([row]) @ AT, level)[0]:
                assert inference.test(AT, row, end).pvalue == pytest.approx(1 - level, rel=1e-7)
    # Nearer than the middle of a skewed estimate there is nothing to reject.
    assert inference.pvalues(AT - np.array([1.001, 0.0, 0.0]))[0] == 1
    assert inference.test(AT, np.eye(3)[0], 1.001).pvalue == pytest.approx(1)


OUTWARD = Inference(np.array([[0.04, 0.01], [0.01, 0.09]]), "sandwich", outward=1.5)


def test_where_longer_parameters_are_as_good_intervals_have_no_end_away_from_0():
    """It is that of all s theta, s >= 1, with theta in the interval; not at a level that the score test comes to."""
    plain, theta = replace(OUTWARD, outward=None), np.array([1.0, -0.3])
    (low, _), (_, high) = plain.interval(theta, 0.95)
    assert low > 0 < high
    np.testing.assert_array_equal(OUTWARD.interval(theta, 0.95), [[low, np.inf], [-np.inf, np.inf]])
    np.testing.assert_array_equal(OUTWARD.interval(-theta, 0.95), [[-np.inf, -low], [-np.inf, np.inf]])
    np.testing.assert_array_equal(OUTWARD.interval(theta, 0.8), plain.interval(theta, 0.8))
    # What does not vary stays.
    held = replace(OUTWARD, covariance=np.diag([0.0, 0.09]))
    np.testing.assert_array_equal(held.interval(theta, 0.95)[0], [1.0, 1.0])
    # A combination has the sign of its own value.
    rows = np.array([[1.0, -1.0], [-1.0, 0.0]])
    both = plain.mapped(rows).interval(rows @ theta, 0.95)
    assert both[0, 0] > 0
    expected = [[both[0, 0], np.inf], [-np.inf, -low]]
    np.testing.assert_array_equal(OUTWARD.mapped(rows).interval(rows @ theta, 0.95), expected)


def test_tests_reject_what_intervals_without_an_outer_end_leave_out():
    theta = np.array([1.0, -0.3])
    plain = replace(OUTWARD, outward=None)
    np.testing.assert_array_equal(OUTWARD.pvalues(theta), plain.pvalues(theta))
    most = 2 * norm.sf(1.5)
    for place, row in enumerate(np.eye(2)):
        for value in (-3.0, -0.2, 0.0, 0.5, 0.9, 1.1, 4.0):
            chance = OUTWARD.test(theta, row, value).pvalue
            assert chance == pytest.approx(OUTWARD.test(theta, -2 * row, -2 * value).pvalue)
            for level in (0.5, 0.8, 0.9, 0.95, 0.999):
                low, high = OUTWARD.interval(theta, level)[place]
                assert (chance < 1 - level) == (not low <= value <= high)
    # Of several restrictions at once: the nearest of all r/s.
    wanted = np.array([3.0, 2.0])
    of_share = minimize_scalar(lambda share: plain.test(theta, np.eye(2), share * wanted).statistic, (0.0, 1.0))
    assert 0 < of_share.x < 1
    found = OUTWARD.test(theta, np.eye(2), wanted)
    assert plain.test(theta, np.eye(2), wanted).pvalue < found.pvalue < most
    assert found.pvalue == pytest.approx(np.exp(-of_share.fun / 2), rel=1e-6)
    assert OUTWARD.test(theta, np.eye(2), 5 * theta).pvalue == pytest.approx(most)
    assert OUTWARD.test(theta, np.eye(2), 0.0).pvalue == plain.test(theta, np.eye(2), 0.0).pvalue


def test_nothing_is_known_of_an_intercept_beside_longer_slopes():
    """It goes where it is best for them, whichever sign it has; so do combinations that it takes part in."""
    covariance = np.array([[0.04, 0.01, 0.01], [0.01, 0.09, 0.02], [0.01, 0.02, 0.01]])
    inference = Inference(covariance, "sandwich", outward=1.5, intercepts=np.array([False, False, True]))
    theta, rows = np.array([1.0, -0.9, 3.0]), np.array([[1.0, 0.0, 1.0], [1.0, 1.0, 0.0], [0.0, 0.0, -2.0]])
    slopes, plain = replace(inference, intercepts=None), replace(inference, intercepts=None, outward=None)
    ends = inference.interval(theta, 0.95)
    np.testing.assert_array_equal(ends[:2], slopes.interval(theta, 0.95)[:2])
    np.testing.assert_array_equal(ends[2], [-np.inf, np.inf])
    np.testing.assert_array_equal(inference.interval(theta, 0.8), plain.interval(theta, 0.8))
    mapped = inference.mapped(rows)
    np.testing.assert_array_equal(mapped.intercepts, [True, False, True])
    np.testing.assert_array_equal(np.isinf(mapped.interval(rows @ theta, 0.95)).all(axis=1), [True, True, True])
    np.testing.assert_array_equal(
        mapped.interval(rows @ theta, 0.95)[1], slopes.mapped(rows).interval(rows @ theta, 0.95)[1]
    )
    # Tests agree: of the intercept none rejects at a level where the interval is the whole line.
    most = 2 * norm.sf(1.5)
    np.testing.assert_allclose(inference.pvalues(theta), [*plain.pvalues(theta)[:2], most])
    for row in rows[::2]:
        for value in (-50.0, 0.0, 50.0):
            assert inference.test(theta, row, value).pvalue == pytest.approx(most)
    assert inference.test(theta, rows[0], rows[0] @ theta).pvalue == pytest.approx(1)
    # Of several restrictions together, what they say of slopes alone is tested.
    both = np.array([[1.0, 0.0, 2.0], [0.0, 1.0, 1.0]])
    for wanted in ([0.0, 0.0], [-0.4, 0.3], [1.0, 2.0]):
        without = slopes.test(theta, np.array([[1.0, -2.0, 0.0]]), wanted[0] - 2 * wanted[1]).pvalue
        expected = max(min(without, most), plain.test(theta, both, wanted).pvalue)
        assert inference.test(theta, both, wanted).pvalue == pytest.approx(expected)
    # An intercept that is held stays.
    covariance[2] = covariance[:, 2] = 0.0
    np.testing.assert_array_equal(replace(inference, covariance=covariance).interval(theta, 0.95)[2], [3.0, 3.0])


def test_combinations_are_as_skewed_as_the_worst_that_takes_part():
    both = SKEWED.mapped(np.array([[1.0, 1.0, 0.0], [-2.0, 0.0, 0.0], [0.0, 0.0, 1.0]]))
    np.testing.assert_array_equal(both.skewness, [[0.3, 0.3], [0.3, 0.0], [0.0, 0.0]])
    plain = replace(SKEWED, skewness=None)
    rows = np.array([[1.0, 1.0, 0.0]])
    assert SKEWED.test(AT, rows, 0.0).pvalue > plain.test(AT, rows, 0.0).pvalue
    assert SKEWED.test(AT, np.eye(3)[2], 0.0) == plain.test(AT, np.eye(3)[2], 0.0)


def test_a_joint_test_is_less_sure_where_the_hypothesis_lies_on_the_side_of_a_long_tail():
    theta, skewness = np.array([1.0, 1.0]), np.array([[0.3, 0.0], [0.0, 0.0]])
    plain = Inference(0.1 * np.eye(2), "sandwich")
    skewed = replace(plain, skewness=skewness)
    below, above = ((np.eye(2), np.full(2, value)) for value in (0.0, 2.0))
    assert skewed.test(theta, *above) == plain.test(theta, *above)
    found = skewed.test(theta, *below)
    # As much less as it is for the parameter alone.
    alone = [one.test(theta, [[1.0, 0.0]], [0.0]).statistic for one in (skewed, plain)]
    assert found.statistic / plain.test(theta, *below).statistic == pytest.approx(alone[0] / alone[1], rel=1e-12)
    assert found.pvalue > plain.test(theta, *below).pvalue


def test_a_covariance_of_columns_far_from_0_is_that_of_the_columns():
    """Products of the inverse Hessian itself lost all digits of a variance beside the intercept's."""
    hessian, meat = np.array([[0.5, 0.1, 0.2], [0.1, 0.3, 0.0], [0.2, 0.0, 1.0]]), np.diag([0.7, 0.4, 1.5])
    # Parameters of columns that are larger by these numbers.
    moved = np.eye(3)
    moved[2, :2] = -5e4, 2e4
    back = np.linalg.inv(moved)
    found = sandwich(back.T @ hessian @ back, back.T @ meat @ back, 100)
    np.testing.assert_allclose(back @ found @ back.T, sandwich(hessian, meat, 100), rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("unit", [1e-200, 1.0, 1e300])
def test_a_restriction_is_the_same_in_every_unit(unit):
    """Of 1e300 the variance overflowed, and the p-value was 1; of 1e-200 it vanished."""
    theta, covariance = np.array([2.0, -1.0, 0.5]), np.diag([1.0, 4.0, 0.25])
    rows = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, -1.0]])
    expected = wald_test(theta, covariance, rows, [0.5, 0.0])
    found = wald_test(theta, covariance, [[unit, 1, 1], [1, 1, 1]] * rows, [0.5 * unit, 0.0])
    np.testing.assert_allclose([found.statistic, found.pvalue], [expected.statistic, expected.pvalue], rtol=1e-12)


def test_restrictions_that_are_no_matrix_are_named():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 2))
    corrected = sd.debias(sd.losses.least_squares(), sd.Release(sd.GaussianMechanism.from_scale(0.1)))
    fit = sd.m_estimate(corrected, X, X @ [1.0, 2.0] + rng.normal(size=90))
    with pytest.raises(ValueError, match="restrictions has rows of different lengths"):
        fit.wald_test([[1.0, 0.0], [1.0]])
