"""The largest sizes of functions on an interval, searched for: what is found is a lower bound."""

from collections.abc import Callable

import numpy as np

from symdebias._arrays import FloatArray, IntegerArray

# Points of the grid, the peaks that are looked at more closely, and how often.
_GRID, _PEAKS, _ROUNDS = 4001, 8, 5
_AROUND = np.linspace(-1.0, 1.0, 17)


def largest_found(
    functions: Callable[[FloatArray], tuple[FloatArray, FloatArray]], low: float, high: float, *, points: int = _GRID
) -> tuple[float, float]:
    """Return the largest sizes of two functions that are found between two numbers.

    `functions` returns both at points of shape (n,). A first grid of so many points is refined around its highest
    peaks, and what is narrower than its steps may be missed. Sizes are infinite where a function is not a number.

    Examples
    --------
    >>> found = largest_found(lambda u: (u * (1 - u), np.sin(u)), 0.0, 1.0)
    >>> [round(size, 9) for size in found]
    [0.25, 0.841470985]
    """
    at, step = np.linspace(low, high, points), (high - low) / (points - 1)
    best = [0.0, 0.0]
    for _ in range(_ROUNDS):
        sizes = [np.where(np.isfinite(found), np.abs(found), np.inf) for found in functions(at)]
        best = [max(found, float(size.max())) for found, size in zip(best, sizes, strict=True)]
        peaks = np.concatenate([at[_peaks(size)] for size in sizes])
        at = np.unique(np.clip(np.add.outer(peaks, step * _AROUND).ravel(), low, high))
        step *= _AROUND[1] - _AROUND[0]
    return best[0], best[1]


def _peaks(sizes: FloatArray) -> IntegerArray:
    """Return the places of the highest local maxima, the ends among them."""
    padded = np.concatenate([[-1.0], sizes, [-1.0]])
    places: IntegerArray = np.flatnonzero((padded[1:-1] >= padded[:-2]) & (padded[1:-1] >= padded[2:]))
    return places[np.argsort(-sizes[places])[:_PEAKS]]
