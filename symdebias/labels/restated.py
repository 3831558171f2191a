"""A convex loss restated as a loss that is 0 at the label and positive elsewhere, with the same optimal randomizer.

Rows of an unbiased randomizer sum to 1 and have the label as mean, so that l(t, y) and

    l(t, y) - l(y, y) - g_y (t - y)

differ by l(y, y) in the mean over t, whatever g_y is. With a subgradient g_y of the convex loss at the label this is
positive (a Bregman divergence), which is Jensen's bound: no unbiased randomizer has a mean loss below that of the true
labels. It also shows which losses are one: every quantile loss is half the absolute loss, and every quadratic is the
squared loss under another prior.
"""

import math
from dataclasses import dataclass

import numpy as np

from symdebias._arrays import FloatArray, IntegerArray
from symdebias.labels.columns import Infeasible, Task
from symdebias.mechanisms.label_loss import LABEL_LOSSES, LabelLoss

# Of the values of a loss, and of the tangent that is taken off them.
_ROUNDING = 2.0**-46
# Neighbours of a label that are closer, in units of the label range, give no slope.
_APART = 1e-9
# A loss that reaches farther beyond that of the labels leaves a linear programme no digits.
_FARTHEST = 1e12


@dataclass(frozen=True)
class Restated:
    """A task whose loss is divided by a unit and is an offset away from what was asked for."""

    task: Task
    squared: bool  # Whether the loss of the task is the squared one.
    unit: float
    offset: float  # The mean loss of the true labels.
    least: float  # The same, rounding taken off.
    sizes: FloatArray | None = None  # Of what was added up to the loss, of shape (m, k) for m outputs.

    def rounding(self, places: IntegerArray, entries: FloatArray) -> float:
        """Return what rounding of the loss may add to its mean.

        For entries of a randomizer, of shape (k, c), at places among the outputs, of shape (c,).
        """
        if self.sizes is None:
            return self.offset - self.least
        return _ROUNDING * float((entries.T * self.sizes[places] * self.task.prior).sum())


def quadratic(loss: LabelLoss, labels: FloatArray, prior: FloatArray, low: float) -> Restated | None:
    """Return the squared loss, under a prior of its own, that a quadratic one is, or None where it is none.

    Parameters
    ----------
    loss : LabelLoss
        The loss.
    labels : array of shape (k,)
        The labels, as declared.
    prior : array of shape (k,)
        Their probabilities, which sum to 1.
    low : float
        Of the task.

    Raises
    ------
    ValueError
        It is concave at a label, or affine at all of them that have a probability.
    """
    middle, half = middle_and_half(labels)
    curvatures = loss.curvatures(labels)
    if curvatures is None:
        return None
    is_convex = np.isfinite(curvatures) & (curvatures >= 0)
    if not is_convex.all():
        place = int(np.argmin(is_convex))
        raise ValueError(
            f"the loss {loss.text[:100]!r} is not convex in the outcome: for the label {labels[place]:g} the factor of "
            f"outcome**2 is {curvatures[place]:g}. Take a convex loss."
        )
    weights = prior * curvatures
    total = float(weights.sum())
    if not total > 0:
        raise ValueError(_indifferent(loss))
    at_label = np.asarray(loss(labels, labels), dtype=float)
    offset, least = _of_true_labels(at_label, prior)
    task = Task((labels - middle) / half, weights / total, low, LABEL_LOSSES["squared"])
    return Restated(task, True, half**2 * total, offset, least)


def convex(loss: LabelLoss, labels: FloatArray, prior: FloatArray, low: float, mesh: FloatArray) -> Restated:
    """Return any convex loss on given outputs, as a table; parameters and errors as of `quadratic`.

    Raises
    ------
    Infeasible
        The outputs do not reach beyond the labels.
    ValueError
        The loss is affine where it is looked at, or grows too fast beyond the labels.
    """
    if not (mesh[0] < labels[0] and mesh[-1] > labels[-1]):
        raise Infeasible("outputs do not reach beyond the labels")
    middle, half = middle_and_half(labels)
    outputs, known = (mesh - middle) / half, (labels - middle) / half
    values = np.asarray(loss(mesh[:, None], labels), dtype=float)
    at_label = np.asarray(loss(labels, labels), dtype=float)
    # Between the slopes to the next outputs on either side lie those of all lines that support the loss at the label.
    apart = _APART * half
    below = np.maximum(np.searchsorted(mesh, labels - apart) - 1, 0)
    above = np.minimum(np.searchsorted(mesh, labels + apart, side="right"), len(mesh) - 1)
    places = np.arange(len(labels))
    left = (at_label - values[below, places]) / (labels - mesh[below])
    right = (values[above, places] - at_label) / (mesh[above] - labels)
    tangents = (left + right) / 2 * (mesh[:, None] - labels)
    table = values - at_label - tangents
    inside = (mesh >= labels[0]) & (mesh <= labels[-1])
    nearby = table[np.unique([*below, *above, *np.flatnonzero(inside)])]
    unit = float(nearby.max()) or float(table.max())
    size = np.abs(values) + np.abs(at_label) + np.abs(tangents)
    if not table.max() > _ROUNDING * float(size.max()):
        raise ValueError(_indifferent(loss))
    if table.max() > _FARTHEST * unit:
        place = int(np.argmax(table.max(axis=1)))
        raise ValueError(
            f"the loss {loss.text[:100]!r} of the outcome {mesh[place]:g} is {table.max() / unit:.1g} times what it is "
            "among the labels, more than a linear programme resolves. Give outputs that do not reach as far, a larger "
            "epsilon, or a loss that grows more slowly."
        )

    def looked_up(some: FloatArray, at: FloatArray) -> FloatArray:
        found: FloatArray = table[np.searchsorted(outputs, some), np.searchsorted(known, at)] / unit
        return found

    offset, least = _of_true_labels(at_label, prior)
    return Restated(Task(known, prior, low, looked_up), False, unit, offset, least, size)


def _of_true_labels(at_label: FloatArray, prior: FloatArray) -> tuple[float, float]:
    """Return the mean loss of the true labels, and the same with rounding taken off."""
    mean = math.fsum(prior * at_label)
    return mean, mean - _ROUNDING * math.fsum(prior * np.abs(at_label))


def middle_and_half(labels: FloatArray) -> tuple[float, float]:
    """Return the middle of the labels and half of their range, the unit of tasks."""
    return float((labels[0] + labels[-1]) / 2), float((labels[-1] - labels[0]) / 2)


def _indifferent(loss: LabelLoss) -> str:
    return (
        f"the loss {loss.text[:100]!r} is affine in the outcome, at all outcomes and labels that count here: its mean "
        "is the same for every unbiased randomizer. Give one that grows with the distance between outcome and label, "
        "such as (outcome - label)**2."
    )
