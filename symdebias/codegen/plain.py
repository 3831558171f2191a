"""Gradients of records in NumPy, for losses as they stand: a few thousand of them do not repay a compilation."""

import numpy as np
import sympy as sp

from symdebias._arrays import FloatArray
from symdebias.codegen.feature_program import FeatureProgram
from symdebias.codegen.numeric import numeric
from symdebias.codegen.program import Program
from symdebias.codegen.score.columns import row_products
from symdebias.codegen.score.constants import Constants, Tails
from symdebias.codegen.score.normal import QuadraticForm, RecordNoise
from symdebias.codegen.score.program import ScoreProgram

# What a loss as it stands has nothing of, and what is neither looked up nor summed over categories.
_PLAIN = (Constants, Tails, QuadraticForm, RecordNoise)


def is_plain(program: Program) -> bool:
    """Return whether a loss has neither noise nor categories in it."""
    if isinstance(program, FeatureProgram):
        symbols = {*program.parameters, *program.features, program.target}
        return not program.codes and _has_only(program.expression, symbols)
    return (
        isinstance(program, ScoreProgram)
        and all(isinstance(one, _PLAIN) for one in program.statistics)
        and _has_only(program.expression, {*program.scores, program.target})
    )


def _has_only(expression: sp.Expr, symbols: set[sp.Symbol]) -> bool:
    """Whether an expression has no other symbols: of a long one the first other is mostly found at once."""
    return all(part in symbols for part in sp.preorder_traversal(expression) if part.is_Symbol)


def plain_gradients(program: Program, theta: FloatArray, X: FloatArray, y: FloatArray) -> FloatArray:
    """Return the gradients of records, of a loss that `is_plain`.

    Parameters
    ----------
    program : Program
        The loss.
    theta : array of shape (Q,), float64
        The parameters.
    X : array of shape (n, width), float64
        The data matrix of the program's kernels.
    y : array of shape (n,), float64
        The targets.

    Returns
    -------
    gradients : array of shape (n, Q), float64
        As the program's kernel has them, to rounding.
    """
    if isinstance(program, FeatureProgram):
        symbols = (*program.parameters, *program.features, program.target)
        values = (*theta, *(X[:, j] for j in range(len(program.features))), y)
        return np.stack([numeric(slope, symbols)(*values) for slope in program.gradient], axis=1)
    assert isinstance(program, ScoreProgram)
    slopes, rows = np.stack(plain_slopes(program, theta, X, y), axis=1), program.columns.design_rows(X)
    with np.errstate(all="ignore"):
        return row_products(slopes, rows)


def plain_slopes(program: ScoreProgram, theta: FloatArray, X: FloatArray, y: FloatArray) -> list[FloatArray]:
    """Return what the gradients of records, of a loss that `is_plain`, have of design rows.

    Parameters
    ----------
    program, theta, X, y
        As for `plain_gradients`.

    Returns
    -------
    slopes : list of array of shape (n,), float64
        The slope of each score.
    """
    columns, symbols = program.columns, (*program.scores, program.target)
    p, q, m = columns.sizes
    parameters = theta.reshape(m, q)
    with np.errstate(all="ignore"):
        scores = parameters[:, list(columns.linear)] @ X[:, :p].T
        if columns.intercept is not None:
            scores += parameters[:, columns.intercept, None]
        return [np.broadcast_to(numeric(slope, symbols)(*scores, y), len(X)) for slope in program.slopes]
