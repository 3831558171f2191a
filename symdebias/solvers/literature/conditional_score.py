"""The conditional score: the equation of a record given a statistic that is sufficient for its true features."""

import functools
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy
import sympy as sp
from scipy.special import expit, gammaln, wrightomega

from symdebias._arrays import FloatArray
from symdebias._domains import NON_NEGATIVE
from symdebias.exceptions import NoExactCorrectionError
from symdebias.losses import Loss
from symdebias.release import Release
from symdebias.solvers.fit import Fit
from symdebias.solvers.literature.equations import Measured, RowsAt
from symdebias.solvers.literature.estimated import with_error_of_estimates
from symdebias.solvers.literature.passes import summed
from symdebias.solvers.literature.score import score_fit

# Where a declared loss is held against those that have a conditional score, and to which error.
_PROBES, _DIGITS = (-2.3, -0.7, 0.4, 1.1, 2.9), 30
# Terms of a sum over counts: so many standard deviations around the mode, and so many more.
_REACH, _MORE, _MOST_TERMS = 12.0, 25, 20_000
# The step of the grid of levels that means of counts are read off.
_GRID_STEP = 0.01
# Points of the grid that are computed together, and how far they reach.
_POINTS = 64
_STRETCH = _POINTS * _GRID_STEP
# Numbers held at a time.
_CHUNK = 4_000_000


@with_error_of_estimates
def conditional_score(loss: Loss, release: Release, X: Any, y: Any, *, l2: float = 0.0) -> Fit:
    """Solve the equation of a record given a statistic that is sufficient for its true features.

    Under normal noise of known covariance D the law of y given d = x~ + y D theta does not depend on the true x, and

        mean (y - E[y | d]) d = 0.

    Parameters
    ----------
    loss, release, X, y, l2
        As for `naive`: the log loss of two labels or the Poisson loss, columns with normal noise or none.

    Returns
    -------
    Fit
        The parameters, with a sandwich covariance.

    Raises
    ------
    NoExactCorrectionError
        The loss, or the noise of a column or of the target, is another one.
    DivergenceError
        No root was found near that of regression calibration.
    ValueError, TypeError
        An argument or the data do not fit.

    Notes
    -----
    For two labels 0 and 1, E[y | d] = 1/(1 + exp(-(d'theta - s/2))), s = theta'D theta, and the equation is weighted by
    d - D theta/2. The noise of the labels is undone by the values of the equation at both labels, with the weights that
    undo the channel. For counts, y given d has probabilities proportional to exp(y d'theta - y^2 s/2)/y!. For least
    squares the method is the corrected score, which needs no residual variance: use `debias`.

    There may be other roots, and far from the truth the equation goes to zero by itself: the root is sought from
    regression calibration, and one more than three times as far from zero is refused.

    References
    ----------
    Stefanski & Carroll 1987, Section 2.

    Examples
    --------
    >>> import numpy as np, symdebias as sd
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(20_000, 1))
    >>> y = np.where(rng.random(20_000) < 1 / (1 + np.exp(-x[:, 0])), 1, -1)
    >>> noised = sd.Release(sd.GaussianMechanism.from_scale(1.0)).privatize(x, y, random_state=1)
    >>> fit = sd.literature.conditional_score(sd.losses.logistic(), noised.release, noised.X, noised.y)
    >>> bool(abs(fit.theta[0] - 1.0) < 0.2)
    True
    """
    began, l2 = time.perf_counter(), NON_NEGATIVE.check("l2", l2)
    measured = Measured.of(loss, release, X, y)
    if release.coupling is not None:
        raise NoExactCorrectionError(
            "the conditional score is that of a target beside noised features, and this release noises both in one "
            f"vector: {release.coupling.statement}. Use debias."
        )
    measured.require_normal("the conditional score")
    family = _family(loss)
    if family is None:
        raise NoExactCorrectionError(
            f"the conditional score is known here for the log loss of two labels and the Poisson loss; got "
            f"{loss.expression}. For a loss with a corrected score use debias."
        )
    if family == "logistic":
        rows = _logistic_score(measured)
    else:
        if release.target is not None:
            raise NoExactCorrectionError(
                "the conditional score of counts needs them as they are, and the release noises its target. Use "
                "debias, which takes an unbiased release of counts as it stands."
            )
        if not summed(len(measured), 1, lambda part: (_are_counts(measured.y[part]),))[0] == len(measured):
            raise NoExactCorrectionError(
                "the conditional score of the Poisson loss is that of counts, and y has values which are no "
                "non-negative integers. Use debias, which needs the mean of y alone."
            )
        rows = _poisson_score(measured)
    return score_fit(
        measured,
        rows,
        l2,
        solver="conditional_score",
        description="the score given a sufficient statistic of the true record (Stefanski & Carroll 1987)",
        began=began,
        steps=1,
    )


def _family(loss: Loss) -> str | None:
    """Return the canonical model whose likelihood the loss is: "logistic", "poisson" or None."""
    if len(loss.scores) != 1:
        return None
    (u,), y = loss.scores, loss.target
    slope = sp.diff(loss.expression, u)
    values = (0, 1, 7) if loss.target_values is None else loss.target_values

    def agrees(model: Callable[[sp.Expr, float, int], sp.Expr]) -> bool:
        gaps = (
            slope.xreplace({u: sp.Float(at, _DIGITS), y: sp.Float(value, _DIGITS)})
            - model(sp.Float(at, _DIGITS), value, place)
            for at in _PROBES
            for place, value in enumerate(values)
        )
        return all(abs(complex(gap.evalf(_DIGITS))) < 1e-20 for gap in gaps)

    if len(values) == 2 and agrees(lambda at, value, place: 1 / (1 + sp.exp(-at)) - place):
        return "logistic"
    if agrees(lambda at, value, place: sp.exp(at) - sp.Float(value, _DIGITS)):
        return "poisson"
    return None


def _are_counts(y: FloatArray) -> int:
    """Return how many of some targets are non-negative integers."""
    return int(np.count_nonzero((y >= 0) & (y == np.floor(y))))


def _logistic_score(records: Measured) -> RowsAt:
    covariance = records.extended_covariance

    def rows(theta: FloatArray, part: slice) -> FloatArray:
        X, weights = records.extended(part), records.label_weights(part)
        total = np.zeros(X.shape)
        pull = covariance @ theta
        for label in (0, 1):
            d = X + (label - 0.5) * pull
            total -= (weights[:, label] * (label - expit(d @ theta)))[:, None] * d
        return total

    return rows


def _poisson_score(records: Measured) -> RowsAt:
    covariance = records.extended_covariance

    def rows(theta: FloatArray, part: slice) -> FloatArray:
        X, y = records.extended(part), records.y[part]
        pull = covariance @ theta
        d = X + y[:, None] * pull
        expected = _expected_count(d @ theta, float(theta @ pull), len(records))
        return np.asarray(-(y - expected)[:, None] * d)

    return rows


def _expected_count(level: FloatArray, variance: float, count: int) -> FloatArray:
    """Return the mean of j under probabilities proportional to exp(j level - j^2 variance/2)/j!.

    For many levels, `count` of which are asked for in all, it is read off a cubic through a fine grid, to a relative
    error of about 1e-10: its derivative by the level is the variance of j. It is NaN where that takes too many counts,
    which is no place for a root.
    """
    if variance == 0:
        return np.asarray(np.exp(level))
    low, high = float(np.min(level)), float(np.max(level))
    if not _GRID_STEP * count > high - low:
        return _count_moments(level, variance)[0]
    curve = _curve(variance, math.floor(low / _STRETCH), math.floor(high / _STRETCH) + 2)
    return np.full(len(level), np.nan) if curve is None else np.asarray(curve(level))


@functools.lru_cache(maxsize=64)
def _curve(variance: float, start: int, stop: int) -> Callable[[FloatArray], FloatArray] | None:
    """Return the cubic over some stretches, None where a mean is not finite: the same whichever records ask for it."""
    mean, spread = (
        np.concatenate(parts) for parts in zip(*(_stretch(variance, one) for one in range(start, stop)), strict=True)
    )
    if not np.all(np.isfinite(mean)):
        return None
    grid = np.arange(start * _POINTS, stop * _POINTS) * _GRID_STEP
    # SciPy imports the package when it is first named.
    found: Callable[[FloatArray], FloatArray] = scipy.interpolate.CubicHermiteSpline(grid, mean, spread)
    return found


@functools.lru_cache(maxsize=4096)
def _stretch(variance: float, number: int) -> tuple[FloatArray, FloatArray]:
    """Return means and variances of counts at consecutive points of the grid."""
    points = np.arange(number * _POINTS, (number + 1) * _POINTS, dtype=np.float64)
    return _count_moments(points * _GRID_STEP, variance)


def _count_moments(level: FloatArray, variance: float) -> tuple[FloatArray, FloatArray]:
    """Return mean and variance by the sum over counts around the mode m, log m + m variance = level."""
    mode = np.real(wrightomega(math.log(variance) + level)) / variance
    half = _REACH * np.sqrt(1 / (1 / np.maximum(mode, 1e-300) + variance)) + _MORE
    largest = float(np.max(half))
    if not largest <= _MOST_TERMS / 2:
        return np.full(len(level), np.nan), np.full(len(level), np.nan)
    offsets = np.arange(-math.ceil(largest), math.ceil(largest) + 1)
    mean, spread = np.empty(len(level)), np.empty(len(level))
    block = max(1, _CHUNK // len(offsets))
    for first in range(0, len(level), block):
        part = slice(first, first + block)
        counts = np.round(mode[part])[:, None] + offsets
        inside = counts >= 0
        counts = np.where(inside, counts, 0.0)
        weights = counts * level[part, None] - counts**2 * (variance / 2) - gammaln(counts + 1)
        weights = np.where(inside, weights, -np.inf)
        weights = np.exp(weights - weights.max(axis=1, keepdims=True))
        weights /= np.sum(weights, axis=1, keepdims=True)
        mean[part] = np.sum(weights * counts, axis=1)
        spread[part] = np.sum(weights * (counts - mean[part, None]) ** 2, axis=1)
    return mean, spread
