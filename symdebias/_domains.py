"""Domains of arguments as values: one object checks, words the message, and gives samples for tests."""

import math
import numbers
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Interval:
    """An interval of real numbers.

    Attributes
    ----------
    low, high : float
        The ends.
    closed : {"neither", "left", "right", "both"}
        Which ends belong to it.
    advice : str
        What to do about a value outside, as a sentence.
    """

    low: float
    high: float
    closed: Literal["neither", "left", "right", "both"] = "neither"
    advice: str = ""

    def __str__(self) -> str:
        left = "[" if self.closed in ("left", "both") else "("
        right = "]" if self.closed in ("right", "both") else ")"
        return f"{left}{self.low:g}, {self.high:g}{right}"

    def __contains__(self, value: float) -> bool:
        # Written so that NaN, which fails every comparison, is outside.
        above = value >= self.low if self.closed in ("left", "both") else value > self.low
        below = value <= self.high if self.closed in ("right", "both") else value < self.high
        return above and below

    def check(self, name: str, value: Any) -> float:
        """Return a value as float, or say why it is not allowed.

        Parameters
        ----------
        name : str
            The name of the argument.
        value : object
            What was given.

        Raises
        ------
        TypeError
            It is not a real number (bool, text, complex numbers and arrays are not).
        ValueError
            It lies outside.
        """
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            raise TypeError(f"{name} must be a real number in {self}; got {type(value).__name__}. {self.advice}".strip())
        number = float(value)
        if number not in self:
            raise ValueError(f"{name}={value!r} is not in {self}. {self.advice}".strip())
        return number

    def outside(self) -> tuple[Any, ...]:
        """Return samples that `check` refuses."""
        values: list[Any] = [math.nan, True, "1", 1j, None, [1.0]]
        if self.low > -math.inf:
            values += [self.low - 1.0, -math.inf]
            if self.closed in ("neither", "right"):
                values.append(self.low)
        if self.high < math.inf:
            values += [self.high + 1.0, self.high * 2 + 1.0]
        if self.closed in ("neither", "left"):
            values.append(self.high)
        return tuple(values)


@dataclass(frozen=True)
class Integer:
    """The integers from a least one on.

    Attributes
    ----------
    low : int
        The least.
    """

    low: int

    def check(self, name: str, value: Any) -> int:
        """Return a value as int, or raise TypeError or ValueError, as `Interval.check`."""
        if isinstance(value, bool) or not isinstance(value, numbers.Integral):
            raise TypeError(f"{name} must be an integer of at least {self.low}; got {value!r}.")
        if not value >= self.low:
            raise ValueError(f"{name}={value} is too small. It must be an integer of at least {self.low}.")
        return int(value)

    def outside(self) -> tuple[Any, ...]:
        """Return samples that `check` refuses."""
        return (self.low - 1, -5, 1.5, math.nan, True, "1", None)


# Below 1e-6 a budget is noise only, and above 700 e^epsilon overflows: both are mistakes, not wishes.
EPSILON = Interval(
    1e-6, 700.0, "both", "Give the privacy budget; for noise without a privacy claim use from_scale."
)
DELTA = Interval(
    0.0, 1.0, "neither", "Give a probability well below one over the number of records, such as 1e-5."
)
RADIUS = Interval(0.0, 1e150, "neither", "Give a public bound on the norm, known before the data.")
SCALE = Interval(0.0, 1e150, "neither", "Give the standard deviation of the noise.")
POSITIVE = Interval(0.0, math.inf, "neither")
NON_NEGATIVE = Interval(0.0, math.inf, "left")
COUNT = Integer(1)
