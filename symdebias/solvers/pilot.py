"""A pilot estimate for surrogates: the self-consistent quadratic surrogate, in closed form.

A surrogate is designed for a range of scores and a noise level, and both depend on the parameters. The pilot
replaces each part of the loss by the quadratic that fits it best where scores lie, u ~ N(0, v), and solves for theta
from moments of the released records with the noise taken out; v = theta'S theta, S the debiased Gram matrix, closes the
circle.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp

from symdebias._arrays import weights_array
from symdebias.corrected import CorrectedLoss
from symdebias.derivation.configurations import weights_of
from symdebias.exceptions import DivergenceError, NoExactCorrectionError
from symdebias.release import Design
from symdebias.transforms.certificate import numeric

FloatArray = np.ndarray[Any, np.dtype[np.float64]]

# Rows whose estimated design rows are held at a time.
_CHUNK = 65_536
# Rounds of the fixed point, and how far v may run: scores beyond +-50 mean that nothing holds theta back.
_ROUNDS, _WIDEST = 100, 2_500.0
# The range of the surrogate in standard deviations of the true score: nearly all lie within, and more costs variance.
_RANGE = 2.0
# The least eigenvalue of the debiased Gram matrix, relative to the largest.
_LEAST = 1e-3


@dataclass(frozen=True)
class Pilot:
    """A pilot estimate and what it says of the data.

    Attributes
    ----------
    theta : array of shape (q,), float64
        The parameters.
    score_variance : float
        The noise variance of the score at theta, over the noise of all columns.
    signal_variance : float
        v, the mean square of the true score (of the true residual, for a residual loss).
    radius : float
        The range for a surrogate, 2 sqrt(v).
    records : float
        The sample size; with weights (sum w)^2/(sum w^2).
    clipped : bool
        Whether the debiased Gram matrix had to be clipped to a positive definite one.
    """

    theta: FloatArray
    score_variance: float
    signal_variance: float
    radius: float
    records: float
    clipped: bool


@dataclass(frozen=True)
class _Moments:
    """Unbiased moments of true records, one entry for each multiplier."""

    gram: list[FloatArray]
    mean: list[FloatArray]
    cross: FloatArray
    target_square: float
    records: float


def quadratic_pilot(
    corrected: CorrectedLoss, X: Any, y: Any, *, l2: float = 0.0, sample_weight: Any = None, noise_scale: Any = None
) -> Pilot:
    """Return the pilot estimate of a surrogate.

    Parameters
    ----------
    corrected : CorrectedLoss
        A surrogate, resolved or not.
    X, y, sample_weight, noise_scale
        Released records, as for `symdebias.solvers.sgd.sgd`.
    l2 : float
        Regularisation + l2/2 ||theta||^2, the intercept apart.

    Raises
    ------
    NoExactCorrectionError
        A free-form loss with a hidden score has no pilot: resolve it by hand. Or the noise hides all variation of the
        features.
    DivergenceError
        The pilot runs away: too few records for their noise, or labels that a hyperplane separates.
    """
    if not isinstance(corrected, CorrectedLoss):
        raise TypeError(f"the first argument must be what symdebias.debias returned; got {type(corrected).__name__}.")
    if not corrected.declared.scores:
        raise NoExactCorrectionError(
            "a free-form loss has no pilot estimate. Declare it in its score, or call corrected.resolve(radius=, "
            "score_variance=, n=)."
        )
    parts = corrected.surrogate_parts
    columns = corrected.number_of_columns(X)
    matrix = corrected.release.design_matrix(X, check_finite=True)
    target = corrected.checked_target(y, len(matrix))
    design = corrected.release.design(columns)
    covariance = corrected.noise_covariance(columns, noise_scale, len(matrix))
    rows = len(matrix)
    weights = np.ones(rows) if sample_weight is None else weights_array(sample_weight, rows=rows)
    multipliers = [
        _multiplier(corrected, part.multiplier, target) if not parts.is_residual else np.ones(len(matrix))
        for part in parts.parts
    ]
    moments = _moments(design, matrix, target, weights, covariance, multipliers)
    gram, clipped = _positive(_moments(design, matrix, target, weights, covariance, [np.ones(len(matrix))]).gram[0])
    size = len(gram)
    penalty = np.full(size, l2)
    if corrected.release.fit_intercept:
        penalty[-1] = 0.0
    theta: FloatArray = np.zeros(size)
    v = 1.0
    nodes, chances = np.polynomial.hermite_e.hermegauss(64)
    chances = chances / chances.sum()
    for _ in range(_ROUNDS):
        points = nodes * math.sqrt(v)
        left, right = np.diag(penalty), np.zeros(size)
        for part, multiplied, mean in zip(parts.parts, moments.gram, moments.mean, strict=True):
            slope = part.numbers.slope(points) + _slope(part.exact, parts.variable)(points)
            first = float(slope @ chances)
            second = float((points * slope) @ chances) / (2 * v)
            if parts.is_residual:
                left, right = left + 2 * second * gram, right + 2 * second * moments.cross
                continue
            # A multiplier of mean 1 has the Gram matrix itself, which is positive definite.
            left = left + 2 * second * (gram if part.multiplier == sp.Integer(1) else multiplied)
            right = right - first * mean
        theta = np.asarray(np.linalg.lstsq(left, right, rcond=1e-12)[0], dtype=np.float64)
        if parts.is_residual:
            noise = parts.target_noise
            own = 0.0 if noise is None else noise.variance
            wanted = theta @ gram @ theta - 2 * theta @ moments.cross + moments.target_square - own
        else:
            wanted = theta @ gram @ theta
        before, v = v, min(max(float(wanted), 1e-4), _WIDEST)
        if abs(v - before) <= 1e-10 * v:
            break
    if v >= _WIDEST:
        raise DivergenceError(
            f"the pilot estimate runs away (||theta|| = {np.linalg.norm(theta):.4g}): nothing in {len(matrix):,} "
            "records holds theta back. Use more records, raise l2, or release with less noise."
        )
    return Pilot(
        theta,
        released_variance(design, covariance, theta),
        v,
        _RANGE * math.sqrt(v),
        moments.records,
        clipped,
    )


def released_variance(design: Design, covariance: FloatArray, theta: FloatArray) -> float:
    """Return the variance of the estimated score of a record over the noise of all columns, categories included."""
    linear = theta[[part.parameter for part in design.linear]]
    places = [part.column for part in design.linear]
    total = float(linear @ covariance[np.ix_(places, places)] @ linear)
    for column in design.categorical:
        matrix = np.array(column.noise.matrix)
        values = np.array([sum(theta[place] * value for place, value in entries) for entries in column.entries])
        estimates = weights_of(column) @ values
        total += float(np.mean(matrix @ estimates**2 - (matrix @ estimates) ** 2))
    return total


def _multiplier(corrected: CorrectedLoss, expression: sp.Expr, target: FloatArray) -> FloatArray:
    parts = corrected.surrogate_parts
    labelled = parts.labelled
    known: dict[sp.Symbol, Any] = {parts.target: target}
    if labelled.table is not None:
        codes = corrected.codes_of_targets(target)
        known |= {symbol: labelled.table[codes, place] for place, symbol in enumerate(labelled.symbols)}
    known |= {symbol: labelled.gain for symbol in expression.free_symbols if symbol not in known}
    names = tuple(symbol for symbol in known if symbol in expression.free_symbols)
    if not names:
        return np.full(len(target), float(expression))
    return np.array(numeric(expression, names)(*(known[name] for name in names)), dtype=float)


def _slope(expression: sp.Expr, variable: sp.Symbol) -> Any:
    return numeric(sp.diff(expression, variable), (variable,))


def _moments(
    design: Design,
    matrix: FloatArray,
    target: FloatArray,
    weights: FloatArray,
    covariance: FloatArray,
    multipliers: list[FloatArray],
) -> _Moments:
    """Return unbiased estimates of mean(M x x'), mean(M x) and mean(x y) over true records."""
    size, total = len(design.parameters), float(weights.sum())
    gram = [np.zeros((size, size)) for _ in multipliers]
    mean = [np.zeros(size) for _ in multipliers]
    cross = np.zeros(size)
    for start in range(0, len(matrix), _CHUNK):
        rows = slice(start, start + _CHUNK)
        estimated = _estimated_rows(design, matrix[rows])
        cross += estimated.T @ (weights[rows] * target[rows]) / total
        for m, multiplier in enumerate(multipliers):
            share = weights[rows] * multiplier[rows] / total
            mean[m] += estimated.T @ share
            product = (estimated * share[:, None]).T @ estimated
            for column in design.categorical:
                # Products of estimates from one draw of the noise are not unbiased; those of the entries are.
                places = sorted({place for entries in column.entries for place, _ in entries})
                own = _entries(column, len(design.parameters))[:, places]
                outer = np.einsum("ai,aj->aij", own, own).reshape(len(own), -1)
                counts = np.bincount(
                    matrix[rows, column.column].astype(int), share, minlength=len(column.noise.outputs)
                )
                block = counts @ weights_of(column) @ outer
                product[np.ix_(places, places)] = block.reshape(len(places), -1)
            gram[m] += product
    at = [part.parameter for part in design.linear]
    places = [part.column for part in design.linear]
    for m, multiplier in enumerate(multipliers):
        gram[m][np.ix_(at, at)] -= covariance[np.ix_(places, places)] * float(weights @ multiplier / total)
    square = float(weights @ target**2 / total)
    return _Moments(gram, mean, cross, square, total**2 / float(weights @ weights))


def _entries(column: Any, size: int) -> FloatArray:
    rows = np.zeros((len(column.entries), size))
    for code, entries in enumerate(column.entries):
        for place, value in entries:
            rows[code, place] = value
    return rows


def _estimated_rows(design: Design, matrix: FloatArray) -> FloatArray:
    """Return unbiased estimates of the true records' design rows."""
    rows = np.zeros((len(matrix), len(design.parameters)))
    for part in design.linear:
        rows[:, part.parameter] = matrix[:, part.column]
    for column in design.categorical:
        rows += (weights_of(column) @ _entries(column, rows.shape[1]))[matrix[:, column.column].astype(int)]
    if design.intercept:
        rows[:, -1] = 1.0
    return rows


def _positive(gram: FloatArray) -> tuple[FloatArray, bool]:
    sizes, vectors = np.linalg.eigh(gram)
    floor = _LEAST * float(sizes.max())
    if not floor > 0:
        raise NoExactCorrectionError(
            "the noise hides all variation of the features: their debiased second moments are not positive. Use more "
            "records or less noise."
        )
    return (vectors * np.maximum(sizes, floor)) @ vectors.T, bool(sizes.min() < floor)
