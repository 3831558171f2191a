"""The self-consistent quadratic surrogate, an estimate in closed form.

It replaces each part of the loss by the quadratic that fits it best where scores lie, u ~ N(m, v), and solves for theta
from moments of the released records with the noise taken out; m and v, the debiased mean and variance of the score at
theta, close the circle. It is right for normal scores, and for no others: solvers take the pilot of
`symdebias.solvers.pilot`.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp

from symdebias._arrays import FloatArray, require_squares
from symdebias._domains import NON_NEGATIVE
from symdebias.codegen.numeric import numeric
from symdebias.corrected import CorrectedLoss, require_corrected
from symdebias.correction import Correction
from symdebias.exceptions import DivergenceError, NoExactCorrectionError
from symdebias.solvers.moments import moments_of
from symdebias.transforms.quadrature import hermite

# Rounds of the fixed point, and how far v may run: scores beyond +-50 mean that nothing holds theta back.
_ROUNDS, _WIDEST = 100, 2_500.0
# Rounds before steps are halved, and the relative change of the last round with which a pilot may be used.
_FULL_STEPS, _SETTLED = 8, 1e-3
# The least eigenvalue of the debiased Gram matrix, relative to the largest.
_LEAST = 1e-3


@dataclass(frozen=True)
class QuadraticPilot:
    """What the quadratic surrogate says of the data.

    Attributes
    ----------
    theta : array of shape (q,), float64
        The parameters.
    score_variance : float
        The noise variance of the score at theta, over the noise of all columns.
    signal_variance : float
        The mean square of the true score (of the true residual, for a residual loss).
    records : float
        The sample size; with weights (sum w)^2/(sum w^2).
    clipped : bool
        Whether the debiased Gram matrix had to be clipped to a positive definite one.
    gram : array of shape (q, q), float64
        The debiased and clipped Gram matrix, the mean of x x' over true records.

    Examples
    --------
    >>> import numpy as np
    >>> import symdebias as sd
    >>> X = np.random.default_rng(0).uniform(-1, 1, (5_000, 1))
    >>> noised = sd.Release(sd.GaussianMechanism.from_scale(0.3)).privatize(X, X[:, 0], random_state=1)
    >>> corrected = sd.debias(sd.losses.least_squares(), noised.release)
    >>> pilot = sd.quadratic.quadratic_pilot(corrected, noised.X, noised.y)
    >>> pilot.theta.round(1), pilot.clipped
    (array([1.]), False)
    """

    theta: FloatArray
    score_variance: float
    signal_variance: float
    records: float
    clipped: bool
    gram: FloatArray


def quadratic_pilot(
    corrected: CorrectedLoss, X: Any, y: Any, *, l2: float = 0.0, sample_weight: Any = None, noise_scale: Any = None
) -> QuadraticPilot:
    """Return the self-consistent quadratic surrogate's estimate.

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
        A free-form loss with a hidden score has no such estimate. Or the noise hides all variation of the
        features.
    DivergenceError
        The pilot runs away: too few records for their noise, or labels that a hyperplane separates.

    Examples
    --------
    >>> import numpy as np
    >>> import symdebias as sd
    >>> X = np.random.default_rng(0).uniform(-1, 1, (5_000, 1))
    >>> noised = sd.Release(sd.GaussianMechanism.from_scale(0.3)).privatize(X, X[:, 0], random_state=1)
    >>> corrected = sd.debias(sd.losses.least_squares(), noised.release)
    >>> quadratic_pilot(corrected, noised.X, noised.y).theta.round(1)
    array([1.])
    """
    require_corrected(corrected)
    if not corrected.declared.scores:
        raise NoExactCorrectionError(
            "a free-form loss has no pilot estimate. Declare it in its score, or call corrected.resolve(radius=, "
            "score_variance=, n=)."
        )
    l2 = NON_NEGATIVE.check("l2", l2)
    records = corrected.records(X, y, sample_weight=sample_weight, noise_scale=noise_scale)
    records.require_finite()
    require_squares(records.target, "y")
    correction, parts = records.correction, corrected.surrogate_parts
    design, covariance = correction.design, correction.noise_covariance(records.present_scales)
    multipliers = [
        None
        if parts.is_residual or part.multiplier == sp.Integer(1)
        else np.ascontiguousarray(estimated_multiplier(correction, part.multiplier, records.arrays[1]))
        for part in parts.parts
    ]
    bent = [not (part.function == 0 and sp.degree(part.exact, parts.variable) <= 1) for part in parts.parts]
    moments = moments_of(design, records.matrix, records.target, records.weights, covariance, multipliers, bent)
    gram, clipped = _positive(moments.gram[0], penalised=l2 > 0)
    centre = moments.mean[0]
    penalty = correction.penalty(l2)
    theta: FloatArray = np.zeros(len(gram))
    # Residuals are as large as the target is.
    unit = moments.target_square if parts.is_residual and moments.target_square > 0 else 1.0
    middle, v = 0.0, unit
    nodes, chances = hermite(64)
    slopes = [numeric(sp.diff(part.exact, parts.variable), (parts.variable,)) for part in parts.parts]
    moved, widest, norm = math.inf, 0.0, 0.0
    for turn in range(_ROUNDS):
        points = middle + nodes * math.sqrt(v)
        left, right = np.diag(penalty), np.zeros(len(gram))
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
        signal = min(float(wanted), _WIDEST * unit)
        if signal > widest:
            widest, norm = signal, float(np.linalg.norm(theta))
        at = 0.0 if parts.is_residual else float(centre @ theta)
        spread = max(signal - at**2, 1e-4 * unit)
        moved = max(abs(spread - v) / spread, abs(at - middle) / (1 + abs(at)))
        # Where full steps go to and fro between two points, half steps settle between them.
        share = 1.0 if turn < _FULL_STEPS else 0.5
        middle, v = middle + share * (at - middle), v * (spread / v) ** share
        if moved <= 1e-8:
            break
    # Where it comes back from there and leaves again, rounding would say at which of both it stands at the end.
    if (widest if moved > _SETTLED else signal) >= _WIDEST * unit:
        raise DivergenceError(
            f"the pilot estimate runs away (||theta|| = {norm:.4g}): nothing in {records.present:,} "
            "records holds theta back. Use more records, raise l2, or release with less noise."
        )
    if moved > _SETTLED:
        raise DivergenceError(
            "the pilot estimate does not settle: no quadratic fits the loss where its own parameters put the scores. "
            "Scale the features down, raise l2, or give m_estimate a start."
        )
    return QuadraticPilot(
        theta,
        float(theta @ design.released_covariance(covariance) @ theta),
        max(signal, 1e-4 * unit),
        moments.records,
        clipped,
        gram,
    )


def estimated_multiplier(correction: Correction, expression: sp.Expr, target: FloatArray) -> FloatArray:
    """Return unbiased estimates, from released targets, of what true targets multiply a part of a loss with.

    Parameters
    ----------
    correction : Correction
        That of the loss.
    expression : sympy.Expr
        The multiplier, as of `SurrogatePart`.
    target : array of shape (n,), float64
        Released targets.

    Returns
    -------
    array of shape (n,), float64
        One for each record.
    """
    parts = correction.surrogate_parts
    labelled = parts.labelled
    known: dict[sp.Symbol, Any] = {parts.target: target}
    if labelled.table is not None:
        codes = correction.codes_of_targets(target)
        known |= {symbol: labelled.table[codes, place] for place, symbol in enumerate(labelled.symbols)}
    known |= {symbol: labelled.gain for symbol in expression.free_symbols if symbol not in known}
    names = tuple(symbol for symbol in known if symbol in expression.free_symbols)
    if not names:
        # One number for all of them takes no room.
        return np.broadcast_to(float(expression), len(target))
    return np.array(numeric(expression, names)(*(known[name] for name in names)), dtype=float)


def _positive(gram: FloatArray, *, penalised: bool) -> tuple[FloatArray, bool]:
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
