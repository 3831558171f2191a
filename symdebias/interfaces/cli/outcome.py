"""A released column as the target of a fit: what --target and --features name where a folder has several outcomes."""

import argparse
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from symdebias._domains import shown
from symdebias.interfaces.cli.per_record import damaged, is_by_name
from symdebias.release import Noised, Release
from symdebias.solvers import Fit

# Where a saved fit tells which columns it took.
_KEPT = "outcome"


@dataclass(frozen=True)
class Outcome:
    """The columns of a fit to one of several outcomes.

    Attributes
    ----------
    target : str
        The released column that is the target.
    features : tuple of str or None
        Those that are features; None for all others.
    """

    target: str
    features: tuple[str, ...] | None

    @classmethod
    def of(cls, options: argparse.Namespace, noised: Noised) -> "Outcome | None":
        """Return what the words of a command name; None where that is the target of the folder, or nothing.

        Raises
        ------
        ValueError
            They name no column, or features of the folder's own target, or nothing where the folder has none.
        """
        own = None if noised.y is None else noised.target_name
        columns = noised.release.columns or ()
        if own is None and noised.release.coupling is None and options.target is None:
            raise ValueError(
                "this folder has no target of its own. Name one of its outcomes by --target: its columns are "
                f"{', '.join(columns)}."
            )
        if options.target is None or options.target == own:
            if options.features is not None:
                raise ValueError(
                    "--features belongs to a --target that is one of several released outcomes. Name that, or leave it "
                    "out: the features of a folder's own target are all its columns."
                )
            return None
        if options.target not in columns:
            others = "" if own is None else f"its target is called {own}, and "
            if own is None and noised.release.coupling is not None:
                others = "its target is within the released vector, and "
            raise ValueError(
                f"--target {shown(options.target, 60)} is no column of this folder: {others}the columns are "
                f"{', '.join(columns)}. Correct the name."
            )
        return cls(options.target, None if options.features is None else tuple(options.features))

    @classmethod
    def of_fit(cls, fit: Fit) -> "Outcome | None":
        """Return that of a saved fit."""
        if _KEPT not in fit.diagnostics:
            return None
        kept = fit.diagnostics[_KEPT]
        if not is_by_name(kept, but="features") or set(kept) != {"target", "features"}:
            raise damaged(_KEPT)
        features = kept["features"]
        if features is None:
            return cls(kept["target"], None)
        if not isinstance(features, (list, tuple)) or not all(isinstance(one, str) for one in features):
            raise damaged(_KEPT)
        return cls(kept["target"], tuple(features))

    @property
    def as_json(self) -> dict[str, Any]:
        """What a fit keeps of it."""
        return {"target": self.target, "features": None if self.features is None else list(self.features)}

    def kept(self, fit: Fit) -> Fit:
        """Return a fit that says which columns it took."""
        return replace(fit, diagnostics={**fit.diagnostics, _KEPT: self.as_json})

    def require_apart(self, release: Release, besides: Iterable[tuple[str, str]]) -> None:
        """Raise ValueError where a column that has another use, after its option, is named as a feature as well."""
        named = set(release.categories.released(self.features or ()))
        for option, column in besides:
            if not named.isdisjoint(release.categories.released([column])):
                raise ValueError(
                    f"{option} {shown(column, 60)} is one of --features as well, and a column has one use. Leave it "
                    "out of one of them."
                )

    def chosen(self, noised: Noised, beside: Iterable[str] = ()) -> Noised:
        """Return the records with the column as their target, and with columns of another use beside the features.

        Raises
        ------
        ValueError, TypeError
            It is not there, has no noise of its own, or features are no other columns.
        """
        features = self.features
        if self.target not in (noised.release.columns or ()):
            raise ValueError(
                f"the target {shown(self.target, 60)} is no column of this folder, whose columns are "
                f"{', '.join(noised.release.columns or ())}. Name a folder that has it."
            )
        if features is not None:
            release = noised.release
            known = {*(release.columns or ()), *release.categories.indicators} - {*features, self.target}
            features = (*features, *(one for one in dict.fromkeys(beside) if one in known))
        return noised.with_target(self.target, features)
