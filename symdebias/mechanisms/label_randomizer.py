"""A label randomizer: a declared label is replaced by a random output, by a matrix that is checked exactly."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from symdebias._domains import EPSILON, Interval, LabelSet, shown
from symdebias.exceptions import PrivacyError
from symdebias.mechanisms.base import ChannelMechanism
from symdebias.mechanisms.label_loss import label_loss
from symdebias.mechanisms.realised import UNBIASED, largest_bias, ratio_holds, sums_to_one
from symdebias.noise import ChannelNoise
from symdebias.privacy import Guarantee

_BOUND = Interval(-1e250, 1e250, "both", "Give the certified lower bound of the noisy-label loss, or None.")


@dataclass(frozen=True)
class LabelRandomizer(ChannelMechanism):
    """A label out of k numbers is replaced by a random one of m outputs.

    Parameters
    ----------
    labels : sequence of float
        The k >= 2 labels, ascending.
    outputs : sequence of float
        The m >= 2 outputs, ascending.
    matrix : sequence of sequences of float
        ``matrix[i][j]`` is the probability of output j for label i, of shape (k, m): multiples of 2^-53 whose rows sum
        to exactly 1, as `symdebias.mechanisms.realised` makes them.
    epsilon : float
        Privacy budget, in [1e-6, 700]; pure local differential privacy, replace-one. No entry is more than e^epsilon
        times another one of its column; this is checked in exact arithmetic.
    prior : sequence of float, optional
        The probabilities of the labels that the design was made for; public, or private by themselves.
    loss : str
        The loss of noised labels that it was made for: "squared", "absolute", or an expression in ``residual`` (outcome
        - label) or in ``outcome`` and ``label``, finite and convex in the outcome.
    lower_bound : float, optional
        A certified lower bound of the noisy-label loss of any unbiased randomizer of this budget, with the outputs that
        the design was to choose from.

    Raises
    ------
    PrivacyError
        The matrix is not epsilon-private.
    ValueError, TypeError
        An argument is outside its range, or the matrix cannot be drawn as it stands.

    Notes
    -----
    `symdebias.labels` makes them: by `optimal_unbiased_randomizer`, `debiased_randomized_response` and
    `randomized_response_on_bins`.
    The draw takes one 53-bit uniform number per label and realises the matrix exactly; the time that it takes and
    what is left in memory are not covered.

    References
    ----------
    Badanidiyuru et al. 2023 (arXiv 2312.05659), Section 2.

    Examples
    --------
    >>> coin = LabelRandomizer((0, 1), (-0.5, 1.5), ((0.75, 0.25), (0.25, 0.75)), epsilon=1.1)
    >>> coin.unbiased, coin.noise.outputs
    (True, (-0.5, 1.5))
    """

    labels: tuple[float, ...]
    outputs: tuple[float, ...]
    matrix: tuple[tuple[float, ...], ...]
    epsilon: float
    prior: tuple[float, ...] | None = None
    loss: str = "squared"
    lower_bound: float | None = None
    kind: ClassVar[str] = "label_randomizer"

    def __post_init__(self) -> None:
        epsilon = EPSILON.check("epsilon", self.epsilon)
        labels, outputs = ascending(self.labels, "labels"), ascending(self.outputs, "outputs")
        noise = ChannelNoise(labels, outputs, self.matrix, self.prior)
        self._declare(
            labels=labels, outputs=outputs, matrix=noise.matrix, epsilon=epsilon, prior=noise.prior, noise=noise
        )
        loss = label_loss(self.loss)
        loss.require_convex(outputs, labels)
        self._declare(loss=loss.text)
        if self.lower_bound is not None:
            self._declare(lower_bound=_BOUND.check("lower_bound", self.lower_bound))
        for index, row in enumerate(self.matrix):
            if not sums_to_one(row):
                raise ValueError(
                    f"row {index} of the matrix cannot be drawn as it stands. Its entries must be multiples of 2^-53 "
                    "that sum to exactly 1: bring it there with symdebias.mechanisms.realised.realised, or use a "
                    "FiniteChannel."
                )
        if not ratio_holds(self.matrix, epsilon):
            raise PrivacyError(
                f"the matrix is not {epsilon:g}-private: a column has two entries whose ratio is above e^epsilon. "
                "Give the budget that it has, or a matrix that keeps this one."
            )

    @cached_property
    def noise(self) -> ChannelNoise:
        """The channel, with the probabilities that the draw realises."""
        return ChannelNoise(self.labels, self.outputs, self.matrix, self.prior)

    @property
    def guarantee(self) -> Guarantee:
        """(epsilon, 0) in the local model."""
        return Guarantee(self.epsilon, 0.0)

    @cached_property
    def bias(self) -> float:
        """The largest distance between a label and the mean of its output, exact and rounded up."""
        return largest_bias(self.matrix, self.outputs, np.array(self.labels))

    @property
    def unbiased(self) -> bool:
        """Whether the outputs have the labels as means: to 1e-12 of the label range, or the rounding of the outputs."""
        rounding = 2.0**-52 * max(map(abs, self.outputs))
        return self.bias <= max(UNBIASED * (self.labels[-1] - self.labels[0]), rounding)

    @cached_property
    def noisy_label_loss(self) -> float:
        """The mean loss of the outputs under the prior, sum_y p_y sum_j M_yj loss(t_j, y); uniform without one."""
        labels, outputs = np.array(self.labels), np.array(self.outputs)
        prior = np.full(len(labels), 1 / len(labels)) if self.prior is None else np.array(self.prior)
        losses = label_loss(self.loss)(outputs[None, :], labels[:, None])
        return math.fsum((prior[:, None] * np.array(self.matrix) * losses).ravel())

    @property
    def optimality_gap(self) -> float | None:
        """How much less the noisy-label loss can be, with any matrix that `lower_bound` is for; None if unknown."""
        return None if self.lower_bound is None else max(0.0, self.noisy_label_loss - self.lower_bound)

    @property
    def high_labels(self) -> tuple[tuple[float, float] | None, ...]:
        """For each output the first and the last label of the one run on which its probability is high.

        In an optimal unbiased randomizer a column is low, then e^epsilon times as high, then low again, over the
        labels in their order (the structure L* U+ L* of Badanidiyuru et al. 2023, Theorem 6). None where an output has
        more than two levels, such as one of a mesh in which several columns meet, or more than one run; a column that
        is the same everywhere is one run.
        """
        found: list[tuple[float, float] | None] = []
        for column in np.array(self.matrix).T:
            # Halfway between the levels; rounding onto the grid moves entries by a few units.
            middle = (column.max() + column.min()) / 2
            high = np.flatnonzero(column >= middle)
            levels = np.where(column >= middle, column.max(), column.min())
            two = np.abs(column - levels).max() <= 1e-6 * column.max() + 64 * 2.0**-53
            together = high[-1] - high[0] + 1 == len(high)
            found.append((self.labels[high[0]], self.labels[high[-1]]) if two and together else None)
        return tuple(found)

    def __repr__(self) -> str:
        ends = f"{self.labels[0]:g} to {self.labels[-1]:g}"
        return (
            f"<LabelRandomizer: {len(self.labels)} labels from {ends}, {len(self.outputs)} outputs, "
            f"epsilon={self.epsilon:g}>"
        )


def ascending(values: Any, name: str) -> tuple[float, ...]:
    """Return declared numbers, which must be two or more in ascending order.

    Raises
    ------
    TypeError, ValueError
        They are no sequence of finite numbers, repeat or are not in order.
    """
    if hasattr(values, "tolist"):
        values = values.tolist()
    if isinstance(values, range):
        values = list(values)
    checked = LabelSet.declare(name, values).values
    given = tuple(float(value) for value in values)
    if given != checked:
        raise ValueError(f"{name} are not in ascending order: {shown(given, 100)}. Sort them, and the prior with them.")
    return checked
