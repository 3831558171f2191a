"""UCI Adult by logistic regression from released records: fits refused or lost, excess risk, held-out accuracy.

    SYMDEBIAS_DATA=folder python benchmarks/adult.py [--draws 50] [--epsilon 2 4 8] [--rows 'margin spherical *' recipe]
        [--records 32561] [--radius 1]

Income above 50,000 from age, years of education, hours per week, sex and whether a spouse is there, with an intercept;
trained on adult.data, tested on adult.test; l2 = .01, which spares the intercept. The coding is public:
(age - 40)/30, (education-num - 10)/6, (hours - 40)/40, sex and spouse as -1/2 or 1/2, and rows longer than the radius,
1, are shortened to it; true records are shortened alike, so that all fits minimise one risk.

All rows spend the same epsilon: margin releases on the vector (y x, c y), split ones by halves on features and label.
"recipe" is that of Dufraiche et al. 2026: classical Gaussian noise (delta 1e-5, also beyond epsilon = 1 where it has no
proof) and randomized response with a half each, IWP-SGD on the exponential loss, one pass, last iterate; its excess
risk is that of its own loss. The Gaussian rows and "central objective" have a delta of 1e-5, the others none.
"central" rows are for a collector who holds the true records and noises the fit, by this library's own methods and by
diffprivlib where it is installed. Ours penalise the intercept too, and most of their excess risk is that.
A fit is refused where the solver raises an error, and lost where its excess risk exceeds .05; medians and means are of
the fits that were returned, lost ones included.
"""

import argparse
import fnmatch
import importlib.util
import math
import time

import numpy as np

import symdebias as sd
from symdebias.interfaces import datasets

DELTA, L2, LOST = 1e-5, 0.01, 0.05
COLUMNS = ("age", "education", "hours", "sex", "married")
CENTRE, SCALE = np.array([40.0, 10.0, 40.0, 0.0, 0.0]), np.array([30.0, 6.0, 40.0, 2.0, 2.0])


class Records:
    """Adult's two files, coded and shortened, and the risk of a loss on the first."""

    def __init__(self, radius, records):
        train, test = datasets.adult_parts()
        rows = np.random.default_rng(0).permutation(len(train.y))[:records]
        self.y, self.test_y, self.radius = train.y[rows], test.y, radius
        coded = (train.X[rows] - CENTRE) / SCALE
        self.shortened = float(np.mean(np.linalg.norm(coded, axis=1) > radius))
        self.X, self.test_X = shorten(coded, radius), shorten((test.X - CENTRE) / SCALE, radius)

    def accuracy(self, theta):
        """Return the share of the held-out labels that the sign of the score has right."""
        return float(np.mean(np.sign(self.test_X @ theta[:-1] + theta[-1]) == self.test_y))


class Risk:
    """The regularised risk of a loss on the true training records, and the fit to them."""

    def __init__(self, loss, records):
        self.plain, self.records = sd.debias(loss, sd.Release(fit_intercept=True), method="none"), records
        self.best = sd.m_estimate(self.plain, records.X, records.y, l2=L2).theta
        self.least = self(self.best)

    def __call__(self, theta):
        """Return the risk at theta."""
        return self.plain.mean_loss(theta, self.records.X, self.records.y) + L2 / 2 * float(theta[:-1] @ theta[:-1])


def shorten(X, radius):
    """Return the rows within the ball."""
    return X / np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True) * (1 + 1e-12) / radius)


def l1(radius):
    """Return the radius of the L1 ball that holds the ball of five columns."""
    return math.sqrt(5) * radius


# Mechanisms of a margin release by the names of their rows: a line each. They take the budget and the radius of x.
MARGINS = {
    "margin spherical cap": (sd.SphericalCapMechanism, {}),
    "margin spherical cap, c .5": (sd.SphericalCapMechanism, {"target_scale": 0.5}),
    "margin spherical laplace": (sd.SphericalLaplaceMechanism, {}),
    "margin spherical laplace, c .5": (sd.SphericalLaplaceMechanism, {"target_scale": 0.5}),
    "margin laplace": (lambda epsilon, radius: sd.LaplaceMechanism(epsilon, radius=l1(radius)), {}),
    "margin laplace, c .5": (
        lambda epsilon, radius: sd.LaplaceMechanism(epsilon, radius=l1(radius)), {"target_scale": 0.5},
    ),
    "margin gaussian": (lambda epsilon, radius: sd.GaussianMechanism(epsilon, DELTA, radius), {}),
    "margin gaussian, c .5": (
        lambda epsilon, radius: sd.GaussianMechanism(epsilon, DELTA, radius), {"target_scale": 0.5},
    ),
}  # fmt: skip
SPLITS = {
    "split spherical laplace": sd.SphericalLaplaceMechanism,
    "split gaussian": lambda epsilon, radius: sd.GaussianMechanism(epsilon, DELTA, radius),
}
# The correction of a margin or split row; "auto" is the library's choice.
METHODS = ("auto", "surrogate")


def released(release, method):
    """Return a fit by M-estimation to one draw of a release."""
    release = release.bind(COLUMNS)
    corrected = sd.debias(sd.losses.logistic(), release, method=method)

    def fit(records, seed):
        noised = release.privatize(records.X, records.y, random_state=seed)
        return sd.m_estimate(corrected, noised.X, noised.y, l2=L2).theta

    return fit


def recipe(epsilon, radius):
    """Return a fit by the published recipe."""
    scale = 2 * radius * math.sqrt(2 * math.log(1.25 / DELTA)) / (epsilon / 2)
    release = sd.Release(
        sd.GaussianMechanism.from_scale(scale), sd.RandomizedResponse(epsilon=epsilon / 2), fit_intercept=True
    )
    corrected = sd.debias(sd.losses.exponential(), release, method="exact")

    def fit(records, seed):
        noised = release.privatize(records.X, records.y, random_state=seed)
        return sd.sgd(
            corrected, noised.X, noised.y, step_size=4e-3, batch_size=128, l2=L2, random_state=seed
        ).theta  # fmt: skip

    return fit


def central(solver, epsilon, radius, **settings):
    """Return a fit by noise in the training of a collector."""

    def fit(records, seed):
        return solver(
            sd.losses.logistic(), records.X, records.y, epsilon=epsilon, adjacency="replace-one", record_radius=radius,
            fit_intercept=True, random_state=seed, **settings,
        ).theta  # fmt: skip

    return fit


def objective(epsilon, radius):
    """Return a fit by objective perturbation, whose penalty, on the sum of the losses, is the regularisation."""

    def fit(records, seed):
        penalty = L2 * len(records.y)
        return central(sd.objective_perturbation, epsilon, radius, delta=DELTA, penalty=penalty)(records, seed)

    return fit


def peer(epsilon, radius):
    """Return a fit by diffprivlib's logistic regression, whose penalty spares the intercept as the risk does."""
    models = importlib.import_module("diffprivlib.models")

    def fit(records, seed):
        n = len(records.y)
        model = models.LogisticRegression(
            epsilon=epsilon, data_norm=radius, C=1 / (L2 * n), tol=1e-8, max_iter=10_000, random_state=seed
        ).fit(records.X, records.y)
        return np.append(model.coef_[0], model.intercept_)

    return fit


def rows(epsilon, radius):
    """Return makers of fits by the names of their rows."""
    found = {"recipe": lambda: recipe(epsilon, radius)}
    ways = {
        name: lambda make=make: sd.Release(
            make(epsilon / 2, radius), sd.RandomizedResponse(epsilon=epsilon / 2), fit_intercept=True
        )
        for name, make in SPLITS.items()
    }
    for name, (make, settings) in MARGINS.items():
        ways[name] = lambda make=make, settings=settings: sd.Release(
            make(epsilon, radius), target="margin", fit_intercept=True, **settings
        )
    for name, build in ways.items():
        for method in METHODS:
            found[f"{name}, {method}"] = lambda build=build, method=method: released(build(), method)
    found["central objective"] = lambda: objective(epsilon, radius)
    found["central output"] = lambda: central(sd.output_perturbation, epsilon, radius, l2=L2)
    if importlib.util.find_spec("diffprivlib") is not None:
        found["central diffprivlib"] = lambda: peer(epsilon, radius)
    return found


def report(records, risks, epsilon, draws, chosen):
    print(f"\nepsilon {epsilon:g}, {draws} draws")
    print(
        f"  {'':<36}{'refused':>8}{'lost':>6}{'median':>10}{'mean':>10}{'worst':>10}"
        f"{'accuracy':>10}{'+-':>7}{'seconds':>9}"
    )
    for name, make in rows(epsilon, records.radius).items():
        if not any(fnmatch.fnmatch(name, pattern) for pattern in chosen):
            continue
        risk = risks["exponential" if name == "recipe" else "logistic"]
        excess, accuracy, reasons, began = [], [], [], time.perf_counter()
        try:
            fit = make()
        except sd.SymdebiasError as error:
            print(f"  {name:<36}{'all':>8}  {type(error).__name__}: {str(error).splitlines()[0][:100]}", flush=True)
            continue
        for draw in range(draws):
            try:
                theta = fit(records, 1_000 + draw)
            except sd.SymdebiasError as error:
                reasons.append(f"{type(error).__name__}: {error}")
                continue
            excess.append(risk(theta) - risk.least)
            accuracy.append(records.accuracy(theta))
        seconds = (time.perf_counter() - began) / draws
        figures = f"{'-':>10}" * 4 + f"{'-':>7}"
        if excess:
            figures = f"{np.median(excess):>10.2e}{np.mean(excess):>10.2e}{np.max(excess):>10.2e}"
            figures += f"{np.mean(accuracy):>10.4f}{np.std(accuracy):>7.4f}"
        lost = sum(not one <= LOST for one in excess)
        print(f"  {name:<36}{len(reasons):>8}{lost:>6}{figures}{seconds:>9.2f}", flush=True)
        if reasons:
            print(f"      {reasons[0][:150]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=50)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[2.0, 4.0, 8.0], help="whole budgets")
    parser.add_argument("--rows", nargs="+", default=["*"], help="patterns of the names of rows")
    parser.add_argument("--records", type=int, default=32_561, help="how many to train on")
    parser.add_argument("--radius", type=float, default=1.0, help="the public bound on the coded features")
    options = parser.parse_args()
    records = Records(options.radius, options.records)
    losses = {"exponential": sd.losses.exponential(), "logistic": sd.losses.logistic()}
    risks = {name: Risk(loss, records) for name, loss in losses.items()}
    print(
        f"UCI Adult, {len(records.y):,} records to train on, {len(records.test_y):,} to test on; radius "
        f"{options.radius:g}, {records.shortened:.1%} of the rows shortened"
    )
    print(f"majority class {np.mean(records.test_y < 0):.4f}")
    for name, risk in risks.items():
        print(
            f"non-private, {name}: accuracy {records.accuracy(risk.best):.4f}, "
            f"|theta| {np.linalg.norm(risk.best):.2f}, risk {risk.least:.5f}"
        )
    for epsilon in options.epsilon:
        report(records, risks, epsilon, options.draws, options.rows)


if __name__ == "__main__":
    main()
