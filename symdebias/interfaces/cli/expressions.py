"""Losses that are written down as an expression of the score u and the target y."""

from collections.abc import Sequence

import sympy as sp

from symdebias.losses import Loss, parsing


def loss_of_expression(text: str, target_values: Sequence[float] | None) -> Loss:
    """Return the loss of an expression of u and y, for these values of the target; for any number without.

    Raises
    ------
    ExpressionError, ValueError
        It is none, or no loss.
    """
    u, y = sp.symbols("u y", real=True)
    expression = parsing.read(parsing.as_typed(text), {"u": u, "score": u, "y": y, "target": y})
    return Loss(expression, score=u, target=y, target_values=target_values)
