"""What a release counts in a ledger: each group of columns with what it costs, before anything is drawn."""

import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from symdebias.exceptions import PrivacyError
from symdebias.mechanisms import sampling
from symdebias.privacy import Guarantee, Ledger, compose

if TYPE_CHECKING:
    from symdebias.release.release import Release


def charge_of(
    release: "Release", ledger: Any, source: sampling.Source, *, has_target: bool, keep_index: bool
) -> Callable[[int], object]:
    """Return what counts a release of so many records, its columns named, in a ledger, or does nothing without one.

    Parameters
    ----------
    release : Release
        With names for its columns.
    ledger : Ledger or None
        The ledger.
    source : sampling.Source
        Where the random numbers come from.
    has_target : bool
        Whether there are targets: without a mechanism they are released as they are.
    keep_index : bool
        Whether row labels are released.

    Raises
    ------
    TypeError
        It is no ledger.
    PrivacyError
        The release has no guarantee that could be counted.
    """
    if ledger is None:
        return lambda records: None
    if not isinstance(ledger, Ledger):
        raise TypeError(
            f"ledger must be a Ledger; got {type(ledger).__name__}. Pass symdebias.Ledger(path, population)."
        )
    if source.seeded or not source.hardened:
        drawn = "a seed" if source.seeded else "plain noise"
        raise PrivacyError(
            f"a ledger counts hardened noise of fresh entropy, and this release asks for {drawn}, whose guarantee does "
            "not hold as it is realised. Leave out random_state and noise, or the ledger for a simulation."
        )
    total = release.guarantee
    if total is None:
        raise PrivacyError(
            "this release has a part that is noised without a privacy claim, or none that is noised, so that it has no "
            "guarantee to count. Declare mechanisms with a guarantee, or leave the ledger out."
        )
    parts = parts_of(release)
    # As they are collected: totals of columns know nothing of indicators.
    open_columns = release.categories.collected(release.noiseless)
    open_target = ("target",) if has_target and release.target is None and release.coupling is None else ()
    unprotected = (*open_columns, *open_target, *(("row labels",) if keep_index else ()))
    card = hashlib.sha256(release.to_json().encode()).hexdigest()

    def charge(records: int) -> object:
        return ledger.charge(parts, unprotected=unprotected, records=records, card=card, hardened=True)

    return charge


def parts_of(release: "Release") -> dict[str | tuple[str, ...], Guarantee]:
    """Return what each group of columns costs, by the names that they are collected under.

    Parameters
    ----------
    release : Release
        With names for its columns, and a guarantee.

    Returns
    -------
    dict from tuple of str to Guarantee
        The target counts as a column called ``target``; in one vector with the features it is one of their group. A
        feature of that name, noised by itself, and the target count as one, with what both cost together.
    """
    collected = release.categories.collected
    if release.coupling is not None:
        ((names, mechanism),) = release.groups
        pairs = [((*collected(names or ()), "target"), release.coupling.released(mechanism).guarantee)]
    else:
        pairs = [(collected(names or ()), mechanism.guarantee) for names, mechanism in release.groups]
        pairs += [] if release.target is None else [(("target",), release.target.guarantee)]
    found: dict[str | tuple[str, ...], Guarantee] = {}
    for names, spent in pairs:
        if spent is not None:
            # A feature may have the name of the target; neither may take the place of the other.
            found[names] = compose([found[names], spent]) if names in found else spent
    return found
