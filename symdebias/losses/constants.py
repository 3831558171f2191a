"""Parameters of a free-form loss that are there without features: intercepts, scales and what is like them."""

import functools
from typing import TYPE_CHECKING

import numpy as np
import sympy as sp

from symdebias._arrays import IntegerArray

if TYPE_CHECKING:
    from symdebias.losses.loss import Loss


@functools.lru_cache(maxsize=256)
def without_features(loss: "Loss") -> IntegerArray:
    """Return the places of the parameters of a free-form loss that it has where all features are 0.

    Where it is not finite there, none is known to be one of these; features that are centred within the loss are not 0
    there, and leave all of them.

    Examples
    --------
    >>> import symdebias as sd
    >>> x, a, b, y = sp.symbols("x a b y", real=True)
    >>> without_features(sd.Loss.of_features((a * x**2 + b - y) ** 2, features=x, parameters=(a, b), target=y))
    array([1])
    """
    at_zero = loss.expression.subs(dict.fromkeys(loss.features, 0))
    taking_part = set() if at_zero.has(sp.nan, sp.zoo, sp.oo, -sp.oo) else at_zero.free_symbols
    return np.flatnonzero([parameter in taking_part for parameter in loss.parameters])
