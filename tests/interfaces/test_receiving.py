"""From a table that another program noised to a fit, on the command line."""

import json
import re
import tomllib
from pathlib import Path

import numpy as np
import pytest

from symdebias.interfaces import cli

PAGE = Path(__file__).parents[2] / "docs" / "released_elsewhere.md"


@pytest.fixture
def survey(tmp_path):
    """The survey of the page, and the description that it shows."""
    rng = np.random.default_rng(0)
    n = 20_000
    age, smokes, year = rng.uniform(20, 60, n), rng.random(n) < 0.3, rng.integers(0, 10, n)
    says = rng.random(n) < 1 / (1 + np.exp(-((age - 40) / 10 + smokes - 0.1 * year)))
    age += rng.laplace(scale=8.0, size=n)
    smokes, says = (np.where(rng.random(n) < 0.9, one, ~one) for one in (smokes, says))
    rows = zip(age.tolist(), smokes, year, says, strict=True)
    lines = [f"{a!r},{'yes' if s else 'no'},{t},{'yes' if y else 'no'},x" for a, s, t, y in rows]
    (tmp_path / "survey.csv").write_text("\n".join(["age,smokes,year,says,name", *lines]) + "\n")
    written = re.search(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    tomllib.loads(written[1])
    (tmp_path / "noise.toml").write_text(written[1])
    return tmp_path


def received(place, *more):
    words = [str(place / "survey.csv"), "--noise", str(place / "noise.toml"), "--out", str(place / "received")]
    return cli.main(["receive", *words, *more])


@pytest.mark.in_turn
def test_from_a_noised_table_to_a_fit(survey, capsys):
    assert received(survey) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[0] == f"20,000 records with the card of their noise in {survey / 'received'}"
    assert "age: Laplace (epsilon 5), standard deviation 11.31" in out
    assert "year: released as it is" in out
    assert "plain noise" in out
    assert "note" not in err
    assert cli.main(["fit", str(survey / "received"), "--loss", "logistic", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["names"] == ["age", "smokes=yes", "year", "intercept"]
    away, errors = np.array(answer["theta"]) - [0.1, 1.0, -0.1, -4.0], np.array(answer["standard_errors"])
    assert np.all(np.abs(away) < 4 * errors)
    assert errors[0] < 0.01
    # What another program drew is not here to be audited.
    assert cli.main(["audit", str(survey / "received"), "--samples", "1000"]) == 0
    assert "another program drew it: what is audited is the law" in capsys.readouterr().err
    assert cli.main(["audit", str(survey / "received" / "card.json"), "--samples", "1000"]) == 0
    assert "another program" not in capsys.readouterr().err
    # Nothing is written over.
    assert received(survey) == 1
    assert "received" in capsys.readouterr().err


def test_noise_that_the_records_do_not_have_is_noted(survey, capsys):
    text = (survey / "noise.toml").read_text().replace("epsilon = 5.0", "epsilon = 0.5")
    (survey / "noise.toml").write_text(text)
    assert received(survey, "--json") == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["records_fit_card"] is False
    assert f"do not fit the noise that {survey / 'noise.toml'} describes: age (" in err


def test_a_description_that_is_mistyped_writes_nothing(survey, capsys):
    text = (survey / "noise.toml").read_text().replace('"laplace"', '"lapalce"')
    (survey / "noise.toml").write_text(text)
    assert received(survey) == 1
    assert "columns.age.noise='lapalce' is not known" in capsys.readouterr().err
    assert not (survey / "received").exists()


def test_a_folder_may_have_no_target(survey, capsys):
    (survey / "noise.toml").write_text('[columns]\nage = { noise = "laplace", scale = 8.0 }\n')
    assert received(survey) == 0
    assert "target" not in capsys.readouterr().out


def test_it_is_said_that_a_table_is_no_folder(survey, capsys):
    assert cli.main(["fit", str(survey / "survey.csv"), "--loss", "logistic"]) == 1
    assert "symdebias receive makes one" in capsys.readouterr().err


def test_labels_that_are_whole_numbers_are_called_as_they_were_written(tmp_path, capsys):
    rng = np.random.default_rng(0)
    x = rng.normal(size=2_000)
    y = (rng.random(2_000) < 1 / (1 + np.exp(-x))).astype(int)
    lines = [
        f"{one!r},{label}" for one, label in zip((x + rng.laplace(scale=0.5, size=2_000)).tolist(), y, strict=True)
    ]
    (tmp_path / "survey.csv").write_text("\n".join(["x,ill", *lines]) + "\n")
    (tmp_path / "noise.toml").write_text(
        '[columns]\nx = { noise = "laplace", scale = 0.5 }\n[target]\nname = "ill"\nnoise = "none"\n'
        "categories = [0, 1]\n"
    )
    assert received(tmp_path) == 0
    fit, out = str(tmp_path / "fit.npz"), tmp_path / "out.csv"
    assert cli.main(["fit", str(tmp_path / "received"), "--loss", "logistic", "--save", fit]) == 0
    assert "ill: -1 is 0, +1 is 1\n" in capsys.readouterr().out
    assert cli.main(["predict", fit, str(tmp_path / "survey.csv"), "--out", str(out)]) == 0
    header, *rows = out.read_text().splitlines()
    assert header.startswith("prediction,chance of 0,chance of 1,")
    assert {row.split(",")[0] for row in rows} == {"0", "1"}
