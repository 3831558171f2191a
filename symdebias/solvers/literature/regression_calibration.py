"""Regression calibration: the declared loss on the best linear predictions of the true records."""

import functools
import math
import time
from dataclasses import replace
from typing import Any

import numpy as np

from symdebias._arrays import FloatArray
from symdebias._domains import NON_NEGATIVE
from symdebias.exceptions import NoExactCorrectionError
from symdebias.losses import Loss
from symdebias.release import Release
from symdebias.solvers.fit import Fit
from symdebias.solvers.literature.equations import (
    Measured,
    OfRows,
    Problem,
    RowsAt,
    constant_curvature,
    influence_of,
    solved,
)
from symdebias.solvers.literature.estimated import with_error_of_estimates
from symdebias.solvers.literature.passes import made_of, summed
from symdebias.solvers.metric import inverse_root


@with_error_of_estimates
def regression_calibration(loss: Loss, release: Release, X: Any, y: Any, *, l2: float = 0.0) -> Fit:
    """Replace each released record by the best linear prediction of the true one, and minimise the declared loss.

    The prediction is mu + S (S + D)^-1 (x~ - mu), with D the covariance of the noise and S the debiased covariance of
    the true records; the noise of the labels is undone exactly.

    Parameters
    ----------
    loss, release, X, y, l2
        As for `naive`. Columns with additive noise of any kind, and columns without noise.

    Returns
    -------
    Fit
        The parameters, with a sandwich covariance that takes in the estimation of mu and S.

    Raises
    ------
    NoExactCorrectionError
        A column of categories is noised; the noise of the target has no exact inverse; the noise hides all variation
        of a column; or it multiplies second moments, as a spherical cap with a gamma of its own does.
    DivergenceError
        No minimum was found, or it is not the only one.
    ValueError, TypeError
        An argument or the data do not fit.

    Notes
    -----
    Exact for least squares. For other losses it is an approximation that is good while theta'Cov(x | x~)theta is
    small; more records do not remove its bias.

    References
    ----------
    Carroll & Stefanski 1990; Carroll et al. 2006, *Measurement Error in Nonlinear Models*, Chapter 4.

    Examples
    --------
    >>> import numpy as np, symdebias as sd
    >>> x = np.random.default_rng(0).normal(size=(20_000, 1))
    >>> noised = sd.Release(sd.GaussianMechanism.from_scale(1.0)).privatize(x, 2 * x[:, 0], random_state=1)
    >>> fit = sd.literature.regression_calibration(sd.losses.least_squares(), noised.release, noised.X, noised.y)
    >>> bool(abs(fit.theta[0] - 2.0) < 0.1)
    True
    """
    began, l2 = time.perf_counter(), NON_NEGATIVE.check("l2", l2)
    measured = Measured.of(loss, release, X, y)
    if release.coupling is not None and release.coupling.kind == "margin":
        raise NoExactCorrectionError(
            "regression calibration predicts the true features beside a target, and a margin release has y x alone, "
            "without a target that a prediction could explain. Use debias, or simex."
        )
    measured.require_additive_squares("regression calibration")
    theta, influence, problem = calibrated(measured, l2, errors=True)
    assert influence is not None
    noised, bend = bool(measured.covariance.any()), constant_curvature(loss)
    return problem.fit(
        measured.plain,
        theta,
        influence,
        solver="regression_calibration",
        description="the declared loss on predictions of the true records (Carroll & Stefanski 1990)",
        began=began,
        steps=1,
        changes=_changes_of_squares(measured, problem, bend) if noised and bend is not None else None,
        biased=""
        if bend is not None or not noised
        else "prediction of the true records, for a loss that is not quadratic,",
    )


def _changes_of_squares(measured: Measured, problem: Problem, bend: float) -> RowsAt:
    """Return how influences change along a step, for a quadratic loss of the curvature `bend`.

    Predictions solve the debiased normal equations, whose curvature is x~ x~' - D.
    """

    def products(rows: slice) -> tuple[FloatArray]:
        extended = measured.extended(rows)
        return (extended.T @ extended,)

    moments = problem.over_records(products)[0] / len(measured)
    curvature = moments - measured.extended_covariance + np.diag(problem.penalty) / bend

    def changes(step: FloatArray, rows: slice) -> FloatArray:
        extended = measured.extended(rows)
        return solved(curvature, extended * (extended @ step)[:, None])

    return changes


def calibrated(records: Measured, l2: float, *, errors: bool) -> tuple[FloatArray, OfRows | None, Problem]:
    """Return the fit on calibrated records, where asked for how much each record moves it, and its problem."""
    count, matrix = len(records), records.matrix

    over_records = functools.partial(summed, count, records.columns)
    middle = over_records(lambda rows: (matrix[rows].sum(axis=0),))[0] / count

    def products(rows: slice) -> tuple[FloatArray]:
        centred = matrix[rows] - middle
        return (centred.T @ centred,)

    spread = over_records(products)[0] / count
    # S (S + D)^-1 = 1 - D (S + D)^-1, with S + D the covariance of released records.
    root = inverse_root(spread)
    inverse = root @ root.T
    shrink = records.covariance @ inverse
    reliabilities = 1 - np.real(np.linalg.eigvals(shrink))
    if not reliabilities.min() > 0:
        raise NoExactCorrectionError(
            "the noise hides all variation of the features: their debiased covariance is not positive definite. Use "
            "more records or less noise."
        )
    predicted = made_of(matrix, lambda rows: rows - (rows - middle) @ shrink.T)
    problem = Problem.of(replace(records.labelled, matrix=predicted), l2)
    theta, slope = problem.minimum()
    if not errors:
        return theta, None, problem
    # A record moves mu by c_i/n and S + D by (c_i c_i' - S - D)/n; both move every calibrated record.
    steps = {
        place: 1e-5 * math.sqrt(spread[place, place]) for place in np.flatnonzero(np.diag(records.covariance)).tolist()
    }

    def moved(rows: slice) -> tuple[FloatArray, ...]:
        part, centred = problem.part(rows), matrix[rows] - middle
        by_mean, by_spread = np.zeros((len(steps), len(theta))), np.zeros((len(steps), records.columns, len(theta)))
        for number, (place, step) in enumerate(steps.items()):
            move = step * np.eye(records.columns)[place]
            ahead, behind = (replace(part, matrix=part.matrix + sign * move) for sign in (1, -1))
            change = ahead.gradients(theta, slice(None)) - behind.gradients(theta, slice(None))
            change /= 2 * step
            by_mean[number], by_spread[number] = change.sum(axis=0), centred.T @ change
        return by_mean, by_spread

    by_mean, by_spread = (sums / count for sums in over_records(moved))

    def pulled_rows(rows: slice) -> FloatArray:
        found = problem.gradients(theta, rows)
        whitened = (matrix[rows] - middle) @ inverse
        pulled = whitened @ records.covariance
        for number, place in enumerate(steps):
            found += pulled[:, [place]] * (by_mean[number] + whitened @ by_spread[number])
        return found

    mean = over_records(lambda rows: (pulled_rows(rows).sum(axis=0),))[0] / count
    return theta, influence_of(pulled_rows, slope, mean), problem
