"""What methods of the literature share: released records with the noise of labels undone, and roots of equations."""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import sympy as sp
from scipy.optimize import root

from symdebias._arrays import FloatArray, require_squares
from symdebias._rows import Rows
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
from symdebias.reading import of_memory_map
from symdebias.records import Records
from symdebias.release import Release
from symdebias.solvers.fit import Fit
from symdebias.solvers.literature.passes import folded, normal_numbers, summed
from symdebias.solvers.metric import definite
from symdebias.solvers.moments import require_large_enough, require_small_enough
from symdebias.solvers.uncertain_curvature import curving_by, note_on_curvature
from symdebias.zonal import ZonalNoise

Equation = Callable[[FloatArray], FloatArray]
# What is said of some records, by a slice of all: a row for each of them.
OfRows = Callable[[slice], FloatArray]
# The same at some parameters, or along a step from them.
RowsAt = Callable[[FloatArray, slice], FloatArray]

# A root is taken where Newton's next step is shorter than this, in units of the parameters' columns.
_CLOSE = 1e-6
# Evaluations for each parameter, and for four more, before the search is given up.
_EVALUATIONS = 10
# Records with more than this share of second moments are looked at as left out, and leave at least the second; three
# that tell more than the third of a parameter leave no intervals.
_MUCH_LEVERAGE, _LEAST_LEFT, _MOST_OF_FEW = 0.05, 0.05, 0.9
# From this condition number on a root is one of many.
_WORST_CONDITION = 1e10


def numbers_of(plain: CorrectedLoss, X: Any, y: Any) -> Records:
    """Return checked released records whose squares are numbers, as those of equations are.

    Raises
    ------
    ValueError, TypeError
        The records do not fit, or a number is too large.
    """
    records = plain.records(X, y, by_blocks=True)
    records.require_finite()
    require_squares(records.target, "y")
    return records


@dataclass(frozen=True, eq=False)
class Measured:
    """Released records, the covariance of their noise, and the declared loss with the noise of labels undone."""

    plain: CorrectedLoss  # The declared loss under the release, with nothing undone.
    # The records under the declared loss with the noise of the target undone, on features as they are.
    labelled: Records
    covariance: FloatArray  # Of shape (p, p): D, of the noise of the features.
    loss: Loss  # The declared loss, as it is on the columns of the release.
    release: Release  # The release of these columns.
    is_read: bool  # Whether the records were not in memory as they were given.

    @classmethod
    def of(cls, loss: Loss, release: Release, X: Any, y: Any) -> "Measured":
        """Return checked records.

        Raises
        ------
        NoExactCorrectionError
            A column of categories is noised, or the noise of the target has no exact inverse.
        """
        plain = debias(loss, release, method="none").named_by(X)
        correction = plain.at(plain.width_of(X))
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
        # What is made of a memory map, such as noisier records, has no room in memory.
        records = numbers_of(plain, of_memory_map(X), y)
        loss, noised = correction.loss, correction.release
        names = noised.columns or tuple(f"x{index}" for index in range(correction.columns))
        clean = Release(None, noised.target, noiseless=names, fit_intercept=noised.fit_intercept)
        undone = debias(loss, clean, method="none" if noised.target is None else "exact").at(correction.columns)
        labelled = records.under(replace(undone, collected=correction.collected))
        is_read = isinstance(X, (Rows, np.memmap))
        return cls(plain, labelled, correction.noise_covariance(), loss, noised, is_read)

    @property
    def matrix(self) -> FloatArray | Rows:
        """The released features."""
        return self.labelled.matrix

    @property
    def y(self) -> FloatArray | Rows:
        """The released targets."""
        return self.labelled.target

    def __len__(self) -> int:
        return len(self.labelled)

    @property
    def columns(self) -> int:
        """The number of columns of X."""
        return self.labelled.columns

    def extended(self, rows: slice) -> FloatArray:
        """Return some records with a column of ones for the intercept."""
        return self.release.design(self.columns).rows(self.matrix[rows])

    @property
    def extended_covariance(self) -> FloatArray:
        """D with zeros for the intercept."""
        return self.release.design(self.columns).additive_covariance(self.covariance)

    @functools.cached_property
    def noise_root(self) -> FloatArray:
        """R with D = R R', one row for each column of X: the same draws are the same noise in all units."""
        return symmetric_root(self.covariance)

    def noise(self, seed: int, rows: slice) -> FloatArray:
        """Return normal noise of the covariance for some records."""
        return np.asarray(normal_numbers(seed, len(self), self.columns, rows) @ self.noise_root.T)

    def label_weights(self, rows: slice) -> FloatArray:
        """Return weights of some records for the declared values of the target, which undo its noise, shape (m, k)."""
        values, y = self.loss.target_values, self.y[rows]
        assert values is not None
        noise = self.release.target_noise
        if isinstance(noise, ChannelNoise):
            weights = noise.weights[:, [noise.inputs.index(value) for value in values]]
            return np.asarray(weights[self.labelled.correction.codes_of_targets(y)])
        if noise is None:
            return np.asarray(y[:, None] == np.array(values), dtype=np.float64)
        # Two values, on which every function is affine, and noise of mean 0.
        high = (y - values[0]) / (values[1] - values[0])
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
        matrix, target = records.encoded
        has_unit = is_residual_loss(correction.loss)

        def squares_of(rows: slice) -> tuple[FloatArray, tuple[float, float]]:
            block, values = matrix[rows], target[rows]
            with np.errstate(over="ignore"):
                return np.sum(block**2, axis=0), _size_of(values) if has_unit else (0.0, 0.0)

        def both(one: Any, other: Any) -> Any:
            with np.errstate(over="ignore"):
                return one[0] + other[0], _larger_size(one[1], other[1])

        if correction.loss.scores:
            squares, size = folded(len(records), matrix.shape[1], squares_of, both)
            squares /= len(records)
            metric = np.diag([*squares, 1.0])
            require_large_enough(records, metric)
            require_small_enough(records, metric)
            sizes = np.sqrt(squares)
            correction.shaped(units)[..., : len(sizes)] = np.where(sizes > 0, sizes, 1.0)
            # Squares of large targets are no numbers.
            largest, share = size
            unit = largest * math.sqrt(share / len(records)) or 1.0 if has_unit else 1.0
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

    def on(self, data: FloatArray | Rows) -> "Problem":
        """Return the same problem on other features."""
        return replace(self, records=replace(self.records, matrix=data))

    def gradients(self, theta: FloatArray, rows: slice) -> FloatArray:
        """Return the gradients of some records, shape (m, Q), without the penalty."""
        return self.records.gradients(theta, rows)

    def part(self, rows: slice) -> Records:
        """Return some records, in memory."""
        return replace(self.records, matrix=self.records.matrix[rows], target=self.records.target[rows])

    def over_records(self, work: Callable[[slice], tuple[Any, ...]]) -> tuple[Any, ...]:
        """Return the sums over all records of what a function says of some of them."""
        return summed(len(self.records), self.records.columns, work)

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

    def _moved_by_each(self, influence: OfRows) -> "_Moved":
        """Return sums over what leaving out each record does to theta.

        A record with a share h of the second moments in a direction pulls theta to itself, and moves it by its
        influence over 1 - h (HC3 for least squares). What three records tell is partial leverage, that of design rows.
        """
        design, matrix = self.records.correction.design, self.records.matrix

        def moments_of(rows: slice) -> tuple[FloatArray]:
            part = design.estimated_rows(matrix[rows])
            return (part.T @ part,)

        inverse = np.asarray(np.linalg.inv(definite(self.over_records(moments_of)[0])), dtype=np.float64)

        def moved(rows: slice) -> _Moved:
            part = design.estimated_rows(matrix[rows])
            turned = part @ inverse
            leverage = np.einsum("ij,ij->i", turned, part)
            # A record that alone has a column has a leverage of 1, and next to no influence.
            pulled = np.where(leverage > _MUCH_LEVERAGE, 1 / np.maximum(1 - leverage, _LEAST_LEFT), 1.0)
            return _Moved.by(influence(rows) * pulled[:, None], turned**2 / np.diag(inverse))

        found: _Moved = folded(len(self.records), self.records.columns, moved, _Moved.added)
        return found

    def _curving(self, covariance: FloatArray, influence: OfRows, changes: RowsAt) -> FloatArray:
        """Return what `curving_by` says of each parameter, shape (Q, 2)."""
        some = [place for place, variance in enumerate(np.diag(covariance)) if variance > 0]

        def products(rows: slice) -> tuple[FloatArray]:
            plain, sums = influence(rows), np.zeros((len(covariance), 5))
            for place in some:
                near = plain[:, place]
                change = changes(covariance[:, place] / np.sqrt(covariance[place, place]), rows)[:, place]
                sums[place] = near.sum(), change.sum(), near @ near, near @ change, change @ change
            return (sums,)

        curving = np.zeros((len(covariance), 2))
        means = self.over_records(products)[0] / len(self.records)
        for place in some:
            near, change, squares, together, of_changes = means[place]
            curving[place] = curving_by(squares - near**2, together - near * change, of_changes - change**2)
        return curving

    def fit(
        self, plain: CorrectedLoss, theta: FloatArray, influence: OfRows, *, biased: str = "",
        changes: RowsAt | None = None, **how: Any,
    ) -> Fit:  # fmt: skip
        """Return the fit of a method with the influence that `influence_of` returned.

        `biased` says what leaves a bias, so that intervals would not cover; it is empty where nothing does. `changes`
        takes a small step from theta and returns how influences of some records change along it, shape (m, Q), but for
        a number that they have in common, where the curvature of the records is theirs and their noise's. The rest is
        as for `Fit.of`: ``solver``, ``description``, ``began``, ``steps`` and ``notes``.
        """
        moved = self._moved_by_each(influence)
        deciding = deciding_each(moved.squares, moved.fourths)
        freedom = freedom_of_records(deciding)
        skewness = skewness_of_records(deciding, moved.squares, moved.thirds)
        covariance = moved.products / len(self.records) ** 2
        covariance.setflags(write=False)
        refusal = ""
        if biased:
            refusal = (
                f"{biased} leaves a bias in theta, and intervals would not cover. Read standard_errors, which say how "
                "theta scatters, or use a corrected loss."
            )
        elif moved.told > _MOST_OF_FEW or np.any(deciding < FEWEST_DECIDE):
            refusal = (
                "three records or fewer decide a parameter, and intervals would not cover. Leave out or bound columns "
                "that vary in few records alone, or give l2."
            )
        notes = ["intervals are for the penalised optimum, not for the optimum without l2"] * bool(self.penalty.any())
        curving = np.zeros((len(theta), 2))
        if changes is not None and not refusal:
            curving = self._curving(covariance, influence, changes)
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
        return Fit.of(plain, theta, records=len(self.records), inference=inference, **how)


@dataclass(frozen=True)
class _Moved:
    """Sums over what leaving out each record does to theta, shape (Q,) but where another is named."""

    largest: FloatArray  # The largest of all, by absolute value.
    # Sums of powers, in units of the largest: what is told of them is the same in all units, and these leave fourth
    # powers numbers.
    squares: FloatArray
    thirds: FloatArray
    fourths: FloatArray
    products: FloatArray  # Of shape (Q, Q): the sum of outer products, in the unit of theta.
    shares: FloatArray  # Of shape (k, Q), k <= 3: the most that single records tell of each parameter.

    @classmethod
    def by(cls, influence: FloatArray, shares: FloatArray) -> "_Moved":
        """Return those of some records, of arrays of shape (m, Q)."""
        largest = np.abs(influence).max(axis=0)
        scaled = influence / np.where(largest > 0, largest, 1.0)
        squares = scaled**2
        thirds, fourths = np.sum(squares * scaled, axis=0), np.sum(squares**2, axis=0)
        # A view would keep the array of all of them.
        most = np.sort(shares, axis=0)[-3:].copy()
        return cls(largest, squares.sum(axis=0), thirds, fourths, influence.T @ influence, most)

    def added(self, other: "_Moved") -> "_Moved":
        """Return those of these and of other records."""
        largest = np.maximum(self.largest, other.largest)
        unit = np.where(largest > 0, largest, 1.0)
        ours, theirs = self.largest / unit, other.largest / unit
        return _Moved(
            largest,
            ours**2 * self.squares + theirs**2 * other.squares,
            ours**3 * self.thirds + theirs**3 * other.thirds,
            ours**4 * self.fourths + theirs**4 * other.fourths,
            self.products + other.products,
            np.sort(np.concatenate([self.shares, other.shares]), axis=0)[-3:],
        )

    @property
    def told(self) -> float:
        """The most that three records tell of a parameter."""
        return float(self.shares.sum(axis=0).max(initial=0.0))


def _size_of(values: FloatArray) -> tuple[float, float]:
    """Return the largest of some numbers by absolute value, and the sum of their squares in its unit."""
    largest = float(np.abs(values).max(initial=0.0)) or 1.0
    return largest, float(np.sum((values / largest) ** 2))


def _larger_size(one: tuple[float, float], other: tuple[float, float]) -> tuple[float, float]:
    """Return what `_size_of` says of two sets of numbers."""
    largest = max(one[0], other[0]) or 1.0
    return largest, sum(share * (size / largest) ** 2 for size, share in (one, other))


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


def solved(slope: FloatArray, rows: FloatArray) -> FloatArray:
    """Return -A^-1 times each of some rows, A the slope."""
    return np.asarray(-np.linalg.solve(slope, rows.T).T)


def influence_of(rows: OfRows, slope: FloatArray, mean: FloatArray) -> OfRows:
    """Return how much each record moves theta, times n: -A^-1 (g_i - mean g).

    Parameters
    ----------
    rows : callable
        From a slice of the records to their g_i, shape (m, Q).
    slope : array of shape (Q, Q), float64
        A.
    mean : array of shape (Q,), float64
        The mean of the g_i of all records.
    """

    def influence(part: slice) -> FloatArray:
        return solved(slope, rows(part) - mean)

    return influence
