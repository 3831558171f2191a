"""The declared law of what is drawn, as numbers with known chances: coordinates, sizes, lengths, cosines, labels.

Every test is of counts: how many of n numbers lie below a threshold, which has the binomial law exactly.
"""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp
from scipy import special

from symdebias._arrays import FloatArray, IntegerArray
from symdebias.checks.binomial import at_least, at_most
from symdebias.mechanisms.base import Noise
from symdebias.noise import VALUE, AdditiveNoise, ChannelNoise, ClippedNoise, SphericalNoise
from symdebias.zonal import ZonalNoise

# Chances of the thresholds: a hundred between tails.
_CHANCES = np.unique(np.r_[np.geomspace(1e-5, 0.01, 8), np.arange(1, 100) / 100, 1 - np.geomspace(1e-5, 0.01, 8)])
# Points of the lattice that are tabled; beyond, a threshold halfway between two points stands in the integral.
_MOST_POINTS = 400_000
_CELLS = 400_000
# Two draws of noise without a declared grid agree with at most this chance: its realised grid is far finer.
_COLLISION = 2.0**-16


@dataclass(frozen=True)
class Statistic:
    """A number for each record that was drawn, whose law is known."""

    name: str  # What it is.
    of: Callable[[FloatArray], FloatArray]  # Takes what was drawn, shape (n, k), and returns numbers of shape (n,).
    thresholds: FloatArray  # Of shape (m,): ascending.
    chances: FloatArray  # Of shape (m,): the probability of a number that is at most the threshold.

    def counts(self, sent: FloatArray) -> IntegerArray:
        """Return how many numbers are at most each threshold; one that is not finite is none."""
        numbers = np.asarray(self.of(sent), dtype=float)
        return np.searchsorted(np.sort(numbers[np.isfinite(numbers)]), self.thresholds, side="right")

    def p_value(self, sent: FloatArray) -> float:
        """Return a p-value of the draws: the least of two-sided binomial ones, times their number.

        Of the counts below each threshold and between each two of them.
        """
        n, counts = len(sent), self.counts(sent)
        cells = np.diff(np.r_[0, counts, n])
        shares = np.diff(np.r_[0.0, self.chances, 1.0])
        observed, chances = np.r_[counts, cells], np.clip(np.r_[self.chances, shares], 0.0, 1.0)
        p_values = binomial_p_values(observed, n, chances)
        return min(1.0, float(p_values.min()) * len(p_values))

    @property
    def tests(self) -> int:
        """How many counts are compared."""
        return 2 * len(self.thresholds) + 1


def binomial_p_values(counts: Any, trials: int, chances: Any) -> FloatArray:
    """Return two-sided p-values of counts: twice the smaller tail, at most 1."""
    counts, chances = np.asarray(counts), np.asarray(chances, dtype=float)
    tails = np.minimum(at_most(counts, trials, chances), at_least(counts, trials, chances))
    # What never happens happened, or what always does did not.
    tails = np.where(np.isfinite(tails), tails, 0.0)
    return np.asarray(np.minimum(2 * tails, 1.0))


class NumberLaw:
    """The law of one coordinate of additive noise.

    Parameters
    ----------
    noise : AdditiveNoise
        The noise, normal or with a density.
    variance : float
        Of the coordinate.
    """

    def __init__(self, noise: AdditiveNoise, variance: float) -> None:
        self.deviation = math.sqrt(variance)
        self.step = noise.step
        self.collision = _COLLISION
        if noise.is_gaussian:
            self.points, self.below = None, None
            self.peak = 1 / (math.sqrt(2 * math.pi) * self.deviation)
            return
        density = sp.lambdify(VALUE, noise.density, "numpy")
        if noise.step is not None and 60 * self.deviation / noise.step < _MOST_POINTS:
            last = math.ceil(60 * self.deviation / noise.step) + 40
            middles = noise.step * np.arange(-last, last + 1.0)
            masses = np.array(np.broadcast_to(density(middles), middles.shape), dtype=float)
            self.points = middles + noise.step / 2
            self.collision = float(masses @ masses)
        else:
            edges = self.deviation * np.sinh(np.linspace(-6, 6, _CELLS + 1))
            middles = (edges[1:] + edges[:-1]) / 2
            values = np.array(np.broadcast_to(density(middles), middles.shape), dtype=float)
            masses = values * np.diff(edges) / (noise.step or 1.0)
            self.points = edges[1:]
        self.below = np.cumsum(masses)
        self.peak = float((masses / np.diff(np.r_[self.points[0] - (noise.step or 1.0), self.points])).max())

    def cdf(self, values: FloatArray) -> FloatArray:
        """Return the probability of a number of at most these, which lie halfway between points of a grid."""
        if self.points is None or self.below is None:
            return np.asarray(special.ndtr(values / self.deviation))
        return np.asarray(np.interp(values, self.points, self.below, left=0.0, right=float(self.below[-1])))

    def thresholds(self, chances: FloatArray) -> FloatArray:
        """Return numbers about which these chances lie below; halfway between points of a grid."""
        if self.points is None or self.below is None:
            return np.asarray(self.deviation * special.ndtri(chances))
        rising = np.r_[True, np.diff(self.below) > 0]
        found = np.interp(chances, self.below[rising], self.points[rising])
        if self.step is not None:
            found = self.step * (np.floor(found / self.step) + 0.5)
        return np.unique(found)


@functools.lru_cache(maxsize=64)
def number_law(noise: AdditiveNoise, variance: float) -> NumberLaw:
    """Return the law of a coordinate, tabled once."""
    return NumberLaw(noise, variance)


def known_law(noise: Noise) -> bool:
    """Whether the law of what is drawn is known: by a density, a matrix or a law of cosines."""
    if isinstance(noise, ClippedNoise):
        return known_law(noise.noise)
    if isinstance(noise, AdditiveNoise):
        return noise.is_gaussian or noise.density is not None
    if isinstance(noise, SphericalNoise):
        return noise.radial_scale is not None
    return isinstance(noise, (ChannelNoise, ZonalNoise))


def statistics(noise: Noise, center: FloatArray) -> list[Statistic]:
    """Return numbers of known law of what is drawn for an input.

    Parameters
    ----------
    noise : noise
        That of vectors of this width; `known_law`.
    center : array of shape (k,), float64
        The input within the bounds.
    """
    if isinstance(noise, ChannelNoise):
        return _of_channel(noise, float(center[0]))
    if isinstance(noise, ClippedNoise):
        return _of_clipped(noise, float(center[0]))
    if isinstance(noise, ZonalNoise):
        return _of_zonal(noise, center)
    if isinstance(noise, SphericalNoise):
        return _of_spherical(noise, center)
    assert isinstance(noise, AdditiveNoise)
    found = []
    for place, variance in enumerate(noise.coordinate_variances(len(center))):
        if variance == 0:
            found.append(_constant(f"coordinate {place}, without noise", place, float(center[place])))
            continue
        law = number_law(noise, variance)
        thresholds = law.thresholds(_CHANCES)
        found.append(
            Statistic(f"coordinate {place}", _coordinate(place, center[place]), thresholds, law.cdf(thresholds))
        )
        sizes = thresholds[thresholds > 0]
        # Halfway between points of a grid there is no mass, so that this is the chance of |e| <= t.
        found.append(
            Statistic(
                f"size of coordinate {place}", _coordinate(place, center[place], size=True), sizes,
                law.cdf(sizes) - law.cdf(-sizes),
            )
        )  # fmt: skip
    return found


def _constant(name: str, place: int, value: float) -> Statistic:
    tiny = 1e-12 * max(abs(value), 1e-300)
    return Statistic(name, lambda sent: sent[:, place], np.array([value - tiny, value + tiny]), np.array([0.0, 1.0]))


def _coordinate(place: int, center: float, *, size: bool = False) -> Callable[[FloatArray], FloatArray]:
    def of(sent: FloatArray) -> FloatArray:
        noise = sent[:, place] - center
        return np.asarray(np.abs(noise) if size else noise)

    return of


def _of_channel(noise: ChannelNoise, value: float) -> list[Statistic]:
    row = np.array(noise.matrix[noise.inputs.index(value)])
    outputs = np.array(noise.outputs)
    order = np.argsort(outputs)
    ranks = np.arange(len(outputs), dtype=float)

    def of(sent: FloatArray) -> FloatArray:
        places = np.minimum(np.searchsorted(outputs[order], sent[:, 0]), len(outputs) - 1)
        # What is no output lies beyond all of them.
        return np.where(outputs[order][places] == sent[:, 0], places, float(len(outputs)))

    chances = np.minimum(np.cumsum(row[order]), 1.0)
    chances[-1] = 1.0
    return [Statistic("labels", of, ranks + 0.5, chances)]


def _of_clipped(noise: ClippedNoise, center: float) -> list[Statistic]:
    law = number_law(noise.noise, noise.noise.variance)
    inside = center + law.thresholds(_CHANCES)
    inside = inside[(inside > noise.low) & (inside < noise.high)]
    low, high = _chances_of_ends(noise, center)
    # Nothing lies below the lower end, and the mass that is left stands at the upper one.
    thresholds = np.r_[np.nextafter(noise.low, -math.inf), noise.low, inside, np.nextafter(noise.high, -math.inf)]
    chances = np.r_[0.0, low, law.cdf(inside - center), 1 - high]
    thresholds, chances = np.r_[thresholds, noise.high], np.r_[chances, 1.0]
    return [Statistic("what comes out", lambda sent: sent[:, 0], thresholds, chances)]


def _chances_of_ends(noise: ClippedNoise, center: float) -> tuple[float, float]:
    """Return the chances of the two numbers that noised values are clipped to."""
    law = number_law(noise.noise, noise.noise.variance)
    low, high = noise.low - center, noise.high - center
    if law.step is not None:
        # Of a grid the end itself counts, on either side.
        low = law.step * (math.floor(low / law.step + 1e-9) + 0.5)
        high = law.step * (math.ceil(high / law.step - 1e-9) - 0.5)
    below = law.cdf(np.array([low, high]))
    return float(below[0]), float(1 - below[1])


def _of_spherical(noise: SphericalNoise, center: FloatArray) -> list[Statistic]:
    assert noise.radial_scale is not None
    dimension, width = noise.ambient, len(center)
    lengths = noise.radial_scale * _gamma_quantiles(dimension)
    half = (dimension - 1) / 2
    # The coordinate of a uniform direction in R^D: (1 + t)/2 has the law Beta((D - 1)/2, (D - 1)/2).
    spread = math.sqrt(noise.variance) * special.ndtri(_CHANCES)
    chances = _mixed(lambda share: special.betainc(half, half, (1 + np.clip(share, -1, 1)) / 2), spread, lengths)
    found = [
        Statistic(f"coordinate {place}", _coordinate(place, center[place]), spread, chances) for place in range(width)
    ]
    middle = np.quantile(lengths, _CHANCES) * math.sqrt(width / dimension)
    if width == dimension:
        whole = special.gammainc(dimension, middle / noise.radial_scale)
    else:
        # The squared length of the first d of D coordinates of a direction has the law Beta(d/2, (D - d)/2).
        parts = (width / 2, (dimension - width) / 2)
        whole = _mixed(lambda share: special.betainc(*parts, np.clip(share, 0, 1) ** 2), middle, lengths)
    found.append(Statistic("length", lambda sent: np.linalg.norm(sent - center, axis=1), middle, np.asarray(whole)))
    return found


@functools.lru_cache(maxsize=64)
def _gamma_quantiles(shape: int) -> FloatArray:
    return np.asarray(special.gammaincinv(shape, (np.arange(20_000) + 0.5) / 20_000))


def _mixed(cdf: Callable[[FloatArray], FloatArray], thresholds: FloatArray, lengths: FloatArray) -> FloatArray:
    """Return the mean over lengths of the chance that a number times the length is at most a threshold."""
    return np.array([float(np.mean(cdf(threshold / lengths))) for threshold in thresholds])


def _of_zonal(noise: ZonalNoise, center: FloatArray) -> list[Statistic]:
    """Return the cosine with a record on the sphere, and a coordinate across it; nothing of others."""
    if not float(np.linalg.norm(center)) >= noise.radius * (1 - 1e-9):
        return []
    width, dimension = len(center), len(center) + 1
    half = (dimension - 1) / 2
    direction = center / float(np.linalg.norm(center))
    chances = np.r_[_CHANCES[_CHANCES >= 1e-3]]
    # (1 - t)/2 of the cosine t with a fixed point has the law Beta(half, half) for uniform points.
    edges = -(1 - 2 * special.betaincinv(half, half, noise.law.shares(dimension, chances)))

    def minus_cosine(sent: FloatArray) -> FloatArray:
        return np.asarray(-(sent @ direction) / noise.radius)

    found = [Statistic("cosine with the record", minus_cosine, edges, chances)]
    if width > 1:
        across = np.zeros(width)
        across[int(np.argmin(np.abs(direction)))] = 1.0
        across -= (across @ direction) * direction
        across /= np.linalg.norm(across)
        points = np.arange(1, 50) / 50

        def rank(sent: FloatArray) -> FloatArray:
            left = np.sqrt(np.maximum(1 - minus_cosine(sent) ** 2, 1e-12))
            share = np.clip(sent @ across / noise.radius / left, -1, 1)
            return np.asarray(special.betainc(half - 0.5, half - 0.5, (1 + share) / 2))

        found.append(Statistic("coordinate across the record", rank, points, points))
    return found


# ---- what a test of a law sees -------------------------------------------------------------------------------------


def smallest_scale(noise: Noise, width: int, samples: int, false_alarm: float) -> float | None:
    """Return the largest factor below 1 on additive noise that is seen in 95 of 100 checks, or None if not computed.

    Parameters
    ----------
    noise : noise
        The noise.
    width : int
        The number of coordinates.
    samples : int
        Draws of an input.
    false_alarm : float
        Of all counts of the sizes of the last coordinate, or of lengths.
    """
    if not isinstance(noise, (AdditiveNoise, SphericalNoise)) or not known_law(noise):
        return None
    of_size = statistics(noise, np.zeros(width))[-1]
    sizes, chances = of_size.thresholds, of_size.chances
    level = -float(special.ndtri(false_alarm / (2 * of_size.tests)))
    for missing in np.geomspace(1e-4, 0.99, 400):
        moved = np.interp(sizes / (1 - missing), sizes, chances)
        needed = level * np.sqrt(chances * (1 - chances)) + 1.645 * np.sqrt(np.maximum(moved * (1 - moved), 0.0))
        if np.any(math.sqrt(samples) * np.abs(moved - chances) > needed):
            return float(1 - missing)
    return 0.01


def smallest_shift(noise: Noise, samples: int, false_alarm: float) -> float | None:
    """Return the shift of a coordinate of additive noise that is seen in 95 of 100 checks, in its units, or None."""
    if isinstance(noise, ClippedNoise):
        noise = noise.noise
    if isinstance(noise, SphericalNoise):
        return 2 * _reach(samples, false_alarm / 500) * math.sqrt(noise.variance)
    if not isinstance(noise, AdditiveNoise) or not known_law(noise):
        return None
    if noise.is_gaussian:
        return _reach(samples, false_alarm / 500) * math.sqrt(2 * math.pi * noise.variance)
    law = number_law(noise, noise.variance)
    return max(_reach(samples, false_alarm / 500) / law.peak, noise.step or 0.0)


def smallest_chance(samples: int, false_alarm: float) -> float:
    """Return by how much a probability of about one half may be off to be seen in 95 of 100 checks."""
    return _reach(samples, false_alarm)


def _reach(samples: int, false_alarm: float) -> float:
    return (-float(special.ndtri(false_alarm / 2)) + 1.645) / 2 / math.sqrt(samples)


def collision_chance(noise: Noise, center: FloatArray) -> float:
    """Return the probability, or a bound on it, that two independent draws of a coordinate are equal."""
    if isinstance(noise, ChannelNoise):
        row = np.array(noise.matrix[noise.inputs.index(float(center[0]))])
        return float(row @ row)
    if isinstance(noise, ClippedNoise):
        law = number_law(noise.noise, noise.noise.variance)
        low, high = _chances_of_ends(noise, float(center[0]))
        return float(min(1.0, low**2 + high**2 + law.collision))
    if isinstance(noise, AdditiveNoise) and noise.step is not None:
        return number_law(noise, noise.variance).collision
    return _COLLISION


def combined_p_value(p_values: Sequence[float]) -> float:
    """Return one p-value of several, dependent as they may be: the least times their number."""
    return min(1.0, min(p_values, default=1.0) * len(p_values))
