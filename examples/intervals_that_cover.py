"""Do the stated intervals cover the truth? Draws beside those of a naive fit, and the designs of the long benchmark.

    python examples/intervals_that_cover.py [--folder .] [--replicates 200] [--small]

Writes intervals.png, three panels. Above: the 95% intervals of one coefficient in 30 draws, of a logistic regression on
10,000 records of two columns, uniform on [-1, 1], theta = (2, -1), noise of standard deviation .5 on each column. In
the middle: the share of replicates whose interval covers, by the number of records. Below: the coverage of each design
of docs/coverage.md, whose table `benchmarks/interval_coverage.py` printed in hours; this script only reads it. A naive
fit refuses to state intervals; drawn are 1.96 of its standard errors to each side. Replicate k of n records has the
seed (k, n).
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy import stats

import symdebias as sd
from symdebias.interfaces import panels

THETA, NOISE, LEVEL = np.array([2.0, -1.0]), 0.5, 95.0
DOTTED = "the truth; the stated 95%"
NAMES = ("noise ignored", "noise corrected")
TABLE = Path(__file__).parent.parent / "docs" / "coverage.md"
# The columns of the table that are read; the page has other tables as well.
DRAWS, COVERS = "draws", "covers"


def intervals(n: int, draw: int) -> np.ndarray:
    """Return the ends of the first coefficient's intervals, of both fits: shape (2, 2)."""
    rng = np.random.default_rng((draw, n))
    X = rng.uniform(-1, 1, size=(n, 2))
    y = np.where(rng.random(n) < 1 / (1 + np.exp(-X @ THETA)), 1.0, -1.0)
    noised = sd.Release(sd.GaussianMechanism.from_scale(NOISE)).privatize(X, y, random_state=int(rng.integers(2**31)))
    loss = sd.losses.logistic()
    naive = sd.literature.naive(loss, noised.release, noised.X, noised.y)
    corrected = sd.m_estimate(sd.debias(loss, noised.release), noised.X, noised.y)
    reach = stats.norm.ppf(0.5 + LEVEL / 200) * naive.standard_errors[0]
    return np.array([[naive.theta[0] - reach, naive.theta[0] + reach], corrected.confidence_interval(LEVEL / 100)[0]])


def designs(page: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the coverages in per cent and the numbers of draws of the page's table, those in brackets left out."""
    tables = [block.splitlines() for block in page.split("\n\n") if block.startswith("|")]
    rows = next(rows for rows in ([cells(line) for line in table] for table in tables) if {DRAWS, COVERS} <= {*rows[0]})
    places = [rows[0].index(name) for name in (COVERS, DRAWS)]
    numbers = [[row[place].replace(",", "") for place in places] for row in rows[2:]]
    kept = [(float(covers), int(draws)) for covers, draws in numbers if covers.replace(".", "").isdigit()]
    covers, draws = np.array(kept).T
    return covers, draws


def cells(line: str) -> list[str]:
    """Return the cells of a row of a table."""
    return [cell.strip() for cell in line.strip("|").split("|")]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path())
    parser.add_argument("--replicates", type=int, default=200)
    parser.add_argument("--small", action="store_true", help="few records and replicates")
    options = parser.parse_args(arguments)
    replicates, shown = (5, 5) if options.small else (options.replicates, 30)
    sizes = (2_000, 4_000) if options.small else (1_000, 3_000, 10_000, 30_000)
    found = {n: np.array([intervals(n, draw) for draw in range(replicates)]) for n in sizes}
    middle = sizes[-1] if options.small else 10_000
    places = np.arange(1.0, shown + 1)
    ends = found[middle][:shown]
    above = {
        name: panels.Line(places + 0.3 * fit, ends[:, fit].mean(axis=1), np.ptp(ends[:, fit], axis=1) / 2, joined=False)
        for fit, name in enumerate(NAMES)
    }
    covered = {
        n: 100 * ((rows[..., 0] < THETA[0]) & (rows[..., 1] > THETA[0])).mean(axis=0) for n, rows in found.items()
    }
    counts = np.array([covered[n] for n in sizes])
    between = {
        name: panels.Line(np.array(sizes, float), counts[:, fit], spread(counts[:, fit], replicates))
        for fit, name in enumerate(NAMES)
    }
    covers, draws = designs(TABLE.read_text())
    order = np.argsort(covers)
    below = panels.Line(np.arange(1.0, len(covers) + 1), covers[order], spread(covers, draws)[order], joined=False)
    print(f"share of {LEVEL:g}% intervals that cover, {replicates} replicates")
    print(f"{'records':<20}" + "".join(f"{n:>12,}" for n in sizes))
    for fit, name in enumerate(NAMES):
        print(f"{name:<20}" + "".join(f"{share:>11.1f}%" for share in counts[:, fit]))
    print(
        f"designs of {TABLE.name}: {len(covers)}, {covers.min():g}% to {covers.max():g}%, median {np.median(covers):g}%"
    )
    figure = panels.lines(
        [
            panels.Panel(
                f"95% intervals, {middle:,} records", "draw", "first coefficient", above, levels={DOTTED: THETA[0]}
            ),
            panels.Panel(
                f"{replicates} replicates each", "records", "per cent that cover", between, log="x", ticks=sizes,
                levels={DOTTED: LEVEL},
            ),
            panels.Panel(
                f"worst coefficient of {len(covers)} designs", "design, by its coverage", "per cent that cover",
                {"noise corrected": below}, levels={DOTTED: LEVEL},
            ),
        ]
    )  # fmt: skip
    panels.save(figure, options.folder, "intervals")


def spread(percent: np.ndarray, draws: np.ndarray | int) -> np.ndarray:
    """Return two binomial standard errors of a share in per cent."""
    return 2 * np.sqrt(percent * (100 - percent) / draws)


if __name__ == "__main__":
    main()
