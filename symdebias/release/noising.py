"""Noise true records as a release says: clip each part to its declared bounds, then noise it."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from symdebias import _arrays
from symdebias._arrays import FloatArray
from symdebias.mechanisms import ChannelMechanism, Mechanism, sampling
from symdebias.release.categories import as_declared, target_numbers
from symdebias.release.charging import charge_of
from symdebias.release.columns import standardised
from symdebias.release.groups import labels_of, labels_of_target, report_outside
from symdebias.release.matrices import collected_matrix
from symdebias.release.noised import Noised

if TYPE_CHECKING:
    from symdebias.release.release import Release


def noised_records(
    release: "Release",
    X: Any,
    y: Any,
    source: sampling.Source,
    outside: str,
    *,
    keep_index: bool = False,
    ledger: Any = None,
) -> Noised:
    """Return noised records; see `symdebias.Release.privatize`.

    Parameters
    ----------
    release : Release
        With names for its columns.
    X, y, outside, keep_index, ledger
        As for `symdebias.Release.privatize`.
    source : sampling.Source
        Where the random numbers come from.
    """
    columns = release.columns
    assert columns is not None
    charge = charge_of(release, ledger, source, keep_index=keep_index)
    matrix = collected_matrix(release, X)
    labels = labels_of_target(release.target, "range")
    target = None
    if y is not None:
        target = target_numbers(y, labels, rows=len(matrix))
        _arrays.check_same_index(X, y)
    released = standardised(matrix, columns, release.center, release.scale)
    if release.coupling is not None:
        assert target is not None
        return _in_one_vector(release, X, y, released, target, source, outside, charge, keep_index)
    placed = release.placed(len(columns))
    clipped = [mechanism.clip(_taken(mechanism, released[:, place])) for place, mechanism in placed]
    clipped_target = None if target is None or release.target is None else release.target.clip(target)
    parts = clipped if clipped_target is None else [*clipped, clipped_target]
    report_outside([part.outside for part in parts], len(matrix), outside, stacklevel=4)
    # All that may be refused has been: from here on a crash counts a release that never went out.
    charge(len(matrix))
    for (place, mechanism), part in zip(placed, clipped, strict=True):
        noised = mechanism.add_noise(part, source)
        released[:, place] = noised.reshape(len(noised), -1)
    sent: Any = target
    if clipped_target is not None and release.target is not None:
        sent = release.target.add_noise(clipped_target, source)
        labels = labels_of_target(release.target, "sent")
        if labels is not None and labels.is_text and hasattr(y, "name"):
            sent = as_declared(sent, labels)
    own = None if sent is None else _arrays.column_like(y, sent, keep_index=keep_index)
    return Noised(
        _as_sent(release, released, X, keep_index), own, release, source.seeded, _hardened(release, source), keep_index
    )


def _in_one_vector(
    release: "Release",
    X: Any,
    y: Any,
    features: FloatArray,
    target: FloatArray,
    source: sampling.Source,
    outside: str,
    charge: Callable[[int], object],
    keep_index: bool,
) -> Noised:
    """Noise features and target in one vector, each clipped to its own bounds before they are joined."""
    coupling, ((_, mechanism),) = release.coupling, release.groups
    assert coupling is not None
    clipped = mechanism.clip(features)
    inside, beyond = coupling.clipped_target(coupling.checked_target(target, rows=len(features)))
    report_outside([clipped.outside, beyond], len(features), outside, stacklevel=5)
    # Its own clipping takes up rounding alone: the vector of clipped parts is in the ball.
    vector = coupling.released(mechanism)
    joined = vector.clip(coupling.vectors(clipped.values, inside))
    charge(len(features))
    noised = vector.add_noise(joined, source)
    sent, column = coupling.split(noised)
    own = None if column is None else _arrays.column_like(y, column, keep_index=keep_index)
    return Noised(
        _as_sent(release, sent, X, keep_index), own, release, source.seeded, _hardened(release, source), keep_index
    )


def _hardened(release: "Release", source: sampling.Source) -> bool:
    """Return whether hardened noise was drawn: mechanisms without a claim draw plain noise."""
    return source.hardened and release.guarantee is not None


def _as_sent(release: "Release", released: FloatArray, X: Any, keep_index: bool) -> Any:
    """Return released records in the form of X: tables have categories as their owners know them, arrays codes."""
    table, columns = _arrays.is_table(X), release.columns or ()
    sent: list[Any] = list(released.T)
    for name, labels in labels_of(release.groups, "sent").items():
        place = columns.index(name)
        if table:
            sent[place] = as_declared(sent[place], labels)
        elif not (labels.is_number_pair or labels.is_text):  # a pair stands for itself, text came as its codes
            released[:, place] = labels.codes(released[:, place])
    return _arrays.table_like(X, columns, sent, keep_index=keep_index) if table else released


def _taken(mechanism: Mechanism, columns: FloatArray) -> FloatArray:
    """Return what a mechanism takes: the numbers that stand for the categories, or the columns as they are."""
    if not isinstance(mechanism, ChannelMechanism):
        return columns
    return np.asarray(np.array(mechanism.range.numbers)[columns[:, 0].astype(int)])
