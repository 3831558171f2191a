"""The staircase mechanism: the additive noise of least expected size under pure differential privacy."""

import functools
import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import ClassVar

import sympy as sp

from symdebias._arrays import FloatArray
from symdebias._domains import EPSILON, Interval
from symdebias.mechanisms import rounded, sampling
from symdebias.mechanisms.base import Clipped, Mechanism
from symdebias.mechanisms.ranges import Numbers, checked_bounds, rounded_up
from symdebias.noise import FREQUENCY, VALUE, AdditiveNoise
from symdebias.privacy import Guarantee

_GAMMA = Interval(0.0, 1.0, "neither", 'Give the share of a step that is high, "absolute" or "squared".')


@dataclass(frozen=True)
class StaircaseMechanism(Mechanism):
    """Noise whose density falls in steps by e^-epsilon per sensitivity, on a number within `bounds`.

    Parameters
    ----------
    epsilon : float
        Privacy budget, in [1e-6, 700]; pure local differential privacy, replace-one.
    bounds : pair of float
        Public bounds (low, high) of the number; the sensitivity is high - low.
    gamma : float or {"absolute", "squared"}, optional
        The share of each sensitivity that belongs to the higher step, in (0, 1). A word stands for the share that makes
        the expected absolute or squared noise least, and the attribute is then that number. By default
        1/(1 + e^(epsilon/2)), which is that of the absolute noise.

    Raises
    ------
    ValueError, TypeError
        An argument is outside its range.

    Notes
    -----
    Its inverse is an infinite telescoping sum, so that only polynomials and exponentials of the score have an exact
    correction, which need its moments alone. Unless a seed is given it is rounded exactly to a fine grid.

    References
    ----------
    Geng & Viswanath 2014, Definition 1, Theorem 4 and Algorithm 1, and their optimum for squared noise.

    Examples
    --------
    >>> round(StaircaseMechanism(epsilon=2.0, bounds=(0.0, 1.0)).gamma, 4)
    0.2689
    >>> round(StaircaseMechanism(epsilon=2.0, bounds=(0.0, 1.0), gamma="squared").gamma, 4)
    0.3351
    """

    epsilon: float
    bounds: tuple[float, float]
    gamma: float | str | None = None
    kind: ClassVar[str] = "staircase"

    def __post_init__(self) -> None:
        epsilon = EPSILON.check("epsilon", self.epsilon)
        if self.gamma is None or (isinstance(self.gamma, str) and self.gamma in ("absolute", "squared")):
            gamma = _optimal_gamma(epsilon, self.gamma or "absolute")
        else:
            gamma = _GAMMA.check("gamma", self.gamma)
        self._declare(epsilon=epsilon, bounds=checked_bounds(self.bounds), gamma=gamma)

    @property
    def sensitivity(self) -> float:
        """The distance of the bounds, rounded up."""
        return rounded_up(self.range.sensitivity)

    @property
    def noise(self) -> AdditiveNoise:
        """The staircase noise."""
        assert isinstance(self.gamma, float)
        return staircase_noise(self.epsilon, self.sensitivity, self.gamma)

    @property
    def guarantee(self) -> Guarantee:
        """(epsilon, 0) in the local model."""
        return Guarantee(self.epsilon, 0.0)

    @cached_property
    def range(self) -> Numbers:
        """Numbers within the bounds."""
        return Numbers(self.bounds)

    def _noise_in_place(self, clipped: Clipped, source: sampling.Source) -> FloatArray:
        return self._add_noise(self._given_up(clipped, StaircaseMechanism), source)

    def _add_noise(self, values: FloatArray, source: sampling.Source) -> FloatArray:
        assert isinstance(self.gamma, float)
        if source.hardened:
            noise, given_up = functools.partial(rounded.staircase, self.epsilon, self.gamma), values.flags.writeable
            return rounded.noised(values, self.range, self.sensitivity, noise, source, in_place=given_up)
        return values + sampling.staircase_noise(self.epsilon, self.sensitivity, self.gamma, values.shape, source)


@lru_cache(maxsize=1024)
def staircase_noise(epsilon: float, sensitivity: float, gamma: float) -> AdditiveNoise:
    """Return staircase noise: steps of width gamma and 1 - gamma sensitivities, each e^-epsilon below the last.

    With b = e^-epsilon, S the sensitivity and a = (1 - b)/(2 S (gamma + b (1 - gamma))) the density is a b^k on
    [k S, (k + gamma) S) and a b^(k+1) on [(k + gamma) S, (k + 1) S), for either sign, and

        phi(w) = 2 a (1 - b) (sin(gamma S w) + b sin((1 - gamma) S w)) / (w (1 - 2 b cos(S w) + b^2)).

    References
    ----------
    Geng & Viswanath 2014, Definition 1 and eq. (21).
    """
    b, missing = math.exp(-epsilon), -math.expm1(-epsilon)
    height = missing / (2 * sensitivity * (gamma + b * (1 - gamma)))
    ones, firsts, seconds = 1 / missing, b / missing**2, b * (1 + b) / missing**3
    inner = (seconds * gamma + firsts * gamma**2) + ones * gamma**3 / 3
    outer = (seconds * (1 - gamma) + firsts * (1 - gamma**2)) + ones * (1 - gamma**3) / 3
    variance = 2 * height * sensitivity**3 * (inner + b * outer)
    # Fractions: rounded constants would leave phi(0) off 1 by more than the curvature that is checked.
    S, g, B = (sp.Rational(value) for value in (sensitivity, gamma, b))
    a = (1 - B) / (2 * S * (g + B * (1 - g)))
    w = FREQUENCY
    phi = 2 * a * (1 - B) * (sp.sin(g * S * w) + B * sp.sin((1 - g) * S * w)) / (w * (1 - 2 * B * sp.cos(S * w) + B**2))
    stair = sp.floor(sp.Abs(VALUE) / S)
    inside = sp.Abs(VALUE) / S - stair < g
    density = sp.Float(height, 17) * sp.exp(-sp.Float(epsilon, 17) * stair) * sp.Piecewise((1, inside), (B, True))
    return AdditiveNoise(variance, phi, density, tail_rate=epsilon / sensitivity)


def _optimal_gamma(epsilon: float, loss: str) -> float:
    """Return the gamma of the least expected absolute or squared noise.

    With b = e^-epsilon the latter is (c - b)/(1 - b), c^3 = b (1 + b)/2, written without the difference of two numbers
    that are both close to 1 for small budgets.
    """
    if loss == "absolute":
        return 1 / (1 + math.exp(epsilon / 2))
    b = math.exp(-epsilon)
    c = math.cbrt(b * (1 + b) / 2)
    return b * (1 + 2 * b) / (2 * (c * c + c * b + b * b))
