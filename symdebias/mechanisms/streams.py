"""Long seeded streams of NumPy's generators, drawn from several places at once: the same numbers, bit for bit.

PCG64 and PCG64DXSM can jump ahead by any number of words. A uniform or Laplace number takes one word each, so that it
is known where the n-th begins. A normal one takes another word now and then, and so on, which nobody knows who has not
drawn those before it. But who begins at any word is soon in step: nearly every word begins a number, and from the first
one at which both begin a number, both draw the same. So parts overlap, and each is joined to the one before it where
their numbers are equal to its end. From what is not as expected on, all is drawn in order.
"""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from symdebias._arrays import FloatArray
from symdebias.codegen.parallel import over_chunks

# Numbers of a part, and how many parts wait for one another.
_PART, _WAVE = 2**17, 8
# Fewer numbers than this are drawn in order.
LEAST = 4 * _PART
# Words that a normal number takes, and the standard deviation of those of so many over the root of their number.
_WORDS, _SPREAD = 1.02201, 0.21
# Numbers after which two draws are in step (where they are not, they do not join), and words that overlap at least.
_IN_STEP, _OVERLAP = 32, 256

# Takes numbers and where the first of them stands; and draws so many numbers.
Take = Callable[[FloatArray, int], Any]
Draw = Callable[[np.random.Generator, int], FloatArray]


def normal(generator: np.random.Generator, count: int, take: Take) -> None:
    """Draw ``generator.standard_normal(count)``, and hand it on in pieces, on several threads at once.

    Parameters
    ----------
    generator : numpy.random.Generator
        Is left behind the last number, as by that call.
    count : int
        How many numbers.
    take : callable
        Takes a piece, which it may write to and not keep, and the place of its first number.
    """
    parts = math.ceil(count / _PART)
    slack = _OVERLAP + 8 * _SPREAD * math.sqrt(_PART)
    # The last part ends short of the end: what is left is drawn in order.
    size = int((count - slack) / max(1, parts) + slack / _WORDS) - 2 * _IN_STEP

    def draw(own: np.random.Generator, size: int) -> FloatArray:
        return own.standard_normal(size)

    _in_parts(generator, count, take, draw, _Parts(parts, size, int(_WORDS * size - slack), overlap=4 * int(slack)))


def laplace(generator: np.random.Generator, count: int, take: Take) -> None:
    """Draw ``generator.laplace(size=count)``, and hand it on in pieces; as `normal`."""

    def draw(own: np.random.Generator, size: int) -> FloatArray:
        return own.laplace(size=size)

    _in_parts(generator, count, take, draw, _Parts(count // _PART, _PART, _PART, overlap=0))


def uniform(generator: np.random.Generator, count: int, take: Take) -> None:
    """Draw ``generator.random(count)``, and hand it on in pieces; as `normal`."""

    def draw(own: np.random.Generator, size: int) -> FloatArray:
        return own.random(size)

    _in_parts(generator, count, take, draw, _Parts(count // _PART, _PART, _PART, overlap=0))


@dataclass(frozen=True)
class _Parts:
    """How a stream is drawn: so many parts of so many numbers, which begin so many words apart and overlap."""

    count: int
    size: int
    apart: int
    overlap: int  # At most, in numbers; 0 where a number takes a word, and parts end where the next ones begin.


def _in_parts(generator: np.random.Generator, count: int, take: Take, draw: Draw, parts: _Parts) -> None:
    last, drawn = generator, 0
    if count >= LEAST and type(generator.bit_generator) in (np.random.PCG64, np.random.PCG64DXSM):
        last, drawn = _joined(generator, count, take, draw, parts)
    for start in range(drawn, count, _PART):
        take(draw(last, min(_PART, count - start)), start)
    if last is not generator:
        # Half a word that it keeps stays.
        state = generator.bit_generator.state
        generator.bit_generator.state = {**state, "state": _place(last)}


def _joined(
    generator: np.random.Generator, count: int, take: Take, draw: Draw, parts: _Parts
) -> tuple[np.random.Generator, int]:
    """Hand on all parts that go on from one another; return what drew the last of them, and where it ends.

    All of them do, unless something comes that does not in the age of the world.
    """
    before, tail, last, drawn = generator.bit_generator.state, np.empty(0), generator, 0
    for first in range(0, parts.count, _WAVE):
        own = [_ahead(generator, before, at * parts.apart) for at in range(first, min(first + _WAVE, parts.count))]
        starts = [_place(one) for one in own]
        pieces = over_chunks(len(own), functools.partial(_drawn, own, draw, parts.size), 1)
        good: list[tuple[FloatArray, int]] = []
        for one, start, piece in zip(own, starts, pieces, strict=True):
            if parts.overlap and drawn:
                begin = _joint(tail, piece)
            else:
                begin = 0 if not drawn or _place(last) == start else None
            if begin is None or drawn + len(piece) - begin > count:
                break
            good.append((piece[begin:], drawn))
            last, drawn, tail = one, drawn + len(piece) - begin, piece[len(piece) - parts.overlap :]
        # Who takes a piece may write to it.
        tail = tail.copy()
        over_chunks(len(good), functools.partial(_hand_on, good, take), 1)
        if len(good) < len(own):
            break
        # Before the next ones are drawn.
        del good, pieces, piece
    return last, drawn


def _drawn(own: Sequence[np.random.Generator], draw: Draw, size: int, part: slice) -> FloatArray:
    return draw(own[part.start], size)


def _hand_on(pieces: Sequence[tuple[FloatArray, int]], take: Take, part: slice) -> None:
    take(*pieces[part.start])


def _ahead(generator: np.random.Generator, state: Any, words: int) -> np.random.Generator:
    """Return a generator of its own that stands so many words behind a state."""
    own: Any = type(generator.bit_generator)(0)
    own.state = state
    own.advance(words)
    return np.random.Generator(own)


def _place(generator: np.random.Generator) -> Any:
    """Return where a generator stands in its stream."""
    return generator.bit_generator.state["state"]


def _joint(tail: FloatArray, piece: FloatArray) -> int | None:
    """Return from which number on a piece goes on where a tail ends, or None where the two have nothing in common."""
    for place in np.flatnonzero(tail == piece[_IN_STEP]):
        common = len(tail) - int(place)
        if np.array_equal(tail[place:], piece[_IN_STEP : _IN_STEP + common]):
            return _IN_STEP + common
    return None
