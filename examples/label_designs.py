"""What do randomizers of a label look like, and what does it cost to learn the prior? Matrices, laws and a price.

    python examples/label_designs.py [--folder .] [--seeds 3] [--small]

Three pictures after Badanidiyuru et al. 2023 (arXiv 2312.05659). randomizer_priors.png (Figure 2): the optimal unbiased
randomizer of 52 labels at epsilon 4 under four priors, the last that of weeks worked in UCI Census-Income.
randomizer_laws.png (Figure 3): label and released label together for six mechanisms at that budget and that prior, from
400,000 draws (seed 0), with the mean squared error of the released label. private_prior.png (the price of a private
prior): the squared error of the released label by the number of records when the prior is learned for a part of the
budget, over its least with a known prior at the whole budget; seeds 0 to 2. The log of Criteo cannot be had here; 101
labels with a geometric prior stand for it.

Needs SYMDEBIAS_DATA for the Census; --small takes a triangle of weeks, 12 labels and few draws.
"""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import symdebias as sd
from symdebias.interfaces import datasets, panels
from symdebias.mechanisms import Mechanism

EPSILON, DRAWS = 4.0, 400_000
# How far beyond the labels the picture of laws reaches, as a share of their number.
BEYOND = 0.5


def priors(labels: np.ndarray, census: np.ndarray) -> dict[str, np.ndarray]:
    """Return the priors of Figure 2; that of the Census is given."""
    place = np.linspace(0, 1, len(labels))
    shapes = {
        "uniform": np.ones(len(labels)),
        "falling": np.exp(-4 * place),
        "two peaks": np.exp(-(((place - 0.2) / 0.08) ** 2)) + np.exp(-(((place - 0.8) / 0.08) ** 2)) + 1e-3,
    }
    return {**{name: shape / shape.sum() for name, shape in shapes.items()}, "weeks worked": census}


def matrices(labels: np.ndarray, given: Mapping[str, np.ndarray]) -> tuple[str, Any]:
    """Return what the optimum of each prior costs, and the picture of its joint law, a column per output."""
    lines = [f"optimal unbiased randomizers, epsilon {EPSILON:g}: squared error, outputs, steps of a column"]
    shown = []
    for name, prior in given.items():
        best = sd.optimal_unbiased_randomizer(labels, prior, EPSILON)
        matrix = np.array(best.matrix)
        ratios = matrix / matrix.min(axis=0)
        # Rounded to 2^-53, an entry of a small column is off by more than one of a large one.
        two_valued = np.mean((ratios < 1.01) | (ratios > 0.99 * np.exp(EPSILON)), axis=0)
        lines.append(
            f"  {name:<14}{best.noisy_label_loss:>10.1f}{len(best.outputs):>6} outputs, "
            f"{np.mean(two_valued > 0.999):.0%} of the columns have two values"
        )
        shown.append(
            panels.Map(
                f"{name}: error {best.noisy_label_loss:.4g}", np.arange(len(best.outputs) + 1.0), edges(labels),
                prior[:, None] * matrix,
            )
        )  # fmt: skip
    return "\n".join(lines), panels.maps(
        shown, x="output, in order", y="label", scale="probability of label and output", log=True
    )


def edges(labels: np.ndarray) -> np.ndarray:
    """Return the edges of cells around labels with equal steps."""
    step = labels[1] - labels[0]
    return np.append(labels, labels[-1] + step) - step / 2


def mechanisms(labels: np.ndarray, prior: np.ndarray, epsilon: float) -> dict[str, Mechanism]:
    """Return the mechanisms of Figure 3."""
    ends = (float(labels[0]), float(labels[-1]))
    return {
        "randomized response": sd.RandomizedResponse(epsilon, tuple(labels)),
        "RR on bins": sd.labels.randomized_response_on_bins(labels, prior, epsilon),
        "Laplace": sd.LaplaceMechanism(epsilon, bounds=ends),
        "staircase": sd.StaircaseMechanism(epsilon, ends, gamma="squared"),
        "debiased RR": sd.labels.debiased_randomized_response(labels, epsilon),
        "optimal unbiased": sd.optimal_unbiased_randomizer(labels, prior, epsilon),
    }


def laws(labels: np.ndarray, prior: np.ndarray, draws: int) -> tuple[str, Any]:
    """Return the squared errors of the mechanisms, and the picture of label and released label."""
    truth = np.random.default_rng(0).choice(labels, size=draws, p=prior)
    # Cells around the labels and as wide beyond them.
    beyond = round(BEYOND * len(labels))
    step = labels[1] - labels[0]
    across = edges(np.arange(labels[0] - beyond * step, labels[-1] + (beyond + 0.5) * step, step))
    lines = [f"label and released label, epsilon {EPSILON:g}: squared error, bias at the ends"]
    shown = []
    for name, mechanism in mechanisms(labels, prior, EPSILON).items():
        sent = np.asarray(mechanism.privatize(truth, random_state=1), float)
        error = np.mean((sent - truth) ** 2)
        bias = [np.mean(sent[truth == end] - end) for end in labels[[0, -1]]]
        lines.append(f"  {name:<22}{error:>10.1f}{bias[0]:>10.2f}{bias[1]:>8.2f}")
        counts, _, _ = np.histogram2d(truth, sent, bins=(edges(labels), across))
        shown.append(panels.Map(f"{name}: {error:.4g}", across, edges(labels), counts / draws))
    return "\n".join(lines), panels.maps(
        shown, x="released label", y="label", scale="probability of label and released label", log=True
    )


def price(
    cases: Mapping[str, tuple[np.ndarray, np.ndarray, float]], sizes: Sequence[int], seeds: int
) -> tuple[str, Any]:  # fmt: skip
    """Return the loss with a learned prior over that with a known one, by the number of records, and its picture."""
    lines, shown = [], []
    for title, (labels, prior, epsilon) in cases.items():
        least = sd.optimal_unbiased_randomizer(labels, prior, epsilon).noisy_label_loss
        even = np.full(len(labels), 1 / len(labels))
        ignorant = loss(sd.optimal_unbiased_randomizer(labels, even, epsilon), labels, prior) / least
        ratios: dict[str, np.ndarray] = {
            name: np.empty((len(sizes), seeds))
            for name in ("learned for epsilon sqrt(k/n)", "learned for a hundredth of epsilon")
        }
        for i, n in enumerate(sizes):
            for seed in range(seeds):
                y = np.random.default_rng((seed, n)).choice(labels, size=n, p=prior)
                shares = (sd.labels.prior_budget(len(labels), n, epsilon), epsilon / 100)
                for name, share in zip(ratios, shares, strict=True):
                    learned = sd.labels.private_prior(y, labels, share, random_state=seed)
                    design = sd.optimal_unbiased_randomizer(labels, learned, epsilon - share)
                    ratios[name][i, seed] = loss(design, labels, prior) / least
        lines += [f"{title}: squared error over {least:.1f}, that of the known prior; a uniform guess {ignorant:.4g}"]
        lines.append(f"  {'prior':<38}" + "".join(f"{n:>18,}" for n in sizes))
        drawn = {}
        for name, rows in ratios.items():
            mean, error = rows.mean(axis=1), rows.std(axis=1, ddof=1) / np.sqrt(seeds)
            cells = (f"{f'{a:.3f} ({b:.0e})':>18}" for a, b in zip(mean, error, strict=True))
            lines.append(f"  {name:<38}" + "".join(cells))
            drawn[name] = panels.Line(np.array(sizes, float), mean, 2 * error)
        shown.append(
            panels.Panel(
                title, "records", "squared error, known prior = 1", drawn, log="x", ticks=tuple(sizes),
                levels={"uniform prior": ignorant},
            )
        )  # fmt: skip
    return "\n".join(lines), panels.lines(shown)


def loss(randomizer: sd.LabelRandomizer, labels: np.ndarray, prior: np.ndarray) -> float:
    """Return the mean squared error of the released label under the true prior."""
    squares = (np.array(randomizer.outputs) - labels[:, None]) ** 2
    return float(prior @ (np.array(randomizer.matrix) * squares).sum(axis=1))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path())
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--small", action="store_true", help="12 labels, no data, few draws")
    options = parser.parse_args(arguments)
    if options.small:
        labels = np.arange(1.0, 13.0)
        weeks = labels / labels.sum()
        cases = {"12 labels": (labels, weeks, EPSILON)}
        sizes, seeds, draws = (500, 5_000), 2, 5_000
    else:
        labels = np.arange(1.0, 53.0)
        weeks = np.bincount(datasets.census().y.astype(int), minlength=53)[1:] / len(datasets.census().y)
        wide = np.arange(101.0)
        falling = np.exp(-wide / 10)
        cases = {
            "weeks worked, epsilon 1": (labels, weeks, 1.0),
            "weeks worked, epsilon 4": (labels, weeks, 4.0),
            "101 labels, geometric prior, epsilon 4": (wide, falling / falling.sum(), 4.0),
        }
        sizes, seeds, draws = (1_000, 10_000, 100_000, 1_000_000), options.seeds, DRAWS
    makers = {
        "randomizer_priors": lambda: matrices(labels, priors(labels, weeks)),
        "randomizer_laws": lambda: laws(labels, weeks, draws),
        "private_prior": lambda: price(cases, sizes, seeds),
    }
    for name, make in makers.items():
        text, figure = make()
        print(text, flush=True)
        panels.save(figure, options.folder, name)


if __name__ == "__main__":
    main()
