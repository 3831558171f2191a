"""Noise true records as a release says: clip each part to its declared bounds, then noise it."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from symdebias import _arrays
from symdebias._arrays import FloatArray
from symdebias.mechanisms import ChannelMechanism, Mechanism, sampling
from symdebias.mechanisms.ranges import Grid
from symdebias.release.categories import as_declared, target_numbers
from symdebias.release.charging import charge_of
from symdebias.release.columns import standardised
from symdebias.release.groups import Outside, labels_of, labels_of_target, report_outside
from symdebias.release.matrices import bound_to, collected_matrix
from symdebias.release.noised import Noised

if TYPE_CHECKING:
    from symdebias.release.release import Release


def noised_records(
    release: "Release",
    X: Any,
    y: Any,
    source: sampling.Source,
    outside: str | Callable[[Outside], object],
    *,
    keep_index: bool = False,
    ledger: Any = None,
) -> Noised:
    """Return noised records; see `symdebias.Release.privatize`.

    Parameters
    ----------
    release : Release
        With names for its columns.
    X, y, keep_index, ledger
        As for `symdebias.Release.privatize`.
    outside : str or callable
        As for `symdebias.Release.privatize`; or what is told of the records outside before anything is drawn.
    source : sampling.Source
        Where the random numbers come from.
    """
    columns = release.columns
    assert columns is not None
    charge = charge_of(release, ledger, source, has_target=y is not None, keep_index=keep_index)
    # One that takes all columns as they stand refuses NaN and infinity while it clips.
    matrix = collected_matrix(release, X, check_finite=not _takes_all(release))
    labels = labels_of_target(release.target, "range")
    target = None
    if y is not None:
        own = None if release.coupling is None else release.coupling.values
        target = target_numbers(y, labels, rows=len(matrix), numbers=own)
        _arrays.check_same_index(X, y)
    is_own = _is_own(matrix, X)
    released = standardised(matrix, columns, release.center, release.scale, in_place=is_own)
    is_own = is_own or not np.may_share_memory(released, matrix)
    if release.coupling is not None:
        assert target is not None
        return _in_one_vector(release, X, y, released, target, source, outside, charge, keep_index)
    placed = release.placed(len(columns))
    whole = None
    try:
        if len(placed) == 1 and released[:, placed[0][0]].size == released.size:
            ((place, mechanism),) = placed
            if is_own:
                # Those clipped stand where the true ones did, of which nobody but this call has this copy.
                whole = mechanism.clip_in_place(_taken(mechanism, released))
            else:
                whole = mechanism.clip(_taken(mechanism, released[:, place]))
            flags = [whole.outside]
        else:
            flags = [mechanism.clip(_taken(mechanism, released[:, place])).outside for place, mechanism in placed]
    except ValueError as error:
        refused: ValueError | None = error
    else:
        refused = None
    if refused is not None:
        # What the column is called is known here.
        collected_matrix(release, X)
        raise refused
    clipped_target = None if target is None or release.target is None else release.target.clip(target)
    collected = release.categories.collected
    outsiders = [(", ".join(collected(columns[place])), own) for (place, _), own in zip(placed, flags, strict=True)]
    outsiders += [] if clipped_target is None else [("the target", clipped_target.outside)]
    _report(Outside.of(outsiders, len(matrix)), outside, stacklevel=5)
    del flags, outsiders
    # All that may be refused has been: from here on a crash counts a release that never went out.
    charge(len(matrix))
    if whole is not None:
        # Those that were clipped are written over, and the true ones needed no more.
        count = len(matrix)
        del matrix, released
        noised = placed[0][1].noise_in_place(whole, source).reshape(count, -1)
    else:
        noised = released
        if released is matrix and not is_own:
            # An array of the caller's would be written to, and change later.
            noised = matrix.copy() if release.noiseless else np.empty_like(matrix)
        for place, mechanism in placed:
            # Clipped once more: kept since they were counted, the columns would be a second copy of all of them.
            clipped = mechanism.clip(_taken(mechanism, released[:, place]))
            drawn = mechanism.noise_in_place(clipped, source)
            noised[:, place] = drawn.reshape(len(drawn), -1)
            del clipped, drawn
        del matrix, released
    # A copy: an array of the caller's would take along the table that it is a view of.
    sent: Any = target.copy() if target is not None and clipped_target is None else None
    if clipped_target is not None and release.target is not None:
        sent = release.target.noise_in_place(clipped_target, source)
        labels = labels_of_target(release.target, "sent")
        is_text = labels is not None and labels.is_text and _arrays.is_column(y)
        if labels is not None and is_text:
            sent = as_declared(sent, labels)
        sent = _arrays.with_dtype_of(
            y, sent, is_whole=_is_whole(release.target), categories=labels.values if labels and is_text else ()
        )
    own = None if sent is None else _arrays.column_like(y, sent, keep_index=keep_index)
    return Noised(
        _as_sent(release, noised, X, keep_index), own, release, source.seeded, _hardened(release, source), keep_index
    )


def clipped_records(release: "Release", X: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray, Outside]:
    """Return records in released units as they are clipped before the noise, and how many lay outside the bounds.

    Parameters
    ----------
    release : Release
        Without centre, scale and categories that are indicators.
    X : array of shape (n, p), float64
        Features, categories by their places.
    y : array of shape (n,), float64
        Targets.
    """
    release = bound_to(release, X)
    columns, inside, target = release.columns or (), X.copy(), y
    found = []
    for place, mechanism in release.placed(len(columns)):
        # Categories have no bounds.
        if not isinstance(mechanism, ChannelMechanism):
            clipped = mechanism.clip(X[:, place])
            inside[:, place] = clipped.values.reshape(len(X), -1)
            found.append((", ".join(columns[place]), clipped.outside))
    if release.coupling is not None:
        target, beyond = release.coupling.clipped_target(y)
        found.append(("the target", beyond))
    elif release.target is not None and not isinstance(release.target, ChannelMechanism):
        own = release.target.clip(y)
        target = own.values
        found.append(("the target", own.outside))
    return inside, target, Outside.of(found, len(X))


def _in_one_vector(
    release: "Release",
    X: Any,
    y: Any,
    features: FloatArray,
    target: FloatArray,
    source: sampling.Source,
    outside: str | Callable[[Outside], object],
    charge: Callable[[int], object],
    keep_index: bool,
) -> Noised:
    """Noise features and target in one vector, each clipped to its own bounds before they are joined."""
    coupling, ((_, mechanism),) = release.coupling, release.groups
    assert coupling is not None
    clipped = mechanism.clip(features)
    inside, beyond = coupling.clipped_target(coupling.checked_target(target, rows=len(features)))
    names = ", ".join(release.categories.collected(release.columns or ()))
    found = Outside.of([(names, clipped.outside), ("the target", beyond)], len(features))
    _report(found, outside, stacklevel=6)
    # Its own clipping takes up rounding alone: the vector of clipped parts is in the ball.
    vector = coupling.released(mechanism)
    joined = vector.clip(coupling.vectors(clipped.values, inside))
    charge(len(features))
    noised = vector.noise_in_place(joined, source)
    sent, column = coupling.split(noised)
    own = None if column is None else _arrays.column_like(y, column, keep_index=keep_index)
    return Noised(
        _as_sent(release, sent, X, keep_index), own, release, source.seeded, _hardened(release, source), keep_index
    )


def _is_own(matrix: FloatArray, X: Any) -> bool:
    """Whether a matrix that was made of X has entries of its own."""
    if not _arrays.is_table(X):
        return isinstance(X, np.ndarray) and not np.may_share_memory(matrix, X)
    # Columns of a table are put beside one another in an array of its own.
    return True


def _takes_all(release: "Release") -> bool:
    """Whether one mechanism clips all columns as they are collected."""
    if release.coupling is not None or len(release.groups) != 1 or release.noiseless:
        return False
    moved = release.center or release.scale or release.categories
    return not moved and not isinstance(release.groups[0][1], ChannelMechanism)


def _report(found: Outside, outside: str | Callable[[Outside], object], *, stacklevel: int) -> None:
    if callable(outside):
        outside(found)
    else:
        report_outside(found, outside, stacklevel=stacklevel)


def _hardened(release: "Release", source: sampling.Source) -> bool:
    """Return whether hardened noise was drawn: mechanisms without a claim draw plain noise."""
    if not source.hardened or release.coupling is not None:
        return source.hardened and release.guarantee is not None
    # To compose the guarantees takes longer than to noise a record.
    parts = [mechanism for _, mechanism in release.groups] + ([release.target] if release.target else [])
    return bool(parts) and all(part.guarantee is not None for part in parts)


def _as_sent(release: "Release", released: FloatArray, X: Any, keep_index: bool) -> Any:
    """Return released records in the form of X: arrays have codes for categories, in the order of the release.

    Tables have categories as their owners know them, and where it makes sense the data types of the given table:
    columns that are released as they are, integers that are released as whole numbers, text and categories.
    """
    columns = release.columns or ()
    if not _arrays.is_table(X):
        for name, labels in labels_of(release.groups, "sent").items():
            place = columns.index(name)
            if not (labels.is_number_pair or labels.is_text):  # a pair stands for itself, text came as its codes
                released[:, place] = labels.codes(released[:, place])
        return released
    labels_sent = labels_of(release.groups, "sent")
    has_other_types = labels_sent or release.noiseless or any(_is_whole(one) for _, one in release.groups)
    if not has_other_types:
        # All columns are noised numbers, which a table can have where they are.
        return _arrays.table_of(X, columns, released, keep_index=keep_index)
    table = _arrays.frame(X)
    own = {name: table[name] for name in _arrays.column_names(X)}
    sent: dict[str, Any] = dict(zip(columns, released.T, strict=True))
    moved = {pair[0] for pair in (*release.center, *release.scale) if isinstance(pair, tuple)}
    for names, mechanism in release.groups:
        for name in names or ():
            known = labels_sent.get(name)
            if known is not None:
                sent[name] = as_declared(sent[name], known)
            if name in own:
                sent[name] = _arrays.with_dtype_of(
                    own[name], sent[name], is_whole=_is_whole(mechanism) and name not in moved,
                    categories=known.values if known is not None and known.is_text else (),
                )  # fmt: skip
    for name in release.noiseless:
        if name in own and name not in moved:
            sent[name] = _arrays.by_itself(own[name])
    return _arrays.table_like(X, columns, [sent[name] for name in columns], keep_index=keep_index)


def _is_whole(mechanism: Mechanism) -> bool:
    """Return whether whole numbers are all that a mechanism releases of whole numbers, by its declaration."""
    if isinstance(mechanism, ChannelMechanism):
        return not mechanism.sent.is_text and all(value == int(value) for value in mechanism.sent.numbers)
    given = mechanism.range
    return isinstance(given, Grid) and given.step == int(given.step)


def _taken(mechanism: Mechanism, columns: FloatArray) -> FloatArray:
    """Return what a mechanism takes: the numbers that stand for the categories, or the columns as they are."""
    if not isinstance(mechanism, ChannelMechanism):
        return columns
    return np.asarray(np.array(mechanism.range.numbers)[columns[:, 0].astype(int)])
