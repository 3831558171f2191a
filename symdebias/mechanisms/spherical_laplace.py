"""The spherical Laplace mechanism: pure differential privacy for a vector in an L2 ball."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import sympy as sp

from symdebias._arrays import FloatArray
from symdebias._domains import COUNT, DELTA, EPSILON, SCALE, check_flag, is_number
from symdebias._gauss import gauss_rule
from symdebias.mechanisms import rounded, sampling
from symdebias.mechanisms.base import Clipped, Mechanism, VectorColumns
from symdebias.mechanisms.coordinates import shared_columns
from symdebias.mechanisms.laplace import laplace_noise
from symdebias.mechanisms.ranges import Ball, scale_of
from symdebias.noise import AdditiveNoise, SphericalNoise
from symdebias.privacy import Guarantee, spherical_laplace_scale


@dataclass(frozen=True)
class SphericalLaplaceNoise(SphericalNoise):
    """Noise of density proportional to exp(-||v||/b) on R^d, or its first coordinates in one dimension more.

    Its characteristic function is (1 + b^2 ||w||^2)^(-nu), nu = (D + 1)/2 in the D dimensions that it is drawn in. A
    coordinate has the variance 2 nu b^2, so that the noise of a score has (1 + s w^2/(2 nu))^(-nu): the inverse is
    (1 - s d^2/(2 nu))^nu, a finite operator where D is odd.
    """

    scale: float  # b.
    dimension: int  # d, at least 2.
    padded: bool = False  # Whether an even number of coordinates is drawn in one dimension more.

    @property
    def ambient(self) -> int:
        """D: d, or d + 1 where d is even and the noise is padded."""
        return self.dimension + (1 if self.padded and self.dimension % 2 == 0 else 0)

    @property
    def order(self) -> sp.Rational:
        """Nu = (D + 1)/2."""
        return sp.Rational(self.ambient + 1, 2)

    @property
    def shape(self) -> float:
        """Nu as a number."""
        return float(self.order)

    @property
    def variance(self) -> float:
        """b^2 (D + 1): the mean squared norm b^2 D (D + 1), shared by D coordinates."""
        return self.scale * self.scale * (self.ambient + 1)

    @property
    def tail_rate(self) -> float:
        """sqrt(2 nu): E exp(z e) is finite for z b ||theta|| < 1, and s = 2 nu b^2 ||theta||^2."""
        return float(np.sqrt(self.ambient + 1.0))

    def monomial(self, power: int) -> tuple[sp.Expr, ...]:
        """Return the coefficients of (1 - s d^2/(2 nu))^nu u^j."""
        nu = self.order
        found = [sp.Integer(0)] * (power + 1)
        for k in range(power // 2 + 1):
            found[power - 2 * k] = sp.binomial(nu, k) * (-1 / (2 * nu)) ** k * sp.ff(power, 2 * k)
        return tuple(found)

    @property
    def radial_scale(self) -> float:
        """The scale b."""
        return self.scale

    @property
    def operator(self) -> tuple[sp.Expr, ...] | None:
        """The terms of the binomial, where nu is an integer."""
        nu = self.order
        if not nu.is_Integer:
            return None
        return tuple(sp.binomial(nu, k) * (-1 / (2 * nu)) ** k for k in range(int(nu) + 1))

    def factor(self, square: sp.Expr) -> sp.Expr:
        """Return (1 - s z^2/(2 nu))^nu."""
        return (1 - square / (2 * self.order)) ** self.order

    def radii(self, nodes: int) -> tuple[FloatArray, FloatArray]:
        """Return the rule of the Gamma distribution of the shape D and the scale b."""
        points, weights = _gamma_rule(nodes, self.ambient)
        return self.scale * points, weights


@functools.lru_cache(maxsize=256)
def _gamma_rule(nodes: int, shape: int) -> tuple[FloatArray, FloatArray]:
    """Return the Gauss rule of the Gamma distribution, from the eigenvalues of its Jacobi matrix."""
    index = np.arange(nodes, dtype=np.float64)
    diagonal, beside = 2.0 * index + shape, np.sqrt(index[1:] * (index[1:] + shape - 1.0))
    return gauss_rule(diagonal, beside)


@dataclass(frozen=True, repr=False)
class SphericalLaplaceMechanism(Mechanism):
    """Noise of density proportional to exp(-||v||/b), ||.|| the L2 norm, on a vector whose L2 norm is bounded.

    It is the K-norm mechanism of the L2 ball: pure differential privacy at less noise than one Laplace number per
    column, and, for few columns, than normal noise that needs a delta.

    Parameters
    ----------
    epsilon : float
        Privacy budget, in [1e-6, 700]; local differential privacy, replace-one.
    radius : float
        Public bound on the L2 norm, positive; never computed from the data. Vectors outside are clipped to it before
        the noise. The L2 sensitivity is 2 radius.
    delta : float
        In [0, 1). The default 0 is pure differential privacy, for any number of columns. A positive one takes the least
        scale that is (epsilon, delta)-private in `dimension` columns.
    dimension : int, optional
        The number of columns, which a positive delta needs; any number by default.
    padded : bool
        Whether an even number of columns is noised in one dimension more, of which one coordinate is dropped. The
        noise is then larger by (d + 2)/(d + 1) in variance, and its inverse a finite operator, as it is for odd
        numbers of columns: exact corrections of the logistic loss need it.

    Attributes
    ----------
    scale : float
        b, 2 radius/epsilon rounded up for pure differential privacy.

    Raises
    ------
    ValueError, TypeError
        An argument is outside its range, or a positive delta was given without the dimension.

    Notes
    -----
    The norm of the noise has the Gamma distribution of shape d and scale b, its direction is uniform; a coordinate has
    the variance (d + 1) b^2. By the triangle inequality no two vectors in the ball have densities of a ratio above
    exp(2 radius/b), whatever d. One column has Laplace noise.

    Unless a seed is given the noise is rounded exactly to a fine grid; see `symdebias.mechanisms.rounded`.

    References
    ----------
    Hardt & Talwar 2010 (K-norm mechanisms); Chaudhuri, Monteleoni & Sarwate 2011 (this density); Joseph et al. 2025
    (arXiv 2502.15929).

    Examples
    --------
    >>> mechanism = SphericalLaplaceMechanism(epsilon=2.0, radius=1.0)
    >>> mechanism.scale, mechanism.guarantee.delta
    (1.0, 0.0)
    >>> mechanism.noise_on(3).variance
    4.0
    """

    epsilon: float | None
    radius: float | None
    delta: float | None = 0.0
    dimension: int | None = None
    padded: bool = False
    scale: float = field(init=False)
    kind: ClassVar[str] = "spherical_laplace"
    cards: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "": ("epsilon", "delta", "scale", "radius", "dimension", "padded"),
        "from_scale": ("scale", "radius", "dimension", "padded"),
    }

    def __post_init__(self) -> None:
        epsilon, radius = EPSILON.check("epsilon", self.epsilon), Ball(self.radius).radius
        if radius is None:
            raise TypeError("radius is missing. Give the public bound on the L2 norm of a vector.")
        dimension, padded = _checked_form(self.dimension, self.padded)
        delta = _checked_delta(self.delta)
        if delta > 0 and dimension is None:
            raise ValueError(
                f"delta={delta!r} needs the number of columns: the least scale depends on it. Give dimension=, or "
                "leave delta out for pure differential privacy."
            )
        self._declare(epsilon=epsilon, delta=delta, radius=radius, dimension=dimension, padded=padded)
        scale = scale_of(self.range.sensitivity, epsilon)
        if delta > 0:
            assert dimension is not None
            drawn = SphericalLaplaceNoise(1.0, dimension, padded).ambient
            scale = min(scale, spherical_laplace_scale(epsilon, delta, 2 * radius, drawn))
        self._declare(scale=SCALE.check("scale", scale))

    @classmethod
    def from_scale(
        cls, scale: float, *, radius: float | None = None, dimension: int | None = None, padded: bool = False
    ) -> "SphericalLaplaceMechanism":
        """Return noise of a known scale b, without a privacy claim.

        Parameters
        ----------
        scale : float
            b, positive; the variance of one of d coordinates is (d + 1) b^2.
        radius : float, optional
            Bound on the L2 norm; without it nothing is clipped.
        dimension, padded : optional
            As for the constructor.

        Examples
        --------
        >>> SphericalLaplaceMechanism.from_scale(0.5).guarantee is None
        True
        """
        dimension, padded = _checked_form(dimension, padded)
        return cls._known(
            epsilon=None, delta=None, radius=Ball(radius).radius, scale=SCALE.check("scale", scale),
            dimension=dimension, padded=padded,
        )  # fmt: skip

    @property
    def noise(self) -> AdditiveNoise | SphericalNoise:
        """The noise on `dimension` columns; on a single number, where none is declared, Laplace noise."""
        return self.noise_on(self.dimension or 1)

    def noise_on(self, width: int) -> AdditiveNoise | SphericalNoise:
        """Return the noise on a vector of so many columns: Laplace noise on one."""
        if width == 1:
            return laplace_noise(self.scale)
        return SphericalLaplaceNoise(self.scale, width, self.padded)

    @property
    def guarantee(self) -> Guarantee | None:
        """(epsilon, delta) in the local model, or None for `from_scale`."""
        if self.epsilon is None or self.delta is None:
            return None
        return Guarantee(self.epsilon, self.delta)

    @cached_property
    def range(self) -> Ball:
        """Vectors in the ball, or numbers in [-radius, radius]."""
        return Ball(self.radius)

    @property
    def width(self) -> int | None:
        """The number of columns, where it is declared."""
        return self.dimension

    @property
    def farthest(self) -> tuple[Any, Any] | None:
        """The ends of a diameter."""
        if self.radius is None or self.dimension in (None, 1):
            return self.range.farthest
        ends = ((sign * self.radius, *(0.0,) * (self.dimension - 1)) for sign in (-1, 1))
        return next(ends), next(ends)

    def known_columns(self, vector: VectorColumns) -> tuple[tuple[int, Mechanism], ...]:
        """Return the noise of all coordinates, which they share: as one group, with that of a target beside it.

        Raises
        ------
        ValueError
            The columns were counted without the last one.
        """
        if vector.last is not None and self.dimension is not None:
            raise ValueError(
                f"dimension={self.dimension} counts the features, and with the target the released vector has one "
                "coordinate more. Leave dimension and delta out."
            )
        return shared_columns(type(self).from_scale(self.scale, radius=self.radius, padded=self.padded), vector)

    def _noise_in_place(self, clipped: Clipped, source: sampling.Source) -> FloatArray:
        return self._add_noise(self._given_up(clipped, SphericalLaplaceMechanism), source)

    def _add_noise(self, values: FloatArray, source: sampling.Source) -> FloatArray:
        width, given_up = 1 if values.ndim == 1 else values.shape[1], values.flags.writeable
        if self.dimension not in (None, width):
            raise ValueError(
                f"the mechanism noises {self.dimension} columns together; the values have the shape {values.shape}. "
                f"Pass rows of {self.dimension}."
            )
        hardened = source.hardened and self.guarantee is not None
        if width == 1 and hardened:
            return rounded.noised(values, self.range, self.scale, rounded.laplace, source, in_place=given_up)
        if width == 1:
            return values + sampling.laplace_noise(self.scale, values.shape, source)
        drawn = SphericalLaplaceNoise(self.scale, width, self.padded).ambient
        if hardened:
            return rounded.with_radial_noise(values, self.range, self.scale, drawn, source, in_place=given_up)
        return values + sampling.radial_noise_rows(self.scale, len(values), drawn, source)[:, :width]


def _checked_form(dimension: Any, padded: Any) -> tuple[int | None, bool]:
    return (None if dimension is None else COUNT.check("dimension", dimension)), check_flag("padded", padded)


def _checked_delta(delta: Any) -> float:
    if is_number(delta) and delta == 0:
        return 0.0
    return DELTA.check("delta", delta)
