"""The release that a command is told of: by the file of its card, or by the folder of its records."""

import json
from pathlib import Path
from typing import Any

from symdebias.exceptions import FormatError, PrivacyError
from symdebias.release import Release
from symdebias.release.folder import CARD, MANIFEST

# How the library ends its refusal of a card.
_ASK = "Ask for the output of to_json()."


def release_of(place: Path) -> Release:
    """Return the release of a card, or of a released folder.

    Raises
    ------
    ValueError
        The file is no card.
    OSError
        The file cannot be read.
    """
    card = place / CARD if place.is_dir() else place
    try:
        text = card.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ValueError(
            f"{card} is no text, and a card is. Name the file with the output of Release.to_json(), or a released "
            "folder."
        ) from None
    try:
        return Release.from_json(text)
    except FormatError as error:
        raise FormatError(
            f"{card}: {str(error).removesuffix(_ASK)}Name the file with a card, or a released folder."
        ) from None


def require_fresh(place: Path) -> None:
    """Raise PrivacyError for a released folder whose noise came from a seed, as its manifest says."""
    if _manifest(place).get("seeded"):
        raise PrivacyError(
            f"the noise in {place} came from a seed, and its records have no guarantee that could be refuted. Audit "
            f"records with fresh noise; or the card by itself, {place / CARD}."
        )


def doubts_of_noise(place: Path) -> str:
    """Return what an audit does not see of a released folder whose noise was not hardened; nothing of other places."""
    if _manifest(place).get("hardened", True):
        return ""
    return (
        f"the noise in {place} is plain, or another program drew it: what is audited is the law that its card states, "
        "by draws of its own."
    )


def has_target(place: Path) -> bool:
    """Return whether records have a target: not those of a released folder whose manifest says that there is none."""
    return _manifest(place).get("target", "") is not None


def _manifest(place: Path) -> dict[str, Any]:
    """Return what the manifest of a released folder says; nothing of a card by itself."""
    manifest = place / MANIFEST
    try:
        found = json.loads(manifest.read_bytes()) if manifest.is_file() else None
    except ValueError:
        # It says nothing, and is none of the card.
        return {}
    return found if isinstance(found, dict) else {}
