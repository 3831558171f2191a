"""What metrics take for a model: an estimator of scikit-learn that holds a Fit is judged as that is."""

import numpy as np
import pandas as pd
import pytest

import symdebias as sd

pytest.importorskip("sklearn")
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

evaluation = sd.evaluation
RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, size=(4_000, 2))
SIGNS = np.where(X @ [2.0, -1.0] + RNG.logistic(size=len(X)) > 0, 1.0, -1.0)
NOISE = sd.GaussianMechanism.from_scale(0.3)
RELEASED = NOISE.privatize(X, random_state=1)
OPEN = sd.Release(NOISE)
# Text in another order than the sorted one, which estimators have.
NOISED = sd.Release(NOISE, sd.RandomizedResponse(epsilon=2.0, categories=("yes", "no")))
TEXT = np.where(SIGNS > 0, "yes", "no")


def fitted(release, y):
    return sd.DebiasedClassifier(release=release).fit(RELEASED, y)


@pytest.mark.parametrize("coded", [TEXT, (SIGNS > 0).astype(int), SIGNS])
def test_labels_that_were_coded_for_the_fit_are_coded_for_the_metric(coded):
    model = fitted(OPEN, coded)
    for metric in ("accuracy", sd.losses.logistic(), sd.losses.logistic().recoded((0, 1))):
        own = metric if isinstance(metric, str) else sd.losses.logistic()
        expected = evaluation.evaluate(model.fit_, RELEASED, SIGNS, metric=own)
        assert evaluation.evaluate(model, RELEASED, coded, metric=metric) == expected


@pytest.mark.in_turn
def test_every_metric_takes_an_estimator():
    noised = NOISED.privatize(X, TEXT, random_state=2)
    model = sd.DebiasedClassifier(release=noised.release).fit(noised.X, noised.y)
    for judge in (evaluation.evaluate_all, evaluation.roc_curve, evaluation.calibration_curve):
        assert str(judge(model, noised.X, noised.y)) == str(judge(model.fit_, noised.X, noised.y))
    numbers = sd.DebiasedRegressor(release=OPEN).fit(RELEASED, X[:, 0])
    expected = evaluation.evaluate(numbers.fit_, RELEASED, X[:, 0], metric="r2")
    assert evaluation.evaluate(numbers, RELEASED, X[:, 0], metric="r2") == expected


def test_candidates_of_a_cross_validation_are_estimators():
    candidates = {"fit": lambda X, y: fitted_to(X, y).fit_, "estimator": lambda X, y: fitted_to(X, y)}

    def fitted_to(X, y):
        return sd.DebiasedClassifier(release=OPEN).fit(X, y)

    table = evaluation.cross_validate(
        candidates, RELEASED, SIGNS, release=OPEN, metric="log_loss", folds=2, random_state=0
    )
    assert table.estimates["fit"] == table.estimates["estimator"]


def test_of_estimators_as_candidates_copies_are_fitted():
    noised = NOISED.privatize(X, TEXT, random_state=2)
    model = sd.DebiasedClassifier(release=noised.release, l2=0.01)
    table = evaluation.cross_validate(
        {"copy": model, "call": lambda X, y: sd.DebiasedClassifier(release=noised.release, l2=0.01).fit(X, y)},
        noised.X, noised.y, release=noised.release, metric="accuracy", folds=2, random_state=0,
    )  # fmt: skip
    assert table.estimates["copy"] == table.estimates["call"]
    assert not hasattr(model, "fit_")


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        ("auc", "Here it is called roc_auc. Choose one of log_loss"),
        ("RMSE", "It is the root of squared_error. Choose"),
        ("MSE", "Here it is called squared_error"),
        ("Log-Loss", "Here it is called log_loss"),
        ("acuracy", "Here it is called accuracy"),
        ("kappa", "is not known. Choose one of"),
        (sd.losses.logistic, r"A loss is called first: logistic\(\)"),
        (None, "metric=None is not known. Choose"),
    ],
)
def test_metrics_by_other_names_are_told_what_they_are_called(metric, message):
    with pytest.raises(ValueError, match=message):
        evaluation.evaluate([1.0, 1.0], RELEASED, SIGNS, metric=metric, release=OPEN)


def test_partitions_take_an_estimator():
    da = pytest.importorskip("dask.array")
    model = fitted(OPEN, SIGNS)
    parts = [da.from_array(one, chunks=1_000) for one in (RELEASED, SIGNS)]
    found, expected = (sd.distributed.evaluate(one, *parts, metric="accuracy") for one in (model, model.fit_))
    assert found == expected
    with pytest.raises(TypeError, match=r"estimators take records in memory. Pass functools.partial\(sd.distributed"):
        sd.distributed.cross_validate({"one": model}, *parts, release=OPEN, metric="accuracy", folds=2)


def test_rows_of_another_table_are_refused_before_labels_are_coded():
    table, labels = pd.DataFrame(RELEASED, columns=["a", "b"]), pd.Series(TEXT)
    model = fitted(OPEN, TEXT)
    with pytest.raises(ValueError, match="row labels"):
        evaluation.evaluate(model, table, labels[::-1], metric="accuracy")


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (sd.DebiasedClassifier(release=OPEN), "this DebiasedClassifier is not fitted yet"),
        (make_pipeline(sd.DebiasedClassifier(release=OPEN)), "a Pipeline holds no Fit.*the last step of a pipeline"),
        (LogisticRegression(), "a LogisticRegression holds no Fit.*pass its coefficients"),
    ],
)
def test_other_estimators_are_refused_with_what_to_pass(model, message):
    for judge in (evaluation.roc_curve, evaluation.calibration_curve, evaluation.evaluate_all):
        with pytest.raises(TypeError, match=message):
            judge(model, RELEASED, SIGNS)


# ---- columns in another order than those of the fit ------------------------------------------------------

TABLE = pd.DataFrame(RELEASED, columns=["a", "b"])
MEASURED = sd.Release({"a": NOISE, "b": NOISE}, fit_intercept=True)
TURNED = sd.Release({"b": NOISE, "a": NOISE}, fit_intercept=True)
PLAIN = sd.Release(fit_intercept=True)


def regression(release=MEASURED, table=TABLE):
    return sd.m_estimate(sd.debias(sd.losses.least_squares(), release), table, X @ [2.0, -1.0])


@pytest.mark.parametrize("metric", ["squared_error", "r2", sd.losses.least_squares()])
@pytest.mark.parametrize(
    ("release", "table"),
    [
        (TURNED, TABLE),
        (TURNED, TABLE[["b", "a"]]),
        (PLAIN, pd.DataFrame(X, columns=["a", "b"])[["b", "a"]]),
        (sd.Release(noiseless=("b", "a"), fit_intercept=True), pd.DataFrame(X, columns=["a", "b"])),
    ],
)
def test_parameters_of_a_fit_follow_the_columns_of_another_release(metric, release, table):
    """By place, the parameter of one column was that of another: an R2 of -2 for 0.99."""
    expected_of = {id(TURNED): (MEASURED, TABLE)}.get(id(release), (PLAIN, pd.DataFrame(X, columns=["a", "b"])))
    model, y = regression(), X @ [2.0, -1.0]
    expected = evaluation.evaluate(model, expected_of[1], y, metric=metric, release=expected_of[0])
    found = evaluation.evaluate(model, table, y, metric=metric, release=release)
    assert found.value == pytest.approx(expected.value, rel=1e-9, abs=1e-12)
    assert found.standard_error == pytest.approx(expected.standard_error, rel=1e-9)


def test_candidates_of_another_order_are_judged_by_name():
    y = X @ [2.0, -1.0]
    fits = {"same": lambda X, y: regression(), "turned": lambda X, y: regression(TURNED, TABLE[["b", "a"]])}
    table = evaluation.cross_validate(fits, TABLE, y, release=MEASURED, metric="r2", folds=2, random_state=0)
    assert table.estimates["turned"].value == pytest.approx(table.estimates["same"].value, rel=1e-9)
    assert table.estimates["same"].value > 0.9


def test_an_offset_keeps_its_place_beside_them():
    y, offset = X @ [2.0, -1.0], np.linspace(0, 1, len(X))
    model = sd.m_estimate(sd.debias(sd.losses.least_squares(), MEASURED), TABLE, y + offset, offset=offset)
    found, expected = (
        evaluation.evaluate(model, TABLE, y + offset, metric="squared_error", release=release, offset=offset)
        for release in (TURNED, MEASURED)
    )
    assert found.value == pytest.approx(expected.value, rel=1e-9, abs=1e-12)


def test_other_columns_at_the_places_of_those_of_a_fit_are_refused():
    table = TABLE.set_axis(["b", "c"], axis=1)
    with pytest.raises(
        ValueError, match=r"the parameters a, b, intercept, and by release= these records have b, c, inter"
    ):
        evaluation.evaluate(regression(), table, X @ [2.0, -1.0], metric="r2", release=sd.Release(fit_intercept=True))
    # Names that are not known say nothing: columns are at their places.
    found = evaluation.evaluate(regression(), X, X @ [2.0, -1.0], metric="r2", release=PLAIN)
    assert found.value > 0.9


def test_partitions_follow_the_columns_too():
    dd = pytest.importorskip("dask.dataframe")
    y = pd.Series(X @ [2.0, -1.0])
    parts = dd.from_pandas(TABLE[["b", "a"]], npartitions=2), dd.from_pandas(y, npartitions=2)
    found = sd.distributed.evaluate(regression(), *parts, metric="r2", release=TURNED)
    assert found.value == pytest.approx(evaluation.evaluate(regression(), TABLE, y, metric="r2").value, rel=1e-9)
