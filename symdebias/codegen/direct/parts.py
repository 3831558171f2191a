"""Take out of the functions of kernels what is written directly."""

import ast
import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from symdebias.codegen.direct.scope import Scope, elements, made, named
from symdebias.codegen.direct.writer import Function, as_intrinsic, function_of

# What counts as an operation, and with how few of them a part is left to Numba: a call of it costs as much.
_OPERATIONS = (ast.BinOp, ast.Compare, ast.Subscript, ast.Call, ast.IfExp, ast.For, ast.While, ast.AugAssign)
_FEWEST_OPERATIONS = 4
# A function with an expression of more levels is left to Numba: what looks at expressions here calls itself a few times
# for each level, and Python's stack ends.
_MOST_LEVELS = 150
# Sums of more terms, each of which is a level, are added up in parts.
_MOST_TERMS = 50


def execute(
    text: str, path: str, names: dict[str, Any], kernel: str, fastmath: Iterable[str],
    identity: Callable[[Any], Sequence[str]],
) -> None:  # fmt: skip
    """Run a module of generated text, with what can be written directly taken out of its functions.

    Parameters
    ----------
    text, path : str
        The text, and the path that Numba finds it at.
    names : dict
        The module.
    kernel : str
        The name of its function that is no helper.
    fastmath : iterable of str
        The freedoms that this has with floating-point arithmetic.
    identity : callable
        Says what a global is, in the same words in every process.
    """
    for node in ast.parse(text, path).body:
        if isinstance(node, ast.FunctionDef) and (options := _options(node, kernel)) is not None:
            node.body = _in_parts(node.body)
            if _is_deep(node):
                exec(compile(ast.Module([node], []), path, "exec"), names)
                continue
            outliner = _Outliner(node, names, identity)
            own = "fastmath" in options and ast.literal_eval(options["fastmath"]) != set(fastmath)
            if node.name != kernel and not own and outliner.is_whole():
                names[node.name] = outliner.function(node, is_inline="forceinline" in options)
                continue
            node.body = outliner.outlined(node.body)
        exec(compile(ast.Module([node], []), path, "exec"), names)


def _in_parts(body: Sequence[ast.stmt]) -> list[ast.stmt]:
    """Return statements in which the beginning of a long sum has a name: the same operations in the same order."""
    found: list[ast.stmt] = []
    for node in body:
        for name in ("body", "orelse"):
            if isinstance(inside := getattr(node, name, None), list):
                setattr(node, name, _in_parts(inside))
        if isinstance(node, (ast.Assign, ast.AugAssign)):
            operations, value = [], node.value
            while isinstance(value, ast.BinOp):
                operations.append(value)
                value = value.left
            # The first one stands innermost.
            for place in range(len(operations) - 1 - _MOST_TERMS, 0, -_MOST_TERMS):
                name, operation = f"sum_{node.lineno}_{len(operations) - place}", operations[place]
                begun = ast.Assign([ast.Name(name, ast.Store())], operation.left)
                found.append(ast.fix_missing_locations(ast.copy_location(begun, node)))
                operation.left = ast.copy_location(ast.Name(name, ast.Load()), node)
        found.append(node)
    return found


def _is_deep(definition: ast.FunctionDef) -> bool:
    """Whether something in a function has more levels than can be looked at."""
    level: list[ast.AST] = [definition]
    for _ in range(_MOST_LEVELS):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        if not level:
            return False
    return True


def key_of(value: Any) -> str | None:
    """Return a hash of all that a function which is written directly is made of, or None for anything else."""
    function = function_of(value)
    return None if function is None else function.key


def _options(node: ast.FunctionDef, kernel: str) -> dict[str | None, ast.expr] | None:
    """Return the options of a kernel or of one of its helpers, or None for another function."""
    match node.decorator_list:
        case [] if node.name == kernel:
            return {}
        case [ast.Call(func=ast.Name("helper"), keywords=options)]:
            return {option.arg: option.value for option in options}
    return None


class _Outliner:
    """Takes parts out of a function."""

    def __init__(
        self, definition: ast.FunctionDef, names: dict[str, Any], identity: Callable[[Any], Sequence[str]]
    ) -> None:
        self.definition, self.names, self.identity = definition, names, identity
        self.scope = Scope(definition, names)
        # What is read after each statement, and what is written before the one that is looked at.
        self._later: dict[ast.stmt, set[str]] = {}
        _read(definition.body, set(), (set(), set()), self._later)
        self._earlier = {argument.arg for argument in definition.args.args}

    def is_whole(self) -> bool:
        """Whether all of the function can be written."""
        return all(self.scope.is_statement(one, in_function=True) for one in self.definition.body)

    def function(self, definition: ast.FunctionDef, *, is_inline: bool) -> Any:
        """Return what stands for a function that is written directly."""
        globals_ = {name for one in definition.body for name in named(one, ast.Load)} - self.scope.local
        parts = [ast.dump(definition), str(is_inline)]
        for name in sorted(globals_ & self.names.keys()):
            parts += [name, *self.identity(self.names[name])]
        key = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
        return as_intrinsic(Function(definition, self.names, is_inline, key))

    def outlined(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        """Return statements, with calls for the longest rows of them that can be written."""
        found: list[ast.stmt] = []
        row: list[ast.stmt] = []
        for node in body:
            if self.scope.is_statement(node):
                row.append(node)
            else:
                found += [*self._row(row), *self._inside(node)]
                row = []
        return [*found, *self._row(row)]

    def _inside(self, node: ast.stmt) -> list[ast.stmt]:
        """Return a statement that is left to Numba, with parts taken out of what is inside."""
        if isinstance(node, ast.For):
            self._earlier |= named(node.target, ast.Store)
        for name in ("body", "orelse"):
            if isinstance(inside := getattr(node, name, None), list):
                setattr(node, name, self.outlined(inside))
        self._earlier |= named(node, ast.Store)
        return [node]

    def _row(self, row: Sequence[ast.stmt]) -> list[ast.stmt]:
        """Return statements as parts, around those that give names to views which are read after them."""
        if not row:
            return []
        views = _views(row) & self._later[row[-1]]
        for place, node in enumerate(row):
            if views & named(node, ast.Store):
                before, after = self._row(row[:place]), row[place + 1 :]
                return [*before, *self._inside(node), *self._row(after)]
        part = self._part(row)
        self._earlier.update(*(named(one, ast.Store) for one in row))
        return part

    def _part(self, row: Sequence[ast.stmt]) -> list[ast.stmt]:
        """Return a call that stands for statements, or these where they are few."""
        if sum(isinstance(node, _OPERATIONS) for one in row for node in ast.walk(one)) < _FEWEST_OPERATIONS:
            return list(row)
        written = set().union(*(named(one, ast.Store) for one in row))
        kept = sorted(written & self._later[row[-1]])
        # What is read first, and what may be written, and must be what it was where it is not.
        given = sorted(_read(row, set(kept), (set(), set()), {}) & self.scope.local & self._earlier)
        body = list(row)
        results: list[ast.expr] = [ast.Name(name, ast.Load()) for name in kept]
        targets: list[ast.expr] = [ast.Name(name, ast.Store()) for name in kept]
        if len(kept) > 1:
            results, targets = [ast.Tuple(results, ast.Load())], [ast.Tuple(targets, ast.Store())]
        body += [ast.Return(result) for result in results]
        arguments = ast.arguments([], [ast.arg(name) for name in given], None, [], [], None, [])
        own = self.function(ast.FunctionDef("part", arguments, body, [], None, None), is_inline=True)
        name = f"part_{key_of(own)}"
        self.names[name] = own
        call = ast.Call(ast.Name(name, ast.Load()), [ast.Name(one, ast.Load()) for one in given], [])
        node: ast.stmt = ast.Assign(targets, call) if targets else ast.Expr(call)
        return [ast.fix_missing_locations(ast.copy_location(node, row[0]))]


def _views(row: Iterable[ast.stmt]) -> set[str]:
    """Return the names of slices and of arrays that are made, and of what is one of them."""
    inside = (node for statement in row for node in ast.walk(statement) if isinstance(node, ast.Assign))
    given = [
        (one.id, value)
        for node in inside
        for target in node.targets
        for one, value in zip(elements(target), elements(node.value), strict=False)
        if isinstance(one, ast.Name)
    ]
    found: set[str] = set()
    before = None
    while found != before:
        before = set(found)
        for name, value in given:
            is_slice = isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Slice)
            if is_slice or made(value) is not None or (isinstance(value, ast.Name) and value.id in found):
                found.add(name)
    return found


def _read(
    body: Sequence[ast.stmt], after: set[str], ways: tuple[set[str], set[str]], later: dict[ast.stmt, set[str]]
) -> set[str]:
    """Return the names that are read in or after statements before they have surely been written.

    Parameters
    ----------
    body : sequence of ast.stmt
        The statements.
    after : set of str
        What is read after them.
    ways : tuple of two sets of str
        What is read where the loop around them goes on, and after it.
    later : dict
        Takes what is read after each statement.
    """
    for node in reversed(body):
        later[node] = after
        match node:
            case ast.If(test=test, body=inside, orelse=other):
                after = _read(inside, after, ways, later) | _read(other, after, ways, later) | named(test, ast.Load)
            case ast.While(body=inside) | ast.For(body=inside):
                begin = node.test if isinstance(node, ast.While) else node.iter
                counted = named(node.target, ast.Store) if isinstance(node, ast.For) else set()
                head = after | named(begin, ast.Load)
                first = _read(inside, head, (head, after), later) - counted
                if not first <= head:
                    # A second turn reads what the first one did, and nothing more.
                    head = head | first
                    _read(inside, head, (head, after), later)
                after = head
            case ast.Continue() | ast.Break():
                after = ways[isinstance(node, ast.Break)]
            case ast.Return():
                after = named(node, ast.Load)
            case _:
                after = (after - named(node, ast.Store)) | named(node, ast.Load)
                if isinstance(node, ast.AugAssign):
                    # What is added to is read.
                    after = after | named(node.target, ast.Store)
    return after
