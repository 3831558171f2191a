"""The only place that draws noise.

The sampler is NumPy's. It is not yet hardened against attacks on floating-point arithmetic: the set of
numbers that ``x + normal()`` can take depends on x, and one released value can tell two records apart
(Mironov 2012; Haney et al. 2022). A guarantee is that of the mechanism on real numbers. The time that a draw
takes and what is left in memory are not covered either.
"""

import secrets
from dataclasses import dataclass
from typing import Any

import numpy as np

from symdebias import _randomness
from symdebias._arrays import FloatArray


@dataclass(frozen=True)
class Source:
    """Where random numbers come from.

    Attributes
    ----------
    generator : numpy.random.Generator
        The generator.
    seeded : bool
        Whether somebody else can know the stream: then what is drawn protects nothing.
    """

    generator: np.random.Generator
    seeded: bool


def source(random_state: int | np.random.Generator | None) -> Source:
    """Return fresh entropy of the operating system, or a seeded stream for tests and simulations.

    Parameters
    ----------
    random_state : int, numpy.random.Generator or None
        None for data that are to be private. A fresh stream is made at each call, so that processes forked
        from one another never share one.

    Raises
    ------
    TypeError, ValueError
        It is something else, or a negative seed.
    """
    if random_state is None:
        seed = np.random.SeedSequence(secrets.randbits(256), pool_size=8)
        return Source(np.random.default_rng(seed), seeded=False)
    return Source(_randomness.generator(random_state), seeded=True)


def integers(low: int, high: int, count: int, source: Source) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return independent integers, uniform on low to high - 1."""
    return source.generator.integers(low, high, size=count)


def normal_noise(scale: float, shape: tuple[int, ...], source: Source) -> FloatArray:
    """Return independent normal noise of mean 0 and a standard deviation.

    The noise is not hardened against floating-point attacks (Mironov 2012): a guarantee holds for the
    mechanism on real numbers.
    """
    return scale * source.generator.standard_normal(shape)


def flips(probability: float, count: int, source: Source) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return independent coins that are True with a probability, exact for multiples of 2^-53."""
    return source.generator.random(count) < probability
