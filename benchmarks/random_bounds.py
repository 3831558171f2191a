"""Hold the bounds that central noise rests on against what random losses take.

A generator draws losses of logistic, normal, hyperbolic, oscillating, rational and kinked parts, and their products,
with labels of -1 and 1 or 0 and 1, residuals, or a target within bounds, on a ball of scores or the whole line.
`slope_ranges` and `curvature_range` are held against differences of the loss as it was declared, with 40 digits, at the
places where differences on a grid of float64 are largest: no derivative of the library is in them. A bound below what
is taken would be noise that is too small.

Each loss has a process of its own, which ends after some seconds: SymPy does not let go of everything that it begins.
"""

import argparse
import ast
import os
import random
import resource
import sys
from collections import Counter
from typing import Any

import mpmath
import numpy as np
import sympy as sp

import symdebias as sd
from symdebias.bounds.slopes import curvature_range, slope_ranges

U, Y = sp.symbols("u y", real=True)
DOMAINS = ("-1 and 1", "0 and 1", "residual", "target within bounds")
TARGET_BOUNDS = (-1.0, 2.0)
# The share of losses with kinks, and that of domains without a bound on the score.
KINKED, UNBOUNDED = 0.35, 0.25
# Scores that stand for the whole line, and points of the grids of slopes and curvatures.
FAR, SLOPES, CURVATURES = 30.0, 4001, 1501
# Steps of differences on the grid, and with 40 digits.
COARSE, FINE = (1e-5, 1e-3), (mpmath.mpf(10) ** -12, mpmath.mpf(10) ** -10)
# What differences may be off by, relative.
ROUNDING = (1e-7, 1e-6)
SECONDS = 8


def part(draw: random.Random, x: sp.Expr, *, kinked: bool) -> sp.Expr:
    """Return a function of a number."""
    z = sp.Rational(draw.choice((1, 1, 1, 2, 3)), draw.choice((1, 1, 2))) * draw.choice((1, 1, -1)) * x
    z += draw.choice((0, 0, 0, 1, -1, sp.Rational(1, 2)))
    c, p = draw.choice((sp.Rational(1, 2), 1, 2)), 1 / (1 + sp.exp(-z))
    smooth = (
        p, 1 - p, p - 1, p * (1 - p), p * (p - 1), sp.log(1 + sp.exp(z)), sp.log(1 + sp.exp(-z)), sp.tanh(z),
        1 - sp.tanh(z), sp.tanh(z) - 1, sp.exp(-(z**2)), sp.sqrt(1 + z**2), sp.cos(z), sp.sin(z), sp.exp(z / 4),
        -sp.log(sp.erfc(-z / sp.sqrt(2)) / 2), z, 1 / (1 + z**2), sp.log(sp.cosh(z)), z**3 / (1 + z**4),
    )  # fmt: skip
    with_kinks = (
        sp.Abs(z), sp.Max(0, z), sp.Min(z, c), sp.Max(0, z) ** 2, sp.Max(-z, z, c), sp.sqrt(sp.Abs(z) + c),
        sp.Piecewise((z**2 / 2, sp.Abs(z) <= c), (c * sp.Abs(z) - c**2 / 2, True)),
        sp.Piecewise((c * sp.Abs(z) - c**2 / 2, c < sp.Abs(z)), (z**2 / 2, True)),
        sp.log(1 + sp.Abs(z)), z * sp.sign(z), sp.Abs(sp.Abs(z) - c), sp.Max(0, 1 - sp.Abs(z)) ** 3,
        sp.Piecewise((0, z < -c), ((z + c) ** 2, z < 0), (c**2 + 2 * c * z, True)),
    )  # fmt: skip
    return draw.choice(with_kinks if kinked else smooth)


def drawn(seed: int) -> tuple[sp.Expr, str, float | None]:
    """Return a loss, its domain, and the bound on the score."""
    draw = random.Random(seed)
    domain, kinked = draw.choice(DOMAINS), draw.random() < KINKED
    x = {"-1 and 1": Y * U, "residual": U - Y}.get(domain, U)
    loss = sp.Integer(0)
    for _ in range(draw.choice((1, 2, 2, 3))):
        term = part(draw, x, kinked=kinked)
        for _ in range(draw.choice((0, 0, 0, 1, 1, 2))):
            term *= part(draw, x, kinked=kinked)
        loss += draw.choice((1, 1, -1, 2, sp.Rational(1, 3))) * term
    if domain in ("0 and 1", "target within bounds"):
        loss += Y * part(draw, U, kinked=False)
    radius = draw.choice((0.5, 1.0, 2.0, 5.0))
    return loss, domain, None if draw.random() < UNBOUNDED else radius


def taken(loss: sp.Expr, targets: tuple[float, ...], radius: float) -> list[tuple[float, float]]:
    """Return the least and the largest slope and curvature that were found."""
    floats, digits = sp.lambdify((U, Y), loss, ["numpy", "scipy"]), sp.lambdify((U, Y), loss, "mpmath")
    found: list[list[float]] = [[], []]
    for target in targets:
        for order, (points, h, fine) in enumerate(zip((SLOPES, CURVATURES), COARSE, FINE, strict=True)):
            at = np.linspace(2 * h - radius, radius - 2 * h, points)
            with np.errstate(all="ignore"):
                low, middle, high = (
                    np.broadcast_to(np.asarray(floats(at + off, target), dtype=float), at.shape) for off in (-h, 0, h)
                )
                rough = high - low if order == 0 else high - 2 * middle + low
            for place in {int(np.nanargmin(rough)), int(np.nanargmax(rough)), 0, points - 1}:
                u, y = mpmath.mpf(float(at[place])), mpmath.mpf(target)
                low, high = digits(u - fine, y), digits(u + fine, y)
                if order == 0:
                    change = (high - low) / (2 * fine)
                else:
                    change = (high - 2 * digits(u, y) + low) / fine**2
                found[order].append(float(mpmath.re(change)))
    return [(min(values), max(values)) for values in found]


def outcome(seed: int) -> str:
    """Return what came of a draw: "held", "refused", or what was below what is taken."""
    expression, domain, radius = drawn(seed)
    values = {"-1 and 1": (-1, 1), "0 and 1": (0, 1)}.get(domain)
    bounds = None if values else TARGET_BOUNDS
    try:
        loss = sd.Loss(expression, score=U, target=Y, target_values=values)
        ranges = slope_ranges(loss, score_radius=radius, target_bounds=bounds)
        curvature = curvature_range(loss, score_radius=radius, target_bounds=bounds)
    except (ValueError, TypeError):
        return "refused"
    slope = min(low for low, _ in ranges), max(high for _, high in ranges)
    if values and len(ranges) == 1:
        # The other label's loss is the mirror image.
        slope = min(slope[0], -slope[1]), max(slope[1], -slope[0])
    targets = tuple(map(float, values or np.linspace(*TARGET_BOUNDS, 13)))
    with mpmath.workdps(40):
        most = taken(expression, targets, radius or FAR)
    for what, bound, (least, largest), rounding in zip(
        ("slope", "curvature"), (slope, curvature), most, ROUNDING, strict=True
    ):
        slack = rounding * (1 + abs(least) + abs(largest))
        if least < bound[0] - slack or largest > bound[1] + slack:
            return f"{what} of {expression} ({domain}, {radius}): {bound} is claimed, {(least, largest)} is taken"
    return "held"


def in_a_process(seed: int) -> str:
    """Return `outcome`, or "too long"."""
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        found: Any = None
        try:
            found = outcome(seed)
        except Exception as error:
            found = f"{type(error).__name__} at seed {seed}: {error}"
        finally:
            os.write(writing, repr(found).encode()[:4000])
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        said = stream.read()
    os.waitpid(child, 0)
    return str(ast.literal_eval(said.decode())) if said else "too long"


def main() -> None:
    """Print how many draws were held, refused, or wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--losses", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0, help="of the first one")
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    for seed in range(options.seed, options.seed + options.losses):
        found = in_a_process(seed)
        if found not in ("held", "refused", "too long"):
            print(f"seed {seed}: {found}")
            sys.stdout.flush()
            found = "wrong"
        counts[found] += 1
    print(f"{options.losses} losses: {', '.join(f'{counts[what]} {what}' for what in ('held', 'refused', 'too long'))}")
    print(f"wrong: {counts['wrong']}")


if __name__ == "__main__":
    main()
