"""Input perturbation: normal noise on the two vectors of a record that a quadratic loss depends on."""

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np

from symdebias._arrays import BooleanArray, FloatArray
from symdebias._domains import COUNT, DELTA, OPEN_UNIT, RADIUS, SCALE
from symdebias.mechanisms import rounded, sampling
from symdebias.mechanisms.base import Mechanism
from symdebias.mechanisms.clipping import in_ball
from symdebias.mechanisms.gaussian import gaussian_vector_noise
from symdebias.mechanisms.ranges import Ball, Pair, Range
from symdebias.noise import AdditiveNoise
from symdebias.privacy import Guarantee, analytic_gaussian_epsilon, analytic_gaussian_scale

# Noise of this size has 2^46 steps of the grid per standard deviation.
_LARGEST_RATIO = 1e10


@dataclass(frozen=True)
class Halves(Range):
    """Vectors (q, p) whose halves lie in a ball each."""

    dimension: int  # The number of components of q and of p.
    # The radii.
    q_bound: float
    p_bound: float

    @property
    def bound(self) -> float:
        """The largest norm of (q, p)."""
        return math.nextafter(math.hypot(self.q_bound, self.p_bound), math.inf)

    @property
    def width(self) -> int:
        """Two components for each parameter."""
        return 2 * self.dimension

    @property
    def farthest(self) -> Pair:
        """Opposite vectors as long as the bounds, in their first components."""
        first = np.zeros(self.width)
        first[[0, self.dimension]] = self.q_bound, self.p_bound
        return first, -first

    def clip(self, values: FloatArray) -> tuple[FloatArray, BooleanArray]:
        """Return rows with either half drawn in to its ball, and which had one outside."""
        if values.ndim != 2 or values.shape[1] != self.width:
            raise ValueError(
                f"a record of {self.dimension} parameters is sent as {self.width} numbers, q before p; the values have "
                f"the shape {values.shape}. Pass rows of {self.width}."
            )
        # Many contiguous rows go through a kernel.
        first, second = (np.ascontiguousarray(half) for half in np.split(values, 2, axis=1))
        (q, longer_q), (p, longer_p) = in_ball(first, self.q_bound), in_ball(second, self.p_bound)
        return np.concatenate([q, p], axis=1), longer_q | longer_p


@dataclass(frozen=True, repr=False)
class InputPerturbation(Mechanism):
    """Normal noise on the vector (q, p) of a record with the loss (w'q)^2/2 - p'w + s, each half with its own scale.

    A contributor computes q and p from their own record (`symdebias.quadratic.as_quadratic`) and sends them noised.

    Parameters
    ----------
    dimension : int
        The number d of parameters; q and p have d components each.
    q_scale, p_scale : float
        The standard deviations of the noise on each component of q and of p.
    q_bound, p_bound : float
        Public bounds on the L2 norms of q and p, positive; never computed from the data. Vectors outside are clipped
        to them before the noise.
    delta : float
        Of the guarantee, in (0, 1).

    Attributes
    ----------
    epsilon : float
        The least epsilon at this delta; local model, replace-one. Not restricted: it may be too large to protect
        anything.

    Raises
    ------
    ValueError, TypeError
        An argument is outside its range.

    Notes
    -----
    In units of its noise, (q/q_scale, p/p_scale) changes by at most
    sqrt((2 q_bound/q_scale)^2 + (2 p_bound/p_scale)^2) when a record is replaced, and the noise has variance 1 in each
    direction: epsilon is that of the analytic curve at this sensitivity. Pairs with opposite q and opposite p attain
    it, so that nothing is given away where these are possible.

    Unless a seed is given the noise is rounded exactly to a fine grid; see `symdebias.mechanisms.rounded`.

    References
    ----------
    Fukuchi, Tran & Sakuma 2017 (arXiv 1710.07425), Algorithm 1; Balle & Wang 2018, Theorem 8, for the guarantee.

    Examples
    --------
    >>> mechanism = InputPerturbation(2, q_scale=4.0, p_scale=8.0, q_bound=1.0, p_bound=1.0, delta=1e-5)
    >>> round(mechanism.epsilon, 4)
    2.2581
    >>> mechanism.columns
    ('q0', 'q1', 'p0', 'p1')
    """

    dimension: int
    q_scale: float
    p_scale: float
    q_bound: float
    p_bound: float
    delta: float
    epsilon: float = field(init=False)
    kind: ClassVar[str] = "input_perturbation"
    card_rounding: ClassVar[float] = 1e-12

    def __post_init__(self) -> None:
        self._declare(dimension=COUNT.check("dimension", self.dimension))
        for name, domain in (
            ("q_scale", SCALE), ("p_scale", SCALE), ("q_bound", RADIUS), ("p_bound", RADIUS), ("delta", DELTA),
        ):  # fmt: skip
            self._declare(**{name: domain.check(name, getattr(self, name))})
        for half, scale, bound in (("q", self.q_scale, self.q_bound), ("p", self.p_scale, self.p_bound)):
            # Of the grid, which is fine beside the bound, the noise must be whole numbers of steps in float64.
            if scale > _LARGEST_RATIO * bound:
                raise ValueError(
                    f"{half}_scale={scale:g} is more than {_LARGEST_RATIO:g} times {half}_bound={bound:g}, and leaves "
                    f"nothing of {half}. Give a smaller scale."
                )
        # Five roundings of at most 2^-53 each.
        ratio = math.hypot(2 * self.q_bound / self.q_scale, 2 * self.p_bound / self.p_scale) * (1 + 2.0**-49)
        if not 1e-100 <= ratio <= 2e100:
            raise ValueError(
                f"bounds and scales differ by a factor of {ratio / 2:g}. It must be within 1e-100 and 1e100: change "
                "units where needed."
            )
        self._declare(epsilon=analytic_gaussian_epsilon(self.delta, 1.0, ratio))

    @classmethod
    def from_budget(
        cls, dimension: int, *, epsilon: float, delta: float, q_bound: float, p_bound: float, p_share: float = 0.5
    ) -> "InputPerturbation":
        """Return the mechanism with the scales of a local budget.

        Parameters
        ----------
        dimension : int
            The number d of parameters.
        epsilon : float
            In [1e-6, 700]; local model, replace-one.
        delta : float
            In (0, 1).
        q_bound, p_bound : float
            Public bounds on the L2 norms of q and p.
        p_share : float
            The share of the squared sensitivity that is p's, in (0, 1): more gives p less noise and q more.

        Examples
        --------
        >>> mechanism = InputPerturbation.from_budget(2, epsilon=1.0, delta=1e-5, q_bound=1.0, p_bound=0.5)
        >>> mechanism.epsilon <= 1.0, mechanism.q_scale == 2 * mechanism.p_scale
        (True, True)
        """
        share = OPEN_UNIT.check("p_share", p_share)
        q_bound, p_bound = RADIUS.check("q_bound", q_bound), RADIUS.check("p_bound", p_bound)
        # A little more noise than the curve asks for, so that rounding leaves epsilon within the budget.
        multiplier = analytic_gaussian_scale(epsilon, delta, 1.0) * (1 + 2.0**-46)
        return cls(
            dimension,
            2 * q_bound * multiplier / math.sqrt(1 - share),
            2 * p_bound * multiplier / math.sqrt(share),
            q_bound,
            p_bound,
            delta,
        )

    @property
    def noise(self) -> AdditiveNoise:
        """Normal noise with a diagonal covariance: q first, then p."""
        variances = self._scales() ** 2
        return gaussian_vector_noise(tuple(tuple(row) for row in np.diag(variances).tolist()))

    @property
    def guarantee(self) -> Guarantee:
        """(epsilon, delta) in the local model."""
        return Guarantee(self.epsilon, self.delta, basis="normal noise on (q, p), analytic curve")

    @cached_property
    def range(self) -> Halves:
        """Vectors (q, p) with a bound on the norm of each."""
        return Halves(self.dimension, self.q_bound, self.p_bound)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names for the components, for a release: q0, q1, ..., p0, p1, ...."""
        return tuple(f"{letter}{place}" for letter in "qp" for place in range(self.dimension))

    def _scales(self) -> FloatArray:
        return np.repeat([self.q_scale, self.p_scale], self.dimension)

    def _add_noise(self, values: FloatArray, source: sampling.Source) -> FloatArray:
        # The sign of normal noise is free: p - noise has the law of p + noise.
        if source.hardened:
            q, p = (np.ascontiguousarray(half) for half in np.split(values, 2, axis=1))
            return np.concatenate(
                [
                    rounded.noised(q, Ball(self.q_bound), self.q_scale, rounded.normal, source),
                    rounded.noised(p, Ball(self.p_bound), self.p_scale, rounded.normal, source),
                ],
                axis=1,
            )
        return values + sampling.normal_noise(1.0, values.shape, source) * self._scales()
