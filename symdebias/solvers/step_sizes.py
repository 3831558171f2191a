"""Step sizes of stochastic gradient descent, as values: eta_t for the steps t = 1, 2, ..."""

import contextlib
import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from symdebias._arrays import FloatArray
from symdebias._domains import NON_NEGATIVE, POSITIVE, shown
from symdebias.exceptions import DivergenceError
from symdebias.records import Records
from symdebias.solvers.curvature import Curvatures
from symdebias.solvers.health import Examination
from symdebias.solvers.held import frame_of
from symdebias.solvers.metric import definite
from symdebias.solvers.newton import is_allowed

__all__ = ["StepSize", "constant", "inverse_square_root", "inverse_time"]

# The least curvature that steps are slowed down by, relative to the largest.
_LEAST_CURVATURE = 0.02
# How far noise may carry iterates, relative to the distance of the minimum from zero, and the least such distance in
# units of the spread of gradients over the curvature.
_EXCURSION, _LEAST_SIZE = 0.05, 0.05
# Curvatures grow on the way to the minimum where the largest is the first number of times as large there. Up to the
# second one so many steps of Newton's method are taken at most, until the square of one is such a share of the longest.
_GROWN, _FAR_GROWN = 1.5, 3.0
_NEWTON_STEPS, _ARRIVED = 6, 0.01
# First steps that are tried between the longest and the shortest, where more than this share of the squared distance to
# the minimum would be left.
_TRIED, _LITTLE = 40, 1e-7


@dataclass(frozen=True)
class StepSize:
    """The step sizes eta_t = scale / (t + offset)^power.

    Attributes
    ----------
    scale : float
        Positive.
    offset : float
        Non-negative: how far the decay has come before the first step.
    power : float
        0 constant, 1/2 inverse square root, 1 inverse time.

    Examples
    --------
    >>> import numpy as np
    >>> StepSize(0.3, power=0.5)(np.array([1.0, 4.0, 9.0])).round(2)
    array([0.3 , 0.15, 0.1 ])
    """

    scale: float
    offset: float = 0.0
    power: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", POSITIVE.check("scale", self.scale))
        object.__setattr__(self, "offset", NON_NEGATIVE.check("offset", self.offset))
        object.__setattr__(self, "power", NON_NEGATIVE.check("power", self.power))

    def __call__(self, steps: FloatArray) -> FloatArray:
        """Return eta_t for an array of step numbers t >= 1."""
        if self.power == 0:
            return np.full(np.shape(steps), self.scale)
        return self.scale / (steps + self.offset) ** self.power


def constant(scale: float) -> StepSize:
    """Return the constant step size eta_t = scale.

    The iterate forgets its start like exp(-mu scale t) and then fluctuates with variance proportional to
    the step: Theorem 5.5 of Dufraiche et al. 2026.

    Examples
    --------
    >>> constant(0.1)(np.array([1.0, 100.0]))
    array([0.1, 0.1])
    """
    return StepSize(scale)


def inverse_time(scale: float, *, offset: float = 0.0) -> StepSize:
    """Return eta_t = scale / (t + offset).

    With mu the strong convexity of the regularised risk (at least l2), any scale above 1/(2 mu) gives the last iterate
    the rate O(1/t) on a ball, and 1/mu the least bound; a smaller scale may be far slower. An offset keeps the first
    steps stable. Without a ball the rate is proved for scales above 1/mu, 2/mu giving the least bound, where the first
    step is at most 1/(L M): L is the smoothness, and the mean square of a gradient grows with that of its mean by the
    factor M, at least 1.

    References
    ----------
    Nemirovski, Juditsky, Lan & Shapiro 2009, equations (2.9) and (2.10), on a bounded set; Bottou, Curtis &
    Nocedal 2018, Theorem 4.7 and equation (4.24), without a bound.

    Examples
    --------
    >>> inverse_time(1.0)(np.array([1.0, 4.0]))
    array([1.  , 0.25])
    """
    return StepSize(scale, offset, 1.0)


def inverse_square_root(scale: float, *, offset: float = 0.0) -> StepSize:
    """Return eta_t = scale / sqrt(t + offset), for averaging without strong convexity.

    References
    ----------
    Nemirovski, Juditsky, Lan & Shapiro 2009, Section 2.2.

    Examples
    --------
    >>> inverse_square_root(1.0)(np.array([1.0, 4.0]))
    array([1. , 0.5])
    """
    return StepSize(scale, offset, 0.5)


# Each has a step size of 8 bytes.
_MOST_STEPS = 1_000_000_000


def step_sizes(
    step_size: float | str | StepSize | Callable[[FloatArray], FloatArray], *, first: int, count: int, l2: float
) -> FloatArray:
    """Return the step sizes of steps first + 1 to first + count.

    A step size is a constant; ``"theory"``, which is 1/(l2 (t + 1)) and takes l2 for the strong convexity; a
    `StepSize`; or any function of the step numbers.

    Raises
    ------
    ValueError
        ``"theory"`` without regularisation, or step sizes that are not positive and finite.
    """
    if count > _MOST_STEPS:
        raise ValueError(
            f"{count:,} steps are more than a run may have, {_MOST_STEPS:,}. Give fewer epochs, or a larger batch_size."
        )
    steps = first + np.arange(1.0, count + 1.0)
    if isinstance(step_size, str):
        if step_size != "theory":
            raise ValueError(
                f'step_size={shown(step_size)} is not known. Give "auto", a number, a StepSize or "theory".'
            )
        if not l2 > 0:
            raise ValueError(
                'step_size="theory" is 1/(l2 (t + 1)) and needs l2 > 0, the strong convexity. Give l2, or '
                "inverse_time(1/mu) with mu known otherwise."
            )
        step_size = inverse_time(1.0 / l2, offset=1.0)
    if callable(step_size):
        function: Callable[[FloatArray], FloatArray] = step_size
    else:
        function = StepSize(POSITIVE.check("step_size", step_size))
    returned, sizes = function(steps), np.empty(0)
    with contextlib.suppress(TypeError, ValueError):
        sizes = np.asarray(returned, dtype=np.float64)
    if sizes.shape != steps.shape or not (np.all(sizes > 0) and np.all(sizes < math.inf)):
        raise ValueError(
            f"the step sizes of steps {first + 1} to {first + count} are not {count} positive finite numbers. "
            "Return one number per step."
        )
    return np.ascontiguousarray(sizes)


def step_size_told(step_size: Any) -> Any:
    """Return what a fit tells of its rule of step sizes: a value as it is, of a function that it is one."""
    return step_size if isinstance(step_size, (str, int, float, StepSize)) else "a function"


def rule_told(step_size: Any, l2: float) -> Any:
    """Return the rule of step sizes as a checkpoint has it: a function by what it says of the first steps."""
    if isinstance(step_size, StepSize):
        return repr(step_size)
    return step_sizes(step_size, first=0, count=1_000, l2=l2) if callable(step_size) else step_size


def is_learned(step_size: Any) -> bool:
    """Whether the rule of step sizes is to be learned from the records."""
    return isinstance(step_size, str) and step_size == "auto"


def rule_on(
    records: Records,
    step_size: float | str | StepSize | Callable[[FloatArray], FloatArray],
    begin: FloatArray,
    penalty: FloatArray,
    metric: FloatArray,
    batch_size: int,
    steps: int,
    *,
    radius: float,
    smoothed: bool,
    has_pilot: bool = False,
) -> tuple[Any, FloatArray]:
    """Return the rule of the step sizes of a descent, and the matrix that gradients are multiplied with.

    Both are learned from the records where they are to be; otherwise the rule is the one given, and the matrix is left
    out (shape (0, 0)).

    Parameters
    ----------
    records : Records
        What it goes over, in batches of `batch_size`.
    step_size : float, str, StepSize or callable
        As for `step_sizes`, or ``"auto"``.
    begin : array, float64
        Its start, without a parameter that records hold.
    penalty : array of shape (Q,), float64
        l2 for each parameter.
    metric : array of shape (Q, Q), float64
        The second moments of released records.
    batch_size, steps : int
        The size of a batch, and the number of steps.
    radius : float
        Of the ball that parameters are held in, or infinite.
    smoothed : bool
        Whether gradients are smoothed.
    has_pilot : bool
        Whether a pilot has found the start, and has compiled the pass of derivatives.
    """
    if not is_learned(step_size):
        return step_size, np.zeros((0, 0))
    return learned_steps(
        records, frame_of(records).lifted(begin), penalty, metric, min(batch_size, len(records)), steps,
        in_units=radius < math.inf or smoothed, radius=radius, is_near=has_pilot, by_derivatives=has_pilot,
    )  # fmt: skip


def learned_steps(
    records: Records,
    theta: FloatArray,
    penalty: FloatArray,
    metric: FloatArray,
    batch_size: int,
    steps: int,
    *,
    in_units: bool,
    radius: float = math.inf,
    is_near: bool = False,
    by_derivatives: bool = False,
) -> tuple[StepSize, FloatArray]:
    """Return step sizes from the curvature at the start, and the matrix that gradients are multiplied with.

    eta_t = 1/(L + k/B + mu t/2), L and mu the largest and the least curvature of the mean corrected loss relative to
    the inverse P of that matrix. k is the larger of two numbers: Q max E c^2/E c over their directions, with c the
    curvatures of single records, so that steps contract in the mean square, which they do where eta (E c^2/B + (E c)^2)
    < 2 E c; and that with which the noise of gradients keeps iterates within a twentieth of the distance between the
    minimum and zero, as far as it can be told.

    Unless the start `is_near` the minimum, curvatures are looked at where Newton's method on the same records leads as
    well: L is the largest and mu the least of both places. Where so many steps would not take such iterates to the
    minimum, the second number is then less, by as much as brings the last of them nearest to it.

    P is the sum of `metric`, the second moments of released records, and the penalty; with `in_units`, as where theta
    stays within a `radius`, it is the identity, and the matrix is left out (shape (0, 0)). `by_derivatives` is as for
    `Records.gradients`. A parameter that records hold is among those of `theta`, `penalty` and `metric`, and not of the
    matrix.

    References
    ----------
    Bottou, Curtis & Nocedal 2018, Theorems 4.6 and 4.7.
    """
    frame = frame_of(records)
    weighing = np.eye(len(theta)) if in_units else definite(metric + np.diag(penalty))
    terrain = _Terrain(records, penalty, metric, weighing, by_derivatives)
    curved = terrain.curvatures(theta)
    largest = curved.largest
    if not (largest > 0 and math.isfinite(largest)):
        raise DivergenceError(
            "the mean corrected loss has no curvature at the start from which steps could be learned. Give step_size=, "
            "or another start, and check the units of the target and of an offset."
        )
    mean, squares = terrain.gradients(theta, curved.directions)
    spread = float(squares.sum())
    free, freed = frame.reported(theta), frame.freed(weighing)
    size = max(float(free @ freed @ free), float(mean @ mean) / largest**2, _LEAST_SIZE * spread / largest**2)
    # Noise was told by records with weight, and a batch has others besides.
    together = batch_size * (records.present / len(records))
    there = None if is_near else terrain.ahead(theta, curved, mean)
    places = [curved] if there is None else [curved, there]
    largest = max(place.largest for place in places)
    least = max(min(place.least for place in places), _LEAST_CURVATURE * largest)
    # Where it has not grown the curvature of records is no more than at the start.
    noisy = max(place.noisiness(least) for place in (places if largest > curved.largest else [curved]))
    shortest = largest + len(free) * noisy / together

    def first_of(spread: float) -> float:
        # Far from the minimum a correction may be unlike itself: its noise grows exponentially with theta.
        held = spread / (2 * largest * _EXCURSION**2 * size) if size > 0 else 0.0
        return max(shortest, largest + held / together)

    first, gone = first_of(spread), least * steps / 2
    if there is not None and first > shortest and _shrunk(first, gone) > _LITTLE:
        end, length = frame.reported(there.theta), float(np.linalg.norm(frame.reported(there.theta)))
        is_held = length > radius
        end = end * (radius / length) if is_held else end
        # The noise of the last iterates is that next to the minimum.
        mean, squares = terrain.gradients(frame.lifted(end), there.directions)
        if np.all(np.isfinite(squares)):
            sizes = np.maximum(there.sizes, _LEAST_CURVATURE * largest)
            away = (there.directions.T @ (freed @ (end - free))) ** 2
            # Along the ball that holds the minimum the loss is more curved, by the gradient over the radius.
            more = float(np.linalg.norm(mean)) / radius if is_held else 0.0
            tried = np.geomspace(shortest, first_of(max(spread, float(squares.sum()))), _TRIED)
            left = _shrunk(tried[:, None], gone) ** ((sizes + more) / least) @ away
            left += float(np.sum(squares / sizes)) / (2 * together * (tried + gone))
            first = float(tried[np.argmin(left)])
    if not math.isfinite(2 * first / least):
        raise DivergenceError(
            f"step sizes cannot be learned: what {records.present:,} of the records say of gradients is no finite "
            "number. Take more records, or give step_size=."
        )
    scaling = np.zeros((0, 0)) if in_units else np.ascontiguousarray(np.linalg.inv(freed))
    return StepSize(2 / least, 2 * first / least, 1.0), scaling


def _shrunk(first: Any, gone: float) -> Any:
    """Return the share that T steps 1/(f + mu t/2) leave of a squared distance along a curvature of mu.

    It is the square of the product of the 1 - mu eta_t, next to (f/(f + mu T/2))^2; ``gone`` is mu T/2. Along another
    curvature c the share is its power c/mu.
    """
    return (first / (first + gone)) ** 4


class _Terrain:
    """What steps are learned from, by parts of the records."""

    def __init__(
        self, records: Records, penalty: FloatArray, metric: FloatArray, weighing: FloatArray, by_derivatives: bool
    ) -> None:
        self._of = functools.partial(
            Curvatures.of, records, penalty=penalty, metric=metric, weighing=weighing, by_derivatives=by_derivatives
        )
        self._examination = Examination(records, weighing, by_derivatives=by_derivatives)
        self._penalty = penalty

    def curvatures(self, theta: FloatArray) -> Curvatures:
        """Return the curvatures relative to what is weighed by."""
        with np.errstate(all="ignore"):
            return self._of(theta)

    def gradients(self, theta: FloatArray, directions: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the mean and the mean square of single gradients along some directions; they may be infinite."""
        frame = frame_of(self._examination.records)
        with np.errstate(all="ignore"):
            return self._examination.along(theta, self._penalty, frame.directions(directions))

    def ahead(self, theta: FloatArray, curved: Curvatures, mean: FloatArray) -> Curvatures | None:
        """Return the curvatures next to the minimum, or None where Newton's method does not lead there in few steps.

        One step will do where curvatures do not grow: a corrected loss is then much the same all the way. Where they
        grow by far the minimum has another shape than what gradients are multiplied with: None as well.
        """
        records = self._examination.records
        frame = frame_of(records)
        here, size = curved, 0.0
        for step in range(_NEWTON_STEPS):
            sizes = np.maximum(here.sizes, _LEAST_CURVATURE * here.largest)
            along = mean / sizes
            place = here.theta - frame.direction(here.directions @ along)
            if not is_allowed(records, place):
                return None
            here = self.curvatures(place)
            moved, size = float(along @ along), max(size, float(along @ along))
            if not here.largest <= _FAR_GROWN * curved.largest:
                return None
            if moved <= _ARRIVED * size if step else here.largest <= _GROWN * curved.largest:
                return here
            mean = self.gradients(place, here.directions)[0]
        return None
