"""The bias of a corrected loss of one score under normal noise, over a whole range of scores.

Nothing here is derived: both losses are evaluated as they stand and integrated over the noise. Exact corrections and
surrogates by a trapezoidal rule that is refined until it settles; what is left as it stands or corrected by a series,
which may have kinks and narrow bumps, by a search.
"""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import sympy as sp

from symdebias._arrays import FloatArray
from symdebias.bounds.enclosures import Enclosed
from symdebias.bounds.intervals import Range
from symdebias.bounds.tight import tight_derivative
from symdebias.codegen.numeric import numeric
from symdebias.correction import Correction
from symdebias.losses import Loss
from symdebias.noise import ChannelNoise
from symdebias.release import Release

_SCORES, _VARIANCES, _TARGETS = 41, 6, 5
_SETTLED, _ROUNDING = 1e-12, 1e-9
# What rounding leaves of a sum, in shares of the sizes that were summed: a power of 34 has a mean of 1 out of 1e24.
_LEFT = 2.0**-44
MOST_NODES = 2**15
# The rule on a panel of the line, how far normal noise reaches in standard deviations, and panels at most.
_PANEL_NODES, _PANEL_WEIGHTS = np.polynomial.legendre.leggauss(12)
_REACH, _MOST_PANELS = 12.0, 4000
_MOST_CUTS, _FIRST_PANELS = 44, 64
# A panel holds no more of a function's curvature than this, and integrates it to this.
_BENT, _INTEGRATED = 0.5, 1e-13
# Standard deviations of the noise that are tried first, as shares of the largest.
_SHARES = (1.0, 0.85, 0.7, 0.55, 0.4, 0.28, 0.2, 0.14, 0.1, 0.05, 0.02)
# Peaks that are looked at more closely, rounds, and the steps of scores and noise around them.
_PEAKS, _TRIED, _HIGH, _ROUNDS = 3, 2000, 0.95, 6
_STEPS, _NOISE_STEPS = np.linspace(-1.0, 1.0, 17), np.linspace(-1.0, 1.0, 9)
# Targets of a range that are tried first where the bias is no affine function of them, and steps around them.
_TARGETS_OF_RANGE, _TARGET_STEPS = 9, np.linspace(-1.0, 1.0, 5)
# Scores around the largest bias of a grid, and nodes of a rule while a larger one is looked for.
_FEW_STEPS, _NODES_OF_CLIMB = np.linspace(-1.0, 1.0, 9), 192


@dataclass(frozen=True)
class TargetNoise:
    """What the target may be, and what is seen in its place."""

    targets: tuple[float, ...]  # The values of the target to try.
    variance: float = 0.0  # Variance of Gaussian noise on the target.
    outcomes: tuple[float, ...] = ()  # The values that a finite channel gives out; empty without a channel.
    probabilities: tuple[tuple[float, ...], ...] = ()  # Their probabilities, a row for each target.
    joins: bool = False  # Whether the loss is of the residual, so that its noise adds to that of the score.
    between: bool = False  # Whether targets between those to try may have a larger bias.

    @property
    def of_range(self) -> "TargetNoise":
        """The same with more targets to try, where those between them may have a larger bias."""
        if not self.between:
            return self
        ends = min(self.targets), max(self.targets)
        return replace(self, targets=tuple(map(float, np.linspace(*ends, _TARGETS_OF_RANGE))))

    @property
    def joined(self) -> float:
        """The variance that it adds to the noise of the score."""
        return self.variance if self.joins else 0.0

    @property
    def apart(self) -> float:
        """The variance of noise on the target that is integrated over apart."""
        return 0.0 if self.joins else self.variance

    @classmethod
    def of(cls, loss: Loss, release: Release) -> "TargetNoise":
        """Return the target of a loss with the noise of a release, by values."""
        noise = release.target_noise
        if isinstance(noise, ChannelNoise):
            inputs = tuple(float(value) for value in noise.inputs)
            return cls(inputs, outcomes=tuple(map(float, noise.outputs)), probabilities=noise.matrix)
        targets = default_targets(loss.target_values, release.target_radius)
        return cls(targets, noise.variance if noise is not None else 0.0, between=loss.target_values is None)

    @property
    def seen(self) -> tuple[float, ...]:
        """What a channel gives out, or the targets themselves."""
        return self.outcomes or self.targets

    @property
    def shares(self) -> FloatArray:
        """The probability of what is `seen`, shape (targets, seen)."""
        return np.array(self.probabilities) if self.outcomes else np.eye(len(self.targets))

    def seen_of(self, target: float) -> dict[float, float]:
        """Return what is seen of a target, with its probability."""
        if not self.outcomes:
            return {target: 1.0}
        chances = self.probabilities[self.targets.index(target)]
        return {outcome: chance for outcome, chance in zip(self.outcomes, chances, strict=True) if chance != 0}


def default_targets(values: Sequence[float] | None, radius: float | None) -> tuple[float, ...]:
    """Return the target values to try: those declared, or a grid over the declared range."""
    if values is not None:
        return tuple(values)
    reach = 1.0 if radius is None else radius
    return tuple(float(value) for value in np.linspace(-reach, reach, _TARGETS))


@dataclass
class Biases:
    """The largest biases of a loss and its gradient, what they are relative to, and the error of the quadrature."""

    loss_bias: float = 0.0
    gradient_bias: float = 0.0
    loss_scale: float = 1.0
    gradient_scale: float = 1.0
    quadrature_error: float = 0.0

    @classmethod
    def unknown(cls) -> "Biases":
        """Return those of a correction that does not exist on the whole domain."""
        return cls(math.inf, math.inf, quadrature_error=math.nan)

    def include(self, **sizes: float) -> None:
        """Raise these to others where those are larger; what is no number counts as infinite."""
        for name, size in sizes.items():
            setattr(self, name, math.inf if math.isnan(size) else max(getattr(self, name), size))


@dataclass(frozen=True)
class ScoreFunctions:
    """A loss F(u, y) and its corrected form G(u, y), both of numbers only."""

    loss: Callable[[FloatArray, float], FloatArray]
    slope: Callable[[FloatArray, float], FloatArray]
    corrected: Callable[[FloatArray, FloatArray, float], FloatArray]
    corrected_slope: Callable[[FloatArray, FloatArray, float], FloatArray]
    corrected_curvature: Callable[[FloatArray, FloatArray, float], FloatArray]

    def include_scales(
        self, worst: Biases, scores: FloatArray, s: float, outcomes: Sequence[float], record_radius: float, norm: float
    ) -> None:
        """Raise what biases are relative to by the corrected loss at scores, shape (n, 1), with noise variance s.

        `outcomes` are the targets that are seen; a record has a norm up to `record_radius`, and its noise moves the
        gradient by up to `norm` times the curvature.
        """
        parts = (self.corrected, self.corrected_slope, self.corrected_curvature)
        for outcome in outcomes:
            at = np.full((1, 1), outcome)
            value, slope, curvature = (largest(np.abs(part(scores, at, s))) for part in parts)
            worst.include(loss_scale=value, gradient_scale=record_radius * slope + norm * curvature)


def score_functions(correction: Correction) -> ScoreFunctions:
    """Return the declared loss and the corrected one as numbers, for one score under normal noise."""
    derivation, program = correction.derivation, correction.program
    symbols = derivation.symbols
    u, y, s = program.scores[0], program.target, symbols.score_variance
    target_variance, gain = (sp.Float(value, 17) for value in derivation.constants["target"])
    constants = {symbols.target_variance: target_variance, symbols.gain: gain}
    numbers = derivation.constants.get("coefficients", np.zeros(0))
    constants |= {name: sp.Float(value, 17) for name, value in zip(program.coefficients, numbers, strict=True)}
    # In forms that do not overflow: the logarithm of a tail is not that of 0.
    declared = tight_derivative(correction.loss.expression, u, 0)
    corrected, slope = program.expression, program.slopes[0]
    if not correction.is_exact and correction.surrogates is None:
        corrected = tight_derivative(corrected, u, 0)
        slope = sp.diff(corrected, u)
    parts = (corrected, slope, -2 * sp.diff(corrected, s))
    return ScoreFunctions(
        numeric(declared, (u, y)),
        numeric(sp.diff(declared, u), (u, y)),
        *(_with_variance_last(numeric(part.xreplace(constants), (u, y, s))) for part in parts),
    )


def _with_variance_last(function: Callable[..., FloatArray]) -> Callable[..., FloatArray]:
    return lambda scores, target, variance: function(scores, target, np.full((1, 1), variance))


# What overflows counts as infinite, and so do differences of such.
@np.errstate(over="ignore", invalid="ignore")
def score_biases(
    functions: ScoreFunctions,
    *,
    score_bound: float,
    variance: float,
    record_radius: float,
    noise_norm: float,
    target_noise: TargetNoise,
    most_nodes: int = MOST_NODES,
    climbs: bool = False,
) -> Biases:
    """Return the largest biases of a corrected loss of one score, by quadrature over the noise.

    The gradient's bias splits in two: with e the noise of the score, the noise of the record is D theta e/s plus a part
    that is uncorrelated with e, so that

        E[x~ G_u - D theta K] - x F_u = x (E G_u - F_u) + D theta (E[e G_u]/s - E K).

    `score_bound` is that on |u|, `variance` the largest noise variance s of the score, tried with fractions of it,
    `record_radius` the bound on ||x||, and `noise_norm` that on ||D theta|| at the largest s. The rule has
    `most_nodes`: slow waves need a few hundred, however large they are and their rounding. `climbs` says that there are
    biases to be found, whose largest values are then looked for between the scores, targets and variances tried.
    """
    scores = np.linspace(-score_bound, score_bound, _SCORES)
    scene = _Quadrature(functions, variance, record_radius, noise_norm, target_noise)
    worst = Biases()
    fractions = np.linspace(1.0, 0.0, _VARIANCES, endpoint=False) if variance > 0 else np.zeros(1)
    targets = target_noise.targets
    table = np.array([scene.biases(scores, fraction, targets, worst, most_nodes) for fraction in fractions])
    for fraction in fractions:
        norm = noise_norm * math.sqrt(fraction)
        functions.include_scales(worst, scores[:, None], variance * fraction, target_noise.seen, record_radius, norm)
    for kind in (0, 1) if climbs else ():
        found = np.nan_to_num(table[:, :, kind], nan=0.0, posinf=0.0)
        level, target, place = np.unravel_index(np.argmax(found), found.shape)
        scene.climb(_Peak(scores[place], fractions[level], targets[target]), score_bound, kind, worst, most_nodes)
    return worst


@dataclass(frozen=True)
class _Peak:
    """Where a bias is large."""

    score: float
    noise: float  # Its standard deviation, or its variance as a share of the largest.
    target: float


@dataclass(frozen=True)
class _Quadrature:
    """What the bias at a score is made of, by a rule over the noise that is refined until it settles."""

    functions: ScoreFunctions
    variance: float
    record_radius: float
    noise_norm: float
    target_noise: TargetNoise

    def biases(
        self, scores: FloatArray, fraction: float, targets: tuple[float, ...], worst: Biases | None, most_nodes: int
    ) -> FloatArray:
        """Return the biases of some targets at scores, shape (targets, 2, scores), and raise the worst ones.

        The noise of the score has a fraction of the largest variance.
        """
        functions, noise = self.functions, self.target_noise
        norm = self.noise_norm * math.sqrt(fraction)
        noise = noise if targets == noise.targets else replace(noise, targets=targets)
        means, error = _settled_means(functions, scores[:, None], self.variance * float(fraction), noise, most_nodes)
        found = np.empty((len(targets), 2, len(scores)))
        for row, (target, mean) in enumerate(zip(targets, means, strict=True)):
            found[row, 0] = np.abs(mean[0] - functions.loss(scores, target))
            slope = np.abs(mean[1] - functions.slope(scores, target))
            found[row, 1] = self.record_radius * slope + norm * np.abs(mean[2] - mean[3])
        if worst is not None:
            worst.include(loss_bias=largest(found[:, 0]), gradient_bias=largest(found[:, 1]), quadrature_error=error)
        return found

    def climb(self, peak: _Peak, bound: float, kind: int, worst: Biases, most_nodes: int) -> None:
        """Look at the bias of the loss (kind 0) or of the gradient (1) around a peak, ever more closely."""
        targets = self.target_noise.targets
        reach, spread = 2 * bound / (_SCORES - 1), 1 / _VARIANCES if self.variance > 0 else 0.0
        width = targets[1] - targets[0] if self.target_noise.between else 0.0
        for _ in range(_ROUNDS):
            scores = np.unique(np.clip(peak.score + reach * _FEW_STEPS, -bound, bound))
            tried = np.array([peak.target])
            if width > 0:
                tried = np.unique(np.clip(peak.target + width * _TARGET_STEPS, targets[0], targets[-1]))
            found = self.biases(scores, peak.noise, tuple(tried.tolist()), None, _NODES_OF_CLIMB)[:, kind]
            row, place = np.unravel_index(np.argmax(np.nan_to_num(found, nan=0.0)), found.shape)
            score, target = scores[[place]], float(tried[row])
            shares = np.unique(np.clip(peak.noise + spread * _TARGET_STEPS, 0.0, 1.0)) if spread > 0 else [peak.noise]
            sizes = [float(self.biases(score, one, (target,), None, _NODES_OF_CLIMB)[0, kind, 0]) for one in shares]
            peak = _Peak(float(score[0]), float(shares[int(np.argmax(np.nan_to_num(sizes, nan=0.0)))]), target)
            # Steps stay as they are where the largest is at an end of them.
            inner = 0 < row < len(tried) - 1 or target in (targets[0], targets[-1]) or width == 0
            reach, width, spread = (reach / 2, width / 2, spread / 2) if inner else (reach, width, spread)
        self.biases(np.array([peak.score]), peak.noise, (peak.target,), worst, most_nodes)


def largest(sizes: FloatArray) -> float:
    """Return the largest of some sizes; what is no number counts as infinite."""
    return float(np.where(np.isnan(sizes), math.inf, sizes).max())


def _settled_means(
    functions: ScoreFunctions, scores: FloatArray, s: float, target_noise: TargetNoise, most_nodes: int
) -> tuple[FloatArray, float]:
    """Refine the rule until the means of every target move by less than rounding; return them and the last move."""
    # The rule's error falls like exp(-2 (pi nodes/(2 reach))^2) for entire functions: few nodes are enough for them.
    most = most_nodes if target_noise.apart == 0 else min(most_nodes, 1024)
    nodes, reach = 48, 9.0
    before, _ = _means(functions, scores, s, target_noise, nodes, reach)
    last = math.inf
    while True:
        # A wider rule with finer steps: both the tails and the steps must have settled.
        nodes, reach = 2 * nodes, reach * 1.15
        means, summed = _means(functions, scores, s, target_noise, nodes, reach)
        sizes = np.maximum(1.0, np.abs(means).max(axis=(1, 2)))
        moves = np.abs(means - before).max(axis=2)
        moved = float(np.max(moves.max(axis=1) / sizes))
        # The error falls faster than geometrically until rounding is left, which in a sum of large waves is more.
        rounding = (moved < _ROUNDING and moved > last / 4) or bool(np.all(moves <= _LEFT * summed))
        if moved < _SETTLED or rounding or nodes >= most:
            return means, moved
        before, last = means, moved


def _means(
    functions: ScoreFunctions, scores: FloatArray, s: float, target_noise: TargetNoise, nodes: int, reach: float
) -> tuple[FloatArray, FloatArray]:
    """Return E G, E G_u, E[e G_u]/s and E K at each score by the trapezoidal rule, shape (targets, 4, scores).

    With the noise r of a residual E[e G_u]/s = E[r G_u]/Var r.

    Second come the sums of the sizes of what was added up, the largest of any target and score for each of the four.
    """
    deviation = math.sqrt(s + target_noise.joined)
    t, weights = _normal_rule(nodes, reach) if deviation > 0 else (np.zeros(1), np.ones(1))
    if target_noise.apart > 0:
        t_target, target_weights = _normal_rule(nodes, reach)
    else:
        t_target, target_weights = np.zeros(1), np.ones(1)
    points = scores + deviation * t[None, :]
    found = np.zeros((len(target_noise.seen), 4, len(scores)))
    summed = np.zeros_like(found)
    for total, sizes, outcome in zip(found, summed, target_noise.seen, strict=True):
        for shift, weight in zip(t_target, target_weights, strict=True):
            noised = np.full((1, 1), outcome + math.sqrt(target_noise.apart) * shift)
            slope = _weighed(functions.corrected_slope(points, noised, s), weights)
            terms = [_weighed(functions.corrected(points, noised, s), weights), slope]
            if s > 0:
                # Without noise the last two are 0.
                terms += [
                    slope * (t / deviation),
                    _weighed(functions.corrected_curvature(points, noised, s), weights),
                ]
            for place, term in enumerate(terms):
                total[place] += weight * term.sum(axis=1)
                sizes[place] += weight * np.abs(term).sum(axis=1)
    shares = np.asarray(target_noise.shares)
    largest_sums = np.tensordot(np.abs(shares), summed, axes=1).max(axis=(0, 2))
    return np.tensordot(shares, found, axes=1), largest_sums


def _weighed(values: FloatArray, weights: FloatArray) -> FloatArray:
    # Far in the tails a weight of 1e-300 meets a value that overflowed: such nodes carry nothing.
    return np.where(weights[None, :] > 1e-250, values, 0.0) * weights[None, :]


def _normal_rule(nodes: int, reach: float) -> tuple[FloatArray, FloatArray]:
    t = np.linspace(-reach, reach, nodes + 1)
    return t, np.exp(-(t**2) / 2) / math.sqrt(2 * math.pi) * (t[1] - t[0])


# ---- by a search ------------------------------------------------------------------------------------------


# What overflows counts as infinite, and so do differences of such.
@np.errstate(over="ignore", invalid="ignore")
def searched_biases(
    functions: ScoreFunctions,
    enclosed: Callable[[float], Enclosed | None],
    *,
    score_bound: float,
    variance: float,
    record_radius: float,
    noise_norm: float,
    target_noise: TargetNoise,
) -> Biases:
    """Return the largest biases of a loss of one score that a search over scores and noise levels finds.

    The mean over the noise is taken by composite Gauss-Legendre rules, whose panels are cut until interval arithmetic
    shows that the loss hardly bends on one, and until halving it changes nothing: so kinks, narrow bumps and fast waves
    have panels of their own. The bias is looked at around each panel, at a range of noise levels, and then ever more
    closely around its highest peaks.

    `enclosed` returns the loss at a target with the ranges of its derivatives, or None where they are not known; the
    rest is as for `score_biases`, and the target has no normal noise but what joins that of the score.
    """
    deviation, noise = math.sqrt(variance), target_noise.of_range
    end = score_bound + _REACH * math.sqrt(variance + noise.joined)

    @functools.cache
    def panels(outcome: float) -> FloatArray:
        return _panels(functions, enclosed(outcome), outcome, variance, end)

    scene = _ScoreScene(functions, record_radius, noise_norm, deviation, noise, panels)
    inside = np.concatenate([*map(panels, noise.seen), [-score_bound, score_bound]])
    scores = np.unique(inside[np.abs(inside) <= score_bound])
    scores = np.unique(np.concatenate([scores, (scores[1:] + scores[:-1]) / 2]))
    worst = Biases()
    levels = np.array(_SHARES if variance > 0 else (0.0,))
    # The bias at each level, for the loss and the gradient of each target.
    table = np.array([scene.biases(scores, deviation * level, noise.targets, worst) for level in levels])
    for level in levels:
        s, norm = (deviation * level) ** 2, noise_norm * level
        functions.include_scales(worst, scores[:, None], s, noise.seen, record_radius, norm)
    step = np.maximum(np.gradient(scores) if len(scores) > 1 else np.zeros(1), 1e-9 * score_bound)
    for kind in (0, 1):
        for level, target, place in _peaks(table[:, :, kind], scores, float(step.max())):
            peak, width = _Peak(scores[place], deviation * levels[level], noise.targets[target]), step[place]
            if noise.between:
                peak, moved = scene.between(
                    peak, score_bound, kind, panels=lambda y: _panels(functions, None, y, variance, end)
                )
                width = max(width, moved)
            scene.climb(peak, width, score_bound, kind, worst)
    return worst


@dataclass(frozen=True)
class _ScoreScene:
    """What the bias at a score is made of."""

    functions: ScoreFunctions
    record_radius: float
    noise_norm: float
    deviation: float
    target_noise: TargetNoise
    panels: Callable[[float], FloatArray]  # The panels of the rule for a target that is seen.

    def biases(
        self, scores: FloatArray, deviation: float, targets: Sequence[float], worst: Biases | None
    ) -> FloatArray:
        """Return the biases of some targets at rising scores, shape (targets, 2, scores); raise the worst ones."""
        functions, s, noise = self.functions, deviation**2, self.target_noise
        norm = self.noise_norm * (deviation / self.deviation if self.deviation > 0 else 0.0)
        seen = [noise.seen_of(target) for target in targets]
        means = {
            outcome: _score_means(functions, outcome, s, scores, self.panels(outcome), noise.joined)
            for outcome in dict.fromkeys(outcome for one in seen for outcome in one)
        }
        found = np.empty((len(targets), 2, len(scores)))
        for row, (target, chances) in enumerate(zip(targets, seen, strict=True)):
            mean = np.sum([chance * means[outcome] for outcome, chance in chances.items()], axis=0)
            found[row, 0] = np.abs(mean[0] - functions.loss(scores, target))
            slope = self.record_radius * np.abs(mean[1] - functions.slope(scores, target))
            found[row, 1] = slope + norm * np.abs(mean[2] - mean[3])
        if worst is not None:
            worst.include(loss_bias=largest(found[:, 0]), gradient_bias=largest(found[:, 1]))
            for mean in means.values():
                worst.include(quadrature_error=largest(mean[4]))
        return found

    def between(
        self, peak: _Peak, bound: float, kind: int, *, panels: Callable[[float], FloatArray]
    ) -> tuple[_Peak, float]:
        """Return where the bias of the loss (kind 0) or of the gradient (1) is largest around a peak, of any target.

        The number is how far off the score may still be.
        `panels` are found without interval arithmetic, whose expressions take long to make for each target.
        """
        rough, targets = replace(self, panels=functools.cache(panels)), self.target_noise.targets
        width = targets[1] - targets[0]
        reach = width
        for _ in range(_ROUNDS):
            scores = np.unique(np.clip(peak.score + reach * _STEPS, -bound, bound))
            tried = np.unique(np.clip(peak.target + width * _TARGET_STEPS, targets[0], targets[-1]))
            found = np.nan_to_num(rough.biases(scores, peak.noise, tried.tolist(), None)[:, kind], nan=math.inf)
            row, place = np.unravel_index(np.argmax(found), found.shape)
            peak = _Peak(float(scores[place]), peak.noise, float(tried[row]))
            # Both steps as they are where the largest is at an end of them.
            inner = 0 < row < len(tried) - 1 or tried[row] in (targets[0], targets[-1])
            width, reach = (width / 2, reach / 2) if inner else (width, reach)
        return peak, reach

    def climb(self, peak: _Peak, step: float, bound: float, kind: int, worst: Biases) -> None:
        """Look at the bias of the loss (kind 0) or of the gradient (1) around a peak, ever more closely."""
        score, deviation, target = peak.score, peak.noise, peak.target
        spread, noise_steps = 0.3 * deviation, _NOISE_STEPS
        for _ in range(_ROUNDS):
            scores = np.unique(np.clip(score + step * _STEPS, -bound, bound))
            tried = np.unique(np.clip(deviation + spread * noise_steps, 0.0, self.deviation))
            found = np.array([self.biases(scores, level, [target], worst)[0, kind] for level in tried])
            level, place = np.unravel_index(np.argmax(np.nan_to_num(found, nan=math.inf)), found.shape)
            score, deviation = float(scores[place]), float(tried[level])
            step, spread = step / 4, spread / 4
            # Under the most noise there is a bias that rises with it.
            noise_steps = np.array([-1.0, 0.0]) if deviation == self.deviation else _NOISE_STEPS


def _score_means(
    functions: ScoreFunctions, outcome: float, s: float, scores: FloatArray, edges: FloatArray, joined: float
) -> FloatArray:
    """Return E G, E G_u, E[e G_u]/s and E K at rising scores, and by how much the mean of 1 is off; shape (5, n).

    `joined` is the variance of noise of the target that adds to that of the score, s.
    """
    target = np.full((1, 1), outcome)
    parts = (functions.corrected, functions.corrected_slope, functions.corrected_curvature)
    if s + joined == 0:
        value, slope, _ = (part(scores[:, None], target, s)[:, 0] for part in parts)
        zero = np.zeros(len(scores))
        return np.stack([value, slope, zero, zero, zero])
    deviation = math.sqrt(s + joined)
    points, weights = _composite(edges, scores[0] - _REACH * deviation, scores[-1] + _REACH * deviation, deviation)
    columns = [part(points[:, None], target, s)[:, 0] for part in parts]
    value, slope, curvature = (np.where(weights > 0, column, 0.0) for column in columns)
    found = np.empty((5, len(scores)))
    for first in range(0, len(scores), 64):
        here = scores[first : first + 64]
        low, high = np.searchsorted(points, [here[0] - _REACH * deviation, here[-1] + _REACH * deviation])
        t = (points[low:high] - here[:, None]) / deviation
        density = np.exp(-(t**2) / 2) * (weights[low:high] / (deviation * math.sqrt(2 * math.pi)))
        # Far out a density that is next to nothing meets a value that overflowed: such nodes carry nothing.
        density[density < 1e-250] = 0.0
        with np.errstate(invalid="ignore", over="ignore"):
            found[0, first : first + 64] = _summed(density, value[low:high])
            found[1, first : first + 64] = _summed(density, slope[low:high])
            found[2, first : first + 64] = _summed(density * t / deviation, slope[low:high])
            found[3, first : first + 64] = _summed(density, curvature[low:high])
        found[4, first : first + 64] = np.abs(density.sum(axis=1) - 1)
    return found


def _summed(density: FloatArray, values: FloatArray) -> FloatArray:
    finite = np.isfinite(values)
    total: FloatArray = density @ np.where(finite, values, 0.0)
    # What is no number where there is noise leaves no mean.
    return total if finite.all() else np.where((density[:, ~finite] != 0).any(axis=1), math.nan, total)


def _composite(edges: FloatArray, low: float, high: float, widest: float) -> tuple[FloatArray, FloatArray]:
    """Return the nodes and weights of Gauss-Legendre rules on panels between two numbers, cut to a width."""
    inside = np.unique(np.clip(np.concatenate([edges, [low, high]]), low, high))
    pieces = np.maximum(1, np.ceil(np.diff(inside) / widest)).astype(int)
    starts = np.repeat(inside[:-1], pieces)
    widths = np.repeat(np.diff(inside) / pieces, pieces)
    order = np.arange(len(starts)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    t, w = _PANEL_NODES, _PANEL_WEIGHTS
    middles = starts + widths * (order + 0.5)
    return (middles[:, None] + widths[:, None] / 2 * t).ravel(), (widths[:, None] / 2 * w).ravel()


def _panels(functions: ScoreFunctions, enclosed: Enclosed | None, outcome: float, s: float, end: float) -> FloatArray:
    """Return the edges of panels on each of which loss and corrected loss are next to polynomials."""
    target = np.full((1, 1), outcome)
    t, w = _PANEL_NODES, _PANEL_WEIGHTS
    edges = np.linspace(-end, end, _FIRST_PANELS + 1)
    low, high = edges[:-1], edges[1:]
    kept: list[FloatArray] = [edges]

    def integrals(low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        points = (low + high)[:, None] / 2 + (high - low)[:, None] / 2 * t
        values = [
            functions.loss(points, outcome), functions.slope(points, outcome), functions.corrected(points, target, s),
            functions.corrected_slope(points, target, s),
        ]  # fmt: skip
        sizes = np.array([1 + np.abs(value).max(axis=1) for value in values])
        return np.array([(high - low) / 2 * (value @ w) for value in values]), sizes

    for _ in range(_MOST_CUTS):
        middle = (low + high) / 2
        with np.errstate(all="ignore"):
            whole, sizes = integrals(low, high)
            change = np.abs(whole - integrals(low, middle)[0] - integrals(middle, high)[0])
            # Where numbers overflow there is nothing to be had from cutting.
            cut = np.any(change > _INTEGRATED * end * sizes, axis=0) & np.all(np.isfinite(sizes), axis=0)
            if enclosed is not None:
                cells = Range(low, high)
                bends, slopes = enclosed.curvatures(cells), enclosed.slopes(cells)
                rest = np.minimum((bends.high - bends.low) * (high - low), slopes.high - slopes.low) * (high - low)
                cut |= (rest > _BENT * sizes[0]) & np.isfinite(sizes[0])
        cut &= (middle > low) & (middle < high) & (high - low > 1e-13 * end)
        if not cut.any() or sum(map(len, kept)) + int(cut.sum()) > _MOST_PANELS:
            break
        kept.append(middle[cut])
        low, high = np.concatenate([low[cut], middle[cut]]), np.concatenate([middle[cut], high[cut]])
    return np.unique(np.concatenate(kept))


def _peaks(table: FloatArray, scores: FloatArray, width: float) -> list[tuple[int, int, int]]:
    """Return the places (level, target, score) of the highest biases that are apart from one another in the score."""
    sizes = np.where(np.isfinite(table), table, 0.0)
    top = float(sizes.max())
    found: list[tuple[int, int, int]] = []
    for flat in np.argsort(-sizes, axis=None)[:_TRIED]:
        level, target, place = (int(index) for index in np.unravel_index(flat, sizes.shape))
        if len(found) == _PEAKS or sizes[level, target, place] < _HIGH * top:
            break
        if all(target != other or abs(scores[place] - scores[near]) > 2 * width for _, other, near in found):
            found.append((level, target, place))
    return found
