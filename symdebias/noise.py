"""Noise as mathematics: additive with a characteristic function, or a finite channel.

Corrections decide on properties of these, never on the class of a mechanism.
"""

from dataclasses import dataclass
from functools import cached_property

import sympy as sp

FREQUENCY = sp.Symbol("w", real=True)


@dataclass(frozen=True)
class AdditiveNoise:
    """Independent noise that is added to each coordinate.

    Attributes
    ----------
    variance : float
        Its variance per coordinate, positive.
    characteristic_function : sympy.Expr
        E exp(i w e) as an expression in `FREQUENCY`, the symbol w.
    """

    variance: float
    characteristic_function: sp.Expr

    @cached_property
    def is_gaussian(self) -> bool:
        """Whether the logarithm of the characteristic function is -variance w^2/2."""
        exponent = sp.expand_log(sp.log(self.characteristic_function), force=True)
        return bool(sp.simplify(exponent + sp.Float(self.variance, 17) * FREQUENCY**2 / 2) == 0)


def gaussian_noise(scale: float) -> AdditiveNoise:
    """Return normal noise of a standard deviation."""
    variance = scale * scale
    return AdditiveNoise(variance, sp.exp(-sp.Float(variance, 17) * FREQUENCY**2 / 2))


@dataclass(frozen=True)
class FiniteChannel:
    """A value out of a finite set is replaced by a random one.

    Attributes
    ----------
    inputs, outputs : tuple of float
        The values that go in and come out.
    matrix : tuple of tuples of float
        ``matrix[i][j]`` is the probability of output j given input i; rows sum to 1.
    """

    inputs: tuple[float, ...]
    outputs: tuple[float, ...]
    matrix: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        if len(self.matrix) != len(self.inputs) or any(len(row) != len(self.outputs) for row in self.matrix):
            raise ValueError(
                f"a channel of {len(self.inputs)} inputs and {len(self.outputs)} outputs needs a matrix with one "
                "row per input and one column per output."
            )
        for row in self.matrix:
            if not (all(entry >= 0 for entry in row) and abs(sum(row) - 1) <= 1e-12):
                raise ValueError("each row of a channel's matrix must be a probability distribution.")
        for values in (self.inputs, self.outputs):
            if len(set(values)) < len(values):
                raise ValueError("the inputs of a channel must be distinct, and so must its outputs.")
