"""What a metric is: numbers per record with the right mean over the noise, and a bound on what is still wrong."""

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from symdebias._arrays import FloatArray
from symdebias._tails import tail_count
from symdebias.evaluation.error_law import ErrorLaw
from symdebias.evaluation.records import Records, extremes_of, extremes_with_weight
from symdebias.evaluation.sums import Powers, Sums
from symdebias.exceptions import DivergenceError
from symdebias.noise import ChannelNoise

# Squared sums of squares of larger numbers are on the way to overflow.
LARGEST = 1e70
# How seldom a sample has no record of a label that is as frequent as is looked at.
MISSED = 0.025


@dataclass(frozen=True)
class Metric(ABC):
    """A metric of released records, corrected for all parameters that are to be compared.

    Attributes
    ----------
    name, method : str
        What it is, and how it is corrected.
    records : Records
        The records.
    higher_is_better : bool
        Whether large values are good.
    has_long_tails : bool
        Whether it is a mean of numbers without a bound, whose tails tell how far intervals reach.
    """

    name: str
    method: str
    records: Records
    higher_is_better: ClassVar[bool] = False
    has_long_tails: ClassVar[bool] = False

    @abstractmethod
    def on(self, part: Records) -> Self:
        """Return the metric of some other records, as it is corrected here."""

    @abstractmethod
    def values(self, theta: FloatArray, rows: Any) -> FloatArray:
        """Return numbers of some records whose mean over the noise is the metric of the true record."""

    def columns(self, theta: FloatArray, rows: Any) -> FloatArray:
        """Return numbers of some records, shape (m, k), whose means over all the metric is made of."""
        return self.values(theta, rows)[:, None]

    def sums(self, theta: FloatArray) -> Sums:
        """Return the sums of `columns` over all records, part by part."""
        return Sums.together(self.records.over_parts(functools.partial(_sums_of, judge=self.light, theta=theta)))

    @property
    def light(self) -> Self:
        """The metric as it goes to parts of the records: with few records of its own where they lie elsewhere."""
        return self if self.records.light is self.records else self.on(self.records.light)

    def judged(self, theta: FloatArray) -> "Judged":
        """Return the metric of all records and its standard error.

        Raises
        ------
        DivergenceError
            A number of a record is not finite.
        """
        sums, of = self.sums(theta), np.ones(1)
        return Judged(sums.mean(of), sums.error(of), sums, of)

    def error_law(self, theta: FloatArray, found: "Judged") -> ErrorLaw:
        """Return the law of the metric in its standard errors."""
        return self.error_laws(theta, found.sums, [found.of])[0].bent(found.bending).carried_by(found.carriers)

    def error_laws(self, theta: FloatArray, sums: Sums, combinations: Sequence[FloatArray]) -> list[ErrorLaw]:
        """Return those of the means of several combinations: one pass over all records, where it takes one."""

        @functools.cache
        def powers() -> Powers:
            of = np.stack(combinations, axis=1)
            mean = np.array([sums.mean(one) for one in combinations])
            most = tail_count(sums.records) if self.has_long_tails else 0
            work = functools.partial(_powers_of, judge=self.light, theta=theta, of=of, mean=mean, most=most)
            return Powers.together(self.records.over_parts(work), most)

        return [sums.error_law(one, powers, place) for place, one in enumerate(combinations)]

    def skewed(self, law: ErrorLaw, thetas: Sequence[FloatArray]) -> ErrorLaw:
        """Return the law of a mean over parts that are judged at thetas, where more is known of its skewness."""
        return law

    def bias(self, theta: FloatArray, sums: Sums | None = None) -> tuple[float, bool]:
        """Return a bound on the absolute bias of the mean at theta, and whether it is certified.

        Parameters
        ----------
        theta : array of shape (q,), float64
            The parameters.
        sums : Sums, optional
            Those of all records at theta, where they are known.
        """
        return 0.0, True

    @property
    def label_pair(self) -> tuple[float, float] | None:
        """The two labels that it is a metric of; None for others, and where it is refused without both of them."""
        return None

    def without_both_labels(self, theta: FloatArray, value: float) -> float:
        """Return by how much a label that no record has may change the metric, which is `value`; 0 where both occur."""
        label = self.unseen_label()
        if label is None:
            return 0.0
        work = functools.partial(_sums_relabelled, judge=self.light, theta=theta, label=label)
        moved = Sums.together(self.records.over_parts(work)).mean(np.ones(1))
        return self.unseen_share * (moved - value)

    def with_other_labels(self, thetas: Sequence[FloatArray], value: float) -> float:
        """Return by how much labels may change the metric that so few records have as to be in none of a sample.

        Where scores are certain of labels, the records whose labels are not those that their scores tell decide a mean
        loss or an area.

        Parameters
        ----------
        thetas : sequence of arrays of shape (q,), float64
            What models records are judged by: it is the mean over them.
        value : float
            The metric.

        Returns
        -------
        float
            0 for a metric whose range says as much.
        """
        return 0.0

    @property
    def unseen_share(self) -> float:
        """How frequent a label may be that no record has: in one of 40 samples none has one that is as frequent.

        Its records are taken to have scores like those of the others.
        """
        return -math.expm1(math.log(MISSED) / self.independent)

    @property
    def independent(self) -> float:
        """How many records count; of clusters, which may have one label together, no more than there are."""
        clusters = self.records.counts[1]
        return self.records.effective if clusters is None else min(self.records.effective, clusters)

    def unseen_label(self) -> float | None:
        """Return which of two labels no record has; None where both occur, and for a metric of others."""
        labels, records = self.label_pair, self.records
        if labels is None or records.of_margins:
            return None
        # Mostly those at hand have both already, and others need not be read.
        least, most = _extreme_targets(records)
        if least >= most:
            least, most = records.reduced(_extreme_targets, extremes_of)
        if least != most or least not in labels:
            return None
        other = labels[1] if least == labels[0] else labels[0]
        noise = records.release.target_noise
        if isinstance(noise, ChannelNoise) and other not in noise.outputs:
            return None
        return other

    @property
    def common_bias(self) -> float:
        """How much of that bound is for a bias that is the same for all parameters, and cancels in differences."""
        return 0.0

    def checked_values(self, thetas: Sequence[FloatArray], parts: Sequence[Any]) -> FloatArray:
        """Return the metric of all records, shape (n,), each part of them judged at its theta; 0 for those of weight 0.

        Raises
        ------
        DivergenceError
            One is not finite.
        """
        values = np.empty(len(self.records.matrix))
        for theta, part in zip(thetas, parts, strict=True):
            values[part] = self.values(theta, part)
        return self.settled(values, self.records.weights, 0)

    def carriers(self, theta: FloatArray, rows: Any) -> float:
        """Return how many of some records, or clusters, the metric of these is a share of, as `Judged` has it."""
        return math.inf

    def members(self, theta: FloatArray, rows: Any) -> float:
        """Return how many of some records, or clusters, a ratio of these is a share of, as `Judged` has it."""
        return math.inf

    def bias_of_few(self, theta: FloatArray, rows: Any) -> float:
        """Return what the metric of some records is off in the mean because they are few, to the order of 1/n."""
        return 0.0

    def _carried(self, values: FloatArray, rows: Any) -> float:
        return self._summed(values, rows).carriers(0)

    def _summed(self, values: FloatArray, rows: Any) -> Sums:
        return Sums.of(values[:, None], *self.records.counted_by(rows))

    def settled(self, values: FloatArray, weights: FloatArray, first: int) -> FloatArray:
        """Return numbers of consecutive records, shape (m,) or (m, k), as 0 where their weight is: no sum has these.

        Raises
        ------
        DivergenceError
            One is not finite.
        """
        if not weights.all():
            values = np.where((weights > 0).reshape(-1, *[1] * (values.ndim - 1)), values, 0.0)
        bad = ~(np.abs(values) < LARGEST)
        if bad.any():
            raise DivergenceError(
                f"the corrected {self.name} of record {first + int(np.argmax(bad)) // bad[:1].size} is beyond "
                f"{LARGEST:g} or not finite at these parameters: its score is too large. Use smaller parameters, or a "
                "metric that grows less."
            )
        return values


@dataclass(frozen=True)
class Judged:
    """A metric of all records.

    Attributes
    ----------
    value, error : float
        It, and its standard error.
    sums : Sums
        What both are made of.
    of : array of shape (k,), float64
        The combination of the summed numbers that the metric grows with, whose standard error is its own.
    carriers : float
        How many records, or clusters, the metric is a share of, as `Sums.carriers` counts them.
    bending : tuple of two floats
        As in `ErrorLaw`: those of a ratio whose denominator is noisy.
    members : float
        How many records, or clusters, a ratio is a share of by the estimate of its denominator; infinite for others.
    """

    value: float
    error: float
    sums: Sums
    of: FloatArray
    carriers: float = math.inf
    bending: tuple[float, float] = (0.0, 0.0)
    members: float = math.inf


def unseen_of_share(value: float, count: float) -> float:
    """Return how far a share of so many records may be from an estimate, towards 1/2, if none shows the other outcome.

    It is then missed in one of 40 samples. Of three records above a threshold, all with the released label +1, a share
    of -1 has the standard error of how many they are, which says nothing of how rare -1 is. An estimate beyond 0 or 1
    is that of a share which is 0 or 1.
    """
    if not 0 < count < math.inf:
        return 0.0
    return min(max(value, 0.0), 1.0) - value + math.copysign(-math.expm1(math.log(MISSED) / count), 0.5 - value)


def _sums_of(part: Records, *, judge: Metric, theta: FloatArray) -> Sums:
    """Return the sums of some records."""
    own = judge if part is judge.records else judge.on(part)

    def summed(rows: slice) -> Sums:
        values = own.settled(own.columns(theta, rows), part.weights[rows], part.first + rows.start)
        return Sums.of(values, *part.counted_by(rows))

    return Sums.together(part.over_pieces(summed))


def _extreme_targets(part: Records) -> tuple[float, float]:
    """Return the least and the largest target of the records with weight."""
    return extremes_with_weight(part.target, part.weights)


def relabelled(part: Records, label: float) -> Records:
    """Return some records as if all of them had a label, each by itself."""
    labels = np.full(len(part), label)
    return replace(part, y=labels, target=labels, clusters=None, memo={})


def turned(part: Records) -> Records:
    """Return some records of a margin release as if each had the other label."""
    X = -part.collected.design_matrix(part.X)
    y = None if part.y is None else -np.asarray(part.y, dtype=np.float64)
    matrix, target = part.collected.columns_of(X, y)
    return replace(part, X=X, y=y, matrix=matrix, target=target, memo={})


def _sums_relabelled(part: Records, *, judge: Metric, theta: FloatArray, label: float) -> Sums:
    """Return the sums of some records as if all of them had a label."""
    return _sums_of(relabelled(part, label), judge=judge, theta=theta)


def _powers_of(
    part: Records, *, judge: Metric, theta: FloatArray, of: FloatArray, mean: FloatArray, most: int
) -> Powers:
    """Return the powers of some records."""
    own = judge if part is judge.records else judge.on(part)

    def powers(rows: slice) -> Powers:
        values, weights = own.columns(theta, rows), part.weights[rows]
        values = own.settled(values, weights, part.first + rows.start)
        return Powers.of(values, weights, of=of, mean=mean, most=most)

    return Powers.together(part.over_pieces(powers), most)
