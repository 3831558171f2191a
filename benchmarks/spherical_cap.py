"""Time the two samplers of the spherical cap and passes of training on its releases.

    python benchmarks/spherical_cap.py [--records 200000] [--repeats 3]

How long does a private draw take? Records per second of processor time, the best of the repeats: the seeded sampler of
simulations, which inverts the law of the cosine, and the hardened one on the operating system's bits, which draws
uniform points until one is kept, or where that takes many the cosine first. Beside them the mean number of points for a
record by trials, and what of epsilon the bound on rounding takes.

What do polynomials of the score cost in training? Seconds of one pass of SGD and of one mean gradient over the records
of ten columns: the log loss by a surrogate of degree 4 and of degree 8 on margins through a cap, and as the peer the
exponential loss in closed form on margins under Gaussian noise, and the time to read the data once.
"""

import argparse
import platform
import time
import warnings
from collections.abc import Callable

import numpy as np

import symdebias as sd
from symdebias.records import Records
from symdebias.transforms.polynomial import PolynomialScene
from symdebias.transforms.surrogate import Scores, balanced
from symdebias.zonal import ZonalNoise

SETTINGS = [(2.0, 2), (5.0, 2), (2.0, 10), (5.0, 10), (8.0, 10), (5.0, 50), (20.0, 3)]


def records_per_second(mechanism: sd.SphericalCapMechanism, X: np.ndarray, repeats: int, seed: int | None) -> float:
    """Return how many records are noised in a second."""
    times = []
    for _ in range(repeats):
        began = time.process_time()
        mechanism.privatize(X, random_state=seed)
        times.append(time.process_time() - began)
    return len(X) / min(times)


def of_degree(corrected: sd.CorrectedLoss, noise: ZonalNoise, degree: int) -> sd.CorrectedLoss:
    """Return the surrogate with a polynomial of a degree, for scores up to 1."""
    scene = PolynomialScene(noise, 1.0, Scores.within(1.0), 0.5)
    numbers = [part.numbers for part in corrected.surrogate_parts.replaced]
    found = scene.surrogates(numbers, 1e6, degree, 5.0)
    return corrected.with_design(balanced(numbers, found, radius=1.0, score_variance=noise.variance, records=1e6))


def passes(n: int, repeats: int) -> None:
    """Print how long passes over the data take."""
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (n, 10)) / np.sqrt(10), rng.choice([-1.0, 1.0], n)
    cap = sd.Release(sd.SphericalCapMechanism(5.0, 1.0), target="margin")
    normal = sd.Release(sd.GaussianMechanism.from_scale(0.5), target="margin")
    logistic = sd.debias(sd.losses.logistic(), cap)
    ways = {
        f"logistic, degree {degree}": (
            of_degree(logistic, sd.SphericalCapMechanism(5.0, 1.0).noise_on(10), degree),
            cap,
        )
        for degree in (4, 8)
    }
    ways = {"exponential, closed form": (sd.debias(sd.losses.exponential(), normal), normal), **ways}
    reading = min(timed(X.sum) for _ in range(repeats))
    print(f"\n{'10 columns':<28}{'sgd':>10}{'ratio':>8}{'gradient':>11}{'ratio':>8}")
    print(f"{'to read the data once':<28}{'':>18}{reading:>10.4f}s")
    theta, first = np.full(10, 0.05), None
    for name, (corrected, release) in ways.items():
        noised = release.privatize(X, y, random_state=0)
        records = corrected.records(noised.X, noised.y)

        def trained(corrected: sd.CorrectedLoss = corrected, X: np.ndarray = noised.X) -> object:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of a pass that has not learnt
                return sd.sgd(corrected, X, None, step_size=1e-4, l2=5.0, batch_size=128, random_state=0)

        def gradient(records: Records = records) -> object:
            return records.mean_gradient(theta)

        seconds = []
        for one in (trained, gradient):
            one()  # compiles
            seconds.append(min(timed(one) for _ in range(repeats)))
        first = first or seconds
        ratios = [own / base for own, base in zip(seconds, first, strict=True)]
        print(f"{name:<28}{seconds[0]:>9.3f}s{ratios[0]:>8.2f}{seconds[1]:>10.4f}s{ratios[1]:>8.2f}")


def timed(call: Callable[[], object]) -> float:
    """Return how many seconds a call takes."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


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
    passes(n, options.repeats)


if __name__ == "__main__":
    main()
