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

    @property
    def form(self) -> tuple[object, ...]:
        """What its functions depend on."""
        value = sp.Symbol("value", real=True)
        return len(self.positions), self.outputs, tuple(term.xreplace({self.value: value}) for term in self.terms)

    def entry(self, code: str, name: str) -> str:
        """Return the entry that belongs to a code, as a chain of conditions.

        By calls of `elementary.chosen`: for Numba each conditional expression is four more blocks of its function.
        """
        text = f"{name}_{self.outputs - 1}"
        for c in range(self.outputs - 2, -1, -1):
            text = f"chosen({code} == {float(c)}, {name}_{c}, {text})"
        return text

    def functions(self, name: str, columns: Sequence[tuple[int, int, int]]) -> tuple[str, frozenset[str]]:
        """Return the functions ``tables_NAME`` and ``table_gradients_NAME`` of all columns of this form, as text.

        Parameters
        ----------
        name : str
            What tells this form from others.
        columns : sequence of tuples of int
            Where the constants of each column begin in ``noise``, its parameters in ``PLACES``, and its sums in
            ``sums``.
        """
        inputs, size = len(self.positions), len(self.terms)
        values = self._printed(0)
        slopes = self._printed(1)
        head = f"""    for n in range({len(columns)}):
        start, first_place, first = COLUMNS_{name}[n, 0], COLUMNS_{name}[n, 1], COLUMNS_{name}[n, 2]
        for a in range({inputs}):
            place = PLACES[first_place + a]
            value = theta[place]*noise[start + a] if place >= 0 else 0.0"""
        fill = "\n".join(
            f"                tables[n*{self.outputs} + c, {i}] += weight*({text})"
            for i, text in enumerate(values.results)
        )
        collect = "\n".join(
            f"                slope += weight*sums[first + c*{size} + {i}]*({text})"
            for i, text in enumerate(slopes.results)
        )
        text = f"""
COLUMNS_{name} = np.array({[list(column) for column in columns]})


@helper()
def tables_{name}(theta, noise, tables):
{head}
{indent(chr(10).join(values.setup), 3 * _TAB)}
            for c in range({self.outputs}):
                weight = noise[start + {inputs} + c*{inputs} + a]
{fill}


@helper()
def table_gradients_{name}(theta, noise, sums, gradient):
{head}
{indent(chr(10).join(slopes.setup), 3 * _TAB)}
            slope = 0.0
            for c in range({self.outputs}):
                weight = noise[start + {inputs} + c*{inputs} + a]
{collect}
            if place >= 0:
                gradient[place] += slope*noise[start + a]
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
        """Return the functions ``wave_tables`` and ``wave_slopes`` of all columns as text.

        A row of ``WAVES`` describes a column: its number of inputs and of outputs, and where its constants begin in
        ``noise``, its parameters in ``PLACES``, its rows in the table and in that of slopes.
        """
        rows, first, place, row, slope = [], start + 1, 0, 0, 0
        for places, m in zip(self.positions, self.outputs, strict=True):
            inputs = len(places)
            rows.append([inputs, m, first, place, row, slope])
            first, place = first + inputs * (1 + m), place + inputs
            row, slope = row + m, slope + inputs * m
        waves = len(self.real)
        head = f"""    for b in range({len(rows)}):
        inputs, outputs, first = WAVES[b, 0], WAVES[b, 1], WAVES[b, 2]
        for a in range(inputs):
            place = PLACES[WAVES[b, 3] + a]
            value = theta[place]*noise[first + a] if place >= 0 else 0.0
            for k in range({waves}):
                rate = (k + 1)*noise[{start}]
                cosine, sine = math.cos(rate*value), math.sin(rate*value)
                for c in range(outputs):"""
        return f"""
WAVES = np.array({rows})


@helper()
def wave_tables(theta, noise, table):
{head}
                    weight, row = noise[first + inputs + c*inputs + a], WAVES[b, 4] + c
                    table[row, k] += weight*cosine
                    table[row, {waves} + k] += weight*sine


@helper()
def wave_slopes(theta, noise, slopes):
{head}
                    weight = rate*noise[first + a]*noise[first + inputs + c*inputs + a]
                    row = WAVES[b, 5] + c*inputs + a
                    slopes[row, k] = -weight*sine
                    slopes[row, {waves} + k] = weight*cosine
"""

    def before(self, *, slopes: bool) -> list[str]:
        """Return lines that fill the tables, once per pass or batch."""
        waves, columns = len(self.real), len(self.outputs)
        lines = [
            f"wave_real, wave_imaginary = np.ones(({columns + 1}, {waves})), np.zeros(({columns + 1}, {waves}))",
            f"wave_table = np.zeros(({sum(self.outputs)}, {2 * waves}))",
            "wave_tables(theta, noise, wave_table)",
        ]
        if slopes:
            size = sum(len(places) * m for places, m in zip(self.positions, self.outputs, strict=True))
            lines += [
                f"wave_slope = np.zeros(({size}, {2 * waves}))",
                "wave_slopes(theta, noise, wave_slope)",
                f"wave_part, wave_after = np.zeros((2, {waves})), np.zeros((4, {waves}))",
                f"wave_sums = np.zeros({self.number_of_slopes})",
            ]
        return lines

    def lookups(self, first: int) -> list[str]:
        """Return lines that multiply the factors of record i, whose codes start at a column of X.

        Row b of ``wave_real`` and ``wave_imaginary`` is the product over the columns before b.
        """
        waves = len(self.real)
        return [
            f"for b in range({len(self.outputs)}):",
            f"    row = WAVES[b, 4] + int(X[i, {first} + b])",
            f"    for k in range({waves}):",
            f"        x, z = wave_table[row, k], wave_table[row, {waves} + k]",
            "        wave_real[b + 1, k] = wave_real[b, k]*x - wave_imaginary[b, k]*z",
            "        wave_imaginary[b + 1, k] = wave_real[b, k]*z + wave_imaginary[b, k]*x",
        ]

    def names(self) -> dict[sp.Symbol, str]:
        """Return what stands for the symbols in the code of a record."""
        last = len(self.outputs)
        real = {symbol: f"wave_real[{last}, {k}]" for k, symbol in enumerate(self.real)}
        return real | {symbol: f"wave_imaginary[{last}, {k}]" for k, symbol in enumerate(self.imaginary)}

    def collect(self, first: int) -> list[str]:
        """Return lines that add a record's derivatives by the parameters, given those by the products.

        The first rows of ``wave_after`` are the product over the columns after b.
        """
        waves, last = len(self.real), len(self.outputs) - 1
        return [
            f"for k in range({waves}):",
            "    wave_after[0, k], wave_after[1, k] = 1.0, 0.0",
            f"for n_column in range({len(self.outputs)}):",
            f"    b = {last} - n_column",
            f"    seen = int(X[i, {first} + b])",
            "    row, inputs = WAVES[b, 4] + seen, WAVES[b, 0]",
            f"    for k in range({waves}):",
            "        x = wave_real[b, k]*wave_after[0, k] - wave_imaginary[b, k]*wave_after[1, k]",
            "        z = wave_real[b, k]*wave_after[1, k] + wave_imaginary[b, k]*wave_after[0, k]",
            "        wave_after[2, k] = wave_part[0, k]*x + wave_part[1, k]*z",
            "        wave_after[3, k] = wave_part[1, k]*x - wave_part[0, k]*z",
            "    for a in range(inputs):",
            "        slope_row, summed = WAVES[b, 5] + seen*inputs + a, 0.0",
            f"        for k in range({waves}):",
            "            summed += wave_after[2, k]*wave_slope[slope_row, k] "
            f"+ wave_after[3, k]*wave_slope[slope_row, {waves} + k]",
            "        wave_sums[WAVES[b, 3] + a] += summed",
            f"    for k in range({waves}):",
            f"        x, z = wave_table[row, k], wave_table[row, {waves} + k]",
            "        one, other = wave_after[0, k], wave_after[1, k]",
            "        wave_after[0, k], wave_after[1, k] = one*x - other*z, one*z + other*x",
        ]

    def assemble(self, sums: int) -> list[str]:
        """Return lines that add the sums to the gradient."""
        return [
            f"for n in range({self.number_of_slopes}):",
            "    if PLACES[n] >= 0:",
            f"        gradient[PLACES[n]] += sums[{sums} + n]",
        ]


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
        # Columns of one form share their functions: what is compiled grows little with their number.
        forms: dict[tuple[object, ...], list[int]] = {}
        for b, table in enumerate(self.tables):
            forms.setdefault(table.form, []).append(b)
        places = [place for table in self.tables for place in table.positions]
        first_places = _starts([len(table.positions) for table in self.tables])
        functions, p = [f"\nPLACES = np.array({places})"], len(at.columns.linear)
        called = frozenset[str](("chosen",) if any(table.is_selected for table in self.tables) else ())
        before: list[str] = []
        entries: dict[int, str] = {}
        assemble: list[str] = []
        for n, members in enumerate(forms.values()):
            table = self.tables[members[0]]
            text, names_of = table.functions(f"t{n}", [(first[b], first_places[b], sums[b]) for b in members])
            functions.append(text)
            called |= names_of
            before.append(f"k_t{n} = np.zeros(({len(members) * table.outputs}, {len(table.terms)}))")
            before.append(f"tables_t{n}(theta, noise, k_t{n})")
            assemble.append(f"table_gradients_t{n}(theta, noise, sums, gradient)")
            entries |= {b: f"k_t{n}[{place * table.outputs} + " for place, b in enumerate(members)}
        lookups: list[str] = []
        for b, table in enumerate(self.tables):
            if table.is_selected:
                before += [f"k{b}_{i}_{c} = {entries[b]}{c}, {i}]" for i, c in table.entries]
                lookups.append(f"c{b} = X[i, {p + b}]")
                lookups += [f"k{b}_{i} = {table.entry(f'c{b}', f'k{b}_{i}')}" for i in range(len(table.symbols))]
            else:
                lookups.append(f"c{b} = int(X[i, {p + b}])")
                lookups += [f"k{b}_{i} = {entries[b]}c{b}, {i}]" for i in range(len(table.symbols))]
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
            called=called,
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
                        f"a{b}_{i}_{c} += chosen(c{b} == {float(c)}, w{place + i}, 0.0)" for c in range(table.outputs)
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
        if any(not table.is_selected for table in self.tables):
            before.append(f"held = np.empty(({place}, {BLOCK}))")
        if self.waves is not None:
            waves, first = len(self.waves.real), self._first_sums()[-1]
            inside += [
                f"wave_part[{n // waves}, {n % waves}] = ({text}){factor}" for n, text in enumerate(slopes[place:])
            ]
            inside += self.waves.collect(len(at.columns.linear))
            after += [f"for n in range({self.waves.number_of_slopes}):"]
            after += [f"    sums[{at.sums + first} + n] += wave_sums[n]"]
        return Collected(before=[*before, *zeros], inside=inside, after=after)


def _starts(sizes: Sequence[int]) -> list[int]:
    return [sum(sizes[:place]) for place in range(len(sizes) + 1)]
