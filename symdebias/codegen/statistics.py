"""Generated code for what depends on the parameters and the noise only, once per pass or batch.

A corrected loss of a score has *statistics* of the noise in it: the noise variance of the score, and coefficients of
products over columns. The classes here print functions that compute such statistics, their Jacobian by the
parameters, and their second derivatives; `score_program` calls them.
"""

import functools
import itertools
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp

from symdebias.codegen.printer import Statements, print_statements

FloatArray = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class FactorFamily:
    """Columns whose factors have one form.

    Attributes
    ----------
    columns : tuple of int
        Places among the parameters of a score.
    thetas : tuple of sympy.Symbol
        The parameters of one column, one for each score.
    constants : tuple of sympy.Symbol
        What the noise of one column is described by.
    coefficients : tuple of sympy.Expr
        The factor's coefficients, in thetas and constants.
    """

    columns: tuple[int, ...]
    thetas: tuple[sp.Symbol, ...]
    constants: tuple[sp.Symbol, ...]
    coefficients: tuple[sp.Expr, ...]


@dataclass(frozen=True)
class FactorGroup:
    """A product over columns of polynomials, cut off at the monomials listed.

    Attributes
    ----------
    symbols : tuple of (sympy.Symbol or None)
        The product's coefficients in the corrected loss; None where the loss does not have one.
    monomials : tuple of tuples of int
        The exponents of each coefficient; the first are all 0.
    families : tuple of FactorFamily
        The columns.
    """

    symbols: tuple[sp.Symbol | None, ...]
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
            functions = [sp.lambdify(arguments, value) for value in family.coefficients]
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
        found = []
        for (i, first), (j, second) in itertools.product(enumerate(self.monomials), repeat=2):
            product = tuple(a + b for a, b in zip(first, second, strict=True))
            if product in places:
                found.append((i, j, places[product]))
        return tuple(found)

    def functions(self, name: str, start: int, parameters: int) -> tuple[str, frozenset[str]]:
        """Return the functions ``values_NAME``, ``jacobian_NAME`` and ``second_NAME`` as text.

        Parameters
        ----------
        name : str
            What tells this group from others.
        start : int
            Where its constants stand in ``noise``.
        parameters : int
            The number of parameters of one score.
        """
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
{_indent(fills[0])}


@helper()
def slopes_{name}(theta, noise, slope):
{_indent(fills[1])}


@helper()
def bends_{name}(theta, noise, bend):
{_indent(fills[2])}


{self._plain(name, parameters) if size == 1 else self._truncated(name, parameters)}


@helper()
def others_{name}(factor, skip, other, out):
    before = np.empty({size})
    out[:] = 0.0
    out[0] = 1.0
    for c in range({count}):
        if c != skip and c != other:
            before[:] = out
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
        before[:] = values
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
    return [(f"{k}, {index}", sp.diff(value, *pair)) for k, pair in enumerate(pairs) for index, value in coefficients]


@dataclass(frozen=True)
class WaveGroup:
    """Products over columns of the factors of waves, one product for each multiple of a frequency.

    Attributes
    ----------
    symbols : tuple of sympy.Symbol
        The products at 1, 2, ... times the frequency.
    frequency : sympy.Symbol
        What stands for the multiple in the families' coefficients.
    families : tuple of FactorFamily
        The columns, with one coefficient each: the factor.
    """

    symbols: tuple[sp.Symbol, ...]
    frequency: sp.Symbol
    families: tuple[FactorFamily, ...]

    @property
    def number_of_constants(self) -> int:
        """How many numbers it takes: the frequency first, then the noise of all columns."""
        return 1 + sum(len(family.columns) * len(family.constants) for family in self.families)

    def functions(self, name: str, start: int, parameters: int) -> tuple[str, frozenset[str]]:
        """Return the functions ``values_NAME``, ``jacobian_NAME`` and ``second_NAME`` as `FactorGroup` does."""
        columns = [column for family in self.families for column in family.columns]
        count, waves = len(columns), len(self.symbols)
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
{_indent(fills[0])}


@helper()
def slopes_{name}(theta, noise, frequency, slope):
{_indent(fills[1].replace("slope[c, 0, 0]", "slope[c, 0]"))}


@helper()
def bends_{name}(theta, noise, frequency, bend):
{_indent(fills[2].replace("bend[c, 0, 0]", "bend[c, 0]"))}


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


@dataclass(frozen=True)
class ChannelTable:
    """Factors of one column of categories, looked up by what was observed.

    Attributes
    ----------
    symbols : tuple of sympy.Symbol
        The entries of the looked-up row in the corrected loss.
    value : sympy.Symbol
        What a category adds to the score.
    terms : tuple of sympy.Expr
        The function of that value whose unbiased estimate each entry is.
    positions : tuple of int
        For each input category the place of its parameter, or -1.
    outputs : int
        The number of output categories.
    """

    symbols: tuple[sp.Symbol, ...]
    value: sp.Symbol
    terms: tuple[sp.Expr, ...]
    positions: tuple[int, ...]
    outputs: int

    @property
    def number_of_constants(self) -> int:
        """A value per input, and an unbiased weight per output and input."""
        return len(self.positions) * (1 + self.outputs)

    def functions(self, name: str, start: int) -> tuple[str, frozenset[str]]:
        """Return the functions ``table_NAME`` and ``table_gradient_NAME`` as text."""
        inputs, size = len(self.positions), len(self.terms)
        values = self._printed(0)
        slopes = self._printed(1)
        position = f"({', '.join(map(str, self.positions))},)[a]"
        head = f"""    for a in range({inputs}):
        place = {position}
        value = theta[place]*noise[{start} + a] if place >= 0 else 0.0"""
        fill = "\n".join(f"            table[c, {i}] += weight*({text})" for i, text in enumerate(values.results))
        collect = "\n".join(
            f"            slope += weight*sums[first + c*{size} + {i}]*({text})"
            for i, text in enumerate(slopes.results)
        )
        text = f"""
@helper()
def table_{name}(theta, noise, table):
{head}
{_indent(chr(10).join(values.setup), 8)}
        for c in range({self.outputs}):
            weight = noise[{start + inputs} + c*{inputs} + a]
{fill}


@helper()
def table_gradient_{name}(theta, noise, sums, first, gradient):
{head}
{_indent(chr(10).join(slopes.setup), 8)}
        slope = 0.0
        for c in range({self.outputs}):
            weight = noise[{start + inputs} + c*{inputs} + a]
{collect}
        if place >= 0:
            gradient[place] += slope*noise[{start} + a]
"""
        return text, values.functions | slopes.functions

    def _printed(self, order: int) -> Statements:
        expressions = [sp.diff(term, self.value, order) if order else term for term in self.terms]
        return print_statements(expressions, fixed={self.value: "value"}, varying={})


@dataclass(frozen=True)
class WaveTables:
    """Factors of waves for columns of categories, looked up and multiplied in loops over the waves.

    The factor of the wave exp(i k h u) is the product over columns of complex numbers
    T(c, k) = sum_a weight(c, a) exp(i k h theta_a value_a), c the observed category.

    Attributes
    ----------
    real, imaginary : tuple of sympy.Symbol
        The parts of the product for each wave, in the corrected loss.
    positions : tuple of tuples of int
        For each column and input category the place of its parameter, or -1.
    outputs : tuple of int
        The number of output categories of each column.
    """

    real: tuple[sp.Symbol, ...]
    imaginary: tuple[sp.Symbol, ...]
    positions: tuple[tuple[int, ...], ...]
    outputs: tuple[int, ...]

    @property
    def number_of_constants(self) -> int:
        """The frequency, and for each column a value per input and an unbiased weight per output and input."""
        return 1 + sum(len(inputs) * (1 + m) for inputs, m in zip(self.positions, self.outputs, strict=True))

    @property
    def number_of_slopes(self) -> int:
        """How many parameters the tables depend on, column by column and input by input."""
        return sum(map(len, self.positions))

    def functions(self, start: int) -> str:
        """Return the functions ``wave_tables_B`` and ``wave_slopes_B`` of each column B as text."""
        texts = []
        first = start + 1
        for b, (places, m) in enumerate(zip(self.positions, self.outputs, strict=True)):
            inputs, waves = len(places), len(self.real)
            listed = f"({', '.join(map(str, places))},)"
            head = f"""    for a in range({inputs}):
        place = {listed}[a]
        value = theta[place]*noise[{first} + a] if place >= 0 else 0.0
        for k in range({waves}):
            rate = (k + 1)*noise[{start}]"""
            texts.append(f"""
@helper()
def wave_tables_{b}(theta, noise, table):
{head}
            for c in range({m}):
                weight = noise[{first + inputs} + c*{inputs} + a]
                table[c, k] += weight*math.cos(rate*value)
                table[c, {waves} + k] += weight*math.sin(rate*value)


@helper()
def wave_slopes_{b}(theta, noise, slopes):
{head}
            for c in range({m}):
                weight = rate*noise[{first} + a]*noise[{first + inputs} + c*{inputs} + a]
                slopes[c, a, k] = -weight*math.sin(rate*value)
                slopes[c, a, {waves} + k] = weight*math.cos(rate*value)
""")
            first += inputs * (1 + m)
        return "\n".join(texts)

    def before(self, *, slopes: bool) -> list[str]:
        """Return lines that fill the tables, once per pass or batch."""
        waves, columns = len(self.real), len(self.outputs)
        lines = [f"wave_real, wave_imaginary = np.ones(({columns + 1}, {waves})), np.zeros(({columns + 1}, {waves}))"]
        for b, (places, m) in enumerate(zip(self.positions, self.outputs, strict=True)):
            lines += [f"wave_table{b} = np.zeros(({m}, {2 * waves}))", f"wave_tables_{b}(theta, noise, wave_table{b})"]
            if slopes:
                lines.append(f"wave_slope{b} = np.zeros(({m}, {len(places)}, {2 * waves}))")
                lines.append(f"wave_slopes_{b}(theta, noise, wave_slope{b})")
        if slopes:
            lines.append(f"wave_part = np.zeros((2, {waves}))")
            lines.append(f"wave_sums = np.zeros({self.number_of_slopes})")
        return lines

    def lookups(self, first: int) -> list[str]:
        """Return lines that multiply the factors of record i, whose codes start at a column of X.

        Row b of ``wave_real`` and ``wave_imaginary`` is the product over the columns before b.
        """
        waves = len(self.real)
        lines = [f"seen{b} = int(X[i, {first + b}])" for b in range(len(self.outputs))]
        lines.append(f"for k in range({waves}):")
        for b in range(len(self.outputs)):
            own = f"wave_table{b}[seen{b}, k], wave_table{b}[seen{b}, {waves} + k]"
            lines += [
                f"    x, z = {own}",
                f"    wave_real[{b + 1}, k] = wave_real[{b}, k]*x - wave_imaginary[{b}, k]*z",
                f"    wave_imaginary[{b + 1}, k] = wave_real[{b}, k]*z + wave_imaginary[{b}, k]*x",
            ]
        return lines

    def names(self) -> dict[sp.Symbol, str]:
        """Return what stands for the symbols in the code of a record."""
        last = len(self.outputs)
        real = {symbol: f"wave_real[{last}, {k}]" for k, symbol in enumerate(self.real)}
        return real | {symbol: f"wave_imaginary[{last}, {k}]" for k, symbol in enumerate(self.imaginary)}

    def collect(self) -> list[str]:
        """Return lines that add a record's derivatives by the parameters, given those by the products."""
        waves = len(self.real)
        lines = [f"for k in range({waves}):", "    after_real, after_imaginary = 1.0, 0.0"]
        place = self.number_of_slopes
        for b in range(len(self.outputs) - 1, -1, -1):
            inputs = len(self.positions[b])
            place -= inputs
            lines += [
                f"    x = wave_real[{b}, k]*after_real - wave_imaginary[{b}, k]*after_imaginary",
                f"    z = wave_real[{b}, k]*after_imaginary + wave_imaginary[{b}, k]*after_real",
                "    both = wave_part[0, k]*x + wave_part[1, k]*z",
                "    other = wave_part[1, k]*x - wave_part[0, k]*z",
                f"    for a in range({inputs}):",
                f"        wave_sums[{place} + a] += both*wave_slope{b}[seen{b}, a, k] "
                f"+ other*wave_slope{b}[seen{b}, a, {waves} + k]",
                f"    x, z = wave_table{b}[seen{b}, k], wave_table{b}[seen{b}, {waves} + k]",
                "    after_real, after_imaginary = after_real*x - after_imaginary*z, after_real*z + after_imaginary*x",
            ]
        return lines

    def assemble(self, sums: int) -> list[str]:
        """Return lines that add the sums to the gradient."""
        lines, place = [], sums
        for places in self.positions:
            for parameter in places:
                if parameter >= 0:
                    lines.append(f"gradient[{parameter}] += sums[{place}]")
                place += 1
        return lines


def _indent(text: str, by: int = 4) -> str:
    return textwrap.indent(text, " " * by)
