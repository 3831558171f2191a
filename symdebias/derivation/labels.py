"""The target: what a finite channel or additive noise on it does to a loss, undone before the features' noise."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp

from symdebias.codegen import stable
from symdebias.derivation.symbols import NoiseSymbols, free_symbol
from symdebias.exceptions import NoExactCorrectionError
from symdebias.losses import Loss
from symdebias.noise import AdditiveNoise, ChannelNoise
from symdebias.release import Release
from symdebias.transforms import (
    affine_in_target,
    difference_operator,
    differential_operator,
    growth_rate,
    polynomial_inverse,
    unbiased_weights,
)

FloatArray = np.ndarray[Any, np.dtype[np.float64]]

AFFINE = "the loss is affine in the target: a target released with noise of mean 0 stands as it is"
ESTIMATED = "the loss is affine in the target: its label noise is undone by an unbiased estimate of the label"


@dataclass(frozen=True)
class Labelled:
    """A loss with its label noise undone.

    Attributes
    ----------
    expression : sympy.Expr
        The loss; its noise on the features is still to be undone.
    symbols : tuple of sympy.Symbol
        What is looked up by the code of the released target.
    table : array of shape (codes, len(symbols)), float64
        The looked-up numbers.
    gain : float
        The gain of the label estimate.
    target_variance : sympy.Symbol or None
        The noise variance of a target whose normal noise is still to be undone.
    variance : float
        The variance of additive noise on the target; 0 where it does not matter.
    notes : tuple of str
        What the user should know.
    """

    expression: sp.Expr
    symbols: tuple[sp.Symbol, ...] = ()
    table: FloatArray | None = None
    gain: float = 1.0
    target_variance: sp.Symbol | None = None
    variance: float = 0.0
    notes: tuple[str, ...] = ()


def without_correction(loss: Loss) -> Labelled:
    """Return a loss as it stands, with a target of several values written for kernels."""
    return _of_values(loss, _tidy_loss(loss))


def label_noise_undone(loss: Loss, release: Release, symbols: NoiseSymbols, *, rewrite: bool) -> Labelled:
    """Undo the noise of the target.

    Parameters
    ----------
    loss : Loss
        The declared loss.
    release : Release
        The release.
    symbols : NoiseSymbols
        The symbols of the noise.
    rewrite : bool
        Whether to bring the loss to overflow-safe forms first (a series is differentiated, not transformed).

    Raises
    ------
    NoExactCorrectionError
        The channel hides what the loss needs, or the noise has no inverse for it.
    """
    noise = release.target_noise
    expression = _tidy_loss(loss) if rewrite else loss.expression
    if isinstance(noise, ChannelNoise):
        return _through_channel(loss, expression, noise, symbols)
    if noise is None:
        return _of_values(loss, expression)
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
    expanded = sp.expand(expression)
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
    return _looked_up(loss, expression, np.eye(len(loss.target_values)))


def _looked_up(loss: Loss, expression: sp.Expr, weights: FloatArray) -> Labelled:
    """Return sum_a n_a F(., y_a) with n looked up by the released target; the n of one row sum to 1."""
    assert loss.target_values is not None
    values = [sp.nsimplify(value, rational=True) for value in loss.target_values]
    parts = [stable.rewrite(sp.simplify(expression.subs(loss.target, value))) for value in values]
    symbols = tuple(
        free_symbol(f"n_{value}".replace("-", "m").replace("/", "_"), expression, real=True) for value in values[1:]
    )
    total = parts[0] + sp.Add(*(n * sp.expand(part - parts[0]) for n, part in zip(symbols, parts[1:], strict=True)))
    return Labelled(total, symbols, weights[:, 1:].copy())


def _through_channel(loss: Loss, expression: sp.Expr, noise: ChannelNoise, symbols: NoiseSymbols) -> Labelled:
    assert loss.target_values is not None
    weights, obstacles = unbiased_weights(noise)
    order = [noise.inputs.index(value) for value in loss.target_values]
    weights, obstacles = weights[:, order], obstacles[:, order]
    _check_range(loss, obstacles)
    values = np.array(loss.target_values)
    matrix = np.array(noise.matrix)
    symmetric = matrix.shape == (2, 2) and noise.inputs == noise.outputs and matrix[0, 0] == matrix[1, 1]
    if symmetric:
        low, high = (sp.nsimplify(value, rational=True) for value in loss.target_values)
        middle = (low + high) / 2
        gain = float(1 / (2 * matrix[0, 0] - 1))
        estimate = middle + symbols.gain * (loss.target - middle)
        return Labelled(_split(loss, expression, estimate), gain=gain)
    if len(values) == 2 or is_affine(expression, loss.target):
        estimate = free_symbol(f"{loss.target.name}_hat", expression, real=True)
        if len(values) == 2:
            expression = _split(loss, expression, estimate)
        else:
            expression = expression.subs(loss.target, estimate)
        return Labelled(expression, (estimate,), (weights @ values)[:, None], notes=(ESTIMATED,))
    return _looked_up(loss, expression, weights)


def _check_range(loss: Loss, obstacles: FloatArray) -> None:
    """Refuse a loss that a channel without full row rank hides: g must be orthogonal to its left null space."""
    if not len(obstacles):
        return
    assert loss.target_values is not None
    variables = sorted(loss.expression.free_symbols - {loss.target}, key=lambda symbol: symbol.name)
    for step in range(3):
        # Off any line or plane on which parts of a loss might cancel.
        point = {
            symbol: sp.Float(0.3 + 0.7 * step - 0.45 * place + 0.31 * place**2 * (1 + step))
            for place, symbol in enumerate(variables)
        }
        values = np.array(
            [float(loss.expression.subs(loss.target, value).xreplace(point).evalf()) for value in loss.target_values]
        )
        off = np.abs(obstacles @ values).max()
        if not off <= 1e-9 * max(1.0, np.abs(values).max()):
            raise NoExactCorrectionError(
                f"the channel of the target has the rank {len(values) - len(obstacles)} for {len(values)} values, and "
                f"{loss.expression} is not in its range: no function of the released target is unbiased for it. Use a "
                "loss that is affine in the target, or a channel of full rank."
            )


def _additive(loss: Loss, expression: sp.Expr, noise: AdditiveNoise, symbols: NoiseSymbols) -> Labelled:
    """Undo additive noise on a continuous target, but for normal noise, which goes with that of the features."""
    target = loss.target
    if noise.is_gaussian:
        return Labelled(expression, target_variance=symbols.target_variance, variance=noise.variance)
    if noise.tail_rate < math.inf:
        rate = growth_rate(expression, (target,))
        if not (rate.is_number and rate < noise.tail_rate):
            raise NoExactCorrectionError(
                f"{expression} grows like exp({rate} |{target}|), and the noise of the target has no such moment: it "
                f"ends at {noise.tail_rate:.4g}. Release the target with less noise or with a GaussianMechanism."
            )
    if noise.inverse_differences is not None:
        return Labelled(difference_operator(expression, target, noise.inverse_differences))
    if expression.is_polynomial(target):
        degree = int(sp.degree(sp.expand(expression), target))
        if degree <= 3:
            taylor: tuple[Any, ...] = (1, 0, -symbols.target_variance / 2, 0)[: degree + 1]
            return Labelled(polynomial_inverse(expression, target, taylor), variance=noise.variance)
        return Labelled(polynomial_inverse(expression, target, noise.inverse_taylor(degree)))
    if noise.inverse_polynomial is not None:
        coefficients: tuple[Any, ...] = noise.inverse_polynomial
        if len(coefficients) == 2:
            coefficients = (1, symbols.target_variance / 2)
        expression = differential_operator(stable.rewrite(expression), target, coefficients)
        return Labelled(expression, variance=noise.variance)
    raise NoExactCorrectionError(
        f"the noise of the target has no finite inverse, and {expression} is no polynomial in {target}. Release the "
        "target with a GaussianMechanism, a LaplaceMechanism or a DiscreteLaplaceMechanism."
    )
