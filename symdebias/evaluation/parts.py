"""Released records that lie in parts: read block by block, or where they are, in each pass over them.

What is asked of all records goes from part to part, and sums come back. Some records are kept, spread over all with
weight: quantiles of scores are told from them, and what a metric needs to be set up.
"""

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol, Self

import numpy as np

from symdebias._arrays import (
    FloatArray,
    IntegerArray,
    check_same_index,
    cluster_codes,
    is_table,
    label_array,
    weights_array,
)
from symdebias._rows import Rows, counted_from, places_over, read_together, require_as_many, spread_over
from symdebias.codegen.parallel import over_items
from symdebias.evaluation.records import ROWS, SAMPLED, Records, release_of
from symdebias.release import Release
from symdebias.solvers.offsets import as_offset


class Parts(Protocol):
    """Where records are."""

    def each(self, work: Callable[[Records], Any]) -> Iterator[Any]:
        """Yield what a function says of the records of each part, in order."""

    def reduced(self, work: Callable[[Records], Any], combine: Callable[..., Any]) -> Any:
        """Return what a function says of the records of each part, put together by another one of several of such."""

    def require_values(self, values: Sequence[float]) -> None:
        """Raise ValueError where a target in a part without weight, which `each` passes over, is none of some values.

        It is for targets that have no noise.
        """


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
    every : int or array of int
        1 where all are at hand, or the places of those that are among all.
    fetch : callable
        Returns few of them, as records by themselves.
    """

    parts: Parts | None = None
    count: int = 0
    weight: float = 0.0
    square: float = 0.0
    every: int | IntegerArray = 1
    fetch: Callable[[], Records] | None = None

    @classmethod
    def of(
        cls,
        some: Records,
        parts: Parts,
        *,
        count: int,
        weight: float,
        square: float,
        every: int | IntegerArray,
        fetch: Callable[[], Records],
    ) -> Self:
        """Return records of which some, from everywhere, are at hand."""
        return cls(**_fields(some), parts=parts, count=count, weight=weight, square=square, every=every, fetch=fetch)

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
        return Records(**_fields(self)).only(slice(0, 1))

    @functools.cached_property
    def few(self) -> Records:
        """Some thousand from everywhere, as records by themselves; fetched where a metric asks for them."""
        assert self.fetch is not None
        return self.fetch()

    def over_parts(self, work: Callable[[Records], Any]) -> Iterator[Any]:
        """Yield what a function says of the records of each part, in order."""
        assert self.parts is not None
        return self.parts.each(work)

    def reduced(self, work: Callable[[Records], Any], combine: Callable[..., Any]) -> Any:
        """Return what a function says of the records of each part, put together by another one of several of such."""
        assert self.parts is not None
        return self.parts.reduced(work, combine)

    def under(self, release: Release) -> "PartedRecords":
        """Return the same records under another release of the same columns, not of one vector."""
        assert self.parts is not None
        return replace(
            self, release=release, collected=release, parts=_Under(self.parts, release),
            scales=self.scales_under(release), fetch=lambda: self.few.under(release), memo={},
        )  # fmt: skip

    def counted(self) -> AbstractContextManager[None]:
        """Return what has errors name the rows of those at hand by what they are among all."""
        return counted_from(0, every=self.every)

    def require_values(self, values: Sequence[float]) -> None:
        """Raise ValueError where a target at hand, or one of a part without weight, is none of some values."""
        with self.counted():
            super().require_values(values)
        assert self.parts is not None
        self.parts.require_values(values)

    def unbiased_target(self, affine: Callable[[FloatArray], FloatArray] = np.asarray) -> FloatArray:
        """Return unbiased estimates of an affine function of the true targets at hand; as that of `Records`."""
        with self.counted():
            return super().unbiased_target(affine)


def _fields(records: Records) -> dict[str, Any]:
    return {one.name: getattr(records, one.name) for one in fields(Records) if one.name != "memo"}


@dataclass(frozen=True)
class _Under:
    """Where records are that are taken under another release."""

    parts: Parts
    release: Release

    def each(self, work: Callable[[Records], Any]) -> Iterator[Any]:
        """Yield what a function says of the records of each part, in order."""
        return self.parts.each(functools.partial(_work_under, work=work, release=self.release))

    def reduced(self, work: Callable[[Records], Any], combine: Callable[..., Any]) -> Any:
        """Return what a function says of the records of each part, put together."""
        return self.parts.reduced(functools.partial(_work_under, work=work, release=self.release), combine)

    def require_values(self, values: Sequence[float]) -> None:
        """Raise ValueError where a target in a part without weight is none of some values."""
        self.parts.require_values(values)


def _work_under(part: Records, *, work: Callable[[Records], Any], release: Release) -> Any:
    return work(part.under(release))


@dataclass(frozen=True)
class _Blocks:
    """Records that are read block by block in each pass, and checked in each; attributes as for `evaluate`."""

    X: Any
    y: Any
    weights: Any
    clusters: Any
    offset: Any
    noise_scale: Any
    check: Callable[..., Records]

    def rows(self, rows: slice | IntegerArray) -> Records:
        """Return some records, checked."""
        return self._checked(self._read(rows))

    def _read(self, rows: slice | IntegerArray) -> dict[str, Any]:
        """Return some records as they are."""
        every = {
            "X": self.X, "y": self.y, "sample_weight": self.weights, "clusters": self.clusters, "offset": self.offset,
            "noise_scale": self.noise_scale,
        }  # fmt: skip
        found: dict[str, Any] = {}
        are_neighbours = isinstance(rows, slice) and rows.step in (None, 1)
        if isinstance(self.X, Rows) and isinstance(self.y, Rows) and not (are_neighbours or self.X.has_any_row):
            # What yields both is asked for both at once.
            found["X"], found["y"] = read_together([every.pop("X"), every.pop("y")], [rows])[0]
        return found | {name: None if column is None else column[rows] for name, column in every.items()}

    def _checked(self, read: dict[str, Any], first: int = 0, *, knows_weights: bool = False) -> Records:
        """Return records that were read, checked; `first` is the row of the first of consecutive ones.

        `knows_weights` is as for `Records.checked`.
        """
        clusters, weights = read.pop("clusters"), read.pop("sample_weight")
        present = None if weights is None or not weights.any() else weights
        found = self.check(**read, sample_weight=present, knows_weights=knows_weights)
        if weights is not None:
            found = replace(found, weights=weights)
        return replace(found, clusters=clusters, first=first)

    def _each_read(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the first row of each block, and the block."""
        count = len(self.X)
        for start in range(0, count, ROWS):
            with counted_from(start):
                read = self._read(slice(start, min(start + ROWS, count)))
            yield start, read

    def each(self, work: Callable[[Records], Any]) -> Iterator[Any]:
        """Return what a function says of each block that has weight, in order: blocks are read one after another."""

        def said(one: tuple[int, dict[str, Any]]) -> tuple[Any, ...]:
            start, read = one
            with counted_from(start):
                # Of weights those of records from everywhere told enough.
                block = self._checked(read, start, knows_weights=True)
                return (work(block),) if block.weights.any() else ()

        return itertools.chain.from_iterable(over_items(self._each_read(), said))

    def reduced(self, work: Callable[[Records], Any], combine: Callable[..., Any]) -> Any:
        """Return what a function says of each block, put together."""
        return functools.reduce(combine, self.each(work))

    def require_values(self, values: Sequence[float]) -> None:
        """Raise ValueError where a target in a block without weight is none of some values."""
        if self.weights is None or self.y is None:
            return
        for start in range(0, len(self.X), ROWS):
            rows = slice(start, min(start + ROWS, len(self.X)))
            if not self.weights[rows].any():
                with counted_from(start):
                    label_array(self.y[rows], values, rows=rows.stop - start)


def _checked(X: Any, y: Any, *, model: Any, release: Any, **others: Any) -> Records:
    return Records.checked(model, X, y, release, **others)


def checked_records(
    model: Any,
    X: Any,
    y: Any,
    release: Release | None,
    *,
    sample_weight: Any = None,
    clusters: Any = None,
    target_values: Any = None,
    offset: Any = None,
    noise_scale: Any = None,
) -> Records:
    """Return records of any kind, checked, with arguments as for `evaluate`: two at least.

    Those that are read by blocks, and long memory maps, stay where they are, and are checked in each pass.
    """
    if not (isinstance(X, Rows) or isinstance(y, Rows) or (isinstance(X, np.memmap) and len(X) > ROWS)):
        return Records.checked(
            model, X, y, release,
            sample_weight=sample_weight, clusters=clusters, target_values=target_values, offset=offset,
            noise_scale=noise_scale,
        ).require_several()  # fmt: skip
    count = len(X)
    require_as_many(X, y)
    check_same_index(X, y, sample_weight=sample_weight, clusters=clusters, offset=offset, noise_scale=noise_scale)
    if isinstance(X, Rows):
        X.require_places(release_of(model, release, has_scales=noise_scale is not None).columns)
    if noise_scale is not None and (is_table(noise_scale) or len(noise_scale) != count):
        raise ValueError(
            f"noise_scale is a table or has {len(noise_scale)} rows, and X has {count} that are read block by block. "
            "Pass an array of shape (n,) or (n, p)."
        )
    blocks = _Blocks(
        X,
        y if y is None or isinstance(y, Rows) else np.asarray(y),
        None if sample_weight is None else weights_array(sample_weight, rows=count),
        None if clusters is None else cluster_codes(clusters, rows=count),
        None if offset is None else as_offset(offset, count),
        None if noise_scale is None else np.asarray(noise_scale),
        functools.partial(_checked, model=model, release=release, target_values=target_values),
    )
    places = spread_over(count, SAMPLED)
    if blocks.weights is not None:
        places = places_over(blocks.weights, SAMPLED)
    every = 1 if isinstance(places, slice) else places
    with counted_from(0, every=every):
        some = blocks.rows(places)
    weight, square = float(count), float(count)
    if blocks.weights is not None:
        weight, square = float(blocks.weights.sum()), float(blocks.weights @ blocks.weights)
    return PartedRecords.of(
        some, blocks, count=count, weight=weight, square=square, every=every, fetch=lambda: some.few
    ).require_several()
