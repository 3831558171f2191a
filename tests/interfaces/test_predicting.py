"""The command that predicts: from a table to a file, with the numbers that the fit gives in Python."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import symdebias as sd
from symdebias.interfaces.cli import main

SCHEMA = """
epsilon = 12.0
loss = "logistic"
missing = ["?"]
[columns]
age = { bounds = [18, 90] }
place = { categories = ["n", "e", "s"], fill = "n" }
[target]
name = "income"
categories = ["low", "high"]
"""
COUNTS = """
epsilon = 12.0
loss = "poisson"
[columns]
age = { bounds = [18, 90] }
years = { public = true }
[target]
name = "visits"
public = true
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two schemas, a table, and fits to its releases."""
    folder = tmp_path_factory.mktemp("predicting")
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"age": rng.uniform(18, 90, 4_000), "years": rng.uniform(0.5, 3, 4_000)})
    table["place"] = rng.choice(["n", "e", "s"], 4_000)
    score = 0.04 * (table["age"] - 54) + 0.5 * (table["place"] == "s")
    table["income"] = np.where(rng.random(4_000) < 1 / (1 + np.exp(-score)), "high", "low")
    table["visits"] = rng.poisson(table["years"] * np.exp(score))
    table.to_csv(folder / "people.csv", index=False)
    for name, text in (("labels", SCHEMA), ("counts", COUNTS)):
        (folder / f"{name}.toml").write_text(text)
        schema = sd.Schema(folder / f"{name}.toml")
        X, y = schema.collect(folder / "people.csv")
        noised = sd.Release.from_schema(schema).privatize(X, y, random_state=1)
        noised.save(folder / name, target_name=schema.target.name, labels=schema.labels)
    assert main(["fit", str(folder / "labels"), "--loss", "logistic", "--save", str(folder / "labels.npz")]) == 0
    assert main(["fit", str(folder / "labels"), "--loss", "hinge", "--save", str(folder / "hinge.npz")]) == 0
    assert (
        main(
            [
                "fit",
                str(folder / "counts"),
                "--loss",
                "poisson",
                "--exposure",
                "years",
                "--save",
                str(folder / "counts.npz"),
            ]
        )
        == 0
    )
    return folder


def predicted(folder, fit, *words):
    """Return what the command writes for a fit; older versions of pandas miss the last bit of a number."""
    out = folder / "predictions.csv"
    out.unlink(missing_ok=True)
    assert main(["predict", str(folder / f"{fit}.npz"), str(folder / "new.csv"), "--out", str(out), *words]) == 0
    return pd.read_csv(out)


@pytest.mark.in_turn
def test_labels_have_their_names_chances_and_intervals(folder):
    pd.DataFrame({"place": ["s", "?", "e"], "age": [20.0, 80.0, 50.0], "other": [1, 2, 3]}).to_csv(
        folder / "new.csv", index=False
    )
    found = predicted(folder, "labels", "--schema", str(folder / "labels.toml"), "--level", "0.9")
    fit = sd.Fit.load(folder / "labels.npz")
    X = pd.DataFrame({"age": [20.0, 80.0, 50.0], "place": ["s", "n", "e"]})
    assert found["prediction"].tolist() == ["high" if one > 0 else "low" for one in fit.predict(X)]
    assert found.columns.tolist()[1:] == [
        "chance of low", "chance of high", "low of the chance of high", "high of the chance of high",
    ]  # fmt: skip
    np.testing.assert_allclose(found.iloc[:, 1:3], fit.predict_proba(X), rtol=1e-15)
    np.testing.assert_allclose(found.iloc[:, 3:], fit.predict_interval(X, level=0.9), rtol=1e-15)


@pytest.mark.in_turn
def test_labels_without_names_are_told_by_their_codes(folder):
    """A fit of Python does not say what its folder does, and what a stranger's file says has to be two texts."""
    (folder / "new.csv").write_text("age,place\n20,s\n80,n\n")
    fit = sd.Fit.load(folder / "labels.npz")
    assert fit.diagnostics["labels"] == ("low", "high")
    for other in ({}, {"labels": ("low", "low")}, {"labels": ("low",)}, {"labels": ("low", 3)}):
        kept = {name: value for name, value in fit.diagnostics.items() if name != "labels"} | other
        replace(fit, diagnostics=kept).save(folder / "plain.npz")
        assert predicted(folder, "plain")["prediction"].tolist() == [-1, 1]


def test_without_a_schema_the_card_says_what_columns_hold(folder, capsys):
    (folder / "new.csv").write_text("age,place\n20,s\n80,n\n")
    assert predicted(folder, "labels")["prediction"].tolist() == ["low", "high"]
    (folder / "new.csv").write_text("age,place\n20,?\n")
    assert main(["predict", str(folder / "labels.npz"), str(folder / "new.csv"), "--out", str(folder / "x.csv")]) == 1
    assert "place has a value in row 0 (line 2 of new.csv) that was not declared" in capsys.readouterr().err
    assert not (folder / "x.csv").exists()


def test_released_records_are_told_from_true_ones(folder, capsys):
    for table in (folder / "counts" / "records.csv", folder / "people.csv"):
        assert main(["predict", str(folder / "counts.npz"), str(table), "--out", str(folder / "x.csv")]) == 0
        is_told = "has released records: what is predicted for a record with noise" in capsys.readouterr().err
        assert is_told == (table.parent != folder)
    (folder / "x.csv").unlink()


def test_counts_have_the_exposure_of_the_table(folder, capsys):
    (folder / "new.csv").write_text("age,years\n20,1\n20,2\n80,1\n")
    found = predicted(folder, "counts", "--json")
    assert json.loads(capsys.readouterr().out) == {
        "file": str(folder / "predictions.csv"), "records": 3, "columns": ["prediction", "low", "high"],
    }  # fmt: skip
    assert found["prediction"][1] == pytest.approx(2 * found["prediction"][0], rel=1e-12)
    assert ((found["low"] < found["prediction"]) & (found["prediction"] < found["high"])).all()
    fit = sd.Fit.load(folder / "counts.npz")
    expected = fit.predict(pd.DataFrame({"age": [20.0, 20.0, 80.0]}), offset=np.log([1.0, 2.0, 1.0]))
    np.testing.assert_allclose(found["prediction"], expected, rtol=1e-15)


def test_a_loss_without_chances_says_so(folder, capsys):
    (folder / "new.csv").write_text("age,place\n20,s\n80,n\n")
    found = predicted(folder, "hinge", "--schema", str(folder / "labels.toml"))
    assert found.columns.tolist() == ["prediction"]
    assert found["prediction"].tolist() == ["low", "high"]
    assert "there are no chances" in capsys.readouterr().err


MISTAKES = {
    "a table without a column": ("labels", "age\n20\n", (), "no column named place"),
    "a text for a number": ("labels", "age,place\nold,s\n", (), "age is no finite number in row 0"),
    "a missing exposure": ("counts", "age\n20\n", (), "no column named years"),
    "an exposure of 0": ("counts", "age,years\n20,0\n", (), "an exposure is positive"),
    "another exposure": ("counts", "age,years\n20,1\n", ("--exposure", "age"), "which this fit was made with"),
    "an exposure of a fit that has none": ("labels", "age,place\n20,s\n", ("--exposure", "age"), "this one has none"),
    "a schema of other columns": ("labels", "age,place\n20,s\n", ("--schema", "counts.toml"), "has no column place"),
    "a level of percent": ("labels", "age,place\n20,s\n", ("--level", "95"), "--level=95.0 is too large"),
    "no records": ("labels", "age,place\n", (), "no record"),
}


@pytest.mark.parametrize(("fit", "text", "words", "told"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes_are_told_and_nothing_is_written(folder, fit, text, words, told, capsys, monkeypatch):
    monkeypatch.chdir(folder)
    (folder / "new.csv").write_text(text)
    assert main(["predict", f"{fit}.npz", "new.csv", "--out", "none.csv", *words]) == 1
    assert told in capsys.readouterr().err
    assert not (folder / "none.csv").exists()
