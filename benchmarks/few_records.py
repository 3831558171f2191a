"""Do 95% intervals cover where few records decide a parameter? Losses that grow fast, columns with far values.

    python benchmarks/few_records.py [--draws 300]

Records have two columns of about unit variance and an intercept; both columns have normal noise of standard deviation
0.3. The model is correctly specified, but for the quartic loss, whose optimum for exponential errors is known. Each row
is a design with the number of its records, and has, of the draws that were fitted ("fits"),
* m, the effective number of records that decide the parameter that fewest decide: the median;
* how many intervals of the parameter that was worst cover, in percent: those of normal ones, of 1.96 standard errors;
  those by Student's t as far on both sides; and those of `confidence_interval`, with the end of a skewed estimate;
* how much longer the last are than those as far on both sides: the median of those that end on both.
"""

import argparse
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import sympy as sp
from scipy.optimize import brentq
from scipy.special import expit

import symdebias as sd
from symdebias.exceptions import SymdebiasError

NOISE = 0.3
Rng = np.random.Generator


def quartic() -> sd.Loss:
    u, y = sp.symbols("u y", real=True)
    return sd.Loss((y - u) ** 4 / 4, score=u, target=y)


# The middle of standard exponential errors by their fourth powers: E (e - c)^3 = 6 - 6 c + 3 c^2 - c^3 = 0.
QUARTIC_MIDDLE = brentq(lambda c: 6 - 6 * c + 3 * c**2 - c**3, 0.0, 6.0)


def compound(rng: Rng, score: np.ndarray) -> np.ndarray:
    """Return sums of Poisson many standard exponentials."""
    counts = rng.poisson(np.exp(score))
    return np.where(counts > 0, rng.gamma(np.maximum(counts, 1)), 0.0)


def signs(chance: np.ndarray, rng: Rng) -> np.ndarray:
    return np.where(rng.random(len(chance)) < chance, 1.0, -1.0)


COLUMNS: dict[str, Callable[[Rng, tuple[int, int]], np.ndarray]] = {
    "normal": lambda rng, shape: rng.normal(size=shape),
    "t3": lambda rng, shape: rng.standard_t(3, shape) / np.sqrt(3),
    "lognormal": lambda rng, shape: (np.exp(rng.normal(size=shape)) - np.exp(0.5)) / 2.16,
}


@dataclass(frozen=True)
class Model:
    """A loss, the parameters that targets are drawn with, their law, and how far the optimum's intercept is off."""

    loss: Callable[[], sd.Loss]
    theta: tuple[float, float, float]
    draw: Callable[[Rng, np.ndarray], np.ndarray]
    middle: float = 0.0


MODELS = {
    "quartic": Model(quartic, (1.0, -0.5, 0.2), lambda rng, u: u + rng.exponential(size=len(u)), QUARTIC_MIDDLE),
    "poisson": Model(sd.losses.poisson, (0.4, -0.2, 0.2), lambda rng, u: rng.poisson(np.exp(u)).astype(float)),
    "tweedie": Model(sd.losses.tweedie, (0.4, -0.2, 0.2), compound),
    "gamma": Model(sd.losses.gamma, (0.5, -0.3, 0.2), lambda rng, u: np.exp(u) * rng.gamma(2.0, 0.5, len(u))),
    "exponential": Model(sd.losses.exponential, (0.4, -0.2, 0.2), lambda rng, u: signs(expit(2 * u), rng)),
    "logistic": Model(sd.losses.logistic, (1.0, -0.5, 0.2), lambda rng, u: signs(expit(u), rng)),
}
DESIGNS = [
    ("quartic", "normal", 300),
    ("quartic", "t3", 300),
    ("quartic", "t3", 3_000),
    ("poisson", "t3", 3_000),
    ("poisson", "lognormal", 3_000),
    ("tweedie", "lognormal", 3_000),
    ("gamma", "normal", 300),
    ("exponential", "lognormal", 300),
    ("logistic", "normal", 300),
]


def row(name: str, columns: str, records: int, draws: int) -> str:
    model = MODELS[name]
    theta = np.array(model.theta)
    truth = theta + np.array([0.0, 0.0, model.middle])
    release = sd.Release(sd.GaussianMechanism.from_scale(NOISE), fit_intercept=True)
    corrected = sd.debias(model.loss(), release)
    decide, covers, lengths = [], [], []
    for k in range(draws):
        rng = np.random.default_rng([k, records])
        X = COLUMNS[columns](rng, (records, 2))
        noised = release.privatize(X, model.draw(rng, X @ theta[:2] + theta[2]), random_state=rng)
        try:
            fit = sd.m_estimate(corrected, noised.X, noised.y)
            stated = fit.confidence_interval(0.95)
        except SymdebiasError:
            continue
        even = replace(fit.inference, skewness=None).interval(fit.theta, 0.95)
        reach = 1.96 * fit.standard_errors
        plain = np.stack([fit.theta - reach, fit.theta + reach], axis=1)
        covers.append([(low <= truth) & (truth <= high) for low, high in (plain.T, even.T, stated.T)])
        freedom = fit.inference.degrees_of_freedom
        decide.append(np.inf if freedom is None else np.min(freedom) / 2)
        long, usual = stated[:, 1] - stated[:, 0], even[:, 1] - even[:, 0]
        lengths.append(np.where(np.isfinite(long), long, np.nan) / np.where(np.isfinite(usual), usual, np.nan))
    told = f"{name:<12} {columns:<10} {records:>7,} {len(covers):>5}"
    if not covers:
        return told
    shares = 100 * np.mean(covers, axis=0)
    worst = int(np.argmin(shares[1]))
    m = np.median(decide)
    longer = np.nanmedian(np.array(lengths)[:, worst])
    few = f"{m:>6.0f}" if np.isfinite(m) else f"{'many':>6}"
    return f"{told} {few} " + " ".join(f"{share:>9.1f}" for share in shares[:, worst]) + f" {longer:>7.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=300)
    options = parser.parse_args()
    # What a score test says of longer parameters is a question of its own.
    warnings.simplefilter("ignore", category=sd.VarianceWarning)
    heads = ("loss", "columns", "records", "fits", "m", "normal", "even", "stated", "longer")
    print("{:<12} {:<10} {:>7} {:>5} {:>6} {:>9} {:>9} {:>9} {:>7}".format(*heads))
    for design in DESIGNS:
        print(row(*design, options.draws), flush=True)


if __name__ == "__main__":
    main()
