"""What descents have in common: which iterates are averaged and kept, and the progress bar."""

import contextlib
import numbers
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from symdebias import _optional
from symdebias._domains import COUNT, shown


def averaged_share(average: bool | float) -> float:
    """Return which share of the steps, from the last one back, is averaged."""
    if isinstance(average, (bool, np.bool_)):
        return float(average)
    if not isinstance(average, numbers.Real) or not (0 < average <= 1):
        raise ValueError(
            f"average={shown(average)} is neither True, False nor a share in (0, 1]. Pass average=True for the mean "
            "of all iterates, or average=0.5 for that of the last half."
        )
    return float(average)


def recorded_steps(record: int | Sequence[int] | None, total: int) -> set[int]:
    """Return the numbers of the steps whose iterates are kept."""
    if record is None:
        return set()
    if isinstance(record, (int, np.integer)):
        count = COUNT.check("record", record)
        return {int(step) for step in np.unique(np.linspace(0, total, count + 1).round())}
    steps = set()
    for step in record:
        if isinstance(step, bool) or not isinstance(step, (int, np.integer)) or not 0 <= step <= total:
            raise ValueError(
                f"record has {shown(step)}, which is not a step of this run. Steps are the integers 0 to {total}."
            )
        steps.add(int(step))
    return steps


@contextlib.contextmanager
def progress_bar(progress: bool, total: int, unit: str) -> Iterator[Callable[[int], Any]]:
    """Show the progress, where it is wanted, of what the yielded function is told."""
    if not progress:
        yield lambda _: None
        return
    tqdm = _optional.require("tqdm", extra="progress")
    with tqdm.tqdm(total=total, unit=unit, unit_scale=True) as bar:
        yield bar.update


def first_averaged(share: float, total: int) -> int:
    """Return how many of all steps come before those whose iterates are averaged; all of them where none is."""
    return total if share == 0 else total - max(1, round(share * total))
