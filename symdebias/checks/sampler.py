"""Check what a mechanism draws against what it declares: mean, variance and characteristic function, or a matrix.

Every threshold is a bound that holds for any noise of the declared moments, so that the rate of false alarms is at most
the stated one.
"""

import itertools
import math
from dataclasses import dataclass

import numpy as np
import sympy as sp

from symdebias._arrays import FloatArray
from symdebias.mechanisms import Mechanism
from symdebias.noise import (
    FREQUENCY,
    AdditiveNoise,
    ChannelNoise,
    ClippedNoise,
    CoordinateNoise,
    SphericalNoise,
    exactly,
    value_of,
)
from symdebias.transforms import quadrature
from symdebias.zonal import ZonalNoise

FALSE_ALARM = 1e-6
# Frequencies at which characteristic functions are compared, times the standard deviation.
FREQUENCIES = (0.25, 0.5, 1.0, 2.0, 4.0)


@dataclass(frozen=True)
class SamplerCheck:
    """What the draws of a mechanism say.

    Attributes
    ----------
    samples : int
        Values drawn of each input.
    deviations : tuple of (str, float, float)
        What was compared, by how much draws and declaration differ, and by how much sound draws may: a mean in standard
        deviations, a variance in declared variances, characteristic functions and probabilities as they are.
    false_alarm : float
        Sound draws fail with at most this probability.

    Examples
    --------
    >>> import symdebias as sd
    >>> found = sd.checks.check_unbiased(
    ...     sd.GaussianMechanism.from_scale(0.5), sd.losses.squared_margin(), samples=10_000, random_state=0
    ... )
    >>> found.sampler.holds, found.sampler.samples
    (True, 10000)
    """

    samples: int
    deviations: tuple[tuple[str, float, float], ...]
    false_alarm: float = FALSE_ALARM

    @property
    def holds(self) -> bool:
        """Whether no deviation is larger than chance allows."""
        # Written so that NaN fails.
        return all(seen <= allowed for _, seen, allowed in self.deviations)

    @property
    def seen(self) -> dict[str, float]:
        """What is seen of each kind with near certainty: twice what chance allows."""
        sizes: dict[str, float] = {}
        for what, _, allowed in self.deviations:
            kind = what.split(" at ")[0]
            sizes[kind] = max(sizes.get(kind, 0.0), 2 * allowed)
        return sizes

    def __str__(self) -> str:
        power = ", ".join(f"{kind} off by {size:.2g}" for kind, size in self.seen.items())
        rate = f"{self.samples:,} draws of each input, false alarms below {self.false_alarm:g}; seen would be: {power}"
        if self.holds:
            return f"the sampler draws what is declared ({rate})"
        worst = max(self.deviations, key=lambda one: math.inf if one[1] != one[1] else one[1] / max(one[2], 1e-300))
        return f"the sampler does NOT draw what is declared: {worst[0]} is off by {worst[1]:.3g} ({rate})"


def check_sampler(mechanism: Mechanism, *, samples: int, rng: np.random.Generator) -> SamplerCheck:
    """Compare what a mechanism draws with its declared noise.

    Parameters
    ----------
    mechanism : Mechanism
        A mechanism with additive noise or a finite channel.
    samples : int
        Values drawn of each input: the ends of the bounds, or every input of a channel.
    rng : numpy.random.Generator
        For the draws.

    Notes
    -----
    Frequencies, and means of cosines and sines, by Bernstein's inequality with their declared variances. Mean and
    variance by Catoni's estimator, whose deviations have Gaussian bounds under any law of finite variance: a rare and
    far value moves it little.

    References
    ----------
    Catoni 2012, Proposition 2.4; Boucheron, Lugosi & Massart 2013, Theorem 2.10.
    """
    noise = mechanism.noise
    if isinstance(noise, ChannelNoise):
        return _of_channel(mechanism, noise, samples, rng)
    assert not isinstance(noise, (ClippedNoise, CoordinateNoise, ZonalNoise))
    drawn: list[tuple[str, FloatArray, float]] = []
    for name, value in _inputs(mechanism):
        clipped = mechanism.clip(np.repeat(value, samples, axis=0))
        added = (
            mechanism.privatize(np.repeat(value, samples, axis=0), random_state=rng, noise="hardened") - clipped.values
        )
        columns = added.reshape(samples, -1)
        variances = noise.coordinate_variances(columns.shape[1])
        for place, variance in enumerate(variances):
            drawn.append((f"{name}, column {place}" if columns.shape[1] > 1 else name, columns[:, place], variance))
        covariance = _covariance(noise, columns.shape[1])
        for i, j in itertools.combinations(range(len(covariance)), 2):
            variance = variances[i] + variances[j] + 2 * covariance[i][j]
            drawn.append((f"{name}, sum of columns {i} and {j}", columns[:, i] + columns[:, j], variance))
    chance = math.log(2 * len(drawn) * (2 + 2 * len(FREQUENCIES)) / FALSE_ALARM)
    kurtosis = _kurtosis(noise)
    deviations = [
        part for name, values, variance in drawn for part in _of_column(name, values, variance, noise, kurtosis, chance)
    ]
    return SamplerCheck(samples, tuple(deviations))


def _covariance(noise: AdditiveNoise | SphericalNoise, width: int) -> tuple[tuple[float, ...], ...]:
    """Return the covariance of columns that are looked at in pairs, too; empty where they are independent."""
    if isinstance(noise, AdditiveNoise):
        return noise.covariance or ()
    return tuple(tuple(noise.variance * (i == j) for i in range(width)) for j in range(width))


def characteristic_values(noise: AdditiveNoise | SphericalNoise, variance: float) -> list[tuple[float, float, float]]:
    """Return (frequency, phi there, phi at twice it), for normal noise of the given variance."""
    values_at = []
    for frequency in FREQUENCIES:
        w = frequency / math.sqrt(variance)
        if isinstance(noise, SphericalNoise):
            squares = [sp.Float(variance * (times * w) ** 2 * noise.weight / noise.variance, 20) for times in (1, 2)]
            values = [float(1 / sp.sympify(noise.factor(-square))) for square in squares]
            values_at.append((w, values[0], values[1]))
            continue
        if noise.is_gaussian:
            values_at.append((w, math.exp(-(frequency**2) / 2), math.exp(-2 * frequency**2)))
            continue
        exact = exactly(noise.characteristic_function)
        values = [float(value_of(exact, 25, {FREQUENCY: sp.Rational(x)})) for x in (w, 2 * w)]
        values_at.append((w, values[0], values[1]))
    return values_at


def _inputs(mechanism: Mechanism) -> list[tuple[str, FloatArray]]:
    """Return the inputs to draw at, named: the ends of the bounds, or zero."""
    width = mechanism.width
    if mechanism.bound is None:
        return [(" at zero", np.zeros((1, width)) if width else np.zeros(1))]
    corner = np.full((1, width), mechanism.bound / math.sqrt(width)) if width else np.array([mechanism.bound])
    return [(" at a lower end", -corner), (" at an upper end", corner)]


def _kurtosis(noise: AdditiveNoise | SphericalNoise) -> float | None:
    """Return E e^4 over the squared variance, or None where no density states it."""
    if isinstance(noise, SphericalNoise):
        whole = quadrature.rule(noise, 1, 64)
        return float(whole.weights @ whole.points[:, 0] ** 4) / noise.variance**2
    if noise.is_gaussian:
        return 3.0
    if noise.density is None:
        return None
    points, weights = quadrature.one_dimensional(noise, 64)
    return float(weights @ points**4) / noise.variance**2


def _of_column(
    name: str,
    values: FloatArray,
    variance: float,
    noise: AdditiveNoise | SphericalNoise,
    kurtosis: float | None,
    chance: float,
) -> list[tuple[str, float, float]]:
    if variance == 0:
        return [(f"mean{name}", float(np.abs(values).max()), 0.0)]
    unit = values / math.sqrt(variance)
    deviations = [(f"mean{name}", *_catoni(unit, 1.0, chance))]
    if kurtosis is not None:
        deviations.append((f"variance{name}", *_catoni(unit**2 - 1, max(kurtosis - 1, 1e-12), chance)))
    for w, at_once, at_twice in characteristic_values(noise, variance):
        cosines, sines = np.cos(w * values), np.sin(w * values)
        for part, wanted, spread in (
            (cosines, at_once, (1 + at_twice) / 2 - at_once**2),
            (sines, 0.0, (1 - at_twice) / 2),
        ):
            deviations.append(
                (
                    f"characteristic function{name}",
                    abs(float(part.mean()) - wanted),
                    _bernstein(max(spread, 0.0), 2.0, len(values), chance),
                )
            )
    return deviations


def _catoni(values: FloatArray, variance: float, chance: float) -> tuple[float, float]:
    """Return the size of a mean that should be 0, and what it may be by chance; 2 exp(-chance) is the rate."""
    n = len(values)
    scale = math.sqrt(2 * chance / (n * variance))
    x = scale * values
    influence = np.sign(x) * np.log1p(np.abs(x) + x**2 / 2)
    return abs(float(influence.mean())) / scale, math.sqrt(2 * variance * chance / n)


def _bernstein(variance: float, range_: float, samples: int, chance: float) -> float:
    return math.sqrt(2 * variance * chance / samples) + 2 * range_ * chance / (3 * samples)


def _of_channel(mechanism: Mechanism, noise: ChannelNoise, samples: int, rng: np.random.Generator) -> SamplerCheck:
    outputs, matrix = np.array(noise.outputs, dtype=float), np.array(noise.matrix)
    chance = math.log(2 * matrix.size / FALSE_ALARM)
    deviations = []
    for value, row in zip(noise.inputs, matrix, strict=True):
        sent = mechanism.privatize(np.full(samples, value), random_state=rng, noise="hardened")
        shares = (sent[:, None] == outputs).mean(axis=0)
        for share, probability in zip(shares, row, strict=True):
            # What has no probability is never sent.
            allowed = _bernstein(probability * (1 - probability), 1.0, samples, chance) if probability > 0 else 0.0
            deviations.append((f"probability at the input {value:g}", abs(float(share - probability)), allowed))
    return SamplerCheck(samples, tuple(deviations))
