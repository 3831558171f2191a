"""How far a long run has come, in a file from which another process goes on: the same numbers, bit for bit.

A run is a row of passes over the records with little work between them. What a pass comes to is kept under a digest of
what it was asked (`Checkpoint.of`), and descent keeps its iterate besides (`Checkpoint.keep`). A process that goes on
runs the same program and finds there what was computed before. The file has the form of a saved fit: JSON and arrays,
read without running anything; it is written aside and moved to its place, so that a process killed at any time leaves
the file before or the one after.
"""

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from symdebias import _files
from symdebias._domains import seen, shown
from symdebias.corrected import CorrectedLoss
from symdebias.exceptions import DerivationLimitError, FormatError, MissingDependencyError, SymdebiasError
from symdebias.records import Records
from symdebias.solvers import archive
from symdebias.solvers.coder import Coder

FORMAT = "symdebias-checkpoint-1"
_DOCUMENT = "checkpoint.json"
_KIND = _files.Kind.of_archive("a checkpoint", _DOCUMENT)
# Seconds of work that a killed process loses at most, besides the pass or the part of an epoch that it was in.
_SECONDS = 10.0
# Records at the beginning of a source that tell it from another.
_TOLD_BY = 10_000
# Errors that say nothing of the run: files that are damaged, packages and time that the same call may have later.
_NO_RESULT = (FormatError, MissingDependencyError, DerivationLimitError)


@dataclass(frozen=True)
class _NoFields:
    """What a checkpoint has of dataclasses."""


class Checkpoint:
    """The file of one run.

    Parameters
    ----------
    path : path
        The file.

    Raises
    ------
    OSError
        There is no such folder.
    TypeError
        It is no path.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        if not isinstance(path, (str, os.PathLike)):
            raise TypeError(f"checkpoint has the type {type(path).__name__}. Give the path of a file.")
        _files.require_place(path)
        self._path, self._run = Path(path), {"nothing": True}
        folder = Path(os.path.realpath(path)).parent
        if not os.access(folder, os.W_OK):
            raise PermissionError(f"nothing can be written to the folder {folder}. Name a file in another one.")
        # The file as this run left it; None where it has left none.
        self._left: Any = None
        self._entries: dict[str, Any] = {}
        self._stages: list[dict[str, Any]] = []
        self._has_begun = False
        self._written = time.monotonic()

    def begin(self, run: Mapping[str, Any]) -> None:
        """Begin a run, or go on with it from a file that is there.

        Parameters
        ----------
        run : mapping from str to str, number, None or tuple
            What makes the run what it is: a run with other values is another one.

        Raises
        ------
        ValueError
            The file is that of another run.
        FormatError
            It is no checkpoint, or is damaged.
        """
        self._run = dict(run)
        self._left = _files.state_of(self._path)
        if self._left is not None:
            self._entries, self._stages = self._read()
        self._has_begun = True

    def _read(self) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Return what the file has of this run, or raise as `begin` does."""
        name = seen(self._path.name, 80)
        remedy = "Name another file, or remove this one to begin anew."
        if not self._path.is_file():
            raise FormatError(f"{name} is no file. {remedy}")
        with self._path.open("rb") as stream:
            try:
                document, arrays = archive.read(stream, _DOCUMENT)
                if not isinstance(document, dict) or document.get("format") != FORMAT:
                    raise ValueError("it has another format")
                found = Coder(_NoFields, arrays).decoded(document["content"])
                run, entries, stages = found["run"], found["entries"], found["stages"]
                if not (isinstance(run, dict) and isinstance(entries, dict) and isinstance(stages, list)):
                    raise ValueError("it lacks a part")
            except archive.DAMAGED as error:
                reason = seen(f"{error}".rstrip(".") or type(error).__name__, 300)
                raise FormatError(
                    f"{name} is not a checkpoint of the format {FORMAT}, or is damaged: {reason}. {remedy}"
                ) from None
        for what in {**self._run, **run}:
            was, here = run.get(what), self._run.get(what)
            if was != here:
                told = f"its {what} was {shown(was, 60)}, and here it is {shown(here, 60)}"
                if any(isinstance(value, str) and value.startswith("sha256:") for value in (was, here)):
                    told = f"its {what} was another"
                raise ValueError(
                    f"{name} is the checkpoint of another run: {told}. Give the arguments of that run to go on with "
                    "it. To begin this one, name another file or remove that."
                )
        return entries, stages

    def _is_of_another(self) -> bool:
        """Whether some other process has written the file since this run left it."""
        found = _files.state_of(self._path)
        return found is not None and found != self._left

    def of(self, asked: tuple[Any, ...], compute: Callable[[], Any]) -> Any:
        """Return what a pass over the records came to before, or what it comes to now.

        Parameters
        ----------
        asked : tuple of str, bytes and int
            What the pass was asked.
        compute : callable
            Returns a number, an array or a tuple of such.
        """
        key = _digest(*asked)
        if key not in self._entries:
            self._entries[key] = _as_read(compute())
            self.write_if_due()
        return self._entries[key]

    def resumed(self, number: int, take_up: Callable[[dict[str, Any]], None]) -> None:
        """Take up what was kept of a descent, the first of which has the number 0, if anything was.

        Raises
        ------
        FormatError
            It is no state of such a descent.
        """
        if number >= len(self._stages):
            return
        try:
            take_up(self._stages[number])
        except archive.DAMAGED as error:
            raise FormatError(
                f"{seen(self._path.name, 80)} has no state of this descent ({seen(str(error), 200)}). Remove it to "
                "begin anew."
            ) from None

    def keep(self, number: int, state: Callable[[], dict[str, Any]], *, at_once: bool = False) -> None:
        """Keep the state of a descent where it is time to write, or at once where it has come to its end."""
        if at_once or self._is_due:
            self._stages[number:] = [state()]
            self.write_if_due()

    @property
    def _is_due(self) -> bool:
        return time.monotonic() - self._written >= _SECONDS

    def write_if_due(self) -> None:
        """Write the file where the last time is some seconds ago."""
        if not self._is_due:
            return
        if self._has_begun and self._is_of_another():
            # The same run by two processes does no harm: either file is gone on with to the same numbers.
            self._read()
        arrays: dict[str, np.ndarray[Any, Any]] = {}
        content = {"run": self._run, "entries": self._entries, "stages": self._stages}
        document = {"format": FORMAT, "content": Coder(_NoFields, arrays).encoded(content, "content")}
        archive.write(self._path, _DOCUMENT, json.dumps(document, allow_nan=False), arrays, _KIND)
        self._left = _files.state_of(self._path)
        self._written = time.monotonic()

    def remove(self) -> None:
        """Remove the file of a run that is at its end; one that another process has written stays."""
        if self._has_begun and not self._is_of_another():
            self._path.unlink(missing_ok=True)


@contextlib.contextmanager
def kept(path: str | os.PathLike[str] | None) -> Iterator[Checkpoint | None]:
    """Yield the checkpoint of a run, or None without a path; the file is removed once the run has come to a result.

    A refusal of a run that has begun is a result as well. What stops a process (a full disk, Ctrl-C, a package that is
    missing, a limit on derivations) is none, and leaves the file. So does all that comes before the file is known to be
    that of the run, and a file that is not.
    """
    if path is None:
        yield None
        return
    checkpoint = Checkpoint(path)
    try:
        yield checkpoint
    except SymdebiasError as error:
        if not isinstance(error, _NO_RESULT):
            checkpoint.remove()
        raise
    checkpoint.remove()


def described(corrected: CorrectedLoss, records: Records, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return what makes a run what it is: loss, release, correction, records, and the arguments of the solver.

    Parameters
    ----------
    corrected : CorrectedLoss
        The loss, with the method of its correction and what that was given.
    records : Records
        The records. They are told by their number, their columns and some of them: those that a fit is tested on, or
        the first ones where a source is read from its beginning to its end.
    arguments : mapping
        Of the solver; arrays and functions enter by a digest.
    """
    some = records.tested if records.has_any_row else records.taken(slice(0, _TOLD_BY))
    design = corrected.design
    return {
        "loss": str(corrected.declared.expression),
        "release": told(corrected.release.to_json().encode()),
        "method": _method(corrected.approach),
        "design": None if design is None else told(repr(design).encode()),
        "number of records": len(records),
        "number of columns": records.columns,
        "records": told(some.matrix, some.target),
        "sample_weight": told(records.weights) if len(records.weights) else None,
        "noise_scale": None if records.scales is None else told(records.scales),
        **{name: told(value) if isinstance(value, np.ndarray) else value for name, value in arguments.items()},
    }


def _method(approach: Any) -> str:
    """Return the name of a method with its settings; a design of surrogates, which is long, stands by itself."""
    settings = [f"{one.name} {getattr(approach, one.name)}" for one in fields(approach) if one.name != "design"]
    return ", ".join([approach.name, *settings])


def told(*values: Any) -> str:
    """Return a digest of arrays or bytes, as a run is described by."""
    return "sha256:" + _digest(*(value.tobytes() if isinstance(value, np.ndarray) else value for value in values))


def _as_read(value: Any) -> Any:
    """Return what a pass came to in the form in which it is read: sums over arrays of another order round otherwise."""
    if isinstance(value, tuple):
        return tuple(map(_as_read, value))
    return np.ascontiguousarray(value) if isinstance(value, np.ndarray) and value.ndim else value


def _digest(*parts: Any) -> str:
    whole = hashlib.sha256()
    for part in parts:
        content = part if isinstance(part, bytes) else str(part).encode()
        whole.update(f"{len(content)}:".encode())
        whole.update(content)
    return whole.hexdigest()
