"""Degrees of freedom of a covariance over clusters, one for each parameter: how wide Student's t must be.

A covariance over clusters (CR3) is a sum of squares of what leaving out each cluster does, and few or unequal clusters
leave it a scatter of its own. That is known for a model of the clusters' scores: records scatter by themselves, as they
are seen to, and clusters have an effect of their own, as far as the squares tell.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import stdtridf, stdtrit

from symdebias._arrays import FloatArray, IntegerArray

# The level at which Student's t is matched.
_LEVEL = 0.95
# Numbers of the covariances of clusters that are held; where they are more, the clusters of less leverage are taken
# together.
_MOST_NUMBERS = 4_000_000
# Where Satterthwaite's degrees of freedom are more, G - 1 or the normal distribution will do.
_MUCH_FREEDOM = 200.0
# Where a statistic has so heavy a tail, intervals are as those of half a degree of freedom.
_FARTHEST = 200.0
# Ratios of the variances of effects and of records, times that of their sums, that are tried.
_RATIOS = np.concatenate([[0.0], np.geomspace(1e-3, 1e4, 60)])
# Craig's formula is an integral over (0, pi/2), by Gauss and Legendre.
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(48)
_SINES = np.sin((_NODES + 1) * (math.pi / 4)) ** 2


@dataclass(frozen=True)
class ClusterParts:
    """What is known of clusters at a root, for G of them with weight.

    Attributes
    ----------
    whole : array of shape (Q, Q), float64
        H, the sum of all records' weighted Hessians, with the penalty.
    meat : array of shape (Q, Q), float64
        The sum of outer products of all records' weighted gradients, centred.
    mass : array of shape (G,), float64
        Weights of the clusters.
    moves : array of shape (G, Q), float64
        What leaving out each does to theta.
    large : array of shape (L,), int64
        The clusters that are looked at one by one.
    hessians, meats : arrays of shape (L, Q, Q), float64
        Their sums of weighted Hessians, with their share of the penalty, and of outer products of gradients.
    """

    whole: FloatArray
    meat: FloatArray
    mass: FloatArray
    moves: FloatArray
    large: IntegerArray
    hessians: FloatArray
    meats: FloatArray

    def degrees_of_freedom(self) -> FloatArray:
        """Return those of each parameter, shape (Q,): infinite where the variance is as good as known.

        With s_g the score of cluster g, a row of H^-1 and m_g that of (H - H_g)^-1 - H^-1, leaving g out moves a
        parameter by d_g = a's_g - m_g' sum_{h != g} s_h. Scores of covariances V_g make these normal with a covariance
        W that follows. The parameter itself is a' sum s_g, of variance v, and is taken as independent of them. Then

            P(abs(T) > c) = (2/pi) int_0^(pi/2) prod_k (1 + c^2 (G - 1)/G w_k/(v sin^2 f))^-1/2 df

        for T the error over its standard error and w_k the eigenvalues of W (Craig 1991, and the moment generating
        function of sums of squares). The degrees of freedom are those of Student's t with the same 95% point, at most
        G - 1; equal clusters with equal Hessians have just these.

        V_g is J_g + t H_g H^-1 H_g: the cluster's own sum of outer products, and an effect of the cluster on theta. Its
        size t is the most likely one for the d_g of the parameter, as if they were independent.

        References
        ----------
        Bell & McCaffrey 2002 (Survey Methodology 28); Imbens & Kolesar 2016 (Review of Economics and Statistics 98),
        for an estimated effect; Craig 1991 (IEEE MILCOM), for the integral.
        """
        count, size = self.moves.shape
        inverse = np.linalg.inv(self.whole)
        left = np.linalg.inv(self.whole - self.hessians) - inverse
        shared = self.hessians @ inverse @ self.hessians
        # The others are alike but for their weights.
        others = np.ones(count, dtype=bool)
        others[self.large] = False
        rest = self.mass[others]
        rest = rest / rest.sum() if len(rest) else rest
        own_rest = shared_rest = np.zeros((size, size))
        if len(rest):
            small = self.whole - self.hessians.sum(axis=0)
            own_rest, shared_rest = self.meat - self.meats.sum(axis=0), small @ inverse @ small
        found = np.full(size, math.inf)
        squares = np.concatenate([self.moves[self.large], self.moves[others]]) ** 2
        for place in range(size):
            a = inverse[place]
            own = _Moved.of(a, left[:, place], self.meats, own_rest, rest)
            if not own.variance > 0:
                continue
            effect = _Moved.of(a, left[:, place], shared, shared_rest, rest**2)
            ratio = _most_likely(squares[:, place], own.squares, effect.squares)
            found[place] = own.plus(ratio, effect).degrees_of_freedom(count)
        return found


@dataclass(frozen=True)
class _Moved:
    """What leaving out clusters does to a parameter, for scores of given covariances.

    The G - L small clusters move it by themselves, each by little.
    """

    covariance: FloatArray  # Of shape (L, L): of the large clusters.
    small: FloatArray  # Of shape (G - L,): variances of the others.
    variance: float  # That of the parameter.

    @classmethod
    def of(cls, a: FloatArray, pulls: FloatArray, scores: FloatArray, rest: FloatArray, shares: FloatArray) -> "_Moved":
        """Return it for covariances of the scores of large clusters, and shares of that of the others."""
        total = scores.sum(axis=0) + shares.sum() * rest
        own = scores @ a
        crossed = own @ pulls.T
        pulled = np.einsum("kij,kj->ki", scores, pulls) @ pulls.T
        covariance = pulls @ total @ pulls.T - crossed - crossed.T - pulled - pulled.T
        covariance[np.diag_indices(len(pulls))] += 2 * np.diag(crossed) + np.diag(pulled) + own @ a
        small = np.maximum(shares * float(a @ rest @ a), 0.0)
        return cls(covariance, small, float(a @ total @ a))

    @property
    def squares(self) -> FloatArray:
        """The expected squares, large clusters first."""
        return np.concatenate([np.maximum(np.diag(self.covariance), 0.0), self.small])

    def plus(self, ratio: float, other: "_Moved") -> "_Moved":
        return _Moved(
            self.covariance + ratio * other.covariance,
            self.small + ratio * other.small,
            self.variance + ratio * other.variance,
        )

    def degrees_of_freedom(self, count: int) -> float:
        # In units of the parameter's variance, in which squares of variances are numbers.
        covariance, small = self.covariance / self.variance, self.small / self.variance
        mean = float(np.trace(covariance)) + float(small.sum())
        fourths = float(np.sum(covariance**2)) + float(small @ small)
        if mean**2 > _MUCH_FREEDOM * fourths:
            return math.inf if count > _MUCH_FREEDOM else count - 1.0
        sizes = np.concatenate([np.maximum(np.linalg.eigvalsh(covariance), 0.0), small])
        sizes = sizes * ((count - 1) / count)
        # What is small beside the rest is known by its sum.
        known = sizes < 1e-4 * sizes.sum()
        sizes, sure = sizes[~known], float(sizes[known].sum())

        def beyond(reach: float) -> float:
            scaled = reach**2 / _SINES
            logs = np.log1p(np.multiply.outer(sizes, scaled)).sum(axis=0) + sure * scaled
            return float(_WEIGHTS @ np.exp(-logs / 2)) / 2 - (1 - _LEVEL)

        upper = (1 + _LEVEL) / 2
        least = float(stdtrit(count - 1, upper))
        if beyond(least) <= 0:
            return count - 1.0
        if beyond(_FARTHEST) > 0:
            return float(stdtridf(upper, _FARTHEST))
        reach = float(brentq(beyond, least, _FARTHEST, xtol=1e-6))
        return min(float(stdtridf(upper, reach)), count - 1.0)


def _most_likely(squares: FloatArray, own: FloatArray, effect: FloatArray) -> float:
    """Return t for which squares of normal numbers of variances own + t effect are the most likely."""
    some = own + effect > 0
    squares, own, effect = squares[some], own[some], effect[some]
    if not effect.sum() > 0:
        return 0.0
    ratios = _RATIOS * (own.sum() / effect.sum())
    fits = []
    for ratio in ratios:
        variances = np.maximum(own + ratio * effect, 1e-300)
        fits.append(float(np.sum(np.log(variances) + squares / variances)))
    return float(ratios[int(np.argmin(fits))])


def looked_at(large: IntegerArray, leverages: FloatArray, size: int) -> IntegerArray:
    """Return the places, among the large clusters, of those that are looked at one by one: the farthest, if not all.

    Parameters
    ----------
    large : array of shape (L,), int64
        The large clusters.
    leverages : array of shape (G,), float64
        The sums of leverages of all clusters.
    size : int
        Q, the number of parameters.
    """
    most = max(8, _MOST_NUMBERS // size**2)
    if len(large) <= most:
        return np.arange(len(large))
    return np.sort(np.argsort(-leverages[large], kind="stable")[:most])
