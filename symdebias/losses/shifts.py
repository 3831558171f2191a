"""Losses of several scores that know differences of scores alone, as softmax does: one number more on all is nothing.

Parameters that are not penalised are then known up to a vector that all scores have in common. Solvers take those that
sum to 0 over the scores, to which a penalty, however small, leads too.
"""

import functools
from typing import TYPE_CHECKING

import numpy as np
import sympy as sp

from symdebias._arrays import FloatArray
from symdebias.losses.probes import DIGITS, EQUAL, PROBES, points

if TYPE_CHECKING:
    from symdebias.losses.loss import Loss

# By which the loss is compared with itself.
_SHIFT = sp.Rational(7, 5)


@functools.lru_cache(maxsize=256)
def ignores_shifts(loss: "Loss") -> bool:
    """Whether a loss of several scores stays the same where one number is added to all of them.

    Examples
    --------
    >>> import symdebias as sd
    >>> ignores_shifts(sd.losses.softmax(3)), ignores_shifts(sd.losses.logistic())
    (True, False)
    """
    if len(loss.scores) < 2:
        return False
    values = [sp.nsimplify(value, rational=True) for value in loss.target_values or PROBES]
    for point in points(loss.scores):
        moved = {score: number + _SHIFT for score, number in point.items()}
        # What has no target in it is the same number for all of its values.
        apart = (loss.expression.xreplace(moved) - loss.expression.xreplace(point)).evalf(DIGITS)
        for value in values:
            at_value = apart.xreplace({loss.target: value}).evalf(DIGITS)
            if not (at_value.is_real and abs(at_value) < EQUAL):
                return False
    return True


def centred(theta: FloatArray, scores: int, where: FloatArray) -> FloatArray:
    """Return flat parameters less their mean over the scores, where they have no penalty.

    Parameters
    ----------
    theta : array of shape (scores q,), float64
        Scores after one another.
    scores : int
        How many there are.
    where : array of shape (scores q,), float64
        The penalties.
    """
    rows = theta.reshape(scores, -1)
    return np.asarray(np.where(where.reshape(scores, -1) == 0, rows - rows.mean(axis=0), rows).ravel())


def completed(hessian: FloatArray, scores: int) -> FloatArray:
    """Return a Hessian with a curvature along parameters that all scores have in common, where the loss has none.

    It is the mean over the scores of their own curvatures, with all its eigenvalues positive. What sums to 0 over the
    scores is not touched.

    Examples
    --------
    >>> completed(np.array([[1.0, -1.0], [-1.0, 1.0]]), 2).tolist()
    [[1.5, -0.5], [-0.5, 1.5]]
    """
    size = len(hessian) // scores
    if not np.all(np.isfinite(hessian)):
        return hessian
    own = sum(hessian[k * size : (k + 1) * size, k * size : (k + 1) * size] for k in range(scores)) / scores
    # In units of the columns: beside large ones rounding would take away from small ones.
    units = np.sqrt(np.abs(np.diag(own)))
    units = np.where(units > 0, units, 1.0)
    sizes, vectors = np.linalg.eigh(np.asarray(own / np.multiply.outer(units, units)))
    common = (vectors * np.abs(sizes)) @ vectors.T * np.multiply.outer(units, units)
    return np.asarray(hessian + np.kron(np.full((scores, scores), 1 / scores), common))
