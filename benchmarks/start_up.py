"""Time the start: imports, derivation and code generation of each loss, and a first training call in a second process.

    python benchmarks/start_up.py           # --kinds: first fits of several kinds of losses and releases, a minute

The first process has an empty cache and compiles; the second loads. Each figure is the best of three processes, but for
the imports: processor time, the least of processes that take turns, with the byte code of all modules at hand, as after
an installation. Fits of several kinds are timed from the end of the import on, in processor time.
"""

import argparse
import math
import os
import subprocess
import sys
import tempfile
import textwrap
import time

import symdebias as sd
from symdebias import losses

TRAIN = textwrap.dedent(
    """
    import time; began = time.perf_counter()
    import numpy as np, symdebias as sd
    release = sd.Release(features=sd.GaussianMechanism.from_scale(0.3), target=sd.RandomizedResponse(epsilon=2.0))
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.7, 0.7, size=(1000, 2))
    y = np.where(rng.random(1000) < 1 / (1 + np.exp(-3 * X[:, 0])), 1, -1)
    noised = release.privatize(X, y, random_state=0)
    corrected = sd.debias(sd.losses.exponential(), noised.release)
    sd.sgd(corrected, noised.X, noised.y, l2=1.0)
    print(time.perf_counter() - began)
    """
)
# First fits: of what loss and columns, by which solver, of how many records.
KINDS = {
    "sgd, exponential, 2 columns": ("exponential", "normal", "sgd", 10_000),
    "sgd, logistic, 2 columns, a million records": ("logistic", "normal", "sgd", 1_000_000),
    "m_estimate, logistic, four kinds of noise": ("logistic", "mixed", "m_estimate", 10_000),
    "sgd, logistic, 20 randomized columns": ("logistic", "randomized", "sgd", 10_000),
    "m_estimate, logistic, 20 randomized columns": ("logistic", "randomized", "m_estimate", 2_000),
}
KIND = textwrap.dedent(
    """
    import sys, time
    import numpy as np, symdebias as sd
    sd.debias, sd.m_estimate, sd.sgd, sd.Release, sd.GaussianMechanism, sd.RandomizedResponse
    loss, columns, solver, n = sys.argv[1:4] + [int(sys.argv[4])]
    rng = np.random.default_rng(0)
    X, answers = rng.uniform(-0.7, 0.7, size=(n, 2)), np.where(rng.random((n, 20)) < 0.5, -1.0, 1.0)
    y = np.where(rng.random(n) < 1 / (1 + np.exp(-3 * X[:, 0])), 1, -1)
    if columns == "normal":
        features = sd.GaussianMechanism.from_scale(0.3)
    elif columns == "randomized":
        X, features = answers, {f"x{j}": sd.RandomizedResponse(epsilon=4.0) for j in range(20)}
    else:
        X = np.column_stack([X, answers[:, 0], rng.integers(0, 4, n)])
        features = {
            "a": sd.LaplaceMechanism(epsilon=2.0, bounds=(-1.0, 1.0)), "b": sd.GaussianMechanism.from_scale(0.3),
            "c": sd.RandomizedResponse(epsilon=2.0), "d": sd.RandomizedResponse(epsilon=2.0, categories=range(4)),
        }
    noised = sd.Release(features, sd.RandomizedResponse(epsilon=2.0)).privatize(X, y, random_state=0)
    began = time.process_time()
    corrected = sd.debias(getattr(sd.losses, loss)(), noised.release)
    getattr(sd, solver)(corrected, noised.X, noised.y, l2=1.0)
    print(time.process_time() - began)
    """
)
# What a first fit names, against what it stands on.
IMPORTS = {
    "sympy, numba, scipy.optimize": "import sympy, numba, scipy.optimize",
    "symdebias": "import symdebias as sd; sd.debias, sd.m_estimate, sd.Release, sd.losses.logistic, "
    "sd.GaussianMechanism, sd.SphericalCapMechanism, sd.RandomizedResponse",
}
PROCESSES = 12
# Of losses that have no defaults.
ARGUMENTS = {"expectile": (0.9,)}


def run(code: str, cache: str, *arguments: str) -> float:
    environment = {**os.environ, "SYMDEBIAS_CACHE": cache}
    words = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    return float(done.stdout)


def import_seconds(byte_code: str) -> dict[str, float]:
    """Return the least processor time of each import, over processes that take turns."""
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": byte_code}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    best = dict.fromkeys(IMPORTS, math.inf)
    for _ in range(1 + PROCESSES):
        for name, line in IMPORTS.items():
            code = f"import time; began = time.process_time()\n{line}\nprint(time.process_time() - began)"
            done = subprocess.run(
                [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
            )
            best[name] = min(best[name], float(done.stdout))
    return best


def first_fits() -> None:
    print(f"{'seconds of a processor after the import':<45} {'first process':>14} {'second':>8}")
    for name, kind in KINDS.items():
        with tempfile.TemporaryDirectory() as cache:
            cold, *warm = (run(KIND, cache, *map(str, kind)) for _ in range(3))
        print(f"{name:<45} {cold:14.2f} {min(warm):8.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", action="store_true", help="time first fits of several kinds, and nothing else")
    if parser.parse_args().kinds:
        first_fits()
        return
    with tempfile.TemporaryDirectory() as byte_code:
        bare, own = (imports := import_seconds(byte_code)).values()
    for name, seconds in imports.items():
        print(f"{'import ' + name:<43} {seconds:8.2f} s")
    print(f"ratio of the two, of processor times{own / bare:16.2f}")
    with tempfile.TemporaryDirectory() as cache:
        cold = run(TRAIN, cache)
        warm = min(run(TRAIN, cache) for _ in range(3))
    print(f"first process: import + train 1,000 rows    {cold:8.2f} s")
    print(f"second process: import + train 1,000 rows   {warm:8.2f} s")
    for name in losses.__all__:
        if name in ("huber", "squared_hinge", "softmax"):
            continue  # no correction under normal noise
        loss = getattr(losses, name)(*ARGUMENTS.get(name, ()))
        target = sd.RandomizedResponse(epsilon=1.0) if loss.target_values else sd.GaussianMechanism.from_scale(1.0)
        release = sd.Release(features=sd.GaussianMechanism.from_scale(1.0), target=target)
        method = {"method": "series", "order": 3} if name == "logistic" else {}
        began = time.perf_counter()
        corrected = sd.debias(loss, release, **method)
        derived = time.perf_counter()
        corrected.at(10).kernels.source("sgd_pass")
        print(
            f"{name:<20} derivation {derived - began:6.3f} s   code generation {time.perf_counter() - derived:6.3f} s"
            f"   ({method.get('method', 'exact')})"
        )


if __name__ == "__main__":
    main()
