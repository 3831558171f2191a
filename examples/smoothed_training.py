"""When does Laplacian smoothing help private training? Softmax regression on images, after Wang et al. 2019, Table 2.

    python examples/smoothed_training.py [--side 8] [--records N] [--mnist FOLDER] [--budgets 2 3 4 6 8]
        [--sigmas 0 1 2 3] [--steps 0.5] [--published-steps] [--shuffled] [--runs 5] [--plot smoothing.png]

Test accuracy of `sd.dp_lssgd` for every strength of smoothing, budget and step size, over runs that share their random
numbers between the strengths. The images are scikit-learn's digits, or MNIST from a folder with its files
t10k-images-idx3-ubyte.gz and t10k-labels-idx1-ubyte.gz. ``--side 28 --records 8000`` enlarges the digits and draws so
many with replacement: a public stand-in of MNIST's shape, on which a step size for MNIST can be chosen without a look
at MNIST. ``--shuffled`` trains again with the columns in a random order: the same problem to DP-SGD, and another one to
smoothing.

All images here are public: counts and norms are printed that a private run must not show.
"""

import argparse
import gzip
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

import symdebias as sd
from symdebias import _optional
from symdebias.interfaces import plotting

DELTA, BATCH = 1e-5, 128
# Wang et al. 2019, Table 2: accuracy at three budgets, for sigma 0 and 3, with the paper's own noise and n = 60,000.
PUBLISHED = {0.1: (73.49, 77.13), 0.2: (78.92, 82.22), 0.3: (81.74, 85.11)}
Step = float | sd.step_sizes.StepSize


@dataclass(frozen=True)
class Problem:
    """Images with norms about 1, and their classes 0, 1, ..., to train on and to test on."""

    name: str
    X: np.ndarray
    y: np.ndarray
    test_X: np.ndarray
    test_y: np.ndarray
    classes: int = 10

    def shuffled(self) -> "Problem":
        """Return the problem with the columns in another order."""
        order = np.random.default_rng(1).permutation(self.X.shape[1])
        return replace(self, name=f"{self.name}, columns shuffled", X=self.X[:, order], test_X=self.test_X[:, order])

    @property
    def parameters(self) -> int:
        """How many parameters the model has."""
        return self.classes * (self.X.shape[1] + 1)

    def accuracy(self, theta: np.ndarray) -> float:
        """Return the share of the test images that a model gets right, in percent."""
        scores = self.test_X @ theta[:, :-1].T + theta[:, -1]
        return 100 * float(np.mean(scores.argmax(axis=1) == self.test_y))


def digits(side: int = 8, records: int | None = None, classes: int = 10) -> Problem:
    """Return scikit-learn's digits, enlarged to a side, and so many of those to train on drawn with replacement."""
    found = _optional.require("sklearn.datasets", extra="sklearn").load_digits()
    factor = side // found.images.shape[1]
    border = side - factor * found.images.shape[1]
    if factor < 1 or border % 2:
        raise ValueError(f"--side {side} is no even enlargement of 8. Give 8, 16, 24 or 28.")
    images, y = found.images[found.target < classes], found.target[found.target < classes].astype(float)
    images = np.kron(images, np.ones((1, factor, factor)))
    images = np.pad(images, ((0, 0), (border // 2, border // 2), (border // 2, border // 2)))
    X = images.reshape(len(images), -1) / 16 / (4 * factor)
    order = np.random.default_rng(0).permutation(len(y))
    train, test = np.split(order, [4 * len(order) // 5])
    if records is not None:
        train = np.random.default_rng(1).choice(train, records)
    return Problem(f"digits, {side} x {side}", X[train], y[train], X[test], y[test], classes)


def mnist(folder: Path, train: int = 8000) -> Problem:
    """Return the 10,000 images of MNIST's test files, most of them to train on."""
    pixels = np.frombuffer(gzip.decompress((folder / "t10k-images-idx3-ubyte.gz").read_bytes()), np.uint8, offset=16)
    labels = np.frombuffer(gzip.decompress((folder / "t10k-labels-idx1-ubyte.gz").read_bytes()), np.uint8, offset=8)
    order = np.random.default_rng(0).permutation(len(labels))
    X, y = pixels.reshape(len(labels), -1)[order] / 255 / 10, labels[order].astype(float)
    return Problem("MNIST", X[:train], y[:train], X[train:], y[train:])


def fitted(
    problem: Problem, epsilon: float, sigma: float, step: Step, epochs: int, seed: int, **options: str
) -> sd.Fit:
    with warnings.catch_warnings():
        # Some images are a little longer than 1, as they may be.
        warnings.simplefilter("ignore", sd.ClippingWarning)
        return sd.dp_lssgd(
            sd.losses.softmax(problem.classes), problem.X, problem.y, epsilon=epsilon, delta=DELTA,
            adjacency="replace-one", smoothing=sigma, record_radius=1.0, fit_intercept=True, batch_size=BATCH,
            epochs=epochs, step_size=step, random_state=seed,
        )  # fmt: skip


def experiment(
    problem: Problem, budgets: Sequence[float], sigmas: Sequence[float], step: Step, epochs: int, runs: int
) -> np.ndarray:
    """Return the accuracies, of shape (strengths, budgets, runs)."""
    found = np.empty((len(sigmas), len(budgets), runs))
    for i, sigma in enumerate(sigmas):
        for j, epsilon in enumerate(budgets):
            for seed in range(runs):
                found[i, j, seed] = problem.accuracy(fitted(problem, epsilon, sigma, step, epochs, seed).theta)
    return found


def without_privacy(problem: Problem) -> float:
    """Return the accuracy of the same model with next to no penalty and no noise."""
    release = sd.Release(fit_intercept=True)
    corrected = sd.debias(sd.losses.softmax(problem.classes), release, method="none")
    how = {"step_size": 2.0, "batch_size": BATCH, "epochs": 50, "l2": 0.0, "random_state": 0}
    with warnings.catch_warnings():
        # Pixels that are next to always 0 have parameters that hardly move.
        warnings.simplefilter("ignore", sd.exceptions.ConvergenceWarning)
        fit = sd.sgd(corrected, problem.X, problem.y, **how)
    return problem.accuracy(fit.theta)


def noise_table(problem: Problem, budgets: Sequence[float], sigma: float, epochs: int) -> list[str]:
    """Return how long noise and mean gradient are at the first step, before and after smoothing."""
    d = problem.parameters
    inside = problem.X * np.minimum(1, 1 / np.linalg.norm(problem.X, axis=1))[:, None]
    rows = np.column_stack([inside, np.ones(len(inside))])
    gradient = (1 / problem.classes - (problem.y[:, None] == np.arange(problem.classes))).T @ rows / len(rows)
    kept = sd.laplacian_smoothing(gradient, sigma)
    # The squared length of smoothed noise is the mean of the squared answers to single coordinates.
    single = np.zeros(d)
    single[0] = 1.0
    left = np.linalg.norm(sd.laplacian_smoothing(single, sigma))
    length = np.linalg.norm(gradient)
    lines = [
        f"  sigma {sigma:g} leaves {left:.3f} of the norm of noise, and {np.linalg.norm(kept) / length:.3f} of that of "
        f"the first mean gradient, {length:.3f}"
    ]
    fits = [fitted(problem, epsilon, 0.0, 0.1, epochs, 0) for epsilon in budgets]
    multipliers = [fit.diagnostics["noise_multiplier"] for fit in fits]
    scale = fits[0].diagnostics["clip"] / fits[0].diagnostics["expected_batch_size"]
    lines.append(_row("noise multiplier", [f"{z:.2f}" for z in multipliers]))
    lines.append(_row("norm of a step's noise", [f"{z * scale * np.sqrt(d):.2f}" for z in multipliers]))
    return lines


def _row(name: str, cells: Sequence[str]) -> str:
    return f"  {name:<24}" + "".join(f"{cell:>14}" for cell in cells)


def table(found: np.ndarray, budgets: Sequence[float], sigmas: Sequence[float]) -> list[str]:
    """Return means and standard deviations, and what smoothing gains over none in runs with the same random numbers."""
    lines = [_row("accuracy in % (sd)", [f"epsilon {epsilon:g}" for epsilon in budgets])]
    for sigma, rows in zip(sigmas, found, strict=True):
        lines.append(_row(f"sigma {sigma:g}", [f"{row.mean():.1f} ({_deviation(row):.1f})" for row in rows]))
    for sigma, rows in zip(sigmas[1:], found[1:], strict=True):
        gains = rows - found[0]
        cells = [f"{gain.mean():+.1f} ({_deviation(gain) / np.sqrt(len(gain)):.1f})" for gain in gains]
        lines.append(_row(f"gain of {sigma:g} (se)", cells))
    return lines


def _deviation(values: np.ndarray) -> float:
    return float(values.std(ddof=1)) if len(values) > 1 else float("nan")


def report(
    problems: Sequence[Problem], budgets: Sequence[float], sigmas: Sequence[float], steps: Mapping[str, Step],
    epochs: int, runs: int,
) -> tuple[str, dict[tuple[str, str], np.ndarray]]:  # fmt: skip
    """Return the tables as text, and their accuracies by problem and step size."""
    first, lines, found = problems[0], [], {}
    lines.append(
        f"{first.name}: {len(first.y):,} images to train on, {len(first.test_y):,} to test on, {first.parameters:,} "
        f"parameters, {epochs} epochs of batches of {BATCH}, delta {DELTA:g}, replace-one, {runs} runs"
    )
    lines += [_row("", [f"epsilon {epsilon:g}" for epsilon in budgets])]
    lines += noise_table(first, budgets, max(sigmas), epochs)
    for problem in problems:
        for name, step in steps.items():
            accuracies = experiment(problem, budgets, sigmas, step, epochs, runs)
            found[problem.name, name] = accuracies
            lines += ["", f"{problem.name}, step size {name}", *table(accuracies, budgets, sigmas)]
    if len(steps) > 1:
        for problem in problems:
            means = [found[problem.name, name].mean(axis=2) for name in steps]
            lines += ["", f"{problem.name}, each entry at the best of its step sizes (chosen on the test images)"]
            for i, sigma in enumerate(sigmas):
                best = [max(zip((m[i, j] for m in means), steps, strict=True)) for j in range(len(budgets))]
                lines.append(_row(f"sigma {sigma:g}", [f"{value:.1f} at {name}" for value, name in best]))
    lines += ["", "Table 2 of the paper, MNIST, n = 60,000, its own noise"]
    lines.append(_row("", [f"epsilon {epsilon:g}" for epsilon in PUBLISHED]))
    for i, sigma in enumerate((0, 3)):
        lines.append(_row(f"sigma {sigma}", [f"{pair[i]:.2f}" for pair in PUBLISHED.values()]))
    lines.append(_row("gain of 3", [f"{pair[1] - pair[0]:+.2f}" for pair in PUBLISHED.values()]))
    return "\n".join(lines), found


def picture(found: Mapping[str, np.ndarray], budgets: Sequence[float], sigmas: Sequence[float]) -> object:
    """Return the accuracy against the strength of smoothing, a panel for each problem."""
    figures = _optional.require("matplotlib.figure", extra="plot")
    figure = figures.Figure(figsize=(4.6 * len(found), 3.9), layout="constrained")
    panels = figure.subplots(1, len(found), sharey=True, squeeze=False)[0]
    places = np.arange(len(sigmas))
    for panel, (name, accuracies) in zip(panels, found.items(), strict=True):
        for j, epsilon in enumerate(budgets):
            values = accuracies[:, j]
            deviations = [_deviation(row) for row in values]
            shade = 0.15 + 0.7 * j / max(1, len(budgets) - 1)
            panel.errorbar(
                places, values.mean(axis=1), deviations, marker="o", markersize=4, capsize=2, linewidth=1.3,
                color=(0.1, 0.25 + 0.5 * (1 - shade), 0.95 - 0.6 * shade), label=f"ε = {epsilon:g}",
            )  # fmt: skip
        panel.set_title(name, fontsize=10)
        panel.set_xticks(places, [f"{sigma:g}" for sigma in sigmas])
        panel.set_xlabel("strength of smoothing, σ (0: DP-SGD)")
        panel.grid(alpha=0.25)
    panels[0].set_ylabel("test accuracy in %")
    panels[-1].legend(fontsize=8)
    return figure


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mnist", type=Path, metavar="FOLDER")
    parser.add_argument("--side", type=int, default=8)
    parser.add_argument("--records", type=int)
    parser.add_argument("--budgets", type=float, nargs="+", default=[2.0, 3.0, 4.0, 6.0, 8.0])
    parser.add_argument("--sigmas", type=float, nargs="+", default=[0.0, 1.0, 2.0, 3.0])
    parser.add_argument("--steps", type=float, nargs="*", default=[0.5])
    parser.add_argument("--published-steps", action="store_true", help="1/t and 100/t too, t the number of the step")
    parser.add_argument("--shuffled", action="store_true", help="the columns in random order too")
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args(arguments)
    problem = digits(options.side, options.records) if options.mnist is None else mnist(options.mnist)
    problems = [problem, problem.shuffled()] if options.shuffled else [problem]
    steps: dict[str, Step] = {f"{step:g}": step for step in options.steps}
    if options.published_steps:
        # With rows c times as long, steps are c^2 times as long in our parameters: 1/t on pixels of 0 to 1 is 100/t.
        steps |= {"1/t": sd.step_sizes.inverse_time(1.0), "100/t": sd.step_sizes.inverse_time(100.0)}
    text, found = report(problems, options.budgets, options.sigmas, steps, options.epochs, options.runs)
    print(text)
    print(f"\n{problem.name} without privacy: {without_privacy(problem):.1f}")
    if options.plot is not None:
        first = next(iter(steps))
        panels = {one.name: found[one.name, first] for one in problems}
        plotting.save(picture(panels, options.budgets, options.sigmas), options.plot)


if __name__ == "__main__":
    main()
