"""Hold random losses under random releases to what they claim: right, or refused with an error of the library.

A generator draws smooth, kinked, polynomial, exponential, trigonometric, rational and nested losses, and releases with
Gaussian, Laplace and discrete Laplace noise, categories, mixtures of them, and noise on the target. Corrections that
are called exact are held against the mean over the noise by rules of this file, which share no code with the library.
"""

import argparse
import itertools
import math
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp

import symdebias as sd

U, Y = sp.symbols("u y", real=True)
THETA = np.array([0.6, -0.4])
# Errors that a user is meant to see.
FAMILY = (sd.SymdebiasError, ValueError, TypeError)


@dataclass(frozen=True)
class Column:
    """A noised column: its mechanism, and a rule for its noise beside a true value."""

    name: str
    mechanism: Any
    value: float
    released: np.ndarray
    weights: np.ndarray


@dataclass(frozen=True)
class Result:
    """What became of one draw: the method, the error's class, the worst relative error, and the seconds."""

    loss: str
    release: str
    method: str
    error: str
    worst: float
    seconds: float


def random_loss(rng: np.random.Generator, depth: int = 2) -> sp.Expr:
    """Return a random expression in the score and the target."""
    a, b = (sp.Rational(int(rng.integers(1, 5)), int(rng.integers(2, 6))) for _ in range(2))
    inside = [U, U - Y, U * Y, a * U + b][rng.integers(4)]
    atoms = [
        lambda: inside ** int(rng.integers(1, 7)),
        lambda: sp.exp(a * inside),
        lambda: sp.sin(a * inside) * inside ** int(rng.integers(0, 2)),
        lambda: sp.cos(b * inside),
        lambda: sp.log(1 + sp.exp(inside)),
        lambda: sp.log(1 + inside**2),
        lambda: 1 / (1 + inside**2),
        lambda: sp.erf(inside / 4),
        lambda: -sp.log(sp.erfc(-inside) / 2),
        lambda: sp.tanh(inside),
        lambda: sp.asinh(inside),
        lambda: sp.atan(inside) ** 2,
        lambda: sp.Abs(inside - b),
        lambda: sp.Max(0, a - inside) ** int(rng.integers(1, 3)),
        lambda: sp.Piecewise((inside**2 / 2, sp.Abs(inside) <= a), (a * sp.Abs(inside) - a**2 / 2, True)),
        lambda: sp.exp(-(inside**2) / 8),
        lambda: sp.exp(-sp.exp(inside / 2)),
        lambda: 1 / inside,
        lambda: sp.log(inside**2),
        lambda: sp.Heaviside(inside),
        lambda: sp.gamma(1 + inside**2),
        lambda: sp.sqrt(1 + inside**2),
        lambda: inside ** int(rng.integers(20, 60)),
    ]
    expression = atoms[rng.integers(len(atoms))]()
    if depth and rng.random() < 0.5:
        other = random_loss(rng, depth - 1)
        kind = rng.integers(4)
        expression = (expression + a * other, expression * other, expression - other, sp.sin(expression) + other)[kind]
    return expression + (b * U**2 if not expression.has(U) else 0)


def random_column(rng: np.random.Generator, name: str) -> Column:
    """Return a column with random noise."""
    value = float(rng.integers(-2, 3)) / 2
    kind = rng.integers(4)
    if kind == 0:
        scale = float(rng.choice([0.2, 0.5]))
        t, weights = np.polynomial.hermite_e.hermegauss(60)
        return Column(name, sd.GaussianMechanism.from_scale(scale), value, value + scale * t, weights / weights.sum())
    if kind == 1:
        scale = float(rng.choice([0.1, 0.3]))
        mechanism = sd.LaplaceMechanism.from_scale(scale)
        # The mechanism says what it does: its characteristic function is 1/(1 + v w^2/2) at variance v.
        t, weights = np.polynomial.laguerre.laggauss(60)
        size = math.sqrt(mechanism.noise.variance / 2)
        released = np.concatenate([value - size * t, value + size * t])
        return Column(name, mechanism, value, released, np.concatenate([weights, weights]) / (2 * weights.sum()))
    if kind == 2:
        step = 0.5
        mechanism = sd.DiscreteLaplaceMechanism.from_scale(0.3, step=step)
        # Two-sided geometric weights q^|k| with the variance 2 q step^2/(1 - q)^2, solved for q.
        ratio = mechanism.noise.variance / step**2
        q = (1 + ratio - math.sqrt(1 + 2 * ratio)) / ratio
        k = np.arange(-200, 201)
        weights = q ** np.abs(k)
        return Column(name, mechanism, value, value + step * k, weights / weights.sum())
    mechanism = sd.RandomizedResponse(float(rng.choice([1.0, 2.0])))
    value = float(rng.choice([-1.0, 1.0]))
    keep = 1 / (1 + math.exp(-mechanism.epsilon))
    return Column(name, mechanism, value, np.array([value, -value]), np.array([keep, 1 - keep]))


def mean_error(corrected: sd.CorrectedLoss, columns: Sequence[Column], target: Column | float, loss: sp.Expr) -> float:
    """Return |E corrected - loss| over the sizes that were summed, at one record."""
    parts = [*columns, *([target] if isinstance(target, Column) else [])]
    # Large values far out have tiny weights: sums in the order of their size would not help, and sizes are reported.
    places = list(itertools.product(*(range(len(part.weights)) for part in parts)))
    released = np.array([[part.released[k] for part, k in zip(parts, place, strict=True)] for place in places])
    weights = np.array([math.prod(part.weights[k] for part, k in zip(parts, place, strict=True)) for place in places])
    kept = weights > 1e-250
    y = released[:, -1] if isinstance(target, Column) else np.full(len(released), target)
    values = corrected.loss(THETA[: len(columns)], released[kept, : len(columns)], y[kept])
    true_target = target.value if isinstance(target, Column) else target
    score = float(sum(theta * column.value for theta, column in zip(THETA, columns, strict=False)))
    at = {U: sp.Float(score, 30), Y: sp.Float(true_target, 30)}
    wanted = float(loss.xreplace(at).evalf(20))
    terms = weights[kept] * values
    return abs(math.fsum(terms) - wanted) / max(1.0, abs(wanted), float(np.abs(terms).sum()))


def run(seed: int, *, compile_kernels: bool = True) -> Result:
    """Draw a loss and a release, and debias and check."""
    rng = np.random.default_rng(seed)
    expression = random_loss(rng)
    columns = [random_column(rng, f"x{index}") for index in range(int(rng.integers(1, 3)))]
    target: Column | float = float(rng.integers(-2, 3)) / 2 + 0.25
    binary = bool(rng.random() < 0.3)
    if binary:
        target = float(rng.choice([-1.0, 1.0]))
    if rng.random() < 0.35:
        target = random_column(rng, "y")
        binary = isinstance(target.mechanism, sd.RandomizedResponse)
    names = ", ".join(type(part.mechanism).__name__ for part in (*columns, target) if isinstance(part, Column))
    # Of the library: deriving and compiling, not the sums that it is held against.
    began, seconds = time.perf_counter(), 0.0
    method, error, worst = "-", "-", math.nan
    try:
        loss = sd.Loss(expression, score=U, target=Y, target_values=(-1, 1) if binary else None)
        release = sd.Release(
            features={column.name: column.mechanism for column in columns},
            target=target.mechanism if isinstance(target, Column) else None,
        )
        corrected = sd.debias(loss, release)
        method = corrected.method
        if method == "exact" and compile_kernels:
            values = [part.value for part in columns]
            corrected.loss(THETA[: len(columns)], [values], [target.value if isinstance(target, Column) else target])
            seconds = time.perf_counter() - began
            worst = mean_error(corrected, columns, target, expression)
    except FAMILY as refusal:
        error = type(refusal).__name__
    except Exception as crash:  # what the benchmark looks for
        error = f"CRASH {type(crash).__name__}: {crash}"[:120]
    return Result(str(expression), names, method, error, worst, seconds or time.perf_counter() - began)


def table(results: Sequence[Result]) -> str:
    """Return what was found, as text."""
    methods, errors = Counter(r.method for r in results), Counter(r.error for r in results if r.error != "-")
    worst = max((r for r in results if r.worst == r.worst), key=lambda r: r.worst, default=None)
    slowest = max(results, key=lambda r: r.seconds)
    lines = [f"{len(results)} random losses"]
    lines += [f"  {name:12s} {count:4d}" for name, count in methods.most_common() if name != "-"]
    lines += [f"  refused: {name} {count}" for name, count in errors.most_common()]
    if worst is not None:
        checked = sum(r.worst == r.worst for r in results)
        lines.append(f"  worst error of {checked} exact ones: {worst.worst:.1e}  {worst.loss}  under {worst.release}")
    lines.append(f"  slowest: {slowest.seconds:.1f} s  {slowest.loss}  under {slowest.release}")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> list[Result]:
    """Run the benchmark and print its table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--losses", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--derive-only", action="store_true", help="leave kernels out: no errors of exact corrections")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore", sd.VarianceWarning)
    results = [
        run(seed, compile_kernels=not options.derive_only)
        for seed in range(options.seed, options.seed + options.losses)
    ]
    print(table(results))
    for result in results:
        unheld = result.method == "exact" and result.error == "-" and not options.derive_only
        if result.error.startswith("CRASH") or result.seconds > 20 or (unheld and not result.worst <= 1e-8):
            print(result)
    return results


if __name__ == "__main__":
    main()
