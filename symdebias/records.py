"""Released records: checked once, kept as checked, and encoded for the kernels of a correction.

Sums over records go through here: means of loss, gradient and Hessian, the meat of a sandwich, sums over clusters.
"""

import functools
import itertools
import math
import operator
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self

import numpy as np

from symdebias._arrays import (
    FloatArray,
    IntegerArray,
    check_same_index,
    features_array,
    is_table,
    require_squares,
    weights_array,
)
from symdebias._rows import (
    Gathered,
    Rows,
    Runs,
    are_in_runs,
    has_any_row,
    paired,
    read_together,
    rows_of,
    spread,
    without_far,
)
from symdebias._tables import number_of_rows
from symdebias.codegen.parallel import CHUNK, chunk_of, over_chunks, summed
from symdebias.codegen.plain import plain_gradients, plain_slopes
from symdebias.codegen.score.program import ScoreProgram
from symdebias.correction import Correction
from symdebias.derivation import Limits
from symdebias.exceptions import NoExactCorrectionError
from symdebias.losses.curvature import has_target_in_curvature
from symdebias.losses.meaning import is_residual_loss
from symdebias.losses.shifts import completed, ignores_shifts
from symdebias.reading import has_numbers, has_rows, in_blocks, is_long, of_table

# Records that a fit is tested on, and those whose curvatures are looked at first.
TESTED_RECORDS, LOOKED_AT = 10_000, 2_000
# Second moments of less than this share of the largest, columns in units of their own, are rounding.
_ROUNDING = 1e-12
# Residuals of less than this share of targets and scores are their rounding.
_LEAST_RESIDUAL = 1e-8
# Numbers of a table that are put into an array at once, and of rows that are made at once, which takes less time than
# block by block: 32 MB.
SMALL_TABLE = 2**22


def _asked(rows: slice | IntegerArray) -> str | bytes:
    """Return what tells some rows from others."""
    return repr(rows) if isinstance(rows, slice) else rows.tobytes()


def _strides_ahead(present: int, strides: Iterable[int]) -> list[int]:
    """Return the strides of records that are read ahead, of so many with weight: some, and those of all fits."""
    some = (stride_to(count, present) for count in (TESTED_RECORDS, LOOKED_AT))
    return sorted({stride for stride in (*strides, *some) if stride > 1})


def stride_to(count: int, records: int) -> int:
    """Return the stride that leaves about so many records."""
    return max(1, records // count)


def size_by(metric: FloatArray, vector: FloatArray) -> float:
    """Return the root mean square of the scores of parameters, of shape (Q,), by second moments of shape (Q, Q)."""
    return math.sqrt(max(float(vector @ metric @ vector), 0.0))


def _directions(metric: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return directions, as columns, whose scores have mean squares 1 and mean products 0, and the inverse of these.

    A direction without scores is in the unit of its parameters.
    """
    squares = np.diag(metric)
    units = 1 / np.sqrt(np.where(squares > 0, squares, 1.0))
    sizes, vectors = np.linalg.eigh(metric * np.multiply.outer(units, units))
    roots = np.sqrt(np.where(sizes > _ROUNDING * sizes[-1], sizes, 1.0))
    return vectors / roots * units[:, None], (vectors * roots).T / units


@dataclass(frozen=True)
class Ahead:
    """What a solver will ask of records: those that are read in order tell it while they are checked.

    Attributes
    ----------
    strides : callable
        From the number of records to the strides that `Records.read_ahead` will be asked for.
    sums : callable, optional
        What `Records.summed_over_parts` will be asked for.
    """

    strides: Callable[[int], Iterable[int]] = lambda _: ()
    sums: "Callable[[Records], tuple[Any, ...]] | None" = None


class _LookAhead:
    """What takes it from blocks that were checked, one after another."""

    def __init__(self, ahead: Ahead, correction: Correction, count: int, weights: FloatArray) -> None:
        self._ahead, self._correction, self._weights = ahead, correction, weights
        self._strides = _strides_ahead(count, ahead.strides(count))
        self._some = Gathered([spread(count, stride) for stride in self._strides], count)
        self._sums: tuple[Any, ...] | None = None

    def __call__(self, start: int, block: FloatArray, target: FloatArray) -> None:
        """Look at a block, whose first row is the row `start` of all."""
        self._some.take(start, (block, target))
        if self._ahead.sums is not None:
            part = Records(self._correction, block, target, self._weights[start : start + len(block)])
            found = self._ahead.sums(part)
            self._sums = found if self._sums is None else tuple(map(operator.add, self._sums, found))

    def tell(self, records: "Records") -> None:
        """Leave with all records what was found."""
        if records.all_have_weight and self._some.found is not None:
            asked = (_asked(records.every(stride)) for stride in self._strides)
            records.seen["ahead"] = records.matrix, dict(zip(asked, self._some.found, strict=True))
        if self._sums is not None:
            of = records.correction, records.matrix, records.target, records.weights
            records.seen["summed"] = self._ahead.sums, *of, self._sums


@dataclass(frozen=True)
class Derivatives:
    """Mean loss and derivatives at one theta."""

    loss: float  # The mean loss.
    gradient: FloatArray  # Of shape (Q,): the mean gradient.
    hessian: FloatArray  # Of shape (Q, Q): the mean Hessian.
    # Of shape (Q, Q) or (0, 0): the sum of outer products of the weighted gradients, over the sum of the weights.
    meat: FloatArray


class Journal(Protocol):
    """What remembers the passes of a run, so that another process need not repeat them."""

    def of(self, asked: tuple[Any, ...], compute: Callable[[], Any]) -> Any:
        """Return what was computed before where the same was asked, or what is computed now."""


@dataclass(frozen=True)
class Records:
    """Checked records under a correction.

    Attributes
    ----------
    correction : Correction
        The loss as it is corrected for them.
    matrix : array of shape (n, p), float64, or Rows
        Columns in the release's order, codes in columns of categories.
    target : array of shape (n,), float64, or Rows
        Values of the target.
    weights : array of shape (n,) or (0,), float64
        The weights; empty where all records weigh the same.
    scales : array of shape (n, p), float64, or None
        Standard deviations of the records' own noise.
    journal : Journal or None
        What remembers passes over these records.
    watched : callable, optional
        Is told how many records a pass has read.
    seen : dict
        What passes saw of the columns, by name: the same under another correction.
    completes : bool
        Whether Hessians have a curvature where all scores move by one number, of which the loss knows nothing; see
        `symdebias.losses.shifts`.
    lowered_by : float
        What `target` is less than the targets that were given.
    """

    correction: Correction
    matrix: FloatArray | Rows
    target: FloatArray | Rows
    weights: FloatArray
    scales: FloatArray | None = None
    journal: Journal | None = field(default=None, repr=False, compare=False)
    watched: Callable[[int], Any] | None = field(default=None, repr=False, compare=False)
    seen: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)
    completes: bool = False
    lowered_by: float = 0.0

    @classmethod
    def of(
        cls,
        correction: Correction,
        X: Any,
        y: Any,
        *,
        sample_weight: Any = None,
        noise_scale: Any = None,
        check_finite: bool = True,
        by_blocks: bool = False,
        ahead: "Ahead | None" = None,
    ) -> "Records":
        """Return records that a user gave, checked.

        Parameters
        ----------
        correction : Correction
            Of the width of X; `per_record` where `noise_scale` is given.
        X : array of shape (n, p) or table
            The (noised) records.
        y : array of shape (n,)
            The (noised) targets.
        sample_weight : array of shape (n,), optional
            Non-negative weights with a positive sum.
        noise_scale : array of shape (n,) or (n, p), optional
            Standard deviations of the records' own noise; see `CorrectedLoss.loss`.
        check_finite : bool
            False leaves NaN and infinity in X to a caller that finds them in its own pass.
        by_blocks : bool
            Whether the caller does with `Rows`: what would have to be copied as a whole (a long array of another type
            or layout, a source that is read by blocks) is then read anew in every pass.
        ahead : Ahead, optional
            What will be asked of the records; by default nothing but what all fits do.

        Raises
        ------
        ValueError, TypeError
            The data do not fit; the message names the row and column.
        """
        check_same_index(X, y, sample_weight=sample_weight, noise_scale=noise_scale)
        matrix: FloatArray | Rows
        target: FloatArray | Rows

        def is_made() -> bool:
            return has_numbers(X) and X.size > SMALL_TABLE and correction.makes_rows(noise_scale is not None)

        look, weights = None, None
        if by_blocks and has_rows(X) and (is_long(X) or is_long(y) or is_made()):
            if not (has_any_row(X) and has_any_row(y)):
                weights = np.zeros(0) if sample_weight is None else weights_array(sample_weight, rows=len(X))
                look = _LookAhead(ahead or Ahead(), correction, len(X), weights)
            matrix, target = in_blocks(correction, X, y, look)
        elif by_blocks and is_table(X) and number_of_rows(X) * correction.columns > SMALL_TABLE:
            matrix, target = of_table(correction, X, y, check_finite=check_finite)
        else:
            if by_blocks and isinstance(y, Rows):
                y = y[:]
            matrix, target = correction.checked_records(X, y, check_finite=check_finite)
        if weights is None:
            weights = np.zeros(0) if sample_weight is None else weights_array(sample_weight, rows=len(matrix))
        found = cls(correction, matrix, target, weights, correction.checked_scales(noise_scale, len(matrix)))
        if look is not None:
            look.tell(found)
        return found

    def require_finite(self) -> None:
        """Raise ValueError where columns have NaN or infinity, or values too large to be squared, naming the place."""
        # Rows that are read by blocks were looked at for NaN and infinity.
        if not isinstance(self.matrix, Rows):
            features_array(self.matrix)
        require_squares(self.matrix, "X")

    def under(self, correction: Correction) -> "Records":
        """Return the same records under another correction for their release."""
        found = replace(self, correction=correction, scales=self.scales if correction.per_record else None)
        # Some of them that were taken are the same ones.
        for name, kept in self._samples.items():
            found._samples[name] = None if kept is None else kept.under(correction)
        return found

    @functools.cached_property
    def encoded(self) -> tuple[FloatArray | Rows, FloatArray | Rows]:
        """Columns and target as kernels take them, far records of weight 0 like the first that has some."""
        if self.present in (0, len(self)):
            return self._encoded
        matrix, target = without_far(self._encoded, self.weights)
        return matrix, target

    @property
    def _encoded(self) -> tuple[FloatArray | Rows, FloatArray | Rows]:
        if not isinstance(self.matrix, Rows) and not isinstance(self.target, Rows):
            return self.correction.encode(self.matrix, self.target, self.scales)

        first = self.matrix[:1]
        if self.correction.encode(first, self.target[:1], None if self.scales is None else self.scales[:1])[0] is first:
            # Columns are taken as they are, and read by themselves.
            if not self.correction.program.codes:
                return self.matrix, self.target
            return self.matrix, Rows.made_of(self.target, self.correction.encoded_target)

        def encode(rows: Any) -> tuple[FloatArray, FloatArray]:
            scales = None if self.scales is None else self.scales[rows]
            return self.correction.encode(self.matrix[rows], self.target[rows], scales)

        return paired(len(self), encode, has_any_row=self.has_any_row)

    @property
    def columns(self) -> int:
        """The number of columns of `matrix`."""
        return self.correction.columns

    def __len__(self) -> int:
        return len(self.matrix)

    @property
    def total(self) -> float:
        """The number of records, or the sum of their weights."""
        return float(self.weights.sum()) if len(self.weights) else float(len(self.matrix))

    @property
    def effective(self) -> float:
        """The sample size: with weights (sum w)^2/(sum w^2)."""
        return self.total**2 / float(self.weights @ self.weights) if len(self.weights) else self.total

    @property
    def relative_weights(self) -> FloatArray:
        """The weights over their mean, shape (n, 1), or a single 1 where all weigh the same."""
        if not len(self.weights):
            return np.ones((1, 1))
        return np.asarray(self.weights / self.weights.mean() if self.weights.any() else self.weights)[:, None]

    @property
    def shares(self) -> FloatArray:
        """The weights over their sum, shape (n,)."""
        own, count = self.weights, len(self)
        return own / own.sum() if len(own) and own.any() else np.full(count, 1 / count)

    @functools.cached_property
    def present(self) -> int:
        """The number of records with weight: those of weight 0 say nothing, and no sample or mean counts them."""
        return int(np.count_nonzero(self.weights)) if len(self.weights) else len(self)

    @property
    def _present_places(self) -> IntegerArray:
        """The places of the records with weight."""
        return np.flatnonzero(self.weights)

    @property
    def present_scales(self) -> FloatArray | None:
        """The standard deviations of the own noise of the records with weight, if they have any."""
        if self.scales is None or isinstance(self.scales, Rows) or self.present in (0, len(self)):
            return self.scales
        return self.scales[self._present_places]

    @functools.cached_property
    def limits(self) -> Limits:
        """Where the correction exists for all of these records, by the largest noise of any in each column."""
        declared = self.correction.limits
        if self.scales is None or declared.is_unlimited:
            return declared
        return self.correction.limits_of(np.max(self.over_parts(_largest_scales), axis=0))

    @property
    def guarded_noise(self) -> FloatArray:
        """What kernels are told of the noise that hold theta against `limits`."""
        limits = self.limits
        if limits is self.correction.limits:
            return self.correction.noise
        return self.correction.program.layout.vector(limits.derivation.constants)  # type: ignore[no-any-return]

    def places_of(self, numbers: Any) -> Any:
        """Return the places among all records of some of those with weight, by a slice or their numbers among these."""
        return numbers if self.present in (0, len(self)) else self._present_places[numbers]

    def over_parts(self, work: Callable[["Records"], Any]) -> list[Any]:
        """Return what a function says of each part of the records that lies in a place of its own, in order.

        Records in memory are one part. Every pass over all of them goes through here, through `summed_over_parts` or
        through one of the means, so that records that lie elsewhere need not be fetched.
        """
        return [work(self)]

    def summed_over_parts(self, work: Callable[["Records"], tuple[Any, ...]]) -> tuple[Any, ...]:
        """Return the sums over the same parts of what a function says of each: a tuple of numbers and arrays."""
        asked, *of, sums = self.seen.get("summed", (None, None))
        if asked is work and all(map(operator.is_, of, (self.correction, self.matrix, self.target, self.weights))):
            return tuple(sums)
        return work(self)

    @property
    def is_noised(self) -> bool:
        """Whether the release has noised anything."""
        release = self.correction.release
        return release.target is not None or any(True for _ in release.noises(self.columns))

    @property
    def has_noisy_curvature(self) -> bool:
        """Whether noise that was undone stands in the curvature, which may then have minima that the noise has made.

        Noise of the target alone shifts the gradient and nothing else where the curvature has no target in it: what is
        convex stays so.
        """
        release, loss = self.correction.release, self.correction.loss
        if any(True for _ in release.noises(self.columns)):
            return True
        return release.target is not None and has_target_in_curvature(loss)

    @property
    def arrays(self) -> tuple[FloatArray, FloatArray]:
        """`matrix` and `target` of records that were not asked for by blocks."""
        assert not isinstance(self.matrix, Rows)
        assert not isinstance(self.target, Rows)
        return self.matrix, self.target

    @property
    def has_any_row(self) -> bool:
        """Whether single records are at hand; not where they are read from a beginning to an end."""
        return has_any_row(self.matrix) and has_any_row(self.target)

    def lowered(self, by: float) -> Self:
        """Return the same records with targets less a number, in every pass."""
        if isinstance(self.target, Rows):
            target: FloatArray | Rows = Rows.made_of(self.target, lambda rows: rows - by)
        else:
            target = self.target - by
        seen = dict(self.seen)
        if "ahead" in seen:
            source, ahead = seen["ahead"]
            seen["ahead"] = source, {asked: (matrix, own - by) for asked, (matrix, own) in ahead.items()}
        return replace(self, target=target, lowered_by=self.lowered_by + by, seen=seen)

    def noisier(self, columns: slice, factor: float) -> Self:
        """Return the same records with noise scales of their own in some columns times a factor."""
        assert self.scales is not None
        scales = np.array(self.scales[:])
        scales[:, columns] *= factor
        return replace(self, scales=scales)

    def as_given(self, theta: FloatArray) -> FloatArray:
        """Return parameters for the targets that were given: an intercept, the last, takes up what they are more."""
        if not self.lowered_by:
            return theta
        found = theta.copy()
        found[-1] += self.lowered_by
        return found

    def as_lowered(self, theta: FloatArray) -> FloatArray:
        """Return parameters for these targets from those for the targets that were given."""
        if not self.lowered_by:
            return theta
        found = theta.copy()
        found[-1] -= self.lowered_by
        return found

    def completing(self, penalty: FloatArray) -> "Records":
        """Return these records with Hessians that are completed where the loss and a penalty leave them singular.

        Those are losses of several scores that know differences of them alone, where a parameter has no penalty.
        """
        wanted = not penalty.all() and ignores_shifts(self.correction.loss)
        return replace(self, completes=True) if wanted else self

    def thinned(self, stride: int) -> "Records":
        """Return one in so many of the records with weight; all of them for a stride below 2.

        Records that are read anew in each pass stay where they are for a stride below 2, those of weight 0 included.
        """
        is_read = isinstance(self.matrix, Rows) or isinstance(self.target, Rows)
        is_all = stride <= 1 and (is_read or self.present == len(self))
        return self if is_all else self.taken(self.every(stride))

    def spaced(self, stride: int) -> "Records":
        """Return the records with weight of `thinned`, read anew in each pass where they can."""
        if stride <= 1 and self.has_any_row and self.present == len(self):
            return self
        if stride <= 1 or not self.has_any_row or self.scales is not None:
            return self.taken(self.every(stride))
        is_plain = not len(self.weights) and are_in_runs(len(self), stride)
        places: Any = Runs(len(self), stride) if is_plain else self.every(stride)
        matrix, target = (
            (part if isinstance(part, Rows) else Rows.of_array(part)).only(places)
            for part in (self.matrix, self.target)
        )
        weights = np.ascontiguousarray(self.weights[places]) if len(self.weights) else self.weights
        return replace(self, matrix=matrix, target=target, weights=weights, journal=None, seen={})

    def every(self, stride: int) -> Any:
        """Return the places of one in so many of the records with weight: those of `spread` where all have some.

        Of a table in which every third record has no weight, a stride of 12 would take none that has.
        """
        return self.places_of(spread(self.present or len(self), stride))

    def taken(self, rows: Any) -> "Records":
        """Return some records, by a slice or their numbers."""

        def read() -> tuple[FloatArray, ...]:
            if not self.has_any_row:
                return read_together([self.matrix, self.target], [rows])[0]
            return tuple(np.ascontiguousarray(rows_of(part, rows)) for part in (self.matrix, self.target))

        ahead = self._ahead(rows)
        if ahead is not None:
            matrix, target = ahead
        elif isinstance(self.matrix, Rows) or isinstance(self.target, Rows):
            matrix, target = read() if self.journal is None else self.remembered("taken", read, _asked(rows))
        else:
            matrix, target = read()
        return self.those(rows, matrix, target)

    def those(self, rows: Any, matrix: FloatArray, target: FloatArray) -> "Records":
        """Return some records that were read already, by a slice or their numbers, with their columns and targets."""
        return replace(
            self,
            matrix=matrix,
            target=target,
            weights=np.ascontiguousarray(self.weights[rows]) if len(self.weights) else self.weights,
            scales=None if self.scales is None else np.ascontiguousarray(self.scales[rows]),
            journal=None,
            seen={},
        )

    def read_ahead(self, *strides: int) -> None:
        """Read the records of `thinned`, `tested` and `looked_at` by one pass, where each would take one of its own.

        Few are kept until these records are gone, many until they are asked for.

        Parameters
        ----------
        *strides : int
            The strides that will be asked for.
        """
        wanted = _strides_ahead(self.present, strides)
        if wanted and not self.has_any_row and self.all_have_weight:
            places = [self.every(stride) for stride in wanted]
            source, known = self.seen.get("ahead", (None, {}))
            if source is self.matrix and all(_asked(rows) in known for rows in places):
                return
            found = self._read_together(places)
            self.seen["ahead"] = self.matrix, dict(zip(map(_asked, places), found, strict=True))

    @property
    def all_have_weight(self) -> bool:
        """Whether no record has the weight 0."""
        return not isinstance(self.weights, np.ndarray) or self.present == len(self)

    def _read_together(self, wanted: list[slice | IntegerArray]) -> list[tuple[FloatArray, ...]]:
        """Return the arrays of some records, several times, by one pass."""

        def read() -> tuple[FloatArray, ...]:
            return tuple(itertools.chain.from_iterable(read_together([self.matrix, self.target], wanted)))

        arrays = self.remembered("taken ahead", read, *(_asked(rows) for rows in wanted))
        return [tuple(arrays[place : place + 2]) for place in range(0, len(arrays), 2)]

    def _ahead(self, rows: Any) -> tuple[FloatArray, ...] | None:
        """Return what was read ahead of some rows, if it was; many are asked for once, and not kept."""
        source, ahead = self.seen.get("ahead", (None, {}))
        if source is not self.matrix or (asked := _asked(rows)) not in ahead:
            return None
        found: tuple[FloatArray, ...] = ahead[asked]
        if len(found[1]) > 2 * TESTED_RECORDS:
            del ahead[asked]
        return found

    def remembered(self, what: str, compute: Callable[[], Any], *asked: Any) -> Any:
        """Return what a pass comes to, or came to before where there is a journal.

        Parameters
        ----------
        what : str
            The name of the pass.
        compute : callable
            Returns a number, an array or a tuple of such.
        *asked
            What the pass is asked besides: text, bytes and numbers.
        """
        lowered = (self.lowered_by,) if self.lowered_by else ()
        return compute() if self.journal is None else self.journal.of((what, *asked, *lowered), compute)

    def _passed(self, what: str, theta: FloatArray, compute: Callable[[], Any]) -> Any:
        """Return what a pass of this correction comes to at theta, or came to before."""
        if self.journal is None:
            found = compute()
        else:
            key, noise = self.correction.kernels.source("loss").key, self.correction.noise.tobytes()
            found = self.remembered(what, compute, key, noise, theta.tobytes())
        if self.watched is not None:
            self.watched(len(self))
        return found

    def derivatives(self) -> Callable[..., Derivatives]:
        """Return a function of theta that gives mean loss, gradient and Hessian in one pass over the records.

        With a second argument True it gives the mean outer product of the records' gradients as well.

        Raises
        ------
        NoExactCorrectionError
            There are too many columns of categories to sum over their combinations, or too many second derivatives, or
            these have point masses.
        """
        program = self.correction.program
        if isinstance(program, ScoreProgram) and program.has_lookups and not program.has_hessian:
            # These looked-up factors have no second derivatives: sum over the categories instead.
            return self.under(self.correction.enumerated)._derivatives()
        return self._derivatives()

    def _derivatives(self) -> Callable[..., Derivatives]:
        correction = self.correction
        if correction.program.has_point_masses:
            raise NoExactCorrectionError(
                f"the Hessian of {correction.loss.expression} is not written out: its slope has a corner or a jump, "
                "where second derivatives have point masses. Difference mean_gradient, as m_estimate does."
            )
        if isinstance(correction.program, ScoreProgram) and not correction.program.has_hessian:
            raise NoExactCorrectionError(
                f"the Hessian of {correction.loss.expression} under this noise has too many terms to be written out. "
                "Difference mean_gradient, as m_estimate does."
            )
        kernel = correction.kernels.mean_derivatives(weighted=bool(len(self.weights)))

        def derivatives(theta: FloatArray, meat: bool = False) -> Derivatives:
            name = "derivatives with meat" if meat else "derivatives"
            return Derivatives(*self._passed(name, theta, lambda: kernel(*self._arguments(theta), meat=meat)))

        return derivatives

    def derivatives_or_differences(
        self, metric: FloatArray, *, roughly: bool = False
    ) -> tuple[Callable[..., Derivatives], str]:
        """Return mean loss, gradient and Hessian as a function of theta, and how the Hessian is found.

        Parameters
        ----------
        metric : array of shape (Q, Q), float64
            The second moments of released records, for the steps of differences: those of a part of the records are
            those of all.
        roughly : bool
            Whether a Hessian by differences, two passes for each parameter, may be that of a part of the records.

        Notes
        -----
        The function is that of `derivatives`; where the Hessian is too long to be written out, or has point masses, as
        that of a squared maximum of weight zero, it comes from central differences of the gradient.
        """
        if self.correction.program.has_point_masses:
            return self._by_differences(metric, roughly=roughly), "central differences"
        try:
            return self._completed(self.derivatives()), "exact"
        except NoExactCorrectionError:
            return self._by_differences(metric, roughly=roughly), "central differences"

    def _completed(self, found: Callable[..., Derivatives]) -> Callable[..., Derivatives]:
        if not self.completes:
            return found
        scores = len(self.correction.loss.scores)

        def derivatives(theta: FloatArray, meat: bool = False) -> Derivatives:
            plain = found(theta, meat)
            return Derivatives(plain.loss, plain.gradient, completed(plain.hessian, scores), plain.meat)

        return derivatives

    def _by_differences(self, metric: FloatArray, *, roughly: bool) -> Callable[..., Derivatives]:
        part = self.looked_at if roughly else self

        def derivatives(theta: FloatArray, meat: bool = False) -> Derivatives:
            value, gradient = self.mean_loss(theta), self.mean_gradient(theta)
            # The cube root of the rounding error balances it with the error of the differences.
            hessian = part.differenced(theta, metric, 6e-6 * part.step(theta, metric))
            outer = self.meat(theta, np.zeros(len(theta))) if meat else np.zeros((0, 0))
            return Derivatives(value, gradient, hessian, outer)

        return derivatives

    def freed_metric(self, metric: FloatArray) -> FloatArray:
        """Return second moments of the directions that theta may go in: all, where no parameter is held."""
        return metric

    def step(self, theta: FloatArray, metric: FloatArray) -> float:
        """Return a change of scores, root mean square, that is small beside what bends the loss, but for a factor.

        It is 1 for scores about 0. For a loss of the residual it is in units of the residuals, and for a free-form
        loss, whose lengths are roots of changes of the loss, in those of likelihoods, of which gradients have the mean
        squares of the curvatures; the cube root balances the error of differences with the rounding of larger scores.

        Parameters
        ----------
        theta : array of shape (Q,), float64
            The parameters.
        metric : array of shape (Q, Q), float64
            The second moments of released records.
        """
        correction, size, unit = self.correction, size_by(metric, theta), 1.0
        if correction.release.coupling is None and is_residual_loss(correction.loss):
            some = self.looked_at
            target = np.asarray(some.target[:])
            residuals = np.abs(some.correction.design.estimated_rows(np.asarray(some.matrix[:])) @ theta - target)
            largest = max(size, float(np.abs(target).max()))
            unit = max(float(np.median(residuals)), _LEAST_RESIDUAL * largest) or 1.0
        elif not correction.loss.scores:
            some = self.looked_at
            with np.errstate(all="ignore"):
                gradients = some.gradients(theta, slice(None))
                squares = np.mean(some.relative_weights * gradients**2, axis=0) / np.diag(metric)
            found = float(np.sqrt(np.median(squares)))
            # What is not finite is found by whoever asks.
            unit = (max(found, _LEAST_RESIDUAL * size) or 1.0) if math.isfinite(found) else 1.0
        return float(unit * (1 + size / unit) ** (1 / 3))

    def differenced(self, theta: FloatArray, metric: FloatArray, step: float, *, forward: bool = False) -> FloatArray:
        """Return the mean Hessian at theta by differences of the mean gradient.

        They are central; forward ones take half as many gradients, and err by about a step, relative, not its square.

        Parameters
        ----------
        theta : array of shape (Q,), float64
            The parameters.
        metric : array of shape (Q, Q), float64
            The second moments of released records. The directions of the steps are apart by it.
        step : float
            By how much a step changes the score, root mean square.
        forward : bool
            Whether differences are forward ones.

        Notes
        -----
        Of columns far from 0 a step in a single parameter that moves the others' scores apart would move all scores by
        much more, as an intercept of minus its mean undoes: what is left of the differences is then rounding.
        """
        directions, inverse = _directions(metric)
        moves = np.ascontiguousarray(step * directions.T)
        if forward:
            gradients = self._mean_gradients(theta + np.vstack([moves, np.zeros_like(theta)]))
            found = (gradients[:-1] - gradients[-1]) / step
        else:
            found = (self._mean_gradients(theta + moves) - self._mean_gradients(theta - moves)) / (2 * step)
        # Along the directions, where curvatures are of one size.
        turned = found @ directions
        found = inverse.T @ ((turned + turned.T) / 2) @ inverse
        return completed(found, len(self.correction.loss.scores)) if self.completes else np.asarray(found)

    def hessians(self, theta: FloatArray) -> FloatArray:
        """Return the Hessian of each record at theta, shape (n, Q, Q), unweighted: the mean over it alone.

        Raises
        ------
        NoExactCorrectionError
            As for `derivatives`.
        """
        program = self.correction.program
        if isinstance(program, ScoreProgram) and program.has_lookups and not program.has_hessian:
            return self.under(self.correction.enumerated).hessians(theta)
        self._derivatives()
        kernel = self.correction.kernels.mean_derivatives(weighted=False)
        matrix, target = (np.ascontiguousarray(part[:]) for part in self.encoded)
        out, unweighted, noise = np.empty((len(matrix), theta.size, theta.size)), np.empty(0), self.correction.noise
        for row in range(len(matrix)):
            out[row] = kernel(theta, matrix[row : row + 1], target[row : row + 1], unweighted, 1.0, noise, meat=False)[
                2
            ]
        return out

    def losses(self, theta: FloatArray) -> FloatArray:
        """Return the corrected losses of the records at theta, shape (n,), unweighted."""
        out = np.empty(len(self.matrix))
        matrix, target = self.encoded

        def work(rows: slice) -> None:
            self.correction.kernels.loss(theta, matrix[rows], target[rows], self.correction.noise, out[rows])

        over_chunks(len(out), work, chunk_of(matrix))
        return out

    def mean_loss(self, theta: FloatArray) -> float:
        """Return the mean loss."""
        kernel = self.correction.kernels.mean_loss(weighted=bool(len(self.weights)))
        found: float = self._passed("loss", theta, lambda: summed(kernel, self._arguments(theta), ())[0])
        return found

    def mean_gradient(self, theta: FloatArray) -> FloatArray:
        """Return the mean gradient."""
        kernel, shapes = self.correction.kernels.mean_gradient(weighted=bool(len(self.weights))), ((len(theta),),)
        found: FloatArray = self._passed(
            "gradient", theta, lambda: summed(kernel, self._arguments(theta), shapes)[1][0]
        )
        return found

    def _mean_gradients(self, thetas: FloatArray) -> FloatArray:
        """Return the mean gradients at the rows of an array."""
        matrix, target = self.matrix, self.target
        is_small = isinstance(matrix, np.ndarray) and isinstance(target, np.ndarray) and len(matrix) <= CHUNK
        if not is_small or self.journal is not None or self.watched is not None:
            return np.array([self.mean_gradient(theta) for theta in thetas])
        _, *others = self._arguments(thetas[0])
        return self.correction.kernels.mean_gradients(thetas, *others)

    def _arguments(self, theta: FloatArray) -> tuple[Any, ...]:
        return theta, *self.encoded, self.weights, self.total, self.correction.noise

    @functools.cached_property
    def has_slopes(self) -> bool:
        """Whether the pass of `derivatives` leaves the gradients of records, or slopes that these are made of."""
        program = self.correction.program
        if not isinstance(program, ScoreProgram) or not program.has_hessian or program.has_point_masses:
            return False
        return self.correction.kernels.mean_derivatives(weighted=bool(len(self.weights))).leaves_slopes

    @property
    def passes_gradients(self) -> bool:
        """Whether the pass of `derivatives` rests on that of `mean_gradient`, which is then compiled as well."""
        return self.correction.kernels.by_products

    def gradients(self, theta: FloatArray, rows: Any, *, by_derivatives: bool = False) -> FloatArray:
        """Return the corrected gradients of some records at theta, shape (m, Q), unweighted.

        Parameters
        ----------
        theta : array of shape (Q,), float64
            The parameters.
        rows : slice or array of int
            The records.
        by_derivatives : bool
            Whether the pass of `derivatives` is at hand. Where it leaves the slopes of records it is several times as
            fast: it goes by blocks of records, the kernel of gradients by single ones.
        """
        matrix, target = (np.ascontiguousarray(part[rows]) for part in self.encoded)
        if by_derivatives and self.has_slopes:
            kernel = self.correction.kernels.mean_derivatives(weighted=bool(len(self.weights)))
            weights = np.ones(len(matrix)) if len(self.weights) else self.weights
            return kernel.gradients(theta.ravel(), matrix, target, weights, self.correction.noise)
        out = np.empty((len(matrix), theta.size))
        self.correction.kernels.gradient(theta.ravel(), matrix, target, self.correction.noise, out)
        return out

    def plain_gradients(self, theta: FloatArray) -> FloatArray:
        """Return the gradients of all records, as `gradients` does, of a loss that is looked at a few times only.

        Where it stands as it is, without noise or categories in it, nothing is compiled.
        """
        if not self.correction.is_plain:
            return self.gradients(theta, slice(None))
        matrix, target = (np.ascontiguousarray(part[:]) for part in self.encoded)
        return plain_gradients(self.correction.program, theta.ravel(), matrix, target)

    def factored_gradients(
        self, theta: FloatArray, *, by_derivatives: bool = False
    ) -> tuple[FloatArray, FloatArray, FloatArray] | None:
        """Return the gradients of all records at theta, unweighted, as a x + B'J with x their `design_rows`.

        Parameters
        ----------
        theta : array of shape (Q,), float64
            The parameters.
        by_derivatives : bool
            As for `gradients`.

        Returns
        -------
        a : array of shape (n,), float64
            The slopes in the score.
        B : array of shape (k, n), float64
            Those in the statistics of the noise.
        J : array of shape (k, Q), float64
            The gradients of the statistics.

        None stands for all three for several scores, and where single slopes are not at hand.
        """
        program = self.correction.program
        if not isinstance(program, ScoreProgram) or len(program.scores) != 1:
            return None
        matrix, target = (np.ascontiguousarray(part[:]) for part in self.encoded)
        if self.correction.is_plain:
            slopes = plain_slopes(program, theta.ravel(), matrix, target)[0]
            return slopes, np.zeros((0, len(slopes))), np.zeros((0, theta.size))
        if not (by_derivatives and self.has_slopes):
            if not self.correction.kernels.leaves_slopes:
                return None
            found, jacobian = self.correction.kernels.gradient_slopes(
                theta.ravel(), matrix, target, self.correction.noise
            )
            return found[0], found[1:], jacobian
        kernel = self.correction.kernels.mean_derivatives(weighted=bool(len(self.weights)))
        if not kernel.leaves_factors:
            return None
        weights = np.ones(len(matrix)) if len(self.weights) else self.weights
        found, jacobian = kernel.slopes(theta.ravel(), matrix, target, weights, self.correction.noise)
        return found[0], found[1:], jacobian

    def design_rows(self) -> FloatArray:
        """Return what stands beside the parameters of one score, shape (n, Q), for all records."""
        program = self.correction.program
        assert isinstance(program, ScoreProgram)
        return program.columns.design_rows(np.asarray(self.encoded[0][:]))

    def meat(self, theta: FloatArray, mean: FloatArray) -> FloatArray:
        """Return the sum of outer products of the weighted gradients less a mean, over the total.

        Parameters
        ----------
        theta : array of shape (Q,), float64
            The parameters.
        mean : array of shape (Q,), float64
            What is taken out of each gradient.
        """

        def squares(rows: slice) -> FloatArray:
            gradients = self.centred(theta, mean, rows)
            return np.asarray(gradients.T @ gradients)

        def passed() -> FloatArray:
            whole: FloatArray = sum(over_chunks(len(self.matrix), squares, chunk_of(self.matrix)), np.zeros(()))
            return whole / self.total

        found: FloatArray = self._passed("meat", np.concatenate([theta, mean]), passed)
        return found

    def cluster_masses(self, codes: Any) -> FloatArray:
        """Return the numbers of records of clusters, or the sums of their weights, shape (G,)."""
        return np.bincount(codes, self.weights if len(self.weights) else None).astype(np.float64)

    def cluster_curvatures(
        self, theta: FloatArray, mean: FloatArray, codes: Any, some: IntegerArray, metric: FloatArray
    ) -> Iterator[tuple[int, FloatArray, FloatArray]]:
        """Yield the number of records of some clusters, and sums over them of shape (Q, Q).

        They are those of the weighted Hessians, and of the outer products of the weighted gradients less a mean;
        `metric` is as for `derivatives_or_differences`.
        """
        if not len(some):
            return
        ends = np.cumsum(np.bincount(codes))
        order = np.argsort(codes, kind="stable")
        for cluster in some:
            own = self.taken(order[ends[cluster - 1] if cluster else 0 : ends[cluster]])
            if own.total == 0:
                # Where these records are a part of all, it may have its weight in others.
                yield len(own), np.zeros((len(theta), len(theta))), np.zeros((len(theta), len(theta)))
                continue
            found = own.derivatives_or_differences(metric)[0](theta, meat=not mean.any())
            meat = own.meat(theta, mean) if mean.any() else found.meat
            yield len(own), own.total * found.hessian, own.total * meat

    def cluster_sums(self, theta: FloatArray, mean: FloatArray, codes: Any) -> FloatArray:
        """Return the sums over clusters of the weighted gradients less a mean, shape (G, Q).

        Parameters
        ----------
        theta, mean : array of shape (Q,), float64
            As for `meat`.
        codes : array of shape (n,), int64
            Clusters 0 to G - 1.
        """
        sums = np.zeros((int(codes.max()) + 1, len(mean)))
        for start in range(0, len(self.matrix), CHUNK):
            rows = slice(start, start + CHUNK)
            for place, column in enumerate(self.centred(theta, mean, rows).T):
                sums[:, place] += np.bincount(codes[rows], column, minlength=len(sums))
        return sums

    def cluster_totals(self, of: Callable[["Records", slice], FloatArray], codes: Any) -> FloatArray:
        """Return the sums over clusters of a number of each record, shape (G,), as a function says it of some rows."""
        totals = np.zeros(int(codes.max()) + 1)
        for start in range(0, len(self.matrix), CHUNK):
            rows = slice(start, start + CHUNK)
            totals += np.bincount(codes[rows], of(self, rows), minlength=len(totals))
        return totals

    def centred(self, theta: FloatArray, mean: FloatArray, rows: slice) -> FloatArray:
        """Return the weighted gradients less a mean of some records, shape (m, Q)."""
        gradients = self.gradients(theta, rows, by_derivatives=True)
        gradients -= mean
        if len(self.weights):
            gradients *= self.weights[rows, None]
        return gradients

    def turned_gradients(self, theta: FloatArray, mean: FloatArray, turn: FloatArray) -> FloatArray:
        """Return the weighted gradients less a mean of all records times a matrix, shape (Q, n).

        Parameters
        ----------
        theta, mean : array of shape (Q,), float64
            As for `meat`.
        turn : array of shape (Q, Q), float64
            What each gradient is multiplied with, from the right.
        """
        factored = self.factored_gradients(theta, by_derivatives=True)
        if factored is None:
            return np.asarray(turn.T @ self.centred(theta, mean, slice(None)).T)
        # What belongs to a parameter stands side by side: loops over records are long ones.
        slopes, bends, jacobian = factored
        rows = self.design_rows()
        parts = np.empty((rows.shape[1] + len(bends), len(slopes)))
        np.multiply(rows.T, slopes, out=parts[: rows.shape[1]])
        parts[rows.shape[1] :] = bends
        found: FloatArray = np.concatenate([turn, jacobian @ turn]).T @ parts
        del rows, parts
        found -= (mean @ turn)[:, None]
        if len(self.weights):
            found *= self.weights
        return found

    @property
    def tested(self) -> "Records":
        """The records that a fit is tested on."""
        return self._kept_some("tested", lambda: self._some(TESTED_RECORDS))

    @property
    def looked_at(self) -> "Records":
        """The records whose curvatures are looked at first."""
        near, far = (stride_to(count, self.present) for count in (TESTED_RECORDS, LOOKED_AT))
        # They are among the tested ones, which are in memory, where the strides say so.
        return self._kept_some(
            "looked at", lambda: self._some(LOOKED_AT) if far % near else self.tested.thinned(far // near)
        )

    @functools.cached_property
    def _samples(self) -> "dict[str, Records | None]":
        return {}

    def _kept_some(self, name: str, take: Callable[[], "Records"]) -> "Records":
        """Return some records, which are taken once.

        Records that hold themselves would stay until garbage is collected: None stands for all.
        """
        if name not in self._samples:
            found = take()
            self._samples[name] = None if found is self else found
        kept = self._samples[name]
        return self if kept is None else kept

    def _some(self, count: int) -> "Records":
        """Return about so many records, in memory."""
        stride = stride_to(count, self.present)
        is_read = isinstance(self.matrix, Rows) or isinstance(self.target, Rows)
        return self.taken(self.every(stride)) if is_read else self.thinned(stride)


def _largest_scales(part: Records) -> FloatArray:
    """Return the largest standard deviation of own noise in each column, of the records with weight."""
    scales = part.present_scales
    assert scales is not None
    if not part.present:
        return np.zeros(scales.shape[1])
    each = scales.over_blocks(_largest) if isinstance(scales, Rows) else [_largest(scales)]
    return np.asarray(np.max(each, axis=0))


def _largest(rows: FloatArray) -> FloatArray:
    return np.asarray(rows.max(axis=0))
