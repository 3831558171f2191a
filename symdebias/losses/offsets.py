"""Known terms of a score: losses for which an offset is another target and a weight.

With an offset o the loss of a record is F(u + o, y). Where its slope in u is e^(k o) times that of F(u, t) at another
target t, fits of (t, weight e^(k o)) are fits with the offset, whatever noise is on the features:

* a loss of the residual has t = y - o and k = 0;
* a loss with a logarithmic link has t = y e^-o, the rate, and k = 1 for Poisson's.
"""

import functools
from dataclasses import dataclass

import numpy as np
import sympy as sp

from symdebias._arrays import FloatArray
from symdebias.losses.loss import Loss
from symdebias.losses.meaning import is_residual_loss, meaning_of
from symdebias.losses.probes import DIGITS, EQUAL

# Scores, targets and offsets at which slopes are compared.
_PROBES = tuple(
    tuple(sp.Rational(part, 10) for part in point)
    for point in ((3, 14, 5), (-12, 7, 9), (21, 32, -8), (-7, 1, 23), (9, 26, -17), (16, 5, 3))
)
# What the exponential of is a number.
_LARGEST = 700.0


@dataclass(frozen=True)
class Offset:
    """What an offset does to the records of a loss."""

    divides: bool  # Whether the target is y e^-o; it is y - o otherwise.
    power: float = 0.0  # k: weights are e^(k o).

    def targets(self, y: FloatArray, offset: FloatArray) -> FloatArray:
        """Return t for targets and offsets, shape (n,)."""
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(y * np.exp(-offset) if self.divides else y - offset)

    def largest(self, offset: FloatArray) -> float:
        """Return the largest of k o."""
        return float((self.power * offset).max())

    def weights(self, offset: FloatArray, largest: float) -> FloatArray:
        """Return e^(k o) over e^largest, shape (n,)."""
        return np.asarray(np.exp(self.power * offset - largest))

    @staticmethod
    def weight(exponent: float) -> float:
        """Return e^exponent, or the largest power that is a number."""
        return float(np.exp(min(exponent, _LARGEST)))


def has_rate(loss: Loss) -> bool:
    """Return whether a loss predicts the mean exp(u), which an exposure multiplies.

    Examples
    --------
    >>> import symdebias as sd
    >>> has_rate(sd.losses.poisson()), has_rate(sd.losses.least_squares())
    (True, False)
    """
    if not loss.scores:
        return False
    mean = meaning_of(loss).number
    return mean is not None and bool(mean == sp.exp(loss.scores[0]))


@functools.lru_cache(maxsize=256)
def offset_of(loss: Loss) -> Offset | None:
    """Return what an offset does to the records of a loss of one score.

    It is None where no other target and weight stand for an offset: the loss is neither of the residual nor of a
    logarithmic link, or its target is a label.

    Raises
    ------
    ValueError
        The loss has several scores, or is in features by name.

    Examples
    --------
    >>> import symdebias as sd
    >>> offset_of(sd.losses.poisson()), offset_of(sd.losses.huber())
    (Offset(divides=True, power=1.0), Offset(divides=False, power=0.0))
    >>> offset_of(sd.losses.logistic()) is None
    True
    """
    if len(loss.scores) != 1:
        raise ValueError(
            f"offset= is a known term of one score, and {loss.expression} has {len(loss.scores) or 'none by name'}. "
            + (
                "Fit one class against another, with a loss of one score."
                if loss.scores
                else "Declare it as one more feature, with no parameter of its own."
            )
        )
    if loss.target_values is not None or not loss.expression.has(loss.target):
        return None
    if is_residual_loss(loss):
        return Offset(divides=False)
    (u,), y, o = loss.scores, loss.target, sp.Dummy("o", real=True)
    slope = sp.diff(loss.expression, u)
    ratio = slope.xreplace({u: u + o}) / slope.xreplace({y: y * sp.exp(-o)})
    powers = []
    for point in _PROBES:
        found = ratio.xreplace(dict(zip((u, y, o), point, strict=True))).evalf(DIGITS)
        powers.append(sp.log(found) / point[2] if found.is_real and found > 0 else sp.nan)
    if all(one.is_real and abs(one - powers[0]) < EQUAL for one in powers):
        return Offset(divides=True, power=round(float(powers[0]), 15))
    return None
