"""A population: records that stand for those to be collected, from a guess or from a pilot study."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv, expit, ndtr

from symdebias._arrays import (
    FloatArray,
    column_names,
    features_array,
    frame,
    is_table,
    parameter_vector,
    real_array,
    without_view,
)
from symdebias._domains import COUNT, POSITIVE, check_choice, check_flag, shown
from symdebias._randomness import generator
from symdebias.corrected import CorrectedLoss, require_corrected
from symdebias.exceptions import NoExactCorrectionError
from symdebias.release.one_hot import OneHot
from symdebias.solvers.moments import debiased_moments

_FAMILIES = ("binary", "count", "normal")
# The logarithm of the largest mean of counts.
_LARGEST_RATE = 40.0
# Variances over the largest possible ones, 1 - mean^2: what a population has at most, and what is no error of a pilot.
_MOST_SPREAD, _MUCH_SPREAD = 0.99, 1.25
# Of a guessed feature.
_LEAST_VARIANCE = 1e-12
# Rounds of the search for the correlations of normal variables, the first of which take steps of what is left; how near
# those of features come on average; and how far off one of them may be.
_ROUNDS, _STEPS, _NEAR, _FARTHEST = 30, 6, 0.01, 0.05
# Numbers of a population that is drawn: a gigabyte.
MOST_NUMBERS = 125_000_000


@dataclass(frozen=True)
class Population:
    """Records that stand for those to be collected, in the units in which they are released.

    Not those themselves: what a plan chooses (parts of the budget, the weight of a target) stands on the card of the
    release, and no guarantee covers a choice by true records.

    Attributes
    ----------
    X : array of shape (m, p), float64
        True features. They may be given as a table, whose columns stand in the order of the release, and hold the
        places of categories, from 0 on, as arrays do.
    y : array of shape (m,), float64
        True targets.
    is_drawn : bool
        Whether `guess` or `from_pilot` drew it: in released units, [-1, 1], whatever centre and scale a release has.
        Records that are given are in their own units where a release has these.
    """

    X: FloatArray
    y: FloatArray
    is_drawn: bool = False

    def __post_init__(self) -> None:
        check_flag("is_drawn", self.is_drawn)
        X, y = np.array(_matrix(self.X)), np.array(real_array(self.y, "y"))
        if X.ndim != 2 or y.shape != X.shape[:1] or len(y) < 2:
            raise ValueError(
                f"X has the shape {X.shape} and y {y.shape}; give (m, p) and (m,) with at least two records."
            )
        for name, array in (("X", X), ("y", y)):
            array.setflags(write=False)
            object.__setattr__(self, name, array)

    @classmethod
    def guess(
        cls,
        theta: ArrayLike,
        *,
        family: str = "binary",
        mean: ArrayLike | None = None,
        covariance: ArrayLike | None = None,
        intercept: bool = False,
        residual: float = 1.0,
        size: int = 20_000,
        random_state: int | np.random.Generator | None = 0,
    ) -> "Population":
        """Draw a population from a guess of the parameters and of the features' moments.

        Parameters
        ----------
        theta : array of shape (p,), or (p + 1,) with an intercept
            Guessed parameters, intercept last.
        family : {"binary", "count", "normal"}
            The target: -1 or +1 with P(y = 1) = 1/(1 + e^-u); Poisson with mean e^u; or u + residual N(0, 1).
        mean : array of shape (p,), optional
            Means of the features, zero by default.
        covariance : array of shape (p, p), or (p,) for variances, optional
            Of the features: they lie in [-1, 1] and have this covariance by beta distributions, next to normal ones
            where it is small, joined by a normal copula. Without it they are uniform on [-1, 1].
        intercept : bool
            Whether the last parameter is an intercept.
        residual : float
            Standard deviation of the errors of family ``"normal"``, positive.
        size : int
            How many records to draw.
        random_state : int, numpy.random.Generator or None
            0 by default, so that plans repeat.

        Raises
        ------
        ValueError, TypeError
            An argument does not fit, or no features in [-1, 1] have such moments.

        Examples
        --------
        >>> Population.guess([1.0, -0.5]).X.shape
        (20000, 2)
        """
        intercept = check_flag("intercept", intercept)
        return cls._drawn(
            theta,
            family,
            intercept,
            residual,
            size,
            random_state,
            lambda p, n, rng: _features(p, mean, covariance, n, rng),
        )

    @classmethod
    def from_pilot(
        cls,
        corrected: CorrectedLoss,
        X: Any,
        y: Any,
        *,
        theta: ArrayLike,
        family: str = "binary",
        residual: float = 1.0,
        size: int = 20_000,
        random_state: int | np.random.Generator | None = 0,
    ) -> "Population":
        """Draw a population with the moments of a pilot study whose records were released with noise.

        Features lie in [-1, 1] and have the means and the covariance that the pilot tells: beta distributions, joined
        by a normal copula. They are in released units, also where the release of the pilot has a centre and a scale,
        and go with every release that releases in these units.

        Parameters
        ----------
        corrected : CorrectedLoss
            Of the pilot's release: it says what noise to take out of the moments.
        X, y
            The pilot's released records.
        theta : array of shape (p,), or (p + 1,) with an intercept
            The parameters of the pilot's fit, ``fit.theta``.
        family, residual, size, random_state
            As for `guess`.

        Raises
        ------
        NoExactCorrectionError
            The noise hides the variation of the features, there are columns of categories, or the pilot is a margin
            release, which hides their mean.
        ValueError, TypeError
            An argument does not fit, or no features in [-1, 1] have such moments.
        """
        require_corrected(corrected)
        coupling = corrected.release.coupling
        if coupling is not None and coupling.kind == "margin":
            raise NoExactCorrectionError(
                f"a population needs the mean of the features, and of this pilot {coupling.statement}. Guess it with "
                "Population.guess, or release a pilot's features and target apart."
            )
        mean, gram = debiased_moments(corrected.records(X, y))
        intercept = corrected.release.fit_intercept
        count = len(mean) - intercept
        centre = mean[:count]
        spread = gram[:count, :count] - np.multiply.outer(centre, centre)
        sizes, vectors = np.linalg.eigh(spread)
        if not sizes.max() > 0:
            raise NoExactCorrectionError(
                "the noise hides all variation of the pilot's features. Guess their moments, or use more records."
            )
        covariance = (vectors * np.maximum(sizes, 1e-6 * sizes.max())) @ vectors.T
        theta = parameter_vector(theta, len(mean))
        return cls._drawn(
            theta,
            family,
            intercept,
            residual,
            size,
            random_state,
            lambda p, n, rng: _with_moments(centre, covariance, n, rng),
        )

    @classmethod
    def _drawn(
        cls,
        theta: ArrayLike,
        family: str,
        intercept: bool,
        residual: float,
        size: int,
        random_state: int | np.random.Generator | None,
        features: Callable[[int, int, np.random.Generator], FloatArray],
    ) -> "Population":
        """Return the population of features that a function draws, of their number and that of records."""
        guessed = parameter_vector(theta, np.shape(theta)[0] if np.ndim(theta) else 0)
        check_choice("family", family, _FAMILIES)
        if len(guessed) <= intercept:
            raise ValueError("theta has no parameter of a feature. Give one guess per feature, the intercept last.")
        residual, count = POSITIVE.check("residual", residual), COUNT.check("size", size)
        if len(guessed) * count > MOST_NUMBERS:
            raise ValueError(
                f"{len(guessed):,} parameters on {count:,} records are more than {MOST_NUMBERS:,} numbers. Guess "
                "fewer columns, or a smaller size."
            )
        rng = generator(random_state)
        p = len(guessed) - bool(intercept)
        X = features(p, count, rng)
        u = X @ guessed[:p] + (guessed[p] if intercept else 0.0)
        if family == "binary":
            y = np.where(rng.random(count) < expit(u), 1.0, -1.0)
        elif family == "count":
            if u.max() > _LARGEST_RATE:
                raise ValueError(
                    f"theta guesses counts whose mean is e^{u.max():.3g}, more than can be drawn. Guess smaller "
                    "parameters."
                )
            y = rng.poisson(np.exp(u)).astype(np.float64)
        else:
            y = u + residual * rng.normal(size=count)
        return cls(X, y, is_drawn=True)


def _matrix(X: Any) -> FloatArray:
    """Return features as a matrix, of a table the columns in their order.

    Raises
    ------
    TypeError, ValueError
        They are no numbers; of a table, the column that holds text is named.
    """
    if not is_table(X):
        return real_array(X, "X")
    for name in column_names(X):
        values = np.asarray(without_view(frame(X)[name]))
        if values.dtype.kind in "OUST" and any(isinstance(value, str) for value in values):
            raise TypeError(
                f"column {name} of X holds text, and a population has numbers. Pass the places of its categories, from "
                "0 on, in the order that the release or categories= declares them."
            )
    return features_array(X)


def _features(p: int, mean: Any, covariance: Any, count: int, rng: np.random.Generator) -> FloatArray:
    centre = np.zeros(p) if mean is None else real_array(mean, "mean")
    if centre.shape != (p,):
        raise ValueError(f"mean has the shape {centre.shape}; it must be ({p},): one number per feature.")
    if covariance is None:
        if centre.any():
            raise ValueError("mean= without covariance= has no spread to go with. Give both, or neither.")
        return rng.uniform(-1, 1, (count, p))
    matrix = real_array(covariance, "covariance")
    matrix = np.diag(matrix) if matrix.ndim == 1 else matrix
    if matrix.shape != (p, p) or not np.allclose(matrix, matrix.T) or np.linalg.eigvalsh(matrix).min() < -1e-9:
        raise ValueError(f"covariance must be a symmetric matrix of shape ({p}, {p}) without negative variances.")
    # What does not vary varies next to nothing.
    matrix = matrix + np.diag(np.maximum(_LEAST_VARIANCE - np.diag(matrix), 0.0))
    return _with_moments(centre, matrix, count, rng)


def _with_moments(mean: FloatArray, covariance: FloatArray, count: int, rng: np.random.Generator) -> FloatArray:
    """Draw features in [-1, 1] of given means and a given covariance: beta distributions, joined by a normal copula.

    A uniform column is one of them, and so is, next to, one of -1 and +1; those of small variance are next to normal.
    """
    deviations = np.sqrt(np.diag(covariance))
    # No column in [-1, 1] has more than 1 - mean^2; a pilot tells either with an error.
    most = 1 - mean**2
    if not np.all(most > 0):
        raise ValueError(
            "a feature whose mean is -1 or 1, or beyond, does not vary within [-1, 1]. Leave out a constant one, or "
            "scale it to the bounds of the release, in which the population is written."
        )
    if not np.all(deviations**2 < _MUCH_SPREAD * most):
        raise ValueError(
            "no features in [-1, 1] have these means and variances: they are too large for that. Scale them to the "
            "bounds of the release, in which the population is written."
        )
    concentration = 1 / np.minimum(deviations**2 / most, _MOST_SPREAD) - 1
    first, second = (1 + mean) / 2 * concentration, (1 - mean) / 2 * concentration
    levels = np.linspace(-8.0, 8.0, 3_201)
    quantiles = 2 * betaincinv(first[:, None], second[:, None], ndtr(levels)) - 1
    wanted = covariance / np.multiply.outer(deviations, deviations)
    normal, correlation = rng.standard_normal((count, len(mean))), np.clip(wanted, -1.0, 1.0)
    low, high, found, left = np.full(wanted.shape, -1.0), np.ones(wanted.shape), np.zeros(normal.shape), np.inf
    for step in range(_ROUNDS):
        sizes, vectors = np.linalg.eigh(correlation)
        root = vectors * np.sqrt(np.maximum(sizes, 0.0))
        root /= np.linalg.norm(root, axis=1, keepdims=True)
        joined = normal @ root.T
        X = np.column_stack([np.interp(joined[:, j], levels, quantiles[j]) for j in range(len(mean))])
        spreads = X.std(axis=0)
        scales = np.multiply.outer(spreads, spreads)
        centred = X - X.mean(axis=0)
        reached = np.divide(centred.T @ centred / count, scales, out=wanted.copy(), where=scales > 0)
        off = wanted - reached
        np.fill_diagonal(off, 0.0)
        if np.abs(off).sum() < left:
            found, left, worst = X, float(np.abs(off).sum()), float(np.abs(off).max())
        if left <= _NEAR * len(mean) * (len(mean) - 1):
            break
        # One grows with the other: what the quantiles take of a correlation is added to that of the normal variables,
        # within what has been tried.
        low, high = np.where(off > 0, correlation, low), np.where(off < 0, correlation, high)
        correlation = correlation + off
        is_within = (low < correlation) & (correlation < high) & (step < _STEPS)
        correlation = np.where(is_within, correlation, (low + high) / 2)
        np.fill_diagonal(correlation, 1.0)
    if worst > _FARTHEST:
        raise ValueError(
            "features in [-1, 1] of these means and variances are not drawn with these correlations: one is "
            f"{worst:.2g} off where they come nearest. Give smaller correlations, or means nearer to 0."
        )
    return found


def require_codes(X: FloatArray, names: Sequence[str], one_hot: OneHot) -> None:
    """Raise ValueError where columns of categories hold something else than their places."""
    for name, one in one_hot.labels:
        if not np.all(np.isin(X[:, names.index(name)], np.arange(len(one.values)))):
            raise ValueError(
                f"the population has values in {shown(name)} that are no codes of its categories. Give the places "
                f"0 to {len(one.values) - 1} of the categories."
            )


def require_population(population: Any) -> None:
    """Raise TypeError where something else than a population was given."""
    if not isinstance(population, Population):
        raise TypeError(
            f"population must be a Population; got {type(population).__name__}. Pass "
            "symdebias.planning.Population.guess(theta), or Population(X, y) of records that are known."
        )
