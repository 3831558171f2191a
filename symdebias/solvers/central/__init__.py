"""What a trusted collector runs on true records: noise comes in the training or with its result."""

from symdebias.solvers.central.dp_lssgd import dp_lssgd
from symdebias.solvers.central.input import input_perturbation
from symdebias.solvers.central.objective import objective_perturbation
from symdebias.solvers.central.output import output_perturbation

__all__ = ["dp_lssgd", "input_perturbation", "objective_perturbation", "output_perturbation"]
