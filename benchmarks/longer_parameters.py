"""Count intervals that cover where noise is so large that many draws are refused, by a note on longer parameters.

    python benchmarks/longer_parameters.py [--draws 200]

Exponential losses under noise of normal columns, and probit losses of rare binary columns that go together, with noised
labels. For each design: how many draws were refused or have no intervals; how many fits have the note of
`symdebias.solvers.outward`, how many of their 95% intervals cover, and would by the score tests of each parameter
alone; and how many do of the other fits.
"""

import argparse
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.special import expit, ndtr

import symdebias as sd
from symdebias.exceptions import SymdebiasError


@dataclass(frozen=True)
class Design:
    """Records of one kind: the standard deviation of noise in columns of variance 1, and the epsilon of labels."""

    loss: str
    records: int
    noise: float
    epsilon: float | None
    theta: tuple[float, ...]

    def __str__(self) -> str:
        labels = "true labels" if self.epsilon is None else f"labels at {self.epsilon:g}"
        columns = f"noise {self.noise:g}" if self.noise else "true columns"
        shown = ", ".join(f"{value:g}" for value in self.theta)
        return f"{self.loss}, {self.records:,} records, {columns}, {labels}, theta ({shown})"

    def noised(self, seed: int) -> sd.release.Noised:
        """Return the released records of a draw."""
        rng, truth = np.random.default_rng([seed, self.records]), np.array(self.theta)
        if self.loss == "exponential":
            X = rng.normal(size=(self.records, len(truth)))
            chance = expit(2 * X @ truth)
        else:
            binary = (rng.random((self.records, 3)) < 0.1) / 0.3
            X = math.sqrt(1 - 0.95**2) * binary[:, :2] + 0.95 * binary[:, 2:]
            chance = ndtr(X @ truth)
        y = np.where(rng.random(self.records) < chance, 1.0, -1.0)
        target = None if self.epsilon is None else sd.RandomizedResponse(self.epsilon)
        names = tuple(f"x{place}" for place in range(len(truth)))
        features = sd.GaussianMechanism.from_scale(self.noise) if self.noise else None
        release = sd.Release(features, target=target, noiseless=() if self.noise else names)
        return release.privatize(X, y, random_state=seed)


@dataclass
class Found:
    """The shares of parameters that fits cover: those with the note, the same by score tests alone, and others."""

    refused: int = 0
    noted: list[float] = field(default_factory=list)
    alone: list[float] = field(default_factory=list)
    others: list[float] = field(default_factory=list)


DESIGNS = (
    Design("exponential", 3_000, 1.0, 1.5, (1.0, -0.5)),
    Design("exponential", 20_000, 1.0, 1.5, (1.0, -0.5)),
    Design("exponential", 3_000, 0.7, 1.5, (0.8, -0.4)),
    Design("exponential", 3_000, 1.0, 1.5, (0.6, -0.3)),
    Design("exponential", 3_000, 1.0, None, (1.0, -0.5)),
    Design("exponential", 3_000, 0.7, None, (1.2, -0.5)),
    Design("exponential", 1_000, 0.5, None, (0.7, -0.5, 0.3)),
    Design("probit", 2_000, 0.0, 1.5, (2.6, -1.5)),
    Design("probit", 2_000, 0.0, 1.5, (2.8, 1.1)),
    Design("probit", 20_000, 0.0, 1.5, (3.5, -2.0)),
)


def measure(design: Design, draws: int) -> Found:
    """Return what fits to so many draws of a design cover."""
    truth, found = np.array(design.theta), Found()
    for seed in range(draws):
        noised = design.noised(seed)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", sd.VarianceWarning)
                fit = sd.m_estimate(sd.debias(getattr(sd.losses, design.loss)(), noised.release), noised.X, noised.y)
            ends = [fit.confidence_interval(), replace(fit.inference, outward=None).interval(fit.theta, 0.95)]
        except SymdebiasError:
            found.refused += 1
            continue
        stated, alone = (float(((low <= truth) & (truth <= high)).mean()) for low, high in (one.T for one in ends))
        if fit.inference.outward is None:
            found.others.append(stated)
        else:
            found.noted.append(stated)
            found.alone.append(alone)
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=200)
    draws = parser.parse_args(arguments).draws
    for design in DESIGNS:
        found = measure(design, draws)
        shares = [f"{np.mean(one):.1%}" if one else "" for one in (found.noted, found.alone, found.others)]
        cells = [
            str(design),
            f"{found.refused / draws:.0%}",
            str(len(found.noted)),
            *shares[:2],
            str(len(found.others)),
        ]
        print(f"| {' | '.join([*cells, shares[2]])} |", flush=True)


if __name__ == "__main__":
    main()
