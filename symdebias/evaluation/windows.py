"""Normal windows over true scores, and what a model predicts within them, with the noise of the score taken out.

Under normal noise of variance s a window of variance c^2 on true scores is one of c^2 - s on released ones, and a
function of the true score within it is undone at a stretched score, under a larger noise variance. Under other noise a
window is a sum of waves, each of which is undone column by column.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy.special import expit

from symdebias._arrays import FloatArray
from symdebias.evaluation.links import LINKS
from symdebias.evaluation.scores import ReleasedScores, Spread
from symdebias.exceptions import NoExactCorrectionError
from symdebias.transforms import surrogate, waves

# log(2 cosh(u/2)), whose slope is the logistic function less 1/2.
_LOGISTIC = surrogate.Part(
    lambda u: np.logaddexp(u / 2, -u / 2), lambda u: np.asarray(np.tanh(u / 2) / 2, dtype=float), odd=False
)
# How many of its deviations a normal density reaches, among scores and among frequencies.
_REACH = 8.0
# Waves that a window is a sum of at most, and points that their coefficients are found by.
_MOST_WAVES, _POINTS = 400, 4096
# What a sum of waves may be off by rounding, relative to the largest value.
_ROUNDING = 1e-10


@dataclass(frozen=True)
class Windows(ABC):
    """Windows of one width.

    Attributes
    ----------
    scores : ReleasedScores
        The released scores.
    spread : Spread
        Where true ones lie.
    link : {"logistic", "identity", "exponential"}
        What the model predicts.
    variance : float
        c^2.
    """

    scores: ReleasedScores
    spread: Spread
    link: str
    variance: float

    def on(self, scores: ReleasedScores) -> Self:
        """Return the same windows on some other scores."""
        return replace(self, scores=scores)

    def density(self, away: FloatArray) -> FloatArray:
        """Return the window at distances of true scores from its middle."""
        found: FloatArray = np.exp(-(away**2) / (2 * self.variance)) / math.sqrt(2 * math.pi * self.variance)
        return found

    @abstractmethod
    def at(self, middle: float) -> tuple[FloatArray, FloatArray]:
        """Return unbiased estimates of the window at true scores, and of it times what the model predicts."""

    @abstractmethod
    def bias(self, middle: float) -> float:
        """Return a bound on the bias of the mean prediction within the window, over normal scores."""


@dataclass(frozen=True)
class NormalWindows(Windows):
    """Windows under normal noise.

    Attributes
    ----------
    smooth : surrogate.Surrogate or None
        What stands for log(2 cosh(u/2)), where the link is logistic and there is noise.
    """

    smooth: surrogate.Surrogate | None

    @classmethod
    def of(
        cls,
        scores: ReleasedScores,
        spread: Spread,
        link: str,
        variance: float,
        *,
        middles: FloatArray,
        records: float,
        deviation: float,
    ) -> "NormalWindows":
        """Return windows around some middles, for a number of records with scores of a standard deviation."""
        smooth, s = None, scores.normal
        inner = variance - s
        if link == "logistic" and s > 0:
            (smooth,) = waves.design(
                [_LOGISTIC],
                radius=max(spread.radius, float(np.abs(middles).max())) or 1.0,
                score_variance=s * variance / inner,
                records=max(1.0, records * min(1.0, math.sqrt(inner) / deviation)),
            ).surrogates
        return cls(scores, spread, link, variance, smooth)

    def at(self, middle: float) -> tuple[FloatArray, FloatArray]:
        """Return the narrower window at released scores, and the prediction undone at stretched ones times it."""
        s = self.scores.normal
        inner = self.variance - s
        stretch = self.variance / inner
        away = self.scores.linear - middle
        window = np.exp(-(away**2) / (2 * inner)) / math.sqrt(2 * math.pi * inner)
        with np.errstate(over="ignore", invalid="ignore"):
            stretched = replace(self.scores, linear=middle + stretch * away, normal=stretch * s)
            return window, self._undone(stretched) * window

    def bias(self, middle: float) -> float:
        """Return the mean error of the surrogate of the logistic function."""
        if self.smooth is None:
            return 0.0
        nodes, chances = self.spread.normal_scores()
        inside = chances * self.density(nodes - middle)
        errors = np.abs(self.smooth.slope(nodes) - _LOGISTIC.slope(nodes))
        return float(inside @ errors) / float(inside.sum())

    def _undone(self, scores: ReleasedScores) -> FloatArray:
        """Return W_s^-1 m, m the link, at scores with normal noise."""
        if self.link == "identity":
            return scores.linear
        if self.link == "exponential":
            return np.asarray(np.exp(scores.linear - scores.normal / 2))
        return np.asarray(expit(scores.linear) if self.smooth is None else 0.5 + scores.slope(self.smooth))


@dataclass(frozen=True)
class WaveWindows(Windows):
    """Windows as sums of waves of one period, which holds all scores and the window on either side.

    Attributes
    ----------
    frequency : float
        h, the lowest frequency.
    count : int
        The number of waves.
    records : float
        The sample size, which the waves of predictions are cut for.
    """

    frequency: float
    count: int
    records: float

    @classmethod
    def of(
        cls,
        scores: ReleasedScores,
        spread: Spread,
        link: str,
        variance: float,
        *,
        middles: FloatArray,
        records: float,
    ) -> "WaveWindows":
        """Return windows around some middles.

        Raises
        ------
        NoExactCorrectionError
            A wave has no inverse under the noise, or too many are needed.
        """
        scores.require_waves("a calibration curve")
        c = math.sqrt(variance)
        # exp(u) moves a window by c^2.
        beside = _REACH * c + (variance if link == "exponential" else 0.0)
        reach = max(abs(spread.highest - middles.min()), abs(middles.max() - spread.lowest))
        period = max(reach + beside, 2 * beside)
        highest = _REACH / math.sqrt(variance - scores.normal)
        count = math.ceil(highest * period / (2 * math.pi))
        if count > _MOST_WAVES:
            raise NoExactCorrectionError(
                f"scores reach {reach / c:,.0f} times the width of the window, and a window over that range takes "
                f"{count:,} waves; at most {_MOST_WAVES} are summed. Use a larger bandwidth, or clip the features at "
                "the release."
            )
        return cls(scores, spread, link, variance, 2 * math.pi / period, count, records)

    def at(self, middle: float) -> tuple[FloatArray, FloatArray]:
        """Return sums of waves that are undone column by column."""
        coefficients = np.stack([self._of_window(), self._of_prediction(middle)])
        found = self.scores.sums_of_waves(self.frequency, coefficients, middle)
        return found[:, 0], found[:, 1]

    def bias(self, middle: float) -> float:
        """Return the mean error of the sum of waves that stands for prediction and window."""
        nodes, chances = self.spread.normal_scores()
        away = nodes - middle
        k = np.arange(1, self.count + 1)
        coefficients = self._of_prediction(middle)
        values = (
            coefficients[0].real + (np.exp(1j * self.frequency * np.multiply.outer(away, k)) @ coefficients[1:]).real
        )
        wanted = LINKS[self.link](nodes) * self.density(away)
        errors = np.abs(values - wanted)
        errors[errors <= _ROUNDING * np.abs(wanted).max()] = 0.0
        return float(chances @ errors) / float(chances @ self.density(away))

    def _of_window(self) -> np.ndarray[tuple[int], np.dtype[np.complex128]]:
        """Return the coefficients of 1 and of the waves exp(i k h (u - u0)), whose real part counts."""
        w = self.frequency * np.arange(self.count + 1)
        found = self.frequency / math.pi * np.exp(-self.variance * w**2 / 2)
        found[0] /= 2
        return found.astype(np.complex128)

    def _of_prediction(self, middle: float) -> np.ndarray[tuple[int], np.dtype[np.complex128]]:
        """Return those of the window times the prediction, up to where squared error and variance are least."""
        period = 2 * math.pi / self.frequency
        away = (np.arange(_POINTS) / _POINTS - 0.5) * period
        with np.errstate(over="ignore"):
            values = LINKS[self.link](middle + away) * self.density(away)
        # Shifted by half a period, so that waves have the phase 0 in the middle.
        found = np.fft.rfft(np.fft.ifftshift(values))[: self.count + 1] / _POINTS * 2
        found[0] /= 2
        w = self.frequency * np.arange(self.count + 1)
        if self.scores.normal > 0:
            sizes = np.abs(found)
            left_out = np.append(np.cumsum(sizes[::-1])[-2::-1], 0.0)
            variance = np.cumsum(sizes**2 * np.exp(self.scores.normal * w**2)) / 2
            found[int(np.argmin(left_out**2 + variance / self.records)) + 1 :] = 0
        return np.asarray(found)
