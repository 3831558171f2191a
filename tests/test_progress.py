"""Bars of long work: each public function that has them draws one where it is asked to, and says what to install."""

import argparse
import sys

import numpy as np
import pytest

import symdebias as sd
from symdebias import _progress
from symdebias.exceptions import MissingDependencyError
from symdebias.interfaces import cli

RELEASE = sd.Release(sd.GaussianMechanism.from_scale(0.1))


@pytest.fixture(scope="module")
def noised():
    x = np.random.default_rng(0).normal(size=(90, 1))
    return RELEASE.privatize(x, x[:, 0], random_state=0)


def long_work(noised):
    loss = sd.losses.least_squares()
    half = {"half": lambda X, y: [0.5], "one": lambda X, y: [1.0]}
    population = sd.planning.Population.guess([0.5], family="normal", size=90)
    laplace = sd.LaplaceMechanism(epsilon=1.0, bounds=(0, 1))
    return {
        "record": lambda **more: sd.m_estimate(sd.debias(loss, RELEASE), noised.X, noised.y, **more),
        "fit": lambda **more: sd.evaluation.cross_validate(
            half, noised.X, noised.y, release=RELEASE, metric="squared_error", random_state=0, **more
        ),
        " fit": lambda **more: sd.literature.simex(
            loss, RELEASE, noised.X, noised.y, repeats=2, random_state=0, **more
        ),
        "probe": lambda **more: sd.checks.check_guarantee(laplace, samples=1_000, method="exact", **more),
        "release": lambda **more: sd.plan(
            loss, population, epsilon=4.0, n=1_000, target="public", mechanisms=["gaussian"], **more
        ),
    }


@pytest.mark.in_turn
@pytest.mark.filterwarnings("ignore::symdebias.exceptions.VarianceWarning")
@pytest.mark.parametrize(
    ("unit", "counted"),
    [("record", "record"), ("fit", "10.0/10.0"), (" fit", "9.00/9.00"), ("probe", "3.00/3.00"), ("release", "release")],
)
def test_a_bar_is_drawn_where_it_is_asked_for(unit, counted, noised, capsys, monkeypatch):
    work = long_work(noised)[unit]
    work()
    assert capsys.readouterr().err == ""
    work(progress=True)
    assert counted in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "tqdm", None)
    with pytest.raises(MissingDependencyError, match=r'pip install "symdebias\[progress\]"'):
        work(progress=True)


def test_a_watched_fit_is_the_same_fit(noised, capsys):
    corrected = sd.debias(sd.losses.exponential(), sd.Release(sd.GaussianMechanism.from_scale(0.1)))
    y = np.sign(noised.y)
    one, other = (sd.m_estimate(corrected, noised.X, y, l2=0.5, progress=shown) for shown in (False, True))
    assert one.theta.tobytes() == other.theta.tobytes()


@pytest.mark.parametrize("json", [False, True])
@pytest.mark.parametrize("terminal", [False, True])
@pytest.mark.parametrize("variable", ["", "off"])
def test_commands_show_bars_on_a_terminal_that_wants_them(json, terminal, variable, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    monkeypatch.setenv("SYMDEBIAS_PROGRESS", variable)
    assert cli.watched(argparse.Namespace(json=json)) == (terminal and not json and not variable)
    monkeypatch.setitem(sys.modules, "tqdm", None)
    monkeypatch.setattr(_progress.importlib.util, "find_spec", lambda name: None)
    assert not cli.watched(argparse.Namespace(json=json))
