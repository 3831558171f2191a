"""Estimators of scikit-learn: its own checks, and fits on released records against those of the library."""

import functools
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
import sympy as sp
from instances import free_form_loss
from scipy import special

import symdebias as sd
from symdebias._rows import Rows

sklearn = pytest.importorskip("sklearn")
from sklearn import ensemble, exceptions, metrics  # noqa: E402
from sklearn.base import clone  # noqa: E402
from sklearn.model_selection import GridSearchCV, check_cv  # noqa: E402
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
    """Return scikit-learn's checks of an estimator with their names, by the call of either version; none skips."""
    if hasattr(estimator_checks, "estimator_checks_generator"):
        pairs = estimator_checks.estimator_checks_generator(estimator)
    else:
        pairs = estimator_checks.check_estimator(estimator, generate_only=True)
    # That of array APIs skips but where SciPy was told of them before its import, and none is claimed.
    named = [(one, unwrapped(check)) for one, check in pairs if check.func.__name__ != "check_array_api_input"]
    return [pytest.param(one, check, id=f"{type(one).__name__}-{check.func.__name__}") for one, check in named]


def unwrapped(check):
    """Return a check itself, where scikit-learn before 1.6 has put a skip in the place of one that is said to fail."""
    inner = getattr(check.func, "__wrapped__", None)
    if not isinstance(inner, functools.partial):
        return check
    return functools.partial(inner.func, *inner.args, *check.args, **inner.keywords)


def passes(check, estimator):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its records are as few and as separable as can be
        check(estimator)


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("estimator", "check"), [*own_checks(sd.DebiasedClassifier()), *own_checks(sd.DebiasedRegressor())]
)
def test_scikit_learns_own_checks(estimator, check):
    passes(check, estimator)


BY_STEPS = {"solver": "sgd", "solver_options": {"epochs": 50}, "random_state": 0}
CHECKS_BY_STEPS = [*own_checks(sd.DebiasedClassifier(**BY_STEPS)), *own_checks(sd.DebiasedRegressor(**BY_STEPS))]
# What looks at partial_fit, or at more than the solver would be asked by its own tests.
QUICK = ("partial_fit", "n_features_in", "column_names", "tags", "pickle")


def passes_by_steps(check, estimator):
    # All in one batch, weights count records; in several, a record of weight 2 is in one, and twice it may be in two.
    if "sample_weight_equivalence" in check.func.__name__ or "weights_invariance" in check.func.__name__:
        assert estimator._failed_checks[check.func.__name__]
        # A learned step depends on the number of records, too.
        options = {"epochs": 50, "batch_size": 1000, "order": "given", "step_size": 0.1}
        estimator = clone(estimator).set_params(solver_options=options)
    passes(check, estimator)


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("estimator", "check"), [one for one in CHECKS_BY_STEPS if any(part in one.id for part in QUICK)]
)
def test_scikit_learns_checks_of_streams(estimator, check):
    passes_by_steps(check, estimator)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("estimator", "check"), [one for one in CHECKS_BY_STEPS if not any(part in one.id for part in QUICK)]
)
def test_scikit_learns_own_checks_with_sgd(estimator, check):
    passes_by_steps(check, estimator)


# ---- labels that another tool has numbered ---------------------------------------------------------------

ORDERS = {
    "sorted": ("no", "yes"),
    "not sorted": ("yes", "no"),
    "signs": (-1, 1),
    "numbers not sorted": (7, 3),
}


@pytest.mark.in_turn
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("as_text", [True, False])
def test_ensembles_predict_what_they_were_given(order, as_text):
    labels = ORDERS[order]
    y = np.array(labels)[(SIGNS > 0).astype(int)]
    release = sd.Release(features=NOISE, target=sd.RandomizedResponse(epsilon=3.0, categories=labels))
    noised = release.privatize(X, y, random_state=1)
    given, truth = noised.y, y
    if isinstance(labels[0], str):
        given = np.array(labels)[noised.y.astype(int)] if as_text else noised.y
        truth = y if as_text else (SIGNS > 0).astype(float)
    one = sd.DebiasedClassifier(release=release, encoded_labels=np.unique(given))
    alone = sd.DebiasedClassifier(release=release).fit(noised.X, noised.y).score(X, y)
    for model in (
        ensemble.VotingClassifier([("a", one), ("b", clone(one).set_params(l2=0.01))]),
        ensemble.VotingClassifier([("a", one), ("b", clone(one).set_params(l2=0.01))], voting="soft"),
        ensemble.BaggingClassifier(one, n_estimators=2, random_state=0),
    ):
        model.fit(noised.X, given)
        assert set(model.predict(X)) <= set(given.tolist())
        assert model.score(X, truth) == pytest.approx(alone, abs=0.01)


def test_places_that_may_be_in_either_order_are_refused():
    release = sd.Release(features=NOISE, target=sd.RandomizedResponse(epsilon=3.0, categories=("yes", "no")))
    noised = release.privatize(X, TEXT, random_state=1)
    text = np.array(["yes", "no"])[noised.y.astype(int)]
    voting = ensemble.VotingClassifier([("a", sd.DebiasedClassifier(release=release))], voting="soft")
    with pytest.raises(ValueError, match=r"yes, no in an order that is not sorted.*encoded_labels=np.unique\(y\)"):
        voting.fit(noised.X, text)
    noised = SIGNED.privatize(X, SIGNS, random_state=1)
    with pytest.raises(ValueError, match=r"labels must be -1 or 1; got places from 0 to 1.*encoded_labels"):
        sd.DebiasedClassifier(release=SIGNED).fit(noised.X, (noised.y > 0).astype(int))


@pytest.mark.in_turn
def test_encoded_labels_without_a_mechanism_and_in_streams():
    codes = (SIGNS > 0).astype(int)
    plain = sd.DebiasedClassifier(encoded_labels=("no", "yes")).fit(X, codes)
    assert plain.classes_.tolist() == [0, 1]
    np.testing.assert_array_equal(plain.predict(X), sd.DebiasedClassifier().fit(X, codes).predict(X))
    reversed_ = sd.DebiasedClassifier(encoded_labels=("yes", "no")).fit(X, 1 - codes)
    np.testing.assert_array_equal(reversed_.predict(X), 1 - plain.predict(X))
    stream = sd.DebiasedClassifier(encoded_labels=("no", "yes"), solver="sgd", random_state=0)
    stream.partial_fit(X[:10_000], codes[:10_000], classes=[0, 1]).partial_fit(
        X[10_000:], codes[10_000:], classes=[0, 1]
    )
    assert stream.classes_.tolist() == [0, 1]
    np.testing.assert_array_equal(plain.released_target(codes[:5]), SIGNS[:5])


@pytest.mark.parametrize(
    ("encoded", "y", "what"),
    [
        (("no",), SIGNS, "does not list two or more different labels"),
        (("no", "no"), SIGNS, "does not list two or more different labels"),
        (("no", "yes"), SIGNS, "something else than the places 0 to 1"),
        (("no", "yes"), TEXT, "something else than the places 0 to 1"),
        ((-1, 2), (SIGNS > 0).astype(int), r"labels must be -1 or \+1; got 1 other value"),
    ],
)
def test_encoded_labels_that_do_not_fit(encoded, y, what):
    with pytest.raises(ValueError, match=what):
        sd.DebiasedClassifier(release=SIGNED, encoded_labels=encoded).fit(X, y)


def test_encoded_labels_name_every_label():
    release = sd.Release(target=sd.RandomizedResponse(epsilon=6.0, categories=("a", "b", "c")))
    few = np.flatnonzero(release.privatize(X, np.full(len(X), "a"), random_state=0).y < 2)
    with pytest.raises(ValueError, match=r"encoded_labels leave out the label 'c'"):
        sd.DebiasedClassifier("softmax", release=release, encoded_labels=("a", "b")).fit(X[few], (SIGNS > 0)[few] * 1)


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


@pytest.mark.in_turn
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
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), model.predict_proba(X), rtol=1e-12)
    assert model.score(X, np.asarray(y)) == pytest.approx(np.mean(model.predict(X) == np.asarray(y)))
    assert model.score(X, np.asarray(y)) > 0.8


@pytest.mark.in_turn
def test_labels_of_text_are_sorted_whatever_their_order_on_the_release():
    fits = []
    for categories in (("no", "yes"), ("yes", "no")):
        release = sd.Release(NOISE, sd.RandomizedResponse(3.0, categories=categories), fit_intercept=True)
        noised = release.privatize(X, TEXT, random_state=1)
        fits.append(sd.DebiasedClassifier(release=release, l2=0.01).fit(noised.X, np.array(noised.y)))
    for model in fits:
        assert model.classes_.tolist() == ["no", "yes"]
        np.testing.assert_allclose(model.coef_, [[3.7, -2.5]], atol=1.2)
        scores = X @ model.coef_[0] + model.intercept_[0]
        np.testing.assert_allclose(model.decision_function(X), scores, rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(model.predict(X) == "yes", model.decision_function(X) > 0)
        np.testing.assert_allclose(model.predict_proba(X)[:, 1], special.expit(model.decision_function(X)), rtol=1e-12)
        # Scorers of scikit-learn take the last class for the one that large scores stand for.
        assert metrics.get_scorer("roc_auc")(model, X, TEXT) > 0.8
        assert metrics.get_scorer("neg_log_loss")(model, X, TEXT) > -0.6
    assert np.sign(fits[0].fit_.theta[0]) == -np.sign(fits[1].fit_.theta[0])


@pytest.mark.in_turn
def test_several_labels_of_text_are_sorted():
    noise = sd.LaplaceMechanism.from_scale(0.05)
    release = sd.Release(noise, sd.RandomizedResponse(4.0, categories=("c", "a", "b")), fit_intercept=True)
    scores = X @ np.array([[5.0, 0.0, -5.0], [0.0, 5.0, 2.0]])
    drawn = np.random.default_rng(1).gumbel(size=scores.shape)
    y = np.array(["a", "b", "c"])[np.argmax(scores + drawn, axis=1)]
    noised = release.privatize(X, y, random_state=1)
    model = sd.DebiasedClassifier("softmax", release=release, l2=0.001).fit(noised.X, noised.y)
    assert model.classes_.tolist() == ["a", "b", "c"]
    np.testing.assert_allclose(model.coef_, model.fit_.theta[[1, 2, 0], :2])
    np.testing.assert_allclose(model.decision_function(X), X @ model.coef_.T + model.intercept_, rtol=1e-9)
    np.testing.assert_array_equal(model.predict(X), model.classes_[np.argmax(model.predict_proba(X), axis=1)])
    assert model.score(X, y) > 0.6


@pytest.mark.in_turn
def test_a_recoded_loss_has_the_same_fit():
    noised = SIGNED.privatize(X, SIGNS, random_state=1)
    other = CODINGS["0 and 1"][0]
    fits = [
        sd.DebiasedClassifier("squared_margin", release=release).fit(noised.X, y).fit_.theta
        for release, y in ((SIGNED, noised.y), (other, (noised.y + 1) / 2))
    ]
    np.testing.assert_allclose(fits[0], fits[1], rtol=1e-9)


@pytest.mark.in_turn
def test_labels_that_are_released_as_they_are():
    release = sd.Release(features=NOISE)
    noised = release.privatize(X, random_state=1)
    model = sd.DebiasedClassifier("squared_margin", release=release).fit(noised.X, TEXT)
    assert model.classes_.tolist() == ["no", "yes"]
    by_hand = sd.m_estimate(sd.debias(sd.losses.squared_margin(), release), noised.X, SIGNS)
    np.testing.assert_array_equal(model.fit_.theta, by_hand.theta)
    value = sd.CorrectedScorer("accuracy")(model, noised.X, TEXT)
    assert value == pytest.approx(sd.evaluation.evaluate(by_hand, noised.X, SIGNS, metric="accuracy").value)
    for metric in ("roc_auc", "f1", "brier"):
        sign = -1 if metric == "brier" else 1
        logistic = sd.DebiasedClassifier("logistic", release=sd.Release()).fit(X[:300], TEXT[:300])
        wanted = sd.evaluation.evaluate(logistic.fit_, X[:300], SIGNS[:300], metric=metric).value
        assert sd.CorrectedScorer(metric)(logistic, X[:300], TEXT[:300]) == pytest.approx(sign * wanted)
    above = sd.evaluation.evaluate(logistic.fit_, X[:300], SIGNS[:300], metric="recall", threshold=0.5).value
    assert sd.CorrectedScorer("recall", threshold=0.5)(logistic, X[:300], TEXT[:300]) == pytest.approx(above)
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


@pytest.mark.in_turn
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


@pytest.mark.in_turn
@pytest.mark.filterwarnings("ignore:.*sample_weight.*:UserWarning")
def test_what_comes_per_record_is_routed():
    noised = SIGNED.privatize(X[:2000], SIGNS[:2000], random_state=1)
    weights, groups = np.linspace(0.5, 1.5, 2000), np.arange(2000) // 4
    plain = sd.DebiasedClassifier("squared_margin", release=SIGNED)
    fitted = clone(plain).fit(noised.X, noised.y, sample_weight=weights, clusters=groups)
    assert "cluster" in fitted.fit_.inference.kind
    own = np.full(2000, 0.2)
    scaled = clone(plain).fit(noised.X, noised.y, noise_scale=own)
    np.testing.assert_allclose(scaled.coef_, clone(plain).fit(noised.X, noised.y).coef_, rtol=1e-9)
    sklearn.set_config(enable_metadata_routing=True)
    try:
        asking = plain.set_fit_request(sample_weight=True, clusters=True)
        model = make_pipeline(FunctionTransformer(), clone(asking)).fit(
            noised.X, noised.y, sample_weight=weights, clusters=groups
        )
        np.testing.assert_array_equal(model[-1].fit_.covariance, fitted.fit_.covariance)
        scorer = sd.CorrectedScorer("accuracy").set_score_request(sample_weight=True)
        search = GridSearchCV(model, {"debiasedclassifier__l2": [0.0]}, scoring=scorer, cv=2)
        search.fit(noised.X, noised.y, sample_weight=weights, clusters=groups)
        first = search.cv_results_["split0_test_score"][0]
        folds = next(iter(check_cv(2, noised.y, classifier=True).split(noised.X, noised.y)))
        by_hand = clone(asking).fit(
            noised.X[folds[0]], noised.y[folds[0]], sample_weight=weights[folds[0]], clusters=groups[folds[0]]
        )
        held = sd.CorrectedScorer("accuracy")(
            by_hand, noised.X[folds[1]], noised.y[folds[1]], sample_weight=weights[folds[1]]
        )
        assert first == held
        unasked = GridSearchCV(model, {}, scoring=sd.CorrectedScorer("accuracy"), cv=2)
        with pytest.raises(ValueError, match="sample_weight"):
            unasked.fit(noised.X, noised.y, sample_weight=weights, clusters=groups)
    finally:
        sklearn.set_config(enable_metadata_routing=False)


@pytest.mark.in_turn
@pytest.mark.filterwarnings("ignore:.*:UserWarning")
def test_a_scorer_takes_the_offset_of_the_model():
    release = sd.Release(features=NOISE)
    known, counts = np.linspace(-0.5, 0.5, 2000), np.arange(2000) % 3
    noised = release.privatize(X[:2000], counts, random_state=1)
    sklearn.set_config(enable_metadata_routing=True)
    try:
        model = sd.DebiasedRegressor("poisson", release=release).set_fit_request(offset=True)
        scorer = sd.CorrectedScorer("poisson").set_score_request(offset=True)
        search = GridSearchCV(model, {"l2": [0.0]}, scoring=scorer, cv=2, error_score="raise")
        search.fit(noised.X, counts, offset=known)
        half = clone(model).fit(noised.X[1000:], counts[1000:], offset=known[1000:])
        held = sd.evaluation.evaluate(half.fit_, noised.X[:1000], counts[:1000], metric="poisson", offset=known[:1000])
        assert search.cv_results_["split0_test_score"][0] == -held.value
        with pytest.raises(ValueError, match="this fit has an offset"):
            sd.CorrectedScorer("poisson")(half, noised.X[:1000], counts[:1000])
    finally:
        sklearn.set_config(enable_metadata_routing=False)


@pytest.mark.in_turn
def test_weights_count_records():
    noised = SIGNED.privatize(X[:2000], SIGNS[:2000], random_state=1)
    weights = np.arange(2000) % 2
    weighted = sd.DebiasedClassifier("squared_margin", release=SIGNED).fit(noised.X, noised.y, sample_weight=weights)
    half = sd.DebiasedClassifier("squared_margin", release=SIGNED).fit(noised.X[1::2], noised.y[1::2])
    np.testing.assert_allclose(weighted.coef_, half.coef_, rtol=1e-6)


@pytest.mark.parametrize("target", [None, sd.RandomizedResponse(3.0)], ids=["true labels", "released labels"])
@pytest.mark.parametrize("shuffled", ["y", "sample_weight"])
def test_records_with_other_row_labels_are_not_matched_by_place(target, shuffled):
    release = sd.Release({"a": NOISE, "b": NOISE}, target)
    table = pd.DataFrame(X[:2000], columns=["a", "b"])
    noised = release.privatize(table, SIGNS[:2000], random_state=1)
    given = {"y": pd.Series(np.asarray(noised.y)), "sample_weight": pd.Series(np.ones(2000))}
    model = sd.DebiasedClassifier("squared_margin", release=release)
    model.fit(noised.X, **given)
    given[shuffled] = given[shuffled].sample(frac=1.0, random_state=0)
    with pytest.raises(ValueError, match="different row labels"):
        model.fit(noised.X, **given)
    with pytest.raises(ValueError, match="different row labels"):
        sd.CorrectedScorer("accuracy")(model, noised.X, **given)


@pytest.mark.in_turn
def test_sgd_is_a_solver_by_name():
    noised = SIGNED.privatize(X, SIGNS, random_state=1)
    model = sd.DebiasedClassifier(
        "squared_margin", release=SIGNED, solver="sgd", l2=0.1, solver_options={"average": 0.5}, random_state=3
    ).fit(noised.X, noised.y)
    corrected = sd.debias(sd.losses.squared_margin(), SIGNED)
    by_hand = sd.sgd(corrected, noised.X, noised.y, l2=0.1, average=0.5, random_state=3)
    np.testing.assert_array_equal(model.fit_.theta, by_hand.theta)


# ---- streams ---------------------------------------------------------------------------------------------

GIVEN = {"order": "given", "batch_size": 100}


def by_blocks(model, X, y, *, blocks=4, **first):
    for place, (features, target) in enumerate(zip(np.split(X, blocks), np.split(y, blocks), strict=True)):
        model.partial_fit(features, target, **(first if place == 0 else {}))
    return model


@pytest.mark.in_turn
@pytest.mark.filterwarnings("ignore:.*training has not arrived")
@pytest.mark.parametrize("average", [False, True])
def test_blocks_of_a_stream_are_one_pass_over_all_records(average):
    noised = SIGNED.privatize(X[:4000], SIGNS[:4000], random_state=1)
    steps = sd.step_sizes.inverse_time(8.0, offset=20.0)
    options = {**GIVEN, "average": average, "step_size": steps}
    model = sd.DebiasedClassifier("squared_margin", release=SIGNED, solver="sgd", l2=0.1, solver_options=options)
    stream = by_blocks(clone(model), noised.X, noised.y)
    whole = model.fit(noised.X, noised.y)
    np.testing.assert_allclose(stream.fit_.theta, whole.fit_.theta, rtol=1e-12)
    assert (stream.fit_.diagnostics["records"], stream.fit_.diagnostics["steps"]) == (4000, 40)
    # A fit has been one block; what comes after it goes on from there.
    half = clone(model).fit(noised.X[:2000], noised.y[:2000]).partial_fit(noised.X[2000:], noised.y[2000:])
    np.testing.assert_allclose(half.fit_.theta, whole.fit_.theta, rtol=1e-12)
    again = pickle.loads(pickle.dumps(half)).partial_fit(noised.X, noised.y)
    np.testing.assert_array_equal(again.fit_.theta, half.partial_fit(noised.X, noised.y).fit_.theta)


@pytest.mark.in_turn
@pytest.mark.filterwarnings("ignore:.*training has not arrived")
def test_a_block_without_weights_has_weights_of_1():
    """Also where the first block had others, whose mean gradients are divided by."""
    noised = SIGNED.privatize(X[:4000], SIGNS[:4000], random_state=1)
    options = {**GIVEN, "step_size": 0.01}
    model = sd.DebiasedClassifier("squared_margin", release=SIGNED, solver="sgd", l2=0.1, solver_options=options)
    found = []
    for weights in (None, np.ones(2000)):
        stream = clone(model).partial_fit(noised.X[:2000], noised.y[:2000], sample_weight=np.full(2000, 50.0))
        stream.partial_fit(noised.X[2000:], noised.y[2000:], sample_weight=weights)
        found.append(stream.fit_.theta)
    np.testing.assert_allclose(found[0], found[1], rtol=1e-12)


@pytest.mark.in_turn
def test_learned_steps_and_a_surrogate_come_from_the_first_block():
    noised = SIGNED.privatize(X, SIGNS, random_state=1)
    options = {"average": True, "batch_size": 32}
    model = sd.DebiasedClassifier(release=SIGNED, solver="sgd", l2=0.01, solver_options=options, random_state=0)
    model.partial_fit(noised.X[:10_000], noised.y[:10_000])
    first = model.fit_
    assert first.corrected.method == "surrogate"
    model.partial_fit(noised.X[10_000:], noised.y[10_000:])
    assert model.fit_.diagnostics["step_size"] == first.diagnostics["step_size"]
    assert model.fit_.corrected is first.corrected
    # The same limit as by all records at once: standard errors are about 0.2.
    exact = sd.DebiasedClassifier(release=SIGNED, l2=0.01).fit(noised.X, noised.y)
    np.testing.assert_allclose(model.coef_, exact.coef_, atol=0.6)
    assert model.score(X, SIGNS) > 0.8


def test_a_stream_of_labels_that_are_released_as_they_are():
    release = sd.Release(features=NOISE)
    noised = release.privatize(X[:4000], random_state=1)
    model = sd.DebiasedClassifier("squared_margin", release=release, solver="sgd", solver_options=GIVEN)
    # A block of one class is a block like others, where the classes are known.
    order = np.argsort(TEXT[:4000], kind="stable")
    stream = by_blocks(clone(model), noised.X[order], TEXT[:4000][order], blocks=8, classes=["yes", "no"])
    assert stream.classes_.tolist() == ["no", "yes"]
    for y, classes, message in (
        (TEXT[:50], None, "classes must be passed on the first call to partial_fit"),
        (TEXT[:50], ["yes", "perhaps"], "not among classes"),
    ):
        with pytest.raises(ValueError, match=message):
            clone(model).partial_fit(noised.X[:50], y, classes=classes)
    for X_next, classes, message in (
        (noised.X[:50], ["no", "perhaps"], "others than at the first call"),
        (noised.X[:50, :1], None, "X has 1 features, but DebiasedClassifier is expecting 2"),
    ):
        with pytest.raises(ValueError, match=message):
            stream.partial_fit(X_next, TEXT[:50], classes=classes)
    with pytest.raises(ValueError, match="Leave classes out"):
        sd.DebiasedClassifier(release=SIGNED, solver="sgd").partial_fit(X[:9], SIGNS[:9], classes=[-1, 1])


@pytest.mark.parametrize("estimator", [sd.DebiasedClassifier(), sd.DebiasedRegressor()])
def test_newtons_method_takes_no_stream_and_says_why(estimator):
    assert not hasattr(estimator, "partial_fit")
    with pytest.raises(AttributeError, match=r'm_estimate\W* has no partial_fit: the root .* Use solver="sgd"'):
        estimator.partial_fit(X, SIGNS)


def test_what_a_stream_cannot_have_is_refused():
    for options, message in (
        ({"covariance": "plug-in", "average": True}, "covariance, which is that of one run"),
        ({"early_stopping": 2}, "early_stopping, which goes over all records again"),
        ({"checkpoint": "run.checkpoint"}, "checkpoint, which keeps how far one run over all records has come"),
        ({"average": 0.5}, "a share of all steps"),
        ({"epochs": 0}, "epochs"),
    ):
        model = sd.DebiasedRegressor(solver="sgd", solver_options=options)
        with pytest.raises(ValueError, match=message):
            model.partial_fit(X[:50], SCORES[:50])
    with pytest.raises(ValueError, match='clusters are for standard errors, which solver="sgd"'):
        sd.DebiasedRegressor(solver="sgd").fit(X[:50], SCORES[:50], clusters=np.arange(50) // 5)


@pytest.mark.in_turn
@pytest.mark.filterwarnings("ignore:.*training has not arrived")
def test_epochs_of_a_stream_are_said_to_be_one():
    seven, one = (
        sd.DebiasedRegressor(solver="sgd", random_state=0, solver_options={"epochs": epochs}) for epochs in (7, 1)
    )
    with pytest.warns(UserWarning, match=r"has epochs=7, which are passes of fit, .* one over each block") as caught:
        seven.partial_fit(X[:500], SCORES[:500])
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", ".*training has not arrived")
        one.partial_fit(X[:500], SCORES[:500])
        # Records that come after others take one pass, however many those had.
        clone(seven).fit(X[:500], SCORES[:500]).partial_fit(X[500:900], SCORES[500:900])
    np.testing.assert_array_equal(seven.coef_, one.coef_)


@pytest.mark.in_turn
def test_a_stream_that_has_not_arrived_warns():
    """Short steps leave the average of a pass at a tenth of the way; learned ones arrive."""
    for step_size, has_arrived in ((1e-3, False), ("auto", True)):
        options = {"average": True, "step_size": step_size}
        model = sd.DebiasedClassifier("squared_margin", solver="sgd", solver_options=options, random_state=0)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            by_blocks(model, X, SIGNS, classes=[-1, 1])
        told = [str(one.message) for one in caught if one.category is sd.ConvergenceWarning]
        assert len(told) == (0 if has_arrived else 4)
        assert model.fit_.notes == tuple(told[3:])
        assert all(one.startswith("so far training has not arrived") and "More records may" in one for one in told)


@pytest.mark.in_turn
@pytest.mark.parametrize("solver", ["m_estimate", "sgd"])
def test_a_default_penalty_that_decides_a_coefficient_is_warned_of(solver):
    small = X[:2000] * [1.0, 1e-5]
    model = sd.DebiasedClassifier(solver=solver, random_state=0)
    with pytest.warns(UserWarning, match="the default l2=1e-06 .* numbers as those of number 1. Give l2=0") as caught:
        model.fit(small, SIGNS[:2000])
    assert caught[0].filename == __file__
    table = pd.DataFrame(small, columns=["a", "b"]).assign(c=0.0)
    with pytest.warns(UserWarning, match="numbers as those of b. Give l2=0"):
        clone(model).fit(table, SIGNS[:2000])
    # Without it the unit of a column is none of the fit's.
    plain = clone(model).set_params(l2=0.0).fit(small, SIGNS[:2000])
    np.testing.assert_allclose(plain.coef_ * [1.0, 1e-5], clone(plain).fit(X[:2000], SIGNS[:2000]).coef_, rtol=1e-6)


def test_steps_are_not_learned_from_a_record():
    noised = SIGNED.privatize(X[:1000], SIGNS[:1000], random_state=1)
    model = sd.DebiasedClassifier(release=SIGNED, solver="sgd", random_state=0)
    with pytest.raises(sd.DivergenceError, match="cannot be learned: what 1 of the records say of gradients is no"):
        model.partial_fit(noised.X[:1], noised.y[:1])


@pytest.mark.in_turn
def test_a_stream_that_is_lost_so_far_warns():
    release = sd.Release(features=sd.GaussianMechanism.from_scale(3.0), target=sd.RandomizedResponse(epsilon=3.0))
    noised = release.privatize(X[:2000], SIGNS[:2000], random_state=1)
    model = sd.DebiasedClassifier("squared_margin", release=release, solver="sgd", random_state=0)
    with pytest.warns(sd.ConvergenceWarning, match="so far training is lost: .* Go on with more records"):
        model.partial_fit(noised.X, noised.y)


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


@pytest.mark.in_turn
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
    "a label for numbers": (sd.DebiasedRegressor("logistic"), SIGNS[:6], ValueError, "[Uu]se a DebiasedClassifier"),
    "softmax for numbers": (sd.DebiasedRegressor("softmax"), SIGNS[:6], ValueError, "[Uu]se a DebiasedClassifier"),
    "numbers for a label": (sd.DebiasedClassifier(release=JOINT), SIGNS[:6], ValueError, "Use a DebiasedRegressor"),
    "margins for a number": (
        sd.DebiasedRegressor(release=sd.Release(NOISE, target="margin")), None, ValueError, "a DebiasedClassifier",
    ),
    "labels at other distances": (
        sd.DebiasedClassifier("softmax", release=THREE), [0, 1, 3, 0, 1, 3], ValueError, "not at the distances",
    ),
    "other numbers of labels": (
        sd.DebiasedClassifier(release=THREE), [0, 1, 3, 0, 1, 3], ValueError, "the release names 3",
    ),
    "a loss of two for three labels": (
        sd.DebiasedClassifier("logistic", release=sd.Release(NOISE, sd.RandomizedResponse(1.0, ("a", "b", "c")))),
        ["a", "b", "c"] * 2, ValueError, r'of two labels, and the release names 3. Use loss="softmax"',
    ),
    "a count for a label": (
        sd.DebiasedClassifier("poisson", release=sd.Release(NOISE, sd.RandomizedResponse(1.0, ("no", "yes")))),
        ["no", "yes"] * 3, ValueError, r"with the mean exp\(u\), and its label of least loss is not the likelier",
    ),
    "no labels": (sd.DebiasedClassifier(release=SIGNED), None, ValueError, "the target y is None. Pass noised.y"),
    "no numbers": (sd.DebiasedRegressor(release=SIGNED), None, ValueError, "the target y is None. Pass noised.y"),
    "options that are none": (
        sd.DebiasedClassifier(solver_options=3), SIGNS[:6], TypeError, "must be a mapping or None; got int",
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


@pytest.mark.in_turn
def test_a_loss_of_numbers_whose_least_loss_tells_the_likelier_label_classifies():
    u, y = sp.symbols("u y", real=True)
    brier = sd.Loss((1 / (1 + sp.exp(-u)) - y) ** 2, score=u, target=y)
    release = sd.Release(target=sd.RandomizedResponse(6.0, ("no", "yes")), fit_intercept=True)
    for loss in (brier, "least_squares"):
        model = sd.DebiasedClassifier(loss, release=release).fit(X[:5000], TEXT[:5000])
        assert model.score(X[:5000], TEXT[:5000]) > 0.6


def test_probabilities_need_a_model_of_them():
    model = sd.DebiasedClassifier("squared_margin").fit(X[:100], TEXT[:100])
    with pytest.raises(ValueError, match="is no model of probabilities"):
        model.predict_proba(X)


def test_a_scorer_scores_debiased_estimators():
    with pytest.raises(TypeError, match="got str"):
        sd.CorrectedScorer("accuracy")("model", X, SIGNS)


@pytest.mark.in_turn
def test_records_that_are_read_by_blocks_are_fitted_where_they_are():
    release = sd.Release(NOISE, sd.RandomizedResponse(3.0, ("no", "yes")), fit_intercept=True)
    noised = release.privatize(X, TEXT, random_state=0)
    loss = sd.losses.logistic()
    expected = sd.DebiasedClassifier(loss, release=noised.release).fit(noised.X, noised.y)

    def read(rows):
        return np.array(noised.X[rows])

    found = sd.DebiasedClassifier(loss, release=noised.release).fit(Rows(noised.X.shape, read), noised.y)
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-9)
    assert found.n_features_in_ == 2


# ---- the package is optional -----------------------------------------------------------------------------


ON_DEMAND = """
import sys, symdebias as sd
assert "sklearn" not in sys.modules
sys.modules["sklearn"] = None
from symdebias import *
try:
    sd.DebiasedRegressor
except sd.MissingDependencyError as error:
    print(error)
del sys.modules["sklearn"]
sd.DebiasedClassifier
assert "sklearn" in sys.modules
"""


@pytest.mark.in_turn
def test_scikit_learn_is_imported_on_demand_and_where_it_is_missing_it_says_how_to_install_it():
    done = subprocess.run([sys.executable, "-c", ON_DEMAND], check=True, capture_output=True, text=True)
    assert 'pip install "symdebias[sklearn]"' in done.stdout


def test_a_scorer_of_no_metric_is_refused_where_it_is_made():
    """GridSearchCV makes NaN of what a scorer refuses when it is called."""
    for options, message in (
        ({"metric": "auc"}, "metric='auc' is not known"),
        ({"metric": "roc_auc", "threshold": 1.0}, "Leave it out"),
        ({"metric": "f1", "threshold": float("nan")}, "threshold=nan"),
    ):
        with pytest.raises(ValueError, match=message):
            sd.CorrectedScorer(**options)


@pytest.mark.parametrize("unit", [1e-4, 1e3])
def test_units_of_a_release_change_coefficients_alone(unit):
    """A penalty that is small beside columns of unit variance is large beside those of 1e-4."""
    plain, scaled = (
        sd.DebiasedRegressor(release=sd.Release(sd.GaussianMechanism.from_scale(0.3 * size))).fit(
            size * X, X @ [1.0, -0.5]
        )
        for size in (1.0, unit)
    )
    np.testing.assert_allclose(scaled.coef_ * unit, plain.coef_, rtol=1e-6)


@pytest.mark.in_turn
def test_released_folders_are_searched_and_split(tmp_path):
    """The table of a folder goes through the tools of scikit-learn as an array does."""
    model_selection = pytest.importorskip("sklearn.model_selection")
    X, y = np.random.default_rng(0).uniform(0, 10, size=(2_000, 1)), np.tile(["no", "yes"], 1_000)
    release = sd.Release(
        {"a": sd.LaplaceMechanism(8.0, bounds=(0, 10))}, sd.RandomizedResponse(4.0, ("no", "yes")), fit_intercept=True
    )
    release.privatize(X, y, random_state=1).save(tmp_path / "released")
    noised = sd.load(tmp_path / "released")
    model = sd.DebiasedClassifier(loss="squared_margin", release=noised.release)
    scorer = sd.CorrectedScorer(sd.losses.squared_margin())
    found, expected = (
        model_selection.cross_val_score(model, one, noised.y, cv=2, scoring=scorer)
        for one in (noised.X, noised.X["a"][:, None])
    )
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    search = model_selection.GridSearchCV(model, {"l2": [0.0, 1.0]}, cv=2, scoring=scorer).fit(noised.X, noised.y)
    assert search.best_estimator_.feature_names_in_.tolist() == ["a"]
    part, rest, _, labels = model_selection.train_test_split(noised.X, noised.y, random_state=0)
    assert (part.columns, len(part) + len(rest), len(labels)) == (("a",), 2_000, len(rest))


def test_a_loss_of_several_scores_is_no_loss_of_a_regressor_and_the_way_is_named():
    u, v, y = sp.symbols("u v y", real=True)
    normal = sd.Loss(v + sp.exp(-2 * v) * (y - u) ** 2 / 2, score=(u, v), target=y)
    with pytest.raises(ValueError, match=r"has 2 scores, and a regressor predicts by one\. Fit it by symdebias\.m_est"):
        sd.DebiasedRegressor(loss=normal).fit(X[:100], X[:100, 0])


def test_labels_in_a_column_of_their_own_are_refused_with_what_to_pass():
    release = sd.Release(NOISE, sd.RandomizedResponse(3.0, categories=("no", "yes")), fit_intercept=True)
    with pytest.raises(ValueError, match=r"its shape is \(100, 1\)\. Pass numpy\.ravel\(y\)"):
        sd.DebiasedClassifier(release=release).fit(X[:100], np.array(TEXT[:100])[:, None])


def test_a_score_is_not_of_labels_in_another_coding():
    """Each prediction of 0 and 1 for -1 and 1 would look wrong, and those of the larger label right."""
    model = sd.DebiasedClassifier("logistic").fit(X, SIGNS)
    with pytest.raises(ValueError, match=r"y has a label that is not among those of the fit, -1.*, 1.*row [0-9]+;"):
        model.score(X, (SIGNS + 1) // 2)
    with pytest.raises(ValueError, match="y should be a 1d array"):
        model.score(X, None)
    with pytest.raises(exceptions.NotFittedError):
        sd.DebiasedClassifier("logistic").score(X, SIGNS)
    released = sd.DebiasedClassifier("squared_margin", release=SIGNED).fit(X, SIGNS)
    with pytest.raises(TypeError, match="X must hold real numbers"):
        released.score(None, SIGNS)


def test_scores_take_weights_and_targets_that_have_one():
    """Weights are those of `fit`; 1e308 gave NaN, and a negative one a number."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(40, 2))
    y, labels = X @ [1.0, 2.0], np.where(X[:, 0] > 0, 1, 0)
    for model, truth in ((sd.DebiasedRegressor().fit(X, y), y), (sd.DebiasedClassifier().fit(X, labels), labels)):
        weighed = model.score(X, truth, sample_weight=np.arange(40))
        assert weighed == pytest.approx(model.score(X, truth, sample_weight=np.arange(40) / 7.0))
        for weights, message in (
            (np.full(40, 1e308), r"the largest sample_weight is 1e\+308"),
            (np.where(np.arange(40) == 3, -1.0, 1.0), "sample_weight is negative in row 3"),
            (["x"] * 40, "sample_weight must hold real numbers"),
            (np.ones(39), "sample_weight has 39"),
        ):
            with pytest.raises((TypeError, ValueError), match=message):
                model.score(X, truth, sample_weight=weights)
    with pytest.raises(ValueError, match=r"the r2_score of these records is no number.*give y in a larger unit"):
        sd.DebiasedRegressor().fit(X, y).score(X, 1e300 * y)


@pytest.mark.parametrize("solver", [[], {}, np.array("sgd"), None])
def test_what_is_no_name_of_a_solver_is_refused(solver):
    with pytest.raises(ValueError, match=r"is not known\. Choose one of m_estimate, sgd"):
        sd.DebiasedClassifier(solver=solver).fit(np.eye(4), [0, 1, 0, 1])


@pytest.mark.parametrize("hole", [np.nan, np.inf])
def test_labels_that_are_no_numbers_are_refused_without_a_warning(hole):
    X = np.random.default_rng(0).normal(size=(40, 2))
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    y[5] = hole
    with pytest.raises(ValueError, match="Input y contains"):
        sd.DebiasedClassifier(release=sd.Release(sd.GaussianMechanism.from_scale(0.1))).fit(X, y)


def test_numbers_too_large_to_be_squared_are_refused_by_their_row_without_a_release():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 2)), rng.integers(0, 2, 300)
    X[3, 1] = 1e200
    with pytest.raises(ValueError, match="X has a value in row 3 that is too large"):
        sd.DebiasedClassifier(method="none").fit(X, y)
