"""A release as the call that makes it."""

from typing import TYPE_CHECKING

from symdebias.release.columns import as_json

if TYPE_CHECKING:
    from symdebias.release.release import Release


def as_call(release: "Release") -> str:
    """Return the text of a call that makes an equal release, with what one vector hides as a comment."""
    parts = []
    if release.groups and release.groups[0][0] is None:
        parts.append(f"features={release.groups[0][1]!r}")
    elif release.groups:
        inside = ", ".join(
            f"{(names[0] if names and len(names) == 1 else names)!r}: {mechanism!r}"
            for names, mechanism in release.groups
        )
        parts.append(f"features={{{inside}}}")
    coupling = release.coupling
    if release.target is not None or coupling is not None:
        parts.append(f"target={release.target if coupling is None else coupling.kind!r}")
    if release.noiseless:
        parts.append(f"noiseless={release.noiseless!r}")
    if release.fit_intercept:
        parts.append("fit_intercept=True")
    if release.categories:
        parts.append(f"categories={release.categories.as_json()!r}")
    for name, values in (("center", release.center), ("scale", release.scale)):
        if values:
            parts.append(f"{name}={as_json(values)!r}")
    if coupling is None:
        return f"Release({', '.join(parts)})"
    parts += [f"{name}={value!r}" for name, value in coupling.settings.items()]
    return f"Release({', '.join(parts)})  # {coupling.statement}"
