"""Released records in files that are larger than memory: read by blocks, and written block after block."""

import hashlib
import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, BinaryIO

import numpy as np

from symdebias import _files, _optional
from symdebias._arrays import FloatArray
from symdebias._columns import Table
from symdebias._parquet import ParquetColumns, numbers
from symdebias._rows import Rows
from symdebias.release import folder
from symdebias.release.card import require_readable
from symdebias.release.groups import labels_of
from symdebias.release.matrices import released_array
from symdebias.release.noised import Noised
from symdebias.release.release import Release
from symdebias.release.required import required_columns


def released_rows(stored: ParquetColumns, release: Release, target: str | None) -> tuple[Rows, Rows | None]:
    """Return the columns of a release and its target as they are stored, with codes for text.

    Parameters
    ----------
    stored : ParquetColumns
        The files.
    release : Release
        With the names of its columns.
    target : str or None
        The column of the target.

    Raises
    ------
    TypeError, ValueError
        It is no release, or does not name its columns; or files have others.
    """
    columns = required_columns(release)
    labelled = labels_of(release.groups, "sent")

    def matrix(found: dict[str, Any]) -> FloatArray:
        if not labelled:
            return numbers(found)
        return released_array(release, Table(found), check_finite=False)

    def targets(found: dict[str, Any]) -> FloatArray:
        (values,) = found.values()
        if release.coupling is not None:
            return one_column(found)
        return release.released_target(values, rows=len(values))

    X = stored.rows(columns, matrix)
    return X, None if target is None else stored.rows([target], targets)


def one_column(columns: dict[str, Any]) -> FloatArray:
    """Return the only column as an array of shape (m,), float64."""
    return np.ascontiguousarray(numbers(columns)[:, 0])


class _Digested:
    """A stream that is written to, and the digest of what was written."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream, self._hash = stream, hashlib.sha256()
        self.closed = False

    def write(self, content: Any) -> int:
        self._hash.update(content)
        return self._stream.write(content)

    def flush(self) -> None:
        self._stream.flush()

    def tell(self) -> int:
        return self._stream.tell()

    def writable(self) -> bool:
        return True

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()


def save_blocks(
    blocks: Iterable[Noised], path: str | os.PathLike[str], *, target_name: str | None, labels: Sequence[Any] | None
) -> int:
    """Write released blocks to a new folder in Parquet, each as a row group, and return how many records they have.

    Parameters
    ----------
    blocks : iterable of Noised
        Of one release; the first is asked for before anything is written.
    path, target_name, labels
        As for `symdebias.release.Noised.save`.

    Raises
    ------
    ValueError
        There are no blocks, or their labels have no codes.
    FileExistsError
        There is something at that place.
    """
    arrow = _optional.require("pyarrow", extra="parquet")
    parquet = _optional.require("pyarrow.parquet", extra="parquet")
    _files.require_free(path)
    remaining: Iterator[Noised] = iter(blocks)
    first = next(remaining, None)
    if first is None:
        raise ValueError("blocks yielded nothing. Yield at least one block of records.")
    folder.require_coded(first.release, labels)
    require_readable(first.release.groups, first.release.target)
    count, digest, target = 0, "", None

    def write_records(stream: BinaryIO) -> None:
        nonlocal count, digest, target
        digested, writer = _Digested(stream), None
        try:
            for noised in itertools.chain([first], remaining):
                columns, target = folder.named_columns(noised, target_name)
                table = arrow.table({name: arrow.array(values) for name, values in columns.items()})
                if writer is None:
                    writer = parquet.ParquetWriter(arrow.PythonFile(digested, mode="w"), table.schema)
                writer.write_table(table, row_group_size=max(1, len(table)))
                count += len(table)
        finally:
            if writer is not None:
                writer.close()
        digest = digested.digest

    card = first.release.to_json().encode()
    file = folder.RECORDS["parquet"]

    def write_manifest(stream: BinaryIO) -> None:
        digests = {folder.CARD: folder.digest(card), file: digest}
        stream.write(folder.manifest_of(first, file, count, target, labels, digests))

    _files.write_folder(
        path, {file: write_records, folder.CARD: lambda stream: stream.write(card), folder.MANIFEST: write_manifest}
    )
    return count
