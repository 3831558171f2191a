"""Linear combinations of parameters, and intervals of what is predicted."""

import math
import time

import numpy as np
import pandas as pd
import pytest
import sympy as sp
from instances import U, Y
from scipy.special import expit, softmax
from scipy.stats import norm

import symdebias as sd
from symdebias.exceptions import InferenceError
from symdebias.inference import Inference

COVARIANCE = np.array([[0.04, 0.01, 0.0], [0.01, 0.09, -0.02], [0.0, -0.02, 0.05]])
RELEASE = sd.Release({("a", "b"): sd.GaussianMechanism.from_scale(0.5)}, fit_intercept=True)
THETA = np.array([1.0, -0.5, 0.2])
Z = norm.ppf(0.975)


def made(loss=None, release=RELEASE, theta=THETA, covariance=COVARIANCE, **options):
    inference = None if covariance is None else Inference(covariance, "sandwich", **options)
    return sd.Fit.of(
        sd.debias(loss or sd.losses.least_squares(), release), np.array(theta, dtype=float), solver="by hand",
        records=100, steps=3, began=time.perf_counter(), inference=inference,
    )  # fmt: skip


def test_a_combination_has_the_variance_of_a_combination():
    found = made().combinations([[1, -1, 0], [0, 0, 1]])
    variance = 0.04 + 0.09 - 2 * 0.01
    np.testing.assert_allclose(found.values, [1.5, 0.2])
    np.testing.assert_allclose(found.standard_errors, np.sqrt([variance, 0.05]))
    np.testing.assert_allclose(found.interval[0], 1.5 + Z * math.sqrt(variance) * np.array([-1, 1]), rtol=1e-6)
    assert found.pvalues[0] == pytest.approx(2 * norm.sf(1.5 / math.sqrt(variance)), rel=1e-6)
    assert np.all(found.bias_bound == 0)
    assert "1.5" in str(found)
    assert str(found).count("\n") == 2


def test_weights_by_name_are_those_by_place():
    fit = made()
    by_name = fit.combinations([{"a": 1.0, "b": -1.0}, {"intercept": 1}])
    np.testing.assert_array_equal(by_name.interval, fit.combinations([[1, -1, 0], [0, 0, 1]]).interval)
    np.testing.assert_array_equal(fit.combinations({"b": 2.0}).values, [-1.0])


def test_tables_and_labelled_columns_are_matched_by_name():
    fit, weights = made(), {"b": 2.0, "a": 1.0}
    expected = fit.combinations(weights).interval
    for given in (pd.Series(weights), pd.DataFrame([weights])):
        np.testing.assert_array_equal(fit.combinations(given).interval, expected)
    np.testing.assert_array_equal(fit.combinations(pd.Series([1.0, 2.0, 0.0])).interval, expected)
    with pytest.raises(ValueError, match="'c' is no parameter"):
        fit.combinations(pd.DataFrame({"c": [1.0]}))


def test_what_rounding_alone_makes_scatter_has_no_error():
    """Parameters of softmax sum to 0, and the variance of that came out below 0."""
    apart = np.array([0.1, 0.3, -0.7])
    fit = made(covariance=np.outer(apart, apart) + np.outer([1, -1, 0], [1, -1, 0]) / 3)
    for weights in ([3.0, 3.0, 12 / 7], [1.0, 1.0, 4 / 7], [-0.1, -0.1, -0.4 / 7]):
        assert fit.combinations(weights).standard_errors[0] == 0
    assert fit.combinations([1.0, 1.0, 4 / 7 + 1e-5]).standard_errors[0] == pytest.approx(7e-6)
    assert np.isinf(made().combinations([1e200, 0.0, 0.0]).interval).all()


def test_single_parameters_are_those_of_the_fit():
    """With few degrees of freedom, bias and an uncertain curvature, each its own."""
    options = {
        "degrees_of_freedom": np.array([7.0, math.inf, 30.0]), "bias": np.array([0.0, 0.1, 0.02]),
        "curving": np.array([[0.1, 0.05], [0.0, 0.0], [-0.1, 0.02]]),
    }  # fmt: skip
    fit = made(**options)
    found = fit.combinations(np.eye(3))
    np.testing.assert_allclose(found.interval, fit.confidence_interval(), rtol=1e-12)
    np.testing.assert_array_equal(found.bias_bound, fit.bias_bound)
    # A sum is as uncertain as the worst of what takes part, and biases may add up.
    both = fit.combinations([1, 1, 0])
    assert both.bias_bound == pytest.approx([0.1])
    plain = made(bias=np.array([0.0, 0.1, 0.02])).combinations([1, 1, 0]).interval
    assert both.interval[0, 0] < plain[0, 0]
    assert both.interval[0, 1] > plain[0, 1]


def test_many_combinations_are_those_one_by_one():
    fit, rows = made(), np.random.default_rng(0).normal(size=(700, 3))
    found = fit.combinations(rows)
    for place in (0, 255, 256, 699):
        np.testing.assert_allclose(found.interval[place], fit.combinations(rows[place]).interval[0], rtol=1e-12)


@pytest.mark.in_turn
def test_ends_of_many_combinations_are_those_one_by_one():
    """Each is found as if it were by itself, but for rounding, whatever is uncertain of it."""
    curving = np.array([[0.1, 0.05], [0.0, 0.0123], [-0.1, 0.02]])
    fit = made(
        bias=np.array([0.0, 0.3, 0.02]), curving=curving, levelling=np.array([[0.0, 0.2], [0.01, 0.0], [0.02, 0.02]]),
        degrees_of_freedom=np.array([np.inf, 7.5, np.inf]),
    )  # fmt: skip
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(700, 3)) * (rng.random((700, 3)) < 0.5)
    for level in (0.1, 0.8, 0.95):
        found = fit.combinations(rows, level=level)
        for place in range(0, 700, 23):
            alone = fit.combinations(rows[place], level=level)
            # Products of many rows are not rounded as those of one are.
            np.testing.assert_allclose(found.interval[place], alone.interval[0], rtol=1e-13)
            np.testing.assert_allclose(found.pvalues[place], alone.pvalues[0], rtol=1e-11)


def test_units_are_undone_in_combinations_and_applied_to_records():
    release = sd.Release(
        {"age": sd.GaussianMechanism.from_scale(0.5)}, fit_intercept=True, center={"age": 40.0}, scale={"age": 10.0}
    )
    fit = made(release=release, theta=[2.0, 1.0], covariance=np.diag([0.04, 0.01]))
    # Ten years are one unit.
    ten = fit.combinations({"age": 10.0}, original_units=True)
    np.testing.assert_allclose((ten.values[0], ten.standard_errors[0]), (2.0, 0.2))
    at_fifty = fit.predict_interval([[50.0]])
    np.testing.assert_allclose(at_fifty, [3.0 + Z * math.sqrt(0.05) * np.array([-1, 1])], rtol=1e-6)
    table = fit.predict_interval(pd.DataFrame({"age": [50.0]}))
    np.testing.assert_array_equal(table, at_fifty)


def test_bias_of_a_combination_does_not_hang_on_where_units_begin():
    """The score in 2005 is that of half a unit after the middle, whatever the bias of an intercept in the year 0."""
    noise = {"year": sd.GaussianMechanism.from_scale(0.5)}
    release = sd.Release(noise, fit_intercept=True, center={"year": 2000.0}, scale={"year": 10.0})
    fit = made(release=release, theta=[2.0, 1.0], covariance=np.diag([0.04, 0.01]), bias=np.array([0.1, 0.01]))
    found = fit.combinations({"year": 2005.0, "intercept": 1.0}, original_units=True)
    np.testing.assert_allclose(found.bias_bound, [0.06], rtol=1e-9)
    np.testing.assert_allclose(found.interval, fit.predict_interval([[2005.0]], of="score"), rtol=1e-9)


@pytest.mark.parametrize(("loss", "link"), [
    (sd.losses.logistic(), expit), (sd.losses.probit(), norm.cdf), (sd.losses.poisson(), np.exp),
    (sd.losses.gamma(), np.exp), (sd.losses.least_squares(), np.asarray), (sd.losses.huber(), np.asarray),
], ids=["logistic", "probit", "poisson", "gamma", "least squares", "huber"])  # fmt: skip
def test_predictions_have_the_ends_of_their_scores(loss, link):
    fit, X = made(loss), np.array([[0.0, 0.0], [1.0, -2.0], [-3.0, 1.0]])
    scores = fit.predict_interval(X, of="score", level=0.9)
    rows = np.column_stack([X, np.ones(3)])
    np.testing.assert_allclose(scores, fit.combinations(rows, level=0.9).interval, rtol=1e-12)
    np.testing.assert_allclose(fit.predict_interval(X, level=0.9), link(scores), rtol=1e-9)


def test_a_loss_that_falls_with_its_score_has_its_ends_in_order():
    swapped = sd.Loss(sp.log(1 + sp.exp(Y * U)), score=U, target=Y, target_values=(-1, 1))
    fit, X = made(swapped), [[1.0, 2.0]]
    ((low, high),) = fit.predict_interval(X)
    assert low < fit.predict_proba(X)[0, 1] < high
    np.testing.assert_allclose((low, high), expit(-fit.predict_interval(X, of="score")[0, ::-1]))


@pytest.mark.parametrize(("loss", "ends"), [
    (sd.losses.logistic(), (0, 1)), (sd.losses.probit(), (0, 1)), (sd.losses.poisson(), (0, math.inf)),
    (sd.losses.least_squares(), (-math.inf, math.inf)), (sd.losses.cauchy(), (-math.inf, math.inf)),
], ids=["logistic", "probit", "poisson", "least squares", "cauchy"])  # fmt: skip
def test_ends_that_are_nowhere_are_those_of_the_range(loss, ends):
    nowhere = np.tile([[0.0, 10.0]], (3, 1))
    fit = made(loss, curving=nowhere)
    assert np.all(np.isinf(fit.predict_interval([[1.0, 1.0]], of="score")))
    np.testing.assert_array_equal(fit.predict_interval([[1.0, 1.0]]), [ends])


def test_an_offset_is_no_longer_where_parameters_may_be():
    """It is known, and moves the ends of a score; where there is none is said of the parameters alone."""
    fit = made(outward=1.5)
    ((low, high),) = fit.predict_interval([[2.0, 1.0]], of="score")
    assert 0 < low < high == math.inf
    np.testing.assert_allclose(fit.predict_interval([[2.0, 1.0]], of="score", offset=[-9.0]), [[low - 9, high]])
    np.testing.assert_allclose(fit.predict_interval([[2.0, 1.0]], offset=[-9.0]), [[low - 9, high]])


def test_chances_of_classes_are_by_the_delta_method():
    labels = sd.RandomizedResponse(epsilon=2.0, categories=("car", "bus", "walk"))
    release = sd.Release(target=labels, noiseless=("a", "b"))
    rng = np.random.default_rng(0)
    root = rng.normal(size=(6, 6)) / 10
    theta = rng.normal(size=6)
    fit, X = made(sd.losses.softmax(3), release, theta, root @ root.T), rng.normal(size=(4, 2))
    found = fit.predict_interval(X)
    assert found.shape == (4, 3, 2)
    draws = rng.multivariate_normal(theta, root @ root.T / 400, size=20_000).reshape(-1, 3, 2)
    chances = softmax(np.einsum("nq,dkq->ndk", X, draws), axis=2)
    # Of errors that are a twentieth as large the delta method has next to no error of its own.
    small = made(sd.losses.softmax(3), release, theta, root @ root.T / 400).predict_interval(X)
    np.testing.assert_allclose((small[..., 1] - small[..., 0]) / (2 * Z), chances.std(axis=1), rtol=0.04)
    assert np.all((found[..., 0] < fit.predict_proba(X)) & (fit.predict_proba(X) < found[..., 1]))
    assert fit.predict_interval(X, of="score").shape == (4, 3, 2)
    np.testing.assert_allclose(fit.predict_interval(X, of="score").mean(axis=2), fit.decision_function(X), rtol=1e-9)


@pytest.mark.parametrize("size", [1e2, 1e3, 1e4, 1e6])
def test_chances_of_classes_next_to_0_and_1_have_intervals(size):
    release = sd.Release(target=sd.RandomizedResponse(epsilon=2.0, categories=(0, 1, 2)), noiseless=("a",))
    fit = made(sd.losses.softmax(3), release, [2.0, 0.0, -2.0], np.eye(3) / 100)
    (found,) = fit.predict_interval([[size]])
    assert found[0] == pytest.approx(1.0)
    assert found[1:] == pytest.approx(0.0)
    (scores,) = fit.predict_interval([[size]], of="score")
    assert found[2, 1] <= expit(scores[2, 1] - scores[0, 0])


@pytest.mark.in_turn
def test_intervals_of_predictions_cover():
    """60 draws at 4 places: fewer than 210 of 240 that cover have a chance below 1e-4 at 95%, where draws of a place
    are independent, and errors too small by a fifth show."""
    release = sd.Release(sd.GaussianMechanism.from_scale(0.5), sd.RandomizedResponse(epsilon=2.0), fit_intercept=True)
    corrected, truth = sd.debias(sd.losses.logistic(), release), np.array([1.5, -1.0, 0.5])
    places, covered = np.array([[0.0, 0.0], [1.0, 1.0], [2.0, -1.0], [-1.0, 0.5]]), 0
    chances = expit(places @ truth[:2] + truth[2])
    for seed in range(60):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(5_000, 2))
        y = np.where(rng.random(5_000) < expit(X @ truth[:2] + truth[2]), 1.0, -1.0)
        noised = release.privatize(X, y, random_state=seed)
        low, high = sd.m_estimate(corrected, noised.X, noised.y).predict_interval(places).T
        covered += int(np.sum((low <= chances) & (chances <= high)))
    assert covered >= 210


@pytest.mark.parametrize(("weights", "error", "message"), [
    ({"c": 1.0}, ValueError, "'c' is no parameter of this fit; these are a, b, intercept"),
    ({"a": math.nan}, ValueError, "the weight of a is nan"),
    ({"a": "1"}, ValueError, "the weight of a is '1'"),
    ([1, 2], ValueError, r"shape \(2,\); it must be \(3,\) or \(k, 3\)"),
    ("a", TypeError, "weights"),
    ([], ValueError, "weights"),
])  # fmt: skip
def test_weights_that_do_not_fit_are_refused(weights, error, message):
    with pytest.raises(error, match=message):
        made().combinations(weights)


def test_what_has_no_interval_says_so():
    with pytest.raises(InferenceError, match="no covariance"):
        made(covariance=None).combinations({"a": 1.0})
    with pytest.raises(InferenceError, match="no covariance"):
        made(covariance=None).predict_interval([[0.0, 0.0]])
    with pytest.raises(InferenceError, match="decided theta"):
        made(refusal="a constraint decided theta").predict_interval([[0.0, 0.0]])
    with pytest.raises(ValueError, match=r'of="score"|no model of probabilities'):
        made(sd.losses.hinge()).predict_interval([[0.0, 0.0]])
    with pytest.raises(ValueError, match="Choose one of prediction, score"):
        made().predict_interval([[0.0, 0.0]], of="mean")
    for level in (0.0, 1.0, 95):
        with pytest.raises(ValueError, match="level"):
            made().predict_interval([[0.0, 0.0]], level=level)
