"""What would do where a fit is refused: so many records, such a budget, or one vector for features and label.

The share of signal is what released columns have in common with true ones: rho = 1 - tr(M^-1 N)/r, M the second moments
of released rows, N the covariance of their noise and r its rank, is the mean over the noised directions of the share of
the variance that is true. A corrected Hessian is a difference of the two, in which a direction has the curvature rho
with a sampling error of about sqrt(2 (1 - rho)/n). It is to be 8 of them in the mean, so that it is 2.5 and more in the
worst direction of columns that are correlated as usual, and 20 records are wanted for each parameter; labels of gain c
carry 1/c^2 of a record:

    n = c^2 (20 q + 128 (1 - rho)/rho^2).

It is a rule of thumb, for the order of magnitude and no promise: rho is taken one standard error below its estimate.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from symdebias._arrays import FloatArray
from symdebias.codegen.parallel import over_chunks
from symdebias.derivation import is_margin_loss
from symdebias.losses import Loss
from symdebias.mechanisms import Mechanism
from symdebias.noise import AdditiveNoise, ChannelNoise, SymmetricChannel
from symdebias.records import Records
from symdebias.release import Release
from symdebias.solvers.metric import inverse_root
from symdebias.solvers.moments import released_moments
from symdebias.solvers.residual_unit import scarcely_curved
from symdebias.solvers.separation import separated_by_a_score
from symdebias.zonal import ZonalNoise

# Records for each parameter, and the square of 8 times the variance 2 of the square of a normal number.
_EACH, _CERTAIN = 20.0, 128.0
# A share of signal is seen from so many of its own standard errors on.
_SEEN = 2.0
# A direction is told from none from so many standard errors on; columns with such entries in it are named.
_TOLD, _WEIGHTY = 2.5, 0.3
# A variance is below that of its noise from so many 1/sqrt(n) of it on: five standard errors of Laplace noise.
_SURE = 11.0
# More columns are not named.
_NAMED = 3
# A larger multiple of a budget is no advice.
_MOST = 1_000.0


@dataclass(frozen=True)
class Signal:
    """What released records say of how much of them is noise."""

    share: float  # rho, of the noised directions; 1 where features are not noised.
    error: float  # Its standard error.
    parameters: int  # q, of one score.
    gain: float  # c: 1 where the label is not exchanged.
    records: float  # n, with weights (sum w)^2/(sum w^2).

    @classmethod
    def of(cls, records: Records) -> "Signal | None":
        """Return that of released records, or None for a free-form loss, which has no score."""
        correction = records.correction
        if not correction.loss.scores:
            return None
        count = records.effective
        noise = correction.design.released_covariance(correction.noise_covariance(records.present_scales))
        width = len(noise)
        moments = released_moments(records)[:width, :width]
        root = inverse_root(moments)
        parts = np.linalg.eigvalsh(root.T @ noise @ root)
        parts = parts[parts > 1e-9]
        share = 1.0 if not len(parts) else float(1 - parts.mean())
        error = 0.0 if not len(parts) else math.sqrt(2 / (count * len(parts)))
        return cls(share, error, width, _gain(correction.release.target), count)

    @property
    def is_seen(self) -> bool:
        """Whether the share of signal is told from none."""
        return self.share > _SEEN * self.error

    @property
    def needed(self) -> float:
        """How many records would do."""
        # A share that was seen is rather too large than too small: it is taken at its lower end.
        share = max(self.share - self.error, 1e-9)
        return self.gain**2 * (_EACH * self.parameters + _CERTAIN * (1 - share) / share**2)

    def with_noise(self, ratio: float) -> "Signal":
        """Return that of the same records under noise of another variance, by its ratio to what it is."""
        sure = self.share - self.error
        return replace(self, share=sure / (sure + ratio * (1 - sure)), error=0.0)


def measures(records: Records, loss: Loss, release: Release) -> str:
    """Return what would do, in sentences; empty where records do not tell or are enough already.

    Parameters
    ----------
    records : Records
        What was fitted.
    loss : Loss
        The loss, as declared.
    release : Release
        How the records were released.
    """
    # Of a loss that is not corrected, records are true ones or taken for such: nothing of them is the declared noise.
    as_true = records.is_noised and not records.correction.method.corrects
    if said := (not as_true and _noise_too_large(records)) or scarcely_curved(records, loss):
        return said
    if as_true:
        return _one_label(records, loss, release)
    signal = Signal.of(records)
    if signal is None:
        return ""
    undecided = _one_label(records, loss, release) or _alike(records)
    if not records.is_noised and not undecided:
        return separated_by_a_score(records, loss, release)
    if not records.is_noised or (signal.share >= 1 and signal.gain <= 1):
        return undecided
    if not signal.is_seen:
        return (
            "The released features vary no more than their noise alone may: how many records would do cannot be read "
            "off them. sd.planning.records_needed says it for a population that you guess."
        )
    if signal.needed <= signal.records:
        return undecided
    if signal.share < 1:
        told = f"About {100 * signal.share:.2g}% of the variance of the released features is signal"
    else:
        told = "The noise is that of the label alone"
    ways = [f"about {_rounded(signal.needed)} records"]
    ways += [way for way in (_budget(signal, release),) if way]
    said = f"{told}: {', or '.join(ways)} would do."
    together = _one_vector(signal, loss, release, records.correction.features)
    return f"{said} {together}" if together else said


def _one_label(records: Records, loss: Loss, release: Release) -> str:
    """Return that all labels are the same, which no finite parameters fit best."""
    if loss.target_values is None or release.coupling is not None:
        return ""
    if isinstance(release.target_noise, AdditiveNoise):
        return ""
    count, total, square = records.summed_over_parts(_labels)
    if count * square - total**2 > 1e-12 * count * square:
        return ""
    return f"All {count:,.0f} labels are the same, and no finite parameters fit one label best: check the target."


def _labels(part: Records) -> tuple[float, float, float]:
    def summed_up(rows: slice) -> FloatArray:
        target = part.target[rows]
        if len(part.weights):
            target = target[part.weights[rows] > 0]
        return np.array([len(target), target.sum(), target @ target])

    count, total, square = sum(over_chunks(len(part), summed_up), np.zeros(3))
    return float(count), float(total), float(square)


def _noise_too_large(records: Records) -> str:
    """Name columns that vary less than their declared noise does by itself, which no true values make them.

    The variance of n values of noise has a standard error of sqrt((kurtosis - 1)/n) of it; Laplace noise has 6.
    """
    correction = records.correction
    design = correction.design
    # A point of a sphere is no sum of a record and noise.
    is_sum = not any(isinstance(group.noise, ZonalNoise) for group in design.spherical)
    if not (records.is_noised and correction.loss.scores and is_sum):
        return ""
    moments = released_moments(records)
    noise = design.released_covariance(correction.noise_covariance(records.present_scales))
    last = len(noise) - 1
    has_intercept = design.intercept and noise[last, last] == 0
    least = 1 - _SURE / math.sqrt(records.effective)
    told = []
    for place in (part.parameter for part in design.linear):
        own, mean = float(noise[place, place]), float(moments[place, last]) if has_intercept else 0.0
        varies = max(float(moments[place, place]) - mean**2, 0.0)
        if not (has_intercept and place == last) and varies < least * own:
            told.append(
                f"{design.parameters[place]} varies by {math.sqrt(varies):.3g}, and its declared noise alone by "
                f"{math.sqrt(own):.3g}"
            )
    if not told:
        return ""
    more = "; ..." if len(told) > _NAMED else ""
    return (
        f"{'; '.join(told[:_NAMED])}{more} (standard deviations): the noise is declared too large, such as "
        "a variance in place of a scale, or these values were changed after it. sd.checks.check_records(release, X, y) "
        "looks at every column."
    )


def _alike(records: Records) -> str:
    """Name columns that are not told to vary, or to vary apart from each other, once the noise is taken out.

    A direction of the estimated second moments of true rows that is not told from 0: its variance over released rows is
    known to a share of sqrt(2/n).
    """
    correction = records.correction
    noise = correction.design.released_covariance(correction.noise_covariance(records.present_scales))
    width = len(noise)
    moments = released_moments(records)[:width, :width]
    units = 1 / np.sqrt(np.maximum(np.diag(moments), 1e-300))
    scaled = np.multiply.outer(units, units)
    values, directions = np.linalg.eigh((moments - noise) * scaled)
    least = directions[:, 0]
    if values[0] > _TOLD * math.sqrt(2 / records.effective) * float(least @ (moments * scaled) @ least):
        return ""
    names = correction.design.parameters
    told = [name for name, entry in zip(names, least, strict=True) if abs(entry) > _WEIGHTY]
    if not told:
        return (
            "These records do not tell that each combination of many columns varies beyond its noise: leave some of "
            "them out, or release them with less noise."
        )
    if len(told) == 1:
        return (
            f"These records do not tell that {told[0]} varies beyond its noise: leave it out, or release it with less "
            "noise."
        )
    listed = f"{', '.join(told[:-1])} and {told[-1]}"
    return (
        f"These records do not tell that {listed} vary apart from each other beyond their noise: leave one of them "
        "out, or release them with less noise."
    )


def _gain(target: Mechanism | None) -> float:
    if target is None or not isinstance(target.noise, SymmetricChannel):
        return 1.0
    kinds = len(target.noise.inputs)
    return (kinds - 1) / (kinds * target.noise.keep - 1)


def _rounded(number: float) -> str:
    """Return a number of records, rounded up to two digits."""
    unit = 10.0 ** max(0, math.floor(math.log10(max(number, 1.0))) - 1)
    return f"{math.ceil(number / unit) * unit:,.0f}"


def _budget(signal: Signal, release: Release) -> str:
    """Return by which budget so many records would do, or by which noise where none was stated."""
    if signal.share >= 1:
        target = release.target
        if target is None or target.guarantee is None or not isinstance(target.noise, SymmetricChannel):
            return ""
        factor = _least(lambda many: replace(signal, gain=_gain(_spending(target, many))), signal)
        return "" if factor is None else f"an epsilon of {_epsilon(target, factor)} for the label"
    noised = [one for _, one in release.groups if not isinstance(one.noise, ChannelNoise)]
    if not noised:
        return ""
    if any(one.guarantee is None for one in noised):
        factor = _least(lambda many: signal.with_noise(many**-2), signal)
        return "" if factor is None else f"noise of 1/{factor:.2g} of its standard deviation"
    factor = _least(lambda many: signal.with_noise(max(_ratio(one, many) for one in noised)), signal)
    if factor is None:
        return ""
    if len(noised) == 1:
        return f"an epsilon of {_epsilon(noised[0], factor)} for the features"
    return f"{factor:.2g} times the epsilon of each noised column"


def _least(signal_at: Callable[[float], Signal], signal: Signal) -> float | None:
    """Return the least factor of a budget at which so many records do, or None where none does that there is."""
    low, high = 1.0, 2.0
    try:
        while signal_at(high).needed > signal.records:
            low, high = high, 2 * high
            if high > _MOST:
                return None
        for _ in range(20):
            middle = math.sqrt(low * high)
            low, high = (low, middle) if signal_at(middle).needed <= signal.records else (middle, high)
    except ValueError:
        # A mechanism that is not made from a budget, or whose calibration ends below it.
        return None
    return high


def _epsilon(mechanism: Mechanism, factor: float) -> str:
    """Return a larger budget, rounded up to two digits, beside what it is."""
    assert mechanism.guarantee is not None
    own = mechanism.guarantee.epsilon
    unit = 10.0 ** (math.floor(math.log10(factor * own)) - 1)
    return f"{math.ceil(factor * own / unit) * unit:.2g} in place of {own:.3g}"


def _spending(mechanism: Mechanism, factor: float) -> Mechanism:
    """Return a mechanism with a multiple of its budget."""
    assert mechanism.guarantee is not None
    return mechanism.with_epsilon(min(700.0, factor * mechanism.guarantee.epsilon))


def _ratio(mechanism: Mechanism, factor: float) -> float:
    """Return by what a multiple of the budget multiplies the variance of the noise."""
    return _variance(_spending(mechanism, factor)) / _variance(mechanism)


def _variance(mechanism: Mechanism) -> float:
    places = mechanism.width or 1
    noise = mechanism.noise_on(places)
    found: FloatArray = np.asarray(noise.coordinate_variances(places))  # type: ignore[union-attr]
    return float(found.mean())


def _one_vector(signal: Signal, loss: Loss, release: Release, features: int) -> str:
    """Return what a margin release of the same budget would do, for a loss and a release that may be one."""
    if release.coupling is not None or len(release.groups) != 1 or release.noiseless or release.target is None:
        return ""
    ((names, mechanism),) = release.groups
    total = release.guarantee
    labels = loss.target_values
    if total is None or labels is None or len(labels) != 2 or not is_margin_loss(loss, (labels[0], labels[1])):
        return ""
    if isinstance(mechanism.noise, ChannelNoise) or getattr(mechanism, "radius", None) is None:
        return ""
    try:
        whole = mechanism.with_epsilon(total.epsilon)
    except ValueError:
        return ""
    columns = names or tuple(f"x{index}" for index in range(features))
    together = Release({columns: whole}, "margin", fit_intercept=release.fit_intercept, target_values=labels)
    variances = together.in_columns(features).feature_variances(features + (release.fit_intercept))
    before = release.feature_variances(features)
    # The gain of its labels is 1, but where the label is in the linear part alone it made no curvature uncertain.
    margin = signal.with_noise(float(variances[:features].mean() / before.mean()))
    if margin.needed >= signal.needed:
        return ""
    told = "these records" if margin.needed <= signal.records else f"about {_rounded(margin.needed)} records"
    return (
        f'One vector for features and label, target="margin" with the whole epsilon of {total.epsilon:.3g}, would do '
        f'with {told}; sd.plan(..., target="any") compares releases before anything is collected.'
    )
