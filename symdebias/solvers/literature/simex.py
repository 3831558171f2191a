"""SIMEX: fits with more and more noise, extrapolated to none."""

import functools
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from symdebias._arrays import FloatArray
from symdebias._domains import COUNT, NON_NEGATIVE, Interval, check_choice, check_flag, shown
from symdebias._progress import progress_bar
from symdebias._randomness import generator
from symdebias._rows import Rows
from symdebias.exceptions import DivergenceError
from symdebias.losses import Loss
from symdebias.release import Release
from symdebias.solvers.fit import Fit
from symdebias.solvers.literature.equations import Measured, OfRows, Problem, solved
from symdebias.solvers.literature.estimated import with_error_of_estimates
from symdebias.solvers.literature.passes import summed

# Where the pole of a rational extrapolant may lie: at -1/t for t within these.
_POLES = (-0.4, 0.98)
_LEVEL = Interval(0.0, 100.0, "right", "Give how much noise is added, in multiples of the noise that is there.")


@with_error_of_estimates
def simex(
    loss: Loss,
    release: Release,
    X: Any,
    y: Any,
    *,
    l2: float = 0.0,
    extrapolant: str = "quadratic",
    levels: Sequence[float] = (0.5, 1.0, 1.5, 2.0),
    repeats: int = 20,
    random_state: int | np.random.Generator | None = None,
    progress: bool = False,
) -> Fit:
    """Add more noise to the released records, fit each time, and extrapolate to no noise.

    With normal noise of covariance lambda D added, the noise is (1 + lambda) D; the fits as a function of lambda are
    extrapolated to lambda = -1. The noise of the labels is undone exactly.

    Parameters
    ----------
    loss, release, X, y, l2
        As for `regression_calibration`.
    extrapolant : {"quadratic", "linear", "rational-linear"}
        The function of lambda, for each parameter: a + b lambda + c lambda^2, a + b lambda, or
        a + b lambda/(1 + c lambda), which is exact for least squares with one column.
    levels : sequence of float
        The values of lambda > 0; 0 is always among them.
    repeats : int
        How often records are remeasured at each level, at least 1.
    random_state : int, numpy.random.Generator or None
        For the noise that is added.
    progress : bool
        Show a progress bar of the fits (needs the extra ``progress``).

    Returns
    -------
    Fit
        The parameters, with a sandwich covariance of the extrapolated estimate.

    Raises
    ------
    NoExactCorrectionError
        A column of categories is noised, the noise of the target has no exact inverse, or a cap has a gamma of its own.
    DivergenceError
        A fit found no minimum, or the pole of a rational extrapolant lies at lambda = -1.
    ValueError, TypeError
        An argument or the data do not fit.

    Notes
    -----
    The bias that remains is that of the extrapolant: more records and more repeats do not remove it. It is small while
    the noise is small beside the spread of the columns. Noise that is not normal is taken by its covariance.

    References
    ----------
    Cook & Stefanski 1994; Carroll, Kuechenhoff, Lombard & Stefanski 1996 (the covariance).

    Examples
    --------
    >>> import numpy as np, symdebias as sd
    >>> x = np.random.default_rng(0).normal(size=(20_000, 1))
    >>> noised = sd.Release(sd.GaussianMechanism.from_scale(0.5)).privatize(x, 2 * x[:, 0], random_state=1)
    >>> loss = sd.losses.least_squares()
    >>> fit = sd.literature.simex(loss, noised.release, noised.X, noised.y, repeats=5, random_state=2)
    >>> bool(abs(fit.theta[0] - 2.0) < 0.1)
    True
    """
    progress = check_flag("progress", progress)
    began, l2 = time.perf_counter(), NON_NEGATIVE.check("l2", l2)
    needed = {"linear": 2, "quadratic": 3, "rational-linear": 3}
    check_choice("extrapolant", extrapolant, needed)
    at = _checked_levels(levels)
    if len(at) < needed[extrapolant]:
        raise ValueError(
            f"levels has {len(at) - 1} values, and a {extrapolant} extrapolant needs {needed[extrapolant] - 1}. Give "
            "more, such as levels=(0.5, 1.0, 1.5, 2.0)."
        )
    repeats = COUNT.check("repeats", repeats)
    seeds = generator(random_state).integers(2**63, size=(len(at) - 1, repeats))
    measured = Measured.of(loss, release, X, y)
    measured.require_additive_squares("simex")
    problem = Problem.of(measured.labelled, l2)
    # The records as they are, and for each level its remeasurements.
    fits = [[_Remeasured.fitted(measured, problem, 0.0, 0, None)]]
    with progress_bar(progress, 1 + repeats * (len(at) - 1), "fit") as advance:
        advance(1)
        for level, own in zip(at[1:], seeds.tolist(), strict=True):
            fits.append([])
            for seed in own:
                fits[-1].append(_Remeasured.fitted(measured, problem, float(level), seed, fits[0][0].theta))
                advance(1)
    thetas = np.array([np.mean([one.theta for one in own], axis=0) for own in fits])
    theta, shares = _extrapolated(at, thetas, extrapolant)
    added = ", ".join(f"{level:g}" for level in at[1:])
    return problem.fit(
        measured.plain,
        theta,
        _influence(measured, problem, fits, shares),
        solver="simex",
        description="fits with more and more noise, extrapolated to none (Cook & Stefanski 1994)",
        began=began,
        biased="the extrapolation to no noise" if measured.covariance.any() else "",
        steps=1 + repeats * (len(at) - 1),
        notes=(f"{extrapolant} extrapolant, lambda {added}, {repeats} remeasurements each",),
    )


@dataclass(frozen=True)
class _Remeasured:
    """A fit to records with more noise."""

    level: float  # How much was added, in multiples of what is there.
    seed: int  # Of what was added.
    theta: FloatArray
    slope: FloatArray  # The Hessian there, with the penalty.
    mean: FloatArray  # The mean gradient there, without it.

    @classmethod
    def fitted(
        cls, measured: Measured, problem: Problem, level: float, seed: int, start: FloatArray | None
    ) -> "_Remeasured":
        """Return the fit to records with noise of a level and a seed."""
        noisier = problem.on(_noisier(measured, level, seed)) if level else problem
        theta, slope = noisier.minimum(start)
        return cls(level, seed, theta, slope, noisier.records.mean_gradient(theta))


def _noised(measured: Measured, level: float, seed: int, rows: slice) -> FloatArray:
    """Return the features of some records with noise of a level added."""
    return np.asarray(measured.matrix[rows] + math.sqrt(level) * measured.noise(seed, rows))


def _noisier(measured: Measured, level: float, seed: int) -> FloatArray | Rows:
    """Return the features with more noise: drawn anew in every pass where records are not in memory."""
    matrix, noised = measured.matrix, functools.partial(_noised, measured, level, seed)

    if measured.is_read and isinstance(matrix, Rows):
        return Rows(matrix.shape, noised)
    found = np.empty(matrix.shape)

    def filled(rows: slice) -> tuple[()]:
        found[rows] = noised(rows)
        return ()

    summed(len(found), measured.columns, filled)
    return found


def _influence(
    measured: Measured, problem: Problem, fits: Sequence[Sequence[_Remeasured]], shares: FloatArray
) -> OfRows:
    """Return how much each record moves the extrapolated parameters, which hang on those of a level by its `shares`."""

    def influence(rows: slice) -> FloatArray:
        part, found = problem.part(rows), np.zeros(())
        for own, share in zip(fits, shares, strict=True):
            gradients, slope, mean = np.zeros(()), np.zeros(()), np.zeros(())
            for one in own:
                noisier = replace(part, matrix=_noised(measured, one.level, one.seed, rows)) if one.level else part
                gradients = gradients + noisier.gradients(one.theta, slice(None)) / len(own)
                slope, mean = slope + one.slope / len(own), mean + one.mean / len(own)
            found = found + share * solved(slope, gradients - mean)
        return found

    return influence


def _checked_levels(levels: Sequence[float]) -> FloatArray:
    if isinstance(levels, (str, bytes)) or not hasattr(levels, "__iter__"):
        raise TypeError(f"levels must be a sequence of numbers; got {type(levels).__name__}. Pass a tuple.")
    values = [_LEVEL.check(f"levels[{index}]", value) for index, value in enumerate(levels)]
    if len(set(values)) < len(values):
        raise ValueError(f"levels={shown(tuple(values), 100)} repeats a value. Give each once.")
    return np.array([0.0, *sorted(values)])


def _extrapolated(at: FloatArray, thetas: FloatArray, extrapolant: str) -> tuple[FloatArray, FloatArray]:
    """Return the parameters at lambda = -1, and their derivatives by the fits, of shapes (q,) and (levels, q)."""
    if extrapolant != "rational-linear":
        degree = 1 if extrapolant == "linear" else 2
        shares = (-1.0) ** np.arange(degree + 1) @ np.linalg.pinv(np.vander(at, degree + 1, increasing=True))
        return shares @ thetas, np.repeat(shares[:, None], thetas.shape[1], axis=1)
    columns = [_rational(at, column) for column in thetas.T]
    return np.array([value for value, _ in columns]), np.array([slopes for _, slopes in columns]).T


def _rational(at: FloatArray, values: FloatArray) -> tuple[float, FloatArray]:
    """Fit a + b lambda/(1 + t lambda) and return its value at lambda = -1, with its derivative by the values."""

    def design(t: float) -> FloatArray:
        return np.column_stack([np.ones(len(at)), at / (1 + t * at)])

    def misfit(t: float) -> float:
        basis = design(t)
        return float(np.sum((values - basis @ np.linalg.lstsq(basis, values, rcond=None)[0]) ** 2))

    grid = np.linspace(*_POLES, 139)
    best = int(np.argmin([misfit(t) for t in grid]))
    if best == len(grid) - 1:
        raise DivergenceError(
            "the pole of a rational extrapolant lies at lambda = -1: a parameter does not extrapolate to no noise. Use "
            'extrapolant="quadratic", more repeats, or less noise.'
        )
    bounds = (grid[max(best - 1, 0)], grid[best + 1])
    t = float(minimize_scalar(misfit, bounds=bounds, method="bounded", options={"xatol": 1e-10}).x)
    a, b = np.linalg.lstsq(design(t), values, rcond=None)[0]
    slopes = np.column_stack([design(t), -b * at**2 / (1 + t * at) ** 2])
    outside = np.array([1.0, -1 / (1 - t), -b / (1 - t) ** 2])
    return float(a - b / (1 - t)), np.asarray(outside @ np.linalg.pinv(slopes))
