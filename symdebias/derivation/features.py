"""Corrections of free-form losses: the noise of each feature undone by name, and hidden scores recognised."""

import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import sympy as sp

from symdebias import _limits
from symdebias._arrays import FloatArray
from symdebias.codegen import stable
from symdebias.codegen.feature_program import CategoryLookup, FeatureProgram
from symdebias.derivation.labels import Labelled
from symdebias.derivation.symbols import Derivation, NoiseSymbols, free_symbol
from symdebias.exceptions import NoExactCorrectionError
from symdebias.losses import Loss
from symdebias.losses.finiteness import singular_score
from symdebias.noise import AdditiveNoise, ChannelNoise
from symdebias.release import Release
from symdebias.transforms import (
    difference_operator,
    differential_operator,
    growth_rate,
    inverse_heat,
    joint_inverse_heat,
    polynomial_inverse,
    require_low_power,
    require_moment,
    truncated_series,
)
from symdebias.transforms.channel import rational

# Values of the other symbols at which poles in a noised feature are looked for.
_PROBES = ((0.75, -1.25, 2.125, 0.5), (-0.625, 1.5, 0.25, -2.0), (1.125, 0.375, -0.875, 1.75), (2.25, 1.0, 3.5, 0.875))
# Longer expressions are not simplified: SymPy's time for that grows without bound.
_MOST_SIMPLIFIED = 200


@dataclass(frozen=True)
class HiddenScore:
    """A free-form loss that depends on the features through one linear predictor."""

    expression: sp.Expr  # The loss in the score.
    score: sp.Symbol
    places: tuple[int, ...]  # For each feature the place of its coefficient among the parameters.
    intercept: int | None  # The place of the parameter that is added.


@functools.lru_cache(maxsize=128)
def hidden_score(loss: Loss) -> HiddenScore | None:
    """Return the score that a free-form loss depends on, or None.

    Each feature must have one parameter of its own as coefficient, and at most one parameter be added:
    F(t_1 x_1 + ... + t_p x_p + t_0, y).

    Examples
    --------
    >>> x1, x2, a, b, c, y = sp.symbols("x1 x2 a b c y", real=True)
    >>> loss = Loss.of_features(
    ...     (b * x1 + a * x2 + c - y) ** 2, features=[x1, x2], parameters=[a, b, c], target=y
    ... )
    >>> found = hidden_score(loss)
    >>> found.expression, found.places, found.intercept
    (u**2 - 2*u*y + y**2, (1, 0), 2)
    """
    expression, parameters = loss.expression, loss.parameters
    if len(parameters) - len(loss.features) not in (0, 1):
        return None
    places = []
    for feature in loss.features:
        slope = sp.diff(expression, feature)
        partners = [
            place for place, parameter in enumerate(parameters) if place not in places and _vanishes(slope, parameter)
        ]
        if len(partners) != 1:
            return None
        places.append(partners[0])
    left = [place for place in range(len(parameters)) if place not in places]
    score = free_symbol("u", expression, real=True)
    parts = [sp.Dummy(f"w{index}", real=True) for index in range(len(places))]
    # t_j x_j is one variable: with t_j = 1 the loss must be the same function of x_j.
    written = expression.xreplace(
        {feature: part / parameters[place] for feature, part, place in zip(loss.features, parts, places, strict=True)}
    )
    others = [*parts[1:], *(parameters[place] for place in left)]
    written = written.xreplace({parts[0]: score - sp.Add(*others)})
    gone = {*others, *(parameters[place] for place in places)}
    simplify = (sp.simplify,) if written.count_ops() <= _MOST_SIMPLIFIED else ()
    for tidy in (_limits.expand, lambda e: sp.powsimp(_limits.expand(e)), *simplify):
        reduced = _reduced(written, tidy)
        if not reduced.free_symbols & gone:
            return HiddenScore(reduced, score, tuple(places), left[0] if left else None)
    return None


def _vanishes(slope: sp.Expr, parameter: sp.Symbol) -> bool:
    try:
        at_zero = slope.subs(parameter, 0)
    except (ZeroDivisionError, ValueError):
        return False
    return bool(_limits.expand(at_zero) == 0)


def _reduced(expression: sp.Expr, tidy: Any) -> sp.Expr:
    # Arguments of functions first: expanding the whole first would multiply exponentials out.
    inner = expression.replace(
        lambda node: bool(node.is_Function or node.is_Pow) and bool(node.args) and not node.is_Piecewise,
        lambda node: (
            node.func(tidy(node.args[0]), *node.args[1:]) if node.is_Function else sp.Pow(tidy(node.base), node.exp)
        ),
    )
    result: sp.Expr = tidy(inner)
    return result


# ---- by feature ------------------------------------------------------------------------------------------


@dataclass
class _Build:
    expression: sp.Expr
    conditions: list[sp.Rel] = field(default_factory=list)
    variance_conditions: list[sp.Rel] = field(default_factory=list)
    constants: list[sp.Symbol] = field(default_factory=list)
    numbers: list[float] = field(default_factory=list)
    records: list[sp.Symbol] = field(default_factory=list)
    largest: list[float] = field(default_factory=list)  # What is declared for these.
    lookups: list[CategoryLookup] = field(default_factory=list)
    tables: list[FloatArray] = field(default_factory=list)

    def constant(self, name: str, value: float) -> sp.Symbol:
        """Return a positive symbol for a number of the noise."""
        symbol = free_symbol(name, self.expression)
        self.constants.append(symbol)
        self.numbers.append(value)
        return symbol


# Takes what is built, the loss, normal variances by variable, and other noise; says whether the result is exact.
Undo = Callable[..., bool]


def by_feature(
    loss: Loss,
    labelled: Labelled,
    release: Release,
    symbols: NoiseSymbols,
    undo: Undo | None,
    *,
    per_record: bool = False,
) -> Derivation:
    """Return the correction of a free-form loss, under a release of as many columns as it has features.

    `undo` is `exactly` or `by_series`, which undoes the additive noise; None leaves all noise as it is. `per_record`
    says that each record has noise variances of its own.

    Raises
    ------
    NoExactCorrectionError
        There is no exact correction, or none was found.
    """
    build = _Build(labelled.expression)
    exact = False
    noises = release.noises(len(loss.features)) if undo is not None else ()
    if not all(isinstance(noise, AdditiveNoise | ChannelNoise) for _, noise in noises):
        raise NoExactCorrectionError(
            "noise that columns share in all directions is undone in scores theta'x, and this loss is in features by "
            "name. Write it in a score, or release each column by a mechanism of its own."
        )
    for place, noise in noises:
        if isinstance(noise, ChannelNoise):
            _undo_channel(build, loss.features[place.start], place.start, noise)
    normal = [(place, noise) for place, noise in noises if isinstance(noise, AdditiveNoise) and noise.is_gaussian]
    others = [(place, noise) for place, noise in noises if isinstance(noise, AdditiveNoise) and not noise.is_gaussian]
    variances = _normal_variances(build, loss, normal, per_record=per_record)
    if labelled.target_variance is not None:
        variances[loss.target] = labelled.target_variance
    if undo is not None:
        _require_mean(loss, noises)
        exact = undo(build, loss, variances, others)
        if not (variances or others):
            build.expression = stable.rewrite(build.expression)
    blocks = {
        "constants": np.array(build.numbers),
        "target": np.array([labelled.variance, labelled.gain]),
        "largest": np.array(build.largest),
        **{f"category{index}": table for index, table in enumerate(build.tables)},
    }
    if labelled.table is not None:
        blocks["labels"] = labelled.table
    program = FeatureProgram(
        build.expression,
        loss.features,
        loss.parameters,
        loss.target,
        (symbols.target_variance, symbols.gain),
        tuple(build.constants),
        tuple(build.records),
        labelled.symbols,
        0 if labelled.table is None else len(labelled.table),
        tuple(build.lookups),
        tuple(condition.gts - condition.lts for condition in build.conditions),
        tuple(condition.gts - condition.lts for condition in build.variance_conditions),
    )
    return Derivation(
        program, symbols, exact, tuple(build.conditions), tuple(build.variance_conditions), blocks,
        notes=labelled.notes, mixing=labelled.mixing, offsets=labelled.offsets, no_variance=labelled.no_variance,
    )  # fmt: skip


def _require_mean(loss: Loss, noises: Sequence[tuple[slice, Any]]) -> None:
    """Raise NoExactCorrectionError where a noised feature meets a pole of the loss, whatever the parameters are.

    Noise that is not on a grid has a density at the pole, and neither the loss nor any correction of it by derivatives
    has a mean on the noised records.
    """
    for place, noise in noises:
        if isinstance(noise, AdditiveNoise) and noise.step is None:
            for feature in loss.features[place]:
                if _has_pole(loss, feature):
                    raise NoExactCorrectionError(
                        f"{loss.expression} has a pole in {feature} whatever the parameters are, which noise of "
                        f"{feature} reaches, so that neither the loss nor a correction of it has a mean. Where true "
                        "values are known to keep away from the pole, symdebias.surrogate_of_fractions(loss, release, "
                        "ranges=, n=) gives a loss that is close there; or use a curve without a pole, such as exp(-x) "
                        "in place of 1/(1 + x)."
                    )


@functools.lru_cache(maxsize=256)
def _has_pole(loss: Loss, feature: sp.Symbol) -> bool:
    others = [symbol for symbol in (*loss.features, *loss.parameters, loss.target) if symbol != feature]
    for values in _PROBES:
        at = dict(zip(others, itertools.cycle(values), strict=False))
        if singular_score(loss.expression, feature, at) is None:
            return False
    return True


def _undo_channel(build: _Build, feature: sp.Symbol, column: int, noise: ChannelNoise) -> None:
    weights = noise.exact_weights(feature.name)
    values = [rational(value) for value in noise.inputs]
    powers = _limits.expand(build.expression)
    if powers.is_polynomial(feature) and sp.degree(powers, feature) <= 1:
        estimate = free_symbol(f"{feature.name}_hat", build.expression, real=True)
        build.expression = build.expression.xreplace({feature: estimate})
        build.lookups.append(CategoryLookup(column, (estimate,), len(weights)))
        build.tables.append((weights @ np.array(noise.inputs))[:, None])
        return
    symbols = tuple(free_symbol(f"n_{feature.name}_{k}", build.expression, real=True) for k in range(1, len(values)))
    parts = [build.expression.subs(feature, value) for value in values]
    build.expression = _limits.expand(
        parts[0] + sp.Add(*(n * (part - parts[0]) for n, part in zip(symbols, parts[1:], strict=True)))
    )
    build.lookups.append(CategoryLookup(column, symbols, len(weights)))
    build.tables.append(weights[:, 1:].copy())


def _normal_variances(
    build: _Build, loss: Loss, normal: Sequence[tuple[slice, AdditiveNoise]], *, per_record: bool
) -> dict[Any, sp.Symbol]:
    """Return symbols for the noise variances of features, and for covariances under pairs of them."""
    variances: dict[Any, sp.Symbol] = {}
    for place, noise in normal:
        features = loss.features[place]
        width = place.stop - place.start
        if per_record:
            if noise.covariance is not None and np.any(np.array(noise.covariance) - np.diag(np.diag(noise.covariance))):
                raise ValueError("noise of the records' own has no correlation. Declare from_scale on these columns.")
            build.largest += noise.coordinate_variances(width)
            for feature in features:
                symbol = free_symbol(f"D_{feature.name}", build.expression)
                build.records.append(symbol)
                variances[feature] = symbol
            continue
        for index, (feature, variance) in enumerate(zip(features, noise.coordinate_variances(width), strict=True)):
            if variance > 0:
                variances[feature] = build.constant(f"D_{feature.name}", variance)
            for other in range(index):
                entry = 0.0 if noise.covariance is None else noise.covariance[index][other]
                if entry != 0:
                    name = f"D_{features[other].name}_{feature.name}"
                    symbol = free_symbol(name, build.expression, real=True)
                    build.constants.append(symbol)
                    build.numbers.append(entry)
                    variances[features[other], feature] = symbol
    return variances


def exactly(
    build: _Build, loss: Loss, variances: dict[Any, sp.Symbol], others: Sequence[tuple[slice, AdditiveNoise]]
) -> bool:
    """Undo additive noise in closed form; return that this is exact."""
    _undo_normal_noise(build, variances)
    for place, noise in others:
        for feature in loss.features[place]:
            _undo_other_noise(build, feature, noise, features=loss.features, target=loss.target)
    return True


def by_series(
    build: _Build,
    loss: Loss,
    variances: dict[Any, sp.Symbol],
    others: Sequence[tuple[slice, AdditiveNoise]],
    *,
    order: int,
) -> bool:
    """Cut the series of the inverse off at an order; return whether it ends before."""
    for place, noise in others:
        for feature in loss.features[place]:
            # To second order all noise is alike; beyond, each has its own coefficients.
            if order > 1:
                raise NoExactCorrectionError(
                    "the series of a free-form loss goes beyond the first order under Gaussian noise only. Pass "
                    'order=1 or method="exact".'
                )
            variances[feature] = build.constant(f"D_{feature.name}", noise.variance)
    build.expression = stable.rewrite(build.expression)
    variables = [key for key in variances if isinstance(key, sp.Symbol)]
    polynomial = build.expression.is_polynomial(*variables)
    ends = not variables or (polynomial and sp.Poly(build.expression, *variables).total_degree() // 2 <= order)
    build.expression = truncated_series(build.expression, variances, order=order)
    return bool(ends) and not others


def _undo_normal_noise(build: _Build, variances: dict[Any, sp.Symbol]) -> None:
    variables = [key for key in variances if isinstance(key, sp.Symbol)]
    variables = [variable for variable in variables if build.expression.has(variable)]
    pairs = {key: value for key, value in variances.items() if not isinstance(key, sp.Symbol)}
    polynomial = build.expression.is_polynomial(*variables)
    if polynomial and variables:
        degree = sp.Poly(build.expression, *variables).total_degree()
        for variable in variables:
            require_low_power(int(sp.degree(build.expression, variable)), str(variable))
        known = {key: value for key, value in variances.items() if not isinstance(key, sp.Symbol) or key in variables}
        build.expression = truncated_series(build.expression, known, order=degree // 2)
        return
    if not pairs:
        for variable in variables:
            step = inverse_heat(build.expression, variable, variances[variable])
            build.expression = stable.multiplied_out(step.expression)
            build.conditions += step.conditions
            build.variance_conditions += step.variance_conditions
        return
    covariance = sp.zeros(len(variables))
    for i, first in enumerate(variables):
        covariance[i, i] = variances[first]
        for j, second in enumerate(variables):
            if (first, second) in pairs:
                covariance[i, j] = covariance[j, i] = pairs[first, second]
    step = joint_inverse_heat(build.expression, variables, covariance)
    build.expression = step.expression
    build.conditions += step.conditions
    build.variance_conditions += step.variance_conditions


def _undo_other_noise(
    build: _Build, feature: sp.Symbol, noise: AdditiveNoise, *, features: Sequence[sp.Symbol], target: sp.Symbol
) -> None:
    expression = _limits.expand(build.expression)
    if not expression.has(feature):
        return
    if noise.tail_rate < np.inf:
        rate = growth_rate(expression, (feature,))
        require_moment(rate, str(build.expression))
        if rate.free_symbols & {*features, target}:
            raise NoExactCorrectionError(
                f"{build.expression} grows in {feature} like exp({rate} |{feature}|), at a rate that other features "
                "set: no bound on the parameters makes its mean under noise with exponential tails exist."
            )
        if rate != 0:
            # exp(rate |x|) has a mean below the tail rate, and a variance below half of it.
            limit = sp.Float(noise.tail_rate, 17)
            if rate.is_number and not rate < limit:
                raise NoExactCorrectionError(
                    f"{build.expression} grows in {feature} like exp({rate} |{feature}|), and has no mean under noise "
                    f"whose tails fall like exp(-{limit:.4g} |{feature}|)."
                )
            if not rate.is_number:
                build.conditions.append(sp.Lt(rate, limit))
            if not (rate.is_number and 2 * rate < limit):
                build.variance_conditions.append(sp.Lt(2 * rate, limit, evaluate=False))
    if expression.is_polynomial(feature):
        degree = int(sp.degree(expression, feature))
        if noise.inverse_polynomial is None and noise.inverse_differences is None:
            require_low_power(degree, str(feature))
        variance = build.constant(f"D_{feature.name}", noise.variance) if degree > 1 else sp.Integer(0)
        taylor: list[Any] = [1, 0, -variance / 2, 0][: degree + 1]
        if degree > 3:
            found = noise.inverse_taylor(degree)
            taylor = [1, 0] + [
                build.constant(f"c{k}_{feature.name}", found[k]) if k % 2 == 0 else 0 for k in range(2, degree + 1)
            ]
        build.expression = polynomial_inverse(expression, feature, taylor)
    elif noise.inverse_differences is not None:
        pairs = [
            (offset, build.constant(f"c{k}_{feature.name}", weight))
            for k, (offset, weight) in enumerate(noise.inverse_differences)
        ]
        build.expression = difference_operator(stable.rewrite(expression), feature, pairs)
    elif noise.inverse_polynomial is not None:
        coefficients = [1] + [
            build.constant(f"c{k}_{feature.name}", value)
            for k, value in enumerate(noise.inverse_polynomial[1:], start=1)
        ]
        build.expression = differential_operator(stable.rewrite(expression), feature, coefficients)
    else:
        raise NoExactCorrectionError(
            f"the noise of {feature} has no finite inverse, and {expression} is no polynomial in it."
        )
