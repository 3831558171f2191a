"""Differentially private stochastic gradient descent on true records, with Laplacian smoothing of the noised gradients.

    theta <- Proj_radius(theta - eta_t A_sigma^{-1} ((sum of clipped gradients + N(0, (z C')^2 I))/b + l2 theta))

Without smoothing this is DP-SGD. `_Noise` is the one place that decides how much noise a step adds, and how its records
are drawn; the steps themselves run in a compiled kernel.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from symdebias._arrays import FloatArray, IntegerArray
from symdebias._domains import COUNT, NON_NEGATIVE, RADIUS, Interval, check_choice, check_flag
from symdebias._progress import progress_bar
from symdebias._rows import Rows, at_once, counted_from
from symdebias.bounds.slopes import slope_bound
from symdebias.exceptions import PrivacyError
from symdebias.losses import Loss
from symdebias.losses.loss import require_loss
from symdebias.mechanisms import batches, rounded, sampling
from symdebias.privacy import Guarantee, calibrate_noise_multiplier, published_noise, subsampled_gaussian_guarantee
from symdebias.privacy.accounting import ACCOUNTANTS
from symdebias.privacy.guarantee import ADJACENCIES
from symdebias.records import Records
from symdebias.solvers.central.grids import promised, step_for
from symdebias.solvers.central.records import PublicBounds, corrected_of, row_norms, true_records
from symdebias.solvers.descent import Descent, averaged_share, handing_over
from symdebias.solvers.fit import Fit
from symdebias.solvers.smoothing import step_smoothing
from symdebias.solvers.step_sizes import StepSize, step_sizes

_CLIP = Interval(
    1e-100, 1e100, "both", "Give the norm that gradients are clipped to, or None for a loss with a bounded slope."
)
_PROBABILITY = Interval(
    0.0, 1.0, "right", "Give the probability with which a step draws a record: public, not computed from the records."
)
# So many numbers of noise, and so many rows, are drawn at a time: some megabytes, which stay in a cache.
_DRAWS = 2**18
# So many numbers of records that are read for some steps are there at a time.
_READ = 2**20
# Noise is never as many standard deviations long, but with a probability below 2^-60; half of them are enough.
_LONGEST = 20.0
# Steps whose norm is beyond this are not finite for long.
_RUNAWAY = 1e100


def dp_lssgd(
    loss: Loss,
    X: Any,
    y: Any,
    *,
    epsilon: float,
    delta: float,
    adjacency: str,
    smoothing: float = 0.0,
    smoothing_mode: str = "flat",
    clip: float | None = None,
    epochs: int = 50,
    batch_size: int = 128,
    sampling_probability: float | None = None,
    step_size: float | str | StepSize | Callable[[FloatArray], FloatArray] = 0.5,
    l2: float = 0.0,
    radius: float | None = None,
    record_radius: float | None = None,
    target_bounds: tuple[float, float] | None = None,
    fit_intercept: bool = False,
    average: bool | float = False,
    start: ArrayLike | None = None,
    accountant: str = "pld",
    record: int | Any | None = None,
    random_state: int | np.random.Generator | None = None,
    noise: str | None = None,
    progress: bool = False,
) -> Fit:
    """Train on true records with a central guarantee: DP-LSSGD, or DP-SGD with ``smoothing=0``.

    Parameters
    ----------
    loss : Loss
        The declared loss, of one or several scores or free-form.
    X : array of shape (n, p) or table
        The true records.
    y : array of shape (n,)
        The true targets.
    epsilon : float
        The budget of the whole run, in [1e-6, 700].
    delta : float
        In (0, 1); the accountant may need more than 0 by a margin. Choose it well below 1/n.
    adjacency : {"replace-one", "add-remove"}
        What may differ between neighbours: a record is exchanged for another one, or is there or not. Under
        ``"add-remove"`` the number of records is private: then give `sampling_probability` too, which is otherwise
        computed from it.
    smoothing : float
        The strength sigma of Laplacian smoothing, in [0, 1e12]. It is post-processing of the noised gradient and costs
        no privacy. 0, the default, is DP-SGD: smoothing helps where neighbouring parameters belong together, as pixels
        do (the paper takes 1 to 3), and costs much where they do not, as with the columns of a table.
    smoothing_mode : {"flat", "rows", "2d"}
        What is smoothed of the parameters, a matrix with a row per score; see `laplacian_smoothing`.
    clip : float, optional
        C: the gradient of each record is shortened to this norm, in [1e-100, 1e100]. By default C is derived, as
        the largest norm that a gradient has within the declared bounds, and nothing is clipped: for a loss with bounded
        slopes this needs `record_radius`, for others `radius` and perhaps `target_bounds` too.
    epochs : int
        How often each record is drawn on average, at least 1: there are epochs/(sampling probability) steps.
    batch_size : int
        b, at least 1: the expected number of records per step, which their sum is divided by; more than n counts as n.
    sampling_probability : float, optional
        The probability with which a step draws each record, in (0, 1]; b/n by default.
    step_size : float, "theory", StepSize or callable
        As for `sgd`: a constant, `inverse_time`, ... By default 0.5, which suits rows of norms up to 1.
    l2 : float
        Regularisation + l2/2 ||theta||^2, in [0, inf); the intercept is not penalised. It is not clipped.
    radius : float, optional
        Bound on the L2 norm of theta, in [1e-100, 1e100]: each step ends with the projection on this ball.
    record_radius : float, optional
        A public bound on the L2 norm of a row of X, its constant left out; longer rows are shortened to it.
    target_bounds : pair of float, optional
        Public bounds of a target without declared values; targets outside are moved to the nearer one.
    fit_intercept : bool
        Whether a score has a constant, whose parameter comes last.
    average : bool or float
        As for `sgd`: True returns the mean of all iterates, a share in (0, 1] the mean of the last share of them.
    start : array of shape (q,) or (K, q), optional
        Where to start, public; zeros by default.
    accountant : {"pld", "rdp", "published"}
        Who calibrates the noise. ``"pld"`` and ``"rdp"`` are those of `subsampled_gaussian_guarantee`, for records
        drawn by Poisson sampling. ``"published"`` is Theorem 2 of the paper, for batches of b different records and
        replace-one; it is refused where the theorem's conditions fail.
    record : int or sequence of int, optional
        How many iterates to keep in the history, evenly spread, or the numbers of the steps. The guarantee covers them
        all.
    random_state : int, numpy.random.Generator or None
        For records and noise. None takes fresh entropy; a seed is for tests and simulations, as whoever knows it can
        subtract the noise: ``fit.guarantee`` is refused then.
    noise : {"hardened", "plain"}, optional
        As for `symdebias.Release.privatize`: hardened unless a seed is given, the draw of the records too. The
        guarantee of plain noise says what it is worth.
    progress : bool
        Show a progress bar (needs the extra ``progress``).

    Returns
    -------
    Fit
        Its `guarantee` names the accountant, the adjacency and the sampling. What it holds besides theta is public, or
        covered by the guarantee, except ``diagnostics["seconds"]``: the time that a run takes is not protected, and is
        left out of saved fits.
        ``diagnostics`` has ``noise_multiplier`` (z), ``clip`` (C), ``clip_derived``, ``sampling_probability``,
        ``expected_batch_size`` (b), ``seeded`` and ``hardened``; ``records`` is None under add-remove.

    Raises
    ------
    FitInterrupted
        Ctrl-C was pressed; its ``fit`` is what was reached, under the guarantee of the whole run.
    DivergenceError
        theta ran away. The message says nothing of single records.
    PrivacyError
        No noise keeps the budget, or Theorem 2 of the paper does not hold.
    MissingDependencyError
        The package dp-accounting is not installed, and the accountant is not ``"published"``.
    ValueError, TypeError
        An argument or the records do not fit; nothing was computed.
    OSError
        There is no room for a copy of records that are read in order.

    Notes
    -----
    A gradient of a loss of scores is the outer product of its slopes F_U and its row x, with the norm ||F_U|| ||x||:
    clipping takes the slopes only, and no gradient of a single record is ever formed. For softmax that is
    ||p - e_y|| ||x||. A gradient that is not finite counts as zero.

    The derived C is sup ||F_U|| over the scores and targets that the bounds allow, times the bound on ||x|| (with its
    constant): sqrt(2) for softmax, 1 for the log loss, at a bound of 1.

    Each clipped gradient is rounded to multiples of a step g, a power of two and at most 2^-20 C/sqrt(Q) for Q
    parameters, before it is added: it is then at most C' = C + g sqrt(Q)/2 long, 2^-21 more than C. (Beside noise of
    2^26 C/sqrt(Q) and more the step is as much longer as keeps noise below 2^52 steps.) Sums of these and
    of noise that is rounded to the same grid exactly are exact whole numbers of steps: what is released is the sum with
    noise of real numbers, rounded.

    The noise of the sum has the standard deviation z C' under both adjacencies; the accountant knows that an exchanged
    record moves the sum by up to 2 C'.

    Warnings and refusals are for the collector, who has the records: that they occur is not covered by the guarantee.

    Steps draw records from everywhere. Those of `symdebias.blocks.from_parquet` and `symdebias.blocks.from_iterator`
    are copied once, by one pass, to files without a name in the folder for temporary ones (`tempfile.gettempdir`, which
    the environment variable TMPDIR names): 8 bytes for each number of X and y. These are **true records on a disk**
    while the run goes on. No other user can open them, and they are gone with the run, or with the process however it
    ends; the disk keeps the bytes until others are written over them. Let TMPDIR name a folder that true records may
    lie in, such as one on an encrypted disk.

    References
    ----------
    Wang, Gu, Boedihardjo, Barekat & Osher 2019 (arXiv 1906.12056), Algorithm 1 and Theorem 2; Abadi et al. 2016 (arXiv
    1607.00133), Algorithm 1 (DP-SGD); Goodfellow 2015 (arXiv 1510.01799), for norms of gradients without gradients.

    Examples
    --------
    >>> import numpy as np, symdebias as sd
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-0.7, 0.7, size=(4000, 2))
    >>> y = np.where(X @ [2.0, -1.0] + 0.1 * rng.normal(size=4000) > 0, 1.0, -1.0)
    >>> fit = sd.dp_lssgd(
    ...     sd.losses.logistic(), X, y, epsilon=1.0, delta=1e-5, adjacency="replace-one", smoothing=0.0,
    ...     record_radius=1.0, epochs=5, accountant="rdp", random_state=0,
    ... )
    >>> bool(fit.theta[0] > 0 > fit.theta[1]), fit.diagnostics["clip"]
    (True, 1.0)
    """
    fit_intercept = check_flag("fit_intercept", fit_intercept)
    progress = check_flag("progress", progress)
    epochs, batch_size = COUNT.check("epochs", epochs), COUNT.check("batch_size", batch_size)
    l2 = NON_NEGATIVE.check("l2", l2)
    bound = math.inf if radius is None else RADIUS.check("radius", radius)
    share = averaged_share(average)
    check_choice("accountant", accountant, (*ACCOUNTANTS, "published"))
    check_choice("adjacency", adjacency, ADJACENCIES)
    clipped_to = None if clip is None else _CLIP.check("clip", clip)
    bounds = PublicBounds.checked(record_radius, target_bounds, fit_intercept=fit_intercept)
    require_loss(loss)
    if clipped_to is None:
        clipped_to = _derived_clip(loss, bounds, bound)
    run = true_records(loss, X, y, bounds, any_row=True)
    correction, n = run.correction, len(run)
    length = correction.number_of_parameters
    theta = np.zeros(length) if start is None else correction.flat(start).copy()
    if not float(np.linalg.norm(theta)) <= bound:
        raise ValueError(f"start is longer than radius={bound:g}. Start within the ball.")
    if adjacency == "replace-one":
        batch_size = min(batch_size, n)
    source = sampling.source(random_state, noise)
    added = _Noise.calibrated(
        epsilon, delta, adjacency, accountant, n, batch_size, epochs, sampling_probability, clipped_to, length
    )
    sizes = step_sizes(step_size, first=0, count=added.steps, l2=l2)
    scores = max(1, len(loss.scores))
    smoothing_numbers = step_smoothing(smoothing, smoothing_mode, scores=scores, length=length // scores)
    penalty = correction.penalty(l2)
    drawn_from = _Drawn.of(run, fit_intercept=fit_intercept)
    kernel = correction.kernels.noisy_pass(smoothed=bool(len(smoothing_numbers)))
    descent = Descent(theta, added.steps, radius=bound, share=share, record=record)
    longest = drawn_from.longest(n * added.probability)
    most = max(1, min(_DRAWS // length, int(_DRAWS / max(1.0, n * added.probability))))

    def fit_so_far(notes: tuple[str, ...] = (), **told: Any) -> Fit:
        # The guarantee covers all steps, and so the first ones.
        return descent.fit(
            corrected_of(run),
            solver="dp_lssgd" if smoothing else "dp_lssgd without smoothing (DP-SGD)",
            records=n if adjacency == "replace-one" else None,
            seen=lambda steps: steps * batch_size,
            diagnostics={
                "epochs": epochs,
                "noise_multiplier": added.multiplier,
                "clip": clipped_to,
                "clip_derived": clip is None,
                "sampling_probability": added.probability,
                "expected_batch_size": batch_size,
                "seeded": source.seeded,
                "hardened": source.hardened,
                **told,
            },
            notes=notes,
            own_guarantee=promised(added.guarantee, source, noise),
        )

    with handing_over(lambda: (descent, fit_so_far)), progress_bar(progress, added.steps, "step") as advance:
        for begin in range(0, added.steps, most):
            count = min(most, added.steps - begin)
            rows, ends = added.sampled(n, count, source)
            draws = added.drawn((count, length), source)
            # What is kept or averaged cuts the steps, and changes nothing of what is drawn.
            for lower, upper in descent.segments(begin, begin + count, longest):
                part = slice(lower - begin, upper - begin)
                skipped = int(ends[lower - begin - 1]) if lower > begin else 0
                if not descent.take(
                    kernel, lower, upper, *drawn_from.taken(rows[skipped : int(ends[upper - begin - 1])]),
                    ends[part] - skipped, draws[part], correction.noise, sizes[lower:upper], clipped_to, added.step,
                    float(batch_size), penalty, bound, math.inf, _RUNAWAY, smoothing_numbers,
                ):  # fmt: skip
                    size = sizes[descent.done]
                    raise descent.diverged(size, ". Use a smaller step_size, or bound theta with radius=.")
                advance(upper - lower)
    return fit_so_far()


@dataclass(frozen=True)
class _Drawn:
    """Where the records of steps are drawn from."""

    matrix: FloatArray | Rows  # Columns as kernels take them.
    target: FloatArray | Rows
    norms: FloatArray | None  # Bounds on the norms of rows; None where those are read when they are drawn.
    constant: bool  # Whether a constant enters the scores.

    @classmethod
    def of(cls, records: Records, *, fit_intercept: bool) -> "_Drawn":
        """Return checked records to draw from: norms are known to be finite before a step is taken."""
        matrix, target = records.encoded
        if not isinstance(matrix, Rows) and not isinstance(target, Rows):
            return cls(matrix, target, row_norms(records.arrays[0], constant=fit_intercept), fit_intercept)
        for start in range(0, len(records), at_once(matrix)):
            with counted_from(start):
                row_norms(records.matrix[start : start + at_once(matrix)], constant=fit_intercept)
        return cls(matrix, target, None, fit_intercept)

    def longest(self, batch: float) -> int | None:
        """Return how many steps are taken together where their records, some `batch` for each, are read for them."""
        return None if self.norms is not None else max(1, int(_READ / max(1.0, batch * self.matrix.shape[1])))

    def taken(self, rows: IntegerArray) -> tuple[FloatArray, FloatArray, FloatArray, IntegerArray]:
        """Return records, bounds on their norms, and the places among them of the rows that were drawn."""
        if self.norms is not None:
            assert not isinstance(self.matrix, Rows)
            assert not isinstance(self.target, Rows)
            return self.matrix, self.target, self.norms, rows
        places, own = np.unique(rows, return_inverse=True)
        matrix, target = np.ascontiguousarray(self.matrix[places]), np.ascontiguousarray(self.target[places])
        return matrix, target, row_norms(matrix, constant=self.constant), own.reshape(-1).astype(np.int64)


@dataclass(frozen=True)
class _Noise:
    """How the records of a step are drawn, and how much noise their sum gets: the one place that decides it."""

    multiplier: float  # z: the noise of the sum has the standard deviation z C'.
    clip: float  # C, the norm that gradients are clipped to.
    step: float  # g: what a record contributes is rounded to multiples of it.
    reach: float  # C', the bound on the norm of what a record contributes after that.
    probability: float  # The probability with which a step draws a record.
    batch_size: int  # b; with fixed batches the size of each.
    fixed: bool  # Whether a step draws b different records, rather than each one by itself.
    steps: int  # How many steps there are.
    guarantee: Guarantee  # Of all of them.

    @classmethod
    def calibrated(
        cls,
        epsilon: float,
        delta: float,
        adjacency: str,
        accountant: str,
        records: int,
        batch_size: int,
        epochs: int,
        sampling_probability: float | None,
        clip: float,
        length: int,
    ) -> "_Noise":
        """Return the least noise that an accountant finds for a budget."""
        if sampling_probability is None:
            probability = batch_size / records
            if adjacency == "add-remove":
                raise ValueError(
                    "under add-remove the number of records is private, and sampling_probability=None would compute "
                    "it from that number. Give one that rests on public knowledge, such as sampling_probability=0.01, "
                    'or choose adjacency="replace-one".'
                )
        else:
            probability = _PROBABILITY.check("sampling_probability", sampling_probability)
        steps = max(1, math.ceil(epochs / probability - 1e-9))
        fixed = accountant == "published"
        if fixed:
            if adjacency != "replace-one" or sampling_probability is not None:
                raise ValueError(
                    'accountant="published" is a theorem for batches of exactly b different records and for neighbours '
                    'with one record exchanged. Give adjacency="replace-one" and leave sampling_probability out, or '
                    'use accountant="pld".'
                )
            theorem = published_noise(epsilon, delta, records, batch_size, steps, bound=clip)
            if not theorem.holds:
                raise PrivacyError(
                    "Theorem 2 of the DP-LSSGD paper does not hold here, whatever mu; with the least noise:\n"
                    f'{theorem}\nUse accountant="pld", which needs less noise and has no such conditions.'
                )
            multiplier = math.nextafter(theorem.scale * batch_size / clip * (1 + 1e-15), math.inf)
            spent = Guarantee(epsilon, delta, "central", adjacency)
            basis = (
                f"normal noise of {theorem.scale:.6g} on means of batches of {batch_size} records drawn without "
                f"replacement in {steps} steps, gradients of norm at most {clip:.6g}, Theorem 2 of arXiv 1906.12056 "
                f"with mu {theorem.share:.4g}"
            )
        else:
            how = {"adjacency": adjacency, "accountant": accountant}
            multiplier = calibrate_noise_multiplier(epsilon, delta, probability, steps, **how)
            spent = subsampled_gaussian_guarantee(multiplier, probability, steps, delta, **how)
            basis = (
                f"normal noise of {multiplier:.6g} times the norm {clip:.6g} on sums of records that {steps} steps "
                f"draw by Poisson sampling with probability {probability:.6g}, accountant {accountant} of dp-accounting"
            )
        guarantee = replace(spent, basis=basis)
        step = step_for(clip, length, _LONGEST * multiplier * clip)
        # Clipping in float64 leaves a norm that may be above C by a rounding for each term of it.
        reach = (clip * (1 + 2.0**-40) + step * math.sqrt(length) / 2) * (1 + 2.0**-50)
        if not records * (clip / step + 1) < 2.0**52:
            raise ValueError(
                f"sums of gradients of so many records in {length} parameters would go beyond the whole numbers of "
                "float64. The number of records times the root of that of parameters must be below 2^31. Train on "
                "fewer records."
            )
        return cls(multiplier, clip, step, reach, probability, batch_size, fixed, steps, guarantee)

    @property
    def scale(self) -> float:
        """The standard deviation of the noise of a sum, z C', rounded up."""
        return math.nextafter(self.multiplier * self.reach, math.inf)

    def sampled(self, records: int, steps: int, source: sampling.Source) -> tuple[IntegerArray, IntegerArray]:
        """Return the records of some steps, and where those of each step end."""
        if self.fixed:
            return batches.subsets(records, self.batch_size, steps, source)
        return batches.poisson_samples(records, self.probability, steps, source)

    def drawn(self, shape: tuple[int, int], source: sampling.Source) -> FloatArray:
        """Return the noise of the sums of some steps; hardened noise in multiples of the step."""
        if source.hardened:
            steps = rounded.normal(self.scale / self.step, shape, source).astype(np.float64)
            return steps * self.step
        return sampling.normal_noise(self.scale, shape, source)


def _derived_clip(loss: Loss, bounds: PublicBounds, radius: float) -> float:
    """Return the largest norm of a gradient within the declared bounds."""
    remedy = "Give clip=, the norm that gradients are clipped to."
    if not loss.scores:
        raise ValueError(f"the largest gradient of a free-form loss is not derived. {remedy}")
    if bounds.record_radius is None:
        raise ValueError(
            "without clip= the largest gradient is derived from public bounds, and record_radius=None is none. "
            f"{remedy} Or give record_radius=, the bound on the norm of a row."
        )
    try:
        slope = slope_bound(
            loss,
            score_radius=radius * bounds.norm if radius < math.inf else None,
            target_bounds=bounds.target,
        )
    except ValueError as error:
        raise ValueError(f"{error} {remedy.replace('Give', 'Or give', 1)}") from error
    return slope * bounds.norm
