"""The Laplace mechanism: pure differential privacy for a bounded number, or a vector in an L1 ball."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import ClassVar

import sympy as sp

from symdebias._arrays import FloatArray
from symdebias._domains import EPSILON, SCALE
from symdebias.mechanisms import rounded, sampling
from symdebias.mechanisms.base import Clipped, Mechanism, VectorColumns, independent_columns
from symdebias.mechanisms.ranges import Ball, Numbers, scale_of
from symdebias.noise import FREQUENCY, VALUE, AdditiveNoise, noise_of_family
from symdebias.privacy import Guarantee


@dataclass(frozen=True, repr=False)
class LaplaceMechanism(Mechanism):
    """Laplace noise of density exp(-|e|/b)/(2 b) on a number within `bounds`, or on a vector of bounded L1 norm.

    Parameters
    ----------
    epsilon : float
        Privacy budget, in [1e-6, 700]; pure local differential privacy, replace-one.
    bounds : pair of float, optional
        Public bounds (low, high) of one number; the sensitivity is high - low. Give this or `radius`.
    radius : float, optional
        Public bound on the L1 norm of a vector, positive; the L1 sensitivity is 2 radius.

    Attributes
    ----------
    scale : float
        b, the sensitivity over epsilon, rounded up.

    Raises
    ------
    ValueError, TypeError
        An argument is outside its range, or both or neither of `bounds` and `radius` are given.

    Notes
    -----
    Unless a seed is given the noise is rounded exactly to a fine grid; see `symdebias.mechanisms.rounded`. Noise of
    exponential tails has an exact finite inverse, 1 - b^2 d^2, whose variance grows with the number of columns.

    References
    ----------
    Dwork, McSherry, Nissim & Smith 2006, Proposition 1.

    Examples
    --------
    >>> LaplaceMechanism(epsilon=0.5, bounds=(0.0, 1.0)).scale
    2.0
    """

    epsilon: float | None
    bounds: tuple[float, float] | None = None
    radius: float | None = None
    scale: float = field(init=False)
    kind: ClassVar[str] = "laplace"
    cards: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "": ("epsilon", "scale", "bounds", "radius"),
        "from_scale": ("scale", "bounds", "radius"),
    }

    def __post_init__(self) -> None:
        epsilon = EPSILON.check("epsilon", self.epsilon)
        if (self.bounds is None) == (self.radius is None):
            given = "both" if self.bounds is not None else "neither"
            raise ValueError(
                f"{given} of bounds and radius was given. Give bounds=(low, high) for one number, or radius= for the "
                "L1 norm of a vector; noise of a known scale, without a claim, is LaplaceMechanism.from_scale(scale)."
            )
        self._declare(epsilon=epsilon, bounds=Numbers(self.bounds).bounds, radius=Ball(self.radius).radius)
        self._declare(scale=SCALE.check("scale", scale_of(self.range.sensitivity, epsilon)))

    @classmethod
    def from_scale(
        cls, scale: float, *, bounds: tuple[float, float] | None = None, radius: float | None = None
    ) -> "LaplaceMechanism":
        """Return Laplace noise of a known scale b, without a privacy claim.

        Parameters
        ----------
        scale : float
            b, positive; the variance is 2 b^2.
        bounds, radius : optional
            As for the constructor; without them nothing is clipped.

        Raises
        ------
        ValueError, TypeError
            An argument is outside its range, or both of bounds and radius were given.

        Examples
        --------
        >>> LaplaceMechanism.from_scale(0.5).guarantee is None
        True
        """
        if bounds is not None and radius is not None:
            raise ValueError("both of bounds and radius were given. Give one of them, or neither.")
        return cls._known(
            epsilon=None, bounds=Numbers(bounds).bounds, radius=Ball(radius).radius, scale=SCALE.check("scale", scale)
        )

    @property
    def noise(self) -> AdditiveNoise:
        """Laplace noise of the scale b per coordinate."""
        return laplace_noise(self.scale)

    @property
    def guarantee(self) -> Guarantee | None:
        """(epsilon, 0) in the local model, or None for `from_scale`."""
        return None if self.epsilon is None else Guarantee(self.epsilon, 0.0)

    @cached_property
    def range(self) -> Numbers | Ball:
        """Numbers within the bounds, or vectors in the L1 ball."""
        return Numbers(self.bounds) if self.radius is None else Ball(self.radius, order=1)

    def known_columns(self, vector: VectorColumns) -> tuple[tuple[int, Mechanism], ...]:
        """Return independent Laplace noise of the columns; that of a divided one has a divided scale."""
        return independent_columns(LaplaceMechanism.from_scale, self.scale, vector)

    def _noise_in_place(self, clipped: Clipped, source: sampling.Source) -> FloatArray:
        return self._add_noise(self._given_up(clipped, LaplaceMechanism), source)

    def _add_noise(self, values: FloatArray, source: sampling.Source) -> FloatArray:
        given_up = values.flags.writeable
        if source.hardened and self.guarantee is not None:
            return rounded.noised(values, self.range, self.scale, rounded.laplace, source, in_place=given_up)
        return sampling.with_laplace_noise(values, self.scale, source, in_place=given_up)


@lru_cache(maxsize=1024)
def laplace_noise(scale: float) -> AdditiveNoise:
    """Return Laplace noise of density exp(-|e|/b)/(2 b), b the scale; 1/phi = 1 + b^2 w^2."""
    b = sp.Float(scale, 17)
    density = sp.exp(-sp.Abs(VALUE) / b) / (2 * b)
    phi = 1 / (1 + b**2 * FREQUENCY**2)
    return noise_of_family(2 * scale * scale, phi, density, tail_rate=1 / scale)
