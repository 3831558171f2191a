"""Predictions for true records, against scores that were written out by hand."""

import numpy as np
import pandas as pd
import pytest
import sympy as sp
from instances import U, Y, free_form_loss, margin_loss
from scipy import special, stats

import symdebias as sd
from symdebias.solvers import History

RNG = np.random.default_rng(0)
TABLE = pd.DataFrame(
    {
        "region": RNG.choice(["n", "e", "s"], 50),
        "sex": RNG.choice([0.0, 1.0], 50),
        "age": RNG.uniform(18, 90, 50),
        "year": RNG.uniform(2000, 2010, 50),
    }
)
MIXED = sd.Release(
    features={
        "age": sd.GaussianMechanism.from_scale(0.5),
        "region": sd.RandomizedResponse(1.0, categories=("n", "e", "s")),
        "sex": sd.RandomizedResponse(1.0, categories=(0, 1)),
    },
    noiseless=("year",),
    fit_intercept=True,
    center={"age": 54.0, "year": 2005.0},
    scale={"age": 51.0},
)
THETA = [2.0, -0.5, 1.5, 0.25, -0.75, 0.1]


def fitted(loss, release, theta):
    """A fit of given parameters: what is predicted from them does not depend on who found them."""
    theta = np.array(theta, dtype=float)
    corrected = sd.debias(loss, release, method="none")
    return sd.Fit(theta=theta, corrected=corrected, solver="by hand", history=History.empty(theta))


def by_hand(table):
    age, year = (table["age"] - 54) / 51, table["year"] - 2005
    region = -0.5 * (table["region"] == "e") + 1.5 * (table["region"] == "s")
    return (2 * age + region + 0.25 * table["sex"] - 0.75 * year + 0.1).to_numpy()


# ---- scores ----------------------------------------------------------------------------------------------


def test_scores_are_those_of_original_columns():
    fit = fitted(sd.losses.least_squares(), MIXED, THETA)
    np.testing.assert_allclose(fit.decision_function(TABLE), by_hand(TABLE), rtol=1e-12)
    np.testing.assert_allclose(fit.decision_function(TABLE[list(reversed(TABLE.columns))]), by_hand(TABLE), rtol=1e-12)
    codes = TABLE["region"].map({"n": 0, "e": 1, "s": 2})
    array = np.column_stack([TABLE["age"], codes, TABLE["sex"], TABLE["year"]])
    np.testing.assert_allclose(fit.decision_function(array), by_hand(TABLE), rtol=1e-12)


def test_scores_agree_with_coefficients_in_original_units():
    fit = fitted(sd.losses.least_squares(), MIXED, THETA)
    zero = pd.DataFrame({"age": [0.0, 1.0], "region": ["n", "n"], "sex": [0.0, 0.0], "year": [0.0, 0.0]})
    scores = fit.decision_function(zero)
    assert scores[0] == pytest.approx(fit.coefficients[-1])
    assert scores[1] - scores[0] == pytest.approx(fit.coefficients[0])


ONE_VECTOR = {
    "margin": sd.Release(
        sd.GaussianMechanism.from_scale(0.5), target="margin", target_values=(0, 1), fit_intercept=True,
        categories={"region": ("n", "e", "s")}, scale={"region": 2.0, "age": 10.0},
    ),
    "joint": sd.Release(
        sd.GaussianMechanism.from_scale(0.5), target="joint", target_bounds=(-3, 3), target_scale=2.0,
        fit_intercept=True, categories={"region": ("n", "e", "s")}, scale={"region": 2.0, "age": 10.0},
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", ONE_VECTOR)
def test_releases_of_one_vector_predict_from_features_alone(kind):
    release = ONE_VECTOR[kind].bind(["age", "region"])
    loss = {
        "margin": sd.Loss(sp.log(1 + sp.exp(-(2 * Y - 1) * U)), score=U, target=Y, target_values=(0, 1)),
        "joint": sd.losses.least_squares(),
    }[kind]
    fit = fitted(loss, release, [0.5, -2.0, 3.0, 0.25])
    table = TABLE[["region", "age"]]
    scores = 0.05 * table["age"] - (table["region"] == "e") + 1.5 * (table["region"] == "s") + 0.25
    np.testing.assert_allclose(fit.decision_function(table), scores, rtol=1e-12)
    wanted = (scores > 0).astype(float) if kind == "margin" else scores
    np.testing.assert_allclose(fit.predict(table), wanted, rtol=1e-12)


def test_a_loss_of_numbers_predicts_the_labels_of_a_margin_release():
    release = sd.Release(sd.GaussianMechanism.from_scale(0.5), target="margin")
    fit = fitted(sd.losses.least_squares(), release, [1.0, 0.0])
    assert fit.predict([[0.3, 1.0], [-2.0, 1.0]]).tolist() == [1.0, -1.0]


# ---- labels, probabilities and means ---------------------------------------------------------------------

TWO = sd.Release(sd.GaussianMechanism.from_scale(0.5))
X = RNG.normal(size=(200, 2))
SCORES = X @ [3.0, -2.0]


@pytest.mark.parametrize("name", ["exponential", "hinge", "logistic", "probit", "squared_hinge", "squared_margin"])
def test_margin_losses_predict_the_sign_of_the_score(name):
    fit = fitted(getattr(sd.losses, name)(), TWO, [3.0, -2.0])
    np.testing.assert_array_equal(fit.predict(X), np.sign(SCORES))
    np.testing.assert_array_equal(fit.predict(1e-20 * X), np.sign(SCORES))
    np.testing.assert_array_equal(fit.predict(1e6 * X), np.sign(SCORES))


def test_a_label_is_the_one_of_least_loss_where_the_sign_does_not_tell():
    fit = fitted(margin_loss(sp.sin(2 * Y * U) + sp.exp(-Y * U / 2)), TWO, [3.0, -2.0])
    losses = [np.sin(2 * y * SCORES) + np.exp(-y * SCORES / 2) for y in (-1, 1)]
    np.testing.assert_array_equal(fit.predict(X), np.where(losses[1] < losses[0], 1.0, -1.0))


@pytest.mark.parametrize(("name", "chance"), [("logistic", special.expit), ("probit", stats.norm.cdf)])
def test_probabilities_are_those_of_the_model(name, chance):
    fit = fitted(getattr(sd.losses, name)(), TWO, [3.0, -2.0])
    np.testing.assert_allclose(fit.predict_proba(X)[:, 1], chance(SCORES), rtol=1e-12)
    np.testing.assert_allclose(fit.predict_proba(X)[:, 0], chance(-SCORES), rtol=1e-12)
    far = fit.predict_proba(1e3 * X)
    assert np.isfinite(far).all()
    np.testing.assert_allclose(far.sum(axis=1), 1, rtol=1e-12)


def test_classes_are_the_most_probable_in_the_users_words():
    release = sd.Release(
        sd.GaussianMechanism.from_scale(0.5), sd.RandomizedResponse(1.0, categories=("red", "blue", "green"))
    )
    theta = RNG.normal(size=(3, 2))
    fit = fitted(sd.losses.softmax(3), release, theta)
    scores = X @ theta.T
    np.testing.assert_allclose(fit.decision_function(X), scores)
    np.testing.assert_allclose(fit.predict_proba(X), special.softmax(scores, axis=1), rtol=1e-12)
    wanted = np.array(["red", "blue", "green"], dtype=object)[scores.argmax(axis=1)]
    assert fit.predict(X).tolist() == wanted.tolist()
    assert fit.score(X, wanted) == 1.0
    assert fit.score(X, np.roll(wanted, 1)) == pytest.approx(np.mean(np.roll(wanted, 1) == wanted))


@pytest.mark.parametrize(
    ("loss", "mean"),
    [
        (sd.losses.least_squares(), lambda u: u),
        (sd.losses.huber(), lambda u: u),
        (sd.losses.quantile(0.9), lambda u: u),
        (sd.losses.poisson(), np.exp),
        (sd.losses.negative_binomial(2.0), np.exp),
    ],
)
def test_losses_of_numbers_predict_numbers(loss, mean):
    np.testing.assert_allclose(fitted(loss, TWO, [3.0, -2.0]).predict(X), mean(SCORES), rtol=1e-12)


def test_labels_that_are_numbers_leave_a_loss_of_numbers_one():
    release = sd.Release(target=sd.RandomizedResponse(1.0, categories=(0, 1, 2)))
    corrected = sd.debias(sd.losses.poisson(), release)
    theta = np.array([0.5])
    fit = sd.Fit(theta=theta, corrected=corrected, solver="by hand", history=History.empty(theta))
    np.testing.assert_allclose(fit.predict([[2.0]]), [np.e])


# ---- scores of predictions -------------------------------------------------------------------------------


def test_the_accuracy_is_that_of_true_labels():
    fit = fitted(sd.losses.logistic(), TWO, [3.0, -2.0])
    y = np.where(np.arange(200) < 30, -1, 1) * np.sign(SCORES)
    assert fit.score(X, y) == pytest.approx(170 / 200)
    assert fit.score(X, y, sample_weight=np.where(np.arange(200) < 60, 1.0, 0.0)) == 0.5


def test_r2_is_the_share_of_the_variance():
    fit = fitted(sd.losses.least_squares(), TWO, [3.0, -2.0])
    y = SCORES + RNG.normal(size=200)
    weights = RNG.uniform(size=200)
    mean = np.average(y, weights=weights)
    wanted = 1 - np.sum(weights * (y - SCORES) ** 2) / np.sum(weights * (y - mean) ** 2)
    assert fit.score(X, y, sample_weight=weights) == pytest.approx(wanted, rel=1e-12)


# ---- what is refused -------------------------------------------------------------------------------------

NO_MEANING = sd.Loss(sp.cosh(U) * Y**2 - U, score=U, target=Y)
REFUSED = {
    "free-form": (free_form_loss(), [1.0, 1.0], "predict", X, "has no score"),
    "no meaning": (NO_MEANING, [1.0, 1.0], "predict", X, "decision_function returns the scores"),
    "no labels": (sd.losses.poisson(), [1.0, 1.0], "predict_proba", X, "has no target values"),
    "a mean beyond float64": (sd.losses.poisson(), [1e4, 0.0], "predict", X[:5] ** 2, "beyond the numbers of float64"),
    "other columns": (sd.losses.logistic(), [1.0, 1.0], "predict", X[:, :1], "1 columns of the score"),
    "names": (sd.losses.logistic(), [1.0, 1.0], "predict", pd.DataFrame(X, columns=["a", "b"]), "have no names"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_predicted_is_refused(case):
    loss, theta, call, records, message = REFUSED[case]
    fit = fitted(loss, TWO, theta)
    with pytest.raises(ValueError, match=message):
        getattr(fit, call)(records)


def test_scores_exist_without_a_meaning():
    np.testing.assert_allclose(fitted(NO_MEANING, TWO, [3.0, -2.0]).decision_function(X), SCORES)


@pytest.mark.parametrize(
    ("loss", "y", "message"),
    [
        (sd.losses.least_squares(), np.zeros(200), "same in all records"),
        (sd.losses.least_squares(), np.zeros(3), "has 3 entries"),
    ],
)
def test_targets_that_cannot_be_judged_are_refused(loss, y, message):
    with pytest.raises(ValueError, match=message):
        fitted(loss, TWO, [1.0, 1.0]).score(X, y)


JUDGED = {
    "numbers": sd.Release(
        {"a": sd.LaplaceMechanism(4.0, bounds=(1, 5)), "b": sd.DiscreteLaplaceMechanism(4.0, (1, 5))}
    ),
    "a ball": sd.Release({("a", "b"): sd.GaussianMechanism(8.0, 1e-5, radius=5.0)}),
    "an octahedron": sd.Release(
        {("a", "b"): sd.LaplaceMechanism(8.0, radius=6.0)}, center={"a": 2.0}, scale={"b": 2.0}
    ),
    "one vector": sd.Release({("a", "b"): sd.SphericalLaplaceMechanism(4.0, radius=5.0)}, "margin"),
}


@pytest.mark.parametrize("release", JUDGED.values(), ids=JUDGED)
def test_a_score_of_released_records_is_not_taken_for_one_of_true_ones(release):
    """True records at the bounds are judged in silence; released ones, of which many are beyond them, with a word."""
    rng = np.random.default_rng(0)
    X = rng.choice([[1.0, 1.0], [3.0, 4.0], [4.0, 3.0], [4.0, 2.0], [1.0, 4.0]], 400)
    table, y = pd.DataFrame(X, columns=["a", "b"]), rng.choice([-1.0, 1.0], 400)
    fit = fitted(sd.losses.logistic(), release, [0.5, -0.5])
    model = sd.DebiasedClassifier(release=release, method="none")
    noised = release.privatize(table, y, random_state=0)
    model.fit(noised.X, noised.y)
    for judge in (fit, model):
        assert 0 <= judge.score(table, y) <= 1
        assert 0 <= judge.score(X[:15] + 100, y[:15]) <= 1
        with pytest.warns(UserWarning, match=r"many of these records lie outside .*CorrectedScorer\(metric\)"):
            judge.score(noised.X, y)
    known = fitted(sd.losses.logistic(), sd.Release({("a", "b"): sd.GaussianMechanism.from_scale(9.0)}), [0.5, -0.5])
    assert 0 <= known.score(noised.X, y) <= 1


def test_a_share_of_variance_is_a_number_or_refused():
    release = sd.Release(sd.GaussianMechanism.from_scale(0.5))
    fit = fitted(sd.losses.least_squares(), release, [1.0])
    X, y = np.array([[1.0], [2.0], [3.0]]), np.array([1.0, 2.0, 2.0])
    assert np.isfinite(fit.score(X, y))
    with pytest.raises(ValueError, match="y has a value in row 1 that is too large"):
        fit.score(X, [1.0, 1e200, 2.0])
    with pytest.raises(ValueError, match="X has values that are too large"):
        fit.score([[1.0], [1e200], [3.0]], y)
