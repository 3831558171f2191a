"""What about released records does not fit their card."""

from collections.abc import Collection

from symdebias.checks import check_records
from symdebias.checks.scaled import FEWEST
from symdebias.release import Noised
from symdebias.release.choosing import apart

# Of the check of records: sound ones are noted so rarely.
_FALSE_ALARMS = 1e-6


def doubts_of(noised: Noised, scaled: Collection[str] = ()) -> str:
    """Return what of released records does not fit their card; nothing where all does, or they are too few.

    Parameters
    ----------
    noised : Noised
        The records.
    scaled : collection of str
        Columns whose noise has scales of each record, and so is not that of the card.
    """
    if len(noised.X) < FEWEST:
        return ""
    if scaled:
        if set(scaled) == set(noised.release.columns or ()):
            return ""
        noised, _ = apart(noised, list(scaled))
    check = check_records(noised.release, noised.X, noised.y, false_alarm_rate=_FALSE_ALARMS)
    if check.fits:
        return ""
    return ", ".join(f"{probe.column} ({probe.name})" for probe in check.flagged)
