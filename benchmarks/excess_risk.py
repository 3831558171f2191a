"""The excess risk of fits: the published recipe, the planner's release, and releases designed for the loss.

    python benchmarks/excess_risk.py [--draws 100] [--records 1000000] [--columns 2 10] [--epsilon 2]
        [--losses exponential logistic] [--pilot 100000] [--steps published analytic margin-spherical-laplace]
    python benchmarks/excess_risk.py --columns 2 5 10 20 --epsilon 0.5 1 4 8 --losses logistic --draws 5
        --steps analytic margin-gaussian margin-laplace margin-spherical-laplace

The synthetic problems of Dufraiche et al. 2026 (l2 = 5; two columns with a budget of 2, ten with 5), over independent
draws of the noise. Step by step: IWP-SGD as published (classical calibration, also beyond epsilon = 1 where it has no
proof; one pass, step 1e-4, last iterate), M-estimation on the same noise, the analytic calibration, the planner's split
of the budget, the planner's mechanism, and margin releases, which spend the whole budget on y x. A loss without an
exact correction is trained by M-estimation throughout. The planner sees released records only: the moments and the fit
of a pilot study of 100,000 of them. The last column but one is what the sandwich predicts from true records.

The second command says where each mechanism wins: over several widths or budgets a last table has the mean excess risk
of all steps, the least of a line marked. A step has no mean where the planner or a fit raised an error.
"""

import argparse
import math
import time

import numpy as np
from scipy.optimize import minimize

import symdebias as sd
from symdebias.interfaces import demo

DELTA = 1e-5
BUDGETS = {2: 2.0, 10: 5.0}
LOSSES = {"exponential": sd.losses.exponential, "logistic": sd.losses.logistic}
# Vectors in the ball of radius sqrt(p), which holds [-1, 1]^p; its L1 ball has the radius p.
MARGINS = {
    "margin-gaussian": lambda epsilon, p: sd.GaussianMechanism(epsilon, DELTA, math.sqrt(p)),
    "margin-laplace": lambda epsilon, p: sd.LaplaceMechanism(epsilon, radius=float(p)),
    "margin-spherical-laplace": lambda epsilon, p: sd.SphericalLaplaceMechanism(epsilon, math.sqrt(p)),
    "margin-spherical-cap": lambda epsilon, p: sd.SphericalCapMechanism(epsilon, math.sqrt(p)),
}
STEPS = ("published", "newton", "analytic", "split", "mechanism", *MARGINS)


class Risk:
    """The regularised risk of a loss on true records, and its minimum."""

    def __init__(self, loss, problem):
        self.plain = sd.debias(loss, sd.Release().bind(problem.release.columns))
        self.X, self.y, self.l2 = problem.X, problem.y, problem.l2
        columns = self.X.shape[1]
        least = minimize(
            self, np.zeros(columns), method="trust-exact", options={"gtol": 1e-12},
            jac=lambda theta: self.plain.mean_gradient(theta, self.X, self.y) + self.l2 * theta,
            hess=lambda theta: self.plain.mean_hessian(theta, self.X, self.y) + self.l2 * np.eye(columns),
        )  # fmt: skip
        self.least = least.fun

    def __call__(self, theta):
        """Return the risk at theta."""
        return self.plain.mean_loss(theta, self.X, self.y) + self.l2 / 2 * float(theta @ theta)


def published(problem, epsilon, p):
    """Return the release with the classical calibration of half the budget."""
    scale = 2 * math.sqrt(p) * math.sqrt(2 * math.log(1.25 / DELTA)) / (epsilon / 2)
    mechanism = sd.GaussianMechanism.from_scale(scale)
    return sd.Release({problem.release.columns: mechanism}, sd.RandomizedResponse(epsilon=epsilon / 2))


def margin(problem, mechanism):
    """Return a release of y x."""
    return sd.Release({problem.release.columns: mechanism}, target="margin")


def planned(loss, problem, epsilon, mechanisms, pilot_size):
    """Return the release that the planner chooses from a pilot study, and the plan."""
    pilot = problem.release.privatize(problem.X[:pilot_size], problem.y[:pilot_size], random_state=99)
    corrected = sd.debias(loss, pilot.release)
    fit = sd.m_estimate(corrected, pilot.X, pilot.y, l2=problem.l2)
    # A long l2 shrinks theta: the labels of the population follow the direction, at the strength without it.
    mean, gram = sd.solvers.moments.debiased_moments(corrected.records(pilot.X, pilot.y))
    spread = np.diag(gram) - mean**2
    population = sd.planning.Population.guess(
        fit.theta * problem.l2, mean=np.clip(mean, -0.5, 0.5), covariance=np.clip(spread, 0.02, 0.5)
    )
    plan = sd.plan(
        loss, population, epsilon=epsilon, delta=DELTA, n=len(problem.y), l2=problem.l2, criterion="risk",
        mechanisms=mechanisms,
    )  # fmt: skip
    print(f"  planner: {plan.best.mechanism} {plan.best.budgets}")
    return plan.best.expected.release


def predicted(loss, problem, release):
    """Return the excess risk that the sandwich promises, from true records, without what their own drawing adds."""
    rng = np.random.default_rng(5)
    rows = rng.choice(len(problem.y), min(100_000, len(problem.y)), replace=False)
    population = sd.planning.Population(problem.X[rows], problem.y[rows])
    try:
        noised, true = (
            sd.planning.expected_fit(loss, one, population, n=len(problem.y), l2=problem.l2).excess_risk
            for one in (release, sd.Release().bind(problem.release.columns))
        )
        return noised - true
    except sd.SymdebiasError:
        return math.nan


def trained(corrected, noised, problem, draw, published):
    """Return the fit to one draw: IWP-SGD as published, where the correction is exact, or M-estimation."""
    if published and corrected.method == "exact":
        return sd.sgd(
            corrected, noised.X, noised.y, step_size=1e-4, batch_size=128, l2=problem.l2, random_state=draw
        )  # fmt: skip
    return sd.m_estimate(corrected, noised.X, noised.y, l2=problem.l2)


def winners(found, chosen):
    """Print the means of all steps, a line per problem, with a star at the least."""
    steps = [step for step in STEPS if step in chosen]
    width = max(map(len, steps)) + 2
    print(f"\n{'loss':<12}{'p':>4}{'epsilon':>9}" + "".join(f"{step:>{width}}" for step in steps))
    for (name, columns, epsilon), means in found.items():
        cells = [
            f"{means[step]:.2e}{'*' if means[step] == min(means.values()) else ' '}" if step in means else "- "
            for step in steps
        ]
        print(f"{name:<12}{columns:>4}{epsilon:>9g}" + "".join(f"{cell:>{width}}" for cell in cells))


def report(name, columns, epsilon, records, draws, pilot_size, chosen):
    problem, loss = demo.synthetic_problem(columns, epsilon, records=records), LOSSES[name]()
    risk = Risk(loss, problem)
    print(f"\n{problem.name}, {name} loss, n = {records:,}, {draws} draws")
    both = ["gaussian", "laplace"]
    steps = {
        "published": ("IWP-SGD as published", lambda: published(problem, epsilon, columns)),
        "newton": ("M-estimation, same noise", lambda: published(problem, epsilon, columns)),
        "analytic": ("analytic calibration", lambda: problem.release),
        "split": ("planner's split", lambda: planned(loss, problem, epsilon, both[:1], pilot_size)),
        "mechanism": ("planner's mechanism", lambda: planned(loss, problem, epsilon, both, pilot_size)),
    }
    for step, make in MARGINS.items():
        steps[step] = (step.replace("-", " "), lambda make=make: margin(problem, make(epsilon, columns)))
    before = first = None
    means = {}
    print(f"  {'':<26}{'excess risk':>13}{'+-':>10}{'gain':>7}{'in all':>8}{'+-':>7}{'predicted':>12}{'seconds':>9}")
    for step in (step for step in STEPS if step in chosen):
        title, make = steps[step]
        try:
            release = make()
            corrected = sd.debias(loss, release)
        except sd.SymdebiasError as error:
            print(f"  {title:<26}refused: {str(error).splitlines()[0]}", flush=True)
            continue
        if step == "published" and corrected.method != "exact":
            title = "published, M-estimation"
        excess, seconds, refusals = [], 0.0, []
        for draw in range(draws):
            noised = release.privatize(problem.X, problem.y, random_state=1_000 + draw)
            began = time.perf_counter()
            try:
                fit = trained(corrected, noised, problem, draw, step == "published")
            except sd.SymdebiasError as error:
                refusals.append(str(error).splitlines()[0])
                continue
            finally:
                seconds += time.perf_counter() - began
            excess.append(risk(fit.theta) - risk.least)
        if refusals:
            print(f"  {title:<26}{len(refusals)} of {draws} refused: {refusals[0]}", flush=True)
            continue
        mean, error = float(np.mean(excess)), float(np.std(excess, ddof=1)) / math.sqrt(draws)
        first = (mean, error) if first is None else first
        ratio = first[0] / mean
        uncertain = ratio * math.hypot(error / mean, first[1] / first[0]) if before is not None else 0.0
        gain = "" if before is None else f"{before / mean:.2f}"
        promise = "" if title == "IWP-SGD as published" else f"{predicted(loss, problem, release):.3g}"
        print(
            f"  {title:<26}{mean:>13.3e}{error:>10.1e}{gain:>7}{ratio:>8.2f}{uncertain:>7.1f}{promise:>12}"
            f"{seconds / draws:>9.3f}",
            flush=True,
        )
        before = means[step] = mean
    return means


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, nargs="+", default=list(BUDGETS))
    parser.add_argument(
        "--epsilon", type=float, nargs="+", help="whole budgets; by default 2 for two columns, 5 for more"
    )
    parser.add_argument("--losses", nargs="+", choices=LOSSES, default=["exponential"])
    parser.add_argument("--pilot", type=int, default=100_000, help="records of the planner's pilot study")
    parser.add_argument("--steps", nargs="+", choices=STEPS, default=STEPS)
    options = parser.parse_args()
    table = {
        (name, columns, epsilon): report(
            name, columns, epsilon, options.records, options.draws, options.pilot, options.steps
        )
        for name in options.losses
        for columns in options.columns
        for epsilon in options.epsilon or [BUDGETS.get(columns, 5.0)]
    }
    if len(table) > 1:
        winners(table, options.steps)
