"""The inverse Weierstrass transform as a series of iterated Laplacians.

    W^-1 = exp(-Delta/2) = sum_k (-1/2)^k Delta^k / k!,      Delta = sum_j D_j d^2/dx_j^2

with D_j the noise variance of the variable x_j. The series ends for polynomials and is then exact; cut
off at an order K it is biased, and its bias is for a certificate to state.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import sympy as sp

from symdebias.exceptions import NoExactCorrectionError

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
        variance * sp.diff(expression, key, 2) if _is_symbol(key) else 2 * variance * sp.diff(expression, *key)
        for key, variance in variances.items()
    ]
    return sp.expand(sp.Add(*terms))
