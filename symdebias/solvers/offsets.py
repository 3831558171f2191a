"""Records with an offset, as records of other targets and weights; see `symdebias.losses.offsets`."""

from typing import Any

import numpy as np

from symdebias._arrays import FloatArray, check_same_index, real_array, weights_array
from symdebias.corrected import CorrectedLoss
from symdebias.losses.offsets import offset_of
from symdebias.noise import ChannelNoise


def with_offset(
    corrected: CorrectedLoss, X: Any, y: Any, sample_weight: Any, offset: Any
) -> tuple[FloatArray, FloatArray | None, float]:
    """Return what stands for targets and weights of records whose score theta'x + o has a known term o, shape (n,).

    The weights have the mean of those given, and are None where all are 1. The third number is what the mean gradient
    is multiplied with by that: a penalty has to be, too. X is there for its row labels.

    Raises
    ------
    ValueError, TypeError
        The loss has no offset, the release hides the target that one needs, or the arrays do not fit.
    """
    release = corrected.release
    if release.coupling is not None:
        raise ValueError(
            "offset= needs a target of its own, and this release has features and target in one vector. Take the "
            "offset off the target before the release, or release them apart."
        )
    if release.target is not None and (release.clips_target or isinstance(release.target.noise, ChannelNoise)):
        raise ValueError(
            f"offset= is taken off the released target, and {release.target!r} leaves no number that it could be taken "
            "off. Release the target with additive noise, or take the offset off before the release."
        )
    rule = offset_of(corrected.declared)
    check_same_index(X, y, offset=offset, sample_weight=sample_weight)
    target, known = real_array(y, "y"), as_offset(offset, np.shape(y)[0] if np.ndim(y) else 0)
    moved = rule.targets(target, known)
    if not np.all(np.isfinite(moved)):
        row = int(np.argmin(np.isfinite(moved)))
        raise ValueError(
            f"the target of row {row} over exp(offset) is not finite. An offset is the logarithm of an exposure: pass "
            "np.log(exposure)."
        )
    if rule.power == 0:
        return moved, sample_weight, 1.0
    own, largest = rule.weights(known)
    given = np.ones(len(own)) if sample_weight is None else weights_array(sample_weight, rows=len(own))
    weights = own * given
    if not weights.any():
        raise ValueError("the offsets of all records with weight are too small beside another one. Check their units.")
    factor = float(given.sum() / weights.sum())
    return moved, np.asarray(weights * factor), factor / largest


def as_offset(offset: Any, rows: int) -> FloatArray:
    """Return an offset as an array of shape (rows,), float64.

    Raises
    ------
    ValueError, TypeError
        It is none.
    """
    known = real_array(offset, "offset")
    if known.shape != (rows,):
        raise ValueError(f"offset has the shape {known.shape}; it must be ({rows},): one number per record.")
    return known
