"""Domains of arguments as values: one object checks, words the message, and gives samples for tests.

A domain refuses what is not a real number (booleans, text, complex numbers, arrays) with TypeError, and
what lies outside, NaN included, with ValueError.
"""

import math
import numbers
import unicodedata
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from symdebias._names import meant

# What no domain of numbers takes, whatever its ends; tests of every argument use it.
NOT_NUMBERS: tuple[Any, ...] = (True, "1", b"1", 1j, None, [1.0], (1.0,))

LONGEST_NAME = 1_000
# Control characters, formats (which turn the direction of text, or have no width), halves of pairs, and line breaks.
_UNSEEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def check_name(argument: str, name: Any, what: str = "a column") -> str:
    """Return a name that a reader sees as it is, or say why it is not allowed.

    Parameters
    ----------
    argument : str
        The name of the argument.
    name : object
        What was given.
    what : str
        What it names, for messages.

    Raises
    ------
    TypeError
        It is no text, or none that is seen.
    ValueError
        It is too long, or has a character that is not seen: of control, of direction, of no width, or a lone surrogate.

    Examples
    --------
    >>> check_name("columns", "age")
    'age'
    >>> check_name("columns", chr(0x202E) + "ega")
    Traceback (most recent call last):
    ValueError: columns has a name with the character U+202E, which is not seen. Rename it in letters that are.
    """
    if not isinstance(name, str) or not name.strip():
        raise TypeError(f"{argument} has {shown(name, 100)}, which is not {what} name. Names are non-empty text.")
    if len(name) > LONGEST_NAME:
        raise ValueError(
            f"{argument} has a name of {len(name):,} characters. It may have {LONGEST_NAME:,}: use a shorter one."
        )
    unseen = first_unseen(name)
    if unseen:
        raise ValueError(
            f"{argument} has a name with the character U+{ord(unseen):04X}, which is not seen. Rename it in letters "
            "that are."
        )
    return name


def first_unseen(text: str, allowed: str = "") -> str:
    """Return the first character of a text that a reader does not see, or an empty text.

    Parameters
    ----------
    text : str
        The text.
    allowed : str
        Characters that are taken all the same, such as line breaks.
    """
    for character in text:
        # Almost every character is printable, which is cheap to know.
        if not character.isprintable() and character not in allowed and unicodedata.category(character) in _UNSEEN:
            return character
    return ""


def seen(text: str, most: int) -> str:
    """Return the beginning of a text as a message may show it: characters that are not seen by their numbers.

    Examples
    --------
    >>> seen("a" + chr(0x202E) + "b" + chr(10), 80)
    'aU+202EbU+000A'
    """
    return "".join(f"U+{ord(one):04X}" if first_unseen(one) else one for one in text[:most])


def is_number(value: Any) -> bool:
    """Whether a value is one real number: no boolean, text, complex number or array."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def is_integer(value: Any) -> bool:
    """Whether a value is one integer and not a boolean."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def is_choice(value: Any, known: Container[str]) -> bool:
    """Whether a value is one of some words: of others, such as arrays or pandas.NA, == may be no answer."""
    return isinstance(value, str) and value in known


def check_choice(name: str, value: Any, known: Iterable[str]) -> str:
    """Return a word that is one of those known, or raise ValueError, which shows no data.

    Examples
    --------
    >>> check_choice("order", "given", ("shuffled", "given"))
    'given'
    >>> check_choice("order", "shufled", ("shuffled", "given"))
    Traceback (most recent call last):
    ValueError: order='shufled' is not known. Is shuffled meant? Choose one of shuffled, given.
    """
    words = tuple(known)
    if is_choice(value, words):
        return str(value)
    found = meant(value, words, {}) if isinstance(value, str) else None
    is_meant = f" Is {found} meant?" if found else ""
    raise ValueError(f"{name}={kind_or_value(value)} is not known.{is_meant} Choose one of {', '.join(words)}.")


def is_list(value: Any) -> bool:
    """Whether a value is several in a row: no text, no mapping, and no array without a dimension."""
    is_one = isinstance(value, (str, bytes, Mapping)) or getattr(value, "ndim", 1) == 0
    return isinstance(value, Iterable) and not is_one


def check_flag(name: str, value: Any) -> bool:
    """Return a flag as bool, NumPy's too, or raise TypeError, which shows no data.

    Examples
    --------
    >>> check_flag("progress", True)
    True
    >>> check_flag("progress", [1, 2])
    Traceback (most recent call last):
    TypeError: progress must be True or False; got list. Pass one of them.
    """
    flag = _without_scalars(value)
    if not isinstance(flag, bool):
        raise TypeError(f"{name} must be True or False; got {kind_or_value(flag)}. Pass one of them.")
    return flag


def kind_or_value(value: Any) -> str:
    """Return what was given as a message about a word, a number or a flag shows it: of anything else its type."""
    value = _without_scalars(value)
    return shown(value, 60) if value is None or isinstance(value, (str, int, float)) else type(value).__name__


@dataclass(frozen=True)
class Interval:
    """An interval of real numbers.

    Examples
    --------
    >>> Interval(0.0, 1.0, "left").check("momentum", 0)
    0.0
    >>> Interval(0.0, 1.0, "left", "Choose 0.9.").check("momentum", 1)
    Traceback (most recent call last):
    ValueError: momentum=1 is too large. It must be a number in [0, 1). Choose 0.9.
    """

    # The ends.
    low: float
    high: float
    # {"neither", "left", "right", "both"}: Which ends belong to it.
    closed: Literal["neither", "left", "right", "both"] = "neither"
    advice: str = ""  # What to do about a value that is refused, as a sentence.
    when_high: str = ""  # What to do about a value above the interval, where that differs.

    def __str__(self) -> str:
        left = "[" if self._has_low else "("
        right = "]" if self._has_high else ")"
        return f"{left}{self.low:g}, {self.high:g}{right}"

    def __contains__(self, value: float) -> bool:
        # Written so that NaN, which fails every comparison, is outside.
        above = value >= self.low if self._has_low else value > self.low
        below = value <= self.high if self._has_high else value < self.high
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
        if not is_number(value):
            raise TypeError(
                f"{name} has the type {type(value).__name__}. It must be a number in {self}. {self.advice}".strip()
            )
        try:
            number = float(value)
        except OverflowError:
            number = math.inf if value > 0 else -math.inf
        if number not in self:
            wrong = "not a number" if math.isnan(number) else "too large" if number > self.low else "too small"
            advice = self.when_high or self.advice if wrong == "too large" else self.advice
            given = shown(value) if isinstance(value, float) else f"{number:g}"
            raise ValueError(f"{name}={given} is {wrong}. It must be a number in {self}. {advice}".strip())
        return number

    def inside(self) -> tuple[float, ...]:
        """Return samples that `check` takes: the ends where they belong, their neighbours, and a middle."""
        low = self.low if self._has_low else math.nextafter(self.low, math.inf)
        high = self.high if self._has_high else math.nextafter(self.high, -math.inf)
        middle = math.sqrt(low) * math.sqrt(high) if low > 0 else 1.0 if 1.0 in self else low / 2 + high / 2
        return low, middle, high

    def outside(self) -> tuple[Any, ...]:
        """Return samples that `check` refuses, of the right type and of the wrong one."""
        below = math.nextafter(self.low, -math.inf) if self._has_low else self.low
        above = math.nextafter(self.high, math.inf) if self._has_high else self.high
        ends = tuple(value for value in (below, above, -math.inf, math.inf) if value not in self)
        return (math.nan, *ends, *NOT_NUMBERS)

    @property
    def _has_low(self) -> bool:
        return self.closed in ("left", "both")

    @property
    def _has_high(self) -> bool:
        return self.closed in ("right", "both")


@dataclass(frozen=True)
class Integer:
    """The integers from a least one to a largest."""

    low: int  # The least.
    high: int = 10**15  # The largest: by default what stands for no limit, and is a number of float64.

    def check(self, name: str, value: Any) -> int:
        """Return a value as int, or raise TypeError or ValueError, as `Interval.check`."""
        if not is_integer(value):
            raise TypeError(f"{name} must be an integer of at least {self.low}; got {kind_or_value(value)}.")
        if not value >= self.low:
            raise ValueError(f"{name}={value} is too small. It must be an integer of at least {self.low}.")
        if not value <= self.high:
            raise ValueError(f"{name}={shown(value, 40)} is too large. It may be {self.high:,}.")
        return int(value)

    def inside(self) -> tuple[int, ...]:
        """Return samples that `check` takes."""
        return self.low, self.low + 1, self.high

    def outside(self) -> tuple[Any, ...]:
        """Return samples that `check` refuses."""
        return (self.low - 1, self.low - 1000, self.high + 1, 10**400, 1.5, math.nan, math.inf, *NOT_NUMBERS)


@dataclass(frozen=True)
class LabelSet:
    """A declared set of numbers that labels are taken from."""

    values: tuple[float, ...]  # At least two, distinct and finite, in ascending order.

    def __str__(self) -> str:
        signed = min(self.values) < 0
        return " or ".join(
            spelled if spelled.startswith("-") or not signed else f"+{spelled}" for spelled in map(spell, self.values)
        )

    def check(self, name: str, value: Any) -> float:
        """Return a label as float, or raise TypeError or ValueError, as `Interval.check`."""
        if not is_number(value):
            raise TypeError(f"{name} has the type {type(value).__name__}. It must be {self}. Recode it.")
        if value not in self.values:
            raise ValueError(f"{name}={spell(float(value))} is not a declared label. It must be {self}. Recode it.")
        return float(value)

    def inside(self) -> tuple[float, ...]:
        """Return samples that `check` takes."""
        return self.values

    def outside(self) -> tuple[Any, ...]:
        """Return samples that `check` refuses."""
        near = math.nextafter(self.values[-1], -math.inf)
        return (math.nan, math.inf, self.values[0] - 1, near, *NOT_NUMBERS)

    @classmethod
    def declare(cls, name: str, values: Any, *, count: int | None = None) -> "LabelSet":
        """Return the set of some declared values.

        Parameters
        ----------
        name : str
            The name of the argument.
        values : sequence of float
            What was given, in any order.
        count : int, optional
            How many there must be; at least two otherwise.

        Raises
        ------
        TypeError
            It is no sequence, or an entry is not a real number.
        ValueError
            Entries repeat or are not finite, or their number is wrong.
        """
        wanted = {None: "two or more", 2: "two"}.get(count, str(count))
        remedy = f"Give {wanted} distinct finite numbers, such as {name}=(-1, 1)."
        if isinstance(values, (str, bytes)) or not isinstance(values, Sequence):
            order = ", which has no order" if isinstance(values, (set, frozenset)) else ""
            raise TypeError(f"{name} has the type {type(values).__name__}{order}, not a sequence of numbers. {remedy}")
        checked = []
        for value in values:
            if not is_number(value):
                raise TypeError(f"{name} has {shown(value, 60)}, which is not a number. {remedy}")
            if not abs(value) <= 1e100:
                raise ValueError(f"{name} has {shown(value, 60)}, which is not a finite number up to 1e100. {remedy}")
            checked.append(float(value))
        if len(set(checked)) < len(checked):
            raise ValueError(f"{name}={shown(tuple(values), 100)} repeats a value. {remedy}")
        if len(checked) < 2 or count not in (None, len(checked)):
            raise ValueError(f"{name} has {len(checked)} values; {wanted} are needed. {remedy}")
        return cls(tuple(sorted(checked)))


def shown(value: Any, most: int | None = None) -> str:
    """Return what was given as a message shows it: NumPy's scalars as plain numbers, cut to a length.

    Examples
    --------
    >>> import numpy as np
    >>> shown(np.float64(-0.1)), shown((np.int64(1), "a")), shown("a long text", 6)
    ('-0.1', "(1, 'a')", "'a lon")
    """
    return repr(_without_scalars(value))[:most]


def _without_scalars(value: Any) -> Any:
    # A scalar of NumPy has no dimensions and gives its Python number; arrays stay as they are.
    if hasattr(value, "dtype") and getattr(value, "ndim", None) == 0:
        return value.item()
    if type(value) in (tuple, list):
        return type(value)(map(_without_scalars, value))
    return value


def spell(value: float) -> str:
    """Return a number as a reader writes it: 1 for 1.0, all digits otherwise."""
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(float(value))


# Below 1e-6 a budget is noise only, and above 700 e^epsilon overflows: both are mistakes, not wishes.
EPSILON = Interval(
    1e-6,
    700.0,
    "both",
    "Give the privacy budget of one record, such as 1.0.",
    when_high="No budget of this size protects anything. Where no privacy is wanted, declare no mechanism, "
    "or known noise with from_scale.",
)
DELTA = Interval(
    0.0,
    1.0,
    "neither",
    "Give a probability well below one over the number of records, such as 1e-5; Gaussian noise has no guarantee at 0.",
)
# Their squares, and the squares of scales calibrated to them, must neither overflow nor vanish.
RADIUS = Interval(
    1e-100,
    1e100,
    "both",
    "Give a public bound on the norm, known before the data; change units where needed.",
)
SCALE = Interval(
    1e-100, 1e120, "both", "Give the size of the noise in the units of the column, and change these where needed."
)
POSITIVE = Interval(0.0, math.inf, "neither")
NON_NEGATIVE = Interval(0.0, math.inf, "left")
OPEN_UNIT = Interval(0.0, 1.0, "neither")
COUNT = Integer(1)
