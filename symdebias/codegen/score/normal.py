"""Normal noise of the columns: the noise covariance of the scores, for all records or of each record's own."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import sympy as sp

from symdebias.codegen.score.columns import ScoreColumns
from symdebias.codegen.score.statistic import Collected, Place, Statistic


@dataclass(frozen=True)
class NormalNoise(Statistic):
    """Normal noise that is the same for all records: the covariance Theta V Theta' of the scores.

    Attributes
    ----------
    variances : tuple of sympy.Symbol
        The noise covariance of the scores, its upper triangle row by row.
    full : bool
        Whether V is a matrix, or a variance for each linear column.
    """

    variances: tuple[sp.Symbol, ...]
    full: bool = False
    rank: ClassVar[int] = 2

    @property
    def symbols(self) -> tuple[sp.Symbol, ...]:
        """The noise covariance of the scores."""
        return self.variances

    def blocks(self, columns: ScoreColumns, number: int) -> list[tuple[str, int]]:
        """Return the place of V."""
        return [("covariance", len(columns.linear) ** (2 if self.full else 1))]

    def fixed_names(self, at: Place) -> dict[sp.Symbol, str]:
        """Return the names of the scores' noise covariances."""
        return {symbol: f"s{i}" for i, symbol in enumerate(self.variances)}

    def guard(self, at: Place) -> list[str]:
        """Return lines that compute the largest noise variance of a score."""
        p, q, m = at.columns.sizes
        place, other = at.columns.place("j"), at.columns.place("l")
        if not self.full:
            return diagonal_guard(at)
        return [
            f"for k in range({m}):",
            "    spread = 0.0",
            f"    for j in range({p}):",
            f"        for l in range({p}):",
            f"            spread += noise[{at.noise} + j*{p} + l]*theta[k*{q} + {place}]*theta[k*{q} + {other}]",
            "    variance = spread if spread > variance else variance",
        ]

    def before(self, at: Place, *, slopes: bool) -> list[str]:
        """Return lines that compute the covariances."""
        p, lines = len(at.columns.linear), []
        for i, (a, b) in enumerate(_pairs(at)):
            left = at.columns.theta(a, "j")
            lines += [f"s{i} = 0.0", f"for j in range({p}):"]
            if self.full:
                lines.append(f"    for l in range({p}):")
                lines.append(f"        s{i} += noise[{at.noise} + j*{p} + l]*{left}*{at.columns.theta(b, 'l')}")
            else:
                lines.append(f"    s{i} += noise[{at.noise} + j]*{left}*{at.columns.theta(b, 'j')}")
        return lines

    def assemble(self, at: Place) -> list[str]:
        """Return lines that add V theta times the sums, twice for a variance."""
        p, q, _ = at.columns.sizes
        place, lines = at.columns.place("j"), []
        for i, (a, b) in enumerate(_pairs(at)):
            left, right, summed = f"gradient[{a * q} + {place}]", f"gradient[{b * q} + {place}]", at.summed(i)
            lines.append(f"for j in range({p}):")
            if self.full:
                lines += [
                    f"    for l in range({p}):",
                    f"        entry = {summed}*noise[{at.noise} + j*{p} + l]",
                    f"        {left} += entry*{at.columns.theta(b, 'l')}",
                    f"        {right} += entry*{at.columns.theta(a, 'l')}",
                ]
            elif a == b:
                lines.append(f"    {left} += 2.0*{summed}*noise[{at.noise} + j]*{at.columns.theta(a, 'j')}")
            else:
                lines += [
                    f"    {left} += {summed}*noise[{at.noise} + j]*{at.columns.theta(b, 'j')}",
                    f"    {right} += {summed}*noise[{at.noise} + j]*{at.columns.theta(a, 'j')}",
                ]
        return lines

    def jacobian(self, at: Place, into: str) -> list[str]:
        """Return lines that add V theta to both rows of a covariance."""
        return [
            line
            for i, (a, b) in enumerate(_pairs(at))
            for line in (
                *self._loop(at),
                f"        {into}[{at.symbol + i}, {self._entry(at, a, 'j')}] += "
                f"{self._noise(at)}*{at.columns.theta(b, 'l')}",
                f"        {into}[{at.symbol + i}, {self._entry(at, b, 'j')}] += "
                f"{self._noise(at)}*{at.columns.theta(a, 'l')}",
            )
        ]

    def second_derivatives(self, at: Place) -> list[str]:
        """Return lines that add V, times the first derivatives by the covariances."""
        return [
            line
            for i, (a, b) in enumerate(_pairs(at))
            for line in (
                *self._loop(at),
                f"        out[{self._entry(at, a, 'j')}, {self._entry(at, b, 'l')}] += "
                f"first[{at.symbol + i}]*{self._noise(at)}",
                f"        out[{self._entry(at, b, 'j')}, {self._entry(at, a, 'l')}] += "
                f"first[{at.symbol + i}]*{self._noise(at)}",
            )
        ]

    def _loop(self, at: Place) -> list[str]:
        p = len(at.columns.linear)
        return [f"for j in range({p}):", f"    for l in {f'range({p})' if self.full else 'range(j, j + 1)'}:"]

    def _noise(self, at: Place) -> str:
        return f"noise[{at.noise} + j*{len(at.columns.linear)} + l]" if self.full else f"noise[{at.noise} + j]"

    @staticmethod
    def _entry(at: Place, score: int, column: str) -> str:
        return f"{score * at.columns.parameters} + {at.columns.place(column)}"


@dataclass(frozen=True)
class RecordNoise(Statistic):
    """Normal noise of the one score with variances that each record has of its own, in the last columns of X.

    Attributes
    ----------
    variance : sympy.Symbol
        The noise variance of the score.
    noisy : tuple of int
        Which linear columns have such a variance.
    """

    variance: sp.Symbol
    noisy: tuple[int, ...]
    rank: ClassVar[int] = 2

    @property
    def record_symbols(self) -> tuple[sp.Symbol, ...]:
        """The noise variance of the score."""
        return (self.variance,)

    @property
    def variance_columns(self) -> int:
        """The number of columns with a variance of each record's own."""
        return len(self.noisy)

    def blocks(self, columns: ScoreColumns, number: int) -> list[tuple[str, int]]:
        """Return the place of variances for the guard."""
        return [("covariance", len(columns.linear))]

    def number_of_sums(self, columns: ScoreColumns) -> int:
        """Return one sum per column with variances."""
        return len(self.noisy)

    def varying_names(self, at: Place) -> dict[sp.Symbol, str]:
        """Return the name of the variance."""
        return {self.variance: "s0"}

    def guard(self, at: Place) -> list[str]:
        """Return lines that compute the largest noise variance of a score."""
        return diagonal_guard(at)

    def lookups(self, at: Place) -> list[str]:
        """Return a line that computes the variance of record i."""
        terms = [f"{column}*theta[{place}]*theta[{place}]" for place, column in self._columns(at)]
        return [f"s0 = {' + '.join(terms) or '0.0'}"]

    def collect(self, at: Place, slopes: Sequence[str], factor: str, *, enumerated: bool) -> Collected:
        """Return the lines that sum the slope in the variance times the records' own variances."""
        totals = [f"b0_{g}" for g in range(len(self.noisy))]
        return Collected(
            totals=totals,
            reset=["bend0 = 0.0"],
            inside=[f"bend0 {'+' if enumerated else ''}= ({slopes[0]}){factor}"],
            done=[f"{total} += bend0*{column}" for total, (_, column) in zip(totals, self._columns(at), strict=True)],
            after=[f"sums[{at.sums + g}] += {total}" for g, total in enumerate(totals)],
        )

    def assemble(self, at: Place) -> list[str]:
        """Return lines that add the sums times the parameters, twice."""
        return [
            f"gradient[{place}] += sums[{at.sums + g}]*theta[{place}]"
            for g, (place, _) in enumerate(self._columns(at))
            for _ in "ab"
        ]

    def record_derivatives(
        self, at: Place, by_score: Sequence[str], by_symbols: Sequence[str], factor: str, *, moved: str
    ) -> list[str]:
        """Return lines for the variance theta'V theta of record i, whose gradient is 2 V theta."""
        (p, q, _), columns = at.columns.sizes, at.columns
        row = [f"row[{columns.linear[j]}] = X[i, {j}]" for j in range(p)]
        row += [] if columns.intercept is None else [f"row[{columns.intercept}] = 1.0"]
        once, mixed, twice = by_score
        return [
            *row,
            f"for j in range({q}):",
            f"    shift_row[j] = row[j]{moved}",
            *(f"bent[{place}] = 2.0*{column}*theta[{place}]" for place, column in self._columns(at)),
            f"mixed, twice = ({mixed}){factor}, ({twice}){factor}",
            f"once = ({once}){factor}",
            f"for j in range({q}):",
            "    gradient[j] += once*bent[j]",
            "    moved[j] += once*bent[j]",
            f"    for l in range({q}):",
            "        out[j, l] += mixed*(shift_row[j]*bent[l] + bent[j]*shift_row[l]) + twice*bent[j]*bent[l]",
            *(f"out[{place}, {place}] += 2.0*once*{column}" for place, column in self._columns(at)),
            *(
                line
                for n, text in enumerate(by_symbols)
                for line in (
                    f"mixed = ({text}){factor}",
                    f"for j in range({q}):",
                    f"    cross[{n}, j] += mixed*bent[j]",
                )
            ),
        ]

    def _columns(self, at: Place) -> list[tuple[int, str]]:
        """Return the places of the parameters with such variances, and the entries of X that hold them."""
        first = len(at.columns.linear) + at.codes
        return [(at.columns.linear[column], f"X[i, {first + g}]") for g, column in enumerate(self.noisy)]


def diagonal_guard(at: Place) -> list[str]:
    """Return lines that compute the largest noise variance of a score, of a variance for each column."""
    p, q, m = at.columns.sizes
    weight = f"theta[k*{q} + {at.columns.place('j')}]"
    return [
        f"for k in range({m}):",
        "    spread = 0.0",
        f"    for j in range({p}):",
        f"        spread += noise[{at.noise} + j]*({weight}*{weight})",
        "    variance = spread if spread > variance else variance",
    ]


def _pairs(at: Place) -> list[tuple[int, int]]:
    return list(itertools.combinations_with_replacement(range(len(at.columns.scores)), 2))
