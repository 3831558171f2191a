"""Records with an offset, as records of other targets and weights; see `symdebias.losses.offsets`."""

from typing import Any, TypeVar

import numpy as np

from symdebias._arrays import FloatArray, check_same_index, length_of, real_array, weights_array
from symdebias._rows import in_memory
from symdebias.corrected import CorrectedLoss
from symdebias.derivation import is_affine
from symdebias.losses.offsets import Offset, offset_of
from symdebias.noise import ChannelNoise
from symdebias.records import Records
from symdebias.release.known_term import require_place
from symdebias.solvers.regions import Region

_Run = TypeVar("_Run", bound=Records)

# Sums of the squares of larger ones overflow.
_LARGEST = 1e100
# Methods whose bias is bounded for parameters of a length, that of the intercept in it.
_BOUNDED_BY_LENGTH = ("series", "quadrature")


def with_offset(
    corrected: CorrectedLoss, X: Any, y: Any, sample_weight: Any, offset: Any, *, l2: float = 0.0, is_part: bool = False
) -> tuple[Any, Any, float, bool]:
    """Return what stands for targets and weights of records whose score theta'x + o has a known term o, shape (n,).

    The weights have the mean of those given, and are None where all are 1. The third number is what the mean gradient
    is multiplied with by that: a penalty has to be, too. X is there for its row labels. The last says that nothing
    stands for them: the offset then is a column more, see `symdebias.solvers.held`. So it is for a part of a stream,
    `is_part`, where it makes weights: these would be relative to the part; with a penalty `l2` see `rule_for`.

    Raises
    ------
    ValueError, TypeError
        The loss has several scores or none, the release has features and target in one vector, or the arrays do not
        fit.
    """
    rule = rule_for(corrected, l2)
    check_same_index(X, y, offset=offset, sample_weight=sample_weight)
    rows = length_of(y)
    if not rows:
        # It is the records that are missing, and not what goes with them.
        corrected.records(X, y)
    known = as_offset(offset, rows)
    if rule is None or (is_part and rule.power != 0):
        return y, sample_weight, 1.0, True
    moved = moved_target(rule, y, known)
    if rule.power == 0:
        return moved, sample_weight, 1.0, False
    largest = rule.largest(known)
    weights, total = moved_weights(rule, known, sample_weight, largest)
    factor = total / float(weights.sum())
    return moved, np.asarray(weights * factor), factor / rule.weight(largest), False


def rule_for(corrected: CorrectedLoss, l2: float = 0.0) -> Offset | None:
    """Return what stands for an offset in targets and weights under a release; None where it has to be a column more.

    With a penalty it has to be where it makes weights: the equation of a record has the penalty times the weight that
    was given, and outer products of equations that have it times the exposure are not those of the estimate.

    Raises
    ------
    ValueError
        The loss has several scores or none, or the release has features and target in one vector.
    """
    release, rule = corrected.release, offset_of(corrected.declared)
    require_place(release)
    hidden = release.target is not None and (release.clips_target or isinstance(release.target.noise, ChannelNoise))
    return None if hidden or (l2 and rule is not None and rule.power != 0) else rule


def exposure_gain(corrected: CorrectedLoss, known: FloatArray, sample_weight: Any) -> float:
    """Return what weights that stand for an offset, shape (n,), would multiply the mean gradient with; 1 without any.

    It is for steps whose size is given: they are as long where such an offset is a column more.

    Raises
    ------
    ValueError, TypeError
        The weights do not fit, or all are 0 beside the largest.
    """
    rule = rule_for(corrected)
    if rule is None or rule.power == 0:
        return 1.0
    largest = rule.largest(known)
    weights, total = moved_weights(rule, known, sample_weight, largest)
    return total / float(weights.sum()) / rule.weight(largest)


def moved_target(rule: Offset, y: Any, known: FloatArray) -> FloatArray:
    """Return what stands for targets with an offset, shape (n,).

    Raises
    ------
    ValueError, TypeError
        They are no numbers, or not finite over exp(offset).
    """
    # As long as the offset, which is in memory too.
    moved = rule.targets(real_array(in_memory(y), "y"), known)
    if not np.all(np.isfinite(moved)):
        row = int(np.argmin(np.isfinite(moved)))
        raise ValueError(
            f"the target of row {row} over exp(offset) is not finite. An offset is the logarithm of an exposure: pass "
            "np.log(exposure)."
        )
    return moved


def moved_weights(rule: Offset, known: FloatArray, sample_weight: Any, largest: float) -> tuple[FloatArray, float]:
    """Return what stands for weights with an offset, over e^largest, shape (n,), and the sum of those given.

    Raises
    ------
    ValueError, TypeError
        The weights do not fit, or all are 0 beside e^largest.
    """
    given = np.ones(len(known)) if sample_weight is None else weights_array(sample_weight, rows=len(known))
    weights = rule.weights(known, largest) * given
    if not weights.any():
        raise ValueError("the offsets of all records with weight are too small beside another one. Check their units.")
    return weights, float(given.sum())


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


def less_middle(corrected: CorrectedLoss, records: _Run, region: Region) -> _Run:
    """Return records with targets less their middle where an intercept takes it up, for a loss of the residual.

    Fits of targets less a number are those of the targets, the intercept less that number. About 0 their residuals are
    as long as they spread, whatever their origin is. Where the slope is affine in the target the curvature is the same
    wherever targets are, and they are left as they are: targets less a number are a column more in memory.

    Parameters
    ----------
    corrected : CorrectedLoss
        The loss.
    records : Records
        Its records, whose tested ones are looked at.
    region : Region
        Where parameters may go.
    """
    release = corrected.release
    is_free = release.fit_intercept and type(region) is Region and release.coupling is None
    if not is_free or len(corrected.declared.scores) != 1 or corrected.method in _BOUNDED_BY_LENGTH:
        return records
    rule, loss = rule_for(corrected), corrected.declared
    if rule is None or rule.divides or is_affine(loss.expression.diff(loss.scores[0]), loss.target):
        return records
    middle = float(np.median(records.tested.target[:]))
    return records.lowered(middle) if middle else records
