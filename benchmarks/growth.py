"""How time grows with records and with columns, for `sgd` and `m_estimate`, with the exponents, and a picture.

    python benchmarks/growth.py [--small] [--repeats 3] [--file released.parquet] [--picture docs/images/growth.png]

Noised records of a logistic model, the exponential loss (in closed form) and the log loss (a surrogate). One pass of
`sgd` in random order, and a whole `m_estimate` with its covariance, by processor time on one thread: the least of the
repeats, after a call that compiles; long calls are not repeated. Up to a hundred million records are read from Parquet,
where one pass of `sgd` takes them in the order of the file; `larger_than_memory.py --file` writes one that is kept,
and without it one is written here. An exponent is the slope of log time on log size, over all sizes and over the last
tenfold of them, where what does not grow (checks, the design of a surrogate, a few milliseconds) counts for little.
"""

import argparse
import math
import platform
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pyarrow.parquet as pq
from larger_than_memory import NOISE, write
from matplotlib.figure import Figure
from threadpoolctl import threadpool_limits

import symdebias as sd

COLUMNS, RECORDS = 10, 50_000
# Seconds after which a call is not repeated.
_LONG = 20.0
SIZES = {
    "records": [10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000],
    "columns": [2, 5, 10, 20, 50, 100, 200, 500, 1_000],
}
SMALL = {"records": [1_000, 2_000, 4_000], "columns": [2, 3, 4]}
IN_FILE = [1_000_000, 3_000_000, 10_000_000, 30_000_000, 100_000_000]
Curves = dict[str, dict[int, float]]


def drawn(records: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(columns)
    X = rng.uniform(-1, 1, (records, columns))
    theta = np.resize([1.0, -1.0, 0.5, -0.5], columns) / math.sqrt(columns / 4)
    y = np.where(rng.random(records) < 1 / (1 + np.exp(-X @ theta)), 1.0, -1.0)
    # Block by block: no second array of this size.
    for start in range(0, records, 2**16):
        X[start : start + 2**16] += NOISE * rng.normal(size=X[start : start + 2**16].shape)
    return X, y


def ways(X: np.ndarray, y: np.ndarray) -> dict[str, Callable[[], sd.Fit]]:
    release = sd.Release(sd.GaussianMechanism.from_scale(NOISE))
    exponential, logistic = (sd.debias(loss(), release) for loss in (sd.losses.exponential, sd.losses.logistic))
    return {
        "sgd, exponential": lambda: sd.sgd(exponential, X, y, average=0.5, random_state=0),
        "m_estimate, exponential": lambda: sd.m_estimate(exponential, X, y),
        "m_estimate, log loss": lambda: sd.m_estimate(logistic, X, y),
    }


def from_file(path: Path, records: int) -> dict[str, Callable[[], sd.Fit]]:
    """Return fits to the first records of a file, whose passes read it."""
    release = sd.Release({tuple(f"x{j}" for j in range(COLUMNS)): sd.GaussianMechanism.from_scale(NOISE)})
    X, y = sd.blocks.from_parquet(path, release=release, target="y")
    assert y is not None
    first, labels = sd.blocks.Rows((records, COLUMNS), X.__getitem__), sd.blocks.Rows((records,), y.__getitem__)
    corrected = sd.debias(sd.losses.exponential(), release)
    return {
        "sgd, exponential, from Parquet": lambda: sd.sgd(corrected, first, labels, order="given", average=0.5),
        "m_estimate, exponential, from Parquet": lambda: sd.m_estimate(corrected, first, labels),
    }


def least(call: Callable[[], object], repeats: int) -> float:
    times: list[float] = []
    # The first call compiles, or loads what was compiled: next to nothing of a long one.
    while len(times) <= repeats and sum(times) < _LONG:
        began = time.process_time()
        call()
        times.append(time.process_time() - began)
    return min(times[1:] or times)


def in_memory(by: str, fixed: int) -> Callable[[int], dict[str, Callable[[], sd.Fit]]]:
    """Return fits by size, where the other size is fixed."""
    return lambda size: ways(*(drawn(size, fixed) if by == "records" else drawn(fixed, size)))


def measured(by: str, sizes: list[int], fits: Callable[[int], dict[str, Callable[[], sd.Fit]]], repeats: int) -> Curves:
    """Return seconds by method and size."""
    found: Curves = {}
    for size in sizes:
        for name, call in fits(size).items():
            try:
                seconds = least(call, repeats)
            except sd.SymdebiasError as error:
                print(f"  {name}, {size:,} {by}: {error}")
                continue
            found.setdefault(name, {})[size] = seconds
            print(f"  {name:38}{size:>12,} {by:8}{seconds:12.4f} s", flush=True)
    return found


def exponent(times: dict[int, float]) -> float:
    return float(np.polyfit(np.log(list(times)), np.log(list(times.values())), 1)[0])


def last_tenfold(times: dict[int, float]) -> dict[int, float]:
    """Return the last tenfold of the sizes."""
    return {size: seconds for size, seconds in times.items() if 10 * size >= max(times)}


def said(by: str, curves: Curves) -> list[str]:
    lines = []
    for name, times in curves.items():
        if len(times) > 1:
            part = last_tenfold(times)
            lines.append(
                f"{name:38}{by:10}{exponent(times):8.2f}{exponent(part):8.2f}  from {min(part):,} on, "
                f"{times[max(times)] / max(times) * 1e9:,.0f} ns each at {max(times):,}"
            )
    return lines


def picture(panels: dict[str, tuple[int, Curves]]) -> Any:
    figure = Figure(figsize=(9.8, 4.0), layout="constrained")
    for panel, (by, (fixed, curves)) in zip(figure.subplots(1, 2), panels.items(), strict=True):
        kinds = zip(("#0072B2", "#D55E00", "#009E73", "#0072B2", "#D55E00"), "osD^v", strict=True)
        for (name, times), (colour, mark) in zip(curves.items(), kinds, strict=False):
            part = last_tenfold(times)
            slope = exponent(part)
            label = f"{name}: {slope:.2f}"
            inside = "white" if "Parquet" in name else colour
            panel.plot(
                list(times), list(times.values()), mark, color=colour, markerfacecolor=inside, markersize=4, label=label
            )
            middle = math.exp(np.mean(np.log(list(part.values()))))
            centre = math.exp(np.mean(np.log(list(part))))
            ends = np.array([min(part), max(part)], dtype=float)
            panel.plot(ends, middle * (ends / centre) ** slope, color=colour, linewidth=1.3)
        other = f"{fixed:,} {'columns' if by == 'records' else 'records'}"
        panel.set(xscale="log", yscale="log", xlabel=by, ylabel="seconds of one processor")
        panel.set_title(other, fontsize=10)
        panel.grid(alpha=0.25)
        panel.spines[["top", "right"]].set_visible(False)
        panel.legend(frameon=False, fontsize=8, title="exponent, last tenfold", title_fontsize=9, alignment="left")
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="a toy size, whose figures mean nothing")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--file", type=Path, help="records in Parquet; one that is there is read")
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()
    sizes = SMALL if options.small else SIZES
    fixed = {"records": COLUMNS, "columns": 1_000 if options.small else RECORDS}
    threads = numba.get_num_threads()
    numba.set_num_threads(1)
    try:
        with tempfile.TemporaryDirectory() as folder, threadpool_limits(1), warnings.catch_warnings():
            # Of a pass over so few records that it has not arrived.
            warnings.simplefilter("ignore", sd.ConvergenceWarning)
            panels = {
                by: (fixed[by], measured(by, own, in_memory(by, fixed[by]), options.repeats))
                for by, own in sizes.items()
            }
            path = options.file or Path(folder) / "released.parquet"
            in_file = SMALL["records"] if options.small else IN_FILE
            if not path.exists():
                write(path, max(in_file), COLUMNS)
            there = pq.read_metadata(path).num_rows
            panels["records"][1].update(
                measured(
                    "records", [size for size in in_file if size <= there], lambda size: from_file(path, size),
                    options.repeats,
                )
            )  # fmt: skip
    finally:
        numba.set_num_threads(threads)
    print(f"\n{platform.machine()}, Python {platform.python_version()}, least of {options.repeats}, one thread")
    print(f"{'exponents':48}{'all':>8}{'last':>8}")
    for by, (_, curves) in panels.items():
        print("\n".join(said(by, curves)))
    if options.picture:
        picture(panels).savefig(options.picture, dpi=150)


if __name__ == "__main__":
    main()
