"""Expressions as text that is read without running it.

SymPy's own way from text to expressions evaluates the text as Python, and a stranger's text is a stranger's code. Here
the text is parsed, never evaluated: a fixed list of operations is built node by node, its numbers are folded before
SymPy sees them, and length, depth and size are bounded.
"""

import ast
import itertools
import math
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import sympy as sp

from symdebias.exceptions import ExpressionError
from symdebias.losses.words import CONSTANTS, EXTREMA, FUNCTIONS, NAME_OF_CONSTANT, RELATIONS, SPELLED

LONGEST_TEXT = 2_000
_MOST_NODES = 400
_DEEPEST, _MOST_CALLS = 40, 10
_LARGEST_EXPONENT = 12
_LARGEST_NUMBER = 1e12
_LEAST_POWER = 1e-12
# Fractions of decimal numbers have numerators and denominators far beyond their value.
_LARGEST_INTEGER = 10**40
_LARGEST_ROOT = 100
_MOST_COMPARED = 16
# Of what is asked for its sign and may be complex, as roots and logarithms of real numbers may: SymPy then looks for
# real and imaginary parts, which takes minutes for cosh(cosh(...(log(u)))) and for the 12th power of three roots.
_MOST_COMPLEX_NODES, _HIGHEST_COMPLEX_POWER = 10, 3
# Hyperbolic functions about a root: in some of the orders, drawn at random, in which SymPy asks eight take minutes.
_MOST_NESTED = 2
# Numbers that are longer are decimal: SymPy evaluates them to many digits whenever it is asked for their sign.
_MOST_EXACT_NODES, _MOST_EXACT_CALLS = 20, 3
# log(Gamma(n)) is computed by way of n!.
_LARGEST_FACTORIAL = 170

# What is copied from a page, or written as elsewhere.
_TYPED = str.maketrans({
    "^": "**", "\N{SUPERSCRIPT TWO}": "**2", "\N{SUPERSCRIPT THREE}": "**3", "\N{MINUS SIGN}": "-",
    "\N{MULTIPLICATION SIGN}": "*", "\N{MIDDLE DOT}": "*", "\N{DOT OPERATOR}": "*",
})  # fmt: skip
_CHARACTERS = re.compile(r"[A-Za-z0-9_+\-*/(),.<>=! ]*")
# Those that SymPy builds by asking for the sign of what they take, or that it is slow to find the sign of.
_ASKING = {"Abs", "sign", "Heaviside", "loggamma", "sinh", "cosh", "tanh"}


@dataclass(frozen=True)
class _Exact:
    """A number that no fraction is, such as sqrt(2), with its value."""

    expression: sp.Expr
    value: float


_Part: TypeAlias = Fraction | float | _Exact | Any  # or a SymPy expression


def read(text: str, names: Mapping[str, sp.Symbol]) -> sp.Expr:
    """Return the expression that a text describes; nothing in the text is run.

    Parameters
    ----------
    text : str
        At most 2,000 ASCII characters: numbers, the names, ``pi``, + - * / **, ``exp``, ``log``, ``sqrt``, ``sin``,
        ``cos``, ``tan``, ``sinh``, ``cosh``, ``tanh``, ``asinh``, ``atan``, ``erf``, ``erfc``, ``loggamma``, ``Abs``,
        ``sign``, ``Heaviside``, ``Max``, ``Min``, and ``Piecewise((value, a < b), ..., (value, True))``. Fractions
        are exact, decimal numbers are float64.
    names : mapping from str to sympy.Symbol
        The symbols that may occur.

    Raises
    ------
    TypeError
        It is no text.
    ExpressionError
        It is something else, or beyond a bound: 400 nodes, 40 levels, exponents up to 12, numbers up to 1e12; also a
        ValueError.

    Examples
    --------
    >>> u = sp.Symbol("u", real=True)
    >>> read("log(1 + exp(u)) - u/2", {"u": u})
    -u/2 + log(exp(u) + 1)
    >>> read("__import__('os').system('ls')", {"u": u})
    Traceback (most recent call last):
    symdebias.exceptions.ExpressionError: the expression has the character "'". It takes letters, digits, blanks and ...
    """
    if not isinstance(text, str):
        raise TypeError(f"an expression is read from text; got {type(text).__name__}. Give a str.")
    try:
        return _read(text, names)
    except ExpressionError:
        raise
    except ValueError as error:
        raise ExpressionError(str(error)) from None


def as_typed(text: str) -> str:
    """Return a text that someone typed in the characters that `read` takes: ``^`` and raised digits as powers, say.

    Examples
    --------
    >>> as_typed(" (y - u)^2 ")
    '(y - u)**2'
    """
    return text.translate(_TYPED).strip()


def _read(text: str, names: Mapping[str, sp.Symbol]) -> sp.Expr:
    if len(text) > LONGEST_TEXT:
        raise ValueError(f"the expression has {len(text):,} characters. It may have {LONGEST_TEXT:,}. Shorten it.")
    plain = _CHARACTERS.match(text)
    if plain is None or plain.end() < len(text):
        odd = text[0 if plain is None else plain.end()]
        remedy = {"^": " Write ** for a power.", "|": " Write Abs(y - u) for |y - u|."}.get(odd, "")
        raise ValueError(
            f"the expression has the character {odd!a}. It takes letters, digits, blanks and "
            f"_ + - * / ( ) , . < > = ! **{'.' if remedy else ''}{remedy}"
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of Python, about odd spellings
            tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise ValueError(
            f"{text[:60]!r} is no expression: its parentheses or operators do not fit. Write it as exp(-y*u), a "
            "product with its *."
        ) from None
    try:
        return _symbolic(_Reader(names).part(tree.body, 0))
    except (ArithmeticError, TypeError, AttributeError, NotImplementedError, RecursionError):
        # What SymPy raises on combinations that are no real numbers.
        raise ValueError(f"{text[:60]!r} is no real expression, as where it divides by zero. Correct it.") from None


# ---- reading ---------------------------------------------------------------------------------------------


class _Reader:
    def __init__(self, names: Mapping[str, sp.Symbol]) -> None:
        self.names = names
        self.nodes = self.calls = 0

    def part(self, node: ast.expr, depth: int) -> _Part:
        self._count(depth)
        match node:
            case ast.Constant():
                return self._constant(node.value)
            case ast.Name():
                return self._named(node.id)
            case ast.BinOp(op=ast.Add() | ast.Sub()):
                return _sum([self._signed(sign, term, depth) for sign, term in self._terms(node)])
            case ast.BinOp(op=ast.Mult() | ast.Div()) | ast.UnaryOp(op=ast.USub()):
                return _product(self._factors(node, depth))
            case ast.UnaryOp(op=ast.UAdd()):
                return self.part(node.operand, depth + 1)
            case ast.BinOp(op=ast.Pow()):
                return _power(self.part(node.left, depth + 1), self.part(node.right, depth + 1))
            case ast.Call(func=ast.Name(id=name), keywords=[]):
                return self._call(name, node.args, depth)
        raise ValueError(f"the expression has the node {type(node).__name__}, which no loss has.{_instead_of(node)}")

    def _count(self, depth: int) -> None:
        self.nodes += 1
        if self.nodes > _MOST_NODES:
            raise ValueError(f"the expression has more than {_MOST_NODES} nodes.")
        if depth > _DEEPEST or self.calls > _MOST_CALLS:
            raise ValueError(f"the expression is nested more than {_DEEPEST} deep, or {_MOST_CALLS} functions.")

    def _constant(self, value: Any) -> _Part:
        if type(value) is int:
            return _bounded(Fraction(value))
        if type(value) is float:
            return _bounded(value)
        raise ValueError(f"the expression has the constant {value!r:.40}. Constants are real numbers.")

    def _named(self, name: str) -> _Part:
        if name in self.names:
            symbol: sp.Expr = self.names[name]
            return symbol
        if name in CONSTANTS:
            return _Exact(*CONSTANTS[name])
        known, remedy = ", ".join(sorted(self.names)[:8]), ""
        if name.lower() in self.names:
            remedy = f" Write {name.lower()}."
        elif len(name) > 1 and set(name) <= set(self.names):
            remedy = f" Write {'*'.join(name)} for the product."
        elif name in ("e", "E"):
            remedy = " Write exp(u) for e to the power of u."
        raise ValueError(
            f"the expression has the name {name[:40]}, which was not declared. It may have {known}.{remedy}"
        )

    def _terms(self, node: ast.expr) -> list[tuple[int, ast.expr]]:
        """Return the terms of a chain of + and -, the deepest first, with their signs."""
        terms: list[tuple[int, ast.expr]] = []
        while isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
            terms.append((-1 if isinstance(node.op, ast.Sub) else 1, node.right))
            node = node.left
        return [(1, node), *reversed(terms)]

    def _signed(self, sign: int, node: ast.expr, depth: int) -> _Part:
        factors = self._factors(node, depth)
        return _product(factors if sign > 0 else [Fraction(-1), *factors])

    def _factors(self, node: ast.expr, depth: int) -> list[_Part]:
        """Return the factors of a chain of * and / with its leading sign."""
        factors: list[_Part] = []
        while isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mult, ast.Div)):
            right = self.part(node.right, depth + 1)
            factors.append(right if isinstance(node.op, ast.Mult) else _power(right, Fraction(-1)))
            node = node.left
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            self._count(depth)
            return [*self._factors(node.operand, depth + 1), Fraction(-1), *factors]
        return [self.part(node, depth + 1), *reversed(factors)]

    def _call(self, name: str, arguments: list[ast.expr], depth: int) -> _Part:
        if name in self.names:
            raise ValueError(
                f"{name[:40]} is a symbol of this expression and no function. A product is {name[:40]}*(...)."
            )
        if name == "Piecewise":
            return self._piecewise(arguments, depth)
        name = SPELLED.get(name, name)
        functions = 2 if name in _COMPOSED else int(name in FUNCTIONS)
        self.calls += functions
        parts = [self.part(argument, depth + 1) for argument in arguments]
        self.calls -= functions
        if name in _COMPOSED:
            count, composed = _COMPOSED[name]
            if len(parts) != count:
                raise ValueError(f"{name} takes {count} argument{'s' if count > 1 else ''}; got {len(parts)}.")
            return composed(*parts)
        if name in EXTREMA:
            if not 1 <= len(parts) <= _MOST_COMPARED:
                raise ValueError(f"{name} takes 1 to {_MOST_COMPARED} arguments; got {len(parts)}.")
            return _classified(EXTREMA[name](*(_compared(part) for part in parts)))
        if name not in FUNCTIONS:
            known = ", ".join(sorted((*FUNCTIONS, *EXTREMA, "Piecewise")))
            raise ValueError(f"the expression calls {name[:40]}, which is not one of {known}. Use one of these.")
        if name == "Heaviside" and len(parts) == 2 and not isinstance(parts[0], (Fraction, float, _Exact)):
            _refuse_long_complex(parts[0])
            return _classified(sp.Heaviside(*map(_symbolic, parts)))
        if len(parts) != 1:
            raise ValueError(f"{name} takes one argument; got {len(parts)}.")
        return _applied(name, parts[0])

    def _piecewise(self, arguments: list[ast.expr], depth: int) -> _Part:
        pairs = []
        for pair in arguments:
            self._count(depth)
            if not isinstance(pair, ast.Tuple) or len(pair.elts) != 2:
                raise ValueError("Piecewise takes pairs of a value and a condition.")
            pairs.append((_symbolic(self.part(pair.elts[0], depth + 1)), self._condition(pair.elts[1], depth + 1)))
        if not pairs:
            raise ValueError("Piecewise takes pairs of a value and a condition; it has none.")
        return _classified(sp.Piecewise(*pairs))

    def _condition(self, node: ast.expr, depth: int) -> Any:
        self._count(depth)
        if isinstance(node, ast.Constant) and isinstance(node.value, bool):
            return sp.true if node.value else sp.false
        if not isinstance(node, ast.Compare) or len(node.ops) != 1 or type(node.ops[0]) not in RELATIONS:
            raise ValueError("a condition of Piecewise compares two expressions, or is True.")
        left, right = (_compared(self.part(side, depth + 1)) for side in (node.left, node.comparators[0]))
        return RELATIONS[type(node.ops[0])][1](left, right)


def _instead_of(node: ast.expr) -> str:
    """Return what to write in the place of a node that no expression has, after a blank; or nothing."""
    match node:
        case ast.Call(func=ast.Attribute(attr=name)) if name in {*FUNCTIONS, *EXTREMA, *SPELLED, *_COMPOSED}:
            return f" Write {name}(...), without the name of a package."
        case ast.Call(func=ast.Constant() | ast.BinOp() | ast.UnaryOp()):
            return " Write a product with its *, as 2*(y - u)."
        case ast.Compare() | ast.IfExp():
            return " Write cases as Piecewise((value, u < y), ..., (value, True))."
    return ""


def _bounded(number: _Part) -> _Part:
    """Return a number, or refuse one that could keep SymPy busy for good."""
    if isinstance(number, Fraction):
        if max(abs(number.numerator), number.denominator) > _LARGEST_INTEGER:
            raise ValueError("the expression has a fraction of more than 40 digits.")
        return number
    value = number.value if isinstance(number, _Exact) else number
    if not abs(value) <= _LARGEST_NUMBER:
        raise ValueError(f"the expression has a number beyond {_LARGEST_NUMBER:g}.")
    return number


def _symbolic(part: _Part) -> sp.Expr:
    if isinstance(part, Fraction):
        if not abs(part) <= _LARGEST_NUMBER:
            raise ValueError(f"the expression has a number beyond {_LARGEST_NUMBER:g}.")
        return sp.Rational(part.numerator, part.denominator)
    if isinstance(part, float):
        return sp.Float(_bounded(part))
    return part.expression if isinstance(part, _Exact) else part


def _compared(part: _Part) -> sp.Expr:
    """Return what SymPy is to compare with something: it does that case by case, which takes seconds."""
    expression = _symbolic(part)
    if expression.has(sp.Piecewise):
        raise ValueError("the expression compares a Piecewise with something. Compare within its cases.")
    _refuse_long_complex(expression)
    return expression


def _value(part: Fraction | float | _Exact) -> float:
    return part.value if isinstance(part, _Exact) else float(part)


def _classified(expression: Any, value: float | None = None) -> _Part:
    """Return what SymPy made: numbers as numbers, so that they are folded, and within the bounds."""
    if isinstance(expression, sp.Rational):
        return _bounded(Fraction(int(expression.p), int(expression.q)))
    if isinstance(expression, sp.Float):
        return _bounded(float(expression))
    if not isinstance(expression, sp.Expr) or expression.has(sp.I, sp.nan, sp.zoo, sp.oo):
        raise ValueError("the expression has a part that is no finite real number.")
    inner = (below for node in expression.args for below in node.args)
    for node in (expression, *expression.args, *inner):
        if isinstance(node, sp.Rational):
            _bounded(Fraction(int(node.p), int(node.q)))
        if isinstance(node, sp.Pow) and node.exp.is_Number and not abs(node.exp) <= _LARGEST_EXPONENT:
            raise ValueError(f"the expression has the exponent {str(node.exp)[:40]}. It may have {_LARGEST_EXPONENT}.")
    if not expression.free_symbols:
        if value is None:
            raise ValueError("the expression has symbols that cancel. Leave them out.")
        nodes = list(itertools.islice(sp.preorder_traversal(expression), _MOST_EXACT_NODES + 1))
        is_long = (
            len(nodes) > _MOST_EXACT_NODES or sum(isinstance(one, sp.Function) for one in nodes) > _MOST_EXACT_CALLS
        )
        return _bounded(value if is_long else _Exact(expression, value))
    return expression


def _split(parts: Sequence[_Part]) -> tuple[list[Fraction | float | _Exact], list[sp.Expr]]:
    numbers = [part for part in parts if isinstance(part, (Fraction, float, _Exact))]
    return numbers, [part for part in parts if not isinstance(part, (Fraction, float, _Exact))]


def _sum(parts: Sequence[_Part]) -> _Part:
    numbers, symbolic = _split(parts)
    rational = sum((part for part in numbers if isinstance(part, Fraction)), Fraction(0))
    _bounded(rational)
    decimals = [part for part in numbers if isinstance(part, float)]
    exact = [part for part in numbers if isinstance(part, _Exact)]
    number: _Part = _bounded(math.fsum([*decimals, float(rational)])) if decimals else rational
    if not symbolic and not exact:
        return number
    terms = [_symbolic(part) for part in (number, *exact)]
    value = None if symbolic else math.fsum(map(_value, numbers))
    return _classified(sp.Add(*terms, *symbolic), value)


def _product(parts: Sequence[_Part]) -> _Part:
    numbers, symbolic = _split(parts)
    if len(parts) == 1:
        return parts[0]
    rational, decimal = Fraction(1), 1.0
    for part in numbers:
        if isinstance(part, Fraction):
            rational *= part
            _bounded(rational)
        elif isinstance(part, float):
            decimal *= part
    exact = [part for part in numbers if isinstance(part, _Exact)]
    number: _Part = rational
    if any(isinstance(part, float) for part in numbers):
        number = _bounded(decimal * float(rational))
    if not symbolic and not exact:
        return number
    factors = [_symbolic(part) for part in (number, *exact)]
    value = None if symbolic else math.prod(map(_value, numbers))
    return _classified(sp.Mul(*factors, *symbolic), value)


def _power(base: _Part, exponent: _Part) -> _Part:
    if isinstance(exponent, (Fraction, float, _Exact)):
        if not abs(_value(exponent)) <= _LARGEST_EXPONENT:
            raise ValueError(f"the expression has an exponent beyond {_LARGEST_EXPONENT}. Write a smaller one.")
        if isinstance(exponent, Fraction) and exponent.denominator > _LARGEST_ROOT:
            raise ValueError(f"the expression has an exponent with a denominator above {_LARGEST_ROOT}.")
    numeric = isinstance(base, (Fraction, float, _Exact))
    if not numeric:
        if not (isinstance(exponent, Fraction) and exponent.denominator == 1):
            _refuse_long_complex(base)
        return _classified(sp.Pow(base, _symbolic(exponent)))
    assert isinstance(base, (Fraction, float, _Exact))
    if not isinstance(exponent, (Fraction, float, _Exact)):
        if not _value(base) > 0:
            raise ValueError("the expression has a power whose base is no positive number.")
        _refuse_logarithms(exponent)
        return _classified(sp.Pow(_symbolic(base), exponent))
    if isinstance(exponent, _Exact):
        raise ValueError("the expression has a number to the power of one that is no fraction.")
    if isinstance(base, Fraction) and isinstance(exponent, Fraction) and exponent.denominator == 1:
        # Checked before the power is taken of its own digits.
        return _bounded(base**exponent.numerator)
    whole = isinstance(exponent, Fraction) and exponent.denominator == 1
    if not (_value(base) > 0 or (whole and _value(base) != 0)):
        raise ValueError("the expression has a root of a number that is not positive.")
    value = _value(base) ** _value(exponent)
    if isinstance(base, float) or isinstance(exponent, float):
        return _bounded(value)
    if not abs(value) >= _LEAST_POWER:
        raise ValueError(f"the expression has a power of numbers below {_LEAST_POWER:g}.")
    _bounded(value)
    return _classified(sp.Pow(_symbolic(base), _symbolic(exponent)), value)


def _applied(name: str, part: _Part) -> _Part:
    function, fold = FUNCTIONS[name]
    if name == "sqrt":
        return _power(part, Fraction(1, 2))
    if name == "exp":
        _refuse_logarithms(_symbolic(part))
    if name in _ASKING:
        _refuse_long_complex(_symbolic(part))
    if not isinstance(part, (Fraction, float, _Exact)):
        return _classified(function(part))
    try:
        value = fold(_value(part))
    except (ValueError, OverflowError):
        raise ValueError(f"the expression has {name} of a number where it is no finite real number.") from None
    _bounded(value)
    if isinstance(part, float):
        return value
    if name == "exp" and not value >= _LEAST_POWER:
        raise ValueError(f"the expression has a power of numbers below {_LEAST_POWER:g}.")
    if name == "loggamma" and not abs(_value(part)) <= _LARGEST_FACTORIAL:
        raise ValueError(f"the expression has loggamma of a number beyond {_LARGEST_FACTORIAL}.")
    return _classified(function(_symbolic(part)), value)


def _plus_one(part: _Part) -> _Part:
    return _sum([Fraction(1), part])


# Functions that losses are often written with, by those of the language: how many arguments they take, and what they
# are.
_COMPOSED: Mapping[str, tuple[int, Callable[..., _Part]]] = {
    "expit": (1, lambda x: _power(_plus_one(_applied("exp", _product([Fraction(-1), x]))), Fraction(-1))),
    "expm1": (1, lambda x: _sum([_applied("exp", x), Fraction(-1)])),
    "log1p": (1, lambda x: _applied("log", _plus_one(x))),
    "logaddexp": (2, lambda x, y: _applied("log", _sum([_applied("exp", x), _applied("exp", y)]))),
    "logcosh": (1, lambda x: _applied("log", _applied("cosh", x))),
    "pow": (2, _power),
    "relu": (1, lambda x: _classified(sp.Max(0, _compared(x)))),
    "sigmoid": (1, lambda x: _COMPOSED["expit"][1](x)),
    "softplus": (1, lambda x: _applied("log", _plus_one(_applied("exp", x)))),
    "square": (1, lambda x: _power(x, Fraction(2))),
}  # fmt: skip


def _refuse_logarithms(exponent: sp.Expr) -> None:
    """Refuse exponents whose logarithms SymPy would turn into powers with many digits, as exp(1e9 log(3))."""
    for term in sp.Add.make_args(exponent):
        factors = sp.Mul.make_args(term)
        if not any(isinstance(factor, sp.log) for factor in factors):
            continue
        coefficient = sp.Mul(*(factor for factor in factors if factor.is_Number))
        if not term.free_symbols or not abs(coefficient) <= _LARGEST_EXPONENT:
            raise ValueError("the expression has a logarithm in an exponent, which is a power. Write the power.")


def _refuse_long_complex(expression: sp.Expr) -> None:
    """Refuse what SymPy is to find a sign of, where it may be complex and is not short."""
    if _nested_about_root(expression)[0] > _MOST_NESTED:
        raise ValueError(f"the expression has a root within more than {_MOST_NESTED} hyperbolic functions. Shorten it.")
    # SymPy's own answer to whether it is real takes as long.
    if _sign_of(expression) is not None:
        return
    nodes = list(itertools.islice(sp.preorder_traversal(expression), _MOST_COMPLEX_NODES + 1))
    if len(nodes) > _MOST_COMPLEX_NODES or any(map(_is_slow, nodes)):
        raise ValueError(
            "the expression compares, or takes a root, the size, loggamma or a hyperbolic function of, a long part "
            "that is not real for all numbers, as with roots and logarithms. Write it shorter, or so that it is real."
        )


def _nested_about_root(expression: sp.Basic) -> tuple[int, bool]:
    """Return how many hyperbolic functions stand about a root, and whether there is one: tanh(asinh(u)) has one."""
    parts = [_nested_about_root(part) for part in expression.args]
    has_root = any(root for _, root in parts) or (isinstance(expression, sp.Pow) and not expression.exp.is_Integer)
    about = has_root and isinstance(expression, (sp.sinh, sp.cosh, sp.tanh))
    return about + max((count for count, _ in parts), default=0), has_root


def _is_slow(node: sp.Basic) -> bool:
    if isinstance(node, sp.Pow):
        return bool(node.exp.is_Integer and abs(node.exp) > _HIGHEST_COMPLEX_POWER)
    return isinstance(node, (sp.sinh, sp.cosh, sp.tanh))


def _sign_of(expression: sp.Basic) -> int | None:
    """Return 2 for what is positive by its form, 1 for what is not negative, 0 for real, and None for anything else."""
    if expression.is_Number:
        return 2 if expression > 0 else 0 if expression < 0 else 1
    if not expression.args:
        return 2 if expression in NAME_OF_CONSTANT else 0
    if isinstance(expression, sp.Piecewise):
        signs = [_sign_of(value) for value, _ in expression.args]
        return None if None in signs else min(sign for sign in signs if sign is not None)
    signs = [_sign_of(part) for part in expression.args]
    if isinstance(expression, sp.Pow):
        return _sign_of_power(*expression.args, *signs)
    if None in signs:
        return None
    known = [sign for sign in signs if sign is not None]
    # As far as SymPy knows it: that erfc is positive it does not.
    if isinstance(expression, (sp.exp, sp.cosh)):
        return 2
    if isinstance(expression, sp.Abs):
        return max(1, known[0])
    if isinstance(expression, sp.Add):
        return 0 if 0 in known else max(known)
    if isinstance(expression, (sp.log, sp.loggamma)):
        return 0 if known[0] == 2 else None
    if isinstance(expression, (sp.Mul, sp.Min)):
        return min(known)
    return max(known) if isinstance(expression, sp.Max) else 0


def _sign_of_power(base: sp.Expr, exponent: sp.Expr, of_base: int | None, of_exponent: int | None) -> int | None:
    if of_base is None or of_exponent is None:
        return None
    if of_base == 2:
        return 2
    if exponent.is_Integer and exponent > 0:
        return 1 if exponent % 2 == 0 else of_base
    # The inverse of what may be 0 is infinite there.
    return 1 if of_base == 1 and exponent.is_positive else None
