"""Products over columns of factors that their noise gives: coefficients of a corrected loss, once per pass or batch.

The classes print functions that compute such products, their Jacobian by the parameters, and their second derivatives.
"""

import abc
import functools
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import indent
from typing import ClassVar

import numpy as np
import sympy as sp

from symdebias._arrays import FloatArray
from symdebias.codegen.printer import print_statements
from symdebias.codegen.score.columns import ScoreColumns
from symdebias.codegen.score.statistic import Needs, Place, Share, Statistic

_TAB = "    "


@dataclass(frozen=True)
class FactorFamily:
    """Columns whose factors have one form."""

    columns: tuple[int, ...]  # Places among the parameters of a score.
    thetas: tuple[sp.Symbol, ...]  # The parameters of one column, one for each score.
    constants: tuple[sp.Symbol, ...]  # What the noise of one column is described by.
    coefficients: tuple[sp.Expr, ...]  # The factor's coefficients, in thetas and constants.


@dataclass(frozen=True)
class ColumnProduct(Statistic, abc.ABC):
    """Coefficients of the corrected loss that are products over columns."""

    coefficients: tuple[sp.Symbol | None, ...]  # The coefficients; None where the loss does not have one.
    kind: ClassVar[str] = "product"
    rank: ClassVar[int] = 1

    @property
    def symbols(self) -> tuple[sp.Symbol, ...]:
        """The coefficients that the loss has."""
        return tuple(symbol for symbol in self.coefficients if symbol is not None)

    @property
    @abc.abstractmethod
    def number_of_constants(self) -> int:
        """How many numbers describe the noise of all columns."""

    @abc.abstractmethod
    def source(self, name: str, start: int, parameters: int) -> tuple[str, frozenset[str]]:
        """Return the functions ``values_NAME``, ``jacobian_NAME`` and ``second_NAME`` as text.

        Parameters
        ----------
        name : str
            What tells this product from others.
        start : int
            Where its constants stand in ``noise``.
        parameters : int
            The number of parameters of one score.
        """

    def needs(self, columns: ScoreColumns, number: int) -> Needs:
        """Return the place of what describes the noise of the columns."""
        return Needs([(f"factors{number}", self.number_of_constants)])

    def share(self, at: Place) -> Share:
        """Return the coefficients, and what the sums times their Jacobian add to the gradient."""
        g, size, present = at.number, at.columns.number_of_parameters, self._present()
        functions, called = self.source(f"g{g}", at.noise, at.columns.parameters)
        # In one loop where the loss has all coefficients: Numba takes longer for a loop than for what is in it.
        whole = len(present) == len(self.coefficients)
        assemble = self._own_jacobian(at)
        if whole:
            assemble += [
                f"for n in range({len(present)}):",
                f"    for j in range({size}):",
                f"        gradient[j] += {at.summed(0, 'n')}*jacobian{g}[n, j]",
            ]
        else:
            for n, i in enumerate(present):
                assemble += [f"for j in range({size}):", f"    gradient[j] += {at.summed(n)}*jacobian{g}[{i}, j]"]
        weights = [f"weights{g}[{i}] = first[{at.symbol + n}]" for n, i in enumerate(present)]
        if whole:
            weights = [f"for n in range({len(present)}):", f"    weights{g}[n] = first[{at.symbol} + n]"]
        return Share(
            {symbol: f"q{g}_{i}" for symbol, i in zip(self.symbols, present, strict=True)},
            functions=functions,
            called=called,
            before=[
                f"v{g} = np.empty({len(self.coefficients)})",
                f"values_g{g}(theta, noise, v{g})",
                *(f"q{g}_{i} = v{g}[{i}]" for i in present),
            ],
            assemble=assemble,
            second=[
                f"weights{g} = np.zeros({len(self.coefficients)})",
                *weights,
                f"second_g{g}(theta, noise, weights{g}, out)",
            ],
        )

    def jacobian(self, at: Place, into: str) -> list[str]:
        """Return lines that put the rows of the Jacobian in their places."""
        g, size, present, lines = at.number, at.columns.number_of_parameters, self._present(), self._own_jacobian(at)
        if len(present) == len(self.coefficients):
            return [
                *lines,
                f"for n in range({len(present)}):",
                f"    for j in range({size}):",
                f"        {into}[{at.symbol} + n, j] = jacobian{g}[n, j]",
            ]
        for n, i in enumerate(present):
            lines += [f"for j in range({size}):", f"    {into}[{at.symbol + n}, j] = jacobian{g}[{i}, j]"]
        return lines

    def _own_jacobian(self, at: Place) -> list[str]:
        g, size = at.number, (len(self.coefficients), at.columns.number_of_parameters)
        return [f"jacobian{g} = np.zeros({size})", f"jacobian_g{g}(theta, noise, jacobian{g})"]

    def _present(self) -> list[int]:
        """Return the places of the coefficients that the loss has."""
        return [i for i, symbol in enumerate(self.coefficients) if symbol is not None]


@dataclass(frozen=True)
class FactorGroup(ColumnProduct):
    """A product over columns of polynomials, cut off at the monomials listed.

    Attributes
    ----------
    coefficients : tuple of (sympy.Symbol or None)
        The product's coefficients in the corrected loss; None where the loss does not have one.
    monomials : tuple of tuples of int
        The exponents of each coefficient; the first are all 0.
    families : tuple of FactorFamily
        The columns.
    """

    monomials: tuple[tuple[int, ...], ...]
    families: tuple[FactorFamily, ...]

    @property
    def number_of_constants(self) -> int:
        """How many numbers describe the noise of all columns."""
        return sum(len(family.columns) * len(family.constants) for family in self.families)

    def values(self, theta: FloatArray, numbers: FloatArray) -> FloatArray:
        """Return the product's coefficients for parameters of one score, in NumPy: the twin of ``values_NAME``.

        Parameters
        ----------
        theta : array of shape (q,), float64
            The parameters.
        numbers : array of shape (number_of_constants,), float64
            The noise of the columns.
        """
        total = np.zeros(len(self.monomials))
        total[0] = 1.0
        place = 0
        for family in self.families:
            arguments = (*family.thetas, *family.constants)
            functions = [sp.lambdify(arguments, value, "math") for value in family.coefficients]
            for column in family.columns:
                own = numbers[place : place + len(family.constants)]
                place += len(family.constants)
                factor = [function(theta[column], *own) for function in functions]
                before, total = total, np.zeros(len(total))
                for i, j, k in self._triples:
                    total[k] += before[i] * factor[j]
        return total

    @property
    def _count(self) -> int:
        return sum(len(family.columns) for family in self.families)

    @functools.cached_property
    def _triples(self) -> tuple[tuple[int, int, int], ...]:
        places = {monomial: place for place, monomial in enumerate(self.monomials)}
        pairs = itertools.product(enumerate(self.monomials), repeat=2)
        products = ((i, j, tuple(map(sum, zip(first, second, strict=True)))) for (i, first), (j, second) in pairs)
        return tuple((i, j, places[product]) for i, j, product in products if product in places)

    def source(self, name: str, start: int, parameters: int) -> tuple[str, frozenset[str]]:
        """Return the functions as text; see `ColumnProduct.source`."""
        scores = len(self.families[0].thetas)
        size, count = len(self.monomials), self._count
        called: set[str] = set()
        fills = {}
        for order in (0, 1, 2):
            text, names = _fill(self.families, order, start, parameters, {})
            fills[order] = text
            called |= names
        columns = [column for family in self.families for column in family.columns]
        pairs = list(itertools.combinations_with_replacement(range(scores), 2))
        lines = f"""
COLUMNS_{name} = np.array({columns})
TRIPLES_{name} = np.array({[list(triple) for triple in self._triples]})


@helper()
def multiply_{name}(first, second, out):
    out[:] = 0.0
    for t in range(TRIPLES_{name}.shape[0]):
        out[TRIPLES_{name}[t, 2]] += first[TRIPLES_{name}[t, 0]]*second[TRIPLES_{name}[t, 1]]


@helper()
def factors_{name}(theta, noise, factor):
{indent(fills[0], _TAB)}


@helper()
def slopes_{name}(theta, noise, slope):
{indent(fills[1], _TAB)}


@helper()
def bends_{name}(theta, noise, bend):
{indent(fills[2], _TAB)}


{self._plain(name, parameters) if size == 1 else self._truncated(name, parameters)}


@helper()
def others_{name}(factor, skip, other, out):
    before = np.empty({size})
    out[:] = 0.0
    out[0] = 1.0
    for c in range({count}):
        if c != skip and c != other:
            # Not before[:] = out, for which Numba compiles the text of an error about shapes.
            for l in range({size}):
                before[l] = out[l]
            multiply_{name}(before, factor[c], out)


@helper()
def second_{name}(theta, noise, weights, out):
    factor, slope = np.empty(({count}, {size})), np.empty(({count}, {scores}, {size}))
    bend = np.empty(({count}, {len(pairs)}, {size}))
    factors_{name}(theta, noise, factor)
    slopes_{name}(theta, noise, slope)
    bends_{name}(theta, noise, bend)
    rest, product, both = np.empty({size}), np.empty({size}), np.empty({size})
    for c in range({count}):
        others_{name}(factor, c, c, rest)
        pair = 0
        for k in range({scores}):
            for m in range(k, {scores}):
                multiply_{name}(rest, bend[c, pair], product)
                pair += 1
                value = 0.0
                for l in range({size}):
                    value += weights[l]*product[l]
                row, column = k*{parameters} + COLUMNS_{name}[c], m*{parameters} + COLUMNS_{name}[c]
                out[row, column] += value
                if k != m:
                    out[column, row] += value
        for d in range({count}):
            if d != c:
                others_{name}(factor, c, d, rest)
                for k in range({scores}):
                    multiply_{name}(rest, slope[c, k], product)
                    for m in range({scores}):
                        multiply_{name}(product, slope[d, m], both)
                        value = 0.0
                        for l in range({size}):
                            value += weights[l]*both[l]
                        out[k*{parameters} + COLUMNS_{name}[c], m*{parameters} + COLUMNS_{name}[d]] += value
"""
        return lines, frozenset(called)

    def _plain(self, name: str, parameters: int) -> str:
        """Return ``values`` and ``jacobian`` of a product of numbers."""
        count, scores = self._count, len(self.families[0].thetas)
        return f"""@helper()
def values_{name}(theta, noise, values):
    factor = np.empty(({count}, 1))
    factors_{name}(theta, noise, factor)
    values[0] = 1.0
    for c in range({count}):
        values[0] *= factor[c, 0]


@helper()
def jacobian_{name}(theta, noise, jacobian):
    factor, slope = np.empty(({count}, 1)), np.empty(({count}, {scores}, 1))
    factors_{name}(theta, noise, factor)
    slopes_{name}(theta, noise, slope)
    # Products of the factors before a column and after it: no division, which a factor near 0 would spoil.
    after = np.empty({count})
    product = 1.0
    for c in range({count} - 1, -1, -1):
        after[c] = product
        product *= factor[c, 0]
    product = 1.0
    for c in range({count}):
        for k in range({scores}):
            jacobian[0, k*{parameters} + COLUMNS_{name}[c]] += product*after[c]*slope[c, k, 0]
        product *= factor[c, 0]
"""

    def _truncated(self, name: str, parameters: int) -> str:
        """Return ``values`` and ``jacobian`` of a product of truncated polynomials."""
        count, scores, size = self._count, len(self.families[0].thetas), len(self.monomials)
        return f"""@helper()
def values_{name}(theta, noise, values):
    factor = np.empty(({count}, {size}))
    factors_{name}(theta, noise, factor)
    before = np.empty({size})
    values[:] = 0.0
    values[0] = 1.0
    for c in range({count}):
        for l in range({size}):
            before[l] = values[l]
        multiply_{name}(before, factor[c], values)


@helper()
def jacobian_{name}(theta, noise, jacobian):
    factor, slope = np.empty(({count}, {size})), np.empty(({count}, {scores}, {size}))
    factors_{name}(theta, noise, factor)
    slopes_{name}(theta, noise, slope)
    # Products of the factors up to a column and from a column on: no division, which a factor near 0 would spoil.
    left, right = np.zeros(({count + 1}, {size})), np.zeros(({count + 1}, {size}))
    left[0, 0] = 1.0
    right[{count}, 0] = 1.0
    for c in range({count}):
        multiply_{name}(left[c], factor[c], left[c + 1])
        multiply_{name}(right[{count} - c], factor[{count} - 1 - c], right[{count} - 1 - c])
    rest, product = np.empty({size}), np.empty({size})
    for c in range({count}):
        multiply_{name}(left[c], right[c + 1], rest)
        for k in range({scores}):
            multiply_{name}(rest, slope[c, k], product)
            for l in range({size}):
                jacobian[l, k*{parameters} + COLUMNS_{name}[c]] += product[l]
"""


def _fill(
    families: Sequence[FactorFamily], order: int, start: int, parameters: int, fixed: Mapping[sp.Symbol, str]
) -> tuple[str, set[str]]:
    """Return the body that fills factors (order 0), their slopes (1) or second derivatives (2)."""
    called: set[str] = set()
    lines: list[str] = []
    place = 0
    for family in families:
        wanted = _derivatives(family, order)
        statements = print_statements(
            [expression for _, expression in wanted],
            fixed={
                **{symbol: f"b{k}" for k, symbol in enumerate(family.thetas)},
                **{symbol: f"w{k}" for k, symbol in enumerate(family.constants)},
                **fixed,
            },
            varying={},
        )
        called |= statements.functions
        width, count = len(family.constants), len(family.columns)
        lines += [f"for c in range({place}, {place + count}):"]
        inside = [
            *(f"b{k} = theta[{k * parameters} + {_element(family.columns, place)}]" for k in range(len(family.thetas))),
            *(f"w{k} = noise[{start} + (c - {place})*{width} + {k}]" for k in range(width)),
            *(statements.setup + statements.record),
            *(
                f"{('factor', 'slope', 'bend')[order]}[c, {index}] = {text}"
                for (index, _), text in zip(wanted, statements.results, strict=True)
            ),
        ]
        lines += ["    " + line for line in inside]
        place += count
        start += width * count
    return "\n".join(lines), called


def _element(columns: Sequence[int], place: int) -> str:
    if list(columns) == list(range(columns[0], columns[0] + len(columns))):
        return f"c + {columns[0] - place}" if columns[0] >= place else f"c - {place - columns[0]}"
    return f"({', '.join(map(str, columns))},)[c - {place}]"


def _derivatives(family: FactorFamily, order: int) -> list[tuple[str, sp.Expr]]:
    coefficients = list(enumerate(family.coefficients))
    if order == 0:
        return [(f"{index}", value) for index, value in coefficients]
    if order == 1:
        return [
            (f"{k}, {index}", sp.diff(value, theta))
            for k, theta in enumerate(family.thetas)
            for index, value in coefficients
        ]
    pairs = itertools.combinations_with_replacement(family.thetas, 2)
    # One after the other: what is derived twice at once SymPy factors, for seconds where there are cases.
    return [
        (f"{k}, {index}", sp.diff(sp.diff(value, one), other))
        for k, (one, other) in enumerate(pairs)
        for index, value in coefficients
    ]


@dataclass(frozen=True)
class WaveGroup(ColumnProduct):
    """Products over columns of the factors of waves, one product for each multiple of a frequency.

    Attributes
    ----------
    coefficients : tuple of sympy.Symbol
        The products at 1, 2, ... times the frequency.
    frequency : sympy.Symbol
        What stands for the multiple in the families' coefficients.
    families : tuple of FactorFamily
        The columns, with one coefficient each: the factor.
    """

    frequency: sp.Symbol
    families: tuple[FactorFamily, ...]

    @property
    def number_of_constants(self) -> int:
        """How many numbers it takes: the frequency first, then the noise of all columns."""
        return 1 + sum(len(family.columns) * len(family.constants) for family in self.families)

    def source(self, name: str, start: int, parameters: int) -> tuple[str, frozenset[str]]:
        """Return the functions as text; see `ColumnProduct.source`."""
        columns = [column for family in self.families for column in family.columns]
        count, waves = len(columns), len(self.coefficients)
        called: set[str] = set()
        fills = []
        for order in (0, 1, 2):
            text, names = _fill(self.families, order, start + 1, parameters, {self.frequency: "frequency"})
            fills.append(text)
            called |= names
        text = f"""
COLUMNS_{name} = np.array({columns})


@helper()
def factors_{name}(theta, noise, frequency, factor):
{indent(fills[0], _TAB)}


@helper()
def slopes_{name}(theta, noise, frequency, slope):
{indent(fills[1].replace("slope[c, 0, 0]", "slope[c, 0]"), _TAB)}


@helper()
def bends_{name}(theta, noise, frequency, bend):
{indent(fills[2].replace("bend[c, 0, 0]", "bend[c, 0]"), _TAB)}


@helper()
def values_{name}(theta, noise, values):
    factor = np.empty(({count}, 1))
    for k in range({waves}):
        factors_{name}(theta, noise, (k + 1)*noise[{start}], factor)
        values[k] = 1.0
        for c in range({count}):
            values[k] *= factor[c, 0]


@helper()
def jacobian_{name}(theta, noise, jacobian):
    factor, slope, after = np.empty(({count}, 1)), np.empty(({count}, 1)), np.empty({count})
    for k in range({waves}):
        factors_{name}(theta, noise, (k + 1)*noise[{start}], factor)
        slopes_{name}(theta, noise, (k + 1)*noise[{start}], slope)
        product = 1.0
        for c in range({count} - 1, -1, -1):
            after[c] = product
            product *= factor[c, 0]
        product = 1.0
        for c in range({count}):
            jacobian[k, COLUMNS_{name}[c]] += product*after[c]*slope[c, 0]
            product *= factor[c, 0]


@helper()
def second_{name}(theta, noise, weights, out):
    factor, slope, bend = np.empty(({count}, 1)), np.empty(({count}, 1)), np.empty(({count}, 1))
    for k in range({waves}):
        factors_{name}(theta, noise, (k + 1)*noise[{start}], factor)
        slopes_{name}(theta, noise, (k + 1)*noise[{start}], slope)
        bends_{name}(theta, noise, (k + 1)*noise[{start}], bend)
        for c in range({count}):
            for d in range({count}):
                rest = weights[k]*(bend[c, 0] if c == d else slope[c, 0]*slope[d, 0])
                for e in range({count}):
                    rest *= 1.0 if e == c or e == d else factor[e, 0]
                out[COLUMNS_{name}[c], COLUMNS_{name}[d]] += rest
"""
        return text, frozenset(called)
