"""Of what types the variables and expressions of a function are."""

import ast
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

import numba
from numba import types

from symdebias.codegen.direct.scope import BINARY, EXTREMES, TURNED, elements, made, of_module

OF_CONSTANTS: dict[type, Any] = {bool: types.boolean, int: types.int64, float: types.float64}
_signatures: dict[tuple[Any, tuple[Any, ...]], Any] = {}


class NotDirectError(TypeError):
    """A function of a kernel is of no type that is written directly."""


def not_direct(what: Any) -> NoReturn:
    """Raise for what cannot be written."""
    raise NotDirectError(f"{what} in a kernel is not written directly. Leave the function to Numba (is_direct=False).")


def known(typing: Any, function: Any) -> Any:
    """Return what Numba knows a function by."""
    return function if function.__module__ == "_operator" else typing.resolve_value_type(function)


def signature(typing: Any, function: Any, kinds: tuple[Any, ...]) -> Any:
    """Return Numba's signature of a function for arguments of some types."""
    if (function, kinds) not in _signatures:
        found = typing.resolve_function_type(known(typing, function), kinds, {})
        _signatures[function, kinds] = not_direct(f"{function} of {kinds}") if found is None else found
    return _signatures[function, kinds]


def counted_by(typing: Any, ends: Sequence[Any]) -> Any:
    """Return the type that a range counts by, of those of its ends and its step."""
    if len(ends) == 3 and not isinstance(ends[2], types.Integer):
        not_direct(ends[2])
    return signature(typing, range, tuple(ends)).return_type.dtype


def entry(kind: Any, count: int) -> Any:
    """Return the type of what so many indices of an array lead to."""
    if not isinstance(kind, types.Array) or kind.layout not in "CF":
        return not_direct(kind)
    if count == kind.ndim:
        return kind.dtype
    return kind.copy(ndim=kind.ndim - count) if count < kind.ndim and kind.layout == "C" else not_direct(kind)


class _AgainError(Exception):
    """A variable was found to be of one type throughout."""


class Kinds:
    """Of what types the variables of a function are, wherever they are read, and what it returns.

    A name may be given numbers of several types one after another, and has each in a place of its own. Where ways meet
    on which it is of different types, and it is read, it is of one type throughout, which all can be made.

    Parameters
    ----------
    typing : object
        Numba's typing context.
    names : dict
        The module of the function.
    arguments : dict
        The types of its arguments, by their names.
    returned : callable
        Returns the type of what a function returns that is written directly, and None for others.

    Attributes
    ----------
    now : dict
        The types of variables at the statement that is looked at; None where ways with different ones have met.
    head, after : dict
        The same at the beginning of each loop, and after each statement with ways that meet.
    returned : numba type
        The type of what the function returns.
    """

    def __init__(
        self, typing: Any, names: dict[str, Any], arguments: dict[str, Any],
        returned: Callable[[Any, Any, tuple[Any, ...]], Any],
    ) -> None:  # fmt: skip
        self.typing, self.names, self.arguments = typing, names, arguments
        self.now: dict[str, Any] = {}
        self.head: dict[ast.stmt, dict[str, Any]] = {}
        self.after: dict[ast.stmt, dict[str, Any]] = {}
        self.returned = types.none
        self._returned_by = returned
        self._throughout: dict[str, Any] = {}
        self._given: dict[str, list[Any]] = {}
        # What variables are on the ways that go on with a loop, and on those that end it.
        self._ways: list[tuple[list[dict[str, Any]], list[dict[str, Any]]]] = []

    def find(self, body: Sequence[ast.stmt]) -> None:
        """Find the types."""
        while True:
            self.begin()
            self.returned = types.none
            try:
                self._statements(body)
                return
            except _AgainError:
                continue

    def begin(self) -> None:
        """Go to the beginning of the function."""
        self.now, self._ways = {}, []
        for name, kind in self.arguments.items():
            self.put(name, kind)

    def put(self, name: str, kind: Any) -> Any:
        """Give a variable a value of a type, and return the type that it has then."""
        given = self._given.setdefault(name, [])
        if kind not in given:
            given.append(kind)
            if name in self._throughout:
                self._unite(name)
        self.now[name] = self._throughout.get(name, kind)
        return self.now[name]

    def get(self, name: str) -> Any:
        """Return the type of a variable."""
        if self.now[name] is None:
            self._unite(name)
        return self.now[name]

    def _unite(self, name: str) -> None:
        self._throughout[name] = functools.reduce(self.one_for, self._given[name])
        raise _AgainError

    def one_for(self, first: Any, second: Any) -> Any:
        """Return the type that what is of one of two types can be made."""
        if first == second:
            return first
        numbers = isinstance(first, types.Number) and isinstance(second, types.Number)
        found = self.typing.unify_types(first, second) if numbers else None
        return not_direct(f"{first} or {second}") if found is None else found

    def value(self, node: ast.expr) -> Any:
        """Return the type of an expression."""
        match node:
            case ast.Constant(value=value):
                return OF_CONSTANTS[type(value)]
            case ast.Name(id=name):
                return self.get(name) if name in self.now else numba.typeof(self.names[name])
            case ast.Attribute():
                return types.float64
            case ast.BinOp(left=left, right=right, op=op):
                return self._of(BINARY[type(op)], self.value(left), self.value(right))
            case ast.BoolOp() | ast.Compare() | ast.UnaryOp(op=ast.Not()):
                return types.boolean
            case ast.UnaryOp(operand=operand):
                return self.value(operand)
            case ast.IfExp(body=body, orelse=other):
                return self.one_for(self.value(body), self.value(other))
            case ast.Subscript(value=ast.Attribute()):
                return types.int64
            case ast.Subscript(value=array, slice=ast.Slice()):
                kind = self.value(array)
                return kind if kind.layout == "C" else not_direct(kind)
            case ast.Subscript(value=array, slice=index):
                return entry(self.value(array), len(elements(index)))
            case ast.Call(func=ast.Attribute(attr="view"), args=[ast.Attribute(attr=kind)]):
                return getattr(types, kind)
            case ast.Call() if (new := made(node)) is not None:
                return types.Array(new[2], len(new[1]), "C")
            case ast.Call(func=function, args=arguments):
                return self._of(of_module(self.names, function), *map(self.value, arguments))
            case ast.Tuple(elts=values):
                return types.Tuple(tuple(map(self.value, values)))
        return not_direct(ast.unparse(node))

    def _of(self, function: Any, *kinds: Any) -> Any:
        if function in TURNED:
            return TURNED[function]
        if function in EXTREMES:
            return functools.reduce(self.one_for, kinds)
        own = self._returned_by(self.typing, function, kinds)
        return signature(self.typing, function, kinds).return_type if own is None else own

    def _statements(self, body: Iterable[ast.stmt]) -> bool:
        """Take what statements write, up to one that leaves, and return whether one does."""
        return any(self._statement(one) for one in body)

    def _statement(self, node: ast.stmt) -> bool:
        """Take what a statement writes, and return whether it leaves."""
        match node:
            case ast.Expr(value=ast.Call() as call):
                self.value(call)
            case ast.Assign(targets=targets, value=value):
                given = list(map(self.value, elements(value)))
                for target in targets:
                    for one, kind in zip(elements(target), given, strict=True):
                        self._write(one, kind)
            case ast.AnnAssign(target=target, value=value) if value is not None:
                self._write(target, self.value(value))
            case ast.AugAssign(target=ast.Name(id=name), op=op, value=value):
                self.put(name, self._of(BINARY[type(op)], self.get(name), self.value(value)))
            case ast.If(body=body, orelse=other):
                before = dict(self.now)
                left = self._statements(body)
                then, self.now = self.now, before
                ways = [then] if not left else []
                if not self._statements(other):
                    ways.append(self.now)
                self.after[node] = _met(*(ways or [then]))
                self.now = dict(self.after[node])
                return not ways
            case ast.While(body=body):
                self._loop(node, body, lambda: None)
            case ast.For(target=ast.Name(id=name), iter=ast.Call(args=ends), body=body):
                kind = counted_by(self.typing, [self.value(end) for end in ends])
                self._loop(node, body, lambda: self.put(name, kind))
            case ast.Continue() | ast.Break():
                self._ways[-1][isinstance(node, ast.Break)].append(dict(self.now))
                return True
            case ast.Return(value=value) if value is not None:
                kind = self.value(value)
                self.returned = kind if self.returned == types.none else self.one_for(self.returned, kind)
                return True
        return False

    def _loop(self, node: ast.stmt, body: Sequence[ast.stmt], begin: Callable[[], Any]) -> None:
        head = dict(self.now)
        while True:
            self.now = dict(head)
            self._ways.append(([], []))
            begin()
            left = self._statements(body)
            again, ended = self._ways.pop()
            met = _met(head, *again, *([] if left else [self.now]))
            if met == head:
                break
            head = met
        self.head[node], self.after[node] = head, _met(head, *ended)
        self.now = dict(self.after[node])

    def _write(self, target: ast.expr, kind: Any) -> None:
        if isinstance(target, ast.Name):
            self.put(target.id, kind)


def _met(*ways: dict[str, Any]) -> dict[str, Any]:
    """Return what variables are where ways meet: of no type where they are of different ones."""
    met: dict[str, Any] = {}
    for way in ways:
        for name, kind in way.items():
            met[name] = kind if met.get(name, kind) == kind else None
    return met
