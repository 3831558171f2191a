"""Which SymPy objects a declared loss may be made of, looked at before SymPy computes with any of them.

An expression is a tree of objects of any class, and its classes decide what is run when it is evaluated, differentiated
or printed. Only SymPy's own are taken, by exact type, and of these the functions of real numbers: no unevaluated sum,
integral or limit, which may take for ever. Size, depth, numbers and powers are bounded, as SymPy bounds none of them:
10**10**10 is computed digit by digit as soon as it is looked at.
"""

import math
from collections.abc import Mapping
from typing import Any

import sympy as sp
from sympy.codegen import cfunctions, numpy_nodes
from sympy.core.function import AppliedUndef
from sympy.functions.elementary.piecewise import ExprCondPair
from sympy.logic import boolalg

from symdebias._domains import check_name, seen
from symdebias.exceptions import ExpressionError
from symdebias.losses.finiteness import value_of

MOST_NODES = 20_000
DEEPEST = 100
# Decimal digits of a number: more than float64 has numbers for, and few enough to compute with; binary ones of these.
_LONGEST_NUMBER, _MOST_BITS = 400, 1_329
_MOST_PRECISION = 3_400
# Of the powers of numbers that SymPy writes down with all their digits.
_LARGEST_POWER = 1_000
_LARGEST_EXPONENT = 250
# Of a function of a number that SymPy computes by a factorial.
_LARGEST_FACTORIAL = 170
# SymPy compares each with each, which takes a second for so many.
_MOST_COMPARED = {sp.Max: 16, sp.Min: 16, sp.Piecewise: 200}

_STRUCTURE = {
    sp.Add, sp.Mul, sp.Pow, sp.exp, sp.Symbol, sp.Dummy, sp.Float, sp.Integer, sp.Rational, sp.Piecewise, ExprCondPair,
    sp.StrictLessThan, sp.LessThan, sp.StrictGreaterThan, sp.GreaterThan, sp.Equality, sp.Unequality,
    boolalg.And, boolalg.Or, boolalg.Not, boolalg.BooleanTrue, boolalg.BooleanFalse,
    *map(type, (
        sp.S.Zero, sp.S.One, sp.S.NegativeOne, sp.S.Half, sp.S.Pi, sp.S.Exp1, sp.S.EulerGamma, sp.S.Catalan,
        sp.S.GoldenRatio, sp.S.ImaginaryUnit, sp.S.Infinity, sp.S.NegativeInfinity, sp.S.NaN, sp.S.ComplexInfinity,
    )),
}  # fmt: skip
_FUNCTIONS = {
    sp.log, sp.sin, sp.cos, sp.tan, sp.cot, sp.sec, sp.csc, sp.asin, sp.acos, sp.atan, sp.acot, sp.atan2, sp.sinh,
    sp.cosh, sp.tanh, sp.coth, sp.sech, sp.csch, sp.asinh, sp.acosh, sp.atanh, sp.erf, sp.erfc, sp.erfi, sp.Abs,
    sp.sign, sp.Heaviside, sp.Max, sp.Min, sp.re, sp.im, sp.floor, sp.ceiling, sp.loggamma, sp.gamma, sp.factorial,
    sp.polygamma,
    cfunctions.log1p, cfunctions.expm1, cfunctions.exp2, cfunctions.log2, cfunctions.log10, cfunctions.Sqrt,
    cfunctions.hypot, cfunctions.fma, numpy_nodes.logaddexp,
}  # fmt: skip
_FACTORIALS = (sp.gamma, sp.loggamma, sp.factorial, sp.polygamma)
# Functions of this library, which it knows how to compute, and those of them that stand in corrected losses alone.
_OWN, _OF_CORRECTIONS = "symdebias.codegen.functions", {"heat_power"}


def require_admitted(expression: sp.Expr) -> None:
    """Raise where an expression has a part that no loss has, or is beyond a bound.

    Raises
    ------
    ExpressionError
        It has an object of another class, more than 20,000 nodes, more than 100 levels, a number of more than 400
        digits, or a power of numbers beyond float64.

    Examples
    --------
    >>> u = sp.Symbol("u", real=True)
    >>> require_admitted(sp.log(1 + sp.exp(u)))
    >>> require_admitted(sp.Integral(sp.exp(-u**2), u))
    Traceback (most recent call last):
    symdebias.exceptions.ExpressionError: the loss has a part of the type Integral, which no loss has. It is made of ...
    """
    # Parts that are shared are looked at once: a short program writes a tree of more nodes than there are atoms.
    sizes: dict[int, tuple[int, int]] = {}
    numbers: dict[Any, float] = {}
    waiting: list[tuple[Any, bool]] = [(expression, False)]
    while waiting:
        node, below_is_known = waiting.pop()
        if id(node) in sizes:
            continue
        if below_is_known:
            parts = [sizes[id(part)] for part in node.args]
            nodes, depth = 1 + sum(size for size, _ in parts), 1 + max((deep for _, deep in parts), default=0)
            _require_size(nodes, depth)
            sizes[id(node)] = (nodes, depth)
            _require_power(node, numbers)
            is_number = all(part in numbers for part in node.args) if node.args else node.is_number
            if is_number and isinstance(node, sp.Expr):
                numbers[node] = _number(node, numbers)
            continue
        _require_known(node)
        if len(sizes) + len(waiting) > MOST_NODES:
            _require_size(MOST_NODES + 1, 0)
        waiting.append((node, True))
        waiting.extend((part, False) for part in node.args)


def _require_size(nodes: int, depth: int) -> None:
    if nodes > MOST_NODES:
        raise ExpressionError(
            f"the loss has more than {MOST_NODES:,} nodes, and so many it may have. Write it with fewer terms, lower "
            "powers or less nesting."
        )
    if depth > DEEPEST:
        raise ExpressionError(
            f"the loss is nested more than {DEEPEST} deep, and so deep it may be. Write it with less nesting."
        )


def _require_known(node: Any) -> None:
    kind = type(node)
    if kind.__module__ == _OWN and kind.__name__ not in _OF_CORRECTIONS:
        return
    if kind not in _STRUCTURE and kind not in _FUNCTIONS:
        # The class of a function that was made up on the spot has no name of its own.
        if isinstance(node, AppliedUndef):
            raise ExpressionError(
                f"the loss has undefined functions: {seen(str(node.func), 60)}. Write it with SymPy's own functions."
            )
        raise ExpressionError(
            f"the loss has a part of the type {kind.__name__[:60]}, which no loss has. It is made of numbers, symbols, "
            "+, -, *, /, powers, Piecewise, comparisons, and of "
            f"{', '.join(sorted(function.__name__ for function in _FUNCTIONS))}. Write it with these."
        )
    if isinstance(node, sp.Symbol):
        check_name("the loss", node.name, "a symbol's")
    elif isinstance(node, sp.Rational):
        _require_short(max(abs(int(node.p)), int(node.q)).bit_length())
    elif isinstance(node, sp.Float):
        _, mantissa, exponent, bits = node._mpf_
        _require_short(abs(exponent + bits) if mantissa else 0)
        if node._prec > _MOST_PRECISION:
            raise ExpressionError(
                "the loss has a number of more than 1,000 decimal places. Give it as float64 or as a fraction."
            )
    elif len(node.args) > _MOST_COMPARED.get(kind, MOST_NODES):
        raise ExpressionError(
            f"the loss has a {kind.__name__} of {len(node.args):,} parts. It may have {_MOST_COMPARED.get(kind)}: "
            "write it with fewer."
        )


def _require_short(bits: int) -> None:
    if bits > _MOST_BITS:
        raise ExpressionError(
            f"the loss has a number of more than {_LONGEST_NUMBER} digits, beyond those of float64 (1e308). Write it "
            "with smaller numbers."
        )


def _number(node: sp.Expr, numbers: Mapping[Any, float]) -> float:
    """Return the value of a part without symbols, or refuse one that SymPy would write down digit by digit."""
    try:
        if isinstance(node, _FACTORIALS) and not all(abs(numbers[part]) <= _LARGEST_FACTORIAL for part in node.args):
            raise OverflowError
        return value_of(node, numbers)
    except OverflowError:
        raise ExpressionError(
            f"the loss has the constant {_short(node)}, which is beyond the numbers of float64 (1e308), or is computed "
            "by way of such numbers. Write it with smaller constants."
        ) from None


def _require_power(node: Any, numbers: Mapping[Any, float]) -> None:
    """Refuse powers of numbers that have too many digits, and exponents that no loss has."""
    if not isinstance(node, (sp.Pow, sp.exp)):
        return
    base, exponent = (sp.E, node.args[0]) if isinstance(node, sp.exp) else node.args
    size = abs(numbers.get(exponent, 0.0))
    if math.isnan(size):
        # A number whose size is not known here; as the exponent of e no digits are written down.
        size = 0.0 if base is sp.E else math.inf
    if isinstance(base, sp.Rational) and size:
        size *= max(abs(int(base.p)), int(base.q)).bit_length()
        allowed = float(_MOST_BITS)
    else:
        # Powers of e stay as they are written; whether they overflow is asked of their values.
        allowed = math.inf if base is sp.E else float(_LARGEST_POWER if base in numbers else _LARGEST_EXPONENT)
    inside = [abs(float(part)) for part in exponent.atoms(sp.Number) if part.is_finite]
    if base in numbers and exponent not in numbers and base is not sp.E:
        size = max(inside, default=0.0)
    # SymPy turns exp(k log(3)) into 3**k.
    if any(not one.free_symbols for one in exponent.atoms(sp.log)):
        size, allowed = max(size, math.prod(max(1.0, part) for part in inside)), float(_LARGEST_POWER)
    if not size <= allowed:
        raise ExpressionError(
            f"the loss has the power {_short(node)}, whose exponent is too large or whose value has too many digits. "
            "Write it with lower powers and smaller constants."
        )


def _short(node: Any) -> str:
    """Return a part as text where it is short: a number's digits are not written down for a message."""
    return f"{type(node).__name__} of {len(node.args)} parts" if len(node.atoms()) > 12 else seen(str(node), 60)
