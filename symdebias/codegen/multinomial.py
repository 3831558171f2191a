"""Derivatives of losses of many scores whose curvature is that of a multinomial distribution, as softmax has it.

Second derivatives by pairs of scores are half as many as the square of these, and each would be printed, compiled and
summed by itself. Here they are products of p, the softmax of the scores: what remains is two products of matrices.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import sympy as sp

from symdebias._arrays import FloatArray
from symdebias._blas import one_thread
from symdebias.codegen.functions import logsumexp
from symdebias.codegen.parallel import CHUNK, over_chunks
from symdebias.codegen.score.columns import ScoreColumns, row_products

if TYPE_CHECKING:
    from symdebias.codegen.kernels import Kernels

# Numbers of a matrix that is there at a time, and the fewest records that it is of.
_NUMBERS, _FEWEST = 2**18, 128
_MOST_CHUNKS = 8


def multinomial_factor(expression: sp.Expr, scores: Sequence[sp.Symbol]) -> float | None:
    """Return c where the second derivatives by the scores are c (p_k [k = l] - p_k p_l), p the softmax of the scores.

    None where they are not.

    Examples
    --------
    >>> u, v, w = sp.symbols("u v w", real=True)
    >>> multinomial_factor(2 * logsumexp(u, v) - 3 * u, (u, v)), multinomial_factor(logsumexp(u, v) + u**2, (u, v))
    (2.0, None)
    """
    nodes = expression.atoms(logsumexp)
    if len(nodes) != 1:
        return None
    (node,) = nodes
    if len(node.args) != len(scores) or set(node.args) != set(scores):
        return None
    held = sp.Dummy("logsumexp")
    written = expression.xreplace({node: held})
    factor = written.diff(held)
    if not factor.is_number:
        return None
    if any(sp.expand(written.diff(score)).free_symbols & {held, *scores} for score in scores):
        return None
    return float(factor)


@dataclass(frozen=True)
class MultinomialDerivatives:
    """The mean loss of records with its derivatives, as `symdebias.codegen.kernels.MeanDerivatives` gives them.

    Attributes
    ----------
    kernels : Kernels
        Those of the program, for losses and slopes.
    columns : ScoreColumns
        How its scores are made.
    factor : float
        What `multinomial_factor` has found.
    """

    kernels: "Kernels"
    columns: ScoreColumns
    factor: float

    @property
    def leaves_slopes(self) -> bool:
        """Whether `gradients` can be asked for."""
        return True

    @property
    def leaves_factors(self) -> bool:
        """Whether `slopes` can be asked for."""
        return True

    def __call__(
        self, theta: Any, X: Any, y: Any, weights: Any, total: float, noise: Any, *, meat: bool
    ) -> tuple[float, FloatArray, FloatArray, FloatArray]:
        """Return the mean loss, its gradient, its Hessian and the mean outer product of the gradients of records.

        The last, the sum of the weighted gradients' outer products over the total, has the shape (0, 0) unless
        ``meat``.
        """
        _, q, m = self.columns.sizes
        step = max(_FEWEST, _NUMBERS // (m * q))
        shapes = (), (m * q,), (m, q * q), (m * q, m * q), (m * q if meat else 0,) * 2

        def passed(rows: slice) -> list[FloatArray]:
            sums = [np.zeros(shape) for shape in shapes]
            chunk = X[rows], y[rows], weights[rows] if len(weights) else weights
            for start in range(0, len(chunk[0]), step):
                part = slice(start, start + step)
                self._add(sums, theta, chunk[0][part], chunk[1][part], chunk[2][part], noise, meat=meat)
            return sums

        # Their sums are matrices: no more of them than a few are there at a time.
        with one_thread():
            first, *others = over_chunks(len(X), passed, max(CHUNK, -(-len(X) // _MOST_CHUNKS)))
        for other in others:
            for sum_of_all, more in zip(first, other, strict=True):
                sum_of_all += more
        value, gradient, squares, both, outer = first
        hessian = -both
        for k, square in enumerate(squares):
            place = slice(k * q, (k + 1) * q)
            hessian[place, place] += square.reshape(q, q)
        hessian *= self.factor / (2 * total)
        return float(value) / total, gradient / total, hessian + hessian.T, outer / total

    def _add(
        self, sums: list[FloatArray], theta: Any, X: Any, y: Any, weights: FloatArray, noise: Any, *, meat: bool
    ) -> None:
        """Add what some records have to the sums of all."""
        _, q, m = self.columns.sizes
        rows = self.columns.design_rows(X)
        slopes, _ = self.slopes(theta, X, y, weights, noise)
        with np.errstate(all="ignore"):
            scores = rows @ theta.reshape(m, q).T
            chances = np.exp(scores - scores.max(axis=1, keepdims=True))
            chances /= chances.sum(axis=1, keepdims=True)
        own = weights[:, None] if len(weights) else 1.0
        spread = row_products(chances, rows)
        sums[0] += self.kernels.mean_loss(weighted=bool(len(weights)))(theta, X, y, weights, 1.0, noise)
        sums[1] += (slopes @ rows).ravel()
        sums[2] += (chances * own).T @ row_products(rows, rows)
        sums[3] += spread.T @ (spread * own)
        if meat:
            gradients = row_products(slopes.T, rows)
            sums[4] += gradients.T @ gradients

    def slopes(self, theta: Any, X: Any, y: Any, weights: Any, noise: Any) -> tuple[FloatArray, FloatArray]:
        """Return the weighted slopes of records in the m scores, shape (m, n), and the Jacobian of no statistics."""
        slopes, jacobian = self.kernels.gradient_slopes(theta, X, y, noise)
        return (slopes * weights if len(weights) else slopes), jacobian

    def gradients(self, theta: Any, X: Any, y: Any, weights: Any, noise: Any) -> FloatArray:
        """Return the weighted gradients of records, shape (n, q)."""
        slopes, jacobian = self.slopes(theta, X, y, weights, noise)
        return self.columns.gradients(slopes, X, jacobian)
