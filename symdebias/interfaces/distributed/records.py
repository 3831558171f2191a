"""Records in the partitions of a Dask collection: passes over them are tasks where they lie, and only sums travel.

A solver that asks `Records` for sums, and for some records to look at, does not know where they are.
"""

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from symdebias._arrays import FloatArray, IntegerArray, cluster_labels, require_clusters
from symdebias._rows import Rows
from symdebias.corrected import CorrectedLoss
from symdebias.correction import Correction
from symdebias.interfaces.distributed.partitions import Partitions
from symdebias.interfaces.distributed.reading import Checked, Reading, SharedOffset, together
from symdebias.losses.shifts import completed
from symdebias.records import Derivatives, Records
from symdebias.solvers.held import Held, HeldRecords, lengthened
from symdebias.solvers.offsets import rule_for

# Where all records are to be looked at, so many are fetched, and more stay where they are.
_FEW = 2**16


@dataclass(frozen=True)
class Places:
    """Where records are, and how many.

    Attributes
    ----------
    partitions : Partitions
        Of X, y, the weights, the noise scales, the clusters and the offsets, none of them empty.
    reading : Reading
        What makes records of them.
    counts : array of shape (k,), int64
        The numbers of records of the partitions.
    present : int
        The number of records with weight.
    total : float
        The number of records, or the sum of their weights.
    squares : float
        The same of squared weights.
    is_weighted : bool
        Whether they have weights.
    """

    partitions: Partitions
    reading: Reading
    counts: IntegerArray
    present: int
    total: float
    squares: float
    is_weighted: bool

    def __len__(self) -> int:
        return int(self.counts.sum())

    def local(self, work: Callable[[Records], Any], correction: Correction) -> Callable[..., Any]:
        """Return work on records under a correction as work on a partition."""
        return functools.partial(_of_partition, work=work, reading=self.reading, correction=correction)

    def local_of_clusters(self, work: Callable[[Records, Any], Any], correction: Correction) -> Callable[..., Any]:
        """Return work on records under a correction, and on their clusters, as work on a partition."""
        return functools.partial(_of_clusters, work=work, reading=self.reading, correction=correction)

    def read_together(self, wanted: Sequence[slice | IntegerArray]) -> list[tuple[FloatArray, ...]]:
        """Return columns, targets, weights and noise scales of some records, several times, by one pass.

        Parameters
        ----------
        wanted : sequence of slices or arrays of int
            The records, in order.
        """
        ends = np.cumsum(self.counts)
        places = [np.arange(*rows.indices(len(self))) if isinstance(rows, slice) else rows for rows in wanted]
        parts = []
        for start, end in zip((ends - self.counts).tolist(), ends.tolist(), strict=True):
            parts.append(tuple(rows[slice(*np.searchsorted(rows, (start, end)))] - start for rows in places))
        found = self.partitions.each(functools.partial(_taken, reading=self.reading), [(part,) for part in parts])
        return [tuple(map(np.concatenate, zip(*own, strict=True))) for own in zip(*found, strict=True)]

    def fetched(self, rows: Any) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return some records: columns, targets, weights and noise scales, in the order that they were asked for.

        Parameters
        ----------
        rows : slice or array of int
            The records; a slice goes forward.
        """
        ends = np.cumsum(self.counts)
        starts = ends - self.counts
        if isinstance(rows, slice):
            begin, stop, step = rows.indices(len(self))
            wanted, parts = [], []
            for place, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
                first = max(begin, start + (begin - start) % step)
                if first < min(end, stop):
                    wanted.append(place)
                    parts.append(slice(first - start, min(end, stop) - start, step))
            back = None
        else:
            order = np.argsort(rows, kind="stable")
            own = np.searchsorted(ends, rows[order], side="right")
            wanted = np.unique(own).tolist()
            parts = [rows[order][own == place] - starts[place] for place in wanted]
            back = np.argsort(order, kind="stable")
        if not wanted:
            none = np.zeros((0, self.reading.correction.columns))
            return none, np.zeros(0), np.zeros(0), none
        take = functools.partial(_taken, reading=self.reading)
        found = self.partitions.only(wanted).each(take, [((part,),) for part in parts])
        columns = (np.concatenate(one) for one in zip(*(one for (one,) in found), strict=True))
        matrix, target, weights, scales = (
            columns if back is None else (one[back] if len(one) else one for one in columns)
        )  # fmt: skip
        return matrix, target, weights, scales


@dataclass(frozen=True)
class PartedRecords(Records):
    """Checked records in the partitions of a collection.

    Attributes
    ----------
    places : Places
        Where they are. `matrix`, `target` and `weights` fetch what is asked of them.
    """

    places: Places | None = None

    @classmethod
    def checked(
        cls,
        corrected: CorrectedLoss,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        noise_scale: Any = None,
        clusters: Any = None,
        offset: Any = None,
        l2: float = 0.0,
    ) -> "PartedRecords":
        """Return the records of collections, checked in one pass.

        Parameters
        ----------
        corrected : CorrectedLoss
            The loss.
        X : data frame or array of Dask
            The released features.
        y : series or array of Dask, or None
            The released targets.
        sample_weight : series or array of Dask, optional
            Weights.
        noise_scale : series, array or data frame of Dask, optional
            Standard deviations of the records' own noise.
        clusters : series or array of Dask, optional
            Labels of clusters.
        offset : series or array of Dask, optional
            Known terms of scores. Where another target and a weight stand for them, these are the records'; elsewhere
            see `holding`.
        l2 : float
            The penalty; see `rule_for`.

        Raises
        ------
        TypeError, ValueError
            The data do not fit; the message names the partition.
        """
        partitions = Partitions(
            X=X, y=y, sample_weight=sample_weight, noise_scale=noise_scale, clusters=clusters, offset=offset
        )
        term = None if offset is None else SharedOffset(rule_for(corrected, l2))
        said = partitions.first(functools.partial(Checked.of, corrected=corrected, term=term))
        full = [place for place, one in enumerate(said) if one is not None]
        if not full:
            raise ValueError(
                "X has no records in any partition, or every sample_weight is zero. Pass collections with at least one."
            )
        told = [said[place] for place in full]
        widths = {one.width for one in told}
        if len(widths) > 1:
            raise ValueError(f"partitions have {min(widths)} to {max(widths)} columns. Pass as many in each.")
        correction = corrected.at(told[0].width, per_record=noise_scale is not None)
        whole, total, squares = together(told, None if term is None else term.rule)
        places = Places(
            partitions.only(full), Reading(correction, correction, None if term is None else whole),
            np.array([one.count for one in told]), sum(one.present for one in told), total, squares,
            sample_weight is not None or (term is not None and term.weighs),
        )  # fmt: skip
        found = cls.there(places, has_scales=noise_scale is not None)
        if isinstance(found.matrix, Rows):
            means = np.sum([one.sums for one in told], axis=0) / len(places)
            found.matrix.ends = means, np.min([one.lows for one in told], axis=0)
        return found

    @classmethod
    def there(cls, places: Places, *, has_scales: bool, **more: Any) -> Self:
        """Return the records of places; `has_scales` says whether they have noise scales of their own."""
        correction = places.reading.correction
        length, width = len(places), correction.columns
        weights: Any = _Fetched(places, (length,), 2) if places.is_weighted else np.zeros(0)
        matrix, target = _Fetched(places, (length, width), 0), _Fetched(places, (length,), 1)
        scales: Any = _Fetched(places, (length, width), 3) if has_scales else None
        return cls(correction, matrix, target, weights, scales, places=places, **more)

    @property
    def gain(self) -> float | None:
        """What an offset multiplies the mean gradient with; None where there is none."""
        term = self.at.reading.term
        return None if term is None else term.gain

    @property
    def at(self) -> Places:
        """Where they are."""
        assert self.places is not None
        return self.places

    def __len__(self) -> int:
        return len(self.at)

    @property
    def total(self) -> float:
        """The number of records, or the sum of their weights."""
        return self.at.total

    @property
    def effective(self) -> float:
        """The sample size: with weights (sum w)^2/(sum w^2)."""
        return self.at.total**2 / self.at.squares

    @functools.cached_property
    def present(self) -> int:
        """The number of records with weight."""
        return self.at.present

    @functools.cached_property
    def _present_places(self) -> IntegerArray:
        """The places of the records with weight, by one pass in which only these travel."""
        starts = np.cumsum([0, *self.at.counts[:-1]])
        found = self.over_parts(_places_with_weight)
        return np.concatenate([start + own for start, own in zip(starts, found, strict=True)])

    def over_parts(self, work: Callable[[Records], Any]) -> list[Any]:
        """Return what a function says of the records of each partition, in order."""
        return self.at.partitions.each(self.at.local(work, self.correction))

    def summed_over_parts(self, work: Callable[[Records], tuple[Any, ...]]) -> tuple[Any, ...]:
        """Return the sums over partitions of what a function says of the records of each."""
        return self.at.partitions.summed(self.at.local(work, self.correction))

    def taken(self, rows: Any) -> Records:
        """Return some records, by a slice or their numbers, as records in memory."""
        found = self._ahead(rows)
        matrix, target, weights, scales = self.at.fetched(rows) if found is None else found
        own = None if self.scales is None else scales
        return Records(self.correction, matrix, target, weights, own, completes=self.completes)

    def lowered(self, by: float) -> Self:
        """Return the same records with targets less a number, in every pass."""
        reading = replace(self.at.reading, lowered_by=self.at.reading.lowered_by + by)
        found = self.there(
            replace(self.at, reading=reading), has_scales=self.scales is not None, completes=self.completes,
            lowered_by=reading.lowered_by,
        )  # fmt: skip
        if isinstance(found.matrix, Rows) and isinstance(self.matrix, Rows):
            found.matrix.ends = self.matrix.ends
        return found

    def noisier(self, columns: slice, factor: float) -> Self:
        """Return the same records with noise scales of their own in some columns times a factor, in every pass."""
        reading = replace(self.at.reading, noisier=(*self.at.reading.noisier, (columns, factor)))
        places = replace(self.at, reading=reading)
        scales: Any = _Fetched(places, (len(self), self.correction.columns), 3)
        return replace(self, places=places, scales=scales, journal=None, seen={})

    @property
    def has_any_row(self) -> bool:
        """Never: where single rows are is where a partition is read."""
        return False

    def _read_together(self, wanted: list[slice | IntegerArray]) -> list[tuple[FloatArray, ...]]:
        return self.at.read_together(wanted)

    def thinned(self, stride: int) -> Records:
        """Return one in so many of the records as records in memory; many records stay where they are."""
        return self if stride <= 1 and self.present > _FEW else self.taken(self.every(max(stride, 1)))

    def spaced(self, stride: int) -> Records:
        """Return the records of `Records.spaced` as records in memory."""
        return self.taken(self.every(stride))

    def derivatives_or_differences(
        self, metric: FloatArray, *, roughly: bool = False
    ) -> tuple[Callable[..., Derivatives], str]:
        """Return mean loss, gradient and Hessian as a function of theta, and how the Hessian is found."""
        _, kind = super().derivatives_or_differences(metric)

        def derivatives(theta: FloatArray, meat: bool = False) -> Derivatives:
            return Derivatives(*self._means(functools.partial(_derivatives, theta=theta, meat=meat, metric=metric)))

        # Partitions sum what the loss itself has, and the sum is completed.
        return self._completed(derivatives), kind

    def mean_loss(self, theta: FloatArray) -> float:
        """Return the mean loss."""
        return float(self._means(functools.partial(_mean_loss, theta=theta))[0])

    def mean_gradient(self, theta: FloatArray) -> FloatArray:
        """Return the mean gradient."""
        return np.asarray(self._means(functools.partial(_mean_gradient, theta=theta))[0])

    def meat(self, theta: FloatArray, mean: FloatArray) -> FloatArray:
        """Return the sum of outer products of the weighted gradients less a mean, over the total."""
        return np.asarray(self._means(functools.partial(_meat, theta=theta, mean=mean))[0])

    def clusters(self) -> Any:
        """Return the labels of all clusters, each once, from a pass over them.

        Raises
        ------
        ValueError
            There is one, or some are missing.
        """
        labels = np.unique(np.concatenate(self.at.partitions.each(_labels)))
        require_clusters(len(labels))
        return labels

    def cluster_masses(self, codes: Any) -> FloatArray:
        """Return the numbers of records of clusters, or the sums of their weights, shape (G,)."""
        labels, mass = self._by_cluster(_masses)
        return np.asarray(mass[np.searchsorted(labels, codes), 0])

    def cluster_sums(self, theta: FloatArray, mean: FloatArray, codes: Any) -> FloatArray:
        """Return the sums over clusters of the weighted gradients less a mean, shape (G, Q)."""
        labels, sums = self._by_cluster(functools.partial(_cluster_sums, theta=theta, mean=mean))
        return np.asarray(sums[np.searchsorted(labels, codes)])

    def cluster_totals(self, of: Callable[[Records, slice], FloatArray], codes: Any) -> FloatArray:
        """Return the sums over clusters of a number of each record, shape (G,)."""
        labels, totals = self._by_cluster(functools.partial(_cluster_totals, of=of))
        return np.asarray(totals[np.searchsorted(labels, codes), 0])

    def cluster_curvatures(
        self, theta: FloatArray, mean: FloatArray, codes: Any, some: IntegerArray, metric: FloatArray
    ) -> Iterator[tuple[int, FloatArray, FloatArray]]:
        """Yield the number of records of some clusters, and sums over them of shape (Q, Q).

        They are those of the weighted Hessians, and of the outer products of the weighted gradients less a mean.
        """
        work = self.at.local_of_clusters(
            functools.partial(_cluster_curvatures, theta=theta, mean=mean, some=codes[some], metric=metric),
            self.correction,
        )
        found = self.at.partitions.summed(work) if len(some) else ((), (), ())
        scores = len(self.correction.loss.scores)
        return (
            (int(count), completed(hessian, scores) if self.completes else hessian, meat)
            for count, hessian, meat in zip(*found, strict=True)
        )

    def _by_cluster(self, work: Callable[[Records, Any], FloatArray]) -> tuple[Any, FloatArray]:
        """Return the labels of clusters, sorted, and sums of what a function says of the records of each part."""
        local = self.at.local_of_clusters(functools.partial(_grouped_work, work=work), self.correction)
        found: tuple[Any, FloatArray] = self.at.partitions.reduced(local, _merged)
        return found

    def _means(self, work: Callable[[Records], tuple[Any, ...]]) -> tuple[Any, ...]:
        """Return means over all records of what a function returns the means of for a part."""
        sums = self.summed_over_parts(functools.partial(_times_total, work=work))
        return tuple(one / self.total for one in sums)


@dataclass(frozen=True)
class HeldPartedRecords(PartedRecords, HeldRecords):
    """Records in partitions, with an offset as a column more, whose parameter is held at 1."""

    def taken(self, rows: Any) -> Records:
        """Return some records, by a slice or their numbers, as records in memory."""
        found = super().taken(rows)
        return HeldRecords(
            found.correction, found.matrix, found.target, found.weights, found.scales, frame=self.frame,
            completes=found.completes,
        )  # fmt: skip

    def derivatives_or_differences(
        self, metric: FloatArray, *, roughly: bool = False
    ) -> tuple[Callable[..., Derivatives], str]:
        """Return mean loss, gradient and Hessian as a function of theta, and how the Hessian is found."""
        found, kind = super().derivatives_or_differences(metric, roughly=roughly)
        return lambda theta, meat=False: self._held.apart(found(theta, meat)), kind


def holding(corrected: CorrectedLoss, records: PartedRecords) -> tuple[CorrectedLoss, PartedRecords]:
    """Return the loss and the records with an offset as a column more, where nothing else stands for it.

    Parameters
    ----------
    corrected : CorrectedLoss
        The loss as it was given.
    records : PartedRecords
        Its records, checked.
    """
    reading, has_scales = records.at.reading, records.scales is not None
    if reading.term is None or not reading.term.is_column:
        return corrected, records
    longer, correction, place = lengthened(corrected, records.correction.features, per_record=has_scales)
    reading = replace(reading, correction=correction)
    plain = PartedRecords.there(replace(records.at, reading=reading), has_scales=has_scales)
    frame = Held.of(plain, place, corrected)
    places = replace(records.at, reading=replace(reading, frame=frame))
    return longer, HeldPartedRecords.there(places, has_scales=has_scales, frame=frame)


class _Fetched(Rows):
    """Columns, targets or weights of records that lie elsewhere: what is asked for is fetched."""

    def __init__(self, places: Places, shape: tuple[int, ...], kind: int) -> None:
        self._places, self._kind = places, kind
        super().__init__(shape, self._some, self._some)

    def _some(self, rows: Any) -> FloatArray:
        return self._places.fetched(rows)[self._kind]

    def over_blocks(self, work: Callable[[FloatArray], Any]) -> list[Any]:
        """Return what a function says of the rows of each partition, in order."""
        places = self._places
        each = places.local(functools.partial(_of_matrix, work=work), places.reading.correction)
        return places.partitions.each(each) if self._kind == 0 else super().over_blocks(work)

    def mean_squares(self) -> FloatArray:
        """Return the means of the squares of each column, of noise scales of records with weight."""
        if self._kind != 3:
            return super().mean_squares()
        squares = self._places.local(_squared_scales, self._places.reading.correction)
        return np.asarray(self._places.partitions.summed(squares)[0] / self._places.present)


def _of_partition(
    X: Any, y: Any, weights: Any, scales: Any, clusters: Any, offset: Any, *,
    work: Callable[[Records], Any], reading: Reading, correction: Correction,
) -> Any:  # fmt: skip
    return work(reading.records(X, y, weights, scales, offset).under(correction))


def _of_clusters(
    X: Any, y: Any, weights: Any, scales: Any, clusters: Any, offset: Any, *,
    work: Callable[[Records, Any], Any], reading: Reading, correction: Correction,
) -> Any:  # fmt: skip
    records = reading.records(X, y, weights, scales, offset).under(correction)
    return work(records, cluster_labels(clusters, rows=len(records)))


def _labels(X: Any, y: Any, weights: Any, scales: Any, clusters: Any, offset: Any) -> Any:
    """Return the labels of the clusters of a partition, each once."""
    return np.unique(np.asarray(clusters))


def _grouped_work(part: Records, labels: Any, *, work: Callable[[Records, Any], FloatArray]) -> tuple[Any, FloatArray]:
    """Return labels of clusters, sorted, and what a function says of records and of the codes of their clusters."""
    found, codes = np.unique(labels, return_inverse=True)
    return found, work(part, codes.reshape(-1))


def _merged(*parts: tuple[Any, FloatArray]) -> tuple[Any, FloatArray]:
    """Return labels of clusters, each once and sorted, and the sums of what belongs to each."""
    found, codes = np.unique(np.concatenate([labels for labels, _ in parts]), return_inverse=True)
    sums = np.zeros((len(found), parts[0][1].shape[1]))
    np.add.at(sums, codes.reshape(-1), np.concatenate([own for _, own in parts]))
    return found, sums


def _masses(part: Records, codes: Any) -> FloatArray:
    return part.cluster_masses(codes)[:, None]


def _cluster_sums(part: Records, codes: Any, *, theta: FloatArray, mean: FloatArray) -> FloatArray:
    return part.cluster_sums(theta, mean, codes)


def _cluster_totals(part: Records, codes: Any, *, of: Callable[[Records, slice], FloatArray]) -> FloatArray:
    return part.cluster_totals(of, codes)[:, None]


def _cluster_curvatures(
    part: Records, labels: Any, *, theta: FloatArray, mean: FloatArray, some: Any, metric: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the numbers of records of some clusters, and sums of their weighted Hessians and outer products."""
    counts, (hessians, meats) = np.zeros(len(some)), np.zeros((2, len(some), len(theta), len(theta)))
    places, codes = np.unique(labels, return_inverse=True)
    here = np.flatnonzero(np.isin(places, some))
    found = part.cluster_curvatures(theta, mean, codes.reshape(-1), here, metric)
    for place, (count, hessian, meat) in zip(np.searchsorted(some, places[here]), found, strict=True):
        counts[place], hessians[place], meats[place] = count, hessian, meat
    return counts, hessians, meats


def _squared_scales(part: Records) -> tuple[FloatArray]:
    assert part.scales is not None
    own = part.scales[part.weights > 0] if len(part.weights) else part.scales
    return (np.asarray((own**2).sum(axis=0)),)


def _of_matrix(part: Records, *, work: Callable[[FloatArray], Any]) -> Any:
    return work(part.arrays[0])


def _taken(
    X: Any, y: Any, weights: Any, scales: Any, clusters: Any, offset: Any, selections: Sequence[slice | IntegerArray],
    *, reading: Reading,
) -> list[tuple[FloatArray, FloatArray, FloatArray, FloatArray]]:  # fmt: skip
    """Return some records of a partition for each selection, as copies."""
    records = reading.records(X, y, weights, scales, offset)
    found = []
    for rows in selections:
        matrix, target = (np.array(one[rows]) for one in records.arrays)
        own = np.zeros((0, matrix.shape[1])) if records.scales is None else np.array(records.scales[rows])
        weighing = np.array(records.weights[rows]) if len(records.weights) else records.weights
        found.append((matrix, target, weighing, own))
    return found


def _places_with_weight(part: Records) -> IntegerArray:
    return np.flatnonzero(part.weights)


def _times_total(part: Records, *, work: Callable[[Records], Sequence[Any]]) -> tuple[Any, ...]:
    return tuple(part.total * one for one in work(part))


def _derivatives(part: Records, *, theta: FloatArray, meat: bool, metric: FloatArray) -> tuple[Any, ...]:
    found = part.derivatives_or_differences(metric)[0](theta, meat)
    return found.loss, found.gradient, found.hessian, found.meat


def _mean_loss(part: Records, *, theta: FloatArray) -> tuple[float]:
    return (part.mean_loss(theta),)


def _mean_gradient(part: Records, *, theta: FloatArray) -> tuple[FloatArray]:
    return (part.mean_gradient(theta),)


def _meat(part: Records, *, theta: FloatArray, mean: FloatArray) -> tuple[FloatArray]:
    return (part.meat(theta, mean),)
