"""The entries of what is declared about a table, in a dict or a TOML file, and the checks that all of them share."""

import importlib
import os
from collections.abc import Mapping
from typing import Any

from symdebias import _files
from symdebias._domains import seen, shown
from symdebias.release.columns import checked_names

_LONGEST_FILE = 10_000_000


def entries_of(source: Any, what: str = "schema", entries: str = "epsilon, columns and target") -> Mapping[str, Any]:
    """Return the entries of a schema as they are written, unchecked.

    Parameters
    ----------
    source : mapping or path
        As for `Schema`.
    what, entries : str
        What messages call it, and what is in it.

    Raises
    ------
    FileNotFoundError, ValueError, TypeError
        There is no such file, or none of TOML.
    """
    if isinstance(source, Mapping):
        return source
    if not isinstance(source, (str, os.PathLike)):
        raise TypeError(
            f"a {what} is a dict or the path of a TOML file; got {type(source).__name__}. Pass one with the entries "
            f"{entries}."
        )
    path = _files.path_of(source)
    name = seen(str(path), 200)
    if not path.is_file():
        kind = "is no file" if path.exists() else "is not there"
        raise FileNotFoundError(f"the {what} {name} {kind}. Name a TOML file with {entries}.")
    content = path.read_bytes()
    if len(content) > _LONGEST_FILE:
        raise ValueError(f"the {what} {name} has {len(content):,} bytes, and may have {_LONGEST_FILE:,}. Shorten it.")
    # Imported where a file is read: no fit needs it. Its error is a ValueError, as that of text that is not UTF-8 is.
    try:
        parsed: dict[str, Any] = importlib.import_module("tomllib").loads(content.decode("utf-8-sig"))
        return parsed
    except (ValueError, RecursionError) as error:
        reason = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else seen(str(error), 200).rstrip(".")
        raise ValueError(
            f"{name} is not a TOML file: {reason}. Write entries as key = value, text between quotes, lists between "
            "brackets."
        ) from None


def require_known(entries: Mapping[str, Any], keys: tuple[str, ...], where: str) -> None:
    """Raise ValueError where an entry is none of these."""
    unknown = [key for key in entries if key not in keys]
    if unknown:
        raise ValueError(
            f"{where} has the unknown entry {shown(unknown[0], 80)}. Its entries are {', '.join(keys)}. Correct the "
            "spelling, or leave it out."
        )


def required(entries: Mapping[str, Any], key: str, what: str, of: str = "schema") -> Any:
    """Return an entry that there has to be."""
    if key not in entries:
        raise ValueError(f"the {of} has no entry {key}. Give {what}.")
    return entries[key]


def columns_of(entries: Mapping[str, Any], example: str, of: str = "schema") -> Mapping[str, Any]:
    """Return the entries of columns by name, of which there are some."""
    declared = required(entries, "columns", f"a table of columns, such as {example}", of)
    if not isinstance(declared, Mapping) or not declared:
        raise ValueError(f"columns={shown(declared, 60)} names no columns. Give each an entry, such as {example}.")
    checked_names(tuple(declared), "columns")
    return declared


def target_of(entries: Mapping[str, Any], columns: Mapping[str, Any], example: str) -> tuple[str, Any] | None:
    """Return the name and the entry of a target that is none of the columns; None where there is none."""
    entry = entries.get("target")
    if entry is None:
        return None
    if not isinstance(entry, Mapping):
        raise TypeError(f"target={shown(entry, 60)} is no table of entries. Write it as {example}.")
    name = entry.get("name")
    if not isinstance(name, str):
        raise ValueError(f"target.name={shown(name, 60)} names no column. Give the name of the target's column.")
    checked_names((name,), "target.name")
    if name in columns:
        raise ValueError(
            f"target.name={shown(name, 80)} is also one of the columns. Name the target once: leave it out of columns."
        )
    return name, entry


def intercept_of(entries: Mapping[str, Any]) -> bool:
    """Return whether models have an intercept: they do where nothing else is said."""
    intercept = entries.get("intercept", True)
    if not isinstance(intercept, bool):
        raise TypeError(f"intercept={shown(intercept, 60)} must be true or false. Write one of them.")
    return intercept
