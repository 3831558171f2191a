"""What is asked for a release, and is none, or does not name its columns."""

from typing import Any

from symdebias.mechanisms import Mechanism


class BaseRelease:
    """The base of `symdebias.Release`, by which the modules that it is made of know one."""


def require_release(release: Any) -> None:
    """Raise TypeError where something else than a release was given."""
    if not isinstance(release, BaseRelease):
        remedy = "Wrap it: symdebias.Release(mechanism)" if isinstance(release, Mechanism) else "Pass noised.release"
        raise TypeError(f"release must be a symdebias.Release; got {type(release).__name__}. {remedy}.")


def required_columns(release: Any) -> tuple[str, ...]:
    """Return the names of the columns of a release.

    Raises
    ------
    TypeError
        Something else than a release was given.
    ValueError
        It has none yet.
    """
    require_release(release)
    if release.columns is None:
        raise ValueError("the release does not name its columns yet. Use noised.release, or release.bind(names).")
    names: tuple[str, ...] = release.columns
    return names
