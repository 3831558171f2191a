"""Known uniform noise: rounding errors and jitter, which protect nothing but can be undone for polynomials."""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import ClassVar

import sympy as sp

from symdebias._arrays import FloatArray
from symdebias._domains import SCALE
from symdebias.mechanisms import sampling
from symdebias.mechanisms.base import Mechanism
from symdebias.mechanisms.ranges import Numbers
from symdebias.noise import FREQUENCY, VALUE, AdditiveNoise


@dataclass(frozen=True)
class UniformMechanism(Mechanism):
    """Uniform noise on [-half_width, half_width], without a privacy claim.

    Parameters
    ----------
    half_width : float
        Half the width of the noise, positive; the variance is half_width^2/3.
    bounds : pair of float, optional
        Public bounds of the numbers; without them nothing is clipped.

    Raises
    ------
    ValueError, TypeError
        An argument is outside its range.

    Notes
    -----
    No epsilon protects: a value outside the reach of another rules it out. Its inverse is an infinite telescoping
    sum, so that of the losses only polynomials and exponentials of the score have an exact correction.

    References
    ----------
    Sheppard 1898 (corrections of moments for grouping, which this undoes).

    Examples
    --------
    >>> round(UniformMechanism(0.5).noise.variance, 4)
    0.0833
    """

    half_width: float
    bounds: tuple[float, float] | None = None
    kind: ClassVar[str] = "uniform"

    def __post_init__(self) -> None:
        self._declare(half_width=SCALE.check("half_width", self.half_width), bounds=Numbers(self.bounds).bounds)

    @property
    def noise(self) -> AdditiveNoise:
        """The uniform noise."""
        return uniform_noise(self.half_width)

    @property
    def guarantee(self) -> None:
        """None: bounded noise rules values out."""
        return None

    @cached_property
    def range(self) -> Numbers:
        """Numbers within the bounds."""
        return Numbers(self.bounds)

    def _add_noise(self, values: FloatArray, source: sampling.Source) -> FloatArray:
        return values + sampling.uniform_noise(self.half_width, values.shape, source)


@lru_cache(maxsize=1024)
def uniform_noise(half_width: float) -> AdditiveNoise:
    """Return uniform noise on [-half_width, half_width]; phi = sin(a w)/(a w)."""
    # A fraction, as in staircase_noise.
    a = sp.Rational(half_width)
    density = sp.Piecewise((1 / (2 * a), sp.Abs(VALUE) <= a), (0, True))
    return AdditiveNoise(half_width**2 / 3, sp.sin(a * FREQUENCY) / (a * FREQUENCY), density)
