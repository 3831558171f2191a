"""The folder in which one user keeps what took long to make: whose it is, and what in it can be trusted.

It is used only if it belongs to this user and nobody else can write to it. A digest in the folder would say that
something is whole, not who made it: what was unpacked from an archive or copied from another user has right digests
too. So what is kept is signed with a key of this user, drawn once and kept in the folder, readable by nobody else.
Anything that is not as this user has left it is deleted, and said in one warning.
"""

import contextlib
import functools
import hashlib
import hmac
import json
import os
import shutil
import stat
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from symdebias.exceptions import CacheWarning

_VARIABLE = "SYMDEBIAS_CACHE"
_KEY, _KEY_BYTES = "key", 32
# Where an entry is built, until it is whole and renamed: what a killed process has left is swept after an hour.
ASIDE, _ABANDONED = "build-", 3_600.0
LARGEST_FILE = 64 * 2**20
# How derivations that are kept are named, and the seconds that one takes which is.
_KEPT, _WORTH_KEEPING = ".json", 0.05


def cache_folder() -> Path | None:
    """Return the folder of compiled kernels, made if need be, or None where none can be used.

    Returns
    -------
    pathlib.Path or None
        None if ``SYMDEBIAS_CACHE=off``, or, with a `CacheWarning`, if the folder is not this user's own or
        cannot be written to.
    """
    setting = os.environ.get(_VARIABLE, "")
    if setting.lower() == "off":
        return None
    try:
        folder = Path(setting) if setting else _user_cache() / "symdebias"
    except RuntimeError:
        warn_without_folder("there is no cache folder: this user has no home folder")
        return None
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        reason = _distrust_folder(folder)
    except OSError as error:
        reason = error.strerror or str(error)
    if reason is not None:
        warn_without_folder(f"the cache folder {folder} is not used: {reason}")
        return None
    return folder


def _user_cache() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def reason_to_distrust(path: Path) -> str | None:
    """Return why what stands at a path is not to be trusted, or None."""
    status = path.lstat()
    if stat.S_ISLNK(status.st_mode):
        return "it is a symbolic link"
    if hasattr(os, "getuid"):
        if status.st_uid != os.getuid():
            return "it belongs to another user"
    return None


def _distrust_folder(folder: Path) -> str | None:
    """Return why the cache folder is not to be used, or None. What is inside is shielded by it."""
    if hasattr(os, "getuid") and folder.stat().st_mode & 0o022:
        return "other users can write to it (set its permissions to 0700)"
    if not os.access(folder, os.W_OK | os.X_OK):
        return "it cannot be written to"
    return reason_to_distrust(folder)


def warn_without_folder(reason: str) -> None:
    """Warn that nothing is kept, for a reason."""
    warnings.warn(
        f"{reason}. Kernels are compiled for this process alone, which takes a second or more each. "
        f"Set {_VARIABLE} to a folder of your own, or to 'off' to silence this.",
        CacheWarning,
        stacklevel=2,
    )


def trusted(path: Path, load: Callable[[], Any], words: tuple[str, str]) -> Any:
    """Return what is kept at a path; None where nothing is, or what is not as this user has left it: that is deleted.

    The words are what a reader is told that it was, and what becomes of it.
    """
    if not (path.exists() or path.is_symlink()):
        return None
    found = load()
    if found is None:
        warnings.warn(
            f"{words[0]} in {path.parent} was damaged or foreign; it was deleted and {words[1]}.",
            CacheWarning,
            stacklevel=3,
        )
        delete(path)
    return found


def kept(name: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return what a name stands for: what this user has signed and kept in the cache folder, or what is made now.

    Parameters
    ----------
    name : str
        The hash of all that decides what is made.
    make : callable
        Makes it, of texts, numbers and lists. What takes long is kept; nothing else repays a file.

    Warns
    -----
    CacheWarning
        The cache folder cannot be used, or what is in it was damaged.
    """
    folder = cache_folder()
    if folder is None:
        return make()
    path = folder / f"{name}{_KEPT}"
    try:
        key = own_key(folder)
        found: dict[str, Any] | None = trusted(
            path, lambda: _signed_text(path, name, key), ("a derivation kept", "is done again")
        )
        if found is not None:
            return found
    except OSError as error:
        warn_without_folder(f"the cache folder {folder} could not be used ({error.strerror or error})")
        return make()
    began = time.process_time()
    made = make()
    if time.process_time() - began > _WORTH_KEEPING:
        with contextlib.suppress(OSError):
            _keep(folder, path, signed(made, name, key))
    return made


def _signed_text(path: Path, name: str, key: bytes) -> dict[str, Any] | None:
    """Return what is kept at a path, or None where anything about it is not as this user has left it."""
    if reason_to_distrust(path) or not stat.S_ISREG(path.lstat().st_mode) or path.lstat().st_size > LARGEST_FILE:
        return None
    try:
        return verified(json.loads(path.read_bytes()), name, key)
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _keep(folder: Path, path: Path, document: dict[str, Any]) -> None:
    with _beside(folder, json.dumps(document).encode()) as aside:
        aside.replace(path)


@contextlib.contextmanager
def _beside(folder: Path, content: bytes) -> Iterator[Path]:
    """Give a file of this user alone, with its content on the disk; it is gone afterwards, unless it was renamed."""
    descriptor, aside = tempfile.mkstemp(prefix=ASIDE, dir=folder)
    try:
        with open(descriptor, "wb") as stream:  # noqa: PTH123  (mkstemp has opened it, for this user alone)
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        yield Path(aside)
    finally:
        with contextlib.suppress(FileNotFoundError):
            Path(aside).unlink()


def own_key(folder: Path) -> bytes:
    """Return the key that this user signs manifests with, drawn where there is none that can be trusted."""
    path = folder / _KEY
    with contextlib.suppress(FileNotFoundError):
        status = path.lstat()
        private = not hasattr(os, "getuid") or not status.st_mode & 0o077
        is_key = stat.S_ISREG(status.st_mode) and status.st_size == _KEY_BYTES
        if is_key and private and reason_to_distrust(path) is None:
            return path.read_bytes()
        # Entries that it signed are rebuilt.
        delete(path)
    with _beside(folder, os.urandom(_KEY_BYTES)) as aside:
        # Where another process was faster its key stays; a file system without links takes the last one.
        try:
            os.link(aside, path)
        except FileExistsError:
            pass
        except OSError:
            aside.replace(path)
        return path.read_bytes()


@functools.cache
def sweep(folder: Path) -> None:
    """Delete what processes that were killed while they built have left; looked for once per process.

    A build takes seconds. One that was stopped for an hour and goes on finds its folder gone, and compiles in memory.
    """
    with contextlib.suppress(OSError):
        for path in folder.glob(f"{ASIDE}*"):
            with contextlib.suppress(OSError):
                if reason_to_distrust(path) is None and time.time() - path.lstat().st_mtime > _ABANDONED:
                    delete(path)


def signed(content: dict[str, Any], name: str, key: bytes) -> dict[str, Any]:
    """Return what is kept under a name, with what only this user writes below it."""
    return {"manifest": content, "signature": _signature(content, name, key)}


def verified(document: Any, name: str, key: bytes) -> dict[str, Any] | None:
    """Return what was signed under a name, or None where this user has not signed it.

    Raises
    ------
    KeyError, TypeError
        The document has another form than that of `signed`.
    """
    content: dict[str, Any] = document["manifest"]
    return content if hmac.compare_digest(document["signature"], _signature(content, name, key)) else None


def _signature(content: dict[str, Any], name: str, key: bytes) -> str:
    text = json.dumps([name, content], sort_keys=True)
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def delete(entry: Path) -> None:
    """Delete a file, a link or a folder."""
    if entry.is_symlink() or entry.is_file():
        entry.unlink()
    else:
        shutil.rmtree(entry)
