"""How much memory fits, metrics and releases take besides records that are in memory: the largest extra resident set.

    python benchmarks/memory.py [--records 1000000] [--columns 10] [--kinds array float32 ...] [--work m_estimate ...]

Each figure is of a process of its own, which has done the same with fewer records before, so that what is imported and
compiled is not in it. Shares are of the size of X as it is given. What `privatize` returns is in its figure. It
needs the counters of Linux.
"""

import argparse
import ctypes
import gc
import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

import symdebias as sd

# Records of the first run: so many that all that is compiled for many records is there, and tables are not copied.
FIRST, NOISE = 1_000_000, 0.3
PROCESS = Path("/proc/self")


def names(columns: int) -> tuple[str, ...]:
    return tuple(f"x{place}" for place in range(columns))


KINDS: dict[str, Callable[[Any], Any]] = {
    "array": lambda X: X,
    "array by columns": np.asfortranarray,
    "float32": lambda X: X.astype(np.float32),
    "float32 by columns": lambda X: np.asfortranarray(X, dtype=np.float32),
    "every second column": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "pandas": lambda X: pd.DataFrame(X, columns=names(X.shape[1])),
    "polars": lambda X: pl.DataFrame(dict(zip(names(X.shape[1]), np.ascontiguousarray(X.T), strict=True))),
    "pyarrow": lambda X: pa.table(dict(zip(names(X.shape[1]), np.ascontiguousarray(X.T), strict=True))),
}


def released(columns: int) -> sd.Release:
    return sd.Release({names(columns): sd.GaussianMechanism.from_scale(NOISE)})


def fitted(solve: Callable[..., sd.Fit], loss: Callable[[], sd.Loss]) -> Callable[..., Any]:
    return lambda columns, X, y: solve(sd.debias(loss(), released(columns)), X, y)


def judged(columns: int, X: Any, y: Any) -> Any:
    return sd.evaluation.evaluate(np.linspace(-1, 1, columns), X, y, metric="log_loss", release=released(columns))


def privatized(columns: int, X: Any, y: Any) -> Any:
    own = {name: sd.LaplaceMechanism(1.0, bounds=(-3, 3)) for name in names(columns)}
    return sd.Release(own, sd.RandomizedResponse(1.0)).privatize(X, y, random_state=0)


def in_one_vector(columns: int, X: Any, y: Any) -> Any:
    """Return records noised by one mechanism, which have names where they came with some."""
    release = sd.Release(sd.GaussianMechanism(5.0, 1e-5, 3.0), sd.RandomizedResponse(1.0))
    return release.privatize(X, y, outside="clip-all")


WORK: dict[str, Callable[..., Any]] = {
    "m_estimate, exponential": fitted(sd.m_estimate, sd.losses.exponential),
    "m_estimate, logistic": fitted(sd.m_estimate, sd.losses.logistic),
    "sgd, exponential": fitted(lambda *records: sd.sgd(*records, random_state=0), sd.losses.exponential),
    "evaluate, log loss": judged,
    "privatize, each column": privatized,
    "privatize, one mechanism": in_one_vector,
}


def records_of(count: int, columns: int, kind: str) -> tuple[Any, Any]:
    rng = np.random.default_rng(count)
    X, y = np.empty((count, columns)), np.empty(count)
    for start in range(0, count, 50_000):
        part = rng.uniform(-1, 1, (min(50_000, count - start), columns))
        chance = 1 / (1 + np.exp(-2 * part @ np.linspace(-1, 1, columns)))
        y[start : start + 50_000] = np.where(rng.random(len(part)) < chance, 1.0, -1.0)
        X[start : start + 50_000] = part + NOISE * rng.normal(size=part.shape)
    return KINDS[kind](X), y


def resident(which: str) -> float:
    """Return the resident set, or the largest so far, in bytes."""
    found = next(line for line in (PROCESS / "status").read_text().splitlines() if line.startswith(which))
    return 1024.0 * int(found.split()[1])


def measured(name: str, kind: str, count: int, columns: int) -> tuple[float, float]:
    """Return how many bytes more were resident at the most, and the processor time in seconds."""
    WORK[name](columns, *records_of(min(count, FIRST), columns, kind))
    X, y = records_of(count, columns, kind)
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    (PROCESS / "clear_refs").write_text("5")
    before, began = resident("VmRSS"), time.process_time()
    done = WORK[name](columns, X, y)
    seconds, largest = time.process_time() - began, resident("VmHWM")
    del done
    return largest - before, seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=10)
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=list(KINDS), metavar="KIND")
    parser.add_argument("--work", nargs="+", default=list(WORK), choices=list(WORK), metavar="WORK")
    options = parser.parse_args()
    if not (PROCESS / "clear_refs").exists():
        raise SystemExit("the largest resident set is started anew by /proc/self/clear_refs, which Linux has.")
    print(f"{options.records:,} records of {options.columns} columns: MB besides them, share of X, processor s\n")
    start = multiprocessing.get_context("spawn")
    for name in options.work:
        for kind in options.kinds:
            with ProcessPoolExecutor(1, start) as process:
                extra, seconds = process.submit(measured, name, kind, options.records, options.columns).result()
            size = (4 if kind.startswith("float32") else 8) * options.records * options.columns
            print(f"{name:26}{kind:22}{extra / 1e6:8.1f}{extra / size:8.1%}{seconds:8.2f}", flush=True)


if __name__ == "__main__":
    main()
