"""What is asked for a release, and is none."""

from typing import Any

from symdebias.mechanisms import Mechanism
from symdebias.release.release import Release


def require_release(release: Any) -> None:
    """Raise TypeError where something else than a release was given."""
    if not isinstance(release, Release):
        remedy = "Wrap it: symdebias.Release(mechanism)" if isinstance(release, Mechanism) else "Pass noised.release"
        raise TypeError(f"release must be a symdebias.Release; got {type(release).__name__}. {remedy}.")
