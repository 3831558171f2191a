"""Tables that are read where they are: the rows of the table, and no copy of it."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
import sympy as sp

import symdebias as sd
from symdebias import _table_rows, reading, records
from symdebias._columns import Table
from symdebias._rows import Rows

pd = pytest.importorskip("pandas")

N = 301
NAMES = ("age", "pay", "hours", "place", "member", "grade")
RELEASE = sd.Release(
    {
        ("age", "pay"): sd.GaussianMechanism.from_scale(0.1),
        "place": sd.RandomizedResponse(3.0, categories=("n", "e", "s")),
        "member": sd.RandomizedResponse(3.0, categories=(0, 1)),
        "grade": sd.RandomizedResponse(3.0, categories=(1, 2, 5)),
    },
    target=sd.RandomizedResponse(3.0, categories=(-1, 1)),
    noiseless=("hours",),
)


def people():
    rng = np.random.default_rng(0)
    columns = {
        "pay": rng.normal(size=N),
        "place": np.array(["n", "e", "s"])[rng.integers(0, 3, N)],
        "age": rng.integers(0, 90, N),
        "grade": np.array([1, 2, 5])[rng.integers(0, 3, N)],
        "hours": rng.normal(size=N).astype(np.float32),
        "member": rng.integers(0, 2, N),
    }
    return columns, rng.choice([-1.0, 1.0], N)


def table_of(kind):
    columns, y = people()
    frame = pd.DataFrame(columns)
    if kind == "symdebias":
        return Table({name: np.asarray(values) for name, values in columns.items()}), y
    if kind == "pandas":
        return frame, y
    if kind == "pandas, odd types":
        return frame.astype({"pay": "Float64", "age": "Int32", "place": "category", "member": "Int8"}), pd.Series(y)
    if kind.startswith("polars"):
        polars = pytest.importorskip("polars")
        table = polars.DataFrame({name: np.asarray(values).tolist() for name, values in columns.items()})
        pieces = [table] if kind == "polars" else [table[:7], table[7:100], table[100:]]
        return polars.concat(pieces, rechunk=False), polars.Series("y", y)
    arrow = pytest.importorskip("pyarrow")
    table = arrow.table({name: np.asarray(values).tolist() for name, values in columns.items()})
    pieces = [table] if kind == "pyarrow" else [table.slice(0, 7), table.slice(7, 93), table.slice(100)]
    return arrow.concat_tables(pieces), y


KINDS = ["symdebias", "pandas", "pandas, odd types", "polars", "polars in pieces", "pyarrow", "pyarrow in pieces"]


@pytest.fixture
def by_blocks(monkeypatch):
    monkeypatch.setattr(records, "SMALL_TABLE", 0)
    return sd.debias(sd.losses.exponential(), RELEASE)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_those_of_the_table_as_a_whole(kind, by_blocks):
    X, y = table_of(kind)
    whole, read = by_blocks.records(X, y), by_blocks.records(X, y, by_blocks=True)
    assert isinstance(read.matrix, Rows)
    assert len(read) == N
    for rows in (slice(None), slice(3, 200), slice(5, 290, 7), np.array([299, 0, 7, 6, 100, 7])):
        assert np.array_equal(read.matrix[rows], whole.matrix[rows])
        assert np.array_equal(read.target[rows], whole.target[rows])


@pytest.mark.in_turn
@pytest.mark.parametrize("package", ["pandas", "polars", "pyarrow", "symdebias"])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("kind", ["margin", "joint"])
def test_long_tables_of_one_vector_are_read_as_short_ones(kind, intercept, package, monkeypatch):
    """Their columns are those of the features: the target and the intercept of the vector are none of them."""
    pytest.importorskip(package)
    columns, y = people()
    X = pd.DataFrame({"age": np.asarray(columns["age"]) / 90, "place": np.resize(["n", "e", "s"], N)})
    release = sd.Release(
        {("age", "place"): sd.SphericalLaplaceMechanism(4.0, radius=3.0)}, target=kind, fit_intercept=intercept,
        categories={"place": ("n", "e", "s")}, target_bounds=(-1, 1) if kind == "joint" else None,
    )  # fmt: skip
    noised = release.privatize(X, y, random_state=0)
    if package == "polars":
        noised = replace(noised, X=pytest.importorskip("polars").from_pandas(noised.X))
    elif package == "pyarrow":
        noised = replace(noised, X=pytest.importorskip("pyarrow").Table.from_pandas(noised.X))
    elif package == "symdebias":
        noised = replace(noised, X=Table({name: noised.X[name] for name in noised.X.columns}))
    loss = sd.losses.squared_margin() if kind == "margin" else sd.losses.least_squares()
    corrected = sd.debias(loss, noised.release)
    theta = 0.1 * np.arange(1, 1 + len(corrected.parameter_names))
    whole = corrected.mean_gradient(theta, noised.X, noised.y)
    monkeypatch.setattr(records, "SMALL_TABLE", 0)
    np.testing.assert_allclose(corrected.mean_gradient(theta, noised.X, noised.y), whole, rtol=1e-12)
    with pytest.raises(ValueError, match="missing: age"):
        corrected.mean_gradient(theta, pd.DataFrame(np.ones((N, 3)), columns=["years", "place=e", "place=s"]), noised.y)


@pytest.mark.parametrize("answers", ["text", "objects", "truth", "a list"])
@pytest.mark.parametrize("form", [np.float32, np.asfortranarray])
def test_labels_beside_long_arrays_of_another_form_are_read_as_beside_others(form, answers, monkeypatch):
    monkeypatch.setattr(reading, "CHUNK", 100)
    rng = np.random.default_rng(0)
    X, yes = rng.normal(size=(N, 2)), rng.random(N) < 0.5
    categories = (0, 1) if answers == "truth" else ("no", "yes")
    release = sd.Release(
        sd.GaussianMechanism.from_scale(0.1), sd.RandomizedResponse(3.0, categories=categories), fit_intercept=True
    )
    text = np.where(yes, "yes", "no")
    y = {"text": text, "objects": text.astype(object), "truth": yes, "a list": text.tolist()}[answers]
    corrected = sd.debias(sd.losses.squared_margin().recoded((0, 1)), release)
    found = corrected.records(form(X), y, by_blocks=True)
    assert isinstance(found.matrix, Rows)
    np.testing.assert_array_equal(found.target[:], yes.astype(float))


def test_a_target_that_is_text_is_read_as_its_codes(monkeypatch):
    monkeypatch.setattr(records, "SMALL_TABLE", 0)
    release = sd.Release(
        {("age", "pay"): sd.GaussianMechanism.from_scale(0.1)},
        target=sd.RandomizedResponse(3.0, categories=("no", "yes")),
    )
    frame, y = table_of("pandas")
    answers = pd.Series(np.where(y > 0, "yes", "no"))
    u, target = sp.symbols("u y", real=True)
    loss = sd.Loss(sp.exp(u) - target * u, score=u, target=target, target_values=(0, 1))
    corrected = sd.debias(loss, release)
    read = corrected.records(frame[["pay", "age"]], answers, by_blocks=True)
    assert isinstance(read.matrix, Rows)
    assert np.array_equal(read.target[:], (y > 0).astype(float))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"pay": float("nan")}, r"X has NaN in row 17, column 1 \(pay\)"),
        ({"place": "w"}, "column place of X has a value in row 17 that was not declared"),
        ({"grade": 3}, "column grade of X has a value in row 17 that was not declared"),
        ({"member": 2}, "column member of X has a value in row 17 that was not declared"),
    ],
    ids=lambda value: "".join(value) if isinstance(value, dict) else "",
)
def test_a_bad_value_is_named_by_its_row_and_column(kind, change, error, by_blocks, monkeypatch):
    columns, y = people()
    for name, value in change.items():
        columns[name][17] = value
    monkeypatch.setitem(globals(), "people", lambda: (columns, y))
    X, y = table_of(kind)
    with pytest.raises(ValueError, match=error):
        by_blocks.records(X, y, by_blocks=True)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda X: X.drop(columns="age"), ValueError, "missing: age"),
        (lambda X: X.assign(other=1.0), ValueError, "not in the release: other"),
        (lambda X: X.assign(pay="a"), TypeError, "column pay of X must hold real numbers"),
        (lambda X: X.assign(pay=True), TypeError, "column pay of X must hold real numbers"),
        (lambda X: X.assign(pay=None), (TypeError, ValueError), "pay"),
        (lambda X: X[:300], ValueError, "y has 301 entries, but X has 300 rows"),
    ],
)
def test_tables_that_do_not_fit_are_refused(change, error, message, by_blocks):
    X, y = table_of("pandas")
    with pytest.raises(error, match=message):
        by_blocks.records(change(X), y, by_blocks=True)


def test_missing_values_of_tables_are_found(by_blocks):
    X, y = table_of("pandas, odd types")
    X.loc[200, "age"] = pd.NA
    with pytest.raises(ValueError, match=r"X has NaN in row 200, column 0 \(age\)"):
        by_blocks.records(X, y, by_blocks=True)


def test_columns_of_one_array_are_that_array():
    X = np.arange(12.0).reshape(4, 3)
    frame = pd.DataFrame(X, columns=["a", "b", "c"], copy=False)
    found = _table_rows.rows_of_table(frame, ("a", "b", "c"), {})
    assert isinstance(found, np.ndarray)
    assert np.array_equal(found, X)
    assert np.shares_memory(found, frame["a"].to_numpy())
    other = _table_rows.rows_of_table(frame, ("b", "a", "c"), {})
    assert isinstance(other, Rows)
    assert np.array_equal(other[:], X[:, [1, 0, 2]])


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_a_table_is_not_copied_as_a_whole(kind, by_blocks):
    """A copy of the records takes 38.4 MB; a window of them 8.4 MB, and what is made of it as much."""
    n, names = 600_000, [f"x{place}" for place in range(8)]
    X = np.random.default_rng(0).normal(size=(8, n))
    columns = dict(zip(names, X, strict=True))
    table = {
        "pandas": lambda: pd.DataFrame(X.T, columns=names, copy=False),
        "polars": lambda: pytest.importorskip("polars").DataFrame(columns),
        "pyarrow": lambda: pytest.importorskip("pyarrow").table(columns),
    }[kind]()
    y = np.where(X[0] > 0, 1.0, -1.0)
    corrected = sd.debias(sd.losses.exponential(), sd.Release(sd.GaussianMechanism.from_scale(0.1)))
    corrected.records(table, y, by_blocks=True)
    tracemalloc.start()
    try:
        read = corrected.records(table, y, by_blocks=True)
        for start in range(0, n, 30_000):
            read.matrix[start : start + 30_000]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 24e6
    assert np.array_equal(read.matrix[1_000:1_010], X.T[1_000:1_010])


@pytest.mark.parametrize("kind", ["array", "pandas"])
def test_a_release_takes_no_more_than_what_is_released_besides(kind):
    """The records take 16 MB; the noised ones as much, and a table of them once more."""
    X = np.random.default_rng(0).uniform(-0.5, 0.5, (500_000, 4))
    given = X if kind == "array" else pd.DataFrame(X, columns=list("abcd"))
    release = sd.Release(sd.GaussianMechanism(1.0, 1e-5, radius=1.0))
    for seed in (None, 0):
        release.privatize(given, random_state=seed)
        tracemalloc.start()
        try:
            noised = release.privatize(given, random_state=seed)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert len(noised.X) == 500_000
        assert peak < (28e6 if kind == "array" else 44e6)
    assert not np.shares_memory(release.privatize(X, random_state=0).X, X)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "rows", [slice(3, 40), slice(None), slice(0, 300, 7), slice(9, 9), np.array([299, 0, 7])], ids=str
)
def test_rows_of_a_table_are_those_of_its_columns(kind, rows):
    X, _ = table_of(kind)
    columns, _ = people()
    found = sd._tables.take_rows(X, rows)
    assert type(found) is type(X)
    assert np.array_equal(np.asarray(found["hours"], dtype=np.float32), columns["hours"][rows])
    assert np.asarray(found["place"]).tolist() == columns["place"][rows].tolist()


def test_one_row_of_a_long_table_takes_no_room():
    """A place for each row takes 4 MB."""
    table = pytest.importorskip("polars").DataFrame({"a": np.zeros(500_000)})
    tracemalloc.start()
    try:
        assert len(_table_rows.first_row(table)) == 1
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1e6


JUDGED = sd.Release(
    {
        ("age", "pay"): sd.GaussianMechanism.from_scale(0.1),
        "place": sd.RandomizedResponse(3.0, categories=("n", "e", "s")),
        "member": sd.RandomizedResponse(3.0, categories=(0, 1)),
    },
    target=sd.RandomizedResponse(3.0, categories=(-1, 1)),
    noiseless=("hours",),
)


@pytest.mark.in_turn
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("metric", ["log_loss", "accuracy", "squared_error"])
def test_metrics_of_a_table_are_those_of_it_as_a_whole(kind, metric, monkeypatch):
    X, y = table_of(kind)
    X = (
        X.drop(columns="grade")
        if hasattr(X, "iloc")
        else X.drop("grade")
        if hasattr(X, "height")
        else X.drop(["grade"])
        if hasattr(X, "schema")
        else Table({name: X[name] for name in X.columns if name != "grade"})
    )
    theta = np.array([0.01, -0.2, 0.1, 0.3, -0.1, 0.1, 0.2])[: len(JUDGED.design(5).parameters)]

    def judged():
        found = sd.evaluation.evaluate(theta, X, y, metric=metric, release=JUDGED, label_model="logistic")
        return found.value, found.standard_error, found.bias

    whole = judged()
    monkeypatch.setattr(records, "SMALL_TABLE", 0)
    assert isinstance(sd.evaluation.records.Records.checked(None, X, y, JUDGED).matrix, Rows)
    assert judged() == whole


@pytest.mark.in_turn
def test_scores_of_long_columns_are_those_of_contiguous_ones(monkeypatch):
    monkeypatch.setattr(reading, "CHUNK", 100)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(N, 3)).astype(np.float32), rng.choice([-1.0, 1.0], N)
    release = sd.Release(sd.GaussianMechanism.from_scale(0.1))
    wholes = [np.asfortranarray(X), X, X.astype(float)]
    found = [sd.evaluation.evaluate([1.0, 0, -1], one, y, metric="log_loss", release=release) for one in wholes]
    assert isinstance(sd.evaluation.records.Records.checked(None, wholes[0], y, release).matrix, Rows)
    assert len({(one.value, one.standard_error) for one in found}) == 1
    X[250, 2] = np.nan
    with pytest.raises(ValueError, match="X has NaN in row 250, column 2"):
        sd.evaluation.evaluate([1.0, 0, -1], X, y, metric="log_loss", release=release)


@pytest.mark.parametrize("kind", KINDS)
def test_a_metric_names_a_bad_value_by_its_row_and_column(kind, monkeypatch):
    monkeypatch.setattr(records, "SMALL_TABLE", 0)
    columns, y = people()
    columns["hours"][17] = np.nan
    monkeypatch.setitem(globals(), "people", lambda: (columns, y))
    X, y = table_of(kind)
    with pytest.raises(ValueError, match=r"X has NaN in row 17, column 5 \(hours\)"):
        sd.evaluation.evaluate(np.zeros(8), X, y, metric="squared_error", release=RELEASE)


@pytest.mark.parametrize("kind", KINDS)
def test_columns_of_a_table_are_noised_as_those_of_an_array(kind):
    """Each has noise of its own; what has none, and is centred, is handed on as it is centred."""
    X, _ = table_of(kind)
    release = sd.Release(
        {
            "age": sd.LaplaceMechanism(1.0, bounds=(0, 90)),
            ("pay", "member"): sd.GaussianMechanism(1.0, 1e-5, radius=9.0),
            "grade": sd.RandomizedResponse(3.0, categories=(1, 2, 5)),
            "place": sd.RandomizedResponse(3.0, categories=("n", "e", "s")),
        },
        noiseless=("hours",),
        center={"hours": 0.5},
    )
    columns, _ = people()
    coded = columns | {
        "place": np.searchsorted(["e", "n", "s"], columns["place"]).choose([1, 0, 2]),
        "grade": np.searchsorted([1, 2, 5], columns["grade"]),
    }
    array = np.column_stack([coded[name].astype(float) for name in release.columns])
    before = array.copy()
    of_table = release.privatize(X, random_state=0).X
    of_array = release.privatize(array, random_state=0).X
    assert np.array_equal(array, before)
    for place, name in enumerate(release.columns):
        own = np.asarray(of_table[name]).tolist()
        if name in ("place", "grade"):
            own = [("n", "e", "s").index(one) if name == "place" else (1, 2, 5).index(one) for one in own]
        assert np.array_equal(np.asarray(own, dtype=float), of_array[:, place]), name
