"""A known term of the score, as one more column without noise, whose parameter is 1."""

from typing import TYPE_CHECKING

from symdebias.release.remaking import remade

if TYPE_CHECKING:
    from symdebias.mechanisms.base import Mechanism
    from symdebias.release.release import Release

_NAME = "offset"


def require_place(release: "Release") -> None:
    """Raise ValueError where features and target were released in one vector, which has no place for a known term."""
    if release.coupling is not None:
        raise ValueError(
            "offset= is a part of the score that is known of each record, and this release has features and target in "
            "one vector, where it has no place. Release them apart, or take the offset off the target before the "
            "release."
        )


def with_known_term(release: "Release", width: int) -> "tuple[Release, str]":
    """Return a release of so many columns with a column more, the last one, that has no noise; and its name.

    Raises
    ------
    ValueError
        Features and target were released in one vector, which has no place for it.
    """
    require_place(release)
    if release.columns is None:
        places = range(width - len(release.noiseless))
        release = release.bind((*(f"x{place}" for place in places), *release.noiseless))
    name = _NAME
    while name in (release.columns or ()):
        name += "_"
    features: dict[str | tuple[str, ...], Mechanism] = {names or (): mechanism for names, mechanism in release.groups}
    return remade(release, features or None, noiseless=(*release.noiseless, name)), name
