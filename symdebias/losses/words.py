"""The language in which expressions are text: its functions, constants, comparisons, and names of symbols."""

import ast
import keyword
import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import sympy as sp

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
# Functions of one argument, with what folds a number.
FUNCTIONS: dict[str, tuple[Any, Callable[[float], float]]] = {
    "exp": (sp.exp, math.exp),
    "log": (sp.log, math.log),
    "sqrt": (sp.sqrt, math.sqrt),
    "sin": (sp.sin, math.sin),
    "cos": (sp.cos, math.cos),
    "tan": (sp.tan, math.tan),
    "sinh": (sp.sinh, math.sinh),
    "cosh": (sp.cosh, math.cosh),
    "tanh": (sp.tanh, math.tanh),
    "asinh": (sp.asinh, math.asinh),
    "atan": (sp.atan, math.atan),
    "erf": (sp.erf, math.erf),
    "erfc": (sp.erfc, math.erfc),
    "loggamma": (sp.loggamma, math.lgamma),
    "Abs": (sp.Abs, abs),
    "sign": (sp.sign, lambda x: float((x > 0) - (x < 0))),
    "Heaviside": (sp.Heaviside, lambda x: (1.0 + (x > 0) - (x < 0)) / 2),
}
EXTREMA = {"Max": sp.Max, "Min": sp.Min}
# Other spellings, which are read and never written.
SPELLED = {
    "abs": "Abs", "absolute": "Abs", "fabs": "Abs", "arcsinh": "asinh", "arctan": "atan", "lgamma": "loggamma",
    "gammaln": "loggamma", "ln": "log", "max": "Max", "maximum": "Max", "min": "Min", "minimum": "Min",
}  # fmt: skip
CONSTANTS: dict[str, tuple[Any, float]] = {
    "pi": (sp.pi, math.pi),
    "EulerGamma": (sp.EulerGamma, 0.5772156649015329),
}
NAME_OF_CONSTANT = {constant: name for name, (constant, _) in CONSTANTS.items()}
RELATIONS: dict[type, tuple[str, Any]] = {
    ast.Lt: ("<", sp.StrictLessThan),
    ast.LtE: ("<=", sp.LessThan),
    ast.Gt: (">", sp.StrictGreaterThan),
    ast.GtE: (">=", sp.GreaterThan),
    ast.Eq: ("==", sp.Equality),
    ast.NotEq: ("!=", sp.Unequality),
}
_RESERVED = {*FUNCTIONS, *EXTREMA, *CONSTANTS, "Piecewise", *keyword.kwlist}


def names_in_text(symbols: Sequence[str]) -> tuple[str, ...]:
    """Return the names that stand for symbols in a text: their own, or v0, v1, ... where one cannot stand there.

    Parameters
    ----------
    symbols : sequence of str
        The names of the symbols, in an order that writer and reader share.
    """
    if all(_NAME.fullmatch(name) and name not in _RESERVED for name in symbols):
        return tuple(symbols)
    return tuple(f"v{index}" for index in range(len(symbols)))
