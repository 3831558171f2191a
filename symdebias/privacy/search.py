"""The least epsilon at which a falling privacy curve is low enough, from the safe side."""

import math
from collections.abc import Callable


def least_epsilon(kept: Callable[[float], bool], *, precision: float, largest: float) -> float:
    """Return an epsilon that is kept, next to the least one; infinite where there is none.

    Parameters
    ----------
    kept : callable
        Whether the promise holds at an epsilon, and so at every larger one.
    precision : float
        How far above the least one it may be, relative.
    largest : float
        No epsilon beyond is tried.
    """
    if kept(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while not kept(high):
        low, high = high, 2 * high
        if high > largest:
            return math.inf
    while high - low > precision * high:
        middle = (low + high) / 2
        low, high = (low, middle) if kept(middle) else (middle, high)
    return high
