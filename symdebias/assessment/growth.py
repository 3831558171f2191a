"""Where a corrected loss has moments over the noise: limits of exact corrections, and of those that have a bias.

An exact correction is held against limits that its derivation states. A truncated series, and a loss that is left as it
is, have no conditions to exist, but means and variances over noise with exponential tails only where they grow slowly
enough, and over normal noise only where they do not grow like exp(u^2): for e of covariance S the mean of exp(k e'B e)
is a number where I - 2 k S^(1/2) B S^(1/2) is positive definite, with k = 2 for a square.
"""

import contextlib
import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import sympy as sp
from scipy.linalg import block_diag

from symdebias import _limits
from symdebias._arrays import FloatArray
from symdebias.assessment.noise_bias import covariance_root
from symdebias.assessment.tails import has_tails
from symdebias.assessment.variance import closed_variance
from symdebias.codegen.score.directions import Directions
from symdebias.correction import Correction
from symdebias.derivation import Series, Uncorrected
from symdebias.derivation.limits import noise_limit
from symdebias.exceptions import NoExactCorrectionError
from symdebias.noise import AdditiveNoise, ChannelNoise
from symdebias.transforms.growth import SquareTerm, growth_terms, rate_of, square_terms


@dataclass(frozen=True)
class Growth:
    """What a corrected loss of scores needs of the noise, so that its mean and its variance are numbers.

    Attributes
    ----------
    reach : float
        Its mean exists where a parameter times the tail scale of its noise is below this; that of its square at half.
    length : float
        How far parameters of norm 1 get, see `symdebias.codegen.score.directions.Directions`.
    mean, variance : float
        Its mean exists, and its variance is finite, where the variance of normal noise of the score is below this.
    """

    reach: float
    length: float
    mean: float = math.inf
    variance: float = math.inf


@functools.lru_cache(maxsize=256)
def growth_of(correction: Correction) -> Growth:
    """Return the growth of a corrected loss; of one in features by name nothing but what its derivation states."""
    limits = correction.limits
    if not correction.is_of_scores:
        return Growth(limits.reach, 1.0)
    if not _has_bias(correction):
        return Growth(limits.reach, limits.longest_direction)
    scores = correction.program.scores
    at_targets = [_at_target(correction, value) for value in _values(correction)]
    terms = [term for one in at_targets for term in growth_terms(_limits.expand(one), scores)]
    rate = rate_of(terms)
    mean, variance = _limits_of_squares(correction)
    if not rate.is_number or rate == 0:
        return Growth(math.inf, limits.longest_direction, mean, variance)
    if rate == sp.oo:
        noises = (noise for _, noise in correction.release.noises(correction.columns))
        reach = 0.0 if any(map(has_tails, noises)) else math.inf
        return Growth(reach, limits.longest_direction, mean, variance)
    directions = Directions.of_terms((tuple(map(float, one.weights)), tuple(map(float, one.widths))) for one in terms)
    return Growth(1 / float(rate), directions.length, mean, variance)


def has_moment(correction: Correction, theta: FloatArray, power: int) -> bool:
    """Whether the mean of a power of a corrected loss in features by name is a number, where it is known.

    It is of a loss that has a bias, at parameters; what an exact correction needs its derivation states. Features with
    noise that is neither normal nor has exponential tails count for nothing, and those without noise are tried at the
    ends of their range.

    Parameters
    ----------
    correction : Correction
        The correction.
    theta : array of shape (q,), float64
        Parameters.
    power : {1, 2}
        1 for the mean, and 2 for the variance.
    """
    if correction.is_of_scores:
        return True
    if not _has_bias(correction):
        return power == 1 or not correction.derivation.no_variance
    growth = _growth_of_features(correction)
    root, tails = growth.root, growth.tails
    for held in growth.held:
        for squares, sizes in growth.at(*theta, *held):
            wide = tails > 0
            if np.any(squares[wide] != 0) or np.any(power * sizes[wide] * tails[wide] >= 1):
                return False
            if power == 2 and not np.all(np.isfinite(sizes[np.any(root != 0, axis=1)])):
                return False
            if not 2 * power * float(np.linalg.eigvalsh(root.T @ squares @ root).max(initial=0.0)) < 1:
                return False
    return True


def _has_bias(correction: Correction) -> bool:
    return not correction.is_exact and isinstance(correction.method, (Series, Uncorrected))


def _expression(correction: Correction) -> sp.Expr:
    """Return the loss that is evaluated: the declared one, or what is made of it.

    Of two labels with additive noise it is affine in the label.
    """
    loss = correction.loss
    is_declared = isinstance(correction.method, Uncorrected) and bool(loss.scores or not correction.is_of_scores)
    is_as_it_stands = loss.target_values is None or _target_noise(correction) is None
    return loss.expression if is_declared and is_as_it_stands else correction.program.expression


def _values(correction: Correction) -> Sequence[float]:
    return correction.loss.target_values or (-1.0, 1.0)


def _at_target(correction: Correction, value: float) -> sp.Expr:
    return _expression(correction).xreplace({correction.loss.target: sp.nsimplify(value, rational=True)})


def _target_noise(correction: Correction) -> AdditiveNoise | None:
    """Return the noise of the target that is normal or has exponential tails, if that is what is seen."""
    noise = None if correction.release.clips_target else correction.release.target_noise
    return noise if isinstance(noise, AdditiveNoise) and (noise.is_gaussian or has_tails(noise)) else None


def _limits_of_squares(correction: Correction) -> tuple[float, float]:
    """Return bounds on the variance of normal noise of the score for a mean, and a finite variance, to exist.

    They are 0 where the noise of the target alone is too much.
    """
    noise, scores = _target_noise(correction), correction.program.scores
    if noise is None and not np.any(correction.design.covariance):
        return math.inf, math.inf
    if noise is None:
        expressions, variables = [_at_target(correction, value) for value in _values(correction)], scores
    else:
        expressions, variables = [_expression(correction)], (*scores, correction.loss.target)
    terms = {term for one in expressions for term in square_terms(_limits.expand(one), variables)}
    mean, variance = (min((_limit_of(correction, term, power) for term in terms), default=math.inf) for power in (1, 2))
    closed = closed_variance(correction)
    if closed is not None:
        with contextlib.suppress(NoExactCorrectionError):
            own = getattr(noise, "variance", 0.0)
            variance = noise_limit(closed.conditions, correction.derivation.symbols, own)
    return mean, min(mean, variance)


def _limit_of(correction: Correction, term: SquareTerm, power: int) -> float:
    """Return the bound on the variance of normal noise of the score that one term puts on the mean of a power.

    The parameters that are worst are those with noise of rank one in the scores, along one direction w of them: with
    the target's normal noise of variance t, and B = [[A, b], [b', c]], a Schur complement has the bound
    1/(2 k lambda), lambda the largest eigenvalue of A + 2 k t b b'/(1 - 2 k t c). What is not known to be bounded has
    no variance that is known to be finite.
    """
    noise, scores, factor = _target_noise(correction), len(correction.program.scores), 2 * power
    normal = bool(np.any(correction.design.covariance))
    unknown = 0.0 if power == 2 else math.inf
    sizes = term.sizes if normal else term.sizes[scores:]
    if any(not size.is_number or size == sp.oo for size in sizes) or term.squares.free_symbols:
        return unknown
    whole = np.array(term.squares, dtype=float).reshape(term.squares.shape)
    within = whole[:scores, :scores]
    if noise is not None:
        beside, own = whole[scores, :scores], float(whole[scores, scores])
        wide = has_tails(noise)
        left = 1.0 if wide else 1 - factor * noise.variance * own
        noises = (one for _, one in correction.release.noises(correction.columns))
        if (
            (wide and (own != 0 or not power * float(term.sizes[scores]) < noise.tail_rate))
            or not left > 0
            or (np.any(beside) and (wide or any(map(has_tails, noises))))
        ):
            return 0.0
        within = within + factor * noise.variance * np.outer(beside, beside) / left
    largest = float(np.linalg.eigvalsh(within).max(initial=0.0)) if normal else 0.0
    return 1 / (factor * largest) if largest > 0 else math.inf


@dataclass(frozen=True)
class _FeatureGrowth:
    """The growth of a loss in features by name, along those with noise and the target."""

    # Of the parameters and of what is held: for each term the squares, shape (v, v), and the sizes, shape (v,).
    at: Callable[..., list[tuple[FloatArray, FloatArray]]]
    held: tuple[tuple[float, ...], ...]  # Values of the features without such noise, and of the target.
    root: FloatArray  # Of shape (v, r): one of the covariance of the normal noise.
    tails: FloatArray  # Of shape (v,): the tail scales of other noise, 0 of normal noise.


@functools.lru_cache(maxsize=64)
def _growth_of_features(correction: Correction) -> _FeatureGrowth:
    release, loss, count = correction.release, correction.loss, correction.columns
    radius, target = release.record_radius(count), _target_noise(correction)
    variables: list[sp.Symbol] = []
    blocks: list[FloatArray] = []
    tails: list[float] = []
    ends = dict.fromkeys(loss.features, (-radius, radius))
    for place, noise in release.noises(count):
        columns = range(place.start, place.stop)
        if isinstance(noise, ChannelNoise):
            ends[loss.features[place.start]] = (min(noise.inputs), max(noise.inputs))
        normal = isinstance(noise, AdditiveNoise) and noise.is_gaussian
        if not (normal or has_tails(noise)):
            continue
        variables += [loss.features[column] for column in columns]
        given = noise.covariance if isinstance(noise, AdditiveNoise) else None
        own = np.eye(len(columns)) * noise.variance if given is None else np.array(given)  # type: ignore[union-attr]
        blocks.append(own if normal else np.zeros_like(own))
        tails += [0.0 if normal else 1 / noise.tail_rate] * len(columns)  # type: ignore[union-attr]
    if target is not None:
        variables.append(loss.target)
        blocks.append(np.eye(1) * (target.variance if target.is_gaussian else 0.0))
        tails.append(0.0 if target.is_gaussian else 1 / target.tail_rate)
    root = covariance_root(block_diag(*blocks)) if blocks else np.zeros((0, 0))
    held = [symbol for symbol in (*loss.features, loss.target) if symbol not in variables]
    values = [(min(_values(correction)), max(_values(correction))) if one == loss.target else ends[one] for one in held]
    # The numbers of the noise change no growth.
    expression = _limits.expand(_expression(correction))
    ones = dict.fromkeys(expression.free_symbols - {*loss.features, *loss.parameters, loss.target}, sp.Integer(1))
    terms = square_terms(expression, variables)
    functions = [
        sp.lambdify(
            [*loss.parameters, *held],
            [term.squares.xreplace(ones).tolist(), [size.xreplace(ones) for size in term.sizes]],
            "numpy",
        )
        for term in terms
    ]

    def at(*numbers: float) -> list[tuple[FloatArray, FloatArray]]:
        found = (function(*numbers) for function in functions)
        # Where no noise counts for anything both are empty, and square all the same.
        shape = len(variables), len(variables)
        return [(np.reshape(np.array(squares, float), shape), np.array(sizes, float)) for squares, sizes in found]

    corners = itertools.islice(itertools.product(*values), 64)
    return _FeatureGrowth(at, tuple(corners), root, np.array(tails))
