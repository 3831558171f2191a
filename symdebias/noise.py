"""Noise as mathematics: additive with a characteristic function, or a finite channel.

Corrections decide on properties of these, never on the class of a mechanism.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import sympy as sp

from symdebias._domains import Interval

FREQUENCY = sp.Symbol("frequency", real=True)

_VARIANCE = Interval(1e-210, 1e250, "both", "Give the variance of one coordinate; without noise declare none.")
_PROBABILITY = Interval(0.0, 1.0, "both", "Give each row of the channel's matrix as a probability distribution.")
_VALUE = Interval(-1e100, 1e100, "both", "Give the values of a channel as finite numbers.")


@dataclass(frozen=True)
class AdditiveNoise:
    """Independent noise of mean 0 that is added to each coordinate.

    Parameters
    ----------
    variance : float
        Its variance per coordinate, positive.
    characteristic_function : sympy.Expr
        phi(w) = E exp(i w e) as a real expression in `FREQUENCY`, the symbol w.

    Raises
    ------
    TypeError
        The characteristic function is not a SymPy expression.
    ValueError
        It has other symbols, or its curvature at 0 is not that of the variance.

    Examples
    --------
    >>> laplace = AdditiveNoise(2.0, 1 / (1 + FREQUENCY**2))
    >>> laplace.is_gaussian
    False
    """

    variance: float
    characteristic_function: sp.Expr

    def __post_init__(self) -> None:
        object.__setattr__(self, "variance", _VARIANCE.check("variance", self.variance))
        phi = self.characteristic_function
        if not isinstance(phi, sp.Expr):
            raise TypeError(
                f"the characteristic function has the type {type(phi).__name__}. It must be a SymPy "
                "expression in symdebias.noise.FREQUENCY; text is never evaluated."
            )
        if not phi.free_symbols <= {FREQUENCY}:
            other = ", ".join(sorted(symbol.name for symbol in phi.free_symbols - {FREQUENCY}))
            raise ValueError(
                f"the characteristic function has the symbols {other}. It must be an expression in "
                "symdebias.noise.FREQUENCY alone."
            )
        if not all(abs(ratio - 1) < 1e-6 for ratio in self._curvatures()):
            raise ValueError(
                f"the characteristic function {phi} is not that of noise with mean 0 and the variance "
                f"{self.variance!r}. It must be 1 - variance w^2/2 near 0: correct one of the two."
            )

    def _curvatures(self) -> list[complex]:
        """Return (1 - phi)/(variance w^2/2) at small w of either sign, where it is 1."""
        exact = self.characteristic_function.xreplace(
            {number: sp.Rational(number) for number in self.characteristic_function.atoms(sp.Float)}
        )
        step = sp.sqrt(sp.Rational(1, 10**16) / sp.Rational(self.variance))
        curvatures = (2 * (1 - exact.xreplace({FREQUENCY: w})) / 10 ** -sp.Integer(16) for w in (step, -step))
        return [complex(curvature.evalf(40)) for curvature in curvatures]

    @cached_property
    def is_gaussian(self) -> bool:
        """Whether the logarithm of the characteristic function is -variance w^2/2."""
        exponent = sp.expand(sp.expand_log(sp.log(self.characteristic_function), force=True))
        if not exponent.is_polynomial(FREQUENCY):
            return False
        powers = sp.Poly(exponent, FREQUENCY).as_dict()
        wanted = -self.variance / 2
        # Decimal constants in the expression carry the rounding of float64.
        return set(powers) == {(2,)} and bool(abs(powers[(2,)] - wanted) <= 1e-14 * abs(wanted))


@lru_cache(maxsize=1024)
def gaussian_noise(scale: float) -> AdditiveNoise:
    """Return normal noise of a standard deviation."""
    variance = scale * scale
    return AdditiveNoise(variance, sp.exp(-sp.Float(variance, 17) * FREQUENCY**2 / 2))


@dataclass(frozen=True)
class FiniteChannel:
    """A value out of a finite set is replaced by a random one.

    Parameters
    ----------
    inputs, outputs : sequence of float
        The values that go in and come out, distinct and finite.
    matrix : sequence of sequences of float
        ``matrix[i][j]`` is the probability of output j given input i; rows sum to 1 within 1e-12.

    Raises
    ------
    TypeError, ValueError
        The matrix has another shape, a row is no distribution, or values repeat.

    Examples
    --------
    >>> FiniteChannel((0, 1), (0, 1), ((0.75, 0.25), (0.25, 0.75))).matrix[0]
    (0.75, 0.25)
    """

    inputs: tuple[float, ...]
    outputs: tuple[float, ...]
    matrix: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        for name in ("inputs", "outputs"):
            values = _listed(getattr(self, name), name)
            checked = tuple(_VALUE.check(f"{name}[{index}]", value) for index, value in enumerate(values))
            if not checked or len(set(checked)) < len(checked):
                raise ValueError(f"the {name} of a channel must be distinct; got {values}. List each value once.")
            object.__setattr__(self, name, checked)
        rows = [_listed(row, f"matrix[{index}]") for index, row in enumerate(_listed(self.matrix, "matrix"))]
        if len(rows) != len(self.inputs) or any(len(row) != len(self.outputs) for row in rows):
            raise ValueError(
                f"the matrix has rows of the lengths {[len(row) for row in rows]}. A channel of "
                f"{len(self.inputs)} "
                f"inputs and {len(self.outputs)} outputs needs one row per input and one column per output."
            )
        matrix = tuple(
            tuple(_PROBABILITY.check(f"matrix[{i}][{j}]", entry) for j, entry in enumerate(row))
            for i, row in enumerate(rows)
        )
        for index, row in enumerate(matrix):
            if not abs(sum(row) - 1) <= 1e-12:
                raise ValueError(
                    f"row {index} of the matrix sums to {sum(row)!r}. It must sum to 1 within 1e-12: give "
                    "each row as a probability distribution."
                )
        object.__setattr__(self, "matrix", matrix)


def _listed(values: Any, name: str) -> tuple[Any, ...]:
    if hasattr(values, "tolist"):
        values = values.tolist()
    if isinstance(values, (str, bytes)) or not isinstance(values, Sequence):
        raise TypeError(f"{name} has the type {type(values).__name__}. It must be a sequence of numbers.")
    return tuple(values)
