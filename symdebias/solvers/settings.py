"""The settings of replicates: what each of many descents has of its own, checked as far as they can be."""

import difflib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from symdebias._domains import NON_NEGATIVE, RADIUS, Interval, shown
from symdebias.solvers.step_sizes import is_learned, rule_told, step_sizes

# What each replicate may have of its own, and what it has otherwise.
_OWN: Mapping[str, Any] = {"step_size": "auto", "l2": 0.0, "radius": None, "start": None, "shift": 0.0}
_SHIFT = Interval(0.0, 1.0, "left", "Give the share of the records that come before it in the order, such as 0.25.")


@dataclass(frozen=True)
class Setting:
    """The settings of one replicate, checked as far as they can be without records; see `sgd`."""

    given: Mapping[str, Any]
    step_size: Any
    l2: float
    radius: float | None
    start: Any
    shift: float

    def as_told(self, factor: float) -> tuple[Any, ...]:
        """Return what a checkpoint tells settings by; penalties are multiplied with a factor."""
        start = None if self.start is None else np.asarray(self.start, dtype=float)
        return rule_told(self.step_size, self.l2 * factor), self.l2 * factor, self.radius, start, self.shift


def checked_settings(settings: Any, shared: Collection[str]) -> list[Setting]:
    """Return the settings of replicates.

    Parameters
    ----------
    settings : iterable of mappings
        As for `sgd_replicates`.
    shared : collection of str
        What all replicates are told alike.

    Raises
    ------
    ValueError, TypeError
        There are none, or one of them is no mapping, has another name, or a value outside its range.
    """
    if isinstance(settings, (Mapping, str)) or not isinstance(settings, Iterable):
        raise TypeError(
            f"settings is a {type(settings).__name__}, and not a mapping for each replicate. Pass a list as "
            '[{"step_size": 0.1}, {"step_size": 0.01, "l2": 1.0}].'
        )
    found = []
    for place, one in enumerate(settings):
        if not isinstance(one, Mapping):
            raise TypeError(
                f"settings {place} is a {type(one).__name__}. Pass a mapping, with any of {', '.join(_OWN)}."
            )
        for name in one:
            if name not in _OWN:
                alike = difflib.get_close_matches(str(name), _OWN, n=1)
                is_shared = name in shared or not alike
                what = "Pass what all replicates share as an argument." if is_shared else f"Did you mean {alike[0]}?"
                if name == "random_state":
                    what = "One call has one order: give shift, or call it once for each random_state."
                raise ValueError(
                    f"settings {place} has {shown(name, 80)}, which no replicate has of its own; there are "
                    f"{', '.join(_OWN)}. {what}"
                )
        own = {**_OWN, **one}
        try:
            radius = None if own["radius"] is None else RADIUS.check("radius", own["radius"])
            step_size = own["step_size"]
            l2, shift = NON_NEGATIVE.check("l2", own["l2"]), _SHIFT.check("shift", own["shift"])
            if not is_learned(step_size):
                step_sizes(step_size, first=0, count=1, l2=l2)
        except (ValueError, TypeError) as error:
            raise type(error)(f"settings {place}: {error}") from None
        found.append(Setting(dict(one), step_size, l2, radius, own["start"], shift))
    if not found:
        raise ValueError("settings has nothing. Pass a mapping for each replicate; an empty one has the defaults.")
    return found
