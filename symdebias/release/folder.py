"""A folder of released records with their card: what a collector hands to an analyst.

    card.json       the card of the release, as `Release.to_json` writes it
    records.csv     the released records, or records.parquet: columns in the order of the release, the target last
    manifest.json   the format, how many records there are, what the target is called, digests of the other two

Nothing in it but the records depends on data, and these were noised.
"""

import functools
import hashlib
import io
import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from symdebias import _columns, _files, _optional
from symdebias._domains import check_choice, check_name, is_list, shown
from symdebias.release.card import require_readable
from symdebias.release.groups import labels_of, labels_of_target
from symdebias.release.matrices import named_by, released_matrix
from symdebias.release.required import require_release

if TYPE_CHECKING:
    from symdebias.release.noised import Noised
    from symdebias.release.release import Release

FORMAT = "symdebias-folder-1"
CARD, MANIFEST = "card.json", "manifest.json"
RECORDS = {"csv": "records.csv", "parquet": "records.parquet"}


def save(
    noised: "Noised", path: str | os.PathLike[str], *, format: str, target_name: Any, labels: Sequence[Any] | None
) -> None:
    """Write released records and their card to a new folder; see `symdebias.release.Noised.save`."""
    check_choice("format", format, RECORDS)
    require_release(noised.release)
    release = named_by(noised.release, noised.X)
    if release.columns is None:
        raise ValueError(
            "the release does not name its columns, and a file has names. Name them by release.bind(names), or make "
            "the records a table with their names."
        )
    noised = replace(noised, release=release)
    require_readable(noised.release.groups, noised.release.target)
    require_coded(noised.release, labels)
    _files.require_free(path)
    columns, target = named_columns(noised, target_name)
    records = io.BytesIO()
    _WRITERS[format](records, columns)
    card, count = noised.release.to_json().encode(), len(next(iter(columns.values())))
    digests = {CARD: digest(card), RECORDS[format]: digest(records.getvalue())}
    manifest = manifest_of(noised, RECORDS[format], count, target, labels, digests)
    contents = {CARD: card, RECORDS[format]: records.getvalue(), MANIFEST: manifest}
    _files.write_folder(path, {name: functools.partial(_write, content) for name, content in contents.items()})


def named_columns(noised: "Noised", target_name: Any) -> tuple[dict[str, Any], str | None]:
    """Return the released columns by name, the target last, and its name; None where there is none."""
    columns = columns_of(noised)
    if noised.y is None:
        return columns, None
    target: str = target_name or getattr(noised.y, "name", None) or noised.target_name
    check_name("target_name", target)
    if target in columns:
        raise ValueError(f"target_name={shown(target, 80)} is a column of the features. Give another name.")
    return columns | {target: _target_of(noised)}, target


def require_coded(release: "Release", labels: Sequence[Any] | None) -> None:
    """Raise ValueError where labels are given for a target that has labels of its own, and none coded -1 and +1."""
    known = None if labels is None else labels_of_target(release.target, "sent")
    if known is not None and (known.is_text or set(known.values) != {-1.0, 1.0}):
        listed = ", ".join(map(str, known.values[:8]))
        raise ValueError(
            f"labels= says what -1 and +1 stand for, and the target has the values {listed}. Leave it out."
        )


def manifest_of(
    noised: "Noised", file: str, count: int, target: str | None, labels: Sequence[Any] | None, digests: dict[str, str]
) -> bytes:
    """Return the manifest of so many records in a file."""
    manifest = {
        "format": FORMAT,
        "records": file,
        "count": count,
        "target": target,
        "labels": _checked_labels(noised.labels if labels is None else labels),
        "seeded": noised.seeded,
        "hardened": noised.hardened,
        "digests": digests,
    }
    return json.dumps(manifest, indent=2, allow_nan=False).encode()


def _write(content: bytes, stream: BinaryIO) -> None:
    stream.write(content)


def columns_of(noised: "Noised") -> dict[str, Any]:
    """Return the released features by name, categories as their owners know them."""
    release = noised.release
    matrix = released_matrix(release, noised.X, check_finite=True)
    assert release.columns is not None
    columns: dict[str, Any] = dict(zip(release.columns, matrix.T, strict=True))
    for name, sent in labels_of(release.groups, "sent").items():
        columns[name] = np.array(sent.values, dtype=object if sent.is_text else float)[columns[name].astype(int)]
    return columns


def _target_of(noised: "Noised") -> Any:
    release = noised.release
    numbers = release.released_target(noised.y, rows=len(noised.X))
    sent = labels_of_target(release.target, "sent")
    if sent is None or not sent.is_text:
        return numbers
    return np.array(sent.values, dtype=object)[sent.codes(numbers)]


def _checked_labels(labels: Sequence[Any] | None) -> list[Any] | None:
    if labels is None:
        return None
    # A set has no order.
    values = list(labels) if is_list(labels) and not isinstance(labels, (set, frozenset)) else [labels]
    if len(values) != 2 or not all(isinstance(one, (str, int, float)) for one in values) or values[0] == values[1]:
        raise ValueError(f"labels={shown(labels, 80)} are no pair. Give what -1 and +1 stand for, in that order.")
    return values


def digest(content: bytes) -> str:
    """Return the SHA-256 of a file, in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file that is read by blocks; that of nothing where there is none."""
    if not path.is_file():
        return digest(b"")
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _write_csv(stream: io.BytesIO, columns: dict[str, Any]) -> None:
    text = io.StringIO(newline="")
    # The shortest text that is read as the same number.
    spelled = [values if values.dtype == object else map(repr, values.tolist()) for values in columns.values()]
    _columns.write_text(text, list(columns), spelled)
    stream.write(text.getvalue().encode())


def _write_parquet(stream: io.BytesIO, columns: dict[str, Any]) -> None:
    arrow = _optional.require("pyarrow", extra="parquet")
    parquet = _optional.require("pyarrow.parquet", extra="parquet")
    parquet.write_table(arrow.table({name: arrow.array(values) for name, values in columns.items()}), stream)


_WRITERS = {"csv": _write_csv, "parquet": _write_parquet}
