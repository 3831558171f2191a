"""How the records of a partition are read from its parts of the collections, with an offset where there is one.

An offset is another target and a weight, or a column more, as on one machine (`symdebias.solvers.offsets`). What that
takes of all records, the largest weight and their sum, is found when partitions are checked.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from symdebias._arrays import FloatArray, check_same_index, cluster_labels, weights_array
from symdebias.corrected import CorrectedLoss
from symdebias.correction import Correction
from symdebias.losses.offsets import Offset
from symdebias.records import Records
from symdebias.solvers.held import Held, HeldRecords, lengthened_scales
from symdebias.solvers.offsets import as_offset, moved_target, moved_weights


@dataclass(frozen=True)
class SharedOffset:
    """What an offset is to the records of all partitions.

    Attributes
    ----------
    rule : Offset or None
        What stands for it in targets and weights; None where it is a column more.
    largest : float
        The largest k o of all records, which weights are told over.
    factor : float
        What weights are multiplied with, so that they have the mean of those given.
    """

    rule: Offset | None
    largest: float = 0.0
    factor: float = 1.0

    @property
    def gain(self) -> float:
        """What the mean gradient is multiplied with, and a penalty has to be."""
        return self.factor / self.rule.weight(self.largest) if self.rule is not None and self.weighs else 1.0

    @property
    def is_column(self) -> bool:
        """Whether it is a column more."""
        return self.rule is None

    @property
    def weighs(self) -> bool:
        """Whether records have weights by it."""
        return self.rule is not None and self.rule.power != 0

    def moved(self, y: Any, weights: Any, known: FloatArray) -> tuple[Any, Any]:
        """Return what stands for targets and weights of some records."""
        if self.rule is None:
            return y, weights
        target = moved_target(self.rule, y, known)
        if not self.weighs:
            return target, weights
        return target, self.factor * moved_weights(self.rule, known, weights, self.largest)[0]


@dataclass(frozen=True)
class Reading:
    """What makes records of the parts of the collections in a partition.

    Attributes
    ----------
    given : Correction
        What columns and targets are checked under.
    correction : Correction
        That of the records: with an offset as a column more it is another one.
    term : SharedOffset or None
        What the offset is.
    frame : Held or None
        What holds the parameter of that column.
    lowered_by : float
        What targets are less than those that were given.
    noisier : tuple of (slice, float)
        Columns whose noise scales are a number of times those that were given.
    """

    given: Correction
    correction: Correction
    term: SharedOffset | None = None
    frame: Held | None = None
    lowered_by: float = 0.0
    noisier: tuple[tuple[slice, float], ...] = ()

    def records(self, X: Any, y: Any, weights: Any, scales: Any, offset: Any) -> Records:
        """Return the records of a partition, which were checked before."""
        known = None if self.term is None else as_offset(offset, len(X))
        if self.term is not None and known is not None:
            y, weights = self.term.moved(y, weights, known)
        found = Records.of(self.given, X, y, sample_weight=weights, noise_scale=scales, check_finite=False)
        found = found.lowered(self.lowered_by) if self.lowered_by else found
        for columns, factor in self.noisier:
            found = found.noisier(columns, factor)
        if known is None or self.correction is self.given or self.correction.features == self.given.features:
            return found
        matrix = np.column_stack([found.arrays[0], known])
        own = lengthened_scales(found.scales, len(known))
        if self.frame is None:
            return Records(self.correction, matrix, found.target, found.weights, own)
        return HeldRecords(self.correction, matrix, found.target, found.weights, own, frame=self.frame)


def is_without_weight(weights: Any, rows: int) -> bool:
    """Whether no record of a partition has weight, as where weights choose among partitions.

    Raises
    ------
    TypeError, ValueError
        Weights are no numbers of zero or more, one for each record.
    """
    return weights is not None and not weights_array(weights, rows=rows, is_part=True).any()


@dataclass(frozen=True)
class Checked:
    """What a partition says of its records once they are checked.

    Attributes
    ----------
    width, count, present : int
        The numbers of columns, of records and of those with weight.
    total, squares : float
        Their number or the sum of their weights, and the same of squared weights: with an offset over e^largest.
    given : float
        The sum of the weights without the offset.
    largest : float
        The largest k o.
    sums, lows : array of shape (p,), float64
        The sums and the least values of the columns.
    """

    width: int
    count: int
    present: int
    total: float
    squares: float
    given: float
    largest: float
    sums: FloatArray
    lows: FloatArray

    @classmethod
    def of(
        cls, X: Any, y: Any, weights: Any, scales: Any, clusters: Any, offset: Any, *,
        corrected: CorrectedLoss, term: SharedOffset | None,
    ) -> "Checked | None":  # fmt: skip
        """Check the records of a partition; None says that there are none, or none with weight."""
        if not len(X):
            return None
        if is_without_weight(weights, len(X)):
            corrected.records(X, y, noise_scale=scales)
            return None
        largest, given = 0.0, None
        if term is not None:
            check_same_index(X, y, offset=offset, sample_weight=weights)
            known = as_offset(offset, len(X))
            if term.rule is not None:
                largest = term.rule.largest(known) if term.weighs else 0.0
                if term.weighs:
                    given = moved_weights(term.rule, known, weights, largest)[1]
                y, weights = SharedOffset(term.rule, largest).moved(y, weights, known)
        records = corrected.records(X, y, sample_weight=weights, noise_scale=scales)
        if clusters is not None:
            cluster_labels(clusters, rows=len(records))
        matrix, _ = records.arrays
        return cls(
            records.correction.features, len(records), records.present, records.total,
            records.total**2 / records.effective, records.total if given is None else given, largest,
            matrix.sum(axis=0), matrix.min(axis=0),
        )  # fmt: skip


def together(said: Sequence[Checked], rule: Offset | None) -> tuple[SharedOffset, float, float]:
    """Return what an offset is to the records of all partitions, the sum of their weights, and that of their squares.

    Raises
    ------
    ValueError
        The offsets of a partition are so small beside those of another that its records have no weight.
    """
    largest = max(one.largest for one in said)
    shares = [math.exp(one.largest - largest) for one in said]
    weightless = [place for place, share in enumerate(shares) if share * said[place].total == 0]
    if weightless:
        raise ValueError(
            f"the offsets in partition {weightless[0]}, of those with records, are too small beside those of another "
            "one: its records have no weight. Check their units."
        )
    total = sum(share * one.total for share, one in zip(shares, said, strict=True))
    squares = sum(share**2 * one.squares for share, one in zip(shares, said, strict=True))
    factor = sum(one.given for one in said) / total if SharedOffset(rule).weighs else 1.0
    return SharedOffset(rule, largest, factor), factor * total, factor**2 * squares
