"""The target: what a finite channel or additive noise on it does to a loss, undone before the features' noise."""

import functools
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import sympy as sp

from symdebias import _limits
from symdebias._arrays import FloatArray
from symdebias.codegen import stable
from symdebias.codegen.numeric import numeric
from symdebias.derivation.symbols import NoiseSymbols, free_symbol
from symdebias.exceptions import NoExactCorrectionError
from symdebias.losses import Loss
from symdebias.losses.meaning import is_residual_loss
from symdebias.mechanisms import ChannelMechanism
from symdebias.noise import AdditiveNoise, ChannelNoise, CoordinateNoise
from symdebias.release import Release
from symdebias.transforms import (
    affine_in_target,
    difference_operator,
    differential_operator,
    growth_rate,
    polynomial_inverse,
)
from symdebias.transforms.channel import rational

AFFINE = "the loss is affine in the target: a target released with noise of mean 0 stands as it is"
ESTIMATED = "the loss is affine in the target: its label noise is undone by an unbiased estimate of the label"
UP_TO_A_PART = "the gradient of the loss is linear in the target: unbiased labels are enough, and the gradient is exact"
OFF_BY_A_PART = (
    "the part without parameters, {part}, is not in the range of the channel: the mean loss of a record is off by up "
    "to {size:.3g}, by its label and whatever the parameters"
)
SUMMED = "the loss is summed over the {count} labels, each with a weight that is looked up by the released target"
NEAREST = (
    "the loss is not in the range of the channel of the target, which has the rank {rank} for {count} labels: what is "
    "nearest to it there stands in its place"
)

NO_VARIANCE = (
    "the corrected loss has infinite variance: it grows like exp({rate} |{target}|), and under noise of the target "
    "whose tails fall like exp(-{tails:.4g} |{target}|) the mean of its square is infinite"
)

# Up to so many labels a loss is written out for each of them; beyond, kernels loop over them.
_MOST_WRITTEN_OUT = 12
# Longer expressions are not simplified.
_MOST_SIMPLIFIED = 60
# Points at which a loss is held against what a channel hides, and what counts as rounding there.
_POINTS, _ROUNDING = 48, 1e-9


class HiddenError(NoExactCorrectionError):
    """A channel hides what the loss needs of the target."""


@dataclass(frozen=True)
class Labelled:
    """A loss with its label noise undone."""

    expression: sp.Expr  # The loss; its noise on the features is still to be undone.
    symbols: tuple[sp.Symbol, ...] = ()  # What is looked up by the code of the released target.
    table: FloatArray | None = None  # Of shape (codes, len(symbols): the looked-up numbers.
    gain: float = 1.0  # The gain of the label estimate.
    target_variance: sp.Symbol | None = None  # The noise variance of a target whose normal noise is still to be undone.
    variance: float = 0.0  # The variance of additive noise on the target; 0 where it does not matter.
    notes: tuple[str, ...] = ()  # What the user should know.
    # Whether `symbols` are the weights of all labels but the first, which has what is missing to 1.
    by_class: bool = False
    # Labels to sum the loss over, with the weights in the columns of `table`, in place of `symbols`.
    levels: tuple[float, ...] = ()
    # Of shape (k, k): where the nearest loss in the range of a channel stands for the loss: its mean at label i is the
    # sum over a of ``mixing[i, a]`` times the loss at label a.
    mixing: FloatArray | None = None
    # Of shape (k,): how far the mean of the corrected loss is from the loss, by label, where no parameter changes that.
    offsets: FloatArray | None = None
    pair: tuple[float, float] | None = None  # The values of a target of two, the lower first, that has no noise.
    no_variance: str = ""  # Why the corrected loss has no finite variance, whatever the parameters; empty where it may.


def without_correction(loss: Loss) -> Labelled:
    """Return a loss as it stands, with a target of several values written for kernels."""
    return _of_values(loss, _tidy_loss(loss))


def on_labels(loss: Loss, release: Release, *, as_released: bool = False) -> Loss:
    """Return a loss of a continuous target as one of the numbers that a channel takes, and any other as it is.

    With `as_released` the noise stays: then outputs that are numbers are values of a continuous target like any others.

    Raises
    ------
    ValueError
        The target is released as a category without a number, and the loss is one of numbers.

    Examples
    --------
    >>> import symdebias as sd
    >>> coin = sd.RandomizedResponse(1.0, categories=(0, 1, 2))
    >>> on_labels(sd.losses.least_squares(), sd.Release(target=coin)).target_values
    (0.0, 1.0, 2.0)
    """
    mechanism = release.target
    if loss.target_values is not None or not isinstance(mechanism, ChannelMechanism):
        return loss
    labels = mechanism.range
    if labels.is_text:
        count = len(labels.values)
        fitting = "symdebias.losses.logistic().recoded((0, 1))" if count == 2 else f"symdebias.losses.softmax({count})"
        raise ValueError(
            f"the release noises a target with the categories {', '.join(labels.values)}, but the loss has a "
            f"continuous target. Take a loss of labels, such as {fitting}; or give the mechanism numbers as "
            f"categories, or declare target_values on the loss: the codes 0 to {count - 1}."
        )
    if as_released and not mechanism.sent.is_text:
        return loss
    return loss.with_target_values(sorted(labels.numbers))


def label_noise_undone(
    loss: Loss, release: Release, symbols: NoiseSymbols, *, rewrite: bool, nearest: bool = False
) -> Labelled:
    """Undo the noise of the target.

    `rewrite` brings the loss to overflow-safe forms first (a series is differentiated, not transformed); `nearest`
    replaces a loss that a channel hides by the nearest one in its range.

    Raises
    ------
    HiddenError
        The channel hides what the loss needs.
    NoExactCorrectionError
        The noise has no inverse for it.
    """
    noise = release.target_noise
    expression = _tidy_loss(loss) if rewrite else loss.expression
    if isinstance(noise, ChannelNoise):
        return _through_channel(loss, expression, noise, symbols, nearest=nearest)
    if noise is None or isinstance(noise, CoordinateNoise):
        if noise is not None and not is_residual_loss(loss):
            raise NoExactCorrectionError(
                f"{loss.expression} is no function of the residual {loss.target} - u, and features and target share "
                "one noise, which is undone in residuals alone. Use a loss of the residual."
            )
        # The noise of a vector of features and target is undone with that of the features.
        found, values = _of_values(loss, expression), loss.target_values
        return replace(found, pair=values) if noise is None and values is not None and len(values) == 2 else found
    if loss.target_values is not None and len(loss.target_values) == 2:
        # Affine on its two values: additive noise of mean 0 leaves that unbiased.
        return Labelled(_split(loss, expression, loss.target), notes=(AFFINE,))
    if is_affine(expression, loss.target):
        return Labelled(expression, notes=(AFFINE,))
    return _additive(loss, expression, noise, symbols)


def _tidy_loss(loss: Loss) -> sp.Expr:
    return stable.rewrite(loss.expression)


def is_affine(expression: sp.Expr, target: sp.Symbol) -> bool:
    """Whether an expression is affine in the target."""
    if not expression.has(target):
        return True
    expanded = _limits.expand(expression)
    return bool(expanded.is_polynomial(target)) and sp.degree(expanded, target) <= 1


def _split(loss: Loss, expression: sp.Expr, estimate: sp.Expr) -> sp.Expr:
    assert loss.target_values is not None
    low, high = loss.target_values
    return affine_in_target(expression, loss.target, (low, high), estimate)


def _of_values(loss: Loss, expression: sp.Expr) -> Labelled:
    """Write a loss of a target of several values, which are seen as they are."""
    if loss.target_values is None or expression.is_polynomial(loss.target):
        if loss.target_values is not None and len(loss.target_values) == 2:
            return Labelled(_split(loss, expression, loss.target))
        return Labelled(expression)
    if len(loss.target_values) == 2:
        return Labelled(_split(loss, expression, loss.target))
    if _is_long(loss):
        return Labelled(expression)
    return _looked_up(loss, expression, np.eye(len(loss.target_values)))


def label_by_label(loss: Loss, labelled: Labelled) -> Labelled:
    """Return a loss that is linear in what stands for the target: where it bends in labels, a weight for each of them.

    Raises
    ------
    NoExactCorrectionError
        The labels are too many for that.
    """
    is_linear = loss.target_values is None or labelled.by_class or is_affine(labelled.expression, loss.target)
    if labelled.levels or (not is_linear and _is_long(loss)):
        count = len(loss.target_values or ())
        raise NoExactCorrectionError(
            f"surrogates stand for the loss of each label by itself, and {count} labels are too many. "
            "Use a loss that is affine in the target, or features whose noise is undone exactly for this one."
        )
    if is_linear:
        return labelled
    return _looked_up(loss, _tidy_loss(loss), np.eye(len(loss.target_values or ())))


def _is_long(loss: Loss) -> bool:
    """Whether kernels loop over the labels; a loss that asks which label it is has to be written out."""
    assert loss.target_values is not None
    return len(loss.target_values) > _MOST_WRITTEN_OUT and bool(loss.scores) and not loss.expression.has(sp.Eq, sp.Ne)


def _looked_up(loss: Loss, expression: sp.Expr, weights: FloatArray) -> Labelled:
    """Return sum_a n_a F(., y_a) with n looked up by the released target; the n of one row sum to 1."""
    assert loss.target_values is not None
    values = [rational(value) for value in loss.target_values]
    parts = [expression.subs(loss.target, value) for value in values]
    # Conditions would be simplified as well, to connectives that kernels do not know.
    parts = [part if part.has(sp.Piecewise) else stable.rewrite(_simplified(part)) for part in parts]
    symbols = tuple(
        free_symbol(f"n_{value}".replace("-", "m").replace("/", "_"), expression, real=True) for value in values[1:]
    )
    total = parts[0] + sp.Add(
        *(n * _limits.expand(part - parts[0]) for n, part in zip(symbols, parts[1:], strict=True))
    )
    return Labelled(total, symbols, weights[:, 1:].copy(), by_class=True)


@functools.lru_cache(maxsize=256)
def _simplified(expression: sp.Expr) -> sp.Expr:
    """Return an expression simplified where it is short: SymPy's time for that grows without bound.

    Each method, and each remedy of a refusal, asks for those of the same loss.
    """
    _limits.check(expression)
    return sp.simplify(expression) if expression.count_ops() <= _MOST_SIMPLIFIED else expression


def _through_channel(
    loss: Loss, expression: sp.Expr, noise: ChannelNoise, symbols: NoiseSymbols, *, nearest: bool
) -> Labelled:
    assert loss.target_values is not None
    order = [noise.inputs.index(value) for value in loss.target_values]
    weights = noise.weights[:, order]
    values, matrix = np.array(loss.target_values), np.array(noise.matrix)
    mixing = None
    if is_hidden(loss, noise):
        if not nearest:
            raise HiddenError(
                f"the channel of the target has the rank {noise.rank} for {len(values)} values, and "
                f"{loss.expression} is not in its range: no function of the released target is unbiased for it. Use a "
                "loss that is affine in the target, or a channel of full rank."
            )
        mixing = matrix[order] @ weights
    symmetric = matrix.shape == (2, 2) and noise.inputs == noise.outputs and matrix[0, 0] == matrix[1, 1]
    if symmetric and mixing is None and matrix[0, 0] != matrix[0, 1]:
        low, high = (rational(value) for value in loss.target_values)
        middle = (low + high) / 2
        gain = float(1 / (2 * matrix[0, 0] - 1))
        estimate = middle + symbols.gain * (loss.target - middle)
        return Labelled(_split(loss, expression, estimate), gain=gain)
    # The outputs themselves where they will do: weights of a matrix that is nearly singular have an enormous variance.
    estimates = np.array(noise.outputs) if noise.keeps_means else weights @ values
    hat = free_symbol(f"{loss.target.name}_hat", expression, real=True)
    if len(values) == 2:
        found = Labelled(_split(loss, expression, hat), (hat,), estimates[:, None], notes=(ESTIMATED,))
    elif (parts := _affine_parts(loss, expression)) is not None:
        found = _estimated(loss, noise, parts, hat, estimates, weights, order)
    elif _is_long(loss):
        note = SUMMED.format(count=len(values))
        found = Labelled(expression, table=weights, levels=loss.target_values, notes=(note,))
    else:
        found = _looked_up(loss, expression, weights)
    if mixing is None:
        return found
    note = NEAREST.format(rank=noise.rank, count=len(values))
    return replace(found, mixing=mixing, offsets=None, notes=(note,))


def _affine_parts(loss: Loss, expression: sp.Expr) -> tuple[sp.Expr, sp.Expr] | None:
    """Return a part that is affine in the target and one that depends on nothing else, which add up to the loss."""
    if is_affine(expression, loss.target):
        return expression, sp.Integer(0)
    variables = {*loss.scores, *loss.features, *loss.parameters}
    moving: list[sp.Expr] = []
    still: list[sp.Expr] = []
    for term in sp.Add.make_args(_limits.expand(expression)):
        bent = not term.free_symbols & variables and not is_affine(term, loss.target)
        (still if bent else moving).append(term)
    if not still or not is_affine(sp.Add(*moving), loss.target):
        return None
    return sp.Add(*moving), sp.Add(*still)


def _estimated(
    loss: Loss,
    noise: ChannelNoise,
    parts: tuple[sp.Expr, sp.Expr],
    hat: sp.Symbol,
    estimates: FloatArray,
    weights: FloatArray,
    order: list[int],
) -> Labelled:
    """Return a loss with an estimate in the place of the label, and one of the part that has no parameters."""
    moving, still = parts
    if still == 0:
        if noise.keeps_means:
            return Labelled(moving, notes=(AFFINE,))
        return Labelled(moving.xreplace({loss.target: hat}), (hat,), estimates[:, None], notes=(ESTIMATED,))
    assert loss.target_values is not None
    own = free_symbol(f"{loss.target.name}_part", moving, real=True)
    wanted = np.array([float(still.subs(loss.target, value).evalf()) for value in loss.target_values])
    found = weights @ wanted
    offsets = np.array(noise.matrix)[order] @ found - wanted
    notes: tuple[str, ...] = (UP_TO_A_PART,)
    size = float(np.abs(offsets).max())
    if size <= _ROUNDING * max(1.0, float(np.abs(found).max())):
        offsets = None
    else:
        notes += (OFF_BY_A_PART.format(part=still, size=size),)
    expression = moving.xreplace({loss.target: hat}) + own
    return Labelled(expression, (hat, own), np.column_stack([estimates, found]), notes=notes, offsets=offsets)


def is_hidden(loss: Loss, noise: ChannelNoise) -> bool:
    """Whether a channel without full row rank hides a loss, apart from a part that has no parameters.

    Parameters
    ----------
    loss : Loss
        A loss with the channel's inputs as target values.
    noise : ChannelNoise
        The channel. What it hides is its left null space: a function of the label is in its range where it is
        orthogonal to that.
    """
    assert loss.target_values is not None
    obstacles = noise.obstacles[:, [noise.inputs.index(value) for value in loss.target_values]]
    if not len(obstacles):
        return False
    if (parts := _affine_parts(loss, loss.expression)) is not None:
        values = np.array(loss.target_values)
        # A loss that does not depend on the target at all is in every range.
        moved = parts[0].has(loss.target) and not noise.keeps_means
        return moved and bool(np.abs(obstacles @ values).max() > _ROUNDING * np.abs(values).max())
    vectors = _at_points(loss)
    off = np.abs(vectors @ obstacles.T).max(axis=1)
    return not bool(np.all(off <= _ROUNDING * np.maximum(1.0, np.abs(vectors).max(axis=1))))


def _at_points(loss: Loss) -> FloatArray:
    """Return the loss of all labels at points spread over its variables, one point per row."""
    assert loss.target_values is not None
    variables = loss.scores or (*loss.features, *loss.parameters)
    values = np.array(loss.target_values)
    rng = np.random.default_rng(0)
    points = rng.uniform(-3.0, 3.0, (_POINTS, len(variables)))
    # Scores among the labels besides, at which losses of a residual bend; products of features and parameters as well.
    reach = values if loss.scores else np.sqrt(np.abs(values)) * np.sign(values)
    points[1::2] = rng.uniform(reach.min() - 1, reach.max() + 1, points[1::2].shape)
    found = numeric(loss.expression, (*variables, loss.target))(*points.T[:, :, None], values)
    vectors: FloatArray = np.asarray(found)[np.isfinite(found).all(axis=1)]
    return vectors


def _additive(loss: Loss, expression: sp.Expr, noise: AdditiveNoise, symbols: NoiseSymbols) -> Labelled:
    """Undo additive noise on a continuous target, but for normal noise, which goes with that of the features."""
    target = loss.target
    if noise.is_gaussian:
        return Labelled(expression, target_variance=symbols.target_variance, variance=noise.variance)
    refusal = ""
    if noise.tail_rate < math.inf:
        rate = growth_rate(expression, (target,))
        if not (rate.is_number and rate < noise.tail_rate):
            raise NoExactCorrectionError(
                f"{expression} grows like exp({rate} |{target}|), and the noise of the target has no such moment: it "
                f"ends at {noise.tail_rate:.4g}."
            )
        if not 2 * rate < noise.tail_rate:
            refusal = NO_VARIANCE.format(rate=rate, target=target, tails=noise.tail_rate)
    if noise.inverse_differences is not None:
        return Labelled(difference_operator(expression, target, noise.inverse_differences), no_variance=refusal)
    if expression.is_polynomial(target):
        degree = int(sp.degree(_limits.expand(expression), target))
        if degree <= 3:
            taylor: tuple[Any, ...] = (1, 0, -symbols.target_variance / 2, 0)[: degree + 1]
            return Labelled(polynomial_inverse(expression, target, taylor), variance=noise.variance)
        return Labelled(polynomial_inverse(expression, target, noise.inverse_taylor(degree)))
    if noise.inverse_polynomial is not None:
        coefficients: tuple[Any, ...] = noise.inverse_polynomial
        if len(coefficients) == 2:
            coefficients = (1, symbols.target_variance / 2)
        expression = differential_operator(stable.rewrite(expression), target, coefficients)
        return Labelled(expression, variance=noise.variance, no_variance=refusal)
    raise NoExactCorrectionError(
        f"the noise of the target has no finite inverse, and {expression} is no polynomial in {target}."
    )
