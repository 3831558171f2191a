"""Newton's method on the mean corrected loss, within a region, by steps that are short in the score."""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from symdebias._arrays import FloatArray
from symdebias._rows import runs
from symdebias.exceptions import DivergenceError
from symdebias.records import Derivatives, Records, size_by
from symdebias.solvers.metric import LEAST_SHARE, positive
from symdebias.solvers.regions import Near, solved

# Steps, and halvings of one step, before a fit is given up.
_STEPS, _HALVINGS = 60, 20
# The logarithm of a scale has next to no curvature where the scale is far too large: at 1e8 times the steps are 1e16.
_HALVINGS_OF_SEVERAL = 100
# After a step shorter than the first, relative to theta, covariances are accumulated; one shorter than the second is
# the last: Newton's error squares, so that what remains is of the order of rounding.
_NEAR, _ARRIVED = 1e-2, 1e-6
# Where the curvature is this share of the largest that was met, and nothing holds theta, the loss is looked at so many
# lengths away: does it still fall there?
_FLAT, _FAR = 1e-12, 1e6
# Many records start a step away. After a short step a second one with the same Hessian, at most so long, is the last.
# A part of the records may tell it, where by the spread over so many pieces of it it does so to the second figure: to
# what a step with an old Hessian may leave.
_POLISHED, _TOLD, _PIECES = 3e-5, 3e-7, 4
# Records of a piece that are copied at a time.
_COPIED = 2**12


@dataclass(frozen=True)
class Root:
    """Where Newton's method has ended."""

    theta: FloatArray  # Of shape (Q,): the parameters.
    derivatives: Derivatives  # Those at theta or a step before, with the outer products of gradients.
    steps: int  # How many were taken.
    last_step: float  # The length of the last one, in units of the length of theta, both by released scores.
    on_boundary: bool  # Whether theta lies on the boundary of what was given.
    at_reach: bool  # Whether theta is as far from the centre as it may be.
    is_minimum: bool  # Whether all curvatures were positive at the end.


def newton(
    records: Records,
    derivatives: Callable[..., Derivatives],
    theta: FloatArray,
    penalty: FloatArray,
    near: Near,
    *,
    part: Records | None = None,
    has_noisy_curvature: bool = True,
    arrived: float = _ARRIVED,
    with_meat: bool = True,
    most: int = _STEPS,
) -> Root:
    """Return the minimum of the mean corrected loss plus penalty'theta^2/2 in a set, from a theta in it.

    Newton's matrix is the mean corrected Hessian with the sizes of its eigenvalues, relative to the second moments of
    released records, in place of negative ones. Steps are halved until the loss falls.

    `derivatives` is what `Records.derivatives_or_differences` returned. `part` is a part of the records that has found
    theta a step away from the minimum, so that covariances are accumulated at once, and no search begins where the
    curvature is negative; `has_noisy_curvature` that small curvatures may be the noise's own (without, all but those of
    rounding are taken as they are); `arrived` how short the last step is, relative to theta, both in units of the
    released score; `with_meat` that the outer products of gradients are wanted; `most` how many steps are taken.

    Raises
    ------
    DivergenceError
        The loss is not finite, does not fall, or does not settle.
    NoExactCorrectionError, InfiniteVarianceError
        The correction, or its variance, does not exist at the start.
    """
    ridge = np.diag(penalty)

    def allowed(point: FloatArray) -> bool:
        return is_allowed(records, point)

    def length(move: FloatArray) -> float:
        return size_by(near.metric_at(before.hessian + ridge), move)

    def root(end: FloatArray, found: Derivatives, step: int, last: float, least: float) -> Root:
        return Root(end, found, step, last, near.region.on_boundary(end), near.on_boundary(end), least > 0)

    def last_of(again: FloatArray) -> float:
        return length(again) / scale if scale > 0 else 0.0

    records.limits.require(theta, finite_variance=True, at="at the start")
    before = derivatives(theta, part is not None and with_meat)
    require_finite(records, before, theta)
    value = before.loss + 0.5 * float(penalty @ theta**2)
    last, curved = math.inf, 0.0
    share_kept = LEAST_SHARE if has_noisy_curvature else _FLAT
    for step in range(1, most + 1):
        gradient = before.gradient + penalty * theta
        try:
            metric = near.metric_at(before.hessian + ridge)
            if not (np.all(np.isfinite(metric)) and np.all(np.isfinite(before.hessian))):
                raise np.linalg.LinAlgError("squares of the curvature overflow")
            matrix, least = positive(before.hessian + ridge, metric, _FLAT * curved, share_kept)
            move = near.minimiser(theta, gradient, matrix) - theta
        except np.linalg.LinAlgError as error:
            raise DivergenceError(
                "the curvature of the mean corrected loss is lost to rounding at theta of norm "
                f"{_norm(records, theta):.4g} (step {step}): theta has followed the noise, and there is no root near "
                "the pilot. Raise l2, use more records, or release with less noise."
            ) from error
        curved = max(curved, least)
        if part is not None and step == 1 and least <= 0:
            raise DivergenceError(
                "a part of the records led to where the mean corrected loss of all has no minimum. Start elsewhere."
            )
        if math.isinf(near.reach) and least <= _FLAT * curved and not near.region.on_boundary(theta + move):
            _require_held(records, theta, near.region.moves(theta), move, penalty)
        scale = max(length(theta), length(theta + move))
        size = length(move) / scale if scale > 0 else 0.0
        has_meat = bool(before.meat.size) or not with_meat
        if part is not None and has_meat and size <= _NEAR and allowed(theta + move):
            # Many records are spared another pass with second derivatives: one more step with the same ones.
            end = theta + move
            bends = _bends(part, theta, move) if allowed(theta - move) else np.full((1, 1), math.nan)
            if np.all(np.isfinite(bends)):
                # They are spared one with first derivatives as well, where a part knows that step.
                gradient_there = gradient + before.hessian @ move + penalty * move + bends.mean(axis=0)
                again = near.minimiser(end, gradient_there, matrix) - end
                apart = solved(matrix, (bends - bends.mean(axis=0)).T).T
                off = math.sqrt(sum(length(one) ** 2 for one in apart) / (_PIECES * (_PIECES - 1)))
                if length(again) <= _POLISHED * scale and off <= _TOLD * scale and allowed(end + again):
                    return root(end + again, before, step, last_of(again), least)
            again = near.minimiser(end, records.mean_gradient(end) + penalty * end, matrix) - end
            if length(again) <= _POLISHED * scale and allowed(end + again):
                return root(end + again, before, step, last_of(again), least)
        if size <= arrived and has_meat and allowed(theta + move):
            return root(theta + move, before, step, size, least)
        share, change, is_lower = 1.0, float(gradient @ move), False
        slack = 1e-13 * (abs(value) + abs(before.loss) + float(np.sum(np.abs(gradient * theta))))
        for halving in range(_HALVINGS_OF_SEVERAL if near.scores > 1 else _HALVINGS):
            if halving >= _HALVINGS and share * abs(change) < slack:
                # What so short a step changes is rounding: it would be taken, and the next ones as well.
                break
            point = theta + share * move
            if allowed(point):
                after = derivatives(point, with_meat and size <= _NEAR)
                risk = after.loss + 0.5 * float(penalty @ point**2)
                is_lower = risk <= value + 1e-4 * share * change + slack or size <= arrived
                if is_lower:
                    break
            share /= 2
        if not is_lower:
            ahead = records.limits.broken(theta + move, finite_variance=True)
            beyond = f", or it lies beyond a limit: a whole step on {ahead[1]}" if ahead else ""
            raise DivergenceError(
                f"Newton's method found no lower mean corrected loss from theta of norm {_norm(records, theta):.4g} on "
                f"(step {step}): there is no root near the pilot{beyond}. Raise l2, use more records, or release with "
                "less noise."
            )
        theta, before, value, last = point, after, risk, size
    raise DivergenceError(
        f"Newton's method did not settle in {most} steps (the last one moved theta by {last:.3g} of its length): the "
        "mean corrected loss has no clear minimum near the pilot. Raise l2, use more records, or release with less "
        "noise."
    )


def is_allowed(records: Records, theta: FloatArray) -> bool:
    """Whether the correction of records exists at theta, and has finite variance."""
    return records.limits.broken(theta, finite_variance=True) is None


def _norm(records: Records, theta: FloatArray) -> float:
    """Return ||theta|| as it is told: of the targets that were given."""
    return float(np.linalg.norm(records.as_given(theta)))


def _bends(records: Records, theta: FloatArray, move: FloatArray) -> FloatArray:
    """Return for pieces of the records what a Hessian does not say of the change of their mean gradients over a move.

    It is right to the third order, shape (pieces, Q).
    """
    found, totals = np.zeros((_PIECES, len(theta))), np.zeros((_PIECES, 1))
    for piece in range(_PIECES):
        places = runs(records.present, _PIECES, piece)
        for start in range(0, len(places), _COPIED):
            some = records.taken(records.places_of(places[start : start + _COPIED]))
            there, back = (some.mean_gradient(theta + sign * move) for sign in (1.0, -1.0))
            found[piece] += some.total * ((there + back) / 2 - some.mean_gradient(theta))
            totals[piece] += some.total
            # Before the next are copied.
            del some
    return np.asarray(found / totals)


def _require_held(
    records: Records, theta: FloatArray, outwards: FloatArray, move: FloatArray, penalty: FloatArray
) -> None:
    """Raise DivergenceError where the mean corrected loss falls on and on, away from zero or in a step's direction."""
    longest = _FAR * max(1.0, float(np.abs(theta).max()), float(np.abs(move).max()))
    for direction in (outwards, move):
        if not direction.any():
            continue
        far = theta + longest / float(np.abs(direction).max()) * direction
        with np.errstate(over="ignore", invalid="ignore"):
            gradient = records.mean_gradient(far) + penalty * far
            falls = float(gradient @ direction)
            size = float(np.abs(gradient) @ np.abs(direction))
        if math.isfinite(falls) and falls < -1e-9 * size:
            raise DivergenceError(
                f"the estimate runs away: from theta of norm {_norm(records, theta):.4g} on the mean corrected loss "
                "falls without end, and nothing in these records holds theta back. Raise l2, use more records, or "
                "release with less noise."
            )


def require_finite(records: Records, found: Derivatives, theta: FloatArray) -> None:
    """Raise DivergenceError where loss, gradient or Hessian are not finite, naming the record."""
    if math.isfinite(found.loss) and np.all(np.isfinite(found.gradient)) and np.all(np.isfinite(found.hessian)):
        return
    parts = records.over_parts(functools.partial(_steepest, theta=theta))
    counts = np.cumsum([0, *(count for _, _, count in parts)])
    worst = int(np.argmax([size if math.isfinite(size) else math.inf for _, size, _ in parts]))
    bad, size, _ = parts[worst]
    raise DivergenceError(
        f"the corrected loss is not finite at ||theta|| = {_norm(records, theta):.4g}: record {counts[worst] + bad} "
        f"has a gradient of {size:.3g}. Give start=, or bound theta with radius=."
    )


def _steepest(records: Records, *, theta: FloatArray) -> tuple[int, float, int]:
    """Return the record with the largest gradient, how large that is, and the number of records."""
    with np.errstate(all="ignore"):
        sizes = np.abs(records.gradients(theta, slice(None))).max(axis=1)
    bad = int(np.argmax(np.where(np.isfinite(sizes), sizes, math.inf)))
    return bad, float(sizes[bad]), len(sizes)
