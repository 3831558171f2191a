"""Solvers on corrected losses; every one returns a `Fit`."""

from symdebias.solvers.fit import Fit, History
from symdebias.solvers.m_estimation import m_estimate
from symdebias.solvers.pilot import Pilot, quadratic_pilot
from symdebias.solvers.sgd import sgd
from symdebias.solvers.step_sizes import StepSize, constant, inverse_square_root, inverse_time

__all__ = [
    "Fit",
    "History",
    "Pilot",
    "StepSize",
    "constant",
    "inverse_square_root",
    "inverse_time",
    "m_estimate",
    "quadratic_pilot",
    "sgd",
]
