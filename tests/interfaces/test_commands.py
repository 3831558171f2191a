"""The commands that do something: what they print, what they write, and their exit codes."""

import errno
import inspect
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import symdebias as sd
from symdebias import _loss_names
from symdebias._metric_names import METRICS
from symdebias.inference import Inference
from symdebias.interfaces import cli, demo
from symdebias.interfaces.cli import fitting, parser
from symdebias.release.folder import CARD

SCHEMA = """
epsilon = 30.0
loss = "exponential"
delta = 1e-6
[columns]
age = { bounds = [0, 100] }
hours = { bounds = [0, 80], fill = 40 }
[target]
name = "income"
categories = ["low", "high"]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table of 20,000 people, its schema, and a fit to its release."""
    place = tmp_path_factory.mktemp("commands")
    rng = np.random.default_rng(0)
    n = 20_000
    age, hours = rng.uniform(0, 100, n), rng.uniform(0, 80, n)
    scores = 0.04 * (age - 50) - 0.02 * (hours - 40)
    labels = np.where(rng.random(n) < 1 / (1 + np.exp(-2 * scores)), "high", "low")
    lines = [f"{a!r},{h!r},{y}" for a, h, y in zip(age.tolist(), hours.tolist(), labels, strict=True)]
    (place / "people.csv").write_text("\n".join(["age,hours,income", *lines]) + "\n")
    (place / "schema.toml").write_text(SCHEMA)
    words = ["privatize", str(place / "people.csv"), "--schema", str(place / "schema.toml"), "--json"]
    assert cli.main([*words, "--out", str(place / "released"), "--ledger", str(place / "spent.jsonl"),
                     "--population", "panel", "--total", "60,1e-5"]) == 0  # fmt: skip
    # Fits are to come out the same each time.
    assert cli.main([*words, "--out", str(place / "seeded"), "--seed", "1"]) == 0
    return place


def printed(capsys, *words):
    assert cli.main([str(word) for word in words]) == 0
    return capsys.readouterr().out


@pytest.mark.in_turn
def test_a_loss_has_the_arguments_that_it_is_given(tmp_path, capsys):
    rng = np.random.default_rng(0)
    x = rng.normal(size=2_000)
    open_release = sd.Release(noiseless=("x",), fit_intercept=True)
    noised = sd.release.Noised(x[:, None], x + rng.normal(size=2_000), open_release, seeded=False, hardened=False)
    noised.save(tmp_path / "out")
    words = ["fit", tmp_path / "out", "--json", "--loss"]
    loss = json.loads(printed(capsys, *words, "quantile", "--arguments", "0.9,0.25"))["loss"]
    assert loss == str(sd.losses.quantile(0.9, 0.25).expression)
    plain = json.loads(printed(capsys, *words, "huber"))["loss"]
    assert plain == str(sd.losses.huber().expression)


def test_the_help_says_what_arguments_losses_take():
    told = []
    for name in _loss_names.CATALOGUE:
        taken = inspect.signature(getattr(sd.losses, name)).parameters.values()
        words = [one.name if one.default is one.empty else f"{one.name}={one.default:g}" for one in taken]
        if words and words != ["classes"]:
            told.append(f"{name.replace('_', '-')} {', '.join(words)}")
    assert parser._OPTIONS["--arguments"]["help"].endswith(f": {'; '.join(told)}")


@pytest.mark.in_turn
def test_a_large_folder_is_judged_block_by_block(folder, capsys, tmp_path, monkeypatch):
    kept, parquet = tmp_path / "fit.npz", tmp_path / "parquet"
    printed(capsys, "fit", folder / "seeded", "--loss", "squared-margin", "--save", kept)
    sd.load(folder / "seeded").save(parquet, format="parquet", target_name="income")
    words = ("evaluate", kept, parquet, "--metric", "squared_error", "--json")
    in_memory = json.loads(printed(capsys, *words))
    monkeypatch.setattr(fitting, "_LARGE", 0)
    read = []
    monkeypatch.setattr(
        fitting, "evaluate_one", lambda found, X, y, **how: read.append(X) or sd.evaluation.evaluate(found, X, y, **how)
    )
    by_blocks = json.loads(printed(capsys, *words))
    assert isinstance(read[0], sd.blocks.Rows)
    assert by_blocks["value"] == pytest.approx(in_memory["value"], rel=1e-9)
    assert by_blocks["standard_error"] == pytest.approx(in_memory["standard_error"], rel=1e-9)


@pytest.mark.in_turn
def test_a_delta_that_is_as_large_as_one_of_the_records_is_told(folder, tmp_path, capsys):
    for delta, is_told in (("1e-6", False), ("1e-3", True)):
        schema = tmp_path / "schema.toml"
        schema.write_text(SCHEMA.replace("1e-6", delta))
        printed_words = ["privatize", folder / "people.csv", "--schema", schema, "--out", tmp_path / delta]
        for words in (printed_words, ["plan", "--schema", schema, "--records", "20000"]):
            assert cli.main([str(word) for word in words]) == 0
            told = capsys.readouterr().err
            assert ("delta=0.001 is not below one over 20,000 records" in told) is is_told


@pytest.mark.in_turn
def test_one_of_several_released_outcomes_is_fitted_and_judged(tmp_path, capsys):
    survey = {
        "epsilon": 24.0,
        "columns": {
            "age": {"bounds": [18, 90]},
            "income": {"bounds": [0, 100], "outcome": True},
            "sick": {"categories": ["no", "yes"], "outcome": True},
        },
    }
    rng = np.random.default_rng(0)
    age = rng.uniform(18, 90, 3000)
    people = {"age": age, "income": 20 + age / 2 + rng.uniform(-14, 14, 3000)}
    people["sick"] = np.where(rng.random(3000) < 1 / (1 + np.exp(-(age - 50) / 20)), "yes", "no")
    noised = sd.Release.from_schema(survey).privatize(sd.Schema(survey).collect(people)[0], random_state=1)
    noised.save(tmp_path / "released")
    words = ("fit", tmp_path / "released", "--loss", "least-squares", "--target", "income")
    assert cli.main([str(word) for word in words[:4]]) == 1
    assert "no target of its own. Name one of its outcomes by --target: its columns are age" in capsys.readouterr().err
    kept = tmp_path / "fit.npz"
    found = json.loads(printed(capsys, *words, "--features", "age", "--save", kept, "--json"))
    chosen = noised.with_target("income", features=["age"])
    fit = sd.m_estimate(sd.debias(sd.losses.least_squares(), chosen.release), chosen.X, chosen.y)
    assert found["theta"] == pytest.approx(fit.theta.tolist(), rel=1e-9)
    assert found["outcome"] == {"target": "income", "features": ["age"]}
    assert "squared_error" in printed(capsys, "evaluate", kept, tmp_path / "released", "--metric", "squared_error")


@pytest.mark.in_turn
def test_one_of_several_outcomes_has_a_known_term_beside_its_features(tmp_path, capsys):
    release = sd.Release(
        {"age": sd.LaplaceMechanism(4.0, bounds=(0, 1)), "a": sd.LaplaceMechanism(4.0, bounds=(0, 9)),
         "b": sd.LaplaceMechanism(4.0, bounds=(0, 9))},
        noiseless=("years",), fit_intercept=True,
    )  # fmt: skip
    X = np.random.default_rng(0).uniform(0, 1, (2_000, 4))
    X[:, 1] = 1 + 2 * X[:, 0] + X[:, 3]
    noised = release.privatize(X, random_state=1)
    noised.save(tmp_path / "released")
    words = ["fit", tmp_path / "released", "--loss", "least-squares", "--target", "a", "--features", "age", "--offset"]
    kept = tmp_path / "fit.npz"
    found = json.loads(printed(capsys, *words, "years", "--save", kept, "--json"))
    assert (found["names"], found["known_term"]) == (["age", "intercept"], {"offset": "years"})
    chosen = noised.with_target("a", features=["age"])
    corrected = sd.debias(sd.losses.least_squares(), chosen.release)
    fit = sd.m_estimate(corrected, chosen.X, chosen.y, offset=noised.X[:, 3])
    assert found["theta"] == pytest.approx(fit.theta.tolist(), rel=1e-9)
    assert "squared_error" in printed(capsys, "evaluate", kept, tmp_path / "released", "--metric", "squared_error")
    assert cli.main([*map(str, words), "yeers"]) == 1
    assert "is no column of these records. Name one of those without noise: years." in capsys.readouterr().err


def test_a_fit_of_several_scores_and_one_without_intervals_say_as_much_in_json():
    """They said nothing of accuracy where there are several scores, and not why there are no intervals."""
    release = sd.Release({"a": sd.LaplaceMechanism.from_scale(0.1)}, fit_intercept=True, scale={"a": 2.0})
    corrected = sd.debias(sd.losses.softmax(2), release)
    known = Inference(np.diag([1.0, 4.0, 9.0, 16.0]), "sandwich", bias=np.array([0.1, 0.0, 0.2, 0.0]))
    made = {"solver": "by hand", "records": 100, "steps": 3, "began": 0.0}
    fit = sd.Fit.of(corrected, np.array([100.0, 2.0, 0.0, 3.0]), inference=known, **made)
    answer = json.loads(json.dumps(fitting._as_json(fit, 0.9), allow_nan=False))
    assert answer["standard_errors"] == [[1.0, 2.0], [3.0, 4.0]]
    assert answer["standard_errors_in_units"] == [[0.5, 2.0], [1.5, 4.0]]
    assert answer["bias_bounds_in_units"] == [[0.05, 0.0], [0.1, 0.0]]
    table = fit.summary_frame(0.9, original_units=True)
    np.testing.assert_allclose(np.array(answer["intervals_in_units"]).reshape(4, 2), table[["lower", "upper"]])
    np.testing.assert_allclose(np.ravel(answer["p_values_in_units"]), table["p_value"])
    assert answer["p_values_in_units"][0][0] == 0.0
    refused = fitting._as_json(replace(fit, inference=replace(known, refusal="held")), 0.9)
    assert refused["no_intervals"] == "held"
    assert "intervals_in_units" not in refused


@pytest.mark.in_turn
def test_from_a_table_to_a_judged_fit(folder, capsys, tmp_path):
    kept = tmp_path / "fit.npz"
    out = printed(capsys, "fit", folder / "seeded", "--loss", "squared-margin", "--save", kept, "--target", "income")
    assert out.startswith("income: -1 is low, +1 is high")
    assert "original" in out
    answer = json.loads(printed(capsys, "fit", folder / "seeded", "--loss", "squared-margin", "--json"))
    assert answer["names"] == ["age", "hours", "intercept"]
    slopes, errors = np.array(answer["in_units"]), np.array(answer["standard_errors_in_units"])
    assert np.all(np.array(answer["p_values_in_units"])[:2] < 1e-4)
    assert slopes[0] > 4 * errors[0]
    assert slopes[1] < -4 * errors[1]
    low, high = np.array(answer["intervals_in_units"]).T
    assert np.all((low < slopes) & (slopes < high))
    found = json.loads(printed(capsys, "evaluate", kept, folder / "seeded", "--metric", "squared_error", "--json"))
    assert found["interval"][0] < found["value"] < found["interval"][1]
    every = json.loads(printed(capsys, "evaluate", kept, folder / "seeded", "--metric", "all", "--json"))
    assert [one["metric"] for one in every["metrics"]] == ["accuracy"]
    assert set(every["refused"]) == {"precision", "recall", "f1", "roc_auc", "brier", "log_loss"}
    shown = printed(capsys, "evaluate", kept, folder / "seeded", "--metric", "all", "--level", "0.8")
    assert "80% interval" in shown
    page = tmp_path / "fit.html"
    assert "written" in printed(capsys, "report", kept, folder / "seeded", "--out", page)
    assert "guarantee" in page.read_text()
    assert "interval at 0.95" in printed(capsys, "evaluate", kept, folder / "seeded", "--metric", "squared_error")


@pytest.mark.in_turn
def test_a_loss_of_ones_own_is_fitted_and_judged(folder, capsys, tmp_path):
    kept, own = tmp_path / "fit.npz", "(1 - y*u)^2"
    answer = json.loads(printed(capsys, "fit", folder / "seeded", "--loss", own, "--save", kept, "--json"))
    named = json.loads(printed(capsys, "fit", folder / "seeded", "--loss", "squared-margin", "--json"))
    assert answer["loss"] == "(-u*y + 1)**2"
    np.testing.assert_allclose(answer["theta"], named["theta"], rtol=1e-8)
    np.testing.assert_allclose(answer["standard_errors"], named["standard_errors"], rtol=1e-8)
    found = json.loads(printed(capsys, "evaluate", kept, folder / "seeded", "--metric", "loss", "--json"))
    assert found["interval"][0] < found["value"] < found["interval"][1]
    assert "written" in printed(capsys, "report", kept, folder / "seeded", "--out", tmp_path / "fit.html")


@pytest.mark.in_turn
def test_two_labels_of_any_codes_are_plus_and_minus_one_in_a_loss_of_ones_own(capsys, tmp_path):
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, 4_000)
    says = np.where(rng.random(4_000) < 1 / (1 + np.exp(-2 * x)), "yes", "no")
    answers = sd.RandomizedResponse.from_keep_probability(0.9, ("no", "yes"))
    release = sd.Release({"x": sd.LaplaceMechanism.from_scale(0.3), "says": answers}, fit_intercept=True)
    release.privatize(pd.DataFrame({"x": x, "says": says}), random_state=0).save(tmp_path / "released")
    words = ["fit", tmp_path / "released", "--target", "says", "--features", "x", "--json", "--loss"]
    own, named = (json.loads(printed(capsys, *words, loss)) for loss in ("log(1 + exp(-y*u))", "logistic"))
    np.testing.assert_allclose(own["theta"], named["theta"], rtol=1e-6)
    assert abs(own["theta"][0] - 2) < 4 * own["standard_errors"][0]


@pytest.mark.in_turn
def test_a_loss_of_ones_own_takes_numbers_and_an_exposure(capsys, tmp_path):
    rng = np.random.default_rng(0)
    x, years = rng.uniform(-1, 1, 4_000), rng.uniform(1, 3, 4_000)
    counts = rng.poisson(years * np.exp(0.5 * x)).astype(float)
    release = sd.Release(
        {"x": sd.LaplaceMechanism.from_scale(0.3)}, sd.LaplaceMechanism.from_scale(0.5), noiseless=("years",),
        fit_intercept=True,
    )  # fmt: skip
    X = np.column_stack([x + rng.laplace(scale=0.3, size=4_000), years])
    y = counts + rng.laplace(scale=0.5, size=4_000)
    sd.release.Noised(X, y, release, seeded=False, hardened=False).save(tmp_path / "received")
    answers = [
        json.loads(printed(capsys, "fit", tmp_path / "received", "--loss", loss, "--exposure", "years", "--json"))
        for loss in ("exp(u) - y*u", "poisson")
    ]
    np.testing.assert_allclose(answers[0]["theta"], answers[1]["theta"], rtol=1e-6)
    assert abs(answers[0]["theta"][0] - 0.5) < 4 * answers[0]["standard_errors"][0]


def test_the_words_of_metrics_are_those_of_the_library():
    for name in (*METRICS, "all"):
        assert parser.parsed(["evaluate", "fit", "folder", "--metric", name]).metric == name


@pytest.mark.in_turn
def test_a_ledger_that_begins_says_so_once(folder, tmp_path, capsys):
    words = ["privatize", folder / "people.csv", "--schema", folder / "schema.toml", "--population", "panel",
             "--total", "60,1e-5", "--ledger", tmp_path / "spnet.jsonl", "--json"]  # fmt: skip
    for out, is_new in (("once", True), ("twice", False)):
        assert cli.main([*map(str, words), "--out", str(tmp_path / out)]) == 0
        told = capsys.readouterr()
        assert strict(told.out)["records"] == 20_000
        assert ("note: there was no ledger at" in told.err) == ("spnet.jsonl, and a new one" in told.err) == is_new


def test_a_release_is_counted_and_written(folder, capsys):
    out = printed(capsys, "ledger", folder / "spent.jsonl")
    assert "panel: 1 releases" in out
    assert "20,000 records" in out
    assert "epsilon 30, delta 1e-06 spent of epsilon 60" in out
    noised = sd.load(folder / "released")
    assert noised.guarantee.epsilon <= 30
    assert (noised.target_name, noised.labels) == ("income", ("low", "high"))
    assert noised.release == sd.Release.from_schema(folder / "schema.toml")
    assert (folder / "released" / CARD).read_text() == noised.release.to_json()


def test_records_that_were_changed_are_noted_before_they_are_fitted(folder, capsys, tmp_path):
    """The rows of a column are halved, which a new folder with the old card does not tell by itself."""
    noised = sd.load(folder / "seeded")
    halved = type(noised.X)({name: noised.X[name] / 2 for name in noised.X.columns})
    replace(noised, X=halved).save(tmp_path / "halved", target_name="income", labels=noised.labels)
    words = ["fit", str(tmp_path / "halved"), "--loss", "squared-margin", "--l2", "1", "--json"]
    assert cli.main(words) == 0
    shown = capsys.readouterr()
    assert "note: the records do not fit their card: age (" in shown.err
    assert strict(shown.out)["records_fit_card"] is False
    assert strict(printed(capsys, *words[:1], folder / "seeded", *words[2:]))["records_fit_card"] is True


def test_a_seed_is_said_to_have_no_guarantee(folder, capsys, tmp_path):
    words = ["privatize", folder / "people.csv", "--schema", folder / "schema.toml", "--seed", "1"]
    assert "no guarantee: the noise came from a seed" in printed(capsys, *words, "--out", tmp_path / "a")
    answer = json.loads(printed(capsys, *words, "--out", tmp_path / "b", "--json"))
    assert answer == {
        "folder": str(tmp_path / "b"), "records": 20_000, "seeded": True, "epsilon": None, "delta": None,
        "unprotected": None,
    }  # fmt: skip
    (one, other) = ((tmp_path / name / "records.csv").read_bytes() for name in "ab")
    assert one == other


@pytest.mark.in_turn
def test_a_fit_to_seeded_records_has_no_guarantee(folder, capsys, tmp_path):
    kept, page = tmp_path / "fit.npz", tmp_path / "fit.html"
    words = ("fit", folder / "seeded", "--loss", "squared-margin")
    out = printed(capsys, *words, "--save", kept)
    assert "privacy      none, for a seed; without: (30, 1e-06)-differential privacy" in out
    assert "right at most" not in out
    assert "warning: the noise was drawn from a seed" in out
    answer = json.loads(printed(capsys, *words, "--json"))
    assert (answer["seeded"], answer["epsilon"], answer["delta"]) == (True, None, None)
    printed(capsys, "report", kept, folder / "seeded", "--out", page)
    assert "Stated: none, for a seed" in page.read_text()
    assert "right at most" not in page.read_text()
    with pytest.raises(sd.PrivacyError, match="noised from a seed"):
        _ = sd.Fit.load(kept).guarantee


def test_a_fit_to_plain_noise_says_what_its_guarantee_rests_on(folder, capsys, tmp_path):
    schema = sd.Schema(folder / "schema.toml")
    X, y = schema.collect(folder / "people.csv")
    noised = sd.Release.from_schema(schema).privatize(X, y, noise="plain")
    noised.save(tmp_path / "plain", target_name="income", labels=schema.labels)
    assert "low bits tell more" in printed(capsys, "fit", tmp_path / "plain", "--loss", "squared-margin")


def test_released_records_are_in_an_order_that_nobody_knows(capsys, tmp_path):
    """A column without noise tells the order: of 200 records some are in another place but once in 10^370 times."""
    lines = ["year,income", *(f"{year},{'low' if year < 100 else 'high'}" for year in range(200))]
    (tmp_path / "people.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "schema.toml").write_text(
        "epsilon = 30.0\ncolumns.year = { bounds = [0, 200], public = true }\n"
        '[target]\nname = "income"\ncategories = ["low", "high"]\n'
    )
    words = ["privatize", tmp_path / "people.csv", "--schema", tmp_path / "schema.toml", "--out"]
    in_order = {"kept": ["--keep-order"], "seeded": ["--seed", "1"]}
    for name, more in (in_order | {"one": [], "other": []}).items():
        printed(capsys, *words, tmp_path / name, *more)
    found = {name: sd.load(tmp_path / name) for name in (*in_order, "one", "other")}
    years = {name: one.X["year"].tolist() for name, one in found.items()}
    assert years["kept"] == years["seeded"] == sorted(years["one"]) == sorted(years["other"])
    assert years["one"] != years["kept"] != years["other"] != years["one"]
    # At an epsilon of 30 labels are as they were: they go with their records.
    middle = np.median(years["one"])
    for name, one in found.items():
        assert (one.y > 0).tolist() == (np.array(years[name]) > middle).tolist()


def test_clipped_records_are_a_note_to_the_collector(folder, capsys, tmp_path):
    (tmp_path / "people.csv").write_text("age,hours,income\n300,40,low\n30,40,high\n")
    words = ["privatize", tmp_path / "people.csv", "--schema", folder / "schema.toml", "--out", tmp_path / "out"]
    assert cli.main([str(word) for word in words]) == 0
    said = capsys.readouterr().err
    assert said.startswith("symdebias: note: 1 of 2 records lay outside")
    assert ".py" not in said


@pytest.mark.in_turn
def test_what_to_expect_is_said_before_anything_is_spent(folder, capsys):
    plan = ["plan", "--schema", folder / "schema.toml"]
    answer = json.loads(printed(capsys, *plan, "--records", "20000", "--json"))
    assert answer["feasible"] is True
    assert [one["name"] for one in answer["parameters"]] == ["age", "hours", "intercept"]
    age = answer["parameters"][0]
    assert age["standard_error_in_units"] == pytest.approx(age["standard_error"] / 50)
    # Another budget than that of the schema may be asked for.
    larger = json.loads(printed(capsys, *plan, "--records", "20000", "--epsilon", "60", "--json"))
    assert larger["parameters"][0]["standard_error"] < age["standard_error"]
    assert "(60, 1e-06)-differential" in printed(capsys, *plan, "--records", "20000", "--epsilon", "60")
    few = printed(capsys, *plan, "--records", "50")
    assert "not feasible: a fit may well be refused" in few
    assert "What would help: some " in few
    needed = json.loads(printed(capsys, *plan, "--standard-error", str(age["standard_error"]), "--json"))
    assert needed["records"] <= 20_000 * 1.2


@pytest.mark.in_turn
def test_derivations_are_printed(capsys):
    out = printed(capsys, "derive", "-u*y + exp(u)", "--noise", "gaussian:0.5", "--continuous")
    assert "-u*y + exp(-s/2 + u)" in out
    answer = json.loads(
        printed(capsys, "derive", "exponential", "--noise", "gaussian:0.5", "--target-epsilon", "2", "--json")
    )
    assert answer["method"] == "exact"
    assert answer["corrected"] == "(-c*y/2 + 1/2)*exp(-s/2 + u) + (c*y/2 + 1/2)*exp(-s/2 - u)"
    assert "e^{" in printed(capsys, "derive", "exp(-y*u)", "--noise", "gaussian:0.5", "--latex")
    # A loss by name stays the same loss for labels in other numbers.
    recoded = printed(capsys, "derive", "exponential", "--target-values", "0,1", "--noise", "gaussian:0.5")
    assert "loss        exp(-u*(2*y - 1))" in recoded
    assert "a surrogate, designed for the records" in printed(capsys, "derive", "logistic", "--noise", "gaussian:0.5")
    rule = ("--noise", "gaussian:0.5", "--method", "quadrature", "--nodes", "2")
    assert "exp(-u*y)*cos(" in printed(capsys, "derive", "exp(-y*u)", *rule)


@pytest.mark.exhaustive
def test_the_plan_on_the_page_is_what_the_command_prints(capsys):
    """To two digits: a plan draws its records, and they are the same each time."""
    page = (Path(__file__).parents[2] / "docs" / "planning.md").read_text()
    block = page.split("```console\n", 1)[1].split("```", 1)[0]
    command, _, shown = block.partition("\n")
    printed_rows = _rows(printed(capsys, *shlex.split(command.removeprefix("$ symdebias "))))
    shown_rows = _rows(shown)
    assert set(shown_rows) == {"laplace", "gaussian"}
    for name, row in shown_rows.items():
        assert printed_rows[name][-1] == row[-1]
        for found, stated in zip(printed_rows[name][:-1], row[:-1], strict=True):
            assert float(found) == pytest.approx(float(stated), rel=0.01)


def _rows(text):
    words = (line.replace(",", "").replace("x ", " ").split() for line in text.splitlines())
    return {row[0]: row[1:] for row in words if len(row) == 8}


@pytest.mark.parametrize(
    ("words", "explained"),
    [
        (("logistic", "--noise", "laplace:0.5"), ["u", "y", "e_1, e_2"]),
        (("exponential", "--noise", "laplace:0.5"), ["u", "y", "q0_0", "r"]),
        (("exponential", "--noise", "gaussian:1", "--target-epsilon", "2"), ["u", "y", "c", "s"]),
        (("-u*y + exp(u)", "--continuous", "--noise", "gaussian:1"), ["u", "y", "s"]),
    ],
)
def test_the_symbols_of_a_derivation_are_explained_and_no_others(words, explained, capsys):
    answer = json.loads(printed(capsys, "derive", *words, "--json"))
    assert list(answer["symbols"]) == explained
    out = printed(capsys, "derive", *words)
    assert [line.split(":")[0].strip() for line in out.splitlines() if line.startswith(" " * 12)] == explained


def test_negative_numbers_are_values():
    words = parser.with_negative_values(
        ["plan", "--theta", "-1,.5", "--spread", "-.5", "-h", "-y*u", "--intercept", "--a=1"]
    )
    assert words == ["plan", "--theta=-1,.5", "--spread=-.5", "-h", " -y*u", "--intercept", "--a=1"]
    assert parser.parsed(["plan", "--theta", "-1,.5", "--records", "9"]).theta == (-1.0, 0.5)


def test_names_on_the_command_line_are_those_of_the_library():
    assert {name.replace("-", "_") for name in parser.LOSSES} == set(sd.losses.__all__) - {"expectile"}
    (shown,) = (one for one in parser.command_line()._subparsers._group_actions)
    choices = {
        name: {option.dest: option.choices for option in command._actions} for name, command in shown.choices.items()
    }
    assert set(choices["demo"]["data"]) == set(demo.PROBLEMS)
    assert set(choices["privatize"]["format"]) == {"csv", "parquet"}


def test_ctrl_c_has_the_code_of_shells(monkeypatch, capsys, folder):
    def interrupt(options):
        raise KeyboardInterrupt

    monkeypatch.setattr(fitting, "fit", interrupt)
    assert cli.main(["fit", str(folder / "released"), "--loss", "logistic"]) == cli.INTERRUPTED == 130
    assert capsys.readouterr().err == "symdebias: interrupted\n"


def strict(text):
    """Read JSON as other languages do, which know neither NaN nor Infinity."""
    return json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


class Closed(io.StringIO):
    """The end of a pipe that nobody reads."""

    def __init__(self, reason=errno.EPIPE):
        super().__init__()
        self.reason = reason

    def write(self, text):
        raise OSError(self.reason, os.strerror(self.reason))


@pytest.mark.parametrize("code", [0, cli.REFUTED])
def test_a_command_goes_on_where_nobody_reads_its_answer(code, monkeypatch):
    """Records are released, and a verdict stands, whether somebody reads the answer or not."""
    done = []

    def work(options):
        sys.stdout.write("begun")
        sys.stdout.flush()
        warnings.warn("a note", stacklevel=1)
        sys.stdout.write("more")
        done.append(options)
        return code

    monkeypatch.setattr(fitting, "fit", work)
    monkeypatch.setattr(sys, "stdout", Closed())
    monkeypatch.setattr(sys, "stderr", Closed())
    assert cli.main(["fit", "folder", "--loss", "logistic"]) == code
    assert done


def test_an_answer_that_finds_no_room_is_said_to(monkeypatch, capsys):
    monkeypatch.setattr(fitting, "fit", lambda options: sys.stdout.write("an answer") * 0)
    monkeypatch.setattr(sys, "stdout", Closed(errno.ENOSPC))
    assert cli.main(["fit", "folder", "--loss", "logistic"]) == cli.FAILED
    assert "what is to be printed or written cannot be: No space left on device" in capsys.readouterr().err


@pytest.mark.in_turn
def test_what_is_written_is_said_where_the_answer_finds_no_room(folder, tmp_path, monkeypatch, capsys):
    """Records are released and a budget is spent: whoever reads of a failure is not to release them again."""
    monkeypatch.setattr(sys, "stdout", Closed(errno.ENOSPC))
    table = ["privatize", folder / "people.csv", "--schema", folder / "schema.toml", "--out", tmp_path / "out"]
    counted = [*table, "--ledger", tmp_path / "spent.jsonl", "--population", "panel", "--total", "60,1e-5"]
    saved = ["fit", folder / "seeded", "--loss", "logistic", "--save", tmp_path / "fit.json"]
    for words, said in (
        (counted, r"20,000 released records with their card are in .*out, and the ledger .*spent\.jsonl counts them"),
        (saved, r"the fit is in .*fit\.json\."),
        (
            ["predict", tmp_path / "fit.json", folder / "people.csv", "--out", tmp_path / "said.csv"],
            "20,000 predictions",
        ),
    ):
        assert cli.main([str(word) for word in words]) == cli.FAILED
        err = capsys.readouterr().err
        assert re.search("cannot be: No space left.*Done is what was to be written: " + said, err), err
        # Not of what nothing was written of.
        assert cli.main(["fit", str(tmp_path / "none"), "--loss", "logistic"]) == cli.FAILED
        assert "Done" not in capsys.readouterr().err


@pytest.mark.in_turn
@pytest.mark.parametrize("words", [["--help"], ["privatize", "people.csv", "--schema", "s.toml", "--out", "out"]])
def test_a_closed_pipe_is_no_failure(words, tmp_path):
    """What Python keeps to its end is written then, where it would end with an exit code of its own, 120."""
    (tmp_path / "s.toml").write_text("epsilon = 2.0\n[columns]\nage = { bounds = [0, 99] }\n")
    (tmp_path / "people.csv").write_text("age\n" + "30\n40\n" * 20)
    reading, writing = os.pipe()
    os.close(reading)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    environment["PYTHONPATH"] = str(Path(sd.__file__).parents[1])
    with os.fdopen(writing, "wb") as closed:
        run = subprocess.run(
            [sys.executable, "-m", "symdebias", *words], stdout=closed, stderr=subprocess.PIPE, text=True, cwd=tmp_path,
            env=environment, check=False,
        )  # fmt: skip
    assert (run.returncode, run.stderr) == (0, "")
    assert words[0] == "--help" or len(sd.load(tmp_path / "out").X) == 40


@pytest.mark.in_turn
def test_every_answer_is_to_be_had_as_json(folder, capsys, tmp_path):
    """Those of commands whose JSON is not read elsewhere here, and one that has a number that is not finite."""
    takes_json = {
        command.prog.split()[-1]
        for command, _ in parser.commands_of(parser.command_line())
        if any("--json" in action.option_strings for action in command._actions)
    }
    assert takes_json == {
        "derive", "plan", "privatize", "receive", "fit", "evaluate", "predict", "report", "audit", "ledger", "compile",
        "demo",
    }  # fmt: skip
    (panel,) = strict(printed(capsys, "ledger", folder / "spent.jsonl", "--json"))["populations"]
    assert (panel["population"], panel["total"]) == ("panel", {"epsilon": 60.0, "delta": 1e-5})
    assert [one["records"] for one in panel["releases"]] == [20_000]
    kept, page = tmp_path / "fit.npz", tmp_path / "fit.html"
    printed(capsys, "fit", folder / "seeded", "--loss", "squared-margin", "--save", kept)
    answer = strict(printed(capsys, "report", kept, folder / "seeded", "--out", page, "--json"))
    assert answer == {"page": str(page), "bytes": page.stat().st_size}
    cli.show({"one": float("inf"), "all": [1.5, {"two": float("nan")}], "three": "nan"})
    assert strict(capsys.readouterr().out) == {"one": None, "all": [1.5, {"two": None}], "three": "nan"}


def test_a_page_is_one_of_the_records_that_the_fit_was_made_of(folder, capsys, tmp_path):
    """Beside the fit stands one that ignores the noise, of the records that are named."""
    kept, fewer = tmp_path / "fit.npz", tmp_path / "fewer"
    printed(capsys, "fit", folder / "seeded", "--loss", "squared-margin", "--save", kept)
    whole = sd.load(folder / "seeded")
    replace(whole, X=whole.X[:300], y=None if whole.y is None else whole.y[:300]).save(fewer, labels=whole.labels)
    assert cli.main(["report", str(kept), str(fewer), "--out", str(tmp_path / "page.html")]) == 1
    assert "the fit was made of 20,000 records, and" in capsys.readouterr().err
    assert not (tmp_path / "page.html").exists()


TABBED = """
source {script}
tab() {{ COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); "$FUNCTION" "$2" "$1"; echo "${{COMPREPLY[*]}}"; }}
FUNCTION=$(complete -p symdebias | sed 's/.*-F \\([^ ]*\\).*/\\1/')
tab symdebias pr
tab symdebias fit released --loss sq
tab symdebias fit released --lo
tab symdebias evaluate fit.npz released --metric ""
tab symdebias privatize {folder}/peo
"""


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_completes_words(folder, capsys, tmp_path):
    script = tmp_path / "completion.bash"
    script.write_text(printed(capsys, "completion", "bash"))
    (tmp_path / "tab.bash").write_text(TABBED.format(script=script, folder=folder))
    run = subprocess.run(["bash", str(tmp_path / "tab.bash")], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == [
        "privatize predict", "squared-hinge squared-margin", "--loss",
        "log_loss brier accuracy precision recall f1 roc_auc squared_error r2 poisson loss all",
        f"{folder}/people.csv",
    ]  # fmt: skip
    assert printed(capsys, "completion", "zsh").startswith("#compdef symdebias")


def test_completion_says_which_package_it_needs(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert cli.main(["completion", "bash"]) == cli.FAILED
    assert 'pip install "symdebias[completion]"' in capsys.readouterr().err


def test_long_work_is_announced_to_who_looks_on(folder, capsys, monkeypatch, tmp_path):
    """On a terminal, and not in a file of errors."""
    words = ["privatize", folder / "people.csv", "--schema", folder / "schema.toml", "--seed", "1", "--out"]
    printed(capsys, *words, tmp_path / "a")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert cli.main([*map(str, words), str(tmp_path / "b")]) == 0
    assert "symdebias: reading " in capsys.readouterr().err


LIGHT = """
import sys
from symdebias.interfaces import cli
for words in (["--version"], ["--help"], ["fit", "--help"], ["privatise"], ["fit", "x", "--loss", "logit"],
              ["completion", "bash"]):
    try:
        cli.main(words)
    except SystemExit:
        pass
print([name for name in ("numpy", "sympy", "numba", "scipy") if name in sys.modules])
"""


def test_mistyped_words_are_answered_before_anything_heavy_is_imported():
    root = Path(sd.__file__).parents[1]
    run = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True, cwd=root, check=True)
    assert run.stdout.endswith("\n[]\n"), run.stdout
    assert f"symdebias {sd.__version__}" in run.stdout


def test_degrees_of_freedom_of_an_answer_are_those_of_each_parameter():
    """A parameter by the normal distribution has null, which JSON has a word for; without any there is no entry."""
    release = sd.Release(sd.GaussianMechanism.from_scale(0.5))
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4_000, 2))
    corrected = sd.debias(sd.losses.least_squares(), release)
    fit = sd.m_estimate(corrected, X, X @ [1.0, -0.5] + rng.normal(size=4_000))
    assert "degrees_of_freedom_in_units" not in fitting._as_json(fit, 0.95)
    known = replace(fit.inference, degrees_of_freedom=np.array([3.5, np.inf]))
    answer = json.loads(json.dumps(fitting._as_json(replace(fit, inference=known), 0.95), allow_nan=False))
    assert answer["degrees_of_freedom_in_units"] == [3.5, None]
