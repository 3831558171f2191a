"""Time the start: derivation and code generation of each loss, and a first training call in a second process.

    python benchmarks/start_up.py

The first process has an empty cache and compiles; the second loads. Each figure is the best of three processes.
"""

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
    imported = time.perf_counter()
    release = sd.Release(
        features=sd.GaussianMechanism(epsilon=1.0, delta=1e-5, radius=1.0), target=sd.RandomizedResponse(epsilon=1.0)
    )
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-0.7, 0.7, size=(1000, 2)), np.where(rng.random(1000) < 0.5, -1, 1)
    noised = release.privatize(X, y, random_state=0)
    corrected = sd.debias(sd.losses.exponential(), noised.release)
    sd.sgd(corrected, noised.X, noised.y, l2=1.0)
    print(imported - began, time.perf_counter() - began)
    """
)
IMPORT = "import time; began = time.perf_counter(); import sympy, numba; print(0, time.perf_counter() - began)"


def run(code: str, cache: str) -> tuple[float, float]:
    environment = {**os.environ, "SYMDEBIAS_CACHE": cache}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    first, second = done.stdout.split()
    return float(first), float(second)


def main() -> None:
    with tempfile.TemporaryDirectory() as cache:
        cold = run(TRAIN, cache)
        warm = min((run(TRAIN, cache) for _ in range(3)), key=lambda pair: pair[1])
    bare = min(run(IMPORT, "off")[1] for _ in range(3))
    print(f"import sympy and numba alone                {bare:8.2f} s")
    print(f"import symdebias                            {warm[0]:8.2f} s")
    print(f"first process: import + train 1,000 rows    {cold[1]:8.2f} s")
    print(f"second process: import + train 1,000 rows   {warm[1]:8.2f} s")
    for name in losses.__all__:
        if name in ("Loss", "catalogue"):
            continue
        if name in ("huber", "squared_hinge", "softmax"):
            continue  # no correction under normal noise
        loss = getattr(losses, name)()
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
