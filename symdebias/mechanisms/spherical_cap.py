"""The spherical cap mechanism: a record is lifted to a sphere, and a point that is likelier near it is released."""

import math
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import ClassVar

import numpy as np

from symdebias._arrays import FloatArray
from symdebias._domains import RADIUS
from symdebias.mechanisms import cap_cosines, cap_points, directions, sampling
from symdebias.mechanisms.base import Clipped, Mechanism, VectorColumns
from symdebias.mechanisms.cap_law import CapLaw, cosine_density, share_of_cap
from symdebias.mechanisms.coordinates import shared_columns
from symdebias.mechanisms.ranges import Ball
from symdebias.privacy import Guarantee, largest_ratio, precise
from symdebias.zonal import LEAST_FACTOR, ZonalNoise

# The incomplete beta function and the density are far better than this.
_NUMERICAL = 1e-6
# Records that take more points than this and D, in the mean, are drawn by their cosine first: that takes as long for
# few columns, and longer for many, of which some are in doubt.
_FEW_TRIALS = 16
# Numbers of records that are lifted to the sphere at a time.
_LIFTED = 2**21


@dataclass(frozen=True, repr=False)
class SphericalCapMechanism(Mechanism):
    r"""A vector of a ball is lifted to a sphere, and a point of the sphere is released, likelier in a cap around it.

    A record x of d numbers becomes :math:`a = (x, \sqrt{R^2 - |x|^2})/R` on the unit sphere of
    :math:`\mathbb R^D`, :math:`D = d + 1`. A point v of the sphere is drawn with a density that is :math:`e^\epsilon`
    times as large where :math:`\langle v, a\rangle \ge \gamma` as elsewhere, and :math:`R (v_1, \dots, v_d)` is
    released: no farther from 0 than R, whatever the record.

    Parameters
    ----------
    epsilon : float
        Privacy budget of the whole vector, in [1e-5, 30]; local model, replace-one; delta is 0.
    radius : float
        R, a public bound on the L2 norm, positive; never computed from the data. Vectors outside are clipped to it.
        One close to the actual norms pays: the noise is of the size of R.
    gamma : float, optional
        The cosine at the rim of the cap, in (0, 1). By default the one with which a linear function of the released
        vector has the least variance, :math:`\gamma = \lambda_1`, found for each d. One that is 1.15 times as large
        hides higher degrees less: for polynomial surrogates of the log loss it has been better, by 8 to 38% of the
        predicted squared error of the gradient.

    Raises
    ------
    ValueError, TypeError
        An argument is outside its range.

    Notes
    -----
    The released vector is no noised copy of the record: its mean is :math:`\lambda_1 x`. Every function of the score
    has to be corrected, linear ones too, by the factors of `noise`.

    Without a seed, what is drawn is private as it is drawn, not only on real numbers. Where `trials` are few, points
    are made of the operating system's bits, without regard to the record, until one is kept: always inside the cap, and
    outside it with a probability q that is at least :math:`e^{-\epsilon_0}` and realised exactly. The released numbers
    are a function of those bits and of the record's place alone, so that the privacy loss is at most :math:`-\log q`
    and the log ratio of two normalisers :math:`p + (1 - p) q`, p the probability that the computed test says "inside".
    That is the same for all records but for rounding; `normaliser_loss` bounds the ratio, and :math:`\epsilon_0` is
    less than epsilon by it. The bound rests on uniform bits, IEEE arithmetic, and logarithms and tangents of NumPy
    within 2^-46 of themselves (see `symdebias.mechanisms.directions`): the first two are assumed, the third is assumed
    and looked at by tests. The number of points that a record takes, hence the time, has the same law for all records
    but for that ratio. The factors of the realised law are those of `noise` up to a few times the bound.

    Where trials would be many, the cosine is drawn first (`symdebias.mechanisms.cap_cosines`), and a record takes one
    normal vector whatever the budget. What is released is a point of exactly the stated law, rounded exactly to a grid
    that is the same for all records, as noise that is added to values is: that costs nothing of epsilon, moves a
    coordinate by 2^-20 of its standard deviation at most, and each coordinate of a record by 2^-30 of the radius. A
    seeded draw takes a faster way to the same law, and protects nothing.

    References
    ----------
    Bhowmick, Duchi, Freudiger, Kapoor & Rogers 2018 (arXiv 1812.00984), Algorithm 1 (PrivUnit); Duchi, Jordan &
    Wainwright 2018, Section 4.2; Asi, Feldman & Talwar 2022 (arXiv 2205.02466), on its optimality for means.

    Examples
    --------
    >>> mechanism = SphericalCapMechanism(epsilon=2.0, radius=1.0)
    >>> mechanism.guarantee.epsilon, mechanism.guarantee.delta
    (2.0, 0.0)
    >>> round(mechanism.rim(2), 10)
    0.4621171573
    >>> sent = mechanism.privatize([[0.6, 0.8]] * 1000, random_state=0)
    >>> bool(np.linalg.norm(sent, axis=1).max() <= 1.0 + 1e-12)
    True
    """

    epsilon: float
    radius: float
    gamma: float | None = field(default=None, kw_only=True)
    kind: ClassVar[str] = "spherical_cap"

    def __post_init__(self) -> None:
        law = CapLaw(self.epsilon, self.gamma)
        self._declare(epsilon=law.epsilon, gamma=law.gamma, radius=RADIUS.check("radius", self.radius))

    @cached_property
    def law(self) -> CapLaw:
        """The law of the cosine between the true and the released point."""
        return CapLaw(self.epsilon, self.gamma)

    @property
    def noise(self) -> ZonalNoise:
        """The noise of a single number."""
        return self.noise_on(1)

    def noise_on(self, width: int) -> ZonalNoise:
        """Return what a correction undoes: the factors of the Legendre polynomials of the sphere.

        Parameters
        ----------
        width : int
            d, the number of columns.
        """
        return ZonalNoise(self.radius, self.law, width)

    @property
    def guarantee(self) -> Guarantee:
        """(epsilon, 0) in the local model, the ratio of the normalisers of the realised sampler included."""
        return Guarantee(self.epsilon, 0.0, basis="cap of a sphere, rounding included")

    @cached_property
    def range(self) -> Ball:
        """Vectors in the ball, or numbers in [-radius, radius]."""
        return Ball(self.radius)

    def rim(self, width: int) -> float:
        """Return the gamma that vectors of so many numbers are noised with.

        Parameters
        ----------
        width : int
            d.
        """
        return self.law.rim(width + 1)

    def trials(self, width: int) -> float:
        """Return how many points of the whole sphere are drawn for one that is kept, in the mean: e^epsilon/Z.

        Hardened points that would take many, more than d + 17, are drawn by their cosine first, from a normal vector.

        Parameters
        ----------
        width : int
            d.
        """
        return self.law.trials(width + 1)

    def normaliser_loss(self, width: int) -> float:
        """Return a bound on the log ratio of the realised normalisers of two records of so many numbers.

        It is part of epsilon: -log q of the sampler is less than epsilon by as much. It is 0 where the cosine is drawn
        first.

        Parameters
        ----------
        width : int
            d.
        """
        return 0.0 if by_cosine(self.law, width + 1) else normaliser_loss(self.law, width + 1)

    def known_columns(self, vector: VectorColumns) -> tuple[tuple[int, Mechanism], ...]:
        """Return the noise of all coordinates as one group: the point of a sphere is one for all."""
        return shared_columns(self, vector)

    def _noise_in_place(self, clipped: Clipped, source: sampling.Source) -> FloatArray:
        return self._add_noise(self._given_up(clipped, SphericalCapMechanism), source)

    def _add_noise(self, values: FloatArray, source: sampling.Source) -> FloatArray:
        rows = values.reshape(len(values), -1)
        # Points are written over the records, whose only copy this is.
        unit = np.divide(rows, self.radius, out=rows if values.flags.writeable else None)
        dimension = unit.shape[1] + 1
        rim = self.law.rim(dimension)
        # Asked of simulations as well, which refuse what a collection would.
        cap_chance = chance_of_cap(self.law, dimension) if by_cosine(self.law, dimension) else None
        if not source.hardened:
            share, inside = self.law.share(dimension), self.law.chance_inside(dimension)
            unit[:] = sampling.simulated_cap_points(lifted(unit), rim, share, inside, source)[:, :-1]
        elif cap_chance is not None:
            cap_cosines.draw_rounded_cap_points(unit, rim, cap_chance, source)
        else:
            chance, trials = chance_outside(self.law, dimension), self.law.trials(dimension)
            size = cap_points.BLOCK * max(1, _LIFTED // (cap_points.BLOCK * dimension))
            for start in range(0, len(unit), size):
                part = unit[start : start + size]
                part[:] = cap_points.cap_points(lifted(part), rim, chance, trials, source)[:, :-1]
        unit *= self.radius
        return unit.reshape(values.shape)


def lifted(unit: FloatArray) -> FloatArray:
    """Return points on the unit sphere above vectors of the unit ball, shape (n, d + 1).

    The norm is 1 up to (d + 4) 2^-53: the sum of d squares is off by d + 1 roundings, and the last coordinate makes up
    for what is computed; where that exceeds 1 by rounding the last coordinate is 0.
    """
    height = np.sqrt(np.maximum(1 - np.einsum("ij,ij->i", unit, unit), 0.0))
    return np.concatenate([unit, height[:, None]], axis=1)


def by_cosine(law: CapLaw, dimension: int) -> bool:
    """Return whether hardened points of a cap in R^D are drawn by their cosine first: trials would rarely meet it."""
    return law.trials(dimension) > _FEW_TRIALS + dimension


@lru_cache(maxsize=1024)
def normaliser_loss(law: CapLaw, dimension: int) -> float:
    r"""Return a bound on the log ratio of the normalisers N = p + (1 - p) q of two records, as the sampler is realised.

    The computed test is that of an exactly uniform direction with a gamma that is off by at most h, except with a
    probability f (`directions.deviation`). So :math:`p^+ - p^- \le 2 h \sup c_D (1 - t^2)^{(D-3)/2} + 2 f`, the
    supremum over the cosines within h of gamma, and the log ratio is at most :math:`(p^+ - p^-)(1 - q)/(p^- + (1 - p^-)
    q)`.
    """
    rim, off = law.rim(dimension), directions.deviation(dimension)
    low, high = max(rim - off.cosine, 0.0), rim + off.cosine
    # The density of the cosine falls with its size for D > 3 and rises for D = 2.
    thin = high >= 1
    steepest = math.inf if thin else max(cosine_density(dimension, low), cosine_density(dimension, high))
    spread = min(2 * off.cosine * steepest, share_of_cap(low, dimension)) + 2 * off.failure
    least = 0.0 if thin else max(share_of_cap(high, dimension) * (1 - _NUMERICAL) - off.failure, 0.0)
    q = math.exp(-law.epsilon)
    return -math.expm1(-law.epsilon) * spread / (least + (1 - least) * q) * (1 + 2 * _NUMERICAL)


def chance_outside(law: CapLaw, dimension: int) -> int:
    """Return q 2^64, rounded up from e^-(epsilon - loss) 2^64, with `normaliser_loss`.

    Parameters
    ----------
    law : CapLaw
        The law.
    dimension : int
        D.
    """
    # A little more off, for what the loss rises by when epsilon falls by it, and for the rounding of the difference.
    inner = law.epsilon - normaliser_loss(law, dimension) * 1.05 - math.ulp(law.epsilon)
    # largest_ratio is at most e^inner, exactly, so that its reciprocal is at least e^-inner.
    return math.ceil(2**64 / largest_ratio(inner))


@lru_cache(maxsize=1024)
def chance_of_cap(law: CapLaw, dimension: int) -> int:
    r"""Return P 2^64, rounded down: P/(1 - P) is at most (e^epsilon - 1) A, A the share of the cap in R^D.

    A point of the cap with that probability, and else one of the whole sphere, has a density that is
    :math:`1 + P/(A (1 - P)) \le e^\epsilon` times as large in the cap as outside.

    Raises
    ------
    ValueError
        The cap is so thin that next to nothing is released of a record.
    """
    mp, rim = precise.context(), law.rim(dimension)
    half, part = mp.mpf(dimension - 1) / 2, (1 - mp.mpf(rim)) / 2
    # The incomplete beta function of (half, half) at part < 1/2, by a series of positive terms (DLMF 8.17.8).
    series = mp.hyp2f1(2 * half, 1, half + 1, part, maxterms=10**8)
    share = (part * (1 - part)) ** half / half / mp.beta(half, half) * series
    # Of the 70 digits more than 30 are left.
    odds = mp.expm1(mp.mpf(law.epsilon)) * share * (1 - mp.mpf(10) ** -30)
    chance = odds / (1 + odds)
    if not chance >= LEAST_FACTOR:
        raise ValueError(
            f"the cap of gamma={rim!r} in {dimension} dimensions is too thin: a released point is one of it with the "
            f"probability {float(chance):.2g}, and tells nothing of the record else. It must be at least "
            f"{LEAST_FACTOR:g}. Give a smaller gamma, or leave it out."
        )
    return int(mp.floor(mp.ldexp(chance, 64)))
