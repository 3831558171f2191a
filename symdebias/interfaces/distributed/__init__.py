"""Records on many machines, in the partitions of Dask collections: released, fitted and judged where they lie.

Each function takes data frames or arrays of Dask in place of those in memory, and is otherwise called as the function
of `symdebias` with the same name. It runs on whatever scheduler Dask is set to: threads of this process by default, the
workers of a cluster where there is a ``dask.distributed.Client``.
"""

from symdebias.interfaces.distributed.evaluating import (
    calibration_curve,
    cross_validate,
    evaluate,
    evaluate_all,
    roc_curve,
)
from symdebias.interfaces.distributed.fitting import m_estimate, sgd
from symdebias.interfaces.distributed.releasing import load, privatize

__all__ = [
    "calibration_curve",
    "cross_validate",
    "evaluate",
    "evaluate_all",
    "load",
    "m_estimate",
    "privatize",
    "roc_curve",
    "sgd",
]
