"""Bounds on the derivatives of a loss over a declared domain, proved by interval arithmetic.

Sensitivities of central solvers are multiples of these numbers: they are upper bounds, never estimates.
"""

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp
from sympy.functions.elementary.piecewise import piecewise_fold

from symdebias._domains import POSITIVE
from symdebias.codegen.functions import expit, inverse_mills, logistic_density, logsumexp, mills_excess, softplus
from symdebias.codegen.stable import rewrite
from symdebias.derivation.intervals import Range, mills_product, natural_range, number
from symdebias.losses import Loss
from symdebias.noise import exactly

FloatArray = np.ndarray[Any, np.dtype[np.float64]]
_Box = list[Range]

# Bounds are above the supremum by this share of it at most.
_PRECISION = 1e-7
# Below this share of the largest value that was met, a number is a rounding error.
_NOISE = 1e-13
# Boxes at a time, and halvings, before a bound is given up.
_MOST_BOXES, _MOST_ROUNDS = 200_000, 300
# A tail that starts here and has no bound has none further out. Growth from point to point is called growth for ever.
_FAR = 1e12
_POINTS = (1e2, 1e4, 1e6, 1e8)
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
        return max(form.slope() for form in _exponential_forms(loss, bounds))
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
        return 0.0, max(form.curvature() for form in _exponential_forms(loss, bounds))
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
    if not isinstance(loss, Loss):
        raise TypeError(f"bounds are those of a symdebias.Loss; got {type(loss).__name__}. Declare one.")
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
class _Piece:
    """A smooth expression on a box; of two variables the second is the target."""

    expression: sp.Expr
    variables: tuple[sp.Symbol, ...]
    lows: tuple[sp.Expr, ...]
    highs: tuple[sp.Expr, ...]


@dataclass(frozen=True)
class _Problem:
    """The loss as a function of one variable, or of score and target."""

    whole: _Piece

    @property
    def of(self) -> sp.Symbol:
        """The variable whose derivatives are those of the score."""
        return self.whole.variables[0]

    def pieces(self) -> list[_Piece]:
        """Return smooth pieces from left to right; the expression is continuous where they meet."""
        whole = self.whole
        expression = _in_branches(whole.expression)
        if not expression.has(sp.Piecewise):
            return [_Piece(expression, whole.variables, whole.lows, whole.highs)]
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
                    found.append(_Piece(branch, (variable,), (part.start,), (part.end,)))
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
        for value in loss.target_values:
            at_value = expression.xreplace({target: sp.Rational(value)})
            # The domain is symmetric: a margin loss has the bounds of its first value.
            if at_value.xreplace({score: -score}) not in seen:
                seen.append(at_value)
                yield _Problem(_Piece(at_value, (score,), (-end,), (end,)))
        return
    low, high = (
        sp.Rational(value) if math.isfinite(value) else sp.oo * int(math.copysign(1, value)) for value in bounds
    )
    residual = sp.Dummy("r", real=True)
    of_residual = expression.xreplace({score: residual + target})
    if of_residual.has(target):
        of_residual = sp.simplify(of_residual)
    if not of_residual.has(target):
        yield _Problem(_Piece(of_residual, (residual,), (-end - high,), (end - low,)))
        return
    smooth = not expression.has(sp.Piecewise, sp.Abs, sp.Max, sp.Min, sp.sign)
    if smooth and sp.simplify(sp.diff(expression, score, target)) == 0:
        yield _Problem(_Piece(expression.xreplace({target: sp.Integer(0)}), (score,), (-end,), (end,)))
        return
    if smooth and sp.simplify(sp.diff(expression, score, target, 2)) == 0 and low.is_finite and high.is_finite:
        # Slope and curvature are affine in the target: their extremes are at its bounds.
        for value in (low, high):
            yield _Problem(_Piece(expression.xreplace({target: value}), (score,), (-end,), (end,)))
        return
    if not (low.is_finite and high.is_finite):
        raise ValueError(
            f"the derivatives of {loss.expression} depend on the target, which has no bounds. Bounds are proved for a "
            "bounded target. Give target_bounds=, public numbers, or declare target_values."
        )
    yield _Problem(_Piece(expression, (score, target), (-end, low), (end, high)))


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


def _difference_at(left: sp.Expr, right: sp.Expr, piece: _Piece) -> int:
    """Return the sign of right - left at the lower end of a piece of one variable."""
    place = {piece.variables[0]: piece.lows[0]}
    difference = sp.simplify((right - left).xreplace(place))
    if difference == 0:
        return 0
    value = sp.N(difference, _DIGITS)
    return 0 if abs(value) < sp.Float(10) ** (10 - _DIGITS) else int(sp.sign(value))


def _stable(expression: sp.Expr) -> sp.Expr:
    """Return an expression whose derivatives have tight ranges: log-sum-exps and log Phi as single functions."""
    written = expression.replace(sp.tanh, lambda x: 2 * sp.exp(2 * x) / (1 + sp.exp(2 * x)) - 1)
    written = written.replace(lambda node: isinstance(node, (sp.cosh, sp.sinh)), lambda node: node.rewrite(sp.exp))
    return rewrite(written)


# ---- branch and bound ----------------------------------------------------------------------------------------------


def _least_upper(piece: _Piece, expression: sp.Expr, loss: Loss, what: str) -> float:
    """Return an upper bound on an expression over the box of a piece."""
    name = f"the {loss.name} loss" if loss.name else f"the loss {loss.expression}"
    found = _supremum(_evaluated(expression, piece))
    if found is None and len(piece.variables) == 1 and not _grows(expression, piece):
        # Powers cancel in the inverse of the variable, where the tail is next to zero.
        parts = [_supremum(_evaluated(*part)) for part in _tails_turned(expression, piece)]
        found = None if None in parts else max(part for part in parts if part is not None)
    if found is None:
        raise ValueError(_refusal(piece, expression, name, what))
    return found


def _refusal(piece: _Piece, expression: sp.Expr, name: str, what: str) -> str:
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
    proved = "" if _grows(expression, piece) else " that could be proved"
    return f"{name} has no {constant} on the whole line{proved}. {remedy}"


def _grows(expression: sp.Expr, piece: _Piece) -> bool:
    """Whether the size of an expression grows from point to point towards an infinite end."""
    evaluated = _evaluated(expression, piece)
    for sign in (-1.0, 1.0):
        places = [[np.clip(sign * size, side.low, side.high) for side in evaluated.box] for size in _POINTS]
        found = [evaluated.value([Range(place, place) for place in point]) for point in places]
        sizes = [float(np.abs(value.low + value.high)[0] / 2) for value in found]
        if all(1.5 * first < second or second > 1e300 for first, second in itertools.pairwise(sizes)):
            return True
    return False


def _tails_turned(expression: sp.Expr, piece: _Piece) -> list[tuple[sp.Expr, _Piece]]:
    """Return the parts of an infinite piece, the tails in the inverse of the variable."""
    (variable,), (low,), (high,) = piece.variables, piece.lows, piece.highs
    turned = sp.Dummy("v", positive=True)
    parts = []
    inner = [low, high]
    for side, end in enumerate((low, high)):
        if not end.is_finite:
            sign = -1 if side == 0 else 1
            start = (
                max(sp.Integer(1), sign * (high if side == 0 else low))
                if (high, low)[side].is_finite
                else sp.Integer(1)
            )
            inner[side] = sign * start
            tail = sp.simplify(expression.xreplace({variable: sign / turned}))
            parts.append((tail, _Piece(tail, (turned,), (sp.Integer(0),), (sp.Integer(1) / start,))))
    if inner[0] < inner[1]:
        parts.append((expression, _Piece(expression, (variable,), (inner[0],), (inner[1],))))
    return parts


@dataclass(frozen=True)
class _Evaluated:
    """An expression and its derivatives as functions of boxes, and the box to begin with."""

    value: Callable[[_Box], Range]
    slopes: tuple[Callable[[_Box], Range], ...]
    box: _Box


def _evaluated(expression: sp.Expr, piece: _Piece) -> _Evaluated:
    def of(node: sp.Expr) -> Callable[[_Box], Range]:
        return lambda box: natural_range(node, dict(zip(piece.variables, box, strict=True)))

    return _Evaluated(
        of(expression),
        tuple(of(sp.diff(expression, variable)) for variable in piece.variables),
        [
            Range(number(low).low.reshape(1), number(high).high.reshape(1))
            for low, high in zip(piece.lows, piece.highs, strict=True)
        ],
    )


def tight_derivative(expression: sp.Expr, variable: sp.Symbol, order: int) -> sp.Expr:
    """Return a derivative, of order 0 the expression itself, in a form whose natural range is tight."""
    found = sp.diff(_stable(expression), variable, order).replace(_has_density, _with_density)
    return found.replace(_has_mills_product, _with_mills_product)


def _has_density(node: sp.Basic) -> bool:
    return node.is_Mul and any(isinstance(part, expit) and {1 - part, part - 1} & {*node.args} for part in node.args)


def _with_density(node: sp.Expr) -> sp.Expr:
    """Write expit(x) (1 - expit(x)), in which the variable occurs twice, as one function."""
    part = next(part for part in node.args if isinstance(part, expit) and {1 - part, part - 1} & {*node.args})
    sign = 1 if 1 - part in node.args else -1
    others = [other for other in node.args if other not in (part, 1 - part, part - 1)]
    return sp.Mul(sign, logistic_density(part.args[0]), *others)


def _has_mills_product(node: sp.Basic) -> bool:
    return node.is_Mul and any(
        isinstance(part, mills_excess) and inverse_mills(part.args[0]) in node.args for part in node.args
    )


def _with_mills_product(node: sp.Expr) -> sp.Expr:
    """Write inverse_mills(x) mills_excess(x), of which one falls and the other rises, as one function."""
    found = (part.args[0] for part in node.args if isinstance(part, mills_excess))
    x = next(x for x in found if inverse_mills(x) in node.args)
    others = [part for part in node.args if part not in (inverse_mills(x), mills_excess(x))]
    return sp.Mul(mills_product(x), *others)


def _supremum(evaluated: _Evaluated) -> float | None:
    """Return an upper bound within `_PRECISION` of the supremum, or None where none was found."""
    box = evaluated.box
    best, ceiling, size = -math.inf, -math.inf, 0.0
    if _has_open_tail(evaluated):
        return None
    for _ in range(_MOST_ROUNDS):
        upper = _enclosure(evaluated, box).high
        middle = [Range(point, point) for point in map(_middle, box)]
        at_middle = evaluated.value(middle)
        reached = at_middle.low
        finite = reached[np.isfinite(reached)]
        best = max(best, float(finite.max(initial=-math.inf)))
        size = max(size, float(np.abs(finite).max(initial=0.0)))
        slack = max(_PRECISION * abs(best), _NOISE * size) if best > -math.inf else 0.0
        done = (upper <= best + slack) & (upper < math.inf)
        ceiling = max(ceiling, float(upper[done].max(initial=-math.inf)))
        box = [Range(side.low[~done], side.high[~done]) for side in box]
        if done.all():
            return max(ceiling, best)
        if 2 * len(box[0].low) > _MOST_BOXES:
            return None
        box = _halved(box)
    return None


def _has_open_tail(evaluated: _Evaluated) -> bool:
    """Whether the interval of a tail far out is infinite: cutting it further does not help."""
    for place, side in enumerate(evaluated.box):
        for end, tail in ((side.low, (-math.inf, -_FAR)), (side.high, (_FAR, math.inf))):
            if np.isinf(end).all():
                far = list(evaluated.box)
                far[place] = Range(np.array([tail[0]]), np.array([tail[1]]))
                if not (evaluated.value(far).high < math.inf).all():
                    return True
    return False


def _middle(side: Range) -> FloatArray:
    low, high = side.low, side.high
    with np.errstate(invalid="ignore"):
        middle = low / 2 + high / 2
    middle = np.where(np.isinf(low) & np.isinf(high), 0.0, middle)
    middle = np.where(np.isfinite(low) & np.isinf(high), np.maximum(2 * low, 1.0), middle)
    middle = np.where(np.isinf(low) & np.isfinite(high), np.minimum(2 * high, -1.0), middle)
    return np.asarray(np.clip(middle, low, high))


def _halved(box: _Box) -> _Box:
    """Return both halves of each box, cut across its widest side."""
    widths = np.array(
        [np.where(np.isinf(side.low) | np.isinf(side.high), math.inf, side.high - side.low) for side in box]
    )
    widest = np.argmax(widths, axis=0)
    cut = []
    for place, side in enumerate(box):
        middle = _middle(side)
        here = widest == place
        cut.append(
            Range(
                np.concatenate([side.low, np.where(here, middle, side.low)]),
                np.concatenate([np.where(here, middle, side.high), side.high]),
            )
        )
    return cut


def _enclosure(evaluated: _Evaluated, box: _Box) -> Range:
    """Return the natural interval, cut with that of the mean value theorem on finite boxes."""
    natural = evaluated.value(box)
    middle = [Range(point, point) for point in map(_middle, box)]
    centred = evaluated.value(middle)
    for side, centre, slope in zip(box, middle, evaluated.slopes, strict=True):
        centred = centred + slope(box) * (side - centre)
    return natural.within(centred)


# ---- several scores: sums of log-sum-exps ---------------------------------------------------------------------------


@dataclass(frozen=True)
class _ExponentialForm:
    """sum_i c_i log sum_j exp(a_ij'u + b_ij) + a'u + b, with c_i > 0.

    Attributes
    ----------
    affine : array of shape (K,)
        a.
    terms : tuple of (float, array of shape (m, K))
        c_i, and the rows a_ij.
    """

    affine: FloatArray
    terms: tuple[tuple[float, FloatArray], ...]

    def slope(self) -> float:
        """Return the largest norm of the gradient: it is a + sum_i c_i (a mean of the rows a_ij)."""
        choices = math.prod(len(rows) for _, rows in self.terms)
        if choices > _MOST_BOXES:
            # The largest norm of a sum is at most the sum of those of its parts, each about its middle.
            return _up(float(np.linalg.norm(self.affine)) + sum(c * _longest(rows) for c, rows in self.terms))
        sums = [
            self.affine + sum(c * row for (c, _), row in zip(self.terms, chosen, strict=True))
            for chosen in itertools.product(*(rows for _, rows in self.terms))
        ]
        return _up(_longest(np.array(sums)))

    def curvature(self) -> float:
        """Return the sum of c_i diameter_i^2/4, which the largest eigenvalue of the Hessian does not exceed."""
        return _up(sum(c * _longest(rows[:, None] - rows[None, :]) ** 2 / 4 for c, rows in self.terms))


def _longest(vectors: FloatArray) -> float:
    return float(np.sqrt((vectors**2).sum(axis=-1)).max())


def _up(value: float) -> float:
    """Return a number above what a few roundings of small integers may have lowered; 0 stays."""
    return value * (1 + 2.0**-48)


def _exponential_forms(loss: Loss, bounds: tuple[float, float]) -> list[_ExponentialForm]:
    """Return the loss for each declared value of the target, or say why it is no such sum."""
    name = f"the {loss.name} loss" if loss.name else f"the loss {loss.expression}"
    refusal = (
        f"{name} of {len(loss.scores)} scores has no bounds that could be proved. For several scores they are proved "
        "for sums, with positive coefficients, of log(exp(...) + ... + exp(...)) with exponents affine in the scores, "
        "plus affine terms, for declared target_values. Write the loss as such a sum, or use one score."
    )
    if loss.target_values is None and loss.expression.has(loss.target):
        raise ValueError(refusal)
    found = []
    for value in loss.target_values or (0.0,):
        written = rewrite(exactly(loss.expression).xreplace({loss.target: sp.Rational(value)}))
        nodes = sorted(written.atoms(logsumexp, softplus), key=sp.default_sort_key)
        stand_ins = [sp.Dummy() for _ in nodes]
        rest = written.xreplace(dict(zip(nodes, stand_ins, strict=True)))
        try:
            coefficients = [float(rest.coeff(stand_in, 1)) for stand_in in stand_ins]
            remainder = sp.expand(rest.xreplace(dict.fromkeys(stand_ins, sp.Integer(0))))
            if sp.expand(rest - remainder - sum(rest.coeff(s, 1) * s for s in stand_ins)) != 0:
                raise ValueError(refusal)
            terms = tuple(
                (c, np.array([_coefficients(argument, loss.scores) for argument in _arguments(node)]))
                for c, node in zip(coefficients, nodes, strict=True)
            )
            affine = np.array(_coefficients(remainder, loss.scores))
        except (TypeError, sp.PolynomialError):
            raise ValueError(refusal) from None
        if not all(c > 0 for c, _ in terms):
            raise ValueError(refusal)
        found.append(_ExponentialForm(affine, terms))
    return found


def _arguments(node: sp.Expr) -> tuple[sp.Expr, ...]:
    return (sp.Integer(0), node.args[0]) if isinstance(node, softplus) else node.args


def _coefficients(expression: sp.Expr, scores: Sequence[sp.Symbol]) -> list[float]:
    polynomial = sp.Poly(expression, *scores)
    if polynomial.total_degree() > 1:
        raise sp.PolynomialError
    return [float(polynomial.coeff_monomial(score)) for score in scores]
