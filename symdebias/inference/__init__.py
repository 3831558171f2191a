"""Standard errors, intervals and tests from arrays: sandwich covariance, bias-aware intervals, batch means.

Nothing here knows a loss or a release: what goes in are Hessians, outer products of gradients and iterates.
"""

from symdebias.inference.covariances import batch_means, require_variances, sandwich
from symdebias.inference.critical import (
    critical_value,
    critical_values,
    skewed_reaches,
    skewness_reaching,
    two_sided_pvalue,
)
from symdebias.inference.deciding import (
    FEWEST_DECIDE,
    MANY_DECIDE,
    deciding_each,
    freedom_of_few,
    freedom_of_records,
    skewness_of_records,
    two_sides,
)
from symdebias.inference.parameters import Inference
from symdebias.inference.wald import WaldTest, wald_test

__all__ = [
    "FEWEST_DECIDE",
    "MANY_DECIDE",
    "Inference",
    "WaldTest",
    "batch_means",
    "critical_value",
    "critical_values",
    "deciding_each",
    "freedom_of_few",
    "freedom_of_records",
    "require_variances",
    "sandwich",
    "skewed_reaches",
    "skewness_of_records",
    "skewness_reaching",
    "two_sided_pvalue",
    "two_sides",
    "wald_test",
]
