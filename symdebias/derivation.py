"""Derive a corrected loss: from a declared loss and a release to an expression that kernels can be made of.

A loss is reduced to a `_Problem`: an expression and the noise variance of each noised variable in it. The
methods work on that alone, whether the variable is a score, a feature or a continuous target.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import sympy as sp

from symdebias.codegen import stable
from symdebias.codegen.kernels import FeatureProgram, Program, ScoreProgram
from symdebias.exceptions import NoExactCorrectionError
from symdebias.losses import Loss
from symdebias.noise import AdditiveNoise, FiniteChannel
from symdebias.release import Release
from symdebias.transforms import Transformed, affine_in_target, exact_series, inverse_heat, truncated_series


@dataclass(frozen=True)
class NoiseSymbols:
    """The symbols that a corrected loss has besides those of the declared one.

    Attributes
    ----------
    score_variance : sympy.Symbol
        ``s``, the noise variance theta'D theta of the score.
    target_variance : sympy.Symbol
        ``t``, the noise variance of a continuous target.
    gain : sympy.Symbol
        ``c``, the gain of the label estimate: coth(epsilon/2) for randomized response.
    """

    score_variance: sp.Symbol
    target_variance: sp.Symbol
    gain: sp.Symbol

    @classmethod
    def beside(cls, expression: sp.Expr) -> "NoiseSymbols":
        """Return the symbols, with underscores after names that the expression has taken."""
        taken = {symbol.name for symbol in expression.free_symbols}
        names = []
        for name in ("s", "t", "c"):
            while name in taken:
                name += "_"
            names.append(name)
        return cls(*(sp.Symbol(name, positive=True) for name in names))


@dataclass(frozen=True)
class Derivation:
    """A derived correction.

    Attributes
    ----------
    program : ScoreProgram or FeatureProgram
        The corrected loss as kernels take it.
    symbols : NoiseSymbols
        Its symbols for the noise.
    exact : bool
        Whether the derivation proves it exact.
    conditions, variance_conditions : tuple of sympy relationals
        What must hold for it to exist, and to have finite variance.
    """

    program: Program
    symbols: NoiseSymbols
    exact: bool
    conditions: tuple[sp.Rel, ...] = ()
    variance_conditions: tuple[sp.Rel, ...] = ()


def derive(loss: Loss, release: Release, *, method: str, order: int | None) -> Derivation:
    """Derive the correction of a loss by one method.

    Parameters
    ----------
    loss : Loss
        The declared loss, which must fit the release.
    release : Release
        The noise.
    method : {"exact", "series", "none"}
        What to do.
    order : int or None
        The order of a series.

    Raises
    ------
    NoExactCorrectionError
        The method does not apply; the message says why.
    """
    symbols = NoiseSymbols.beside(loss.expression)
    feature_variances = tuple(sp.Symbol(f"D_{feature.name}", positive=True) for feature in loss.features)
    variances = _noised_variables(loss, release, symbols, feature_variances)
    if method == "none":
        expression = _split_by_label(loss, stable.rewrite(loss.expression), loss.target)
        corrected = _Corrected(expression, exact=False)
    else:
        estimate = _label_estimate(loss, release, symbols.gain)
        if method == "series":
            assert order is not None
            corrected = _by_series(loss, estimate, variances, order)
        else:
            corrected = _exactly(loss, estimate, variances)
    program: Program
    if loss.scores:
        program = ScoreProgram(
            corrected.expression, loss.scores[0], loss.target,
            symbols.score_variance, symbols.target_variance, symbols.gain, release.fit_intercept,
        )  # fmt: skip
    else:
        program = FeatureProgram(
            corrected.expression, loss.features, loss.parameters, feature_variances, loss.target,
            symbols.target_variance, symbols.gain,
        )  # fmt: skip
    return Derivation(program, symbols, corrected.exact, corrected.conditions, corrected.variance_conditions)


@dataclass(frozen=True)
class _Corrected:
    """What a method returns."""

    expression: sp.Expr
    exact: bool
    conditions: tuple[sp.Rel, ...] = ()
    variance_conditions: tuple[sp.Rel, ...] = ()


def _noised_variables(
    loss: Loss, release: Release, symbols: NoiseSymbols, feature_variances: tuple[sp.Symbol, ...]
) -> dict[sp.Symbol, sp.Symbol]:
    """Return the noised variables of the loss with the symbols of their noise variances."""
    variances: dict[sp.Symbol, sp.Symbol] = {}
    for noise in release.feature_noises:
        _require_gaussian(noise, "the features")
    if loss.scores and release.feature_noises:
        variances[loss.scores[0]] = symbols.score_variance
    if loss.features:
        noised = release.feature_variances(len(loss.features)) > 0
        pairs = zip(loss.features, feature_variances, noised, strict=True)
        variances |= {feature: variance for feature, variance, here in pairs if here}
    # A loss of a two-valued target is affine in it, and additive noise leaves it unbiased as it is.
    if isinstance(release.target_noise, AdditiveNoise) and loss.target_values is None:
        _require_gaussian(release.target_noise, "the target")
        variances[loss.target] = symbols.target_variance
    return variances


def _require_gaussian(noise: AdditiveNoise, of: str) -> None:
    if not noise.is_gaussian:
        raise NoExactCorrectionError(
            f"the noise of {of} is not Gaussian, and the inverse Weierstrass transform undoes Gaussian noise "
            "only. Release it with a GaussianMechanism."
        )


def _label_estimate(loss: Loss, release: Release, gain: sp.Symbol) -> sp.Expr:
    """Return an unbiased estimate of the target out of the released one."""
    if loss.target_values is None or not isinstance(release.target_noise, FiniteChannel):
        return loss.target
    low, high = (sp.nsimplify(value, rational=True) for value in loss.target_values)
    middle = (low + high) / 2
    return middle + gain * (loss.target - middle)


def _split_by_label(loss: Loss, expression: sp.Expr, estimate: sp.Expr) -> sp.Expr:
    """Write a loss of a two-valued target as affine in an estimate of it."""
    if loss.target_values is None or len(loss.target_values) != 2:
        return expression
    low, high = loss.target_values
    return affine_in_target(expression, loss.target, (low, high), estimate)


def _by_series(loss: Loss, estimate: sp.Expr, variances: Mapping[sp.Symbol, sp.Symbol], order: int) -> _Corrected:
    expression = _split_by_label(loss, stable.rewrite(loss.expression), estimate)
    variables = list(variances)
    ends = expression.is_polynomial(*variables) and (
        not variables or sp.Poly(expression, *variables).total_degree() // 2 <= order
    )
    return _Corrected(truncated_series(expression, variances, order=order), exact=ends)


def _exactly(loss: Loss, estimate: sp.Expr, variances: Mapping[sp.Symbol, sp.Symbol]) -> _Corrected:
    if not variances:
        return _Corrected(_split_by_label(loss, stable.rewrite(loss.expression), estimate), exact=True)
    expression = _split_by_label(loss, loss.expression, estimate)
    if loss.features:
        return _Corrected(exact_series(expression, variances), exact=True)
    residual = _of_residual(loss, expression) if len(variances) == 2 else None
    if residual is not None:
        # A residual loss f(u - y) sees the sum of both noises.
        variable, of_residual = residual
        steps = [inverse_heat(of_residual, variable, sp.Add(*variances.values()))]
        expression = steps[0].expression.xreplace({variable: loss.scores[0] - loss.target})
    else:
        steps = []
        for variable, variance in variances.items():
            steps.append(inverse_heat(expression, variable, variance))
            expression = steps[-1].expression
    return _Corrected(expression, True, *_conditions(steps))


def _of_residual(loss: Loss, expression: sp.Expr) -> tuple[sp.Symbol, sp.Expr] | None:
    """Return (r, f) with f(r) the loss at r = u - y, or None where it depends on more than the residual."""
    # Messages show the name.
    residual = sp.Symbol(f"({loss.scores[0]} - {loss.target})", real=True)
    written = sp.expand(expression.xreplace({loss.target: loss.scores[0] - residual}))
    return None if loss.scores[0] in written.free_symbols else (residual, written)


def _conditions(steps: list[Transformed]) -> tuple[tuple[sp.Rel, ...], tuple[sp.Rel, ...]]:
    return (
        tuple(condition for step in steps for condition in step.conditions),
        tuple(condition for step in steps for condition in step.variance_conditions),
    )


def noise_limit(conditions: tuple[sp.Rel, ...], symbols: NoiseSymbols, target_variance: float) -> float:
    """Return the least upper bound that conditions put on the noise variance of the score.

    Parameters
    ----------
    conditions : tuple of sympy relationals
        Conditions in the noise variances of score and target.
    symbols : NoiseSymbols
        Their symbols.
    target_variance : float
        The noise variance of the target.

    Returns
    -------
    float
        Infinity without conditions; 0 where the target's noise alone breaks one.

    Raises
    ------
    NoExactCorrectionError
        A condition is not a bound on the noise of the score.
    """
    limit = math.inf
    for condition in conditions:
        margin = sp.expand((condition.gts - condition.lts).xreplace({symbols.target_variance: target_variance}))
        slope = margin.coeff(symbols.score_variance, 1)
        constant = margin.coeff(symbols.score_variance, 0)
        if not margin.is_polynomial() or sp.expand(margin - slope * symbols.score_variance - constant) != 0:
            raise NoExactCorrectionError(
                f"the correction exists where {condition}, which is not a bound on the noise of the score. "
                "Release the features or the target without noise, or use another loss."
            )
        if slope == 0:
            limit = limit if constant > 0 else 0.0
        elif slope < 0:
            limit = min(limit, max(0.0, float(-constant / slope)))
    return limit
