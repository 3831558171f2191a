"""Whose turn it is: a part of the exhaustive tests, or some of the files, by the commit, so that all run in turn."""

import os
import subprocess
import zlib
from pathlib import Path

PARTS = 40
# One in so many cases of a long table runs each time.
SHARE = 8
VARIABLE = "SYMDEBIAS_PART"


def part_of(test):
    """The part, from 0 to PARTS - 1, that a test belongs to by its id."""
    return zlib.crc32(test.encode()) % PARTS


def is_cases_turn(test, part):
    """Whether a case of a table of which a share runs each time is of it."""
    return part_of(test) % SHARE == part % SHARE


def is_files_turn(file, part, share):
    """Whether a file of tests, by its path below the root, is among the one in `share` whose turn it is."""
    return zlib.crc32(file.encode()) % share == part % share


def part_of_commit(root):
    """The part whose turn it is: by the commit that is checked out, and 0 where there is none."""
    command = ["git", "-C", str(root), "rev-parse", "--verify", "HEAD"]
    try:
        commit = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return 0
    return int(commit, 16) % PARTS


def chosen():
    """The part of this run. The first process asks the commit and hands the answer on to its workers."""
    setting = os.environ.setdefault(VARIABLE, str(part_of_commit(Path(__file__).parent)))
    if setting not in map(str, range(PARTS)):
        raise ValueError(f"{VARIABLE}={setting!r} is no part. Give a number from 0 to {PARTS - 1}, or unset it.")
    return int(setting)
