"""Printed statements, kept in the cache folder: to derive and print long ones takes longer than to load a kernel."""

import functools
import hashlib
import platform
from collections.abc import Callable, Sequence
from pathlib import Path

import sympy as sp

from symdebias.codegen.folder import kept
from symdebias.codegen.printer import Statements


def kept_statements(texts: Sequence[str], decides: Sequence[sp.Basic], make: Callable[[], Statements]) -> Statements:
    """Return statements that were printed before, by this or another process of this user, or print them.

    Parameters
    ----------
    texts, decides : sequence of str, sequence of sympy.Basic
        All that decides what is printed, besides this program and SymPy.
    make : callable
        Prints them.
    """
    seen: dict[sp.Basic, str] = {}
    parts = (*_versions(), *texts, *(digest(expression, seen) for expression in decides))
    name = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]

    def printed() -> dict[str, list[str]]:
        made = make()
        return {
            "setup": list(made.setup), "record": list(made.record), "results": list(made.results),
            "functions": sorted(made.functions),
        }  # fmt: skip

    found = kept(name, printed)
    return Statements(
        tuple(found["setup"]), tuple(found["record"]), tuple(found["results"]), frozenset(found["functions"])
    )


def digest(expression: sp.Basic, seen: dict[sp.Basic, str] | None = None) -> str:
    """Return a hash of an expression, its symbols' assumptions included: the same in every process.

    Parameters
    ----------
    expression : sympy.Basic
        The expression.
    seen : dict, optional
        The hashes of parts, for further expressions of the same parts.

    Examples
    --------
    >>> import sympy as sp
    >>> x, y = sp.symbols("x y")
    >>> digest(x + y) == digest(y + x), digest(x) == digest(sp.Symbol("x", positive=True))
    (True, False)
    """
    seen = {} if seen is None else seen
    # Not by recursion: sums over combinations of categories may be deep.
    waiting = [expression]
    while waiting:
        one = waiting[-1]
        if one in seen:
            waiting.pop()
            continue
        missing = [part for part in one.args if part not in seen]
        if missing:
            waiting += missing
            continue
        kind = type(one)
        parts = [kind.__module__, kind.__qualname__]
        parts += [seen[part] for part in one.args] if one.args else [sp.srepr(one)]
        seen[one] = hashlib.sha256("\0".join(parts).encode()).hexdigest()
        waiting.pop()
    return seen[expression]


@functools.cache
def _versions() -> tuple[str, ...]:
    """Return what decides how an expression is printed: SymPy, Python, and the code of this folder."""
    here = Path(__file__).parent
    code = hashlib.sha256(b"\0".join(path.read_bytes() for path in sorted(here.rglob("*.py")))).hexdigest()
    return sp.__version__, platform.python_version(), code
