"""What methods of the literature share: released records with the noise of labels undone, and roots of equations."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import sympy as sp
from scipy.optimize import root

from symdebias._arrays import FloatArray, check_same_index
from symdebias.corrected import CorrectedLoss
from symdebias.driver import debias
from symdebias.exceptions import DivergenceError, NoExactCorrectionError
from symdebias.inference import (
    FEWEST_DECIDE,
    Inference,
    deciding_each,
    freedom_of_records,
    skewness_of_records,
    two_sides,
)
from symdebias.losses import Loss
from symdebias.losses.meaning import is_residual_loss
from symdebias.losses.shifts import centred, ignores_shifts
from symdebias.noise import AdditiveNoise, ChannelNoise, CoordinateNoise, symmetric_root
from symdebias.records import Records
from symdebias.release import Release
from symdebias.solvers.fit import Fit
from symdebias.solvers.metric import definite
from symdebias.solvers.moments import require_large_enough, require_small_enough
from symdebias.solvers.uncertain_curvature import curving_of, note_on_curvature
from symdebias.zonal import ZonalNoise

Equation = Callable[[FloatArray], FloatArray]

# A root is taken where Newton's next step is shorter than this, in units of the parameters' columns.
_CLOSE = 1e-6
# Evaluations for each parameter, and for four more, before the search is given up.
_EVALUATIONS = 10
# Records with more than this share of second moments are looked at as left out, and leave at least the second; three
# that tell more than the third of a parameter leave no intervals.
_MUCH_LEVERAGE, _LEAST_LEFT, _MOST_OF_FEW = 0.05, 0.05, 0.9
# From this condition number on a root is one of many.
_WORST_CONDITION = 1e10


@dataclass(frozen=True, eq=False)
class Measured:
    """Released records, the covariance of their noise, and the declared loss with the noise of labels undone."""

    plain: CorrectedLoss  # The declared loss under the release, with nothing undone.
    # The records under the declared loss with the noise of the target undone, on features as they are.
    labelled: Records
    covariance: FloatArray  # Of shape (p, p): D, of the noise of the features.
    loss: Loss  # The declared loss, as it is on the columns of the release.
    release: Release  # The release of these columns.

    @classmethod
    def of(cls, loss: Loss, release: Release, X: Any, y: Any) -> "Measured":
        """Return checked records.

        Raises
        ------
        NoExactCorrectionError
            A column of categories is noised, or the noise of the target has no exact inverse.
        """
        plain = debias(loss, release, method="none").named_by(X)
        release = plain.release
        matrix, target = release.design_matrix(X), y
        correction = plain.at(matrix.shape[1])
        if correction.design.categorical:
            raise NoExactCorrectionError(
                "the methods for measurement error take columns with additive noise, and the release noises a column "
                "of categories. Use debias, which undoes the channel."
            )
        if isinstance(correction.release.target_noise, CoordinateNoise):
            raise NoExactCorrectionError(
                "the methods for measurement error take noise of the target that is independent of that of the "
                "features, and here features and target share one. Use debias, which undoes it in the residual."
            )
        check_same_index(X, y)
        if correction.collected is not None:
            matrix, target = correction.checked_records(X, y)
        loss, noised = correction.loss, correction.release
        names = noised.columns or tuple(f"x{index}" for index in range(correction.columns))
        clean = Release(None, noised.target, noiseless=names, fit_intercept=noised.fit_intercept)
        labelled = debias(loss, clean, method="none" if noised.target is None else "exact").records(matrix, target)
        if correction.collected is not None:
            labelled = labelled.under(replace(labelled.correction, collected=correction.collected))
        return cls(plain, labelled, correction.noise_covariance(), loss, noised)

    @property
    def matrix(self) -> FloatArray:
        """The released features."""
        return self.labelled.arrays[0]

    @property
    def y(self) -> FloatArray:
        """The released targets."""
        return self.labelled.arrays[1]

    @property
    def columns(self) -> int:
        """The number of columns of X."""
        return self.labelled.columns

    @property
    def extended(self) -> FloatArray:
        """The records with a column of ones for the intercept."""
        return self.release.design(self.columns).rows(self.matrix)

    @property
    def extended_covariance(self) -> FloatArray:
        """D with zeros for the intercept."""
        return self.release.design(self.columns).additive_covariance(self.covariance)

    @property
    def noise_root(self) -> FloatArray:
        """R with D = R R', one row for each column of X: the same draws are the same noise in all units."""
        return symmetric_root(self.covariance)

    def noise(self, rng: np.random.Generator) -> FloatArray:
        """Return normal noise of the covariance for every record."""
        return np.asarray(rng.normal(size=self.matrix.shape) @ self.noise_root.T)

    def label_weights(self) -> FloatArray:
        """Return weights of shape (n, k) for the declared values of the target, which undo its noise."""
        values = self.loss.target_values
        assert values is not None
        noise = self.release.target_noise
        if isinstance(noise, ChannelNoise):
            weights = noise.weights[:, [noise.inputs.index(value) for value in values]]
            return np.asarray(weights[self.labelled.correction.codes_of_targets(self.y)])
        if noise is None:
            return np.asarray(self.y[:, None] == np.array(values), dtype=np.float64)
        # Two values, on which every function is affine, and noise of mean 0.
        high = (self.y - values[0]) / (values[1] - values[0])
        return np.column_stack([1 - high, high])

    def require_additive_squares(self, what: str) -> None:
        """Raise NoExactCorrectionError where second moments of a group of columns are not those of added noise."""
        for _, noise in self.release.noises(self.columns):
            if isinstance(noise, ZonalNoise) and not noise.has_additive_squares:
                raise NoExactCorrectionError(
                    f"{what} takes the covariance of added noise out of that of released columns, and with this gamma "
                    f"the noise multiplies second moments by {noise.square_gain:.4g}. Use debias, which undoes it, or "
                    "leave gamma out of the SphericalCapMechanism."
                )

    def require_normal(self, what: str) -> None:
        """Raise NoExactCorrectionError where the noise of a column is not normal."""
        for place, noise in self.release.noises(self.columns):
            if not (isinstance(noise, AdditiveNoise) and noise.is_gaussian):
                names = self.labelled.correction.release.columns or ()
                raise NoExactCorrectionError(
                    f"{what} is for normal noise, and that of {', '.join(names[place])} is another. Use debias, which "
                    "undoes it, or regression_calibration or simex, which take its covariance."
                )


@dataclass(frozen=True, eq=False)
class Problem:
    """The mean gradient of a loss on some records, with its penalty."""

    records: Records
    penalty: FloatArray  # Of shape (Q,): l2 for each parameter.
    # Of shape (Q,): the sizes of the parameters' columns: with theta counted in them, all parameters are of the same
    # order.
    units: FloatArray
    # That of residuals, the size of the target; 1 for other losses, whose scores have no unit.
    unit: float

    @classmethod
    def of(cls, records: Records, l2: float) -> "Problem":
        """Return the problem of some records.

        Raises
        ------
        ValueError
            The numbers of a column are so large, or so small, that products of their squares are no numbers.
        """
        correction, penalty = records.correction, records.correction.penalty(l2)
        units, unit = np.ones(len(penalty)), 1.0
        if correction.loss.scores:
            with np.errstate(over="ignore"):
                squares = np.mean(np.asarray(records.encoded[0]) ** 2, axis=0)
            metric = np.diag([*squares, 1.0])
            require_large_enough(records, metric)
            require_small_enough(records, metric)
            sizes = np.sqrt(squares)
            correction.shaped(units)[..., : len(sizes)] = np.where(sizes > 0, sizes, 1.0)
        if is_residual_loss(correction.loss):
            target = np.asarray(records.encoded[1])
            # Squares of large targets are no numbers.
            largest = float(np.abs(target).max(initial=0.0)) or 1.0
            unit = largest * math.sqrt(float(np.mean((target / largest) ** 2))) or 1.0
        return cls(records, penalty, units, unit)

    def root_of(self, equation: Equation, start: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the root of an equation in the unit of the gradient, and its derivative there, shape (Q, Q).

        Raises
        ------
        DivergenceError
            The search ends at no root, or the root is one of many.
        """
        units, unit = self.units, self.unit
        with np.errstate(all="ignore"):
            # From zero the search bounds its first steps in the unit of the equation, which is that of a loss.
            gradient = float(np.linalg.norm(equation(start) / units))
        gradient = gradient if 0 < gradient < math.inf else 1.0

        def scaled(phi: FloatArray) -> FloatArray:
            return equation(phi * unit / units) / units / gradient

        with np.errstate(all="ignore"):
            end = root(scaled, start * units / unit, options={"maxfev": _EVALUATIONS * (4 + len(start))})
            phi, step, slope, condition = end.x, np.full(len(start), np.inf), np.eye(len(start)), 0.0
            if np.all(np.isfinite(phi)):
                slope = _derivative(scaled, phi)
                if np.all(np.isfinite(slope)):
                    condition = float(np.linalg.cond(slope))
                    if condition < _WORST_CONDITION:
                        step = np.linalg.solve(slope, scaled(phi))
        length, norm = float(np.linalg.norm(step)), float(np.linalg.norm(start))
        if not condition < _WORST_CONDITION:
            raise DivergenceError(
                "the estimating equation does not decide theta: its derivative has the condition number "
                f"{condition:.3g}. Raise l2, or leave out columns that others determine."
            )
        if not length <= _CLOSE * (1 + float(np.linalg.norm(phi))):
            raise DivergenceError(
                f"the estimating equation has no root that a search from ||theta|| = {norm:.4g} finds (it ended at "
                f"{np.linalg.norm(phi * unit / units):.4g}). Use more records, raise l2, or release with less noise."
            )
        return np.asarray((phi - step) * unit / units), np.asarray(slope * np.outer(units, units) * (gradient / unit))

    def on(self, data: FloatArray) -> "Problem":
        """Return the same problem on other features."""
        return replace(self, records=replace(self.records, matrix=np.ascontiguousarray(data)))

    def rows(self, theta: FloatArray) -> FloatArray:
        """Return the gradients of the records, shape (n, Q), without the penalty."""
        return self.records.gradients(theta, slice(None))

    def minimum(self, start: FloatArray | None = None) -> tuple[FloatArray, FloatArray]:
        """Return the minimum and the Hessian there.

        Raises
        ------
        DivergenceError
            No root of the gradient was found, it is not the only one, or it is no minimum.
        """
        loss = self.records.correction.loss
        is_undecided = not self.penalty.all() and ignores_shifts(loss)

        def equation(theta: FloatArray) -> FloatArray:
            found = self.records.mean_gradient(theta) + self.penalty * theta
            if not is_undecided:
                return found
            # What all scores have in common is 0: gradients sum to 0 over them, and do not see this.
            return found + self.units**2 * (theta - centred(theta, len(loss.scores), self.penalty))

        theta, slope = self.root_of(equation, np.zeros(len(self.units)) if start is None else start)
        scaled = slope / np.outer(self.units, self.units)
        if not np.linalg.eigvalsh((scaled + scaled.T) / 2).min() > 0:
            raise DivergenceError(
                f"the gradient vanishes at ||theta|| = {np.linalg.norm(theta):.4g}, which is no minimum. Raise l2, or "
                "use a convex loss."
            )
        return theta, slope

    def _without_each(self, influence: FloatArray) -> tuple[FloatArray, float]:
        """Return influences as of leaving records out, and the most that three records tell of a parameter.

        A record with a share h of the second moments in a direction pulls theta to itself, and moves it by its
        influence over 1 - h (HC3 for least squares). What is told is partial leverage, that of design rows.
        """
        rows = self.records.correction.design.estimated_rows(self.records.arrays[0])
        moments = definite(rows.T @ rows)
        inverse = np.asarray(np.linalg.inv(moments), dtype=np.float64)
        turned = rows @ inverse
        leverage = np.einsum("ij,ij->i", turned, rows)
        shares = np.sort(turned**2 / np.diag(inverse), axis=0)[-3:]
        # A record that alone has a column has a leverage of 1, and next to no influence.
        pulled = np.where(leverage > _MUCH_LEVERAGE, 1 / np.maximum(1 - leverage, _LEAST_LEFT), 1.0)
        return influence * pulled[:, None], float(shares.sum(axis=0).max(initial=0.0))

    def fit(
        self, plain: CorrectedLoss, theta: FloatArray, influence: FloatArray, *, biased: str = "",
        changes: Equation | None = None, **how: Any,
    ) -> Fit:  # fmt: skip
        """Return the fit of a method with the influence, shape (n, Q), that `influence_of` returned.

        `biased` says what leaves a bias, so that intervals would not cover; it is empty where nothing does. `changes`
        takes a small step from theta and returns how influences change along it, shape (n, Q), where the curvature of
        the records is theirs and their noise's. The rest is as for `Fit.of`: ``solver``, ``description``, ``began``,
        ``steps`` and ``notes``.
        """
        near = influence
        influence, told = self._without_each(influence)
        # What is told of them is the same in all units, and these leave fourth powers numbers.
        largest = np.abs(influence).max(axis=0)
        scaled = influence / np.where(largest > 0, largest, 1.0)
        squares = scaled**2
        deciding = deciding_each(squares.sum(axis=0), np.sum(squares**2, axis=0))
        freedom = freedom_of_records(deciding)
        skewness = skewness_of_records(deciding, squares.sum(axis=0), np.sum(squares * scaled, axis=0))
        covariance = influence.T @ influence / len(influence) ** 2
        covariance.setflags(write=False)
        refusal = ""
        if biased:
            refusal = (
                f"{biased} leaves a bias in theta, and intervals would not cover. Read standard_errors, which say how "
                "theta scatters, or use a corrected loss."
            )
        elif told > _MOST_OF_FEW or np.any(deciding < FEWEST_DECIDE):
            refusal = (
                "three records or fewer decide a parameter, and intervals would not cover. Leave out or bound columns "
                "that vary in few records alone, or give l2."
            )
        notes = ["intervals are for the penalised optimum, not for the optimum without l2"] * bool(self.penalty.any())
        curving = np.zeros((len(theta), 2))
        if changes is not None and not refusal:
            for place, variance in enumerate(np.diag(covariance)):
                if variance > 0:
                    step = covariance[:, place] / np.sqrt(variance)
                    curving[place] = curving_of(near[:, place], changes(step)[:, place])
        if curving.any():
            notes.append(note_on_curvature(curving))
        inference = Inference(
            covariance,
            "sandwich of the method's own equations",
            refusal,
            None if biased else np.zeros(len(theta)),
            tuple(notes),
            freedom if not refusal and np.isfinite(freedom).any() else None,
            curving=curving if curving.any() else None,
            skewness=two_sides(skewness) if not refusal and skewness.any() else None,
        )
        return Fit.of(plain, theta, records=len(influence), inference=inference, **how)


def constant_curvature(loss: Loss) -> float | None:
    """Return the curvature of a loss that is quadratic in its score, with the same one for all targets, or None."""
    if len(loss.scores) != 1:
        return None
    bend = sp.diff(loss.expression, loss.scores[0], 2)
    values = {bend} if loss.target_values is None else {bend.subs(loss.target, value) for value in loss.target_values}
    found = values.pop()
    return None if values or found.free_symbols else float(found)


def _derivative(function: Equation, at: FloatArray) -> FloatArray:
    """Return the derivative by central differences, column by column."""
    columns = []
    for place in range(len(at)):
        step = np.zeros(len(at))
        step[place] = 1e-5 * max(1.0, abs(float(at[place])))
        columns.append((function(at + step) - function(at - step)) / (2 * step[place]))
    return np.array(columns).T


def influence_of(rows: FloatArray, slope: FloatArray) -> FloatArray:
    """Return how much each record moves theta, times n: -A^-1 (g_i - mean g)."""
    return np.asarray(-np.linalg.solve(slope, (rows - rows.mean(axis=0)).T).T)
