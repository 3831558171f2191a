"""The discrete staircase mechanism: noise on a grid of least expected size under pure differential privacy."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from symdebias._arrays import FloatArray
from symdebias._domains import COUNT, EPSILON, shown
from symdebias.mechanisms import sampling
from symdebias.mechanisms.base import Mechanism
from symdebias.mechanisms.bounds import BoolArray, checked_bounds, one_number_each
from symdebias.mechanisms.grid import checked_grid, clipped_on_grid, ends, places
from symdebias.noise import AdditiveNoise, discrete_staircase_noise
from symdebias.privacy import Guarantee

# All r are tried, and draws of the smallest budget stay exact integers.
_MOST_STEPS = 2**20


@dataclass(frozen=True)
class DiscreteStaircaseMechanism(Mechanism):
    """Noise k times the step whose probability falls in stairs by e^-epsilon per sensitivity, on values of a grid.

    With D the sensitivity in steps the probability of k is a for abs(k) < r, a e^-epsilon for r <= abs(k) < D, and
    falls by e^-epsilon with every D more steps.

    Parameters
    ----------
    epsilon : float
        Privacy budget, in [1e-6, 700]; pure local differential privacy, replace-one.
    bounds : pair of float
        Public bounds (low, high) of the number, on the grid and at most 2^20 steps apart; the sensitivity is
        high - low.
    step : float
        The step of the grid; values are multiples of it. 1 for counts.
    r : int or {"squared", "absolute"}
        The places of each stair that are high, from 1 to D. A word stands for the number of them that makes the
        expected squared or absolute noise least, and the attribute is then that number.

    Raises
    ------
    ValueError, TypeError
        An argument is outside its range, or the bounds are not on the grid.

    Notes
    -----
    At D = 1 this is discrete Laplace noise, and has its correction. Otherwise its inverse is an infinite sum, so that
    only polynomials have an exact correction.

    References
    ----------
    Geng & Viswanath 2014, on queries with integer values.

    Examples
    --------
    >>> mechanism = DiscreteStaircaseMechanism(epsilon=2.0, bounds=(0, 10))
    >>> mechanism.r, mechanism.privatize([3, 7], random_state=0).tolist()
    (4, [8.0, 15.0])
    """

    epsilon: float
    bounds: tuple[float, float]
    step: float = 1.0
    r: int | str = "squared"
    kind: ClassVar[str] = "discrete_staircase"

    def __post_init__(self) -> None:
        epsilon = EPSILON.check("epsilon", self.epsilon)
        bounds, step = checked_grid(checked_bounds(self.bounds), self.step)
        assert bounds is not None
        low, high = ends(bounds, step)
        if not high - low <= _MOST_STEPS:
            raise ValueError(
                f"bounds={shown(bounds)} are {high - low} steps apart. A discrete staircase has 2^20 steps at most: "
                "give a larger step, or use a DiscreteLaplaceMechanism."
            )
        for name, value in (("epsilon", epsilon), ("bounds", bounds), ("step", step)):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "r", self._high_places(high - low))

    def _high_places(self, sensitivity: int) -> int:
        if isinstance(self.r, str):
            if self.r not in ("squared", "absolute"):
                raise ValueError(
                    f'r={shown(self.r, 60)} is not known. Give "squared", "absolute" or a number of steps.'
                )
            return _optimal(self.epsilon, sensitivity, self.r)
        r = COUNT.check("r", self.r)
        if not r <= sensitivity:
            raise ValueError(
                f"r={r} is too large. It must be at most the {sensitivity} steps between the bounds. Leave it "
                "out for the best one."
            )
        return r

    @property
    def sensitivity(self) -> int:
        """D, the distance of the bounds in steps."""
        low, high = ends(self.bounds, self.step)
        return high - low

    @property
    def noise(self) -> AdditiveNoise:
        """The noise on the grid."""
        assert isinstance(self.r, int)
        return discrete_staircase_noise(self.epsilon, self.sensitivity, self.r, self.step)

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

    def _bring_inside(self, values: FloatArray) -> tuple[FloatArray, BoolArray]:
        one_number_each(values, "a discrete staircase mechanism")
        return clipped_on_grid(values, self.bounds, self.step)

    def _add_noise(self, values: FloatArray, source: sampling.Source) -> FloatArray:
        assert isinstance(self.r, int)
        where = places(values, self.step).astype(np.int64)
        # Integers, whose sum is exact.
        noise = sampling.discrete_staircase_noise(self.epsilon, self.sensitivity, self.r, values.shape, source)
        return self.step * (where + noise)

    def to_card(self) -> dict[str, Any]:
        """Return what makes an equal mechanism."""
        return {"epsilon": self.epsilon, "bounds": list(self.bounds), "step": self.step, "r": self.r}

    @classmethod
    def from_card(cls, card: dict[str, Any]) -> "DiscreteStaircaseMechanism":
        """Make the mechanism that `to_card` described."""
        if set(card) != {"epsilon", "bounds", "step", "r"}:
            raise ValueError("a discrete staircase mechanism has exactly the entries epsilon, bounds, step and r")
        return cls(**card)


def _optimal(epsilon: float, sensitivity: int, loss: str) -> int:
    """Return the r of the least expected squared or absolute noise, of all."""
    b, missing = np.exp(-epsilon), -np.expm1(-epsilon)
    D, r = float(sensitivity), np.arange(1.0, sensitivity + 1)
    zeroth = r + b * (D - r)
    first = (r * (r - 1) + b * (D - r) * (D + r - 1)) / 2
    if loss == "absolute":
        sums = D * zeroth * b / missing + first
    else:
        squares = (r - 1) * r * (2 * r - 1) / 6
        second = squares + b * (squares[-1] - squares)
        sums = (D**2 * zeroth * b * (1 + b) / missing + 2 * D * first * b) / missing + second
    return 1 + int(np.argmin(sums / (2 * r - 1 + b * (2 * (D - r) + 1))))
