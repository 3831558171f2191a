"""The mechanism of released values in other units: less a number, over another one."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from symdebias.mechanisms.base import ChannelMechanism, Mechanism


def _scaled_covariance(rows: Any, center: float, scale: float) -> Any:
    return [[entry / scale**2 for entry in row] for row in rows]


# How what makes a mechanism changes with the unit of what it noises. What is not named here has no unit.
_CHANGES: Mapping[str, Callable[[Any, float, float], Any]] = {
    "bounds": lambda ends, center, scale: tuple((end - center) / scale for end in ends),
    "radius": lambda radius, center, scale: radius / scale,
    "scale": lambda own, center, scale: own / scale,
    "half_width": lambda width, center, scale: width / scale,
    "step": lambda step, center, scale: step / scale,
    "covariance": _scaled_covariance,
    # A standard deviation, or a covariance.
    "estimate": lambda own, center, scale: (
        _scaled_covariance(own, center, scale) if isinstance(own, tuple) else own / scale
    ),
}
_WITHOUT_UNITS = {"epsilon", "delta", "calibration", "dimension", "padded", "gamma", "r", "degrees_of_freedom"}


def rescaled(mechanism: Mechanism, *, center: float = 0.0, scale: float = 1.0) -> Mechanism:
    """Return the mechanism of (value - center)/scale, whose released values are those of a mechanism in these units.

    If a mechanism releases M(x) of x in its range, the returned one releases (M(x) - center)/scale of (x -
    center)/scale in its own: the same law in other units, at the same budget, since noise and sensitivity are both
    divided by the scale. Noise calibrated to the new range may differ in the last digit: scales are rounded up. The
    centre of a mechanism of vectors in a ball is 0.

    Raises
    ------
    ValueError
        It releases labels, has a centre of its own, or its units are not known.

    Examples
    --------
    >>> from symdebias.mechanisms import LaplaceMechanism
    >>> rescaled(LaplaceMechanism(epsilon=1.0, bounds=(20, 60)), center=40.0, scale=20.0)
    LaplaceMechanism(epsilon=1.0, bounds=(-1.0, 1.0))
    """
    if isinstance(mechanism, ChannelMechanism):
        raise ValueError(f"{mechanism!r} releases labels, which have no units. Leave its column as it is.")
    if center and getattr(mechanism, "radius", None) is not None:
        raise ValueError(f"{mechanism!r} noises vectors in a ball about 0, which is not moved. Leave center out.")
    make: Any = getattr(type(mechanism), mechanism._maker) if mechanism._maker else type(mechanism)
    taken = {name: getattr(mechanism, name, None) for name in inspect.signature(make).parameters}
    unknown = taken.keys() - _CHANGES.keys() - _WITHOUT_UNITS
    if unknown:
        raise ValueError(
            f"{mechanism!r} is not known in other units: nothing says how {', '.join(sorted(unknown))} change with "
            "them. Declare center and scale on the release instead."
        )
    made: Mechanism = make(
        **{
            name: _CHANGES[name](value, center, scale) if name in _CHANGES and value is not None else value
            for name, value in taken.items()
        }
    )
    return made
