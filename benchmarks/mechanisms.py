"""Time a training pass under each way of noising, beside the same loss under Gaussian noise.

    python benchmarks/mechanisms.py [--records 1000000] [--repeats 5]

What does it cost that columns have different noise? One compiled pass (batch 128, the order given) for each release,
in nanoseconds per record, the best of the repeats, with the ratio to the Gaussian release of as many columns and
the exponential loss. The log loss stands beside its own series under Gaussian noise.
"""

import argparse
import platform
import time

import numpy as np
import sympy as sp

import symdebias as sd

BATCH = 128
U, Y = sp.symbols("u y", real=True)


def cosine_loss(terms: int = 4) -> sd.Loss:
    """Return an even loss in cosines with a linear odd part, as surrogates of the log loss have."""
    even = sp.Add(*(sp.Rational((-1) ** j, 4 * j * j) * sp.cos(sp.Rational(j, 2) * U) for j in range(1, terms + 1)))
    return sd.Loss(even + U**2 / 8 - Y * U / 2, score=U, target=Y, target_values=(-1, 1), name="cosines")


def mixed_release() -> sd.Release:
    """Return the mixed release of the documentation: six columns under four mechanisms."""
    return sd.Release(
        features={
            ("age", "hours"): sd.GaussianMechanism(epsilon=4.0, delta=1e-5, radius=1.0),
            "income": sd.LaplaceMechanism(epsilon=4.0, bounds=(0.0, 1.0)),
            "sex": sd.RandomizedResponse(epsilon=1.0),
            "region": sd.RandomizedResponse(epsilon=1.0, categories=("n", "e", "s", "w")),
        },
        target=sd.RandomizedResponse(epsilon=1.0),
        noiseless=("year",),
        fit_intercept=True,
    )


def same(mechanism: sd.GaussianMechanism | sd.LaplaceMechanism, columns: int, **options: object) -> sd.Release:
    names = tuple(f"x{j}" for j in range(columns))
    return sd.Release({names: mechanism}, sd.RandomizedResponse(epsilon=1.0), **options)


def seconds(release: sd.Release, loss: sd.Loss, n: int, repeats: int, **options: object) -> float:
    """Return the time of a compiled pass, without the checks around it."""
    columns = release.columns or ()
    rng = np.random.default_rng(0)
    X = 0.2 * rng.normal(size=(n, len(columns)))
    for name, values in (("sex", [-1.0, 1.0]), ("region", [0.0, 1.0, 2.0, 3.0])):
        if name in columns:
            X[:, columns.index(name)] = rng.choice(values, n)
    y = np.where(rng.random(n) < 0.5, -1.0, 1.0)
    corrected = sd.debias(loss, release, **options)
    records = corrected.records(X, y)
    matrix, target = records.encoded
    kernel = records.correction.kernels.sgd_pass(weighted=False)
    noise, limits = records.correction.noise, np.full(2, np.inf)
    size = records.correction.number_of_parameters
    steps = np.full(-(-n // BATCH), 1e-6)
    none, order, report = np.zeros(0), np.zeros(0, np.int64), np.zeros(2, np.int64)
    times = []
    for _ in range(repeats):
        theta = np.full(size, 0.05)
        began = time.perf_counter()
        taken = kernel(
            theta, matrix, target, none, order, 0, 0, 0, 0, noise, steps, BATCH, 1.0, np.zeros(size), np.inf,
            np.inf, np.inf, limits, none, np.zeros((0, 0)), theta.copy(), -1.0, report,
        )  # fmt: skip
        times.append(time.perf_counter() - began)
        assert taken == len(steps)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    n, repeats = options.records, options.repeats
    gaussian, laplace = sd.GaussianMechanism.from_scale(0.5), sd.LaplaceMechanism.from_scale(0.2)
    exponential, logistic = sd.losses.exponential(), sd.losses.logistic()
    print(f"{platform.machine()}, Python {platform.python_version()}, n = {n:,}")
    print(f"{'release and loss':<58}{'ns per record':>14}{'ratio':>8}")
    for columns in (6, 10):
        X = np.random.default_rng(0).normal(size=(n, columns))
        began = [(time.perf_counter(), X.sum(), time.perf_counter()) for _ in range(repeats)]
        print(f"{f'read {columns} columns once (X.sum())':<58}{min(c - a for a, _, c in began) / n * 1e9:>14.2f}")
        plain = seconds(same(gaussian, columns), exponential, n, repeats)
        rows = [
            (f"Gaussian, {columns} columns, exponential", plain),
            (f"Gaussian, {columns} columns, log loss, series of order 3",
             seconds(same(gaussian, columns), logistic, n, repeats, method="series", order=3)),
            (f"Laplace, {columns} columns, exponential", seconds(same(laplace, columns), exponential, n, repeats)),
            (f"Laplace, {columns} columns, four cosines", seconds(same(laplace, columns), cosine_loss(), n, repeats)),
            (f"Laplace, {columns} columns, log loss, series of order 3",
             seconds(same(laplace, columns), logistic, n, repeats, method="series", order=3)),
            (f"Laplace, {columns} columns, log loss, exact",
             seconds(same(laplace, columns), logistic, n, repeats, method="exact")),
        ]  # fmt: skip
        if columns == 6:
            rows.append(("mixed, 6 columns, exponential", seconds(mixed_release(), exponential, n, repeats)))
            rows.append(("mixed, 6 columns, four cosines", seconds(mixed_release(), cosine_loss(), n, repeats)))
        for name, taken in rows:
            print(f"{name:<58}{taken / n * 1e9:>14.2f}{taken / plain:>8.2f}")


if __name__ == "__main__":
    main()
