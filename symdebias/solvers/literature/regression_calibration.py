"""Regression calibration: the declared loss on the best linear predictions of the true records."""

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
from symdebias.solvers.literature.equations import Measured, Problem, constant_curvature, influence_of
from symdebias.solvers.literature.estimated import with_error_of_estimates
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
    noised, bend = bool(measured.covariance.any()), constant_curvature(loss)

    def changes(step: FloatArray) -> FloatArray:
        assert bend is not None
        # For least squares predictions solve the debiased normal equations, whose curvature is x~ x~' - D.
        rows, covariance = measured.extended, measured.extended_covariance
        curvature = rows.T @ rows / len(rows) - covariance + np.diag(problem.penalty) / bend
        return influence_of(rows * (rows @ step)[:, None], curvature)

    return problem.fit(
        measured.plain,
        theta,
        influence,
        solver="regression_calibration",
        description="the declared loss on predictions of the true records (Carroll & Stefanski 1990)",
        began=began,
        steps=1,
        changes=changes if noised and bend is not None else None,
        biased=""
        if bend is not None or not noised
        else "prediction of the true records, for a loss that is not quadratic,",
    )


def calibrated(records: Measured, l2: float, *, errors: bool) -> tuple[FloatArray, FloatArray, Problem]:
    """Return the fit on calibrated records, where asked for how much each record moves it, and its problem."""
    centred = records.matrix - records.matrix.mean(axis=0)
    spread = centred.T @ centred / len(centred)
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
    predicted = records.matrix - centred @ shrink.T
    problem = Problem.of(replace(records.labelled, matrix=predicted), l2)
    theta, slope = problem.minimum()
    rows = problem.rows(theta) if errors else np.zeros((0, len(theta)))
    if errors:
        # A record moves mu by c_i/n and S + D by (c_i c_i' - S - D)/n; both move every calibrated record.
        whitened = centred @ inverse
        pulled = whitened @ records.covariance
        for place in np.flatnonzero(np.diag(records.covariance)):
            step = np.zeros(records.columns)
            step[place] = 1e-5 * math.sqrt(spread[place, place])
            change = problem.on(predicted + step).rows(theta) - problem.on(predicted - step).rows(theta)
            change /= 2 * step[place]
            by_mean = change.mean(axis=0)
            by_spread = centred.T @ change / len(centred)
            rows = rows + pulled[:, [place]] * (by_mean + whitened @ by_spread)
        return theta, influence_of(rows, slope), problem
    return theta, rows, problem
