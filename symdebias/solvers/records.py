"""Checked records as solvers hold them: what kernels take, and what may be asked of single records."""

import functools
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from symdebias._arrays import check_same_index, weights_array
from symdebias.codegen.kernels import ScoreProgram
from symdebias.codegen.parallel import CHUNK, over_chunks, summed
from symdebias.corrected import CorrectedLoss, Derivatives
from symdebias.exceptions import DivergenceError, NoExactCorrectionError, VarianceWarning

FloatArray = np.ndarray[Any, np.dtype[np.float64]]

# Far out, a corrected gradient is the sum of a few enormous terms. Fits are tested on this many records, and refused
# where fewer than so many of them carry the gradient.
TESTED_RECORDS = 10_000
_FEWEST_CARRIERS = 10
# From here on the fit is warned of: a hundred times as many records would be needed as without the noise.
_MUCH_INFLATION = 100.0


@dataclass(frozen=True)
class Records:
    """What is trained on.

    Attributes
    ----------
    corrected : CorrectedLoss
        The loss, resolved.
    columns : int
        The number of columns of X.
    matrix, target : array
        The records as kernels take them; see `CorrectedLoss.checked_data`.
    weights : array of shape (n,) or (0,), float64
        The weights; empty where all records weigh the same.
    per_record : bool
        Whether records have noise scales of their own.
    """

    corrected: CorrectedLoss
    columns: int
    matrix: FloatArray
    target: FloatArray
    weights: FloatArray
    per_record: bool

    @classmethod
    def checked(
        cls,
        corrected: CorrectedLoss,
        X: Any,
        y: Any,
        *,
        sample_weight: Any,
        noise_scale: Any,
        check_finite: bool = True,
    ) -> "Records":
        """Return records that were checked as `CorrectedLoss.checked_data` does."""
        check_same_index(X, y, sample_weight=sample_weight)
        matrix, target = corrected.checked_data(X, y, check_finite=check_finite, noise_scale=noise_scale)
        weights = np.zeros(0) if sample_weight is None else weights_array(sample_weight, rows=len(matrix))
        return cls(corrected, corrected.number_of_columns(X), matrix, target, weights, noise_scale is not None)

    @property
    def total(self) -> float:
        """The number of records, or the sum of their weights."""
        return float(self.weights.sum()) if len(self.weights) else float(len(self.matrix))

    @functools.cached_property
    def noise(self) -> FloatArray:
        """What kernels are told of the noise."""
        return self.corrected.noise_vector(self.columns, per_record=self.per_record)

    def thinned(self, stride: int) -> "Records":
        """Return every so-manieth record."""
        rows = slice(None, None, stride)
        return Records(
            self.corrected,
            self.columns,
            np.ascontiguousarray(self.matrix[rows]),
            np.ascontiguousarray(self.target[rows]),
            np.ascontiguousarray(self.weights[rows]),
            self.per_record,
        )

    def derivatives_or_differences(self) -> tuple[Callable[..., Derivatives], str]:
        """Return mean loss, gradient and Hessian as a function of theta, and how the Hessian is found.

        The function is that of `CorrectedLoss.derivatives`; where the Hessian is too long to be written out, or has
        point masses of weight zero as that of a squared maximum, it comes from central differences of the gradient.
        """
        program = self.corrected.kernels(self.columns, per_record=self.per_record).program
        if isinstance(program, ScoreProgram) and program.has_point_masses:
            return self._by_differences(), "central differences"
        try:
            found = self.corrected.derivatives(
                self.columns, self.matrix, self.target, self.weights, self.total, per_record=self.per_record
            )
        except NoExactCorrectionError:
            return self._by_differences(), "central differences"
        return found, "exact"

    def _by_differences(self) -> Callable[..., Derivatives]:
        def derivatives(theta: FloatArray, meat: bool = False) -> Derivatives:
            value, gradient = self.mean_loss(theta), self.mean_gradient(theta)
            # The cube root of the rounding error balances it with the error of the differences.
            step = 6e-6 * (1 + float(np.abs(theta).max()))
            columns = []
            for j in range(len(theta)):
                move = np.zeros(len(theta))
                move[j] = step
                columns.append((self.mean_gradient(theta + move) - self.mean_gradient(theta - move)) / (2 * step))
            hessian = np.array(columns)
            outer = self.meat(theta, np.zeros(len(theta))) if meat else np.zeros((0, 0))
            return Derivatives(value, gradient, (hessian + hessian.T) / 2, outer)

        return derivatives

    def mean_loss(self, theta: FloatArray) -> float:
        """Return the mean loss."""
        kernel = self.corrected.kernels(self.columns, per_record=self.per_record)
        return summed(kernel.mean_loss(weighted=bool(len(self.weights))), self._arguments(theta), ())[0]

    def mean_gradient(self, theta: FloatArray) -> FloatArray:
        """Return the mean gradient."""
        kernel = self.corrected.kernels(self.columns, per_record=self.per_record)
        shapes = ((len(theta),),)
        return summed(kernel.mean_gradient(weighted=bool(len(self.weights))), self._arguments(theta), shapes)[1][0]

    def _arguments(self, theta: FloatArray) -> tuple[Any, ...]:
        return theta, self.matrix, self.target, self.weights, self.total, self.noise

    def gradients(self, theta: FloatArray, rows: Any) -> FloatArray:
        """Return the corrected gradients of some records at theta, shape (m, Q), unweighted."""
        matrix, target = np.ascontiguousarray(self.matrix[rows]), np.ascontiguousarray(self.target[rows])
        out = np.empty((len(matrix), theta.size))
        kernel = self.corrected.kernels(self.columns, per_record=self.per_record).gradient
        kernel(theta.ravel(), matrix, target, self.noise, out)
        return out

    def meat(self, theta: FloatArray, mean: FloatArray, codes: Any = None) -> FloatArray:
        """Return the sum of outer products of the weighted gradients less a mean, over the total.

        Parameters
        ----------
        theta : array of shape (Q,), float64
            The parameters.
        mean : array of shape (Q,), float64
            What is taken out of each gradient.
        codes : array of shape (n,), int64, optional
            Clusters 0 to G - 1, whose sums are multiplied in place of records.
        """

        def centred(rows: slice) -> FloatArray:
            gradients = self.gradients(theta, rows) - mean
            if len(self.weights):
                gradients *= self.weights[rows, None]
            return gradients

        if codes is None:

            def squares(rows: slice) -> FloatArray:
                gradients = centred(rows)
                return np.asarray(gradients.T @ gradients)

            whole: FloatArray = sum(over_chunks(len(self.matrix), squares), np.zeros(()))
            return whole / self.total
        sums = np.zeros((int(codes.max()) + 1, len(mean)))
        for start in range(0, len(self.matrix), CHUNK):
            rows = slice(start, start + CHUNK)
            for place, column in enumerate(centred(rows).T):
                sums[:, place] += np.bincount(codes[rows], column, minlength=len(sums))
        # The factor makes up for the mean that is taken out.
        return sums.T @ sums / self.total * (len(sums) / (len(sums) - 1))

    @property
    def stride(self) -> int:
        """The distance of the records that a fit is tested on."""
        return max(1, len(self.matrix) // TESTED_RECORDS)


def carrying_share(records: Records, theta: FloatArray) -> tuple[float, float]:
    """Return the share of records that carry the gradient at theta, and the mean square of their gradients.

    The share is (sum ||g||)^2 / (m sum ||g||^2) over m records spread over the table: 1 where all weigh the same, 1/m
    where one record is all of the gradient. For a corrected loss that grows like e^{u}, whose terms are
    lognormal, it is about e^{-s}.
    """
    with np.errstate(all="ignore"):
        norms = np.linalg.norm(records.gradients(theta, slice(None, None, records.stride)), axis=1)
        largest = norms.max()
        if largest > 0:
            relative = norms / largest
            share = float(relative.sum() ** 2 / (len(norms) * (relative @ relative)))
        else:
            # At theta = 0 a gradient may vanish; elsewhere all of them do where e^{-s/2} has underflowed.
            share = 0.0 if theta.any() else 1.0
        size = float(np.mean(norms**2))
    # Values that are not finite carry everything.
    share = share if math.isfinite(share) else 0.0
    return share, size


def noise_inflation(records: Records, X: Any, y: Any, size: float, theta: FloatArray) -> float | None:
    """Return by how much undoing the noise inflates the mean square of the gradients, and warn where it is much.

    It is the ratio of the mean squares of the corrected and the uncorrected gradients on the released records.
    """
    plain = records.corrected.uncorrected
    if plain is None:
        return None
    matrix, target = plain.checked_rows(X, y, slice(None, None, records.stride))
    uncorrected = Records(plain, records.columns, matrix, target, np.zeros(0), False)
    with np.errstate(all="ignore"):
        rows = uncorrected.gradients(theta, slice(None))
        before = float(np.mean(np.sum(rows**2, axis=1)))
    if not (before > 0 and math.isfinite(size / before)):
        return None
    inflation = size / before
    if inflation >= _MUCH_INFLATION:
        warnings.warn(
            f"undoing the noise makes the gradients' mean square {inflation:.3g} times that of the uncorrected loss: "
            f"the fit knows about as much as from 1/{inflation:.3g} of its records. Release with less noise, noise "
            "fewer columns, or use a loss of lower degree or slower growth.",
            VarianceWarning,
            stacklevel=3,
        )
    return inflation


def refuse_lost_fit(records: Records, share: float, theta: FloatArray, remedy: str) -> None:
    """Raise DivergenceError where a handful of records carries the whole gradient."""
    tested = len(range(0, len(records.matrix), records.stride))
    if tested < 100 * _FEWEST_CARRIERS or share * tested >= _FEWEST_CARRIERS:
        return
    raise DivergenceError(
        f"training was lost: at ||theta|| = {np.linalg.norm(theta):.4g} fewer than {_FEWEST_CARRIERS} of {tested:,} "
        f"records carry the whole corrected gradient: the noise is too large for a theta of this length. {remedy}"
    )
