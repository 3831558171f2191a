"""Where a corrected loss has moments over the noise: limits of exact corrections, and of those that have a bias.

An exact correction is held against limits that its derivation states. A truncated series, and a loss that is left as it
is, have no conditions to exist, but means and variances over noise with exponential tails only where they grow slowly
enough, and over normal noise only where they do not grow like exp(u^2).
"""

import functools
import math
from dataclasses import dataclass

import sympy as sp

from symdebias import _limits
from symdebias.assessment.tails import has_tails
from symdebias.assessment.variance import closed_variance
from symdebias.codegen.score.directions import Directions
from symdebias.correction import Correction
from symdebias.derivation import Series, Uncorrected
from symdebias.derivation.limits import noise_limit
from symdebias.exceptions import NoExactCorrectionError
from symdebias.transforms.growth import growth_terms, rate_of


@dataclass(frozen=True)
class Growth:
    """What a corrected loss of scores needs of the noise, so that its mean and its variance are numbers.

    Attributes
    ----------
    reach : float
        Its mean exists where a parameter times the tail scale of its noise is below this; that of its square at half.
    length : float
        How far parameters of norm 1 get, see `symdebias.codegen.score.directions.Directions`.
    variance : float
        Its variance is finite where that of normal noise of the score is below this.
    """

    reach: float
    length: float
    variance: float = math.inf


@functools.lru_cache(maxsize=256)
def growth_of(correction: Correction) -> Growth:
    """Return the growth of a corrected loss; of one in features by name nothing but what its derivation states."""
    limits = correction.limits
    if not correction.is_of_scores:
        return Growth(limits.reach, 1.0)
    if correction.is_exact or not isinstance(correction.method, (Series, Uncorrected)):
        return Growth(limits.reach, limits.longest_direction)
    program, loss = correction.program, correction.loss
    expression = loss.expression if isinstance(correction.method, Uncorrected) else program.expression
    scores = loss.scores if isinstance(correction.method, Uncorrected) else program.scores
    values = loss.target_values or (-1.0, 1.0)
    at_targets = [expression.xreplace({loss.target: sp.nsimplify(value, rational=True)}) for value in values]
    terms = [term for one in at_targets for term in growth_terms(_limits.expand(one), scores)]
    rate = rate_of(terms)
    if not rate.is_number or rate == 0:
        return Growth(math.inf, limits.longest_direction)
    if rate == sp.oo:
        noises = (noise for _, noise in correction.release.noises(correction.columns))
        reach = 0.0 if any(map(has_tails, noises)) else math.inf
        return Growth(reach, limits.longest_direction, _of_squares(correction))
    directions = Directions.of_terms((tuple(map(float, one.weights)), tuple(map(float, one.widths))) for one in terms)
    return Growth(1 / float(rate), directions.length)


def _of_squares(correction: Correction) -> float:
    """Return the bound on normal noise under which a loss of one score that may grow like exp(u^2) has a variance."""
    closed = closed_variance(correction)
    if closed is None:
        return math.inf
    noise = correction.release.target_noise
    try:
        own = getattr(noise, "variance", 0.0)
        return noise_limit(closed.conditions, correction.derivation.symbols, own)
    except NoExactCorrectionError:
        return math.inf
