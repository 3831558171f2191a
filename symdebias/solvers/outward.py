"""What records say of parameters farther out than the estimate: whether score tests tell them from it.

Where the noise is undone by factors that grow with the parameters, the variance of the corrected score does so too. Far
enough out every parameter passes a score test, and the standard errors at the estimate say nothing of that. Where all
of them pass, from the estimate on, small parameters with small standard errors are what unlucky records of large ones
look like, and no single fit tells which it is: intervals then have no end away from 0.
"""

import math

import numpy as np

from symdebias._arrays import FloatArray
from symdebias.records import Derivatives, Records
from symdebias.solvers.held import frame_of
from symdebias.solvers.newton import is_allowed

# Moves outwards, in halves of the length of theta or in pairs of its standard errors, whichever is more; the one that
# tells most fits in the first pass comes first. A score of so many standard errors tells a parameter from the root.
_MOVES, _TOLD_APART = (2.0, 1.0, 4.0, 8.0), 1.96
# Curvatures of so many standard errors are those of fits that the noise does not rule anywhere near.
_CERTAIN_CURVATURE = 20.0


def longer_parameters(
    records: Records,
    theta: FloatArray,
    penalty: FloatArray,
    metric: FloatArray,
    covariance: FloatArray,
    curvature: float | None,
) -> tuple[float, str] | None:
    """Return the largest statistic of tests that tell no longer parameters from the estimate, and a note; else None.

    Parameters
    ----------
    records : Records
        The records, under a correction that is exact.
    theta : array of shape (Q,), float64
        The root of the mean corrected score.
    penalty : array of shape (Q,), float64
        l2 for each parameter.
    metric : array of shape (Q, Q), float64
        The second moments of released records, in which lengths are taken.
    covariance : array of shape (Q, Q), float64
        That of theta.
    curvature : float or None
        The least curvature at theta in its own standard errors. Nothing is looked at where it is large or not known.

    Notes
    -----
    The score is that in the direction of theta (a parameter that is held stays), with its standard error at the
    parameter that is tested (a score test of one degree of freedom). The set of parameters that pass is a confidence
    set whatever the curvature is (Anderson & Rubin 1949, Annals of Mathematical Statistics 20); where all longer ones
    do, it has no outer end. Tests next to the estimate say less of that than they seem to: they reject wherever there
    is a minimum to be found, and of records of long parameters that have one no others are fitted.
    """
    frame = frame_of(records)
    own = frame.direction(frame.reported(theta))
    squared = float(own @ metric @ own)
    if curvature is None or curvature > _CERTAIN_CURVATURE or not squared > 0:
        return None
    length = math.sqrt(squared)
    outwards = own / length
    along = metric @ outwards
    step = max(length / 2, 2 * math.sqrt(max(float(along @ covariance @ along), 0.0)))
    # Of the Hessian nothing is asked.
    derivatives, _ = records.derivatives_or_differences(metric, roughly=True)
    largest = 0.0
    for times in _MOVES:
        moved = theta + times * step * outwards
        if is_allowed(records.correction, moved):
            largest = max(largest, _score(derivatives(moved, True), moved, penalty, outwards, records.total))
        if largest >= _TOLD_APART:
            return None
    return largest, (
        f"a score test tells theta from nothing up to {1 + max(_MOVES) * step / length:.2g} times as long (at most "
        f"{largest:.2g} standard errors): intervals have no end away from 0, and none at all where 0 is within them; "
        "expected_fit says what records of such a release can tell"
    )


def _score(found: Derivatives, theta: FloatArray, penalty: FloatArray, direction: FloatArray, total: float) -> float:
    """Return the mean score in a direction, in its own standard errors; 0 where it is not finite, or underflows."""
    with np.errstate(all="ignore"):
        mean = float(direction @ (found.gradient + penalty * theta))
        squared = float(direction @ found.meat @ direction) / total
    size = mean / math.sqrt(squared) if squared > 0 else 0.0
    return size if math.isfinite(size) else 0.0
