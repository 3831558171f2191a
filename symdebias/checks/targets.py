"""Are targets of the kind that a loss is of? What no noise explains is refused by name."""

import math

import numpy as np

from symdebias._arrays import FloatArray
from symdebias._rows import Rows
from symdebias.corrected import CorrectedLoss
from symdebias.losses import Loss
from symdebias.losses.far_out import changes_far_out
from symdebias.losses.meaning import meaning_of
from symdebias.noise import AdditiveNoise, ChannelNoise

# Of targets that are read from files, so many are looked at; and standard errors below 0 that no noise explains.
_HEAD, _FAR = 10_000, 8.0


def refuse_negative(corrected: CorrectedLoss, target: FloatArray | Rows) -> None:
    """Refuse negative targets of a loss of counts, or of another one whose mean is positive at every score.

    A loss that has a least value at a negative target all the same, as least squares about exp(u), takes it.

    Parameters
    ----------
    corrected : CorrectedLoss
        The loss that they are fitted to. One without correction takes targets of any kind.
    target : array of shape (n,), float64, or Rows
        Released targets, checked. Those of a channel have the sign of its labels; with additive noise it is their mean
        that is looked at.

    Raises
    ------
    ValueError
        True targets are negative.
    """
    loss, release = corrected.declared, corrected.release
    if corrected.method == "none" or release.coupling is not None or not loss.scores:
        return
    noise = release.target_noise
    known = target if isinstance(target, np.ndarray) else np.asarray(target[:_HEAD])
    declared = noise.inputs if isinstance(noise, ChannelNoise) else loss.target_values
    if declared is not None:
        wrong = f"the label {min(declared):g} is declared" if min(declared) < 0 else ""
    elif noise is None:
        wrong = f"y[{int(np.argmax(known < 0))}] is negative" if (known < 0).any() else ""
    else:
        far = isinstance(noise, AdditiveNoise) and len(known) > 1
        error = float(known.std()) / math.sqrt(len(known)) if far else math.inf
        wrong = "their mean is negative by more than the noise explains" if known.mean() < -_FAR * error else ""
    mean = meaning_of(loss).number if wrong else None
    if mean is not None and mean.is_positive and _falls_without_end(loss):
        name = f"the {loss.name} loss" if loss.name else f"the loss {loss.expression}"
        raise ValueError(
            f"{name} is of targets from 0 on, whose mean {mean} is positive at every score; {wrong}. Recode labels to "
            "0 and 1, pass counts as they were counted, or take a loss of such targets: logistic() for labels -1 and "
            "+1, least_squares() for numbers of either sign."
        )


def _falls_without_end(loss: Loss) -> bool:
    """Whether a loss of one score has no lower bound at a negative target: far out it falls by more than rounding."""
    return any(change < -1 for change in changes_far_out(loss, -1.0))
