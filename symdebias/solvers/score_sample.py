"""The records that the distribution of scores is estimated from: a sample of all, and those that are far from the rest.

What is far is told by leverages under the second moments of the sample, so that the pass that takes the moments of all
records finds the far ones as well. Where the sample does not know these moments they are looked for once more.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from symdebias._arrays import FloatArray, IntegerArray
from symdebias._rows import parts_of, rows_of
from symdebias.corrected import CorrectedLoss
from symdebias.records import Records, stride_to
from symdebias.solvers.metric import inverse_root
from symdebias.solvers.moments import (
    Moments,
    leverages,
    looked_at_leverages,
    moments_and_leverages,
    moments_of_records,
)

# Records that the distribution of scores is estimated from, and the share of all that is taken whole: the farthest, and
# no more than so many. Each chunk of the records names so many times its share of these.
_SAMPLE, _FAR, _MOST_FAR, _NAMED = 20_000, 0.005, 50_000, 4
# Numbers of rows that are multiplied at a time.
_NUMBERS = 2**15
_ALL = slice(None)
# By how much mean squares in any direction may be other ones in the sample than in all records.
_KNOWN = 2.0


@dataclass(frozen=True)
class ScoreSample:
    """The records that the distribution of scores is estimated from.

    Attributes
    ----------
    rows : array of shape (m, q), float64
        Unbiased estimates of their design rows.
    target : array of shape (m,), float64
        Their released targets.
    chances : array of shape (m,), float64
        Their weights, which sum to 1.
    own_variances : array of shape (m, q), float64, or None
        Noise variances that they have of their own, by parameter.
    """

    rows: FloatArray
    target: FloatArray
    chances: FloatArray
    own_variances: FloatArray | None

    def parts(self, numbers: int = 0) -> Iterator[slice]:
        """Yield parts of the records, of which what is made takes little room: a row, or so many numbers if more."""
        return parts_of(len(self.rows), max(self.rows.shape[1], numbers), _NUMBERS)

    def released(self, theta: FloatArray, part: slice = _ALL, *, is_residual: bool) -> FloatArray:
        """Return the released scores, or less the targets the residuals, of a part of the records at a parameter."""
        found = self.rows[part] @ theta
        return np.asarray(found - self.target[part] if is_residual else found)

    def products(self, weights: FloatArray) -> FloatArray:
        """Return the sum of w x x' over the rows x for weights w of shape (m,)."""
        found = np.zeros((self.rows.shape[1], self.rows.shape[1]))
        for part in self.parts():
            found += (self.rows[part] * weights[part, None]).T @ self.rows[part]
        return found

    @classmethod
    def of(cls, corrected: CorrectedLoss, records: Records, moments: Moments, metric: FloatArray) -> "ScoreSample":
        """Return all records that are far from the rest, and as many of the others as are needed.

        A score that is missing in a sample may be where a surrogate is off by thousands.

        Parameters
        ----------
        corrected : CorrectedLoss
            A loss of one score.
        records : Records
            Its records.
        moments : Moments
            Theirs.
        metric : array of shape (q, q), float64
            The mean of x x' over released records.
        """

        def passed() -> tuple[FloatArray, ...]:
            if sample_stride(records.present) == 1:
                return _arrays(records.taken(records.every(1)))
            drawn = _Drawn.of(records)
            search = _search(corrected, drawn.taken(), metric, moments.target_square, records.present)
            return drawn.with_far(_farthest(records, search))

        return cls.from_arrays(*records.remembered("true scores", passed))

    @classmethod
    def from_arrays(cls, rows: FloatArray, target: FloatArray, chances: FloatArray, own: FloatArray) -> "ScoreSample":
        """Return what `moments_with_sample` has made arrays of."""
        return cls(rows, target, chances, own if own.size else None)


def sample_stride(present: int) -> int:
    """Return one in how many records the sample has, of so many with weight; 1 where it is all."""
    return stride_to(_SAMPLE, present)


def moments_with_sample(
    corrected: CorrectedLoss, records: Records, covariance: FloatArray, noise: FloatArray
) -> tuple[Moments, tuple[FloatArray, ...]]:
    """Return the unbiased moments of records, and the arrays of their `ScoreSample`, by one pass over them.

    Parameters
    ----------
    corrected, records
        As for `ScoreSample.of`; records of which there are more than the sample.
    covariance : array of shape (p, p), float64
        Of the additive noise.
    noise : array of shape (q, q), float64
        That of released design rows.
    """
    drawn = _Drawn.of(records)
    some = drawn.taken()
    told, square = _second_moments(some)
    if not (np.all(np.isfinite(told)) and math.isfinite(square)):
        # Nor are those of all, which the caller refuses.
        return moments_of_records(records, covariance), _arrays(some)
    search = _search(corrected, some, told, square, records.present)
    del some
    moments, found = moments_and_leverages(records, covariance, search.root, search)
    metric = moments.gram[0] + noise
    if not np.all(np.isfinite(metric)):
        return moments, _arrays(drawn.taken())
    if _knows(told, metric) and (search.square == 0 or 1 / _KNOWN < square / moments.target_square < _KNOWN):
        far = _farthest(records, search, found)
    else:
        far = _farthest(records, _search(corrected, drawn.taken(), metric, moments.target_square, records.present))
    return moments, drawn.with_far(far)


@dataclass(frozen=True)
class _Drawn:
    """A sample of the records, whatever their values are.

    Attributes
    ----------
    source : Records
        All of them.
    places : array of shape (m,), int64
        Where those of the sample stand.
    kept : Records or None
        The sample, where to take it is a pass. Any row of records in memory is at hand, and nothing is kept of them.
    """

    source: Records
    places: IntegerArray
    kept: Records | None

    @classmethod
    def of(cls, records: Records) -> "_Drawn":
        places = records.every(sample_stride(records.present))
        kept = None if records.has_any_row else records.taken(places)
        if isinstance(places, slice):
            places = np.arange(*places.indices(len(records)))
        return cls(records, places, kept)

    def taken(self) -> Records:
        """Return the records of the sample."""
        return self.source.taken(self.places) if self.kept is None else self.kept

    def with_far(self, found: "_Far") -> tuple[FloatArray, ...]:
        """Return the arrays of `ScoreSample`: of these records and of all that are far, each taken once."""
        source, far = self.source, found.places
        is_near = np.isin(self.places, far, assume_unique=True, invert=True)
        if self.kept is None:
            some = (source, self.places[is_near]), (source, far)
        else:
            others = source.taken(far) if found.read is None else source.those(far, *found.read)
            some = (self.kept, np.flatnonzero(is_near)), (others, np.arange(len(others)))
        of_near, of_far = (one.weights[places] if len(one.weights) else np.ones(len(places)) for one, places in some)
        mass, rest = float(of_near.sum()), max(0.0, source.total - float(of_far.sum()))
        chances = np.concatenate([of_near * (rest / mass if mass > 0 else 0.0), of_far])
        rows, target, own = _columns(*some)
        return rows, target, _as_chances(chances), own


def _second_moments(records: Records) -> tuple[FloatArray, float]:
    """Return the mean of x x', shape (q, q), and of the squared target of some records in memory."""
    matrix, target = records.arrays
    weights = records.weights if len(records.weights) else np.ones(len(target))
    rows = records.correction.design.estimated_rows(matrix)
    with np.errstate(over="ignore", invalid="ignore"):
        total = weights.sum()
        weighted = rows * weights[:, None] if len(records.weights) else rows
        return np.asarray(weighted.T @ rows / total), float(weights @ target**2 / total)


def _arrays(records: Records) -> tuple[FloatArray, ...]:
    """Return the arrays of `ScoreSample`, of all of some records."""
    rows, target, own = _columns((records, np.arange(len(records))))
    return rows, target, _as_chances(records.weights if len(records.weights) else np.ones(len(records))), own


def _columns(*some: tuple[Records, IntegerArray]) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return design rows, targets and noise variances of their own, if they have any, of records by their places.

    They go to where they stay part by part: records are many.
    """
    first, count = some[0][0], sum(len(places) for _, places in some)
    design = first.correction.design
    shape = count, len(design.parameters)
    rows, target, own = np.empty(shape), np.empty(count), np.zeros(shape if first.scales is not None else (0, 0))
    end = 0
    for records, every in some:
        for block in parts_of(len(every), max(shape[1], first.columns), _NUMBERS):
            places = every[block]
            part = slice(end, end + len(places))
            rows[part] = design.estimated_rows(rows_of(records.matrix, places))
            target[part] = records.target[places]
            if records.scales is not None:
                own[part, design.linear_parameters] = records.scales[places][:, design.linear_columns] ** 2
            end = part.stop
    return rows, target, own


def _as_chances(weights: FloatArray) -> FloatArray:
    found = weights if weights.sum() > 0 else np.ones(len(weights))
    return np.asarray(found / found.sum())


def _knows(sample: FloatArray, of_all: FloatArray) -> bool:
    """Whether mean squares in all directions are about the same in a sample as in all records."""
    root = inverse_root(of_all)
    root = root[:, root.any(axis=0)]
    sizes = np.linalg.eigvalsh(root.T @ sample @ root)
    return bool(np.all((sizes > 1 / _KNOWN) & (sizes < _KNOWN)))


@dataclass(frozen=True)
class _Named:
    """The far ones of some rows."""

    places: IntegerArray  # Among the rows.
    distances: FloatArray
    count: int  # The number of the rows.
    read: tuple[FloatArray, FloatArray] | None  # Their columns and targets, where those are not at hand later.


@dataclass(frozen=True)
class _Far:
    """The records that are far from the rest, in order; `read` as for `_Named`."""

    places: IntegerArray
    read: tuple[FloatArray, FloatArray] | None


@dataclass(frozen=True)
class _Search:
    """What tells the records that are far from the rest, from their leverages under a root."""

    root: FloatArray
    square: float  # The mean square of the target, or 0 where it does not count.
    within: float  # No record at a distance up to this is far.
    share: float  # No more than this share of the rows of a chunk, and a few, are named.

    def __call__(
        self, records: Records, rows: slice, block: FloatArray, target: FloatArray, leverage: FloatArray
    ) -> _Named:
        """Return the far ones of some rows."""
        distances = self.distances(records, rows, target, leverage)
        is_far = distances > self.within
        places = np.flatnonzero(is_far & (records.weights[rows] > 0) if len(records.weights) else is_far)
        found, named = distances[places], self.most(len(distances))
        if len(places) > named:
            kept = np.sort(np.argsort(-found, kind="stable")[:named])
            places, found = places[kept], found[kept]
        read = None
        if not records.has_any_row and self.share < 1:
            read = block[places], target[places]
        return _Named(places, found, len(distances), read)

    def distances(self, records: Records, rows: slice, target: FloatArray, leverage: FloatArray) -> FloatArray:
        """Return how far some rows are from the rest, with the target where its mean square is not 0.

        Noise of their own counts by its variance: a design rests on the noisiest records, wherever their values lie.
        """
        design, found = records.correction.design, leverage
        if records.scales is not None:
            units = np.einsum("ij,ij->i", self.root, self.root)[design.linear_parameters]
            found = found + records.scales[rows][:, design.linear_columns] ** 2 @ units
        return found if self.square == 0 else found + target**2 / self.square

    def most(self, count: int) -> int:
        """Return how many of so many rows are named."""
        return min(count, math.ceil(self.share * count) + 8)


def _search(corrected: CorrectedLoss, drawn: Records, metric: FloatArray, square: float, count: int) -> _Search:
    """Return what tells the far ones of so many records, by second moments of rows and target and a sample of them."""
    root = inverse_root(metric)
    search = _Search(root, square if corrected.surrogate_parts.is_residual else 0.0, 0.0, _NAMED * _MOST_FAR / count)
    matrix, target = drawn.arrays
    distances = search.distances(drawn, slice(None), target, leverages(drawn.correction.design, matrix, root))
    return replace(search, within=float(np.quantile(distances, 1 - _FAR)))


def _farthest(records: Records, search: _Search, found: list[list[_Named]] | None = None) -> _Far:
    """Return the records beyond a distance, or the farthest of them.

    Parameters
    ----------
    records : Records
        All of them.
    search : _Search
        What tells them.
    found : list of list, optional
        What it has told in a pass over all records; without, there is one.
    """
    parts = looked_at_leverages(records, search.root, search) if found is None else found
    chunks: list[_Named] = list(itertools.chain.from_iterable(parts))
    distances, within = np.concatenate([one.distances for one in chunks]), search.within
    if len(distances) > _MOST_FAR:
        within = float(np.partition(distances, -_MOST_FAR)[-_MOST_FAR])
    if any(len(one.places) == search.most(one.count) and one.distances.min() > within for one in chunks):
        # A chunk may have more of the farthest than it has named.
        parts = looked_at_leverages(records, search.root, replace(search, share=1.0))
        chunks = list(itertools.chain.from_iterable(parts))
        distances = np.concatenate([one.distances for one in chunks])
    starts = np.cumsum([0, *(one.count for one in chunks)])
    places = np.concatenate([start + one.places for one, start in zip(chunks, starts[:-1], strict=True)])
    chosen = np.argsort(-distances, kind="stable")[:_MOST_FAR]
    chosen = chosen[np.argsort(places[chosen])]
    each = [one.read for one in chunks if one.read is not None]
    if len(each) < len(chunks):
        return _Far(places[chosen], None)
    matrices, targets = zip(*each, strict=True)
    return _Far(places[chosen], (np.concatenate(matrices)[chosen], np.concatenate(targets)[chosen]))
