"""Statistics: what a corrected loss has of the noise in it, beside scores and target.

A statistic may be the same for a pass over the records, as the noise variance of the score is, or looked up for each of
them. All offer the methods of `Statistic`, by which the program asks each of them for its share of the generated code;
a new one is a new class.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import sympy as sp

from symdebias.codegen.program import Layout, label_lookups
from symdebias.codegen.score.columns import ScoreColumns


@dataclass(frozen=True)
class Place:
    """Where a statistic stands in a program.

    Attributes
    ----------
    columns : ScoreColumns
        The columns of the scores.
    number : int
        Its number among those of its kind, for the names in the code.
    noise : int
        Where its share of ``noise`` begins.
    symbol : int
        The number of its first symbol among those of all statistics.
    sums : int
        Where its own sums begin in ``sums``.
    codes : int
        How many columns of X, after the linear ones, hold codes of categories. Variances of the records' own follow.
    """

    columns: ScoreColumns
    number: int
    noise: int
    symbol: int
    sums: int
    codes: int

    def summed(self, symbol: int) -> str:
        """Return the sum over records of the derivative by one of its symbols."""
        return f"sums[{self.columns.number_of_parameters + self.symbol + symbol}]"


@dataclass(frozen=True)
class Collected:
    """Lines by which a pass over records sums derivatives by what varies with the record.

    Attributes
    ----------
    totals : sequence of str
        Names of numbers that begin at zero.
    before : sequence of str
        Lines before the loop over records.
    reset, inside, done : sequence of str
        Lines of a record: before its combinations of categories, for each of them (or once), and after them.
    after : sequence of str
        Lines after the loop, which add to ``sums``.
    """

    totals: Sequence[str] = ()
    before: Sequence[str] = ()
    reset: Sequence[str] = ()
    inside: Sequence[str] = ()
    done: Sequence[str] = ()
    after: Sequence[str] = ()


class Statistic:
    """A statistic, with no share in anything: subclasses say what they have.

    Attributes
    ----------
    kind : str
        Statistics of a kind are numbered, where a program may have several.
    rank : int
        Symbols, and what is looked up for a record, are in the order of the ranks.
    """

    kind: ClassVar[str] = ""
    rank: ClassVar[int] = 0

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

    @property
    def code_columns(self) -> int:
        """How many columns of X it takes that hold codes of categories."""
        return 0

    @property
    def variance_columns(self) -> int:
        """How many columns of X it takes that hold variances of the records' own."""
        return 0

    @property
    def target_name(self) -> str:
        """What stands for the target in a record's code, where it is not the released one."""
        return ""

    def blocks(self, columns: ScoreColumns, number: int) -> list[tuple[str, int]]:
        """Return its share of ``noise``: blocks with their lengths."""
        return []

    def number_of_sums(self, columns: ScoreColumns) -> int:
        """Return how many sums over records it has, beside one for each of its `symbols`."""
        return 0

    def fixed_names(self, at: Place) -> dict[sp.Symbol, str]:
        """Return what stands for the symbols that are the same for all records."""
        return {}

    def varying_names(self, at: Place) -> dict[sp.Symbol, str]:
        """Return what stands for the symbols that vary with the record."""
        return {}

    def functions(self, at: Place) -> tuple[str, frozenset[str]]:
        """Return functions of its own as text, and the names of those of `elementary` that they call."""
        return "", frozenset()

    def guard(self, at: Place) -> list[str]:
        """Return lines that raise ``variance`` or ``reach``, which have limits."""
        return []

    def before(self, at: Place, *, slopes: bool) -> list[str]:
        """Return lines before a loop over records; ``slopes`` where derivatives are summed in it."""
        return []

    def lookups(self, at: Place) -> list[str]:
        """Return lines that look up what belongs to record i."""
        return []

    def collect(self, at: Place, slopes: Sequence[str], factor: str, *, enumerated: bool) -> Collected:
        """Return the lines that sum derivatives by `record_symbols`.

        Parameters
        ----------
        at : Place
            Where it stands.
        slopes : sequence of str
            The derivatives.
        factor : str
            What they are multiplied with: the text of a factor, with its ``*``.
        enumerated : bool
            Whether a record is summed over combinations of categories.
        """
        return Collected()

    def assemble(self, at: Place) -> list[str]:
        """Return lines that add its share of the gradient, from ``sums``, to ``gradient``."""
        return []

    def jacobian(self, at: Place, into: str) -> list[str]:
        """Return lines that add the Jacobian of its `symbols` to their rows of a matrix of zeros."""
        return []

    def second_derivatives(self, at: Place) -> list[str]:
        """Return lines that add the second derivatives of its `symbols`, times ``first``, to ``out``."""
        return []

    def record_derivatives(
        self, at: Place, by_score: Sequence[str], by_symbols: Sequence[str], factor: str, *, moved: str
    ) -> list[str]:
        """Return lines that add a record's derivatives by `record_symbols` to gradient and Hessian.

        Parameters
        ----------
        at : Place
            Where it stands.
        by_score : sequence of str
            The first derivative by its symbol, the second one by it and the score, and the second one by it alone.
        by_symbols : sequence of str
            The second derivatives by it and each of the `symbols` of all statistics.
        factor : str
            What they are multiplied with.
        moved : str
            What a combination of categories adds to the row of a record, with its ``+``.
        """
        return []


class Statistics:
    """All statistics of a program, each in its place.

    Parameters
    ----------
    columns : ScoreColumns
        The columns of the scores.
    statistics : iterable of Statistic
        The statistics.

    Attributes
    ----------
    layout : Layout
        What stands where in ``noise``.
    placed : tuple of (Statistic, Place)
        The statistics, in their order.
    number_of_sums : int
        How many sums over records the gradient is assembled from.
    """

    def __init__(self, columns: ScoreColumns, statistics: Iterable[Statistic]) -> None:
        self.columns = columns
        listed = list(statistics)
        blocks: list[tuple[str, int]] = []
        placed: list[tuple[Statistic, Place]] = []
        codes = sum(statistic.code_columns for statistic in listed)
        sums, symbol = columns.number_of_parameters + sum(len(statistic.symbols) for statistic in listed), 0
        for statistic in listed:
            number = sum(before.kind == statistic.kind for before, _ in placed)
            placed.append((statistic, Place(columns, number, Layout(tuple(blocks)).length, symbol, sums, codes)))
            blocks += statistic.blocks(columns, number)
            symbol += len(statistic.symbols)
            sums += statistic.number_of_sums(columns)
        self.layout, self.placed, self.number_of_sums = Layout(tuple(blocks)), tuple(placed), sums
        self._ranked = sorted(placed, key=lambda entry: entry[0].rank)

    @property
    def symbols(self) -> tuple[sp.Symbol, ...]:
        """The symbols that are the same for all records."""
        return tuple(symbol for statistic, _ in self.placed for symbol in statistic.symbols)

    @property
    def record_symbols(self) -> tuple[sp.Symbol, ...]:
        """The symbols that vary with the record."""
        return tuple(symbol for statistic, _ in self.placed for symbol in statistic.record_symbols)

    @property
    def all_symbols(self) -> tuple[sp.Symbol, ...]:
        """All symbols that the gradient takes derivatives by, statistic by statistic."""
        return tuple(s for statistic, _ in self.placed for s in (*statistic.record_symbols, *statistic.symbols))

    def names(self, target: sp.Symbol) -> tuple[dict[sp.Symbol, str], dict[sp.Symbol, str]]:
        """Return what stands for the symbols that are the same for all records, and for those that vary."""
        fixed: dict[sp.Symbol, str] = {}
        varying = {score: f"score{k}" for k, score in enumerate(self.columns.scores)}
        varying[target] = "".join(statistic.target_name for statistic, _ in self.placed) or "y[i]"
        for statistic, at in self._ranked:
            fixed |= statistic.fixed_names(at)
            varying |= statistic.varying_names(at)
        return fixed, varying

    def functions(self) -> tuple[str, frozenset[str]]:
        """Return the statistics' functions as text, and the names of those of `elementary` that they call."""
        texts = [statistic.functions(at) for statistic, at in self.placed]
        called = frozenset[str]().union(*(names for _, names in texts))
        return "\n".join(text for text, _ in texts if text), called

    def guard(self) -> list[str]:
        """Return lines that compute ``variance`` and ``reach`` for ``theta``."""
        lines = ["variance = 0.0", "reach = 0.0"]
        return [*lines, *(line for statistic, at in self.placed for line in statistic.guard(at))]

    def before(self, *, slopes: bool = False) -> list[str]:
        """Return lines before a loop over records."""
        return [line for statistic, at in self.placed for line in statistic.before(at, slopes=slopes)]

    def lookups(self) -> list[str]:
        """Return lines that look up what belongs to record i."""
        return [line for statistic, at in self._ranked for line in statistic.lookups(at)]

    def assemble(self) -> list[str]:
        """Return lines that add the statistics' shares of the gradient."""
        return [line for statistic, at in self.placed for line in statistic.assemble(at)]

    def jacobian(self, into: str) -> list[str]:
        """Return lines that add the Jacobian of all symbols that are the same for all records."""
        return [line for statistic, at in self.placed for line in statistic.jacobian(at, into)]

    def second_derivatives(self) -> list[str]:
        """Return lines that add the second derivatives of these symbols to the Hessian."""
        return [line for statistic, at in self.placed for line in statistic.second_derivatives(at)]


@dataclass(frozen=True)
class Tails(Statistic):
    """How far noise reaches: the largest of sum_k |theta_kj| over the tail rate of column j, which has a limit.

    Attributes
    ----------
    limited : bool
        Whether some noise has tails that limit the parameters.
    """

    limited: bool = False

    def blocks(self, columns: ScoreColumns, number: int) -> list[tuple[str, int]]:
        """Return the place of one number per linear column."""
        return [("reach", len(columns.linear))]

    def guard(self, at: Place) -> list[str]:
        """Return lines that compute ``reach``."""
        if not self.limited:
            return []
        p, _, m = at.columns.sizes
        return [
            f"for j in range({p}):",
            "    extent = 0.0",
            f"    for k in range({m}):",
            f"        extent += abs(theta[k*{at.columns.parameters} + {at.columns.place('j')}])",
            f"    extent *= noise[{at.noise} + j]",
            "    reach = extent if extent > reach else reach",
        ]


@dataclass(frozen=True)
class Constants(Statistic):
    """Numbers that depend on nothing: the noise of the target, the coefficients of a surrogate.

    Attributes
    ----------
    name : str
        What their block of ``noise`` is called.
    numbers : tuple of sympy.Symbol
        The symbols that stand for them.
    """

    name: str
    numbers: tuple[sp.Symbol, ...]

    def blocks(self, columns: ScoreColumns, number: int) -> list[tuple[str, int]]:
        """Return the place of the numbers."""
        return [(self.name, len(self.numbers))]

    def fixed_names(self, at: Place) -> dict[sp.Symbol, str]:
        """Return the numbers' places in ``noise``."""
        return {symbol: f"noise[{at.noise + i}]" for i, symbol in enumerate(self.numbers)}


@dataclass(frozen=True)
class LabelTable(Statistic):
    """What is looked up by the code of the target.

    Attributes
    ----------
    numbers : tuple of sympy.Symbol
        The looked-up numbers.
    codes : int
        The number of codes.
    """

    numbers: tuple[sp.Symbol, ...]
    codes: int

    def blocks(self, columns: ScoreColumns, number: int) -> list[tuple[str, int]]:
        """Return the place of a row of numbers for each code."""
        return [("labels", self.codes * len(self.numbers))]

    def varying_names(self, at: Place) -> dict[sp.Symbol, str]:
        """Return the names of the looked-up numbers."""
        return {symbol: f"l{i}" for i, symbol in enumerate(self.numbers)}

    def lookups(self, at: Place) -> list[str]:
        """Return lines that look up the row of record i."""
        return label_lookups(at.noise, len(self.numbers))


@dataclass(frozen=True)
class Configurations(Statistic):
    """A sum over combinations of categories, each with the weight that makes the sum unbiased.

    Attributes
    ----------
    count : int
        The number of combinations that are summed over.
    observations : int
        The number of combinations that can be observed.
    label_codes : int
        Where each combination has a target of its own, and its weight depends on the released one, the number of codes
        of the latter; otherwise 0.
    """

    count: int
    observations: int
    label_codes: int = 0

    @property
    def code_columns(self) -> int:
        """One, for what was observed of all columns of categories."""
        return 1

    @property
    def target_name(self) -> str:
        """What stands for the target: the combination's own, where it has one."""
        return "level" if self.label_codes else ""

    def blocks(self, columns: ScoreColumns, number: int) -> list[tuple[str, int]]:
        """Return the places of weights, of what combinations add to a record's row, and of their targets."""
        return [
            ("weights", self.observations * self.count),
            ("offsets", self.count * columns.parameters),
            ("levels", self.count if self.label_codes else 0),
        ]

    def number_of_sums(self, columns: ScoreColumns) -> int:
        """Return one sum per combination and score."""
        return self.count * len(columns.scores)

    def offset(self, at: Place, parameter: str) -> str:
        """Return what combination ``a`` adds to the entry of a record's row that belongs to a parameter."""
        return f"noise[{at.noise + self.observations * self.count} + a*{at.columns.parameters} + {parameter}]"

    def before(self, at: Place, *, slopes: bool) -> list[str]:
        """Return lines that compute what combinations add to the scores."""
        _, q, m = at.columns.sizes
        return [
            f"shift = np.zeros(({self.count}, {m}))",
            f"for a in range({self.count}):",
            f"    for k in range({m}):",
            f"        for j in range({q}):",
            f"            shift[a, k] += {self.offset(at, 'j')}*theta[k*{q} + j]",
        ]

    def lookups(self, at: Place) -> list[str]:
        """Return lines that look up what was observed."""
        lines = [f"joint = int(X[i, {len(at.columns.linear)}])"]
        return [*lines, f"joint = joint*{self.label_codes} + int(y[i])"] if self.label_codes else lines

    def each(self, at: Place, body: Sequence[str]) -> list[str]:
        """Return lines that run lines for each combination with its weight ``share``."""
        levels = at.noise + self.observations * self.count + self.count * at.columns.parameters
        return [
            f"for a in range({self.count}):",
            f"    share = noise[{at.noise} + joint*{self.count} + a]",
            *([f"    level = noise[{levels} + a]"] if self.label_codes else []),
            *(f"    score{k} = base{k} + shift[a, {k}]" for k in range(len(at.columns.scores))),
            *("    " + line for line in body),
        ]

    def assemble(self, at: Place) -> list[str]:
        """Return lines that add what the combinations' own entries of the rows give."""
        _, q, m = at.columns.sizes
        return [
            f"for a in range({self.count}):",
            f"    for k in range({m}):",
            f"        for j in range({q}):",
            f"            gradient[k*{q} + j] += sums[{at.sums} + a*{m} + k]*{self.offset(at, 'j')}",
        ]
