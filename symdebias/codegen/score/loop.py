"""What the code of one record is made of, in every kernel: scores, look-ups, and combinations of categories."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from symdebias.codegen.printer import Statements
from symdebias.codegen.score.columns import ScoreColumns
from symdebias.codegen.score.statistic import Configurations, Place, Statistics


@dataclass(frozen=True)
class RecordLoop:
    """The columns of the scores and the statistics of a program.

    Attributes
    ----------
    columns : ScoreColumns
        The columns.
    statistics : Statistics
        The statistics, each in its place.
    """

    columns: ScoreColumns
    statistics: Statistics

    @functools.cached_property
    def combinations(self) -> tuple[Configurations, Place] | None:
        """The sum over combinations of categories, where there is one."""
        for statistic, at in self.statistics.placed:
            if isinstance(statistic, Configurations):
                return statistic, at
        return None

    @functools.cached_property
    def functions(self) -> tuple[str, frozenset[str]]:
        """The statistics' functions as text, and the names of those of `elementary` that they call."""
        return self.statistics.functions()

    def factor(self, weighted: bool) -> str:
        """Return what a record's derivatives are multiplied with: its share and weight, with their ``*``."""
        return ("*share" if self.combinations else "") + ("*weights[i]" if weighted else "")

    def before(self, statements: Statements, *, slopes: bool = False) -> list[str]:
        """Return lines before a loop over records."""
        return [*self.statistics.before(slopes=slopes), *statements.setup]

    def lookups(self) -> list[str]:
        """Return lines that look up what belongs to record i."""
        return self.statistics.lookups()

    def each(self, statements: Statements, inside: Sequence[str]) -> list[str]:
        """Return lines that run the record's statements once, or for each combination with its weight."""
        body = [*statements.record, *inside]
        if self.combinations is None:
            return [*(f"score{k} = base{k}" for k in range(len(self.columns.scores))), *body]
        configurations, at = self.combinations
        return configurations.each(at, body)
