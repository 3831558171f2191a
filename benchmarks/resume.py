"""A run that is killed half-way and gone on with from its checkpoint, beside one that is left alone.

    python benchmarks/resume.py [--records 10000000] [--columns 10] [--epochs 3] [--file released.parquet]

Noised records of a logistic model in Parquet (as `larger_than_memory.py` writes them) are fitted in processes of their
own. One is killed (SIGKILL) after a share of the time that a whole run took. What the processes take in processor
time, imports included, the largest resident memory of the one that goes on, and whether its parameters are those of the
whole run bit for bit, is printed.
"""

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from larger_than_memory import NOISE, write

FIT = f"""
import json, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from larger_than_memory import largest_resident
import symdebias as sd
path, place, solver, columns, epochs, seconds = sys.argv[1:]
from symdebias.solvers import checkpoint
checkpoint._SECONDS = float(seconds)
release = sd.Release({{tuple(f"x{{j}}" for j in range(int(columns))): sd.GaussianMechanism.from_scale({NOISE})}})
X, y = sd.blocks.from_parquet(path, release=release, target="y")
corrected, kept = sd.debias(sd.losses.exponential(), release), {{"checkpoint": place or None}}
if solver == "sgd":
    fit = sd.sgd(corrected, X, y, order="given", average=True, epochs=int(epochs), **kept)
else:
    fit = sd.m_estimate(corrected, X, y, **kept)
print(json.dumps([largest_resident(), [value.hex() for value in fit.theta.tolist()]]))
"""


def processor() -> float:
    """Return the processor seconds of all processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--columns", type=int, default=10)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.0, help="between two writings of the checkpoint")
    parser.add_argument("--share", type=float, default=0.7, help="of the time of a whole run, before the kill")
    parser.add_argument("--file", type=Path, help="where the records are written, and kept; one that is there is read")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path, place = options.file or Path(folder) / "released.parquet", Path(folder) / "checkpoint"
        if not path.exists():
            write(path, options.records, options.columns)
        widths = {"whole s": 9, "killed s": 10, "the rest s": 12, "checkpoint kB": 15, "memory MB": 11}
        print(" " * 12 + "".join(f"{name:>{width}}" for name, width in widths.items()) + "  same bits")
        for solver in ("sgd", "m_estimate"):
            numbers = [str(options.columns), str(options.epochs), str(options.seconds)]

            def begun(kept: str, solver: str = solver, numbers: list[str] = numbers) -> subprocess.Popen[str]:
                command = [sys.executable, "-c", FIT, str(path), kept, solver, *numbers]
                return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(os.environ))

            start, took = time.perf_counter(), [processor()]
            whole, _ = begun("").communicate()
            wall = time.perf_counter() - start
            took.append(processor())
            process = begun(str(place))
            try:
                process.communicate(timeout=options.share * wall)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                process.communicate()
            took.append(processor())
            size = place.stat().st_size / 1e3 if place.exists() else 0.0
            resumed, _ = begun(str(place)).communicate()
            took.append(processor())
            parts = "".join(
                f"{after - before:{width}.1f}"
                for before, after, width in zip(took[:-1], took[1:], (9, 10, 12), strict=True)
            )
            (_, expected), (memory, found) = json.loads(whole), json.loads(resumed)
            print(f"{solver:12}{parts}{size:15,.0f}{memory:11,.0f}  {found == expected}", flush=True)


if __name__ == "__main__":
    main()
