"""The values of a fit as JSON, with its arrays beside: dataclasses field by field, read back against declared types."""

import math
import re
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

import numpy as np

from symdebias._domains import first_unseen
from symdebias.assessment import Certificate
from symdebias.mechanisms import KINDS, Mechanism
from symdebias.mechanisms.base import card_of, mechanism_of
from symdebias.solvers.step_sizes import StepSize
from symdebias.transforms.surrogate import Design

_DEEPEST = 30
# Of float64, integers and truth values; nothing that holds Python objects.
_KINDS_OF_ARRAYS = "fiub"
_SCALAR = re.compile(r"float(16|32|64)|u?int(8|16|32|64)|bool")
_SPECIAL = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


class UnsavableError(ValueError):
    """Something that the format has no words for."""


class Coder:
    """Values as JSON, with their arrays beside; what JSON has no words for is an object with one entry that names it.

    Attributes
    ----------
    arrays : dict from str to array
        Written or read; `unread` has the names of those that were not asked for yet.
    """

    def __init__(self, kind: type, arrays: dict[str, np.ndarray[Any, Any]]) -> None:
        self.classes = {known.__name__: known for known in _classes(kind)}
        self.arrays = arrays
        self.unread = set(arrays)

    def encoded(self, value: Any, place: str, depth: int = 0) -> Any:
        """Return a value, whose place is named where it cannot be written, as JSON has it."""
        if depth > _DEEPEST:
            raise UnsavableError(f"{place} is nested more than {_DEEPEST} deep")
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if isinstance(value, np.ndarray):
            return {"array": self._keep(value, place)}
        if isinstance(value, np.generic):
            if not _SCALAR.fullmatch(value.dtype.name):
                raise UnsavableError(f"{place} is a number of {value.dtype}")
            return {"scalar": value.dtype.name, "value": self.encoded(value.item(), place)}
        if type(value) is list:
            return [self.encoded(part, f"{place}.{index}", depth + 1) for index, part in enumerate(value)]
        if type(value) is tuple:
            parts = [self.encoded(part, f"{place}.{index}", depth + 1) for index, part in enumerate(value)]
            return {"tuple": parts}
        if isinstance(value, Mapping):
            if not all(type(key) is str for key in value):
                raise UnsavableError(f"{place} has a key that is no text")
            return {"map": {key: self.encoded(part, f"{place}.{key}", depth + 1) for key, part in value.items()}}
        if isinstance(value, Mechanism) and KINDS.get(value.kind) is type(value):
            return {"mechanism": card_of(value)}
        kind = self.classes.get(type(value).__name__)
        if kind is type(value):
            names = [field.name for field in fields(kind) if field.init]
            inside = {name: self.encoded(getattr(value, name), f"{place}.{name}", depth + 1) for name in names}
            return {"object": kind.__name__, "fields": inside}
        raise UnsavableError(f"{place} is a {type(value).__name__}")

    def _keep(self, array: np.ndarray[Any, Any], place: str) -> str:
        if array.dtype.kind not in _KINDS_OF_ARRAYS:
            raise UnsavableError(f"{place} is an array of {array.dtype}")
        name = re.sub(r"[^A-Za-z0-9_.\-]", "_", place)[:150]
        if name in self.arrays:
            name = f"{name}-{len(self.arrays)}"
        self.arrays[name] = np.array(array, dtype=array.dtype.newbyteorder("<"), order="C")
        return name

    def decoded(self, value: Any, depth: int = 0) -> Any:
        """Return what was encoded."""
        if depth > _DEEPEST:
            raise ValueError(f"it is nested more than {_DEEPEST} deep")
        if isinstance(value, list):
            return [self.decoded(part, depth + 1) for part in value]
        if not isinstance(value, dict):
            if isinstance(value, float) and not math.isfinite(value):
                raise ValueError("it has a number beyond float64")
            # A terminal obeys some, and others turn the direction of what is read.
            if isinstance(value, str) and (unseen := first_unseen(value, allowed="\n\t")):
                raise ValueError(f"it has a text with the character U+{ord(unseen):04X}")
            return value
        match value:
            case {"float": str(word)} if len(value) == 1:
                return _SPECIAL[word]
            case {"array": str(name)} if len(value) == 1:
                return self._take(name)
            case {"scalar": str(name), "value": number} if len(value) == 2 and _SCALAR.fullmatch(name):
                return np.dtype(name).type(self.decoded(number, depth + 1))
            case {"tuple": list(parts)} if len(value) == 1:
                return tuple(self.decoded(part, depth + 1) for part in parts)
            case {"map": dict(parts)} if len(value) == 1:
                return {key: self.decoded(part, depth + 1) for key, part in parts.items()}
            case {"mechanism": dict(card)} if len(value) == 1:
                return mechanism_of(card)
            case {"object": str(name), "fields": dict(parts)} if len(value) == 2:
                if name not in self.classes:
                    raise ValueError(f"it has an object of the kind {name!r:.60}")
                return self.classes[name](**fields_of(self.classes[name], parts, self, depth=depth + 1))
        raise ValueError(f"it has an object with the entries {', '.join(map(repr, value))!s:.100}")

    def _take(self, name: str) -> np.ndarray[Any, Any]:
        if name not in self.unread:
            raise ValueError(f"the array {name!r:.80} is missing, or referred to twice")
        self.unread.discard(name)
        return self.arrays[name]


def fields_of(kind: type, parts: Any, coder: Coder, *, but: str = "", depth: int = 0) -> dict[str, Any]:
    """Return the fields of a dataclass, each checked against its declared type."""
    if not isinstance(parts, dict):
        raise ValueError(f"the fields of {kind.__name__} are no object")
    hints = typing.get_type_hints(kind)
    known = {field.name: field for field in fields(kind) if field.init and field.name != but}
    if not set(parts) <= set(known):
        raise ValueError(f"{kind.__name__} has no field {min(set(parts) - set(known))!r:.60}")
    for name, field in known.items():
        if name not in parts and field.default is MISSING and field.default_factory is MISSING:
            raise ValueError(f"the field {name} of {kind.__name__} is missing")
    values = {name: coder.decoded(part, depth + 1) for name, part in parts.items()}
    for name, value in values.items():
        if not _is_of(value, hints[name]):
            raise ValueError(f"the field {name} of {kind.__name__} is a {type(value).__name__}")
    return values


def _is_of(value: Any, hint: Any) -> bool:
    """Whether a value is what an annotation says."""
    if hint is Any:
        return True
    if hint is None or hint is type(None):
        return value is None
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return any(_is_of(value, option) for option in arguments)
    if origin is np.ndarray:
        (kind,) = typing.get_args(arguments[1]) or (Any,)
        return isinstance(value, np.ndarray) and (kind is Any or value.dtype == np.dtype(kind))
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return all(_is_of(part, arguments[0]) for part in value)
        return len(value) == len(arguments) and all(map(_is_of, value, arguments))
    if origin is typing.Literal:
        return value in arguments
    if origin in (Mapping, dict):
        return isinstance(value, Mapping) and all(_is_of(part, arguments[1]) for part in value.values())
    if origin in (Sequence, list):
        return isinstance(value, (list, tuple)) and all(_is_of(part, arguments[0]) for part in value)
    if hint is float:
        return isinstance(value, (float, int, np.floating)) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    return isinstance(hint, type) and isinstance(value, hint)


def _classes(kind: type) -> set[type]:
    """Return the dataclasses that a fit may hold: those that the fields of a fit or a design declare, and theirs.

    Diagnostics of a descent have its rule of step sizes, and a certificate stands beside them.
    """
    known: set[type] = set()
    waiting: list[Any] = [
        Certificate,
        Design,
        StepSize,
        *(hint for name, hint in typing.get_type_hints(kind).items() if name != "corrected"),
    ]
    while waiting:
        hint = waiting.pop()
        waiting += [argument for argument in typing.get_args(hint) if argument is not Ellipsis]
        if isinstance(hint, type) and is_dataclass(hint) and hint not in known:
            known.add(hint)
            waiting += typing.get_type_hints(hint).values()
    return known
