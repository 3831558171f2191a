"""Functions of one variable with kinks: ranges on cells of the line, and the largest error between two functions.

What is called "at most" in a certificate comes from here. A function is enclosed on every cell by interval arithmetic;
cells are cut until the enclosure is as good as a value that is taken.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp

from symdebias._arrays import BooleanArray, FloatArray
from symdebias.bounds.intervals import Range, natural_range
from symdebias.bounds.search import largest_found
from symdebias.bounds.tight import tight_derivative
from symdebias.noise import exactly

# A bound is above a value that is taken by this share of it at most, where cutting cells gets there.
_CLOSE = 1e-3
# Cells to begin with, pieces of a cell that is cut, rounds of cutting, and cells at a time.
_FIRST, _PIECES, _MOST_ROUNDS, _MOST_CELLS = 128, 8, 24, 50_000
# Branches meet within this share of the line, and what changes by less than this there does not jump.
_NARROW, _CONTINUOUS = 1e-10, 1e-6

_BRANCHES = (sp.Piecewise, sp.Max, sp.Min, sp.sign, sp.Heaviside, sp.Abs, sp.DiracDelta)


def enclosure(expression: sp.Expr, variable: sp.Symbol, cells: Range) -> tuple[Range, BooleanArray]:
    """Return the range of an expression of one variable on finite cells, over all branches that a cell may meet.

    Beside what `intervals.natural_range` takes it may have branches, maxima, signs and steps. The range is never
    narrower than the true one, and shrinks to the one-sided limits where a cell shrinks around a jump. The mask says
    which cells may hold a place where branches meet: a derivative of the expression has no meaning there.

    Raises
    ------
    ValueError
        The expression has a function without interval arithmetic.

    Examples
    --------
    >>> u = sp.Symbol("u", real=True)
    >>> cells = Range(np.array([-1.0, 1.0]), np.array([0.5, 2.0]))
    >>> found, kinks = enclosure(sp.Abs(u), u, cells)
    >>> found.low.tolist(), found.high.tolist(), kinks.tolist()
    ([0.0, 1.0], [1.0, 2.0], [True, False])
    """
    known, met = _branches(expression, variable, cells)
    whole = natural_range(expression, known)
    return Range(*(np.broadcast_to(end, cells.low.shape) for end in (whole.low, whole.high))), met


def _branches(expression: sp.Expr, variable: sp.Symbol, cells: Range) -> tuple[dict[sp.Basic, Range], BooleanArray]:
    """Return the ranges of all nodes with branches, and the cells on which it is not known which branch holds."""
    known: dict[sp.Basic, Range] = {variable: cells}
    met = np.zeros(cells.low.shape, dtype=bool)
    for node in sp.postorder_traversal(expression):
        if isinstance(node, _BRANCHES) and node not in known:
            known[node], here = _of_branches(node, known)
            met |= here
    return known, met


def _of_branches(node: sp.Expr, known: dict[sp.Basic, Range]) -> tuple[Range, BooleanArray]:
    """Return the range of a node with branches, and where it is not known which of them holds."""
    if isinstance(node, sp.Piecewise):
        return _of_piecewise(node, known)
    if isinstance(node, (sp.Max, sp.Min)):
        sign = 1.0 if isinstance(node, sp.Max) else -1.0
        parts = [natural_range(part if sign > 0 else -part, known) for part in node.args]
        lows = np.array(np.broadcast_arrays(*(part.low for part in parts)))
        highs = np.array(np.broadcast_arrays(*(part.high for part in parts)))
        low, high = lows.max(axis=0), highs.max(axis=0)
        across = np.count_nonzero(highs >= low, axis=0) > 1
        return (Range(low, high) if sign > 0 else Range(-high, -low)), across
    inside = natural_range(node.args[0], known)
    across = (inside.low <= 0) & (inside.high >= 0)
    if isinstance(node, sp.Abs):
        return natural_range(node, known), across
    if isinstance(node, sp.DiracDelta):
        return Range(np.zeros(across.shape), np.where(across, math.inf, 0.0)), across
    least = 0.0 if isinstance(node, sp.Heaviside) else -1.0
    return Range(np.where(inside.low > 0, 1.0, least), np.where(inside.high < 0, least, 1.0)), across


def _of_piecewise(node: sp.Piecewise, known: dict[sp.Basic, Range]) -> tuple[Range, BooleanArray]:
    shape = np.broadcast_shapes(*(known_range.low.shape for known_range in known.values()))
    low, high = np.full(shape, math.inf), np.full(shape, -math.inf)
    left, count = np.ones(shape, dtype=bool), np.zeros(shape, dtype=int)
    for branch, condition in node.args:
        holds, may_hold = _truth(condition, known)
        here = left & may_hold
        found = natural_range(branch, known)
        low = np.where(here, np.minimum(low, found.low), low)
        high = np.where(here, np.maximum(high, found.high), high)
        count = count + here
        left = left & ~holds
    # Where no condition may hold nothing is known.
    low, high = np.where(left & (count == 0), -math.inf, low), np.where(left & (count == 0), math.inf, high)
    return Range(low, high), count > 1


def _truth(condition: Any, known: dict[sp.Basic, Range]) -> tuple[Any, Any]:
    """Return whether a condition holds for sure on each cell, and whether it may hold somewhere on it."""
    if condition in (sp.true, sp.false):
        return np.bool_(condition == sp.true), np.bool_(condition == sp.true)
    if isinstance(condition, sp.Not):
        holds, may_hold = _truth(condition.args[0], known)
        return ~may_hold, ~holds
    if isinstance(condition, (sp.And, sp.Or)):
        parts = [_truth(part, known) for part in condition.args]
        join = np.logical_and if isinstance(condition, sp.And) else np.logical_or
        return functools.reduce(join, (part[0] for part in parts)), functools.reduce(join, (part[1] for part in parts))
    if isinstance(condition, (sp.Lt, sp.Le, sp.Gt, sp.Ge)):
        apart = natural_range(condition.lhs, known) - natural_range(condition.rhs, known)
        if isinstance(condition, (sp.Gt, sp.Ge)):
            apart = -apart
        return apart.high < 0, apart.low <= 0
    raise ValueError(
        f"the condition {condition} has no interval arithmetic here. Branches are told apart by comparisons with "
        "numbers. Write them as such."
    )


# ---- the largest error ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Enclosed:
    """A function of one variable with the ranges of its first two derivatives."""

    # The function, and its derivatives in forms with tight ranges; a step of the slope is no part of the curvature.
    function: sp.Expr
    slope: sp.Expr
    curvature: sp.Expr
    variable: sp.Symbol

    def slopes(self, cells: Range) -> Range:
        """Return the range of the slope on cells, both sides of a kink included."""
        return enclosure(self.slope, self.variable, cells)[0]

    def curvatures(self, cells: Range) -> Range:
        """Return the range of the curvature, all numbers on cells that may hold a kink."""
        found, met = enclosure(self.curvature, self.variable, cells)
        for expression in (self.function, self.slope):
            met = met | _branches(expression, self.variable, cells)[1]
        return Range(np.where(met, -math.inf, found.low), np.where(met, math.inf, found.high))

    def jumps(self, value: Callable[[FloatArray], FloatArray], low: float, high: float) -> bool:
        """Whether the function jumps between two numbers, for all that is known: its values are given."""
        if not self.function.has(sp.Piecewise, sp.sign, sp.Heaviside, sp.floor):
            return False
        cells, width = _split(Range(np.array([low]), np.array([high])), _FIRST), (high - low) / _FIRST
        while width > _NARROW * (high - low) and 0 < len(cells.low) < _MOST_CELLS:
            cells = _taken(cells, _branches(self.function, self.variable, cells)[1])
            cells, width = _split(cells, _PIECES), width / _PIECES
        cells = _taken(cells, _branches(self.function, self.variable, cells)[1])
        left, right = value(cells.low), value(cells.high)
        return not bool(np.all(np.abs(right - left) <= _CONTINUOUS * (1 + np.abs(left))))


@functools.lru_cache(maxsize=256)
def enclosed(function: sp.Expr, variable: sp.Symbol) -> Enclosed | None:
    """Return a function with the ranges of its derivatives, or None where there is no interval arithmetic for it."""
    exact = exactly(function)
    found = Enclosed(exact, tight_derivative(exact, variable, 1), tight_derivative(exact, variable, 2), variable)
    probe = Range(np.array([0.25]), np.array([0.5]))
    try:
        found.slopes(probe)
        found.curvatures(probe)
    except ValueError:
        return None
    return found


@dataclass(frozen=True)
class Largest:
    """The largest size of a function and of its slope."""

    # Never below what is taken where `proved`, and otherwise the largest that was found.
    value: float
    slope: float
    proved: bool  # Whether interval arithmetic has shown that they are not exceeded, but for the rounding of float64.


def largest(
    at: Callable[[FloatArray], tuple[FloatArray, FloatArray, FloatArray]],
    ranges: Callable[[Range], tuple[Range, Range]] | None,
    low: float,
    high: float,
) -> Largest:
    """Return the largest size of a function and of its slope between two numbers.

    Parameters
    ----------
    at : callable
        Returns the function, its slope, and what rounding may have changed in each of them, at points of shape (n,).
    ranges : callable or None
        Returns the ranges of the slope and of the curvature on cells; None where they are not known.
    low, high : float
        The ends.

    Notes
    -----
    On a cell with the middle c and half of the width r the function is within e(c) + (u - c) e' and within
    e(c) + (u - c) e'(c) + (u - c)^2/2 e'', with e' and e'' anywhere in their ranges. Cells on which neither bound is
    below what was found elsewhere are cut.

    References
    ----------
    Moore, Kearfott & Cloud 2009, *Introduction to Interval Analysis*, Section 5.
    """
    if ranges is None:
        return Largest(*largest_found(lambda u: at(u)[:2], low, high), proved=False)
    cells = _split(Range(np.array([low]), np.array([high])), _FIRST)
    ends = at(np.array([low, high]))
    best = [float(np.abs(found).max()) for found in ends[:2]]
    ceiling = [found + float(ends[2].max()) for found in best]
    for _ in range(_MOST_ROUNDS):
        above = _upper(at, ranges, cells, best)
        open_ = np.zeros(len(cells.low), dtype=bool)
        for found, taken in zip(above[:2], best, strict=True):
            open_ |= ~(found <= taken * (1 + _CLOSE) + above[2])
        for place in (0, 1):
            ceiling[place] = max(ceiling[place], float((above[place] + above[2])[~open_].max(initial=0.0)))
        if not open_.any():
            return Largest(max(ceiling[0], best[0]), max(ceiling[1], best[1]), True)
        cells = _taken(cells, open_)
        if len(cells.low) * _PIECES > _MOST_CELLS:
            break
        cells = _split(cells, _PIECES)
    rest = _upper(at, ranges, cells, best)
    bounds = [max(ceiling[place], float((rest[place] + rest[2]).max())) for place in (0, 1)]
    if all(math.isfinite(bound) for bound in bounds):
        return Largest(bounds[0], bounds[1], True)
    return Largest(*largest_found(lambda u: at(u)[:2], low, high), proved=False)


def _upper(
    at: Callable[[FloatArray], tuple[FloatArray, FloatArray, FloatArray]],
    ranges: Callable[[Range], tuple[Range, Range]],
    cells: Range,
    best: list[float],
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return upper bounds of value and slope on cells, and the rounding; raise `best` to what is taken."""
    middle = cells.low / 2 + cells.high / 2
    # The wider half, rounded up.
    half = np.maximum(cells.high - middle, middle - cells.low) * (1 + 2.0**-50)
    value, slope, rounding = at(middle)
    slopes, curvatures = ranges(cells)
    bend = np.maximum(np.abs(curvatures.low), np.abs(curvatures.high))
    smooth = np.isfinite(bend)
    with np.errstate(invalid="ignore", over="ignore"):
        steepest = np.maximum(np.abs(slopes.low), np.abs(slopes.high))
        steepest = np.where(smooth, np.minimum(steepest, np.abs(slope) + half * bend), steepest)
        reach = np.abs(value) + half * steepest
        curved = np.maximum(np.abs(value + half * slope), np.abs(value - half * slope)) + half**2 / 2 * bend
    reach = np.where(smooth, np.minimum(reach, curved), reach)
    best[0] = max(best[0], float(np.abs(value).max()))
    # At a kink a formula may give either side or their mean: no more than the range of the slope.
    best[1] = max(best[1], float(np.minimum(np.abs(slope), steepest).max()))
    return np.where(np.isnan(reach), math.inf, reach), np.where(np.isnan(steepest), math.inf, steepest), rounding


def _split(cells: Range, pieces: int) -> Range:
    shares = np.linspace(0.0, 1.0, pieces + 1)
    edges = cells.low[:, None] * (1 - shares) + cells.high[:, None] * shares
    edges[:, 0], edges[:, -1] = cells.low, cells.high
    return Range(edges[:, :-1].ravel(), edges[:, 1:].ravel())


def _taken(cells: Range, mask: BooleanArray) -> Range:
    return Range(cells.low[mask], cells.high[mask])
