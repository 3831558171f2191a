"""A certificate: how far the mean of a corrected loss is from the loss on a stated domain, and how that was checked."""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import sympy as sp

from symdebias._arrays import FloatArray
from symdebias.assessment.growth import growth_of, has_moment
from symdebias.assessment.kernel_bias import ROUNDING, columns_at_once, has_affine_target, kernel_biases, true_codes
from symdebias.assessment.score_bias import (
    MOST_NODES,
    Biases,
    TargetNoise,
    score_biases,
    score_functions,
    searched_biases,
)
from symdebias.bounds.enclosures import Enclosed, enclosed
from symdebias.correction import Correction
from symdebias.derivation import Series, Uncorrected
from symdebias.exceptions import NoExactCorrectionError
from symdebias.losses.meaning import is_residual_loss
from symdebias.noise import exactly

# Nodes of a rule for the mean of a surrogate, whose waves are slow against it.
_NODES_FOR_WAVES = 768
# Rules that differ by a larger share of a bias may both be far from it.
_SETTLED = 0.01


@dataclass(frozen=True)
class Certificate:
    """The biases of a corrected loss on a stated domain: at most so large, or the largest found.

    Attributes
    ----------
    method : str
        How the loss was corrected.
    exact : bool
        Whether the derivation claims an exact correction.
    loss_bias : float
        What |E[corrected loss] - loss| does not exceed, where `proved`, and otherwise the largest that was found;
        infinite where the correction does not exist.
    gradient_bias : float
        The same of the norm of the bias of the gradient.
    loss_scale, gradient_scale : float
        The larger of 1 and the largest |corrected value| found, or mean of it over the noise: what rounding errors are
        relative to.
    theta_radius : float
        The domain has ||theta|| up to this,
    record_radius : float
        records with norm up to this (before the noise),
    score_bound : float
        hence scores |theta'x| up to this (infinite for a free-form loss, which has none), or up to the range of a
        surrogate where that is less; residuals where `cut` says so,
    noise_variance : float
        and noise variance up to this: of the score, with noise of all kinds, or of the noisiest feature of a free-form
        loss. For a surrogate it is at most what that is designed for.
    targets : tuple of float
        The target values that were tried.
    variance_limit : float
        The correction exists, or for `method` "none" the mean over the noise, for a variance of normal noise of the
        score below this; 0 where it is known to for none, as under too much noise of the target.
    finite_variance_limit : float
        It has finite variance for a variance of normal noise of the score below this.
    quadrature_error : float
        By how much the two finest rules differ at most.
    normal_variance : float
        The part of `noise_variance` that is normal noise's.
    reach, reach_limit : float
        The largest parameter times the tail scale of the noise of its column (b for Laplace noise), or the norm of the
        parameters of columns that share noise times the scale of that, on the domain; and what it must stay below for
        the correction to exist; below half of that for a finite variance. Of several scores it is a parameter of a sum
        of them that stands in an exponential of the loss.
    conditions : tuple of str
        What the correction of a free-form loss, or of several scores under normal noise, needs besides.
    conditions_hold, variance_conditions_hold : bool
        Whether that holds on the whole domain, and what a finite variance needs.
    loss_offset : float
        How much of the bias of the loss is a part that no parameter changes; see `CorrectedLoss.loss_offset`.
    columns : int or None
        For how many columns it is, where the release does not know their number and more of them have other noise or
        longer records: a vector of more columns has more noise, and a larger bias. None where none of it matters.
    columns_at_once : int or None
        At how many columns with additive noise the search looked at once, the parameters of others being 0. None where
        it looked at all of them.
    cut : {"", "score", "residual"}
        What is bounded by the range of a surrogate, where parameters and records of the domain may take it further.
    proved : bool
        Whether the biases are upper bounds, by interval arithmetic on cells that cover all scores of the domain, up to
        the rounding of float64. Otherwise they were searched for.
    from_file : bool
        Whether a file of a fit says all this, and it was not measured here.

    Examples
    --------
    >>> import symdebias as sd
    >>> corrected = sd.debias(sd.losses.squared_margin(), sd.Release(sd.GaussianMechanism.from_scale(0.5)))
    >>> certificate = corrected.certify(theta_radius=2.0)
    >>> certificate.exists, certificate.exact, certificate.loss_bias < 1e-9, certificate.finite_variance
    (True, True, True, True)
    """

    method: str
    exact: bool
    loss_bias: float
    gradient_bias: float
    loss_scale: float
    gradient_scale: float
    theta_radius: float
    record_radius: float
    score_bound: float
    noise_variance: float
    targets: tuple[float, ...]
    variance_limit: float
    finite_variance_limit: float
    quadrature_error: float
    normal_variance: float = 0.0
    reach: float = 0.0
    reach_limit: float = math.inf
    conditions: tuple[str, ...] = ()
    conditions_hold: bool = True
    variance_conditions_hold: bool = True
    loss_offset: float = 0.0
    proved: bool = False
    cut: str = ""
    columns: int | None = None
    columns_at_once: int | None = None
    from_file: bool = False

    @property
    def exists(self) -> bool:
        """Whether the correction exists on the whole domain."""
        return self.normal_variance < self.variance_limit and self.reach < self.reach_limit and self.conditions_hold

    @property
    def finite_variance(self) -> bool:
        """Whether the corrected loss has finite variance on the whole domain."""
        return (
            self.exists
            and self.normal_variance < self.finite_variance_limit
            and self.reach < self.reach_limit / 2
            and self.variance_conditions_hold
        )

    def __str__(self) -> str:
        domain = f"||theta|| <= {self.theta_radius:g} and ||x|| <= {self.record_radius:g}"
        if self.cut:
            domain += f" where |{self.cut}| <= {self.score_bound:g}"
        if self.noise_variance > 0:
            domain += f" (noise variance up to {self.noise_variance:.4g})"
        if self.columns is not None:
            domain += f", for {self.columns} column{'s' * (self.columns > 1)} (columns= says how many there are)"
        if self.exists:
            claim = "exact" if self.exact else "not corrected" if self.method == "none" else "biased"
            claim += " up to a part of the loss that no parameter changes" if self.loss_offset > 0 else ""
            lines = [
                f"{claim}, for {domain}",
                f"  {self._biases()}",
            ]
        else:
            what = "correction" if self.method != "none" else "mean over the noise"
            lines = [f"no {what} on the whole domain {domain}"]
            if self.variance_limit == 0 or self.reach_limit == 0:
                lines.append("  it is known to exist for no parameters but 0")
            elif not self.normal_variance < self.variance_limit:
                lines.append(f"  it exists where {self._reach(self.variance_limit)}")
            if self.reach_limit > 0 and not self.reach < self.reach_limit:
                lines.append(f"  it exists where {self._within(self.reach_limit)}")
            if not self.conditions_hold and self.conditions:
                lines.append(f"  it exists where {' and '.join(self.conditions)}")
        if self.finite_variance:
            lines.append("  variance finite")
        else:
            if self.finite_variance_limit == 0 or self.reach_limit == 0:
                lines.append("  variance infinite, or not known to be finite, for all parameters but 0")
            elif (
                self.finite_variance_limit < self.variance_limit
                and not self.normal_variance < self.finite_variance_limit
            ):
                lines.append(f"  variance finite only where {self._reach(self.finite_variance_limit)}")
            if self.reach_limit > 0 and not self.reach < self.reach_limit / 2:
                lines.append(f"  variance finite only where {self._within(self.reach_limit / 2)}")
            if not self.variance_conditions_hold:
                known = "infinite" if self.exact else "infinite, or not known to be finite,"
                lines.append(f"  variance {known} in a part of the domain")
        if self.from_file:
            lines.append("  as the file says (fit.certificate measures it)")
        return "\n".join(lines)

    def _biases(self) -> str:
        loss, gradient = _rounded_up(self.loss_bias), _rounded_up(self.gradient_bias)
        if self.proved:
            return f"bias of the loss at most {loss}, of the gradient at most {gradient} (by interval arithmetic)"
        if self.exact and math.isinf(max(self.loss_scale, self.gradient_scale)):
            tried = f"{min(self.targets):g} to {max(self.targets):g}"
            return (
                "bias not known: the loss, or its correction, is infinite or no number somewhere on the domain, with "
                f"targets from {tried}. Where targets take other values, as positive ones for log(y), declare them: "
                "target_values= of the loss"
            )
        found = f"bias of the loss: largest found {loss}, of the gradient: largest found {gradient} "
        if self.exact and max(self.loss_bias, self.gradient_bias) > ROUNDING:
            largest = max(self.loss_scale, self.gradient_scale)
            if self.is_rounding:
                return found + f"(which is rounding: of values up to {largest:.0e} that nearly cancel)"
            return found + (
                f"(which quadrature does not settle, of values up to {largest:.0e}: it says nothing for or against the "
                "derivation here, and may of a smaller ball, by certify(theta_radius=...))"
            )
        if not self.quadrature_error <= _SETTLED:
            return found + "(by quadrature, which does not settle: they may be much larger, or infinite)"
        over = "" if self.columns_at_once is None else f" over {self.columns_at_once} noised columns at once"
        return found + f"(by quadrature{over}, settled to {self.quadrature_error:.0e})"

    @property
    def is_rounding(self) -> bool:
        """Whether what was found of an exact correction is no more than rounding: 1e-9 of the values that are summed.

        Corrections of high powers take values of many digits more than their mean has.
        """
        shares = self.loss_bias / self.loss_scale, self.gradient_bias / self.gradient_scale
        return self.exact and max(shares) <= ROUNDING

    def _within(self, limit: float) -> str:
        radius = self.theta_radius * limit / self.reach
        return (
            "every parameter, or the norm of those that share noise, times the tail scale of the noise is below "
            f"{limit:.4g}, that is ||theta|| < {radius:.4g}"
        )

    def _reach(self, limit: float) -> str:
        # The noise variance of the score grows with the square of the radius.
        radius = self.theta_radius * math.sqrt(limit / self.normal_variance)
        noise = "noise" if math.isclose(self.normal_variance, self.noise_variance) else "normal noise"
        return f"the {noise} variance of the score is below {limit:.4g}, that is ||theta|| < {radius:.4g}"


def _rounded_up(value: float) -> str:
    """Return a number in three digits, none below it."""
    written = f"{value:.2e}"
    if not float(written) < value:
        return written
    exponent = int(written.split("e")[1])
    return f"{value + 0.5 * 10.0 ** (exponent - 2):.2e}"


def certify(correction: Correction, *, theta_radius: float) -> Certificate:
    """Return the certificate of a correction; see `symdebias.corrected.CorrectedLoss.certify`.

    Parameters
    ----------
    correction : Correction
        The correction, its surrogates designed.
    theta_radius : float
        Largest ||theta|| of the domain, positive and finite.
    """
    return _of_score(correction, theta_radius) if correction.is_simple else _of_columns(correction, theta_radius)


def _of_score(correction: Correction, theta_radius: float) -> Certificate:
    release, surrogates = correction.release, correction.surrogates
    record_radius = release.record_radius(correction.columns)
    if release.fit_intercept:
        record_radius = math.hypot(record_radius, 1.0)
    # The noise is there whether it is corrected or not.
    covariance = correction.design.covariance
    largest = float(np.linalg.eigvalsh(covariance).max(initial=0.0)) if covariance.any() else 0.0
    variance = largest * theta_radius**2
    noise_variance = _largest_score_variance(correction, theta_radius)
    targets = _target_noise(correction)
    bound = theta_radius * record_radius
    if surrogates is not None:
        # Within the range and up to the noise that it is designed for; its bias does not depend on the noise.
        variance, noise_variance = (min(one, correction.score_level) for one in (variance, noise_variance))
        bound = min(bound, surrogates.radius)
        if correction.surrogate_parts.is_residual:
            bound, targets = surrogates.radius, replace(targets, targets=(0.0,))
    cut = _cut_by(correction, bound, theta_radius * record_radius)
    biases, proved = Biases.unknown(), False
    if variance < min(correction.limits.variance, growth_of(correction).mean):
        functions = score_functions(correction)
        settings = {
            "score_bound": bound,
            "variance": variance,
            "record_radius": record_radius,
            "noise_norm": math.sqrt(largest * variance),
        }
        looked_at = targets
        is_searched = isinstance(correction.method, (Series, Uncorrected)) and not correction.is_exact
        if is_searched and targets.between and is_residual_loss(correction.loss):
            # Residuals are what counts: of all targets and scores they are those of the target 0 and longer scores.
            settings["score_bound"] = bound + max(map(abs, targets.targets))
            looked_at = replace(targets, targets=(0.0,), between=False)
        if is_searched and targets.apart == 0:
            biases = searched_biases(functions, _enclosing(correction), target_noise=looked_at, **settings)
        else:
            most = MOST_NODES if surrogates is None else _NODES_FOR_WAVES
            biases = score_biases(functions, target_noise=looked_at, most_nodes=most, climbs=is_searched, **settings)
        biases, proved = _with_bounds_of_surrogates(correction, biases, bound, record_radius)
    return _certificate(
        correction, biases, proved, theta_radius=theta_radius, record_radius=record_radius, score_bound=bound,
        noise_variance=noise_variance, normal_variance=variance, targets=targets.targets, reach=0.0, cut=cut,
    )  # fmt: skip


def _target_noise(correction: Correction) -> TargetNoise:
    """Return the noise of the target as the mean of a loss of one score depends on it."""
    noise = TargetNoise.of(correction.loss, correction.release)
    if is_residual_loss(correction.loss):
        return replace(noise, joins=noise.variance > 0)
    # An affine function is largest at an end of a range.
    return replace(noise, variance=0.0, between=False) if has_affine_target(correction) else noise


def _of_columns(correction: Correction, theta_radius: float) -> Certificate:
    release, surrogates = correction.release, correction.surrogates
    record_radius = release.record_radius(correction.columns)
    # An intercept is one more entry of a row, and of the gradient.
    row = math.hypot(record_radius, release.fit_intercept)
    noisiest = float(release.feature_variances(correction.columns).max(initial=0.0))
    variance, noise_variance, reach = noisiest, noisiest, 0.0
    if correction.is_of_scores:
        noise_variance = _largest_score_variance(correction, theta_radius)
        largest = np.linalg.eigvalsh(correction.design.covariance).max(initial=0.0)
        variance = float(largest) * theta_radius**2
        # The noise is there whether it is corrected or not.
        rates = [part.own_noise.tail_rate for part in correction.design.linear if part.own_noise is not None]
        scales = 1 / np.array(rates, dtype=float)
        for group in correction.design.spherical:
            tails = math.sqrt(max(group.weights) * theta_radius**2 + group.constant) / group.noise.tail_rate
            scales = np.append(scales, tails / theta_radius)
        reach = float(scales.max(initial=0.0)) * theta_radius * growth_of(correction).length
    inside, targets, residual = theta_radius, true_codes(correction.loss, release), None
    if surrogates is not None:
        if correction.surrogate_parts.is_residual:
            residual, targets = surrogates.radius, (0.0,)
        # Waves that are tuned for little noise vary too fast under much of it for any rule.
        inside = min(theta_radius, surrogates.radius / row)
        inside = min(inside, math.sqrt(correction.score_level / noisiest)) if noisiest > 0 else inside
        variance, noise_variance = (min(one, noisiest * inside**2) for one in (variance, noise_variance))
    is_within = not correction.is_of_scores or (
        variance < min(correction.limits.variance, growth_of(correction).mean) and reach < growth_of(correction).reach
    )
    biases = Biases.unknown()
    if is_within and _conditions_hold(correction, theta_radius):
        biases = kernel_biases(correction, record_radius=record_radius, theta_radius=inside, residual_radius=residual)
    bound = theta_radius * row if correction.is_of_scores else math.inf
    if surrogates is not None:
        bound = min(bound, surrogates.radius) if residual is None else residual
    cut = _cut_by(correction, bound, theta_radius * row)
    proved = False
    if math.isfinite(biases.loss_bias):
        biases, proved = _with_bounds_of_surrogates(correction, biases, bound, row)
    return _certificate(
        correction, biases, proved, theta_radius=theta_radius, record_radius=record_radius, score_bound=bound,
        noise_variance=noise_variance, normal_variance=variance, targets=targets, reach=reach, cut=cut,
        columns_at_once=columns_at_once(correction),
    )  # fmt: skip


def _largest_score_variance(correction: Correction, theta_radius: float) -> float:
    """Return the largest noise variance of the score over the parameters of a norm, with noise of all kinds."""
    return float(np.linalg.eigvalsh(correction.score_noise).max(initial=0.0)) * theta_radius**2


def _cut_by(correction: Correction, bound: float, farthest: float) -> str:
    """Return what the range of a surrogate cuts from the domain, whose scores go as far as is said."""
    if correction.surrogates is None:
        return ""
    if correction.surrogate_parts.is_residual:
        return "residual"
    return "score" if bound < farthest else ""


def _certificate(
    correction: Correction, biases: Biases, proved: bool, *, theta_radius: float, **domain: Any
) -> Certificate:
    conditions = correction.limits.conditions
    return Certificate(
        method=correction.method.name,
        exact=correction.is_exact,
        loss_offset=correction.loss_offset,
        theta_radius=theta_radius,
        proved=proved,
        variance_limit=min(correction.limits.variance, growth_of(correction).mean),
        finite_variance_limit=min(correction.limits.finite_variance, growth_of(correction).variance),
        reach_limit=growth_of(correction).reach,
        conditions=tuple(str(condition) for condition, error in conditions if error is NoExactCorrectionError),
        conditions_hold=_conditions_hold(correction, theta_radius),
        variance_conditions_hold=_conditions_hold(correction, theta_radius, finite_variance=True),
        columns=_columns_that_matter(correction),
        **domain,
        **asdict(biases),
    )


def _columns_that_matter(correction: Correction) -> int | None:
    """Return the number of columns, where the release does not know it and another one has another certificate."""
    release, count = correction.release, correction.columns
    if not correction.is_of_scores or release.number_of_columns is not None:
        return None
    is_as_long = release.record_radius(count) == release.record_radius(count + 1)
    return None if correction.is_simple and (is_as_long or correction.is_exact) else count


def _conditions_hold(correction: Correction, theta_radius: float, *, finite_variance: bool = False) -> bool:
    """Whether what is no bound on one number holds at parameters spread over the ball, the worst of them included."""
    limits = correction.limits
    if correction.is_of_scores and not limits.conditions:
        return True
    points = _spread(limits.worst_parameters if correction.is_of_scores else np.eye(len(correction.loss.parameters)))
    return all(
        limits.holds(theta_radius * point, finite_variance=finite_variance)
        and has_moment(correction, theta_radius * point, 2 if finite_variance else 1)
        for point in points
    )


def _spread(frame: FloatArray) -> FloatArray:
    """Return points of norm 1 in the space of orthonormal rows: they and their negatives, and many between them."""
    size = len(frame)
    points = np.concatenate([np.eye(size), -np.eye(size), np.random.default_rng(0).normal(size=(200, size))])
    spread: FloatArray = points / np.linalg.norm(points, axis=1, keepdims=True) @ frame
    return spread


def _enclosing(correction: Correction) -> Callable[[float], Enclosed | None]:
    """Return what gives the declared loss at a target with the ranges of its derivatives, where they are known."""
    loss = correction.loss

    def at(target: float) -> Enclosed | None:
        return enclosed(exactly(loss.expression).xreplace({loss.target: sp.Rational(target)}), loss.scores[0])

    return at


def _with_bounds_of_surrogates(
    correction: Correction, biases: Biases, bound: float, record_radius: float
) -> tuple[Biases, bool]:
    """Return biases raised to the bounds on the errors of surrogates, and whether nothing exceeds these."""
    surrogates = correction.surrogates
    if surrogates is None:
        return biases, False
    parts = correction.surrogate_parts
    bound = surrogates.radius if parts.is_residual else bound
    worst = parts.largest_errors(surrogates, bound, TargetNoise.of(correction.loss, correction.release).targets)
    proved, raised = worst.proved, {}
    for name, most, measured, scale in (
        ("loss_bias", worst.value, biases.loss_bias, biases.loss_scale),
        ("gradient_bias", worst.slope * record_radius, biases.gradient_bias, biases.gradient_scale),
    ):
        # More than rounding above the bound: the correction is not the surrogate's.
        beyond = measured > most + max(1e-9, 10 * biases.quadrature_error) * scale
        proved = proved and not beyond
        raised[name] = max(most, measured) if beyond else most
    return replace(biases, **raised), proved
