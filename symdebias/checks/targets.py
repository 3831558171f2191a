"""Are targets of the kind that a loss is of? What no noise explains is refused by name."""

import math
from typing import Any

import numpy as np

from symdebias._arrays import BooleanArray, FloatArray
from symdebias._rows import Rows
from symdebias.corrected import CorrectedLoss
from symdebias.losses import Loss
from symdebias.losses.far_out import changes_far_out
from symdebias.losses.meaning import meaning_of
from symdebias.noise import AdditiveNoise, ChannelNoise

# So many targets are looked at; fewer than the second figure tell nothing of labels.
_HEAD, _FEWEST_LABELS = 10_000, 100
# So many standard errors no noise explains; and what rounding may do to a squared distance, relative.
_FAR, _ROUNDING = 8.0, 1e-9


def refuse_other_labels(corrected: CorrectedLoss, target: FloatArray | Rows, weights: Any) -> None:
    """Refuse targets that a loss is not of: negative counts, and numbers under noise that are not its two labels.

    Parameters
    ----------
    corrected : CorrectedLoss
        The loss that they are fitted to. One without correction takes targets of any kind.
    target : array of shape (n,), float64, or Rows
        Released targets, checked.
    weights : array of shape (n,) or (0,), float64, or Rows
        Their weights: targets without weight are not looked at, where these are an array.

    Raises
    ------
    ValueError
        True targets are negative, and the loss, of counts or another one whose mean is positive at every score, has no
        least value at those; or true targets with additive noise are of another coding than its two labels, as
        `labels_off` says of the first ten thousand.
    """
    present = weights > 0 if isinstance(weights, np.ndarray) and len(weights) and not weights.all() else None
    _refuse_negative(corrected, target, present)
    labels, release = corrected.declared.target_values, corrected.release
    if corrected.method == "none" or release.coupling is not None or labels is None or len(labels) != 2:
        return
    noise = release.target_noise
    if isinstance(noise, AdditiveNoise):
        told = labels_off(_known(target, present)[:_HEAD], (labels[0], labels[1]), noise.variance)
        if told:
            raise ValueError(f"{told} Noise labels as the loss has them, or declare target_values on the loss.")


def _refuse_negative(corrected: CorrectedLoss, target: FloatArray | Rows, present: BooleanArray | None) -> None:
    """Refuse negative targets of a loss of counts, or of another one whose mean is positive at every score.

    A loss that has a least value at a negative target all the same, as least squares about exp(u), takes it. Targets of
    a channel have the sign of its labels; with additive noise it is their mean that is looked at.
    """
    loss, release = corrected.declared, corrected.release
    if corrected.method == "none" or release.coupling is not None or not loss.scores:
        return
    noise = release.target_noise
    known = _known(target, present)
    declared = noise.inputs if isinstance(noise, ChannelNoise) else loss.target_values
    if declared is not None:
        wrong = f"the label {min(declared):g} is declared" if min(declared) < 0 else ""
    elif noise is None:
        below = known < 0
        wrong = f"y[{_first_place(below, present)}] is negative" if below.any() else ""
    else:
        far = isinstance(noise, AdditiveNoise) and len(known) > 1
        error = float(known.std()) / math.sqrt(len(known)) if far else math.inf
        is_far = len(known) > 0 and known.mean() < -_FAR * error
        wrong = "their mean is negative by more than the noise explains" if is_far else ""
    mean = meaning_of(loss).number if wrong else None
    if mean is not None and mean.is_positive and _falls_without_end(loss):
        name = f"the {loss.name} loss" if loss.name else f"the loss {loss.expression}"
        raise ValueError(
            f"{name} is of targets from 0 on, whose mean {mean} is positive at every score; {wrong}. Recode labels to "
            "0 and 1, pass counts as they were counted, or take a loss of such targets: logistic() for labels -1 and "
            "+1, least_squares() for numbers of either sign."
        )


def _known(target: FloatArray | Rows, present: BooleanArray | None) -> FloatArray:
    """Return the targets that are looked at: those with weight, or the first of a source that is read in blocks."""
    if not isinstance(target, np.ndarray):
        return np.asarray(target[slice(_HEAD) if present is None else np.flatnonzero(present)[:_HEAD]])
    return target if present is None else target[present]


def _first_place(is_so: BooleanArray, present: BooleanArray | None) -> int:
    """Return the place among all targets of the first known one that is so; there is one."""
    first = int(is_so.argmax())
    return first if present is None else int(np.flatnonzero(present)[first])


def _falls_without_end(loss: Loss) -> bool:
    """Whether a loss of one score has no lower bound at a negative target: far out it falls by more than rounding."""
    return any(change < -1 for change in changes_far_out(loss, -1.0))


def labels_off(target: FloatArray, labels: tuple[float, float], variance: float) -> str:
    """Return in words by what released targets tell that the true ones are not two labels; an empty text if nothing.

    Less the variance of the noise, the squared distance of a label from the middle between both has a known mean.
    A false alarm takes eight standard errors.

    Parameters
    ----------
    target : array of shape (n,), float64
        Labels with additive noise.
    labels : pair of float
        The labels.
    variance : float
        That of the noise.
    """
    if len(target) < _FEWEST_LABELS:
        return ""
    low, high = min(labels), max(labels)
    wanted = (high - low) ** 2 / 4
    squares = (target - (low + high) / 2) ** 2 - variance
    mean, error = float(squares.mean()), float(squares.std()) / math.sqrt(len(squares))
    if abs(mean - wanted) <= _FAR * error + _ROUNDING * wanted:
        return ""
    return (
        f"the true targets are not the labels {low:g} and {high:g}: their mean squared distance from the middle of "
        f"these, the noise taken out, is {mean:.3g}, and labels have {wanted:.3g}."
    )
