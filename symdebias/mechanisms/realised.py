"""Probabilities that a draw realises exactly: matrices of multiples of 2^-53 with a ratio and means that hold exactly.

A uniform float64 is a multiple of 2^-53, so that a matrix of such multiples whose rows sum to 1 is drawn as it
stands. What an optimiser returns is brought onto this grid by whole units, in integer arithmetic: each column gets
its least entry first, and every other one stays below e^epsilon times it; the units that are left over go where the
row still sums to 1 and still has its mean.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from symdebias._arrays import FloatArray
from symdebias.privacy import largest_ratio

UNITS = 2**53
# Means are aimed at so many times the label range, a hundredth of what is promised.
_AIM = 1e-14
# Means that are off by less than this much of the range count as exact.
UNBIASED = 1e-12
_ROOM = 16
# Beyond this ratio the arithmetic of solvers is too coarse for the smallest probabilities.
LARGEST_RATIO = 1e8


class Unrealisable(ArithmeticError):
    """A matrix of probabilities has no neighbour on the grid that keeps its ratio and its means."""


def strict_ratio(epsilon: float, rows: int) -> float:
    """Return the ratio of two entries of a column that a design for k labels may use: its rounding keeps e^epsilon.

    It is 1 + (e^epsilon - 1)(1 - m), m the least margin of some units on a column of the size 1/(2 k e^epsilon), and at
    least 2^-36: a design has about 2 k outputs. It is at most 1e8, whatever the budget, or 2^42/k, at which
    probabilities have 1024 units.
    """
    most = min(UNITS / (2 * rows * 1024), LARGEST_RATIO)
    if epsilon >= math.log(most):
        return most
    gain = math.expm1(epsilon)
    margin = max(2.0**-36, _ROOM * (1 + gain) ** 2 / gain * 2 * rows / UNITS)
    return min(1 + gain * (1 - min(margin, 0.25)), most)


def realised(
    probabilities: Any, epsilon: float, *, outputs: Sequence[float] = (), means: Sequence[float] = ()
) -> tuple[tuple[float, ...], ...]:
    """Return the matrix of multiples of 2^-53 next to a given one, shape (k, m), that is epsilon-private exactly.

    Rows of the given one sum to 1 up to rounding, with ratios in a column of `strict_ratio` at most. With `outputs`,
    what the m columns stand for, and `means` each of the k rows is given its mean.

    Each row sums to exactly 1, and its mean is off by at most 1e-12 of the range of the means, or by the rounding 2^-52
    of the largest output; the ratio of two entries of a column is at most e^epsilon, without any rounding.

    Raises
    ------
    Unrealisable
        There is no such matrix close by.

    Examples
    --------
    >>> realised([[0.75, 0.25], [0.25, 0.75]], 1.2)
    ((0.75, 0.25), (0.25, 0.75))
    """
    matrix = np.clip(np.asarray(probabilities, dtype=float), 0.0, 1.0)
    limit = largest_ratio(epsilon)
    least = np.ceil(matrix.min(axis=0) * UNITS)
    spread = matrix.max(axis=0) / np.maximum(matrix.min(axis=0), 1 / UNITS)
    # Where the design left a margin below e^epsilon, half of it goes below the least entry and half above the largest.
    slack = np.clip(float(limit) / np.maximum(spread, 1.0) - 1, 0.0, 1.0) if len(means) else np.zeros(len(least))
    floor = [max(1, int(value)) for value in least - np.floor(least * np.minimum(slack / 2, 0.25))]
    top = [min(UNITS, int(limit * low)) for low in floor]
    places = _integers(outputs) if len(means) else None
    rows = []
    for index, row in enumerate(np.rint(matrix * UNITS)):
        units = [min(max(int(value), low), high) for value, low, high in zip(row, floor, top, strict=True)]
        if places is None:
            _fill(units, floor, top)
        else:
            scale, points = places
            _balance(units, floor, top, points, Fraction(float(means[index])) * scale, scale * _range_of(means))
        rows.append(tuple(value / UNITS for value in units))
    return tuple(rows)


def drawn(matrix: Sequence[Sequence[float]]) -> tuple[tuple[float, ...], ...]:
    """Return the matrix of multiples of 2^-53 next to a row-stochastic one: what a uniform float64 draws.

    Rows sum to exactly 1. What is positive has at least one unit, what is 0 none; the largest entry of a row takes up
    what rounding leaves.

    Examples
    --------
    >>> drawn([[1.0, 1e-13], [0.5, 0.5]])[0][1] / 2.0**-53
    901.0
    """
    rows = []
    for row in matrix:
        units = [max(1, round(Fraction(value) * UNITS)) if value > 0 else 0 for value in row]
        units[units.index(max(units))] += UNITS - sum(units)
        rows.append(tuple(value / UNITS for value in units))
    return tuple(rows)


def _fill(units: list[int], floor: list[int], top: list[int]) -> None:
    """Make the units of a row sum to 2^53, the largest entries first."""
    missing = UNITS - sum(units)
    for place in sorted(range(len(units)), key=units.__getitem__, reverse=True):
        moved = min(max(missing, floor[place] - units[place]), top[place] - units[place])
        units[place] += moved
        missing -= moved
        if missing == 0:
            return
    raise Unrealisable(f"a row is {missing} units of 2^-53 off 1, and no entry can take them.")


def _balance(
    units: list[int], floor: list[int], top: list[int], points: list[int], mean: Fraction, reach: Fraction
) -> None:
    """Make the units of a row sum to 2^53 and their mean what it should be, by moves within the bounds of each column.

    The moves have the changes d_1, d_2, ... of the mean that Euclid's algorithm makes of two differences of outputs:
    each smaller than the one before, and each in more units.
    """
    room = [min(u - low, high - u) for u, low, high in zip(units, floor, top, strict=True)]
    best = sorted(range(len(units)), key=room.__getitem__, reverse=True)
    quarter = max(room) / 4
    enough = max(3, sum(value >= quarter for value in room))
    best = sorted(best[:enough], key=points.__getitem__)
    first, last = best[0], best[-1]
    middle = max(best[1:-1], key=room.__getitem__) if len(best) > 2 else last
    missing = UNITS - sum(units)
    centre = int(mean)
    for place in sorted(best, key=lambda place: abs(points[place] - centre)):
        moved = min(max(missing, -room[place] // 2), room[place] // 2)
        units[place] += moved
        missing -= moved
    units[best[0]] += missing
    left = mean * UNITS - sum(u * point for u, point in zip(units, points, strict=True))
    larger = (points[last] - points[first], {last: 1, first: -1})
    smaller = (points[last] - points[middle], {last: 1, middle: -1})
    while left and larger[0]:
        change, move = larger
        count = round(left / change)
        after = {place: units[place] + count * step for place, step in move.items()}
        if not all(floor[place] <= value <= top[place] for place, value in after.items()):
            break
        for place, value in after.items():
            units[place] = value
        left -= count * change
        if abs(left) <= reach * UNITS * Fraction(_AIM):
            break
        if not smaller[0]:
            break
        times = round(Fraction(change, smaller[0]))
        rest = {place: move.get(place, 0) - times * smaller[1].get(place, 0) for place in {*move, *smaller[1]}}
        larger, smaller = smaller, (change - times * smaller[0], rest)
    inside = all(low <= u <= high for u, low, high in zip(units, floor, top, strict=True))
    promised = max(reach * Fraction(UNBIASED), Fraction(max(map(abs, points)), 2**52))
    if not inside or abs(left) > promised * UNITS:
        raise Unrealisable(
            f"the mean of a row stays {float(abs(left) / reach / UNITS):.2g} of the label range off, or a probability "
            "would leave its bounds."
        )


def _integers(values: Sequence[float]) -> tuple[int, list[int]]:
    """Return a power of two and the integers that values are in units of its inverse."""
    ratios = [float(value).as_integer_ratio() for value in values]
    scale = max(denominator for _, denominator in ratios)
    return scale, [numerator * (scale // denominator) for numerator, denominator in ratios]


def _range_of(values: Sequence[float]) -> Fraction:
    return Fraction(float(max(values))) - Fraction(float(min(values)))


def ratio_holds(matrix: Sequence[Sequence[float]], epsilon: float) -> bool:
    """Whether no entry of a matrix is more than e^epsilon times another one of its column, in exact arithmetic.

    Parameters
    ----------
    matrix : sequence of k sequences of m floats
        Probabilities.
    epsilon : float
        The budget.

    Examples
    --------
    >>> ratio_holds([[0.75, 0.25], [0.25, 0.75]], 1.1), ratio_holds([[0.75, 0.25], [0.25, 0.75]], 1.09)
    (True, False)
    """
    limit = largest_ratio(epsilon)
    return all(Fraction(max(column)) <= limit * Fraction(min(column)) for column in zip(*matrix, strict=True))


def sums_to_one(row: Sequence[float]) -> bool:
    """Whether probabilities are multiples of 2^-53 and sum to exactly 1: then they are drawn as they stand."""
    units = [value * UNITS for value in row]
    return all(unit.is_integer() for unit in units) and sum(map(int, units)) == UNITS


def largest_bias(matrix: Sequence[Sequence[float]], outputs: Sequence[float], means: FloatArray) -> float:
    """Return the largest distance of a row's mean from what it should be, exact and rounded up.

    Parameters
    ----------
    matrix : sequence of k sequences of m floats
        Probabilities, multiples of 2^-53.
    outputs : sequence of m floats
        What the columns stand for.
    means : array of shape (k,), float64
        What the means should be.
    """
    scale, points = _integers(outputs)
    worst = Fraction(0)
    for row, mean in zip(matrix, means, strict=True):
        total = sum(int(value * UNITS) * point for value, point in zip(row, points, strict=True))
        worst = max(worst, abs(Fraction(total, scale * UNITS) - Fraction(float(mean))))
    number = float(worst)
    return math.nextafter(number, math.inf) if Fraction(number) < worst else number
