"""Where should the noise go: on the records, in the objective, or on the result? Error against the number of records.

    python examples/private_erm.py [--epsilons 0.1 1] [--trials 100] [--picture private_erm.png] [--quick]
        [--problems census adult synthetic]

Needs census-income.test and Adult in the folder that SYMDEBIAS_DATA names, but for the last problem. Three problems:
weeks worked in a year from 38 features of UCI Census-Income, by least squares (the root mean square error on the
other records, in weeks); income above 50,000 from four features of UCI Adult, by logistic regression (accuracy on the
other records); and a synthetic regression with 14 features and up to 2^21 records. In each trial records are drawn,
fitted by each method at the same epsilon and delta = 0.01, and tested. Bounds are public constants.

Input perturbation is shown with the published server and with the corrected one, which takes out the curvature that
the noise adds. What its budget stands for is the source's claim and is not proved; that of output and objective
perturbation is. Objective perturbation is shown with its proved noise and with the published one.
"""

import argparse
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import symdebias as sd
from symdebias.exceptions import ClippingWarning, DivergenceError
from symdebias.interfaces import datasets, plotting

DELTA = 0.01
# So many trials where records are many: their error bars are short.
LARGE, TRIALS_OF_LARGE = 2**18, 10


@dataclass(frozen=True)
class Problem:
    """Records to draw from, the loss, and what is measured on records that were not drawn.

    Rows are within the unit ball, parameters within that of `radius`; methods of `refused` would refuse every fit.
    """

    name: str
    measure: str
    loss: sd.Loss
    bounds: tuple[float, float] | None
    radius: float
    sizes: tuple[int, ...]
    draw: Callable[[int, np.random.Generator], tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]
    error: Callable[[np.ndarray, np.ndarray], float]
    refused: tuple[str, ...] = ()


def drawn_from(X: np.ndarray, y: np.ndarray, tested: int) -> Callable:
    """Return a function that splits a table at random into n records to fit and others to test."""

    def draw(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        places = rng.permutation(len(X))
        fitted, others = places[:n], places[-tested:]
        return X[fitted], y[fitted], X[others], y[others]

    return draw


def census(sizes: Sequence[int]) -> Problem:
    """Read weeks worked, moved to [-1, 1]; no row of the features is longer than 3.3."""
    data = datasets.census()
    weeks = (data.y - 26.5) / 25.5

    def error(scores: np.ndarray, truth: np.ndarray) -> float:
        return 25.5 * float(np.sqrt(np.mean((scores - truth) ** 2)))

    draw = drawn_from(data.X / 3.3, weeks, 10_000)
    loss = sd.losses.least_squares()
    return Problem(
        "Census, least squares",
        "root mean square error (weeks)",
        loss,
        (-1.0, 1.0),
        3.0,
        tuple(sizes),
        draw,
        error,
        # With 38 features the noise outweighs the curvature of so few records.
        refused=("input, corrected",),
    )


def adult(sizes: Sequence[int]) -> Problem:
    """Read income by age, years of education, hours and sex, each scaled to about 1 and moved to its middle."""
    data = datasets.adult()
    X = np.column_stack([data.X[:, 0] / 50 - 1, data.X[:, 1] / 8 - 1.2, data.X[:, 2] / 50 - 0.8, data.X[:, 3]]) / 2

    def error(scores: np.ndarray, truth: np.ndarray) -> float:
        return float(np.mean(np.sign(scores) == truth))

    draw = drawn_from(X, data.y, 10_000)
    return Problem("Adult, logistic regression", "accuracy", sd.losses.logistic(), None, 8.0, tuple(sizes), draw, error)


def synthetic(sizes: Sequence[int], columns: int = 14) -> Problem:
    """Make rows that are uniform on the sphere, with targets in [-1, 1] from a linear model."""
    truth = np.random.default_rng(1).normal(size=columns)
    truth *= 1.5 / np.linalg.norm(truth)

    def records(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        X = rng.normal(size=(n, columns))
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        return X, np.clip(X @ truth + 0.1 * rng.normal(size=n), -1, 1)

    def draw(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        return *records(n, rng), *records(10_000, rng)

    def error(scores: np.ndarray, target: np.ndarray) -> float:
        return float(np.sqrt(np.mean((scores - target) ** 2)))

    loss = sd.losses.least_squares()
    return Problem(
        "synthetic, least squares", "root mean square error", loss, (-1.0, 1.0), 2.0, tuple(sizes), draw, error
    )


PROBLEMS = {"census": census, "adult": adult, "synthetic": synthetic}


def methods(problem: Problem, epsilon: float, n: int) -> Mapping[str, Callable[..., sd.Fit]]:
    """Return the fits to compare, each a function of X, y and a seed."""
    loss, radius = problem.loss, problem.radius
    private = {"epsilon": epsilon, "delta": DELTA, "adjacency": "replace-one", "fit_intercept": True}
    private |= {"record_radius": 1.0, "target_bounds": problem.bounds}
    expansion = "taylor" if problem.loss.name == "logistic" else "exact"
    true = sd.debias(loss, sd.Release(fit_intercept=True), method="none")

    def of(solver: Callable[..., sd.Fit], **options: object) -> Callable[..., sd.Fit]:
        return lambda X, y, seed: solver(loss, X, y, **private, **options, random_state=seed)

    found = {
        # Few records leave some columns of categories empty: a trace of regularisation decides about these.
        "non-private": lambda X, y, seed: sd.m_estimate(true, X, y, l2=1e-6, radius=radius),
        "input": of(sd.input_perturbation, radius=radius, expansion=expansion),
        "input, corrected": of(sd.input_perturbation, radius=radius, expansion=expansion, server="corrected"),
        "objective": of(sd.objective_perturbation, radius=radius),
        "objective, published noise": of(sd.objective_perturbation, radius=radius, calibration="published"),
        # Public: the regularisation that balances the noise on the parameters at these n and epsilon.
        "output": of(sd.output_perturbation, radius=radius, l2=(n * epsilon) ** -0.5),
    }
    return {name: fit for name, fit in found.items() if name not in problem.refused}


def compared(problem: Problem, epsilon: float, trials: int) -> dict[str, plotting.ErrorCurve]:
    """Return mean errors with their standard errors, by method."""
    found: dict[str, list[tuple[float, float]]] = {}
    for n in problem.sizes:
        errors: dict[str, list[float]] = {}
        for trial in range(trials if n < LARGE else min(trials, TRIALS_OF_LARGE)):
            rng = np.random.default_rng((trial, n))
            X, y, others, truth = problem.draw(n, rng)
            for name, fit in methods(problem, epsilon, n).items():
                errors.setdefault(name, []).append(tested(problem, fit, X, y, others, truth, int(rng.integers(2**31))))
        for name, values in errors.items():
            kept = np.array(values)[np.isfinite(values)]
            # A method that refuses a fit has no error there, and no point where it refuses more than a few.
            usable = len(kept) >= max(0.95 * len(values), 2)
            point = (kept.mean(), kept.std(ddof=1) / np.sqrt(len(kept))) if usable else (np.nan, np.nan)
            found.setdefault(name, []).append(point)
    return {
        name: plotting.ErrorCurve(problem.sizes, *map(np.array, zip(*points, strict=True)))
        for name, points in found.items()
    }


def tested(
    problem: Problem, fit: Callable[..., sd.Fit], X: np.ndarray, y: np.ndarray, others: np.ndarray, truth: np.ndarray,
    seed: int,
) -> float:  # fmt: skip
    """Return the error on other records, or NaN where the method refuses the fit."""
    with warnings.catch_warnings():
        # Rows that are longer than a bound by rounding, and a few that are longer by more.
        warnings.simplefilter("ignore", ClippingWarning)
        try:
            theta = fit(X, y, seed).theta
        except DivergenceError:
            return np.nan
    return problem.error(others @ theta[:-1] + theta[-1], truth)


def table(problem: Problem, epsilon: float, curves: Mapping[str, plotting.ErrorCurve]) -> str:
    """Return the mean errors as text, a line per method."""
    lines = [f"{problem.name}, epsilon {epsilon:g}: {problem.measure}, in brackets its standard error", ""]
    lines.append(f"{'records':<28}" + "".join(f"{n:>18,}" for n in problem.sizes))
    for name, curve in curves.items():
        cells = [
            f"{mean:>11.4g} ({error:.1g})".rjust(18) if np.isfinite(mean) else f"{'-':>18}"
            for mean, error in zip(curve.means, curve.errors, strict=True)
        ]
        lines.append(f"{name:<28}{''.join(cells)}")
    return "\n".join([*lines, ""])


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables, and draw them where asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.1, 1.0])
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--quick", action="store_true", help="few records and trials")
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, default=list(PROBLEMS))
    options = parser.parse_args(arguments)
    powers = range(7, 9) if options.quick else range(7, 16)
    sizes = [2**power for power in powers]
    larger = [2**power for power in (range(7, 9) if options.quick else range(7, 22, 2))]
    panels = {}
    for name in options.problems:
        problem = PROBLEMS[name](larger if name == "synthetic" else sizes)
        for epsilon in options.epsilons:
            curves = compared(problem, epsilon, 3 if options.quick else options.trials)
            print(table(problem, epsilon, curves), flush=True)
            panels[f"{problem.name}, epsilon {epsilon:g}"] = (problem.measure, curves)
    if options.picture:
        plotting.save(plotting.errors_by_records(panels), options.picture)


if __name__ == "__main__":
    main()
