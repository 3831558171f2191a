"""Count intervals that cover where noise is so large that many draws are refused, by a note on longer parameters.

    python benchmarks/longer_parameters.py [--draws 200]

Exponential losses under noise of normal columns, and probit losses of rare binary columns that go together, with noised
labels; the same as free-form losses, also with an intercept or a product of columns; and two probits, as one loss of
two scores, whose four labels are noised. For each design: how many draws were refused or have no intervals; how many
fits have the note of `symdebias.solvers.outward`, how many of their 95% intervals cover, and would by the score tests
of each parameter alone; and how many do of the other fits.
"""

import argparse
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import sympy as sp
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
    free_form: bool = False  # With an intercept, or a product of the two columns, where theta is longer than these.

    def __str__(self) -> str:
        labels = "true labels" if self.epsilon is None else f"labels at {self.epsilon:g}"
        columns = f"noise {self.noise:g}" if self.noise else "true columns"
        shown = ", ".join(f"{value:g}" for value in self.theta)
        name = f"free-form {self.loss}" if self.free_form else self.loss
        return f"{name}, {self.records:,} records, {columns}, {labels}, theta ({shown})"

    def noised(self, seed: int) -> sd.release.Noised:
        """Return the released records of a draw."""
        rng, truth = np.random.default_rng([seed, self.records]), np.array(self.theta)
        if self.loss == "exponential":
            X = rng.normal(size=(self.records, len(truth)))
            chance = expit(2 * X @ truth)
        else:
            binary = (rng.random((self.records, 3)) < 0.1) / 0.3
            X = math.sqrt(1 - 0.95**2) * binary[:, :2] + 0.95 * binary[:, 2:]
            rows = X
            if self.loss == "probit with an intercept":
                rows = np.column_stack([X, np.ones(len(X))])
            elif self.loss == "probit with a product":
                rows = np.column_stack([X, X[:, 0] * X[:, 1]])
            chance = ndtr(rows @ truth.reshape(-1, rows.shape[1]).T)
        labels: tuple[float, ...] = (-1.0, 1.0)
        if self.loss == "two probits":
            labels = (0.0, 1.0, 2.0, 3.0)
            y = (rng.random((self.records, 2)) < chance) @ np.array([2.0, 1.0])
        else:
            y = np.where(rng.random(self.records) < chance.ravel(), 1.0, -1.0)
        target = None if self.epsilon is None else sd.RandomizedResponse(self.epsilon, categories=labels)
        names = tuple(f"x{place}" for place in range(X.shape[1]))
        features = sd.GaussianMechanism.from_scale(self.noise) if self.noise else None
        release = sd.Release(features, target=target, noiseless=() if self.noise else names)
        return release.privatize(X, y, random_state=seed)

    def declared(self) -> sd.Loss:
        """Return the loss, as it is declared."""
        y, u, v = sp.symbols("y u v", real=True)
        if self.loss == "two probits":
            sides = [(first, second) for first in (-1, 1) for second in (-1, 1)]
            one, two, three, last = (_probit(first * u) + _probit(second * v) for first, second in sides)
            expression = sp.Piecewise((one, sp.Eq(y, 0)), (two, sp.Eq(y, 1)), (three, sp.Eq(y, 2)), (last, True))
            return sd.Loss(expression, score=(u, v), target=y, target_values=(0, 1, 2, 3))
        if not self.free_form:
            return getattr(sd.losses, self.loss)()
        columns = 2 if self.loss.startswith("probit") else len(self.theta)
        x, t = sp.symbols(f"x:{columns}", real=True), sp.symbols(f"t:{len(self.theta)}", real=True)
        last = x[0] * x[1] if self.loss == "probit with a product" else 1
        score = sum(parameter * value for parameter, value in zip(t, (*x, last), strict=False))
        expression = sp.exp(-y * score) if self.loss == "exponential" else _probit(y * score)
        return sd.Loss.of_features(expression, features=x, parameters=t, target=y, target_values=(-1, 1))


def _probit(margin: sp.Expr) -> sp.Expr:
    return -sp.log(sp.erfc(-margin / sp.sqrt(2)) / 2)


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
    Design("exponential", 3_000, 1.0, None, (1.0, -0.5), free_form=True),
    Design("exponential", 3_000, 0.7, None, (1.2, -0.5), free_form=True),
    Design("probit", 2_000, 0.0, 1.5, (2.6, -1.5), free_form=True),
    Design("probit", 2_000, 0.0, 1.5, (2.8, 1.1), free_form=True),
    Design("probit", 20_000, 0.0, 1.5, (3.5, -2.0), free_form=True),
    Design("probit with an intercept", 2_000, 0.0, 1.5, (2.8, 1.1, 0.0), free_form=True),
    Design("probit with an intercept", 20_000, 0.0, 1.5, (0.0, -3.0, -1.5), free_form=True),
    Design("probit with a product", 3_000, 0.0, 1.5, (2.5, -1.5, 0.8), free_form=True),
    Design("two probits", 2_000, 0.0, 2.0, (2.6, -1.5, 1.2, 0.8)),
    Design("two probits", 2_000, 0.0, 1.5, (2.8, 1.1, 0.3, -0.5)),
)


def measure(design: Design, draws: int) -> Found:
    """Return what fits to so many draws of a design cover."""
    truth, loss, found = np.array(design.theta), design.declared(), Found()
    for seed in range(draws):
        noised = design.noised(seed)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", sd.VarianceWarning)
                fit = sd.m_estimate(sd.debias(loss, noised.release), noised.X, noised.y)
            alone = replace(fit.inference, outward=None).interval(fit.theta.ravel(), 0.95)
            ends = [fit.confidence_interval().reshape(-1, 2), alone]
        except SymdebiasError:
            found.refused += 1
            continue
        stated, by_tests = (float(((low <= truth) & (truth <= high)).mean()) for low, high in (one.T for one in ends))
        if fit.inference.outward is None:
            found.others.append(stated)
        else:
            found.noted.append(stated)
            found.alone.append(by_tests)
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
