"""The design of a surrogate for a distribution of scores: as close to the loss as a few per cent of variance buy."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from symdebias._arrays import FloatArray
from symdebias.corrected import CorrectedLoss
from symdebias.derivation import SurrogateParts
from symdebias.exceptions import DivergenceError, NoExactCorrectionError
from symdebias.inference import critical_value
from symdebias.release.design import ColumnDesign
from symdebias.solvers.metric import inverse_root
from symdebias.transforms import surrogate
from symdebias.transforms.polynomial import PolynomialScene
from symdebias.transforms.surrogate import Scores
from symdebias.transforms.waves import Scene
from symdebias.zonal import ZonalNoise

# Sizes of a design, what the squared error counts in it beside the variance, and what the shared errors do: squared
# errors of either sign average out over scores in part, shared ones do not.
_WAVES = (12, 24, 48)
_DIALS = (0.005, 0.05, 0.5, 5.0)
_SHARED = 5.0
# More variance than this buys no smaller bound on the bias: the design with the least dial is next to the best in mean
# squared error. Where its bias may be so many standard errors, more may be spent; and where that makes the interval so
# much shorter that its length times the variance is this share of what it was.
_DEAREST, _HEAVILY_BIASED, _DEAREST_WHERE_BIASED = 1.05, 3.0, 3.0
_MUCH_SHORTER = 0.75
# What the relative variance of the mean curvature counts: at a fifth of the curvature intervals no longer cover.
_UNCERTAIN_CURVATURE = 50.0
# A bound on the bias of less than this many standard errors is as good as none.
_NEGLIGIBLE = 0.15
# Two standard errors of a score times the root of the number of records, in units in which a loss bends within one:
# those of the log loss at 0.
_KNOWN_TO = 4.0
# How many scores of either sign stand for what one may be.
_NODES = 4
# Probabilities of scores beyond the ranges that are tried.
_OUTSIDE = (1e-2, 1e-3, 0.0)
# The range that a design states its largest errors on leaves out this much of the scores.
STATED_OUTSIDE = 1e-3
# Designs have fourth powers of slopes in them.
_STEEPEST = 1e60
# Squares between these are numbers.
_LEAST_MEAN, _LARGEST_MEAN = 1e-150, 1e150


def targets_of(corrected: CorrectedLoss, target: FloatArray, chances: FloatArray | None = None) -> tuple[float, ...]:
    """Return values of the target that errors are looked at with: those declared, or a spread about the mean.

    Parameters
    ----------
    corrected : CorrectedLoss
        The loss.
    target : array of shape (n,), float64
        Targets.
    chances : array of shape (n,), float64, optional
        Their weights, which sum to 1.
    """
    if corrected.surrogate_parts.is_residual:
        return (0.0,)
    values = corrected.shown.loss.target_values
    if values is not None:
        return values
    middle = float(np.average(target, weights=chances))
    spread = math.sqrt(float(np.average((target - middle) ** 2, weights=chances)))
    return (middle - spread, middle + spread)


def share_of_noise(metric: FloatArray, noise: FloatArray) -> float:
    """Return the mean share of noise in the second moments of released records, below 1.

    What noise adds to a record it adds to the covariance of a gradient.
    """
    root = inverse_root(metric)
    share = float(np.sum(root * (noise @ root))) / len(metric)
    return min(max(share, 0.0), 0.999)


def noise_shape(parts: SurrogateParts, design: ColumnDesign) -> float:
    """Return the shape of the noise of the score; infinite unless one group of columns shares all of it.

    Parameters
    ----------
    parts : SurrogateParts
        The loss taken apart.
    design : ColumnDesign
        How columns enter its score.
    """
    noised = sum(part.noise is not None for part in design.linear)
    if len(design.spherical) != 1 or design.categorical:
        return math.inf
    (group,) = design.spherical
    # Noise of a target stands in a residual: of the same vector, or another.
    alone = len(group.columns) == noised and (group.constant > 0) == parts.is_residual
    return group.noise.shape if alone else math.inf


def rms_error(
    parts: SurrogateParts,
    surrogates: Sequence[surrogate.Surrogate],
    scores: Scores,
    targets: Sequence[float],
    *,
    of_one_target: bool = False,
) -> float:
    """Return the root mean square of the slope's error over scores, at each for the worst target.

    Targets go with scores: where one target errs at low ones and another at high ones, both may be there. With
    `of_one_target` it is that of the worst target that all scores may have.
    """
    judge = _Judge(parts, scores, targets)
    slopes = [one.slope(scores.values) for one in surrogates]
    if of_one_target:
        return judge.bias(slopes)
    return math.sqrt(float(scores.chances @ np.square(judge.errors(slopes)).max(axis=0, initial=0.0)))


class _Judge:
    """What candidates of a design are compared with at true scores, for a distribution of them.

    Parameters
    ----------
    parts, scores, targets
        As for `rms_error`.

    Attributes
    ----------
    slopes : array of shape (k, m), float64
        The slopes of the parts that have a surrogate at the scores.
    multipliers : array of shape (t, k), float64
        What the parts are multiplied with at the targets.
    chances : array of shape (m,), float64
        The probabilities of the scores.
    """

    def __init__(self, parts: SurrogateParts, scores: Scores, targets: Sequence[float]) -> None:
        count = len(parts.replaced)
        slopes = [part.numbers.slope(scores.values) for part in parts.replaced]
        self.slopes = np.reshape(slopes, (count, len(scores.values)))
        known = parts.multipliers(np.asarray(targets, dtype=np.float64))
        self.multipliers = np.reshape(known, (count, len(targets))).T
        self.chances = scores.chances

    def errors(self, slopes: Sequence[FloatArray]) -> FloatArray:
        """Return the errors of surrogates' slopes at the scores for each target, shape (t, m)."""
        return np.asarray(self.multipliers @ (np.reshape(slopes, self.slopes.shape) - self.slopes))

    def bias(self, slopes: Sequence[FloatArray]) -> float:
        """Return the root mean square of the error of surrogates' slopes at the scores, for the worst target of all."""
        return math.sqrt(float((self.errors(slopes) ** 2 @ self.chances).max(initial=0.0)))

    def relative(self, square: float, bends: Sequence[FloatArray]) -> float:
        """Return a mean square over the square of the mean curvature, over targets that are equally likely.

        Parameters
        ----------
        square : float
            The mean square.
        bends : sequence of arrays of shape (m,), float64
            The curvatures of surrogates at the scores.
        """
        mean = sum(
            float(m) * float(self.chances @ bend) for m, bend in zip(self.multipliers.mean(axis=0), bends, strict=True)
        )
        # Curvatures of a runaway theta may be so large or so small that their square is no number.
        return square / mean**2 if _LEAST_MEAN < abs(mean) < _LARGEST_MEAN else math.inf


@dataclass(frozen=True)
class _Candidate:
    """A design of some dial."""

    reached: float  # How far its interval reaches.
    spent: float  # Its variance, with what is not known of the curvature.
    found: list[surrogate.Surrogate]
    dial: float
    ratio: float  # Its bias in standard errors.

    def affords(self, other: "_Candidate") -> bool:
        """Whether another design has not much more variance than this one of the least dial, or is worth it."""
        dearest = _DEAREST if self.ratio <= _HEAVILY_BIASED else _DEAREST_WHERE_BIASED
        is_much_shorter = other.reached * other.spent <= _MUCH_SHORTER * self.reached * self.spent
        return other.spent <= (_DEAREST_WHERE_BIASED if is_much_shorter else dearest) * self.spent


@dataclass(frozen=True)
class _OfWaves(_Candidate):
    """One of waves."""

    scene: Scene


def _relative_variance(
    judge: _Judge, parts: Sequence[surrogate.Part], scene: Scene, found: Sequence[surrogate.Surrogate]
) -> float:
    """Return the variance of the curvature that one record tells, over the square of its mean."""
    bends = [scene.curvatures(one) for one in found]
    lever = np.ones(len(judge.chances)) if scene.leverage is None else scene.leverage
    square = sum(
        part.inflation * (scene.curvature_variance(one) + float((judge.chances * lever**2) @ bend**2))
        for part, one, bend in zip(parts, found, bends, strict=True)
    )
    return judge.relative(square, bends)


def scene_on_sphere(
    noise: ZonalNoise, covariance: FloatArray, gram: FloatArray, scores: Scores, variance: float
) -> PolynomialScene:
    """Return what polynomial surrogates are designed for, of the zonal noise of the vector that the score is one of.

    theta'N theta, with N the covariance, is the noise variance of the score; `gram` is the mean of x x' over true
    records, `scores` their distribution, and `variance` the noise variance at the parameters in question.

    Raises
    ------
    NoExactCorrectionError
        The noise hides the squares of scores.
    """
    # The mean squared norm of true vectors, in units in which all coordinates have the same noise.
    root = inverse_root(covariance)
    power = float(np.sum(root * (gram @ root))) * noise.variance
    if noise.hides(2):
        raise NoExactCorrectionError(
            f"the noise hides the squares of scores, whose factor is {float(noise.factors(2)[2]):.2g}, and with them "
            "the curvature of the loss. Give a larger budget, or leave gamma out of the SphericalCapMechanism."
        )
    return PolynomialScene(noise, max(noise.reach(variance), float(np.abs(scores.values).max())), scores, power)


def designed_polynomials(
    parts: SurrogateParts,
    scene: PolynomialScene,
    records: float,
    targets: Sequence[float],
    *,
    quick: bool = False,
    like: surrogate.Design | None = None,
) -> surrogate.Design:
    """Return the polynomial surrogates with the shortest interval that covers under their bias; see `designed`.

    `quick` takes the least dial and degree 4 at most, and leaves the largest errors and the constants out. So does
    `like`, with the degree and the dial of another design.
    """
    numbers = [part.numbers for part in parts.replaced]
    variance = scene.noise.variance * (scene.reach / scene.noise.radius) ** 2
    judge = _Judge(parts, scene.scores, targets)
    if not numbers:
        # All of the loss is a polynomial of low degree, and stands for itself.
        return surrogate.Design(scene.reach, variance, records, (), 0.0, 0.0)
    if like is not None:
        degree = max(len(one.polynomial) for one in like.surrogates) - 1
        found = scene.surrogates(numbers, like.records, degree, _SHARED * records / like.records)
        return surrogate.Design(scene.reach, variance, like.records, tuple(found), math.nan, math.nan)
    rows = []
    for degree in scene.degrees[:2] if quick else scene.degrees:
        for dial in _DIALS[:1] if quick else _DIALS:
            found = scene.surrogates(numbers, max(1.0, dial * records), degree, _SHARED / dial)
            spent = sum(part.inflation * scene.price(one) for part, one in zip(numbers, found, strict=True))
            spent = _of_curvature(spent, _relative_curvature(judge, numbers, scene, found), records)
            error = math.sqrt(spent / records)
            bias = judge.bias([scene.slopes(one) for one in found])
            reached = critical_value(0.95, bias / error) * error if error > 0 else bias
            rows.append(_Candidate(reached, spent, found, dial, bias / error if error > 0 else math.inf))
    first = min((row for row in rows if row.dial == _DIALS[0]), key=lambda row: row.reached)
    if quick:
        return surrogate.Design(scene.reach, variance, records, tuple(first.found), math.nan, math.nan)
    best = min((row for row in rows if first.affords(row)), key=lambda row: row.reached)
    stated, enough = max(scene.scores.radius(STATED_OUTSIDE), 1e-6), max(1.0, best.dial * records)
    return surrogate.balanced(numbers, best.found, radius=stated, score_variance=variance, records=enough)


def _of_curvature(spent: float, relative: float, records: float) -> float:
    """Return a variance with what is not known of the curvature, whose relative variance by record may be infinite.

    A surrogate that is constant has neither.
    """
    return spent * (1 + _UNCERTAIN_CURVATURE * relative / records) if spent > 0 else 0.0


def _relative_curvature(
    judge: _Judge, parts: Sequence[surrogate.Part], scene: PolynomialScene, found: Sequence[surrogate.Surrogate]
) -> float:
    """Return the mean square of the curvature that one record tells, over the square of its mean."""
    square = sum(part.inflation * scene.curvature_square(one) for part, one in zip(parts, found, strict=True))
    return judge.relative(square, [scene.curvatures(one) for one in found])


def designed(
    parts: SurrogateParts,
    scores: Scores,
    variances: FloatArray,
    records: float,
    targets: Sequence[float],
    *,
    share_of_noise: float,
    shape: float = math.inf,
    quick: bool = False,
    like: surrogate.Design | None = None,
) -> surrogate.Design:
    """Return the surrogates with the shortest interval that covers under their bias, at hardly more variance.

    In units in which a parameter's direction has variance 1 over true records, its bias is at most the root mean square
    b of the slope's error (Cauchy and Schwarz), and its variance about E[g^2 + r s g'^2]/(n (1 - r)) at the released
    score, with g the inverted slope, g' the inverted second derivative, s the noise variance of the score and r the
    share of noise (the noise e of the score enters a gradient as e g - s g', whose variance is s E g^2 + s^2 E g'^2).
    It counts more where the curvature itself, the mean of g', is uncertain.

    `scores` are those of true records (residuals); `variances`, shape (m,), equally likely noise variances of the
    score, that of the target in a residual included; `targets` the values of the target that errors are looked at with;
    `share_of_noise` the mean share of noise in the variance of a released direction, in [0, 1). `shape` is that of the
    noise of the score, see `symdebias.noise.SphericalNoise.shape`: infinite for normal noise, which other noises are
    priced as. `quick` takes the least dial and number of waves, and leaves the largest errors and the constants out; so
    does `like`, with the sizes of another design in place of the best, its waves as much slower as scores are larger.

    Raises
    ------
    DivergenceError
        The loss is so steep over these scores that squares of squares of its slopes are not finite.
    """
    unit = parts.unit(scores.mean_square)
    return _designed(
        parts.in_units(unit), scores.scaled(1 / unit), variances / unit**2, records, targets,
        share_of_noise=share_of_noise, shape=shape, quick=quick, like=like,
    ).from_units(unit)  # fmt: skip


def _no_narrower(scores: Scores, least: float) -> Scores:
    """Return a distribution of scores whose standard deviation is no less than a number."""
    missing = least**2 - scores.variance
    if not missing > 0:
        return scores
    # The arcsine law has half of its squared reach for its variance.
    around = Scores.within(math.sqrt(2 * missing), nodes=_NODES)
    return Scores(np.add.outer(scores.values, around.values).ravel(), np.outer(scores.chances, around.chances).ravel())


def _designed(
    parts: SurrogateParts,
    scores: Scores,
    variances: FloatArray,
    records: float,
    targets: Sequence[float],
    *,
    share_of_noise: float,
    shape: float,
    quick: bool,
    like: surrogate.Design | None,
) -> surrogate.Design:
    """Return the surrogates of `designed` for parts and scores in their units."""
    numbers = [part.numbers for part in parts.replaced]
    # Where a penalty holds all slopes, scores are nearly the same for all records, and a surrogate with the right slope
    # there alone may have any curvature, which standard errors are made of. It is to be right wherever theta may be.
    inflation = max((part.inflation for part in numbers), default=1.0)
    scores = _no_narrower(scores, min(_KNOWN_TO * math.sqrt(inflation / records), 1.0))
    variance = float(np.mean(variances))
    stated = max(scores.radius(STATED_OUTSIDE), 1e-6)
    # Half of a record's leverage goes with its score, as if features were as spread as the score is.
    middle = float(scores.chances @ scores.values)
    moved = (scores.values - middle) ** 2
    spread = float(scores.chances @ moved)
    leverage = (1 + moved / spread) / 2 if spread > 0 else np.ones(len(moved))
    carried = scores.chances * leverage
    judge = _Judge(parts, scores, targets)
    steepest = float(np.abs(judge.slopes).max(initial=0.0))
    if not steepest <= _STEEPEST:
        raise DivergenceError(
            f"over true scores of up to {float(np.abs(scores.values).max()):.3g} the loss has slopes of up to "
            f"{steepest:.2g}, and no surrogate stands for it there. Raise l2, use more records, or release with less "
            "noise."
        )
    reach = 2 * math.sqrt(variance)
    lengths = sorted({max(scores.radius(outside), 1e-6) + reach for outside in _OUTSIDE})
    if quick or like is not None:
        lengths = lengths[-2:-1] or lengths
    highest = surrogate.affordable_frequency(variances, records, shape)
    whole = Scene(
        scores, scores.chances, highest, _WAVES[0], variances, 0.0, share_of_noise * variance, leverage, shape
    )

    def scenes(waves: int) -> list[Scene]:
        found = sorted({max(length, waves * math.pi / highest) for length in lengths})
        return [whole.of_waves(math.pi / length, waves) for length in found]

    def bought(scene: Scene, dial: float) -> tuple[list[surrogate.Surrogate], float]:
        """Return the surrogates of a dial, and the sample size that they are found for."""
        enough = max(1.0, dial * records)
        return scene.surrogates(numbers, enough, shared=_SHARED / dial), enough

    if like is not None and like.surrogates and like.surrogates[0].cosines:
        # The half period of the slowest wave goes with the range and with the noise of scores.
        share = math.pi / like.surrogates[0].frequency / (like.radius + 2 * math.sqrt(like.score_variance))
        waves = len(like.surrogates[0].cosines)
        length = max(share * (stated + reach), waves * math.pi / highest)
        found, enough = bought(whole.of_waves(math.pi / length, waves), like.records / records)
        return surrogate.Design(stated, variance, enough, tuple(found), math.nan, math.nan)
    if quick or like is not None:
        (scene,) = scenes(_WAVES[0])
        found, enough = bought(scene, _DIALS[0])
        return surrogate.Design(stated, variance, enough, tuple(found), math.nan, math.nan)
    noised = records * (1 - share_of_noise)
    base = sum(part.inflation * float(carried @ slope**2) for part, slope in zip(numbers, judge.slopes, strict=True))

    def candidate(scene: Scene, dial: float) -> _OfWaves:
        found, _ = bought(scene, dial)
        spent = base + sum(part.inflation * scene.price(one) for part, one in zip(numbers, found, strict=True))
        spent = _of_curvature(spent, _relative_variance(judge, numbers, scene, found), records)
        error = math.sqrt(spent / noised)
        bias = judge.bias([scene.slopes(one) for one in found])
        reached = critical_value(0.95, bias / error) * error if error > 0 else bias
        return _OfWaves(reached, spent, found, dial, bias / error if error > 0 else math.inf, scene)

    best: _OfWaves | None = None
    first: _OfWaves | None = None
    for waves in _WAVES:
        rows = [candidate(scene, dial) for scene in scenes(waves) for dial in _DIALS]
        if first is None:
            # Next to the least mean squared error: what more variance is measured by.
            first = min((row for row in rows if row.dial == _DIALS[0]), key=lambda row: row.reached)
        for row in rows:
            is_least = waves == _WAVES[0] and row.dial == _DIALS[0]
            if (is_least or first.affords(row)) and (best is None or row.reached < 0.99 * best.reached):
                best = row
        assert best is not None
        if best.reached <= critical_value(0.95) * math.sqrt(best.spent / noised) * (1 + _NEGLIGIBLE**2):
            break
    assert best is not None
    enough = max(1.0, best.dial * records)
    return best.scene.balanced(numbers, best.found, radius=stated, score_variance=variance, records=enough)
