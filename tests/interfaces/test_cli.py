import sys

import numpy as np
import pytest

from symdebias.exceptions import MissingDependencyError
from symdebias.interfaces import cli, datasets, demo, plotting


@pytest.fixture
def small(monkeypatch):
    """The demonstration on few records."""

    def problems(data):
        return [lambda: demo.synthetic_problem(2, 2.0, records=3000)]

    monkeypatch.setattr(demo, "problems", problems)


def test_the_demo_prints_a_table_and_draws_a_picture(small, tmp_path, capsys):
    picture = tmp_path / "curves.png"
    assert cli.main(["demo", "--output", str(picture)]) == 0
    printed = capsys.readouterr().out
    for curve in demo.CURVES:
        assert curve in printed
    assert str(picture) in printed
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_missing_output_folder_is_said_before_the_work(tmp_path, capsys):
    assert cli.main(["demo", "--output", str(tmp_path / "none" / "a.png")]) == 1
    assert "does not exist" in capsys.readouterr().err


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
    (tmp_path / "adult.data").write_text(RECORD.format(sex="Male", income="<=50K") + "\n\n")
    (tmp_path / "adult.test").write_text("|1x3 Cross validator\n" + RECORD.format(sex="Female", income=">50K.") + "\n")
    data = datasets.adult(tmp_path)
    np.testing.assert_array_equal(data.X, [[39, 13, 40, 1], [39, 13, 40, -1]])
    np.testing.assert_array_equal(data.y, [-1, 1])
    assert data.columns == ("age", "education-num", "hours-per-week", "sex")


def test_a_broken_line_is_named(tmp_path):
    (tmp_path / "adult.data").write_text("1, 2, 3\n")
    (tmp_path / "adult.test").write_text("")
    with pytest.raises(ValueError, match=r"adult\.data, line 1"):
        datasets.adult(tmp_path)


def test_adult_as_it_is(data_folder):
    data = datasets.adult(data_folder)
    assert data.X.shape == (48_842, 4)
    assert np.mean(data.y == 1) == pytest.approx(0.2393, abs=1e-4)


@pytest.mark.parametrize(("module", "extra", "call"), [
    ("sklearn.datasets", "sklearn", lambda: datasets.synthetic(2, 100)),
    ("matplotlib.figure", "plot", lambda: plotting.excess_risk([])),
])  # fmt: skip
def test_missing_packages_say_what_to_install(module, extra, call, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingDependencyError, match=rf'pip install "symdebias\[{extra}\]"'):
        call()


def test_synthetic_data_lie_in_the_cube():
    data = datasets.synthetic(3, 500)
    assert np.abs(data.X).max() == 1.0
    assert set(data.y) == {-1.0, 1.0}
