"""The mean of a loss as a metric, by the correction that training on this loss would have."""

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import sympy as sp

from symdebias._arrays import FloatArray
from symdebias.codegen.numeric import numeric
from symdebias.corrected import CorrectedLoss
from symdebias.correction import Correction
from symdebias.driver import debias
from symdebias.evaluation.carriers import refusal_of_few, skewed_by_noise
from symdebias.evaluation.error_law import ErrorLaw
from symdebias.evaluation.metric import Judged, Metric, relabelled, turned
from symdebias.evaluation.records import OF_ONE_NOISE, Records
from symdebias.evaluation.scores import ReleasedScores, Spread, require_promised
from symdebias.evaluation.sums import Sums
from symdebias.exceptions import InferenceError, NoExactCorrectionError
from symdebias.losses import Loss, catalogue
from symdebias.noise import ChannelNoise
from symdebias.records import Records as KernelRecords
from symdebias.release import Release
from symdebias.transforms.channel import rational
from symdebias.zonal import ZonalNoise

# Records that are looked at for all labels at a time.
_BLOCK = 4096
# The least range of a surrogate in the score: losses have units of their own there, of which this is a small part. That
# of a loss of the residual is in the units of the targets, and has it where all residuals are 0.
_LEAST_RADIUS = 1e-3
# The least variance of the noise of a score that polynomials are designed for: their coefficients go by its powers.
_LEAST_VARIANCE = 1e-40


@dataclass(frozen=True)
class MeanLoss(Metric):
    """The mean of a corrected loss.

    Attributes
    ----------
    corrected : CorrectedLoss
        The corrected loss.
    kernel_records : symdebias.records.Records
        The records as its kernels take them.
    spreads : mapping from bytes to Spread
        Where true scores (residuals) lie at each theta, by its bytes; empty where no surrogate is in question.
    promised : bool
        Whether the caller bounds the scores.
    refusals : mapping from bytes to str
        Why records are too few for a theta, by its bytes; those alone.
    """

    corrected: CorrectedLoss
    kernel_records: KernelRecords
    spreads: Mapping[bytes, Spread]
    promised: bool
    refusals: Mapping[bytes, str]
    has_long_tails: ClassVar[bool] = True

    def on(self, part: Records) -> Self:
        """Return the metric of some other records."""
        return replace(self, records=part, kernel_records=_kernel_records(self.corrected, part))

    def values(self, theta: FloatArray, rows: Any) -> FloatArray:
        """Return the corrected losses of some records."""
        scales, correction = self.records.scales, self.kernel_records.correction
        if scales is None:
            correction.limits.require(theta.ravel(), finite_variance=True)
        else:
            _require_limits(correction, theta.ravel(), scales[rows], self.name)
        if refusal := self.refusals.get(theta.tobytes()):
            raise InferenceError(refusal)
        return self.kernel_records.taken(rows).losses(theta.ravel())

    def error_law(self, theta: FloatArray, found: Judged) -> ErrorLaw:
        """Return the law of the metric in its standard errors."""
        law = super().error_law(theta, found)
        return law if found.sums.clusters is not None else self.skewed(law, [theta])

    def skewed(self, law: ErrorLaw, thetas: Sequence[FloatArray]) -> ErrorLaw:
        """Return the law of a mean in its standard errors, as skewed as the noise makes it."""
        correction = self.kernel_records.correction
        if self.records.scales is not None:
            # That of one noise for all: kernels of own noise have no symbol of it.
            correction = self.corrected.at(self.kernel_records.columns)
        if self.records.clusters is not None:
            return law
        longest = max((theta.ravel() for theta in thetas), key=correction.limits.normal_score_variance)
        return skewed_by_noise(law, correction, self.records, longest)

    @property
    def label_pair(self) -> tuple[float, float] | None:
        """The labels that the loss declares, where there are two."""
        values = self.corrected.declared.target_values
        return (values[0], values[1]) if values is not None and len(values) == 2 else None

    def with_other_labels(self, thetas: Sequence[FloatArray], value: float) -> float:
        """Return what labels may add that so few records have as to be in none; each other label is as likely.

        Some of the records tell it.
        """
        labels = self.corrected.declared.target_values
        if labels is None or len(labels) < 2:
            return 0.0
        part = self.records.few
        noise, kept = part.release.target_noise, 1.0
        if part.of_margins:
            # The other label of two turns a margin.
            changed, chances, kept = [turned(part)], np.eye(1), 0.0
        elif isinstance(noise, ChannelNoise):
            changed, chances = [relabelled(part, label) for label in noise.outputs], np.array(noise.matrix)
        else:
            changed, chances = [relabelled(part, label) for label in labels], np.eye(len(labels))

        judges = [self.on(one) for one in (part, *changed)]

        def moved(theta: FloatArray) -> float:
            with np.errstate(all="ignore"):
                own, *found = (float(part.share @ one.values(theta, slice(None))) for one in judges)
                # Of all labels one is that which a record has.
                others = (float(np.sum(chances @ found)) - kept * own) / (len(chances) - kept)
                return others - own

        change = float(np.mean([moved(theta) for theta in thetas]))
        # What overflows with another label has no bound.
        return self.unseen_share * (math.inf if math.isnan(change) else change)

    @property
    def common_bias(self) -> float:
        """What a channel hides of the loss and no parameter changes."""
        return self.corrected.loss_offset if self.corrected.is_exact else 0.0

    def bias(self, theta: FloatArray, sums: Sums | None = None) -> tuple[float, bool]:
        """Return the bound on the bias of an exact correction, of the nearest loss of a channel, or of a surrogate."""
        if self.corrected.is_exact:
            return self.corrected.loss_offset, True
        if self.corrected.label_mixing is not None:
            return self._bias_of_nearest(theta, self.corrected.label_mixing)
        return self._bias_of_surrogate(self.spreads[theta.tobytes()])

    def _bias_of_nearest(self, theta: FloatArray, mixing: FloatArray) -> tuple[float, bool]:
        """Return a bound on the bias of the nearest loss in the range of a channel: the worst label at each score.

        It is certified where scores are released as they are. Elsewhere released scores, which lie further out, stand
        for true ones.
        """
        loss = self.corrected.declared
        assert loss.target_values is not None
        if len(loss.scores) != 1:
            raise NoExactCorrectionError(
                f"a channel hides {loss.expression}, and how far the nearest loss in its range is off is bounded for "
                "losses of one score. Evaluate one that is affine in the target."
            )
        how = functools.partial(_worst_of_labels, theta=theta, loss=loss, mixing=mixing)
        is_certified = ReleasedScores.of(self.records, theta).noise == 0
        return float(self.records.means(how)), is_certified

    def _bias_of_surrogate(self, spread: Spread) -> tuple[float, bool]:
        """Return a bound on the bias of a surrogate.

        Within its range it is the largest error; beyond it, where scores are not bounded, the mean error over normal
        scores is added.
        """
        corrected = self.corrected
        design, parts = corrected.design, corrected.surrogate_parts
        assert design is not None
        certified = self.promised or spread.bound <= design.radius
        if parts.is_residual:
            targets = [0.0]
        elif corrected.shown.loss.target_values is not None:
            targets = list(corrected.shown.loss.target_values)
        else:
            # The error is affine in the target, whose size is known as far as released targets tell.
            size = math.sqrt(float(self.records.means(_squared_target)))
            targets = [-size, size]
            certified = certified and all(part.multiplier.is_number for part in parts.replaced)
        worst, _ = parts.worst_errors(design, design.radius, targets)
        if certified:
            return worst, True

        def error(scores: FloatArray) -> FloatArray:
            errors = [np.abs(parts.errors(design, scores, np.full(len(scores), target))[0]) for target in targets]
            return np.asarray(np.max(errors, axis=0))

        return worst + spread.mean_outside(design.radius, error), False


def named_loss(metric: str, records: Records) -> Loss:
    """Return the loss that a metric other than accuracy is the mean of."""
    u, y = sp.symbols("u y", real=True)
    if metric in ("log_loss", "brier") and not records.of_margins:
        records.require_labels()
    if metric == "log_loss":
        low, high = records.labels
        if (low, high) == (-1.0, 1.0):
            return catalogue.logistic()
        first, second = (rational(value) for value in (low, high))
        share = (y - first) / (second - first)
        return Loss(sp.log(1 + sp.exp(u)) - share * u, score=u, target=y, target_values=(low, high), name="logistic")
    if metric == "brier":
        low, high = records.labels
        share = (y - rational(low)) / rational(high - low)
        chance = 1 / (1 + sp.exp(-u))
        # With labels -1 and +1 it is a loss of the margin.
        own = 1 / (1 + sp.exp(y * u)) if (low, high) == (-1.0, 1.0) else chance - share
        return Loss(own**2, score=u, target=y, target_values=(low, high), name="brier")
    noise = records.release.target_noise
    values = noise.inputs if isinstance(noise, ChannelNoise) else None
    expression = (u - y) ** 2 if metric == "squared_error" else sp.exp(u) - y * u
    return Loss(expression, score=u, target=y, target_values=values, name=metric)


def softmax_of(records: Records, count: int) -> Loss:
    """Return the log loss of a model with a score for each class, in the values of the target."""
    declared, values = catalogue.softmax(count), records.classes(count)
    return declared if values == declared.target_values else declared.recoded(values)


def mean_loss(
    name: str, loss: Loss, records: Records, thetas: Sequence[FloatArray], *, radius: float | None
) -> MeanLoss:
    """Return the mean of a loss, corrected for all thetas that are to be compared; `radius` as for `evaluate`.

    A surrogate is designed for the widest range and the largest noise among them.
    """
    if records.scales is not None:
        corrected = _exact_for_own_noise(loss, records)
        kernel_records = _kernel_records(corrected, records)
        # That of one noise for all, at any variance: kernels of own noise have no symbol of it.
        refusals = _refusals(name, corrected.at(kernel_records.columns), records, thetas)
        return MeanLoss(name, corrected.method, records, corrected, kernel_records, {}, False, refusals)
    if loss.target_values is not None and records.release.target_noise is None and not records.of_margins:
        records.require_values(loss.target_values)
    spreads: dict[bytes, Spread] = {}
    is_residual = surrogate_is_residual(loss, records.collected)
    if is_residual is not None:
        spreads = {theta.tobytes(): Spread.of(records, theta, is_residual=is_residual) for theta in thetas}
    settings: dict[str, Any] = {}
    if spreads:
        widest = max(one.radius for one in spreads.values())
        if not (is_residual and widest > 0):
            widest = max(widest, _LEAST_RADIUS)
        settings = {
            "radius": widest if radius is None else radius,
            "score_variance": max(spread.noise for spread in spreads.values()),
            "n": max(1.0, records.effective),
        }
    corrected = _corrected(loss, records, settings)
    if not corrected.is_resolved:
        raise NoExactCorrectionError(
            f"{loss.expression} is corrected by a surrogate, whose range of scores cannot be told for a free-form "
            "loss. Declare it in its score."
        )
    kernel_records = _kernel_records(corrected, records)
    correction = kernel_records.correction
    # Noise of categories and that of a spherical cap depend on the score.
    is_additive = not correction.design.categorical and correction.zonal is None
    if radius is not None and is_residual is not None and corrected.design is not None and is_additive:
        for theta in thetas:
            require_promised(records, theta, radius, is_residual=is_residual)
    refusals = _refusals(name, correction, records, thetas)
    return MeanLoss(name, corrected.method, records, corrected, kernel_records, spreads, radius is not None, refusals)


def _refusals(name: str, correction: Correction, records: Records, thetas: Sequence[FloatArray]) -> dict[bytes, str]:
    """Return why records are too few for thetas, by their bytes: for those alone."""
    told = {theta.tobytes(): refusal_of_few(name, correction, records, theta.ravel()) for theta in thetas}
    return {key: refusal for key, refusal in told.items() if refusal}


def _kernel_records(corrected: CorrectedLoss, part: Records) -> KernelRecords:
    with part.counted():
        return corrected.records(part.X, part.y, noise_scale=part.scales, by_blocks=True)


def _require_limits(correction: Correction, theta: FloatArray, scales: FloatArray, name: str) -> None:
    """Raise where noise scales of the records' own leave a loss no correction at theta, or none of finite variance."""
    if correction.limits.is_unlimited:
        return
    if correction.limits_of(scales.max(axis=0)).broken(theta, finite_variance=True) is None:
        return
    for own in np.unique(scales, axis=0):
        broken = correction.limits_of(own).broken(theta, finite_variance=True)
        if broken is not None:
            error, said = broken
            raise error(
                f"the {name} has no correction of finite variance for some of these records: {said}. Leave out records "
                "with more noise, or evaluate another metric."
            )


def _exact_for_own_noise(loss: Loss, records: Records) -> CorrectedLoss:
    """Return the exact correction of a loss for records with noise scales of their own.

    Raises
    ------
    NoExactCorrectionError
        There is none. How far a surrogate is off is told for one noise of all scores.
    """
    try:
        return debias(loss, records.collected, method="exact")
    except NoExactCorrectionError:
        raise NoExactCorrectionError(
            f"{loss.expression} has no exact correction under normal noise, and of noise scales of the records' own no "
            f"other bounds its bias. {OF_ONE_NOISE}"
        ) from None


def surrogate_is_residual(loss: Loss, collected: Release) -> bool | None:
    """Return whether a surrogate of a loss is one of residuals; None where no surrogate is in question."""
    try:
        parts = debias(loss, collected, method="surrogate").surrogate_parts
    except NoExactCorrectionError:
        return None  # it is exact, or the driver says why it cannot be corrected
    return parts.is_residual if loss.scores else None


def _squared_target(part: Records) -> FloatArray:
    return np.asarray(part.target**2)


def _worst_of_labels(part: Records, *, theta: FloatArray, loss: Loss, mixing: FloatArray) -> FloatArray:
    """Return what a loss is moved by at most by the mixing of a channel, over labels, at released scores."""
    estimates, labels = ReleasedScores.of(part, theta).estimates, np.array(loss.target_values)
    function = numeric(loss.expression, (loss.scores[0], loss.target))
    worst = np.empty(len(estimates))
    for start in range(0, len(worst), _BLOCK):
        rows = slice(start, start + _BLOCK)
        at = function(estimates[rows, None], labels[None, :])
        worst[rows] = np.abs(at @ mixing.T - at).max(axis=1)
    return worst


def _corrected(loss: Loss, records: Records, settings: dict[str, Any]) -> CorrectedLoss:
    if settings.get("score_variance") == 0:
        # Without noise in the score there is no variance to weigh against exactness.
        try:
            return debias(loss, records.collected, method="exact")
        except NoExactCorrectionError:
            pass
    shared = records.release.design(records.matrix.shape[1]).spherical
    if settings and any(isinstance(one.noise, ZonalNoise) for one in shared):
        # At theta = 0 all scores are 0, and any polynomials for short ones do.
        settings = {**settings, "score_variance": max(settings["score_variance"], _LEAST_VARIANCE)}
    return debias(loss, records.collected, **settings)
