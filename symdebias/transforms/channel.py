"""A loss of a target with two values is affine in it: every unbiased estimate of the label corrects the loss.

F(u, y) = A(u) + B(u) y, and under randomized response the estimate is y0 + gain (y~ - y0), with y0 the middle of the
two values and gain = coth(epsilon/2).
"""

import functools

import sympy as sp

from symdebias import _limits


@functools.lru_cache(maxsize=1024)
def rational(value: float) -> sp.Rational:
    """Return the simplest fraction that is a number but for rounding, as 1/10 is .1; SymPy takes milliseconds."""
    return sp.nsimplify(value, rational=True)


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
    low, high = map(rational, values)
    at_low, at_high = expression.xreplace({target: low}), expression.xreplace({target: high})
    slope = _tidy((at_high - at_low) / (high - low))
    level = _tidy((high * at_low - low * at_high) / (high - low))
    return level + slope * estimate


def _tidy(expression: sp.Expr) -> sp.Expr:
    # Terms that the two labels share must cancel here, not in the derivation: expand, keep if shorter.
    expanded = _limits.expand(expression)
    return expanded if expanded.count_ops() <= expression.count_ops() else expression
