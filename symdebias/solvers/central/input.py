"""Input perturbation: every contributor noises their own part of a quadratic loss, and the server minimises the sum.

What is proved is the local guarantee of what is sent; the central one of the source is shown as its claim.
"""

import math
import time
from dataclasses import replace
from typing import Any

import numpy as np

from symdebias._arrays import FloatArray
from symdebias._domains import DELTA, EPSILON, RADIUS, Interval, check_choice, check_flag, is_choice, kind_or_value
from symdebias.bounds.quadratic import QuadraticBounds, QuadraticLoss, as_quadratic, checked_box
from symdebias.inference import Inference
from symdebias.losses import Loss
from symdebias.mechanisms import InputPerturbation, sampling
from symdebias.privacy import Guarantee, input_perturbation_scales
from symdebias.solvers.central.grids import promised
from symdebias.solvers.central.records import PublicBounds, corrected_of, true_records
from symdebias.solvers.fit import Fit
from symdebias.solvers.quadratic_statistics import QuadraticStatistics

SERVERS = ("ridge", "corrected")
# Just above what the claim needs: more regularisation only adds bias.
_DEFAULT_MARGIN = 1.01
# Records that are noised at once.
_BLOCK = 1 << 16
# Below this share nobody minds that theta is short.
_LITTLE_SHRINKAGE = 0.01
_ALPHA = Interval(1e-6, 1e6, "both", "Give 1 for the published scales; less for more noise.")


def input_perturbation(
    loss: Loss,
    X: Any,
    y: Any,
    *,
    epsilon: float,
    delta: float,
    adjacency: str,
    radius: float,
    record_radius: float | None = None,
    feature_bounds: Any = None,
    target_bounds: tuple[float, float] | None = None,
    alpha: float = 1.0,
    regularisation: float | None = None,
    expansion: str = "exact",
    server: str = "ridge",
    fit_intercept: bool = False,
    random_state: int | np.random.Generator | None = None,
    noise: str | None = None,
) -> Fit:
    """Fit a quadratic loss by input perturbation: (q, p) of each record, noised by its contributor.

    With the loss (w'q)^2/2 - p'w + s, a contributor sends q~ = q + N(0, sigma_u^2/n I) and
    p~ = p - N(0, sigma_b^2/n I), and the server minimises

        (1/n) sum_i (w'q~ q~'w/2 - p~'w) + Delta_in/(2 n) ||w||^2  over ||w|| <= radius.

    Parameters
    ----------
    loss : Loss
        Quadratic in its parameters with a Hessian of rank one; see `symdebias.quadratic.as_quadratic`.
    X : array of shape (n, p) or table
        The true records.
    y : array of shape (n,)
        The true targets.
    epsilon : float
        In [1e-6, 700]: the budget of the source's claim, **which is unproved**. The guarantee that holds is
        ``fit.own_guarantee``.
    delta : float
        In (0, 1), of the claim and of the local guarantee.
    adjacency : {"replace-one"}
        The noise of a record depends on n, which must be public: add-remove is refused.
    radius : float
        eta, a public bound on the L2 norm of w.
    record_radius : float, optional
        A public bound on the L2 norm of a row of X, without the constant of an intercept; longer rows are shortened.
        Required for a loss of a score.
    feature_bounds : sequence of pairs of float, optional
        In place of it, public bounds of each feature of a free-form loss; entries outside are moved to them.
    target_bounds : pair of float, optional
        Public bounds of a target without declared values; targets outside are moved to them.
    alpha : float
        The scales are those of the budget alpha epsilon, and so is the claim, in [1e-6, 1e6]: less than 1 makes the
        local guarantee stronger and the fit worse.
    regularisation : float, optional
        Delta, above 2 lambda/(alpha epsilon), by default 1.01 times that: the noise of q counts for that much of it,
        and the rest is Delta_in. For ``server="ridge"``.
    expansion : {"exact", "taylor"}
        ``"taylor"`` fits the second-order expansion at w = 0 of a loss that is not quadratic, as the source does for
        the log loss: another loss, and named so on the fit.
    server : {"ridge", "corrected"}
        ``"ridge"`` is the published server. ``"corrected"`` takes the curvature that the noise adds out, without a ball
        or regularisation, and has standard errors; it has no claim.
    fit_intercept : bool
        Whether to add a constant to the records.
    random_state : int, numpy.random.Generator or None
        None draws on the operating system. A seed is for tests: whoever knows it can subtract the noise, and
        ``fit.guarantee`` is refused then.
    noise : {"hardened", "plain"}, optional
        As for `symdebias.Release.privatize`: hardened unless a seed is given. The guarantee of plain noise says what it
        is worth.

    Returns
    -------
    Fit
        ``own_guarantee`` is the local guarantee of (q~, p~), by the analytic curve; ``claim`` is the source's central
        guarantee (alpha epsilon, delta). ``diagnostics`` has ``records``, ``steps``, ``seconds``, ``seeded``,
        ``hardened``, ``sigma_u``, ``sigma_b``, ``curvature_bound`` (lambda), ``lipschitz_bound`` (zeta), ``p_bound``,
        ``alpha``, ``server``, and ``expansion``; ``mechanism`` is what noised the records, and ``claimed_local`` the
        source's local formula. The published server adds ``regularisation`` (Delta), ``regularisation_sent``
        (Delta_in), ``on_ball``, ``multiplier`` and ``shrinkage``: the noise of q and Delta_in act on theta as a ridge
        does, and this is by what share it is short along the axes of the released mean of q q', the least and the
        largest one. A note says so where the largest is 1% or more.

    Raises
    ------
    NoExactCorrectionError
        The loss is not quadratic, or its Hessian has no rank one.
    DivergenceError
        The corrected server found no positive definite matrix, or one that is hardly more than its own error.
    ValueError, TypeError
        An argument or the data do not fit; too few records for the scales, or too little regularisation. Nothing was
        noised then.

    Notes
    -----
    **What is proved.** In units of its noise the vector (q, p) changes by at most
    sqrt(n) sqrt((2 sqrt(lambda)/sigma_u)^2 + (2 P/sigma_b)^2) when a record is replaced, with lambda >= ||q||^2 and
    P >= ||p||, to which contributors clip: the analytic curve gives epsilon at delta. It grows like n: with many
    records one contribution has almost no noise. Small budgets for contributions themselves come from
    `InputPerturbation.from_budget`.

    **What is claimed.** Lemma 1 of the source bounds from below what the noise adds to the sum of q q' and drops that
    the products of q and its noise vary by sigma_u sqrt(w'Q'Q w/n) in direction w: with Corollary 2's sigma_u the event
    that the proof needs fails far more often than delta/2. ``claimed_local`` = (2 c sqrt(n) (lambda/sigma_u +
    zeta/sigma_b), 2 delta) at c = sqrt(2 log(1.25/delta)) takes the classical calibration beyond epsilon = 1, where it
    has no proof, and for many records it is far below the exact epsilon.

    sigma_b and sigma_u: see `symdebias.privacy.input_perturbation_scales`. The server keeps sums only; see
    `QuadraticStatistics`.

    References
    ----------
    Fukuchi, Tran & Sakuma 2017 (arXiv 1710.07425), Algorithm 1, Lemma 1, Theorem 2 and Corollary 2; Balle & Wang 2018,
    Theorem 8, for the local guarantee.

    Examples
    --------
    >>> import symdebias as sd
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(50_000, 2)) / np.sqrt(2)
    >>> y = np.clip(X @ [0.6, -0.3] + 0.1 * rng.normal(size=50_000), -1, 1)
    >>> fit = sd.input_perturbation(
    ...     sd.losses.least_squares(), X, y, epsilon=1.0, delta=0.01, adjacency="replace-one", radius=1.0,
    ...     record_radius=1.0, target_bounds=(-1, 1), random_state=0,
    ... )
    >>> bool(np.linalg.norm(fit.theta - [0.6, -0.3]) < 0.05), fit.own_guarantee.model, fit.claim.model
    (True, 'local', 'central')
    """
    fit_intercept = check_flag("fit_intercept", fit_intercept)
    began = time.perf_counter()
    budget, delta = EPSILON.check("epsilon", epsilon), DELTA.check("delta", delta)
    _check_words(adjacency, server)
    source = sampling.source(random_state, noise)
    scaled = EPSILON.check("alpha * epsilon", _ALPHA.check("alpha", alpha) * budget)
    eta = RADIUS.check("radius", radius)
    quadratic = as_quadratic(loss, expansion=expansion)
    known = PublicBounds.checked(record_radius, target_bounds, fit_intercept=fit_intercept)
    bounds = quadratic.bounds(
        radius=eta,
        record_radius=known.norm if quadratic.scored and record_radius is not None else record_radius,
        feature_bounds=feature_bounds,
        target_bounds=target_bounds,
    )
    if feature_bounds is not None:
        known = replace(known, box=np.array(checked_box(feature_bounds, len(quadratic.loss.features))))
    total = None if server == "corrected" else _regularisation(regularisation, bounds, scaled)
    if server == "corrected" and regularisation is not None:
        raise ValueError('regularisation belongs to server="ridge". The corrected server has none: leave it out.')
    records = true_records(quadratic.loss, X, y, known)
    n, d = len(records), records.correction.number_of_parameters
    sigma_u, sigma_b = input_perturbation_scales(
        n, d, epsilon=scaled, delta=delta, lipschitz=bounds.lipschitz, curvature=bounds.curvature
    )
    root = math.sqrt(n)
    mechanism = InputPerturbation(d, sigma_u / root, sigma_b / root, bounds.q_bound, bounds.p_bound, delta)
    statistics = QuadraticStatistics(d, products=server == "corrected")
    for start in range(0, n, _BLOCK):
        rows = slice(start, start + _BLOCK)
        sent = _contributions(quadratic, mechanism, records.matrix[rows], records.target[rows], source)
        statistics.add(sent[:, :d], sent[:, d:])

    served: dict[str, Any]
    notes: tuple[str, ...] = ()
    inference: Inference | None = None
    if total is None:
        estimate = statistics.corrected(mechanism.q_scale**2)
        theta, inference, served = estimate.theta, estimate.inference, {}
    else:
        sent_ridge = total - 2 * bounds.curvature / scaled
        minimum = statistics.solve(radius=eta, regularisation=sent_ridge)
        theta = minimum.w
        ridge = (sigma_u**2 + sent_ridge) / n
        # The released mean has the noise in it already.
        sizes = np.maximum(np.linalg.eigvalsh(statistics.gram / n) + sent_ridge / n, ridge)
        least, most = float(ridge / sizes[-1]), float(ridge / sizes[0])
        if most >= _LITTLE_SHRINKAGE:
            notes = (_note_on_shrinkage(ridge, least, most),)
        served = {
            "regularisation": total,
            "regularisation_sent": sent_ridge,
            "on_ball": minimum.on_ball,
            "multiplier": minimum.multiplier,
            "shrinkage": (least, most),
        }
    classical = 2 * math.sqrt(2 * math.log(1.25 / delta)) * root
    return Fit.of(
        corrected_of(records),
        theta,
        solver="input_perturbation",
        records=n,
        steps=1,
        began=began,
        diagnostics={
            "seeded": source.seeded,
            "hardened": source.hardened,
            "server": server,
            "alpha": scaled / budget,
            "expansion": "second order at 0" if quadratic.expanded else "none",
            "curvature_bound": bounds.curvature,
            "lipschitz_bound": bounds.lipschitz,
            "p_bound": bounds.p_bound,
            "sigma_u": sigma_u,
            "sigma_b": sigma_b,
            "mechanism": mechanism,
            "claimed_local": (classical * (bounds.curvature / sigma_u + bounds.lipschitz / sigma_b), 2 * delta),
            **served,
        },
        inference=inference,
        own_guarantee=promised(mechanism.guarantee, source, noise),
        claim=None if total is None else _claim(scaled, delta),
        notes=notes,
    )


def _check_words(adjacency: Any, server: Any) -> None:
    if not is_choice(adjacency, ("replace-one",)):
        raise ValueError(
            f"adjacency={kind_or_value(adjacency)} is not that of input perturbation: the noise of each record depends "
            "on the number of records, which is public, and a local guarantee compares two values of one record. Give "
            'adjacency="replace-one".'
        )
    check_choice("server", server, SERVERS)


def _regularisation(regularisation: Any, bounds: QuadraticBounds, epsilon: float) -> float:
    least = 2 * bounds.curvature / epsilon
    if regularisation is None:
        return _DEFAULT_MARGIN * least
    domain = Interval(least, 1e200, "neither", "Give a larger one, or leave it out for 1.01 times the least.")
    return domain.check("regularisation", regularisation)


def _contributions(
    quadratic: QuadraticLoss,
    mechanism: InputPerturbation,
    matrix: FloatArray,
    target: FloatArray,
    source: sampling.Source,
) -> FloatArray:
    """Return what contributors send. The clipping is the mechanism's own: the guarantee rests on nothing before it."""
    if quadratic.scored and matrix.shape[1] < mechanism.dimension:
        matrix = np.concatenate([matrix, np.ones((len(matrix), 1))], axis=1)
    true = np.concatenate(quadratic.vectors(matrix, target), axis=1)
    return mechanism.add_noise(mechanism.clip(true), source)


def _note_on_shrinkage(ridge: float, least: float, most: float) -> str:
    short = f"{least:.2g}" if f"{least:.2g}" == f"{most:.2g}" else f"{least:.2g} to {most:.2g}"
    return (
        f"the noise of q and the regularisation act as l2={ridge:.3g} would: theta is short of the minimum by a share "
        f'of {short}, by direction. server="corrected" takes that out'
    )


def _claim(epsilon: float, delta: float) -> Guarantee:
    basis = "Fukuchi, Tran & Sakuma 2017, Theorem 2, whose Lemma 1 does not hold"
    return Guarantee(epsilon, delta, "central", "replace-one", basis=basis)
