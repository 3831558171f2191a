"""Whether the target stands in the second derivatives of a loss, so that noise of it is noise of the curvature."""

import functools
import itertools
import operator
from typing import TYPE_CHECKING

import sympy as sp

from symdebias.losses.probes import DIGITS, EQUAL, PROBES, points

if TYPE_CHECKING:
    from symdebias.losses.loss import Loss


# Scales of scores that differ by no more than such a factor are one, and how many of them are looked at.
_ALIKE, _MOST_SCALES = 3, 24


@functools.lru_cache(maxsize=256)
def has_target_in_curvature(loss: "Loss") -> bool:
    """Whether a loss of one target less that of another is not affine in the scores, or parameters.

    Noise of the target alone shifts the gradient and nothing else where it is affine: what is convex stays so. It is
    looked at on scores of the sizes that the numbers in the loss name: it may bend at these alone.

    Examples
    --------
    >>> import symdebias as sd
    >>> [has_target_in_curvature(one) for one in (sd.losses.logistic(), sd.losses.softmax(3), sd.losses.probit())]
    [False, False, True]
    """
    _, told = loss.expression.as_independent(loss.target, as_Add=True)
    moving = set(loss.scores or loss.parameters)
    if not any(told.diff(symbol).free_symbols & moving for symbol in moving):
        return False
    return any(_bends_by_target(loss, told, scale) for scale in _scales(told))


def _bends_by_target(loss: "Loss", told: sp.Expr, scale: sp.Rational) -> bool:
    """Whether what a loss has of its target bends by that of another target, on scores of a size."""
    moving = loss.scores or loss.parameters
    values = [sp.nsimplify(value, rational=True) for value in loss.target_values or PROBES]
    ends = [{symbol: scale * point[symbol] for symbol in moving} for point in points([*moving, *loss.features])]
    for (first, last), features in zip(itertools.pairwise(ends), points([*moving, *loss.features]), strict=False):
        middle = {symbol: (first[symbol] + last[symbol]) / 2 for symbol in moving}
        at = [told.xreplace({**features, **point}) for point in (first, last, middle)]
        numbers = [[one.xreplace({loss.target: value}).evalf(DIGITS) for one in at] for value in values]
        if not all(number.is_real for one in numbers for number in one):
            return True
        bends = [one[0] + one[1] - 2 * one[2] for one in numbers]
        size = max(abs(number) for one in numbers for number in one)
        if any(abs(bend - bends[0]) > EQUAL * size for bend in bends):
            return True
    return False


def _scales(expression: sp.Expr) -> list[sp.Rational]:
    """Return sizes of scores at which an expression may bend: of its numbers and their roots, and of two of these."""
    numbers = {abs(number) for number in expression.atoms(sp.Number) if number.is_finite and number != 0}
    roots = (sp.root(number, power).evalf(DIGITS) for number in sorted(numbers) for power in (1, 2))
    own = _apart([sp.Integer(1), *(sp.nsimplify(root, rational=True) for root in roots)])
    products, ratios = ([of(*pair) for pair in itertools.product(own, own)] for of in (operator.mul, operator.truediv))
    return _apart([*products, *ratios])


def _apart(sizes: list[sp.Rational]) -> list[sp.Rational]:
    """Return the first of some sizes, and those that differ from all before them."""
    found: list[sp.Rational] = []
    for size in sizes:
        if all(size > _ALIKE * other or other > _ALIKE * size for other in found):
            found.append(size)
    return found[:_MOST_SCALES]
