"""Randomized response on bins: labels are merged into bins and those are exchanged, with less noise and with a bias."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from symdebias._arrays import FloatArray, IntegerArray
from symdebias._domains import EPSILON, check_choice
from symdebias.labels.response import response_matrix
from symdebias.mechanisms.label_loss import LABEL_LOSSES
from symdebias.mechanisms.label_randomizer import LabelRandomizer, ascending
from symdebias.mechanisms.realised import UNITS
from symdebias.noise import checked_prior

# What merging and reassigning bins needs at most is a few rounds; each one lowers the loss.
_MOST_ROUNDS = 100


def randomized_response_on_bins(labels: Any, prior: Any, epsilon: float, *, loss: str = "squared") -> LabelRandomizer:
    """Return the randomizer of least noisy-label loss, which is biased: randomized response over bins of labels.

    Each label belongs to one of d bins of neighbouring labels, and each bin has one output. The output of the label's
    bin is sent with probability e^epsilon/(e^epsilon + d - 1), and each other one with the same probability. Bins,
    outputs and d make sum_y p_y E loss(output, y) least; no epsilon-private randomizer at all has less.

    Parameters
    ----------
    labels : sequence of float
        The k >= 2 labels, ascending; public.
    prior : array of shape (k,)
        The probabilities of the labels, public or private by themselves (`private_prior`); zeros are allowed.
    epsilon : float
        Privacy budget, in [1e-6, 700].
    loss : {"squared", "absolute"}
        The loss of a noised label.

    Returns
    -------
    LabelRandomizer
        With 2 to k outputs, ascending; not `unbiased`.

    Raises
    ------
    ValueError, TypeError
        An argument is outside its range.

    Notes
    -----
    Outputs are pulled towards the middle of the prior, and so is a model that is trained on them, whatever the number
    of records: use `debiased_randomized_response` or `optimal_unbiased_randomizer` where that matters. Where one
    constant output were best (one label has all of the prior, or under the absolute loss a label that outweighs the
    others), the best randomizer with two outputs that are labels is returned.

    References
    ----------
    Ghazi et al. 2023 (arXiv 2212.06074), which also proves that no private randomizer has a smaller noisy-label loss.

    Examples
    --------
    >>> randomizer = randomized_response_on_bins((0, 1, 2), (0.6, 0.25, 0.15), epsilon=0.5)
    >>> [round(output, 3) for output in randomizer.outputs], randomizer.unbiased
    ([0.396, 0.72], False)
    """
    epsilon = EPSILON.check("epsilon", epsilon)
    values = ascending(labels, "labels")
    weights = checked_prior(prior, len(values))
    check_choice("loss", loss, LABEL_LOSSES)
    # Labels in units of their range, about their mean: squares neither overflow nor cancel.
    y = np.array(values)
    middle, unit = math.fsum(weights * y) / math.fsum(weights), y[-1] / 2 - y[0] / 2
    problem = _Bins((y / 2 - middle / 2) / unit, weights / math.fsum(weights), epsilon, loss)
    outputs, places = problem.settled(problem.best_starts())
    if len(outputs) < 2:
        outputs, places = problem.best_pair()
    matrix = response_matrix(epsilon, places.tolist(), len(outputs))
    # Outputs that are labels are sent as they were declared, the others in the units of the labels again.
    at = np.minimum(np.searchsorted(problem.labels, outputs), len(y) - 1)
    sent = np.where(problem.labels[at] == outputs, y[at], np.clip(middle + 2 * unit * outputs, y[0], y[-1]))
    return LabelRandomizer(
        values, tuple(sent.tolist()), matrix, epsilon=epsilon, prior=tuple(weights.tolist()), loss=loss
    )


def _mean(labels: FloatArray, weights: FloatArray) -> float:
    return math.fsum(weights * labels) / math.fsum(weights)


def _median(labels: FloatArray, weights: FloatArray) -> float:
    sums = np.cumsum(weights)
    return float(labels[int(np.searchsorted(sums, sums[-1] / 2))])


# The constant that is least far from labels of some weights.
_CENTRES: dict[str, Callable[[FloatArray, FloatArray], float]] = {"squared": _mean, "absolute": _median}


class _Bins:
    """The search for bins and outputs.

    With g = e^epsilon - 1 and B_j the bins, the noisy-label loss of d outputs t_j is

        sum_j sum_y p_y (1 + g [y in B_j]) loss(t_j, y) / (g + d):

    a sum over bins, over something that only their number enters. Everything here is divided by g, as h = 1/g.
    """

    def __init__(self, labels: FloatArray, prior: FloatArray, epsilon: float, loss: str) -> None:
        self.labels, self.prior = labels, prior
        # Odds above 2^53 are not realised.
        self.h = max(1 / math.expm1(epsilon), 1 / UNITS)
        self.loss = LABEL_LOSSES[loss]
        self.centre = _CENTRES[loss]
        self.costs = self._squared() if loss == "squared" else self._absolute()

    def _squared(self) -> FloatArray:
        """Return the least h E (t - y)^2 + E (t - y)^2 [y in bin] over t of all bins, from start to end.

        The output lies between the mean of the bin and that of all labels, which is 0 here.
        """
        k, p, y = len(self.labels), self.prior, self.labels
        costs = np.full((k, k), math.inf)
        mass, mean, scatter = (np.zeros(k) for _ in range(3))
        spread = math.fsum(p * y**2)
        for end in range(k):
            # One more label in every bin that starts at it or before, without the cancellation of sums of squares.
            here = slice(0, end + 1)
            after = mass[here] + p[end]
            share = np.divide(p[end], after, out=np.zeros(end + 1), where=after > 0)
            apart = y[end] - mean[here]
            scatter[here] += mass[here] * share * apart**2
            mean[here] += share * apart
            mass[here] = after
            pulled = mass[here] / (self.h + mass[here]) * mean[here] ** 2
            costs[here, end] = self.h * (spread + pulled) + scatter[here]
        return costs

    def _absolute(self) -> FloatArray:
        """Return the least h E |t - y| + E |t - y| [y in bin] over t of all bins; t is a weighted median."""
        k, p, y = len(self.labels), self.prior, self.labels
        mass, moment = np.concatenate([[0.0], np.cumsum(p)]), np.concatenate([[0.0], np.cumsum(p * y)])
        start, end = np.arange(k)[:, None], np.arange(k)[None, :] + 1

        def within(sums: FloatArray, top: IntegerArray) -> FloatArray:
            inside: FloatArray = sums[np.clip(top, start, end)] - sums[start]
            return inside

        half = (self.h * mass[k] + mass[end] - mass[start]) / 2
        low, high = np.zeros((k, k), dtype=np.int64), np.full((k, k), k - 1)
        while (low < high).any():
            centre = (low + high) // 2
            enough = self.h * mass[centre + 1] + within(mass, centre + 1) >= half
            low, high = np.where(enough, low, np.minimum(centre + 1, high)), np.where(enough, centre, high)
        t = y[low]
        everywhere = t * (2 * mass[low] - mass[k]) - (2 * moment[low] - moment[k])
        inside = t * (2 * within(mass, low) - within(mass, end)) - (2 * within(moment, low) - within(moment, end))
        costs: FloatArray = np.where(start < end, self.h * everywhere + np.maximum(inside, 0.0), math.inf)
        return costs

    def best_starts(self) -> IntegerArray:
        """Return where the bins of the best division start, of all numbers of bins."""
        k, h = len(self.labels), self.h
        reached = self.costs[0].copy()
        # All labels in one bin; each output of a division costs at least its part that knows no bins.
        constant = reached[-1] / (1 + h)
        best, number, before = constant, 1, []
        for d in range(2, k + 1):
            # More bins cost at least d h constant/(1 + d h), which rises with d.
            if not d * h * constant / (1 + d * h) < best:
                break
            # A last bin from `start` on; before it d - 1 bins up to start - 1.
            table = reached[d - 2 : -1, None] + self.costs[d - 1 :]
            place = np.argmin(table, axis=0)
            before.append(place + d - 1)
            reached = table[place, np.arange(k)]
            if reached[-1] / (1 + d * h) < best:
                best, number = reached[-1] / (1 + d * h), d
        starts, end = [], k - 1
        for step in range(number - 2, -1, -1):
            starts.append(int(before[step][end]))
            end = starts[-1] - 1
        return np.array([0, *reversed(starts)])

    def settled(self, starts: IntegerArray) -> tuple[FloatArray, IntegerArray]:
        """Return ascending outputs and the output of each label, from the starts of bins.

        In a best division each label has the nearest output and outputs differ; where labels without weight or
        rounding left it otherwise, merging equal outputs and taking the nearest one do not raise the loss.
        """
        places = np.searchsorted(starts, np.arange(len(self.labels)), side="right") - 1
        for _ in range(_MOST_ROUNDS):
            weights = [self.prior * (self.h + (places == place)) for place in np.unique(places)]
            outputs = np.unique([self.centre(self.labels, weight) for weight in weights])
            nearest = np.searchsorted((outputs[1:] + outputs[:-1]) / 2, self.labels)
            if len(outputs) == len(np.unique(nearest)) and (nearest == places).all():
                break
            places = np.unique(nearest, return_inverse=True)[1]
        return outputs, places

    def best_pair(self) -> tuple[FloatArray, IntegerArray]:
        """Return the best two outputs that are labels, and the output of each label."""
        k = len(self.labels)
        losses = self.prior[None, :] * self.loss(self.labels[:, None], self.labels[None, :])
        left = np.concatenate([np.zeros((k, 1)), np.cumsum(losses, axis=1)], axis=1)
        # Row t, column s: the cost of the output t for the labels below s, and for those from s on.
        below, above = self.h * left[:, -1:] + left, self.h * left[:, -1:] + left[:, -1:] - left
        best = (math.inf, 0, 0, 0)
        for split in range(1, k):
            lowest = np.minimum.accumulate(below[:-1, split])
            upper = int(np.argmin(lowest + above[1:, split])) + 1
            cost = float(lowest[upper - 1] + above[upper, split])
            if cost < best[0]:
                best = (cost, split, int(np.argmin(below[:upper, split])), upper)
        _, split, low, high = best
        return self.labels[[low, high]], (np.arange(k) >= split).astype(np.int64)
