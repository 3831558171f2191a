"""Descents of the steps of SGD: their epochs and segments on records, in memory or read, with what stops them."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from symdebias._arrays import FloatArray
from symdebias._progress import progress_bar
from symdebias._rows import Rows, at_once
from symdebias.records import Records
from symdebias.solvers.batch_means import batch_ends
from symdebias.solvers.checkpoint import Checkpoint
from symdebias.solvers.deal import RUNS, Deal, read
from symdebias.solvers.descent import Descent, first_averaged, seen_after
from symdebias.solvers.held import frame_of
from symdebias.solvers.lengths import Lengths
from symdebias.solvers.step_sizes import is_learned, rule_on, step_size_told, step_sizes
from symdebias.solvers.stops import explain_overflow, explain_stop, growth_limits

# Rows between two looks at the keyboard and the progress bar: some milliseconds.
_SEGMENT = 2**20


@dataclass(frozen=True)
class Reached:
    """How far a descent has come, for further records to go on from there.

    Attributes
    ----------
    descent : Descent
        The run as it ended: its iterate, its average, and the number of its steps.
    step_size : float, str, StepSize or callable
        The rule of the step sizes, learned where it was to be.
    scaling : array of shape (Q, Q) or (0, 0), float64
        What learned steps multiply gradients with.
    gain : float
        What an offset has multiplied gradients with: the steps of further records are to be as long.
    weight : float
        The mean weight of the first records: those of further ones count in it.
    """

    descent: Descent
    step_size: Any
    scaling: FloatArray
    gain: float = 1.0
    weight: float = 1.0


@dataclass(frozen=True)
class Training:
    """How to train, whatever the records: see `sgd`.

    Attributes
    ----------
    penalty : array of shape (Q,), float64
        l2 for each parameter, one that is held among them.
    metric : array of shape (Q, Q), float64
        The second moments of released records.
    smoothing : array
        What `step_smoothing` returned.
    patience : int or None
        After how many epochs without improvement to stop.
    with_sums : bool
        Whether sums of iterates are kept, for batch means.
    rng : numpy.random.Generator or None
        For the order of the records; None takes them as they stand.
    after : Reached or None
        What is gone on from.
    journal : Checkpoint or None
        What keeps how far it has come.
    has_pilot : bool
        Whether a pilot has compiled the pass of derivatives: then no kernel for gradients is needed.
    gain : float
        As for `Reached`.
    stretch : float
        What steps of a given size are multiplied with, for an offset that does not multiply the gradients.
    lengths : Lengths or None
        What it measures of the records that it reads.
    """

    step_size: Any
    batch_size: int
    epochs: int
    l2: float
    penalty: FloatArray
    metric: FloatArray
    bound: float
    smoothing: FloatArray
    share: float
    record: int | Sequence[int] | None
    patience: int | None
    with_sums: bool
    rng: np.random.Generator | None
    progress: bool
    after: Reached | None = None
    journal: Checkpoint | None = None
    has_pilot: bool = False
    gain: float = 1.0
    stretch: float = 1.0
    lengths: Lengths | None = None

    def size(self, run: Records) -> tuple[int, int]:
        """Return the number of records and that of steps in an epoch."""
        return len(run), -(-len(run) // self.batch_size)

    def told(self) -> dict[str, Any]:
        """Return what there is to tell of how it was to be trained."""
        return {"epochs": self.epochs, "step_size": step_size_told(self.step_size)}

    def of(
        self, run: Records, X: Any, begin: FloatArray, begun: Callable[[Descent], object], stage: int = 0
    ) -> tuple[Descent, dict[str, Any], Reached]:
        """Train on some records from a start, and return the descent, which `begun` is told of, and what to tell of it.

        A learned step takes the place of its name. The last one is what further records may go on from. ``stage``
        counts the descents of a run. A parameter that records hold is none of those of the descent.
        """
        steps = _Steps.of(self, run, X, begin)
        under_way = _UnderWay(self, run, X, begin, steps, stage)
        begun(under_way.descent)
        under_way.resume()
        with progress_bar(self.progress, self.epochs * len(run), "record") as advance:
            advance(under_way.seen)
            while under_way.goes_on:
                under_way.take_epoch(advance)
        notes = replace(self, step_size=steps.step_size).told() | under_way.ended()
        return (
            under_way.descent,
            notes,
            Reached(under_way.descent, steps.step_size, steps.scaling, self.gain, steps.weight),
        )


@dataclass(frozen=True)
class _Steps:
    """What the steps of a descent are made of.

    Attributes
    ----------
    step_size : float, StepSize or callable
        The rule of the step sizes, learned where it was to be.
    scaling : array of shape (Q, Q) or (0, 0), float64
        What learned steps multiply gradients with.
    sizes : array of shape (T,), float64
        The step sizes.
    weight : float
        What weights are divided by.
    kernel : callable
        The compiled pass over some steps, which measures records where `lengths` are asked for.
    """

    step_size: Any
    scaling: FloatArray
    sizes: FloatArray
    weight: float
    kernel: Callable[..., int]

    @classmethod
    def of(cls, training: Training, run: Records, X: Any, begin: FloatArray) -> "_Steps":
        """Return the steps on some records: given, learned, or those that are gone on with."""
        n, per_epoch = training.size(run)
        total, after = training.epochs * per_epoch, training.after
        if after is not None:
            step_size, scaling = training.step_size, after.scaling
        else:
            if is_learned(training.step_size) and not np.all(np.isfinite(training.metric)):
                explain_overflow(run, X)
            step_size, scaling = rule_on(
                run, training.step_size, begin, training.penalty, training.metric, training.batch_size, total,
                radius=training.bound, smoothed=bool(len(training.smoothing)), has_pilot=training.has_pilot,
            )  # fmt: skip
        first, stretch = 0 if after is None else after.descent.all_steps, training.stretch
        sizes = stretch * step_sizes(step_size, first=first, count=total, l2=training.l2 * stretch)
        weight = run.total / n if after is None else after.weight
        return cls(step_size, scaling, sizes, weight, cls._kernel(training, run, scaling))

    @staticmethod
    def _kernel(training: Training, run: Records, scaling: FloatArray) -> Callable[..., int]:
        kernel: Callable[..., int] = run.correction.kernels.sgd_pass(
            weighted=bool(len(run.weights)), smoothed=bool(len(training.smoothing)), scaled=bool(len(scaling)),
            held=frame_of(run).place, measured=training.lengths is not None,
        )  # fmt: skip
        if training.lengths is None:
            return kernel
        return functools.partial(kernel, lengths=(training.lengths.inverse, training.lengths.longest))


class _UnderWay:
    """A descent on some records, epoch after epoch, which another process can take up where it was stopped."""

    def __init__(self, training: Training, run: Records, X: Any, begin: FloatArray, steps: _Steps, stage: int) -> None:
        self.training, self.run, self.X, self.steps, self.stage = training, run, X, steps, stage
        self.n, self.per_epoch = training.size(run)
        self.batch_size = min(training.batch_size, self.n)
        matrix, target = run.encoded
        self.is_read = isinstance(matrix, Rows) or isinstance(target, Rows)
        self.longest = max(1, (at_once(matrix, target) if self.is_read else _SEGMENT) // self.batch_size)
        # What holds a step: the penalty, and how long parameters and steps may be.
        self.constraints = (
            frame_of(run).reported(training.penalty), training.bound,
            *growth_limits(training.bound, scaled=bool(len(steps.scaling))),
            run.limits.for_kernels(),
        )  # fmt: skip
        total, sums_at = training.epochs * self.per_epoch, []
        if training.with_sums:
            first = first_averaged(training.share, total)
            sums_at = [first + end for end in batch_ends(total - first, steps.step_size.power)]
        self.descent = Descent(
            begin, total, radius=training.bound, share=training.share, record=training.record, sums_at=sums_at,
            after=None if training.after is None else training.after.descent,
        )  # fmt: skip
        self.best = None if training.patience is None else _BestEpoch(training.patience)
        self.epoch, self.is_past = 0, False
        self.shuffler = None if training.rng is None else training.rng.bit_generator

    # ---- in another process ------------------------------------------------------------------------------

    def resume(self) -> None:
        """Go on from where the journal has it, if there is one that has it."""
        if self.training.journal is not None:
            self.training.journal.resumed(self.stage, self._take_up)

    def _take_up(self, state: dict[str, Any]) -> None:
        self.descent.take_up(state["descent"])
        self.epoch, self.is_past = int(state["epoch"]), bool(state["is_past"])
        if self.best is not None:
            self.best.take_up(state["best"])
        if self.shuffler is not None:
            self.shuffler.state = state["order"]

    def _keep(self, drawn_from: Any, *, at_once: bool = False) -> None:
        """Keep where it is: in the epoch whose order was drawn from a state of the generator."""
        if self.training.journal is not None:
            self.training.journal.keep(self.stage, functools.partial(self._state, drawn_from), at_once=at_once)

    def _state(self, drawn_from: Any) -> dict[str, Any]:
        return {
            "descent": self.descent.state(), "epoch": self.epoch, "is_past": self.is_past, "order": drawn_from,
            "best": None if self.best is None else self.best.state(),
        }  # fmt: skip

    # ---- epochs ------------------------------------------------------------------------------------------

    @property
    def goes_on(self) -> bool:
        """Whether there is another epoch."""
        return self.epoch < self.training.epochs and not self.is_past

    @property
    def seen(self) -> int:
        """How many records its steps have seen."""
        return int(seen_after(self.n, self.batch_size)(np.array(self.descent.done)))

    def take_epoch(self, advance: Callable[[int], object]) -> None:
        """Take the steps of an epoch, or those that are left of it; `advance` is told of records.

        Raises
        ------
        SymdebiasError
            A step is stopped.
        """
        training, descent = self.training, self.descent
        drawn_from = self._order()
        deal = Deal.as_given()
        if training.rng is not None:
            deal = Deal.shuffled(self.n, self.run.encoded[0].shape[1], training.rng)
        if training.lengths is not None:
            training.lengths.begin()
        origin = self.epoch * self.per_epoch
        end_of_epoch = origin + self.per_epoch
        for lower, upper in descent.segments(origin, end_of_epoch, self.longest):
            if upper <= descent.done:
                continue
            advance(self._take_segment(deal, origin, max(lower, descent.done), upper))
            if upper < end_of_epoch:
                self._keep(drawn_from)
        if self.best is not None:
            self.best.see(self.run.mean_loss(frame_of(self.run).lifted(descent.result)), descent)
            self.is_past = self.best.is_past
        self.epoch += 1
        self._keep(self._order(), at_once=not self.goes_on)

    def _order(self) -> Any:
        """Return the state that the order of the next epoch is drawn from."""
        return None if self.shuffler is None else self.shuffler.state

    def _take_segment(self, deal: Deal, origin: int, lower: int, upper: int) -> int:
        """Take the steps from `lower` to `upper` of an epoch, and return of how many records they are."""
        training, run, steps, descent = self.training, self.run, self.steps, self.descent
        first, end = (lower - origin) * self.batch_size, min((upper - origin) * self.batch_size, self.n)
        dealt: tuple[Any, ...] = (*run.encoded, run.weights, deal.order, RUNS, deal.run_length, deal.shift, first)
        if self.is_read:
            dealt = read(run, deal, first, end)
        if not descent.take(
            steps.kernel, lower, upper, *dealt, run.guarded_noise, steps.sizes[lower:upper], self.batch_size,
            steps.weight, *self.constraints, training.smoothing, steps.scaling,
        ):  # fmt: skip
            first += (descent.done - lower) * self.batch_size
            batch = deal.rows(first, min(first + self.batch_size, self.n), self.n)
            explain_stop(run, self.X, descent, batch, steps.sizes[descent.done])
        if training.lengths is not None:
            training.lengths.has_read(end - first, self.n)
        return end - first

    def ended(self) -> dict[str, Any]:
        """Go back to the best epoch, where epochs were compared, and return what there is to tell of that."""
        if self.best is None:
            return {}
        best = self.best
        self.descent.back_to(best.epoch * self.per_epoch, best.theta, best.average)
        return {"epochs": len(best.losses), "epoch_losses": tuple(best.losses), "best_epoch": best.epoch}


class _BestEpoch:
    """The epoch with the smallest mean loss so far, and its parameters; the first epoch has the number 1."""

    def __init__(self, patience: int) -> None:
        self.patience = patience
        self.losses: list[float] = []
        self.epoch = 0
        self.theta = self.average = np.zeros(0)

    def see(self, loss: float, descent: Descent) -> None:
        """Take in the loss and the parameters at the end of an epoch."""
        self.losses.append(loss)
        # A loss that is not a number is no improvement.
        if self.epoch == 0 or loss < self.losses[self.epoch - 1]:
            self.epoch, self.theta, self.average = len(self.losses), descent.theta.copy(), descent.average.copy()

    def state(self) -> dict[str, Any]:
        """Return what was seen, for `take_up` in another process."""
        return {
            "losses": list(self.losses), "epoch": self.epoch, "theta": self.theta.copy(), "average": self.average.copy()
        }  # fmt: skip

    def take_up(self, state: dict[str, Any]) -> None:
        """Go on from what another process has seen."""
        self.losses, self.epoch = [float(loss) for loss in state["losses"]], int(state["epoch"])
        self.theta, self.average = state["theta"].copy(), state["average"].copy()

    @property
    def is_past(self) -> bool:
        """Whether the last epochs, as many as there is patience for, have all been no better."""
        return len(self.losses) - self.epoch >= self.patience
