"""Quadratic losses: what a record releases, the sums that a fit needs, and the quadratic pilot."""

from symdebias.bounds import QuadraticBounds, QuadraticLoss, as_quadratic, released_loss
from symdebias.solvers.quadratic_pilot import QuadraticPilot, quadratic_pilot
from symdebias.solvers.quadratic_statistics import QuadraticEstimate, QuadraticStatistics, released_vectors

__all__ = [
    "QuadraticBounds",
    "QuadraticEstimate",
    "QuadraticLoss",
    "QuadraticPilot",
    "QuadraticStatistics",
    "as_quadratic",
    "quadratic_pilot",
    "released_loss",
    "released_vectors",
]
