"""Suprema of smooth expressions over finite and infinite boxes, by branch and bound with intervals.

A box is enclosed naturally and by the mean value theorem, and halved until the bound is next to a value that is taken.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import sympy as sp

from symdebias._arrays import FloatArray
from symdebias.bounds.intervals import Range, natural_range, number

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


@dataclass(frozen=True)
class Piece:
    """A smooth expression on a box; of two variables the second is the target."""

    expression: sp.Expr
    variables: tuple[sp.Symbol, ...]
    lows: tuple[sp.Expr, ...]
    highs: tuple[sp.Expr, ...]


def supremum(
    expression: sp.Expr, piece: Piece, *, precision: float = _PRECISION, most_boxes: int = _MOST_BOXES
) -> float | None:
    """Return an upper bound on an expression over the box of a piece, or None where none was proved.

    It is above the supremum by a share `precision` of it at most, which is found among so many boxes at a time.
    """
    piece = _of_own_variables(expression, piece)
    if not piece.variables:
        found = float(number(expression).high)
        return found if math.isfinite(found) else None
    bound = _on_boxes(_evaluated(expression, piece), precision, most_boxes)
    if bound is None and len(piece.variables) == 1 and not grows(expression, piece):
        # Powers cancel in the inverse of the variable, where the tail is next to zero.
        parts = [_on_boxes(_evaluated(*part), precision, most_boxes) for part in _tails_turned(expression, piece)]
        bound = None if None in parts else max(part for part in parts if part is not None)
    return bound


def _of_own_variables(expression: sp.Expr, piece: Piece) -> Piece:
    """Return the piece without the variables that the expression does not have: cuts along these change nothing."""
    sides = zip(piece.variables, piece.lows, piece.highs, strict=True)
    own = [side for side in sides if side[0] in expression.free_symbols]
    variables, lows, highs = zip(*own, strict=True) if own else ((), (), ())
    return Piece(piece.expression, variables, lows, highs)


def grows(expression: sp.Expr, piece: Piece) -> bool:
    """Whether the size of an expression grows from point to point towards an infinite end."""
    evaluated = _evaluated(expression, piece)
    for sign in (-1.0, 1.0):
        places = [[np.clip(sign * size, side.low, side.high) for side in evaluated.box] for size in _POINTS]
        found = [evaluated.value([Range(place, place) for place in point]) for point in places]
        # All numbers have no middle, and do not count as growth.
        with np.errstate(invalid="ignore", over="ignore"):
            sizes = [float(np.abs(value.low + value.high)[0] / 2) for value in found]
        if all(1.5 * first < second or second > 1e300 for first, second in itertools.pairwise(sizes)):
            return True
    return False


def _tails_turned(expression: sp.Expr, piece: Piece) -> list[tuple[sp.Expr, Piece]]:
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
            parts.append((tail, Piece(tail, (turned,), (sp.Integer(0),), (sp.Integer(1) / start,))))
    if inner[0] < inner[1]:
        parts.append((expression, Piece(expression, (variable,), (inner[0],), (inner[1],))))
    return parts


@dataclass(frozen=True)
class _Evaluated:
    """An expression and its derivatives as functions of boxes, and the box to begin with."""

    value: Callable[[_Box], Range]
    slopes: tuple[Callable[[_Box], Range], ...]
    box: _Box


def _evaluated(expression: sp.Expr, piece: Piece) -> _Evaluated:
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


def _on_boxes(evaluated: _Evaluated, precision: float, most_boxes: int) -> float | None:
    """Return an upper bound within a share of the supremum, or None where none was found."""
    box = evaluated.box
    best, ceiling, size = -math.inf, -math.inf, 0.0
    if _has_open_tail(evaluated):
        return None
    for _ in range(_MOST_ROUNDS):
        enclosed, spreads = _enclosure(evaluated, box)
        upper = enclosed.high
        middle = [Range(point, point) for point in map(_middle, box)]
        at_middle = evaluated.value(middle)
        reached = at_middle.low
        finite = reached[np.isfinite(reached)]
        best = max(best, float(finite.max(initial=-math.inf)))
        size = max(size, float(np.abs(finite).max(initial=0.0)))
        slack = max(precision * abs(best), _NOISE * size) if best > -math.inf else 0.0
        done = (upper <= best + slack) & (upper < math.inf)
        ceiling = max(ceiling, float(upper[done].max(initial=-math.inf)))
        box = [Range(side.low[~done], side.high[~done]) for side in box]
        if done.all():
            return max(ceiling, best)
        if 2 * len(box[0].low) > most_boxes:
            return None
        box = _halved(box, spreads[:, ~done])
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


def _halved(box: _Box, spreads: FloatArray) -> _Box:
    """Return both halves of each box, cut across the side along which its expression may change most."""
    widths = np.array(
        [np.where(np.isinf(side.low) | np.isinf(side.high), math.inf, side.high - side.low) for side in box]
    )
    # Where that is not known, or nothing, across the widest.
    known = np.all(np.isfinite(spreads) & np.isfinite(widths), axis=0) & (spreads.max(axis=0) > 0)
    chosen = np.argmax(np.where(known, spreads, widths), axis=0)
    cut = []
    for place, side in enumerate(box):
        middle = _middle(side)
        here = chosen == place
        cut.append(
            Range(
                np.concatenate([side.low, np.where(here, middle, side.low)]),
                np.concatenate([np.where(here, middle, side.high), side.high]),
            )
        )
    return cut


def _enclosure(evaluated: _Evaluated, box: _Box) -> tuple[Range, FloatArray]:
    """Return the natural interval, cut with that of the mean value theorem on finite boxes.

    Second comes by how much the expression may change along each side.
    """
    natural = evaluated.value(box)
    middle = [Range(point, point) for point in map(_middle, box)]
    centred, spreads = evaluated.value(middle), []
    for side, centre, slope in zip(box, middle, evaluated.slopes, strict=True):
        change = slope(box) * (side - centre)
        centred = centred + change
        spreads.append(np.broadcast_to(np.maximum(np.abs(change.low), np.abs(change.high)), side.low.shape))
    return natural.within(centred), np.array(spreads)
