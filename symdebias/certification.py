"""Certify any corrected loss by its kernels: means over the noise of every column, by quadrature and enumeration.

Losses of one score under normal noise have a certificate over a whole range of scores: exact corrections and
surrogates in `transforms.certificate`, what is left as it stands or corrected by a series by a search here. For all
others the mean over the noise is taken column by column at points spread over the domain, with the compiled kernels
themselves on one side and the declared loss on the other.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp

from symdebias.bounds.enclosures import Enclosed
from symdebias.bounds.intervals import Range
from symdebias.codegen import stable
from symdebias.codegen.kernels import Kernels
from symdebias.codegen.numeric import numeric
from symdebias.derivation import Derivation
from symdebias.exceptions import NoExactCorrectionError
from symdebias.losses import Loss
from symdebias.noise import AdditiveNoise, ChannelNoise
from symdebias.release import Release
from symdebias.transforms import quadrature
from symdebias.transforms.certificate import ScoreProblem, TargetNoise, default_targets, largest
from symdebias.transforms.quadrature import Rule

FloatArray = np.ndarray[Any, np.dtype[np.float64]]

_POINTS = 24
# Columns with additive noise that are integrated over at once; the other columns have parameter 0 at that point.
_MOST_DIMENSIONS = 3
_MOST_FEATURES = 5
_MOST_NODES = 400_000
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


@dataclass(frozen=True)
class Records:
    """One true record seen through the noise: released records with their probabilities.

    Attributes
    ----------
    X : array of shape (m, p), float64
        Released columns, codes of categories.
    y : array of shape (m,), float64
        Released targets (codes of a channel's outputs).
    weights : array of shape (m,), float64
        Their weights, which sum to 1.
    """

    X: FloatArray
    y: FloatArray
    weights: FloatArray


def released_records(
    release: Release,
    record: FloatArray,
    target: float,
    *,
    nodes: int,
    active: FloatArray | None = None,
    scales: FloatArray | None = None,
    noise_on: tuple[bool, bool] = (True, True),
) -> Records:
    """Return what a true record may look like once released.

    Parameters
    ----------
    release : Release
        The release.
    record : array of shape (p,), float64
        The true columns; codes for categories.
    target : float
        The true target; its value, or the code of it for a channel.
    nodes : int
        Nodes per column with additive noise.
    active : array of shape (p,), bool, optional
        Columns to integrate over; the others keep their true value.
    scales : array of shape (p,), float64, optional
        Standard deviations of this record's own for columns with normal noise.
    noise_on : pair of bool
        Whether the features and whether the target are noised.
    """
    count = len(record)
    parts: list[Rule] = []
    places: list[tuple[slice, bool]] = []
    for place, noise in release.noises(count) if noise_on[0] else ():
        if isinstance(noise, ChannelNoise):
            parts.append(quadrature.channel_rule(noise, int(record[place.start])))
            places.append((place, True))
            continue
        columns = range(place.start, place.stop)
        if noise.covariance is not None and scales is None:
            parts.append(quadrature.rule(noise, place.stop - place.start, nodes))
            places.append((place, False))
            continue
        for column in columns:
            if active is not None and not active[column]:
                continue
            one = quadrature.rule(noise if noise.covariance is None else _unit(noise), 1, nodes)
            if scales is not None and noise.is_gaussian:
                one = Rule(one.points * (scales[column] / math.sqrt(noise.variance)), one.weights)
            parts.append(one)
            places.append((slice(column, column + 1), False))
    target_noise = release.target_noise if noise_on[1] else None
    if isinstance(target_noise, ChannelNoise):
        parts.append(quadrature.channel_rule(target_noise, int(target)))
    elif target_noise is not None:
        parts.append(quadrature.rule(target_noise, 1, nodes))
    whole = quadrature.product(parts)
    X = np.tile(record, (len(whole.weights), 1))
    position = 0
    for place, replaced in places:
        width = place.stop - place.start
        values = whole.points[:, position : position + width]
        X[:, place] = values if replaced else X[:, place] + values
        position += width
    y = np.full(len(whole.weights), float(target))
    if isinstance(target_noise, ChannelNoise):
        y = whole.points[:, position]
    elif target_noise is not None:
        y = y + whole.points[:, position]
    return Records(X, y, whole.weights)


def _unit(noise: AdditiveNoise) -> AdditiveNoise:
    return AdditiveNoise(noise.variance, noise.characteristic_function)


@dataclass(frozen=True)
class DeclaredLoss:
    """The declared loss and its gradient as functions of a true record, by NumPy alone.

    Attributes
    ----------
    loss : Loss
        The loss.
    release : Release
        The release, for the design of a record.
    """

    loss: Loss
    release: Release

    def functions(self) -> tuple[Callable[..., FloatArray], list[Callable[..., FloatArray]]]:
        """Return the loss and its derivatives by the scores, or by the parameters of a free-form loss."""
        declared = self.loss
        by = declared.scores or declared.parameters
        arguments = (*(declared.scores or (*declared.features, *declared.parameters)), declared.target)
        # Before it is differentiated, so that no derivative is 0/0 in a tail.
        expression = stable.rewrite(declared.expression)
        return (
            numeric(expression, arguments),
            [numeric(sp.diff(expression, symbol), arguments) for symbol in by],
        )

    def rows(self, X: FloatArray) -> FloatArray:
        """Return the rows of the design of true records, shape (n, q); codes for categories."""
        design = self.release.design(X.shape[1])
        rows = np.zeros((len(X), len(design.parameters)))
        for part in design.linear:
            rows[:, part.parameter] = X[:, part.column]
        for column in design.categorical:
            for code, entries in enumerate(column.entries):
                here = X[:, column.column] == code
                for place, value in entries:
                    rows[here, place] = value
        if design.intercept:
            rows[:, -1] = 1.0
        return rows

    def features(self, X: FloatArray) -> FloatArray:
        """Return the features of a free-form loss: categories as their numbers."""
        values = X.copy()
        for place, noise in self.release.noises(X.shape[1]):
            if isinstance(noise, ChannelNoise):
                values[:, place.start] = np.array(noise.inputs)[X[:, place.start].astype(int)]
        return values

    def arguments(self, theta: FloatArray, X: FloatArray, y: FloatArray) -> tuple[Any, ...]:
        """Return what the functions take, for records in the rows of X."""
        if self.loss.scores:
            scores = self.rows(X) @ theta.reshape(len(self.loss.scores), -1).T
            return (*scores.T, y)
        return (*self.features(X).T, *theta, y)

    def target(self, code: float) -> float:
        """Return the value of the target with a code."""
        noise = self.release.target_noise
        return float(noise.inputs[int(code)]) if isinstance(noise, ChannelNoise) else float(code)

    def gradient(self, slopes: list[FloatArray], X: FloatArray) -> FloatArray:
        """Return the gradient of records out of the derivatives that `functions` gives, shape (n, parameters)."""
        stacked = np.stack([np.broadcast_to(slope, (len(X),)) for slope in slopes], axis=1)
        if not self.loss.scores:
            return stacked
        return (stacked[:, :, None] * self.rows(X)[:, None, :]).reshape(len(X), -1)


def true_targets(declared: Loss, release: Release) -> tuple[float, ...]:
    """Return the targets to try, as codes where a channel noises them."""
    noise = release.target_noise
    if isinstance(noise, ChannelNoise):
        return tuple(float(code) for code in range(len(noise.inputs)))
    return default_targets(declared.target_values, release.target_radius)


def kernel_biases(
    declared: Loss,
    release: Release,
    derivation: Derivation,
    kernels: Kernels,
    data: Callable[[FloatArray, FloatArray], tuple[FloatArray, FloatArray]],
    noise: FloatArray,
    *,
    columns: int,
    record_radius: float,
    theta_radius: float,
) -> dict[str, float]:
    """Return the largest biases of a corrected loss at points spread over the domain.

    Parameters
    ----------
    declared, release, derivation, kernels
        The loss, the noise, and what was derived and compiled.
    data : callable
        Makes the kernels' data of released columns and targets (codes where there are categories).
    noise : array
        The kernels' vector of noise.
    columns : int
        The number of columns of X.
    record_radius, theta_radius : float
        Bounds on ||x|| and ||theta||.

    Returns
    -------
    dict
        ``loss_bias``, ``gradient_bias``, ``loss_scale``, ``gradient_scale``, ``quadrature_error``.
    """
    truth = DeclaredLoss(declared, release)
    function, slopes = truth.functions()
    # The points are the same every time: a certificate is a statement about them.
    rng = np.random.default_rng(0)
    size = derivation.program.number_of_parameters
    worst = {"loss_bias": 0.0, "gradient_bias": 0.0, "loss_scale": 1.0, "gradient_scale": 1.0}
    worst["quadrature_error"] = 0.0
    mean_loss, mean_gradient = kernels.mean_loss(weighted=True), kernels.mean_gradient(weighted=True)
    targets = true_targets(declared, release)
    channel = release.target_noise if isinstance(release.target_noise, ChannelNoise) else None
    shares = np.ones((1, 1)) if channel is None else np.array(channel.matrix)
    for point in range(_POINTS):
        record = _record(rng, release, columns, record_radius)
        theta = _into_ball(rng.uniform(-1, 1, size), theta_radius)
        active = _active(rng, release, columns, every=not declared.scores)
        _silence(theta, active, declared, release, columns)
        # One target of a continuum; where a channel noises it, all of them by what it gives out.
        tried = np.array(targets if channel is not None else [targets[point % len(targets)]], dtype=float)
        values = np.array([truth.target(target) for target in tried])
        arguments = truth.arguments(theta, np.tile(record, (len(values), 1)), values)
        wanted = np.broadcast_to(function(*arguments), values.shape)
        gradient = truth.gradient([slope(*arguments) for slope in slopes], np.tile(record, (len(values), 1)))
        found = []
        for nodes in _nodes(release, active, columns):
            seen = released_records(
                release, record, float(tried[0]), nodes=nodes, active=active, noise_on=(True, channel is None)
            )
            means = []
            for code in range(shares.shape[1]):
                y = seen.y if channel is None else np.full(len(seen.y), float(code))
                X, y = data(seen.X, y)
                out = np.zeros(size)
                total = float(seen.weights.sum())
                mean = float(mean_loss(theta, X, y, seen.weights, total, noise))
                mean_gradient(theta, X, y, seen.weights, total, noise, out)
                means.append(np.append(mean, out))
            found.append(shares @ np.array(means))
        for index, (coarse, fine) in enumerate(zip(*found, strict=True)):
            size_of_all = (float(np.abs(fine).max()), float(np.abs(gradient[index]).max()), abs(float(wanted[index])))
            scale = max(1.0, *size_of_all)
            for name, size_of in (
                ("loss_scale", scale),
                ("gradient_scale", scale),
                ("loss_bias", abs(float(fine[0] - wanted[index]))),
                ("gradient_bias", float(np.linalg.norm(fine[1:] - gradient[index]))),
                ("quadrature_error", float(np.max(np.abs(fine - coarse) / scale))),
            ):
                # NaN compares as false: what is no number counts as infinite.
                worst[name] = max(worst[name], size_of) if size_of == size_of else math.inf
    return worst


# ---- one score under normal noise, uncorrected or by a series -------------------------------------------------------


def searched_biases(
    problem: ScoreProblem,
    enclosed: Callable[[float], Enclosed | None],
    *,
    score_bound: float,
    variance: float,
    record_radius: float,
    noise_norm: float,
    target_noise: TargetNoise,
) -> dict[str, float]:
    """Return the largest biases of a loss of one score that a search over scores and noise levels finds.

    The mean over the noise is taken by composite Gauss-Legendre rules, whose panels are cut until interval arithmetic
    shows that the loss hardly bends on one, and until halving it changes nothing: so kinks, narrow bumps and fast waves
    have panels of their own. The bias is looked at around each panel, at a range of noise levels, and then ever more
    closely around its highest peaks.

    Parameters
    ----------
    problem, score_bound, variance, record_radius, noise_norm, target_noise
        As for `transforms.certificate.score_biases`; the target has no normal noise.
    enclosed : callable
        Returns the loss at a target with the ranges of its derivatives, or None where they are not known.

    Returns
    -------
    dict
        ``loss_bias``, ``gradient_bias``, ``loss_scale``, ``gradient_scale``, ``quadrature_error``.
    """
    deviation = math.sqrt(variance)
    end = score_bound + _REACH * deviation
    scene = _ScoreScene(problem, record_radius, noise_norm, deviation, target_noise)
    panels = [_panels(problem, enclosed(y), y, variance, end) for y in target_noise.seen]
    inside = np.concatenate([*panels, [-score_bound, score_bound]])
    scores = np.unique(inside[np.abs(inside) <= score_bound])
    scores = np.unique(np.concatenate([scores, (scores[1:] + scores[:-1]) / 2]))
    worst = {"loss_bias": 0.0, "gradient_bias": 0.0, "loss_scale": 1.0, "gradient_scale": 1.0, "quadrature_error": 0.0}
    levels = np.array(_SHARES if variance > 0 else (0.0,))
    # The bias at each level, for the loss and the gradient of each target.
    table = np.array([scene.biases(scores, deviation * level, panels, worst) for level in levels])
    step = np.maximum(np.gradient(scores) if len(scores) > 1 else np.zeros(1), 1e-9 * score_bound)
    for kind in (0, 1):
        for level, target, place in _peaks(table[:, :, kind], scores, float(step.max())):
            scene.climb(
                (scores[place], deviation * levels[level], step[place]), score_bound, target, kind, panels, worst
            )
    return worst


@dataclass(frozen=True)
class _ScoreScene:
    """What the bias at a score is made of."""

    problem: ScoreProblem
    record_radius: float
    noise_norm: float
    deviation: float
    target_noise: TargetNoise

    def biases(
        self,
        scores: FloatArray,
        deviation: float,
        panels: list[FloatArray],
        worst: dict[str, float],
        *,
        target: int | None = None,
    ) -> FloatArray:
        """Return the biases at rising scores, shape (targets, 2, scores); raise the worst ones.

        Of all targets, or of one of them.
        """
        problem, s, noise = self.problem, deviation**2, self.target_noise
        norm = self.noise_norm * (deviation / self.deviation if self.deviation > 0 else 0.0)
        places = range(len(noise.targets)) if target is None else [target]
        shares = noise.shares[list(places)]
        means: dict[int, FloatArray] = {}
        for place in np.flatnonzero((shares != 0).any(axis=0)).tolist():
            means[place] = _score_means(problem, noise.seen[place], s, scores, panels[place])
        found = np.empty((len(shares), 2, len(scores)))
        for row, (place, share) in enumerate(zip(places, shares, strict=True)):
            mean = sum(share[outcome] * of for outcome, of in means.items() if share[outcome] != 0)
            found[row, 0] = np.abs(mean[0] - problem.loss(scores, noise.targets[place]))
            slope = self.record_radius * np.abs(mean[1] - problem.slope(scores, noise.targets[place]))
            found[row, 1] = slope + norm * np.abs(mean[2] - mean[3])
        worst["loss_bias"] = max(worst["loss_bias"], largest(found[:, 0]))
        worst["gradient_bias"] = max(worst["gradient_bias"], largest(found[:, 1]))
        worst["quadrature_error"] = max(worst["quadrature_error"], *(largest(of[4]) for of in means.values()))
        if target is None:
            self._scales(scores, s, norm, worst)
        return found

    def _scales(self, scores: FloatArray, s: float, norm: float, worst: dict[str, float]) -> None:
        problem = self.problem
        for outcome in self.target_noise.seen:
            at = np.full((1, 1), outcome)
            parts = (problem.corrected, problem.corrected_slope, problem.corrected_curvature)
            value, slope, curvature = (largest(np.abs(part(scores[:, None], at, s))) for part in parts)
            worst["loss_scale"] = max(worst["loss_scale"], value)
            worst["gradient_scale"] = max(worst["gradient_scale"], self.record_radius * slope + norm * curvature)

    def climb(
        self,
        centre: tuple[float, float, float],
        bound: float,
        target: int,
        kind: int,
        panels: list[FloatArray],
        worst: dict[str, float],
    ) -> None:
        """Look at the bias of the loss (kind 0) or of the gradient (1) around a peak, ever more closely."""
        score, deviation, step = centre
        spread, noise_steps = 0.3 * deviation, _NOISE_STEPS
        for _ in range(_ROUNDS):
            scores = np.unique(np.clip(score + step * _STEPS, -bound, bound))
            tried = np.unique(np.clip(deviation + spread * noise_steps, 0.0, self.deviation))
            found = np.array([self.biases(scores, level, panels, worst, target=target)[0, kind] for level in tried])
            level, place = np.unravel_index(np.argmax(np.nan_to_num(found, nan=math.inf)), found.shape)
            score, deviation = float(scores[place]), float(tried[level])
            step, spread = step / 4, spread / 4
            # Under the most noise there is a bias that rises with it.
            noise_steps = np.array([-1.0, 0.0]) if deviation == self.deviation else _NOISE_STEPS


def _score_means(problem: ScoreProblem, outcome: float, s: float, scores: FloatArray, edges: FloatArray) -> FloatArray:
    """Return E G, E G_u, E[e G_u]/s and E K at rising scores, and by how much the mean of 1 is off; shape (5, n)."""
    target = np.full((1, 1), outcome)
    parts = (problem.corrected, problem.corrected_slope, problem.corrected_curvature)
    if s == 0:
        value, slope, _ = (part(scores[:, None], target, s)[:, 0] for part in parts)
        zero = np.zeros(len(scores))
        return np.stack([value, slope, zero, zero, zero])
    deviation = math.sqrt(s)
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


def _panels(problem: ScoreProblem, enclosed: Enclosed | None, outcome: float, s: float, end: float) -> FloatArray:
    """Return the edges of panels on each of which loss and corrected loss are next to polynomials."""
    target = np.full((1, 1), outcome)
    t, w = _PANEL_NODES, _PANEL_WEIGHTS
    edges = np.linspace(-end, end, _FIRST_PANELS + 1)
    low, high = edges[:-1], edges[1:]
    kept: list[FloatArray] = [edges]

    def integrals(low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        points = (low + high)[:, None] / 2 + (high - low)[:, None] / 2 * t
        values = [
            problem.loss(points, outcome), problem.slope(points, outcome), problem.corrected(points, target, s),
            problem.corrected_slope(points, target, s),
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


# ---- points spread over the domain ----------------------------------------------------------------------------------


def _record(rng: np.random.Generator, release: Release, columns: int, radius: float) -> FloatArray:
    """Return a true record within the bounds: numbers in the ball, codes, steps of a grid."""
    record = _into_ball(rng.uniform(-1, 1, columns), radius)
    for place, noise in release.noises(columns):
        if isinstance(noise, ChannelNoise):
            record[place] = float(rng.integers(len(noise.inputs)))
        elif noise.step is not None:
            record[place] = np.round(record[place] / noise.step) * noise.step
    return record


def _into_ball(point: FloatArray, radius: float) -> FloatArray:
    """Map a point of [-1, 1]^d into the ball along its ray."""
    norm = float(np.linalg.norm(point))
    result: FloatArray = point * (radius * float(np.abs(point).max()) / norm) if norm > 0 else point
    return result


def _active(rng: np.random.Generator, release: Release, columns: int, *, every: bool) -> FloatArray:
    """Return which columns with additive noise take part at a point: few enough for a product rule.

    Raises
    ------
    NoExactCorrectionError
        Every column must take part, and there are too many.
    """
    active = np.zeros(columns, dtype=bool)
    candidates: list[int] = []
    for place, noise in release.noises(columns):
        if isinstance(noise, AdditiveNoise):
            if noise.covariance is not None:
                active[place] = True
            else:
                candidates += range(place.start, place.stop)
    if every:
        if len(candidates) + int(active.sum()) > _MOST_FEATURES:
            raise NoExactCorrectionError(
                f"the certificate integrates over {len(candidates)} noised columns at once, which its product rule "
                f"does not reach. It covers up to {_MOST_FEATURES}; write the loss in scores if it depends on the "
                "features through linear predictors."
            )
        active[candidates] = True
        return active
    chosen = rng.permutation(candidates).astype(int)
    room = max(0, _MOST_DIMENSIONS - int(active.sum()))
    while room > 1 and _size(release, chosen[:room], columns) > _MOST_NODES / 4:
        room -= 1
    active[chosen[:room]] = True
    return active


def _size(release: Release, chosen: FloatArray, columns: int) -> int:
    """Return how many points a rule of moderate accuracy has over some columns."""
    size = 1
    for place, noise in release.noises(columns):
        if isinstance(noise, ChannelNoise):
            size *= len(noise.outputs)
        else:
            inside = int(np.count_nonzero((chosen >= place.start) & (chosen < place.stop)))
            size *= len(quadrature.one_dimensional(noise, 16)[1]) ** inside if noise.covariance is None else 1
    return size


def _silence(theta: FloatArray, active: FloatArray, declared: Loss, release: Release, columns: int) -> None:
    """Set the parameters of columns that are not integrated over to 0, of a loss in scores."""
    if not declared.scores:
        return
    rows = theta.reshape(len(declared.scores), -1)
    for part in release.design(columns).linear:
        if part.noise is not None and not active[part.column]:
            rows[:, part.parameter] = 0.0


def _nodes(release: Release, active: FloatArray, columns: int) -> tuple[int, int]:
    """Return the nodes of a coarse and of a fine rule that keep the product within bounds."""
    fixed = 1
    dimensions: list[AdditiveNoise] = []
    for place, noise in release.noises(columns):
        if isinstance(noise, ChannelNoise):
            fixed *= len(noise.outputs)
        else:
            dimensions += [noise] * int(active[place].sum())
    target = release.target_noise
    if isinstance(target, ChannelNoise):
        fixed *= len(target.outputs)
    elif target is not None:
        dimensions.append(target)
    for nodes in (64, 48, 40, 32, 28, 24, 20, 18, 16, 14, 12, 10, 8, 7):
        size = fixed * math.prod(len(quadrature.one_dimensional(noise, nodes)[1]) for noise in dimensions)
        if size <= _MOST_NODES:
            break
    return nodes - max(1, nodes // 10), nodes
