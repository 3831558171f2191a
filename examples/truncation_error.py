"""What does each further term of the series buy, and what does it cost? Figure 3 of IWP-SGD, and surrogates beside it.

    python examples/truncation_error.py [--folder .] [--draws 6] [--small]

truncation_error.png (Figure 3 of Dufraiche et al. 2026, with the variances beside the biases): the log loss of one
record under Gaussian noise of variance s in the score, |u| <= 5, corrected by the series of order 0 (not at all) to 6.
The largest bias, the largest standard deviation, and the root of the estimated mean squared error of the mean slope of
100,000 records. Nothing is drawn at random.

series_and_surrogates.png: logistic regressions on 10,000 to a million records of two columns, uniform on [-1, 1], with
theta = (1.6, -1.2) and noise of variance 1 on each column, which is s = 4 in the score. The error of theta by records,
for no correction, series of order 1 and 3, and the surrogate that `sd.debias` takes by itself. Draw k of n records has
the seed (k, n).
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import symdebias as sd
from symdebias.interfaces import panels

LEVELS = (0.25, 1.0, 4.0, 16.0)
RADIUS, RECORDS = 5.0, 1e5
THETA, VARIANCE = np.array([1.6, -1.2]), 1.0
WAYS: dict[str, dict[str, Any]] = {
    "no correction": {"method": "none"},
    "series of order 1": {"method": "series", "order": 1},
    "series of order 3": {"method": "series", "order": 3},
    "surrogate": {},
}


def by_order(levels: Sequence[float], orders: Sequence[int]) -> tuple[str, Any]:
    """Return the table of biases and deviations by the order of the series, and its picture."""
    corrected = sd.debias(sd.losses.logistic(), sd.Release(sd.GaussianMechanism.from_scale(1.0)))
    measures = {
        "largest bias of the loss": lambda choice: choice.loss_bias,
        "largest deviation of the loss": lambda choice: choice.loss_sd,
        f"rmse of the slope, n = {RECORDS:,.0f}": lambda choice: np.sqrt(choice.error),
    }
    found: dict[str, dict[str, panels.Line]] = {measure: {} for measure in measures}
    lines = [f"{'s':>6}{'order':>7}" + "".join(f"{measure:>40}" for measure in measures)]
    for s in levels:
        curve = corrected.tradeoff(radius=RADIUS, score_variance=s, n=RECORDS, orders=tuple(orders))
        chosen = sorted((c for c in curve.choices if c.method == "series"), key=lambda choice: choice.order)
        for measure, of in measures.items():
            values = np.array([of(choice) for choice in chosen])
            found[measure][f"s = {s:g}"] = panels.Line(np.array(orders, float), values)
        lines += [
            f"{s:>6g}{choice.order:>7}" + "".join(f"{of(choice):>40.3g}" for of in measures.values())
            for choice in chosen
        ]
    titles = (
        "the bias falls with each term", "the deviation rises, where there is much noise",
        "both together are least at some order",
    )  # fmt: skip
    shown = [
        panels.Panel(title, "order of the series", measure, rows, log="y", ticks=tuple(orders))
        for title, (measure, rows) in zip(titles, found.items(), strict=True)
    ]
    return "\n".join(lines), panels.lines(shown)


def fitted(n: int, draw: int) -> dict[str, np.ndarray]:
    """Return the distance from theta of each way to correct, NaN where it refuses."""
    rng = np.random.default_rng((draw, n))
    X = rng.uniform(-1, 1, size=(n, 2))
    y = np.where(rng.random(n) < 1 / (1 + np.exp(-X @ THETA)), 1.0, -1.0)
    release = sd.Release(sd.GaussianMechanism.from_scale(float(np.sqrt(VARIANCE))))
    noised = release.privatize(X, y, random_state=int(rng.integers(2**31)))
    found = {}
    for name, options in WAYS.items():
        corrected = sd.debias(sd.losses.logistic(), noised.release, **options)
        try:
            found[name] = sd.m_estimate(corrected, noised.X, noised.y).theta - THETA
        except sd.DivergenceError:
            found[name] = np.full(2, np.nan)
    return found


def by_records(sizes: Sequence[int], draws: int) -> tuple[str, Any]:
    """Return the table of root mean square errors of theta by the number of records, and its picture."""
    lines = [f"{'root mean square distance from theta':<38}" + "".join(f"{n:>18,}" for n in sizes)]
    squares: dict[str, list[np.ndarray]] = {}
    for n in sizes:
        rows = [fitted(n, draw) for draw in range(draws)]
        for name in WAYS:
            squares.setdefault(name, []).append(np.array([row[name] @ row[name] for row in rows]))
    shown = {}
    for name, values in squares.items():
        kept = [part[np.isfinite(part)] for part in values]
        # A mean over what was not refused says little where much was.
        usable = [part if len(part) >= max(2, 0.8 * draws) else np.full(2, np.nan) for part in kept]
        means = np.array([np.sqrt(part.mean()) for part in usable])
        errors = np.array([part.std(ddof=1) / np.sqrt(len(part)) for part in usable]) / (2 * means)
        shown[name] = panels.Line(np.array(sizes, float), means, 2 * errors, dashed=name == "no correction")
        cells = [
            f"{f'{mean:.3g} ({error:.1g})' if len(part) > 1 else 'refused':>18}"
            + (f" {draws - len(part)} refused" if len(part) < draws else "")
            for mean, error, part in zip(means, errors, kept, strict=True)
        ]
        lines.append(f"  {name:<36}" + "".join(cells))
    panel = panels.Panel(
        "log loss, Gaussian noise, s = 4", "records", "rms distance from theta", shown, log="xy", ticks=tuple(sizes)
    )
    return "\n".join(lines), panels.lines([panel])


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path())
    parser.add_argument("--draws", type=int, default=6)
    parser.add_argument("--small", action="store_true", help="one noise level, two sizes, two draws")
    options = parser.parse_args(arguments)
    levels, orders = ((4.0,), range(4)) if options.small else (LEVELS, range(7))
    sizes = (10_000, 20_000) if options.small else (10_000, 30_000, 100_000, 300_000, 1_000_000)
    draws = 2 if options.small else options.draws
    makers = {
        "truncation_error": lambda: by_order(levels, orders),
        "series_and_surrogates": lambda: by_records(sizes, draws),
    }
    for name, make in makers.items():
        text, figure = make()
        print(text, flush=True)
        panels.save(figure, options.folder, name)


if __name__ == "__main__":
    main()
