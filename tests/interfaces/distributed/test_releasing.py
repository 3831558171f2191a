"""Releases of partitions: noised once, counted once, and read again as they were released."""

import functools
import hashlib
import os
import shutil
import warnings

import numpy as np
import pytest

import symdebias as sd
from symdebias import _files
from symdebias._randomness import generator
from symdebias.interfaces.distributed import releasing

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")

RELEASE = sd.Release(
    {
        ("age", "hours"): sd.GaussianMechanism(2.0, 1e-6, radius=1.0),
        "place": sd.RandomizedResponse(3.0, categories=("n", "e", "s")),
    },
    sd.RandomizedResponse(3.0),
)
COUNT = 300


def people():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.uniform(-0.6, 0.6, (COUNT, 2)), columns=["age", "hours"])
    table["place"] = np.array(["n", "e", "s"])[rng.integers(0, 3, COUNT)]
    table["rich"] = np.where(rng.random(COUNT) < 0.5, 1, -1)
    parts = dd.from_pandas(table, npartitions=3)
    return table, dd.concat([parts, parts[parts["age"] > 5]])


def test_partitions_are_noised_as_by_themselves_with_seeds_of_their_own(tmp_path):
    table, parts = people()
    found = sd.distributed.privatize(
        RELEASE, parts[["age", "hours", "place"]], parts["rich"], folder=tmp_path / "out", target_name="rich",
        random_state=7,
    )  # fmt: skip
    assert found.X.chunks[0] == (100, 100, 100)
    assert (found.release, found.seeded, found.hardened, found.target_name) == (RELEASE, True, False, "rich")
    streams = generator(7).spawn(3)
    for k, stream in enumerate(streams):
        own = table.iloc[100 * k : 100 * (k + 1)]
        alone = RELEASE.privatize(own[["age", "hours", "place"]], own["rich"], random_state=stream)
        np.testing.assert_array_equal(found.X.blocks[k].compute(), RELEASE.design_matrix(alone.X))
        np.testing.assert_array_equal(found.y.blocks[k].compute(), alone.y)
        stored = sd.load(tmp_path / "out" / f"part-{k:06}")
        np.testing.assert_array_equal(stored.X["place"], alone.X["place"])
    with pytest.raises(sd.PrivacyError, match="noised from a seed"):
        _ = found.guarantee


def test_noise_is_fresh_private_and_drawn_once(tmp_path):
    """Equal records have other noise in every partition, and are the same whenever they are asked for."""
    release = sd.Release({"age": sd.LaplaceMechanism(1.0, bounds=(0, 90))})
    noised = sd.distributed.privatize(release, da.full((200, 1), 40.0, chunks=50), folder=tmp_path / "out")
    with pytest.raises(sd.exceptions.FormatError, match=r"Read it by symdebias\.distributed\.load"):
        sd.load(tmp_path / "out")
    first, second = noised.X.compute(), noised.X.compute()
    np.testing.assert_array_equal(first, second)
    assert len(np.unique(first)) > 195
    assert (noised.seeded, noised.hardened, noised.y) == (False, True, None)
    assert noised.guarantee == sd.Guarantee(1.0, 0.0)


def test_a_task_that_is_run_again_keeps_what_was_drawn(tmp_path):
    """Whoever sees two draws of one partition has paid for one: the second run must not write."""
    release = sd.Release({"age": sd.LaplaceMechanism(1.0, bounds=(0, 90))})
    write = functools.partial(releasing._written, release=release, folder=tmp_path, target_name=None, labels=None)
    X = np.full((50, 1), 40.0)
    write(X, None, 3, None)
    drawn = (tmp_path / "part-000003" / "records.parquet").read_bytes()
    write(X, None, 3, None)
    assert (tmp_path / "part-000003" / "records.parquet").read_bytes() == drawn


def test_two_runs_at_the_same_time_release_one_of_them(tmp_path, monkeypatch):
    release = sd.Release({"age": sd.LaplaceMechanism(1.0, bounds=(0, 90))})
    write = functools.partial(releasing._written, release=release, folder=tmp_path, target_name=None, labels=None)
    X, save = np.full((50, 1), 40.0), releasing.Noised.save
    files = []

    def late(self, place, **options):
        # The other run is done when this one begins to write.
        save(release.privatize(X), place, **options)
        files.append((place / "records.parquet").read_bytes())
        save(self, place, **options)

    monkeypatch.setattr(releasing.Noised, "save", late)
    write(X, None, 0, None)
    assert files == [(tmp_path / "part-000000" / "records.parquet").read_bytes()]


def test_a_run_that_ends_while_another_moves_its_folder_is_the_one_that_is_released(tmp_path, monkeypatch):
    release = sd.Release({"age": sd.LaplaceMechanism(1.0, bounds=(0, 90))})
    write = functools.partial(releasing._written, release=release, folder=tmp_path, target_name=None, labels=None)
    X, move, files = np.full((50, 1), 40.0), _files.move_folder, []

    def late(aside, place):
        if not files:
            files.append(None)
            write(X, None, 0, None)
            files[0] = (place / "records.parquet").read_bytes()
        move(aside, place)

    monkeypatch.setattr(_files, "move_folder", late)
    write(X, None, 0, None)
    assert files == [(tmp_path / "part-000000" / "records.parquet").read_bytes()]
    assert [one.name for one in tmp_path.iterdir()] == ["part-000000"]


def test_a_place_that_is_taken_while_partitions_are_written_is_kept(tmp_path, monkeypatch):
    release = sd.Release({"age": sd.LaplaceMechanism(1.0, bounds=(0, 90))})
    move = _files.move_folder

    def late(aside, place):
        if place.name == "out":
            place.mkdir()
            (place / "mine").write_text("mine")
        move(aside, place)

    monkeypatch.setattr(_files, "move_folder", late)
    with pytest.raises(FileExistsError, match="while the folder was written"):
        sd.distributed.privatize(release, GOOD, folder=tmp_path / "out")
    assert [one.name for one in (tmp_path / "out").iterdir()] == ["mine"]
    assert list(tmp_path.iterdir()) == [tmp_path / "out"]


def test_a_ledger_counts_all_partitions_once(tmp_path):
    _, parts = people()
    book = sd.Ledger(tmp_path / "spent.jsonl", "people", total=sd.Guarantee(9.0, 1e-5))
    release = functools.partial(
        sd.distributed.privatize, RELEASE, parts[["age", "hours", "place"]], parts["rich"], ledger=book
    )
    noised = release(folder=tmp_path / "out")
    (entry,) = book.entries
    assert (entry.records, entry.hardened) == (COUNT, True)
    assert entry.guarantee == noised.guarantee == RELEASE.guarantee
    assert entry.card == hashlib.sha256(RELEASE.to_json().encode()).hexdigest()
    with pytest.raises(sd.PrivacyError, match="does not suffice"):
        release(folder=tmp_path / "again")
    with pytest.raises(sd.PrivacyError, match="a seed"):
        release(folder=tmp_path / "again", random_state=0)
    assert (len(book.entries), sorted(one.name for one in tmp_path.iterdir())) == (1, ["out", "spent.jsonl"])


def test_records_outside_are_told_once_for_all_partitions(tmp_path):
    release = sd.Release({"age": sd.LaplaceMechanism(1.0, bounds=(0, 90))})
    ages = np.full((60, 1), 40.0)
    ages[[25, 45, 46]] = 95
    X = da.from_array(ages, chunks=20)
    with pytest.warns(sd.ClippingWarning, match="3 of 60 records") as told:
        sd.distributed.privatize(release, X, folder=tmp_path / "out")
    assert len([one for one in told if one.category is sd.ClippingWarning]) == 1
    with pytest.raises(ValueError, match=r"3 of 60 records lie outside .* in row 25\."):
        sd.distributed.privatize(release, X, folder=tmp_path / "refused", outside="refuse")
    # A partition that lies outside as a whole is no mistake in the units; all of them are.
    ages[:20] = 95
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sd.ClippingWarning)
        sd.distributed.privatize(release, da.from_array(ages, chunks=20), folder=tmp_path / "first")
    with pytest.raises(ValueError, match="all 60 records lie outside"):
        sd.distributed.privatize(release, da.full((60, 1), 95.0, chunks=20), folder=tmp_path / "all")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["first", "out"]


GOOD = da.full((60, 1), 40.0, chunks=20)
WRONG = {
    "an array of NumPy": ({"X": np.full((60, 1), 40.0)}, TypeError, "X is a ndarray"),
    "NaN": ({"X": da.concatenate([GOOD[:40], GOOD[40:] * np.nan])}, ValueError, "in partition 2, .*NaN"),
    "no target": ({"y": None}, ValueError, "y was not given"),
    "no records": ({"X": GOOD[:0], "y": GOOD[:0, 0]}, ValueError, "no records in any partition"),
    "other lengths": ({"y": da.ones(50, chunks=20)}, ValueError, "y has 50 rows, and others 60"),
    "labels": ({"y": da.full(60, 2.0, chunks=20)}, ValueError, "in partition 0, "),
    "outside": ({"outside": "keep"}, ValueError, "outside='keep' is not known"),
    "release": ({"release": "card"}, TypeError, "release must be"),
    "no names": ({"release": sd.Release(sd.LaplaceMechanism(1.0, bounds=(0, 90)))}, ValueError, "does not name"),
    "a name twice": ({"target_name": "age"}, ValueError, "is a column of the features"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_does_not_fit_leaves_nothing(what, tmp_path):
    change, kind, message = WRONG[what]
    release = sd.Release({"age": sd.LaplaceMechanism(1.0, bounds=(0, 90))}, sd.RandomizedResponse(1.0))
    given = {"release": release, "X": GOOD, "y": da.ones(60, chunks=20)} | change
    if what == "no names":
        given["y"] = None
    with pytest.raises(kind, match=message):
        sd.distributed.privatize(given.pop("release"), given.pop("X"), given.pop("y"), folder=tmp_path / "out", **given)
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_is_taken_is_kept(tmp_path):
    (tmp_path / "out").write_text("mine")
    release = sd.Release({"age": sd.LaplaceMechanism(1.0, bounds=(0, 90))})
    with pytest.raises(FileExistsError):
        sd.distributed.privatize(release, GOOD, folder=tmp_path / "out")
    assert (tmp_path / "out").read_text() == "mine"


def test_damaged_folders_are_refused(tmp_path):
    release = sd.Release({"age": sd.LaplaceMechanism(1.0, bounds=(0, 90))})
    sd.distributed.privatize(release, GOOD, folder=tmp_path / "out")

    def copy(name):
        shutil.copytree(tmp_path / "out", tmp_path / name)
        return tmp_path / name

    cut = copy("cut") / "part-000001" / "records.parquet"
    os.truncate(cut, cut.stat().st_size - 1)
    shutil.rmtree(copy("gap") / "part-000001")
    other = sd.Release({"age": sd.LaplaceMechanism(2.0, bounds=(0, 90))}).privatize(np.full((20, 1), 40.0))
    shutil.rmtree(copy("mixed") / "part-000002")
    other.save(tmp_path / "mixed" / "part-000002", format="parquet")
    for name, message in {"cut": "damaged", "gap": "does not have the folders", "mixed": "another release"}.items():
        with pytest.raises(sd.FormatError, match=message):
            sd.distributed.load(tmp_path / name)
    with pytest.raises(FileNotFoundError, match="is not there"):
        sd.distributed.load(tmp_path / "nowhere")


def test_columns_of_files_that_dask_reads_together_keep_their_partitions(tmp_path):
    """It reads small columns of several files as one partition, of X as of y, or of y alone."""
    table, _ = people()
    for place in range(3):
        table.iloc[100 * place : 100 * (place + 1)].to_parquet(tmp_path / f"{place}.parquet")
    parts = dd.read_parquet([tmp_path / f"{place}.parquet" for place in range(3)])
    found = sd.distributed.privatize(
        RELEASE, parts[["age", "hours", "place"]], parts["rich"], folder=tmp_path / "out", random_state=7
    )
    assert found.X.chunks[0] == found.y.chunks[0] == (100, 100, 100)


def test_a_data_frame_of_dask_is_refused_in_memory_with_what_takes_it(tmp_path):
    _, parts = people()
    for call in (
        lambda: RELEASE.privatize(parts[["age", "hours", "place"]], parts["rich"]),
        lambda: sd.blocks.privatize(RELEASE, parts, tmp_path / "out", target="rich"),
    ):
        with pytest.raises(TypeError, match=r"DataFrame of dask, .* X\.compute\(\).* symdebias\.distributed"):
            call()


# ---- a schema --------------------------------------------------------------------------------------------

SCHEMA = {
    "epsilon": 4.0,
    "loss": "logistic",
    "missing": ["?"],
    "columns": {
        "age": {"bounds": [18, 90], "fill": 50},
        "place": {"categories": ["n", "e", "s"], "other": "s", "fill": "n"},
    },
    "target": {"name": "rich", "categories": ["no", "yes"]},
}


def written():
    """Return records as they are written down, with gaps and a column that no schema names."""
    rng = np.random.default_rng(1)
    table = pd.DataFrame({"note": "x", "age": [str(age) for age in rng.integers(18, 90, COUNT)]})
    table["place"] = rng.choice(["n", "e", "s", "w", "?"], COUNT)
    table["rich"] = rng.choice(["no", "yes"], COUNT)
    table.loc[::7, "age"] = "?"
    return table


@pytest.mark.parametrize("design", ["margin", "apart"])
def test_a_schema_collects_partition_by_partition(design, tmp_path):
    table, schema = written(), sd.Schema({**SCHEMA, "design": design})
    book = sd.Ledger(tmp_path / "spent.jsonl", "people", total=sd.Guarantee(9.0, 0.0))
    found = sd.distributed.privatize(schema, dd.from_pandas(table, npartitions=3), folder=tmp_path / "out", ledger=book)
    release = sd.Release.from_schema(schema)
    assert (found.release, found.target_name, found.labels) == (release, "rich", ("no", "yes"))
    (entry,) = book.entries
    assert (entry.records, entry.guarantee) == (COUNT, release.guarantee)
    seeded = sd.distributed.privatize(
        schema, dd.from_pandas(table, npartitions=3), folder=tmp_path / "seeded", random_state=7
    )
    for k, stream in enumerate(generator(7).spawn(3)):
        alone = release.privatize(*schema.collect(table.iloc[100 * k : 100 * (k + 1)]), random_state=stream)
        np.testing.assert_array_equal(seeded.X.blocks[k].compute(), release.design_matrix(alone.X))
        np.testing.assert_array_equal(seeded.y.blocks[k].compute(), alone.y)


def test_a_schema_without_a_target(tmp_path):
    schema = sd.Schema({"epsilon": 4.0, "columns": SCHEMA["columns"], "missing": ["?"]})
    found = sd.distributed.privatize(schema, dd.from_pandas(written(), npartitions=2), folder=tmp_path / "out")
    assert (found.X.shape, found.y) == ((COUNT, 2), None)


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        ({"y": GOOD[:, 0]}, TypeError, "y= and labels= stand in the schema"),
        ({"labels": ("no", "yes")}, TypeError, "y= and labels= stand in the schema"),
        ({"X": GOOD}, TypeError, "X is a Array of Dask, and a schema collects data frames with the columns age, place"),
        ({"X": written()}, TypeError, "X is a DataFrame, and here a data frame, a series or an array of Dask"),
        ({"X": dd.from_pandas(written().drop(columns="rich"), npartitions=2)}, ValueError, "no column named rich"),
        (
            {"X": dd.from_pandas(written().replace("yes", "y"), npartitions=2)},
            ValueError,
            "in partition 0, .*rich has a",
        ),
    ],
)
def test_what_does_not_fit_a_schema_leaves_nothing(change, kind, message, tmp_path):
    given = {"X": dd.from_pandas(written(), npartitions=2)} | change
    with pytest.raises(kind, match=message):
        sd.distributed.privatize(sd.Schema(SCHEMA), given.pop("X"), folder=tmp_path / "out", **given)
    assert list(tmp_path.iterdir()) == []
