"""Files that survive a crash: replaced whole or not at all, or grown at their end under a lock.

A process may be killed between any two instructions, and a disk may be full. Whoever looks afterwards finds the old
content or the new one; of a file that only grows, all that was ever confirmed.
"""

import contextlib
import errno
import os
import re
import secrets
import shutil
import stat
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from symdebias._forks import LockOfThreads

if sys.platform != "win32":
    import fcntl

# What systems say of a place that has a folder with files, or a file.
_TAKEN = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR)
# Threads of one process: on some file systems the lock of a file is that of the process.
_THREADS = LockOfThreads()


# Ends of names that say of what kind a file is.
_SUFFIXES = frozenset(".csv .html .htm .jpeg .jpg .npz .ods .parquet .pdf .png .svg .toml .xls .xlsx".split())
# In bytes and characters: what file systems take.
_LONGEST_NAME, _LONGEST_PATH = 255, 4096
# Bytes in which files of any kind say what they are.
_BEGINNING = 256


@dataclass(frozen=True)
class Kind:
    """What a file holds that is written again: nothing else at its place is replaced.

    Attributes
    ----------
    name : str
        With its article, as messages have it.
    begins : bytes
        A regular expression of how such a file begins.
    suffixes : tuple of str
        How its name may end, where a name that ends as that of another kind would be wrong.
    """

    name: str
    begins: bytes
    suffixes: tuple[str, ...] = ()

    @classmethod
    def of_archive(cls, name: str, member: str) -> "Kind":
        """Return the kind of archives that have a member of this name first."""
        return cls(name, rb"PK\x03\x04.{26}" + re.escape(member.encode()), (".npz",))

    def require(self, place: Path) -> None:
        """Raise FileExistsError where a place has something else than such a file, or one that is empty.

        ValueError is raised where its name says that it is of another kind.
        """
        if self.suffixes and place.suffix.lower() in _SUFFIXES - {*self.suffixes}:
            raise ValueError(
                f"{place.name} would be {self.name}, and its name ends with {place.suffix}. Name a file that ends with "
                f"{self.suffixes[0]}."
            )
        if not place.is_file():
            return
        with place.open("rb") as stream:
            beginning = stream.read(_BEGINNING)
        if beginning and re.match(self.begins, beginning, re.DOTALL) is None:
            raise FileExistsError(
                f"{place} is a file, and is not {self.name}: nothing else is overwritten. Name another file, or move "
                "this one away."
            )


PAGE = Kind("a page of HTML", rb"\s*<!DOCTYPE html", (".html", ".htm"))
PICTURE = Kind("a picture in PNG", rb"\x89PNG", (".png",))
ARRAY = Kind("an array in NumPy's format", rb"\x93NUMPY")


def _lines(text: str) -> str:
    return "a text of several lines," if len(text.splitlines()) > 1 else "one line"


def path_of(path: object) -> Path:
    """Return a path, or raise TypeError or ValueError where it is none, in the words of no function below."""
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"a file is named by its path; got {type(path).__name__}. Pass text or a pathlib.Path.")
    text = str(path)
    parts = [len(part.encode(errors="surrogatepass")) for part in re.split(r"[/\\]", text)]
    if "\n" in text or "\r" in text or max(parts) > _LONGEST_NAME or len(text) > _LONGEST_PATH:
        # It may be the records themselves: systems say of a long one that it is too long, and show all of it.
        raise ValueError(
            f"a file is named by its path, and what was given is {_lines(text)} of {len(text):,} characters. Write it "
            "to a file, and name that; what is in memory is passed as a data frame or a dict, where these are taken."
        )
    if "\0" in text:
        raise ValueError(f"the path {str(path)!r:.60} has a null character, which no name of a file has. Correct it.")
    return Path(path)


def write_whole(path: str | os.PathLike[str], write: Callable[[BinaryIO], object], kind: Kind | None = None) -> None:
    """Write a file beside its place and move it there: whoever looks sees the old file or the new one.

    Where it is a link, what the link points to is replaced. What is no file, as a pipe, is written to as it is. Who may
    read a file that is there may read the new one, and nobody else. A file of another kind is not replaced.

    Raises
    ------
    FileExistsError
        There is a file of another kind.
    OSError
        It could not be written. What was there is unchanged.
    """
    require_place(path, kind)
    place, mode = path_of(path), None
    with contextlib.suppress(FileNotFoundError):
        mode = place.stat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            with place.open("wb") as stream:
                write(stream)
            return
    place = Path(os.path.realpath(place))
    aside = place.with_name(f".{place.name}.{secrets.token_hex(8)}")
    try:
        with aside.open("xb") as stream:
            if mode is not None and hasattr(os, "fchmod"):
                # Some file systems have no permissions.
                with contextlib.suppress(PermissionError):
                    os.fchmod(stream.fileno(), stat.S_IMODE(mode))
            write(stream)
            stream.flush()
            os.fsync(stream.fileno())
        aside.replace(place)
    finally:
        with contextlib.suppress(FileNotFoundError):
            aside.unlink()
    keep_name(place)


def write_folder(path: str | os.PathLike[str], files: Mapping[str, Callable[[BinaryIO], object]]) -> None:
    """Write a folder of files beside its place and move it there: whoever looks sees no folder or the whole one.

    The folder is not there, or is empty. Each file has a name, and what takes a binary stream and writes the content.

    Raises
    ------
    FileExistsError
        There is something at that place, or was when the folder was whole; it is unchanged.
    OSError
        It could not be written, and nothing of it is left.
    """
    place = Path(os.path.realpath(path))
    require_free(place)
    aside = place.with_name(f".{place.name}.{secrets.token_hex(8)}")
    try:
        aside.mkdir()
        for name, write in files.items():
            with (aside / name).open("xb") as stream:
                write(stream)
                stream.flush()
                os.fsync(stream.fileno())
        keep_name(aside / "any")
        move_folder(aside, place)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    keep_name(place)


def move_folder(aside: Path, place: Path) -> None:
    """Move a folder that is whole to its place, where nothing is or an empty folder.

    Raises
    ------
    FileExistsError
        Something has come to that place; it is unchanged.
    OSError
        It could not be moved.
    """
    try:
        # An empty folder gives way on POSIX alone; one that is not empty makes this fail everywhere.
        with contextlib.suppress(FileNotFoundError):
            place.rmdir()
        aside.rename(place)
    except OSError as error:
        if error.errno not in _TAKEN:
            raise
        raise FileExistsError(
            f"something has come to {place} while the folder was written, and nothing is overwritten. Name a folder "
            "that is not there yet."
        ) from error


def require_place(path: str | os.PathLike[str], kind: Kind | None = None) -> None:
    """Raise where a file cannot be put: it has no folder, a folder has its name, or a file of another kind has it."""
    place = Path(os.path.realpath(path_of(path)))
    if place.is_dir():
        raise IsADirectoryError(f"{place} is a folder. Name a file.")
    if not place.parent.is_dir():
        raise FileNotFoundError(f"the folder {place.parent} is not there. Make it, or name another place.")
    if kind is not None:
        kind.require(place)


def state_of(path: Path) -> tuple[tuple[int, int], int, int] | None:
    """Return what tells a file from others, its size, and when it was written to; None where it is not there."""
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_dev, found.st_ino), found.st_size, found.st_mtime_ns


def require_free(path: str | os.PathLike[str]) -> None:
    """Raise FileExistsError where the place of a new folder is taken, FileNotFoundError where it has no parent."""
    place = Path(os.path.realpath(path_of(path)))
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        kind = "is a folder that is not empty" if place.is_dir() else "is a file"
        raise FileExistsError(f"{place} {kind}, and nothing is overwritten. Name a folder that is not there yet.")
    if not place.parent.is_dir():
        raise FileNotFoundError(f"the folder {place.parent} is not there. Make it, or name another place.")


def keep_name(path: Path) -> None:
    """Wait until the name of a new file is on the disk as well, where the system can say so."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    # A folder may be written to and not read: the file is whole, and nothing more can be asked for.
    with contextlib.suppress(PermissionError):
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


@contextlib.contextmanager
def locked(path: Path, *, writing: bool, create: bool = False) -> Iterator[int]:
    """Hold a file that only grows: alone in order to write, with other readers in order to read.

    Parameters
    ----------
    path : Path
        The file. A new one can be read and written by its owner alone.
    writing : bool
        Whether it is to grow.
    create : bool
        Whether to make it where there is none.

    Yields
    ------
    int
        The file's descriptor; what is written goes to the end.

    Raises
    ------
    OSError
        There is none, it is no regular file, it was replaced meanwhile, or the system has no such locks.
    """
    if sys.platform == "win32":
        raise OSError(f"{path.name} needs the locks of POSIX (fcntl), which Windows does not have.")
    flags = os.O_RDWR | os.O_APPEND if writing else os.O_RDONLY
    with _THREADS.lock:
        # A pipe would block where it is opened.
        descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK | (os.O_CREAT if create else 0), 0o600)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(f"{path} is no regular file. Name another one.")
            fcntl.flock(descriptor, fcntl.LOCK_EX if writing else fcntl.LOCK_SH)
            try:
                if not os.path.samestat(os.fstat(descriptor), path.stat()):
                    raise OSError(f"{path} was replaced while it was opened. Try again.")
                yield descriptor
            finally:
                # Said aloud: a process that was forked meanwhile holds the same lock, and would keep it.
                fcntl.flock(descriptor, fcntl.LOCK_UN)
        finally:
            os.close(descriptor)


def content(descriptor: int) -> bytes:
    """Return all bytes of an open file."""
    parts, place = [], 0
    while part := os.pread(descriptor, 2**20, place):
        parts.append(part)
        place += len(part)
    return b"".join(parts)


def grow(descriptor: int, more: bytes) -> None:
    """Write to the end of a file that is held for writing, and wait until it is on the disk.

    Raises
    ------
    OSError
        It could not be written, and was taken back as far as the system allows.
    """
    before = os.fstat(descriptor).st_size
    try:
        left = memoryview(more)
        while left:
            left = left[os.write(descriptor, left) :]
        os.fsync(descriptor)
    except BaseException:
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, before)
            os.fsync(descriptor)
        raise
