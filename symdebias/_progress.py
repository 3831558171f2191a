"""Progress bars of long work, where they are wanted: by ``progress=True``, or on a terminal by the command line."""

import contextlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

from symdebias import _optional

# The environment variable that keeps a terminal quiet where it is "off".
VARIABLE = "SYMDEBIAS_PROGRESS"


def is_looked_at() -> bool:
    """Return whether somebody at a terminal sees standard error, and did not ask for quiet."""
    return sys.stderr is not None and sys.stderr.isatty() and os.environ.get(VARIABLE, "") != "off"


def is_welcome() -> bool:
    """Return whether a command shows progress without being asked: on a terminal, where bars can be drawn."""
    return is_looked_at() and importlib.util.find_spec("tqdm") is not None


@contextlib.contextmanager
def progress_bar(progress: bool, total: int | None, unit: str) -> Iterator[Callable[[int], Any]]:
    """Show the progress, where it is wanted, of what the yielded function is told.

    Parameters
    ----------
    progress : bool
        Whether it is wanted.
    total : int or None
        How much there is to do; None where nobody knows.
    unit : str
        What is counted.

    Raises
    ------
    MissingDependencyError
        It is wanted, and tqdm is not installed.
    """
    if not progress:
        yield lambda _: None
        return
    tqdm = _optional.require("tqdm", extra="progress")
    with tqdm.tqdm(total=total, unit=unit, unit_scale=True) as bar:
        yield bar.update
