"""Records whose score has a known term: a column without noise whose parameter is held at 1.

The score of a record is theta'x + o. Its offset o has no noise, so that the correction for a column more, of parameter
1, is the correction of the loss at theta'x + o, for every loss of one score and every noise of its columns and target:
surrogates are designed for the scores with their offsets. The parameter that is held has no gradient, and no curvature
with another.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from symdebias._arrays import FloatArray, parameter_bounds
from symdebias._rows import Rows, has_any_row, paired
from symdebias.corrected import CorrectedLoss
from symdebias.correction import Correction
from symdebias.inference import Inference
from symdebias.records import SMALL_TABLE, Derivatives, Records
from symdebias.release.known_term import with_known_term
from symdebias.solvers.moments import released_moments
from symdebias.solvers.regions import Region, region_of
from symdebias.solvers.scores import ReleasedRecords, Whole, known_scores

# Squares of scores are numbers up to here.
_FARTHEST = 1e150


class Frame:
    """What a solver asks of parameters, of which none is held."""

    place: int | None = None  # That of the parameter that is held, among all.

    def lifted(self, vector: FloatArray) -> FloatArray:
        """Return all parameters from those that are not held."""
        return vector

    def direction(self, vector: FloatArray) -> FloatArray:
        """Return a direction of all parameters from that of those that are not held."""
        return vector

    def directions(self, columns: FloatArray) -> FloatArray:
        """Return directions of all parameters, as columns, from those of the parameters that are not held."""
        return columns

    def freed(self, matrix: FloatArray) -> FloatArray:
        """Return the entries of a matrix that are those of parameters that are not held."""
        return matrix

    def whole(self, whole: Whole | None) -> Whole | None:
        """Return all records that a fit may ask for, in the metric of `metric`."""
        return whole

    def penalty(self, records: Records, l2: float) -> FloatArray:
        """Return l2 for each parameter, 0 for those without a penalty."""
        return records.correction.penalty(l2)

    def region(self, radius: float | None, bounds: Any, count: int) -> Region:
        """Return where parameters may go, with arguments as for `m_estimate`."""
        return region_of(
            None if radius is None else float(radius), None if bounds is None else self.bounds(bounds, count)
        )

    def bounds(self, bounds: Any, count: int) -> tuple[FloatArray, FloatArray]:
        """Return the user's bounds on parameters, `count` with a held one, as arrays."""
        return parameter_bounds(bounds, count)

    def start(self, records: Records, start: Any) -> FloatArray:
        """Return the user's start as parameters."""
        return _near(records.correction.flat(start)).copy()

    def metric(self, metric: FloatArray) -> FloatArray:
        """Return the second moments of design rows, those of a held parameter apart from the others."""
        return metric

    def known(self, known: ReleasedRecords | None) -> ReleasedRecords | None:
        """Return what is known of true scores, in the same metric."""
        return known

    def reported(self, vector: FloatArray) -> FloatArray:
        """Return parameters without a held one."""
        return vector

    def reported_pilot(self, told: dict[str, Any]) -> dict[str, Any]:
        """Return what a pilot tells, without a held parameter."""
        return {**told, "theta": self.reported(told["theta"])}

    def loss(self, corrected: CorrectedLoss) -> CorrectedLoss:
        """Return the loss under the release as it was given."""
        return corrected

    def told(self, corrected: CorrectedLoss, inference: Inference) -> tuple[CorrectedLoss, Inference]:
        """Return what a fit says of its loss and its accuracy, without a held parameter."""
        return corrected, inference


def _near(start: FloatArray) -> FloatArray:
    """Return where a search is to start, or say that it is too far out."""
    largest = float(np.abs(start).max())
    if not largest <= _FARTHEST:
        raise ValueError(
            f"start has an entry of size {largest:.3g}, and squares of scores overflow beyond {_FARTHEST:g}. Start "
            "nearer to 0, or give the columns in other units."
        )
    return start


@dataclass(frozen=True)
class Held(Frame):
    """What a solver asks of parameters, one of which is 1."""

    place: int = field()  # That of `Frame` is no default.
    squares: FloatArray  # Of shape (Q,): the mean squares of the columns of design rows, positive at the place.
    given: CorrectedLoss  # The loss under the release as it was given, without the column.

    def lifted(self, vector: FloatArray) -> FloatArray:
        """Return the others with a 1 in the place."""
        return np.insert(vector, self.place, 1.0)

    def direction(self, vector: FloatArray) -> FloatArray:
        """Return a direction of the others with a 0 in the place."""
        return np.insert(vector, self.place, 0.0)

    def directions(self, columns: FloatArray) -> FloatArray:
        """Return directions, as columns, of the others with a 0 in the place."""
        return np.insert(columns, self.place, 0.0, axis=0)

    def freed(self, matrix: FloatArray) -> FloatArray:
        """Return the entries of the others."""
        return np.asarray(matrix[np.ix_(self.free, self.free)])

    def whole(self, whole: Whole | None) -> Whole | None:
        """Return all records, of which what is known is in the metric of `metric`."""
        return None if whole is None else HeldWhole(whole.corrected, whole.records, self, lengths=whole.lengths)

    @classmethod
    def of(cls, plain: Records, place: int, given: CorrectedLoss) -> "Held":
        """Return the frame of records with the column, wherever they lie; other arguments are its attributes."""
        squares = np.diag(released_moments(plain)).copy()
        squares[place] = squares[place] or 1.0
        return cls(place, squares, given)

    @property
    def free(self) -> FloatArray:
        """The places of the others."""
        return np.delete(np.arange(len(self.squares)), self.place)

    def penalty(self, records: Records, l2: float) -> FloatArray:
        """Return l2 for each parameter, 0 for the one that is held."""
        penalty = records.correction.penalty(l2)
        penalty[self.place] = 0.0
        return penalty

    def region(self, radius: float | None, bounds: Any, count: int) -> Region:
        """Return where the others may go."""
        return HeldRegion(super().region(radius, bounds, count), self.place)

    def bounds(self, bounds: Any, count: int) -> tuple[FloatArray, FloatArray]:
        """Return the user's bounds on the others."""
        return parameter_bounds(bounds, count - 1)

    def start(self, records: Records, start: Any) -> FloatArray:
        """Return the user's start with a 1 in the place."""
        return self.lifted(_near(self.given.at(records.correction.features - 1).flat(start)))

    def metric(self, metric: FloatArray) -> FloatArray:
        """Return the second moments with those of the place apart from the others."""
        return self._apart(metric, float(self.squares[self.place]))

    def known(self, known: ReleasedRecords | None) -> ReleasedRecords | None:
        """Return what is known of true scores, in the same metric."""
        return None if known is None else replace(known, metric=self.metric(known.metric), _scores={})

    def reported(self, vector: FloatArray) -> FloatArray:
        """Return parameters without the one that is held."""
        return np.delete(vector, self.place)

    def loss(self, corrected: CorrectedLoss) -> CorrectedLoss:
        """Return the loss under the release as it was given."""
        return CorrectedLoss(corrected.declared, self.given.release, corrected.approach, reason=corrected.reason)

    def told(self, corrected: CorrectedLoss, inference: Inference) -> tuple[CorrectedLoss, Inference]:
        """Return the loss under the release as it was given, and the accuracy of the others."""
        covariance, bias, factors = inference.covariance, inference.bias, inference.bias_factors
        curving, levelling = inference.curving, inference.levelling
        freedom, skewness = inference.degrees_of_freedom, inference.skewness
        return self.loss(corrected), replace(
            inference,
            covariance=None if covariance is None else self.freed(covariance),
            bias=None if bias is None else self.reported(bias),
            bias_factors=None if factors is None else np.delete(factors, self.place, axis=1),
            curving=None if curving is None else np.delete(curving, self.place, axis=0),
            levelling=None if levelling is None else np.delete(levelling, self.place, axis=0),
            skewness=None if skewness is None else np.delete(skewness, self.place, axis=0),
            intercepts=None if inference.intercepts is None else np.delete(inference.intercepts, self.place),
            degrees_of_freedom=self.reported(freedom) if isinstance(freedom, np.ndarray) else freedom,
        )

    def apart(self, found: Derivatives) -> Derivatives:
        """Return derivatives that let the parameter stay where it is."""
        gradient = found.gradient.copy()
        gradient[self.place] = 0.0
        meat = self._apart(found.meat, 0.0) if found.meat.size else found.meat
        return Derivatives(found.loss, gradient, self.curved(found.hessian), meat)

    def curved(self, hessian: FloatArray) -> FloatArray:
        """Return a mean Hessian that lets the parameter stay where it is, with a curvature like those of the others."""
        free, present = self.free, self.squares[self.free] > 0
        steepest = float(np.max(np.diag(hessian)[free][present] / self.squares[free][present], initial=0.0))
        return self._apart(hessian, (steepest or 1.0) * float(self.squares[self.place]))

    def _apart(self, matrix: FloatArray, own: float) -> FloatArray:
        """Return a matrix with zeros beside an entry of its own in the place."""
        found = matrix.copy()
        found[self.place, :] = found[:, self.place] = 0.0
        found[self.place, self.place] = own
        return found


@dataclass(frozen=True)
class HeldWhole(Whole):
    """All records under a correction one of whose parameters is held."""

    frame: Held

    @functools.cached_property
    def known(self) -> ReleasedRecords | None:
        """What is known of them, by two passes."""
        return self.frame.known(known_scores(self.corrected, self.records))


@dataclass(frozen=True)
class HeldRegion(Region):
    """Points whose entry in one place is 1, and whose others lie in another region."""

    others: Region
    place: int

    @property
    def description(self) -> str:  # type: ignore[override]
        """What holds the others."""
        return self.others.description

    def _free(self, vector: FloatArray) -> FloatArray:
        return np.delete(vector, self.place)

    def inside(self, theta: FloatArray) -> FloatArray:
        """Return theta with a 1 in the place, or such a point near it."""
        return np.insert(self.others.inside(self._free(theta)), self.place, 1.0)

    def minimiser(self, theta: FloatArray, gradient: FloatArray, matrix: FloatArray) -> FloatArray:
        """Return the minimum over the others, from a theta of this region."""
        kept = np.delete(np.delete(matrix, self.place, axis=0), self.place, axis=1)
        return np.insert(self.others.minimiser(self._free(theta), self._free(gradient), kept), self.place, 1.0)

    def on_boundary(self, theta: FloatArray) -> bool:
        """Whether the others lie on the boundary of theirs."""
        return self.others.on_boundary(self._free(theta))

    def moves(self, direction: FloatArray) -> FloatArray:
        """Return a direction in which theta can move."""
        return np.insert(self._free(direction), self.place, 0.0)


@dataclass(frozen=True)
class HeldRecords(Records):
    """Records under a correction one of whose parameters is held at 1."""

    frame: Held | None = None

    @property
    def _held(self) -> Held:
        assert self.frame is not None
        return self.frame

    def _derivatives(self) -> Callable[..., Derivatives]:
        found = super()._derivatives()
        return lambda theta, meat=False: self._held.apart(found(theta, meat))

    def _by_differences(self, metric: FloatArray, *, roughly: bool) -> Callable[..., Derivatives]:
        found = super()._by_differences(metric, roughly=roughly)
        return lambda theta, meat=False: self._held.apart(found(theta, meat))

    def step(self, theta: FloatArray, metric: FloatArray) -> float:
        """Return a small change of scores; see `Records.step`. That of an offset of 0 is the one without an offset."""
        return super().step(theta, self.freed_metric(metric))

    def freed_metric(self, metric: FloatArray) -> FloatArray:
        """Return second moments without those of the place."""
        others = metric.copy()
        others[self._held.place, self._held.place] = 0.0
        return others

    def differenced(self, theta: FloatArray, metric: FloatArray, step: float, *, forward: bool = False) -> FloatArray:
        """Return the mean Hessian by differences; see `Records.differenced`."""
        return self._held.curved(super().differenced(theta, metric, step, forward=forward))

    def mean_gradient(self, theta: FloatArray) -> FloatArray:
        """Return the mean gradient, 0 in the place of the parameter that is held."""
        gradient = super().mean_gradient(theta).copy()
        gradient[self._held.place] = 0.0
        return gradient

    def gradients(self, theta: FloatArray, rows: Any, *, by_derivatives: bool = False) -> FloatArray:
        """Return the gradients of some records; see `Records.gradients`."""
        gradients = super().gradients(theta, rows, by_derivatives=by_derivatives)
        gradients[:, self._held.place] = 0.0
        return gradients

    def plain_gradients(self, theta: FloatArray) -> FloatArray:
        """Return the gradients of all records; see `Records.plain_gradients`."""
        gradients = super().plain_gradients(theta)
        gradients[:, self._held.place] = 0.0
        return gradients

    def factored_gradients(
        self, theta: FloatArray, *, by_derivatives: bool = False
    ) -> tuple[FloatArray, FloatArray, FloatArray] | None:
        """Return the gradients of all records in factors; see `Records.factored_gradients`."""
        found = super().factored_gradients(theta, by_derivatives=by_derivatives)
        if found is not None:
            found[-1][:, self._held.place] = 0.0
        return found

    def design_rows(self) -> FloatArray:
        """Return what stands beside the parameters, 0 beside the one that is held: it has no gradient."""
        rows = super().design_rows().copy()
        rows[:, self._held.place] = 0.0
        return rows


def frame_of(records: Records) -> Frame:
    """Return what a solver asks of the parameters of records."""
    return records.frame if isinstance(records, HeldRecords) and records.frame is not None else Frame()


def holding(
    corrected: CorrectedLoss, records: Records, offset: FloatArray, *, at_a_glance: bool = False
) -> tuple[CorrectedLoss, HeldRecords]:
    """Return the loss and the checked records with an offset as a column more.

    Parameters
    ----------
    corrected : CorrectedLoss
        A loss of one score, as it was given.
    records : Records
        Its records, checked.
    offset : array of shape (n,), float64
        The known term of the score of each.
    at_a_glance : bool
        Whether mean squares of columns may be those of the records that a fit is tested on.

    Raises
    ------
    ValueError
        The release has features and target in one vector.
    """
    per_record = records.correction.per_record
    longer, correction, place = lengthened(corrected, records.correction.features, per_record=per_record)

    def made(rows: Any) -> tuple[FloatArray, FloatArray]:
        return np.column_stack([records.matrix[rows], offset[rows]]), records.target[rows]

    matrix: FloatArray | Rows
    target: FloatArray | Rows
    is_long = len(records) * records.columns > SMALL_TABLE
    if is_long or isinstance(records.matrix, Rows) or isinstance(records.target, Rows):
        any_row = has_any_row(records.matrix) and has_any_row(records.target)
        matrix, target = paired(len(records), made, has_any_row=any_row)
    else:
        matrix, target = made(slice(None))
    plain = Records(
        correction, matrix, target, records.weights, lengthened_scales(records.scales, len(offset)), records.journal
    )
    frame = Held.of(plain.tested if at_a_glance else plain, place, corrected)
    return longer, HeldRecords(correction, matrix, target, records.weights, plain.scales, records.journal, frame=frame)


def lengthened(corrected: CorrectedLoss, width: int, *, per_record: bool) -> tuple[CorrectedLoss, Correction, int]:
    """Return a loss for a column more, the offset, its correction, and the place of the parameter that is held.

    Parameters
    ----------
    corrected : CorrectedLoss
        A loss of one score, as it was given.
    width : int
        The number of columns without the offset.
    per_record : bool
        Whether records have noise scales of their own.

    Raises
    ------
    ValueError
        The release has features and target in one vector.
    """
    release, name = with_known_term(corrected.release, width)
    longer = CorrectedLoss(corrected.declared, release, corrected.approach, reason=corrected.reason)
    correction = longer.at(width + 1, per_record=per_record)
    return longer, correction, correction.design.parameters.index(name)


def lengthened_scales(scales: FloatArray | None, rows: int) -> FloatArray | None:
    """Return the noise scales of records with those of an offset, which has no noise."""
    return None if scales is None else np.column_stack([scales, np.zeros(rows)])
