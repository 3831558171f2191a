"""The universal rule: exponentials and waves of the only score are multiplied by one factor per column.

Whatever the noise of a column, exp(lambda u) is a product over columns, and each factor is undone by itself: see
`symdebias.transforms.exponential`.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import sympy as sp

from symdebias import _limits
from symdebias.codegen import stable
from symdebias.codegen.score.factors import FactorFamily, FactorGroup, WaveGroup
from symdebias.codegen.score.products import CategoryProducts
from symdebias.codegen.score.tables import ChannelTable
from symdebias.derivation.problem import Build, ScoreProblem, SphericalNoiseOfScores, even_coefficients
from symdebias.derivation.symbols import free_symbol
from symdebias.exceptions import NoExactCorrectionError
from symdebias.noise import AdditiveNoise
from symdebias.release.design import Categorical, Linear
from symdebias.transforms import ExponentialSum, exponential_sum, spherical_factor
from symdebias.transforms.moments import ARGUMENT, constant_of_column, inverse_moments, no_factor_of_waves
from symdebias.zonal import ZonalNoise

# The coefficients of a higher power are derivatives of products over columns, which take minutes and lose all digits.
_HIGHEST_POWER = 32

# The coefficient of delta^k in a column's factor at the rate of a mode, see ExponentialSum.times.
Factor = Callable[[int, int], sp.Expr]


def as_exponentials(problem: ScoreProblem, expression: sp.Expr) -> ExponentialSum | None:
    """Return a loss of one score as a sum of exponentials, or None where it is none."""
    if len(problem.scores) > 1:
        return None
    try:
        terms = exponential_sum(stable.plain(expression), problem.scores[0])
    except NoExactCorrectionError:
        return None
    flat = all(mode.value == 0 for mode in terms.modes)
    waves = any(mode.imaginary for mode in terms.modes)
    usable = (
        part.own_noise is not None and (flat or _form(part.own_noise, None, waves=waves) is not None)
        for part in problem.others
    )
    return terms if all(usable) else None


def undo_by_factors(problem: ScoreProblem, build: Build, terms: ExponentialSum) -> None:
    """Multiply each exponential by the factors of the columns."""
    build.expression = terms.times(column_factors(problem, build, terms))


def column_factors(problem: ScoreProblem, build: Build, terms: ExponentialSum) -> list[Factor]:
    """Return the factors of the columns whose noise is not normal; add what computes them to the build.

    Columns of categories are left out where they are to be enumerated.
    """
    factors = []
    if problem.others:
        factors.append(_additive_factors(problem, build, terms))
    if problem.enumerate_categories:
        return factors
    if terms.waves and problem.design.categorical:
        factors.append(_category_products(problem, build, terms))
    else:
        for place, column in enumerate(problem.design.categorical):
            factors.append(_category_factors(build, terms, column, place))
    return factors


def normal_factor(terms: ExponentialSum, variance: sp.Expr) -> Factor:
    """Return 1/E exp(lambda e) = exp(-lambda^2 s/2) for normal noise, at rate 0 and at imaginary rates."""

    def factor(index: int, k: int) -> sp.Expr:
        mode = terms.modes[index]
        if mode.imaginary:
            return sp.exp(variance * mode.value**2 / 2)
        return (-variance / 2) ** (k // 2) / math.factorial(k // 2) if k % 2 == 0 else sp.Integer(0)

    return factor


def group_factor(terms: ExponentialSum, noise: SphericalNoiseOfScores) -> Factor:
    """Return the factor of the noise of a group of columns that is alike in all directions.

    Raises
    ------
    NoExactCorrectionError
        The noise does more to waves than multiply them.
    """
    law, (square,) = noise.group.noise, noise.symbols
    if isinstance(law, ZonalNoise) or law.factor(square) is None:
        raise NoExactCorrectionError(
            f"the inverse of the noise of {law.dimension} columns together takes waves of the score to other functions."
        )
    return spherical_factor(terms, square, law)


def _additive_factors(problem: ScoreProblem, build: Build, terms: ExponentialSum) -> Any:
    """Add a product over columns for each exponential; return its coefficients as symbols."""
    names: list[list[sp.Symbol | None]] = []
    z = sp.Dummy("z", real=True)
    # Noise that is symmetric about 0 has even factors: exp(-a u) takes those of exp(a u), odd derivatives negated.
    twins = {index: _twin(terms, index) for index in range(len(terms.modes))}
    waves = terms.waves
    if waves:
        wave_symbols = _wave_group(problem, build, terms)
    for index, mode in enumerate(terms.modes):
        if index in waves:
            names.append([wave_symbols[waves.index(index)]])
            continue
        if twins[index] != index:
            names.append([])
            continue
        others = [other for index_of, other in enumerate(terms.modes) if twins[index_of] == index]
        mode = replace(mode, order=max(other.order for other in others))
        if mode.order > _HIGHEST_POWER:
            raise NoExactCorrectionError(
                f"the power {mode.order} of the score is too high: under noise that is not normal, powers up to "
                f"{_HIGHEST_POWER} are derived. Write the loss with lower powers."
            )
        flat = mode.value == 0
        symbols: list[sp.Symbol | None] = []
        for k in range(mode.order + 1):
            zero_or_one = flat and (k == 0 or k % 2 == 1)
            symbols.append(None if zero_or_one else free_symbol(f"q{index}_{k}", build.expression, real=True))
        names.append(symbols)
        if all(symbol is None for symbol in symbols):
            continue
        families, constants = [], []
        theta = sp.Symbol("b0", real=True)
        for form, members in _by_form(problem.others, mode.order if flat else None, waves=mode.imaginary).items():
            entries = tuple(_taylor(form.at(z * theta, imaginary=mode.imaginary), z, mode.value, mode.order))
            families.append(FactorFamily(tuple(part.parameter for part in members), (theta,), form.constants, entries))
            constants += list(members.values())
        monomials = tuple((k,) for k in range(mode.order + 1))
        build.groups.append(FactorGroup(tuple(symbols), monomials, tuple(families)))
        build.constants[f"factors{len(build.groups) - 1}"] = np.concatenate(list(map(np.asarray, constants)))

    def factor(index: int, k: int) -> sp.Expr:
        symbol = names[twins[index]][k]
        if symbol is None:
            return sp.Integer(1 if k == 0 else 0)
        return -symbol if twins[index] != index and k % 2 else symbol

    return factor


def _taylor(expression: sp.Expr, z: sp.Symbol, at: sp.Expr, order: int) -> Iterator[sp.Expr]:
    """Yield the coefficients of a Taylor series up to an order."""
    for k in range(order + 1):
        yield (expression / math.factorial(k)).subs(z, at)
        expression = _limits.diff(expression, z)


def _wave_group(problem: ScoreProblem, build: Build, terms: ExponentialSum) -> tuple[sp.Symbol, ...]:
    """Add the products of the columns' factors at the multiples of a frequency; return them as symbols."""
    theta, w = sp.Symbol("b0", real=True), sp.Symbol("frequency", positive=True)
    families: list[FactorFamily] = []
    constants: list[tuple[float, ...]] = [(build.frequency,)]
    for form, members in _by_form(problem.others, None, waves=True).items():
        factor = form.at(w * theta, imaginary=True)
        families.append(FactorFamily(tuple(part.parameter for part in members), (theta,), form.constants, (factor,)))
        constants += list(members.values())
    names = tuple(free_symbol(f"q_{order}", build.expression, real=True) for order in range(1, len(terms.waves) + 1))
    build.groups.append(WaveGroup(names, w, tuple(families)))
    build.constants[f"factors{len(build.groups) - 1}"] = np.concatenate(list(map(np.asarray, constants)))
    return names


def _twin(terms: ExponentialSum, index: int) -> int:
    """Return the first mode with the same rate up to its sign."""
    mode = terms.modes[index]
    return next(
        other
        for other, candidate in enumerate(terms.modes)
        if candidate.imaginary == mode.imaginary and abs(candidate.value) == abs(mode.value)
    )


@dataclass(frozen=True)
class _Form:
    """How the factors of some columns are written: 1/E exp(z e) of `ARGUMENT` and constants of a column."""

    expression: sp.Expr
    constants: tuple[sp.Symbol, ...]

    def at(self, argument: sp.Expr, *, imaginary: bool) -> sp.Expr:
        """Return it for z the argument, or i times it: real for noise symmetric about 0."""
        return self.expression.xreplace({ARGUMENT: sp.I * argument if imaginary else argument})


def _by_form(
    columns: Sequence[Linear], order: int | None, *, waves: bool
) -> dict[_Form, dict[Linear, tuple[float, ...]]]:
    """Return columns by the form of their factors, each with its numbers; see `_form`.

    Raises
    ------
    NoExactCorrectionError
        A column's noise has none.
    """
    found: dict[_Form, dict[Linear, tuple[float, ...]]] = {}
    for part in columns:
        assert part.own_noise is not None
        known = _form(part.own_noise, order, waves=waves)
        if known is None:
            why = no_factor_of_waves(part.own_noise)
            raise NoExactCorrectionError(f"the characteristic function {part.own_noise.formula} {why}.")
        form, numbers = known
        found.setdefault(form, {})[part] = numbers
    return found


def _form(noise: AdditiveNoise, order: int | None, *, waves: bool) -> tuple[_Form, tuple[float, ...]] | None:
    """Return how a column's factor is written, and its numbers, or None where there is no such form.

    With an order it is right about 0, to that power; `waves` asks for one of imaginary arguments, where the factor of
    noise may have poles.
    """
    if noise.inverse_polynomial is None and noise.inverse_differences is not None:
        offsets, weights = zip(*noise.inverse_differences, strict=True)
        symbols = _constants(2 * len(offsets))
        # The offsets come in pairs of either sign with the same weight.
        pairs = zip(symbols[::2], symbols[1::2], strict=True)
        numbers = tuple(number for pair in zip(offsets, weights, strict=True) for number in pair)
        return _Form(sp.Add(*(weight * sp.cosh(offset * ARGUMENT) for offset, weight in pairs)), symbols), numbers
    coefficients = noise.inverse_polynomial
    if coefficients is None and order is not None:
        coefficients = even_coefficients(noise, order)
    if coefficients is not None:
        symbols = _constants(len(coefficients) - 1)
        powers = ((-1) ** k * c * ARGUMENT ** (2 * k) for k, c in enumerate(symbols, start=1))
        return _Form(1 + sp.Add(*powers), symbols), coefficients[1:]
    moments = None if waves and not noise.undoes_waves else inverse_moments(noise)
    return None if moments is None else (_Form(moments.expression, moments.constants), moments.numbers)


def _constants(count: int) -> tuple[sp.Symbol, ...]:
    return tuple(map(constant_of_column, range(count)))


def _category_factors(build: Build, terms: ExponentialSum, column: Categorical, place: int) -> Any:
    """Add a table of factors for one column of categories; return its entries as complex expressions."""
    weights = column.weights
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
    table = ChannelTable(tuple(listed), v, tuple(functions), column.parameters, len(weights))
    build.tables.append(table)
    build.constants[f"channel{len(build.tables) - 1}"] = np.concatenate([column.values, weights.ravel()])

    def factor(index: int, k: int) -> sp.Expr:
        found = symbols[index, k]
        return found[0] + sp.I * found[1] if len(found) == 2 else found[0]

    return factor


def _category_products(problem: ScoreProblem, build: Build, terms: ExponentialSum) -> Factor:
    """Add the products over all columns of categories for powers and waves; return them as complex expressions."""
    waves = terms.waves
    flat = [mode for index, mode in enumerate(terms.modes) if index not in waves]
    assert all(mode.value == 0 for mode in flat)
    order = max((mode.order for mode in flat), default=0)
    powers, real, imaginary = (
        tuple(free_symbol(f"{letter}_{n}", build.expression, real=True) for n in range(1, count + 1))
        for letter, count in (("k", order), ("kr", len(waves)), ("ki", len(waves)))
    )
    positions, outputs = [], []
    constants: list[Any] = [[build.frequency]]
    for column in problem.design.categorical:
        weights = column.weights
        positions.append(column.parameters)
        outputs.append(len(weights))
        constants += [column.values, weights.ravel()]
    build.products = CategoryProducts(powers, real, imaginary, tuple(positions), tuple(outputs), terms.frequency)
    build.constants["products"] = np.concatenate(list(map(np.asarray, constants)))

    def factor(index: int, k: int) -> sp.Expr:
        if index not in waves:
            # The weights of an unbiased estimate of 1 sum to 1.
            return powers[k - 1] if k else sp.Integer(1)
        place = waves.index(index)
        return real[place] + sp.I * imaginary[place] if k == 0 else sp.Integer(0)

    return factor
