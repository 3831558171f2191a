"""Read a folder of released records, which may come from a stranger: nothing in it is run, and all of it is checked."""

import io
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from symdebias import _columns, _files, _optional
from symdebias._columns import Table
from symdebias._domains import check_flag, seen
from symdebias._parquet import ParquetColumns
from symdebias.exceptions import FormatError, MissingDependencyError, SymdebiasError
from symdebias.release.card import refuse_constant, without_repeats
from symdebias.release.folder import CARD, FORMAT, MANIFEST, RECORDS, digest, file_digest
from symdebias.release.groups import labels_of, labels_of_target
from symdebias.release.noised import Noised
from symdebias.release.release import Release
from symdebias.release.stored import released_rows

_ENTRIES = {"format", "records", "count", "target", "labels", "seeded", "hardened", "digests"}
_LONGEST_MANIFEST = 100_000
# What files that were changed make their readers raise.
_DAMAGE = (
    ArithmeticError, LookupError, MemoryError, OSError, RecursionError, SymdebiasError, TypeError, ValueError,
)  # fmt: skip


class _OtherwiseRead(ValueError):
    """The folder is whole, and not to be read this way."""


def load(path: str | os.PathLike[str], *, in_memory: bool = True) -> Noised:
    """Read released records and their release from a folder that `Noised.save` wrote.

    Parameters
    ----------
    path : path
        The folder.
    in_memory : bool
        False leaves records in their file of Parquet: ``X`` and ``y`` are `symdebias.blocks.Rows`, which solvers read
        block by block in each pass, with codes in place of text. They are checked by the solver.

    Returns
    -------
    Noised
        ``X`` is a table of the columns of the release in their order, numbers exactly as released; ``y`` the released
        target, or None; ``release`` what the card says. ``X.to_dict()`` is what data frames are made of.

    Raises
    ------
    TypeError
        `path` is no path.
    FormatError
        It is no such folder, or is damaged, or is in CSV and was to be left on the disk; also a ValueError.
    FileNotFoundError
        There is nothing at that place.
    MissingDependencyError
        The records are in Parquet, and pyarrow is not installed.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import symdebias as sd
    >>> release = sd.Release({"age": sd.LaplaceMechanism(1.0, bounds=(0, 90))}, sd.RandomizedResponse(1.0))
    >>> noised = release.privatize([[30.0], [60.0]], [1, -1])
    >>> folder = pathlib.Path(tempfile.mkdtemp()) / "released"
    >>> noised.save(folder)
    >>> again = sd.load(folder)
    >>> again.release == release, bool((again.X["age"] == noised.X[:, 0]).all()), print(again.guarantee)
    (2, 0)-differential privacy (local, replace-one)
    (True, True, None)
    """
    in_memory = check_flag("in_memory", in_memory)
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"a folder is named by its path; got {type(path).__name__}. Name the one that save wrote.")
    place = _files.path_of(path)
    name = seen(str(place), 200)
    if not place.exists():
        raise FileNotFoundError(
            f"{name} is not there. Name the folder that noised.save() or symdebias privatize wrote."
        )
    if place.is_file() and (place.parent / MANIFEST).is_file():
        raise FormatError(f"{name} is one file of a released folder. Name the folder: {seen(str(place.parent), 200)}.")
    if place.suffix in (".csv", ".parquet") and place.is_file():
        raise FormatError(
            f"{name} is a table, and here a folder with a table and its card is wanted. Ask for the whole folder that "
            "noised.save() wrote; of a table that another program noised, symdebias receive makes one, in Python "
            "symdebias.NoiseDescription(...).read(table).save(folder)."
        )
    try:
        return _noised(place, in_memory=in_memory)
    except MissingDependencyError:
        raise
    except _OtherwiseRead as error:
        raise FormatError(f"{name} {error}") from None
    except _DAMAGE as error:
        problem = seen(f"{error}".rstrip(".") or type(error).__name__, 300)
    raise FormatError(
        f"{name} is not a folder of the format {FORMAT}, or is damaged: {problem}. Ask for the whole folder that "
        "noised.save() wrote."
    )


def _noised(place: Path, *, in_memory: bool) -> Noised:
    if not (place / MANIFEST).is_file():
        if (place / "part-000000").is_dir():
            raise _OtherwiseRead("holds a folder for each partition. Read it by symdebias.distributed.load.")
        raise ValueError(f"it has no file {MANIFEST}")
    if (place / MANIFEST).stat().st_size > _LONGEST_MANIFEST:
        raise ValueError(f"its {MANIFEST} has more than {_LONGEST_MANIFEST:,} bytes")
    text = (place / MANIFEST).read_text(encoding="utf-8")
    manifest = json.loads(text, parse_constant=refuse_constant, object_pairs_hook=without_repeats)
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise ValueError(f"its {MANIFEST} has another format, which another version of symdebias writes, or none")
    if set(manifest) != _ENTRIES:
        raise ValueError(f"its {MANIFEST} must have exactly the entries {', '.join(sorted(_ENTRIES))}")
    kinds = {file: kind for kind, file in RECORDS.items()}
    kind, target = kinds.get(manifest["records"]), manifest["target"]
    if kind is None or not (target is None or isinstance(target, str)):
        raise ValueError(f"its {MANIFEST} names no file of records, or no target")
    if not all(isinstance(manifest[key], bool) for key in ("seeded", "hardened")):
        raise ValueError(f"seeded and hardened of its {MANIFEST} must be true or false")
    if not isinstance(manifest["digests"], dict):
        raise ValueError(f"its {MANIFEST} has no digests")
    if not in_memory and kind != "parquet":
        raise _OtherwiseRead(
            "has its records in CSV, and only Parquet is read by blocks. Leave out in_memory=False; or load it, and "
            'save it anew with format="parquet".'
        )
    contents = {CARD: _content(place / CARD, manifest)}
    release = Release.from_json(contents[CARD].decode())
    if release.columns is None:
        raise ValueError("its card has no names of columns")
    if not in_memory:
        _require_digest(place / RECORDS[kind], file_digest(place / RECORDS[kind]), manifest)
        return _left_on_disk(place / RECORDS[kind], release, manifest)
    contents[RECORDS[kind]] = _content(place / RECORDS[kind], manifest)
    wanted = [*release.columns, *([] if target is None else [target])]
    text_columns = {name for name, sent in labels_of(release.groups, "sent").items() if sent.is_text}
    sent = labels_of_target(release.target, "sent")
    if sent is not None and sent.is_text:
        text_columns.add(str(target))
    columns = _READERS[kind](place / RECORDS[kind], contents[RECORDS[kind]], wanted)
    found = {name: _column(columns[name], name, name in text_columns) for name in wanted}
    X = Table({name: found[name] for name in release.columns})
    if len(X) != manifest["count"]:
        raise ValueError(f"it has {len(X):,} records, and its {MANIFEST} says another number")
    y = None if target is None else found[target]
    # What a fit would refuse is said here.
    if release.coupling is None:
        release.design_matrix(X)
        if y is not None:
            release.released_target(y, rows=len(X))
    else:
        release.columns_of(X, y)
    return _described(X, y, release, manifest)


def _described(X: Any, y: Any, release: Release, manifest: Mapping[str, Any]) -> Noised:
    target, labels = manifest["target"], _labels(manifest["labels"])
    more: dict[str, Any] = {} if target is None else {"target_name": target}
    return Noised(X, y, release, manifest["seeded"], manifest["hardened"], labels=labels, **more)


def _content(path: Path, manifest: Mapping[str, Any]) -> bytes:
    content = path.read_bytes() if path.is_file() else b""
    _require_digest(path, digest(content), manifest)
    return content


def _require_digest(path: Path, found: str, manifest: Mapping[str, Any]) -> None:
    if found != manifest["digests"].get(path.name):
        raise ValueError(
            f"its file {path.name} is not the one that was written with it: changed, cut short, or missing"
        )


def _left_on_disk(path: Path, release: Release, manifest: Mapping[str, Any]) -> Noised:
    """Return records that are read by blocks from their file."""
    stored = ParquetColumns([path])
    assert release.columns is not None
    target = manifest["target"]
    wanted = [*release.columns, *([] if target is None else [target])]
    if sorted(stored.names) != sorted(wanted):
        raise ValueError(f"its {path.name} does not have the columns {', '.join(wanted)}")
    if len(stored) != manifest["count"]:
        raise ValueError(f"it has {len(stored):,} records, and its {MANIFEST} says another number")
    X, y = released_rows(stored, release, target)
    return _described(X, y, release, manifest)


def _labels(labels: Any) -> tuple[Any, Any] | None:
    if labels is None:
        return None
    if (
        not isinstance(labels, list)
        or len(labels) != 2
        or not all(isinstance(one, (str, int, float)) for one in labels)
    ):
        raise ValueError(f"the labels of its {MANIFEST} are no pair")
    return labels[0], labels[1]


def _column(values: Any, name: str, is_text: bool) -> np.ndarray[Any, Any]:
    if is_text:
        return np.array([str(value) for value in values], dtype=object)
    try:
        numbers = np.array([float(value) for value in values])
    except (TypeError, ValueError):
        raise ValueError(f"its column {name} has something that is no number") from None
    if not np.isfinite(numbers).all():
        raise ValueError(f"its column {name} has NaN or infinity in row {int(np.argmin(np.isfinite(numbers)))}")
    return numbers


def _read_csv(path: Path, content: bytes, wanted: list[str]) -> Mapping[str, Any]:
    return _columns.parse(content, path.name, wanted, exact=True).columns


def _read_parquet(path: Path, content: bytes, wanted: list[str]) -> Mapping[str, Any]:
    arrow = _optional.require("pyarrow", extra="parquet")
    parquet = _optional.require("pyarrow.parquet", extra="parquet")
    try:
        table = parquet.read_table(io.BytesIO(content))
    except arrow.ArrowException as error:
        raise ValueError(f"its {path.name} is no file of Parquet: {error}") from None
    if sorted(table.column_names) != sorted(wanted):
        raise ValueError(f"its {path.name} does not have the columns {', '.join(wanted)}")
    return {name: table.column(name).to_pylist() for name in wanted}


_READERS = {"csv": _read_csv, "parquet": _read_parquet}
