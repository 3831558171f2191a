"""Released records that lie in parts: read block by block, or where they are, in each pass over them.

What is asked of all records goes from part to part, and sums come back. Some records are kept, at equal distances among
all: quantiles of scores are told from them, and what a metric needs to be set up.
"""

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import numpy as np

from symdebias._arrays import check_same_index, cluster_codes, weights_array
from symdebias._rows import Rows, counted_from
from symdebias.evaluation.records import ROWS, SAMPLED, Records
from symdebias.release import Release
from symdebias.solvers.fit import Fit


class Parts(Protocol):
    """Where records are."""

    def each(self, work: Callable[[Records], Any]) -> Iterator[Any]:
        """Yield what a function says of the records of each part, in order."""

    def reduced(self, work: Callable[[Records], Any], combine: Callable[..., Any]) -> Any:
        """Return what a function says of the records of each part, put together by another one of several of such."""


@dataclass(frozen=True)
class PartedRecords(Records):
    """Released records that lie in parts; columns, targets and weights are those of some of them.

    Attributes
    ----------
    parts : Parts
        All of them.
    count : int
        How many they are.
    weight, square : float
        The sums of their weights and of the squares of these.
    """

    parts: Parts | None = None
    count: int = 0
    weight: float = 0.0
    square: float = 0.0

    @classmethod
    def of(cls, some: Records, parts: Parts, *, count: int, weight: float, square: float) -> Self:
        """Return records of which some, at most `SAMPLED` at equal distances, are at hand."""
        own = {name: getattr(some, name) for name in Records.__dataclass_fields__ if name != "memo"}
        return cls(**own, parts=parts, count=count, weight=weight, square=square)

    def __len__(self) -> int:
        return self.count

    @property
    def total(self) -> float:
        """The sum of the weights of all records."""
        return self.weight

    @property
    def effective(self) -> float:
        """(sum w)^2/(sum w^2) of all records, the sample size."""
        return self.weight**2 / self.square

    @property
    def some(self) -> slice:
        """All that are at hand."""
        return slice(None)

    @functools.cached_property
    def light(self) -> Records:
        """One of those that are at hand."""
        own = {name: getattr(self, name) for name in Records.__dataclass_fields__ if name != "memo"}
        return Records(**own).only(slice(0, 1))

    def over_parts(self, work: Callable[[Records], Any]) -> Iterator[Any]:
        """Yield what a function says of the records of each part, in order."""
        assert self.parts is not None
        return self.parts.each(work)

    def reduced(self, work: Callable[[Records], Any], combine: Callable[..., Any]) -> Any:
        """Return what a function says of the records of each part, put together by another one of several of such."""
        assert self.parts is not None
        return self.parts.reduced(work, combine)


@dataclass(frozen=True)
class _Blocks:
    """Records that are read block by block in each pass, and checked in each; attributes as for `evaluate`."""

    X: Any
    y: Any
    weights: Any
    clusters: Any
    check: Callable[[Any, Any], Records]

    def rows(self, rows: slice) -> Records:
        """Return some consecutive records, checked, or some at equal distances."""
        X, y = self.X[rows], None if self.y is None else self.y[rows]
        with counted_from(rows.start or 0):
            found = self.check(X, y)
        if self.weights is not None:
            found = replace(found, weights=self.weights[rows])
        return replace(found, clusters=None if self.clusters is None else self.clusters[rows], first=rows.start or 0)

    def each(self, work: Callable[[Records], Any]) -> Iterator[Any]:
        """Yield what a function says of each block, in order."""
        count = len(self.X)
        return (work(self.rows(slice(start, min(start + ROWS, count)))) for start in range(0, count, ROWS))

    def reduced(self, work: Callable[[Records], Any], combine: Callable[..., Any]) -> Any:
        """Return what a function says of each block, put together."""
        return functools.reduce(combine, self.each(work))


def checked_records(
    model: Any,
    X: Any,
    y: Any,
    release: Release | None,
    *,
    sample_weight: Any = None,
    clusters: Any = None,
    target_values: Any = None,
) -> Records:
    """Return records of any kind, checked, with arguments as for `evaluate`: two at least.

    Those that are read by blocks, and long memory maps, stay where they are, and are checked in each pass.
    """
    if not (isinstance(X, Rows) or isinstance(y, Rows) or (isinstance(X, np.memmap) and len(X) > ROWS)):
        return Records.checked(
            model, X, y, release, sample_weight=sample_weight, clusters=clusters, target_values=target_values
        ).require_several()
    count = len(X)
    if y is not None and np.ndim(y) == 1 and len(y) != count:
        raise ValueError(f"y has {len(y)} entries, but X has {count} rows. Pass one per record.")
    check_same_index(X, y, sample_weight=sample_weight, clusters=clusters)
    # Where the pass is set up anew for each block, a fit's history would be handed on in vain.
    model = replace(model, history=type(model.history).empty(model.theta)) if isinstance(model, Fit) else None
    blocks = _Blocks(
        X,
        y if y is None or isinstance(y, Rows) else np.asarray(y),
        None if sample_weight is None else weights_array(sample_weight, rows=count),
        None if clusters is None else cluster_codes(clusters, rows=count),
        lambda X, y: Records.checked(model, X, y, release, target_values=target_values),
    )
    some = blocks.rows(slice(0, None, max(1, -(-count // SAMPLED))))
    weight, square = float(count), float(count)
    if blocks.weights is not None:
        weight, square = float(blocks.weights.sum()), float(blocks.weights @ blocks.weights)
    return PartedRecords.of(some, blocks, count=count, weight=weight, square=square).require_several()
