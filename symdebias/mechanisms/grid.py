"""Values on a grid: their places as exact integers, checked, so that noise in whole steps hides all of them."""

from typing import Any

import numpy as np

from symdebias._arrays import FloatArray
from symdebias._domains import Interval, shown
from symdebias.mechanisms.bounds import BoolArray, checked_bounds

_STEP = Interval(1e-100, 1e100, "both", "Give the step of the grid that the values lie on, such as 1 for counts.")
# Places on the grid are exact integers in float64 up to here.
_FARTHEST = 2.0**52


def checked_grid(bounds: Any, step: Any) -> tuple[tuple[float, float] | None, float]:
    """Return public bounds on a grid, or None, and its step.

    Raises
    ------
    TypeError, ValueError
        The step is no positive number, or a bound is not on the grid or too far out on it.
    """
    step = _STEP.check("step", step)
    checked = None if bounds is None else checked_bounds(bounds)
    for place, end in enumerate(checked or ()):
        if not (np.abs(places(np.array([end]), step)) <= _FARTHEST).all():
            raise ValueError(
                f"bounds[{place}]={shown(end)} is more than 2^52 steps of {shown(step)} from 0. Places must be exact "
                "integers. Give a larger step."
            )
        if not _on_grid(np.array([end]), step).all():
            raise ValueError(
                f"bounds[{place}]={shown(end)} is no multiple of step={shown(step)}. Give bounds on the grid."
            )
    return checked, step


def ends(bounds: tuple[float, float], step: float) -> tuple[int, int]:
    """Return the places of bounds on the grid, which must differ.

    Raises
    ------
    ValueError
        They are one point of the grid.
    """
    low, high = (int(place) for place in places(np.array(bounds), step))
    if not low < high:
        raise ValueError(
            f"bounds={shown(bounds)} are one point of the grid of step={shown(step)}. They must differ by a step at "
            "least: give wider bounds or a smaller step."
        )
    return low, high


def clipped_on_grid(
    values: FloatArray, bounds: tuple[float, float] | None, step: float
) -> tuple[FloatArray, BoolArray]:
    """Return values of the grid within bounds, and which lay outside.

    Raises
    ------
    ValueError
        A value is not on the grid, or without bounds too far out on it.
    """
    where = places(values, step)
    far = ~(np.abs(where) <= _FARTHEST)
    if bounds is None and far.any():
        row = int(np.argmax(far.reshape(len(values), -1).any(axis=1)))
        raise ValueError(
            f"the value in row {row} is more than 2^52 steps of {shown(step)} from 0. Places must be exact "
            "integers. Declare bounds, or a larger step."
        )
    # Whether a number so far off is on the grid cannot be told; it is clipped to a bound, which is.
    on_grid = (far | _on_grid(values, step)).reshape(len(values), -1).all(axis=1)
    if not on_grid.all():
        raise ValueError(
            f"the value in row {int(np.argmin(on_grid))} is no multiple of step={shown(step)}: noise on a grid "
            "would leave what lies between its points in the open. Round the values first, or declare their step."
        )
    if bounds is None:
        return values.copy(), np.zeros(len(values), dtype=bool)
    low, high = ends(bounds, step)
    outside = (where < low) | (where > high)
    return np.clip(values, *bounds), np.asarray(outside.reshape(len(values), -1).any(axis=1))


def places(values: FloatArray, step: float) -> FloatArray:
    """Return the nearest places on the grid, whole numbers; infinite where the quotient overflows."""
    with np.errstate(over="ignore"):
        nearest: FloatArray = np.rint(values / step)
    return nearest


def _on_grid(values: FloatArray, step: float) -> BoolArray:
    """Return which values are multiples of a step up to 1 part in 1e12: 0.3 counts as 3 steps of 0.1."""
    with np.errstate(over="ignore", invalid="ignore"):
        quotients = values / step
        # Far from 0 that part is more than a step, and everything would pass.
        tolerance = np.minimum(1e-12 * np.maximum(1, np.abs(quotients)), 0.25)
        near: BoolArray = (np.abs(quotients) <= _FARTHEST) & (np.abs(quotients - np.rint(quotients)) <= tolerance)
    return near
