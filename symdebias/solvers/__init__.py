"""Solvers on corrected losses; every one returns a `Fit`."""

from symdebias.solvers.central import (
    dp_lssgd,
    input_perturbation,
    objective_perturbation,
    output_perturbation,
)
from symdebias.solvers.fit import Fit, History
from symdebias.solvers.literature import (
    Comparison,
    ComparisonRow,
    compare_methods,
    conditional_score,
    monte_carlo_score,
    naive,
    regression_calibration,
    simex,
)
from symdebias.solvers.m_estimation import m_estimate
from symdebias.solvers.quadratic_pilot import QuadraticPilot, quadratic_pilot
from symdebias.solvers.quadratic_statistics import QuadraticEstimate, QuadraticStatistics, released_vectors
from symdebias.solvers.regions import BallMinimum, minimise_in_ball
from symdebias.solvers.sgd import sgd
from symdebias.solvers.smoothing import laplacian_smoothing, smoothing_beta, smoothing_gamma
from symdebias.solvers.step_sizes import StepSize, constant, inverse_square_root, inverse_time

__all__ = [
    "BallMinimum",
    "Comparison",
    "ComparisonRow",
    "Fit",
    "History",
    "QuadraticEstimate",
    "QuadraticPilot",
    "QuadraticStatistics",
    "StepSize",
    "compare_methods",
    "conditional_score",
    "constant",
    "dp_lssgd",
    "input_perturbation",
    "inverse_square_root",
    "inverse_time",
    "laplacian_smoothing",
    "m_estimate",
    "minimise_in_ball",
    "monte_carlo_score",
    "naive",
    "objective_perturbation",
    "output_perturbation",
    "quadratic_pilot",
    "regression_calibration",
    "released_vectors",
    "sgd",
    "simex",
    "smoothing_beta",
    "smoothing_gamma",
]
