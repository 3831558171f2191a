"""Unbiased rounding of continuous labels to declared ones, so that finite randomizers take them."""

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from symdebias._arrays import FloatArray, value_array
from symdebias._domains import check_choice
from symdebias.exceptions import ClippingWarning
from symdebias.mechanisms import sampling
from symdebias.mechanisms.label_randomizer import ascending


def round_labels(
    y: ArrayLike,
    labels: Any,
    *,
    outside: str = "refuse",
    random_state: int | np.random.Generator | None = None,
) -> FloatArray:
    """Return labels rounded at random to one of the two declared labels around them, with themselves as means.

    Parameters
    ----------
    y : array of shape (n,) or (n, 1)
        True labels, finite numbers.
    labels : sequence of float
        The k >= 2 declared labels, ascending; public.
    outside : {"refuse", "clip"}
        What to do with labels outside [labels[0], labels[-1]]: raise, or take the nearest declared label, which is
        biased by how far they lie outside.
    random_state : int, numpy.random.Generator or None
        None draws on the operating system.

    Returns
    -------
    array of shape (n,), float64
        One of `labels` for each record. Its mean is the true label up to 2^-51 of the gap between its neighbours; a
        declared label stays as it is.

    Raises
    ------
    ValueError, TypeError
        Labels are not finite numbers, lie outside, or are not one per record.

    Warns
    -----
    ClippingWarning
        Labels were clipped. The count is a statistic of the data.

    Notes
    -----
    Rounding protects nothing by itself: what is rounded goes through a randomizer afterwards. It adds a variance of
    (y - a)(b - y) between the neighbours a and b.

    References
    ----------
    Badanidiyuru et al. 2023 (arXiv 2312.05659).

    Examples
    --------
    >>> rounded = round_labels(np.full(10_000, 0.25), (0, 1, 3), random_state=0)
    >>> np.unique(rounded).tolist(), abs(float(rounded.mean()) - 0.25) < 0.02
    ([0.0, 1.0], True)
    """
    known = np.array(ascending(labels, "labels"))
    check_choice("outside", outside, ("refuse", "clip"))
    values = value_array(y)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise ValueError(
            f"labels are one number per record; got the shape {values.shape}. Pass an array of shape (n,)."
        )
    beyond = (values < known[0]) | (values > known[-1])
    count = int(beyond.sum())
    if count and outside == "refuse":
        raise ValueError(
            f"{count} of {len(values)} labels lie outside [{known[0]:g}, {known[-1]:g}], the first in row "
            f'{int(np.argmax(beyond))}. Declare labels around them, or give round_labels outside="clip", which is '
            "biased there."
        )
    if count:
        warnings.warn(
            f"{count} of {len(values)} labels lay outside [{known[0]:g}, {known[-1]:g}] and were clipped: their "
            "means are not the labels. This count is a statistic of the true data: do not pass it on.",
            ClippingWarning,
            stacklevel=2,
        )
    values = np.clip(values, known[0], known[-1])
    below = np.minimum(np.searchsorted(known, values, side="right") - 1, len(known) - 2)
    low, high = known[below], known[below + 1]
    up = sampling.flips((values - low) / (high - low), len(values), sampling.source(random_state))
    rounded: FloatArray = np.where(up, high, low)
    return rounded
