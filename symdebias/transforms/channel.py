"""Finite channels: what they do to a loss, and the unbiased transform.

A function h of the released value is unbiased for g of the true one where M h = g, M the row-stochastic matrix. It
exists where g is in the range of M; of all solutions the one of least variance under a prior p is
h = R^-1 M' (M R^-1 M')^+ g, R = diag(M'p). Elsewhere the nearest function in the range takes the place of g.

A loss of a target with two values is affine in it, F(u, y) = A(u) + B(u) y. So every unbiased estimate of
the label corrects the loss, and under randomized response that estimate is y0 + gain (y~ - y0), with y0
the middle of the two values and gain = coth(epsilon/2).
"""

from typing import Any

import numpy as np
import sympy as sp

from symdebias import _budget
from symdebias.noise import ChannelNoise

FloatArray = np.ndarray[Any, np.dtype[np.float64]]

# Directions of the matrix with a smaller share of the largest singular value are rounding.
_RANK_TOLERANCE = 1e-11
# Inputs that a prior rules out still count, by so much of an even share: what undoes the channel holds for them too.
_LEAST_SHARE = 1e-6


def unbiased_weights(channel: ChannelNoise, prior: Any = None) -> tuple[FloatArray, FloatArray]:
    """Return the weights that undo a finite channel, and what they cannot undo.

    Parameters
    ----------
    channel : ChannelNoise
        The channel, k inputs and m outputs.
    prior : array of shape (k,), optional
        Probabilities of the inputs under which the variance is least; those of the channel by default, and uniform
        where it has none. Zeros are allowed.

    Returns
    -------
    weights : array of shape (m, k), float64
        ``weights @ g`` is the unbiased estimate of g(input), by output. Where g has none, its mean is the function
        in the range of the matrix that is nearest to g in mean square under the prior.
    obstacles : array of shape (r, k), float64
        Vectors v with v'M = 0: only functions with v'g = 0 for all of them have an unbiased estimate. Empty where
        the matrix has full row rank.

    References
    ----------
    van Rooyen & Williamson 2018, Section 4; Badanidiyuru et al. 2023 (arXiv 2312.05659).

    Examples
    --------
    >>> weights, obstacles = unbiased_weights(ChannelNoise((0, 1), (0, 1), ((0.75, 0.25), (0.25, 0.75))))
    >>> weights.round(12).tolist(), len(obstacles)
    ([[1.5, -0.5], [-0.5, 1.5]], 0)
    """
    matrix = np.array(channel.matrix)
    inputs = len(matrix)
    given = channel.prior if prior is None else prior
    share = (
        np.full(inputs, 1 / inputs) if given is None else np.maximum(np.asarray(given, float), _LEAST_SHARE / inputs)
    )
    left, sizes, _ = np.linalg.svd(matrix)
    rank = int(np.sum(sizes > _RANK_TOLERANCE * sizes[0]))
    obstacles = left[:, rank:].T
    if rank == inputs == matrix.shape[1]:
        return np.linalg.inv(matrix), obstacles
    # The equations within the range, whose rank is full by construction: no second decision on small numbers.
    basis = left[:, :rank]
    nearest = np.linalg.solve(basis.T @ (share[:, None] * basis), basis.T * share)
    chance = share @ matrix
    used = chance > 0
    root = np.sqrt(chance[used])
    weights = np.zeros((matrix.shape[1], inputs))
    weights[used] = np.linalg.pinv(basis.T @ matrix[:, used] / root, rcond=0.0) / root[:, None] @ nearest
    return weights, obstacles


def affine_in_target(expression: sp.Expr, target: sp.Symbol, values: tuple[float, float], estimate: sp.Expr) -> sp.Expr:
    """Write a loss of a two-valued target as A + B y and put an estimate in the place of y.

    With the values -1 and +1, A and B are the even and odd parts in the target, and with the estimate
    coth(epsilon/2) y~ the result is the inverse Bernoulli transform
    S f(y~) + (1 - S) f(-y~), S = 1/(1 - exp(-epsilon)).

    Parameters
    ----------
    expression : sympy.Expr
        The loss F.
    target : sympy.Symbol
        The target y.
    values : tuple of two floats
        The values that y takes.
    estimate : sympy.Expr
        What takes the place of y; any unbiased estimate of it gives an unbiased estimate of the loss.

    Returns
    -------
    sympy.Expr
        A + B estimate; equal to F for estimate = y in `values`.

    References
    ----------
    van Rooyen & Williamson 2018, Section 4 (corrupted labels); Dufraiche et al. 2026, Section 3.

    Examples
    --------
    >>> u, y, c = sp.symbols("u y c", real=True)
    >>> affine_in_target((u * y - 1) ** 2 / 2, y, (-1, 1), c * y)
    -c*u*y + u**2/2 + 1/2
    """
    low, high = (sp.nsimplify(value, rational=True) for value in values)
    at_low, at_high = expression.xreplace({target: low}), expression.xreplace({target: high})
    slope = _tidy((at_high - at_low) / (high - low))
    level = _tidy((high * at_low - low * at_high) / (high - low))
    return level + slope * estimate


def _tidy(expression: sp.Expr) -> sp.Expr:
    # Terms that the two labels share must cancel here, not in the derivation: expand, keep if shorter.
    expanded = _budget.expand(expression)
    return expanded if expanded.count_ops() <= expression.count_ops() else expression
