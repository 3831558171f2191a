"""Corrections under zonal noise: polynomials of the score, exact ones and those that stand for other losses.

The inverse takes u^j to sum_i e_ji s^((j - i)/2) u^i (`symdebias.zonal.ZonalNoise.table`). Its numbers stand in the
kernels' vector of noise, so that one kernel serves all budgets and radii.
"""

import itertools
from collections.abc import Sequence

import numpy as np
import sympy as sp

from symdebias import _limits
from symdebias.derivation.problem import Build, ScoreProblem, SphericalNoiseOfScores, finish
from symdebias.derivation.surrogates import SurrogateParts
from symdebias.derivation.symbols import Derivation, free_symbol
from symdebias.exceptions import NoExactCorrectionError
from symdebias.transforms import derivative_terms
from symdebias.transforms.surrogate import Design
from symdebias.zonal import ZonalNoise

# Degrees that kernels are made for.
_SIZES = (4, 8)


def zonal_noise(problem: ScoreProblem) -> SphericalNoiseOfScores | None:
    """Return the zonal noise of a problem, or None where it has none."""
    return next((noise for noise in problem.spherical if isinstance(noise.group.noise, ZonalNoise)), None)


def undo_powers(
    expression: sp.Expr,
    variables: Sequence[sp.Symbol],
    problem: ScoreProblem,
    build: Build,
    noise: SphericalNoiseOfScores,
) -> sp.Expr:
    """Return a polynomial of the scores, or of the residual where the target is a coordinate, with zonal noise undone.

    Up to degree 2 it is noise like any other, whatever stands beside its columns in the scores. Higher degrees need a
    single score that is all of the noised vector. `build` keeps the numbers of the inverse.

    Raises
    ------
    NoExactCorrectionError
        The loss is no polynomial, or one of more than the squares and of more than the noised vector.
    """
    law = noise.group.noise
    assert isinstance(law, ZonalNoise)
    expression = _limits.expand(expression)
    if not expression.is_polynomial(*variables):
        raise NoExactCorrectionError(
            f"a point of a sphere is no sum of a record and noise: polynomials of the score are corrected exactly "
            f"under a spherical cap, and {expression} is none."
        )
    degree = sp.Poly(expression, *variables).total_degree()
    if degree <= 2 and law.has_additive_squares:
        terms = (sp.Integer(1), -sp.Rational(1, 2))
        return sp.Add(*(term for term, _ in derivative_terms(expression, variables, noise.covariance, terms)))
    if degree <= 2 and len(noise.group.columns) != len(problem.design.parameters):
        raise NoExactCorrectionError(
            f"with this gamma the noise multiplies squares by {law.square_gain:.4g}, which is undone for scores of the "
            "whole vector alone. Leave gamma out of the SphericalCapMechanism."
        )
    _require_alone(problem, noise)
    (score,), (square,) = variables, noise.symbols
    numbers = law.table(degree)
    symbols: list[sp.Symbol] = []
    values: list[float] = []
    total = sp.Integer(0)
    for (j,), coefficient in sp.Poly(expression, score).terms():
        if j < 2:
            total += coefficient * score**j
            continue
        if not np.isfinite(numbers[j, : j + 1]).all():
            raise NoExactCorrectionError(
                f"the noise hides the power {j} of the score: its factor vanishes. Take another gamma, or "
                'method="surrogate".'
            )
        for i in range(j, -1, -2):
            symbols.append(free_symbol(f"h{j}_{i}", expression, real=True))
            values.append(float(numbers[j, i]))
            total += coefficient * symbols[-1] * square ** ((j - i) // 2) * score**i
    build.coefficients, build.constants["coefficients"] = tuple(symbols), np.array(values)
    return total


def _require_alone(problem: ScoreProblem, noise: SphericalNoiseOfScores) -> None:
    """Raise where the score is more than the noised vector's, or there are several."""
    columns = len(noise.group.columns)
    if len(problem.scores) > 1:
        raise NoExactCorrectionError(
            f"the loss has {len(problem.scores)} scores, of which only squares and products are corrected under a "
            "spherical cap. Fit each class by itself, or release with a GaussianMechanism."
        )
    if columns != len(problem.design.parameters) or problem.intercept is not None:
        raise NoExactCorrectionError(
            f"the score has {len(problem.design.parameters)} parameters and the released vector {columns} columns, and "
            "beyond squares a spherical cap is undone for scores of the whole vector alone. Release all columns in it, "
            'an intercept by target="margin", or use a GaussianMechanism.'
        )


def by_polynomials(problem: ScoreProblem, parts: SurrogateParts, *, degree: int) -> Derivation:
    """Return the correction of polynomial surrogates, of degree 4 or 8, with NaN in the places of their numbers.

    Raises
    ------
    NoExactCorrectionError
        The score is more than the noised vector's, or the loss is one of the residual.
    """
    noise = zonal_noise(problem)
    assert noise is not None
    _require_alone(problem, noise)
    if parts.is_residual and noise.group.constant == 0:
        raise NoExactCorrectionError(
            "the residual u - y has no bound that the noised vector gives, and polynomial surrogates stand for losses "
            'within it. Use the least squares loss, target="joint", or a GaussianMechanism.'
        )
    (square,) = noise.symbols
    build = Build(parts.labelled.expression, exact=False)
    symbols: list[sp.Symbol] = []
    total = sp.Integer(0)
    for m, terms in enumerate(_terms(parts, size_of(degree))):
        for i, k in terms:
            symbols.append(free_symbol(f"c{m}_{i}{k}", parts.labelled.expression, real=True))
            total += parts.parts[m].multiplier * symbols[-1] * square**k * parts.variable**i
    build.expression = total.xreplace({parts.variable: parts.argument})
    build.coefficients, build.constants["coefficients"] = tuple(symbols), np.full(len(symbols), np.nan)
    return finish(problem, build)


def size_of(degree: int) -> int:
    """Return the degree of the kernel that polynomials of a degree are computed by."""
    if degree > _SIZES[-1]:
        raise ValueError(
            f"a surrogate of degree {degree} has no kernel: degrees go up to {_SIZES[-1]}. Let a solver design it."
        )
    return next(size for size in _SIZES if degree <= size)


def _terms(parts: SurrogateParts, size: int) -> list[list[tuple[int, int]]]:
    """Return the powers (i, k) of u^i s^k of each part."""
    degrees = [
        max(size if part.function != 0 else 0, 0 if part.exact == 0 else sp.degree(part.exact, parts.variable))
        for part in parts.parts
    ]
    return [
        [(i, k) for i, k in itertools.product(range(degree + 1), repeat=2) if i + 2 * k <= degree]
        for degree in map(int, degrees)
    ]


def polynomial_numbers(parts: SurrogateParts, design: Design, noise: ZonalNoise) -> list[float]:
    """Return the numbers of a design in the order in which the correction has them.

    Raises
    ------
    ValueError
        The design has waves, which this noise does not let through, or more powers than kernels.
    NoExactCorrectionError
        The noise hides a power that the loss itself has.
    """
    if design.surrogates and design.waves:
        raise ValueError(
            "these surrogates have waves, and under a spherical cap they are polynomials. Let a solver design them."
        )
    found = iter(design.surrogates)
    numbers: list[float] = []
    for part, terms in zip(parts.parts, _terms(parts, size_of(design.degree)), strict=True):
        degree = max(i for i, _ in terms)
        c = np.zeros(degree + 1)
        if part.function != 0:
            own = next(found).polynomial
            c[: len(own)] = own
        for (power,), value in sp.Poly(part.exact, parts.variable).terms() if part.exact != 0 else ():
            c[power] += float(value)
        # A power that is not used may have no inverse.
        table = np.where(c[:, None] == 0, 0.0, noise.table(degree))
        if not np.isfinite(table).all():
            raise NoExactCorrectionError(
                f"the noise hides a power of the score that the loss has: {part.exact}. Take another gamma."
            )
        images = c[:, None] * table
        numbers += [float(images[i + 2 * k, i]) for i, k in terms]
    return numbers
