"""Polynomial surrogates: polynomials of one score close to a loss, for noise on a sphere, which polynomials survive.

A surrogate p(u) = sum_j c_j u^j has an exact correction under zonal noise (`symdebias.zonal`) at every theta, so that
its bias is p - f, whatever the noise, and the price is paid in variance, which grows like 1/lambda_k^2 with the degree.
The score of a record is within R |theta|, and so is the released one: no tail is left out. Coefficients and degree
minimise the mean squared error of the gradient for a sample size.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import sympy as sp

from symdebias._arrays import FloatArray
from symdebias.bounds.enclosures import Largest, enclosed, largest
from symdebias.bounds.intervals import Range
from symdebias.codegen.numeric import numeric
from symdebias.transforms.quadrature import coordinate_of_direction
from symdebias.transforms.surrogate import ROUNDING, Part, Scores
from symdebias.zonal import LEAST_FACTOR, ZonalNoise, legendre, monomial_table

_polyval, _polyder = np.polynomial.polynomial.polyval, np.polynomial.polynomial.polyder

HIGHEST_DEGREE = 8
# The variance is looked at for parameters that are this much shorter and longer, too: theta moves while it is sought.
_NEARBY = (0.9, 1.0, 1.1)
# Scores that the variance is looked at with, and points of the rule of a coordinate across the record.
_SCORES, _ACROSS = 24, 12
# Points of a normal distribution of scores.
_NORMAL = 41
# A higher degree must do better by this.
_BETTER = 0.99


@dataclass(frozen=True)
class Polynomial:
    """A polynomial of one score.

    Attributes
    ----------
    coefficients : tuple of float
        c_0, ..., c_m.

    Examples
    --------
    >>> square = Polynomial((0.5, -1.0, 0.5))
    >>> float(square.value(np.array(3.0))), float(square.slope(np.array(3.0)))
    (2.0, 2.0)
    """

    coefficients: tuple[float, ...]

    @property
    def degree(self) -> int:
        """The degree m."""
        return len(self.coefficients) - 1

    def derivative(self, u: FloatArray, order: int = 0) -> FloatArray:
        """Return the polynomial at scores, or its derivative of an order."""
        return np.asarray(_polyval(u, _polyder(np.array(self.coefficients), order)), dtype=np.float64)

    def value(self, u: FloatArray) -> FloatArray:
        """Return p(u)."""
        return self.derivative(u)

    def slope(self, u: FloatArray) -> FloatArray:
        """Return p'(u)."""
        return self.derivative(u, 1)

    def size(self, bound: float) -> float:
        """Return the sum of the sizes of all terms of p and p' for abs(u) <= bound: what rounding is relative to."""
        return float(
            sum(abs(c) * bound**j + j * abs(c) * bound ** max(j - 1, 0) for j, c in enumerate(self.coefficients))
        )

    def ranges(self, cells: Range) -> tuple[Range, Range]:
        """Return the ranges of p' and p'' on cells: their Taylor series around the middle, and rounding."""
        middle, half = cells.low / 2 + cells.high / 2, (cells.high - cells.low) / 2 * (1 + 2.0**-50)
        bound = float(np.abs([cells.low, cells.high]).max())
        found = []
        for first in (1, 2):
            reach = np.zeros(middle.shape)
            for order in range(first + 1, self.degree + 1):
                reach += (
                    np.abs(self.derivative(middle, order)) * half ** (order - first) / math.factorial(order - first)
                )
            centre = self.derivative(middle, first)
            terms = sum(
                abs(c) * math.perm(j, first) * bound ** max(j - first, 0) for j, c in enumerate(self.coefficients)
            )
            # All derivatives are rounded: each relative to terms that are at most the degree times as large.
            slack = 4 * ROUNDING * (self.degree + 1) * (terms + reach)
            found.append(Range(centre - reach - slack, centre + reach + slack))
        return found[0], found[1]


def largest_errors(polynomial: Polynomial, function: sp.Expr, variable: sp.Symbol, bound: float) -> Largest:
    """Return the largest errors of a polynomial and of its slope beside a function, by interval arithmetic.

    Parameters
    ----------
    polynomial : Polynomial
        p.
    function : sympy.Expr
        f, of the variable alone.
    variable : sympy.Symbol
        The score.
    bound : float
        They are compared on abs(u) <= bound.

    Returns
    -------
    Largest
        Bounds on abs(p - f) and abs(p' - f'), at most a part in a thousand above what is taken, with `proved`; or the
        largest errors that were found, where f has no interval arithmetic or a jump.
    """
    value, slope = (numeric(part, (variable,)) for part in (function, sp.diff(function, variable)))

    def at(u: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        own = value(u), slope(u)
        size = polynomial.size(bound) + np.abs(own[0]) + np.abs(own[1])
        return polynomial.value(u) - own[0], polynomial.slope(u) - own[1], 4 * ROUNDING * size

    inside = enclosed(sp.expand(function, deep=False), variable)
    if inside is None or inside.jumps(lambda u: at(u)[0], -bound, bound):
        return largest(at, None, -bound, bound)

    def ranges(cells: Range) -> tuple[Range, Range]:
        slopes, curvatures = polynomial.ranges(cells)
        return slopes - inside.slopes(cells), curvatures - inside.curvatures(cells)

    return largest(at, ranges, -bound, bound)


@dataclass(frozen=True)
class PolynomialDesign:
    """A polynomial surrogate with what it costs, under zonal noise on records of a width.

    Attributes
    ----------
    polynomial : Polynomial
        The surrogate.
    noise : ZonalNoise
        The noise.
    width : int
        d.
    size : float
        The norm of theta that it was designed at.
    slope_error : float
        The root mean square of p' - f' over true scores.
    trace : float
        The mean squared norm of the corrected gradient of a record, label noise included, at the design.
    squared_error : float
        What the design minimises: the squared bias of the gradient at most, and `trace` over the number of records.
    """

    polynomial: Polynomial
    noise: ZonalNoise
    width: int
    size: float
    slope_error: float
    trace: float
    squared_error: float

    def corrected_loss(self, theta: FloatArray, X: FloatArray) -> FloatArray:
        """Return G(u, s) at released records, whose mean over the noise is p at true ones; shape (n,)."""
        return corrected_polynomial(self.polynomial, self.noise, theta, X)[0]

    def corrected_gradient(self, theta: FloatArray, X: FloatArray) -> FloatArray:
        """Return the gradient of G in theta, whose mean over the noise is x p'(u); shape (n, d)."""
        return corrected_polynomial(self.polynomial, self.noise, theta, X)[1]


def corrected_polynomial(
    polynomial: Polynomial, noise: ZonalNoise, theta: FloatArray, X: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the corrected polynomial G(u, s) = sum_j c_j sum_i e_ji s^((j-i)/2) u^i and its gradient.

    The gradient is x G_u + 2 R^2 theta G_s, with s = R^2 |theta|^2.

    Parameters
    ----------
    polynomial : Polynomial
        p.
    noise : ZonalNoise
        The noise of the records.
    theta : array of shape (d,), float64
        The parameters.
    X : array of shape (n, d), float64
        Released records.

    Returns
    -------
    array of shape (n,), float64
    array of shape (n, d), float64

    Raises
    ------
    ValueError
        The noise hides a degree of the polynomial.
    """
    table = noise.inverse(len(theta), polynomial.degree)
    square = float(noise.radius**2 * theta @ theta)
    c, degrees = np.array(polynomial.coefficients), range(polynomial.degree + 1)
    in_u, in_s = np.zeros(len(c)), np.zeros(len(c))
    for i in degrees:
        for j in range(i, len(c), 2):
            power = (j - i) // 2
            in_u[i] += c[j] * table[j, i] * square**power
            if power:
                in_s[i] += c[j] * table[j, i] * power * square ** (power - 1)
    u = X @ theta
    gradient = X * _polyval(u, _polyder(in_u))[:, None]
    gradient += np.multiply.outer(_polyval(u, in_s), 2 * noise.radius**2 * theta)
    return np.asarray(_polyval(u, in_u), dtype=np.float64), np.asarray(gradient, dtype=np.float64)


def unbiased_moments(noise: ZonalNoise, X: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return estimates without bias of the means and second moments of true records, from released ones.

    The mean of x~ is lambda_1 x, and that of x~ x~' is lambda_2 x x' + (1 - lambda_2) R^2/D I: the harmonic polynomials
    v v' - I/D have the factor lambda_2.

    Parameters
    ----------
    noise : ZonalNoise
        The noise of the records.
    X : array of shape (n, d), float64
        Released records.

    Returns
    -------
    array of shape (d,), float64
    array of shape (d, d), float64
        It need not be positive semidefinite.
    """
    width = X.shape[1]
    # Raises where a degree is hidden.
    noise.inverse(width, 2)
    _, first, second = noise.factors(width, 2).tolist()
    apart = (1 - second) * noise.radius**2 / (width + 1) * np.eye(width)
    return X.mean(axis=0) / first, np.asarray((X.T @ X / len(X) - apart) / second, dtype=np.float64)


def score_distribution(noise: ZonalNoise, X: FloatArray, theta: FloatArray) -> Scores:
    """Return about what the true scores of released records are, as if they were normal, within R |theta|.

    It serves a design: a wrong distribution makes the surrogate worse, and its bias larger than need be, and leaves its
    certified errors true.

    Parameters
    ----------
    noise : ZonalNoise
        The noise of the records.
    X : array of shape (n, d), float64
        Released records.
    theta : array of shape (d,), float64
        The parameters, not 0.
    """
    means, squares = unbiased_moments(noise, X)
    reach = noise.radius * float(np.linalg.norm(theta))
    mean = min(max(float(means @ theta), -reach), reach)
    variance = float(theta @ squares @ theta) - mean**2
    # Where noise leaves nothing of the variance, a hundredth of what it may be.
    spread = math.sqrt(min(max(variance, 1e-4 * reach**2), reach**2))
    nodes, weights = np.polynomial.hermite_e.hermegauss(_NORMAL)
    return Scores(np.clip(mean + spread * nodes, -reach, reach), weights / weights.sum())


def design(
    part: Part,
    noise: ZonalNoise,
    *,
    width: int,
    size: float,
    scores: Scores,
    records: float,
    degrees: Sequence[int] | None = None,
) -> PolynomialDesign:
    r"""Return the polynomial surrogate of least mean squared error of the gradient, of the best degree.

    With q = c_j r^j, r = R |theta|, the bias of the gradient is at most sigma times the root mean square of p' - f' in
    each direction, sigma^2 = E u^2/|theta|^2 the mean square of a record along theta (Bessel's inequality). In the
    cosine t of theta and the released point the corrected polynomial is :math:`\sum_j q_j g_j(t)`,
    :math:`g_j = \sum_k (b_{jk}/\lambda_k) P_k`, and the mean squared norm of its gradient

    .. math::

        |\theta|^{-2} E\Big[\big(\sum_j j q_j g_j\big)^2 + \tfrac{d-1}{d} (1 - t^2) \big(\sum_j q_j g_j'\big)^2\Big],

    along theta and across it, if records are alike in all directions across theta. Both are squares of linear functions
    of q: least squares.

    Parameters
    ----------
    part : symdebias.transforms.surrogate.Part
        The function f, as numbers.
    noise : ZonalNoise
        The noise.
    width : int
        d.
    size : float
        The norm of theta, as estimated; positive.
    scores : symdebias.transforms.surrogate.Scores
        The distribution of true scores at such a theta, within R |theta|.
    records : float
        The sample size.
    degrees : sequence of int, optional
        The degrees to choose from, 1 to 8 by default. Those that the noise hides are left out.

    Raises
    ------
    ValueError
        Scores lie beyond R |theta|, or no degree is left.
    """
    reach = noise.radius * size
    if not reach > 0 or not np.abs(scores.values).max() <= reach * (1 + 1e-9):
        raise ValueError(
            f"a score of {np.abs(scores.values).max():.4g} is beyond radius |theta| = {reach:.4g}. Scores of records "
            "in the ball are not: give the scores at a theta of this norm, which must be positive."
        )
    factors = noise.factors(width, HIGHEST_DEGREE)
    usable = [j for j in range(1, HIGHEST_DEGREE + 1) if all(abs(factors[k]) >= LEAST_FACTOR for k in range(j, 0, -2))]
    allowed = [m for m in (degrees or range(1, HIGHEST_DEGREE + 1)) if any(j <= m for j in usable)]
    if not allowed:
        raise ValueError(f"the noise hides all degrees that are allowed, {degrees}. Allow others, or another gamma.")
    unit = scores.values / reach
    along = math.sqrt(float(scores.chances @ scores.values**2)) / size
    slopes = part.slope(scores.values)
    priced = _priced(noise, width, unit, scores.chances, usable)
    best: PolynomialDesign | None = None
    for degree in allowed:
        powers = [j for j in usable if j <= degree]
        basis = np.array([j * unit ** (j - 1) / reach for j in powers]).T
        weights = along * np.sqrt(scores.chances)
        price = priced[:, : len(powers)] * math.sqrt(part.inflation / records) / size
        rows = np.concatenate([weights[:, None] * basis, price])
        wanted = np.concatenate([weights * slopes, np.zeros(len(price))])
        norms = np.linalg.norm(rows, axis=0)
        q = np.linalg.lstsq(rows / norms, wanted, rcond=None)[0] / norms
        error = float(scores.chances @ (basis @ q - slopes) ** 2)
        trace = records * float(np.sum((price @ q) ** 2))
        total = along**2 * error + trace / records
        if best is None or total < _BETTER * best.squared_error:
            coefficients = np.zeros(powers[-1] + 1)
            coefficients[powers] = q / reach ** np.array(powers)
            plain = Polynomial(tuple(coefficients.tolist()))
            coefficients[0] = float(scores.chances @ (part.value(scores.values) - plain.value(scores.values)))
            polynomial = Polynomial(tuple(coefficients.tolist()))
            best = PolynomialDesign(polynomial, noise, width, size, math.sqrt(error), trace, total)
    assert best is not None
    return best


def _priced(
    noise: ZonalNoise, width: int, cosines: FloatArray, chances: FloatArray, powers: Sequence[int]
) -> FloatArray:
    """Return rows whose squares, summed, are the squared norm of the gradient times |theta|^2, linear in q."""
    released, shares = _released_cosines(noise, width + 1, *_gathered(cosines, chances))
    return _gradient_rows(noise, width, released, shares, tuple(powers))


def _gradient_rows(
    noise: ZonalNoise, width: int, released: FloatArray, shares: FloatArray, powers: tuple[int, ...]
) -> FloatArray:
    dimension, degree = width + 1, max(powers)
    factors = noise.factors(width, degree)
    table = monomial_table(degree, dimension)[list(powers)] / np.where(np.abs(factors) < LEAST_FACTOR, 1.0, factors)
    values = table @ legendre(degree, dimension, released)
    # P_k' = k (k + D - 2)/(D - 1) P_(k-1) in two dimensions more.
    k = np.arange(1, degree + 1)
    slopes = legendre(degree - 1, dimension + 2, released) * (k * (k + dimension - 2) / (dimension - 1))[:, None]
    across = np.sqrt((width - 1) / width * np.maximum(1 - released**2, 0.0)) * (table[:, 1:] @ slopes)
    along = np.array(powers)[:, None] * values
    roots = np.sqrt(shares / len(_NEARBY))
    grown = [np.array([near**j for j in powers])[:, None] / near for near in _NEARBY]
    stacked = np.concatenate([(part * factor * roots).T for factor in grown for part in (along, across)])
    # The triangle of a QR decomposition has the same sums of squares in few rows.
    return np.asarray(np.linalg.qr(stacked, mode="r"), dtype=np.float64)


def _gathered(values: FloatArray, chances: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return few values with the same mean, by neighbouring values with about the same probability."""
    order = np.argsort(values)
    values, chances = values[order], chances[order] / chances.sum()
    if len(values) <= _SCORES:
        return values, chances
    places = np.minimum((np.cumsum(chances) - chances / 2) * _SCORES, _SCORES - 1).astype(int)
    masses, sums = (np.bincount(places, weights, _SCORES).astype(np.float64) for weights in (chances, chances * values))
    used = masses > 0
    return sums[used] / masses[used], masses[used]


def _released_cosines(
    noise: ZonalNoise, dimension: int, cosines: FloatArray, chances: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return points and weights of the cosine of theta and the released point, for those of theta and the true one."""
    t, mass = noise.law.rule(dimension)
    # A coordinate of a uniform point of the sphere across the true one.
    z, share = coordinate_of_direction(dimension - 1, _ACROSS)
    sines = np.sqrt(np.maximum(1 - t**2, 0.0))
    heights = np.sqrt(np.maximum(1 - cosines**2, 0.0))
    points = np.multiply.outer(cosines, t)[:, :, None] + np.multiply.outer(np.multiply.outer(heights, sines), z)
    weights = np.multiply.outer(np.multiply.outer(chances, mass), share)
    return np.clip(points.ravel(), -1.0, 1.0), weights.ravel()


def part_of(function: sp.Expr, variable: sp.Symbol, *, inflation: float = 1.0) -> Part:
    """Return a function as the numbers that a design takes.

    Parameters
    ----------
    function : sympy.Expr
        f, of the variable alone.
    variable : sympy.Symbol
        The score.
    inflation : float
        The mean square of what released data multiply it with over that of true ones, at least 1.
    """
    slope = numeric(sp.diff(function, variable), (variable,))
    return Part(numeric(function, (variable,)), slope, inflation=inflation)
