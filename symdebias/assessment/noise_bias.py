"""What noise does to a loss that is left uncorrected.

The bias of an uncorrected loss splits into label, feature and interaction part ([IWP] Theorem 4.2): with B the mean
over the released target and W that over the released features, B W F - F = (B - 1) F + (W - 1) F + (B - 1)(W - 1) F.
"""

import functools
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp
from numpy.typing import ArrayLike

from symdebias._arrays import FloatArray, parameter_array
from symdebias.assessment.kernel_bias import MOST_AT_ONCE, NODES, nodes_for, released_records
from symdebias.assessment.tails import has_tails, reached, tails_of
from symdebias.declared import DeclaredLoss
from symdebias.derivation import NoiseSymbols, on_labels
from symdebias.exceptions import NoExactCorrectionError
from symdebias.losses import Loss
from symdebias.losses.loss import require_loss
from symdebias.noise import AdditiveNoise, ChannelNoise, CoordinateNoise
from symdebias.release import Release
from symdebias.release.design import Categorical, ColumnDesign, SphericalGroup
from symdebias.release.required import require_release
from symdebias.transforms import affine_in_target, heat, quadrature

# Nodes of the rule for the noise of the target.
_TARGET_NODES = 64


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
            There are too many noised columns, or scores, for a product rule; or a mean is infinite, or nearly so.
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
        The target is clipped after its noise, which is not integrated over; or features and target are released in one
        vector, whose noise has no parts: ask `CorrectedLoss.bias` with ``method="none"``.

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
    require_loss(loss)
    require_release(release)
    if release.clips_target or release.coupling is not None:
        _ = release.target_noise  # says why
    loss = on_labels(loss, release)
    return NoiseBias(loss, release, *_closed_parts(loss, release))


def _closed_parts(loss: Loss, release: Release) -> tuple[sp.Expr | None, sp.Expr | None, sp.Expr | None]:
    if len(loss.scores) != 1:
        return None, None, None
    symbols = NoiseSymbols.beside(loss.expression)
    declared = loss.expression
    try:
        written = in_target(loss, declared, loss.target)
        labelled, _ = mean_over_target(loss, release, written, symbols)
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


def in_target(loss: Loss, expression: sp.Expr, target: sp.Expr) -> sp.Expr:
    """Return an expression with another in the place of the target: affine in it where it has two values."""
    if loss.target_values is not None and len(loss.target_values) == 2:
        return affine_in_target(expression, loss.target, (loss.target_values[0], loss.target_values[1]), target)
    return expression.xreplace({loss.target: target})


def mean_over_target(
    loss: Loss, release: Release, expression: sp.Expr, symbols: NoiseSymbols
) -> tuple[sp.Expr, tuple[sp.Rel, ...]]:
    """Return the mean of an expression of the released target over its noise, as one of the true target.

    Second comes what must hold for it to be a number.
    """
    noise = release.target_noise
    if noise is None:
        return expression, ()
    if isinstance(noise, ChannelNoise):
        matrix = np.array(noise.matrix)
        if matrix.shape != (2, 2) or noise.inputs != noise.outputs or matrix[0, 0] != matrix[1, 1]:
            raise NoExactCorrectionError("only symmetric channels of two values are written in closed form.")
        assert loss.target_values is not None
        low, high = (sp.nsimplify(value, rational=True) for value in loss.target_values)
        middle = (low + high) / 2
        mean = middle + (loss.target - middle) / symbols.gain
        return affine_in_target(expression, loss.target, (loss.target_values[0], loss.target_values[1]), mean), ()
    if not (isinstance(noise, AdditiveNoise) and noise.is_gaussian):
        raise NoExactCorrectionError("only normal noise of the target is written in closed form.")
    flowed = heat(expression, loss.target, symbols.target_variance)
    return flowed.expression, tuple(flowed.conditions)


# ---- numbers ---------------------------------------------------------------------------------------------


def _flat(loss: Loss, release: Release, theta: ArrayLike, columns: int) -> FloatArray:
    if not loss.scores:
        return parameter_array(theta, len(loss.parameters), names=[symbol.name for symbol in loss.parameters])
    names = release.design(columns).parameters
    known = names if release.columns is not None else None
    return parameter_array(theta, len(names), len(loss.scores), known).ravel()


def _parts(loss: Loss, release: Release, theta: FloatArray, record: FloatArray, target: float) -> tuple[float, ...]:
    truth = DeclaredLoss(loss, release)
    function, _ = truth.functions()
    value = truth.target(target)
    plain = truth.arguments(theta, record[None, :], np.array([value]))[:-1]
    still = float(np.asarray(function(*plain, np.array([value]))).reshape(-1)[0])
    if isinstance(release.target_noise, CoordinateNoise):
        (score,) = plain
        return _shared_parts(function, release.design(len(record)), theta, record, score, value)

    rules = functools.cache(lambda far: _argument_rule(loss, release, theta, record, far=far))

    def over_features(t: float) -> float:
        def at(far: bool) -> tuple[FloatArray, FloatArray]:
            points, weights, tails = rules(far)
            return tails, weights * function(*points, np.full(len(weights), t))

        return _reached_mean(at)

    def over_target(mean: Callable[[float], float]) -> float:
        def at(far: bool) -> tuple[FloatArray, FloatArray]:
            targets, chances, tails = _target_rule(release, target, far=far)
            return tails, chances * np.array([mean(t) for t in targets])

        return _reached_mean(at)

    label = over_target(lambda t: float(np.ravel(function(*plain, np.array([t])))[0]))
    feature, both = over_features(value), over_target(over_features)
    return label - still, feature - still, both - label - feature + still


def _shared_parts(
    function: Callable[..., FloatArray],
    design: ColumnDesign,
    theta: FloatArray,
    record: FloatArray,
    score: FloatArray,
    target: float,
) -> tuple[float, ...]:
    """Return the parts where features and target are one vector with one noise: of a loss of one score."""
    (group,) = design.spherical
    columns = list(group.columns)
    vector = np.append(record[design.linear_columns][columns], target) / group.factors
    # Along the parameters of the features, and along the target.
    directions = np.diag(group.factors)[[0, -1]]
    directions[0] = np.append(theta[design.linear_parameters][columns], 0.0) * group.factors
    rule = quadrature.added(group.noise, vector, directions, NODES[0])
    scores, targets = score + rule.points[:, 0], target + rule.points[:, 1]
    still = float(np.ravel(function(score, np.array([target])))[0])
    label, feature, both = (
        float(np.broadcast_to(function(u, y), len(rule.weights)) @ rule.weights)
        for u, y in ((score, targets), (scores, np.array([target])), (scores, targets))
    )
    return label - still, feature - still, both - label - feature + still


def _reached_mean(parts: Callable[[bool], tuple[FloatArray, FloatArray]]) -> float:
    """Return a mean over noise of whose points `parts` returns the tails and what each adds, see `reached`."""

    def at(far: bool) -> tuple[FloatArray, list[FloatArray]]:
        with np.errstate(over="ignore", invalid="ignore"):
            tails, added = parts(far)
        return tails, [added]

    found = reached(at)
    if found is None:
        raise infinite_mean()
    return found[0]


def _target_rule(release: Release, target: float, *, far: bool) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return values of the released target with their weights and tails, see `reached`."""
    noise = release.target_noise
    if noise is None:
        return np.array([target]), np.ones(1), np.zeros((1, 0))
    if isinstance(noise, ChannelNoise):
        return np.array(noise.outputs), np.array(noise.matrix[int(target)]), np.zeros((len(noise.outputs), 0))
    assert isinstance(noise, AdditiveNoise)
    points, weights = quadrature.one_dimensional(noise, _TARGET_NODES, far=far)
    return target + points, weights, points[:, None] if has_tails(noise, _TARGET_NODES) else np.zeros((len(points), 0))


def _argument_rule(
    loss: Loss, release: Release, theta: FloatArray, record: FloatArray, *, far: bool
) -> tuple[list[FloatArray], FloatArray, FloatArray]:
    """Return what the loss takes besides the target, at points of the features' noise, with weights and its tails."""
    truth = DeclaredLoss(loss, release)
    if not loss.scores:
        finest = nodes_for(release, len(record), with_target=False)
        if finest is None:
            raise _too_many()
        records = released_records(release, record, 0.0, nodes=finest, noise_on=(True, False), far=far)
        arguments = [*truth.features(records.X).T, *(np.full(len(records.weights), part) for part in theta)]
        return arguments, records.weights, tails_of(release, record, 0.0, records, nodes=finest)
    scores = len(loss.scores)
    rows = theta.reshape(scores, -1)
    columns = len(record)
    design = release.design(columns)
    base = design.rows(record[None, :])[0]
    root = covariance_root(rows @ design.additive_covariance(design.covariance) @ rows.T)
    linear = rows[:, design.linear_parameters]
    own = [
        (part.own_noise, rows[:, part.parameter])
        for part in design.linear
        if part.own_noise is not None and not part.own_noise.is_gaussian and rows[:, part.parameter].any()
    ]
    categories = [_category_rule(column, rows, int(record[column.column])) for column in design.categorical]

    def size(nodes: int) -> int:
        """Return how many points there are, before any are made: of several scores there may be very many."""
        sizes = [len(one.weights) for one in categories]
        sizes += [len(quadrature.one_dimensional(noise, nodes)[1]) for noise, _ in own]
        sizes += [_spherical_size(group, linear, nodes) for group in design.spherical]
        return int(math.prod(sizes) * nodes ** root.shape[1])

    nodes = next((nodes for nodes in NODES if size(nodes) <= MOST_AT_ONCE), None)
    if nodes is None:
        raise _too_many()
    rules = [_normal_rule(root, nodes)] if root.shape[1] else []
    normal = [part.own_noise for part in design.linear if part.own_noise is not None and part.own_noise.is_gaussian]
    laws = [*normal[: len(rules)], *(noise for noise, _ in own), *(group.noise for group in design.spherical)]
    tailed = [place for place, law in enumerate(laws) if has_tails(law, nodes)]
    for noise, directions in own:
        points, weights = quadrature.one_dimensional(noise, nodes, far=far)
        rules.append(quadrature.Rule(points[:, None] * directions, weights))
    rules += [_spherical_rule(group, linear, record[design.linear_columns], nodes) for group in design.spherical]
    rules += categories
    whole = quadrature.product(rules)
    shifts = whole.points.reshape(len(whole.weights), -1, scores)
    values = base @ rows.T + shifts.sum(axis=1)
    return list(values.T), whole.weights, np.linalg.norm(shifts[:, tailed], axis=2)


def infinite_mean() -> NoExactCorrectionError:
    """Return the error of a mean over the noise that is none."""
    return NoExactCorrectionError(
        "the mean over the noise is infinite at these parameters, or so nearly so that it is decided by noise farther "
        "out than it is integrated over. Use smaller parameters, or less noise."
    )


def _too_many() -> NoExactCorrectionError:
    return NoExactCorrectionError(
        "there are too many noised columns, or scores, to integrate over at once. Use fewer columns without normal "
        "noise, or fewer scores, or average over released records instead."
    )


def covariance_root(covariance: FloatArray) -> FloatArray:
    """Return a root R of a covariance, R R', of shape (K, r), r its rank."""
    values, vectors = np.linalg.eigh(covariance)
    kept = values > 1e-14 * values.max(initial=0.0)
    return np.asarray(vectors[:, kept] * np.sqrt(values[kept]))


def _normal_rule(root: FloatArray, nodes: int) -> quadrature.Rule:
    t, weights = quadrature.hermite(nodes)
    rank = root.shape[1]
    grid = np.array(list(itertools.product(t, repeat=rank)))
    shares = np.array(list(itertools.product(weights, repeat=rank)))
    return quadrature.Rule(grid @ root.T, shares.prod(axis=1))


def _spherical_size(group: SphericalGroup, rows: FloatArray, nodes: int) -> int:
    """Return how many points `_spherical_rule` has at most."""
    directions = rows[:, list(group.columns)] * group.factors
    return quadrature.size(group.noise, int(np.linalg.matrix_rank(directions)), nodes)


def _spherical_rule(group: SphericalGroup, rows: FloatArray, record: FloatArray, nodes: int) -> quadrature.Rule:
    """Return what the noise of a group adds to the scores."""
    columns = list(group.columns)
    return quadrature.added(group.noise, record[columns] / group.factors, rows[:, columns] * group.factors, nodes)


def _category_rule(column: Categorical, rows: FloatArray, code: int) -> quadrature.Rule:
    """Return what the released category adds to the scores, less what the true one did."""
    if column.noise.inputs != column.noise.outputs:
        raise NoExactCorrectionError(
            "a channel whose outputs are not its inputs has no uncorrected loss: its outputs have no parameters."
        )
    made = column.rows(rows.shape[1])
    return quadrature.Rule((made - made[code]) @ rows.T, np.array(column.noise.matrix[code]))
