"""The records that descent takes, and their order: as they stand, or shuffled as cards are dealt."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from symdebias._arrays import IntegerArray
from symdebias._copies import at_hand
from symdebias._domains import check_choice
from symdebias.checks.mismatch import refuse_mismatch
from symdebias.corrected import CorrectedLoss
from symdebias.records import Ahead, Records
from symdebias.solvers.held import holding
from symdebias.solvers.offsets import as_offset, exposure_gain, with_offset
from symdebias.solvers.pilot import strides

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
        # Of runs of up to 32 KB the processor fetches what comes next; few records get short ones.
        run_length = max(1, min(_LONGEST_RUN, 2**12 // columns, records // (8 * RUNS)))
        # The rows that do not fill a run come last; the cyclic shift makes them other rows each time.
        return cls(rng.permutation(records // run_length), run_length, int(rng.integers(records)))

    def rows(self, first: int, end: int, records: int) -> IntegerArray:
        """Return the rows that stand at the positions from the first to the end of the order, as the kernel finds them.

        Parameters
        ----------
        first, end : int
            The positions.
        records : int
            How many there are.
        """
        found = np.arange(first, end)
        hand, until = RUNS * self.run_length, min(end, len(self.order) * self.run_length)
        if first < until:
            begin = first // hand
            runs = self.order[begin * RUNS : -(-until // hand) * RUNS] * self.run_length
            # The last hand may have fewer runs.
            hands = len(runs) // RUNS
            whole, cards = runs[: hands * RUNS].reshape(hands, 1, RUNS), np.arange(self.run_length)[:, None]
            dealt = np.concatenate([(whole + cards).ravel(), (runs[hands * RUNS :] + cards).ravel()])
            found[: until - first] = dealt[first - begin * hand : until - begin * hand]
        found += self.shift
        np.subtract(found, records, out=found, where=found >= records)
        return found


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
    rows = slice(first, end) if len(deal.order) == 0 else deal.rows(first, end, len(run))
    matrix, target = run.encoded
    weights = run.weights[rows] if len(run.weights) else run.weights
    taken = matrix[rows], np.ascontiguousarray(target[rows]), weights
    return *taken, given.order, RUNS, given.run_length, given.shift, 0


def within_reach(corrected: CorrectedLoss, X: Any, y: Any, *, order: str) -> tuple[CorrectedLoss, Any, Any]:
    """Return records of which descent takes any: a copy of those that are read in order, where they are shuffled.

    The loss has the names that these were read by, which a copy has no more.

    Raises
    ------
    ValueError
        Columns were read by name into other places than the release has them in.
    OSError
        There is no room for a copy.
    """
    if order != "shuffled":
        return corrected, X, y
    corrected = corrected.named_by(X)
    return corrected, *at_hand(X, y, corrected.release.columns)


def checked_run(
    corrected: CorrectedLoss, X: Any, y: Any, *, order: str, sample_weight: Any, noise_scale: Any, offset: Any,
    l2: float = 0.0, is_part: bool = False,
) -> tuple[CorrectedLoss, Records, tuple[float, float], dict[str, Any]]:  # fmt: skip
    """Return the records that a descent takes, with their loss, and what to tell of an offset and of noise scales.

    An offset without another target and weights that stand for it is a column more, whose parameter the records hold.
    So it is for records that are a part of a stream, unless another target alone stands for it, and for counts with the
    penalty `l2`, see `symdebias.solvers.offsets.rule_for`. The two numbers are what an offset multiplies gradients and
    penalties with, and what steps of a given size are multiplied with for it where it does not.

    Raises
    ------
    ValueError, TypeError
        The data do not fit.
    """
    check_choice("order", order, ("shuffled", "given"))
    # A score that is not finite makes the step so, and the kernel stops: the pass itself checks X.
    named = not (corrected.is_resolved and corrected.declared.scores)
    marked: dict[str, Any] = {} if offset is None else {"offset": True}
    factor, stretch, is_held = 1.0, 1.0, False
    corrected = corrected.named_by(X)
    if noise_scale is not None:
        marked |= {"noise_scale": True}
    if offset is not None:
        y, sample_weight, factor, is_held = with_offset(corrected, X, y, sample_weight, offset, l2=l2, is_part=is_part)
    run = corrected.records(
        X, y, sample_weight=sample_weight, noise_scale=noise_scale, check_finite=named or is_held, by_blocks=True,
        ahead=None if corrected.is_resolved else Ahead(strides),
    )  # fmt: skip
    refuse_mismatch(corrected, run, has_offset=offset is not None)
    if is_held:
        known = as_offset(offset, len(run))
        if not is_part:
            stretch = exposure_gain(corrected, known, sample_weight)
        corrected, run = holding(corrected, run, known, at_a_glance=True)
    return corrected, run, (factor, stretch), marked
