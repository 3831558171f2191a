"""Attack single released values by their low bits, and time noise that withstands.

    python benchmarks/hardened_noise.py [--draws 10000000] [--repeats 3]

The attack (Mironov 2012): a mechanism noises 0, and for each released value it is asked whether any noise at all,
added in float64 to the other end of the range, gives this value. Where none does, the value says "this was 0" with
certainty. Beside the shares of such values stand draws per second of processor time (the best of the repeats), of plain
and of hardened noise, and of the samplers of diffprivlib and OpenDP where these are installed; and the time of a call
where none, half or all of the records lie outside of their bounds, which must make no difference.

The last table has how many times as fast two threads are as one, by the clock: the ceiling of the machine, that of two
processes which run a bare compiled sampler or copy memory, each on a processor of its own, and what calls come to. The
threads stand on one processor each as well, so that it is the calls that are timed and not where a system puts them.
"""

import argparse
import functools
import importlib.util
import multiprocessing
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numba
import numpy as np

import symdebias as sd
from symdebias.codegen import draws
from symdebias.mechanisms import sampling
from symdebias.solvers.central.grids import noised


class OfFits:
    """The noise of `output_perturbation`, as it is added to what was computed."""

    def privatize(self, values: np.ndarray, noise: str) -> np.ndarray:
        """Return noised values, rounded to the solver's grid first."""
        return noised(values, 2.0**-20, 0.9, sampling.source(None, noise), radial=False)


MECHANISMS = {
    "Laplace, epsilon 1": (sd.LaplaceMechanism(1.0, bounds=(0.0, 1.0)), 1),
    "Gaussian, epsilon 5, delta 1e-5": (sd.GaussianMechanism(5.0, 1e-5, 1.0), 1),
    "spherical Laplace, epsilon 5, 10 columns": (sd.SphericalLaplaceMechanism(5.0, 1.0), 10),
    "staircase, epsilon 2": (sd.StaircaseMechanism(2.0, bounds=(0.0, 1.0)), 1),
    "output perturbation, normal noise": (OfFits(), 1),
    "randomized response, epsilon 1": (sd.RandomizedResponse(1.0, categories=(0, 1)), 1),
}
BLOCK = 1_000_000
# Of fewer numbers nothing is told by the clock of two processes.
_FEW = 100_000


def excluded(released: np.ndarray, other: float) -> np.ndarray:
    """Return which values no noise gives that is added to the other input in float64."""
    noise = released - other
    near = (noise, np.nextafter(noise, np.inf), np.nextafter(noise, -np.inf))
    return ~np.any([other + one == released for one in near], axis=0)


def share_excluded(
    mechanism: sd.mechanisms.Mechanism | OfFits, columns: int, draws: int, noise: str
) -> tuple[int, int]:
    """Return how many of so many values exclude the other end of the range."""
    found = done = 0
    other = 1.0
    while done < draws:
        count = min(BLOCK, draws - done) // columns
        released = mechanism.privatize(np.zeros((count, columns) if columns > 1 else count), noise=noise)
        found += int(excluded(released.ravel(), other).sum())
        done += released.size
    return found, done


def seconds(draw: Callable[[], object]) -> float:
    """Return the processor time of a call."""
    began = time.process_time()
    draw()
    return time.process_time() - began


def per_second(draw: Callable[[], object], count: int, repeats: int) -> float:
    """Return millions of draws per second of processor time."""
    return count / min(seconds(draw) for _ in range(repeats)) / 1e6


def by_share(mechanism: sd.mechanisms.Mechanism, columns: int, count: int, repeats: int) -> list[float]:
    """Return the milliseconds that values take of which none, half and all lie outside, measured in turns."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(count // columns, columns))
    values /= np.linalg.norm(values, axis=1, keepdims=True)
    far = rng.random((len(values), 1)) < 0.5
    kinds = [0.5 * values, np.where(far, 7.0, 0.5) * values, 7.0 * values]
    given, times = np.empty_like(values), np.full((repeats, len(kinds)), np.inf)
    for repeat in range(repeats):
        for place in rng.permutation(len(kinds)):
            # From one place in memory.
            np.copyto(given, kinds[place])
            times[repeat, place] = 1e3 * seconds(functools.partial(mechanism.privatize, given))
    return times.min(axis=0).tolist()


def place(processor: int, thread: int = 0) -> None:
    """Put a thread, or this one, onto one processor where the system can do so."""
    with suppress(AttributeError, OSError):
        os.sched_setaffinity(thread, {processor})


def bare(name: str, count: int) -> Callable[[], object]:
    """Return work that takes no part of the library with it: a compiled sampler in a cache, or copies of memory."""
    if name == "copy":
        ones, others = np.ones(4 * count), np.ones(4 * count)
        return lambda: np.copyto(others, ones)
    kernel, pairs = draws.compiled("normal"), 2**15
    words = np.random.default_rng(0).integers(-(2**63), 2**63 - 1, (2, pairs), dtype=np.int64)
    found, places = np.empty(2 * pairs, dtype=np.int64), np.empty(64, dtype=np.int64)

    def draw() -> None:
        for _ in range(0, count, 2 * pairs):
            kernel(words[0], words[1], 1e6, 0.4999, 2**46, found, places)

    return draw


def one_of(name: str, count: int, processor: int, repeats: int, meet: Any, told: Any) -> None:
    """Time bare work in a process of its own, which begins each time with the others."""
    place(processor)
    draw = bare(name, count)
    draw()
    for _ in range(repeats):
        meet.wait()
        began = time.perf_counter()
        draw()
        told.put(time.perf_counter() - began)


def ceiling(name: str, count: int, repeats: int) -> float:
    """Return how many times as much two processes do as one does in the same time."""
    start, best = multiprocessing.get_context("spawn"), []
    for together in (1, 2):
        meet, told = start.Barrier(together), start.Queue()
        processes = [
            start.Process(target=one_of, args=(name, count, processor, repeats, meet, told))
            for processor in range(together)
        ]
        for process in processes:
            process.start()
        times = [told.get() for _ in range(repeats * together)]
        for process in processes:
            process.join()
        best.append(min(max(times[first : first + together]) for first in range(0, len(times), together)))
    return 2 * best[0] / best[1]


def by_threads(draw: Callable[[], object], repeats: int) -> tuple[float, float]:
    """Return the milliseconds of a call on one thread and on two, measured in turns."""
    before, times = numba.get_num_threads(), {1: [], 2: []}
    known = set(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    for _ in range(repeats + 1):
        for threads, found in times.items():
            numba.set_num_threads(threads)
            began = time.perf_counter()
            draw()
            found.append(time.perf_counter() - began)
        for thread in threading.enumerate():
            if thread.native_id is not None:
                place(int(thread is not threading.main_thread()), thread.native_id)
    numba.set_num_threads(before)
    for thread in threading.enumerate():
        if known is not None and thread.native_id is not None:
            os.sched_setaffinity(thread.native_id, known)
    # Without the first ones, which start the thread.
    one, two = (1e3 * min(found[1:]) for found in times.values())
    return one, two


def on_two_threads(count: int, repeats: int) -> None:
    """Print how calls grow faster by a second thread, and what the machine allows."""
    if min(numba.config.NUMBA_NUM_THREADS, os.cpu_count() or 1) < 2:
        print("two threads: there is one processor")
        return
    # Three processes each, which take longer to start than few draws.
    for name, said in (("sampler", "bare compiled sampler"), ("copy", "copies of memory")) if count >= _FEW else ():
        print(f"ceiling of two processes, {said}: {ceiling(name, count, 5 * repeats):.2f}", flush=True)
    rng = np.random.default_rng(0)
    rows, numbers = rng.uniform(-0.3, 0.3, (count // 10, 10)), rng.random(count)
    normal, laplace = sd.Release(sd.GaussianMechanism(5.0, 1e-5, 1.0)), sd.LaplaceMechanism(1.0, bounds=(0.0, 1.0))
    labels, coins = np.where(numbers < 0.5, -1.0, 1.0), sd.RandomizedResponse(1.0)
    counts, geometric = np.floor(20 * numbers), sd.DiscreteLaplaceMechanism(1.0, bounds=(0, 20))
    whole = sd.DiscreteStaircaseMechanism(1.0, bounds=(0, 20))
    stairs, cap = sd.StaircaseMechanism(2.0, bounds=(0.0, 1.0)), sd.SphericalCapMechanism(5.0, 1.0)
    calls: dict[str, Callable[[], object]] = {
        "privatize, normal": functools.partial(normal.privatize, rows),
        "privatize, normal, seeded": functools.partial(normal.privatize, rows, random_state=0),
        "Laplace": functools.partial(laplace.privatize, numbers),
        "labels": functools.partial(coins.privatize, labels),
        "labels of twenty": functools.partial(sd.RandomizedResponse(1.0, categories=range(20)).privatize, counts),
        "staircase": functools.partial(stairs.privatize, numbers),
        "discrete Laplace": functools.partial(geometric.privatize, counts),
        "discrete staircase": functools.partial(whole.privatize, counts),
        "cap": functools.partial(cap.privatize, rows[: max(1, len(rows) // 2)]),
    }
    print(f"{f'{count:,} numbers by the clock, ms':<42}{'one thread':>12}{'two':>10}{'times':>8}")
    for name, call in calls.items():
        one, two = by_threads(call, 5 * repeats)
        print(f"{name:<42}{one:>12.2f}{two:>10.2f}{one / two:>8.2f}", flush=True)


def peers(count: int) -> dict[str, Callable[[], object]]:
    """Return samplers of other packages that are installed, for so many draws."""
    found: dict[str, Callable[[], object]] = {}
    if importlib.util.find_spec("diffprivlib") is not None:
        mechanisms = importlib.import_module("diffprivlib.mechanisms")
        laplace = mechanisms.Laplace(epsilon=1.0, sensitivity=1.0)
        normal = mechanisms.GaussianAnalytic(epsilon=1.0, delta=1e-5, sensitivity=1.0)
        found["diffprivlib Laplace"] = lambda: [laplace.randomise(0.0) for _ in range(count)]
        found["diffprivlib GaussianAnalytic"] = lambda: [normal.randomise(0.0) for _ in range(count)]
    if importlib.util.find_spec("opendp") is not None:
        prelude = importlib.import_module("opendp.prelude")
        prelude.enable_features("contrib")
        domain = prelude.vector_domain(prelude.atom_domain(T=float, nan=False))
        one, two = prelude.l1_distance(T=float), prelude.l2_distance(T=float)
        exponential = prelude.m.make_laplace(domain, one, scale=1.0)
        gaussian = prelude.m.make_gaussian(domain, two, scale=1.0)
        found["OpenDP make_laplace"] = lambda: exponential([0.0] * count)
        found["OpenDP make_gaussian"] = lambda: gaussian([0.0] * count)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=10_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    count = min(options.draws, 2_000_000)
    print(f"{options.draws:,} values of each; millions of numbers per second of one core")
    print(f"{'':<42}{'excluded, plain':>17}{'hardened':>12}{'plain':>9}{'hardened':>10}")
    for name, (mechanism, columns) in MECHANISMS.items():
        cells, speeds = [], []
        for noise in ("plain", "hardened"):
            found, done = share_excluded(mechanism, columns, options.draws, noise)
            cells.append(f"{found / done:.1%}" if found else f"0 of {done:.0e}")
            values = np.zeros((count // columns, columns) if columns > 1 else count)
            speeds.append(
                per_second(functools.partial(mechanism.privatize, values, noise=noise), count, options.repeats)
            )
        print(f"{name:<42}{cells[0]:>17}{cells[1]:>12}{speeds[0]:>9.1f}{speeds[1]:>10.1f}", flush=True)
    coins = functools.partial(sampling.flips, sd.RandomizedResponse(1.0).keep_probability, count)
    cap, records = sd.SphericalCapMechanism(5.0, 1.0), np.zeros((count // 20, 10))
    trials = cap.trials(10)
    for name, draw, drawn in (
        ("coins of randomized response", lambda: coins(sampling.source(None)), count),
        ("secret bits, in words", lambda: sampling.source(None).words(count), count),
        (
            f"records of a cap, epsilon 5, 10 columns, {trials:.1f} points each",
            lambda: cap.privatize(records),
            count // 20,
        ),
    ):
        print(f"{name:<80}{per_second(draw, drawn, options.repeats):>10.3g}", flush=True)
    shares = by_share(sd.GaussianMechanism(5.0, 1e-5, 1.0), 10, count, 10 * options.repeats)
    print("normal noise, ms of a call with no, half, all records outside:", *(f"{time:.2f}" for time in shares))
    on_two_threads(count, options.repeats)
    few = count // 20
    for name, other in peers(few).items():
        print(f"{name:<60}{per_second(other, few, 1):>20.2f}")


if __name__ == "__main__":
    main()
