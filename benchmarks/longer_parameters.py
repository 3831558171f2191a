"""Count intervals that cover where records rule out no longer parameters, as a note says, and where they do.

    python benchmarks/longer_parameters.py [--draws 200]

Exponential loss, exact, under noise so large that many draws are refused. For each design: how many draws were refused
or have no intervals, how many fits have the note of `symdebias.solvers.outward`, and how many of the 95% intervals
cover, with and without it.
"""

import argparse
import warnings
from collections.abc import Sequence

import numpy as np
from scipy.special import expit

import symdebias as sd
from symdebias.exceptions import SymdebiasError

# Records, standard deviation of the noise in columns of variance 1, epsilon of the labels, parameters.
DESIGNS: tuple[tuple[int, float, float | None, tuple[float, ...]], ...] = (
    (3_000, 1.0, 1.5, (1.0, -0.5)),
    (20_000, 1.0, 1.5, (1.0, -0.5)),
    (3_000, 0.7, 1.5, (0.8, -0.4)),
    (3_000, 1.0, 1.5, (0.6, -0.3)),
    (3_000, 1.0, None, (1.0, -0.5)),
    (3_000, 0.7, None, (1.2, -0.5)),
    (1_000, 0.5, None, (0.7, -0.5, 0.3)),
)


def measure(
    records: int, noise: float, epsilon: float | None, theta: Sequence[float], draws: int
) -> tuple[int, dict[bool, list[float]]]:
    """Return how many draws gave no intervals, and the share of parameters covered in each other, by the note."""
    truth, refused, covered = np.array(theta), 0, {True: list[float](), False: list[float]()}
    target = None if epsilon is None else sd.RandomizedResponse(epsilon)
    release = sd.Release(sd.GaussianMechanism.from_scale(noise), target=target)
    corrected = sd.debias(sd.losses.exponential(), release)
    for seed in range(draws):
        rng = np.random.default_rng([seed, records])
        X = rng.normal(size=(records, len(truth)))
        y = np.where(rng.random(records) < expit(2 * X @ truth), 1.0, -1.0)
        noised = release.privatize(X, y, random_state=seed)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", sd.VarianceWarning)
                fit = sd.m_estimate(corrected, noised.X, noised.y)
            low, high = fit.confidence_interval().T
        except SymdebiasError:
            refused += 1
            continue
        covered["times as long" in fit.summary()].append(float(((low <= truth) & (truth <= high)).mean()))
    return refused, covered


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=200)
    draws = parser.parse_args(arguments).draws
    for records, noise, epsilon, theta in DESIGNS:
        refused, covered = measure(records, noise, epsilon, theta, draws)
        labels = "true labels" if epsilon is None else f"labels at {epsilon:g}"
        shown = ", ".join(f"{value:g}" for value in theta)
        cells = [f"{records:,} records, noise {noise:g}, {labels}, theta ({shown})", f"{refused / draws:.0%}"]
        for noted in (True, False):
            found = covered[noted]
            cells += [str(len(found)), f"{np.mean(found):.1%}" if found else ""]
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
