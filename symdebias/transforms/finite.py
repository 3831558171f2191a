"""Exact finite inverses of additive noise: differential operators, difference operators, and moments.

Noise with characteristic function phi is undone by 1/phi(-i d). Where 1/phi is a polynomial in w^2 (Laplace
noise: 1 + b^2 w^2) that is a finite differential operator; where it is a sum of exponentials exp(i h w) (noise on a
grid) a finite difference, which needs no smoothness; and for polynomials its Taylor coefficients are enough.
"""

from collections.abc import Sequence

import sympy as sp

from symdebias import _limits
from symdebias.transforms.series import require_smooth


def differential_operator(expression: sp.Expr, variable: sp.Symbol, coefficients: Sequence[sp.Expr | float]) -> sp.Expr:
    """Return sum_k c_k (-d^2)^k f, the inverse of noise with 1/phi(w) = sum_k c_k w^(2k).

    Parameters
    ----------
    expression : sympy.Expr
        A smooth expression f.
    variable : sympy.Symbol
        The noised variable.
    coefficients : sequence of sympy.Expr or float
        c_0 = 1, c_1, ...

    Raises
    ------
    NoExactCorrectionError
        f has a kink or a jump.

    Examples
    --------
    >>> x, b = sp.symbols("x b", positive=True)
    >>> differential_operator(sp.exp(x), x, (1, b**2))
    -b**2*exp(x) + exp(x)
    """
    require_smooth(expression, (variable,))
    total, term = coefficients[0] * expression, expression
    for coefficient in coefficients[1:]:
        term = -_limits.diff(term, variable, variable)
        total += coefficient * term
    return _limits.expand_around_forms(total)


def difference_operator(
    expression: sp.Expr, variable: sp.Symbol, weights: Sequence[tuple[sp.Expr | float, sp.Expr | float]]
) -> sp.Expr:
    """Return sum_k weight_k f(x + offset_k), the inverse of noise on a grid; f needs no smoothness.

    Parameters
    ----------
    expression : sympy.Expr
        f.
    variable : sympy.Symbol
        The noised variable x.
    weights : sequence of (offset, weight)
        The terms of 1/phi(w) = sum_k weight_k exp(i offset_k w).

    Examples
    --------
    >>> x = sp.Symbol("x", real=True)
    >>> difference_operator(sp.Abs(x), x, ((-1, -0.5), (0, 2), (1, -0.5)))
    2*Abs(x) - 0.5*Abs(x - 1) - 0.5*Abs(x + 1)
    """
    return sp.Add(*(weight * expression.subs(variable, variable + offset) for offset, weight in weights))


def polynomial_inverse(expression: sp.Expr, variable: sp.Symbol, taylor: Sequence[sp.Expr | float]) -> sp.Expr:
    """Return sum_k r_k d^k f for a polynomial f, with r_k the Taylor coefficients of 1/E exp(z e).

    Parameters
    ----------
    expression : sympy.Expr
        A polynomial in the variable.
    variable : sympy.Symbol
        The noised variable.
    taylor : sequence of sympy.Expr or float
        r_0 = 1, r_1, ... up to the degree.

    Examples
    --------
    >>> x, v = sp.symbols("x v", real=True)
    >>> polynomial_inverse(x**2, x, (1, 0, -v / 2))
    -v + x**2
    """
    return _limits.expand(sp.Add(*(r * sp.diff(expression, variable, k) for k, r in enumerate(taylor) if r != 0)))
