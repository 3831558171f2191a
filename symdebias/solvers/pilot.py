"""A pilot estimate for losses of one score: wide surrogates on a ladder of distances, each warm-started by the last.

Near zero the noise of the score is small, and a surrogate is right for all scores there are. So the minimum is followed
outwards: a surrogate is designed for the scores within a reach of the last point, its minimum within that reach is the
next point, and where that lies on the bound the reach grows. It ends where the minimum lies inside. Scores may have any
distribution and signals any strength, and a change of units changes nothing.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from symdebias._arrays import FloatArray
from symdebias.corrected import CorrectedLoss
from symdebias.derivation import Surrogate
from symdebias.exceptions import DivergenceError
from symdebias.losses.catalogue import smoothing_width
from symdebias.records import Records, stride_to
from symdebias.solvers.curvature import least_curvature, score_error, uncertain_curvature
from symdebias.solvers.held import frame_of
from symdebias.solvers.metric import inverse_root
from symdebias.solvers.newton import newton
from symdebias.solvers.regions import Near, Region
from symdebias.solvers.score_sample import sample_stride
from symdebias.solvers.scores import ReleasedRecords

# The first reach in units of the score (of the residual), how much reaches grow, and how many rungs there may be.
_FIRST, _GROWTH, _RUNGS = 0.7, 1.6, 30
# A rung's minimum inside its reach and within this share of the length of theta from the last is the end.
_SETTLED = 0.15
# How short Newton's last step on a rung is.
_ROUGH = 0.02
# Scores with a root mean square beyond this many units mean that nothing holds theta back.
_WIDEST = 30.0
# Records of the first ladder, how many more the next has, and the uncertainty of theta, relative to its length, with
# which it may be used.
_FEW, _MORE, _SURE = 2**14, 4, 0.15


@dataclass(frozen=True)
class Pilot:
    """A pilot estimate."""

    theta: FloatArray  # Of shape (q,): the parameters.
    known: ReleasedRecords  # What released records say of true scores.
    uncertainty: float  # The root mean square error of the score at theta that the sampling error of theta makes.
    records: int  # How many records it rests on.
    rungs: int  # How many rungs the ladder had.
    unit: float  # The unit of the score: 1, or the spread of the target for a residual loss.

    def as_diagnostics(self, records: Records) -> dict[str, Any]:
        """Return what a fit to some records reports of its pilot."""
        return {
            "theta": records.as_given(self.theta),
            "score_variance": self.known.score_variance(self.theta),
            "signal_variance": self.known.mean_square(self.theta),
            "uncertainty": self.uncertainty,
            "records": self.records,
            "rungs": self.rungs,
        }


def _stride(present: int) -> int:
    """Return one in how many of so many records with weight the first ladder has."""
    return stride_to(_FEW, present)


def strides(present: int) -> tuple[int, int]:
    """Return one in how many records a pilot is made of, and one in how many scores are told by.

    Parameters
    ----------
    present : int
        How many records there are that have weight.
    """
    return _stride(present), sample_stride(present)


def pilot_of(
    known: ReleasedRecords,
    records: Records,
    penalty: FloatArray,
    region: Region,
    *,
    start: FloatArray | None = None,
    by_surrogate: bool = False,
) -> Pilot:
    """Return the pilot estimate from checked records, for a loss of one score that surrogates can stand for.

    The ladder begins at `start`, by default zero, with few records; more are taken where these leave theta
    uncertain. `by_surrogate` has an exact correction climb by surrogates as well, whose noise does not grow as fast as
    its own may.

    Raises
    ------
    DivergenceError
        Nothing holds theta back, or the ladder does not end.
    """
    corrected = known.corrected
    climbing = known
    if not (corrected.method == "surrogate" or (corrected.is_exact and not by_surrogate)):
        climbing = known.of_method(CorrectedLoss(corrected.declared, corrected.release, Surrogate()))
    stride = first = _stride(records.present)
    while True:
        # A ladder is many passes: few records are copied for it, and more would take too much room.
        part = records.thinned(stride) if stride in (1, first) else records.spaced(stride)
        try:
            climbed = _climb(climbing, part, penalty, region, start)
        except DivergenceError:
            if stride == 1:
                raise
            climbed = None
        if climbed is not None:
            theta, unit, rungs, uncertainty, signs = climbed
            if stride == 1 and signs:
                raise DivergenceError(
                    f"the pilot estimate is lost (||theta|| = {np.linalg.norm(part.as_given(theta)):.4g}): {signs}. "
                    "Raise l2, use more records, or release with less noise."
                )
            if stride == 1 or (not signs and uncertainty <= _SURE * max(known.extent(theta), 1e-3 * unit)):
                return Pilot(theta, known, uncertainty, len(part), rungs, unit)
        stride = max(1, stride // _MORE)


def _climb(
    known: ReleasedRecords, part: Records, penalty: FloatArray, region: Region, start: FloatArray | None
) -> tuple[FloatArray, float, int, float, str]:
    """Return theta, the unit of the score, the number of rungs, its uncertainty, and what says that it is lost."""
    theta = region.inside(np.zeros(len(penalty)) if start is None else start)
    unit = 1.0
    if known.parts.is_residual:
        unit = math.sqrt(max(known.mean_square(np.zeros(len(penalty))), 1e-300))
    # Beside what targets spread by a move changes no residual by much.
    least = unit if known.parts.is_residual else 1e-3 * unit
    reach = _FIRST * unit
    aim = theta
    if not known.size(theta) > 0:
        # All scores are zero: the first surrogate is for those in the direction in which the loss falls.
        first = known.resolved(theta, radius=reach, quick=True).of(part)
        # By the pass that the rungs need anyway: a kernel for gradients alone would be compiled for this one call.
        derivatives, how = first.derivatives_or_differences(known.metric)
        slope = derivatives(theta).gradient if how == "exact" else first.mean_gradient(theta)
        turn = inverse_root(known.metric)
        aim = np.asarray(-turn @ (slope @ turn), dtype=np.float64)
        size = known.size(aim)
        aim = aim * (reach / size) if size > 0 else aim
    rungs = 0
    while True:
        rungs += 1
        if rungs > _RUNGS:
            raise DivergenceError(
                "the pilot estimate does not settle: no surrogate has its minimum where its own parameters put the "
                "scores. Raise l2, use more records, or release with less noise."
            )
        size = known.size(theta)
        growth = 1 + reach / size if size > 0 else 1.0
        records = known.resolved(theta if size > 0 else aim, growth=growth, quick=True).of(part)
        derivatives, _ = records.derivatives_or_differences(known.metric, roughly=True)
        near = Near(theta, known.metric, reach, region)
        root = newton(records, derivatives, theta, penalty, near, arrived=_ROUGH, with_meat=False)
        moved = known.size(root.theta - theta)
        theta = root.theta
        size = known.size(theta)
        if size > _WIDEST * unit:
            raise _ran_away(part, theta, start, unit)
        if not root.at_reach and moved <= _SETTLED * max(size, least):
            break
        reach = max(reach, _FIRST * unit, size * (_GROWTH - 1)) if root.at_reach else reach
    found = records.derivatives_or_differences(known.metric)[0](theta, True)
    uncertainty = score_error(found.hessian + np.diag(penalty), found.meat, records.total, known.metric)
    extent = known.extent(theta)
    curvature, share = None, uncertainty / extent if extent > 0 else math.inf
    if not (root.on_boundary or penalty.any()):
        curvature, _ = least_curvature(records, theta, penalty, known.metric, found.hessian)
    return theta, unit, rungs, uncertainty, "".join(uncertain_curvature(records.correction, curvature, share))


def _ran_away(part: Records, theta: FloatArray, start: FloatArray | None, unit: float) -> DivergenceError:
    """Return the error of a ladder that has come to scores beyond all bounds, in a unit of the score."""
    frame = frame_of(part)
    hints = "" if frame.place is None else " Look at the units of the offset, too."
    if start is not None:
        hints += " It began at start=: leave that out, or begin nearer to 0, where the noise of scores is small."
    width = smoothing_width(part.correction.loss)
    if width is not None and width > unit:
        hints += (
            f" The loss is smoothed over a width of {width:.3g}, and targets are of the size {unit:.3g}: give the "
            "quantile loss a width that is small beside their spread."
        )
    norm = float(np.linalg.norm(frame.reported(part.as_given(theta))))
    return DivergenceError(
        f"the pilot estimate runs away (||theta|| = {norm:.4g}): nothing in {part.present:,} records holds "
        f"theta back. Use more records, raise l2, or release with less noise.{hints}"
    )
