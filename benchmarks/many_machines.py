"""What a fit to partitions costs: passes, bytes that travel, processor time, and the price of a task on a cluster.

    python benchmarks/many_machines.py [--records 2000000] [--columns 10] [--partitions 20] [--tasks 1000]

The fit is `symdebias.distributed.m_estimate` on noised records of a logistic model, once by threads, where tasks and
answers are pickled to be weighed, and once on a cluster of two worker processes on this machine: processor seconds of
the caller, who has the scheduler with him, and of the workers. A task's price is that of an empty one. The rows below
reckon what 10^12 records take of that: processor time by records, answers by partitions.
"""

import argparse
import functools
import multiprocessing
import pickle
import time
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import dask
import dask.array as da
import numpy as np

import symdebias as sd
from symdebias.interfaces.distributed.partitions import Partitions

NOISE, LOSSES = 0.3, {"exponential": sd.losses.exponential, "logistic": sd.losses.logistic}
# Records of a partition, passes and records that are reckoned with in the end.
LARGE, ALL = 10**8, 10**12


def drawn(records: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (records, columns))
    y = np.where(rng.random(records) < 1 / (1 + np.exp(-X @ np.linspace(-1, 1, columns) / 2)), 1.0, -1.0)
    X += NOISE * rng.normal(size=X.shape)
    return X, y


def corrected_for(loss: str) -> sd.CorrectedLoss:
    return sd.debias(LOSSES[loss](), sd.Release(sd.GaussianMechanism.from_scale(NOISE)))


class Weighed:
    """Counts passes, and weighs what goes to a partition and what comes back."""

    def __init__(self) -> None:
        self.passes: Counter[str] = Counter()
        self.sent = self.answered = self.fetched = 0

    def __enter__(self) -> "Weighed":
        self._plain = Partitions._tasks

        def tasks(own: Partitions, work: Any, more: Any = None, *, keep_errors: bool = False) -> list[Any]:
            inner = getattr(work, "keywords", {})
            is_sample = more is not None
            name = "samples" if is_sample else "sums" if not keep_errors else "others"
            self.passes[name] += 1

            def said(*arguments: Any) -> Any:
                found = work(*arguments)
                size = len(pickle.dumps(found))
                if is_sample or keep_errors:
                    self.fetched += size
                else:
                    self.answered += size
                return found

            if not is_sample:
                # A function of this script is pickled by what it is a part of: what it is told of is what weighs.
                self.sent += len(own) * len(pickle.dumps({key: one for key, one in inner.items() if key != "work"}))
            return self._plain(own, said, more, keep_errors=keep_errors)

        Partitions._tasks = tasks  # type: ignore[method-assign, assignment]
        return self

    def __exit__(self, *error: object) -> None:
        Partitions._tasks = self._plain  # type: ignore[method-assign]


def partitioned(X: np.ndarray, y: np.ndarray, partitions: int) -> tuple[Any, Any]:
    chunk = -(-len(X) // partitions)
    return da.from_array(X, chunks=(chunk, -1)), da.from_array(y, chunks=chunk)


def empty(part: np.ndarray) -> int:
    return len(part)


def on_a_cluster(
    X: np.ndarray, y: np.ndarray, partitions: int, tasks: int
) -> tuple[dict[str, tuple[float, float]], tuple[float, float]]:
    """Return processor seconds of the caller and of the workers: of a fit with each loss, and of an empty task."""
    from distributed import Client, LocalCluster, wait

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):

        def seconds(call: Callable[[], object]) -> tuple[float, float]:
            before = time.process_time(), sum(client.run(time.process_time).values())
            call()
            return time.process_time() - before[0], sum(client.run(time.process_time).values()) - before[1]

        with warnings.catch_warnings():
            # Of a large graph: this is where the records come to the workers.
            warnings.simplefilter("ignore", UserWarning)
            parts = [one.persist() for one in partitioned(X, y, partitions)]
            wait(parts)
        fits = {}
        for loss in LOSSES:
            fit = functools.partial(sd.distributed.m_estimate, corrected_for(loss), *parts)
            # In a new worker the first ones compile.
            fit(), fit()
            fits[loss] = seconds(fit)
        empties = Partitions(X=da.zeros((tasks, 1), chunks=(1, 1)).persist())
        caller, workers = seconds(lambda: empties.each(empty))
        return fits, (caller / tasks, workers / tasks)


def median(fit: Callable[..., object], *arguments: Any) -> float:
    """Return the median of the processor seconds of three calls."""
    times = []
    for _ in range(3):
        began = time.process_time()
        fit(*arguments)
        times.append(time.process_time() - began)
    return float(np.median(times))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--columns", type=int, default=10)
    parser.add_argument("--partitions", type=int, default=20)
    parser.add_argument("--tasks", type=int, default=1_000)
    parser.add_argument("--no-cluster", action="store_true", help="threads alone")
    options = parser.parse_args()
    X, y = drawn(options.records, options.columns)
    print(f"{options.records:,} records of {options.columns} columns in {options.partitions} partitions\n")
    head = (
        "passes",
        "sums",
        "samples",
        "to / from a task",
        "samples MB",
        "one place s",
        "parts s",
        "caller, workers s",
    )
    print(
        f"{'':14}{head[0]:>8}{head[1]:>7}{head[2]:>9}{head[3]:>20}{head[4]:>12}{head[5]:>13}{head[6]:>9}{head[7]:>19}"
    )
    fits: dict[str, tuple[float, float]] = {}
    if not options.no_cluster:
        fits, price = on_a_cluster(X, y, options.partitions, options.tasks)
    for loss in LOSSES:
        corrected = corrected_for(loss)
        parts = partitioned(X, y, options.partitions)
        with dask.config.set(scheduler="threads"):
            here = sd.m_estimate(corrected, X, y)
            with Weighed() as weighed:
                there = sd.distributed.m_estimate(corrected, *parts)
            np.testing.assert_allclose(there.theta, here.theta, rtol=1e-10)
            np.testing.assert_allclose(there.standard_errors, here.standard_errors, rtol=1e-10)
            in_parts, as_a_whole = (
                median(sd.distributed.m_estimate, corrected, *parts),
                median(sd.m_estimate, corrected, X, y),
            )
        passes = weighed.passes["sums"] + weighed.passes["others"]
        tasks = passes * options.partitions
        of_sums = weighed.answered / (weighed.passes["sums"] * options.partitions)
        cluster = ", ".join(f"{seconds:.2f}" for seconds in fits[loss]) if fits else "-"
        travel = f"{weighed.sent / tasks:,.0f} / {of_sums:,.0f} B"
        print(
            f"{loss:14}{passes:8}{weighed.passes['sums']:7}{weighed.passes['samples']:9}{travel:>20}"
            f"{weighed.fetched / 1e6:12.1f}{as_a_whole:13.2f}{in_parts:9.2f}{cluster:>19}"
        )
        partitions = ALL // LARGE
        hours = in_parts / options.records * ALL / 3600
        print(
            f"{'':14}10^12 records in {partitions:,} partitions: {hours:,.0f} processor hours, "
            f"{passes * partitions:,} tasks, {of_sums * weighed.passes['sums'] * partitions / 1e6:,.0f} MB of sums"
        )
    if fits:
        print(
            f"\nan empty task on a cluster: {1e3 * price[0]:.2f} ms of caller and scheduler, {1e3 * price[1]:.2f} of a "
            "worker"
        )


if __name__ == "__main__":
    multiprocessing.freeze_support()
    main()
