"""Objective perturbation: a random linear term in the objective, whose minimiser is released exactly.

theta = argmin over the ball of  sum of losses + Delta/2 ||theta||^2 + b'theta,   b ~ N(0, sigma^2 I)
"""

import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from symdebias._domains import DELTA, EPSILON, Interval, check_choice, check_flag
from symdebias.bounds.slopes import slope_ranges
from symdebias.losses import Loss
from symdebias.mechanisms import sampling
from symdebias.privacy import Guarantee, objective_noise_epsilon, objective_noise_scale, precise
from symdebias.solvers.central.convex import ConvexProblem, convex_problem, minimiser
from symdebias.solvers.central.records import corrected_of
from symdebias.solvers.fit import Fit

# The minimiser is what is released, and no rounding of its noise makes a computed minimiser that of real numbers.
_PLAIN = "plain noise and a minimiser in floating point, whose low bits tell more than real numbers would"
_PENALTY = Interval(0.0, math.inf, "neither", "Leave it out for 2 lambda/epsilon, beside the sum of the losses.")
CALIBRATIONS = ("proved", "published")
# The gradient at the end, relative to the noise in it; and what rounding leaves of a mean of gradients.
_ACCURACY, _ROUNDING = 1e-9, 1e-14


def objective_perturbation(
    loss: Loss,
    X: Any,
    y: Any,
    *,
    epsilon: float,
    delta: float,
    adjacency: str,
    radius: float | None = None,
    record_radius: float,
    target_bounds: tuple[float, float] | None = None,
    fit_intercept: bool = False,
    penalty: float | None = None,
    calibration: str = "proved",
    random_state: int | np.random.Generator | None = None,
) -> Fit:
    """Minimise a convex loss of true records with a random linear term, with a central guarantee.

    Parameters
    ----------
    loss : Loss
        A convex loss of one score without kinks, with bounded slopes on the declared domain.
    X, y, record_radius, target_bounds, fit_intercept, random_state
        As for `output_perturbation`. A constant's parameter is penalised and noised as the others.
    epsilon : float
        The budget, in [1e-6, 700].
    delta : float
        In (0, 1); choose it well below 1/n.
    adjacency : {"replace-one", "add-remove"}
        What may differ between neighbours: a record is exchanged for another one, or is there or not. Under add-remove
        the number of records is private, and the fit does not state it.
    radius : float, optional
        A public bound on the L2 norm of theta, in [1e-100, 1e100]. For losses whose slopes have no bound on the whole
        line it is needed.
    penalty : float, optional
        Delta, in (0, inf): beside the sum of the losses, not their mean. 2 lambda/epsilon by default, lambda the bound
        on the curvature of a record's loss. More of it leaves more of the budget to the noise; with
        ``calibration="proved"`` it must be above lambda/(e^epsilon - 1), with ``"published"`` at least the default.
    calibration : {"proved", "published"}
        ``"proved"``: the least sigma for which the guarantee is proved here. ``"published"``: the paper's sigma;
        ``fit.guarantee`` is then what is proved for it at the same delta, and ``fit.claim`` the budget where that is
        less.

    Returns
    -------
    Fit
        Its ``diagnostics`` have ``noise_scale`` (sigma), ``penalty`` (Delta), ``slope`` (zeta), ``curvature`` (lambda),
        ``jacobian_epsilon`` (the part of epsilon that the penalty takes), ``seeded``, ``records`` (None under
        add-remove), ``steps`` (1: how many steps the minimiser took is a statistic of the records) and ``seconds``,
        which is not protected.

    Raises
    ------
    DivergenceError
        The minimiser was not found. This is for the collector: that it occurs is not covered by the guarantee.
    ValueError, TypeError
        An argument or the records do not fit; the loss has several scores, is not convex, has a kink, or slopes without
        a bound.

    Notes
    -----
    **The output's density.** The minimiser w explains the noise: b(w) = -sum grad l_i(w) - Delta w. So w has the
    density phi(b(w)) det(sum Hess l_i(w) + Delta I), phi the density of the noise, and the ratio of two neighbours'
    densities is a ratio of determinants times a ratio of phi.

    **Determinants.** A record's Hessian is c x x' with 0 <= c ||x||^2 <= lambda. With A >= Delta I, that of all others,
    det(A + c x x') = det A (1 + c x'A^-1 x) lies in det A [1, 1 + lambda/Delta]. One record more or less, or exchanged:
    the ratio is at most 1 + lambda/Delta, which spends epsilon_1 = log(1 + lambda/Delta). For several scores the
    Hessian is not of rank one, and nothing is proved here.

    **Noise.** Neighbours explain the same w by b and b + d(w), d the difference of the gradients of the records in
    which they differ. Hence delta <= E max(0, 1 - e^epsilon' phi(b + d)/phi(b)), epsilon' = epsilon - epsilon_1, where
    d depends on b through w; `symdebias.privacy.objective_noise_delta` bounds it over all such d. Where all slopes of a
    kind of record have one sign, as for the log loss, that costs next to nothing beside a fixed shift.

    **The ball.** Continue the loss linearly where the score leaves abs(u) <= radius sup ||x||: that keeps slopes and
    curvatures and changes nothing within the ball. Add k dist(w, ball)^2 to the objective: its Hessian is positive
    semidefinite and the same for neighbours, so that all of the above holds for each k. As k grows the minimisers tend
    to the one in the ball, and the guarantee passes to the limit. The gradient needs to be Lipschitz, no more:
    derivatives exist almost everywhere, which the change of variables asks for.

    **The published sigma**, zeta sqrt(8 log(2/delta) + 4 epsilon)/epsilon with Delta >= 2 lambda/epsilon, is enough by
    these bounds for a shift of zeta, as by a record more or less, and not for 2 zeta, as by an exchanged one: the
    epsilon that is proved is then up to a quarter larger, for delta from 1e-9 on.

    **Floating point.** The guarantee is one on real numbers. The low bits of a computed minimiser depend on how the
    records were added up, whatever noise was drawn: there is no hardened form, and the guarantee says so.
    `output_perturbation` and `dp_lssgd` have one.

    **Accuracy.** The guarantee is that of the exact minimiser. Newton's method goes on until the gradient (less its
    part normal to the ball) is 1e-9 of the noise in it, or rounding, and fails otherwise. A step takes time of the
    order of n d^2 + d^3, d the number of parameters.

    References
    ----------
    Kifer, Smith & Thakurta 2012 (COLT), Algorithm 1 and Theorem 2; Chaudhuri, Monteleoni & Sarwate 2011 (JMLR 12), for
    the determinants.

    Examples
    --------
    >>> import numpy as np, symdebias as sd
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-0.7, 0.7, size=(20_000, 2))
    >>> y = np.where(X @ [2.0, -1.0] + 0.1 * rng.normal(size=20_000) > 0, 1.0, -1.0)
    >>> fit = sd.objective_perturbation(
    ...     sd.losses.logistic(), X, y, epsilon=1.0, delta=1e-6, adjacency="replace-one", record_radius=1.0,
    ...     random_state=0,
    ... )
    >>> round(fit.diagnostics["penalty"], 6), bool(fit.theta[0] > 0 > fit.theta[1])
    (0.5, True)
    """
    fit_intercept = check_flag("fit_intercept", fit_intercept)
    epsilon, delta = EPSILON.check("epsilon", epsilon), DELTA.check("delta", delta)
    check_choice("calibration", calibration, CALIBRATIONS)
    if penalty is not None:
        penalty = _PENALTY.check("penalty", penalty)
    if isinstance(loss, Loss) and len(loss.scores) > 1:
        raise ValueError(
            f"the loss has {len(loss.scores)} scores, and the Hessian of a record is then not of rank one, on which "
            "the proof rests. The loss must have one score. Fit one loss per class, or use output_perturbation or "
            "dp_lssgd."
        )
    source = sampling.source(random_state)
    problem = convex_problem(
        loss,
        X,
        y,
        record_radius=record_radius,
        target_bounds=target_bounds,
        fit_intercept=fit_intercept,
        adjacency=adjacency,
        radius=radius,
        why="The minimiser explains its noise only where the loss is convex and its slope has no jump.",
    )
    noise = _Noise.calibrated(problem, epsilon, delta, adjacency, penalty, calibration)
    began = time.perf_counter()
    n = len(problem.records)
    length = problem.records.correction.number_of_parameters
    tilt = sampling.normal_noise(noise.scale, (length,), source)
    tolerance = max(_ACCURACY * noise.scale / n, _ROUNDING * problem.slope)
    theta = minimiser(problem, ridge=noise.penalty / n, linear=tilt / n, tolerance=tolerance)
    return Fit.of(
        corrected_of(problem.records),
        theta,
        solver="objective_perturbation",
        records=n if adjacency == "replace-one" else None,
        steps=1,
        began=began,
        diagnostics={
            "on_ball": problem.region.on_boundary(theta),
            "noise_scale": noise.scale,
            "penalty": noise.penalty,
            "slope": problem.slope,
            "curvature": problem.curvature,
            "jacobian_epsilon": noise.jacobian_epsilon,
            "calibration": calibration,
            "seeded": source.seeded,
            "hardened": False,
        },
        own_guarantee=noise.guarantee.with_basis(_PLAIN),
        claim=noise.claim,
    )


@dataclass(frozen=True)
class _Noise:
    """The noise and the penalty, and what they guarantee: the one place that decides them."""

    scale: float  # sigma.
    penalty: float  # Delta.
    jacobian_epsilon: float  # epsilon_1 = log(1 + lambda/Delta), rounded up.
    guarantee: Guarantee  # What is proved.
    claim: Guarantee | None  # What the paper claims beyond that.

    @classmethod
    def calibrated(
        cls,
        problem: ConvexProblem,
        epsilon: float,
        delta: float,
        adjacency: str,
        penalty: float | None,
        calibration: str,
    ) -> "_Noise":
        """Return the least noise that is proved to keep a budget, or the published one."""
        mp = precise.context()
        usual = precise.rounded_up(mp, 2 * mp.mpf(problem.curvature) / mp.mpf(epsilon))
        chosen = usual if penalty is None else penalty
        if not chosen > 0:
            raise ValueError("the loss has no curvature, and no default penalty follows. Give penalty=, above 0.")
        jacobian = precise.rounded_up(mp, mp.log1p(mp.mpf(problem.curvature) / mp.mpf(chosen)))
        slopes = _ranges(problem)
        basis = f"normal noise of {{:.6g}} in the gradient of the sum, penalty {chosen:.6g}, exact minimiser, "
        if calibration == "published":
            if not chosen >= usual:
                raise ValueError(
                    f"penalty={chosen:g} is below 2 lambda/epsilon = {usual:g}, which the published calibration needs. "
                    'Leave it out, or use calibration="proved".'
                )
            bound = mp.mpf(problem.slope)
            scale = precise.rounded_up(
                mp, bound * mp.sqrt(8 * mp.log(2 / mp.mpf(delta)) + 4 * mp.mpf(epsilon)) / mp.mpf(epsilon)
            )
            spent = objective_noise_epsilon(delta, scale, slopes, adjacency=adjacency)
            proved = precise.rounded_up(mp, mp.mpf(spent) + mp.mpf(jacobian))
            guarantee = _guarantee(proved, delta, adjacency, basis.format(scale) + "epsilon by our own bound")
            claim = _guarantee(epsilon, delta, adjacency, "Kifer, Smith & Thakurta 2012, Theorem 2")
            return cls(scale, chosen, jacobian, guarantee, None if guarantee.implies(claim) else claim)
        left = precise.rounded_down(mp, mp.mpf(epsilon) - mp.mpf(jacobian))
        if not left > 0:
            least = float(problem.curvature / mp.expm1(mp.mpf(epsilon)))
            raise ValueError(
                f"penalty={chosen:g} takes {jacobian:.4g} of the budget epsilon={epsilon:g} and leaves nothing for the "
                f"noise. It must be above {least:.6g}. Leave it out for 2 lambda/epsilon = {usual:.6g}."
            )
        scale = objective_noise_scale(left, delta, slopes, adjacency=adjacency)
        guarantee = _guarantee(epsilon, delta, adjacency, basis.format(scale) + "our own calibration")
        return cls(scale, chosen, jacobian, guarantee, None)


def _guarantee(epsilon: float, delta: float, adjacency: str, how: str) -> Guarantee:
    return Guarantee(epsilon, delta, "central", adjacency, basis=f"objective perturbation: {how}")


def _ranges(problem: ConvexProblem) -> tuple[tuple[float, float], ...]:
    """Return the ranges of slopes times the bound on the norm of a row, which may be anything from 0 on."""
    declared = problem.records.correction.loss
    ranges = slope_ranges(declared, score_radius=problem.score_radius, target_bounds=problem.bounds.target)
    up = problem.bounds.norm * (1 + 2.0**-50)
    # Labels without a loss have what every range has as well, that of a row of zeros.
    return tuple((min(low * up, 0.0), max(high * up, 0.0)) for low, high in ranges if (low, high) != (0, 0))
