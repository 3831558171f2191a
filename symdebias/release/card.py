"""The card of a release: what an analyst needs to debias, as JSON, and nothing about the data.

A card may come from a stranger: only known kinds, known entries and finite numbers are taken, of a size that is read
within a second.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from symdebias._domains import seen
from symdebias.exceptions import FormatError, SymdebiasError
from symdebias.mechanisms.base import KINDS, Mechanism, card_of, mechanism_of
from symdebias.release import coupling
from symdebias.release.columns import checked_names
from symdebias.release.groups import Groups

FORMAT = "symdebias-release-1"
_LONGEST = 10_000_000
# A card of so many groups is read in a second; one with more, or with more columns, is none that anybody wrote.
_MOST_GROUPS, _MOST_COLUMNS = 4_000, 100_000
_MOST_REASON = 300
_ENTRIES = {"format", "features", "target", "noiseless", "fit_intercept", "center", "scale"}

Made = TypeVar("Made")


def to_json(groups: Groups, target: Mechanism | dict[str, Any] | None, **others: Any) -> str:
    """Return a card.

    Parameters
    ----------
    groups : tuple of (names, Mechanism)
        The features; None for names that are not given yet.
    target : Mechanism, dict or None
        The mechanism of the target, or how it is released in one vector with the features.
    **others
        The other arguments of a release, as JSON values.
    """
    mechanisms = [one for one in (target, *(mechanism for _, mechanism in groups)) if isinstance(one, Mechanism)]
    for one in mechanisms:
        named = KINDS.get(one.kind, type(one))
        if named is not type(one):
            raise ValueError(
                f"{type(one).__name__} has the kind {one.kind!r}, which is that of {named.__name__}: whoever reads the "
                "card would take its noise for that. Give it a kind of its own."
            )
    features = [{"columns": None if names is None else list(names), **card_of(one)} for names, one in groups]
    of_target = card_of(target) if isinstance(target, Mechanism) else target
    card = {"format": FORMAT, "features": features, "target": of_target, **others}
    return json.dumps(card, indent=2, allow_nan=False)


def require_readable(groups: Groups, target: Mechanism | None) -> None:
    """Raise ValueError where a mechanism is none that a card may name, so that what is written could not be read.

    Examples
    --------
    >>> import symdebias as sd
    >>> require_readable(((None, sd.UniformMechanism(0.5)),), None)
    """
    for one in (target, *(mechanism for _, mechanism in groups)):
        if one is not None and KINDS.get(one.kind) is not type(one):
            name = type(one).__name__
            raise ValueError(
                f"{name} is a mechanism of your own, and a card that names it is read only where its kind is known. "
                f"Set symdebias.mechanisms.KINDS[{one.kind!r}] = {name}, here and in the program that reads."
            )


def from_json(text: str, make: Callable[..., Made]) -> Made:
    """Read a card that `to_json` returned; `make` takes features, target and the other arguments of a release by name.

    Raises
    ------
    TypeError
        It is no text.
    FormatError
        It is not a card of this version.
    """
    if not isinstance(text, str):
        raise TypeError(
            f"a release card is text; got {type(text).__name__}. Pass what to_json() returned; of a file, its text."
        )
    if text.endswith(".json"):
        # What is no card either way, and the name of one most likely.
        raise FormatError(
            "this is the name of a file, and no release card. Pass the text in it, pathlib.Path(name).read_text(); a "
            "released folder is read by symdebias.load(folder)."
        )
    if len(text) > _LONGEST:
        raise FormatError(
            f"a release card has at most {_LONGEST:,} characters; got {len(text):,}. Ask for the output of to_json()."
        )
    try:
        return make(**_arguments(json.loads(text, parse_constant=refuse_constant, object_pairs_hook=without_repeats)))
    except (ArithmeticError, LookupError, MemoryError, RecursionError, SymdebiasError, TypeError, ValueError) as error:
        raise _refusal(error) from None


def _refusal(reason: object) -> FormatError:
    written = seen(f"{reason}".rstrip(".") or type(reason).__name__, _MOST_REASON)
    return FormatError(
        f"this is not a release card of the format {FORMAT}: {written}. Ask for the output of to_json()."
    )


def _arguments(card: Any) -> Mapping[str, Any]:
    if not isinstance(card, dict):
        raise ValueError("it is not a JSON object")
    if card.get("format") != FORMAT:
        raise ValueError(
            f"its format is {card.get('format')!r:.60}, which another version of symdebias writes, or none"
        )
    # A release without categories has no entry of them.
    if set(card) - {"categories"} != _ENTRIES or card.get("categories", True) in (None, {}):
        raise ValueError(f"it must have exactly the entries {', '.join(sorted(_ENTRIES))}")
    if not all(isinstance(card[key], list) for key in ("features", "noiseless")):
        raise ValueError("its features and noiseless columns must be lists")
    if len(card["features"]) > _MOST_GROUPS:
        raise ValueError(f"it has {len(card['features']):,} groups of columns, and may have {_MOST_GROUPS:,}")
    groups: dict[tuple[str, ...] | None, Mechanism] = {}
    count = len(card["noiseless"])
    for index, part in enumerate(card["features"]):
        if not isinstance(part, dict) or "columns" not in part:
            raise ValueError(f"features[{index}] is no object with the entry columns")
        columns = part.pop("columns")
        names = None if columns is None else checked_names(columns, f"features[{index}].columns")
        count += len(names or ())
        if count > _MOST_COLUMNS:
            raise ValueError(f"it has {count:,} columns or more, and may have {_MOST_COLUMNS:,}")
        if names in groups:
            raise ValueError("its groups of columns repeat")
        groups[names] = mechanism_of(part)
    if None in groups and len(groups) > 1:
        raise ValueError("one of its groups of columns has no names")
    others = {name: value for name, value in card.items() if name not in ("format", "features", "target")}
    stated = card["target"]
    if isinstance(stated, dict) and stated.get("kind") in coupling.KINDS:
        if len(groups) != 1:
            raise ValueError("its features are not one vector")
        ((names, released),) = groups.items()
        arguments, mechanism = coupling.of_card(stated, released, intercept=card["fit_intercept"])
        return {"features": mechanism if names is None else {names: mechanism}, **arguments, **others}
    target = None if stated is None else mechanism_of(stated)
    return {"features": groups.get(None, groups) or None, "target": target, **others}


def check_stated(text: str, released: Mechanism, statement: str) -> None:
    """Raise ValueError where the card of a release of one vector states other noise than what it declares.

    Parameters
    ----------
    text : str
        The card, which was read.
    released : Mechanism
        What noises the vector that it declares.
    statement : str
        What that release hides and answers.
    """
    stated = json.loads(text)
    (noised,) = stated["features"]
    noised.pop("columns")
    if mechanism_of(noised) != released or stated["target"]["statement"] != statement:
        raise _refusal(
            f"radius and scale ask for {released!r}, and it states {mechanism_of(noised)!r}, so that noise and "
            "guarantee disagree"
        )


def refuse_constant(text: str) -> float:
    """Refuse NaN and infinities, which JSON has no numbers for."""
    raise ValueError(f"{text} is not a finite number")


def without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the entries of an object, each of which stands once."""
    entries = dict(pairs)
    if len(entries) < len(pairs):
        raise ValueError("an entry stands twice")
    return entries
