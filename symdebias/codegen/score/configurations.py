"""Sums over combinations of categories, each with the weight that makes the sum unbiased."""

from collections.abc import Sequence
from dataclasses import dataclass

from symdebias.codegen.score.columns import ScoreColumns
from symdebias.codegen.score.statistic import Needs, Place, Share, Statistic


@dataclass(frozen=True)
class Configurations(Statistic):
    """A sum over combinations of categories, of steps of a grid, and of labels."""

    count: int  # The number of combinations that are summed over.
    observations: int  # The number of combinations that can be observed.
    # Where each combination has a target of its own, and its weight depends on the released one, the number of codes of
    # the latter; otherwise 0.
    label_codes: int = 0

    def needs(self, columns: ScoreColumns, number: int) -> Needs:
        """Return the places of weights, of what combinations add to a record's row, and of their targets."""
        weights, offsets = self.observations * self.count, self.count * columns.parameters
        levels = self.count if self.label_codes else 0
        blocks = [("weights", weights), ("offsets", offsets), ("levels", levels)]
        return Needs(blocks, self.count * len(columns.scores), codes=1)

    def offset(self, at: Place, parameter: str) -> str:
        """Return what combination ``a`` adds to the entry of a record's row that belongs to a parameter."""
        return f"noise[{at.noise + self.observations * self.count} + a*{at.columns.parameters} + {parameter}]"

    def share(self, at: Place) -> Share:
        """Return what combinations add to the scores and to the gradient."""
        _, q, m = at.columns.sizes
        offset, summed = self.offset(at, "j"), f"sums[{at.sums} + a*{m} + k]"
        loops = [f"for a in range({self.count}):", f"    for k in range({m}):", f"        for j in range({q}):"]
        shifted = [*loops, f"            shift[a, k] += {offset}*theta[k*{q} + j]"]
        return Share(
            before=[f"shift = np.zeros(({self.count}, {m}))", *shifted],
            lookups=self.lookups(at),
            assemble=[*loops, f"            gradient[k*{q} + j] += {summed}*{offset}"],
        )

    def lookups(self, at: Place) -> list[str]:
        """Return lines that look up which combination was observed for record i."""
        lines = [f"joint = int(X[i, {len(at.columns.linear)}])"]
        return [*lines, *([f"joint = joint*{self.label_codes} + int(y[i])"] if self.label_codes else [])]

    def weight(self, at: Place) -> str:
        """Return the weight of combination ``a`` for what was observed."""
        return f"noise[{at.noise} + joint*{self.count} + a]"

    def level(self, at: Place) -> list[str]:
        """Return lines that look up the target of combination ``a``, where it has one of its own."""
        levels = at.noise + self.observations * self.count + self.count * at.columns.parameters
        return [f"level = noise[{levels} + a]"] if self.label_codes else []

    def each(self, at: Place, body: Sequence[str]) -> list[str]:
        """Return lines that run lines for each combination with its weight ``share``."""
        return [
            f"for a in range({self.count}):",
            f"    share = {self.weight(at)}",
            *("    " + line for line in self.level(at)),
            *(f"    score{k} = base{k} + shift[a, {k}]" for k in range(len(at.columns.scores))),
            *("    " + line for line in body),
        ]
