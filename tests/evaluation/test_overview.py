"""All metrics of a model side by side."""

import numpy as np
import pytest
import sympy as sp
from released_records import COIN, NORMAL, THETA, TRUE, X4, Y4, records, release_of

import symdebias as sd
from symdebias.evaluation import evaluate, evaluate_all
from symdebias.evaluation.overview import OF_LABELS
from symdebias.exceptions import NoExactCorrectionError

pytestmark = pytest.mark.newest


def by_hand(loss, release=TRUE, theta=THETA):
    history = sd.solvers.History(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros((0, len(theta))))
    return sd.Fit(theta, sd.debias(loss, release), "by hand", history)


def test_labels_have_seven_metrics_and_numbers_two():
    X, y = records(n=90)
    found = evaluate_all(THETA, X, y, release=release_of(None, COIN))
    assert tuple(found.estimates) == OF_LABELS
    assert not found.refused
    for metric, estimate in found.estimates.items():
        assert estimate == evaluate(THETA, X, y, metric=metric, release=release_of(None, COIN))
    numbers = evaluate_all(THETA, X, y + X[:, 0], release=release_of(NORMAL))
    assert tuple(numbers.estimates) == ("squared_error", "r2")
    with pytest.raises(ValueError, match=r"all targets are -1 or 1, .* Pass target_values="):
        evaluate_all(THETA, X, y, release=release_of(NORMAL))
    declared = evaluate_all(THETA, X, y, release=TRUE, target_values=(-1, 1), threshold=0.4)
    assert declared.estimates["f1"] == evaluate(THETA, X, y, metric="f1", release=TRUE, threshold=0.4)


def test_a_fit_says_what_it_predicts():
    X, y = records(n=90)
    assert tuple(evaluate_all(by_hand(sd.losses.logistic()), X, y).estimates) == OF_LABELS
    probit = evaluate_all(by_hand(sd.losses.probit()), X, y)
    assert tuple(probit.estimates) == OF_LABELS[:5]
    assert set(probit.refused) == {"brier", "log_loss"}
    assert tuple(evaluate_all(by_hand(sd.losses.huber()), X, y).estimates) == ("squared_error", "r2")
    counts = evaluate_all(by_hand(sd.losses.poisson()), X, np.maximum(y, 0))
    assert tuple(counts.estimates) == ("poisson",)
    u, target = sp.symbols("u y", real=True)
    unsaid = sd.Loss(sp.exp(-target * u), score=u, target=target)
    with pytest.raises(ValueError, match="does not say what a score predicts"):
        evaluate_all(by_hand(unsaid), X, y)


def test_a_margin_release_refuses_what_it_hides():
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.7, 0.7, size=(90, 2))
    release = sd.Release(sd.SphericalCapMechanism(epsilon=12.0, radius=1.0), target="margin")
    noised = release.privatize(X, np.where(X[:, 0] > 0, 1, -1), random_state=1)
    found = evaluate_all([3.0, -2.0], noised.X, noised.y, release=noised.release, label_model="logistic")
    assert set(found.estimates) == {"accuracy", "brier", "log_loss"}
    assert "margin release tells" in found.refused["roc_auc"]
    text = str(found)
    assert "f1            refused: f1 counts the labels by themselves" in text
    assert "95% interval" in text
    assert "80% interval" in found.table(0.8)


def test_nothing_that_can_be_told_is_an_error():
    release = sd.Release(
        sd.SphericalLaplaceMechanism(epsilon=4.0, radius=2.0), target="joint", target_bounds=(-1, 1), fit_intercept=True
    )
    noised = release.privatize(X4, Y4, random_state=0)
    with pytest.raises(NoExactCorrectionError):
        evaluate_all(THETA, noised.X, noised.y, release=noised.release, target_values=(-1, 1))
    with pytest.raises(ValueError, match="one record"):
        evaluate_all(THETA, X4[:1], Y4[:1], release=TRUE)


def test_columns_of_the_table_stand_apart():
    estimate = sd.evaluation.Estimate(0.1, 0.0123, 0.00036, False, 10, "brier", "surrogate", None)
    words = sd.evaluation.Evaluation({"brier": estimate}, {}).table().splitlines()[1].split()
    assert words[:5] == ["brier", "0.1000", "0.0123", "0.00036", "est."]


def test_targets_of_records_of_weight_0_do_not_say_what_targets_are():
    X, y, weights = (
        np.random.default_rng(0).normal(size=(60, 1)),
        np.tile([-1.0, 1.0, 0.5], 20),
        np.tile([1.0, 1, 0], 20),
    )
    with pytest.raises(ValueError, match="all targets are -1 or 1"):
        evaluate_all([1.0], X, y, release=sd.Release(sd.GaussianMechanism.from_scale(0.3)), sample_weight=weights)
