"""The release that a command is told of: by the file of its card, or by the folder of its records."""

from pathlib import Path

from symdebias.release import Release
from symdebias.release.folder import CARD


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
    return Release.from_json(text)
