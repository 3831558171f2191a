"""Expressions as text that `symdebias.losses.parsing` reads back to the same expression."""

from collections.abc import Mapping
from typing import Any

import sympy as sp

from symdebias.losses.parsing import read
from symdebias.losses.words import EXTREMA, FUNCTIONS, NAME_OF_CONSTANT, RELATIONS

_NAME_OF_FUNCTION = {function: name for name, (function, _) in FUNCTIONS.items() if name != "sqrt"}
_NAME_OF_EXTREMUM = {function: name for name, function in EXTREMA.items()}
_SIGN_OF_RELATION = {relation: sign for sign, relation in RELATIONS.values()}


def write(expression: sp.Expr, names: Mapping[sp.Symbol, str]) -> str:
    """Return an expression as text that `read` takes and that gives an equal one, with names of `names_in_text`.

    Raises
    ------
    ValueError
        The language of `read` has no words for it, or it is too long.

    Examples
    --------
    >>> u, y = sp.symbols("u y", real=True)
    >>> write(sp.log(1 + sp.exp(-u * y)) - u / 2, {u: "u", y: "y"})
    '-1/2*u + log(1 + exp(-u*y))'
    """
    text = _sum_text(expression, names)
    try:
        found = read(text, {name: symbol for symbol, name in names.items()})
    except ValueError as error:
        raise ValueError(f"{_shown(expression)} cannot be written as text: {error}") from None
    if found != expression:
        raise ValueError(f"{_shown(expression)} cannot be written as text: SymPy makes {_shown(found)} of it.")
    return text


def _sum_text(expression: sp.Expr, names: Mapping[sp.Symbol, str]) -> str:
    if not expression.is_Add:
        return _product_text(expression, names)
    text = ""
    for term in expression.args:
        written = _product_text(term, names)
        if not text:
            text = written
        elif written.startswith("-"):
            text += f" - {written[1:]}"
        else:
            text += f" + {written}"
    return text


def _product_text(expression: sp.Expr, names: Mapping[sp.Symbol, str]) -> str:
    if expression.is_Number:
        return _number_text(expression)
    if not expression.is_Mul:
        return _power_text(expression, names)
    first, *others = expression.args
    if not first.is_Number:
        return "*".join(_power_text(factor, names) for factor in expression.args)
    rest = "*".join(_power_text(factor, names) for factor in others)
    if first == -1 and first.is_Integer:
        return f"-{rest}"
    return f"{_number_text(first)}*{rest}"


def _power_text(expression: sp.Expr, names: Mapping[sp.Symbol, str]) -> str:
    if not expression.is_Pow:
        return _atom_text(expression, names)
    base, exponent = expression.args
    if exponent == sp.Rational(1, 2):
        return f"sqrt({_sum_text(base, names)})"
    return f"{_atom_text(base, names)}**{_atom_text(exponent, names)}"


def _atom_text(expression: sp.Expr, names: Mapping[sp.Symbol, str]) -> str:
    """Return what may stand on either side of **."""
    if expression.is_Symbol:
        if expression not in names:
            raise ValueError(f"the symbol {expression} has no name in the text.")
        return names[expression]
    if expression.is_Number:
        text = _number_text(expression)
        return text if text.isalnum() else f"({text})"
    if expression.is_Add or expression.is_Mul or expression.is_Pow:
        return f"({_sum_text(expression, names)})"
    if expression in NAME_OF_CONSTANT:
        return NAME_OF_CONSTANT[expression]
    if expression is sp.E:
        return "exp(1)"
    kind = type(expression)
    if kind is sp.Heaviside and expression.args[1] != sp.Rational(1, 2):
        return f"Heaviside({', '.join(_sum_text(argument, names) for argument in expression.args)})"
    if kind in _NAME_OF_FUNCTION:
        return f"{_NAME_OF_FUNCTION[kind]}({_sum_text(expression.args[0], names)})"
    if kind in _NAME_OF_EXTREMUM:
        return f"{_NAME_OF_EXTREMUM[kind]}({', '.join(_sum_text(argument, names) for argument in expression.args)})"
    if isinstance(expression, sp.Piecewise):
        pairs = (f"({_sum_text(value, names)}, {_condition_text(when, names)})" for value, when in expression.args)
        return f"Piecewise({', '.join(pairs)})"
    raise ValueError(
        f"{kind.__name__} (in {_shown(expression)}) has no word in the text of an expression, which has numbers, "
        f"+ - * / **, Piecewise with plain comparisons, Max, Min, {', '.join(FUNCTIONS)}."
    )


def _condition_text(condition: Any, names: Mapping[sp.Symbol, str]) -> str:
    if condition in (sp.true, sp.false):
        return str(bool(condition))
    if type(condition) not in _SIGN_OF_RELATION:
        raise ValueError(f"the condition {_shown(condition)} is no comparison of two expressions.")
    left, right = (_sum_text(side, names) for side in condition.args)
    return f"{left} {_SIGN_OF_RELATION[type(condition)]} {right}"


def _number_text(number: sp.Expr) -> str:
    if number.is_Rational and number.is_finite:
        return str(number)
    # What float64 does not hold to the last bit is no float64.
    if isinstance(number, sp.Float) and number.is_finite and sp.Float(float(number)) == number and number._prec == 53:
        return repr(float(number))
    raise ValueError(f"the number {_shown(number)} is neither a fraction nor a float64.")


def _shown(expression: sp.Expr) -> str:
    text = str(expression)
    return text if len(text) <= 80 else f"{text[:77]}..."
