"""The file of a ledger: lines of JSON, each with the digest of the one before it.

A line is written exactly as `json.dumps` writes its entries, in their order, and ends with the SHA-256 of all that
stands before the digest. What was cut short by a crash has no end; the next line that is written says how many bytes
that were. A line that is whole and does not follow from the one before was changed by somebody, or damaged.
"""

import functools
import hashlib
import json
import re
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from symdebias import _files
from symdebias.exceptions import PrivacyError
from symdebias.privacy.guarantee import Guarantee

FORMAT = "symdebias-ledger-1"
# Some hundred thousand releases.
_LARGEST = 2**28
_HEAD = ("format", "number", "time", "previous", "kind")
_KINDS = {
    "total": ("population", "total", "columns", "composition"),
    "release": ("population", "parts", "unprotected", "records", "card", "hardened", "note"),
    "torn": ("bytes", "sha256"),
}
_DIGEST = re.compile(r"[0-9a-f]{64}")
# What a file has none of that was never a ledger, however much of one was changed.
_MARKS = (b"symdebias-ledger-", b'", "previous": "', b'", "digest": "')
# How a line ends that is whole.
_END = b'"}'
_LONGEST_NAME, _LONGEST_NOTE = 1_000, 1_000
# How releases add up: with normal noise exactly, or by their sums.
COMPOSITIONS = ("exact", "basic")
Parts = tuple[tuple[tuple[str, ...], Guarantee], ...]


@dataclass(frozen=True)
class Line:
    """A line of a ledger: what is common to all, and the entries of its kind."""

    number: int  # Its place, from 0.
    time: datetime  # When it was written, in UTC, by the clock of the machine: nothing depends on it.
    kind: str  # {"total", "release", "torn"}: A declared total, something that was released, or what a crash has left.
    entries: Mapping[str, Any]  # What the line says, as Python's values.
    digest: str  # SHA-256 of the line and so of all before it.


@dataclass
class Lines:
    """The lines of a file, and what a crash has left at its end."""

    lines: list[Line] = field(default_factory=list)  # In the order in which they were written.
    torn: bytes = b""  # What was cut short at the end.
    is_open: bool = False  # Whether the last line has no end of line yet.

    @property
    def digest(self) -> str:
        """The digest of the last line, empty where there is none."""
        return self.lines[-1].digest if self.lines else ""

    def added(self, kind: str, entries: Mapping[str, Any]) -> bytes:
        """Return the bytes of one more line, which is the last one from now on."""
        document = {
            "format": FORMAT,
            "number": len(self.lines),
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
            "previous": self.digest,
            "kind": kind,
            **{name: _as_json(entries[name]) for name in _KINDS[kind]},
        }
        open_text = json.dumps(document, allow_nan=False)[:-1].encode("ascii")
        text = open_text + f', "digest": "{hashlib.sha256(open_text).hexdigest()}"}}'.encode("ascii")
        self.lines.append(_line(text, len(self.lines), self.digest))
        return text + b"\n"


@contextmanager
def written(path: Path, *, create: bool = False) -> Iterator[tuple[Lines, Callable[[str, Mapping[str, Any]], Line]]]:
    """Hold a ledger for writing.

    Parameters
    ----------
    path : Path
        The file.
    create : bool
        Whether to make it where there is none.

    Yields
    ------
    lines : Lines
        What stands in it.
    add : callable
        Takes the kind of a line and its entries, writes it, and returns it when it is on the disk.

    Raises
    ------
    OSError
        The file cannot be opened or written.
    PrivacyError
        It was changed or damaged, or is no ledger.
    """
    with _files.locked(path, writing=True, create=create) as descriptor:
        lines = _parsed(_files.content(descriptor), path)

        def add(kind: str, entries: Mapping[str, Any]) -> Line:
            before, is_new = b"", not lines.lines
            if lines.torn:
                before = b"" if lines.torn.endswith(b"\n") else b"\n"
                before += lines.added("torn", _account(lines.torn))
            elif lines.is_open:
                before = b"\n"
            _files.grow(descriptor, before + lines.added(kind, entries))
            if is_new:
                _files.keep_name(path)
            lines.torn, lines.is_open = b"", False
            return lines.lines[-1]

        yield lines, add


def read(path: Path) -> Lines:
    """Return the lines of a ledger, verified, as long as nobody writes to it.

    Raises
    ------
    OSError
        The file cannot be read.
    PrivacyError
        It was changed or damaged, or is no ledger.
    """
    with _files.locked(path, writing=False) as descriptor:
        return _parsed(_files.content(descriptor), path)


def _parsed(text: bytes, path: Path) -> Lines:
    """Return verified lines; what is not whole must be at the end, or be accounted for by the line after it."""
    if len(text) > _LARGEST:
        raise PrivacyError(f"{path} has {len(text):,} bytes, and a ledger at most {_LARGEST:,}. Name another file.")
    if text and not _is_begun(text.strip(b"\n").split(b"\n")[0]) and not any(mark in text for mark in _MARKS):
        raise PrivacyError(
            f"{path} is another file, and no ledger: it has no line of one. It was left as it is. Name the file of the "
            "ledger, or one that is not there yet to begin one."
        )
    found = Lines()
    pieces = text.split(b"\n")
    for place, piece in enumerate(pieces):
        is_open = place == len(pieces) - 1
        if is_open and not piece:
            break
        try:
            line = _line(piece, len(found.lines), found.digest)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, PrivacyError) as error:
            if piece.endswith(_END) or not (found.lines or _is_begun(found.torn or piece)):
                raise _damaged(path, len(found.lines), str(error)) from None
            found.torn += piece if is_open else piece + b"\n"
            continue
        if found.torn:
            if line.kind != "torn" or line.entries != _account(found.torn):
                raise _damaged(path, line.number, "what stands before it was not cut short by a crash")
            found.torn = b""
        elif line.kind == "torn":
            raise _damaged(path, line.number, "what it says was cut short is not there")
        found.lines.append(line)
        found.is_open = is_open
    return found


def _account(torn: bytes) -> dict[str, Any]:
    """Return what a line says of bytes that a crash has left before it."""
    left = torn.removesuffix(b"\n")
    return {"bytes": len(left), "sha256": hashlib.sha256(left).hexdigest()}


def _is_begun(torn: bytes) -> bool:
    """Return whether bytes may be what a crash has left of the first line; what else stands there is no ledger."""
    begin = f'{{"format": "{FORMAT}", "number": 0, '.encode("ascii")
    return torn.startswith(begin) or begin.startswith(torn) or not torn.strip(b"\0")


# A ledger is read anew each time, and most of its lines are those of the time before.
@functools.lru_cache(maxsize=2**14)
def _line(text: bytes, number: int, previous: str) -> Line:
    """Return a line that follows from the one before.

    Raises
    ------
    ValueError, TypeError, KeyError, AttributeError, RecursionError, PrivacyError
        It does not, or is none.
    """
    document = json.loads(text.decode("ascii"))
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ValueError(f"it is no line of the format {FORMAT}")
    kind = document.get("kind")
    if kind not in _KINDS or tuple(document) != (*_HEAD, *_KINDS[kind], "digest"):
        raise ValueError("its entries are others")
    # Only one text says so: no entry stands twice, and no number is written in another way.
    if json.dumps(document, allow_nan=False).encode("ascii") != text:
        raise ValueError("it is not written as a ledger is")
    digest = document["digest"]
    open_text = text[: -len(f', "digest": "{digest}"}}')]
    if hashlib.sha256(open_text).hexdigest() != digest:
        raise ValueError("it does not have its own digest")
    if type(document["number"]) is not int or (document["number"], document["previous"]) != (number, previous):
        raise ValueError("it does not follow from the line before it")
    time = datetime.fromisoformat(document["time"])
    if time.tzinfo is None:
        raise ValueError("its time has no zone")
    entries = {name: _CHECKS[name](document[name]) for name in _KINDS[kind]}
    return Line(number, time, kind, types.MappingProxyType(entries), digest)


def _damaged(path: Path, number: int, reason: str) -> PrivacyError:
    return PrivacyError(
        f"line {number + 1} of the ledger {path} was changed or damaged: {reason[:200]}. Nothing is released on such a "
        "ledger. Put back a copy that is whole, and charge to it what was released since."
    )


# ---- the values of entries -----------------------------------------------------------------------------------------


def _as_json(value: Any) -> Any:
    if isinstance(value, Guarantee):
        names = ("epsilon", "delta", "model", "adjacency", "multiplier")
        return {name: getattr(value, name) for name in names}
    if isinstance(value, tuple):
        return [_as_json(one) for one in value]
    return value


def _guarantee(value: Any) -> Guarantee:
    if not isinstance(value, dict) or tuple(value) != ("epsilon", "delta", "model", "adjacency", "multiplier"):
        raise ValueError("a guarantee has epsilon, delta, model, adjacency and multiplier")
    return Guarantee(**value)


def checked_name(value: Any, argument: str) -> str:
    """Return a name for a ledger: text that shows as it is.

    Raises
    ------
    TypeError, ValueError
        It is no text, empty, long, or has characters that do not show.
    """
    if not isinstance(value, str):
        raise TypeError(f"{argument} must be text; got {type(value).__name__}. Pass a name.")
    if not (0 < len(value) <= _LONGEST_NAME and value.isprintable()):
        raise ValueError(
            f"{argument}={value!r:.60} is no name. Names have 1 to {_LONGEST_NAME:,} characters, none of which "
            "controls how others are shown."
        )
    return value


def checked_note(value: Any) -> str:
    """Return a note: text that shows as it is, or none at all.

    Raises
    ------
    TypeError, ValueError
        It is no text, long, or has characters that do not show.
    """
    if not isinstance(value, str):
        raise TypeError(f"note must be text; got {type(value).__name__}. Say in a few words what was released.")
    if not (len(value) <= _LONGEST_NOTE and value.isprintable()):
        raise ValueError(
            f"note={value!r:.60} cannot be kept. A note has at most {_LONGEST_NOTE:,} characters in one line, none of "
            "which controls how others are shown."
        )
    return value


def _names(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError("names of columns are a list")
    return tuple(checked_name(name, "column") for name in value)


def _groups(value: Any) -> Parts:
    if not isinstance(value, list) or not all(isinstance(part, list) and len(part) == 2 for part in value):
        raise ValueError("groups of columns are pairs of names and a guarantee")
    return tuple((_names(names), _guarantee(spent)) for names, spent in value)


def _count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError("a number of records or bytes is a whole number")
    return value


def _digest(value: Any) -> str:
    if not isinstance(value, str) or not _DIGEST.fullmatch(value):
        raise ValueError("a digest has 64 digits")
    return value


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("whether noise was hardened is true or false")
    return value


def _composition(value: Any) -> str:
    if not isinstance(value, str) or value not in COMPOSITIONS:
        raise ValueError("the composition is exact or basic")
    return value


def _or_none(check: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else check(value)


_CHECKS: dict[str, Callable[[Any], Any]] = {
    "population": lambda value: checked_name(value, "population"),
    "total": _guarantee,
    "columns": _groups,
    "composition": _composition,
    "parts": _groups,
    "unprotected": _names,
    "records": _or_none(_count),
    "card": _or_none(_digest),
    "hardened": _or_none(_truth),
    "note": checked_note,
    "bytes": _count,
    "sha256": _digest,
}
