"""SIMEX: fits with more and more noise, extrapolated to none."""

import math
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from symdebias._arrays import FloatArray
from symdebias._domains import COUNT, NON_NEGATIVE, Interval, check_choice, check_flag, shown
from symdebias._progress import progress_bar
from symdebias._randomness import generator
from symdebias.exceptions import DivergenceError
from symdebias.losses import Loss
from symdebias.release import Release
from symdebias.solvers.fit import Fit
from symdebias.solvers.literature.equations import Measured, Problem, influence_of
from symdebias.solvers.literature.estimated import with_error_of_estimates

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
    rng = generator(random_state)
    measured = Measured.of(loss, release, X, y)
    measured.require_additive_squares("simex")
    problem = Problem.of(measured.labelled, l2)
    thetas: list[FloatArray] = []
    influences: list[FloatArray] = []
    with progress_bar(progress, 1 + repeats * (len(at) - 1), "fit") as advance:
        for level in at:
            draws = 1 if level == 0 else repeats
            theta, slope, rows = np.zeros(len(problem.units)), np.zeros(()), np.zeros(())
            for _ in range(draws):
                added_noise = 0.0 if level == 0 else math.sqrt(level) * measured.noise(rng)
                noisier = problem if level == 0 else problem.on(measured.matrix + added_noise)
                one, one_slope = noisier.minimum(thetas[0] if thetas else None)
                theta, slope, rows = theta + one / draws, slope + one_slope / draws, rows + noisier.rows(one) / draws
                advance(1)
            thetas.append(theta)
            influences.append(influence_of(rows, slope))
    theta, shares = _extrapolated(at, np.array(thetas), extrapolant)
    added = ", ".join(f"{level:g}" for level in at[1:])
    return problem.fit(
        measured.plain,
        theta,
        np.einsum("ks,kns->ns", shares, np.array(influences)),
        solver="simex",
        description="fits with more and more noise, extrapolated to none (Cook & Stefanski 1994)",
        began=began,
        biased="the extrapolation to no noise" if measured.covariance.any() else "",
        steps=1 + repeats * (len(at) - 1),
        notes=(f"{extrapolant} extrapolant, lambda {added}, {repeats} remeasurements each",),
    )


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
