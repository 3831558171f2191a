"""Many descents at once: where each begins in an epoch, and what takes the steps of all that are on their way.

Replicates may begin at different places of the order of an epoch, which is then gone round in a circle: one that begins
later joins when its place is reached, and goes on in a second round for as long as it was late.
"""

import bisect
import functools
import itertools
import math
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from symdebias._arrays import FloatArray, IntegerArray
from symdebias._progress import progress_bar
from symdebias._rows import WINDOW, Rows
from symdebias.codegen.replicates import ReplicatesPass, replicates_pass
from symdebias.exceptions import DivergenceError, InfiniteVarianceError, NoExactCorrectionError, SymdebiasError
from symdebias.records import Records
from symdebias.solvers.checkpoint import Checkpoint
from symdebias.solvers.deal import RUNS, Deal, read
from symdebias.solvers.descent import Descent, seen_after
from symdebias.solvers.held import Frame, frame_of
from symdebias.solvers.settings import Setting
from symdebias.solvers.step_sizes import rule_on, step_sizes
from symdebias.solvers.stops import growth_limits, require_finite, stopped

# The errors of replicates by their names, as a checkpoint has them.
_ERRORS = {one.__name__: one for one in (DivergenceError, InfiniteVarianceError, NoExactCorrectionError)}
# Records of all replicates together between two looks at the keyboard and the progress bar: a second or less.
_SEGMENT = 2**26
# So few step sizes are told once: replicates that begin at many places have many short segments.
_FEW_STEPS = 2**14


@dataclass
class Member:
    """One replicate: where it is, and what its steps are made of."""

    setting: Setting
    l2: float
    penalty: FloatArray
    bound: float
    step_size: Any
    scaling: FloatArray
    descent: Descent
    per_epoch: int
    late: int  # How many steps of the others it lets go by before its first in an epoch.
    turns: int  # How many times the order of an epoch is gone round.

    @classmethod
    def of(
        cls,
        setting: Setting,
        run: Records,
        metric: FloatArray,
        batch_size: int,
        per_epoch: int,
        *,
        turns: int,
        epochs: int,
        share: float,
        record: int | Sequence[int] | None,
        factor: float,
        smoothed: bool,
    ) -> "Member":
        """Return a replicate at its start, with its steps, learned where they are to be."""
        l2, bound = setting.l2 * factor, math.inf if setting.radius is None else setting.radius
        frame = frame_of(run)
        penalty = frame.penalty(run, l2)
        own = frame.reported(penalty)
        begin = np.zeros(len(own)) if setting.start is None else frame.reported(frame.start(run, setting.start))
        step_size, scaling = rule_on(
            run, setting.step_size, begin, penalty, metric, batch_size, epochs * per_epoch,
            radius=bound, smoothed=smoothed,
        )  # fmt: skip
        return cls(
            setting,
            l2,
            penalty,
            bound,
            step_size,
            scaling,
            Descent(begin, epochs * per_epoch, radius=bound, share=share, record=record),
            per_epoch,
            int(setting.shift * per_epoch),
            turns,
        )

    def sizes(self, lower: int, upper: int, *, at_once: bool) -> FloatArray:
        """Return the step sizes of a segment of its own steps; those of all at once where segments are many."""
        if at_once and self.descent.total <= _FEW_STEPS:
            return self._sizes[lower:upper]
        return step_sizes(self.step_size, first=lower, count=upper - lower, l2=self.l2)

    @functools.cached_property
    def _sizes(self) -> FloatArray:
        return step_sizes(self.step_size, first=0, count=self.descent.total, l2=self.l2)

    def behind(self, begin: int) -> int:
        """Return how many steps of all replicates it has let go by in the epoch to which one of them belongs."""
        return begin // (self.turns * self.per_epoch) * (self.turns - 1) * self.per_epoch + self.late

    def own(self, begin: int, end: int) -> tuple[int, int]:
        """Return the first and the last of its own steps among those of a round; none where they are in turn."""
        first, behind = begin // (self.turns * self.per_epoch) * self.per_epoch, self.behind(begin)
        return max(begin - behind, first), min(end - behind, first + self.per_epoch)

    def seen(self, records: int, batch_size: int) -> Callable[[IntegerArray], IntegerArray]:
        """Return a function of numbers of its steps that says how many records they saw."""
        plain = seen_after(records, batch_size)

        def seen(steps: IntegerArray) -> IntegerArray:
            epochs, inside = np.divmod(steps, self.per_epoch)
            return np.asarray(epochs * records + plain(inside + self.late) - plain(np.array(self.late)))

        return seen


def _segments(members: Sequence[Member], begin: int, end: int, longest: int) -> Iterator[tuple[int, int]]:
    """Cut steps where a replicate begins, ends or has a segment of its own, and by a greatest length."""
    cuts = set()
    for one in members:
        lower, upper = one.own(begin, end)
        if lower < upper:
            cuts |= {one.behind(begin) + step for segment in one.descent.segments(lower, upper) for step in segment}
    for lower, upper in itertools.pairwise(sorted(cuts)):
        for first in range(lower, upper, longest):
            yield first, min(first + longest, upper)


@dataclass(frozen=True)
class _Line:
    """The replicates in the order in which they begin, so that those on their way stand side by side.

    Attributes
    ----------
    places : list of int
        The place of each among the settings.
    members : list of Member
    lates : list of int
        How many steps of the others each lets go by.
    thetas, averages : array of shape (R, Q), float64
    reports : array of shape (R, 3), int64
        What the kernel writes to; descents look at their rows of these.
    scalings : array of shape (R, Q, Q) or (R, 0, 0), float64
    bounds : tuple of arrays
        Penalties of shape (R, Q), and radius, growth and runaway of shape (R,).
    """

    places: list[int]
    members: list[Member]
    lates: list[int]
    thetas: FloatArray
    averages: FloatArray
    reports: IntegerArray
    scalings: FloatArray
    bounds: tuple[FloatArray, ...]

    @classmethod
    def of(cls, members: Sequence[Member], frame: Frame) -> "_Line":
        """Line replicates up, at their starts."""
        places = sorted(range(len(members)), key=lambda place: members[place].late)
        lined = [members[place] for place in places]
        thetas = np.stack([one.descent.start for one in lined])
        averages, reports = thetas.copy(), np.zeros((len(lined), 3), dtype=np.int64)
        for row, one in enumerate(lined):
            one.descent.theta, one.descent.average, one.descent.report = thetas[row], averages[row], reports[row]
        unscaled = np.eye(thetas.shape[1]) if any(len(one.scaling) for one in lined) else np.zeros((0, 0))
        scalings = np.stack([one.scaling if len(one.scaling) else unscaled for one in lined])
        limits = [growth_limits(one.bound, scaled=bool(len(one.scaling))) for one in lined]
        bounds = (
            np.stack([frame.reported(one.penalty) for one in lined]),
            np.array([one.bound for one in lined]),
            *(np.array(limit) for limit in zip(*limits, strict=True)),
        )
        return cls(places, lined, [one.late for one in lined], thetas, averages, reports, scalings, bounds)

    def on_their_way(self, inside: int, per_epoch: int, without: Container[int]) -> list[int]:
        """Return the rows of those that take the step `inside` of an epoch, but for some places."""
        # All take as many steps of an epoch, so that those on their way are next to one another.
        begun, ended = bisect.bisect_right(self.lates, inside), bisect.bisect_right(self.lates, inside - per_epoch)
        return [row for row in range(ended, begun) if self.places[row] not in without]


def train_together(
    run: Records, X: Any, members: list[Member], errors: dict[int, SymdebiasError], *, batch_size: int, epochs: int,
    turns: int, smoothing: FloatArray, rng: np.random.Generator | None, progress: bool, journal: Checkpoint | None,
) -> None:  # fmt: skip
    """Take the steps of all replicates; what stops one of them is among the errors.

    Raises
    ------
    ValueError
        A value of X is not finite.
    """
    (matrix, target), n = run.encoded, len(run)
    size, per_epoch = min(batch_size, n), -(-n // batch_size)
    line = _Line.of(members, frame_of(run))
    take = _Taking(run, X, line, errors, _kernel(run, line, smoothing), size, per_epoch, turns, smoothing)
    is_read = isinstance(matrix, Rows) or isinstance(target, Rows)
    longest = max(1, (WINDOW if is_read else max(WINDOW, _SEGMENT // len(members))) // size)
    deal, done, at_round = Deal.as_given(), 0, 0
    shuffler = None if rng is None else rng.bit_generator

    def take_up(state: dict[str, Any]) -> None:
        nonlocal done, at_round
        done, at_round = int(state["done"]), int(state["epoch"])
        for one, own in zip(members, state["descents"], strict=True):
            one.descent.take_up(own)
        for place, (kind, said) in state["errors"].items():
            errors[int(place)] = _ERRORS[kind](said)
        if shuffler is not None:
            shuffler.state = state["order"]

    def state_of(at: int, drawn_from: Any) -> dict[str, Any]:
        return {
            "done": done, "epoch": at, "order": drawn_from,
            "descents": [one.descent.state() for one in members],
            "errors": {str(place): [type(error).__name__, str(error)] for place, error in errors.items()},
        }  # fmt: skip

    if journal is not None:
        journal.resumed(0, take_up)
    # Where the last to begin ends an epoch, all have.
    seen, longest_epoch = seen_after(n, size), per_epoch + line.lates[-1]
    last = (epochs - 1) * turns * per_epoch + longest_epoch
    read_before, read_in_epoch = (int(seen(np.array(steps))) for steps in (done % (turns * per_epoch), longest_epoch))
    drawn_from: Any = None
    with progress_bar(progress, epochs * read_in_epoch, "record") as advance:
        advance(done // (turns * per_epoch) * read_in_epoch + read_before)
        for at in range(at_round, turns * epochs):
            # A second round goes on in the order of the first.
            if rng is not None and (at % turns == 0 or at == at_round):
                drawn_from = rng.bit_generator.state
                deal = Deal.shuffled(n, matrix.shape[1], rng)
            origin = at * per_epoch
            for lower, upper in _segments(line.members, origin, origin + per_epoch, longest):
                rows = line.on_their_way(lower % (turns * per_epoch), per_epoch, errors)
                if upper <= done or not rows:
                    continue
                first, end = (lower - origin) * size, min((upper - origin) * size, n)
                take(rows, lower, upper, origin, deal, first, end if is_read else None)
                advance(end - first)
                done = upper
                if journal is not None:
                    journal.keep(0, functools.partial(state_of, at, drawn_from), at_once=upper == last)


def _kernel(run: Records, line: _Line, smoothing: FloatArray) -> ReplicatesPass:
    """Return the compiled pass for replicates."""
    return replicates_pass(
        run.correction.kernels,
        weighted=bool(len(run.weights)),
        smoothed=bool(len(smoothing)),
        scaled=line.scalings.size > 0,
        held=frame_of(run).place,
    )


@dataclass(frozen=True)
class _Taking:
    """What takes the steps of a segment, for those of a line that are on their way."""

    run: Records
    X: Any
    line: _Line
    errors: dict[int, SymdebiasError]
    kernel: ReplicatesPass
    size: int
    per_epoch: int
    turns: int
    smoothing: FloatArray

    def __call__(
        self, rows: list[int], lower: int, upper: int, origin: int, deal: Deal, first: int, read_to: int | None
    ) -> None:
        """Take the steps from `lower` to `upper` on the records from `first` on, read where an end is given."""
        run, line, n = self.run, self.line, len(self.run)
        dealt: tuple[Any, ...] = (*run.encoded, run.weights, deal.order, RUNS, deal.run_length, deal.shift, first)
        if read_to is not None:
            dealt = read(run, deal, first, read_to)
        here = slice(rows[0], rows[-1] + 1)
        sizes, averaged = np.zeros((here.stop - here.start, upper - lower)), np.zeros(here.stop - here.start)
        own = {row: (lower - behind, upper - behind) for row in rows for behind in [line.members[row].behind(origin)]}
        for row in rows:
            one = line.members[row]
            sizes[row - here.start] = one.sizes(*own[row], at_once=self.turns > 1)
            averaged[row - here.start] = one.descent.averaged(own[row][0])
        self.kernel(
            line.thetas[here], dealt, run.guarded_noise, sizes, self.size, run.total / n,
            tuple(bound[here] for bound in line.bounds), run.limits.for_kernels(),
            self.smoothing, line.scalings[here], line.averages[here], averaged, line.reports[here],
        )  # fmt: skip
        said = line.reports[here].tolist()
        for row in rows:
            one, (why, _, step) = line.members[row], said[row - here.start]
            taken = step if why else upper - lower
            if not one.descent.took(*own[row], taken):
                begin = first + taken * self.size
                batch = deal.rows(begin, min(begin + self.size, n), n)
                if not self.errors:
                    require_finite(run, self.X)
                stop = stopped(run, one.descent, batch, float(sizes[row - here.start, taken]))
                self.errors[line.places[row]] = stop
