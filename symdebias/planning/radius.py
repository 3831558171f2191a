"""A private pilot that chooses the radius of a release: how long vectors are, told by randomized response."""

import itertools
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import betaincinv

from symdebias import _arrays
from symdebias._arrays import FloatArray
from symdebias._domains import EPSILON, OPEN_UNIT, POSITIVE, shown
from symdebias.exceptions import InferenceError
from symdebias.mechanisms import RandomizedResponse
from symdebias.privacy import Guarantee


@dataclass(frozen=True)
class RadiusPilot:
    """Which of some public radii holds nearly all vectors, from reports that are private each.

    Noise is in proportion to the radius, and vectors beyond it are clipped. The radius has to be public: computed from
    the data it tells of them. In a pilot each record reports by randomized response between which candidates its norm
    lies; of many reports the share of vectors beyond each candidate is estimated without bias.

    Parameters
    ----------
    epsilon : float
        The budget of a report, in [1e-6, 700]. Whoever takes part in the pilot and in the release afterwards spends
        both; people of a pilot of their own spend this alone.
    radii : sequence of float
        Candidates, positive and increasing; public.

    Raises
    ------
    ValueError, TypeError
        The candidates are no increasing positive numbers, or epsilon is outside its range.

    References
    ----------
    Warner 1965; Kairouz, Bonawitz & Ramage 2016 (estimates from k-ary randomized response).

    Examples
    --------
    >>> import numpy as np
    >>> pilot = RadiusPilot(epsilon=2.0, radii=(0.5, 1.0, 2.0))
    >>> X = np.random.default_rng(0).uniform(-0.5, 0.5, size=(20_000, 3))
    >>> reports = pilot.privatize(X, random_state=0)
    >>> pilot.outside(reports)[0].round(2).item()                # 1 - pi/6 lie beyond the ball
    0.48
    >>> pilot.choose(reports, share=0.05)
    1.0
    """

    epsilon: float
    radii: tuple[float, ...]

    def __post_init__(self) -> None:
        try:
            radii = tuple(POSITIVE.check("radii", radius) for radius in self.radii)
        except TypeError:
            raise TypeError(
                f"radii={shown(self.radii, 60)} is no list of numbers. Give candidates, as (1, 2)."
            ) from None
        if not radii or any(low >= high for low, high in itertools.pairwise(radii)):
            raise ValueError(
                f"radii={shown(self.radii, 60)} must be increasing, and at least one. Sort the candidates."
            )
        object.__setattr__(self, "radii", radii)
        object.__setattr__(self, "epsilon", EPSILON.check("epsilon", self.epsilon))

    @cached_property
    def mechanism(self) -> RandomizedResponse:
        """What noises a report: the number of candidates that a norm is beyond."""
        return RandomizedResponse(epsilon=self.epsilon, categories=tuple(range(len(self.radii) + 1)))

    @property
    def guarantee(self) -> Guarantee:
        """That of a report."""
        found = self.mechanism.guarantee
        assert found is not None
        return found

    def privatize(self, X: Any, *, random_state: int | np.random.Generator | None = None) -> FloatArray:
        """Return reports of true vectors.

        Parameters
        ----------
        X : array of shape (n, p) or table
            True vectors, as the release will take them: centred and scaled.
        random_state : int, numpy.random.Generator or None
            None draws on the operating system; a seed is for simulations.

        Returns
        -------
        array of shape (n,), float64
            Numbers from 0 to the number of candidates.
        """
        norms = np.linalg.norm(_arrays.features_array(X), axis=1)
        beyond = np.searchsorted(np.array(self.radii), norms, side="left").astype(float)
        return np.asarray(self.mechanism.privatize(beyond, random_state=random_state), dtype=np.float64)

    def outside(self, reports: Any) -> FloatArray:
        """Return estimates without bias of the shares of vectors beyond each candidate.

        Parameters
        ----------
        reports : array of shape (n,)
            What `privatize` returned.

        Returns
        -------
        array of shape (k,), float64
            In the order of the candidates; noise may take them below 0 or above 1.
        """
        return np.asarray(self._estimates(reports).mean(axis=0), dtype=np.float64)

    def choose(self, reports: Any, *, share: float = 0.01, confidence: float = 0.95) -> float:
        """Return the least candidate that at most a share of the vectors is beyond, as all larger ones.

        Parameters
        ----------
        reports : array of shape (n,)
            What `privatize` returned.
        share : float
            In (0, 1).
        confidence : float
            Of the choice, in (0, 1): the share beyond each candidate is held to the upper end of its one-sided interval
            of this level.

        Raises
        ------
        InferenceError
            There is no such candidate: the message says how large the share beyond the last may be.

        Notes
        -----
        How many reports are beyond a candidate is binomial, and the estimate is linear in it: the interval is that of
        Clopper & Pearson 1934, which covers for any number of reports. Candidates are tried from the largest one down
        to the first that fails: the choice is wrong only where an interval that does not cover comes first, so that
        its level is that of one interval, however many candidates there are.
        """
        share, level = OPEN_UNIT.check("share", share), OPEN_UNIT.check("confidence", confidence)
        estimates = self._estimates(reports)
        # An estimate of one report has two values, the larger one for a report that is beyond.
        every = self._estimates(np.arange(len(self.radii) + 1))
        within, beyond = every[0], every[-1]
        counts, total = (estimates > (within + beyond) / 2).sum(axis=0), len(estimates)
        most = np.where(counts < total, betaincinv(counts + 1, np.maximum(total - counts, 1), level), 1.0)
        upper = np.minimum(within + (beyond - within) * most, 1.0)
        fail = np.flatnonzero(upper > share)
        first = int(fail[-1]) + 1 if len(fail) else 0
        if first == len(self.radii):
            raise InferenceError(
                f"{upper[-1]:.3g} of the vectors may be beyond the largest candidate, {self.radii[-1]:g}, and at most "
                f"{share:g} are allowed. Give larger candidates, more reports or a larger epsilon, or allow a larger "
                "share."
            )
        return self.radii[first]

    def _estimates(self, reports: Any) -> FloatArray:
        """Return what one report says of the indicators of being beyond each candidate, shape (n, k)."""
        codes = _arrays.value_array(reports)
        if codes.ndim != 1 or not len(codes) or not np.isin(codes, np.arange(len(self.radii) + 1)).all():
            raise ValueError(
                f"reports must be whole numbers from 0 to {len(self.radii)}, one for each record of the pilot. Pass "
                "what privatize returned."
            )
        # Entry [a, k]: what the output a says of lying in the interval k; summed over those beyond a candidate.
        weights = self.mechanism.noise.exact_weights("the report")
        beyond = np.cumsum(weights[:, ::-1], axis=1)[:, ::-1][:, 1:]
        return np.asarray(beyond[codes.astype(int)], dtype=np.float64)
