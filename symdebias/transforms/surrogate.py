"""Surrogates: functions with an exact inverse at every noise level, close to a loss that has none.

A surrogate is a quadratic and waves at the multiples of one frequency,

    S(u) = c_0 + c_1 u + c_2 u^2 + sum_j a_j cos(j h u) + b_j sin(j h u),

whose inverse under any mix of noises is known in closed form (each wave is divided by the characteristic function of
the noise). So its bias is S - f, whatever the noise, and the price is paid in variance, which grows like
e^(s w^2) in the frequency w. The coefficients minimise the mean squared error of the slope for a sample size.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from symdebias.transforms.search import largest_found

FloatArray = np.ndarray[Any, np.dtype[np.float64]]
Function = Callable[[FloatArray], FloatArray]

# Frequencies beyond this have no use for losses whose features are of unit width.
_HIGHEST_FREQUENCY = 7.0
# Points of the least squares problem on one half of the range.
_NODES = 96
_GRID = 801
# What the shared error weighs, squared, beside the mean squared error.
_SHARED = 1000.0
# Terms of Taylor series on cells, and what rounding may change in a sum, in units of the sizes of its terms.
_TAYLOR, ROUNDING = 14, 2.0**-51


@dataclass(frozen=True)
class Part:
    """One function that a surrogate stands for.

    Attributes
    ----------
    value, slope : callable
        The function and its derivative, of an array.
    even, odd : bool
        Whether it has an even and an odd part.
    inflation : float
        The mean square of what the released data multiply it with, over that of the true ones; at least 1. Label noise
        inflates the variance, and not the bias.
    """

    value: Function
    slope: Function
    even: bool = True
    odd: bool = True
    inflation: float = 1.0


@dataclass(frozen=True)
class Surrogate:
    """A designed surrogate of one function.

    Attributes
    ----------
    frequency : float
        h, the lowest frequency.
    polynomial : tuple of three floats
        c_0, c_1 and c_2.
    cosines, sines : tuple of float
        a_j and b_j, j = 1, 2, ...; as many of both.
    """

    frequency: float
    polynomial: tuple[float, float, float]
    cosines: tuple[float, ...]
    sines: tuple[float, ...]

    def value(self, u: FloatArray) -> FloatArray:
        """Return S(u)."""
        return self.inverse(u, 0.0)

    def slope(self, u: FloatArray) -> FloatArray:
        """Return S'(u)."""
        return self.inverse_slope(u, 0.0)

    def inverse(self, u: FloatArray, variance: float) -> FloatArray:
        """Return W_s^-1 S at released scores, s the variance of normal noise."""
        w, grown = self._waves(variance)
        angle = np.multiply.outer(u, w)
        c0, c1, c2 = self.polynomial
        found: FloatArray = c0 + c1 * u + c2 * (u**2 - variance)
        return found + np.cos(angle) @ (grown * self.cosines) + np.sin(angle) @ (grown * self.sines)

    def inverse_slope(self, u: FloatArray, variance: float) -> FloatArray:
        """Return W_s^-1 S' at released scores."""
        w, grown = self._waves(variance)
        angle = np.multiply.outer(u, w)
        _, c1, c2 = self.polynomial
        found: FloatArray = c1 + 2 * c2 * u
        return found + np.cos(angle) @ (w * grown * self.sines) - np.sin(angle) @ (w * grown * self.cosines)

    def errors(self, part: Part) -> Callable[[FloatArray], tuple[FloatArray, FloatArray]]:
        """Return S - f and S' - f', as a function of scores."""
        return lambda u: (self.value(u) - part.value(u), self.slope(u) - part.slope(u))

    def size(self, bound: float) -> float:
        """Return the sum of the sizes of all terms of S and S' for abs(u) <= bound: what rounding is relative to."""
        w, _ = self._waves(0.0)
        c0, c1, c2 = np.abs(self.polynomial)
        sizes = np.abs(self.cosines) + np.abs(self.sines)
        # An angle w u is itself rounded.
        return float(c0 + c1 * (1 + bound) + c2 * bound * (2 + bound) + np.sum(sizes * (1 + w) * (1 + w * bound)))

    def ranges(
        self, low: FloatArray, high: FloatArray
    ) -> tuple[tuple[FloatArray, FloatArray], tuple[FloatArray, FloatArray]]:
        """Return the ranges of S' and S'' on cells of the line, as lower and upper ends.

        Both are within the sums of the terms of their Taylor series around the middle of a cell, whose remainder is at
        most that of the sizes of the waves; rounding is added. Waves that nearly cancel, with coefficients far above
        what they add up to, need the series.
        """
        w, _ = self._waves(0.0)
        middle, half = low / 2 + high / 2, (high - low) / 2
        angle = np.multiply.outer(middle, w)
        a, b = np.array(self.cosines), np.array(self.sines)
        # The derivatives of orders 1, 2, ... of a cos + b sin turn round by a quarter each.
        turned = [(b, -a), (-a, -b), (-b, a), (a, b)]
        orders = range(1, _TAYLOR + 1)
        on_cosines = np.array([w**order * turned[(order - 1) % 4][0] for order in orders])
        on_sines = np.array([w**order * turned[(order - 1) % 4][1] for order in orders])
        derivatives = np.cos(angle) @ on_cosines.T + np.sin(angle) @ on_sines.T
        _, c1, c2 = self.polynomial
        derivatives[:, 0] += c1 + 2 * c2 * middle
        derivatives[:, 1] += 2 * c2
        rounding = ROUNDING * (1 + float(w.max(initial=0.0))) * self.size(float(np.abs([low, high]).max(initial=0.0)))
        last = float(np.sum(w ** (_TAYLOR + 1) * np.hypot(a, b)))
        ends = []
        for first in (0, 1):
            beside, power = np.full(len(middle), rounding), np.ones(len(middle))
            for place in range(first + 1, _TAYLOR):
                power = power * half / (place - first)
                beside += power * np.abs(derivatives[:, place])
            beside += power * half / (_TAYLOR - first) * last
            ends.append((derivatives[:, first] - beside, derivatives[:, first] + beside))
        return ends[0], ends[1]

    def _waves(self, variance: float) -> tuple[FloatArray, FloatArray]:
        w: FloatArray = self.frequency * np.arange(1.0, len(self.cosines) + 1)
        grown: FloatArray = np.exp(variance * w**2 / 2)
        return w, grown


def combined(surrogates: Sequence[Surrogate], multipliers: Sequence[float]) -> Surrogate:
    """Return the surrogate of a sum of parts, each times a number; all are of one frequency."""

    def total(of: Callable[[Surrogate], Sequence[float]]) -> tuple[float, ...]:
        terms = [multiplier * np.array(of(one)) for one, multiplier in zip(surrogates, multipliers, strict=True)]
        return tuple(np.sum(terms, axis=0).tolist())

    c0, c1, c2 = total(lambda one: one.polynomial)
    return Surrogate(
        surrogates[0].frequency, (c0, c1, c2), total(lambda one: one.cosines), total(lambda one: one.sines)
    )


@dataclass(frozen=True)
class Design:
    """Surrogates of the parts of a loss, for one range, noise level and sample size.

    Attributes
    ----------
    radius : float
        R: they stand for the parts on abs(u) <= R.
    score_variance : float
        s, the noise variance of the score that they are tuned for. They are unbiased for S at every other as well.
    records : float
        n, the sample size.
    surrogates : tuple of Surrogate
        One for each part; all of one frequency.
    bias, slope_bias : float
        The largest error of a part and of its slope that a search on the range finds, the worst over parts. What no
        error exceeds is `symdebias.derivation.SurrogateParts.largest_errors`.
    """

    radius: float
    score_variance: float
    records: float
    surrogates: tuple[Surrogate, ...]
    bias: float
    slope_bias: float

    @property
    def frequency(self) -> float:
        """h, the frequency of the first wave."""
        return self.surrogates[0].frequency if self.surrogates else 1.0

    @property
    def waves(self) -> int:
        """The number of waves of each."""
        return len(self.surrogates[0].cosines) if self.surrogates else 12


def number_of_waves(radius: float, score_variance: float, records: float) -> int:
    """Return how many waves a design has: 12, or 24 for a wide range.

    Two sizes, so that a redesign rarely needs another kernel; ridge regression leaves unused waves near zero.
    """
    return 12 if (radius + 2 * math.sqrt(score_variance)) * _highest(score_variance, records) <= 12 * math.pi else 24


def _highest(score_variance: float, records: float) -> float:
    """Return the highest frequency that n records can pay for: e^(s w^2) of variance against n."""
    if score_variance == 0:
        return _HIGHEST_FREQUENCY
    return min(_HIGHEST_FREQUENCY, math.sqrt((2 * math.log(max(records, 2)) + 12) / score_variance))


def design(
    parts: Sequence[Part], *, radius: float, score_variance: float, records: float, waves: int | None = None
) -> Design:
    """Design surrogates by least squares, the variance as ridge.

    Minimises, for each part f and over the coefficients,

        integral (S' - f')^2 rho du + (1/n) integral Var[(W_s^-1 S')(u + N(0, s))] rho du + 1000 (shared error)^2

    with rho the arcsine density on [-R, R], which keeps the error as small at the ends as in the middle. The shared
    error is the mean of (S' - f') u (of S' - f' for the odd part) over scores N(0, R^2/4): what does not average out
    over records, but bends or shifts the parameters. The constant makes the largest errors of either sign equal.

    Parameters
    ----------
    parts : sequence of Part
        The functions.
    radius : float
        R, positive: the range abs(u) <= R.
    score_variance : float
        s, non-negative.
    records : float
        n, at least 1. Larger values buy less bias for more variance.
    waves : int, optional
        The number of waves; 0 leaves the quadratic. By default `number_of_waves`.

    Returns
    -------
    Design
        The surrogates with their biases.

    Raises
    ------
    ValueError
        A function is not finite on the range.

    Notes
    -----
    The frequencies are h, 2 h, ... with h = pi/L, L = R + 2 sqrt(s) or more: half a wavelength longer than where
    released scores lie. Takes about a millisecond.

    Examples
    --------
    >>> from scipy.special import expit
    >>> logistic = Part(lambda u: np.logaddexp(0, u) - u / 2, lambda u: expit(u) - 0.5, odd=False)
    >>> found = design([logistic], radius=5.0, score_variance=1.0, records=1e5)
    >>> found.bias < 1e-4
    True
    """
    count = number_of_waves(radius, score_variance, records) if waves is None else waves
    highest = _highest(score_variance, records)
    length = max(radius + 2 * math.sqrt(score_variance), count * math.pi / highest)
    frequency = math.pi / length
    u = radius * np.sin(np.pi / 2 * (np.arange(_NODES) + 0.5) / _NODES)
    surrogates, bias, slope_bias = [], 0.0, 0.0
    grid = np.linspace(-radius, radius, _GRID)
    for part in parts:
        price = part.inflation / records
        right, left = part.slope(u), part.slope(-u)
        zero = np.zeros(count + 1)
        scene = (u, radius, frequency, count, score_variance, price)
        even = _half((right - left) / 2, *scene, odd=False) if part.even else zero
        odd = _half((right + left) / 2, *scene, odd=True) if part.odd else zero
        free = Surrogate(frequency, (0.0, odd[0], even[0]), tuple(even[1:]), tuple(odd[1:]))
        error = free.value(grid) - part.value(grid)
        if not np.all(np.isfinite(error)):
            raise ValueError(
                f"the loss is not finite on scores up to {radius:g}. Use a smaller radius, or a form without overflow."
            )
        middle = float(error.max() + error.min()) / 2
        surrogates.append(Surrogate(frequency, (-middle, odd[0], even[0]), free.cosines, free.sines))
        largest = largest_found(surrogates[-1].errors(part), -radius, radius, points=_GRID)
        bias, slope_bias = max(bias, largest[0]), max(slope_bias, largest[1])
    return Design(radius, score_variance, records, tuple(surrogates), bias, slope_bias)


def _half(
    slope: FloatArray,
    u: FloatArray,
    radius: float,
    frequency: float,
    count: int,
    variance: float,
    price: float,
    *,
    odd: bool,
) -> FloatArray:
    """Return the coefficients of the even part (u^2 and cosines), or of the odd part (u and sines).

    `slope` is the derivative of that part at the nodes u > 0, which weigh the same.
    """
    orders = np.arange(1, count + 1)
    w = frequency * orders
    angle = np.multiply.outer(u, w)
    if odd:
        basis = np.concatenate([np.ones((len(u), 1)), w * np.cos(angle)], axis=1)
    else:
        basis = np.concatenate([2 * u[:, None], -w * np.sin(angle)], axis=1)
    # The mean over the range of the covariance of the inverted basis: waves of the differences and of the sums.
    means = np.cos(np.multiply.outer(u, frequency * np.arange(2 * count + 1))).mean(axis=0)
    products = variance * np.multiply.outer(w, w)
    difference = means[np.abs(orders[:, None] - orders)] * np.expm1(products)
    total = means[orders[:, None] + orders] * np.expm1(-products)
    covariance = np.zeros((count + 1, count + 1))
    covariance[1:, 1:] = np.multiply.outer(w, w) / 2 * (difference + total if odd else difference - total)
    if not odd:
        covariance[0, 0] = 4 * variance
        covariance[0, 1:] = covariance[1:, 0] = -2 * variance * w**2 * means[orders]
    # In units of each wave's own spread, so that a range of e^(s w^2) does not drown the rest in rounding.
    units = np.sqrt(np.diag(covariance))
    units = np.where(units > 0, 1 / np.where(units > 0, units, 1), 1.0)
    sizes, vectors = np.linalg.eigh(covariance * np.multiply.outer(units, units))
    root = np.sqrt(np.maximum(sizes, 0))[:, None] * vectors.T
    # Against the direction of the error that all records share: u for the even part of a loss, 1 for the odd one.
    density = np.exp(-2 * (u / radius) ** 2) * np.sqrt(1 - (u / radius) ** 2)
    density /= density.sum()
    lever = density if odd else density * u / math.sqrt(density @ u**2)
    shared = math.sqrt(_SHARED) * lever
    rows = np.concatenate([basis * units / math.sqrt(len(u)), (shared @ basis * units)[None], math.sqrt(price) * root])
    wanted = np.concatenate([slope / math.sqrt(len(u)), [shared @ slope], np.zeros(count + 1)])
    found: FloatArray = np.linalg.lstsq(rows, wanted, rcond=1e-15)[0] * units
    return found
