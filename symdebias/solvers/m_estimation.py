"""M-estimation: Newton's method on the mean corrected score, with standard errors.

    sum_i w_i (corrected gradient of record i at theta) + l2 theta sum_i w_i = 0

A corrected risk is neither convex nor bounded below: the estimate is the root next to a consistent pilot. So the pilot
comes first, Newton's steps are short in the norm of the noise and use a positive definite matrix, and theta stays where
the noise of the score is about what the pilot says.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import eigh
from scipy.optimize import brentq, lsq_linear

from symdebias._arrays import check_same_index, cluster_codes, parameter_bounds
from symdebias._domains import NON_NEGATIVE, POSITIVE
from symdebias.corrected import CorrectedLoss, Derivatives
from symdebias.exceptions import DivergenceError, InfiniteVarianceError, NoExactCorrectionError
from symdebias.solvers.covariance import at_root
from symdebias.solvers.fit import Fit, History
from symdebias.solvers.pilot import Pilot, pilot_of, released_covariance, second_moments
from symdebias.solvers.records import Records, carrying_share, noise_inflation, refuse_lost_fit

FloatArray = np.ndarray[Any, np.dtype[np.float64]]

# Newton's matrix has curvatures within these multiples of those of the matrix before it.
_LEAST_CURVATURE, _MOST_CURVATURE = 0.3, 3.0
# The longest step in the norm of the noise, sqrt(d'Dd); without noise in units of the score's own spread.
_LONGEST_STEP = 0.3
# How much more noise than the pilot's the score may have, and how often that may be raised where a fit wants more.
_MORE_NOISE, _MOST_STAGES = 1.3, 4
# Where the correction is exact the pilot is a start and no more; then noise is raised in longer steps.
_MORE_NOISE_WHERE_EXACT = 2.5
# Steps, and halvings of one step, before a fit is given up.
_STEPS, _HALVINGS = 60, 20
# After a step shorter than the first, relative to theta, covariances are accumulated; one shorter than the second is
# the last: Newton's error squares, so that what remains is of the order of rounding.
_NEAR, _ARRIVED = 1e-2, 1e-6
# Many records start a step away. After a short step a second one with the same Hessian, at most so long, is the last.
_POLISHED = 3e-5
# From so many records on a first run on a sixteenth of them finds where to start.
_MANY, _THINNED = 200_000, 16
# Noise of the score that does no harm, however little the pilot has.
_LITTLE_NOISE = 0.05
# Records for a pilot that gives a start and no design.
_PILOT_RECORDS = 100_000


def m_estimate(
    corrected: CorrectedLoss,
    X: Any,
    y: Any,
    *,
    l2: float = 0.0,
    radius: float | None = None,
    bounds: Any = None,
    start: ArrayLike | None = None,
    sample_weight: Any = None,
    noise_scale: Any = None,
    clusters: Any = None,
) -> Fit:
    """Find the root of the mean corrected score, with its sandwich covariance.

    Parameters
    ----------
    corrected : CorrectedLoss
        What `debias` returned. A surrogate that is not resolved is designed for what a quadratic pilot estimate says
        of the range and the noise of scores, and is on the result as ``fit.corrected``.
    X : array of shape (n, p) or table
        The (noised) records.
    y : array of shape (n,)
        The (noised) targets.
    l2 : float
        Regularisation + l2/2 ||theta||^2, in [0, inf); the intercept is not penalised. Intervals then cover the
        penalised optimum.
    radius : float, optional
        Bound on the L2 norm of theta, in (0, inf).
    bounds : pair of floats or arrays of shape (q,), optional
        Lower and upper bounds on the parameters, infinite where there are none; not together with `radius`.
    start : array of shape (q,) or (K, q), optional
        Where to start: a warm start. By default the pilot estimate, or zeros where the loss has none (several scores,
        a free-form loss): then `radius` is what keeps theta from roots that the noise makes.
    sample_weight : array of shape (n,), optional
        Non-negative weights.
    noise_scale : array of shape (n,) or (n, p), optional
        Standard deviations of the records' own noise; see `CorrectedLoss.loss`.
    clusters : array of shape (n,), optional
        Which records belong together (releases of the same person, members of a household): any hashable labels. The
        covariance allows for any dependence within a cluster.

    Returns
    -------
    Fit
        With `covariance`, `standard_errors`, `confidence_interval` and `wald_test`.

    Raises
    ------
    DivergenceError
        There is no pilot, no root near it, or a handful of records carries the whole corrected gradient.
    NoExactCorrectionError, InfiniteVarianceError
        The correction, or its variance, does not exist where the data lead.
    ValueError, TypeError
        An argument or the data do not fit.

    Notes
    -----
    Newton's matrix is the mean corrected Hessian with its eigenvalues, relative to the matrix before it, clipped to
    [0.3, 3]; a step is at most 0.3 long in the norm of the noise, and is halved until the mean corrected loss falls.
    Without `radius` and `bounds` the noise variance of the score stays below 1.3 times the pilot's. Where the fit ends
    there that is raised up to three times, 1.3-fold for a surrogate and 2.5-fold where the correction is exact.
    ``fit.diagnostics["safeguards"]`` says what was active at the end; there
    are then no intervals.

    A step is one pass over the data on all cores, without an array of gradients. Where the Hessian is too long to be
    written out (more than 512 combinations of categories, several scores under Laplace noise) it is found by central
    differences of the gradient.

    References
    ----------
    Stefanski 1989 and Nakamura 1990 (corrected scores); Huber 1967 (sandwich covariance).

    Examples
    --------
    >>> import numpy as np, symdebias as sd
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(20_000, 2))
    >>> y = X @ [1.0, -0.5] + 0.1 * rng.normal(size=20_000)
    >>> noised = sd.Release(features=sd.GaussianMechanism.from_scale(0.5)).privatize(X, y, random_state=0)
    >>> fit = sd.m_estimate(sd.debias(sd.losses.least_squares(), noised.release), noised.X, noised.y)
    >>> bool(np.all(np.abs(fit.theta - [1.0, -0.5]) < 4 * fit.standard_errors))
    True
    """
    if not isinstance(corrected, CorrectedLoss):
        raise TypeError(f"the first argument must be what symdebias.debias returned; got {type(corrected).__name__}.")
    l2 = NON_NEGATIVE.check("l2", l2)
    if radius is not None:
        radius = POSITIVE.check("radius", radius)
        if bounds is not None:
            raise ValueError("radius and bounds were both given. Choose one: a ball or a box.")
    began = time.perf_counter()
    scored = bool(corrected.declared.scores)
    matrix, target, weights = corrected.checked_records(X, y, sample_weight=sample_weight)
    check_same_index(X, y, clusters=clusters)
    codes = None if clusters is None else cluster_codes(clusters, rows=len(matrix))
    columns = matrix.shape[1]
    length = corrected.number_of_parameters(columns)
    penalty = corrected.penalty(l2, columns)
    given = None if start is None else corrected.flat_parameters(start, columns).copy()
    box = None if bounds is None else parameter_bounds(bounds, length)

    held = radius is not None or box is not None or given is not None
    pilot = _pilot(corrected, matrix, target, weights, l2=l2, noise_scale=noise_scale, needed=not held)
    begin = given if given is not None else np.zeros(length) if pilot is None else pilot.theta.copy()
    metric = _noise_metric(corrected, columns, length, noise_scale, len(matrix))
    step_of_growth = _MORE_NOISE_WHERE_EXACT if corrected.is_exact else _MORE_NOISE

    def attempt(growth: float, begin: FloatArray, *, by_a_part: bool = True) -> _Attempt:
        resolved = corrected if corrected.is_resolved or pilot is None else pilot.resolved(corrected, growth)
        scales = resolved.checked_scales(noise_scale, columns, len(matrix))
        records = Records(
            resolved, columns, *resolved.kernel_data(matrix, target, scales=scales), weights, noise_scale is not None
        )
        if radius is not None:
            region: _Region = _Ellipsoid(np.eye(length), radius**2, _ON_BALL)
        elif box is not None:
            region = _Box(*box)
        elif pilot is not None and metric.any():
            bound = growth * max(_MORE_NOISE * pilot.score_variance, _LITTLE_NOISE)
            region = _Ellipsoid(metric, bound, _AS_NOISY_AS_ALLOWED)
        else:
            region = _Everywhere()
        return _attempt(records, region.inside(begin), penalty, metric, region, by_a_part=by_a_part)

    free = radius is None and box is None
    stage, growth = 1, 1.0
    found = attempt(growth, begin)
    lost = False
    while found.wants_more and free and stage < _MOST_STAGES and not lost:
        stage, growth = stage + 1, growth * step_of_growth
        try:
            found = attempt(growth, found.root.theta)
        except (DivergenceError, NoExactCorrectionError, InfiniteVarianceError):
            lost = True
    if stage > 1 and (lost or found.root.on_boundary or found.root.curvature_clipped):
        # No root further out either: stay next to the pilot.
        found = attempt(1.0, begin, by_a_part=False)
    elif found.of_a_part:
        found = attempt(growth, found.root.theta, by_a_part=False)
    records, root, resolved = found.records, found.root, found.records.corrected
    safeguards: list[str] = []
    theta = root.theta
    if root.on_boundary:
        safeguards.append(found.region.description)
    if root.curvature_clipped:
        safeguards.append("the curvature of the mean corrected loss is not positive")
    share = inflation = None
    if resolved.method != "none":
        share, size = carrying_share(records, theta)
        refuse_lost_fit(records, share, theta, "Use a radius, raise l2, or release with less noise.")
        inflation = noise_inflation(records, X, y, size, theta)
    inference = at_root(
        records, theta, root.derivatives, penalty, safeguards=safeguards, codes=codes,
        gram=pilot.gram if pilot is not None else second_moments(resolved, matrix, target, weights, noise_scale),
    )  # fmt: skip
    shaped = corrected.shaped(theta)
    shaped.setflags(write=False)
    return Fit(
        theta=shaped,
        corrected=resolved,
        solver="m_estimate",
        history=History.empty(shaped),
        inference=inference,
        diagnostics={
            "records": len(matrix),
            "steps": root.steps,
            "stages": stage,
            "seconds": time.perf_counter() - began,
            "start": "given" if given is not None else "zero" if pilot is None else "pilot",
            "pilot": None if pilot is None else pilot.as_diagnostics(),
            "safeguards": tuple(safeguards),
            "hessian": found.hessian,
            "last_step": root.last_step,
            "l2": l2,
            "carrying_share": share,
            "noise_inflation": inflation,
            "score_variance": resolved.score_variance(shaped) if scored else None,
        },
    )


def _pilot(
    corrected: CorrectedLoss,
    matrix: FloatArray,
    target: FloatArray,
    weights: FloatArray,
    *,
    l2: float,
    noise_scale: Any,
    needed: bool,
) -> Pilot | None:
    """Return the pilot estimate, or None where a loss has none: of several scores, free-form, a polynomial.

    Without one, where it is needed to tell the right root from others, its error stands.
    """
    if not corrected.is_resolved:
        return pilot_of(corrected, matrix, target, weights, l2=l2, noise_scale=noise_scale)
    if len(corrected.declared.scores) != 1 or corrected.method == "none":
        return None
    try:
        _ = corrected.surrogate_parts
    except NoExactCorrectionError:
        # A polynomial in a margin, or of no known form.
        return None
    for stride in sorted({max(1, len(matrix) // _PILOT_RECORDS), 1}, reverse=True):
        try:
            found = pilot_of(
                corrected,
                np.ascontiguousarray(matrix[::stride]),
                target[::stride],
                weights[::stride],
                l2=l2,
                noise_scale=None if noise_scale is None else np.asarray(noise_scale)[::stride],
            )
        except (NoExactCorrectionError, DivergenceError):
            if stride == 1 and needed and corrected.noise_covariance(matrix.shape[1], noise_scale, len(matrix)).any():
                # Without a pilot nothing says which root is the right one.
                raise
            continue
        if stride == 1 or not found.clipped:
            return found
    return None


def _noise_metric(corrected: CorrectedLoss, columns: int, length: int, noise_scale: Any, rows: int) -> FloatArray:
    """Return D of all parameters, scores after one another; zeros for a free-form loss or an uncorrected one."""
    if not corrected.declared.scores or corrected.method == "none":
        return np.zeros((length, length))
    covariance = corrected.noise_covariance(columns, noise_scale, rows)
    one = released_covariance(corrected.release.design(columns), covariance)
    return np.asarray(np.kron(np.eye(len(corrected.declared.scores)), one), dtype=np.float64)


# ---- where theta may go --------------------------------------------------------------------------------------------

_ON_BALL = "theta lies on the ball of radius="
_AS_NOISY_AS_ALLOWED = "theta lies where the noise of the score is as large as the pilot estimate allows"


class _Region:
    """A convex set of parameters."""

    description = ""

    def inside(self, theta: FloatArray) -> FloatArray:
        """Return a point of the set near theta."""
        raise NotImplementedError

    def minimiser(self, theta: FloatArray, gradient: FloatArray, matrix: FloatArray) -> FloatArray:
        """Return the point x of the set that minimises gradient'(x - theta) + (x - theta)'matrix (x - theta)/2."""
        raise NotImplementedError

    def on_boundary(self, theta: FloatArray) -> bool:
        """Whether theta lies on the boundary."""
        raise NotImplementedError


class _Everywhere(_Region):
    def inside(self, theta: FloatArray) -> FloatArray:
        return theta

    def minimiser(self, theta: FloatArray, gradient: FloatArray, matrix: FloatArray) -> FloatArray:
        return np.asarray(theta - np.linalg.solve(matrix, gradient))

    def on_boundary(self, theta: FloatArray) -> bool:
        return False


@dataclass(frozen=True)
class _Ellipsoid(_Region):
    """The set theta' shape theta <= bound: a ball, or scores whose noise is bounded."""

    shape: FloatArray
    bound: float
    description: str

    def _size(self, theta: FloatArray) -> float:
        return float(theta @ self.shape @ theta)

    def inside(self, theta: FloatArray) -> FloatArray:
        size = self._size(theta)
        return theta if size <= self.bound else np.asarray(theta * math.sqrt(self.bound / size))

    def minimiser(self, theta: FloatArray, gradient: FloatArray, matrix: FloatArray) -> FloatArray:
        # (matrix + mu shape) x = matrix theta - gradient, with mu such that x lies on the boundary; in coordinates
        # where both are diagonal.
        weights, vectors = eigh(self.shape, matrix)
        weights = np.maximum(weights, 0.0)
        right = vectors.T @ (matrix @ theta - gradient)

        def excess(multiplier: float) -> float:
            return float(np.sum(weights * (right / (1 + multiplier * weights)) ** 2)) - self.bound

        multiplier = 0.0
        if excess(0.0) > 0:
            upper = 1.0 / weights.max()
            while excess(upper) > 0:
                upper *= 4
            multiplier = float(brentq(excess, 0.0, upper, xtol=1e-14 * upper, rtol=1e-14))
        return np.asarray(vectors @ (right / (1 + multiplier * weights)))

    def on_boundary(self, theta: FloatArray) -> bool:
        return self._size(theta) >= self.bound * (1 - 1e-9)


@dataclass(frozen=True)
class _Box(_Region):
    lower: FloatArray
    upper: FloatArray
    description = "theta lies on the box of bounds="

    def inside(self, theta: FloatArray) -> FloatArray:
        return np.clip(theta, self.lower, self.upper)

    def minimiser(self, theta: FloatArray, gradient: FloatArray, matrix: FloatArray) -> FloatArray:
        root = np.linalg.cholesky(matrix)
        free: FloatArray = theta - np.linalg.solve(matrix, gradient)
        if np.all((free >= self.lower) & (free <= self.upper)):
            return np.asarray(free)
        wanted = lsq_linear(root.T, root.T @ free, (self.lower, self.upper), tol=1e-14)
        # The bounded solver stays inside by a hair: a parameter held by its bound is put on it.
        held = wanted.active_mask
        return np.where(held < 0, self.lower, np.where(held > 0, self.upper, wanted.x))

    def on_boundary(self, theta: FloatArray) -> bool:
        return bool(np.any((theta <= self.lower) | (theta >= self.upper)))


# ---- Newton --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Root:
    theta: FloatArray
    derivatives: Derivatives
    steps: int
    last_step: float
    on_boundary: bool
    curvature_clipped: bool


@dataclass(frozen=True)
class _Attempt:
    """Newton's method in one region."""

    root: _Root
    records: Records
    region: _Region
    hessian: str
    of_a_part: bool = False

    @property
    def wants_more(self) -> bool:
        """Whether the root seems to lie further out: on the boundary, where the risk still curves upwards."""
        return self.root.on_boundary and not self.root.curvature_clipped


def _attempt(
    records: Records,
    begin: FloatArray,
    penalty: FloatArray,
    metric: FloatArray,
    region: _Region,
    *,
    by_a_part: bool,
) -> _Attempt:
    first = None
    if by_a_part and len(records.matrix) >= _MANY:
        first = _on_a_part(records, begin, penalty, metric, region)
    if first is not None:
        if first.on_boundary:
            return _Attempt(first, records, region, "", of_a_part=True)
        begin = first.theta
        # One step with the part's Hessian: all that is missing is the gradient of all records.
        gradient = records.mean_gradient(begin) + penalty * begin
        begin = region.minimiser(begin, gradient, _positive(first.derivatives.hessian + np.diag(penalty)))
    derivatives, kind = records.derivatives_or_differences()
    root = _newton(records, derivatives, begin, penalty, metric, region, near=first is not None)
    return _Attempt(root, records, region, kind)


def _on_a_part(
    records: Records, theta: FloatArray, penalty: FloatArray, metric: FloatArray, region: _Region
) -> _Root | None:
    """Run Newton's method on a part of many records, or return None where that finds no place to start from."""
    part = records.thinned(_THINNED)
    try:
        found = _newton(part, part.derivatives_or_differences()[0], theta, penalty, metric, region)
    except (DivergenceError, NoExactCorrectionError, InfiniteVarianceError):
        return None
    return None if found.curvature_clipped else found


def _newton(
    records: Records,
    derivatives: Callable[..., Derivatives],
    theta: FloatArray,
    penalty: FloatArray,
    metric: FloatArray,
    region: _Region,
    *,
    near: bool = False,
) -> _Root:
    corrected = records.corrected
    ridge = np.diag(penalty)

    def allowed(point: FloatArray) -> bool:
        try:
            corrected.require_noise_within_limits(point, records.columns, finite_variance=True)
        except (NoExactCorrectionError, InfiniteVarianceError):
            return False
        return True

    corrected.require_noise_within_limits(theta, records.columns, finite_variance=True, at="at the start")
    before = derivatives(theta, near)
    _require_finite(records, before, theta)
    value = before.loss + 0.5 * float(penalty @ theta**2)
    reference = _positive(before.hessian + ridge)
    last = math.inf
    for step in range(1, _STEPS + 1):
        gradient = before.gradient + penalty * theta
        # The first matrix is its own reference: negative curvature there is turned into a little positive one.
        try:
            matrix, clipped = _clipped(before.hessian + ridge, reference)
            move = region.minimiser(theta, gradient, matrix) - theta
        except np.linalg.LinAlgError as error:
            raise DivergenceError(
                "the curvature of the mean corrected loss is lost to rounding at theta of norm "
                f"{np.linalg.norm(theta):.4g} (step {step}): theta has followed the noise, and there is no root near "
                "the pilot. Give radius=, raise l2, use more records, or release with less noise."
            ) from error
        length = math.sqrt(float(move @ metric @ move))
        if length > _LONGEST_STEP:
            move *= _LONGEST_STEP / length
        scale = 1 + float(np.abs(theta).max())
        size = float(np.abs(move).max())
        if near and before.meat.size and size <= _NEAR * scale and allowed(theta + move):
            # Many records are spared another pass with second derivatives: one more step with the same ones.
            end = theta + move
            again = region.minimiser(end, records.mean_gradient(end) + penalty * end, matrix) - end
            if float(np.abs(again).max()) <= _POLISHED * scale and allowed(end + again):
                end = end + again
                return _Root(end, before, step, float(np.abs(again).max()), region.on_boundary(end), clipped)
        arrived = size <= _ARRIVED * scale
        if arrived and before.meat.size and allowed(theta + move):
            end = theta + move
            return _Root(end, before, step, size, region.on_boundary(end), clipped)
        share = 1.0
        for _ in range(_HALVINGS):
            point = theta + share * move
            if allowed(point):
                after = derivatives(point, size <= _NEAR * scale)
                risk = after.loss + 0.5 * float(penalty @ point**2)
                slack = 1e-13 * (1 + abs(value))
                if risk <= value + 1e-4 * share * float(gradient @ move) + slack or arrived:
                    break
            share /= 2
        else:
            raise DivergenceError(
                f"Newton's method found no lower mean corrected loss from theta of norm {np.linalg.norm(theta):.4g} on "
                f"(step {step}): there is no root near the pilot. Give radius=, raise l2, use more records, or release "
                "with less noise."
            )
        theta, before, value, reference, last = point, after, risk, matrix, size
    raise DivergenceError(
        f"Newton's method did not settle in {_STEPS} steps (the last one moved theta by {last:.3g}): the mean "
        "corrected loss has no clear minimum near the pilot. Give radius=, raise l2, use more records, or release with "
        "less noise."
    )


def _require_finite(records: Records, found: Derivatives, theta: FloatArray) -> None:
    if math.isfinite(found.loss) and np.all(np.isfinite(found.gradient)) and np.all(np.isfinite(found.hessian)):
        return
    with np.errstate(all="ignore"):
        sizes = np.abs(records.gradients(theta, slice(None))).max(axis=1)
    bad = int(np.argmax(np.where(np.isfinite(sizes), sizes, math.inf)))
    raise DivergenceError(
        f"the corrected loss is not finite at ||theta|| = {np.linalg.norm(theta):.4g}: record {bad} has a gradient of "
        f"{sizes[bad]:.3g}. Scale the features down, give start=, or bound theta with radius=."
    )


def _positive(hessian: FloatArray) -> FloatArray:
    """Return a matrix with the eigenvalues made positive, at least a thousandth of the largest."""
    sizes, vectors = np.linalg.eigh(hessian)
    largest = float(np.abs(sizes).max())
    if largest == 0:
        return np.eye(len(hessian))
    return np.asarray((vectors * np.maximum(np.abs(sizes), 1e-3 * largest)) @ vectors.T)


def _clipped(hessian: FloatArray, reference: FloatArray) -> tuple[FloatArray, bool]:
    """Return the Hessian with its curvatures within limits of a reference's, and whether it has negative ones."""
    sizes, vectors = eigh(hessian, reference)
    kept = np.clip(sizes, _LEAST_CURVATURE, _MOST_CURVATURE)
    if np.array_equal(kept, sizes):
        return hessian, False
    left = reference @ vectors
    return np.asarray((left * kept) @ left.T), bool(sizes.min() <= 0)
