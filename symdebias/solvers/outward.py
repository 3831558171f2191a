"""What records say of parameters farther out than the estimate: whether score tests tell them from it.

Where strong noise of labels is undone, small parameters with small standard errors are what unlucky records of large
ones look like, of which most have no minimum at all. No single fit tells which it is. What can be told is whether score
tests rule longer parameters out. Where they do not, from the estimate on, intervals have no end away from 0.

An intercept does not grow with the slopes: it goes to where it is best for them. At s times its own value it would be
told from the estimate by itself, and what that says of the slopes would change with the middle of the columns. So it is
with what a free-form loss has without features. Of several scores all slopes are longer together.
"""

import math
from collections.abc import Callable

import numpy as np
from scipy.linalg import null_space

from symdebias._arrays import FloatArray, IntegerArray
from symdebias.correction import Correction
from symdebias.losses.constants import without_features
from symdebias.losses.shifts import ignores_shifts
from symdebias.records import Derivatives, Records, size_by
from symdebias.solvers.held import frame_of
from symdebias.solvers.metric import of_curvatures
from symdebias.solvers.newton import is_allowed

# Moves outwards, in halves of the length of theta or in pairs of its standard errors, whichever is more; the one that
# tells most fits in the first pass comes first. A score of so many standard errors tells a parameter from the root.
_MOVES, _TOLD_APART = (2.0, 1.0, 4.0, 8.0), 1.96
# Newton's steps of intercepts and the like, on the records that a fit is tested on and then on all, to a score of a
# standard error: by how much they are still off is taken out of the score that is tested, to first order.
_STEPS, _STEPS_OF_ALL = 12, 3
# Of the moves to where a correction has no finite variance any more.
_HALVINGS = 12
# How much faster than the parameters scores may grow where it is said that nothing tells longer ones, over moves of up
# to so many. Scores of labels that are noised grow 1.1 times as fast at the most, those of columns that are 1.2
# times and more in 19 of 20 draws, 3 times as a rule.
_NEAR, _MOST_GROWN = 2.0, 1.15
# Curvatures of so many standard errors are those of fits that the noise does not rule anywhere near. The least one of a
# free-form loss is that beside its own curvatures: of the same records six times as many of them as a rule.
_CERTAIN_CURVATURE, _CERTAIN_OF_ITS_OWN = 20.0, 120.0


def longer_parameters(
    records: Records,
    theta: FloatArray,
    at_theta: Derivatives,
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
    at_theta : Derivatives
        Those there, with the outer products of gradients.
    penalty : array of shape (Q,), float64
        l2 for each parameter.
    metric : array of shape (Q, Q), float64
        The second moments of released records, in which lengths are taken; beside an intercept without their means.
        A free-form loss has its curvatures for them.
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
    is a minimum to be found, and of records of long parameters that have one no others are fitted. Where the correction
    has finite variance up to some length, as under Laplace noise, the longest ones are of that: no test is made beyond.

    Noise of columns is undone by factors that grow faster than the parameters. Where it rules the scores, a small
    parameter has little of it: its own score tells it from longer ones, whatever theirs do, and intervals hold.
    Nothing is said there. Noise of labels is the same at all parameters, and scores under it grow like these at most.

    With intercepts the slopes alone are longer, by the second moments of columns less their means. The intercepts are
    at their minimum for these slopes, and the score is the effective one, less what is explained by theirs. Where a
    loss ignores shifts, as softmax does, they keep their sum over the scores: along it there is no minimum.
    """
    loss, frame = records.correction.loss, frame_of(records)
    if curvature is None or curvature > (_CERTAIN_CURVATURE if loss.scores else _CERTAIN_OF_ITS_OWN):
        return None
    places = parameters_apart(records.correction)
    if not loss.scores:
        metric = of_curvatures(at_theta.hessian + np.diag(penalty))
    beside = _directions_of(places, len(theta), len(loss.scores) if ignores_shifts(loss) else 1)
    own = frame.direction(frame.reported(theta)).copy()
    own[places] = 0.0
    # The direction that leaves mean scores where they are; of it and the metric columns know no middle.
    own = _apart(metric, own, beside)
    bent = metric @ beside
    metric_apart = metric - bent @ np.linalg.solve(beside.T @ bent, bent.T)
    squared = float(own @ metric_apart @ own)
    if not squared > 0:
        return None
    length = math.sqrt(squared)
    outwards = own / length
    along = metric_apart @ outwards
    step = max(length / 2, 2 * math.sqrt(max(float(along @ covariance @ along), 0.0)))
    # Of the Hessian nothing is asked but what these others have of it.
    parts = [records] if not len(places) or records.tested is records else [records.tested, records]
    passes = [part.derivatives_or_differences(metric, roughly=True)[0] for part in parts]
    largest, shift = 0.0, np.zeros(len(places))
    spread = _spread(at_theta, _apart(at_theta.hessian, outwards, beside))
    farthest = _farthest_allowed(records, theta, step * outwards)
    for times in dict.fromkeys(min(times, farthest) for times in _MOVES):
        along_means = theta + times * step * outwards
        moved = along_means.copy()
        moved[places] += shift
        for part, derivatives in zip(parts, passes, strict=True):
            steps = _STEPS if part is parts[0] else _STEPS_OF_ALL
            moved, found = _at_their_best(derivatives, moved, beside, metric, times * step, steps, part.total)
        shift = moved[places] - along_means[places]
        direction = _apart(found.hessian, outwards, beside)
        largest = max(largest, _score(found, moved, penalty, direction, records.total))
        if largest >= _TOLD_APART:
            return None
        most = _MOST_GROWN * (1 + times * step / length) * spread
        if times <= _NEAR and spread > 0 and not _spread(found, direction) <= most:
            return None
    told, ends = f"up to {1 + min(max(_MOVES), farthest) * step / length:.2g} times as long", "intervals have"
    if len(places):
        longer, other = "slopes", "intercepts" if len(places) > 1 else "an intercept"
        if not loss.scores:
            longer, other = "other parameters", " and ".join(loss.parameters[place].name for place in places)
        told = f"with {longer} {told} and {other} to suit"
        takes = "take" if len(places) > 1 else "takes"
        ends = f"intervals have no end at all where {other} {takes} part; others have"
    return largest, (
        f"a score test tells theta from nothing {told} (at most {largest:.2g} standard errors): {ends} no end away "
        "from 0, and none at all where 0 is within them; expected_fit says what records of such a release can tell"
    )


def parameters_apart(correction: Correction) -> IntegerArray:
    """Return the places of parameters that are not longer with the others: intercepts, and what is like them."""
    return correction.intercepts if correction.loss.scores else without_features(correction.loss)


def _farthest_allowed(records: Records, theta: FloatArray, move: FloatArray) -> float:
    """Return how many times a move leads to where the correction still has finite variance; the farthest at most."""
    if is_allowed(records, theta + max(_MOVES) * move):
        return max(_MOVES)
    low, high = 0.0, max(_MOVES)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if is_allowed(records, theta + middle * move) else (low, middle)
    return low


def _at_their_best(
    derivatives: Callable[..., Derivatives],
    theta: FloatArray,
    beside: FloatArray,
    metric: FloatArray,
    farthest: float,
    steps: int,
    total: float,
) -> tuple[FloatArray, Derivatives]:
    """Return theta at its minimum in some directions, or as near as some of Newton's steps come, and the pass there.

    A step is no farther, by the metric, than the scores were moved.
    """
    for step in range(steps + 1):
        with np.errstate(all="ignore"):
            found = derivatives(theta, True)
        gradient = beside.T @ found.gradient
        curvature, meat = (beside.T @ matrix @ beside for matrix in (found.hessian, found.meat))
        if step == steps or not _is_positive(curvature) or not _is_positive(meat) or not np.isfinite(gradient).all():
            break
        if total * gradient @ np.linalg.solve(meat, gradient) <= len(gradient):
            break
        change = beside @ np.linalg.solve(curvature, gradient)
        theta = theta - change * min(1.0, farthest / size_by(metric, change))
    return theta, found


def _apart(matrix: FloatArray, direction: FloatArray, beside: FloatArray) -> FloatArray:
    """Return a direction, moved in others to where these have no part of what a matrix makes of it.

    By a Hessian it leaves their scores where they are. It stays where those have no minimum.
    """
    within = beside.T @ matrix @ beside
    if not _is_positive(within):
        return direction
    return np.asarray(direction - beside @ np.linalg.solve(within, beside.T @ matrix @ direction))


def _directions_of(places: IntegerArray, count: int, scores: int) -> FloatArray:
    """Return the directions of some of so many parameters, as columns; of as many scores, those that sum to 0."""
    directions = np.eye(count)[:, places]
    return directions if scores == 1 or not len(places) else directions @ null_space(np.ones((1, scores)))


def _is_positive(matrix: FloatArray) -> bool:
    return bool(np.isfinite(matrix).all() and np.all(np.linalg.eigvalsh(matrix) > 0))


def _score(found: Derivatives, theta: FloatArray, penalty: FloatArray, direction: FloatArray, total: float) -> float:
    """Return the mean score in a direction, in its own standard errors; 0 where it is not finite, or underflows."""
    with np.errstate(all="ignore"):
        mean = float(direction @ (found.gradient + penalty * theta))
    spread = _spread(found, direction)
    size = math.sqrt(total) * mean / spread if spread > 0 else 0.0
    return size if math.isfinite(size) else 0.0


def _spread(found: Derivatives, direction: FloatArray) -> float:
    """Return the root of the mean square of the records' scores in a direction."""
    with np.errstate(all="ignore"):
        squared = float(direction @ found.meat @ direction)
    return math.sqrt(squared) if squared >= 0 else math.nan
