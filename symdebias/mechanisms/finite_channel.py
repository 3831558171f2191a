"""A finite channel of one's own: any row-stochastic matrix between declared values."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from symdebias.mechanisms import realised
from symdebias.mechanisms.base import ChannelMechanism
from symdebias.mechanisms.ranges import Labels
from symdebias.noise import ChannelNoise


@dataclass(frozen=True)
class FiniteChannel(ChannelMechanism):
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
    Probabilities are drawn, corrected and claimed as the nearest multiples of 2^-53; a positive one is at least that.
    The guarantee is pure local differential privacy at the largest log ratio of two entries of a column, rounded up; a
    column with a zero beside a positive entry makes no claim: known misclassification.

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
        same = isinstance(self.outputs, tuple) and not self.outputs
        inputs = Labels.declared(self.inputs, "inputs")
        outputs = Labels.declared(self.inputs if same else self.outputs, "outputs")
        declared = ChannelNoise(inputs.numbers, outputs.numbers, self.matrix)
        self._declare(inputs=inputs.values, outputs=outputs.values, matrix=declared.matrix)

    @cached_property
    def noise(self) -> ChannelNoise:
        """The channel, with the probabilities that are drawn: multiples of 2^-53."""
        return ChannelNoise(self.range.numbers, self.sent.numbers, realised.drawn(self.matrix))

    @cached_property
    def range(self) -> Labels:
        """The inputs."""
        return Labels(self.inputs)

    @cached_property
    def sent(self) -> Labels:
        """The outputs."""
        return Labels(self.outputs)
