"""Fits to records in the partitions of a Dask collection: by sums over partitions, and by averages of their fits."""

import functools
import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from symdebias._arrays import FloatArray
from symdebias._blas import one_thread
from symdebias._domains import NON_NEGATIVE, RADIUS
from symdebias._randomness import generator, spawn
from symdebias.checks.mismatch import refuse_mismatch
from symdebias.corrected import CorrectedLoss, require_corrected
from symdebias.exceptions import ConvergenceWarning
from symdebias.interfaces.distributed.records import PartedRecords, holding
from symdebias.records import Derivatives
from symdebias.solvers.fit import Fit
from symdebias.solvers.health import examined, warn_of_inflation
from symdebias.solvers.held import frame_of
from symdebias.solvers.m_estimation import checked_options, estimated
from symdebias.solvers.moments import released_moments
from symdebias.solvers.offsets import less_middle
from symdebias.solvers.pilot import pilot_of, strides
from symdebias.solvers.scores import MOST_STAGES, MOVED, known_scores
from symdebias.solvers.sgd import sgd as sgd_in_memory
from symdebias.solvers.step_sizes import StepSize

# An average that is farther from the root than this share of its length is warned of.
_FAR = 0.5


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
    offset: Any = None,
    surrogate_radius: float | None = None,
) -> Fit:
    """Find the root of the mean corrected score of records in partitions: the fit of `symdebias.m_estimate`.

    Loss, gradient, Hessian and the outer products of gradients are summed in each partition, and the sums are added up.

    Parameters
    ----------
    corrected : CorrectedLoss
        What `symdebias.debias` returned.
    X : data frame or array of Dask, of shape (n, p)
        The (noised) records.
    y : series or array of Dask, of shape (n,)
        The (noised) targets, in the same partitions; None for a release whose target is in X.
    l2, radius, bounds, start, surrogate_radius
        As for `symdebias.m_estimate`.
    sample_weight : series or array of Dask, of shape (n,), optional
        Non-negative weights; a partition in which all are 0 is checked and adds nothing.
    noise_scale : series or array of Dask, of shape (n,) or (n, p), optional
        Standard deviations of the records' own normal noise on the features, as for `symdebias.m_estimate`.
    clusters : series or array of Dask, of shape (n,), optional
        Which records belong to the same person, as for `symdebias.m_estimate`; a cluster may reach over partitions.
    offset : series or array of Dask, of shape (n,), optional
        Known terms of the scores, as for `symdebias.m_estimate`.

    Returns
    -------
    Fit
        That of all records on one machine, with its standard errors and diagnostics, to rounding.

    Raises
    ------
    SymdebiasError
        As for `symdebias.m_estimate`.
    ValueError, TypeError
        An argument or the data do not fit; the message names the partition.
    MissingDependencyError
        Dask is not installed.

    Notes
    -----
    Some eight passes are made over the partitions, each a task for each of them, and all answers are sums of at most
    Q^2 numbers for Q parameters. What is fetched besides, in as many passes, are records to look at: 20,000 that the
    distribution of scores is told from, with the half per cent of all that are farthest, those of the pilot (16,000 or
    more), at most 500,000 that find where to start, 10,000 that the fit is tested on, and at most 200,000 for the
    degrees of freedom.

    Partitions are read anew in each pass: ``X.persist()`` keeps them in the memory of the workers. A task whose worker
    dies is run again elsewhere. Sums are added in a fixed order, so that this changes nothing.

    Clusters take three passes more, whose answers are Q + 1 numbers for each of them, and Q^2 for those that have more
    than a thousandth of the records. An offset takes one pass more where it is a column more.

    References
    ----------
    As for `symdebias.m_estimate`; Chu et al. 2006 (Map-Reduce for Machine Learning on Multicore), the summation form.

    Examples
    --------
    >>> import dask.array as da, numpy as np, symdebias as sd
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(20_000, 1))
    >>> noised = x + 0.5 * rng.normal(size=x.shape)
    >>> X, y = da.from_array(noised, chunks=5_000), da.from_array(2 * x[:, 0], chunks=5_000)
    >>> corrected = sd.debias(sd.losses.least_squares(), sd.Release(sd.GaussianMechanism.from_scale(0.5)))
    >>> fit = sd.distributed.m_estimate(corrected, X, y)
    >>> here = sd.m_estimate(corrected, noised, 2 * x[:, 0])
    >>> bool(np.allclose(fit.theta, here.theta, rtol=1e-12)), fit.diagnostics["records"]
    (True, 20000)
    """
    l2 = checked_options(corrected, l2=l2, radius=radius, bounds=bounds, surrogate_radius=surrogate_radius)
    began = time.perf_counter()
    corrected = corrected.named_by(X)
    checked = PartedRecords.checked(
        corrected, X, y, sample_weight, noise_scale=noise_scale, clusters=clusters, offset=offset, l2=l2
    )
    refuse_mismatch(corrected, checked, has_offset=offset is not None)
    corrected, checked = holding(corrected, checked)
    with one_thread():
        return estimated(
            corrected, checked, l2=l2, radius=radius, bounds=bounds, start=start, surrogate_radius=surrogate_radius,
            codes=None if clusters is None else checked.clusters(), factor=checked.gain, began=began,
        )  # fmt: skip


def sgd(
    corrected: CorrectedLoss,
    X: Any,
    y: Any,
    *,
    step_size: float | str | StepSize | Callable[[FloatArray], FloatArray] = "auto",
    batch_size: int = 128,
    epochs: int = 1,
    l2: float = 0.0,
    radius: float | None = None,
    average: bool | float = False,
    start: ArrayLike | None = None,
    order: str = "shuffled",
    sample_weight: Any = None,
    offset: Any = None,
    random_state: int | np.random.Generator | None = None,
) -> Fit:
    """Train by stochastic gradient descent in each partition by itself, and average the parameters.

    Parameters
    ----------
    corrected : CorrectedLoss
        What `symdebias.debias` returned. A surrogate that is not resolved is designed once for all partitions.
    X : data frame or array of Dask, of shape (n, p)
        The (noised) records.
    y : series or array of Dask, of shape (n,)
        The (noised) targets, in the same partitions.
    step_size, batch_size, epochs, l2, radius, average, start, order
        As for `symdebias.sgd`, in each partition.
    sample_weight : series or array of Dask, of shape (n,), optional
        Non-negative weights; a partition in which all are 0 is checked and adds nothing.
    offset : series or array of Dask, of shape (n,), optional
        Known terms of the scores, as for `symdebias.sgd`.
    random_state : int, numpy.random.Generator or None
        For the order of records: partition k draws from the k-th generator that this one spawns.

    Returns
    -------
    Fit
        The mean of the parameters of partitions, weighted by their records. ``fit.diagnostics`` has the number of
        ``partitions``, the ``spread`` of each parameter over them, a standard deviation, and how far ``away`` the root
        for all records is by one step of Newton's method, over the length of theta in the score.

    Raises
    ------
    DivergenceError
        Training diverged in a partition, or the fit is lost, as for `symdebias.sgd`.
    NoExactCorrectionError, InfiniteVarianceError
        The correction, or its variance, does not exist where training leads.
    ValueError, TypeError
        An argument or the data do not fit; the message names the partition.
    MissingDependencyError
        Dask is not installed.

    Warns
    -----
    ConvergenceWarning
        The average is far from the root: partitions are too small for so few steps.

    Notes
    -----
    Parameters travel once, when a partition is done. That is right under three assumptions. **Each partition is a
    sample of the same population**: where records are sorted, by place or by day, shuffle them before. **Near the root
    the risk is strongly convex**, so that partitions end at the same minimum. **Partitions are large**: averaging K
    partitions of m records divides the variance by K, but leaves the bias that each of them has. The mean squared error
    of averaged minimisers is of order 1/(K m) + m^-2 and that of averaged descents 1/(K m) + m^(-3/2) (Zhang, Duchi &
    Wainwright 2013): as good as one descent over all records while m is well above K^2. Where noise is much the number
    of records that counts is smaller by ``fit.diagnostics["noise_inflation"]``.

    `m_estimate` assumes none of this, and has standard errors; ``start=fit.theta`` saves it nothing but the pilot.

    References
    ----------
    Zinkevich, Weimer, Smola & Li 2010 (NIPS 23); Zhang, Duchi & Wainwright 2013 (JMLR 14).

    Examples
    --------
    >>> import dask.array as da, numpy as np, symdebias as sd
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(40_000, 1))
    >>> X = da.from_array(x + 0.5 * rng.normal(size=x.shape), chunks=10_000)
    >>> y = da.from_array(2 * x[:, 0], chunks=10_000)
    >>> corrected = sd.debias(sd.losses.least_squares(), sd.Release(sd.GaussianMechanism.from_scale(0.5)))
    >>> fit = sd.distributed.sgd(corrected, X, y, average=0.5, random_state=0)
    >>> fit.diagnostics["partitions"], bool(abs(fit.theta[0] - 2) < 0.1)
    (4, True)
    """
    require_corrected(corrected)
    l2 = NON_NEGATIVE.check("l2", l2)
    if radius is not None:
        radius = RADIUS.check("radius", radius)
    began = time.perf_counter()
    corrected = corrected.named_by(X)
    run: Any = PartedRecords.checked(corrected, X, y, sample_weight, offset=offset)
    refuse_mismatch(corrected, run, has_offset=offset is not None)
    corrected, run = holding(corrected, run)
    frame = frame_of(run)
    penalty = frame.penalty(run, l2 * (run.gain or 1.0))
    run = run.completing(penalty)
    begin = None if start is None else frame.start(run, start)
    run.read_ahead(*(() if corrected.is_resolved else strides(run.present)))
    metric = frame.metric(released_moments(run.tested))
    is_plain = corrected.is_resolved and corrected.design is None
    region = frame.region(radius, None, len(penalty))
    # Where descents go is told by these; they take the targets as they are.
    lowered = run if is_plain else less_middle(corrected, run, region)
    begin = None if begin is None else lowered.as_lowered(begin)
    known = None if is_plain else frame.known(known_scores(corrected, lowered))
    options = {
        "step_size": step_size, "batch_size": batch_size, "epochs": epochs, "l2": l2, "radius": radius,
        "average": average, "order": order,
    }  # fmt: skip
    rng = generator(random_state)
    designed: dict[str, Any] = {}
    resolved, stages = corrected, 1
    if not corrected.is_resolved:
        assert known is not None
        pilot = pilot_of(known, lowered, penalty, region, start=begin)
        begin, stages = pilot.theta, MOST_STAGES
        designed = {"pilot": frame.reported_pilot(pilot.as_diagnostics(lowered))}
    for stage in range(1, stages + 1):
        if known is not None and begin is not None and not corrected.is_resolved:
            resolved = known.resolved(begin)
            run, lowered = resolved.of(run), resolved.of(lowered)
            designed["stages"] = stage
        first = None if begin is None else frame.reported(lowered.as_given(begin))
        found = _averaged(run, frame.loss(resolved), options, first, rng)
        theta = lowered.as_lowered(frame.lifted(found.theta))
        if known is None or begin is None or known.size(theta - begin) <= MOVED * known.extent(begin):
            break
        begin = theta
    on_ball = radius is not None and float(np.linalg.norm(found.theta)) >= radius * (1 - 1e-9)
    there = lowered.derivatives_or_differences(metric)[0](theta)
    health = examined(
        lowered, theta, penalty, metric, hessian=there.hessian, with_curvature=not on_ball, known=known
    )  # fmt: skip
    health.refuse(found.theta, "Raise l2, use more records, or release with less noise.")
    warn_of_inflation(health.inflation)
    away = None if on_ball else _away(theta, there, penalty, metric)
    if away is not None and away > _FAR:
        warnings.warn(
            f"the average is {away:.2g} of its length away from the root of the mean corrected score of all records, "
            "as one step of Newton's method tells: descent has not arrived in the partitions. Use more epochs, a "
            "larger step_size (the default learns), larger partitions, or m_estimate.",
            ConvergenceWarning,
            stacklevel=2,
        )
    diagnostics = {
        "partitions": found.partitions, "spread": found.spread, "epochs": epochs, "l2": l2, "on_ball": on_ball,
        "away": away, **({} if offset is None else {"offset": True}), **health.as_diagnostics(), **designed,
    }  # fmt: skip
    return Fit.of(
        frame.loss(resolved),
        found.theta,
        solver="sgd",
        records=len(run),
        steps=found.steps,
        began=began,
        diagnostics=diagnostics,
    )


def _away(theta: FloatArray, found: Derivatives, penalty: FloatArray, metric: FloatArray) -> float | None:
    """Return how far the next step of Newton's method leads, over the length of theta, both by released scores."""
    try:
        step = np.linalg.solve(found.hessian + np.diag(penalty), found.gradient + penalty * theta)
    except np.linalg.LinAlgError:
        return None
    size, length = (float(one @ metric @ one) for one in (step, theta))
    return math.sqrt(size / length) if length > 0 and size >= 0 else None


@dataclass(frozen=True)
class _Average:
    """The mean of the parameters of partitions.

    Attributes
    ----------
    theta, spread : array of shape (Q,), float64
        The mean, and the standard deviations over partitions.
    steps, partitions : int
        How many steps all of them took, and how many there are.
    """

    theta: FloatArray
    spread: FloatArray
    steps: int
    partitions: int


def _averaged(
    run: PartedRecords, corrected: CorrectedLoss, options: dict[str, Any], begin: FloatArray | None,
    rng: np.random.Generator,
) -> _Average:  # fmt: skip
    """Return the mean of what descent finds in each partition."""
    start = None if begin is None else corrected.declared.by_score(begin)
    train = functools.partial(_trained, corrected=corrected, start=start, options=options)
    places = run.at
    said = places.partitions.each(train, [(stream,) for stream in spawn(rng, len(places.partitions))])
    thetas, totals, steps = (np.array(one) for one in zip(*said, strict=True))
    shares = totals / totals.sum()
    theta = shares @ thetas
    return _Average(theta, np.sqrt(shares @ (thetas - theta) ** 2), int(steps.sum()), len(said))


def _trained(
    X: Any, y: Any, weights: Any, scales: Any, clusters: Any, offset: Any, stream: np.random.Generator, *,
    corrected: CorrectedLoss, start: FloatArray | None, options: dict[str, Any],
) -> tuple[FloatArray, float, int]:  # fmt: skip
    """Return what descent finds in a partition, the weight of its records, and the number of steps."""
    fit = sgd_in_memory(
        corrected, X, y, sample_weight=weights, offset=offset, start=start, random_state=stream, **options
    )
    total = float(fit.diagnostics["records"]) if weights is None else float(np.sum(np.asarray(weights)))
    return fit.theta.ravel(), total, int(fit.diagnostics["steps"])
