"""What the parameters do not move: numbers, what is looked up by the label, and how far the tails of noise reach."""

from dataclasses import dataclass

import sympy as sp

from symdebias.codegen.program import label_lookups
from symdebias.codegen.score.columns import ScoreColumns
from symdebias.codegen.score.directions import Directions
from symdebias.codegen.score.statistic import Needs, Place, Share, Statistic


@dataclass(frozen=True)
class Constants(Statistic):
    """Numbers: the noise of the target, the coefficients of a surrogate."""

    name: str  # What their block of ``noise`` is called.
    numbers: tuple[sp.Symbol, ...]  # The symbols that stand for them.

    def needs(self, columns: ScoreColumns, number: int) -> Needs:
        """Return the place of the numbers."""
        return Needs([(self.name, len(self.numbers))])

    def share(self, at: Place) -> Share:
        """Return the names of the numbers."""
        return Share({symbol: f"noise[{at.noise + i}]" for i, symbol in enumerate(self.numbers)})


@dataclass(frozen=True)
class LabelTable(Statistic):
    """What is looked up by the code of the target."""

    numbers: tuple[sp.Symbol, ...]  # The looked-up numbers.
    codes: int  # The number of codes.

    def needs(self, columns: ScoreColumns, number: int) -> Needs:
        """Return the place of a row of numbers for each code."""
        return Needs([("labels", self.codes * len(self.numbers))])

    def share(self, at: Place) -> Share:
        """Return the look-up."""
        names = {symbol: f"l{i}" for i, symbol in enumerate(self.numbers)}
        return Share(varying=names, lookups=label_lookups(at.noise, len(self.numbers)))


@dataclass(frozen=True)
class Tails(Statistic):
    """How far noise reaches: the largest theta_j in a direction over the tail rate of column j, which has a limit."""

    limited: bool = False  # Whether some noise has tails that limit the parameters.
    directions: Directions | None = None  # In which directions scores grow; all of them without.

    def needs(self, columns: ScoreColumns, number: int) -> Needs:
        """Return the place of one number per linear column."""
        return Needs([("reach", len(columns.linear))])

    def share(self, at: Place) -> Share:
        """Return the guard."""
        p, q, m = at.columns.sizes
        held = [f"    extent *= noise[{at.noise} + j]", "    reach = extent if extent > reach else reach"]
        lines = [f"for j in range({p}):"]
        if self.directions in (None, Directions.of_all(m)):
            lines += [
                "    extent = 0.0",
                f"    for k in range({m}):",
                f"        extent += abs(theta[k*{q} + {at.columns.place('j')}])",
                *held,
            ]
        else:
            for forms in self.directions.texts(lambda k: at.columns.theta(k, "j")):
                lines += [f"    extent = {' + '.join(f'abs({form})' for form in forms)}", *held]
        return Share(guard=lines if self.limited else ())
