"""The excess risk of fits: the published recipe, the planner's release, and releases designed for the loss.

    python benchmarks/excess_risk.py [--draws 100] [--records 1000000] [--columns 2 10] [--epsilon 2]
        [--losses exponential logistic] [--pilot 100000] [--steps published analytic margin-spherical-laplace]
    python benchmarks/excess_risk.py --columns 5 20 50 --epsilon 0.5 1 2 4 8 --losses exponential logistic
        --records 200000 --draws 5 --lost 1 --steps published margin-spherical-cap margin-spherical-laplace
        margin-laplace margin-gaussian

The synthetic problems of Dufraiche et al. 2026 (l2 = 5; two columns with a budget of 2, ten with 5), over independent
draws of the noise. Step by step: IWP-SGD as published (classical calibration, also beyond epsilon = 1 where it has no
proof; one pass, step 1e-4, last iterate; on the surrogate that M-estimation designs where the loss has no exact
correction), M-estimation on the same noise, the analytic calibration, the planner's split of the budget, the planner's
mechanism, and margin releases, which spend the whole budget on y x. The planner sees released records only: the moments
and the fit of a pilot study of 100,000 of them. The last column but one is what the sandwich predicts from true
records.

A draw whose fit raises an error is lost: their number stands beside the mean over the others. After so many lost draws
as `--lost` says a step is given up, and counts the draws that were tried. A release for which the loss has no
correction, or none within the time that a derivation is given, is refused.

The second command says where each mechanism wins: over several losses, widths or budgets a last table in Markdown has
the mean excess risk of all steps with its Monte-Carlo error, the predicted one in brackets, draws that were lost, and
what parameters of zero would have as excess risk. The least mean of the releases that lost nothing is set in bold.
"""

import argparse
import math
import time
from dataclasses import dataclass

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
    """Return the fit to one draw: IWP-SGD as published, or M-estimation, which designs a surrogate."""
    if published and corrected.method == "exact":
        return descended(corrected, noised, problem, draw)
    found = sd.m_estimate(corrected, noised.X, noised.y, l2=problem.l2)
    return descended(found.corrected, noised, problem, draw) if published else found


def descended(corrected, noised, problem, draw):
    """Return the last iterate of one pass."""
    return sd.sgd(
        corrected, noised.X, noised.y, step_size=1e-4, batch_size=128, l2=problem.l2, random_state=draw
    )  # fmt: skip


@dataclass(frozen=True)
class Found:
    """The fits of one step: mean excess risk, its error, what the sandwich promises, draws lost and draws tried."""

    mean: float
    error: float
    predicted: float
    lost: int
    draws: int

    def __str__(self):
        """Return a cell of the last table."""
        if not self.draws:
            return "refused"
        parts = [] if math.isnan(self.mean) else [f"{self.mean:.1e} ± {self.error:.0e}"]
        parts += [] if math.isnan(self.predicted) else [f"({self.predicted:.1e})"]
        parts += [f"{self.lost} of {self.draws} lost"] if self.lost else []
        return " ".join(parts)


def winners(found, chosen):
    """Print the excess risks of all steps, a line per problem, the least of those without a lost draw in bold."""
    steps = [step for step in STEPS if step in chosen]
    print("\n| loss | p | ε | zero | " + " | ".join(steps) + " |\n" + "|---" * (len(steps) + 4) + "|")
    for (name, columns, epsilon), (zero, cells) in found.items():
        least = min((cell.mean for cell in cells.values() if cell.draws and not cell.lost), default=math.nan)
        shown = [f"**{cells[step]}**" if cells[step].mean == least else str(cells[step]) for step in steps]
        print(f"| {name} | {columns} | {epsilon:g} | {zero:.1e} | " + " | ".join(shown) + " |")


def report(name, columns, epsilon, options):
    records, draws, pilot_size, chosen = options.records, options.draws, options.pilot, options.steps
    most_lost = options.lost or draws
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
    zero = risk(np.zeros(columns)) - risk.least
    print(f"  parameters of zero have the excess risk {zero:.3e}")
    before = first = None
    cells = {}
    print(
        f"  {'':<26}{'excess risk':>13}{'+-':>10}{'gain':>7}{'in all':>8}{'+-':>7}{'predicted':>12}{'seconds':>9}"
        f"{'lost':>6}"
    )
    for step in (step for step in STEPS if step in chosen):
        title, make = steps[step]
        try:
            release = make()
            corrected = sd.debias(loss, release)
        except sd.SymdebiasError as error:
            print(f"  {title:<26}refused: {str(error).splitlines()[0]}", flush=True)
            cells[step] = Found(math.nan, math.nan, math.nan, 0, 0)
            continue
        excess, seconds, refusals = [], 0.0, []
        for draw in range(draws):
            if len(refusals) == most_lost:
                break
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
        promise = math.nan if step == "published" else predicted(loss, problem, release)
        mean = float(np.mean(excess)) if excess else math.nan
        error = float(np.std(excess, ddof=1)) / math.sqrt(len(excess)) if len(excess) > 1 else math.nan
        tried = len(excess) + len(refusals)
        cells[step] = Found(mean, error, promise, len(refusals), tried)
        if excess:
            first = (mean, error) if first is None else first
            ratio = first[0] / mean
            uncertain = ratio * math.hypot(error / mean, first[1] / first[0]) if before is not None else 0.0
            gain = "" if before is None else f"{before / mean:.2f}"
            before = mean
            figures = f"{mean:>13.3e}{error:>10.1e}{gain:>7}{ratio:>8.2f}{uncertain:>7.1f}"
        else:
            figures = f"{'-':>13}{'-':>10}{'':>7}{'':>8}{'':>7}"
        promised = "" if math.isnan(promise) else f"{promise:.3g}"
        lost = f"{len(refusals):>6}  {refusals[0]}" if refusals else f"{0:>6}"
        print(f"  {title:<26}{figures}{promised:>12}{seconds / tried:>9.3f}{lost}", flush=True)
    return zero, cells


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--lost", type=int, help="give a step up after so many lost draws; by default after all")
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, nargs="+", default=list(BUDGETS))
    parser.add_argument(
        "--epsilon", type=float, nargs="+", help="whole budgets; by default 2 for two columns, 5 for more"
    )
    parser.add_argument("--losses", nargs="+", choices=LOSSES, default=["exponential"])
    parser.add_argument("--pilot", type=int, default=100_000, help="records of the planner's pilot study")
    parser.add_argument("--steps", nargs="+", choices=STEPS, default=STEPS)
    options = parser.parse_args()
    # Ordinary Laplace noise of many columns has long corrections.
    with sd.derivation_limits(seconds=600.0):
        table = {
            (name, columns, epsilon): report(name, columns, epsilon, options)
            for name in options.losses
            for columns in options.columns
            for epsilon in options.epsilon or [BUDGETS.get(columns, 5.0)]
        }
    if len(table) > 1:
        winners(table, options.steps)
