"""Exact finite inverses of additive noise: differential operators, difference operators, and moments.

Noise with characteristic function phi is undone by 1/phi(-i d). Where 1/phi is a polynomial in w^2 (Laplace
noise: 1 + b^2 w^2) that is a finite differential operator; where it is a sum of exponentials exp(i h w) (noise on a
grid) a finite difference, which needs no smoothness; and for polynomials its Taylor coefficients are enough.
"""

from collections.abc import Sequence

import sympy as sp

from symdebias.codegen.functions import expit, softplus
from symdebias.exceptions import NoExactCorrectionError
from symdebias.transforms.series import require_smooth

# Bounded functions and logarithms of what grows exponentially: their growth rate is 0.
_SLOW = (expit, softplus, sp.log, sp.tanh, sp.atan, sp.sin, sp.cos, sp.erf, sp.erfc, sp.sign, sp.Heaviside)


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
        term = -sp.diff(term, variable, 2)
        total += coefficient * term
    return sp.expand(total)


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
    return sp.expand(sp.Add(*(r * sp.diff(expression, variable, k) for k, r in enumerate(taylor) if r != 0)))


def growth_rate(expression: sp.Expr, variables: Sequence[sp.Symbol]) -> sp.Expr:
    """Return c such that an expression grows no faster than a polynomial times exp(c |x|), x any of the variables.

    Parameters
    ----------
    expression : sympy.Expr
        An expression.
    variables : sequence of sympy.Symbol
        The noised variables.

    Returns
    -------
    sympy.Expr
        The rate, an upper bound; infinity for exp(x^2).

    Examples
    --------
    >>> u = sp.Symbol("u", real=True)
    >>> growth_rate(sp.exp(-2 * u) * u**3 + sp.log(1 + sp.exp(u)), (u,))
    2
    """
    if not expression.has(*variables) or expression.is_Symbol:
        return sp.Integer(0)
    if expression.is_Add or isinstance(expression, (sp.Max, sp.Min, sp.Piecewise)):
        parts = [value for value, _ in expression.args] if isinstance(expression, sp.Piecewise) else expression.args
        return sp.Max(0, *(growth_rate(part, variables) for part in parts))
    if expression.is_Mul:
        return sp.Add(*(growth_rate(part, variables) for part in expression.args))
    if expression.is_Pow and not expression.exp.has(*variables):
        if expression.exp.is_positive:
            return expression.exp * growth_rate(expression.base, variables)
        return sp.Integer(0)
    if isinstance(expression, (sp.exp, sp.cosh, sp.sinh)) or expression.is_Pow:
        exponent = expression.args[0] if not expression.is_Pow else expression.exp * sp.log(expression.base)
        return _exponential_rate(sp.expand(exponent), variables)
    if isinstance(expression, _SLOW) or expression.func.__name__ in ("logsumexp", "softmax_part"):
        return sp.Integer(0)
    if len(expression.args) == 1:
        return growth_rate(expression.args[0], variables)
    return sp.oo


def _exponential_rate(exponent: sp.Expr, variables: Sequence[sp.Symbol]) -> sp.Expr:
    if not exponent.is_polynomial(*variables):
        return growth_rate(exponent, variables) * sp.oo if growth_rate(exponent, variables) != 0 else sp.Integer(0)
    rates = [sp.Integer(0)]
    polynomial = sp.Poly(exponent, *variables)
    if len(variables) == 1 and polynomial.degree() > 1:
        # The leading power decides: exp(-x^2 + 5 x) is bounded.
        falls = polynomial.degree() % 2 == 0 and polynomial.LC().is_nonpositive
        return sp.Integer(0) if falls else sp.oo
    for powers, coefficient in polynomial.terms():
        degree = sum(powers)
        if degree == 1:
            rates.append(sp.Abs(sp.re(coefficient)))
        elif degree > 1 and not (all(power % 2 == 0 for power in powers) and coefficient.is_nonpositive):
            return sp.oo
    return sp.Max(*rates)


def require_moment(rate: sp.Expr, what: str) -> None:
    """Raise where a growth rate is infinite: no noise with exponential tails has such a mean."""
    if rate in (sp.oo, sp.nan):
        raise NoExactCorrectionError(
            f"{what} grows faster than an exponential, so that its mean under noise with exponential tails does not "
            "exist. Use Gaussian noise, or a loss that grows more slowly."
        )
