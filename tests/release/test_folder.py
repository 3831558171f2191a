"""Folders of released records: what is read is what was released, and what is damaged is refused."""

import functools
import json
import shutil
import sys

import numpy as np
import pandas as pd
import pytest

import symdebias as sd
from symdebias import _files
from symdebias._columns import Table
from symdebias.release import Schema, load

rng = np.random.default_rng(0)
N = 50
TABLE = {
    "age": rng.integers(17, 90, N).astype(float),
    "hours": rng.uniform(1, 99, N),
    "place, or home": rng.choice(["n", 'e "x"', " s "], N).tolist(),
    "size": rng.choice([1.0, 2.0, 5.0], N),
    "sex": rng.choice([-1.0, 1.0], N),
    "year": np.arange(N) + 0.1,
}
KINDS = {
    "apart": sd.Release(
        {("age", "hours"): sd.SphericalLaplaceMechanism(1.0, radius=200.0),
         "place, or home": sd.RandomizedResponse(1.0, ("n", 'e "x"', " s ")),
         "size": sd.RandomizedResponse(1.0, (1, 2, 5)), "sex": sd.RandomizedResponse(1.0)},
        sd.RandomizedResponse(1.0, ("low", "high", "none")), noiseless=("year",)),
    "margin": sd.Release({("age", "hours", "sex"): sd.SphericalCapMechanism(1.0, radius=200.0)}, "margin",
                         fit_intercept=True),
    "margin without intercept": sd.Release({("age", "hours"): sd.GaussianMechanism(1.0, 1e-5, radius=200.0)}, "margin"),
    "joint": sd.Release({("age", "sex"): sd.GaussianMechanism(1.0, 1e-5, radius=200.0)}, "joint",
                        target_bounds=(-9, 9)),
    "no target": sd.Release({"age": sd.LaplaceMechanism(1.0, bounds=(0, 90))}),
}  # fmt: skip


def released(kind, as_table=True):
    release = KINDS[kind]
    columns = {name: TABLE[name] for name in release.columns}
    if not as_table:
        codes = {"place, or home": ["n", 'e "x"', " s "], "size": [1, 2, 5]}
        columns = {name: [codes[name].index(v) for v in vs] if name in codes else vs for name, vs in columns.items()}
        columns = pd.DataFrame(columns).to_numpy()
    y = None if kind == "no target" else np.resize([1.0, -1.0], N)
    if kind == "apart":
        y = pd.Series(np.resize(["low", "high", "none"], N), name="income") if as_table else np.arange(N) % 3
    return release.privatize(pd.DataFrame(columns) if as_table else columns, y)


class OwnMechanism(sd.UniformMechanism):
    kind = "own"


def test_a_mechanism_that_no_card_could_name_is_refused_before_anything_is_written(tmp_path, monkeypatch):
    release = sd.Release({"age": OwnMechanism(1.0)})
    noised = release.privatize(pd.DataFrame({"age": TABLE["age"]}), TABLE["hours"], random_state=0)
    fit = sd.m_estimate(sd.debias(sd.losses.least_squares(), release), noised.X, noised.y)
    known = r"mechanism of your own.*symdebias.mechanisms.KINDS\['own'\] = OwnMechanism"
    with pytest.raises(ValueError, match=known):
        noised.save(tmp_path / "out")
    with pytest.raises(ValueError, match=known):
        sd.blocks.privatize(
            release, iter([(TABLE["age"][:, None], TABLE["hours"])]), tmp_path / "blocks", random_state=0
        )
    with pytest.raises(ValueError, match=f"{known}.*Pickle it"):
        fit.save(tmp_path / "fit.npz")
    assert not list(tmp_path.iterdir())
    monkeypatch.setitem(sd.mechanisms.KINDS, "own", OwnMechanism)
    noised.save(tmp_path / "out")
    assert sd.load(tmp_path / "out").release == release
    fit.save(tmp_path / "fit.npz")
    assert (sd.Fit.load(tmp_path / "fit.npz").theta == fit.theta).all()


@pytest.mark.parametrize("format", ["csv", "parquet"])
@pytest.mark.parametrize("as_table", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_read_is_what_was_released(kind, as_table, format, tmp_path):
    noised = released(kind, as_table)
    noised.save(tmp_path / "out", format=format)
    again = sd.load(tmp_path / "out")
    release = again.release
    assert release == noised.release
    assert again.X.columns == release.columns
    np.testing.assert_array_equal(release.design_matrix(again.X), release.design_matrix(noised.X))
    if noised.y is None:
        assert again.y is None
    else:
        np.testing.assert_array_equal(
            release.released_target(again.y, rows=N), release.released_target(noised.y, rows=N)
        )
    assert again.target_name == ("income" if kind == "apart" and as_table else "target")
    assert (again.seeded, again.hardened) == (False, True)
    assert again.guarantee == noised.guarantee
    assert {one.name for one in (tmp_path / "out").iterdir()} == {"card.json", f"records.{format}", "manifest.json"}
    assert (tmp_path / "out" / "card.json").read_text() == noised.release.to_json()
    assert pd.DataFrame(again.X.to_dict()).shape == (N, len(release.columns))


def test_a_seed_and_plain_noise_are_remembered(tmp_path):
    noised = KINDS["no target"].privatize(Table({"age": TABLE["age"]}), random_state=0)
    noised.save(tmp_path / "out")
    assert sd.load(tmp_path / "out").seeded
    with pytest.raises(sd.PrivacyError, match="from a seed"):
        _ = sd.load(tmp_path / "out").guarantee


def test_labels_and_names_travel_with_the_records(tmp_path):
    schema = Schema({
        "epsilon": 1.0, "columns": {"age": {"bounds": [0, 90]}},
        "target": {"name": "income", "categories": ["low", "high"]},
    })  # fmt: skip
    X, y = schema.collect({"age": [30, 40], "income": ["low", "high"]})
    noised = sd.Release.from_schema(schema).privatize(X, y)
    noised.save(tmp_path / "out", target_name="income", labels=schema.labels)
    again = load(tmp_path / "out")
    assert (again.target_name, again.labels) == ("income", ("low", "high"))
    again.save(tmp_path / "copy", format="parquet")
    assert (load(tmp_path / "copy").y == again.y).all()
    assert load(tmp_path / "copy").labels == ("low", "high")
    # A text has letters, a set no order, and a mapping says what stands for what in another way.
    several = "ab", b"ab", {"low", "high"}, {-1: "low", 1: "high"}
    for labels in (("low",), ("low", "low"), ("low", None), 1.0, np.array(1.0), *several):
        with pytest.raises(ValueError, match="are no pair"):
            noised.save(tmp_path / "other", labels=labels)
    own = sd.Release({"age": sd.LaplaceMechanism(1.0, bounds=(0, 90))}, sd.RandomizedResponse(1.0, ("no", "yes")))
    with pytest.raises(ValueError, match=r"the target has the values no, yes\. Leave it out"):
        own.privatize([[30.0]] * 3, ["no", "yes", "no"]).save(tmp_path / "other", labels=("low", "high"))
    with pytest.raises(ValueError, match="target_name='age' is a column"):
        noised.save(tmp_path / "other", target_name="age")
    with pytest.raises(ValueError, match=r"format='xls' is not known. Choose one of csv, parquet"):
        noised.save(tmp_path / "other", format="xls")
    assert not (tmp_path / "other").exists()


# ---- a folder appears whole or not at all ----------------------------------------------------------------


def test_nothing_is_overwritten(tmp_path):
    noised = released("no target")
    noised.save(tmp_path / "out")
    before = {one.name: one.read_bytes() for one in (tmp_path / "out").iterdir()}
    with pytest.raises(FileExistsError, match="is a folder that is not empty, and nothing is overwritten"):
        released("no target").save(tmp_path / "out")
    assert before == {one.name: one.read_bytes() for one in (tmp_path / "out").iterdir()}
    (tmp_path / "file").write_text("kept")
    with pytest.raises(FileExistsError, match="is a file"):
        noised.save(tmp_path / "file")
    with pytest.raises(FileNotFoundError, match=r"is not there\. Make it"):
        noised.save(tmp_path / "none" / "out")
    (tmp_path / "empty").mkdir()
    noised.save(tmp_path / "empty")
    assert len(sd.load(tmp_path / "empty").X) == N


def test_a_folder_that_cannot_be_written_leaves_nothing(tmp_path):
    def fail(stream):
        stream.write(b"half")
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space"):
        _files.write_folder(tmp_path / "out", {"a": lambda stream: stream.write(b"whole"), "b": fail})
    assert list(tmp_path.iterdir()) == []


def changed_manifest(**change):
    def damage(folder):
        path = folder / "manifest.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **change}))

    return damage


def appended(name, text):
    def damage(folder):
        with (folder / name).open("a") as stream:
            stream.write(text)

    return damage


@pytest.mark.parametrize(("damage", "message"), [
    (lambda folder: (folder / "manifest.json").unlink(), "no file manifest.json"),
    (lambda folder: (folder / "card.json").unlink(), "card.json is not the one"),
    (lambda folder: (folder / "records.csv").unlink(), "records.csv is not the one"),
    (lambda folder: (folder / "manifest.json").write_text("[]"), "another format"),
    (lambda folder: (folder / "manifest.json").write_text("{"), "manifest|Expecting"),
    (lambda folder: (folder / "manifest.json").write_bytes(b"\xff"), "decode"),
    (lambda folder: (folder / "manifest.json").write_text(" " * 200_000), "more than 100,000 bytes"),
    (appended("records.csv", "1.0,1.0\n"), "records.csv is not the one"),
    (appended("card.json", " "), "card.json is not the one"),
    (changed_manifest(count=N + 1), "50 records"),
    (changed_manifest(records="../records.csv"), "names no file of records"),
    (changed_manifest(records=["records.csv"]), "damaged"),
    (changed_manifest(target=3), "no target"),
    (changed_manifest(target="other"), "no column named other"),
    (changed_manifest(seeded="no"), "true or false"),
    (changed_manifest(digests=[]), "no digests"),
    (changed_manifest(labels=["a"]), "no pair"),
    (changed_manifest(more=1), "exactly the entries"),
    (changed_manifest(format="symdebias-folder-2"), "another format"),
])  # fmt: skip
def test_damaged_folders_are_refused(damage, message, tmp_path):
    if not (tmp_path / "out").exists():
        released("joint").save(tmp_path / "out")
    damage(tmp_path / "out")
    with pytest.raises(sd.FormatError, match=message) as raised:
        sd.load(tmp_path / "out")
    assert "Ask for the whole folder" in str(raised.value)


def test_a_table_that_another_program_noised_becomes_a_folder(tmp_path):
    table = tmp_path / "noised.csv"
    table.write_text("age,says\n1.5,no\n2.5,yes\n")
    with pytest.raises(sd.FormatError, match=r"is a table, .* symdebias receive makes one, .*NoiseDescription"):
        sd.load(table)
    release = sd.Release(
        {"age": sd.GaussianMechanism.from_scale(1.0)}, sd.RandomizedResponse.from_keep_probability(0.9, ("no", "yes"))
    )
    sd.release.Noised([[1.5], [2.5]], ["no", "yes"], release, seeded=False, hardened=False).save(tmp_path / "out")
    again = sd.load(tmp_path / "out")
    assert (again.X["age"].tolist(), list(again.y), again.guarantee) == ([1.5, 2.5], ["no", "yes"], None)


def rewritten(folder, records):
    """Records that whoever changed the digest as well has written."""
    (folder / "records.csv").write_text(records)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["digests"]["records.csv"] = sd.release.folder.digest(records.encode())
    (folder / "manifest.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize(("records", "message"), [
    ("age,sex,target\n" + "1.0,nan,1.0\n" * N, "column sex has NaN or infinity in row 0"),
    ("age,sex,target\n" + "1.0,a,1.0\n" * N, "column sex has something that is no number"),
    ("age,sex\n" + "1.0,1.0\n" * N, "no column named target"),
    ("age,sex,target\n" + "1.0,1.0\n" * N, "line 2 of records.csv has 2 values"),
    ("age,sex,target\n", "no record"),
    ('age,sex,target\n"1.0,1.0,1.0\n', "quotes"),
])  # fmt: skip
def test_records_that_are_none_are_refused(records, message, tmp_path):
    released("joint").save(tmp_path / "out")
    rewritten(tmp_path / "out", records)
    with pytest.raises(sd.FormatError, match=message):
        sd.load(tmp_path / "out")


def test_a_folder_has_names_of_columns(tmp_path):
    """Those of a table are taken where the release has none; an array has none."""
    release, X = sd.Release(sd.GaussianMechanism.from_scale(1.0)), np.arange(6.0).reshape(3, 2)
    made = functools.partial(sd.release.Noised, y=np.ones(3), seeded=False, hardened=False)
    made(Table({"a": X[:, 0], "b": X[:, 1]}), release=release).save(tmp_path / "table")
    assert sd.load(tmp_path / "table").release.columns == ("a", "b")
    with pytest.raises(
        ValueError, match=r"does not name its columns, and a file has names\. Name them by release.bind"
    ):
        made(X, release=release).save(tmp_path / "array")
    with pytest.raises(TypeError, match=r"release must be a symdebias.Release; got GaussianMechanism\. Wrap it"):
        made(X, release=sd.GaussianMechanism.from_scale(1.0)).save(tmp_path / "mechanism")


def test_what_is_no_folder_is_said(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match=r"is not there\. Name the folder"):
        sd.load(tmp_path / "none")
    (tmp_path / "file").write_text("")
    with pytest.raises(sd.FormatError, match=r"no file manifest\.json"):
        sd.load(tmp_path / "file")
    noised = released("apart")
    noised.save(tmp_path / "out", format="parquet")
    (tmp_path / "out" / "records.parquet").write_bytes(b"PAR1")
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    manifest["digests"]["records.parquet"] = sd.release.folder.digest(b"PAR1")
    (tmp_path / "out" / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(sd.FormatError, match="no file of Parquet"):
        sd.load(tmp_path / "out")
    shutil.rmtree(tmp_path / "out")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(sd.MissingDependencyError, match=r'pip install "symdebias\[parquet\]"'):
        noised.save(tmp_path / "out", format="parquet")


def test_a_table_is_no_sequence_of_records():
    table = Table({"age": [1.0, 2.0]})
    assert table[np.array([1])]["age"].tolist() == table[1:]["age"].tolist() == [2.0]
    for read in (np.asarray, lambda one: one[0]):
        with pytest.raises(TypeError, match=r"numpy\.column_stack"):
            read(table)
