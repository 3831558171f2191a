"""Time the server of input perturbation beside one product of the same matrix, and show the event that its claim needs.

    python benchmarks/input_perturbation.py [--log2-records 21] [--columns 14] [--repeats 5] [--draws 200]

First the server's whole side, from the released vectors to the minimiser: sums over blocks, checks, eigenvalues, one
root; and besides with the products that standard errors need. Against one ``Q.T @ Q`` in turns, the best of all.

Then the probability that the noise adds less curvature than the claim's proof needs, 2 lambda/epsilon in every
direction, at the published sigma_u: the proof wants it below delta/2. In one direction it is a noncentral chi-squared
probability; over all of them it is simulated.
"""

import argparse
import platform
import time
from collections.abc import Callable

import numpy as np
from scipy import stats

import symdebias as sd
from symdebias.privacy import input_perturbation_scales

EPSILON, DELTA = 1.0, 0.01


def best(functions: list[Callable[[], object]], repeats: int) -> list[float]:
    """Return the shortest time of each in seconds, taking turns."""
    times = [float("inf")] * len(functions)
    for _ in range(repeats):
        for place, function in enumerate(functions):
            began = time.perf_counter()
            function()
            times[place] = min(times[place], time.perf_counter() - began)
    return times


def serve(q: np.ndarray, p: np.ndarray, *, products: bool = False) -> np.ndarray:
    statistics = sd.quadratic.QuadraticStatistics(q.shape[1], products=products)
    statistics.add(q, p)
    if products:
        return statistics.corrected(0.01).theta
    return statistics.solve(radius=1.0, regularisation=1.0).w


def scale(n: int, d: int) -> float:
    """Return sigma_u for records in the unit ball."""
    return input_perturbation_scales(n, d, epsilon=EPSILON, delta=DELTA, lipschitz=2.0, curvature=1.0)[0]


def failure_in_one_direction(n: int, d: int, energy: float) -> float:
    """Return P(2 a'z + z'z < 2/epsilon), z of n components N(0, sigma_u^2/n), for ||a||^2 = energy.

    2 a'z + z'z = ||a + z||^2 - ||a||^2.
    """
    unit = n / scale(n, d) ** 2
    return float(stats.ncx2.cdf((energy + 2 / EPSILON) * unit, n, energy * unit))


def failure_in_any_direction(q: np.ndarray, draws: int, rng: np.random.Generator) -> float:
    """Return the share of draws in which the least eigenvalue of Q'U + U'Q + U'U is below 2/epsilon."""
    n, d = q.shape
    sigma, failures = scale(n, d), 0
    for _ in range(draws):
        noise = sigma / np.sqrt(n) * rng.standard_normal((n, d))
        cross = q.T @ noise
        failures += bool(np.linalg.eigvalsh(cross + cross.T + noise.T @ noise)[0] < 2 / EPSILON)
    return failures / draws


def on_sphere(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    rows = rng.standard_normal((n, d))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--log2-records", type=int, default=21)
    parser.add_argument("--columns", type=int, default=14)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--draws", type=int, default=200)
    options = parser.parse_args()
    n, d, rng = 1 << options.log2_records, options.columns, np.random.default_rng(0)
    print(f"{platform.machine()}, Python {platform.python_version()}, NumPy {np.__version__}")
    q = rng.standard_normal((n, d))
    p = q @ rng.standard_normal((d, 1)) * q / np.sqrt(d)
    times = best([lambda: q.T @ q, lambda: serve(q, p), lambda: serve(q, p, products=True)], options.repeats)
    print(f"\nn = {n:,}, d = {d}{'milliseconds':>40}{'ratio':>8}")
    for name, seconds in zip(("Q.T @ Q", "server", "server, with standard errors"), times, strict=True):
        print(f"{name:<46}{1e3 * seconds:>12.1f}{seconds / times[0]:>8.2f}")
    print(f"\nP(less curvature than 2 lambda/epsilon), wanted below {DELTA / 2:g}; unit vectors q on a sphere")
    print(f"{'n':>8}{'d':>4}{'one direction':>16}{'any direction':>16}")
    for records in (1000, 10_000):
        for width in (2, 14):
            one = failure_in_one_direction(records, width, records / width)
            anywhere = failure_in_any_direction(on_sphere(records, width, rng), options.draws, rng)
            print(f"{records:>8,}{width:>4}{one:>16.3f}{anywhere:>16.3f}")


if __name__ == "__main__":
    main()
