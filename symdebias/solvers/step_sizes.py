"""Step sizes of stochastic gradient descent, as values: eta_t for the steps t = 1, 2, ..."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from symdebias._arrays import FloatArray
from symdebias._domains import NON_NEGATIVE, POSITIVE, shown
from symdebias.exceptions import DivergenceError
from symdebias.records import Records
from symdebias.solvers.curvature import curvatures
from symdebias.solvers.health import Examination
from symdebias.solvers.held import frame_of
from symdebias.solvers.metric import definite

__all__ = ["StepSize", "constant", "inverse_square_root", "inverse_time"]

# The least curvature that steps are slowed down by, relative to the largest.
_LEAST_CURVATURE = 0.02
# How far noise may carry iterates, relative to the distance of the minimum from zero, and the least such distance in
# units of the spread of gradients over the curvature.
_EXCURSION, _LEAST_SIZE = 0.05, 0.05


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
    sizes = np.asarray(function(steps), dtype=np.float64)
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


def learned_steps(
    records: Records,
    theta: FloatArray,
    penalty: FloatArray,
    metric: FloatArray,
    batch_size: int,
    *,
    in_units: bool,
    by_derivatives: bool = False,
) -> tuple[StepSize, FloatArray]:
    """Return step sizes from the curvature at the start, and the matrix that gradients are multiplied with.

    eta_t = 1/(L + k/B + mu t/2), L and mu the largest and the least curvature of the mean corrected loss relative to
    the inverse P of that matrix. k is the larger of two numbers: Q max E c^2/E c over their directions, with c the
    curvatures of single records, so that steps contract in the mean square, which they do where eta (E c^2/B + (E c)^2)
    < 2 E c; and that with which the noise of gradients keeps iterates within a twentieth of the distance between the
    minimum and zero, as far as it can be told.

    P is the sum of `metric`, the second moments of released records, and the penalty; with `in_units` it is the
    identity, and the matrix is left out (shape (0, 0)). `by_derivatives` is as for `Records.gradients`. A parameter
    that records hold is among those of `theta`, `penalty` and `metric`, and not of the matrix.

    References
    ----------
    Bottou, Curtis & Nocedal 2018, Theorems 4.6 and 4.7.
    """
    frame = frame_of(records)
    weighing = np.eye(len(theta)) if in_units else definite(metric + np.diag(penalty))
    sizes, squares = curvatures(records, theta, penalty, metric, weighing, by_derivatives=by_derivatives)
    largest = float(np.abs(sizes).max())
    if not (largest > 0 and math.isfinite(largest)):
        raise DivergenceError(
            "the mean corrected loss has no curvature at the start from which steps could be learned. Give step_size=, "
            "or another start, and check the units of an offset."
        )
    least = max(float(sizes.min()), _LEAST_CURVATURE * largest)
    noisy = max(squares[0] / least, squares[1] / largest)
    # Far from the minimum a correction may be unlike itself: its noise grows exponentially with theta.
    squared_mean, spread = Examination(records, weighing, by_derivatives=by_derivatives).mean_squares(theta, penalty)
    step = squared_mean / largest**2
    free, weighing = frame.reported(theta), frame.freed(weighing)
    size = max(float(free @ weighing @ free), step, _LEAST_SIZE * spread / largest**2)
    held = spread / (2 * largest * _EXCURSION**2 * size) if size > 0 else 0.0
    # Noise was told by records with weight, and a batch has others besides.
    share = records.present / len(records)
    first = largest + max(len(free) * noisy, held) / (batch_size * share)
    scaling = np.zeros((0, 0)) if in_units else np.ascontiguousarray(np.linalg.inv(weighing))
    return StepSize(2 / least, 2 * first / least, 1.0), scaling
