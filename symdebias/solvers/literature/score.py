"""Fits by a score whose mean is zero at the true parameters: a root near that of regression calibration."""

from typing import Any

import numpy as np

from symdebias._arrays import FloatArray
from symdebias.exceptions import DivergenceError
from symdebias.solvers.fit import Fit
from symdebias.solvers.literature.equations import Equation, Measured, influence_of
from symdebias.solvers.literature.regression_calibration import calibrated

# A root of a score this many times as long as the pilot is another one than the consistent one.
_FARTHEST = 3.0


def score_fit(measured: Measured, rows: Equation, l2: float, **how: Any) -> Fit:
    """Solve mean rows(theta) + l2 theta = 0 from regression calibration, `rows` the records' scores, shape (n, q).

    Raises
    ------
    DivergenceError
        There is no root near the pilot.
    """
    pilot, _, problem = calibrated(measured, l2, errors=False)

    def equation(theta: FloatArray) -> FloatArray:
        return np.asarray(rows(theta).mean(axis=0) + problem.penalty * theta)

    theta, slope = problem.root_of(equation, pilot)
    length = float(np.linalg.norm(theta * problem.units))
    near = _FARTHEST * max(problem.unit, float(np.linalg.norm(pilot * problem.units)))
    if not length <= near:
        raise DivergenceError(
            f"the root at ||theta|| = {np.linalg.norm(theta):.4g} lies far from that of regression calibration at "
            f"{np.linalg.norm(pilot):.4g}: it is not the consistent one. Use more records, or release with less noise."
        )

    def changes(step: FloatArray) -> FloatArray:
        with np.errstate(all="ignore"):
            return influence_of(rows(theta + step / 2) - rows(theta - step / 2), slope)

    with np.errstate(all="ignore"):
        influence = influence_of(rows(theta), slope)
    noised = changes if measured.covariance.any() else None
    return problem.fit(measured.plain, theta, influence, changes=noised, **how)
