"""Where parameters may go: convex sets, and the minimum of a quadratic within them and near a point.

Steps of Newton's method have positive definite matrices, in any units. `minimise_in_ball` takes a quadratic that need
not be convex: the global minimum is found and checked by the conditions that characterise it.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import eigh
from scipy.optimize import brentq, lsq_linear

from symdebias._arrays import FloatArray, IntegerArray, real_array
from symdebias._domains import RADIUS
from symdebias.records import size_by
from symdebias.solvers.metric import of_curvatures, of_several_scores

# Newton's steps, after which halving alone would have arrived.
_STEPS = 200
# Eigenvalues of less than this share of the largest are rounding.
_ROUNDING = 1e-16
# Least eigenvalues above this, where the diagonal is 1, are more than rounding.
_DEFINITE = 1e-10
# What the conditions may be off by, in units of the size of their terms.
_ALLOWED = 1e-9


class Region:
    """A convex set of parameters: this one is everywhere."""

    description = ""

    def inside(self, theta: FloatArray) -> FloatArray:
        """Return theta, or a point of the set near it."""
        return theta

    def minimiser(self, theta: FloatArray, gradient: FloatArray, matrix: FloatArray) -> FloatArray:
        """Return the point x of the set that minimises gradient'(x - theta) + (x - theta)'matrix (x - theta)/2."""
        return theta - solved(matrix, gradient)

    def on_boundary(self, theta: FloatArray) -> bool:
        """Whether theta lies on the boundary."""
        return False

    def moves(self, direction: FloatArray) -> FloatArray:
        """Return a direction, without the parameters that cannot move."""
        return direction


@dataclass(frozen=True)
class Subspace(Region):
    """Everywhere for some of the parameters; the others stay where they are."""

    places: IntegerArray

    def minimiser(self, theta: FloatArray, gradient: FloatArray, matrix: FloatArray) -> FloatArray:
        """Return the minimum over these parameters."""
        found = theta.copy()
        found[self.places] -= solved(matrix[np.ix_(self.places, self.places)], gradient[self.places])
        return found

    def moves(self, direction: FloatArray) -> FloatArray:
        """Return a direction, without the others."""
        found = np.zeros_like(direction)
        found[self.places] = direction[self.places]
        return found


@dataclass(frozen=True)
class Ball(Region):
    """The set theta'theta <= radius^2."""

    radius: float
    description = "theta lies on the ball of radius="

    def inside(self, theta: FloatArray) -> FloatArray:
        """Return theta, or the point of the ball next to it."""
        size = float(np.linalg.norm(theta))
        return theta if size <= self.radius else np.asarray(theta * (self.radius / size))

    def minimiser(self, theta: FloatArray, gradient: FloatArray, matrix: FloatArray) -> FloatArray:
        """Return (matrix + mu)^-1 (matrix theta - gradient), with mu such that it lies in the ball."""
        # By the inverse, whose large eigenvalues are exact: a matrix in mixed units has small ones of its own.
        inverses, vectors = eigh(np.eye(len(theta)), matrix)
        sizes, right = 1 / np.maximum(inverses, _ROUNDING * inverses.max()), vectors.T @ (matrix @ theta - gradient)
        free = np.asarray(vectors @ right)
        if float(np.linalg.norm(free)) <= self.radius:
            return free
        shares, _ = on_unit_sphere(sizes, np.sqrt(sizes) * right / self.radius, 0.0)
        held = vectors @ (np.sqrt(sizes) * shares)
        return np.asarray(held * (self.radius / float(np.linalg.norm(held))))

    def on_boundary(self, theta: FloatArray) -> bool:
        """Whether theta is as long as the radius."""
        return float(theta @ theta) >= self.radius**2 * (1 - 1e-9)


@dataclass(frozen=True)
class Box(Region):
    """Bounds on each parameter."""

    lower: FloatArray
    upper: FloatArray
    description = "theta lies on the box of bounds="

    def inside(self, theta: FloatArray) -> FloatArray:
        """Return theta with the bounds in place of what exceeds them."""
        return np.clip(theta, self.lower, self.upper)

    def minimiser(self, theta: FloatArray, gradient: FloatArray, matrix: FloatArray) -> FloatArray:
        """Return the minimum by bounded least squares."""
        free = theta - solved(matrix, gradient)
        if np.all((free >= self.lower) & (free <= self.upper)):
            return np.asarray(free)
        units = _units(matrix)
        root = np.linalg.cholesky(matrix * np.multiply.outer(units, units))
        bounds = self.lower / units, self.upper / units
        wanted = lsq_linear(root.T, root.T @ (free / units), bounds, tol=1e-14)
        # The bounded solver stays inside by a hair: a parameter held by its bound is put on it.
        held = wanted.active_mask
        return np.where(held < 0, self.lower, np.where(held > 0, self.upper, wanted.x * units))

    def on_boundary(self, theta: FloatArray) -> bool:
        """Whether a parameter has reached a bound."""
        return bool(np.any((theta <= self.lower) | (theta >= self.upper)))


@dataclass(frozen=True)
class Near:
    """The set (theta - centre)'metric (theta - centre) <= reach^2, beside a region of the user's."""

    centre: FloatArray  # Of shape (q,): a point of the region.
    # Of shape (q, q): positive semidefinite: the second moments of released records, so that distances are those of
    # scores.
    metric: FloatArray
    reach: float  # How far, positive; infinite for no bound.
    region: Region  # What else holds.
    # How many scores a loss has: of several each one is measured by its own curvature, and a free-form loss, which has
    # none, by that of its parameters.
    scores: int = 1

    def metric_at(self, hessian: FloatArray) -> FloatArray:
        """Return the metric at a point of a mean corrected Hessian."""
        if self.scores == 1:
            return self.metric
        return of_several_scores(hessian, self.metric, self.scores) if self.scores else of_curvatures(hessian)

    def distance(self, theta: FloatArray) -> float:
        """Return the distance from the centre."""
        move = theta - self.centre
        # What is too far for its square is at an infinite distance.
        with np.errstate(over="ignore"):
            return size_by(self.metric, move)

    def minimiser(self, theta: FloatArray, gradient: FloatArray, matrix: FloatArray) -> FloatArray:
        """Return the minimum of the quadratic over both sets; see `Region.minimiser`."""
        free = self.region.minimiser(theta, gradient, matrix)
        if self.distance(free) <= self.reach:
            return free
        held = self.metric @ (theta - self.centre)

        def at(multiplier: float) -> FloatArray:
            return self.region.minimiser(theta, gradient + multiplier * held, matrix + multiplier * self.metric)

        # The distance falls as the multiplier rises, from units in which both matrices weigh the same.
        upper = float(np.trace(matrix)) / max(float(np.trace(self.metric)), 1e-300)
        while self.distance(at(upper)) > self.reach:
            upper *= 8

        def excess(multiplier: float) -> float:
            return self.distance(at(multiplier)) - self.reach

        return at(float(brentq(excess, 0.0, upper, xtol=1e-10 * upper, rtol=1e-10)))

    def on_boundary(self, theta: FloatArray) -> bool:
        """Whether theta is as far from the centre as it may be."""
        return self.distance(theta) >= self.reach * (1 - 1e-6)


def solved(matrix: FloatArray, wanted: FloatArray) -> FloatArray:
    """Return matrix^-1 wanted for a positive definite matrix, and one vector, or several as columns.

    It is solved in units in which the diagonal is about 1: in mixed units pivots are large columns, and parameters that
    nothing but the matrix holds, such as what all scores have in common, come out of rounding.
    """
    units = _units(matrix)
    return np.asarray((np.linalg.solve(matrix * np.multiply.outer(units, units), (wanted.T * units).T).T * units).T)


def _units(matrix: FloatArray) -> FloatArray:
    """Return units of parameters in which the diagonal of a positive definite matrix is about 1, powers of 2."""
    return np.asarray(np.exp2(-np.rint(np.log2(np.diag(matrix)) / 2)))


def region_of(radius: float | None, box: tuple[FloatArray, FloatArray] | None) -> Region:
    """Return the region of a ball's radius or of bounds; everywhere without either."""
    if radius is not None:
        return Ball(radius)
    return Region() if box is None else Box(*box)


@dataclass(frozen=True)
class BallMinimum:
    """The minimum of w'G w/2 - b'w over ||w|| <= radius.

    Attributes
    ----------
    w : array of shape (d,), float64
        The minimiser; where there are several, one of them: of least norm where the ball does not matter.
    multiplier : float
        mu >= 0 with (G + mu I) w = b and G + mu I positive semidefinite; 0 where the ball does not matter.
    on_ball : bool
        Whether ||w|| is the radius.

    Examples
    --------
    >>> import numpy as np
    >>> from symdebias.solvers import minimise_in_ball
    >>> found = minimise_in_ball(np.eye(2), np.array([3.0, 4.0]), radius=1.0)
    >>> found
    BallMinimum(w=array([0.6, 0.8]), multiplier=4.0, on_ball=True)
    """

    w: FloatArray
    multiplier: float
    on_ball: bool


def minimise_in_ball(matrix: ArrayLike, linear: ArrayLike, radius: float) -> BallMinimum:
    """Return the global minimum of w'G w/2 - b'w over ||w|| <= radius.

    Parameters
    ----------
    matrix : array of shape (d, d)
        G, symmetric; it need not be positive definite.
    linear : array of shape (d,)
        b.
    radius : float
        Of the ball, in [1e-100, 1e100].

    Raises
    ------
    ValueError, TypeError
        The arguments do not fit one another, or are not finite.
    ArithmeticError
        The conditions of the minimum do not hold at what was found.

    Notes
    -----
    w is the minimum if and only if (G + mu I) w = b with G + mu I positive semidefinite, mu >= 0, ||w|| <= radius and
    mu (radius - ||w||) = 0. In the eigenvectors of G the norm of w falls as mu grows, and mu is the root of
    1/||w(mu)|| = 1/radius, a nearly linear function: Newton's method within a bracket. In the hard case b has no part
    in the eigenvectors of the least eigenvalue g < 0, and at mu = -g the solution is shorter than the radius: then a
    multiple of such an eigenvector fills it up. The conditions are checked at the end.

    A matrix that is positive definite where its diagonal is 1 needs no eigenvectors: its equations are solved in units
    of the components, in which rounding is that of each, whatever units the parameters have.

    References
    ----------
    Moré & Sorensen 1983 (SIAM J. Sci. Stat. Comput. 4), Lemmas 2.1 and 2.3.

    Examples
    --------
    >>> minimise_in_ball([[2.0, 0.0], [0.0, 1.0]], [2.0, 0.0], 5.0)
    BallMinimum(w=array([1., 0.]), multiplier=0.0, on_ball=False)
    >>> minimise_in_ball([[-1.0, 0.0], [0.0, 1.0]], [0.0, 2.0], 2.0).multiplier
    1.0
    """
    G, b = real_array(matrix, "matrix"), real_array(linear, "linear")
    eta = RADIUS.check("radius", radius)
    if b.ndim != 1 or G.shape != (len(b), len(b)):
        raise ValueError(
            f"matrix has the shape {G.shape} and linear the shape {b.shape}. They must be (d, d) and (d,): pass the "
            "Hessian and the vector of one quadratic."
        )
    if not np.abs(G - G.T).max() <= 1e-10 * np.abs(G).max():
        raise ValueError("matrix is not symmetric. It must be equal to its transpose: pass (G + G.T)/2.")
    # In units in which nothing overflows: w of the radius, G or b of size 1.
    unit = max(float(np.abs(G).max()), float(np.abs(b).max()) / eta)
    if unit == 0:
        return BallMinimum(np.zeros(len(b)), 0.0, False)
    G, b = (G + G.T) / (2 * unit), b / (unit * eta)
    found = _by_components(G, b)
    if found is not None and not _off(G, b, *found, 0.0):
        w, multiplier = found
    else:
        values, vectors = np.linalg.eigh(G)
        w, multiplier = _solve(values, vectors.T @ b)
        w = vectors @ w
        if off := _off(G, b, w, multiplier, values[0]):
            raise ArithmeticError(
                f"the minimum over the ball was not found: {off}. Scale the parameters so that the curvatures are of "
                "one size."
            )
    on_ball = multiplier > 0 or bool(np.linalg.norm(w) >= 1 - 1e-12)
    return BallMinimum(w * eta, multiplier * unit, on_ball)


def _by_components(G: FloatArray, b: FloatArray) -> tuple[FloatArray, float] | None:
    """Return w and mu for the unit ball by equations in units of the components; None where G is not definite there."""
    diagonal = np.diag(G)
    if not diagonal.min() > 0:
        return None
    sizes = np.sqrt(diagonal)
    if not float(np.linalg.eigvalsh(G / sizes / sizes[:, None])[0]) > _DEFINITE:
        return None

    def solved(t: float, right: FloatArray) -> FloatArray:
        units = np.sqrt(diagonal + t)
        return np.asarray(np.linalg.solve((G + t * np.eye(len(b))) / units / units[:, None], right / units) / units)

    w = solved(0.0, b)
    if float(np.linalg.norm(w)) <= 1:
        return w, 0.0
    # The root of 1/||w(t)|| = 1 as in `on_unit_sphere`.
    low, high, t = 0.0, float(np.linalg.norm(b)), 0.0
    for _ in range(_STEPS):
        length = float(np.linalg.norm(w))
        low, high = (t, high) if length > 1 else (low, t)
        if abs(length - 1) <= 1e-15 or not high - low > 1e-16 * high:
            break
        t += (length - 1) * length**2 / float(w @ solved(t, w))
        if not low < t < high:
            t = math.sqrt(low * high) if low > 0 else high / 16
        w = solved(t, b)
    return w / float(np.linalg.norm(w)), t


def _solve(values: FloatArray, b: FloatArray) -> tuple[FloatArray, float]:
    """Return w in eigenvectors, and mu, for the unit ball."""
    # What rounding leaves of an eigenvalue 0, and of a part of b that is none.
    tiny = 1e-14 * len(b)
    least = float(values[0])
    start = -least if least < 0 else 0.0
    shifted = np.maximum(values + start, 0.0)
    flat = shifted <= tiny * max(1.0, float(np.abs(values).max()))
    if least < -tiny or flat.any():
        # At mu = start the matrix is singular.
        solvable = bool((np.abs(b[flat]) <= tiny * np.linalg.norm(b)).all())
        w = np.divide(b, shifted, out=np.zeros_like(b), where=~flat)
        length = float(np.linalg.norm(w))
        if solvable and length <= 1:
            if least < -tiny:
                w[int(np.argmax(flat))] += math.sqrt(max(0.0, 1 - length * length))
                return w, start
            return w, 0.0
    else:
        w = b / shifted
        if np.linalg.norm(w) <= 1:
            return w, 0.0
    return on_unit_sphere(shifted, b, start)


def on_unit_sphere(shifted: FloatArray, b: FloatArray, start: float) -> tuple[FloatArray, float]:
    """Return w = b/(shifted + t) of length 1, and mu = start + t.

    Parameters
    ----------
    shifted : array of shape (d,), float64
        Non-negative; with t = 0 the vector w is longer than 1.
    b : array of shape (d,), float64
        The linear part, not 0.
    start : float
        What t is added to.
    """
    low, high = max(0.0, float(np.max(np.abs(b) - shifted))), float(np.linalg.norm(b))
    t = low if low > 0 else high * 1e-8
    for _ in range(_STEPS):
        w = b / (shifted + t)
        length = float(np.linalg.norm(w))
        if length > 1:
            low = t
        else:
            high = t
        if abs(length - 1) <= 1e-15 or not high - low > 1e-16 * high:
            break
        # d||w||/dt = -sum w^2/(shifted + t)/||w||
        step = (length - 1) * length**2 / float(np.sum(w * w / (shifted + t)))
        t += step
        if not low < t < high:
            t = math.sqrt(low * high) if low > 0 else high / 16
    w = b / (shifted + t)
    return w / float(np.linalg.norm(w)), start + t


def _off(G: FloatArray, b: FloatArray, w: FloatArray, multiplier: float, least: float) -> str:
    """Return which condition of the minimum over the unit ball does not hold, and by how much; empty where all do."""
    length = float(np.linalg.norm(w))
    bent = G @ w
    terms = max(float(np.linalg.norm(bent)) + multiplier * length + float(np.linalg.norm(b)), 1e-300)
    off = {
        "stationarity": float(np.linalg.norm(bent + multiplier * w - b)) / terms,
        "the ball": length - 1,
        "curvature": -(least + multiplier),
        "complementarity": multiplier * abs(1 - length) / (1 + multiplier),
        "the sign of the multiplier": -multiplier,
    }
    return next((f"{name} is off by {value:.3g}" for name, value in off.items() if not value <= _ALLOWED), "")
