"""Privacy curves are evaluated with many digits and rounded once, to the safe side."""

import math
import threading
from typing import Any

from mpmath.ctx_mp import MPContext

DIGITS = 70


_own = threading.local()


def context() -> Any:
    """Return mpmath with 70 digits.

    A context of the thread's own: mpmath's shared one changes its precision under other threads' feet. While mpmath
    works with more digits itself, whoever asks meanwhile is given another one. To make one takes a millisecond.
    """
    known = getattr(_own, "context", None)
    if known is None or known.dps != DIGITS:
        known = _own.context = MPContext()
        known.dps = DIGITS
    return known


def normal_cdf(mp: Any, x: Any) -> Any:
    """Return the normal distribution function, to all digits in both tails."""
    return mp.erfc(-x / mp.sqrt(2)) / 2


def rounded_up(mp: Any, exact: Any) -> float:
    """Return the least float64 that is not below a number."""
    number = float(exact)
    return math.nextafter(number, math.inf) if mp.mpf(number) < exact else number


def rounded_down(mp: Any, exact: Any) -> float:
    """Return the largest float64 that is not above a number."""
    return -rounded_up(mp, -exact)
