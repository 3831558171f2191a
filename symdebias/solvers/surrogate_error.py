"""How far the mean score of a surrogate is from that of the loss, as far as released records tell.

A surrogate is close to the loss where scores were when it was designed. Farther out, where tests look, it is not.
"""

import numpy as np

from symdebias._arrays import FloatArray
from symdebias.correction import Correction
from symdebias.solvers.quadratic_pilot import estimated_multiplier
from symdebias.solvers.scores import ReleasedRecords
from symdebias.solvers.surrogate_curvature import ReleasedScores


class MeanError:
    """The error of a surrogate's mean gradient.

    Parameters
    ----------
    known : ReleasedRecords
        What is known of true scores, not on a sphere.
    correction : Correction
        The surrogate, resolved.
    """

    def __init__(self, known: ReleasedRecords, correction: Correction) -> None:
        assert correction.surrogates is not None
        self._known, self._surrogates = known, correction.surrogates.surrogates
        target = known.sample_of().target
        self._multipliers = [estimated_multiplier(correction, part.multiplier, target) for part in known.parts.replaced]
        self._found: dict[bytes, FloatArray] = {}

    def at(self, theta: FloatArray) -> FloatArray:
        """Return an estimate of E[x e(u)], shape (q,), with e(u) the error of the slope at the true score u of theta.

        Parameters
        ----------
        theta : array of shape (q,), float64
            The parameter.

        Notes
        -----
        With m(v) = E[e(u) | v] given the released score v, from the estimated distribution of true scores, it is
        E[(x + w) m(v)] - N theta E[m'(v)]: a released row has the noise w in it, which goes with v by its covariance
        N theta (Stein 1981), and not with u. The mean is over the records that scores are estimated from.
        """
        key = theta.tobytes()
        if key not in self._found:
            self._found[key] = self._at(theta)
        return self._found[key]

    def _at(self, theta: FloatArray) -> FloatArray:
        known = self._known
        # A glance is enough for a mean, and an interval asks for it at several places.
        released = ReleasedScores.of(known, theta, quick=True)
        sample, grid, values = released.sample, released.grid, released.true.values
        has_widths = bool((np.diff(grid.values) > 0).all())
        errors = [
            surrogate.slope(values) - part.numbers.slope(values)
            for part, surrogate in zip(known.parts.replaced, self._surrogates, strict=True)
        ]
        means = released.means(np.stack(errors, axis=1)).T
        slopes = [np.gradient(mean, grid.values) if has_widths else np.zeros_like(mean) for mean in means]
        total, bend = np.zeros(len(theta)), 0.0
        for some in sample.parts():
            places, chances = released.places(some), sample.chances[some]
            for multiplier, mean, slope in zip(self._multipliers, means, slopes, strict=True):
                weights = chances * multiplier[some]
                total += (weights * grid.between(mean, places)) @ sample.rows[some]
                bend += float(weights @ grid.between(slope, places))
        return np.asarray(total - bend * (known.noise @ theta))
