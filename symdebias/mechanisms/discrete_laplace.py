"""The discrete Laplace mechanism: two-sided geometric noise on the steps of a grid, for counts and codes."""

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from symdebias._arrays import FloatArray
from symdebias._domains import EPSILON, SCALE
from symdebias.mechanisms import sampling
from symdebias.mechanisms.base import Mechanism
from symdebias.mechanisms.bounds import checked_bounds, one_number_each, scale_of
from symdebias.mechanisms.grid import checked_grid, clipped_on_grid, ends, places
from symdebias.noise import AdditiveNoise, discrete_laplace_noise
from symdebias.privacy import Guarantee


@dataclass(frozen=True)
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
    [6.0, 12.0]
    """

    epsilon: float | None
    bounds: tuple[float, float] | None
    step: float = 1.0
    scale: float = field(init=False)
    kind: ClassVar[str] = "discrete_laplace"

    def __post_init__(self) -> None:
        epsilon = EPSILON.check("epsilon", self.epsilon)
        bounds = checked_bounds(self.bounds)
        self._set(epsilon, bounds, self.step)
        low, high = ends(bounds, self.step)
        # From whole steps: the bounds as float64 may lie a rounding closer together than their places.
        self._set_scale(scale_of((high - low) * Fraction(self.step), epsilon))

    @property
    def _scale_in_steps(self) -> float:
        return scale_of(Fraction(self.scale), self.step)

    def _set_scale(self, scale: float) -> None:
        object.__setattr__(self, "scale", SCALE.check("scale", scale))
        if not self._scale_in_steps <= sampling.LARGEST_DISCRETE_SCALE:
            raise ValueError(
                f"the scale {self.scale:g} of the noise is {self._scale_in_steps:g} steps. It must be at most 2^32 "
                "steps, beyond which the draw has no resolution. Give a larger step."
            )

    def _set(self, epsilon: float | None, bounds: Any, step: float) -> None:
        bounds, step = checked_grid(bounds, step)
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "bounds", bounds)
        object.__setattr__(self, "step", step)

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
        mechanism = object.__new__(cls)
        mechanism._set(None, bounds, step)
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

    @property
    def bound(self) -> float | None:
        """The largest absolute value within the bounds."""
        return None if self.bounds is None else max(map(abs, self.bounds))

    @property
    def width(self) -> int | None:
        """One column with bounds."""
        return None if self.bounds is None else 1

    def _bring_inside(self, values: FloatArray) -> tuple[FloatArray, np.ndarray[Any, np.dtype[np.bool_]]]:
        if self.bounds is not None:
            one_number_each(values, "a discrete Laplace mechanism")
        return clipped_on_grid(values, self.bounds, self.step)

    def _add_noise(self, values: FloatArray, source: sampling.Source) -> FloatArray:
        where = places(values, self.step).astype(np.int64)
        # Integers, whose sum is exact: a float64 sum would round odd places away where the noise is large.
        return self.step * (where + sampling.discrete_laplace_noise(self._scale_in_steps, values.shape, source))

    def to_card(self) -> dict[str, Any]:
        """Return what makes an equal mechanism; the scale besides, for readers without this library."""
        bounds = None if self.bounds is None else list(self.bounds)
        known = {"scale": self.scale, "bounds": bounds, "step": self.step}
        return known if self.epsilon is None else {"epsilon": self.epsilon, **known}

    @classmethod
    def from_card(cls, card: dict[str, Any]) -> "DiscreteLaplaceMechanism":
        """Make the mechanism that `to_card` described; the scale is computed again from a budget."""
        if set(card) == {"scale", "bounds", "step"}:
            return cls.from_scale(card["scale"], bounds=card["bounds"], step=card["step"])
        if set(card) != {"epsilon", "scale", "bounds", "step"}:
            raise ValueError(
                "a discrete Laplace mechanism has the entries scale, bounds and step, and with a budget epsilon"
            )
        mechanism = cls(card["epsilon"], bounds=card["bounds"], step=card["step"])
        if SCALE.check("scale", card["scale"]) != mechanism.scale:
            raise ValueError(
                f"its scale {card['scale']!r} is not the one of its budget, {mechanism.scale!r}: noise and guarantee "
                "disagree"
            )
        return mechanism

    def __repr__(self) -> str:
        step = "" if self.step == 1.0 else f", step={self.step!r}"
        if self.epsilon is None:
            bounds = "" if self.bounds is None else f", bounds={self.bounds!r}"
            return f"DiscreteLaplaceMechanism.from_scale({self.scale!r}{step}{bounds})"
        return f"DiscreteLaplaceMechanism(epsilon={self.epsilon!r}, bounds={self.bounds!r}{step})"
