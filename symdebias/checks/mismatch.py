"""Are records those of the release that a loss is corrected for? What shows that they are not is refused."""

import numpy as np

from symdebias.checks.scaled import refuse_scaled
from symdebias.checks.targets import refuse_other_labels
from symdebias.checks.units import refuse_other_units
from symdebias.checks.weights import refuse_weights_of_noise
from symdebias.corrected import CorrectedLoss
from symdebias.records import Records


def refuse_mismatch(corrected: CorrectedLoss, records: Records, *, has_offset: bool = False) -> None:
    """Refuse records that were scaled by themselves, are in other units, or have targets that the loss is not of.

    Weights that are made of what was noised are refused as well. Units are looked at where single rows are at hand, and
    records have no noise scales of their own.

    Parameters
    ----------
    corrected : CorrectedLoss
        The loss that they are fitted to.
    records : Records
        Released records, checked.
    has_offset : bool
        Whether targets and weights are those that stand for an offset, which have it in common.

    Raises
    ------
    ValueError
        As for `symdebias.checks.scaled.refuse_scaled`, `symdebias.checks.units.refuse_other_units`,
        `symdebias.checks.targets.refuse_other_labels` and `symdebias.checks.weights.refuse_weights_of_noise`.
    """
    # What is not finite is refused by name later on.
    with np.errstate(invalid="ignore"):
        refuse_scaled(corrected, records.matrix)
        if records.has_any_row and not records.correction.per_record:
            refuse_other_units(corrected, records.matrix, records.weights)
    refuse_other_labels(corrected, records.target, records.weights)
    if corrected.method != "none":
        refuse_weights_of_noise(
            corrected.release, records.matrix, records.target, records.weights, has_offset=has_offset
        )


def refuse_mismatch_of_some(corrected: CorrectedLoss, records: Records) -> None:
    """Refuse records in other units where single rows are not at hand, by those that a fit is tested on.

    It is for when these have been read ahead (`Records.read_ahead`): a pass of its own would be one too many.

    Parameters
    ----------
    corrected, records
        As for `refuse_mismatch`.

    Raises
    ------
    ValueError
        As for `symdebias.checks.units.refuse_other_units`.
    """
    if not (records.has_any_row or records.correction.per_record):
        some = records.tested
        refuse_other_units(corrected, some.matrix, some.weights)
