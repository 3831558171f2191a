"""The command ``symdebias``: words in, an exit code out.

Nothing but the standard library is imported before the words were understood: each command names the function that does
its work, which is imported when it is to run.
"""

import argparse
import errno
import importlib
import io
import json
import math
import os
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from typing import Any

from symdebias._progress import is_looked_at, is_welcome
from symdebias.exceptions import SymdebiasError
from symdebias.interfaces.cli.parser import parsed
from symdebias.interfaces.cli.wording import in_options

__all__ = ["FAILED", "INTERRUPTED", "REFUTED", "doubt_delta", "main", "show", "tell", "watched"]

# Exit codes: 0 done; 1 could not be done; 2 the words are no command (by argparse); 3 an audit refutes a guarantee; 130
# Ctrl-C, as shells have it.
FAILED, REFUTED, INTERRUPTED = 1, 3, 130

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    arguments : sequence of str, optional
        The words after the command; those of the process by default.

    Returns
    -------
    int
        0 where it was done, 1 where it could not be, 3 where an audit refutes a guarantee, 130 after Ctrl-C. A mistyped
        command leaves with 2, as argparse does it. Whether somebody reads the answer to its end is not asked: a command
        into a pipe that is closed, as by head, goes on to the end of its work.
    """
    for stream in (sys.stdout, sys.stderr):
        # Names in other scripts, where the locale knows ASCII alone.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    with redirect_stdout(_unminded(sys.stdout)), redirect_stderr(_unminded(sys.stderr)):
        try:
            options = parsed(sys.argv[1:] if arguments is None else arguments)
        except SystemExit:
            # Help, which argparse does not mind either.
            with suppress(OSError):
                _flush()
            raise
        return _run(options)


def _run(options: argparse.Namespace) -> int:
    """Do what a command asks for, and return its exit code."""
    module, _, function = options.run.partition(":")
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.showwarning = lambda message, *_, **__: _note(message, options)
        try:
            code = int(getattr(importlib.import_module(module), function)(options) or 0)
            _flush()
            return code
        except (SymdebiasError, ValueError, TypeError, OSError, MemoryError) as error:
            # Commands set it where they have written what they were to write, and have only to say so.
            written = getattr(options, "written", None)
            done = f" Done is what was to be written: {written}." if written and isinstance(error, OSError) else ""
            print(f"symdebias: {in_options(_in_words(error), options)}{done}", file=sys.stderr)
            return FAILED
        except KeyboardInterrupt:
            print("symdebias: interrupted", file=sys.stderr)
            return INTERRUPTED


def _flush() -> None:
    if sys.stdout is not None:
        sys.stdout.flush()


def _unminded(stream: Any) -> Any:
    return None if stream is None else _Unminded(stream)


class _Unminded:
    """A stream whose reader may leave: what is written from then on goes nowhere, and the work goes on.

    The exit code is that of the work, which may have released records and spent a budget.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        with self._unread():
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with self._unread():
            self._stream.flush()

    @contextmanager
    def _unread(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            self._leave()
        except OSError:
            self._leave()
            raise

    def _leave(self) -> None:
        """Let what is left in the buffer, which Python writes at its end, go nowhere as well."""
        try:
            place = self._stream.fileno()
        except (AttributeError, OSError, ValueError):
            self._stream = io.StringIO()
            return
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, place)
        os.close(nowhere)


def tell(progress: str) -> None:
    """Print what takes some seconds, where somebody looks on."""
    if is_looked_at():
        print(f"symdebias: {progress} ...", file=sys.stderr)


def doubt_delta(delta: float, records: float) -> None:
    """Say so where the chance that a guarantee fails, times the number of people, is one and more."""
    if delta * records >= 1:
        warnings.warn(
            f"delta={delta:g} is not below one over {records:,.0f} records: the guarantee may fail for some of them. "
            f"Take one well below {1 / records:.2g}.",
            stacklevel=2,
        )


def watched(options: argparse.Namespace) -> bool:
    """Return whether to show bars: on a terminal where they can be drawn, and not where JSON was asked for."""
    return not options.json and is_welcome()


def show(answer: Mapping[str, Any]) -> None:
    """Print an answer as JSON, which has no numbers that are not finite: they are null."""
    print(json.dumps(_finite(answer), indent=2, allow_nan=False))


def _finite(answer: Any) -> Any:
    if isinstance(answer, Mapping):
        return {name: _finite(one) for name, one in answer.items()}
    if isinstance(answer, (list, tuple)):
        return [_finite(one) for one in answer]
    return None if isinstance(answer, float) and not math.isfinite(answer) else answer


def _in_words(error: Exception) -> str:
    """Return the message of an error; of one of the system, with the file first."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}. Name a file that is there, and that may be read or written."
    if isinstance(error, OSError) and error.strerror and error.errno in _FULL:
        return f"what is to be printed or written cannot be: {error.strerror}. Make room, or write elsewhere."
    if isinstance(error, MemoryError):
        return "there is not enough memory for this. Use fewer records or columns."
    return str(error)


def _note(message: Warning | str, options: argparse.Namespace) -> None:
    """Print what a warning says, without the line of code that it stands in."""
    print(f"symdebias: note: {in_options(str(message), options)}", file=sys.stderr)
