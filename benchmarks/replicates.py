"""What many descents in one pass take, in units of one `symdebias.sgd`: processor time, the least of repeats in turn.

    python benchmarks/replicates.py [--records 200000 1000000] [--columns 10] [--replicates 100] [--repeats 5]

A grid of step sizes and penalties, exponential loss, batches of 128, one pass or `--epochs`; checks of the data and the
examination of every fit are included. One thread. In the order "circle" replicates begin at as many places of one
random order, that of the epoch.
Then, for 20 of them on 60,000 records of 5 columns: the standard deviation of a parameter over the places, over that
of as many random orders, and the same for the mean of the 20, in so many runs.
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
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=1)
    options = parser.parse_args()
    numba.set_num_threads(1)
    warnings.simplefilter("ignore", sd.exceptions.ConvergenceWarning)
    side = math.ceil(math.sqrt(options.replicates))
    grid = [{"step_size": size, "l2": l2} for size in np.geomspace(0.005, 0.1, side) for l2 in np.linspace(0, 1, side)]
    grid = grid[: options.replicates]
    print(f"{'records':>10}  {'order':9}{'one sgd, ms':>12}{f'{len(grid)} replicates, ms':>20}{'ratio':>7}{'apart':>9}")
    for records in options.records:
        corrected, X, y = problem(records, options.columns)
        for order in ("shuffled", "given", "circle"):
            how = {
                "order": "given" if order == "given" else "shuffled", "random_state": 0, "epochs": options.epochs
            }  # fmt: skip
            shifts = np.arange(len(grid)) / len(grid) if order == "circle" else np.zeros(len(grid))
            own = [{**one, "shift": shift} for one, shift in zip(grid, shifts.tolist(), strict=True)]

            def alone(place: int = 0) -> sd.Fit:
                return sd.sgd(corrected, X, y, **grid[place], **how)  # noqa: B023

            def together() -> sd.solvers.Replicates:
                return sd.sgd_replicates(corrected, X, y, own, **how)  # noqa: B023

            places = [0] if order == "circle" else range(0, len(grid), max(1, len(grid) // 5))
            found = together()
            apart = max(float(np.abs(found.thetas[place] - alone(place).theta).max()) for place in places)
            times = np.array([[seconds(alone), seconds(together)] for _ in range(options.repeats)])
            one, many = 1e3 * times.min(axis=0)
            print(f"{records:10,}  {order:9}{one:12.1f}{many:20.1f}{many / one:7.1f}{apart:9.0e}", flush=True)
    spread(
        min(60_000, options.records[0]), min(5, options.columns), options.runs, min(20, options.replicates),
        options.epochs,
    )  # fmt: skip


def spread(records: int, columns: int, runs: int, count: int, epochs: int) -> None:
    """Print how far fits from different places of one order lie apart, beside fits in orders of their own."""
    corrected, X, y = problem(records, columns)
    print(f"{'step size':>10}{'average':>9}{'places / orders':>17}{'of the means':>14}")
    for size in (0.005, 0.02, 0.1):
        for average in (False, 0.5, True):
            how = {"average": average, "order": "shuffled", "epochs": epochs}
            settings = [{"step_size": size, "shift": place / count} for place in range(count)]
            thetas = [
                (
                    sd.sgd_replicates(corrected, X, y, settings, random_state=run, **how).thetas,
                    [
                        sd.sgd(corrected, X, y, step_size=size, random_state=runs + run * count + one, **how).theta
                        for one in range(count)
                    ],
                )
                for run in range(runs)
            ]
            places, orders = (np.array(one) for one in zip(*thetas, strict=True))
            apart, mean = (
                float(np.sqrt(spread_of(places).mean() / spread_of(orders).mean()))
                for spread_of in (lambda of: of.var(axis=1, ddof=1), lambda of: of.mean(axis=1).var(axis=0, ddof=1))
            )
            print(f"{size:10g}{average!s:>9}{apart:17.2f}{mean:14.2f}", flush=True)


if __name__ == "__main__":
    main()
