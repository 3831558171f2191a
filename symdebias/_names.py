"""What is meant by a name: by that of another library, or by a mistyped one."""

import difflib
import unicodedata
from collections.abc import Collection, Iterable, Mapping

# Names that are less alike are others.
_ALIKE = 0.75


def by_other_names(elsewhere: Mapping[str, str]) -> dict[str, str]:
    """Return our name for each of the names, between blanks, that others have for it."""
    return {other: name for name, others in elsewhere.items() for other in others.split()}


def as_name(text: str) -> str:
    """Return a text as names are written here."""
    return text.strip().lower().replace("-", "_").replace(" ", "_")


def meant(text: str, own: Collection[str], others: Mapping[str, str]) -> str | None:
    """Return which of our own names is meant by a text, or None.

    Parameters
    ----------
    text : str
        What was written.
    own : collection of str
        Our names.
    others : mapping from str to str
        What `by_other_names` returned.

    Examples
    --------
    >>> others = by_other_names({"squared_error": "mse l2"})
    >>> [meant(text, ("squared_error", "r2"), others) for text in ("MSE", "squared error", "squard_error", "kappa")]
    ['squared_error', 'squared_error', 'squared_error', None]
    """
    asked = as_name(text)
    if asked not in own and asked not in others:
        asked = next(iter(difflib.get_close_matches(asked, (*own, *others), 1, cutoff=_ALIKE)), "")
    return others.get(asked, asked) or None


def composed(text: str) -> str:
    """Return a text with each accent as a part of its letter, in which texts that are the same are equal."""
    return unicodedata.normalize("NFC", text)


def advice_on_spelling(missing: Iterable[str], found: Iterable[str]) -> str:
    """Return what to say of names that are there in another spelling; nothing where none is."""
    differing = ", ".join(f"{name} differs in {what}" for name, what in written_otherwise(missing, found).items())
    return differing and f"Names are matched letter by letter, and {differing}: correct either."


def written_otherwise(missing: Iterable[str], found: Iterable[str]) -> dict[str, str]:
    """Return which names are there in another spelling that looks the same, or nearly: each with what differs.

    Examples
    --------
    >>> written_otherwise(["age", "Gr\u00f6\u00dfe", "pay", "sex"], ["Age", "Gro\u0308\u00dfe", "pay ", "hours"])
    {'age': 'capitals', 'Gr\u00f6\u00dfe': 'the Unicode form of its letters', 'pay': 'blanks'}
    """
    there = list(found)
    spellings = (
        ("the Unicode form of its letters", composed),
        ("blanks", lambda name: "".join(name.split())),
        ("capitals", str.casefold),
        ("spelling", lambda name: "".join(unicodedata.normalize("NFKC", name).casefold().split())),
    )
    told: dict[str, str] = {}
    for name in missing:
        for what, spelled in spellings:
            if name not in told and spelled(name) in map(spelled, there):
                told[name] = what
    return told
