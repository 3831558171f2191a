"""Train a logistic regression on margins released through a spherical cap, beside the label and features split.

    python examples/spherical_cap.py [--records 1000000] [--draws 10] [--columns 2] [--epsilon 2] [--l2 0.03]

A margin loss takes no more of a record than z = y x, so that the whole budget goes to one vector. It is released by a
SphericalCapMechanism (pure privacy), and the log loss is replaced by a polynomial that is designed for the scores that
released records suggest. Beside it stands a budget that is split: a GaussianMechanism on x, randomized response on y.
The table shows the excess of the regularised risk on true records, its mean over the draws of the noise with its
standard error.
"""

import argparse

import numpy as np
from scipy.optimize import minimize

import symdebias as sd
from symdebias.interfaces import datasets

DELTA = 1e-5


def risk(theta: np.ndarray, Z: np.ndarray, l2: float) -> tuple[float, np.ndarray]:
    """Return the regularised log loss of true margins, and its gradient."""
    u = Z @ theta
    slope = -Z.T @ (0.5 - 0.5 * np.tanh(u / 2)) / len(Z)
    return float(np.logaddexp(0, -u).mean()) + l2 / 2 * float(theta @ theta), slope + l2 * theta


def report(records: int, draws: int, columns: int = 2, epsilon: float = 2.0, l2: float = 0.03) -> str:
    """Return the table."""
    data = datasets.synthetic(columns, records)
    radius = np.sqrt(columns)
    Z = data.y[:, None] * data.X
    best = minimize(risk, np.zeros(columns), args=(Z, l2), jac=True, method="BFGS", options={"gtol": 1e-9}).x
    least = risk(best, Z, l2)[0]
    releases = {
        "margins through a cap": sd.Release(sd.SphericalCapMechanism(epsilon=epsilon, radius=radius), target="margin"),
        "split, Gaussian": sd.Release(
            sd.GaussianMechanism(epsilon=epsilon / 2, delta=DELTA, radius=radius), sd.RandomizedResponse(epsilon / 2)
        ),
    }
    excess: dict[str, list[float]] = {name: [] for name in releases}
    degree = 0
    for draw in range(draws):
        for name, release in releases.items():
            noised = release.privatize(data.X, data.y, random_state=draw)
            try:
                fit = sd.m_estimate(sd.debias(sd.losses.logistic(), noised.release), noised.X, noised.y, l2=l2)
            except sd.DivergenceError:
                continue
            excess[name].append(risk(fit.theta, Z, l2)[0] - least)
            if "cap" in name:
                degree = fit.corrected.design.degree
    norm = np.linalg.norm(best)
    lines = [
        f"n = {records:,}, p = {columns}, epsilon = {epsilon:g}, l2 = {l2:g}, ||theta|| = {norm:.3g}, {draws} draws"
    ]
    lines.append(f"  {'':<26}{'excess risk':>13}{'+-':>11}{'lost':>6}")
    for name, values in excess.items():
        error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
        mean = np.mean(values) if values else np.nan
        lines.append(f"  {name:<26}{mean:>13.2e}{error:>11.1e}{draws - len(values):>6}")
    lines.append(f"  {releases['margins through a cap'].guarantee}; polynomial of degree {degree}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--columns", type=int, default=2)
    parser.add_argument("--epsilon", type=float, default=2.0)
    parser.add_argument("--l2", type=float, default=0.03)
    options = parser.parse_args()
    print(report(options.records, options.draws, options.columns, options.epsilon, options.l2))


if __name__ == "__main__":
    main()
