"""A release without names takes those of the table: fits tell coefficients by them, and match other tables by them."""

import numpy as np
import pandas as pd
import pytest
import sympy as sp

import symdebias as sd
from symdebias import records
from symdebias.solvers import checkpoint

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, size=(2_000, 3))
Y = X @ [1.0, 2.0, 3.0] + 0.1 * RNG.normal(size=len(X))
# The column without noise stands in the middle of the table, and last in a release.
RELEASED = X + 0.3 * RNG.normal(size=X.shape) * [1, 0, 1]
TABLE = pd.DataFrame({name: RELEASED[:, place].copy() for place, name in enumerate(["age", "year", "hours"])})
NAMES = ("age", "hours", "year")
RELEASE = sd.Release(sd.GaussianMechanism.from_scale(0.3), noiseless=("year",))
LOSS = sd.losses.least_squares()
SOLVERS = {
    "m_estimate": sd.m_estimate,
    "sgd": lambda corrected, X, y: sd.sgd(corrected, X, y, order="given", random_state=0),
    "replicates": lambda corrected, X, y: sd.sgd_replicates(corrected, X, y, [{}], order="given", random_state=0)[0],
    "naive": lambda corrected, X, y: sd.literature.naive(corrected.declared, corrected.release, X, y),
    "calibration": lambda corrected, X, y: sd.literature.regression_calibration(
        corrected.declared, corrected.release, X, y
    ),
}


def of_kind(kind):
    if kind == "pandas":
        return TABLE
    package = pytest.importorskip(kind)
    make = package.table if kind == "pyarrow" else package.DataFrame
    return make({name: TABLE[name].to_numpy() for name in TABLE})


@pytest.mark.in_turn
@pytest.mark.parametrize("small", [True, False])
@pytest.mark.parametrize("solver", SOLVERS)
def test_fits_are_those_of_a_release_with_names(monkeypatch, solver, small):
    """Long tables are read where they lie, and lost the order of a release without names."""
    monkeypatch.setattr(records, "SMALL_TABLE", 10**9 if small else 1)
    found, expected = (
        SOLVERS[solver](sd.debias(LOSS, release), TABLE, Y) for release in (RELEASE, RELEASE.bind(NAMES))
    )
    np.testing.assert_array_equal(found.theta, expected.theta)
    assert found.names == expected.names == NAMES
    assert found.corrected.release == RELEASE.bind(NAMES)


def read_by_names(names):
    return sd.blocks.from_iterator(lambda: [TABLE.assign(target=Y)], columns=names, target="target")


@pytest.mark.parametrize("solver", SOLVERS)
def test_rows_that_were_read_by_names_have_these(solver):
    """By place they were x0, x1, and year."""
    found, expected = (
        SOLVERS[solver](sd.debias(LOSS, release), *read_by_names(NAMES)) for release in (RELEASE, RELEASE.bind(NAMES))
    )
    np.testing.assert_array_equal(found.theta, expected.theta)
    assert found.names == expected.names == NAMES
    with pytest.raises(ValueError, match="read as the columns age, year, hours, and those of the release are age, ho"):
        SOLVERS[solver](sd.debias(LOSS, RELEASE), *read_by_names(["age", "year", "hours"]))


def test_central_fits_to_rows_that_were_read_by_names_have_these():
    private = {"epsilon": 1.0, "adjacency": "replace-one", "l2": 0.1, "record_radius": 10.0, "random_state": 0}
    loss = sd.losses.huber(1.0)
    found, expected = (
        sd.output_perturbation(loss, *given, target_bounds=(-9, 9), **private)
        for given in (read_by_names(NAMES), (TABLE[list(NAMES)], Y))
    )
    np.testing.assert_array_equal(found.theta, expected.theta)
    assert found.names == expected.names == NAMES


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_a_summary_has_the_names_of_the_table(kind):
    fit = sd.m_estimate(sd.debias(LOSS, RELEASE), of_kind(kind), Y)
    assert list(fit.summary_frame().index) == list(NAMES)
    assert "\nhours " in fit.summary()
    assert fit.wald_test("year").pvalue < 1e-6


@pytest.mark.parametrize("small", [True, False])
def test_metrics_take_columns_by_the_same_order(monkeypatch, small):
    monkeypatch.setattr(records, "SMALL_TABLE", 10**9 if small else 1)
    found, expected = (
        sd.evaluation.evaluate([1.0, 3.0, 2.0], TABLE, Y, metric="r2", release=release)
        for release in (RELEASE, RELEASE.bind(NAMES))
    )
    assert found == expected
    assert found.value > 0.9


def test_predictions_match_tables_by_name(tmp_path):
    fit = sd.m_estimate(sd.debias(LOSS, RELEASE), TABLE, Y)
    fit.save(tmp_path / "fit")
    for one in (fit, sd.Fit.load(tmp_path / "fit")):
        expected = one.predict(X[:, [0, 2, 1]])
        np.testing.assert_allclose(X @ [1.0, 2.0, 3.0], expected, atol=1.0)
        for names in (["age", "year", "hours"], ["hours", "age", "year"]):
            table = pd.DataFrame(X, columns=["age", "year", "hours"])[names]
            np.testing.assert_array_equal(one.predict(table), expected)
        with pytest.raises(ValueError, match="not those of the release; missing: year; not in the release: years"):
            one.predict(TABLE.rename(columns={"year": "years"}))


def test_a_column_of_categories_in_place_of_its_indicators_is_told_what_makes_them():
    release = sd.Release(noiseless=("age", "place"), categories={"place": ("n", "e", "s")}, fit_intercept=True)
    people = pd.DataFrame({"age": X[:, 0], "place": np.resize(["n", "e", "s"], len(X))})
    corrected = sd.debias(LOSS, release)
    with pytest.raises(ValueError, match=r"missing: place=e, place=s; .* privatize makes them of place; of true"):
        sd.m_estimate(corrected, people, Y)
    made = release.privatize(people, Y)
    assert sd.m_estimate(corrected, made.X, made.y).names == ("age", "place=e", "place=s", "intercept")


def test_an_array_has_no_names():
    """Coefficients of an array are numbered, and tables cannot be matched with them."""
    corrected = sd.debias(LOSS, sd.Release(sd.GaussianMechanism.from_scale(0.3)))
    assert sd.m_estimate(corrected, TABLE, Y).names == ("age", "year", "hours")
    fit = sd.m_estimate(corrected, RELEASED, Y)
    assert fit.names == ("x0", "x1", "x2")
    with pytest.raises(ValueError, match="have no names"):
        fit.predict(TABLE)


def test_one_corrected_loss_fits_several_tables():
    corrected = sd.debias(LOSS, sd.Release(sd.GaussianMechanism.from_scale(0.3)))
    for names in (["a", "b", "c"], ["d", "e", "f"], ["a", "b", "c"]):
        fit = sd.m_estimate(corrected, TABLE.set_axis(names, axis=1), Y)
        assert fit.names == tuple(names)
    assert corrected.release.columns is None
    assert corrected.named_by(TABLE) is corrected.named_by(TABLE[::2])


@pytest.mark.in_turn
@pytest.mark.parametrize("solver", [sd.m_estimate, sd.sgd])
def test_a_run_goes_on_from_its_checkpoint(tmp_path, monkeypatch, solver):
    """The table names the columns again, so that the same call is known for the same."""
    monkeypatch.setattr(checkpoint, "_SECONDS", 0.0)
    monkeypatch.setattr(checkpoint.Checkpoint, "remove", lambda self: None)
    options = {"checkpoint": tmp_path / "run"} | ({"random_state": 0} if solver is sd.sgd else {})
    found, again = (solver(sd.debias(LOSS, RELEASE), TABLE, Y, **options) for _ in range(2))
    assert (tmp_path / "run").exists()
    np.testing.assert_array_equal(again.theta, found.theta)
    with pytest.raises(ValueError, match="checkpoint"):
        solver(sd.debias(LOSS, RELEASE), TABLE.rename(columns={"hours": "hour"}), Y, **options)


def test_features_of_a_loss_are_matched_by_name():
    """By place, those of another order gave the fit of another model."""
    x1, x2, y, t1, t2 = sp.symbols("x1 x2 y t1 t2", real=True)
    loss = sd.Loss.of_features((t1 * x1**2 + t2 * x2 - y) ** 2, features=[x1, x2], parameters=[t1, t2], target=y)
    corrected = sd.debias(loss, sd.Release(sd.GaussianMechanism.from_scale(0.3)))
    target = 2 * X[:, 0] ** 2 + 3 * X[:, 1]
    array = X[:, :2] + 0.3 * RNG.normal(size=(len(X), 2))
    expected = sd.m_estimate(corrected, array, target).theta
    table = pd.DataFrame(array, columns=["x1", "x2"])
    for one in (table, table[["x2", "x1"]]):
        np.testing.assert_array_equal(sd.m_estimate(corrected, one, target).theta, expected)
        np.testing.assert_array_equal(
            corrected.mean_gradient(expected, one, target), corrected.mean_gradient(expected, array, target)
        )
    with pytest.raises(ValueError, match=r"the features x1, x2 and the table the columns age, hours\. Name them alike"):
        sd.m_estimate(corrected, table.set_axis(["age", "hours"], axis=1), target)


def test_estimators_take_names_that_are_years():
    """The release is made, and its names are no records any more."""
    pytest.importorskip("sklearn")
    table = pd.DataFrame(RELEASED, columns=["1990", "2000", "2010"])
    model = sd.DebiasedRegressor(release=sd.Release(sd.GaussianMechanism.from_scale(0.3))).fit(table, Y)
    assert model.fit_.names == ("1990", "2000", "2010")
    np.testing.assert_array_equal(model.predict(table[["2010", "2000", "1990"]]), model.predict(table))


def test_partitions_name_the_columns():
    dd = pytest.importorskip("dask.dataframe")
    parts = dd.from_pandas(TABLE, npartitions=2), dd.from_pandas(pd.Series(Y), npartitions=2)
    fit = sd.distributed.m_estimate(sd.debias(LOSS, RELEASE), *parts)
    assert fit.names == NAMES
    np.testing.assert_allclose(fit.theta, sd.m_estimate(sd.debias(LOSS, RELEASE), TABLE, Y).theta, rtol=1e-9)


SCALES = pd.DataFrame(RNG.uniform(0.1, 0.5, size=(len(X), 2)), columns=["age", "hours"])
MEASURED = pd.DataFrame(X[:, [0, 2]] + SCALES.to_numpy() * RNG.normal(size=(len(X), 2)), columns=["age", "hours"])


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("order", [["age", "hours"], ["hours", "age"]])
def test_noise_scales_of_a_table_are_matched_by_name(named, order):
    """By place, those of a table in another order than the release were those of other columns."""
    release = sd.Release(sd.GaussianMechanism.from_scale(0.3))
    corrected = sd.debias(LOSS, release.bind(["age", "hours"]) if named else release)
    target = X[:, 0] + X[:, 2]
    expected = sd.m_estimate(corrected, MEASURED, target, noise_scale=SCALES.to_numpy())
    for table in (MEASURED, MEASURED[order]):
        found = sd.m_estimate(corrected, table, target, noise_scale=SCALES[order])
        for name in order:
            assert found.theta[found.names.index(name)] == pytest.approx(
                expected.theta[expected.names.index(name)], rel=1e-9
            )
    array = sd.m_estimate(corrected, MEASURED.to_numpy(), target, noise_scale=SCALES)
    np.testing.assert_array_equal(array.theta, expected.theta)


@pytest.mark.in_turn
def test_noise_scales_of_other_names_are_refused():
    corrected = sd.debias(
        LOSS, sd.Release({("age", "hours"): sd.GaussianMechanism.from_scale(0.3)}, noiseless=("year",))
    )
    scales = SCALES.assign(year=0.0)
    table = MEASURED.assign(year=X[:, 1])
    with pytest.raises(ValueError, match="a table of age_sd, hours_sd, year_sd, and the release has age, hours, year:"):
        sd.m_estimate(corrected, table, Y, noise_scale=scales.add_suffix("_sd"))
    with pytest.raises(ValueError, match="has a scale for column year, which has no normal noise"):
        sd.m_estimate(corrected, table, Y, noise_scale=scales.assign(year=0.1))
    single = sd.debias(LOSS, sd.Release({"age": sd.GaussianMechanism.from_scale(0.3)}))
    one, scale = MEASURED[["age"]], SCALES[["age"]].add_suffix("_sd")
    found = sd.m_estimate(single, one, Y, noise_scale=scale).theta
    np.testing.assert_array_equal(found, sd.m_estimate(single, one, Y, noise_scale=scale.to_numpy()).theta)


@pytest.mark.in_turn
@pytest.mark.parametrize("loss", ["least_squares", "logistic"])
def test_an_offset_leaves_the_names(loss):
    """That of labels is a column more, which is held."""
    target = Y if loss == "least_squares" else np.where(Y > 0, 1.0, -1.0)
    corrected = sd.debias(getattr(sd.losses, loss)(), RELEASE)
    fit = sd.m_estimate(corrected, TABLE, target, offset=np.full(len(Y), 0.1), l2=0.01)
    assert fit.names == NAMES
    expected = fit.predict(X[:, [0, 2, 1]], offset=np.zeros(len(Y)))
    table = pd.DataFrame(X, columns=["age", "year", "hours"])
    np.testing.assert_array_equal(fit.predict(table, offset=np.zeros(len(Y))), expected)


def test_a_check_of_records_names_the_columns_of_a_table():
    found = sd.checks.check_records(RELEASE, TABLE, Y)
    assert {probe.column for probe in found.probes} >= {"age", "hours"}
