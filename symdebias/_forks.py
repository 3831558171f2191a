"""A lock between threads, in processes that are forked while it is held."""

import os
import threading


class LockOfThreads:
    """A lock between the threads of a process; one that is forked from it has another.

    The lock that it got may be held by a thread that it did not get, and would be so for ever.

    Parameters
    ----------
    is_reentrant : bool
        Whether a thread that has the lock may ask for it again.

    Attributes
    ----------
    lock : threading.Lock or threading.RLock
        That of this process.

    Examples
    --------
    >>> threads = LockOfThreads()
    >>> with threads.lock:
    ...     threads.lock.locked()
    True
    """

    def __init__(self, *, is_reentrant: bool = False) -> None:
        self._kind = threading.RLock if is_reentrant else threading.Lock
        self._renew()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        self.lock = self._kind()
