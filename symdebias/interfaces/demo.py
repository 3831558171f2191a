"""The demonstration: SGD on true records, SGD on noised records, and IWP-SGD on the same noised records."""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from symdebias._arrays import FloatArray
from symdebias.corrected import CorrectedLoss
from symdebias.driver import debias
from symdebias.interfaces import datasets
from symdebias.losses import exponential
from symdebias.mechanisms import GaussianMechanism, RandomizedResponse
from symdebias.release import Release
from symdebias.solvers import Fit, sgd

CURVES = ("SGD on true records", "SGD on noised records", "IWP-SGD on noised records")
# Of Gaussian noise.
DELTA = 1e-5


@dataclass(frozen=True)
class Problem:
    """A training problem: records, their release, and how the solver is set."""

    name: str  # For tables and pictures.
    X: FloatArray  # Of shape (n, p): true records within the declared bounds.
    y: FloatArray  # Of shape (n,): true labels, -1 or +1.
    release: Release  # How the records are noised for the three curves.
    # The whole budget, as the sum of its parts, and the public radius of the ball of the features.
    epsilon: float
    radius: float
    # Settings of `sgd`, the same for all three curves.
    l2: float
    step_size: float
    batch_size: int
    epochs: int

    @property
    def uncorrected(self) -> CorrectedLoss:
        """The exponential loss as it is."""
        return debias(exponential(), self.release, method="none")

    def risk(self, theta: FloatArray) -> float:
        """Return the regularised risk of a model on the true records."""
        return self.uncorrected.mean_loss(theta, self.X, self.y) + self.l2 / 2 * float(theta @ theta)

    def optimum(self) -> FloatArray:
        """Return the minimiser of the regularised risk on the true records."""
        loss, identity = self.uncorrected, np.eye(self.X.shape[1])
        result = minimize(
            self.risk,
            np.zeros(self.X.shape[1]),
            jac=lambda theta: loss.mean_gradient(theta, self.X, self.y) + self.l2 * theta,
            hess=lambda theta: loss.mean_hessian(theta, self.X, self.y) + self.l2 * identity,
            method="trust-exact",
            options={"gtol": 1e-12},
        )
        return np.asarray(result.x)

    def fits(self, random_state: int, *, record: int | None = None, progress: bool = False) -> Iterator[Fit]:
        """Yield the fits of the three curves, in the order of `CURVES`.

        Parameters
        ----------
        random_state : int
            Seed of the noise and of the order of the records.
        record : int, optional
            How many iterates to keep.
        progress : bool
            Show a progress bar per fit.
        """
        noised = self.release.privatize(self.X, self.y, random_state=random_state)
        corrected = debias(exponential(), self.release)
        for loss, X, y in (
            (self.uncorrected, self.X, self.y),
            (self.uncorrected, noised.X, noised.y),
            (corrected, noised.X, noised.y),
        ):
            yield sgd(
                loss,
                X,
                y,
                step_size=self.step_size,
                batch_size=self.batch_size,
                epochs=self.epochs,
                l2=self.l2,
                record=record,
                random_state=random_state,
                progress=progress,
            )


def synthetic_problem(columns: int, epsilon: float, *, records: int = 1_000_000) -> Problem:
    """Return the synthetic problem of the paper, half of the budget on the features, half on the label.

    Parameters
    ----------
    columns : int
        The number of columns; the L2 ball has radius sqrt(columns), which holds [-1, 1]^p.
    epsilon : float
        The whole budget.
    records : int
        The number of records.

    References
    ----------
    Dufraiche et al. 2026 (arXiv 2602.16436), Figure 1.
    """
    data = datasets.synthetic(columns, records)
    release = Release(
        features=GaussianMechanism(epsilon=epsilon / 2, delta=DELTA, radius=math.sqrt(columns)),
        target=RandomizedResponse(epsilon=epsilon / 2),
    ).bind(data.columns)
    name = f"synthetic, p = {columns}, epsilon = {epsilon:g}"
    return Problem(
        name, data.X, data.y, release, epsilon, math.sqrt(columns), l2=5.0, step_size=1e-4, batch_size=128, epochs=1
    )  # fmt: skip


def adult_problem(epsilon: float = 8.0) -> Problem:
    """Return UCI Adult: income above 50,000 from age, education, hours per week and sex.

    The columns are centred and scaled by public round numbers, never by the data, and clipped to the unit
    ball; true records are clipped alike, so that the three curves minimise one risk.

    Parameters
    ----------
    epsilon : float
        The whole budget, half of it on the label.
    """
    data = datasets.adult()
    release = Release(
        features=GaussianMechanism(epsilon=epsilon / 2, delta=DELTA, radius=1.0),
        target=RandomizedResponse(epsilon=epsilon / 2),
    ).bind(data.columns)
    centre, scale = np.array([40.0, 10.0, 40.0, 0.0]), np.array([30.0, 6.0, 40.0, 2.0])
    X = (data.X - centre) / scale
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True) * (1 + 1e-12))
    # Four of five records train, drawn once; the order of the files is not random.
    rows = np.random.default_rng(0).permutation(len(X))[: int(0.8 * len(X))]
    name = f"UCI Adult, p = {len(data.columns)}, epsilon = {epsilon:g}"
    return Problem(
        name, X[rows], data.y[rows], release, epsilon, 1.0, l2=1.0, step_size=4e-3, batch_size=128, epochs=10
    )  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """What one problem showed."""

    problem: Problem
    optimum: FloatArray  # Of shape (p,): the minimiser of the true risk.
    risk: float  # The true risk there.
    fits: dict[str, Fit]  # The fit of each curve.
    excess: dict[str, FloatArray]  # Of shape (m,): excess risk of each curve's recorded iterates.
    seconds: float  # Time of noising and the three fits.


def run(problem: Problem, *, random_state: int = 0, record: int = 40, progress: bool = False) -> Outcome:
    """Fit the three curves of a problem and measure their risk on the true records.

    Parameters
    ----------
    problem : Problem
        The problem.
    random_state : int
        Seed of noise and order: a demonstration is not private.
    record : int
        How many iterates to measure per curve.
    progress : bool
        Show progress bars.
    """
    optimum = problem.optimum()
    least = problem.risk(optimum)
    began = time.perf_counter()
    fits = dict(zip(CURVES, problem.fits(random_state, record=record, progress=progress), strict=True))
    seconds = time.perf_counter() - began
    excess = {
        curve: np.array([problem.risk(theta) - least for theta in fit.history.theta]) for curve, fit in fits.items()
    }
    return Outcome(problem, optimum, least, fits, excess, seconds)


def table(outcome: Outcome) -> str:
    """Return the risks of an outcome as a table to print."""
    lines = [
        f"{outcome.problem.name}, n = {len(outcome.problem.y):,}   (least true risk {outcome.risk:.6f})",
        f"  {'':<26} {'true risk':>12} {'excess risk':>12} {'|theta - optimum|':>18}",
    ]
    for curve, fit in outcome.fits.items():
        excess = outcome.excess[curve][-1]
        distance = float(np.linalg.norm(fit.theta - outcome.optimum))
        lines.append(f"  {curve:<26} {outcome.risk + excess:>12.6f} {excess:>12.2e} {distance:>18.4f}")
    return "\n".join(lines)


# By the names that the command line takes.
PROBLEMS: dict[str, Callable[[], Problem]] = {
    "synthetic": lambda: synthetic_problem(2, 2.0),
    "synthetic-10": lambda: synthetic_problem(10, 5.0),
    "adult": adult_problem,
}
