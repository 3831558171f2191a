"""What the rules of the heat flow are told of an expression, and what each of them returns."""

from dataclasses import dataclass

import sympy as sp

from symdebias import _limits


@dataclass(frozen=True)
class Transformed:
    """A transformed expression with what must hold for it to be true.

    Attributes
    ----------
    expression : sympy.Expr
        The closed form.
    conditions : tuple of sympy relationals
        Each must hold for the transform to exist.
    variance_conditions : tuple of sympy relationals
        Each must hold besides for the expression to have finite variance on noised values.

    Examples
    --------
    >>> from symdebias.transforms import inverse_heat
    >>> u, s = sp.symbols("u s", positive=True)
    >>> bump = inverse_heat(sp.exp(-(u**2) / 2), u, s)
    >>> bump.conditions, bump.variance_conditions
    ((s < 1,), ())
    """

    expression: sp.Expr
    conditions: tuple[sp.Rel, ...] = ()
    variance_conditions: tuple[sp.Rel, ...] = ()


@dataclass(frozen=True)
class Kind:
    """What the terms of one group share: exp(i phase + a u + b u^2) and erf(alpha u + beta), if any."""

    phase: sp.Expr
    linear: sp.Expr
    quadratic: sp.Expr
    erf: tuple[sp.Expr, sp.Expr] | None

    def xreplace(self, values: dict[sp.Symbol, sp.Expr]) -> "Kind":
        """Put expressions in the place of symbols in every part."""
        erf = self.erf and (self.erf[0].xreplace(values), self.erf[1].xreplace(values))
        return Kind(self.phase.xreplace(values), self.linear.xreplace(values), self.quadratic.xreplace(values), erf)


def positive(expression: sp.Expr) -> sp.Rel:
    """Return expression > 0, solved for the variance, or the sum of variances, that it is linear in."""
    if expression.is_positive:
        return sp.true
    total = sp.Add(*expression.free_symbols)
    slopes = {sp.diff(expression, symbol) for symbol in expression.free_symbols}
    if len(slopes) == 1 and (slope := slopes.pop()).is_number:
        # c + slope (s + t + ...) > 0
        bound = _limits.expand(slope * total - expression) / slope
        return total < bound if slope.is_negative else total > bound
    return sp.Gt(expression, 0)
