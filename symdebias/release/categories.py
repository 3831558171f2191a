"""Categories in arrays and tables: codes, the numbers that mechanisms take, and what their owners call them."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from symdebias import _arrays
from symdebias._arrays import FloatArray
from symdebias._domains import spell
from symdebias.mechanisms.ranges import Labels


def spelled(value: Any) -> str:
    """Return a category as it stands in the name of a parameter."""
    return value if isinstance(value, str) else spell(float(value))


def column_codes(column: FloatArray, labels: Labels, name: str) -> FloatArray:
    """Return the codes of a column of an array, shape (n,), checked: it holds them, or the numbers of a pair.

    Raises
    ------
    ValueError
        An entry is no category.
    """
    if labels.is_number_pair:
        _arrays.check_labels(
            column, labels.values, f"column {name} of X", remedy="declare categories={} on the mechanism"
        )
        return labels.codes(column).astype(float)
    inside = (column == np.floor(column)) & (column >= 0) & (column < len(labels.values))
    if not inside.all():
        raise ValueError(
            f"column {name} of X has an entry in row {int(np.argmin(inside))} that is no code of a category. An array "
            f"holds the codes 0 to {len(labels.values) - 1}, the places of the declared categories; pass a table for "
            "the categories themselves."
        )
    return column


def target_numbers(
    y: Any, labels: Labels | None, *, rows: int, numbers: Sequence[float] | None = None, check_finite: bool = True
) -> FloatArray:
    """Return a target as numbers, checked: text as its codes, true and false as 1 and 0 where these are the labels.

    Everything else is as it is. `numbers` are the labels where no mechanism has them. Without `check_finite`, NaN and
    infinity are left to the caller.
    """
    if labels is not None and labels.is_text:
        # Of a column of text NumPy would make objects to tell; one of categories has the type of these.
        dtype = getattr(y, "dtype", None)
        dtype = getattr(getattr(dtype, "categories", None), "dtype", dtype)
        kind = getattr(dtype, "kind", "") or np.asarray(y).dtype.kind
        if kind == "b" and not {"False", "True"} <= set(labels.values):
            # As 0 and 1 they would be the places of labels, in the order that these happen to be declared in.
            raise TypeError(
                f"y holds true and false, and the labels are {', '.join(labels.values[:8])}. Pass these: "
                "numpy.where(y, a, b), where a is the label of each that is true."
            )
        if kind in "OUSTb":
            y = _arrays.codes_array(y, labels.values, "y")
    y = _arrays.truth_as_labels(y, numbers if labels is None else labels.values)
    return _arrays.target_array(y, rows=rows, check_finite=check_finite)


def as_declared(numbers: FloatArray, labels: Labels) -> Any:
    """Return categories as their owner knows them, for the numbers that stand for them."""
    return np.array(labels.values, dtype=object if labels.is_text else float)[labels.codes(numbers)]
