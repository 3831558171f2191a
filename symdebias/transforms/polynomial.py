"""Polynomial surrogates: polynomials of one score close to a loss, for noise on a sphere, which polynomials survive.

A surrogate p(u) = sum_j c_j u^j has an exact correction under zonal noise (`symdebias.zonal`) at every theta, so that
its bias is p - f, whatever the noise, and the price is paid in variance, which grows like 1/lambda_k^2 with the degree.
The score of a record is within R |theta|, and so is the released one: no tail is left out.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.linalg import eigh_tridiagonal

from symdebias._arrays import FloatArray
from symdebias.transforms.quadrature import coordinate_of_direction
from symdebias.transforms.surrogate import Design, Part, Scores, Surrogate, balanced
from symdebias.zonal import LEAST_FACTOR, ZonalNoise, legendre, monomial_table

HIGHEST_DEGREE = 8
# The variance is looked at for parameters that are this much shorter and longer, too: theta moves while it is sought.
_NEARBY = (0.9, 1.0, 1.1)
# Scores that the variance is looked at with, and points of the rule of a coordinate across the record.
_SCORES, _ACROSS = 24, 12
# Where a polynomial that vanishes at all points is told by its size.
_FEWER_POINTS = 1e-12
# What the shared errors weigh, squared, beside the mean squared error, and by what a higher degree must do better.
_SHARED, _BETTER = 5.0, 0.99


def design(parts: Sequence[Part], noise: ZonalNoise, *, radius: float, score_variance: float, records: float) -> Design:
    """Return the polynomials of least mean squared error of the gradient, of the best degree, for abs(u) <= radius.

    Scores have the arcsine distribution on it, and true vectors the mean square of points that are uniform on the
    sphere. The noise variance of the score says how long theta is: no score is beyond `ZonalNoise.reach`.

    Raises
    ------
    ValueError
        The score variance is 0.
    """
    reach = noise.reach(score_variance)
    if not reach > 0:
        raise ValueError(
            "score_variance=0 is the noise of theta = 0, at which all scores are 0. Give that of the theta in question."
        )
    power = noise.radius**2 * noise.dimension / (noise.dimension + 1)
    scene = PolynomialScene(noise, reach, Scores.within(min(radius, reach)), power)
    best: list[Surrogate] = []
    least = math.inf
    for degree in scene.degrees:
        found = scene.surrogates(parts, records, degree, _SHARED)
        errors = [scene.slopes(one) - scene.wanted(part) for one, part in zip(found, parts, strict=True)]
        total = sum(
            float(scene.scores.chances @ error**2) + part.inflation * scene.price(one) / records
            for one, part, error in zip(found, parts, errors, strict=True)
        )
        if total < _BETTER * least:
            best, least = found, total
    return balanced(parts, best, radius=min(radius, reach), score_variance=score_variance, records=records)


@dataclass(frozen=True)
class PolynomialScene:
    r"""What polynomials are found for.

    With q_j = c_j r^j, r = R |theta|, and the cosine t of theta and the released point the corrected polynomial is
    :math:`\sum_j q_j g_j(t)`, :math:`g_j = \sum_k (b_{jk}/\lambda_k) P_k`, and the mean squared norm of its gradient

    .. math::

        |\theta|^{-2} E\Big[\big(\sum_j j q_j g_j\big)^2 + \tfrac{d-1}{d} (1 - t^2) \big(\sum_j q_j g_j'\big)^2\Big],

    along theta and across it, if records are alike in all directions across theta. So bias and variance are squares of
    linear functions of q.
    """

    noise: ZonalNoise
    reach: float  # r, the largest score that a record has; positive.
    scores: Scores  # The distribution of true scores, within the reach.
    power: float  # The mean squared norm of true records; positive.
    # By function: it is asked for again for each degree and price.
    _wanted: dict[Part, FloatArray] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        farthest = float(np.abs(self.scores.values).max())
        if not self.reach > 0 or not farthest <= self.reach * (1 + 1e-9):
            raise ValueError(
                f"a score of {farthest:.4g} is beyond radius |theta| = {self.reach:.4g}. Scores of records in the ball "
                "are not: give the scores at a theta of this norm, which must be positive."
            )

    @functools.cached_property
    def powers(self) -> list[int]:
        """The powers of the score that the noise does not hide, from 1 up."""
        return self.noise.usable(HIGHEST_DEGREE)[1:]

    @property
    def degrees(self) -> list[int]:
        """The degrees to choose from, even ones as far as the noise lets them through."""
        return [degree for degree in (2, 4, 6, 8) if degree == 2 or degree in self.powers or degree - 1 in self.powers]

    def surrogates(self, parts: Sequence[Part], records: float, degree: int, shared: float) -> list[Surrogate]:
        """Return the polynomials of least mean squared error of the gradient up to a degree, constants left at 0.

        More records buy less bias for more variance. `shared` is what the squares of the shared errors weigh: of the
        mean error of the slope over scores, and of that times the score.
        """
        powers = [j for j in self.powers if j <= degree]
        u, chances = self.scores.values, self.scores.chances
        basis = self._basis[0][:, : len(powers)]
        turn, triangle = (part[..., : len(powers)] for part in self._turned)
        spread = math.sqrt(self.scores.mean_square) or 1.0
        levers = math.sqrt(shared) * np.stack([chances, chances * u / spread])
        found = []
        for part in parts:
            slope = self.wanted(part)
            price = self._rows[0][:, : len(powers)] * math.sqrt(part.inflation / records)
            rows = np.concatenate([triangle[: len(powers)], levers @ basis, price])
            errors = (np.sqrt(chances) * slope) @ turn
            wanted = np.concatenate([errors, levers @ slope, np.zeros(len(price))])
            norms = np.linalg.norm(rows, axis=0)
            q = np.linalg.lstsq(rows / norms, wanted, rcond=None)[0] / norms
            coefficients = np.zeros(max(degree, 2) + 1)
            coefficients[powers] = q / self.reach ** np.array(powers)
            found.append(Surrogate(1.0, tuple(coefficients.tolist())))
        return found

    def price(self, found: Surrogate) -> float:
        """Return the mean squared norm of the corrected gradient of a record, over that of a true record."""
        return float(np.sum((self._rows[0] @ self._scaled(found)) ** 2))

    def curvature_square(self, found: Surrogate) -> float:
        """Return the mean square of the corrected second derivative over scores and noise."""
        return float(np.sum((self._rows[1] @ self._scaled(found)) ** 2))

    def wanted(self, part: Part) -> FloatArray:
        """Return the slope of a function at the scores, shape (m,).

        Raises
        ------
        ValueError
            It is not finite.
        """
        if part not in self._wanted:
            slope = part.slope(self.scores.values)
            if not np.all(np.isfinite(slope)):
                farthest = np.abs(self.scores.values).max()
                raise ValueError(
                    f"the slope of the loss is not finite on scores up to {farthest:g}. Bound theta, or use a form "
                    "without overflow."
                )
            self._wanted[part] = slope
        return self._wanted[part]

    def slopes(self, found: Surrogate) -> FloatArray:
        """Return the slope of a polynomial at the scores, shape (m,)."""
        return np.asarray(self._basis[0] @ self._scaled(found))

    def curvatures(self, found: Surrogate) -> FloatArray:
        """Return the second derivative of a polynomial at the scores, shape (m,)."""
        return np.asarray(self._basis[1] @ self._scaled(found))

    @functools.cached_property
    def _basis(self) -> tuple[FloatArray, FloatArray]:
        """The slopes and the second derivatives of t^j at the scores, a column for each power."""
        unit = self.scores.values / self.reach
        slopes = [j * unit ** (j - 1) / self.reach for j in self.powers]
        bends = [j * (j - 1) * unit ** max(j - 2, 0) / self.reach**2 for j in self.powers]
        return np.array(slopes).T, np.array(bends).T

    @functools.cached_property
    def _turned(self) -> tuple[FloatArray, FloatArray]:
        """The QR decomposition of the rows of squared errors: that of the first columns stands in it."""
        turn, triangle = np.linalg.qr(np.sqrt(self.scores.chances)[:, None] * self._basis[0])
        return turn, triangle

    def _scaled(self, found: Surrogate) -> FloatArray:
        c = np.zeros(HIGHEST_DEGREE + 1)
        c[: len(found.polynomial)] = found.polynomial
        return (c * self.reach ** np.arange(len(c)))[self.powers]

    @functools.cached_property
    def _rows(self) -> tuple[FloatArray, FloatArray]:
        """Rows whose squares, summed, are the mean squares of gradient and second derivative, linear in q."""
        unit = self.scores.values / self.reach
        # Squares of polynomials: so many points of Gauss' rule give the mean of all.
        rule = _gauss(*_released_cosines(self.noise, *_gathered(unit, self.scores.chances)), max(self.powers) + 1)
        gradient, curvature = _price_rows(self.noise, *rule, tuple(self.powers))
        return gradient * (self.noise.radius / self.reach / math.sqrt(self.power)), curvature / self.reach**2


def _price_rows(
    noise: ZonalNoise, released: FloatArray, shares: FloatArray, powers: tuple[int, ...]
) -> tuple[FloatArray, FloatArray]:
    """Return rows for the gradient, times |theta|, and for the second derivative, times r^2."""
    width, degree = noise.dimension, max(powers)
    factors = noise.factors(degree)
    monomials = monomial_table(degree, width + 1) / np.where(np.abs(factors) < LEAST_FACTOR, 1.0, factors)
    polynomials = legendre(degree, width + 1, released)
    table = monomials[list(powers)]
    # P_k' = k (k + D - 2)/(D - 1) P_(k-1) in two dimensions more.
    k = np.arange(1, degree + 1)
    slopes = legendre(degree - 1, width + 3, released) * (k * (k + width - 1) / width)[:, None]
    across = np.sqrt((width - 1) / width * np.maximum(1 - released**2, 0.0)) * (table[:, 1:] @ slopes)
    along = np.array(powers)[:, None] * (table @ polynomials)
    chosen = np.array(powers)
    bent = (chosen * (chosen - 1))[:, None] * (monomials[np.maximum(chosen - 2, 0)] @ polynomials)
    roots = np.sqrt(shares)
    grown = [np.array([near**j for j in powers])[:, None] / near / math.sqrt(len(_NEARBY)) for near in _NEARBY]
    stacked = np.concatenate([(part * factor * roots).T for factor in grown for part in (along, across)])
    # The triangle of a QR decomposition has the same sums of squares in few rows.
    found = [np.asarray(np.linalg.qr(rows, mode="r"), dtype=np.float64) for rows in (stacked, (bent * roots).T)]
    return found[0], found[1]


def _gauss(points: FloatArray, weights: FloatArray, count: int) -> tuple[FloatArray, FloatArray]:
    """Return few points and weights with the same sums of polynomials of degree 2 `count` - 1: Gauss' rule.

    Its points are the eigenvalues of the matrix of the recurrence of the orthogonal polynomials (Golub & Welsch 1969),
    which Stieltjes' procedure finds: stable for far fewer polynomials than points.

    Parameters
    ----------
    points, weights : array of shape (m,), float64
        Points, and their weights, which are not negative.
    count : int
        How many points are wanted. Points that are fewer are returned as they are.
    """
    if len(points) <= count:
        return points, weights
    total = float(weights.sum())
    vector, before = np.sqrt(weights / total), np.zeros(len(points))
    diagonal, beside = np.zeros(count), np.zeros(count)
    for place in range(count):
        moved = points * vector
        diagonal[place] = vector @ moved
        moved -= diagonal[place] * vector
        moved -= beside[place - 1] * before
        beside[place] = math.sqrt(float(moved @ moved))
        if beside[place] < _FEWER_POINTS:
            count = place + 1
            break
        before, vector = vector, moved / beside[place]
    found, vectors = eigh_tridiagonal(diagonal[:count], beside[: count - 1])
    return np.asarray(found), np.asarray(total * vectors[0] ** 2)


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


def _released_cosines(noise: ZonalNoise, cosines: FloatArray, chances: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return points and weights of the cosine of theta and the released point, for those of theta and the true one."""
    t, mass = noise.law.rule(noise.dimension + 1)
    # A coordinate of a uniform point of the sphere across the true one.
    z, share = coordinate_of_direction(noise.dimension, _ACROSS)
    sines = np.sqrt(np.maximum(1 - t**2, 0.0))
    heights = np.sqrt(np.maximum(1 - cosines**2, 0.0))
    points = np.multiply.outer(cosines, t)[:, :, None] + np.multiply.outer(np.multiply.outer(heights, sines), z)
    weights = np.multiply.outer(np.multiply.outer(chances, mass), share)
    return np.clip(points.ravel(), -1.0, 1.0), weights.ravel()
