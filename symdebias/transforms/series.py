"""The inverse Weierstrass transform as a series of iterated Laplacians.

    W^-1 = exp(-Delta/2) = sum_k (-1/2)^k Delta^k / k!,      Delta = sum_j D_j d^2/dx_j^2

with D_j the noise variance of the variable x_j. The series ends for polynomials and is then exact; cut
off at an order K it is biased, and its bias is for a certificate to state.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import sympy as sp

from symdebias import _limits
from symdebias._arrays import FloatArray
from symdebias.codegen.numeric import numeric
from symdebias.codegen.stable import in_logistic_density, rewrite
from symdebias.exceptions import NoExactCorrectionError

# Levels of the integral over the noise, and the rule over it: steps in units in which the function bends, reach in
# deviations.
_LEVELS, _STEP, _REACH = 40, 0.15, 8.5

# A longer series is of no use to anybody, and takes minutes to derive.
_MOST_TERMS = 5_000
# Functions with a kink or a jump: their derivatives of higher order are distributions, which pointwise
# differentiation loses without a word.
_NOT_SMOOTH = (sp.Abs, sp.Max, sp.Min, sp.sign, sp.Heaviside, sp.Piecewise, sp.floor, sp.ceiling, sp.Mod)


def truncated_series(expression: sp.Expr, variances: Mapping[Any, sp.Expr], *, order: int) -> sp.Expr:
    """Return the inverse transform up to the given order, sum_{k <= order} (-Delta/2)^k f / k!.

    Parameters
    ----------
    expression : sympy.Expr
        A smooth expression f.
    variances : mapping from sympy.Symbol to sympy.Expr
        The noise variance D_j of each noised variable; the covariance of two under the pair of them.
    order : int
        The order K, at least 0; K = 0 leaves the expression as it is.

    Returns
    -------
    sympy.Expr
        The truncated series.

    Raises
    ------
    NoExactCorrectionError
        The expression has a kink or a jump in a noised variable, so that it has no such series; or the series
        grows beyond 5,000 terms.

    References
    ----------
    Dufraiche et al. 2026, Appendix D.7; Nakamura 1990.

    Examples
    --------
    >>> u, s = sp.symbols("u s", real=True)
    >>> truncated_series(sp.sin(u), {u: s}, order=1)
    s*sin(u)/2 + sin(u)
    """
    require_smooth(expression, tuple(filter(_is_symbol, variances)), "there is no series: ")
    term, total = expression, expression
    for k in range(1, order + 1):
        term = _laplacian(term, variances) * sp.Rational(-1, 2 * k)
        if term == 0:
            break
        if len(sp.Add.make_args(term)) > _MOST_TERMS:
            raise NoExactCorrectionError(
                f"the series has more than {_MOST_TERMS} terms at order {k}, and the derivation gives up there. "
                "Ask for a lower order."
            )
        total += term
    return total


def truncation_bias(
    expression: sp.Expr, variable: sp.Symbol, variance: float, *, order: int, at: FloatArray, unit: float = 1.0
) -> FloatArray:
    """Return the bias of a truncated series by its integral formula, W_s g_K - f.

        bias_K = (-1)^K/K! int_0^{s/2} r^K W_{2r}[f^(2K+2)] dr

    with a sign of its own at every order; no difference of nearly equal numbers is taken.

    Parameters
    ----------
    expression : sympy.Expr
        A smooth function f of one variable.
    variable : sympy.Symbol
        u.
    variance : float
        s, the noise variance, non-negative.
    order : int
        K, at least 0.
    at : array of shape (m,)
        Where.
    unit : float
        A length of u on which f hardly bends more than the log loss does on 1, positive: steps are a share of it.

    Returns
    -------
    array of shape (m,), float64
        The bias at each point.

    Raises
    ------
    NoExactCorrectionError
        The expression has a kink or a jump.

    References
    ----------
    Dufraiche et al. 2026 (arXiv 2602.16436), Appendix D.7.

    Examples
    --------
    >>> u = sp.Symbol("u", real=True)
    >>> truncation_bias(sp.exp(u), u, 1.0, order=0, at=np.zeros(1)).round(6).item()  # e^(1/2) - 1
    0.648721
    """
    require_smooth(expression, (variable,), "there is no series: ")
    derivative = rewrite(expression)
    for _ in range(order + 1):
        # Expanding keeps high derivatives of expit at a few terms.
        derivative = in_logistic_density(_limits.expand(_limits.diff(derivative, variable, variable)))
    function = numeric(derivative, (variable,))
    nodes, weights = np.polynomial.legendre.leggauss(_LEVELS)
    # r = (s/2) x^2 takes the root of the variance out of the integrand.
    x = (nodes + 1) / 2
    total = np.zeros(len(at))
    for position, weight in zip(x, weights / 2, strict=True):
        r = variance / 2 * position**2
        scale = math.sqrt(2 * r)
        t = np.linspace(-_REACH, _REACH, max(48, math.ceil(2 * _REACH * scale / (_STEP * unit))) + 1)
        density = np.exp(-(t**2) / 2)
        mean = function(at[:, None] + scale * t) @ (density / density.sum())
        total += weight * variance * position * r**order * mean
    bias: FloatArray = (-1) ** order / math.factorial(order) * total
    return bias


def require_smooth(expression: sp.Expr, variables: Sequence[sp.Symbol], what: str = "") -> None:
    """Raise NoExactCorrectionError where an expression has a kink or a jump in one of the variables."""
    kinks = [node for node in expression.atoms(*_NOT_SMOOTH) if node.free_symbols & set(variables)]
    if kinks:
        raise NoExactCorrectionError(
            f"{what}{kinks[0]} has a kink or a jump, so that its higher derivatives do not exist. "
            "Use a smooth form of the loss."
        )


def exact_series(expression: sp.Expr, variances: Mapping[sp.Symbol, sp.Expr]) -> sp.Expr:
    """Return the whole series, which ends because the expression is a polynomial.

    Parameters
    ----------
    expression : sympy.Expr
        A polynomial in the noised variables, with any coefficients in the other symbols.
    variances : mapping from sympy.Symbol to sympy.Expr
        The noise variance of each noised variable.

    Returns
    -------
    sympy.Expr
        The exact inverse transform.

    Raises
    ------
    NoExactCorrectionError
        The expression is not a polynomial in the noised variables.

    Examples
    --------
    >>> x, d, t = sp.symbols("x d t", real=True)
    >>> exact_series((t * x) ** 2, {x: d})
    -d*t**2 + t**2*x**2
    """
    variables = list(variances)
    if not expression.is_polynomial(*variables):
        raise NoExactCorrectionError(
            f"no closed form was found for {expression}: it is not a polynomial in "
            f"{', '.join(symbol.name for symbol in variables)}, so that its series does not end."
        )
    degree = sp.Poly(expression, *variables).total_degree() if variables else 0
    return truncated_series(expression, variances, order=degree // 2)


def _is_symbol(key: Any) -> bool:
    return isinstance(key, sp.Symbol)


def _laplacian(expression: sp.Expr, variances: Mapping[Any, sp.Expr]) -> sp.Expr:
    # Expanding keeps high derivatives of expit at a few terms: they are polynomials in it.
    terms = [
        variance * _limits.diff(expression, key, key)
        if _is_symbol(key)
        else 2 * variance * _limits.diff(expression, *key)
        for key, variance in variances.items()
    ]
    return _limits.expand(sp.Add(*terms))
