"""Integers of a thread's own that draws write to: to ask the system for new ones takes as long as a draw.

What stands there is used up before anything else is written to the same place.
"""

import threading

import numpy as np

from symdebias._arrays import IntegerArray

# Numbers that one thread draws at a time.
PART = 1 << 17
# Places of so many: words of up to five kinds, what is drawn from them, what is pending, and noise.
WORDS, DRAWN, PENDING, NOISE = 0, 5, 6, 7
_PLACES = 8
_own = threading.local()


def integers(place: int, count: int, kinds: int = 1) -> IntegerArray:
    """Return integers of this thread's own, which hold anything; new ones where they are more than a part.

    Parameters
    ----------
    place : int
        Where they begin: one of the places.
    count : int
        How many of each kind.
    kinds : int
        How many places are taken, one behind the other.
    """
    if count > PART:
        return np.empty(kinds * count, dtype=np.int64)
    if not hasattr(_own, "integers"):
        _own.integers = np.empty(_PLACES * PART, dtype=np.int64)
    found: IntegerArray = _own.integers[place * PART : place * PART + kinds * count]
    return found
