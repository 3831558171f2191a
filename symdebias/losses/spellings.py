"""A label such as 0.1 in SymPy: the number of float64 next to 1/10, or 1/10 itself, which conditions tell apart."""

import sympy as sp
from sympy.core.relational import Relational

# What may jump at a number.
_JUMPING = (Relational, sp.sign, sp.Heaviside, sp.KroneckerDelta)


def spellings(expression: sp.Expr, target: sp.Symbol, value: float) -> tuple[sp.Rational, ...]:
    """Return the numbers that a bound on an expression must hold for at a value of the target.

    That is the number of float64, and where the expression compares the target with numbers the fraction that it is
    written as, too: derivations put the latter in.

    Examples
    --------
    >>> y = sp.Symbol("y", real=True)
    >>> spellings(sp.Piecewise((1, sp.Eq(y, sp.Rational(1, 10))), (0, True)), y, 0.1)
    (3602879701896397/36028797018963968, 1/10)
    >>> spellings(sp.exp(y), y, 0.5)
    (1/2,)
    """
    exact, short = sp.Rational(value), sp.nsimplify(value, rational=True)
    compares = exact != short and any(node.free_symbols == {target} for node in expression.atoms(*_JUMPING))
    return (exact, short) if compares else (exact,)
