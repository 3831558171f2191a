"""Does Laplacian smoothing help a private convolutional network? In the spirit of Wang et al. 2019, Figures 5 to 7.

    python examples/smoothed_network.py [--mnist FOLDER] [--budgets 1 2 4] [--sigmas 0 0.1 0.5 1] [--scope tensor]
        [--step 0.5] [--epochs 20] [--runs 3] [--small] [--picture network.png]

A small network on scikit-learn's digits, or on MNIST from a folder with its files t10k-images-idx3-ubyte.gz and
t10k-labels-idx1-ubyte.gz. DP-SGD is that of Opacus: gradients of single records, clipped and noised. DP-LSSGD is the
same with `symdebias.interfaces.torch.LaplacianSmoothing` around the optimizer inside, which smooths what was noised.
Batches are Poisson samples, the noise is calibrated by symdebias (neighbours with or without a record, as Opacus
counts), and the runs of a seed share records and noise between the strengths.

It needs PyTorch and Opacus: pip install "symdebias[torch]" opacus. The seeds are for the comparison: whoever knows them
can subtract the noise. The images are public.
"""

import argparse
import gzip
import importlib
import importlib.util
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from symdebias import _optional
from symdebias.interfaces import plotting
from symdebias.interfaces.torch import LaplacianSmoothing
from symdebias.privacy import calibrate_noise_multiplier
from symdebias.solvers import laplacian_smoothing, smoothing_beta

DELTA, BATCH, CLIP = 1e-5, 128, 1.0
# Of the run without privacy, whose gradients are not clipped.
CLEAR_STEP = 0.1
COLOURS = ("#222222", "#0072b2", "#009e73", "#d55e00", "#cc79a7")
Images = tuple[str, np.ndarray, np.ndarray, int]


def digits() -> Images:
    """Return a name, images of shape (n, 1, 8, 8) in [0, 1], their classes, and how many come first to train on."""
    found = _optional.require("sklearn.datasets", extra="sklearn").load_digits()
    order = np.random.default_rng(0).permutation(len(found.target))
    return "digits", found.images[order][:, None] / 16, found.target[order], 1437


def mnist(folder: Path) -> Images:
    """Return the same for MNIST's test files, images of shape (n, 1, 28, 28)."""
    pixels = np.frombuffer(gzip.decompress((folder / "t10k-images-idx3-ubyte.gz").read_bytes()), np.uint8, offset=16)
    labels = np.frombuffer(gzip.decompress((folder / "t10k-labels-idx1-ubyte.gz").read_bytes()), np.uint8, offset=8)
    order = np.random.default_rng(0).permutation(len(labels))
    return "MNIST", pixels.reshape(-1, 1, 28, 28)[order] / 255, labels[order].astype(int), 8000


def network(nn: Any, side: int) -> Any:
    """Return two convolutions and a linear layer."""
    if side == 8:
        layers = [nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
        layers += [nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
        return nn.Sequential(*layers, nn.Flatten(), nn.Linear(128, 10))
    layers = [nn.Conv2d(1, 16, 8, stride=2, padding=3), nn.ReLU(), nn.MaxPool2d(2, 1)]
    layers += [nn.Conv2d(16, 32, 4, stride=2), nn.ReLU(), nn.MaxPool2d(2, 1)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(512, 10))


def trained(
    images: Images, multiplier: float, sigma: float, *, scope: str, step: float, epochs: int, seed: int
) -> list[float]:
    """Return the test accuracy in percent after each epoch; a multiplier of 0 is without noise and clipping."""
    torch, opacus = (importlib.import_module(name) for name in ("torch", "opacus"))
    _, pixels, classes, count = images
    X, y = torch.from_numpy(pixels).float(), torch.from_numpy(classes)
    torch.manual_seed(seed)
    draws, noise = (torch.Generator().manual_seed(2 * seed + one) for one in (0, 1))
    model = network(torch.nn, X.shape[-1])
    optimizer = torch.optim.SGD(model.parameters(), lr=step)
    if sigma:
        optimizer = LaplacianSmoothing(optimizer, sigma, scope=scope)
    if multiplier:
        model = opacus.GradSampleModule(model)
        optimizer = opacus.optimizers.DPOptimizer(
            optimizer, noise_multiplier=multiplier, max_grad_norm=CLIP, expected_batch_size=BATCH, generator=noise
        )
    found = []
    for _ in range(epochs):
        for _ in range(round(count / BATCH)):
            chosen = torch.nonzero(torch.rand(count, generator=draws) < BATCH / count)[:, 0]
            optimizer.zero_grad()
            # Opacus takes the loss for a mean over the records that were drawn, and divides by those expected.
            torch.nn.functional.cross_entropy(model(X[chosen]), y[chosen]).backward()
            optimizer.step()
        with torch.no_grad():
            found.append(100 * float((model(X[count:]).argmax(dim=1) == y[count:]).float().mean()))
    return found


def left(images: Images, sigma: float) -> tuple[float, float]:
    """Return which shares smoothing leaves of the norm of noise, and of that of the first mean gradient."""
    torch = importlib.import_module("torch")
    torch.manual_seed(0)
    model = network(torch.nn, images[1].shape[-1])
    X, y = torch.from_numpy(images[1][: images[3]]).float(), torch.from_numpy(images[2][: images[3]])
    torch.nn.functional.cross_entropy(model(X), y).backward()
    gradients = [one.grad.double().numpy() for one in model.parameters()]
    kept = [laplacian_smoothing(one, sigma) for one in gradients]
    noise = sum(one.size * smoothing_beta(one.size, sigma) for one in gradients) / sum(one.size for one in gradients)
    before, after = (sum(float(np.sum(one**2)) for one in ones) for ones in (gradients, kept))
    return float(np.sqrt(noise)), float(np.sqrt(after / before))


def experiment(
    images: Images, budgets: Sequence[float], sigmas: Sequence[float], runs: int, **options: Any
) -> tuple[np.ndarray, list[float]]:
    """Return accuracies of shape (budgets, strengths, runs, epochs), and the noise multipliers."""
    count, epochs = images[3], options["epochs"]
    steps = epochs * round(count / BATCH)
    multipliers = [
        calibrate_noise_multiplier(epsilon, DELTA, BATCH / count, steps, adjacency="add-remove") for epsilon in budgets
    ]
    found = [
        [[trained(images, z, sigma, seed=seed, **options) for seed in range(runs)] for sigma in sigmas]
        for z in multipliers
    ]
    return np.array(found), multipliers


def table(
    found: np.ndarray, budgets: Sequence[float], sigmas: Sequence[float], multipliers: Sequence[float]
) -> list[str]:
    """Return means and deviations at the end, and what smoothing gains in runs with the same random numbers."""
    last = found[..., -1]

    def row(name: str, cells: Sequence[str]) -> str:
        return f"  {name:<22}" + "".join(f"{cell:>16}" for cell in cells)

    def deviation(values: np.ndarray) -> float:
        return float(values.std(ddof=1)) if len(values) > 1 else float("nan")

    lines = [row("accuracy in % (sd)", [f"epsilon {epsilon:g}" for epsilon in budgets])]
    lines.append(row("noise multiplier", [f"{z:.2f}" for z in multipliers]))
    for j, sigma in enumerate(sigmas):
        lines.append(row(f"sigma {sigma:g}", [f"{one.mean():.1f} ({deviation(one):.1f})" for one in last[:, j]]))
    for j, sigma in enumerate(sigmas[1:], 1):
        gains = last[:, j] - last[:, 0]
        cells = [f"{one.mean():+.1f} ({deviation(one) / np.sqrt(len(one)):.1f})" for one in gains]
        lines.append(row(f"gain of {sigma:g} (se)", cells))
    return lines


def picture(found: Mapping[str, np.ndarray], budgets: Sequence[float], sigmas: Sequence[float]) -> Any:
    """Draw the accuracy along the epochs, a row for each data set and a panel for each budget."""
    figures = _optional.require("matplotlib.figure", extra="plot")
    figure = figures.Figure(figsize=(3.3 * len(budgets), 3.1 * len(found)), layout="constrained")
    grid = figure.subplots(len(found), len(budgets), squeeze=False, sharey="row")
    for row, (name, values) in zip(grid, found.items(), strict=True):
        for panel, epsilon, curves in zip(row, budgets, values, strict=True):
            for sigma, colour, runs in zip(sigmas, COLOURS, curves, strict=False):
                epochs = np.arange(1, runs.shape[1] + 1)
                panel.plot(epochs, runs.mean(axis=0), color=colour, linewidth=1.4, label=f"σ = {sigma:g}")
                panel.fill_between(epochs, runs.min(axis=0), runs.max(axis=0), color=colour, alpha=0.12, linewidth=0)
            panel.set_title(f"{name}, ε = {epsilon:g}", fontsize=10)
            panel.grid(alpha=0.25)
            panel.set_xlabel("epochs")
        row[0].set_ylabel("test accuracy in %")
    grid[0, -1].legend(fontsize=8)
    return figure


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mnist", type=Path, metavar="FOLDER")
    parser.add_argument("--budgets", type=float, nargs="+", default=[1.0, 2.0, 4.0])
    parser.add_argument("--sigmas", type=float, nargs="+", default=[0.0, 0.1, 0.5, 1.0])
    parser.add_argument("--scope", choices=("tensor", "vector"), default="tensor")
    parser.add_argument("--step", type=float, default=0.5)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--small", action="store_true", help="two epochs of one budget: to see whether it runs")
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args(arguments)
    missing = [name for name in ("torch", "opacus") if importlib.util.find_spec(name) is None]
    if missing:
        parser.error(f'{" and ".join(missing)} not installed. Do: pip install "symdebias[torch]" opacus')
    if options.small:
        options.budgets, options.sigmas, options.epochs, options.runs = [4.0], [0.0, 1.0], 2, 2
    images = digits() if options.mnist is None else mnist(options.mnist)
    size = {"scope": options.scope, "step": options.step, "epochs": options.epochs}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's and Opacus's, about their own internals
        found, multipliers = experiment(images, options.budgets, options.sigmas, options.runs, **size)
        clear = trained(images, 0.0, 0.0, seed=0, **size | {"step": CLEAR_STEP})[-1]
    print(
        f"{images[0]}: {images[3]:,} images to train on, {len(images[2]) - images[3]:,} to test on, {options.epochs} "
        f"epochs of batches of {BATCH}, delta {DELTA:g}, add-remove, step {options.step:g}, scope {options.scope}, "
        f"{options.runs} runs; {clear:.1f} without privacy"
    )
    strongest = max(options.sigmas)
    noise, gradient = left(images, strongest)
    print(
        f"  tensor by tensor sigma {strongest:g} leaves {noise:.3f} of the norm of noise, and {gradient:.3f} of that "
        "of the first mean gradient"
    )
    print("\n".join(table(found, options.budgets, options.sigmas, multipliers)))
    if options.picture is not None:
        plotting.save(picture({images[0]: found}, options.budgets, options.sigmas), options.picture)


if __name__ == "__main__":
    main()
