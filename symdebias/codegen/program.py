"""What the loop templates of `kernels` need to know of a corrected loss, whatever its form."""

import math
import re
import textwrap
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import sympy as sp

from symdebias._arrays import FloatArray

# Rows that a pass takes at a time: 256 rows of 50 columns fit a second-level cache.
BLOCK = 256
# Rows of a part of a block, where much is kept of each: it stays in a first-level cache.
PART = 64
# From one column of a tile to the next: a power of two would put all columns of a record into one place of the cache.
STRIDE = BLOCK + 8
# What may bend or jump, so that a second derivative may have point masses.
KINKED = (sp.Abs, sp.Max, sp.Min, sp.Piecewise, sp.sign, sp.Heaviside)
# Squares below the least float are lost: a component of a norm is then less than this.
LOST = 2.3e-162


def norm(names: Sequence[str]) -> str:
    """Return the text of a norm of numbers by their names, with what underflow may have lost added."""
    return f"(math.sqrt({' + '.join(f'{name}*{name}' for name in names)}) + {math.sqrt(len(names)) * LOST!r})"


def indented(text: str, by: int) -> str:
    """Return lines further to the right by so many blanks."""
    return textwrap.indent(text, " " * by)


def label_lookups(start: int, count: int) -> list[str]:
    """Return lines that look up ``l0``, ``l1``, ... by the code of the target, in a table that begins at ``start``."""
    return ["label = int(y[i])", *(f"l{i} = noise[{start} + label*{count} + {i}]" for i in range(count))]


def clipped_share(size: str) -> list[str]:
    """Return lines for the share of a gradient that is kept, by the text of its size.

    It is in grains, of which ``fine`` are 1. None of it is where the size is not finite, or so large that the share
    would have lost digits. The choice between the two keeps a compiler from multiplying the gradient by ``fine`` first,
    which might overflow.
    """
    return [
        f"size = {size}",
        "share = 1.0 if size <= clip else (clip/size if size < math.inf else 0.0)",
        "share = share*fine if share >= 2.3e-308 else 0.0",
    ]


def spared(lines: Sequence[str]) -> str:
    """Return lines of a function without what would only take Numba time: 0 + in places, numbers of ``noise`` anew.

    Numba takes about as long for an index or a sum as for any other call. Loops that write to arrays and read these
    numbers need not ask whether the two overlap, either.
    """
    text = re.sub(r"(\[|, )0 \+ ", r"\1", "\n".join(lines))
    counts = Counter(re.findall(r"\bnoise\[(\d+)\]", text))
    again = sorted((place for place, count in counts.items() if count > 1), key=int)
    for place in again:
        text = text.replace(f"noise[{place}]", f"noise{place}")
    return "\n".join([*(f"noise{place} = noise[{place}]" for place in again), text])


@dataclass(frozen=True)
class Piece:
    """Lines of a function's body, functions that it calls as text, and names of functions of `elementary`.

    ``workspace`` has the arrays of zeros that it takes, with their shapes, and ``sums`` those that it fills with sums
    over records. ``finish`` takes these by name, with ``gradient``, ``out``, ``meat`` and ``total``, and completes the
    three. ``rows`` makes the gradients of records of what the body leaves in ``slopes``, of shape (``slopes``, n), of
    the records' columns and of ``jacobian``; it is None where the body leaves nothing. ``is_factored`` says whether
    what it leaves are slopes, not gradients. ``of_theta`` names arrays among ``sums`` that depend on the parameters
    alone.
    """

    text: str
    functions: frozenset[str]
    helpers: str = ""
    workspace: tuple[tuple[str, tuple[int, ...]], ...] = ()
    sums: tuple[tuple[str, tuple[int, ...]], ...] = ()
    finish: Callable[..., None] | None = None
    slopes: int = 0
    rows: Callable[..., FloatArray] | None = None
    is_factored: bool = True
    of_theta: frozenset[str] = frozenset()


@dataclass(frozen=True)
class RecordCode:
    """Lines before the loop, lines in the loop over ``i`` that add the loss to ``value``, and what they call.

    Where they keep numbers of the records of a part, ``kept`` says how many. The loop then goes over the ``many``
    records of a part, by ``n``, and ``of_part`` are lines before it.
    """

    before: str
    inside: str
    functions: frozenset[str]
    helpers: str = ""
    of_part: str = ""
    kept: int = 0

    def loops(self, each: str) -> str:
        """Return the loops over all records, with further lines for each of them that take its ``value``."""
        body = f"value = 0.0\n{self.inside}\n{each}"
        if not self.kept:
            return f"{self.before}\nfor i in range(X.shape[0]):\n{indented(body, 4)}"
        return f"""{self.before}
kept = np.empty({self.kept})
room = 0
for from_row in range(0, X.shape[0], {PART}):
    many = min({PART}, X.shape[0] - from_row)
{indented(self.of_part, 4)}
    for n in range(many):
        i = from_row + n
{indented(body, 8)}"""


@dataclass(frozen=True)
class Layout:
    """Where named blocks of numbers stand in the vector ``noise``."""

    blocks: tuple[tuple[str, int], ...]  # The blocks with their lengths, in order.
    starts: dict[str, int] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        starts, position = {}, 0
        for name, length in self.blocks:
            starts[name] = position
            position += length
        object.__setattr__(self, "starts", starts)

    @property
    def length(self) -> int:
        """The length of the vector."""
        return sum(length for _, length in self.blocks)

    def vector(self, values: dict[str, np.ndarray]) -> np.ndarray:
        """Return the vector with the blocks' values; blocks without values are zero."""
        vector = np.zeros(self.length)
        for name, length in self.blocks:
            if name in values:
                block = np.asarray(values[name], dtype=float).ravel()
                if len(block) != length:
                    raise ValueError(f"the block {name} has {len(block)} numbers; its place takes {length}.")
                vector[self.starts[name] : self.starts[name] + length] = block
        return vector


class Program(Protocol):
    """A corrected loss as the templates take it."""

    @property
    def expression(self) -> sp.Expr:
        """The corrected loss of one record."""

    @property
    def layout(self) -> Layout:
        """What stands where in ``noise``."""

    @property
    def number_of_parameters(self) -> int:
        """The length of theta, scores after one another."""

    @property
    def number_of_sums(self) -> int:
        """How many sums over records the mean gradient is assembled from."""

    @property
    def width(self) -> int:
        """The number of columns of the kernels' data matrix."""

    @property
    def codes(self) -> bool:
        """Whether targets are given as codes."""

    @property
    def has_point_masses(self) -> bool:
        """Whether second derivatives have point masses, as those of a squared maximum."""

    def loss(self) -> RecordCode:
        """Return the code of the loss of one record."""

    @property
    def number_kept(self) -> int:
        """How many numbers `accumulate` keeps of a block of records."""

    def accumulate(self, *, weighted: bool, by_columns: bool = False) -> Piece:
        """Return the body that adds the gradient sums of rows start to stop to ``sums``.

        ``by_columns`` says whether the columns of X stand one after another, and not its rows.
        """

    @property
    def slopes_kept(self) -> int | None:
        """How many slopes `accumulate` keeps of each record of a block: those in scores, and then in statistics.

        They stand first of what it keeps, a block for each. None where they are not all that makes a gradient.
        """

    def accumulate_clipped(self) -> Piece:
        """Return the body that adds the clipped gradients of ``rows[start:stop]`` to ``sums``; for plain losses.

        A gradient longer than ``clip`` is shortened to it; ``norms`` are those of the rows of X with their constant.
        Its entries are rounded to whole numbers of grains, of which ``fine`` are 1.
        """

    def assemble(self) -> Piece:
        """Return the body that makes the mean gradient out of ``sums`` and ``total``."""

    def derivatives(self, *, weighted: bool) -> Piece:
        """Return the body that fills ``gradient``, ``out`` (the Hessian) and ``meat``, and returns the mean loss.

        Numba takes longer for a line than NumPy does for the work on q x q numbers: that is left to ``finish``.
        """

    def guard(self) -> str:
        """Return lines that compute ``variance`` and ``reach``, which have limits, for ``theta``."""
