"""Ask what pilots, designed surrogates and tests of being lost cost, where records are as in a textbook.

    python benchmarks/safeguards.py [--records 20000 1000000] [--draws 400]

Uniform columns with normal noise. `m_estimate` stands beside a bare fit that is told what nobody knows: Newton's method
from zero on the correction designed for the true scores at the true parameters, with a sandwich covariance and no test
at all.

* milliseconds of processor time of both, the best of interleaved repeats;
* the ratio of their mean squared errors over draws of 5,000 records, of the sum over parameters, with its Monte-Carlo
  standard error.
"""

import argparse
import math
import time
import warnings
from collections.abc import Callable, Iterator

import numpy as np
from scipy.special import expit, ndtr

import symdebias as sd
from symdebias.exceptions import SymdebiasError
from symdebias.inference import sandwich
from symdebias.solvers.moments import released_moments
from symdebias.solvers.newton import newton
from symdebias.solvers.regions import Near, region_of
from symdebias.solvers.scores import known_scores
from symdebias.transforms.surrogate import Scores

THETA, NOISE, SMALL = np.array([1.0, -0.5]), 0.5, 5_000
Targets = Callable[[np.ndarray, np.random.Generator], np.ndarray]


def labels(chance: Callable[[np.ndarray], np.ndarray]) -> Targets:
    return lambda score, rng: np.where(rng.random(len(score)) < chance(score), 1.0, -1.0)


def values(score: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return score + 0.5 * rng.normal(size=len(score))


MODELS: dict[str, tuple[Callable[[], sd.Loss], Targets]] = {
    "least squares": (sd.losses.least_squares, values),
    "Poisson": (sd.losses.poisson, lambda score, rng: rng.poisson(np.exp(score)).astype(float)),
    "exponential": (sd.losses.exponential, labels(lambda score: expit(2 * score))),
    "logistic": (sd.losses.logistic, labels(expit)),
    "probit": (sd.losses.probit, labels(ndtr)),
    "Huber": (sd.losses.huber, values),
}


class Pair:
    """Released records of a model, and both fits of them."""

    def __init__(self, name: str, records: int, seed: int) -> None:
        loss, targets = MODELS[name]
        rng = np.random.default_rng([len(name), seed])
        X = rng.uniform(-1, 1, size=(records, len(THETA)))
        y = targets(X @ THETA, rng)
        release = sd.Release(sd.GaussianMechanism.from_scale(NOISE))
        self.noised = release.privatize(X, y, random_state=rng)
        self.corrected = sd.debias(loss(), self.noised.release)
        self.known = self.corrected
        if self.corrected.method == "surrogate":
            found = known_scores(self.corrected, self.corrected.records(self.noised.X, self.noised.y))
            assert found is not None
            scores = np.sort(X @ THETA - (y if found.parts.is_residual else 0.0))
            cells = np.array_split(scores, 400)
            at_truth = Scores(np.array([cell.mean() for cell in cells]), np.full(400, 1 / 400))
            self.known = found.designed_for(at_truth, found.variances(THETA))

    def fit(self) -> np.ndarray:
        """Return theta of m_estimate."""
        return sd.m_estimate(self.corrected, self.noised.X, self.noised.y).theta

    def bare(self) -> np.ndarray:
        """Return theta of the bare fit."""
        records = self.known.records(self.noised.X, self.noised.y, by_blocks=True)
        begin, metric = np.zeros(len(THETA)), released_moments(records)
        near = Near(begin, metric, math.inf, region_of(None, None))
        derivatives, _ = records.derivatives_or_differences(metric)
        root = newton(records, derivatives, begin, np.zeros(len(THETA)), near)
        sandwich(root.derivatives.hessian, root.derivatives.meat, records.total)
        return root.theta


def best_times(pair: Pair, repeats: int) -> tuple[float, float]:
    """Return the least processor times of both fits, in milliseconds."""
    found: list[list[float]] = [[], []]
    for _ in range(repeats + 1):
        for times, fit in zip(found, (pair.fit, pair.bare), strict=True):
            began = time.process_time()
            fit()
            times.append(1e3 * (time.process_time() - began))
    return min(found[0][1:]), min(found[1][1:])


def efficiency(name: str, draws: int) -> tuple[float, float, int]:
    """Return the ratio of mean squared errors, its standard error, and the number of refused fits."""
    errors = []
    for seed in range(draws):
        pair = Pair(name, SMALL, seed)
        try:
            errors.append([np.sum((fit() - THETA) ** 2) for fit in (pair.fit, pair.bare)])
        except SymdebiasError:
            continue
    ours, best = np.array(errors).T
    ratio = float(ours.mean() / best.mean())
    return ratio, float((ours - ratio * best).std() / (best.mean() * math.sqrt(len(errors)))), draws - len(errors)


def rows(sizes: list[int], draws: int) -> Iterator[str]:
    columns = "".join(f"{f'{size:,} records':>26}" for size in sizes)
    yield f"{'':14}{columns}{'mean squared error':>26}"
    yield f"{'':14}" + f"{'fit / bare':>26}" * (len(sizes) + 1)
    for name in MODELS:
        cells = []
        for size in sizes:
            ours, best = best_times(Pair(name, size, 0), repeats=5 if size > 500_000 else 15)
            cells.append(f"{ours:.1f} / {best:.1f} ms = {ours / best:.2f}")
        ratio, error, refused = efficiency(name, draws)
        last = f"{ratio:.3f} +- {error:.3f}" + (f", {refused} refused" if refused else "")
        yield f"{name:14}" + "".join(f"{cell:>26}" for cell in [*cells, last])


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, nargs="+", default=[20_000, 1_000_000], help="for the times")
    parser.add_argument("--draws", type=int, default=400, help="of 5,000 records, for the mean squared errors")
    options = parser.parse_args(arguments)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for row in rows(options.records, options.draws):
            print(row, flush=True)


if __name__ == "__main__":
    main()
