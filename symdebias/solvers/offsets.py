"""Records with an offset, as records of other targets and weights; see `symdebias.losses.offsets`."""

from typing import Any

import numpy as np

from symdebias._arrays import FloatArray, check_same_index, real_array, weights_array
from symdebias.corrected import CorrectedLoss
from symdebias.losses.offsets import offset_of
from symdebias.noise import ChannelNoise
from symdebias.release.known_term import require_place

# Sums of the squares of larger ones overflow.
_LARGEST = 1e100


def with_offset(
    corrected: CorrectedLoss, X: Any, y: Any, sample_weight: Any, offset: Any
) -> tuple[Any, Any, float, bool]:
    """Return what stands for targets and weights of records whose score theta'x + o has a known term o, shape (n,).

    The weights have the mean of those given, and are None where all are 1. The third number is what the mean gradient
    is multiplied with by that: a penalty has to be, too. X is there for its row labels. The last says that nothing
    stands for them: the offset then is a column more, see `symdebias.solvers.held`.

    Raises
    ------
    ValueError, TypeError
        The loss has several scores or none, the release has features and target in one vector, or the arrays do not
        fit.
    """
    release, rule = corrected.release, offset_of(corrected.declared)
    require_place(release)
    check_same_index(X, y, offset=offset, sample_weight=sample_weight)
    known = as_offset(offset, np.shape(y)[0] if np.ndim(y) else 0)
    hidden = release.target is not None and (release.clips_target or isinstance(release.target.noise, ChannelNoise))
    if rule is None or hidden:
        return y, sample_weight, 1.0, True
    target = real_array(y, "y")
    moved = rule.targets(target, known)
    if not np.all(np.isfinite(moved)):
        row = int(np.argmin(np.isfinite(moved)))
        raise ValueError(
            f"the target of row {row} over exp(offset) is not finite. An offset is the logarithm of an exposure: pass "
            "np.log(exposure)."
        )
    if rule.power == 0:
        return moved, sample_weight, 1.0, False
    own, largest = rule.weights(known)
    given = np.ones(len(own)) if sample_weight is None else weights_array(sample_weight, rows=len(own))
    weights = own * given
    if not weights.any():
        raise ValueError("the offsets of all records with weight are too small beside another one. Check their units.")
    factor = float(given.sum() / weights.sum())
    return moved, np.asarray(weights * factor), factor / largest, False


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
    if rows and not np.abs(known).max() <= _LARGEST:
        row = int(np.argmax(np.abs(known)))
        raise ValueError(
            f"offset is {known[row]:.3g} in row {row}, and no score is so large. An offset is the logarithm of an "
            "exposure, or a known score: check its units."
        )
    return known
