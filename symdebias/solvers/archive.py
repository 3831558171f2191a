"""A document and arrays in one file that needs no trust: it appears whole, and nothing in it is run.

The file is an ``.npz``: a JSON document beside one ``.npy`` for each array. It is uncompressed, so that no small file
grows large.
"""

import functools
import io
import json
import math
import os
import re
import struct
import zipfile
from collections.abc import Mapping
from typing import Any, BinaryIO

import numpy as np

from symdebias import _files
from symdebias.exceptions import SymdebiasError
from symdebias.release.card import refuse_constant, without_repeats

LONGEST_DOCUMENT = 30_000_000
_LARGEST_FILE = 2**31
_MOST_MEMBERS = 10_000
# What NumPy writes before an array; read by its form, where NumPy evaluates a literal.
_HEADER = re.compile(
    r"\{'descr': '([<|][fiub][0-9]{1,2})', 'fortran_order': False, 'shape': \(([0-9, ]{0,300})\), \} *\n"
)
_MEMBER = re.compile(r"[A-Za-z0-9_.\-]{1,200}\.npy")

# What reading a file of another form may raise, and what is made of its content.
DAMAGED = (
    ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, NotImplementedError, OSError,
    RecursionError, SymdebiasError, TypeError, ValueError, EOFError, RuntimeError, struct.error, zipfile.BadZipFile,
)  # fmt: skip


def write(
    path: str | os.PathLike[str],
    document: str,
    text: str,
    arrays: Mapping[str, np.ndarray[Any, Any]],
    kind: _files.Kind,
) -> None:
    """Write a document under its name, and arrays, as one archive that appears whole."""
    members = {document: text.encode()}
    for name, array in arrays.items():
        stream = io.BytesIO()
        np.lib.format.write_array(stream, array, version=(1, 0), allow_pickle=False)
        members[f"{name}.npy"] = stream.getvalue()
    _files.write_whole(path, functools.partial(_store, members=members), kind)


def read(stream: Any, document: str) -> tuple[Any, dict[str, np.ndarray[Any, Any]]]:
    """Return what `write` wrote: the document as JSON has it, and the arrays."""
    members = _members(stream, document)
    text = members.pop(document).decode("ascii")
    found = json.loads(text, parse_constant=refuse_constant, object_pairs_hook=without_repeats)
    return found, {name.removesuffix(".npy"): _array(content, name) for name, content in members.items()}


def _store(stream: BinaryIO, members: Mapping[str, bytes]) -> None:
    archive = zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED)
    try:
        for name, content in members.items():
            # Without the time, so that equal fits are equal files.
            archive.writestr(zipfile.ZipInfo(name), content)
        archive.close()
    except BaseException:
        # Closing an archive within a member raises a ValueError, which would hide what stopped it (Ctrl-C).
        archive.fp = None
        raise


def _members(stream: Any, document: str) -> dict[str, bytes]:
    """Return the members of an archive, a document and arrays, each checked against its checksum."""
    if stream.read(4) != b"PK\x03\x04":
        raise ValueError("it does not begin as an archive does")
    whole = stream.seek(0, os.SEEK_END)
    if whole > _LARGEST_FILE:
        raise ValueError(f"it has {whole:,} bytes, and may have {_LARGEST_FILE:,}")
    members: dict[str, bytes] = {}
    with zipfile.ZipFile(stream) as archive:
        entries = archive.infolist()
        if len(entries) > _MOST_MEMBERS:
            raise ValueError(f"it has {len(entries):,} members, and may have {_MOST_MEMBERS:,}")
        for entry in entries:
            if entry.compress_type != zipfile.ZIP_STORED or entry.file_size != entry.compress_size:
                raise ValueError(f"its member {entry.filename!r:.80} is compressed")
        # Members that lie in one another make much of a small file.
        if sum(entry.file_size for entry in entries) > whole:
            raise ValueError("its members are larger together than the file")
        for entry in entries:
            name = entry.filename
            if name in members:
                raise ValueError(f"its member {name!r:.80} stands twice")
            if name != document and not _MEMBER.fullmatch(name):
                raise ValueError(f"it has the member {name!r:.80}")
            if name == document and entry.file_size > LONGEST_DOCUMENT:
                raise ValueError(f"its description has {entry.file_size:,} characters")
            members[name] = archive.read(entry)
    if document not in members:
        raise ValueError(f"it has no {document}")
    return members


def _array(content: bytes, name: str) -> np.ndarray[Any, Any]:
    """Return the array of a member; its header has the form that NumPy writes, and says no more than is there."""
    if content[:8] != b"\x93NUMPY\x01\x00":
        raise ValueError(f"its member {name} is no array, or of another version")
    start = 10 + int.from_bytes(content[8:10], "little")
    header = _HEADER.fullmatch(content[10:start].decode("ascii"))
    if header is None:
        raise ValueError(f"its member {name} is no array of numbers in the order of C")
    dtype, rest = np.dtype(header[1]), content[start:]
    shape = tuple(int(length) for length in header[2].split(",") if length.strip())
    if math.prod(shape) * dtype.itemsize != len(rest):
        raise ValueError(f"its member {name} has the shape {shape} and {len(rest):,} bytes")
    return np.frombuffer(rest, dtype=dtype).reshape(shape).astype(dtype.newbyteorder("="), copy=True)
