"""Corrections of losses in scores: normal noise in closed form, products over columns, categories.

The normal noise of all columns is one noise of the scores. Every other column has an inverse of its own:

* a polynomial in the derivative (Laplace noise): the product over columns is a differential operator in the scores,
  whose coefficients are statistics of the parameters;
* a finite difference (noise on a grid) or a finite channel: a weighted sum over shifts of the scores
  (*configurations*);
* and where the loss is a sum of powers times exponentials, sines and cosines of its only score, each exponential is
  multiplied by one factor per column, whatever the noise (`transforms.exponential`).
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import sympy as sp

from symdebias.codegen import stable
from symdebias.codegen.kernels import ScoreProgram
from symdebias.codegen.statistics import ChannelTable, FactorFamily, FactorGroup
from symdebias.derivation.labels import Labelled
from symdebias.derivation.symbols import Derivation, NoiseSymbols, free_symbol
from symdebias.exceptions import NoExactCorrectionError
from symdebias.noise import AdditiveNoise
from symdebias.release import Categorical, Design, Linear
from symdebias.transforms import (
    ExponentialSum,
    exponential_sum,
    growth_rate,
    inverse_heat,
    joint_inverse_heat,
    require_moment,
    require_smooth,
    truncated_series,
    unbiased_weights,
)

FloatArray = np.ndarray[Any, np.dtype[np.float64]]

# A finite operator of a higher order loses all digits and has no use: the variance explodes long before.
_MOST_COEFFICIENTS = 120
_HIGHEST_ORDER = 24
# Combinations of categories that a kernel sums over for each record.
_MOST_CONFIGURATIONS = 512
_MOST_WEIGHTS = 2**18


@dataclass
class _Build:
    """What a derivation collects."""

    expression: sp.Expr
    exact: bool = True
    conditions: list[sp.Rel] = field(default_factory=list)
    variance_conditions: list[sp.Rel] = field(default_factory=list)
    groups: list[FactorGroup] = field(default_factory=list)
    tables: list[ChannelTable] = field(default_factory=list)
    constants: dict[str, FloatArray] = field(default_factory=dict)
    configurations: int = 0
    observations: int = 0
    rate: float = 0.0
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class ScoreProblem:
    """A loss of scores with its label noise undone, and the noise of the columns.

    Attributes
    ----------
    scores : tuple of sympy.Symbol
        The scores.
    target : sympy.Symbol
        The target.
    labelled : Labelled
        The loss.
    design : Design
        The columns; `intercept` of the parameters where it has a place of its own.
    intercept : int or None
        The place of the intercept.
    symbols : NoiseSymbols
        Symbols of the noise.
    per_record : bool
        Whether each record has noise variances of its own.
    enumerate_categories : bool
        Whether to sum over categories even where factors could be looked up.
    """

    scores: tuple[sp.Symbol, ...]
    target: sp.Symbol
    labelled: Labelled
    design: Design
    intercept: int | None
    symbols: NoiseSymbols
    per_record: bool = False
    enumerate_categories: bool = False

    @property
    def gaussian(self) -> bool:
        """Whether some column has normal noise."""
        return any(part.noise is not None and part.noise.is_gaussian for part in self.design.linear)

    @property
    def others(self) -> tuple[Linear, ...]:
        """The columns with additive noise that is not normal."""
        return tuple(part for part in self.design.linear if part.noise is not None and not part.noise.is_gaussian)


def uncorrected(problem: ScoreProblem) -> Derivation:
    """Return the loss as it stands, on the dense design."""
    count = len(problem.design.parameters)
    columns = [place for place in range(count) if place != problem.intercept]
    linear = tuple(Linear(place, place, None, -1) for place in columns)
    design = replace(problem.design, linear=linear, categorical=())
    build = _Build(problem.labelled.expression, exact=False)
    return replace(_finish(replace(problem, design=design), build), dense=True)


def exactly(problem: ScoreProblem) -> Derivation:
    """Return the exact correction.

    Raises
    ------
    NoExactCorrectionError
        There is none, or none was found; the message says why.
    """
    build = _Build(problem.labelled.expression)
    rate = _growth(problem, build)
    _undo_normal_noise(problem, build)
    others, categorical = problem.others, problem.design.categorical
    if others or categorical:
        terms = _as_exponentials(problem, build.expression)
        if terms is not None:
            _universal(problem, build, terms)
        else:
            build.expression = stable.rewrite(build.expression)
            _operators(problem, build, rate)
    if not (problem.gaussian or problem.labelled.target_variance is not None or others):
        build.expression = stable.rewrite(build.expression)
    return _finish(problem, build)


def by_series(problem: ScoreProblem, order: int) -> Derivation:
    """Return the series of the inverse, cut off at an order in the noise variances."""
    scores, symbols = problem.scores, problem.symbols
    build = _Build(problem.labelled.expression, exact=False)
    variables = [*scores, *([problem.target] if problem.labelled.target_variance is not None else [])]
    noised = bool(problem.gaussian or problem.others or problem.labelled.target_variance is not None)
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
    if problem.others:
        total = sp.Integer(0)
        derivatives = _product_group(problem, build, 2 * order)
        for k in range(order + 1):
            of_order = sp.Add(*(factor for factor, degree in derivatives(build.expression) if degree == 2 * k))
            rest = order - k
            total += truncated_series(of_order, variances, order=rest) if variances and rest else of_order
        build.expression = total
    elif variances:
        build.expression = truncated_series(build.expression, variances, order=order)
    if problem.design.categorical:
        _configurations(problem, build, ())
    return _finish(problem, build)


# ---- normal noise ----------------------------------------------------------------------------------------


def _undo_normal_noise(problem: ScoreProblem, build: _Build) -> None:
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
            steps = [inverse_heat(of_residual, variable, sp.Add(*variances.values()))]
            build.expression = steps[0].expression.xreplace({variable: scores[0] - problem.target})
        else:
            steps = []
            for variable, variance in variances.items():
                steps.append(inverse_heat(build.expression, variable, variance))
                build.expression = steps[-1].expression
    build.conditions += _distinct(condition for step in steps for condition in step.conditions)
    build.variance_conditions += _distinct(condition for step in steps for condition in step.variance_conditions)


def _distinct(conditions: Any) -> list[sp.Rel]:
    return list(dict.fromkeys(conditions))


def _of_residual(problem: ScoreProblem, expression: sp.Expr) -> tuple[sp.Symbol, sp.Expr] | None:
    """Return (r, f) with f(r) the loss at r = u - y, or None where it depends on more than the residual."""
    score = problem.scores[0]
    # Messages show the name.
    residual = sp.Symbol(f"({score} - {problem.target})", real=True)
    written = sp.expand(expression.xreplace({problem.target: score - residual}))
    return None if score in written.free_symbols else (residual, written)


# ---- growth ----------------------------------------------------------------------------------------------


def _growth(problem: ScoreProblem, build: _Build) -> float:
    """State that noise with exponential tails has the moments that the loss needs, and return its growth rate."""
    limited = [part for part in problem.others if part.noise is not None and part.noise.tail_rate < math.inf]
    if not limited:
        return 0.0
    rate = growth_rate(sp.expand(build.expression), problem.scores)
    require_moment(rate, str(build.expression))
    if not rate.is_number:
        raise NoExactCorrectionError(
            f"how fast {build.expression} grows depends on {', '.join(map(str, rate.free_symbols))}, and noise with "
            "exponential tails has moments up to a rate only. Use Gaussian noise."
        )
    if rate > 0:
        build.rate = float(rate)
        build.conditions.append(sp.Lt(problem.symbols.reach, 1 / rate))
        build.variance_conditions.append(sp.Lt(problem.symbols.reach, 1 / (2 * rate)))
    return float(rate)


# ---- products over columns -------------------------------------------------------------------------------


def _even_coefficients(noise: AdditiveNoise, order: int) -> tuple[float, ...]:
    """Return c_k with 1/phi(w) = sum c_k w^(2k), up to w^order: whole, or as far as a polynomial needs it."""
    if noise.inverse_polynomial is not None:
        return noise.inverse_polynomial[: order // 2 + 1]
    return tuple((-1) ** k * value for k, value in enumerate(noise.inverse_taylor(order)[::2]))


def _product_group(problem: ScoreProblem, build: _Build, order: int) -> Any:
    """Add the product of prod_j sum_k c_jk (-(theta_j . d)^2)^k up to an order of derivatives.

    Returns a function of an expression that gives (coefficient times derivative, order) for each term.
    """
    scores, others = problem.scores, problem.others
    m = len(scores)
    coefficients = [_even_coefficients(part.noise, order) for part in others if part.noise is not None]
    highest = min(order, sum(2 * (len(found) - 1) for found in coefficients))
    # One score: powers of d^2. Several: monomials in their derivatives, of even degree.
    monomials: list[tuple[int, ...]]
    if m == 1:
        monomials = [(k,) for k in range(highest // 2 + 1)]
    else:
        monomials = [powers for degree in range(0, highest + 1, 2) for powers in _compositions(degree, m)]
    if len(monomials) > _MOST_COEFFICIENTS or highest > 2 * _HIGHEST_ORDER:
        raise NoExactCorrectionError(
            f"the inverse of the noise of {len(others)} columns is an operator of order {highest} in {m} scores with "
            f"{len(monomials)} terms; at most {_MOST_COEFFICIENTS} terms and order {2 * _HIGHEST_ORDER} are derived. "
            'Its variance would be enormous. Use method="series", a loss of polynomials, exponentials, sines and '
            "cosines, or noise fewer columns."
        )
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
        return stable.in_logistic_density(sp.expand(sp.diff(known[powers[0] - 1,], scores[0], 2)))
    return sp.expand(
        sp.diff(expression, *((score, power) for score, power in zip(scores, powers, strict=True) if power))
    )


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
        symbols = tuple(sp.Symbol(f"w{k}", real=True) for k in range(1, length))
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


def _operators(problem: ScoreProblem, build: _Build, rate: float) -> None:
    """Undo noise column by column for a loss of any form: differential operators and weighted shifts."""
    scores = problem.scores
    expanded = sp.expand(build.expression)
    polynomial = expanded.is_polynomial(*scores)
    shifts = [part for part in problem.others if part.noise is not None and part.noise.inverse_differences is not None]
    smooth = [part for part in problem.others if part not in shifts]
    hopeless = [part for part in smooth if part.noise is not None and part.noise.inverse_polynomial is None]
    if hopeless and not polynomial:
        noise = hopeless[0].noise
        assert noise is not None
        raise NoExactCorrectionError(
            f"noise with the characteristic function {noise.characteristic_function} has no finite inverse: its "
            "telescoping sums do not end. Only polynomials of the score are corrected under it; use Laplace, discrete "
            "Laplace or Gaussian noise for this loss."
        )
    if smooth:
        require_smooth(build.expression, scores, "the noise is undone by derivatives, and ")
        degree = sp.Poly(expanded, *scores).total_degree() if polynomial else 2 * _HIGHEST_ORDER
        order = (
            2 * (degree // 2)
            if polynomial
            else sum(
                2 * (len(part.noise.inverse_polynomial) - 1)
                for part in smooth
                if part.noise is not None and part.noise.inverse_polynomial is not None
            )
        )
        inner = replace(problem, design=replace(problem.design, linear=tuple(smooth)))
        derivatives = _product_group(inner, build, order)
        build.expression = sp.Add(*(term for term, _ in derivatives(build.expression)))
    if shifts or problem.design.categorical:
        _configurations(problem, build, shifts)


def _configurations(problem: ScoreProblem, build: _Build, shifts: Sequence[Linear]) -> None:
    """Sum over the combinations of categories and of shifts on a grid."""
    categorical = problem.design.categorical
    inverses = [_weights_of(column) for column in categorical]
    sizes = [inverse.shape[1] for inverse in inverses]
    differences = [part.noise.inverse_differences or () for part in shifts if part.noise is not None]
    count = math.prod(sizes) * math.prod(len(found) for found in differences)
    observed = math.prod(inverse.shape[0] for inverse in inverses)
    if count > _MOST_CONFIGURATIONS or count * observed > _MOST_WEIGHTS:
        raise NoExactCorrectionError(
            f"the columns of categories or on a grid have {count} combinations to sum over for each record; at most "
            f"{_MOST_CONFIGURATIONS} are derived. A loss of polynomials, exponentials, sines and cosines of one score "
            "is corrected column by column, however many there are: declare such a loss, or noise fewer columns so."
        )
    parameters = len(problem.design.parameters)
    offsets = np.zeros((count, parameters))
    weights = np.ones((observed, count))
    choices = [range(size) for size in sizes] + [range(len(found)) for found in differences]
    seen = list(itertools.product(*(range(inverse.shape[0]) for inverse in inverses)))
    for a, choice in enumerate(itertools.product(*choices)):
        for column, category in zip(categorical, choice, strict=False):
            for place, value in column.entries[category]:
                offsets[a, place] += value
        for part, found, k in zip(shifts, differences, choice[len(sizes) :], strict=True):
            offsets[a, part.parameter] += found[k][0]
            weights[:, a] *= found[k][1]
        for c, codes in enumerate(seen):
            for inverse, code, category in zip(inverses, codes, choice, strict=False):
                weights[c, a] *= inverse[code, category]
    build.configurations, build.observations = count, observed
    build.constants["weights"], build.constants["offsets"] = weights, offsets


def _weights_of(column: Categorical) -> FloatArray:
    weights, obstacles = unbiased_weights(column.noise)
    if len(obstacles):
        raise NoExactCorrectionError(
            f"the channel of column {column.column} has the rank {len(column.noise.inputs) - len(obstacles)} for "
            f"{len(column.noise.inputs)} categories: they cannot be told apart, and no function of the released one is "
            "unbiased. Use a channel of full rank, or merge categories."
        )
    return weights


# ---- the universal rule ----------------------------------------------------------------------------------


def _as_exponentials(problem: ScoreProblem, expression: sp.Expr) -> ExponentialSum | None:
    """Return a loss of one score as a sum of exponentials, or None where it is none."""
    if len(problem.scores) > 1 or (problem.design.categorical and problem.enumerate_categories):
        return None
    try:
        terms = exponential_sum(stable.plain(expression), problem.scores[0])
    except NoExactCorrectionError:
        return None
    flat = all(mode.value == 0 for mode in terms.modes)
    usable = (
        part.noise is not None
        and (flat or part.noise.inverse_polynomial is not None or part.noise.inverse_differences is not None)
        for part in problem.others
    )
    return terms if all(usable) else None


def _universal(problem: ScoreProblem, build: _Build, terms: ExponentialSum) -> None:
    """Multiply each exponential by the factors of the columns."""
    factors = []
    if problem.others:
        factors.append(_column_factors(problem, build, terms))
    for place, column in enumerate(problem.design.categorical):
        factors.append(_category_factors(build, terms, column, place))
    build.expression = terms.times(factors)


def _column_factors(problem: ScoreProblem, build: _Build, terms: ExponentialSum) -> Any:
    """Add a product over columns for each exponential; return its coefficients as symbols."""
    names: list[list[sp.Symbol | None]] = []
    z = sp.Dummy("z", real=True)
    # Noise that is symmetric about 0 has even factors: exp(-a u) takes those of exp(a u), odd derivatives negated.
    twins = {index: _twin(terms, index) for index in range(len(terms.modes))}
    for index, mode in enumerate(terms.modes):
        if twins[index] != index:
            names.append([])
            continue
        others = [other for index_of, other in enumerate(terms.modes) if twins[index_of] == index]
        mode = replace(mode, order=max(other.order for other in others))
        flat = mode.value == 0
        symbols: list[sp.Symbol | None] = []
        for k in range(mode.order + 1):
            zero_or_one = flat and (k == 0 or k % 2 == 1)
            symbols.append(None if zero_or_one else free_symbol(f"q{index}_{k}", build.expression, real=True))
        names.append(symbols)
        if all(symbol is None for symbol in symbols):
            continue
        families, constants = [], []
        by_form: dict[tuple[str, int], list[tuple[Linear, tuple[float, ...]]]] = {}
        for part in problem.others:
            form, numbers = _form(part.noise, mode.order)
            by_form.setdefault((form, len(numbers)), []).append((part, numbers))
        for (form, length), members in by_form.items():
            theta = sp.Symbol("b0", real=True)
            symbols_of = tuple(sp.Symbol(f"w{k}", real=True) for k in range(length))
            whole = _factor(form, symbols_of, z * theta, imaginary=mode.imaginary)
            entries = tuple(
                (sp.diff(whole, z, k) / math.factorial(k)).subs(z, mode.value) for k in range(mode.order + 1)
            )
            families.append(FactorFamily(tuple(part.parameter for part, _ in members), (theta,), symbols_of, entries))
            constants += [numbers for _, numbers in members]
        monomials = tuple((k,) for k in range(mode.order + 1))
        build.groups.append(FactorGroup(tuple(symbols), monomials, tuple(families)))
        build.constants[f"factors{len(build.groups) - 1}"] = np.concatenate(list(map(np.asarray, constants)))

    def factor(index: int, k: int) -> sp.Expr:
        symbol = names[twins[index]][k]
        if symbol is None:
            return sp.Integer(1 if k == 0 else 0)
        return -symbol if twins[index] != index and k % 2 else symbol

    return factor


def _twin(terms: ExponentialSum, index: int) -> int:
    """Return the first mode with the same rate up to its sign."""
    mode = terms.modes[index]
    return next(
        other
        for other, candidate in enumerate(terms.modes)
        if candidate.imaginary == mode.imaginary and abs(candidate.value) == abs(mode.value)
    )


def _form(noise: AdditiveNoise | None, order: int) -> tuple[str, tuple[float, ...]]:
    """Return how a column's factor is written, and its numbers."""
    assert noise is not None
    if noise.inverse_polynomial is not None:
        return "polynomial", noise.inverse_polynomial[1:]
    if noise.inverse_differences is not None:
        return "differences", tuple(number for pair in noise.inverse_differences for number in pair)
    return "polynomial", _even_coefficients(noise, order)[1:]


def _factor(form: str, numbers: Sequence[sp.Symbol], argument: sp.Expr, *, imaginary: bool) -> sp.Expr:
    """Return 1/E exp(z e) for z the argument, or i times it: real for noise symmetric about 0."""
    if form == "polynomial":
        sign = 1 if imaginary else -1
        return 1 + sp.Add(*(sign**k * c * argument ** (2 * k) for k, c in enumerate(numbers, start=1)))
    wave = sp.cos if imaginary else sp.cosh
    # The offsets come in pairs of either sign with the same weight.
    return sp.Add(
        *(weight * wave(offset * argument) for offset, weight in zip(numbers[::2], numbers[1::2], strict=True))
    )


def _category_factors(build: _Build, terms: ExponentialSum, column: Categorical, place: int) -> Any:
    """Add a table of factors for one column of categories; return its entries as complex expressions."""
    weights = _weights_of(column)
    v = sp.Symbol("v", real=True)
    symbols: dict[tuple[int, int], tuple[sp.Symbol, ...]] = {}
    listed: list[sp.Symbol] = []
    functions: list[sp.Expr] = []
    for index, mode in enumerate(terms.modes):
        for k in range(mode.order + 1):
            power = v**k / math.factorial(k)
            if mode.imaginary:
                angle = mode.value * v
                wave = [(sp.cos(angle), sp.sin(angle)), (-sp.sin(angle), sp.cos(angle))][k % 2]
                sign = -1 if k % 4 in (2, 3) else 1
                parts = tuple(sign * power * part for part in wave)
            else:
                parts = (power * sp.exp(mode.value * v),)
            names = []
            for part, letter in zip(parts, ("", "i"), strict=False):
                if part == 1:
                    # The weights of an unbiased estimate of 1 sum to 1.
                    names.append(sp.Integer(1))
                    continue
                symbol = free_symbol(f"k{place}_{index}_{k}{letter}", build.expression, real=True)
                names.append(symbol)
                listed.append(symbol)
                functions.append(part)
            symbols[index, k] = tuple(names)
    positions = tuple(entries[0][0] if entries else -1 for entries in column.entries)
    values = [entries[0][1] if entries else 0.0 for entries in column.entries]
    table = ChannelTable(tuple(listed), v, tuple(functions), positions, len(weights))
    build.tables.append(table)
    build.constants[f"channel{len(build.tables) - 1}"] = np.concatenate([values, weights.ravel()])

    def factor(index: int, k: int) -> sp.Expr:
        found = symbols[index, k]
        return found[0] + sp.I * found[1] if len(found) == 2 else found[0]

    return factor


# ---- the program -----------------------------------------------------------------------------------------


def _finish(problem: ScoreProblem, build: _Build) -> Derivation:
    design, labelled, symbols = problem.design, problem.labelled, problem.symbols
    columns = [part.column for part in design.linear]
    covariance = design.covariance[np.ix_(columns, columns)] if columns and problem.gaussian else np.zeros((0, 0))
    noisy = tuple(
        index for index, part in enumerate(design.linear) if part.noise is not None and part.noise.is_gaussian
    )
    kind = "none"
    if problem.gaussian:
        diagonal = not np.any(covariance - np.diag(np.diag(covariance)))
        kind = "record" if problem.per_record else "diagonal" if diagonal else "full"
        build.constants["covariance"] = np.diag(covariance) if kind in ("diagonal", "record") else covariance
    build.constants["reach"] = np.array(
        [
            0.0 if part.noise is None or part.noise.tail_rate == math.inf else 1 / part.noise.tail_rate
            for part in design.linear
        ]
    )
    build.constants["target"] = np.array([labelled.variance, labelled.gain])
    if labelled.table is not None:
        build.constants["labels"] = labelled.table
    program = ScoreProgram(
        build.expression,
        problem.scores,
        problem.target,
        tuple(part.parameter for part in design.linear),
        len(design.parameters),
        problem.intercept,
        kind,  # type: ignore[arg-type]
        symbols.variances if problem.gaussian else (),
        noisy if kind == "record" else (),
        (symbols.target_variance, symbols.gain),
        labelled.symbols,
        0 if labelled.table is None else len(labelled.table),
        tuple(build.groups),
        tuple(build.tables),
        build.configurations,
        build.observations,
    )
    return Derivation(
        program,
        symbols,
        build.exact,
        tuple(build.conditions),
        tuple(build.variance_conditions),
        build.constants,
        build.rate,
        (*labelled.notes, *build.notes),
    )
