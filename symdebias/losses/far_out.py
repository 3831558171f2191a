"""How a loss goes on where its score is far from 0."""

from typing import TYPE_CHECKING

import sympy as sp

if TYPE_CHECKING:
    from symdebias.losses.loss import Loss

# Scores, of both signs, between which it is seen whether a loss goes on falling.
_FAR, _FARTHER = 40, 80


def changes_far_out(loss: "Loss", target: float) -> tuple[sp.Expr, ...]:
    """Return by how much a loss of one score changes at a target far out, to each side on which it is real.

    Examples
    --------
    >>> import symdebias as sd
    >>> [bool(change > 0) for change in changes_far_out(sd.losses.logistic(), 1.0)]
    [True, False]
    """
    number = sp.Float(target) if target % 1 else sp.Integer(int(target))
    at_target = loss.expression.xreplace({loss.target: number})
    changes = []
    for sign in (-1, 1):
        far, farther = (at_target.xreplace({loss.scores[0]: sp.Integer(sign * at)}).evalf() for at in (_FAR, _FARTHER))
        changes.append(farther - far)
    return tuple(change for change in changes if change.is_real)
