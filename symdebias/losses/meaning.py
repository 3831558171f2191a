"""What a loss says of the target at a score: chances of its values, its mean, its centre, or the label of least loss.

All of it is read off the expression, so that a user's own loss has it as those of the catalogue do.
"""

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import sympy as sp

from symdebias import _limits
from symdebias.losses.probes import DIGITS, EQUAL, PROBES, points

if TYPE_CHECKING:
    from symdebias.losses.loss import Loss

# Longer expressions are not simplified: SymPy's time for that grows without bound.
_MOST_SIMPLIFIED = 200
# What may jump, for some of its arguments.
_JUMPS = (
    sp.core.relational.Relational, sp.floor, sp.ceiling, sp.frac, sp.Mod, sp.sign, sp.Heaviside, sp.tan, sp.cot, sp.sec,
    sp.csc, sp.acot,
)  # fmt: skip
# Sizes of scores at which signs are compared.
_SIZES = tuple(sp.Rational(text) for text in ("1/100", "2/10", "7/10", "14/10", "29/10", "61/10"))


@dataclass(frozen=True)
class Meaning:
    """What a loss says of the target at its scores."""

    values: tuple[float, ...]  # The target values that the loss tells apart, in order; empty for a continuous target.
    losses: tuple[sp.Expr, ...]  # The loss F(u, v) at each of them, in the scores.
    # Whether the sum of exp(-F(u, v)) over the values v is the same at all scores: the loss is then a negative log
    # likelihood, up to a constant, and these over their sum are the chances of the values.
    is_likelihood: bool
    # A number that stands for the target, in the score. Where the slope F_u is affine in the target it is the mean E[y
    # | u], at which the mean of F_u vanishes. Of a loss of the residual y - u it is u: what is u away from the target
    # has the least loss on average, a centre for the Huber loss and a quantile for the quantile loss.
    number: sp.Expr | None
    # {-1, 0, 1}: For two target values: 1 where the larger one has the lesser loss at positive scores and the smaller
    # one at negative scores, -1 the other way around, 0 where it is neither.
    sign: int

    @property
    def predicts(self) -> str | None:
        """What is predicted: ``"label"``, ``"number"``, or None where the loss says neither.

        A loss of a number, such as least squares, predicts numbers also where the target has declared values. A loss
        with a probability model or without such a number predicts labels.
        """
        if self.number is not None and not self.is_likelihood:
            return "number"
        return "label" if self.values else None


@functools.lru_cache(maxsize=256)
def meaning_of(loss: "Loss") -> Meaning:
    """Return what a loss says of the target.

    Parameters
    ----------
    loss : Loss
        A loss in scores. One of features by name has no meaning that could be read off.

    Examples
    --------
    >>> import symdebias as sd
    >>> meaning_of(sd.losses.poisson()).number, meaning_of(sd.losses.logistic()).predicts
    (exp(u), 'label')
    """
    if not loss.scores:
        return Meaning((), (), False, None, 0)
    by_value = {
        value: loss.expression.xreplace({loss.target: sp.nsimplify(value, rational=True)})
        for value in loss.target_values or ()
    }
    # A loss of one label against another is the same at all scores for the rest, and says nothing of them.
    told = {value: one for value, one in by_value.items() if one.has(*loss.scores)}
    values, losses = tuple(told), tuple(told.values())
    mean = _mean(loss)
    number = loss.scores[0] if mean is None and is_residual_loss(loss) else mean
    return Meaning(values, losses, _is_likelihood(loss, losses), number, _sign(loss, losses))


def _is_likelihood(loss: "Loss", losses: tuple[sp.Expr, ...]) -> bool:
    if not losses:
        return False
    sums = []
    for point in points(loss.scores):
        total = sp.Add(*(sp.exp(-one.xreplace(point)) for one in losses)).evalf(DIGITS)
        if not (total.is_real and total.is_finite and total > 0):
            return False
        sums.append(total)
    return all(abs(total / sums[0] - 1) < EQUAL for total in sums[1:])


def _mean(loss: "Loss") -> sp.Expr | None:
    """Return m(u) where F_u = b(u) (m(u) - y) with b m' > 0: then m(u) = E[y | u] minimises the mean loss."""
    if len(loss.scores) != 1:
        return None
    (score,), target = loss.scores, loss.target
    slope = _limits.expand(sp.diff(loss.expression, score))
    if not slope.has(target) or not slope.is_polynomial(target) or sp.degree(slope, target) != 1:
        return None
    weight = -slope.coeff(target, 1)
    mean = sp.simplify(slope.coeff(target, 0) / weight)
    rise = weight * sp.diff(mean, score)
    rises = [rise.xreplace({score: probe}).evalf(DIGITS) for probe in PROBES]
    return mean if all(one.is_real and one > 0 for one in rises) else None


@functools.lru_cache(maxsize=256)
def is_residual_loss(loss: "Loss") -> bool:
    """Whether a loss of one score is a function of the residual, the target less the score, as far as SymPy proves it.

    Parameters
    ----------
    loss : Loss
        The loss.

    Examples
    --------
    >>> from symdebias.losses import huber, logistic
    >>> is_residual_loss(huber()), is_residual_loss(logistic())
    (True, False)
    """
    if len(loss.scores) != 1 or not loss.expression.has(loss.target):
        return False
    (score,), residual = loss.scores, sp.Dummy("residual", real=True)
    moved = loss.expression.xreplace({loss.target: score + residual})
    # A condition such as u < u + r says r > 0.
    conditions = moved.atoms(sp.core.relational.Relational)
    moved = moved.xreplace({one: one.func(_limits.expand(one.lhs - one.rhs), 0) for one in conditions})
    if not moved.has(score) or not _limits.expand(moved).has(score):
        return True
    # What takes long is tried where numbers say that it is worth it.
    if moved.count_ops() > _MOST_SIMPLIFIED or not _is_constant(moved, score, residual):
        return False
    if not sp.simplify(moved).has(score):
        return True
    # A sum of logarithms does not change with the score where its slope is 0; one that jumps may.
    return not any(one.has(score) for one in moved.atoms(*_JUMPS)) and sp.simplify(sp.diff(moved, score)) == 0


def _is_constant(expression: sp.Expr, score: sp.Symbol, residual: sp.Symbol) -> bool:
    """Whether an expression is the same at all probes of the score, for each of the residual."""
    for apart in PROBES:
        values = [expression.xreplace({score: at, residual: apart}).evalf(DIGITS) for at in PROBES]
        if not all(one.is_real and abs(one - values[0]) < EQUAL * (1 + abs(values[0])) for one in values):
            return False
    return True


def _sign(loss: "Loss", losses: tuple[sp.Expr, ...]) -> int:
    if len(losses) != 2 or len(loss.scores) != 1:
        return 0
    (score,), found = loss.scores, set()
    for size in _SIZES:
        for at in (size, -size):
            gain = (losses[0] - losses[1]).xreplace({score: at}).evalf(DIGITS)
            found.add(int(sp.sign(gain) * sp.sign(at)) if gain.is_real else 0)
    return found.pop() if len(found) == 1 else 0
