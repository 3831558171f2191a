"""Gradients of records in NumPy, for losses as they stand: a few thousand of them do not repay a compilation."""

import numpy as np

from symdebias._arrays import FloatArray
from symdebias.codegen.feature_program import FeatureProgram
from symdebias.codegen.numeric import numeric
from symdebias.codegen.program import Program
from symdebias.codegen.score.constants import Constants, Tails
from symdebias.codegen.score.normal import QuadraticForm, RecordNoise
from symdebias.codegen.score.program import ScoreProgram

# What a loss as it stands has nothing of, and what is neither looked up nor summed over categories.
_PLAIN = (Constants, Tails, QuadraticForm, RecordNoise)


def plain_gradients(program: Program, theta: FloatArray, X: FloatArray, y: FloatArray) -> FloatArray | None:
    """Return the gradients of records, or None where the loss has noise or categories in it.

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
    gradients : array of shape (n, Q), float64, or None
        As the program's kernel has them, to rounding.
    """
    if isinstance(program, FeatureProgram):
        return _in_features(program, theta, X, y)
    if isinstance(program, ScoreProgram) and all(isinstance(one, _PLAIN) for one in program.statistics):
        return _in_scores(program, theta, X, y)
    return None


def _in_features(program: FeatureProgram, theta: FloatArray, X: FloatArray, y: FloatArray) -> FloatArray | None:
    symbols = (*program.parameters, *program.features, program.target)
    if not program.expression.free_symbols <= set(symbols) or program.codes:
        return None
    values = (*theta, *(X[:, j] for j in range(len(program.features))), y)
    return np.stack([numeric(slope, symbols)(*values) for slope in program.gradient], axis=1)


def _in_scores(program: ScoreProgram, theta: FloatArray, X: FloatArray, y: FloatArray) -> FloatArray | None:
    columns, symbols = program.columns, (*program.scores, program.target)
    if not program.expression.free_symbols <= set(symbols):
        return None
    p, q, m = columns.sizes
    places, rows = list(columns.linear), X[:, :p]
    parameters = theta.reshape(m, q)
    found = np.zeros((len(X), m, q))
    with np.errstate(all="ignore"):
        scores = parameters[:, places] @ rows.T
        if columns.intercept is not None:
            scores += parameters[:, columns.intercept, None]
        for k, slope in enumerate(program.slopes):
            own = numeric(slope, symbols)(*scores, y)
            found[:, k, places] = own[:, None] * rows
            if columns.intercept is not None:
                found[:, k, columns.intercept] = own
    return found.reshape(len(X), m * q)
