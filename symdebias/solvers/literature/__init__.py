"""The methods of the literature on measurement error, for an honest comparison with a corrected fit.

No correction, regression calibration, SIMEX, the conditional score and the Monte-Carlo corrected score, each on the
records and the release that `symdebias.debias` takes. Regression calibration and SIMEX minimise the declared loss with
the noise of the labels undone exactly, and approximate what the noise of the features does. The two scores solve an
equation whose mean is zero at the true parameters. `compare_methods` runs them beside a corrected fit.
"""

from symdebias.solvers.literature.comparison import Comparison, ComparisonRow, compare_methods
from symdebias.solvers.literature.conditional_score import conditional_score
from symdebias.solvers.literature.monte_carlo_score import monte_carlo_score
from symdebias.solvers.literature.naive import naive
from symdebias.solvers.literature.regression_calibration import regression_calibration
from symdebias.solvers.literature.simex import simex

__all__ = [
    "Comparison",
    "ComparisonRow",
    "compare_methods",
    "conditional_score",
    "monte_carlo_score",
    "naive",
    "regression_calibration",
    "simex",
]
