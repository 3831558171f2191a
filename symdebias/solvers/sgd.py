"""Stochastic gradient descent on a corrected loss: IWP-SGD, and plain SGD with ``method="none"``.

    theta <- Proj_radius(theta - eta_t (mean corrected gradient of batch t + l2 theta))

(Algorithm 1 of Dufraiche et al. 2026). The steps run in a compiled kernel; this module checks the arguments,
cuts the run into segments at the recorded steps, and says what went wrong where.
"""

import functools
import inspect
import math
import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from symdebias._arrays import FloatArray
from symdebias._domains import COUNT, NON_NEGATIVE, POSITIVE, shown
from symdebias._progress import progress_bar
from symdebias._randomness import generator
from symdebias._rows import Rows, at_once
from symdebias.corrected import CorrectedLoss, require_corrected
from symdebias.exceptions import ConvergenceWarning
from symdebias.records import Records
from symdebias.solvers.batch_means import batch_ends, by_batch_means
from symdebias.solvers.checkpoint import Checkpoint, described, kept, told
from symdebias.solvers.covariance import at_root
from symdebias.solvers.deal import RUNS, Deal, checked_run, read
from symdebias.solvers.descent import Descent, averaged_share, first_averaged, handing_over, seen_after
from symdebias.solvers.fit import Fit
from symdebias.solvers.health import Examination, Health, warn_of_inflation
from symdebias.solvers.held import frame_of
from symdebias.solvers.lengths import Lengths
from symdebias.solvers.moments import released_moments
from symdebias.solvers.pilot import pilot_of, strides
from symdebias.solvers.remedies import measures
from symdebias.solvers.scores import MOST_STAGES, MOVED, ReleasedRecords, Whole, known_at_a_glance, known_scores
from symdebias.solvers.smoothing import step_smoothing
from symdebias.solvers.step_sizes import StepSize, learned_steps, rule_told, step_size_told, step_sizes
from symdebias.solvers.stops import explain_overflow, explain_stop, growth_limits, remedy_of

# Noise grows exponentially beyond what a surrogate is designed for: training that starts farther out than the pilot
# has room for scores that are larger by at most this factor, and the next surrogate is designed where that ends. Where
# noise is large such room costs a bias of several standard errors.
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
    offset: Any = None,
    record: int | Sequence[int] | None = None,
    early_stopping: int | None = None,
    random_state: int | np.random.Generator | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
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
        Non-negative weights. The gradient of a batch of B records is the sum of w g over B times the mean weight of
        all records, or of those of the first `partial_fit`.
    noise_scale : array of shape (n,) or (n, p), optional
        Standard deviations of the records' own noise; see `CorrectedLoss.loss`.
    offset : array of shape (n,), optional
        A known term of the score, without noise, for every loss of one score; see `m_estimate`. `l2`, `radius`,
        `smoothing` and `start` are those of the other parameters. Where it is a column that is held, as for losses of
        labels, columns in memory are copied beside it.
    record : int or sequence of int, optional
        How many iterates to keep in the history, evenly spread, or the numbers of the steps. By default the
        start and the end.
    early_stopping : int, optional
        Stop when the mean corrected loss of all records, taken at the end of each epoch, has not improved for so many
        epochs, and return the parameters of the best epoch. It needs more than one epoch and costs no privacy: the
        loss is one of released records. ``fit.diagnostics`` has ``epoch_losses`` and ``best_epoch``.
    random_state : int, numpy.random.Generator or None
        For the order of the records; None takes fresh entropy.
    checkpoint : path, optional
        A file that keeps how far the run has come, written every ten seconds. The same call in another process goes on
        from there to the same parameters, bit for bit; with other arguments, another release or other records it is
        refused. The file is removed when the run is at its end.
    progress : bool
        Show a progress bar (needs the extra ``progress``).

    Returns
    -------
    Fit
        The parameters with history and diagnostics.

    Raises
    ------
    FitInterrupted
        Ctrl-C was pressed; its ``fit`` is what was reached.
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
    >>> fit = sd.sgd(corrected, noised.X, noised.y, step_size=0.2, l2=0.1, epochs=20, random_state=0)
    >>> bool(fit.theta[0] > 0 > fit.theta[1])
    True
    """
    with kept(checkpoint) as journal:
        return _trained(
            corrected, X, y, None, step_size=step_size, batch_size=batch_size, epochs=epochs, l2=l2, radius=radius,
            smoothing=smoothing, smoothing_mode=smoothing_mode, average=average, covariance=covariance, start=start,
            order=order, sample_weight=sample_weight, noise_scale=noise_scale, offset=offset, record=record,
            early_stopping=early_stopping, random_state=random_state, journal=journal, progress=progress,
        )[0]  # fmt: skip


@dataclass(frozen=True)
class Reached:
    """How far a descent has come, for further records to go on from there.

    Attributes
    ----------
    descent : Descent
        The run as it ended: its iterate, its average, and the number of its steps.
    step_size : float, str, StepSize or callable
        The rule of the step sizes, learned where it was to be.
    scaling : array of shape (Q, Q) or (0, 0), float64
        What learned steps multiply gradients with.
    gain : float
        What an offset has multiplied gradients with: the steps of further records are to be as long.
    weight : float
        The mean weight of the first records: those of further ones count in it.
    """

    descent: Descent
    step_size: Any
    scaling: FloatArray
    gain: float = 1.0
    weight: float = 1.0


def continued(
    corrected: CorrectedLoss,
    X: Any,
    y: Any,
    after: Reached | None,
    *,
    is_stream: bool = False,
    checkpoint: str | os.PathLike[str] | None = None,
    **options: Any,
) -> tuple[Fit, Reached]:
    """Train as `sgd` does, and say where further records go on from; or go on from where earlier ones have led.

    Parameters
    ----------
    corrected : CorrectedLoss
        As for `sgd`; that of the last fit, where this goes on.
    X, y
        As for `sgd`.
    after : Reached or None
        Where earlier records have led. Iterate, step sizes and average go on from there, as if all records had come in
        one pass; `start` and `step_size` are then not used.
    is_stream : bool
        Whether a fit that is lost so far is warned of, and not refused: more records may bring it back.
    checkpoint : path, optional
        As for `sgd`; for a run that goes on from none.
    **options
        Further arguments of `sgd`, with its defaults.

    Returns
    -------
    fit : Fit
        Of all records so far.
    reached : Reached
        For the next ones.

    Raises
    ------
    SymdebiasError, ValueError, TypeError
        As for `sgd`.

    Warns
    -----
    ConvergenceWarning
        The fit of a stream is lost so far, by its last records.
    """
    defaults = {
        name: one.default
        for name, one in inspect.signature(sgd).parameters.items()
        if one.kind is inspect.Parameter.KEYWORD_ONLY and name != "checkpoint"
    }
    with kept(checkpoint) as journal:
        return _trained(corrected, X, y, after, is_stream=is_stream, journal=journal, **(defaults | options))


def _trained(
    corrected: CorrectedLoss, X: Any, y: Any, after: Reached | None, *, step_size: Any, batch_size: int, epochs: int,
    l2: float, radius: float | None, smoothing: float, smoothing_mode: str, average: bool | float,
    covariance: str | None, start: Any, order: str, sample_weight: Any, noise_scale: Any, offset: Any, record: Any,
    early_stopping: int | None, random_state: Any, progress: bool, is_stream: bool = False,
    journal: Checkpoint | None = None,
) -> tuple[Fit, Reached]:  # fmt: skip
    """Train; see `sgd` and `continued`."""
    require_corrected(corrected)
    batch_size, epochs = COUNT.check("batch_size", batch_size), COUNT.check("epochs", epochs)
    l2 = NON_NEGATIVE.check("l2", l2)
    bound = math.inf if radius is None else POSITIVE.check("radius", radius)
    share = averaged_share(average)
    if covariance is not None:
        _check_covariance(covariance, share, step_size, epochs)
    patience = None if early_stopping is None else _patience(early_stopping, epochs, share)
    rng = generator(random_state)
    corrected, run, factor, marked = checked_run(
        corrected, X, y, order=order, sample_weight=sample_weight, noise_scale=noise_scale, offset=offset,
        is_part=is_stream,
    )  # fmt: skip
    l2 *= factor
    frame = frame_of(run)
    penalty = frame.penalty(run, l2)
    run = run.completing(penalty)
    own = frame.reported(penalty)
    begin = np.zeros(len(own)) if start is None else frame.reported(frame.start(run, start))
    if journal is not None:
        arguments = {
            "solver": "sgd", "step_size": rule_told(step_size, l2), "batch_size": batch_size, "epochs": epochs,
            "l2": l2, "radius": radius, "smoothing": float(smoothing), "smoothing_mode": smoothing_mode,
            "average": share, "covariance": covariance, "start": None if start is None else begin, "order": order,
            "record": None if record is None else np.asarray(record), "early_stopping": patience,
            "random_state": None if random_state is None else told(repr(rng.bit_generator.state).encode()),
        }  # fmt: skip
        journal.begin(described(corrected, run, arguments))
        run = replace(run, journal=journal)
    if after is not None:
        begin, step_size, factor = after.descent.theta.copy(), after.step_size, after.gain
    scores = max(1, len(corrected.declared.scores))
    smooth = step_smoothing(smoothing, smoothing_mode, scores=scores, length=len(own) // scores)
    run.read_ahead(*(() if corrected.is_resolved else strides(run)))
    with np.errstate(all="ignore"):
        # Not finite where the tested records are not.
        metric = frame.metric(released_moments(run.tested))
    training = _Training(
        step_size, batch_size, epochs, l2, penalty, metric, bound, smooth, share, record, patience,
        with_sums=covariance == "batch means", rng=rng if order == "shuffled" else None, progress=progress, after=after,
        journal=journal, has_pilot=not corrected.is_resolved, gain=factor,
        lengths=Lengths.of(corrected, run, metric) if corrected.is_resolved else None,
    )  # fmt: skip

    def examine(
        run: Records, descent: Descent, known: ReleasedRecords | None, whole: Whole | None = None
    ) -> tuple[Health, Examination]:
        examination = Examination(run, metric, known, by_derivatives=training.has_pilot, whole=whole)
        health = examination.of(frame.lifted(descent.result), penalty, with_curvature=not descent.on_ball)
        remedy = remedy_of(radius)
        if is_stream:
            health.warn(descent.result, remedy)
        elif health.signs:
            health.refuse(descent.result, f"{remedy} {measures(run, corrected.declared, corrected.release)}".strip())
        return health, examination

    n = len(run)

    def fit_of(descent: Descent, corrected: CorrectedLoss, told: dict[str, Any], **more: Any) -> Fit:
        return descent.fit(
            frame.loss(corrected),
            solver="sgd",
            records=n,
            seen=seen_after(n, batch_size),
            diagnostics=told,
            **more,
        )

    begun: list[tuple[Descent, CorrectedLoss]] = []

    def so_far() -> tuple[Descent, Callable[..., Fit]] | None:
        if not begun:
            return None
        descent, found = begun[-1]
        return descent, lambda notes, **told: fit_of(descent, found, {**training.told(), **marked, **told}, notes=notes)

    def beginning(corrected: CorrectedLoss) -> Callable[[Descent], object]:
        return lambda descent: begun.append((descent, corrected))

    with handing_over(so_far):
        designed: dict[str, Any] = {}
        if corrected.is_resolved:
            resolved = corrected
            descent, notes, reached = training.of(run, X, begin, beginning(resolved))
            known, whole = known_at_a_glance(corrected, run, training.lengths)
            known, whole = frame.known(known), frame.whole(whole)
            if covariance is not None and whole is not None:
                # The bias that intervals allow for is that of all records.
                known, whole = whole.known, None
            health, examination = examine(run, descent, known, whole)
        else:
            known = frame.known(known_scores(corrected, run))
            assert known is not None
            given = None if start is None else frame.lifted(begin)
            pilot = pilot_of(known, run, penalty, frame.region(radius, None, len(penalty)), start=given)
            centre = pilot.theta
            # A fit that ends far from where its surrogate was designed is the pilot of a new design.
            for stage in range(1, MOST_STAGES + 1):
                size = known.size(centre)
                # A start that is not farther out stays the user's in every stage.
                first = given if given is not None and (stage == 1 or known.size(given) <= size) else centre
                growth = min(max(known.size(first) / size, 1.0), _ROOM) if size > 0 else 1.0
                resolved = known.resolved(centre, growth=growth)
                run = run.under(resolved.at(run.correction.features, per_record=noise_scale is not None))
                descent, notes, reached = training.of(run, X, frame.reported(first), beginning(resolved), stage - 1)
                health, examination = examine(run, descent, known)
                if growth == 1.0 and known.size(frame.lifted(descent.result) - centre) <= MOVED * size:
                    break
                centre = frame.lifted(descent.result)
            designed = {"pilot": frame.reported_pilot(pilot.as_diagnostics()), "stages": stage}
        theta = frame.lifted(descent.result)
        warn_of_inflation(health.inflation, stacklevel=4)
        said: str | None = None
        if not (descent.on_ball or is_stream):
            begun_at = frame.lifted(descent.start)
            if covariance is None:
                said, is_far = examination.unarrived(begun_at, theta, penalty)
            else:
                # Intervals are refused where theta is away, or reach over the distance, and say so.
                said, is_far = examination.standstill(begun_at, theta, penalty), True
            if said is not None and is_far:
                warnings.warn(said, ConvergenceWarning, stacklevel=3)
        inference = None
        if covariance is not None:
            on_the_way = ["theta was projected on the ball of radius="] if descent.projections else []
            derivatives, _ = run.derivatives_or_differences()
            inference = at_root(
                run, theta, derivatives(theta, True), penalty, metric, safeguards=on_the_way, by_descent=True,
                kind="plug-in sandwich of the average", known=known, curvature=health.curvature,
            )  # fmt: skip
            inference = frame.told(resolved, inference)[1]
            if covariance == "batch means":
                inference = by_batch_means(inference, descent.sums)
        scored = bool(corrected.declared.scores)
        variance = run.correction.score_variance(theta, run.present_scales) if scored else None
        notes |= {**health.as_diagnostics(), "score_variance": variance, **designed, **marked}
        more: dict[str, Any] = {} if said is None else {"notes": (said,)}
        return fit_of(descent, resolved, notes, inference=inference, **more), reached


@dataclass(frozen=True)
class _Training:
    """How to train, whatever the records: see `sgd`.

    Attributes
    ----------
    penalty : array of shape (Q,), float64
        l2 for each parameter, one that is held among them.
    metric : array of shape (Q, Q), float64
        The second moments of released records.
    smoothing : array
        What `step_smoothing` returned.
    patience : int or None
        After how many epochs without improvement to stop.
    with_sums : bool
        Whether sums of iterates are kept, for batch means.
    rng : numpy.random.Generator or None
        For the order of the records; None takes them as they stand.
    after : Reached or None
        What is gone on from.
    journal : Checkpoint or None
        What keeps how far it has come.
    has_pilot : bool
        Whether a pilot has compiled the pass of derivatives: then no kernel for gradients is needed.
    gain : float
        As for `Reached`.
    lengths : Lengths or None
        What it measures of the records that it reads.
    """

    step_size: Any
    batch_size: int
    epochs: int
    l2: float
    penalty: FloatArray
    metric: FloatArray
    bound: float
    smoothing: FloatArray
    share: float
    record: int | Sequence[int] | None
    patience: int | None
    with_sums: bool
    rng: np.random.Generator | None
    progress: bool
    after: Reached | None = None
    journal: Checkpoint | None = None
    has_pilot: bool = False
    gain: float = 1.0
    lengths: Lengths | None = None

    def size(self, run: Records) -> tuple[int, int]:
        """Return the number of records and that of steps in an epoch."""
        return len(run), -(-len(run) // self.batch_size)

    def told(self) -> dict[str, Any]:
        """Return what there is to tell of how it was to be trained."""
        return {"epochs": self.epochs, "step_size": step_size_told(self.step_size)}

    def _steps(self, run: Records, X: Any, begin: FloatArray) -> tuple[Any, FloatArray]:
        """Return the rule of step sizes and the scaling of steps: given, learned, or those that are gone on with."""
        if self.after is not None:
            return self.step_size, self.after.scaling
        if not (isinstance(self.step_size, str) and self.step_size == "auto"):
            return self.step_size, np.zeros((0, 0))
        if not np.all(np.isfinite(self.metric)):
            explain_overflow(run, X)
        return learned_steps(
            run, frame_of(run).lifted(begin), self.penalty, self.metric, min(self.batch_size, len(run)),
            in_units=self.bound < math.inf or bool(len(self.smoothing)), by_derivatives=self.has_pilot,
        )  # fmt: skip

    def _sizes(self, step_size: Any, first: int, count: int) -> FloatArray:
        """Return the sizes of so many steps, after so many of earlier records."""
        gain = 1.0 if self.after is None else self.gain
        return gain * step_sizes(step_size, first=first, count=count, l2=self.l2 * gain)

    def _kernel(self, run: Records, scaling: FloatArray) -> Callable[..., int]:
        """Return the compiled pass over some steps, which measures records where `lengths` are asked for."""
        kernel: Callable[..., int] = run.correction.kernels.sgd_pass(
            weighted=bool(len(run.weights)), smoothed=bool(len(self.smoothing)), scaled=bool(len(scaling)),
            held=frame_of(run).place, measured=self.lengths is not None,
        )  # fmt: skip
        if self.lengths is None:
            return kernel
        return functools.partial(kernel, lengths=(self.lengths.inverse, self.lengths.longest))

    def of(
        self, run: Records, X: Any, begin: FloatArray, begun: Callable[[Descent], object], stage: int = 0
    ) -> tuple[Descent, dict[str, Any], Reached]:
        """Train on some records from a start, and return the descent, which `begun` is told of, and what to tell of it.

        A learned step takes the place of its name. The last one is what further records may go on from. ``stage``
        counts the descents of a run. A parameter that records hold is none of those of the descent.
        """
        correction, frame, (matrix, target) = run.correction, frame_of(run), run.encoded
        n, per_epoch = self.size(run)
        batch_size, total, lengths = min(self.batch_size, n), self.epochs * per_epoch, self.lengths
        step_size, scaling = self._steps(run, X, begin)
        earlier = None if self.after is None else self.after.descent
        weight = run.total / n if self.after is None else self.after.weight
        sizes = self._sizes(step_size, 0 if earlier is None else earlier.all_steps, total)
        kernel = self._kernel(run, scaling)
        limits = correction.limits.for_kernels(finite_variance=True)
        growth, runaway = growth_limits(self.bound, scaled=bool(len(scaling)))
        sums_at: list[int] = []
        if self.with_sums:
            first = first_averaged(self.share, total)
            sums_at = [first + end for end in batch_ends(total - first, step_size.power)]
        descent = Descent(
            begin, total, radius=self.bound, share=self.share, record=self.record, sums_at=sums_at, after=earlier
        )
        begun(descent)
        best = None if self.patience is None else _BestEpoch(self.patience)
        at_epoch, is_past = 0, False
        shuffler = None if self.rng is None else self.rng.bit_generator

        def take_up(state: dict[str, Any]) -> None:
            nonlocal at_epoch, is_past
            descent.take_up(state["descent"])
            at_epoch, is_past = int(state["epoch"]), bool(state["is_past"])
            if best is not None:
                best.take_up(state["best"])
            if shuffler is not None:
                shuffler.state = state["order"]

        def state_of(epoch: int, order: Any, is_past: bool = False) -> dict[str, Any]:
            return {
                "descent": descent.state(), "epoch": epoch, "is_past": is_past, "order": order,
                "best": None if best is None else best.state(),
            }  # fmt: skip

        if self.journal is not None:
            self.journal.resumed(stage, take_up)
        is_read = isinstance(matrix, Rows) or isinstance(target, Rows)
        penalty = frame.reported(self.penalty)
        deal, longest = Deal.as_given(), max(1, (at_once(matrix, target) if is_read else _SEGMENT) // batch_size)
        with progress_bar(self.progress, self.epochs * n, "record") as advance:
            advance(int(seen_after(n, batch_size)(np.array(descent.done))))
            for epoch in range(self.epochs if is_past else at_epoch, self.epochs):
                drawn_from = None if shuffler is None else shuffler.state
                if self.rng is not None:
                    deal = Deal.shuffled(n, matrix.shape[1], self.rng)
                origin = epoch * per_epoch
                if lengths is not None:
                    lengths.begin()
                for lower, upper in descent.segments(origin, origin + per_epoch, longest):
                    if upper <= descent.done:
                        continue
                    lower = max(lower, descent.done)
                    first, end = (lower - origin) * batch_size, min((upper - origin) * batch_size, n)
                    dealt = matrix, target, run.weights, deal.order, RUNS, deal.run_length, deal.shift, first
                    if is_read:
                        dealt = read(run, deal, first, end)
                    if not descent.take(
                        kernel, lower, upper, *dealt, correction.noise, sizes[lower:upper], batch_size, weight, penalty,
                        self.bound, growth, runaway, limits, self.smoothing, scaling,
                    ):  # fmt: skip
                        first += (descent.done - lower) * batch_size
                        batch = deal.rows(np.arange(first, min(first + batch_size, n)), n)
                        explain_stop(run, X, descent, batch, sizes[descent.done])
                    if lengths is not None:
                        lengths.has_read(end - first, n)
                    advance(end - first)
                    if self.journal is not None and upper < origin + per_epoch:
                        self.journal.keep(stage, functools.partial(state_of, epoch, drawn_from))
                if best is not None:
                    best.see(run.mean_loss(frame.lifted(descent.result)), descent)
                    is_past = best.is_past
                if self.journal is not None:
                    order = None if shuffler is None else shuffler.state
                    is_last = is_past or epoch == self.epochs - 1
                    self.journal.keep(stage, functools.partial(state_of, epoch + 1, order, is_past), at_once=is_last)
                if is_past:
                    break
        notes = replace(self, step_size=step_size).told()
        if best is not None:
            descent.back_to(best.epoch * per_epoch, best.theta, best.average)
            notes |= {"epochs": len(best.losses), "epoch_losses": tuple(best.losses), "best_epoch": best.epoch}
        return descent, notes, Reached(descent, step_size, scaling, self.gain, weight)


class _BestEpoch:
    """The epoch with the smallest mean loss so far, and its parameters; the first epoch has the number 1."""

    def __init__(self, patience: int) -> None:
        self.patience = patience
        self.losses: list[float] = []
        self.epoch = 0
        self.theta = self.average = np.zeros(0)

    def see(self, loss: float, descent: Descent) -> None:
        """Take in the loss and the parameters at the end of an epoch."""
        self.losses.append(loss)
        # A loss that is not a number is no improvement.
        if self.epoch == 0 or loss < self.losses[self.epoch - 1]:
            self.epoch, self.theta, self.average = len(self.losses), descent.theta.copy(), descent.average.copy()

    def state(self) -> dict[str, Any]:
        """Return what was seen, for `take_up` in another process."""
        return {
            "losses": list(self.losses), "epoch": self.epoch, "theta": self.theta.copy(), "average": self.average.copy()
        }  # fmt: skip

    def take_up(self, state: dict[str, Any]) -> None:
        """Go on from what another process has seen."""
        self.losses, self.epoch = [float(loss) for loss in state["losses"]], int(state["epoch"])
        self.theta, self.average = state["theta"].copy(), state["average"].copy()

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
            "symdebias.step_sizes.StepSize(eta, power=0.6)."
        )
    if covariance == "batch means" and epochs > 1:
        raise ValueError(
            f"batch means with epochs={epochs} would be far too small: iterates of repeated passes scatter about the "
            'root of these records, not about the true one. Take epochs=1, or ask for covariance="plug-in".'
        )
