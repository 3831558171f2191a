"""How near do learned steps come? One pass of descent and the root of the mean corrected score on the same records.

    python benchmarks/learned_steps.py [--draws 8] [--records 1000 5000 50000] [--losses least_squares exponential ...]

For each loss and design: the distance of `sgd` from `m_estimate`, as the root mean square over parameters and draws of
their difference in standard errors, in one pass of batches of 128 by the default step sizes, and in five; and how many
descents were refused. Draws that `m_estimate` refuses are left out and counted.
"""

import argparse
import math
import warnings
from collections.abc import Callable

import numpy as np
from scipy.special import expit

import symdebias as sd

NOISE, THETA = 0.4, np.array([1.0, -0.5, 0.5, 0.0])
DESIGNS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "normal": lambda rng, n: rng.normal(size=(n, 4)),
    "correlated": lambda rng, n: 0.9 * rng.normal(size=(n, 1)) + 0.4 * rng.normal(size=(n, 4)),
    "lognormal": lambda rng, n: np.exp(rng.normal(size=(n, 4))) - 1,
    "t4": lambda rng, n: rng.standard_t(4, size=(n, 4)),
    "around 5": lambda rng, n: rng.normal(size=(n, 4)) + 5,
}
TARGETS: dict[str, Callable[[np.random.Generator, np.ndarray], np.ndarray]] = {
    "least_squares": lambda rng, u: u + rng.normal(size=len(u)),
    "exponential": lambda rng, u: np.where(rng.random(len(u)) < expit(2 * u), 1.0, -1.0),
    "logistic": lambda rng, u: np.where(rng.random(len(u)) < expit(u), 1.0, -1.0),
    "poisson": lambda rng, u: rng.poisson(np.exp(np.minimum(u / 2, 4))).astype(float),
}


def released(loss: str, design: str, records: int, draw: int) -> tuple[sd.CorrectedLoss, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(draw)
    X = DESIGNS[design](rng, records)
    noised = sd.Release(sd.GaussianMechanism.from_scale(NOISE)).privatize(
        X, TARGETS[loss](rng, X @ THETA), random_state=draw
    )
    return sd.debias(getattr(sd.losses, loss)(), noised.release), noised.X, noised.y


def distances(loss: str, design: str, records: int, draws: int) -> tuple[dict[int, list[float]], int, int]:
    """Return squared distances for one pass and for five, how many descents were refused, and how many problems."""
    found: dict[int, list[float]] = {1: [], 5: []}
    lost = hopeless = 0
    for draw in range(draws):
        corrected, X, y = released(loss, design, records, draw)
        try:
            root = sd.m_estimate(corrected, X, y)
        except sd.exceptions.SymdebiasError:
            hopeless += 1
            continue
        for epochs, own in found.items():
            try:
                fit = sd.sgd(corrected, X, y, epochs=epochs, random_state=draw)
            except sd.exceptions.SymdebiasError:
                lost += 1
                continue
            own.append(float(np.mean(((fit.theta - root.theta) / root.standard_errors) ** 2)))
    return found, lost, hopeless


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=8)
    parser.add_argument("--records", type=int, nargs="+", default=[1_000, 5_000, 50_000])
    parser.add_argument("--losses", choices=TARGETS, nargs="+", default=list(TARGETS))
    parser.add_argument("--designs", choices=DESIGNS, nargs="+", default=list(DESIGNS))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"{'loss':14}{'columns':12}{'records':>8}{'one pass':>10}{'five':>7}{'refused':>9}{'by m_estimate':>15}")
    for loss in options.losses:
        for design in options.designs:
            for records in options.records:
                found, lost, hopeless = distances(loss, design, records, options.draws)
                once, more = (f"{math.sqrt(np.mean(own)):.2f}" if own else "" for own in found.values())
                print(f"{loss:14}{design:12}{records:8,}{once:>10}{more:>7}{lost:9}{hopeless:15}", flush=True)


if __name__ == "__main__":
    main()
