"""Losses of several scores and their derivatives as sums of few parts, with what noise multiplies them.

A finite operator on a loss F of several scores gives a polynomial in the entries of Theta D Theta' whose coefficients
are derivatives of F. So are all derivatives of it, each with others: every one is a part that is computed once for a
record, and what multiplies it is the same for all records.
"""

from collections.abc import Sequence

import sympy as sp

from symdebias import _limits

# What multiplies each part.
_Sum = dict[sp.Symbol, sp.Expr]


class Parts:
    """A loss as a polynomial in some symbols, whose coefficients are parts.

    Parameters
    ----------
    expression : sympy.Expr
        The loss.
    variables : sequence of sympy.Symbol
        What it is a polynomial in.

    Attributes
    ----------
    values : dict from sympy.Symbol to sympy.Expr
        The parts found so far, each under a symbol of its own.

    Raises
    ------
    sympy.PolynomialError
        It is no polynomial in them.
    """

    def __init__(self, expression: sp.Expr, variables: Sequence[sp.Symbol]) -> None:
        self.variables = tuple(variables)
        self.values: dict[sp.Symbol, sp.Expr] = {}
        self._symbols: dict[sp.Expr, sp.Symbol] = {}
        self._slopes: dict[tuple[sp.Symbol, sp.Symbol], tuple[sp.Expr, sp.Symbol] | None] = {}
        self.loss: _Sum = {}
        for powers, coefficient in sp.Poly(expression, *self.variables).terms():
            monomial = sp.Mul(*(v**power for v, power in zip(self.variables, powers, strict=True)))
            self._add(self.loss, monomial, self._part(coefficient))

    def slope(self, of: _Sum, by: sp.Symbol) -> _Sum:
        """Return the derivative of a sum by a symbol."""
        found: _Sum = {}
        for part, factor in of.items():
            if by in self.variables:
                self._add(found, sp.diff(factor, by), (sp.Integer(1), part))
                continue
            if (part, by) not in self._slopes:
                self._slopes[part, by] = self._part(_limits.diff(self.values[part], by))
            self._add(found, factor, self._slopes[part, by])
        return found

    def expression(self, of: _Sum) -> sp.Expr:
        """Return a sum in the symbols of its parts."""
        return sp.Add(*(factor * part for part, factor in of.items()))

    def _part(self, value: sp.Expr) -> tuple[sp.Expr, sp.Symbol] | None:
        """Return a number and a part whose product is the value, or None for 0: multiples of one are one part."""
        value = _limits.expand_around_forms(value)
        if value == 0:
            return None
        number, part = value.as_content_primitive()
        if part.could_extract_minus_sign():
            number, part = -number, _limits.expand_around_forms(-part)
        if part not in self._symbols:
            symbol = sp.Symbol(f"part{len(self.values)}", real=True)
            self._symbols[part], self.values[symbol] = symbol, part
        return number, self._symbols[part]

    @staticmethod
    def _add(total: _Sum, factor: sp.Expr, found: tuple[sp.Expr, sp.Symbol] | None) -> None:
        if found is None or factor == 0:
            return
        number, part = found
        total[part] = total.get(part, sp.Integer(0)) + number * factor
