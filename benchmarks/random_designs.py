"""Fit designs that nobody chose, and count how many stated intervals cover.

    python benchmarks/random_designs.py [--designs 1000] [--start 0] [--most-records 100000 | --many]
                                        [--output designs.jsonl]

The seed of a design decides everything: the loss, from 60 to 100,000 records, 1 to 6 columns, their tails, correlation,
middle and units, the strength of the signal, the share of noise in the columns, the mechanism, the noise of the labels.
The model is correctly specified, and the library is called as a user would call it, without hints. One draw of each
design says little of it; all of them together say

* how many of the stated 95% intervals cover the parameters that made the records;
* how many parameters lie more than four standard errors away, a fifteen-thousandth of normal ones;
* how many designs were refused, by the kind of refusal.

With --many there are 200,000 to 450,000 records, of which fits look at a part first. With --output each design is a
line of JSON in a file, and those found there are not run again.
"""

import argparse
import json
import math
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit, ndtr

import symdebias as sd
from symdebias.exceptions import SymdebiasError

Draw = Callable[[np.random.Generator, np.ndarray], np.ndarray]

RECORDS, CHANCES = (60, 300, 2_000, 20_000, 100_000), (0.1, 0.2, 0.3, 0.3, 0.1)
MANY, CHANCES_OF_MANY = (200_000, 260_000, 450_000), (0.4, 0.4, 0.2)
EPSILON, FAR, LEVEL = 1.5, 4.0, 0.95
# Means of exponential models stay below exp(6): beyond, single records decide by the design of the model.
LARGEST = 6.0


def sign(chance: Callable[[np.ndarray], np.ndarray]) -> Draw:
    return lambda rng, score: np.where(rng.random(len(score)) < chance(score), 1.0, -1.0)


LABELS: dict[str, Draw] = {
    "exponential": sign(lambda score: expit(2 * score)), "logistic": sign(expit), "probit": sign(ndtr),
}  # fmt: skip
MEANS: dict[str, Draw] = {
    "gamma": lambda rng, score: np.exp(score) * rng.gamma(2.0, 0.5, len(score)),
    "negative_binomial": lambda rng, score: rng.poisson(np.exp(score) * rng.gamma(1.0, 1.0, len(score))).astype(float),
    "poisson": lambda rng, score: rng.poisson(np.exp(score)).astype(float),
}
RESIDUALS: dict[str, Draw] = {
    "expectile": lambda rng, score: score + rng.normal(size=len(score)),
    "huber": lambda rng, score: score + rng.normal(size=len(score)),
    "least_squares": lambda rng, score: score + rng.standard_t(5, len(score)),
}
MODELS = LABELS | MEANS | RESIDUALS
LOSSES: dict[str, Callable[[], sd.Loss]] = {name: getattr(sd.losses, name) for name in MODELS}
LOSSES["expectile"] = lambda: sd.losses.expectile(0.5)

# Columns of about unit variance.
TAILS: dict[str, Callable[[np.random.Generator, tuple[int, int]], np.ndarray]] = {
    "binary": lambda rng, shape: (rng.random(shape) < 0.1) / 0.3,
    "far": lambda rng, shape: rng.normal(size=shape) * np.where(rng.random((shape[0], 1)) < 0.02, 8.0, 0.5),
    "lognormal": lambda rng, shape: np.exp(0.7 * rng.normal(size=shape)) - math.exp(0.245),
    "normal": lambda rng, shape: rng.normal(size=shape),
    "t4": lambda rng, shape: rng.standard_t(4, shape) / math.sqrt(2),
    "uniform": lambda rng, shape: rng.uniform(-math.sqrt(3), math.sqrt(3), shape),
}


@dataclass(frozen=True)
class Design:
    """How records are made and released; `noised` says what has noise: columns, labels or both."""

    seed: int
    loss: str
    records: int
    columns: int
    tail: str
    correlation: float
    middle: float
    raw_units: bool
    strength: float
    intercept: float | None
    reliability: float
    mechanism: str
    noised: str

    @classmethod
    def of(cls, seed: int, *, many: bool = False) -> "Design":
        """Return the design of a seed."""
        sizes, chances = (MANY, CHANCES_OF_MANY) if many else (RECORDS, CHANCES)
        rng = np.random.default_rng([seed, 0])
        loss = str(rng.choice(sorted(MODELS)))
        return cls(
            seed=seed, loss=loss, records=int(rng.choice(sizes, p=chances)), columns=int(rng.integers(1, 7)),
            tail=str(rng.choice(sorted(TAILS))), correlation=float(rng.choice([0.0, 0.5, 0.95])),
            middle=float(rng.choice([0.0, 0.0, 3.0])), raw_units=bool(rng.random() < 0.5),
            strength=float(rng.choice([0.2, 0.7, 1.5, 3.0])),
            intercept=[None, 0.0, -1.5][rng.integers(3)], reliability=float(rng.choice([0.5, 0.7, 0.9, 0.98])),
            mechanism=str(rng.choice(["gaussian", "laplace"])),
            noised=str(rng.choice(["columns", "labels", "both"])) if loss in LABELS else "columns",
        )  # fmt: skip

    def records_and_truth(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return X of shape (n, p), the target, theta, and the standard deviations of the noise of X."""
        rng = np.random.default_rng([self.seed, 1])
        drawn = TAILS[self.tail](rng, (self.records, self.columns))
        shared = TAILS[self.tail](rng, (self.records, 1))
        X = math.sqrt(1 - self.correlation**2) * drawn + self.correlation * shared + self.middle
        theta = rng.normal(size=self.columns)
        # Exponential means are strong sooner.
        theta *= self.strength * (0.4 if self.loss in MEANS else 1.0) / np.linalg.norm(theta)
        score = X @ theta
        if self.loss in MEANS:
            # The direction stays, and no score is beyond the largest.
            shrink = min(1.0, LARGEST / float(np.abs(score).max()))
            theta, score = shrink * theta, shrink * score
        y = MODELS[self.loss](rng, score + (self.intercept or 0.0))
        units = 10.0 ** rng.uniform(-3, 3, self.columns) if self.raw_units else np.ones(self.columns)
        noise = units * X.std(axis=0) * math.sqrt((1 - self.reliability) / self.reliability)
        truth = theta / units if self.intercept is None else np.append(theta / units, self.intercept)
        return X * units, y, truth, noise

    def release(self, noise: np.ndarray) -> sd.Release:
        """Return the release of noise with these standard deviations."""
        names = [f"x{k}" for k in range(self.columns)]
        target = sd.RandomizedResponse(EPSILON) if self.noised in ("labels", "both") else None
        intercept = self.intercept is not None
        if self.noised == "labels":
            return sd.Release(None, target=target, noiseless=tuple(names), fit_intercept=intercept)
        features: Any = sd.GaussianMechanism.from_scale([float(scale) for scale in noise])
        if self.mechanism == "laplace":
            scales = (noise / math.sqrt(2)).tolist()
            features = {name: sd.LaplaceMechanism.from_scale(b) for name, b in zip(names, scales, strict=True)}
        return sd.Release(features, target=target, fit_intercept=intercept)


def outcome(design: Design) -> dict[str, Any]:
    """Return how many standard errors each parameter is off and which intervals cover it, or the refusal."""
    X, y, truth, noise = design.records_and_truth()
    release = design.release(noise)
    noised = release.privatize(X, y, random_state=design.seed)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", category=sd.VarianceWarning)
        try:
            fit = sd.m_estimate(sd.debias(LOSSES[design.loss](), release), noised.X, noised.y)
            low, high = fit.confidence_interval(LEVEL).T
            off = (fit.theta - truth) / fit.standard_errors
        except SymdebiasError as error:
            kind = str(error).partition(":")[0].partition(" (")[0]
            kind = " ".join(word for word in kind.split() if not any(letter.isdigit() for letter in word))
            return asdict(design) | {"refused": f"{type(error).__name__}: {kind}"}
    covered = ((low <= truth) & (truth <= high)).tolist()
    return asdict(design) | {"off": off.tolist(), "covered": covered, "warned": bool(said)}


def told(outcomes: Sequence[dict[str, Any]]) -> str:
    """Return what all designs say together."""
    fitted = [one for one in outcomes if "off" in one]
    lines = [f"{len(outcomes)} designs, {len(fitted)} fits"]
    if fitted:
        covered = np.concatenate([one["covered"] for one in fitted])
        worst = [max(map(abs, one["off"])) for one in fitted]
        lines[0] += f", {len(covered)} parameters: {100 * covered.mean():.1f}% covered"
        lines.append(f"{'':<24}{'fits':>6}{'covered':>9}{'worst':>7}")
        for name in ("loss", "records", "tail", "correlation", "strength", "reliability", "noised", "warned"):
            for value in sorted({one[name] for one in fitted}):
                rows = [one for one in fitted if one[name] == value]
                share = 100 * np.concatenate([one["covered"] for one in rows]).mean()
                far = max(max(map(abs, one["off"])) for one in rows)
                lines.append(f"{name + ' ' + str(value):<24}{len(rows):>6}{share:>9.1f}{far:>7.1f}")
        beyond = [str(one["seed"]) for one, size in zip(fitted, worst, strict=True) if size > FAR]
        lines.append(
            f"beyond {FAR:g} standard errors: {len(beyond)} designs" + ": seeds " * bool(beyond) + ", ".join(beyond)
        )
    refusals = Counter(one["refused"] for one in outcomes if "refused" in one)
    lines += [f"{count} x {refusal}" for refusal, count in refusals.most_common()]
    return "\n".join(lines)


def run(seeds: Sequence[int], most_records: float, path: Path | None, *, many: bool = False) -> list[dict[str, Any]]:
    """Return the outcomes of designs, those that a file keeps among them."""
    kept = {}
    if path and path.exists():
        kept = {one["seed"]: one for one in map(json.loads, path.read_text().splitlines())}
    found = []
    for seed in seeds:
        design = Design.of(seed, many=many)
        if design.records > most_records:
            continue
        if seed not in kept:
            kept[seed] = outcome(design)
            if path:
                with path.open("a") as file:
                    file.write(json.dumps(kept[seed]) + "\n")
        found.append(kept[seed])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--designs", type=int, default=1000)
    parser.add_argument("--start", type=int, default=0, help="the seed of the first design")
    sizes = parser.add_mutually_exclusive_group()
    sizes.add_argument("--most-records", type=int, default=math.inf, help="leave out designs with more records")
    sizes.add_argument("--many", action="store_true", help=f"designs of {MANY[0]:,} to {MANY[-1]:,} records")
    parser.add_argument("--output", type=Path, help="a file that keeps outcomes")
    options = parser.parse_args()
    seeds = range(options.start, options.start + options.designs)
    print(told(run(seeds, options.most_records, options.output, many=options.many)))


if __name__ == "__main__":
    main()
