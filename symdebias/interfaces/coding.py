"""Losses in the coding of the labels that a release has."""

from collections.abc import Sequence

from symdebias.losses import Loss
from symdebias.mechanisms import ChannelMechanism
from symdebias.release import Release


def labels_of(release: Release) -> tuple[float, ...] | None:
    """Return the numbers that stand for the labels of a release, sorted, or None where it names none."""
    if release.coupling is not None:
        return release.coupling.values
    return tuple(sorted(release.target.range.numbers)) if isinstance(release.target, ChannelMechanism) else None


def in_labels(loss: Loss, labels: Sequence[float] | None) -> Loss:
    """Return a loss with these labels as its target values; as it is where they are, or where there are none."""
    if labels is None:
        return loss
    if loss.target_values is None:
        return loss.with_target_values(labels)
    return loss if set(labels) == set(loss.target_values) else loss.recoded(labels)
