"""The command ``symdebias``: words in, an exit code out.

Nothing but the standard library is imported before the words were understood: each command names the function that does
its work, which is imported when it is to run.
"""

import importlib
import io
import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from symdebias.exceptions import SymdebiasError
from symdebias.interfaces.cli.parser import parsed

__all__ = ["FAILED", "INTERRUPTED", "REFUTED", "main"]

# Exit codes: 0 done; 1 could not be done; 2 the words are no command (by argparse); 3 an audit refutes a guarantee; 130
# Ctrl-C, as shells have it.
FAILED, REFUTED, INTERRUPTED = 1, 3, 130


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
        command leaves with 2, as argparse does it.
    """
    for stream in (sys.stdout, sys.stderr):
        # Names in other scripts, where the locale knows ASCII alone.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    options = parsed(sys.argv[1:] if arguments is None else arguments)
    module, _, function = options.run.partition(":")
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.showwarning = _note
        try:
            return int(getattr(importlib.import_module(module), function)(options) or 0)
        except BrokenPipeError:
            # Whoever read the output has seen enough.
            sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123
            return FAILED
        except (SymdebiasError, ValueError, TypeError, OSError) as error:
            print(f"symdebias: {error}", file=sys.stderr)
            return FAILED
        except KeyboardInterrupt:
            print("symdebias: interrupted", file=sys.stderr)
            return INTERRUPTED


def _note(message: Warning | str, *details: Any, **more: Any) -> None:
    """Print what a warning says, without the line of code that it stands in."""
    print(f"symdebias: note: {message}", file=sys.stderr)
