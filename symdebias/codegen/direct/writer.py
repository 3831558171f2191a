"""Write expressions, statements and functions into LLVM's language, at the place of a builder."""

import ast
import functools
import hashlib
import inspect
import math
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.extending import _Intrinsic
from numba.extending import intrinsic

from symdebias.codegen.direct.kinds import OF_CONSTANTS, Kinds, counted_by, entry, known, not_direct, signature
from symdebias.codegen.direct.scope import BINARY, COMPARED, EXTREMES, TURNED, elements, is_whole, made, of_module
from symdebias.codegen.direct.widths import widen

# What LLVM calls an operation on two numbers of one type; other operations are Numba's.
_FLOATING = {operator.add: "fadd", operator.sub: "fsub", operator.mul: "fmul", operator.truediv: "fdiv"}
_WHOLE = {
    operator.add: "add", operator.sub: "sub", operator.mul: "mul", operator.and_: "and_", operator.or_: "or_",
    operator.xor: "xor",
}  # fmt: skip
_OPERATIONS: dict[Any, dict[Any, str]] = {types.float64: _FLOATING, types.int64: _WHOLE, types.uint64: _WHOLE}
# What takes long, and what must not be looked at in vain, is not had where it is not wanted.
_NOT_IN_VAIN = (ast.Call, ast.Subscript, ast.IfExp, ast.BoolOp, ast.FloorDiv, ast.Mod)


@dataclass(eq=False)
class Function:
    """A function that is written directly: calls of it are calls within LLVM."""

    definition: ast.FunctionDef
    names: dict[str, Any]  # The module that it stands in.
    is_inline: bool
    key: str  # A hash of all that it is made of.
    _kinds: dict[tuple[Any, ...], Kinds] = field(default_factory=dict)

    @property
    def arguments(self) -> list[str]:
        """The names of the arguments."""
        return [argument.arg for argument in self.definition.args.args]

    def kinds(self, typing: Any, given: tuple[Any, ...]) -> Kinds:
        """Return the types of its variables, and of what it returns, for arguments of some types."""
        if given not in self._kinds:
            found = Kinds(typing, self.names, dict(zip(self.arguments, given, strict=True)), _returned_by)
            found.find(self.definition.body)
            self._kinds[given] = found
        return self._kinds[given]

    def called(self, context: Any, builder: Any, arguments: Sequence[tuple[Any, Any]]) -> Any:
        """Write a call with values and their types; what is called is written once in a module of LLVM."""
        given = tuple(kind for _, kind in arguments)
        text = hashlib.sha256(repr(given).encode()).hexdigest()[:16]
        name = f"symdebias.{self.definition.name}.{self.key}.{text}"
        function = builder.module.globals.get(name) or self._written(context, builder.module, name, given)
        parts = [[value.data, *value.shape] if isinstance(value, Array) else [value] for value, _ in arguments]
        return builder.call(function, [part for whole in parts for part in whole])

    def _written(self, context: Any, module: Any, name: str, given: tuple[Any, ...]) -> Any:
        found = self.kinds(context.typing_context, given)
        returned = ir.VoidType() if found.returned == types.none else context.get_value_type(found.returned)
        parts = [_parts(context, kind) for kind in given]
        function = ir.Function(module, ir.FunctionType(returned, [one for part in parts for one in part]), name)
        function.linkage = "internal"
        widen(function)
        if self.is_inline:
            function.attributes.add("alwaysinline")
        writer = _Writer(context, ir.IRBuilder(function.append_basic_block("entry")), self.names, found)
        found.begin()
        left = iter(function.args)
        for argument, kind, part in zip(self.arguments, given, parts, strict=True):
            data, *shape = (next(left) for _ in part)
            writer.put(argument, Array(kind, data, tuple(shape)) if isinstance(kind, types.Array) else data, kind)
        writer.run(self.definition.body)
        if not writer.builder.block.is_terminated:
            writer.builder.ret_void() if found.returned == types.none else writer.builder.unreachable()
        return function


_functions: dict[_Intrinsic, Function] = {}


def function_of(value: Any) -> Function | None:
    """Return what an intrinsic function writes, or None for anything else."""
    return _functions.get(value) if isinstance(value, _Intrinsic) else None


def _returned_by(typing: Any, value: Any, given: tuple[Any, ...]) -> Any:
    function = function_of(value)
    return None if function is None else function.kinds(typing, given).returned


def as_intrinsic(function: Function) -> Any:
    """Return the intrinsic function that Numba calls for a function."""

    def typed(typing: Any, *given: Any) -> Any:
        plain = tuple(map(types.unliteral, given))
        returned = function.kinds(typing, plain).returned

        def written(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
            widen(builder.function)
            values = (_from_numba(context, builder, *both) for both in zip(arguments, plain, strict=True))
            found = function.called(context, builder, list(zip(values, plain, strict=True)))
            return context.get_dummy_value() if returned == types.none else found

        return returned(*plain), written

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    names = (inspect.Parameter(name, kind) for name in ("typing_context", *function.arguments))
    typed.__signature__ = inspect.Signature(list(names))  # type: ignore[attr-defined]
    typed.__name__ = function.definition.name
    found = intrinsic(typed)
    _functions[found] = function
    return found


@dataclass(frozen=True)
class Array:
    """An array: where its numbers are, and how many there are along each axis."""

    kind: Any
    data: Any
    shape: tuple[Any, ...]


def _from_numba(context: Any, builder: Any, value: Any, kind: Any) -> Any:
    if not isinstance(kind, types.Array):
        return value
    whole = context.make_array(kind)(context, builder, value)
    return Array(kind, whole.data, tuple(cgutils.unpack_tuple(builder, whole.shape, kind.ndim)))


def _parts(context: Any, kind: Any) -> list[Any]:
    """Return the types of what a value of a type consists of."""
    if isinstance(kind, types.Array):
        return [context.get_data_type(kind.dtype).as_pointer(), *[context.get_value_type(types.intp)] * kind.ndim]
    return [context.get_value_type(kind)]


class _Writer:
    """Writes a function.

    Variables stand in memory, each at one place for each of its types: LLVM finds out which need none.
    """

    def __init__(self, context: Any, builder: Any, names: dict[str, Any], kinds: Kinds) -> None:
        self.context, self.builder, self.names, self.kinds = context, builder, names, kinds
        self._slots: dict[tuple[str, Any], list[Any]] = {}
        # Where a loop goes on, and where it ends.
        self._loops: list[tuple[Any, Any]] = []
        self._called: dict[tuple[Any, Any], Any] = {}

    # Variables

    def put(self, name: str, value: Any, kind: Any) -> None:
        """Write a variable."""
        wanted = self.kinds.put(name, kind)
        parts = [value.data, *value.shape] if isinstance(value, Array) else [self._cast(value, kind, wanted)]
        for slot, part in zip(self._places(name, wanted), parts, strict=True):
            self.builder.store(part, slot)

    def _get(self, name: str) -> tuple[Any, Any]:
        if name not in self.kinds.now:
            return self._constant(name)
        kind = self.kinds.get(name)
        data, *shape = (self.builder.load(slot) for slot in self._places(name, kind))
        return (Array(kind, data, tuple(shape)) if isinstance(kind, types.Array) else data), kind

    def _places(self, name: str, kind: Any) -> list[Any]:
        """Return where a variable of a type is: it begins as 0, for ways on which nothing is written to it."""
        if (name, kind) not in self._slots:
            self._slots[name, kind] = [cgutils.alloca_once(self.builder, one) for one in _parts(self.context, kind)]
        return self._slots[name, kind]

    def _constant(self, name: str) -> tuple[Any, Any]:
        value = self.names[name]
        kind = numba.typeof(value)
        if not isinstance(value, np.ndarray):
            return self.context.get_constant(kind, value), kind
        number, module, place = self.context.get_data_type(kind.dtype), self.builder.module, f"symdebias.{name}"
        numbers = ir.Constant(ir.ArrayType(number, value.size), value.ravel().tolist())
        data = module.globals.get(place) or cgutils.global_constant(module, place, numbers)
        shape = tuple(self.context.get_constant(types.intp, count) for count in value.shape)
        return Array(kind, data.bitcast(number.as_pointer()), shape), kind

    # Values

    def _cast(self, value: Any, kind: Any, wanted: Any) -> Any:
        return value if kind == wanted else self.context.cast(self.builder, value, kind, wanted)

    def _value(self, node: ast.expr) -> tuple[Any, Any]:
        """Write an expression, and return its value and its type."""
        match node:
            case ast.Constant(value=value):
                kind = OF_CONSTANTS[type(value)]
                return self.context.get_constant(kind, value), kind
            case ast.Name(id=name):
                return self._get(name)
            case ast.Attribute():
                return self.context.get_constant(types.float64, of_module(self.names, node)), types.float64
            case ast.BinOp(left=left, right=right, op=op):
                return self._binary(BINARY[type(op)], self._value(left), self._value(right))
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return self._compared(*COMPARED[type(op)], self._value(left), self._value(right)), types.boolean
            case ast.BoolOp(op=op, values=[first, *more]):
                return self._all(isinstance(op, ast.And), first, more), types.boolean
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return self.builder.not_(self._truth(operand)), types.boolean
            case ast.UnaryOp(operand=operand):
                value, kind = self._value(operand)
                return (self.builder.fneg if isinstance(kind, types.Float) else self.builder.neg)(value), kind
            case ast.IfExp(test=test, body=body, orelse=other):
                return self._either(test, body, other)
            case ast.Subscript(value=ast.Attribute(value=array), slice=ast.Constant(value=axis)):
                return self._value(array)[0].shape[axis], types.int64
            case ast.Subscript(value=array, slice=ast.Slice() as part):
                return self._slice(self._value(array)[0], part)
            case ast.Subscript(value=array, slice=index):
                return self._entry(*self._place(self._value(array)[0], index))
            case ast.Call(func=ast.Attribute(attr="view"), args=[_]):
                wanted = self.kinds.value(node)
                return self._bits(node.func, wanted), wanted
            case ast.Call() if (new := made(node)) is not None:
                return self._make(*new)
            case ast.Call(func=function, args=arguments):
                return self._call(of_module(self.names, function), [self._value(one) for one in arguments])
        return not_direct(ast.unparse(node))

    def _bits(self, node: ast.expr, wanted: Any) -> Any:
        assert isinstance(node, ast.Attribute)
        return self.builder.bitcast(self._value(node.value)[0], self.context.get_value_type(wanted))

    def _binary(self, function: Any, first: tuple[Any, Any], second: tuple[Any, Any]) -> tuple[Any, Any]:
        (left, kind), (right, other) = first, second
        name = _OPERATIONS.get(kind, {}).get(function)
        if kind != other or name is None:
            return self._call(function, [first, second])
        return getattr(self.builder, name)(left, right), kind

    def _compared(self, function: Any, sign: str, first: tuple[Any, Any], second: tuple[Any, Any]) -> Any:
        (left, kind), (right, other) = first, second
        if kind != other or kind not in _OPERATIONS:
            return self._call(function, [first, second])[0]
        if kind == types.float64:
            return (self.builder.fcmp_unordered if sign == "!=" else self.builder.fcmp_ordered)(sign, left, right)
        return (self.builder.icmp_signed if kind.signed else self.builder.icmp_unsigned)(sign, left, right)

    def _truth(self, node: ast.expr) -> Any:
        return self._cast(*self._value(node), types.boolean)

    def _all(self, are_all: bool, first: ast.expr, more: Sequence[ast.expr]) -> Any:
        """Write that all, or any, of some conditions hold; those after one that decides are not looked at."""
        slot = cgutils.alloca_once(self.builder, ir.IntType(1))
        value = self._truth(first)
        self.builder.store(value, slot)
        for node in more:
            with self.builder.if_then(value if are_all else self.builder.not_(value)):
                self.builder.store(self._truth(node), slot)
            value = self.builder.load(slot)
        return value

    def _either(self, test: ast.expr, body: ast.expr, other: ast.expr) -> tuple[Any, Any]:
        kind, condition = self.kinds.one_for(self.kinds.value(body), self.kinds.value(other)), self._truth(test)
        if not any(isinstance(node, _NOT_IN_VAIN) for side in (body, other) for node in ast.walk(side)):
            first, second = (self._cast(*self._value(node), kind) for node in (body, other))
            return self.builder.select(condition, first, second), kind
        slot = cgutils.alloca_once(self.builder, self.context.get_value_type(kind))
        with self.builder.if_else(condition) as ways:
            for way, node in zip(ways, (body, other), strict=True):
                with way:
                    self.builder.store(self._cast(*self._value(node), kind), slot)
        return self.builder.load(slot), kind

    def _call(self, function: Any, arguments: list[tuple[Any, Any]]) -> tuple[Any, Any]:
        kinds = tuple(kind for _, kind in arguments)
        own = function_of(function)
        if own is not None:
            return own.called(self.context, self.builder, arguments), own.kinds(self.kinds.typing, kinds).returned
        if function in TURNED:
            return self._turned(*arguments[0], TURNED[function]), TURNED[function]
        if function in EXTREMES:
            # As Python has it: the other number only where it is smaller, or larger, which NaN is not.
            wanted = functools.reduce(self.kinds.one_for, kinds)
            first, second = (self._cast(*both, wanted) for both in arguments)
            is_second = self._compared(*EXTREMES[function], (second, wanted), (first, wanted))
            return self.builder.select(is_second, second, first), wanted
        found = signature(self.kinds.typing, function, kinds)
        if (function, found) not in self._called:
            self._called[function, found] = self.context.get_function(known(self.kinds.typing, function), found)
        given = [self._for_numba(*both, wanted) for both, wanted in zip(arguments, found.args, strict=True)]
        return self._called[function, found](self.builder, given), found.return_type

    def _turned(self, value: Any, kind: Any, wanted: Any) -> Any:
        # Numba has a function of its own for int, which it would compile.
        if isinstance(kind, types.Float) and isinstance(wanted, types.Integer):
            turn = self.builder.fptosi if wanted.signed else self.builder.fptoui
            return turn(value, self.context.get_value_type(wanted))
        return self._cast(value, kind, wanted)

    def _for_numba(self, value: Any, kind: Any, wanted: Any) -> Any:
        """Return a value as Numba has it; an array is borrowed, which whoever keeps it must keep in memory."""
        if not isinstance(value, Array):
            return self._cast(value, kind, wanted)
        whole = self.context.make_array(kind)(self.context, self.builder)
        size = self.context.get_constant(
            types.intp, self.context.get_abi_sizeof(self.context.get_data_type(kind.dtype))
        )
        order = range(kind.ndim) if kind.layout == "F" else reversed(range(kind.ndim))
        strides: dict[int, Any] = {}
        step = size
        for axis in order:
            strides[axis] = step
            step = self.builder.mul(step, value.shape[axis])
        whole.data, whole.itemsize = value.data, size
        whole.nitems = functools.reduce(self.builder.mul, value.shape)
        whole.shape = cgutils.pack_array(self.builder, value.shape)
        whole.strides = cgutils.pack_array(self.builder, [strides[axis] for axis in range(kind.ndim)])
        for owner in ("meminfo", "parent"):
            setattr(whole, owner, cgutils.get_null_value(getattr(whole, owner).type))
        return whole._getvalue()

    # Arrays

    def _place(self, array: Array, index: ast.expr) -> tuple[Any, Any]:
        """Return where a number of an array is, or the array that fewer indices lead to."""
        given = [self._value(one) for one in elements(index)]
        kind = entry(array.kind, len(given))
        axes = list(range(array.kind.ndim))
        at = None
        for axis in reversed(axes) if array.kind.layout == "F" else axes:
            if at is not None:
                at = self.builder.mul(at, array.shape[axis])
            if axis < len(given):
                value, own = given[axis]
                if not isinstance(own, types.Integer):
                    not_direct(own)
                value = self._cast(value, own, types.int64 if own.signed else types.uint64)
                at = value if at is None else self.builder.add(at, value)
        place = self.builder.gep(array.data, [at])
        return (Array(kind, place, array.shape[len(given) :]) if isinstance(kind, types.Array) else place), kind

    def _entry(self, place: Any, kind: Any) -> tuple[Any, Any]:
        return (place if isinstance(place, Array) else self.builder.load(place)), kind

    def _slice(self, array: Array, part: ast.Slice) -> tuple[Array, Any]:
        count, data = array.shape[0], array.data
        if part.upper is not None:
            count = self._least(count, self._cast(*self._value(part.upper), types.int64))
        if part.lower is not None:
            lower = self._least(count, self._cast(*self._value(part.lower), types.int64))
            data = self.builder.gep(data, [functools.reduce(self.builder.mul, array.shape[1:], lower)])
            count = self.builder.sub(count, lower)
        return Array(array.kind, data, (count, *array.shape[1:])), array.kind

    def _least(self, first: Any, second: Any) -> Any:
        return self.builder.select(self.builder.icmp_signed("<", first, second), first, second)

    def _make(self, is_zero: bool, counts: tuple[int, ...], number: Any) -> tuple[Array, Any]:
        kind, size = types.Array(number, len(counts), "C"), self.context.get_constant(types.intp, math.prod(counts))
        data = cgutils.alloca_once(self.builder, self.context.get_data_type(number), size=size)
        array = Array(kind, data, tuple(self.context.get_constant(types.intp, count) for count in counts))
        if is_zero:
            self._fill(array, self.context.get_constant(number, 0), number)
        return array, kind

    def _fill(self, array: Array, value: Any, kind: Any) -> None:
        number = self._cast(value, kind, array.kind.dtype)
        with cgutils.for_range(self.builder, functools.reduce(self.builder.mul, array.shape)) as loop:
            self.builder.store(number, self.builder.gep(array.data, [loop.index]))

    # Statements

    def run(self, body: Iterable[ast.stmt]) -> None:
        """Write statements, up to one that leaves."""
        for node in body:
            if self.builder.block.is_terminated:
                return
            self._statement(node)

    def _statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Expr(value=ast.Call() as call):
                self._value(call)
            case ast.Assign(targets=targets, value=value):
                # All is read before anything is written, and once for all targets.
                given = list(map(self._value, elements(value)))
                for target in targets:
                    for one, both in zip(elements(target), given, strict=True):
                        self._write(one, *both)
            case ast.AnnAssign(target=target, value=value) if value is not None:
                self._write(target, *self._value(value))
            case ast.AugAssign(target=ast.Name(id=name), op=op, value=value):
                self.put(name, *self._binary(BINARY[type(op)], self._get(name), self._value(value)))
            case ast.AugAssign(target=ast.Subscript(value=array, slice=index), op=op, value=value):
                place, kind = self._place(self._value(array)[0], index)
                added = self._binary(BINARY[type(op)], (self.builder.load(place), kind), self._value(value))
                self.builder.store(self._cast(*added, kind), place)
            case ast.If(test=test, body=body, orelse=other):
                before = dict(self.kinds.now)
                with self.builder.if_else(self._truth(test)) as ways:
                    for way, inside in zip(ways, (body, other), strict=True):
                        self.kinds.now = dict(before)
                        with way:
                            self.run(inside)
                self.kinds.now = dict(self.kinds.after[node])
            case ast.While(test=test, body=body):
                self._loop(node, lambda: self._truth(test), lambda: self.run(body), lambda: None)
            case ast.For(target=ast.Name(id=name), iter=ast.Call(args=ends), body=body):
                self._range(node, name, ends, body)
            case ast.Continue() | ast.Break():
                self.builder.branch(self._loops[-1][isinstance(node, ast.Break)])
            case ast.Return(value=value) if value is not None:
                self.builder.ret(self._returned(value))

    def _returned(self, node: ast.expr) -> Any:
        wanted = self.kinds.returned
        if not isinstance(node, ast.Tuple):
            return self._lent(*self._value(node), wanted)
        values = [self._lent(*self._value(one), kind) for one, kind in zip(node.elts, wanted, strict=True)]
        return self.context.make_tuple(self.builder, wanted, values)

    def _lent(self, value: Any, kind: Any, wanted: Any) -> Any:
        # Where references are counted, an array that Numba takes for its own might be gone.
        if isinstance(value, Array) and self.context.enable_nrt:
            not_direct(kind)
        return self._for_numba(value, kind, wanted)

    def _write(self, target: ast.expr, value: Any, kind: Any) -> None:
        if isinstance(target, ast.Name):
            self.put(target.id, value, kind)
            return
        assert isinstance(target, ast.Subscript)
        array = self._value(target.value)[0]
        if is_whole(target.slice):
            self._fill(array, value, kind)
        else:
            place, wanted = self._place(array, target.slice)
            self.builder.store(self._cast(value, kind, wanted), place)

    def _loop(
        self, node: ast.stmt, test: Callable[[], Any], body: Callable[[], None], step: Callable[[], None]
    ) -> None:
        builder = self.builder
        head, inside, again, end = (builder.append_basic_block(name) for name in ("head", "inside", "again", "end"))
        self.kinds.now = dict(self.kinds.head[node])
        builder.branch(head)
        builder.position_at_end(head)
        builder.cbranch(test(), inside, end)
        builder.position_at_end(inside)
        self._loops.append((again, end))
        body()
        self._loops.pop()
        if not builder.block.is_terminated:
            builder.branch(again)
        builder.position_at_end(again)
        step()
        builder.branch(head)
        builder.position_at_end(end)
        self.kinds.now = dict(self.kinds.after[node])

    def _range(self, node: ast.stmt, name: str, ends: Sequence[ast.expr], body: Sequence[ast.stmt]) -> None:
        given, builder = [self._value(end) for end in ends], self.builder
        kind = counted_by(self.kinds.typing, [one for _, one in given])
        numbers = [self._cast(*one, kind) for one in given]
        zero, one = (self.context.get_constant(kind, number) for number in (0, 1))
        first, stop, step = ((zero, *numbers) if len(numbers) == 1 else tuple(numbers)) + ((one,) * (len(numbers) < 3))
        is_down = kind.signed and len(ends) == 3 and _is_negative(ends[2])
        compare, flag = (builder.icmp_signed, "nsw") if kind.signed else (builder.icmp_unsigned, "nuw")
        counter = cgutils.alloca_once(builder, first.type)
        builder.store(first, counter)

        def begin() -> None:
            self.put(name, builder.load(counter), kind)
            self.run(body)

        def count() -> None:
            builder.store(builder.add(builder.load(counter), step, flags=[flag]), counter)

        self._loop(node, lambda: compare(">" if is_down else "<", builder.load(counter), stop), begin, count)


def _is_negative(step: ast.expr) -> bool:
    """Whether a signed step is below 0, which must be written there: what has a name may be either."""
    match step:
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant()):
            return True
        case ast.Constant():
            return False
    return bool(not_direct(ast.unparse(step)))
