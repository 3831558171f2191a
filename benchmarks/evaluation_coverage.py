"""Do intervals of metrics from released records cover? Brier score, ROC area, F1 and R2 over families of records.

    python benchmarks/evaluation_coverage.py [--draws 100] [--records 3000] [--population 400000]
    python benchmarks/evaluation_coverage.py --tails [--draws 400]
    SYMDEBIAS_DATA=folder python benchmarks/evaluation_coverage.py --adult [--draws 20]

A model with parameters (1, -1) and an intercept; labels are logistic in 1.5 times the score, numbers are the score plus
normal noise. The first column has the named distribution, the second is normal; "rare label" has two normal columns, an
intercept of -2.2 and the threshold -1. Each draw is one of records and of noise: mean error against the metric of the
population, spread, what is stated, how many of the 95% intervals cover (label_model="logistic"), and how many draws
have none: one record or two decide the standard error.

With --tails it is the mean squared error of numbers, released with normal noise of 0.5, where what the model leaves of
them has the named distribution: how many intervals of 100, 400 and 3,000 records cover, those that end where few
records that decide a skewed mean put the end, and those that reach as far on both sides.

With --adult the records are the test set of UCI Adult, and the model is fitted to the true training set. Each draw is
one of the noise: features by a spherical cap at a budget of 6, labels by randomized response at 2.
"""

import argparse
from dataclasses import replace

import numpy as np
from scipy.special import expit

import symdebias as sd
from symdebias.interfaces import datasets

SHAPES = {
    "normal": lambda rng, n: rng.normal(size=n),
    "lognormal": lambda rng, n: np.exp(rng.normal(size=n)) - np.exp(0.5),
    "t, 3 degrees": lambda rng, n: rng.standard_t(3, n),
    "rare label": lambda rng, n: rng.normal(size=n),
}
NOISES = {
    "labels 2": (None, 2.0),
    "normal 0.6, labels 2": (sd.GaussianMechanism.from_scale(0.6), 2.0),
    "normal 1, labels 1": (sd.GaussianMechanism.from_scale(1.0), 1.0),
}


def area(y, u, t):
    ranks = np.empty(len(u))
    ranks[np.argsort(u)] = np.arange(1, len(u) + 1)
    positives = np.count_nonzero(y > 0)
    return (ranks[y > 0].sum() - positives * (positives + 1) / 2) / (positives * (len(u) - positives))


OF_LABELS = {
    "brier": lambda y, u, t: np.mean((expit(u) - (y > 0)) ** 2),
    "roc_auc": area,
    "f1": lambda y, u, t: 2 * np.mean((u > t) & (y > 0)) / (np.mean(u > t) + np.mean(y > 0)),
}
OF_NUMBERS = {"r2": lambda y, u, t: 1 - np.mean((y - u) ** 2) / np.var(y)}


def drawn(shape, n, rng, *, numbers):
    """Return records, their scores, targets, and the parameters with a threshold."""
    rare = shape == "rare label"
    theta, threshold = np.array([1.0, -1.0, -2.2 if rare else 0.3]), -1.0 if rare else 0.0
    X = np.column_stack([SHAPES[shape](rng, n), rng.normal(size=n)])
    u = X @ theta[:2] + theta[2]
    y = u + rng.normal(size=n) if numbers else np.where(rng.random(n) < expit(1.5 * u), 1.0, -1.0)
    return X, u, y, theta, threshold


def compare(shape, noise, options):
    features, budget = NOISES[noise]
    for truths in (OF_LABELS, OF_NUMBERS):
        numbers = truths is OF_NUMBERS
        if numbers and shape == "rare label":
            continue
        rng = np.random.default_rng(7)
        target = sd.GaussianMechanism.from_scale(1.0) if numbers else sd.RandomizedResponse(epsilon=budget)
        release = sd.Release(features, target, fit_intercept=True)
        _, u, y, theta, threshold = drawn(shape, options.population, rng, numbers=numbers)
        wanted = {metric: truth(y, u, threshold) for metric, truth in truths.items()}
        found = {metric: [] for metric in truths}
        for _ in range(options.draws):
            X, _, y, _, _ = drawn(shape, options.records, rng, numbers=numbers)
            noised = release.privatize(X, y, random_state=int(rng.integers(2**31)))
            for metric, estimates in found.items():
                own = {"threshold": threshold} if metric == "f1" else {}
                estimates.append(
                    sd.evaluation.evaluate(
                        theta, noised.X, noised.y, metric=metric, release=release, label_model="logistic", **own
                    )
                )
        for metric, estimates in found.items():
            errors = np.array([one.value - wanted[metric] for one in estimates])
            given = [ends for one in estimates if (ends := one.interval_or_none()) is not None]
            covered = np.mean([low <= wanted[metric] <= high for low, high in given])
            stated, bias = (np.mean([getattr(one, of) for one in estimates]) for of in ("standard_error", "bias"))
            print(
                f"{shape:<14}{noise:<24}{metric:<11}{wanted[metric]:>7.4f}{errors.mean():>9.4f}"
                f"{errors.std() / np.sqrt(options.draws):>8.4f}{errors.std():>8.4f}{stated:>8.4f}{bias:>9.1e}"
                f"{covered:>9.3f}{len(estimates) - len(given):>6}",
                flush=True,
            )


ERRORS = {
    "normal": lambda rng, n: rng.normal(size=n),
    "t, 5 degrees": lambda rng, n: rng.standard_t(5, n),
    "t, 4 degrees": lambda rng, n: rng.standard_t(4, n),
    "lognormal": lambda rng, n: np.exp(rng.normal(size=n)) - np.exp(0.5),
}
SQUARES = {"normal": 1.0, "t, 5 degrees": 5 / 3, "t, 4 degrees": 2.0, "lognormal": np.exp(2) - np.exp(1)}


def tails(draws):
    theta, noise = np.array([1.0, -1.0]), sd.GaussianMechanism.from_scale(0.5)
    release = sd.Release(noise, noise)
    print(f"{'errors':<14}{'records':>8}{'covered':>9}{'symmetric':>11}{'longer':>8}{'none':>6}")
    for errors, draw in ERRORS.items():
        for records in (100, 400, 3_000):
            rng, rows = np.random.default_rng(records), []
            for _ in range(draws):
                X = rng.normal(size=(records, 2))
                noised = release.privatize(X, X @ theta + draw(rng, records), random_state=int(rng.integers(2**31)))
                found = sd.evaluation.evaluate(theta, noised.X, noised.y, metric="squared_error", release=release)
                both = [one.interval_or_none() for one in (found, replace(found, skewness=0.0))]
                if None not in both:
                    covers = [low <= SQUARES[errors] <= high for low, high in both]
                    rows.append([*covers, (both[0][1] - both[0][0]) / (both[1][1] - both[1][0])])
            covered, symmetric, longer = np.mean(rows, axis=0)
            print(
                f"{errors:<14}{records:>8,}{covered:>9.3f}{symmetric:>11.3f}{longer:>8.2f}{draws - len(rows):>6}",
                flush=True,
            )


def adult(draws):
    train, test = datasets.adult_parts()
    low, high, norm = np.array([17, 1, 1, -1, -1]), np.array([80, 16, 80, 1, 1]), 1.7

    def scaled(X):
        """Return columns in public bounds, shortened to the norm."""
        columns = np.clip(2 * (X - low) / (high - low) - 1, -1, 1)
        return columns / np.maximum(1, np.linalg.norm(columns, axis=1, keepdims=True) / norm)

    true = sd.Release(fit_intercept=True)
    theta = sd.m_estimate(sd.debias(sd.losses.logistic(), true), scaled(train.X), train.y).theta
    X = scaled(test.X)
    metrics = ("accuracy", "precision", "recall", "f1", "roc_auc", "brier", "log_loss")
    release = sd.Release(
        sd.SphericalCapMechanism(epsilon=6.0, radius=norm), sd.RandomizedResponse(epsilon=2.0), fit_intercept=True
    )
    found = {metric: [] for metric in metrics}
    naive = {metric: [] for metric in metrics}
    for draw in range(draws):
        noised = release.privatize(X, test.y, random_state=100 + draw)
        for metric in metrics:
            found[metric].append(
                sd.evaluation.evaluate(
                    theta, noised.X, noised.y, metric=metric, release=release, label_model="logistic"
                )
            )
            naive[metric].append(sd.evaluation.evaluate(theta, noised.X, noised.y, metric=metric, release=true).value)
    print(f"{'':<11}{'true':>8}{'naive':>8}{'mean':>8}{'sd':>8}{'stated':>8}{'bias':>9}")
    for metric in metrics:
        wanted = sd.evaluation.evaluate(theta, X, test.y, metric=metric, release=true).value
        values = np.array([one.value for one in found[metric]])
        stated, bias = (np.mean([getattr(one, of) for one in found[metric]]) for of in ("standard_error", "bias"))
        print(
            f"{metric:<11}{wanted:>8.4f}{np.mean(naive[metric]):>8.4f}{values.mean():>8.4f}{values.std():>8.4f}"
            f"{stated:>8.4f}{bias:>9.1e}"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int)
    parser.add_argument("--adult", action="store_true")
    parser.add_argument("--tails", action="store_true")
    parser.add_argument("--records", type=int, default=3_000)
    parser.add_argument("--population", type=int, default=400_000)
    options = parser.parse_args()
    if options.adult:
        adult(options.draws or 20)
        return
    if options.tails:
        tails(options.draws or 400)
        return
    options.draws = options.draws or 100
    print(
        f"{'':<14}{'noise':<24}{'metric':<11}{'true':>7}{'error':>9}{'(se)':>8}{'sd':>8}{'stated':>8}{'bias':>9}"
        f"{'covered':>9}{'none':>6}"
    )
    for shape in SHAPES:
        for noise in NOISES:
            compare(shape, noise, options)


if __name__ == "__main__":
    main()
