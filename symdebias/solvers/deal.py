"""The order in which descent takes its records: as they stand, or shuffled as cards are dealt."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from symdebias._arrays import IntegerArray
from symdebias.records import Records

# How many runs of rows are dealt out at a time, and of how many rows they are at most.
RUNS = 32
_LONGEST_RUN = 64


@dataclass(frozen=True)
class Deal:
    """A random order of the records, as the kernel deals it: runs of rows like cards of as many hands.

    Reading single rows at random would cost several times the arithmetic. So runs of consecutive rows are read in
    random order, `RUNS` at a time, and dealt out one row of each in turn: neighbours in a batch come from
    all over the table, whatever the order in which it is stored.
    """

    order: IntegerArray
    run_length: int
    shift: int

    @classmethod
    def as_given(cls) -> "Deal":
        """Return the order in which records stand."""
        return cls(np.zeros(0, dtype=np.int64), 1, 0)

    @classmethod
    def shuffled(cls, records: int, columns: int, rng: np.random.Generator) -> "Deal":
        """Return a random order of so many records of so many columns."""
        # A megabyte of rows at a time stays in a second-level cache; few records get short runs.
        run_length = max(1, min(_LONGEST_RUN, 2**12 // columns, records // (8 * RUNS)))
        # The rows that do not fill a run come last; the cyclic shift makes them other rows each time.
        return cls(rng.permutation(records // run_length), run_length, int(rng.integers(records)))

    def rows(self, positions: IntegerArray, records: int) -> IntegerArray:
        """Return the rows that stand at positions of the order, as the kernel finds them."""
        dealt = len(self.order) * self.run_length
        hand = RUNS * self.run_length
        first = positions // hand * RUNS
        count = np.maximum(1, np.minimum(RUNS, len(self.order) - first))
        card, run = np.divmod(positions % hand, count)
        inside = positions < dealt
        runs = self.order[np.where(inside, first + run, 0)] if dealt else np.zeros_like(positions)
        return (np.where(inside, runs * self.run_length + card, positions) + self.shift) % records


def read(run: Records, deal: Deal, first: int, end: int) -> tuple[Any, ...]:
    """Return the records at positions of an order, as a pass takes records that stand in their order.

    Parameters
    ----------
    run : Records
        All records.
    deal : Deal
        The order.
    first, end : int
        The positions.
    """
    given = Deal.as_given()
    rows = slice(first, end) if len(deal.order) == 0 else deal.rows(np.arange(first, end), len(run))
    matrix, target = run.encoded
    weights = run.weights[rows] if len(run.weights) else run.weights
    taken = matrix[rows], np.ascontiguousarray(target[rows]), weights
    return *taken, given.order, RUNS, given.run_length, given.shift, 0
