"""Solvers on corrected losses; every one returns a `Fit`."""

from typing import TYPE_CHECKING

from symdebias import _optional
from symdebias.solvers import step_sizes
from symdebias.solvers.combinations import Combinations
from symdebias.solvers.fit import Fit, History
from symdebias.solvers.m_estimation import m_estimate
from symdebias.solvers.regions import BallMinimum, minimise_in_ball
from symdebias.solvers.sgd import sgd
from symdebias.solvers.smoothing import laplacian_smoothing, smoothing_beta, smoothing_gamma

if TYPE_CHECKING:
    from symdebias.solvers import literature
    from symdebias.solvers.central.dp_lssgd import dp_lssgd
    from symdebias.solvers.central.input import input_perturbation
    from symdebias.solvers.central.objective import objective_perturbation
    from symdebias.solvers.central.output import output_perturbation
    from symdebias.solvers.replicates import Replicates, sgd_replicates
else:  # what few fits to released records need
    __getattr__ = _optional.on_demand(
        __name__,
        {
            "central": ("dp_lssgd", "input_perturbation", "objective_perturbation", "output_perturbation"),
            "replicates": ("Replicates", "sgd_replicates"),
        },
        rooms=("literature",),
    )

__all__ = [
    "BallMinimum",
    "Combinations",
    "Fit",
    "History",
    "Replicates",
    "dp_lssgd",
    "input_perturbation",
    "laplacian_smoothing",
    "literature",
    "m_estimate",
    "minimise_in_ball",
    "objective_perturbation",
    "output_perturbation",
    "sgd",
    "sgd_replicates",
    "smoothing_beta",
    "smoothing_gamma",
    "step_sizes",
]
