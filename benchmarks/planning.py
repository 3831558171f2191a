"""Expected standard errors beside those of simulated fits, and the best split beside a grid.

    python benchmarks/planning.py [--fits 1000] [--points 45] [--split-fits 100] [--only "least squares*" ...]

Nine settings of loss, mechanism and number of columns, and four of free-form losses: the ratios, over parameters, of
the standard deviation of `m_estimate` over independent data and noise to the expected standard error. The Monte-Carlo
error of a ratio is 1/sqrt(2 fits). Then the split of a budget: the criterion at the planner's split over the least of a
grid, and that of the half-half split. Last, designs of columns in their own units with public centres and scales:
`sd.plan` splits the budget, and `m_estimate` is run on simulated releases of the planned split, of equal parts, and of
two others, with the same people and seeds for all of them.
"""

import argparse
import math
from fnmatch import fnmatchcase

import numpy as np
import sympy as sp

import symdebias as sd


def label(epsilon):
    return sd.RandomizedResponse(epsilon=epsilon)


def normal(p, scale, target=None, **options):
    return sd.Release({tuple(f"x{j}" for j in range(p)): sd.GaussianMechanism.from_scale(scale)}, target, **options)


def laplace(p, scale, target=None, **options):
    return sd.Release({tuple(f"x{j}" for j in range(p)): sd.LaplaceMechanism.from_scale(scale)}, target, **options)


SETTINGS = {
    "exponential, normal 1.0, labels 2, p 2": (
        sd.losses.exponential(), normal(2, 1.0, label(2.0)), [2.0, -1.0], "binary", 20_000, 1.0),
    "exponential, Laplace 0.5, labels 2, p 2": (
        sd.losses.exponential(), laplace(2, 0.5, label(2.0)), [2.0, -1.0], "binary", 20_000, 1.0),
    "logistic, normal 0.5, labels 2, p 2": (
        sd.losses.logistic(), normal(2, 0.5, label(2.0)), [1.0, -0.5], "binary", 20_000, 0.0),
    "logistic, normal 0.4, p 6": (
        sd.losses.logistic(), normal(6, 0.4), [1.0, -1.0, 0.5, -0.5, 0.25, 0.0], "binary", 20_000, 0.0),
    "logistic, Laplace 0.3, labels 3, p 2": (
        sd.losses.logistic(), laplace(2, 0.3, label(3.0)), [1.0, -0.5], "binary", 20_000, 0.0),
    "Poisson, normal 0.4, p 3": (
        sd.losses.poisson(), normal(3, 0.4), [0.8, -0.5, 0.3], "count", 10_000, 0.0),
    "Poisson, normal 0.4, intercept, p 2": (
        sd.losses.poisson(), normal(2, 0.4, fit_intercept=True), [0.8, -0.5, 0.3], "count", 10_000, 0.0),
    "least squares, normal 0.6, p 10": (
        sd.losses.least_squares(), normal(10, 0.6), list(np.linspace(-1, 1, 10)), "normal", 20_000, 0.0),
    "least squares, Laplace 0.5, p 5": (
        sd.losses.least_squares(), laplace(5, 0.5), list(np.linspace(-1, 1, 5)), "normal", 20_000, 0.0),
}  # fmt: skip


def print_errors(fits, chosen):
    print(f"{'':<42}{'expected se':>12}{'simulated / expected':>22}   ({fits} fits, +- {1 / math.sqrt(2 * fits):.3f})")
    for name, (loss, release, theta, family, n, l2) in SETTINGS.items():
        if not chosen(name):
            continue
        options = {"family": family, "intercept": release.fit_intercept}
        expected = sd.planning.expected_fit(loss, release, sd.planning.Population.guess(theta, **options), n=n, l2=l2)
        corrected = sd.debias(loss, release)
        found = []
        for seed in range(fits):
            records = sd.planning.Population.guess(
                theta, size=n, random_state=np.random.default_rng([8, seed]), **options
            )
            noised = release.privatize(records.X, records.y, random_state=np.random.default_rng([9, seed]))
            found.append(sd.m_estimate(corrected, noised.X, noised.y, l2=l2).theta)
        ratios = np.std(found, axis=0, ddof=1) / expected.standard_errors
        span = f"{ratios.min():.3f} to {ratios.max():.3f}"
        print(f"{name:<42}{expected.standard_errors.max():>12.4g}{span:>22}", flush=True)


# Free-form losses: the parameters, how the target is drawn given the features, and the release.
x1, x2, a, b, y = sp.symbols("x1 x2 a b y", real=True)
QUADRATIC = sd.Loss.of_features((y - a * x1**2 - b * x2) ** 2 / 2, features=[x1, x2], parameters=[a, b], target=y)
CURVE = sd.Loss.of_features((y - a * sp.exp(b * x1)) ** 2 / 2, features=[x1], parameters=[a, b], target=y)
FREE_FORM = {
    "free-form: a x1^2 + b x2, normal 0.4": (
        QUADRATIC, normal(2, 0.4), lambda X: 1.5 * X[:, 0] ** 2 - 0.7 * X[:, 1], 20_000),
    "free-form: a x1^2 + b x2, Laplace 0.2, target": (
        QUADRATIC, laplace(2, 0.2, sd.LaplaceMechanism.from_scale(0.5)),
        lambda X: 1.5 * X[:, 0] ** 2 - 0.7 * X[:, 1], 20_000),
    "free-form: a exp(b x1), normal 0.4": (CURVE, normal(1, 0.4), lambda X: 1.5 * np.exp(0.8 * X[:, 0]), 20_000),
    "free-form: a exp(b x1), Laplace 0.15": (CURVE, laplace(1, 0.15), lambda X: 1.5 * np.exp(0.8 * X[:, 0]), 20_000),
}  # fmt: skip


def print_free_form(fits, chosen):
    for name, (loss, release, curve, n) in FREE_FORM.items():
        if not chosen(name):
            continue

        def drawn(rng, size, loss=loss, curve=curve):
            X = rng.uniform(-1, 1, (size, len(loss.features)))
            return X, curve(X) + 0.5 * rng.normal(size=size)

        population, start = sd.planning.Population(*drawn(np.random.default_rng(6), 20_000)), [1.5, 0.7]
        expected = sd.planning.expected_fit(loss, release, population, n=n, start=start)
        corrected, found, refused = sd.debias(loss, release), [], 0
        for seed in range(fits):
            X, target = drawn(np.random.default_rng([12, seed]), n)
            noised = release.privatize(X, target, random_state=np.random.default_rng([13, seed]))
            try:
                found.append(sd.m_estimate(corrected, noised.X, noised.y, start=start).theta)
            except sd.SymdebiasError:
                refused += 1
        ratios = np.std(found, axis=0, ddof=1) / expected.standard_errors
        span = f"{ratios.min():.3f} to {ratios.max():.3f}"
        told = f"   ({len(found)} fits, {refused} refused)"
        print(f"{name:<42}{expected.standard_errors.max():>12.4g}{span:>22}{told}", flush=True)


def print_splits(points, chosen):
    print(f"\n{'split of a budget':<42}{'target':>9}{'over the least of a grid':>26}{'half-half':>11}")
    population = sd.planning.Population.guess([2.0, -1.0])
    for loss, l2 in ((sd.losses.exponential(), 1.0), (sd.losses.logistic(), 0.0)):
        for name, make in (("gaussian", gaussian), ("laplace", pure)):
            for epsilon in (6.0, 12.0):
                title = f"{loss.name}, {name}, epsilon {epsilon:g}"
                if not chosen(title):
                    continue
                options = {"n": 1e6, "l2": l2}
                found = sd.planning.best_split(loss, make, population, epsilon=epsilon, **options)
                least = math.inf
                for share in np.linspace(0.02, 0.9, points):
                    release = make([epsilon * (1 - share), epsilon * share])
                    try:
                        one = sd.planning.expected_fit(loss, release, population, method="best", **options)
                    except sd.SymdebiasError:
                        continue
                    least = min(least, one.criterion("worst"))
                price = found.expected.criterion("worst")
                half = "refused" if found.equal is None else f"{found.equal.criterion('worst') / price:.2f}"
                print(f"{title:<42}{found.budgets[1]:>9.3g}{price / least:>26.3f}{half:>11}", flush=True)


def gaussian(budgets):
    features = sd.GaussianMechanism(epsilon=budgets[0], delta=1e-5, radius=math.sqrt(2))
    return sd.Release({("x0", "x1"): features}, label(budgets[1]))


def pure(budgets):
    return sd.Release({("x0", "x1"): sd.LaplaceMechanism(epsilon=budgets[0], radius=2.0)}, label(budgets[1]))


# Columns in their own units: their bounds, how people are drawn, the loss and what plan() is told. Parts of the budget
# are those of the columns, in their order, and that of the target.
def ages(rng, n):
    X = np.column_stack([np.clip(rng.normal(42, 14, n), 18, 90), np.clip(rng.normal(40, 12, n), 0, 100)])
    return X, np.where(rng.random(n) < 1 / (1 + np.exp(-0.05 * (X[:, 0] - 42) - 0.06 * (X[:, 1] - 40))), 1.0, -1.0)


def houses(rng, n):
    X = np.column_stack([rng.uniform(20, 220, n), rng.uniform(0, 60, n), rng.uniform(0, 30, n)])
    return X, np.clip(0.02 * X[:, 0] - 0.02 * X[:, 1] - 0.05 * X[:, 2] + 2 + 0.5 * rng.normal(size=n), -2, 8)


def visits(rng, n):
    X = np.column_stack([rng.uniform(15, 45, n), np.clip(rng.normal(140, 20, n), 80, 200)])
    return X, rng.poisson(np.exp(0.04 * (X[:, 0] - 30) + 0.008 * (X[:, 1] - 140))).astype(float)


RAW = {
    "own units: squared margin, label": (
        sd.losses.squared_margin(), ages, [54, 50], [36, 50], None, ("laplace",), 12.0, 100_000),
    "own units: least squares, target in [-2, 8]": (
        sd.losses.least_squares(), houses, [120, 30, 15], [100, 30, 15], (-2, 8), ("laplace per column",), 16.0,
        100_000),
    "own units: Poisson, public target, per column": (
        sd.losses.poisson(), visits, [30, 140], [15, 60], "public", ("laplace per column",), 24.0, 50_000),
}  # fmt: skip


def release_of(mechanism, parts, center, scale, target):
    """Return a release like that of a plan, by parts of the budget: of vector or columns, then of the target."""
    names = tuple(f"x{j}" for j in range(len(center)))
    parts, noised = list(parts), None
    if target is None:
        noised = label(parts.pop())
    elif target != "public":
        noised = sd.LaplaceMechanism(parts.pop(), bounds=target)
    if mechanism == "laplace":
        features = {names: sd.LaplaceMechanism(parts[0], radius=float(len(names)))}
    else:
        features = {name: sd.LaplaceMechanism(part, bounds=(-1, 1)) for name, part in zip(names, parts, strict=True)}
    return sd.Release(features, noised, fit_intercept=True, center=center, scale=scale)


def print_simulated_splits(fits, chosen):
    head = f"{'simulated splits':<50}{'parts':>24}{'largest se':>12}{'simulated':>11}{'+-':>9}{'over planned':>14}"
    print(f"\n{head}{'refused':>9}")
    for name, (loss, draw, center, scale, target, mechanisms, epsilon, n) in RAW.items():
        if not chosen(name):
            continue
        population = sd.planning.Population(*draw(np.random.default_rng(5), 20_000))
        options = {} if target is None else {"target": "public"} if target == "public" else {"target_bounds": target}
        plan = sd.plan(
            loss, population, epsilon=epsilon, n=n, mechanisms=mechanisms, center=center, scale=scale,
            fit_intercept=True, **options,
        )  # fmt: skip
        planned, count = plan.best.budgets, len(plan.best.budgets)
        equal = (epsilon / count,) * count
        # The others: half as far beyond the plan as equal parts are short of it, and half of the first part moved.
        beyond = [a * (a / b) ** 0.5 for a, b in zip(planned, equal, strict=True)]
        halved = [planned[0] / 2, *(part + planned[0] / 2 / (count - 1) for part in planned[1:])]
        splits = {"planned": planned, "equal": equal, "beyond": beyond, "first part halved": halved}
        least = None
        for title, parts in splits.items():
            parts = [epsilon * part / sum(parts) * (1 - 1e-12) for part in parts]
            release = release_of(mechanisms[0], parts, center, scale, target)
            expected = sd.planning.expected_fit(loss, release, population, n=n, method="best")
            corrected, found, refused = sd.debias(loss, release, method=expected.method), [], 0
            for seed in range(fits):
                X, y = draw(np.random.default_rng([10, seed]), n)
                noised = release.privatize(X, y, random_state=np.random.default_rng([11, seed]))
                try:
                    found.append(sd.m_estimate(corrected, noised.X, noised.y).theta)
                except sd.SymdebiasError:
                    refused += 1
            if len(found) < 2:
                print(f"  {title:<48}{refused} of {fits} fits are refused", flush=True)
                continue
            worst = np.std(found, axis=0, ddof=1).max()
            least = worst if least is None else least
            spent = ", ".join(f"{part:.2f}" for part in parts)
            print(
                f"{name + ', ' + title if title == 'planned' else '  ' + title:<50}{spent:>24}"
                f"{expected.standard_errors.max():>12.4g}{worst:>11.4g}{worst / math.sqrt(2 * len(found)):>9.2g}"
                f"{worst / least:>14.2f}{refused:>9}",
                flush=True,
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fits", type=int, default=1000)
    parser.add_argument("--points", type=int, default=45, help="shares of the grid")
    parser.add_argument("--split-fits", type=int, default=100, help="simulated releases of each split")
    parser.add_argument("--only", nargs="+", default=["*"], help="patterns of names of settings and splits")
    arguments = parser.parse_args()

    def chosen(name):
        return any(fnmatchcase(name, pattern) for pattern in arguments.only)

    print_errors(arguments.fits, chosen)
    print_free_form(arguments.fits, chosen)
    print_splits(arguments.points, chosen)
    print_simulated_splits(arguments.split_fits, chosen)
