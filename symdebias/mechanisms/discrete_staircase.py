"""The discrete staircase mechanism: noise on a grid of least expected size under pure differential privacy."""

import functools
import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import ClassVar

import numpy as np
import sympy as sp

from symdebias._arrays import FloatArray
from symdebias._domains import COUNT, EPSILON, is_choice, shown
from symdebias.mechanisms import on_grid, rounded, sampling
from symdebias.mechanisms.base import Clipped, Mechanism
from symdebias.mechanisms.discrete_laplace import discrete_laplace_noise
from symdebias.mechanisms.ranges import Grid, checked_bounds
from symdebias.noise import FREQUENCY, VALUE, AdditiveNoise
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
    only polynomials and exponentials of the score have an exact correction.

    References
    ----------
    Geng & Viswanath 2014, on queries with integer values.

    Examples
    --------
    >>> mechanism = DiscreteStaircaseMechanism(epsilon=2.0, bounds=(0, 10))
    >>> mechanism.r, mechanism.privatize([3, 7], random_state=1).tolist()
    (4, [-3.0, 8.0])
    """

    epsilon: float
    bounds: tuple[float, float]
    step: float = 1.0
    r: int | str = "squared"
    kind: ClassVar[str] = "discrete_staircase"

    def __post_init__(self) -> None:
        epsilon = EPSILON.check("epsilon", self.epsilon)
        grid = Grid(checked_bounds(self.bounds), self.step)
        if not grid.steps <= _MOST_STEPS:
            raise ValueError(
                f"bounds={shown(grid.bounds)} are {grid.steps} steps apart. A discrete staircase has 2^20 steps at "
                "most: give a larger step, or use a DiscreteLaplaceMechanism."
            )
        self._declare(epsilon=epsilon, bounds=grid.bounds, step=grid.step)
        self._declare(r=self._high_places(grid.steps))

    def _high_places(self, sensitivity: int) -> int:
        if isinstance(self.r, str):
            if not is_choice(self.r, ("squared", "absolute")):
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
        return self.range.steps

    @property
    def noise(self) -> AdditiveNoise:
        """The noise on the grid."""
        assert isinstance(self.r, int)
        return discrete_staircase_noise(self.epsilon, self.sensitivity, self.r, self.step)

    @property
    def guarantee(self) -> Guarantee:
        """(epsilon, 0) in the local model."""
        return Guarantee(self.epsilon, 0.0)

    @cached_property
    def range(self) -> Grid:
        """Multiples of the step within the bounds."""
        return Grid(self.bounds, self.step)

    def _noise_in_place(self, clipped: Clipped, source: sampling.Source) -> FloatArray:
        return self._add_noise(self._given_up(clipped, DiscreteStaircaseMechanism), source)

    def _add_noise(self, values: FloatArray, source: sampling.Source) -> FloatArray:
        assert isinstance(self.r, int)
        law = rounded.discrete_staircase if source.hardened else sampling.discrete_staircase_noise
        noise = functools.partial(law, self.epsilon, self.sensitivity, self.r)
        return on_grid.noised_places(
            values, self.range, noise, source, by_kernel=source.hardened, in_place=values.flags.writeable
        )


@lru_cache(maxsize=1024)
def discrete_staircase_noise(epsilon: float, sensitivity: int, high: int, step: float) -> AdditiveNoise:
    """Return staircase noise on the multiples k of a step: stairs of D places, the first r of each e^epsilon higher.

    D is the sensitivity in steps, at least 1, at which this is discrete Laplace noise; r, from 1 to D, is `high`. With
    b = e^-epsilon and a = (1 - b)/(2 r - 1 + b (2 (D - r) + 1)) the probability is a b^i for i D <= |k| < i D + r and a
    b^(i+1) for i D + r <= |k| < (i + 1) D, and with v = step w

        phi(w) = a (1 - b) (sin((r - 1/2) v) + b sin((D - r + 1/2) v)) / (sin(v/2) (1 - 2 b cos(D v) + b^2)).

    References
    ----------
    Geng & Viswanath 2014, on queries with integer values.
    """
    D, r = sensitivity, high
    if D == 1:
        return discrete_laplace_noise(step / epsilon, step)
    b, missing = math.exp(-epsilon), -math.expm1(-epsilon)
    top = missing / (2 * r - 1 + b * (2 * (D - r) + 1))
    # Sums of |k|^0, |k|^1 and |k|^2 over the first stair, in whole numbers but for b.
    zeroth = r + b * (D - r)
    first = (r * (r - 1) + b * (D - r) * (D + r - 1)) / 2
    second = _sum_of_squares(r) + b * (_sum_of_squares(D) - _sum_of_squares(r))
    variance = 2 * top * ((D * D * zeroth * b * (1 + b) / missing + 2 * D * first * b) / missing + second) / missing
    # Fractions, as in staircase_noise.
    B, h = sp.Rational(b), sp.Rational(step)
    a = (1 - B) / (2 * r - 1 + B * (2 * (D - r) + 1))
    v, half = h * FREQUENCY, sp.Rational(1, 2)
    waves = sp.sin((r - half) * v) + B * sp.sin((D - r + half) * v)
    phi = a * (1 - B) * waves / (sp.sin(v / 2) * (1 - 2 * B * sp.cos(D * v) + B**2))
    # Half a place up, so that rounding leaves no value on the edge of a stair.
    place = sp.Abs(VALUE) / h + half
    stair = sp.floor(place / D)
    probability = sp.Float(top, 17) * sp.exp(-sp.Float(epsilon, 17) * stair)
    probability *= sp.Piecewise((1, place - D * stair < r), (sp.Float(b, 17), True))
    return AdditiveNoise(variance * step**2, phi, probability, step, tail_rate=epsilon / (D * step))


def _sum_of_squares(count: int) -> int:
    """Return 0^2 + 1^2 + ... + (count - 1)^2."""
    return (count - 1) * count * (2 * count - 1) // 6


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
