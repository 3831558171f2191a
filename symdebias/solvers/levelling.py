"""Where scores level off within an interval: the ends of those that a score test does not reject."""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import brentq

from symdebias._arrays import FloatArray
from symdebias._fieller import fieller_variance
from symdebias.codegen.score.program import ScoreProgram
from symdebias.inference import critical_value, critical_values
from symdebias.records import TESTED_RECORDS, Derivatives, Records, stride_to
from symdebias.solvers.newton import is_allowed
from symdebias.solvers.scores import ReleasedRecords
from symdebias.solvers.surrogate_error import MeanError

# The level of the intervals that are looked at, and how far their ends are looked for, in standard errors; as many
# times farther as intervals are wider for a bias.
_LEVEL, _PLACES = 0.95, (2.5, 3.2, 4.2, 5.6, 7.5, 10.0, 16.0)
# With more parameters than this the others stay on the line: second derivatives take too long.
_MOST_PARAMETERS = 64
# Ends that are farther out by less than this share are as good as those of a constant curvature.
_MUCH_FARTHER = 0.05
# By how much a statistic of few records may differ from a straight line's at an end before more are looked at: where it
# is larger the other parameters leave the line.
_NEARLY_STRAIGHT = 0.03
# By how much it may differ for the parameter that moves scores most, for none to be looked at.
_STRAIGHT = 0.006
# Newton's steps of the other parameters, halvings of a step and of their way, what share of the fall that the slope
# foretells there is to be, and how much of a fall of the summed loss may be left at their minimum.
_STEPS, _HALVINGS, _PARTS, _SHARE_OF_FALL, _LEFT = 12, 6, 6, 1e-4, 0.05
# Where the curvature is uncertain, a part of the records has another shape: so many of them are taken, or as many fewer
# as there are parameters, but no fewer than are tested.
_MOST, _MOST_NUMBERS = 100_000, 500_000


def levelling_of(
    records: Records,
    theta: FloatArray,
    penalty: FloatArray,
    covariance: FloatArray,
    curving: FloatArray | None,
    known: ReleasedRecords | None = None,
    bias: FloatArray | None = None,
) -> FloatArray | None:
    """Return what intervals need beside a variance, so that they reach the ends of those of score tests.

    Standard errors take the mean score for a straight line. A score of a bounded slope levels off instead: where labels
    of a rare class are noised, say, the records may rule out no large parameter, and an interval that is by the
    curvature at the estimate is far too short on that side.

    Parameters
    ----------
    records : Records
        What was fitted.
    theta : array of shape (Q,), float64
        The root of the mean corrected score.
    penalty : array of shape (Q,), float64
        l2 for each parameter.
    covariance : array of shape (Q, Q), float64
        That of theta.
    curving : array of shape (Q, 2), float64, or None
        What `symdebias.solvers.uncertain_curvature.variance_of_curvature` says.
    known : ReleasedRecords, optional
        What is known of true scores, for a surrogate.
    bias : array of shape (Q,), float64, optional
        The bound on the bias that intervals are wider by, for a surrogate.

    Returns
    -------
    array of shape (Q, 2), float64, or None
        c below and above each parameter: with c t^2 added to the variance of a score test t standard errors away, an
        interval of 95% ends where the test does. None where all are 0.

    Notes
    -----
    The statistic of theta_j + t se_j is e_j'H^-1 g/sqrt(e_j'H^-1 M H^-1 e_j/n), with g and H where the other parameters
    have their minimum beside it, and the meat M of the estimate: a score test (Boos 1992, The American Statistician
    46). On the way there the others may leave the line theta + t V e_j/se_j by far, as where columns nearly agree.
    Where they have no minimum on the way, g and H are those of the line, and where H is not positive, it does not
    reject. Of more than 64 parameters, and where second derivatives are differences, H is that of the estimate. Some
    thousand records tell the shape, and standard errors the scale.

    Where the curvature is uncertain, M is that of the parameter that is tested if that makes more of it, and many
    records tell the shape: of fewer the noise would make another one.

    Beyond the scores that a surrogate was designed for it does not level off where the loss does, and would rule out
    parameters that the loss does not. What its score has more than that of the loss, by `MeanError`, is taken off, but
    for what intervals are wider by.
    """
    errors = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    allowed = np.zeros(len(theta)) if bias is None else np.divide(bias, errors, where=errors > 0, out=0 * errors)
    error = None
    if known is not None and records.correction.surrogates is not None and known.zonal is None:
        error = MeanError(known, records.correction)
    reaches = critical_values(_LEVEL, allowed, np.full(len(allowed), math.inf))
    most = float(np.max(reaches, where=np.isfinite(reaches), initial=critical_value(_LEVEL)))
    few = _Shape(records.looked_at, theta, penalty, takes_steps=False, error=error, allowed=allowed)
    part = records.tested
    if curving is not None:
        part = records.thinned(stride_to(max(TESTED_RECORDS, min(_MOST, _MOST_NUMBERS // len(theta))), records.present))
    many = _Shape(part, theta, penalty, grows=curving is not None, error=error, allowed=allowed)
    found = np.zeros((len(theta), 2))
    places = np.flatnonzero(errors)
    moves = covariance[:, places] / errors[places]
    program = records.correction.program
    if isinstance(program, ScoreProgram) and len(program.scores) == 1 and len(places):
        # Moves that change scores less are straighter still.
        widest = int(np.argmax(np.abs(few.records.design_rows() @ moves).max(axis=0)))
        if few.is_straight(moves[:, widest], int(places[widest]), most, _STRAIGHT):
            return None
        if not few.errs(moves[:, widest], int(places[widest]), most, _STRAIGHT):
            few.error = None
    for place, move in zip(places.tolist(), moves.T, strict=True):
        slope, bend = (0.0, 0.0) if curving is None else curving[place]
        reach = float(reaches[place])
        for side, sign in enumerate((-1.0, 1.0)):
            # Of a bias without a bound every end is nowhere.
            if not math.isfinite(reach) or few.is_straight(sign * move, place, reach, _NEARLY_STRAIGHT, sides=(1.0,)):
                continue
            variance = functools.partial(_variance, slope=sign * slope, bend=bend)
            statistic = many.statistic(sign * move, place, variance)
            if statistic is None:
                continue
            needed = functools.partial(_needed, variance=variance, bias_ratio=float(allowed[place]))
            end = _end(_beyond(statistic, needed), reach)
            plain = _end(_beyond(_straight(variance), needed), reach)
            if end > (1 + _MUCH_FARTHER) * plain:
                # What is left of the bias, and of the variance, where there is no end.
                least = critical_value(_LEVEL, float(allowed[place]) if bend == 0 else 0.0)
                found[place, side] = max(
                    0.0, needed(end) ** -2 - variance(end) / end**2 if math.isfinite(end) else least**-2 - bend
                )
    return found if found.any() else None


def _variance(t: float, *, slope: float, bend: float) -> float:
    return float(fieller_variance(t, slope, bend))


def _needed(t: float, *, variance: Callable[[float], float], bias_ratio: float) -> float:
    """Return what the statistic of a test t standard errors away has to come to, the bias within its bound."""
    return critical_value(_LEVEL, bias_ratio / math.sqrt(variance(t)))


def _constant(t: float) -> float:
    """Return the variance of a score whose curvature is certain, over that at the estimate."""
    return 1.0


def _straight(variance: Callable[[float], float]) -> Callable[[float], float]:
    return lambda t: t / math.sqrt(variance(t))


def _beyond(statistic: Callable[[float], float], needed: Callable[[float], float]) -> Callable[[float], float]:
    return lambda t: statistic(t) - needed(t)


@dataclass(frozen=True)
class _Place:
    """Parameters beside an estimate, and what there is to know of them."""

    theta: FloatArray
    loss: float  # That whose slope is the change of the gradient.
    change: FloatArray  # What the mean gradient, with the penalty's share, is more than at the estimate.
    hessian: FloatArray
    inverse: FloatArray | None  # That of the Hessian with the penalty, where there is one.
    meat: FloatArray  # Of shape (Q, Q), or (0, 0) where it was not asked for.

    def moved(self, by: float, place: int) -> tuple[FloatArray, ...]:
        """Return where the minimum may be once a parameter is moved: to first order, and the others as they are."""
        alone = self.theta.copy()
        alone[place] += by
        if self.inverse is None or not self.inverse[place, place] > 0:
            return (alone,)
        return self.theta + by * self.inverse[:, place] / self.inverse[place, place], alone


class _Shape:
    """The mean score beside an estimate, by a part of the records."""

    def __init__(
        self,
        records: Records,
        theta: FloatArray,
        penalty: FloatArray,
        *,
        takes_steps: bool = True,
        grows: bool = False,
        error: MeanError | None,
        allowed: FloatArray,
    ) -> None:
        self.records, self.theta, self.penalty = records, theta, penalty
        self.error, self.allowed = error, allowed
        # Where there are standard errors the pass of second derivatives is compiled.
        self._derivatives, how = records.derivatives_or_differences(roughly=True)
        self._has_derivatives = how == "exact"
        self._takes_steps = takes_steps and self._has_derivatives and len(theta) <= _MOST_PARAMETERS
        self.grows = grows and self._takes_steps

    @functools.cached_property
    def _here(self) -> Derivatives:
        return self._derivatives(self.theta, True)

    @functools.cached_property
    def _start(self) -> FloatArray:
        return self._here.gradient if self._takes_steps else self._gradient(self.theta)

    @functools.cached_property
    def _inverse_here(self) -> FloatArray | None:
        return self._inverse(self._here.hessian)

    def _inverse(self, hessian: FloatArray) -> FloatArray | None:
        """Return the inverse of a mean Hessian with the penalty, if it has one."""
        try:
            return np.asarray(np.linalg.inv(hessian + np.diag(self.penalty)), dtype=np.float64)
        except np.linalg.LinAlgError:
            return None

    def _change(self, gradient: FloatArray, theta: FloatArray) -> FloatArray:
        """Return what a mean gradient has more than that of the estimate, the penalty's share with it."""
        return np.asarray(gradient - self._start + self.penalty * (theta - self.theta))

    def _place(self, theta: FloatArray, found: Derivatives) -> _Place:
        slope = self._start + self.penalty * self.theta
        loss = found.loss + 0.5 * float(self.penalty @ theta**2) - float(slope @ theta)
        change = self._change(found.gradient, theta)
        return _Place(theta, loss, change, found.hessian, self._inverse(found.hessian), found.meat)

    def _profiled(self, before: _Place, by: float, place: int, *, parts: int = _PARTS) -> tuple[_Place | None, bool]:
        """Return where the others have their minimum once a parameter is moved, and whether it was found.

        It is looked for from another such minimum on, by a half of the way first where it is not found at once.
        """
        found, is_minimum = self._minimum(before, by, place)
        if is_minimum or parts == 0:
            return found, is_minimum
        half_way, is_found = self._profiled(before, by / 2, place, parts=parts - 1)
        if half_way is None or not is_found:
            return found, False
        again, is_minimum = self._minimum(half_way, by / 2, place)
        return (again, True) if is_minimum else (found, False)

    def _minimum(self, before: _Place, by: float, place: int) -> tuple[_Place | None, bool]:
        """Return the same by Newton's method alone.

        Steps are halved until the loss falls. Where there is no minimum, it is the last place at which the others had a
        positive curvature; None where the correction does not exist.
        """
        others = np.delete(np.arange(len(self.theta)), place)

        def at(theta: FloatArray) -> list[_Place]:
            is_there = is_allowed(self.records.correction, theta)
            return [self._place(theta, self._derivatives(theta, self.grows))] if is_there else []

        begun = [found for begin in before.moved(by, place) for found in at(begin)]
        if not begun:
            return None, False
        here = min(begun, key=lambda found: found.loss)
        if not len(others):
            return here, True
        for _ in range(_STEPS):
            try:
                factor = cho_factor((here.hessian + np.diag(self.penalty))[np.ix_(others, others)])
            except (np.linalg.LinAlgError, ValueError):
                break
            step = np.zeros(len(self.theta))
            step[others] = cho_solve(factor, here.change[others])
            fall = float(step @ here.change)
            if self.records.total * fall <= _LEFT:
                return here, True
            shares = (0.5**halving for halving in range(_HALVINGS))
            tried = ((share, found) for share in shares for found in at(here.theta - share * step))
            lower = (found for share, found in tried if found.loss <= here.loss - _SHARE_OF_FALL * share * fall)
            after = next(lower, None)
            if after is None:
                break
            here = after
        return here, False

    def _gradient(self, theta: FloatArray) -> FloatArray:
        """Return the mean gradient, by the pass that is compiled."""
        if not self._has_derivatives:
            return self.records.mean_gradient(theta)
        shares = self.records.shares
        found = self.records.factored_gradients(theta, by_derivatives=True)
        if found is None:
            return np.asarray(shares @ self.records.gradients(theta, slice(None), by_derivatives=True))
        slopes, bends, jacobian = found
        return np.asarray((shares * slopes) @ self.records.design_rows() + (bends @ shares) @ jacobian)

    def is_straight(
        self, move: FloatArray, place: int, far: float, within: float, *, sides: Sequence[float] = (-1.0, 1.0)
    ) -> bool:
        """Whether the statistic is that of a straight line but for a share, so far out."""
        for side in sides:
            statistic = self.statistic(side * move, place)
            if statistic is None or not abs(statistic(far) - far) <= within * far:
                return False
        return True

    def errs(self, move: FloatArray, place: int, far: float, beyond: float) -> bool:
        """Whether the error of a surrogate makes more than a share of the statistic, so far out."""
        if self.error is None:
            return False
        plain = _Shape(self.records, self.theta, self.penalty, takes_steps=False, error=None, allowed=self.allowed)
        for side in (-1.0, 1.0):
            found, without = (one.statistic(side * move, place) for one in (self, plain))
            if found is None or without is None or without(far) - found(far) > beyond * far:
                return True
        return False

    def statistic(
        self, move: FloatArray, place: int, variance: Callable[[float], float] = _constant
    ) -> Callable[[float], float] | None:
        """Return the statistic of a test t moves away: t where the score is a straight line of a constant variance.

        None where the part tells nothing of it. `variance` is that of the score, over that at the estimate, where it is
        not found with the others at their minimum.
        """
        here, spread_here = self._score(self._inverse_here, self._here.meat, place)
        near = float(here @ self._here.hessian @ move + here @ (self.penalty * move)) / spread_here
        if not (math.isfinite(near) and near * move[place] > 0):
            return None

        def size(score: FloatArray, spread: float, change: FloatArray, theta: FloatArray) -> float:
            found = float(score @ change) / (spread * near)
            if self.error is not None:
                found -= max(0.0, float(score @ self.error.at(theta)) / (spread * near) - self.allowed[place])
            return found if math.isfinite(found) else 0.0

        def along_the_line(t: float) -> float:
            moved = self.theta + t * move
            if not is_allowed(self.records.correction, moved):
                return 0.0
            with np.errstate(all="ignore"):
                if not self._takes_steps:
                    change, score, spread = self._change(self._gradient(moved), moved), here, spread_here
                else:
                    found = self._derivatives(moved)
                    change = self._change(found.gradient, moved)
                    score, spread = self._score(self._inverse(found.hessian), self._here.meat, place)
                return size(score, spread, change, moved) / math.sqrt(variance(t))

        # From one place the next is found in a step or two.
        path, lost = {0.0: self._place(self.theta, self._here)}, [math.inf]

        def where_others_follow(t: float) -> float:
            if t >= lost[-1]:
                return along_the_line(t)
            before = max(one for one in path if one <= t)
            with np.errstate(all="ignore"):
                found, is_minimum = self._profiled(path[before], (t - before) * move[place], place)
                # Without a minimum it is the noise that says where they go.
                if found is None or not is_minimum:
                    lost.append(t)
                    return along_the_line(t)
                path[t] = found
                score, spread = self._score(found.inverse, self._here.meat, place)
                growth = math.sqrt(variance(t))
                if self.grows:
                    growth = max(1.0, self._score(found.inverse, found.meat, place)[1] / spread)
                return size(score, spread, found.change, found.theta) / growth

        return where_others_follow if self._takes_steps else along_the_line

    def _score(self, inverse: FloatArray | None, meat: FloatArray, place: int) -> tuple[FloatArray, float]:
        """Return e_j'H^-1 and the spread of its products with gradients; infinite where the curvature is no sum."""
        if inverse is None:
            return np.zeros(len(self.theta)), math.inf
        score = inverse[place]
        spread = float(score @ meat @ score)
        return score, math.sqrt(spread) if score[place] > 0 and spread > 0 else math.inf


def _end(beyond: Callable[[float], float], begin: float) -> float:
    """Return where a function is first not below 0, from a begin on; infinite where it is nowhere."""
    near = begin
    if beyond(near) >= 0:
        return begin
    for place in _PLACES:
        far = place * (begin / critical_value(_LEVEL))
        if beyond(far) >= 0:
            return float(brentq(beyond, near, far, xtol=1e-2))
        near = far
    return math.inf
