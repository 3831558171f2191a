"""Methods of the literature on measurement error, to compare a corrected fit with."""

from symdebias.solvers.measurement_error import (
    Baseline,
    Comparison,
    ComparisonRow,
    compare_methods,
    conditional_score,
    monte_carlo_score,
    naive,
    regression_calibration,
    simex,
)

__all__ = [
    "Baseline",
    "Comparison",
    "ComparisonRow",
    "compare_methods",
    "conditional_score",
    "monte_carlo_score",
    "naive",
    "regression_calibration",
    "simex",
]
