"""The covariance of a root of the mean corrected score, from its records."""

import functools
import itertools
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve, cholesky

from symdebias._arrays import FloatArray, IntegerArray
from symdebias._rows import parts_of
from symdebias.assessment import certify
from symdebias.codegen.parallel import chunk_of, over_chunks
from symdebias.codegen.program import BLOCK
from symdebias.correction import Correction
from symdebias.exceptions import InferenceError, VarianceWarning
from symdebias.inference import (
    FEWEST_DECIDE,
    MANY_DECIDE,
    Inference,
    deciding_each,
    freedom_of_few,
    freedom_of_records,
    require_variances,
    sandwich,
    skewness_of_records,
    two_sides,
)
from symdebias.records import Derivatives, Records, stride_to
from symdebias.solvers.cluster_freedom import ClusterParts, looked_at
from symdebias.solvers.levelling import levelling_of
from symdebias.solvers.metric import inverse_root
from symdebias.solvers.moments import leverages, most_leverage, pays_to_compile
from symdebias.solvers.noise_estimates import of_estimated_noise
from symdebias.solvers.outward import longer_parameters, parameters_apart
from symdebias.solvers.residual_moments import moments_told
from symdebias.solvers.scores import ReleasedRecords
from symdebias.solvers.separation import refuse_one_label
from symdebias.solvers.uncertain_curvature import CERTAIN_CURVATURE, note_on_curvature, variance_of_curvature

# With fewer clusters Student's t is so wide, and hangs so much on their being alike, that there are no intervals.
_FEWEST_CLUSTERS = 5
# Of so many clusters a covariance is as good as known, and what one of average size does to theta does not matter.
_MANY_CLUSTERS = 1000
# Records on which it is looked at how many decide a parameter.
_LOOKED_AT = 100_000
# Numbers of gradients that are there at a time: they stay in the cache, and are enough work for a call.
_NUMBERS = 2**15
# Where two clusters tell more than this of what is known of a parameter, nobody knows by how much clusters scatter.
_MOST_OF_FEW = 0.9
# A variance of so many degrees of freedom is as good as known.
_MUCH_FREEDOM = 100.0
# Records with more than this share of the second moments in some direction are left out one by one.
_MUCH_LEVERAGE = 0.05
# Operations, of the order of Q^3 for each record, beyond which only the farthest records are left out.
_MOST_WORK = 1e11
# Where leaving out a cluster or a record leaves no more than this share of the curvature in some direction, it decides
# theta.
_LEAST_LEFT = 0.05
# An average of iterates that is farther from the root, in standard errors, has intervals that reach over the distance;
# up to here they cover by hardly more than .001 too seldom.
_ARRIVED = 0.1
# The level of intervals whose ends are looked at, and what is said where a noised category leaves one without.
_LEVEL = 0.95
_OF_OTHERS = (
    "with columns of noised categories the records leave an interval without an end: where that is so most draws of "
    "such records may have no fit, and intervals of the other parameters may cover less than they say; merge a rare "
    "category with another, or release the column with less noise"
)
# Where more than this share of true scores lies beyond the range of a surrogate, its minimum is far from that of the
# loss, and a bound on the bias to first order does not reach so far. Ranges that fits find have less than a hundredth.
_MOST_OUTSIDE = 1 / 3


def at_root(
    records: Records,
    theta: FloatArray,
    found: Derivatives,
    penalty: FloatArray,
    metric: FloatArray,
    *,
    safeguards: Sequence[str] = (),
    codes: Any = None,
    known: ReleasedRecords | None = None,
    kind: str = "sandwich",
    by_descent: bool = False,
    curvature: float | None = None,
    stacklevel: int = 4,
) -> Inference:
    """Return the sandwich covariance at a root, the noise of the mechanism included.

    Where the noise was estimated, what its error does to theta is added; see `symdebias.solvers.noise_estimates`. Where
    few records decide the variance, intervals are by Student's t, or there are none; see `of_records`.

    `found` are the derivatives at theta, with the outer products of gradients; `metric` the second moments of released
    records; `safeguards` what held theta at the end: there are then no intervals. With `codes` of clusters, int64, the
    covariance is that of `of_clusters`, with its degrees of freedom for each parameter; from fewer than 5
    there are no intervals. `known` gives the bias of a surrogate, `kind` the name of the covariance, and `by_descent`
    says that theta is an average of iterates, which may be away from the root: how far is part of the bias. `curvature`
    is the least one at theta in its own standard errors, where it was looked at: where it is small, what longer
    parameters are like is looked at, and intervals allow for what is not known of the curvature. A VarianceWarning, of
    the caller that `stacklevel` names, says that the records rule out none of them; intervals then have no end away
    from 0.
    """
    correction = records.correction
    refuse_one_label(records, penalty)
    hessian = found.hessian + np.diag(penalty)
    try:
        if codes is None:
            scatter = _of_many(records, theta, found, hessian, penalty, metric)
        else:
            kind = f"cluster {kind}"
            scatter = _of_clusters(records, theta, found, hessian, penalty, metric, codes)
        covariance, freedom, told = _with_estimates(records, theta, hessian, scatter.covariance, scatter.freedom)
        require_variances(covariance)
    except InferenceError as error:
        return Inference(None, kind, str(error))
    notes, refusal = [*scatter.notes, *told], scatter.refusal
    if penalty.any():
        notes.append("intervals are for the penalised optimum, not for the optimum without l2")
    missing = np.zeros(len(theta))
    if by_descent:
        step = np.asarray(np.linalg.solve(hessian, found.gradient + penalty * theta))
        away, told_of_way = _away(step, covariance)
        notes.append(told_of_way)
        if away > 1:
            refusal = (
                f"theta is {away:.3g} standard errors away from the root of the mean corrected score: descent has not "
                "arrived. Train longer or with larger steps, or use m_estimate."
            )
        elif away > _ARRIVED:
            missing = np.abs(step)
            notes.append("intervals and tests are widened by that distance")
    outward = intercepts = None
    if correction.is_exact and records.has_noisy_curvature and not safeguards:
        longer = longer_parameters(records, theta, found, penalty, metric, covariance, curvature)
        if longer is not None:
            outward, note = longer
            if len(parameters_apart(correction)):
                intercepts = np.isin(np.arange(len(theta)), parameters_apart(correction))
            notes.append(note)
            # Estimates alone would be taken for more than they are.
            warnings.warn(note, VarianceWarning, stacklevel=stacklevel)
    if safeguards:
        refusal = (
            f"{'; '.join(safeguards)}: a constraint, not the data, decided theta, and intervals would not cover. Widen "
            "the constraint, use more records, or release with less noise."
        )
    bias, factors, has_none = _bias(records, theta, hessian, known)
    refusal = refusal or has_none or _out_of_range(correction, theta, known)
    if correction.method.corrects and not correction.is_exact and not refusal:
        notes.append("intervals and tests are widened by the bound on the bias of the correction")
    if bias is not None and missing.any():
        bias = bias + missing
        if factors is not None:
            factors = _with_distance(factors, step, covariance)
    curving = levelling = None
    if records.is_noised and not refusal:
        if curvature is None or curvature < CERTAIN_CURVATURE:
            curving = variance_of_curvature(records, theta, hessian, covariance)
            curving = curving if curving.any() else None
        if curving is not None:
            notes.append(note_on_curvature(curving))
        levelling = levelling_of(records, theta, penalty, covariance, curving, known, bias)
    if levelling is not None:
        notes.append(
            "the score levels off, or varies more, within an interval: intervals and p values reach as far as a score "
            "test does not reject, beyond what standard errors say"
        )
    known_freedom = freedom if np.isfinite(freedom).any() else None
    skewness = _of_whole(scatter, covariance, freedom)
    inference = Inference(
        covariance, kind, refusal, bias, tuple(notes), known_freedom, scatter.joint, curving, levelling, skewness,
        None if factors is None or not factors.any() else factors, outward, intercepts,
    )  # fmt: skip
    # Most draws of such records are refused; of those that are left the other estimates lean, too.
    if levelling is not None and correction.design.categorical and np.isinf(inference.interval(theta, _LEVEL)).any():
        inference = replace(inference, notes=(*notes, _OF_OTHERS))
    return inference


@dataclass(frozen=True)
class _Scatter:
    """What the scatter of records or clusters tells of theta.

    Attributes
    ----------
    covariance : array of shape (Q, Q), float64
    freedom : array of shape (Q,), float64
        The degrees of freedom of each variance, infinite where it is as good as known.
    skewness : array of shape (Q,), float64, or None
        That of each parameter where few records decide it; None where many decide all.
    joint : float or None
        Those of the whole covariance; None where it is as good as known.
    notes : tuple of str
    refusal : str
        Why there are no intervals; empty where there are.
    """

    covariance: FloatArray
    freedom: FloatArray
    skewness: FloatArray | None = None
    joint: float | None = None
    notes: tuple[str, ...] = ()
    refusal: str = ""


def _of_many(
    records: Records, theta: FloatArray, found: Derivatives, hessian: FloatArray, penalty: FloatArray,
    metric: FloatArray,
) -> _Scatter:  # fmt: skip
    """Return the covariance of independent records: by Student's t where few of them decide, or without intervals."""
    covariance, numbers, skewness = of_records(records, theta, found, hessian, penalty, metric)
    freedom = np.full(len(theta), math.inf)
    deciding = float(numbers.min(initial=math.inf))
    if deciding < FEWEST_DECIDE:
        refusal = (
            f"a parameter is decided by {deciding:.2g} of {records.present:,} records alone, and intervals would not "
            "cover. Use a bounded loss, leave out or bound columns with few large values, or release with less noise."
        )
        return _Scatter(covariance, freedom, refusal=refusal)
    if deciding >= MANY_DECIDE:
        return _Scatter(covariance, freedom)
    freedom = freedom_of_records(numbers)
    note = f"as few as {deciding:.3g} records decide the variance of a parameter: {_by_students_t(freedom)}"
    return _Scatter(covariance, freedom, skewness, notes=(note,))


def _of_clusters(
    records: Records, theta: FloatArray, found: Derivatives, hessian: FloatArray, penalty: FloatArray,
    metric: FloatArray, codes: Any,
) -> _Scatter:  # fmt: skip
    """Return the covariance of independent clusters, by Student's t where they are few."""
    meat = _meat(records, theta, found, penalty)
    over = of_clusters(records, theta, hessian, meat, penalty, metric, codes)
    count, freedom, refusal = over.count, over.degrees_of_freedom, ""
    if count < _FEWEST_CLUSTERS:
        refusal = (
            f"{count} clusters do not tell how far clusters scatter, and intervals would not cover. Have "
            f"{_FEWEST_CLUSTERS} or more, or make clusters smaller where parts of them are independent."
        )
    notes: tuple[str, ...] = ()
    if np.isfinite(freedom).any() and not refusal:
        few = 2 * float(freedom.min()) < count - 1
        start = f"few of the {count:,} clusters decide the variance of a parameter"
        notes = (f"{start if few else f'{count:,} clusters'}: {_by_students_t(freedom)}",)
    joint = over.effective - 1 if over.effective <= _MANY_CLUSTERS else None
    return _Scatter(over.covariance, freedom, None, joint, notes, refusal)


def _of_whole(scatter: _Scatter, covariance: FloatArray, freedom: FloatArray) -> FloatArray | None:
    """Return the skewness to both sides of parameters whose covariance has what estimates of the noise add to it."""
    if scatter.skewness is None:
        return None
    plain, whole = np.diag(scatter.covariance), np.diag(covariance)
    share = np.divide(plain, whole, where=whole > 0, out=np.ones(len(whole)))
    found = np.where(np.isfinite(freedom), scatter.skewness * share**1.5, 0.0)
    return two_sides(found) if found.any() else None


def _away(step: FloatArray, covariance: FloatArray) -> tuple[float, str]:
    """Return how far a step to the root is, in standard errors of the parameter that it moves most, and in words."""
    # What does not move is where it belongs, as a parameter that is held.
    moved = np.flatnonzero(step)
    away = float(np.max(np.abs(step[moved]) / np.sqrt(np.diag(covariance)[moved]), initial=0.0))
    return away, f"theta is {away:.2g} standard errors from the root of the mean corrected score"


def _with_distance(factors: FloatArray, step: FloatArray, covariance: FloatArray) -> FloatArray:
    """Return factors of the bounds on biases and of a distance that is known, added to one another.

    For x from the factors and y = abs(a'step), (x + y)^2 is at most (1 + c) x^2 + (1 + 1/c) y^2, for every c. The one
    that is taken makes that the least where both are the largest beside standard errors.
    """
    units = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    units[units == 0] = 1.0
    lengths = np.linalg.norm(factors / units[:, None], axis=(1, 2)), np.linalg.norm(step / units)
    found = np.empty((*factors.shape[:2], factors.shape[2] + 1))
    for place, (factor, length) in enumerate(zip(factors, lengths[0], strict=True)):
        share = lengths[1] / length if length > 0 else 0.0
        found[place, :, :-1] = math.sqrt(1 + share) * factor
        found[place, :, -1] = math.sqrt(1 + 1 / share if share > 0 else 1.0) * step
    return found


def _bias(
    records: Records, theta: FloatArray, hessian: FloatArray, known: ReleasedRecords | None
) -> tuple[FloatArray | None, FloatArray | None, str]:
    """Return the bound on the bias of theta, None where it has none, its factors, and why there are no intervals."""
    correction = records.correction
    if not correction.method.corrects and records.is_noised:
        reason = (
            'method="none" leaves the bias of the noise in theta, and intervals would not cover. Use a correction, or '
            "read standard_errors, which are those of the biased estimate."
        )
        return None, None, reason
    if not correction.method.corrects or correction.is_exact:
        return np.zeros(len(theta)), np.zeros((1, len(theta), 0)), ""
    factors = bias_factors(records, theta, hessian, known)
    if factors is None:
        reason = "the bias of the correction has no finite bound here. Use another method."
        return np.full(len(theta), math.inf), None, reason
    return np.linalg.norm(factors, axis=2).min(axis=0), factors, ""


def _out_of_range(correction: Correction, theta: FloatArray, known: ReleasedRecords | None) -> str:
    """Return why there are no intervals where many true scores lie beyond the range of a surrogate; else nothing."""
    if correction.surrogates is None or known is None:
        return ""
    radius = correction.surrogates.radius
    share = known.outside(theta, radius)
    what = "residuals" if known.parts.is_residual else "scores"
    if share <= _MOST_OUTSIDE:
        return ""
    return (
        f"the surrogate stands for the loss where {what} are at most {radius:.3g}, and {share:.0%} of the true ones "
        "are estimated to lie beyond, where it has little to do with it: intervals would not cover. Give a radius that "
        "holds them, or none, so that the fit finds its own."
    )


def _by_students_t(freedom: FloatArray) -> str:
    """Return what intervals are by, in words."""
    least, most = float(freedom.min()), float(freedom.max())
    number = f"{least:.3g}" if least == most else f"{least:.3g} to {most:.3g}"
    if not math.isfinite(most):
        number = f"as few as {least:.3g}" if np.count_nonzero(np.isfinite(freedom)) > 1 else f"{least:.3g}"
        return f"its interval and tests are by Student's t with {number} degrees of freedom"
    return f"intervals and tests are by Student's t with {number} degrees of freedom"


def _with_estimates(
    records: Records, theta: FloatArray, hessian: FloatArray, covariance: FloatArray, freedom: FloatArray
) -> tuple[FloatArray, FloatArray, list[str]]:
    """Return the covariance with what estimates of the noise add to it.

    `freedom`, shape (Q,), are the degrees of freedom of each variance without it, infinite where it is known.

    Returns
    -------
    covariance : array of shape (Q, Q), float64
        The whole.
    freedom : array of shape (Q,), float64
        Satterthwaite's degrees of freedom of each whole variance, infinite from 100 on.
    notes : list of str
        What there is to say of it; none where the noise is known.
    """
    parts = of_estimated_noise(records, theta, hessian)
    if not parts:
        return covariance, freedom, []
    whole, plain = covariance.copy(), np.diag(covariance)
    fourths = plain**2 / freedom
    for part in parts:
        whole += part.covariance
        fourths = fourths + np.diag(part.covariance) ** 2 / part.degrees_of_freedom
    total = np.diag(whole)
    together = np.floor(deciding_each(total, fourths))
    together[together >= _MUCH_FREEDOM] = math.inf
    share = float(np.max(1 - plain / np.where(total > 0, total, 1.0), where=total > 0, initial=0.0))
    notes = [f"the noise was estimated: up to {share:.2g} of the variance of a parameter comes from that"]
    if np.any(together != freedom) and np.isfinite(together).any():
        notes.append(f"with those of the estimated noise, {_by_students_t(together)}")
    return whole, together, notes


def deciding_stride(present: int) -> int:
    """Return one in how many of the records it is on which it is looked at how many decide a parameter.

    Parameters
    ----------
    present : int
        How many records there are that have weight.
    """
    return stride_to(_LOOKED_AT, present)


def of_records(
    records: Records,
    theta: FloatArray,
    found: Derivatives,
    hessian: FloatArray,
    penalty: FloatArray,
    metric: FloatArray,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the covariance at a root, how many records decide the variance of each parameter, and its skewness.

    A record far from the rest pulls theta to itself, and has a small gradient there: such records are left out one by
    one, as `of_clusters` does with clusters (for least squares the estimate HC3). So are those that make much of the
    variance of a parameter and much of the curvature: a loss that grows fast bends most where it is steepest, and the
    others would have let theta go farther. The number of records is (sum
    psi^2)^2/sum psi^4 with psi_i what record i does to the parameter. Twice that is Satterthwaite's degrees of freedom
    of the estimated variance, whose own variance is about sum psi^4. The skewness, sum psi^3/(sum psi^2)^1.5, is 0
    where 50 or more decide. The last two have the shape (Q,). The mean Hessian has the penalty.

    Where there are so many parameters that too many records would be left out, that is done for the farthest, and for
    the rest the plain sandwich is multiplied by n/(n - Q), which takes their mean pull on theta out (HC1).

    Raises
    ------
    InferenceError
        The Hessian is not positive definite, or not without one of the records.

    References
    ----------
    MacKinnon & White 1985 (Journal of Econometrics 29), HC1 and HC3; Satterthwaite 1946 (Biometrics Bulletin 2).
    """
    covariance = sandwich(hessian, _meat(records, theta, found, penalty), records.total)
    inverse = _inverse(hessian, records.total)
    units = _units(covariance)
    looked = _LookedAt(records, theta, penalty, inverse / units)
    sums, whole = looked.powers(), hessian * records.total
    size, far = len(theta), _far_records(records, metric)
    most = max(1, int(_MOST_WORK / size**3))
    if len(far) > most:
        far = far[:most]
        covariance *= records.present / max(records.present - size, 1)
    places, large = looked.with_much(sums, besides=far, most=most - len(far))
    told, before = np.zeros((len(far) + len(places), size)), deciding_each(sums[0], sums[2])
    factor = cho_factor(whole)
    # Those looked at stand for as many as they are apart, and those that are left out for themselves.
    left_out = np.concatenate([far, places])
    counted = looked.stride * _are_among(left_out, records.every(looked.stride)) if len(left_out) else left_out
    for index, place in enumerate(left_out):
        at = index - len(far)
        own = records.taken(slice(place, place + 1)) if at < 0 else large.taken(slice(at, at + 1))
        gradient = own.centred(theta, -penalty * theta, slice(None))[0]
        curvature = own.total * (own.derivatives_or_differences(metric)[0](theta).hessian + np.diag(penalty))
        if at == 0:
            before = deciding_each(sums[0], sums[2])
        if at >= 0 and not _has_much(curvature, whole):
            continue
        kept, plain = _left_out(curvature, gradient, whole, factor, f"record {place}")
        covariance += np.multiply.outer(kept, kept) - np.multiply.outer(plain, plain)
        sums = sums + _powers((kept / units)[:, None]) - counted[index] * _powers((plain / units)[:, None])
        told[index] = _told(inverse, curvature)
    if _most_told(told)[:3].max(initial=0.0) > _MOST_OF_FEW:
        raise InferenceError(
            "three records or fewer tell nearly all that is known of a parameter, and nothing says how far others "
            "would scatter about them. Leave out or bound columns that vary in few records alone, or give l2."
        )
    squares, thirds, fourths = sums
    number = deciding_each(squares, fourths)
    if len(places):
        # What is left out for its curvature counts for more than it did, and its variance is then no guess.
        number = np.maximum(number, np.minimum(before, FEWEST_DECIDE))
    # A record takes from a parameter what leaving it out gives.
    return covariance, number, skewness_of_records(number, squares, -thirds)


@dataclass(frozen=True)
class _LookedAt:
    """Records from everywhere, on which it is looked at how many decide a parameter, and what they take from it.

    Attributes
    ----------
    records : Records
        All of them.
    theta, penalty : array of shape (Q,), float64
        The root, and l2 for each parameter.
    inverse : array of shape (Q, Q), float64
        What a summed gradient moves parameters by, in units of theirs.
    """

    records: Records
    theta: FloatArray
    penalty: FloatArray
    inverse: FloatArray

    @property
    def stride(self) -> int:
        """For how many of all each of them stands."""
        return deciding_stride(self.records.present)

    @functools.cached_property
    def _part(self) -> Records:
        return self.records.spaced(self.stride)

    def _over_blocks(self, of: Callable[[FloatArray], Any]) -> list[Any]:
        """Return what is made of what records take from the parameters, shape (Q, m), block by block."""
        step = max(BLOCK, _NUMBERS // len(self.theta) // BLOCK * BLOCK)

        def passed(rows: slice) -> list[Any]:
            blocks = (slice(start, min(start + step, rows.stop)) for start in range(rows.start, rows.stop, step))
            some = (self._part.taken(block) for block in blocks)
            return [of(one.turned_gradients(self.theta, -self.penalty * self.theta, self.inverse)) for one in some]

        return list(itertools.chain.from_iterable(over_chunks(len(self._part.matrix), passed)))

    @functools.cached_property
    def _blocks(self) -> list[tuple[FloatArray, FloatArray]]:
        """Of each block what `_powers` says of it, and the largest square for each parameter, shape (Q,)."""
        return self._over_blocks(lambda moves: (_powers(moves), _largest(moves) ** 2))

    def powers(self) -> FloatArray:
        """Return the sums of `_powers` over all records, as these tell."""
        return np.asarray(self.stride * sum((powers for powers, _ in self._blocks), np.zeros((3, len(self.theta)))))

    def with_much(self, sums: FloatArray, *, besides: IntegerArray, most: int) -> tuple[IntegerArray, Records]:
        """Return the records that make much of the variance of a parameter, by their places and as records.

        Parameters
        ----------
        sums : array of shape (3, Q), float64
            `powers`.
        besides : array of int64
            Places of records that are not wanted.
        most : int
            How many are wanted, those that make the most of it.
        """
        known = np.where(sums[0] > 0, sums[0], 1.0)
        if not any(np.any(largest > _MUCH_LEVERAGE * known) for _, largest in self._blocks):
            return np.zeros(0, dtype=np.int64), self._part
        share = np.concatenate(self._over_blocks(lambda moves: (moves**2 / known[:, None]).max(axis=0)))
        every, most_first = self.records.every(self.stride), np.argsort(-share, kind="stable")
        some = most_first[: np.count_nonzero(share > _MUCH_LEVERAGE)]
        places = some if isinstance(every, slice) else every[some]
        is_new = np.flatnonzero(~np.isin(places, besides))[: max(0, most)]
        return places[is_new], self._part.taken(some[is_new])


def _units(covariance: FloatArray) -> FloatArray:
    """Return units of parameters in which fourth powers of what a record does to them are numbers: powers of two.

    They are about the standard errors, and change nothing but exponents.
    """
    variances = np.diagonal(covariance)
    is_known = (variances > 0) & np.isfinite(variances)
    return np.asarray(np.exp2(np.round(np.log2(np.where(is_known, variances, 1.0)) / 2)))


def _powers(moves: FloatArray) -> FloatArray:
    """Return the sums of squares, third and fourth powers of what records do to each parameter, shape (3, Q)."""
    squares = np.square(moves)
    found = np.empty((3, len(moves)))
    found[0], found[1] = squares.sum(axis=1), np.einsum("ij,ij->i", squares, moves)
    found[2] = np.square(squares, out=squares).sum(axis=1)
    return found


def _largest(moves: FloatArray) -> FloatArray:
    """Return the largest absolute value of what records do to each parameter, shape (Q,), without a copy."""
    return np.asarray(np.maximum(moves.max(axis=1, initial=0.0), -moves.min(axis=1, initial=0.0)))


def _has_much(curvature: FloatArray, whole: FloatArray) -> bool:
    """Whether a record has much of the curvature of all in some direction."""
    return not _is_positive(_MUCH_LEVERAGE * whole - curvature)


def _are_among(places: IntegerArray, some: slice | IntegerArray) -> IntegerArray:
    """Return 1 for places that some places of records, in order, have, and 0 for others; a slice is all of them."""
    if isinstance(some, slice):
        return np.ones(len(places), dtype=np.int64)
    at = np.minimum(np.searchsorted(some, places), len(some) - 1)
    return np.asarray(some[at] == places, dtype=np.int64)


def _far_records(records: Records, metric: FloatArray) -> IntegerArray:
    """Return the records with much of the second moments in some direction for themselves, the farthest first."""
    root = _leverage_root(records, metric)
    if most_leverage(records, root) <= _MUCH_LEVERAGE * records.total:
        return np.zeros(0, dtype=np.int64)

    def passed() -> IntegerArray:
        parts = records.over_parts(functools.partial(_far_places, root=root, least=_MUCH_LEVERAGE * records.total))
        starts = np.cumsum([0, *(count for *_, count in parts)])
        places = np.concatenate([start + found for (found, *_), start in zip(parts, starts[:-1], strict=True)])
        return places[np.argsort(-np.concatenate([sizes for _, sizes, _ in parts]), kind="stable")]

    found: IntegerArray = records.remembered("far records", passed, root.tobytes())
    return found


def _leverage_root(records: Records, metric: FloatArray) -> FloatArray:
    """Return the inverse root of the mean second moments of design rows; of features where a loss is free-form."""
    if records.correction.loss.scores:
        length = len(records.correction.design.parameters)
        return inverse_root(records.freed_metric(metric)[:length, :length])
    return inverse_root(records.summed_over_parts(_sums_of_products)[0] / records.total)


def _sums_of_products(part: Records) -> tuple[FloatArray]:
    """Return the weighted sum of outer products of design rows, shape (q, q)."""

    def of(rows: slice) -> FloatArray:
        found = part.correction.design.estimated_rows(part.matrix[rows])
        weighted = found * part.weights[rows, None] if len(part.weights) else found
        return np.asarray(weighted.T @ found)

    chunk = chunk_of(part.matrix, part.correction.design.numbers_made)
    return (np.sum(over_chunks(len(part), of, chunk), axis=0),)


def _far_places(records: Records, *, root: FloatArray, least: float) -> tuple[IntegerArray, FloatArray, int]:
    """Return the records of more than so much weighted leverage, that of each, and the number of all."""

    def far(rows: slice) -> Any:
        compiled = pays_to_compile(len(records), records.columns)
        leverage = leverages(records.correction.design, records.matrix[rows], root, compiled=compiled)
        if len(records.weights):
            leverage *= records.weights[rows]
        places = np.flatnonzero(leverage > least)
        return rows.start + places, leverage[places]

    chunk = chunk_of(records.matrix, records.correction.design.numbers_made)
    places, sizes = zip(*over_chunks(len(records), far, chunk), strict=True)
    return np.concatenate(places), np.concatenate(sizes), len(records)


def _left_out(
    curvature: FloatArray, gradient: FloatArray, whole: FloatArray, factor: Any, name: str
) -> tuple[FloatArray, FloatArray]:
    """Return what leaving some records out does to theta, and what a plain sandwich takes for it.

    `curvature` and `gradient` are the sums of their weighted Hessians and gradients, with the penalty's share; `whole`
    the sum of all records' weighted Hessians, with the penalty, and `factor` its `cho_factor`; `name` what they are
    called.

    Raises
    ------
    InferenceError
        Without them there is hardly any curvature in some direction.
    """
    left = whole - curvature
    if not _is_positive(left - _LEAST_LEFT * whole):
        raise InferenceError(
            f"without {name} hardly anything holds theta: it decides a parameter by itself, and nothing says how far "
            "others scatter about it. Leave out or bound columns that vary there alone, or give l2."
        )
    return cho_solve(cho_factor(left), gradient), cho_solve(factor, gradient)


def _is_positive(matrix: FloatArray) -> bool:
    """Whether a symmetric matrix is positive definite: by its factors, in a small part of the time of eigenvalues."""
    try:
        cholesky(matrix)
    except np.linalg.LinAlgError:
        return False
    return True


def _inverse(hessian: FloatArray, total: float) -> FloatArray:
    """Return the inverse of the sum of all records' Hessians, from the mean."""
    return np.asarray(np.linalg.inv(hessian) / total, dtype=np.float64)


def _told(inverse: FloatArray, curvature: FloatArray) -> FloatArray:
    """Return the shares of what is known of each parameter that come from a part of the curvature: partial leverages.

    They add up to 1 over all parts.

    References
    ----------
    MacKinnon, Nielsen & Webb 2023 (Stata Journal 23), Section 3.2.
    """
    return np.asarray(np.einsum("ij,ij->i", inverse @ curvature, inverse) / np.diag(inverse))


def _most_told(told: FloatArray) -> FloatArray:
    """Return what the one, two, ... of m parts that tell most of a parameter tell of it; of the worst parameter."""
    return np.asarray(np.cumsum(np.sort(told, axis=0)[::-1], axis=0).max(axis=1, initial=0.0))


def _meat(records: Records, theta: FloatArray, found: Derivatives, penalty: FloatArray) -> FloatArray:
    """Return the mean outer product of the gradients with the penalty's share, which sum to 0 at the root."""
    if not penalty.any():
        return found.meat
    mean = -penalty * theta
    if len(records.weights):
        # The mean of the gradients under squared weights is not what the penalty balances.
        return records.meat(theta, mean)
    return np.asarray(found.meat - np.multiply.outer(mean, mean))


@dataclass(frozen=True)
class ClusterCovariance:
    """A covariance over clusters, and how well they tell it."""

    covariance: FloatArray  # Of shape (Q, Q).
    count: int  # G, the clusters with weight.
    effective: float  # (sum m)^2/(sum m^2) for clusters of m records, or of weight m.
    degrees_of_freedom: FloatArray  # Of shape (Q,): of the variance of each parameter; infinite where it is known.


def of_clusters(
    records: Records,
    theta: FloatArray,
    hessian: FloatArray,
    meat: FloatArray,
    penalty: FloatArray,
    metric: FloatArray,
    codes: Any,
) -> ClusterCovariance:
    """Return the covariance at a root over clusters, from the mean Hessian and outer product of all records.

    The covariance is (G - 1)/G sum_g d_g d_g' with d_g what leaving out cluster g does to theta, by one Newton step
    with the Hessian of the other clusters (CR3; for a quadratic loss the jackknife itself). A plain sandwich takes the
    scores of a cluster at a theta that this cluster has pulled to itself, and is too small where clusters are few or
    unequal, or where few of them have a column. Clusters with less than a thousandth of the records, and with little of
    the second moments in every direction, are taken as they are. The mean Hessian has the penalty. Degrees of freedom
    are those of `ClusterParts`, or fewer where few of many decide (`freedom_of_few`).

    Raises
    ------
    InferenceError
        The Hessian is not positive definite, or not without one of the clusters; only one cluster has weight; or two
        of them tell nearly all that is known of a parameter.

    References
    ----------
    MacKinnon, Nielsen & Webb 2023 (Journal of Econometrics 232), CV3; the same 2023 (Stata Journal 23), partial
    leverages of clusters; Bell & McCaffrey 2002.
    """
    mass = records.cluster_masses(codes)
    count = int(np.count_nonzero(mass))
    if count < 2:
        raise InferenceError("only one cluster has weight, and no standard errors come from it. Weigh two or more.")
    sums = records.cluster_sums(theta, -penalty * theta, codes)
    covariance = sandwich(hessian, sums.T @ sums / records.total, records.total)
    whole = hessian * records.total
    factor, inverse = cho_factor(whole), _inverse(hessian, records.total)
    far = _cluster_leverages(records, metric, codes)
    large = np.flatnonzero((mass * _MANY_CLUSTERS >= records.total) | (far > _MUCH_LEVERAGE * records.total))
    of_large, moves = sums[large], _times_in_place(sums, inverse)
    told = np.zeros((len(large), len(theta)))
    kept_apart = looked_at(large, far, len(theta))
    curvatures, meats = np.zeros((2, len(kept_apart), len(theta), len(theta)))
    found = records.cluster_curvatures(theta, -penalty * theta, codes, large, metric)
    for place, (cluster, (members, own, outer)) in enumerate(zip(large, found, strict=True)):
        name = f"one of the {count} clusters, of {members:,} records,"
        curvature = own + mass[cluster] * np.diag(penalty)
        apart = np.searchsorted(kept_apart, place)
        if apart < len(kept_apart) and kept_apart[apart] == place:
            curvatures[apart], meats[apart] = curvature, outer
        kept, plain = _left_out(curvature, of_large[place], whole, factor, name)
        covariance += np.multiply.outer(kept, kept) - np.multiply.outer(plain, plain)
        moves[cluster], told[place] = kept, _told(inverse, curvature)
    most = _most_told(told)
    if count >= _FEWEST_CLUSTERS and len(most) > 1 and most[1] > _MOST_OF_FEW:
        raise InferenceError(
            f"two of the {count} clusters tell nearly all that is known of a parameter, and nothing says how far "
            "others would scatter about them. Leave out or bound columns that vary in few clusters alone, or give l2."
        )
    freedom = np.full(len(theta), math.inf)
    if count >= _FEWEST_CLUSTERS and len(large):
        alive = np.flatnonzero(mass)
        parts = ClusterParts(
            whole, meat * records.total, mass[alive], moves[alive],
            np.searchsorted(alive, large[kept_apart]), curvatures, meats,
        )  # fmt: skip
        freedom = parts.degrees_of_freedom()
    effective = records.total**2 / float(mass @ mass)
    if effective <= _MANY_CLUSTERS:
        freedom = np.minimum(freedom, count - 1)
    # Fewer than are to be expected of so many decide where the scores of clusters have heavy tails.
    for place, deciding in enumerate(deciding_each(*_powers_of_moves(moves))):
        alike = min(freedom[place], count - 1) + 1
        few = freedom_of_few(float(deciding), alike)
        freedom[place] = freedom[place] if few is None else min(freedom[place], few)
    return ClusterCovariance(covariance * ((count - 1) / count), count, effective, freedom)


def _times_in_place(rows: FloatArray, matrix: FloatArray) -> FloatArray:
    """Return rows times a matrix, which take their place: there may be as many clusters as records."""
    for part in parts_of(len(rows), rows.shape[1], _NUMBERS):
        rows[part] = rows[part] @ matrix
    return rows


def _powers_of_moves(moves: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the sums of squares and of fourth powers of moves, each parameter relative to its largest."""
    squares, fourth = np.zeros((2, moves.shape[1]))
    for place, column in enumerate(moves.T):
        own = np.abs(column)
        own /= own.max() or 1.0
        own *= own
        squares[place], fourth[place] = own.sum(), own @ own
    return squares, fourth


def _cluster_leverages(records: Records, metric: FloatArray, codes: Any) -> FloatArray:
    """Return the sums over clusters of weighted leverages, which bound their shares of second moments."""
    root = _leverage_root(records, metric)
    return records.cluster_totals(functools.partial(_weighted_leverages, root=root), codes)


def _weighted_leverages(records: Records, rows: slice, *, root: FloatArray) -> FloatArray:
    compiled = pays_to_compile(len(records), records.columns)
    found = leverages(records.correction.design, records.matrix[rows], root, compiled=compiled)
    return found * records.weights[rows] if len(records.weights) else found


def bias_factors(
    records: Records, theta: FloatArray, hessian: FloatArray, known: ReleasedRecords | None
) -> FloatArray | None:
    """Return factors F of bounds ||F'a|| on the bias of a'theta that a bias b of the corrected gradient makes, H^-1 b.

    For a surrogate F is that of `ReleasedRecords.bias_factor`; for one of a residual loss there is besides the same
    with what residuals tell of the columns, `moments_told`, in place of their second moments. For other methods it is
    H^-1 times the certified bias of the gradient, a bound on ||b||. The shape is (m, Q, Q); None where there is no
    finite bound.
    """
    correction = records.correction
    if correction.surrogates is not None and known is not None:
        found = [known.bias_factor(correction, theta, hessian)]
        told = moments_told(known, correction.design, theta)
        if told is not None:
            found.append(known.bias_factor(correction, theta, hessian, moments=told))
        factors = np.stack(found)
        return factors if np.all(np.isfinite(factors)) else None
    # Over the noise that the release has for all records.
    correction = replace(correction, per_record=False) if correction.per_record else correction
    certificate = certify(correction, theta_radius=max(1.0, float(np.linalg.norm(theta))))
    worst = certificate.gradient_bias
    return np.asarray(worst * np.linalg.inv(hessian)[None]) if math.isfinite(worst) else None
