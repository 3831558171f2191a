"""Kernels ahead of the first fit."""

import json

import numpy as np
import pytest
import tiers

import symdebias as sd
from symdebias.codegen import cache
from symdebias.codegen.kernels import Kernels
from symdebias.interfaces import cli

NOISE = sd.GaussianMechanism.from_scale(0.05)
LABELS = sd.RandomizedResponse(epsilon=6.0)
MIXED = sd.Release(
    {"x0": NOISE, "x1": sd.LaplaceMechanism.from_scale(0.05), "x2": sd.RandomizedResponse(6.0, (-1, 1))},
    LABELS,
    fit_intercept=True,
)
CASES = {
    "closed form": (sd.losses.exponential(), sd.Release(NOISE, LABELS)),
    "surrogate": (sd.losses.logistic(), sd.Release(NOISE, LABELS, fit_intercept=True)),
    "surrogate, mixed": (sd.losses.logistic(), MIXED),
    "quadratic": (sd.losses.least_squares(), sd.Release(NOISE, NOISE)),
    "point masses": (sd.losses.huber(), sd.Release(NOISE, NOISE)),
    "surrogate, sphere": (sd.losses.logistic(), sd.Release(sd.SphericalCapMechanism(20.0, radius=2.0), "margin")),
    "no noise in columns": (sd.losses.logistic(), sd.Release(target=LABELS, noiseless=("a", "b", "c"))),
}


@pytest.fixture
def asked(monkeypatch):
    """The keys of the kernels that were asked for; none is compiled."""
    found = {}

    def compile_it(key, source):
        found.setdefault(key, source.name)
        return tiers.Tiered(source, lambda: pytest.fail("more records than Python reads"))

    monkeypatch.setattr(cache, "_compile", compile_it)
    # What was compiled for other tests is asked for again.
    for name in ("mean_gradient", "mean_derivatives", "sgd_pass"):
        getattr(Kernels, name).cache_clear()
    return found


@pytest.mark.in_turn
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("solver", ["m_estimate", "sgd"])
@pytest.mark.parametrize("name", CASES)
def test_a_fit_asks_for_no_other_kernels(name, solver, asked):
    loss, release = CASES[name]
    known = release.number_of_columns
    sd.compile_kernels(sd.debias(loss, release), None if known else 3, solvers=(solver,))
    ahead = dict(asked)
    asked.clear()
    rng = np.random.default_rng(0)
    X = rng.choice([-1.0, 1.0], size=(90, 3))
    X[:, :2] += rng.uniform(-0.5, 0.5, size=(90, 2))
    y = X @ [0.5, -0.5, 0.2] + 0.3 * rng.normal(size=90)
    noised = release.privatize(X, np.where(y > 0, 1, -1) if loss.target_values else y, random_state=0)
    options = {"random_state": 0, "batch_size": 16} if solver == "sgd" else {}
    getattr(sd, solver)(sd.debias(loss, release), noised.X, noised.y, l2=1.0, **options)
    assert asked
    assert {name for key, name in asked.items() if key not in ahead} == set()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.in_turn
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("solver", ["m_estimate", "sgd"])
def test_a_fit_to_many_labels_asks_for_no_other_kernels(solver, asked):
    corrected = sd.debias(
        sd.losses.softmax(18), sd.Release(target=sd.RandomizedResponse(6.0, categories=tuple(range(18))))
    )
    sd.compile_kernels(corrected, 2, solvers=(solver,))
    ahead = dict(asked)
    asked.clear()
    X = np.random.default_rng(0).normal(size=(90, 2))
    options = {"random_state": 0, "batch_size": 30} if solver == "sgd" else {}
    getattr(sd, solver)(corrected, X, np.arange(90) % 18, l2=10.0, **options)
    assert asked
    assert {name for key, name in asked.items() if key not in ahead} == set()
    assert "mean_derivatives" not in ahead.values()


@pytest.mark.in_turn
@pytest.mark.parametrize("solver", ["m_estimate", "sgd"])
@pytest.mark.parametrize("loss", ["logistic", "exponential", "poisson", "least_squares"])
def test_a_fit_with_an_offset_asks_for_no_other_kernels(loss, solver, asked):
    """Offsets of labels are a column more, whose parameter is held; others are targets and weights."""
    declared, is_label = getattr(sd.losses, loss)(), loss in ("logistic", "exponential")
    release = sd.Release(NOISE, LABELS if is_label else None, fit_intercept=True)
    sd.compile_kernels(sd.debias(declared, release), 2, solvers=(solver,), offset=True)
    ahead = dict(asked)
    asked.clear()
    rng = np.random.default_rng(0)
    X, offset = rng.uniform(-0.5, 0.5, size=(90, 2)), rng.uniform(-0.3, 0.3, 90)
    y = np.where(rng.random(90) < 0.5, 1.0, -1.0) if is_label else rng.poisson(1.0, 90).astype(float)
    noised = release.privatize(X, y, random_state=0)
    options = {"random_state": 0, "batch_size": 16} if solver == "sgd" else {}
    getattr(sd, solver)(sd.debias(declared, noised.release), noised.X, noised.y, l2=1.0, offset=offset, **options)
    assert asked
    assert {name for key, name in asked.items() if key not in ahead} == set()


@pytest.mark.in_turn
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("solver", ["m_estimate", "sgd"])
@pytest.mark.parametrize("loss", ["exponential", "least_squares"])
def test_a_fit_with_weights_and_noise_scales_asks_for_no_other_kernels(loss, solver, asked):
    declared = getattr(sd.losses, loss)()
    release = sd.Release(NOISE, LABELS if loss == "exponential" else None, fit_intercept=True)
    corrected = sd.debias(declared, release)
    sd.compile_kernels(corrected, 2, solvers=(solver,), weighted=True, noise_scale=True)
    ahead = dict(asked)
    asked.clear()
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-0.5, 0.5, size=(90, 2)), np.where(rng.random(90) < 0.5, 1.0, -1.0)
    own = {"noise_scale": rng.uniform(0, 0.1, 90), "sample_weight": rng.uniform(1, 2, 90)}
    options = {"random_state": 0, "batch_size": 16} if solver == "sgd" else {}
    getattr(sd, solver)(corrected, X, y, l2=1.0, **own, **options)
    assert asked
    assert {name for key, name in asked.items() if key not in ahead} == set()


def test_a_card_and_a_column_say_what_to_compile(tmp_path, capsys, asked):
    card = tmp_path / "card.json"
    release = sd.Release({"x0": NOISE, "x1": NOISE}, LABELS, noiseless=("year",), fit_intercept=True)
    card.write_text(release.to_json())
    words = ["compile", str(card), "--loss", "logistic", "--processes", "1", "--json"]
    assert cli.main(words) == 0
    plain = set(asked)
    asked.clear()
    capsys.readouterr()
    assert cli.main([*words, "--offset", "year"]) == 0
    assert json.loads(capsys.readouterr().out)["kernels"] == len(asked)
    # The year is a column in both, so that only the pass of steps is another.
    assert sorted(asked[key] for key in set(asked) - plain) == ["sgd_pass"]


@pytest.mark.filterwarnings("ignore")
def test_a_surrogate_that_is_designed_first_takes_two_kernels(asked):
    """The pass of derivatives, by which the pilot goes, and that of steps: what steps learn from is of the first."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 2))
    corrected = sd.debias(sd.losses.logistic(), sd.Release(NOISE, LABELS))
    for weights in (None, rng.uniform(0.5, 1.0, 90)):
        asked.clear()
        sd.sgd(corrected, X, np.where(X[:, 0] > 0, 1, -1), l2=1.0, sample_weight=weights, batch_size=16, random_state=0)
        assert sorted(asked.values()) == ["mean_derivatives", "sgd_pass"]
    asked.clear()
    sd.compile_kernels(corrected, 2, solvers=("sgd",))
    assert sorted(asked.values()) == ["mean_derivatives", "sgd_pass"]


@pytest.mark.in_turn
@pytest.mark.compiled
def test_what_was_compiled_ahead_is_found(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("SYMDEBIAS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "_compiled", {})
    words = ["compile", "--loss", "squared-margin", "--columns", "1", "--processes", "1", "--json"]
    assert cli.main(words) == 0
    first = json.loads(capsys.readouterr().out)
    assert first["compiled"] == first["kernels"] == 3
    assert len(list((tmp_path / "cache").glob("*/kernel.py"))) == 3
    cache._compiled.clear()
    assert cli.main(words[:-1]) == 0
    assert "3 kernels are ready" in (said := capsys.readouterr().out)
    assert "; 0 of them were compiled now" in said


def test_a_card_says_what_to_compile(tmp_path, capsys, asked):
    card = tmp_path / "card.json"
    card.write_text(MIXED.to_json())
    assert cli.main(["compile", str(card), "--loss", "logistic", "--processes", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kernels"] == len(asked)
    # Gradients of records are left by the pass of derivatives, whose Hessian is that of the looked-up waves.
    assert set(asked.values()) == {"mean_derivatives", "sgd_pass"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--columns", "0"], "Write 5, 2-10 or 2,5,20"),
        (["--columns", "5-2"], "Write 5, 2-10 or 2,5,20"),
        (["--columns", "two"], "Write 5, 2-10 or 2,5,20"),
        (["--columns", "101"], "from 1 to 100"),
        (["--processes", "0"], "at least 1"),
        (["none.json", "--loss", "logistic"], "none.json: No such file"),
        (["none.json", "--loss", "logistic", "--columns", "3"], "Leave --columns out"),
        (["none.json", "--loss", "logistic", "--noise", "gaussian"], "Leave --noise out"),
        (["none.json", "--loss", "logistic", "--intercept"], "Leave --intercept out"),
        (["--offset", "year"], "Name the card"),
        (["--columns", ""], "Write 5, 2-10 or 2,5,20"),
        (["none.json"], "--loss was not given"),
    ],
)
def test_what_the_command_refuses(words, said, capsys):
    assert cli.main(["compile", *words]) == 1
    assert said in capsys.readouterr().err


def test_without_a_folder_nothing_is_compiled_ahead(monkeypatch, capsys):
    monkeypatch.setenv("SYMDEBIAS_CACHE", "off")
    assert cli.main(["compile"]) == 1
    assert "Set SYMDEBIAS_CACHE to a folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "Give columns="),
        ({"columns": []}, "columns is empty"),
        ({"columns": 2.5}, "columns must be an integer"),
        ({"columns": True}, "columns must be an integer"),
        ({"columns": "2"}, "columns must be an integer"),
        ({"columns": [2, 0]}, "columns=0 is too small"),
        ({"columns": 2, "solvers": "sgd"}, "Name some of"),
        ({"columns": 2, "solvers": ("newton",)}, "Name some of"),
        ({"columns": 2, "solvers": ()}, "Name some of"),
    ],
)
def test_what_the_function_refuses(given, said):
    with pytest.raises((TypeError, ValueError), match=said):
        sd.compile_kernels(sd.debias(*CASES["closed form"]), **given)


def test_an_offset_needs_a_place():
    with pytest.raises(ValueError, match="features and target in one vector"):
        sd.compile_kernels(sd.debias(*CASES["surrogate, sphere"]), 3, offset=True)
    with pytest.raises(ValueError, match="score"):
        sd.compile_kernels(sd.debias(sd.losses.softmax(3), sd.Release(noiseless=("a", "b"))), offset=True)


def test_what_is_no_offset_is_refused(tmp_path, capsys):
    card = tmp_path / "card.json"
    card.write_text(MIXED.to_json())
    for column, said in (("x0", "a column with noise"), ("year", "no column of these records")):
        assert cli.main(["compile", str(card), "--loss", "logistic", "--offset", column]) == 1
        assert said in capsys.readouterr().err


def test_other_losses_and_widths_are_refused():
    with pytest.raises(TypeError, match=r"got Loss. Pass debias\("):
        sd.compile_kernels(sd.losses.logistic(), 2)
    with pytest.raises(ValueError, match="the release has 3"):
        sd.compile_kernels(sd.debias(sd.losses.logistic(), MIXED), [3, 4])
