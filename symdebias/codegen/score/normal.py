"""Quadratic forms of the parameters: the noise covariance of the scores, for all records or of each record's own.

Normal noise of all columns is one such form, and the noise of each group that is alike in all directions another.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import sympy as sp

from symdebias.codegen.printer import print_statements
from symdebias.codegen.score.columns import ScoreColumns, places_text
from symdebias.codegen.score.directions import Directions
from symdebias.codegen.score.statistic import ZERO, Collected, Needs, Place, RecordSlopes, Share, Statistic


@dataclass(frozen=True)
class QuadraticForm(Statistic):
    """A form Theta V Theta' of the parameters of the scores that is the same for all records."""

    variances: tuple[sp.Symbol, ...]  # Its entries, the upper triangle row by row.
    full: bool = False  # Whether V is a matrix, or a number for each linear column.
    rank: ClassVar[int] = 2

    @property
    def symbols(self) -> tuple[sp.Symbol, ...]:
        """The entries of the form."""
        return self.variances

    def name(self, at: Place, entry: int) -> str:
        """Return what an entry of the form is called in the code."""
        return f"s{entry}"

    def start(self, at: Place) -> str:
        """Return what the sum over columns begins with."""
        return "0.0"

    def guard(self, at: Place) -> list[str]:
        """Return lines that raise what has limits."""
        return []

    def share(self, at: Place) -> Share:
        """Return the covariances, and what V times theta adds to the gradient."""
        columns, (p, q, _) = at.columns, at.columns.sizes
        index = "l" if self.full else "j"
        place, other = columns.place("j"), columns.place(index)
        before = self.sums(at)
        assemble: list[str] = []
        second: list[str] = []
        for i, a, b in self._pairs(at):
            left, right = columns.theta(a, "j"), columns.theta(b, index)
            to_a, to_b = f"gradient[{a * q} + {place}]", f"gradient[{b * q} + {place}]"
            tab = "        " if self.full else "    "
            assemble.append(f"for j in range({p}):")
            if self.full:
                assemble += [
                    f"    for l in range({p}):",
                    f"        entry = {at.summed(i)}*{self.entry(at)}",
                    f"        {to_a} += entry*{right}",
                    f"        {to_b} += entry*{columns.theta(a, 'l')}",
                ]
            elif a == b:
                assemble.append(f"    {to_a} += 2.0*{at.summed(i)}*{self.entry(at)}*{left}")
            else:
                assemble.append(f"    {to_a} += {at.summed(i)}*{self.entry(at)}*{right}")
                assemble.append(f"    {to_b} += {at.summed(i)}*{self.entry(at)}*{left}")
            added = f"first[{at.symbol + i}]*{self.entry(at)}"
            second += [
                *self._loops(at),
                f"{tab}out[{a * q} + {place}, {b * q} + {other}] += {added}",
                f"{tab}out[{b * q} + {place}, {a * q} + {other}] += {added}",
            ]
        return Share(
            {symbol: self.name(at, i) for i, symbol in enumerate(self.variances)},
            guard=self.guard(at),
            before=before,
            assemble=assemble,
            second=second,
        )

    def sums(self, at: Place) -> list[str]:
        """Return lines that compute the entries of the form."""
        columns, lines = at.columns, []
        tab = "        " if self.full else "    "
        for i, a, b in self._pairs(at):
            left, right = columns.theta(a, "j"), columns.theta(b, "l" if self.full else "j")
            lines += [f"{self.name(at, i)} = {self.start(at)}", *self._loops(at)]
            lines.append(f"{tab}{self.name(at, i)} += {self.entry(at)}*{left}*{right}")
        return lines

    def jacobian(self, at: Place, into: str) -> list[str]:
        """Return lines that add V theta to both rows of a covariance."""
        lines, q, place = [], at.columns.parameters, at.columns.place("j")
        index, tab = ("l", "        ") if self.full else ("j", "    ")
        for i, a, b in self._pairs(at):
            lines += self._loops(at)
            for one, other in ((a, b), (b, a)):
                entry = f"{into}[{at.symbol + i}, {one * q} + {place}]"
                lines.append(f"{tab}{entry} += {self.entry(at)}*{at.columns.theta(other, index)}")
        return lines

    def _pairs(self, at: Place) -> list[tuple[int, int, int]]:
        return [(i, a, b) for i, (a, b) in enumerate(_score_pairs(at))]

    def _loops(self, at: Place) -> list[str]:
        p = len(at.columns.linear)
        return [f"for j in range({p}):", *([f"    for l in range({p}):"] if self.full else [])]

    def entry(self, at: Place) -> str:
        """Return the entry of V of a column, or of two, as text for a loop over columns."""
        return f"noise[{at.noise} + j*{len(at.columns.linear)} + l]" if self.full else f"noise[{at.noise} + j]"


@dataclass(frozen=True)
class NormalNoise(QuadraticForm):
    """Normal noise that is the same for all records: the covariance Theta V Theta' of the scores."""

    # What must be positive for several scores, in the entries of the covariance and the noise variance of the target.
    positive: tuple[sp.Expr, ...] = ()
    target_variance: sp.Symbol | None = None

    def needs(self, columns: ScoreColumns, number: int) -> Needs:
        """Return the place of V, and of the noise variance of the target where something must be positive."""
        size = len(columns.linear) ** (2 if self.full else 1)
        return Needs([("covariance", size), *([("beside_scores", 1)] if self.positive else [])])

    def guard(self, at: Place) -> list[str]:
        """Return lines that compute the largest noise variance of a score, infinite where something is not positive."""
        lines = _guard(at, self.entry(at), full=self.full)
        if not self.positive:
            return lines
        fixed = {symbol: self.name(at, i) for i, symbol in enumerate(self.variances)}
        if self.target_variance is not None:
            fixed[self.target_variance] = f"noise[{at.noise + len(at.columns.linear) ** (2 if self.full else 1)}]"
        printed = print_statements(self.positive, fixed=fixed, varying={})
        held = " and ".join(f"{text} > 0.0" for text in printed.results)
        return [
            *lines, *self.sums(at), *printed.setup, *printed.record,
            f"variance = variance if {held} else 1e400",
        ]  # fmt: skip


@dataclass(frozen=True)
class SphericalForm(QuadraticForm):
    """Noise of a group of columns that is alike in all directions: Theta D Theta', with a constant for one score.

    Its block of ``noise`` has the weight of each linear column in the group, 0 for others; the constant; and what the
    root of the form is multiplied with to be held against the limit of the tails, 0 where there is none.
    """

    directions: Directions | None = None  # In which directions scores grow; all of them without.
    kind: ClassVar[str] = "group"

    def needs(self, columns: ScoreColumns, number: int) -> Needs:
        """Return the place of D, the constant and the scale of the tails."""
        return Needs([(f"group{number}", len(columns.linear) + 2)])

    def name(self, at: Place, entry: int) -> str:
        """Return what an entry of the form is called in the code."""
        return f"z{at.number}_{entry}"

    def start(self, at: Place) -> str:
        """Return the constant, which one score alone may have."""
        return f"noise[{at.noise + len(at.columns.linear)}]" if len(at.columns.scores) == 1 else "0.0"

    def guard(self, at: Place) -> list[str]:
        """Return lines that raise ``reach`` by the norm of the parameters in a direction, in tail scales."""
        p, q, m = at.columns.sizes
        if self.directions not in (None, Directions.of_all(m)):
            terms = self.directions.texts(lambda k: at.columns.theta(k, "j"))
            return [line for forms in terms for line in self._guard_of_term(at, forms)]
        theta = f"theta[k*{q} + {at.columns.place('j')}]"
        return [
            "extent = 0.0",
            f"for k in range({m}):",
            f"    spread = {self.start(at)}",
            f"    for j in range({p}):",
            f"        spread += {self.entry(at)}*({theta}*{theta})",
            "    extent += spread**0.5",
            f"extent *= noise[{at.noise + p + 1}]",
            "reach = extent if extent > reach else reach",
        ]

    def _guard_of_term(self, at: Place, forms: Sequence[str]) -> list[str]:
        """Return the lines for the norms of some forms, which are summed; several scores have no constant."""
        p = len(at.columns.linear)
        lines = ["extent = 0.0"]
        for form in forms:
            lines += [
                "spread = 0.0",
                f"for j in range({p}):",
                f"    along = {form}",
                f"    spread += {self.entry(at)}*(along*along)",
                "extent += spread**0.5",
            ]
        return [*lines, f"extent *= noise[{at.noise + p + 1}]", "reach = extent if extent > reach else reach"]


@dataclass(frozen=True)
class RecordNoise(Statistic):
    """Normal noise of the scores with variances that each record has of its own, in the last columns of X.

    The covariance Theta V Theta' of a record's scores is s0, s1, ..., the upper triangle row by row.
    """

    variances: tuple[sp.Symbol, ...]  # The noise covariance of the scores, the upper triangle row by row.
    noisy: tuple[int, ...]  # Which linear columns have such a variance.
    largest: NormalNoise  # Noise as large in each column as that of any record, which limits are held against.
    rank: ClassVar[int] = 2

    @property
    def record_symbols(self) -> tuple[sp.Symbol, ...]:
        """The noise covariance of the scores."""
        return self.variances

    def needs(self, columns: ScoreColumns, number: int) -> Needs:
        """Return the place of what the guard takes, and for each covariance one sum per column with variances."""
        sums = len(self.variances) * len(self.noisy)
        return replace(self.largest.needs(columns, number), sums=sums, variances=len(self.noisy))

    def share(self, at: Place) -> Share:
        """Return the covariance of a record, and what V times theta adds to the gradient."""
        lookups, assemble = [], []
        for i, (a, b) in enumerate(_score_pairs(at)):
            left, right = a * at.columns.parameters, b * at.columns.parameters
            terms = [f"{column}*theta[{left + j}]*theta[{right + j}]" for j, column in self._columns(at)]
            lookups.append(f"s{i} = {' + '.join(terms) or '0.0'}")
            for g, (j, _) in enumerate(self._columns(at)):
                summed = f"sums[{at.sums + i * len(self.noisy) + g}]"
                assemble.append(f"gradient[{left + j}] += {summed}*theta[{right + j}]")
                assemble.append(f"gradient[{right + j}] += {summed}*theta[{left + j}]")
        return Share(
            varying={variance: f"s{i}" for i, variance in enumerate(self.variances)},
            guard=self.largest.guard(at),
            lookups=lookups,
            assemble=assemble,
        )

    def collect(self, at: Place, slopes: Sequence[str], factor: str, *, enumerated: bool) -> Collected:
        """Return the lines that sum the slopes in the covariance times the records' own variances."""
        both = [(i, g) for i in range(len(self.variances)) for g in range(len(self.noisy))]
        columns = [column for _, column in self._columns(at)]
        return Collected(
            totals=[f"b{i}_{g}" for i, g in both],
            accumulated=[f"bend{i}" for i in range(len(self.variances))],
            inside=[f"bend{i} {'+' if enumerated else ''}= ({slope}){factor}" for i, slope in enumerate(slopes)],
            done=[f"b{i}_{g} += bend{i}*{columns[g]}" for i, g in both],
            after=[f"sums[{at.sums + i * len(self.noisy) + g}] += b{i}_{g}" for i, g in both],
        )

    def record_derivatives(self, at: Place, slopes: RecordSlopes, factor: str, *, moved: str) -> list[str]:
        """Return lines for the covariance Theta V Theta' of record i.

        With B its Jacobian, S the row of the record in the block of each score, and F the loss, they add B' F_s to the
        gradient, and to the Hessian W'B + B'W with W = F_ss B/2 + F_su S, and F_s times the second derivatives, which
        are V in the blocks of two scores.
        """
        columns, q, size = at.columns, at.columns.parameters, at.columns.number_of_parameters
        pairs = _score_pairs(at)
        lines = [f"row[{place}] = X[i, {j}]" for j, place in enumerate(columns.linear)]
        lines += [] if columns.intercept is None else [f"row[{columns.intercept}] = 1.0"]
        lines += [f"for j in range({q}):", f"    shift_row[j] = row[j]{moved}"]
        first, place = len(columns.linear) + at.codes, places_text([j for j, _ in self._columns(at)], "g")
        each = [f"for g in range({len(self.noisy)}):", f"    j, own_variance = {place}, X[i, {first} + g]"]
        for i, (a, b) in enumerate(pairs):
            twice = "2.0*" if a == b else ""
            lines += [*each, f"    bent[{i}, {a * q} + j] = {twice}own_variance*theta[{b * q} + j]"]
            lines += [f"    bent[{i}, {b * q} + j] = own_variance*theta[{a * q} + j]"] if a != b else []
        for i, (a, b) in enumerate(pairs):
            lines += [
                f"once = ({slopes.once[i]}){factor}",
                f"for j in range({size}):",
                f"    gradient[j] += once*bent[{i}, j]",
                f"    moved[j] += once*bent[{i}, j]",
                "    pull[j] = 0.0",
            ]
            left, right = f"{a * q} + j", f"{b * q} + j"
            lines += [
                *each,
                f"    out[{left}, {right}] += once*own_variance",
                f"    out[{right}, {left}] += once*own_variance",
            ]
            for other, text in enumerate(slopes.twice[i]):
                if text not in ZERO:
                    lines += [f"part = 0.5*({text}){factor}", f"for j in range({size}):"]
                    lines.append(f"    pull[j] += part*bent[{other}, j]")
            for k, text in enumerate(slopes.with_scores[i]):
                if text not in ZERO:
                    lines += [f"part = ({text}){factor}", f"for j in range({q}):"]
                    lines.append(f"    pull[{k * q} + j] += part*shift_row[j]")
            for block in sorted({a, b}):
                lines += [
                    f"for j in range({block * q}, {block * q + q}):",
                    f"    for l in range({size}):",
                    f"        out[j, l] += bent[{i}, j]*pull[l]",
                    f"        out[l, j] += bent[{i}, j]*pull[l]",
                ]
            for n, text in enumerate(slopes.mixed[i]):
                if text not in ZERO:
                    lines += [f"part = ({text}){factor}", f"for j in range({size}):"]
                    lines.append(f"    cross[{n}, j] += part*bent[{i}, j]")
        return lines

    def _columns(self, at: Place) -> list[tuple[int, str]]:
        """Return the places of the parameters with such variances, and the entries of X that hold them."""
        first = len(at.columns.linear) + at.codes
        return [(at.columns.linear[column], f"X[i, {first + g}]") for g, column in enumerate(self.noisy)]


def _score_pairs(at: Place) -> list[tuple[int, int]]:
    """Return the pairs of scores in the order of the entries of their covariance."""
    return list(itertools.combinations_with_replacement(range(len(at.columns.scores)), 2))


def _guard(at: Place, entry: str, *, full: bool = False) -> list[str]:
    """Return lines that compute the largest noise variance of a score."""
    p, q, m = at.columns.sizes
    row = f"k*{q}" if m > 1 else "0"
    left, right = (f"theta[{row} + {at.columns.place(column)}]" for column in "jl")
    lines = ["spread = 0.0", f"for j in range({p}):"]
    if full:
        lines += [f"    for l in range({p}):", f"        spread += {entry}*{left}*{right}"]
    else:
        lines.append(f"    spread += {entry}*({left}*{left})")
    lines.append("variance = spread if spread > variance else variance")
    return lines if m == 1 else [f"for k in range({m}):", *("    " + line for line in lines)]
