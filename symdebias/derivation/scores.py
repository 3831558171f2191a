"""Corrections of losses in scores: normal noise in closed form, products over columns, categories.

The normal noise of all columns is one noise of the scores. Every other column has an inverse of its own:

* a polynomial in the derivative (Laplace noise): the product over columns is a differential operator in the scores,
  whose coefficients are statistics of the parameters;
* a finite difference (noise on a grid) or a finite channel: a weighted sum over shifts of the scores
  (*configurations*);
* and where the loss is a sum of powers times exponentials, sines and cosines of its only score, each exponential is
  multiplied by one factor per column, whatever the noise (`transforms.exponential`).
"""

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import sympy as sp

from symdebias import _limits
from symdebias._arrays import FloatArray
from symdebias.codegen import stable
from symdebias.codegen.score.directions import Directions
from symdebias.codegen.score.factors import FactorFamily, FactorGroup
from symdebias.derivation.configurations import sum_over_configurations
from symdebias.derivation.problem import Build, ScoreProblem, SphericalNoiseOfScores, even_coefficients, finish
from symdebias.derivation.symbols import Derivation, free_symbol
from symdebias.derivation.universal import as_exponentials, undo_by_factors
from symdebias.derivation.zonal import undo_powers
from symdebias.exceptions import NoExactCorrectionError
from symdebias.release.design import Linear
from symdebias.transforms import (
    Transformed,
    derivative_terms,
    growth_terms,
    inverse_by_quadrature,
    inverse_heat,
    inverse_spherical,
    joint_inverse_heat,
    operator_terms,
    rate_of,
    require_low_power,
    require_moment,
    require_smooth,
    second_derivative,
    truncated_series,
)
from symdebias.transforms.channel import rational
from symdebias.transforms.moments import constant_of_column, inverse_moments
from symdebias.zonal import ZonalNoise

# A finite operator of a higher order loses all digits and has no use: the variance explodes long before.
_MOST_COEFFICIENTS = 120
_HIGHEST_ORDER = 24
# A loss of the margin has at most this share of the operations that it has by labels: multiplications by signs count.
_MUCH_SHORTER = 0.65


def uncorrected(problem: ScoreProblem) -> Derivation:
    """Return the loss as it stands, on the dense design."""
    count = len(problem.design.parameters)
    columns = [place for place in range(count) if place != problem.intercept]
    linear = tuple(Linear(place, place, None, -1) for place in columns)
    design = replace(problem.design, linear=linear, categorical=())
    build = Build(problem.labelled.expression, exact=False)
    return replace(finish(replace(problem, design=design), build), dense=True)


def by_quadrature(problem: ScoreProblem, nodes: int) -> Derivation:
    """Return the correction with the normal noise undone by quadrature in the complex plane.

    Raises
    ------
    NoExactCorrectionError
        The loss is not entire or grows too fast, or has several scores, or normal noise on a target that is not part
        of a residual.
    """
    if len(problem.scores) > 1:
        raise NoExactCorrectionError(
            f"quadrature in the complex plane is for losses of one score, and this one has {len(problem.scores)}."
        )
    if problem.gaussian and problem.labelled.target_variance is not None:
        if _of_residual(problem, problem.labelled.expression) is None:
            raise NoExactCorrectionError(
                "with normal noise on score and target, quadrature takes a function of the residual."
            )
    inverse = functools.partial(inverse_by_quadrature, nodes=nodes)
    derivation = exactly(problem, inverse)
    noised = problem.gaussian or problem.labelled.target_variance is not None
    return replace(derivation, exact=not noised)


def exactly(problem: ScoreProblem, inverse: Callable[..., Transformed] = inverse_heat) -> Derivation:
    """Return the exact correction; `inverse` undoes normal noise of one variable.

    Raises
    ------
    NoExactCorrectionError
        There is none, or none was found; the message says why.
    """
    build = Build(problem.labelled.expression)
    _state_growth(problem, build)
    _undo_normal_noise(problem, build, inverse)
    for noise in problem.spherical:
        _undo_spherical_noise(problem, build, noise)
    others, categorical = problem.others, problem.design.categorical
    levels = bool(problem.labelled.levels)
    if others or categorical:
        # Labels are summed over together with categories, whose factors could be looked up otherwise.
        is_summed = bool(categorical) and (levels or problem.enumerate_categories)
        terms = as_exponentials(problem, build.expression) if others or not is_summed else None
        if terms is not None:
            undo_by_factors(replace(problem, enumerate_categories=is_summed), build, terms)
            if is_summed:
                sum_over_configurations(problem, build, ())
        else:
            build.expression = stable.rewrite(build.expression)
            _operators(problem, build)
    if not (problem.gaussian or problem.labelled.target_variance is not None or others or problem.spherical):
        build.expression = stable.rewrite(build.expression)
    if levels and not build.configurations:
        sum_over_configurations(problem, build, ())
    if problem.labelled.pair is not None and len(problem.scores) == 1:
        build.expression = of_margin(build.expression, problem.scores[0], problem.target, problem.labelled.pair)
    return finish(problem, build)


def of_margin(expression: sp.Expr, score: sp.Symbol, target: sp.Symbol, pair: tuple[float, float]) -> sp.Expr:
    """Return a loss of two labels as one of the margin, f(u) for the upper and f(-u) for the lower, if it is one.

    Where that is not much shorter than what is summed over the labels, it is left as it is.

    Examples
    --------
    >>> u, y = sp.symbols("u y", real=True)
    >>> of_margin((1 + y) * sp.exp(-u) / 2 + (1 - y) * sp.exp(u) / 2, u, y, (-1.0, 1.0))
    exp(-u*y)
    """
    low, high = map(rational, pair)
    upper, lower = (expression.xreplace({target: value}) for value in (high, low))
    if upper.xreplace({score: -score}) != lower:
        return expression
    sign = sp.Dummy(real=True)
    found = upper.xreplace({score: score * sign}).replace(
        lambda part: part.is_Pow and part.base == sign and part.exp.is_Integer, lambda power: sign ** (power.exp % 2)
    )
    if found.count_ops() > _MUCH_SHORTER * expression.count_ops():
        return expression
    return found.xreplace({sign: (2 * target - low - high) / (high - low)})


def by_series(problem: ScoreProblem, order: int) -> Derivation:
    """Return the series of the inverse, cut off at an order in the noise variances."""
    scores, symbols = problem.scores, problem.symbols
    build = Build(problem.labelled.expression, exact=False)
    variables = [*scores, *([problem.target] if problem.labelled.target_variance is not None else [])]
    noised = bool(
        problem.gaussian or problem.others or problem.spherical or problem.labelled.target_variance is not None
    )
    if noised:
        require_smooth(build.expression, variables, "there is no series: ")
    polynomial = build.expression.is_polynomial(*variables)
    ends = not noised or (polynomial and sp.Poly(build.expression, *variables).total_degree() // 2 <= order)
    build.exact = bool(ends)
    variances: dict[Any, Any] = {}
    if problem.gaussian:
        pairs = itertools.combinations_with_replacement(range(len(scores)), 2)
        for (a, b), symbol in zip(pairs, symbols.variances, strict=True):
            variances[scores[a] if a == b else (scores[a], scores[b])] = symbol
    if problem.labelled.target_variance is not None:
        variances[problem.target] = problem.labelled.target_variance
    # What has been undone to an order, by that order: terms of all noises together go up to the order asked for.
    by_order = [build.expression] + [sp.Integer(0)] * order
    for noise in problem.spherical:
        law = noise.group.noise
        if isinstance(law, ZonalNoise):
            raise NoExactCorrectionError(
                "a point of a sphere is no sum of a record and noise, and its inverse no series in the noise."
            )
        terms = operator_terms(law, order)
        undone = [sp.Integer(0)] * (order + 1)
        for used, part in enumerate(by_order):
            for term, k in derivative_terms(part, scores, noise.covariance, terms[: order - used + 1]):
                undone[used + k] += term
        by_order = undone
    if problem.others:
        derivatives = _product_group(problem, build, 2 * order)
        undone = [sp.Integer(0)] * (order + 1)
        for used, part in enumerate(by_order):
            for term, degree in derivatives(part):
                if used + degree // 2 <= order:
                    undone[used + degree // 2] += term
        by_order = undone
    if variances:
        rests = ((part, order - used) for used, part in enumerate(by_order))
        by_order = [truncated_series(part, variances, order=rest) if rest else part for part, rest in rests]
    build.expression = sp.Add(*by_order)
    if problem.design.categorical or problem.labelled.levels:
        sum_over_configurations(problem, build, ())
    return finish(problem, build)


# ---- normal noise ----------------------------------------------------------------------------------------


def _undo_normal_noise(problem: ScoreProblem, build: Build, inverse: Callable[..., Transformed]) -> None:
    labelled, symbols, scores = problem.labelled, problem.symbols, problem.scores
    target = labelled.target_variance
    if not problem.gaussian and target is None:
        return
    if len(scores) > 1 and problem.gaussian:
        variables = [*scores, *([problem.target] if target is not None else [])]
        covariance = sp.zeros(len(variables))
        pairs = itertools.combinations_with_replacement(range(len(scores)), 2)
        for (a, b), symbol in zip(pairs, symbols.variances, strict=True):
            covariance[a, b] = covariance[b, a] = symbol
        if target is not None:
            covariance[len(scores), len(scores)] = target
        steps = [joint_inverse_heat(build.expression, variables, covariance)]
        build.expression = steps[0].expression
    else:
        variances = {scores[0]: symbols.score_variance} if problem.gaussian else {}
        if target is not None:
            variances[problem.target] = target
        residual = _of_residual(problem, build.expression) if len(variances) == 2 else None
        if residual is not None:
            # A residual loss f(u - y) sees the sum of both noises.
            variable, of_residual = residual
            steps = [inverse(of_residual, variable, sp.Add(*variances.values()))]
            build.expression = steps[0].expression.xreplace({variable: scores[0] - problem.target})
        else:
            steps = []
            for variable, variance in variances.items():
                steps.append(inverse(build.expression, variable, variance))
                build.expression = steps[-1].expression
    build.conditions += _distinct(condition for step in steps for condition in step.conditions)
    build.variance_conditions += _distinct(condition for step in steps for condition in step.variance_conditions)


def _undo_spherical_noise(problem: ScoreProblem, build: Build, noise: SphericalNoiseOfScores) -> None:
    """Undo the noise of a group of columns in the scores; in the residual where the target is one of the group."""

    def undone(expression: sp.Expr, variables: Sequence[sp.Symbol]) -> sp.Expr:
        law = noise.group.noise
        expression = stable.multiplied_out(expression)
        if isinstance(law, ZonalNoise):
            return undo_powers(expression, variables, problem, build, noise)
        return inverse_spherical(expression, variables, noise.covariance, law)

    if noise.group.constant == 0:
        build.expression = undone(build.expression, problem.scores)
        return
    # Messages show the name. A function of u - y is known from its values at u = 0.
    (score,) = problem.scores
    residual = sp.Symbol(f"({score} - {problem.target})", real=True)
    of_residual = build.expression.xreplace({score: sp.Integer(0), problem.target: -residual})
    build.expression = undone(of_residual, (residual,)).xreplace({residual: score - problem.target})


def _distinct(conditions: Any) -> list[sp.Rel]:
    return list(dict.fromkeys(conditions))


def _of_residual(problem: ScoreProblem, expression: sp.Expr) -> tuple[sp.Symbol, sp.Expr] | None:
    """Return (r, f) with f(r) the loss at r = u - y, or None where it depends on more than the residual."""
    score = problem.scores[0]
    # Messages show the name.
    residual = sp.Symbol(f"({score} - {problem.target})", real=True)
    written = _limits.expand(expression.xreplace({problem.target: score - residual}))
    return None if score in written.free_symbols else (residual, written)


# ---- growth ----------------------------------------------------------------------------------------------


def _state_growth(problem: ScoreProblem, build: Build) -> None:
    """State where noise with exponential tails has the moments that the loss needs: by the rate at which it grows.

    A term exp(w.u) of the loss has a mean where b_j |w.Theta_j| < 1 for all columns j, and its square where twice that
    is below 1; squares of sums have the means of all products where they have those of squares.
    """
    rates = [part.own_noise.tail_rate for part in problem.others if part.own_noise is not None]
    rates += [noise.group.noise.tail_rate for noise in problem.spherical]
    if min(rates, default=math.inf) == math.inf:
        return
    terms = growth_terms(_limits.expand(build.expression), problem.scores)
    rate = rate_of(terms)
    require_moment(rate, str(build.expression))
    if not rate.is_number:
        raise NoExactCorrectionError(
            f"how fast {build.expression} grows depends on {', '.join(map(str, rate.free_symbols))}, and noise with "
            "exponential tails has moments up to a rate only."
        )
    if rate > 0:
        build.rate = float(rate)
        build.directions = Directions.of_terms(
            (tuple(map(float, term.weights)), tuple(map(float, term.widths))) for term in terms
        )
        build.conditions.append(sp.Lt(problem.symbols.reach, 1 / rate))
        build.variance_conditions.append(sp.Lt(problem.symbols.reach, 1 / (2 * rate)))


# ---- products over columns -------------------------------------------------------------------------------


def _product_group(problem: ScoreProblem, build: Build, order: int) -> Any:
    """Add the product of prod_j sum_k c_jk (-(theta_j . d)^2)^k up to an order of derivatives.

    Returns a function of an expression that gives (coefficient times derivative, order) for each term.
    """
    scores, others = problem.scores, problem.others
    m = len(scores)
    coefficients = [even_coefficients(part.own_noise, order) for part in others if part.own_noise is not None]
    highest = min(order, sum(2 * (len(found) - 1) for found in coefficients))
    # One score: powers of d^2. Several: monomials in their derivatives, of even degree. They are counted first, as of
    # ten scores and more than a few columns they are more than there is memory for.
    degrees = range(0, highest + 1, 2)
    count = len(degrees) if m == 1 else sum(math.comb(degree + m - 1, m - 1) for degree in degrees)
    if count > _MOST_COEFFICIENTS or highest > 2 * _HIGHEST_ORDER:
        other = 'method="series"' if m == 1 else "fewer scores"
        raise NoExactCorrectionError(
            f"the inverse of the noise of {len(others)} columns is an operator of order {highest} in {m} scores with "
            f"{count:.4g} terms; at most {_MOST_COEFFICIENTS} terms and order {2 * _HIGHEST_ORDER} are derived. "
            f"Its variance would be enormous. Use {other}, a loss of "
            "polynomials, exponentials, sines and cosines, or noise fewer columns."
        )
    monomials: list[tuple[int, ...]]
    if m == 1:
        monomials = [(k,) for k in range(highest // 2 + 1)]
    else:
        monomials = [powers for degree in degrees for powers in _compositions(degree, m)]
    expression = build.expression
    names = [None] + [
        free_symbol(f"e{len(build.groups) or ''}_{''.join(map(str, powers))}", expression, real=True)
        for powers in monomials[1:]
    ]
    families, constants = _families(others, coefficients, monomials, m)
    build.groups.append(FactorGroup(tuple(names), tuple(monomials), families))
    build.constants[f"factors{len(build.groups) - 1}"] = constants

    def derivatives(of: sp.Expr) -> list[tuple[sp.Expr, int]]:
        found: dict[tuple[int, ...], sp.Expr] = {monomials[0]: of}
        terms = [(of, 0)]
        for powers, symbol in zip(monomials[1:], names[1:], strict=True):
            found[powers] = _derivative(of, scores, powers, found)
            degree = 2 * powers[0] if m == 1 else sum(powers)
            terms.append(((-1) ** (degree // 2) * symbol * found[powers], degree))
        return terms

    return derivatives


def _compositions(total: int, parts: int) -> list[tuple[int, ...]]:
    if parts == 1:
        return [(total,)]
    return [(first, *rest) for first in range(total, -1, -1) for rest in _compositions(total - first, parts - 1)]


def _derivative(
    expression: sp.Expr, scores: Sequence[sp.Symbol], powers: tuple[int, ...], known: dict[tuple[int, ...], sp.Expr]
) -> sp.Expr:
    """Return a derivative out of one of lower order, kept short: powers of expit are polynomials."""
    if len(scores) == 1:
        return _by_factors(second_derivative(known[powers[0] - 1,], scores[0]), scores[0])
    return _limits.expand_around_forms(
        _limits.diff(expression, *(score for score, power in zip(scores, powers, strict=True) for _ in range(power)))
    )


def _by_factors(total: sp.Expr, score: sp.Symbol) -> sp.Expr:
    """Return a sum of functions of a score, those of each label together, with what is of the label taken out.

    Multiplied out, each of them would stand there once for each term of the label's indicator.
    """
    factors: dict[sp.Expr, list[sp.Expr]] = {}
    for term in sp.Add.make_args(total):
        factor, function = term.as_independent(score, as_Add=False)
        factors.setdefault(function, []).append(factor)
    sums: dict[sp.Expr, list[sp.Expr]] = {}
    for function, parts in factors.items():
        number, factor = sp.Add(*parts).as_content_primitive()
        if factor.could_extract_minus_sign():
            number, factor = -number, -factor
        sums.setdefault(factor, []).append(number * function)
    return sp.Add(*(factor * sp.Add(*functions) for factor, functions in sums.items()))


def _families(
    others: Sequence[Linear],
    coefficients: Sequence[tuple[float, ...]],
    monomials: Sequence[tuple[int, ...]],
    scores: int,
) -> tuple[tuple[FactorFamily, ...], FloatArray]:
    """Return the columns' factors sum_k c_k (theta . d)^(2k), grouped by the number of constants."""
    families, constants = [], []
    for length in sorted({len(found) for found in coefficients}):
        chosen = [i for i, found in enumerate(coefficients) if len(found) == length]
        thetas = tuple(sp.Symbol(f"b{k}", real=True) for k in range(scores))
        symbols = tuple(map(constant_of_column, range(1, length)))
        entries = []
        for powers in monomials:
            k = powers[0] if scores == 1 else sum(powers) // 2
            if k == 0:
                entries.append(sp.Integer(1))
            elif k < length:
                monomial = sp.Integer(1)
                if scores == 1:
                    monomial = thetas[0] ** (2 * k)
                else:
                    ways = math.factorial(2 * k) // math.prod(map(math.factorial, powers))
                    monomial = ways * sp.Mul(*(theta**power for theta, power in zip(thetas, powers, strict=True)))
                entries.append(symbols[k - 1] * monomial)
            else:
                entries.append(sp.Integer(0))
        families.append(FactorFamily(tuple(others[i].parameter for i in chosen), thetas, symbols, tuple(entries)))
        constants += [coefficients[i][1:] for i in chosen]
    return tuple(families), np.concatenate([np.zeros(0), *map(np.asarray, constants)])


# ---- operators and configurations ------------------------------------------------------------------------


def _operators(problem: ScoreProblem, build: Build) -> None:
    """Undo noise column by column for a loss of any form: differential operators and weighted shifts."""
    scores = problem.scores
    expanded = _limits.expand(stable.multiplied_out(build.expression))
    polynomial = expanded.is_polynomial(*scores)
    shifts = [
        part for part in problem.others if part.own_noise is not None and part.own_noise.inverse_differences is not None
    ]
    smooth = [part for part in problem.others if part not in shifts]
    hopeless = [part for part in smooth if part.own_noise is not None and part.own_noise.inverse_polynomial is None]
    if hopeless and not polynomial:
        noise = hopeless[0].own_noise
        assert noise is not None
        which = "polynomials" if inverse_moments(noise) is None else "polynomials and exponentials"
        raise NoExactCorrectionError(
            f"noise with the characteristic function {noise.formula} has no finite inverse: one over it is neither a "
            f"polynomial nor a finite sum of waves. Only {which} of the score are corrected exactly under it."
        )
    if smooth:
        require_smooth(build.expression, scores, "the noise is undone by derivatives, and ")
        degree = sp.Poly(expanded, *scores).total_degree() if polynomial else 2 * _HIGHEST_ORDER
        if hopeless:
            require_low_power(int(degree), " and ".join(map(str, scores)))
        order = (
            2 * (degree // 2)
            if polynomial
            else sum(
                2 * (len(part.own_noise.inverse_polynomial) - 1)
                for part in smooth
                if part.own_noise is not None and part.own_noise.inverse_polynomial is not None
            )
        )
        inner = replace(problem, design=replace(problem.design, linear=tuple(smooth)))
        derivatives = _product_group(inner, build, order)
        build.expression = sp.Add(*(term for term, _ in derivatives(build.expression)))
    if shifts or problem.design.categorical:
        sum_over_configurations(problem, build, shifts)
