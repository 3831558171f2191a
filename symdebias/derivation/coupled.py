"""Losses under a release of features and target in one vector: which qualify, and what they come to on its columns.

A margin loss, F(u, 1) = F(-u, -1), is F(theta'(y x), 1): a loss of the score of y x, without a target. A loss of the
residual y - u is under independent noise of features and target what it is where they are released apart. So either
comes to a loss under a release of columns, and everything that is derived for those holds for it.
"""

import functools
from collections.abc import Callable
from inspect import signature

import numpy as np
import sympy as sp

from symdebias import _limits
from symdebias.codegen import stable
from symdebias.codegen.numeric import numeric
from symdebias.exceptions import NoExactCorrectionError
from symdebias.losses import Loss, catalogue
from symdebias.losses.meaning import is_residual_loss
from symdebias.release import Release
from symdebias.transforms.channel import rational

# Longer expressions are not simplified: SymPy's time for that grows without bound.
_MOST_SIMPLIFIED = 200
_POINTS = np.array([-2.7, -1.3, -0.45, 0.0, 0.3, 0.9, 1.7, 3.1])


def is_margin_loss(loss: Loss, labels: tuple[float, float] = (-1.0, 1.0)) -> bool:
    """Whether a loss F of one score has F(u, high) = F(-u, low), so that it takes a record through y x alone.

    Parameters
    ----------
    loss : Loss
        The loss.
    labels : pair of float
        The labels, (low, high).

    Examples
    --------
    >>> from symdebias.losses import logistic, poisson
    >>> is_margin_loss(logistic()), is_margin_loss(poisson())
    (True, False)
    """
    if len(loss.scores) != 1:
        return False
    (score,) = loss.scores
    low, high = (rational(value) for value in labels)
    first = loss.expression.xreplace({loss.target: high})
    return _same(first, loss.expression.xreplace({score: -score, loss.target: low}), score)


def _same(first: sp.Expr, second: sp.Expr, score: sp.Symbol) -> bool:
    """Whether two expressions are the same function of a score, as far as SymPy proves it."""
    if first == second:
        return True
    with np.errstate(all="ignore"):
        one, other = (np.broadcast_to(numeric(part, (score,))(_POINTS), _POINTS.shape) for part in (first, second))
    if not np.allclose(one, other, rtol=1e-9, atol=1e-9, equal_nan=True):
        return False
    difference = first - second
    if _limits.expand(difference) == 0:
        return True
    if difference.count_ops() > _MOST_SIMPLIFIED:
        return False
    if sp.simplify(difference) == 0:
        return True
    # A sum of logarithms is constant where its derivative, rational in exponentials, is 0.
    at_zero = sp.simplify(difference.xreplace({score: sp.Integer(0)}))
    return bool(at_zero == 0 and sp.simplify(stable.rewrite(sp.diff(difference, score))) == 0)


@functools.lru_cache(maxsize=256)
def in_columns(loss: Loss, release: Release) -> Loss:
    """Return what a loss is on the columns of a release; see `symdebias.Release.in_columns`.

    A release of features and target apart leaves it as it is.

    Raises
    ------
    NoExactCorrectionError
        The release hides what the loss needs; the message names losses that qualify.
    ValueError
        The loss has other target values than the release.

    Examples
    --------
    >>> import symdebias as sd
    >>> margin = sd.Release(sd.GaussianMechanism.from_scale(1.0), target="margin")
    >>> in_columns(sd.losses.exponential(), margin).expression
    exp(-u)
    """
    coupling = release.coupling
    if coupling is None:
        return loss
    if not loss.scores:
        raise NoExactCorrectionError(
            f"{loss.expression} is in features by name, and a release of features and target in one vector is for "
            "losses of one score. Declare the loss in its score, Loss(..., score=u)."
        )
    if coupling.values is None:
        if not is_residual_loss(loss):
            raise NoExactCorrectionError(
                f"{loss.expression} is no function of the residual {loss.target} - u, and {coupling.statement}. Such "
                f"losses are {_named(is_residual_loss)}. Use one of these, or release features and target apart, by a "
                "mechanism for each."
            )
        return Loss(loss.expression, score=loss.scores[0], target=loss.target, name=loss.name)
    if loss.target_values not in (None, coupling.values):
        raise ValueError(
            f"the loss has the target values {_listed(loss.target_values)} and the release "
            f"{_listed(coupling.values)}. Declare the same values on both: target_values= of the release."
        )
    if not is_margin_loss(loss, coupling.values):
        low, high = (f"{value:g}" for value in coupling.values)
        raise NoExactCorrectionError(
            f"{loss.expression} is no margin loss: F(u, {high}) is not F(-u, {low}), so that it needs more of a record "
            f"than y x, and {coupling.statement}. Margin losses are {_named(is_margin_loss)}, with the labels -1 and "
            "1. Use one of these, or release features and target apart, by a mechanism for each."
        )
    (score,) = loss.scores
    fixed = loss.expression.xreplace({loss.target: rational(coupling.values[1])})
    return Loss(fixed, score=score, target=loss.target, name=loss.name)


def _named(qualifies: Callable[[Loss], bool]) -> str:
    makers = [getattr(catalogue, name) for name in sorted(catalogue.__all__)]
    complete = [
        make() for make in makers if all(one.default is not one.empty for one in signature(make).parameters.values())
    ]
    names = [loss.name or "" for loss in complete if qualifies(loss)]
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _listed(values: tuple[float, ...] | None) -> str:
    return "{" + ", ".join(f"{value:g}" for value in values or ()) + "}"
