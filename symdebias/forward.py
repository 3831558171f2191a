"""The forward side: what noise does to a loss that is left uncorrected, and the variance of a corrected one.

The bias of an uncorrected loss splits into label, feature and interaction part ([IWP] Theorem 4.2): with B the mean
over the released target and W that over the released features, B W F - F = (B - 1) F + (W - 1) F + (B - 1)(W - 1) F.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp
from numpy.typing import ArrayLike

from symdebias._arrays import parameter_array
from symdebias.certification import DeclaredLoss, released_records
from symdebias.codegen import stable
from symdebias.codegen.kernels import Kernels
from symdebias.codegen.numeric import numeric
from symdebias.codegen.score.configurations import Configurations
from symdebias.codegen.score.constants import LabelTable
from symdebias.codegen.score.factors import ColumnProduct, FactorGroup
from symdebias.codegen.score.normal import NormalNoise
from symdebias.codegen.score.program import ScoreProgram
from symdebias.derivation import Derivation, NoiseSymbols, on_labels
from symdebias.exceptions import InfiniteVarianceError, NoExactCorrectionError
from symdebias.losses import Loss
from symdebias.noise import AdditiveNoise, ChannelNoise
from symdebias.release import Release
from symdebias.transforms import affine_in_target, heat, quadrature, truncated_series

FloatArray = np.ndarray[Any, np.dtype[np.float64]]

_MOST_NODES = 300_000
# Draws of the noise that inflation is judged by.
_DRAWS = 2_000
# Where the price of an exact correction is looked at: noise variance of the score, and its range.
_REFERENCE_VARIANCE, _REFERENCE_RADIUS = 4.0, 3.0
_NODES = (64, 48, 40, 32, 28, 24, 20, 18, 16, 14, 12, 10)


@dataclass(frozen=True)
class NoiseBias:
    """What ignoring the noise does to a loss, in three parts; made by `bias`.

    Attributes
    ----------
    loss : Loss
        The declared loss.
    release : Release
        The noise that is ignored.
    label, feature, interaction : sympy.Expr or None
        The parts in closed form, in the score, the target, ``s`` (the noise variance of the score) and ``c`` (the gain
        of the label estimate; its mean shrinks by 1/c); None where there is no closed form, and only numbers.

    Examples
    --------
    >>> import symdebias as sd
    >>> release = sd.Release(sd.GaussianMechanism.from_scale(0.5), sd.RandomizedResponse(epsilon=1.0))
    >>> bias(sd.losses.squared_margin(), release).feature
    s/2
    """

    loss: Loss
    release: Release
    label: sp.Expr | None
    feature: sp.Expr | None
    interaction: sp.Expr | None

    @property
    def has_closed_form(self) -> bool:
        """Whether all three parts are known in closed form."""
        return None not in (self.label, self.feature, self.interaction)

    def __call__(self, theta: ArrayLike, X: Any, y: Any) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the parts for true records.

        Parameters
        ----------
        theta : array of shape (q,) or (K, q)
            The parameters.
        X : array of shape (n, p) or table
            True records: what `Release.privatize` takes, already centred and scaled.
        y : array of shape (n,)
            True targets.

        Returns
        -------
        label, feature, interaction : arrays of shape (n,), float64
            Their sum is the mean over the noise of the loss of the released record, less the loss of the true one.

        Raises
        ------
        NoExactCorrectionError
            There are too many noised columns for a product rule.
        ValueError, TypeError
            The data do not fit.

        Notes
        -----
        By quadrature over the noise, record by record; normal noise of all columns is one noise of the scores.
        """
        matrix = self.release.true_matrix(X)
        target = self.release.true_target(y, rows=len(matrix))
        flat = _flat(self.loss, self.release, theta, matrix.shape[1])
        parts = [_parts(self.loss, self.release, flat, row, value) for row, value in zip(matrix, target, strict=True)]
        label, feature, interaction = np.array(parts).T
        return label, feature, interaction


def bias(loss: Loss, release: Release) -> NoiseBias:
    """Return what ignoring the noise of a release does to a loss: label, feature and interaction part.

    Parameters
    ----------
    loss : Loss
        The declared loss.
    release : Release
        The noise.

    Returns
    -------
    NoiseBias
        The parts in closed form where there is one; called with (theta, X, y) it gives their numbers.

    Raises
    ------
    TypeError
        The arguments are something else.
    NoExactCorrectionError
        The target is clipped after its noise, which is not integrated over.

    References
    ----------
    Dufraiche et al. 2026 (arXiv 2602.16436), Theorem 4.2.

    Examples
    --------
    >>> import symdebias as sd
    >>> parts = bias(sd.losses.exponential(), sd.Release(sd.GaussianMechanism.from_scale(0.5)))
    >>> [part.round(6).item() for part in parts([1.0, 1.0], [[0.5, 0.0]], [1.0])]
    [0.0, 0.17227, 0.0]
    """
    if not isinstance(loss, Loss):
        raise TypeError(f"loss must be a symdebias.Loss; got {type(loss).__name__}.")
    if not isinstance(release, Release):
        raise TypeError(f"release must be a symdebias.Release; got {type(release).__name__}.")
    if release.clips_target:
        _ = release.target_noise  # says why
    loss = on_labels(loss, release)
    return NoiseBias(loss, release, *_closed_parts(loss, release))


def _closed_parts(loss: Loss, release: Release) -> tuple[sp.Expr | None, sp.Expr | None, sp.Expr | None]:
    if len(loss.scores) != 1:
        return None, None, None
    symbols = NoiseSymbols.beside(loss.expression)
    declared = loss.expression
    try:
        written = _in_target(loss, declared, loss.target)
        labelled = _mean_over_target(loss, release, written, symbols)
    except NoExactCorrectionError:
        return None, None, None
    label = sp.simplify(labelled - written)
    noises = [noise for _, noise in release.noises(_some_columns(release))]
    if not all(isinstance(noise, AdditiveNoise) and noise.is_gaussian for noise in noises):
        return label, None, None
    if not noises:
        return label, sp.Integer(0), sp.Integer(0)
    u, s = loss.scores[0], symbols.score_variance
    try:
        feature = heat(written, u, s).expression - written
        interaction = heat(labelled, u, s).expression - labelled - feature
    except NoExactCorrectionError:
        return label, None, None
    return label, sp.simplify(feature), sp.simplify(interaction)


def _some_columns(release: Release) -> int:
    known = release.number_of_columns
    return len(release.noiseless) + len(release.groups) if known is None else known


def _in_target(loss: Loss, expression: sp.Expr, target: sp.Expr) -> sp.Expr:
    if loss.target_values is not None and len(loss.target_values) == 2:
        return affine_in_target(expression, loss.target, (loss.target_values[0], loss.target_values[1]), target)
    return expression.xreplace({loss.target: target})


def _mean_over_target(loss: Loss, release: Release, expression: sp.Expr, symbols: NoiseSymbols) -> sp.Expr:
    """Return the mean of an expression of the released target over its noise, as one of the true target."""
    noise = release.target_noise
    if noise is None:
        return expression
    if isinstance(noise, ChannelNoise):
        matrix = np.array(noise.matrix)
        if matrix.shape != (2, 2) or noise.inputs != noise.outputs or matrix[0, 0] != matrix[1, 1]:
            raise NoExactCorrectionError("only symmetric channels of two values are written in closed form.")
        assert loss.target_values is not None
        low, high = (sp.nsimplify(value, rational=True) for value in loss.target_values)
        middle = (low + high) / 2
        mean = middle + (loss.target - middle) / symbols.gain
        return affine_in_target(expression, loss.target, (loss.target_values[0], loss.target_values[1]), mean)
    if not noise.is_gaussian:
        raise NoExactCorrectionError("only normal noise of the target is written in closed form.")
    return heat(expression, loss.target, symbols.target_variance).expression


# ---- numbers ---------------------------------------------------------------------------------------------


def _flat(loss: Loss, release: Release, theta: ArrayLike, columns: int) -> FloatArray:
    if not loss.scores:
        return parameter_array(theta, len(loss.parameters))
    scores = len(loss.scores)
    return parameter_array(theta, len(release.design(columns).parameters), scores).ravel()


def _parts(loss: Loss, release: Release, theta: FloatArray, record: FloatArray, target: float) -> tuple[float, ...]:
    truth = DeclaredLoss(loss, release)
    function, _ = truth.functions()
    targets, chances = _target_rule(release, target)
    value = truth.target(target)
    points, weights = _argument_rule(loss, release, theta, record)
    plain = truth.arguments(theta, record[None, :], np.array([value]))[:-1]
    still = float(np.asarray(function(*plain, np.array([value]))).reshape(-1)[0])
    label = float(np.array([function(*plain, np.array([t]))[0] for t in targets]) @ chances)
    noised = np.array([function(*points, np.full(len(weights), t)) @ weights for t in (value, *targets)])
    feature, both = float(noised[0]), float(noised[1:] @ chances)
    return label - still, feature - still, both - label - feature + still


def _target_rule(release: Release, target: float) -> tuple[FloatArray, FloatArray]:
    """Return values of the released target with their weights."""
    noise = release.target_noise
    if noise is None:
        return np.array([target]), np.ones(1)
    if isinstance(noise, ChannelNoise):
        return np.array(noise.outputs), np.array(noise.matrix[int(target)])
    points, weights = quadrature.one_dimensional(noise, 48)
    return target + points, weights


def _argument_rule(
    loss: Loss, release: Release, theta: FloatArray, record: FloatArray
) -> tuple[list[FloatArray], FloatArray]:
    """Return what the loss takes besides the target, at points of the features' noise, with weights."""
    truth = DeclaredLoss(loss, release)
    if not loss.scores:
        for nodes in _NODES:
            records = released_records(release, record, 0.0, nodes=nodes, noise_on=(True, False))
            if len(records.weights) <= _MOST_NODES:
                break
        return [*truth.features(records.X).T, *(np.full(len(records.weights), part) for part in theta)], records.weights
    scores = len(loss.scores)
    rows = theta.reshape(scores, -1)
    columns = len(record)
    base = truth.rows(record[None, :])[0]
    design = release.design(columns)
    places = [part.column for part in design.linear]
    inner = rows[:, [part.parameter for part in design.linear]]
    covariance = inner @ design.covariance[np.ix_(places, places)] @ inner.T
    for nodes in _NODES:
        rules = [_normal_rule(covariance, nodes)] if np.any(covariance) else []
        for part in design.linear:
            if part.noise is not None and not part.noise.is_gaussian and rows[:, part.parameter].any():
                points, weights = quadrature.one_dimensional(part.noise, nodes)
                rules.append(quadrature.Rule(points[:, None] * rows[:, part.parameter], weights))
        rules += [_category_rule(column, rows, base, int(record[column.column])) for column in design.categorical]
        if math.prod(len(one.weights) for one in rules) <= _MOST_NODES:
            break
    else:
        raise NoExactCorrectionError(
            "there are too many noised columns to integrate over at once. Use fewer columns without normal noise, or "
            "average over released records instead."
        )
    whole = quadrature.product(rules)
    shifts = whole.points.reshape(len(whole.weights), -1, scores).sum(axis=1)
    values = base @ rows.T + shifts
    return list(values.T), whole.weights


def _normal_rule(covariance: FloatArray, nodes: int) -> quadrature.Rule:
    t, weights = np.polynomial.hermite_e.hermegauss(nodes)
    values, vectors = np.linalg.eigh(covariance)
    kept = values > 1e-14 * values.max()
    root = vectors[:, kept] * np.sqrt(values[kept])
    grid = np.array(list(itertools.product(t, repeat=int(kept.sum()))))
    shares = np.array(list(itertools.product(weights / weights.sum(), repeat=int(kept.sum()))))
    return quadrature.Rule(grid @ root.T, shares.prod(axis=1))


def _category_rule(column: Any, rows: FloatArray, base: FloatArray, code: int) -> quadrature.Rule:
    """Return what the released category adds to the scores, less what the true one did."""
    if column.noise.inputs != column.noise.outputs:
        raise NoExactCorrectionError(
            "a channel whose outputs are not its inputs has no uncorrected loss: its outputs have no parameters."
        )
    own = np.zeros(len(base))
    for place, value in column.entries[code]:
        own[place] = value
    shifts = []
    for entries in column.entries:
        row = np.zeros(len(base))
        for place, value in entries:
            row[place] = value
        shifts.append((row - own) @ rows.T)
    return quadrature.Rule(np.array(shifts), np.array(column.noise.matrix[code]))


# ---- variance --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ClosedVariance:
    """The variance of a corrected loss of one score under normal noise, in closed form.

    Attributes
    ----------
    loss : sympy.Expr
        The variance of the loss: of the score u, the true target, ``s``, ``t`` and ``c``.
    gradient : sympy.Expr
        The trace of the covariance of the gradient: of these and of the four symbols below.
    norms : tuple of sympy.Symbol
        ``xx`` = ||x||^2, ``xv`` = x'D theta, ``vv`` = ||D theta||^2 and ``d`` = tr D.
    conditions : tuple of sympy relationals
        What must hold for it to be finite.
    """

    loss: sp.Expr
    gradient: sp.Expr
    norms: tuple[sp.Symbol, sp.Symbol, sp.Symbol, sp.Symbol]
    conditions: tuple[sp.Rel, ...]


def closed_variance(declared: Loss, release: Release, derivation: Derivation) -> ClosedVariance:
    """Return the variance of a corrected loss of one score under normal noise, label noise included.

    With W the mean over the noise of the score, A = G_u and B = -2 G_s,

        Var G = W[E G^2] - F^2
        tr Cov = (xx + d) W[A^2] + 2 xv W[A^2]' + vv W[A^2]'' - 2 xv W[AB] - 2 vv W[AB]' + vv W[B^2] - xx F_u^2

    Parameters
    ----------
    declared : Loss
        The declared loss.
    release : Release
        The release.
    derivation : Derivation
        Its exact correction.

    Raises
    ------
    NoExactCorrectionError
        There is no closed form.

    References
    ----------
    Dufraiche et al. 2026, Appendix D.4, whose two examples are second moments and not variances.
    """
    program, symbols = derivation.program, derivation.symbols
    assert isinstance(program, ScoreProgram)
    u, s = program.scores[0], symbols.score_variance
    corrected = stable.plain(program.expression)
    slope, curvature = sp.diff(corrected, u), -2 * sp.diff(corrected, s)
    conditions: list[sp.Rel] = []

    def mean(expression: sp.Expr) -> sp.Expr:
        labelled = _mean_over_target(declared, release, expression, symbols)
        if not program.having(NormalNoise):
            return labelled
        # The s in the expression is a constant here, and that of the transform a variance.
        fixed = sp.Dummy("s", positive=True)
        flowed = heat(labelled.xreplace({s: fixed}), u, s)
        conditions.extend(condition.xreplace({fixed: s}) for condition in flowed.conditions)
        return flowed.expression.xreplace({fixed: s})

    true = _in_target(declared, declared.expression, declared.target)
    square, cross, bend = mean(slope**2), mean(slope * curvature), mean(curvature**2)
    xx, xv, vv, d = (sp.Symbol(name, real=True) for name in ("xx", "xv", "vv", "d"))
    gradient = (xx + d) * square + 2 * xv * sp.diff(square, u) + vv * sp.diff(square, u, 2)
    gradient += -2 * xv * cross - 2 * vv * sp.diff(cross, u) + vv * bend - xx * sp.diff(true, u) ** 2
    return ClosedVariance(mean(corrected**2) - true**2, gradient, (xx, xv, vv, d), tuple(dict.fromkeys(conditions)))


def gradient_variance_bound(
    declared: Loss,
    derivation: Derivation,
    closed: ClosedVariance,
    *,
    variance: float,
    columns: int,
    record_radius: float,
    theta_radius: float,
    targets: tuple[float, ...],
) -> float:
    """Return sup V(0) + sigma^2 sup dV/dr, with V(r) the trace of the gradient's covariance at noise variance r.

    dV/dr = W_r ||W_r^-1 grad_theta grad_x loss||^2 (the heat equation), which makes this the bound of Theorem 5.3 with
    the supremum taken where it belongs: after the means.
    """
    symbols = derivation.symbols
    u, y, r, tt = declared.scores[0], declared.target, sp.Dummy("r", positive=True), sp.Dummy("tt", positive=True)
    xx, xv, vv, d = closed.norms
    gain, target_variance = derivation.constants["target"][1], derivation.constants["target"][0]
    total = closed.gradient.xreplace(
        {
            symbols.score_variance: r * tt, xv: r * u, vv: r**2 * tt, d: columns * r,
            symbols.gain: sp.Float(gain, 17), symbols.target_variance: sp.Float(target_variance, 17),
        }
    )  # fmt: skip
    growth = numeric(sp.diff(total, r), (u, y, xx, tt, r))
    value = numeric(total, (u, y, xx, tt, r))
    start = largest = 0.0
    grid = np.linspace(-1.0, 1.0, 41)[:, None, None]
    theta = (np.linspace(1e-6, 1.0, 24) * theta_radius)[None, :, None]
    levels = np.linspace(1e-9, 1.0, 24)[None, None, :] * variance
    for target, share in itertools.product(targets, (1.0, 0.5, 0.0)):
        norm = share * record_radius
        score = grid * norm * theta
        arguments = (score, np.array(target), np.array(norm**2), theta**2, levels)
        largest = max(largest, float(np.max(growth(*arguments))))
        start = max(start, float(np.max(value(*arguments[:-1], np.array(1e-12 * variance)))))
    return start + variance * largest


def released_values(
    release: Release,
    kernels: Kernels,
    data: Callable[[FloatArray, FloatArray], tuple[FloatArray, FloatArray]],
    noise: FloatArray,
    theta: FloatArray,
    record: FloatArray,
    target: float,
    *,
    of: str,
) -> tuple[FloatArray, FloatArray]:
    """Return the corrected loss or gradient of a record at points of its noise, with weights.

    Parameters
    ----------
    release, kernels, data, noise
        As for `symdebias.certification.kernel_biases`.
    theta : array of shape (q,), float64
        The parameters.
    record : array of shape (p,), float64
        The true record, codes for categories.
    target : float
        The true target, or the code of it.
    of : {"loss", "gradient"}
        What of.

    Returns
    -------
    values : array of shape (m, 1) or (m, q), float64
        The values.
    weights : array of shape (m,), float64
        Their weights.

    Raises
    ------
    NoExactCorrectionError
        There are too many noised columns at once.
    """
    for nodes in _NODES:
        size = _size_of(release, len(record), nodes)
        if size <= _MOST_NODES:
            break
    else:
        raise NoExactCorrectionError(
            "there are too many noised columns to integrate over at once. Estimate it from released records: "
            "corrected.gradient(theta, X, y).var(axis=0)."
        )
    records = released_records(release, record, target, nodes=nodes)
    X, y = data(records.X, records.y)
    if of == "loss":
        out = np.empty(len(X))
        kernels.loss(theta, X, y, noise, out)
        return out[:, None], records.weights
    values = np.empty((len(X), len(theta)))
    kernels.gradient(theta, X, y, noise, values)
    return values, records.weights


def _size_of(release: Release, columns: int, nodes: int) -> int:
    size = 1
    for place, noise in release.noises(columns):
        if isinstance(noise, ChannelNoise):
            size *= len(noise.outputs)
        else:
            size *= len(quadrature.one_dimensional(_single(noise), nodes)[1]) ** (place.stop - place.start)
    target = release.target_noise
    if isinstance(target, ChannelNoise):
        size *= len(target.outputs)
    elif target is not None:
        size *= len(quadrature.one_dimensional(target, nodes)[1])
    return size


def _single(noise: AdditiveNoise) -> AdditiveNoise:
    return noise if noise.covariance is None else AdditiveNoise(noise.variance, noise.characteristic_function)


def evaluated(expression: sp.Expr, names: dict[sp.Symbol, FloatArray | float]) -> FloatArray:
    """Return an expression at numbers and arrays."""
    symbols = tuple(names)
    return numeric(expression, symbols)(*names.values())


# ---- inflation -------------------------------------------------------------------------------------------


def gradient_inflation(corrected: Any, radius: float | None, score_variance: float | None) -> float:
    """Return by how much an exact correction inflates the mean square of the slope of a loss of one score.

    Parameters
    ----------
    corrected : CorrectedLoss
        An exact correction.
    radius : float or None
        Scores range over abs(u) <= radius, 3 by default.
    score_variance : float or None
        The noise variance of the score, reached by parameters to which all columns give the same share of it; 4 by
        default. Neither default depends on the units of the columns.

    Returns
    -------
    float
        The ratio of the mean squares of the corrected and of the declared slope at released scores, label noise apart;
        infinite where the variance is, and 1 where only noise with a finite operator is looked at (no score variance
        is given, and the noise is normal) or the loss has no one score.
    """
    declared, release = corrected.declared, corrected.release
    if len(declared.scores) != 1:
        return 1.0
    known = release.number_of_columns
    columns = len(release.noiseless) + 2 if known is None else known
    derivation = corrected.derivation(columns)
    program = derivation.program
    assert isinstance(program, ScoreProgram)
    summed = program.has_lookups or program.having(Configurations)
    if summed or (score_variance is None and not program.having(FactorGroup)):
        return 1.0
    noised = [part for part in release.design(columns).linear if part.noise is not None]
    theta = np.zeros(program.number_of_parameters)
    variances = release.feature_variances(columns)
    level = _REFERENCE_VARIANCE if score_variance is None else score_variance
    for part in noised:
        theta[part.parameter] = math.sqrt(level / (len(noised) * variances[part.column]))
    try:
        corrected.require_noise_within_limits(theta, columns, finite_variance=True)
    except (NoExactCorrectionError, InfiniteVarianceError):
        # Without a noise level smaller parameters may do; solvers hold theta against the limits.
        return math.inf if score_variance is not None else 1.0
    rng = np.random.default_rng(0)
    noise = np.zeros(_DRAWS)
    for part in noised:
        points, weights = quadrature.one_dimensional(_single(part.noise), 64)
        drawn = rng.choice(points, _DRAWS, p=np.maximum(weights, 0) / np.maximum(weights, 0).sum())
        noise += theta[part.parameter] * drawn
    u, y = declared.scores[0], declared.target
    symbols = derivation.symbols
    values: dict[sp.Symbol, Any] = {
        symbols.target_variance: derivation.constants["target"][0],
        symbols.gain: 1.0,
        **{symbol: 1.0 for table in program.having(LabelTable) for symbol in table.numbers},
    }
    if program.having(NormalNoise):
        values[symbols.score_variance] = corrected.normal_score_variance(theta)
    for index, group in enumerate(one for one in program.statistics if isinstance(one, ColumnProduct)):
        assert isinstance(group, FactorGroup)
        factors = group.values(theta, derivation.constants[f"factors{index}"])
        values |= {name: value for name, value in zip(group.coefficients, factors, strict=True) if name is not None}
    bound = _REFERENCE_RADIUS if radius is None else radius
    scores = np.linspace(-bound, bound, 9)[:, None] + noise
    target = declared.target_values[-1] if declared.target_values is not None else 0.0
    slope = evaluated(program.slopes[0], {u: scores, y: np.full((1, 1), target), **values})
    plain = evaluated(sp.diff(stable.rewrite(declared.expression), u), {u: scores, y: np.full((1, 1), target)})
    before = float(np.mean(plain**2))
    return float(np.mean(slope**2)) / before if before > 0 else 1.0


def series_biases(declared: Loss, *, orders: Sequence[int] = (1, 2, 3)) -> tuple[float, ...]:
    """Return the largest biases of truncated series of a smooth loss of several scores, at unit noise of each.

    Parameters
    ----------
    declared : Loss
        The loss.
    orders : sequence of int
        The orders.

    Returns
    -------
    tuple of float
        For each order the largest |E[series] - loss| found at corners, faces and the middle of scores up to 2.

    Raises
    ------
    NoExactCorrectionError
        The loss has a kink.
    """
    scores = declared.scores
    target = declared.target_values[0] if declared.target_values is not None else 0.0
    expression = stable.rewrite(declared.expression.subs(declared.target, target))
    unit = {score: sp.Integer(1) for score in scores}
    plain = numeric(expression, scores)
    places = np.array(list(itertools.product((-2.0, 0.0, 2.0), repeat=len(scores))))
    t, weights = np.polynomial.hermite_e.hermegauss(max(6, int(_MOST_NODES ** (1 / len(scores)) / 3)))
    grid = np.array(list(itertools.product(t, repeat=len(scores))))
    shares = np.prod(np.array(list(itertools.product(weights / weights.sum(), repeat=len(scores)))), axis=1)
    found = []
    for order in orders:
        series = numeric(truncated_series(expression, unit, order=order), scores)
        biases = [float(series(*(place + grid).T) @ shares) - float(plain(*place)) for place in places]
        found.append(float(np.max(np.abs(biases))))
    return tuple(found)
