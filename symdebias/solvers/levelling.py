"""Where scores level off within an interval: the ends of those that a score test does not reject."""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import brentq

from symdebias._arrays import FloatArray
from symdebias._fieller import fieller_variance
from symdebias.codegen.score.program import ScoreProgram
from symdebias.correction import Correction
from symdebias.exceptions import DivergenceError
from symdebias.inference import critical_value, critical_values
from symdebias.losses.shifts import centred, ignores_shifts
from symdebias.noise import ChannelNoise
from symdebias.records import LOOKED_AT, Derivatives, Records
from symdebias.solvers.curvature import error_along
from symdebias.solvers.moments import released_moments
from symdebias.solvers.newton import is_allowed
from symdebias.solvers.quadratic_pilot import estimated_multiplier
from symdebias.solvers.scores import ReleasedRecords
from symdebias.solvers.surrogate_error import MeanError
from symdebias.solvers.uncertain_curvature import telling
from symdebias.transforms.surrogate import Design

# The level of the intervals that are looked at, and how far their ends are looked for, in standard errors; as many
# times farther as it is begun farther out than at 1.96.
_LEVEL, _PLACES = 0.95, (2.8, 4.0, 7.0, 16.0)
# From what to how many times what rejects a statistic is level beyond an end. Of records of parameters far out those
# alone have a fit whose score is positive there: where a tenth of draws have one, one in twenty of these comes to 1.3
# times 1.96. One that falls is that of noise which grows, and which there is little of next to the estimate.
_LEVEL_FROM, _LEVEL_TO = 0.8, 1.3
# With more parameters than this, or many scores, the others stay on the line: second derivatives take too long.
_MOST_PARAMETERS = 64
# Ends that are farther out by less than this share are as good as those of a constant curvature.
_MUCH_FARTHER = 0.05
# By how much a statistic of few records may differ from a straight line's at an end before more are looked at: where it
# is larger the other parameters leave the line.
_NEARLY_STRAIGHT = 0.03
# Fewer records for each parameter than this tell nothing of how straight a score is.
_FOR_EACH = 10
# By how much it may differ for the parameter that moves scores most, for none to be looked at.
_STRAIGHT = 0.006
# Newton's steps of the other parameters, halvings of a step and of their way, what share of the fall that the slope
# foretells there is to be, and how much of a fall of the summed loss may be left at their minimum. Its unit is what a
# straight score of the parameter that is tested makes it rise by one standard error away, twice: 1 for a likelihood.
_STEPS, _HALVINGS, _PARTS, _SHARE_OF_FALL, _LEFT = 12, 6, 6, 1e-4, 0.005
# Tests to one side take the same surrogate where scores differ by no more than this share of their size: a quarter of
# what a fit lets pass before it has another one, as a test is told by the difference of two scores.
_ALIKE = 0.025
# On a sphere a loss has this share of the curvature along theta, or of what so many standard errors leave possible, and
# keeps as much of its own where scores are so many times as long, where the bias is added as it is bounded at the
# estimate. Slopes are differenced by the last share.
_OF_THE_LOSS, _ERRORS, _STILL_BENT, _LONGER, _STEP = (0.8, 1.25), 2.0, 0.7, 1.25, 0.05
# From where no more of a fall is left, steps arrive, and no other begin is looked at.
_NEAR = 100.0


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
        c below and above each parameter: with c t^2 added to the variance of a score test t standard errors away, or
        what `symdebias.inference.Inference` has for it beyond a bias, an interval of 95% ends where the test does, the
        bias added. None where all are 0.

    Notes
    -----
    The statistic of theta_j + t se_j is e_j'H^-1 g/sqrt(e_j'H^-1 M H^-1 e_j/n), with g and H where the other parameters
    have their minimum beside it, and the meat M of the estimate: a score test (Boos 1992, The American Statistician
    46). On the way there the others may leave the line theta + t V e_j/se_j by far, as where columns nearly agree.
    Where a loss ignores shifts, as softmax does, all parameters keep their sums over the scores, as the estimate has
    them: a parameter alone is told from nothing. Where the others have no minimum on the way, g and H are those of the
    line, and where H is not positive, it does not reject. Of more than 64 parameters, and where second derivatives are
    differences, H is that of the estimate. Some thousand records tell the shape, and standard errors the scale.

    Where the curvature is uncertain, M is that of the parameter that is tested, and many records tell the shape: of
    fewer the noise would make another one. Where a channel noises labels or a column M is that of either, whichever has
    the more variance: a label or category that was turned over weighs the more the surer the true one would be.

    Where the statistic comes to what rejects and levels off there, an interval has no end. Of records of parameters far
    out those have a fit whose score is positive there; where few draws have one, most of these seem to rule out the
    truth.

    Beyond the scores that a surrogate was designed for it does not level off where the loss does, but has waves, and
    its variance grows with the noise of longer parameters. A score that is tested is therefore that of the surrogate
    for the scores there, with as many waves and the same dial as that of the estimate.

    The test leaves the bias out, and where it ends the bias is added as it is bounded at the estimate: an end is u + b
    with b standard errors of bias and u where the statistic comes to c - b, P(|N(b, 1)| <= c) = .95. The bound counts
    errors of all scores as if they had one sign; what the slope loses farther out would make the more of it.

    The errors of polynomials on a sphere have one sign where it matters: a loss that levels off far out does so between
    a polynomial's last bends, and its mean score there is mostly bias. Where the curvature is not that of the loss, or
    the loss loses its own a little farther out, a statistic is there less the bias as it is bounded where the test is,
    and an end is where that comes to c - b.
    """
    errors = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    allowed = np.zeros(len(theta)) if bias is None else np.divide(bias, errors, where=errors > 0, out=0 * errors)
    reaches = critical_values(_LEVEL, allowed, np.full(len(allowed), math.inf))
    # What a test rejects at that leaves the bias to the interval: from 1.96 without any to 1.64 with a large one.
    rejects = reaches - allowed
    designs = _Designs.of(records, theta, known)
    # A wrong label, or category, counts the more the surer the true one would be: the variance of a score has its own
    # way.
    correction = records.correction
    has_own_variance = isinstance(correction.release.target_noise, ChannelNoise) or bool(correction.design.categorical)
    if curving is None:
        some = records.looked_at if LOOKED_AT >= _FOR_EACH * len(theta) else records.tested
        part = records.tested
    else:
        # A score may be straight by a few of these and bent by all.
        some = part = telling(records, len(theta))
    few = _Shape(some, theta, penalty, with_meat=has_own_variance)
    many = _Shape(part, theta, penalty, with_meat=has_own_variance or curving is not None)
    is_less_bias = designs is not None and designs.levels_off(many)
    found = np.zeros((len(theta), 2))
    places = np.flatnonzero(errors)
    moves = covariance[:, places] / errors[places]
    program = records.correction.program
    misleads = designs is not None
    if isinstance(program, ScoreProgram) and len(program.scores) == 1 and len(places):
        # Moves that change scores less are straighter still.
        widest = int(np.argmax(np.abs(few.records.design_rows() @ moves).max(axis=0)))
        move, place, far = moves[:, widest], int(places[widest]), critical_value(_LEVEL)
        if designs is not None:
            moved = [side * move for side in (-1.0, 1.0)]
            misleads = any(designs.mislead(few, one, place, far, _STRAIGHT) for one in moved)
            misleads |= is_less_bias
        if not misleads and few.is_straight(move, place, far, _STRAIGHT):
            return None
    for place, move in zip(places.tolist(), moves.T, strict=True):
        reach, own = float(rejects[place]), float(allowed[place])
        # Of a bias without a bound every end is nowhere.
        if not math.isfinite(reach):
            continue
        slope, bend = (0.0, 0.0) if curving is None else curving[place]
        for side, sign in enumerate((-1.0, 1.0)):
            variance = functools.partial(_variance, slope=sign * slope, bend=bend)
            needed = functools.partial(_needed, variance=variance, bias_ratio=own)
            straight = _end(_straight(variance, needed), own + reach)
            if not math.isfinite(straight):
                continue
            away = sign * move
            # What is left of the bias to be added where a test ends.
            added = 0.0 if is_less_bias else own
            # Beyond the bias, which combinations of parameters may have less of.
            enough = (1 + _MUCH_FARTHER) * (straight - added)
            errs = (
                misleads
                and designs is not None
                and (is_less_bias or designs.mislead(few, away, place, enough, _NEARLY_STRAIGHT))
            )
            if not errs and few.is_straight(away, place, reach, _NEARLY_STRAIGHT, sides=(1.0,)):
                continue
            test = _Test(many, designs, away, place, None if curving is None else variance, is_less_bias=is_less_bias)
            if not test.tells or test.rejects_by(enough, reach, by_own=not errs, bias=own - added):
                continue
            end = added + _end(_beyond(test.beyond_bias, reach), enough)
            if math.isfinite(end) and _is_level(test.statistic, end - added, reach):
                end = math.inf
            # What is left of the variance where there is no end.
            unbiased, left = critical_value(_LEVEL), bend
            if math.isfinite(end):
                beyond = needed(end) - own / math.sqrt(variance(end))
                left = variance(end) * (beyond / (unbiased * (end - own))) ** 2
            found[place, side] = max(0.0, unbiased**-2 - left)
    return found if found.any() else None


def _variance(t: float, *, slope: float, bend: float) -> float:
    return float(fieller_variance(t, slope, bend))


def _straight(variance: Callable[[float], float], needed: Callable[[float], float]) -> Callable[[float], float]:
    """Return by how much the statistic of a straight line, t moves away, is more than what it has to come to."""
    return lambda t: t / math.sqrt(variance(t)) - needed(t)


def _beyond(statistic: Callable[[float], float], reach: float) -> Callable[[float], float]:
    return lambda t: statistic(t) - reach


def _is_level(statistic: Callable[[float], float], end: float, reach: float) -> bool:
    """Whether a statistic stays about where it rejects from an end on, as far out as ends are looked for."""
    farthest = max(_PLACES[-1], 2 * end)
    found = (statistic(t) / reach for t in (farthest, math.sqrt(end * farthest)))
    return all(_LEVEL_FROM < share < _LEVEL_TO for share in found)


def _needed(t: float, *, variance: Callable[[float], float], bias_ratio: float) -> float:
    """Return what the statistic of a test t standard errors away has to come to, the bias within its bound."""
    return critical_value(_LEVEL, bias_ratio / math.sqrt(variance(t)))


@dataclass(frozen=True)
class _Place:
    """Parameters beside an estimate, and what there is to know of them."""

    theta: FloatArray
    loss: float  # That whose slope is the change of the gradient.
    change: FloatArray  # What the mean gradient, with the penalty's share, is more than at the estimate.
    hessian: FloatArray
    meat: FloatArray  # Of shape (Q, Q), or (0, 0) where it was not asked for.
    inverse: FloatArray | None = None  # That of the Hessian with the penalty, where it was asked for and there is one.


class _Shape:
    """The mean score beside an estimate, by a part of the records."""

    def __init__(
        self,
        records: Records,
        theta: FloatArray,
        penalty: FloatArray,
        *,
        like: "_Shape | None" = None,
        with_meat: bool = False,
    ) -> None:
        self.records, self.theta, self.penalty, self.with_meat = records, theta, penalty, with_meat
        if like is not None:
            self.start = like.start
        # Where there are standard errors the pass of second derivatives is compiled.
        self.metric: FloatArray = released_moments(records) if like is None else like.metric
        self._derivatives, how = records.derivatives_or_differences(self.metric, roughly=True)
        self._has_derivatives = how == "exact"
        is_quick = self._has_derivatives and not records.passes_gradients
        self.takes_steps = is_quick and len(theta) <= _MOST_PARAMETERS
        loss = records.correction.loss
        self._centred = len(loss.scores) if ignores_shifts(loss) else 0

    @functools.cached_property
    def here(self) -> Derivatives:
        return self._derivatives(self.theta, True)

    def error_along(self, direction: FloatArray) -> float:
        """Return the standard error of the curvature at the estimate in a direction."""
        return error_along(self.records, self.theta, self.metric, direction, by_derivatives=self._has_derivatives)

    @functools.cached_property
    def start(self) -> FloatArray:
        """The mean gradient at the estimate: what a part has more of it than all records."""
        return self._gradient(self.theta)

    @functools.cached_property
    def inverse_here(self) -> FloatArray | None:
        return self._inverse(self.here.hessian)

    def _inverse(self, hessian: FloatArray) -> FloatArray | None:
        """Return the inverse of a mean Hessian with the penalty, if it has one, for parameters that keep their sums."""
        try:
            found = np.asarray(np.linalg.inv(hessian + np.diag(self.penalty)), dtype=np.float64)
        except np.linalg.LinAlgError:
            return None
        # It is apart from what all scores have in common.
        return centred(found, self._centred, np.zeros(found.shape)).reshape(found.shape) if self._centred else found

    def _change(self, gradient: FloatArray, theta: FloatArray) -> FloatArray:
        """Return what a mean gradient has more than that of the estimate, the penalty's share with it."""
        return np.asarray(gradient - self.start + self.penalty * (theta - self.theta))

    def _place(self, theta: FloatArray) -> _Place | None:
        """Return what there is at parameters; None where there is no correction."""
        if not is_allowed(self.records, theta):
            return None
        found = self._derivatives(theta, self.with_meat)
        slope = self.start + self.penalty * self.theta
        loss = found.loss + 0.5 * float(self.penalty @ theta**2) - float(slope @ theta)
        return _Place(theta, loss, self._change(found.gradient, theta), found.hessian, found.meat)

    def _with_inverse(self, place: _Place) -> _Place:
        return replace(place, inverse=self._inverse(place.hessian))

    def moved(self, before: _Place, by: float, place: int, beyond: _Place | None = None) -> list[FloatArray]:
        """Return where the minimum may be once a parameter is moved, the likeliest first, and the others as they are.

        That is to first order, or between two such minima by what both say.
        """
        alone = before.theta + by * self._alone(place)
        way = _way(before, place)
        if way is None:
            return [alone]
        back = None if beyond is None else _way(beyond, place)
        if beyond is None or back is None:
            return [before.theta + by * way, alone]
        whole = beyond.theta[place] - before.theta[place]
        share, apart = by / whole, beyond.theta - before.theta
        bent = share * (1 - share) * ((1 - share) * (whole * way - apart) - share * (whole * back - apart))
        return [before.theta + share * apart + bent, before.theta + by * way, alone]

    def _alone(self, place: int) -> FloatArray:
        """Return a direction of a parameter alone; where a loss ignores shifts, parameters keep their sums over it."""
        found = np.zeros(len(self.theta))
        if self._centred:
            found.reshape(self._centred, -1)[:, place % (len(found) // self._centred)] = -1 / (self._centred - 1)
        found[place] = 1.0
        return found

    def _ways(self, place: int) -> FloatArray:
        """Return directions of the others, as columns.

        Where a loss ignores shifts, a parameter alone is told from nothing: all scores would follow it, and the loss
        stay what it is. What is told is the one among parameters of a sum of 0, as the estimate is.
        """
        count = len(self.theta)
        if not self._centred:
            return np.delete(np.eye(count), place, axis=1)
        size = count // self._centred
        # One of the other scores is what the rest leave of 0.
        first = size if place < size else 0
        ways = np.eye(count)
        ways[first : first + size] -= np.tile(np.eye(size), self._centred)
        return np.delete(ways, [place, *range(first, first + size)], axis=1)

    def profiled(
        self,
        before: _Place,
        by: float,
        place: int,
        *,
        unit: float,
        beyond: _Place | None = None,
        parts: int = _PARTS,
    ) -> _Place | None:
        """Return where the others have their minimum once a parameter is moved; None where it is not found.

        It is looked for from another such minimum on, or between two of them, and by a half of the way first where it
        is not found at once. `unit` is that of the summed loss, of `unit_of`.
        """
        found = self._minimum(before, by, place, unit, beyond)
        if found is not None or parts == 0:
            return found
        half_way = self.profiled(before, by / 2, place, unit=unit, beyond=beyond, parts=parts - 1)
        return None if half_way is None else self._minimum(half_way, by / 2, place, unit, beyond)

    def _minimum(self, before: _Place, by: float, place: int, unit: float, beyond: _Place | None) -> _Place | None:
        """Return the same by Newton's method alone, whose steps are halved until the loss falls."""
        ways, total = self._ways(place), self.records.total / unit
        here, step, fall = None, np.zeros(0), math.inf
        for begin in self.moved(before, by, place, beyond):
            found = self._place(begin)
            if found is None or not found.loss < (math.inf if here is None else here.loss):
                continue
            here = found
            step, fall = self._step(here, ways)
            if total * fall <= _NEAR:
                break
        for _ in range(_STEPS):
            if here is None or not math.isfinite(fall):
                return None
            if total * fall <= _LEFT:
                return self._with_inverse(here)
            here = self._lower(here, step, fall)
            if here is not None:
                step, fall = self._step(here, ways)
        return None

    def _step(self, here: _Place, ways: FloatArray) -> tuple[FloatArray, float]:
        """Return what Newton's method takes off the others, and the fall of the mean loss that it foretells.

        The fall is infinite where their curvature is not positive.
        """
        if not ways.size:
            return np.zeros(len(ways)), 0.0
        try:
            factor = cho_factor(ways.T @ (here.hessian + np.diag(self.penalty)) @ ways)
        except (np.linalg.LinAlgError, ValueError):
            return np.zeros(len(ways)), math.inf
        step = ways @ cho_solve(factor, ways.T @ here.change)
        return step, float(step @ here.change)

    def _lower(self, here: _Place, step: FloatArray, fall: float) -> _Place | None:
        """Return the first place with a lower loss after a step, a half of it, and so on; None where there is none."""
        for halving in range(_HALVINGS):
            share = 0.5**halving
            found = self._place(here.theta - share * step)
            if found is not None and found.loss <= here.loss - _SHARE_OF_FALL * share * fall:
                return found
        return None

    def _gradient(self, theta: FloatArray) -> FloatArray:
        """Return the mean gradient, by the pass that is compiled."""
        if not self._has_derivatives or self.records.passes_gradients:
            return self.records.mean_gradient(theta)
        shares = self.records.shares
        found = self.records.factored_gradients(theta, by_derivatives=True)
        if found is None:
            # Of several scores this takes less than the gradients of records.
            return self._derivatives(theta, False).gradient
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

    def near(self, move: FloatArray, place: int) -> float:
        """Return the statistic that a straight line has one move away; NaN where the part tells nothing of it."""
        score, spread = self.score_here(place)
        found = float(score @ self.here.hessian @ move + score @ (self.penalty * move)) / spread
        return found if math.isfinite(found) and found * move[place] > 0 else math.nan

    def statistic(self, move: FloatArray, place: int) -> Callable[[float], float] | None:
        """Return the statistic of a test t moves away along the line: t where the score is straight.

        None where the part tells nothing of it.
        """
        near = self.near(move, place)
        if math.isnan(near):
            return None
        score, spread = self.score_here(place)

        def along_the_line(t: float) -> float:
            moved = self.theta + t * move
            if not is_allowed(self.records, moved):
                return 0.0
            with np.errstate(all="ignore"):
                if self.with_meat and (there := self._place(moved)) is not None:
                    own = math.sqrt(float(score @ there.meat @ score))
                    found = float(score @ there.change) / (max(own, spread) * near)
                else:
                    found = float(score @ self._change(self._gradient(moved), moved)) / (spread * near)
            return found if math.isfinite(found) else 0.0

        return along_the_line

    def at_estimate(self) -> _Place:
        """Return what there is at the estimate."""
        return _Place(self.theta, 0.0, 0 * self.theta, self.here.hessian, self.here.meat, self.inverse_here)

    def on_line(self, theta: FloatArray, estimate: _Place) -> _Place | None:
        """Return what there is at parameters, wherever others have their minimum; None without a correction.

        Where no steps are taken all but the gradient is that of the estimate.
        """
        if self.takes_steps:
            found = self._place(theta)
            return None if found is None else self._with_inverse(found)
        if not is_allowed(self.records, theta):
            return None
        return replace(estimate, theta=theta, change=self._change(self._gradient(theta), theta))

    def unit_of(self, place: int) -> float:
        """Return twice by how much the summed loss rises where a parameter is moved by one of its standard errors.

        The others follow, and the score is straight. It is 1 for a likelihood, and changes with the unit of the loss
        and that of the weights as their sums do.
        """
        score, spread = self.score_here(place)
        return spread**2 / float(score[place])

    def score_here(self, place: int) -> tuple[FloatArray, float]:
        """Return `score` at the estimate."""
        return self.score(self.inverse_here, self.here.meat, place)

    def score(self, inverse: FloatArray | None, meat: FloatArray, place: int) -> tuple[FloatArray, float]:
        """Return e_j'H^-1 and the spread of its products with gradients; infinite where the curvature is no sum."""
        if inverse is None:
            return np.zeros(len(self.theta)), math.inf
        score = inverse[place]
        spread = float(score @ meat @ score)
        return score, math.sqrt(spread) if score[place] > 0 and spread > 0 else math.inf


@dataclass(frozen=True)
class _Designs:
    """Surrogates for the scores that there are at parameters beside an estimate, like that of the estimate."""

    known: ReleasedRecords
    design: Design  # That of the estimate.
    growth: float  # How many times as much noise of the score it was designed for as there is.
    error: MeanError | None  # Its own; None on a sphere.
    error_here: FloatArray

    @classmethod
    def of(cls, records: Records, theta: FloatArray, known: ReleasedRecords | None) -> "_Designs | None":
        """Return them for records under a surrogate; else None."""
        design = records.correction.surrogates
        if known is None or design is None or not design.surrogates:
            return None
        own = float(np.mean(known.variances(theta)))
        growth = max(1.0, design.score_variance / own) if own > 0 else 1.0
        error = MeanError(known, records.correction) if known.zonal is None else None
        return cls(known, design, growth, error, np.zeros(0) if error is None else error.at(theta))

    def levels_off(self, shape: _Shape) -> bool:
        """Whether a bound on a bias that is by the curvature at the estimate may be far too small.

        On a sphere, whose surrogates are polynomials, errors have one sign where the loss levels off, as where it has
        parted the records; those of waves change signs. The curvature of the loss along theta is found by the estimated
        true scores, E[l''(u) u^2], at the estimate, and where scores are a quarter longer.
        """
        theta = shape.theta
        if self.error is not None or not theta.any():
            return False
        here, longer = self._bends(shape.records.correction, theta, (1.0, _LONGER))
        curvature = float(theta @ shape.here.hessian @ theta)
        # Of few records another curvature may be their chance alone.
        error = _ERRORS * shape.error_along(theta)
        low, high = _OF_THE_LOSS
        is_its_own = low * (curvature - error) <= here <= high * (curvature + error)
        return not (is_its_own and longer >= _STILL_BENT * here)

    def _bends(self, correction: Correction, theta: FloatArray, lengths: Sequence[float]) -> FloatArray:
        """Return E[l''(t u) u^2] over estimated true scores u of theta, for scores so many times t as long."""
        sample, scores = self.known.sample_of(), self.known.scores(theta)
        found, times = np.zeros(len(lengths)), np.array(lengths)
        for part in self.known.parts.replaced:
            low, high = (
                part.numbers.slope(side * np.multiply.outer(times, scores.values)) for side in (1 - _STEP, 1 + _STEP)
            )
            multiplier = sample.chances @ estimated_multiplier(correction, part.multiplier, sample.target)
            found += multiplier * ((high - low) @ (scores.chances * scores.values))
        return np.asarray(found / (2 * _STEP * times))

    def bias(self, shape: _Shape, theta: FloatArray, hessian: FloatArray, place: int) -> float:
        """Return a bound on what the surrogate of a shape adds to e_j'H^-1 g at theta; infinite without a curvature."""
        try:
            factor = self.known.bias_factor(shape.records.correction, theta, hessian + np.diag(shape.penalty))
        except np.linalg.LinAlgError:
            return math.inf
        return float(np.linalg.norm(factor[place]))

    def mislead(self, shape: _Shape, move: FloatArray, place: int, far: float, beyond: float) -> bool:
        """Whether the surrogate of the estimate adds more than a share to a statistic, so far out."""
        score, spread = shape.score_here(place)
        if self.error is None:
            return False
        added = float(score @ (self.error.at(shape.theta + far * move) - self.error_here)) / (
            spread * shape.near(move, place)
        )
        return not added <= beyond * far

    def apart(self, place: FloatArray, theta: FloatArray) -> float:
        """Return by how much scores at a place and at parameters differ, over their size at the place."""
        extent = self.known.extent(place)
        return self.known.size(theta - place) / extent if extent > 0 else math.inf

    def at(self, shape: _Shape, theta: FloatArray) -> _Shape:
        """Return the shape of the same part by the surrogate for the scores at parameters."""
        try:
            corrected = self.known.resolved_like(theta, self.design, growth=self.growth)
        except DivergenceError:
            # The loss is too steep for a surrogate of these scores: it is not one that levels off.
            return shape
        records = corrected.of(shape.records)
        return _Shape(records, shape.theta, shape.penalty, like=shape, with_meat=shape.with_meat)


@dataclass(frozen=True)
class _Statistic:
    """That of a score test, and a bound on what a bias makes of it; 0 where it says nothing."""

    size: float = 0.0
    bias: float = 0.0


class _Test:
    """Score tests of a parameter to one side of its estimate, by a part of the records.

    Parameters
    ----------
    shape : _Shape
        Of the part.
    designs : _Designs or None
        Surrogates for where a test is, where there is one of the estimate.
    move : array of shape (Q,), float64
        To first order, by how much the parameters move with a standard error of the one that is tested.
    place : int
        Which it is.
    variance : callable or None
        That of the score by t, over that at the estimate, where it is not constant: where the others follow it is the
        one that is found there.
    is_less_bias : bool
        Whether a statistic is less the bias of the surrogate where it is.
    """

    def __init__(
        self,
        shape: _Shape,
        designs: _Designs | None,
        move: FloatArray,
        place: int,
        variance: Callable[[float], float] | None,
        *,
        is_less_bias: bool = False,
    ) -> None:
        self._shape, self._designs, self._move, self._place, self._variance = shape, designs, move, place, variance
        self._is_less_bias = is_less_bias
        self._near = shape.near(move, place)
        self._unit = shape.unit_of(place) if self.tells else math.nan
        # From one place the next is found in a step or two; statistics that are told are kept.
        self._path, self._lost = {0.0: shape.at_estimate()}, math.inf
        self._told: dict[float, _Statistic] = {}
        self._designed: list[tuple[FloatArray, _Shape]] = []

    @property
    def tells(self) -> bool:
        """Whether the part tells anything of it."""
        return not math.isnan(self._near)

    def rejects_by(self, t: float, reach: float, *, by_own: bool, bias: float) -> bool:
        """Whether the test rejects so far out, or already where a straight line does, less a bias.

        `by_own` says that the surrogate of the estimate may tell where it does, before another is looked for. Where its
        score is steeper than a straight line it may be a wave of it, and the other one tells.
        """
        if by_own and self._designs is not None:
            own = self._where_others_follow(t, None)
            if own is not None and own.size - own.bias >= reach:
                if own.size <= (1 + _NEARLY_STRAIGHT) * t:
                    return True
                del self._path[t]
        # Where no steps are taken the line is all there is.
        found = self._followed(t) if self._shape.takes_steps else self._told_of(t)
        return (found is not None and found.size - found.bias >= reach) or self.beyond_bias(reach + bias) >= reach

    def statistic(self, t: float) -> float:
        """Return the statistic of a test t standard errors away: t where the score is a straight line."""
        return self._told_of(t).size

    def beyond_bias(self, t: float) -> float:
        """Return the same less the bound on the bias there, where a test is less that."""
        found = self._told_of(t)
        return found.size - found.bias

    def _told_of(self, t: float) -> _Statistic:
        found = self._followed(t)
        if found is not None:
            return found
        # Without a minimum it is the noise that says where the others go.
        theta = self._shape.theta + t * self._move
        with np.errstate(all="ignore"):
            there = self._shape if self._designs is None else self._by(self._designs, theta)
            on_line = there.on_line(theta, self._path[0.0])
            if on_line is None:
                return _Statistic()
            grown = 1.0 if self._variance is None else math.sqrt(self._variance(t))
            told = self._size(there, on_line, self._meats(on_line, known=True))
            return _Statistic(told.size / grown, told.bias / grown)

    def _followed(self, t: float) -> _Statistic | None:
        """Return the statistic where the others have their minimum; None from where they had none on."""
        if t >= self._lost:
            return None
        if t not in self._told:
            found = self._where_others_follow(t, self._designs)
            if found is None:
                self._lost = t
                return None
            self._told[t] = found
        return self._told[t]

    def _where_others_follow(self, t: float, designs: _Designs | None) -> _Statistic | None:
        """Return the statistic where the others have their minimum; None where they have none."""
        if not self._shape.takes_steps:
            return None
        last = max(one for one in self._path if one <= t)
        before, by = self._path[last], (t - last) * self._move[self._place]
        with np.errstate(all="ignore"):
            further = [one for one in self._path if one > t]
            beyond = self._path[min(further)] if further else None
            there = self._shape
            if designs is not None:
                there = self._by(designs, there.moved(before, by, self._place, beyond)[0])
            found = there.profiled(before, by, self._place, unit=self._unit, beyond=beyond)
            if found is None:
                return None
            self._path[t] = found
            return self._size(there, found, self._meats(found, known=False))

    def _by(self, designs: _Designs, theta: FloatArray) -> _Shape:
        """Return the shape by the surrogate for the scores at parameters, or for those next to them."""
        near = [(designs.apart(place, theta), shape) for place, shape in self._designed]
        apart, shape = min(near, key=lambda one: one[0], default=(math.inf, self._shape))
        if apart > _ALIKE:
            shape = designs.at(self._shape, theta)
            self._designed.append((theta, shape))
        return shape

    def _meats(self, found: _Place, *, known: bool) -> list[FloatArray]:
        """Return the meats of which a test has the one of more variance.

        Where the variance by t is given, the meat is that of the place, or where that variance is `known` besides that
        of the estimate. Elsewhere it is either, where meats are asked for.
        """
        here = self._shape.here.meat
        if self._variance is not None:
            return [here if known else found.meat]
        return [here, found.meat] if found.meat.size else [here]

    def _size(self, there: _Shape, found: _Place, meats: Sequence[FloatArray]) -> _Statistic:
        tests = [there.score(found.inverse, meat, self._place) for meat in meats]
        score, spread = max(tests, key=lambda one: one[1])
        size, bias = float(score @ found.change) / (spread * self._near), 0.0
        if self._designs is not None and self._is_less_bias:
            bias = self._designs.bias(there, found.theta, found.hessian, self._place) / (spread * abs(self._near))
        return _Statistic(size, bias) if math.isfinite(size) and math.isfinite(bias) else _Statistic()


def _way(minimum: _Place, place: int) -> FloatArray | None:
    """Return how all parameters go with one of them, to first order, from where the others have their minimum."""
    inverse = minimum.inverse
    if inverse is None or not inverse[place, place] > 0:
        return None
    return np.asarray(inverse[:, place] / inverse[place, place])


def _end(beyond: Callable[[float], float], begin: float) -> float:
    """Return where a function is first not below 0, from a begin on; infinite where it is nowhere."""
    beyond, near = functools.cache(beyond), begin
    if beyond(near) >= 0:
        return begin
    for place in _PLACES:
        far = place * (begin / critical_value(_LEVEL))
        if beyond(far) >= 0:
            return float(brentq(beyond, near, far, xtol=0.01 * begin))
        near = far
    return math.inf
