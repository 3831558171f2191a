"""Accuracy: the share of records whose label has the sign of their score, with the noise of both taken out.

Of several classes it is the share whose label has the largest score, where the noise is that of labels alone.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from symdebias._arrays import FloatArray
from symdebias.evaluation.metric import Metric, unseen_of_share
from symdebias.evaluation.records import Records
from symdebias.evaluation.scores import ReleasedScores
from symdebias.evaluation.signs import Signs, signs_of
from symdebias.evaluation.sums import Sums
from symdebias.exceptions import NoExactCorrectionError

# Shares that are a half but for rounding, relative to it.
_HALF = 1e-9


class _ShareOfAll(Metric):
    """A share of all records."""

    def with_other_labels(self, thetas: Sequence[FloatArray], value: float) -> float:
        """Return how far it may be from its estimate if no record shows the other outcome.

        Noise of scores varies what each record counts, which says nothing of how rare that outcome is. A half has both
        outcomes, or scores that are all at the threshold.
        """
        return 0.0 if math.isclose(value, 0.5, rel_tol=_HALF) else unseen_of_share(value, self.independent)


@dataclass(frozen=True)
class Accuracy(_ShareOfAll):
    """1/2 + mean(y sign(u - t))/2.

    Attributes
    ----------
    labels : array of shape (n,), float64
        Unbiased estimates of the labels as -1 and +1.
    signs : Signs
        Of the scores.
    threshold : float
        t, above which a score stands for the larger label.
    label_model : {"any", "logistic"}
        What the bound on the bias assumes of labels.
    """

    labels: FloatArray
    signs: Signs
    threshold: float
    label_model: str
    higher_is_better: ClassVar[bool] = True

    def on(self, part: Records) -> Self:
        """Return the metric of some other records."""
        return replace(self, records=part, labels=part.signs_of_labels(), signs=self.signs.on(part))

    @property
    def label_pair(self) -> tuple[float, float]:
        """The two labels."""
        return self.records.labels

    def values(self, theta: FloatArray, rows: Any) -> FloatArray:
        """Return the estimates (1 + y sign(u - t))/2 of some records."""
        signs = self.signs.at(theta, rows, [self.threshold])[:, 0]
        products: FloatArray = 0.5 + 0.5 * self.labels[rows] * signs
        return products

    def bias(self, theta: FloatArray, sums: Sums | None = None) -> tuple[float, bool]:
        """Return the mean error of the sign over likely scores: of its size, or times the labels of the model."""
        if self.signs.method == "exact":
            return 0.0, True
        found = []
        gathered = self.signs.gathered(theta, self.threshold)
        for likely in (*self.signs.cases(theta, self.label_model), *gathered):
            errors = self.signs.errors(theta, likely.scores, self.threshold) / 2
            found += [
                np.mean(np.abs(errors)) if labels is None else abs(np.mean(errors * labels)) for labels in likely.labels
            ]
        return float(np.max(found)), False


@dataclass(frozen=True)
class AccuracyOfClasses(_ShareOfAll):
    """The mean of [the class of the largest score is that of the record].

    Attributes
    ----------
    classes : tuple of float
        The values of the target, one for each score.
    """

    classes: tuple[float, ...]
    higher_is_better: ClassVar[bool] = True

    def on(self, part: Records) -> Self:
        """Return the metric of some other records."""
        return replace(self, records=part)

    def values(self, theta: FloatArray, rows: Any) -> FloatArray:
        """Return unbiased estimates of whether records are right; classes that share the largest score share it."""
        part = self.records.only(rows)
        if part.release.target_noise is None:
            part.require_values(self.classes)
        scores = np.stack([ReleasedScores.of(part, own).estimates for own in theta], axis=1)
        is_largest = scores == scores.max(axis=1, keepdims=True)
        labels = np.stack([part.shares_of(value) for value in self.classes], axis=1)
        return np.asarray(np.sum(is_largest * labels, axis=1) / is_largest.sum(axis=1))


def accuracy_of_classes(records: Records, thetas: Sequence[FloatArray], *, threshold: float) -> AccuracyOfClasses:
    """Return the accuracy of models with a score for each class.

    Raises
    ------
    NoExactCorrectionError
        The scores carry noise, or the noise of the target tells no shares of its values.
    ValueError
        A threshold was given, or there are more or fewer values than scores.
    """
    if threshold != 0:
        raise ValueError(f"threshold={threshold:g} is one of a single score, and this model has several. Leave it out.")
    classes = records.classes(len(thetas[0]))
    if any(ReleasedScores.of(records.light, own).noise > 0 for theta in thetas for own in theta):
        raise NoExactCorrectionError(
            "which of several scores is the largest is no smooth function of them, and the noise of their columns is "
            "not undone in it. Evaluate the loss that was fitted, as metric=fit.corrected.declared, or score true "
            "records by fit.score."
        )
    return AccuracyOfClasses("accuracy", "exact", records, classes)


def accuracy(
    records: Records, thetas: Sequence[FloatArray], *, radius: float | None, label_model: str, threshold: float
) -> Accuracy:
    """Return the accuracy, corrected for all thetas that are to be compared; other arguments as for `evaluate`."""
    if records.of_margins and label_model != "any":
        raise NoExactCorrectionError(
            f"label_model={label_model!r} is one of labels given scores, and a margin release tells "
            'their product alone. Leave it at "any".'
        )
    if records.of_margins and threshold != 0:
        raise NoExactCorrectionError(
            f"threshold={threshold:g} is one of scores, and a margin release tells them times the label alone. Leave "
            "it at 0."
        )
    signs = signs_of("accuracy", records, thetas, radius=radius, thresholds=[threshold])
    return Accuracy("accuracy", signs.method, records, records.signs_of_labels(), signs, threshold, label_model)
