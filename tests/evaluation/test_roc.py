"""ROC curves from released records."""

import math

import numpy as np
import pytest
from released_records import COIN, NORMAL, THETA, TRUE, X4, Y4, every_outcome, records, release_of
from scipy import stats
from scipy.special import expit
from sklearn.metrics import roc_auc_score, roc_curve

import symdebias as sd
from symdebias.exceptions import InferenceError, NoExactCorrectionError

pytestmark = pytest.mark.newest


def test_true_records_have_the_curve_of_scikit_learn():
    X, y = records(n=200)
    u = X @ THETA[:2] + THETA[2]
    weights = np.random.default_rng(0).exponential(size=200)
    false, true, at = roc_curve(y, u, sample_weight=weights, drop_intermediate=False)
    # Between two scores, where none stands at the threshold and counts half.
    between = (at[1:-1] + at[2:]) / 2
    found = sd.evaluation.roc_curve(THETA, X, y, release=TRUE, thresholds=between, sample_weight=weights)
    np.testing.assert_allclose(found.true_positive_rates, true[1:-1], atol=1e-12)
    np.testing.assert_allclose(found.false_positive_rates, false[1:-1], atol=1e-12)
    assert found.area.value == pytest.approx(roc_auc_score(y, u, sample_weight=weights), rel=1e-12)
    assert not found.true_positive_bias.any()
    plain = sd.evaluation.roc_curve(THETA, X, y, release=TRUE, thresholds=[0.1])
    share = np.mean(u[y > 0] > 0.1)
    positives = np.count_nonzero(y > 0)
    # That of a share, but for n/(n - 1).
    assert plain.true_positive_errors[0] == pytest.approx(math.sqrt(share * (1 - share) / positives), rel=0.01)


@pytest.mark.in_turn
@pytest.mark.parametrize("name", ["labels", "normal"])
def test_rates_have_the_true_means_over_the_noise(name):
    release = {"labels": release_of(None, COIN), "normal": release_of(NORMAL, COIN)}[name]
    X, y = records(n=120)
    u = X @ THETA[:2] + THETA[2]
    released = every_outcome(release, X, y)
    options = {"release": release, "sample_weight": released[2], "thresholds": [1.0, 0.3, -0.5]}
    for model in ("any", "logistic"):
        curve = sd.evaluation.roc_curve(THETA, *released[:2], label_model=model, **options)
        # The bound of the model is one over draws of records, of which there are 120.
        draw = 0.03 if model == "logistic" else 1e-9
        for members, rates, bias in (
            (y > 0, curve.true_positive_rates, curve.true_positive_bias),
            (y < 0, curve.false_positive_rates, curve.false_positive_bias),
        ):
            wanted = (u[members] > curve.thresholds[:, None]).mean(axis=1)
            assert np.all(np.abs(rates - wanted) <= bias + (draw if name == "normal" else 1e-9))
            assert np.all(bias < (0.06 if model == "logistic" else 0.4))
            assert bias.any() == (name == "normal")


def test_intervals_and_the_table():
    X, y = records(n=3_000)
    curve = sd.evaluation.roc_curve(THETA, X, y, release=TRUE, thresholds=5)
    assert np.all(np.diff(curve.thresholds) < 0)
    assert np.all(np.diff(curve.true_positive_rates) > 0)
    true, false = curve.confidence_intervals(0.9)
    many = np.isinf(curve.true_positive_freedom)
    assert many.any()
    np.testing.assert_allclose(true.mean(axis=1)[many], curve.true_positive_rates[many])
    assert curve.false_positive_freedom[0] < math.inf  # 20 records lie above
    half = np.diff(false[1:], axis=1)[:, 0] / 2
    np.testing.assert_allclose(half, 1.6449 * curve.false_positive_errors[1:], rtol=1e-4)
    assert str(curve).count("\n") == 6
    people = np.repeat(np.arange(30), 100)
    few = sd.evaluation.roc_curve(THETA, X, y, release=TRUE, thresholds=5, clusters=people)
    assert few.clusters == few.area.clusters == 30
    wider = np.diff(few.confidence_intervals(0.9)[0], axis=1)[:, 0] / few.true_positive_errors
    assert np.all(wider > 2 * 1.69)


def test_rates_that_few_records_decide_have_wide_intervals_or_none():
    """Of 200 records with slope 2, rates of .997 were covered by 20% of intervals, those of 1 - 2e-4 by 3%."""
    below = np.array([0, 1, 2, 3, 5, 40, 97, 100])
    places = np.repeat(np.arange(8.0), np.diff(below, prepend=0))
    X, y = np.r_[places, places][:, None], np.r_[np.ones(100), -np.ones(100)]
    release = sd.Release()
    curve = sd.evaluation.roc_curve([1.0], X, y, release=release, thresholds=np.arange(8) + 0.5, target_values=(-1, 1))
    true, false = curve.confidence_intervals()
    np.testing.assert_allclose(curve.true_positive_rates[::-1], 1 - below / 100)
    np.testing.assert_allclose(true, false)
    refused = np.minimum(below, 100 - below) < 3
    np.testing.assert_array_equal(np.isnan(true[::-1]).all(axis=1), refused)
    for place in np.flatnonzero(~refused):
        # Two values of s, q = r (1 - r): (sum s^2)^2/sum s^4 = m q/(1 - 3 q).
        q = below[place] / 100 * (1 - below[place] / 100)
        deciding = 100 * q / (1 - 3 * q)
        assert curve.true_positive_freedom[::-1][place] == pytest.approx(2 * deciding if deciding < 50 else math.inf)
        quantile = stats.norm.isf(0.025) if deciding > 50 else stats.t(2 * deciding).isf(0.025)
        rate, reach = 1 - below[place] / 100, quantile * math.sqrt(200 / 199 * q / 100)
        to_the_middle, away = np.abs(true[::-1][place] - rate)[:: 1 if rate > 0.5 else -1]
        assert away == pytest.approx(min(reach, 1 - rate if rate > 0.5 else rate))
        assert to_the_middle == pytest.approx(reach) if deciding > 50 else to_the_middle > reach


@pytest.mark.in_turn
def test_many_thresholds_are_taken_in_parts(monkeypatch):
    X, y = records(n=80)
    noised = release_of(NORMAL, COIN).privatize(np.tile(X, (5, 1)), np.tile(y, 5), random_state=1)
    options = {"release": noised.release, "thresholds": 7}
    whole = sd.evaluation.roc_curve(THETA, noised.X, noised.y, **options)
    monkeypatch.setattr("symdebias.evaluation.records.ROWS", 64)
    parts = sd.evaluation.roc_curve(THETA, noised.X, noised.y, **options)
    np.testing.assert_allclose(parts.true_positive_rates, whole.true_positive_rates, atol=1e-12)


def test_a_cap_has_a_curve():
    rng = np.random.default_rng(1)
    X = rng.uniform(-0.7, 0.7, size=(6_000, 2))
    y = np.where(rng.random(6_000) < expit(X @ [4.0, -2.0]), 1.0, -1.0)
    noised = sd.Release(sd.SphericalCapMechanism(epsilon=6.0, radius=1.0), COIN).privatize(X, y, random_state=2)
    curve = sd.evaluation.roc_curve([4.0, -2.0], noised.X, noised.y, release=noised.release, thresholds=4)
    wanted = (X[y > 0] @ [4.0, -2.0] > curve.thresholds[:, None]).mean(axis=1)
    assert np.all(
        np.abs(curve.true_positive_rates - wanted) < 5 * curve.true_positive_errors + curve.true_positive_bias
    )


BAD = {
    "words": ({"thresholds": "many"}, TypeError, "thresholds='many' is neither"),
    "none": ({"thresholds": []}, TypeError, "nor a list of scores"),
    "zero": ({"thresholds": 0}, ValueError, "thresholds=0 is too small"),
    "nan": ({"thresholds": [0.0, math.nan]}, ValueError, "thresholds has NaN"),
    "infinity": ({"thresholds": [0.0, math.inf]}, ValueError, "thresholds has infinity"),
    "one number": ({"thresholds": 1.0}, TypeError, "thresholds=1.0 is neither an integer"),
    "a matrix": ({"thresholds": [[0.0, 1.0]]}, TypeError, "nor a list of scores"),
    "model": ({"label_model": "probit"}, ValueError, "label_model='probit'"),
    "one label": ({"y": np.ones(4)}, InferenceError, "smaller label is 0"),
    "no waves": (
        {"release": release_of(sd.UniformMechanism(0.5))},
        NoExactCorrectionError,
        "where it is 0 waves are not undone",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_curves_are_refused(name):
    options, error, message = BAD[name]
    arguments = {"X": X4, "y": Y4, "release": TRUE, **options}
    with pytest.raises(error, match=message):
        sd.evaluation.roc_curve(THETA, arguments.pop("X"), arguments.pop("y"), **arguments)


@pytest.mark.parametrize("above", [3, 4])
def test_a_few_records_of_one_released_label_do_not_tell_how_rare_the_other_is(above):
    """Where 1 in 15 of those above has the other label, three or four of them mostly have none."""
    X, y = np.linspace(1.0, 0.0, 200)[:, None], np.where(np.arange(200) % 2, -1.0, 1.0)
    threshold = float(X[above - 1 : above + 1].mean())
    release = sd.Release(target=sd.RandomizedResponse(epsilon=3.0))
    for label, of in ((1.0, "false"), (-1.0, "true")):
        y[:above] = label
        for turned in (1, -1):
            curve = sd.evaluation.roc_curve([turned], X, y, release=release, thresholds=[turned * threshold])
            rate, error = getattr(curve, f"{of}_positive_rates")[0], getattr(curve, f"{of}_positive_errors")[0]
            # All of it is what the labels of these records are taken for, and less than two standard errors.
            assert -2 * error < min(rate, 1 - rate) < 0
            low, high = curve.confidence_intervals()[of == "false"][0]
            # A share of 100 that none of them shows is at most so large, but for one in 40 samples.
            if turned == 1:
                assert low == 0
                assert rate + 0.033 < high < 0.045
            else:
                assert high == 1
                assert 0.955 < low < rate - 0.033
    found = sd.evaluation.evaluate([1.0], X, y, metric="recall", release=release, threshold=threshold)
    assert found.confidence_interval() == pytest.approx((0.0, 0.037), abs=0.004)
