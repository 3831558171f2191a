import functools
import gzip
import io
import json
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import symdebias as sd
from symdebias.exceptions import MissingDependencyError
from symdebias.interfaces import cli, datasets, demo, plotting, spending
from symdebias.interfaces.cli import running


@pytest.fixture
def small(monkeypatch):
    """The demonstration on few records, with two draws of the noise."""
    # With steps by which a fifth of the records gets as far, and a budget that pays for them.
    problem = replace(demo.synthetic_problem(2, 4.0, records=200_000), step_size=5e-4)
    monkeypatch.setitem(demo.PROBLEMS, "synthetic", lambda: problem)
    twice = functools.partial(spending.compare, draws=2)
    monkeypatch.setattr(spending, "compare", twice)


@pytest.mark.in_turn
def test_the_demo_prints_tables_and_draws_a_picture(small, tmp_path, capsys):
    picture = tmp_path / "curves.png"
    assert cli.main(["demo", "--output", str(picture)]) == 0
    printed = capsys.readouterr().out
    for name in (*demo.CURVES, "paper's recipe", "best split", *spending.DESIGNED):
        assert name in printed
    assert str(picture) in printed
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_missing_output_folder_is_said_before_the_work(tmp_path, capsys):
    assert cli.main(["demo", "--output", str(tmp_path / "none" / "a.png")]) == 1
    assert "is not there" in capsys.readouterr().err


def test_the_demo_answers_in_json(small, tmp_path, capsys, monkeypatch):
    """Of what was found; finding it is tested above."""
    theta = np.array([1.0, -2.0])
    monkeypatch.setattr(
        demo,
        "run",
        lambda problem, **options: demo.Outcome(
            problem, theta, 0.5, {"one": SimpleNamespace(theta=theta)}, {"one": np.array([0.3, 0.1])}, 1.0
        ),
    )
    ways = [spending.Spending("recipe", "noise", np.array([0.1, 0.3]), 0.05)]
    monkeypatch.setattr(spending, "compare", lambda problem, **options: ways)
    monkeypatch.setattr(plotting, "excess_risk", lambda outcome, spendings: None)
    monkeypatch.setattr(plotting, "save", lambda figure, path: path.write_text("picture"))
    picture = tmp_path / "demo.png"
    assert cli.main(["demo", "--output", str(picture), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["records"], answer["least_risk"], answer["picture"]) == (200_000, 0.5, str(picture))
    assert answer["curves"] == [{"name": "one", "excess_risk": 0.1, "theta": [1.0, -2.0]}]
    (way,) = answer["spendings"]
    assert (way["name"], way["how"], way["limit"]) == ("recipe", "noise", 0.05)
    assert (way["excess_risk"], way["standard_error"]) == pytest.approx((0.2, 0.1))


@pytest.mark.parametrize("words", [[], ["dmo"], ["demo", "--data", "iris"], ["demo", "--seed", "x"]])
def test_mistyped_commands_say_what_there_is(words, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(words)
    assert stop.value.code == 2
    assert "usage: symdebias" in capsys.readouterr().err


def test_adult_without_its_folder_says_where_to_get_it(monkeypatch, capsys, tmp_path):
    monkeypatch.delenv("SYMDEBIAS_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    assert cli.main(["demo", "--data", "adult"]) == 1
    message = capsys.readouterr().err
    assert "SYMDEBIAS_DATA is not set" in message
    assert "archive.ics.uci.edu" in message
    monkeypatch.setenv("SYMDEBIAS_DATA", str(tmp_path))
    assert cli.main(["demo", "--data", "adult"]) == 1
    assert "neither" in capsys.readouterr().err


RECORD = (
    "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, {sex}, 2174, 0, 40, "
    "United-States, {income}"
)


def test_adult_is_read_as_its_files_are_written(tmp_path):
    wife = RECORD.format(sex="Female", income=">50K.").replace("Never-married", "Married-AF-spouse")
    (tmp_path / "adult.data").write_text(RECORD.format(sex="Male", income="<=50K") + "\n\n")
    (tmp_path / "adult.test").write_text("|1x3 Cross validator\n" + wife + "\n")
    data = datasets.adult(tmp_path)
    np.testing.assert_array_equal(data.X, [[39, 13, 40, 1], [39, 13, 40, -1]])
    np.testing.assert_array_equal(data.y, [-1, 1])
    assert data.columns == ("age", "education-num", "hours-per-week", "sex")
    train, test = datasets.adult_parts(tmp_path)
    np.testing.assert_array_equal(train.X, [[39, 13, 40, 1, -1]])
    np.testing.assert_array_equal(test.X, [[39, 13, 40, -1, 1]])
    assert (train.y.tolist(), test.y.tolist(), train.columns) == ([-1], [1], (*data.columns, "married"))


def test_a_broken_line_is_named(tmp_path):
    (tmp_path / "adult.data").write_text("1, 2, 3\n")
    (tmp_path / "adult.test").write_text("")
    with pytest.raises(ValueError, match=r"adult\.data, line 1"):
        datasets.adult(tmp_path)


@pytest.mark.in_turn
def test_adult_as_it_is(data_folder):
    data = datasets.adult(data_folder)
    assert data.X.shape == (48_842, 4)
    assert np.mean(data.y == 1) == pytest.approx(0.2393, abs=1e-4)
    train, test = datasets.adult_parts(data_folder)
    assert (len(train.X), len(test.X)) == (32_561, 16_281)
    np.testing.assert_array_equal(np.concatenate([train.X, test.X])[:, :4], data.X)
    assert (train.X[:, 4] == 1).sum() == 14_976 + 23


def census_line(**changes):
    """A line of the census file; fields by position, such as f39="12"."""
    fields = ["0"] * 42
    fields[0], fields[1], fields[4], fields[6], fields[7] = "30", "Private", "High school graduate", "-", "Divorced"
    fields[12], fields[15], fields[39], fields[40] = "Male", "Full-time schedules", "52", "94"
    fields[41] = "- 50000."
    for place, value in changes.items():
        fields[int(place[1:])] = value
    return ", ".join(fields) + "\n"


def test_census_is_read_as_its_file_is_written(tmp_path):
    second = {"f0": "62", "f1": "?", "f4": "Doctorate degree(PhD EdD)", "f5": "99999", "f6": "High school"}
    second |= {"f12": "Female", "f16": "9", "f30": "6", "f39": "12", "f40": "95", "f41": "50000+."}
    text = census_line() + census_line(f39="0", f4="Children") + census_line(**second, f15="Unemployed part- time")
    (tmp_path / "census-income.test.gz").write_bytes(gzip.compress(text.encode()))
    data = datasets.census(tmp_path)
    np.testing.assert_array_equal(data.y, [52, 12])
    assert data.X.shape == (2, len(data.columns)) == (2, 38)
    first, other = (dict(zip(data.columns, row, strict=True)) for row in data.X)
    expected = {"age": 0.3, "age^2": 0.09, "age>0.2": 0.1, "age>0.25": 0.05, "education": 9 / 16, "year": 0.0}
    expected |= {"sex": 1.0, "income": -1.0, "Private": 1.0, "Divorced": 1.0, "Full-time schedules": 1.0}
    assert {name: value for name, value in first.items() if value or name == "year"} == pytest.approx(expected)
    expected = {"age": 0.62, "age^2": 0.3844, "age>0.2": 0.42, "age>0.25": 0.37, "age>0.6": 0.02, "education": 1.0}
    expected |= {"wage": 1.0, "gains": 0.2, "employer": 1.0, "year": 1.0, "sex": -1.0, "income": 1.0}
    expected |= {"High school": 1.0, "Divorced": 1.0, "Unemployed part- time": 1.0}
    assert {name: value for name, value in other.items() if value} == pytest.approx(expected)


@pytest.mark.parametrize("changes", [
    {"f4": "High school"}, {"f12": "M"}, {"f40": "96"}, {"f41": "50000"}, {"f41": "50000+., x"},
])  # fmt: skip
def test_a_broken_line_of_census_is_named(changes, tmp_path):
    (tmp_path / "census-income.test").write_text(census_line() + census_line(**changes))
    with pytest.raises(ValueError, match=r"census-income\.test, line 2 is not a record"):
        datasets.census(tmp_path)


def test_census_without_its_folder_says_where_to_get_it(monkeypatch, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"neither .*archive\.ics\.uci\.edu"):
        datasets.census(tmp_path)
    monkeypatch.delenv("SYMDEBIAS_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match="SYMDEBIAS_DATA is not set"):
        datasets.census()


@pytest.mark.in_turn
def test_census_as_it_is(data_folder):
    data = datasets.census(data_folder)
    assert len(data.X) == len(data.y) == 51_873
    assert np.abs(data.X).max() == 1.0
    assert (data.y.min(), data.y.max(), np.mean(data.y == 52)) == (1, 52, pytest.approx(35_052 / 51_873))
    # No category of the coding is missing from the file.
    assert (data.X[:, data.columns.index("Private") :].max(axis=0) == 1).all()


@pytest.mark.parametrize(("module", "extra", "call"), [
    ("sklearn.datasets", "sklearn", lambda: datasets.synthetic(2, 100)),
    ("matplotlib.figure", "plot", lambda: plotting.planned_errors({})),
])  # fmt: skip
def test_missing_packages_say_what_to_install(module, extra, call, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingDependencyError, match=rf'pip install "symdebias\[{extra}\]"'):
        call()


def test_synthetic_data_lie_in_the_cube():
    data = datasets.synthetic(3, 500)
    assert np.abs(data.X).max() == 1.0
    assert set(data.y) == {-1.0, 1.0}


@pytest.mark.in_turn
def test_a_plan_of_one_vector_states_the_weight_of_the_target(capsys):
    words = ["plan", "--loss", "exponential", "--theta", "1,0.3", "--intercept", "--epsilon", "6", "--records", "1e6"]
    words += ["--l2", "1", "--mechanisms", "gaussian", "--target", "margin"]
    assert cli.main(words) == 0
    printed = capsys.readouterr().out
    assert "note: margin, gaussian: the weight of the target is" in printed
    assert "target='margin'" in printed
    with pytest.raises(SystemExit):
        cli.main([*words, "--public-target"])


@pytest.mark.in_turn
def test_a_plan_is_tried_out(tmp_path, capsys):
    words = ["plan", "--loss", "squared-margin", "--theta", "1,-0.5", "--epsilon", "12", "--records", "5000"]
    words += ["--mechanisms", "laplace", "--rehearse", "2"]
    assert cli.main(words) == 0
    assert "2 releases of 5,000 records, each fitted: 0 refused" in capsys.readouterr().out
    schema = tmp_path / "schema.toml"
    schema.write_text(
        'epsilon = 12.0\nloss = "squared_margin"\n[columns]\nage = { bounds = [18, 90] }\n'
        '[target]\nname = "income"\ncategories = ["low", "high"]\n'
    )
    assert cli.main(["plan", "--schema", str(schema), "--records", "5000", "--rehearse", "2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["rehearsal"]
    assert (found["fits"], found["refused"], found["clipped"]) == (2, 0, 0)
    assert [one["name"] for one in found["parameters"]] == ["age", "intercept"]
    assert cli.main([*words[:-1], "0"]) == 1
    assert "--rehearse=0 is too small" in capsys.readouterr().err


@pytest.mark.in_turn
def test_a_plan_with_a_picture_is_one_answer_in_json(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(plotting, "planned_errors", lambda curves: None)
    monkeypatch.setattr(plotting, "save", lambda figure, path: path.write_bytes(b"\x89PNG"))
    # Both answers, and the middle of the picture, are of the same plans.
    known, planned = {}, running.planned

    def once(*given, epsilon, n, progress=False, **options):
        if (epsilon, n) not in known:
            known[epsilon, n] = planned(*given, epsilon=epsilon, n=n, **options)
        return known[epsilon, n]

    monkeypatch.setattr(running, "planned", once)
    picture = tmp_path / "plan.png"
    words = ["plan", "--loss", "squared-margin", "--theta", "1,-0.5", "--epsilon", "12", "--records", "5000"]
    words += ["--mechanisms", "laplace", "--plot", str(picture)]
    assert cli.main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["picture"] == str(picture)
    assert picture.read_bytes() == b"\x89PNG"
    assert cli.main(words) == 0
    assert f"standard errors in {picture}" in capsys.readouterr().out
    assert len(known) == 4


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("words", "clipped"), [("", True), ("--intercept", False), ("--theta 0.5,0 --intercept", True)]
)
def test_a_guessed_intercept_is_the_middle_of_the_bounds_of_a_target(words, clipped, capsys):
    guess = words if "--theta" in words else f"--columns 1 {words}"
    words = f"plan --loss least-squares {guess} --epsilon 8 --records 50000 --target-bounds 0,10 --mechanisms laplace"
    assert cli.main(words.split()) == 0
    assert ("lie outside the bounds" in capsys.readouterr().out) is clipped


@pytest.mark.in_turn
def test_the_picture_of_a_plan_ends_at_the_largest_budget(tmp_path, monkeypatch):
    budgets, planned = [], running.planned

    def seen(*given, epsilon, **options):
        budgets.append(epsilon)
        return planned(*given, epsilon=min(epsilon, 12.0), **options)

    monkeypatch.setattr(running, "planned", seen)
    monkeypatch.setattr(plotting, "planned_errors", lambda curves: None)
    monkeypatch.setattr(plotting, "save", lambda figure, path: path.write_bytes(b"PNG"))
    words = ["plan", "--loss", "squared-margin", "--theta", "1,-0.5", "--epsilon", "300", "--records", "5000"]
    assert cli.main([*words, "--mechanisms", "laplace", "--plot", str(tmp_path / "plan.png")]) == 0
    assert budgets == [300.0, 150.0, 300.0, 600.0]


CARD = sd.Release({"age": sd.LaplaceMechanism(1.0, bounds=(0, 1))}, sd.RandomizedResponse(1.0)).to_json()


def test_the_audit_of_a_card_prints_its_table(tmp_path, capsys):
    card = tmp_path / "card.json"
    card.write_text(CARD)
    assert cli.main(["audit", str(card), "--samples", "5000"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("holds: (2, 0)-differential privacy (local, replace-one)")
    for words in ("law of the noise: passed", "repeated streams: passed", "would see", "false alarms below"):
        assert words in printed


def test_an_audit_that_refutes_says_so_by_its_exit_code(tmp_path, capsys, monkeypatch):
    card = tmp_path / "card.json"
    card.write_text(CARD)
    sound = sd.LaplaceMechanism._add_noise
    monkeypatch.setattr(
        sd.LaplaceMechanism,
        "_add_noise",
        lambda self, values, source: values + (sound(self, values, source) - values) / 2,
    )
    assert cli.main(["audit", str(card), "--samples", "20000", "--json"]) == cli.REFUTED == 3
    answer = json.loads(capsys.readouterr().out)
    assert answer["holds"] is False
    (law,) = (probe for probe in answer["probes"] if probe["name"] == "law of the noise")
    assert law["passed"] is False


@pytest.mark.in_turn
def test_the_noise_of_a_seed_has_no_guarantee_to_audit(tmp_path, capsys):
    """The card of such a folder has one, and it holds: an audit of the folder must not say so."""
    release = sd.Release({"age": sd.LaplaceMechanism(1.0, bounds=(0, 1))}, sd.RandomizedResponse(1.0))
    records = np.full((20, 1), 0.5), np.where(np.arange(20) < 9, 1, -1)
    for name, seed in (("seeded", 0), ("fresh", None)):
        release.privatize(*records, random_state=seed).save(tmp_path / name)
    assert cli.main(["audit", str(tmp_path / "seeded"), "--samples", "5000"]) == 1
    assert "came from a seed, and its records have no guarantee" in capsys.readouterr().err
    for place in ("seeded/card.json", "fresh"):
        assert cli.main(["audit", str(tmp_path / place), "--samples", "5000"]) == 0
    # Where the manifest is damaged the card is what is told of.
    (tmp_path / "seeded" / "manifest.json").write_text("{")
    assert cli.main(["audit", str(tmp_path / "seeded"), "--samples", "5000"]) == 0


def test_the_audit_of_a_folder_without_a_target_names_none(tmp_path, capsys):
    release = sd.Release({"age": sd.LaplaceMechanism(epsilon=1.0, bounds=(0, 1))}, noiseless=("year",))
    X = [[0.2, 1], [0.7, 2], [0.4, 3]]
    release.privatize(X).save(tmp_path / "alone")
    release.privatize(X, [1.0, 2.0, 3.0]).save(tmp_path / "whole", target_name="paid")
    for place, named in (("alone", "year"), ("whole", "year, target"), ("alone/card.json", "year, target")):
        assert cli.main(["audit", str(tmp_path / place), "--samples", "5000"]) == 0
        said = capsys.readouterr().out
        assert said.count(f"not protected: {named}\n") == 2
        assert "claim: passed" in said


def test_an_audit_of_nothing_fails(tmp_path, capsys):
    card = tmp_path / "card.json"
    assert cli.main(["audit", str(card)]) == 1
    card.write_text("{}")
    assert cli.main(["audit", str(card)]) == 1
    card.write_text(CARD)
    assert cli.main(["audit", str(card), "--samples", "10"]) == 1
    card.write_text(sd.Release(sd.GaussianMechanism.from_scale(0.5)).to_json())
    assert cli.main(["audit", str(card)]) == 1
    assert "makes no privacy claim" in capsys.readouterr().err


def test_the_ledger_is_checked_and_printed(tmp_path, capsys):
    path = tmp_path / "spent.jsonl"
    book = sd.Ledger(path, "Größe", total=sd.Guarantee(2.0, 0.0))
    kept = book.charge({"age": sd.Guarantee(0.5, 0.0)}, records=1000).digest
    sd.Ledger(path, "others", total=sd.Guarantee(1.0, 0.0), others=("Größe",))
    assert cli.main(["ledger", str(path)]) == 0
    printed = capsys.readouterr().out
    assert "Größe: 1 releases" in printed
    assert "epsilon 0.5 spent of epsilon 2" in printed
    assert "others: 0 releases" in printed
    assert sd.Ledger(path, "others").digest in printed
    assert cli.main(["ledger", str(path), "--population", "others", "--digest", kept]) == 0
    assert "Größe" not in capsys.readouterr().out
    path.write_bytes(path.read_bytes().replace(b'"records": 1000', b'"records": 1001'))
    assert cli.main(["ledger", str(path)]) == 1
    assert "line 2 of the ledger" in capsys.readouterr().err
    for words in (["--population", "nobody"], ["--digest", "0" * 64]):
        assert cli.main(["ledger", str(path), *words]) == 1
    assert cli.main(["ledger", str(tmp_path / "none")]) == 1


def test_a_ledger_that_was_cut_short_is_called_that_in_json_too(tmp_path, capsys):
    path = tmp_path / "spent.jsonl"
    sd.Ledger(path, "survey", total=sd.Guarantee(2.0, 0.0)).charge(sd.Guarantee(0.5, 0.0))
    whole = path.read_bytes()
    for left, cut in ((whole, 0), (whole[:-20], len(whole.splitlines()[-1]) - 19), (whole[:30], 30)):
        path.write_bytes(left)
        assert cli.main(["ledger", str(path)]) == 0
        assert (f"{cut:,} bytes that are no whole line" in capsys.readouterr().out) == (cut > 0)
        assert cli.main(["ledger", str(path), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["bytes_cut_short"] == cut


def test_names_are_printed_where_the_locale_knows_ascii_alone(tmp_path, monkeypatch):
    sd.Ledger(tmp_path / "spent.jsonl", "Größe", total=sd.Guarantee(2.0, 0.0))
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", out)
    assert cli.main(["ledger", str(tmp_path / "spent.jsonl")]) == 0
    out.flush()
    assert b"Gr\\xf6\\xdfe: 0 releases" in out.buffer.getvalue()
