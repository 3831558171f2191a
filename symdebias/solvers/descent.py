"""The shell of a descent: which iterates are averaged and kept, where a compiled pass stops, and the fit at the end.

A solver adds its own rule of steps: what the kernel is told of records, noise and step sizes.
"""

import bisect
import contextlib
import itertools
import math
import numbers
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from symdebias._arrays import FloatArray, IntegerArray
from symdebias._domains import COUNT, is_list, kind_or_value, shown
from symdebias.corrected import CorrectedLoss
from symdebias.exceptions import DivergenceError, FitInterrupted
from symdebias.solvers.fit import Fit, History


class Descent:
    """A run of steps: the iterate, the average of the last ones, and the iterates that are kept.

    Parameters
    ----------
    start : array of shape (Q,), float64
        Where it starts.
    total : int
        The number of steps.
    radius : float
        Bound on the norm of theta; infinite for none.
    share : float
        The share of the steps, from the last one back, whose iterates are averaged.
    record : int or sequence of int, optional
        Which iterates to keep, as for `sgd`.
    sums_at : iterable of int
        Numbers of steps at which the sum of the averaged iterates is kept as well.
    after : Descent, optional
        A run of earlier records that this one continues: its average, where all iterates are averaged, and its steps.

    Attributes
    ----------
    theta, average : array of shape (Q,), float64
        The iterate and the mean of those that are averaged; kernels write to both.
    done : int
        Steps taken.
    before : int
        Steps of the runs that this one continues.
    total : int
        Steps to take.
    stopped : int
        Why the kernel stopped; 0 where it did not.
    report : array of shape (2,) or longer, int64
        What kernels report: why they stopped, and the number of projections.
    sums : dict from int to array
        Sums of iterates by the numbers of their steps; 0 where averaging begins.
    """

    def __init__(
        self,
        start: FloatArray,
        total: int,
        *,
        radius: float = math.inf,
        share: float = 0.0,
        record: int | Sequence[int] | None = None,
        sums_at: Iterable[int] = (),
        after: "Descent | None" = None,
    ) -> None:
        self.start, self.theta, self.average = start.copy(), start.copy(), start.copy()
        self.done, self.stopped = 0, 0
        self._radius, self._end, self.total = radius, total, total
        self._averaged, self._averaged_from = 0, first_averaged(share, total)
        self.before = 0 if after is None else after.all_steps
        if after is not None and share == 1:
            self.average, self._averaged = after.average.copy(), after._averaged
        self._recorded, self._kept = _recorded_steps(record, total), {0: self.start}
        self._sums_at, self.sums = set(sums_at), {self._averaged_from: np.zeros(len(start))}
        self._stops = sorted({*self._recorded, *self._sums_at, self._averaged_from})
        self.report = np.zeros(2, dtype=np.int64)
        # Ctrl-C is noticed between two lines of Python: what is kept of a part of the run is kept at once.
        self._whole = (0, self.theta.copy(), self.average.copy(), 0)
        self._began = time.perf_counter()

    def segments(self, begin: int, end: int, longest: int | None = None) -> Iterator[tuple[int, int]]:
        """Cut the steps from `begin` to `end` where iterates are kept or averaging begins, and by a greatest length."""
        inside = self._stops[bisect.bisect_right(self._stops, begin) : bisect.bisect_left(self._stops, end)]
        for lower, upper in itertools.pairwise([begin, *inside, end]):
            for first in range(lower, upper, longest or upper - lower):
                yield first, min(first + longest, upper) if longest else upper

    def take(self, kernel: Callable[..., int], lower: int, upper: int, *arguments: Any) -> bool:
        """Take the steps of a segment, and return whether the kernel has gone through to its end.

        Parameters
        ----------
        kernel : callable
            A compiled pass. It takes theta first and last the average, the number of iterates in it (negative: do not
            average) and its report: why it stopped, and the number of projections.
        lower, upper : int
            The segment.
        *arguments
            What the kernel takes between these.
        """
        return self.took(lower, upper, kernel(self.theta, *arguments, self.average, self.averaged(lower), self.report))

    def averaged(self, lower: int) -> float:
        """Return how many iterates the average has at the beginning of a segment; negative where none is averaged."""
        return float(self._averaged) if lower >= self._averaged_from else -1.0

    def took(self, lower: int, upper: int, taken: int) -> bool:
        """Note how many steps of a segment were taken, and return whether these are all of them."""
        self.done = lower + taken
        if self.done < upper:
            self.stopped = int(self.report[0])
            return False
        if lower >= self._averaged_from:
            self._averaged += upper - lower
            if upper in self._sums_at:
                self.sums[upper] = self._averaged * self.average
        if upper in self._recorded:
            self._kept[upper] = self.result.copy()
        self._whole = (upper, self.theta.copy(), self.average.copy(), self._averaged)
        return True

    @property
    def result(self) -> FloatArray:
        """The average, or the iterate where none is averaged."""
        return self.average if self._averaged else self.theta

    @property
    def all_steps(self) -> int:
        """Steps taken, those of the runs that this one continues among them."""
        return self.before + self.done

    @property
    def projections(self) -> int:
        """How many steps ended on the ball."""
        return int(self.report[1])

    @property
    def on_ball(self) -> bool:
        """Whether the iterate lies on the ball."""
        return bool(np.linalg.norm(self.theta) >= self._radius * (1 - 1e-9))

    def state(self) -> dict[str, Any]:
        """Return where the run is, for `take_up` in another process."""
        return {
            "done": self.done,
            "averaged": self._averaged,
            "theta": self.theta.copy(),
            "average": self.average.copy(),
            "report": self.report.copy(),
            "kept": {str(step): theta.copy() for step, theta in self._kept.items()},
            "sums": {str(step): total.copy() for step, total in self.sums.items()},
        }

    def take_up(self, state: Mapping[str, Any]) -> None:
        """Go on from where another process was.

        Raises
        ------
        ValueError
            That is no place in this run.
        """
        vectors = [state["theta"], state["average"], *state["kept"].values(), *state["sums"].values()]
        if not all(vector.shape == self.start.shape and np.all(np.isfinite(vector)) for vector in vectors):
            raise ValueError("its parameters are no finite numbers, or not as many as here")
        done, averaged = state["done"], state["averaged"]
        if not (0 <= averaged <= done <= self.total) or state["report"].shape != self.report.shape:
            raise ValueError("its steps are not those of this run")
        self.done, self._averaged = int(done), int(averaged)
        self.theta[:], self.average[:], self.report[:] = state["theta"], state["average"], state["report"]
        self._kept = {int(step): theta for step, theta in state["kept"].items()}
        self.sums = {int(step): total for step, total in state["sums"].items()}
        self._whole = (self.done, self.theta.copy(), self.average.copy(), self._averaged)

    def back_to(self, step: int, theta: FloatArray, average: FloatArray) -> None:
        """End at an earlier step, whose iterate and average are given."""
        self._end, self.theta, self.average = step, theta, average
        self._whole = (step, theta, average, self._averaged)

    def back_to_whole(self) -> None:
        """End after the last part of the run that was gone through to its end."""
        self.done, self.theta, self.average, self._averaged = self._whole
        self._end = self.done
        self._kept = {step: theta for step, theta in self._kept.items() if step <= self.done}

    def diverged(self, size: float, what: str) -> DivergenceError:
        """Return the error that names the step after the last finite iterate, its size, and what is to blame."""
        norm = np.linalg.norm(self.theta)
        return DivergenceError(
            f"training diverged at step {self.done + 1} (||theta|| = {norm:.4g}, step size {size:.4g}){what}"
        )

    def fit(
        self,
        corrected: CorrectedLoss,
        *,
        solver: str,
        records: int | None,
        seen: Callable[[IntegerArray], IntegerArray],
        diagnostics: dict[str, Any],
        **more: Any,
    ) -> Fit:
        """Return the fit; `seen` says how many records were seen by some steps, `more` are other fields."""
        kept = {self._end: self.result.copy()} | self._kept
        steps = np.array(sorted(kept), dtype=np.int64)
        path = corrected.declared.by_score(np.stack([kept[int(step)] for step in steps]))
        return Fit.of(
            corrected,
            self.result,
            solver=solver,
            records=records,
            steps=self.done,
            began=self._began,
            history=History(steps, seen(steps), path),
            diagnostics={"projections": self.projections, "on_ball": self.on_ball, **diagnostics},
            **more,
        )


def seen_after(records: int, batch_size: int) -> Callable[[IntegerArray], IntegerArray]:
    """Return a function of numbers of steps that says how many records they saw, of epochs over so many records."""
    per_epoch = -(-records // batch_size)
    return lambda steps: steps // per_epoch * records + np.minimum(steps % per_epoch * batch_size, records)


def averaged_share(average: bool | float) -> float:
    """Return which share of the steps, from the last one back, is averaged."""
    if isinstance(average, (bool, np.bool_)):
        return float(average)
    if not isinstance(average, numbers.Real) or not (0 < average <= 1):
        raise ValueError(
            f"average={kind_or_value(average)} is neither True, False nor a share in (0, 1]. Pass average=True for the "
            "mean of all iterates, or average=0.5 for that of the last half."
        )
    return float(average)


def first_averaged(share: float, total: int) -> int:
    """Return how many of all steps come before those whose iterates are averaged; all of them where none is."""
    return total if share == 0 else total - max(1, round(share * total))


def _recorded_steps(record: int | Sequence[int] | None, total: int) -> set[int]:
    if record is None:
        return set()
    if isinstance(record, (int, np.integer)):
        count = COUNT.check("record", record)
        # More than there are steps are all of them.
        count = min(count, max(1, total))
        return {int(step) for step in np.unique(np.linspace(0, total, count + 1).round())}
    if not is_list(record):
        raise TypeError(
            f"record={shown(record)} is neither a number of iterates nor a sequence of steps. Pass record=10, or the "
            f"steps that are kept, integers from 0 to {total}."
        )
    steps = set()
    for step in record:
        if isinstance(step, bool) or not isinstance(step, (int, np.integer)) or not 0 <= step <= total:
            raise ValueError(
                f"record has {shown(step)}, which is not a step of this run. Steps are the integers 0 to {total}."
            )
        steps.add(int(step))
    return steps


@contextlib.contextmanager
def handing_over(so_far: Callable[[], tuple[Descent, Callable[..., Fit]] | None]) -> Iterator[None]:
    """Hand over the fit so far where the user stops the run by Ctrl-C.

    Parameters
    ----------
    so_far : callable
        Returns the descent, and what makes a fit of it from notes and diagnostics; None where none has begun.

    Raises
    ------
    FitInterrupted
        It has the fit. Where none has begun the KeyboardInterrupt goes on.
    """
    try:
        yield
    except KeyboardInterrupt:
        found = so_far()
        if found is None:
            raise
        descent, fit = found
        total = descent.total
        descent.back_to_whole()
        stopped = f"stopped by Ctrl-C after {descent.done:,} of {total:,} steps"
        made = fit(notes=(f"{stopped}: unfinished, and not looked at for noise",), interrupted=True)
        raise FitInterrupted(f"{stopped}. The fit so far is the attribute fit of this exception.", made) from None
