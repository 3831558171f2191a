"""Accuracy: the share of records whose label has the sign of their score, with the noise of both taken out."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from symdebias._arrays import FloatArray
from symdebias.evaluation.metric import Metric
from symdebias.evaluation.records import Records
from symdebias.evaluation.signs import Signs, signs_of
from symdebias.evaluation.sums import Sums
from symdebias.exceptions import NoExactCorrectionError


@dataclass(frozen=True)
class Accuracy(Metric):
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

    def values(self, theta: FloatArray, rows: Any) -> FloatArray:
        """Return the estimates (1 + y sign(u - t))/2 of some records."""
        signs = self.signs.at(theta, rows, [self.threshold])[:, 0]
        products: FloatArray = 0.5 + 0.5 * self.labels[rows] * signs
        return products

    def bias(self, theta: FloatArray, sums: Sums | None = None) -> tuple[float, bool]:
        """Return the mean error of the sign over likely scores: of its size, or times the labels of the model."""
        if self.signs.method == "exact":
            return 0.0, True
        errors, found = self.signs.both_errors(theta, self.threshold), []
        for narrow, labels in self.signs.cases(theta, self.label_model):
            found.append(np.mean(np.abs(errors[narrow])) if labels is None else abs(np.mean(errors[narrow] * labels)))
        return float(np.max(found)), False


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
