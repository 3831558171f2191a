"""What is a model worth on true records, told from noised ones? Naive, corrected and true metrics side by side.

    python benchmarks/evaluation.py [--draws 100]

The first table has a logistic model on two normal features, 20,000 records: mean and standard deviation of each
estimate over draws of the noise. The second chooses l2 of a debiased ridge regression (12 correlated features, 1,500
records, noise of deviation 0.8) by cross-validation, and gives the excess squared error of the fits that are chosen.
"""

import argparse
import collections
import functools

import numpy as np
from scipy.special import expit

import symdebias as sd

THETA = np.array([1.5, -1.0, 0.3])
RELEASES = {
    "labels, budget 2": (None, 2.0),
    "normal 0.1, labels 4": (sd.GaussianMechanism.from_scale(0.1), 4.0),
    "normal 0.6, labels 2": (sd.GaussianMechanism.from_scale(0.6), 2.0),
    "normal 1.2, labels 1": (sd.GaussianMechanism.from_scale(1.2), 1.0),
    "Laplace 0.4, labels 2": (sd.LaplaceMechanism.from_scale(0.4), 2.0),
}


def metrics(draws):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 2))
    u = X @ THETA[:2] + THETA[2]
    y = np.where(rng.random(20_000) < expit(u), 1.0, -1.0)
    truth = {"accuracy": np.mean(y * u > 0), "log_loss": np.mean(np.logaddexp(0, -y * u))}
    print(f"{'':<24}{'metric':<10}{'true':>8}{'naive':>8}{'mean':>9}{'(se)':>8}{'sd':>8}{'stated':>8}{'bias':>9}")
    for name, (features, budget) in RELEASES.items():
        release = sd.Release(features, sd.RandomizedResponse(epsilon=budget), fit_intercept=True)
        for metric, wanted in truth.items():
            found = []
            for draw in range(draws):
                noised = release.privatize(X, y, random_state=1000 + draw)
                options = {"metric": metric, "label_model": "logistic"}
                found.append(sd.evaluation.evaluate(THETA, noised.X, noised.y, release=release, **options))
            values = np.array([estimate.value for estimate in found])
            naive = sd.evaluation.evaluate(
                THETA, noised.X, noised.y, metric=metric, release=sd.Release(fit_intercept=True)
            )
            stated = np.mean([estimate.standard_error for estimate in found])
            print(
                f"{name:<24}{metric:<10}{wanted:>8.4f}{naive.value:>8.4f}{values.mean():>9.4f}"
                f"{values.std() / np.sqrt(draws):>8.4f}{values.std():>8.4f}{stated:>8.4f}{found[-1].bias:>9.1e}"
            )


def ridge(X, y, *, l2):
    gram = X.T @ X / len(X) + (l2 - 0.64) * np.eye(X.shape[1])
    return np.linalg.solve(gram, X.T @ y / len(X))


def choices(draws, p=12, n=1500):
    covariance = 0.5 * np.ones((p, p)) + 0.5 * np.eye(p)
    theta = np.r_[1.0, -1.0, 0.5, np.zeros(p - 3)]
    candidates = {f"{l2:g}": functools.partial(ridge, l2=l2) for l2 in (3.0, 1.0, 0.3, 0.1, 0.03, 0.0)}
    release = sd.Release(sd.GaussianMechanism.from_scale(0.8))
    chosen = {way: collections.Counter() for way in ("corrected", "one standard error", "naive", "oracle")}
    excess = {way: [] for way in chosen}
    for seed in range(draws):
        rng = np.random.default_rng(seed)
        X = rng.multivariate_normal(np.zeros(p), covariance, size=n)
        noised = release.privatize(X, X @ theta + rng.normal(size=n), random_state=5000 + seed)
        errors = {name: fit(noised.X, noised.y) - theta for name, fit in candidates.items()}
        risks = {name: error @ covariance @ error for name, error in errors.items()}
        options = {"metric": "squared_error", "random_state": seed}
        found = sd.evaluation.cross_validate(candidates, noised.X, noised.y, release=release, **options)
        naive = sd.evaluation.cross_validate(candidates, noised.X, noised.y, release=sd.Release(), **options)
        picks = (found.best, found.one_standard_error, naive.best, min(risks, key=risks.get))
        for way, pick in zip(chosen, picks, strict=True):
            chosen[way][pick] += 1
            excess[way].append(risks[pick])
    print(f"\n{'chosen by':<24}{'excess error':>14}   l2 chosen")
    for way, counts in chosen.items():
        print(f"{way:<24}{np.mean(excess[way]):>14.3f}   {dict(counts.most_common())}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=100)
    draws = parser.parse_args().draws
    metrics(draws)
    choices(draws)


if __name__ == "__main__":
    main()
