"""A pilot estimate for surrogates: the self-consistent quadratic surrogate, in closed form.

A surrogate is designed for a range of scores and a noise level, and both depend on the parameters. The pilot
replaces each part of the loss by the quadratic that fits it best where scores lie, u ~ N(m, v), and solves for theta
from moments of the released records with the noise taken out; m and v, the debiased mean and variance of the score at
theta, close the circle.
"""

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp

from symdebias._arrays import check_same_index, weights_array
from symdebias.codegen.parallel import CHUNK
from symdebias.corrected import CorrectedLoss
from symdebias.derivation.configurations import entry_rows, released_covariance, weights_of
from symdebias.exceptions import DivergenceError, NoExactCorrectionError
from symdebias.release import Design
from symdebias.transforms.certificate import numeric

FloatArray = np.ndarray[Any, np.dtype[np.float64]]

# Rounds of the fixed point, and how far v may run: scores beyond +-50 mean that nothing holds theta back.
_ROUNDS, _WIDEST = 100, 2_500.0
# Rounds before steps are halved, and the relative change of the last round with which a pilot may be used.
_FULL_STEPS, _SETTLED = 8, 1e-3
# What the squared error of a surrogate's slope counts in a fit beside its variance. Most of it oscillates about zero
# and averages out over scores; what does not is held down by itself (measured in benchmarks/surrogates.py).
_SQUARED_ERROR = 0.005
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
        The mean square of the true score (of the true residual, for a residual loss).
    radius : float
        The range for a surrogate, 2 sqrt(signal_variance).
    records : float
        The sample size; with weights (sum w)^2/(sum w^2).
    clipped : bool
        Whether the debiased Gram matrix had to be clipped to a positive definite one.
    gram : array of shape (q, q), float64
        The debiased and clipped Gram matrix, the mean of x x' over true records.
    """

    theta: FloatArray
    score_variance: float
    signal_variance: float
    radius: float
    records: float
    clipped: bool
    gram: FloatArray

    def resolved(self, corrected: CorrectedLoss, growth: float = 1.0) -> CorrectedLoss:
        """Return a surrogate designed for this pilot, or for parameters sqrt(growth) times as long."""
        return corrected.resolve(
            radius=self.radius * math.sqrt(growth),
            score_variance=self.score_variance * growth,
            n=max(1.0, _SQUARED_ERROR * self.records),
        )

    def as_diagnostics(self) -> dict[str, Any]:
        """Return what a fit reports of its pilot."""
        return {
            "theta": self.theta,
            "score_variance": self.score_variance,
            "signal_variance": self.signal_variance,
            "gram_clipped": self.clipped,
        }


@dataclass(frozen=True)
class _Moments:
    """Unbiased moments of true records: plain ones first, then one entry for each multiplier."""

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
    check_same_index(X, y, sample_weight=sample_weight, noise_scale=noise_scale)
    matrix = corrected.release.design_matrix(X, check_finite=True)
    target = corrected.checked_target(y, len(matrix))
    weights = np.zeros(0) if sample_weight is None else weights_array(sample_weight, rows=len(matrix))
    return pilot_of(corrected, matrix, target, weights, l2=l2, noise_scale=noise_scale)


def pilot_of(
    corrected: CorrectedLoss,
    matrix: FloatArray,
    target: FloatArray,
    weights: FloatArray,
    *,
    l2: float,
    noise_scale: Any,
) -> Pilot:
    """Return the pilot estimate from checked records; see `quadratic_pilot`.

    Parameters
    ----------
    corrected : CorrectedLoss
        A loss of one score.
    matrix : array of shape (n, p), float64
        What `symdebias.release.Release.design_matrix` returned.
    target : array of shape (n,), float64
        What `CorrectedLoss.checked_target` returned.
    weights : array of shape (n,) or (0,), float64
        Weights; empty where all records weigh the same.
    l2, noise_scale
        As for `quadratic_pilot`.
    """
    parts = corrected.surrogate_parts
    columns = matrix.shape[1]
    design = corrected.release.design(columns)
    covariance = corrected.noise_covariance(columns, noise_scale, len(matrix))
    multipliers = [
        None
        if parts.is_residual or part.multiplier == sp.Integer(1)
        else _multiplier(corrected, part.multiplier, target)
        for part in parts.parts
    ]
    bent = [not (part.function == 0 and sp.degree(part.exact, parts.variable) <= 1) for part in parts.parts]
    moments = _moments(design, matrix, target, weights, covariance, multipliers, bent)
    gram, clipped = _positive(moments.gram[0], penalised=l2 > 0)
    centre = moments.mean[0]
    size = len(gram)
    penalty = np.full(size, l2)
    if corrected.release.fit_intercept:
        penalty[-1] = 0.0
    theta: FloatArray = np.zeros(size)
    middle, v = 0.0, 1.0
    nodes, chances = _normal_rule()
    slopes = [_slope(part.exact, parts.variable) for part in parts.parts]
    moved = math.inf
    for turn in range(_ROUNDS):
        points = middle + nodes * math.sqrt(v)
        left, right = np.diag(penalty), np.zeros(size)
        for part, slope_of, multiplied, mean in zip(
            parts.parts, slopes, moments.gram[1:], moments.mean[1:], strict=True
        ):
            slope = part.numbers.slope(points) + slope_of(points)
            first = float(slope @ chances)
            # E (u - m) f'(u)/v = E f''(u) for a normal score (Stein), and so E x f'(u) for normal records.
            second = float(((points - middle) * slope) @ chances) / v
            if parts.is_residual:
                left, right = left + second * gram, right + second * moments.cross
                continue
            # A multiplier of 1 has the Gram matrix itself, made positive definite.
            left = left + second * (gram if part.multiplier == sp.Integer(1) else multiplied)
            right = right - (first - second * middle) * mean
        theta = np.asarray(np.linalg.lstsq(left, right, rcond=1e-12)[0], dtype=np.float64)
        if parts.is_residual:
            noise = parts.target_noise
            own = 0.0 if noise is None else noise.variance
            wanted = theta @ gram @ theta - 2 * theta @ moments.cross + moments.target_square - own
        else:
            wanted = theta @ gram @ theta
        signal = min(float(wanted), _WIDEST)
        at = 0.0 if parts.is_residual else float(centre @ theta)
        spread = max(signal - at**2, 1e-4)
        moved = max(abs(spread - v) / spread, abs(at - middle) / (1 + abs(at)))
        # Where full steps go to and fro between two points, half steps settle between them.
        share = 1.0 if turn < _FULL_STEPS else 0.5
        middle, v = middle + share * (at - middle), v * (spread / v) ** share
        if moved <= 1e-8:
            break
    if signal >= _WIDEST:
        raise DivergenceError(
            f"the pilot estimate runs away (||theta|| = {np.linalg.norm(theta):.4g}): nothing in {len(matrix):,} "
            "records holds theta back. Use more records, raise l2, or release with less noise."
        )
    if moved > _SETTLED:
        raise DivergenceError(
            "the pilot estimate does not settle: no quadratic fits the loss where its own parameters put the scores. "
            "Scale the features down, raise l2, or give m_estimate a start."
        )
    return Pilot(
        theta,
        float(theta @ released_covariance(design, covariance) @ theta),
        max(signal, 1e-4),
        _RANGE * math.sqrt(max(signal, 1e-4)),
        moments.records,
        clipped,
        gram,
    )


def debiased_moments(corrected: CorrectedLoss, X: Any, y: Any) -> tuple[FloatArray, FloatArray]:
    """Return unbiased estimates of mean(x) and mean(x x') over true records, intercept included.

    Parameters
    ----------
    corrected : CorrectedLoss
        Of the release that the records come from.
    X, y
        Released records.

    Raises
    ------
    NoExactCorrectionError
        There are columns of categories, which have no normal moments.
    """
    matrix, target, weights = corrected.checked_records(X, y)
    design = corrected.release.design(matrix.shape[1])
    if design.categorical:
        raise NoExactCorrectionError(
            "columns of categories are not drawn from their moments. Guess a population, and give it to Population."
        )
    covariance = corrected.noise_covariance(matrix.shape[1])
    moments = _moments(design, matrix, target, weights, covariance, [], [])
    return moments.mean[0], moments.gram[0]


def second_moments(
    corrected: CorrectedLoss, matrix: FloatArray, target: FloatArray, weights: FloatArray, noise_scale: Any
) -> FloatArray | None:
    """Return the debiased and clipped mean of x x' over true records, or None for losses that have no use for it.

    Parameters
    ----------
    corrected, matrix, target, weights, noise_scale
        As for `pilot_of`.
    """
    if corrected.design is None or not corrected.declared.scores:
        return None
    columns = matrix.shape[1]
    covariance = corrected.noise_covariance(columns, noise_scale, len(matrix))
    moments = _moments(corrected.release.design(columns), matrix, target, weights, covariance, [], [])
    return _positive(moments.gram[0])[0]


@functools.cache
def _normal_rule() -> tuple[FloatArray, FloatArray]:
    """Return nodes and weights for means over a standard normal variable."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(64)
    return nodes, weights / weights.sum()


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
    multipliers: list[FloatArray | None],
    bent: list[bool],
) -> _Moments:
    """Return unbiased estimates of mean(M x x'), mean(M x) and mean(x y) over true records.

    A multiplier None stands for 1. Where a part is not bent nobody asks for mean(M x x'), and zeros stand for it.
    """
    size = len(design.parameters)
    total = float(weights.sum()) if len(weights) else float(len(matrix))
    wanted = [(None, True), *zip(multipliers, bent, strict=True)]
    grams = [np.zeros((size, size)) for _ in wanted]
    means = [np.zeros(size) for _ in wanted]
    masses = [0.0 for _ in wanted]
    cross, square = np.zeros(size), 0.0
    for start in range(0, len(matrix), CHUNK):
        rows = slice(start, start + CHUNK)
        estimated = _estimated_rows(design, matrix[rows])
        weight = weights[rows] if len(weights) else None
        for place, (multiplier, curved) in enumerate(wanted):
            if multiplier is None and place > 0:
                continue
            share = _times(weight, None if multiplier is None else multiplier[rows])
            means[place] += (np.ones(len(estimated)) if share is None else share) @ estimated
            masses[place] += float(len(estimated) if share is None else share.sum())
            if curved:
                grams[place] += _product(design, matrix[rows], estimated, share)
        weighted = target[rows] if weight is None else weight * target[rows]
        cross += weighted @ estimated
        square += float(weighted @ target[rows])
    at = [part.parameter for part in design.linear]
    places = [part.column for part in design.linear]
    for place, (multiplier, _) in enumerate(wanted):
        if multiplier is None and place > 0:
            grams[place], means[place], masses[place] = grams[0], means[0], masses[0]
    noise = covariance[np.ix_(places, places)]
    found = []
    for gram, mass in zip(grams, masses, strict=True):
        debiased = gram.copy()
        debiased[np.ix_(at, at)] -= noise * mass
        found.append(debiased / total)
    records = total**2 / float(weights @ weights) if len(weights) else total
    return _Moments(found, [mean / total for mean in means], cross / total, square / total, records)


def _times(left: FloatArray | None, right: FloatArray | None) -> FloatArray | None:
    if left is None or right is None:
        return right if left is None else left
    return np.asarray(left * right)


def _product(design: Design, matrix: FloatArray, estimated: FloatArray, share: FloatArray | None) -> FloatArray:
    """Return the sum of share x x', an unbiased one within a column of categories as well."""
    product: FloatArray = (estimated if share is None else estimated * share[:, None]).T @ estimated
    for column in design.categorical:
        # Products of estimates from one draw of the noise are not unbiased; those of the entries are.
        places = sorted({place for entries in column.entries for place, _ in entries})
        own = entry_rows(column, len(design.parameters))[:, places]
        outer = np.einsum("ai,aj->aij", own, own).reshape(len(own), -1)
        counts = np.bincount(matrix[:, column.column].astype(int), share, minlength=len(column.noise.outputs))
        block = counts @ weights_of(column) @ outer
        product[np.ix_(places, places)] = block.reshape(len(places), -1)
    return product


def _estimated_rows(design: Design, matrix: FloatArray) -> FloatArray:
    """Return unbiased estimates of the true records' design rows."""
    if [part.column for part in design.linear] == list(range(len(design.parameters))):
        return matrix
    rows = np.zeros((len(matrix), len(design.parameters)))
    for part in design.linear:
        rows[:, part.parameter] = matrix[:, part.column]
    for column in design.categorical:
        rows += (weights_of(column) @ entry_rows(column, rows.shape[1]))[matrix[:, column.column].astype(int)]
    if design.intercept:
        rows[:, -1] = 1.0
    return rows


def _positive(gram: FloatArray, *, penalised: bool = False) -> tuple[FloatArray, bool]:
    sizes, vectors = np.linalg.eigh(gram)
    floor = _LEAST * float(sizes.max())
    if not floor > 0 and penalised:
        return np.zeros_like(gram), True
    if not floor > 0:
        raise NoExactCorrectionError(
            "the noise hides all variation of the features: their debiased second moments are not positive. Use more "
            "records or less noise."
        )
    return (vectors * np.maximum(sizes, floor)) @ vectors.T, bool(sizes.min() < floor)
