"""How much of the curvature at a minimum is the loss's, and how much the surrogate's own or that of the noise.

A loss levels out where it has parted the records: where a category has one label, no parameter is too long for it. A
surrogate is close to it there, and still has waves, each with a minimum whose place says nothing. Its curvature is as
sharp as any other's, and a bound on the bias that divides by it is small. Where the score is long, the noise that its
waves multiply makes minima of its own as well. So the curvature is compared with that of the loss at true scores.
"""

import functools
import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh

from symdebias._arrays import FloatArray, IntegerArray
from symdebias._rows import parts_of
from symdebias.correction import Correction
from symdebias.solvers.held import Frame
from symdebias.solvers.metric import definite
from symdebias.solvers.quadratic_pilot import estimated_multiplier
from symdebias.solvers.score_sample import ScoreSample
from symdebias.solvers.scores import ReleasedRecords
from symdebias.transforms.surrogate import Part, Scores, Surrogate

# Released scores for which the distribution of true ones is worked out; between them it is read off by lines.
_RELEASED = 300
# Arrays of a part of the records that are at hand at a time, and chances that are worked out at a time.
_AT_ONCE, _CHANCES = 4, 2**13
# The share of noise in the second moment of a released direction up to which its records tell of it.
_MOST_NOISE = 0.3
# How many of its standard errors a share is to be above what is allowed.
ERRORS_OF_SHARE = 2.0
# A slope that changes by more than this share of its changes on an interval that was halved so often jumps.
# Kinks of a loss of margins are among these.
_HALVINGS, _JUMP, _KINKS_WITHIN = 40, 1e-3, 8.0
# Parts of half a wave that the curvature beside a kink is taken over.
_SHARES_OF_WAVE = 0.25, 0.5, 1.0
# Half the width of the cell of a score that stands alone.
_CELL = 1e-3
_NONE_HELD = Frame()


@dataclass(frozen=True)
class ReleasedGrid:
    """Released scores for which true ones are looked at: dense where many are, and as far as they reach.

    They are at equal distances by the inverse hyperbolic sine.

    Attributes
    ----------
    values : array of shape (k,), float64
        The scores, from the least to the largest.
    middle, core : float
        What scores are centred by and divided by.
    """

    values: FloatArray
    middle: float
    core: float

    @classmethod
    def of(cls, released: FloatArray) -> "ReleasedGrid":
        """Return that of some released scores."""
        middle = float(np.mean(released))
        core = float(np.sqrt(np.mean((released - middle) ** 2))) or 1.0
        low, high = (math.asinh((end - middle) / core) for end in (float(released.min()), float(released.max())))
        return cls(np.asarray(middle + core * np.sinh(np.linspace(low, high, _RELEASED))), middle, core)

    def places(self, released: FloatArray) -> tuple[IntegerArray, FloatArray]:
        """Return which value is below each of some scores, and how far it is on the way to the next.

        Parameters
        ----------
        released : array of shape (m,), float64
            Scores that the grid reaches over.
        """
        low, high = (math.asinh((end - self.middle) / self.core) for end in (self.values[0], self.values[-1]))
        if not high > low:
            return np.zeros(len(released), np.int64), np.zeros(len(released))
        last = len(self.values) - 1
        # Many times as fast as a search; where rounding puts a score beside its cell, it is next to the edge.
        turned = np.arcsinh((released - self.middle) / self.core)
        below = np.clip((turned - low) * (last / (high - low)), 0, last - 1).astype(np.int64)
        widths = np.diff(self.values)[below]
        shares = np.divide(released - self.values[below], widths, where=widths > 0, out=np.zeros(len(released)))
        return below, shares

    def between(self, numbers: FloatArray, places: tuple[IntegerArray, FloatArray]) -> FloatArray:
        """Return what lines between numbers at the values come to at `places`."""
        below, shares = places
        return np.asarray(numbers[below] + shares * np.diff(numbers)[below])


@dataclass(frozen=True)
class ReleasedScores:
    """What released scores (residuals) say of true ones at a parameter.

    Attributes
    ----------
    sample : ScoreSample
        The records that scores are estimated from.
    theta : array of shape (q,), float64
        The parameter.
    is_residual : bool
        Whether the target is taken off scores.
    grid : ReleasedGrid
        Released scores.
    true : Scores
        The distribution of true ones.
    variance : float
        The noise of a released score.
    """

    sample: ScoreSample
    theta: FloatArray
    is_residual: bool
    grid: ReleasedGrid
    true: Scores
    variance: float

    @classmethod
    def of(cls, known: ReleasedRecords, theta: FloatArray, *, quick: bool = False) -> "ReleasedScores":
        """Return what those of the records that scores are estimated from say.

        Parameters
        ----------
        known : ReleasedRecords
            What is known of true scores, not on a sphere.
        theta : array of shape (q,), float64
            The parameter.
        quick : bool
            As for `ReleasedRecords.scores`.
        """
        sample, is_residual = known.sample_of(), known.parts.is_residual
        grid = ReleasedGrid.of(sample.released(theta, is_residual=is_residual))
        variance = known.score_variance(theta) + known.target_noise
        return cls(sample, theta, is_residual, grid, known.scores(theta, quick=quick), variance)

    def means(self, numbers: FloatArray) -> FloatArray:
        """Return the means of numbers at true scores given each of the grid.

        Parameters
        ----------
        numbers : array of shape (v, k), float64
            Some numbers for each of the values of `true`.

        Returns
        -------
        array of shape (grid, k), float64
        """
        released = self.grid.values
        found = np.empty((len(released), numbers.shape[1]))
        for part in parts_of(len(released), len(numbers), _CHANCES):
            found[part] = _chances_given(self.true, released[part], self.variance) @ numbers
        return found

    def places(self, part: slice) -> tuple[IntegerArray, FloatArray]:
        """Return where the released scores of a part of the sample are on the grid; see `ReleasedGrid.places`."""
        return self.grid.places(self.sample.released(self.theta, part, is_residual=self.is_residual))


@dataclass(frozen=True)
class ExcessCurvature:
    """What the curvature of a surrogate has more than that of the loss, at true scores.

    Attributes
    ----------
    known : ReleasedRecords
        What is known of true scores, not on a sphere.
    theta : array of shape (q,), float64
        The parameters.
    multipliers : list of array of shape (m,), float64
        What the parts of the loss are multiplied with in the records that scores are estimated from.
    excess : list of array, float64
        For each part how much more curvature its surrogate has, in the mean over cells of true scores.
    plain : list of array, float64
        That of each part itself.
    frame : Frame
        What parameters are; one that is held has no curvature.
    """

    known: ReleasedRecords
    theta: FloatArray
    multipliers: list[FloatArray]
    excess: list[FloatArray]
    plain: list[FloatArray]
    frame: Frame = _NONE_HELD

    @classmethod
    def of(
        cls, known: ReleasedRecords, correction: Correction, theta: FloatArray, frame: Frame = _NONE_HELD
    ) -> "ExcessCurvature":
        """Return that of a surrogate, resolved, at some parameters."""
        # Released labels are not the true ones, and go together with columns less than these do.
        target = known.sample_of().target
        multipliers = [estimated_multiplier(correction, part.multiplier, target) for part in known.parts.replaced]
        return cls(known, theta, multipliers, *_curvatures(known, correction, known.scores(theta)), frame)

    def most(self, hessian: FloatArray) -> float:
        """Return a bound on the shares of `share`, for a small part of its time.

        With e the largest size of d(u) over all scores and S the second moments of released rows, a'D a is at most
        e (a'S a + a'N a) <= 2 e a'S a with the noise N.

        Parameters
        ----------
        hessian : array of shape (q, q), float64
            As for `share`.

        Raises
        ------
        LinAlgError
            H is not positive definite.
        """
        pairs = zip(self.multipliers, self.excess, strict=True)
        sizes = (float(np.abs(one).max() * np.abs(other).max()) for one, other in pairs)
        return 2 * sum(sizes) * float(eigh(self.known.metric, hessian, eigvals_only=True)[-1])

    def share(self, hessian: FloatArray) -> tuple[float, float, FloatArray]:
        """Return the share of the curvature in some direction that the surrogate has for certain and the loss has not.

        With d(u) the excess at a true score u, D = E[d(u) x x'] and H the Hessian, it is a'D a/a'H a of the eigenvector
        a, of D beside H, for which it is the largest when `ERRORS_OF_SHARE` of its standard errors are taken off. The
        mean is over the records that scores are estimated from: d(u) is its mean given the released score, and x x' is
        that of the released row less the noise. Where noise is most of a released row that says little, and directions
        with more of it than `_MOST_NOISE` are left out.

        Parameters
        ----------
        hessian : array of shape (q, q), float64
            H, with its penalty, positive definite.

        Returns
        -------
        share : float
            The share; 0 where all directions are left out.
        error : float
            Its standard error.
        direction : array of shape (q,), float64
            a.

        Raises
        ------
        LinAlgError
            H is not positive definite.
        """
        return self._clearest(hessian, self.excess, 1.0)

    def of_the_loss(self, hessian: FloatArray, penalty: FloatArray) -> tuple[float, float, FloatArray]:
        """Return the share of the curvature in some direction that the penalised loss has at most.

        With l the loss and P the diagonal matrix of its penalty, it is a'(E[l''(u) x x'] + P)a/a'H a of the eigenvector
        a for which it is the least when `ERRORS_OF_SHARE` of its standard errors are added. It is 1 but for the noise
        where H is what it should be, and about 0 where the noise has made the curvature. The mean is found as in
        `share`.

        Parameters
        ----------
        hessian : array of shape (q, q), float64
            H, with its penalty, positive definite.
        penalty : array of shape (q,), float64
            l2 for each parameter.

        Returns
        -------
        share : float
            The share; 1 where all directions are left out.
        error : float
            Its standard error.
        direction : array of shape (q,), float64
            a.

        Raises
        ------
        LinAlgError
            H is not positive definite.
        """
        return self._clearest(hessian, self.plain, -1.0, penalty)

    def _clearest(
        self, hessian: FloatArray, curvatures: list[FloatArray], sign: float, penalty: FloatArray | float = 0.0
    ) -> tuple[float, float, FloatArray]:
        """Return the share of some curvatures that is the largest for certain, or with a sign of -1 the least.

        To them comes a curvature that is certain, the penalty.
        """
        known, theta = self.known, self.theta
        sample = known.sample_of()
        curved = self._at_released(curvatures)
        weights = sample.chances * curved
        own = sample.products(weights) - known.noise * weights.sum()
        del weights
        own += np.diag(np.broadcast_to(penalty, len(theta)))
        of_noise, turned = eigh(self.frame.freed(known.noise), definite(self.frame.freed(known.metric)))
        turned = self.frame.directions(turned[:, of_noise <= _MOST_NOISE])
        if not turned.size:
            return (1 - sign) / 2, 0.0, np.zeros(len(theta))
        shares, turns = eigh(turned.T @ (own + own.T) @ turned / 2, turned.T @ hessian @ turned)
        # Far records may make a share as large as they are few, and hide what others say of another direction.
        directions = turned @ turns
        errors = self._errors(directions, curved)
        clearest = int(np.argmax(sign * shares - ERRORS_OF_SHARE * errors))
        return float(shares[clearest]), float(errors[clearest]), directions[:, clearest]

    def _errors(self, directions: FloatArray, curved: FloatArray) -> FloatArray:
        """Return the standard errors of mean curvatures in some directions, the columns of an array.

        Parameters
        ----------
        directions : array of shape (q, k), float64
            The directions.
        curved : array of shape (m,), float64
            The curvature of each record that scores are estimated from.
        """
        sample = self.known.sample_of()
        of_noise = np.einsum("ik,ij,jk->k", directions, self.known.noise, directions)

        def each(part: slice) -> FloatArray:
            return np.asarray(((sample.rows[part] @ directions) ** 2 - of_noise) * curved[part, None])

        parts = list(sample.parts(_AT_ONCE * directions.shape[1]))
        mean = sum(sample.chances[part] @ each(part) for part in parts)
        return np.sqrt(sum(sample.chances[part] ** 2 @ (each(part) - mean) ** 2 for part in parts))

    def _at_released(self, curvatures: list[FloatArray]) -> FloatArray:
        """Return the mean curvature given the released score of each record that scores are estimated from."""
        released = self._released
        numbers = released.means(np.stack(curvatures, axis=1)).T
        found = np.zeros(len(released.sample.rows))
        for part in released.sample.parts():
            places = released.places(part)
            for multiplier, one in zip(self.multipliers, numbers, strict=True):
                found[part] += multiplier[part] * released.grid.between(one, places)
        return found

    @functools.cached_property
    def _released(self) -> ReleasedScores:
        return ReleasedScores.of(self.known, self.theta)


def _curvatures(
    known: ReleasedRecords, correction: Correction, scores: Scores
) -> tuple[list[FloatArray], list[FloatArray]]:
    """Return for each part how much more curvature its surrogate has than it, and its own, in the mean over cells.

    That of a loss with kinks is the largest over the cell and up to half a wave: at a kink a surrogate bends the more.
    """
    assert correction.surrogates is not None
    values = scores.values
    between = (values[1:] + values[:-1]) / 2
    # One score, as where theta is an intercept, has a cell as well.
    ends = (between[0], between[-1]) if len(between) else (values[0] - _CELL, values[0] + _CELL)
    edges = np.concatenate([[2 * values[0] - ends[0]], between, [2 * values[-1] - ends[1]]])
    edges.sort()
    middles, widths = (edges[1:] + edges[:-1]) / 2, np.diff(edges)
    excess, plain = [], []
    for part, surrogate in zip(known.parts.replaced, correction.surrogates.surrogates, strict=True):
        # Slopes are what is differenced: a loss may have kinks. A surrogate of it bends beside them as well, as far off
        # as its waves are long, and that is no curvature of its own.
        bends = np.diff(part.numbers.slope(edges)) / widths
        if _has_kink(part.numbers):
            for share in _SHARES_OF_WAVE:
                halves = np.maximum(widths, share * _half_wave(surrogate)) / 2
                wider = (part.numbers.slope(middles + halves) - part.numbers.slope(middles - halves)) / (2 * halves)
                bends = np.where(np.abs(wider) > np.abs(bends), wider, bends)
        excess.append(np.diff(surrogate.slope(edges)) / widths - bends)
        plain.append(bends)
    return excess, plain


@functools.lru_cache(maxsize=256)
def _has_kink(part: Part) -> bool:
    """Whether the slope of a part jumps: it changes by as much on an interval without length."""
    low, high = -_KINKS_WITHIN, _KINKS_WITHIN
    change = first = abs(float(np.diff(part.slope(np.array([low, high])))[0]))
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        halves = np.abs(np.diff(part.slope(np.array([low, middle, high]))))
        low, high = (low, middle) if halves[0] > halves[1] else (middle, high)
        change = float(halves.max())
        first = max(first, change)
    return change > _JUMP * first


def _half_wave(surrogate: Surrogate) -> float:
    """Return half the period of a surrogate's waves, in the mean over what they add to its curvature; 0 without any."""
    waves = surrogate.frequency * np.arange(1.0, len(surrogate.cosines) + 1)
    sizes = waves**2 * np.hypot(surrogate.cosines, surrogate.sines)
    return math.pi * float(sizes.sum() / (sizes @ waves)) if sizes.any() else 0.0


def _chances_given(scores: Scores, released: FloatArray, noise: float) -> FloatArray:
    """Return the probabilities of true scores given released ones under normal noise, shape (released, scores)."""
    if noise > 0:
        # All steps are in the place of the differences.
        found = released[:, None] - scores.values
        np.square(found, out=found)
        found *= -0.5 / noise
        found += np.log(np.maximum(scores.chances, 1e-300))
        found -= found.max(axis=1, keepdims=True)
        np.exp(found, out=found)
        found /= found.sum(axis=1, keepdims=True)
        return found
    found = np.zeros((len(released), len(scores.values)))
    found[np.arange(len(released)), np.abs(released[:, None] - scores.values).argmin(axis=1)] = 1.0
    return found
