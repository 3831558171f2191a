"""Public bounds: of single numbers, checked, clipped to and turned into a scale of noise; and balls of vectors."""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from symdebias._arrays import FloatArray
from symdebias._domains import Interval, shown

BoolArray = np.ndarray[Any, np.dtype[np.bool_]]

_END = Interval(-1e100, 1e100, "both", "Give public bounds, known before the data.")


def checked_bounds(bounds: Any, name: str = "bounds") -> tuple[float, float]:
    """Return public bounds (low, high) as floats; `name` is that of the argument, for messages.

    Raises
    ------
    TypeError, ValueError
        They are no pair of finite numbers with low < high.
    """
    if hasattr(bounds, "tolist"):
        bounds = bounds.tolist()
    if isinstance(bounds, (str, bytes)) or not isinstance(bounds, Sequence) or len(bounds) != 2:
        raise TypeError(
            f"{name}={shown(bounds, 60)} is no pair of numbers. Give {name}=(low, high), public and finite."
        )
    low, high = (_END.check(f"{name}[{place}]", value) for place, value in enumerate(bounds))
    if not low < high:
        raise ValueError(f"{name}={shown((low, high))} are not in order. The first must be below the second.")
    return low, high


def one_number_each(values: FloatArray, of: str) -> None:
    """Refuse values with more than one column."""
    if values.ndim == 2 and values.shape[1] != 1:
        raise ValueError(
            f"{of} with bounds noises one number per record; the values have the shape {values.shape}. Give radius= "
            "for a vector, or each column a mechanism of its own."
        )


def clipped_to(values: FloatArray, bounds: tuple[float, float] | None, of: str) -> tuple[FloatArray, BoolArray]:
    """Return numbers within bounds, and which lay outside; one number per record.

    Parameters
    ----------
    values : array of shape (n,) or (n, 1), float64
        Numbers; of any shape where there are no bounds.
    bounds : pair of float or None
        The bounds.
    of : str
        What takes the numbers, for messages.
    """
    if bounds is None:
        return values.copy(), np.zeros(len(values), dtype=bool)
    one_number_each(values, of)
    low, high = bounds
    outside: BoolArray = np.asarray((values < low) | (values > high)).reshape(len(values), -1)
    return np.clip(values, low, high), np.asarray(outside.any(axis=1))


def scale_of(sensitivity: Fraction, epsilon: float) -> float:
    """Return sensitivity/epsilon rounded up, so that sensitivity/scale never exceeds epsilon.

    Parameters
    ----------
    sensitivity : fractions.Fraction
        The exact L1 sensitivity.
    epsilon : float
        The budget.
    """
    exact = sensitivity / Fraction(epsilon)
    scale = float(exact)
    return math.nextafter(scale, math.inf) if Fraction(scale) < exact else scale


def width_of(low: float, high: float) -> Fraction:
    """Return high - low exactly."""
    return Fraction(high) - Fraction(low)


def in_ball(values: FloatArray, radius: float, *, order: int = 2) -> tuple[FloatArray, BoolArray]:
    """Return rows whose exact norm is at most the radius, and which of the given ones lay outside it.

    A norm of k squares is computed to a relative error below (k/2 + 2) 2^-53, a sum of k absolute values to one below
    k 2^-53, and the product of a row with a factor to 2^-53. Rows whose norm is within such rounding of the radius are
    drawn in by a few units in the last place; they do not count as outside.

    Parameters
    ----------
    values : array of shape (n, k), float64
        The rows.
    radius : float
        Positive.
    order : {1, 2}
        Of the norm.
    """
    slack = (values.shape[1] + 8) * 2.0**-52
    with np.errstate(over="ignore"):
        if order == 1:
            near = ~(np.abs(values).sum(axis=1) <= radius * (1 - slack))
        else:
            near = ~(np.einsum("ij,ij->i", values, values) <= (radius * (1 - slack)) ** 2)
    clipped = values.copy()
    outside = np.zeros(len(values), dtype=bool)
    if near.any():
        rows = values[near]
        # Divided by a power of two each, which is exact, so that no sum overflows and no factor is too small.
        exponents = np.frexp(np.abs(rows).max(axis=1))[1]
        rows = np.ldexp(rows, -exponents[:, None])
        norms = np.linalg.norm(rows, ord=order, axis=1)
        with np.errstate(over="ignore"):
            outside[near] = np.ldexp(norms, exponents) > radius * (1 + slack)
        clipped[near] = rows * (radius * (1 - 3 * slack) / norms)[:, None]
    return clipped, outside
