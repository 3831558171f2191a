"""Losses of the catalogue by name, and losses in the coding of the labels that a release has."""

from collections.abc import Sequence

from symdebias import losses
from symdebias._domains import shown
from symdebias._loss_names import CATALOGUE, called_here, why_outside
from symdebias.losses import Loss
from symdebias.mechanisms import ChannelMechanism
from symdebias.release import Release


def loss_by_name(name: str, number_of_classes: int | None) -> Loss:
    """Return a loss of the catalogue; of several scores for so many classes.

    Raises
    ------
    ValueError
        It has none of this name, or a name does not say all of it.
    """
    if name not in CATALOGUE:
        meant = called_here(name)
        raise ValueError(
            why_outside(name)
            or f"loss={shown(name, 60)} is not in the catalogue"
            + (f", where it is called {meant}. " if meant else ". ")
            + f"Choose one of {', '.join(CATALOGUE)}, or pass a symdebias.Loss."
        )
    needed, make = CATALOGUE[name].needs, getattr(losses, name)
    if needed == "classes":
        if number_of_classes is None:
            raise ValueError(
                f"{name} is a loss of labels, and the target has none. Choose another loss, or use a "
                "DebiasedClassifier, which knows the labels of its records."
            )
        return make(number_of_classes)  # type: ignore[no-any-return]
    if needed:
        raise ValueError(
            f"{name} needs a {needed}, which a name does not say. Pass symdebias.losses.{name}({needed}=...)."
        )
    return make()  # type: ignore[no-any-return]


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
