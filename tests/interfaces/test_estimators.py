"""Estimators of scikit-learn: its own checks, and fits on released records against those of the library."""

import pickle
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from instances import free_form_loss
from scipy import special

import symdebias as sd

sklearn = pytest.importorskip("sklearn")
from sklearn.base import clone  # noqa: E402
from sklearn.model_selection import GridSearchCV  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import FunctionTransformer  # noqa: E402
from sklearn.utils import estimator_checks  # noqa: E402

RNG = np.random.default_rng(0)
X = RNG.uniform(-0.7, 0.7, size=(20_000, 2))
SCORES = X @ [6.0, -4.0]
SIGNS = np.where(RNG.random(20_000) < special.expit(SCORES), 1.0, -1.0)
TEXT = np.where(SIGNS > 0, "yes", "no")
NOISE = sd.GaussianMechanism.from_scale(0.2)


def own_checks(estimator):
    """Return scikit-learn's checks of an estimator with their names, by the call of either version."""
    if hasattr(estimator_checks, "estimator_checks_generator"):
        pairs = estimator_checks.estimator_checks_generator(estimator)
    else:
        pairs = estimator_checks.check_estimator(estimator, generate_only=True)
    return [pytest.param(one, check, id=f"{type(one).__name__}-{check.func.__name__}") for one, check in pairs]


def passes(check, estimator):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its records are as few and as separable as can be
        check(estimator)


@pytest.mark.parametrize(
    ("estimator", "check"), [*own_checks(sd.DebiasedClassifier()), *own_checks(sd.DebiasedRegressor())]
)
def test_scikit_learns_own_checks(estimator, check):
    passes(check, estimator)


BY_STEPS = {"solver": "sgd", "solver_options": {"epochs": 50}, "random_state": 0}


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("estimator", "check"),
    [*own_checks(sd.DebiasedClassifier(**BY_STEPS)), *own_checks(sd.DebiasedRegressor(**BY_STEPS))],
)
def test_scikit_learns_own_checks_with_sgd(estimator, check):
    if "sample_weight_equivalence" in check.func.__name__ or "weights_invariance" in check.func.__name__:
        pytest.skip("a record of weight 2 is in one batch, and two records may be in two")
    passes(check, estimator)


# ---- labels in the user's coding -------------------------------------------------------------------------

SIGNED = sd.Release(features=NOISE, target=sd.RandomizedResponse(epsilon=3.0))
CODINGS = {
    "signs": (SIGNED, SIGNS, [-1.0, 1.0]),
    "0 and 1": (
        sd.Release(features=NOISE, target=sd.RandomizedResponse(epsilon=3.0, categories=(0, 1))),
        (SIGNS + 1) / 2,
        [0.0, 1.0],
    ),
    "text": (
        sd.Release(features=NOISE, target=sd.RandomizedResponse(epsilon=3.0, categories=("no", "yes"))),
        TEXT,
        ["no", "yes"],
    ),
    "text in a column": (
        sd.Release(features=NOISE, target=sd.RandomizedResponse(epsilon=3.0, categories=("no", "yes"))),
        pd.Series(TEXT, name="answer"),
        ["no", "yes"],
    ),
    "margins of 0 and 1": (
        sd.Release(features=NOISE, target="margin", target_values=(0, 1)),
        (SIGNS + 1) / 2,
        [0.0, 1.0],
    ),
}


@pytest.mark.parametrize("coding", CODINGS)
def test_labels_are_in_the_users_coding(coding):
    release, y, classes = CODINGS[coding]
    noised = release.privatize(X, y, random_state=1)
    model = sd.DebiasedClassifier(release=release, l2=0.01).fit(noised.X, noised.y)
    assert model.classes_.tolist() == classes
    # The same numbers as by the library's own way, with labels as the loss has them.
    if coding == "signs":
        by_hand = sd.m_estimate(sd.debias(sd.losses.logistic(), SIGNED), noised.X, noised.y, l2=0.01)
        np.testing.assert_array_equal(model.fit_.theta, by_hand.theta)
    # Standard errors of about 0.2 on either coefficient.
    np.testing.assert_allclose(model.coef_, [[3.7, -2.5]], atol=1.2)
    predicted = model.predict(X[:200])
    assert predicted.tolist() == [classes[int(score > 0)] for score in model.decision_function(X[:200])]
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], special.expit(model.decision_function(X)), rtol=1e-12)
    assert model.score(X, np.asarray(y)) == pytest.approx(np.mean(model.predict(X) == np.asarray(y)))
    assert model.score(X, np.asarray(y)) > 0.8


def test_a_recoded_loss_has_the_same_fit():
    noised = SIGNED.privatize(X, SIGNS, random_state=1)
    other = CODINGS["0 and 1"][0]
    fits = [
        sd.DebiasedClassifier("squared_margin", release=release).fit(noised.X, y).fit_.theta
        for release, y in ((SIGNED, noised.y), (other, (noised.y + 1) / 2))
    ]
    np.testing.assert_allclose(fits[0], fits[1], rtol=1e-9)


def test_labels_that_are_released_as_they_are():
    release = sd.Release(features=NOISE)
    noised = release.privatize(X, random_state=1)
    model = sd.DebiasedClassifier("squared_margin", release=release).fit(noised.X, TEXT)
    assert model.classes_.tolist() == ["no", "yes"]
    by_hand = sd.m_estimate(sd.debias(sd.losses.squared_margin(), release), noised.X, SIGNS, l2=1e-6)
    np.testing.assert_array_equal(model.fit_.theta, by_hand.theta)
    value = sd.CorrectedScorer("accuracy")(model, noised.X, TEXT)
    assert value == pytest.approx(sd.evaluation.evaluate(by_hand, noised.X, SIGNS, metric="accuracy").value)
    with pytest.raises(ValueError, match="not among those of the fit"):
        sd.CorrectedScorer("accuracy")(model, noised.X[:2], ["no", "perhaps"])


def test_several_classes_without_noise():
    scores = X @ np.array([[5.0, 0.0, -5.0], [0.0, 5.0, 2.0]])
    y = np.array(["b", "a", "c"])[np.argmax(scores + RNG.gumbel(size=scores.shape), axis=1)]
    model = sd.DebiasedClassifier("softmax").fit(X[:5000], y[:5000])
    assert model.classes_.tolist() == ["a", "b", "c"]
    assert model.coef_.shape == (3, 2)
    # Coefficients of one class less those of another, of standard errors below 0.3.
    np.testing.assert_allclose(model.coef_[1] - model.coef_[0], [5.0, -5.0], atol=1.5)
    chances = special.softmax(scores, axis=1)[:, [1, 0, 2]]
    np.testing.assert_allclose(model.predict_proba(X), chances, atol=0.1)


# ---- releases --------------------------------------------------------------------------------------------


def test_released_tables_are_fitted_and_true_ones_predicted():
    table = pd.DataFrame({"age": RNG.uniform(20, 60, 20_000), "region": RNG.choice(["n", "e", "s"], 20_000)})
    y = 2 + (table["age"] - 40) / 10 - 3 * (table["region"] == "s")
    release = sd.Release(
        features={
            "age": sd.GaussianMechanism.from_scale(0.5),
            "region": sd.RandomizedResponse(3.0, categories=("n", "e", "s")),
        },
        fit_intercept=True, center={"age": 40.0}, scale={"age": 10.0},
    )  # fmt: skip
    noised = release.privatize(table, y, random_state=1)
    model = sd.DebiasedRegressor(release=release).fit(noised.X[["region", "age"]], noised.y)
    assert model.feature_names_in_.tolist() == ["region", "age"]
    assert model.n_features_in_ == 2
    # In years and without a centre; standard errors are below 0.03.
    np.testing.assert_allclose(model.coef_, [0.1, 0.0, -3.0], atol=0.15)
    assert model.intercept_ == pytest.approx(-2.0, abs=0.3)
    np.testing.assert_allclose(model.predict(table), y, atol=0.4)
    assert model.score(table, y) > 0.98
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(table), model.predict(table))


def test_a_table_names_the_columns_of_a_release_without_names():
    table = pd.DataFrame(X, columns=["a", "b"])
    release = sd.Release(features=NOISE)
    noised = release.privatize(table, SCORES, random_state=1)
    model = sd.DebiasedRegressor(release=release).fit(noised.X, noised.y)
    np.testing.assert_allclose(model.predict(table[["b", "a"]]), model.predict(table), rtol=1e-12)


def test_weights_count_records():
    noised = SIGNED.privatize(X[:2000], SIGNS[:2000], random_state=1)
    weights = np.arange(2000) % 2
    weighted = sd.DebiasedClassifier("squared_margin", release=SIGNED).fit(noised.X, noised.y, sample_weight=weights)
    half = sd.DebiasedClassifier("squared_margin", release=SIGNED).fit(noised.X[1::2], noised.y[1::2])
    np.testing.assert_allclose(weighted.coef_, half.coef_, rtol=1e-6)


def test_sgd_is_a_solver_by_name():
    noised = SIGNED.privatize(X, SIGNS, random_state=1)
    model = sd.DebiasedClassifier(
        "squared_margin", release=SIGNED, solver="sgd", l2=0.1, solver_options={"average": 0.5}, random_state=3
    ).fit(noised.X, noised.y)
    corrected = sd.debias(sd.losses.squared_margin(), SIGNED)
    by_hand = sd.sgd(corrected, noised.X, noised.y, l2=0.1, average=0.5, random_state=3)
    np.testing.assert_array_equal(model.fit_.theta, by_hand.theta)


# ---- scikit-learn's habits -------------------------------------------------------------------------------


def test_a_grid_search_on_released_records_chooses_what_is_best_on_true_ones():
    noised = SIGNED.privatize(X, SIGNS, random_state=1)
    grid = {"l2": [1e-6, 30.0]}
    model = sd.DebiasedClassifier("squared_margin", release=SIGNED)
    metric = sd.losses.squared_margin()
    search = GridSearchCV(clone(model), grid, scoring=sd.CorrectedScorer(metric), cv=2).fit(noised.X, noised.y)
    assert search.best_params_ == {"l2": 1e-6}
    assert search.best_estimator_.score(X, SIGNS) > 0.8
    # The mean loss of true records, of 0.02 standard errors, is what the scorer estimates.
    true = np.mean((SIGNS * search.best_estimator_.decision_function(X) - 1) ** 2 / 2)
    assert -search.best_score_ == pytest.approx(true, abs=0.06)


def test_a_scorer_takes_labels_as_they_were_released():
    release, y, _ = CODINGS["text in a column"]
    noised = release.privatize(X, y, random_state=1)
    model = sd.DebiasedClassifier("squared_margin", release=release).fit(noised.X, noised.y)
    value = sd.CorrectedScorer(sd.losses.squared_margin())(model, noised.X, noised.y)
    recoded = sd.losses.squared_margin().recoded((0, 1))
    assert value == -sd.evaluation.evaluate(model.fit_, noised.X, noised.y, metric=recoded).value
    # On the records that it was fitted to, of a standard error of 0.01.
    accuracy = sd.CorrectedScorer("accuracy")(model, noised.X, noised.y)
    assert accuracy == pytest.approx(model.score(X, y), abs=0.04)


def test_a_pipeline_of_steps_that_know_nothing_of_the_data():
    noised = SIGNED.privatize(X, SIGNS, random_state=1)
    model = make_pipeline(FunctionTransformer(), sd.DebiasedClassifier("squared_margin", release=SIGNED))
    plain = sd.DebiasedClassifier("squared_margin", release=SIGNED).fit(noised.X, noised.y)
    np.testing.assert_array_equal(model.fit(noised.X, noised.y).predict(X), plain.predict(X))


@pytest.mark.parametrize("estimator", [sd.DebiasedClassifier, sd.DebiasedRegressor])
def test_parameters_are_read_set_and_cloned(estimator):
    model = estimator(release=SIGNED, l2=0.5).set_params(radius=2.0)
    again = clone(model)
    assert again.get_params() == model.get_params()
    assert (again.release, again.l2, again.radius) == (SIGNED, 0.5, 2.0)


# ---- what is refused -------------------------------------------------------------------------------------

JOINT = sd.Release(features=NOISE, target="joint", target_bounds=(-1, 1))
THREE = sd.Release(features=NOISE, target=sd.RandomizedResponse(1.0, categories=(0, 1, 3)))
FEW = X[:6]
REFUSED = {
    "unknown loss": (sd.DebiasedClassifier("logit"), SIGNS[:6], ValueError, "not in the catalogue"),
    "no loss": (sd.DebiasedClassifier(3), SIGNS[:6], TypeError, "the name of a loss or a symdebias.Loss; got int"),
    "free-form": (sd.DebiasedRegressor(free_form_loss()), SIGNS[:6], ValueError, "has no score"),
    "no release": (sd.DebiasedClassifier(release=NOISE), SIGNS[:6], TypeError, "Pass noised.release"),
    "unknown solver": (sd.DebiasedClassifier(solver="adam"), SIGNS[:6], ValueError, "Choose one of m_estimate, sgd"),
    "two intercepts": (
        sd.DebiasedClassifier(release=SIGNED, fit_intercept=True), SIGNS[:6], ValueError, "the release decides",
    ),
    "one class": (sd.DebiasedClassifier(), np.ones(6), ValueError, "one class"),
    "three classes": (sd.DebiasedClassifier(), [0, 1, 2, 0, 1, 2], ValueError, 'use loss="softmax"'),
    "a label for numbers": (sd.DebiasedRegressor("logistic"), SIGNS[:6], ValueError, "Use a DebiasedClassifier"),
    "softmax for numbers": (sd.DebiasedRegressor("softmax"), SIGNS[:6], ValueError, "Use a DebiasedClassifier"),
    "numbers for a label": (sd.DebiasedClassifier(release=JOINT), SIGNS[:6], ValueError, "Use a DebiasedRegressor"),
    "margins for a number": (
        sd.DebiasedRegressor(release=sd.Release(NOISE, target="margin")), None, ValueError, "Use a DebiasedClassifier",
    ),
    "labels at other distances": (
        sd.DebiasedClassifier("softmax", release=THREE), [0, 1, 3, 0, 1, 3], ValueError, "not at the distances",
    ),
    "other numbers of labels": (
        sd.DebiasedClassifier(release=THREE), [0, 1, 3, 0, 1, 3], ValueError, "as many numbers as the loss",
    ),
    "noised labels without values": (
        sd.DebiasedClassifier("least_squares", release=sd.Release(NOISE, sd.LaplaceMechanism.from_scale(1.0))),
        SIGNS[:6], ValueError, "has no target values",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_refused(case):
    model, y, kind, message = REFUSED[case]
    with pytest.raises(kind, match=message):
        model.fit(FEW, y)


def test_probabilities_need_a_model_of_them():
    model = sd.DebiasedClassifier("squared_margin").fit(X[:100], TEXT[:100])
    with pytest.raises(ValueError, match="is no model of probabilities"):
        model.predict_proba(X)


def test_a_scorer_scores_debiased_estimators():
    with pytest.raises(TypeError, match="got str"):
        sd.CorrectedScorer("accuracy")("model", X, SIGNS)


# ---- the package is optional -----------------------------------------------------------------------------


def test_scikit_learn_is_imported_on_demand():
    code = "import sys, symdebias as sd; assert 'sklearn' not in sys.modules; sd.DebiasedClassifier; "
    subprocess.run([sys.executable, "-c", code + "assert 'sklearn' in sys.modules"], check=True)


def test_a_missing_package_says_how_to_install_it():
    code = (
        "import sys; sys.modules['sklearn'] = None; import symdebias as sd\n"
        "from symdebias import *\n"
        "try:\n    sd.DebiasedRegressor\nexcept sd.MissingDependencyError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert 'pip install "symdebias[sklearn]"' in done.stdout
