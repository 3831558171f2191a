"""The collector of garbage, which looks through all that lives again and again while much is made that stays."""

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Let garbage lie: for imports and compilations, of which the collector is an eighth of the time.

    Where it was off it stays off.

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
            gc.enable()
