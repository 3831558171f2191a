"""Whether random numbers are used twice: by two calls, two records, two threads, or a process and its fork."""

import math
import os
import select
import signal
import struct
import threading
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from symdebias._arrays import FloatArray
from symdebias.checks.binomial import at_least

# How long a forked process may take to send its draws, in seconds.
_PATIENCE = 60.0
_LONGEST_WINDOW = 1024


@dataclass(frozen=True)
class Streams:
    """What a subject sends of one record again and again, from several places."""

    sent: dict[str, FloatArray]  # Of shape (n, k): by the name of the place.
    forked: bool  # Whether a forked process answered; there is none on some systems.


def collect(draw: Callable[[], FloatArray]) -> Streams:
    """Draw in two calls, in two threads at once, and in a forked process and in this one after it."""
    sent = {"a call": draw(), "the next call": draw()}
    found: dict[str, FloatArray] = {}
    failures: list[BaseException] = []

    def run(name: str) -> None:
        try:
            found[name] = draw()
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(name,)) for name in ("a thread", "another thread")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    sent |= found
    forked = _in_fork(draw) if hasattr(os, "fork") else None
    if forked is not None:
        sent["a forked process"] = forked
        sent["this process after the fork"] = draw()
    return Streams(sent, forked is not None)


def _in_fork(draw: Callable[[], FloatArray]) -> FloatArray | None:
    """Return what a forked process draws, or None where it does not answer."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        # The child draws and ends: it takes no lock that another thread may hold.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(reading)
            sent = np.ascontiguousarray(draw(), dtype=np.float64)
            data = memoryview(struct.pack("<qq", *sent.shape) + sent.tobytes())
            while data:
                data = data[os.write(writing, data) :]
            code = 0
        finally:
            # Nothing of the parent is cleaned up twice.
            os._exit(code)
    os.close(writing)
    chunks = []
    answered = True
    try:
        while answered:
            answered = bool(select.select([reading], [], [], _PATIENCE)[0])
            chunk = os.read(reading, 1 << 20) if answered else b""
            if not chunk:
                break
            chunks.append(chunk)
    finally:
        os.close(reading)
        if not answered:
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    answer = b"".join(chunks)
    if status != 0 or len(answer) < 16:
        return None
    rows, columns = struct.unpack("<qq", answer[:16])
    return np.frombuffer(answer[16:], dtype=np.float64).reshape(rows, columns)


def coincidence_p_value(first: FloatArray, second: FloatArray, chance: float) -> float:
    """Return the p-value of how many numbers of two lines agree, place by place.

    Independent draws agree with at most this chance, each place for itself: the number is at most binomial.
    """
    equal = int(np.count_nonzero(first == second))
    return float(at_least(equal, len(first), chance))


def successive_p_value(line: FloatArray, chance: float) -> float:
    """Return the p-value of how many successive numbers agree, in the pairs (1, 2), (3, 4), ... and (2, 3), ...."""
    p_values = [coincidence_p_value(line[start:-1:2], line[start + 1 :: 2], chance) for start in (0, 1)]
    return min(1.0, 2 * min(p_values))


def window_length(numbers: int, most_likely: float, false_alarm: float) -> int | None:
    """Return how many numbers in a row never come twice by chance, or None where more than a quarter of all would.

    Two windows of m numbers agree with a probability of at most p^m, p that of the likeliest number, overlapping ones
    too: there each next number must be one that was drawn before.

    Parameters
    ----------
    numbers : int
        How many there are.
    most_likely : float
        p.
    false_alarm : float
        The probability of any repeated window by chance.
    """
    if not most_likely < 1:
        return None
    length = math.ceil((2 * math.log(numbers) - math.log(2 * false_alarm)) / -math.log(most_likely))
    return max(length, 2) if length <= min(numbers // 4, _LONGEST_WINDOW) else None


def repeated_windows(lines: Sequence[FloatArray], length: int) -> int:
    """Return how many windows of successive numbers stand in the lines a second time, at any place.

    Parameters
    ----------
    lines : sequence of arrays of shape (n,), float64
        Streams; a window lies within one of them.
    length : int
        Numbers in a window.
    """
    generator = np.random.default_rng(0)
    factors = generator.integers(1, 2**63, size=length, dtype=np.int64).view(np.uint64) | np.uint64(1)
    sums: list[Any] = []
    for line in lines:
        # Equal windows have equal sums; others do with a probability of 2^-63 for a pair.
        bits = _mixed((line + 0.0).view(np.uint64))
        total = np.zeros(len(line) - length + 1, dtype=np.uint64)
        for place, factor in enumerate(factors):
            total += factor * bits[place : place + len(total)]
        sums.append(total)
    every = np.concatenate(sums)
    return len(every) - len(np.unique(every))


def _mixed(words: Any) -> Any:
    """Return words whose bits depend on all bits of the given ones (the finaliser of SplitMix64)."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
