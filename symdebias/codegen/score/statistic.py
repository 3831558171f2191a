"""Statistics: what a corrected loss has of the noise in it, beside scores and target.

A statistic may be the same for a pass over the records, as the noise variance of the score is, or looked up for each of
them. The program asks all of them alike for their share of the generated code; a new one is a new class.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import sympy as sp

from symdebias._arrays import FloatArray
from symdebias.codegen.score.columns import ScoreColumns

# How the printer writes a derivative that is zero.
ZERO = ("0", "0.0", "(0)", "(0.0)")


@dataclass(frozen=True)
class Place:
    """Where a statistic stands in a program."""

    columns: ScoreColumns  # The columns of the scores.
    number: int  # Its number among those of its kind, for the names in the code.
    noise: int  # Where its share of ``noise`` begins.
    symbol: int  # The number of its first symbol among those of all statistics.
    sums: int  # Where its own sums begin in ``sums``.
    # How many columns of X, after the linear ones, hold codes of categories. Variances of the records' own follow.
    codes: int

    def summed(self, symbol: int, index: str = "") -> str:
        """Return the sum over records of the derivative by one of its symbols, or by the one `index` further."""
        return f"sums[{self.columns.number_of_parameters + self.symbol + symbol}{index and f' + {index}'}]"


@dataclass(frozen=True)
class Needs:
    """What a statistic takes."""

    blocks: Sequence[tuple[str, int]] = ()  # Its blocks of ``noise`` with their lengths.
    sums: int = 0  # Sums over records, beside one for each of its `symbols`.
    # Columns of X that hold codes of categories, and variances of the records' own.
    codes: int = 0
    variances: int = 0
    # Whether it works on parts of blocks, of `PART` records at most, and what it keeps of them has a place in ``kept``.
    is_in_parts: bool = False


@dataclass(frozen=True)
class Share:
    """A statistic's share of the generated code: names and lines, none where there is nothing to do."""

    # What stands for symbols that are the same for all records, and for those that vary with the record.
    fixed: Mapping[sp.Symbol, str] = field(default_factory=dict)
    varying: Mapping[sp.Symbol, str] = field(default_factory=dict)
    functions: str = ""  # Functions of its own.
    called: frozenset[str] = frozenset()  # The functions of `elementary` that these call.
    guard: Sequence[str] = ()  # Lines that raise ``variance`` or ``reach``, which have limits.
    before: Sequence[str] = ()  # Lines before a loop over records.
    # What stands in their place where derivatives are summed, if that is something else.
    before_slopes: Sequence[str] | None = None
    # Lines before the loop over the ``many`` records of a part, from the row ``from_row`` of ``X`` on; what they keep
    # has its place in ``kept`` from ``room`` on. And what stands in their place where derivatives are summed.
    of_part: Sequence[str] = ()
    of_part_slopes: Sequence[str] = ()
    lookups: Sequence[str] = ()  # Lines that look up what belongs to record i.
    assemble: Sequence[str] = ()  # Lines that add its share of the gradient, from ``sums``, to ``gradient``.
    second: Sequence[str] = ()  # Lines that add the second derivatives of its `symbols`, times ``first``, to ``out``.


@dataclass(frozen=True)
class Collected:
    """Lines by which a pass over records sums derivatives by what varies with the record."""

    totals: Sequence[str] = ()  # Names of numbers that begin at zero.
    before: Sequence[str] = ()  # Lines before the loop over records.
    accumulated: Sequence[str] = ()  # Names of numbers of a record that are summed over combinations of categories.
    # Lines of a record: for each of these (or once), and after them.
    inside: Sequence[str] = ()
    done: Sequence[str] = ()
    of_part: Sequence[str] = ()  # Lines after the loop over a part.
    after: Sequence[str] = ()  # Lines after the loop, which add to ``sums``.


@dataclass(frozen=True)
class RecordSlopes:
    """The derivatives of the loss of a record by the record symbols of a statistic, as text."""

    once: Sequence[str]  # By each of them.
    with_scores: Sequence[Sequence[str]]  # By each of them and each of the scores.
    mixed: Sequence[Sequence[str]]  # By each of them and each of the symbols of all statistics.
    twice: Sequence[Sequence[str]]  # By two of them.


class Statistic:
    """A statistic that takes nothing and gives nothing: subclasses say what they do."""

    kind: ClassVar[str] = ""  # Statistics of a kind are numbered, where a program may have several.
    rank: ClassVar[int] = 0  # Symbols, and what is looked up for a record, are in the order of the ranks.

    @property
    def symbols(self) -> tuple[sp.Symbol, ...]:
        """What the loss depends on that varies with the parameters and is the same for all records.

        A pass sums derivatives by them; their `jacobian` enters once, at the end.
        """
        return ()

    @property
    def record_symbols(self) -> tuple[sp.Symbol, ...]:
        """What varies with parameters and record; the statistic itself sums derivatives by them."""
        return ()

    def as_kept(self, expression: sp.Expr, score: sp.Symbol) -> sp.Expr:
        """Return the loss in what its `record_symbols` are in kernels, where they depend on the score."""
        return expression

    def by_score(self) -> Mapping[sp.Symbol, sp.Expr]:
        """Return the derivatives by the score of those of its `record_symbols` that depend on it in kernels."""
        return {}

    def needs(self, columns: ScoreColumns, number: int) -> Needs:
        """Return what it takes, as the statistic of its kind with this number."""
        return Needs()

    def share(self, at: Place) -> Share:
        """Return its share of the code."""
        return Share()

    def jacobian(self, at: Place, into: str) -> list[str]:
        """Return lines that add the Jacobian of its `symbols` to their rows of a matrix of zeros."""
        return []

    def collect(self, at: Place, slopes: Sequence[str], factor: str, *, enumerated: bool) -> Collected:
        """Return the lines that sum derivatives, times a factor with its ``*``, by `record_symbols`.

        `enumerated` says whether a record is summed over combinations of categories.
        """
        return Collected()

    def record_derivatives(self, at: Place, slopes: RecordSlopes, factor: str, *, moved: str) -> list[str]:
        """Return lines that add a record's derivatives by its record symbols to gradient and Hessian.

        The derivatives are multiplied with the factor, with its ``*``; `moved` is what a combination of categories adds
        to the row of a record, with its ``+``.
        """
        return []

    def record_sums(self, at: Place, fixed: int) -> dict[str, tuple[int, ...]]:
        """Return the shapes of arrays that `record_derivatives` fills, and of its tables, by their names.

        `fixed` is the number of symbols of all statistics.
        """
        return {}

    @property
    def of_theta(self) -> tuple[str, ...]:
        """Those of `record_sums` that are tables, not sums over records."""
        return ()

    def before_derivatives(self, at: Place) -> list[str]:
        """Return further lines before a loop over records with `record_derivatives`."""
        return []

    def part_derivatives(self, at: Place, slopes: RecordSlopes) -> list[str]:
        """Return lines after those of `record_derivatives` for a part of a block."""
        return []

    def derivative_functions(self, at: Place) -> str:
        """Return the functions that lines for second derivatives call, beside those of its share."""
        return ""

    def room(self, sets: int) -> int:
        """Return how many numbers it keeps of a part, with so many for each of its `record_symbols` and records."""
        return 0

    def finish(
        self, at: Place, places: Any, sums: Mapping[str, FloatArray], gradient: FloatArray, out: FloatArray
    ) -> None:
        """Add what `record_sums` come to.

        They add to the sums of gradients and of Hessians, and to that of the mixed derivatives of the statistics'
        symbols and the parameters, ``sums["cross"]``. `places` are the parameters of the rows of a tile.
        """
