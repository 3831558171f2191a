"""Where a declared loss is not finite, or jumps: constants beyond float64, poles, logarithms of 0, steps.

Candidates are the real zeros of denominators, of arguments of logarithms and of conditions; what the loss does beside
them decides.
"""

import functools
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import sympy as sp

# Scores among which zeros are looked for, and distances from a zero at which the loss is looked at.
_GRID = np.unique(np.concatenate([np.linspace(-12.03, 12.01, 601), np.arange(-24, 25) / 2]))
_NEAR = tuple(sp.Rational(1, 10**power) for power in (3, 6, 9, 12))
# Of polynomials whose repeated zeros are looked for.
_HIGHEST_DEGREE = 30
# A removable singularity cancels as many digits as the square of the distance has.
_DIGITS = 50
_ROUNDING = sp.Float("1e-25", _DIGITS)
# A factor without singularities is taken to vanish where it is smaller: zeros are found to a few digits less than 16.
_VANISHING = 1e-9
# Functions of one argument as floats, for the size of constants.
_FLOATS: dict[type, Callable[[float], float]] = {
    sp.log: math.log,
    sp.sin: math.sin,
    sp.cos: math.cos,
    sp.tan: math.tan,
    sp.atan: math.atan,
    sp.tanh: math.tanh,
    sp.sinh: math.sinh,
    sp.cosh: math.cosh,
    sp.asinh: math.asinh,
    sp.erf: math.erf,
    sp.erfc: math.erfc,
    sp.Abs: abs,
}


def overflows(expression: sp.Expr, at: Mapping[sp.Symbol, float]) -> bool:
    """Whether a value inside an expression at a point is beyond float64; SymPy would compute digits without end.

    Examples
    --------
    >>> u = sp.Symbol("u", real=True)
    >>> overflows(sp.exp(sp.exp(u)), {u: 3.0}), overflows(sp.exp(sp.exp(u)), {u: 9.0})
    (False, True)
    """
    try:
        value_of(expression, at)
    except OverflowError:
        return True
    return False


def value_of(node: sp.Basic, at: Mapping[Any, float]) -> float:
    """Return an expression's value at those of its symbols, and of parts that are known; NaN where it is not known.

    Raises
    ------
    OverflowError
        It or a part is beyond float64.
    """
    if node in at:
        return at[node]
    if node.is_Number or node.is_NumberSymbol:
        value = float(node)
        if math.isinf(value) and node.is_finite:
            raise OverflowError
        return value
    if not node.args:
        return math.nan
    try:
        parts = [value_of(part, at) for part in node.args]
    except OverflowError:
        if isinstance(node, sp.log):
            return _log_of_sum(node.args[0], at)
        raise
    if node.is_Add:
        found = math.fsum(parts) if all(map(math.isfinite, parts)) else math.nan
    elif node.is_Mul:
        found = math.prod(parts)
    elif isinstance(node, sp.exp):
        found = math.exp(parts[0]) if parts[0] > -745 else 0.0 if parts[0] == parts[0] else math.nan
    elif node.is_Pow:
        try:
            found = parts[0] ** parts[1]
        except ZeroDivisionError:
            return math.nan
        found = found if isinstance(found, float) else math.nan
    elif type(node) in _FLOATS and math.isfinite(parts[0]):
        try:
            return _FLOATS[type(node)](parts[0])
        except ValueError:
            return math.nan
    else:
        return math.nan
    # An infinity that was written is no overflow.
    if math.isinf(found) and all(map(math.isfinite, parts)):
        raise OverflowError
    return found


def _log_of_sum(total: sp.Basic, at: Mapping[Any, float]) -> float:
    """Return the logarithm of a sum of positive constants times exponentials, or of one times a hyperbolic cosine.

    So do kernels, where one of them is beyond float64: log(1 + e^x) is x for large x.

    Raises
    ------
    OverflowError
        It is another sum, or its logarithm is beyond float64 as well.
    """
    logarithms = []
    for term in sp.Add.make_args(total):
        found = 0.0
        for factor in sp.Mul.make_args(term):
            if isinstance(factor, sp.exp):
                found += value_of(factor.args[0], at)
            elif isinstance(factor, sp.cosh) and not total.is_Add:
                size = abs(value_of(factor.args[0], at))
                found += size + math.log1p(math.exp(-2 * size)) - math.log(2)
            elif factor.is_number and factor.is_positive:
                found += math.log(value_of(factor, at))
            else:
                raise OverflowError
        logarithms.append(found)
    largest = max(logarithms)
    return largest + math.log(math.fsum(math.exp(one - largest) for one in logarithms))


def singular_score(expression: sp.Expr, score: sp.Symbol, at: Mapping[sp.Symbol, float]) -> float | None:
    """Return a real score beside which a loss has no finite limit, or None where none was found.

    Parameters
    ----------
    expression : sympy.Expr
        The loss.
    score : sympy.Symbol
        Its score.
    at : mapping from sympy.Symbol to float
        Values of its other symbols.

    Examples
    --------
    >>> u = sp.Symbol("u", real=True)
    >>> singular_score(1 / (u - 1), u, {}), singular_score(sp.sin(u) / u, u, {})
    (1.0, None)
    """
    at_numbers = _numbers(at)
    for place in _zeros(_vanishing(expression), score, at_numbers):
        if _is_singular(expression.xreplace(at_numbers), score, place):
            return place
    return None


def _is_singular(node: sp.Expr, score: sp.Symbol, place: float) -> bool:
    """Whether an expression has no finite limit beside a score.

    Sums and products are taken apart first: a logarithm is as infinite beside a term of 1e15 as alone, and its values
    at distances that can be told apart from 0 do not show it there. Parts that are singular themselves are looked at
    together, as they may cancel: 1/(exp(u) - 1) - 1/u.
    """
    if not any(part.has(score) for part in _vanishing(node)):
        return False
    if node.is_Add or node.is_Mul:
        singular = [part for part in node.args if _is_singular(part, score, place)]
        if node.is_Mul and _vanishes(sp.Mul(*(part for part in node.args if part not in singular)), score, place):
            # sin(u)/u, u log(u^2): the product decides.
            return _diverges(node, score, place)
        return len(singular) == 1 or (bool(singular) and _diverges(node.func(*singular), score, place))
    if node.is_Pow and node.exp.is_number and node.exp.is_positive and _is_singular(node.base, score, place):
        return True
    return _diverges(node, score, place)


def _vanishes(regular: sp.Expr, score: sp.Symbol, place: float) -> bool:
    value = _near(regular, score, place, sp.S.Zero)
    return value is None or abs(value) < _VANISHING


def _diverges(expression: sp.Expr, score: sp.Symbol, place: float) -> bool:
    """Whether the values of an expression at ever smaller distances from a score do not converge."""
    for side in (1, -1):
        values = [_near(expression, score, place, side * distance) for distance in _NEAR]
        if any(value is None for value in values):
            return True
        known = [value for value in values if value is not None]
        for far, nearer, nearest in zip(known, known[1:], known[2:], strict=False):
            # What converges moves less with each step; a logarithm as much, a pole more, however large or small
            # beside the rest of the loss: the values have their fifty digits.
            if abs(nearest - nearer) > 0.3 * abs(nearer - far) + _ROUNDING * (1 + abs(far)):
                return True
    return False


def may_jump(expression: sp.Expr) -> bool:
    """Whether a loss has a part that jumps where something changes its sign."""
    return next(_switching(expression), None) is not None


@functools.lru_cache(maxsize=256)
def jump(expression: sp.Expr, score: sp.Symbol, at: tuple[tuple[sp.Symbol, float], ...]) -> float | None:
    """Return a real score at which a loss jumps, or None where none was found.

    Parameters
    ----------
    expression : sympy.Expr
        The loss.
    score : sympy.Symbol
        Its score.
    at : tuple of (sympy.Symbol, float)
        Values of its other symbols.

    Examples
    --------
    >>> u = sp.Symbol("u", real=True)
    >>> jump(sp.Heaviside(u - 2), u, ()), jump(sp.Max(0, u - 2), u, ())
    (2.0, None)
    """
    at_numbers = _numbers(dict(at))
    of_score = expression.xreplace(at_numbers)
    for place in _zeros(_switching(expression), score, at_numbers):
        sizes = []
        for distance in _NEAR[1:3]:
            sides = [_near(of_score, score, place, side * distance) for side in (1, -1)]
            sizes.append(abs(sides[0] - sides[1]) if None not in sides else 0)  # type: ignore[operator]
        if sizes[1] > 1e-5 and sizes[1] > 0.5 * sizes[0]:
            return place
    return None


def _numbers(at: Mapping[sp.Symbol, float]) -> dict[sp.Symbol, sp.Expr]:
    return {symbol: sp.Rational(value) for symbol, value in at.items()}


def _vanishing(expression: sp.Expr) -> Iterator[sp.Expr]:
    """Yield what must not be 0: denominators, and arguments of logarithms."""
    for node in sp.preorder_traversal(expression):
        if isinstance(node, sp.log):
            yield node.args[0]
        elif isinstance(node, sp.tan):
            yield sp.cos(node.args[0])
        elif isinstance(node, sp.Pow) and node.exp.is_number and node.exp.is_negative:
            yield node.base


def _switching(expression: sp.Expr) -> Iterator[sp.Expr]:
    """Yield what changes its sign where a loss may jump."""
    for node in sp.preorder_traversal(expression):
        if isinstance(node, (sp.sign, sp.Heaviside)):
            yield node.args[0]
        elif isinstance(node, (sp.floor, sp.ceiling)):
            yield sp.sin(sp.pi * node.args[0])
        elif isinstance(node, sp.core.relational.Relational):
            yield node.lhs - node.rhs


def _zeros(functions: Iterator[sp.Expr], score: sp.Symbol, at: Mapping[sp.Symbol, sp.Expr]) -> Iterator[float]:
    """Yield real zeros of functions of the score, as far as a grid shows them."""
    for written in (factor for function in functions for factor in _simple_factors(function.xreplace(at), score)):
        if written.free_symbols != {score}:
            continue
        compiled = sp.lambdify(score, written, modules=["scipy", "numpy"])
        values = _evaluated(compiled, _GRID)
        if values is None:
            continue
        yield from _GRID[values == 0][:4].tolist()
        turns = np.flatnonzero(np.sign(values[:-1]) * np.sign(values[1:]) < 0)[:4]
        for turn in turns:
            low, high = _GRID[turn], _GRID[turn + 1]
            for _ in range(60):
                middle = (low + high) / 2
                found = _evaluated(compiled, np.array([middle]))
                if found is None:
                    break
                low, high = (low, middle) if found[0] * values[turn] <= 0 else (middle, high)
            yield float(low)


def _simple_factors(function: sp.Expr, score: sp.Symbol) -> Iterator[sp.Expr]:
    """Yield functions with the zeros of a function, each with a change of sign: of (u - 1)^2 and its like u - 1."""
    for factor in sp.Mul.make_args(function):
        simple = factor
        while simple.is_Pow and simple.exp.is_number and simple.exp.is_positive:
            simple = simple.base
        if simple.is_Add and simple.is_polynomial(score) and simple.free_symbols == {score}:
            polynomial = sp.Poly(simple, score)
            if polynomial.degree() <= _HIGHEST_DEGREE and polynomial.get_domain().is_Exact:
                simple = polynomial.sqf_part().as_expr()
        yield simple


def _evaluated(compiled: Callable[..., Any], at: Any) -> Any:
    try:
        with np.errstate(all="ignore"):
            values = np.asarray(compiled(at))
    except (TypeError, ValueError, OverflowError, AttributeError, NameError, ZeroDivisionError):
        return None
    return np.real(np.broadcast_to(values, at.shape)) if values.dtype.kind in "fciu" else None


def _near(expression: sp.Expr, score: sp.Symbol, place: float, distance: sp.Expr) -> sp.Float | None:
    """Return a function of the score beside a place, to fifty digits, or None where it is not a finite real number."""
    point = sp.Rational(place) + distance
    if overflows(expression, {score: float(point)}):
        return None
    value = expression.xreplace({score: point}).evalf(_DIGITS)
    return value if value.is_number and value.is_real and value.is_finite else None
