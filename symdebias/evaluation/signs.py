"""Signs of true scores: on which side of a threshold they lie, the noise of the score taken out.

The sign of a score has an exact inverse under channels and noise on a grid. Under other noise it is the slope of a
surrogate of abs(u), and what this slope is off is averaged over scores and labels for a bound on the bias.
"""

import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from scipy.optimize import brentq

from symdebias._arrays import FloatArray
from symdebias.evaluation.records import Records
from symdebias.evaluation.scores import NODES, ReleasedScores, Spread, quantiles
from symdebias.evaluation.sums import Sums
from symdebias.evaluation.unfolding import gathered_scores, unfolded_scores
from symdebias.exceptions import InferenceError, NoExactCorrectionError
from symdebias.noise import CoordinateNoise
from symdebias.transforms import surrogate, waves
from symdebias.transforms.surrogate import Surrogate
from symdebias.zonal import ZonalNoise, legendre

# What the squared error of the sign counts beside the variance in its design. Most of it oscillates about zero and
# averages out over scores.
SQUARED_ERROR = 0.03
# Waves of a surrogate of the sign, each of which is a pass over the records.
_MOST_WAVES = 400
# Of polynomials under noise on a sphere: the highest degree, the least factor lambda_k of a degree that is used, and
# how many likely scores and cells of released ones they are fitted to.
_HIGHEST_DEGREE, _LEAST_FACTOR = 16, 1e-3
_NODES, _COSINES, _CELLS = 400, 25, 128
# The least share that a wave takes scores to be drawn in to, of what their variance says.
_LEAST_SHARE = 0.1
# The variance of true scores must be so many of its standard errors by the noise, or the bias is not known.
_TOLD = 3.0
# A smooth sign is one from where it has this share of its height, which is looked for up to so many standard deviations
# of the noise, on a grid.
_RISEN, _RISE_WITHIN, _RISE_POINTS = 0.9, 5.0, 2001
# Thresholds within this share of that distance are looked at together.
_SHARED = 0.25
# How many scores stand for unfolded ones, and how far these are moved, in that distance.
_CLUMPED, _MOVES = 1001, (0.0, -1.0, -0.5, -0.25, 0.25, 0.5, 1.0)
# |u|, whose slope is the sign.
_ABSOLUTE = surrogate.Part(np.abs, np.sign, odd=False)


@dataclass(frozen=True)
class Likely:
    """What a bias has to hold for.

    Attributes
    ----------
    scores : array of shape (k,), float64
        Scores that stand for true ones, equally likely.
    labels : tuple of arrays of shape (k,), float64, or None
        Each the means of labels as -1 and +1 at these scores, and all of them possible; None where nothing is known.
    """

    scores: FloatArray
    labels: tuple[FloatArray | None, ...]


@dataclass(frozen=True)
class Signs:
    """Exactly unbiased estimates of the signs of true scores less a threshold.

    Attributes
    ----------
    records : Records
        The records.
    scores : mapping from bytes to ReleasedScores
        Those of all parameters that are to be compared, by the bytes of theta.
    """

    records: Records
    scores: Mapping[bytes, ReleasedScores]
    method: ClassVar[str] = "exact"

    def on(self, part: Records) -> Self:
        """Return those of some other records."""
        return replace(self, records=part, scores=_scores_at(part, self.scores))

    def at(self, theta: FloatArray, rows: Any, thresholds: Sequence[float] = (0.0,)) -> FloatArray:
        """Return estimates of the signs of some records at each threshold, shape (m, k)."""
        scores = self.scores[theta.tobytes()].taken(rows)
        return np.stack([scores.less(threshold).signs() for threshold in thresholds], axis=1)

    def errors(self, theta: FloatArray, scores: FloatArray, threshold: float = 0.0) -> FloatArray:
        """Return what signs are off at true scores."""
        return np.zeros(len(scores))

    def spread(self, theta: FloatArray) -> Spread:
        """Return where true scores lie."""
        return Spread.of(self.records, theta)

    def likely_scores(self, theta: FloatArray, count: int = NODES, *, narrow: bool = False) -> FloatArray:
        """Return scores that stand for true ones, equally likely: released ones, drawn in to the debiased variance.

        Of many records some tell their quantiles.

        Parameters
        ----------
        theta : array of shape (q,), float64
            The parameters.
        count : int
            How many.
        narrow : bool
            Whether that variance is two standard errors by the noise less, in place of two more. The noise hides which
            it is, and signs of scores that lie closer together are resolved less: a bias has to hold for both.
        """
        spread = self.spread(theta)
        shrinkage = spread.shrinkage
        if narrow and spread.noise > 0:
            asked = ("narrow", theta.tobytes())
            shrinkage = min(shrinkage, self.records.remembered(asked, functools.partial(self._narrow, theta)))
        likely: FloatArray = spread.mean + (self._quantiles(theta, count) - spread.mean) * shrinkage
        return likely

    def _narrow(self, theta: FloatArray) -> float:
        """Return by which factor released scores are drawn in at most."""
        told = Spread.of(self.records, theta)
        variance = max(told.debiased - 2 * told.hidden, 0.0)
        return math.sqrt(variance / (variance + self.spread(theta).noise))

    def _quantiles(self, theta: FloatArray, count: int) -> FloatArray:
        """Return quantiles of released scores, found once."""
        found: FloatArray = self.records.remembered(
            ("quantiles of scores", theta.tobytes(), count), functools.partial(self._found_quantiles, theta, count)
        )
        return found

    def _found_quantiles(self, theta: FloatArray, count: int) -> FloatArray:
        some = self.records.some
        released = self.scores[theta.tobytes()].taken(some).estimates
        return quantiles(released, self.records.weights[some], (np.arange(count) + 0.5) / count)

    def cases(self, theta: FloatArray, label_model: str) -> list[Likely]:
        """Return what a bias has to hold for: scores drawn in, clumped ones, and narrow ones last.

        Labels of ``"logistic"`` are logistic in the score, with the debiased means of y and of y times a smoothed sign
        of u, and with the latter two standard errors less and more: where it is less, so is the metric, and labels are
        steeper than they seem. Of ``"any"`` there are none.
        """
        wide, narrow = (self.likely_scores(theta, narrow=narrow) for narrow in (False, True))
        clumped = self._clumped_scores(theta)
        if label_model == "any":
            return [Likely(scores, (None,)) for scores in (wide, *clumped, narrow)]
        light = self.records.light
        own = self if light is self.records else self.on(light)
        sums = Sums.together(self.records.over_parts(functools.partial(_label_sums, signs=own, theta=theta)))
        moved = 2 * sums.error(sums.only(1)) * sums.only(1)

        def labels(scores: FloatArray, move: float = 0.0) -> FloatArray:
            units = scores / (float(np.std(scores)) or 1.0)
            return _logistic_labels(units, self._steps_at(theta, scores), sums.means + move * moved)

        of_clumped = tuple(labels(scores) for scores in clumped[:1])
        return [
            Likely(wide, tuple(labels(wide, move) for move in (-1.0, 0.0, 1.0))),
            *(Likely(scores, of_clumped) for scores in clumped),
            Likely(narrow, (labels(narrow),)),
        ]

    def gathered(self, theta: FloatArray, threshold: float) -> list[Likely]:
        """Return what a bias has to hold for besides, where true scores seem to be all the same next to a threshold.

        The labels there are those of a place that no label model would have to hit, and may be any.
        """
        return [Likely(scores, (None,)) for scores in self._gathered_scores(theta, threshold)]

    def gathered_near(self, theta: FloatArray, thresholds: Sequence[float]) -> list[list[Likely]]:
        """Return the same for each of many finite thresholds, by one that is near, whose scores are next to both."""
        apart = _SHARED * self._rise(theta)
        if apart == 0:
            return [[] for _ in thresholds]
        places = [round(threshold / apart) for threshold in thresholds]
        found = {place: self.gathered(theta, apart * place) for place in set(places)}
        return [found[place] for place in places]

    def _gathered_scores(self, theta: FloatArray, threshold: float) -> list[FloatArray]:
        """Return likely scores with one place next to a threshold; none where released ones do not say so."""
        return []

    def _rise(self, theta: FloatArray) -> float:
        """Return how far from a threshold a smooth sign is one; 0 where signs are not smooth."""
        return 0.0

    def _clumped_scores(self, theta: FloatArray) -> list[FloatArray]:
        """Return likely scores that lie together where the released ones say so; none where that is no question."""
        return []

    def _steps_at(self, theta: FloatArray, scores: FloatArray) -> FloatArray:
        """Return smoothed signs of scores."""
        return np.sign(scores)

    def steps(self, theta: FloatArray, rows: Any) -> FloatArray:
        """Return unbiased estimates of the smoothed signs of the scores of some records."""
        return self.at(theta, rows)[:, 0]


@dataclass(frozen=True)
class SmoothSigns(Signs):
    """The same with the slope of a surrogate of abs(u) for the sign.

    Attributes
    ----------
    smooth : Surrogate
        What stands for abs(u).
    spreads : mapping from bytes to Spread
        Where true scores lie, by the bytes of theta.
    """

    smooth: Surrogate
    spreads: Mapping[bytes, Spread]
    method: ClassVar[str] = "surrogate"

    def at(self, theta: FloatArray, rows: Any, thresholds: Sequence[float] = (0.0,)) -> FloatArray:
        """Return estimates of the slope of the surrogate at some records, shape (m, k)."""
        return self.scores[theta.tobytes()].taken(rows).slopes(self.smooth, thresholds)

    def errors(self, theta: FloatArray, scores: FloatArray, threshold: float = 0.0) -> FloatArray:
        """Return slopes less signs at true scores."""
        at = scores - threshold
        return np.asarray(self.smooth.slope(at) - np.sign(at))

    def spread(self, theta: FloatArray) -> Spread:
        """Return where true scores lie."""
        return self.spreads[theta.tobytes()]

    def _narrow(self, theta: FloatArray) -> float:
        """Return the factor at which a wave of scores has its debiased mean plus two standard errors, if it is less.

        Far scores make the variance, and signs are off among those in the middle, which a wave of their width tells.
        """
        middle, most = self.spread(theta).mean, super()._narrow(theta)
        away = self._quantiles(theta, NODES) - middle
        width = float(np.median(np.abs(away)))
        if not width > 0:
            return most
        wave = functools.partial(_wave_sums, theta=theta, frequency=1 / width, middle=middle)
        sums = Sums.together(self.records.over_parts(wave))
        wanted = sums.mean(sums.only(0)) + 2 * sums.error(sums.only(0))

        def excess(factor: float) -> float:
            return float(np.mean(np.cos(factor * away / width))) - wanted

        if excess(most) >= 0:
            return most
        # Scores that are all the same would have no order to be wrong about.
        least = _LEAST_SHARE * most
        return least if excess(least) <= 0 else float(brentq(excess, least, most, xtol=1e-12))

    def _clumped_scores(self, theta: FloatArray) -> list[FloatArray]:
        """Return unfolded scores, where they are, and as far to each side of it as a smooth sign rises within.

        Over scores that are spread smoothly errors of signs average out. Where many share a score they do not, and the
        noise hides on which side of a threshold that is.
        """
        some = self.records.some
        released, weights = self.scores[theta.tobytes()].taken(some), self.records.weights[some]
        start = self.likely_scores(theta)
        found = unfolded_scores(released, weights, start, _CLUMPED)
        if found is None:
            return []
        return [found + share * self._rise(theta) for share in _MOVES]

    def _rise(self, theta: FloatArray) -> float:
        at = np.linspace(0.0, _RISE_WITHIN * math.sqrt(self.spread(theta).noise), _RISE_POINTS)
        risen = self.smooth.slope(at) >= _RISEN
        return float(at[np.argmax(risen)] if risen.any() else at[-1])

    def _gathered_scores(self, theta: FloatArray, threshold: float) -> list[FloatArray]:
        some = self.records.some
        released, weights = self.scores[theta.tobytes()].taken(some), self.records.weights[some]
        return gathered_scores(released, weights, self.likely_scores(theta), threshold, self._rise(theta), _CLUMPED)

    def _steps_at(self, theta: FloatArray, scores: FloatArray) -> FloatArray:
        return self._step(theta).slope(scores)

    def steps(self, theta: FloatArray, rows: Any) -> FloatArray:
        """Return unbiased estimates of slopes, damped by the noise."""
        return self.scores[theta.tobytes()].taken(rows).slope(self._step(theta))

    def _step(self, theta: FloatArray) -> Surrogate:
        return _damped(self.smooth, self.spread(theta).noise)


@dataclass(frozen=True)
class ZonalSigns(Signs):
    """The same under noise on a sphere, with polynomials of the cosine of the score for the sign.

    One for each theta and threshold; theta = 0 has no noise in its score, and signs that are exact. A score of the
    whole vector is a fixed length times a cosine, and the noise multiplies the Legendre polynomial of degree k of it by
    lambda_k.
    """

    method: ClassVar[str] = "surrogate"
    _found: dict[tuple[bytes, float | str], FloatArray] = field(default_factory=dict, repr=False, compare=False)

    def at(self, theta: FloatArray, rows: Any, thresholds: Sequence[float] = (0.0,)) -> FloatArray:
        """Return estimates of the polynomials at some records, shape (m, k)."""
        if self.scores[theta.tobytes()].zonal is None:
            return super().at(theta, rows, thresholds)
        released = self.legendre(theta, self.scores[theta.tobytes()].taken(rows).estimates, released=True)
        return np.stack([released @ self._coefficients(theta, threshold) for threshold in thresholds], axis=1)

    def errors(self, theta: FloatArray, scores: FloatArray, threshold: float = 0.0) -> FloatArray:
        """Return polynomials less signs at true scores."""
        if self.scores[theta.tobytes()].zonal is None:
            return super().errors(theta, scores, threshold)
        polynomial = self.legendre(theta, scores) @ self._coefficients(theta, threshold)
        return np.asarray(polynomial - np.sign(scores - threshold))

    def legendre(self, theta: FloatArray, scores: FloatArray, *, released: bool = False) -> FloatArray:
        """Return the Legendre polynomials that the noise lets through at scores, or what is unbiased for them.

        The shape is (m, K).
        """
        law, reach, constant = self._sphere(theta)
        factors = law.factors(_HIGHEST_DEGREE)
        kept = np.abs(factors) >= _LEAST_FACTOR
        cosines = np.clip((scores - constant) * (law.gain if released else 1.0) / reach, -1.0, 1.0)
        values = legendre(_HIGHEST_DEGREE, law.dimension + 1, cosines)[kept].T
        return np.asarray(values / factors[kept] if released else values)

    def released_rule(self, theta: FloatArray, count: int = _CELLS) -> tuple[FloatArray, FloatArray]:
        """Return released scores and their probabilities where true scores are the likely ones."""
        law, reach, constant = self._sphere(theta)
        cosines = np.clip((self.likely_scores(theta, _COSINES) - constant) / reach, -1.0, 1.0)
        middles = (2 * np.arange(count) + 1) / count - 1
        return constant + middles * reach / law.gain, law.transition(count, cosines).mean(axis=1)

    def _sphere(self, theta: FloatArray) -> tuple[ZonalNoise, float, float]:
        """Return the noise, the largest score of the vector, and what stands beside it in the score."""
        scores = self.scores[theta.tobytes()]
        zonal = scores.zonal
        assert zonal is not None
        assert scores.constant is not None
        return zonal[0], zonal[0].reach(zonal[1]), scores.constant

    def fitted(
        self, theta: FloatArray, key: float | str, function: Callable[[FloatArray], FloatArray], records: float
    ) -> FloatArray:
        """Return the coefficients of least mean squared error over likely scores, the variance as ridge.

        Parameters
        ----------
        theta : array of shape (q,), float64
            The parameters.
        key : float or str
            What the function is remembered by.
        function : callable
            Of scores.
        records : float
            The sample size; larger ones buy less bias for more variance.
        """
        if (theta.tobytes(), key) not in self._found:
            nodes = self.likely_scores(theta, _NODES)
            at, chances = self.released_rule(theta)
            price = np.sqrt(chances / max(1.0, records))
            self._found[theta.tobytes(), key] = least_squares(
                self.legendre(theta, nodes) / math.sqrt(_NODES),
                self.legendre(theta, at, released=True) * price[:, None],
                function(nodes) / math.sqrt(_NODES),
            )
        return self._found[theta.tobytes(), key]

    def _coefficients(self, theta: FloatArray, threshold: float) -> FloatArray:
        records = SQUARED_ERROR * self.records.effective
        return self.fitted(theta, threshold, lambda nodes: np.asarray(np.sign(nodes - threshold)), records)

    def _steps_at(self, theta: FloatArray, scores: FloatArray) -> FloatArray:
        if self.scores[theta.tobytes()].zonal is None:
            return super()._steps_at(theta, scores)
        return np.asarray(self.legendre(theta, scores) @ self._coefficients(theta, 0.0))


def least_squares(fitted: FloatArray, priced: FloatArray, wanted: FloatArray) -> FloatArray:
    """Return the coefficients with least squared errors from what is wanted, and least squares of what is priced."""
    rows = np.concatenate([fitted, priced])
    norms = np.linalg.norm(rows, axis=0)
    norms = np.where(norms > 0, norms, 1.0)
    found = np.linalg.lstsq(rows / norms, np.concatenate([wanted, np.zeros(len(priced))]), rcond=1e-12)[0]
    return np.asarray(found / norms)


def signs_of(
    what: str,
    records: Records,
    thetas: Sequence[FloatArray],
    *,
    radius: float | None,
    thresholds: Sequence[float] = (0.0,),
) -> Signs:
    """Return signs for all thetas that are to be compared; `what` is the metric that asks for them.

    Raises
    ------
    NoExactCorrectionError
        The noise lets no sign be told.
    InferenceError
        The noise hides how far true scores are apart.
    """
    scores = scores_of(what, records, thetas)
    if all(one.has_exact_signs for one in scores.values()):
        return Signs(records, scores)
    for theta in thetas:
        _require_spread(what, records, theta)
    if any(one.zonal for one in scores.values()):
        found = ZonalSigns(records, scores)
        # Parts of the records take what all of them tell.
        for theta in thetas:
            found.at(theta, slice(0, 1), [0.0, *thresholds])
        return found
    spreads = {theta.tobytes(): Spread.of(records, theta) for theta in thetas}
    reach = max(spread.radius for spread in spreads.values()) if radius is None else radius
    smooth = sign_surrogate(
        reach + max(map(abs, thresholds)),
        max(spread.noise for spread in spreads.values()),
        SQUARED_ERROR * records.effective,
        usual_size([one.taken(records.some).estimates for one in scores.values()], records.weights[records.some]),
    )
    return SmoothSigns(records, scores, smooth, spreads)


def scores_of(what: str, records: Records, thetas: Sequence[FloatArray]) -> dict[bytes, ReleasedScores]:
    """Return the scores at each theta, of which signs can be told.

    Raises
    ------
    NoExactCorrectionError
        The noise lets no sign be told.
    """
    if isinstance(records.release.target_noise, CoordinateNoise):
        raise NoExactCorrectionError(
            f"{what} is the mean of the sign of a score times a label, and this release gives both one noise that is "
            "undone in residuals alone. Evaluate the squared error, or release labels apart or in margins."
        )
    scores = {theta.tobytes(): ReleasedScores.of(records, theta) for theta in thetas}
    for one in scores.values():
        if one.has_exact_signs:
            continue
        if one.zonal is None:
            one.require_waves(what)
        elif one.constant is None:
            raise NoExactCorrectionError(
                f"{what} needs the sign of the score, and under a spherical cap that is told for scores of the noised "
                'vector alone: other columns are in this score. Take a loss, such as metric="log_loss", or release '
                "all columns in the vector."
            )
    return scores


def _require_spread(what: str, records: Records, theta: FloatArray) -> None:
    """Raise InferenceError where the spread of true scores is not told apart from 0.

    What signs are off is judged at scores of that spread. A narrower one, which the noise would hide, is resolved less.
    """
    spread = Spread.of(records, theta)
    variance, error, noise = spread.debiased, spread.hidden, spread.noise
    if not variance > _TOLD * error and error > 0:
        raise InferenceError(
            f"{what} needs the side of a threshold that true scores lie on, and how far they are apart is hidden: "
            f"their variance is {variance:.3g}, with a standard error of {error:.2g}, under noise of variance "
            f"{noise:.3g}. Evaluate on more records, release with less noise, or evaluate a loss."
        )


def _wave_sums(part: Records, *, theta: FloatArray, frequency: float, middle: float) -> Sums:
    """Return the sums of unbiased estimates of cos(w (u - middle)) at true scores u."""
    scores = ReleasedScores.of(part, theta)

    def summed(rows: slice) -> Sums:
        waves = scores.taken(rows).sums_of_waves(frequency, np.array([[0.0, 1.0]], dtype=complex), middle)
        return Sums.of(waves, *part.counted_by(rows))

    return Sums.together(part.over_pieces(summed))


def _label_sums(part: Records, *, signs: Signs, theta: FloatArray) -> Sums:
    """Return the sums of labels, and of labels times smoothed signs of their scores."""
    own = signs if part is signs.records else signs.on(part)
    labels = part.signs_of_labels()

    def summed(rows: slice) -> Sums:
        values = np.stack([labels[rows], labels[rows] * own.steps(theta, rows)], axis=1)
        return Sums.of(values, *part.counted_by(rows))

    return Sums.together(part.over_pieces(summed))


def _scores_at(part: Records, thetas: Iterable[bytes]) -> dict[bytes, ReleasedScores]:
    """Return the scores of some records at parameters that are given by their bytes."""
    return {theta: ReleasedScores.of(part, np.frombuffer(theta)) for theta in thetas}


def sign_surrogate(radius: float, noise: float, records: float, unit: float) -> Surrogate:
    """Return a surrogate of abs(u) for a range, with as many waves as the finest detail that the noise allows needs.

    A fixed number of waves over the range of far scores is coarse where most scores are. It would be off by what the
    farthest record of a sample happens to be, an error that no standard error over records holds.
    Scores have half the size `unit` as a rule.
    """
    records = max(1.0, records)
    count = surrogate.waves_needed(radius / unit, noise / unit**2, records)
    if count > _MOST_WAVES:
        raise NoExactCorrectionError(
            f"scores reach {radius / unit / 2:,.0f} times their usual size, and a sign over that range takes {count:,} "
            f"waves; at most {_MOST_WAVES} are summed. Clip the features at the release, give radius= where scores "
            "are bounded, or evaluate another metric."
        )
    (one,) = waves.design(
        [_ABSOLUTE.in_units(unit)], radius=radius / unit, score_variance=noise / unit**2, records=records, waves=count
    ).surrogates
    return one.from_units(unit)


def usual_size(scores: Sequence[FloatArray], weights: FloatArray) -> float:
    """Return half the scale of released scores, by their median: resolution about 0 must not hang on the tails."""
    sizes, own = np.abs(np.concatenate(scores)), np.tile(weights, len(scores))
    return float(quantiles(sizes, own, 0.5)) / 1.35 or float(np.average(sizes, weights=own)) or 1.0


def _damped(smooth: Surrogate, variance: float) -> Surrogate:
    """Return a surrogate averaged over normal shifts of the score, but for a constant."""
    frequencies = smooth.frequency * np.arange(1, len(smooth.cosines) + 1)
    damped = np.exp(-variance * frequencies**2 / 2)
    return Surrogate(smooth.frequency, smooth.polynomial, tuple(damped * smooth.cosines), tuple(damped * smooth.sines))


def _logistic_labels(scores: FloatArray, steps: FloatArray, moments: FloatArray) -> FloatArray:
    """Return E[y | u] = tanh((a + b u)/2) at equally likely scores, with a and b from the means of y and y step(u)."""
    basis, tests = np.stack([np.ones_like(scores), scores]), np.stack([np.ones_like(scores), steps])
    parameters = np.zeros(2)
    for _ in range(100):
        mean = np.tanh(parameters @ basis / 2)
        slope = (tests * ((1 - mean**2) / 2)) @ basis.T / len(scores)
        step = np.linalg.lstsq(slope, moments - tests @ mean / len(scores), rcond=1e-12)[0]
        # Moments that no such labels have run away: the steepest are those of a step.
        length = float(np.linalg.norm(step))
        parameters = parameters + step * min(1.0, 2.0 / length if length > 0 else 1.0)
        if length <= 1e-9 * (1 + float(np.linalg.norm(parameters))):
            break
    return np.asarray(np.tanh(parameters @ basis / 2))
