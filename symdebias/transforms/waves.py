"""The least squares that waves are designed by: for a distribution of true scores, with the variance as ridge.

Each half of a function, even and odd, is found by itself, from matrices that are the same for all prices of variance.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from symdebias._arrays import FloatArray, IntegerArray
from symdebias.transforms.surrogate import (
    GRID,
    NODES,
    Design,
    Part,
    Scores,
    Surrogate,
    balanced,
    highest_frequency,
    number_of_waves,
)

# How many points more each wave beyond 24 takes in the least squares problem and in the search for the largest error.
_NODES_PER_WAVE, _GRID_PER_WAVE = 8, 16
# What the slopes of single waves weigh: as much as errors a millionth of their size, so that waves that
# nearly cancel leave no rounding.
_CANCELLING = 1e-6
# What the squares of the shared errors weigh beside the mean squared error.
_SHARED = 1000.0


def design(
    parts: Sequence[Part],
    *,
    radius: float,
    score_variance: float,
    records: float,
    waves: int | None = None,
) -> Design:
    """Design surrogates by least squares, the variance as ridge.

    Minimises, for each part f and over the coefficients,

        E (S' - f')(u)^2 + (1/n) E Var[(W_s^-1 S')(u + N(0, s))] + 1000 (shared errors)^2

    over true scores u of the arcsine distribution on [-R, R]. The shared errors are the means of S' - f' and of
    (S' - f') u over N(0, R^2/4) on it, in units of the spread of u: what does not average out over records, but bends
    or shifts the parameters. The constant makes the largest errors of either sign equal.

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
    The frequencies are h, 2 h, ... with h = pi/(R + 2 sqrt(s)), or less where the waves reach higher frequencies than
    the records can pay for. Takes about a millisecond.

    Examples
    --------
    >>> from scipy.special import expit
    >>> logistic = Part(lambda u: np.logaddexp(0, u) - u / 2, lambda u: expit(u) - 0.5, odd=False)
    >>> found = design([logistic], radius=5.0, score_variance=1.0, records=1e5)
    >>> found.bias < 1e-4
    True
    """
    count = number_of_waves(radius, score_variance, records) if waves is None else waves
    length = max(radius + 2 * math.sqrt(score_variance), count * math.pi / highest_frequency(score_variance, records))
    scores = Scores.within(radius, NODES + _NODES_PER_WAVE * max(0, count - 24))
    tapered = np.exp(-2 * (scores.values / radius) ** 2) * np.sqrt(1 - (scores.values / radius) ** 2)
    scene = Scene(scores, tapered / tapered.sum(), math.pi / length, count, np.array([score_variance]), _SHARED)
    return scene.design(parts, radius=radius, score_variance=score_variance, records=records)


def _grown(variance: float, frequencies: Any, shape: float) -> FloatArray:
    """Return log 1/phi of noise of a score of finite shape at frequencies."""
    return np.asarray(shape * np.log1p(variance * frequencies**2 / (2 * shape)))


@dataclass(frozen=True)
class _Folded:
    """Scores by their sizes: either half of a function has the same error at u and -u."""

    sizes: FloatArray  # Of shape (k,): the sizes of scores, in order.
    # Of shape (m,): where the size of each score stands, and its sign.
    place: IntegerArray
    signs: FloatArray
    # Of shape (3, k): what sizes weigh in errors, in variances of slopes, and in those of curvatures.
    weights: FloatArray
    # Of shape (2, 2, k): what slopes of even and of odd functions weigh in the shared errors, which are the mean of the
    # slope's error and of that times the score. The slope of an even function is odd in the score.
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
    """What least squares need of the even or of the odd functions of a `Scene`, whatever is sought and its price."""

    slopes: FloatArray  # Of shape (k, c): the slopes of the functions at the sizes of scores.
    # Of shape (c, c): a root of the mean covariance of the inverted slopes, with that of the inverted second
    # derivatives of waves.
    root: FloatArray
    # Of shape (c,): the reciprocals of the waves' own spreads, in which `root`, `turn` and `triangle` are.
    units: FloatArray
    bending: FloatArray  # Of shape (c - 1, c - 1): the mean covariance of the inverted second derivatives of waves.
    # Of shape (k, r) and (r, c): the QR decomposition of the rows of squared errors.
    turn: FloatArray
    triangle: FloatArray


@dataclass(frozen=True)
class Scene:
    """What coefficients are found for."""

    scores: Scores  # The distribution of true scores.
    levers: FloatArray  # Of shape (m,): their probabilities in the shared errors.
    frequency: float  # h, the frequency of the first wave.
    count: int  # The number of waves.
    variances: FloatArray  # Of shape (k,): equally likely noise variances of the score.
    shared: float  # What the squares of the shared errors weigh.
    # What the variance of the inverted second derivative weighs beside that of the slope: noise of a record moves a
    # gradient by both.
    bent: float = 0.0
    # Of shape (m,): the mean square of a record's features given its score, over that of all records; ones by default.
    # What a score adds to the variance of a gradient it adds times this, and to that of a Hessian times its square.
    leverage: FloatArray | None = None
    # nu where 1/phi of the noise of the score is (1 + s w^2/(2 nu))^nu, infinite for normal noise.
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
        points = GRID + _GRID_PER_WAVE * max(0, self.count - 24)
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
        """The cosines at the sizes of scores of 0, ..., 2 m times the frequency, and the sines of 1, ..., m times."""
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
        """The mean cosines at the scores, and what products of two waves are in the mean, of slopes and of curvatures.

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
