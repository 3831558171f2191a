"""The collector of garbage, which looks through all that lives again and again while much is made that stays."""

import contextlib
import gc
from collections.abc import Iterator

# Python 3.12 begins with some hundred of its own objects frozen; whoever freezes later freezes thousands.
_FROZEN_BY_PYTHON = 1_000


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Let garbage lie: for imports and compilations, of which the collector is an eighth of the time.

    Where it was off it stays off. What was made is then among what is old, which is looked through seldom, and not
    among what is new, all of which would be looked through next. What others keep from the collector by `gc.freeze`
    stays kept.

    Examples
    --------
    >>> with uncollected():
    ...     gc.isenabled()
    False
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            if gc.get_freeze_count() <= _FROZEN_BY_PYTHON:
                gc.freeze()
                gc.unfreeze()
            gc.enable()
