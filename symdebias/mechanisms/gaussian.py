"""The Gaussian mechanism: normal noise on vectors in a ball, or on a bounded number."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np
import sympy as sp
from numpy.typing import ArrayLike

from symdebias._arrays import FloatArray, value_array
from symdebias._domains import DELTA, EPSILON, RADIUS, SCALE, is_number
from symdebias.mechanisms import rounded, sampling
from symdebias.mechanisms.base import Mechanism, VectorColumns, independent_columns
from symdebias.mechanisms.ranges import Ball
from symdebias.noise import FREQUENCY, VALUE, AdditiveNoise
from symdebias.privacy import Guarantee, analytic_gaussian_scale, classical_gaussian_scale

_CALIBRATIONS = {"analytic": analytic_gaussian_scale, "classical": classical_gaussian_scale}


# Whose sums do not overflow.
_LARGEST_VARIANCE = 1e250


@dataclass(frozen=True, repr=False)
class GaussianMechanism(Mechanism):
    """Normal noise N(0, sigma^2) on each coordinate of a vector whose L2 norm is bounded by `radius`.

    On a target it noises one number in [-radius, radius].

    Parameters
    ----------
    epsilon : float
        Privacy budget, in [1e-6, 700]; local model, replace-one.
    delta : float
        In (0, 1).
    radius : float
        Public bound on the L2 norm, positive; never computed from the data. Vectors outside are clipped to
        it before the noise. The L2 sensitivity is 2 radius.
    calibration : {"analytic", "classical"}
        ``"analytic"`` (Balle & Wang 2018) is exact; ``"classical"`` has a proof for epsilon up to 1 only.

    Attributes
    ----------
    scale : float
        The noise's standard deviation sigma; the largest one where coordinates differ.
    covariance : tuple of tuples of float or None
        The covariance of the noise on a vector, where it is not sigma^2 times the identity.

    Raises
    ------
    ValueError, TypeError
        An argument is outside its range.

    Notes
    -----
    Unless a seed is given the noise is rounded exactly to a fine grid; see `symdebias.mechanisms.rounded`.

    References
    ----------
    Balle & Wang 2018, Theorem 8; Dwork & Roth 2014, Theorem A.1.

    Examples
    --------
    >>> round(GaussianMechanism(epsilon=1.0, delta=1e-5, radius=0.5).scale, 6)
    3.730632
    """

    epsilon: float | None
    delta: float | None
    radius: float | None
    calibration: str | None = "analytic"
    scale: float = field(init=False)
    covariance: tuple[tuple[float, ...], ...] | None = field(init=False, default=None)
    kind: ClassVar[str] = "gaussian"
    cards: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "": ("epsilon", "delta", "calibration", "scale", "radius"),
        "from_covariance": ("covariance", "radius"),
        "from_scale": ("scale", "radius"),
    }
    card_rounding: ClassVar[float] = 1e-12

    def __post_init__(self) -> None:
        epsilon, delta = EPSILON.check("epsilon", self.epsilon), DELTA.check("delta", self.delta)
        radius = RADIUS.check("radius", self.radius)
        if not isinstance(self.calibration, str) or self.calibration not in _CALIBRATIONS:
            raise ValueError(
                f"calibration={self.calibration!r} is not known. Choose one of {', '.join(_CALIBRATIONS)}."
            )
        scale = _CALIBRATIONS[self.calibration](epsilon, delta, 2 * radius)
        self._declare(epsilon=epsilon, delta=delta, radius=radius, scale=scale)

    @classmethod
    def from_scale(
        cls, scale: float | Sequence[float] | FloatArray, *, radius: float | None = None
    ) -> "GaussianMechanism":
        """Return normal noise of a known standard deviation, without a privacy claim (measurement error).

        Parameters
        ----------
        scale : float or sequence of float
            The standard deviation, positive; one for all coordinates, or one for each coordinate of a vector (0 for
            a coordinate without noise). Each record may have its own: see ``noise_scale`` of `CorrectedLoss.loss`.
        radius : float, optional
            Bound on the L2 norm; without it nothing is clipped.

        Examples
        --------
        >>> GaussianMechanism.from_scale(0.5).guarantee is None
        True
        >>> GaussianMechanism.from_scale([0.5, 1.0]).covariance
        ((0.25, 0.0), (0.0, 1.0))
        """
        if np.ndim(scale) == 1:
            scales = [
                value if is_number(value) and value == 0 else SCALE.check(f"scale[{index}]", value)
                for index, value in enumerate(np.asarray(scale).tolist())
            ]
            return cls.from_covariance(np.diag(np.square(scales)), radius=radius)
        return cls._known(
            epsilon=None, delta=None, calibration=None, radius=Ball(radius).radius,
            scale=SCALE.check("scale", scale), covariance=None,
        )  # fmt: skip

    @classmethod
    def from_covariance(cls, covariance: ArrayLike, *, radius: float | None = None) -> "GaussianMechanism":
        """Return normal noise of a known covariance on a vector, without a privacy claim.

        Parameters
        ----------
        covariance : array of shape (k, k)
            Symmetric and positive semidefinite, not 0.
        radius : float, optional
            Bound on the L2 norm; without it nothing is clipped.

        Raises
        ------
        ValueError, TypeError
            It is no covariance.

        Examples
        --------
        >>> GaussianMechanism.from_covariance([[1.0, 0.5], [0.5, 1.0]]).scale
        1.0
        """
        inside, matrix = Ball(radius), value_array(covariance)
        advice = "Give a symmetric positive semidefinite matrix of shape (k, k) with a positive entry on its diagonal."
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not np.allclose(matrix, matrix.T, rtol=1e-12):
            raise ValueError(f"the covariance has the shape {matrix.shape} or is not symmetric. {advice}")
        if not np.abs(matrix).max() <= _LARGEST_VARIANCE or _has_truth_values(covariance):
            raise ValueError(
                f"the covariance has an entry beyond {_LARGEST_VARIANCE:g}, or one that is True or False. {advice}"
            )
        matrix = (matrix + matrix.T) / 2
        largest = float(np.diag(matrix).max())
        if not largest > 0 or not np.linalg.eigvalsh(matrix / largest).min() >= -1e-12 * len(matrix):
            raise ValueError(f"the covariance is not positive semidefinite, or it is 0. {advice}")
        return cls._known(
            epsilon=None, delta=None, calibration=None, radius=inside.radius,
            scale=SCALE.check("scale", math.sqrt(largest)), covariance=tuple(map(tuple, matrix.tolist())),
        )  # fmt: skip

    @property
    def noise(self) -> AdditiveNoise:
        """Normal noise of variance sigma^2 per coordinate, or of the covariance."""
        if self.covariance is not None:
            return gaussian_vector_noise(self.covariance)
        return gaussian_noise(self.scale)

    @property
    def guarantee(self) -> Guarantee | None:
        """(epsilon, delta) in the local model, or None for `from_scale`."""
        if self.epsilon is None or self.delta is None:
            return None
        assert self.radius is not None
        # The division rounds to nearest: the next number below is a lower bound.
        multiplier = math.nextafter(self.scale / (2 * self.radius), 0.0)
        return Guarantee(self.epsilon, self.delta, multiplier=multiplier)

    @cached_property
    def range(self) -> Ball:
        """Vectors in the ball, or numbers in [-radius, radius]."""
        return Ball(self.radius)

    @property
    def width(self) -> int | None:
        """The number of coordinates of a covariance."""
        return None if self.covariance is None else len(self.covariance)

    def known_columns(self, vector: VectorColumns) -> tuple[tuple[int, Mechanism], ...]:
        """Return independent normal noise of the columns; that of a divided one has a divided scale.

        Raises
        ------
        ValueError
            The columns have a covariance, and there is one more.
        """
        if self.covariance is not None:
            if vector.last is not None:
                return super().known_columns(vector)
            return ((vector.columns, GaussianMechanism.from_covariance(self.covariance, radius=vector.radius)),)
        return independent_columns(GaussianMechanism.from_scale, self.scale, vector)

    def _add_noise(self, values: FloatArray, source: sampling.Source) -> FloatArray:
        if source.hardened and self.guarantee is not None:
            return rounded.noised(values, self.range, self.scale, rounded.normal, source)
        if self.covariance is None:
            return values + sampling.normal_noise(self.scale, values.shape, source)
        width = len(self.covariance)
        if values.ndim != 2 or values.shape[1] != width:
            raise ValueError(
                f"the covariance is that of {width} coordinates; the values have the shape {values.shape}. Pass rows "
                f"of {width}."
            )
        eigenvalues, vectors = np.linalg.eigh(np.array(self.covariance))
        root = vectors * np.sqrt(np.maximum(eigenvalues, 0.0))
        noised: FloatArray = values + sampling.normal_noise(1.0, values.shape, source) @ root.T
        return noised


@lru_cache(maxsize=1024)
def gaussian_noise(scale: float) -> AdditiveNoise:
    """Return normal noise of a standard deviation."""
    variance = scale * scale
    density = sp.exp(-(VALUE**2) / (2 * sp.Float(variance, 17))) / sp.sqrt(2 * sp.pi * sp.Float(variance, 17))
    return AdditiveNoise(variance, sp.exp(-sp.Float(variance, 17) * FREQUENCY**2 / 2), density)


def gaussian_vector_noise(covariance: tuple[tuple[float, ...], ...]) -> AdditiveNoise:
    """Return normal noise of a covariance, k x k; some diagonal entries may be 0."""
    largest = max(row[index] for index, row in enumerate(covariance))
    phi = sp.exp(-sp.Float(largest, 17) * FREQUENCY**2 / 2)
    return AdditiveNoise(largest, phi, covariance=covariance)


def _has_truth_values(covariance: Any) -> bool:
    """Whether nested lists, as cards have them, hold booleans, which arrays take for numbers."""
    rows = covariance if isinstance(covariance, (list, tuple)) else ()
    return any(isinstance(entry, bool) for row in rows if isinstance(row, (list, tuple)) for entry in row)
