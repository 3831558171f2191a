"""The readers of strangers' text under a fixed number of fuzzed inputs; the watch sees what they may not do."""

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import symdebias as sd

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import fuzz


@pytest.mark.parametrize("name", [*fuzz.READERS])
def test_a_fixed_number_of_inputs_is_read_or_refused_and_nothing_else(name):
    report = fuzz.fuzz(fuzz.READERS[name], 1_200, seed=0)
    assert report.findings == []
    assert report.inputs == 1_200
    # It reaches what lies behind the first refusals, and inputs that do are mutated further.
    assert report.accepted > 40
    assert report.kept > 5


@pytest.mark.parametrize("role", ["features", "target"])
def test_a_card_of_noise_that_was_never_made_runs_no_code(role):
    mechanism = sd.StaircaseMechanism(1.0, (0.0, 1.0), gamma=0.25)
    release = sd.Release(features=mechanism) if role == "features" else sd.Release(target=mechanism)
    card = release.to_json().replace("0.25", "0.2718281")
    report = fuzz.fuzz(replace(fuzz.READERS["cards"], seeds=(card,)), 1, seed=0)
    assert report.findings == []
    assert report.accepted == 1


def runs_code(text):
    os.system("true")


def writes(text):
    with open(os.devnull, "w"):  # noqa: PTH123
        pass


def evaluates(text):
    exec("1")


def raises_another_error(text):
    raise KeyError(text)


def fails_its_own_claim(text):
    raise AssertionError


def takes_long(text):
    while True:
        pass


@pytest.mark.parametrize(
    ("read", "said"),
    [
        (runs_code, "os.system"),
        (writes, "open w"),
        (evaluates, "exec <string>"),
        (raises_another_error, "KeyError"),
        (fails_its_own_claim, "AssertionError"),
        (takes_long, "_TooLong"),
    ],
)
def test_a_reader_that_does_what_it_may_not_is_found(read, said, monkeypatch):
    monkeypatch.setattr(fuzz, "HANG", 0.2)
    reader = fuzz.Reader("planted", ("u",), lambda rng: "u", read, sd.ExpressionError)
    report = fuzz.fuzz(reader, 1, seed=0)
    ((found, text),) = report.findings
    assert said in found
    assert text == "u"


def test_what_the_python_does_between_inputs_is_not_watched():
    reader = fuzz.Reader("quiet", ("u",), lambda rng: "u", lambda text: None, sd.ExpressionError)
    assert fuzz.fuzz(reader, 30, seed=0).findings == []
    os.system("true")
    assert fuzz.fuzz(reader, 30, seed=0).findings == []


def test_the_same_seed_gives_the_same_inputs():
    first, second = (fuzz.fuzz(fuzz.READERS["cards"], 60, seed=4) for _ in range(2))
    assert (first.kinds, first.accepted) == (second.kinds, second.accepted)
