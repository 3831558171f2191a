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
from symdebias._domains import (
    COUNT,
    DELTA,
    EPSILON,
    NON_NEGATIVE,
    OPEN_UNIT,
    RADIUS,
    SCALE,
    Interval,
    check_choice,
    is_number,
)
from symdebias.mechanisms import rounded, sampling
from symdebias.mechanisms.base import Clipped, Mechanism, VectorColumns, independent_columns
from symdebias.mechanisms.measurements import beside_true, within_records
from symdebias.mechanisms.ranges import Ball
from symdebias.noise import FREQUENCY, VALUE, AdditiveNoise, noise_of_family, symmetric_root
from symdebias.privacy import Guarantee, analytic_gaussian_scale, classical_gaussian_scale

_CALIBRATIONS = {"analytic": analytic_gaussian_scale, "classical": classical_gaussian_scale}


# Whose sums do not overflow.
_LARGEST_VARIANCE = 1e250
# Standard deviations with ratios up to this are taken as they are by what finds eigenvalues.
_ALIKE = 1e4
_FREEDOM = Interval(1.0, 1e15, "both", "Give the number of values that the estimate rests on, less those fitted.")


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
    degrees_of_freedom : float or None
        Those of the noise where it was estimated, as by `from_replicates`; None where it is known.

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
    degrees_of_freedom: float | None = field(init=False, default=None)
    kind: ClassVar[str] = "gaussian"
    cards: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "": ("epsilon", "delta", "calibration", "scale", "radius"),
        "from_estimate": ("degrees_of_freedom", "estimate", "radius"),
        "from_covariance": ("covariance", "radius"),
        "from_scale": ("scale", "radius"),
    }
    card_rounding: ClassVar[float] = 1e-12

    def __post_init__(self) -> None:
        epsilon, delta = EPSILON.check("epsilon", self.epsilon), DELTA.check("delta", self.delta)
        radius = RADIUS.check("radius", self.radius)
        calibration = check_choice("calibration", self.calibration, _CALIBRATIONS)
        scale = _CALIBRATIONS[calibration](epsilon, delta, 2 * radius)
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
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not _is_symmetric(matrix):
            raise ValueError(f"the covariance has the shape {matrix.shape} or is not symmetric. {advice}")
        if not np.abs(matrix).max() <= _LARGEST_VARIANCE or _has_truth_values(covariance):
            raise ValueError(
                f"the covariance has an entry beyond {_LARGEST_VARIANCE:g}, or one that is True or False. {advice}"
            )
        matrix = (matrix + matrix.T) / 2
        largest = float(np.diag(matrix).max())
        if not largest > 0 or not _is_semidefinite(matrix):
            raise ValueError(f"the covariance is not positive semidefinite, or it is 0. {advice}")
        return cls._known(
            epsilon=None, delta=None, calibration=None, radius=inside.radius,
            scale=SCALE.check("scale", math.sqrt(largest)), covariance=tuple(map(tuple, matrix.tolist())),
        )  # fmt: skip

    @classmethod
    def from_estimate(
        cls, estimate: ArrayLike, degrees_of_freedom: float, *, radius: float | None = None
    ) -> "GaussianMechanism":
        """Return normal noise that was estimated, without a privacy claim; standard errors of fits allow for it.

        Parameters
        ----------
        estimate : float or array of shape (k, k)
            The standard deviation, of every column that it noises; or a covariance, as for `from_covariance`. Columns
            of a diagonal one are taken as estimated by themselves.
        degrees_of_freedom : float
            f, in [1, 1e15]: f times the estimate has the law of a sum of f squares of normal errors (Wishart's).
        radius : float, optional
            Bound on the L2 norm; without it nothing is clipped.

        Raises
        ------
        ValueError, TypeError
            An argument is out of range.

        Examples
        --------
        >>> GaussianMechanism.from_estimate(0.5, 40)
        GaussianMechanism.from_estimate(0.5, 40.0)
        """
        freedom = _FREEDOM.check("degrees_of_freedom", degrees_of_freedom)
        if np.ndim(estimate) == 0:
            made = cls.from_scale(SCALE.check("estimate", estimate), radius=radius)
        else:
            made = cls.from_covariance(estimate, radius=radius)
        made._declare(degrees_of_freedom=freedom)
        return made

    @classmethod
    def from_replicates(cls, replicates: ArrayLike, *, radius: float | None = None) -> "GaussianMechanism":
        """Return the error of one measurement, estimated from records that were measured repeatedly.

        Parameters
        ----------
        replicates : array of shape (n, k) or (n, k, p), or table of shape (n, k)
            k measurements of each of n records, of one column or of p columns together; NaN where a record has fewer.
            Records with one measurement tell nothing of the error, and do no harm.
        radius : float, optional
            Bound on the L2 norm; without it nothing is clipped.

        Returns
        -------
        GaussianMechanism
            With the pooled variance within records, or the covariance of p columns, and its `degrees_of_freedom`,
            the sum of k_i - 1. `of_mean` is the error of a mean.

        Raises
        ------
        ValueError, TypeError
            They are no measurements, too few of them are repeated, or those of each record are equal. Or they are
            shifted against each other in the mean, by a test that refuses one in a thousand good samples.

        Notes
        -----
        Errors of the measurements of a record are taken as independent, normal, and alike for all records. They are
        computed from the data: nothing that is made from them is private.

        Fit the means of the measurements of each record: under normal errors they are independent of the estimate.
        Where numbers k_i differ, the scales of the means are ``noise_scale=error.scale / np.sqrt(k)``.

        References
        ----------
        Carroll, Ruppert, Stefanski & Crainiceanu 2006 (Measurement Error in Nonlinear Models), Section 4.4.

        Examples
        --------
        >>> error = GaussianMechanism.from_replicates([[1.0, 3.0], [2.0, 2.0], [5.0, float("nan")]])
        >>> error.scale, error.degrees_of_freedom, round(error.of_mean(2).scale, 4)
        (1.0, 2.0, 0.7071)
        """
        return cls._estimated(*within_records(replicates), radius)

    @classmethod
    def from_validation(cls, noised: ArrayLike, true: ArrayLike, *, radius: float | None = None) -> "GaussianMechanism":
        """Return the error of measurements, estimated from records whose true values are known.

        Parameters
        ----------
        noised : array of shape (m,) or (m, p), or table
            Measurements of m records, of one column or of p together.
        true : array of shape (m,) or (m, p), or table
            The true values of the same records.
        radius : float, optional
            Bound on the L2 norm; without it nothing is clipped.

        Returns
        -------
        GaussianMechanism
            With the covariance of noised - true about its mean, and m - 1 `degrees_of_freedom`.

        Raises
        ------
        ValueError, TypeError
            The arrays do not fit or are too short. Or the errors do not have the mean 0, or go with the true values;
            each of these two tests refuses one in a thousand good samples.

        Notes
        -----
        In the fit give these records their true values, and ``noise_scale`` 0: they then are independent of the
        estimate, and worth more.

        References
        ----------
        Carroll, Ruppert, Stefanski & Crainiceanu 2006 (Measurement Error in Nonlinear Models), Section 2.3.

        Examples
        --------
        >>> error = GaussianMechanism.from_validation([1.5, 1.5, 3.5, 3.5], [1.0, 2.0, 3.0, 4.0])
        >>> round(error.scale, 4), error.degrees_of_freedom
        (0.5774, 3.0)
        """
        return cls._estimated(*beside_true(noised, true), radius)

    @classmethod
    def from_reliability(
        cls, ratio: float, *, variance: float, standard_error: float = 0.0, radius: float | None = None
    ) -> "GaussianMechanism":
        """Return the error of measurements of a known reliability ratio: of the variance (1 - ratio) Var(w).

        Parameters
        ----------
        ratio : float
            Var(x)/Var(w), the share of the variance of measurements that is that of true values; in (0, 1).
        variance : float
            Var(w), positive.
        standard_error : float
            Of the ratio, where that was estimated; 0 or more. Standard errors of fits then allow for it.
        radius : float, optional
            Bound on the L2 norm; without it nothing is clipped.

        Raises
        ------
        ValueError, TypeError
            An argument is out of range.

        Notes
        -----
        A variance that is computed from the data makes the noise depend on them. Without privacy that is fine, and it
        can never be part of a guarantee. It is taken as known here: for a variance of the records that are fitted
        themselves, standard errors of least squares are then somewhat too large, not too small.

        References
        ----------
        Fuller 1987 (Measurement Error Models), Section 1.1.2.

        Examples
        --------
        >>> GaussianMechanism.from_reliability(0.75, variance=4.0)
        GaussianMechanism.from_scale(1.0)
        >>> GaussianMechanism.from_reliability(0.75, variance=4.0, standard_error=0.05)
        GaussianMechanism.from_estimate(1.0, 50.0)
        """
        share = 1.0 - OPEN_UNIT.check("ratio", ratio)
        scale = math.sqrt(share * SCALE.check("variance", variance))
        error = NON_NEGATIVE.check("standard_error", standard_error)
        if error == 0:
            return cls.from_scale(scale, radius=radius)
        freedom = 2 * (share / error) ** 2
        if freedom < 1:
            raise ValueError(
                f"standard_error={error:g} is much for an error that has the share {share:.3g} of the variance, and "
                f"nothing is known of it. Give one below {math.sqrt(2) * share:.3g}, or estimate the error."
            )
        return cls.from_estimate(scale, round(freedom, 9), radius=radius)

    @classmethod
    def _estimated(cls, covariance: FloatArray, freedom: int, radius: float | None) -> "GaussianMechanism":
        return cls.from_estimate(covariance if len(covariance) > 1 else covariance[0, 0] ** 0.5, freedom, radius=radius)

    def of_mean(self, count: int) -> "GaussianMechanism":
        """Return the noise of the mean of several measurements with independent noise of this kind.

        Parameters
        ----------
        count : int
            How many, 1 or more.

        Raises
        ------
        ValueError
            The noise has a guarantee, which is not that of several releases.

        Examples
        --------
        >>> GaussianMechanism.from_scale(1.0).of_mean(4)
        GaussianMechanism.from_scale(0.5)
        """
        count = COUNT.check("count", count)
        if self.guarantee is not None:
            raise ValueError(
                f"{self!r} has a guarantee for one release, and a mean of several has not. Declare known noise with "
                "from_scale."
            )
        if self.covariance is None:
            known = GaussianMechanism.from_scale(self.scale / math.sqrt(count), radius=self.radius)
        else:
            known = GaussianMechanism.from_covariance(np.array(self.covariance) / count, radius=self.radius)
        known._declare(degrees_of_freedom=self.degrees_of_freedom)
        return known

    @property
    def estimate(self) -> float | tuple[tuple[float, ...], ...]:
        """The standard deviation, or the covariance where there is one."""
        return self.scale if self.covariance is None else self.covariance

    def moved(self, direction: tuple[int, int], by: float) -> "GaussianMechanism":
        """Return the noise of the covariance L (I + by E) L' for this one L L', known.

        Parameters
        ----------
        direction : pair of int
            (i, j): E is 1 at i, j and at j, i, and 0 elsewhere. Without a covariance, (0, 0) moves all columns.
        by : float
            How far, in (-1, 1).
        """
        if self.covariance is None:
            return GaussianMechanism.from_scale(self.scale * math.sqrt(1 + by), radius=self.radius)
        # Directions are the same in all units.
        root = symmetric_root(np.array(self.covariance))
        i, j = direction
        inner = np.eye(len(root))
        inner[i, j] = inner[j, i] = inner[i, j] + by
        return GaussianMechanism.from_covariance(root @ inner @ root.T, radius=self.radius)

    @property
    def is_correlated(self) -> bool:
        """Whether the noise of some columns is correlated."""
        matrix = np.zeros((0, 0)) if self.covariance is None else np.array(self.covariance)
        return bool(np.any(matrix - np.diag(np.diag(matrix))))

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
            The columns have a covariance, and there is one more; or the noise was estimated.
        """
        if self.degrees_of_freedom is not None:
            raise ValueError(
                f"{self!r} was estimated from measurements of columns, and margin and joint releases noise features "
                "and label as one vector. Release them apart, or declare known noise with from_scale."
            )
        if self.covariance is not None:
            if vector.last is not None:
                return super().known_columns(vector)
            return ((vector.columns, GaussianMechanism.from_covariance(self.covariance, radius=vector.radius)),)
        return independent_columns(GaussianMechanism.from_scale, self.scale, vector)

    def _noise_in_place(self, clipped: Clipped, source: sampling.Source) -> FloatArray:
        return self._add_noise(self._given_up(clipped, GaussianMechanism), source)

    def _add_noise(self, values: FloatArray, source: sampling.Source) -> FloatArray:
        given_up = values.flags.writeable
        if source.hardened and self.guarantee is not None:
            return rounded.noised(values, self.range, self.scale, rounded.normal, source, in_place=given_up)
        if self.covariance is None:
            return sampling.with_normal_noise(values, self.scale, source, in_place=given_up)
        width = len(self.covariance)
        if values.ndim != 2 or values.shape[1] != width:
            raise ValueError(
                f"the covariance is that of {width} coordinates; the values have the shape {values.shape}. Pass rows "
                f"of {width}."
            )
        root = _root(np.array(self.covariance))
        noised: FloatArray = values + sampling.normal_noise(1.0, values.shape, source) @ root.T
        return noised


def _units(matrix: FloatArray) -> FloatArray:
    """Return the standard deviations of a covariance, 1 where one is 0."""
    diagonal = np.diag(matrix)
    return np.asarray(np.sqrt(np.where(diagonal > 0, diagonal, 1.0)))


def _is_symmetric(matrix: FloatArray) -> bool:
    """Whether a square matrix is symmetric, to rounding in the units of each coordinate."""
    units = _units(matrix)
    return bool(np.all(np.abs(matrix - matrix.T) <= 1e-8 * np.multiply.outer(units, units)))


def _is_semidefinite(matrix: FloatArray) -> bool:
    """Whether a symmetric matrix is positive semidefinite, to rounding in the units of each coordinate."""
    units = _units(matrix)
    scaled = matrix / units / units[:, None]
    return bool(np.linalg.eigvalsh(scaled).min() >= -1e-12 * len(matrix) and np.diag(matrix).min() >= 0)


def _root(matrix: FloatArray) -> FloatArray:
    """Return R with R R' a covariance."""
    units = _units(matrix)
    if float(units.max()) <= _ALIKE * float(units.min()):
        units = np.ones(len(matrix))
    # Eigenvalues are right to rounding of the largest, which is all of a column of small numbers beside large ones.
    sizes, vectors = np.linalg.eigh(matrix / units / units[:, None])
    return np.asarray(units[:, None] * vectors * np.sqrt(np.maximum(sizes, 0.0)))


@lru_cache(maxsize=1024)
def gaussian_noise(scale: float) -> AdditiveNoise:
    """Return normal noise of a standard deviation."""
    variance = scale * scale
    density = sp.exp(-(VALUE**2) / (2 * sp.Float(variance, 17))) / sp.sqrt(2 * sp.pi * sp.Float(variance, 17))
    return noise_of_family(variance, sp.exp(-sp.Float(variance, 17) * FREQUENCY**2 / 2), density)


@lru_cache(maxsize=256)
def gaussian_vector_noise(covariance: tuple[tuple[float, ...], ...]) -> AdditiveNoise:
    """Return normal noise of a covariance, k x k; some diagonal entries may be 0."""
    largest = max(row[index] for index, row in enumerate(covariance))
    phi = sp.exp(-sp.Float(largest, 17) * FREQUENCY**2 / 2)
    return AdditiveNoise(largest, phi, covariance=covariance)


def _has_truth_values(covariance: Any) -> bool:
    """Whether nested lists, as cards have them, hold booleans, which arrays take for numbers."""
    rows = covariance if isinstance(covariance, (list, tuple)) else ()
    return any(isinstance(entry, bool) for row in rows if isinstance(row, (list, tuple)) for entry in row)
