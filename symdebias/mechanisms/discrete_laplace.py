"""The discrete Laplace mechanism: two-sided geometric noise on the steps of a grid, for counts and codes."""

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import ClassVar

import sympy as sp

from symdebias._arrays import FloatArray
from symdebias._domains import EPSILON, SCALE
from symdebias.mechanisms import on_grid, rounded, sampling
from symdebias.mechanisms.base import Clipped, Mechanism
from symdebias.mechanisms.ranges import Grid, checked_bounds, scale_of
from symdebias.noise import FREQUENCY, VALUE, AdditiveNoise
from symdebias.privacy import Guarantee


@dataclass(frozen=True, repr=False)
class DiscreteLaplaceMechanism(Mechanism):
    """Noise k times the step with probability proportional to exp(-|k| step/b), on values of a grid.

    Parameters
    ----------
    epsilon : float
        Privacy budget, in [1e-6, 700]; pure local differential privacy, replace-one.
    bounds : pair of float
        Public bounds (low, high) of the number, on the grid; the sensitivity is high - low.
    step : float
        The step of the grid; values are multiples of it. 1 for counts.

    Attributes
    ----------
    scale : float
        b, the sensitivity over epsilon, rounded up; the sensitivity is that of the places on the grid.

    Raises
    ------
    ValueError, TypeError
        An argument is outside its range, the bounds are not on the grid, or the scale is above 2^32 steps.

    Notes
    -----
    Noise is added to the integer value/step, so that what comes out is on the grid and its set of possible values does
    not depend on what went in. A scale of more than 2^32 steps is refused: the draw has no resolution for it. The
    correction is a three-point difference, so that losses with kinks have one.

    References
    ----------
    Ghosh, Roughgarden & Sundararajan 2009, Section 2 (geometric mechanism).

    Examples
    --------
    >>> mechanism = DiscreteLaplaceMechanism(epsilon=2.0, bounds=(0, 10))
    >>> mechanism.privatize([3, 7], random_state=0).tolist()
    [11.0, 7.0]
    """

    epsilon: float | None
    bounds: tuple[float, float] | None
    step: float = 1.0
    scale: float = field(init=False)
    kind: ClassVar[str] = "discrete_laplace"
    cards: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "": ("epsilon", "scale", "bounds", "step"),
        "from_scale": ("scale", "bounds", "step"),
    }

    def __post_init__(self) -> None:
        epsilon = EPSILON.check("epsilon", self.epsilon)
        grid = Grid(checked_bounds(self.bounds), self.step)
        self._declare(epsilon=epsilon, bounds=grid.bounds, step=grid.step)
        self._set_scale(scale_of(grid.sensitivity, epsilon))

    @property
    def _scale_in_steps(self) -> float:
        return scale_of(Fraction(self.scale), self.step)

    def _set_scale(self, scale: float) -> None:
        self._declare(scale=SCALE.check("scale", scale))
        if not self._scale_in_steps <= sampling.LARGEST_DISCRETE_SCALE:
            raise ValueError(
                f"the scale {self.scale:g} of the noise is {self._scale_in_steps:g} steps. It must be at most 2^32 "
                "steps, beyond which the draw has no resolution. Give a larger step."
            )

    @classmethod
    def from_scale(
        cls, scale: float, *, step: float = 1.0, bounds: tuple[float, float] | None = None
    ) -> "DiscreteLaplaceMechanism":
        """Return the noise of a known scale b, without a privacy claim.

        Parameters
        ----------
        scale : float
            b in units of the values, positive.
        step : float
            The step of the grid.
        bounds : pair of float, optional
            Without them nothing is clipped.

        Examples
        --------
        >>> DiscreteLaplaceMechanism.from_scale(2.0).guarantee is None
        True
        """
        grid = Grid(bounds, step)
        mechanism = cls._known(epsilon=None, bounds=grid.bounds, step=grid.step)
        mechanism._set_scale(scale)
        return mechanism

    @property
    def noise(self) -> AdditiveNoise:
        """The noise on the grid."""
        return discrete_laplace_noise(self.scale, self.step)

    @property
    def guarantee(self) -> Guarantee | None:
        """(epsilon, 0) in the local model, or None for `from_scale`."""
        return None if self.epsilon is None else Guarantee(self.epsilon, 0.0)

    @cached_property
    def range(self) -> Grid:
        """Multiples of the step within the bounds."""
        return Grid(self.bounds, self.step)

    def _noise_in_place(self, clipped: Clipped, source: sampling.Source) -> FloatArray:
        return self._add_noise(self._given_up(clipped, DiscreteLaplaceMechanism), source)

    def _add_noise(self, values: FloatArray, source: sampling.Source) -> FloatArray:
        hardened = source.hardened and self.guarantee is not None
        law = rounded.discrete_laplace if hardened else sampling.discrete_laplace_noise
        noise = functools.partial(law, self._scale_in_steps)
        return on_grid.noised_places(
            values, self.range, noise, source, by_kernel=hardened, in_place=values.flags.writeable
        )


@lru_cache(maxsize=1024)
def discrete_laplace_noise(scale: float, step: float) -> AdditiveNoise:
    """Return noise on the multiples k of a step, of probability (1 - q)/(1 + q) q^|k|, q = exp(-step/b).

    Parameters
    ----------
    scale : float
        b, in the units of the values.
    step : float
        The step of the grid.
    """
    ratio = math.exp(-step / scale)
    missing = -math.expm1(-step / scale)
    q, h = sp.Float(ratio, 17), sp.Rational(step)
    # 1/phi = 1 + 2 q/(1 - q)^2 (1 - cos(h w)), in a form without cancellation at a small step; a fraction, because
    # 1 + 2 spread in 17 digits would lose the 1 beside noise of many steps
    spread = sp.Rational(ratio / missing**2)
    phi = 1 / (1 + 2 * spread * (1 - sp.cos(h * FREQUENCY)))
    probability = sp.Float(missing, 17) / (1 + q) * sp.exp(-sp.Abs(VALUE) / sp.Float(scale, 17))
    return AdditiveNoise(2 * ratio / missing**2 * step**2, phi, probability, step, tail_rate=1 / scale)
