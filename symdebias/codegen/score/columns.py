"""The scores of a record: sums over its linear columns, each times its parameter."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import sympy as sp

from symdebias._arrays import FloatArray

# Up to here the loop over columns is written out and fused into the loop over records; beyond, the registers
# run out and separate loops are faster (measured at 20, 32, 40 and 50 columns).
_MOST_UNROLLED = 32
# Up to here the sums of a row stand in registers (measured at 2 to 64 columns).
_MOST_ALONG_ROWS = 48
# Numbers of gradients that are filled in at a time.
_NUMBERS = 2**14


@dataclass(frozen=True)
class ScoreColumns:
    """How m scores are made of p columns and q parameters each."""

    scores: tuple[sp.Symbol, ...]  # The m scores.
    linear: tuple[int, ...]  # For each of the p columns of X that enter linearly the place of its parameter.
    parameters: int  # The number q of parameters of one score.
    intercept: int | None  # The place of the intercept among them, if there is one.

    @property
    def sizes(self) -> tuple[int, int, int]:
        """The numbers p of columns, q of parameters and m of scores."""
        return len(self.linear), self.parameters, len(self.scores)

    @property
    def number_of_parameters(self) -> int:
        """The length of theta, scores after one another."""
        return len(self.scores) * self.parameters

    @property
    def is_unrolled(self) -> bool:
        """Whether loops over columns are written out."""
        return len(self.scores) * len(self.linear) <= _MOST_UNROLLED

    @property
    def is_along_rows(self) -> bool:
        """Whether a loop over rows takes several columns at a time, with all sums of theirs in registers."""
        return 1 < len(self.linear) <= _MOST_ALONG_ROWS

    def place(self, column: str) -> str:
        """Return the place of the parameter of a linear column, as text for a loop over columns."""
        return places_text(self.linear, column)

    def theta(self, score: int, column: str) -> str:
        """Return the parameter of a linear column in a score."""
        return f"theta[{score * self.parameters} + {self.place(column)}]"

    def unrolled_parameters(self) -> list[str]:
        """Return lines that give the parameters names, for loops over columns that are written out."""
        p, q, m = self.sizes
        return [f"t{k}_{j} = theta[{k * q + self.linear[j]}]" for k in range(m) for j in range(p)]

    def base(self, *, unrolled: bool) -> list[str]:
        """Return lines that compute ``base0``, ``base1``, ..., the scores of row i of X."""
        p, q, m = self.sizes
        lines = []
        for k in range(m):
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
                    f"    base{k} += {self.theta(k, 'j')}*X[i, j]",
                ]
        return lines

    def design_rows(self, matrix: FloatArray) -> FloatArray:
        """Return what stands beside the parameters of a score, shape (n, q): 0 where that is no column, nor a constant.

        It is not to be written to: where columns are all that stands there it is the matrix.
        """
        if (
            self.intercept is None
            and self.linear == tuple(range(matrix.shape[1]))
            and self.parameters == matrix.shape[1]
        ):
            return matrix
        rows = np.zeros((len(matrix), self.parameters))
        rows[:, list(self.linear)] = matrix[:, : len(self.linear)]
        if self.intercept is not None:
            rows[:, self.intercept] = 1.0
        return rows

    def gradients(
        self, slopes: FloatArray, matrix: FloatArray, jacobian: FloatArray, out: FloatArray | None = None
    ) -> FloatArray:
        """Return the gradients of records, shape (n, m q), from their slopes.

        Parameters
        ----------
        slopes : array of shape (m + k, n), float64
            In the scores, then in k statistics.
        matrix : array of shape (n, p) or wider, float64
            The columns of the scores first.
        jacobian : array of shape (k, m q), float64
            The gradients of the statistics.
        out : array of shape (n, m q), float64, optional
            What they are written to; a new array by default.
        """
        rows = np.empty((len(matrix), self.number_of_parameters)) if out is None else out
        # Block by block, so that what is added stays in the cache.
        step = max(1, _NUMBERS // rows.shape[1])
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            self._fill(rows[part], slopes[:, part], matrix[part], jacobian)
        return rows

    def _fill(self, rows: FloatArray, slopes: FloatArray, matrix: FloatArray, jacobian: FloatArray) -> None:
        m, linear = len(self.scores), self.linear
        np.matmul(slopes[m:].T, jacobian, out=rows)
        for k in range(m):
            start = k * self.parameters
            if linear == tuple(range(len(linear))):
                rows[:, start : start + len(linear)] += slopes[k, :, None] * matrix[:, : len(linear)]
            else:
                for j, place in enumerate(linear):
                    rows[:, start + place] += slopes[k] * matrix[:, j]
            if self.intercept is not None:
                rows[:, start + self.intercept] += slopes[k]


def row_products(left: FloatArray, right: FloatArray) -> FloatArray:
    """Return the products of all numbers in each row of an array with all in the row of another, side by side."""
    return np.asarray((left[:, :, None] * right[:, None, :]).reshape(len(left), -1))


def places_text(places: Sequence[int], index: str) -> str:
    """Return the entry of a tuple of places at an index, as text; the index itself where they count up from 0."""
    return index if tuple(places) == tuple(range(len(places))) else f"({', '.join(map(str, places))},)[{index}]"
