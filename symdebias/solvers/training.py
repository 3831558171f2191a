"""Descents of the steps of SGD: their epochs and segments on records, in memory or read, with what stops them."""

import functools
import math
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
from symdebias.solvers.step_sizes import learned_steps, step_size_told, step_sizes
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
    lengths: Lengths | None = None

    def size(self, run: Records) -> tuple[int, int]:
        """Return the number of records and that of steps in an epoch."""
        return len(run), -(-len(run) // self.batch_size)

    def told(self) -> dict[str, Any]:
        """Return what there is to tell of how it was to be trained."""
        return {"epochs": self.epochs, "step_size": step_size_told(self.step_size)}

    def _steps(self, run: Records, X: Any, begin: FloatArray) -> tuple[Any, FloatArray]:
        """Return the rule of step sizes and the scaling of steps: given, learned, or those that are gone on with."""
        if self.after is not None:
            return self.step_size, self.after.scaling
        if not (isinstance(self.step_size, str) and self.step_size == "auto"):
            return self.step_size, np.zeros((0, 0))
        if not np.all(np.isfinite(self.metric)):
            explain_overflow(run, X)
        return learned_steps(
            run, frame_of(run).lifted(begin), self.penalty, self.metric, min(self.batch_size, len(run)),
            self.epochs * self.size(run)[1], in_units=self.bound < math.inf or bool(len(self.smoothing)),
            radius=self.bound, is_near=self.has_pilot, by_derivatives=self.has_pilot,
        )  # fmt: skip

    def _sizes(self, step_size: Any, first: int, count: int) -> FloatArray:
        """Return the sizes of so many steps, after so many of earlier records."""
        gain = 1.0 if self.after is None else self.gain
        return gain * step_sizes(step_size, first=first, count=count, l2=self.l2 * gain)

    def _kernel(self, run: Records, scaling: FloatArray) -> Callable[..., int]:
        """Return the compiled pass over some steps, which measures records where `lengths` are asked for."""
        kernel: Callable[..., int] = run.correction.kernels.sgd_pass(
            weighted=bool(len(run.weights)), smoothed=bool(len(self.smoothing)), scaled=bool(len(scaling)),
            held=frame_of(run).place, measured=self.lengths is not None,
        )  # fmt: skip
        if self.lengths is None:
            return kernel
        return functools.partial(kernel, lengths=(self.lengths.inverse, self.lengths.longest))

    def of(
        self, run: Records, X: Any, begin: FloatArray, begun: Callable[[Descent], object], stage: int = 0
    ) -> tuple[Descent, dict[str, Any], Reached]:
        """Train on some records from a start, and return the descent, which `begun` is told of, and what to tell of it.

        A learned step takes the place of its name. The last one is what further records may go on from. ``stage``
        counts the descents of a run. A parameter that records hold is none of those of the descent.
        """
        correction, frame, (matrix, target) = run.correction, frame_of(run), run.encoded
        n, per_epoch = self.size(run)
        batch_size, total, lengths = min(self.batch_size, n), self.epochs * per_epoch, self.lengths
        step_size, scaling = self._steps(run, X, begin)
        earlier = None if self.after is None else self.after.descent
        weight = run.total / n if self.after is None else self.after.weight
        sizes = self._sizes(step_size, 0 if earlier is None else earlier.all_steps, total)
        kernel = self._kernel(run, scaling)
        limits = correction.limits.for_kernels(finite_variance=True)
        growth, runaway = growth_limits(self.bound, scaled=bool(len(scaling)))
        sums_at: list[int] = []
        if self.with_sums:
            first = first_averaged(self.share, total)
            sums_at = [first + end for end in batch_ends(total - first, step_size.power)]
        descent = Descent(
            begin, total, radius=self.bound, share=self.share, record=self.record, sums_at=sums_at, after=earlier
        )
        begun(descent)
        best = None if self.patience is None else _BestEpoch(self.patience)
        at_epoch, is_past = 0, False
        shuffler = None if self.rng is None else self.rng.bit_generator

        def take_up(state: dict[str, Any]) -> None:
            nonlocal at_epoch, is_past
            descent.take_up(state["descent"])
            at_epoch, is_past = int(state["epoch"]), bool(state["is_past"])
            if best is not None:
                best.take_up(state["best"])
            if shuffler is not None:
                shuffler.state = state["order"]

        def state_of(epoch: int, order: Any, is_past: bool = False) -> dict[str, Any]:
            return {
                "descent": descent.state(), "epoch": epoch, "is_past": is_past, "order": order,
                "best": None if best is None else best.state(),
            }  # fmt: skip

        if self.journal is not None:
            self.journal.resumed(stage, take_up)
        is_read = isinstance(matrix, Rows) or isinstance(target, Rows)
        penalty = frame.reported(self.penalty)
        deal, longest = Deal.as_given(), max(1, (at_once(matrix, target) if is_read else _SEGMENT) // batch_size)
        with progress_bar(self.progress, self.epochs * n, "record") as advance:
            advance(int(seen_after(n, batch_size)(np.array(descent.done))))
            for epoch in range(self.epochs if is_past else at_epoch, self.epochs):
                drawn_from = None if shuffler is None else shuffler.state
                if self.rng is not None:
                    deal = Deal.shuffled(n, matrix.shape[1], self.rng)
                origin = epoch * per_epoch
                if lengths is not None:
                    lengths.begin()
                for lower, upper in descent.segments(origin, origin + per_epoch, longest):
                    if upper <= descent.done:
                        continue
                    lower = max(lower, descent.done)
                    first, end = (lower - origin) * batch_size, min((upper - origin) * batch_size, n)
                    dealt = matrix, target, run.weights, deal.order, RUNS, deal.run_length, deal.shift, first
                    if is_read:
                        dealt = read(run, deal, first, end)
                    if not descent.take(
                        kernel, lower, upper, *dealt, correction.noise, sizes[lower:upper], batch_size, weight, penalty,
                        self.bound, growth, runaway, limits, self.smoothing, scaling,
                    ):  # fmt: skip
                        first += (descent.done - lower) * batch_size
                        batch = deal.rows(np.arange(first, min(first + batch_size, n)), n)
                        explain_stop(run, X, descent, batch, sizes[descent.done])
                    if lengths is not None:
                        lengths.has_read(end - first, n)
                    advance(end - first)
                    if self.journal is not None and upper < origin + per_epoch:
                        self.journal.keep(stage, functools.partial(state_of, epoch, drawn_from))
                if best is not None:
                    best.see(run.mean_loss(frame.lifted(descent.result)), descent)
                    is_past = best.is_past
                if self.journal is not None:
                    order = None if shuffler is None else shuffler.state
                    is_last = is_past or epoch == self.epochs - 1
                    self.journal.keep(stage, functools.partial(state_of, epoch + 1, order, is_past), at_once=is_last)
                if is_past:
                    break
        notes = replace(self, step_size=step_size).told()
        if best is not None:
            descent.back_to(best.epoch * per_epoch, best.theta, best.average)
            notes |= {"epochs": len(best.losses), "epoch_losses": tuple(best.losses), "best_epoch": best.epoch}
        return descent, notes, Reached(descent, step_size, scaling, self.gain, weight)


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
