"""Certify a corrected loss by quadrature: the largest |E[corrected] - loss| on a stated domain.

Nothing here is derived: both losses are evaluated as they stand and integrated over the noise, in the score by
a trapezoidal rule that is refined until it settles, in several features by tensor Gauss-Hermite rules.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

FloatArray = np.ndarray[Any, np.dtype[np.float64]]

_SCORES, _VARIANCES, _TARGETS = 41, 6, 5
_SETTLED, _ROUNDING = 1e-12, 1e-9
_MOST_NODES = 2**15
_MOST_TENSOR_NODES = 400_000
_SAMPLED_POINTS = 64


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
        The larger of 1 and the largest |corrected value| found: what rounding errors are relative to.
    theta_radius : float
        The domain has ||theta|| up to this,
    record_radius : float
        records with norm up to this (before the noise),
    score_bound : float
        hence scores |theta'x| up to this (infinite for a free-form loss, which has none),
    noise_variance : float
        and noise variance up to this: of the score, or of the noisiest feature of a free-form loss.
    targets : tuple of float
        The target values that were tried.
    variance_limit : float
        The correction exists for noise variance of the score below this.
    finite_variance_limit : float
        It has finite variance for noise variance of the score below this.
    quadrature_error : float
        By how much the two finest rules differ at most.
    reach, reach_limit : float
        The largest parameter times the tail scale of the noise of its column (b for Laplace noise) on the domain, and
        what it must stay below for the correction to exist; below half of that for a finite variance.
    conditions : tuple of str
        What the correction of a free-form loss needs besides.
    conditions_hold, variance_conditions_hold : bool
        Whether that holds on the whole domain, and what a finite variance needs.
    loss_offset : float
        How much of the bias of the loss is a part that no parameter changes; see `CorrectedLoss.loss_offset`.
    proved : bool
        Whether the biases are upper bounds, by interval arithmetic on cells that cover all scores of the domain, up to
        the rounding of float64. Otherwise they were searched for.
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
    reach: float = 0.0
    reach_limit: float = math.inf
    conditions: tuple[str, ...] = ()
    conditions_hold: bool = True
    variance_conditions_hold: bool = True
    loss_offset: float = 0.0
    proved: bool = False

    @property
    def exists(self) -> bool:
        """Whether the correction exists on the whole domain."""
        return self.noise_variance < self.variance_limit and self.reach < self.reach_limit and self.conditions_hold

    @property
    def finite_variance(self) -> bool:
        """Whether the corrected loss has finite variance on the whole domain."""
        return (
            self.exists
            and self.noise_variance < self.finite_variance_limit
            and self.reach < self.reach_limit / 2
            and self.variance_conditions_hold
        )

    def __str__(self) -> str:
        domain = (
            f"||theta|| <= {self.theta_radius:g} and ||x|| <= {self.record_radius:g} "
            f"(noise variance up to {self.noise_variance:.4g})"
        )
        if self.exists:
            claim = "exact" if self.exact else "not corrected" if self.method == "none" else "biased"
            claim += " up to a part of the loss that no parameter changes" if self.loss_offset > 0 else ""
            lines = [
                f"{claim}, for {domain}",
                f"  {self._biases()}",
            ]
        else:
            lines = [f"no correction on the whole domain {domain}"]
            if not self.noise_variance < self.variance_limit:
                lines.append(f"  it exists where {self._reach(self.variance_limit)}")
            if not self.reach < self.reach_limit:
                lines.append(f"  it exists where {self._within(self.reach_limit)}")
            if not self.conditions_hold:
                lines.append(f"  it exists where {' and '.join(self.conditions)}")
        if self.finite_variance:
            lines.append("  variance finite")
        else:
            if self.finite_variance_limit < self.variance_limit:
                lines.append(f"  variance finite only where {self._reach(self.finite_variance_limit)}")
            if not self.reach < self.reach_limit / 2:
                lines.append(f"  variance finite only where {self._within(self.reach_limit / 2)}")
            if not self.variance_conditions_hold:
                lines.append("  variance infinite in a part of the domain")
        return "\n".join(lines)

    def _biases(self) -> str:
        loss, gradient = _rounded_up(self.loss_bias), _rounded_up(self.gradient_bias)
        if self.proved:
            return f"bias of the loss at most {loss}, of the gradient at most {gradient} (by interval arithmetic)"
        return (
            f"bias of the loss: largest found {loss}, of the gradient: largest found {gradient} "
            f"(by quadrature, settled to {self.quadrature_error:.0e})"
        )

    def _within(self, limit: float) -> str:
        radius = self.theta_radius * limit / self.reach
        return (
            f"every parameter times the tail scale of its noise is below {limit:.4g}, that is ||theta|| < {radius:.4g}"
        )

    def _reach(self, limit: float) -> str:
        # The noise variance of the score grows with the square of the radius.
        radius = self.theta_radius * math.sqrt(limit / self.noise_variance)
        return f"the noise variance of the score is below {limit:.4g}, that is ||theta|| < {radius:.4g}"


def _rounded_up(value: float) -> str:
    """Return a number in three digits, none below it."""
    written = f"{value:.2e}"
    if not float(written) < value:
        return written
    exponent = int(written.split("e")[1])
    return f"{value + 0.5 * 10.0 ** (exponent - 2):.2e}"


@dataclass(frozen=True)
class TargetNoise:
    """What the target may be, and what is seen in its place.

    Attributes
    ----------
    targets : tuple of float
        The values of the target to try.
    variance : float
        Variance of Gaussian noise on the target.
    outcomes : tuple of float
        The values that a finite channel gives out; empty without a channel.
    probabilities : tuple of (float, ...)
        Their probabilities, a row for each target.
    """

    targets: tuple[float, ...]
    variance: float = 0.0
    outcomes: tuple[float, ...] = ()
    probabilities: tuple[tuple[float, ...], ...] = ()

    @property
    def seen(self) -> tuple[float, ...]:
        """What a channel gives out, or the targets themselves."""
        return self.outcomes or self.targets

    @property
    def shares(self) -> FloatArray:
        """The probability of what is `seen`, shape (targets, seen)."""
        return np.array(self.probabilities) if self.outcomes else np.eye(len(self.targets))


def default_targets(values: Sequence[float] | None, radius: float | None) -> tuple[float, ...]:
    """Return the target values to try: those declared, or a grid over the declared range."""
    if values is not None:
        return tuple(values)
    reach = 1.0 if radius is None else radius
    return tuple(float(value) for value in np.linspace(-reach, reach, _TARGETS))


@dataclass(frozen=True)
class ScoreProblem:
    """A loss F(u, y) and its corrected form G(u, y), both of numbers only."""

    loss: Callable[[FloatArray, float], FloatArray]
    slope: Callable[[FloatArray, float], FloatArray]
    corrected: Callable[[FloatArray, FloatArray, float], FloatArray]
    corrected_slope: Callable[[FloatArray, FloatArray, float], FloatArray]
    corrected_curvature: Callable[[FloatArray, FloatArray, float], FloatArray]


def score_biases(
    problem: ScoreProblem,
    *,
    score_bound: float,
    variance: float,
    record_radius: float,
    noise_norm: float,
    target_noise: TargetNoise,
    most_nodes: int = _MOST_NODES,
) -> dict[str, float]:
    """Return the largest biases of a corrected loss of one score, by quadrature over the noise.

    The gradient's bias splits in two: with e the noise of the score, the noise of the record is D theta e/s
    plus a part that is uncorrelated with e, so that

        E[x~ G_u - D theta K] - x F_u = x (E G_u - F_u) + D theta (E[e G_u]/s - E K).

    Parameters
    ----------
    problem : ScoreProblem
        The loss, its slope F_u, and the corrected loss with its slope and curvature K.
    score_bound : float
        Bound on |u|.
    variance : float
        Largest noise variance s of the score; tried with fractions of it.
    record_radius : float
        Bound on ||x||.
    noise_norm : float
        Bound on ||D theta|| at the largest s.
    target_noise : TargetNoise
        Targets and their noise.
    most_nodes : int
        Of the rule. Slow waves need a few hundred, however large they are and their rounding.

    Returns
    -------
    dict
        ``loss_bias``, ``gradient_bias``, ``loss_scale``, ``gradient_scale``, ``quadrature_error``.
    """
    scores = np.linspace(-score_bound, score_bound, _SCORES)[:, None]
    worst = {"loss_bias": 0.0, "gradient_bias": 0.0, "loss_scale": 1.0, "gradient_scale": 1.0}
    worst["quadrature_error"] = 0.0
    fractions = np.linspace(1.0, 0.0, _VARIANCES, endpoint=False) if variance > 0 else np.zeros(1)
    for fraction in fractions:
        s = variance * float(fraction)
        norm = noise_norm * math.sqrt(fraction)
        means, error = _settled_means(problem, scores, s, target_noise, most_nodes)
        worst["quadrature_error"] = max(worst["quadrature_error"], error)
        for target, mean in zip(target_noise.targets, means, strict=True):
            loss_bias = np.abs(mean[0] - problem.loss(scores[:, 0], target))
            slope_bias = np.abs(mean[1] - problem.slope(scores[:, 0], target))
            gradient_bias = record_radius * slope_bias + norm * np.abs(mean[2] - mean[3])
            worst["loss_bias"] = max(worst["loss_bias"], largest(loss_bias))
            worst["gradient_bias"] = max(worst["gradient_bias"], largest(gradient_bias))
        for outcome in target_noise.seen:
            at = np.full((1, 1), outcome)
            value = np.abs(problem.corrected(scores, at, s)).max()
            slope = np.abs(problem.corrected_slope(scores, at, s)).max()
            curvature = np.abs(problem.corrected_curvature(scores, at, s)).max()
            worst["loss_scale"] = max(worst["loss_scale"], float(value))
            worst["gradient_scale"] = max(worst["gradient_scale"], float(record_radius * slope + norm * curvature))
    return worst


def largest(sizes: FloatArray) -> float:
    """Return the largest of some sizes; what is no number counts as infinite."""
    return float(np.where(np.isnan(sizes), math.inf, sizes).max())


def _settled_means(
    problem: ScoreProblem, scores: FloatArray, s: float, target_noise: TargetNoise, most_nodes: int
) -> tuple[FloatArray, float]:
    """Refine the rule until the means of every target move by less than rounding; return them and the last move."""
    # The rule's error falls like exp(-2 (pi nodes/(2 reach))^2) for entire functions: few nodes are enough for them.
    most = most_nodes if target_noise.variance == 0 else min(most_nodes, 1024)
    nodes, reach = 48, 9.0
    before = _means(problem, scores, s, target_noise, nodes, reach)
    last = math.inf
    while True:
        # A wider rule with finer steps: both the tails and the steps must have settled.
        nodes, reach = 2 * nodes, reach * 1.15
        means = _means(problem, scores, s, target_noise, nodes, reach)
        sizes = np.maximum(1.0, np.abs(means).max(axis=(1, 2)))
        moved = float(np.max(np.abs(means - before).max(axis=(1, 2)) / sizes))
        # The error falls faster than geometrically until rounding is left, which in a sum of large waves is more.
        rounding = moved < _ROUNDING and moved > last / 4
        if moved < _SETTLED or rounding or nodes >= most:
            return means, moved
        before, last = means, moved


def _means(
    problem: ScoreProblem, scores: FloatArray, s: float, target_noise: TargetNoise, nodes: int, reach: float
) -> FloatArray:
    """Return E G, E G_u, E[e G_u]/s and E K at each score by the trapezoidal rule, shape (targets, 4, scores)."""
    t, weights = _normal_rule(nodes, reach) if s > 0 else (np.zeros(1), np.ones(1))
    if target_noise.variance > 0:
        t_target, target_weights = _normal_rule(nodes, reach)
    else:
        t_target, target_weights = np.zeros(1), np.ones(1)
    points = scores + math.sqrt(s) * t[None, :]
    found = np.zeros((len(target_noise.seen), 4, len(scores)))
    for total, outcome in zip(found, target_noise.seen, strict=True):
        for shift, weight in zip(t_target, target_weights, strict=True):
            noised = np.full((1, 1), outcome + math.sqrt(target_noise.variance) * shift)
            slope = _weighed(problem.corrected_slope(points, noised, s), weights)
            cross = slope @ (t / math.sqrt(s)) if s > 0 else np.zeros(len(scores))
            curvature = _weighed(problem.corrected_curvature(points, noised, s), weights).sum(axis=1)
            parts = (
                _weighed(problem.corrected(points, noised, s), weights).sum(axis=1),
                slope.sum(axis=1),
                cross,
                curvature if s > 0 else np.zeros(len(scores)),
            )
            total += weight * np.stack(parts)
    return np.tensordot(target_noise.shares, found, axes=1)


def _weighed(values: FloatArray, weights: FloatArray) -> FloatArray:
    # Far in the tails a weight of 1e-300 meets a value that overflowed: such nodes carry nothing.
    return np.where(weights[None, :] > 1e-250, values, 0.0) * weights[None, :]


def _normal_rule(nodes: int, reach: float) -> tuple[FloatArray, FloatArray]:
    t = np.linspace(-reach, reach, nodes + 1)
    return t, np.exp(-(t**2) / 2) / math.sqrt(2 * math.pi) * (t[1] - t[0])
