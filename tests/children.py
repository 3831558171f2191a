"""Forked children that do one thing: to be killed, to race, or to be another user."""

import os
import random
import signal
import time
import traceback
import warnings

NOBODY = 65534
# In seconds; what a child does takes a moment.
LONGEST = 120.0


def start(work):
    """Fork a child that does some work and ends; return its process id."""
    with warnings.catch_warnings():
        # Newer versions of Python warn of every fork while there are threads, which libraries leave.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    return child


def status(child):
    """Wait for a child, and return 0 where its work was done, or minus the signal that killed it.

    One that does not end is killed.
    """
    deadline = time.monotonic() + LONGEST
    while (found := os.waitpid(child, os.WNOHANG)) == (0, 0):
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            found = os.waitpid(child, 0)
            break
        time.sleep(0.001)
    return os.waitstatus_to_exitcode(found[1])


def kill_while(work, count, *, longest):
    """Kill children at random moments of their work."""
    moments = random.Random(0)
    for _ in range(count):
        child = start(work)
        time.sleep(longest * moments.random())
        os.kill(child, signal.SIGKILL)
        status(child)


def as_nobody(work):
    """Return work that is done by a user without rights."""

    def done():
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        work()

    return done
