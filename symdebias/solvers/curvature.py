"""How curved the mean corrected loss is, by a part of the records, and whether that is more than its sampling error."""

import functools
import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh

from symdebias._arrays import FloatArray
from symdebias._rows import parts_of
from symdebias.correction import Correction
from symdebias.exceptions import InferenceError
from symdebias.inference import sandwich
from symdebias.records import LOOKED_AT, TESTED_RECORDS, Records, size_by, stride_to
from symdebias.solvers.held import frame_of
from symdebias.solvers.metric import definite

# How many standard errors above zero the least curvature is. Much less will do for a surrogate that knows theta to
# within this share of its length: the minimum has been followed outwards to there, and was not made by the noise.
LEAST_CURVATURE, _LEAST_WHERE_CERTAIN, _CERTAIN_SHARE = 2.5, 0.5, 0.3
# How many times more records a look takes than the one before, behind that at the tested ones; and from how many on one
# is taken.
_MORE, _FEWEST_LOOKED_AT = 8, 200
# With more parameters than this a mean Hessian is not found by differences of gradients, two for each.
_MANY_PARAMETERS = 200
# Curvatures are alike that differ by less than this share of the largest; among so many a direction is looked for.
_ALIKE, _MOST_ALIKE = 1e-6, 20
# The steps of forward differences, relative to those of central ones.
_FORWARD = 1e-3
# Of how many numbers of records what is made of them is made at a time.
_NUMBERS = 2**15


@dataclass(frozen=True)
class Curvatures:
    """Curvatures of the mean corrected loss on a part of the records, relative to a matrix.

    A parameter that is held has none. All are NaN where a gradient is not finite.
    """

    theta: FloatArray  # Of shape (Q,): where they are looked at.
    sizes: FloatArray  # Of shape (Q,): the least first.
    directions: FloatArray  # Of shape (Q, Q): a column for each, of length 1 by the matrix.
    _look: "_Look"

    @classmethod
    def of(
        cls,
        records: Records,
        theta: FloatArray,
        penalty: FloatArray,
        metric: FloatArray,
        weighing: FloatArray,
        *,
        by_derivatives: bool = False,
    ) -> "Curvatures":
        """Return the curvatures relative to `weighing` at theta.

        `metric`, the second moments of released records, gives the steps of differences; `by_derivatives` is as for
        `Records.gradients`.
        """
        frame = frame_of(records)
        weighed = definite(metric + np.diag(penalty))
        look = _Look(records.looked_at, theta, weighed, _goes_by_derivatives(theta) or by_derivatives)
        found = frame.freed(look.hessian() + np.diag(penalty))
        if not np.all(np.isfinite(found)):
            return cls(theta, np.full(len(found), math.nan), np.full(found.shape, math.nan), look)
        sizes, vectors = eigh(found, frame.freed(weighing))
        return cls(theta, sizes, vectors, look)

    @property
    def largest(self) -> float:
        """The largest size of one."""
        return float(np.abs(self.sizes).max())

    @property
    def least(self) -> float:
        """The least."""
        return float(self.sizes[0])

    def noisiness(self, least: float) -> float:
        """Return the larger of E c^2/E c in two directions, c the curvatures of single records.

        The directions are those of the largest, and of the least curvature, which counts as `least`.
        """
        frame = frame_of(self._look.records)
        squares = (float(np.mean(self._look.along(frame.direction(self._noisiest(place))) ** 2)) for place in (0, -1))
        return max(square / size for square, size in zip(squares, (least, self.largest), strict=True))

    def _noisiest(self, place: int) -> FloatArray:
        """Return the direction in a place, or that in which records differ most among those of the same curvature.

        Which of these an eigenvector is hangs on rounding.
        """
        alike = np.flatnonzero(np.abs(self.sizes - self.sizes[place]) <= _ALIKE * self.largest)
        if not 1 < len(alike) <= _MOST_ALIKE:
            return np.asarray(self.directions[:, place])
        directions = self.directions[:, alike]
        whole = frame_of(self._look.records).directions(directions)
        curvatures = np.stack([self._look.turned(one) @ whole for one in whole.T])
        # The mean square of records' own: entries of one are those of a symmetric matrix.
        squares = np.einsum("aic,bic->ab", curvatures, curvatures)
        return np.asarray(directions @ np.linalg.eigh(squares)[1][:, -1])


def least_curvature(
    records: Records,
    theta: FloatArray,
    penalty: FloatArray,
    metric: FloatArray,
    hessian: FloatArray | None = None,
    *,
    by_derivatives: bool = False,
) -> tuple[float | None, FloatArray]:
    """Return the least curvature relative to a metric, in its own standard errors, and the Hessian that it is one of.

    Parameters
    ----------
    records : Records
        What was trained on.
    theta : array of shape (Q,), float64
        The parameters.
    penalty : array of shape (Q,), float64
        l2 for each.
    metric : array of shape (Q, Q), float64
        The second moments of released records.
    hessian : array of shape (Q, Q), float64, optional
        The mean corrected Hessian of all records. Without it that of a part of them is looked at, from differences of
        gradients, and of more where the part does not tell.
    by_derivatives : bool
        As for `Records.gradients`; it is so where the Hessian is known.

    Returns
    -------
    least : float or None
        None where there are too few records to tell its standard error.
    hessian : array of shape (Q, Q), float64
        The mean Hessian that was looked at.
    """
    weighing = definite(metric + np.diag(penalty))
    n = records.present
    if n < _FEWEST_LOOKED_AT:
        return None, np.zeros((0, 0))
    stride, tested = stride_to(LOOKED_AT, n), stride_to(TESTED_RECORDS, n)
    # Of a known Hessian they tell the spread alone, by two gradients.
    part = records.looked_at if hessian is None else records.tested
    while True:
        look = _Look(part, theta, weighing, _goes_by_derivatives(theta) or by_derivatives or hessian is not None)
        found = look.hessian() if hessian is None else hessian
        if not np.all(np.isfinite(found)):
            return -math.inf, found
        size, spread = look.least(found + np.diag(penalty))
        error = spread / math.sqrt(len(part) if hessian is None else n)
        least = size / error if error > 0 else math.copysign(math.inf, size)
        if hessian is not None or least >= LEAST_CURVATURE or stride == 1:
            return least, found
        if stride > tested:
            # They are in memory.
            stride, part = tested, records.tested
        else:
            stride = max(1, stride // _MORE)
            part = records.thinned(stride)


def curvature_of_records(
    records: Records, theta: FloatArray, metric: FloatArray, hessian: FloatArray, *, by_derivatives: bool
) -> float:
    """Return the least curvature relative to a metric over the spread of records' own in its direction.

    Times the root of the number of records it is the curvature in its own standard errors.

    Parameters
    ----------
    records : Records
        Records that tell the spread.
    theta : array of shape (Q,), float64
        The parameters.
    metric : array of shape (Q, Q), float64
        The second moments of released records.
    hessian : array of shape (Q, Q), float64
        The mean Hessian.
    by_derivatives : bool
        As for `Records.gradients`.
    """
    size, spread = _Look(records, theta, definite(metric), by_derivatives).least(hessian)
    return size / spread if spread > 0 else math.copysign(math.inf, size)


def error_along(
    records: Records, theta: FloatArray, metric: FloatArray, direction: FloatArray, *, by_derivatives: bool
) -> float:
    """Return the standard error of direction'(mean Hessian of records) direction.

    Parameters
    ----------
    records : Records
        The records.
    theta, direction : array of shape (Q,), float64
        The parameters, and a direction other than 0.
    metric : array of shape (Q, Q), float64
        The second moments of released records.
    by_derivatives : bool
        As for `Records.gradients`.
    """
    along = _Look(records, theta, definite(metric), by_derivatives).along(direction)
    return float(along.std()) / math.sqrt(len(along))


def uncertain_curvature(correction: Correction, curvature: float | None, uncertainty: float) -> list[str]:
    """Return the sign of being lost of a least curvature of so many standard errors, if it is one.

    The uncertainty is the sampling error of theta over its length, both in units of the released score.
    """
    is_certain = not correction.is_exact and uncertainty <= _CERTAIN_SHARE
    needed = _LEAST_WHERE_CERTAIN if is_certain else LEAST_CURVATURE
    if curvature is None or curvature >= needed:
        return []
    return [
        f"the least curvature of the mean corrected loss is {curvature:.2g} of its own standard errors, and at least "
        f"{needed:g} are needed"
    ]


def score_error(hessian: FloatArray, meat: FloatArray, total: float, metric: FloatArray) -> float:
    """Return the root mean square error of the released score that the sampling error of theta makes.

    It is infinite where `symdebias.inference.sandwich` has no covariance; `metric` are the second moments of released
    records.
    """
    try:
        covariance = sandwich(hessian, meat, total)
    except InferenceError:
        return math.inf
    return math.sqrt(max(float(np.sum(covariance * metric)), 0.0))


def _goes_by_derivatives(theta: FloatArray) -> bool:
    """Whether there are so many parameters that to compile second derivatives takes less than to difference first."""
    return len(theta) > _MANY_PARAMETERS


@dataclass(frozen=True)
class _Look:
    """Second derivatives on a part of the records, by differences of gradients."""

    records: Records
    theta: FloatArray
    metric: FloatArray
    by_derivatives: bool = False

    @functools.cached_property
    def step(self) -> float:
        """By how much a step changes the score, root mean square."""
        return 1e-4 * self.records.step(self.theta, self.metric)

    def _difference(self, move: FloatArray) -> FloatArray:
        above, below = (
            self.records.gradients(self.theta + sign * move, slice(None), by_derivatives=self.by_derivatives)
            for sign in (1.0, -1.0)
        )
        return np.asarray(self.records.relative_weights * (above - below))

    def hessian(self) -> FloatArray:
        """Return the mean Hessian."""
        if self.by_derivatives and self.records.has_slopes:
            return self.records.derivatives()(self.theta).hessian
        # Next to the sampling error of so few records that of forward differences is nothing.
        return self.records.differenced(self.theta, self.metric, _FORWARD * self.step, forward=True)

    def least(self, hessian: FloatArray) -> tuple[float, float]:
        """Return the least curvature of a Hessian relative to the metric, and the spread of records' own along it."""
        frame = frame_of(self.records)
        sizes, vectors = eigh(frame.freed(hessian), frame.freed(self.metric), subset_by_index=(0, 0))
        return float(sizes[0]), float(self.along(frame.direction(vectors[:, 0])).std())

    def turned(self, direction: FloatArray) -> FloatArray:
        """Return (Hessian of a record) direction for each record, shape (n, Q)."""
        length = size_by(self.metric, direction)
        return np.asarray(self._difference(direction * (self.step / length)) * (length / (2 * self.step)))

    def along(self, direction: FloatArray) -> FloatArray:
        """Return direction'(Hessian of a record) direction for each record."""
        length = size_by(self.metric, direction)
        move = direction * (self.step / length)
        records, slopes = self.records, np.empty(len(self.records))
        is_held = isinstance(records.matrix, np.ndarray) and isinstance(records.target, np.ndarray)
        # What is made of records on the way takes as much room as they do. Those that are read are read once.
        parts = list(parts_of(len(records), records.columns, _NUMBERS)) if is_held else []
        for part in parts if len(parts) > 1 else [slice(None)]:
            some = records.taken(part) if len(parts) > 1 else records
            slopes[part] = self._slopes(some, move, direction)
        slopes *= records.relative_weights[:, 0]
        slopes *= length / (2 * self.step)
        return slopes

    def _slopes(self, records: Records, move: FloatArray, direction: FloatArray) -> FloatArray:
        """Return by how much gradients along a direction differ between both ends of a move, unweighted."""
        ends = self.theta + move, self.theta - move
        above, below = (records.factored_gradients(end, by_derivatives=self.by_derivatives) for end in ends)
        if above is None or below is None:
            high, low = (records.gradients(end, slice(None), by_derivatives=self.by_derivatives) for end in ends)
            return np.asarray((high - low) @ direction)
        # Of a x + B'J: no gradients are made of which only this direction is asked for.
        along = records.design_rows() @ direction
        high, low = (own * along + (jacobian @ direction) @ bends for own, bends, jacobian in (above, below))
        return np.asarray(high - low)
