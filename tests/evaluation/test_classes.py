"""Metrics of models with a score for each class."""

import itertools

import numpy as np
import pytest
import sympy as sp
from instances import Y

import symdebias as sd
from symdebias.evaluation import calibration_curve, cross_validate, evaluate, evaluate_all, roc_curve
from symdebias.exceptions import NoExactCorrectionError

THETA = np.array([[1.0, 0.5], [-1.0, 0.5], [0.0, -1.0]])
LABELS = (0, 1, 2)
OF_LABELS = sd.Release(target=sd.RandomizedResponse(epsilon=1.5, categories=LABELS))


def records(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, (X @ THETA.T + rng.gumbel(size=(n, 3))).argmax(axis=1)


def fit_of(loss, theta=THETA, release=OF_LABELS):
    history = sd.solvers.History(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros((0, theta.size)))
    return sd.Fit(theta, sd.debias(loss, release), "by hand", history)


def test_true_records_are_judged_as_by_hand():
    X, y = records(500)
    scores = X @ THETA.T
    log_losses = np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(500), y]
    accuracy = evaluate(THETA, X, y, metric="accuracy", release=sd.Release())
    assert accuracy.value == pytest.approx(np.mean(scores.argmax(axis=1) == y), rel=1e-12)
    assert (accuracy.bias, accuracy.bias_is_certified, accuracy.metric) == (0.0, True, "accuracy")
    assert evaluate(THETA, X, y, metric="log_loss", release=sd.Release()).value == pytest.approx(log_losses.mean())


def test_classes_that_share_the_largest_score_share_the_record():
    X, y = np.array([[1.0, 1.0]] * 4), [0, 1, 2, 0]
    theta = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    assert evaluate(theta, X, y, metric="accuracy", release=sd.Release()).value == pytest.approx(3 / 8)


def test_the_noise_of_labels_is_undone_exactly():
    """The mean over all that some labels may come out as, each with its chance, is the metric of the labels."""
    X, y = records(4, seed=2)
    chances = (np.ones((3, 3)) + (np.exp(1.5) - 1) * np.eye(3)) / (np.exp(1.5) + 2)
    for metric in ("accuracy", "log_loss"):
        mean = sum(
            np.prod(chances[y, list(out)]) * evaluate(THETA, X, np.array(out), metric=metric, release=OF_LABELS).value
            for out in itertools.product(LABELS, repeat=4)
        )
        assert mean == pytest.approx(evaluate(THETA, X, y, metric=metric, release=sd.Release()).value, abs=1e-12)


def test_intervals_cover_over_draws_of_records_and_noise():
    """100 draws: fewer than 86 that cover have a chance below 1e-3 at 95%, and standard errors off by a third show."""
    covered, true = [], []
    for seed in range(100):
        X, y = records(2_000, seed)
        noised = OF_LABELS.privatize(X, y, random_state=seed)
        covered.append(evaluate(THETA, noised.X, noised.y, metric="accuracy", release=OF_LABELS).confidence_interval())
        true.append(np.mean((X @ THETA.T).argmax(axis=1) == y))
    low, high = np.array(covered).T
    assert np.sum((low <= np.mean(true)) & (np.mean(true) <= high)) >= 86


def test_all_metrics_and_cross_validation_take_several_classes():
    X, y = records(3_000)
    noised = OF_LABELS.privatize(X, np.array(y), random_state=1)
    found = evaluate_all(fit_of(sd.losses.softmax(3)), noised.X, noised.y)
    assert (list(found.estimates), dict(found.refused)) == (["accuracy", "log_loss"], {})
    table = cross_validate(
        {"zero": lambda X, y: np.zeros((3, 2)), "true": lambda X, y: THETA},
        noised.X, noised.y, release=OF_LABELS, metric="accuracy", random_state=0,
    )  # fmt: skip
    assert table.best == "true"
    assert table.estimates["true"].value == pytest.approx(found.estimates["accuracy"].value, rel=1e-12)


@pytest.mark.parametrize("order", [1, -1])
def test_candidates_of_one_score_and_of_several_are_not_compared(order):
    X, y = records(50)
    candidates = [("several", lambda X, y: THETA), ("one", lambda X, y: THETA[0])][::order]
    with pytest.raises(ValueError, match="models of 1 and 3 scores"):
        cross_validate(dict(candidates), X, y, release=sd.Release(), metric="accuracy", random_state=0)


def test_text_labels_and_a_scorer_of_scikit_learn():
    X, y = records(4_000)
    names = np.array(["car", "bus", "walk"])[y]
    release = sd.Release(target=sd.RandomizedResponse(epsilon=3.0, categories=("car", "bus", "walk")))
    noised = release.privatize(X, names, random_state=1)
    model = sd.DebiasedClassifier("softmax", release=release).fit(noised.X, noised.y)
    score = sd.CorrectedScorer("accuracy")(model, noised.X, noised.y)
    estimate = evaluate(model.fit_, noised.X, noised.y, metric="accuracy")
    assert score == estimate.value
    assert abs(score - model.score(X, names)) < 4 * estimate.standard_error


def test_labels_by_other_numbers():
    X, y = records(300)
    at_zero = evaluate(THETA, X, y, metric="log_loss", release=sd.Release())
    for values in ((1, 2, 3), (10, 20, 30)):
        labels = np.array(values)[y]
        for metric in ("accuracy", "log_loss"):
            one = evaluate(THETA, X, labels, metric=metric, release=sd.Release(), target_values=values)
            assert one.value == evaluate(THETA, X, y, metric=metric, release=sd.Release()).value
        fit = fit_of(sd.losses.softmax(3).recoded(values), release=sd.Release())
        assert evaluate(fit, X, labels, metric="log_loss").value == at_zero.value


def test_noise_in_the_scores_is_refused_for_the_largest_one():
    X, y = records(400)
    release = sd.Release({"x": sd.LaplaceMechanism.from_scale(0.2)}, OF_LABELS.target, noiseless=("z",))
    noised = release.privatize(X, y, random_state=1)
    with pytest.raises(NoExactCorrectionError, match="which of several scores is the largest"):
        evaluate(THETA, noised.X, noised.y, metric="accuracy", release=release)
    assert evaluate(THETA, noised.X, noised.y, metric="log_loss", release=release).method == "exact"
    # Scores of the column without noise alone carry none.
    without = np.column_stack([np.zeros(3), THETA[:, 1]])
    assert evaluate(without, noised.X, noised.y, metric="accuracy", release=release).bias == 0.0


@pytest.mark.parametrize(("metric", "options", "error", "message"), [
    ("roc_auc", {}, ValueError, r"3 scores, one for each class, and roc_auc is that of.*Evaluate accuracy or log_loss"),
    ("accuracy", {"threshold": 0.5}, ValueError, "threshold=0.5 is one of a single score"),
    ("accuracy", {"target_values": (0, 1)}, ValueError, "target_values"),
    ("accuracy", {"target_values": (1, 2, 3)}, ValueError, r"the values \(0.0, 1.0, 2.0\), target_values \(1.0"),
])  # fmt: skip
def test_what_does_not_fit_is_refused(metric, options, error, message):
    X, y = records(50)
    with pytest.raises(error, match=message):
        evaluate(THETA, X, y, metric=metric, release=OF_LABELS, **options)


def test_curves_are_of_one_score():
    X, y = records(50)
    for curve in (roc_curve, calibration_curve):
        with pytest.raises(ValueError, match="has 3 scores"):
            curve(THETA, X, y, release=sd.Release())


def test_labels_with_added_noise_tell_no_shares():
    X, y = records(50)
    release = sd.Release(target=sd.LaplaceMechanism.from_scale(0.5))
    with pytest.raises(NoExactCorrectionError, match="nothing tells how often"):
        evaluate(THETA, X, y + 0.1, metric="accuracy", release=release)


def test_a_model_that_predicts_otherwise_is_judged_by_its_own_loss():
    u = sp.symbols("u:3", real=True)
    chosen = sp.Piecewise((u[0], sp.Eq(Y, 0)), (u[1], sp.Eq(Y, 1)), (u[2], True))
    squares = sd.Loss(sp.Add(*(one**2 for one in u)) + 2 * chosen, score=u, target=Y, target_values=LABELS)
    X, y = records(50)
    fit = fit_of(squares)
    for metric in ("accuracy", "log_loss"):
        with pytest.raises(ValueError, match="the loss of this fit predicts otherwise"):
            evaluate(fit, X, y, metric=metric)
    with pytest.raises(ValueError, match="than by the softmax of its scores, and no metric by name"):
        evaluate_all(fit, X, y)
    assert np.isfinite(evaluate(fit, X, y, metric=squares).value)


def test_the_overview_of_other_chances_has_the_accuracy():
    """Twice the scores make other chances and the same class."""
    u = sp.symbols("u:3", real=True)
    chosen = sp.Piecewise((u[0], sp.Eq(Y, 0)), (u[1], sp.Eq(Y, 1)), (u[2], True))
    steep = sp.log(sp.Add(*(sp.exp(2 * one) for one in u))) - 2 * chosen
    X, y = records(200)
    found = evaluate_all(fit_of(sd.Loss(steep, score=u, target=Y, target_values=LABELS)), X, y)
    assert (list(found.estimates), list(found.refused)) == (["accuracy"], ["log_loss"])


def test_a_label_that_is_none_of_the_classes_is_refused():
    X, _ = records(4)
    with pytest.raises(ValueError, match="labels must be"):
        evaluate(THETA, X, [0, 1, 2, 3], metric="accuracy", release=sd.Release())
