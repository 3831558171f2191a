"""The variance of a corrected loss and of its gradient over the noise."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp

from symdebias._arrays import FloatArray
from symdebias._domains import check_choice
from symdebias.assessment.kernel_bias import encoded, nodes_for, released_records
from symdebias.assessment.noise_bias import in_target, mean_over_target
from symdebias.assessment.score_bias import TargetNoise
from symdebias.assessment.tails import reached, tails_of
from symdebias.bounds.suprema import Piece, supremum
from symdebias.codegen import stable
from symdebias.codegen.numeric import numeric
from symdebias.correction import Correction
from symdebias.declared import DeclaredLoss
from symdebias.derivation import Exact, Series, Uncorrected
from symdebias.exceptions import InfiniteVarianceError, NoExactCorrectionError
from symdebias.noise import AdditiveNoise, ChannelNoise, exactly
from symdebias.transforms import heat

# The share by which a proved bound may lie above what it bounds, and boxes at a time to prove it on.
_CLOSE, _MOST_BOXES = 1e-2, 150_000


@dataclass(frozen=True)
class ClosedVariance:
    """The variance of a corrected loss of one score under normal noise, in closed form."""

    loss: sp.Expr  # The variance of the loss: of the score u, the true target, ``s``, ``t`` and ``c``.
    gradient: sp.Expr  # The trace of the covariance of the gradient: of these and of the four symbols below.
    # ``xx`` = ||x||^2, ``xv`` = x'D theta, ``vv`` = ||D theta||^2 and ``d`` = tr D.
    norms: tuple[sp.Symbol, sp.Symbol, sp.Symbol, sp.Symbol]
    conditions: tuple[sp.Rel, ...]  # What must hold for it to be finite.
    label: sp.Expr  # What the noise of the target alone makes of the gradient's, in units of xx.


@functools.lru_cache(maxsize=64)
def closed_variance(correction: Correction) -> ClosedVariance | None:
    """Return the variance of a corrected loss of one score under normal noise, label noise included.

    With W the mean over the noise of the score, A = G_u and B = -2 G_s,

        Var G = W[E G^2] - M^2
        tr Cov = (xx + d) W[A^2] + 2 xv W[A^2]' + vv W[A^2]'' - 2 xv W[AB] - 2 vv W[AB]' + vv W[B^2]
                 - xx m^2 - 2 xv m r - vv r^2

    with the means M = W[G], m = W[A] and r = W[A]' - W[B]: the gradient has the mean x m + D theta r. Of an exact
    correction they are F, F_u and 0; of a truncated series or of no correction they are not, as it has a bias.

    It is None where there is no closed form.

    References
    ----------
    Dufraiche et al. 2026, Appendix D.4, whose two examples are second moments and not variances.
    """
    if not correction.is_simple or not isinstance(correction.method, (Exact, Series, Uncorrected)):
        return None
    try:
        return _closed(correction)
    except NoExactCorrectionError:
        return None


def _closed(correction: Correction) -> ClosedVariance:
    declared, release, derivation = correction.loss, correction.release, correction.derivation
    program, symbols = correction.program, derivation.symbols
    u, s = program.scores[0], symbols.score_variance
    corrected = stable.plain(program.expression)
    slope, curvature = sp.diff(corrected, u), -2 * sp.diff(corrected, s)
    conditions: list[sp.Rel] = []

    def mean(expression: sp.Expr) -> sp.Expr:
        labelled, needed = mean_over_target(declared, release, expression, symbols)
        conditions.extend(needed)
        if not np.any(correction.design.covariance):
            return labelled
        # The s in the expression is a constant here, and that of the transform a variance.
        fixed = sp.Dummy("s", positive=True)
        flowed = heat(labelled.xreplace({s: fixed}), u, s)
        conditions.extend(condition.xreplace({fixed: s}) for condition in flowed.conditions)
        return flowed.expression.xreplace({fixed: s})

    level = in_target(declared, declared.expression, declared.target)
    rise, rest = sp.diff(level, u), sp.Integer(0)
    if not isinstance(correction.method, Exact):
        level, rise = mean(corrected), mean(slope)
        rest = sp.diff(rise, u) - mean(curvature)
    square, cross, bend = mean(slope**2), mean(slope * curvature), mean(curvature**2)
    xx, xv, vv, d = (sp.Symbol(name, real=True) for name in ("xx", "xv", "vv", "d"))
    gradient = (xx + d) * square + 2 * xv * sp.diff(square, u) + vv * sp.diff(square, u, 2)
    gradient += -2 * xv * cross - 2 * vv * sp.diff(cross, u) + vv * bend
    gradient -= xx * rise**2 + 2 * xv * rise * rest + vv * rest**2
    label: sp.Expr = sp.Integer(0)
    if release.target_noise is not None:
        first, second = (
            mean_over_target(declared, release, power.xreplace({s: sp.Integer(0)}), symbols)[0]
            for power in (slope, slope**2)
        )
        label = second - first**2
    variance = mean(corrected**2) - level**2
    return ClosedVariance(variance, gradient, (xx, xv, vv, d), tuple(dict.fromkeys(conditions)), label)


def variances(
    correction: Correction, theta: FloatArray, matrix: FloatArray, targets: FloatArray, *, of: str
) -> FloatArray:
    """Return the variance over the noise of the corrected loss, or the trace of that of its gradient, for true records.

    Columns of categories, and a target that a channel noises, hold codes.
    """
    check_choice("of", of, ("loss", "gradient"))
    closed = closed_variance(correction)
    if closed is not None:
        return _closed_variances(correction, closed, theta, matrix, targets, of)
    found = [
        noise_moment(correction, theta, record, code, _about_mean, of=of)
        for record, code in zip(matrix, targets, strict=True)
    ]
    if None in found:
        raise InfiniteVarianceError(
            "the variance is infinite at this theta, or so nearly so that it is decided by noise farther out than it "
            "is integrated over. Use smaller parameters, or less noise."
        )
    return np.array(found, dtype=float)


def _closed_variances(
    correction: Correction,
    closed: ClosedVariance,
    theta: FloatArray,
    matrix: FloatArray,
    targets: FloatArray,
    of: str,
) -> FloatArray:
    truth = DeclaredLoss(correction.loss, correction.release)
    rows = correction.design.rows(matrix)
    count = correction.columns
    covariance = np.zeros((len(theta), len(theta)))
    covariance[:count, :count] = correction.design.covariance
    v = covariance @ theta
    symbols = correction.derivation.symbols
    known = {symbols.score_variance: float(theta @ v), **_target_constants(correction)}
    _require_conditions(closed, known, known[symbols.score_variance])
    norms = np.sum(rows**2, axis=1), rows @ v, float(v @ v), float(np.trace(covariance))
    names: dict[sp.Symbol, Any] = {
        correction.loss.scores[0]: rows @ theta,
        correction.loss.target: np.array([truth.target(code) for code in targets]),
        **known,
        **dict(zip(closed.norms, norms, strict=True)),
    }
    values = evaluated(closed.loss if of == "loss" else closed.gradient, names)
    # Where it vanishes, rounding may leave a negative zero.
    return np.asarray(np.maximum(np.broadcast_to(values, (len(matrix),)), 0.0))


def _require_conditions(closed: ClosedVariance, known: dict[sp.Symbol, float], level: float) -> None:
    """Raise InfiniteVarianceError where the variance is infinite at these values, the noise level among them."""
    for condition in closed.conditions:
        if condition.xreplace({name: sp.Float(value, 17) for name, value in known.items()}) != sp.true:
            raise InfiniteVarianceError(
                f"the variance is infinite at this theta: a finite one needs {condition}, and the noise variance of "
                f"the score is s = {level:.4g}. Use smaller parameters, or less noise."
            )


def _target_constants(correction: Correction) -> dict[sp.Symbol, float]:
    """Return the noise variance of the target and the gain of the label estimate, those of the release.

    A derivation has neither where nothing is undone: where the loss is affine in the target, and its noise of mean 0
    needs no correction, or where none is asked for.
    """
    symbols, noise = correction.derivation.symbols, correction.release.target_noise
    variance = noise.variance if isinstance(noise, AdditiveNoise) else 0.0
    gain = 1 / (2 * noise.matrix[0][0] - 1) if isinstance(noise, ChannelNoise) else 1.0
    return {symbols.target_variance: variance, symbols.gain: float(gain)}


def _about_mean(values: FloatArray, weights: FloatArray) -> FloatArray:
    return np.asarray(weights * np.sum((values - weights @ values) ** 2, axis=1))


def variance_bound(correction: Correction, *, theta_radius: float) -> float:
    """Return a bound on the variance of the corrected gradient; see `CorrectedLoss.variance_bound`.

    It is sup V(0) + sigma^2 sup dV/dr, with V(r) the trace of the gradient's covariance at noise variance r, and
    dV/dr = W_r ||W_r^-1 grad_theta grad_x loss||^2 (the heat equation): the bound of Theorem 5.3 with the supremum
    taken where it belongs, after the means. The printed bound takes it over bounded records and uses it under W_r,
    which integrates over all of R^p: it fails already for the exponential loss.

    Parameters
    ----------
    correction : Correction
        The correction.
    theta_radius : float
        Largest ||theta||, positive.
    """
    closed, columns = closed_variance(correction), correction.columns
    covariance = correction.design.covariance
    variance = float(covariance[0, 0])
    if closed is None or np.any(covariance - variance * np.eye(columns)) or correction.release.fit_intercept:
        raise NoExactCorrectionError(
            "the bound is derived for exact corrections with a closed variance, under the same normal noise on all "
            "columns and without an intercept. Use variance() at the parameters in question."
        )
    if not variance * theta_radius**2 < correction.limits.finite_variance:
        raise InfiniteVarianceError(
            f"within ||theta|| <= {theta_radius:g} the corrected gradient has infinite variance. Use a smaller ball."
        )
    constants = _target_constants(correction)
    symbols = correction.derivation.symbols
    most = variance * theta_radius**2
    _require_conditions(closed, {symbols.score_variance: most, **constants}, most)
    u, y = correction.loss.scores[0], correction.loss.target
    # The record's length is that of the domain, or as short as its score allows: V is linear in its square.
    length, norm = _exact(correction.release.record_radius(columns)), _exact(theta_radius)
    share, cosine, level, place = (sp.Dummy(name, real=True) for name in ("share", "cosine", "level", "place"))
    score, tt, r = cosine * share * length * norm, (share * norm) ** 2, level * _exact(variance)
    xx, xv, vv, d = closed.norms
    noise = TargetNoise.of(correction.loss, correction.release)
    targets: list[tuple[sp.Expr, int]] = [(_exact(target), 0) for target in noise.targets]
    if noise.between:
        targets = [(_exact(max(noise.targets)) * place, 1)]
    whole, label = (exactly(stable.plain(expression)) for expression in (closed.gradient, closed.label))
    start = largest = 0.0
    for target, varies in targets:
        for square in (length**2, (cosine * length) ** 2):
            known = {
                symbols.score_variance: r * tt, xv: r * score, vv: r**2 * tt, d: columns * r, xx: square, u: score,
                y: target, **{name: _exact(value) for name, value in constants.items()},
            }  # fmt: skip
            free = (share, cosine, *([place] if varies else []))
            start = max(start, _proved((square * label).xreplace(known), free))
            if variance > 0:
                largest = max(largest, _proved(sp.diff(whole.xreplace(known), level), (*free, level)))
    return start + largest


def _exact(value: float) -> sp.Expr:
    return exactly(sp.Float(value, 17))


def _proved(expression: sp.Expr, variables: tuple[sp.Symbol, ...]) -> float:
    """Return an upper bound over cosines and places in [-1, 1], shares and levels in [0, 1].

    Raises
    ------
    NoExactCorrectionError
        None was proved.
    """
    lows = tuple(sp.Integer(0 if variable.name in ("share", "level") else -1) for variable in variables)
    piece = Piece(expression, variables, lows, (sp.Integer(1),) * len(variables))
    try:
        found = supremum(expression, piece, precision=_CLOSE, most_boxes=_MOST_BOXES)
    except ValueError:
        found = None
    if found is None:
        raise NoExactCorrectionError(
            "no bound was proved: interval arithmetic does not settle for this loss on this domain. Use variance() at "
            "the parameters in question, or a smaller ball."
        )
    return found


def noise_moment(
    correction: Correction,
    theta: FloatArray,
    record: FloatArray,
    target: float,
    parts: Callable[[FloatArray, FloatArray], FloatArray],
    *,
    of: str,
) -> float | None:
    """Return a moment over the noise of the corrected loss or gradient of a true record, codes for categories.

    `parts` takes values of shape (m, 1) or (m, Q) and their weights, and returns what each adds to the moment. It is
    None where the noise farthest out adds more than next to nothing: the moment is infinite, or nearly so.

    Raises
    ------
    NoExactCorrectionError
        There are too many noised columns at once.
    """
    release, kernels, noise = correction.release, correction.kernels, correction.noise
    nodes = nodes_for(release, len(record))
    if nodes is None:
        raise NoExactCorrectionError(
            "there are too many noised columns to integrate over at once. Estimate it from released records: "
            "corrected.gradient(theta, X, y).var(axis=0)."
        )

    def at(far: bool) -> tuple[FloatArray, list[FloatArray]]:
        seen = released_records(release, record, target, nodes=nodes, far=far)
        X, y = encoded(correction, seen.X, seen.y)
        values = np.empty((len(X), 1 if of == "loss" else len(theta)))
        if of == "loss":
            kernels.loss(theta, X, y, noise, values[:, 0])
        else:
            kernels.gradient(theta, X, y, noise, values)
        with np.errstate(over="ignore", invalid="ignore"):
            found = parts(values, seen.weights)
        return tails_of(release, record, target, seen, nodes=nodes), [found]

    found = reached(at)
    return None if found is None else found[0]


def evaluated(expression: sp.Expr, names: dict[sp.Symbol, FloatArray | float]) -> FloatArray:
    """Return an expression at numbers and arrays."""
    symbols = tuple(names)
    return numeric(expression, symbols)(*names.values())
