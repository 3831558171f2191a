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
class CategoryFactors(Statistic):
    """The looked-up factors of all columns of categories."""

    tables: tuple[ChannelTable, ...]  # The columns.

    @property
    def record_symbols(self) -> tuple[sp.Symbol, ...]:
        """The looked-up factors."""
        return tuple(symbol for table in self.tables for symbol in table.symbols)

    def needs(self, columns: ScoreColumns, number: int) -> Needs:
        """Return the places of values and weights, and a sum for each entry of a table."""
        blocks = [(f"channel{b}", table.number_of_constants) for b, table in enumerate(self.tables)]
        return Needs(blocks, self._first_sums()[-1], codes=len(self.tables))

    def _first_sums(self) -> list[int]:
        """Return where the sums of each table begin, and their number."""
        return _starts([table.outputs * len(table.terms) for table in self.tables])

    def share(self, at: Place) -> Share:
        """Return the tables, what is looked up in them, and what the sums times their slopes add to the gradient."""
        first = [at.noise + start for start in _starts([table.number_of_constants for table in self.tables])]
        sums = [at.sums + start for start in self._first_sums()]
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
        return Share(
            varying=names,
            functions="\n".join(functions),
            called=called,
            before=before,
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
        return Collected(before=[*before, *zeros], inside=inside, after=after)


def _starts(sizes: Sequence[int]) -> list[int]:
    return [sum(sizes[:place]) for place in range(len(sizes) + 1)]
