"""What can be written directly: the expressions and statements that kernels are made of."""

import ast
import builtins
import math
import operator
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numba import types
from numba.core.extending import _Intrinsic

# Arrays of up to so many numbers are made on the stack.
_MOST_MADE = 512

BINARY: dict[type, Any] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.BitAnd: operator.and_, ast.BitOr: operator.or_,
    ast.BitXor: operator.xor, ast.LShift: operator.lshift, ast.RShift: operator.rshift,
}  # fmt: skip
COMPARED: dict[type, tuple[Any, str]] = {
    ast.Lt: (operator.lt, "<"), ast.LtE: (operator.le, "<="), ast.Gt: (operator.gt, ">"),
    ast.GtE: (operator.ge, ">="), ast.Eq: (operator.eq, "=="), ast.NotEq: (operator.ne, "!="),
}  # fmt: skip
# Of which of two numbers each is the other, where this holds of it.
EXTREMES: dict[Any, tuple[Any, str]] = {min: (operator.lt, "<"), max: (operator.gt, ">")}
# Functions that make a number one of another type.
TURNED: dict[Any, Any] = {
    int: types.int64, float: types.float64, np.int64: types.int64, np.uint64: types.uint64, np.float64: types.float64,
}  # fmt: skip
_CALLED = (abs, *EXTREMES, *TURNED)


class Scope:
    """What stands for names in a function: its own variables, and those of its module.

    Parameters
    ----------
    definition : ast.FunctionDef
        The function.
    names : dict
        Its module.
    """

    def __init__(self, definition: ast.FunctionDef, names: dict[str, Any]) -> None:
        self.names = names
        self.local = {argument.arg for argument in definition.args.args} | named(definition, ast.Store)

    def is_value(self, node: ast.expr) -> bool:
        """Whether an expression can be written."""
        match node:
            case ast.Constant(value=value):
                return isinstance(value, (bool, int, float))
            case ast.Name(id=name):
                return name in self.local or isinstance(self.names.get(name), (int, float, np.ndarray))
            case ast.Attribute(value=ast.Name(id="math"), attr=attribute):
                return isinstance(getattr(math, attribute, None), float)
            case ast.BinOp(left=left, right=right, op=op):
                return type(op) in BINARY and self._are_values([left, right])
            case ast.UnaryOp(operand=operand, op=ast.USub() | ast.Not()):
                return self.is_value(operand)
            case ast.BoolOp(values=values):
                return self._are_values(values)
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return type(op) in COMPARED and self._are_values([left, right])
            case ast.IfExp(test=test, body=body, orelse=other):
                return self._are_values([test, body, other])
            case ast.Subscript(value=ast.Attribute(value=ast.Name(), attr="shape"), slice=ast.Constant()):
                return True
            case ast.Subscript(value=ast.Name() as array, slice=ast.Slice(lower=lower, upper=upper, step=None)):
                return self._are_values([array, *(end for end in (lower, upper) if end is not None)])
            case ast.Subscript(value=ast.Name() as array, slice=index):
                return self._are_values([array, *elements(index)])
            case ast.Call(func=ast.Attribute(value=number, attr="view"), args=[kind], keywords=[]):
                return _are_bits(number, kind) and self.is_value(number)
            case ast.Call(func=function, args=arguments, keywords=[]):
                return made(node) is not None or (self._is_called(function) and self._are_values(arguments))
        return False

    def is_statement(self, node: ast.stmt, *, in_loop: bool = False, in_function: bool = False) -> bool:
        """Whether a statement can be written: within a loop that is written, or in a function all of which is."""
        match node:
            case ast.Expr(value=ast.Constant()):
                return True
            case ast.Expr(value=ast.Call() as call):
                return self.is_value(call)
            case ast.Assign(targets=targets, value=value):
                return self._is_assigned(targets, value)
            case ast.AnnAssign(target=ast.Name(), value=value):
                return value is not None and self.is_value(value)
            case ast.AugAssign(target=target, op=op, value=value):
                return type(op) in BINARY and self._is_target(target) and self.is_value(value)
            case ast.If(test=test, body=body, orelse=other):
                return self.is_value(test) and self._are_statements([*body, *other], in_loop, in_function)
            case ast.While(test=test, body=body, orelse=[]):
                return self.is_value(test) and self._are_statements(body, True, in_function)
            case ast.For(target=ast.Name(), iter=ast.Call(func=ast.Name("range"), args=ends), body=body, orelse=[]):
                return self._are_values(ends) and self._are_statements(body, True, in_function)
            case ast.Continue() | ast.Break():
                return in_loop
            case ast.Return(value=value):
                return in_function and value is not None and self.is_value(value)
        return False

    def _are_values(self, nodes: Iterable[ast.expr]) -> bool:
        return all(map(self.is_value, nodes))

    def _are_statements(self, nodes: Iterable[ast.stmt], in_loop: bool, in_function: bool) -> bool:
        return all(self.is_statement(node, in_loop=in_loop, in_function=in_function) for node in nodes)

    def _is_assigned(self, targets: list[ast.expr], value: ast.expr) -> bool:
        values = elements(value)
        for target in targets:
            wanted = elements(target)
            same = isinstance(target, ast.Tuple) == isinstance(value, ast.Tuple) and len(wanted) == len(values)
            if not same or not all(map(self._is_target, wanted)):
                return False
        return self._are_values(values)

    def _is_target(self, node: ast.expr) -> bool:
        match node:
            case ast.Name():
                return True
            case ast.Subscript(value=ast.Name() as array, slice=index):
                return self._are_values([array, *([] if is_whole(index) else elements(index))])
        return False

    def _is_called(self, node: ast.expr) -> bool:
        """Whether what a call calls is a function that can be written."""
        match node:
            case ast.Name(id=name) if name not in self.local:
                found = of_module(self.names, node)
                return found in _CALLED or isinstance(found, _Intrinsic)
            case ast.Attribute(value=ast.Name(id="np" | "math" as name)) if name not in self.local:
                found = of_module(self.names, node)
                return found in _CALLED or (name == "math" and isinstance(found, Callable))  # type: ignore[arg-type]
        return False


def of_module(names: dict[str, Any], node: ast.expr) -> Any:
    """Return what a name of a module, or an attribute of one, stands for; None for nothing."""
    if isinstance(node, ast.Attribute):
        return getattr(of_module(names, node.value), node.attr, None)
    assert isinstance(node, ast.Name)
    return names.get(node.id, getattr(builtins, node.id, None))


def named(node: ast.AST, how: type) -> set[str]:
    """Return the names that are read (`ast.Load`) or written (`ast.Store`) in a node, as it was first asked of."""
    found: dict[type, set[str]] | None = getattr(node, "_named", None)
    if found is None:
        found = {ast.Load: set(), ast.Store: set()}
        if isinstance(node, ast.Name):
            found[type(node.ctx)].add(node.id)
        for inside in ast.iter_child_nodes(node):
            for context, names in found.items():
                names |= named(inside, context)
        node._named = found  # type: ignore[attr-defined]
    return found[how]


def elements(node: ast.expr) -> list[ast.expr]:
    """Return what a tuple consists of, or what is none."""
    return node.elts if isinstance(node, ast.Tuple) else [node]


def is_whole(index: ast.expr) -> bool:
    """Whether an index stands for all of an array."""
    return isinstance(index, ast.Slice) and index.lower is index.upper is index.step is None


def made(node: ast.expr) -> tuple[bool, tuple[int, ...], Any] | None:
    """Return whether an array that an expression makes is filled with zeros, its shape, and the type of its numbers.

    None for anything else, and for arrays that are large or of a size that is not written there.
    """
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="np"), attr="empty" | "zeros" as how), args=[shape, *kind]):
            sizes = [size.value for size in elements(shape) if isinstance(size, ast.Constant)]
            counts = tuple(size for size in sizes if isinstance(size, int))
            is_known = len(counts) == len(elements(shape)) and math.prod(counts) <= _MOST_MADE
            is_integer = [ast.unparse(one) for one in kind] == ["np.int64"]
            if is_known and (is_integer or not kind):
                return how == "zeros", counts, types.int64 if is_integer else types.float64
    return None


def _are_bits(number: ast.expr, kind: ast.expr) -> bool:
    """Whether the bits of a number are taken as those of another: np.float64(x).view(np.int64), or the other way."""
    match number:
        case ast.Call(func=ast.Attribute() as own, args=[_]):
            return {ast.unparse(own), ast.unparse(kind)} == {"np.int64", "np.float64"}
    return False
