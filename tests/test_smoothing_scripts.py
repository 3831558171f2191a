"""The examples of Laplacian smoothing run as they are called, on little data, and train as they say."""

import runpy
import warnings
from pathlib import Path

import numpy as np
import pytest

from symdebias.privacy import published_noise

pytestmark = pytest.mark.newest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def script():
    return runpy.run_path(str(ROOT / "examples" / "laplacian_smoothing.py"))


def test_simulated_shares_are_those_of_the_formulas(script):
    """The standard errors of 40 draws of 1,000 entries are .7% and 1.2%; 6% is five of the larger one."""
    lines = [line.split() for line in script["shares_report"](1000, 40)]
    lines = [cells for cells in lines if cells[:1] in (["gamma"], ["beta"])]
    rows = {name: [float(cell.strip("()")) for cell in cells] for name, *cells in lines}
    assert rows["gamma"][::2] == [0.447, 0.333, 0.277, 0.243, 0.218]
    assert rows["beta"][::2] == [0.268, 0.185, 0.149, 0.128, 0.114]
    for numbers in rows.values():
        np.testing.assert_allclose(numbers[1::2], numbers[::2], rtol=0.06)


def test_the_noise_is_that_of_the_theorem_with_another_constant(script):
    """4 in the place of 20, to the four digits of the source, at 60,000 records and 50 epochs of batches of 128."""
    for epsilon, noise in script["NOISE"].items():
        theorem = published_noise(epsilon, 1e-5, records=60_000, batch_size=128, steps=23_438).scale
        assert round(theorem * np.sqrt(4 / 20), 4) == pytest.approx(noise, abs=1.01e-4)


@pytest.mark.parametrize("name", ["softmax regression", "support vector machine"])
def test_slopes_are_those_of_the_values(script, name):
    slopes, values = script["LOSSES"][name]
    rng = np.random.default_rng(0)
    scores, y = rng.normal(size=(6, 4)), np.array([0, 1, 2, 3, 0, 1])
    for k in range(4):
        shift = 1e-6 * np.eye(4)[k]
        found = (values(scores + shift, y) - values(scores - shift, y)) / 2e-6
        np.testing.assert_allclose(found, slopes(scores, y)[:, k], atol=1e-8)


def test_training_learns_and_noise_hurts(script):
    """Digits in 2 passes: above 80% without noise, where the most noise leaves less than 60% (10% is guessing)."""
    images, loss = script["digits"](), script["LOSSES"]["softmax regression"]
    options = {"clipped": "mean", "passes": 2, "batches": 12, "seed": 0}
    clear, noised = (script["train"](images, loss, noise, 0.0, **options).accuracy for noise in (0.0, 0.3471))
    assert clear > 80
    assert noised < 60
    # The mean of gradients that are all shortened is shorter: the first step, of size 2, overshoots by less.
    by_mean, by_record = (
        script["train"](images, loss, 0.0, 0.0, **options | {"clipped": clipped}, watch=3).losses
        for clipped in ("mean", "record")
    )
    assert [step for step, *_ in by_mean] == [step for step, *_ in by_record] == [1, 4, 24]
    assert by_mean[0][1] > 1.5 * by_record[0][1]
    assert by_mean[2][1] < by_record[2][1] < 1


@pytest.mark.exhaustive
def test_laplacian_smoothing_is_called_as_it_says(script, tmp_path, capsys):
    script["main"](["--small", "--runs", "1", "--pictures", str(tmp_path)])
    shown = capsys.readouterr().out
    assert "digits, softmax regression, gradients of records shortened to 1, 1 runs" in shown
    assert "digits, support vector machine, mean gradients shortened to 1, 1 runs" in shown
    assert "eps 0.1, sigma 3" in shown
    assert "published" not in shown
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"smoothing_shares.png", "smoothing_accuracy.png", "smoothing_losses.png"}


def test_mnist_is_read_for_laplacian_smoothing(script, data_folder):
    images = script["mnist"](Path(data_folder))
    assert (images.X.shape, images.other_X.shape, images.X.dtype) == ((8000, 784), (2000, 784), np.float32)
    assert abs(images.X.mean()) < 0.05
    assert abs(images.X.std() - 1) < 0.05


def test_the_network_says_what_it_needs(monkeypatch, capsys):
    network = runpy.run_path(str(ROOT / "examples" / "smoothed_network.py"))
    monkeypatch.setattr(network["importlib"].util, "find_spec", lambda name: None)
    with pytest.raises(SystemExit):
        network["main"](["--small"])
    assert 'pip install "symdebias[torch]" opacus' in capsys.readouterr().err


@pytest.mark.needs("torch", "opacus")
def test_the_network_is_trained_as_it_says(tmp_path, capsys):
    network = runpy.run_path(str(ROOT / "examples" / "smoothed_network.py"))
    network["main"](["--small", "--picture", str(tmp_path / "picture.png")])
    shown = capsys.readouterr().out
    assert "digits: 1,437 images to train on, 360 to test on, 2 epochs of batches of 128" in shown
    assert shown.count("  sigma") == 2
    assert "sigma 1 leaves 0.518 of the norm of noise, and 0.6" in shown
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
    # The same records and the same noise give the same run, and another strength another one.
    options = {"scope": "vector", "step": 0.5, "epochs": 1, "seed": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of hooks, by Opacus
        found = [network["trained"](network["digits"](), 1.0, sigma, **options) for sigma in (0.0, 0.0, 3.0)]
    assert found[0] == found[1] != found[2]
