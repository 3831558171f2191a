"""What output and objective perturbation share: a convex problem with public bounds, and its minimiser in a ball."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from symdebias._arrays import FloatArray
from symdebias._domains import RADIUS, check_choice
from symdebias.bounds.slopes import curvature_range, slope_bound
from symdebias.exceptions import DivergenceError
from symdebias.losses import Loss
from symdebias.privacy.guarantee import ADJACENCIES
from symdebias.records import Records
from symdebias.solvers.central.records import PublicBounds, true_records
from symdebias.solvers.regions import Ball, Region, region_of

# Bounds are products of numbers that were rounded up themselves.
_UP = 1 + 2.0**-50
_STEPS, _HALVINGS = 200, 45
# Of the descent that the slope promises, a step must bring this share.
_SHARE_OF_DESCENT = 1e-4


@dataclass(frozen=True)
class ConvexProblem:
    """True records of a convex loss, within public bounds."""

    records: Records
    bounds: PublicBounds  # What is declared of them.
    region: Region  # Where theta may be.
    score_radius: float | None  # The bound on the size of a score; None where theta is not bounded.
    slope: float  # G: each record's loss is G-Lipschitz in theta.
    curvature: float  # The bound on the eigenvalues of the Hessian of a record's loss in theta.


def convex_problem(
    loss: Loss,
    X: Any,
    y: Any,
    *,
    record_radius: Any,
    target_bounds: Any,
    fit_intercept: bool,
    adjacency: str,
    radius: float | None,
    why: str,
) -> ConvexProblem:
    """Prove that a loss is convex and smooth on the domain that public bounds declare; messages say `why` it must be.

    Raises
    ------
    TypeError, ValueError
        An argument does not fit, or the loss is not convex or has a kink.
    """
    record_radius = RADIUS.check("record_radius", record_radius)
    bounds = PublicBounds.checked(record_radius, target_bounds, fit_intercept=fit_intercept)
    records = true_records(loss, X, y, bounds)
    check_choice("adjacency", adjacency, ADJACENCIES)
    radius = None if radius is None else RADIUS.check("radius", radius)
    loss, norm = records.correction.loss, bounds.norm
    score_radius = None if radius is None else radius * norm * _UP
    domain: dict[str, Any] = {"score_radius": score_radius, "target_bounds": bounds.target}
    slope = slope_bound(loss, **domain)
    low, high = curvature_range(loss, **domain)
    name = f"the {loss.name} loss" if loss.name else f"the loss {loss.expression}"
    if not low >= 0:
        raise ValueError(
            f"{name} was not proved to be convex: its curvature may be as low as {low:.3g} within the declared bounds. "
            f"{why} Use a convex loss, such as logistic(), or dp_lssgd, which needs none."
        )
    if not high < math.inf:
        raise ValueError(
            f"{name} has a kink, where its curvature is infinite. {why} Use a loss without one, such as "
            "squared_hinge()."
        )
    region = region_of(radius, None)
    return ConvexProblem(records, bounds, region, score_radius, slope * norm * _UP, high * norm * norm * _UP)


def minimiser(problem: ConvexProblem, *, ridge: float, linear: FloatArray | None, tolerance: float) -> FloatArray:
    """Minimise the mean loss + ridge/2 ||theta||^2 + linear'theta over the region, by Newton's method.

    The ridge is positive. The gradient, less its part normal to the ball on the sphere, is at most `tolerance` long at
    the end. So theta is within tolerance/ridge of the minimiser: with the gradient g and a normal n of the region
    strong convexity gives ridge ||theta - theta*||^2 <= (g + n)'(theta - theta*).

    Raises
    ------
    DivergenceError
        The gradient did not become as small; the message says nothing of the records.
    """
    records, region = problem.records, problem.region
    length = records.correction.number_of_parameters
    derivatives, _ = records.derivatives_or_differences(np.eye(length))
    tilt = np.zeros(length) if linear is None else linear

    def at(theta: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        mean = derivatives(theta)
        value = mean.loss + 0.5 * ridge * float(theta @ theta) + float(tilt @ theta)
        return value, mean.gradient + ridge * theta + tilt, mean.hessian + ridge * np.eye(length)

    theta = np.zeros(length)
    value, gradient, hessian = at(theta)
    residual = _residual(theta, gradient, region)
    for _ in range(_STEPS):
        if residual <= tolerance:
            return theta
        try:
            goal = region.minimiser(theta, gradient, hessian)
        except np.linalg.LinAlgError:
            break
        descent = float(gradient @ (goal - theta))
        share = 1.0
        for _ in range(_HALVINGS):
            point = goal if share == 1.0 else theta + share * (goal - theta)
            after = at(point)
            closer = _residual(point, after[1], region)
            # Near the end the values are equal to rounding, and the gradient tells.
            if after[0] <= value + _SHARE_OF_DESCENT * share * descent or (share == 1.0 and closer <= residual / 2):
                break
            share /= 2
        else:
            break
        theta, (value, gradient, hessian), residual = point, after, closer
    raise DivergenceError(
        "Newton's method did not find the minimiser to the accuracy that the guarantee needs. Scale the columns by "
        "public numbers, raise the penalty, or bound theta with radius=."
    )


def _residual(theta: FloatArray, gradient: FloatArray, region: Region) -> float:
    """Return the length of the gradient; on the sphere, of what no outward normal cancels.

    The sphere is taken to rounding, more strictly than `Ball.on_boundary` does: what the noise covers rests on it.
    """
    size = float(np.linalg.norm(theta))
    if isinstance(region, Ball) and size >= region.radius * (1 - 1e-15):
        gradient = gradient - min(0.0, float(gradient @ theta) / size**2) * theta
    return float(np.linalg.norm(gradient))
