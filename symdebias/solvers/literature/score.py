"""Fits by a score whose mean is zero at the true parameters: a root near that of regression calibration."""

import functools
from typing import Any

import numpy as np

from symdebias._arrays import FloatArray
from symdebias.exceptions import DivergenceError
from symdebias.solvers.fit import Fit
from symdebias.solvers.literature.equations import Measured, RowsAt, influence_of, solved
from symdebias.solvers.literature.regression_calibration import calibrated

# A root of a score this many times as long as the pilot is another one than the consistent one.
_FARTHEST = 3.0


def score_fit(measured: Measured, rows: RowsAt, l2: float, **how: Any) -> Fit:
    """Solve mean rows(theta) + l2 theta = 0 from regression calibration, `rows` scores of some records, shape (m, q).

    Raises
    ------
    DivergenceError
        There is no root near the pilot.
    """
    pilot, _, problem = calibrated(measured, l2, errors=False)

    def mean_of(theta: FloatArray) -> FloatArray:
        return np.asarray(problem.over_records(lambda part: (rows(theta, part).sum(axis=0),))[0] / len(measured))

    def equation(theta: FloatArray) -> FloatArray:
        return mean_of(theta) + problem.penalty * theta

    theta, slope = problem.root_of(equation, pilot)
    length = float(np.linalg.norm(theta * problem.units))
    near = _FARTHEST * max(problem.unit, float(np.linalg.norm(pilot * problem.units)))
    if not length <= near:
        raise DivergenceError(
            f"the root at ||theta|| = {np.linalg.norm(theta):.4g} lies far from that of regression calibration at "
            f"{np.linalg.norm(pilot):.4g}: it is not the consistent one. Use more records, or release with less noise."
        )

    def changes(step: FloatArray, part: slice) -> FloatArray:
        return solved(slope, rows(theta + step / 2, part) - rows(theta - step / 2, part))

    noised = changes if measured.covariance.any() else None
    with np.errstate(all="ignore"):
        influence = influence_of(functools.partial(rows, theta), slope, mean_of(theta))
        return problem.fit(measured.plain, theta, influence, changes=noised, **how)
