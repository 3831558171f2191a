"""By how much corrections inflate gradients: what `method="auto"` decides on."""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import sympy as sp

from symdebias._arrays import FloatArray
from symdebias.assessment.kernel_bias import single
from symdebias.assessment.variance import evaluated
from symdebias.codegen import stable
from symdebias.codegen.numeric import numeric
from symdebias.codegen.score.configurations import Configurations
from symdebias.codegen.score.constants import LabelTable
from symdebias.codegen.score.factors import ColumnProduct, FactorGroup
from symdebias.codegen.score.normal import NormalNoise, SphericalForm
from symdebias.correction import Correction
from symdebias.exceptions import InfiniteVarianceError, NoExactCorrectionError
from symdebias.losses import Loss
from symdebias.noise import AdditiveNoise, CoordinateNoise, SphericalNoise
from symdebias.release.design import Linear
from symdebias.transforms import quadrature, truncated_series
from symdebias.zonal import ZonalNoise

# Points of a product rule over several scores.
_MOST_POINTS, _MOST_SCORES = 300_000, 4
# Draws of the noise that inflation is judged by.
_DRAWS = 2_000
# Where the price of an exact correction is looked at: noise variance of the score, and its range.
_REFERENCE_VARIANCE, _REFERENCE_RADIUS = 4.0, 3.0
# The operators of noise that columns share are of an order that grows with their number, and explode a little further
# on: a pilot that strays there is lost. One variance for both will not do. At 16 the log loss would be given up under
# Laplace noise of 4 columns (776-fold there, 1.5-fold at 4); at 4 it would be kept on 5 columns that share their noise
# (1.4-fold, and 46-fold at 16) and on many more, where `sgd` has no surrogate to fall back to as `m_estimate` has.
_REFERENCE_OF_GROUPS = 16.0


def reference_variance(correction: Correction) -> float:
    """Return the noise variance of the score that the price of an exact correction is looked at with by default."""
    return _REFERENCE_OF_GROUPS if correction.program.having(SphericalForm) else _REFERENCE_VARIANCE


def gradient_inflation(correction: Correction, radius: float | None, score_variance: float | None) -> float:
    """Return by how much an exact correction inflates the mean square of the slope of a loss of one score.

    Scores range over abs(u) <= radius, 3 by default. The noise variance of the score is reached by parameters to which
    all columns give the same share of it; 4 by default, or 16 where columns share noise. No default depends on the
    units of the columns.

    It is the ratio of the mean squares of the corrected and of the declared slope at released scores, label noise
    apart; infinite where the variance is, and 1 where only noise with a finite operator is looked at (no score variance
    is given, and the noise is normal) or the loss has no one score. It is NaN where noise states neither a density nor
    moments of all orders.
    """
    declared, derivation, program = correction.loss, correction.derivation, correction.program
    if derivation.no_variance:
        return math.inf
    if len(declared.scores) != 1:
        return 1.0
    enumerated = program.having(Configurations)
    operators = program.having(FactorGroup) or program.having(SphericalForm)
    if program.has_lookups or enumerated or (score_variance is None and not operators):
        return 1.0
    theta = np.zeros(program.number_of_parameters)
    variances = correction.release.feature_variances(correction.columns)
    noised = [part for part in correction.design.linear if part.noise is not None and variances[part.column] > 0]
    level = score_variance
    if level is None:
        # What the target adds to the noise of the residual is there at any parameters.
        shared = correction.release.target_noise
        level = max(
            0.0, reference_variance(correction) - (shared.variance if isinstance(shared, CoordinateNoise) else 0)
        )
    for part in noised:
        theta[part.parameter] = math.sqrt(level / (len(noised) * variances[part.column]))
    # Normal noise of a covariance is that of one number in the score; correlations may make it more or less.
    together = [part for part in noised if part.own_noise is not None and part.own_noise.covariance is not None]
    if together and level > 0:
        apart = level * (1 - len(together) / len(noised))
        theta *= math.sqrt(level / (apart + _of_parts(correction, theta, together)))
    try:
        correction.limits.require(theta, finite_variance=True)
    except (NoExactCorrectionError, InfiniteVarianceError):
        # Without a noise level smaller parameters may do; solvers hold theta against the limits.
        return math.inf if score_variance is not None else 1.0
    rng = np.random.default_rng(0)
    noise = np.zeros(_DRAWS)
    linear = theta[correction.design.linear_parameters]
    # Columns with noise of their own, and the norms of the parameters of those that share it.
    drawn: list[tuple[float, AdditiveNoise | SphericalNoise]] = [
        (theta[part.parameter], part.own_noise)
        for part in noised
        if part.own_noise is not None and part.own_noise.covariance is None
    ]
    if together:
        own = together[0].own_noise
        assert own is not None
        normal = single(own)
        drawn.append((math.sqrt(_of_parts(correction, theta, together) / normal.variance), normal))
    forms = [linear**2 @ group.all_weights(len(linear)) + group.constant for group in derivation.spherical]
    for form, group in zip(forms, derivation.spherical, strict=True):
        if isinstance(group.noise, ZonalNoise):
            # A polynomial of the score, for which there is nothing else.
            return 1.0
        drawn.append((math.sqrt(form / group.noise.weight), group.noise))
    for factor, one in drawn:
        try:
            whole = quadrature.rule(single(one), 1, 64)
        except NoExactCorrectionError:
            return math.nan
        chances = np.maximum(whole.weights, 0)
        noise += factor * rng.choice(whole.points[:, 0], _DRAWS, p=chances / chances.sum())
    u, y = declared.scores[0], declared.target
    symbols = derivation.symbols
    values: dict[sp.Symbol, Any] = {
        symbols.target_variance: derivation.constants["target"][0],
        symbols.gain: 1.0,
        **{symbol: 1.0 for table in program.having(LabelTable) for symbol in table.numbers},
    }
    if program.having(NormalNoise):
        values[symbols.score_variance] = correction.limits.normal_score_variance(theta)
    for shape, form in zip(program.having(SphericalForm), forms, strict=True):
        values[shape.variances[0]] = form
    for index, product in enumerate(one for one in program.statistics if isinstance(one, ColumnProduct)):
        assert isinstance(product, FactorGroup)
        factors = product.values(theta, derivation.constants[f"factors{index}"])
        values |= {name: value for name, value in zip(product.coefficients, factors, strict=True) if name is not None}
    bound = _REFERENCE_RADIUS if radius is None else radius
    scores = np.linspace(-bound, bound, 9)[:, None] + noise
    target = declared.target_values[-1] if declared.target_values is not None else 0.0
    slope = evaluated(program.slopes[0], {u: scores, y: np.full((1, 1), target), **values})
    plain = evaluated(sp.diff(stable.rewrite(declared.expression), u), {u: scores, y: np.full((1, 1), target)})
    before = float(np.mean(plain**2))
    return float(np.mean(slope**2)) / before if before > 0 else 1.0


def _of_parts(correction: Correction, theta: FloatArray, parts: Sequence[Linear]) -> float:
    """Return the variance that the normal noise of some columns has in the score."""
    own = np.zeros(len(theta))
    places = [part.parameter for part in parts]
    own[places] = theta[places]
    return correction.limits.normal_score_variance(own)


def series_biases(declared: Loss) -> tuple[float, ...]:
    """Return the largest biases of truncated series of a smooth loss of several scores, at unit noise of each.

    For the orders 1, 2 and 3 it is the largest |E[series] - loss| at corners, faces and the middle of scores up to 2.
    Of more than four scores it is none: places and nodes of the quadrature are too many, and so are derivatives.

    Raises
    ------
    NoExactCorrectionError
        The loss has a kink.
    """
    scores = declared.scores
    if len(scores) > _MOST_SCORES:
        return ()
    target = declared.target_values[0] if declared.target_values is not None else 0.0
    expression = stable.rewrite(declared.expression.subs(declared.target, target))
    unit = {score: sp.Integer(1) for score in scores}
    plain = numeric(expression, scores)
    places = np.array(list(itertools.product((-2.0, 0.0, 2.0), repeat=len(scores))))
    t, weights = quadrature.hermite(max(6, int(_MOST_POINTS ** (1 / len(scores)) / 3)))
    grid = np.array(list(itertools.product(t, repeat=len(scores))))
    shares = np.prod(np.array(list(itertools.product(weights, repeat=len(scores)))), axis=1)
    found = []
    for order in (1, 2, 3):
        series = numeric(truncated_series(expression, unit, order=order), scores)
        biases = [float(series(*(place + grid).T) @ shares) - float(plain(*place)) for place in places]
        found.append(float(np.max(np.abs(biases))))
    return tuple(found)
