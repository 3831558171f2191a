"""What a derivation may cost: seconds, and the size of its expressions.

SymPy has no limits of its own: a power multiplies out to millions of terms, and a call cannot be stopped from outside
in every thread. So the steps of a derivation ask here, before the calls that may take long, whether the expression is
still short enough that the call is short, and whether there is time left.
"""

import functools
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import sympy as sp

from symdebias._domains import COUNT, POSITIVE
from symdebias.exceptions import DerivationLimitError

# A loss that anybody writes is derived within a second, and its expressions have hundreds of operations.
_SECONDS, _OPERATIONS = 10.0, 20_000


@dataclass(frozen=True)
class Limits:
    """The limits of the derivations of a thread or task."""

    seconds: float = _SECONDS  # Of a processor, for one derivation: what else the machine does is not counted.
    # How many operations an expression may have, and how many terms it may be multiplied out to.
    operations: int = _OPERATIONS


# Of threads and tasks by themselves: what one allows does not move another's clock.
_current: ContextVar[Limits] = ContextVar("symdebias_limits", default=Limits())  # noqa: B039  (frozen)
_ends: ContextVar[float] = ContextVar("symdebias_ends", default=math.inf)


@contextmanager
def derivation_limits(*, seconds: float = _SECONDS, operations: int = _OPERATIONS) -> Iterator[Limits]:
    """Set what each derivation in a block may cost.

    Parameters
    ----------
    seconds : float
        Of a processor, how long one derivation may take, positive; 10 by default. Other work of the machine is not
        counted.
    operations : int
        How many operations an expression may have, and how many terms it may be multiplied out to, at least 1;
        20,000 by default.

    Yields
    ------
    Limits
        The limits, which hold in the current thread or task until the block ends.

    Raises
    ------
    TypeError, ValueError
        A limit is no such number.

    Notes
    -----
    Time is looked at between the steps of a derivation, not inside them; the limit on operations keeps a step short.

    Examples
    --------
    >>> import symdebias as sd
    >>> with sd.derivation_limits(seconds=60.0, operations=100_000):
    ...     corrected = sd.debias(sd.losses.exponential(), sd.Release(features=sd.GaussianMechanism.from_scale(0.5)))
    >>> corrected.method
    'exact'
    """
    limits = Limits(POSITIVE.check("seconds", seconds), COUNT.check("operations", operations))
    token = _current.set(limits)
    try:
        yield limits
    finally:
        _current.reset(token)


@contextmanager
def timed() -> Iterator[None]:
    """Start the clock of one derivation; inside another one its clock goes on."""
    if _ends.get() < math.inf:
        yield
        return
    token = _ends.set(time.thread_time() + _current.get().seconds)
    try:
        yield
    finally:
        _ends.reset(token)


def check(*expressions: sp.Basic) -> None:
    """Raise where an expression is too long to go on with, or the time is over.

    Parameters
    ----------
    *expressions : sympy.Basic
        What the next step works on.

    Raises
    ------
    DerivationLimitError
        One has more operations than are allowed, or the clock of `timed` has run out.
    """
    limits = _current.get()
    if time.thread_time() > _ends.get():
        raise DerivationLimitError(
            f"the derivation takes more than the {limits.seconds:g} seconds that it is allowed. Write the loss with "
            "fewer terms, lower powers or less nesting, or allow more with symdebias.derivation_limits(seconds=...).",
            by_time=True,
        )
    for expression in expressions:
        if _is_longer(expression, limits.operations):
            _refuse(limits)


def expand(expression: sp.Expr) -> sp.Expr:
    """Multiply an expression out, where it has not too many terms.

    Raises
    ------
    DerivationLimitError
        It would have more terms than are allowed, or is too long, or the time is over.

    Examples
    --------
    >>> u = sp.Symbol("u", real=True)
    >>> expand((1 + u) ** 2)
    u**2 + 2*u + 1
    """
    check(expression)
    if most_terms(expression) > _current.get().operations:
        _refuse(_current.get())
    return sp.expand(expression)


def expand_around_forms(expression: sp.Expr) -> sp.Expr:
    """Multiply an expression out, and leave linear forms, denominators and roots in it as they are.

    Derivatives of a function of a residual are short in the residual and cancel in its parts: of (1 + (u - y)^2)^8,
    multiplied out at u = y = 6, float64 has no digit left.

    Raises
    ------
    DerivationLimitError
        It would have more terms than are allowed, or is too long, or the time is over.

    Examples
    --------
    >>> u, y = sp.symbols("u y", real=True)
    >>> expand_around_forms((1 + u) * u / (1 + (u - y) ** 2) ** 4)
    u*(u + 1)/((u - y)**2 + 1)**4
    >>> expand_around_forms((2 * u - 2 * y) * (u + (y - u) ** 2))
    2*u*(u - y) + 2*(u - y)**3
    """
    check(expression)
    forms: dict[sp.Expr, sp.Dummy] = {}
    sums: dict[sp.Expr, sp.Dummy] = {}

    def hold(node: sp.Basic, known: dict[sp.Expr, sp.Dummy]) -> sp.Dummy:
        if node not in known:
            known[node] = sp.Dummy(f"held{len(known)}", real=node.is_real, positive=node.is_positive)
        return known[node]

    @functools.cache
    def held(node: sp.Basic) -> sp.Basic:
        if node.is_Atom:
            return node
        if node.is_Add and _is_linear(node):
            number, form = node.as_content_primitive()
            sign = -1 if form.could_extract_minus_sign() else 1
            return sign * number * hold(sign * form, forms)
        arguments = [held(argument) for argument in node.args]
        if node.is_Pow and arguments[0].is_Add and not (node.exp.is_Integer and node.exp > 0):
            arguments[0] = hold(arguments[0], sums)
        return node.func(*arguments)

    # The expression itself may be a linear form, or have one beside other terms.
    written = sp.Add(*(held(term) for term in sp.Add.make_args(expression)))
    written = expand(written)
    back = {dummy: node for known in (forms, sums) for node, dummy in known.items()}
    # Sums hold forms, and roots hold roots.
    while written.atoms(sp.Dummy) & back.keys():
        written = written.xreplace(back)
    return written


def _is_linear(total: sp.Add) -> bool:
    """Whether a sum is a linear form of symbols, with a constant or without."""
    parts = (term.as_coeff_Mul()[1] for term in total.args)
    return all(part.is_number or part.is_Symbol for part in parts)


def diff(expression: sp.Expr, *by: sp.Symbol) -> sp.Expr:
    """Differentiate once by each of some symbols, with a check before each.

    Raises
    ------
    DerivationLimitError
        An expression gets too long, or the time is over.
    """
    for symbol in by:
        check(expression)
        expression = sp.diff(expression, symbol)
    return expression


def most_terms(expression: sp.Expr) -> int:
    """Return a bound on the number of terms of the expanded expression, without expanding it.

    Examples
    --------
    >>> u, v = sp.symbols("u v")
    >>> most_terms((1 + u + v) ** 3)
    10
    """
    if expression.is_Add:
        return sum(most_terms(argument) for argument in expression.args)
    if expression.is_Mul:
        return math.prod(most_terms(argument) for argument in expression.args)
    if expression.is_Pow and expression.exp.is_Integer and expression.exp > 1:
        terms = most_terms(expression.base)
        if terms > 1 and expression.exp > 10_000:
            return _current.get().operations + 1
        return math.comb(terms + int(expression.exp) - 1, terms - 1)
    return max((most_terms(argument) for argument in expression.args), default=1) if expression.is_Function else 1


def _is_longer(expression: sp.Basic, most: int) -> bool:
    """Whether an expression has more than so many nodes; it is not walked further than that."""
    found, waiting = 0, [expression]
    while waiting:
        found += 1
        if found > most:
            return True
        waiting.extend(waiting.pop().args)
    return False


def _refuse(limits: Limits) -> None:
    raise DerivationLimitError(
        f"the derivation meets an expression of more than the {limits.operations:,} operations that it is allowed. "
        "Write the loss with fewer terms, lower powers or less nesting, or allow more with "
        "symdebias.derivation_limits(operations=...)."
    )
