"""Public ranges of what a mechanism takes: numbers, balls, grids and labels, each with its clipping and its width.

A range is declared before the data are seen. Values outside are brought inside before the noise, and the sensitivity,
how far two values inside can lie apart, is exact: a fraction, rounded once and to the safe side.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np

from symdebias._arrays import (
    BooleanArray,
    FloatArray,
    IntegerArray,
    all_among,
    check_finite_values,
    check_labels,
    places_among,
)
from symdebias._domains import RADIUS, Interval, LabelSet, check_name, shown
from symdebias._names import composed
from symdebias.codegen import draws
from symdebias.codegen.parallel import NUMBERS, over_chunks
from symdebias.mechanisms.clipping import (
    UNCLIPPED,
    any_column,
    between,
    in_ball,
    nearest_places,
    require_finite,
    row_blocks,
)
from symdebias.noise import declared_state

Pair = tuple[Any, Any]

_END = Interval(-1e100, 1e100, "both", "Give public bounds, known before the data.")
_STEP = Interval(1e-100, 1e100, "both", "Give the step of the grid that the values lie on, such as 1 for counts.")
# A correction holds a table of their squares: at this number 0.8 GB.
MOST_LABELS = 10_000
# Places on the grid are exact integers in float64 up to here.
_FARTHEST_PLACE = 2.0**52


class Range(ABC):
    """What a mechanism takes, immutable.

    Examples
    --------
    >>> unit = Numbers((0.0, 1.0))
    >>> isinstance(unit, Range), unit.width
    (True, 1)
    """

    # Whether `clip` refuses NaN and infinity by itself.
    refuses_infinite: ClassVar[bool] = False

    __getstate__ = declared_state

    @property
    @abstractmethod
    def bound(self) -> float | None:
        """The largest L2 norm of a value inside, or None where nothing is declared."""

    @property
    def width(self) -> int | None:
        """The number of columns that are noised together, or None for any number: one where bounds are declared."""
        return None if self.bound is None else 1

    @property
    def farthest(self) -> Pair | None:
        """Two values inside that lie farthest apart, or None where they are not known."""
        return None

    @abstractmethod
    def clip(self, values: FloatArray) -> tuple[FloatArray, BooleanArray]:
        """Return a copy of values of shape (n,) or (n, k) brought inside, and which records lay outside."""


@dataclass(frozen=True)
class Numbers(Range):
    """One number per record within bounds; without bounds numbers or vectors of any size.

    Attributes
    ----------
    bounds : pair of float or None
        Public ends (low, high), low < high.

    Examples
    --------
    >>> Numbers((-0.5, 1)).clip(np.array([-2.0, 0.25]))[0].tolist()
    [-0.5, 0.25]
    """

    bounds: tuple[float, float] | None = None
    refuses_infinite: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "bounds", None if self.bounds is None else checked_bounds(self.bounds))

    @property
    def bound(self) -> float | None:
        """The largest absolute value within the bounds."""
        return None if self.bounds is None else max(map(abs, self.bounds))

    @property
    def farthest(self) -> Pair | None:
        """The bounds."""
        return self.bounds

    @property
    def sensitivity(self) -> Fraction:
        """High - low, exactly."""
        assert self.bounds is not None
        return Fraction(self.bounds[1]) - Fraction(self.bounds[0])

    def clip(self, values: FloatArray) -> tuple[FloatArray, BooleanArray]:
        """Return numbers within the bounds, and which lay outside."""
        if self.bounds is None:
            require_finite(values)
            return _as_they_are(values)
        one_number_each(values)
        return between(values, *self.bounds)

    def origin(self, step: float) -> int:
        """Return the multiple of a step that places are counted from: 0, or the lower of bounds that are far out."""
        assert self.bounds is not None
        if max(map(abs, self.bounds)) < _FARTHEST_PLACE * step:
            return 0
        return math.ceil(Fraction(self.bounds[0]) / Fraction(step))

    def multiples(self, values: FloatArray, step: float, out: IntegerArray | None = None) -> IntegerArray:
        """Return the nearest multiples of a power of two, counted from `origin`; all are within the bounds.

        Parameters
        ----------
        values : array of shape (n,) or (n, 1), float64
            Numbers within the bounds.
        step : float
            A power of two; a multiple of it lies within the bounds.
        out : array of the shape of `values`, int64, optional
            For some of many contiguous values, what is written to, by a kernel; it may be in the place of the values.
        """
        assert self.bounds is not None
        origin = self.origin(step)
        low, high = _whole_steps(self.bounds, step)
        # The difference is rounded where the origin is not 0, which moves a place and not the bounds of places.
        start = self.bounds[0] if origin else 0.0
        return nearest_places(values, start, step, low - origin, high - origin, out)


@dataclass(frozen=True)
class Ball(Range):
    """Vectors of a bounded norm, or numbers in [-radius, radius]; without a radius any.

    Attributes
    ----------
    radius : float or None
        Public bound on the norm, positive.
    order : {2, 1}
        Of the norm.

    Examples
    --------
    >>> Ball(1.0).clip(np.array([[3.0, 4.0]]))[0].round(6).tolist()
    [[0.6, 0.8]]
    """

    radius: float | None = None
    order: int = 2
    refuses_infinite: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "radius", None if self.radius is None else RADIUS.check("radius", self.radius))

    @property
    def bound(self) -> float | None:
        """The radius, which bounds the L2 norm for either order."""
        return self.radius

    @property
    def width(self) -> None:
        """Any number of columns."""
        return None

    @property
    def farthest(self) -> Pair | None:
        """The ends of a diameter."""
        return None if self.radius is None else (-self.radius, self.radius)

    @property
    def sensitivity(self) -> Fraction:
        """The diameter in the same norm, exactly."""
        assert self.radius is not None
        return 2 * Fraction(self.radius)

    def with_coordinate(self, bound: float) -> float:
        """Return the radius of the smallest ball that holds all vectors inside with one more coordinate, rounded up.

        Parameters
        ----------
        bound : float
            Of the absolute value of that coordinate: the radius is sqrt(radius^2 + bound^2), and in the L1 norm
            radius + bound.
        """
        assert self.radius is not None
        wanted = math.hypot(self.radius, bound) if self.order == 2 else self.radius + bound
        exact = Fraction(self.radius) ** self.order + Fraction(bound) ** self.order
        # The least float64 that is large enough, the same on every machine.
        while Fraction(math.nextafter(wanted, 0.0)) ** self.order >= exact:
            wanted = math.nextafter(wanted, 0.0)
        while Fraction(wanted) ** self.order < exact:
            wanted = math.nextafter(wanted, math.inf)
        return wanted

    def clip(self, values: FloatArray) -> tuple[FloatArray, BooleanArray]:
        """Return rows drawn in to the ball, and which lay outside; numbers are clipped to the interval."""
        if self.radius is None:
            require_finite(values)
            return _as_they_are(values)
        if values.ndim == 1:
            return between(values, -self.radius, self.radius)
        return in_ball(values, self.radius, order=self.order)

    def origin(self, step: float) -> int:
        """Return the multiple of a step that places are counted from."""
        return 0

    def _powers(self, sizes: Any) -> Any:
        """Return sums of the sizes of each row, or of their squares."""
        return sizes.sum(axis=1) if self.order == 1 else np.einsum("ij,ij->i", sizes, sizes)

    def multiples(self, values: FloatArray, step: float, out: IntegerArray | None = None) -> IntegerArray:
        """Return the nearest multiples of a power of two as integers, or those next to 0 where the norm asks for it.

        Parameters
        ----------
        values : array of shape (n,) or (n, k), float64
            Rows whose exact norm is at most the radius.
        step : float
            A power of two, more than 2^-31 of the radius.
        out : array of the shape of `values`, int64, optional
            As for `Numbers.multiples`.

        Returns
        -------
        array of the shape of `values`, int64
            z with (sum |z|^order) step^order <= radius^order, exactly.
        """
        assert self.radius is not None
        reach, limit, farthest = _reach(self.radius, self.order, step)
        if farthest >= 2**31:
            raise ValueError(
                f"a bound of {shown(self.radius)} on the norm is 2^31 steps of the grid of the noise or more, and "
                "squares of places would overflow. Use more noise: a smaller budget, or a larger scale."
            )
        # Of a row of one number the one next to 0 is the farthest place that is within the bounds.
        if values.ndim == 1 or values.shape[1] == 1:
            return nearest_places(values, 0.0, step, -farthest, farthest, out)
        columns = values.shape[1]
        # Rounding moves a number of a row within the ball by half a step.
        if out is not None and columns * (farthest + 2) ** self.order < 2**63:
            # The inverse of a power of two is exact.
            if draws.compiled("place_rows")(values, 1 / step, limit, farthest + 1.0, self.order == 2, out):
                raise ValueError(UNCLIPPED)
            return out
        # It moves the row by sqrt(k)/2 steps, and in the L1 norm by k/2: sums stay below 2^63.
        most = (reach + columns) ** self.order * (1 + 1e-9)
        places = np.empty(values.shape, dtype=np.int64) if out is None else out
        for rows in row_blocks(*values.shape):
            steps = values[rows] / step
            nearest = np.rint(steps)
            if not np.all(self._powers(np.abs(nearest)) <= most):
                raise ValueError(UNCLIPPED)
            found, towards = nearest.astype(np.int64), np.trunc(steps, out=steps).astype(np.int64)
            # All rows are looked at and computed in both ways, so that the time says nothing of which ones are near.
            beyond = self._powers(np.abs(found)) > limit
            found += (towards - found) * beyond[:, None]
            if np.any(self._powers(np.abs(found)) > limit):
                raise ValueError(UNCLIPPED)
            places[rows] = found
        return places


@dataclass(frozen=True)
class Grid(Numbers):
    """Multiples of a step, one per record within bounds; without bounds any.

    Noise in whole steps hides all of a value only where that is a whole number of steps, so that others are refused.

    Attributes
    ----------
    bounds : pair of float or None
        Public ends on the grid, a step apart at least.
    step : float
        The step, positive.

    Examples
    --------
    >>> Grid((0, 1), step=0.25).steps
    4
    """

    step: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        step, bounds = _STEP.check("step", self.step), self.bounds
        object.__setattr__(self, "step", step)
        for index, end in enumerate(bounds or ()):
            if not abs(self.places(np.array(end))) <= _FARTHEST_PLACE:
                raise ValueError(
                    f"bounds[{index}]={shown(end)} is more than 2^52 steps of {shown(step)} from 0. Places must be "
                    "exact integers. Give a larger step."
                )
            if not self._holds(np.array(end)):
                raise ValueError(
                    f"bounds[{index}]={shown(end)} is no multiple of step={shown(step)}. Give bounds on the grid."
                )
        if bounds is not None and self.steps < 1:
            raise ValueError(
                f"bounds={shown(bounds)} are one point of the grid of step={shown(step)}. They must differ by a step "
                "at least: give wider bounds or a smaller step."
            )

    @property
    def steps(self) -> int:
        """The distance of the bounds in steps."""
        low, high = self._ends
        return high - low

    @property
    def sensitivity(self) -> Fraction:
        """The distance of the bounds, from whole steps: as float64 they may lie a rounding closer together."""
        return self.steps * Fraction(self.step)

    def places(self, values: FloatArray) -> FloatArray:
        """Return the nearest places on the grid, whole numbers; infinite where the quotient overflows."""
        with np.errstate(over="ignore"):
            nearest: FloatArray = np.rint(values / self.step)
        return nearest

    def clip(self, values: FloatArray) -> tuple[FloatArray, BooleanArray]:
        """Return values of the grid within the bounds, and which lay outside.

        Raises
        ------
        ValueError
            A value is not on the grid, or without bounds too far out on it.
        """
        if self.bounds is not None:
            one_number_each(values)
        if self.bounds is None or values.size < draws.MANY or not values.flags.c_contiguous:
            return self._clip(values)
        clipped, outside = np.empty(values.shape), np.empty(len(values), dtype=bool)
        kernel, marks = draws.compiled("clip_grid"), outside.view(np.uint8)
        given, flat = values.ravel(), clipped.ravel()

        def clip(part: slice) -> int:
            found: int = kernel(given[part], self.step, self.bounds, self._ends, flat[part], marks[part])
            return found

        # What is refused has a message of its own.
        return self._clip(values) if any(over_chunks(len(values), clip, NUMBERS)) else (clipped, outside)

    def _clip(self, values: FloatArray) -> tuple[FloatArray, BooleanArray]:
        require_finite(values)
        places = self.places(values)
        far = ~(np.abs(places) <= _FARTHEST_PLACE)
        if self.bounds is None and far.any():
            raise ValueError(
                f"the value in row {int(np.argmax(any_column(far)))} is more than 2^52 steps of {shown(self.step)} "
                "from 0. Places must be exact integers. Declare bounds, or a larger step."
            )
        # Whether a number so far off is on the grid cannot be told; it is clipped to a bound, which is.
        off = any_column(~(far | self._holds(values)))
        if off.any():
            raise ValueError(
                f"the value in row {int(np.argmax(off))} is no multiple of step={shown(self.step)}: noise on a grid "
                "would leave what lies between its points in the open. Round the values first, or declare their step."
            )
        if self.bounds is None:
            return _as_they_are(values)
        low, high = self._ends
        return np.clip(values, *self.bounds), any_column((places < low) | (places > high))

    @property
    def _ends(self) -> tuple[int, int]:
        assert self.bounds is not None
        low, high = self.places(np.array(self.bounds))
        return int(low), int(high)

    def _holds(self, values: FloatArray) -> BooleanArray:
        """Return which values are multiples of the step up to 1 part in 1e12: 0.3 counts as 3 steps of 0.1."""
        with np.errstate(over="ignore", invalid="ignore"):
            quotients = values / self.step
            # Far from 0 that part is more than a step, and everything would pass.
            tolerance = np.minimum(1e-12 * np.maximum(1, np.abs(quotients)), 0.25)
            near = (np.abs(quotients) <= _FARTHEST_PLACE) & (np.abs(quotients - np.rint(quotients)) <= tolerance)
        return np.asarray(near)


@dataclass(frozen=True)
class Labels(Range):
    """One of k declared labels per record: numbers, or text that stands for the codes 0 to k - 1.

    Attributes
    ----------
    values : tuple of float or of str
        The labels, distinct.

    Examples
    --------
    >>> Labels(("n", "e", "s")).numbers
    (0.0, 1.0, 2.0)
    """

    values: tuple[Any, ...]
    refuses_infinite: ClassVar[bool] = True

    @classmethod
    def declared(cls, values: Any, name: str) -> "Labels":
        """Return labels in the order given, checked: at least two, all numbers or all text, distinct and finite.

        Parameters
        ----------
        values : sequence of float or of str
            What was given.
        name : str
            The name of the argument.

        Raises
        ------
        TypeError, ValueError
            They are no such sequence.
        """
        if hasattr(values, "tolist"):
            values = values.tolist()
        if isinstance(values, str):
            raise TypeError(f'{name} is one text. Give a list of two or more categories, such as {name}=("a", "b").')
        if isinstance(values, Sequence) and not isinstance(values, bytes):
            if len(values) > MOST_LABELS:
                raise ValueError(
                    f"{name} has {len(values):,} values. There may be {MOST_LABELS:,}, as a correction weighs each "
                    "against each other: merge rare ones."
                )
            if values and all(isinstance(value, str) and value for value in values):
                if len(values) < 2 or len(set(values)) < len(values):
                    raise ValueError(
                        f"{name}={shown(tuple(values), 100)} does not list two or more different values. Name each "
                        "category once."
                    )
                return cls(tuple(check_name(name, value, "a category") for value in values))
            if values and all(isinstance(value, bool) for value in values):
                raise TypeError(
                    f"{name}={shown(tuple(values), 100)} are no texts and no numbers. Give "
                    f'{name}=("False", "True"), which a column of true and false is read as, or (0, 1) for numbers.'
                )
        LabelSet.declare(name, values)
        return cls(tuple(float(value) for value in values))

    @property
    def is_text(self) -> bool:
        """Whether the labels are text."""
        return isinstance(self.values[0], str)

    @cached_property
    def by_letters(self) -> dict[str, Any]:
        """The labels by their texts with accents as parts of letters, the first of several that are then one."""
        return {composed(str(value)): value for value in reversed(self.values)}

    @property
    def is_number_pair(self) -> bool:
        """Whether they are two numbers, which stand for themselves wherever labels are used."""
        return len(self.values) == 2 and not self.is_text

    @cached_property
    def numbers(self) -> tuple[float, ...]:
        """The numbers that stand for the labels: themselves, or the codes of text."""
        return self._codes if self.is_text else self.values

    @property
    def bound(self) -> float:
        """The largest absolute value of the numbers."""
        return max(map(abs, self.numbers))

    def codes(self, values: FloatArray) -> IntegerArray:
        """Return the places, from 0 on, of numbers that stand for labels."""
        return places_among(self.numbers, values)

    def places(self, values: FloatArray) -> FloatArray:
        """Return what `codes` does as floats, those given where they are places already."""
        return values if self.numbers == self._codes else self.codes(values).astype(np.float64)

    @cached_property
    def _codes(self) -> tuple[float, ...]:
        return tuple(map(float, range(len(self.values))))

    def clip(self, values: FloatArray) -> tuple[FloatArray, BooleanArray]:
        """Return labels as they are; there is nothing that another one could be clipped to.

        Raises
        ------
        ValueError
            A value stands for no label, or there is more than one per record.
        """
        if values.ndim == 2 and values.shape[1] == 1:
            values = values[:, 0]
        if values.ndim != 1:
            raise ValueError(
                f"one label per record is noised; the values have the shape {values.shape}. Pass an array of shape "
                "(n,)."
            )
        if len(values) >= draws.MANY and values.flags.c_contiguous:
            copied, outside = np.empty(len(values)), np.empty(len(values), dtype=bool)

            def copy(part: slice) -> bool:
                outside[part] = False
                return self._copied(values[part], copied[part])

            if all(over_chunks(len(values), copy, 2 * NUMBERS)):
                return copied, outside
        try:
            check_labels(values, self.numbers, "labels", remedy="declare categories={} on the mechanism")
        except ValueError:
            # What is no number is none of the labels either, and has a message of its own.
            check_finite_values(values)
            raise
        return _as_they_are(values)

    def _copied(self, values: FloatArray, out: FloatArray) -> bool:
        """Write many labels to an array, and return whether all are declared."""
        if len(self.numbers) == 2:
            return not draws.compiled("labels")(values, *self.numbers, out)
        if self.numbers == self._codes:
            return not draws.compiled("codes")(values, float(len(self._codes)), out)
        out[:] = values
        return all_among(out, self.numbers)


# ---- what they share with solvers that clip true records -------------------------------------------------


def checked_bounds(bounds: Any, name: str = "bounds") -> tuple[float, float]:
    """Return public bounds (low, high) as floats; `name` is that of the argument, for messages.

    Raises
    ------
    TypeError, ValueError
        They are no pair of finite numbers with low < high.
    """
    if hasattr(bounds, "tolist"):
        bounds = bounds.tolist()
    if isinstance(bounds, (str, bytes)) or not isinstance(bounds, Sequence) or len(bounds) != 2:
        raise TypeError(
            f"{name}={shown(bounds, 60)} is no pair of numbers. Give {name}=(low, high), public and finite."
        )
    low, high = (_END.check(f"{name}[{place}]", value) for place, value in enumerate(bounds))
    if not low < high:
        raise ValueError(f"{name}={shown((low, high))} are not in order. The first must be below the second.")
    return low, high


@lru_cache(maxsize=1024)
def _whole_steps(bounds: tuple[float, float], step: float) -> tuple[int, int]:
    """Return the least and the largest multiple of a step within bounds, in steps."""
    low, high = (Fraction(end) / Fraction(step) for end in bounds)
    return math.ceil(low), math.floor(high)


@lru_cache(maxsize=1024)
def _reach(radius: float, order: int, step: float) -> tuple[float, int, int]:
    """Return a radius in steps, and the whole parts of its power of some order and of itself."""
    reach = Fraction(radius) / Fraction(step)
    return float(reach), math.floor(reach**order), math.floor(reach)


def one_number_each(values: FloatArray) -> None:
    """Refuse values with more than one column."""
    if values.ndim == 2 and values.shape[1] != 1:
        raise ValueError(
            f"bounds are those of one number per record; the values have the shape {values.shape}. Give radius= for a "
            "vector, or each column a mechanism of its own."
        )


def rounded_up(exact: Fraction) -> float:
    """Return the least float that is not below an exact number."""
    nearest = float(exact)
    return math.nextafter(nearest, math.inf) if Fraction(nearest) < exact else nearest


def scale_of(sensitivity: Fraction, epsilon: float) -> float:
    """Return sensitivity/epsilon rounded up, so that sensitivity/scale never exceeds epsilon.

    Parameters
    ----------
    sensitivity : fractions.Fraction
        The exact L1 sensitivity.
    epsilon : float
        The budget.
    """
    return rounded_up(sensitivity / Fraction(epsilon))


def _as_they_are(values: FloatArray) -> tuple[FloatArray, BooleanArray]:
    return values.copy(), np.zeros(len(values), dtype=bool)
