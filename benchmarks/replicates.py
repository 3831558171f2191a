"""What many descents in one pass take, in units of one `symdebias.sgd`: processor time, the least of repeats in turn.

    python benchmarks/replicates.py [--records 200000 1000000] [--columns 10] [--replicates 100] [--repeats 5]

A grid of step sizes and penalties, exponential loss, batches of 128, one pass; checks of the data and the examination
of every fit are included. One thread.
"""

import argparse
import math
import time
import warnings
from collections.abc import Callable

import numba
import numpy as np

import symdebias as sd


def problem(records: int, columns: int) -> tuple[sd.CorrectedLoss, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, (records, columns))
    theta = rng.normal(size=columns) * 4 / math.sqrt(columns)
    y = np.where(rng.random(records) < 1 / (1 + np.exp(-X @ theta)), 1.0, -1.0)
    release = sd.Release(sd.GaussianMechanism.from_scale(0.3), sd.RandomizedResponse(3.0))
    noised = release.privatize(X, y, random_state=1)
    return sd.debias(sd.losses.exponential(), noised.release), noised.X, noised.y


def seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, nargs="+", default=[200_000, 1_000_000])
    parser.add_argument("--columns", type=int, default=10)
    parser.add_argument("--replicates", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    numba.set_num_threads(1)
    warnings.simplefilter("ignore", sd.exceptions.ConvergenceWarning)
    side = math.ceil(math.sqrt(options.replicates))
    grid = [{"step_size": size, "l2": l2} for size in np.geomspace(0.005, 0.1, side) for l2 in np.linspace(0, 1, side)]
    grid = grid[: options.replicates]
    print(f"{'records':>10}  {'order':9}{'one sgd, ms':>12}{f'{len(grid)} replicates, ms':>20}{'ratio':>7}{'apart':>9}")
    for records in options.records:
        corrected, X, y = problem(records, options.columns)
        for order in ("shuffled", "given"):
            how = {"order": order, "random_state": 0}

            def alone(place: int = 0) -> sd.Fit:
                return sd.sgd(corrected, X, y, **grid[place], **how)  # noqa: B023

            def together() -> sd.solvers.Replicates:
                return sd.sgd_replicates(corrected, X, y, grid, **how)  # noqa: B023

            places = range(0, len(grid), max(1, len(grid) // 5))
            found = together()
            apart = max(float(np.abs(found.thetas[place] - alone(place).theta).max()) for place in places)
            times = np.array([[seconds(alone), seconds(together)] for _ in range(options.repeats)])
            one, many = 1e3 * times.min(axis=0)
            print(f"{records:10,}  {order:9}{one:12.1f}{many:20.1f}{many / one:7.1f}{apart:9.0e}", flush=True)


if __name__ == "__main__":
    main()
