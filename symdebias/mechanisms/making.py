"""How a mechanism is made: what a call of its class says where arguments are missing, unknown or too many."""

import inspect
from abc import ABCMeta
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

_Made = TypeVar("_Made")

# What is to be given for an argument; those of mechanisms of others are named alone.
_MEANINGS = {
    "epsilon": "the privacy budget, such as 1.0",
    "delta": "the probability with which the guarantee may fail, such as 1e-5",
    "radius": "the public bound on the norm of what is noised together, such as 1.0",
    "bounds": "the public bounds (low, high) of the number, such as (0, 1)",
    "half_width": "how far the noise goes to each side",
    "mechanism": "the mechanism whose released values are clipped",
    "low": "the least value that is released",
    "high": "the largest value that is released",
    "labels": "the labels that go in",
    "outputs": "the numbers that come out",
    "inputs": "the values that go in",
    "matrix": "the probabilities, a row for each value that goes in",
}


class Making(ABCMeta):
    """The class of mechanisms, whose refused calls say which arguments there are and what to give."""

    def __call__(cls: type[_Made], *arguments: Any, **named: Any) -> _Made:
        """Make an instance; the arguments are looked at where they were refused, which costs nothing otherwise."""
        try:
            return type.__call__(cls, *arguments, **named)  # type: ignore[no-any-return]
        except TypeError:
            message = _refusal(cls, len(arguments), named)
            if not message:
                raise
        raise TypeError(message)

    @property
    def __signature__(cls) -> inspect.Signature:
        """The arguments of the constructor, which `inspect.signature` would look for in `__call__`."""
        return _signature(cls)


def kind_of(value: Any) -> str:
    """Return what was given in the place of a mechanism; of a class of mechanisms also what to do."""
    return f"the class {value.__name__}, which is to be called" if isinstance(value, Making) else type(value).__name__


def _signature(kind: type) -> inspect.Signature:
    _, *others = inspect.signature(kind.__init__).parameters.values()  # type: ignore[misc]
    return inspect.Signature(others)


def _refusal(kind: type, count: int, named: Mapping[str, Any]) -> str:
    """Return what is wrong with arguments, so many by place and others by name; empty where they fit."""
    taken = _signature(kind).parameters
    if any(one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD) for one in taken.values()):
        return ""
    by_place = [one.name for one in taken.values() if one.kind is not one.KEYWORD_ONLY]
    needed = [name for name, one in taken.items() if one.default is one.empty]
    missing = [name for name in needed if name not in {*by_place[:count], *named}]
    unknown = [name for name in named if name not in taken]
    if unknown:
        what = f"{kind.__name__} takes no {_listed([name[:60] for name in unknown])}."
    elif missing:
        what = f"{kind.__name__} was not given {_listed(missing)}."
    elif count > len(by_place):
        what = f"{kind.__name__} takes {len(by_place)} arguments by place, and {count} were given."
    elif twice := [name for name in by_place[:count] if name in named]:
        what = f"{kind.__name__} was given {_listed(twice)} twice, by place and by name."
    else:
        return ""
    told = "; ".join(f"{name}, {_MEANINGS[name]}" if name in _MEANINGS else name for name in missing or needed)
    optional = [f"{name}=" for name in taken if name not in needed]
    more = f" It also takes {_listed(optional)}." if optional else ""
    return f"{what} Give {told}.{more}{_of_known_noise(kind)}"


def _of_known_noise(kind: type) -> str:
    """Return how noise of a known size is declared; empty where the class has no constructor of that."""
    make = getattr(kind, "from_scale", None)
    if make is None:
        return ""
    given = ", ".join(name for name, one in inspect.signature(make).parameters.items() if one.default is one.empty)
    return f" Noise of a known size, without a privacy claim, is {kind.__name__}.from_scale({given})."


def _listed(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
