"""Is a plan right? Standard errors that are planned before a record is collected, and those that are found.

    python examples/planned_and_found.py [--folder .] [--draws 40] [--small]

Writes planned_and_found.png: 100,000 records of two columns, uniform on [-1, 1], labels by a logistic model with
(2, -1); the squared loss of the margin, at budgets from 2 to 16. Lines are what `sd.planning.expected_fit` says of
the largest standard error, for three releases; points with bars are the largest standard deviation of theta over draws
of new records and new noise, with two of its own standard errors, left out where `sd.m_estimate` refuses more than one
draw in twenty. Draw k has the seed k.
"""

import argparse
import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

import symdebias as sd
from symdebias.interfaces import panels

THETA, RADIUS, DELTA = np.array([2.0, -1.0]), float(np.sqrt(2)), 1e-5
RELEASES: dict[str, Callable[[float], sd.Release]] = {
    "Gaussian, half and half": lambda epsilon: sd.Release(
        sd.GaussianMechanism(epsilon / 2, DELTA, radius=RADIUS), sd.RandomizedResponse(epsilon / 2)
    ),
    "spherical Laplace, half and half": lambda epsilon: sd.Release(
        sd.SphericalLaplaceMechanism(epsilon / 2, RADIUS), sd.RandomizedResponse(epsilon / 2)
    ),
    "margin, spherical cap": lambda epsilon: sd.Release(sd.SphericalCapMechanism(epsilon, RADIUS), target="margin"),
}


def simulated(release: sd.Release, n: int, draws: int) -> np.ndarray:
    """Return the parameters of fits to independent records and noise, of those that are not refused."""
    found = []
    for draw in range(draws):
        rng = np.random.default_rng(draw)
        X = rng.uniform(-1, 1, size=(n, 2))
        y = np.where(rng.random(n) < 1 / (1 + np.exp(-X @ THETA)), 1.0, -1.0)
        noised = release.privatize(X, y, random_state=int(rng.integers(2**31)))
        corrected = sd.debias(sd.losses.squared_margin(), noised.release)
        with contextlib.suppress(sd.DivergenceError):
            found.append(sd.m_estimate(corrected, noised.X, noised.y).theta)
    return np.array(found)


def report(budgets: Sequence[float], n: int, draws: int) -> tuple[str, panels.Panel]:
    """Return the table and the panel."""
    population = sd.planning.Population.guess(THETA.tolist())
    lines = [f"largest standard error, {n:,} records: planned, found in {draws} draws (its own error), found/planned"]
    shown: dict[str, panels.Line] = {}
    for name, build in RELEASES.items():
        planned, found = [], []
        for budget in budgets:
            release = build(budget)
            expected = sd.planning.expected_fit(sd.losses.squared_margin(), release, population, n=n)
            planned.append(expected.standard_errors.max())
            fits = simulated(release, n, draws)
            line = f"  {name:<34}epsilon {budget:<5g}{planned[-1]:>9.5f}"
            # What is left of draws that are refused more often is no sample of all.
            if len(fits) < 0.95 * draws:
                found.append(np.nan)
                lines.append(f"{line}   {draws - len(fits)} of {draws} refused")
                continue
            found.append(fits.std(axis=0, ddof=1).max())
            error = found[-1] / np.sqrt(2 * (draws - 1))
            lines.append(f"{line}{found[-1]:>9.5f} ({error:.0e}){found[-1] / planned[-1]:>8.2f}")
        places = np.array(budgets)
        errors = 2 * np.array(found) / np.sqrt(2 * (draws - 1))
        shown[name] = panels.Line(places, np.array(found), errors, joined=False)
        shown[f"{name}: planned"] = panels.Line(places, np.array(planned), dashed=True, like=name)
    title = f"dashed: planned; points: found in {draws} draws of {n:,}"
    return "\n".join(lines), panels.Panel(
        title, "epsilon of a record", "largest standard error", shown, log="xy", ticks=tuple(budgets)
    )  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path())
    parser.add_argument("--draws", type=int, default=40)
    parser.add_argument("--small", action="store_true", help="one budget, few records and draws")
    options = parser.parse_args(arguments)
    few = ((16.0,), 20_000, 3)
    text, panel = report(*(few if options.small else ((2.0, 4.0, 8.0, 16.0), 100_000, options.draws)))
    print(text)
    panels.save(panels.lines([panel]), options.folder, "planned_and_found")


if __name__ == "__main__":
    main()
