"""Surrogates: functions with an exact inverse at every noise level, close to a loss that has none.

A surrogate is a polynomial, here a quadratic, and waves at the multiples of one frequency,

    S(u) = c_0 + c_1 u + c_2 u^2 + sum_j a_j cos(j h u) + b_j sin(j h u),

whose inverse under any mix of noises is known in closed form (each wave is divided by the characteristic function of
the noise). So its bias is S - f, whatever the noise, and the price is paid in variance, which grows like
e^(s w^2) in the frequency w. The coefficients minimise the mean squared error of the slope for a sample size.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import brentq

from symdebias._arrays import FloatArray
from symdebias.bounds.search import largest_found

Function = Callable[[FloatArray], FloatArray]

# Frequencies beyond this have no use for losses whose features are of unit width.
_HIGHEST_FREQUENCY = 7.0
# Points of the least squares problem on one half of the range and of the search for the largest error.
NODES, GRID = 96, 801
# Values that many scores are put together to.
_VALUES = 322
# Values of either sign that stand for outliers.
_OUTLIERS = 32
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

    Examples
    --------
    >>> import numpy as np
    >>> part = Part(np.abs, np.sign, even=True, odd=False)
    >>> part.even, part.inflation
    (True, 1.0)
    """

    value: Function
    slope: Function
    even: bool = True
    odd: bool = True
    inflation: float = 1.0

    def in_units(self, unit: float) -> "Part":
        """Return the function of scores that are measured in a unit.

        Parameters
        ----------
        unit : float
            Positive.
        """
        return replace(self, value=lambda v: self.value(unit * v), slope=lambda v: unit * self.slope(unit * v))


@dataclass(frozen=True)
class Surrogate:
    """A designed surrogate of one function.

    Attributes
    ----------
    frequency : float
        h, the lowest frequency.
    polynomial : tuple of float
        c_0, c_1, c_2 and, where there are no waves, those of higher powers.
    cosines, sines : tuple of float
        a_j and b_j, j = 1, 2, ...; as many of both.

    Examples
    --------
    >>> import numpy as np
    >>> wave = Surrogate(1.0, (0.0, 0.0, 0.5), cosines=(1.0,), sines=(0.0,))
    >>> wave.value(np.array([0.0])), wave.slope(np.array([0.0]))
    (array([1.]), array([0.]))
    """

    frequency: float
    polynomial: tuple[float, ...]
    cosines: tuple[float, ...] = ()
    sines: tuple[float, ...] = ()

    def value(self, u: FloatArray) -> FloatArray:
        """Return S(u)."""
        return self.inverse(u, 0.0)

    def slope(self, u: FloatArray) -> FloatArray:
        """Return S'(u)."""
        return self.inverse_slope(u, 0.0)

    def curvature(self, u: FloatArray) -> FloatArray:
        """Return S''(u)."""
        w, _ = self._waves(0.0)
        angle = np.multiply.outer(u, w)
        found: FloatArray = self.power_sum(u, 2) - np.cos(angle) @ (w**2 * self.cosines)
        return found - np.sin(angle) @ (w**2 * self.sines)

    def power_sum(self, u: FloatArray, order: int = 0, variance: float = 0.0) -> FloatArray:
        """Return the polynomial at scores, or its derivative of an order, with normal noise undone."""
        c = _derived(self.polynomial, order)
        found = _polynomial(u, c)
        factor, taken = 1.0, 0
        while variance and len(c) > 2:
            taken += 1
            c, factor = _derived(c, 2), -factor * variance / (2 * taken)
            found = found + factor * _polynomial(u, c)
        return found

    def inverse(self, u: FloatArray, variance: float) -> FloatArray:
        """Return W_s^-1 S at released scores, s the variance of normal noise."""
        w, grown = self._waves(variance)
        angle = np.multiply.outer(u, w)
        found = self.power_sum(u, 0, variance)
        return found + np.cos(angle) @ (grown * self.cosines) + np.sin(angle) @ (grown * self.sines)

    def inverse_slope(self, u: FloatArray, variance: float) -> FloatArray:
        """Return W_s^-1 S' at released scores."""
        w, grown = self._waves(variance)
        angle = np.multiply.outer(u, w)
        found = self.power_sum(u, 1, variance)
        return found + np.cos(angle) @ (w * grown * self.sines) - np.sin(angle) @ (w * grown * self.cosines)

    def from_units(self, unit: float) -> "Surrogate":
        """Return S(u/unit): what stands for a function, from what stands for that of scores in a unit.

        Parameters
        ----------
        unit : float
            Positive.
        """
        polynomial = tuple(c / unit**j for j, c in enumerate(self.polynomial))
        return replace(self, frequency=self.frequency / unit, polynomial=polynomial)

    def errors(self, part: Part) -> Callable[[FloatArray], tuple[FloatArray, FloatArray]]:
        """Return S - f and S' - f', as a function of scores."""
        return lambda u: (self.value(u) - part.value(u), self.slope(u) - part.slope(u))

    def size(self, bound: float) -> float:
        """Return the sum of the sizes of all terms of S and S' for abs(u) <= bound: what rounding is relative to."""
        w, _ = self._waves(0.0)
        sizes = np.abs(self.cosines) + np.abs(self.sines)
        powers = sum(abs(c) * (bound**j + j * bound ** max(j - 1, 0)) for j, c in enumerate(self.polynomial))
        # An angle w u is itself rounded.
        return float(powers + np.sum(sizes * (1 + w) * (1 + w * bound)))

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
        for order in orders[: len(self.polynomial) - 1]:
            derivatives[:, order - 1] += self.power_sum(middle, order)
        bound = float(np.abs([low, high]).max(initial=0.0))
        rounding = ROUNDING * (1 + float(w.max(initial=0.0))) * self.size(bound)
        # A derivative of a polynomial is a sum of terms of its own.
        bent = sum(abs(c) * math.perm(j, 2) * bound ** max(j - 2, 0) for j, c in enumerate(self.polynomial))
        rounding += 4 * ROUNDING * len(self.polynomial) * bent
        last = float(np.sum(w ** (_TAYLOR + 1) * np.hypot(a, b)))
        ends = []
        for first in (0, 1):
            beside, power = np.full(len(middle), rounding), np.ones(len(middle))
            # Over an interval that is far too long nothing is known.
            with np.errstate(over="ignore", invalid="ignore"):
                for place in range(first + 1, _TAYLOR):
                    power = power * half / (place - first)
                    beside += power * np.abs(derivatives[:, place])
                beside += power * half / (_TAYLOR - first) * last
            beside[np.isnan(beside)] = math.inf
            ends.append((derivatives[:, first] - beside, derivatives[:, first] + beside))
        return ends[0], ends[1]

    def _waves(self, variance: float) -> tuple[FloatArray, FloatArray]:
        w: FloatArray = self.frequency * np.arange(1.0, len(self.cosines) + 1)
        grown: FloatArray = np.exp(variance * w**2 / 2)
        return w, grown


def _derived(coefficients: Sequence[float], order: int) -> list[float]:
    """Return the coefficients of a derivative of a polynomial, that of u^j at place j."""
    return [math.perm(j, order) * c for j, c in enumerate(coefficients)][order:]


def _polynomial(u: FloatArray, coefficients: Sequence[float]) -> FloatArray:
    """Return a polynomial at scores, by Horner's rule: NumPy's has a hundred times its overhead."""
    found = np.zeros(np.shape(u))
    for c in reversed(coefficients):
        found = found * u + c
    return found


def combined(surrogates: Sequence[Surrogate], multipliers: Sequence[float]) -> Surrogate:
    """Return the surrogate of a sum of parts, each times a number; all are of one frequency."""

    def total(of: Callable[[Surrogate], Sequence[float]]) -> tuple[float, ...]:
        terms = [multiplier * np.array(of(one)) for one, multiplier in zip(surrogates, multipliers, strict=True)]
        return tuple(np.sum(terms, axis=0).tolist())

    return Surrogate(
        surrogates[0].frequency,
        total(lambda one: one.polynomial),
        total(lambda one: one.cosines),
        total(lambda one: one.sines),
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
        error exceeds is `symdebias.derivation.SurrogateParts.largest_errors`. NaN for the rungs of a pilot, whose
        errors nobody asks for.

    Examples
    --------
    >>> import symdebias as sd
    >>> release = sd.Release(sd.GaussianMechanism.from_scale(0.5))
    >>> corrected = sd.debias(sd.losses.logistic(), release, radius=3.0, score_variance=1.0, n=10_000)
    >>> corrected.design.radius, corrected.design.bias < 1e-3
    (3.0, True)
    """

    radius: float
    score_variance: float
    records: float
    surrogates: tuple[Surrogate, ...]
    bias: float
    slope_bias: float

    def from_units(self, unit: float) -> "Design":
        """Return the design of functions, from that of the same functions of scores in a unit.

        Parameters
        ----------
        unit : float
            Positive.
        """
        return Design(
            self.radius * unit,
            self.score_variance * unit**2,
            self.records,
            tuple(one.from_units(unit) for one in self.surrogates),
            self.bias,
            self.slope_bias / unit,
        )

    @property
    def frequency(self) -> float:
        """h, the frequency of the first wave."""
        return self.surrogates[0].frequency if self.surrogates else 1.0

    @property
    def waves(self) -> int:
        """The number of waves of each."""
        return len(self.surrogates[0].cosines) if self.surrogates else 12

    @property
    def degree(self) -> int:
        """The degree of the polynomials."""
        return len(self.surrogates[0].polynomial) - 1 if self.surrogates else 2


@dataclass(frozen=True)
class Scores:
    """A distribution of true scores, of which there are finitely many."""

    values: FloatArray  # Of shape (m,): the scores.
    chances: FloatArray  # Of shape (m,): their probabilities, which sum to 1.

    @classmethod
    def within(cls, radius: float, nodes: int = NODES) -> "Scores":
        """Return the arcsine distribution on [-radius, radius]: errors are then as small at the ends as in the middle.

        Parameters
        ----------
        radius : float
            Positive.
        nodes : int
            How many scores there are of either sign.
        """
        right = radius * np.sin(np.pi / 2 * (np.arange(nodes) + 0.5) / nodes)
        return cls(np.concatenate([-right[::-1], right]), np.full(2 * nodes, 0.5 / nodes))

    @classmethod
    def of(cls, values: FloatArray, chances: FloatArray | None = None) -> "Scores":
        """Return the distribution of many scores on fewer values: means of neighbours, the farthest by themselves.

        Parameters
        ----------
        values : array of shape (n,), float64
            The scores.
        chances : array of shape (n,), float64, optional
            Their probabilities; equal by default.
        """
        weights = np.full(len(values), 1 / len(values)) if chances is None else chances
        middle = float(np.median(values))
        core = float(np.median(np.abs(values - middle))) or float(np.std(values))
        if len(values) <= _VALUES or core == 0:
            return cls(values, weights / weights.sum())
        at = np.arcsinh((values - middle) / core)
        cell = np.minimum((at - at.min()) / (at.max() - at.min()) * _VALUES, _VALUES - 1).astype(int)
        mass = np.bincount(cell, weights, minlength=_VALUES)
        sums = np.bincount(cell, weights * values, minlength=_VALUES)
        kept = mass > 0
        return cls(sums[kept] / mass[kept], mass[kept] / mass.sum())

    @property
    def mean_square(self) -> float:
        """The mean of the squared score."""
        return float(self.chances @ self.values**2)

    @property
    def variance(self) -> float:
        """The variance of the score."""
        return float(self.chances @ (self.values - self.chances @ self.values) ** 2)

    def radius(self, outside: float) -> float:
        """Return the least R such that scores with abs(u) > R have at most this probability."""
        order = np.argsort(-np.abs(self.values))
        beyond = np.cumsum(self.chances[order])
        place = int(np.searchsorted(beyond, outside, side="right"))
        return float(np.abs(self.values[order[min(place, len(order) - 1)]]))

    def with_outliers(self, share: float, low: float, high: float) -> "Scores":
        """Return the distribution with a share of it spread evenly over low < abs(u) <= high.

        Parameters
        ----------
        share : float
            In [0, 1].
        low, high : float
            Non-negative.
        """
        outside = low + (high - low) * np.arange(1, _OUTLIERS + 1) / _OUTLIERS
        values = np.concatenate([-outside[::-1], self.values, outside])
        chances = np.full(_OUTLIERS, share / (2 * _OUTLIERS))
        return Scores(values, np.concatenate([chances, (1 - share) * self.chances, chances]))

    def scaled(self, factor: float) -> "Scores":
        """Return the distribution of the scores times a factor."""
        return Scores(self.values * factor, self.chances)


def number_of_waves(radius: float, score_variance: float, records: float) -> int:
    """Return how many waves a design has: 12, or 24 for a wide range.

    Few sizes, so that a redesign rarely needs another kernel; ridge regression leaves unused waves near zero.
    """
    return 12 if waves_needed(radius, score_variance, records) <= 12 else 24


def waves_needed(radius: float, score_variance: float, records: float) -> int:
    """Return how many waves over the range reach the highest frequency that the records can pay for, at least 12."""
    reach = radius + 2 * math.sqrt(score_variance)
    return max(12, math.ceil(reach * highest_frequency(score_variance, records) / math.pi))


def highest_frequency(score_variance: float, records: float, shape: float = math.inf) -> float:
    """Return the highest frequency that n records can pay for: e^(s w^2) of variance against n.

    Under noise of a finite shape nu a wave costs (1 + s w^2/(2 nu))^(2 nu).
    """
    if score_variance == 0:
        return _HIGHEST_FREQUENCY
    paid = 2 * math.log(max(records, 2)) + 12
    if shape < math.inf:
        paid = 2 * shape * math.expm1(min(paid / (2 * shape), 700.0))
    return min(_HIGHEST_FREQUENCY, math.sqrt(paid / score_variance))


def affordable_frequency(variances: FloatArray, records: float, shape: float = math.inf) -> float:
    """Return the highest frequency that n records of noise variances of their own can pay for, in the mean of them.

    Few records of much noise may make most of e^(s w^2). Noise of a finite shape is taken at its mean variance.
    """
    mean = float(np.mean(variances))
    if mean == 0 or shape < math.inf or float(np.ptp(variances)) <= 1e-12 * mean:
        return highest_frequency(mean, records, shape)
    paid = 2 * math.log(max(records, 2)) + 12
    largest = float(np.max(variances))

    def unpaid(square: float) -> float:
        return square * largest + math.log(float(np.mean(np.exp(square * (variances - largest))))) - paid

    # The mean of e^(s w^2) is at least e^(w^2 mean of s), and at most that of the largest.
    low, high = paid / largest, paid / mean
    found = low if unpaid(low) >= 0 else high if unpaid(high) <= 0 else float(brentq(unpaid, low, high))
    return min(_HIGHEST_FREQUENCY, math.sqrt(found))


def balanced(
    parts: Sequence[Part],
    found: Sequence[Surrogate],
    *,
    radius: float,
    score_variance: float,
    records: float,
    points: int = GRID,
) -> Design:
    """Return surrogates with constants that make the largest errors of either sign equal, and their largest errors.

    What stands for the functions has its constants left at 0. Errors are looked at on abs(u) <= radius, at `points`.

    Raises
    ------
    ValueError
        A function is not finite on the range.
    """
    surrogates, bias, slope_bias = [], 0.0, 0.0
    grid = np.linspace(-radius, radius, points)
    for part, free in zip(parts, found, strict=True):
        error = free.value(grid) - part.value(grid)
        if not np.all(np.isfinite(error)):
            raise ValueError(
                f"the loss is not finite on scores up to {radius:g}. Use a smaller radius, or a form without overflow."
            )
        middle = float(error.max() + error.min()) / 2
        surrogates.append(replace(free, polynomial=(-middle, *free.polynomial[1:])))
        largest = largest_found(surrogates[-1].errors(part), -radius, radius, points=points)
        bias, slope_bias = max(bias, largest[0]), max(slope_bias, largest[1])
    return Design(radius, score_variance, records, tuple(surrogates), bias, slope_bias)
