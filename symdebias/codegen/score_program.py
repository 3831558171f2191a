"""A corrected loss of one or several scores, as the loop templates of `kernels` take it.

The corrected loss of a record is G(U, y; sigma), with U = Theta x the scores of the released record and sigma the
*statistics*: the noise covariance of the scores and the coefficients of products over columns (`statistics`). Its
gradient is x~ G_U + (d sigma/d Theta)' G_sigma, so that a pass over the data sums x~ G_U and G_sigma, and the Jacobian
of the statistics enters once, at the end.

Columns of categories enter in one of two ways: looked-up factors (*tables*), or a loop over all their
combinations (*configurations*), each with the weight that makes the sum unbiased.
"""

import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import sympy as sp

from symdebias.codegen.printer import Statements, print_statements
from symdebias.codegen.program import Layout, Piece, RecordCode, clipped_share, norm
from symdebias.codegen.statistics import ChannelTable, FactorGroup, WaveGroup, WaveTables

# Rows that a pass takes at a time: 256 rows of 50 columns fit a second-level cache.
BLOCK = 256
# Up to here the loop over columns is written out and fused into the loop over records; beyond, the registers
# run out and separate loops are faster (measured at 20, 32, 40 and 50 columns).
_MOST_UNROLLED = 32
# The moments of the columns of a tile, with each kept weight once or twice: four columns at a time share a load.
_MOMENTS = f"""

@helper(fastmath={{"contract", "reassoc"}})
def add_moments(tile, kept, count, square, line, scaled):
    squares, rows = square.shape[0], square.shape[1]
    for n in range(squares):
        for j in range(rows):
            weight, column = kept[n*{BLOCK}:n*{BLOCK} + count], tile[j*{BLOCK}:j*{BLOCK} + count]
            for i in range(count):
                scaled[i] = weight[i]*column[i]
            l = j
            while l + 4 <= rows:
                a, b, c, d = 0.0, 0.0, 0.0, 0.0
                place = l*{BLOCK}
                first, second = tile[place:place + count], tile[place + {BLOCK}:place + {BLOCK} + count]
                third, fourth = tile[place + 2*{BLOCK}:place + 2*{BLOCK} + count], tile[place + 3*{BLOCK}:]
                for i in range(count):
                    a += scaled[i]*first[i]
                    b += scaled[i]*second[i]
                    c += scaled[i]*third[i]
                    d += scaled[i]*fourth[i]
                square[n, j, l] += a
                square[n, j, l + 1] += b
                square[n, j, l + 2] += c
                square[n, j, l + 3] += d
                l += 4
            while l < rows:
                a = 0.0
                first = tile[l*{BLOCK}:l*{BLOCK} + count]
                for i in range(count):
                    a += scaled[i]*first[i]
                square[n, j, l] += a
                l += 1
    for n in range(line.shape[0]):
        weight = kept[(squares + n)*{BLOCK}:(squares + n)*{BLOCK} + count]
        for j in range(rows):
            column = tile[j*{BLOCK}:j*{BLOCK} + count]
            a = 0.0
            for i in range(count):
                a += weight[i]*column[i]
            line[n, j] += a

"""
# Beyond so many second derivatives of one record's loss (several scores under Laplace noise have thousands) printing
# and compiling them takes minutes.
_MOST_SECOND_DERIVATIVES = 150
# Two rows of so many scores have their sums in registers (measured from 1 to 10 scores and 1 to 4 rows).
_SCORES_AT_ONCE = 5
# Up to so many categories a factor is selected by comparisons, which vectorise; a look-up in memory does not.
_MOST_SELECTED = 8


@dataclass(frozen=True)
class ScoreProgram:
    """A corrected loss G of m scores.

    Attributes
    ----------
    expression : sympy.Expr
        G.
    scores : tuple of sympy.Symbol
        The m scores.
    target : sympy.Symbol
        The target.
    linear : tuple of int
        For each column of X that enters linearly the place of its parameter.
    parameters : int
        The number q of parameters of one score.
    intercept : int or None
        The place of the intercept among them, if there is one.
    covariance : {"none", "diagonal", "full", "record"}
        The normal noise of the linear columns: none, a variance each, a covariance, or a variance each per record.
    variances : tuple of sympy.Symbol
        The noise covariance of the scores, its upper triangle row by row; empty without normal noise.
    noisy : tuple of int
        For ``"record"``: which linear columns have a variance per record.
    target_constants : tuple of sympy.Symbol
        The noise variance of the target and the gain of the label estimate.
    labels : tuple of sympy.Symbol
        What is looked up by the code of the target.
    label_codes : int
        The number of codes of the target.
    groups : tuple of FactorGroup or WaveGroup
        Products over columns.
    tables : tuple of ChannelTable
        Columns of categories with looked-up factors.
    configurations : int
        The number of combinations that are summed over; 0 for none.
    observations : int
        The number of combinations that can be observed.
    wave_tables : WaveTables or None
        The factors of waves for columns of categories.
    coefficients : tuple of sympy.Symbol
        Numbers in the expression that are arguments of the kernels: those of a surrogate.
    has_levels : bool
        Whether each configuration has a target of its own, and its weight depends on the code of the released one.
    """

    expression: sp.Expr
    scores: tuple[sp.Symbol, ...]
    target: sp.Symbol
    linear: tuple[int, ...]
    parameters: int
    intercept: int | None
    covariance: Literal["none", "diagonal", "full", "record"]
    variances: tuple[sp.Symbol, ...]
    noisy: tuple[int, ...]
    target_constants: tuple[sp.Symbol, sp.Symbol]
    labels: tuple[sp.Symbol, ...] = ()
    label_codes: int = 0
    groups: tuple[FactorGroup | WaveGroup, ...] = ()
    tables: tuple[ChannelTable, ...] = ()
    configurations: int = 0
    observations: int = 0
    wave_tables: WaveTables | None = None
    coefficients: tuple[sp.Symbol, ...] = ()
    has_levels: bool = False

    # ---- sizes -------------------------------------------------------------------------------------------

    @property
    def number_of_parameters(self) -> int:
        """The length of theta, scores after one another."""
        return len(self.scores) * self.parameters

    @functools.cached_property
    def layout(self) -> Layout:
        """What stands where in ``noise``."""
        p = len(self.linear)
        size = {"none": 0, "diagonal": p, "full": p * p, "record": p}[self.covariance]
        blocks = [("covariance", size), ("reach", p), ("target", 2), ("labels", self.label_codes * len(self.labels))]
        # The products over columns that a loss has differ in their coefficients, not in the noise.
        blocks += [(f"factors{g}", group.number_of_constants) for g, group in enumerate(self.groups)]
        blocks += [(f"channel{b}", table.number_of_constants) for b, table in enumerate(self.tables)]
        blocks += [("weights", self.observations * self.configurations)]
        blocks += [("offsets", self.configurations * self.parameters)]
        blocks += [("waves", 0 if self.wave_tables is None else self.wave_tables.number_of_constants)]
        blocks += [("coefficients", len(self.coefficients))]
        blocks += [("levels", self.configurations if self.has_levels else 0)]
        return Layout(tuple(blocks))

    @property
    def width(self) -> int:
        """The number of columns of the data matrix: linear columns, codes, variances of records."""
        return len(self.linear) + self._codes + (len(self.noisy) if self.covariance == "record" else 0)

    @property
    def codes(self) -> bool:
        """Whether targets are given as codes."""
        return bool(self.labels) or self.has_levels

    @property
    def has_lookups(self) -> bool:
        """Whether factors or waves are looked up by the codes of categories: what has no second derivatives."""
        return bool(self.tables) or self.wave_tables is not None

    @property
    def has_hessian(self) -> bool:
        """Whether the Hessian is short enough to be generated."""
        count = len(self.scores) + (len(self._pairs) if self.covariance == "record" else 0) + len(self.statistics)
        return count * (count + 1) // 2 <= _MOST_SECOND_DERIVATIVES

    @functools.cached_property
    def has_point_masses(self) -> bool:
        """Whether second derivatives in the scores have point masses, as those of a squared maximum."""
        if not self.expression.has(sp.Abs, sp.Max, sp.Min, sp.Piecewise, sp.sign, sp.Heaviside):
            return False
        return any(sp.diff(self.expression, score, 2).has(sp.DiracDelta) for score in self.scores)

    @property
    def _codes(self) -> int:
        return len(self.tables) or int(self.configurations > 0)

    @property
    def _pairs(self) -> list[tuple[int, int]]:
        if not self.variances:
            return []
        return list(itertools.combinations_with_replacement(range(len(self.scores)), 2))

    @functools.cached_property
    def statistics(self) -> tuple[sp.Symbol, ...]:
        """The symbols of the statistics that do not vary with the record."""
        fixed = () if self.covariance == "record" else self.variances
        return (*fixed, *(symbol for group in self.groups for symbol in group.symbols if symbol is not None))

    @functools.cached_property
    def _sums(self) -> dict[str, int]:
        """Where each kind of sum stands in ``sums``."""
        sizes = {
            "slopes": self.number_of_parameters,
            "statistics": len(self.statistics),
            "record": len(self._pairs) * len(self.noisy) if self.covariance == "record" else 0,
            **{f"table{b}": table.outputs * len(table.terms) for b, table in enumerate(self.tables)},
            "configurations": self.configurations * len(self.scores),
            "waves": 0 if self.wave_tables is None else self.wave_tables.number_of_slopes,
        }
        starts, position = {}, 0
        for name, size in sizes.items():
            starts[name] = position
            position += size
        starts["end"] = position
        return starts

    @property
    def number_of_sums(self) -> int:
        """How many sums over records the mean gradient is assembled from."""
        return self._sums["end"]

    # ---- expressions -------------------------------------------------------------------------------------

    @functools.cached_property
    def slopes(self) -> tuple[sp.Expr, ...]:
        """G_U, the factors of x in the gradient."""
        return tuple(sp.diff(self.expression, score) for score in self.scores)

    @functools.cached_property
    def noise_slopes(self) -> tuple[sp.Expr, ...]:
        """G_sigma, the derivatives by the statistics (by the variance of the record's score where it has one)."""
        record = self.variances if self.covariance == "record" else ()
        return tuple(sp.diff(self.expression, symbol) for symbol in (*record, *self.statistics))

    @functools.cache  # noqa: B019  (programs are few and live as long as their kernels)
    def _statements(self, what: str) -> Statements:
        choices: dict[str, Callable[[], tuple[sp.Expr, ...]]] = {
            "loss": lambda: (self.expression,),
            "gradient": lambda: (*self.slopes, *self.noise_slopes, *self._table_slopes()),
            "derivatives": lambda: (self.expression, *self._second_derivatives(), *self.slopes, *self.noise_slopes),
        }
        expressions = choices[what]()
        names = {symbol: f"s{i}" for i, symbol in enumerate(self.variances)}
        start = self.layout.starts["target"]
        variance, gain = self.target_constants
        fixed = {variance: f"noise[{start}]", gain: f"noise[{start + 1}]"}
        start = self.layout.starts["coefficients"]
        fixed |= {symbol: f"noise[{start + i}]" for i, symbol in enumerate(self.coefficients)}
        for g, group in enumerate(self.groups):
            fixed |= {symbol: f"q{g}_{i}" for i, symbol in enumerate(group.symbols) if symbol is not None}
        varying = {score: f"score{k}" for k, score in enumerate(self.scores)} | {
            self.target: "level" if self.has_levels else "y[i]"
        }
        varying |= {symbol: f"l{i}" for i, symbol in enumerate(self.labels)}
        for b, table in enumerate(self.tables):
            varying |= {symbol: f"k{b}_{i}" for i, symbol in enumerate(table.symbols)}
        if self.wave_tables is not None:
            varying |= self.wave_tables.names()
        if self.covariance == "record":
            varying |= names
        else:
            fixed |= names
        return print_statements(expressions, fixed=fixed, varying=varying)

    def _table_slopes(self) -> list[sp.Expr]:
        symbols = [symbol for table in self.tables for symbol in table.symbols]
        if self.wave_tables is not None:
            symbols += [*self.wave_tables.real, *self.wave_tables.imaginary]
        return [sp.diff(self.expression, symbol) for symbol in symbols]

    def _second_derivatives(self) -> list[sp.Expr]:
        by = (*self.scores, *(self.variances if self.covariance == "record" else ()), *self.statistics)
        first = (*self.slopes, *self.noise_slopes)
        return [sp.diff(slope, by[j]) for i, slope in enumerate(first) for j in range(i, len(by))]

    # ---- code --------------------------------------------------------------------------------------------

    def _place(self, text: str) -> str:
        """Return the place of the parameter of a linear column, as text for a loop over columns."""
        if self.linear == tuple(range(len(self.linear))):
            return text
        return f"({', '.join(map(str, self.linear))},)[{text}]"

    def guard(self) -> str:
        """Return lines that compute ``variance`` and ``reach`` for ``theta``.

        They are the largest noise variance of a score, and the largest of sum_k |theta_kj| over the tail rate of
        column j.
        """
        p, q = len(self.linear), self.parameters
        lines = ["variance = 0.0", "reach = 0.0"]
        if self.variances:
            start = self.layout.starts["covariance"]
            lines.append(f"for k in range({len(self.scores)}):")
            lines += ["    spread = 0.0", f"    for j in range({p}):"]
            if self.covariance == "full":
                lines += [
                    f"        for l in range({p}):",
                    f"            spread += noise[{start} + j*{p} + l]*theta[k*{q} + {self._place('j')}]"
                    f"*theta[k*{q} + {self._place('l')}]",
                ]
            else:
                weight = f"theta[k*{q} + {self._place('j')}]"
                lines.append(f"        spread += noise[{start} + j]*({weight}*{weight})")
            lines.append("    variance = spread if spread > variance else variance")
        if self.groups or self.configurations:
            start = self.layout.starts["reach"]
            lines += [
                f"for j in range({p}):",
                "    extent = 0.0",
                f"    for k in range({len(self.scores)}):",
                f"        extent += abs(theta[k*{q} + {self._place('j')}])",
                f"    extent *= noise[{start} + j]",
                "    reach = extent if extent > reach else reach",
            ]
        return "\n".join(lines)

    @functools.cached_property
    def _helpers(self) -> tuple[str, frozenset[str]]:
        parts: list[str] = []
        called: set[str] = set()
        for g, group in enumerate(self.groups):
            text, names = group.functions(f"g{g}", self.layout.starts[f"factors{g}"], self.parameters)
            parts.append(text)
            called |= names
        for b, table in enumerate(self.tables):
            text, names = table.functions(f"t{b}", self.layout.starts[f"channel{b}"])
            parts.append(text)
            called |= names
        if self.wave_tables is not None:
            parts.append(self.wave_tables.functions(self.layout.starts["waves"]))
        return "\n".join(parts), frozenset(called)

    def _before(self, statements: Statements, *, slopes: bool = False) -> list[str]:
        p, q, m = len(self.linear), self.parameters, len(self.scores)
        lines: list[str] = []
        if self.covariance in ("diagonal", "full"):
            start = self.layout.starts["covariance"]
            for i, (a, b) in enumerate(self._pairs):
                lines += [f"s{i} = 0.0", f"for j in range({p}):"]
                left = f"theta[{a * q} + {self._place('j')}]"
                if self.covariance == "diagonal":
                    lines.append(f"    s{i} += noise[{start} + j]*{left}*theta[{b * q} + {self._place('j')}]")
                else:
                    lines.append(f"    for l in range({p}):")
                    right = f"theta[{b * q} + {self._place('l')}]"
                    lines.append(f"        s{i} += noise[{start} + j*{p} + l]*{left}*{right}")
        for g, group in enumerate(self.groups):
            lines += [f"v{g} = np.empty({len(group.symbols)})", f"values_g{g}(theta, noise, v{g})"]
            lines += [f"q{g}_{i} = v{g}[{i}]" for i, symbol in enumerate(group.symbols) if symbol is not None]
        for b, table in enumerate(self.tables):
            lines += [f"k{b} = np.zeros(({table.outputs}, {len(table.terms)}))", f"table_t{b}(theta, noise, k{b})"]
            if _is_selected(table):
                lines += [
                    f"k{b}_{i}_{c} = k{b}[{c}, {i}]" for i in range(len(table.terms)) for c in range(table.outputs)
                ]
        if self.wave_tables is not None:
            lines += self.wave_tables.before(slopes=slopes)
        if self.configurations:
            start = self.layout.starts["offsets"]
            lines += [
                f"shift = np.zeros(({self.configurations}, {m}))",
                f"for a in range({self.configurations}):",
                f"    for k in range({m}):",
                f"        for j in range({q}):",
                f"            shift[a, k] += noise[{start} + a*{q} + j]*theta[k*{q} + j]",
            ]
        return [*lines, *statements.setup]

    def _lookups(self) -> list[str]:
        """Return lines that look up what belongs to record i."""
        p, q = len(self.linear), self.parameters
        lines: list[str] = []
        if self.labels:
            start = self.layout.starts["labels"]
            lines.append("label = int(y[i])")
            lines += [f"l{i} = noise[{start} + label*{len(self.labels)} + {i}]" for i in range(len(self.labels))]
        for b, table in enumerate(self.tables):
            if _is_selected(table):
                lines.append(f"c{b} = X[i, {p + b}]")
                lines += [f"k{b}_{i} = {_selection(f'c{b}', f'k{b}_{i}', table)}" for i in range(len(table.symbols))]
                continue
            lines.append(f"c{b} = int(X[i, {p + b}])")
            lines += [f"k{b}_{i} = k{b}[c{b}, {i}]" for i in range(len(table.symbols))]
        if self.wave_tables is not None:
            lines += self.wave_tables.lookups(p)
        if self.configurations:
            lines.append(f"joint = int(X[i, {p}])")
            lines += [f"joint = joint*{self.label_codes} + int(y[i])"] if self.has_levels else []
        if self.covariance == "record":
            first = p + self._codes
            for i, (a, b) in enumerate(self._pairs):
                terms = [
                    f"X[i, {first + g}]*theta[{a * q + self.linear[column]}]*theta[{b * q + self.linear[column]}]"
                    for g, column in enumerate(self.noisy)
                ]
                lines.append(f"s{i} = {' + '.join(terms) or '0.0'}")
        return lines

    def _scores(self, *, unrolled: bool) -> list[str]:
        p, q = len(self.linear), self.parameters
        lines = []
        for k in range(len(self.scores)):
            last = "0.0" if self.intercept is None else f"theta[{k * q + self.intercept}]"
            if unrolled:
                terms = [f"t{k}_{j}*X[i, {j}]" for j in range(p)]
                if self.intercept is not None or not terms:
                    terms.append(last)
                lines.append(f"base{k} = {' + '.join(terms)}")
            else:
                lines += [
                    f"base{k} = {last}",
                    f"for j in range({p}):",
                    f"    base{k} += theta[{k * q} + {self._place('j')}]*X[i, j]",
                ]
        return lines

    def _each(self, statements: Statements, inside: Sequence[str]) -> list[str]:
        """Return lines that run the record's statements once, or for each configuration with its weight."""
        body = [*statements.record, *inside]
        if not self.configurations:
            return [*(f"score{k} = base{k}" for k in range(len(self.scores))), *body]
        start = self.layout.starts["weights"]
        return [
            f"for a in range({self.configurations}):",
            f"    share = noise[{start} + joint*{self.configurations} + a]",
            *([f"    level = noise[{self.layout.starts['levels']} + a]"] if self.has_levels else []),
            *(f"    score{k} = base{k} + shift[a, {k}]" for k in range(len(self.scores))),
            *("    " + line for line in body),
        ]

    def loss(self) -> RecordCode:
        """Return the code of the loss of one record."""
        statements = self._statements("loss")
        share = "share*" if self.configurations else ""
        inside = [
            *self._scores(unrolled=False),
            *self._lookups(),
            *self._each(statements, [f"value += {share}({statements.results[0]})"]),
        ]
        helpers, called = self._helpers
        return RecordCode(
            "\n".join(self._before(statements)), "\n".join(inside), statements.functions | called, helpers
        )

    def accumulate(self, *, weighted: bool) -> Piece:
        """Return the body that adds the gradient sums of rows start to stop to ``sums``."""
        statements = self._statements("gradient")
        p, q, m = len(self.linear), self.parameters, len(self.scores)
        weight = "*weights[i]" if weighted else ""
        share = "*share" if self.configurations else ""
        slopes, rest = statements.results[:m], statements.results[m:]
        records = len(self._pairs) if self.covariance == "record" else 0
        by_record, by_statistic = rest[:records], rest[records : records + len(self.statistics)]
        by_table = rest[records + len(self.statistics) :]
        waves = 0 if self.wave_tables is None else len(self.wave_tables.real)
        by_table, by_wave = by_table[: len(by_table) - 2 * waves], by_table[len(by_table) - 2 * waves :]
        inside = []
        for k, slope in enumerate(slopes):
            inside.append(f"part{k} = ({slope}){share}{weight}")
            inside.append(f"slope{k} {'+' if self.configurations else ''}= part{k}")
            if self.configurations:
                inside.append(f"sums[{self._sums['configurations']} + a*{m} + {k}] += part{k}")
        inside += [f"d{n} += ({text}){share}{weight}" for n, text in enumerate(by_statistic)]
        for n, text in enumerate(by_record):
            inside.append(f"bend{n} {'+' if self.configurations else ''}= ({text}){share}{weight}")
        inside += self._by_category(by_table, weight)
        if self.wave_tables is not None:
            inside += [f"wave_part[{n // waves}, {n % waves}] = ({text}){weight}" for n, text in enumerate(by_wave)]
            inside += self.wave_tables.collect()
        zero = [f"slope{k} = 0.0" for k in range(m)] + [f"bend{n} = 0.0" for n in range(records)]
        each = [*(zero if self.configurations else []), *self._each(statements, inside)]
        first = p + self._codes
        for n in range(records):
            each += [f"b{n}_{g} += bend{n}*X[i, {first + g}]" for g in range(len(self.noisy))]
        before = [
            *self._before(statements, slopes=True),
            *(f"d{n} = 0.0" for n in range(len(by_statistic))),
            *(f"b{n}_{g} = 0.0" for n in range(records) for g in range(len(self.noisy))),
            *(f"total{k} = 0.0" for k in range(m)),
        ]
        after = [f"sums[{self._sums['statistics'] + n}] += d{n}" for n in range(len(by_statistic))]
        after += [
            f"sums[{self._sums['record'] + n * len(self.noisy) + g}] += b{n}_{g}"
            for n in range(records)
            for g in range(len(self.noisy))
        ]
        before += [f"held = np.empty(({len(by_table)}, {BLOCK}))"] if by_table else []
        before += [
            f"a{b}_{i}_{c} = 0.0"
            for b, table in enumerate(self.tables)
            if _is_selected(table)
            for i in range(len(table.terms))
            for c in range(table.outputs)
        ]
        after += self._deal_out()
        if self.wave_tables is not None:
            slopes_of = self.wave_tables.number_of_slopes
            after += [f"for n in range({slopes_of}):", f"    sums[{self._sums['waves']} + n] += wave_sums[n]"]
        if self.intercept is not None:
            after += [f"sums[{k * q + self.intercept}] += total{k}" for k in range(m)]
        lines = (self._unrolled if m * p <= _MOST_UNROLLED else self._looped)(before, each, after)
        helpers, called = self._helpers
        return Piece("\n".join(lines), statements.functions | called, helpers)

    def _by_category(self, by_table: Sequence[str], weight: str) -> list[str]:
        """Return lines that keep the derivatives by looked-up factors apart by category.

        Few categories are summed one by one under a condition, which vectorises. For many the derivatives are held
        first and dealt out afterwards: adding to memory here would keep the loop from vectorising.
        """
        lines: list[str] = []
        place = 0
        for b, table in enumerate(self.tables):
            for i in range(len(table.terms)):
                text = f"({by_table[place]}){weight}"
                if _is_selected(table):
                    lines.append(f"w{place} = {text}")
                    lines += [f"a{b}_{i}_{c} += w{place} if c{b} == {float(c)} else 0.0" for c in range(table.outputs)]
                else:
                    lines.append(f"held[{place}, i - start] = {text}")
                place += 1
        return lines

    def _deal_out(self) -> list[str]:
        """Return lines that add what was kept for each category to its sums."""
        lines: list[str] = []
        place = 0
        for b, table in enumerate(self.tables):
            size = len(table.terms)
            if _is_selected(table):
                lines += [
                    f"sums[{self._sums[f'table{b}'] + c * size + i}] += a{b}_{i}_{c}"
                    for i in range(size)
                    for c in range(table.outputs)
                ]
                place += size
                continue
            lines += ["for i in range(start, stop):", f"    c = int(X[i, {len(self.linear) + b}])"]
            for i in range(size):
                lines.append(f"    sums[{self._sums[f'table{b}']} + c*{size} + {i}] += held[{place}, i - start]")
                place += 1
        return lines

    def _unrolled(self, before: list[str], each: list[str], after: list[str]) -> list[str]:
        p, q, m = len(self.linear), self.parameters, len(self.scores)
        both = [(k, j) for k in range(m) for j in range(p)]
        inside = [
            *self._scores(unrolled=True),
            *self._lookups(),
            *each,
            *(f"g{k}_{j} += slope{k}*X[i, {j}]" for k, j in both),
            *(f"total{k} += slope{k}" for k in range(m) if self.intercept is not None),
        ]
        return [
            *before,
            *(f"t{k}_{j} = theta[{k * q + self.linear[j]}]" for k, j in both),
            *(f"g{k}_{j} = 0.0" for k, j in both),
            "for i in range(start, stop):",
            *("    " + line for line in inside),
            *(f"sums[{k * q + self.linear[j]}] += g{k}_{j}" for k, j in both),
            *after,
        ]

    def _looped(self, before: list[str], each: list[str], after: list[str]) -> list[str]:
        p, q, m = len(self.linear), self.parameters, len(self.scores)
        lines = [*before, f"kept = np.empty(({m}, {BLOCK}))", f"local = np.zeros(({m}, {p}))"]
        lines.append("for i in range(start, stop):")
        lines += ["    " + line for line in self._scores(unrolled=False)]
        lines += [f"    kept[{k}, i - start] = base{k}" for k in range(m)]
        lines.append("for i in range(start, stop):")
        lines += [f"    base{k} = kept[{k}, i - start]" for k in range(m)]
        lines += ["    " + line for line in (*self._lookups(), *each)]
        lines += [f"    kept[{k}, i - start] = slope{k}" for k in range(m)]
        lines += [f"    total{k} += slope{k}" for k in range(m)]
        lines.append("for i in range(start, stop):")
        for k in range(m):
            lines += [
                f"    slope{k} = kept[{k}, i - start]",
                f"    for j in range({p}):",
                f"        local[{k}, j] += slope{k}*X[i, j]",
            ]
        for k in range(m):
            lines += [f"for j in range({p}):", f"    sums[{k * q} + {self._place('j')}] += local[{k}, j]"]
        return [*lines, *after]

    def accumulate_clipped(self) -> Piece:
        """Return the body that adds the clipped gradients of ``rows[start:stop]`` to ``sums``; for plain losses.

        The gradient of a record is the outer product of its slopes and its row, with the norm of the one times that of
        the other: nothing but its slopes is kept of it.
        """
        assert not self.statistics
        assert not self.configurations
        assert not self.has_lookups
        assert self.covariance != "record"
        statements = self._statements("gradient")
        m = len(self.scores)
        constant = "0.0" if self.intercept is None else "theta[{}]"
        lines = [
            *self._before(statements),
            f"kept = np.empty(({m}, {BLOCK}))",
            "count = stop - start",
            *self._score_rows(constant),
            "for place in range(count):",
            "    i = rows[start + place]",
            *(f"    base{k} = kept[{k}, place]" for k in range(m)),
            *("    " + line for line in (*self._lookups(), *self._each(statements, []))),
            *(f"    slope{k} = {text}" for k, text in enumerate(statements.results[:m])),
            *("    " + line for line in clipped_share(f"norms[i]*{norm([f'slope{k}' for k in range(m)])}")),
            *(f"    kept[{k}, place] = share*slope{k} if share > 0.0 else 0.0" for k in range(m)),
        ]
        lines += self._add_rows()
        return Piece("\n".join(lines), statements.functions)

    def _add_rows(self) -> list[str]:
        """Return lines that add the rows to ``sums``, each times what is ``kept`` of it, taken as by `_score_rows`."""
        p, q, m = len(self.linear), self.parameters, len(self.scores)
        lines: list[str] = []
        for scores in _groups(m):
            lines += [
                "for place in range(0, count - 1, 2):",
                "    left, right = X[rows[start + place]], X[rows[start + place + 1]]",
                *(f"    a{k}, b{k} = kept[{k}, place], kept[{k}, place + 1]" for k in scores),
                f"    for j in range({p}):",
                *(f"        sums[{k * q} + {self._place('j')}] += a{k}*left[j] + b{k}*right[j]" for k in scores),
                "if count % 2 == 1:",
                "    left = X[rows[stop - 1]]",
                *(f"    a{k} = kept[{k}, count - 1]" for k in scores),
                f"    for j in range({p}):",
                *(f"        sums[{k * q} + {self._place('j')}] += a{k}*left[j]" for k in scores),
            ]
        if self.intercept is not None:
            lines.append("for place in range(count):")
            lines += [f"    sums[{k * q + self.intercept}] += kept[{k}, place]" for k in range(m)]
        return lines

    def _score_rows(self, constant: str) -> list[str]:
        """Return lines that fill ``kept`` with the scores of ``rows[start:stop]``, two rows and some scores at a time.

        So many sums are in registers at once that a load of a parameter or a column serves several of them.
        """
        p, q, m = len(self.linear), self.parameters, len(self.scores)
        lines: list[str] = []
        for scores in _groups(m):
            lines += [
                "for place in range(0, count, 2):",
                # The last row of an odd number is taken twice.
                "    other = min(place + 1, count - 1)",
                "    left, right = X[rows[start + place]], X[rows[start + other]]",
            ]
            for k in scores:
                begin = constant.format(k * q + (self.intercept or 0))
                lines.append(f"    a{k} = b{k} = {begin}")
            lines += [f"    for j in range({p}):"]
            for k in scores:
                lines += [
                    f"        weight = theta[{k * q} + {self._place('j')}]",
                    f"        a{k} += weight*left[j]",
                    f"        b{k} += weight*right[j]",
                ]
            lines += [f"    kept[{k}, other], kept[{k}, place] = b{k}, a{k}" for k in scores]
        return lines

    def assemble(self) -> Piece:
        """Return the body that makes the mean gradient out of ``sums`` and ``total``."""
        p, q, m = len(self.linear), self.parameters, len(self.scores)
        lines = [f"for j in range({m * q}):", "    gradient[j] = sums[j]"]
        start, place = self.layout.starts["covariance"], self._place("j")
        for i, (a, b) in enumerate(self._pairs):
            if self.covariance == "record":
                for g, column in enumerate(self.noisy):
                    summed = f"sums[{self._sums['record'] + i * len(self.noisy) + g}]"
                    left, right = a * q + self.linear[column], b * q + self.linear[column]
                    lines.append(f"gradient[{left}] += {summed}*theta[{right}]")
                    lines.append(f"gradient[{right}] += {summed}*theta[{left}]")
                continue
            summed = f"sums[{self._sums['statistics'] + i}]"
            if self.covariance == "diagonal" and a == b:
                lines += [
                    f"for j in range({p}):",
                    f"    gradient[{a * q} + {place}] += 2.0*{summed}*noise[{start} + j]*theta[{a * q} + {place}]",
                ]
                continue
            lines.append(f"for j in range({p}):")
            if self.covariance == "diagonal":
                lines += [
                    f"    gradient[{a * q} + {place}] += {summed}*noise[{start} + j]*theta[{b * q} + {place}]",
                    f"    gradient[{b * q} + {place}] += {summed}*noise[{start} + j]*theta[{a * q} + {place}]",
                ]
            else:
                other = self._place("l")
                lines += [
                    f"    for l in range({p}):",
                    f"        entry = {summed}*noise[{start} + j*{p} + l]",
                    f"        gradient[{a * q} + {place}] += entry*theta[{b * q} + {other}]",
                    f"        gradient[{b * q} + {place}] += entry*theta[{a * q} + {other}]",
                ]
        position = self._sums["statistics"] + (0 if self.covariance == "record" else len(self._pairs))
        for g, group in enumerate(self.groups):
            size = len(group.symbols)
            lines += [f"jacobian{g} = np.zeros(({size}, {m * q}))", f"jacobian_g{g}(theta, noise, jacobian{g})"]
            for i, symbol in enumerate(group.symbols):
                if symbol is not None:
                    lines += [
                        f"for j in range({m * q}):",
                        f"    gradient[j] += sums[{position}]*jacobian{g}[{i}, j]",
                    ]
                    position += 1
        if self.wave_tables is not None:
            lines += self.wave_tables.assemble(self._sums["waves"])
        for b, _ in enumerate(self.tables):
            lines.append(f"table_gradient_t{b}(theta, noise, sums, {self._sums[f'table{b}']}, gradient)")
        if self.configurations:
            offsets, found = self.layout.starts["offsets"], self._sums["configurations"]
            lines += [
                f"for a in range({self.configurations}):",
                f"    for k in range({m}):",
                f"        for j in range({q}):",
                f"            gradient[k*{q} + j] += sums[{found} + a*{m} + k]*noise[{offsets} + a*{q} + j]",
            ]
        lines += [f"for j in range({m * q}):", "    gradient[j] /= total"]
        helpers, called = self._helpers
        return Piece("\n".join(lines), called, helpers)

    def derivatives(self, *, weighted: bool) -> Piece:
        """Return the body that makes the mean loss, gradient, Hessian and outer product of gradients in one pass.

        With J the Jacobian of the statistics the Hessian is the mean of G_UU x x' + x G_Us J + (x G_Us J)' + J' G_ss J
        plus G_s times the second derivatives of the statistics; summed over configurations, whose rows are x plus an
        offset. What multiplies x is kept for a block of records, whose columns then stand in a tile: moments of columns
        against columns vectorise. Looked-up factors have no Hessian: such programs are derived again with
        configurations.
        """
        assert not self.has_lookups
        statements = self._statements("derivatives")
        p, q, m = len(self.linear), self.parameters, len(self.scores)
        records = len(self._pairs) if self.covariance == "record" else 0
        fixed = len(self.statistics)
        count = m + records + fixed
        index = {pair: n for n, pair in enumerate((i, j) for i in range(count) for j in range(i, count))}
        second = statements.results[1 : 1 + len(index)]
        first = statements.results[1 + len(index) :]
        weight = ("*weights[i]" if weighted else "") + ("*share" if self.configurations else "")
        pairs = list(itertools.combinations_with_replacement(range(m), 2))
        # What multiplies x once: slopes, then the mixed derivatives of statistics and scores.
        once = [first[k] for k in range(m)]
        once += [second[index[k, m + records + n]] for n in range(fixed) for k in range(m)]
        twice = [second[index[pair]] for pair in pairs]
        inside = [f"value += ({statements.results[0]}){weight}"]
        for n, text in enumerate((*twice, *once)):
            inside.append(f"part = ({text}){weight}")
            inside.append(f"kept{n} {'+' if self.configurations else ''}= part")
            if not self.configurations:
                continue
            inside.append(f"held[{n}, a] += part")
            if len(twice) <= n < len(twice) + m:
                offset = f"noise[{self.layout.starts['offsets']} + a*{q} + j]"
                inside += [f"for j in range({q}):", f"    moved[{(n - len(twice)) * q} + j] += part*{offset}"]
            if n < len(twice):
                inside += [f"for j in range({p}):", f"    shifted[{n}, a, j] += part*X[i, j]"]
                inside += [] if self.intercept is None else [f"shifted[{n}, a, {p}] += part"]
        for n in range(fixed):
            inside += [
                f"both{n}_{other} += ({second[index[m + records + n, m + records + other]]}){weight}"
                for other in range(n, fixed)
            ]
            inside.append(f"first{n} += ({first[m + records + n]}){weight}")
        if records:
            inside += self._record_derivatives(second, first, index, weight)
        kept = len(twice) + len(once) + fixed
        moving = bool(records or self.configurations)
        inside += [
            f"kept{kept - fixed + n} {'+' if self.configurations else ''}= ({first[m + records + n]}){weight}"
            for n in range(fixed)
        ]
        zero = [f"kept{n} = 0.0" for n in range(kept)] if self.configurations else []
        zero += [f"for j in range({m * q}):", "    moved[j] = 0.0"] if moving else []
        unrolled = m * p <= _MOST_UNROLLED
        each = [
            *self._scores(unrolled=unrolled),
            *self._lookups(),
            *zero,
            *self._each(statements, inside),
            *(f"kept[{n * BLOCK} + i] = kept{n}" for n in range(kept)),
            *([f"for j in range({m * q}):", "    own[i, j] = moved[j]"] if moving else []),
        ]
        rows = p + (self.intercept is not None)
        lines = [
            *self._before(statements),
            *(f"t{k}_{j} = theta[{k * q + self.linear[j]}]" for k in range(m) for j in range(p) if unrolled),
            *([] if self.intercept is None else [f"for i in range({BLOCK}):", f"    tile[{p * BLOCK} + i] = 1.0"]),
            "value = 0.0",
            # Sums in registers: adding to memory would keep the loop over records from vectorising.
            *(f"first{n} = 0.0" for n in range(fixed)),
            *(f"both{n}_{other} = 0.0" for n in range(fixed) for other in range(n, fixed)),
            *(self._jacobian_lines("whole") if moving else []),
            f"for start in range(0, records.shape[0], {BLOCK}):",
            f"    stop = start + {BLOCK} if start + {BLOCK} < records.shape[0] else records.shape[0]",
            "    X, y = records[start:stop], targets[start:stop]",
            "    weights, count = all_weights[start:stop], stop - start",
            "    for i in range(count):",
            *("        " + line for line in each),
            f"    for j in range({p}):",
            "        for i in range(count):",
            f"            tile[j*{BLOCK} + i] = X[i, j]",
            "    add_moments(tile, kept, count, square, line, scaled)",
            "    if meat.shape[0] == 0:",
            "        continue",
            *("    " + text for text in self._outer_products(len(twice), len(once), fixed, moving)),
        ]
        lines += [f"first[{n}] = first{n}" for n in range(fixed)]
        lines += [f"both[{n}, {other}] = both{n}_{other}" for n in range(fixed) for other in range(n, fixed)]
        lines += self._assembled_derivatives(pairs, fixed)
        # Tiles are in one row each, so that the compiler sees at once that they do not overlap with the records.
        workspace: dict[str, tuple[int, ...]] = {
            "tile": (rows * BLOCK,),
            "kept": (kept * BLOCK,),
            "scaled": (BLOCK,),
            "square": (len(twice), rows, rows),
            "line": (len(once), rows),
        }
        if fixed:
            workspace |= {"cross": (fixed, m * q), "jacobian": (fixed, m * q), "both": (fixed, fixed)}
            workspace |= {"first": (fixed,)}
        if self.configurations:
            workspace |= {"held": (kept, self.configurations), "shifted": (len(twice), self.configurations, rows)}
        if records:
            workspace |= dict.fromkeys(("row", "bent", "shift_row"), (q,))
        if moving:
            workspace |= {"moved": (m * q,), "own": (BLOCK, m * q)} | ({"whole": (fixed, m * q)} if fixed else {})
        else:
            workspace |= {"products": ((len(pairs) + m * fixed) * BLOCK,), "outer": (len(pairs), rows, rows)}
            workspace |= {"outer_line": (m * fixed, rows)} | ({"outer_both": (fixed, fixed)} if fixed else {})
        helpers, called = self._helpers
        return Piece("\n".join(lines), statements.functions | called, helpers + _MOMENTS, tuple(workspace.items()))

    def _outer_products(self, first: int, once: int, fixed: int, moving: bool) -> list[str]:
        """Return lines that add the outer products of the gradients of a block, from what is kept of its records."""
        q, m = self.parameters, len(self.scores)
        if moving:
            # A record's own noise, or its combination of categories, moves its gradient: row by row.
            places = list(self.linear) + ([] if self.intercept is None else [self.intercept])
            return [
                "for i in range(count):",
                *(
                    line
                    for k in range(m)
                    for j, place in enumerate(places)
                    for line in (
                        f"    own[i, {k * q + place}] += kept[{(first + k) * BLOCK} + i]*tile[{j * BLOCK} + i]",
                    )
                ),
                *(
                    (
                        f"    for n in range({fixed}):",
                        f"        for j in range({m * q}):",
                        f"            own[i, j] += kept[({first + once} + n)*{BLOCK} + i]*whole[n, j]",
                    )
                    if fixed
                    else ()
                ),
                f"    for j in range({m * q}):",
                f"        for l in range({m * q}):",
                "            meat[j, l] += own[i, j]*own[i, l]",
            ]
        pairs = list(itertools.combinations_with_replacement(range(m), 2))
        lines = ["for i in range(count):"]
        for n, (a, b) in enumerate(pairs):
            lines.append(
                f"    products[{n * BLOCK} + i] = kept[{(first + a) * BLOCK} + i]*kept[{(first + b) * BLOCK} + i]"
            )
        for k in range(m):
            for n in range(fixed):
                place = len(pairs) + k * fixed + n
                left, right = (first + k) * BLOCK, (first + once + n) * BLOCK
                lines.append(f"    products[{place * BLOCK} + i] = kept[{left} + i]*kept[{right} + i]")
        lines.append("add_moments(tile, products, count, outer, outer_line, scaled)")
        if not fixed:
            return lines
        lines += [
            f"for n in range({fixed}):",
            f"    for o in range(n, {fixed}):",
            "        part = 0.0",
            "        for i in range(count):",
            f"            part += kept[({first + once} + n)*{BLOCK} + i]*kept[({first + once} + o)*{BLOCK} + i]",
            "        outer_both[n, o] += part",
        ]
        return lines

    def _jacobian_lines(self, name: str) -> list[str]:
        """Return lines that add the Jacobian of the statistics to a matrix of zeros."""
        p, q, m = len(self.linear), self.parameters, len(self.scores)
        start, place, other = self.layout.starts["covariance"], self._place("j"), self._place("l")
        lines: list[str] = []
        position = 0
        for a, b in [] if self.covariance == "record" else self._pairs:
            entry = f"noise[{start} + j*{p} + l]" if self.covariance == "full" else f"noise[{start} + j]"
            which = f"range({p})" if self.covariance == "full" else "range(j, j + 1)"
            lines += [
                f"for j in range({p}):",
                f"    for l in {which}:",
                f"        {name}[{position}, {a * q} + {place}] += {entry}*theta[{b * q} + {other}]",
                f"        {name}[{position}, {b * q} + {place}] += {entry}*theta[{a * q} + {other}]",
            ]
            position += 1
        for g, group in enumerate(self.groups):
            size = len(group.symbols)
            lines += [f"jacobian{g} = np.zeros(({size}, {m * q}))", f"jacobian_g{g}(theta, noise, jacobian{g})"]
            for i, symbol in enumerate(group.symbols):
                if symbol is not None:
                    lines.append(f"{name}[{position}] = jacobian{g}[{i}]")
                    position += 1
        return lines

    def _assembled_derivatives(self, pairs: Sequence[tuple[int, int]], fixed: int) -> list[str]:
        """Return lines that put the moments in their places and divide by the total."""
        p, q, m = len(self.linear), self.parameters, len(self.scores)
        rows = p + (self.intercept is not None)
        places = (*self.linear, *(() if self.intercept is None else (self.intercept,)))
        if places == tuple(range(rows)):
            at = {name: name for name in "jl"}
        else:
            at = {name: f"({', '.join(map(str, places))},)[{name}]" for name in "jl"}
        offsets = self.layout.starts["offsets"]
        lines: list[str] = []
        for n, (a, b) in enumerate(pairs):
            block = [
                f"for j in range({rows}):",
                f"    for l in range(j, {rows}):",
                f"        part = square[{n}, j, l]",
                f"        out[{a * q} + {at['j']}, {b * q} + {at['l']}] += part",
                "        if l != j:",
                f"            out[{a * q} + {at['l']}, {b * q} + {at['j']}] += part",
            ]
            if self.configurations:
                block += [
                    f"for a in range({self.configurations}):",
                    f"    for l in range({q}):",
                    f"        other = noise[{offsets} + a*{q} + l]",
                    f"        for j in range({rows}):",
                    f"            out[{a * q} + {at['j']}, {b * q} + l] += shifted[{n}, a, j]*other",
                    f"            out[{a * q} + l, {b * q} + {at['j']}] += shifted[{n}, a, j]*other",
                    f"        for j in range({q}):",
                    f"            out[{a * q} + j, {b * q} + l] += held[{n}, a]*other*noise[{offsets} + a*{q} + j]",
                ]
            lines += block
        for n in range(m + fixed * m):
            k = n % m
            into = f"gradient[{k * q}" if n < m else f"cross[{(n - m) // m}, {k * q}"
            lines += [f"for j in range({rows}):", f"    {into} + {at['j']}] += line[{n}, j]"]
            if self.configurations:
                lines += [
                    f"for a in range({self.configurations}):",
                    f"    for j in range({q}):",
                    f"        {into} + j] += held[{len(pairs) + n}, a]*noise[{offsets} + a*{q} + j]",
                ]
        for a, b in itertools.combinations(range(m), 2):
            lines += [
                f"for j in range({q}):",
                f"    for l in range({q}):",
                f"        out[{b * q} + l, {a * q} + j] = out[{a * q} + j, {b * q} + l]",
            ]
        lines += self._statistics_hessian(fixed)
        if self.covariance != "record" and not self.configurations:
            lines += ["if meat.shape[0] > 0:"]
            for n, (a, b) in enumerate(pairs):
                lines += [
                    f"    for j in range({rows}):",
                    f"        for l in range(j, {rows}):",
                    f"            part = outer[{n}, j, l]",
                    f"            meat[{a * q} + {at['j']}, {b * q} + {at['l']}] += part",
                ]
                lines += [f"            meat[{b * q} + {at['l']}, {a * q} + {at['j']}] += part"] if a != b else []
                lines += [
                    "            if l != j:",
                    f"                meat[{a * q} + {at['l']}, {b * q} + {at['j']}] += part",
                ]
                lines += [f"                meat[{b * q} + {at['j']}, {a * q} + {at['l']}] += part"] if a != b else []
            for k in range(m if fixed else 0):
                lines += [
                    f"    for n in range({fixed}):",
                    f"        for j in range({rows}):",
                    f"            for l in range({m * q}):",
                    f"                part = outer_line[{k * fixed} + n, j]*jacobian[n, l]",
                    f"                meat[{k * q} + {at['j']}, l] += part",
                    f"                meat[l, {k * q} + {at['j']}] += part",
                ]
            lines += (
                []
                if not fixed
                else [
                    f"    for n in range({fixed}):",
                    f"        for o in range(n, {fixed}):",
                    f"            for j in range({m * q}):",
                    f"                for l in range({m * q}):",
                    "                    part = outer_both[n, o]*jacobian[n, j]*jacobian[o, l]",
                    "                    meat[j, l] += part",
                    "                    if o != n:",
                    "                        meat[l, j] += part",
                ]
            )
        return [
            *lines,
            "for j in range(meat.shape[0]):",
            "    for l in range(meat.shape[0]):",
            "        meat[j, l] /= total",
            f"for j in range({m * q}):",
            *([f"    for n in range({fixed}):", "        gradient[j] += first[n]*jacobian[n, j]"] if fixed else []),
            "    gradient[j] /= total",
            f"    for l in range({m * q}):",
            "        out[j, l] /= total",
            "return value/total",
        ]

    def _record_derivatives(
        self, second: Sequence[str], first: Sequence[str], index: dict[tuple[int, int], int], weight: str
    ) -> list[str]:
        """Return lines for a noise variance of the record's own, of one score: its gradient is 2 V theta."""
        p, q, start = len(self.linear), self.parameters, len(self.linear) + self._codes
        places = [(self.linear[column], start + g) for g, column in enumerate(self.noisy)]
        fixed = len(self.statistics)
        offsets = self.layout.starts["offsets"]
        row = [f"row[{self.linear[j]}] = X[i, {j}]" for j in range(p)]
        row += [] if self.intercept is None else [f"row[{self.intercept}] = 1.0"]
        moved = f" + noise[{offsets} + a*{q} + j]" if self.configurations else ""
        return [
            *row,
            f"for j in range({q}):",
            f"    shift_row[j] = row[j]{moved}",
            *(f"bent[{place}] = 2.0*X[i, {column}]*theta[{place}]" for place, column in places),
            f"mixed, twice = ({second[index[0, 1]]}){weight}, ({second[index[1, 1]]}){weight}",
            f"once = ({first[1]}){weight}",
            f"for j in range({q}):",
            "    gradient[j] += once*bent[j]",
            "    moved[j] += once*bent[j]",
            f"    for l in range({q}):",
            "        out[j, l] += mixed*(shift_row[j]*bent[l] + bent[j]*shift_row[l]) + twice*bent[j]*bent[l]",
            *(f"out[{place}, {place}] += 2.0*once*X[i, {column}]" for place, column in places),
            *(
                line
                for n in range(fixed)
                for line in (
                    f"mixed = ({second[index[1, 2 + n]]}){weight}",
                    f"for j in range({q}):",
                    f"    cross[{n}, j] += mixed*bent[j]",
                )
            ),
        ]

    def _statistics_hessian(self, fixed: int) -> list[str]:
        """Return lines that fill the Jacobian of the statistics and add their share of the Hessian."""
        p, q, m = len(self.linear), self.parameters, len(self.scores)
        start, place, other = self.layout.starts["covariance"], self._place("j"), self._place("l")
        lines = self._jacobian_lines("jacobian")
        position = 0
        for a, b in [] if self.covariance == "record" else self._pairs:
            entry = f"noise[{start} + j*{p} + l]" if self.covariance == "full" else f"noise[{start} + j]"
            which = f"range({p})" if self.covariance == "full" else "range(j, j + 1)"
            lines += [
                f"for j in range({p}):",
                f"    for l in {which}:",
                f"        out[{a * q} + {place}, {b * q} + {other}] += first[{position}]*{entry}",
                f"        out[{b * q} + {place}, {a * q} + {other}] += first[{position}]*{entry}",
            ]
            position += 1
        for g, group in enumerate(self.groups):
            lines.append(f"weights{g} = np.zeros({len(group.symbols)})")
            for i, symbol in enumerate(group.symbols):
                if symbol is not None:
                    lines.append(f"weights{g}[{i}] = first[{position}]")
                    position += 1
            lines.append(f"second_g{g}(theta, noise, weights{g}, out)")
        if not fixed:
            return lines
        lines += [
            f"for n in range({fixed}):",
            f"    for j in range({m * q}):",
            f"        for l in range({m * q}):",
            "            out[j, l] += cross[n, j]*jacobian[n, l] + jacobian[n, j]*cross[n, l]",
            f"    for o in range(n, {fixed}):",
            f"        for j in range({m * q}):",
            f"            for l in range({m * q}):",
            "                product = both[n, o]*jacobian[n, j]*jacobian[o, l]",
            "                out[j, l] += product",
            "                if o != n:",
            "                    out[l, j] += product",
        ]
        return lines


def _groups(scores: int) -> list[range]:
    return [range(first, min(first + _SCORES_AT_ONCE, scores)) for first in range(0, scores, _SCORES_AT_ONCE)]


def _is_selected(table: ChannelTable) -> bool:
    return table.outputs <= _MOST_SELECTED


def _selection(code: str, name: str, table: ChannelTable) -> str:
    """Return the entry of a table that belongs to a code, as a chain of conditions."""
    text = f"{name}_{table.outputs - 1}"
    for c in range(table.outputs - 2, -1, -1):
        text = f"({name}_{c} if {code} == {float(c)} else {text})"
    return text
