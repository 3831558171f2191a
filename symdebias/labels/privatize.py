"""Labels made private in one call: round them, estimate their prior privately, design a randomizer, and draw."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from symdebias._arrays import FloatArray, value_array
from symdebias._domains import EPSILON, check_choice
from symdebias.exceptions import PrivacyError
from symdebias.labels.optimal import optimal_unbiased_randomizer
from symdebias.labels.prior import prior_budget, private_prior
from symdebias.labels.rounding import round_labels
from symdebias.mechanisms import sampling
from symdebias.mechanisms.label_randomizer import LabelRandomizer, ascending
from symdebias.noise import checked_prior
from symdebias.privacy import Guarantee, compose

Designer = Callable[[Any, Any, float], LabelRandomizer]


@dataclass(frozen=True, eq=False)
class PrivatizedLabels:
    """Noised labels and what an analyst needs to train on them.

    Attributes
    ----------
    y : array of shape (n,), float64
        The noised labels.
    randomizer : LabelRandomizer
        What noised them: the target's mechanism of a `Release`.
    prior : array of shape (k,), float64
        The prior that it was designed for: the given one, or the privately estimated one.
    prior_epsilon : float
        The budget that was spent on the prior; 0 for a public prior.
    seeded : bool
        Whether the noise came from a seed.

    Examples
    --------
    >>> import symdebias as sd
    >>> noised = sd.labels.privatize_labels([1, 2, 3, 2] * 25, labels=(1, 2, 3), epsilon=2.0, random_state=0)
    >>> noised.y.shape, noised.randomizer.unbiased, noised.prior_epsilon < 2.0
    ((100,), True, True)
    """

    y: FloatArray
    randomizer: LabelRandomizer
    prior: FloatArray
    prior_epsilon: float
    seeded: bool

    @property
    def guarantee(self) -> Guarantee:
        """The composed guarantee for the label of one record; the features are not protected.

        Local under a public prior. With an estimated one it is central: whoever counts the labels sees them.

        Raises
        ------
        PrivacyError
            The noise came from a seed: whoever knows it can subtract the noise.
        """
        if self.seeded:
            raise PrivacyError(
                "these labels were noised from a seed, so that they carry no guarantee. Call privatize_labels without "
                "random_state for data that are to be private."
            )
        if self.prior_epsilon == 0:
            return Guarantee(self.randomizer.epsilon, 0.0, unprotected=("features",))
        parts = [Guarantee(epsilon, 0.0, "central") for epsilon in (self.prior_epsilon, self.randomizer.epsilon)]
        total = compose(parts)
        return Guarantee(total.epsilon, 0.0, "central", unprotected=("features",))


def privatize_labels(
    y: ArrayLike,
    labels: Any,
    epsilon: float,
    *,
    prior: ArrayLike | None = None,
    prior_epsilon: float | None = None,
    design: Designer = optimal_unbiased_randomizer,
    rounding: str = "refuse",
    random_state: int | np.random.Generator | None = None,
) -> PrivatizedLabels:
    """Make labels private, with a randomizer designed for their own distribution.

    Parameters
    ----------
    y : array of shape (n,) or (n, 1)
        True labels.
    labels : sequence of k floats
        The labels that there can be, ascending; public.
    epsilon : float
        The whole privacy budget of one label, in [1e-6, 700].
    prior : array of shape (k,), optional
        Public probabilities of the labels. Without it they are estimated from y, for a part of the budget.
    prior_epsilon : float, optional
        The part of the budget for the prior; sqrt(k/n) by default, and at most half of it.
    design : callable
        Takes (labels, prior, epsilon) and returns a LabelRandomizer; `optimal_unbiased_randomizer` by default, or
        such as `randomized_response_on_bins`.
    rounding : {"refuse", "unbiased"}
        What to do with labels between the declared ones: raise, or round each to one of its neighbours at random with
        itself as mean (`round_labels`). Labels beyond the declared range are refused.
    random_state : int, numpy.random.Generator or None
        None draws on the operating system. A seed is for tests and simulations: the result carries no guarantee.

    Returns
    -------
    PrivatizedLabels
        The noised labels, the randomizer and the composed guarantee.

    Raises
    ------
    ValueError, TypeError
        An argument is outside its range, or a label was not declared. Nothing was noised.
    PrivacyError
        What the design returned is no randomizer within its part of the budget.

    Notes
    -----
    The budgets of prior and labels add up to epsilon exactly, the labels' rounded down. The feasible outputs are those
    of the budget of the labels: the algorithm as printed takes those of the prior's budget, for which an unbiased
    randomizer need not exist.

    References
    ----------
    Badanidiyuru et al. 2023 (arXiv 2312.05659), Algorithm 3.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y = rng.binomial(10, 0.3, size=20_000)
    >>> noised = privatize_labels(y, range(11), epsilon=1.0, random_state=0)
    >>> round(noised.prior_epsilon + noised.randomizer.epsilon, 12), noised.randomizer.unbiased
    (1.0, True)
    """
    known = ascending(labels, "labels")
    epsilon = EPSILON.check("epsilon", epsilon)
    check_choice("rounding", rounding, ("refuse", "unbiased"))
    if not callable(design):
        raise TypeError(
            f"design has the type {type(design).__name__}. Give a function of (labels, prior, epsilon) that returns a "
            "LabelRandomizer, such as optimal_unbiased_randomizer."
        )
    if prior is not None and prior_epsilon is not None:
        raise ValueError("both of prior and prior_epsilon were given. A public prior costs nothing: give one of them.")
    source = sampling.source(random_state)
    stream = source.generator if source.seeded else None
    values = value_array(y)
    if rounding == "unbiased":
        values = round_labels(values, known, random_state=stream)
    spent = 0.0
    if prior is not None:
        shares = checked_prior(prior, len(known))
    else:
        spent = _budget_of_prior(prior_epsilon, len(known), len(values), epsilon)
        shares = private_prior(values, known, spent, random_state=stream)
    left = Fraction(epsilon) - Fraction(spent)
    remaining = float(left)
    if Fraction(remaining) > left:
        remaining = math.nextafter(remaining, 0.0)
    randomizer = design(known, shares, remaining)
    if not isinstance(randomizer, LabelRandomizer) or not randomizer.epsilon <= remaining:
        raise PrivacyError(
            f"the design returned {randomizer!r:.100}, which is no LabelRandomizer within the budget {remaining:g}. "
            "Return one of at most this epsilon."
        )
    noised = randomizer.add_noise(randomizer.clip(values), source)
    return PrivatizedLabels(noised, randomizer, shares, spent, source.seeded)


def _budget_of_prior(given: float | None, labels: int, records: int, epsilon: float) -> float:
    if given is None:
        return prior_budget(labels, records, epsilon)
    spent = EPSILON.check("prior_epsilon", given)
    if not spent < epsilon:
        raise ValueError(
            f"prior_epsilon={spent:g} leaves nothing of epsilon={epsilon:g} for the labels. Give a part of it, such as "
            f"{prior_budget(labels, records, epsilon):.3g}."
        )
    return spent
