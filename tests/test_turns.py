"""Every exhaustive test has its turn, and every worker of a run the same one."""

import os
import subprocess

import pytest
import turns
from turns import PARTS, VARIABLE, chosen, is_files_turn, part_of, part_of_commit


def test_each_test_belongs_to_one_part_and_no_part_is_empty():
    parts = [part_of(f"tests/test_crossed.py::test_exact[{number}]") for number in range(200)]
    assert set(parts) == set(range(PARTS))
    assert parts == [part_of(f"tests/test_crossed.py::test_exact[{number}]") for number in range(200)]


@pytest.mark.parametrize("share", [2, 3])
def test_each_file_has_its_turn(share):
    files = [f"tests/test_{number}.py" for number in range(50)]
    turn = {file: {part % share for part in range(PARTS) if is_files_turn(file, part, share)} for file in files}
    assert all(len(parts) == 1 for parts in turn.values())
    assert len(set().union(*turn.values())) == share


def test_a_share_of_the_cases_runs_each_time_and_all_in_turn():
    cases = [f"tests/test_forward.py::test_variances[{number}]" for number in range(160)]
    runs = [{case for case in cases if turns.is_cases_turn(case, part)} for part in range(PARTS)]
    assert all(len(cases) / (2 * turns.SHARE) < len(run) < 2 * len(cases) / turns.SHARE for run in runs)
    assert set().union(*runs) == set(cases)


@pytest.mark.in_turn
def test_commits_take_turns(tmp_path):
    assert part_of_commit(tmp_path) == 0
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b.c"]
    subprocess.run([*git, "init", "-q"], check=True)
    assert part_of_commit(tmp_path) == 0
    # A fixed date: these commits have the same hashes wherever they are made.
    date = {"GIT_AUTHOR_DATE": "2000-01-01T00:00:00Z", "GIT_COMMITTER_DATE": "2000-01-01T00:00:00Z"}
    seen = set()
    for number in range(80):
        command = [*git, "commit", "-q", "--allow-empty", "-m", str(number)]
        subprocess.run(command, check=True, env={**os.environ, **date})
        seen.add(part_of_commit(tmp_path))
    # Twice as many commits as parts leave an eighth of them out on average.
    assert len(seen) >= 0.8 * PARTS


def test_a_setting_goes_before_the_commit(monkeypatch):
    monkeypatch.setenv(VARIABLE, "7")
    assert chosen() == 7
    monkeypatch.delenv(VARIABLE)
    monkeypatch.setattr(turns, "part_of_commit", lambda root: 4)
    assert chosen() == 4
    # What a worker of this run would find.
    assert os.environ[VARIABLE] == "4"


@pytest.mark.parametrize("setting", ["", str(PARTS), "-1", "all"])
def test_what_is_no_part_is_refused(monkeypatch, setting):
    monkeypatch.setenv(VARIABLE, setting)
    with pytest.raises(ValueError, match="is no part"):
        chosen()


def test_the_run_of_this_test_has_its_part(request):
    """Its exhaustive tests are marked, no other is, and where turns were asked for, no other is selected."""
    exhaustive = [item for item in request.session.items if item.get_closest_marker("exhaustive")]
    for item in exhaustive:
        assert (item.get_closest_marker("turn") is not None) == (part_of(item.nodeid) == chosen())
    if "turn" in request.config.option.markexpr:
        assert all(item.get_closest_marker("turn") for item in exhaustive)
