"""Checked records as solvers hold them: what kernels take, and what may be asked of single records."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from symdebias._arrays import check_same_index, weights_array
from symdebias.codegen.parallel import CHUNK, over_chunks, summed
from symdebias.codegen.score.program import ScoreProgram
from symdebias.corrected import CorrectedLoss, Derivatives
from symdebias.exceptions import NoExactCorrectionError

FloatArray = np.ndarray[Any, np.dtype[np.float64]]

# Records that a fit is tested on.
TESTED_RECORDS = 10_000


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

    @property
    def is_noised(self) -> bool:
        """Whether the release has noised anything."""
        release = self.corrected.release
        return release.target is not None or any(True for _ in release.noises(self.columns))

    def thinned(self, stride: int, first: int = 0) -> "Records":
        """Return the records first, first + stride, first + 2 stride, ..."""
        return self.taken(slice(first, None, stride))

    def taken(self, rows: Any) -> "Records":
        """Return some records, by a slice or their numbers."""
        return Records(
            self.corrected,
            self.columns,
            np.ascontiguousarray(self.matrix[rows]),
            np.ascontiguousarray(self.target[rows]),
            np.ascontiguousarray(self.weights[rows]) if len(self.weights) else self.weights,
            self.per_record,
        )

    def derivatives_or_differences(self, units: FloatArray | None = None) -> tuple[Callable[..., Derivatives], str]:
        """Return mean loss, gradient and Hessian as a function of theta, and how the Hessian is found.

        Parameters
        ----------
        units : array of shape (Q,), float64, optional
            By how much each parameter changes the score by about 1, for the steps of differences; ones by default.

        Notes
        -----
        The function is that of `CorrectedLoss.derivatives`; where the Hessian is too long to be written out, or has
        point masses of weight zero as that of a squared maximum, it comes from central differences of the gradient.
        """
        program = self.corrected.kernels(self.columns, per_record=self.per_record).program
        if isinstance(program, ScoreProgram) and program.has_point_masses:
            return self._by_differences(units), "central differences"
        try:
            found = self.corrected.derivatives(
                self.columns, self.matrix, self.target, self.weights, self.total, per_record=self.per_record
            )
        except NoExactCorrectionError:
            return self._by_differences(units), "central differences"
        return found, "exact"

    def _by_differences(self, units: FloatArray | None) -> Callable[..., Derivatives]:
        def derivatives(theta: FloatArray, meat: bool = False) -> Derivatives:
            value, gradient = self.mean_loss(theta), self.mean_gradient(theta)
            # The cube root of the rounding error balances it with the error of the differences.
            scales = np.ones(len(theta)) if units is None else units
            steps = 6e-6 * scales * (1 + float(np.abs(theta / scales).max()))
            columns = []
            for step, move in zip(steps, np.diag(steps), strict=True):
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

        whole: FloatArray = sum(over_chunks(len(self.matrix), squares), np.zeros(()))
        return whole / self.total

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

    def centred(self, theta: FloatArray, mean: FloatArray, rows: slice) -> FloatArray:
        """Return the weighted gradients less a mean of some records, shape (m, Q)."""
        gradients = self.gradients(theta, rows) - mean
        if len(self.weights):
            gradients *= self.weights[rows, None]
        return gradients

    @property
    def stride(self) -> int:
        """The distance of the records that a fit is tested on."""
        return max(1, len(self.matrix) // TESTED_RECORDS)
