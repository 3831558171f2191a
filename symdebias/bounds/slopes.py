"""Bounds on the derivatives of a loss over a declared domain, proved by interval arithmetic.

Sensitivities of central solvers are multiples of these numbers: they are upper bounds, never estimates.
"""

import functools
import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import sympy as sp
from sympy.functions.elementary.piecewise import piecewise_fold

from symdebias._domains import POSITIVE
from symdebias.bounds.exponential_forms import exponential_forms
from symdebias.bounds.suprema import Piece, grows, supremum
from symdebias.bounds.tight import tight_derivative
from symdebias.losses import Loss
from symdebias.losses.loss import require_loss
from symdebias.losses.spellings import spellings
from symdebias.noise import exactly

_DIGITS = 60


def slope_bound(
    loss: Loss, *, score_radius: float | None = None, target_bounds: tuple[float, float] | None = None
) -> float:
    """Bound the slope of a loss in its scores, sup ||grad_U F(U, y)||.

    Parameters
    ----------
    loss : Loss
        A loss in scores.
    score_radius : float, optional
        The bound on the size of each score, positive; None for the whole line.
    target_bounds : pair of float, optional
        The bounds of the target, for a loss without declared target values; None for the whole line.

    Returns
    -------
    float
        An upper bound in the L2 norm over the scores. For one score it is above the supremum by at most 1e-6 of it;
        for several scores it is that of the whole line, whatever `score_radius` is.

    Raises
    ------
    ValueError
        The slope has no bound there, or none that could be proved.
    TypeError
        The loss is no loss in scores, or an argument is not a number.

    Notes
    -----
    Times a bound on the norm of a record, it is the Lipschitz constant of the record's loss in theta, in the Frobenius
    norm for several scores.

    One score: branch and bound with intervals rounded outwards, naturally and by the mean value theorem. Several
    scores: the gradient of log sum exp of affine forms is a mean of the forms' coefficient vectors, so that of a sum of
    such terms its norm is at most the largest over the vertices.

    Examples
    --------
    >>> import symdebias as sd
    >>> slope_bound(sd.losses.logistic())
    1.0
    """
    radius, bounds = _checked(loss, score_radius, target_bounds)
    if len(loss.scores) > 1:
        return max(form.slope() for form in exponential_forms(loss))
    return max(max(-low, high) for low, high in _slope_ranges(loss, radius, bounds))


def slope_ranges(
    loss: Loss, *, score_radius: float | None = None, target_bounds: tuple[float, float] | None = None
) -> tuple[tuple[float, float], ...]:
    """Bound the slope of a loss of one score from below and from above, for each kind of record by itself.

    Parameters
    ----------
    loss, score_radius, target_bounds
        As for `slope_bound`.

    Returns
    -------
    tuple of pairs of float
        For each declared value of the target, or for all targets together. A value whose loss is the mirror image
        of another one's is left out: its slopes are the negatives.

    Raises
    ------
    ValueError, TypeError
        As for `slope_bound`, and for a loss of several scores.

    Examples
    --------
    >>> import symdebias as sd
    >>> slope_ranges(sd.losses.logistic())
    ((0.0, 1.0),)
    """
    radius, bounds = _checked(loss, score_radius, target_bounds)
    if len(loss.scores) > 1:
        raise ValueError(
            f"a loss of {len(loss.scores)} scores has a gradient and no slope with a sign. Use slope_bound, which "
            "bounds its norm."
        )
    return _slope_ranges(loss, radius, bounds)


@functools.lru_cache(maxsize=256)
def _slope_ranges(loss: Loss, radius: float, bounds: tuple[float, float]) -> tuple[tuple[float, float], ...]:
    found = []
    for problem in _problems(loss, radius, bounds):
        low, high = math.inf, -math.inf
        for piece in problem.pieces():
            slope = tight_derivative(piece.expression, problem.of, 1)
            low = min(low, -_least_upper(piece, -slope, loss, "slope"))
            high = max(high, _least_upper(piece, slope, loss, "slope"))
        found.append((low + 0.0, high + 0.0))
    if loss.target_values is None:
        # Between the ends of a target slopes have ranges that are no part of one at an end.
        return ((min(low for low, _ in found), max(high for _, high in found)),)
    return tuple(found)


def curvature_range(
    loss: Loss, *, score_radius: float | None = None, target_bounds: tuple[float, float] | None = None
) -> tuple[float, float]:
    """Bound the curvature of a loss in its scores, from below and from above.

    Parameters
    ----------
    loss, score_radius, target_bounds
        As for `slope_bound`.

    Returns
    -------
    tuple of float
        A lower bound on the least eigenvalue of the Hessian in the scores and an upper bound on the largest one. A
        lower bound of 0 or more proves the loss convex. A kink counts as infinite curvature of its sign; a jump of the
        curvature itself is harmless.

    Raises
    ------
    ValueError
        There is no bound that could be proved; an infinite curvature at a kink is returned and not refused.
    TypeError
        The loss is no loss in scores, or an argument is not a number.

    Notes
    -----
    The Hessian of log sum exp of affine forms is the covariance of the forms' coefficient vectors, whose largest
    eigenvalue is at most a quarter of the squared diameter of their set.

    Examples
    --------
    >>> import symdebias as sd
    >>> curvature_range(sd.losses.squared_hinge())
    (0.0, 1.0)
    """
    radius, bounds = _checked(loss, score_radius, target_bounds)
    if len(loss.scores) > 1:
        return 0.0, max(form.curvature() for form in exponential_forms(loss))
    return _curvature_range(loss, radius, bounds)


@functools.lru_cache(maxsize=256)
def _curvature_range(loss: Loss, radius: float, bounds: tuple[float, float]) -> tuple[float, float]:
    low, high = math.inf, -math.inf
    for problem in _problems(loss, radius, bounds):
        pieces = problem.pieces()
        for left, right in itertools.pairwise(pieces):
            jump = _difference_at(sp.diff(left.expression, problem.of), sp.diff(right.expression, problem.of), right)
            low, high = (-math.inf, high) if jump < 0 else (low, math.inf) if jump > 0 else (low, high)
        for piece in pieces:
            curvature = tight_derivative(piece.expression, problem.of, 2)
            if high < math.inf:
                high = max(high, _least_upper(piece, curvature, loss, "curvature"))
            if low > -math.inf:
                low = min(low, -_least_upper(piece, -curvature, loss, "curvature"))
    # An unsigned zero: the lower bound is what convexity is read from.
    return low + 0.0, high + 0.0


def _checked(
    loss: Loss, score_radius: float | None, target_bounds: tuple[float, float] | None
) -> tuple[float, tuple[float, float]]:
    require_loss(loss)
    if not loss.scores:
        raise TypeError(
            "a free-form loss has no scores to bound. Declare it in scores, with symdebias.Loss(expression, score=...)."
        )
    radius = math.inf if score_radius is None else POSITIVE.check("score_radius", score_radius)
    low, high = (-math.inf, math.inf) if target_bounds is None else target_bounds
    if not low < high:
        raise ValueError(f"target_bounds={target_bounds} is not in order. Give the lower bound first.")
    return radius, (float(low), float(high))


# ---- one score: problems in one or two variables, in smooth pieces --------------------------------------------------


@dataclass(frozen=True)
class _Problem:
    """The loss as a function of one variable, or of score and target."""

    whole: Piece

    @property
    def of(self) -> sp.Symbol:
        """The variable whose derivatives are those of the score."""
        return self.whole.variables[0]

    def pieces(self) -> list[Piece]:
        """Return smooth pieces from left to right; the expression is continuous where they meet."""
        whole = self.whole
        expression = _in_branches(whole.expression)
        if not expression.has(sp.Piecewise):
            return [Piece(expression, whole.variables, whole.lows, whole.highs)]
        if len(whole.variables) > 1:
            raise ValueError(
                f"the branches of {whole.expression} depend on score and target, and not on u - y alone. Bounds are "
                "proved for branches in the residual, or for declared target_values. Declare the values."
            )
        (variable,), (low,), (high,) = whole.variables, whole.lows, whole.highs
        found = []
        for branch, where in piecewise_fold(expression).as_expr_set_pairs(sp.Interval(low, high)):
            for part in where.args if isinstance(where, sp.Union) else (where,):
                if isinstance(part, sp.Interval) and part.start < part.end:
                    found.append(Piece(branch, (variable,), (part.start,), (part.end,)))
                elif not isinstance(part, (sp.FiniteSet, sp.Interval)) and part is not sp.S.EmptySet:
                    raise ValueError(
                        f"the branches of {whole.expression} were not separated. Bounds are proved for branches with "
                        "inequalities that SymPy solves. Write them as comparisons of the score with numbers."
                    )
        found.sort(key=lambda piece: float(piece.lows[0]))
        for left, right in itertools.pairwise(found):
            if _difference_at(left.expression, right.expression, right) != 0:
                raise ValueError(
                    f"the loss {whole.expression} jumps at {right.lows[0]}: it has no Lipschitz constant. A loss must "
                    "be continuous in the score. Declare one that is."
                )
        return found


def _problems(loss: Loss, radius: float, bounds: tuple[float, float]) -> Iterable[_Problem]:
    """Yield the loss for each declared value of the target, for its residual, or for all score and targets."""
    (score,), target = loss.scores, loss.target
    expression = exactly(loss.expression)
    end = exactly(sp.Float(radius)) if radius < math.inf else sp.oo
    if loss.target_values is not None:
        seen: list[sp.Expr] = []
        numbers = [number for value in loss.target_values for number in spellings(expression, target, value)]
        for number in numbers:
            at_value = expression.xreplace({target: number})
            # The domain is symmetric: a margin loss has the bounds of its first value.
            if at_value.xreplace({score: -score}) not in seen:
                seen.append(at_value)
                yield _Problem(Piece(at_value, (score,), (-end,), (end,)))
        return
    low, high = (
        sp.Rational(value) if math.isfinite(value) else sp.oo * int(math.copysign(1, value)) for value in bounds
    )
    residual = sp.Dummy("r", real=True)
    of_residual = expression.xreplace({score: residual + target})
    if of_residual.has(target):
        of_residual = sp.simplify(of_residual)
    if not of_residual.has(target):
        yield _Problem(Piece(of_residual, (residual,), (-end - high,), (end - low,)))
        return
    smooth = not expression.has(sp.Piecewise, sp.Abs, sp.Max, sp.Min, sp.sign)
    if smooth and sp.simplify(sp.diff(expression, score, target)) == 0:
        yield _Problem(Piece(expression.xreplace({target: sp.Integer(0)}), (score,), (-end,), (end,)))
        return
    if smooth and sp.simplify(sp.diff(expression, score, target, 2)) == 0 and low.is_finite and high.is_finite:
        # Slope and curvature are affine in the target: their extremes are at its bounds.
        for value in (low, high):
            yield _Problem(Piece(expression.xreplace({target: value}), (score,), (-end,), (end,)))
        return
    if not (low.is_finite and high.is_finite):
        raise ValueError(
            f"the derivatives of {loss.expression} depend on the target, which has no bounds. Bounds are proved for a "
            "bounded target. Give target_bounds=, public numbers, or declare target_values."
        )
    yield _Problem(Piece(expression, (score, target), (-end, low), (end, high)))


def _in_branches(expression: sp.Expr) -> sp.Expr:
    """Write sizes, signs and maxima as branches, with conditions that have none of them."""
    expression = expression.replace(lambda node: isinstance(node, sp.core.relational.Relational), _without_size)
    pieced = expression.has(sp.Abs, sp.Max, sp.Min, sp.sign, sp.Heaviside)
    return expression.rewrite([sp.Abs, sp.Max, sp.Min, sp.sign, sp.Heaviside], sp.Piecewise) if pieced else expression


def _without_size(relation: Any) -> Any:
    """Write a comparison of an absolute value with a number as comparisons of its argument."""
    if relation.rel_op in (">", ">=") and isinstance(relation.rhs, sp.Abs):
        relation = relation.reversed
    if not (isinstance(relation.lhs, sp.Abs) and relation.rhs.is_number):
        return relation
    inner, limit = relation.lhs.args[0], relation.rhs
    if relation.rel_op in ("<", "<="):
        return sp.And(relation.func(inner, limit), relation.func(-inner, limit))
    if relation.rel_op in (">", ">="):
        return sp.Or(relation.func(inner, limit), relation.func(-inner, limit))
    return relation


def _difference_at(left: sp.Expr, right: sp.Expr, piece: Piece) -> int:
    """Return the sign of right - left at the lower end of a piece of one variable."""
    place = {piece.variables[0]: piece.lows[0]}
    difference = sp.simplify((right - left).xreplace(place))
    if difference == 0:
        return 0
    value = sp.N(difference, _DIGITS)
    return 0 if abs(value) < sp.Float(10) ** (10 - _DIGITS) else int(sp.sign(value))


def _least_upper(piece: Piece, expression: sp.Expr, loss: Loss, what: str) -> float:
    """Return an upper bound on an expression over the box of a piece."""
    name = f"the {loss.name} loss" if loss.name else f"the loss {loss.expression}"
    bound = supremum(expression, piece)
    if bound is None:
        raise ValueError(_refusal(piece, expression, name, what))
    return bound


def _refusal(piece: Piece, expression: sp.Expr, name: str, what: str) -> str:
    """Say that there is no bound, or that none was proved, and what to do."""
    constant = "Lipschitz constant" if what == "slope" else "bound on its curvature"
    if all(end.is_finite for end in (*piece.lows, *piece.highs)):
        return (
            f"{name} has no {constant} on this domain that could be proved. Numbers must stay within float64, and the "
            "loss smooth. Give smaller bounds."
        )
    remedy = (
        "It must have one. Give radius=, the bound on theta, and record_radius=, the bound on records; of a target "
        "without declared values also target_bounds=."
    )
    proved = "" if grows(expression, piece) else " that could be proved"
    return f"{name} has no {constant} on the whole line{proved}. {remedy}"
