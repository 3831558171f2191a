"""Uniform numbers that random words stand for, and as many more bits of them as are asked for.

The lower 63 bits k of a word are the number u = (k + 1/2) 2^-63 in (0, 1), and where that is too coarse the words that
follow go on where it ends.
"""

import math
from typing import Any

import numpy as np

from symdebias.mechanisms.sampling import Source

# Bits beyond the first word where a result is in doubt, in words.
MORE = 3
# The lower 63 bits.
LARGEST = 2**63 - 1


def tail(source: Source) -> int:
    """Return the bits that follow a word."""
    bits = 0
    for word in source.words(MORE).tolist():
        bits = (bits << 64) | (word & (2**64 - 1))
    return bits


def more_bits(word: np.int64, source: Source) -> tuple[int, int]:
    """Return the lower 63 bits of a word and what follows, and how many they are, for 192 or more that count."""
    bits, length = int(word) & LARGEST, 63
    while True:
        # Leading zeros carry nothing.
        bits, length = (bits << (64 * MORE)) | tail(source), length + 64 * MORE
        if bits >> (64 * MORE):
            return bits, length


def minus_log(bits: int, length: int) -> float:
    """Return -log u of the number in (0, 1) that bits stand for, to a few units in the last place wherever it lies."""
    if bits >> (length - 1):
        return -math.log1p(-math.ldexp(2 * ((1 << length) - bits) - 1, -length - 1))
    return -math.log(math.ldexp(2 * bits + 1, -length - 1))


def number(mp: Any, bits: int, length: int) -> Any:
    """Return the number in (0, 1) that bits stand for."""
    return mp.ldexp(mp.mpf(2 * bits + 1), -length - 1)


def uniform(mp: Any, word: np.int64, source: Source) -> Any:
    """Return the number in (0, 1) that the lower 63 bits of a word and what follows stand for, to 2^-192 of itself."""
    return number(mp, *more_bits(word, source))


def signed(mp: Any, word: np.int64, source: Source) -> Any:
    """Return the number in (-1, 1) that a signed word and what follows stand for."""
    bits = (int(word) << (64 * MORE)) + tail(source)
    return mp.ldexp(mp.mpf(2 * bits + 1), -64 * MORE - 64)
