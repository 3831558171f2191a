"""Whether the target stands in the second derivatives of a loss, so that noise of it is noise of the curvature."""

import functools
import itertools
from typing import TYPE_CHECKING

import sympy as sp

from symdebias.losses.probes import DIGITS, EQUAL, PROBES, points

if TYPE_CHECKING:
    from symdebias.losses.loss import Loss


@functools.lru_cache(maxsize=256)
def has_target_in_curvature(loss: "Loss") -> bool:
    """Whether a loss of one target less that of another is not affine in the scores, or parameters.

    Noise of the target alone shifts the gradient and nothing else where it is affine: what is convex stays so.

    Examples
    --------
    >>> import symdebias as sd
    >>> [has_target_in_curvature(one) for one in (sd.losses.logistic(), sd.losses.softmax(3), sd.losses.probit())]
    [False, False, True]
    """
    moving = loss.scores or loss.parameters
    values = [sp.nsimplify(value, rational=True) for value in loss.target_values or PROBES]
    ends = [{symbol: point[symbol] for symbol in moving} for point in points([*moving, *loss.features])]
    for (first, last), features in zip(itertools.pairwise(ends), points([*moving, *loss.features]), strict=False):
        middle = {symbol: (first[symbol] + last[symbol]) / 2 for symbol in moving}
        at = [loss.expression.xreplace({**features, **point}) for point in (first, last, middle)]
        bend = at[0] + at[1] - 2 * at[2]
        numbers = [bend.xreplace({loss.target: value}).evalf(DIGITS) for value in values]
        if not all(number.is_real and abs(number - numbers[0]) < EQUAL for number in numbers):
            return True
    return False
