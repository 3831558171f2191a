"""M-estimation: Newton's method on the mean corrected score, with standard errors.

    sum_i w_i (corrected gradient of record i at theta) + l2 theta sum_i w_i = 0

A corrected risk is neither convex nor bounded below: the estimate is the minimum next to a pilot that has been followed
outwards from zero. Newton's steps stay near the pilot in the released score, so that a change of units changes nothing,
and one test after the fit tells whether theta has followed the noise.
"""

import contextlib
import functools
import math
import os
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from symdebias._arrays import FloatArray, IntegerArray, check_same_index, cluster_codes, require_squares
from symdebias._blas import one_thread
from symdebias._domains import NON_NEGATIVE, RADIUS, check_flag
from symdebias._progress import progress_bar
from symdebias._rows import Rows
from symdebias.checks.mismatch import refuse_mismatch, refuse_mismatch_of_some
from symdebias.corrected import CorrectedLoss, require_corrected
from symdebias.exceptions import DivergenceError, InfiniteVarianceError, NoExactCorrectionError, SymdebiasError
from symdebias.losses.shifts import centred
from symdebias.records import Ahead, Records
from symdebias.solvers.checkpoint import Checkpoint, described, kept
from symdebias.solvers.covariance import at_root, deciding_stride
from symdebias.solvers.fit import Fit
from symdebias.solvers.health import Health, examined, warn_of_inflation
from symdebias.solvers.held import frame_of, holding
from symdebias.solvers.metric import positive, undecided
from symdebias.solvers.moments import (
    pays_to_compile,
    released_moments,
    require_large_enough,
    require_small_enough,
    sums_of,
)
from symdebias.solvers.newton import Root, is_allowed, newton
from symdebias.solvers.offsets import as_offset, less_middle, with_offset
from symdebias.solvers.pilot import Pilot, pilot_of, strides
from symdebias.solvers.regions import Near, Region, Subspace
from symdebias.solvers.remedies import measures
from symdebias.solvers.residual_unit import refuse_stray_minimum, scarcely_curved
from symdebias.solvers.scores import MOVED, ReleasedRecords, known_scores

# How far from the pilot a minimum may be, in units of the pilot's length and of its uncertainty, and how often the
# search may go on from where it ended.
_REACH, _UNCERTAIN, _MOST_STAGES = 0.3, 5.0, 4
# The noise of a surrogate grows fast with the parameters. Where it leaves no minimum near the pilot, surrogates are
# designed for so many times as much noise of the score: less steep ones, of somewhat more bias.
_GROWTHS = (1.5, 2.0)
# Penalties that are tried where a fit was refused: from this share of the largest second moment on, each larger by so
# much.
_PENALTIES, _LEAST_PENALTY, _MORE_PENALTY = 4, 1e-3, 10.0
# Second moments of which rounding leaves less than this share about the mean say nothing of it.
_LEAST_VARIATION = 4e-12
# Columns that a refusal names.
_NAMED = 8
# From so many records on a first run on one in so many finds where to start; more than the third are not needed.
_MANY, _THINNED, _LARGEST_PART = 200_000, 32, 500_000
# How short Newton's last step on it is, and how often its minimum is corrected for the gradient of all records: once
# more where it is that of another correction.
_ROUGH, _CORRECTIONS = 1e-3, 1
# How many steps are taken on it: where it has a minimum they are few, and noise that is little for all records may rule
# so few.
_STEPS_ON_A_PART = 10
# Where that part has this many times the records of the pilot, a surrogate is designed anew for its minimum.
_MUCH_MORE = 1.5


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
    offset: Any = None,
    clusters: Any = None,
    surrogate_radius: float | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool = False,
) -> Fit:
    """Find the root of the mean corrected score, with its sandwich covariance.

    Parameters
    ----------
    corrected : CorrectedLoss
        What `debias` returned. A surrogate that is not resolved is designed for the distribution of true scores that
        the released records suggest at the pilot estimate, and is on the result as ``fit.corrected``.
    X : array of shape (n, p) or table
        The (noised) records.
    y : array of shape (n,)
        The (noised) targets.
    l2 : float
        Regularisation + l2/2 ||theta||^2, in [0, inf); the intercept is not penalised. Intervals then cover the
        penalised optimum.
    radius : float, optional
        Bound on the L2 norm of theta, in [1e-100, 1e100]. It narrows where theta may go, and never lets theta go where
        it would not go otherwise.
    bounds : pair of floats or arrays of shape (q,), optional
        Lower and upper bounds on the parameters, infinite where there are none; not together with `radius`. They narrow
        as well.
    start : array of shape (q,) or (K, q), optional
        Where the pilot begins, in place of zero: a warm start. A loss without a pilot (several scores, a free-form
        loss) is fitted from there, or from zeros; a loss of the residual also from least squares, and one of several
        scores from the best constants, where nothing was found from zeros.
    sample_weight : array of shape (n,), optional
        Non-negative weights.
    noise_scale : array of shape (n,) or (n, p), optional
        Standard deviations of the records' own noise; see `CorrectedLoss.loss`.
    offset : array of shape (n,), optional
        A known term of the score, without noise, such as the logarithm of the exposure of counts. Losses of the
        residual and those with a logarithmic link are then fitted with another target, and counts with their exposure
        as weights besides. For every other loss of one score, and for counts with a penalty, it is a column without
        noise whose parameter is held at 1. `l2`, `radius`, `bounds` and `start` are those of the other parameters.
    clusters : array of shape (n,), optional
        Which records belong together (releases of the same person, members of a household): any hashable labels. The
        covariance allows for any dependence within a cluster.
    surrogate_radius : float, optional
        For a surrogate that is not resolved: the bound on the score (on the residual, for a residual loss) within which
        it stands for the loss, positive, in place of the range that the records suggest.
    checkpoint : path, optional
        A file that keeps what passes over the records have come to, written every ten seconds: for records that are
        larger than memory. The same call in another process goes on from there to the same estimate, bit for bit; with
        other arguments, another release or other records it is refused. The file is removed when the run is at its end.
    progress : bool
        Show how many records passes have read (needs the extra ``progress``).

    Returns
    -------
    Fit
        With `covariance`, `standard_errors`, `confidence_interval` and `wald_test`.

    Raises
    ------
    DivergenceError
        The pilot does not settle, there is no root near it, or the fit is lost: a handful of records carries the whole
        corrected gradient, undoing the noise inflates gradients more than so many records can pay for or leaves nothing
        of them, or the curvature is within its sampling error of zero. The message says which, and what would do: a
        penalty that was tried on these records, and about how many records or which budget.
    NoExactCorrectionError, InfiniteVarianceError
        The correction, or its variance, does not exist where the data lead.
    ValueError, TypeError
        An argument or the data do not fit.

    Notes
    -----
    The corrected risk need not be convex, and can fall without end, so that the search stays near a pilot estimate. For
    a loss of one score the pilot starts at zero. There the noise of the score is small, and a surrogate is right for
    all scores; its minimum within reach is where the next surrogate is designed, until a minimum lies inside the reach.
    How far the estimate may lie from the pilot is bounded by the uncertainty of the pilot and a share of its length.
    Where the search ends at that bound it goes on from there, up to three times, and a surrogate is designed anew where
    theta has moved. ``fit.diagnostics["safeguards"]`` says what held theta at the end; there are then no intervals.

    Distances are root mean squares of the released score. So fits are the same in all units and origins of the released
    numbers with their noise.

    The matrix of Newton's method is the mean corrected Hessian, made positive definite: its eigenvalues, relative to
    the second moments of the released records, enter by their sizes. Steps are halved until the mean corrected loss
    falls.

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
    progress = check_flag("progress", progress)
    l2 = checked_options(corrected, l2=l2, radius=radius, bounds=bounds, surrogate_radius=surrogate_radius)
    began = time.perf_counter()
    corrected = corrected.named_by(X)
    factor, is_held = 1.0, False
    if offset is not None:
        y, sample_weight, factor, is_held = with_offset(corrected, X, y, sample_weight, offset, l2=l2)
    # What is not finite in a long array is found by its moments.
    checked = corrected.records(
        X, y, sample_weight=sample_weight, noise_scale=noise_scale, by_blocks=True,
        check_finite=is_held or not _are_told(corrected, X), ahead=_ahead_of(corrected),
    )  # fmt: skip
    refuse_mismatch(corrected, checked, has_offset=offset is not None)
    check_same_index(X, y, clusters=clusters)
    if is_held:
        corrected, checked = holding(corrected, checked, as_offset(offset, len(checked)))
    codes = None if clusters is None else cluster_codes(clusters, rows=len(checked))
    with one_thread(), kept(checkpoint) as journal, progress_bar(progress, None, "record") as advance:
        checked = replace(checked, watched=advance) if progress else checked
        return estimated(
            corrected, checked, l2=l2, radius=radius, bounds=bounds, start=start, surrogate_radius=surrogate_radius,
            codes=codes, factor=None if offset is None else factor, began=began, journal=journal,
        )  # fmt: skip


def _stride_of_part(present: int) -> int:
    """Return one in how many of many records with weight the part has that finds where to start."""
    return max(_THINNED, present // _LARGEST_PART)


def _strides(present: int) -> tuple[int, ...]:
    """Return one in how many of so many records with weight each sample has that a fit looks at."""
    part = (_stride_of_part(present),) if present >= _MANY else ()
    return *part, *strides(present), deciding_stride(present)


def _ahead_of(corrected: CorrectedLoss) -> Ahead:
    """Return what a fit will ask of records; where a surrogate is designed moments come with a search for far ones."""
    is_exact = corrected.approach.corrects and corrected.method != "surrogate" and len(corrected.declared.scores) == 1
    return Ahead(_strides, sums_of if is_exact else None)


def _are_told(corrected: CorrectedLoss, X: Any) -> bool:
    """Whether X is an array that a compiled pass takes moments of, which tell of NaN and infinity in it."""
    is_long = type(X) is np.ndarray and X.ndim == 2 and pays_to_compile(*X.shape)
    return is_long and bool(corrected.declared.scores)


def checked_options(corrected: Any, *, l2: Any, radius: Any, bounds: Any, surrogate_radius: Any) -> float:
    """Return l2 as a number, with arguments as for `m_estimate`.

    Raises
    ------
    ValueError, TypeError
        An argument does not fit.
    """
    require_corrected(corrected)
    if radius is not None:
        RADIUS.check("radius", radius)
        if bounds is not None:
            raise ValueError("radius and bounds were both given. Choose one: a ball or a box.")
    if surrogate_radius is not None:
        RADIUS.check("surrogate_radius", surrogate_radius)
        if corrected.method != "surrogate" or corrected.label_mixing is not None:
            raise ValueError(
                f"surrogate_radius is the range of a surrogate; method={corrected.method!r} has none. Leave it out, or "
                'debias with method="surrogate".'
            )
    return NON_NEGATIVE.check("l2", l2)


def estimated(
    corrected: CorrectedLoss,
    checked: Records,
    *,
    l2: float,
    radius: float | None,
    bounds: Any,
    start: Any,
    surrogate_radius: float | None,
    began: float,
    codes: Any = None,
    factor: float | None = None,
    journal: Checkpoint | None = None,
) -> Fit:
    """Return the fit to checked records, wherever they lie, with checked options.

    Parameters
    ----------
    corrected : CorrectedLoss
        As for `m_estimate`.
    checked : Records
        The records under it.
    l2, radius, bounds, start, surrogate_radius
        As for `m_estimate`.
    began : float
        When it began, by `time.perf_counter`.
    codes : array of shape (n,), int64, optional
        Clusters.
    factor : float, optional
        What an offset has multiplied gradients with.
    journal : Checkpoint, optional
        What passes came to in a run that was killed.

    Raises
    ------
    SymdebiasError, ValueError
        As for `m_estimate`.
    """
    has_offset, factor = factor is not None, 1.0 if factor is None else factor
    frame = frame_of(checked)
    penalty = frame.penalty(checked, l2 * factor)
    region = frame.region(radius, bounds, len(penalty))
    given = None if start is None else frame.start(checked, start)
    checked = checked.completing(penalty)
    if checked.completes and given is not None:
        given = centred(given, len(corrected.declared.scores), penalty)
    if journal is not None:
        arguments = {
            "solver": "m_estimate", "l2": l2 * factor, "radius": radius,
            "bounds": None if bounds is None else np.stack(frame.bounds(bounds, len(penalty))), "start": given,
            "clusters": codes, "surrogate_radius": surrogate_radius,
        }  # fmt: skip
        journal.begin(described(corrected, checked, arguments))
        checked = replace(checked, journal=journal)
    checked.read_ahead(*_strides(checked.present))
    refuse_mismatch_of_some(corrected, checked)
    checked = less_middle(corrected, checked, region)
    given = None if given is None else checked.as_lowered(given)
    known = frame.known(known_scores(corrected, checked))
    metric = frame.metric(released_moments(checked) if known is None else known.metric) + np.diag(penalty)
    if not np.all(np.isfinite(metric)):
        checked.require_finite()
    # Moments without weights have told it.
    is_finite = known is None or math.isfinite(known.moments.target_square)
    is_told = known is not None and not len(checked.weights)
    if not is_finite or not (is_told or isinstance(checked.target, Rows)):
        require_squares(checked.target, "y")
    require_large_enough(checked, metric)
    require_small_enough(checked, metric)
    _require_decided(checked, metric)
    reach = None if surrogate_radius is None else float(surrogate_radius)
    search = _Search(corrected, checked, known, penalty, metric, region, given, reach)
    try:
        estimate = _found(search)
    except DivergenceError as refusal:
        raise DivergenceError(
            " ".join(filter(None, (str(refusal), *_advice(search, l2, factor))))
        ) from refusal.__cause__
    pilot, health, records, root = estimate.pilot, estimate.health, estimate.records, estimate.root
    theta, resolved = root.theta, estimate.corrected
    safeguards: list[str] = []
    if root.on_boundary:
        safeguards.append(region.description)
    if not root.is_minimum:
        safeguards.append("the curvature of the mean corrected loss is not positive")
    warn_of_inflation(health.inflation, stacklevel=4)
    inference = at_root(
        records, theta, root.derivatives, penalty, metric, safeguards=safeguards, codes=codes, known=known,
        curvature=health.curvature,
    )  # fmt: skip
    told, inference = frame.told(resolved, inference)
    return Fit.of(
        told,
        frame.reported(checked.as_given(theta)),
        solver="m_estimate",
        records=len(records),
        steps=root.steps,
        began=began,
        inference=inference,
        diagnostics={
            "stages": estimate.stages,
            "start": estimate.start,
            "pilot": None if pilot is None else frame.reported_pilot(pilot.as_diagnostics(checked)),
            "safeguards": tuple(safeguards),
            "hessian": estimate.hessian,
            "last_step": root.last_step,
            "l2": l2,
            **({"offset": True} if has_offset else {}),
            **({"noise_scale": True} if records.correction.per_record else {}),
            **health.as_diagnostics(),
            "outside": None
            if known is None or resolved.design is None
            else known.outside(theta, resolved.design.radius),
            "score_variance": records.correction.score_variance(theta, records.present_scales)
            if corrected.declared.scores
            else None,
        },
    )


def _require_decided(records: Records, metric: FloatArray) -> None:
    """Raise DivergenceError where columns determine one another, so that many parameters give the same scores."""
    correction = records.correction
    if not correction.loss.scores:
        return
    names = correction.design.parameters
    if correction.release.fit_intercept:
        _require_near_zero(records, metric[: len(names), : len(names)])
    if (empty := np.flatnonzero(np.diag(metric) == 0)).size:
        # Rounding would say where they end.
        without = ", ".join(names[place % len(names)] for place in empty[:_NAMED])
        more = f" and {len(empty) - _NAMED} more" if len(empty) > _NAMED else ""
        raise DivergenceError(
            f"these records do not decide theta: {without}{more} is 0 in each of them, so that no parameter of it is "
            "the best. Leave it out, or raise l2."
        )
    places = undecided(metric)
    if places:
        # The rows of all scores have the same columns.
        taking_part = [names[place] for place in sorted({place % len(names) for place in places})]
        more = f" and {len(taking_part) - _NAMED} more" if len(taking_part) > _NAMED else ""
        raise DivergenceError(
            f"these records do not decide theta: a combination of {', '.join(taking_part[:_NAMED])}{more} is 0 in each "
            "of them, so that many parameters give the same scores. Leave out a column that others determine (one "
            "category, where every category has an indicator beside an intercept), or raise l2."
        )


def _require_near_zero(records: Records, metric: FloatArray) -> None:
    """Raise DivergenceError where a column is so far from 0 that rounding leaves nothing of how it varies."""
    squares, means = np.diag(metric)[:-1], metric[:-1, -1]
    far = np.flatnonzero(squares - means**2 < _LEAST_VARIATION * squares)
    if not far.size:
        return
    # Of constant columns it is said that they are the intercept once more.
    rows = records.correction.design.estimated_rows(np.asarray(records.tested.matrix[:]))[:, far]
    names = [records.correction.design.parameters[place] for place in far[np.ptp(rows, axis=0) > 0]]
    if names:
        raise DivergenceError(
            f"rounding leaves nothing of what {', '.join(names[:_NAMED])} says, so far from 0 beside its spread. Give "
            "each such column less a number near its mean: only the intercept changes."
        )


def _found(search: "_Search") -> "_Estimate":
    """Return an estimate.

    An exact correction may be followed outwards to where its own noise rules. That does not happen to a surrogate, and
    one serves as pilot then; the minimum is that of the exact correction all the same. A surrogate in place of it would
    have one wherever it levels out, and where the exact correction has none that is far from theta.

    Raises
    ------
    DivergenceError
        There is none.
    """
    try:
        return search.estimate()
    except DivergenceError as refusal:
        if search.known is None or not (search.known.wants_a_pilot and search.corrected.is_exact):
            raise
        try:
            return search.estimate(by_surrogate=True)
        except SymdebiasError:
            raise refusal from None


def _advice(search: "_Search", l2: float, factor: float) -> tuple[str, ...]:
    """Return what would do where a fit was refused: a penalty that was tried, and what the records say of the rest.

    Parameters
    ----------
    search : _Search
        What found nothing.
    l2, factor : float
        The penalty that was given, and what an offset has multiplied gradients with.
    """
    if unit := scarcely_curved(search.checked, search.corrected.declared):
        # A penalty would decide theta, not the records.
        return (unit,)
    moments = search.metric - np.diag(search.penalty)
    start = l2 if l2 > 0 else _LEAST_PENALTY / _MORE_PENALTY * float(np.diag(moments).max()) / factor
    said = ""
    for step in range(1, _PENALTIES + 1):
        tried = float(f"{start * _MORE_PENALTY**step:.0e}")
        penalty = frame_of(search.checked).penalty(search.checked, tried * factor)
        other = replace(search, penalty=penalty, metric=moments + np.diag(penalty))
        try:
            other.estimate()
        except SymdebiasError:
            continue
        said = f"On these records l2={tried:g} gives a fit, of smaller parameters."
        break
    return said, measures(search.checked, search.corrected.declared, search.corrected.release)


@dataclass(frozen=True)
class _Estimate:
    """A minimum, with the correction and the records that it is one of, and what was seen on the way."""

    corrected: CorrectedLoss
    records: Records
    root: Root
    hessian: str
    pilot: Pilot | None
    start: str  # Where the search began: "given", "zero", "least squares", "constants", "score by score" or "pilot".
    stages: int
    health: Health


@dataclass(frozen=True)
class _Search:
    """What is minimised, and where."""

    corrected: CorrectedLoss
    checked: Records
    known: ReleasedRecords | None
    penalty: FloatArray
    metric: FloatArray
    region: Region
    start: FloatArray | None
    surrogate_radius: float | None
    growth: float = 1.0  # How many times as much noise of the score surrogates are designed for.

    def estimate(self, *, by_surrogate: bool = False) -> _Estimate:
        """Return the minimum next to the pilot, or next to the start where there is none.

        Raises
        ------
        DivergenceError
            The pilot does not settle, there is no minimum near it, or the fit is lost.
        """
        pilot, stages, start = None, 1, "pilot" if self.start is None else "given"
        if self.known is not None and self.known.wants_a_pilot:
            pilot = pilot_of(
                self.known, self.checked, self.penalty, self.region, start=self.start, by_surrogate=by_surrogate
            )
            resolved, records, root, hessian, stages = self._near(pilot)
        else:
            (resolved, records, root, hessian), start = self._without_pilot()
        # Room for what follows.
        vars(self).pop("_part", None)
        metric = self._near_to(root.theta, math.inf).metric_at(root.derivatives.hessian)
        health = examined(
            records, root.theta, self.penalty, metric, hessian=root.derivatives.hessian,
            with_curvature=not root.on_boundary, known=self.known,
        )  # fmt: skip
        health.refuse(records.as_given(root.theta), "Raise l2, use more records, or release with less noise.")
        if pilot is None:
            refuse_stray_minimum(records, self.corrected.declared, root.theta)
        return _Estimate(resolved, records, root, hessian, pilot, start, stages, health)

    def _without_pilot(self) -> tuple[tuple[CorrectedLoss, Records, Root, str], str]:
        """Return the minimum next to a start, and which that was: the one that was given, or zero.

        Far from the residuals a loss may have no curvature: where nothing was found from zero, that of residuals is
        begun anew at least squares, and one of several scores at the best constants, all scores at once and then one
        after another.

        Raises
        ------
        DivergenceError
            There is none; the message is that of the first.
        """
        if self.start is not None:
            return self._minimum(self.region.inside(self.start), math.inf, math.inf), "given"
        try:
            return self._minimum(self.region.inside(np.zeros(len(self.penalty))), math.inf, math.inf), "zero"
        except DivergenceError:
            with contextlib.suppress(SymdebiasError):
                if self.known is not None and self.known.parts.is_residual:
                    begin = self.known.least_squares(self.penalty)
                    return self._minimum(self.region.inside(begin), math.inf, math.inf), "least squares"
                if len(self.corrected.declared.scores) > 1 and len(self.checked.correction.intercepts):
                    return self._from_constants()
            raise

    def _from_constants(self) -> tuple[tuple[CorrectedLoss, Records, Root, str], str]:
        """Return the minimum next to scores that are the same for all records, and "constants" or "score by score".

        Constants have no noise in them, and are the same in all units of the target: from there a search sets out
        where that unit is far from that of the loss.

        Raises
        ------
        DivergenceError
            There is none.
        """
        intercepts = self.checked.correction.intercepts
        constants = self._over(intercepts, np.zeros(len(self.penalty)))
        with contextlib.suppress(DivergenceError):
            return self._minimum(self.region.inside(constants), math.inf, math.inf), "constants"
        # A scale that varies along noise has curvatures that a mean far from the targets drowns.
        begin = constants
        for block in np.split(np.arange(len(self.penalty)), len(intercepts)):
            begin = self._over(np.union1d(block, intercepts), begin)
        return self._minimum(self.region.inside(begin), math.inf, math.inf), "score by score"

    def _over(self, places: IntegerArray, begin: FloatArray) -> FloatArray:
        """Return the minimum over some of the parameters, whose last step may be short.

        Raises
        ------
        DivergenceError
            There is none.
        """
        near = replace(self._near_to(begin, math.inf), region=Subspace(places))
        derivatives, _ = self.checked.derivatives_or_differences(self.metric)
        settled = newton(
            self.checked, derivatives, begin, self.penalty, near, arrived=_ROUGH, with_meat=False,
            has_noisy_curvature=False,
        )  # fmt: skip
        return settled.theta

    def _near(self, pilot: Pilot) -> tuple[CorrectedLoss, Records, Root, str, int]:
        """Return the minimum next to the pilot, of a surrogate for more noise where its own has none.

        Raises
        ------
        DivergenceError
            There is none; the message is that of the first.
        """
        try:
            return self._near_by(pilot)
        except DivergenceError:
            for growth in _GROWTHS if self._is_designed_here else ():
                with contextlib.suppress(SymdebiasError):
                    return replace(self, growth=growth)._near_by(pilot)
            raise

    def _near_by(self, pilot: Pilot) -> tuple[CorrectedLoss, Records, Root, str, int]:
        """Return the minimum next to the pilot; where it is as far away as it may be, the search goes on from there."""
        known, centre, by_a_part = pilot.known, pilot.theta, True
        # A part tells where a surrogate belongs where it knows more than the pilot does.
        tells = self.checked.present >= _MUCH_MORE * _THINNED * pilot.records
        for stage in range(1, _MOST_STAGES + 1):
            size = known.size(centre)
            reach = _REACH * max(size, pilot.unit) + _UNCERTAIN * min(pilot.uncertainty, size)
            # The last stage is on all records.
            within = MOVED * known.extent(centre) if self._is_designed_here and stage < _MOST_STAGES else math.inf
            resolved, records, root, hessian = self._minimum(
                centre, reach, (within if tells else math.inf) if by_a_part else None, seeks=tells and stage == 1
            )
            if not (root.at_reach or self._near_to(centre, reach).distance(root.theta) > within):
                break
            centre, by_a_part = root.theta, by_a_part and tells
        if root.at_reach:

            def norm(theta: FloatArray) -> float:
                return float(np.linalg.norm(self.checked.as_given(theta)))

            raise DivergenceError(
                "no minimum of the mean corrected loss was found near the pilot estimate: from ||theta|| = "
                f"{norm(pilot.theta):.4g} the search went on to {norm(root.theta):.4g} without "
                "an end. Raise l2, use more records, or release with less noise."
            )
        return resolved, records, root, hessian, stage

    @property
    def _is_designed_here(self) -> bool:
        return self.corrected.method == "surrogate" and not self.corrected.is_resolved

    def _designed(self, theta: FloatArray, *, quick: bool = False) -> tuple[CorrectedLoss, Records]:
        """Return the correction that is designed for the scores at a parameter, and the records under it."""
        resolved = self.corrected
        if self._is_designed_here:
            assert self.known is not None
            resolved = self.known.resolved(theta, growth=self.growth, radius=self.surrogate_radius, quick=quick)
        return resolved, resolved.of(self.checked)

    def _near_to(self, centre: FloatArray, reach: float) -> Near:
        """Return what lies within reach of a parameter, measured as the loss asks for."""
        return Near(centre, self.metric, reach, self.region, scores=len(self.corrected.declared.scores))

    def _minimum(
        self, begin: FloatArray, reach: float, within: float | None, *, seeks: bool = False
    ) -> tuple[CorrectedLoss, Records, Root, str]:
        """Return the minimum within reach of a parameter, of the correction that is designed for its scores.

        Of many records a part is looked at first, unless `within` is None. Where the minimum of the part is farther
        away than `within` it is the answer: another design is wanted there, before all records are passed over.
        `seeks` says that the part has a quick design, and tells where the correction is designed for.
        """
        near = self._near_to(begin, reach)
        by_a_part = within is not None and self.checked.present >= _MANY
        seeks = seeks and by_a_part and self._is_designed_here
        resolved, records = self._designed(begin, quick=seeks)
        first = self._on_a_part(records, begin, near) if by_a_part else None
        if first is not None and (first.at_reach or first.on_boundary):
            first = None
        if first is not None and within is not None and near.distance(first.theta) > within:
            return resolved, records, first, ""
        if seeks:
            resolved, records = self._designed(begin if first is None else first.theta)
        derivatives, kind = records.derivatives_or_differences(self.metric)
        settle = functools.partial(
            newton, records, derivatives, penalty=self.penalty, near=near,
            has_noisy_curvature=self.known is None or self.known.wants_a_pilot,
        )  # fmt: skip
        root = None
        if first is not None:
            moved = self._moved_by_all(records, first, near, _CORRECTIONS + seeks)
            # Where a part leads astray the search is that without it.
            with contextlib.suppress(DivergenceError):
                root = settle(moved, part=self._part.under(records.correction))
        if root is None or not root.is_minimum:
            root = settle(begin)
        return resolved, records, root, kind

    @functools.cached_property
    def _part(self) -> Records:
        """The part of many records that finds where to start."""
        # Read anew in each pass it takes little longer, and no room.
        return self.checked.spaced(_stride_of_part(self.checked.present))

    def _moved_by_all(self, records: Records, first: Root, near: Near, corrections: int) -> FloatArray:
        """Return the minimum of the part once it is given the gradient of all records there: theirs, but for little.

        By how much gradients differ at the minimum of the part is read off in one pass. The part tells how they change
        from there on, so that what remains is a share of the move, and not the square of it; it does so as often as is
        said.
        """
        begin = first.theta
        part = self._part.under(records.correction)
        hessian = first.derivatives.hessian + np.diag(self.penalty)
        curvature = positive(hessian, near.metric_at(hessian))[0]
        moved, gradient = begin, records.mean_gradient(begin)
        apart = gradient - part.mean_gradient(begin)
        for step in range(1 + corrections):
            if step > 0:
                gradient = part.mean_gradient(moved) + apart
            if not np.all(np.isfinite(gradient)):
                return begin
            moved = near.minimiser(moved, gradient + self.penalty * moved, curvature)
            if not is_allowed(records, moved):
                return begin
        return moved

    def _on_a_part(self, records: Records, theta: FloatArray, near: Near) -> Root | None:
        """Run Newton's method on a part of many records, or return None where that finds no place to start from.

        Its last step may be short beside what the part does not know of the minimum of all.
        """
        part = self._part.under(records.correction)
        try:
            derivatives, _ = part.derivatives_or_differences(self.metric)
            root = newton(
                part, derivatives, theta, self.penalty, near, arrived=_ROUGH, with_meat=False, most=_STEPS_ON_A_PART
            )
        except (DivergenceError, NoExactCorrectionError, InfiniteVarianceError):
            return None
        return root if root.is_minimum else None
