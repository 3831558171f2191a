"""How fast do risk and accuracy get better? Learning curves of IWP-SGD, exact and truncated, beside plain SGD.

    python examples/learning_curves.py [--folder .] [--draws 6] [--losses exponential log] [--small]

Figures 1, 2 and 4 to 7 of Dufraiche et al. 2026, averaged over draws of the noise: SGD on true records, SGD on noised
records and IWP-SGD on the same noised records, on the synthetic problems (p 2, epsilon 2 and p 10, epsilon 5) and on
UCI Adult (four columns, epsilon 8), which stands for the American Community Survey. The first pair of pictures trains
the exponential loss, which has an exact correction; the second the log loss, which has none under Gaussian noise: it is
trained on the truncated series of order 1 and of order 3, and on a surrogate. Draw k has the seed k.

Writes excess_risk.png, accuracy.png, log_loss_risk.png and log_loss_accuracy.png into the folder, and prints the last
point of each curve with its standard error. Needs SYMDEBIAS_DATA for Adult; --small leaves Adult out, and runs two
draws of 20,000 records at epsilon 20.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize

import symdebias as sd
from symdebias.interfaces import demo, panels

POINTS = 40
TRUE, PLAIN, IWP = demo.CURVES
# What trains on the noised records, by loss: options of `debias`.
WAYS: dict[str, dict[str, dict[str, Any]]] = {
    "exponential": {IWP: {"method": "exact"}},
    "log": {
        "IWP-SGD, series of order 1": {"method": "series", "order": 1},
        "IWP-SGD, series of order 3": {"method": "series", "order": 3},
        "IWP-SGD, surrogate": {"method": "surrogate"},
    },
}
LOSSES = {"exponential": sd.losses.exponential, "log": sd.losses.logistic}


@dataclass(frozen=True)
class Curve:
    """What a way to train has reached, by records seen: arrays of shape (draws, points)."""

    records: np.ndarray
    excess: np.ndarray
    accuracy: np.ndarray

    def line(self, measure: str) -> panels.Line:
        """Return the mean over the draws with two standard errors; step 0 has no place on a logarithmic axis."""
        values = getattr(self, measure)[:, 1:]
        error = 2 * values.std(axis=0, ddof=1) / np.sqrt(len(values))
        return panels.Line(self.records[1:] / 1e3, values.mean(axis=0), error)


def study(problem: demo.Problem, loss_name: str, draws: int) -> tuple[dict[str, Curve], float]:
    """Return the curves of a problem, and the accuracy of the true minimiser."""
    loss = LOSSES[loss_name]()
    plain = sd.debias(loss, problem.release, method="none")

    def risk(theta: np.ndarray) -> float:
        return plain.mean_loss(theta, problem.X, problem.y) + problem.l2 / 2 * float(theta @ theta)

    def slope(theta: np.ndarray) -> np.ndarray:
        return plain.mean_gradient(theta, problem.X, problem.y) + problem.l2 * theta

    start = np.zeros(problem.X.shape[1])
    best = minimize(risk, start, jac=slope, method="BFGS", options={"gtol": 1e-9}).x
    least = risk(best)
    ways = {name: sd.debias(loss, problem.release, **options) for name, options in WAYS[loss_name].items()}
    found: dict[str, list[sd.Fit]] = {}
    for draw in range(draws):
        noised = problem.release.privatize(problem.X, problem.y, random_state=draw)
        for name, corrected in {TRUE: plain, PLAIN: plain, **ways}.items():
            X, y = (problem.X, problem.y) if name == TRUE else (noised.X, noised.y)
            fit = sd.sgd(
                corrected, X, y, step_size=problem.step_size, batch_size=problem.batch_size,
                epochs=problem.epochs, l2=problem.l2, record=POINTS, random_state=draw, start=start,
            )  # fmt: skip
            found.setdefault(name, []).append(fit)
    curves = {}
    for name, fits in found.items():
        excess = [[risk(theta) - least for theta in fit.history.theta] for fit in fits]
        shares = [[accuracy(theta, problem) for theta in fit.history.theta] for fit in fits]
        curves[name] = Curve(fits[0].history.records, np.array(excess), np.array(shares))
    return curves, accuracy(best, problem)


def accuracy(theta: np.ndarray, problem: demo.Problem) -> float:
    """Return the share of true records whose label has the sign of the score."""
    return float(np.mean(np.where(problem.X @ theta > 0, 1.0, -1.0) == problem.y))


def problems(small: bool) -> dict[str, Callable[[], demo.Problem]]:
    if small:
        # Less noise and longer steps, for what so few records can show.
        return {"small": lambda: replace(demo.synthetic_problem(2, 20.0, records=20_000), step_size=3e-3)}
    return demo.PROBLEMS


def report(title: str, curves: dict[str, Curve], best: float) -> str:
    """Return the last points of the curves as a table."""
    lines = [f"{title}   (the true minimiser is right for {best:.4f})"]
    lines.append(f"  {'':<30}{'excess risk':>13}{'+-':>9}{'accuracy':>11}{'+-':>9}")
    for name, curve in curves.items():
        last = (curve.excess[:, -1], curve.accuracy[:, -1])
        errors = [values.std(ddof=1) / np.sqrt(len(values)) for values in last]
        lines.append(f"  {name:<30}{last[0].mean():>13.2e}{errors[0]:>9.0e}{last[1].mean():>11.4f}{errors[1]:>9.0e}")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path())
    parser.add_argument("--draws", type=int, default=6)
    parser.add_argument("--losses", nargs="+", choices=list(WAYS), default=list(WAYS))
    parser.add_argument("--small", action="store_true", help="two draws of 20,000 records, without Adult")
    options = parser.parse_args(arguments)
    made = [make() for make in problems(options.small).values()]
    for loss in options.losses:
        prefix = "" if loss == "exponential" else "log_loss_"
        risks, shares = [], []
        for problem in made:
            curves, best = study(problem, loss, 2 if options.small else options.draws)
            print(report(f"{problem.name}, {loss} loss, n = {len(problem.y):,}", curves, best), flush=True)
            risks.append(
                panels.Panel(
                    problem.name, "records seen (thousands)", "excess risk on true records",
                    {name: curve.line("excess") for name, curve in curves.items()}, log="y",
                )
            )  # fmt: skip
            shares.append(
                panels.Panel(
                    problem.name, "records seen (thousands)", "accuracy on true records",
                    {name: curve.line("accuracy") for name, curve in curves.items()},
                    levels={"true minimiser": best},
                )
            )  # fmt: skip
        panels.save(panels.lines(risks), options.folder, f"{prefix or 'excess_'}risk")
        panels.save(panels.lines(shares), options.folder, f"{prefix}accuracy")


if __name__ == "__main__":
    main()
