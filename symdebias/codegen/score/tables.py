"""Columns of categories whose factors are looked up by what was observed."""

from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import indent

import sympy as sp

from symdebias.codegen.printer import Statements, print_statements
from symdebias.codegen.program import BLOCK
from symdebias.codegen.score.columns import ScoreColumns
from symdebias.codegen.score.statistic import Collected, Needs, Place, Share, Statistic

# Up to so many categories a factor is selected by comparisons, which vectorise; a look-up in memory does not.
_MOST_SELECTED = 8
_TAB = "    "


@dataclass(frozen=True)
class ChannelTable:
    """Factors of one column of categories, looked up by what was observed."""

    symbols: tuple[sp.Symbol, ...]  # The entries of the looked-up row in the corrected loss.
    value: sp.Symbol  # What a category adds to the score.
    terms: tuple[sp.Expr, ...]  # The function of that value whose unbiased estimate each entry is.
    positions: tuple[int, ...]  # For each input category the place of its parameter, or -1.
    outputs: int  # The number of output categories.

    @property
    def number_of_constants(self) -> int:
        """A value per input, and an unbiased weight per output and input."""
        return len(self.positions) * (1 + self.outputs)

    @property
    def entries(self) -> list[tuple[int, int]]:
        """The terms with each output category."""
        return [(i, c) for i in range(len(self.terms)) for c in range(self.outputs)]

    @property
    def is_selected(self) -> bool:
        """Whether entries are selected by comparisons, and not looked up in memory."""
        return self.outputs <= _MOST_SELECTED

    def entry(self, code: str, name: str) -> str:
        """Return the entry that belongs to a code, as a chain of conditions."""
        text = f"{name}_{self.outputs - 1}"
        for c in range(self.outputs - 2, -1, -1):
            text = f"({name}_{c} if {code} == {float(c)} else {text})"
        return text

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
{indent(chr(10).join(values.setup), 2 * _TAB)}
        for c in range({self.outputs}):
            weight = noise[{start + inputs} + c*{inputs} + a]
{fill}


@helper()
def table_gradient_{name}(theta, noise, sums, first, gradient):
{head}
{indent(chr(10).join(slopes.setup), 2 * _TAB)}
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
    """

    # The parts of the product for each wave, in the corrected loss.
    real: tuple[sp.Symbol, ...]
    imaginary: tuple[sp.Symbol, ...]
    positions: tuple[tuple[int, ...], ...]  # For each column and input category the place of its parameter, or -1.
    outputs: tuple[int, ...]  # The number of output categories of each column.

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


@dataclass(frozen=True)
class CategoryFactors(Statistic):
    """The looked-up factors of all columns of categories."""

    tables: tuple[ChannelTable, ...]  # The columns.
    waves: WaveTables | None = None  # The factors of waves, for the same columns.

    @property
    def record_symbols(self) -> tuple[sp.Symbol, ...]:
        """The looked-up factors."""
        symbols = [symbol for table in self.tables for symbol in table.symbols]
        return (*symbols, *(() if self.waves is None else (*self.waves.real, *self.waves.imaginary)))

    def needs(self, columns: ScoreColumns, number: int) -> Needs:
        """Return the places of values and weights, and a sum for each entry of a table and parameter of the waves."""
        blocks = [(f"channel{b}", table.number_of_constants) for b, table in enumerate(self.tables)]
        sums = self._first_sums()[-1]
        if self.waves is not None:
            blocks.append(("waves", self.waves.number_of_constants))
            sums += self.waves.number_of_slopes
        return Needs(blocks, sums, codes=len(self.tables))

    def _first_sums(self) -> list[int]:
        """Return where the sums of each table begin, and those of the waves."""
        return _starts([table.outputs * len(table.terms) for table in self.tables])

    def share(self, at: Place) -> Share:
        """Return the tables, what is looked up in them, and what the sums times their slopes add to the gradient."""
        *first, last = (at.noise + start for start in _starts([table.number_of_constants for table in self.tables]))
        *sums, wave_sums = (at.sums + start for start in self._first_sums())
        names = {symbol: f"k{b}_{i}" for b, table in enumerate(self.tables) for i, symbol in enumerate(table.symbols)}
        printed = [table.functions(f"t{b}", first[b]) for b, table in enumerate(self.tables)]
        functions, p = [text for text, _ in printed], len(at.columns.linear)
        before: list[str] = []
        lookups: list[str] = []
        for b, table in enumerate(self.tables):
            before += [f"k{b} = np.zeros(({table.outputs}, {len(table.terms)}))", f"table_t{b}(theta, noise, k{b})"]
            if table.is_selected:
                before += [f"k{b}_{i}_{c} = k{b}[{c}, {i}]" for i, c in table.entries]
                lookups.append(f"c{b} = X[i, {p + b}]")
                lookups += [f"k{b}_{i} = {table.entry(f'c{b}', f'k{b}_{i}')}" for i in range(len(table.symbols))]
            else:
                lookups.append(f"c{b} = int(X[i, {p + b}])")
                lookups += [f"k{b}_{i} = k{b}[c{b}, {i}]" for i in range(len(table.symbols))]
        assemble = [f"table_gradient_t{b}(theta, noise, sums, {start}, gradient)" for b, start in enumerate(sums)]
        before_slopes = before
        if self.waves is not None:
            names |= self.waves.names()
            functions.append(self.waves.functions(last))
            before_slopes = [*before, *self.waves.before(slopes=True)]
            before = [*before, *self.waves.before(slopes=False)]
            lookups += self.waves.lookups(p)
            assemble = [*self.waves.assemble(wave_sums), *assemble]
        return Share(
            varying=names,
            functions="\n".join(functions),
            called=frozenset[str]().union(*(called for _, called in printed)),
            before=before,
            before_slopes=before_slopes,
            lookups=lookups,
            assemble=assemble,
        )

    def collect(self, at: Place, slopes: Sequence[str], factor: str, *, enumerated: bool) -> Collected:
        """Return the lines that keep the derivatives by looked-up factors apart by category.

        Few categories are summed one by one under a condition, which vectorises. For many the derivatives are held
        first and dealt out afterwards: adding to memory in the loop would keep it from vectorising.
        """
        before: list[str] = []
        zeros: list[str] = []
        inside: list[str] = []
        after: list[str] = []
        place = 0
        for b, (table, first) in enumerate(zip(self.tables, self._first_sums(), strict=False)):
            size = len(table.terms)
            texts = [f"({text}){factor}" for text in slopes[place : place + size]]
            if table.is_selected:
                for i, text in enumerate(texts):
                    inside.append(f"w{place + i} = {text}")
                    inside += [
                        f"a{b}_{i}_{c} += w{place + i} if c{b} == {float(c)} else 0.0" for c in range(table.outputs)
                    ]
                zeros += [f"a{b}_{i}_{c} = 0.0" for i, c in table.entries]
                after += [f"sums[{at.sums + first + c * size + i}] += a{b}_{i}_{c}" for i, c in table.entries]
            else:
                inside += [f"held[{place + i}, i - start] = {text}" for i, text in enumerate(texts)]
                after += ["for i in range(start, stop):", f"    c = int(X[i, {len(at.columns.linear) + b}])"]
                after += [
                    f"    sums[{at.sums + first} + c*{size} + {i}] += held[{place + i}, i - start]" for i in range(size)
                ]
            place += size
        before += [f"held = np.empty(({place}, {BLOCK}))"] if place else []
        if self.waves is not None:
            waves, first = len(self.waves.real), self._first_sums()[-1]
            inside += [
                f"wave_part[{n // waves}, {n % waves}] = ({text}){factor}" for n, text in enumerate(slopes[place:])
            ]
            inside += self.waves.collect()
            after += [f"for n in range({self.waves.number_of_slopes}):"]
            after += [f"    sums[{at.sums + first} + n] += wave_sums[n]"]
        return Collected(before=[*before, *zeros], inside=inside, after=after)


def _starts(sizes: Sequence[int]) -> list[int]:
    return [sum(sizes[:place]) for place in range(len(sizes) + 1)]
