"""How many records, or clusters, decide a variance, and what it is worth then."""

import math

import numpy as np

from symdebias._arrays import FloatArray

# Clusters that are alike leave a variance to about a third of them by fourth moments, and Student's t with one degree
# of freedom less than there are holds; where fewer than this share decide, and fewer than `MANY_DECIDE`, the others do
# not count.
_FEW_OF_ALL = 0.125
# From so many records, as the fourth moments of what each does to an estimate count them, a variance is as good as
# known; of fewer than the second figure nobody knows how far they scatter.
MANY_DECIDE, FEWEST_DECIDE = 50.0, 2.5


def deciding_each(squares: FloatArray, fourths: FloatArray) -> FloatArray:
    """Return the number that decides the variance of each parameter, (sum d^2)^2/(sum d^4), shape (q,).

    A parameter that nothing moves is known, and nothing decides it: its number is infinite.

    Parameters
    ----------
    squares, fourths : array of shape (q,), float64
        Sums of d^2 and of d^4, for what leaving out each record (cluster) does to each parameter.

    Examples
    --------
    >>> deciding_each(np.array([4.0, 3.0, 0.0]), np.array([4.0, 4.5, 0.0]))
    array([ 4.,  2., inf])
    """
    return np.asarray(np.where(fourths > 0, squares**2 / np.where(fourths > 0, fourths, 1.0), math.inf))


def freedom_of_records(deciding: FloatArray) -> FloatArray:
    """Return the degrees of freedom of variances that so many records decide: twice as many, infinite from 50 on.

    Parameters
    ----------
    deciding : array of shape (q,), float64
        As of `deciding_each`.

    References
    ----------
    Satterthwaite 1946 (Biometrics Bulletin 2).

    Examples
    --------
    >>> freedom_of_records(np.array([2.7, 60.0]))
    array([ 5., inf])
    """
    return np.asarray(np.where(deciding < MANY_DECIDE, np.floor(2 * np.minimum(deciding, MANY_DECIDE)), math.inf))


def skewness_of_records(deciding: FloatArray, squares: FloatArray, thirds: FloatArray) -> FloatArray:
    """Return the skewness of parameters that few records decide, (sum d^3)/(sum d^2)^1.5; 0 where 50 or more do.

    Parameters
    ----------
    deciding : array of shape (q,), float64
        As of `deciding_each`.
    squares, thirds : array of shape (q,), float64
        Sums of d^2 and d^3, for what each record does to each parameter.

    Examples
    --------
    >>> skewness_of_records(np.array([4.0, 60.0]), np.array([4.0, 9.0]), np.array([2.0, 9.0]))
    array([0.25, 0.  ])
    """
    few = (deciding < MANY_DECIDE) & (squares > 0)
    # Divided one after the other: a power of small squares is no number.
    sizes = np.where(squares > 0, squares, 1.0)
    return np.asarray(np.where(few, thirds / sizes / np.sqrt(sizes), 0.0))


def two_sides(skewness: FloatArray) -> FloatArray:
    """Return by how much estimates are skewed downwards and upwards, shape (q, 2), as `Inference` has it.

    An estimate with a long tail above is mostly too small, so that it is above it that an interval reaches farther.

    Examples
    --------
    >>> two_sides(np.array([0.25, -0.5]))
    array([[0.  , 0.25],
           [0.5 , 0.  ]])
    """
    return np.stack([np.maximum(-skewness, 0.0), np.maximum(skewness, 0.0)], axis=1)


def freedom_of_few(deciding: float, clusters: float) -> int | None:
    """Return the degrees of freedom of a variance over clusters where few of them decide it, and None otherwise.

    Parameters
    ----------
    deciding : float
        m, the number of clusters that decide it: (sum d^2)^2/(sum d^4) for what leaving out each does to the estimate.
    clusters : float
        How many there are, or as many equal ones as they are worth.

    Returns
    -------
    int or None
        Twice m (Satterthwaite 1946) and at most k - 1 with m = k (k + 1)/(3 (k - 1)), the ratio of the means of
        (sum d^2)^2 and sum d^4 for k equal normal numbers less their mean; at least 2.

    Examples
    --------
    >>> freedom_of_few(2.0, 200), freedom_of_few(4.0, 200), freedom_of_few(4.0, 12)
    (2, 8, None)
    """
    if not deciding < min(MANY_DECIDE, _FEW_OF_ALL * (clusters - 1)):
        return None
    linear = 3 * deciding - 1
    alike = (linear + math.sqrt(max(linear**2 - 12 * deciding, 0.0))) / 2
    return max(2, int(min(2 * deciding, alike - 1)))
