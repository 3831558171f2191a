"""Tails of binomial counts by special functions: SciPy's package of distributions takes as long to import as SymPy.

References: Abramowitz & Stegun 1964, 26.5.24: a tail is an incomplete beta function.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from symdebias._arrays import FloatArray


def at_most(counts: ArrayLike, trials: int, chances: ArrayLike) -> Any:
    """Return the probability of so many successes or fewer, to its last digits however small it is.

    Parameters
    ----------
    counts : array of int
        Numbers of successes.
    trials : int
        How often it was tried, 1 or more.
    chances : array of float
        The probabilities of a success, in [0, 1]; of the same shape, or one that spreads to it.

    Examples
    --------
    >>> float(at_most(1, 2, 0.5)), at_most([-1, 2], 2, 0.5).tolist()
    (0.75, [0.0, 1.0])
    """
    found, is_some, is_all = _spread(counts, trials)
    return np.where(is_all, 1.0, np.where(is_some, special.betaincc(found + 1, trials - found, chances), 0.0))[()]


def at_least(counts: ArrayLike, trials: int, chances: ArrayLike) -> Any:
    """Return the probability of so many successes or more; see `at_most`.

    Examples
    --------
    >>> float(at_least(1, 2, 0.5)), at_least([0, 3], 2, 0.5).tolist()
    (0.75, [1.0, 0.0])
    """
    found, is_some, is_all = _spread(np.asarray(counts) - 1, trials)
    return np.where(is_all, 0.0, np.where(is_some, special.betainc(found + 1, trials - found, chances), 1.0))[()]


def _spread(counts: ArrayLike, trials: int) -> tuple[FloatArray, Any, Any]:
    """Return counts within 0 and one less than all, whether they are 0 and more, and whether they are all and more."""
    given = np.asarray(counts)
    return np.clip(given, 0, trials - 1).astype(np.float64), given >= 0, given >= trials
