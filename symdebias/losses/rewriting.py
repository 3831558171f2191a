"""One spelling for what SymPy has several of, so that derivations meet ``(u - y)**2.0`` as the square that it is.

Whole and half exponents are written as such, functions as the elementary ones that they are made of, and a step times
what vanishes at the step, as ``z*sign(z)``, in pieces. Every rewriting is an identity of real numbers.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import sympy as sp
from sympy.codegen import cfunctions, numpy_nodes

# By exact class, of which admission has let pass no other.
ELEMENTARY: dict[type, Callable[..., sp.Expr]] = {
    cfunctions.log1p: lambda z: sp.log(1 + z),
    cfunctions.expm1: lambda z: sp.exp(z) - 1,
    cfunctions.exp2: lambda z: 2**z,
    cfunctions.log2: lambda z: sp.log(z) / sp.log(2),
    cfunctions.log10: lambda z: sp.log(z) / sp.log(10),
    cfunctions.Sqrt: sp.sqrt,
    cfunctions.hypot: lambda a, b: sp.sqrt(a**2 + b**2),
    cfunctions.fma: lambda a, b, c: a * b + c,
    numpy_nodes.logaddexp: lambda a, b: sp.log(sp.exp(a) + sp.exp(b)),
    sp.sec: lambda z: 1 / sp.cos(z),
    sp.csc: lambda z: 1 / sp.sin(z),
    sp.cot: lambda z: sp.cos(z) / sp.sin(z),
    sp.sech: lambda z: 1 / sp.cosh(z),
    sp.csch: lambda z: 1 / sp.sinh(z),
    sp.coth: lambda z: sp.cosh(z) / sp.sinh(z),
    sp.factorial: lambda z: sp.exp(sp.loggamma(z + 1)),
}
_STEPS = (sp.sign, sp.Heaviside)
# Each step doubles the pieces.
_MOST_STEPS = 3
# What is left at a step is multiplied out to see whether it is 0 where it has so many operations.
_LONGEST_LEFT = 60


def in_one_spelling(expression: sp.Expr, variables: Sequence[sp.Symbol], target: sp.Symbol | None = None) -> sp.Expr:
    """Return an admitted expression in the spelling that derivations know.

    Parameters
    ----------
    expression : sympy.Expr
        The loss.
    variables : sequence of sympy.Symbol
        Its scores, or its features and parameters: what it is differentiated by.
    target : sympy.Symbol, optional
        The target, where its values are not declared. Pieces that it decides are then factors of a sum, as in
        ``(u - y)**2`` times 2 where y is positive and 1 elsewhere.

    Examples
    --------
    >>> u, y = sp.symbols("u y", real=True)
    >>> in_one_spelling((u - y)**2.0 + cfunctions.log1p(sp.exp(u)), [u])
    (u - y)**2 + log(exp(u) + 1)
    >>> in_one_spelling((u - y) * sp.sign(u - y), [u])
    Piecewise((-u + y, u - y < 0), (u - y, True))
    >>> in_one_spelling(sp.Heaviside(u - y), [u])
    Heaviside(u - y)
    """
    written = _without_steps(_rewritten(expression), variables)
    return written if target is None else _by_factors(written, set(variables), target)


def _by_factors(node: Any, variables: set[sp.Symbol], target: sp.Symbol) -> Any:
    """Return a tree in which pieces that the target alone decides are sums of values times what is 1 or 0.

    A value that is not taken counts as 0 times itself, so that it has to be a number whatever the target is.
    """
    if not node.args or not node.has(sp.Piecewise):
        return node
    if isinstance(node, sp.Piecewise) and node.free_symbols & variables:
        values, conditions = zip(*node.args, strict=True)
        decided = {symbol for condition in conditions for symbol in condition.free_symbols} == {target}
        if decided and conditions[-1] == sp.true and all(value.is_polynomial(target) for value in values):
            taken = [
                sp.Piecewise(*((sp.Integer(at == place), condition) for at, condition in enumerate(conditions)))
                for place in range(len(values))
            ]
            parts = (_by_factors(value, variables, target) for value in values)
            return sp.Add(*(value * factor for value, factor in zip(parts, taken, strict=True)))
    arguments = tuple(_by_factors(argument, variables, target) for argument in node.args)
    return node if arguments == node.args else node.func(*arguments)


def _rewritten(node: Any) -> Any:
    """Return a tree with its parts rewritten, the deepest first; one in which there is nothing to do is left alone."""
    if not node.args:
        return node
    arguments = tuple(map(_rewritten, node.args))
    kind = type(node)
    if kind in ELEMENTARY:
        return ELEMENTARY[kind](*arguments)
    if kind is sp.Pow and isinstance(arguments[1], sp.Float):
        halves = 2 * float(arguments[1])
        if halves.is_integer():
            return sp.Pow(arguments[0], sp.Rational(int(halves), 2))
    if kind is sp.log and isinstance(arguments[0], sp.exp) and isinstance(arguments[0].args[0], sp.loggamma):
        return arguments[0].args[0]
    if kind is sp.gamma and node.free_symbols:
        return sp.exp(sp.loggamma(*arguments))
    return node if arguments == node.args else node.func(*arguments)


def _without_steps(expression: sp.Expr, variables: Sequence[sp.Symbol]) -> sp.Expr:
    """Return a loss in pieces where each of its steps is multiplied by what is 0 there: it does not jump."""
    steps = [step for step in _steps(expression) if step.free_symbols & set(variables)]
    if not steps or len(steps) > _MOST_STEPS or not all(_vanishes(expression, step, variables) for step in steps):
        return expression
    if len(steps) == 1:
        (step,) = steps
        below, above = (expression.xreplace({step: side}) for side in _sides(step))
        return sp.Piecewise((below, step.args[0] < 0), (above, True))
    # Of several the pieces of all combinations would come, those that are nowhere among them.
    pieces = {step: sp.Piecewise((_sides(step)[0], step.args[0] < 0), (_sides(step)[1], True)) for step in steps}
    return expression.xreplace(pieces)


def _steps(expression: sp.Expr) -> Iterator[sp.Expr]:
    yield from sorted(expression.atoms(*_STEPS), key=sp.default_sort_key)


def _sides(step: sp.Expr) -> tuple[sp.Integer, sp.Integer]:
    return (sp.Integer(-1) if isinstance(step, sp.sign) else sp.Integer(0)), sp.Integer(1)


def _vanishes(expression: sp.Expr, step: sp.Expr, variables: Sequence[sp.Symbol]) -> bool:
    """Return whether both sides of a step have the same value where it is, as far as a linear argument shows it."""
    below, above = (expression.xreplace({step: side}) for side in _sides(step))
    for variable in variables:
        slope = step.args[0].diff(variable)
        if slope == 0 or variable in slope.free_symbols or slope.has(*_STEPS):
            continue
        there = (above - below).xreplace({variable: variable - step.args[0] / slope})
        return bool(there == 0 or (there.count_ops() <= _LONGEST_LEFT and sp.expand(there) == 0))
    return False
