"""Output perturbation: minimise exactly, then noise the minimiser by how far one record can move it."""

import math
import time
from typing import Any

import numpy as np

from symdebias._domains import DELTA, EPSILON, Interval, check_flag, is_choice
from symdebias.losses import Loss
from symdebias.mechanisms import sampling
from symdebias.privacy import Guarantee, analytic_gaussian_scale
from symdebias.solvers.central.convex import convex_problem, minimiser
from symdebias.solvers.central.grids import noised, promised, step_for, widened
from symdebias.solvers.central.records import corrected_of
from symdebias.solvers.fit import Fit

# The minimiser is found to this share of what one record may move it by, and the noise covers both.
_ACCURACY = 1e-4
_DELTA = Interval(0.0, 1.0, "left", "Give 0 for pure differential privacy, or a probability well below 1/n.")
_L2 = Interval(0.0, math.inf, "neither", "What one record moves grows as 1/l2: give a positive one, such as 0.01.")
_UP = 1 + 2.0**-50


def output_perturbation(
    loss: Loss,
    X: Any,
    y: Any,
    *,
    epsilon: float,
    delta: float = 0.0,
    adjacency: str,
    l2: float,
    radius: float | None = None,
    record_radius: float,
    target_bounds: tuple[float, float] | None = None,
    fit_intercept: bool = False,
    random_state: int | np.random.Generator | None = None,
    noise: str | None = None,
) -> Fit:
    """Fit a convex loss to true records and noise the parameters, with a central guarantee.

    theta = argmin mean loss + l2/2 ||theta||^2, plus noise

    Parameters
    ----------
    loss : Loss
        A convex loss without kinks, of one or several scores, with bounded slopes on the declared domain.
    X : array of shape (n, p) or table
        The true records.
    y : array of shape (n,)
        The true targets.
    epsilon : float
        The budget, in [1e-6, 700].
    delta : float
        In [0, 1). At 0 the noise has a density proportional to exp(-epsilon ||b||/S) and the guarantee is pure; above,
        it is normal. S is the sensitivity.
    adjacency : {"replace-one"}
        The number of records is public. Under ``"add-remove"`` it is not, and the noise, a multiple of 1/n, would give
        it away: that is refused.
    l2 : float
        The regularisation, positive. All parameters are penalised, the intercept too: a parameter that is not can be
        moved any distance by one record.
    radius : float, optional
        A public bound on the L2 norm of theta, in [1e-100, 1e100]: the minimiser is sought in this ball, and the noised
        parameters are brought back into it. For losses whose slopes have no bound on the whole line it is needed.
    record_radius : float
        A public bound on the L2 norm of a row of X, its constant left out; longer rows are shortened to it.
    target_bounds : pair of float, optional
        Public bounds of a target without declared values; targets outside are moved to the nearer one.
    fit_intercept : bool
        Whether a score has a constant, whose parameter comes last.
    random_state : int, numpy.random.Generator or None
        For the noise. None takes fresh entropy; a seed is for tests and simulations, as whoever knows it can subtract
        the noise: ``fit.guarantee`` is refused then.
    noise : {"hardened", "plain"}, optional
        As for `symdebias.Release.privatize`: hardened unless a seed is given. The guarantee of plain noise says what it
        is worth.

    Returns
    -------
    Fit
        Its ``diagnostics`` have ``sensitivity`` (S), ``noise_scale`` (the standard deviation of each parameter's normal
        noise, or S/epsilon), ``slope`` (G), ``l2``, ``seeded``, ``hardened``, ``records``, ``steps`` (1: how many steps
        the minimiser took is a statistic of the records) and ``seconds``, which is not protected.

    Raises
    ------
    DivergenceError
        The minimiser was not found to the accuracy that the noise covers. This is for the collector: that it occurs is
        not covered by the guarantee.
    ValueError, TypeError
        An argument or the records do not fit, or the loss is not convex, has a kink, or slopes without a bound.

    Notes
    -----
    Let J and J' be the objectives of neighbours, with minimisers v and v' in the ball. Each loss is G-Lipschitz in
    theta, G the bound on the slope times that on the norm of a row, so that grad J - grad J' is at most 2 G/n long.
    Both objectives are l2-strongly convex; with the variational inequalities grad J(v)'(v' - v) >= 0 and
    grad J'(v')'(v - v') >= 0,

        l2 ||v - v'||^2 <= (grad J(v') - grad J(v))'(v' - v) <= (grad J(v') - grad J'(v'))'(v' - v) <= 2 G/n ||v - v'||,

    with or without the ball: ||v - v'|| <= 2 G/(n l2). What is noised is within tau/l2 of the minimiser, where tau is
    the length of the gradient (less its normal part) at which the search ends: 2 (G/n + tau)/l2 apart, with
    tau = 1e-4 G/n. The search goes on to tau/2, and leaves the rest to rounding.

    It is then rounded to a grid of the step g, a power of two that follows from public numbers: S is g sqrt(Q) more, Q
    the number of parameters, which is 2^-20 of itself. Noise is the nearest whole number of steps to noise of the exact
    law: the sum is that of real numbers, rounded.

    Newton's steps need the Hessian of all Q parameters: time grows with n Q^2 + Q^3.

    References
    ----------
    Chaudhuri, Monteleoni & Sarwate 2011 (JMLR 12), Algorithm 1 and Corollary 8, there with G = 1; Balle & Wang 2018,
    Theorem 8 (normal noise).

    Examples
    --------
    >>> import numpy as np, symdebias as sd
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-0.7, 0.7, size=(20_000, 2))
    >>> y = np.where(X @ [2.0, -1.0] + 0.1 * rng.normal(size=20_000) > 0, 1.0, -1.0)
    >>> fit = sd.output_perturbation(
    ...     sd.losses.logistic(), X, y, epsilon=1.0, adjacency="replace-one", l2=0.01, record_radius=1.0, random_state=0
    ... )
    >>> round(fit.diagnostics["sensitivity"], 6), bool(fit.theta[0] > 0 > fit.theta[1])
    (0.010001, True)
    """
    fit_intercept = check_flag("fit_intercept", fit_intercept)
    epsilon, delta = EPSILON.check("epsilon", epsilon), _DELTA.check("delta", delta)
    l2 = _L2.check("l2", l2)
    if is_choice(adjacency, ("add-remove",)):
        raise ValueError(
            'adjacency="add-remove" protects the number of records, and the noise of output perturbation is a multiple '
            'of 1/n, which would give it away. It must be "replace-one". Use that, or objective_perturbation.'
        )
    source = sampling.source(random_state, noise)
    problem = convex_problem(
        loss,
        X,
        y,
        record_radius=record_radius,
        target_bounds=target_bounds,
        fit_intercept=fit_intercept,
        adjacency=adjacency,
        radius=radius,
        why="The sensitivity is proved for convex losses, and Newton's method finds minimisers of smooth ones.",
    )
    began = time.perf_counter()
    n = len(problem.records)
    tau = _ACCURACY * problem.slope / n
    theta = minimiser(problem, ridge=l2, linear=None, tolerance=tau / 2)
    width = len(theta)
    apart = 2 * (problem.slope / n + tau) / l2 * _UP
    # At a minimiser l2 theta is as long as a mean of gradients: G at most.
    largest = min((problem.slope + tau) / l2, math.inf if radius is None else radius) * _UP
    step = step_for(apart, width, 2 * (largest + _noise_reach(_scale(epsilon, delta, apart), delta, width)))
    sensitivity = widened(apart, step, width)
    scale = _scale(epsilon, delta, sensitivity)
    law = (
        f"normal noise of the scale {scale:.6g}, analytic calibration,"
        if delta > 0
        else f"noise of a density proportional to exp(-||b||/{scale:.6g})"
    )
    guarantee = Guarantee(
        epsilon,
        delta,
        "central",
        adjacency,
        basis=f"output perturbation: {law} on a minimiser of the L2 sensitivity {sensitivity:.6g}",
    )
    theta = problem.region.inside(noised(theta, step, scale, source, radial=delta == 0))
    return Fit.of(
        corrected_of(problem.records),
        theta,
        solver="output_perturbation",
        records=n,
        steps=1,
        began=began,
        diagnostics={
            "on_ball": problem.region.on_boundary(theta),
            "sensitivity": sensitivity,
            "noise_scale": scale,
            "slope": problem.slope,
            "l2": l2,
            "seeded": source.seeded,
            "hardened": source.hardened,
        },
        own_guarantee=promised(guarantee, source, noise),
    )


def _scale(epsilon: float, delta: float, sensitivity: float) -> float:
    """Return the scale of the noise: that of the density exp(-||b||/scale) for delta = 0, or a standard deviation."""
    if delta == 0:
        return math.nextafter(sensitivity / epsilon, math.inf)
    return analytic_gaussian_scale(epsilon, DELTA.check("delta", delta), sensitivity)


def _noise_reach(scale: float, delta: float, width: int) -> float:
    """Return a size that no coordinate of the noise exceeds but with a probability of 2^-60."""
    return scale * (10.0 if delta > 0 else 45.0 * width)
