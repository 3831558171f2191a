"""What is a release worth that is designed for the loss? Excess risk against the budget, three ways to spend it.

    python examples/designed_releases.py [--folder .] [--draws 3] [--small]

Writes designed_releases.png: the synthetic problems of Dufraiche et al. 2026 (a million records, exponential loss, p 2
and p 10) at budgets from 2 to 16 and from 5 to 20. The paper's recipe spends half of the budget on the features and
half on the label and trains by IWP-SGD; beside it the best split between spherical Laplace noise on the features and
randomized response on the label, and one vector y x through a spherical cap with the whole budget, both by
M-estimation. Draw k of budget epsilon has the seed (0, k).
"""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from symdebias.interfaces import demo, panels, spending


def compared(columns: int, budgets: Sequence[float], records: int, draws: int) -> tuple[str, panels.Panel]:
    """Return the table and the panel of a problem."""
    lines = [f"p = {columns}, n = {records:,}, {draws} draws: excess risk, in brackets its standard error"]
    lines.append(f"  {'way':<26}" + "".join(f"{f'epsilon {budget:g}':>20}" for budget in budgets))
    found: dict[str, list[tuple[float, float]]] = {}
    for budget in budgets:
        # Steps of a pass over fewer records are longer.
        problem = replace(demo.synthetic_problem(columns, budget, records=records), step_size=100 / records)
        for way in spending.compare(problem, draws=draws):
            error = way.excess.std(ddof=1) / np.sqrt(draws)
            found.setdefault(way.name, []).append((float(way.excess.mean()), float(error)))
    shown = {}
    for name, points in found.items():
        means, errors = np.array(points).T
        cells = (f"{f'{mean:.2e} ({error:.0e})':>20}" for mean, error in zip(means, errors, strict=True))
        lines.append(f"  {name:<26}" + "".join(cells))
        shown[name] = panels.Line(np.array(budgets), means, 2 * errors)
    recipe, *_, designed = (np.array(points)[:, 0] for points in found.values())
    lines.append(f"  {'recipe over designed':<26}" + "".join(f"{ratio:>20.0f}" for ratio in recipe / designed))
    return "\n".join(lines), panels.Panel(
        f"p = {columns}, {records:,} records", "epsilon of a record", "excess risk on true records", shown, log="xy",
        ticks=tuple(budgets),
    )  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path())
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--small", action="store_true", help="one problem, one budget, few records, two draws")
    options = parser.parse_args(arguments)
    # At less the recipe's descent is refused: a million records do not suffice for its noise.
    budgets = {2: (2.0, 4.0, 8.0, 16.0), 10: (5.0, 10.0, 20.0)}
    cases = [(columns, several, 1_000_000, options.draws) for columns, several in budgets.items()]
    if options.small:
        cases = [(2, (16.0,), 20_000, 2)]
    results = [compared(*case) for case in cases]
    print("\n".join(text for text, _ in results))
    panels.save(panels.lines([panel for _, panel in results]), options.folder, "designed_releases")


if __name__ == "__main__":
    main()
