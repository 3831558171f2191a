"""Fits to records in the partitions of a Dask collection: by sums over partitions, and by averages of their fits."""

import time
from typing import Any

from numpy.typing import ArrayLike

from symdebias.checks.records import refuse_scaled
from symdebias.corrected import CorrectedLoss
from symdebias.interfaces.distributed.records import PartedRecords
from symdebias.solvers.fit import Fit
from symdebias.solvers.m_estimation import checked_options, estimated


def m_estimate(
    corrected: CorrectedLoss,
    X: Any,
    y: Any,
    *,
    l2: float = 0.0,
    radius: float | None = None,
    bounds: Any = None,
    start: ArrayLike | None = None,
    sample_weight: Any = None,
    surrogate_radius: float | None = None,
) -> Fit:
    l2 = checked_options(corrected, l2=l2, radius=radius, bounds=bounds, surrogate_radius=surrogate_radius)
    began = time.perf_counter()
    checked = PartedRecords.checked(corrected, X, y, sample_weight)
    refuse_scaled(corrected, checked.matrix)
    return estimated(
        corrected, checked, l2=l2, radius=radius, bounds=bounds, start=start, surrogate_radius=surrogate_radius,
        began=began,
    )  # fmt: skip
