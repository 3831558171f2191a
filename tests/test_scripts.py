"""Examples and benchmarks run as they are called, on little data; their figures are theirs, not these tests'."""

import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from symdebias.interfaces import demo

ROOT = Path(__file__).parent.parent


def test_the_example_of_the_mean_model():
    report = runpy.run_path(str(ROOT / "examples" / "mean_model.py"))["mean_model_report"]
    text = report(demo.synthetic_problem(2, 2.0, records=20_000), draws=5)
    assert "IWP-SGD on noised records" in text


def test_the_example_of_pure_and_approximate_privacy():
    report = runpy.run_path(str(ROOT / "examples" / "pure_or_approximate.py"))["report"]
    text = report(20_000, 2)
    assert "log loss, Laplace" in text
    assert "(2, 0)-differential privacy" in text


def test_known_parameters_are_found():
    """Poisson regression: within 4 standard errors (false-alarm rate 2e-4 at a fixed seed), uncorrected far off."""
    script = runpy.run_path(str(ROOT / "examples" / "known_parameters.py"))
    text, off, naive = script["report"](script["poisson"](100_000))
    assert abs(off).max() < 4
    assert abs(naive).max() > 20
    assert "uncorrected" in text


def test_the_example_of_clipping():
    """The corrected fit agrees with the clipped one, and not with the truth, where many records are clipped.

    Ten standard errors lie between them; four are allowed (false-alarm rate 2e-4 at a fixed seed).
    """
    script = runpy.run_path(str(ROOT / "examples" / "clipping_bias.py"))
    table = script["rows"](50_000)
    harsh = next(row for row in table if row.radius == 1.0)
    assert 0.5 < harsh.share < 0.7
    assert abs(harsh.corrected - harsh.clipped).max() < 4 * harsh.errors.max()
    assert harsh.corrected[0] - 1 > 4 * harsh.errors[0]
    assert table[-1].share < 0.001
    assert "noise sd" in script["report"](table)


def test_the_best_order_and_its_picture(tmp_path):
    script = runpy.run_path(str(ROOT / "examples" / "bias_against_variance.py"))
    text = script["report"]([4.0], tmp_path / "picture.png")
    assert "best order by bias 3" in text
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.exhaustive
def test_the_methods_that_surrogates_are_compared_with():
    """Every method of the benchmark gives two parameters; those that correct are nearer than the naive one."""
    script = runpy.run_path(str(ROOT / "benchmarks" / "surrogates.py"))
    theta, noised = script["simulated"](3.0, 0.44, 20_000, 0)
    off = {name: abs(method(noised) - theta).max() for name, method in script["METHODS"].items()}
    assert all(off[name] < off["naive"] / 2 for name in ("series, K = 3", "conditional score", "default (two-stage)"))
    assert off["SIMEX"] < off["naive"]


@pytest.mark.parametrize(
    ("script", "options", "expected"),
    [
        (
            "sgd_kernel.py",
            ["--records", "5000", "--repeats", "1", "--columns", "2"],
            "SGDClassifier, one pass / shuffled",
        ),
        pytest.param("evaluation.py", ["--draws", "2"], "one standard error", marks=pytest.mark.exhaustive),
        pytest.param("start_up.py", [], "second process: import + train 1,000 rows", marks=pytest.mark.exhaustive),
        pytest.param(
            "m_estimation.py",
            ["--n", "5000", "--columns", "2", "--repeats", "1"],
            "m_estimate: Poisson",
            marks=pytest.mark.exhaustive,
        ),
        pytest.param(
            "intervals.py",
            ["--replicates", "100", "--part", "least squares", "--processes", "1"],
            "p 10, target noise 1",
            marks=pytest.mark.exhaustive,
        ),
        pytest.param(
            "mechanisms.py",
            ["--records", "2000", "--repeats", "1"],
            "mixed, 6 columns, exponential",
            marks=pytest.mark.exhaustive,
        ),
    ],
)
def test_benchmarks_run(script, options, expected):
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / script), *options], capture_output=True, text=True, check=True
    )
    assert expected in done.stdout


def test_the_benchmark_of_label_randomizers():
    """The published programme and ours have one optimum."""
    script = runpy.run_path(str(ROOT / "benchmarks" / "label_randomizers.py"))
    labels, prior = np.arange(6.0), script["skewed"](6)
    outputs = script["mesh"](labels, 1.0, 13)
    value, _ = script["pairwise"](labels, prior, 1.0, outputs, 60.0)
    best, _ = script["ours"](labels, prior, 1.0, outputs, 1)
    assert best.noisy_label_loss == pytest.approx(value, rel=1e-7)
