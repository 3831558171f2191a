"""Names of columns, and public numbers for each of them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from symdebias._arrays import FloatArray
from symdebias._domains import Interval, check_name, shown

# Numbers by name, or in the order of the columns while these have no names.
PerColumn = tuple[tuple[str, float], ...] | tuple[float, ...]


def checked_names(names: Any, argument: str) -> tuple[str, ...]:
    """Return names of columns.

    Raises
    ------
    TypeError, ValueError
        They are no sequence of text that is seen as it is; see `symdebias._domains.check_name`.
    """
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise TypeError(
            f"{argument} must be a sequence of column names; got {shown(names, 100)}. Pass a tuple or list of text."
        )
    return tuple(check_name(argument, name) for name in names)


def checked_numbers(values: Any, domain: Interval, argument: str) -> PerColumn:
    """Return public numbers per column.

    Raises
    ------
    TypeError, ValueError
        They are neither a mapping from names nor a sequence, or one is out of range.
    """
    if values is None:
        return ()
    if isinstance(values, Mapping):
        names = checked_names(tuple(values), argument)
        return tuple(sorted((name, domain.check(f"{argument}[{shown(name)}]", values[name])) for name in names))
    if isinstance(values, np.ndarray):
        values = values.tolist()
    if isinstance(values, (str, bytes)) or not isinstance(values, Sequence):
        raise TypeError(
            f"{argument} must map column names to numbers, or list one number per column; got "
            f"{type(values).__name__}. Pass a dict or a list."
        )
    return tuple(domain.check(f"{argument}[{index}]", value) for index, value in enumerate(values))


def named_numbers(values: PerColumn, columns: Sequence[str], argument: str) -> PerColumn:
    """Return public numbers by name, those of a list in the order of the columns.

    Raises
    ------
    ValueError
        They are not one per column, or name another column.
    """
    if values and not isinstance(values[0], tuple):
        if len(values) != len(columns):
            raise ValueError(
                f"{argument} has {len(values)} entries, but the release has {len(columns)} columns: "
                f"{', '.join(columns)}. Give one number per column, or a mapping by name."
            )
        return tuple(sorted(zip(columns, values, strict=True)))
    unknown = sorted(set(dict(values)) - set(columns))  # type: ignore[arg-type]
    if unknown:
        raise ValueError(
            f"{argument} names {', '.join(unknown)}, which is no column of this release. "
            f"Its columns are {', '.join(columns)}."
        )
    return values


def as_json(values: PerColumn) -> dict[str, float] | list[Any]:
    """Return numbers per column as JSON has them."""
    return list(values) if values and not isinstance(values[0], tuple) else dict(values)  # type: ignore[arg-type]


def in_order(values: PerColumn, columns: Sequence[str], *, absent: float) -> FloatArray:
    """Return numbers by name as an array in the order of the columns."""
    by_name = dict(values)  # type: ignore[arg-type]
    return np.array([by_name.get(name, absent) for name in columns])


def standardised(
    matrix: FloatArray, columns: Sequence[str], center: PerColumn, scale: PerColumn, *, in_place: bool = False
) -> FloatArray:
    """Return records, centred and scaled: a copy, or themselves where nothing is to be done or they are given up.

    Raises
    ------
    ValueError
        A number overflows.
    """
    if not (center or scale):
        return matrix
    released = matrix if in_place else matrix.copy()
    with np.errstate(over="ignore"):
        if center:
            released -= in_order(center, columns, absent=0.0)
        if scale:
            released /= in_order(scale, columns, absent=1.0)
    if not np.isfinite(released).all():
        row, column = np.argwhere(~np.isfinite(released))[0]
        raise ValueError(
            f"X overflows when it is centred and scaled, in row {row}, column {column}. Entries must "
            "stay below 1e308: check the units of X, or its scale."
        )
    return released
