"""The staircase mechanism: the additive noise of least expected size under pure differential privacy."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from symdebias._arrays import FloatArray
from symdebias._domains import EPSILON, Interval
from symdebias.mechanisms import sampling
from symdebias.mechanisms.base import Mechanism
from symdebias.mechanisms.bounds import checked_bounds, clipped_to, width_of
from symdebias.noise import AdditiveNoise, staircase_noise
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
    Its inverse is an infinite telescoping sum, so that only polynomials have an exact correction; they need its
    moments alone. The sampler is not hardened against floating-point attacks.

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
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "bounds", checked_bounds(self.bounds))
        object.__setattr__(self, "gamma", gamma)

    @property
    def sensitivity(self) -> float:
        """The distance of the bounds, rounded up."""
        exact = width_of(*self.bounds)
        width = float(exact)
        return math.nextafter(width, math.inf) if width < exact else width

    @property
    def noise(self) -> AdditiveNoise:
        """The staircase noise."""
        assert isinstance(self.gamma, float)
        return staircase_noise(self.epsilon, self.sensitivity, self.gamma)

    @property
    def guarantee(self) -> Guarantee:
        """(epsilon, 0) in the local model."""
        return Guarantee(self.epsilon, 0.0)

    @property
    def bound(self) -> float:
        """The largest absolute value within the bounds."""
        return max(map(abs, self.bounds))

    @property
    def width(self) -> int:
        """One column."""
        return 1

    def _bring_inside(self, values: FloatArray) -> tuple[FloatArray, np.ndarray[Any, np.dtype[np.bool_]]]:
        return clipped_to(values, self.bounds, "a staircase mechanism")

    def _add_noise(self, values: FloatArray, source: sampling.Source) -> FloatArray:
        assert isinstance(self.gamma, float)
        return values + sampling.staircase_noise(self.epsilon, self.sensitivity, self.gamma, values.shape, source)

    def to_card(self) -> dict[str, Any]:
        """Return what makes an equal mechanism."""
        return {"epsilon": self.epsilon, "bounds": list(self.bounds), "gamma": self.gamma}

    @classmethod
    def from_card(cls, card: dict[str, Any]) -> "StaircaseMechanism":
        """Make the mechanism that `to_card` described."""
        if set(card) != {"epsilon", "bounds", "gamma"}:
            raise ValueError("a staircase mechanism has exactly the entries epsilon, bounds and gamma")
        return cls(**card)


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
