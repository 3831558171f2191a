"""What the code of one record is made of, in every kernel: scores, and what the statistics give."""

import functools
import re
from collections.abc import Iterable, Sequence

import sympy as sp

from symdebias.codegen.printer import Statements
from symdebias.codegen.program import PART, Layout
from symdebias.codegen.score.columns import ScoreColumns
from symdebias.codegen.score.configurations import Configurations
from symdebias.codegen.score.statistic import Place, Share, Statistic


class RecordLoop:
    """Scores and statistics, each of them in its place.

    Parameters
    ----------
    columns : ScoreColumns
        The columns of the scores.
    statistics : iterable of Statistic
        The statistics, in the order of their blocks in ``noise``.

    Attributes
    ----------
    layout : Layout
        What stands where in ``noise``.
    placed : tuple of (Statistic, Place)
        The statistics with their places.
    combinations : (Configurations, Place) or None
        The sum over combinations of categories, where there is one.
    number_of_sums : int
        How many sums over records the gradient is assembled from.
    width : int
        The number of columns of the data matrix: linear columns, codes, variances of records.
    is_in_parts : bool
        Whether blocks are taken in parts.
    """

    def __init__(self, columns: ScoreColumns, statistics: Iterable[Statistic]) -> None:
        listed = list(statistics)
        numbers = [sum(other.kind == one.kind for other in listed[:n]) for n, one in enumerate(listed)]
        needs = [one.needs(columns, number) for one, number in zip(listed, numbers, strict=True)]
        codes = sum(need.codes for need in needs)
        noise, symbol = 0, 0
        sums = columns.number_of_parameters + sum(len(one.symbols) for one in listed)
        placed: list[tuple[Statistic, Place]] = []
        for one, number, need in zip(listed, numbers, needs, strict=True):
            placed.append((one, Place(columns, number, noise, symbol, sums, codes)))
            noise += sum(length for _, length in need.blocks)
            symbol += len(one.symbols)
            sums += need.sums
        self.columns, self.placed, self.number_of_sums = columns, tuple(placed), sums
        self.layout = Layout(tuple(block for need in needs for block in need.blocks))
        self.width = len(columns.linear) + codes + sum(need.variances for need in needs)
        self.is_in_parts = any(need.is_in_parts for need in needs)
        self._variances = sum(need.variances for need in needs)
        self.combinations = next(((one, at) for one, at in placed if isinstance(one, Configurations)), None)

    @functools.cached_property
    def _shares(self) -> list[Share]:
        return [one.share(at) for one, at in self.placed]

    @property
    def _ranked(self) -> list[Share]:
        order = sorted(range(len(self.placed)), key=lambda place: self.placed[place][0].rank)
        return [self._shares[place] for place in order]

    @property
    def functions(self) -> str:
        """The statistics' functions."""
        return "\n".join(share.functions for share in self._shares if share.functions)

    @property
    def called(self) -> frozenset[str]:
        """The functions of `elementary` that these call."""
        return frozenset[str]().union(*(share.called for share in self._shares))

    @functools.cached_property
    def symbols(self) -> tuple[sp.Symbol, ...]:
        """The symbols of the statistics that are the same for all records."""
        return tuple(symbol for one, _ in self.placed for symbol in one.symbols)

    @functools.cached_property
    def record_symbols(self) -> tuple[sp.Symbol, ...]:
        """Those that vary with the record."""
        return tuple(symbol for one, _ in self.placed for symbol in one.record_symbols)

    @functools.cached_property
    def all_symbols(self) -> tuple[sp.Symbol, ...]:
        """All of them, statistic by statistic."""
        return tuple(symbol for one, _ in self.placed for symbol in (*one.record_symbols, *one.symbols))

    def names(self, target: sp.Symbol) -> tuple[dict[sp.Symbol, str], dict[sp.Symbol, str]]:
        """Return what stands for symbols that are the same for all records, and for those that vary."""
        fixed: dict[sp.Symbol, str] = {}
        varying = {score: f"score{k}" for k, score in enumerate(self.columns.scores)}
        own_target = self.combinations is not None and self.combinations[0].label_codes
        varying[target] = "level" if own_target else "y[i]"
        for share in self._ranked:
            fixed |= share.fixed
            varying |= share.varying
        return fixed, varying

    def guard(self) -> list[str]:
        """Return lines that compute ``variance`` and ``reach`` for ``theta``."""
        return ["variance = 0.0", "reach = 0.0", *(line for share in self._shares for line in share.guard)]

    def before(self, statements: Statements, *, slopes: bool = False) -> list[str]:
        """Return lines before a loop over records; ``slopes`` where derivatives are summed in it."""
        lines: list[str] = []
        for share in self._shares:
            lines += share.before if share.before_slopes is None or not slopes else share.before_slopes
        return [*lines, *statements.setup]

    def of_part(self, *, slopes: bool = False) -> list[str]:
        """Return lines before a loop over a part; ``slopes`` where derivatives are summed in it."""
        return [line for share in self._shares for line in (share.of_part_slopes if slopes else share.of_part)]

    def room(self, sets: int = 1) -> int:
        """Return how many numbers are kept of a part: by statistics, and what a loop over it reads of the records."""
        return sum(one.room(sets) for one, _ in self.placed) + self._most_read * PART

    @property
    def _most_read(self) -> int:
        """How much a loop over a part reads of a record: a target, a weight, variances, and what is looked up."""
        return 2 + self._variances + len(self._lookups_of_records)

    @property
    def _lookups_of_records(self) -> list[str]:
        """The lines that look up something for a record by itself, not for a part."""
        return [line for share in self._ranked if not share.of_part for line in share.lookups]

    def apart(self, lines: Sequence[str], room: int) -> tuple[list[str], list[str], list[str]]:
        """Return the lines of a loop over a part by which all that it reads of memory stands in ``kept``.

        Else the compiler asks of whatever is written whether it is something that is read, and gives up where too much
        is. Lines before the loop over all parts, lines for each record before the loop, and the loop's own.

        Parameters
        ----------
        lines : sequence of str
            The lines of the loop.
        room : int
            How many numbers have room behind ``room``; these are the last ones.
        """
        first = self._lookups_of_records
        text = "\n".join(line for line in lines if line not in first)
        found = list(dict.fromkeys(re.findall(r"\b(?:y\[i\]|weights\[i\]|X\[i, \d+\])", text)))
        names = [line.partition(" = ")[0] for line in first]
        places = {one: f"kept[room + {room - (k + 1) * PART} + n]" for k, one in enumerate((*found, *names))}
        assert len(places) <= self._most_read
        for one in found:
            text = text.replace(one, places[one])
        text = "\n".join([*(f"{name} = {places[name]}" for name in names), text])
        constants = sorted(set(re.findall(r"\bnoise\[(\d+)\]", text)), key=int)
        for constant in constants:
            text = text.replace(f"noise[{constant}]", f"noise{constant}")
        before = [f"noise{constant} = noise[{constant}]" for constant in constants]
        return before, [*first, *(f"{place} = {one}" for one, place in places.items())], text.split("\n")

    def lookups(self) -> list[str]:
        """Return lines that look up what belongs to record i."""
        return [line for share in self._ranked for line in share.lookups]

    def each(self, statements: Statements, inside: Sequence[str]) -> list[str]:
        """Return lines that run the record's statements once, or for each combination with its weight."""
        body = [*statements.record, *inside]
        if self.combinations is None:
            return [*(f"score{k} = base{k}" for k in range(len(self.columns.scores))), *body]
        configurations, at = self.combinations
        return configurations.each(at, body)

    def assemble(self) -> list[str]:
        """Return lines that add the statistics' shares of the gradient."""
        return [line for share in self._shares for line in share.assemble]

    def jacobian(self, into: str) -> list[str]:
        """Return lines that add the Jacobian of `symbols` to a matrix of zeros."""
        return [line for one, at in self.placed for line in one.jacobian(at, into)]

    def second_derivatives(self) -> list[str]:
        """Return lines that add the second derivatives of `symbols` to the Hessian."""
        return [line for share in self._shares for line in share.second]
