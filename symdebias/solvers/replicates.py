"""Many descents on the same released records at once: step sizes, penalties, bounds and starts are tried in one pass.

A batch of records is read once and serves all replicates (`codegen.replicates`), which are otherwise on their own: each
takes the steps of `sgd` with its settings, and is examined as `sgd` examines a fit.
"""

import inspect
import math
import operator
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from symdebias._arrays import FloatArray, check_same_index
from symdebias._blas import one_thread
from symdebias._domains import COUNT, check_flag
from symdebias._randomness import generator
from symdebias.codegen.parallel import over_chunks
from symdebias.corrected import CorrectedLoss, require_corrected
from symdebias.exceptions import ConvergenceWarning, SymdebiasError, VarianceWarning
from symdebias.records import Records
from symdebias.solvers.checkpoint import described, kept, told
from symdebias.solvers.deal import checked_run, within_reach
from symdebias.solvers.descent import averaged_share
from symdebias.solvers.fit import Fit
from symdebias.solvers.health import Examination, inflation_said
from symdebias.solvers.held import frame_of, holding
from symdebias.solvers.many_descents import Member, train_together
from symdebias.solvers.moments import released_moments
from symdebias.solvers.offsets import as_offset
from symdebias.solvers.remedies import measures
from symdebias.solvers.scores import known_at_a_glance
from symdebias.solvers.settings import Setting, checked_settings
from symdebias.solvers.smoothing import step_smoothing
from symdebias.solvers.step_sizes import is_learned, step_size_told
from symdebias.solvers.stops import explain_overflow, remedy_of

# From so many replicates on, the kernel of second derivatives is worth its compilation: it examines a theta in a third
# of the time.
_MANY = 16


@dataclass(frozen=True)
class Replicates:
    """What `sgd_replicates` returned: a fit for each of the settings, in their order.

    ``replicates[k]`` is the `Fit` of the k-th settings, and raises its error where it has none.

    Attributes
    ----------
    settings : tuple of mapping
        As given.
    thetas : array of shape (R, q) or (R, K, q), float64
        The parameters, a row for each replicate; NaN where it has no fit.
    errors : mapping from int to SymdebiasError
        What `sgd` would have raised, for each replicate without a fit.
    corrected : CorrectedLoss
        What was minimised.

    Examples
    --------
    >>> import numpy as np, symdebias as sd
    >>> x = np.random.default_rng(0).normal(size=(4_000, 1))
    >>> corrected = sd.debias(sd.losses.least_squares(), sd.Release(sd.GaussianMechanism.from_scale(0.5)))
    >>> noised = corrected.release.privatize(x, 2 * x[:, 0], random_state=0)
    >>> replicates = sd.sgd_replicates(corrected, noised.X, noised.y, [{"l2": 0.0}, {"l2": 1.0}], random_state=0)
    >>> replicates, replicates[1].solver, bool(np.all(replicates.thetas[1] < replicates.thetas[0]))
    (Replicates(2 fits), 'sgd', True)
    """

    settings: tuple[Mapping[str, Any], ...]
    thetas: FloatArray
    errors: Mapping[int, SymdebiasError]
    corrected: CorrectedLoss
    _fits: Mapping[int, Fit] = field(repr=False)

    def __len__(self) -> int:
        return len(self.settings)

    def __getitem__(self, index: int) -> Fit:
        try:
            at = operator.index(index)
        except TypeError:
            raise TypeError(
                f"a replicate is told by its number; got {type(index).__name__}. Give an integer, or iterate."
            ) from None
        if not -len(self) <= at < len(self):
            raise IndexError(f"there is no replicate {at}: their numbers are 0 to {len(self) - 1}.")
        place = at % len(self)
        if place in self.errors:
            raise self.errors[place]
        return self._fits[place]

    def __iter__(self) -> Iterator[Fit]:
        return (self[place] for place in range(len(self)))

    def __repr__(self) -> str:
        without = f", {len(self.errors)} of them without a fit" if self.errors else ""
        return f"{type(self).__name__}({len(self)} fits{without})"

    def mean_losses(
        self, X: Any, y: Any, *, sample_weight: Any = None, noise_scale: Any = None, offset: Any = None
    ) -> FloatArray:
        """Return the mean corrected loss of each replicate on released records, in one pass over them.

        Parameters
        ----------
        X : array of shape (n, p) or table
            Released records, held out from training where replicates are to be chosen among.
        y : array of shape (n,)
            Their released targets.
        sample_weight : array of shape (n,), optional
            Non-negative weights.
        noise_scale : array of shape (n,) or (n, p), optional
            Standard deviations of the records' own noise.
        offset : array of shape (n,), optional
            A known term of the score. Replicates with an offset need one.

        Returns
        -------
        array of shape (R,), float64
            Without penalties; NaN for a replicate without a fit. The noise of each is that of
            `CorrectedLoss.mean_loss`, and most of it is common to all replicates.

        Raises
        ------
        ValueError, TypeError
            The data do not fit, or replicates had an offset and none is given.
        """
        if offset is None and any(fit.diagnostics.get("offset") for fit in self._fits.values()):
            raise ValueError(
                "these replicates have an offset, and their losses are not told without one. Pass offset=, with zeros "
                "for an exposure of 1."
            )
        check_same_index(X, y, offset=offset)
        records = self.corrected.records(X, y, sample_weight=sample_weight, noise_scale=noise_scale, by_blocks=True)
        if offset is not None:
            _, records = holding(self.corrected, records, as_offset(offset, len(records)), at_a_glance=True)
        frame = frame_of(records)
        kernel = records.correction.kernels.mean_loss(weighted=bool(len(records.weights)))
        (matrix, target), total, noise = records.encoded, records.total, records.correction.noise
        trained = [place for place in range(len(self)) if place not in self.errors]
        flat = self.thetas.reshape(len(self), -1)

        def summed(rows: slice) -> FloatArray:
            own = records.weights[rows] if len(records.weights) else records.weights
            columns, targets = matrix[rows], target[rows]
            return np.array(
                [kernel(frame.lifted(flat[place]), columns, targets, own, total, noise) for place in trained]
            )

        found = np.full(len(self), math.nan)
        found[trained] = np.sum(over_chunks(len(records), summed), axis=0)
        return found


def sgd_replicates(
    corrected: CorrectedLoss,
    X: Any,
    y: Any,
    settings: Iterable[Mapping[str, Any]],
    *,
    batch_size: int = 128,
    epochs: int = 1,
    smoothing: float = 0.0,
    smoothing_mode: str = "flat",
    average: bool | float = False,
    order: str = "shuffled",
    sample_weight: Any = None,
    noise_scale: Any = None,
    offset: Any = None,
    record: int | Sequence[int] | None = None,
    random_state: int | np.random.Generator | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool = False,
) -> Replicates:
    """Train by stochastic gradient descent with many settings in one pass over the records.

    Parameters
    ----------
    corrected : CorrectedLoss
        What `debias` returned. A surrogate is to be resolved: that of a first fit, ``fit.corrected``, will do.
    X : array of shape (n, p) or table
        The (noised) records.
    y : array of shape (n,)
        The (noised) targets.
    settings : iterable of mappings
        One for each replicate, with any of ``step_size``, ``l2``, ``radius`` and ``start``, as for `sgd`, which has the
        defaults of the others: ``[{"step_size": eta, "l2": l2} for eta in (0.01, 0.1) for l2 in (0.1, 1.0)]``, or the
        ``ParameterGrid`` of scikit-learn. Besides ``shift``, in [0, 1): which share of the records comes before those
        that it begins an epoch with, rounded down to batches. It takes them last in that epoch, each once.
    batch_size, epochs, smoothing, smoothing_mode, average, order, sample_weight, noise_scale, offset, record, progress
        As for `sgd`, and the same for all replicates.
    random_state : int, numpy.random.Generator or None
        For the order of the records, which is one for all replicates but for where they begin; None takes fresh
        entropy. See the notes for several orders.
    checkpoint : path, optional
        As for `sgd`: a file from which the same call in another process goes on to the same parameters, bit for bit.

    Returns
    -------
    Replicates
        ``replicates[k]`` is the fit that `sgd` returns for the k-th settings with the same ``random_state``, to
        rounding, or with a shift that for records in this order; ``replicates.thetas`` has the parameters of all.

    Raises
    ------
    SymdebiasError
        No replicate has a fit; the error is that of the first.
    ValueError, TypeError
        An argument, one of the settings or the data do not fit, or the surrogate is not resolved; nothing was computed.

    Warns
    -----
    ConvergenceWarning
        Some replicates have no fit: they diverged, or are lost. Or some have hardly left their start.
    VarianceWarning
        Some would need a hundred times as many records as without the noise.

    Notes
    -----
    Replicates are shared out to the cores; results do not depend on how many there are. Ctrl-C stops the run without a
    result; a checkpoint is kept.

    **Several orders.** What replicates share is that a batch is fetched once, and orders that are drawn by themselves
    have other batches: for these call this once for each `random_state`. With ``shift`` replicates go round the random
    order of an epoch from different places, and end with different records, at the cost of a second reading: for k in
    range(K) ``{"shift": k / K}``. They tell how far the order moves a fit: for 20 of them the standard deviation was
    0.9 to 1.2 times that over as many orders. Neighbours are alike where the last iterates remember more than 1/K of
    the records. The mean of all is mostly the better one for it: each record is among the last ones of some replicate.

    Examples
    --------
    >>> import numpy as np, symdebias as sd
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-0.5, 0.5, size=(30_000, 2))
    >>> y = np.where(X @ [2.0, -1.0] + 0.5 * rng.normal(size=30_000) > 0, 1.0, -1.0)
    >>> noised = sd.Release(features=sd.GaussianMechanism.from_scale(0.4)).privatize(X, y, random_state=0)
    >>> corrected = sd.debias(sd.losses.exponential(), noised.release)
    >>> grid = [{"step_size": size, "l2": l2} for size in (0.1, 0.5) for l2 in (0.01, 1.0)]
    >>> train, test = slice(None, 20_000), slice(20_000, None)
    >>> replicates = sd.sgd_replicates(corrected, noised.X[train], noised.y[train], grid, epochs=5, random_state=0)
    >>> held_out = replicates.mean_losses(noised.X[test], noised.y[test])
    >>> best = int(np.nanargmin(held_out))
    >>> replicates.settings[best], replicates[best].theta.shape
    ({'step_size': 0.5, 'l2': 0.01}, (2,))
    """
    progress = check_flag("progress", progress)
    require_corrected(corrected)
    given = checked_settings(settings, inspect.signature(sgd_replicates).parameters)
    batch_size, epochs = COUNT.check("batch_size", batch_size), COUNT.check("epochs", epochs)
    share, rng = averaged_share(average), generator(random_state)
    if not corrected.is_resolved:
        raise ValueError(
            "this surrogate is not resolved, and each replicate would have one of its own. Resolve it first: pass "
            "fit.corrected of a first fit by m_estimate or sgd, or corrected.resolve(radius=, score_variance=, n=)."
        )
    corrected, X, y = within_reach(corrected, X, y, order=order)
    corrected, run, (factor, _), marked = checked_run(
        corrected, X, y, order=order, sample_weight=sample_weight, noise_scale=noise_scale, offset=offset
    )
    with one_thread(), kept(checkpoint) as journal:
        if journal is not None:
            arguments = {
                "solver": "sgd_replicates",
                **{f"settings {place}": told(*one.as_told(factor)) for place, one in enumerate(given)},
                "batch_size": batch_size, "epochs": epochs, "smoothing": float(smoothing),
                "smoothing_mode": smoothing_mode, "average": share, "order": order,
                "record": None if record is None else np.asarray(record),
                "random_state": None if random_state is None else told(repr(rng.bit_generator.state).encode()),
            }  # fmt: skip
            journal.begin(described(corrected, run, arguments))
            run = replace(run, journal=journal)
        frame = frame_of(run)
        with np.errstate(all="ignore"):
            # Not finite where the tested records are not.
            metric = frame.metric(released_moments(run.tested))
        length = run.correction.number_of_parameters - (frame.place is not None)
        scores = max(1, len(corrected.declared.scores))
        smooth = step_smoothing(smoothing, smoothing_mode, scores=scores, length=length // scores)
        if not np.all(np.isfinite(metric)) and any(is_learned(one.step_size) for one in given):
            explain_overflow(run, X)
        per_epoch = -(-len(run) // batch_size)
        turns = 1 + any(int(one.shift * per_epoch) for one in given)
        members = []
        for place, one in enumerate(given):
            try:
                member = Member.of(
                    one,
                    run,
                    metric,
                    batch_size,
                    per_epoch,
                    turns=turns,
                    epochs=epochs,
                    share=share,
                    record=record,
                    factor=factor,
                    smoothed=bool(len(smooth)),
                )
            except (ValueError, TypeError) as error:
                if one.start is not None and len(error.args) == 1:
                    error.args = (f"settings {place}: {error}",)
                raise
            members.append(member)
        errors: dict[int, SymdebiasError] = {}
        train_together(
            run, X, members, errors, batch_size=batch_size, epochs=epochs, turns=turns, smoothing=smooth,
            rng=rng if order == "shuffled" else None, progress=progress, journal=journal,
        )  # fmt: skip
        if not np.all(np.isfinite(metric)) and len(errors) < len(members):
            explain_overflow(run, X)
        return _examined(
            corrected, run, metric, given, members, errors, batch_size=batch_size, epochs=epochs, marked=marked
        )


def _examined(
    corrected: CorrectedLoss,
    run: Records,
    metric: FloatArray,
    settings: list[Setting],
    members: list[Member],
    errors: dict[int, SymdebiasError],
    *,
    batch_size: int,
    epochs: int,
    marked: dict[str, Any],
) -> Replicates:
    """Return what the replicates have reached, each examined as `sgd` examines a fit."""
    n, frame = len(run), frame_of(run)
    known, whole = known_at_a_glance(corrected, run)
    examination = Examination(
        run, metric, frame.known(known), by_derivatives=len(members) >= _MANY, whole=frame.whole(whole)
    )
    told = frame.loss(corrected)
    advice: str | None = None
    fits: dict[int, Fit] = {}
    said: dict[type[Warning], dict[int, str]] = {VarianceWarning: {}, ConvergenceWarning: {}}
    for place, one in enumerate(members):
        if place in errors:
            continue
        descent, theta = one.descent, frame.lifted(one.descent.result)
        health = examination.of(theta, one.penalty, with_curvature=not descent.on_ball)
        if health.signs:
            if advice is None:
                advice = measures(run, corrected.declared, corrected.release)
            errors[place] = health.refusal(descent.result, f"{remedy_of(one.setting.radius)} {advice}".strip())
            continue
        notes = {VarianceWarning: inflation_said(health.inflation), ConvergenceWarning: None}
        unarrived: str | None = None
        if not descent.on_ball:
            unarrived, is_far = examination.unarrived(frame.lifted(descent.start), theta, one.penalty)
            notes[ConvergenceWarning] = unarrived if is_far else None
        for kind, note in notes.items():
            if note is not None:
                said[kind][place] = note
        fits[place] = descent.fit(
            told,
            solver="sgd",
            records=n,
            seen=one.seen(n, batch_size),
            diagnostics={
                "epochs": epochs,
                "step_size": step_size_told(one.step_size),
                **health.as_diagnostics(),
                "score_variance": run.correction.score_variance(theta, run.present_scales)
                if corrected.declared.scores
                else None,
                **marked,
            },
            **({} if unarrived is None else {"notes": (unarrived,)}),
        )
    if not fits:
        raise errors[min(errors)]
    _warn(said, errors, len(members))
    thetas = np.full((len(members), members[0].descent.theta.size), math.nan)
    for place in fits:
        thetas[place] = members[place].descent.result
    shaped = corrected.declared.by_score(thetas)
    shaped.setflags(write=False)
    return Replicates(tuple(one.given for one in settings), shaped, errors, told, fits)


def _warn(said: Mapping[type[Warning], Mapping[int, str]], errors: Mapping[int, SymdebiasError], count: int) -> None:
    """Warn once of each thing that is to be said of some replicates."""
    if errors:
        first = min(errors)
        warnings.warn(
            f"{len(errors)} of {count} replicates have no fit, their rows of thetas are NaN, and errors says why; the "
            f"first is {first}: {errors[first]}",
            ConvergenceWarning,
            stacklevel=4,
        )
    for kind, notes in said.items():
        if notes:
            first = min(notes)
            warnings.warn(
                f"{len(notes)} of {count} replicates, the first of which is {first}: {notes[first]}",
                kind,
                stacklevel=4,
            )
