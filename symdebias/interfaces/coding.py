"""Losses of the catalogue by name, and losses in the coding of the labels that a release has."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from symdebias import losses
from symdebias._domains import shown
from symdebias._loss_names import CATALOGUE, called_here, why_outside
from symdebias._rows import in_memory
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


def check_codes(y: Any, release: Release) -> None:
    """Raise ValueError for whole numbers in an array that may be places another tool has given to labels.

    Ensembles of scikit-learn number the labels of a record in sorted order. Text in another order would be exchanged.
    """
    if not isinstance(y, np.ndarray) or y.dtype.kind not in "iu" or y.ndim != 1 or not y.size:
        return
    labels: tuple[Any, ...] | None = labels_of(release)
    if isinstance(release.target, ChannelMechanism):
        labels = release.target.range.values
    if labels is None or not 0 <= y.min() <= y.max() < len(labels):
        return
    encoded = "pass encoded_labels=np.unique(y) of the released y that it is given"
    if isinstance(labels[0], str):
        if list(labels) != sorted(labels):
            named = ", ".join(labels[:8])
            raise ValueError(
                f"y has whole numbers, and the release declares the labels {named} in an order that is not sorted: "
                "ensembles of scikit-learn number labels sorted, and these may be places in either order. Pass y as "
                f"noised.y has it, or the labels themselves; in an ensemble, {encoded}."
            )
    elif not np.isin(y, labels).all():
        allowed = " or ".join(format(value, "g") for value in labels[:8])
        raise ValueError(
            f"labels must be {allowed}; got places from 0 to {y.max()}. Pass y as noised.y has it. "
            f"Where an ensemble of scikit-learn numbers the labels, {encoded}."
        )


def decoded(y: Any, encoded_labels: Any) -> Any:
    """Return the labels for which y has the places 0, 1, ...

    Raises
    ------
    ValueError
        They are not two or more different labels, or y has something else than their places.
    """
    labels, places = np.asarray(encoded_labels), np.asarray(in_memory(y))
    if labels.ndim != 1 or not 2 <= len(labels) == len(np.unique(labels)):
        raise ValueError(
            f"encoded_labels={shown(encoded_labels, 100)} does not list two or more different labels. Pass "
            "np.unique(y) of the released y."
        )
    inside = places.dtype.kind in "iuf" and places.ndim == 1 and np.isin(places, np.arange(len(labels)))
    if not np.all(inside):
        raise ValueError(
            f"y has something else than the places 0 to {len(labels) - 1} of encoded_labels. Leave encoded_labels out "
            "where y has the labels themselves."
        )
    return labels[places.astype(int)]


def names_of(labels: Any, release: Release) -> Any:
    """Return labels by the names that a release has for them, where they are codes of text."""
    found = np.asarray(labels)
    if (
        not isinstance(release.target, ChannelMechanism)
        or not release.target.range.is_text
        or found.dtype.kind in "OUST"
    ):
        return found
    return np.array(release.target.range.values)[found.astype(int)]


def places_in(labels: Any, wanted: Any) -> Any:
    """Return the places of labels among others, shape (k,), integers.

    Raises
    ------
    ValueError
        One of them is not there.
    """
    where = {label: place for place, label in enumerate(labels.tolist())}
    missing = [label for label in wanted.tolist() if label not in where]
    if missing:
        raise ValueError(
            f"encoded_labels leave out the label {shown(missing[0], 60)} of the release, for which there would be no "
            "place. Name every label."
        )
    return np.array([where[label] for label in wanted.tolist()])
