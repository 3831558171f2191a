"""A release with other columns or other noise, and all else as it was."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from symdebias.release.columns import as_json

if TYPE_CHECKING:
    from symdebias.mechanisms.base import Mechanism
    from symdebias.release.release import Release


def remade(
    release: "Release",
    features: "Mapping[str | tuple[str, ...], Mechanism] | Mechanism | None",
    **changes: Any,
) -> "Release":
    """Return a release of the same declaration with other features.

    Parameters
    ----------
    release : Release
        The release.
    features : mapping, Mechanism or None
        As for `symdebias.Release`.
    **changes
        Further arguments of it that are others.
    """
    target = {"target": release.target} if release.coupling is None else release.coupling.arguments
    own = {
        "noiseless": release.noiseless,
        "fit_intercept": release.fit_intercept,
        "center": as_json(release.center),
        "scale": as_json(release.scale),
        "categories": release.categories.as_json(),
    }
    return type(release)(features, **(own | target | changes))
