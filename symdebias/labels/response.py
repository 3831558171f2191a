"""Randomized response over the labels with outputs that have the labels as means: the closed form of unbiasedness."""

from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np

from symdebias._arrays import FloatArray
from symdebias._domains import EPSILON, Integer, shown
from symdebias.mechanisms.label_randomizer import LabelRandomizer, ascending
from symdebias.mechanisms.realised import UNITS, strict_ratio
from symdebias.noise import checked_prior
from symdebias.privacy import largest_ratio


def debiased_randomized_response(labels: Any, epsilon: float, *, prior: Any = None) -> LabelRandomizer:
    """Return randomized response over k labels whose outputs are moved so that their means are the labels.

    The label is kept with probability e^epsilon/(e^epsilon + k - 1), and instead of the label y one sends
    ((e^epsilon + k - 1) y - sum of the labels)/(e^epsilon - 1).

    Parameters
    ----------
    labels : sequence of float
        The k >= 2 labels, ascending; public.
    epsilon : float
        Privacy budget, in [1e-6, 700].
    prior : array of shape (k,), optional
        The probabilities of the labels, which `noisy_label_loss` is a mean under; the design does not depend on them.

    Returns
    -------
    LabelRandomizer
        With k outputs, ascending; `unbiased`.

    Raises
    ------
    ValueError, TypeError
        An argument is outside its range, or labels lie so close together that float64 does not tell their outputs
        apart.

    Notes
    -----
    The outputs are those of the probabilities that the draw realises, multiples of 2^-53, solved in fractions and
    rounded once: nothing but that rounding is left as bias.

    References
    ----------
    Badanidiyuru et al. 2023 (arXiv 2312.05659); Kairouz, Oh & Viswanath 2014, Section 3.1.

    Examples
    --------
    >>> randomizer = debiased_randomized_response((0, 1, 2), epsilon=1.0)
    >>> [round(output, 4) for output in randomizer.outputs], randomizer.unbiased
    ([-1.7459, 1.0, 3.7459], True)
    """
    epsilon = EPSILON.check("epsilon", epsilon)
    values = ascending(labels, "labels")
    if prior is not None:
        prior = tuple(checked_prior(prior, len(values)).tolist())
    other = response_units(epsilon, len(values))
    exact = [Fraction(value) for value in values]
    # The matrix is (UNITS - k other) times the identity plus `other` everywhere: outputs and labels have one sum.
    total, gain = sum(exact), Fraction(UNITS, UNITS - len(values) * other)
    outputs = [float(gain * (value - total * other / UNITS)) for value in exact]
    for (left, right), (low, high) in zip(pairwise(values), pairwise(outputs), strict=True):
        if not low < high:
            raise ValueError(
                f"the labels {shown(left)} and {shown(right)} have outputs that float64 does not tell apart. Labels "
                "must differ by more than the rounding of the outputs: merge them, or give a larger epsilon."
            )
    matrix = response_matrix(epsilon, range(len(values)), len(values))
    return LabelRandomizer(values, tuple(outputs), matrix, epsilon=epsilon, prior=prior)


def feasible_outputs(labels: Any, epsilon: float, *, mesh: int | None = None) -> FloatArray:
    """Return equispaced outputs that an unbiased randomizer of a budget exists on.

    They reach from the least to the largest output of the debiased randomized response. On the interval of the labels
    itself there is no unbiased randomizer of any budget.

    Parameters
    ----------
    labels : sequence of float
        The k >= 2 labels, ascending.
    epsilon : float
        Privacy budget of the design, in [1e-6, 700]: all of it, where a part was spent on a prior the rest.
    mesh : int, optional
        The number of outputs, 2 or more; the number of labels by default.

    Returns
    -------
    array of shape (mesh,), float64
        Outputs, ascending.

    Raises
    ------
    ValueError, TypeError
        An argument is outside its range.

    Notes
    -----
    A finer mesh has a lower optimum only where it holds the coarser one, as 2 m - 1 outputs hold m; from m to m + 1 the
    optimum may rise. The interval is that of the slightly smaller ratio of probabilities that designs use, so that
    there is room for their rounding.

    References
    ----------
    Badanidiyuru et al. 2023 (arXiv 2312.05659), Proposition 7.

    Examples
    --------
    >>> feasible_outputs(range(1, 53), epsilon=1.0)[[0, -1]].round(2).tolist()
    [-770.7, 823.7]
    """
    epsilon = EPSILON.check("epsilon", epsilon)
    values = ascending(labels, "labels")
    count = len(values) if mesh is None else Integer(2).check("mesh", mesh)
    exact = [Fraction(value) for value in values]
    total, ratio = sum(exact), Fraction(strict_ratio(epsilon, len(values)))
    low, high = (float(((ratio + len(values) - 1) * value - total) / (ratio - 1)) for value in (exact[0], exact[-1]))
    return np.linspace(low, high, count)


def response_units(epsilon: float, outputs: int) -> int:
    """Return the probability of each other output of randomized response over d outputs, in units of 2^-53.

    It is the least number of units, at least 1, at which what is left for the label's own output is at most e^epsilon
    times as much.
    """
    least = UNITS / (largest_ratio(epsilon) + outputs - 1)
    return -(-least.numerator // least.denominator)


def response_matrix(epsilon: float, places: Any, outputs: int) -> tuple[tuple[float, ...], ...]:
    """Return the probabilities of randomized response over d outputs, multiples of 2^-53, a row for each of k labels.

    The places say which output is that of each label. Rows sum to exactly 1.
    """
    other = response_units(epsilon, outputs)
    row = [other / UNITS] * outputs
    keep = (UNITS - (outputs - 1) * other) / UNITS
    return tuple((*row[:place], keep, *row[place + 1 :]) for place in places)
