"""Log loss and Brier score under noise on a sphere, where labels are released apart and an intercept stands beside.

Training's surrogates under a spherical cap are of scores of the noised vector alone. Here polynomials of its cosine
stand for functions of the whole score, as `symdebias.evaluation.signs.ZonalSigns` has them for signs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from symdebias._arrays import FloatArray
from symdebias.evaluation.metric import Metric
from symdebias.evaluation.records import Records
from symdebias.evaluation.scores import ReleasedScores
from symdebias.evaluation.signs import ZonalSigns
from symdebias.evaluation.sums import Sums
from symdebias.noise import CoordinateNoise
from symdebias.zonal import ZonalNoise

# A loss of a label -1 or +1 is g(u) + y h(u): log(1 + e^(-yu)) and (1/(1 + e^(yu)))^2.
PARTS: dict[str, tuple[Callable[[FloatArray], FloatArray], Callable[[FloatArray], FloatArray]]] = {
    "log_loss": (lambda u: np.logaddexp(u / 2, -u / 2), lambda u: -u / 2),
    "brier": (lambda u: (1 + np.tanh(u / 2) ** 2) / 4, lambda u: -np.tanh(u / 2) / 2),
}


@dataclass(frozen=True)
class ZonalLoss(Metric):
    """The mean of g(u) + y h(u), with polynomials of the cosine of the score for g and h.

    Attributes
    ----------
    labels : array of shape (n,), float64
        Unbiased estimates of the labels as -1 and +1.
    signs : ZonalSigns
        Of which polynomials are had.
    """

    labels: FloatArray
    signs: ZonalSigns

    def on(self, part: Records) -> Self:
        """Return the metric of some other records."""
        return replace(self, records=part, labels=part.signs_of_labels(), signs=self.signs.on(part))

    @property
    def label_pair(self) -> tuple[float, float]:
        """The two labels."""
        return self.records.labels

    def values(self, theta: FloatArray, rows: Any) -> FloatArray:
        """Return the estimates of some records."""
        scores = self.signs.scores[theta.tobytes()].taken(rows)
        if scores.zonal is None:
            first, second = (function(scores.estimates) for function in PARTS[self.name])
        else:
            released = self.signs.legendre(theta, scores.estimates, released=True)
            first, second = (released @ coefficients for coefficients in self._coefficients(theta))
        found: FloatArray = first + self.labels[rows] * second
        return found

    def bias(self, theta: FloatArray, sums: Sums | None = None) -> tuple[float, bool]:
        """Return the mean size of the error at likely scores, at the worse label of each."""
        if self.signs.scores[theta.tobytes()].zonal is None:
            return 0.0, True
        return float(np.max([self._error(theta, narrow=narrow) for narrow in (False, True)])), False

    def _error(self, theta: FloatArray, *, narrow: bool) -> float:
        nodes = self.signs.likely_scores(theta, narrow=narrow)
        values = self.signs.legendre(theta, nodes)
        errors = [
            np.abs(values @ coefficients - function(nodes))
            for coefficients, function in zip(self._coefficients(theta), PARTS[self.name], strict=True)
        ]
        return float(np.mean(errors[0] + errors[1]))

    def _coefficients(self, theta: FloatArray) -> list[FloatArray]:
        return [
            self.signs.fitted(theta, f"{place} of {self.name}", function, self.records.effective)
            for place, function in enumerate(PARTS[self.name])
        ]


def zonal_loss(name: str, records: Records, thetas: Sequence[FloatArray]) -> ZonalLoss | None:
    """Return the log loss or the Brier score; None but for an intercept beside one vector with noise on a sphere."""
    release = records.release
    shared = release.design(records.matrix.shape[1]).spherical
    if not (release.fit_intercept and any(isinstance(one.noise, ZonalNoise) for one in shared)):
        return None
    if isinstance(release.target_noise, CoordinateNoise):
        return None
    scores = {theta.tobytes(): ReleasedScores.of(records, theta) for theta in thetas}
    if any(one.constant is None for one in scores.values()):
        return None
    found = ZonalLoss(name, "surrogate", records, records.signs_of_labels(), ZonalSigns(records, scores))
    # Parts of the records take what all of them tell.
    for theta in thetas:
        found.values(theta, slice(0, 1))
    return found
