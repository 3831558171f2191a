"""Rows copied to files, so that any of them is at hand: memory maps, of 8 bytes for each number.

What reads records from everywhere, of a source that is read from a beginning to an end, copies them once.
"""

import contextlib
import errno
import shutil
import tempfile
from collections.abc import Sequence
from typing import Any, BinaryIO

import numpy as np

from symdebias._rows import TOGETHER, Rows, has_any_row, require_as_many

# What systems say where there is no room: on the disk, for this user, or for so large a file.
_FULL = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC), errno.EFBIG)


def write_rows(sources: Sequence[Rows], streams: Sequence[BinaryIO]) -> None:
    """Write rows of equal number to a file each, as they are in memory, by one pass over all of them.

    Parameters
    ----------
    sources : sequence of Rows
        What is written. One that yields more rows than it has is refused.
    streams : sequence of binary file
        Where each is written to.
    """
    for start in range(0, len(sources[0]), TOGETHER):
        for source, stream in zip(sources, streams, strict=True):
            left = np.ascontiguousarray(source[start : start + TOGETHER], dtype="<f8").data.cast("B")
            while left:
                left = left[stream.write(left) :]
            # Not there any more where the next ones are read.
            del left
    for source in sources:
        source.require_end()


def at_hand(X: Any, y: Any, columns: Sequence[str] | None = None) -> tuple[Any, Any]:
    """Return records any of which is at hand: those that are read in order as memory maps of a copy.

    The copy is made by one pass. It lies in files without a name in the folder for temporary ones, which no other user
    can open; they are gone with the arrays, and with the process however it ends. (On Windows they have names.)

    Parameters
    ----------
    X, y : array, table, Rows or None
        Features and targets; what has any row at hand is returned as it is.
    columns : sequence of str, optional
        The columns of the release, for features that were read by name: a copy has no names.

    Raises
    ------
    ValueError
        There is not one target for each record, or a column was read into another place than the release has it in.
    OSError
        There is no room.
    """
    if isinstance(X, Rows):
        X.require_places(columns)
    given = [X, y]
    # What is empty is refused by whoever checks it.
    places = [place for place, source in enumerate(given) if not has_any_row(source) and len(source)]
    if not places:
        return X, y
    require_as_many(X, y)
    sources = [given[place] for place in places]
    needed = sum(8 * int(np.prod(source.shape, dtype=np.int64)) for source in sources)
    folder = tempfile.gettempdir()
    if shutil.disk_usage(folder).free < needed:
        raise _no_room(needed, folder)
    with contextlib.ExitStack() as stack:
        # A buffer would be written once more where a full disk has left it.
        files: list[Any] = [stack.enter_context(tempfile.TemporaryFile(dir=folder, buffering=0)) for _ in sources]
        write_rows(sources, [_Room(file, needed, folder) for file in files])  # type: ignore[misc]
        for place, source, file in zip(places, sources, files, strict=True):
            # It holds the file open by itself.
            given[place] = np.memmap(file, dtype="<f8", mode="r", shape=source.shape)
    return given[0], given[1]


class _Room:
    """A file that says in words that there is no room for it."""

    def __init__(self, file: BinaryIO, needed: int, folder: str) -> None:
        self._file, self._needed, self._folder = file, needed, folder

    def write(self, more: Any) -> int:
        """Write some bytes, and return how many of them were."""
        try:
            return self._file.write(more)
        except OSError as error:
            if error.errno not in _FULL:
                raise
            raise _no_room(self._needed, self._folder) from error


def _no_room(needed: int, folder: str) -> OSError:
    return OSError(
        errno.ENOSPC,
        f"there is no room for a copy of the records, which are read from a beginning to an end: it takes {needed:,} "
        f"bytes in {folder}. Name a folder with more room by the environment variable TMPDIR before Python starts, or "
        "copy the records to a path of your own by symdebias.blocks.to_memory_map",
    )
