"""Upper bounds of expressions over boxes of several variables, by interval arithmetic on boxes that are cut in two.

A noise scale rests on such bounds: a maximum that was only searched for could be too small.
"""

import heapq
import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np
import sympy as sp

from symdebias.bounds.intervals import Range, natural_range
from symdebias.noise import exactly

# Boxes that are cut in two, and when the bound is as good as the maximum.
_MOST_CUTS, _CLOSE = 256, 1e-5
# Cuts after which a bound that is still infinite stays so.
_CUTS_AT_A_POLE = 16
# Variables up to which all corners of the first box are tried.
_MOST_CORNERS = 6

Box = tuple[tuple[float, float], ...]


def upper_bound(expression: sp.Expr, variables: Sequence[sp.Symbol], box: Box) -> float:
    """Return an upper bound of a real expression over a box, next to its maximum where a few hundred cuts find it.

    It is never below the maximum, and infinite where no bound was found.

    Raises
    ------
    ValueError
        The expression has a function that is not bounded here; see `intervals.natural_range`.

    Notes
    -----
    Interval arithmetic, with boxes cut in two where the bound is largest until it is within a part in 1e5 of a value
    that is taken.

    References
    ----------
    Moore, Kearfott & Cloud 2009, *Introduction to Interval Analysis*, Section 5.

    Examples
    --------
    >>> x, y = sp.symbols("x y", real=True)
    >>> round(upper_bound(x**2 + sp.Abs(y), [x, y], ((-1.0, 2.0), (-3.0, 1.0))), 12)
    7.0
    """
    exact = exactly(expression)

    def over(box: Box) -> tuple[float, float]:
        ends = {variable: Range(*map(np.array, pair)) for variable, pair in zip(variables, box, strict=True)}
        found = natural_range(exact, ends)
        return float(found.low), float(found.high)

    def reached(box: Box) -> float:
        return over(tuple((low / 2 + high / 2,) * 2 for low, high in box))[0]

    return _largest(over, reached, box)


def _largest(over: Callable[[Box], tuple[float, float]], reached: Callable[[Box], float], box: Box) -> float:
    """Return the largest upper end left after the boxes with the largest ones were cut again and again."""
    best = reached(box)
    if len(box) <= _MOST_CORNERS:
        # The maximum is often in one of them, and is then found without a cut.
        corners = itertools.product(*box)
        best = max(best, *(over(tuple((value, value) for value in corner))[0] for corner in corners))
    heap = [(-over(box)[1], box)]
    for cut in range(_MOST_CUTS):
        bound, widest = -heap[0][0], heap[0][1]
        if bound <= best + _CLOSE * abs(best) or (cut >= _CUTS_AT_A_POLE and math.isinf(bound)):
            break
        axis = max(range(len(box)), key=lambda place: widest[place][1] - widest[place][0]) if box else 0
        if not box or not widest[axis][0] < (middle := widest[axis][0] / 2 + widest[axis][1] / 2) < widest[axis][1]:
            break
        heapq.heappop(heap)
        for ends in ((widest[axis][0], middle), (middle, widest[axis][1])):
            half = (*widest[:axis], ends, *widest[axis + 1 :])
            best = max(best, reached(half))
            heapq.heappush(heap, (-over(half)[1], half))
    return -heap[0][0]
