"""Is a regression found when features and target are noised alike? Figure 8 of IWP-SGD, and quantiles beside it.

    python examples/noised_target.py [--folder .] [--draws 6] [--small]

Writes noised_target.png, three panels. Two after Figure 8 of Dufraiche et al. 2026: least squares on a million
records, features uniform on [-1, 1], whose features and target went through Gaussian mechanisms, half of the budget
each (p 2, epsilon 8; p 10, epsilon 20), trained by SGD on true records, SGD on noised records and IWP-SGD. For least
squares the noise of the target adds a constant to the loss and no bias to theta; that of the features shrinks theta.
The third panel is a loss for which the target's noise matters too: regressions of the quantile .9, the error of theta
by the number of records. Draw k has the seed k.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import symdebias as sd
from symdebias.interfaces import demo, panels

L2, POINTS = 0.1, 40
# Of the regression of the quantile: noise of the features, of the target, and what made the records.
NOISE, TARGET_NOISE, THETA = 0.3, 0.4, np.array([0.8, -0.5])
LEVEL = 0.9


@dataclass(frozen=True)
class Regression:
    """Records of a linear model, and how they are released; the target lies in [-1, 1]."""

    name: str
    X: np.ndarray
    y: np.ndarray
    release: sd.Release
    step_size: float

    @classmethod
    def synthetic(cls, columns: int, epsilon: float, records: int) -> "Regression":
        """Return so many records of so many columns; steps are such that a pass over them is time enough."""
        rng = np.random.default_rng(columns)
        X = rng.uniform(-1, 1, size=(records, columns))
        y = X @ (0.8 / columns * np.resize([1.0, -1.0], columns)) + rng.uniform(-0.2, 0.2, records)
        release = sd.Release(
            sd.GaussianMechanism(epsilon=epsilon / 2, delta=demo.DELTA, radius=np.sqrt(columns)),
            sd.GaussianMechanism(epsilon=epsilon / 2, delta=demo.DELTA, radius=1.0),
        )
        names = [f"x{column}" for column in range(columns)]
        return cls(f"least squares, p = {columns}, epsilon = {epsilon:g}", X, y, release.bind(names), 1500.0 / records)

    def excess(self, theta: np.ndarray) -> np.ndarray:
        """Return the excess of the regularised risk on true records, of each row of theta."""
        gram = self.X.T @ self.X / len(self.X) + L2 * np.eye(self.X.shape[1])
        off = np.atleast_2d(theta) - np.linalg.solve(gram, self.X.T @ self.y / len(self.X))
        return np.einsum("ij,jk,ik->i", off, gram, off) / 2


def descents(problem: Regression, draws: int) -> tuple[str, panels.Panel]:
    """Return the table and the panel of the three descents on a problem."""
    plain = sd.debias(sd.losses.least_squares(), problem.release, method="none")
    corrected = sd.debias(sd.losses.least_squares(), problem.release)
    found: dict[str, list[np.ndarray]] = {name: [] for name in demo.CURVES}
    direct = []
    for draw in range(draws):
        noised = problem.release.privatize(problem.X, problem.y, random_state=draw)
        runs = ((plain, problem.X, problem.y), (plain, noised.X, noised.y), (corrected, noised.X, noised.y))
        for name, run in zip(demo.CURVES, runs, strict=True):
            fit = sd.sgd(*run, step_size=problem.step_size, batch_size=128, l2=L2, record=POINTS, random_state=draw)
            found[name].append(problem.excess(fit.history.theta))
        direct.append(problem.excess(sd.m_estimate(corrected, noised.X, noised.y, l2=L2).theta)[0])
    lines = [f"{problem.name}, n = {len(problem.y):,}, {draws} draws: excess risk, in brackets its standard error"]
    shown = {}
    for name, rows in {**found, "M-estimation": [np.array([value]) for value in direct]}.items():
        mean, error = np.mean(rows, axis=0), np.std(rows, axis=0, ddof=1) / np.sqrt(draws)
        lines.append(f"  {name:<30}{mean[-1]:>10.2e} ({error[-1]:.0e})")
        if name in found:
            shown[name] = panels.Line(fit.history.records[1:] / 1e3, mean[1:], 2 * error[1:])
    return "\n".join(lines), panels.Panel(
        problem.name, "records seen (thousands)", "excess risk on true records", shown, log="y",
        levels={"M-estimation, all records": float(np.mean(direct))},
    )  # fmt: skip


def quantiles(sizes: Sequence[int], draws: int) -> tuple[str, panels.Panel]:
    """Return the table and the panel of regressions of a quantile by the number of records."""
    loss = sd.losses.quantile(LEVEL)
    release = sd.Release(
        sd.GaussianMechanism.from_scale(NOISE), sd.GaussianMechanism.from_scale(TARGET_NOISE), fit_intercept=True
    )

    def drawn(n: int, seed: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng(seed)
        X = rng.uniform(-1, 1, size=(n, 2))
        return X, X @ THETA + 0.3 * rng.normal(size=n)

    true = sd.debias(loss, sd.Release(fit_intercept=True))
    # The minimiser of the smoothed loss, from more true records than any fit sees.
    target = sd.m_estimate(true, *drawn(4 * max(sizes), (draws, 0))).theta
    squares: dict[str, np.ndarray] = {name: np.empty((len(sizes), draws)) for name in ("true", "plain", "corrected")}
    for i, n in enumerate(sizes):
        for draw in range(draws):
            X, y = drawn(n, (draw, n))
            noised = release.privatize(X, y, random_state=draw)
            thetas = {
                "true": sd.m_estimate(true, X, y).theta,
                "plain": sd.literature.naive(loss, noised.release, noised.X, noised.y).theta,
                "corrected": sd.m_estimate(sd.debias(loss, noised.release), noised.X, noised.y).theta,
            }
            for name, theta in thetas.items():
                squares[name][i, draw] = (theta - target) @ (theta - target)
    names = dict(zip(squares, demo.CURVES, strict=True))
    text = [f"quantile {LEVEL:g}, {draws} draws: root mean square distance from theta, in brackets its standard error"]
    text.append(f"{'records':<30}" + "".join(f"{n:>20,}" for n in sizes))
    shown = {}
    for name, rows in squares.items():
        means = np.sqrt(rows.mean(axis=1))
        errors = rows.std(axis=1, ddof=1) / np.sqrt(draws) / (2 * means)
        cells = (f"{f'{mean:.3g} ({error:.1g})':>20}" for mean, error in zip(means, errors, strict=True))
        # The legend's names say who trains; here it is Newton's method, on the same three kinds of records.
        text.append(f"  {names[name].replace('IWP-SGD', 'corrected').replace('SGD', 'plain'):<28}" + "".join(cells))
        shown[names[name]] = panels.Line(np.array(sizes, float), means, 2 * errors)
    title = f"quantile {LEVEL:g}, M-estimation in place of SGD"
    return "\n".join(text), panels.Panel(
        title, "records", "rms distance from theta", shown, log="xy", ticks=tuple(sizes)
    )  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path())
    parser.add_argument("--draws", type=int, default=6)
    parser.add_argument("--small", action="store_true", help="two draws of few records at epsilon 20")
    options = parser.parse_args(arguments)
    draws = 2 if options.small else options.draws
    cases = [(2, 20.0, 20_000)] if options.small else [(2, 8.0, 1_000_000), (10, 20.0, 1_000_000)]
    sizes = (5_000, 10_000) if options.small else (5_000, 20_000, 80_000, 320_000)
    results = [descents(Regression.synthetic(*case), draws) for case in cases]
    results.append(quantiles(sizes, draws))
    print("\n".join(text for text, _ in results))
    panels.save(panels.lines([panel for _, panel in results]), options.folder, "noised_target")


if __name__ == "__main__":
    main()
