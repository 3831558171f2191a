"""Scores of released records at a theta, and what undoes the noise in functions of them.

Noise is undone column by column: a wave in the score is divided by the characteristic function of additive noise, and a
function of a category is multiplied by the inverse of its channel.
"""

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import sympy as sp

from symdebias._arrays import FloatArray, IntegerArray
from symdebias.codegen.numeric import numeric
from symdebias.codegen.parallel import over_chunks
from symdebias.codegen.waves import ComplexArray, sums_of_waves, sums_over_records
from symdebias.evaluation.records import Records, added, extremes_with_weight
from symdebias.exceptions import NoExactCorrectionError
from symdebias.noise import FREQUENCY, NO_WAVES, AdditiveNoise, SphericalNoise
from symdebias.transforms.surrogate import Surrogate
from symdebias.zonal import ZonalNoise

# The range of scores that a surrogate is designed for: at least so many standard deviations of the true score, and so
# many times the farthest released score, shrunk by the ratio of the standard deviations of true and released ones.
# Beyond its range a surrogate is wild where there is little noise, and one such record would carry the whole mean.
_RANGE, _FARTHEST = 2.5, 1.1
# A declared bound that is at most so many times as wide is taken as the range, because the bias is then certified for
# every record.
_WORTH = 1.5
# Combinations of categories and steps of a grid that a sign is summed over exactly.
_MOST_COMBINATIONS = 512
# Numbers of records that are looked at at a time, and powers of two that the number of these is between.
_NUMBERS, _LEAST_POWER, _MOST_POWER = 2**17, 8, 14
# A promised range is broken where released scores exceed it by so many standard errors more than noise explains; the
# largest kurtosis that noise is supposed to have.
_BROKEN, _KURTOSIS = 4.0, 10.0
# The least size of scores with noise, of which squares must be numbers of float64, and the least variance that noise in
# them has: with less it is as good as none.
_LEAST_SIZE, _LEAST_VARIANCE = 1e-140, 1e-300
# Nodes of the mean over normal scores, and how many standard deviations they reach.
NODES, _REACH = 4001, 8.0
# Scores are equal in exact arithmetic where they differ by no more than this share of their terms.
TIED = 1e-13
# What the scores of a theta are kept under.
_LAST = "released scores"


def _rows_at_once(columns: int) -> int:
    """Return how many records are looked at at a time: a power of two, so that sums are those of all at once."""
    return 1 << min(max(int(math.log2(_NUMBERS / max(1, columns))), _LEAST_POWER), _MOST_POWER)


@dataclass(frozen=True)
class Category:
    """A column of categories in the score: codes of records, the score's part by category, what undoes the channel."""

    codes: IntegerArray
    values: FloatArray
    weights: FloatArray

    def unbiased(self, function: Callable[[FloatArray], Any]) -> Any:
        """Return unbiased estimates of a function of the score's part, by record."""
        return (self.weights @ function(self.values))[self.codes]

    def channeled(self, frequencies: FloatArray) -> ComplexArray:
        """Return by category unbiased estimates of waves of these frequencies, of shape (categories, frequencies)."""
        return np.asarray(self.weights @ np.exp(1j * np.multiply.outer(self.values, frequencies)))


@dataclass(frozen=True)
class ReleasedScores:
    """Released scores at a theta.

    Attributes
    ----------
    linear : array of shape (n,), float64
        The score of all columns but those of categories.
    normal : float
        s, the variance of the normal noise in it.
    others : tuple of (AdditiveNoise, float)
        The other additive noises in it, each with the parameter of its column.
    spherical : tuple of (SphericalNoise or ZonalNoise, float)
        The noises of groups that are alike in all directions, each with the form s of the group's parameters.
    categories : tuple of Category
        The columns of categories.
    noise : float
        The noise variance of `estimates` over the noise of all columns.
    additive : float
        That over the additive noises alone.
    bound : float
        The largest absolute true score within the declared bounds, infinite where a column in the score has none.
    constant : float or None
        What stands in the score beside one vector with zonal noise; None where there is no such vector, or where
        that is not the same in all records.
    sizes : array of shape (n,), float64, or None
        The sums of the sizes of the terms of `linear`, of which rounding leaves a share of 1e-16 or so; None where no
        sign is told exactly.
    """

    linear: FloatArray
    normal: float
    others: tuple[tuple[AdditiveNoise, float], ...]
    spherical: tuple[tuple[SphericalNoise | ZonalNoise, float], ...]
    categories: tuple[Category, ...]
    noise: float
    additive: float
    bound: float
    constant: float | None = None
    sizes: FloatArray | None = None

    @classmethod
    def of(cls, records: Records, theta: FloatArray) -> "ReleasedScores":
        """Return the scores of records at a theta of shape (q,); those of the last theta are kept with the records."""
        kept = records.memo.get(_LAST)
        if kept is None or kept[0] != theta.tobytes():
            kept = theta.tobytes(), cls._of(records, theta)
            records.memo[_LAST] = kept
        found: ReleasedScores = kept[1]
        return found

    @classmethod
    def _of(cls, records: Records, theta: FloatArray) -> "ReleasedScores":
        release, matrix = records.release, records.matrix
        design = release.design(matrix.shape[1])
        covariance = design.covariance.copy()
        np.fill_diagonal(covariance, release.feature_variances(matrix.shape[1]))
        at = theta[design.linear_parameters]
        constant = theta[-1] if design.intercept else 0.0
        public = np.array([part.noise is None for part in design.linear], dtype=bool)
        # By column of the matrix, of which no others are copied: those of categories count nothing here.
        by_column, known = np.zeros((2, matrix.shape[1]))
        np.add.at(by_column, design.linear_columns, at)
        np.add.at(known, design.linear_columns, at * public)
        linear = np.empty(len(matrix))
        coded = [(column, column.rows(len(theta)) @ theta) for column in design.categorical]
        coded = [(column, values) for column, values in coded if values.any()]
        codes: list[IntegerArray] = [np.empty(len(matrix), dtype=np.int64) for _ in coded]
        normal = _variance(at, design.linear_covariance)
        terms = None if normal or design.spherical else np.empty(len(matrix))

        def filled(rows: slice) -> float:
            """Fill in scores and codes of some rows, and return the largest size of what has no noise in the former."""
            block = matrix[rows]
            np.matmul(block, by_column, out=linear[rows])
            linear[rows] += constant
            if terms is not None:
                np.matmul(np.abs(block), np.abs(by_column), out=terms[rows])
                terms[rows] += abs(constant)
            for own, (column, _) in zip(codes, coded, strict=True):
                own[rows] = block[:, column.column].astype(np.int64)
            if not known.any():
                return abs(float(constant))
            sizes = np.abs(block @ known + constant)[records.weights[rows] > 0]
            return float(sizes.max(initial=0.0))

        bound = max(over_chunks(len(matrix), filled, _rows_at_once(matrix.shape[1])), default=0.0)
        for group, (_, mechanism) in enumerate(release.groups):
            parameters = at[[part.group == group for part in design.linear]]
            if parameters.any():
                bound += math.inf if mechanism.bound is None else float(np.linalg.norm(parameters)) * mechanism.bound
        forms = []
        alone = False
        for shared in design.spherical:
            if isinstance(shared.noise, ZonalNoise):
                _require_additive_squares(shared.noise)
                others = np.ones(len(at), dtype=bool)
                others[list(shared.columns)] = False
                alone = not at[others].any()
            forms.append((shared.noise, float(at**2 @ shared.all_weights(len(at)))))
        categories = []
        for own, (column, values) in zip(codes, coded, strict=True):
            categories.append(Category(own, values, column.weights))
            bound += float(np.abs(values).max())
        released = design.released_covariance(covariance)
        _require_size(theta, linear, [values for _, values in coded], released)
        return cls(
            linear=linear,
            normal=normal,
            others=tuple(
                (part.own_noise, float(parameter))
                for part, parameter in zip(design.linear, at, strict=True)
                if part.own_noise is not None
                and not part.own_noise.is_gaussian
                and part.own_noise.variance * parameter**2 > _LEAST_VARIANCE
            ),
            spherical=tuple((law, form) for law, form in forms if form > _LEAST_VARIANCE),
            categories=tuple(categories),
            noise=_variance(theta, released),
            additive=_variance(theta, design.additive_covariance(covariance)),
            bound=bound,
            constant=float(constant) if alone and not categories else None,
            sizes=terms,
        )

    def taken(self, rows: Any) -> "ReleasedScores":
        """Return the scores of some records, by a slice or their numbers."""
        return replace(
            self,
            linear=self.linear[rows],
            sizes=None if self.sizes is None else self.sizes[rows],
            categories=tuple(replace(column, codes=column.codes[rows]) for column in self.categories),
        )

    @property
    def estimates(self) -> FloatArray:
        """Unbiased estimates of the true scores."""
        return np.asarray(sum((column.unbiased(np.asarray) for column in self.categories), self.linear))

    @property
    def squares(self) -> FloatArray:
        """Unbiased estimates of the squares of the true scores."""
        total: FloatArray = np.square(self.estimates)
        total -= self.additive
        for column in self.categories:
            # The square of an estimate is no estimate of the square.
            total += column.unbiased(np.square) - column.unbiased(np.asarray) ** 2
        return total

    def sums_over_records(self, frequency: float, count: int, masses: FloatArray) -> ComplexArray:
        """Return sums over records of masses times unbiased estimates of exp(i k h u), k = 1 to count, shape (m, K).

        Parameters
        ----------
        frequency : float
            h.
        count : int
            K.
        masses : array of shape (m, n), float64
            The masses.
        """
        w = frequency * np.arange(1.0, count + 1)
        return sums_over_records(frequency * self.linear, self._tables(w), masses, count) * self._growths(w)

    def _tables(self, w: FloatArray) -> list[tuple[ComplexArray, IntegerArray]]:
        """Return by what columns of categories multiply waves of some frequencies, by category, and the categories."""
        return [(column.channeled(w), column.codes) for column in self.categories]

    def _growths(self, w: FloatArray) -> FloatArray:
        """Return what waves of some frequencies are multiplied with, so that the noise is undone but for channels."""
        factors = np.exp(self.normal * w**2 / 2)
        for noise, parameter in self.others:
            factors = factors * numeric(1 / noise.characteristic_function, (FREQUENCY,))(w * parameter)
        for law, form in self.spherical:
            assert isinstance(law, SphericalNoise)  # see require_waves
            square = sp.Symbol("square", real=True)
            factors = factors * numeric(law.factor(square), (square,))(-form * w**2)
        return np.asarray(factors)

    def noise_chances(self, width: float, count: int, *, most: float) -> FloatArray | None:
        """Return the chances of additive noise to move a score by k cells, k = -count to count.

        Parameters
        ----------
        width : float
            That of cells, positive.
        count : int
            How many cells to each side.
        most : float
            None is returned where the noise lets more than this share of the finest wave of cells through: it has no
            density that cells would tell.
        """
        size = 1 << (8 * count + 8).bit_length()
        waves = np.asarray(2 * math.pi * np.fft.rfftfreq(size, d=width)[1:], dtype=np.float64)
        shares = 1 / self._growths(waves)
        if not abs(shares[-1]) <= most:
            return None
        density = np.fft.fftshift(np.fft.irfft(np.concatenate([[1.0], shares]), size))
        found = np.maximum(density[size // 2 - count : size // 2 + count + 1], 0.0)
        return np.asarray(found / found.sum())

    def _real_sums(self, frequency: float, coefficients: ComplexArray) -> FloatArray:
        """Return the real parts of sums of unbiased estimates of waves, by coefficients (m, K): of shape (n, m)."""
        w = frequency * np.arange(1.0, coefficients.shape[1] + 1)
        return sums_of_waves(frequency * self.linear, self._tables(w), coefficients * self._growths(w))

    def slope(self, surrogate: Surrogate) -> FloatArray:
        """Return unbiased estimates of the slope of a surrogate at true scores."""
        return self.slopes(surrogate, [0.0])[:, 0]

    def slopes(self, surrogate: Surrogate, thresholds: Sequence[float]) -> FloatArray:
        """Return unbiased estimates of the slope of a surrogate at true scores less each threshold, shape (n, k)."""
        _, c1, c2 = surrogate.polynomial
        at = np.asarray(thresholds, dtype=np.float64)
        w = surrogate.frequency * np.arange(1, len(surrogate.cosines) + 1)
        # The slope at u - t is that of waves turned by w t.
        turned = w * (np.array(surrogate.sines) + 1j * np.array(surrogate.cosines)) * np.exp(-1j * w * at[:, None])
        found = self._real_sums(surrogate.frequency, turned)
        found += c1 + 2 * c2 * (self.estimates[:, None] - at)
        return found

    def sums_of_waves(self, frequency: float, coefficients: ComplexArray, middle: float) -> FloatArray:
        """Return unbiased estimates of the real parts of sums of waves exp(i k h (u - middle)), shape (n, m).

        Parameters
        ----------
        frequency : float
            h.
        coefficients : array of shape (m, K + 1), complex128
            Those of 1 and of the waves with k = 1, ..., K.
        middle : float
            Where waves have the phase 0.
        """
        w = frequency * np.arange(1, coefficients.shape[1])
        found = self._real_sums(frequency, coefficients[:, 1:] * np.exp(-1j * w * middle))
        found += coefficients[:, 0].real
        return found

    def less(self, threshold: float) -> "ReleasedScores":
        """Return the scores less a number."""
        if not threshold:
            return self
        sizes = None if self.sizes is None else self.sizes + abs(threshold)
        return replace(self, linear=self.linear - threshold, sizes=sizes)

    @property
    def has_exact_signs(self) -> bool:
        """Whether `signs` exists: all noise in the score is that of channels or on a grid, in few combinations."""
        return self.normal == 0 and not self.spherical and 0 < self.combinations <= _MOST_COMBINATIONS

    @property
    def combinations(self) -> int:
        """How many `atoms` stand for a record; 0 where a noise has no such inverse."""
        steps = [len(noise.inverse_differences or ()) for noise, _ in self.others]
        return math.prod(steps) * math.prod(len(column.values) for column in self.categories)

    def atoms(self) -> Iterator[tuple[FloatArray, FloatArray, FloatArray]]:
        """Yield scores, their signed weights and the sizes of their terms, each of shape (n,).

        Any function summed over them is unbiased: channels and noise on a grid are undone by signed sums over finitely
        many shifts, which need no smoothness. The function must be one of scores in exact arithmetic: weights are
        large and cancel, and equal scores of two released values differ by a rounding of their terms.
        """
        shifts = [
            [(offset * parameter, weight) for offset, weight in noise.inverse_differences or ()]
            for noise, parameter in self.others
        ]
        sizes = [len(column.values) for column in self.categories]
        terms = np.abs(self.linear) if self.sizes is None else self.sizes
        for choice in itertools.product(*map(range, sizes)):
            for moved in itertools.product(*shifts):
                at = self.linear + sum(offset for offset, _ in moved)
                weight = np.full(len(at), float(math.prod(factor for _, factor in moved)))
                size = terms + sum(abs(offset) for offset, _ in moved)
                for column, category in zip(self.categories, choice, strict=True):
                    at = at + column.values[category]
                    size = size + abs(column.values[category])
                    weight *= column.weights[column.codes, category]
                yield at, weight, size

    def signs(self) -> FloatArray:
        """Return exactly unbiased estimates of the signs of true scores."""
        total = np.zeros(len(self.linear))
        for at, weight, size in self.atoms():
            total += weight * np.where(np.abs(at) <= TIED * size, 0.0, np.sign(at))
        return total

    @property
    def zonal(self) -> tuple[ZonalNoise, float] | None:
        """The zonal noise in the score and its form s; None where there is none."""
        return next(((law, form) for law, form in self.spherical if isinstance(law, ZonalNoise)), None)

    def require_waves(self, what: str) -> None:
        """Raise NoExactCorrectionError where a wave in the score has no inverse under the noise of a column."""
        if any(isinstance(law, ZonalNoise) or law.factor(sp.Integer(0)) is None for law, _ in self.spherical):
            raise NoExactCorrectionError(
                f"{what} needs waves of the score, and the noise of a group of columns takes these to other functions. "
                'Take a loss, such as metric="log_loss", or release each column by itself.'
            )
        for noise, _ in self.others:
            if not noise.undoes_waves:
                raise NoExactCorrectionError(
                    f"{what} needs waves of the score, and the characteristic function {noise.formula} "
                    f"of a column's noise {NO_WAVES}. Release the column with a GaussianMechanism, a LaplaceMechanism "
                    "or a DiscreteLaplaceMechanism."
                )


def quantiles(values: FloatArray, weights: FloatArray, shares: Any) -> FloatArray:
    """Return quantiles of numbers with weights, on lines between the middles of what each has of all.

    Parameters
    ----------
    values : array of shape (m,), float64
        The numbers.
    weights : array of shape (m,), float64
        Their weights, of which one at least is positive.
    shares : array of float64
        Between 0 and 1.
    """
    values, weights = values[weights > 0], weights[weights > 0]
    order, share = np.argsort(values), weights / weights.sum()
    return np.asarray(np.interp(shares, np.cumsum(share[order]) - share[order] / 2, values[order]))


@dataclass(frozen=True)
class Spread:
    """Where true scores (true residuals) lie, as far as released records tell.

    Attributes
    ----------
    mean, variance : float
        Of the true scores; the variance plus two standard errors, since a range too small costs bias and one too large
        only variance.
    noise : float
        The noise variance of the score.
    bound : float
        The declared bound on its absolute value.
    lowest, highest : float
        The smallest and the largest released one.
    debiased : float
        The variance without the standard errors: what is left of that of the released scores without the noise. It may
        be negative.
    hidden : float
        The standard error of that by the noise alone: far scores, which tell the variance, have no part in it.
    """

    mean: float
    variance: float
    noise: float
    bound: float
    lowest: float
    highest: float
    debiased: float
    hidden: float

    @classmethod
    def of(cls, records: Records, theta: FloatArray, *, is_residual: bool = False) -> "Spread":
        """Return the spread of the true scores, or of true residuals, of all records: one pass over them, once."""
        told = functools.partial(cls._told, records, theta, is_residual)
        found: Spread = records.remembered(("spread", theta.tobytes(), is_residual), told)
        return found

    @classmethod
    def _told(cls, records: Records, theta: FloatArray, is_residual: bool) -> "Spread":
        middle = _middle(records, theta, is_residual)
        about = functools.partial(_moments, theta=theta, is_residual=is_residual, middle=middle)
        looked = list(records.over_parts(about))
        first, *squares = added(*(one.sums for one in looked))
        mean = float(first[1]) / records.total
        # The square about the mean, of (q, e, 1); the influence of a record on the variance is that less the variance.
        square = np.array([1.0, -2.0 * mean, mean * mean])
        with np.errstate(all="ignore"):
            variance = float(square @ first) / records.total
            influence = square - np.array([0.0, 0.0, variance])
            error = float(influence @ np.array(squares) @ influence)
        # Fourth powers may be beyond all numbers.
        error = math.inf if math.isnan(error) else max(error, 0.0)
        spread = max(variance, 0.0) + 2 * math.sqrt(error) / records.total
        low, high = min(one.low for one in looked), max(one.high for one in looked)
        bound = max(one.bound for one in looked)
        hidden = math.sqrt(math.fsum(one.hidden for one in looked)) / records.total
        return cls(middle + mean, spread, looked[0].noise, bound, low, high, variance, hidden)

    @property
    def shrinkage(self) -> float:
        """The standard deviation of true scores over that of released ones."""
        return math.sqrt(self.variance / (self.variance + self.noise)) if self.noise > 0 else 1.0

    @property
    def radius(self) -> float:
        """The range for a surrogate, in the units of the scores; 0 where all of them are."""
        far = _FARTHEST * self.shrinkage * max(self.highest - self.mean, self.mean - self.lowest)
        usual = abs(self.mean) + max(_RANGE * math.sqrt(self.variance), far)
        return self.bound if 0 < self.bound <= _WORTH * usual else usual

    def normal_scores(self) -> tuple[FloatArray, FloatArray]:
        """Return nodes and weights of the mean over normal scores of this mean and variance."""
        nodes = np.linspace(-_REACH, _REACH, NODES)
        chances = np.exp(-(nodes**2) / 2)
        scores: FloatArray = self.mean + math.sqrt(self.variance) * nodes
        return scores, chances / chances.sum()

    def mean_outside(self, radius: float, function: Callable[[FloatArray], FloatArray]) -> float:
        """Return the mean of a function over normal scores beyond a radius, and 0 within it."""
        scores, chances = self.normal_scores()
        outside = np.abs(scores) > radius
        return float(chances[outside] @ function(scores[outside])) if outside.any() else 0.0


def require_promised(records: Records, theta: FloatArray, radius: float, *, is_residual: bool) -> None:
    """Raise ValueError where released scores (residuals) say that true ones are not all within a promised radius R.

    With symmetric noise z of variance s the mean of (abs(u + z) - R)_+^2 is convex in u, and largest at u = R: it is
    E z_+^2 = s/2 there, and what noise beyond 2R makes, of which (abs(z) - 2R)_+^2 <= z^4/(64 R^2) is a bound.
    """
    target = records.release.target_noise if is_residual else None
    noise = Spread.of(records, theta, is_residual=is_residual).noise
    noise += 0.0 if target is None else target.variance  # type: ignore[union-attr]
    most = noise / 2 + min(noise, _KURTOSIS * noise**2 / (64 * radius**2)) / 2
    beyond = functools.partial(_beyond, theta=theta, is_residual=is_residual, radius=radius)
    # Both sums in one pass: records may lie in files, or elsewhere.
    first, second = records.reduced(beyond, added)
    mean, error = float(first / records.total), math.sqrt(float(second / records.total**2))
    if mean > most + _BROKEN * error:
        what = "residuals" if is_residual else "scores"
        raise ValueError(
            f"radius={radius:g} is no bound on the true {what}: released ones lie beyond it by more than their noise "
            "makes, and what a surrogate is there has little to do with the metric. Give a larger one, or leave it out."
        )


def _beyond(part: Records, *, theta: FloatArray, is_residual: bool, radius: float) -> FloatArray:
    """Return sums of w b and of (w b)^2, where b is the square of how far an estimate of a true score lies beyond R."""
    beyond = np.square(np.maximum(np.abs(_estimates(part, theta, is_residual)) - radius, 0.0))
    return np.array([part.weights @ beyond, part.weights**2 @ np.square(beyond)])


def _middle(records: Records, theta: FloatArray, is_residual: bool) -> float:
    """Return about where true scores (residuals) lie, as some records tell; 0 where that is no number."""
    weights = records.weights[records.some]
    with np.errstate(all="ignore"):
        middle = float(weights @ _estimates(records, theta, is_residual, records.some)) / float(weights.sum())
    return middle if math.isfinite(middle) else 0.0


@dataclass(frozen=True)
class _Moments:
    """What some records tell of true scores (residuals).

    Attributes
    ----------
    sums : array of shape (4, 3), float64
        Sums of w v, and of w^2 v v', where v is (q, e, 1): unbiased estimates of the square about a middle and of the
        distance from it.
    low, high : float
        The extremes of the estimates of records with weight.
    bound, noise : float
        As for `Spread`.
    hidden : float
        The variance of the sum of w q by normal noise.
    """

    sums: FloatArray
    low: float
    high: float
    bound: float
    noise: float
    hidden: float


def _moments(part: Records, *, theta: FloatArray, is_residual: bool, middle: float) -> _Moments:
    """Return the moments of some records about a middle: squares about 0 may leave nothing of how scores vary."""
    released = part.release.target_noise if is_residual else None
    extra = 0.0 if released is None else released.variance  # type: ignore[union-attr]
    scores = ReleasedScores.of(part, theta)

    def looked(rows: slice) -> tuple[FloatArray, float, float, float]:
        own, weights = scores.taken(rows), part.weights[rows]
        away = own.linear - part.target[rows] if is_residual else own.linear
        own = replace(own, linear=away - middle)
        found = np.ones((3, len(weights)))
        found[0], found[1] = own.squares, own.estimates
        found[0] -= extra
        low, high = extremes_with_weight(found[1], weights)
        first = found @ weights
        hidden = scores.noise * (4 * np.maximum(found[0], 0.0) + 2 * scores.noise)
        found *= weights
        return np.vstack([first, found @ found.T]), middle + low, middle + high, float(hidden @ weights**2)

    sums, lows, highs, hidden = zip(*over_chunks(len(part), looked, _NUMBERS), strict=True)
    bound = scores.bound
    if is_residual and part.release.target_noise is None:
        bound += float(np.abs(part.target[part.weights > 0]).max(initial=0.0))
    elif is_residual:
        declared = part.release.target_radius
        bound += math.inf if declared is None else declared
    return _Moments(added(*sums), min(lows), max(highs), bound, scores.noise, math.fsum(hidden))


def _estimates(part: Records, theta: FloatArray, is_residual: bool, rows: Any = slice(None)) -> FloatArray:
    """Return unbiased estimates of true scores, or of residuals, the score less a released target, of some records."""
    estimates = ReleasedScores.of(part, theta).taken(rows).estimates
    return estimates - part.target[rows] if is_residual else estimates


def _variance(theta: FloatArray, covariance: FloatArray) -> float:
    """Return theta' C theta, 0 where it is as good as that."""
    found = float(theta @ covariance @ theta)
    return found if found > _LEAST_VARIANCE else 0.0


def _require_size(theta: FloatArray, linear: FloatArray, coded: Sequence[FloatArray], covariance: FloatArray) -> None:
    """Raise where scores with noise are so small that the square of any is 0, and with it the variance of the noise.

    Parameters
    ----------
    theta : array of shape (q,), float64
        The parameters.
    linear : array of shape (n,), float64
        The scores of all columns but those of categories.
    coded : sequence of arrays, float64
        What each category of a column adds to the score.
    covariance : array of shape (q, q), float64
        That of the noise of the columns.
    """
    ends = ((values.max(initial=0.0), -values.min(initial=0.0)) for values in (linear, *coded))
    size = max((float(max(both)) for both in ends), default=0.0)
    if 0 < size < _LEAST_SIZE and np.any((theta != 0) & (np.diagonal(covariance) > 0)):
        raise ValueError(
            f"the scores of the model reach {size:.3g}, and scores with noise are squared: they must reach "
            f"{_LEAST_SIZE:g}, unless all parameters are 0. Check the units of the columns."
        )


def _require_additive_squares(noise: ZonalNoise) -> None:
    """Raise where squares of scores are not those of additive noise."""
    if not noise.has_additive_squares:
        raise NoExactCorrectionError(
            f"with this gamma the noise multiplies squares of scores by {noise.square_gain:.4g} of their own, which "
            "evaluation does not undo. Leave gamma out of the SphericalCapMechanism."
        )
