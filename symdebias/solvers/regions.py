"""Where parameters may go: convex sets, and steps to the minimum of a quadratic within them and near a point."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import eigh
from scipy.optimize import brentq, lsq_linear

FloatArray = np.ndarray[Any, np.dtype[np.float64]]

ON_BALL = "theta lies on the ball of radius="


class Region:
    """A convex set of parameters."""

    description = ""

    def inside(self, theta: FloatArray) -> FloatArray:
        """Return a point of the set near theta."""
        raise NotImplementedError

    def minimiser(self, theta: FloatArray, gradient: FloatArray, matrix: FloatArray) -> FloatArray:
        """Return the point x of the set that minimises gradient'(x - theta) + (x - theta)'matrix (x - theta)/2."""
        raise NotImplementedError

    def on_boundary(self, theta: FloatArray) -> bool:
        """Whether theta lies on the boundary."""
        raise NotImplementedError


class Everywhere(Region):
    """No bound."""

    def inside(self, theta: FloatArray) -> FloatArray:
        """Return theta."""
        return theta

    def minimiser(self, theta: FloatArray, gradient: FloatArray, matrix: FloatArray) -> FloatArray:
        """Return the minimum."""
        return np.asarray(theta - np.linalg.solve(matrix, gradient))

    def on_boundary(self, theta: FloatArray) -> bool:
        """Return False."""
        return False


@dataclass(frozen=True)
class Ball(Region):
    """The set theta'theta <= radius^2."""

    radius: float
    description = ON_BALL

    def inside(self, theta: FloatArray) -> FloatArray:
        """Return theta, or the point of the ball next to it."""
        size = float(np.linalg.norm(theta))
        return theta if size <= self.radius else np.asarray(theta * (self.radius / size))

    def minimiser(self, theta: FloatArray, gradient: FloatArray, matrix: FloatArray) -> FloatArray:
        """Return (matrix + mu)^-1 (matrix theta - gradient), with mu such that it lies in the ball."""
        weights, vectors = eigh(np.eye(len(theta)), matrix)
        weights = np.maximum(weights, 0.0)
        right = vectors.T @ (matrix @ theta - gradient)

        def excess(multiplier: float) -> float:
            return float(np.sum(weights * (right / (1 + multiplier * weights)) ** 2)) - self.radius**2

        multiplier = 0.0
        if excess(0.0) > 0:
            upper = 1.0 / weights.max()
            while excess(upper) > 0:
                upper *= 4
            multiplier = float(brentq(excess, 0.0, upper, xtol=1e-14 * upper, rtol=1e-14))
        return np.asarray(vectors @ (right / (1 + multiplier * weights)))

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
        free: FloatArray = theta - np.linalg.solve(matrix, gradient)
        if np.all((free >= self.lower) & (free <= self.upper)):
            return np.asarray(free)
        root = np.linalg.cholesky(matrix)
        wanted = lsq_linear(root.T, root.T @ free, (self.lower, self.upper), tol=1e-14)
        # The bounded solver stays inside by a hair: a parameter held by its bound is put on it.
        held = wanted.active_mask
        return np.where(held < 0, self.lower, np.where(held > 0, self.upper, wanted.x))

    def on_boundary(self, theta: FloatArray) -> bool:
        """Whether a parameter has reached a bound."""
        return bool(np.any((theta <= self.lower) | (theta >= self.upper)))


@dataclass(frozen=True)
class Near:
    """The set (theta - centre)'metric (theta - centre) <= reach^2, beside a region of the user's.

    Attributes
    ----------
    centre : array of shape (q,), float64
        A point of the region.
    metric : array of shape (q, q), float64
        Positive semidefinite: the second moments of released records, so that distances are those of scores.
    reach : float
        How far, positive; infinite for no bound.
    region : Region
        What else holds.
    """

    centre: FloatArray
    metric: FloatArray
    reach: float
    region: Region

    def distance(self, theta: FloatArray) -> float:
        """Return the distance from the centre."""
        move = theta - self.centre
        return math.sqrt(max(float(move @ self.metric @ move), 0.0))

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

        found = float(brentq(excess, 0.0, upper, xtol=1e-10 * upper, rtol=1e-10))
        return at(found)

    def on_boundary(self, theta: FloatArray) -> bool:
        """Whether theta is as far from the centre as it may be."""
        return self.distance(theta) >= self.reach * (1 - 1e-6)


def region_of(radius: float | None, box: tuple[FloatArray, FloatArray] | None) -> Region:
    """Return the region of a ball's radius or of bounds; everywhere without either."""
    if radius is not None:
        return Ball(radius)
    return Everywhere() if box is None else Box(*box)
