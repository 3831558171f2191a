"""What fits and metrics of records in Parquet take, beside a bare read of the file: processor time, wall time, memory.

    python benchmarks/larger_than_memory.py [--records 10000000] [--columns 10] [--file released.parquet]

Noised records of a logistic model are written in row groups of a million, and read by
`symdebias.blocks.from_parquet`. Each row is a process of its own. Memory is its largest resident set, what is
imported included; it needs the counters of Linux.
"""

import argparse
import multiprocessing
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import symdebias as sd

GROUP, NOISE = 1_000_000, 0.3


def write(path: Path, records: int, columns: int) -> None:
    theta, writer = np.linspace(-1, 1, columns) / 2, None
    for start in range(0, records, GROUP):
        count = min(GROUP, records - start)
        rng = np.random.default_rng(start)
        X = rng.uniform(-1, 1, (count, columns))
        y = np.where(rng.random(count) < 1 / (1 + np.exp(-X @ theta)), 1.0, -1.0)
        X += NOISE * rng.normal(size=X.shape)
        table = pa.table({**{f"x{j}": X[:, j] for j in range(columns)}, "y": y})
        if writer is None:
            writer = pq.ParquetWriter(path, table.schema, compression="none", use_dictionary=False)
        writer.write_table(table, row_group_size=count)
    if writer is not None:
        writer.close()


def bare_read(path: Path, columns: int) -> float:
    file, total = pq.ParquetFile(path), 0.0
    for group in range(file.metadata.num_row_groups):
        table = file.read_row_group(group, use_threads=False)
        total += sum(float(table.column(name).to_numpy().sum()) for name in table.column_names)
    return total


def released(columns: int) -> sd.Release:
    return sd.Release({tuple(f"x{j}" for j in range(columns)): sd.GaussianMechanism.from_scale(NOISE)})


def fitted(loss: Callable[[], sd.Loss], solve: Callable[..., sd.Fit]) -> Callable[[Path, int], float]:
    def fit(path: Path, columns: int) -> float:
        release = released(columns)
        X, y = sd.blocks.from_parquet(path, release=release, target="y")
        return float(solve(sd.debias(loss(), release), X, y).theta[0])

    return fit


def judged(metric: str) -> Callable[[Path, int], float]:
    def judge(path: Path, columns: int) -> float:
        release = released(columns)
        X, y = sd.blocks.from_parquet(path, release=release, target="y")
        theta = np.linspace(-1, 1, columns) / 2
        return sd.evaluation.evaluate(theta, X, y, metric=metric, release=release).value

    return judge


def by_sgd(corrected: sd.CorrectedLoss, X: object, y: object) -> sd.Fit:
    return sd.sgd(corrected, X, y, order="given", average=True)


WORK = {
    "bare read of the file": bare_read,
    "m_estimate, exponential": fitted(sd.losses.exponential, sd.m_estimate),
    "m_estimate, logistic": fitted(sd.losses.logistic, sd.m_estimate),
    "sgd, exponential, one pass": fitted(sd.losses.exponential, by_sgd),
    "evaluate, log loss": judged("log_loss"),
    "evaluate, accuracy": judged("accuracy"),
}


def largest_resident() -> float:
    """Return the largest resident set so far in MB: that of this program alone, which getrusage does not tell."""
    status = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in status if line.startswith("VmHWM")).split()[1]) / 1e6


def measured(name: str, path: Path, columns: int, told: object) -> None:
    wall, processor = time.perf_counter(), time.process_time()
    WORK[name](path, columns)
    seconds = time.perf_counter() - wall, time.process_time() - processor
    told.put((*seconds, largest_resident()))  # type: ignore[attr-defined]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--columns", type=int, default=10)
    parser.add_argument("--file", type=Path, help="where the records are written, and kept; one that is there is read")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = options.file or Path(folder) / "released.parquet"
        if not path.exists():
            write(path, options.records, options.columns)
        print(f"{options.records:,} records of {options.columns} columns, {path.stat().st_size / 1e9:.3g} GB\n")
        print(f"{'':28}{'wall s':>9}{'processor s':>13}{'of a read':>11}{'records/s':>12}{'memory MB':>11}")
        read, start = 0.0, multiprocessing.get_context("spawn")
        for name in WORK:
            told = start.Queue()
            process = start.Process(target=measured, args=(name, path, options.columns, told))
            process.start()
            wall, processor, memory = told.get()
            process.join()
            read = read or processor
            speed = options.records / processor
            print(
                f"{name:28}{wall:9.2f}{processor:13.2f}{processor / read:11.1f}{speed:12,.0f}{memory:11,.0f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
