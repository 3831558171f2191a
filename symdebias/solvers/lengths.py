"""How long records are, as a pass of descent finds while it reads them: a bound on the scores of all of them.

By the inequality of Cauchy and Schwarz abs(theta'x) <= |theta|_D |x|_(1/D), whatever theta a pass ends at, with D the
mean squares of the columns. The bound is within a small factor where columns are nearly uncorrelated and few; where it
does not tell, records are read once more.
"""

from dataclasses import dataclass, field

import numpy as np

from symdebias._arrays import FloatArray
from symdebias.codegen.program import BLOCK
from symdebias.codegen.score.program import ScoreProgram
from symdebias.codegen.tiles import measures_lengths
from symdebias.corrected import CorrectedLoss
from symdebias.records import TESTED_RECORDS, Records, stride_to

# Mean squares of columns beyond these, or the squares of their values, might be lost to underflow.
_LEAST, _MOST = 1e-200, 1e200
# Rounding in sums of squares, many times over.
_ROUNDING = 1e-9


@dataclass
class Lengths:
    """The longest records that a pass has read.

    Attributes
    ----------
    linear : tuple of int
        For each column the place of its parameter.
    intercept : int or None
        The place of the intercept.
    squares : array of shape (p,), float64
        Mean squares of the columns, by which lengths are measured.
    inverse : array of shape (p,), float64
        The inverse of these.
    longest : array of shape (BLOCK,), float64
        Squared lengths; the kernel keeps the largest for each place of a block.
    """

    linear: tuple[int, ...]
    intercept: int | None
    squares: FloatArray
    inverse: FloatArray
    longest: FloatArray = field(default_factory=lambda: np.zeros(BLOCK))
    _read: int = 0
    _has_read_all: bool = False

    @classmethod
    def of(cls, corrected: CorrectedLoss, records: Records, metric: FloatArray) -> "Lengths | None":
        """Return what a pass is to measure, or None where no examination will ask, or the kernel cannot say.

        Parameters
        ----------
        corrected : CorrectedLoss
            The loss.
        records : Records
            What the pass reads.
        metric : array of shape (Q, Q), float64
            The second moments of design rows of a part of them.
        """
        program = records.correction.program
        if corrected.design is None or not measures_lengths(program) or stride_to(TESTED_RECORDS, records.present) == 1:
            return None
        # Residuals have a target as well, and on a sphere scores are bounded.
        if corrected.surrogate_parts.is_residual or records.correction.zonal is not None:
            return None
        assert isinstance(program, ScoreProgram)
        squares = np.diag(metric)[list(program.columns.linear)]
        if not np.all((squares > _LEAST) & (squares < _MOST)):
            return None
        return cls(program.columns.linear, program.columns.intercept, squares, 1 / squares)

    def begin(self) -> None:
        """Begin with the first record of an epoch, or where an earlier process has left it."""
        self._read = 0

    def has_read(self, count: int, records: int) -> None:
        """Note that so many records more were read, of so many that there are."""
        self._read += count
        self._has_read_all = self._has_read_all or self._read == records

    def bound(self, theta: FloatArray) -> float:
        """Return a number that no score at theta, of shape (Q,), is farther from 0 than; infinite where none is known.

        It holds for the records of an epoch that was read from its beginning to its end.
        """
        if not self._has_read_all:
            return np.inf
        size = float(theta[list(self.linear)] ** 2 @ self.squares)
        found = np.sqrt(float(self.longest.max()) * size) * (1 + _ROUNDING)
        return float(found + (0.0 if self.intercept is None else abs(theta[self.intercept])))
