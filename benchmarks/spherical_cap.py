"""Time the two samplers of the spherical cap, and count the trials of the hardened one.

    python benchmarks/spherical_cap.py [--records 200000] [--repeats 3]

How long does a private draw take? Records per second of processor time, the best of the repeats: the seeded sampler of
simulations, which inverts the law of the cosine, and the hardened one on the operating system's bits, which draws
uniform points until one is kept. Beside them the mean number of points for a record, and what of epsilon the bound on
rounding takes.
"""

import argparse
import platform
import time

import numpy as np

import symdebias as sd

SETTINGS = [(2.0, 2), (5.0, 2), (2.0, 10), (5.0, 10), (8.0, 10), (5.0, 50)]


def records_per_second(mechanism: sd.SphericalCapMechanism, X: np.ndarray, repeats: int, seed: int | None) -> float:
    """Return how many records are noised in a second."""
    times = []
    for _ in range(repeats):
        began = time.process_time()
        mechanism.privatize(X, random_state=seed)
        times.append(time.process_time() - began)
    return len(X) / min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    n = options.records
    print(f"{platform.machine()}, Python {platform.python_version()}, NumPy {np.__version__}, n = {n:,}")
    print(f"{'':<22}{'seeded':>12}{'hardened':>12}{'trials':>9}{'rounding':>11}")
    for epsilon, columns in SETTINGS:
        mechanism = sd.SphericalCapMechanism(epsilon, 1.0)
        X = np.random.default_rng(0).uniform(-1, 1, (n, columns)) / np.sqrt(columns)
        seeded = records_per_second(mechanism, X, options.repeats, 0)
        hardened = records_per_second(mechanism, X[: max(1, n // 10)], options.repeats, None)
        print(
            f"{f'epsilon {epsilon:g}, {columns} columns':<22}{seeded:>10,.0f}/s{hardened:>10,.0f}/s"
            f"{mechanism.trials(columns):>9.1f}{mechanism.normaliser_loss(columns):>11.1e}"
        )


if __name__ == "__main__":
    main()
