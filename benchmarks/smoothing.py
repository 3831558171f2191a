"""Time Laplacian smoothing beside the Fourier transform, at several lengths.

    python benchmarks/smoothing.py [--sizes 1000 100000 1000000] [--seconds 1.0]

``sd.laplacian_smoothing`` as it is called, checks included, against ``scipy.fft`` doing the same with a real
transform, its spectrum given to it for nothing. Both on one thread, in turns, the best of all; the results are
compared before the times are. Then with a kernel of long memory (sigma 1e8), and per row of a matrix.
"""

import argparse
import platform
import time
from collections.abc import Callable

import numpy as np
import scipy.fft

import symdebias as sd


def by_fourier(v: np.ndarray, spectrum: np.ndarray) -> np.ndarray:
    return scipy.fft.irfft(scipy.fft.rfft(v) / spectrum, v.shape[-1])


def spectrum(d: int, sigma: float) -> np.ndarray:
    return 1 + 4 * sigma * np.sin(np.pi * np.arange(d // 2 + 1) / d) ** 2


def best(functions: list[Callable[[], object]], seconds: float) -> list[float]:
    """Return the shortest time of each in microseconds, taking turns."""
    times = [float("inf")] * len(functions)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for place, function in enumerate(functions):
            began = time.perf_counter()
            function()
            times[place] = min(times[place], time.perf_counter() - began)
    return [1e6 * value for value in times]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 100_000, 1_000_000])
    parser.add_argument("--seconds", type=float, default=2.0)
    options = parser.parse_args()
    print(f"{platform.machine()}, Python {platform.python_version()}, NumPy {np.__version__}")
    print(f"{'microseconds':<34}{'symdebias':>12}{'scipy.fft':>12}{'ratio':>8}")
    rng = np.random.default_rng(0)
    cases = [(f"d = {d:,}, sigma = {sigma:g}", (d,), sigma, "flat") for d in options.sizes for sigma in (3.0, 1e8)]
    cases.append(("100 rows of 785, sigma = 3", (100, 785), 3.0, "rows"))
    for name, shape, sigma, mode in cases:
        v, values = rng.normal(size=shape), spectrum(shape[-1], sigma)
        ours, theirs = sd.laplacian_smoothing(v, sigma, mode=mode), by_fourier(v, values)
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-11 * abs(theirs).max())
        calls = [lambda v=v, s=sigma, m=mode: sd.laplacian_smoothing(v, s, mode=m),
                 lambda v=v, values=values: by_fourier(v, values)]  # fmt: skip
        found = best(calls, options.seconds)
        print(f"{name:<34}{found[0]:>12.1f}{found[1]:>12.1f}{found[1] / found[0]:>8.1f}")


if __name__ == "__main__":
    main()
