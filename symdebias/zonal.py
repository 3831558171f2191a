"""Noise on a sphere as mathematics: a random point depends on the true one through their angle alone.

Such a channel is diagonal in the Gegenbauer polynomials (Funk and Hecke), which is how functions of the score are
corrected: the score of a lifted record is a fixed length times a cosine.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from scipy import special

from symdebias._arrays import FloatArray
from symdebias._domains import COUNT, RADIUS
from symdebias.exceptions import NoExactCorrectionError

# A factor of a degree that is smaller has lost more digits than a correction can spare: the degree is not corrected.
LEAST_FACTOR = 1e-6
# Second moments are those of additive noise where the gain of squares is 1 but for rounding.
_ROUNDING = 1e-12


def legendre(degree: int, dimension: int, cosine: Any) -> FloatArray:
    """Return the Legendre polynomials P_0, ..., P_m of a sphere in R^D at t in [-1, 1], P_k(1) = 1, a row for each.

    They are the Gegenbauer polynomials C_k^(D/2 - 1) divided by their value at 1: Chebyshev's in 2 dimensions, and
    Legendre's in 3. (k + D - 2) P_(k+1) = (2k + D - 2) t P_k - k P_(k-1). The dimension D is at least 2.

    References
    ----------
    Atkinson & Han 2012, *Spherical Harmonics and Approximations on the Unit Sphere*, equation (2.86).

    Examples
    --------
    >>> legendre(2, 3, 0.5).tolist()
    [1.0, 0.5, -0.125]
    """
    t = np.asarray(cosine, dtype=float)
    found = np.ones((degree + 1, *t.shape))
    if degree:
        found[1] = t
    for k in range(1, degree):
        found[k + 1] = ((2 * k + dimension - 2) * t * found[k] - k * found[k - 1]) / (k + dimension - 2)
    return found


@functools.lru_cache(maxsize=256)
def _exact_tables(degree: int, dimension: int) -> tuple[tuple[tuple[Fraction, ...], ...], ...]:
    """Return (a, b) with P_k = sum_i a_ki t^i and t^j = sum_k b_jk P_k, as fractions."""
    zero = (Fraction(0),) * (degree + 1)
    a = [(Fraction(1), *zero[1:])]
    for k in range(degree):
        up = Fraction(1) if k == 0 else Fraction(2 * k + dimension - 2, k + dimension - 2)
        back = Fraction(k, k + dimension - 2) if k else Fraction(0)
        before = a[k - 1] if k else zero
        a.append(tuple(up * (a[k][i - 1] if i else 0) - back * before[i] for i in range(degree + 1)))
    b = [(Fraction(1), *zero[1:])]
    for j in range(degree):
        # t P_k = ((k + D - 2) P_(k+1) + k P_(k-1)) / (2k + D - 2), and t P_0 = P_1.
        row = [Fraction(0)] * (degree + 2)
        for k in range(j + 1):
            share = Fraction(k, 2 * k + dimension - 2) if k else Fraction(0)
            row[k + 1] += (1 - share) * b[j][k]
            if k:
                row[k - 1] += share * b[j][k]
        b.append(tuple(row[: degree + 1]))
    return tuple(a), tuple(b)


def monomial_table(degree: int, dimension: int) -> FloatArray:
    """Return b with t^j = sum_k b_jk P_k(t), shape (m + 1, m + 1), float64; no entry is negative.

    Parameters
    ----------
    degree : int
        m.
    dimension : int
        D.

    Examples
    --------
    >>> monomial_table(2, 3).round(6).tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.333333, 0.0, 0.666667]]
    """
    return np.array(_exact_tables(degree, dimension)[1], dtype=float)


def inverse_on_monomials(factors: Sequence[float] | FloatArray, dimension: int) -> FloatArray:
    r"""Return the inverse of a zonal channel on powers of the score, shape (m + 1, m + 1), lower triangular.

    Where :math:`E P_k(\langle w, v\rangle) = \lambda_k P_k(\langle w, a\rangle)` for unit vectors, the power
    :math:`u^j` of the true score is the mean of :math:`\sum_i e_{ji} s^{(j-i)/2} u^i` of the released one, with
    :math:`s = R^2 |\theta|^2`. The factors are lambda_0 = 1, ..., lambda_m, none of them 0; entries e with odd j - i
    are 0.

    References
    ----------
    Atkinson & Han 2012, Theorem 2.22 (Funk and Hecke).

    Examples
    --------
    >>> inverse_on_monomials([1.0, 0.5, 0.25], 3).tolist()
    [[1.0, 0.0, 0.0], [0.0, 2.0, 0.0], [-1.0, 0.0, 4.0]]
    """
    return np.array(_inverse_rows(tuple(float(factor) for factor in factors), dimension), dtype=float)


@functools.lru_cache(maxsize=256)
def _inverse_rows(factors: tuple[float, ...], dimension: int) -> tuple[tuple[float, ...], ...]:
    """Return the rows of `inverse_on_monomials`."""
    inverses = [Fraction(1) / Fraction(factor) for factor in factors]
    degree = len(inverses) - 1
    a, b = _exact_tables(degree, dimension)
    # Fractions: the terms of high degrees alternate in sign, and are far larger than their sum.
    rows = [
        [sum((b[j][k] * inverses[k] * a[k][i] for k in range(i, j + 1)), Fraction(0)) for i in range(degree + 1)]
        for j in range(degree + 1)
    ]
    return tuple(tuple(map(float, row)) for row in rows)


class ZonalLaw(Protocol):
    """The law of the cosine between the true and the released point; a value, so that noises compare.

    Examples
    --------
    >>> import symdebias as sd
    >>> law = sd.SphericalCapMechanism(epsilon=5.0, radius=1.0).law
    >>> law.factors(11, 2).round(4)
    array([1.    , 0.5265, 0.2772])
    """

    def factors(self, dimension: int, degree: int) -> FloatArray:
        """Return lambda_0, ..., lambda_m in R^D, shape (m + 1,)."""

    def density(self, dimension: int, cosine: FloatArray) -> FloatArray:
        """Return the density at cosines with the true point in R^D, over the uniform density."""

    def rule(self, dimension: int) -> tuple[FloatArray, FloatArray]:
        """Return points and weights of the cosine between the true and the released point in R^D."""

    def shares(self, dimension: int, chances: FloatArray) -> FloatArray:
        """Return the shares of the sphere around the true point that the released one is in with these chances."""

    def __hash__(self) -> int:
        """Return the hash of a value."""


@functools.lru_cache(maxsize=32)
def _transition(law: ZonalLaw, dimension: int, cells: int, cosines: tuple[float, ...]) -> FloatArray:
    """Return the chances of cells of the released cosine with a direction, given the true one: shape (cells, m).

    A released point has the cosine t with the true point a, and that with a direction at the cosine c to a is
    c t + sqrt(1 - c^2) sqrt(1 - t^2) z, z a coordinate of a uniform point of the sphere in D - 1 dimensions.
    """
    t, mass = law.rule(dimension)
    edges = np.linspace(-1.0, 1.0, cells + 1)
    found = np.empty((cells, len(cosines)))
    half = (dimension - 2) / 2
    for place, c in enumerate(cosines):
        width = math.sqrt(max(1 - c * c, 0.0)) * np.sqrt(np.maximum(1 - t**2, 0.0))
        z = (edges[:, None] - c * t) / np.maximum(width, 1e-12)
        below = (
            special.betainc(half, half, np.clip((1 + z) / 2, 0.0, 1.0))
            if half
            else (np.sign(z + 1) + np.sign(z - 1) + 2) / 4
        )
        below[0], below[-1] = 0.0, 1.0
        found[:, place] = np.diff(below @ mass)
    return found


@dataclass(frozen=True)
class ZonalNoise:
    """A vector x of the ball of radius R is lifted to a point a of a sphere, and a random point v is released for it.

    The lift is a = (x, sqrt(R^2 - |x|^2))/R in R^D, D = d + 1. The law of v depends on its cosine with a alone, and
    what is released is R (v_1, ..., v_d), with the mean lambda_1 x. Divided by lambda_1, the `gain`, it is an estimate
    of x without bias, and that is what corrections are functions of: its score has the noise variance
    s = `variance` |theta|^2 and more by (`square_gain` - 1) u^2, and powers of it have the inverse `table`.

    Parameters
    ----------
    radius : float
        R.
    law : ZonalLaw
        What the law does to the Legendre polynomials of each degree.
    dimension : int
        d, the number of columns.

    Examples
    --------
    >>> import symdebias as sd
    >>> noise = sd.SphericalCapMechanism(epsilon=5.0, radius=1.0).noise_on(10)
    >>> isinstance(noise, ZonalNoise), round(noise.gain, 4)
    (True, 0.5265)
    """

    radius: float
    law: ZonalLaw
    dimension: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "radius", RADIUS.check("radius", self.radius))
        object.__setattr__(self, "dimension", COUNT.check("dimension", self.dimension))

    # It is on no grid; what is released is bounded; and its score has no density that waves would be priced by.
    step = None
    tail_rate = math.inf
    shape = math.inf

    @functools.cached_property
    def gain(self) -> float:
        """lambda_1, the mean of a released vector over the true one.

        Raises
        ------
        NoExactCorrectionError
            It is below `LEAST_FACTOR`: the noise hides the vector.
        """
        found = float(self.factors(1)[1])
        if not found >= LEAST_FACTOR:
            raise NoExactCorrectionError(
                f"the mean of a released vector is {found:.2g} times the true one, so that the noise hides it. The "
                f"factor must be at least {LEAST_FACTOR:g}: give a larger budget, or leave gamma out."
            )
        return found

    @functools.cached_property
    def square_gain(self) -> float:
        """lambda_2/lambda_1^2: what u^2 is multiplied by in the second moment of the estimated score; 1 for some laws.

        It is 1 for a cap whose rim has the largest lambda_1: moments are then those of additive noise.
        """
        return float(self.factors(2)[2]) / self.gain**2

    @property
    def has_additive_squares(self) -> bool:
        """Whether second moments are those of added noise: whether `square_gain` is 1 but for rounding."""
        return abs(self.square_gain - 1) < _ROUNDING

    @functools.cached_property
    def variance(self) -> float:
        """(1 - lambda_2) R^2/(D lambda_1^2): the second moment of an estimated coordinate where the true one is 0."""
        return (1 - float(self.factors(2)[2])) * self.radius**2 / ((self.dimension + 1) * self.gain**2)

    @property
    def weight(self) -> float:
        """The weight of a coordinate in s."""
        return self.variance

    def coordinate_variances(self, width: int) -> tuple[float, ...]:
        """Return the variance of each of so many coordinates."""
        return (self.variance,) * width

    def factors(self, degree: int) -> FloatArray:
        """Return lambda_0, ..., lambda_m.

        Parameters
        ----------
        degree : int
            m.
        """
        return self.law.factors(self.dimension + 1, degree)

    def hides(self, degree: int) -> bool:
        """Return whether the noise hides polynomials of a degree: whether the factor is below `LEAST_FACTOR`."""
        return not abs(self.factors(degree)[degree]) >= LEAST_FACTOR

    def usable(self, degree: int) -> list[int]:
        """Return the powers of the score up to a degree that have an inverse: those whose parts are not hidden."""
        hidden = ~(np.abs(self.factors(degree)) >= LEAST_FACTOR)
        return [j for j in range(degree + 1) if not any(hidden[j:0:-2])]

    def table(self, degree: int) -> FloatArray:
        """Return e, shape (m + 1, m + 1): u^j is the mean of sum_i e_ji s^((j - i)/2) times the estimated score^i.

        Rows of powers that the noise hides are NaN; the first two are those of the identity.

        Parameters
        ----------
        degree : int
            m.
        """
        factors = self.factors(degree)
        usable = self.usable(degree)
        kept = np.where(np.abs(factors) < LEAST_FACTOR, 1.0, factors)
        found = inverse_on_monomials(kept, self.dimension + 1)
        power = np.arange(degree + 1)
        # s is `variance` |theta|^2, and R^2 |theta|^2 there; the score is lambda_1 times the estimated one.
        ratio = self.radius / math.sqrt(self.variance)
        exponents = np.maximum(power[:, None] - power, 0)
        found = found * self.gain**power * ratio**exponents
        found[[j for j in power if j not in usable]] = math.nan
        found[:2, :2] = np.eye(2)[: degree + 1, : degree + 1]
        return np.asarray(found, dtype=np.float64)

    def transition(self, cells: int, cosines: FloatArray) -> FloatArray:
        """Return the chances of cells of the released cosine with a direction, given the true one.

        Parameters
        ----------
        cells : int
            How many cells of equal width [-1, 1] is divided into.
        cosines : array of shape (m,), float64
            True cosines.

        Returns
        -------
        array of shape (cells, m), float64
            Columns sum to 1.
        """
        return _transition(self.law, self.dimension + 1, cells, tuple(cosines.tolist()))

    def reach(self, square: float) -> float:
        """Return R |theta|, the largest score that a record has, for s.

        Parameters
        ----------
        square : float
            s.
        """
        return self.radius * math.sqrt(square / self.variance)
