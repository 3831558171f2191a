"""Bounds on declared expressions: suprema of slopes and curvatures, quadratic losses, enclosures on cells.

What is called "at most" rests on interval arithmetic (`intervals`), never on a grid of points. What is only searched
for is in `search`, and is a lower bound.
"""

from symdebias.bounds.quadratic import QuadraticBounds, QuadraticLoss, as_quadratic, released_loss
from symdebias.bounds.slopes import curvature_range, slope_bound, slope_ranges

__all__ = [
    "QuadraticBounds",
    "QuadraticLoss",
    "as_quadratic",
    "curvature_range",
    "released_loss",
    "slope_bound",
    "slope_ranges",
]
