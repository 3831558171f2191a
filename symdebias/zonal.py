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

from symdebias._arrays import FloatArray
from symdebias._domains import RADIUS

# A factor of a degree that is smaller has lost more digits than a correction can spare: the degree is not corrected.
LEAST_FACTOR = 1e-6


def legendre(degree: int, dimension: int, cosine: Any) -> FloatArray:
    """Return the Legendre polynomials P_0, ..., P_m of a sphere, normed by P_k(1) = 1.

    They are the Gegenbauer polynomials C_k^(D/2 - 1) divided by their value at 1: Chebyshev's in 2 dimensions, and
    Legendre's in 3. (k + D - 2) P_(k+1) = (2k + D - 2) t P_k - k P_(k-1).

    Parameters
    ----------
    degree : int
        m, zero or more.
    dimension : int
        D, at least 2: the sphere lies in R^D.
    cosine : float or array
        t, in [-1, 1].

    Returns
    -------
    array of shape (m + 1, ...), float64
        One row for each degree.

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
    r"""Return the inverse of a zonal channel on powers of the score.

    Where :math:`E P_k(\langle w, v\rangle) = \lambda_k P_k(\langle w, a\rangle)` for unit vectors, the power
    :math:`u^j` of the true score is the mean of :math:`\sum_i e_{ji} s^{(j-i)/2} u^i` of the released one, with
    :math:`s = R^2 |\theta|^2`.

    Parameters
    ----------
    factors : array of shape (m + 1,)
        lambda_0 = 1, ..., lambda_m, none of them 0.
    dimension : int
        D.

    Returns
    -------
    array of shape (m + 1, m + 1), float64
        e, lower triangular; entries with odd j - i are 0.

    References
    ----------
    Atkinson & Han 2012, Theorem 2.22 (Funk and Hecke).

    Examples
    --------
    >>> inverse_on_monomials([1.0, 0.5, 0.25], 3).tolist()
    [[1.0, 0.0, 0.0], [0.0, 2.0, 0.0], [-1.0, 0.0, 4.0]]
    """
    inverses = [Fraction(1) / Fraction(float(factor)) for factor in factors]
    degree = len(inverses) - 1
    a, b = _exact_tables(degree, dimension)
    # Fractions: the terms of high degrees alternate in sign, and are far larger than their sum.
    rows = [
        [sum((b[j][k] * inverses[k] * a[k][i] for k in range(i, j + 1)), Fraction(0)) for i in range(degree + 1)]
        for j in range(degree + 1)
    ]
    return np.array(rows, dtype=float)


class ZonalLaw(Protocol):
    """The law of the cosine between the true and the released point; a value, so that noises compare."""

    def factors(self, dimension: int, degree: int) -> FloatArray:
        """Return lambda_0, ..., lambda_m in R^D, shape (m + 1,)."""

    def density(self, dimension: int, cosine: FloatArray) -> FloatArray:
        """Return the density at cosines with the true point in R^D, over the uniform density."""

    def rule(self, dimension: int) -> tuple[FloatArray, FloatArray]:
        """Return points and weights of the cosine between the true and the released point in R^D."""

    def __hash__(self) -> int:
        """Return the hash of a value."""


@dataclass(frozen=True)
class ZonalNoise:
    """A vector x of the ball of radius R is lifted to a point a of a sphere, and a random point v is released for it.

    The lift is a = (x, sqrt(R^2 - |x|^2))/R in R^D, D = d + 1. The law of v depends on its cosine with a alone, and
    what is released is R (v_1, ..., v_d).

    Parameters
    ----------
    radius : float
        R.
    law : ZonalLaw
        What the law does to the Legendre polynomials of each degree.
    """

    radius: float
    law: ZonalLaw

    def __post_init__(self) -> None:
        object.__setattr__(self, "radius", RADIUS.check("radius", self.radius))

    # It is neither added nor on a grid.
    step = None

    @property
    def refusal(self) -> str:
        """Why losses are not corrected under this noise as under others, and what to do."""
        return (
            "a point of a sphere is no sum of a record and noise: debias has no correction under a spherical cap. "
            "Polynomials of the score have one, by its noise.unbiased, and symdebias.transforms.polynomial designs "
            "them for other losses. For debias release the vector with a GaussianMechanism or a LaplaceMechanism."
        )

    def factors(self, width: int, degree: int) -> FloatArray:
        """Return lambda_0, ..., lambda_m for records of a width.

        Parameters
        ----------
        width : int
            d, the number of columns.
        degree : int
            m.
        """
        return self.law.factors(width + 1, degree)

    def inverse(self, width: int, degree: int) -> FloatArray:
        """Return e, the inverse on powers of the score; see `inverse_on_monomials`.

        Parameters
        ----------
        width : int
            d, the number of columns.
        degree : int
            m.

        Raises
        ------
        ValueError
            The law hides a degree: its factor is below `LEAST_FACTOR`.
        """
        factors = self.factors(width, degree)
        hidden = [k for k, factor in enumerate(factors) if not abs(factor) >= LEAST_FACTOR]
        if hidden:
            raise ValueError(
                f"the noise hides polynomials of degree {hidden[0]}: their factor is {factors[hidden[0]]:.3g}. It must "
                f"be {LEAST_FACTOR:g} or more in size. Correct polynomials of degree {hidden[0] - 1} at most, or take "
                "another gamma."
            )
        return inverse_on_monomials(factors, width + 1)

    def unbiased(self, coefficients: Sequence[float] | FloatArray, width: int, size: float) -> FloatArray:
        """Return the polynomial of the released score whose mean is a given polynomial of the true one.

        Parameters
        ----------
        coefficients : array of shape (m + 1,)
            c_0, ..., c_m of sum_j c_j u^j.
        width : int
            d.
        size : float
            The norm of theta, from 0 up.

        Returns
        -------
        array of shape (m + 1,), float64
            The coefficients of the powers of the released score.
        """
        given = np.asarray(coefficients, dtype=float)
        degree = len(given) - 1
        table = self.inverse(width, degree)
        root = self.radius * size
        powers = [[root ** (j - i) if j >= i else 0.0 for i in range(degree + 1)] for j in range(degree + 1)]
        return np.array([math.fsum(given * table[:, i] * np.array(powers)[:, i]) for i in range(degree + 1)])
