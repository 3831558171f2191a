"""Count intervals that cover where labels of a rare class were turned over: by score tests, and by standard errors.

    python benchmarks/rare_labels.py [--draws 200]

Labels alone are noised, by randomized response; columns are normal, and there is an intercept. For each design: the
share of rare labels, how many draws were refused, and of the 95% intervals of the fits how many cover the slopes and
the intercept, with standard errors alone and as `confidence_interval` gives them, how many of these have an infinite
end, and their median length over that of standard errors.
"""

import argparse
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import expit, ndtr

import symdebias as sd
from symdebias.exceptions import SymdebiasError

MODELS: dict[str, Any] = {"logistic": expit, "probit": ndtr}
# Loss, records, epsilon, slopes and intercept.
DESIGNS: tuple[tuple[str, int, float, tuple[float, ...], float], ...] = (
    ("logistic", 20_000, 1.5, (3.0,), 7.0),
    ("logistic", 20_000, 1.5, (3.0,), 4.0),
    ("logistic", 20_000, 1.5, (1.0,), 4.0),
    ("logistic", 20_000, 3.0, (1.0, -0.5), -4.0),
    ("logistic", 3_000, 1.5, (1.0,), 2.5),
    ("probit", 20_000, 1.5, (1.0, -0.5), 2.0),
    ("logistic", 20_000, 1.5, (1.0, -0.5), 1.0),
)


@dataclass
class Counts:
    """What the draws of a design come to: numbers of draws, and an array for the parameters of each fit."""

    rare: float
    refused: int
    alone: np.ndarray
    covered: np.ndarray
    infinite: np.ndarray
    longer: np.ndarray


def measure(loss: str, records: int, epsilon: float, slopes: Sequence[float], intercept: float, draws: int) -> Counts:
    """Return what so many draws of a design come to."""
    truth, refused, rows, rare = np.array([*slopes, intercept]), 0, [], []
    names = tuple(f"x{place}" for place in range(len(slopes)))
    release = sd.Release(None, target=sd.RandomizedResponse(epsilon), noiseless=names, fit_intercept=True)
    corrected = sd.debias(getattr(sd.losses, loss)(), release)
    for seed in range(draws):
        rng = np.random.default_rng([seed, records])
        X = rng.normal(size=(records, len(slopes)))
        y = np.where(rng.random(records) < MODELS[loss](X @ truth[:-1] + intercept), 1.0, -1.0)
        rare.append(min(np.mean(y > 0), np.mean(y < 0)))
        noised = release.privatize(X, y, random_state=seed)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", sd.VarianceWarning)
                fit = sd.m_estimate(corrected, noised.X, noised.y)
            ends = fit.confidence_interval()
        except SymdebiasError:
            refused += 1
            continue
        assert fit.inference is not None
        plain = replace(fit.inference, levelling=None).interval(fit.theta, 0.95)
        covers = [(low <= truth) & (truth <= high) for low, high in (plain.T, ends.T)]
        rows.append([*covers, ~np.isfinite(ends).all(axis=1), np.diff(ends)[:, 0] / np.diff(plain)[:, 0]])
    found = np.array(rows, dtype=float).reshape(len(rows), 4, len(truth))
    return Counts(float(np.mean(rare)), refused, *found.transpose(1, 0, 2))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=200)
    draws = parser.parse_args(arguments).draws
    print("| design | rare labels | refused | standard errors cover | intervals cover | infinite | length |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for loss, records, epsilon, slopes, intercept in DESIGNS:
        found = measure(loss, records, epsilon, slopes, intercept, draws)
        shown = ", ".join(f"{value:g}" for value in (*slopes, intercept))
        cells = [
            f"{loss}, {records:,} records, labels at {epsilon:g}, theta ({shown})",
            f"{found.rare:.1%}",
            f"{found.refused / draws:.0%}",
        ]
        if len(found.covered):
            shares = (found.alone, found.covered, found.infinite)
            cells += [", ".join(f"{100 * share:.0f}" for share in one.mean(axis=0)) + "%" for one in shares]
            cells.append(", ".join(f"{length:.2f}" for length in np.median(found.longer, axis=0)))
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
