"""Exact finite inverses of additive noise: differential operators, difference operators, and moments.

Noise with characteristic function phi is undone by 1/phi(-i d). Where 1/phi is a polynomial in w^2 (Laplace
noise: 1 + b^2 w^2) that is a finite differential operator; where it is a sum of exponentials exp(i h w) (noise on a
grid) a finite difference, which needs no smoothness; and for polynomials its Taylor coefficients are enough.
"""

from collections.abc import Callable, Iterable, Sequence

import sympy as sp

from symdebias import _limits
from symdebias.codegen.functions import (
    expit,
    inverse_mills,
    log_normal_cdf,
    logistic_density,
    logsumexp,
    mills_excess,
    softmax_part,
    softplus,
)
from symdebias.exceptions import NoExactCorrectionError
from symdebias.transforms.series import require_smooth

# Bounded functions, whose growth rate is 0; and those that grow no faster than a power of their arguments.
_BOUNDED = (
    expit, logistic_density, softmax_part, sp.tanh, sp.atan, sp.sin, sp.cos, sp.erf, sp.erfc, sp.sign, sp.Heaviside,
)  # fmt: skip
_POWERS = {softplus: 1, logsumexp: 1, inverse_mills: 1, mills_excess: 1, log_normal_cdf: 2, sp.Abs: 1}
# An interval of rates: of log|f|, or of f itself, along one half of the axis.
_Rates = tuple[sp.Expr, sp.Expr]
_UNKNOWN: _Rates = (-sp.oo, sp.oo)


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
        The rate, an upper bound; infinity for exp(x^2), and where no bound is found.

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
        # Exponentials together: exp(u y) exp(-u^2) is bounded, and its first factor is not.
        exponentials, rest = sp.sift(expression.args, lambda part: isinstance(part, sp.exp), binary=True)
        together = [sp.exp(sp.Add(*(part.args[0] for part in exponentials)))] if len(exponentials) > 1 else exponentials
        return sp.Add(*(growth_rate(part, variables) for part in (*together, *rest)))
    if expression.is_Pow and not expression.exp.has(*variables) and not isinstance(expression, sp.exp):
        if expression.exp.is_positive:
            return expression.exp * growth_rate(expression.base, variables)
        if expression.base.is_polynomial(*variables):
            return sp.Integer(0)
        return _rate_of_sides(lambda variable, side: _size_of(expression, variable, side)[1], variables)
    if isinstance(expression, (sp.cosh, sp.sinh)):
        exponent = _limits.expand(expression.args[0])
        return sp.Max(*(_exponential_rate(sign * exponent, variables) for sign in (1, -1)))
    if isinstance(expression, sp.exp) or expression.is_Pow:
        exponent = expression.args[0] if isinstance(expression, sp.exp) else expression.exp * sp.log(expression.base)
        return _exponential_rate(_limits.expand(exponent), variables)
    if isinstance(expression, _BOUNDED):
        return sp.Integer(0)
    if isinstance(expression, sp.log):
        return _logarithm_rate(expression.args[0], variables)
    if type(expression) in _POWERS:
        inside = sp.Max(0, *(growth_rate(part, variables) for part in expression.args))
        return _POWERS[type(expression)] * inside if inside != 0 else sp.Integer(0)
    if isinstance(expression, sp.asinh):
        # At most the logarithm of its argument.
        return sp.Integer(0) if growth_rate(expression.args[0], variables) != sp.oo else sp.oo
    return sp.oo


def _logarithm_rate(inside: sp.Expr, variables: Sequence[sp.Symbol]) -> sp.Expr:
    """Return the rate of log(inside): 0 where `inside` neither grows nor falls faster than an exponential."""
    if isinstance(inside, sp.exp):
        return growth_rate(inside.args[0], variables)
    if inside.is_Mul:
        # The sum of the logarithms of its factors.
        return sp.Max(0, *(_logarithm_rate(part, variables) for part in inside.args))
    are_positive = inside.is_Add and all(part.is_positive for part in inside.args)
    if growth_rate(inside, variables) != sp.oo:
        # A sum falls no faster than each of its terms. Where a distribution function vanishes its logarithm falls like
        # a square.
        return sp.Min(*(_logarithm_rate(part, variables) for part in inside.args)) if are_positive else sp.Integer(0)
    return sp.Max(0, *(_logarithm_rate(part, variables) for part in inside.args)) if are_positive else sp.oo


def _exponential_rate(exponent: sp.Expr, variables: Sequence[sp.Symbol]) -> sp.Expr:
    if not exponent.is_polynomial(*variables):
        return _rate_of_sides(lambda variable, side: _range_of(exponent, variable, side)[1], variables)
    rates = [sp.Integer(0)]
    polynomial = sp.Poly(exponent, *variables)
    if len(variables) == 1 and polynomial.degree() > 1:
        # The leading power decides: exp(-x^2 + 5 x) is bounded.
        leading = polynomial.LC()
        if polynomial.degree() % 2 or not leading.is_nonpositive:
            return sp.oo
        # exp(-t^2 x^2 + 5 x) is, too, but for t = 0.
        at_zero = [exponent.xreplace({symbol: sp.Integer(0)}) for symbol in _vanishing(leading)]
        return sp.Max(0, *(_exponential_rate(_limits.expand(one), variables) for one in at_zero))
    falls = polynomial.total_degree() == 2 and sp.hessian(exponent, variables).is_negative_semidefinite
    for powers, coefficient in polynomial.terms():
        degree = sum(powers)
        if degree == 1:
            rates.append(sp.Abs(sp.re(coefficient)))
        elif degree > 1 and not (falls or (all(power % 2 == 0 for power in powers) and coefficient.is_nonpositive)):
            return sp.oo
    return sp.Max(*rates)


def _vanishing(coefficient: sp.Expr) -> list[sp.Symbol]:
    """Return symbols of which one is 0 where a coefficient of one sign is."""
    if coefficient.is_nonzero:
        return []
    if coefficient.is_Add:
        # All terms are 0 there, and so is the first.
        return _vanishing(coefficient.args[0])
    if coefficient.is_Mul:
        return [symbol for factor in coefficient.args for symbol in _vanishing(factor)]
    base = coefficient.base if coefficient.is_Pow else coefficient
    return [base] if base.is_Symbol else []


def _rate_of_sides(rate: Callable[[sp.Symbol, int], sp.Expr], variables: Sequence[sp.Symbol]) -> sp.Expr:
    """Return the largest of the rates of all variables along both halves of their axes, at least 0.

    One that changes with another of them has no bound: exp(x y) grows along x as y tells.
    """
    rates = [rate(variable, side) for variable in variables for side in (1, -1)]
    are_known = all(found.is_extended_real and not found.has(*variables) for found in rates)
    return sp.Max(0, *rates) if are_known else sp.oo


def _size_of(expression: sp.Expr, x: sp.Symbol, side: int) -> _Rates:
    """Return (a, b) with |f| between the exponentials of a |x| and b |x|, up to powers of x, on a half of the axis."""
    if not expression.has(x):
        return sp.Integer(0), sp.Integer(0)
    if expression.is_polynomial(x):
        return sp.Integer(0), sp.Integer(0)
    if isinstance(expression, sp.exp):
        return _range_of(_limits.expand(expression.args[0]), x, side)
    if expression.is_Mul:
        sizes = [_size_of(part, x, side) for part in expression.args]
        return _sum(low for low, _ in sizes), _sum(-high for _, high in sizes) * -1
    if expression.is_Add:
        sizes = [_size_of(part, x, side) for part in expression.args]
        high = sp.Max(*(high for _, high in sizes))
        if all(part.is_nonnegative for part in expression.args):
            return sp.Max(*(low for low, _ in sizes)), high
        for place, (low, _) in enumerate(sizes):
            # What grows faster than all the rest together decides.
            if all(low > other for at, (_, other) in enumerate(sizes) if at != place):
                return low, high
        return -sp.oo, high
    if expression.is_Pow and expression.exp.is_number and expression.exp.is_real:
        low, high = _size_of(expression.base, x, side)
        found = (expression.exp * low, expression.exp * high)
        return found if expression.exp.is_positive else (found[1], found[0])
    return -sp.oo, growth_rate(expression, (x,))


def _range_of(expression: sp.Expr, x: sp.Symbol, side: int) -> _Rates:
    """Return (a, b) with f between a |x| and b |x|, up to what grows less, on one half of the axis."""
    if not expression.has(x):
        return sp.Integer(0), sp.Integer(0)
    if expression.is_polynomial(x):
        polynomial = sp.Poly(expression, x)
        leading = polynomial.LC() * side ** polynomial.degree()
        if polynomial.degree() == 1 or not (leading.is_positive or leading.is_negative):
            return (leading, leading) if polynomial.degree() == 1 else _UNKNOWN
        end = sp.oo if leading.is_positive else -sp.oo
        return end, end
    if expression.is_Add:
        # Powers together: the leading one decides.
        rest, polynomial = sp.sift(expression.args, lambda part: bool(part.is_polynomial(x)), binary=True)[::-1]
        ranges = [_range_of(part, x, side) for part in (*rest, *([sp.Add(*polynomial)] if polynomial else []))]
        return _sum(low for low, _ in ranges), -1 * _sum(-high for _, high in ranges)
    factor, function = expression.as_independent(x, as_Add=False)
    if factor != 1:
        low, high = _range_of(function, x, side)
        if factor.is_positive:
            return factor * low, factor * high
        return (factor * high, factor * low) if factor.is_negative else _UNKNOWN
    if isinstance(function, sp.log):
        return _size_of(function.args[0], x, side)
    if isinstance(function, softplus):
        low, high = _range_of(_limits.expand(function.args[0]), x, side)
        return sp.Max(0, low), sp.Max(0, high)
    if isinstance(function, _BOUNDED):
        return sp.Integer(0), sp.Integer(0)
    if isinstance(function, (sp.Max, sp.Min)):
        ranges = [_range_of(part, x, side) for part in function.args]
        choose = sp.Max if isinstance(function, sp.Max) else sp.Min
        return choose(*(low for low, _ in ranges)), choose(*(high for _, high in ranges))
    if isinstance(function, sp.Abs):
        low, high = _range_of(_limits.expand(function.args[0]), x, side)
        return sp.Max(0, low, -high), sp.Max(-low, high)
    if isinstance(function, sp.exp):
        low, high = _range_of(_limits.expand(function.args[0]), x, side)
        # An exponential of what rises outgrows every line, one of what falls or stays vanishes or stays.
        return sp.oo if low.is_positive else sp.Integer(0), sp.Integer(0) if high.is_nonpositive else sp.oo
    return sp.Integer(0) if function.is_nonnegative else -sp.oo, sp.oo


def _sum(rates: Iterable[sp.Expr]) -> sp.Expr:
    """Return the sum of lower rates, which is not known where infinities of both signs meet."""
    found = sp.Add(*rates)
    return -sp.oo if found is sp.nan else found


def require_moment(rate: sp.Expr, what: str) -> None:
    """Raise where a growth rate is infinite: no noise with exponential tails has such a mean."""
    if rate in (sp.oo, sp.nan):
        raise NoExactCorrectionError(
            f"no exponential was found that bounds the growth of {what}, so that its mean under noise with exponential "
            "tails need not exist."
        )
