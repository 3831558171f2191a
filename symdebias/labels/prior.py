"""A private histogram of the labels, which designs of randomizers take as their prior, and the budget for it."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from symdebias._arrays import FloatArray, value_array
from symdebias._domains import COUNT, EPSILON, Integer
from symdebias.mechanisms import rounded, sampling
from symdebias.mechanisms.label_randomizer import ascending
from symdebias.mechanisms.ranges import Labels, scale_of


def private_prior(
    y: ArrayLike, labels: Any, epsilon: float, *, random_state: int | np.random.Generator | None = None
) -> FloatArray:
    """Return the shares of the labels, with noise on their counts.

    Parameters
    ----------
    y : array of shape (n,) or (n, 1)
        True labels, each one of `labels`.
    labels : sequence of float
        The k >= 2 labels, ascending; public.
    epsilon : float
        Privacy budget, in [1e-6, 700]: that of the prior alone, which adds to that of the labels.
    random_state : int, numpy.random.Generator or None
        None draws on the operating system. A seed is for tests and simulations: whoever knows it can subtract the
        noise.

    Returns
    -------
    array of shape (k,), float64
        Probabilities, which sum to 1; uniform where the noise left no count above 0.

    Raises
    ------
    ValueError, TypeError
        An argument is outside its range, or a label was not declared.

    Notes
    -----
    (epsilon, 0) in the central model, replace-one: one changed label moves two counts by 1 each, and each count gets
    discrete Laplace noise of scale 2/epsilon. Counts are integers, so that this noise is pure and leaves nothing of
    them in the digits. What follows, clipping at 0 and dividing by the sum, is post-processing. The number of records
    is public. The curator sees the true labels here; nobody else does.

    References
    ----------
    Badanidiyuru et al. 2023 (arXiv 2312.05659), Algorithm 3; Ghosh, Roughgarden & Sundararajan 2009, Section 2.

    Examples
    --------
    >>> private_prior([0] * 300 + [1] * 100, (0, 1), epsilon=1.0, random_state=0).round(2).tolist()
    [0.75, 0.25]
    """
    known = Labels(ascending(labels, "labels"))
    epsilon = EPSILON.check("epsilon", epsilon)
    values, _ = known.clip(value_array(y))
    counts = np.bincount(known.codes(values), minlength=len(known.values))
    scale = scale_of(Fraction(2), epsilon)
    source = sampling.source(random_state)
    draw = rounded.discrete_laplace if source.hardened else sampling.discrete_laplace_noise
    noised = counts + draw(scale, counts.shape, source)
    shares = np.maximum(noised, 0).astype(float)
    if not shares.any():
        shares[:] = 1.0
    probabilities: FloatArray = shares / shares.sum()
    return probabilities


def prior_budget(labels_count: int, records: int, epsilon: float) -> float:
    """Return the share of a budget to spend on the prior: sqrt(k/n), and half of it at most.

    Parameters
    ----------
    labels_count : int
        The number k of labels, 2 or more.
    records : int
        The number n of records, which is public.
    epsilon : float
        The whole budget, in [1e-6, 700].

    Returns
    -------
    float
        epsilon_1. What is left, epsilon - epsilon_1, is for the labels.

    Raises
    ------
    ValueError, TypeError
        An argument is outside its range.

    References
    ----------
    Badanidiyuru et al. 2023 (arXiv 2312.05659), Algorithm 3.

    Examples
    --------
    >>> prior_budget(25, 10_000, epsilon=1.0)
    0.05
    """
    labels_count = Integer(2).check("labels_count", labels_count)
    records, epsilon = COUNT.check("records", records), EPSILON.check("epsilon", epsilon)
    return min(math.sqrt(labels_count / records), epsilon / 2)
