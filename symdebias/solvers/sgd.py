"""Stochastic gradient descent on a corrected loss: IWP-SGD, and plain SGD with ``method="none"``.

    theta <- Proj_radius(theta - eta_t (mean corrected gradient of batch t + l2 theta))

(Algorithm 1 of Dufraiche et al. 2026). The steps run in a compiled kernel; this module checks the arguments,
cuts the run into segments at the recorded steps, and says what went wrong where.
"""

import itertools
import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from symdebias._domains import COUNT, NON_NEGATIVE, POSITIVE, shown
from symdebias._randomness import generator
from symdebias.corrected import CorrectedLoss
from symdebias.exceptions import DivergenceError, InferenceError
from symdebias.inference import Inference, batch_ends, batch_means
from symdebias.records import Records
from symdebias.solvers.covariance import at_root
from symdebias.solvers.fit import Fit, History
from symdebias.solvers.health import examined, warn_of_inflation, warn_of_standstill
from symdebias.solvers.pilot import pilot_of
from symdebias.solvers.regions import region_of
from symdebias.solvers.schedule import averaged_share, first_averaged, progress_bar, recorded_steps
from symdebias.solvers.scores import known_scores, released_moments
from symdebias.solvers.smoothing import step_smoothing
from symdebias.solvers.step_sizes import StepSize, learned_steps, step_sizes

FloatArray = np.ndarray[Any, np.dtype[np.float64]]
IntegerArray = np.ndarray[Any, np.dtype[np.int64]]

# Without a ball to project on, these say that training diverges: a step to more than ten times 1 + ||theta||, or
# a norm of a hundred million. A corrected risk can fall to a plain of zero gradient out there, and stay silent.
_GROWTH = 10.0
_RUNAWAY = 1e8
# How many runs of rows are dealt out at a time, and of how many rows they are at most.
_RUNS = 32
_LONGEST_RUN = 64
# A surrogate whose theta ends farther from where it was designed than this share of its length, and than its pilot is
# uncertain, is designed anew; so many times at most.
_MOVED, _UNCERTAIN, _MOST_STAGES = 0.25, 3.0, 3
# It is designed for scores that are larger by this factor as well: iterates wander, and noise grows exponentially
# beyond what a surrogate is designed for.
_ROOM = 1.2
# Rows between two looks at the keyboard and the progress bar: some milliseconds.
_SEGMENT = 2**20


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
    smoothing: float = 0.0,
    smoothing_mode: str = "flat",
    average: bool | float = False,
    covariance: str | None = None,
    start: ArrayLike | None = None,
    order: str = "shuffled",
    sample_weight: Any = None,
    noise_scale: Any = None,
    record: int | Sequence[int] | None = None,
    early_stopping: int | None = None,
    random_state: int | np.random.Generator | None = None,
    progress: bool = False,
) -> Fit:
    """Train by stochastic gradient descent on a corrected loss.

    Parameters
    ----------
    corrected : CorrectedLoss
        What `debias` returned; with ``method="none"`` this is ordinary SGD. A surrogate that is not resolved is
        designed first, for what a pilot estimate says of the distribution and the noise of scores; it starts from the
        pilot, and is on the result as ``fit.corrected``, the pilot in ``fit.diagnostics``.
    X : array of shape (n, p) or table
        The (noised) records.
    y : array of shape (n,)
        The (noised) targets.
    step_size : "auto", float, "theory", StepSize or callable
        ``"auto"``, the default, learns at every scale of the data: steps go along the inverse of the second moments of
        released records (with l2) times the gradient, and their size is 1/(L + k/batch_size + mu t/2), with L and
        mu the largest and the least curvature there of the mean corrected loss at the start, and k from how much
        gradients and curvatures of records vary. With `radius` or `smoothing`, which are in the units of the
        parameters, steps go along the gradient itself. The others go along the gradient as well: a constant; a
        `StepSize` such as ``inverse_time(1/mu)``; ``"theory"``, which is 1/(l2 (t + 1)); or a function of an array of
        step numbers 1, 2, ...
    batch_size : int
        Records per step, at least 1; more than n takes all in one step. The last batch of an epoch may be
        smaller and is averaged over its own size.
    epochs : int
        Passes over the records, at least 1.
    l2 : float
        Regularisation + l2/2 ||theta||^2, in [0, inf); the intercept is not penalised.
    radius : float, optional
        Bound on the L2 norm of theta, in (0, inf): each step ends with the projection on this ball. A corrected
        risk is not bounded below in general, so that a bound is the remedy for divergence.
    smoothing : float
        The strength sigma of Laplacian smoothing, in [0, 1e12]: each step goes along A_sigma^{-1} times the gradient
        with its regularisation (LSSGD), whose noise is less by the factor `smoothing_beta`; 0 leaves it as it is.
    smoothing_mode : {"flat", "rows", "2d"}
        What is smoothed of the parameters, a matrix with a row per score; see `laplacian_smoothing`.
    average : bool or float
        True returns the mean of all iterates (Polyak & Juditsky 1992), a share in (0, 1] the mean of the last
        share of them.
    covariance : {"plug-in", "batch means"}, optional
        The covariance of averaged iterates. ``"plug-in"`` is the sandwich at the average, for one more pass over the
        data. ``"batch means"`` comes from the iterates themselves, online: from the spread of the means of longer and
        longer batches of steps. It needs step sizes eta t^-a with 1/2 < a < 1 and a single pass. It settles
        slowly, and intervals and tests allow for that by the distributions of Student and Hotelling.
    start : array of shape (q,) or (K, q), optional
        Where to start; zeros by default, or the pilot of a surrogate that is not resolved.
    order : {"shuffled", "given"}
        Whether each epoch draws a new order of the records, or takes them as they stand: right for a stream
        and for records already in random order. Shuffling reads runs of up to 64 consecutive records in random
        order and deals them out like cards, 32 runs at a time, so that a batch has records from all over the
        table; that is several times faster than reading single records at random.
    sample_weight : array of shape (n,), optional
        Non-negative weights; a batch is averaged with them.
    noise_scale : array of shape (n,) or (n, p), optional
        Standard deviations of the records' own noise; see `CorrectedLoss.loss`.
    record : int or sequence of int, optional
        How many iterates to keep in the history, evenly spread, or the numbers of the steps. By default the
        start and the end.
    early_stopping : int, optional
        Stop when the mean corrected loss of all records, taken at the end of each epoch, has not improved for so many
        epochs, and return the parameters of the best epoch. It needs more than one epoch and costs no privacy: the
        loss is one of released records. ``fit.diagnostics`` has ``epoch_losses`` and ``best_epoch``.
    random_state : int, numpy.random.Generator or None
        For the order of the records; None takes fresh entropy.
    progress : bool
        Show a progress bar (needs the extra ``progress``).

    Returns
    -------
    Fit
        The parameters with history and diagnostics.

    Raises
    ------
    DivergenceError
        A step was not finite, or theta ran away; the message names step, record and norm. Or the fit is lost: theta has
        followed the noise to where a handful of records carries the whole corrected gradient, or to where the curvature
        is within its sampling error of zero.
    NoExactCorrectionError, InfiniteVarianceError
        theta reached a noise variance at which the correction, or its variance, does not exist.
    ValueError, TypeError
        An argument or the data do not fit; nothing was computed.

    Notes
    -----
    One pass over the data per epoch, O(1) memory besides the data (and a permutation when shuffled). Early stopping
    takes a second pass for the loss.

    References
    ----------
    Dufraiche et al. 2026 (arXiv 2602.16436), Algorithm 1; Badanidiyuru et al. 2023 (arXiv 2312.05659), Appendix G.2
    (stopping on the training loss); Wang, Gu, Boedihardjo, Barekat & Osher 2019 (arXiv 1906.12056), for smoothing.

    Examples
    --------
    >>> import numpy as np, symdebias as sd
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-0.5, 0.5, size=(4000, 2))
    >>> y = np.where(X @ [2.0, -1.0] + 0.1 * rng.normal(size=4000) > 0, 1.0, -1.0)
    >>> release = sd.Release(features=sd.GaussianMechanism.from_scale(0.5))
    >>> noised = release.privatize(X, y, random_state=0)
    >>> corrected = sd.debias(sd.losses.exponential(), noised.release)
    >>> fit = sd.sgd(corrected, noised.X, noised.y, step_size=0.05, l2=0.1, epochs=5, random_state=0)
    >>> bool(fit.theta[0] > 0 > fit.theta[1])
    True
    """
    if not isinstance(corrected, CorrectedLoss):
        raise TypeError(f"the first argument must be what symdebias.debias returned; got {type(corrected).__name__}.")
    batch_size, epochs = COUNT.check("batch_size", batch_size), COUNT.check("epochs", epochs)
    l2 = NON_NEGATIVE.check("l2", l2)
    bound = math.inf if radius is None else POSITIVE.check("radius", radius)
    share_of_steps = averaged_share(average)
    if covariance is not None:
        _check_covariance(covariance, share_of_steps, step_size, epochs)
    best = None if early_stopping is None else _BestEpoch(_patience(early_stopping, epochs, share_of_steps))
    if not corrected.is_resolved:
        return _in_two_stages(
            corrected, X, y, step_size=step_size, batch_size=batch_size, epochs=epochs, l2=l2, radius=radius,
            smoothing=smoothing, smoothing_mode=smoothing_mode, average=average, covariance=covariance, start=start,
            order=order, sample_weight=sample_weight, noise_scale=noise_scale, record=record,
            early_stopping=early_stopping, random_state=random_state, progress=progress,
        )  # fmt: skip
    if order not in ("shuffled", "given"):
        raise ValueError(f'order={order!r} is not known. Choose "shuffled" or "given".')
    rng = generator(random_state)
    # A score that is not finite makes the step so, and the kernel stops: the pass itself checks X.
    named = not corrected.declared.scores
    run = corrected.records(X, y, sample_weight=sample_weight, noise_scale=noise_scale, check_finite=named)
    correction, weights, noise = run.correction, run.weights, run.correction.noise
    matrix, target = run.encoded
    n, width = matrix.shape
    length = correction.number_of_parameters
    theta = np.zeros(length) if start is None else correction.flat(start).copy()
    batch_size = min(batch_size, n)
    steps_per_epoch = -(-n // batch_size)
    total = epochs * steps_per_epoch
    recorded = recorded_steps(record, total)
    averaged_from = first_averaged(share_of_steps, total)
    ends: list[int] = []
    if covariance == "batch means":
        assert isinstance(step_size, StepSize)
        ends = [averaged_from + end for end in batch_ends(total - averaged_from, step_size.power)]
    penalty = correction.penalty(l2)
    scores = max(1, len(corrected.declared.scores))
    smoothing_numbers = step_smoothing(smoothing, smoothing_mode, scores=scores, length=length // scores)
    metric = _metric(run)
    scaling = np.zeros((0, 0))
    if isinstance(step_size, str) and step_size == "auto":
        if not np.all(np.isfinite(metric)):
            _explain_overflow(run, X)
        in_units = radius is not None or bool(len(smoothing_numbers))
        step_size, scaling = learned_steps(run, theta, penalty, metric, batch_size, in_units=in_units)
    sizes = step_sizes(step_size, first=0, count=total, l2=l2)
    kernel = correction.kernels.sgd_pass(
        weighted=bool(len(weights)), smoothed=bool(len(smoothing_numbers)), scaled=bool(len(scaling))
    )
    limits = correction.limits(finite_variance=True)
    # Learned steps do not depend on units, and these limits do.
    limited = radius is None and not len(scaling)
    growth, runaway = (_GROWTH, _RUNAWAY) if limited else (math.inf, math.inf)

    average_theta, averaged = theta.copy(), 0
    sums = {averaged_from: np.zeros(length)}
    kept = {0: theta.copy()}
    report = np.zeros(2, dtype=np.int64)
    deal = _Deal.as_given()
    done, began = 0, time.perf_counter()
    with progress_bar(progress, epochs * n, "record") as advance:
        for lower, upper in _segments(total, steps_per_epoch, {*recorded, averaged_from, *ends}, batch_size):
            offset = lower % steps_per_epoch
            if offset == 0 and order == "shuffled":
                deal = _Deal.shuffled(n, width, rng)
            taken = kernel(
                theta,
                matrix,
                target,
                weights,
                deal.order,
                _RUNS,
                deal.run_length,
                deal.shift,
                offset * batch_size,
                noise,
                sizes[lower:upper],
                batch_size,
                penalty,
                bound,
                growth,
                runaway,
                limits,
                smoothing_numbers,
                scaling,
                average_theta,
                float(averaged) if lower >= averaged_from else -1.0,
                report,
            )
            done = lower + taken
            if taken < upper - lower:
                positions = np.arange((offset + taken) * batch_size, min((offset + taken + 1) * batch_size, n))
                batch = deal.rows(positions, n)
                _explain_stop(run, X, theta, batch, done + 1, sizes[done], int(report[0]))
            if lower >= averaged_from:
                averaged += upper - lower
                if upper in ends:
                    sums[upper] = averaged * average_theta
            if upper in recorded:
                kept[upper] = (average_theta if averaged else theta).copy()
            advance(min((offset + taken) * batch_size, n) - offset * batch_size)
            if best is not None and upper % steps_per_epoch == 0:
                best.see(run.mean_loss(average_theta if averaged else theta), theta, average_theta)
                if best.is_past:
                    break
    if best is not None:
        theta, average_theta, total = best.theta, best.average, best.epoch * steps_per_epoch
    result = average_theta if averaged else theta
    on_ball = radius is not None and bool(np.linalg.norm(theta) >= bound * (1 - 1e-9))
    known = None if corrected.design is None else known_scores(corrected, run)
    health = examined(run, result, penalty, metric, with_curvature=not on_ball, known=known)
    bound_it = "bound theta with radius=" if radius is None else f"use a radius below {radius:g}"
    health.refuse(
        result, f"Use a smaller step_size, {bound_it}, raise l2, use more records, or release with less noise."
    )
    warn_of_inflation(health.inflation)
    if not on_ball:
        warn_of_standstill(run, kept[0], result, penalty, metric)
    inference = None
    if covariance is not None:
        on_the_way = ["theta was projected on the ball of radius="] if report[1] else []
        derivatives, _ = run.derivatives_or_differences()
        inference = at_root(
            run, result, derivatives(result, True), penalty, metric, safeguards=on_the_way, by_descent=True,
            kind="plug-in sandwich of the average", known=known,
        )  # fmt: skip
        if covariance == "batch means":
            inference = _by_batch_means(inference, sums)
    kept.setdefault(total, result.copy())
    result = correction.shaped(result)
    result.setflags(write=False)
    steps = np.array(sorted(kept), dtype=np.int64)
    full, rest = np.divmod(steps, steps_per_epoch)
    return Fit(
        theta=result,
        corrected=corrected,
        solver="sgd",
        history=History(
            steps=steps,
            records=full * n + np.minimum(rest * batch_size, n),
            theta=np.stack([correction.shaped(kept[int(step)]) for step in steps]),
        ),
        inference=inference,
        diagnostics={
            "records": n,
            "steps": done,
            "epochs": epochs if best is None else len(best.losses),
            **({} if best is None else {"epoch_losses": tuple(best.losses), "best_epoch": best.epoch}),
            "seconds": time.perf_counter() - began,
            "projections": int(report[1]),
            "on_ball": on_ball,
            "carrying_share": health.carrying_share,
            "noise_inflation": health.inflation,
            "curvature": health.curvature,
            "step_size": step_size if isinstance(step_size, (str, int, float, StepSize)) else "a function",
            "score_variance": (
                corrected.score_variance(result, noise_scale=noise_scale) if corrected.declared.scores else None
            ),
        },
    )


def _in_two_stages(corrected: CorrectedLoss, X: Any, y: Any, **options: Any) -> Fit:
    """Train on a surrogate that is designed for what a pilot estimate finds.

    A fit that ends far from where its surrogate was designed is the pilot of a new design.
    """
    rng = generator(options.pop("random_state"))
    records = corrected.records(X, y, sample_weight=options["sample_weight"], noise_scale=options["noise_scale"])
    known = known_scores(corrected, records)
    assert known is not None
    start = options.pop("start")
    given = None if start is None else records.correction.flat(start)
    penalty = records.correction.penalty(options["l2"])
    pilot = pilot_of(known, records, penalty, region_of(options["radius"], None), start=given)
    centre = pilot.theta
    for stage in range(1, _MOST_STAGES + 1):
        begin = centre if given is None or stage > 1 else given
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            fit = sgd(known.resolved(centre, growth=_ROOM), X, y, start=begin, random_state=rng, **options)
        theta = fit.theta.ravel()
        if known.size(theta - centre) <= _MOVED * known.size(centre) + _UNCERTAIN * pilot.uncertainty:
            break
        centre = theta
    for warning in caught:
        warnings.warn(warning.message, warning.category, stacklevel=3)
    return replace(fit, diagnostics={**fit.diagnostics, "pilot": pilot.as_diagnostics(), "stages": stage})


@dataclass(frozen=True)
class _Deal:
    """A random order of the records, as the kernel deals it: runs of rows like cards of as many hands.

    Reading single rows at random would cost several times the arithmetic. So runs of consecutive rows are read in
    random order, `_RUNS` at a time, and dealt out one row of each in turn: neighbours in a batch come from
    all over the table, whatever the order in which it is stored.
    """

    order: IntegerArray
    run_length: int
    shift: int

    @classmethod
    def as_given(cls) -> "_Deal":
        return cls(np.zeros(0, dtype=np.int64), 1, 0)

    @classmethod
    def shuffled(cls, records: int, columns: int, rng: np.random.Generator) -> "_Deal":
        # A megabyte of rows at a time stays in a second-level cache; few records get short runs.
        run_length = max(1, min(_LONGEST_RUN, 2**12 // columns, records // (8 * _RUNS)))
        # The rows that do not fill a run come last; the cyclic shift makes them other rows each time.
        return cls(rng.permutation(records // run_length), run_length, int(rng.integers(records)))

    def rows(self, positions: IntegerArray, records: int) -> IntegerArray:
        """Return the rows that stand at positions of the order, as the kernel finds them."""
        dealt = len(self.order) * self.run_length
        hand = _RUNS * self.run_length
        first = positions // hand * _RUNS
        count = np.maximum(1, np.minimum(_RUNS, len(self.order) - first))
        card, run = np.divmod(positions % hand, count)
        inside = positions < dealt
        runs = self.order[np.where(inside, first + run, 0)] if dealt else np.zeros_like(positions)
        return (np.where(inside, runs * self.run_length + card, positions) + self.shift) % records


class _BestEpoch:
    """The epoch with the smallest mean loss so far, and its parameters; the first epoch has the number 1."""

    def __init__(self, patience: int) -> None:
        self.patience = patience
        self.losses: list[float] = []
        self.epoch = 0
        self.theta = self.average = np.zeros(0)

    def see(self, loss: float, theta: FloatArray, average: FloatArray) -> None:
        """Take in the loss and the parameters at the end of an epoch."""
        self.losses.append(loss)
        # A loss that is not a number is no improvement.
        if self.epoch == 0 or loss < self.losses[self.epoch - 1]:
            self.epoch, self.theta, self.average = len(self.losses), theta.copy(), average.copy()

    @property
    def is_past(self) -> bool:
        """Whether the last epochs, as many as there is patience for, have all been no better."""
        return len(self.losses) - self.epoch >= self.patience


def _patience(early_stopping: Any, epochs: int, share: float) -> int:
    patience = COUNT.check("early_stopping", early_stopping)
    if epochs == 1:
        raise ValueError(
            f"early_stopping={patience} with epochs=1 has nothing to stop. Give epochs, the most passes to take, or "
            "leave early_stopping out."
        )
    if 0 < share < 1:
        raise ValueError(
            f"average={share:g} is a share of all steps, whose number early stopping does not know. Pass "
            "average=True or average=False."
        )
    return patience


def _check_covariance(covariance: str, share: float, step_size: Any, epochs: int) -> None:
    if covariance not in ("plug-in", "batch means"):
        raise ValueError(f'covariance={covariance!r:.60} is not known. Choose "plug-in" or "batch means".')
    if share == 0:
        raise ValueError(
            "the covariance is that of averaged iterates, and average=False returns the last one. Pass average=True, "
            "or average=0.5 for the last half."
        )
    if covariance == "batch means" and not (isinstance(step_size, StepSize) and 0.5 < step_size.power < 1):
        raise ValueError(
            f"batch means need step sizes eta t^-a with 1/2 < a < 1; got step_size={shown(step_size, 80)}. Pass "
            "StepSize(eta, power=0.6)."
        )
    if covariance == "batch means" and epochs > 1:
        raise ValueError(
            f"batch means with epochs={epochs} would be far too small: iterates of repeated passes scatter about the "
            'root of these records, not about the true one. Take epochs=1, or ask for covariance="plug-in".'
        )


def _by_batch_means(plug_in: Inference, sums: dict[int, FloatArray]) -> Inference:
    """Return the inference with the covariance of batch means; the first batch holds the start, and is left out."""
    kind = "batch means of the iterates"
    cuts = sorted(sums)[1:]
    means = [(sums[b] - sums[a]) / (b - a) for a, b in itertools.pairwise(cuts)]
    try:
        covariance = batch_means(means, [b - a for a, b in itertools.pairwise(cuts)])
    except InferenceError as error:
        return Inference(None, kind, str(error))
    return replace(plug_in, covariance=covariance, kind=kind, degrees_of_freedom=len(means) - 1)


def _metric(run: Records) -> FloatArray:
    """Return the second moments of the tested records, not finite where these are not."""
    with np.errstate(all="ignore"):
        return released_moments(run.thinned(run.stride))


def _explain_overflow(run: Records, X: Any) -> None:
    """Raise the error that says which record has no finite square."""
    matrix = run.correction.checked_matrix(X)  # NaN and infinity in the data have a message of their own
    with np.errstate(all="ignore"):
        bad = np.argwhere(~np.isfinite(matrix**2))
    raise DivergenceError(
        f"record {bad[0, 0]} has a value in column {bad[0, 1]} whose square is not finite. Leave the record out, or "
        "scale the column down in the release."
    )


def _segments(total: int, steps_per_epoch: int, stops: set[int], batch_size: int) -> Iterator[tuple[int, int]]:
    """Cut the steps at the ends of epochs, at the given stops, and often enough for the progress bar."""
    longest = max(1, _SEGMENT // batch_size)
    cuts = sorted({*range(0, total, steps_per_epoch), *(stop for stop in stops if 0 < stop < total), total})
    for lower, upper in itertools.pairwise(cuts):
        for begin in range(lower, upper, longest):
            yield begin, min(begin + longest, upper)


def _explain_stop(
    run: Records, X: Any, theta: FloatArray, batch: Any, step: int, step_size: float, reason: int
) -> None:
    """Raise the error that says why the kernel stopped before this step; theta is the last finite iterate."""
    norm = float(np.linalg.norm(theta))
    if reason == 2:
        run.correction.require_within_limits(theta, finite_variance=True, at=f"at step {step} (||theta|| = {norm:.4g})")
    run.correction.checked_matrix(X)  # NaN and infinity in the data have a message of their own
    with np.errstate(all="ignore"):
        largest = np.abs(run.gradients(theta, batch)).max(axis=1)
    bad = np.flatnonzero(~np.isfinite(largest))
    culprit = int(batch[bad[0]]) if len(bad) else int(batch[int(np.argmax(largest))])
    what = "has a gradient that is not finite" if len(bad) else "has the largest gradient of its batch"
    raise DivergenceError(
        f"training diverged at step {step} (||theta|| = {norm:.4g}, step size {step_size:.4g}): record {culprit} "
        f"{what}. Use a smaller step_size, bound theta with radius=, or raise l2."
    )
