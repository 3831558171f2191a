"""What the labels -1 and +1 of a saved fit stand for, where their folder says it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from symdebias.release.categories import spelled
from symdebias.solvers import Fit

# Where a saved fit tells it.
_KEPT = "labels"


def labelled(fit: Fit, labels: Sequence[Any] | None) -> Fit:
    """Return a fit that says what -1 and +1 stand for."""
    if labels is None:
        return fit
    return replace(fit, diagnostics={**fit.diagnostics, _KEPT: tuple(map(spelled, labels))})


def labels_of_fit(fit: Fit) -> tuple[str, str] | None:
    """Return what -1 and +1 of a saved fit stand for, or None where it does not say it."""
    kept = fit.diagnostics.get(_KEPT)
    if isinstance(kept, tuple) and len(kept) == 2 and all(isinstance(one, str) for one in kept) and kept[0] != kept[1]:
        return kept
    return None
