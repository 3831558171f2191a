"""What does Laplacian smoothing do to noise, to a signal, and to training? The convex experiments of Wang et al. 2019.

    python examples/laplacian_smoothing.py [--mnist FOLDER] [--part shares accuracy losses] [--budgets .1 .2 .3]
        [--runs 2] [--small] [--pictures FOLDER]

``shares``: the shares gamma and beta of the noise that smoothing leaves, by formula and by simulation, and a smooth and
a rough signal under noise, before and after. ``accuracy``: softmax regression and support vector machines on MNIST, at
the noise of some budgets. ``losses``: training and validation loss along the way.

The training is what the authors' published code does (github.com/BaoWangMath/DP-LSSGD, Logistic-Regression): 50 passes
of 469 batches of 128, pixels with mean 0 and variance 1, step size 2/t with t one more than the number of batches
before the pass, decay of weights 1e-4, and its noise: that of their Theorem 2 with 4 in the place of 20. That code
shortens the *mean* gradient of a batch to the norm 1, weights and biases apart. The theorem is about gradients of
single records that are bounded, so that the budgets are names here and not guarantees; ``accuracy`` trains once more
with the gradient of each record shortened. For private training take `symdebias.dp_lssgd`, as in
examples/smoothed_training.py.

The images are the 10,000 of MNIST's test files, 8,000 of them to train on; or scikit-learn's digits without
``--mnist``.
"""

import argparse
import gzip
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import symdebias as sd
from symdebias import _optional
from symdebias.interfaces import plotting
from symdebias.solvers import smoothing_beta, smoothing_gamma

# Budget -> standard deviation of the noise on each entry of the mean gradient, in the authors' code.
NOISE = {0.1: 0.3471, 0.15: 0.2316, 0.2: 0.1739, 0.25: 0.1393, 0.3: 0.1162}
# Table 2 of the paper: accuracy of softmax regression for sigma 0 and 3.
PUBLISHED = {0.1: (73.49, 77.13), 0.2: (78.92, 82.22), 0.3: (81.74, 85.11)}
SIGMAS = (0.0, 1.0, 2.0, 3.0)
BATCH, DECAY, CLIP, FIRST_STEP = 128, 1e-4, 1.0, 2.0
COLOURS = ("#222222", "#0072b2", "#009e73", "#d55e00")


@dataclass(frozen=True)
class Images:
    """Images as rows, and their classes 0, 1, ..., to train on and to validate with."""

    name: str
    X: np.ndarray
    y: np.ndarray
    other_X: np.ndarray
    other_y: np.ndarray


def split(name: str, X: np.ndarray, y: np.ndarray, train: int) -> Images:
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order], y[order]
    # The public mean and deviation of MNIST's pixels; for the digits those of the same share of ink.
    X = (X - 0.1307) / 0.3081
    # PyTorch's arithmetic has 32 bits; only the smoothing has 64.
    X = X.astype(np.float32)
    return Images(name, X[:train], y[:train], X[train:], y[train:])


def mnist(folder: Path) -> Images:
    pixels = np.frombuffer(gzip.decompress((folder / "t10k-images-idx3-ubyte.gz").read_bytes()), np.uint8, offset=16)
    labels = np.frombuffer(gzip.decompress((folder / "t10k-labels-idx1-ubyte.gz").read_bytes()), np.uint8, offset=8)
    return split("MNIST", pixels.reshape(len(labels), -1) / 255, labels.astype(int), 8000)


def digits() -> Images:
    found = _optional.require("sklearn.datasets", extra="sklearn").load_digits()
    return split("digits", found.data / 16, found.target, 1437)


# A loss of the scores: their slopes, and the values of single records.
Loss = tuple[Callable[[np.ndarray, np.ndarray], np.ndarray], Callable[[np.ndarray, np.ndarray], np.ndarray]]


def softmax_slopes(scores: np.ndarray, y: np.ndarray) -> np.ndarray:
    found = np.exp(scores - scores.max(axis=1, keepdims=True))
    found /= found.sum(axis=1, keepdims=True)
    found[np.arange(len(y)), y] -= 1
    return found


def softmax_values(scores: np.ndarray, y: np.ndarray) -> np.ndarray:
    top = scores.max(axis=1)
    return top + np.log(np.exp(scores - top[:, None]).sum(axis=1)) - scores[np.arange(len(y)), y]


def margins(scores: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return what each other class lacks of the margin 1: the loss is its positive part, over the number of classes."""
    found = 1 + scores - scores[np.arange(len(y)), y][:, None]
    found[np.arange(len(y)), y] = 0
    return np.maximum(found, 0)


def hinge_slopes(scores: np.ndarray, y: np.ndarray) -> np.ndarray:
    found = (margins(scores, y) > 0).astype(scores.dtype) / scores.shape[1]
    found[np.arange(len(y)), y] = -found.sum(axis=1)
    return found


def hinge_values(scores: np.ndarray, y: np.ndarray) -> np.ndarray:
    return margins(scores, y).sum(axis=1) / scores.shape[1]


LOSSES: dict[str, Loss] = {
    "softmax regression": (softmax_slopes, softmax_values),
    "support vector machine": (hinge_slopes, hinge_values),
}


@dataclass
class Run:
    """The accuracy of a model, and its losses along the way: number of the step, training loss, validation loss."""

    accuracy: float = 0.0
    losses: list[tuple[int, float, float]] = field(default_factory=list)


def train(
    images: Images, loss: Loss, noise: float, sigma: float, *, clipped: str, passes: int, batches: int, seed: int,
    watch: int = 0,
) -> Run:  # fmt: skip
    """Train as the authors' code does, with noise of a seed.

    Parameters
    ----------
    clipped : {"mean", "record"}
        Whether the mean gradient is shortened, per tensor, or that of each record.
    watch : int
        How many times the losses are recorded, at steps that are spread evenly on a logarithmic axis.
    """
    rng, (slopes, values), run = np.random.default_rng(seed), loss, Run()
    classes, columns = images.y.max() + 1, images.X.shape[1]
    # The start of PyTorch's linear layers.
    bound = 1 / np.sqrt(columns)
    weights, biases = (rng.uniform(-bound, bound, shape).astype(np.float32) for shape in ((classes, columns), classes))
    lengths = np.sqrt(np.einsum("ij,ij->i", images.X, images.X) + 1)
    watched = set(np.unique(np.geomspace(1, passes * batches, watch).astype(int))) if watch else set()
    order, steps, step = np.empty(0, int), 0, FIRST_STEP
    for _ in range(passes):
        step = np.float32(FIRST_STEP / (steps + 1))
        for _ in range(batches):
            steps += 1
            if len(order) < BATCH:
                order = np.concatenate([order, rng.permutation(len(images.y))])
            chosen, order = order[:BATCH], order[BATCH:]
            rows = images.X[chosen]
            found = slopes(rows @ weights.T + biases, images.y[chosen])
            if clipped == "record":
                norms = np.sqrt(np.einsum("ij,ij->i", found, found)) * lengths[chosen]
                found *= np.minimum(1, CLIP / np.maximum(norms, CLIP))[:, None]
            for gradient, parameters in ((found.T @ rows, weights), (found.sum(axis=0), biases)):
                gradient /= BATCH
                if clipped == "mean":
                    gradient /= max(1.0, np.linalg.norm(gradient) / CLIP)
                gradient += np.float32(noise) * rng.standard_normal(gradient.shape, dtype=np.float32)
                parameters -= step * (sd.laplacian_smoothing(gradient, sigma) + DECAY * parameters).astype(np.float32)
            if steps in watched:
                scores = ((images.X, images.y), (images.other_X, images.other_y))
                run.losses.append((steps, *(float(values(X @ weights.T + biases, y).mean()) for X, y in scores)))
    guesses = (images.other_X @ weights.T + biases).argmax(axis=1)
    run.accuracy = 100 * float(np.mean(guesses == images.other_y))
    return run


def accuracies(
    images: Images, loss: Loss, clipped: str, budgets: Sequence[float], runs: int, **size: int
) -> np.ndarray:
    """Return the accuracies, of shape (budgets, strengths, runs)."""
    return np.array([
        [
            [
                train(images, loss, NOISE[budget], sigma, clipped=clipped, seed=seed, **size).accuracy
                for seed in range(runs)
            ]
            for sigma in SIGMAS
        ]
        for budget in budgets
    ])  # fmt: skip


def accuracy_table(found: np.ndarray, budgets: Sequence[float], published: bool) -> list[str]:
    lines = ["  " + f"{'accuracy in % (sd)':<22}" + "".join(f"{f'noise of eps {budget:g}':>18}" for budget in budgets)]
    for j, sigma in enumerate(SIGMAS):
        spread = found[:, j].std(axis=1, ddof=1) if found.shape[2] > 1 else np.full(len(found), np.nan)
        cells = [f"{mean:.1f} ({sd_:.1f})" for mean, sd_ in zip(found[:, j].mean(axis=1), spread, strict=True)]
        lines.append("  " + f"sigma {sigma:<16g}" + "".join(f"{cell:>18}" for cell in cells))
    if published:
        for j, sigma in enumerate((0, 3)):
            cells = [f"{PUBLISHED[budget][j]:.2f}" if budget in PUBLISHED else "" for budget in budgets]
            lines.append("  " + f"published, sigma {sigma:<5}" + "".join(f"{cell:>18}" for cell in cells))
    return lines


def shares_report(size: int, draws: int) -> list[str]:
    """Return what smoothing leaves of noise, by formula and by simulation, and of two signals under noise."""
    rng, strengths = np.random.default_rng(0), (1.0, 2.0, 3.0, 4.0, 5.0)
    noise = rng.normal(size=(draws, size))
    lines = [f"what smoothing leaves of noise, {size:,} entries; in parentheses from {draws} draws"]
    lines.append("  " + f"{'sigma':<10}" + "".join(f"{sigma:>16g}" for sigma in strengths))
    smoothed = [sd.laplacian_smoothing(noise, sigma, mode="rows") for sigma in strengths]
    by_formula = {"gamma": smoothing_gamma, "beta": smoothing_beta}
    simulated = {
        "gamma": [np.mean(noise * one) for one in smoothed],
        "beta": [np.mean(one * one) for one in smoothed],
    }
    for name, formula in by_formula.items():
        pairs = zip(strengths, simulated[name], strict=True)
        lines.append("  " + f"{name:<10}" + "".join(f"{f'{formula(size, s):.3f} ({m:.3f})':>16}" for s, m in pairs))
    lines += ["", "mean squared error of a signal of 200 entries in [-1, 1] under noise of variance 0.25"]
    for name, signal in signals().items():
        noised = signal + 0.5 * np.random.default_rng(1).normal(size=(draws, len(signal)))
        errors = [np.mean((sd.laplacian_smoothing(noised, s, mode="rows") - signal) ** 2) for s in (0.0, *strengths)]
        cells = [f"{s:g}: {error:.3f}" for s, error in zip((0.0, *strengths), errors, strict=True)]
        lines.append("  " + f"{name:<10}" + "".join(f"{cell:>11}" for cell in cells))
    return lines


def signals() -> dict[str, np.ndarray]:
    places = np.arange(200)
    return {"smooth": np.sin(2 * np.pi * places / 100), "rough": np.where(places % 2, 1.0, -1.0)}


def shares_picture() -> object:
    """Draw the shares against the strength, and a smooth signal under noise before and after."""
    figure = _optional.require("matplotlib.figure", extra="plot").Figure(figsize=(5.6, 6.6), layout="constrained")
    above, below = figure.subplots(2, 1)
    strengths = np.linspace(0, 10, 101)
    for name, formula, colour in (("γ", smoothing_gamma, COLOURS[1]), ("β", smoothing_beta, COLOURS[3])):
        above.plot(strengths, [formula(1000, sigma) for sigma in strengths], color=colour, linewidth=1.6)
        above.text(10.15, formula(1000, 10.0), name, color=colour, va="center", fontsize=11)
    above.set(xlabel="strength σ", ylabel="share of the noise that is left", ylim=(0, 1.02), xlim=(0, 10.9))
    above.set_title("γ: energy, β: variance (d = 1000)", fontsize=10)
    signal = signals()["smooth"]
    noised = signal + 0.5 * np.random.default_rng(1).normal(size=len(signal))
    below.plot(noised, color="#bbbbbb", linewidth=0.9, label="noised")
    below.plot(sd.laplacian_smoothing(noised, 3.0), color=COLOURS[1], linewidth=1.4, label="smoothed, σ = 3")
    below.plot(signal, color=COLOURS[3], linewidth=1.4, linestyle="--", label="signal")
    below.set(xlabel="entry", ylim=(-2.1, 2.9))
    below.set_title("a smooth signal under noise", fontsize=10)
    below.legend(fontsize=8, loc="upper center", ncols=3, frameon=False)
    for panel in (above, below):
        panel.grid(alpha=0.25)
    return figure


def accuracy_picture(found: Mapping[str, np.ndarray], budgets: Sequence[float], published: str | None) -> object:
    """Draw the accuracy against the budget, a panel for each way of training; published values as crosses in one."""
    figure = _optional.require("matplotlib.figure", extra="plot").Figure(
        figsize=(3.6 * len(found), 3.7), layout="constrained"
    )
    panels = figure.subplots(1, len(found), squeeze=False)[0]
    for panel, (name, values) in zip(panels, found.items(), strict=True):
        for j, (sigma, colour) in enumerate(zip(SIGMAS, COLOURS, strict=True)):
            panel.plot(budgets, values[:, j].mean(axis=1), "o-", color=colour, markersize=3.5, linewidth=1.3,
                       label=f"σ = {sigma:g}")  # fmt: skip
            if name == published and sigma in (0, 3):
                values_there = [pair[int(sigma > 0)] for pair in PUBLISHED.values()]
                panel.plot(list(PUBLISHED), values_there, "x", color=colour, markersize=8, markeredgewidth=1.8,
                           label="published" if sigma else None)  # fmt: skip
        panel.set_title(name, fontsize=9)
        panel.set_xlabel("ε that the noise is meant for")
        panel.grid(alpha=0.25)
    panels[0].set_ylabel("accuracy in %")
    panels[0].legend(fontsize=8)
    return figure


def losses_picture(found: Mapping[tuple[float, float], Run]) -> object:
    """Draw training and validation losses along the way, a pair of panels for each budget."""
    figures, ticker = (_optional.require(f"matplotlib.{name}", extra="plot") for name in ("figure", "ticker"))
    figure = figures.Figure(figsize=(11, 3.2), layout="constrained")
    budgets = list(dict.fromkeys(budget for budget, _ in found))
    panels = figure.subplots(1, 2 * len(budgets), sharex=True, sharey=True)
    for (budget, sigma), run in found.items():
        steps, *losses = np.array(run.losses).T
        for part, values in enumerate(losses):
            panel = panels[2 * budgets.index(budget) + part]
            panel.loglog(steps, values, color=COLOURS[SIGMAS.index(sigma)], linewidth=1.2, label=f"σ = {sigma:g}")
            panel.set_title(f"{('training', 'validation')[part]}, noise of ε = {budget:g}", fontsize=9.5)
            panel.grid(alpha=0.25, which="both")
            panel.set_xlabel("steps")
    panels[0].set_ylabel("loss")
    panels[0].yaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
    panels[0].yaxis.set_major_formatter("{x:g}")
    panels[0].yaxis.set_minor_formatter(ticker.NullFormatter())
    panels[0].legend(fontsize=8)
    return figure


def losses_report(found: Mapping[tuple[float, float], Run]) -> list[str]:
    lines = [
        "",
        "losses of softmax regression at the end, and the largest validation loss of the last half of the steps",
    ]
    lines.append("  " + f"{'':<20}{'training':>10}{'validation':>12}{'largest':>10}")
    for (budget, sigma), run in found.items():
        steps, train_loss, other = np.array(run.losses).T
        case = f"eps {budget:g}, sigma {sigma:g}"
        largest = other[steps > steps[-1] / 2].max()
        lines.append("  " + f"{case:<20}{train_loss[-1]:>10.3f}{other[-1]:>12.3f}{largest:>10.3f}")
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mnist", type=Path, metavar="FOLDER")
    parts = ("shares", "accuracy", "losses")
    parser.add_argument("--part", nargs="+", choices=parts, default=parts)
    parser.add_argument("--budgets", type=float, nargs="+", choices=list(NOISE), default=[0.1, 0.2, 0.3])
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--small", action="store_true", help="few passes and draws: to see whether it runs")
    parser.add_argument("--pictures", type=Path, metavar="FOLDER")
    options = parser.parse_args(arguments)
    size = {"passes": 2, "batches": 12} if options.small else {"passes": 50, "batches": 469}
    pictures: dict[str, object] = {}
    if "shares" in options.part:
        print("\n".join(shares_report(1000, 20 if options.small else 2000)))
        pictures["smoothing_shares"] = shares_picture()
    images = digits() if options.mnist is None else mnist(options.mnist)
    if "accuracy" in options.part:
        cases = [(name, "mean") for name in LOSSES] + [("softmax regression", "record")]
        short = {"mean": "mean gradient shortened", "record": "gradient of each record shortened"}
        found = {
            f"{name},\n{short[clipped]}": accuracies(
                images, LOSSES[name], clipped, options.budgets, options.runs, **size
            )
            for name, clipped in cases
        }
        published = images.name == "MNIST"
        for (name, clipped), values in zip(cases, found.values(), strict=True):
            what = "mean gradients" if clipped == "mean" else "gradients of records"
            print(f"\n{images.name}, {name}, {what} shortened to 1, {options.runs} runs")
            print("\n".join(accuracy_table(values, options.budgets, published and (name, clipped) == cases[0])))
        pictures["smoothing_accuracy"] = accuracy_picture(
            found, options.budgets, next(iter(found)) if published else None
        )
    if "losses" in options.part:
        name, watch = "softmax regression", 20 if options.small else 80
        watched = {
            (budget, sigma): train(
                images, LOSSES[name], NOISE[budget], sigma, clipped="mean", seed=0, watch=watch, **size
            )
            for budget in (0.2, 0.1)
            for sigma in (0.0, 1.0, 3.0)
        }
        print("\n".join(losses_report(watched)))
        pictures["smoothing_losses"] = losses_picture(watched)
    if options.pictures is not None:
        for name, figure in pictures.items():
            plotting.save(figure, options.pictures / f"{name}.png")


if __name__ == "__main__":
    main()
