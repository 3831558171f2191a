"""A finite channel of one's own: any row-stochastic matrix between declared values."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from symdebias._arrays import FloatArray
from symdebias.mechanisms import sampling
from symdebias.mechanisms.base import Mechanism
from symdebias.mechanisms.randomized_response import coded, declared_categories, one_label_each
from symdebias.noise import ChannelNoise
from symdebias.privacy import Guarantee


@dataclass(frozen=True)
class FiniteChannel(Mechanism):
    """A value out of k is replaced by a random one, by a matrix of probabilities.

    Parameters
    ----------
    matrix : sequence of sequences of float
        ``matrix[i][j]`` is the probability of sending output j for input i, of shape (k, m); rows sum to 1.
    inputs : sequence of float or of str
        The k values that go in; text stands for the codes 0 to k - 1.
    outputs : sequence of float or of str, optional
        The m values that come out; the inputs by default.

    Raises
    ------
    ValueError, TypeError
        The matrix is not row-stochastic or has another shape, or values repeat.

    Notes
    -----
    The guarantee is pure local differential privacy at the largest log ratio of two entries of a column, rounded
    up; a column with a zero beside a positive entry makes no claim: known misclassification.

    References
    ----------
    van Rooyen & Williamson 2018, Section 4; Kairouz, Oh & Viswanath 2014.

    Examples
    --------
    >>> channel = FiniteChannel([[0.8, 0.2], [0.4, 0.6]], inputs=(-1, 1))
    >>> round(channel.guarantee.epsilon, 4)
    1.0986
    """

    matrix: tuple[tuple[float, ...], ...]
    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...] = ()
    kind: ClassVar[str] = "finite_channel"

    def __post_init__(self) -> None:
        given = self.inputs if hasattr(self.outputs, "__len__") and len(self.outputs) == 0 else self.outputs
        inputs = _in_order(self.inputs, "inputs")
        outputs = _in_order(given, "outputs")
        object.__setattr__(self, "inputs", inputs)
        object.__setattr__(self, "outputs", outputs)
        noise = ChannelNoise(coded(inputs), coded(outputs), self.matrix)
        object.__setattr__(self, "matrix", noise.matrix)

    @cached_property
    def noise(self) -> ChannelNoise:
        """The channel."""
        return ChannelNoise(coded(self.inputs), coded(self.outputs), self.matrix)

    @property
    def categories(self) -> tuple[Any, ...]:
        """The values that go in."""
        return self.inputs

    @cached_property
    def guarantee(self) -> Guarantee | None:
        """(epsilon, 0) in the local model, or None where an output rules an input out."""
        matrix = np.array(self.matrix)
        used = matrix[:, matrix.max(axis=0) > 0]
        if not used.min() > 0:
            return None
        epsilon = float(np.max(np.log(used.max(axis=0)) - np.log(used.min(axis=0))))
        # Two logarithms and a difference: a few units in the last place, rounded to the safe side.
        return Guarantee(epsilon + 4 * math.ulp(max(epsilon, 1.0, -math.log(float(used.min())))), 0.0)

    @property
    def bound(self) -> float:
        """The largest absolute value of the inputs."""
        return max(abs(value) for value in coded(self.inputs))

    @property
    def width(self) -> int:
        """One column."""
        return 1

    def _bring_inside(self, values: FloatArray) -> tuple[FloatArray, np.ndarray[Any, np.dtype[np.bool_]]]:
        return one_label_each(values, coded(self.inputs), "a finite channel")

    def _add_noise(self, values: FloatArray, source: sampling.Source) -> FloatArray:
        known = np.array(coded(self.inputs))
        order = np.argsort(known)
        rows = order[np.searchsorted(known, values, sorter=order)]
        sent: FloatArray = np.array(coded(self.outputs))[sampling.categories(np.array(self.matrix), rows, source)]
        return sent

    def to_card(self) -> dict[str, Any]:
        """Return what makes an equal mechanism."""
        return {
            "matrix": [list(row) for row in self.matrix],
            "inputs": list(self.inputs),
            "outputs": list(self.outputs),
        }

    @classmethod
    def from_card(cls, card: dict[str, Any]) -> "FiniteChannel":
        """Make the mechanism that `to_card` described."""
        if set(card) != {"matrix", "inputs", "outputs"}:
            raise ValueError("a finite channel has exactly the entries matrix, inputs and outputs")
        return cls(**card)


def _in_order(values: Any, name: str) -> tuple[Any, ...]:
    """Return declared values in the order given, which is that of the matrix."""
    checked = declared_categories(values, name)
    return checked if isinstance(checked[0], str) else tuple(float(value) for value in values)
