"""The command that prints what a shell needs to complete words; its work is that of the package shtab."""

import argparse
from pathlib import Path
from typing import Any

from symdebias import _optional
from symdebias.interfaces.cli import parser


def complete(options: argparse.Namespace) -> None:
    """Print the completion of a shell."""
    shtab: Any = _optional.require("shtab", extra="completion")
    words = parser.command_line()
    for command, summary in parser.commands_of(words):
        # Shells show the description beside the word: the line of the list of commands, not the paragraph.
        command.description = summary
        for action in command._actions:
            if action.type is Path:
                action.complete = shtab.FILE  # type: ignore[attr-defined]
    print(shtab.complete(words, shell=options.shell))
