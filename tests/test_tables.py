"""Tables of pandas, polars and pyarrow: what goes in comes back as what it was, with its types."""

import copy
import datetime
import pickle
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import symdebias as sd
from symdebias import _tables
from symdebias._columns import Table
from symdebias.codegen.parallel import CHUNK

PLACES = ("n", "e", "s", "w")
COLUMNS = {
    "year": np.arange(2000, 2012),
    "place": np.resize(np.array(PLACES[:2]), 12),
    "age": np.linspace(20.0, 60.0, 12, dtype=np.float32),
    "rooms": np.resize(np.arange(8, dtype=np.int16), 12),
    "sex": np.resize(np.array([0, 1]), 12),
}
RELEASE = sd.Release(
    {
        "age": sd.LaplaceMechanism(1.0, bounds=(20, 60)),
        "sex": sd.RandomizedResponse(1.0, (0, 1)),
        "place": sd.RandomizedResponse(1.0, PLACES),
        "rooms": sd.DiscreteLaplaceMechanism(1.0, bounds=(0, 7)),
    },
    sd.RandomizedResponse(1.0, ("no", "yes")),
    noiseless=("year",), fit_intercept=True,
)  # fmt: skip
ANSWERS = ["no", "yes", "yes"] * 4
# How to make a table and a column of each kind, and what to call the types that come back.
KINDS = {
    "pandas": (pd.DataFrame, pd.Series, lambda table, name: str(table[name].dtype)),
    "polars": (pl.DataFrame, pl.Series, lambda table, name: str(table[name].dtype).lower()),
    "pyarrow": (pa.table, lambda values: pa.chunked_array([values]), lambda table, name: str(table[name].type)),
}


def noised(kind, columns=COLUMNS, **options):
    table, column, _ = KINDS[kind]
    return RELEASE.privatize(table(columns), column(ANSWERS), random_state=1, **options)


@pytest.mark.parametrize("kind", KINDS)
def test_tables_come_back_as_what_they_were(kind):
    found = noised(kind)
    assert type(found.X) is type(KINDS[kind][0](COLUMNS))
    assert _tables.column_names(found.X) == RELEASE.columns
    types = [KINDS[kind][2](found.X, name) for name in COLUMNS]
    assert types[0] == "int64"
    assert types[1].startswith(("str", "object"))
    assert types[2] in ("float64", "double")  # noise to 24 bits would be another law
    assert types[3:] == ["int64", "int64"]
    assert type(found.y) is type(KINDS[kind][1](ANSWERS))
    assert set(np.asarray(found.y)) <= {"no", "yes"}
    assert _tables.frame(found.X)["year"].to_numpy().tolist() == COLUMNS["year"].tolist()
    # The same numbers as of an array in the order of the release.
    codes = [COLUMNS["age"], COLUMNS["sex"], np.resize([0, 1], 12), COLUMNS["rooms"], COLUMNS["year"]]
    array = RELEASE.privatize(np.column_stack(codes), np.array(ANSWERS), random_state=1)
    np.testing.assert_array_equal(RELEASE.design_matrix(found.X), array.X)


def test_categories_stay_categories_and_name_all_that_were_declared():
    """Never those that occur: which ones do not is a statistic of the data."""
    given = COLUMNS | {"place": pd.Categorical(COLUMNS["place"])}
    assert noised("pandas", given).X["place"].cat.categories.tolist() == list(PLACES)
    ordered = pd.CategoricalDtype(PLACES, ordered=True)
    given = COLUMNS | {"place": pd.Categorical(COLUMNS["place"], dtype=ordered)}
    assert noised("pandas", given).X["place"].dtype == ordered
    places = pl.Series(COLUMNS["place"])
    found = [noised("polars", COLUMNS | {"place": places.cast(kind)}).X for kind in (pl.Categorical, pl.Enum(PLACES))]
    assert [table["place"].dtype for table in found] == [pl.Categorical, pl.Enum(PLACES)]
    # Not those of an enumeration either, which may have come from the data.
    for others in (PLACES[:2], (*PLACES, "a place of somebody else"), PLACES[::-1]):
        assert noised("polars", COLUMNS | {"place": places.cast(pl.Enum(others))}).X["place"].dtype == pl.Enum(PLACES)
    coded = noised("pyarrow", COLUMNS | {"place": pa.array(COLUMNS["place"]).dictionary_encode()}).X
    assert pa.types.is_dictionary(coded["place"].type)


# NumPy reads no column of runs of pyarrow before 16: the release is refused before anything is drawn.
@pytest.mark.newest
def test_text_that_is_encoded_by_its_runs_is_released_as_text():
    """It ended in an AssertionError after the noise was drawn, and a ledger had counted it."""
    runs = pytest.importorskip("pyarrow.compute").run_end_encode(pa.array(COLUMNS["place"].tolist()))
    sent = noised("pyarrow", COLUMNS | {"place": runs}).X
    assert sent["place"].type == pa.string()
    assert set(sent["place"].to_pylist()) <= set(PLACES)


def values(table, name):
    return np.asarray(_tables.without_view(table[name]))


@pytest.mark.parametrize("kind", [*KINDS, "array"])
def test_another_order_takes_all_of_a_record_along_and_is_not_told(kind):
    if kind == "array":
        codes = [COLUMNS["age"], COLUMNS["sex"], np.resize([0, 1], 12), COLUMNS["rooms"], COLUMNS["year"]]
        found = RELEASE.privatize(np.column_stack(codes), np.array(ANSWERS), random_state=1)
    else:
        found = noised(kind)

    def rows(one):
        table = one.X if kind == "array" else _tables.frame(one.X)
        columns = list(table.T) if kind == "array" else [values(table, name) for name in RELEASE.columns]
        return list(zip(*(column.tolist() for column in columns), np.asarray(one.y).tolist(), strict=True))

    orders = {tuple(rows(found.shuffled())) for _ in range(3)}
    assert len(orders | {tuple(rows(found))}) == 4
    assert all(sorted(order) == sorted(rows(found)) for order in orders)
    seeded = found.shuffled(random_state=3)
    assert rows(seeded) == rows(found.shuffled(random_state=3))
    assert type(seeded.X) is type(found.X)
    assert seeded.release is found.release
    assert seeded.seeded
    if kind == "pandas":
        assert seeded.X.index.tolist() == seeded.y.index.tolist() == list(range(12))


def test_an_order_that_row_labels_tell_or_that_is_on_the_disk_is_not_changed(tmp_path):
    with pytest.raises(ValueError, match="row labels were kept"):
        noised("pandas", keep_index=True).shuffled()
    noised("pandas").save(tmp_path / "released", format="parquet")
    with pytest.raises(TypeError, match="only those in memory"):
        sd.load(tmp_path / "released", in_memory=False).shuffled()
    again = sd.load(tmp_path / "released")
    assert sorted(again.shuffled().X["age"].tolist()) == sorted(again.X["age"].tolist())


SOMEBODY_ELSE = 1987.8125
BESIDE = {
    "pandas categories": lambda years: pd.Categorical(years[:-1], categories=years),
    "polars slice": lambda years: pl.Series(years)[:-1],
    "pyarrow slice": lambda years: pa.array(years)[:-1],
    "pyarrow dictionary": lambda years: pa.DictionaryArray.from_arrays(pa.array(range(12), pa.int8()), years),
    "pyarrow slice of a dictionary": lambda years: pa.array(years).dictionary_encode()[:-1],
}


@pytest.mark.parametrize("kind", BESIDE)
def test_a_column_without_noise_brings_nothing_along(kind):
    """Neither a category that does not occur nor a row beyond a slice: both are of people who are not released."""
    years = np.append(COLUMNS["year"].astype(float), SOMEBODY_ELSE)
    found = noised(kind.partition(" ")[0], COLUMNS | {"year": BESIDE[kind](years)})
    assert values(_tables.frame(found.X), "year").tolist() == years[:-1].tolist()
    assert np.float64(SOMEBODY_ELSE).tobytes() not in pickle.dumps(found.X)
    if kind == "pandas categories":
        assert found.X["year"].cat.categories.tolist() == years[:-1].tolist()


@pytest.mark.parametrize("unit", ["D", "us", "ns"])
@pytest.mark.parametrize("kind", KINDS)
def test_dates_are_no_numbers_in_a_table_of_any_kind(kind, unit):
    """NumPy makes whole numbers of those that are counted in nanoseconds."""
    days = np.array(["2024-01-01", "2024-03-01"], dtype=f"M8[{unit}]")
    made = KINDS[kind][0]
    schema = sd.Schema({"epsilon": 1.0, "columns": {"seen": {"bounds": [0, 1]}}})
    with pytest.raises(ValueError, match="It is a date: convert"):
        schema.collect(made({"seen": days}))
    if unit != "D":
        with pytest.raises(ValueError, match="seen is no finite number in row 0"):
            schema.collect(made({"seen": days - days[0]}))


def test_days_as_categories_are_texts_without_a_time_of_day():
    days = np.array(["2024-01-01", "2024-03-01"], dtype="M8[D]")
    schema = sd.Schema({"epsilon": 1.0, "columns": {"seen": {"categories": [str(day) for day in days]}}})
    for given in ({"seen": days}, pl.DataFrame({"seen": days}), pa.table({"seen": days})):
        assert schema.collect(given)[0]["seen"].tolist() == ["2024-01-01", "2024-03-01"]


def test_whole_numbers_have_64_bits_whatever_they_had():
    """A narrower type may have been chosen for the largest true value."""
    release = sd.Release({"rooms": sd.DiscreteLaplaceMechanism(1.0, bounds=(0, 7))})
    moved = sd.Release({"rooms": sd.DiscreteLaplaceMechanism(1.0, bounds=(0, 7))}, scale={"rooms": 2.0 / 2})
    for kind, (table, _, type_of) in KINDS.items():
        rooms = table({"rooms": np.arange(8, dtype=np.int8)})
        assert type_of(release.privatize(rooms, random_state=0).X, "rooms") == "int64", kind
        # A centre or a scale makes other numbers of them.
        assert type_of(moved.privatize(rooms, random_state=0).X, "rooms") in ("float64", "double"), kind


def test_row_labels_are_kept_where_that_is_asked():
    table = pd.DataFrame(COLUMNS, index=np.arange(12)[::-1])
    y = pd.Series(ANSWERS, index=table.index, name="answer")
    kept = RELEASE.privatize(table, y, random_state=1, keep_index=True)
    plain = RELEASE.privatize(table.reset_index(drop=True), y.reset_index(drop=True), random_state=1)
    assert kept.X.index.equals(table.index)
    assert kept.y.index.equals(table.index)
    pd.testing.assert_frame_equal(kept.X.reset_index(drop=True), plain.X)
    assert plain.X["year"].tolist() == COLUMNS["year"].tolist()


@pytest.mark.parametrize("kind", ["polars", "pyarrow"])
def test_rows_of_tables_and_columns_are_taken(kind):
    table, column, _ = KINDS[kind]
    taken = _tables.take_rows(table({"a": [1.0, 2.0, 3.0]}), np.array([2, 0]))
    assert np.asarray(taken["a"]).tolist() == [3.0, 1.0]
    taken = _tables.take_rows(column([1.0, 2.0, 3.0]), slice(None, None, 2))
    assert np.asarray(taken).tolist() == [1.0, 3.0]
    assert type(taken) is type(column([1.0]))


def test_an_array_of_arrow_is_a_column():
    y = pa.array(ANSWERS)
    found = RELEASE.privatize(pa.table(COLUMNS), y, random_state=1)
    assert type(found.y) is type(y)
    assert found.y.to_pylist() == noised("pyarrow").y.to_pylist()


@pytest.mark.parametrize("kind", ["polars", "pyarrow"])
def test_missing_values_are_named(kind):
    table = KINDS[kind][0]({"a": [1.0, None], "b": [1.0, 2.0]})
    release = sd.Release({("a", "b"): sd.GaussianMechanism.from_scale(1.0)})
    with pytest.raises(ValueError, match=r"X has NaN in row 1, column 0 \(a\)"):
        release.privatize(table)


def test_tables_of_arrow_with_a_name_twice_are_refused():
    with pytest.raises(ValueError, match="more than one column named a"):
        _tables.column_names(pa.table([[1.0], [2.0]], names=["a", "a"]))


def test_tables_that_are_not_there_yet_are_refused():
    with pytest.raises(TypeError, match=r"LazyFrame of polars, whose rows are not there yet.*X\.collect"):
        RELEASE.privatize(pl.DataFrame(COLUMNS).lazy(), ANSWERS)


def test_without_narwhals_pandas_works_and_others_say_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "narwhals", None)
    assert isinstance(noised("pandas").X, pd.DataFrame)
    for kind in ("polars", "pyarrow"):
        with pytest.raises(sd.MissingDependencyError, match=r'pip install "symdebias\[tables\]"'):
            noised(kind)


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize("whole", [np.int64, np.int8, np.float64])
def test_columns_go_by_name_whatever_the_labels_are_stored_as(kind, whole):
    """Long arrays of labels of other types are read by blocks, which have no names."""
    count = CHUNK + 3
    rng = np.random.default_rng(0)
    columns = {"b": rng.normal(size=count), "place": np.array(["n", "e", "s"])[np.arange(count) % 3]}
    columns["a"] = 3 + rng.normal(size=count)
    labels = np.where(rng.random(count) < 0.5, 1.0, -1.0)
    release = sd.Release(
        {"a": sd.GaussianMechanism.from_scale(0.2), "place": sd.RandomizedResponse(2.0, categories=("n", "e", "s"))},
        noiseless=("b",),
    )
    corrected = sd.debias(sd.losses.squared_margin(), release)
    theta = [0.3, 0.1, -0.2, 0.4, 1.0]
    codes = np.arange(count) % 3
    wanted = corrected.mean_loss(theta, np.column_stack([columns["a"], codes, columns["b"]]), labels)
    table = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}[kind](columns)
    assert corrected.mean_loss(theta, table, labels.astype(whole)) == pytest.approx(wanted, rel=1e-12)


ASKED = {"epsilon": 1.0, "columns": {"place": {"categories": ["n", "e"]}}}


@pytest.mark.parametrize("ask", [
    lambda release, table: release.privatize(table, random_state=0),
    lambda release, table: release.design_matrix(table),
    lambda release, table: sd.blocks.from_iterator(lambda: iter(table.to_batches()), release=release),
    lambda release, table: sd.Schema(ASKED).collect(table),
])  # fmt: skip
def test_a_missing_value_of_a_dictionary_is_no_other_value(ask):
    # A column of several chunks gives NumPy the last value of its dictionary in place of a missing one.
    table = pa.table({"place": pa.array(["n", "e", None]).dictionary_encode()})
    release = sd.Release({"place": sd.RandomizedResponse(1.0, categories=("n", "e"))})
    with pytest.raises(ValueError, match=r"place.* missing( in row 2)?"):
        ask(release, table)


def test_missing_numbers_and_targets_of_a_dictionary_are_found():
    numbers = pa.table({"x": pa.array([1.0, 2.0, None]).dictionary_encode()})
    release = sd.Release({"x": sd.LaplaceMechanism(1.0, bounds=(0, 2))}, sd.RandomizedResponse(1.0, ("no", "yes")))
    with pytest.raises(ValueError, match="X has NaN in row 2"):
        release.privatize(numbers, ["no", "yes", "no"])
    answers = pa.chunked_array([pa.array(["no", "yes", None]).dictionary_encode()])
    with pytest.raises(ValueError, match="y has no value in row 2"):
        release.privatize([[0.0], [1.0], [2.0]], answers)


@pytest.mark.parametrize("kind", ["an index", "an array of an extension", "categories"])
def test_labels_of_pandas_that_are_no_column_are_read_as_an_array(kind):
    """An index of text ended in an error of pandas, which showed the labels."""
    pd = pytest.importorskip("pandas")
    labels = ["no", "yes", "no"]
    made = {"an index": pd.Index, "an array of an extension": pd.array, "categories": pd.Categorical}[kind](labels)
    release = sd.Release(sd.LaplaceMechanism(1.0, bounds=(0, 1)), sd.RandomizedResponse(1.0, categories=("no", "yes")))
    X = np.zeros((3, 1))
    found = release.privatize(X, made, random_state=0).y
    wanted = release.privatize(X, labels, random_state=0).y
    assert np.array_equal(np.asarray(found), np.asarray(wanted))
    with pytest.raises(ValueError, match="y has a value in row 1 that was not declared") as caught:
        release.privatize(X, pd.Index(["no", "plague", "no"]))
    assert "plague" not in str(caught.value)


def test_a_batch_of_pyarrow_is_refused_with_what_makes_a_table_of_it():
    pa = pytest.importorskip("pyarrow")
    release = sd.Release({"a": sd.LaplaceMechanism(1.0, bounds=(0, 1))})
    with pytest.raises(TypeError, match=r"RecordBatch of pyarrow\. Pass .*Table\.from_batches"):
        release.privatize(pa.RecordBatch.from_pydict({"a": [0.5]}))


@pytest.mark.parametrize(
    ("values", "advice"),
    [
        (np.zeros(3, "m8[s]"), r"numpy\.timedelta64"),
        (np.zeros(3, [("a", "f8"), ("b", "f8")]), r"structured array names its columns"),
        (np.array([[1.0], [None]], dtype=object), r"row 1, column 0: it is missing"),
        (np.array([[1.0], [datetime.date(2020, 1, 1)]], dtype=object), r"its type is date\. A date becomes a number"),
    ],
)
def test_what_is_no_number_is_told_how_to_become_one(values, advice):
    with pytest.raises(TypeError, match=advice):
        sd.Release(sd.LaplaceMechanism(1.0, bounds=(0, 1))).privatize(values)


def test_a_table_of_the_library_is_asked_for_columns_as_a_data_frame_is():
    table = Table({"age": [39.0, 50.0], "place": ["n", "e"], "pay": [1.0, 2.0]})
    for names in (["pay", "age"], np.array(["pay", "age"]), pd.Index(["pay", "age"])):
        found = table[names]
        assert (found.columns, found["age"].tolist()) == (("pay", "age"), [39.0, 50.0])
    assert (table[[1]]["age"].tolist(), table[np.array([False, True])]["place"].tolist()) == ([50.0], ["e"])
    assert ("age" in table, "Age" in table, 0 in table) == (True, False, False)
    for make in (pd.DataFrame, np.asarray, list, dict, lambda table: table[0]):
        with pytest.raises(TypeError, match=r"pandas\.DataFrame\(table\.to_dict\(\)\) is a data frame of it"):
            make(table)
    with pytest.raises(AttributeError, match=r"no attribute 'head': pandas\.DataFrame\(table\.to_dict"):
        table.head()
    with pytest.raises(AttributeError, match=r"no attribute 'age': table\['age'\] is its column"):
        _ = table.age
    assert pickle.loads(pickle.dumps(table))["pay"].tolist() == copy.copy(table)["pay"].tolist() == [1.0, 2.0]
    for asked in ("Age", ["pay", "Age"]):
        with pytest.raises(
            KeyError, match=r"no column Age; its columns are age, place, pay\. .*Age differs in capitals"
        ):
            table[asked]
