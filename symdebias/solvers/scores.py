"""What released records say of true scores: their moments, their distribution, and the surrogate that suits it.

Moments of true records are unbiased, the noise taken out of those of the released ones. The distribution of the true
score at a parameter comes from that of the released score by deconvolution. A surrogate is designed for it: as close to
the loss as a few per cent of variance buy, where scores are and not elsewhere.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.linalg import eigh
from scipy.special import ndtr

from symdebias._arrays import FloatArray
from symdebias._rows import parts_of
from symdebias.codegen.parallel import chunk_of, over_chunks
from symdebias.corrected import CorrectedLoss
from symdebias.correction import Correction
from symdebias.derivation import SurrogateParts
from symdebias.exceptions import DivergenceError, NoExactCorrectionError
from symdebias.losses.curvature import has_target_in_curvature
from symdebias.records import Records, size_by, stride_to
from symdebias.solvers.lengths import Lengths
from symdebias.solvers.metric import definite, inverse_root
from symdebias.solvers.moments import Moments, moments_of_records
from symdebias.solvers.score_sample import ScoreSample, moments_with_sample, sample_stride
from symdebias.solvers.surrogate_design import (
    designed,
    designed_polynomials,
    noise_shape,
    rms_error,
    scene_on_sphere,
    share_of_noise,
    targets_of,
)
from symdebias.transforms.surrogate import Design, Scores, affordable_frequency
from symdebias.zonal import ZonalNoise

# Intervals of released scores, values of true ones, and rounds of the deconvolution: few, so that it stays smooth.
_CELLS, _VALUES, _ROUNDS = 241, 161, 60
# The share of these that will do for a glance.
_AT_A_GLANCE = 0.5
# How many scores tell the width of cells.
_OF_WIDTH = 4_000
# How much of the deconvolution's start is as wide as the released scores themselves, so that tails can grow.
_WIDE = 0.002
# The least share of the variance of released scores, in standard errors, that is taken to be of true ones.
_LEAST_SIGNAL = 1.0
# Cells of released cosines on a sphere and values of true ones.
_COSINE_CELLS, _COSINES = 120, 161
# How many times as far out as the scores of a part of the records those that it misses may lie.
REACH = 2.0
# A surrogate is designed anew where theta has moved more than this share of its length from where it was designed; by
# training so many times at most.
MOVED, MOST_STAGES = 0.1, 3
# All scores at parameters that are 0.
_ZERO = Scores(np.zeros(1), np.ones(1))
# Values for noise scales that records have of their own.
_LEVELS = 16
# Numbers of a matrix of chances that are made at a time.
_NUMBERS = 2**12


def deconvolved(
    released: FloatArray, chances: FloatArray, *, noise: float, signal: float, fineness: float = 1.0
) -> Scores:
    """Return the distribution of true scores whose noised ones are distributed as the released scores are.

    Maximum likelihood by expectation and maximisation (Richardson 1972, Lucy 1974), from the released scores drawn
    together to the variance of the true ones, `signal`, and stopped after few rounds. The chances sum to 1; `noise`
    is the variance of normal noise in the released scores, and `fineness` multiplies how many values there are.

    Notes
    -----
    Noise with heavier tails than the normal law's leaves its tails with the scores: the range is then wider than need
    be.
    """
    middle = float(chances @ released)
    variance = float(chances @ (released - middle) ** 2)
    # Scores that are apart by rounding alone are one score, as where theta is an intercept.
    if not variance > (1e-12 * middle) ** 2:
        return Scores(np.array([middle]), np.ones(1))
    if noise <= 1e-9 * variance:
        return Scores.of(released, chances)
    # Cells are narrow where many scores are, and cover the farthest.
    core = float(np.median(np.abs(released[:: stride_to(_OF_WIDTH, len(released))] - middle))) or math.sqrt(variance)
    # Scores are many: what is made of them stays in one array.
    turned = released - middle
    turned /= core
    np.arcsinh(turned, out=turned)
    low, high = float(turned.min()), float(turned.max())
    cells, count = int(_CELLS * fineness), int(_VALUES * fineness)
    edges = middle + core * np.sinh(np.linspace(low, high, cells + 1))
    values = middle + core * np.sinh(np.linspace(low, high, count))
    turned -= low
    turned *= cells / (high - low)
    cell = np.minimum(turned, cells - 1, out=turned).astype(np.int64)
    seen = np.asarray(np.bincount(cell, chances, minlength=cells), dtype=np.float64)
    # Cells stand for their scores where it starts.
    sums = np.bincount(cell, np.multiply(chances, released, out=turned), minlength=cells)
    del turned, cell
    centres = np.where(seen > 0, sums / np.where(seen > 0, seen, 1.0), middle)
    between = (values[1:] + values[:-1]) / 2
    shrunk = middle + math.sqrt(min(1.0, signal / variance)) * (centres - middle)
    found = (1 - _WIDE) * np.bincount(np.searchsorted(between, shrunk), seen, minlength=count)
    found = found + _WIDE * np.bincount(np.searchsorted(between, centres), seen, minlength=count)
    found = np.maximum(found, 1e-9)
    return Scores(values, _most_likely(found, _reached(edges, values, math.sqrt(noise)), seen))


def _reached(edges: FloatArray, values: FloatArray, deviation: float) -> FloatArray:
    """Return the chances of the cells between edges given values under normal noise, shape (c, v)."""
    found = np.empty((len(edges) - 1, len(values)))
    for part in parts_of(len(found), len(values), _NUMBERS):
        below = edges[part.start : part.stop + 1, None] - values
        below /= deviation
        ndtr(below, out=below)
        np.subtract(below[1:], below[:-1], out=found[part])
    return found


def _most_likely(found: FloatArray, reached: FloatArray, seen: FloatArray) -> FloatArray:
    """Return probabilities of values after rounds of expectation and maximisation from `found` on, which is written to.

    Parameters
    ----------
    found : array of shape (v,), float64
        The probabilities of values to begin with, all positive.
    reached : array of shape (c, v), float64
        The chances of cells given values.
    seen : array of shape (c,), float64
        The shares of cells.
    """
    expected, grown = np.empty(len(seen)), np.empty(len(found))
    for _ in range(_ROUNDS):
        # Rounds are short: arrays of their own would take as long as the products.
        np.maximum(reached.dot(found, out=expected), 1e-300, out=expected)
        found *= np.divide(seen, expected, out=expected).dot(reached, out=grown)
    found /= found.sum()
    return found


def deconvolved_on_sphere(released: FloatArray, chances: FloatArray, noise: ZonalNoise, reach: float) -> Scores:
    """Return the distribution of true scores whose released ones are distributed as given, under zonal noise.

    Maximum likelihood by expectation and maximisation, in the cosine that a score has with theta: what a true cosine
    makes of the released one is known exactly, and is the same for all theta. Released scores are estimates without
    bias, with chances that sum to 1; `reach` is R |theta|, the largest score that a record has.
    """
    cosines = np.clip(released * (noise.gain / reach), -1.0, 1.0)
    cell = np.minimum((cosines + 1) * (_COSINE_CELLS / 2), _COSINE_CELLS - 1).astype(np.int64)
    seen = np.asarray(np.bincount(cell, chances, minlength=_COSINE_CELLS), dtype=np.float64)
    values = np.linspace(-1.0, 1.0, _COSINES)
    reached = noise.transition(_COSINE_CELLS, values)
    middle = float(chances @ released) / reach
    square = float(chances @ released**2) / reach**2 - noise.variance / noise.radius**2
    spread = math.sqrt(max(square / noise.square_gain - middle**2, 1e-4))
    found = np.exp(-0.5 * ((values - middle) / spread) ** 2) + _WIDE
    found /= found.sum()
    return Scores(reach * values, _most_likely(found, reached, seen))


@dataclass(frozen=True)
class ReleasedRecords:
    """What is known of true records from released ones, for one loss of one score.

    Attributes
    ----------
    corrected : CorrectedLoss
        The loss.
    moments : Moments
        Those of true records, debiased.
    noise : array of shape (q, q), float64
        theta'N theta is the mean noise variance of the score.
    metric : array of shape (q, q), float64
        The mean of x x' over released records.
    sample_of : callable
        Gives the `ScoreSample` of the records; exact corrections do without it.
    shape : float
        That of the noise of the score where one group of columns shares all of it, see
        `symdebias.noise.SphericalNoise.shape`; infinite for other noise.
    zonal : ZonalNoise or None
        The zonal noise of the vector that the score is one of.
    fineness : float
        How fine the distribution of true scores is, for a glance below 1.
    """

    corrected: CorrectedLoss
    moments: Moments
    noise: FloatArray
    metric: FloatArray
    sample_of: Callable[[], ScoreSample]
    shape: float = math.inf
    zonal: ZonalNoise | None = None
    fineness: float = 1.0
    # By theta and fineness: a fit asks for those of the pilot and of the end several times.
    _scores: dict[tuple[bytes, float], Scores] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(
        cls,
        corrected: CorrectedLoss,
        records: Records,
    ) -> "ReleasedRecords":
        """Return what is known from checked records.

        Parameters
        ----------
        corrected : CorrectedLoss
            A loss of one score.
        records : Records
            Its records.
        """
        design = records.correction.design
        covariance = records.correction.noise_covariance(records.present_scales)
        noise = design.released_covariance(covariance)

        # A surrogate is designed for a sample of the records; an exact correction seldom asks for one.
        with_sample = corrected.method == "surrogate" and sample_stride(records.present) > 1

        def summed() -> tuple[Any, ...]:
            sample: tuple[FloatArray, ...] = ()
            if with_sample:
                found, sample = moments_with_sample(corrected, records, covariance, noise)
            else:
                found = moments_of_records(records, covariance)
            return found.gram[0], found.mean[0], found.cross, found.target_square, found.records, *sample

        gram, mean, cross, square, count, *arrays = records.remembered("true moments", summed)
        moments = Moments([gram], [mean], cross, square, count)
        # What was released varies by what is true and by its noise; sums keep it positive where noise is large.
        metric = moments.gram[0] + noise

        @functools.cache
        def sample_of() -> ScoreSample:
            return ScoreSample.from_arrays(*arrays) if arrays else ScoreSample.of(corrected, records, moments, metric)

        shape = noise_shape(corrected.surrogate_parts, design)
        return cls(corrected, moments, noise, metric, sample_of, shape, records.correction.zonal)

    def of_method(self, corrected: CorrectedLoss) -> "ReleasedRecords":
        """Return the same for the same loss under another correction."""
        return replace(self, corrected=corrected)

    @property
    def gram(self) -> FloatArray:
        """The mean of x x' over true records, debiased, shape (q, q)."""
        return self.moments.gram[0]

    @property
    def mean(self) -> FloatArray:
        """The mean of x, shape (q,)."""
        return self.moments.mean[0]

    @property
    def records(self) -> float:
        """The sample size; with weights (sum w)^2/(sum w^2)."""
        return self.moments.records

    @property
    def parts(self) -> SurrogateParts:
        """The parts of the loss."""
        return self.corrected.surrogate_parts

    @property
    def wants_a_pilot(self) -> bool:
        """Whether the mean corrected loss may have minima that noise has made, or a surrogate of it is to be designed.

        Noise of the target alone shifts the gradient and nothing else where the curvature has no target in it: what is
        convex stays so.
        """
        if self.noise.any() or self.corrected.method == "surrogate":
            return True
        has_target = self.parts.is_residual or has_target_in_curvature(self.corrected.shown.loss)
        return self.corrected.shown.release.target is not None and has_target

    def outside(self, theta: FloatArray, radius: float) -> float:
        """Return the estimated share of true scores (of residuals) at theta beyond a radius."""
        scores = self.scores(theta)
        return float(scores.chances[np.abs(scores.values) > radius].sum())

    def positive_gram(self) -> FloatArray:
        """Return the mean of x x' over true records, made positive definite.

        Its eigenvalues relative to the second moments of released records are the reliabilities of directions, between
        0 and 1; they are at least their own sampling error.
        """
        root = self._root_of(self.gram, 1 / math.sqrt(self.records))
        return np.asarray(root @ root.T)

    def _root_of(self, moments: FloatArray, least: float) -> FloatArray:
        """Return R with R R' the second moments, whose eigenvalues relative to released ones are at least a number."""
        sizes, vectors = eigh(moments, definite(self.metric))
        return np.asarray(np.linalg.inv(vectors).T * np.sqrt(np.maximum(sizes, least)))

    @functools.cached_property
    def _share_of_noise(self) -> float:
        return share_of_noise(self.metric, self.noise)

    @property
    def target_noise(self) -> float:
        """The noise variance of the target within a residual."""
        noise = self.parts.target_noise
        return 0.0 if noise is None else noise.variance

    def size(self, theta: FloatArray) -> float:
        """Return the root mean square of the released score."""
        return size_by(self.metric, theta)

    def extent(self, theta: FloatArray) -> float:
        """Return what moves of theta are measured by: the size of the score, of residuals at least a usual target.

        Where scores are small beside what targets spread by, a move of all of theta changes no residual by much.
        Surrogates are held to it; of an exact correction it is the size of the score.
        """
        size = self.size(theta)
        is_held = self.parts.is_residual and not self.corrected.is_exact
        return max(size, self._usual_target) if is_held else size

    @functools.cached_property
    def _usual_target(self) -> float:
        """The size of a target; few of them may be much larger."""
        return float(np.median(np.abs(self.sample_of().target)))

    def score_variance(self, theta: FloatArray) -> float:
        """Return the mean noise variance of the score."""
        return float(theta @ self.noise @ theta)

    def variances(self, theta: FloatArray) -> FloatArray:
        """Return noise variances of the score (of the residual) that are equally likely."""
        own_variances = self.sample_of().own_variances
        if own_variances is None:
            return np.array([self.score_variance(theta) + self.target_noise])
        own = np.sort(own_variances @ theta**2) + self.target_noise
        # A wave costs e^(s w^2) in the mean over records: a cell stands for what its records cost at the fastest wave,
        # which is mostly that of its largest variance, and no less than its mean.
        unit = self.unit(theta)
        fastest = (affordable_frequency(own / unit**2, self.records) / unit) ** 2
        cells = np.array_split(own, min(_LEVELS, len(own)))
        return np.array([_costing(cell, fastest) for cell in cells])

    def mean_square(self, theta: FloatArray) -> float:
        """Return the mean square of true scores (of residuals): that of released ones, the noise taken out."""
        square = float(theta @ self.gram @ theta)
        if not self.parts.is_residual:
            return max(square, 0.0)
        gain = 1.0 if self.zonal is None else self.zonal.square_gain
        target = (self.moments.target_square - self.target_noise) / gain
        square += target - 2 * float(theta @ self.moments.cross)
        released = square + (self.score_variance(theta) + self.target_noise) / gain
        return max(square, released * math.sqrt(2 / max(self.records, 2)))

    def unit(self, theta: FloatArray) -> float:
        """Return the unit of scores in which surrogates are designed; see `SurrogateParts.unit`."""
        return self.parts.unit(self.mean_square(theta))

    def least_squares(self, penalty: FloatArray) -> FloatArray:
        """Return the parameters of least squares, with l2 for each; 0 where nothing decides them."""
        root = inverse_root(self.positive_gram() + np.diag(penalty))
        return np.asarray(root @ (root.T @ self.moments.cross))

    def scores(self, theta: FloatArray, *, quick: bool = False) -> Scores:
        """Return the estimated distribution of true scores (of residuals, for a residual loss) at theta.

        `quick` takes no more values than a glance does.
        """
        fineness = min(self.fineness, _AT_A_GLANCE) if quick else self.fineness
        key = theta.tobytes(), fineness
        if key not in self._scores:
            self._scores[key] = self._estimated(theta, fineness)
        return self._scores[key]

    def farthest(self, theta: FloatArray) -> float:
        """Return how far the estimated distribution of true scores (of residuals) reaches."""
        return float(np.abs(self.scores(theta).values).max())

    def _estimated(self, theta: FloatArray, fineness: float) -> Scores:
        sample = self.sample_of()
        released, chances = sample.released(theta, is_residual=self.parts.is_residual), sample.chances
        if self.zonal is not None:
            reach = self.zonal.reach(self.score_variance(theta) + self.target_noise)
            return deconvolved_on_sphere(released, chances, self.zonal, reach) if reach > 0 else _ZERO
        noise = self.score_variance(theta) + self.target_noise
        middle = float(chances @ released)
        variance = float(chances @ (released - middle) ** 2)
        # The moments of all records say more of the variance than those of the part.
        signal = variance - noise
        if not self.parts.is_residual:
            signal = float(theta @ self.gram @ theta) - float(self.mean @ theta) ** 2
        least = _LEAST_SIGNAL * variance * math.sqrt(2 / max(self.records, 2))
        signal = max(signal, least, 1e-12 * variance)
        return deconvolved(released, chances, noise=noise, signal=signal, fineness=fineness)

    def bias_factor(
        self,
        correction: Correction,
        theta: FloatArray,
        hessian: FloatArray,
        *,
        missed: float = 0.0,
        moments: FloatArray | None = None,
        of_one_target: bool = False,
    ) -> FloatArray:
        """Return F with ||F'a|| at least the size of the bias of a'theta that a surrogate makes, for every a.

        The bias of the gradient is b = E[x e(u)] with e the error of the surrogate's slope at the true score u. That of
        a'theta is -a'H^-1 b = -E[(a'H^-1 x) e(u)] to first order, and by the inequality of Cauchy and Schwarz its
        square is at most a'H^-1 S H^-1 a E e(u)^2, S the mean of x x'. Nothing in this hangs on a, so that F, H^-1 R
        times the root of E e(u)^2 with R R' = S, holds for all combinations at once. The mean is over the estimated
        distribution of true scores, those outside the surrogate's range included.

        Squared, F would lose what cancels in a'H^-1, as where columns are far from 0.

        Parameters
        ----------
        correction : Correction
            The surrogate, resolved.
        theta : array of shape (q,), float64
            The parameters.
        hessian : array of shape (q, q), float64
            H, of the mean corrected loss with its penalty.
        missed : float
            The share of scores that are as likely to lie anywhere beyond the farthest, up to `REACH` times as far out;
            on a sphere, which ends there, anywhere.
        moments : array of shape (q, q), float64, optional
            S, or a bound on the second moments of E[x | u], which is all of x that matters; `positive_gram` by default.
        of_one_target : bool
            Whether all scores have the same target, whichever is the worst: then it is no bound, and the usual size.

        Returns
        -------
        array of shape (q, q), float64
            F.
        """
        assert correction.surrogates is not None
        inverse = np.linalg.inv(hessian)
        scores = self.scores(theta)
        if missed:
            farthest = self.farthest(theta)
            ends = (farthest, REACH * farthest) if self.zonal is None else (0.0, farthest)
            scores = scores.with_outliers(min(missed, 1.0), *ends)
        error = rms_error(
            correction.surrogate_parts, correction.surrogates.surrogates, scores, self.targets(),
            of_one_target=of_one_target,
        )  # fmt: skip
        root = self._root_of(*((self.gram, 1 / math.sqrt(self.records)) if moments is None else (moments, 0.0)))
        return np.asarray(error * inverse @ root)

    def spread(self, theta: FloatArray) -> float:
        """Return the standard deviation of the released score, at least 1, or that of true residuals."""
        variance = self.size(theta) ** 2 - float(self.mean @ theta) ** 2
        least = 1.0
        if self.parts.is_residual:
            scores = self.scores(theta)
            least = scores.mean_square - float(scores.chances @ scores.values) ** 2
        return math.sqrt(max(variance, least))

    def targets(self) -> tuple[float, ...]:
        """Return values of the target that errors are looked at with."""
        return targets_of(self.corrected, self.sample_of().target, self.sample_of().chances)

    def resolved(
        self, theta: FloatArray, *, growth: float = 1.0, radius: float | None = None, quick: bool = False
    ) -> CorrectedLoss:
        """Return the surrogate designed for the scores at a parameter.

        Scores `growth` times as large are within the range as well; `radius` is a range abs(u) <= radius to take in
        place of that of the scores. `quick` takes the first sizes of a design instead of searching for the best, and a
        glance at the scores.
        """
        if self.corrected.method != "surrogate":
            return self.corrected
        scores, variances = self.scores(theta, quick=quick), self.variances(theta)
        scores, variances = self._grown(scores, variances, growth)
        if radius is not None:
            scores = Scores.within(radius)
        else:
            self._require_finite(float(np.abs(scores.values).max()))
        return self.designed_for(scores, variances, quick=quick)

    @staticmethod
    def _grown(scores: Scores, variances: FloatArray, growth: float) -> tuple[Scores, FloatArray]:
        """Return scores with those that are so many times as large beside them, and noise variances as many times."""
        if growth == 1.0:
            return scores, variances
        values = np.concatenate([scores.values, growth * scores.values])
        return Scores(values, np.tile(scores.chances, 2) / 2), variances * growth

    def _require_finite(self, farthest: float) -> None:
        """Raise DivergenceError where the loss is not finite on scores that parameters on the way have led to."""
        ends = np.array([-farthest, farthest])
        with np.errstate(all="ignore"):
            is_finite = all(np.isfinite(part.numbers.slope(ends)).all() for part in self.parts.replaced)
        if not is_finite:
            raise DivergenceError(
                f"the search came to scores of {farthest:.3g}, on which the loss is not finite: nothing near zero held "
                "theta back. Bound columns with few large values, raise l2, or use more records."
            )

    def resolved_like(self, theta: FloatArray, design: Design, *, growth: float = 1.0) -> CorrectedLoss:
        """Return the surrogate for the scores at a parameter that has the sizes of another one."""
        scores, variances = self._grown(self.scores(theta, quick=True), self.variances(theta), growth)
        return self.designed_for(scores, variances, like=design)

    def designed_for(
        self, scores: Scores, variances: FloatArray, *, quick: bool = False, like: Design | None = None
    ) -> CorrectedLoss:
        """Return the surrogate designed for a distribution of true scores and noise variances of them.

        `like` is a design whose sizes it has.
        """
        if self.zonal is not None:
            scene = scene_on_sphere(self.zonal, self.noise, self.positive_gram(), scores, float(np.mean(variances)))
            return self.corrected.with_design(
                designed_polynomials(self.parts, scene, self.records, self.targets(), quick=quick, like=like)
            )
        found = designed(
            self.parts, scores, variances, self.records, self.targets(),
            share_of_noise=self._share_of_noise, shape=self.shape, quick=quick, like=like,
        )  # fmt: skip
        return self.corrected.with_design(found)


def _costing(variances: FloatArray, square: float) -> float:
    """Return the variance s with e^(s w^2) the mean of that of some variances, in order, for a squared frequency."""
    largest = float(variances[-1])
    return largest + float(np.log(np.mean(np.exp(square * (variances - largest))))) / square


@dataclass(frozen=True)
class Whole:
    """All records, of which a part is looked at first.

    Attributes
    ----------
    corrected, records
        As for `ReleasedRecords.of`.
    lengths : Lengths or None
        What a pass has measured of them.
    """

    corrected: CorrectedLoss
    records: Records
    lengths: Lengths | None = field(default=None, kw_only=True)

    @functools.cached_property
    def known(self) -> ReleasedRecords | None:
        """What `known_scores` says of them, by two passes."""
        return known_scores(self.corrected, self.records)

    def is_within(self, theta: FloatArray, reach: float) -> bool:
        """Whether no released score (residual) at theta, of shape (q,), is farther from 0 than a number.

        The records are read where their lengths do not tell.
        """
        if self.lengths is not None and self.lengths.bound(theta) <= reach:
            return True
        return self.farthest(theta) <= reach

    def farthest(self, theta: FloatArray) -> float:
        """Return the largest released score (residual), by one pass over the records.

        Parameters
        ----------
        theta : array of shape (q,), float64
            The parameters.
        """
        is_residual = self.corrected.surrogate_parts.is_residual
        beyond = functools.partial(_largest_score, theta=theta, is_residual=is_residual)

        def passed() -> float:
            return float(max(self.records.over_parts(beyond)))

        return float(self.records.remembered("farthest score", passed, theta.tobytes()))


def _largest_score(part: Records, *, theta: FloatArray, is_residual: bool) -> float:
    design = part.correction.design

    def largest(rows: slice) -> float:
        scores = design.estimated_rows(part.matrix[rows]) @ theta
        if is_residual:
            scores = scores - part.target[rows]
        if len(part.weights):
            scores = scores[part.weights[rows] > 0]
        return float(max(scores.max(initial=-math.inf), -scores.min(initial=math.inf)))

    return float(max(over_chunks(len(part), largest, chunk_of(part.matrix, design.numbers_made))))


def known_at_a_glance(
    corrected: CorrectedLoss, records: Records, lengths: Lengths | None = None
) -> tuple[ReleasedRecords | None, Whole | None]:
    """Return `known_scores` of the records that a fit is tested on, and all records.

    Parameters
    ----------
    corrected, records
        As for `ReleasedRecords.of`.
    lengths : Lengths, optional
        What a pass has measured of the records.

    Returns
    -------
    known : ReleasedRecords or None
        Of the tested records; None where there is no surrogate.
    whole : Whole or None
        None where the tested records are all.

    Raises
    ------
    NoExactCorrectionError
        As for `known_scores`.
    """
    if corrected.design is None:
        return None, None
    part = records.tested
    known = known_scores(corrected, part)
    if len(part) == records.present:
        return known, None
    return None if known is None else replace(known, fineness=_AT_A_GLANCE), Whole(corrected, records, lengths=lengths)


def known_scores(corrected: CorrectedLoss, records: Records) -> ReleasedRecords | None:
    """Return what released records say of true scores, or None for a loss that surrogates cannot stand for.

    Parameters
    ----------
    corrected, records
        As for `ReleasedRecords.of`.

    Raises
    ------
    NoExactCorrectionError
        The loss is one of a surrogate, and has no scores to know of.
    """
    if not corrected.approach.corrects:
        return None
    if len(corrected.declared.scores) == 1:
        try:
            _ = corrected.surrogate_parts
            return ReleasedRecords.of(corrected, records)
        except NoExactCorrectionError:
            # A polynomial in a margin, or of no known form.
            pass
    if corrected.is_resolved:
        return None
    raise NoExactCorrectionError(
        "a free-form loss has no pilot estimate. Declare it in its score, or call corrected.resolve(radius=, "
        "score_variance=, n=)."
    )
