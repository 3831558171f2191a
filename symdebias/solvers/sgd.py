"""Stochastic gradient descent on a corrected loss: IWP-SGD, and plain SGD with ``method="none"``.

    theta <- Proj_radius(theta - eta_t (mean corrected gradient of batch t + l2 theta))

(Algorithm 1 of Dufraiche et al. 2026). This module checks the arguments, designs surrogates on the way, and examines
where a descent has ended; `symdebias.solvers.training` takes its steps.
"""

import inspect
import math
import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from symdebias._arrays import FloatArray
from symdebias._blas import one_thread
from symdebias._domains import COUNT, NON_NEGATIVE, RADIUS, check_choice, check_flag, shown
from symdebias._randomness import generator
from symdebias.checks.mismatch import refuse_mismatch_of_some
from symdebias.corrected import CorrectedLoss, require_corrected
from symdebias.exceptions import ConvergenceWarning
from symdebias.inference import Inference
from symdebias.records import Records
from symdebias.solvers.batch_means import by_batch_means
from symdebias.solvers.checkpoint import Checkpoint, described, kept, told
from symdebias.solvers.covariance import at_root
from symdebias.solvers.deal import checked_run, within_reach
from symdebias.solvers.descent import Descent, averaged_share, handing_over, seen_after
from symdebias.solvers.fit import Fit
from symdebias.solvers.health import Examination, Health, warn_of_inflation
from symdebias.solvers.held import frame_of
from symdebias.solvers.lengths import Lengths
from symdebias.solvers.moments import released_moments, require_small_enough
from symdebias.solvers.offsets import less_middle
from symdebias.solvers.pilot import pilot_of, strides
from symdebias.solvers.remedies import measures
from symdebias.solvers.scores import MOST_STAGES, MOVED, ReleasedRecords, Whole, known_at_a_glance, known_scores
from symdebias.solvers.smoothing import step_smoothing
from symdebias.solvers.step_sizes import StepSize, is_learned, rule_told
from symdebias.solvers.stops import explain_overflow, remedy_of
from symdebias.solvers.training import Reached, Training

# Noise grows exponentially beyond what a surrogate is designed for: training that starts farther out than the pilot
# has room for scores that are larger by at most this factor, and the next surrogate is designed where that ends. Where
# noise is large such room costs a bias of several standard errors.
_ROOM = 1.2


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
        mu the largest and the least curvature there of the mean corrected loss at the start and where it leads, and k
        from how much gradients and curvatures of records vary. k is less where there are too few steps to arrive with
        it. With `radius` or `smoothing`, which are in the units of the parameters, steps go along the gradient itself.
        The others go along the gradient as well: a constant; a `StepSize` such as ``inverse_time(1/mu)``;
        ``"theory"``, which is 1/(l2 (t + 1)); or a function of an array of step numbers 1, 2, ...
    batch_size : int
        Records per step, at least 1; more than n takes all in one step. The last batch of an epoch may be
        smaller and is averaged over its own size.
    epochs : int
        Passes over the records, at least 1.
    l2 : float
        Regularisation + l2/2 ||theta||^2, in [0, inf); the intercept is not penalised.
    radius : float, optional
        Bound on the L2 norm of theta, in [1e-100, 1e100]: each step ends with the projection on this ball. A corrected
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
        table; that is several times faster than reading single records at random. What is read from its beginning to
        its end is copied for it, to files without a name in the folder of `tempfile.gettempdir`, of 8 bytes for each
        number.
    sample_weight : array of shape (n,), optional
        Non-negative weights. The gradient of a batch of B records is the sum of w g over B times the mean weight of
        all records, or of those of the first `partial_fit`.
    noise_scale : array of shape (n,) or (n, p), optional
        Standard deviations of the records' own noise; see `CorrectedLoss.loss`.
    offset : array of shape (n,), optional
        A known term of the score, without noise, for every loss of one score; see `m_estimate`. `l2`, `radius`,
        `smoothing` and `start` are those of the other parameters. Where it is a column that is held, as for losses of
        labels and for counts with `l2`, columns in memory are copied beside it. Steps of a given size along the
        gradient of counts are those of the mean over exposures, with `l2` or without.
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
    progress = check_flag("progress", progress)
    with one_thread(), kept(checkpoint) as journal:
        return _trained(
            corrected, X, y, None, step_size=step_size, batch_size=batch_size, epochs=epochs, l2=l2, radius=radius,
            smoothing=smoothing, smoothing_mode=smoothing_mode, average=average, covariance=covariance, start=start,
            order=order, sample_weight=sample_weight, noise_scale=noise_scale, offset=offset, record=record,
            early_stopping=early_stopping, random_state=random_state, journal=journal, progress=progress,
        )[0]  # fmt: skip


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
        The fit of a stream is lost so far, or has not arrived, by its last records.
    """
    defaults = {
        name: one.default
        for name, one in inspect.signature(sgd).parameters.items()
        if one.kind is inspect.Parameter.KEYWORD_ONLY and name != "checkpoint"
    }
    with one_thread(), kept(checkpoint) as journal:
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
    radius = None if radius is None else RADIUS.check("radius", radius)
    bound = math.inf if radius is None else radius
    share = averaged_share(average)
    if covariance is not None:
        _check_covariance(covariance, share, step_size, epochs)
    patience = None if early_stopping is None else _patience(early_stopping, epochs, share)
    rng = generator(random_state)
    corrected, X, y = within_reach(corrected, X, y, order=order)
    corrected, run, (factor, stretch), marked = checked_run(
        corrected, X, y, order=order, sample_weight=sample_weight, noise_scale=noise_scale, offset=offset, l2=l2,
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
        begin, step_size, stretch = after.descent.theta.copy(), after.step_size, after.gain
    elif is_learned(step_size):
        # Steps that are learned are of the size that these records ask for.
        stretch = 1.0
    scores = max(1, len(corrected.declared.scores))
    smooth = step_smoothing(smoothing, smoothing_mode, scores=scores, length=len(own) // scores)
    run.read_ahead(*(() if corrected.is_resolved else strides(run.present)))
    refuse_mismatch_of_some(corrected, run)
    with np.errstate(all="ignore"):
        # Not finite where the tested records are not.
        metric = frame.metric(released_moments(run.tested))
    require_small_enough(run, metric)
    training = Training(
        step_size, batch_size, epochs, l2, penalty, metric, bound, smooth, share, record, patience,
        with_sums=covariance == "batch means", rng=rng if order == "shuffled" else None, progress=progress, after=after,
        journal=journal, has_pilot=not corrected.is_resolved, gain=factor * stretch, stretch=stretch,
        lengths=Lengths.of(corrected, run, metric) if corrected.is_resolved else None,
    )  # fmt: skip
    descents = _Descents(
        corrected, X, run, training, radius, marked, is_stream=is_stream, per_record=noise_scale is not None
    )
    with handing_over(descents.so_far):
        if corrected.is_resolved:
            ended = descents.once(begin, with_intervals=covariance is not None)
        else:
            ended = descents.in_stages(None if start is None else begin)
        theta, health = ended.theta, ended.health
        warn_of_inflation(health.inflation, stacklevel=4)
        said: str | None = None
        if not ended.descent.on_ball:
            begun_at = ended.run.as_lowered(frame.lifted(ended.descent.start))
            if is_stream:
                said, is_far = ended.examination.unarrived(None, theta, penalty)
                said = None if said is None else f"so far {said}"
            elif covariance is None:
                said, is_far = ended.examination.unarrived(begun_at, theta, penalty)
            else:
                # Intervals are refused where theta is away, or reach over the distance, and say so.
                said, is_far = ended.examination.standstill(begun_at, theta, penalty), True
            if said is not None and is_far:
                warnings.warn(said, ConvergenceWarning, stacklevel=3)
        inference = None if covariance is None else descents.inference(ended, covariance)
        run = ended.run
        scored = bool(corrected.declared.scores)
        variance = run.correction.score_variance(theta, run.present_scales) if scored else None
        notes = {**ended.notes, **health.as_diagnostics(), "score_variance": variance, **ended.designed, **marked}
        more: dict[str, Any] = {} if said is None else {"notes": (said,)}
        fit = descents.fit(ended.descent, ended.resolved, notes, inference=inference, **more)
        return fit, ended.reached


@dataclass(frozen=True)
class _Ended:
    """Where training has ended, and what there is to tell of it.

    Attributes
    ----------
    resolved : CorrectedLoss
        What was trained on.
    run : Records
        The records under its correction, their targets less a middle where that is what tells where descents go.
    known : ReleasedRecords or None
        What released records say of the distribution of scores.
    notes, designed : dict
        For the diagnostics: of the descent, and of the surrogate that was designed on the way.
    """

    resolved: CorrectedLoss
    run: Records
    descent: Descent
    reached: Reached
    health: Health
    examination: Examination
    known: ReleasedRecords | None
    notes: dict[str, Any]
    designed: dict[str, Any]

    @property
    def theta(self) -> FloatArray:
        """Where it has ended, as parameters of `run`, one that it holds among them."""
        return _ended_at(self.run, self.descent)


def _ended_at(run: Records, descent: Descent) -> FloatArray:
    """Return where a descent has ended, as parameters of records with targets as given or less a middle."""
    return run.as_lowered(frame_of(run).lifted(descent.result))


@dataclass(frozen=True)
class _Descents:
    """The descents of one call: a single one, or those on surrogates each of which is designed where the last ended."""

    corrected: CorrectedLoss
    X: Any
    run: Records
    training: Training
    radius: float | None
    marked: dict[str, Any]
    is_stream: bool
    per_record: bool  # Whether records have noise of their own.
    begun: list[tuple[Descent, CorrectedLoss]] = field(default_factory=list)

    def once(self, begin: FloatArray, *, with_intervals: bool) -> _Ended:
        """Train on a loss that is resolved."""
        corrected, run, frame = self.corrected, self.run, frame_of(self.run)
        descent, notes, reached = self._trained(run, corrected, begin)
        known, whole = known_at_a_glance(corrected, run, self.training.lengths)
        known, whole = frame.known(known), frame.whole(whole)
        if with_intervals and whole is not None:
            # The bias that intervals allow for is that of all records.
            known, whole = whole.known, None
        health, examination = self._examined(run, descent, known, whole)
        return _Ended(corrected, run, descent, reached, health, examination, known, notes, {})

    def in_stages(self, start: FloatArray | None) -> _Ended:
        """Train on surrogates: a fit that ends far from where its surrogate was designed is the pilot of a new one."""
        run, frame, penalty = self.run, frame_of(self.run), self.training.penalty
        region = frame.region(self.radius, None, len(penalty))
        # Where descents go is told by these; they take the targets as they are.
        lowered = less_middle(self.corrected, run, region)
        known = frame.known(known_scores(self.corrected, lowered))
        assert known is not None
        if not np.all(np.isfinite(known.metric)):
            run.require_finite()
        given = None if start is None else lowered.as_lowered(frame.lifted(start))
        pilot = pilot_of(known, lowered, penalty, region, start=given)
        centre = pilot.theta
        for stage in range(1, MOST_STAGES + 1):
            size = known.size(centre)
            # A start that is not farther out stays the user's in every stage.
            first = given if given is not None and (stage == 1 or known.size(given) <= size) else centre
            growth = min(max(known.size(first) / size, 1.0), _ROOM) if size > 0 else 1.0
            resolved = known.resolved(centre, growth=growth)
            correction = resolved.at(run.correction.features, per_record=self.per_record)
            run, lowered = run.under(correction), lowered.under(correction)
            begin = frame.reported(lowered.as_given(first))
            descent, notes, reached = self._trained(run, resolved, begin, stage - 1)
            health, examination = self._examined(lowered, descent, known)
            found = _ended_at(lowered, descent)
            if growth == 1.0 and known.size(found - centre) <= MOVED * known.extent(centre):
                break
            centre = found
        designed = {"pilot": frame.reported_pilot(pilot.as_diagnostics(lowered)), "stages": stage}
        return _Ended(resolved, lowered, descent, reached, health, examination, known, notes, designed)

    def _trained(
        self, run: Records, corrected: CorrectedLoss, begin: FloatArray, stage: int = 0
    ) -> tuple[Descent, dict[str, Any], Reached]:
        """Take the steps of a descent, which is known from its first on."""
        return self.training.of(run, self.X, begin, lambda descent: self.begun.append((descent, corrected)), stage)

    def _examined(
        self, run: Records, descent: Descent, known: ReleasedRecords | None, whole: Whole | None = None
    ) -> tuple[Health, Examination]:
        """Examine where a descent has ended, and refuse a fit that is lost; that of a stream is warned of."""
        training, result = self.training, descent.result
        if not np.all(np.isfinite(training.metric)):
            explain_overflow(run, self.X)
        examination = Examination(run, training.metric, known, by_derivatives=training.has_pilot, whole=whole)
        health = examination.of(_ended_at(run, descent), training.penalty, with_curvature=not descent.on_ball)
        remedy = remedy_of(self.radius)
        if self.is_stream:
            health.warn(result, remedy)
        elif health.signs:
            advice = measures(run, self.corrected.declared, self.corrected.release)
            health.refuse(result, f"{remedy} {advice}".strip())
        return health, examination

    def inference(self, ended: _Ended, covariance: str) -> Inference:
        """Return the covariance of averaged iterates."""
        run, frame, descent = ended.run, frame_of(ended.run), ended.descent
        on_the_way = ["theta was projected on the ball of radius="] if descent.projections else []
        derivatives, _ = run.derivatives_or_differences(self.training.metric)
        # A surrogate that was resolved before needs no scores to train, but its bias is theirs.
        known = ended.known or frame.known(known_scores(ended.resolved, run.tested))
        inference = at_root(
            run, ended.theta, derivatives(ended.theta, True), self.training.penalty, self.training.metric,
            safeguards=on_the_way, by_descent=True, kind="plug-in sandwich of the average", known=known,
            curvature=ended.health.curvature, stacklevel=5,
        )  # fmt: skip
        inference = frame.told(ended.resolved, inference)[1]
        return by_batch_means(inference, descent.sums) if covariance == "batch means" else inference

    def fit(self, descent: Descent, corrected: CorrectedLoss, told: dict[str, Any], **more: Any) -> Fit:
        """Return what a descent has reached."""
        n = len(self.run)
        return descent.fit(
            frame_of(self.run).loss(corrected), solver="sgd", records=n, seen=seen_after(n, self.training.batch_size),
            diagnostics=told, **more,
        )  # fmt: skip

    def so_far(self) -> tuple[Descent, Callable[..., Fit]] | None:
        """Return the descent that is on its way, and what makes a fit of it; None before the first."""
        if not self.begun:
            return None
        descent, found = self.begun[-1]
        told = {**self.training.told(), **self.marked}
        return descent, lambda notes, **more: self.fit(descent, found, {**told, **more}, notes=notes)


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
    check_choice("covariance", covariance, ("plug-in", "batch means"))
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
