"""Columns, and a target, that are coordinates of one vector whose noise they share."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NoReturn

import numpy as np

from symdebias._arrays import FloatArray
from symdebias.mechanisms import sampling
from symdebias.mechanisms.base import Mechanism, VectorColumns
from symdebias.mechanisms.ranges import Ball, Numbers
from symdebias.noise import CoordinateNoise, SphericalNoise
from symdebias.zonal import ZonalNoise


class _Part(Mechanism):
    """A part of a vector that is noised as a whole: known noise without a claim, and nothing that draws it."""

    @property
    def guarantee(self) -> None:
        """None: the guarantee is that of the vector."""
        return

    def _add_noise(self, values: FloatArray, source: sampling.Source) -> NoReturn:
        raise ValueError(
            "these are coordinates of a vector that is noised as a whole. Call privatize of the release of that vector."
        )

    def to_card(self) -> dict[str, Any]:
        """Raise ValueError: the card is that of the release of the vector."""
        raise ValueError(
            "these are coordinates of a vector that is noised as a whole, and only a release of that has a card. Call "
            "to_json of the release that was declared."
        )


@dataclass(frozen=True, repr=False)
class Coordinates(_Part):
    """The noise of columns that are coordinates of one vector, each divided by a public number.

    Parameters
    ----------
    vector : Mechanism
        The noise of the whole vector, which is spherical or zonal on two coordinates or more.
    divisors : tuple of float
        What the coordinate of each column was divided by, positive.
    radius : float or None
        Public bound on the L2 norm of the columns.
    target_divisor : float, optional
        Where the last coordinate is the target, what that was divided by; `target` is then its noise.
    target_bound : float, optional
        The bound on the absolute value of that target.
    """

    vector: Mechanism
    divisors: tuple[float, ...]
    radius: float | None
    target_divisor: float | None = None
    target_bound: float | None = None
    kind: ClassVar[str] = "coordinates"

    @property
    def noise(self) -> SphericalNoise | ZonalNoise:
        """The noise of all coordinates of the vector, the target's included."""
        found = self.vector.noise_on(len(self.divisors) + (self.target_divisor is not None))
        assert isinstance(found, (SphericalNoise, ZonalNoise))
        return found

    def divisors_on(self, width: int) -> FloatArray:
        """Return the divisors."""
        return np.array(self.divisors)

    @property
    def width(self) -> int:
        """The number of columns."""
        return len(self.divisors)

    @cached_property
    def range(self) -> Ball:
        """Vectors in the ball."""
        return Ball(self.radius)

    @property
    def target(self) -> "TargetCoordinate | None":
        """The noise of the target, where that is the last coordinate."""
        return None if self.target_divisor is None else TargetCoordinate(self)


@dataclass(frozen=True, repr=False)
class TargetCoordinate(_Part):
    """The noise of a target that is the last coordinate of a vector.

    Parameters
    ----------
    columns : Coordinates
        The noise of the other coordinates, which the release of the target has for its features.
    """

    columns: Coordinates
    kind: ClassVar[str] = "target_coordinate"

    @property
    def noise(self) -> CoordinateNoise:
        """Its variance: that of a coordinate of the vector over the square of the divisor."""
        assert self.columns.target_divisor is not None
        return CoordinateNoise(self.columns.noise.variance / self.columns.target_divisor**2)

    @cached_property
    def range(self) -> Numbers:
        """Numbers within the bound."""
        bound = self.columns.target_bound
        return Numbers(None if bound is None else (-bound, bound))


def shared_columns(noise: Mechanism, vector: VectorColumns) -> tuple[tuple[int, Mechanism], ...]:
    """Return `Mechanism.known_columns` of noise that all coordinates of a vector share.

    Parameters
    ----------
    noise : Mechanism
        That of the vector, known and without a claim.
    vector : VectorColumns
        What its coordinates are.
    """
    columns, radius = vector.columns, vector.radius
    if vector.last is None:
        return ((columns, noise),)
    divisor, bound = vector.last
    if vector.of_residual:
        features = Coordinates(noise, (1.0,) * columns, radius, divisor, bound)
        assert features.target is not None
        return (columns, features), (1, features.target)
    if divisor == 1.0:
        return ((columns + 1, noise),)
    both = None if radius is None else Ball(radius).with_coordinate(bound)
    return ((columns + 1, Coordinates(noise, (*(1.0,) * columns, divisor), both)),)
