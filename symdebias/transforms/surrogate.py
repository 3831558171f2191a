"""Surrogates: functions with an exact inverse at every noise level, close to a loss that has none.

A surrogate is a polynomial, here a quadratic, and waves at the multiples of one frequency,

    S(u) = c_0 + c_1 u + c_2 u^2 + sum_j a_j cos(j h u) + b_j sin(j h u),

whose inverse under any mix of noises is known in closed form (each wave is divided by the characteristic function of
the noise). So its bias is S - f, whatever the noise, and the price is paid in variance, which grows like
e^(s w^2) in the frequency w. The coefficients minimise the mean squared error of the slope for a sample size.
"""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from symdebias._arrays import FloatArray
from symdebias.bounds.search import largest_found

Function = Callable[[FloatArray], FloatArray]

# Frequencies beyond this have no use for losses whose features are of unit width.
_HIGHEST_FREQUENCY = 7.0
# Points of the least squares problem on one half of the range and of the search for the largest error, for up to 24
# waves, and how many each wave beyond them takes.
_NODES, _NODES_PER_WAVE = 96, 8
_GRID, _GRID_PER_WAVE = 801, 16
# Values that many scores are put together to.
_VALUES = 322
# What the slopes of single waves weigh: as much as errors a millionth of their size, so that waves that
# nearly cancel leave no rounding.
_CANCELLING = 1e-6
# What the shared errors weigh, squared, beside the mean squared error.
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
    polynomial : tuple of float
        c_0, c_1, c_2 and, where there are no waves, those of higher powers.
    cosines, sines : tuple of float
        a_j and b_j, j = 1, 2, ...; as many of both.
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

    @property
    def degree(self) -> int:
        """The degree of the polynomials."""
        return len(self.surrogates[0].polynomial) - 1 if self.surrogates else 2


@dataclass(frozen=True)
class Scores:
    """A distribution of true scores, of which there are finitely many.

    Attributes
    ----------
    values : array of shape (m,), float64
        The scores.
    chances : array of shape (m,), float64
        Their probabilities, which sum to 1.
    """

    values: FloatArray
    chances: FloatArray

    @classmethod
    def within(cls, radius: float, nodes: int = _NODES) -> "Scores":
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

    def radius(self, outside: float = 0.0) -> float:
        """Return the least R such that scores with abs(u) > R have at most this probability."""
        order = np.argsort(-np.abs(self.values))
        beyond = np.cumsum(self.chances[order])
        place = int(np.searchsorted(beyond, outside, side="right"))
        return float(np.abs(self.values[order[min(place, len(order) - 1)]]))

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


def _grown(variance: float, frequencies: Any, shape: float) -> FloatArray:
    """Return log 1/phi of noise of a score of finite shape at frequencies."""
    return np.asarray(shape * np.log1p(variance * frequencies**2 / (2 * shape)))


def design(
    parts: Sequence[Part],
    *,
    radius: float,
    score_variance: float,
    records: float,
    waves: int | None = None,
    scores: Scores | None = None,
    length: float | None = None,
    variances: FloatArray | None = None,
    shared: float = _SHARED,
) -> Design:
    """Design surrogates by least squares, the variance as ridge.

    Minimises, for each part f and over the coefficients,

        E (S' - f')(u)^2 + (1/n) E Var[(W_s^-1 S')(u + N(0, s))] + shared (shared errors)^2

    over a distribution of true scores u. The shared errors are the means of S' - f' and of (S' - f') u over it, in
    units of the spread of u: what does not average out over records, but bends or shifts the parameters. The constant
    makes the largest errors of either sign equal.

    Parameters
    ----------
    parts : sequence of Part
        The functions.
    radius : float
        R, positive: the range abs(u) <= R within which the largest errors are stated.
    score_variance : float
        s, non-negative.
    records : float
        n, at least 1. Larger values buy less bias for more variance.
    waves : int, optional
        The number of waves; 0 leaves the quadratic. By default `number_of_waves`.
    scores : Scores, optional
        The distribution of scores. By default the arcsine distribution on [-R, R] for the squared error, and
        N(0, R^2/4) on it for the shared errors.
    length : float, optional
        Half a wavelength of the first wave. By default R + 2 sqrt(s), or more where the waves reach higher frequencies
        than the records can pay for.
    variances : array of shape (m,), float64, optional
        Noise variances of the score that are equally likely, where records have noise of their own; s is their mean.
    shared : float
        What the squares of the shared errors weigh.

    Returns
    -------
    Design
        The surrogates with their biases.

    Raises
    ------
    ValueError
        A function is not finite on the scores.

    Notes
    -----
    The frequencies are h, 2 h, ... with h = pi/length. Takes about a millisecond.

    Examples
    --------
    >>> from scipy.special import expit
    >>> logistic = Part(lambda u: np.logaddexp(0, u) - u / 2, lambda u: expit(u) - 0.5, odd=False)
    >>> found = design([logistic], radius=5.0, score_variance=1.0, records=1e5)
    >>> found.bias < 1e-4
    True
    """
    count = number_of_waves(radius, score_variance, records) if waves is None else waves
    if length is None:
        length = max(
            radius + 2 * math.sqrt(score_variance), count * math.pi / highest_frequency(score_variance, records)
        )
    frequency = math.pi / length
    if scores is None:
        scores = Scores.within(radius, _NODES + _NODES_PER_WAVE * max(0, count - 24))
        tapered = np.exp(-2 * (scores.values / radius) ** 2) * np.sqrt(1 - (scores.values / radius) ** 2)
        levers = tapered / tapered.sum()
    else:
        levers = scores.chances
    noise = np.array([score_variance]) if variances is None else variances
    scene = Scene(scores, levers, frequency, count, noise, shared)
    return scene.design(parts, radius=radius, score_variance=score_variance, records=records)


def balanced(
    parts: Sequence[Part],
    found: Sequence[Surrogate],
    *,
    radius: float,
    score_variance: float,
    records: float,
    points: int = _GRID,
) -> Design:
    """Return surrogates with constants that make the largest errors of either sign equal, and their largest errors.

    Parameters
    ----------
    parts : sequence of Part
        The functions.
    found : sequence of Surrogate
        What stands for them, their constants left at 0.
    radius : float
        Errors are looked at on abs(u) <= radius.
    score_variance, records : float
        What they were designed for.
    points : int
        Of the search for the largest error.

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


@dataclass(frozen=True)
class _Folded:
    """Scores by their sizes: either half of a function has the same error at u and -u.

    Attributes
    ----------
    sizes : array of shape (k,), float64
        The sizes of scores, in order.
    place, signs : array of shape (m,)
        Where the size of each score stands, and its sign.
    weights : array of shape (3, k), float64
        What sizes weigh in errors, in variances of slopes, and in those of curvatures.
    levers : array of shape (2, 2, k), float64
        What slopes of even and of odd functions weigh in the shared errors, which are the mean of the slope's error
        and of that times the score. The slope of an even function is odd in the score.
    """

    sizes: FloatArray
    place: np.ndarray[Any, np.dtype[np.int64]]
    signs: FloatArray
    weights: FloatArray
    levers: FloatArray
    _slopes: dict[Part, tuple[FloatArray, FloatArray]] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, scores: Scores, levers: FloatArray, leverage: FloatArray | None) -> "_Folded":
        """Return the scores of a `Scene` by their sizes."""
        u = scores.values
        sizes, place = np.unique(np.abs(u), return_inverse=True)
        place = place.ravel()

        def folded(weights: FloatArray) -> FloatArray:
            sums: FloatArray = np.bincount(place, weights, minlength=len(sizes)).astype(np.float64)
            return sums

        spread = math.sqrt(float(levers @ u**2)) or 1.0
        signs = np.sign(u)
        shared = [[folded(one * sign) for one in (levers, levers * u / spread)] for sign in (signs, np.ones(len(u)))]
        lever = np.ones(len(u)) if leverage is None else leverage
        weights = np.array([folded(scores.chances * lever**power) for power in range(3)])
        return cls(sizes, place, signs, weights, np.array(shared))

    def slopes(self, part: Part) -> tuple[FloatArray, FloatArray]:
        """Return the slopes of the even and of the odd half of a function at the sizes.

        Raises
        ------
        ValueError
            They are not finite.
        """
        if part not in self._slopes:
            right, left = part.slope(self.sizes), part.slope(-self.sizes)
            if not (np.all(np.isfinite(right)) and np.all(np.isfinite(left))):
                raise ValueError(
                    f"the slope of the loss is not finite on scores up to {self.sizes.max():g}. Use a smaller radius, "
                    "or a form without overflow."
                )
            self._slopes[part] = (right - left) / 2, (right + left) / 2
        return self._slopes[part]


@dataclass(frozen=True)
class _Half:
    """What least squares need of the even or of the odd functions of a `Scene`, whatever is sought and its price.

    Attributes
    ----------
    slopes : array of shape (k, c), float64
        The slopes of the functions at the sizes of scores.
    root : array of shape (c, c), float64
        A root of the mean covariance of the inverted slopes, with that of the inverted second derivatives of waves.
    units : array of shape (c,), float64
        The reciprocals of the waves' own spreads, in which `root`, `turn` and `triangle` are.
    bending : array of shape (c - 1, c - 1), float64
        The mean covariance of the inverted second derivatives of waves.
    turn, triangle : array of shape (k, r) and (r, c), float64
        The QR decomposition of the rows of squared errors.
    """

    slopes: FloatArray
    root: FloatArray
    units: FloatArray
    bending: FloatArray
    turn: FloatArray
    triangle: FloatArray


@dataclass(frozen=True)
class Scene:
    """What coefficients are found for.

    Attributes
    ----------
    scores : Scores
        The distribution of true scores.
    levers : array of shape (m,), float64
        Their probabilities in the shared errors.
    frequency : float
        h, the frequency of the first wave.
    count : int
        The number of waves.
    variances : array of shape (k,), float64
        Equally likely noise variances of the score.
    shared : float
        What the squares of the shared errors weigh.
    bent : float
        What the variance of the inverted second derivative weighs beside that of the slope: noise of a record moves a
        gradient by both.
    leverage : array of shape (m,), float64, or None
        The mean square of a record's features given its score, over that of all records; ones by default. What a score
        adds to the variance of a gradient it adds times this, and to that of a Hessian times its square.
    shape : float
        nu where 1/phi of the noise of the score is (1 + s w^2/(2 nu))^nu, infinite for normal noise.
    """

    scores: Scores
    levers: FloatArray
    frequency: float
    count: int
    variances: FloatArray
    shared: float
    bent: float = 0.0
    leverage: FloatArray | None = None
    shape: float = math.inf

    def design(self, parts: Sequence[Part], *, radius: float, score_variance: float, records: float) -> Design:
        """Return the surrogates with their largest errors on a range; see the function `design`."""
        return self.balanced(
            parts, self.surrogates(parts, records), radius=radius, score_variance=score_variance, records=records
        )

    def balanced(
        self, parts: Sequence[Part], found: Sequence[Surrogate], *, radius: float, score_variance: float, records: float
    ) -> Design:
        """Return surrogates with their constants and largest errors on a range; see the function `balanced`."""
        points = _GRID + _GRID_PER_WAVE * max(0, self.count - 24)
        return balanced(parts, found, radius=radius, score_variance=score_variance, records=records, points=points)

    def of_waves(self, frequency: float, count: int) -> "Scene":
        """Return the same scene for other waves."""
        found = replace(self, frequency=frequency, count=count)
        # The scores are the same.
        vars(found)["_folded"] = self._folded
        return found

    def surrogates(self, parts: Sequence[Part], records: float, shared: float | None = None) -> list[Surrogate]:
        """Return the surrogates for a sample size, their constants left at 0."""
        weight = self.shared if shared is None else shared
        found = []
        for part in parts:
            price = part.inflation / records
            of_even, of_odd = self._folded.slopes(part)
            zero = np.zeros(self.count + 1)
            even = self._coefficients(of_even, price, weight, odd=False) if part.even else zero
            odd = self._coefficients(of_odd, price, weight, odd=True) if part.odd else zero
            found.append(
                Surrogate(
                    self.frequency,
                    (0.0, float(odd[0]), float(even[0])),
                    tuple(map(float, even[1:])),
                    tuple(map(float, odd[1:])),
                )
            )
        return found

    def price(self, found: Surrogate) -> float:
        """Return the mean variance of W_s^-1 S'(u + N(0, s)) as gradients carry it, and `bent` times that of S''."""
        total = 0.0
        for half, coefficients in self._used(found):
            total += float(np.sum((half.root @ (coefficients / half.units)) ** 2))
        return total

    def curvature_variance(self, found: Surrogate) -> float:
        """Return the mean variance of W_s^-1 S''(u + N(0, s)) over scores and noise, as Hessians carry it."""
        return sum(max(float(c[1:] @ half.bending @ c[1:]), 0.0) for half, c in self._used(found))

    def slopes(self, found: Surrogate) -> FloatArray:
        """Return S' at the scores, shape (m,)."""
        folded = self._folded
        even, odd = (half.slopes @ c if half else np.zeros(len(folded.sizes)) for half, c in self._either(found))
        return np.asarray(folded.signs * even[folded.place] + odd[folded.place])

    def curvatures(self, found: Surrogate) -> FloatArray:
        """Return S'' at the scores, shape (m,)."""
        folded, (cosines, sines) = self._folded, self._waves
        squares = (self.frequency * np.arange(1, self.count + 1)) ** 2
        even = cosines[:, 1 : self.count + 1] @ (squares * found.cosines) if any(found.cosines) else 0.0
        odd = sines @ (squares * found.sines) if any(found.sines) else 0.0
        whole = np.zeros(len(folded.sizes))
        return np.asarray(
            2 * found.polynomial[2] - (whole + even)[folded.place] - folded.signs * (whole + odd)[folded.place]
        )

    def _either(self, found: Surrogate) -> "list[tuple[_Half | None, FloatArray]]":
        """Return the coefficients of the even and of the odd half, each with what is known of it if there are any."""
        even = np.array((found.polynomial[2], *found.cosines))
        odd = np.array((found.polynomial[1], *found.sines))
        return [(self._even if even.any() else None, even), (self._odd if odd.any() else None, odd)]

    def _used(self, found: Surrogate) -> list[tuple[_Half, FloatArray]]:
        return [(half, coefficients) for half, coefficients in self._either(found) if half is not None]

    @functools.cached_property
    def _folded(self) -> _Folded:
        return _Folded.of(self.scores, self.levers, self.leverage)

    @functools.cached_property
    def _waves(self) -> tuple[FloatArray, FloatArray]:
        """The cosines at the sizes of scores of 0, 1, ..., 2 m times the frequency, and the sines of 1, ..., m times."""
        angles = np.multiply.outer(self._folded.sizes, self.frequency * np.arange(2 * self.count + 1))
        return np.cos(angles), np.sin(angles[:, 1 : self.count + 1])

    @functools.cached_property
    def _even(self) -> _Half:
        return self._half(odd=False)

    @functools.cached_property
    def _odd(self) -> _Half:
        return self._half(odd=True)

    @functools.cached_property
    def _products(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The mean cosines at the scores, and waves of differences and of sums of frequencies, of slopes and curvatures.

        Two waves are those of the difference and of the sum of their frequencies.
        """
        orders = np.arange(1, self.count + 1)
        w = self.frequency * orders
        means, far_means = self._folded.weights[1:] @ self._waves[0]
        products = np.multiply.outer(w, w)
        places = np.abs(orders[:, None] - orders), orders[:, None] + orders
        # Of slopes, and of second derivatives.
        difference, total = np.zeros((2, *products.shape)), np.zeros((2, *products.shape))
        for s in self.variances:
            growths = [s * products, -s * products]
            if self.shape < math.inf:
                alone = _grown(s, w, self.shape)
                growths = [alone[:, None] + alone - _grown(s, self.frequency * place, self.shape) for place in places]
            grown, shrunk = (np.expm1(growth) / len(self.variances) for growth in growths)
            for kind, moments in enumerate((means, far_means)):
                difference[kind] += moments[places[0]] * grown
                total[kind] += moments[places[1]] * shrunk
        return means, difference, total

    def _half(self, *, odd: bool) -> _Half:
        """Return what is known of the even or of the odd functions."""
        orders = np.arange(1, self.count + 1)
        w, sizes = self.frequency * orders, self._folded.sizes
        cosines, sines = self._waves
        means, difference, total = self._products
        products, sign = np.multiply.outer(w, w), 1.0 if odd else -1.0
        bending = products**2 / 2 * (difference[1] - sign * total[1])
        covariance = np.zeros((self.count + 1, self.count + 1))
        covariance[1:, 1:] = products / 2 * (difference[0] + sign * total[0]) + self.bent * bending
        if odd:
            slopes = np.concatenate([np.ones((len(sizes), 1)), w * cosines[:, 1 : self.count + 1]], axis=1)
        else:
            slopes = np.concatenate([2 * sizes[:, None], -w * sines], axis=1)
            s = float(np.mean(self.variances))
            covariance[0, 0] = 4 * s * means[0]
            damped = 1.0 if self.shape == math.inf else 1 + s * w**2 / (2 * self.shape)
            covariance[0, 1:] = covariance[1:, 0] = -2 * s * w**2 / damped * means[orders]
        # In units of each wave's own spread, so that a range of e^(s w^2) does not drown the rest in rounding.
        units = np.sqrt(np.maximum(np.diag(covariance), 0))
        units = np.where(units > 0, 1 / np.where(units > 0, units, 1), 1.0)
        squares, vectors = np.linalg.eigh(covariance * np.multiply.outer(units, units))
        root = np.sqrt(np.maximum(squares, 0))[:, None] * vectors.T
        turn, triangle = np.linalg.qr(np.sqrt(self._folded.weights[0])[:, None] * slopes * units)
        return _Half(slopes, root, units, bending, turn, triangle)

    def _coefficients(self, slope: FloatArray, price: float, shared: float, *, odd: bool) -> FloatArray:
        """Return the coefficients of one half of a function whose slope at the sizes of the scores is given."""
        half, folded = self._odd if odd else self._even, self._folded
        shared_errors = math.sqrt(shared) * folded.levers[int(odd)]
        slopes = np.concatenate([[1.0 if odd else 2.0], self.frequency * np.arange(1, self.count + 1)])
        rows = np.concatenate(
            [
                half.triangle,
                shared_errors @ half.slopes * half.units,
                math.sqrt(price) * half.root,
                np.diag(_CANCELLING * slopes * half.units),
            ]
        )
        errors = half.turn.T @ (np.sqrt(folded.weights[0]) * slope)
        wanted = np.concatenate([errors, shared_errors @ slope, np.zeros(2 * (self.count + 1))])
        found: FloatArray = np.linalg.lstsq(rows, wanted, rcond=1e-15)[0] * half.units
        return found
